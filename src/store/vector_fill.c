/* The store's part of filling sessions with vectors: claim a session, commit the vectors that an
 * embedder made, and remove those of an earlier model. vector.h has the picture.
 *
 * Owns the jobs whose kinds begin with QP_VECTOR_KIND: one a session and model, whose first_seq is
 * the watermark. Called by src/memory/embed.c. Claim, commit and replace are exclusive transactions
 * of the commit group; the embedder works between them, without any lock. What a work sets is set
 * anew at its start, because it may run more than once. */
#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "base/sha256.h"
#include "store/fork_chain.h"
#include "store/vector.h"

#define VECTOR_FILL_HASH 12 /* bytes of a model's hash that name its jobs */

static_assert(sizeof(QP_VECTOR_KIND) + 2 * (size_t)VECTOR_FILL_HASH <= QP_VECTOR_KIND_SIZE,
              "a kind has room for the hash");

/* A hash, because a model's name may be longer than a kind, and hold anything. Twelve bytes are
 * enough that no two models of a store meet by chance. */
quipu_str qp_vector_kind(quipu_str model, char text[QP_VECTOR_KIND_SIZE])
{
    uint8_t digest[QP_SHA256_SIZE];
    int n = snprintf(text, QP_VECTOR_KIND_SIZE, "%s", QP_VECTOR_KIND);

    assert(model.n > 0);
    qp_sha256_of(model.p, model.n, digest);
    for (size_t i = 0; i < VECTOR_FILL_HASH; i++) {
        n += snprintf(text + n, QP_VECTOR_KIND_SIZE - (size_t)n, "%02x", digest[i]);
    }
    return (quipu_str){text, (size_t)n};
}

/* ---- what is pending --------------------------------------------------------------------------
 */

/* One session and one model. A vector is stored once, at the session that holds the message, so
 * that a session's shared messages are filled by its ancestors' jobs. */
typedef struct vector_fill_range {
    int64_t first; /* behind the watermark... */
    int64_t last;  /* ...up to the last message; below first: nothing is pending */
    bool others;   /* another model has, or had, vectors of the session */
} vector_fill_range;

/* Reads it, in the caller's transaction: what is behind this model's watermark, and whether another
 * model was here. A session has a handful of jobs. An expired session has nothing pending: a sweep
 * removes it. */
static quipu_status vector_fill_pending(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                        const qp_session *row, quipu_str kind,
                                        vector_fill_range *ret, quipu_error *reterr)
{
    const qp_job_query query = {.where = {.tenant = ent_eq(store->tenant),
                                          .scope = ent_eq(row->key),
                                          .kind = ent_prefix(QP_VECTOR_KIND)}};
    const int64_t base = qp_session_base(row);
    qp_job_list list = {0};
    quipu_status status = qp_job_find(db, scratch, &query, &list, reterr);

    assert(row->key.n > 0 && ent_depth(db) > 0);
    *ret = (vector_fill_range){.first = base < row->first_seq ? row->first_seq : base + 1,
                               .last = row->next_seq - 1};
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        const qp_job *job = &list.items[i];

        if (!quipu_str_eq(job->kind, kind)) {
            ret->others = true;
        } else if (job->first_seq > ret->first) {
            ret->first = job->first_seq;
        }
    }
    if (qp_session_expired(row, quipu_time_now())) {
        ret->last = ret->first - 1;
    }
    return status;
}

/* Asked of every session by a worker that looks for work: reads, and leases nothing. */
quipu_status qp_vector_is_due(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                              const quipu_memory_options *options, const qp_session *row,
                              bool *ret_due, quipu_error *reterr)
{
    const bool replaces = (options->flags & QUIPU_MEMORY_RUN_EMBED_REPLACE) != 0;
    char text[QP_VECTOR_KIND_SIZE];
    vector_fill_range range = {.first = 1};
    quipu_status status = vector_fill_pending(
        store, db, scratch, row, qp_vector_kind(options->embed_model, text), &range, reterr);

    *ret_due = status == QUIPU_OK && (range.first <= range.last || (replaces && range.others));
    return status;
}

/* ---- claiming ---------------------------------------------------------------------------------
 */

/* One claim; `arena` is the caller's, emptied by every run of the work, because a retried
 * transaction may find another job. */
typedef struct vector_fill_claim {
    const quipu_store *store;
    const quipu_memory_options *options;
    quipu_str key;  /* absent: any session with a job that is due */
    quipu_str kind; /* of the model; its text is the caller's */
    quipu_arena *arena;
    qp_memory_work work; /* the result, made anew by every run */
} vector_fill_claim;

/* How many messages one question to the embedder has: fewer when they are long, because they are
 * read whole. */
static int64_t vector_fill_limit(const qp_session *row)
{
    const int64_t mean = row->token_count / (row->message_count > 0 ? row->message_count : 1) + 1;
    const int64_t limit = mean > 0 ? QP_MEMORY_BATCH_TOKENS / mean : 1;

    return limit < 1 ? 1 : limit > QUIPU_EMBED_BATCH ? QUIPU_EMBED_BATCH : limit;
}

/* Makes the session of the claim's key due when something is pending. Appends do not know vectors:
 * whether there is work is found by comparing the session's last number with the watermark. */
static quipu_status vector_fill_make_due(const vector_fill_claim *claim, ent_db *db,
                                         quipu_arena *scratch, quipu_error *reterr)
{
    const qp_session *row = NULL;
    vector_fill_range range = {.first = 1};
    quipu_status status = qp_session_lookup(claim->store, db, scratch, claim->key, &row, reterr);

    if (status == QUIPU_OK && row != NULL) {
        status = vector_fill_pending(claim->store, db, scratch, row, claim->kind, &range, reterr);
    }
    return status == QUIPU_OK && range.first <= range.last
               ? qp_job_make_due(claim->store, db, scratch,
                                 &(qp_job_due){claim->kind, claim->key, range.first, range.last},
                                 reterr)
               : status;
}

/* Reads the session of a claimed job. A job whose session is gone is removed with its vectors; a
 * job with nothing to do becomes idle. */
static quipu_status vector_fill_begin(vector_fill_claim *claim, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    const qp_job_lease *lease = &claim->work.lease;
    const qp_session *row = NULL;
    vector_fill_range range = {.first = 1};
    quipu_status status = qp_session_lookup(claim->store, db, scratch, lease->scope, &row, reterr);

    if (status == QUIPU_OK && row != NULL) {
        status = vector_fill_pending(claim->store, db, scratch, row, claim->kind, &range, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL || range.first > range.last) {
        claim->work.claimed = QP_MEMORY_MOOT;
        return row == NULL ? qp_memory_scope_remove(claim->store, db, lease->scope, reterr)
                           : qp_job_finish(claim->store, db, scratch, lease, reterr);
    }
    claim->work.claimed = QP_MEMORY_CLAIMED;
    claim->work.watermark = range.first - 1;
    claim->work.limit = vector_fill_limit(row);
    return QUIPU_OK;
}

/* A qp_work_fn. With a key that session's job is made due first, where something is pending. */
static quipu_status vector_fill_claim_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    vector_fill_claim *claim = ctx;
    const qp_job_claim wanted = {claim->kind, claim->key, claim->options->worker,
                                 claim->options->lease_ms};
    bool found = false;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    quipu_arena_reset(claim->arena);
    claim->work = (qp_memory_work){.claimed = QP_MEMORY_NONE};
    if (claim->key.p != NULL) {
        status = vector_fill_make_due(claim, db, scratch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_job_claim_next(claim->store, db, claim->arena, &wanted, &claim->work.lease,
                                   &found, reterr);
    }
    return status == QUIPU_OK && found ? vector_fill_begin(claim, db, scratch, reterr) : status;
}

/* Lease and watermark are of one transaction: the worker reads behind exactly this watermark. */
quipu_status qp_vector_claim(quipu_store *store, const qp_call *call,
                             const quipu_memory_options *options, quipu_str key, quipu_arena *arena,
                             qp_memory_work *ret_work, quipu_error *reterr)
{
    char text[QP_VECTOR_KIND_SIZE];
    vector_fill_claim claim = {.store = store,
                               .options = options,
                               .key = key,
                               .kind = qp_vector_kind(options->embed_model, text),
                               .arena = arena};
    quipu_status status = qp_store_write(store, call, vector_fill_claim_work, &claim, reterr);

    if (status == QUIPU_OK) {
        *ret_work = claim.work;
    }
    return status;
}

/* ---- committing -------------------------------------------------------------------------------
 */

/* One commit. `more` is an output of the work, which may run twice. */
typedef struct vector_fill_commit {
    const quipu_store *store;
    const quipu_memory_options *options;
    const qp_job_lease *lease;    /* its scope is the key of the session */
    const qp_vector_batch *batch; /* what the embedder made, by numbers of messages */
    bool more;
} vector_fill_commit;

/* Messages may have gone while the embedder worked, without any lock: a vector of one that was
 * pruned or capped meanwhile would outlive it. Upsert: a repair may have removed the watermark,
 * and then it is made again. */
static quipu_status vector_fill_store(const vector_fill_commit *commit, ent_db *db,
                                      const qp_session *row, quipu_error *reterr)
{
    const qp_vector_batch *batch = commit->batch;
    quipu_status status = QUIPU_OK;

    assert(row != NULL);
    for (size_t i = 0; i < batch->count && status == QUIPU_OK; i++) {
        const qp_vector_new made = {
            .session_number = row->id,
            .seq = batch->seqs[i],
            .model = commit->options->embed_model,
            .vector = {(const uint8_t *)batch->vectors + i * batch->dimensions, batch->dimensions}};

        assert(made.seq > qp_session_base(row) && made.seq <= batch->done_seq);
        if (made.seq >= row->first_seq && made.seq < row->next_seq) {
            status = qp_vector_upsert(db, NULL, &made, QP_VECTOR_ON_KEY, NULL, reterr);
        }
    }
    return status;
}

/* A qp_work_fn. The job is deleted with its session: when the lease holds, this is the life of the
 * session that was claimed. */
static quipu_status vector_fill_commit_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                            quipu_error *reterr)
{
    vector_fill_commit *commit = ctx;
    const qp_job_lease *lease = commit->lease;
    const qp_session *row = NULL;
    quipu_status status;

    commit->more = false;
    status = qp_job_commit(commit->store, db, scratch, lease, commit->batch->done_seq,
                           &commit->more, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_lookup(commit->store, db, scratch, lease->scope, &row, reterr);
    }
    if (status == QUIPU_OK && row == NULL) {
        status = qp_error_set(reterr, QUIPU_CONFLICT, "the session was deleted meanwhile");
    }
    if (status == QUIPU_OK) {
        status = vector_fill_store(commit, db, row, reterr);
    }
    return status == QUIPU_OK && commit->more
               ? qp_job_renew(commit->store, db, scratch, lease, commit->options->lease_ms, reterr)
               : status;
}

/* Vectors and watermark in one transaction: a worker that dies before it has done nothing, one that
 * dies behind it has done all. The fence of the lease refuses a worker that was overtaken. */
quipu_status qp_vector_commit(quipu_store *store, const qp_call *call,
                              const quipu_memory_options *options, qp_memory_work *work,
                              const qp_vector_batch *batch, bool *ret_more, quipu_error *reterr)
{
    vector_fill_commit commit = {
        .store = store, .options = options, .lease = &work->lease, .batch = batch};
    quipu_status status;

    assert(batch->done_seq > work->watermark);
    status = qp_store_write(store, call, vector_fill_commit_work, &commit, reterr);
    if (status == QUIPU_OK) {
        work->watermark = batch->done_seq;
        *ret_more = commit.more;
    }
    return status;
}

/* ---- another model ----------------------------------------------------------------------------
 */

/* One replacement: of all other models' vectors and jobs of a session, in one transaction. */
typedef struct vector_fill_replace {
    const quipu_store *store;
    const quipu_memory_options *options;
    quipu_str key;
} vector_fill_replace;

/* A qp_work_fn. While something is pending the earlier model's vectors stay for recall: a question
 * by either model then finds what that model has. */
static quipu_status vector_fill_replace_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                             quipu_error *reterr)
{
    const vector_fill_replace *replace = ctx;
    const quipu_store *store = replace->store;
    char text[QP_VECTOR_KIND_SIZE];
    const quipu_str kind = qp_vector_kind(replace->options->embed_model, text);
    const qp_job_where own = {.kind = ent_eq(kind)};
    const qp_session *row = NULL;
    vector_fill_range range = {.first = 1};
    quipu_status status = qp_session_lookup(store, db, scratch, replace->key, &row, reterr);

    if (status == QUIPU_OK && row != NULL) {
        status = vector_fill_pending(store, db, scratch, row, kind, &range, reterr);
    }
    if (status != QUIPU_OK || row == NULL || range.first <= range.last || !range.others) {
        return status;
    }
    /* These jobs are the watermarks of the other models: without their vectors they would be
     * wrong. */
    status = qp_job_delete(db,
                           &(qp_job_where){.tenant = ent_eq(store->tenant),
                                           .scope = ent_eq(row->key),
                                           .kind = ent_prefix(QP_VECTOR_KIND),
                                           .none_of = &own,
                                           .none_n = 1},
                           NULL, reterr);
    return status == QUIPU_OK
               ? qp_vector_delete(
                     db,
                     &(qp_vector_where){.session_number = ent_eq(row->id),
                                        .model = ent_ne(replace->options->embed_model)},
                     NULL, reterr)
               : status;
}

/* Called when a session is complete, and again by every later run, which then finds nothing to
 * do. */
quipu_status qp_vector_replace(quipu_store *store, const qp_call *call,
                               const quipu_memory_options *options, quipu_str key,
                               quipu_error *reterr)
{
    vector_fill_replace replace = {store, options, key};

    assert((options->flags & QUIPU_MEMORY_RUN_EMBED_REPLACE) != 0 && key.n > 0);
    return qp_store_write(store, call, vector_fill_replace_work, &replace, reterr);
}
