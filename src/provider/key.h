/* The key of a provider: where it comes from, and how it stays out of everything else. */
#ifndef QP_PROVIDER_KEY_H
#define QP_PROVIDER_KEY_H

#include <quipu/provider.h>

#include "base/buf.h"

/* Put the key into `ret_key`: the one given, that of the file, that of the variable, or that of
 * `usual` when it is set. Empty: there is none. QUIPU_NOT_FOUND, QUIPU_INVALID, QUIPU_LIMIT,
 * QUIPU_IO, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_key_read(const quipu_provider_options *options, const char *usual,
                                        qp_buf *ret_key, quipu_error *reterr);

/* Overwrite the buffer before giving its memory back. */
void qp_key_forget(qp_buf *key);

/* Replace each occurrence of the key in an error's message by asterisks. */
void qp_key_hide(quipu_str key, quipu_error *error);

#endif
