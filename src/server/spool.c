/* Temporary files of answers (spool.h): an export must hold neither the store nor memory for as
 * long as a slow client reads it.
 *
 *   plain       | what was written |
 *   encrypted   | chunk 1 | tag 16 | chunk 2 | tag 16 | ...      all but the last one are full
 *
 * A chunk is AES-256-GCM under a random key that this file alone has and nobody keeps; its nonce
 * is its number, from 1. So a chunk fits no other place, and the size that is kept in memory says
 * where the last one ends.
 *
 * Owns: the file, the key (in libcrypto's contexts alone) and one chunk.
 * Called by: a worker until qp_spool_end(), then the loop. Locks: none.
 *
 *   worker   qp_spool_new() ─▶ qp_spool_write(), again and again ─▶ qp_spool_end()
 *   loop     qp_spool_send(), when there is room ─▶ qp_spool_is_sent() ─▶ qp_spool_free() */
#include "server/spool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/alloc.h"
#include "base/be.h"
#include "base/error.h"
#include "base/temp_file.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

#define SPOOL_KEY 32
#define SPOOL_NONCE 12
#define SPOOL_TAG 16

/* The state of an encrypted file beside its stream. */
typedef struct spool_crypt {
    EVP_CIPHER_CTX *seal; /* its key is set */
    EVP_CIPHER_CTX *open;
    uint64_t number; /* of the last chunk that was sealed, then opened */
    size_t n;        /* of the chunk under way */
    uint8_t bytes[QP_SPOOL_TEXT + SPOOL_TAG];
} spool_crypt;

struct qp_spool {
    FILE *file;   /* NULL: the output has a plain file */
    int64_t size; /* of what was written, without tags */
    int64_t sent;
    bool ended;
    spool_crypt *crypt; /* NULL: the file is plain */
};

/* ---- making ---------------------------------------------------------------------------------- */

/* The key is only in the contexts, which overwrite it when they are freed. It is not stored: bytes
 * that a crash leaves on the disk cannot be read. */
static bool spool_crypt_init(spool_crypt *crypt)
{
    uint8_t key[SPOOL_KEY];
    bool ok;

    crypt->seal = EVP_CIPHER_CTX_new();
    crypt->open = EVP_CIPHER_CTX_new();
    ok = crypt->seal != NULL && crypt->open != NULL && RAND_bytes(key, sizeof(key)) == 1 &&
         EVP_CipherInit_ex(crypt->seal, EVP_aes_256_gcm(), NULL, key, NULL, 1) == 1 &&
         EVP_CipherInit_ex(crypt->open, EVP_aes_256_gcm(), NULL, key, NULL, 0) == 1;
    OPENSSL_cleanse(key, sizeof(key));
    return ok;
}

/* On failure *ret may hold a struct that is half set up: qp_spool_free() frees it. */
static quipu_status spool_crypt_new(spool_crypt **ret, quipu_error *reterr)
{
    quipu_status status = qp_libcrypto_load(reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    *ret = qp_calloc(1, sizeof(**ret));
    return *ret != NULL && spool_crypt_init(*ret)
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the encryption of an export");
}

/* Encrypted where the store is: what it keeps secret on its disk must not lie plain on another. The
 * file has no name (base/temp_file.h), so that nothing is left of it after a crash. */
quipu_status qp_spool_new(bool encrypted, qp_spool **ret, quipu_error *reterr)
{
    qp_spool *self = qp_calloc(1, sizeof(*self));
    quipu_status status = QUIPU_OK;

    assert(ret != NULL);
    if (self == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for an export");
    }
    if (encrypted) {
        status = spool_crypt_new(&self->crypt, reterr);
    }
    if (status == QUIPU_OK) {
        self->file = qp_temp_file();
        if (self->file == NULL) {
            status = qp_error_set(reterr, QUIPU_IO, "no temporary file for the export");
        }
    }
    if (status != QUIPU_OK) {
        qp_spool_free(self);
        return status;
    }
    *ret = self;
    return QUIPU_OK;
}

/* NULL is fine, and so is one that qp_spool_new() could not complete. */
void qp_spool_free(qp_spool *self)
{
    if (self == NULL) {
        return;
    }
    if (self->file != NULL) {
        (void)fclose(self->file);
    }
    if (self->crypt != NULL) { /* then libcrypto is loaded */
        EVP_CIPHER_CTX_free(self->crypt->seal);
        EVP_CIPHER_CTX_free(self->crypt->open);
        OPENSSL_cleanse(self->crypt, sizeof(*self->crypt));
        qp_free(self->crypt);
    }
    qp_free(self);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The number of the next chunk as a nonce: no key has two chunks of one number. */
static void spool_nonce(spool_crypt *crypt, uint8_t ret_nonce[SPOOL_NONCE])
{
    crypt->number++;
    memset(ret_nonce, 0, SPOOL_NONCE);
    qp_put_be64(ret_nonce + SPOOL_NONCE - 8, crypt->number);
}

/* Seals the chunk under way, in its place, and writes it. */
static quipu_status spool_put(qp_spool *self)
{
    spool_crypt *crypt = self->crypt;
    const size_t size = crypt->n + SPOOL_TAG;
    uint8_t nonce[SPOOL_NONCE];
    int n = 0;

    assert(crypt->n > 0 && crypt->n <= QP_SPOOL_TEXT);
    spool_nonce(crypt, nonce);
    if (EVP_CipherInit_ex(crypt->seal, NULL, NULL, NULL, nonce, 1) != 1 ||
        EVP_CipherUpdate(crypt->seal, crypt->bytes, &n, crypt->bytes, (int)crypt->n) != 1 ||
        EVP_CipherFinal_ex(crypt->seal, crypt->bytes + n, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(crypt->seal, QP_GCM_GET_TAG, SPOOL_TAG, crypt->bytes + crypt->n) != 1) {
        return QUIPU_NOMEM;
    }
    crypt->n = 0;
    return fwrite(crypt->bytes, 1, size, self->file) == size ? QUIPU_OK : QUIPU_IO;
}

/* A quipu_write_fn: the library calls it with pieces of any size. Whole chunks go to the file, the
 * rest waits for more. stdio buffers the writes of a plain file. */
quipu_status qp_spool_write(void *ctx, const void *bytes, size_t n)
{
    qp_spool *self = ctx;
    spool_crypt *crypt = self->crypt;
    const uint8_t *p = bytes;
    quipu_status status = QUIPU_OK;

    assert(!self->ended);
    self->size += (int64_t)n;
    if (crypt == NULL) {
        return fwrite(bytes, 1, n, self->file) == n ? QUIPU_OK : QUIPU_IO;
    }
    while (n > 0 && status == QUIPU_OK) {
        const size_t room = QP_SPOOL_TEXT - crypt->n;
        const size_t part = n < room ? n : room;

        memcpy(crypt->bytes + crypt->n, p, part);
        crypt->n += part;
        p += part;
        n -= part;
        status = crypt->n == QP_SPOOL_TEXT ? spool_put(self) : QUIPU_OK;
    }
    return status;
}

/* Before the first byte is sent, so that an export that fails in the middle is an error with a
 * status and not half of an answer. */
quipu_status qp_spool_end(qp_spool *self, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(!self->ended);
    if (self->crypt != NULL) {
        status = self->crypt->n > 0 ? spool_put(self) : QUIPU_OK;
        self->crypt->number = 0; /* they are counted again as they are opened */
    }
    if (status == QUIPU_OK && (fflush(self->file) != 0 || fseek(self->file, 0, SEEK_SET) != 0)) {
        status = QUIPU_IO;
    }
    self->ended = true;
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "the export cannot be written");
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Without tags: the length that the head of the answer states. */
int64_t qp_spool_size(const qp_spool *self)
{
    return self->size;
}

/* A plain file is released as soon as the output has it: libevent sends the rest by itself. */
bool qp_spool_is_sent(const qp_spool *self)
{
    assert(self->sent <= self->size);
    return self->sent == self->size;
}

/* The output gets a descriptor of its own, which it closes: the stream's is closed with it, here,
 * because descriptors are counted. */
static quipu_status spool_send_file(qp_spool *self, struct evbuffer *output)
{
    const int fd = dup(fileno(self->file));

    if (fd < 0) {
        return QUIPU_IO;
    }
    if (evbuffer_add_file(output, fd, 0, (ev_off_t)self->size) != 0) {
        (void)close(fd);
        return QUIPU_NOMEM;
    }
    (void)fclose(self->file);
    self->file = NULL;
    self->sent = self->size;
    return QUIPU_OK;
}

/* Reads the next chunk and opens it, in its place. */
static quipu_status spool_open_chunk(qp_spool *self, size_t size)
{
    spool_crypt *crypt = self->crypt;
    uint8_t nonce[SPOOL_NONCE];
    int n = 0;

    assert(size > 0 && size <= QP_SPOOL_TEXT);
    if (fread(crypt->bytes, 1, size + SPOOL_TAG, self->file) != size + SPOOL_TAG) {
        return QUIPU_IO;
    }
    spool_nonce(crypt, nonce);
    if (EVP_CipherInit_ex(crypt->open, NULL, NULL, NULL, nonce, 0) != 1 ||
        EVP_CipherUpdate(crypt->open, crypt->bytes, &n, crypt->bytes, (int)size) != 1 ||
        EVP_CIPHER_CTX_ctrl(crypt->open, QP_GCM_SET_TAG, SPOOL_TAG, crypt->bytes + size) != 1 ||
        EVP_CipherFinal_ex(crypt->open, crypt->bytes + n, &n) != 1) {
        return QUIPU_CORRUPT;
    }
    return QUIPU_OK;
}

/* One chunk a call: the loop comes back when the client has taken it, so that a slow client costs
 * one chunk of memory. */
quipu_status qp_spool_send(qp_spool *self, struct evbuffer *output)
{
    const int64_t left = self->size - self->sent;
    const size_t size = left < (int64_t)QP_SPOOL_TEXT ? (size_t)left : QP_SPOOL_TEXT;
    quipu_status status;

    assert(self->ended && left > 0);
    if (self->crypt == NULL) {
        return spool_send_file(self, output);
    }
    status = spool_open_chunk(self, size);
    if (status == QUIPU_OK && evbuffer_add(output, self->crypt->bytes, size) != 0) {
        status = QUIPU_NOMEM;
    }
    self->sent += status == QUIPU_OK ? (int64_t)size : 0;
    return status;
}
