/* One file, one log. SQLite finds the write-ahead log and its shared memory by the file's name. Two
 * names for one file, or two files that had one name, part what belongs together: two writers with
 * two logs destroy the file, and a log is recovered into a file that it was not written for.
 *
 * Owns: nothing; it asks the kernel which process holds which of SQLite's own locks. Called by:
 * open.c, when SQLite has opened the file and before it reads: this connection holds no lock yet.
 * open_file.c refuses a file with several hard links before that. Locks: none is taken. On return
 * no descriptor of the main file was closed, because POSIX would drop this process's locks on it.
 *
 * A connection in WAL mode holds a shared lock on the main file as long as it is open, and one on
 * the shared memory of its log (SQLite's "dead man's switch"). So:
 *
 *   main file locked    our log in use    meaning
 *   no                  no                nobody else has the file open
 *   yes                 yes               the others use the log that we would use
 *   yes                 no                they have another log: a bind mount of the file alone,
 *                                         or the file was renamed while it was open
 *   no                  yes               the log is of another file: ours was put in its place
 *
 * What is replaced later is noticed by writers (qp_sqlite_check_place()).
 *
 * The offsets of the locks are part of SQLite's file format: all its versions must agree on them.
 * Linux only; elsewhere everything counts as the first line. */
#include "base/port.h"

#include "ent_sqlite/identity.h"

#include <assert.h>

#include "base/error.h"
#include "base/thread.h"

#if QP_LINUX

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ent_sqlite/crypt.h"
#include "ent_sqlite/page_seal.h"

#ifdef F_OFD_GETLK
#define IDENTITY_GETLK F_OFD_GETLK
#else
#define IDENTITY_GETLK 36 /* Linux's number; the C library names it only under _GNU_SOURCE */
#endif

#define IDENTITY_SHARED_AT 0x40000002 /* the bytes of a shared lock on a main file */
#define IDENTITY_SHARED_SIZE 510
#define IDENTITY_SWITCH_AT 128 /* the byte of the dead man's switch in -shm */
#define IDENTITY_SUFFIX "-shm"
#define IDENTITY_WAIT_MS 5

/* The holders of the two locks. */
typedef struct identity_view {
    bool main_locked;
    bool log_used;
    bool log_is_ours; /* this process has the log open */
} identity_view;

/* Whether a descriptor, by its name in that folder, belongs to this file. Its number would not do:
 * other threads open and close descriptors meanwhile. */
static bool identity_is(DIR *dir, const char *name, const struct stat *file)
{
    const int folder = dirfd(dir);
    struct stat info;

    assert(folder >= 0 && file != NULL);
    return fstatat(folder, name, &info, 0) == 0 && info.st_dev == file->st_dev &&
           info.st_ino == file->st_ino;
}

/* A descriptor of this process for the file, or -1. SQLite has one and does not show it; any will
 * do, because it is only asked about locks. *ret_count is how many there are, at most 2: each
 * connection has one. */
static int identity_find(const struct stat *file, int *ret_count)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;
    int found = -1;

    assert(file != NULL);
    *ret_count = 0;
    while (dir != NULL && *ret_count < 2 && (entry = readdir(dir)) != NULL) {
        char *end = NULL;
        const long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == '\0' && identity_is(dir, entry->d_name, file)) {
            found = (int)fd;
            ++*ret_count;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return found;
}

/* Whether somebody holds a shared lock there, this process included: the question is asked for an
 * open file description, to which a process's own locks are another's. An exclusive lock is a
 * moment in which SQLite reports the file as busy. */
static bool identity_locked(int fd, off_t at, off_t size)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = size};

    assert(fd >= 0);
    return fcntl(fd, IDENTITY_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
}

/* Whether the shared memory that we would use is in use. If this process has it open it is; then it
 * must not be opened and closed here. */
static void identity_look_log(const char *shm, identity_view *view)
{
    struct stat info;
    int count = 0;
    int fd;

    assert(shm != NULL && !view->log_used);
    if (stat(shm, &info) != 0) {
        return;
    }
    view->log_is_ours = identity_find(&info, &count) >= 0;
    view->log_used = view->log_is_ours;
    if (view->log_is_ours) {
        return;
    }
    fd = open(shm, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        view->log_used = true; /* no right to look: SQLite reports what it cannot do */
        return;
    }
    view->log_used = identity_locked(fd, IDENTITY_SWITCH_AT, 1);
    (void)close(fd);
}

/* Whether a file has a log, by its first bytes. An encrypted one always has. */
static bool identity_logs(const uint8_t header[QP_PAGE_HEADER])
{
    qp_crypt_params params;

    assert(header != NULL);
    return qp_page_header_read(header).logs ||
           qp_crypt_block_read(header, QP_PAGE_HEADER, &params) != QP_CRYPT_NONE;
}

/* Both locks. Some differences mean nothing: a file outside of WAL mode has no log, and its users
 * have a lock and nothing else; without a descriptor to ask, as without /proc, nothing is known;
 * and a process that has the log open may have lost its lock on the main file, because POSIX drops
 * it when any part of the process reads the file and closes it. The descriptor is looked up each
 * time: another connection may close the one that was found. */
static identity_view identity_look(const struct stat *file, const char *shm)
{
    uint8_t header[QP_PAGE_HEADER] = {0};
    identity_view view = {0};
    int count = 0;
    const int fd = identity_find(file, &count);

    identity_look_log(shm, &view);
    /* The connection that asks has the only descriptor of this file, so that the connection of this
     * process that has the log is of another one. */
    if (view.log_is_ours && count == 1) {
        return (identity_view){.log_used = true, .log_is_ours = true};
    }
    view.main_locked = fd >= 0 && identity_locked(fd, IDENTITY_SHARED_AT, IDENTITY_SHARED_SIZE);
    if (view.main_locked != view.log_used &&
        (fd < 0 || view.log_is_ours ||
         pread(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
         !identity_logs(header))) {
        view.log_used = view.main_locked;
    }
    assert(fd >= 0 || !view.main_locked);
    return view;
}

/* A view that does not fit may be a moment in which another process opens or closes the file: it
 * takes the lock on the main file first and releases it last. */
quipu_status qp_sqlite_check_identity(qp_sqlite *conn, quipu_error *reterr)
{
    const int64_t until_ns = qp_clock_ns() + QP_SQLITE_IDENTITY_MS * QP_NS_PER_MS;
    const char *file = sqlite3_db_filename(conn->db, "main");
    char shm[QP_SQLITE_PATH_MAX + sizeof(IDENTITY_SUFFIX)];
    const size_t n = file != NULL ? strlen(file) : 0;
    struct stat info;
    identity_view view;

    assert(conn->db != NULL);
    if (n == 0 || n >= QP_SQLITE_PATH_MAX || stat(file, &info) != 0) {
        return QUIPU_OK;
    }
    (void)snprintf(shm, sizeof(shm), "%s" IDENTITY_SUFFIX, file);
    view = identity_look(&info, shm);
    while (view.main_locked != view.log_used && qp_clock_ns() < until_ns) {
        const struct timespec pause = {.tv_nsec = IDENTITY_WAIT_MS * QP_NS_PER_MS};
        (void)nanosleep(&pause, NULL);
        view = identity_look(&info, shm);
    }
    if (view.main_locked == view.log_used) {
        return QUIPU_OK;
    }
    return qp_error_set(
        reterr, QUIPU_UNSUPPORTED,
        view.main_locked
            ? "cannot open %s: a program has this file open under another name, with a log beside "
              "that name (a bind mount of the file alone, or a rename); two logs would destroy it: "
              "mount or share its whole folder, and open it by one name"
            : "cannot open %s: the log beside it is in use for another file, which this one has "
              "replaced; end the programs that have the old file open first",
        conn->path);
}

#else

quipu_status qp_sqlite_check_identity(qp_sqlite *conn, quipu_error *reterr)
{
    assert(conn->db != NULL);
    (void)conn;
    (void)reterr;
    return QUIPU_OK;
}

#endif

/* By the system's inode numbers: SQLite's own question, which costs one stat(). A database without
 * a path is nowhere. */
quipu_status qp_sqlite_check_place(qp_sqlite *conn, quipu_error *reterr)
{
    const char *file = NULL;
    const int64_t now_ns = qp_clock_ns();
    int moved = 0;

    assert(sqlite3_get_autocommit(conn->db) != 0); /* nothing is to be rolled back */
    if (now_ns < conn->place_at) {
        return QUIPU_OK;
    }
    file = sqlite3_db_filename(conn->db, "main");
    if (file != NULL && file[0] != '\0' &&
        sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
        moved != 0) {
        return qp_error_set(reterr, QUIPU_IO,
                            "cannot write to %s: the file was replaced, moved or deleted while it "
                            "was open, and nobody would see what is written; open it again",
                            conn->path);
    }
    conn->place_at = now_ns + QP_SQLITE_PLACE_MS * QP_NS_PER_MS;
    return QUIPU_OK;
}
