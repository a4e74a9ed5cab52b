/* Whose log lies beside a file. SQLite finds the log by name and recovers every commit in it whose
 * checksums fit, also into a file that was put there since: a backup that was copied over a store
 * whose log a crash left becomes a mixture of both.
 *
 *     store.db        page 1 states the file's id
 *     store.db-wal    frames hold pages that were read from a file and changed: they have its id
 *
 * Owns: a descriptor of the log while it looks. The main file is read through SQLite's descriptor:
 * POSIX drops the process's locks on a file when any descriptor of it is closed. Called by: open.c,
 * before SQLite reads anything. Locks: none. Another process may write to the log meanwhile, with
 * the same id. On return nothing is changed. Evidence that proves nothing is accepted: a damaged
 * page 1, files and pages without an id, frames that recovery does not read either. */
#include "base/port.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "ent_sqlite/identity.h"
#include "ent_sqlite/page_frame.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

#define LOG_OWNER_SIZE_AT 8 /* the page size, in the log's header: "WAL-mode File Format" */
#define LOG_OWNER_SALTS_AT 16
#define LOG_OWNER_FRAME_SALTS_AT 8
#define LOG_OWNER_SALTS 8

/* The id that a file states, 0: none. `*ret_page` is a page of its size, for sqlite3_free(). */
static uint64_t log_owner_file(sqlite3 *db, uint8_t **ret_page, uint32_t *ret_size)
{
    uint8_t bytes[QP_PAGE_HEADER] = {0};
    qp_page_header header = {0};

    assert(db != NULL && *ret_page == NULL);
    if (qp_page_vfs_read_raw(db, 1, sizeof(bytes), bytes) != SQLITE_OK) {
        return 0;
    }
    header = qp_page_header_read(bytes);
    if (!header.valid || header.reserve != QP_PAGE_RESERVE) {
        return 0;
    }
    *ret_size = header.page_size;
    *ret_page = sqlite3_malloc64(header.page_size);
    if (*ret_page == NULL ||
        qp_page_vfs_read_raw(db, 1, header.page_size, *ret_page) != SQLITE_OK ||
        qp_page_judge(*ret_page, header.page_size, 1) != QP_PAGE_FITS) {
        return 0;
    }
    return qp_page_file_id(*ret_page, header.page_size);
}

static bool log_owner_read(int fd, void *to, size_t size, off_t at)
{
    assert(fd >= 0 && size > 0);
    return pread(fd, to, size, at) == (ssize_t)size;
}

/* Whether recovery would read the frame at `at`: it has the log's salts and continues the checksum
 * `sum`, which becomes its own. */
static bool log_owner_next(int fd, const uint8_t *log, uint8_t *sum, uint8_t *page, uint32_t size,
                           off_t at)
{
    uint8_t frame[QP_PAGE_FRAME_HEADER];
    const bool valid =
        log_owner_read(fd, frame, sizeof(frame), at) &&
        memcmp(frame + LOG_OWNER_FRAME_SALTS_AT, log + LOG_OWNER_SALTS_AT, LOG_OWNER_SALTS) == 0 &&
        log_owner_read(fd, page, size, at + QP_PAGE_FRAME_HEADER) &&
        qp_page_frame_continues(sum, log, frame, page, size);

    assert(at >= QP_PAGE_LOG_HEADER);
    if (valid) {
        memcpy(sum, frame + QP_PAGE_FRAME_HEADER - QP_PAGE_FRAME_SUM, QP_PAGE_FRAME_SUM);
    }
    return valid;
}

/* The id in the first frame that has one, 0: none has. `page` is room for one page. */
static uint64_t log_owner_log(int fd, uint8_t *page, uint32_t size)
{
    uint8_t log[QP_PAGE_LOG_HEADER];
    uint8_t sum[QP_PAGE_FRAME_SUM];
    uint64_t id = 0;
    off_t at = QP_PAGE_LOG_HEADER;

    assert(page != NULL);
    if (!log_owner_read(fd, log, sizeof(log), 0) || qp_page_u32(log + LOG_OWNER_SIZE_AT) != size) {
        return 0;
    }
    memcpy(sum, log + QP_PAGE_LOG_HEADER - QP_PAGE_FRAME_SUM, QP_PAGE_FRAME_SUM);
    while (id == 0 && log_owner_next(fd, log, sum, page, size, at)) {
        id = qp_page_file_id(page, size);
        at += (off_t)QP_PAGE_FRAME_HEADER + (off_t)size;
    }
    return id;
}

/* Usually one frame is read: the first one that a process changed has the id already. */
quipu_status qp_sqlite_check_log(qp_sqlite *conn, quipu_error *reterr)
{
    const char *file = sqlite3_db_filename(conn->db, "main");
    uint8_t *page = NULL;
    uint32_t size = 0;
    uint64_t theirs = 0;
    uint64_t ours = 0;
    int fd = -1;

    assert(conn->db != NULL);
    /* The log of another encrypted file does not decrypt: its frames say nothing here. */
    if (file == NULL || file[0] == '\0' || conn->keys != NULL) {
        return QUIPU_OK;
    }
    fd = open(sqlite3_filename_wal(file), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return QUIPU_OK;
    }
    ours = log_owner_file(conn->db, &page, &size);
    theirs = ours != 0 ? log_owner_log(fd, page, size) : 0;
    (void)close(fd);
    sqlite3_free(page);
    if (theirs == 0 || theirs == ours) {
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "cannot open %s: the log beside it (%s-wal) was written for another file, "
                        "which this one has replaced; move the log and the -shm file away to go on "
                        "with this file, or put the other file back",
                        conn->path, conn->path);
}
