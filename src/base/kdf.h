/* Keys from secrets: HMAC, HKDF and scrypt of libcrypto, which qp_libcrypto_load() has loaded
 * before. Used for encrypted stores and encrypted exports. */
#ifndef QP_BASE_KDF_H
#define QP_BASE_KDF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_KDF_KEY 32        /* bytes of a key, and of a salt */
#define QP_SECRET_MAX 1024   /* bytes of a passphrase */
#define QP_HKDF_INFO_MAX 128 /* bytes of HKDF's info */

/* Limits of scrypt's parameters: those of another's file must exhaust neither the memory nor the
 * user's patience, and nothing vouches for them before scrypt has run. */
#define QP_SCRYPT_LOG_N_MIN 10
#define QP_SCRYPT_LOG_N_MAX 20
#define QP_SCRYPT_R_MAX 32
#define QP_SCRYPT_P_MAX 16
#define QP_SCRYPT_MEMORY_MAX                                                                       \
    (UINT64_C(1) << 30)                        /* bytes: 128 N r, which holds N to 2^20 at r = 8 */
#define QP_SCRYPT_WORK_MAX (UINT64_C(1) << 32) /* 128 N r p: 32 times that of new files */
/* The costs of new files: 128 MiB, a fraction of a second. */
#define QP_SCRYPT_LOG_N 17
#define QP_SCRYPT_R 8
#define QP_SCRYPT_P 1

/* The costs of scrypt: N = 2^log_n. All are 0 when the key is not a passphrase. */
typedef struct qp_scrypt_cost {
    uint32_t log_n;
    uint32_t r;
    uint32_t p;
} qp_scrypt_cost;

/* Whether the length of a secret that a callback returned can be; `of` names what it opens, such as
 * "store". QUIPU_INVALID (empty), QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_secret_check(size_t size, const char *of, quipu_error *reterr);

/* Whether the parameters, and what they cost together, are within the limits above. */
bool qp_scrypt_in_range(qp_scrypt_cost cost);

/* The functions below return false when memory is used up, or libcrypto failed. */

/* HMAC-SHA256. */
bool qp_hmac(const uint8_t key[QP_KDF_KEY], const uint8_t *data, size_t n, uint8_t ret[QP_KDF_KEY]);

/* HKDF-SHA256 (RFC 5869) to `n` bytes, a multiple of 32. */
bool qp_hkdf(const uint8_t key[QP_KDF_KEY], const uint8_t salt[QP_KDF_KEY], const void *info,
             size_t info_n, uint8_t *ret, size_t n);

/* scrypt (RFC 7914) of a passphrase to 32 bytes; the cost is in range. */
bool qp_scrypt(const void *secret, size_t size, const uint8_t salt[QP_KDF_KEY], qp_scrypt_cost cost,
               uint8_t ret[QP_KDF_KEY]);

#endif
