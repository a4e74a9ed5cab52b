/* Calls an embedder, and fills sessions with its vectors as a worker.
 *
 *   claim (transaction) ──▶ read a batch ──▶ embed ──▶ commit (transaction) ─┐ more
 *                               ▲────────────────────────────────────────────┘
 *
 * Owns: which text of a message is embedded, and what an embedder may answer. Called by run.c for a
 * pass, and by recall.c for a question. No lock is held and no transaction is open while the
 * embedder works: the lease says that the session is taken (store/vector.h).
 * On return of qp_worker_embed() every session that was claimed is committed, given back, or taken
 * over by another worker. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "memory/worker.h"
#include "model/provider.h"
#include "store/vector.h"

/* ---- an embedder ------------------------------------------------------------------------------
 */

/* Both or neither: vectors without the name of their model would be compared with those of
 * another. */
quipu_status qp_embed_check(const quipu_provider *embedder, quipu_str model, quipu_error *reterr)
{
    if (embedder == NULL) {
        return model.n == 0 ? QUIPU_OK
                            : qp_error_set(reterr, QUIPU_MISUSE,
                                           "embed_model names a model, but there is no embedder");
    }
    if (embedder->embed == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s makes no embeddings",
                            embedder->id != NULL ? embedder->id : "the embedder");
    }
    if (model.n == 0 || qp_text_check(model, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an embedder needs embed_model, the name of its model in UTF-8");
    }
    /* The name is part of a row's key. */
    return model.n <= QUIPU_EMBED_MODEL_MAX
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_LIMIT, "a model's name has at most %d bytes, not %zu",
                              QUIPU_EMBED_MODEL_MAX, model.n);
}

quipu_status qp_embed_texts(const quipu_provider *embedder, const quipu_embed_request *request,
                            const quipu_call_options *call, quipu_arena *arena,
                            const int8_t **ret_vectors, size_t *ret_dimensions, quipu_error *reterr)
{
    quipu_embeddings made = QUIPU_EMBEDDINGS_INIT;
    quipu_error error = {0};
    int8_t *vectors = NULL;
    quipu_status status = qp_provider_embed(embedder, request, call, arena, &made, &error);

    if (status != QUIPU_OK) {
        /* An embedder of the caller's may leave the error as it is. */
        return qp_error_set(reterr, status, "the embedder failed: %s",
                            error.message[0] != '\0' ? error.message : quipu_status_name(status));
    }
    /* No dimensions would make every text equal. */
    if (made.dimensions == 0 || made.dimensions > QUIPU_EMBED_DIMENSIONS_MAX) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the embedder made vectors of %zu dimensions; they have 1 to %d",
                              made.dimensions, QUIPU_EMBED_DIMENSIONS_MAX);
    }
    if (status == QUIPU_OK) {
        /* Bytes instead of floats: a quarter of the space, with nearly the same order of
         * results. */
        vectors = qp_arena_take(arena, made.count * made.dimensions);
        status =
            vectors != NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_NOMEM, "no memory for vectors");
    }
    for (size_t i = 0; i < made.count && status == QUIPU_OK; i++) {
        const size_t at = i * made.dimensions;

        /* Scaled to a byte each; NaN and infinities have no place there. */
        if (!qp_vector_make(made.values + at, made.dimensions, vectors + at)) {
            status = qp_error_set(reterr, QUIPU_INVALID,
                                  "the embedder made a vector with a value that is not finite");
        }
    }
    if (status == QUIPU_OK) {
        *ret_vectors = vectors;
        *ret_dimensions = made.dimensions;
    }
    return status;
}

/* ---- filling ----------------------------------------------------------------------------------
 */

/* The messages of a batch that have text: their numbers, and what the embedder sees of them. Models
 * read a few hundred to a few thousand words, so that a long message counts by its beginning. */
static size_t embed_collect(quipu_messages messages, int64_t seqs[QUIPU_EMBED_BATCH],
                            quipu_str texts[QUIPU_EMBED_BATCH])
{
    size_t count = 0;

    assert(messages.count <= QUIPU_EMBED_BATCH);
    for (size_t i = 0; i < messages.count; i++) {
        const quipu_message *message = quipu_message_at(messages, i);

        /* A message of calls alone has no text; it is passed over, and counts as done. */
        if (message->content.n > 0) {
            seqs[count] = message->seq;
            texts[count++] = (quipu_str){message->content.p,
                                         qp_utf8_cut(message->content, QUIPU_EMBED_TEXT_BYTES)};
        }
    }
    return count;
}

/* Asks the embedder, which must answer while the lease holds: later nothing could be stored. */
static quipu_status embed_ask(qp_worker *worker, const quipu_str *texts, qp_vector_batch *batch,
                              quipu_error *reterr)
{
    quipu_embed_request request = QUIPU_EMBED_REQUEST_INIT;
    quipu_call_options call;
    quipu_status status = qp_call_left(worker->within, &call, reterr);

    assert(batch->count > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Negative: the call has no deadline of its own. */
    if (call.deadline_ms < 0 || call.deadline_ms > worker->options.lease_ms) {
        call.deadline_ms = worker->options.lease_ms;
    }
    request.model = worker->options.embed_model;
    request.texts = texts;
    request.text_count = batch->count;
    status = qp_embed_texts(worker->options.embedder, &request, &call, &worker->texts,
                            &batch->vectors, &batch->dimensions, reterr);
    /* Only what the run itself ends with is not the embedder's fault. */
    worker->model_failed = status != QUIPU_OK && qp_call_check(worker->within, NULL) == QUIPU_OK;
    return status;
}

/* One batch: read, embed, commit. *ret_more: the lease is still held, and there is more to do. */
static quipu_status embed_one(qp_worker *worker, qp_memory_work *work, bool *ret_more,
                              quipu_error *reterr)
{
    int64_t seqs[QUIPU_EMBED_BATCH];
    quipu_str texts[QUIPU_EMBED_BATCH];
    qp_vector_batch batch = {.seqs = seqs};
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    quipu_status status = qp_call_left(worker->within, &call, reterr);

    range.after_seq = work->watermark;
    range.limit = work->limit;
    if (status == QUIPU_OK) {
        status =
            quipu_session_get(worker->store, work->lease.scope, &range, &call, &history, reterr);
    }
    if (status == QUIPU_OK) {
        const size_t count = history->messages.count;

        quipu_arena_reset(&worker->texts);
        batch.count = embed_collect(history->messages, seqs, texts);
        /* Without messages everything up to the session's end is done: they were pruned or
         * capped. */
        batch.done_seq = count > 0 ? quipu_message_at(history->messages, count - 1)->seq
                                   : history->session->next_seq - 1;
        /* A batch without text costs no question. */
        status = batch.count > 0 ? embed_ask(worker, texts, &batch, reterr) : QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        /* Fewer messages than before: the session was deleted and made again. */
        status = batch.done_seq > work->watermark
                     ? qp_vector_commit(worker->store, worker->within, &worker->options, work,
                                        &batch, ret_more, reterr)
                     : qp_error_set(reterr, QUIPU_CONFLICT, "the session was deleted meanwhile");
    }
    /* Counted once it is committed: a lost batch is embedded again by another worker. */
    worker->ran.embedded += status == QUIPU_OK ? (int64_t)batch.count : 0;
    quipu_free(history);
    return status;
}

/* All batches of a claimed session. */
static quipu_status embed_session(qp_worker *worker, qp_memory_work *work, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool more = true;

    while (status == QUIPU_OK && more) {
        status = embed_one(worker, work, &more, &error);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_worker_fail(worker, &work->lease, &error, reterr);
}

quipu_status qp_worker_embed(qp_worker *worker, quipu_str key, quipu_error *reterr)
{
    const quipu_memory_options *options = &worker->options;
    const bool replaces = (options->flags & QUIPU_MEMORY_RUN_EMBED_REPLACE) != 0;
    /* Without an embedder the loop is never entered. */
    qp_memory_claimed claimed = options->embedder != NULL ? QP_MEMORY_MOOT : QP_MEMORY_NONE;
    char text[QP_VECTOR_KIND_SIZE];
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && claimed != QP_MEMORY_NONE) {
        qp_memory_work work = {.claimed = QP_MEMORY_NONE};
        bool due = true;

        status = qp_call_check(worker->within, reterr);
        if (status == QUIPU_OK && key.p == NULL) {
            status = qp_memory_is_due(worker->store, worker->within,
                                      qp_vector_kind(options->embed_model, text), &due, reterr);
        }
        if (status == QUIPU_OK && due) {
            status = qp_vector_claim(worker->store, worker->within, options, key, &worker->claim,
                                     &work, reterr);
        }
        claimed = work.claimed;
        if (status == QUIPU_OK && claimed == QP_MEMORY_CLAIMED) {
            status = embed_session(worker, &work, reterr);
        }
        if (key.p != NULL) {
            break; /* what was appended meanwhile is for the next run */
        }
    }
    /* With a key only: a sweep over all sessions comes here once for each of them. */
    return status == QUIPU_OK && options->embedder != NULL && replaces && key.p != NULL
               ? qp_vector_replace(worker->store, worker->within, options, key, reterr)
               : status;
}
