/* Encrypting an existing store in a file.
 *
 *   plain ─▶ quipu_open(): layout ─▶ checksums, verified ─▶ close ─▶ qp_sqlite_encrypt()
 *   encrypted, with this key ─▶ what an interrupted call left is overwritten
 *
 * Owns: the key while the call runs.
 * Called by: quipu_open() with QUIPU_OPEN_ENCRYPT, from any thread.
 * Locks: src/ent_sqlite/encrypt.c takes the file's.
 * On return the file is encrypted and nothing plain is left beside it, or the error says which of
 * the two does not hold; the call may be repeated then. */
#include <assert.h>

#include <ent/sqlite.h>
#include <quipu/maintain.h>

#include "base/error.h"
#include "base/log.h"
#include "ent_sqlite/encrypt.h"
#include "front/engines.h"

/* The upgrade leaves room for tags in every page: those of checksums. Verifying them also finds
 * damage while the plain file is still there: a damaged page that was sealed would be vouched for
 * by its tag. */
static quipu_status encrypt_store_prepare(const char *uri, const quipu_open_options *options,
                                          quipu_error *reterr)
{
    quipu_open_options plain = *options;
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;
    quipu_store *store = NULL;
    quipu_status status;

    plain.flags = QUIPU_OPEN_MUST_EXIST;
    plain.key = NULL;
    patch.set = QUIPU_STORE_SET_CHECKSUMS;
    status = quipu_open(uri, &plain, &store, reterr);
    if (status == QUIPU_OK) {
        status = quipu_store_update(store, &patch, NULL, reterr);
    }
    quipu_close(store);
    return status;
}

/* Options for src/ent_sqlite. The deadline bounds how long the call waits for others to close the
 * file. */
static ent_sqlite_options encrypt_store_engine(const quipu_open_options *options)
{
    ent_sqlite_options ret = ENT_SQLITE_OPTIONS_INIT;

    ret.flags = ENT_SQLITE_MUST_EXIST;
    ret.busy_ms =
        options->deadline_ms > 0 ? options->deadline_ms : (int32_t)QUIPU_DEADLINE_MS_DEFAULT;
    ret.log = options->log;
    ret.log_ctx = options->log_ctx;
    ret.log_level = options->log_level;
    return ret;
}

/* The key is there before anything is opened. A key with which no file can be made is refused here,
 * and not after the copy was written. */
static quipu_status encrypt_store_keys(const quipu_open_options *options, qp_keys **ret_keys,
                                       quipu_error *reterr)
{
    const bool passphrase = (options->flags & QUIPU_OPEN_PASSPHRASE) != 0;
    qp_keys *keys = NULL;
    quipu_status status;

    if (options->key == NULL || (options->flags & QUIPU_OPEN_READ_ONLY) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "QUIPU_OPEN_ENCRYPT needs a function that gives the key "
                            "(quipu_open_options.key), and cannot be read-only");
    }
    status = qp_keys_new(options->key, options->key_ctx, passphrase, &keys, reterr);
    if (status == QUIPU_OK && !qp_keys_can_make(keys)) {
        qp_keys_free(keys);
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the key must have %d bytes, or be given as a passphrase",
                            QP_CRYPT_KEY);
    }
    if (status == QUIPU_OK) {
        *ret_keys = keys;
    }
    return status;
}

/* A file that is encrypted already is not an error: an earlier call may have been interrupted
 * behind its last step, and a program that repeats it must get the same result. */
quipu_status qp_encrypt_store(const char *uri, const quipu_open_options *options,
                              quipu_error *reterr)
{
    const ent_sqlite_options engine = encrypt_store_engine(options);
    const char *path = NULL;
    bool encrypted = false;
    qp_keys *keys = NULL;
    qp_log log;
    quipu_status status = qp_place_file(uri, &path, reterr);

    status = status == QUIPU_OK ? encrypt_store_keys(options, &keys, reterr) : status;
    if (status != QUIPU_OK) {
        return status;
    }
    assert(path != NULL && keys != NULL);
    status = qp_sqlite_is_encrypted(path, &engine, &encrypted, reterr);
    if (status == QUIPU_OK && encrypted) {
        status = qp_sqlite_encrypt_end(path, &engine, keys, reterr);
    } else if (status == QUIPU_OK) {
        status = encrypt_store_prepare(uri, options, reterr);
        status = status == QUIPU_OK ? qp_sqlite_encrypt(path, &engine, keys, reterr) : status;
    }
    log = qp_log_of(options->log, options->log_ctx, options->log_level);
    QP_LOG(&log, QUIPU_LOG_INFO, "store", "encrypt", QP_LOG_STATUS(status));
    qp_keys_free(keys);
    return status;
}
