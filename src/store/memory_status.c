/* How far sessions are observed, for people: watermarks, pending tokens, leases and failures.
 *
 * Owns the list that it returns. Called by quipu_memory_status(). One snapshot without a lock; rows
 * of sessions are read in the order of their numbers. Nothing here writes: a session that no worker
 * has seen yet is shown with all its messages pending. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/sum.h"
#include "store/memory_scope.h"

typedef struct memory_status_list {
    qp_result head;               /* its arena has rows, items and texts */
    quipu_memory_status_list pub; /* what the caller has, and frees with quipu_free() */
} memory_status_list;

QP_RESULT(memory_status_list);

/* One call. */
typedef struct memory_status_call {
    const quipu_store *store;
    quipu_memory_options options; /* which sessions, and the threshold that is shown */
    memory_status_list *list;     /* the result; filled anew by every run */
} memory_status_call;

/* The session's job, when it has one. Without one nobody works on the session and nothing has
 * failed: the members stay 0. A lease that has ended by the clock stays in the row until the next
 * claim. */
static quipu_status memory_status_job(const memory_status_call *call, ent_db *db,
                                      const qp_session *row, quipu_memory_progress *item,
                                      quipu_error *reterr)
{
    const qp_job *job = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_row_optional(qp_job_get(db, &call->list->head.arena, call->store->tenant, row->key,
                                   QP_JOB_OBSERVE, &job, &error),
                        &error, reterr);

    assert(row->key.p != NULL && item->owner.p == NULL);
    if (status != QUIPU_OK || job == NULL) {
        return status;
    }
    /* The row lies in the arena of the result, and its texts with it. */
    item->owner = job->owner;
    item->has_lease_until = job->lease_until.has;
    item->lease_until = job->lease_until.v;
    item->fence = job->fence;
    item->tries = job->tries;
    item->has_next_at = job->next_at.has;
    item->next_at = job->next_at.v;
    item->last_error = job->last_error;
    return QUIPU_OK;
}

/* The failure of its reflecting, when that is what the last try was. */
static quipu_status memory_status_reflect(const memory_status_call *call, ent_db *db,
                                          const qp_session *row, quipu_memory_progress *item,
                                          quipu_error *reterr)
{
    const qp_job *job = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_row_optional(qp_job_get(db, &call->list->head.arena, call->store->tenant, row->key,
                                   QP_JOB_REFLECT, &job, &error),
                        &error, reterr);

    assert(item->reflect_error.p == NULL);
    /* Only the failure: owner and lease are shown for observing. */
    if (job != NULL) {
        item->reflect_error = job->last_error;
    }
    return status;
}

/* What is known of the session, and the standing lines of its scope. */
static quipu_status memory_status_counts(const memory_status_call *call, ent_db *db,
                                         quipu_arena *scratch, quipu_memory_progress *item,
                                         quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(call->store->tenant);
    const ent_where_text key = ent_eq(item->session_key);
    /* Standing lines belong to the scope: sessions of one user show the same sum. The two counts
     * are the session's own. */
    const qp_observation_query standing = {
        .where = {.tenant = tenant,
                  .scope = ent_eq(item->scope),
                  .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_STANDING),
                  .retired_at = ENT_IS_NULL}};
    qp_observation_list list = {0};
    quipu_status status = qp_observation_count(
        db,
        &(qp_observation_where){.tenant = tenant, .session_key = key, .retired_at = ENT_IS_NULL},
        &item->observations, reterr);

    assert(item->scope.n > 0 && item->standing_tokens == 0);
    if (status == QUIPU_OK) {
        status = qp_reflection_count(
            db,
            &(qp_reflection_where){.tenant = tenant, .session_key = key, .retired_at = ENT_IS_NULL},
            &item->reflections, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_observation_find(db, scratch, &standing, &list, reterr);
    }
    /* Token counts of a file are input: their sum must not overflow. */
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        item->standing_tokens = qp_sum(item->standing_tokens, list.items[i].token_count);
    }
    return status;
}

/* One session. Texts lie in the result's arena, as the row does. */
static quipu_status memory_status_item(const memory_status_call *call, ent_db *db,
                                       quipu_arena *scratch, const qp_session *row,
                                       quipu_memory_progress *ret, quipu_error *reterr)
{
    qp_memory_mark mark;
    quipu_status status = qp_memory_mark_read(call->store, db, scratch, row, &mark, reterr);

    *ret = (quipu_memory_progress){.session_key = row->key};
    if (status == QUIPU_OK) {
        status = qp_memory_scope_name(row, &call->list->head.arena, &ret->scope, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    assert(ret->scope.n > 0);
    ret->watermark = mark.watermark;
    ret->last_seq = mark.last_seq;
    ret->pending_tokens = mark.pending_tokens;
    /* A summary has no tokens, and no worker observes it: one that stands alone behind the
     * watermark is passed over, and the newest one is not counted among others. */
    if (mark.pending_tokens == 0) {
        ret->watermark = mark.last_seq;
    } else {
        ret->pending_messages =
            mark.last_seq - mark.watermark - (row->compact_seq > mark.watermark ? 1 : 0);
    }
    ret->generation = mark.generation;
    /* What a worker with these options would use: memory_scope_threshold() has the same order. */
    ret->observe_tokens = call->options.observe_tokens > 0 ? call->options.observe_tokens
                          : mark.observe_tokens > 0        ? mark.observe_tokens
                          : call->options.provider != NULL ? QUIPU_OBSERVE_TOKENS_MODEL
                                                           : QUIPU_OBSERVE_TOKENS_DEFAULT;
    /* In this life of the session, as the ledger has it. */
    ret->model_calls = mark.spent.calls;
    ret->model_input = mark.spent.input;
    ret->model_output = mark.spent.output;
    ret->model_cost = mark.spent.cost;
    ret->model_unpriced = mark.spent.unpriced;
    /* Observing and condensing are two jobs, each with failures of its own. */
    status = memory_status_job(call, db, row, ret, reterr);
    if (status == QUIPU_OK) {
        status = memory_status_reflect(call, db, row, ret, reterr);
    }
    return status == QUIPU_OK ? memory_status_counts(call, db, scratch, ret, reterr) : status;
}

/* The sessions that the options name. */
static quipu_status memory_status_rows(const memory_status_call *call, ent_db *db,
                                       qp_session_list *ret, quipu_error *reterr)
{
    const quipu_memory_options *options = &call->options;
    qp_session_query query = {
        .limit = QUIPU_PAGE_MAX + 1, /* one more shows that there are more */
        .order = {QP_SESSION_BY_ID(ASC)},
        .where = {.tenant = ent_eq(call->store->tenant), .key = ENT_NOT_NULL}};

    assert(options->session_key.p == NULL || options->session_key.n > 0);
    if (options->session_key.p != NULL) {
        /* A key that is missing or expired is an error of its own, not an empty list. */
        const qp_session *row = NULL;
        quipu_status status = qp_session_load(call->store, db, &call->list->head.arena,
                                              options->session_key, quipu_time_now(), &row, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        /* Through the query all the same: app and user hold for it as well. */
        query.where.key = ent_eq(options->session_key);
    }
    if (options->app_name.p != NULL) {
        query.where.app_name = ent_eq(options->app_name);
    }
    if (options->user_id.p != NULL) {
        query.where.user_id = ent_eq(options->user_id);
    }
    return qp_session_find(db, &call->list->head.arena, &query, ret, reterr);
}

/* A qp_work_fn. A retry begins with an empty arena. */
static quipu_status memory_status_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    memory_status_call *call = ctx;
    quipu_arena *arena = &call->list->head.arena;
    qp_session_list rows = {0};
    quipu_memory_progress *items = NULL;
    quipu_status status;
    size_t count;
    size_t shown = 0;

    quipu_arena_free(arena);
    status = memory_status_rows(call, db, &rows, reterr);
    /* The row above the limit is not shown. */
    count = rows.n < QUIPU_PAGE_MAX ? rows.n : QUIPU_PAGE_MAX;
    if (status == QUIPU_OK && count > 0) {
        items = qp_arena_take(arena, count * sizeof(*items));
        status =
            items != NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a status");
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        assert(items != NULL);
        /* No caller can name a session whose key is empty; verify reports it. */
        if (rows.items[i].key.n > 0) {
            status = memory_status_item(call, db, scratch, &rows.items[i], &items[shown++], reterr);
        }
    }
    /* Fewer than `count` where rows with an empty key were passed over. */
    call->list->pub.sessions = quipu_memory_progresses_of(items, shown);
    call->list->pub.more = rows.n > count;
    return status;
}

/* Reads in a local store, or asks the server of a remote one. */
static quipu_status memory_status_run(quipu_store *store, const qp_call *within,
                                      memory_status_call *read, quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;

    assert(read->list != NULL);
    return qp_store_is_remote(store)
               ? remote->memory_status(remote->ctx, within, &read->options, &read->list->head.arena,
                                       &read->list->pub, reterr)
               : qp_store_read(store, within, memory_status_work, read, reterr);
}

/* See <quipu/memory.h>. One snapshot, so that watermarks and leases fit each other. */
quipu_status quipu_memory_status(quipu_store *store, const quipu_memory_options *options,
                                 const quipu_call_options *call,
                                 quipu_memory_status_list **ret_list, quipu_error *reterr)
{
    memory_status_call read = {.store = store, .options = QUIPU_MEMORY_OPTIONS_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_options_read(&read.options, sizeof(read.options), options,
                                 "quipu_memory_options", reterr);
    }
    if (status == QUIPU_OK && ret_list == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a status needs a place");
    }
    if (status == QUIPU_OK && read.options.session_key.p != NULL) {
        status = qp_key_check(read.options.session_key, reterr);
    }
    if (status == QUIPU_OK) {
        /* Made before the read, which uses it again when it is retried. */
        read.list = qp_result_new(sizeof(*read.list));
        status = read.list != NULL ? memory_status_run(store, &within, &read, reterr)
                                   : qp_error_set(reterr, QUIPU_NOMEM, "no memory for a status");
    }
    if (status == QUIPU_OK) {
        assert(ret_list != NULL);
        *ret_list = &read.list->pub;
    } else if (read.list != NULL) {
        quipu_free(&read.list->pub);
    }
    qp_store_leave(&within);
    return status;
}
