/* Where the key of a store's files comes from: asked for once, kept while the store is open. */
#ifndef QP_ENT_SQLITE_CRYPT_KEYS_H
#define QP_ENT_SQLITE_CRYPT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#include "ent_sqlite/crypt.h"

/* Gives the key or passphrase; the type of quipu_key_fn. */
typedef size_t (*qp_keys_fn)(void *ctx, void *ret_key, size_t size);

/* Shared by the connections of a store; any thread. */
typedef struct qp_keys qp_keys;

/* Loads libcrypto and asks for the key. `passphrase`: a new file derives its key by scrypt. */
QUIPU_MUST_USE quipu_status qp_keys_new(qp_keys_fn fn, void *ctx, bool passphrase,
                                        qp_keys **ret_keys, quipu_error *reterr);

/* Overwrites the key. NULL is fine. */
void qp_keys_free(qp_keys *keys);

/* How a file and a key fit. */
typedef enum qp_keys_result {
    QP_KEYS_OK,
    QP_KEYS_WRONG,  /* the key is another one, or the header was changed */
    QP_KEYS_LENGTH, /* the file's key is one of 32 bytes, and this one is not */
    QP_KEYS_NOMEM   /* memory, or libcrypto failed */
} qp_keys_result;

/* The keys of an existing file. */
qp_keys_result qp_keys_open(qp_keys *keys, const qp_crypt_params *params, qp_crypt **ret);

/* Whether a new file can be made: of 32 bytes, or of a passphrase where that was said. */
bool qp_keys_can_make(qp_keys *keys);

/* A new file's parameters with a file key of its own, and its keys. */
qp_keys_result qp_keys_make(qp_keys *keys, uint32_t page_size, qp_crypt_params *ret_params,
                            qp_crypt **ret);

/* The parameters of the same file for another key, `fresh`. `keys` must be the file's now: a key
 * that is only remembered does not count. */
qp_keys_result qp_keys_rewrap(qp_keys *keys, qp_keys *fresh, const qp_crypt_params *params,
                              qp_crypt_params *ret_params);

/* From now on `keys` gives what `fresh` has, for files that are made and opened from here on. */
void qp_keys_replace(qp_keys *keys, const qp_keys *fresh);

#endif
