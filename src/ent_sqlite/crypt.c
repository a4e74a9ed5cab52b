/* The construction of docs/encryption.md: keys, pages, frame headers, the header block.
 *
 * Owns: qp_crypt, the contexts of libcrypto with the keys of one file.
 * Called by: crypt_file.c for the bytes between SQLite and the files; crypt_keys.c.
 * Threads and locks: none; a qp_crypt belongs to one connection. libcrypto is loaded by then.
 *
 *   master key ── HKDF-SHA256, salt of the file ──▶ page key 32 | place key 64 | check key 32
 *
 *   a sealed page of P bytes    P-48       P-40        P-16
 *   | what SQLite stores ...     | blind    | nonce 24   | tag 16 |
 *   |<------- AES-256-GCM -------------->|
 *
 * The nonce has 24 bytes, of which 20 are random: pages written under one key do not exhaust it.
 * XAES-256-GCM (C2SP) derives a key for AES-256-GCM from the first 12 bytes of each nonce.
 *
 * SQLite computes the checksum of a log frame over the open page, and shows it in the frame's
 * header and, to other processes, in the shared memory beside the file. The header's is encrypted
 * here. The other one is masked by the blind: random bytes in each page that it covers. */
#include "ent_sqlite/crypt.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "ent_sqlite/page_seal.h"
/* The last one: its macros rename functions. */
#include "ent_sqlite/libcrypto.h"

#define CRYPT_VERSION 1
#define CRYPT_EPOCH 1                /* of the key; a file has one so far */
#define CRYPT_BLANK 0x80000000U      /* in a nonce's first word: the trailer was zeros */
#define CRYPT_INFO "quipu encrypted" /* HKDF's info, with its NUL */
#define CRYPT_PLACE_KEY 64           /* AES-256-XTS has two keys */
#define CRYPT_OKM 128                /* page key, place key, check key */
#define CRYPT_PREFIX 12              /* bytes of a nonce that choose the page's own key */
#define CRYPT_AAD 24
#define CRYPT_CHECKED 72 /* bytes of the header block that the check value covers */

/* Offsets in the header block; numbers are big-endian, like SQLite's. */
#define CRYPT_VERSION_AT 16
#define CRYPT_PAGE_SIZE_AT 20
#define CRYPT_FORM_AT 24
#define CRYPT_LOG_N_AT 28
#define CRYPT_R_AT 32
#define CRYPT_P_AT 36
#define CRYPT_SALT_AT 40
#define CRYPT_CHECK_AT 72
#define CRYPT_SUM_AT (QP_CRYPT_BLOCK - QP_SHA256_SIZE)

static const char crypt_magic[QP_CRYPT_MAGIC] = "quipu encrypted";

struct qp_crypt {
    EVP_CIPHER_CTX *seal;      /* GCM; its key changes with each page */
    EVP_CIPHER_CTX *open;      /* the same, to decrypt */
    EVP_CIPHER_CTX *derive;    /* ECB with the page key */
    EVP_CIPHER_CTX *hide;      /* XTS with the place key */
    EVP_CIPHER_CTX *show;      /* the same, to decrypt */
    uint8_t cmac[16];          /* CMAC's first subkey of the page key */
    uint8_t key[QP_CRYPT_KEY]; /* of the page under way */
};

static void crypt_put32(uint8_t *p, uint32_t value)
{
    assert(p != NULL);
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

static void crypt_put64(uint8_t *p, uint64_t value)
{
    crypt_put32(p, (uint32_t)(value >> 32));
    crypt_put32(p + 4, (uint32_t)value);
}

/* ---- the header block ------------------------------------------------------------------------ */

/* Whether all numbers are in their ranges: they decide how much memory a key costs. */
static bool crypt_in_range(const qp_crypt_params *params)
{
    const uint32_t size = params->page_size;
    const bool scrypt = params->form == QP_CRYPT_SCRYPT;

    return size >= QP_PAGE_SIZE_MIN && size <= QP_PAGE_SIZE_MAX && (size & (size - 1)) == 0 &&
           (scrypt ? params->log_n >= QP_CRYPT_LOG_N_MIN && params->log_n <= QP_CRYPT_LOG_N_MAX &&
                         params->r >= 1 && params->r <= QP_CRYPT_R_MAX && params->p >= 1 &&
                         params->p <= QP_CRYPT_P_MAX
                   : params->form == QP_CRYPT_RAW);
}

/* The checksum is for accidents and needs no key; what somebody changed on purpose fails the check
 * value, which covers the same numbers. */
qp_crypt_verdict qp_crypt_block_read(const uint8_t *block, size_t size, qp_crypt_params *ret)
{
    uint8_t sum[QP_SHA256_SIZE];
    qp_crypt_params params;

    assert(block != NULL && ret != NULL);
    if (size < QP_CRYPT_MAGIC || memcmp(block, crypt_magic, QP_CRYPT_MAGIC) != 0) {
        return QP_CRYPT_NONE;
    }
    if (size < QP_CRYPT_BLOCK) {
        return QP_CRYPT_DAMAGED;
    }
    qp_sha256_of(block, CRYPT_SUM_AT, sum);
    if (memcmp(sum, block + CRYPT_SUM_AT, sizeof(sum)) != 0) {
        return QP_CRYPT_DAMAGED;
    }
    if (qp_page_u32(block + CRYPT_VERSION_AT) != CRYPT_VERSION) {
        return QP_CRYPT_NEWER;
    }
    params = (qp_crypt_params){.page_size = qp_page_u32(block + CRYPT_PAGE_SIZE_AT),
                               .form = qp_page_u32(block + CRYPT_FORM_AT),
                               .log_n = qp_page_u32(block + CRYPT_LOG_N_AT),
                               .r = qp_page_u32(block + CRYPT_R_AT),
                               .p = qp_page_u32(block + CRYPT_P_AT)};
    memcpy(params.salt, block + CRYPT_SALT_AT, QP_CRYPT_SALT);
    memcpy(params.check, block + CRYPT_CHECK_AT, QP_CRYPT_CHECK);
    if (!crypt_in_range(&params)) {
        return QP_CRYPT_DAMAGED;
    }
    *ret = params;
    return QP_CRYPT_FITS;
}

/* The same bytes for the same parameters: nothing in it changes while the file lives. */
void qp_crypt_block_write(const qp_crypt_params *params, uint8_t ret_block[QP_CRYPT_BLOCK])
{
    assert(crypt_in_range(params));
    memset(ret_block, 0, QP_CRYPT_BLOCK);
    memcpy(ret_block, crypt_magic, QP_CRYPT_MAGIC);
    crypt_put32(ret_block + CRYPT_VERSION_AT, CRYPT_VERSION);
    crypt_put32(ret_block + CRYPT_PAGE_SIZE_AT, params->page_size);
    crypt_put32(ret_block + CRYPT_FORM_AT, params->form);
    crypt_put32(ret_block + CRYPT_LOG_N_AT, params->log_n);
    crypt_put32(ret_block + CRYPT_R_AT, params->r);
    crypt_put32(ret_block + CRYPT_P_AT, params->p);
    memcpy(ret_block + CRYPT_SALT_AT, params->salt, QP_CRYPT_SALT);
    memcpy(ret_block + CRYPT_CHECK_AT, params->check, QP_CRYPT_CHECK);
    qp_sha256_of(ret_block, CRYPT_SUM_AT, ret_block + CRYPT_SUM_AT);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool crypt_hmac(const void *key, size_t key_n, const uint8_t *data, size_t n,
                       uint8_t ret[QP_SHA256_SIZE])
{
    unsigned size = 0;

    assert(key != NULL && key_n <= 128);
    return HMAC(EVP_sha256(), key, (int)key_n, data, n, ret, &size) != NULL &&
           size == QP_SHA256_SIZE;
}

/* HKDF (RFC 5869): the file's salt, then four blocks. */
static bool crypt_expand(const uint8_t master[QP_CRYPT_KEY], const uint8_t salt[QP_CRYPT_SALT],
                         uint8_t ret[CRYPT_OKM])
{
    uint8_t input[QP_SHA256_SIZE + sizeof(CRYPT_INFO) + 4 + 1];
    uint8_t prk[QP_SHA256_SIZE];
    size_t before = 0; /* bytes of the block before, which the next one continues */
    bool ok = crypt_hmac(salt, QP_CRYPT_SALT, master, QP_CRYPT_KEY, prk);

    for (uint8_t i = 1; ok && i <= CRYPT_OKM / QP_SHA256_SIZE; i++) {
        memcpy(input + before, CRYPT_INFO, sizeof(CRYPT_INFO));
        crypt_put32(input + before + sizeof(CRYPT_INFO), CRYPT_EPOCH);
        input[before + sizeof(CRYPT_INFO) + 4] = i;
        ok = crypt_hmac(prk, sizeof(prk), input, before + sizeof(CRYPT_INFO) + 5,
                        ret + (size_t)(i - 1) * QP_SHA256_SIZE);
        before = QP_SHA256_SIZE;
        memcpy(input, ret + (size_t)(i - 1) * QP_SHA256_SIZE, QP_SHA256_SIZE);
    }
    assert(before == QP_SHA256_SIZE || !ok);
    OPENSSL_cleanse(prk, sizeof(prk));
    OPENSSL_cleanse(input, sizeof(input));
    return ok;
}

/* CMAC's first subkey (SP 800-38B): the cipher of zeros, doubled. */
static bool crypt_subkey(qp_crypt *self)
{
    uint8_t zeros[16] = {0};
    uint8_t top;
    int n = 0;

    assert(self->derive != NULL);
    if (EVP_CipherUpdate(self->derive, self->cmac, &n, zeros, sizeof(zeros)) != 1 || n != 16) {
        return false;
    }
    top = self->cmac[0] >> 7;
    for (size_t i = 0; i < 15; i++) {
        self->cmac[i] = (uint8_t)(self->cmac[i] << 1 | self->cmac[i + 1] >> 7);
    }
    self->cmac[15] = (uint8_t)(self->cmac[15] << 1 ^ (top != 0 ? 0x87 : 0));
    return true;
}

/* Contexts are made once: a page then costs no allocation. */
static bool crypt_setup(qp_crypt *self, const uint8_t okm[CRYPT_OKM])
{
    const uint8_t *place = okm + QP_CRYPT_KEY;

    self->seal = EVP_CIPHER_CTX_new();
    self->open = EVP_CIPHER_CTX_new();
    self->derive = EVP_CIPHER_CTX_new();
    self->hide = EVP_CIPHER_CTX_new();
    self->show = EVP_CIPHER_CTX_new();
    return self->seal != NULL && self->open != NULL && self->derive != NULL && self->hide != NULL &&
           self->show != NULL &&
           EVP_CipherInit_ex(self->seal, EVP_aes_256_gcm(), NULL, NULL, NULL, 1) == 1 &&
           EVP_CipherInit_ex(self->open, EVP_aes_256_gcm(), NULL, NULL, NULL, 0) == 1 &&
           EVP_CipherInit_ex(self->derive, EVP_aes_256_ecb(), NULL, okm, NULL, 1) == 1 &&
           EVP_CIPHER_CTX_set_padding(self->derive, 0) == 1 &&
           EVP_CipherInit_ex(self->hide, EVP_aes_256_xts(), NULL, place, NULL, 1) == 1 &&
           EVP_CipherInit_ex(self->show, EVP_aes_256_xts(), NULL, place, NULL, 0) == 1 &&
           crypt_subkey(self);
}

/* The check value covers the header's numbers, so that a changed one counts as a wrong key. */
qp_crypt *qp_crypt_new(const uint8_t master[QP_CRYPT_KEY], const qp_crypt_params *params,
                       uint8_t ret_check[QP_CRYPT_CHECK])
{
    qp_crypt *self = qp_calloc(1, sizeof(*self));
    uint8_t block[QP_CRYPT_BLOCK];
    uint8_t okm[CRYPT_OKM];
    uint8_t mac[QP_SHA256_SIZE];
    bool ok = self != NULL && crypt_expand(master, params->salt, okm) && crypt_setup(self, okm);

    assert(master != NULL && ret_check != NULL);
    if (ok) {
        qp_crypt_block_write(params, block);
        ok = crypt_hmac(okm + QP_CRYPT_KEY + CRYPT_PLACE_KEY, QP_CRYPT_KEY, block, CRYPT_CHECKED,
                        mac);
    }
    OPENSSL_cleanse(okm, sizeof(okm));
    if (!ok) {
        qp_crypt_free(self);
        return NULL;
    }
    memcpy(ret_check, mac, QP_CRYPT_CHECK);
    return self;
}

/* libcrypto overwrites the keys in its contexts. */
void qp_crypt_free(qp_crypt *self)
{
    if (self != NULL) {
        EVP_CIPHER_CTX_free(self->seal);
        EVP_CIPHER_CTX_free(self->open);
        EVP_CIPHER_CTX_free(self->derive);
        EVP_CIPHER_CTX_free(self->hide);
        EVP_CIPHER_CTX_free(self->show);
        OPENSSL_cleanse(self, sizeof(*self));
        qp_free(self);
    }
}

/* ---- a page ---------------------------------------------------------------------------------- */

/* XAES-256-GCM's derivation: CMAC of two messages of one block, which the nonce's begin ends. */
static bool crypt_page_key(qp_crypt *self, const uint8_t nonce[QP_CRYPT_NONCE])
{
    uint8_t messages[32] = {0, 1, 'X', 0, [16] = 0, 2, 'X', 0};
    int n = 0;

    memcpy(messages + 4, nonce, CRYPT_PREFIX);
    memcpy(messages + 20, nonce, CRYPT_PREFIX);
    for (size_t i = 0; i < sizeof(messages); i++) {
        messages[i] ^= self->cmac[i % 16];
    }
    return EVP_CipherUpdate(self->derive, self->key, &n, messages, sizeof(messages)) == 1 &&
           n == QP_CRYPT_KEY;
}

/* The place, as authenticated data. */
static void crypt_aad(const qp_crypt_place *place, uint8_t ret[CRYPT_AAD])
{
    assert(place->number > 0);
    memset(ret, 0, 4);
    ret[0] = place->kind;
    crypt_put32(ret + 4, place->number);
    crypt_put64(ret + 8, place->at);
    crypt_put64(ret + 16, place->salts);
}

/* Key, nonce and place of the page that follows. */
static bool crypt_begin(qp_crypt *self, EVP_CIPHER_CTX *ctx, bool seals,
                        const qp_crypt_place *place, const uint8_t nonce[QP_CRYPT_NONCE])
{
    uint8_t aad[CRYPT_AAD];
    int n = 0;

    assert(ctx != NULL);
    crypt_aad(place, aad);
    return crypt_page_key(self, nonce) &&
           EVP_CipherInit_ex(ctx, NULL, NULL, self->key, nonce + CRYPT_PREFIX, seals) == 1 &&
           EVP_CipherUpdate(ctx, NULL, &n, aad, sizeof(aad)) == 1;
}

/* What SQLite holds in the reserved bytes: zeros, or our mark, a blind and zeros. Anything else is
 * another program's, and would be lost. */
static bool crypt_trailer(const uint8_t *trailer, bool *ret_blank)
{
    static const uint8_t none[QP_PAGE_RESERVE];
    const size_t used = QP_PAGE_MARK + QP_CRYPT_BLIND;

    assert(ret_blank != NULL);
    *ret_blank = qp_page_is_blank(trailer);
    return *ret_blank || (qp_page_is_marked(trailer) &&
                          memcmp(trailer + used, none, QP_PAGE_RESERVE - used) == 0);
}

/* Random bytes for each page, so that a copied or forked process repeats none: libcrypto's own
 * generator notices a fork. */
bool qp_crypt_seal(qp_crypt *self, const qp_crypt_place *place, const uint8_t *page, size_t size,
                   const uint8_t *random, uint8_t *ret)
{
    const size_t content = size - QP_PAGE_RESERVE;
    const bool is_main = place->kind == QP_CRYPT_MAIN;
    uint8_t drawn[QP_CRYPT_RANDOM];
    uint8_t *nonce = ret + content + QP_CRYPT_BLIND;
    const uint8_t *blind = page + content + QP_PAGE_MARK;
    bool blank = false;
    int n = 0;
    int more = 0;

    assert(size >= QP_PAGE_SIZE_MIN && page != ret);
    if (!crypt_trailer(page + content, &blank)) {
        return false;
    }
    if (random == NULL && RAND_bytes(drawn, is_main ? QP_CRYPT_RANDOM : QP_CRYPT_NONCE - 4) != 1) {
        return false;
    }
    random = random != NULL ? random : drawn;
    blind = is_main ? random + QP_CRYPT_NONCE - 4 : blind;
    crypt_put32(nonce, CRYPT_EPOCH | (blank && !is_main ? CRYPT_BLANK : 0));
    memcpy(nonce + 4, random, QP_CRYPT_NONCE - 4);
    return crypt_begin(self, self->seal, true, place, nonce) &&
           EVP_CipherUpdate(self->seal, ret, &n, page, (int)content) == 1 &&
           EVP_CipherUpdate(self->seal, ret + content, &more, blind, QP_CRYPT_BLIND) == 1 &&
           (size_t)n + (size_t)more == content + QP_CRYPT_BLIND &&
           EVP_CipherFinal_ex(self->seal, ret + content + QP_CRYPT_BLIND, &more) == 1 &&
           EVP_CIPHER_CTX_ctrl(self->seal, QP_GCM_GET_TAG, QP_CRYPT_TAG,
                               ret + size - QP_CRYPT_TAG) == 1;
}

/* The mark is not stored: whether there was one is a bit of the nonce. */
static void crypt_restore(uint8_t *trailer, bool blank)
{
    uint8_t blind[QP_CRYPT_BLIND];

    assert(trailer != NULL);
    memcpy(blind, trailer, QP_CRYPT_BLIND);
    memset(trailer, 0, QP_PAGE_RESERVE);
    if (!blank) {
        qp_page_mark_unsealed(trailer);
        memcpy(trailer + QP_PAGE_MARK, blind, QP_CRYPT_BLIND);
    }
}

/* A page that does not fit gives nothing away: what was decrypted is overwritten. */
bool qp_crypt_open(qp_crypt *self, const qp_crypt_place *place, uint8_t *page, size_t size)
{
    const size_t sealed = size - QP_PAGE_RESERVE + QP_CRYPT_BLIND;
    uint8_t nonce[QP_CRYPT_NONCE];
    uint8_t tag[QP_CRYPT_TAG];
    uint32_t first;
    int n = 0;
    int more = 0;

    assert(size >= QP_PAGE_SIZE_MIN);
    memcpy(nonce, page + sealed, sizeof(nonce));
    memcpy(tag, page + size - QP_CRYPT_TAG, sizeof(tag));
    first = qp_page_u32(nonce);
    if ((first & ~CRYPT_BLANK) != CRYPT_EPOCH ||
        !crypt_begin(self, self->open, false, place, nonce) ||
        EVP_CipherUpdate(self->open, page, &n, page, (int)sealed) != 1 ||
        EVP_CIPHER_CTX_ctrl(self->open, QP_GCM_SET_TAG, QP_CRYPT_TAG, tag) != 1 ||
        EVP_CipherFinal_ex(self->open, page + n, &more) != 1) {
        OPENSSL_cleanse(page, size);
        return false;
    }
    crypt_restore(page + size - QP_PAGE_RESERVE, (first & CRYPT_BLANK) != 0);
    return true;
}

/* ---- log and journal ------------------------------------------------------------------------- */

/* The tweak is the frame's number and the open part of its header, so that the same salts and
 * checksum look different in each frame, and a changed page number changes all of them. */
bool qp_crypt_frame(qp_crypt *self, uint32_t frame, uint8_t header[QP_CRYPT_FRAME_HEADER],
                    bool hides)
{
    EVP_CIPHER_CTX *ctx = hides ? self->hide : self->show;
    uint8_t tweak[16] = {0};
    int n = 0;

    assert(frame > 0);
    crypt_put32(tweak + 4, frame);
    memcpy(tweak + 8, header, 8);
    return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, tweak, hides) == 1 &&
           EVP_CipherUpdate(ctx, header + 8, &n, header + 8, 16) == 1 && n == 16;
}

/* A page's tag is never the same twice, nor is then the mask. */
bool qp_crypt_mask(qp_crypt *self, const uint8_t tag[QP_CRYPT_TAG], uint8_t ret[4])
{
    uint8_t block[16] = {0};
    int n = 0;

    assert(tag != NULL);
    if (EVP_CipherInit_ex(self->hide, NULL, NULL, NULL, tag, 1) != 1 ||
        EVP_CipherUpdate(self->hide, block, &n, block, sizeof(block)) != 1) {
        return false;
    }
    memcpy(ret, block, 4);
    return true;
}
