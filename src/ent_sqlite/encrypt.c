/* A plain file becomes an encrypted one, in a copy that takes its place.
 *
 *     store.db       store.db-encrypting                  a crash here leaves
 *     plain          a copy, encrypted, incomplete        the plain file; the next call begins anew
 *     plain          the copy, checked, on the disk       the same
 *     encrypted ◀──▶ plain                                the encrypted file; the next call ends it
 *     encrypted      zeros                                the same
 *     encrypted      -                                    (done)
 *
 * Owns: the file `<path>-encrypting`. Called by: src/front, which has closed the store; no other
 * connection of this process has it. Locks: SQLite's exclusive lock on the plain file, from before
 * the copy until its text is overwritten. A program that waits for it then finds a file of zeros,
 * which is not a database. On return nothing plain is left that this process can reach: the file,
 * its log and its journal are overwritten. Blocks that the file system freed or moved before cannot
 * be overwritten. */
#include "base/port.h"

#include "ent_sqlite/encrypt.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if QP_LINUX
#include <sys/syscall.h>
#endif

#include "base/error.h"
#include "ent/db.h" /* IWYU pragma: keep: what an ent_db is */
#include "ent_sqlite/backup.h"
#include "ent_sqlite/page_vfs.h"

#define ENCRYPT_SUFFIX "-encrypting"
#define ENCRYPT_NAME_MAX (QP_SQLITE_PATH_MAX + 16)
#define ENCRYPT_BLOCK 65536

/* The plain file and what takes its place. */
typedef struct encrypt_place {
    const char *path; /* as SQLite resolved it: no symbolic link */
    char copy[ENCRYPT_NAME_MAX];
    int plain; /* a descriptor of the plain file, or -1: closed behind SQLite's, whose locks a close
                * would drop */
} encrypt_place;

/* The length was checked: by encrypt_places(), and ENCRYPT_NAME_MAX has room for any suffix. */
static void encrypt_name(const char *path, const char *suffix, char ret[ENCRYPT_NAME_MAX])
{
    const int n = snprintf(ret, ENCRYPT_NAME_MAX, "%s%s", path, suffix);

    assert(n > 0 && n < ENCRYPT_NAME_MAX);
    (void)n;
}

/* By errno, which callers have not changed since the call that failed. */
static quipu_status encrypt_failed(const char *what, const char *path, quipu_error *reterr)
{
    const int code = errno;
    const bool full = code == ENOSPC || code == EDQUOT;

    assert(what != NULL);
    return qp_error_set(reterr, full ? QUIPU_FULL : QUIPU_IO, "%s %s: %s", what, path,
                        full             ? "the disk is full, free some room"
                        : code == EACCES ? "its folder may not be written"
                        : code == EEXIST ? "it is not a file of this store"
                                         : "the system refused");
}

/* ---- overwriting ----------------------------------------------------------------------------- */

/* Zeros over the whole file, on the disk. */
static bool encrypt_zero(int fd)
{
    static const char zeros[ENCRYPT_BLOCK];
    struct stat info;
    off_t at = 0;

    if (fstat(fd, &info) != 0) {
        return false;
    }
    while (at < info.st_size) {
        const off_t left = info.st_size - at;
        const ssize_t n =
            pwrite(fd, zeros, left < ENCRYPT_BLOCK ? (size_t)left : sizeof(zeros), at);
        if (n <= 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
    }
    assert(at >= info.st_size);
    return fsync(fd) == 0;
}

/* Whether this is a file that has no other name: a user that may write to the folder could have
 * linked somebody else's file there. */
static bool encrypt_is_ours(int fd)
{
    struct stat info;

    assert(fd >= 0);
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
}

/* Overwrites and deletes a file of this name; a missing one is fine. It does not wait for the
 * reader of a pipe. O_NOFOLLOW and encrypt_is_ours() refuse a link that somebody left under the
 * name: this process may be allowed to write to files that he is not. */
static bool encrypt_remove(const char *path)
{
    const int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool done;

    assert(path != NULL);
    if (fd < 0) {
        const bool other = errno == ELOOP || errno == ENXIO || errno == EISDIR;
        errno = other ? EEXIST : errno;
        return errno == ENOENT;
    }
    if (encrypt_is_ours(fd)) {
        done = encrypt_zero(fd);
        (void)close(fd);
        return done && unlink(path) == 0;
    }
    (void)close(fd);
    errno = EEXIST;
    return false;
}

/* Removes the files of an earlier, interrupted call: the copy or the plain file, and SQLite's files
 * beside it. */
static bool encrypt_remove_left(const encrypt_place *place)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
    char name[ENCRYPT_NAME_MAX + 8];
    int failed = 0;

    assert(place->copy[0] != '\0');
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", place->copy, suffixes[i]);
        if (!encrypt_remove(name)) {
            failed = errno;
        }
    }
    errno = failed;
    return failed == 0;
}

/* ---- the plain file, for this process alone -------------------------------------------------- */

/* Asks SQLite to keep the file without a log. False: it still has one, because somebody reads. */
static int encrypt_leave_log(qp_sqlite *conn, bool *ret_left)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, "PRAGMA journal_mode=DELETE", -1, &stmt, NULL);

    assert(ret_left != NULL);
    *ret_left = false;
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const char *mode = (const char *)sqlite3_column_text(stmt, 0);
        *ret_left = mode != NULL && strcmp(mode, "delete") == 0;
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Takes the exclusive lock, which needs that nobody else has the file open, and moves the log into
 * the file. SQLite holds the lock until the connection is closed. Leaving the log fails while
 * somebody else has the file open, and is tried again until the deadline; the file is as it was
 * then. */
static quipu_status encrypt_lock(qp_sqlite *conn, quipu_error *reterr)
{
    const int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    bool left = false;
    int rc = sqlite3_exec(conn->db, "PRAGMA locking_mode=EXCLUSIVE", NULL, NULL, NULL);

    assert(conn->keys == NULL);
    do {
        rc = rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY ? encrypt_leave_log(conn, &left) : rc;
    } while ((rc == SQLITE_OK ? !left : (rc & 0xff) == SQLITE_BUSY) &&
             qp_sqlite_wait(conn, deadline_ns));
    if ((rc == SQLITE_OK && !left) || (rc & 0xff) == SQLITE_BUSY) {
        return qp_error_set(reterr, QUIPU_BUSY,
                            "cannot encrypt %s: a program has it open; end it first, nothing was "
                            "changed",
                            conn->path);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(conn, rc, "cannot encrypt", reterr);
}

/* Overwrites the log, which SQLite has deleted, by the descriptor that was opened before, and the
 * journal, which SQLite keeps under an exclusive lock. Without OFF it would delete the journal when
 * it closes the file, by a name that is the encrypted file's by then. False also where the log
 * could not be deleted: SQLite uses it again. */
static bool encrypt_erase_beside(const qp_sqlite *conn, const encrypt_place *place, int log)
{
    char name[ENCRYPT_NAME_MAX];
    bool erased;

    encrypt_name(place->path, "-wal", name);
    if (access(name, F_OK) == 0) {
        return false;
    }
    erased = (log < 0 || encrypt_zero(log)) &&
             sqlite3_exec(conn->db, "PRAGMA journal_mode=OFF", NULL, NULL, NULL) == SQLITE_OK;
    encrypt_name(place->path, "-journal", name);
    assert(place->plain >= 0);
    return erased && encrypt_remove(name);
}

/* ---- the copy -------------------------------------------------------------------------------- */

/* Keeps the copy with a log, as every store. */
static int encrypt_use_log(const encrypt_place *place, const char *vfs, qp_keys *keys)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(place->copy, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, vfs);
    int closed;

    assert(keys != NULL);
    if (rc == SQLITE_OK && qp_sqlite_unlock(db, keys, place->copy, NULL) != QUIPU_OK) {
        rc = SQLITE_NOTADB;
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(db, "PRAGMA synchronous=FULL; PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    }
    closed = sqlite3_close(db);
    return rc != SQLITE_OK ? rc : closed;
}

/* Gives the copy the owner and the mode of the plain file, on the disk. */
static bool encrypt_like_plain(const encrypt_place *place)
{
    const int fd = open(place->copy, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct stat plain;
    struct stat copy;
    bool ok;

    assert(place->plain >= 0);
    ok = fd >= 0 && fstat(place->plain, &plain) == 0 && fstat(fd, &copy) == 0;
    if (ok && (plain.st_uid != copy.st_uid || plain.st_gid != copy.st_gid)) {
        ok = fchown(fd, plain.st_uid, plain.st_gid) == 0;
    }
    ok = ok && fchmod(fd, plain.st_mode & 07777) == 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

/* Makes an encrypted copy, whole and on the disk. It replaces the copy of an interrupted call. */
static quipu_status encrypt_copy(qp_sqlite *conn, const encrypt_place *place, const char *vfs,
                                 qp_keys *keys, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(conn->keys == NULL);
    if (!encrypt_remove_left(place)) {
        return encrypt_failed("cannot replace", place->copy, reterr);
    }
    status = qp_sqlite_copy_encrypted(conn, place->copy, vfs, keys, reterr);
    if (status == QUIPU_OK && encrypt_use_log(place, vfs, keys) != SQLITE_OK) {
        status = encrypt_failed("cannot prepare", place->copy, reterr);
    }
    if (status == QUIPU_OK && !encrypt_like_plain(place)) {
        status =
            encrypt_failed("cannot give the owner and mode of the store to", place->copy, reterr);
    }
    if (status != QUIPU_OK) {
        (void)unlink(place->copy);
    }
    return status;
}

/* Puts the copy in the place of the plain file. Linux swaps their names, so that the plain one can
 * be found again after a crash; elsewhere, and where the file system cannot, it has no name. */
static bool encrypt_swap(const encrypt_place *place)
{
    assert(place->plain >= 0);
#if QP_LINUX && defined(SYS_renameat2)
    if (syscall(SYS_renameat2, AT_FDCWD, place->copy, AT_FDCWD, place->path, 2) == 0) {
        return true; /* 2: RENAME_EXCHANGE, which the C library names only under _GNU_SOURCE */
    }
#endif
    return rename(place->copy, place->path) == 0;
}

/* The plain text is overwritten only when the encrypted file has its name on the disk. A crash
 * before that leaves two files of which one is plain; qp_sqlite_encrypt_end() finds it by its name
 * and overwrites it. */
static quipu_status encrypt_replace(const encrypt_place *place, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (!encrypt_swap(place)) {
        status = encrypt_failed("cannot replace", place->path, reterr);
        (void)unlink(place->copy);
        return status;
    }
    status = qp_sqlite_sync_folder(place->path, reterr);
    if (status == QUIPU_OK && !encrypt_zero(place->plain)) {
        status =
            qp_error_set(reterr, QUIPU_IO,
                         "%s is encrypted, but its plain text could not be overwritten: repeat "
                         "the call",
                         place->path);
    }
    return status;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Through SQLite's descriptor: to open and close another one would drop the process's locks. */
quipu_status qp_sqlite_is_encrypted(const char *path, const ent_sqlite_options *options, bool *ret,
                                    quipu_error *reterr)
{
    const char *vfs = qp_page_vfs(options->vfs);
    sqlite3 *db = NULL;

    assert(path != NULL && ret != NULL);
    if (vfs == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", path);
    }
    *ret =
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, vfs) == SQLITE_OK &&
        qp_page_vfs_is_encrypted(db);
    (void)sqlite3_close(db);
    return QUIPU_OK;
}

/* Everything under the lock. The order is what makes it safe:
 *
 *   1  open the log           its name goes with the next step, its bytes would stay
 *   2  exclusive lock         SQLite moves the log into the file and deletes it
 *   3  erase beside           zeros over log and journal
 *   4  copy, encrypted        on the disk before
 *   5  replace                the names change places, and the plain pages become zeros */
static quipu_status encrypt_locked(qp_sqlite *conn, encrypt_place *place,
                                   const ent_sqlite_options *options, qp_keys *keys,
                                   quipu_error *reterr)
{
    char log_name[ENCRYPT_NAME_MAX];
    quipu_status status = QUIPU_OK;
    int log = -1;

    encrypt_name(place->path, "-wal", log_name);
    log = open(log_name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    status = encrypt_lock(conn, reterr);
    if (status == QUIPU_OK) {
        place->plain = open(place->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (place->plain < 0 || !encrypt_erase_beside(conn, place, log)) {
            status = encrypt_failed("cannot encrypt", place->path, reterr);
        }
    }
    if (log >= 0) {
        (void)close(log);
    }
    if (status == QUIPU_OK) {
        status = encrypt_copy(conn, place, qp_page_vfs_secret(options->vfs), keys, reterr);
    }
    return status == QUIPU_OK ? encrypt_replace(place, reterr) : status;
}

/* The path of a connection's file as SQLite resolved it, and the name of the copy beside it. */
static quipu_status encrypt_places(const ent_db *db, char ret_path[QP_SQLITE_PATH_MAX],
                                   encrypt_place *ret, quipu_error *reterr)
{
    const qp_sqlite *conn = db->conn;
    const char *name = sqlite3_db_filename(conn->db, "main");
    const size_t n = name != NULL ? strlen(name) : 0;

    if (n == 0 || n >= QP_SQLITE_PATH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the path of %s is too long", conn->path);
    }
    memcpy(ret_path, name, n + 1);
    *ret = (encrypt_place){.path = ret_path, .plain = -1};
    encrypt_name(ret_path, ENCRYPT_SUFFIX, ret->copy);
    return QUIPU_OK;
}

/* The connection is closed before the descriptor of the plain file: the close of a descriptor drops
 * all locks that this process has on the file. After a swap the name of the copy is that of the
 * zeros, and is deleted; after a plain rename(2) it is gone already. */
quipu_status qp_sqlite_encrypt(const char *path, const ent_sqlite_options *options, qp_keys *keys,
                               quipu_error *reterr)
{
    char resolved[QP_SQLITE_PATH_MAX];
    encrypt_place place = {.path = path, .plain = -1};
    ent_db *db = NULL;
    quipu_status status = qp_sqlite_open(path, options, NULL, &db, reterr);

    assert(keys != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    status = encrypt_places(db, resolved, &place, reterr);
    if (status == QUIPU_OK) {
        status = encrypt_locked(db->conn, &place, options, keys, reterr);
    }
    ent_close(db);
    if (place.plain >= 0) {
        (void)close(place.plain);
    }
    if (status == QUIPU_OK && unlink(place.copy) != 0 && errno != ENOENT) {
        status = encrypt_failed("cannot delete", place.copy, reterr);
    }
    return status;
}

/* The file is encrypted. Opening it proves that the key is its own, before anything that lies
 * beside it is overwritten. */
quipu_status qp_sqlite_encrypt_end(const char *path, const ent_sqlite_options *options,
                                   qp_keys *keys, quipu_error *reterr)
{
    char resolved[QP_SQLITE_PATH_MAX];
    encrypt_place place = {.path = path, .plain = -1};
    ent_db *db = NULL;
    quipu_status status = qp_sqlite_open(path, options, keys, &db, reterr);

    assert(keys != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    status = encrypt_places(db, resolved, &place, reterr);
    ent_close(db);
    if (status == QUIPU_OK && !encrypt_remove_left(&place)) {
        status = encrypt_failed("cannot overwrite and delete", place.copy, reterr);
    }
    return status;
}
