/* The page layer: quipu's own VFS between SQLite and the system's that completes each page with a
 * checksum when it goes to the main file, and verifies it when it comes back.
 *
 * Owns: page_file, one for each main file and write-ahead log that SQLite opens through it. Every
 * other kind of file (rollback journals, temporary files) is the VFS's below, untouched.
 * The layer has a second form, for connections with a key: there all kinds of files are encrypted
 * (crypt_file.c, crypt_temp.c), pages have tags instead of checksums, and main files that are not
 * encrypted are refused.
 * Called by: SQLite, on the thread that uses the connection; open.c and others through page_vfs.h.
 * Locks: none but SQLite's application mutex while it is registered. Reads and writes
 * happen under the locks that SQLite holds for them.
 *
 *      SQLite's page cache ── commit ──▶ the log ── checkpoint ──▶ sealed ──▶ main file
 *        trailers say          pages as in the cache,    checksum filled in
 *        "unsealed"            SQLite's frame checksums
 *
 *      main file ── checksum verified ──▶ trailer set to "unsealed" ──▶ SQLite's page cache
 *      the log ── frame checksum verified ──▶ SQLite's page cache, or a checkpoint
 *
 * A frame of the log cannot carry our checksum: SQLite computes its frame checksums before the VFS
 * sees the page. They cover the page as well, but SQLite verifies them in recovery only; this layer
 * verifies the frame of each page that is read, also for a checkpoint, so that damage in the log is
 * not sealed into the file.
 *
 * A page that does not fit is damage, unless page 1 says that a program without checksums wrote to
 * the file (page_seal.c): then nothing can be verified, and pages are handed out as they are until
 * the file is sealed again. Page 1 says so until then, also when we write it.
 *
 * Each page says for which file it was written, by an id that page 1 states. A page of another
 * file does not fit. Pages without an id fit every file: earlier versions write none.
 *
 * Invariant: a file's id changes only when all of its pages are written anew. So it is chosen for
 * an empty file (page_vfs_choose_id()), for a new backup, and when a file without checksums is
 * sealed.
 *
 * Invariant: a trailer is only written where the page on its way to the file has room for it: the
 * file's header reserves QP_PAGE_RESERVE bytes and the page has a mark or zeros there. */
#include "ent_sqlite/page_vfs.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "ent_sqlite/page_file.h"

#define PAGE_VFS_NAME "quipu-pages"
#define PAGE_VFS_SECRET_NAME "quipu-encrypted"
#define PAGE_VFS_NAME_MAX 256
#define PAGE_VFS_ATOMIC (0x1ff | SQLITE_IOCAP_BATCH_ATOMIC) /* ATOMIC, ATOMIC512 to ATOMIC64K */
#define PAGE_VFS_WRITE_LOCK 0 /* the slot of xShmLock() that a writer holds: WAL_WRITE_LOCK */

/* Room for one page of the file's size; false: no memory. */
static bool page_vfs_scratch(page_file *self, uint32_t size)
{
    assert(size >= QP_PAGE_SIZE_MIN && size <= QP_PAGE_SIZE_MAX);
    if (self->page_room < size) {
        sqlite3_free(self->page);
        self->page = sqlite3_malloc64(size);
        self->page_room = self->page != NULL ? size : 0;
    }
    return self->page != NULL;
}

/* ---- what kind of file it is ----------------------------------------------------------------- */

/* Learns from a header, as it is in the file. A file is ours when page 1 has our mark or hides its
 * size: damage to one of them must not switch the checks off. Reserved bytes that are 0 are ours,
 * too: a VACUUM of another program leaves such pages. */
static void page_vfs_learn(page_file *self, const uint8_t *header)
{
    const qp_page_header known = qp_page_header_read(header);
    uint8_t trailer[QP_PAGE_RESERVE] = {0};

    assert(!self->is_log);
    if (!known.valid) {
        return;
    }
    self->state.page_size = known.page_size;
    self->state.sealed = false;
    if (known.reserve == QP_PAGE_RESERVE && known.hides_size) {
        self->state.sealed = true;
    } else if (page_vfs_below_read(self, trailer, QP_PAGE_RESERVE,
                                   (sqlite3_int64)known.page_size - QP_PAGE_RESERVE) == SQLITE_OK) {
        self->state.sealed = qp_page_is_marked(trailer) ||
                             (known.reserve == QP_PAGE_RESERVE && qp_page_is_blank(trailer));
    }
}

/* Learns from the file: another process may have rewritten it, with or without checksums. */
static void page_vfs_refresh(page_file *self)
{
    uint8_t header[QP_PAGE_HEADER];

    assert(!self->is_log);
    if (self->crypt == NULL && page_vfs_below_read(self, header, sizeof(header), 0) == SQLITE_OK) {
        page_vfs_learn(self, header);
    }
}

/* Reads page 1 from the file into the scratch page and judges it. QP_PAGE_WRONG also for a file
 * that is not ours any more. */
int qp_page_file_judge_first(page_file *self, qp_page_verdict *ret)
{
    const uint32_t *size = &self->state.page_size;
    int rc = SQLITE_OK;

    assert(ret != NULL);
    *ret = QP_PAGE_WRONG;
    page_vfs_refresh(self);
    if (!self->state.sealed) {
        return SQLITE_OK;
    }
    if (!page_vfs_scratch(self, *size)) {
        return SQLITE_IOERR_NOMEM;
    }
    rc = page_vfs_below_read(self, self->page, (int)*size, 0);
    if (rc == SQLITE_OK) {
        *ret = qp_page_judge(self->page, *size, 1);
    }
    return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : rc;
}

/* ---- the file's id --------------------------------------------------------------------------- */

/* Takes over what page 1 says, which `page` is. A damaged one says nothing. */
static void page_vfs_learn_id(page_file *self, const uint8_t *page, qp_page_verdict verdict)
{
    assert(!self->is_log);
    if (!self->is_new) {
        self->knows_id = true;
        self->file_id = verdict == QP_PAGE_FITS || verdict == QP_PAGE_STALE
                            ? qp_page_file_id(page, self->state.page_size)
                            : 0;
    }
}

/* Judges page 1 in the file and learns from it. */
static int page_vfs_ask_id(page_file *self, qp_page_verdict *ret_first)
{
    const int rc = qp_page_file_judge_first(self, ret_first);

    if (rc == SQLITE_OK && self->state.sealed) {
        page_vfs_learn_id(self, self->page, *ret_first);
    }
    return rc;
}

/* Any number but 0. */
uint64_t qp_page_file_new_id(void)
{
    uint64_t id = 0;

    sqlite3_randomness(sizeof(id), &id);
    return id | 1;
}

/* Page 1 goes to the file: the id that it and all pages behind it get. Page 1 brings it from the
 * file or from the log; a VACUUM makes one without, and the file still has it. `in_file` is what
 * the file's page 1 says, 0 when it is damaged or says nothing. `first_seal`: no page of the file
 * has an id, nor has a frame of its log. */
static int page_vfs_choose_id(page_file *self, const uint8_t *page, uint64_t in_file,
                              bool first_seal)
{
    sqlite3_file *below = page_vfs_below(&self->base);
    const uint64_t brought = qp_page_file_id(page, self->state.page_size);
    sqlite3_int64 bytes = 0;
    int rc = SQLITE_OK;

    assert(!self->is_log && self->state.sealed);
    if (self->is_new) {
        return SQLITE_OK;
    }
    self->file_id = brought != 0 ? brought : in_file;
    self->knows_id = true;
    if (self->file_id == 0) {
        rc = below->pMethods->xFileSize(below, &bytes);
        self->file_id = rc == SQLITE_OK && (bytes == 0 || first_seal) ? qp_page_file_new_id() : 0;
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Remembers a bad page and gives the code that SQLite passes on. SQLITE_CORRUPT and no code of
 * SQLITE_IOERR, after which SQLite would roll back a transaction that only reads. */
static int page_vfs_bad(page_file *self, uint32_t number, bool in_log)
{
    qp_page_state *state = &self->state;

    assert(!self->is_log && number > 0);
    state->bad_is_log = in_log;
    for (uint32_t i = 0; i < state->bad_count; i++) {
        if (state->bad[i] == number) { /* moves to the end: the last one is the newest */
            memmove(state->bad + i, state->bad + i + 1,
                    (state->bad_count - i - 1) * sizeof(state->bad[0]));
            state->bad_count--;
            break;
        }
    }
    if (state->bad_count == QP_PAGE_BAD_MAX) {
        memmove(state->bad, state->bad + 1, (QP_PAGE_BAD_MAX - 1) * sizeof(state->bad[0]));
        state->bad_count--;
    }
    state->bad[state->bad_count++] = number;
    return SQLITE_CORRUPT;
}

/* A checksum does not fit. A page that is read to be overwritten may hold anything. Else page 1
 * decides whether that is damage: it is read again, because another process may have rewritten the
 * file since this connection looked. A page of zeros in a file
 * without a log was never written: SQLite skips pages that are freed in the transaction that
 * allocated them. */
static int page_vfs_wrong(page_file *self, const uint8_t *page, uint32_t number)
{
    qp_page_verdict first = QP_PAGE_WRONG;
    int rc = SQLITE_OK;

    assert(number > 0);
    if (self->overwrites && number != 1) {
        return SQLITE_OK;
    }
    rc = qp_page_file_judge_first(self, &first);
    if (rc != SQLITE_OK || !self->state.sealed) {
        return rc;
    }
    if (number != 1 && (first == QP_PAGE_STALE || first == QP_PAGE_FOREIGN)) {
        self->state.stale = true;
        return SQLITE_OK;
    }
    if (first == QP_PAGE_FITS && !qp_page_header_read(self->page).logs && page[0] == 0 &&
        memcmp(page, page + 1, self->state.page_size - 1) == 0) {
        return SQLITE_OK;
    }
    return page_vfs_bad(self, number, false);
}

/* A page whose checksum fits has an id. Page 1 is asked anew before it counts as another file's,
 * because another process may have sealed the file again. */
static int page_vfs_check_id(page_file *self, uint64_t id, uint32_t number)
{
    qp_page_verdict first = QP_PAGE_WRONG;
    int rc = SQLITE_OK;

    assert(number > 1 && id != 0);
    if (id == self->file_id || (self->knows_id && self->file_id == 0) || self->overwrites) {
        return SQLITE_OK;
    }
    rc = page_vfs_ask_id(self, &first);
    return rc == SQLITE_OK && first == QP_PAGE_FITS && self->file_id != 0 && self->file_id != id
               ? page_vfs_bad(self, number, false)
               : rc;
}

/* Remembers that the file has such a page, until page 1 changes: sealing the file changes it. */
static void page_vfs_met_unsealed(page_file *self)
{
    uint8_t header[QP_PAGE_HEADER];

    assert(!self->is_log);
    if (!self->met_unsealed && page_vfs_below_read(self, header, sizeof(header), 0) == SQLITE_OK) {
        self->met_unsealed = true;
        self->met_counter = qp_page_header_read(header).counter;
    }
    self->state.stale = true;
}

/* Verifies a whole page of the main file and makes it SQLite's. */
static int page_vfs_verify(page_file *self, uint8_t *page, uint32_t number)
{
    const qp_page_verdict verdict = qp_page_judge(page, self->state.page_size, number);
    uint64_t id = 0;
    int rc = SQLITE_OK;

    assert(self->state.sealed && number > 0);
    if (number == 1) {
        page_vfs_learn_id(self, page, verdict);
    }
    switch (verdict) {
    case QP_PAGE_FITS:
        id = number > 1 ? qp_page_file_id(page, self->state.page_size) : 0;
        rc = id != 0 ? page_vfs_check_id(self, id, number) : SQLITE_OK;
        break;
    case QP_PAGE_STALE:
    case QP_PAGE_FOREIGN:
        self->state.stale = true;
        break;
    case QP_PAGE_UNSEALED:
        page_vfs_met_unsealed(self);
        break;
    case QP_PAGE_WRONG:
        rc = page_vfs_wrong(self, page, number);
        break;
    }
    if (rc == SQLITE_OK && self->state.sealed) {
        qp_page_open(page, self->state.page_size, number);
    }
    return rc;
}

/* A read of less than a page. SQLite reads the header so when it opens a file; it is not verified
 * here: a crash during a checkpoint may leave page 1 torn, and the log has it whole. Anything else
 * is cut out of its page, which is verified. */
static int page_vfs_read_part(page_file *self, uint8_t *to, int size, sqlite3_int64 at)
{
    const uint32_t page_size = self->state.page_size;
    const sqlite3_int64 number = at / page_size + 1;
    const sqlite3_int64 offset = at % page_size;
    int rc;

    assert(size > 0 && self->state.sealed);
    if (at + size <= QP_PAGE_HEADER) {
        uint8_t header[QP_PAGE_HEADER];
        rc = page_vfs_below_read(self, header, sizeof(header), 0);
        if (rc == SQLITE_OK) {
            qp_page_header_open(header);
            memcpy(to, header + at, (size_t)size);
        }
        return rc;
    }
    if (offset + size > page_size) {
        return SQLITE_OK; /* SQLite does not read across pages */
    }
    uint8_t *page = sqlite3_malloc64(page_size); /* page_vfs_wrong() needs the scratch page */
    if (page == NULL) {
        return SQLITE_IOERR_NOMEM;
    }
    rc = page_vfs_below_read(self, page, (int)page_size, at - offset);
    if (rc == SQLITE_OK) {
        rc = page_vfs_verify(self, page, (uint32_t)number);
    }
    if (rc == SQLITE_OK) {
        memcpy(to, page + offset, (size_t)size);
    }
    sqlite3_free(page);
    return rc;
}

/* A page behind the file's end, which SQLite reads as zeros. It is missing when page 1 counts it: a
 * page that only the log has is read there. */
static int page_vfs_read_short(page_file *self, uint32_t number)
{
    qp_page_verdict first = QP_PAGE_WRONG;
    int rc = qp_page_file_judge_first(self, &first);

    assert(number > 0);
    if (rc != SQLITE_OK) {
        return rc;
    }
    if (number > 1 && first == QP_PAGE_FITS && qp_page_header_count(self->page) >= number) {
        return page_vfs_bad(self, number, false);
    }
    return SQLITE_IOERR_SHORT_READ;
}

/* A read of the main file. */
static int page_vfs_read_main(page_file *self, uint8_t *to, int size, sqlite3_int64 at, int rc)
{
    const qp_page_state *state = &self->state;

    assert(rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ);
    if (at == 0 && rc == SQLITE_OK && size >= QP_PAGE_HEADER) {
        page_vfs_learn(self, to);
    }
    if (!state->sealed) {
        return rc;
    }
    if ((uint32_t)size != state->page_size || at % state->page_size != 0) {
        return rc == SQLITE_OK ? page_vfs_read_part(self, to, size, at) : rc;
    }
    const uint32_t number = (uint32_t)(at / state->page_size) + 1;
    return rc == SQLITE_OK ? page_vfs_verify(self, to, number) : page_vfs_read_short(self, number);
}

/* The keys are the main file's. */
static void page_vfs_look(page_file *self)
{
    assert(self->crypt != NULL);
    if (self->main_file != NULL) {
        qp_crypt_file_look(self->crypt, page_vfs_below(&self->main_file->base));
    }
}

/* Reads from a file that is encrypted. A page that is read to be overwritten may hold anything. */
static int page_vfs_read_secret(page_file *self, uint8_t *to, int size, sqlite3_int64 at)
{
    sqlite3_file *below = page_vfs_below(&self->base);
    page_file *main_file = self->main_file != NULL ? self->main_file : self;
    uint32_t number = 0;
    int rc;

    page_vfs_look(self);
    rc = self->is_journal ? qp_crypt_journal_read(self->crypt, &self->journal, below, to, size, at)
         : self->is_log   ? qp_crypt_log_read(self->crypt, below, to, size, at, &number)
                          : qp_crypt_main_read(self->crypt, below, to, size, at, &number);

    assert(main_file != NULL);
    main_file->state.sealed = true;
    main_file->state.page_size = qp_crypt_file_page_size(self->crypt);
    if (rc != SQLITE_CORRUPT) {
        return rc;
    }
    if (main_file->overwrites && number != 1) {
        memset(to, 0, (size_t)size);
        return SQLITE_OK;
    }
    return page_vfs_bad(main_file, number, self->is_log);
}

/* The main file is checked page by page; a frame of the log by its own checksum, when its header is
 * known. Journals are opened without this layer. */
static int page_vfs_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    page_file *self = (page_file *)file;
    int rc;

    assert(size >= 0);
    if (self->crypt != NULL) {
        return page_vfs_read_secret(self, to, size, at);
    }
    rc = page_vfs_below_read(self, to, size, at);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) {
        return rc;
    }
    if (!self->is_log) {
        return page_vfs_read_main(self, to, size, at, rc);
    }
    if (rc == SQLITE_OK && self->peer != NULL && self->peer->state.sealed) {
        uint32_t number = 0;
        rc = qp_page_frame_check(&self->frames, page_vfs_below(file), self->peer->state.page_size,
                                 to, size, at, &number);
        if (rc == SQLITE_CORRUPT) {
            rc = self->peer->overwrites ? SQLITE_OK : page_vfs_bad(self->peer, number, true);
        }
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Page 1 goes to the file: it says whether the file's pages have checksums from now on. Pages come
 * in ascending order, in a checkpoint as in a commit, so that the rest of a rewritten file follows.
 * A file that reserves the bytes for another program has that program's bytes there. */
static void page_vfs_learn_written(page_file *self, const uint8_t *page, int size)
{
    const qp_page_header given = qp_page_header_read(page);

    assert(!self->is_log);
    if (given.valid && given.page_size == (uint32_t)size) {
        self->state.page_size = given.page_size;
        self->state.sealed =
            given.reserve == QP_PAGE_RESERVE && qp_page_has_room(page, (size_t)size);
    }
}

/* Asks the page 1 that is about to be replaced: whether the new one must go on saying that another
 * program wrote to the file, and which id the file has. */
static int page_vfs_replace_first(page_file *self, const uint8_t *page, bool *ret_stale)
{
    const qp_page_state state = self->state;
    qp_page_verdict first = QP_PAGE_WRONG;
    uint64_t in_file = 0;
    int rc = qp_page_file_judge_first(self, &first);
    const bool first_seal = self->reseals && !self->state.sealed;

    assert(state.sealed && ret_stale != NULL);
    *ret_stale = self->state.sealed && !self->reseals &&
                 (first == QP_PAGE_STALE || first == QP_PAGE_FOREIGN);
    if (rc == SQLITE_OK && first != QP_PAGE_WRONG) { /* other programs keep it */
        in_file = qp_page_file_id(self->page, self->state.page_size);
    }
    self->state = state; /* judging looked at the old page */
    return rc == SQLITE_OK ? page_vfs_choose_id(self, page, in_file, first_seal) : rc;
}

/* SQLite writes whole pages. The page is completed in a copy: the caller's bytes are its cache. */
static int page_vfs_write_main(page_file *self, const uint8_t *from, int size, sqlite3_int64 at)
{
    sqlite3_file *below = page_vfs_below(&self->base);
    const uint32_t page_size = (uint32_t)size;
    bool stale = false;
    int rc = SQLITE_OK;

    assert(!self->is_log && size > 0);
    if (at == 0 && size >= QP_PAGE_SIZE_MIN) {
        page_vfs_learn_written(self, from, size);
    }
    if (!self->state.sealed || self->state.page_size != page_size || at % size != 0 ||
        !qp_page_has_room(from, page_size)) {
        return below->pMethods->xWrite(below, from, size, at);
    }
    if (at == 0) {
        rc = page_vfs_replace_first(self, from, &stale);
        self->state.stale = stale || (self->state.stale && !self->reseals);
    }
    if (rc != SQLITE_OK || !page_vfs_scratch(self, page_size)) {
        return rc != SQLITE_OK ? rc : SQLITE_IOERR_NOMEM;
    }
    memcpy(self->page, from, page_size);
    qp_page_seal(self->page, page_size, (uint32_t)(at / size) + 1, stale, self->file_id);
    return below->pMethods->xWrite(below, self->page, size, at);
}

/* Only pages of the main file are completed: frames of the log keep SQLite's bytes, because SQLite
 * has computed their checksum already. */
static int page_vfs_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    page_file *self = (page_file *)file;
    sqlite3_file *below = page_vfs_below(file);

    assert(size >= 0);
    if (self->crypt != NULL) {
        page_vfs_look(self);
        return self->is_journal
                   ? qp_crypt_journal_write(self->crypt, &self->journal, below, from, size, at)
               : self->is_log ? qp_crypt_log_write(self->crypt, below, from, size, at)
                              : qp_crypt_main_write(self->crypt, below, from, size, at);
    }
    if (!self->is_log) {
        return page_vfs_write_main(self, from, size, at);
    }
    if (self->peer != NULL) {
        qp_page_frame_written(&self->frames, self->peer->state.page_size, size, at);
    }
    return below->pMethods->xWrite(below, from, size, at);
}

/* ---- the other methods of a file ------------------------------------------------------------- */

/* Main file and log know each other; the one that closes first says so. */
static int page_vfs_close(sqlite3_file *file)
{
    page_file *self = (page_file *)file;
    sqlite3_file *below = page_vfs_below(file);

    assert(self->peer == NULL || self->peer->peer == self);
    if (self->peer != NULL) {
        self->peer->peer = NULL;
        self->peer->crypt = self->is_log ? self->peer->crypt : NULL;
    }
    if (!self->is_log && !self->is_journal) {
        qp_crypt_file_free(self->crypt);
    }
    sqlite3_free(self->page);
    return below->pMethods->xClose(below);
}

/* Whether the file has a header block before SQLite's first page. */
static bool page_vfs_has_block(const page_file *self)
{
    return self->crypt != NULL && !self->is_log && !self->is_journal;
}

/* From here on the functions pass a call on to the system's file, unless they say what they add. */
static int page_vfs_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *below = page_vfs_below(file);
    page_file *self = (page_file *)file;

    assert(below->pMethods != NULL);
    if (page_vfs_has_block(self)) {
        return qp_crypt_main_truncate(self->crypt, below, size);
    }
    return below->pMethods->xTruncate(below, size);
}

/* Syncs of this process, for people who ask what a commit costs: of all files, because a file does
 * not know its store. */
static _Atomic int64_t page_vfs_synced;

int64_t qp_page_vfs_syncs(void)
{
    return atomic_load_explicit(&page_vfs_synced, memory_order_relaxed);
}

/* A header that waits for its page is written to the file first. */
static int page_vfs_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *below = page_vfs_below(file);
    page_file *self = (page_file *)file;
    int rc = SQLITE_OK;

    assert(below->pMethods != NULL);
    if (self->crypt != NULL && self->is_log) {
        rc = qp_crypt_log_flush(self->crypt, below);
    }
    (void)atomic_fetch_add_explicit(&page_vfs_synced, 1, memory_order_relaxed);
    return rc == SQLITE_OK ? below->pMethods->xSync(below, flags) : rc;
}

/* Without the header block, which SQLite would count as a page. */
static int page_vfs_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(ret != NULL);
    if (page_vfs_has_block((const page_file *)file)) {
        return qp_crypt_main_size(below, ret);
    }
    return below->pMethods->xFileSize(below, ret);
}

static int page_vfs_lock(sqlite3_file *file, int level)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods != NULL);
    return below->pMethods->xLock(below, level);
}

/* A writer that ends has overwritten what it wanted: damage counts again. */
static int page_vfs_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods != NULL);
    ((page_file *)file)->overwrites = false;
    return below->pMethods->xUnlock(below, level);
}

static int page_vfs_check_reserved(sqlite3_file *file, int *ret)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(ret != NULL);
    return below->pMethods->xCheckReservedLock(below, ret);
}

/* A checkpoint that copies the log of a file that another process rewrote begins with page 1 when
 * the log has it; else the file has it, with the id that the pages get.
 *
 * A VACUUM has read everything that is in use when it says that it overwrites the file. From then
 * on it reads pages only to replace them, also those that no table has any more: of a search index
 * that was discarded because they are damaged. */
static int page_vfs_control(sqlite3_file *file, int code, void *arg)
{
    sqlite3_file *below = page_vfs_below(file);
    page_file *self = (page_file *)file;
    qp_page_verdict first = QP_PAGE_WRONG;

    assert(below->pMethods != NULL);
    if (code == SQLITE_FCNTL_CKPT_START && !self->is_log) {
        (void)page_vfs_ask_id(self, &first);
    } else if (code == SQLITE_FCNTL_OVERWRITE && !self->is_log) {
        self->overwrites = true;
    } else if (code == SQLITE_FCNTL_SIZE_HINT && page_vfs_has_block(self)) {
        sqlite3_int64 size = *(const sqlite3_int64 *)arg + QP_CRYPT_BLOCK;
        return below->pMethods->xFileControl(below, code, &size);
    }
    return below->pMethods->xFileControl(below, code, arg);
}

static int page_vfs_sector_size(sqlite3_file *file)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods != NULL);
    return below->pMethods->xSectorSize(below);
}

/* SQLITE_IOCAP_SUBPAGE_READ (1 << 15, from SQLite 3.48) is withheld: each part would cost a whole
 * page and its checksum. From files that are encrypted so are the atomic writes, with which SQLite
 * writes a journal in other pieces; and it must not write the log up to the end of a sector, which
 * would cut a page in two. */
static int page_vfs_capabilities(sqlite3_file *file)
{
    sqlite3_file *below = page_vfs_below(file);
    const int all = below->pMethods->xDeviceCharacteristics(below) & ~0x8000;

    assert(below->pMethods != NULL);
    return ((const page_file *)file)->crypt == NULL
               ? all
               : (all & ~PAGE_VFS_ATOMIC) | SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int page_vfs_shm_map(sqlite3_file *file, int region, int size, int extend,
                            void volatile **ret)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods->iVersion >= 2);
    return below->pMethods->xShmMap(below, region, size, extend, ret);
}

/* The end of the write lock ends the transaction whose frames have no final checksum yet, and the
 * one that overwrites the file. */
static int page_vfs_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    page_file *self = (page_file *)file;
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods->iVersion >= 2);
    if (offset == PAGE_VFS_WRITE_LOCK && (flags & SQLITE_SHM_UNLOCK) != 0) {
        self->overwrites = false;
        if (self->peer != NULL) {
            qp_page_frames_committed(&self->peer->frames);
        }
    }
    return below->pMethods->xShmLock(below, offset, n, flags);
}

static void page_vfs_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods->iVersion >= 2);
    below->pMethods->xShmBarrier(below);
}

static int page_vfs_shm_unmap(sqlite3_file *file, int delete)
{
    sqlite3_file *below = page_vfs_below(file);

    assert(below->pMethods->iVersion >= 2);
    return below->pMethods->xShmUnmap(below, delete);
}

/* Version 2 and not 3: pages in a memory map (xFetch) would reach SQLite unverified. Version 1 is
 * for a VFS below that has no shared memory. */
#define PAGE_VFS_METHODS                                                                           \
    .xClose = page_vfs_close, .xRead = page_vfs_read, .xWrite = page_vfs_write,                    \
    .xTruncate = page_vfs_truncate, .xSync = page_vfs_sync, .xFileSize = page_vfs_file_size,       \
    .xLock = page_vfs_lock, .xUnlock = page_vfs_unlock,                                            \
    .xCheckReservedLock = page_vfs_check_reserved, .xFileControl = page_vfs_control,               \
    .xSectorSize = page_vfs_sector_size, .xDeviceCharacteristics = page_vfs_capabilities

static const sqlite3_io_methods page_vfs_methods_1 = {.iVersion = 1, PAGE_VFS_METHODS};
static const sqlite3_io_methods page_vfs_methods_2 = {.iVersion = 2,
                                                      PAGE_VFS_METHODS,
                                                      .xShmMap = page_vfs_shm_map,
                                                      .xShmLock = page_vfs_shm_lock,
                                                      .xShmBarrier = page_vfs_shm_barrier,
                                                      .xShmUnmap = page_vfs_shm_unmap};

/* Whether the layer opened this file: another VFS may lie between. */
bool qp_page_file_is_ours(const sqlite3_file *file)
{
    return file != NULL &&
           (file->pMethods == &page_vfs_methods_1 || file->pMethods == &page_vfs_methods_2);
}

/* ---- the VFS --------------------------------------------------------------------------------- */

/* A log finds its main file through its name, which SQLite made from the main file's. Everything
 * else is opened by the VFS below, into the same memory: SQLite then calls its methods. */
static int page_vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *ret_flags)
{
    sqlite3_vfs *under = vfs->pAppData;
    page_file *self = (page_file *)file;
    sqlite3_file *below = NULL;
    int rc;

    assert(file != NULL);
    if (name == NULL || (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0) {
        return under->xOpen(under, name, file, flags, ret_flags);
    }
    memset(self, 0, PAGE_VFS_BELOW_AT);
    below = page_vfs_below(file);
    below->pMethods = NULL;
    rc = under->xOpen(under, name, below, flags, ret_flags);
    if (below->pMethods == NULL) {
        return rc; /* SQLite closes only a file that has methods */
    }
    self->base.pMethods =
        below->pMethods->iVersion >= 2 ? &page_vfs_methods_2 : &page_vfs_methods_1;
    self->is_log = (flags & SQLITE_OPEN_WAL) != 0;
    if (self->is_log) {
        sqlite3_file *main_file = sqlite3_database_file_object(name);
        if (qp_page_file_is_ours(main_file)) {
            self->peer = (page_file *)main_file;
            self->peer->peer = self;
        }
    }
    return rc;
}

/* A journal is the layer's where its main file is encrypted. It finds that file like the log. */
static int page_vfs_open_journal(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                                 int *ret_flags)
{
    sqlite3_vfs *under = vfs->pAppData;
    page_file *self = (page_file *)file;
    sqlite3_file *main_file = sqlite3_database_file_object(name);
    sqlite3_file *below = page_vfs_below(file);
    int rc;

    assert(name != NULL);
    memset(self, 0, PAGE_VFS_BELOW_AT);
    if (!qp_page_file_is_ours(main_file) || ((page_file *)main_file)->crypt == NULL) {
        return SQLITE_CANTOPEN;
    }
    below->pMethods = NULL;
    rc = under->xOpen(under, name, below, flags, ret_flags);
    if (below->pMethods != NULL) {
        self->base.pMethods = &page_vfs_methods_1;
        self->is_journal = true;
        self->main_file = (page_file *)main_file;
        self->crypt = ((page_file *)main_file)->crypt;
    }
    return rc;
}

/* The form of the layer for connections with a key. No kind of file is left open: a log whose main
 * file is not ours is refused, and a file of several databases' commit has names in it alone. */
static int page_vfs_open_secret(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                                int *ret_flags)
{
    page_file *self = (page_file *)file;
    int rc;

    assert(file != NULL);
    self->base.pMethods = NULL;
    if (name != NULL && (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0) {
        return page_vfs_open_journal(vfs, name, file, flags, ret_flags);
    }
    if (name == NULL || (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0) {
        return qp_crypt_temp_open(vfs->pAppData, name, file, flags, ret_flags);
    }
    rc = page_vfs_open(vfs, name, file, flags, ret_flags);
    if (self->base.pMethods == NULL) {
        return rc;
    }
    self->crypt = !self->is_log        ? qp_crypt_file_new()
                  : self->peer != NULL ? self->peer->crypt
                                       : NULL;
    self->main_file = self->peer;
    if (rc == SQLITE_OK && self->crypt == NULL) {
        rc = self->is_log ? SQLITE_CANTOPEN : SQLITE_NOMEM;
    }
    return rc;
}

typedef int (*page_vfs_open_fn)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

/* The layer over one VFS: allocated once, with its name behind it, and never freed, because SQLite
 * hands out pointers to it. */
static sqlite3_vfs *page_vfs_make(sqlite3_vfs *under, const char *name, page_vfs_open_fn open)
{
    const int file_size = (int)PAGE_VFS_BELOW_AT + under->szOsFile;
    const int temp_size = qp_crypt_temp_size(under->szOsFile);
    const size_t size = strlen(name) + 1;
    sqlite3_vfs *vfs = sqlite3_malloc64(sizeof(*vfs) + size);

    assert(under != NULL);
    if (vfs == NULL) {
        return NULL;
    }
    memcpy(vfs + 1, name, size);
    *vfs = (sqlite3_vfs){.zName = (const char *)(vfs + 1), .xOpen = open};
    qp_page_pass(vfs, under);
    vfs->szOsFile = open == page_vfs_open || file_size > temp_size ? file_size : temp_size;
    return vfs;
}

/* One form of the layer over a VFS, by its name. The mutex is one that SQLite keeps for
 * applications: two threads that open the first file make one layer. */
static const char *page_vfs_of(const char *below, const char *form, page_vfs_open_fn open)
{
    sqlite3_mutex *mutex = NULL;
    sqlite3_vfs *under = NULL;
    sqlite3_vfs *vfs = NULL;
    char name[PAGE_VFS_NAME_MAX];
    int n;

    if (sqlite3_initialize() != SQLITE_OK) {
        return NULL;
    }
    under = sqlite3_vfs_find(below);
    n = under == NULL ? -1 : snprintf(name, sizeof(name), "%s:%s", form, under->zName);
    if (n < 0 || (size_t)n >= sizeof(name)) {
        return NULL;
    }
    if (under->xOpen == open) {
        return under->zName; /* this form already, by its name */
    }
    mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    sqlite3_mutex_enter(mutex);
    vfs = sqlite3_vfs_find(name);
    if (vfs == NULL) {
        vfs = page_vfs_make(under, name, open);
        if (vfs != NULL && sqlite3_vfs_register(vfs, 0) != SQLITE_OK) {
            sqlite3_free(vfs);
            vfs = NULL;
        }
    }
    sqlite3_mutex_leave(mutex);
    /* A layer of this name whose functions are not ours is that of another copy of this library. */
    return vfs != NULL && vfs->xOpen == open ? vfs->zName : NULL;
}

/* "quipu-pages:<name>" over the VFS of that name. */
const char *qp_page_vfs(const char *below)
{
    return page_vfs_of(below, PAGE_VFS_NAME, page_vfs_open);
}

/* "quipu-encrypted:<name>": a form of its own, since a VFS does not learn whether a connection has
 * a key before its file is open. */
const char *qp_page_vfs_secret(const char *below)
{
    return page_vfs_of(below, PAGE_VFS_SECRET_NAME, page_vfs_open_secret);
}

/* SQLite keeps one list of VFS for a process, by name. A second copy of libquipu in it finds the
 * first one's layer and cannot use it: the handles are laid out by the other copy. */
bool qp_page_vfs_is_taken(const char *below)
{
    const sqlite3_vfs *under = sqlite3_vfs_find(below);
    const sqlite3_vfs *vfs = NULL;
    char name[PAGE_VFS_NAME_MAX];

    if (under != NULL && under->xOpen != page_vfs_open) {
        (void)snprintf(name, sizeof(name), PAGE_VFS_NAME ":%s", under->zName);
        vfs = sqlite3_vfs_find(name);
    }
    return vfs != NULL && vfs->xOpen != page_vfs_open;
}
