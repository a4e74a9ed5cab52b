/* Keys from secrets: scrypt (RFC 7914) stretches a passphrase, HKDF with SHA-256 (RFC 5869) makes
 * several keys of one, HMAC (RFC 2104) is what HKDF is made of. The algorithms are libcrypto's,
 * except for HKDF's two steps, which are three lines over HMAC.
 *
 * Owns: nothing; keys go to the caller's memory, which the caller overwrites.
 * Called by: ent_sqlite/crypt.c and crypt_keys.c, store/export_crypt.c.
 * Threads and locks: any, none.
 * On return of false libcrypto had no memory, and the result is not to be used; nothing secret is
 * left on the stack of this file. */
#include "base/kdf.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

/* `of` names what the key is for in the error. The secret itself is never looked at: a rule about
 * its characters would say something about it. */
quipu_status qp_secret_check(size_t size, const char *of, quipu_error *reterr)
{
    assert(of != NULL);
    if (size == 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "the key of the %s is empty", of);
    }
    if (size > QP_SECRET_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the key of the %s has more than %d bytes", of,
                            QP_SECRET_MAX);
    }
    return QUIPU_OK;
}

/* The memory that scrypt fills: 128 N r bytes. The costs are small enough that nothing
 * overflows. */
static uint64_t kdf_scrypt_memory(qp_scrypt_cost cost)
{
    assert(cost.log_n <= QP_SCRYPT_LOG_N_MAX && cost.r <= QP_SCRYPT_R_MAX);
    return (UINT64_C(128) << cost.log_n) * cost.r;
}

/* The costs of a file come from its header, which anybody may have written: without these bounds a
 * file could make each opening take hours or all memory. */
bool qp_scrypt_in_range(qp_scrypt_cost cost)
{
    return cost.log_n >= QP_SCRYPT_LOG_N_MIN && cost.log_n <= QP_SCRYPT_LOG_N_MAX && cost.r >= 1 &&
           cost.r <= QP_SCRYPT_R_MAX && cost.p >= 1 && cost.p <= QP_SCRYPT_P_MAX &&
           kdf_scrypt_memory(cost) <= QP_SCRYPT_MEMORY_MAX &&
           kdf_scrypt_memory(cost) * cost.p <= QP_SCRYPT_WORK_MAX;
}

/* False: libcrypto had no memory. */
bool qp_hmac(const uint8_t key[QP_KDF_KEY], const uint8_t *data, size_t n, uint8_t ret[QP_KDF_KEY])
{
    unsigned size = 0;

    assert(key != NULL && ret != NULL);
    return HMAC(EVP_sha256(), key, QP_KDF_KEY, data, n, ret, &size) != NULL && size == QP_KDF_KEY;
}

/* First extract: prk = HMAC(salt, key). Then expand, a block of 32 bytes after the other:
 *
 *   T(1) = HMAC(prk,        info | 1)
 *   T(2) = HMAC(prk, T(1) | info | 2)   and so on; `input` holds what is in the brackets
 *
 * prk and `input`, which has a block of the result, are overwritten on every way out. */
bool qp_hkdf(const uint8_t key[QP_KDF_KEY], const uint8_t salt[QP_KDF_KEY], const void *info,
             size_t info_n, uint8_t *ret, size_t n)
{
    uint8_t input[QP_KDF_KEY + QP_HKDF_INFO_MAX + 1];
    uint8_t prk[QP_KDF_KEY];
    size_t before = 0; /* bytes of the block before, which the next one continues */
    bool ok = qp_hmac(salt, key, QP_KDF_KEY, prk);

    assert(n % QP_KDF_KEY == 0 && info_n <= QP_HKDF_INFO_MAX);
    for (size_t at = 0; ok && at < n; at += QP_KDF_KEY) {
        memcpy(input + before, info, info_n);
        input[before + info_n] = (uint8_t)(at / QP_KDF_KEY + 1);
        ok = qp_hmac(prk, input, before + info_n + 1, ret + at);
        before = QP_KDF_KEY;
        memcpy(input, ret + at, QP_KDF_KEY);
    }
    OPENSSL_cleanse(prk, sizeof(prk));
    OPENSSL_cleanse(input, sizeof(input));
    return ok;
}

/* A little more than it fills: for each of p a block, and what libcrypto adds. libcrypto refuses to
 * use more than the limit that it is given, whose own default is 32 MiB. */
bool qp_scrypt(const void *secret, size_t size, const uint8_t salt[QP_KDF_KEY], qp_scrypt_cost cost,
               uint8_t ret[QP_KDF_KEY])
{
    const uint64_t n = UINT64_C(1) << cost.log_n;
    const uint64_t memory = kdf_scrypt_memory(cost) + UINT64_C(128) * cost.r * cost.p;

    assert(qp_scrypt_in_range(cost) && size > 0);
    return EVP_PBE_scrypt(secret, size, salt, QP_KDF_KEY, n, cost.r, cost.p, memory + (1U << 20),
                          ret, QP_KDF_KEY) == 1;
}
