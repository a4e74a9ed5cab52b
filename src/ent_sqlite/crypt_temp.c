/* Temporary files of connections with a key: spilled sorts, statement journals, the copy that
 * VACUUM makes. A VFS does not know which store they belong to; each has a random key of its own,
 * which is gone with it.
 *
 * Owns: the key, and one block of open bytes.
 * Called by: SQLite, on the connection's thread; page_vfs.c opens them.
 * Locks: none; no other process opens such a file.
 *
 *   in the file   | nonce 12, block of 4096, tag 16 | nonce 12, block of 4096, tag 16 | ...
 *
 * SQLite reads and writes any bytes at any offset. One block is held open; it goes to the file when
 * another one is needed, with a new nonce. A block that was never written is zeros. */
#include "ent_sqlite/page_file.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

#define TEMP_BLOCK 4096
/* Random, of GCM's own size. NIST allows 2^32 seals with one key and such nonces: 16 TiB written to
 * one temporary file, whose key no other file has. */
#define TEMP_NONCE 12
#define TEMP_TAG 16
#define TEMP_SEALED (TEMP_NONCE + TEMP_BLOCK + TEMP_TAG)
#define TEMP_KEY 32

/* SQLite's handle, and behind it, at TEMP_BELOW_AT, that of the VFS below: SQLite allocates both in
 * one piece, of the size that the layer's VFS states. */
typedef struct temp_file {
    sqlite3_file base;
    EVP_CIPHER_CTX *seal; /* its key is set; a nonce for each block */
    EVP_CIPHER_CTX *open;
    sqlite3_int64 size;  /* as SQLite knows it */
    sqlite3_int64 block; /* the one that is held open, or -1 */
    bool dirty;          /* ...and differs from the file */
    uint8_t bytes[TEMP_BLOCK];
    uint8_t sealed[TEMP_SEALED];
} temp_file;

/* Where the file of the VFS below begins; a multiple of any alignment it may need. */
#define TEMP_BELOW_AT ((sizeof(temp_file) + 15) / 16 * 16)

static sqlite3_file *temp_below(sqlite3_file *file)
{
    assert(file != NULL);
    return (sqlite3_file *)((char *)file + TEMP_BELOW_AT);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The block's number, as authenticated data. A block that was moved to another place of the file
 * does not open there. */
static bool temp_place(EVP_CIPHER_CTX *ctx, sqlite3_int64 block)
{
    uint8_t aad[8];
    int n = 0;

    assert(block >= 0);
    for (int i = 0; i < 8; i++) {
        aad[i] = (uint8_t)(block >> (56 - 8 * i));
    }
    return EVP_CipherUpdate(ctx, NULL, &n, aad, sizeof(aad)) == 1;
}

/* Writes the open block, if it has changed. A failed write leaves it dirty: the next seek tries
 * again, with another nonce. */
static int temp_flush(temp_file *self)
{
    sqlite3_file *below = temp_below(&self->base);
    uint8_t *text = self->sealed + TEMP_NONCE;
    int n = 0;
    int rc;

    if (!self->dirty) {
        return SQLITE_OK;
    }
    assert(self->block >= 0);
    if (RAND_bytes(self->sealed, TEMP_NONCE) != 1 ||
        EVP_CipherInit_ex(self->seal, NULL, NULL, NULL, self->sealed, 1) != 1 ||
        !temp_place(self->seal, self->block) ||
        EVP_CipherUpdate(self->seal, text, &n, self->bytes, TEMP_BLOCK) != 1 ||
        EVP_CipherFinal_ex(self->seal, text + n, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(self->seal, QP_GCM_GET_TAG, TEMP_TAG, text + TEMP_BLOCK) != 1) {
        return SQLITE_IOERR_WRITE;
    }
    rc = below->pMethods->xWrite(below, self->sealed, TEMP_SEALED, self->block * TEMP_SEALED);
    self->dirty = rc != SQLITE_OK;
    return rc;
}

/* Whether a block was never written: a hole, or behind the end. No nonce is all zeros by chance. */
static bool temp_is_hole(const temp_file *self)
{
    return self->sealed[0] == 0 && memcmp(self->sealed, self->sealed + 1, TEMP_SEALED - 1) == 0;
}

/* Opens the block that was read. The tag is checked by the last call; `bytes` hold nothing that
 * counts before it succeeds, and temp_seek() has marked them as no block. */
static bool temp_decrypt(temp_file *self, sqlite3_int64 block)
{
    uint8_t *text = self->sealed + TEMP_NONCE;
    int n = 0;

    assert(block >= 0);
    return EVP_CipherInit_ex(self->open, NULL, NULL, NULL, self->sealed, 0) == 1 &&
           temp_place(self->open, block) &&
           EVP_CipherUpdate(self->open, self->bytes, &n, text, TEMP_BLOCK) == 1 &&
           EVP_CIPHER_CTX_ctrl(self->open, QP_GCM_SET_TAG, TEMP_TAG, text + TEMP_BLOCK) == 1 &&
           EVP_CipherFinal_ex(self->open, self->bytes + n, &n) == 1;
}

/* Holds this block open. The VFS below fills what a short read lacks with zeros, so that a block
 * behind the end looks like a hole; one that is there in part is damage. `block` is -1 from the
 * read on: after a failure `bytes` belong to none. */
static int temp_seek(temp_file *self, sqlite3_int64 block)
{
    sqlite3_file *below = temp_below(&self->base);
    int rc;

    assert(block >= 0);
    if (self->block == block) {
        return SQLITE_OK;
    }
    rc = temp_flush(self);
    if (rc != SQLITE_OK) {
        return rc;
    }
    self->block = -1;
    rc = below->pMethods->xRead(below, self->sealed, TEMP_SEALED, block * TEMP_SEALED);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) {
        return rc;
    }
    if (temp_is_hole(self)) {
        memset(self->bytes, 0, TEMP_BLOCK);
    } else if (rc != SQLITE_OK || !temp_decrypt(self, block)) {
        return SQLITE_IOERR_READ;
    }
    self->block = block;
    return SQLITE_OK;
}

/* ---- SQLite's methods ------------------------------------------------------------------------ */

/* Bytes behind the end read as zeros, with a code of their own. */
static int temp_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    temp_file *self = (temp_file *)file;
    uint8_t *p = to;
    const sqlite3_int64 left = self->size > at ? self->size - at : 0;
    int n = left < size ? (int)left : size;
    int rc = n == size ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;

    assert(size >= 0 && at >= 0);
    memset(p + n, 0, (size_t)(size - n));
    while (n > 0) {
        const int offset = (int)(at % TEMP_BLOCK);
        const int part = n < TEMP_BLOCK - offset ? n : TEMP_BLOCK - offset;
        const int found = temp_seek(self, at / TEMP_BLOCK);
        if (found != SQLITE_OK) {
            return found;
        }
        memcpy(p, self->bytes + offset, (size_t)part);
        p += part;
        at += part;
        n -= part;
    }
    return rc;
}

/* A part of a block is put into the block that is held open; the rest of it was read, or is zeros.
 * SQLite writes such files mostly in order, so that a block is sealed once. */
static int temp_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    temp_file *self = (temp_file *)file;
    const uint8_t *p = from;

    assert(size >= 0 && at >= 0);
    while (size > 0) {
        const int offset = (int)(at % TEMP_BLOCK);
        const int part = size < TEMP_BLOCK - offset ? size : TEMP_BLOCK - offset;
        const int rc = temp_seek(self, at / TEMP_BLOCK);
        if (rc != SQLITE_OK) {
            return rc;
        }
        memcpy(self->bytes + offset, p, (size_t)part);
        self->dirty = true;
        p += part;
        at += part;
        size -= part;
        self->size = at > self->size ? at : self->size;
    }
    return SQLITE_OK;
}

/* The rest of the last block becomes zeros: a file that grows again reads zeros there. A block that
 * is held open behind a new end without a rest is dropped; with one it was written when the last
 * block was sought, and is cut off below. */
static int temp_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    temp_file *self = (temp_file *)file;
    sqlite3_file *below = temp_below(file);
    const sqlite3_int64 blocks = (size + TEMP_BLOCK - 1) / TEMP_BLOCK;
    const int rest = (int)(size % TEMP_BLOCK);
    int rc = SQLITE_OK;

    assert(size >= 0);
    if (size >= self->size) {
        return SQLITE_OK;
    }
    if (rest > 0) {
        rc = temp_seek(self, size / TEMP_BLOCK);
        if (rc != SQLITE_OK) {
            return rc;
        }
        memset(self->bytes + rest, 0, (size_t)(TEMP_BLOCK - rest));
        self->dirty = true;
        rc = temp_flush(self);
    } else if (self->block >= blocks) {
        self->dirty = false;
        self->block = -1;
    }
    self->size = size;
    return rc == SQLITE_OK ? below->pMethods->xTruncate(below, blocks * TEMP_SEALED) : rc;
}

/* The file does not outlive the process, so that a sync does nothing. */
static int temp_sync(sqlite3_file *file, int flags)
{
    assert(file != NULL);
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

/* As SQLite knows it: the file below is longer, by the nonces, the tags and the rest of a block. */
static int temp_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    assert(ret != NULL);
    *ret = ((const temp_file *)file)->size;
    return SQLITE_OK;
}

/* No other process has the file, so that locks do nothing. */
static int temp_lock(sqlite3_file *file, int level)
{
    assert(file != NULL);
    (void)file;
    (void)level;
    return SQLITE_OK;
}

static int temp_check_reserved(sqlite3_file *file, int *ret)
{
    assert(file != NULL && ret != NULL);
    (void)file;
    *ret = 0;
    return SQLITE_OK;
}

/* Hints about sizes are not those of the file below. */
static int temp_control(sqlite3_file *file, int code, void *arg)
{
    assert(file != NULL);
    (void)file;
    (void)code;
    (void)arg;
    return SQLITE_NOTFOUND;
}

/* A write of one byte writes its whole block anew. */
static int temp_sector_size(sqlite3_file *file)
{
    assert(file != NULL);
    (void)file;
    return TEMP_BLOCK;
}

/* Returns no capabilities: the device's promises about sectors do not hold for sealed blocks. */
static int temp_capabilities(sqlite3_file *file)
{
    assert(file != NULL);
    (void)file;
    return 0;
}

/* libcrypto overwrites the key with its contexts. An open block is not written: without the key it
 * could not be read again. */
static int temp_close(sqlite3_file *file)
{
    temp_file *self = (temp_file *)file;
    sqlite3_file *below = temp_below(file);

    assert(below->pMethods != NULL);
    EVP_CIPHER_CTX_free(self->seal);
    EVP_CIPHER_CTX_free(self->open);
    OPENSSL_cleanse(self->bytes, sizeof(self->bytes));
    return below->pMethods->xClose(below);
}

/* Version 1: no shared memory, and no memory map, which would show the encrypted bytes. */
static const sqlite3_io_methods temp_methods = {.iVersion = 1,
                                                .xClose = temp_close,
                                                .xRead = temp_read,
                                                .xWrite = temp_write,
                                                .xTruncate = temp_truncate,
                                                .xSync = temp_sync,
                                                .xFileSize = temp_size,
                                                .xLock = temp_lock,
                                                .xUnlock = temp_lock,
                                                .xCheckReservedLock = temp_check_reserved,
                                                .xFileControl = temp_control,
                                                .xSectorSize = temp_sector_size,
                                                .xDeviceCharacteristics = temp_capabilities};

/* ---- opening --------------------------------------------------------------------------------- */

int qp_crypt_temp_size(int below)
{
    assert(below > 0);
    return (int)TEMP_BELOW_AT + below;
}

/* The key is only in the contexts. Two contexts, because GCM is set up for one direction; a new
 * nonce keeps the key schedule. */
static bool temp_setup(temp_file *self)
{
    uint8_t key[TEMP_KEY];
    bool ok = false;

    self->block = -1;
    self->seal = EVP_CIPHER_CTX_new();
    self->open = EVP_CIPHER_CTX_new();
    assert(self->size == 0);
    if (self->seal != NULL && self->open != NULL && RAND_bytes(key, sizeof(key)) == 1) {
        ok = EVP_CipherInit_ex(self->seal, EVP_aes_256_gcm(), NULL, key, NULL, 1) == 1 &&
             EVP_CipherInit_ex(self->open, EVP_aes_256_gcm(), NULL, key, NULL, 0) == 1;
    }
    OPENSSL_cleanse(key, sizeof(key));
    return ok;
}

/* libcrypto is loaded: the connection that needs the file has a key. */
int qp_crypt_temp_open(sqlite3_vfs *under, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags)
{
    temp_file *self = (temp_file *)file;
    sqlite3_file *below = temp_below(file);
    int rc;

    assert(under != NULL);
    memset(self, 0, TEMP_BELOW_AT);
    below->pMethods = NULL;
    rc = under->xOpen(under, name, below, flags, ret_flags);
    if (below->pMethods == NULL) {
        return rc; /* SQLite closes only a file that has methods */
    }
    self->base.pMethods = &temp_methods;
    if (rc == SQLITE_OK && !temp_setup(self)) {
        rc = SQLITE_IOERR_NOMEM;
    }
    return rc;
}
