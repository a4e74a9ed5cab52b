/* The API key of a provider: where it comes from, and how it stays out of memory dumps and error
 * texts. */
#ifndef QP_PROVIDER_KEY_H
#define QP_PROVIDER_KEY_H

#include <quipu/provider.h>

#include "base/buf.h"

/* Reads the key into `ret_key`: the given text, else the file, else the named variable, else the
 * provider's `usual` variable. Stays empty when only the last is missing. QUIPU_NOT_FOUND,
 * QUIPU_INVALID, QUIPU_LIMIT, QUIPU_IO, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_key_read(const quipu_provider_options *options, const char *usual,
                                        qp_buf *ret_key, quipu_error *reterr);

/* Overwrites the buffer with zeros, then frees it. */
void qp_key_forget(qp_buf *key);

/* Replaces each occurrence of the key in an error's message by asterisks. */
void qp_key_hide(quipu_str key, quipu_error *error);

#endif
