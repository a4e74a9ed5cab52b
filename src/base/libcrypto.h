/* OpenSSL's libcrypto, loaded when the first encrypted file is opened (decision 14). Its headers
 * are not used: the functions below have had these types since version 1.1, and a build needs
 * no package for them. */
#ifndef QP_BASE_LIBCRYPTO_H
#define QP_BASE_LIBCRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

/* NOLINTBEGIN(readability-identifier-naming): the names are OpenSSL's */
typedef struct evp_cipher_ctx_st EVP_CIPHER_CTX;
typedef struct evp_cipher_st EVP_CIPHER;
typedef struct evp_md_st EVP_MD;
typedef struct engine_st ENGINE;
/* NOLINTEND(readability-identifier-naming) */

#define QP_GCM_GET_TAG 0x10 /* EVP_CTRL_AEAD_GET_TAG */
#define QP_GCM_SET_TAG 0x11 /* EVP_CTRL_AEAD_SET_TAG */

/* Every function that is called: result, name, parameters. */
#define QP_LIBCRYPTO_MAP(X)                                                                        \
    X(EVP_CIPHER_CTX *, EVP_CIPHER_CTX_new, (void))                                                \
    X(void, EVP_CIPHER_CTX_free, (EVP_CIPHER_CTX * ctx))                                           \
    X(int, EVP_CIPHER_CTX_ctrl, (EVP_CIPHER_CTX * ctx, int type, int n, void *p))                  \
    X(int, EVP_CIPHER_CTX_set_padding, (EVP_CIPHER_CTX * ctx, int on))                             \
    X(const EVP_CIPHER *, EVP_aes_256_ecb, (void))                                                 \
    X(const EVP_CIPHER *, EVP_aes_256_gcm, (void))                                                 \
    X(int, EVP_CipherInit_ex,                                                                      \
      (EVP_CIPHER_CTX * ctx, const EVP_CIPHER *cipher, ENGINE *engine, const unsigned char *key,   \
       const unsigned char *iv, int encrypts))                                                     \
    X(int, EVP_CipherUpdate,                                                                       \
      (EVP_CIPHER_CTX * ctx, unsigned char *out, int *out_n, const unsigned char *in, int in_n))   \
    X(int, EVP_CipherFinal_ex, (EVP_CIPHER_CTX * ctx, unsigned char *out, int *out_n))             \
    X(int, EVP_PBE_scrypt,                                                                         \
      (const char *pass, size_t pass_n, const unsigned char *salt, size_t salt_n, uint64_t n,      \
       uint64_t r, uint64_t p, uint64_t memory_max, unsigned char *key, size_t key_n))             \
    X(const EVP_MD *, EVP_sha256, (void))                                                          \
    X(unsigned char *, HMAC,                                                                       \
      (const EVP_MD *md, const void *key, int key_n, const unsigned char *data, size_t data_n,     \
       unsigned char *out, unsigned *out_n))                                                       \
    X(void, OPENSSL_cleanse, (void *p, size_t n))                                                  \
    X(int, RAND_bytes, (unsigned char *out, int n))

typedef struct qp_libcrypto_table {
#define QP_LIBCRYPTO_MEMBER(result, name, parameters) result(*p_##name) parameters;
    QP_LIBCRYPTO_MAP(QP_LIBCRYPTO_MEMBER)
#undef QP_LIBCRYPTO_MEMBER
} qp_libcrypto_table;

/* Filled by qp_libcrypto_load(), once, before any other function of it is called. */
extern qp_libcrypto_table qp_libcrypto;

/* Loads libcrypto unless it is loaded. QUIPU_UNSUPPORTED: it is not installed, or too old. */
QUIPU_MUST_USE quipu_status qp_libcrypto_load(quipu_error *reterr);

#define EVP_CIPHER_CTX_new qp_libcrypto.p_EVP_CIPHER_CTX_new
#define EVP_CIPHER_CTX_free qp_libcrypto.p_EVP_CIPHER_CTX_free
#define EVP_CIPHER_CTX_ctrl qp_libcrypto.p_EVP_CIPHER_CTX_ctrl
#define EVP_CIPHER_CTX_set_padding qp_libcrypto.p_EVP_CIPHER_CTX_set_padding
#define EVP_aes_256_ecb qp_libcrypto.p_EVP_aes_256_ecb
#define EVP_aes_256_gcm qp_libcrypto.p_EVP_aes_256_gcm
#define EVP_CipherInit_ex qp_libcrypto.p_EVP_CipherInit_ex
#define EVP_CipherUpdate qp_libcrypto.p_EVP_CipherUpdate
#define EVP_CipherFinal_ex qp_libcrypto.p_EVP_CipherFinal_ex
#define EVP_PBE_scrypt qp_libcrypto.p_EVP_PBE_scrypt
#define EVP_sha256 qp_libcrypto.p_EVP_sha256
#define HMAC qp_libcrypto.p_HMAC
#define OPENSSL_cleanse qp_libcrypto.p_OPENSSL_cleanse
#define RAND_bytes qp_libcrypto.p_RAND_bytes

#endif
