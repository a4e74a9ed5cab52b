/* The calls that any provider may offer besides generating. */
#include <quipu/model.h>

#include "base/error.h"

quipu_status quipu_provider_models(const quipu_provider *provider, const quipu_call_options *call,
                                   quipu_arena *arena, quipu_model_list *ret_list,
                                   quipu_error *reterr)
{
    if (provider == NULL || arena == NULL || ret_list == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a provider, an arena and a place for the list");
    }
    if (provider->list == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s does not list its models", provider->id);
    }
    return provider->list(provider->ctx, call, arena, ret_list, reterr);
}

quipu_status quipu_provider_embed(const quipu_provider *provider,
                                  const quipu_embed_request *request,
                                  const quipu_call_options *call, quipu_arena *arena,
                                  quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    quipu_embeddings embeddings = {.usage = QUIPU_USAGE_INIT};
    quipu_status status;

    if (provider == NULL || request == NULL || arena == NULL || ret_embeddings == NULL ||
        request->text_count == 0 || request->texts == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a provider, texts, an arena and a place for the vectors");
    }
    if (request->text_count > QUIPU_EMBED_TEXTS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "at most %d texts at once", QUIPU_EMBED_TEXTS_MAX);
    }
    if (provider->embed == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s makes no embeddings", provider->id);
    }
    status = provider->embed(provider->ctx, request, call, arena, &embeddings, reterr);
    if (status == QUIPU_OK && embeddings.count != request->text_count) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "%zu vectors came back for %zu texts",
                            embeddings.count, request->text_count);
    }
    if (status == QUIPU_OK) {
        *ret_embeddings = embeddings;
    }
    return status;
}

void quipu_provider_close(quipu_provider *provider)
{
    if (provider != NULL && provider->close != NULL) {
        provider->close(provider->ctx);
    }
}
