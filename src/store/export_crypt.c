/* Encrypted exports (docs/encryption.md): the bytes of an export in chunks.
 *
 *   | header 132 | chunk 1 | chunk 2 | ... | the last chunk |
 *   a chunk: | nonce 12: number 8, last 1 bit, length 31 bits | length bytes | tag 16 |
 *
 *   master key = the key, or scrypt(passphrase, salt)
 *   master key ── HKDF-SHA256, salt, the header's first 20 bytes ──▶ chunk key 32 | header key 32
 *
 * A salt is new for each export, and so is its key: the nonces are numbers. Because a number is
 * part of the nonce, no chunk fits another place; because "last" is, no export can be cut.
 *
 * Owns: the contexts of libcrypto, one chunk in clear and one sealed, and a reader's file.
 * Called by: export.c, import.c, verify_against.c, on the caller's thread.
 * Locks: none.
 * On return of the reader's qp_export_reader_new() every chunk fits its tag:
 *
 *   the caller's bytes ──▶ verify ──▶ file without a name ──▶ verify again, decrypt ──▶ import
 *                     encrypted                      encrypted                    clear */
#include "store/export_crypt.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/be.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/temp_file.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

#define EXPORT_CRYPT_MAGIC 16
#define EXPORT_CRYPT_VERSION 1
#define EXPORT_CRYPT_RAW 0    /* the key has 32 bytes */
#define EXPORT_CRYPT_SCRYPT 1 /* it is made of a passphrase */
#define EXPORT_CRYPT_NONCE 12
#define EXPORT_CRYPT_TAG 16
#define EXPORT_CRYPT_SEALED (EXPORT_CRYPT_NONCE + QP_EXPORT_CRYPT_TEXT + EXPORT_CRYPT_TAG)
#define EXPORT_CRYPT_LAST 0x80000000U /* in a nonce's last word: no chunk follows */

/* Offsets in the header; numbers are big-endian. */
#define EXPORT_CRYPT_VERSION_AT 16
#define EXPORT_CRYPT_FORM_AT 20 /* up to here HKDF's info */
#define EXPORT_CRYPT_LOG_N_AT 24
#define EXPORT_CRYPT_R_AT 28
#define EXPORT_CRYPT_P_AT 32
#define EXPORT_CRYPT_SALT_AT 36
#define EXPORT_CRYPT_MAC_AT 68 /* over what is before it: whether the key fits */
#define EXPORT_CRYPT_SUM_AT 100
#define EXPORT_CRYPT_HEADER (EXPORT_CRYPT_SUM_AT + QP_SHA256_SIZE)

static const char export_crypt_magic[EXPORT_CRYPT_MAGIC + 1] = "quipu export enc";

/* The key of an export from the caller's function. */
typedef struct export_crypt_secret {
    size_t size;
    uint8_t bytes[QP_SECRET_MAX];
} export_crypt_secret;

/* ---- keys ------------------------------------------------------------------------------------ */

static quipu_status export_crypt_no_cipher(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the encryption of an export");
}

/* Calls the caller's function, once. */
static quipu_status export_crypt_ask(quipu_key_fn key, void *key_ctx, uint32_t form,
                                     export_crypt_secret *ret_secret, quipu_error *reterr)
{
    quipu_status status = qp_libcrypto_load(reterr);

    assert(key != NULL && ret_secret->size == 0);
    if (status == QUIPU_OK) {
        ret_secret->size = key(key_ctx, ret_secret->bytes, sizeof(ret_secret->bytes));
        status = qp_secret_check(ret_secret->size, "export", reterr);
    }
    if (status == QUIPU_OK && form == EXPORT_CRYPT_RAW && ret_secret->size != QP_KDF_KEY) {
        status =
            qp_error_set(reterr, QUIPU_INVALID,
                         "the export needs a key of %d bytes, and not a passphrase", QP_KDF_KEY);
    }
    if (status != QUIPU_OK && ret_secret->size > 0) {
        OPENSSL_cleanse(ret_secret, sizeof(*ret_secret));
    }
    return status;
}

/* The keys of an export: of its chunks, and of its header. */
static bool export_crypt_derive(const export_crypt_secret *secret,
                                const uint8_t header[EXPORT_CRYPT_HEADER],
                                uint8_t ret_keys[2 * QP_KDF_KEY])
{
    const qp_scrypt_cost cost = {qp_be32(header + EXPORT_CRYPT_LOG_N_AT),
                                 qp_be32(header + EXPORT_CRYPT_R_AT),
                                 qp_be32(header + EXPORT_CRYPT_P_AT)};
    const uint8_t *salt = header + EXPORT_CRYPT_SALT_AT;
    uint8_t master[QP_KDF_KEY];
    bool ok = true;

    assert(secret->size > 0);
    if (qp_be32(header + EXPORT_CRYPT_FORM_AT) == EXPORT_CRYPT_SCRYPT) {
        ok = qp_scrypt(secret->bytes, secret->size, salt, cost, master);
    } else {
        memcpy(master, secret->bytes, sizeof(master));
    }
    ok =
        ok && qp_hkdf(master, salt, header, EXPORT_CRYPT_FORM_AT, ret_keys, (size_t)2 * QP_KDF_KEY);
    OPENSSL_cleanse(master, sizeof(master));
    return ok;
}

/* A context with the key of the chunks; NULL: no memory. */
static EVP_CIPHER_CTX *export_crypt_cipher(const uint8_t key[QP_KDF_KEY], bool seals)
{
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();

    if (cipher != NULL &&
        EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), NULL, key, NULL, seals) != 1) {
        EVP_CIPHER_CTX_free(cipher);
        return NULL;
    }
    return cipher;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct qp_export_writer {
    quipu_write_fn write; /* the caller's */
    void *ctx;
    EVP_CIPHER_CTX *cipher;
    uint64_t number; /* of the chunk that was written last, from 1 */
    bool begun;      /* the header is written */
    size_t n;        /* of the chunk under way */
    uint8_t header[EXPORT_CRYPT_HEADER];
    uint8_t text[QP_EXPORT_CRYPT_TEXT];
    uint8_t sealed[EXPORT_CRYPT_SEALED];
};

/* Fills in all but the message authentication code, which needs the key. */
static bool export_crypt_header_begin(uint8_t header[EXPORT_CRYPT_HEADER], bool passphrase,
                                      const uint8_t *salt)
{
    memcpy(header, export_crypt_magic, EXPORT_CRYPT_MAGIC);
    qp_put_be32(header + EXPORT_CRYPT_VERSION_AT, EXPORT_CRYPT_VERSION);
    qp_put_be32(header + EXPORT_CRYPT_FORM_AT, passphrase ? EXPORT_CRYPT_SCRYPT : EXPORT_CRYPT_RAW);
    qp_put_be32(header + EXPORT_CRYPT_LOG_N_AT, passphrase ? QP_SCRYPT_LOG_N : 0);
    qp_put_be32(header + EXPORT_CRYPT_R_AT, passphrase ? QP_SCRYPT_R : 0);
    qp_put_be32(header + EXPORT_CRYPT_P_AT, passphrase ? QP_SCRYPT_P : 0);
    if (salt != NULL) {
        memcpy(header + EXPORT_CRYPT_SALT_AT, salt, QP_KDF_KEY);
        return true;
    }
    return RAND_bytes(header + EXPORT_CRYPT_SALT_AT, QP_KDF_KEY) == 1;
}

/* Header and cipher of a new export. */
static bool export_crypt_begin(qp_export_writer *self, const export_crypt_secret *secret,
                               bool passphrase, const uint8_t *salt)
{
    uint8_t keys[2 * QP_KDF_KEY];
    uint8_t *header = self->header;
    bool ok;

    assert(self->cipher == NULL);
    ok = export_crypt_header_begin(header, passphrase, salt) &&
         export_crypt_derive(secret, header, keys) &&
         qp_hmac(keys + QP_KDF_KEY, header, EXPORT_CRYPT_MAC_AT, header + EXPORT_CRYPT_MAC_AT);
    if (ok) {
        qp_sha256_of(header, EXPORT_CRYPT_SUM_AT, header + EXPORT_CRYPT_SUM_AT);
        self->cipher = export_crypt_cipher(keys, true);
    }
    OPENSSL_cleanse(keys, sizeof(keys));
    return self->cipher != NULL;
}

quipu_status qp_export_writer_new(quipu_key_fn key, void *key_ctx, bool passphrase,
                                  const uint8_t *salt, quipu_write_fn write, void *ctx,
                                  qp_export_writer **ret, quipu_error *reterr)
{
    export_crypt_secret secret = {.size = 0};
    qp_export_writer *self = NULL;
    quipu_status status = export_crypt_ask(
        key, key_ctx, passphrase ? EXPORT_CRYPT_SCRYPT : EXPORT_CRYPT_RAW, &secret, reterr);

    assert(write != NULL && ret != NULL);
    if (status == QUIPU_OK) {
        self = qp_calloc(1, sizeof(*self));
        if (self == NULL || !export_crypt_begin(self, &secret, passphrase, salt)) {
            status = export_crypt_no_cipher(reterr);
        }
        OPENSSL_cleanse(&secret, sizeof(secret));
    }
    if (status != QUIPU_OK) {
        qp_export_writer_free(self);
        return status;
    }
    self->write = write;
    self->ctx = ctx;
    *ret = self;
    return QUIPU_OK;
}

/* Seals the chunk under way and hands it to the caller, the first one behind the header. */
static quipu_status export_crypt_put(qp_export_writer *self, bool last)
{
    uint8_t *nonce = self->sealed;
    uint8_t *text = self->sealed + EXPORT_CRYPT_NONCE;
    quipu_status status = QUIPU_OK;
    int n = 0;

    assert(self->n <= QP_EXPORT_CRYPT_TEXT && (last || self->n == QP_EXPORT_CRYPT_TEXT));
    if (!self->begun) {
        self->begun = true;
        status = self->write(self->ctx, self->header, EXPORT_CRYPT_HEADER);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    self->number++;
    qp_put_be64(nonce, self->number);
    qp_put_be32(nonce + 8, (uint32_t)self->n | (last ? EXPORT_CRYPT_LAST : 0));
    if (EVP_CipherInit_ex(self->cipher, NULL, NULL, NULL, nonce, 1) != 1 ||
        EVP_CipherUpdate(self->cipher, text, &n, self->text, (int)self->n) != 1 ||
        EVP_CipherFinal_ex(self->cipher, text + n, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(self->cipher, QP_GCM_GET_TAG, EXPORT_CRYPT_TAG, text + self->n) != 1) {
        return QUIPU_NOMEM;
    }
    n = (int)self->n;
    self->n = 0;
    return self->write(self->ctx, self->sealed, EXPORT_CRYPT_NONCE + (size_t)n + EXPORT_CRYPT_TAG);
}

/* A full chunk waits for the next byte: it may be the last one. */
quipu_status qp_export_writer_write(void *ctx, const void *bytes, size_t n)
{
    qp_export_writer *self = ctx;
    const uint8_t *p = bytes;
    quipu_status status = QUIPU_OK;

    assert(self->cipher != NULL);
    while (n > 0 && status == QUIPU_OK) {
        const size_t room = QP_EXPORT_CRYPT_TEXT - self->n;
        const size_t part = n < room ? n : room;

        if (room == 0) {
            status = export_crypt_put(self, false);
            continue;
        }
        memcpy(self->text + self->n, p, part);
        self->n += part;
        p += part;
        n -= part;
    }
    return status;
}

quipu_status qp_export_writer_end(qp_export_writer *self, quipu_error *reterr)
{
    const quipu_status status = export_crypt_put(self, true);

    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, status, "the export could not be written on (%s)",
                              quipu_status_name(status));
}

void qp_export_writer_free(qp_export_writer *self)
{
    if (self != NULL) {
        EVP_CIPHER_CTX_free(self->cipher);
        OPENSSL_cleanse(self, sizeof(*self));
        qp_free(self);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

struct qp_export_reader {
    quipu_read_fn read; /* the caller's */
    void *ctx;
    const qp_call *within;
    size_t head_n;          /* bytes of the header that are read */
    size_t head_at;         /* ...of them given on: an export that is not encrypted */
    EVP_CIPHER_CTX *cipher; /* NULL: it is not encrypted */
    FILE *spool;            /* the chunks, encrypted */
    bool verified;          /* all are there and fit: they are read from the spool now */
    uint64_t number;        /* of the chunk that was opened last */
    bool last;              /* no other one follows it */
    size_t at;              /* what is given of it */
    size_t n;
    uint8_t header[EXPORT_CRYPT_HEADER];
    uint8_t text[QP_EXPORT_CRYPT_TEXT];
    uint8_t sealed[EXPORT_CRYPT_SEALED];
};

/* As many bytes as there are, at most `size`, of the caller. */
static quipu_status export_crypt_read(const qp_export_reader *self, uint8_t *to, size_t size,
                                      size_t *ret_n, quipu_error *reterr)
{
    size_t n = 0;

    *ret_n = 0;
    do {
        const quipu_status status = self->read(self->ctx, to + *ret_n, size - *ret_n, &n);
        if (status != QUIPU_OK) {
            return qp_error_set(reterr, status, "the import could not be read on (%s)",
                                quipu_status_name(status));
        }
        if (n > size - *ret_n) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "the reader gave more bytes than were asked for");
        }
        *ret_n += n;
    } while (n > 0 && *ret_n < size);
    return QUIPU_OK;
}

/* The same of the caller, who gives them to the spool, or of the spool. */
static quipu_status export_crypt_take(qp_export_reader *self, uint8_t *to, size_t size,
                                      size_t *ret_n, quipu_error *reterr)
{
    quipu_status status;

    assert(self->spool != NULL);
    if (self->verified) {
        *ret_n = fread(to, 1, size, self->spool);
        return ferror(self->spool) != 0 ? QUIPU_IO : QUIPU_OK;
    }
    status = export_crypt_read(self, to, size, ret_n, reterr);
    if (status == QUIPU_OK && fwrite(to, 1, *ret_n, self->spool) != *ret_n) {
        status = qp_error_set(reterr, QUIPU_IO,
                              "the temporary file of an encrypted export cannot be written");
    }
    return status;
}

static quipu_status export_crypt_is_cut(const qp_export_reader *self, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_INVALID,
                        "the encrypted export is cut behind chunk %llu: its end is missing",
                        (unsigned long long)self->number);
}

/* Whether the chunk's bytes, which are read, fit their tag; they become text. */
static bool export_crypt_fits(qp_export_reader *self, size_t n)
{
    uint8_t *text = self->sealed + EXPORT_CRYPT_NONCE;
    int done = 0;

    assert(n <= QP_EXPORT_CRYPT_TEXT);
    return EVP_CipherInit_ex(self->cipher, NULL, NULL, NULL, self->sealed, 0) == 1 &&
           EVP_CipherUpdate(self->cipher, self->text, &done, text, (int)n) == 1 &&
           EVP_CIPHER_CTX_ctrl(self->cipher, QP_GCM_SET_TAG, EXPORT_CRYPT_TAG, text + n) == 1 &&
           EVP_CipherFinal_ex(self->cipher, self->text + done, &done) == 1;
}

/* The next chunk. Its number and length are checked before the tag to say what is wrong; the tag
 * proves them, too. */
static quipu_status export_crypt_chunk(qp_export_reader *self, quipu_error *reterr)
{
    const uint64_t expected = self->number + 1;
    size_t got = 0;
    size_t n;
    quipu_status status = export_crypt_take(self, self->sealed, EXPORT_CRYPT_NONCE, &got, reterr);

    assert(!self->last);
    if (status != QUIPU_OK || got < EXPORT_CRYPT_NONCE) {
        return status == QUIPU_OK ? export_crypt_is_cut(self, reterr) : status;
    }
    if (qp_be64(self->sealed) != expected) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "the encrypted export has another chunk where chunk %llu belongs: "
                            "chunks are missing, repeated or in another order",
                            (unsigned long long)expected);
    }
    n = qp_be32(self->sealed + 8) & ~EXPORT_CRYPT_LAST;
    self->last = (qp_be32(self->sealed + 8) & EXPORT_CRYPT_LAST) != 0;
    if (n <= QP_EXPORT_CRYPT_TEXT) {
        status = export_crypt_take(self, self->sealed + EXPORT_CRYPT_NONCE, n + EXPORT_CRYPT_TAG,
                                   &got, reterr);
        if (status != QUIPU_OK || got < n + EXPORT_CRYPT_TAG) {
            return status == QUIPU_OK ? export_crypt_is_cut(self, reterr) : status;
        }
    }
    if (n > QP_EXPORT_CRYPT_TEXT || !export_crypt_fits(self, n)) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "chunk %llu of the encrypted export does not fit its tag: it is "
                            "damaged, or was changed",
                            (unsigned long long)expected);
    }
    self->number = expected;
    self->at = 0;
    self->n = n;
    return QUIPU_OK;
}

/* Everything, to the spool, which is then read from its begin. */
static quipu_status export_crypt_verify(qp_export_reader *self, quipu_error *reterr)
{
    uint8_t more;
    size_t n = 0;
    quipu_status status = QUIPU_OK;

    assert(!self->verified && self->number == 0);
    self->spool = qp_temp_file();
    if (self->spool == NULL) {
        return qp_error_set(reterr, QUIPU_IO, "no temporary file for an encrypted export");
    }
    while (status == QUIPU_OK && !self->last) {
        status = qp_call_check(self->within, reterr);
        status = status == QUIPU_OK ? export_crypt_chunk(self, reterr) : status;
    }
    if (status == QUIPU_OK) {
        status = export_crypt_read(self, &more, 1, &n, reterr);
    }
    if (status == QUIPU_OK && n > 0) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "there is something behind the last chunk of the encrypted export");
    }
    if (status == QUIPU_OK && (fflush(self->spool) != 0 || fseek(self->spool, 0, SEEK_SET) != 0)) {
        status = qp_error_set(reterr, QUIPU_IO,
                              "the temporary file of an encrypted export cannot be written");
    }
    self->verified = true;
    self->last = false;
    self->number = 0;
    self->at = self->n = 0;
    return status;
}

/* Checks what can be checked in a header without its key. */
static quipu_status export_crypt_header_check(const qp_export_reader *self, quipu_error *reterr)
{
    const uint8_t *header = self->header;
    const qp_scrypt_cost cost = {qp_be32(header + EXPORT_CRYPT_LOG_N_AT),
                                 qp_be32(header + EXPORT_CRYPT_R_AT),
                                 qp_be32(header + EXPORT_CRYPT_P_AT)};
    const uint32_t form = qp_be32(header + EXPORT_CRYPT_FORM_AT);
    uint8_t sum[QP_SHA256_SIZE];

    assert(memcmp(header, export_crypt_magic, EXPORT_CRYPT_MAGIC) == 0);
    qp_sha256_of(header, EXPORT_CRYPT_SUM_AT, sum);
    if (self->head_n < EXPORT_CRYPT_HEADER ||
        memcmp(sum, header + EXPORT_CRYPT_SUM_AT, sizeof(sum)) != 0) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "the header of the encrypted export is damaged or truncated");
    }
    if (qp_be32(header + EXPORT_CRYPT_VERSION_AT) != EXPORT_CRYPT_VERSION) {
        return qp_error_set(reterr, QUIPU_NEWER,
                            "the export is encrypted in a later version's layout");
    }
    if (form != EXPORT_CRYPT_RAW && (form != EXPORT_CRYPT_SCRYPT || !qp_scrypt_in_range(cost))) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "the header of the encrypted export has a number out of range");
    }
    return QUIPU_OK;
}

/* Asks for the key, and whether it fits. */
static quipu_status export_crypt_unlock(qp_export_reader *self, quipu_key_fn key, void *key_ctx,
                                        quipu_error *reterr)
{
    export_crypt_secret secret = {.size = 0};
    uint8_t keys[2 * QP_KDF_KEY] = {0};
    uint8_t mac[QP_KDF_KEY];
    quipu_status status = export_crypt_ask(
        key, key_ctx, qp_be32(self->header + EXPORT_CRYPT_FORM_AT), &secret, reterr);

    assert(self->cipher == NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    if (!export_crypt_derive(&secret, self->header, keys) ||
        !qp_hmac(keys + QP_KDF_KEY, self->header, EXPORT_CRYPT_MAC_AT, mac)) {
        status = export_crypt_no_cipher(reterr);
    }
    if (status == QUIPU_OK && memcmp(mac, self->header + EXPORT_CRYPT_MAC_AT, sizeof(mac)) != 0) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the key does not fit this export");
    }
    if (status == QUIPU_OK) {
        self->cipher = export_crypt_cipher(keys, false);
        status = self->cipher != NULL ? QUIPU_OK : export_crypt_no_cipher(reterr);
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    OPENSSL_cleanse(keys, sizeof(keys));
    return status;
}

/* A key for an export that is not encrypted is refused: somebody may have put it in the place of
 * the one that was expected. */
static quipu_status export_crypt_look(qp_export_reader *self, quipu_key_fn key, void *key_ctx,
                                      quipu_error *reterr)
{
    size_t more = 0;
    quipu_status status =
        export_crypt_read(self, self->header, EXPORT_CRYPT_MAGIC, &self->head_n, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (self->head_n < EXPORT_CRYPT_MAGIC ||
        memcmp(self->header, export_crypt_magic, EXPORT_CRYPT_MAGIC) != 0) {
        return key == NULL ? QUIPU_OK
                           : qp_error_set(reterr, QUIPU_MISUSE,
                                          "the export is not encrypted, and a key was given");
    }
    if (key == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the export is encrypted, and no key was given");
    }
    status = export_crypt_read(self, self->header + EXPORT_CRYPT_MAGIC,
                               EXPORT_CRYPT_HEADER - EXPORT_CRYPT_MAGIC, &more, reterr);
    self->head_n += more;
    if (status == QUIPU_OK) {
        status = export_crypt_header_check(self, reterr);
    }
    if (status == QUIPU_OK) {
        status = export_crypt_unlock(self, key, key_ctx, reterr);
    }
    return status == QUIPU_OK ? export_crypt_verify(self, reterr) : status;
}

quipu_status qp_export_reader_new(quipu_read_fn read, void *ctx, quipu_key_fn key, void *key_ctx,
                                  const qp_call *within, qp_export_reader **ret,
                                  quipu_error *reterr)
{
    qp_export_reader *self = qp_calloc(1, sizeof(*self));
    quipu_status status;

    assert(read != NULL && ret != NULL);
    if (self == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for an import");
    }
    self->read = read;
    self->ctx = ctx;
    self->within = within;
    status = export_crypt_look(self, key, key_ctx, reterr);
    if (status != QUIPU_OK) {
        qp_export_reader_free(self);
        return status;
    }
    *ret = self;
    return QUIPU_OK;
}

/* An export that is not encrypted: what was looked at first, then the caller's bytes as they come.
 */
static quipu_status export_crypt_read_open(qp_export_reader *self, void *ret_bytes, size_t size,
                                           size_t *ret_n)
{
    const size_t left = self->head_n - self->head_at;

    if (left == 0) {
        return self->read(self->ctx, ret_bytes, size, ret_n);
    }
    *ret_n = left < size ? left : size;
    memcpy(ret_bytes, self->header + self->head_at, *ret_n);
    self->head_at += *ret_n;
    return QUIPU_OK;
}

quipu_status qp_export_reader_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    qp_export_reader *self = ctx;
    quipu_status status = QUIPU_OK;
    size_t left;

    assert(size > 0);
    if (self->cipher == NULL) {
        return export_crypt_read_open(self, ret_bytes, size, ret_n);
    }
    assert(self->verified);
    while (status == QUIPU_OK && self->at == self->n && !self->last) {
        status = export_crypt_chunk(self, NULL);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    left = self->n - self->at;
    *ret_n = left < size ? left : size;
    memcpy(ret_bytes, self->text + self->at, *ret_n);
    self->at += *ret_n;
    return QUIPU_OK;
}

/* Text in clear was there only when libcrypto is. */
void qp_export_reader_free(qp_export_reader *self)
{
    if (self == NULL) {
        return;
    }
    if (self->spool != NULL) {
        (void)fclose(self->spool);
    }
    if (self->cipher != NULL) {
        EVP_CIPHER_CTX_free(self->cipher);
        OPENSSL_cleanse(self, sizeof(*self));
    }
    qp_free(self);
}
