/* The construction of docs/encryption.md: keys, pages, frame headers, the header block.
 *
 * Owns: qp_crypt, the contexts of libcrypto with the keys of one file.
 * Called by: crypt_file.c for the bytes between SQLite and the files; crypt_keys.c.
 * Threads and locks: none; a qp_crypt belongs to one connection. libcrypto is loaded by then.
 *
 *   master key ── HKDF-SHA256, salt ──▶ wrapping key ── AES-256-GCM ──▶ the file key, wrapped
 *   file key ── HKDF-SHA256 ──▶ page key 32 | place key 64
 *
 * The file key is random and stays; another user's key is another wrapping in the header block.
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
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/be.h"
#include "base/kdf.h"
#include "base/sha256.h"
#include "ent_sqlite/page_seal.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

#define CRYPT_VERSION 1
#define CRYPT_EPOCH 1                   /* of the file key, which stays */
#define CRYPT_BLANK 0x80000000U         /* in a nonce's first word: the trailer was zeros */
#define CRYPT_INFO "quipu encrypted"    /* HKDF's info for keys of pages, with its NUL */
#define CRYPT_WRAP_INFO "quipu wrapped" /* ...and for the wrapping key */
#define CRYPT_OKM 96                    /* page key, and two for AES-256-XTS: the place key */
#define CRYPT_PREFIX 12                 /* bytes of a nonce that choose the page's own key */
#define CRYPT_AAD 24
#define CRYPT_GCM_NONCE 12
#define CRYPT_AES 16   /* bytes of a block */
#define CRYPT_DRAWS 32 /* pages for which random bytes are drawn at once */

/* Offsets in each copy of the header block; numbers are big-endian, like SQLite's. */
#define CRYPT_VERSION_AT 16
#define CRYPT_PAGE_SIZE_AT 20
#define CRYPT_FORM_AT 24
#define CRYPT_LOG_N_AT 28
#define CRYPT_R_AT 32
#define CRYPT_P_AT 36
#define CRYPT_GENERATION_AT 40
#define CRYPT_ID_AT 48
#define CRYPT_SALT_AT 64
#define CRYPT_WRAPPED_AT 96 /* the tag covers what is before it */
#define CRYPT_TAG_AT 128
#define CRYPT_SUM_AT (QP_CRYPT_COPY - QP_SHA256_SIZE)

static const char crypt_magic[QP_CRYPT_MAGIC] = "quipu encrypted";

struct qp_crypt {
    EVP_CIPHER_CTX *seal;      /* GCM; its key changes with each page */
    EVP_CIPHER_CTX *open;      /* the same, to decrypt */
    EVP_CIPHER_CTX *derive;    /* ECB with the page key */
    EVP_CIPHER_CTX *hide;      /* ECB with the place key's first half: XTS's blocks */
    EVP_CIPHER_CTX *show;      /* the same, to decrypt */
    EVP_CIPHER_CTX *tweak;     /* ECB with the second half: XTS's tweaks */
    uint8_t cmac[16];          /* CMAC's first subkey of the page key */
    uint8_t key[QP_CRYPT_KEY]; /* of the page under way */

    uint8_t drawn[CRYPT_DRAWS * QP_CRYPT_RANDOM]; /* random bytes for the next pages */
    size_t unused;                                /* of them, from the begin */
    pid_t process;                                /* that drew them: a forked one draws its own */
};

/* ---- the header block ------------------------------------------------------------------------ */

/* Whether all numbers are in their ranges: they decide how much memory a key costs. */
static bool crypt_in_range(const qp_crypt_params *params)
{
    const uint32_t size = params->page_size;
    const bool scrypt = params->form == QP_CRYPT_SCRYPT;

    return size >= QP_PAGE_SIZE_MIN && size <= QP_PAGE_SIZE_MAX && (size & (size - 1)) == 0 &&
           (scrypt ? qp_scrypt_in_range(params->cost) : params->form == QP_CRYPT_RAW);
}

/* One copy. The checksum is for accidents and needs no key; what somebody changed on purpose fails
 * the tag, which covers the same numbers. */
static qp_crypt_verdict crypt_copy_read(const uint8_t *copy, qp_crypt_params *ret)
{
    uint8_t sum[QP_SHA256_SIZE];

    assert(copy != NULL && ret != NULL);
    if (memcmp(copy, crypt_magic, QP_CRYPT_MAGIC) != 0) {
        return QP_CRYPT_NONE;
    }
    qp_sha256_of(copy, CRYPT_SUM_AT, sum);
    if (memcmp(sum, copy + CRYPT_SUM_AT, sizeof(sum)) != 0) {
        return QP_CRYPT_DAMAGED;
    }
    if (qp_page_u32(copy + CRYPT_VERSION_AT) != CRYPT_VERSION) {
        return QP_CRYPT_NEWER;
    }
    *ret = (qp_crypt_params){.page_size = qp_page_u32(copy + CRYPT_PAGE_SIZE_AT),
                             .form = qp_page_u32(copy + CRYPT_FORM_AT),
                             .cost = {.log_n = qp_page_u32(copy + CRYPT_LOG_N_AT),
                                      .r = qp_page_u32(copy + CRYPT_R_AT),
                                      .p = qp_page_u32(copy + CRYPT_P_AT)},
                             .generation = qp_be64(copy + CRYPT_GENERATION_AT)};
    memcpy(ret->id, copy + CRYPT_ID_AT, QP_CRYPT_ID);
    memcpy(ret->salt, copy + CRYPT_SALT_AT, QP_CRYPT_SALT);
    memcpy(ret->wrapped, copy + CRYPT_WRAPPED_AT, QP_CRYPT_KEY);
    memcpy(ret->tag, copy + CRYPT_TAG_AT, QP_CRYPT_TAG);
    return crypt_in_range(ret) ? QP_CRYPT_FITS : QP_CRYPT_DAMAGED;
}

/* A change of the key writes one copy after the other: a crash leaves one that is whole. */
qp_crypt_verdict qp_crypt_block_read(const uint8_t *block, size_t size, qp_crypt_params *ret)
{
    qp_crypt_params params[2];
    qp_crypt_verdict first;
    qp_crypt_verdict second;

    assert(block != NULL && ret != NULL);
    if (size < QP_CRYPT_BLOCK) {
        return size < QP_CRYPT_MAGIC || memcmp(block, crypt_magic, QP_CRYPT_MAGIC) != 0
                   ? QP_CRYPT_NONE
                   : QP_CRYPT_DAMAGED;
    }
    first = crypt_copy_read(block, &params[0]);
    second = crypt_copy_read(block + QP_CRYPT_COPY, &params[1]);
    if (second == QP_CRYPT_FITS &&
        (first != QP_CRYPT_FITS || params[1].generation > params[0].generation)) {
        *ret = params[1];
        ret->at = QP_CRYPT_COPY;
        return QP_CRYPT_FITS;
    }
    if (first == QP_CRYPT_FITS) {
        *ret = params[0];
    }
    return first;
}

void qp_crypt_copy_write(const qp_crypt_params *params, uint8_t ret_copy[QP_CRYPT_COPY])
{
    assert(crypt_in_range(params));
    memset(ret_copy, 0, QP_CRYPT_COPY);
    memcpy(ret_copy, crypt_magic, QP_CRYPT_MAGIC);
    qp_put_be32(ret_copy + CRYPT_VERSION_AT, CRYPT_VERSION);
    qp_put_be32(ret_copy + CRYPT_PAGE_SIZE_AT, params->page_size);
    qp_put_be32(ret_copy + CRYPT_FORM_AT, params->form);
    qp_put_be32(ret_copy + CRYPT_LOG_N_AT, params->cost.log_n);
    qp_put_be32(ret_copy + CRYPT_R_AT, params->cost.r);
    qp_put_be32(ret_copy + CRYPT_P_AT, params->cost.p);
    qp_put_be64(ret_copy + CRYPT_GENERATION_AT, params->generation);
    memcpy(ret_copy + CRYPT_ID_AT, params->id, QP_CRYPT_ID);
    memcpy(ret_copy + CRYPT_SALT_AT, params->salt, QP_CRYPT_SALT);
    memcpy(ret_copy + CRYPT_WRAPPED_AT, params->wrapped, QP_CRYPT_KEY);
    memcpy(ret_copy + CRYPT_TAG_AT, params->tag, QP_CRYPT_TAG);
    qp_sha256_of(ret_copy, CRYPT_SUM_AT, ret_copy + CRYPT_SUM_AT);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* HKDF to `n` bytes. `info` is continued by the number of the file key. */
static bool crypt_expand(const uint8_t key[QP_CRYPT_KEY], const uint8_t salt[QP_CRYPT_SALT],
                         const char *info, uint8_t *ret, size_t n)
{
    uint8_t numbered[sizeof(CRYPT_INFO) + 4];
    const size_t info_n = strlen(info) + 1;

    assert(info_n <= sizeof(CRYPT_INFO));
    memcpy(numbered, info, info_n);
    qp_put_be32(numbered + info_n, CRYPT_EPOCH);
    return qp_hkdf(key, salt, numbered, info_n + 4, ret, n);
}

/* AES-256-GCM with a key of its own, which the salt makes: its nonce is zeros. The parameters are
 * authenticated, so that changed ones count as a wrong key. */
static EVP_CIPHER_CTX *crypt_wrapping(const uint8_t master[QP_CRYPT_KEY],
                                      const qp_crypt_params *params, bool wraps)
{
    static const uint8_t nonce[CRYPT_GCM_NONCE];
    uint8_t copy[QP_CRYPT_COPY];
    uint8_t key[QP_CRYPT_KEY];
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0;
    bool ok;

    assert(params != NULL);
    qp_crypt_copy_write(params, copy);
    ok = ctx != NULL && crypt_expand(master, params->salt, CRYPT_WRAP_INFO, key, sizeof(key)) &&
         EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce, wraps) == 1 &&
         EVP_CipherUpdate(ctx, NULL, &n, copy, CRYPT_WRAPPED_AT) == 1;
    OPENSSL_cleanse(key, sizeof(key));
    if (!ok) {
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

bool qp_crypt_wrap(const uint8_t master[QP_CRYPT_KEY], const uint8_t file_key[QP_CRYPT_KEY],
                   qp_crypt_params *params)
{
    EVP_CIPHER_CTX *ctx = crypt_wrapping(master, params, true);
    uint8_t wrapped[QP_CRYPT_KEY] = {0};
    int n = 0;
    const bool ok = ctx != NULL &&
                    EVP_CipherUpdate(ctx, wrapped, &n, file_key, QP_CRYPT_KEY) == 1 &&
                    n == QP_CRYPT_KEY && EVP_CipherFinal_ex(ctx, wrapped + n, &n) == 1 &&
                    EVP_CIPHER_CTX_ctrl(ctx, QP_GCM_GET_TAG, QP_CRYPT_TAG, params->tag) == 1;

    assert(file_key != NULL);
    if (ok) {
        memcpy(params->wrapped, wrapped, sizeof(wrapped));
    }
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

qp_crypt_unwrapped qp_crypt_unwrap(const uint8_t master[QP_CRYPT_KEY],
                                   const qp_crypt_params *params,
                                   uint8_t ret_file_key[QP_CRYPT_KEY])
{
    EVP_CIPHER_CTX *ctx = crypt_wrapping(master, params, false);
    qp_crypt_unwrapped result = QP_CRYPT_NO_CIPHER;
    uint8_t tag[QP_CRYPT_TAG];
    uint8_t key[QP_CRYPT_KEY];
    int n = 0;

    assert(ret_file_key != NULL);
    memcpy(tag, params->tag, sizeof(tag));
    if (ctx != NULL && EVP_CipherUpdate(ctx, key, &n, params->wrapped, QP_CRYPT_KEY) == 1 &&
        EVP_CIPHER_CTX_ctrl(ctx, QP_GCM_SET_TAG, QP_CRYPT_TAG, tag) == 1) {
        result =
            EVP_CipherFinal_ex(ctx, key + n, &n) == 1 ? QP_CRYPT_UNWRAPPED : QP_CRYPT_OTHER_MASTER;
    }
    if (result == QP_CRYPT_UNWRAPPED) {
        memcpy(ret_file_key, key, sizeof(key));
    }
    OPENSSL_cleanse(key, sizeof(key));
    EVP_CIPHER_CTX_free(ctx);
    return result;
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

/* AES of single blocks. */
static EVP_CIPHER_CTX *crypt_blocks(const uint8_t key[QP_CRYPT_KEY], bool encrypts)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

    assert(key != NULL);
    if (ctx != NULL && (EVP_CipherInit_ex(ctx, EVP_aes_256_ecb(), NULL, key, NULL, encrypts) != 1 ||
                        EVP_CIPHER_CTX_set_padding(ctx, 0) != 1)) {
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

/* Contexts are made once: a page then costs no allocation. */
static bool crypt_setup(qp_crypt *self, const uint8_t okm[CRYPT_OKM])
{
    const uint8_t *place = okm + QP_CRYPT_KEY;

    self->seal = EVP_CIPHER_CTX_new();
    self->open = EVP_CIPHER_CTX_new();
    self->derive = crypt_blocks(okm, true);
    self->hide = crypt_blocks(place, true);
    self->show = crypt_blocks(place, false);
    self->tweak = crypt_blocks(place + QP_CRYPT_KEY, true);
    return self->seal != NULL && self->open != NULL && self->derive != NULL && self->hide != NULL &&
           self->show != NULL && self->tweak != NULL &&
           EVP_CipherInit_ex(self->seal, EVP_aes_256_gcm(), NULL, NULL, NULL, 1) == 1 &&
           EVP_CipherInit_ex(self->open, EVP_aes_256_gcm(), NULL, NULL, NULL, 0) == 1 &&
           crypt_subkey(self);
}

/* The file key is random: HKDF needs no salt, which is zeros. */
qp_crypt *qp_crypt_new(const uint8_t file_key[QP_CRYPT_KEY])
{
    static const uint8_t salt[QP_CRYPT_SALT];
    qp_crypt *self = qp_calloc(1, sizeof(*self));
    uint8_t okm[CRYPT_OKM];
    const bool ok = self != NULL && crypt_expand(file_key, salt, CRYPT_INFO, okm, sizeof(okm)) &&
                    crypt_setup(self, okm);

    assert(file_key != NULL);
    OPENSSL_cleanse(okm, sizeof(okm));
    if (!ok) {
        qp_crypt_free(self);
        return NULL;
    }
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
        EVP_CIPHER_CTX_free(self->tweak);
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
    qp_put_be32(ret + 4, place->number);
    qp_put_be64(ret + 8, place->at);
    qp_put_be64(ret + 16, place->salts);
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

/* The reserved bytes as SQLite holds them: zeros, or quipu's mark, a blind and zeros. Other bytes
 * belong to another program and would be lost. */
static bool crypt_trailer(const uint8_t *trailer, bool *ret_blank)
{
    static const uint8_t none[QP_PAGE_RESERVE];
    const size_t used = QP_PAGE_MARK + QP_CRYPT_BLIND;

    assert(ret_blank != NULL);
    *ret_blank = qp_page_is_blank(trailer);
    return *ret_blank || (qp_page_is_marked(trailer) &&
                          memcmp(trailer + used, none, QP_PAGE_RESERVE - used) == 0);
}

/* Xors the time into random bytes: they stay random. Two machines that go on from one snapshot have
 * the same bytes, drawn or still in libcrypto's generator, but hardly write at one nanosecond. */
static void crypt_stir(uint8_t random[QP_CRYPT_RANDOM])
{
    struct timespec now = {0};
    uint8_t time[8];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    assert(sizeof(time) < QP_CRYPT_RANDOM);
    qp_put_be64(time, (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
    for (size_t i = 0; i < sizeof(time); i++) {
        random[i] ^= time[i];
    }
}

/* Random bytes for a page; NULL when libcrypto fails. They are drawn for many pages at once,
 * because a draw costs as much as a quarter of a page. No byte is used twice, also not by a process
 * and its fork, whose ids differ for libcrypto's generator. */
static const uint8_t *crypt_draw(qp_crypt *self)
{
    const pid_t process = getpid();

    assert(self->unused <= sizeof(self->drawn));
    if (self->unused == 0 || self->process != process) {
        if (RAND_bytes(self->drawn, sizeof(self->drawn)) != 1) {
            return NULL;
        }
        self->unused = sizeof(self->drawn);
        self->process = process;
    }
    self->unused -= QP_CRYPT_RANDOM;
    crypt_stir(self->drawn + self->unused);
    return self->drawn + self->unused;
}

bool qp_crypt_seal(qp_crypt *self, const qp_crypt_place *place, const uint8_t *page, size_t size,
                   const uint8_t *random, uint8_t *ret)
{
    const size_t content = size - QP_PAGE_RESERVE;
    const bool is_main = place->kind == QP_CRYPT_MAIN;
    uint8_t *nonce = ret + content + QP_CRYPT_BLIND;
    const uint8_t *blind = page + content + QP_PAGE_MARK;
    bool blank = false;
    int n = 0;
    int more = 0;

    assert(size >= QP_PAGE_SIZE_MIN && page != ret);
    if (!crypt_trailer(page + content, &blank)) {
        return false;
    }
    random = random != NULL ? random : crypt_draw(self);
    if (random == NULL) {
        return false;
    }
    blind = is_main ? random + QP_CRYPT_NONCE - 4 : blind;
    qp_put_be32(nonce, CRYPT_EPOCH | (blank && !is_main ? CRYPT_BLANK : 0));
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

/* AES-256-XTS of a single block, in place. Its two AES calls need no set-up; libcrypto's XTS takes
 * the tweak as an IV, which costs several times as much as the block itself. */
static bool crypt_xts(qp_crypt *self, EVP_CIPHER_CTX *ctx, const uint8_t tweak[CRYPT_AES],
                      uint8_t block[CRYPT_AES])
{
    uint8_t mask[CRYPT_AES];
    int n = 0;

    assert(ctx == self->hide || ctx == self->show);
    if (EVP_CipherUpdate(self->tweak, mask, &n, tweak, CRYPT_AES) != 1 || n != CRYPT_AES) {
        return false;
    }
    for (size_t i = 0; i < CRYPT_AES; i++) {
        block[i] ^= mask[i];
    }
    if (EVP_CipherUpdate(ctx, block, &n, block, CRYPT_AES) != 1 || n != CRYPT_AES) {
        return false;
    }
    for (size_t i = 0; i < CRYPT_AES; i++) {
        block[i] ^= mask[i];
    }
    return true;
}

/* The tweak is the frame's number and the open part of its header, so that the same salts and
 * checksum look different in each frame, and a changed page number changes all of them. */
bool qp_crypt_frame(qp_crypt *self, uint32_t frame, uint8_t header[QP_CRYPT_FRAME_HEADER],
                    bool hides)
{
    uint8_t tweak[CRYPT_AES] = {0};

    assert(frame > 0);
    qp_put_be32(tweak + 4, frame);
    memcpy(tweak + 8, header, 8);
    return crypt_xts(self, hides ? self->hide : self->show, tweak, header + 8);
}

/* A page's tag is never the same twice, nor is then the mask. */
bool qp_crypt_mask(qp_crypt *self, const uint8_t tag[QP_CRYPT_TAG], uint8_t ret[4])
{
    uint8_t block[CRYPT_AES] = {0};

    assert(tag != NULL);
    if (!crypt_xts(self, self->hide, tag, block)) {
        return false;
    }
    memcpy(ret, block, 4);
    return true;
}
