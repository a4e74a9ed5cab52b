/* Statistics: the sessions' headers added up, sizes, and what this store's connections did.
 *
 * Owns the calls quipu_store_stats(). Walks over all sessions of the
 * tenant on a reading connection (in a store in memory: the only one), outside of a transaction and
 * without a lock, so that no writer waits for it. The scan is one statement and so one snapshot;
 * the sizes are read before it. The counters of the commit group are read under its mutex. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "base/sum.h"
#include "ent/maintenance.h"
#include "store/job.h"
#include "store/maintain.h"

_Static_assert((int)QUIPU_CHECKSUMS_OFF == (int)QP_CHECKSUMS_OFF &&
                   (int)QUIPU_CHECKSUMS_ON == (int)QP_CHECKSUMS_ON &&
                   (int)QUIPU_CHECKSUMS_STALE == (int)QP_CHECKSUMS_STALE,
               "the engine's words are the caller's");

/* One call; the work sets `stats` anew when it is retried. */
typedef struct stats_call {
    quipu_store *store;
    quipu_time now;    /* one clock for all sessions */
    bool is_quick;     /* without the scans over sessions and artifacts */
    quipu_stats stats; /* the result */
} stats_call;

/* Adds one session. Only rows are read: counts and totals stand in them. Search still has to index
 * the messages behind the watermark that were not deleted. */
static void stats_add(quipu_stats *stats, const qp_session *row, quipu_time now)
{
    assert(row->key.p != NULL); /* the query leaves hidden sessions out */
    stats->sessions++;
    stats->expired += qp_session_expired(row, now);
    stats->forks += row->parent_id.has;
    /* Numbers that cannot be would spoil the sums over all the others. */
    if (!qp_session_is_sound(row)) {
        return; /* verify reports it */
    }
    stats->messages += row->message_count;
    stats->tokens = qp_sum(stats->tokens, row->token_count);
    /* Messages that a cap or a prune deleted need no indexing: `gone` is the last of them. */
    if (row->index_pending) {
        const int64_t gone = row->first_seq - 1;
        const int64_t left =
            row->next_seq - 1 - (row->indexed_seq > gone ? row->indexed_seq : gone);
        stats->unindexed += left > 0 ? left : 0;
    }
    /* Among equally large sessions, the first in the scan counts. An adopted file may hold longer
     * keys than fit. */
    if (row->message_count > stats->largest_messages && row->key.n <= QUIPU_KEY_MAX) {
        stats->largest_messages = row->message_count;
        memcpy(stats->largest_key, row->key.p, row->key.n);
        stats->largest_key[row->key.n] = '\0';
    }
}

/* One scan over the rows, which are not kept: memory does not grow with the store. */
static quipu_status stats_sessions(stats_call *call, ent_db *db, quipu_error *reterr)
{
    const qp_session_query query = {
        .where = {.tenant = ent_eq(call->store->tenant), .key = ENT_NOT_NULL}};
    qp_session_iter iter;
    qp_session row;
    quipu_status status = qp_session_iter_begin(db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    /* A row's texts live until the next one: stats_add() copies the key it keeps. */
    while (qp_session_iter_next(&iter, &row)) {
        stats_add(&call->stats, &row, call->now);
    }
    return qp_session_iter_end(&iter, reterr);
}

/* Sorted by content, so that what a user has twice counts once. */
static quipu_status stats_artifacts(stats_call *call, ent_db *db, quipu_error *reterr)
{
    const qp_artifact_query query = {
        .order = {QP_ARTIFACT_BY_TENANT(ASC), QP_ARTIFACT_BY_APP_NAME(ASC),
                  QP_ARTIFACT_BY_USER_ID(ASC), QP_ARTIFACT_BY_HASH(ASC)},
        .where = {.tenant = ent_eq(call->store->tenant)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_artifact last = {.size = 0};
    qp_artifact_iter iter;
    qp_artifact row;
    quipu_status status = qp_artifact_iter_begin(db, &query, &iter, reterr);
    quipu_status ended;

    assert(call->stats.artifacts == 0);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_artifact_iter_next(&iter, &row)) {
        call->stats.artifacts++;
        /* Equal bytes of a user stand side by side: they are stored once, and count once. */
        if (quipu_str_eq(row.hash, last.hash) && quipu_str_eq(row.user_id, last.user_id) &&
            quipu_str_eq(row.app_name, last.app_name)) {
            continue;
        }
        call->stats.artifact_bytes += row.size;
        /* The next row takes the memory of this one: three texts of it are kept for one step. */
        quipu_arena_free(&arena);
        status = quipu_arena_copy(&arena, row.hash, &last.hash);
        status = status == QUIPU_OK ? quipu_arena_copy(&arena, row.user_id, &last.user_id) : status;
        status =
            status == QUIPU_OK ? quipu_arena_copy(&arena, row.app_name, &last.app_name) : status;
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "out of memory for figures");
        }
    }
    quipu_arena_free(&arena);
    ended = qp_artifact_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* Jobs that workers of memory have still to do; purges are the store's own. */
static quipu_status stats_jobs(stats_call *call, ent_db *db, quipu_error *reterr)
{
    qp_job_counts counts = {0};
    quipu_status status = qp_job_count_kind(call->store, db, QP_JOB_OBSERVE, &counts, reterr);

    if (status == QUIPU_OK) {
        /* On top of the others: the figures are of both kinds together. */
        status = qp_job_count_kind(call->store, db, QP_JOB_REFLECT, &counts, reterr);
    }
    call->stats.jobs_pending = counts.pending;
    call->stats.jobs_leased = counts.leased;
    call->stats.jobs_failed = counts.failed;
    return status;
}

/* Sizes must be asked outside of a transaction; the scan that follows is one statement, and so one
 * snapshot. */
static quipu_status stats_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    stats_call *call = ctx;
    quipu_stats *stats = &call->stats;
    qp_sizes sizes = {0};
    qp_checksums checksums = QP_CHECKSUMS_OFF;
    quipu_status status = qp_maintenance_sizes(db, &sizes, reterr);

    assert(ent_depth(db) == 0);
    (void)scratch;
    /* Set as a whole: a retried work must not add to the figures of the try before. */
    *stats = (quipu_stats){.file_bytes = sizes.file_bytes,
                           .free_bytes = sizes.free_bytes,
                           .log_bytes = sizes.log_bytes,
                           .durability_level = sizes.durability_level,
                           .syncs = sizes.syncs};
    if (status == QUIPU_OK) {
        status = qp_maintenance_checksums(db, &checksums, reterr);
        stats->checksums = (quipu_checksums)checksums;
    }
    if (status == QUIPU_OK) {
        status = qp_maintenance_engine(db, stats->engine, sizeof(stats->engine), reterr);
    }
    if (status == QUIPU_OK) {
        status = stats_jobs(call, db, reterr);
    }
    if (status == QUIPU_OK && !call->is_quick) {
        status = stats_sessions(call, db, reterr);
    }
    return status == QUIPU_OK && !call->is_quick ? stats_artifacts(call, db, reterr) : status;
}

/* Counters of this process, not of the file: other processes have their own. */
static void stats_connections(quipu_store *store, quipu_stats *stats)
{
    assert(stats->readers == 0 && stats->commits == 0);
    if (qp_store_pools(store)) {
        stats->readers = (int64_t)qp_pool_open(&store->pool);
    }
    /* A store that only reads has no group. */
    if (!store->read_only) {
        const qp_group_counts counts = qp_group_counted(&store->group);
        stats->commits = counts.commits;
        stats->writes = counts.writes;
        stats->largest_commit = counts.largest;
        memcpy(stats->commit_sizes, counts.sizes, sizeof(counts.sizes));
    }
}

/* Reads the caller's options. */
static quipu_status stats_options(const quipu_stats_options *given, bool *ret_quick,
                                  quipu_error *reterr)
{
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_status status =
        qp_options_read(&options, sizeof(options), given, "quipu_stats_options", reterr);

    if (status == QUIPU_OK && (options.flags & ~QUIPU_STATS_QUICK) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_STATS_*",
                              (unsigned)options.flags);
    }
    *ret_quick = options.flags != 0;
    return status;
}

/* A call without a deadline has none, as all of <quipu/maintain.h>: the scan may take long. */
quipu_status quipu_store_stats(quipu_store *store, const quipu_stats_options *options,
                               const quipu_call_options *call, quipu_stats *ret_stats,
                               quipu_error *reterr)
{
    stats_call stats = {.store = store, .now = quipu_time_now()};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_stats == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "stats needs a place for its figures");
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_stats, "quipu_stats", reterr);
    }
    if (status == QUIPU_OK) {
        status = stats_options(options, &stats.is_quick, reterr);
    }
    if (status == QUIPU_OK && qp_store_is_remote(store)) {
        status =
            store->remote.stats(store->remote.ctx, &within, stats.is_quick, &stats.stats, reterr);
    } else if (status == QUIPU_OK) {
        status = qp_store_read_apart(store, &within, stats_work, &stats, reterr);
    }
    if (status == QUIPU_OK) {
        assert(ret_stats != NULL);
        if (!qp_store_is_remote(store)) {
            stats_connections(store, &stats.stats);
            /* Found when the store was opened, so that this reads nothing. */
            (void)snprintf(stats.stats.missing, sizeof(stats.stats.missing), "%s",
                           store->given.missing != NULL ? store->given.missing : "");
        }
        qp_output_put(ret_stats, &stats.stats, sizeof(stats.stats));
    }
    qp_store_leave(&within);
    return status;
}
