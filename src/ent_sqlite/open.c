/* Opening a SQLite file and setting the connection up; waiting for locks; the engine's function
 * table.
 *
 * Owns: struct qp_sqlite from its allocation to its end, and the connection's PRAGMAs.
 * Called by: src/front and users of include/ent/sqlite.h; backup.c for private databases.
 * Locks: opening takes none for longer than a read; the busy handler decides how long a call waits.
 * On return the connection has foreign keys on, extended result codes and our SQL functions, and a
 * damaged file has failed already.
 *
 *   path checked, file made ─▶ sqlite3_open_v2() through the layer ─▶ key ─▶ one name, one log
 *   (open_file.c)                                                             (identity.c)
 *      ─▶ busy handler, functions, tokenizer ─▶ PRAGMAs ─▶ an empty file: reserve, log
 *                                                          any other: its schema is read */
#include "base/port.h"

#include "ent_sqlite/open.h"

#include <assert.h>
#include <string.h>

#include <ent/sqlite.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/db.h"
#include "ent_sqlite/identity.h"
#include "ent_sqlite/open_file.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"
#include "ent_sqlite/search.h"
#include "ent_sqlite/stmt.h"

#define OPEN_MEMORY ":memory:"
#define OPEN_VERSION_AT 18 /* offset of the write version in the file's header... */
#define OPEN_VERSION_WAL 2 /* ...and its value for a write-ahead log */
#define OPEN_FLAGS (ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST | ENT_SQLITE_NO_CHECKSUMS)
#define OPEN_WAIT_MS_MAX 25 /* the longest sleep between two attempts to lock */

/* ---- waiting for another writer ------------------------------------------------------------ */

/* Sleeps 1 to 25 ms. Jitter keeps two processes from waking, and failing, together. */
bool qp_sqlite_wait(qp_sqlite *conn, int64_t deadline_ns)
{
    assert(conn != NULL);
    return qp_interrupt_backoff(&conn->interrupt, deadline_ns, 1, OPEN_WAIT_MS_MAX);
}

/* The busy handler. SQLite counts `tries` from 0 for each lock, which starts the deadline anew.
 * Called with the connection inside of a statement: it must not use the connection. */
static int open_busy(void *ctx, int tries)
{
    qp_sqlite *conn = ctx;

    assert(tries >= 0);
    if (tries == 0) {
        conn->busy_until = qp_interrupt_deadline(&conn->interrupt);
        QP_LOG(&conn->log, QUIPU_LOG_DEBUG, "sqlite", "busy",
               QP_LOG_NUMBER("busy_ms", conn->interrupt.busy_ms));
    }
    return qp_sqlite_wait(conn, conn->busy_until) ? 1 : 0;
}

/* ---- the function table --------------------------------------------------------------------- */

/* A read-only connection that is the first to open a WAL file creates its -wal and -shm files, and
 * may not delete them when it is the last. A second connection with write access, closed right
 * behind it, does. Only while the log is empty: otherwise its close would checkpoint, a write that
 * the user did not ask for. NULL: nothing has to be deleted. */
static sqlite3 *open_tidier(const qp_sqlite *conn)
{
    const char *file =
        conn->read_only && conn->db != NULL ? sqlite3_db_filename(conn->db, "main") : NULL;
    sqlite3_vfs *vfs = NULL;
    sqlite3 *tidier = NULL;

    assert(conn != NULL);
    /* An empty name is a database in memory or a temporary one. */
    if (file == NULL || file[0] == '\0' || !qp_sqlite_log_is_empty(sqlite3_filename_wal(file)) ||
        sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK ||
        vfs == NULL) {
        return NULL;
    }
    if (sqlite3_open_v2(file, &tidier,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                        vfs->zName) == SQLITE_OK) {
        /* A connection that has read nothing does not delete the log; this reads the first page. */
        if (qp_sqlite_unlock(tidier, conn->keys, conn->path, NULL) == QUIPU_OK) {
            (void)sqlite3_exec(tidier, "PRAGMA user_version", NULL, NULL, NULL);
        }
    }
    return tidier;
}

/* The order matters, see open_tidier(). close_v2: a statement that somebody still holds keeps the
 * handle alive instead of failing the close. */
static void open_close(void *conn)
{
    qp_sqlite *self = conn;

    if (self != NULL) {
        /* Opened before the close and closed after it: the last connection deletes the log. */
        sqlite3 *tidier = open_tidier(self);

        qp_sqlite_tx_free(self);
        (void)sqlite3_close_v2(self->db);
        (void)sqlite3_close_v2(tidier);
        qp_free(self->path);
        qp_free(self);
    }
}

/* The rowid of the last insert of this connection. Read directly after the insert: FTS5 triggers
 * insert, too, but SQLite restores the value when a trigger ends. */
static int64_t open_last_key(void *conn)
{
    assert(conn != NULL);
    return sqlite3_last_insert_rowid(((qp_sqlite *)conn)->db);
}

/* As it was opened, not what the file system allows now. */
static bool open_is_read_only(void *conn)
{
    assert(conn != NULL);
    return ((const qp_sqlite *)conn)->read_only;
}

const qp_engine qp_sqlite_engine = {
    .version = 1,
    .name = "sqlite",
    .close = open_close,
    .parameter = "?",
    .packs_clusters = true,
    .prepare = qp_sqlite_prepare,
    .finalize = qp_sqlite_finalize,
    .bind = qp_sqlite_bind,
    .step = qp_sqlite_step,
    .reset = qp_sqlite_reset,
    .changes = qp_sqlite_changes,
    .total_changes = qp_sqlite_total_changes,
    .last_key = open_last_key,
    .begin = qp_sqlite_begin,
    .commit = qp_sqlite_commit,
    .rollback = qp_sqlite_rollback,
    .in_transaction = qp_sqlite_in_transaction,
    .put_in = qp_sqlite_put_in,
    .put_add = qp_sqlite_put_add,
    .put_match = qp_sqlite_put_match,
    .position = "instr",
    .is_read_only = open_is_read_only,
    .adopt = qp_sqlite_use_wal,
    .execute = qp_sqlite_execute,
    .migrator = &qp_sqlite_migrator,
    .set_interrupt = qp_sqlite_set_interrupt,
    .searcher = &qp_sqlite_searcher,
    .maintenance = &qp_sqlite_maintenance,
    .data_version = qp_sqlite_data_version,
    .peer_version = qp_sqlite_peer_version,
    .change_watch = &qp_sqlite_change_watch,
};

/* ---- opening ----------------------------------------------------------------------------------
 */

/* Runs a PRAGMA; *ret is its integer or, with `text`, whether it returned that text. No row gives
 * 0. open_pragmas() also reads the schema with it, by a SELECT. */
static int open_pragma(qp_sqlite *conn, const char *sql, const char *text, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);

    assert(sql != NULL && ret != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    /* The text is compared before the statement is finalized, which frees it. */
    if (rc == SQLITE_ROW) {
        const char *value = (const char *)sqlite3_column_text(stmt, 0);
        *ret = text == NULL ? sqlite3_column_int64(stmt, 0)
                            : value != NULL && strcmp(value, text) == 0;
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        *ret = 0;
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* The same with retries while the file is busy. SQLite does not call the busy handler when it
 * changes the journal mode, nor in all of WAL recovery: of many processes that open a file at once,
 * one would fail. */
static int open_pragma_retry(qp_sqlite *conn, const char *sql, const char *text, int64_t *ret)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    int rc = open_pragma(conn, sql, text, ret);

    assert(conn->db != NULL);
    while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(conn, deadline_ns)) {
        rc = open_pragma(conn, sql, text, ret);
    }
    return rc;
}

/* Whether the file's header says that it is kept with a write-ahead log: the version that writes
 * it. Read below SQLite, so that an open costs no statement. */
static bool open_is_wal(const qp_sqlite *conn)
{
    unsigned char version = 0; /* 0: the file has no header yet */
    sqlite3_file *file = NULL;

    return sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file) ==
               SQLITE_OK &&
           file != NULL && file->pMethods != NULL &&
           file->pMethods->xRead(file, &version, 1, OPEN_VERSION_AT) == SQLITE_OK &&
           version == OPEN_VERSION_WAL;
}

/* See open.h. A file system without shared memory mappings answers with another mode. The mode is
 * stored in the file's header: once is enough, and a second call changes nothing. A private
 * temporary file needs no log that other processes can read. */
quipu_status qp_sqlite_use_wal(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t wal = 0;
    int rc;

    assert(self->db != NULL);
    if (self->read_only || strcmp(self->path, OPEN_MEMORY) == 0 || self->path[0] == '\0' ||
        open_is_wal(self)) {
        return QUIPU_OK;
    }
    rc = open_pragma_retry(self, "PRAGMA journal_mode=WAL", "wal", &wal);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot prepare", reterr);
    }
    if (wal == 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%s is on a file system where SQLite's write-ahead log does not work; "
                            "keep the store on a local disk",
                            self->path);
    }
    return QUIPU_OK;
}

/* A new database leaves room for the trailer of each page, before its first page is written: later
 * only a VACUUM could. A file that another process has filled meanwhile keeps its layout. A private
 * temporary file is never read again. An encrypted file cannot do without, and may have been left
 * without pages by a crash. */
static int open_reserve(qp_sqlite *conn, const ent_sqlite_options *options)
{
    int reserve = QP_PAGE_RESERVE;

    assert(conn->db != NULL);
    if (((options->flags & ENT_SQLITE_NO_CHECKSUMS) != 0 && conn->keys == NULL) ||
        conn->path[0] == '\0') {
        return SQLITE_OK;
    }
    return sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);
}

/* On macOS fsync(2) leaves the bytes in the drive's cache; SQLite asks for more only on request. */
#if defined(__APPLE__)
#define OPEN_SYNC "PRAGMA fullfsync=ON", "PRAGMA checkpoint_fullfsync=ON",
#else
#define OPEN_SYNC
#endif

/* The settings of every connection. trusted_schema stays on: the triggers of an FTS5 index need it.
 * Our own functions are SQLITE_DIRECTONLY, so that no schema in a foreign file can call them.
 * foreign_keys is read back, because a build without them ignores the PRAGMA. */
static quipu_status open_pragmas(qp_sqlite *conn, const ent_sqlite_options *options,
                                 const qp_sqlite_file *file, quipu_error *reterr)
{
    const char *const pragmas[] = {
        options->durability == ENT_SQLITE_NORMAL ? "PRAGMA synchronous=NORMAL"
                                                 : "PRAGMA synchronous=FULL",
        options->secure_delete ? "PRAGMA secure_delete=ON" : "PRAGMA secure_delete=OFF",
        OPEN_SYNC "PRAGMA cell_size_check=ON", "PRAGMA foreign_keys=ON"};
    quipu_status status = QUIPU_OK;
    int64_t value = 0;
    int rc = SQLITE_OK;

    assert(conn->db != NULL);
    for (size_t i = 0; i < sizeof(pragmas) / sizeof(pragmas[0]) && rc == SQLITE_OK; i++) {
        rc = open_pragma_retry(conn, pragmas[i], NULL, &value);
    }
    if (rc == SQLITE_OK) {
        rc = open_pragma_retry(conn, "PRAGMA foreign_keys", NULL, &value);
    }
    if (rc == SQLITE_OK && value != 1) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "this SQLite was built without foreign keys; use another build");
    }
    if (rc == SQLITE_OK && (file->empty || conn->keys != NULL)) {
        rc = open_reserve(conn, options);
    }
    if (rc == SQLITE_OK && file->empty) {
        status = qp_sqlite_use_wal(conn, reterr);
    } else if (rc == SQLITE_OK) {
        /* A damaged file fails here, and not in the middle of some later call. */
        rc = open_pragma_retry(conn, "SELECT count(*) FROM sqlite_schema", NULL, &value);
    }
    return rc == SQLITE_OK ? status : qp_sqlite_fail(conn, rc, "cannot open", reterr);
}

/* Everything that a connection needs before its first statement. With DQS_DML off a misspelt column
 * in double quotes is an error instead of a text. The functions come before the PRAGMAs: the last
 * of those reads the schema, and an index may name the tokenizer. */
static quipu_status open_setup(qp_sqlite *conn, const ent_sqlite_options *options,
                               const qp_sqlite_file *file, quipu_error *reterr)
{
    int rc = sqlite3_extended_result_codes(conn->db, 1);

    assert(conn->db != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_busy_handler(conn->db, open_busy, conn);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_register_list(conn);
    }
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_register_add(conn);
    }
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_register_tokenizer(conn);
    }
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(conn, rc, "cannot open", reterr);
    }
    return open_pragmas(conn, options, file, reterr);
}

/* Reads the caller's options and checks their values. They begin with struct_size, which must cover
 * the members of 0.1. A larger struct_size is a newer caller's: its unknown members are ignored. */
static quipu_status open_options(const ent_sqlite_options *given, ent_sqlite_options *ret,
                                 quipu_error *reterr)
{
    assert(ret != NULL);
    *ret = (ent_sqlite_options)ENT_SQLITE_OPTIONS_INIT;
    if (given == NULL) {
        return QUIPU_OK;
    }
    if (given->struct_size < offsetof(ent_sqlite_options, vfs) + sizeof(given->vfs) ||
        given->struct_size > 4096) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the options' struct_size is %u; start from ENT_SQLITE_OPTIONS_INIT",
                            (unsigned)given->struct_size);
    }
    *ret = *given;
    if ((ret->flags & ~OPEN_FLAGS) != 0 || ret->busy_ms < 0 ||
        (ret->durability != ENT_SQLITE_FULL && ret->durability != ENT_SQLITE_NORMAL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an option is out of range: flags 0x%x, busy_ms %d, durability %d",
                            (unsigned)ret->flags, (int)ret->busy_ms, (int)ret->durability);
    }
    return QUIPU_OK;
}

/* The page layer could not be made over the VFS that the options name. */
static quipu_status open_no_vfs(const qp_sqlite *conn, const ent_sqlite_options *options,
                                quipu_error *reterr)
{
    assert(conn->db == NULL);
    if (qp_page_vfs_is_taken(options->vfs)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "cannot open %s: another copy of libquipu in this process uses the "
                            "same SQLite; link the program and its libraries with one libquipu",
                            conn->path);
    }
    return sqlite3_vfs_find(options->vfs) == NULL
               ? qp_error_set(reterr, QUIPU_IO, "cannot open %s: SQLite knows no VFS \"%s\"",
                              conn->path, options->vfs != NULL ? options->vfs : "")
               : qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", conn->path);
}

/* Reports how a file and its key do not fit. Nothing was written. */
static quipu_status open_locked(qp_crypt_state state, const char *path, quipu_error *reterr)
{
    assert(state != QP_CRYPT_READY && state != QP_CRYPT_NEW);
    switch (state) {
    case QP_CRYPT_PLAIN:
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "cannot open %s with a key: it is not encrypted; open it without one",
                            path);
    case QP_CRYPT_LATER:
        return qp_error_set(reterr, QUIPU_NEWER,
                            "cannot open %s: a later version of quipu encrypted it; use that one",
                            path);
    case QP_CRYPT_BROKEN:
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "cannot open %s: the header of the encrypted file is damaged or "
                            "truncated; restore a backup",
                            path);
    case QP_CRYPT_CUT:
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "%s is truncated: only the header of an encrypted file is left; "
                            "restore a backup",
                            path);
    case QP_CRYPT_OTHER_KEY:
        return qp_error_set(reterr, QUIPU_INVALID,
                            "cannot open %s: the key does not fit this file; give the key or "
                            "passphrase that it was made with",
                            path);
    case QP_CRYPT_NO_RAW_KEY:
        return qp_error_set(reterr, QUIPU_INVALID,
                            "cannot open %s: it needs a key of %d bytes, and not a passphrase",
                            path, QP_CRYPT_KEY);
    case QP_CRYPT_NO_MEMORY:
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", path);
    default:
        return qp_error_set(reterr, QUIPU_IO, "cannot open %s: the system refused to read it",
                            path);
    }
}

/* Without a key the file is plain, or was refused by SQLite as no database. QP_CRYPT_NEW is a file
 * without pages, which gets its key with the first one. */
quipu_status qp_sqlite_unlock(sqlite3 *db, qp_keys *keys, const char *path, quipu_error *reterr)
{
    qp_crypt_state state = keys == NULL ? QP_CRYPT_READY : qp_page_vfs_unlock(db, keys);

    assert(db != NULL);
    return state == QP_CRYPT_READY || state == QP_CRYPT_NEW ? QUIPU_OK
                                                            : open_locked(state, path, reterr);
}

/* The layer that a file is opened through. A database in memory has no pages on a disk, and goes to
 * SQLite's own VFS. */
static const char *open_vfs(const qp_sqlite *conn, const ent_sqlite_options *options, bool is_file)
{
    assert(conn->db == NULL);
    if (!is_file) {
        return options->vfs;
    }
    return conn->keys != NULL ? qp_page_vfs_secret(options->vfs) : qp_page_vfs(options->vfs);
}

/* One file, one log: other programs that have the file open use the log that this connection will
 * use, and what lies there was written for this file. */
static quipu_status open_check_names(qp_sqlite *conn, quipu_error *reterr)
{
    const quipu_status status = qp_sqlite_check_identity(conn, reterr);

    assert(conn->db != NULL);
    return status == QUIPU_OK ? qp_sqlite_check_log(conn, reterr) : status;
}

/* A file that was replaced while this connection waited for its lock is what the other program left
 * of it (encrypt.c): what is wrong with it means nothing. */
static quipu_status open_replaced(const qp_sqlite *conn, quipu_status status, quipu_error *reterr)
{
    int moved = 0;

    assert(status != QUIPU_OK && conn->db != NULL);
    if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK ||
        moved == 0) {
        return status;
    }
    return qp_error_set(reterr, QUIPU_BUSY,
                        "cannot open %s: it was replaced meanwhile; open it again", conn->path);
}

/* Sets up a file besides the settings of every connection. The key comes first: an encrypted file
 * cannot be read without it. An immutable file is one that nobody can write to, so that a second
 * log cannot come about. */
static quipu_status open_file_setup(qp_sqlite *conn, const ent_sqlite_options *options,
                                    const qp_sqlite_file *file, quipu_error *reterr)
{
    quipu_status status = qp_sqlite_unlock(conn->db, conn->keys, conn->path, reterr);

    if (status == QUIPU_OK && !file->immutable) {
        status = open_check_names(conn, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_setup(conn, options, file, reterr);
    }
    return status == QUIPU_OK ? QUIPU_OK : open_replaced(conn, status, reterr);
}

/* sqlite3_open_v2() with a URI: the path is escaped (open_file.c), so that a '?' in it does not
 * begin options. NOMUTEX: a connection belongs to one thread at a time. SQLite returns a handle
 * also where opening fails, for the error's text; open_path() closes it. */
static quipu_status open_connect(qp_sqlite *conn, const ent_sqlite_options *options,
                                 const qp_sqlite_file *file, quipu_error *reterr)
{
    const int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                      (conn->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    bool memory = strcmp(conn->path, OPEN_MEMORY) == 0;
    bool is_file = !memory && conn->path[0] != '\0';
    const char *vfs = open_vfs(conn, options, is_file);
    quipu_status status = QUIPU_OK;
    qp_buf uri;
    int rc;

    assert(conn->db == NULL);
    if (is_file && vfs == NULL) {
        return open_no_vfs(conn, options, reterr);
    }
    qp_sqlite_prepare_fork();
    qp_buf_init(&uri, (size_t)3 * QP_SQLITE_PATH_MAX + 64);
    if (memory) {
        qp_buf_puts(&uri, "file::memory:?mode=memory");
    } else if (is_file) { /* "" is SQLite's name for a private temporary file */
        qp_sqlite_uri(conn->path, options->flags, file, &uri);
    }
    status = qp_buf_status(&uri);
    if (status != QUIPU_OK) {
        qp_buf_free(&uri);
        return qp_error_set(reterr, status, "cannot open %s: out of memory", conn->path);
    }
    rc = sqlite3_open_v2(qp_buf_str(&uri).p, &conn->db, flags, vfs);
    qp_buf_free(&uri);
    if (conn->db == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", conn->path);
    }
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(conn, rc, "cannot open", reterr);
    }
    return is_file ? open_file_setup(conn, options, file, reterr)
                   : open_setup(conn, options, file, reterr);
}

/* Allocates a connection that is not open yet. Nothing here touches the file. Both allocations are
 * tried before either is looked at. */
static quipu_status open_new(const char *path, const ent_sqlite_options *options, qp_sqlite **ret,
                             quipu_error *reterr)
{
    size_t size = strlen(path) + 1;
    qp_sqlite *conn = qp_calloc(1, sizeof(*conn));
    char *copy = qp_malloc(size);

    assert(options != NULL);
    if (conn == NULL || copy == NULL) {
        qp_free(conn);
        qp_free(copy);
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", path);
    }
    memcpy(copy, path, size);
    conn->path = copy;
    conn->read_only = (options->flags & ENT_SQLITE_READ_ONLY) != 0;
    conn->interrupt.busy_ms = options->busy_ms;
    conn->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    *ret = conn;
    return QUIPU_OK;
}

/* Allocates, opens and sets up; nothing is left open on failure. open_close() accepts NULL and a
 * connection at any stage of its setup. */
static quipu_status open_path(const char *path, const ent_sqlite_options *options, qp_keys *keys,
                              const qp_sqlite_file *file, qp_sqlite **ret, quipu_error *reterr)
{
    qp_sqlite *conn = NULL;
    quipu_status status = open_new(path, options, &conn, reterr);

    assert(file != NULL);
    if (status == QUIPU_OK) {
        assert(conn != NULL);
        conn->keys = keys;
        status = open_connect(conn, options, file, reterr);
    }
    if (status != QUIPU_OK) {
        open_close(conn);
        return status;
    }
    *ret = conn;
    return QUIPU_OK;
}

/* secure_delete would overwrite pages of a file that is deleted as a whole. The path "" is SQLite's
 * name for it. Without overwriting, closing it costs nothing. */
quipu_status qp_sqlite_open_private(qp_sqlite **ret_conn, quipu_error *reterr)
{
    const qp_sqlite_file file = {.empty = true, .immutable = false};
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    assert(ret_conn != NULL);
    options.secure_delete = false;
    return open_path("", &options, NULL, &file, ret_conn, reterr);
}

/* From here on ent_close() closes it. On failure it is closed here, so that the caller has one
 * owner to think of. */
quipu_status qp_sqlite_hand_over(qp_sqlite *conn, ent_db **ret_db, quipu_error *reterr)
{
    quipu_status status = qp_db_new(&qp_sqlite_engine, conn, conn->read_only, ret_db, reterr);

    assert(ret_db != NULL);
    if (status != QUIPU_OK) {
        open_close(conn);
    }
    return status;
}

/* The public call knows no keys: they are the store's (src/front). */
quipu_status ent_sqlite_open(const char *path, const ent_sqlite_options *options, ent_db **ret_db,
                             quipu_error *reterr)
{
    return qp_sqlite_open(path, options, NULL, ret_db, reterr);
}

/* A secret with which no file can be made creates none; it may open one that exists. */
static quipu_status open_check_path(const char *path, uint32_t flags, qp_keys *keys,
                                    qp_sqlite_file *ret_file, quipu_error *reterr)
{
    const bool can_make = keys == NULL || qp_keys_can_make(keys);
    const bool may_make = (flags & (ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST)) == 0;
    const quipu_status status = qp_sqlite_check_path(
        path, flags | (can_make ? 0 : ENT_SQLITE_MUST_EXIST), ret_file, reterr);

    assert(strcmp(path, OPEN_MEMORY) != 0);
    return status == QUIPU_NOT_FOUND && may_make && !can_make
               ? open_locked(QP_CRYPT_NO_RAW_KEY, path, reterr)
               : status;
}

/* The path is checked before SQLite sees it, so that errors can name what is wrong with it. */
quipu_status qp_sqlite_open(const char *path, const ent_sqlite_options *options, qp_keys *keys,
                            ent_db **ret_db, quipu_error *reterr)
{
    ent_sqlite_options opt;
    qp_sqlite_file file = {.empty = true, .immutable = false};
    qp_sqlite *conn = NULL;
    quipu_status status;

    if (path == NULL || ret_db == NULL || path[0] == '\0' || strlen(path) >= QP_SQLITE_PATH_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "ent_sqlite_open needs a path of 1 to %d bytes and a place for the "
                            "connection",
                            QP_SQLITE_PATH_MAX - 1);
    }
    status = open_options(options, &opt, reterr);
    if (status == QUIPU_OK && keys != NULL && strcmp(path, OPEN_MEMORY) == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a store in memory has no file to encrypt; open it without a key");
    }
    if (status == QUIPU_OK && strcmp(path, OPEN_MEMORY) != 0) {
        status = open_check_path(path, opt.flags, keys, &file, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_path(path, &opt, keys, &file, &conn, reterr);
    }
    return status == QUIPU_OK ? qp_sqlite_hand_over(conn, ret_db, reterr) : status;
}
