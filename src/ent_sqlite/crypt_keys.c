/* The secret of a store and the master key behind it.
 *
 * Owns: qp_keys, with the secret as it was given and the last master key that scrypt made of it.
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
#include "base/thread.h"
/* The last one: its macros rename functions. */
#include "ent_sqlite/libcrypto.h"

struct qp_keys {
    size_t size; /* of the secret; constant, like it */
    uint8_t secret[QP_KEYS_SECRET_MAX];
    qp_mutex mutex;               /* guards the rest */
    bool passphrase;              /* what new files are made for */
    bool has_master;              /* scrypt ran for these parameters: */
    qp_crypt_params master_of;    /* only form, costs and salt count */
    uint8_t master[QP_CRYPT_KEY]; /* ...and gave this */
};

/* The secret is checked as far as it can be without a file. */
static quipu_status keys_check(const qp_keys *keys, quipu_error *reterr)
{
    if (keys->size == 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "the key of the store is empty");
    }
    if (keys->size > QP_KEYS_SECRET_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the key of the store has more than %d bytes",
                            QP_KEYS_SECRET_MAX);
    }
    return QUIPU_OK;
}

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
    keys->passphrase = passphrase;
    keys->size = fn(ctx, keys->secret, sizeof(keys->secret));
    status = keys_check(keys, reterr);
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
static bool keys_has(const qp_keys *keys, const qp_crypt_params *params)
{
    const qp_crypt_params *of = &keys->master_of;

    assert(params->form == QP_CRYPT_SCRYPT);
    return keys->has_master && of->log_n == params->log_n && of->r == params->r &&
           of->p == params->p && memcmp(of->salt, params->salt, QP_CRYPT_SALT) == 0;
}

/* Runs scrypt with the mutex held. 128 * N * r bytes, and a little. */
static bool keys_stretch(qp_keys *keys, const qp_crypt_params *params)
{
    const uint64_t n = UINT64_C(1) << params->log_n;
    const uint64_t memory = 128 * n * params->r + 128 * (uint64_t)params->r * params->p;

    assert(params->log_n <= QP_CRYPT_LOG_N_MAX);
    if (keys_has(keys, params)) {
        return true;
    }
    keys->has_master =
        EVP_PBE_scrypt((const char *)keys->secret, keys->size, params->salt, QP_CRYPT_SALT, n,
                       params->r, params->p, memory + (1U << 20), keys->master, QP_CRYPT_KEY) == 1;
    keys->master_of = *params;
    keys->passphrase = keys->passphrase || keys->has_master; /* its copies have one, too */
    return keys->has_master;
}

/* The master key for these parameters. A raw key is the secret itself. */
static qp_keys_result keys_master(qp_keys *keys, const qp_crypt_params *params,
                                  uint8_t ret[QP_CRYPT_KEY])
{
    qp_keys_result result = QP_KEYS_OK;

    qp_mutex_lock(&keys->mutex);
    if (params->form == QP_CRYPT_SCRYPT) {
        result = keys_stretch(keys, params) ? QP_KEYS_OK : QP_KEYS_NOMEM;
        memcpy(ret, keys->master, QP_CRYPT_KEY);
    } else if (keys->size != QP_CRYPT_KEY) {
        result = QP_KEYS_LENGTH;
    } else {
        memcpy(ret, keys->secret, QP_CRYPT_KEY);
    }
    qp_mutex_unlock(&keys->mutex);
    return result;
}

/* Compared in constant time, by habit: the check value is in the file. */
static bool keys_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned different = 0;

    assert(a != b);
    for (size_t i = 0; i < QP_CRYPT_CHECK; i++) {
        different |= (unsigned)(a[i] ^ b[i]);
    }
    return different == 0;
}

qp_keys_result qp_keys_open(qp_keys *keys, const qp_crypt_params *params, qp_crypt **ret)
{
    uint8_t master[QP_CRYPT_KEY];
    uint8_t check[QP_CRYPT_CHECK];
    qp_crypt *crypt = NULL;
    qp_keys_result result = keys_master(keys, params, master);

    assert(ret != NULL);
    if (result == QP_KEYS_OK) {
        crypt = qp_crypt_new(master, params, check);
        result = crypt == NULL                      ? QP_KEYS_NOMEM
                 : keys_equal(check, params->check) ? QP_KEYS_OK
                                                    : QP_KEYS_WRONG;
    }
    OPENSSL_cleanse(master, sizeof(master));
    if (result != QP_KEYS_OK) {
        qp_crypt_free(crypt);
        return result;
    }
    *ret = crypt;
    return QP_KEYS_OK;
}

bool qp_keys_can_make(qp_keys *keys)
{
    bool passphrase;

    qp_mutex_lock(&keys->mutex);
    passphrase = keys->passphrase;
    qp_mutex_unlock(&keys->mutex);
    assert(keys->size > 0);
    return passphrase || keys->size == QP_CRYPT_KEY;
}

/* The salt makes the keys of each file its own, also under one master key. */
qp_keys_result qp_keys_make(qp_keys *keys, uint32_t page_size, qp_crypt_params *ret_params,
                            qp_crypt **ret)
{
    qp_crypt_params params = {.page_size = page_size, .form = QP_CRYPT_RAW};
    uint8_t master[QP_CRYPT_KEY];
    qp_crypt *crypt = NULL;
    qp_keys_result result = QP_KEYS_NOMEM;

    assert(ret_params != NULL && ret != NULL);
    qp_mutex_lock(&keys->mutex);
    if (keys->passphrase) {
        params.form = QP_CRYPT_SCRYPT;
        params.log_n = QP_CRYPT_LOG_N;
        params.r = QP_CRYPT_R;
        params.p = QP_CRYPT_P;
    }
    qp_mutex_unlock(&keys->mutex);
    if (RAND_bytes(params.salt, QP_CRYPT_SALT) == 1) {
        result = keys_master(keys, &params, master);
    }
    if (result == QP_KEYS_OK) {
        crypt = qp_crypt_new(master, &params, params.check);
        result = crypt != NULL ? QP_KEYS_OK : QP_KEYS_NOMEM;
    }
    OPENSSL_cleanse(master, sizeof(master));
    if (result == QP_KEYS_OK) {
        *ret_params = params;
        *ret = crypt;
    }
    return result;
}
