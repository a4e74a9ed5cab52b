/* Embedding by a provider (provider.h). Checks the request before the provider sees it, and what
 * comes back, so that its users need not.
 *
 * Called by: src/memory. No state and no locks: a provider is called on the caller's thread.
 * Owns: nothing. */
#include "model/provider.h"

#include "base/error.h"
#include "base/option.h"

/* A caller's own provider need not have an id. */
#define PROVIDER_NAME(provider) ((provider)->id != NULL ? (provider)->id : "the provider")

/* The usage that a provider reported, with every member of this version. It lies in the arena,
 * because the provider's own struct may not outlive the call. */
static quipu_status provider_usage(const quipu_model_usage *given, quipu_arena *arena,
                                   const quipu_model_usage **ret_usage, quipu_error *reterr)
{
    quipu_model_usage *usage = quipu_arena_alloc(arena, sizeof(*usage));

    if (usage == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the usage");
    }
    *usage = (quipu_model_usage)QUIPU_MODEL_USAGE_INIT;
    *ret_usage = usage;
    return qp_options_read(usage, sizeof(*usage), given, "quipu_model_usage", reterr);
}

/* Checks a request before a provider sees it, so that all providers refuse alike. The order matters
 * to callers: a request that is wrong is reported as wrong, also where the provider could not serve
 * it. */
static quipu_status provider_embed_check(const quipu_provider *provider,
                                         const quipu_embed_request *given, quipu_error *reterr)
{
    if (given->text_count == 0 || given->texts == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "there is no text to embed");
    }
    if (given->text_count > QUIPU_EMBED_TEXTS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "at most %d texts at once", QUIPU_EMBED_TEXTS_MAX);
    }
    return provider->embed != NULL
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s makes no embeddings",
                              PROVIDER_NAME(provider));
}

/* One vector for each text: a provider that returns another number is QUIPU_CORRUPT, since vectors
 * could not be assigned. */
quipu_status qp_provider_embed(const quipu_provider *provider, const quipu_embed_request *request,
                               const quipu_call_options *call, quipu_arena *arena,
                               quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    quipu_embed_request given = QUIPU_EMBED_REQUEST_INIT;
    quipu_embeddings embeddings = QUIPU_EMBEDDINGS_INIT;
    quipu_status status =
        qp_options_read(&given, sizeof(given), request, "quipu_embed_request", reterr);

    if (status == QUIPU_OK) {
        status = qp_output_check(ret_embeddings, "quipu_embeddings", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (provider == NULL || arena == NULL || ret_embeddings == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "embedding needs a provider, texts, an arena and a place for vectors");
    }
    status = provider_embed_check(provider, &given, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = provider->embed(provider->ctx, &given, call, arena, &embeddings, reterr);
    if (status == QUIPU_OK && embeddings.count != given.text_count) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "%zu vectors came back for %zu texts",
                            embeddings.count, given.text_count);
    }
    /* The values are an array of the caller's embedder: nothing may be read where there is none. */
    if (status == QUIPU_OK && embeddings.dimensions > 0 && embeddings.values == NULL) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "no vectors came back for %zu texts",
                            given.text_count);
    }
    /* A provider that counts nothing leaves it NULL. */
    if (status == QUIPU_OK && embeddings.usage != NULL) {
        status = provider_usage(embeddings.usage, arena, &embeddings.usage, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_embeddings, &embeddings, sizeof(embeddings));
    }
    return status;
}
