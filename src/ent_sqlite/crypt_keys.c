/* The secret of a store, the master key behind it, and the store's file key.
 *
 *   secret ──scrypt, or as it is──▶ master key ──unwraps──▶ file key ──HKDF──▶ keys of pages
 *   the user's                      of a salt               random, in the     (crypt.c)
 *                                   in the header           header, wrapped
 *
 * Another secret wraps the same file key anew: no page changes.
 *
 * Owns: qp_keys, with the secret as it was given, the last master key that scrypt made of it, and
 * the file key of the store's own file. A connection that is opened after another process gave the
 * file another key needs it: the secret does not fit any more.
 * Called by: src/front, which keeps one for each store; crypt_file.c for each file that is opened.
 * Threads: any; the mutex is held while scrypt runs, so that the connections of a store derive a
 * master key once and not each for itself.
 * On return of qp_keys_free() no copy of the secret is left in this room; contexts of open files
 * have keys derived from it until they are closed. */
#include "ent_sqlite/crypt_keys.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/kdf.h"
#include "base/thread.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

/* The state that another key replaces. */
typedef struct keys_secret {
    size_t size;
    uint8_t bytes[QP_SECRET_MAX];
    bool passphrase;              /* what new files are made for */
    bool has_master;              /* scrypt ran for these parameters: */
    qp_crypt_params master_of;    /* only form, costs and salt count */
    uint8_t master[QP_CRYPT_KEY]; /* ...and gave this */
} keys_secret;

struct qp_keys {
    qp_mutex mutex; /* guards all */
    keys_secret secret;
    bool has_file;                  /* a file was opened or made, the store's own first: */
    uint8_t file_id[QP_CRYPT_ID];   /* ...its file key has this id */
    uint8_t file_key[QP_CRYPT_KEY]; /* ...and is this */
};

/* The callback runs here alone, on the thread that opens the store. */
quipu_status qp_keys_new(qp_keys_fn fn, void *ctx, bool passphrase, qp_keys **ret_keys,
                         quipu_error *reterr)
{
    quipu_status status = qp_libcrypto_load(reterr);
    qp_keys *keys = NULL;

    assert(fn != NULL && ret_keys != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    keys = qp_calloc(1, sizeof(*keys));
    if (keys == NULL || qp_mutex_init(&keys->mutex) != QUIPU_OK) {
        qp_free(keys);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the key of a store");
    }
    keys->secret.passphrase = passphrase;
    keys->secret.size = fn(ctx, keys->secret.bytes, sizeof(keys->secret.bytes));
    status = qp_secret_check(keys->secret.size, "store", reterr);
    if (status != QUIPU_OK) {
        qp_keys_free(keys);
        return status;
    }
    *ret_keys = keys;
    return QUIPU_OK;
}

/* The compiler may not leave this out: OPENSSL_cleanse() is made for it. */
void qp_keys_free(qp_keys *keys)
{
    if (keys != NULL) {
        qp_mutex_done(&keys->mutex);
        OPENSSL_cleanse(keys, sizeof(*keys));
        qp_free(keys);
    }
}

/* Whether the kept master key is that of these parameters. */
static bool keys_has(const keys_secret *secret, const qp_crypt_params *params)
{
    const qp_crypt_params *of = &secret->master_of;

    assert(params->form == QP_CRYPT_SCRYPT);
    return secret->has_master && memcmp(&of->cost, &params->cost, sizeof(of->cost)) == 0 &&
           memcmp(of->salt, params->salt, QP_CRYPT_SALT) == 0;
}

/* Runs scrypt with the mutex held. Its result is kept for one salt and cost: the connections of a
 * store ask for the same. A file with a scrypt header is proof that the secret is a passphrase. */
static bool keys_stretch(keys_secret *secret, const qp_crypt_params *params)
{
    assert(secret->size > 0);
    if (keys_has(secret, params)) {
        return true;
    }
    secret->has_master =
        qp_scrypt(secret->bytes, secret->size, params->salt, params->cost, secret->master);
    secret->master_of = *params;
    secret->passphrase = secret->passphrase || secret->has_master; /* its copies have one, too */
    return secret->has_master;
}

/* The master key for these parameters, with the mutex held. A raw key is the secret itself. */
static qp_keys_result keys_master(keys_secret *secret, const qp_crypt_params *params,
                                  uint8_t ret[QP_CRYPT_KEY])
{
    assert(secret->size > 0);
    if (params->form == QP_CRYPT_SCRYPT) {
        if (!keys_stretch(secret, params)) {
            return QP_KEYS_NOMEM;
        }
        memcpy(ret, secret->master, QP_CRYPT_KEY);
        return QP_KEYS_OK;
    }
    if (secret->size != QP_CRYPT_KEY) {
        return QP_KEYS_LENGTH;
    }
    memcpy(ret, secret->bytes, QP_CRYPT_KEY);
    return QP_KEYS_OK;
}

/* The file key, by the secret. The mutex is released before the unwrapping, which needs the copy of
 * the master key only. */
static qp_keys_result keys_unwrap(qp_keys *keys, const qp_crypt_params *params,
                                  uint8_t ret[QP_CRYPT_KEY])
{
    uint8_t master[QP_CRYPT_KEY];
    qp_keys_result result;

    assert(ret != NULL);
    qp_mutex_lock(&keys->mutex);
    result = keys_master(&keys->secret, params, master);
    qp_mutex_unlock(&keys->mutex);
    if (result == QP_KEYS_OK) {
        const qp_crypt_unwrapped unwrapped = qp_crypt_unwrap(master, params, ret);
        result = unwrapped == QP_CRYPT_UNWRAPPED      ? QP_KEYS_OK
                 : unwrapped == QP_CRYPT_OTHER_MASTER ? QP_KEYS_WRONG
                                                      : QP_KEYS_NOMEM;
    }
    OPENSSL_cleanse(master, sizeof(master));
    return result;
}

/* Whether the kept key belongs to this file. Keeping it gives no new access: this process has read
 * the file with it before. */
static bool keys_remembered(qp_keys *keys, const qp_crypt_params *params, uint8_t ret[QP_CRYPT_KEY])
{
    bool found;

    assert(ret != NULL);
    qp_mutex_lock(&keys->mutex);
    found = keys->has_file && memcmp(keys->file_id, params->id, QP_CRYPT_ID) == 0;
    if (found) {
        memcpy(ret, keys->file_key, QP_CRYPT_KEY);
    }
    qp_mutex_unlock(&keys->mutex);
    return found;
}

/* Keeps the first file key: the store's own. Its copies have keys of their own. */
static void keys_remember(qp_keys *keys, const qp_crypt_params *params,
                          const uint8_t file_key[QP_CRYPT_KEY])
{
    assert(file_key != NULL);
    qp_mutex_lock(&keys->mutex);
    if (!keys->has_file) {
        keys->has_file = true;
        memcpy(keys->file_id, params->id, QP_CRYPT_ID);
        memcpy(keys->file_key, file_key, QP_CRYPT_KEY);
    }
    qp_mutex_unlock(&keys->mutex);
}

/* A remembered file key comes before the secret: another process may have given the file another
 * secret since, and this store's connections go on (rekey.c). */
qp_keys_result qp_keys_open(qp_keys *keys, const qp_crypt_params *params, qp_crypt **ret)
{
    uint8_t file_key[QP_CRYPT_KEY];
    qp_crypt *crypt = NULL;
    qp_keys_result result =
        keys_remembered(keys, params, file_key) ? QP_KEYS_OK : keys_unwrap(keys, params, file_key);

    assert(ret != NULL);
    if (result == QP_KEYS_OK) {
        crypt = qp_crypt_new(file_key);
        result = crypt != NULL ? QP_KEYS_OK : QP_KEYS_NOMEM;
    }
    if (result == QP_KEYS_OK) {
        keys_remember(keys, params, file_key);
        *ret = crypt;
    }
    OPENSSL_cleanse(file_key, sizeof(file_key));
    return result;
}

/* A raw key of another length opens no file and must not make one that it then cannot open. */
bool qp_keys_can_make(qp_keys *keys)
{
    bool can;

    qp_mutex_lock(&keys->mutex);
    assert(keys->secret.size > 0);
    can = keys->secret.passphrase || keys->secret.size == QP_CRYPT_KEY;
    qp_mutex_unlock(&keys->mutex);
    return can;
}

/* How the secret becomes a master key, and that key. In one step: another thread may replace the
 * secret, and a passphrase must not be taken for a raw key. */
static qp_keys_result keys_choose(qp_keys *keys, qp_crypt_params *params, uint8_t ret[QP_CRYPT_KEY])
{
    qp_keys_result result;
    bool passphrase;

    assert(params->generation > 0);
    qp_mutex_lock(&keys->mutex);
    passphrase = keys->secret.passphrase;
    params->form = passphrase ? QP_CRYPT_SCRYPT : QP_CRYPT_RAW;
    params->cost = passphrase ? (qp_scrypt_cost){QP_SCRYPT_LOG_N, QP_SCRYPT_R, QP_SCRYPT_P}
                              : (qp_scrypt_cost){0};
    result = keys_master(&keys->secret, params, ret);
    qp_mutex_unlock(&keys->mutex);
    return result;
}

/* Fills in how the secret becomes a wrapping key, with a new salt, and wraps the file key. */
static qp_keys_result keys_wrap(qp_keys *keys, const uint8_t file_key[QP_CRYPT_KEY],
                                qp_crypt_params *params)
{
    uint8_t master[QP_CRYPT_KEY];
    qp_keys_result result = QP_KEYS_NOMEM;

    assert(file_key != NULL);
    if (RAND_bytes(params->salt, QP_CRYPT_SALT) == 1) {
        result = keys_choose(keys, params, master);
    }
    if (result == QP_KEYS_OK) {
        result = qp_crypt_wrap(master, file_key, params) ? QP_KEYS_OK : QP_KEYS_NOMEM;
    }
    OPENSSL_cleanse(master, sizeof(master));
    return result;
}

/* A random file key makes the pages of each file its own, also under one secret. */
qp_keys_result qp_keys_make(qp_keys *keys, uint32_t page_size, qp_crypt_params *ret_params,
                            qp_crypt **ret)
{
    qp_crypt_params params = {.page_size = page_size, .generation = 1};
    uint8_t file_key[QP_CRYPT_KEY];
    qp_crypt *crypt = NULL;
    qp_keys_result result = QP_KEYS_NOMEM;

    assert(ret_params != NULL && ret != NULL);
    if (RAND_bytes(file_key, QP_CRYPT_KEY) == 1 && RAND_bytes(params.id, QP_CRYPT_ID) == 1) {
        result = keys_wrap(keys, file_key, &params);
    }
    if (result == QP_KEYS_OK) {
        crypt = qp_crypt_new(file_key);
        result = crypt != NULL ? QP_KEYS_OK : QP_KEYS_NOMEM;
    }
    if (result == QP_KEYS_OK) {
        keys_remember(keys, &params, file_key);
        *ret_params = params;
        *ret = crypt;
    }
    OPENSSL_cleanse(file_key, sizeof(file_key));
    return result;
}

/* By the secret and not by what is remembered: only who knows the key that the header has now may
 * replace it. The generation rises, so that of two copies of the header the newer one counts. */
qp_keys_result qp_keys_rewrap(qp_keys *keys, qp_keys *fresh, const qp_crypt_params *params,
                              qp_crypt_params *ret_params)
{
    qp_crypt_params changed = *params;
    uint8_t file_key[QP_CRYPT_KEY];
    qp_keys_result result = keys_unwrap(keys, params, file_key);

    assert(keys != fresh && ret_params != NULL);
    changed.generation++;
    if (result == QP_KEYS_OK) {
        result = keys_wrap(fresh, file_key, &changed);
    }
    OPENSSL_cleanse(file_key, sizeof(file_key));
    if (result == QP_KEYS_OK) {
        *ret_params = changed;
    }
    return result;
}

/* The file key stays: it is the same file. The caller frees `fresh`; the copy of its secret is
 * overwritten with `keys`. */
void qp_keys_replace(qp_keys *keys, const qp_keys *fresh)
{
    assert(keys != fresh);
    qp_mutex_lock(&keys->mutex);
    keys->secret = fresh->secret;
    qp_mutex_unlock(&keys->mutex);
}
