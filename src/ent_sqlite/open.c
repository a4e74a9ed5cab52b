/* Opening a connection to a SQLite file and setting it up; the engine's function table. */
#include "base/port.h"

#include "ent_sqlite/open.h"

#include <assert.h>
#include <string.h>

#include <ent/sqlite.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/db.h"
#include "ent_sqlite/open_file.h"
#include "ent_sqlite/search.h"
#include "ent_sqlite/stmt.h"

#define OPEN_MEMORY ":memory:"
#define OPEN_WAIT_MS_MAX 25 /* the longest nap between two tries */

/* ---- waiting for another writer ------------------------------------------------------------ */

bool qp_sqlite_wait(qp_sqlite *conn, int64_t deadline_ns)
{
    return qp_interrupt_backoff(&conn->interrupt, deadline_ns, 1, OPEN_WAIT_MS_MAX);
}

static int open_busy(void *ctx, int tries)
{
    qp_sqlite *conn = ctx;

    if (tries == 0) {
        conn->busy_until = qp_interrupt_deadline(&conn->interrupt);
        QP_LOG(&conn->log, QUIPU_LOG_DEBUG, "sqlite", "busy",
               QP_LOG_NUMBER("busy_ms", conn->interrupt.busy_ms));
    }
    return qp_sqlite_wait(conn, conn->busy_until) ? 1 : 0;
}

/* ---- the function table --------------------------------------------------------------------- */

/* A connection that may not write makes the log and its index beside the file when it is the first,
 * and cannot take them away when it is the last. As long as the log is empty, one that may write
 * does it, by being closed behind it; NULL: there is nothing to take away. */
static sqlite3 *open_tidier(const qp_sqlite *conn)
{
    const char *file =
        conn->read_only && conn->db != NULL ? sqlite3_db_filename(conn->db, "main") : NULL;
    sqlite3_vfs *vfs = NULL;
    sqlite3 *tidier = NULL;

    if (file == NULL || file[0] == '\0' || !qp_sqlite_log_is_empty(sqlite3_filename_wal(file)) ||
        sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK ||
        vfs == NULL) {
        return NULL;
    }
    if (sqlite3_open_v2(file, &tidier,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                        vfs->zName) == SQLITE_OK) {
        /* Only who has read takes part; this reads no more than the file's first page. */
        (void)sqlite3_exec(tidier, "PRAGMA user_version", NULL, NULL, NULL);
    }
    return tidier;
}

static void open_close(void *conn)
{
    qp_sqlite *self = conn;

    if (self != NULL) {
        sqlite3 *tidier = open_tidier(self);

        qp_sqlite_tx_free(self);
        (void)sqlite3_close_v2(self->db);
        (void)sqlite3_close_v2(tidier);
        qp_free(self->path);
        qp_free(self);
    }
}

static int64_t open_total_changes(void *conn)
{
    return sqlite3_total_changes64(((qp_sqlite *)conn)->db);
}

static int64_t open_changes(void *conn)
{
    return sqlite3_changes64(((qp_sqlite *)conn)->db);
}

static int64_t open_last_key(void *conn)
{
    return sqlite3_last_insert_rowid(((qp_sqlite *)conn)->db);
}

static bool open_is_read_only(void *conn)
{
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
    .changes = open_changes,
    .total_changes = open_total_changes,
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

/* Run a pragma and give the integer or, for text, 1 when it equals `text`. */
static int open_ask(qp_sqlite *conn, const char *sql, const char *text, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
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

/* SQLite does not ask the busy handler when it changes the journal mode, nor everywhere during the
 * recovery of a WAL: of many first openers of one file one would fail. So the wait is ours. */
static int open_ask_patiently(qp_sqlite *conn, const char *sql, const char *text, int64_t *ret)
{
    int64_t deadline_ns = qp_interrupt_deadline(&conn->interrupt);
    int rc = open_ask(conn, sql, text, ret);

    while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(conn, deadline_ns)) {
        rc = open_ask(conn, sql, text, ret);
    }
    return rc;
}

quipu_status qp_sqlite_use_wal(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t wal = 0;
    int rc;

    if (self->read_only || strcmp(self->path, OPEN_MEMORY) == 0 || self->path[0] == '\0') {
        return QUIPU_OK;
    }
    rc = open_ask_patiently(self, "PRAGMA journal_mode=WAL", "wal", &wal);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot prepare", reterr);
    }
    if (wal == 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%s lies where SQLite's write-ahead log does not work; keep the store "
                            "on a local disk",
                            self->path);
    }
    return QUIPU_OK;
}

static quipu_status open_pragmas(qp_sqlite *conn, const ent_sqlite_options *options,
                                 const qp_sqlite_file *file, quipu_error *reterr)
{
    const char *const pragmas[] = {
        options->durability == ENT_SQLITE_NORMAL ? "PRAGMA synchronous=NORMAL"
                                                 : "PRAGMA synchronous=FULL",
        options->secure_delete ? "PRAGMA secure_delete=ON" : "PRAGMA secure_delete=OFF",
        /* trusted_schema stays on: triggers that keep a full-text index need it. Our own functions
         * are SQLITE_DIRECTONLY, so that nothing in a file can call them. */
        "PRAGMA cell_size_check=ON", "PRAGMA foreign_keys=ON"};
    quipu_status status = QUIPU_OK;
    int64_t value = 0;
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof(pragmas) / sizeof(pragmas[0]) && rc == SQLITE_OK; i++) {
        rc = open_ask_patiently(conn, pragmas[i], NULL, &value);
    }
    if (rc == SQLITE_OK) {
        rc = open_ask_patiently(conn, "PRAGMA foreign_keys", NULL, &value);
    }
    if (rc == SQLITE_OK && value != 1) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "this SQLite was built without foreign keys; use another build");
    }
    if (rc == SQLITE_OK && file->empty) {
        /* An existing file keeps its mode until it is known to be ours: see ent_migrate(). */
        status = qp_sqlite_use_wal(conn, reterr);
    } else if (rc == SQLITE_OK) {
        /* The first read finds a damaged file now, not in the middle of some later call. */
        rc = open_ask_patiently(conn, "SELECT count(*) FROM sqlite_schema", NULL, &value);
    }
    return rc == SQLITE_OK ? status : qp_sqlite_fail(conn, rc, "cannot open", reterr);
}

static quipu_status open_setup(qp_sqlite *conn, const ent_sqlite_options *options,
                               const qp_sqlite_file *file, quipu_error *reterr)
{
    int rc = sqlite3_extended_result_codes(conn->db, 1);

    if (rc == SQLITE_OK) {
        rc = sqlite3_busy_handler(conn->db, open_busy, conn);
    }
    if (rc == SQLITE_OK) {
        /* A misspelt column must be an error, not a text. */
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

static quipu_status open_options(const ent_sqlite_options *given, ent_sqlite_options *ret,
                                 quipu_error *reterr)
{
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
    if ((ret->flags & ~(ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST)) != 0 || ret->busy_ms < 0 ||
        (ret->durability != ENT_SQLITE_FULL && ret->durability != ENT_SQLITE_NORMAL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an option is out of range: flags 0x%x, busy_ms %d, durability %d",
                            (unsigned)ret->flags, (int)ret->busy_ms, (int)ret->durability);
    }
    return QUIPU_OK;
}

static quipu_status open_connect(qp_sqlite *conn, const ent_sqlite_options *options,
                                 const qp_sqlite_file *file, quipu_error *reterr)
{
    const int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                      (conn->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    bool memory = strcmp(conn->path, OPEN_MEMORY) == 0;
    quipu_status status = QUIPU_OK;
    qp_buf uri;
    int rc;

    qp_buf_init(&uri, (size_t)3 * QP_SQLITE_PATH_MAX + 64);
    if (memory) {
        qp_buf_puts(&uri, "file::memory:?mode=memory");
    } else if (conn->path[0] != '\0') { /* an empty name is SQLite's own temporary file */
        qp_sqlite_uri(conn->path, options->flags, file, &uri);
    }
    status = qp_buf_status(&uri);
    if (status != QUIPU_OK) {
        qp_buf_free(&uri);
        return qp_error_set(reterr, status, "cannot open %s: out of memory", conn->path);
    }
    rc = sqlite3_open_v2(qp_buf_str(&uri).p, &conn->db, flags, options->vfs);
    qp_buf_free(&uri);
    if (conn->db == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot open %s: out of memory", conn->path);
    }
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(conn, rc, "cannot open", reterr);
    }
    return open_setup(conn, options, file, reterr);
}

static quipu_status open_new(const char *path, const ent_sqlite_options *options, qp_sqlite **ret,
                             quipu_error *reterr)
{
    size_t size = strlen(path) + 1;
    qp_sqlite *conn = qp_calloc(1, sizeof(*conn));
    char *copy = qp_malloc(size);

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

static quipu_status open_path(const char *path, const ent_sqlite_options *options,
                              const qp_sqlite_file *file, qp_sqlite **ret, quipu_error *reterr)
{
    qp_sqlite *conn = NULL;
    quipu_status status = open_new(path, options, &conn, reterr);

    if (status == QUIPU_OK) {
        assert(conn != NULL);
        status = open_connect(conn, options, file, reterr);
    }
    if (status != QUIPU_OK) {
        open_close(conn);
        return status;
    }
    *ret = conn;
    return QUIPU_OK;
}

quipu_status qp_sqlite_open_private(qp_sqlite **ret_conn, quipu_error *reterr)
{
    const qp_sqlite_file file = {.empty = true, .immutable = false};
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    options.secure_delete = false; /* the file has no name, and goes as a whole */
    return open_path("", &options, &file, ret_conn, reterr);
}

quipu_status qp_sqlite_hand_over(qp_sqlite *conn, ent_db **ret_db, quipu_error *reterr)
{
    quipu_status status = qp_db_new(&qp_sqlite_engine, conn, conn->read_only, ret_db, reterr);

    if (status != QUIPU_OK) {
        open_close(conn);
    }
    return status;
}

quipu_status ent_sqlite_open(const char *path, const ent_sqlite_options *options, ent_db **ret_db,
                             quipu_error *reterr)
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
    if (status == QUIPU_OK && strcmp(path, OPEN_MEMORY) != 0) {
        status = qp_sqlite_look(path, opt.flags, &file, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_path(path, &opt, &file, &conn, reterr);
    }
    return status == QUIPU_OK ? qp_sqlite_hand_over(conn, ret_db, reterr) : status;
}
