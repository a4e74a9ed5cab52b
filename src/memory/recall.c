/* quipu_recall(): the question goes to the embedder, when there is one, and then to the store.
 *
 * Owns: the call. Called by users of the library and by the agent. No lock is held and no
 * transaction is open while the embedder works; the store's part is one snapshot (store/recall.c).
 */
#include <assert.h>

#include <quipu/model.h>

#include "base/error.h"
#include "base/str.h"
#include "memory/recall.h"
#include "memory/worker.h"
#include "store/recall.h"

/* The question as a vector, in the arena; one without text has none. */
static quipu_status recall_meaning(const quipu_recall_options *options, const qp_call *within,
                                   quipu_arena *arena, qp_vector_question *ret, quipu_error *reterr)
{
    /* Cut as the messages were when they were embedded: vectors compare like with like. */
    const quipu_str text = {options->question.p,
                            qp_utf8_cut(options->question, QUIPU_EMBED_TEXT_BYTES)};
    quipu_embed_request request = QUIPU_EMBED_REQUEST_INIT;
    quipu_call_options call;
    quipu_status status = qp_embed_check(options->embedder, options->embed_model, reterr);

    /* Without an embedder the recall goes by words alone. */
    if (status != QUIPU_OK || options->embedder == NULL || text.n == 0) {
        return status;
    }
    if (qp_text_check(text, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "an embedder needs a question in UTF-8 without NUL");
    }
    /* The model's name is part of the question: vectors of different models cannot be compared. */
    request.model = options->embed_model;
    request.texts = &text;
    request.text_count = 1;
    /* The embedder gets what is left of the call's time. */
    status = qp_call_left(within, &call, reterr);
    if (status == QUIPU_OK) {
        status = qp_embed_texts(options->embedder, &request, &call, arena, &ret->vector,
                                &ret->count, reterr);
    }
    if (status == QUIPU_OK) {
        ret->model = options->embed_model;
    }
    return status;
}

quipu_status qp_recall_weighted(quipu_store *store, const quipu_recall_options *options,
                                const qp_recall_weights *weights, const quipu_call_options *call,
                                quipu_recall_results **ret_results, quipu_error *reterr)
{
    quipu_recall_options given;
    qp_vector_question meaning = {.count = 0};
    /* For the vector, until the store has answered. */
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_call within;
    quipu_status status = qp_store_enter_as("quipu_recall", store, call, &within, reterr);

    if (status == QUIPU_OK && ret_results == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a recall needs a place for the results");
    }
    if (status == QUIPU_OK) {
        status = qp_recall_options_read(options, &given, reterr);
    }
    if (status == QUIPU_OK) {
        status = recall_meaning(&given, &within, &arena, &meaning, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_recall_run(store, &given, weights, &meaning, &within, ret_results, reterr);
    }
    quipu_arena_free(&arena);
    /* On every path: the store counts its callers until they leave. */
    qp_store_leave(&within);
    return status;
}

quipu_status quipu_recall(quipu_store *store, const quipu_recall_options *options,
                          const quipu_call_options *call, quipu_recall_results **ret_results,
                          quipu_error *reterr)
{
    return qp_recall_weighted(store, options, &qp_recall_weights_default, call, ret_results,
                              reterr);
}
