/* Creating sessions, get-or-create, and changing their settings.
 *
 * Owns a session's row until its first append: uid, time to live, first messages, first state.
 * Called by the public session calls, by the ADK room (qp_live_create()) and by an append that
 * creates its session (qp_session_ensure()). Arguments are checked and messages encoded before any
 * lock is taken. A create draws the session's number under the lock of its shard's counter, while
 * others write to other sessions; one that replaces an expired session locks that one's family as
 * well. An update needs the lock of its row only. A key that another process inserts at the same
 * time fails the batch by the unique index, and the create is retried alone, where it finds that
 * session. When a work returns QUIPU_OK, row, messages, search index, state and feed agree; one
 * that fails after its first write has its transaction rolled back. */
#include "store/session.h"

#include <assert.h>

#include <ent/view.h>

#include "base/error.h"
#include "base/time.h"
#include "base/uuid.h"
#include "ent/patch.h"
#include "ent/row.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/last_change.h"
#include "store/message.h"
#include "store/read.h"
#include "store/search.h"
#include "store/state_internal.h"

/* ---- expiry -----------------------------------------------------------------------------------
 */

/* Now plus the time to live, at most the end of the calendar. */
quipu_time qp_session_expiry(int64_t ttl_ms, quipu_time now)
{
    quipu_time at = {0, 0};

    /* The sum was checked when the time to live was set, but every write adds it to a later clock:
     * near the end of the calendar the expiry stops moving instead of failing the write. */
    if (qp_time_add_ms(now, ttl_ms, &at) != QUIPU_OK) {
        at = (quipu_time){QP_TIME_S_MAX, QP_TIME_NS_MAX};
    }
    assert(qp_time_valid(at));
    return at;
}

/* Only forward: a clock that stepped back does not shorten a session's life. */
void qp_session_slide(const qp_session *row, quipu_time now, qp_session_patch *patch)
{
    if (row->ttl_ms.has) {
        const quipu_time at = qp_session_expiry(row->ttl_ms.v, now);

        if (!row->expires_at.has || quipu_time_cmp(row->expires_at.v, at) < 0) {
            patch->expires_at = ent_set(at);
        }
    }
}

/* Resolves the caller's number: 0 is the store's, -1 none. The sum is checked against the clock
 * now; qp_session_expiry() bounds it for all later writes. */
quipu_status qp_session_ttl(const quipu_store *store, int64_t given, ent_opt_int *ret_ttl,
                            quipu_error *reterr)
{
    quipu_time at = {0, 0};

    assert(store->ttl_ms >= 0); /* checked when the store was opened */
    if (given < -1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "ttl_ms is %lld; give milliseconds, 0 for the store's or -1 for never",
                            (long long)given);
    }
    given = given == 0 ? store->ttl_ms : given;
    if (given > 0 && qp_time_add_ms(quipu_time_now(), given, &at) != QUIPU_OK) {
        return qp_error_field(reterr, QUIPU_INVALID, "Session", "ttl_ms", "range",
                              "a time to live of %lld ms ends after the year 9999; -1 means never",
                              (long long)given);
    }
    *ret_ttl = given > 0 ? ent_some(given) : (ent_opt_int){.has = false};
    assert(!ret_ttl->has || ret_ttl->v > 0);
    return QUIPU_OK;
}

/* ---- create -----------------------------------------------------------------------------------
 */

/* One create or get-or-create, from the checked arguments to the result. The work may run more than
 * once (get-or-create reads first; a batch may be retried), so each run sets the outputs anew. */
typedef struct session_create {
    quipu_store *store;
    quipu_session_new values; /* of the caller, checked */
    ent_opt_int ttl_ms;       /* absent: it never expires */
    quipu_uuid uid;
    qp_encoded encoded;       /* the first messages, made ready before any lock */
    quipu_range range;        /* of the messages that come back */
    bool reuse;               /* an existing session will do */
    qp_history *history;      /* or NULL */
    bool created;             /* by this call: no living session had the key */
    quipu_arena arena;        /* of `changes` that the caller gave */
    qp_state_items changes;   /* of state, when it is created */
    const qp_live_want *want; /* the state comes back too, in `live`; or NULL */
    quipu_time last_update;   /* that the caller gave for a session without messages, or {0, 0} */
    qp_live live;             /* the result when `want` is given */
} session_create;

/* Inserts the session with its first messages and its first state, in the open transaction. The
 * counts and totals of the messages (qp_header) go into the INSERT itself, so that the row is
 * written once. The cap comes last: it may delete some of the messages that were just stored. */
static quipu_status session_insert(session_create *create, ent_db *db, quipu_arena *scratch,
                                   quipu_time now, quipu_error *reterr)
{
    const quipu_session_new *values = &create->values;
    qp_encoded *encoded = &create->encoded;
    const int64_t count = (int64_t)encoded->count;
    const qp_session *row = NULL;
    quipu_status status;
    qp_session_new made = {.key = values->key,
                           .created_at = ent_some(now),
                           .updated_at = ent_some(now),
                           .uid = ent_some(create->uid),
                           .tenant = create->store->tenant,
                           .ttl_ms = create->ttl_ms};

    assert(ent_depth(db) > 0 && create->created);
    ent_view_create(&qp_session_new_view, values, &made);
    made.session_id = values->session_id.p != NULL ? values->session_id : values->key;
    if (create->ttl_ms.has) {
        made.expires_at = ent_some(qp_session_expiry(create->ttl_ms.v, now));
    }
    if (quipu_time_cmp(create->last_update, (quipu_time){0, 0}) != 0) {
        made.last_event_at = ent_some(create->last_update);
    }
    /* A patch is how messages describe their session everywhere; here its fields go into the new
     * row. */
    if (count > 0) {
        qp_session_patch patch = {.key = ENT_CLEAR};

        qp_encoded_place(encoded, NULL, now);
        qp_header_patch(&encoded->header, &patch);
        qp_patch_create(&qp_session_entity, &patch, &made);
        qp_search_born(create->store, count, &made);
    }
    /* The number of the session is known after the INSERT only: messages get it then. */
    status = qp_session_create(db, scratch, &made, &row, reterr);
    assert(status != QUIPU_OK || (row->id > 0 && row->next_seq == count + 1));
    if (status == QUIPU_OK && count > 0) {
        qp_encoded_own(encoded, row->id);
        status = qp_encoded_insert(encoded, db, create->store->tenant, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_search_filled(create->store, db, row->id, count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_state_apply(create->store, db, row, create->changes,
                                &(qp_state_origin){.at = now}, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_feed_record(
            create->store, db, row,
            &(qp_feed_note){QUIPU_CHANGE_CREATED, row->revision, count > 0 ? 1 : 0, count}, reterr);
    }
    return status == QUIPU_OK ? qp_cap_hold(create->store, db, scratch, row, reterr) : status;
}

/* Reads the session as the open transaction sees it into the caller's history: the one that the
 * same transaction created, or the one that was found. */
static quipu_status session_read(session_create *create, ent_db *db, quipu_time now,
                                 quipu_error *reterr)
{
    assert(create->history != NULL && ent_depth(db) > 0);
    return create->want != NULL ? qp_live_read(create->store, db, create->values.key, create->want,
                                               create->history, &create->live, reterr)
                                : qp_history_read(create->store, db, create->values.key,
                                                  &create->range, now, create->history, reterr);
}

/* The row of the key, or NULL. In a locked batch it is the one that the batch has locked; otherwise
 * nobody else writes. */
static quipu_status session_find(session_create *create, ent_db *db, quipu_arena *scratch,
                                 const qp_session **ret_row, quipu_error *reterr)
{
    qp_session_cache *sessions = &create->store->group.sessions;
    const qp_batch_state state = qp_group_state(&create->store->group);

    assert(state != QP_BATCH_OPTIMISTIC);
    return state == QP_BATCH_LOCKED
               ? qp_session_cache_get(sessions, db, create->values.key, ret_row, reterr)
               : qp_session_lookup(create->store, db, scratch, create->values.key, ret_row, reterr);
}

/* Creates the session unless a living one has the key. An expired session is deleted in the same
 * transaction: the new one shares nothing with it but the key, and its uid shows that. The refusal
 * comes before the first write, so that it leaves nothing to undo in a shared batch. */
static quipu_status session_create_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_create *create = ctx;
    qp_session_cache *sessions = &create->store->group.sessions;
    const bool locked = qp_group_state(&create->store->group) == QP_BATCH_LOCKED;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    quipu_status status = session_find(create, db, scratch, &row, reterr);

    assert(ent_depth(db) > 0);
    create->created = row == NULL;
    if (status == QUIPU_OK && row != NULL) {
        create->created = qp_session_expired(row, now);
        if (!create->created && !create->reuse) {
            return qp_error_field(reterr, QUIPU_EXISTS, "Session", "key", "unique",
                                  "it exists already; get it, or use get-or-create");
        }
        /* It has expired just now: qp_session_write_new() comes back alone. */
        if (create->created && !qp_group_owns_expired(&create->store->group, row)) {
            return qp_session_living(row, now, reterr);
        }
        /* Messages that forks of the expired session share stay with them (fork_release.h). */
        if (create->created) {
            qp_session_cache_detach(sessions, row);
            status = qp_session_remove(create->store, db, row, reterr);
        }
    }
    assert(status != QUIPU_OK || create->created || create->reuse);
    if (status == QUIPU_OK && create->created) {
        status = session_insert(create, db, scratch, now, reterr);
        if (locked) {
            qp_session_cache_created(sessions);
        }
    }
    if (status == QUIPU_OK && create->history != NULL) {
        status = session_read(create, db, now, reterr);
    }
    return status;
}

/* LOCKED where the engine can, and then the batch locks the family of an expired session of the
 * same key, too. A session that expired after the locks were taken is refused
 * (qp_group_owns_expired()): then the work runs again, EXCLUSIVE. */
quipu_status qp_session_write_new(quipu_store *store, qp_call *within, qp_work_fn work, void *ctx,
                                  quipu_error *reterr)
{
    quipu_error error = {.status = QUIPU_OK}; /* an expired session is not an error of the call */
    quipu_status status;

    within->creates = true;
    status = qp_store_write(store, within, work, ctx, &error);
    if (status == QUIPU_EXPIRED) {
        within->session = (quipu_str){NULL, 0};
        return qp_store_write(store, within, work, ctx, reterr);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* Shared with other writers where the engine can. */
static quipu_status session_create_write(session_create *create, qp_call *within,
                                         quipu_error *reterr)
{
    qp_store_make_shared(create->store, create->values.key, create->changes, within);
    return qp_session_write_new(create->store, within, session_create_work, create, reterr);
}

/* The append that calls this has checked the key. The session starts without messages: those of the
 * append follow in the same transaction, through the ordinary path. */
quipu_status qp_session_ensure(quipu_store *store, ent_db *db, quipu_arena *scratch, quipu_str key,
                               quipu_uuid uid, quipu_error *reterr)
{
    session_create create = {
        .store = store, .values = QUIPU_SESSION_NEW_INIT, .reuse = true, .uid = uid};
    quipu_status status = qp_session_ttl(store, 0, &create.ttl_ms, reterr);

    assert(key.n > 0 && key.n <= QUIPU_KEY_MAX && ent_depth(db) > 0);
    create.values.key = key;
    return status == QUIPU_OK ? session_create_work(&create, db, scratch, reterr) : status;
}

/* Checks the caller's values and makes ready what needs no lock: encoded messages, uid, an empty
 * history. Also after a failure session_create_end() frees what is there. */
static quipu_status session_prepare(quipu_store *store, const quipu_session_new *given,
                                    bool wants_history, session_create *create, quipu_error *reterr)
{
    quipu_session_new *values = &create->values;
    quipu_status status;

    assert(create->history == NULL && create->encoded.count == 0); /* prepared once */
    if (given == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the new session's values are NULL");
    }
    status = qp_options_read(values, sizeof(*values), given, "quipu_session_new", reterr);
    if (status == QUIPU_OK) {
        status = qp_key_check(values->key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_object_check(values->metadata, "metadata", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_ttl(store, values->ttl_ms, &create->ttl_ms, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_encoded_make(&create->encoded, QP_MESSAGES_GIVEN, values->messages,
                                 store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK && values->state != NULL) {
        status = qp_state_given(values->state, &create->arena, &create->changes, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_state_check(create->changes, store->message_bytes_max, reterr);
    }
    /* Drawn once, before the transaction: a retried batch creates the same session. */
    if (status == QUIPU_OK && qp_uuid_v7(&create->uid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    if (status == QUIPU_OK && wants_history) {
        create->history = qp_history_new();
        if (create->history == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a history");
        }
    }
    return status;
}

/* The end of every create: hands the history to the caller, or frees it after a failure, and frees
 * the encoded messages. */
static void session_create_end(session_create *create, quipu_status status,
                               quipu_history **ret_history)
{
    assert(status != QUIPU_OK || ret_history == NULL || create->history != NULL);
    if (status == QUIPU_OK && ret_history != NULL) {
        *ret_history = &create->history->pub;
    } else if (create->history != NULL) {
        quipu_free(&create->history->pub);
    }
    qp_encoded_free(&create->encoded);
    quipu_arena_free(&create->arena);
}

/* The session as a server has it, into the caller's history. */
static quipu_status session_ask(session_create *create, const qp_call *call, quipu_error *reterr)
{
    assert(create->history != NULL);
    return create->want != NULL ? qp_live_ask(create->store, call, create->values.key, create->want,
                                              create->history, &create->live, reterr)
                                : qp_history_ask(create->store, call, create->values.key,
                                                 &create->range, create->history, reterr);
}

/* A create at a server, and the session as it is then. */
static quipu_status session_create_ask(session_create *create, const qp_call *call,
                                       quipu_error *reterr)
{
    const qp_remote *remote = &create->store->remote;
    quipu_status status = qp_store_writable(create->store, reterr);

    assert(qp_store_is_remote(create->store) && remote->create != NULL);
    if (status == QUIPU_OK) {
        status = remote->create(remote->ctx, call, &create->values, create->changes, reterr);
    }
    create->created = status == QUIPU_OK;
    return status == QUIPU_OK && create->history != NULL ? session_ask(create, call, reterr)
                                                         : status;
}

/* Get or create at a server. Another client may be between the two requests, in both orders. */
static quipu_status session_reuse_ask(session_create *create, const qp_call *call,
                                      quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    qp_history *own = create->history != NULL ? create->history : qp_history_new();
    quipu_error error = {0}; /* of one request: only the last one's is the call's */
    quipu_status status =
        own != NULL ? QUIPU_OK : qp_error_set(&error, QUIPU_NOMEM, "out of memory for a history");

    header.flags = QUIPU_RANGE_HEADER;
    /* Read, create where nothing is, and both once more where another client was faster. A key that
     * others create and delete all the time would keep a loop going without end. */
    for (int i = 0; i < 2 && own != NULL; i++) {
        status = create->history != NULL ? session_ask(create, call, &error)
                                         : qp_history_ask(create->store, call, create->values.key,
                                                          &header, own, &error);
        if (status != QUIPU_NOT_FOUND && status != QUIPU_EXPIRED) {
            break;
        }
        status = session_create_ask(create, call, &error);
        if (status != QUIPU_EXISTS) {
            break;
        }
    }
    if (own != NULL && own != create->history) {
        quipu_free(&own->pub);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* The first half of get-or-create, from a snapshot and without the write lock. QUIPU_NOT_FOUND and
 * QUIPU_EXPIRED send the caller on to session_create_work(). */
static quipu_status session_peek_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    session_create *create = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;

    assert(create->reuse && ent_depth(db) > 0);
    create->created = false;
    return create->history != NULL
               ? session_read(create, db, now, reterr)
               : qp_session_load(create->store, db, scratch, create->values.key, now, &row, reterr);
}

/* In a local store. Most often a session that may be reused is there, and a reader needs no lock.
 * Another caller may create it between the read and the write: session_create_work() looks again
 * under the lock. Without `reuse` the read is skipped: a session that exists is an error then. */
static quipu_status session_create_here(session_create *create, qp_call *within,
                                        quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status peek =
        create->reuse ? qp_store_read(create->store, within, session_peek_work, create, &error)
                      : QUIPU_NOT_FOUND;

    if (peek == QUIPU_NOT_FOUND || peek == QUIPU_EXPIRED) {
        return session_create_write(create, within, reterr);
    }
    return peek == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

static quipu_status session_create_run(session_create *create, qp_call *within, quipu_error *reterr)
{
    if (!qp_store_is_remote(create->store)) {
        return session_create_here(create, within, reterr);
    }
    return create->reuse ? session_reuse_ask(create, within, reterr)
                         : session_create_ask(create, within, reterr);
}

/* Not idempotent by itself: after QUIPU_UNKNOWN a caller finds out by reading whether the session
 * of this key exists, or repeats it with QUIPU_CREATE_OR_GET. */
quipu_status quipu_session_create(quipu_store *store, const quipu_session_new *values,
                                  const quipu_call_options *call, quipu_history **ret_history,
                                  quipu_error *reterr)
{
    session_create create = {
        .store = store, .values = QUIPU_SESSION_NEW_INIT, .range = QUIPU_RANGE_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = session_prepare(store, values, ret_history != NULL, &create, reterr);
    }
    if (status == QUIPU_OK && (create.values.flags & ~QUIPU_CREATE_OR_GET) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a new session has unknown flags");
    }
    create.reuse = (create.values.flags & QUIPU_CREATE_OR_GET) != 0;
    if (status == QUIPU_OK) {
        status = session_create_run(&create, &within, reterr);
    }
    if (create.history != NULL) {
        create.history->pub.created = create.created;
    }
    session_create_end(&create, status, ret_history);
    qp_store_leave(&within);
    return qp_store_fail(status, create.reuse ? "get or create" : "create", create.values.key,
                         reterr);
}

/* ---- with state -------------------------------------------------------------------------------
 */

/* A session with its state, for the ADK room. State changes apply only to a session that this call
 * creates. */
quipu_status qp_live_create(quipu_store *store, const qp_live_new *given,
                            const quipu_call_options *call, qp_live *ret_live, quipu_error *reterr)
{
    session_create create = {.store = store,
                             .values = QUIPU_SESSION_NEW_INIT,
                             .range = QUIPU_RANGE_INIT,
                             .reuse = given->reuse,
                             .changes = given->changes,
                             .want = given->want};
    quipu_history *history = NULL;
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    assert(given->want != NULL);
    create.last_update = within.now;
    if (status == QUIPU_OK) {
        status = session_prepare(store, given->values, true, &create, reterr);
    }
    if (status == QUIPU_OK) {
        status = session_create_run(&create, &within, reterr);
    }
    /* The history owns what `live` points to: both go to the caller, or neither. */
    session_create_end(&create, status, &history);
    if (status == QUIPU_OK) {
        assert(history != NULL);
        *ret_live = create.live;
        ret_live->history = history;
        ret_live->created = create.created;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, given->reuse ? "get or create" : "create", create.values.key,
                         reterr);
}

/* ---- update -----------------------------------------------------------------------------------
 */

/* One update of settings. */
typedef struct session_change {
    quipu_store *store;
    quipu_str key;
    quipu_session_patch given; /* the settings, and the revision that is expected */
    ent_opt_int ttl_ms;        /* absent: it never expires */
    int64_t revision;          /* that the update makes */
} session_change;

/* A new time to live counts from now; "never" clears the expiry. */
void qp_session_settings_put(const quipu_session_patch *given, ent_opt_int ttl_ms, quipu_time now,
                             qp_session_patch *patch)
{
    ent_view_patch(&qp_session_patch_view, given->set, given, patch);
    if ((given->set & QUIPU_SET_TTL) == 0) {
        return;
    }
    if (ttl_ms.has) {
        patch->ttl_ms = ent_set(ttl_ms.v);
        patch->expires_at = ent_set(qp_session_expiry(ttl_ms.v, now));
    } else {
        patch->ttl_ms = (ent_patch_int){.op = (ent_wants_int)ENT_OP_CLEAR};
        patch->expires_at = (ent_patch_time){.op = (ent_wants_time)ENT_OP_CLEAR};
    }
}

/* The caller's settings as a patch of the row. Revision and last change move, and the expiry
 * slides, as with every write. */
static void session_patch(const session_change *change, const qp_session *row, quipu_time now,
                          qp_session_patch *ret)
{
    assert((change->given.set & ent_view_bits(&qp_session_patch_view)) != 0); /* it was checked */
    *ret = (qp_session_patch){.revision = ent_set(row->revision + 1)};
    qp_last_change_set(row, now, ret);
    qp_session_slide(row, now, ret);
    qp_session_settings_put(&change->given, change->ttl_ms, now, ret);
}

/* Compares the expected revision under the lock of the row and before the first write, so that a
 * conflict leaves nothing to undo. The UPDATE is a statement of its own:
 * qp_session_load_for_update() has detached the row from the session cache. */
static quipu_status session_update_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_change *change = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    qp_session_patch patch;
    int64_t changed = 0;
    quipu_status status =
        qp_session_load_for_update(change->store, db, change->key, now, &row, reterr);

    assert(ent_depth(db) > 0);
    (void)scratch;
    if (status == QUIPU_OK && (change->given.set & QUIPU_SET_IF_REVISION) != 0 &&
        change->given.expected_revision != row->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "its revision is %lld, not %lld: somebody else changed it first; "
                            "reload and try again",
                            (long long)row->revision, (long long)change->given.expected_revision);
    }
    if (status == QUIPU_OK) {
        session_patch(change, row, now, &patch);
        change->revision = row->revision + 1;
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, &changed,
                                   reterr);
    }
    assert(status != QUIPU_OK || changed == 1);
    if (status == QUIPU_OK) {
        status =
            qp_feed_record(change->store, db, row,
                           &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
    }
    return status;
}

/* The rules of the schema for each text that is set. */
static quipu_status session_settings_rules(const quipu_session_patch *given, quipu_error *reterr)
{
    const ent_view *view = &qp_session_patch_view;
    quipu_status status = QUIPU_OK;

    assert(given->set != 0);
    for (size_t i = 0; i < view->count && status == QUIPU_OK; i++) {
        const ent_shown *shown = &view->items[i];
        const ent_field *field = &view->entity->fields[shown->field];

        if (!shown->by_hand && (given->set & shown->bit) != 0) {
            const qp_value value = qp_member_value(field, (const char *)given + shown->member);

            status = value.kind == QP_NULL ? QUIPU_OK
                                           : qp_rule_check(view->entity, field, &value, reterr);
        }
    }
    return status;
}

/* Refuses bits that no setting has, and an empty patch: it would move the revision for nothing. */
quipu_status qp_session_settings_check(const quipu_store *store, const quipu_session_patch *given,
                                       ent_opt_int *ret_ttl_ms, quipu_error *reterr)
{
    const uint32_t settings = ent_view_bits(&qp_session_patch_view);

    assert(!ret_ttl_ms->has);
    if ((given->set & ~(settings | QUIPU_SET_IF_REVISION)) != 0 || (given->set & settings) == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the patch sets 0x%x; give at least one bit of QUIPU_SET_*, and no "
                            "other",
                            (unsigned)given->set);
    }
    if ((given->set & QUIPU_SET_METADATA) != 0) {
        quipu_status status = qp_object_check(given->metadata, "metadata", reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    quipu_status status = session_settings_rules(given, reterr);
    return status == QUIPU_OK && (given->set & QUIPU_SET_TTL) != 0
               ? qp_session_ttl(store, given->ttl_ms, ret_ttl_ms, reterr)
               : status;
}

/* See <quipu/store.h>. */
quipu_status quipu_session_update(quipu_store *store, quipu_str key,
                                  const quipu_session_patch *patch, const quipu_call_options *call,
                                  int64_t *ret_revision, quipu_error *reterr)
{
    session_change change = {.store = store, .key = key, .given = QUIPU_SESSION_PATCH_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&change.given, sizeof(change.given), patch, "quipu_session_patch",
                                 reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_settings_check(store, &change.given, &change.ttl_ms, reterr);
    }
    if (status == QUIPU_OK && qp_store_is_remote(store)) {
        status = qp_store_writable(store, reterr);
        status = status == QUIPU_OK ? store->remote.update(store->remote.ctx, &within, key,
                                                           &change.given, &change.revision, reterr)
                                    : status;
    } else if (status == QUIPU_OK) {
        within.session = key; /* the lock of one row is enough */
        status = qp_store_write(store, &within, session_update_work, &change, reterr);
    }
    /* The revision that this update made: the caller's next expected one. */
    if (status == QUIPU_OK && ret_revision != NULL) {
        *ret_revision = change.revision;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "update", key, reterr);
}
