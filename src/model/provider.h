/* Embedding by a provider, checked: what is the same for every provider and every user of one. */
#ifndef QP_MODEL_PROVIDER_H
#define QP_MODEL_PROVIDER_H

#include <quipu/model.h>

/* The vectors of texts, one for each. QUIPU_UNSUPPORTED: the provider makes none; QUIPU_LIMIT: too
 * many texts; QUIPU_CORRUPT: not as many vectors as texts; any status of the provider. The arena
 * owns the vectors. */
QUIPU_MUST_USE quipu_status qp_provider_embed(const quipu_provider *provider,
                                              const quipu_embed_request *request,
                                              const quipu_call_options *call, quipu_arena *arena,
                                              quipu_embeddings *ret_embeddings,
                                              quipu_error *reterr);

#endif
