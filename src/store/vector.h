/* Vectors: what an embedder made of messages, so that recall finds them by their meaning too.
 *
 *    session   first ........ watermark ........ last message
 *              has vectors  │  pending: the job "embed/..." of the model has this range
 *
 * A row for each message with text and each model, at the session that holds the message: one
 * signed byte a dimension. Rows of two models are never compared, so that a store may change its
 * model while recall goes on. The job's row is there as long as its session, and its first_seq is
 * the watermark: a commit moves it in the transaction that stores the vectors.
 *
 * Vectors are derived. They are removed with their messages (fork_release.c), left out of an export
 * and made again by a worker; verify finds those without a message. Without an embedder the table
 * is empty, and nobody reads it.
 *
 * Owns: entity Vector, and jobs of the kinds qp_vector_kind().
 * Called by: recall.c (similarity), fork_release.c (removal), and workers of src/memory. */
#ifndef QP_STORE_VECTOR_H
#define QP_STORE_VECTOR_H

#include "store/memory_scope.h"

#define QP_VECTOR_KIND "embed/" /* how the kinds of its jobs begin */
#define QP_VECTOR_KIND_SIZE 32  /* bytes of a kind, with the zero at its end */

/* ---- one vector (vector.c) --------------------------------------------------------------------
 */

/* Cut to signed bytes, so that the largest is 127 or -127. Only the direction is kept. False: a
 * value is not finite. `count` is at most QUIPU_EMBED_DIMENSIONS_MAX. */
bool qp_vector_make(const float *values, size_t count, int8_t *ret_vector);

/* The cosine of two vectors of `count` bytes; 0 when one has no direction. The same bits on every
 * processor: integers, and operations that IEEE 754 rounds correctly. */
double qp_vector_similarity(const int8_t *left, const int8_t *right, size_t count);

/* ---- rows (vector.c) --------------------------------------------------------------------------
 */

/* A question as a vector. */
typedef struct qp_vector_question {
    quipu_str model; /* absent: there is none */
    const int8_t *vector;
    size_t count;
} qp_vector_question;

/* Called with a message's number and how similar it is to the question. */
typedef quipu_status (*qp_vector_fn)(void *ctx, int64_t seq, double similarity);

/* Calls `fn` for the messages `from` to `to` that the session `holder` holds and that have a vector
 * of the question's model, by number, until it fails. Vectors of another length are passed over. In
 * the caller's snapshot. */
QUIPU_MUST_USE quipu_status qp_vector_each(ent_db *db, const qp_vector_question *question,
                                           int64_t holder, int64_t from, int64_t to,
                                           qp_vector_fn fn, void *ctx, quipu_error *reterr);

/* Remove the vectors of messages that are removed in the same transaction. */
QUIPU_MUST_USE quipu_status qp_vector_remove(ent_db *db, int64_t session, int64_t from, int64_t to,
                                             quipu_error *reterr);

/* ---- filling (vector_fill.c) ------------------------------------------------------------------
 */

/* The kind of the job that fills sessions with vectors of a model, in `text`. */
quipu_str qp_vector_kind(quipu_str model, char text[QP_VECTOR_KIND_SIZE]);

/* Whether a session has messages behind the watermark of options->embed_model or, with
 * QUIPU_MEMORY_RUN_EMBED_REPLACE, vectors of another model. In the caller's snapshot. */
QUIPU_MUST_USE quipu_status qp_vector_is_due(const quipu_store *store, ent_db *db,
                                             quipu_arena *scratch,
                                             const quipu_memory_options *options,
                                             const qp_session *row, bool *ret_due,
                                             quipu_error *reterr);

/* Claim the filling of the session `key` when something is pending or, when the key is absent, the
 * one that waits longest. uid and generation of *ret_work are not set. */
QUIPU_MUST_USE quipu_status qp_vector_claim(quipu_store *store, const qp_call *call,
                                            const quipu_memory_options *options, quipu_str key,
                                            quipu_arena *arena, qp_memory_work *ret_work,
                                            quipu_error *reterr);

/* Vectors of messages behind the watermark, up to done_seq. */
typedef struct qp_vector_batch {
    const int64_t *seqs;
    const int8_t *vectors; /* one behind the other */
    size_t count;
    size_t dimensions;
    int64_t done_seq;
} qp_vector_batch;

/* Store them and move the watermark, in one transaction; `work` moves along. Messages that the
 * session does not show any more get none. *ret_more: there is more to do, and the lease was
 * renewed. QUIPU_CONFLICT: the lease is lost, or the session was deleted; nothing is stored. */
QUIPU_MUST_USE quipu_status qp_vector_commit(quipu_store *store, const qp_call *call,
                                             const quipu_memory_options *options,
                                             qp_memory_work *work, const qp_vector_batch *batch,
                                             bool *ret_more, quipu_error *reterr);

/* Remove the vectors of other models from a session that has all of options->embed_model, and what
 * the store keeps about filling it with them. */
QUIPU_MUST_USE quipu_status qp_vector_replace(quipu_store *store, const qp_call *call,
                                              const quipu_memory_options *options, quipu_str key,
                                              quipu_error *reterr);

#endif
