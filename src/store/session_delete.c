/* Removing sessions: one, one with its forks, and those whose time has passed.
 *
 * Owns: the rows of a session beside its messages (state, ids of state events, memories, the log of
 * what was sent), and the order in which all of it is removed. Messages and rows are
 * fork_release.c's. Called by: the public calls below; qp_session_remove() also by session.c,
 * fork.c and src/import for an expired session that is replaced, and by state_child.c for a child
 * session that is done. Transactions: everything runs in a transaction of the commit group that is
 * exclusive or has locked the session's row and its family, so that writers of other sessions go
 * on; the public calls are exempt from the size cap, because a file that is full must be able to
 * shrink. On return: the session is gone, or hidden: when forks share its messages, or while its
 * messages are purged (purge.h). The feed has recorded it, and its uid is among the removals. */
#include <assert.h>

#include "base/error.h"
#include "base/sum.h"
#include "ent/db.h"
#include "store/artifact.h"
#include "store/context_log.h"
#include "store/feed.h"
#include "store/fork_release.h"
#include "store/memory_scope.h"
#include "store/purge.h"
#include "store/size.h"
#include "store/state_internal.h"
#include "store/store.h"
#include "store/usage.h"

/* Delete observations and reflections by the key, which is how they refer to a session: a session
 * that is gone may have left some. Its scope and its jobs are deleted, too. */
static quipu_status session_delete_memories(const quipu_store *store, ent_db *db, quipu_str key,
                                            quipu_error *reterr)
{
    const quipu_str tenant = store->tenant;
    int64_t count = 0;
    quipu_status status = qp_memory_uncondense_shared(store, db, key, reterr);

    assert(key.p != NULL && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_observation_delete(
            db, &(qp_observation_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)},
            &count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_reflection_delete(
            db, &(qp_reflection_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)},
            &count, reterr);
    }
    return status == QUIPU_OK ? qp_memory_scope_remove(store, db, key, reterr) : status;
}

/* Delete what a session has beside its messages and its row, and record the removal in the feed.
 * The removal counts as a change of the session: its revision is one more than the row's.
 *
 *   State of the session                              deleted
 *   State of its app and its user                     stays, and forgets which session set it
 *   StateEvent, ContextLog, Usage                     deleted by the number of the session
 *   Artifact: versions of the session                 deleted by its key
 *   Observation, Reflection, MemoryScope, Job         deleted by its key
 *   Feed                                              gets a change more
 *   Message, Session, Removal                         by the caller, qp_session_remove() */
static quipu_status session_delete_belongings(quipu_store *store, ent_db *db, const qp_session *row,
                                              quipu_error *reterr)
{
    const quipu_str tenant = store->tenant;
    int64_t count = 0;
    /* The state of a session also has its app and user, which lead the key: with them the delete
     * is one range of the index. */
    quipu_status status =
        qp_state_delete(db,
                        &(qp_state_where){.tenant = ent_eq(tenant),
                                          .scope = qp_state_scope_is(QP_STATE_SCOPE_SESSION),
                                          .app_name = ent_eq(row->app_name),
                                          .user_id = ent_eq(row->user_id),
                                          .session_number = ent_eq(row->id)},
                        &count, reterr);

    assert(row->id != 0 && row->key.p != NULL);
    if (status == QUIPU_OK) {
        status = qp_state_event_delete(
            db, &(qp_state_event_where){.session_number = ent_eq(row->id)}, &count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_context_log_remove(db, row->id, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_usage_remove(db, row->id, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_state_forget_session(store, db, row, reterr);
    }
    /* An empty key is damage, and names what belongs to users: nothing is found by it. */
    if (status == QUIPU_OK && row->key.n > 0) {
        status = qp_artifact_remove(db,
                                    &(qp_artifact_where){.tenant = ent_eq(tenant),
                                                         .app_name = ent_eq(row->app_name),
                                                         .user_id = ent_eq(row->user_id),
                                                         .session_key = ent_eq(row->key)},
                                    NULL, reterr);
    }
    if (status == QUIPU_OK && row->key.n > 0) {
        status = session_delete_memories(store, db, row->key, reterr);
    }
    if (status == QUIPU_OK) {
        /* In the same commit: a reader of the feed never sees one without the other. */
        status = qp_feed_record(
            store, db, row, &(qp_feed_note){QUIPU_CHANGE_DELETED, qp_sum(row->revision, 1), 0, 0},
            reterr);
    }
    return status;
}

/* In two steps: belongings first, because hiding the row clears its key and its user, by which they
 * are found; then messages and row. `row` is as it was read in this transaction. */
quipu_status qp_session_remove(quipu_store *store, ent_db *db, const qp_session *row,
                               quipu_error *reterr)
{
    const qp_removal_new removal = {.tenant = store->tenant, .uid = row->uid};
    quipu_status status = session_delete_belongings(store, db, row, reterr);

    assert(ent_depth(db) > 0);
    /* A check against a head or an export that was kept then reports the session as deleted, not as
     * lost; both name sessions without a hash, too. Upsert: an import may have brought back what
     * was deleted before. */
    if (status == QUIPU_OK) {
        status = qp_removal_upsert(db, NULL, &removal, QP_REMOVAL_ON_KEY, NULL, reterr);
    }
    return status == QUIPU_OK ? qp_fork_remove(store, db, row, reterr) : status;
}

/* One delete. `removed` is set by each run of the work: only the last one counts. */
typedef struct session_delete_call {
    quipu_store *store;
    quipu_str key;
    bool tree; /* with all of its forks */
    int64_t removed;
    /* The sessions of a tree that were there when it was planned; others may write meanwhile. */
    quipu_str keys[QUIPU_GROUP_MAX];
    size_t count;      /* 0: there are more than a batch locks */
    quipu_arena arena; /* of the keys */
} session_delete_call;

/* Whether the open transaction holds what the delete of these rows needs: their locks, or nobody
 * else writes. A fork that was made since the plan is not locked. */
static bool session_delete_owns(const session_delete_call *call, const qp_session *const *rows,
                                size_t count)
{
    const bool locked = qp_group_state(&call->store->group) == QP_BATCH_LOCKED;
    bool owns = true;

    for (size_t i = 0; i < count && locked; i++) {
        bool planned = rows[i]->key.p == NULL; /* a hidden one is the family's */

        for (size_t k = 0; k < call->count && !planned; k++) {
            planned = quipu_str_eq(call->keys[k], rows[i]->key);
        }
        owns = owns && planned;
    }
    return owns;
}

/* The caller's delete needs more than it has locked: session_delete_run() comes back as the only
 * writer. Nothing was changed. */
static quipu_status session_delete_alone(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_CONFLICT, "it changed while it was to be deleted");
}

/* A session that is gone may have left memories. A row that was not there to be locked and is there
 * now was created in between; from now on the counter of its shard keeps it away. */
static quipu_status session_delete_missing(session_delete_call *call, ent_db *db,
                                           quipu_arena *scratch, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    /* In an exclusive batch nobody else writes: the look that found no row is still right. */
    if (qp_group_state(&call->store->group) == QP_BATCH_LOCKED) {
        status = qp_session_lookup(call->store, db, scratch, call->key, &row, reterr);
    }
    if (status == QUIPU_OK && row != NULL) {
        return session_delete_alone(reterr);
    }
    return status == QUIPU_OK ? session_delete_memories(call->store, db, call->key, reterr)
                              : status;
}

/* Hidden sessions of the tree are passed over: the last of their forks takes them along
 * (fork_release.c). `rows` has parents before their forks. */
static quipu_status session_delete_rows(quipu_store *store, ent_db *db,
                                        const qp_session *const *rows, size_t count,
                                        int64_t *ret_removed, quipu_error *reterr)
{
    int64_t removed = 0;
    quipu_status status = QUIPU_OK;

    /* Forks before their parents: each goes at once, with nothing to keep for others. */
    for (size_t i = count; i > 0 && status == QUIPU_OK; i--) {
        if (rows[i - 1]->key.p != NULL) {
            status = qp_session_remove(store, db, rows[i - 1], reterr);
            removed++;
        }
    }
    if (status == QUIPU_OK) {
        assert(removed >= 0 && (size_t)removed <= count);
        *ret_removed = removed;
    }
    return status;
}

quipu_status qp_session_remove_tree(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    const qp_session *row, int64_t *ret_removed,
                                    quipu_error *reterr)
{
    const qp_session *const *rows = NULL;
    size_t count = 0;
    quipu_status status = qp_fork_tree(db, scratch, row, &rows, &count, reterr);

    assert(status != QUIPU_OK || (count > 0 && rows[0]->id == row->id));
    return status == QUIPU_OK ? session_delete_rows(store, db, rows, count, ret_removed, reterr)
                              : status;
}

/* Deleting twice succeeds: without a session there may still be memories of its key. */
static quipu_status session_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_delete_call *call = ctx;
    const qp_session *row = NULL;
    const qp_session *const *rows = NULL;
    size_t count = 0;
    quipu_status status =
        qp_session_lookup_for_update(call->store, db, scratch, call->key, &row, reterr);

    assert(ent_depth(db) > 0 && call->key.n > 0);
    call->removed = 0;
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL) {
        return session_delete_missing(call, db, scratch, reterr);
    }
    if (!call->tree) {
        call->removed = 1;
        return qp_session_remove(call->store, db, row, reterr);
    }
    status = qp_fork_tree(db, scratch, row, &rows, &count, reterr);
    if (status == QUIPU_OK && !session_delete_owns(call, rows, count)) {
        return session_delete_alone(reterr);
    }
    return status == QUIPU_OK
               ? session_delete_rows(call->store, db, rows, count, &call->removed, reterr)
               : status;
}

/* Where the engine locks rows, a delete of a tree first looks for its sessions, in a snapshot. */
static quipu_status session_delete_plan(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_delete_call *call = ctx;
    const qp_session *row = NULL;
    const qp_session *const *rows = NULL;
    size_t count = 0;
    quipu_status status = QUIPU_OK;

    call->count = 0;
    if (!qp_db_locks_rows(db)) {
        return QUIPU_OK;
    }
    call->keys[call->count++] = call->key;
    status = qp_session_lookup(call->store, db, scratch, call->key, &row, reterr);
    if (status == QUIPU_OK && row != NULL) {
        status = qp_fork_tree(db, scratch, row, &rows, &count, reterr);
    }
    for (size_t i = 1; i < count && status == QUIPU_OK; i++) {
        /* More than a batch locks: the delete will be the only writer. */
        if (call->count == QUIPU_GROUP_MAX) {
            call->count = 0;
            break;
        }
        if (rows[i]->key.p != NULL &&
            quipu_arena_copy(&call->arena, rows[i]->key, &call->keys[call->count++]) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session's key");
        }
    }
    return status;
}

/* LOCKED where it can, otherwise EXCLUSIVE. */
static quipu_status session_delete_run(session_delete_call *delete, qp_call *within,
                                       quipu_error *reterr)
{
    quipu_store *store = delete->store;
    quipu_error error = {.status = QUIPU_OK};
    quipu_status status = QUIPU_OK;

    assert(within->session.p == NULL);
    within->family = true;
    if (delete->tree) {
        status = qp_store_read(store, within, session_delete_plan, delete, reterr);
        within->sessions = delete->keys;
        within->session_count = delete->count;
    } else {
        within->session = delete->key;
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_size_exempt(store, within, session_delete_work, delete, &error);
    /* More has to go than was locked: once more without names, as the only writer. */
    if (status == QUIPU_CONFLICT) {
        within->session = (quipu_str){NULL, 0};
        within->session_count = 0;
        return qp_size_exempt(store, within, session_delete_work, delete, reterr);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* Deletes in a local store. The rest of long sessions is removed afterwards. */
static quipu_status session_delete_here(session_delete_call *delete, qp_call *within,
                                        quipu_error *reterr)
{
    quipu_status status = session_delete_run(delete, within, reterr);

    if (status == QUIPU_OK) {
        assert(delete->removed >= 0);
        /* The session is gone already. A failure here leaves the rest to later calls. */
        qp_purge_after(delete->store, within, QUIPU_DELETE_BATCHES);
    }
    quipu_arena_free(&delete->arena);
    return status;
}

/* A server deletes single sessions, and says no more than that it did. */
static quipu_status session_delete_there(session_delete_call *delete, const qp_call *within,
                                         quipu_error *reterr)
{
    const qp_remote *remote = &delete->store->remote;
    quipu_status status = qp_store_writable(delete->store, reterr);

    delete->removed = 1;
    return status == QUIPU_OK ? remote->remove(remote->ctx, within, delete->key, reterr) : status;
}

/* A session with forks becomes hidden; its key is free at once. A tree goes in one transaction,
 * however many sessions it has: a reader sees all of them or none. Forks that were made deeper than
 * the limit are copies, and stay. */
quipu_status quipu_session_delete(quipu_store *store, quipu_str key,
                                  const quipu_delete_options *options,
                                  const quipu_call_options *call, int64_t *ret_removed,
                                  quipu_error *reterr)
{
    quipu_delete_options given = QUIPU_DELETE_OPTIONS_INIT;
    session_delete_call delete = {.store = store, .key = key};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_options_read(&given, sizeof(given), options, "quipu_delete_options", reterr);
    }
    if (status == QUIPU_OK && (given.flags & ~QUIPU_DELETE_TREE) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a delete has unknown flags");
    }
    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        delete.tree = (given.flags & QUIPU_DELETE_TREE) != 0;
        status = qp_store_is_remote(store) && !delete.tree
                     ? session_delete_there(&delete, &within, reterr)
                     : session_delete_here(&delete, &within, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = delete.removed;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "delete", key, reterr);
}

/* ---- sweeping ---------------------------------------------------------------------------------
 */

/* One batch of a sweep. Where the engine locks rows, it looks for its sessions in a snapshot, and
 * removes under their locks those that are there and expired still. */
typedef struct session_delete_sweep {
    quipu_store *store;
    int64_t removed;                   /* in this batch */
    bool more;                         /* it was full */
    quipu_str keys[QUIPU_SWEEP_BATCH]; /* of the sessions that had expired at the plan */
    size_t count;      /* of them; 0: the batch is exclusive, or nothing has expired */
    bool none;         /* nothing has expired */
    quipu_arena arena; /* of the keys */
} session_delete_sweep;

/* A batch of expired sessions, the oldest first. Hidden rows have no key and stay. */
static quipu_status session_delete_find(const session_delete_sweep *sweep, ent_db *db,
                                        quipu_arena *scratch, qp_session_list *ret,
                                        quipu_error *reterr)
{
    const qp_session_query query = {.limit = QUIPU_SWEEP_BATCH,
                                    .order = {QP_SESSION_BY_EXPIRES_AT(ASC)},
                                    .where = {.tenant = ent_eq(sweep->store->tenant),
                                              .key = ENT_NOT_NULL,
                                              .expires_at = ent_le(quipu_time_now())}};

    return qp_session_find(db, scratch, &query, ret, reterr);
}

/* Finds and removes in one transaction, so that a session which is renewed in between is not
 * removed. */
static quipu_status session_delete_expired(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    session_delete_sweep *sweep = ctx;
    qp_session_list list = {0};
    quipu_status status = session_delete_find(sweep, db, scratch, &list, reterr);

    assert(list.n <= QUIPU_SWEEP_BATCH);
    sweep->removed = 0;
    /* Rows of the list do not remove each other: only a hidden row is removed with its last fork,
     * and hidden rows have no key. */
    for (size_t i = 0; i < list.n && status == QUIPU_OK && !qp_fork_budget_is_used(sweep->store);
         i++) {
        status = qp_session_remove(sweep->store, db, &list.items[i], reterr);
        sweep->removed++;
    }
    /* The batch was full, or the messages that one step may remove were used up. */
    sweep->more = sweep->removed == QUIPU_SWEEP_BATCH || sweep->removed < (int64_t)list.n;
    return status;
}

/* A batch that locks rows names its sessions before it begins: a read finds which have expired, and
 * the delete looks at each again. */
static quipu_status session_delete_sweep_plan(void *ctx, ent_db *db, quipu_arena *scratch,
                                              quipu_error *reterr)
{
    session_delete_sweep *sweep = ctx;
    qp_session_list list = {0};
    quipu_status status = QUIPU_OK;

    sweep->count = 0;
    sweep->none = false;
    if (!qp_db_locks_rows(db)) {
        return QUIPU_OK;
    }
    if (sweep->arena.head != NULL) {
        quipu_arena_reset(&sweep->arena);
    }
    status = session_delete_find(sweep, db, scratch, &list, reterr);
    sweep->none = status == QUIPU_OK && list.n == 0;
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = quipu_arena_copy(&sweep->arena, list.items[i].key, &sweep->keys[i]);
        sweep->count = i + 1;
    }
    return status;
}

/* Under the locks of the planned sessions. */
static quipu_status session_delete_sweep_locked(void *ctx, ent_db *db, quipu_arena *scratch,
                                                quipu_error *reterr)
{
    session_delete_sweep *sweep = ctx;
    const quipu_time now = quipu_time_now();
    quipu_status status = QUIPU_OK;
    size_t i = 0;

    assert(ent_depth(db) > 0 && sweep->count > 0);
    sweep->removed = 0;
    for (; i < sweep->count && status == QUIPU_OK && !qp_fork_budget_is_used(sweep->store); i++) {
        const qp_session *row = NULL;

        status =
            qp_session_lookup_for_update(sweep->store, db, scratch, sweep->keys[i], &row, reterr);
        /* An append since the plan has moved its expiry: then it stays. */
        if (status == QUIPU_OK && row != NULL && qp_session_expired(row, now)) {
            status = qp_session_remove(sweep->store, db, row, reterr);
            sweep->removed++;
        }
    }
    sweep->more = i < sweep->count || sweep->count == QUIPU_SWEEP_BATCH;
    return status;
}

/* One batch: its plan, and its transaction. */
static quipu_status session_delete_sweep_step(session_delete_sweep *sweep, const qp_call *call,
                                              quipu_error *reterr)
{
    quipu_status status =
        qp_store_read(sweep->store, call, session_delete_sweep_plan, sweep, reterr);
    qp_call within = *call;

    sweep->removed = 0;
    sweep->more = false;
    if (status != QUIPU_OK || sweep->none) {
        return status;
    }
    /* Where the engine locks no rows, the list is empty, and a batch without names is exclusive. */
    within.sessions = sweep->keys;
    within.session_count = sweep->count;
    within.family = true;
    return qp_size_exempt(sweep->store, &within,
                          sweep->count > 0 ? session_delete_sweep_locked : session_delete_expired,
                          sweep, reterr);
}

/* Removes what these and earlier deletes left, also in a store that has recorded no removal. A
 * sweep that has removed sessions has succeeded: the rest is for the next one. */
static quipu_status session_delete_purge(quipu_store *store, const qp_call *call, int64_t removed,
                                         quipu_error *reterr)
{
    assert(removed >= 0);
    if (removed == 0) {
        return qp_purge_run(store, call, QP_PURGE_ALL, reterr);
    }
    /* So that qp_purge_after() looks: it does nothing without the mark. */
    atomic_store(&store->purge_due, true);
    qp_purge_after(store, call, QP_PURGE_ALL);
    return QUIPU_OK;
}

/* Batch after batch, each in a transaction of its own, so that writers get their turn in between. A
 * deadline that passes after the first batch is not an error: the next sweep goes on. */
quipu_status quipu_store_sweep(quipu_store *store, const quipu_call_options *call,
                               int64_t *ret_removed, quipu_error *reterr)
{
    session_delete_sweep sweep = {.store = store};
    int64_t removed = 0;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    while (status == QUIPU_OK) {
        status = session_delete_sweep_step(&sweep, &within, reterr);
        if (status == QUIPU_OK) {
            assert(sweep.removed >= 0 && sweep.removed <= QUIPU_SWEEP_BATCH);
            removed += sweep.removed;
            qp_call_progress(&within, removed);
            if (!sweep.more) {
                break;
            }
            status = qp_call_check(&within, reterr);
        }
        if (status == QUIPU_BUSY && removed > 0) {
            status = QUIPU_OK; /* the time is up; the rest waits for the next sweep */
            break;
        }
    }
    quipu_arena_free(&sweep.arena);
    if (status == QUIPU_OK) {
        status = session_delete_purge(store, &within, removed, reterr);
    }
    if (status == QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "sweep", QP_LOG_NUMBER("sessions", removed));
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = removed;
    }
    qp_store_leave(&within);
    return status;
}
