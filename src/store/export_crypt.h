/* Encrypted exports: between an export and the caller's write function, and between the caller's
 * read function and an import. The layout is in docs/encryption.md. */
#ifndef QP_STORE_EXPORT_CRYPT_H
#define QP_STORE_EXPORT_CRYPT_H

#include <quipu/store.h>

#include "base/kdf.h"
#include "store/call.h"

#define QP_EXPORT_CRYPT_TEXT ((size_t)64 * 1024) /* bytes of an export in one chunk, at most */

/* Takes the bytes of an export and writes them, encrypted. One thread at a time. */
typedef struct qp_export_writer qp_export_writer;

/* Asks for the key; `passphrase`: scrypt makes it of one. `salt` is for known answers; NULL:
 * libcrypto's random bytes. QUIPU_INVALID (a length that cannot be), QUIPU_LIMIT,
 * QUIPU_UNSUPPORTED (no libcrypto), QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_export_writer_new(quipu_key_fn key, void *key_ctx, bool passphrase,
                                                 const uint8_t *salt, quipu_write_fn write,
                                                 void *ctx, qp_export_writer **ret,
                                                 quipu_error *reterr);

/* A quipu_write_fn over a qp_export_writer. */
quipu_status qp_export_writer_write(void *ctx, const void *bytes, size_t n);

/* Writes the last chunk: without it the export is cut. */
QUIPU_MUST_USE quipu_status qp_export_writer_end(qp_export_writer *self, quipu_error *reterr);

/* Overwrites the key and what is not written yet. NULL is fine. */
void qp_export_writer_free(qp_export_writer *self);

/* Gives the bytes of an export, which it decrypts where they are encrypted. */
typedef struct qp_export_reader qp_export_reader;

/* Recognizes whether the source is encrypted. An encrypted export is read and verified to its end
 * before the call returns, and its bytes wait in a file without a name, so that no line of an
 * export with a damaged end is used. `key` is called when it is encrypted. QUIPU_MISUSE (a key is
 * missing, or not needed), QUIPU_INVALID (another key, or an export that is cut), QUIPU_CORRUPT
 * (damaged or changed), QUIPU_NEWER, and as qp_export_writer_new(). */
QUIPU_MUST_USE quipu_status qp_export_reader_new(quipu_read_fn read, void *ctx, quipu_key_fn key,
                                                 void *key_ctx, const qp_call *within,
                                                 qp_export_reader **ret, quipu_error *reterr);

/* A quipu_read_fn over a qp_export_reader. */
quipu_status qp_export_reader_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n);

/* NULL is fine. */
void qp_export_reader_free(qp_export_reader *self);

#endif
