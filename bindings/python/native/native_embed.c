/* Embedders that are functions of Python: a provider of the library whose `embed` calls back. The
 * interpreter's lock is taken by the callback itself; no other job needs it. */
#include <stdio.h>
#include <string.h>

#include "native_job.h"

#define EMBED_WHY_SIZE 400 /* of an exception that is kept */

/* What the callback puts. */
struct qpy_vectors {
    quipu_arena *arena;
    quipu_embeddings made;
    char why[EMBED_WHY_SIZE];
};

int qpy_vectors_put(qpy_vectors *vectors, const float *values, size_t count, size_t dimensions)
{
    float *copy = quipu_arena_alloc(vectors->arena, (count * dimensions + 1) * sizeof(*copy));

    if (copy == NULL) {
        return -1;
    }
    memcpy(copy, values, count * dimensions * sizeof(*copy));
    vectors->made.values = copy;
    vectors->made.count = count;
    vectors->made.dimensions = dimensions;
    return 0;
}

void qpy_vectors_fail(qpy_vectors *vectors, const char *why)
{
    (void)snprintf(vectors->why, sizeof(vectors->why), "%s", why);
}

/* A provider's `embed`. Texts go end to end, as those of a job do. */
static quipu_status embed_call(void *ctx, const quipu_embed_request *request,
                               const quipu_call_options *call, quipu_arena *arena,
                               quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    const qpy_embedder *embedder = ctx;
    qpy_vectors vectors = {.arena = arena, .made = QUIPU_EMBEDDINGS_INIT};
    int64_t *lengths = quipu_arena_alloc(arena, request->text_count * sizeof(*lengths));
    qpy_buf blob = {.failed = lengths == NULL};

    (void)call;
    for (size_t i = 0; i < request->text_count && !blob.failed; i++) {
        lengths[i] = (int64_t)request->texts[i].n;
        qpy_buf_add(&blob, request->texts[i].p, request->texts[i].n);
    }
    if (blob.failed) {
        qpy_buf_free(&blob);
        return QUIPU_NOMEM;
    }
    if (embedder->call(embedder->number, blob.p, lengths, request->text_count, &vectors) != 0) {
        (void)snprintf(reterr->message, sizeof(reterr->message), "%s", vectors.why);
        reterr->status = QUIPU_INVALID;
    }
    qpy_buf_free(&blob);
    *ret_embeddings = vectors.made;
    return reterr->status;
}

const quipu_provider *qpy_take_embedder(qpy_task *task, qpy_embedder *embedder)
{
    const int64_t address = qpy_take_number(task);

    *embedder = (qpy_embedder){.provider = QUIPU_PROVIDER_INIT, .number = qpy_take_number(task)};
    embedder->call = (qpy_embed_fn)(intptr_t)address;
    embedder->provider.ctx = embedder;
    embedder->provider.id = "the embedder";
    embedder->provider.embed = embed_call;
    return address != 0 ? &embedder->provider : NULL;
}
