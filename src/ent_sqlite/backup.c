/* Copies of a database with SQLite's backup API, and the backups that lie beside a file.
 *
 * Owns: files named `<file>.bak-...`, from their creation to their deletion.
 * Called by: src/ent/migrate_run.c before a step; maintenance.
 * Locks: reads through a second connection in one snapshot: the copy is the last committed state,
 * also while this connection holds the write lock and has begun to change things.
 * On return a copy is complete, checked and synced, or its file is gone.
 *
 *   store.db ─▶ store.db.bak-<label>-20261118T194502120000000Z
 *     O_EXCL, empty ─▶ pages in one snapshot ─▶ quick_check ─▶ its folder synced
 *     └────────────────── a failure deletes it ─────────────┘ */
#include "base/port.h"

#include "ent_sqlite/backup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "ent_sqlite/inspect.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/open_file.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

#define BACKUP_MARK ".bak-"

/* QUIPU_CORRUPT where quick_check finds something. Takes a raw handle, because backup_verify()
 * checks a copy that has no qp_sqlite. quick_check(1) stops at the first finding: the caller only
 * needs to know whether there is one. It compares no index with its table, which makes it several
 * times cheaper than integrity_check; maintenance.c runs that one. */
quipu_status qp_sqlite_check_raw(sqlite3 *db, const char *path, quipu_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    quipu_status status = QUIPU_OK;
    int rc = sqlite3_prepare_v2(db, "PRAGMA main.quick_check(1)", -1, &stmt, NULL);

    assert(db != NULL && path != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (text == NULL || strcmp(text, "ok") != 0) {
            status = qp_error_set(reterr, QUIPU_CORRUPT, "%s is damaged; restore a backup", path);
        }
    } else {
        const qp_sqlite none = {0};
        status = qp_error_set(reterr, qp_sqlite_status(&none, rc), "cannot check %s", path);
    }
    if (status != QUIPU_OK && reterr != NULL) {
        reterr->engine_code = rc;
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

/* "YYYYMMDDThhmmssnnnnnnnnnZ": sorts by time, and is a valid name on every file system. */
static quipu_status backup_stamp(quipu_time now, char ret_stamp[QP_SQLITE_BACKUP_STAMP_SIZE])
{
    char text[QUIPU_TIME_TEXT_SIZE];
    size_t n = 0;
    quipu_status status = quipu_time_format(now, text);

    assert(ret_stamp != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    for (const char *p = text; *p != '\0' && *p != '+'; p++) {
        if (*p >= '0' && *p <= '9') {
            ret_stamp[n++] = *p;
        } else if (*p == ' ') {
            ret_stamp[n++] = 'T';
        }
    }
    assert(n + 2 == QP_SQLITE_BACKUP_STAMP_SIZE);
    ret_stamp[n++] = 'Z';
    ret_stamp[n] = '\0';
    return QUIPU_OK;
}

/* The path of a new backup. The label keeps letters, digits, '-', '.' and '_'. A label is a step's
 * name, which a program chooses: a '/' in it must not lead out of the folder. The name need not be
 * unique; O_EXCL in backup_write() decides. */
static quipu_status backup_name(const char *file, const char *label, quipu_time now, qp_buf *out)
{
    char stamp[QP_SQLITE_BACKUP_STAMP_SIZE];
    quipu_status status = backup_stamp(now, stamp);

    assert(file != NULL && label != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_puts(out, file);
    qp_buf_puts(out, BACKUP_MARK);
    for (size_t i = 0; i < QP_SQLITE_BACKUP_LABEL_MAX && label[i] != '\0'; i++) {
        char lower = (char)(label[i] | 0x20);
        bool plain = (lower >= 'a' && lower <= 'z') || (label[i] >= '0' && label[i] <= '9') ||
                     label[i] == '-' || label[i] == '.' || label[i] == '_';
        qp_buf_putc(out, plain ? label[i] : '_');
    }
    qp_buf_putc(out, '-');
    qp_buf_puts(out, stamp);
    return qp_buf_status(out);
}

/* An error of the system, by errno, with advice for the causes that a user can remove. Callers pass
 * errno before any other call can change it. */
static quipu_status backup_system_error(int code, const char *path, quipu_error *reterr)
{
    bool full = code == ENOSPC || code == EDQUOT;

    assert(path != NULL);
    return qp_error_set(reterr,
                        full             ? QUIPU_FULL
                        : code == EEXIST ? QUIPU_EXISTS
                                         : QUIPU_IO,
                        "cannot write the backup %s: %s; nothing was changed", path,
                        full             ? "the disk is full, free some room"
                        : code == EACCES ? "its folder may not be written"
                        : code == EROFS  ? "the file system is read-only"
                        : code == EEXIST ? "it exists already"
                                         : "the system refused");
}

/* An error of SQLite while a copy is written. qp_sqlite_fail() does not fit: its text names the
 * database, and what cannot be written here is the copy. */
static quipu_status backup_engine_error(const qp_sqlite *self, int rc, const char *path,
                                        quipu_error *reterr)
{
    quipu_status status = qp_sqlite_status(self, rc);

    assert(rc != SQLITE_OK);
    (void)qp_error_set(reterr, status, "cannot write the backup %s: %s; nothing was changed", path,
                       status == QUIPU_FULL        ? "the disk is full, free some room"
                       : status == QUIPU_BUSY      ? "the file was busy until the deadline"
                       : status == QUIPU_CANCELLED ? "the caller cancelled the call"
                                                   : "the system refused to read or write");
    if (reterr != NULL) {
        reterr->engine_code = rc;
    }
    return status;
}

/* Copies all pages. A busy source is retried until the deadline; the interrupt is checked between
 * steps, because the backup API calls no progress handler. A step that copied pages goes on at
 * once; only a busy one sleeps. SQLITE_DONE is the only success; sqlite3_backup_finish() then
 * reports what failed while the target was committed. QP_SQLITE_BACKUP_PAGES bounds how long a
 * cancel or a deadline waits. */
static int backup_copy(qp_sqlite *self, sqlite3 *from, sqlite3 *to)
{
    int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    sqlite3_backup *copy = sqlite3_backup_init(to, "main", from, "main");
    int rc = SQLITE_OK;
    int end = SQLITE_OK;

    assert(from != NULL && to != NULL);
    if (copy == NULL) {
        return sqlite3_extended_errcode(to);
    }
    do {
        rc = sqlite3_backup_step(copy, QP_SQLITE_BACKUP_PAGES);
        if (rc == SQLITE_OK && qp_interrupt_check(&self->interrupt)) {
            rc = SQLITE_INTERRUPT;
        }
    } while (rc == SQLITE_OK ||
             ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && qp_sqlite_wait(self, deadline_ns)));
    end = sqlite3_backup_finish(copy);
    return rc == SQLITE_DONE ? end : rc;
}

/* Opens one read transaction for all steps: otherwise every commit of another process restarts the
 * copy. BEGIN alone is deferred and takes no snapshot; the read behind it does, and is what can
 * meet a busy file. The transaction ends when backup_fill() closes the handle. */
static int backup_snapshot(qp_sqlite *self, sqlite3 *from)
{
    int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    int rc = sqlite3_exec(from, "BEGIN", NULL, NULL, NULL);

    assert(from != NULL);
    if (rc != SQLITE_OK) {
        return rc;
    }
    do {
        rc = sqlite3_exec(from, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    } while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(self, deadline_ns));
    return rc;
}

/* Has the copy's pages sealed from the first one on, when the source's pages have room for it:
 * page 1, which would say so, may be written last. */
static int backup_expect(sqlite3 *from, sqlite3 *to)
{
    qp_page_state state = {.sealed = true}; /* of a database in memory, which is copied as ours */
    int reserve = -1;                       /* only asks */
    int64_t page_size = 0;
    int rc = sqlite3_file_control(from, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);

    assert(from != NULL && to != NULL);
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_query_int(from, "PRAGMA main.page_size", 0, &page_size);
    }
    (void)qp_page_vfs_state(from, &state);
    if (rc == SQLITE_OK && reserve == QP_PAGE_RESERVE && state.sealed) {
        qp_page_vfs_expect(to, (uint32_t)page_size);
    }
    return rc;
}

/* Where a copy goes, and how. */
typedef struct backup_target {
    const char *path;
    const char *vfs;    /* of the target, and of a second handle of the source */
    qp_keys *keys;      /* of the target; NULL: not encrypted */
    bool by_own_handle; /* read through the connection's own handle: nobody else has one */
} backup_target;

/* The copy of an encrypted file is encrypted with the same key, and a file key of its own. Its
 * status becomes a code of SQLite, as the steps before and behind it have. */
static int backup_unlock(const qp_sqlite *self, qp_keys *keys, sqlite3 *db)
{
    const quipu_status status = qp_sqlite_unlock(db, keys, self->path, NULL);

    assert(db != NULL);
    return status == QUIPU_OK      ? SQLITE_OK
           : status == QUIPU_NOMEM ? SQLITE_NOMEM
           : status == QUIPU_IO    ? SQLITE_IOERR
                                   : SQLITE_NOTADB;
}

/* Opens both ends and copies. The target needs no journal, because a half-written copy is deleted;
 * its commit syncs it. A database in memory has only this connection to be read through, and so has
 * a file that is locked for it alone. On return
 * both handles are closed. The target's close counts as part of the copy: an error there would
 * leave a file that only looks complete. */
static int backup_fill(qp_sqlite *self, const backup_target *target)
{
    const bool own = target->by_own_handle;
    sqlite3 *from = NULL;
    sqlite3 *to = NULL;
    int rc = SQLITE_OK;
    int closed = SQLITE_OK;

    assert(target->path != NULL);
    if (!own) {
        rc = sqlite3_open_v2(sqlite3_db_filename(self->db, "main"), &from,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, target->vfs);
    }
    if (rc == SQLITE_OK && !own) {
        rc = backup_unlock(self, self->keys, from);
    }
    if (rc == SQLITE_OK && !own) {
        rc = backup_snapshot(self, from);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_open_v2(target->path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                             target->vfs);
    }
    if (rc == SQLITE_OK) {
        rc = backup_unlock(self, target->keys, to);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL", NULL, NULL,
                          NULL);
    }
    if (rc == SQLITE_OK) {
        rc = backup_expect(own ? self->db : from, to);
    }
    if (rc == SQLITE_OK) {
        rc = backup_copy(self, own ? self->db : from, to);
    }
    closed = sqlite3_close(to);
    (void)sqlite3_close(from);
    return rc != SQLITE_OK ? rc : closed;
}

/* Opens the copy as immutable and checks it. Immutable, because a copy of a database in WAL mode
 * says so in its header: an ordinary open would create -wal and -shm files beside the backup. */
static quipu_status backup_verify(const backup_target *target, quipu_error *reterr)
{
    const char *path = target->path;
    const qp_sqlite_file immutable = {.immutable = true};
    sqlite3 *db = NULL;
    qp_buf uri;
    quipu_status status = QUIPU_OK;
    int rc = SQLITE_NOMEM;

    assert(path != NULL);
    qp_buf_init(&uri, (size_t)QP_SQLITE_PATH_MAX * 4);
    qp_sqlite_uri(path, ENT_SQLITE_READ_ONLY, &immutable, &uri);
    if (qp_buf_status(&uri) == QUIPU_OK) {
        rc = sqlite3_open_v2(qp_buf_str(&uri).p, &db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                             target->vfs);
    }
    if (rc == SQLITE_OK) {
        status = qp_sqlite_unlock(db, target->keys, path, reterr);
        status = status == QUIPU_OK ? qp_sqlite_check_raw(db, path, reterr) : status;
    } else {
        const qp_sqlite none = {0};
        status = backup_engine_error(&none, rc, path, reterr);
    }
    (void)sqlite3_close(db);
    qp_buf_free(&uri);
    return status;
}

/* The folder of a path, "." for a bare name, "/" for a file in the root; the caller frees it. NULL:
 * no memory. open_file.c has the same for its fixed buffers; here a file name of a VFS may be
 * longer. */
static char *backup_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : (slash == path ? 1 : (size_t)(slash - path));
    char *folder = qp_malloc(n + 1);

    assert(path != NULL);
    if (folder != NULL) {
        memcpy(folder, slash == NULL ? "." : path, n);
        folder[n] = '\0';
    }
    return folder;
}

/* A new file name survives a power failure only once its folder is synced; SQLite syncs the file
 * itself. EINVAL: the file system cannot sync folders. */
quipu_status qp_sqlite_sync_folder(const char *path, quipu_error *reterr)
{
    char *folder = backup_folder(path);
    quipu_status status = QUIPU_OK;
    int fd = -1;

    assert(path != NULL);
    if (folder == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a backup");
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
        status = backup_system_error(errno, path, reterr);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    qp_free(folder);
    return status;
}

/* A copy like the source. Its VFS is the connection's own, because a program that brings a VFS, to
 * encrypt or to fail on purpose in a test, means all of its files. A database in memory has one
 * without files; its copy gets our layer over the default. */
static backup_target backup_target_of(qp_sqlite *self, const char *path)
{
    const char *file = sqlite3_db_filename(self->db, "main");
    backup_target target = {.path = path, .keys = self->keys};
    sqlite3_vfs *vfs = NULL;

    assert(self->db != NULL);
    target.by_own_handle = file == NULL || file[0] == '\0';
    if (target.by_own_handle ||
        sqlite3_file_control(self->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK ||
        vfs == NULL) {
        target.vfs = qp_page_vfs(NULL);
    } else {
        target.vfs = vfs->zName;
    }
    return target;
}

/* Creates the target, which must not exist, and deletes it after a failure. The empty file is made
 * here and not by SQLite: for its mode (0600), and because O_EXCL and O_NOFOLLOW refuse a link of
 * that name. A power failure in the middle leaves an incomplete file, which no later call
 * overwrites. */
static quipu_status backup_write(qp_sqlite *self, const backup_target *target, quipu_error *reterr)
{
    const char *path = target->path;
    quipu_status status = QUIPU_OK;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = SQLITE_OK;

    assert(path != NULL);
    if (fd < 0) {
        return backup_system_error(errno, path, reterr);
    }
    (void)close(fd);
    rc = backup_fill(self, target);
    if (rc != SQLITE_OK) {
        status = backup_engine_error(self, rc, path, reterr);
    }
    if (status == QUIPU_OK) {
        status = backup_verify(target, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_sqlite_sync_folder(path, reterr);
    }
    if (status != QUIPU_OK) {
        (void)unlink(path);
    }
    return status;
}

/* The member of qp_migrator. A database in memory has no place for a backup: *ret_path is "". The
 * caller holds the write lock and may have changed rows; the copy shows the state before. */
quipu_status qp_sqlite_backup(void *conn, const char *label, quipu_time now, char *ret_path,
                              size_t size, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const char *file = sqlite3_db_filename(self->db, "main");
    quipu_status status = QUIPU_OK;
    backup_target target;
    quipu_str path;
    qp_buf name;

    assert(ret_path != NULL && size > 1);
    if (file == NULL || file[0] == '\0') {
        ret_path[0] = '\0';
        return QUIPU_OK;
    }
    qp_buf_init(&name, size - 1);
    status = backup_name(file, label, now, &name);
    path = qp_buf_str(&name);
    target = backup_target_of(self, path.p);
    status = status == QUIPU_OK ? backup_write(self, &target, reterr)
                                : qp_error_set(reterr, status, "no name for a backup of %s", file);
    if (status == QUIPU_OK) {
        memcpy(ret_path, path.p, path.n + 1);
    }
    qp_buf_free(&name);
    return status;
}

/* The member of qp_maintenance: a copy at the caller's path, which has the same limit as a
 * database's own. ":memory:" is refused: SQLite would read it as no file at all. */
quipu_status qp_sqlite_copy(void *conn, const char *path, quipu_error *reterr)
{
    const backup_target target = backup_target_of(conn, path);

    assert(path != NULL);
    if (strlen(path) >= QP_SQLITE_PATH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "the path of the backup has %zu bytes; at most %d "
                            "are allowed",
                            strlen(path), QP_SQLITE_PATH_MAX - 1);
    }
    if (strcmp(path, ":memory:") == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a backup needs the path of a file");
    }
    return backup_write(conn, &target, reterr);
}

/* For encrypt.c. The file is locked: a second handle could not read it. */
quipu_status qp_sqlite_copy_encrypted(qp_sqlite *conn, const char *path, const char *vfs,
                                      qp_keys *keys, quipu_error *reterr)
{
    const backup_target target = {path, vfs, keys, true};

    assert(keys != NULL && conn->keys == NULL);
    return backup_write(conn, &target, reterr);
}

/* A private copy that can be written: a read-only file is migrated there, in memory. Copied through
 * this connection's own handle, not through a second one: a file that is opened as immutable has no
 * locks to take. On failure the image is closed and *ret_db untouched. */
quipu_status qp_sqlite_image(void *conn, ent_db **ret_db, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    qp_sqlite *image = NULL;
    quipu_status status = qp_sqlite_open_private(&image, reterr);
    int rc;

    assert(ret_db != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    rc = backup_copy(self, self->db, image->db);
    if (rc != SQLITE_OK) {
        qp_sqlite_engine.close(image);
        return qp_sqlite_fail(self, rc, "cannot copy", reterr);
    }
    return qp_sqlite_hand_over(image, ret_db, reterr);
}

/* ---- old backups --------------------------------------------------------------------------------
 */

/* The stamp at the end of a name of the form `<base>.bak-<label>-<stamp>`; else NULL. Matches the
 * whole stamp and not only the prefix: qp_sqlite_backup_end() deletes what this accepts, and a
 * user's own "x.db.bak-old" is not ours to delete. */
static const char *backup_stamp_of(const char *name, const char *base)
{
    static const char shape[] = "ddddddddTdddddddddddddddZ";
    size_t base_n = strlen(base);
    size_t n = strlen(name);
    const char *stamp = NULL;

    assert(base_n > 0);
    if (n < base_n + strlen(BACKUP_MARK) + 1 + strlen(shape) || strncmp(name, base, base_n) != 0 ||
        strncmp(name + base_n, BACKUP_MARK, strlen(BACKUP_MARK)) != 0) {
        return NULL;
    }
    stamp = name + n - strlen(shape);
    for (size_t i = 0; shape[i] != '\0'; i++) {
        bool digit = stamp[i] >= '0' && stamp[i] <= '9';
        if (shape[i] == 'd' ? !digit : stamp[i] != shape[i]) {
            return NULL;
        }
    }
    return stamp[-1] == '-' ? stamp : NULL;
}

/* For qsort(): by the stamp, which both names end with; the label before it does not count. Stamps
 * have one length and begin with the year, so that comparing bytes compares times. */
static int backup_newest_first(const void *a, const void *b)
{
    const char *x = *(const char *const *)a;
    const char *y = *(const char *const *)b;

    assert(strlen(x) >= QP_SQLITE_BACKUP_STAMP_SIZE && strlen(y) >= QP_SQLITE_BACKUP_STAMP_SIZE);
    return strcmp(y + strlen(y) + 1 - QP_SQLITE_BACKUP_STAMP_SIZE,
                  x + strlen(x) + 1 - QP_SQLITE_BACKUP_STAMP_SIZE);
}

/* Names of the backups in a folder, newest first. backup_names_free() frees the array and the
 * names. */
typedef struct backup_names {
    char **items;
    size_t n;
} backup_names;

/* Frees also a list that could not be read completely: n counts only names that were copied. */
static void backup_names_free(backup_names *names)
{
    assert(names->n == 0 || names->items != NULL);
    for (size_t i = 0; i < names->n; i++) {
        qp_free(names->items[i]);
    }
    qp_free(names->items);
}

/* QUIPU_IO: `dir` is NULL, the folder cannot be read. Names come in the order of the folder. Beyond
 * the limit of 4096, which names are left out is undefined. */
static quipu_status backup_names_read(DIR *dir, const char *base, backup_names *ret)
{
    assert(base != NULL);
    *ret = (backup_names){qp_calloc(QP_SQLITE_BACKUPS_LISTED_MAX, sizeof(char *)), 0};
    if (ret->items == NULL || dir == NULL) {
        return ret->items == NULL ? QUIPU_NOMEM : QUIPU_IO;
    }
    for (struct dirent *entry = readdir(dir);
         entry != NULL && ret->n < QP_SQLITE_BACKUPS_LISTED_MAX; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name) + 1;
        char *copy;
        if (backup_stamp_of(entry->d_name, base) == NULL) {
            continue;
        }
        copy = qp_malloc(size);
        if (copy == NULL) {
            return QUIPU_NOMEM;
        }
        memcpy(copy, entry->d_name, size);
        ret->items[ret->n++] = copy;
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), backup_newest_first);
    return QUIPU_OK;
}

/* The file name of a path. SQLite's file name is absolute, but a VFS may return a bare name. */
static const char *backup_base(const char *file)
{
    const char *slash = strrchr(file, '/');

    assert(file != NULL);
    return slash == NULL ? file : slash + 1;
}

/* After the step: deletes all but the newest `keep` backups, with 0 only the one just made. Errors
 * are ignored: the step has succeeded. unlinkat() with the folder's descriptor deletes only what
 * was listed, also when the folder is renamed meanwhile. */
void qp_sqlite_backup_end(void *conn, const char *path, uint32_t keep)
{
    qp_sqlite *self = conn;
    const char *file = sqlite3_db_filename(self->db, "main");
    backup_names names = {NULL, 0};
    char *folder = NULL;
    DIR *dir = NULL;

    assert(path != NULL);
    if (path[0] == '\0' || file == NULL) {
        return;
    }
    if (keep == 0) {
        (void)unlink(path);
        return;
    }
    folder = backup_folder(file);
    dir = folder == NULL ? NULL : opendir(folder);
    if (backup_names_read(dir, backup_base(file), &names) == QUIPU_OK && dir != NULL) {
        int fd = dirfd(dir);
        for (size_t i = keep; i < names.n && fd >= 0; i++) {
            (void)unlinkat(fd, names.items[i], 0);
        }
    }
    backup_names_free(&names);
    if (dir != NULL) {
        (void)closedir(dir);
    }
    qp_free(folder);
}

/* Passes each path to `fn`, oldest first. A status of `fn` ends the list and is returned. */
static quipu_status backup_report(const char *folder, const backup_names *names, qp_report_fn fn,
                                  void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_buf path;

    assert(fn != NULL);
    qp_buf_init(&path, (size_t)2 * QP_SQLITE_PATH_MAX);
    for (size_t i = names->n; i > 0 && status == QUIPU_OK; i--) {
        qp_buf_reset(&path);
        qp_buf_puts(&path, folder);
        qp_buf_putc(&path, '/');
        qp_buf_puts(&path, names->items[i - 1]);
        status = qp_buf_status(&path);
        status = status == QUIPU_OK ? fn(ctx, qp_buf_str(&path))
                                    : qp_error_set(reterr, status, "no memory for a path");
    }
    qp_buf_free(&path);
    return status;
}

/* The member of qp_maintenance: lists the backups of this file; none for a database in memory. Also
 * lists those of earlier programs, as long as the name has its form. */
quipu_status qp_sqlite_backups(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const char *file = sqlite3_db_filename(self->db, "main");
    backup_names names = {NULL, 0};
    quipu_status status = QUIPU_OK;
    char *folder = NULL;
    DIR *dir = NULL;

    assert(fn != NULL);
    if (file == NULL || file[0] == '\0') {
        return QUIPU_OK;
    }
    folder = backup_folder(file);
    dir = folder == NULL ? NULL : opendir(folder);
    status = folder == NULL ? QUIPU_NOMEM : backup_names_read(dir, backup_base(file), &names);
    status = status == QUIPU_OK
                 ? backup_report(folder, &names, fn, ctx, reterr)
                 : qp_error_set(reterr, status, "cannot look for backups beside %s", file);
    backup_names_free(&names);
    if (dir != NULL) {
        (void)closedir(dir);
    }
    qp_free(folder);
    return status;
}
