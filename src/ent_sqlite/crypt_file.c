/* Encrypted files: the main file with its header block, the write-ahead log, the rollback journal.
 *
 * Owns: qp_crypt_file, the keys of one main file and the scratch pages of its connection.
 * Called by: page_vfs.c, for files of the layer's encrypted form, under the locks that SQLite
 * holds for the read or write.
 * Fails closed: a read or write that has none of the forms below is refused, so that nothing
 * reaches a file open because a later SQLite writes it in another way.
 *
 *   main file   | header block 4096 | page 1 | page 2 | ...        SQLite's offsets begin at page 1
 *   log         | 32 | frame: 8 open, 16 hidden | page | ...       SQLite's own layout
 *   journal     | header | number 4 | page | checksum 4, hidden | ...
 *
 * The header block is written with the first page, under the lock of that write. The journal is on
 * the disk by then, so that a crash in between leaves a journal that empties the file. Emptying it
 * removes the header block, too: a header without pages and without a journal is a file that was
 * cut off. Later only another key changes the block, one of its copies after the other:
 *
 *   | copy | copy |      | copy | new |      | new | new |
 *     the old key   ──▶    the new key  ──▶    the new key     while either is written, the other
 *                                                              copy is whole
 */
#include "ent_sqlite/crypt_file.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "ent_sqlite/page_seal.h"

#define CRYPT_FILE_LOG_HEADER 32 /* of SQLite's log, before the first frame */
#define CRYPT_FILE_LOG_SALTS_AT 16
#define CRYPT_FILE_WORD 4     /* numbers in a journal */
#define CRYPT_FILE_NUMBERS 28 /* bytes that begin the header of a journal; the rest is zeros */

struct qp_crypt_file {
    qp_keys *keys;          /* borrowed; NULL: not given yet */
    qp_crypt *crypt;        /* NULL: the file is empty, or its header was not read yet */
    qp_crypt_params params; /* of `crypt`, or of a header that waits for its key */
    bool is_created;        /* a damaged header without pages counts as none */
    uint64_t salts;         /* of the log, as far as this connection knows; 0: not yet */
    uint8_t *scratch;       /* a page, and the header of its frame; or NULL */
    uint8_t *sealed;        /* the same size */
    uint32_t room;          /* of page bytes in both */
    int64_t header_of;      /* the frame whose header was written last, or 0 */
    uint8_t header[QP_CRYPT_FRAME_HEADER]; /* ...open */
    int64_t waits_at;                      /* where it belongs while it waits for its page, or 0 */
    bool rewrites;                         /* a page was overwritten in place since the log began */
};

/* Without keys: SQLite opens the file and reads its header before the caller can give them. */
qp_crypt_file *qp_crypt_file_new(void)
{
    return qp_calloc(1, sizeof(qp_crypt_file));
}

/* Scratch pages hold open text: they are overwritten. */
void qp_crypt_file_free(qp_crypt_file *self)
{
    if (self != NULL) {
        qp_crypt_free(self->crypt);
        if (self->scratch != NULL) {
            memset(self->scratch, 0, self->room + QP_CRYPT_FRAME_HEADER);
        }
        qp_free(self->scratch);
        qp_free(self->sealed);
        qp_free(self);
    }
}

/* 0 until a header was read or the first page was written. */
uint32_t qp_crypt_file_page_size(const qp_crypt_file *self)
{
    assert(self != NULL);
    return self->params.page_size;
}

/* Room for pages of the file's size, each with a frame header before it. */
static bool crypt_file_scratch(qp_crypt_file *self, uint32_t size)
{
    assert(size >= QP_PAGE_SIZE_MIN && size <= QP_PAGE_SIZE_MAX);
    if (self->room < size) {
        qp_free(self->scratch);
        qp_free(self->sealed);
        self->scratch = qp_calloc(1, (size_t)size + QP_CRYPT_FRAME_HEADER);
        self->sealed = qp_calloc(1, (size_t)size + QP_CRYPT_FRAME_HEADER);
        self->room = self->scratch != NULL && self->sealed != NULL ? size : 0;
    }
    return self->room >= size;
}

/* ---- the header block ------------------------------------------------------------------------ */

/* A wrong key and a key of the wrong length stay distinct: the first may be a typing error, the
 * second a passphrase that was given as raw bytes. */
static qp_crypt_state crypt_file_state(qp_keys_result result)
{
    switch (result) {
    case QP_KEYS_OK:
        return QP_CRYPT_READY;
    case QP_KEYS_WRONG:
        return QP_CRYPT_OTHER_KEY;
    case QP_KEYS_LENGTH:
        return QP_CRYPT_NO_RAW_KEY;
    default:
        return QP_CRYPT_NO_MEMORY;
    }
}

/* The keys for the header that was read. */
static qp_crypt_state crypt_file_derive(qp_crypt_file *self)
{
    assert(self->crypt == NULL);
    if (self->keys == NULL) {
        return QP_CRYPT_NEW; /* SQLite reads the header when it opens a file, before the key */
    }
    return crypt_file_scratch(self, self->params.page_size)
               ? crypt_file_state(qp_keys_open(self->keys, &self->params, &self->crypt))
               : QP_CRYPT_NO_MEMORY;
}

/* Reads the header block, unless it is known: another process may have made the file since. The
 * state of the file, as its header states it:
 *
 *   READY    header and keys are known       PLAIN    no header: another kind of file
 *   NEW      empty, or no key was given yet  BROKEN   a header, damaged in both copies
 *   LATER    of a later version's layout     NO_READ, NO_MEMORY, OTHER_KEY, NO_RAW_KEY */
static qp_crypt_state crypt_file_load(qp_crypt_file *self, sqlite3_file *below)
{
    uint8_t block[QP_CRYPT_BLOCK];
    sqlite3_int64 size = 0;
    int rc;

    if (self->crypt != NULL) {
        return QP_CRYPT_READY;
    }
    rc = below->pMethods->xFileSize(below, &size);
    if (rc != SQLITE_OK || size == 0) {
        return rc == SQLITE_OK ? QP_CRYPT_NEW : QP_CRYPT_NO_READ;
    }
    rc = below->pMethods->xRead(below, block, sizeof(block), 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) {
        return QP_CRYPT_NO_READ;
    }
    size = size < QP_CRYPT_BLOCK ? size : QP_CRYPT_BLOCK;
    switch (qp_crypt_block_read(block, (size_t)size, &self->params)) {
    case QP_CRYPT_FITS:
        return crypt_file_derive(self);
    case QP_CRYPT_NEWER:
        return QP_CRYPT_LATER;
    case QP_CRYPT_DAMAGED:
        return self->is_created ? QP_CRYPT_NEW : QP_CRYPT_BROKEN;
    default:
        return self->is_created ? QP_CRYPT_NEW : QP_CRYPT_PLAIN;
    }
}

void qp_crypt_file_look(qp_crypt_file *self, sqlite3_file *below)
{
    assert(below->pMethods != NULL);
    (void)crypt_file_load(self, below); /* without keys the call itself fails */
}

/* A header of a crash only counts where the file has no pages. */
qp_crypt_state qp_crypt_file_unlock(qp_crypt_file *self, sqlite3_file *below, qp_keys *keys,
                                    bool is_created)
{
    sqlite3_int64 size = 0;
    qp_crypt_state state;

    assert(keys != NULL && self->crypt == NULL);
    self->keys = keys;
    if (below->pMethods->xFileSize(below, &size) != SQLITE_OK) {
        return QP_CRYPT_NO_READ;
    }
    self->is_created = is_created && size <= QP_CRYPT_BLOCK;
    state = crypt_file_load(self, below);
    if (state == QP_CRYPT_NEW && !qp_keys_can_make(keys)) {
        return QP_CRYPT_NO_RAW_KEY;
    }
    if (state != QP_CRYPT_READY || is_created || size > QP_CRYPT_BLOCK) {
        return state;
    }
    /* Looked at again: the process that makes the file may have ended meanwhile. */
    if (below->pMethods->xFileSize(below, &size) != SQLITE_OK) {
        return QP_CRYPT_NO_READ;
    }
    return size > QP_CRYPT_BLOCK ? QP_CRYPT_READY : QP_CRYPT_CUT;
}

/* The code that SQLite passes on where a file cannot be read with its key. */
static int crypt_file_code(qp_crypt_state state)
{
    assert(state != QP_CRYPT_READY);
    return state == QP_CRYPT_NO_MEMORY ? SQLITE_IOERR_NOMEM
           : state == QP_CRYPT_NO_READ ? SQLITE_IOERR_READ
                                       : SQLITE_NOTADB;
}

/* A new file, or one that a crash left without pages: the caller holds SQLite's exclusive lock. */
static int crypt_file_create(qp_crypt_file *self, sqlite3_file *below, uint32_t page_size)
{
    uint8_t block[QP_CRYPT_BLOCK];
    sqlite3_int64 size = 0;
    int rc = below->pMethods->xFileSize(below, &size);

    assert(self->crypt == NULL);
    if (rc != SQLITE_OK || size > QP_CRYPT_BLOCK || self->keys == NULL) {
        return rc != SQLITE_OK ? rc : SQLITE_IOERR_WRITE;
    }
    if (!crypt_file_scratch(self, page_size) ||
        qp_keys_make(self->keys, page_size, &self->params, &self->crypt) != QP_KEYS_OK) {
        return SQLITE_IOERR_NOMEM;
    }
    qp_crypt_copy_write(&self->params, block);
    memcpy(block + QP_CRYPT_COPY, block, QP_CRYPT_COPY);
    return below->pMethods->xWrite(below, block, sizeof(block), 0);
}

/* Writes one copy of the header and brings it to the disk. */
static int crypt_file_put_copy(sqlite3_file *below, const uint8_t copy[QP_CRYPT_COPY],
                               sqlite3_int64 at)
{
    int rc = below->pMethods->xWrite(below, copy, QP_CRYPT_COPY, at);

    assert(at == 0 || at == QP_CRYPT_COPY);
    return rc == SQLITE_OK ? below->pMethods->xSync(below, SQLITE_SYNC_FULL) : rc;
}

/* Reads the header anew: another process may have changed the key. */
static qp_crypt_state crypt_file_again(sqlite3_file *below, qp_crypt_params *ret)
{
    uint8_t block[QP_CRYPT_BLOCK];

    assert(ret != NULL);
    if (below->pMethods->xRead(below, block, sizeof(block), 0) != SQLITE_OK) {
        return QP_CRYPT_NO_READ;
    }
    return qp_crypt_block_read(block, sizeof(block), ret) == QP_CRYPT_FITS ? QP_CRYPT_READY
                                                                           : QP_CRYPT_BROKEN;
}

/* The copy that says which key is valid is written last: the other one may be what a crash left. */
qp_crypt_state qp_crypt_file_rekey(qp_crypt_file *self, sqlite3_file *below, qp_keys *fresh)
{
    uint8_t copy[QP_CRYPT_COPY];
    qp_crypt_params params;
    qp_crypt_params found;
    qp_crypt_state state = crypt_file_again(below, &params);
    int rc;

    assert(self->crypt != NULL && fresh != NULL);
    if (state == QP_CRYPT_READY) {
        state = crypt_file_state(qp_keys_rewrap(self->keys, fresh, &params, &params));
    }
    if (state != QP_CRYPT_READY) {
        return state;
    }
    qp_crypt_copy_write(&params, copy);
    rc = crypt_file_put_copy(below, copy, QP_CRYPT_COPY - params.at);
    if (rc == SQLITE_OK) {
        rc = crypt_file_put_copy(below, copy, params.at);
    }
    if (rc != SQLITE_OK && (crypt_file_again(below, &found) != QP_CRYPT_READY ||
                            found.generation != params.generation)) {
        return QP_CRYPT_NO_READ;
    }
    self->params = params;
    return rc == SQLITE_OK ? QP_CRYPT_READY : QP_CRYPT_NO_WRITE;
}

/* ---- the main file --------------------------------------------------------------------------- */

/* The bytes that SQLite needs of a header that cannot be read: before the key is there, and where a
 * crash left page 1 torn, which the log then has whole. Anything else is decided by the whole
 * page. */
static void crypt_file_header(const qp_crypt_file *self, uint8_t ret[QP_PAGE_HEADER])
{
    const uint32_t size = self->params.page_size;

    assert(size >= QP_PAGE_SIZE_MIN);
    memset(ret, 0, QP_PAGE_HEADER);
    memcpy(ret, "SQLite format 3", 16);
    ret[16] = (uint8_t)(size == QP_PAGE_SIZE_MAX ? 0 : size >> 8);
    ret[17] = (uint8_t)(size == QP_PAGE_SIZE_MAX ? 1 : size);
    ret[18] = 2; /* the version of write-ahead logging, for writers and for readers */
    ret[19] = 2;
    ret[20] = QP_PAGE_RESERVE;
    ret[21] = 64; /* payload fractions: SQLite knows no others */
    ret[22] = 32;
    ret[23] = 32;
}

/* One page of the main file, from the disk. */
static int crypt_file_page(qp_crypt_file *self, sqlite3_file *below, uint32_t number, uint8_t *ret)
{
    const uint32_t size = self->params.page_size;
    const qp_crypt_place place = {.kind = QP_CRYPT_MAIN, .number = number};
    int rc = below->pMethods->xRead(below, ret, (int)size,
                                    QP_CRYPT_BLOCK + (sqlite3_int64)(number - 1) * size);

    assert(number > 0 && self->crypt != NULL);
    if (rc != SQLITE_OK) {
        return rc;
    }
    return qp_crypt_open(self->crypt, &place, ret, size) ? SQLITE_OK : SQLITE_CORRUPT;
}

/* Another process may have emptied and made the file again, when a crash had left it half made:
 * true, with the keys of the new header, when its file key is another one. */
static bool crypt_file_renewed(qp_crypt_file *self, sqlite3_file *below)
{
    qp_crypt_params params;

    assert(self->crypt != NULL);
    if (crypt_file_again(below, &params) != QP_CRYPT_READY ||
        params.page_size != self->params.page_size ||
        memcmp(params.id, self->params.id, QP_CRYPT_ID) == 0) {
        return false;
    }
    qp_crypt_free(self->crypt);
    self->crypt = NULL;
    self->params = params;
    return crypt_file_derive(self) == QP_CRYPT_READY;
}

/* A read of less than a page: SQLite reads the header so, and fields of it. */
static int crypt_file_part(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                           sqlite3_int64 at)
{
    const uint32_t page_size = self->params.page_size;
    const uint32_t number = (uint32_t)(at / page_size) + 1;
    const sqlite3_int64 offset = at % page_size;
    uint8_t header[QP_PAGE_HEADER];
    int rc =
        self->crypt == NULL ? SQLITE_CORRUPT : crypt_file_page(self, below, number, self->scratch);

    assert(size > 0);
    if (offset + size > page_size) {
        return SQLITE_IOERR_READ; /* SQLite does not read across pages */
    }
    if (rc == SQLITE_CORRUPT && at + size <= QP_PAGE_HEADER) {
        crypt_file_header(self, header);
        memcpy(to, header + at, (size_t)size);
        return SQLITE_OK;
    }
    if (rc == SQLITE_OK) {
        memcpy(to, self->scratch + offset, (size_t)size);
    } else if (rc == SQLITE_IOERR_SHORT_READ) {
        memset(to, 0, (size_t)size);
    }
    return rc;
}

/* A page behind the end is missing when page 1 counts it; one that only the log has is read there.
 * Else a file that was cut off would read as one with pages of zeros. */
static int crypt_file_short(qp_crypt_file *self, sqlite3_file *below, uint32_t number)
{
    assert(number > 0);
    if (number > 1 && crypt_file_page(self, below, 1, self->scratch) == SQLITE_OK &&
        qp_page_header_count(self->scratch) >= number) {
        return SQLITE_CORRUPT;
    }
    return SQLITE_IOERR_SHORT_READ;
}

int qp_crypt_main_read(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                       sqlite3_int64 at, uint32_t *ret_page)
{
    const qp_crypt_state state = crypt_file_load(self, below);
    const uint32_t page_size = self->params.page_size;
    int rc;

    assert(ret_page != NULL && size > 0);
    /* Before the key is given nothing fails: qp_crypt_file_unlock() says what is wrong. */
    if ((state == QP_CRYPT_NEW || self->keys == NULL) && page_size == 0) {
        memset(to, 0, (size_t)size);
        return SQLITE_IOERR_SHORT_READ;
    }
    if (state != QP_CRYPT_READY && state != QP_CRYPT_NEW) {
        return crypt_file_code(state);
    }
    *ret_page = (uint32_t)(at / page_size) + 1;
    if ((uint32_t)size != page_size || at % page_size != 0 || self->crypt == NULL) {
        return crypt_file_part(self, below, to, size, at);
    }
    rc = crypt_file_page(self, below, *ret_page, to);
    if (rc == SQLITE_CORRUPT && *ret_page == 1 && crypt_file_renewed(self, below)) {
        rc = crypt_file_page(self, below, *ret_page, to);
    }
    if (rc == SQLITE_IOERR_SHORT_READ) {
        memset(to, 0, (size_t)size);
        rc = crypt_file_short(self, below, *ret_page);
    }
    return rc;
}

/* The first page of a file that another process has emptied: the header is gone. */
static void crypt_file_emptied(qp_crypt_file *self, sqlite3_file *below, sqlite3_int64 at)
{
    sqlite3_int64 size = 0;

    assert(at >= 0);
    if (at == 0 && self->crypt != NULL && below->pMethods->xFileSize(below, &size) == SQLITE_OK &&
        size == 0) {
        qp_crypt_free(self->crypt);
        self->crypt = NULL;
        self->params.page_size = 0;
    }
}

/* SQLite writes whole pages of one size; a file keeps its size of pages for good. `sealed` takes
 * the page: SQLite's own buffer is its cache and must stay open text. */
int qp_crypt_main_write(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from, int size,
                        sqlite3_int64 at)
{
    const uint32_t page_size = (uint32_t)size;
    const qp_crypt_place place = {.kind = QP_CRYPT_MAIN, .number = (uint32_t)(at / size) + 1};
    qp_crypt_state state = QP_CRYPT_NEW;
    int rc = SQLITE_OK;

    assert(size > 0 && at >= 0);
    crypt_file_emptied(self, below, at);
    state = crypt_file_load(self, below);
    if (page_size < QP_PAGE_SIZE_MIN || page_size > QP_PAGE_SIZE_MAX || at % size != 0) {
        return SQLITE_IOERR_WRITE;
    }
    if (state == QP_CRYPT_NEW) {
        rc = crypt_file_create(self, below, page_size);
    } else if (state != QP_CRYPT_READY) {
        return crypt_file_code(state);
    }
    if (rc != SQLITE_OK) {
        return rc;
    }
    if (page_size != self->params.page_size ||
        !qp_crypt_seal(self->crypt, &place, from, page_size, NULL, self->sealed)) {
        return SQLITE_IOERR_WRITE;
    }
    return below->pMethods->xWrite(below, self->sealed, size, QP_CRYPT_BLOCK + at);
}

/* SQLite counts pages by it and must not see the header block. A file that has no more than the
 * block has no pages. */
int qp_crypt_main_size(sqlite3_file *below, sqlite3_int64 *ret)
{
    sqlite3_int64 size = 0;
    int rc = below->pMethods->xFileSize(below, &size);

    assert(ret != NULL);
    if (rc == SQLITE_OK) {
        *ret = size > QP_CRYPT_BLOCK ? size - QP_CRYPT_BLOCK : 0;
    }
    return rc;
}

/* A file without pages has no header, and gets another key with its next page. */
int qp_crypt_main_truncate(qp_crypt_file *self, sqlite3_file *below, sqlite3_int64 size)
{
    assert(size >= 0);
    if (size == 0) {
        qp_crypt_free(self->crypt);
        self->crypt = NULL;
        self->params.page_size = 0;
    }
    return below->pMethods->xTruncate(below, size == 0 ? 0 : size + QP_CRYPT_BLOCK);
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Where in the log an offset lies. */
typedef struct crypt_file_at {
    uint32_t frame;       /* from 1; 0: in the log's header */
    sqlite3_int64 begin;  /* of that frame */
    sqlite3_int64 offset; /* from there */
} crypt_file_at;

/* The log's own layout, with the page size of the main file: 32 bytes, then frames of 24 and a
 * page. */
static crypt_file_at crypt_file_locate(const qp_crypt_file *self, sqlite3_int64 at)
{
    const sqlite3_int64 frame_size = (sqlite3_int64)self->params.page_size + QP_CRYPT_FRAME_HEADER;
    const sqlite3_int64 inner = at - CRYPT_FILE_LOG_HEADER;
    crypt_file_at ret = {0, 0, at};

    assert(self->params.page_size > 0);
    if (inner >= 0) {
        ret.frame = (uint32_t)(inner / frame_size) + 1;
        ret.begin = CRYPT_FILE_LOG_HEADER + inner / frame_size * frame_size;
        ret.offset = inner % frame_size;
    }
    return ret;
}

/* The salts in a header of the log or of a frame. */
static uint64_t crypt_file_salts(const uint8_t *p)
{
    assert(p != NULL);
    return (uint64_t)qp_page_u32(p) << 32 | qp_page_u32(p + 4);
}

/* The place of a frame's page. The salts are the log's: those in the frame's header are missing
 * while its transaction overwrites frames, until SQLite computes all checksums at COMMIT. */
static qp_crypt_place crypt_file_frame_place(const qp_crypt_file *self, uint32_t frame,
                                             const uint8_t *header)
{
    assert(frame > 0);
    return (qp_crypt_place){
        .kind = QP_CRYPT_LOG, .number = qp_page_u32(header), .at = frame, .salts = self->salts};
}

/* Reads the salts of the log: *ret_renewed: they are others than this connection knew, because
 * another process has begun the log anew since, or because nobody has asked yet. A read that fails
 * is an error, and never the answer no: in recovery a frame that does not fit is the log's end, and
 * the commits behind it would be gone. */
static int crypt_file_log_renewed(qp_crypt_file *self, sqlite3_file *below, bool *ret_renewed)
{
    uint8_t salts[8];
    const uint64_t before = self->salts;
    const int rc = below->pMethods->xRead(below, salts, sizeof(salts), CRYPT_FILE_LOG_SALTS_AT);

    assert(self->crypt != NULL && ret_renewed != NULL);
    if (rc == SQLITE_OK) {
        self->salts = crypt_file_salts(salts);
    }
    *ret_renewed = self->salts != before;
    return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : rc; /* a log without a header has no salts */
}

/* A frame's header, open. */
static int crypt_file_frame_header(qp_crypt_file *self, sqlite3_file *below, crypt_file_at where,
                                   uint8_t ret[QP_CRYPT_FRAME_HEADER])
{
    int rc = below->pMethods->xRead(below, ret, QP_CRYPT_FRAME_HEADER, where.begin);

    assert(where.frame > 0);
    if (rc == SQLITE_OK && !qp_crypt_frame(self->crypt, where.frame, ret, false)) {
        rc = SQLITE_IOERR_READ;
    }
    return rc;
}

/* A whole frame into the scratch page. SQLITE_CORRUPT: the page does not fit; its header stays. */
static int crypt_file_frame(qp_crypt_file *self, sqlite3_file *below, crypt_file_at where)
{
    const uint32_t size = self->params.page_size;
    uint8_t *header = self->scratch;
    qp_crypt_place place;
    int rc = below->pMethods->xRead(below, header, (int)size + QP_CRYPT_FRAME_HEADER, where.begin);

    assert(where.frame > 0);
    if (rc != SQLITE_OK) {
        return rc;
    }
    if (!qp_crypt_frame(self->crypt, where.frame, header, false)) {
        return SQLITE_IOERR_READ;
    }
    place = crypt_file_frame_place(self, where.frame, header);
    return place.number > 0 &&
                   qp_crypt_open(self->crypt, &place, header + QP_CRYPT_FRAME_HEADER, size)
               ? SQLITE_OK
               : SQLITE_CORRUPT;
}

/* The same once more with the salts that the log has now, when the page does not fit with those
 * that are known. */
static int crypt_file_frame_renewed(qp_crypt_file *self, sqlite3_file *below, crypt_file_at where)
{
    bool renewed = false;
    int rc = crypt_file_frame(self, below, where);

    if (rc == SQLITE_CORRUPT) {
        rc = crypt_file_log_renewed(self, below, &renewed);
        if (rc == SQLITE_OK) {
            rc = renewed ? crypt_file_frame(self, below, where) : SQLITE_CORRUPT;
        }
    }
    return rc;
}

/* SQLite reads a page, a whole frame (in recovery, where a frame that does not fit ends the log), a
 * frame's header, or the checksum in it. */
static int crypt_file_log_read(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                               sqlite3_int64 at, uint32_t *ret_page)
{
    crypt_file_at where;
    int frame_size;
    int rc;

    assert(ret_page != NULL && size > 0);
    if (at + size <= CRYPT_FILE_LOG_HEADER) {
        return below->pMethods->xRead(below, to, size, at);
    }
    if (self->crypt == NULL) {
        return SQLITE_IOERR_READ;
    }
    frame_size = (int)self->params.page_size + QP_CRYPT_FRAME_HEADER;
    where = crypt_file_locate(self, at);
    if (where.frame > 0 && where.offset + size <= QP_CRYPT_FRAME_HEADER) {
        uint8_t header[QP_CRYPT_FRAME_HEADER];
        rc = crypt_file_frame_header(self, below, where, header);
        memcpy(to, header + where.offset, (size_t)size);
        return rc;
    }
    if (where.frame == 0 || where.offset + size != frame_size ||
        (where.offset != 0 && where.offset != QP_CRYPT_FRAME_HEADER)) {
        return SQLITE_IOERR_READ;
    }
    rc = crypt_file_frame_renewed(self, below, where);
    if (rc == SQLITE_CORRUPT && where.offset == 0) {
        memset(self->scratch, 0, (size_t)frame_size); /* page 0: no frame, to SQLite */
        rc = SQLITE_OK;
    }
    *ret_page = qp_page_u32(self->scratch);
    *ret_page = *ret_page > 0 ? *ret_page : 1;
    memcpy(to, self->scratch + where.offset, (size_t)size);
    return rc;
}

/* Before a write to the log: its salts. A transaction's first frame has them in its header. */
static void crypt_file_log_salts(qp_crypt_file *self, const uint8_t *salts)
{
    const uint64_t given = crypt_file_salts(salts);

    self->salts = given != 0 ? given : self->salts;
    assert(self->salts != 0);
}

/* A frame's header, alone. */
static int crypt_file_put_header(qp_crypt_file *self, sqlite3_file *below, uint32_t frame,
                                 sqlite3_int64 at)
{
    uint8_t header[QP_CRYPT_FRAME_HEADER];

    assert(at > 0);
    memcpy(header, self->header, sizeof(header));
    return qp_crypt_frame(self->crypt, frame, header, true)
               ? below->pMethods->xWrite(below, header, sizeof(header), at)
               : SQLITE_IOERR_WRITE;
}

/* SQLite writes a page right behind its header; should it ever do anything else, the header goes
 * first. */
int qp_crypt_log_flush(qp_crypt_file *self, sqlite3_file *below)
{
    const sqlite3_int64 at = self->waits_at;

    assert(at == 0 || (self->crypt != NULL && self->header_of > 0));
    self->waits_at = 0;
    return at == 0 ? SQLITE_OK : crypt_file_put_header(self, below, (uint32_t)self->header_of, at);
}

/* A header that waits goes to the file first: SQLite may read what it has just written. */
int qp_crypt_log_read(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                      sqlite3_int64 at, uint32_t *ret_page)
{
    const int rc = qp_crypt_log_flush(self, below);

    assert(self->waits_at == 0);
    return rc == SQLITE_OK ? crypt_file_log_read(self, below, to, size, at, ret_page) : rc;
}

/* A page behind its header, which waited for it: both in one write, of a frame. */
static int crypt_file_put_frame(qp_crypt_file *self, sqlite3_file *below, crypt_file_at where)
{
    uint8_t *header = self->sealed;

    assert(self->waits_at == where.begin);
    self->waits_at = 0;
    memcpy(header, self->header, QP_CRYPT_FRAME_HEADER);
    return qp_crypt_frame(self->crypt, where.frame, header, true)
               ? below->pMethods->xWrite(below, header,
                                         QP_CRYPT_FRAME_HEADER + (int)self->params.page_size,
                                         where.begin)
               : SQLITE_IOERR_WRITE;
}

/* A page follows its header, or overwrites one of the same transaction in place. */
static int crypt_file_log_page(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from,
                               crypt_file_at where)
{
    const uint32_t size = self->params.page_size;
    uint8_t *page = self->sealed + QP_CRYPT_FRAME_HEADER;
    const bool waits = self->waits_at == where.begin;
    qp_crypt_place place;
    int rc = SQLITE_OK;

    assert(where.frame > 0 && where.begin > 0);
    if (!waits) {
        self->rewrites = true;
        rc = qp_crypt_log_flush(self, below);
    }
    if (rc == SQLITE_OK && self->header_of != where.frame) {
        rc = crypt_file_frame_header(self, below, where, self->header);
        self->header_of = rc == SQLITE_OK ? where.frame : 0;
    }
    if (rc != SQLITE_OK) {
        return rc;
    }
    place = crypt_file_frame_place(self, where.frame, self->header);
    if (place.number == 0 || place.salts == 0 ||
        !qp_crypt_seal(self->crypt, &place, from, size, NULL, page)) {
        self->waits_at = 0;
        return SQLITE_IOERR_WRITE;
    }
    return waits ? crypt_file_put_frame(self, below, where)
                 : below->pMethods->xWrite(below, page, (int)size,
                                           where.begin + QP_CRYPT_FRAME_HEADER);
}

/* SQLite writes a header and then its page: the header waits, which saves a write for each frame.
 * After a page was overwritten in place, COMMIT rewrites the headers from there on alone, and makes
 * them visible in shared memory: these must be in the log then, and are written at once. */
static int crypt_file_log_header(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from,
                                 crypt_file_at where)
{
    assert(where.frame > 0 && where.offset == 0 && self->waits_at == 0);
    crypt_file_log_salts(self, from + 8);
    memcpy(self->header, from, QP_CRYPT_FRAME_HEADER);
    self->header_of = where.frame;
    if (self->rewrites) {
        return crypt_file_put_header(self, below, where.frame, where.begin);
    }
    self->waits_at = where.begin;
    return SQLITE_OK;
}

/* The begin of the log: its frames are new from here on. */
static int crypt_file_log_begin(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from,
                                int size, sqlite3_int64 at)
{
    assert(self->waits_at == 0);
    self->header_of = 0;
    self->rewrites = false;
    if (at == 0 && size == CRYPT_FILE_LOG_HEADER) {
        crypt_file_log_salts(self, from + CRYPT_FILE_LOG_SALTS_AT);
    }
    return below->pMethods->xWrite(below, from, size, at);
}

/* The three things that SQLite writes to a log, by offset and size; anything else is refused.
 *
 *   32 bytes or less at its begin    the header of the log, or the rest of it     open
 *   24 bytes where a frame begins    a frame's header                             waits, or hidden
 *   a page behind such a header      its page                                     sealed */
int qp_crypt_log_write(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from, int size,
                       sqlite3_int64 at)
{
    crypt_file_at where = {0};
    int rc;

    assert(size > 0);
    if (at + size > CRYPT_FILE_LOG_HEADER) {
        if (self->crypt == NULL) {
            return SQLITE_IOERR_WRITE;
        }
        where = crypt_file_locate(self, at);
        if (where.frame > 0 && where.offset == QP_CRYPT_FRAME_HEADER &&
            (uint32_t)size == self->params.page_size) {
            return crypt_file_log_page(self, below, from, where);
        }
        if (where.frame == 0 || where.offset != 0 || size != QP_CRYPT_FRAME_HEADER) {
            return SQLITE_IOERR_WRITE;
        }
    }
    rc = qp_crypt_log_flush(self, below);
    if (rc != SQLITE_OK) {
        return rc;
    }
    return where.frame > 0 ? crypt_file_log_header(self, below, from, where)
                           : crypt_file_log_begin(self, below, from, size, at);
}

/* ---- the rollback journal -------------------------------------------------------------------- */

/* The place of a page whose number stands before it. */
static qp_crypt_place crypt_file_journal_place(const qp_crypt_journal *journal, sqlite3_int64 at)
{
    assert(journal->number > 0);
    return (qp_crypt_place){
        .kind = QP_CRYPT_JOURNAL, .number = journal->number, .at = (uint64_t)at};
}

/* After a word: a page may follow, unless the word is the checksum of one. */
static void crypt_file_journal_word(qp_crypt_journal *journal, const uint8_t *word,
                                    sqlite3_int64 at)
{
    assert(at >= 0);
    journal->number = qp_page_u32(word);
    journal->page_at = journal->number > 0 ? at + CRYPT_FILE_WORD : 0;
    journal->sum_at = 0;
}

/* Hides, or shows, a page's checksum, which SQLite computes of some of its open bytes. */
static bool crypt_file_journal_mask(qp_crypt_file *self, const qp_crypt_journal *journal,
                                    uint8_t word[CRYPT_FILE_WORD])
{
    uint8_t mask[CRYPT_FILE_WORD];

    assert(journal->sum_at > 0);
    if (!qp_crypt_mask(self->crypt, journal->tag, mask)) {
        return false;
    }
    for (size_t i = 0; i < CRYPT_FILE_WORD; i++) {
        word[i] ^= mask[i];
    }
    return true;
}

/* SQLite reads a record word by word: number, page, checksum. Headers are open. A page that does
 * not fit, as the last one of a crash, is handed over as zeros with a checksum of another page, so
 * that SQLite ends there. `journal` follows the records by the offsets of what was read last:
 *
 *   a word          ─▶ number = it, page_at = behind it
 *   a page there    ─▶ opened; sum_at = behind it
 *   a word there    ─▶ the page's checksum, shown; then the next record
 *
 * A journal's own header is read in words as well. None of them is at sum_at, so that they pass as
 * they are. */
int qp_crypt_journal_read(qp_crypt_file *self, qp_crypt_journal *journal, sqlite3_file *below,
                          uint8_t *to, int size, sqlite3_int64 at)
{
    int rc = below->pMethods->xRead(below, to, size, at);

    assert(size > 0);
    if (rc != SQLITE_OK) {
        return rc;
    }
    if (size == CRYPT_FILE_WORD) {
        if (journal->sum_at == at && at > 0) {
            rc = crypt_file_journal_mask(self, journal, to) ? SQLITE_OK : SQLITE_IOERR_READ;
            journal->sum_at = 0;
        } else {
            crypt_file_journal_word(journal, to, at);
        }
    } else if (journal->page_at == at && at > 0 && (uint32_t)size == self->params.page_size) {
        const qp_crypt_place place = crypt_file_journal_place(journal, at);
        memcpy(journal->tag, to + size - QP_CRYPT_TAG, QP_CRYPT_TAG);
        journal->sum_at = at + size;
        journal->page_at = 0;
        if (self->crypt == NULL || !qp_crypt_open(self->crypt, &place, to, (size_t)size)) {
            memset(to, 0, (size_t)size);
            journal->sum_at = 0; /* the checksum is read as it is, hidden */
        }
    }
    return rc;
}

/* Whether these bytes may go to a journal as they are: its headers, which are numbers and zeros,
 * and what is shorter than any page. */
static bool crypt_file_journal_is_open(const uint8_t *from, int size)
{
    const uint8_t *rest = from + CRYPT_FILE_NUMBERS;

    assert(size > 0);
    return size < QP_PAGE_SIZE_MIN ||
           (rest[0] == 0 && memcmp(rest, rest + 1, (size_t)size - CRYPT_FILE_NUMBERS - 1) == 0);
}

/* The same three steps as in reading. A write that is neither a word, nor a page where a page may
 * be, must be a header, which consists of numbers and zeros. A page that came in another way is
 * refused here, so that it never reaches the disk unencrypted. */
int qp_crypt_journal_write(qp_crypt_file *self, qp_crypt_journal *journal, sqlite3_file *below,
                           const uint8_t *from, int size, sqlite3_int64 at)
{
    uint8_t word[CRYPT_FILE_WORD];

    assert(size > 0);
    if (size == CRYPT_FILE_WORD && journal->sum_at == at && at > 0) {
        memcpy(word, from, sizeof(word));
        if (!crypt_file_journal_mask(self, journal, word)) {
            return SQLITE_IOERR_WRITE;
        }
        journal->sum_at = 0;
        return below->pMethods->xWrite(below, word, size, at);
    }
    if (size == CRYPT_FILE_WORD) {
        crypt_file_journal_word(journal, from, at);
        return below->pMethods->xWrite(below, from, size, at);
    }
    if (journal->page_at == at && at > 0 && self->crypt != NULL &&
        (uint32_t)size == self->params.page_size) {
        const qp_crypt_place place = crypt_file_journal_place(journal, at);
        if (!qp_crypt_seal(self->crypt, &place, from, (size_t)size, NULL, self->sealed)) {
            return SQLITE_IOERR_WRITE;
        }
        memcpy(journal->tag, self->sealed + size - QP_CRYPT_TAG, QP_CRYPT_TAG);
        journal->sum_at = at + size;
        journal->page_at = 0;
        return below->pMethods->xWrite(below, self->sealed, size, at);
    }
    return crypt_file_journal_is_open(from, size) ? below->pMethods->xWrite(below, from, size, at)
                                                  : SQLITE_IOERR_WRITE;
}
