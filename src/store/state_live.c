/* A session together with its state: read from one snapshot, and listed by app and user.
 *
 * Owns the reads behind live sessions. Called by the ADK room (qp_live_get(), qp_live_find()) and,
 * inside of the transaction that creates a session, by session.c (qp_live_read()). Takes no lock.
 * Messages and state of a result belong to the same revision. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/state_internal.h"

#define STATE_LIVE_BATCH 256 /* messages looked at together, backwards, for those after a time */

/* When ADK's last event was; a session without one shows its creation. */
quipu_time qp_live_time(const qp_session *row)
{
    return row->last_event_at.has ? row->last_event_at.v : row->created_at;
}

/* The messages from a time on, the newest `limit` of them. Times come from callers and need not
 * grow with the numbers, so that every message is looked at, backwards in batches, until enough are
 * found. They come out oldest first at the end of an array that grows downwards. */
static quipu_status state_live_after(ent_db *db, const qp_session *row, const qp_live_want *want,
                                     quipu_arena *arena, quipu_history *pub, quipu_error *reterr)
{
    const int64_t all = row->next_seq - row->first_seq;
    const int64_t most = want->range.limit > 0 && want->range.limit < all ? want->range.limit : all;
    quipu_message *kept = NULL;
    int64_t left = most;
    quipu_status status = QUIPU_OK;

    if (most > 0) {
        kept = qp_arena_take(arena, (size_t)most * sizeof(*kept));
        if (kept == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for messages");
        }
    }
    for (int64_t to = row->next_seq - 1; to >= row->first_seq && left > 0 && status == QUIPU_OK;
         to -= STATE_LIVE_BATCH) {
        const int64_t from = to - STATE_LIVE_BATCH + 1;
        const qp_extent extent = {.from = from > row->first_seq ? from : row->first_seq, .to = to};
        quipu_messages messages = quipu_messages_of(NULL, 0);

        /* Messages that are left out stay in the arena, too, until the result is freed. */
        status = qp_messages_read(db, row, &extent, arena, &messages, reterr);
        for (size_t i = messages.count; i > 0 && left > 0 && status == QUIPU_OK; i--) {
            assert(left <= most);
            const quipu_message *message = quipu_message_at(messages, i - 1);

            if (quipu_time_cmp(message->timestamp, want->after) >= 0) {
                kept[--left] = *message;
            }
        }
    }
    if (status == QUIPU_OK) {
        /* Messages that the time left out may lie before or between: both count as "more
         * before". */
        pub->messages = quipu_messages_of(kept != NULL ? kept + left : NULL, (size_t)(most - left));
        pub->more_before = pub->messages.count < (size_t)all;
    }
    return status;
}

/* With a time only the header is read first: state_live_after() selects the messages. */
quipu_status qp_live_read(const quipu_store *store, ent_db *db, quipu_str key,
                          const qp_live_want *want, qp_history *history, qp_live *ret_live,
                          quipu_error *reterr)
{
    quipu_range range = want->range;
    qp_live live = {.history = &history->pub};
    quipu_status status;

    assert(ent_depth(db) > 0);
    if (want->has_after) {
        range.flags = QUIPU_RANGE_HEADER;
    }
    status = qp_history_read(store, db, key, &range, quipu_time_now(), history, reterr);
    if (status == QUIPU_OK && want->has_after) {
        status =
            state_live_after(db, history->row, want, &history->head.arena, &history->pub, reterr);
    }
    if (status == QUIPU_OK) {
        assert(history->row != NULL);
        live.last_event_at = qp_live_time(history->row);
        status = qp_state_read(store, db, history->row, &history->head.arena, &live.state, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_live = live;
    }
    return status;
}

/* ---- from a server ---------------------------------------------------------------------------
 */

/* The state of a server's answer as this room has it. */
static quipu_status state_live_items(const quipu_history *history, quipu_arena *arena,
                                     qp_state_items *ret_state, quipu_error *reterr)
{
    const quipu_state_entries entries = history->state->entries;
    qp_state_item *items = quipu_arena_alloc(arena, entries.count * sizeof(*items) + 1);

    assert(history->state != NULL);
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for state");
    }
    for (size_t i = 0; i < entries.count; i++) {
        const quipu_state_entry *entry = quipu_state_entry_at(entries, i);

        items[i] = (qp_state_item){(qp_scope)entry->scope, entry->name, entry->value.text};
    }
    *ret_state = (qp_state_items){items, entries.count};
    return QUIPU_OK;
}

/* Leaves those from a time on, the newest `limit` of them, of all messages. The same choice as in
 * state_live_after(), among messages that are there already. */
static quipu_status state_live_cut(const qp_live_want *want, quipu_arena *arena,
                                   quipu_history *history, quipu_error *reterr)
{
    const size_t all = history->messages.count;
    const size_t most = want->range.limit > 0 && (uint64_t)want->range.limit < all
                            ? (size_t)want->range.limit
                            : all;
    quipu_message *kept = quipu_arena_alloc(arena, most * sizeof(*kept) + 1);
    size_t left = most;

    if (kept == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for messages");
    }
    for (size_t i = all; i > 0 && left > 0; i--) {
        const quipu_message *message = quipu_message_at(history->messages, i - 1);

        if (quipu_time_cmp(message->timestamp, want->after) >= 0) {
            kept[--left] = *message;
        }
    }
    history->messages = quipu_messages_of(kept + left, most - left);
    history->more_before = most - left < all;
    return QUIPU_OK;
}

/* No request asks for a time: with one, all messages come, and those before it are left out here.
 */
quipu_status qp_live_ask(quipu_store *store, const qp_call *call, quipu_str key,
                         const qp_live_want *want, qp_history *history, qp_live *ret_live,
                         quipu_error *reterr)
{
    const quipu_range all = QUIPU_RANGE_INIT;
    quipu_range range = want->has_after ? all : want->range;
    qp_live live = {.history = &history->pub};
    quipu_status status;

    /* In one request, so that messages and state belong together. */
    range.flags |= QUIPU_RANGE_STATE;
    status = qp_history_ask(store, call, key, &range, history, reterr);
    if (status == QUIPU_OK && want->has_after) {
        status = state_live_cut(want, &history->head.arena, &history->pub, reterr);
    }
    if (status == QUIPU_OK) {
        live.last_event_at = history->pub.last_event_at;
        status = state_live_items(&history->pub, &history->head.arena, &live.state, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_live = live;
    }
    return status;
}

/* ---- get --------------------------------------------------------------------------------------
 */

/* One qp_live_get(). */
typedef struct state_live_call {
    const quipu_store *store;
    quipu_str key;
    const qp_live_want *want; /* which messages come along */
    qp_history *history;      /* made before the read, which fills it anew when it is retried */
    qp_live live;             /* the result; it points into the history */
} state_live_call;

/* A qp_work_fn: header, state and events of one snapshot. */
static quipu_status state_live_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    state_live_call *call = ctx;

    assert(call->history != NULL);
    (void)scratch;
    return qp_live_read(call->store, db, call->key, call->want, call->history, &call->live, reterr);
}

/* One snapshot for row, messages and state: they belong to the same moment. */
quipu_status qp_live_get(quipu_store *store, quipu_str key, const qp_live_want *want,
                         const quipu_call_options *call, qp_live *ret_live, quipu_error *reterr)
{
    state_live_call get = {.store = store, .key = key, .want = want};
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        get.history = qp_history_new();
        status = get.history == NULL
                     ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session")
                 : qp_store_is_remote(store)
                     ? qp_live_ask(store, &within, key, want, get.history, &get.live, reterr)
                     : qp_store_read(store, &within, state_live_work, &get, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_live = get.live;
    } else if (get.history != NULL) {
        quipu_free(&get.history->pub);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "read", key, reterr);
}

/* ---- list -------------------------------------------------------------------------------------
 */

/* One qp_live_find(). `shared` is reused while rows of the same user follow each other. */
typedef struct state_live_search {
    const quipu_store *store;
    quipu_str app_name;
    quipu_str user_id;  /* absent: any */
    quipu_arena *arena; /* of the caller; the whole result lies in it */
    qp_live_list list;  /* the result, made anew by every run */
    bool known;         /* the next two are read, for this user */
    quipu_str shared_user;
    qp_state_items shared; /* state of the app and of the user */
} state_live_search;

/* The state that sessions of one user share is read once: the query sorts by user. */
static quipu_status state_live_shared(state_live_search *search, ent_db *db, const qp_session *row,
                                      quipu_error *reterr)
{
    quipu_status status;

    if (search->known && quipu_str_eq(search->shared_user, row->user_id)) {
        return QUIPU_OK;
    }
    /* Set before the reads: when one fails, so does the whole list. */
    search->known = true;
    search->shared_user = row->user_id;
    search->shared = (qp_state_items){NULL, 0};
    status = qp_state_read_scope(search->store, db, row, QP_SCOPE_APP, search->arena,
                                 &search->shared, reterr);
    return status == QUIPU_OK ? qp_state_read_scope(search->store, db, row, QP_SCOPE_USER,
                                                    search->arena, &search->shared, reterr)
                              : status;
}

/* One session of the list. `history` and its header lie in the caller's arena: they are not results
 * of their own, and nobody frees them. */
static quipu_status state_live_one(state_live_search *search, ent_db *db, const qp_session *row,
                                   qp_live *ret, quipu_error *reterr)
{
    quipu_history *history = qp_arena_take(search->arena, sizeof(*history));
    quipu_session_info *info = qp_arena_take(search->arena, sizeof(*info));
    quipu_status status;

    assert(ret != NULL && search->list.count > 0);
    if (history == NULL || info == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list of sessions");
    }
    status = state_live_shared(search, db, row, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_show(db, search->arena, row, info, reterr);
    }
    *history = (quipu_history){.session = info};
    *ret =
        (qp_live){.history = history, .last_event_at = qp_live_time(row), .state = search->shared};
    return status == QUIPU_OK ? qp_state_read_scope(search->store, db, row, QP_SCOPE_SESSION,
                                                    search->arena, &ret->state, reterr)
                              : status;
}

/* Reads all rows of the app, then the state of each session that has not expired: a list of n
 * sessions costs n + 1 reads, and two more for each user. */
static quipu_status state_live_search_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    state_live_search *search = ctx;
    const quipu_time now = quipu_time_now();
    qp_session_query query = {.order = {QP_SESSION_BY_USER_ID(ASC)},
                              .where = {.tenant = ent_eq(search->store->tenant),
                                        .app_name = ent_eq(search->app_name),
                                        .key = ENT_NOT_NULL}};
    qp_session_list rows = {0};
    quipu_status status;

    assert(ent_depth(db) > 0);
    (void)scratch;
    if (search->user_id.p != NULL) {
        query.where.user_id = ent_eq(search->user_id);
    }
    /* Texts that an earlier run put into the arena stay there, unused. */
    search->list = (qp_live_list){NULL, 0};
    search->known = false;
    status = qp_session_find(db, search->arena, &query, &rows, reterr);
    if (status == QUIPU_OK && rows.n > 0) {
        search->list.items = qp_arena_take(search->arena, rows.n * sizeof(*search->list.items));
        if (search->list.items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list of sessions");
        }
    }
    /* Expired sessions are left out here, not by the query: the index is that of app and user. */
    for (size_t i = 0; i < rows.n && status == QUIPU_OK; i++) {
        if (!qp_session_expired(&rows.items[i], now)) {
            status = state_live_one(search, db, &rows.items[i],
                                    &search->list.items[search->list.count++], reterr);
        }
    }
    return status;
}

/* Everything goes to the caller's arena, also what a retried read had put there before it
 * failed. */
quipu_status qp_live_find(quipu_store *store, quipu_str app_name, quipu_str user_id,
                          const quipu_call_options *call, quipu_arena *arena,
                          qp_live_list *ret_list, quipu_error *reterr)
{
    state_live_search search = {
        .store = store, .app_name = app_name, .user_id = user_id, .arena = arena};
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        /* A list of a server comes in the same form, with its texts in the same arena. */
        status = qp_store_is_remote(store)
                     ? store->remote.find(store->remote.ctx, &within, app_name, user_id, arena,
                                          &search.list, reterr)
                     : qp_store_read(store, &within, state_live_search_work, &search, reterr);
    }
    if (status == QUIPU_OK) {
        assert(search.list.items != NULL || search.list.count == 0);
        *ret_list = search.list;
    }
    qp_store_leave(&within);
    return status;
}
