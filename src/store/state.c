/* State: checking, applying and reading changes, and the ids of events that only changed state.
 *
 * Owns the rows of entities State and StateEvent. Called inside of the transactions of append.c and
 * session.c, and by state_live.c and the ADK room for reading. Takes no lock: a change of session
 * state relies on the lock of the session's row, a change of app or user state on the counter of
 * its shard, which the batch has locked (batch.c). Changes apply all or none, with the append that
 * brings them. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/option.h"
#include "base/sha256.h"
#include "base/str.h"
#include "store/state_internal.h"

static_assert((int)QP_SCOPE_APP == (int)QP_STATE_SCOPE_APP &&
                  (int)QP_SCOPE_USER == (int)QP_STATE_SCOPE_USER &&
                  (int)QP_SCOPE_SESSION == (int)QP_STATE_SCOPE_SESSION,
              "scopes have the same numbers in the rooms above and in the schema");

/* Before any lock is taken. The sum of all changes is bounded as one message is: they are stored in
 * the same transaction. */
quipu_status qp_state_check(qp_state_items changes, int64_t bytes_max, quipu_error *reterr)
{
    int64_t bytes = 0;

    assert(bytes_max > 0);
    for (size_t i = 0; i < changes.count; i++) {
        const qp_state_item *change = &changes.items[i];

        assert(change->scope >= QP_SCOPE_APP && change->scope <= QP_SCOPE_SESSION);
        if (change->name.n > QP_STATE_NAME_MAX) {
            return qp_error_field(reterr, QUIPU_LIMIT, "State", "name", "len",
                                  "a state key has %zu bytes; at most %d are allowed",
                                  change->name.n, QP_STATE_NAME_MAX);
        }
        if (qp_text_check(change->name, NULL) != QP_TEXT_OK) {
            return qp_error_field(reterr, QUIPU_INVALID, "State", "name", "text",
                                  "a state key is no UTF-8 without NUL");
        }
        /* Without a value the change removes the key. */
        if (change->value.p != NULL && qp_json_check(change->value, NULL, NULL) != QUIPU_OK) {
            return qp_error_field(reterr, QUIPU_INVALID, "State", "value", "json",
                                  "the value of state key \"%.*s\" is no JSON",
                                  (int)qp_utf8_cut(change->name, 80), change->name.p);
        }
        bytes += (int64_t)(change->name.n + change->value.n);
    }
    if (bytes > bytes_max) {
        return qp_error_field(reterr, QUIPU_LIMIT, "State", "value", "len",
                              "the changes of state have %lld bytes; at most %lld are allowed "
                              "(message_bytes_max)",
                              (long long)bytes, (long long)bytes_max);
    }
    return QUIPU_OK;
}

/* A slice of another version's items is converted first (decision 23). The texts stay the caller's,
 * who waits until the write is done. */
quipu_status qp_state_given(const quipu_state_changes *given, quipu_arena *arena,
                            qp_state_items *ret_changes, quipu_error *reterr)
{
    quipu_state_changes own = *given;
    quipu_status status = QP_SLICE_READ(&own, quipu_state_change, arena, reterr);
    qp_state_item *items;

    if (status != QUIPU_OK) {
        return status;
    }
    items = quipu_arena_alloc(arena, own.count * sizeof(*items) + 1);
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for changes of state");
    }
    for (size_t i = 0; i < own.count; i++) {
        const quipu_state_change *change = quipu_state_change_at(own, i);

        if (change->scope < QUIPU_SCOPE_APP || change->scope > QUIPU_SCOPE_SESSION) {
            return qp_error_set(reterr, QUIPU_MISUSE, "a change of state has no scope");
        }
        items[i] = (qp_state_item){(qp_scope)change->scope, change->name, change->value.text};
    }
    *ret_changes = (qp_state_items){items, own.count};
    return QUIPU_OK;
}

/* ---- applying ---------------------------------------------------------------------------------
 */

/* Selects the rows of one scope that a session sees. Columns that do not matter for a scope hold
 * the empty text or 0, as in qp_state_apply(), so that the key of a row is complete in every scope:
 *
 *   scope     app_name   user_id   session_number
 *   app       app        ""        0
 *   user      app        user      0
 *   session   app        user      the session's */
static qp_state_where state_place(quipu_str tenant, const qp_session *row, qp_scope scope)
{
    assert(scope >= QP_SCOPE_APP && scope <= QP_SCOPE_SESSION);
    return (qp_state_where){.tenant = ent_eq(tenant),
                            .scope = qp_state_scope_is((qp_state_scope)scope),
                            .app_name = ent_eq(row->app_name),
                            .user_id = ent_eq(scope == QP_SCOPE_APP ? QUIPU_STR("") : row->user_id),
                            .session_number =
                                ent_eq(scope == QP_SCOPE_SESSION ? row->id : (int64_t)0)};
}

/* In the order of the changes: of two for the same key the later one counts. */
quipu_status qp_state_apply(const quipu_store *store, ent_db *db, const qp_session *row,
                            qp_state_items changes, const qp_state_origin *origin,
                            quipu_error *reterr)
{
    const quipu_str author = {origin->author.p != NULL ? origin->author.p : "",
                              qp_utf8_cut(origin->author, QP_STATE_SET_BY_MAX)};
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && origin->seq >= 0);
    for (size_t i = 0; i < changes.count && status == QUIPU_OK; i++) {
        const qp_state_item *change = &changes.items[i];
        qp_state_where where = state_place(store->tenant, row, change->scope);

        if (change->value.p == NULL) {
            /* Removing a key that does not exist succeeds. */
            where.name = ent_eq(change->name);
            status = qp_state_delete(db, &where, NULL, reterr);
            continue;
        }
        /* Row by row: an upsert changes one key and leaves the others alone, whatever their
         * size. */
        const qp_state_new value = {
            .tenant = store->tenant,
            .scope = (qp_state_scope)change->scope,
            .app_name = row->app_name,
            .user_id = change->scope == QP_SCOPE_APP ? QUIPU_STR("") : row->user_id,
            .session_number = change->scope == QP_SCOPE_SESSION ? row->id : 0,
            .name = change->name,
            .value = {change->value},
            .updated_at = ent_some(origin->at),
            /* Given also when they are empty: an upsert keeps what is not given. */
            .set_by = author,
            .set_seq = origin->seq,
            .set_in = change->scope == QP_SCOPE_SESSION ? QUIPU_STR("") : row->key};
        status = qp_state_upsert(db, NULL, &value, QP_STATE_ON_KEY, NULL, reterr);
    }
    return status;
}

/* Row by row, because each keeps its time: there are few, and an app's keys are read in one range.
 * */
quipu_status qp_state_forget_session(const quipu_store *store, ent_db *db, const qp_session *row,
                                     quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && row->key.p != NULL);
    for (int scope = QP_SCOPE_APP; scope <= QP_SCOPE_USER && status == QUIPU_OK; scope++) {
        qp_state_query query = {.where = state_place(store->tenant, row, (qp_scope)scope)};
        qp_state_list list = {0};

        /* Keys that other sessions have set since keep those sessions as their authors. */
        query.where.set_in = ent_eq(row->key);
        status = qp_state_find(db, &arena, &query, &list, reterr);
        for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
            qp_state_where one = query.where;

            one.name = ent_eq(list.items[i].name);
            status =
                qp_state_update(db, &one,
                                &(qp_state_patch){.set_by = ent_set(QUIPU_STR("")),
                                                  .set_seq = ent_set((int64_t)0),
                                                  .set_in = ent_set(QUIPU_STR("")),
                                                  .updated_at = ent_set(list.items[i].updated_at)},
                                NULL, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- events that only changed state -----------------------------------------------------------
 */

/* SHA-256 over the changes, in their order. Lengths stand before the texts, so that no two
 * different lists have the same bytes; a removal has a length that no text can have.
 *
 *   of each change   8 bytes: scope | 8: size of the name | 8: size of the value | name | value */
static void state_digest(qp_state_items changes, uint8_t ret[QP_SHA256_SIZE])
{
    qp_sha256 sha;

    qp_sha256_begin(&sha);
    for (size_t i = 0; i < changes.count; i++) {
        const qp_state_item *change = &changes.items[i];
        const uint64_t head[3] = {(uint64_t)change->scope, change->name.n,
                                  change->value.p != NULL ? change->value.n : UINT64_MAX};
        uint8_t bytes[sizeof(head)]; /* little-endian on every machine: the digest is stored */

        for (size_t b = 0; b < sizeof(bytes); b++) {
            bytes[b] = (uint8_t)(head[b / 8] >> (b % 8 * 8));
        }
        qp_sha256_add(&sha, bytes, sizeof(bytes));
        qp_sha256_add(&sha, change->name.p, change->name.n);
        if (change->value.p != NULL) {
            qp_sha256_add(&sha, change->value.p, change->value.n);
        }
    }
    qp_sha256_end(&sha, ret);
}

/* Whether stored bytes are these. For the ids of events and the digests of their changes. */
static bool state_same_bytes(quipu_bytes stored, const void *p, size_t n)
{
    assert(n > 0);
    return stored.n == n && memcmp(stored.p, p, n) == 0;
}

/* Looks at the newest QP_STATE_EVENTS_MAX events of the session: no index knows their ids, and a
 * retry comes soon after the first try. An older id is not recognised any more. */
quipu_status qp_state_event_known(ent_db *db, quipu_arena *scratch, const qp_session *row,
                                  quipu_str event_id, qp_state_items changes, bool *ret_known,
                                  quipu_error *reterr)
{
    const qp_state_event_query query = {.order = {QP_STATE_EVENT_BY_NUMBER(DESC)},
                                        .limit = QP_STATE_EVENTS_MAX,
                                        .where = {.session_number = ent_eq(row->id)}};
    qp_state_event_list list = {0};
    uint8_t digest[QP_SHA256_SIZE];
    quipu_status status = qp_state_event_find(db, scratch, &query, &list, reterr);

    assert(ent_depth(db) > 0 && event_id.n > 0 && event_id.n <= QUIPU_EVENT_ID_MAX);
    *ret_known = false;
    for (size_t i = 0; i < list.n && status == QUIPU_OK && !*ret_known; i++) {
        if (!state_same_bytes(list.items[i].event_id, event_id.p, event_id.n)) {
            continue;
        }
        /* The same id with other changes is an error: to drop them without a word would lose
         * state. */
        state_digest(changes, digest);
        if (!state_same_bytes(list.items[i].digest, digest, sizeof(digest))) {
            return qp_error_field(reterr, QUIPU_EXISTS, "StateEvent", "event_id", "unique",
                                  "an event of this id changed state in another way; give the new "
                                  "event an id of its own");
        }
        *ret_known = true;
    }
    return status;
}

/* Deletes before it inserts: the row at offset QP_STATE_EVENTS_MAX - 1 and all older ones go, so
 * that with the new one at most QP_STATE_EVENTS_MAX are kept. */
quipu_status qp_state_event_add(ent_db *db, const qp_session *row, int64_t number,
                                quipu_str event_id, qp_state_items changes, quipu_error *reterr)
{
    const qp_state_event_query oldest = {.order = {QP_STATE_EVENT_BY_NUMBER(DESC)},
                                         .offset = QP_STATE_EVENTS_MAX - 1,
                                         .limit = 1,
                                         .where = {.session_number = ent_eq(row->id)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_state_event_list list = {0};
    uint8_t digest[QP_SHA256_SIZE];
    quipu_status status = qp_state_event_find(db, &arena, &oldest, &list, reterr);

    assert(ent_depth(db) > 0 && number > row->revision);
    if (status == QUIPU_OK && list.n > 0) {
        status =
            qp_state_event_delete(db,
                                  &(qp_state_event_where){.session_number = ent_eq(row->id),
                                                          .number = ent_le(list.items[0].number)},
                                  NULL, reterr);
    }
    quipu_arena_free(&arena);
    if (status == QUIPU_OK) {
        state_digest(changes, digest);
        status = qp_state_event_create(db, NULL,
                                       &(qp_state_event_new){.session_number = row->id,
                                                             .number = number,
                                                             .event_id = {event_id.p, event_id.n},
                                                             .digest = {digest, sizeof(digest)}},
                                       NULL, reterr);
    }
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* One range of the table: the columns of state_place() lead its key. */
quipu_status qp_state_rows(const quipu_store *store, ent_db *db, const qp_session *row,
                           qp_scope scope, quipu_arena *arena, qp_state_list *ret_list,
                           quipu_error *reterr)
{
    const qp_state_query query = {.order = {QP_STATE_BY_NAME(ASC)},
                                  .where = state_place(store->tenant, row, scope)};

    assert(ent_depth(db) > 0);
    return qp_state_find(db, arena, &query, ret_list, reterr);
}

/* Rows of one scope, sorted by name, behind the items that are there. An arena cannot extend an
 * array in place, so that the items before are copied: at most twice for the three scopes. */
quipu_status qp_state_read_scope(const quipu_store *store, ent_db *db, const qp_session *row,
                                 qp_scope scope, quipu_arena *arena, qp_state_items *state,
                                 quipu_error *reterr)
{
    qp_state_list list = {0};
    quipu_status status = qp_state_rows(store, db, row, scope, arena, &list, reterr);
    qp_state_item *items;

    if (status != QUIPU_OK || list.n == 0) {
        return status;
    }
    assert(state->items != NULL || state->count == 0);
    items = qp_arena_take(arena, (state->count + list.n) * sizeof(*items));
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu keys of state", list.n);
    }
    if (state->count > 0) {
        memcpy(items, state->items, state->count * sizeof(*items));
    }
    /* Texts stay in the rows, which lie in the same arena. */
    for (size_t i = 0; i < list.n; i++) {
        const qp_state *one = &list.items[i];

        items[state->count++] = (qp_state_item){(qp_scope)one->scope, one->name, one->value.text};
    }
    state->items = items;
    return QUIPU_OK;
}

/* App, user, session: the order of scopes that qp_live states. */
quipu_status qp_state_read(const quipu_store *store, ent_db *db, const qp_session *row,
                           quipu_arena *arena, qp_state_items *ret_state, quipu_error *reterr)
{
    qp_state_items state = {NULL, 0};
    quipu_status status = QUIPU_OK;

    for (int scope = QP_SCOPE_APP; scope <= QP_SCOPE_SESSION && status == QUIPU_OK; scope++) {
        status = qp_state_read_scope(store, db, row, (qp_scope)scope, arena, &state, reterr);
    }
    if (status == QUIPU_OK) {
        assert(state.items != NULL || state.count == 0);
        *ret_state = state;
    }
    return status;
}

/* One read of a user's state, which needs no session. */
typedef struct state_user_call {
    const quipu_store *store;
    qp_session user;      /* only app and user are set */
    quipu_arena *arena;   /* of the caller; the result lies in it */
    qp_state_items state; /* the result, made anew by every run */
} state_user_call;

/* A row that was never stored, with the app and the user only: scope user looks at nothing else. */
static quipu_status state_user_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    state_user_call *call = ctx;

    assert(call->user.id == 0);
    (void)scratch;
    call->state = (qp_state_items){NULL, 0};
    return qp_state_read_scope(call->store, db, &call->user, QP_SCOPE_USER, call->arena,
                               &call->state, reterr);
}

/* A user has state without any session: app and user name the rows. */
quipu_status qp_state_of_user(quipu_store *store, quipu_str app_name, quipu_str user_id,
                              const quipu_call_options *call, quipu_arena *arena,
                              qp_state_items *ret_state, quipu_error *reterr)
{
    state_user_call user = {
        .store = store, .user = {.app_name = app_name, .user_id = user_id}, .arena = arena};
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_store_is_remote(store)
                     ? store->remote.user_state(store->remote.ctx, &within, app_name, user_id,
                                                arena, &user.state, reterr)
                     : qp_store_read(store, &within, state_user_work, &user, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_state = user.state;
    }
    qp_store_leave(&within);
    return status;
}
