/* A plain file becomes an encrypted one: see encrypt.c. */
#ifndef QP_ENT_SQLITE_ENCRYPT_H
#define QP_ENT_SQLITE_ENCRYPT_H

#include "ent_sqlite/open.h"

/* Whether the file is encrypted. A missing one is not. */
QUIPU_MUST_USE quipu_status qp_sqlite_is_encrypted(const char *path,
                                                   const ent_sqlite_options *options, bool *ret,
                                                   quipu_error *reterr);

/* Encrypts a plain file whose pages have checksums, and overwrites what was plain. QUIPU_BUSY:
 * somebody has it open. After a failure the file is plain, or encrypted, and its plain text, beside
 * it, is overwritten by the next call. */
QUIPU_MUST_USE quipu_status qp_sqlite_encrypt(const char *path, const ent_sqlite_options *options,
                                              qp_keys *keys, quipu_error *reterr);

/* For a file that is encrypted already, with these keys: overwrites and deletes the files that an
 * interrupted qp_sqlite_encrypt() left beside it. */
QUIPU_MUST_USE quipu_status qp_sqlite_encrypt_end(const char *path,
                                                  const ent_sqlite_options *options, qp_keys *keys,
                                                  quipu_error *reterr);

#endif
