/* Removing sessions: on request, and when their time has passed. */
#include "store/feed.h"
#include "store/fork_release.h"
#include "store/size.h"
#include "store/store.h"

/* Observations and reflections go by the key: there may be some of a session that is gone. */
static quipu_status session_delete_memories(const quipu_store *store, ent_db *db, quipu_str key,
                                            quipu_error *reterr)
{
    const quipu_str tenant = store->tenant;
    int64_t count = 0;
    quipu_status status = qp_observation_delete(
        db, &(qp_observation_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)}, &count,
        reterr);

    return status == QUIPU_OK
               ? qp_reflection_delete(
                     db,
                     &(qp_reflection_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)},
                     &count, reterr)
               : status;
}

/* What a session has beside its messages and its row; a feed hears that it is gone. */
static quipu_status session_delete_belongings(const quipu_store *store, ent_db *db,
                                              const qp_session *row, quipu_error *reterr)
{
    const quipu_str tenant = store->tenant;
    int64_t count = 0;
    /* A session's state carries its app and user: the whole beginning of the key. */
    quipu_status status =
        qp_state_delete(db,
                        &(qp_state_where){.tenant = ent_eq(tenant),
                                          .scope = qp_state_scope_is(QP_STATE_SCOPE_SESSION),
                                          .app_name = ent_eq(row->app_name),
                                          .user_id = ent_eq(row->user_id),
                                          .session_number = ent_eq(row->id)},
                        &count, reterr);

    if (status == QUIPU_OK) {
        status = qp_state_event_delete(
            db, &(qp_state_event_where){.session_number = ent_eq(row->id)}, &count, reterr);
    }
    if (status == QUIPU_OK) {
        status = session_delete_memories(store, db, row->key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_feed_tell(
            store, db, row, &(qp_feed_note){QUIPU_CHANGE_DELETED, row->revision + 1, 0, 0}, reterr);
    }
    return status;
}

quipu_status qp_session_remove(const quipu_store *store, ent_db *db, const qp_session *row,
                               quipu_error *reterr)
{
    quipu_status status = session_delete_belongings(store, db, row, reterr);

    return status == QUIPU_OK ? qp_fork_remove(db, row, reterr) : status;
}

quipu_status qp_session_remove_tree(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    const qp_session *row, int64_t *ret_removed,
                                    quipu_error *reterr)
{
    const qp_session *const *rows = NULL;
    size_t count = 0;
    int64_t removed = 0;
    quipu_status status = qp_fork_tree(db, scratch, row, &rows, &count, reterr);

    /* Forks before their parents: each goes at once, with nothing to keep for others. */
    for (size_t i = count; i > 0 && status == QUIPU_OK; i--) {
        if (rows[i - 1]->key.p != NULL) {
            status = qp_session_remove(store, db, rows[i - 1], reterr);
            removed++;
        }
    }
    if (status == QUIPU_OK) {
        *ret_removed = removed;
    }
    return status;
}

typedef struct session_delete_call {
    const quipu_store *store;
    quipu_str key;
    bool tree;
    int64_t removed;
} session_delete_call;

static quipu_status session_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_delete_call *call = ctx;
    const qp_session *row = NULL;
    quipu_status status = qp_session_lookup(call->store, db, scratch, call->key, &row, reterr);

    call->removed = 0;
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL) {
        return session_delete_memories(call->store, db, call->key, reterr);
    }
    return call->tree
               ? qp_session_remove_tree(call->store, db, scratch, row, &call->removed, reterr)
               : qp_session_remove(call->store, db, row, reterr);
}

quipu_status quipu_session_delete(quipu_store *store, quipu_str key, const quipu_call_options *call,
                                  quipu_error *reterr)
{
    session_delete_call delete = {.store = store, .key = key};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_size_exempt(store, &within, session_delete_work, &delete, reterr);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "delete", key, reterr);
}

quipu_status quipu_session_delete_tree(quipu_store *store, quipu_str key,
                                       const quipu_call_options *call, int64_t *ret_removed,
                                       quipu_error *reterr)
{
    session_delete_call delete = {.store = store, .key = key, .tree = true};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_size_exempt(store, &within, session_delete_work, &delete, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = delete.removed;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "delete", key, reterr);
}

/* ---- sweeping ---------------------------------------------------------------------------------
 */

typedef struct session_delete_sweep {
    const quipu_store *store;
    int64_t removed; /* in this batch */
} session_delete_sweep;

/* Found and removed in one transaction: a session that was renewed before is not found any more. */
static quipu_status session_delete_expired(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    session_delete_sweep *sweep = ctx;
    const qp_session_query query = {.limit = QUIPU_SWEEP_BATCH,
                                    .order = {QP_SESSION_BY_EXPIRES_AT(ASC)},
                                    .where = {.tenant = ent_eq(sweep->store->tenant),
                                              .key = ENT_NOT_NULL,
                                              .expires_at = ent_le(quipu_time_now())}};
    qp_session_list list = {0};
    quipu_status status = qp_session_find(db, scratch, &query, &list, reterr);

    sweep->removed = 0;
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = qp_session_remove(sweep->store, db, &list.items[i], reterr);
        sweep->removed++;
    }
    return status;
}

quipu_status quipu_store_sweep(quipu_store *store, const quipu_call_options *call,
                               int64_t *ret_removed, quipu_error *reterr)
{
    session_delete_sweep sweep = {.store = store};
    int64_t removed = 0;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    while (status == QUIPU_OK) {
        status = qp_size_exempt(store, &within, session_delete_expired, &sweep, reterr);
        if (status == QUIPU_OK) {
            removed += sweep.removed;
            qp_call_tell(&within, removed);
            if (sweep.removed < QUIPU_SWEEP_BATCH) {
                break;
            }
            status = qp_call_check(&within, reterr);
        }
        if (status == QUIPU_BUSY && removed > 0) {
            status = QUIPU_OK; /* the time is up; the rest waits for the next sweep */
            break;
        }
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
