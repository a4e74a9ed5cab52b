/* A third engine, for tests: a SQLite file behind a connection and statements of its own, which
 * holds src/ent to what src/ent/engine.h says. It proves that the seam is enough to write an engine
 * with, and that members documented with "NULL:" may be NULL: it has no change watch, no private
 * image and no peer version. Its URIs are strict:PATH. What it checks:
 *
 *   - a statement is bound before it is stepped, and not stepped behind its end
 *   - values of a row are used before the next step: they are copies, overwritten and freed by it
 *   - transactions and savepoints begin and end in order, and a connection closes without any
 *   - one thread at a time uses a connection
 *   - a failure has a message, or the name of a rule
 *
 * Called by: contract suites with QUIPU_TEST_ENGINE=strict (cmake/QuipuTests.cmake). A broken rule
 * aborts, in a build with NDEBUG too. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent/migrate_engine.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/search.h"
#include "ent_sqlite/stmt.h"
#include "front/engines.h"

#define STRICT_SCHEME "strict:"
#define STRICT(rule) ((rule) ? (void)0 : strict_broken(#rule, __LINE__))

typedef struct strict_conn {
    ent_db *file;        /* the connection of the real engine */
    atomic_bool entered; /* a call is under way */
    int depth;           /* transactions and savepoints that are open */
    int statements;      /* prepared and not finalized */
} strict_conn;

struct qp_statement {
    strict_conn *conn;
    qp_statement *inner;
    bool bound, running, ended;
    char *row; /* copies of its texts and bytes */
    size_t row_size;
};

static _Noreturn void strict_broken(const char *rule, int line)
{
    (void)fprintf(stderr, "%s:%d: src/ent breaks a rule of engine.h: %s\n", __FILE__, line, rule);
    abort();
}

/* ---- connections ------------------------------------------------------------------------------
 */

static ent_db *strict_enter(void *conn)
{
    strict_conn *self = conn;

    STRICT(!atomic_exchange(&self->entered, true));
    return self->file;
}

static quipu_status strict_leave(void *conn, quipu_status status, const quipu_error *error)
{
    STRICT(status == QUIPU_OK || error == NULL || error->message[0] != '\0' ||
           error->rule[0] != '\0');
    atomic_store(&((strict_conn *)conn)->entered, false);
    return status;
}

/* Functions that only pass a call on; `file` is the inner connection. */
#define STRICT_ASK(type, name)                                                                     \
    static type strict_##name(void *conn)                                                          \
    {                                                                                              \
        ent_db *file = strict_enter(conn);                                                         \
        type answer = file->engine->name(file->conn);                                              \
        (void)strict_leave(conn, QUIPU_OK, NULL);                                                  \
        return answer;                                                                             \
    }
#define STRICT_PASS(table, name, parameters, arguments)                                            \
    static quipu_status strict_##table##name parameters                                            \
    {                                                                                              \
        ent_db *file = strict_enter(conn);                                                         \
        return strict_leave(conn, file->engine->STRICT_##table name arguments, reterr);            \
    }
#define STRICT_
#define STRICT_migrate_ migrator->
#define STRICT_maintain_ maintenance->
#define STRICT_search_ searcher->

STRICT_PASS(search_, check,
            (void *conn, const ent_entity *entity, const ent_field *reaches, quipu_error *reterr),
            (file->conn, entity, reaches, reterr))
STRICT_PASS(search_, discard, (void *conn, const ent_entity *entity, quipu_error *reterr),
            (file->conn, entity, reterr))
STRICT_PASS(search_, clean,
            (void *conn, const ent_entity *entity, bool first, qp_search_cleaned *ret,
             quipu_error *reterr),
            (file->conn, entity, first, ret, reterr))
STRICT_ASK(int64_t, changes)
STRICT_ASK(int64_t, total_changes)
STRICT_ASK(int64_t, last_key)
STRICT_ASK(bool, is_read_only)
STRICT_ASK(bool, in_transaction)
STRICT_PASS(, adopt, (void *conn, quipu_error *reterr), (file->conn, reterr))
STRICT_PASS(, execute, (void *conn, quipu_str sql, quipu_error *reterr), (file->conn, sql, reterr))
STRICT_PASS(, data_version, (void *conn, int64_t *ret, quipu_error *reterr),
            (file->conn, ret, reterr))
STRICT_PASS(migrate_, inspect,
            (void *conn, quipu_arena *arena, qp_file_shape *ret, quipu_error *reterr),
            (file->conn, arena, ret, reterr))
STRICT_PASS(migrate_, application_id, (void *conn, uint32_t *ret, quipu_error *reterr),
            (file->conn, ret, reterr))
STRICT_PASS(migrate_, set_application_id, (void *conn, uint32_t id, quipu_error *reterr),
            (file->conn, id, reterr))
STRICT_PASS(migrate_, enforce_references, (void *conn, bool on, quipu_error *reterr),
            (file->conn, on, reterr))
STRICT_PASS(migrate_, count_dangling, (void *conn, int64_t *ret, quipu_error *reterr),
            (file->conn, ret, reterr))
STRICT_PASS(migrate_, check, (void *conn, quipu_error *reterr), (file->conn, reterr))
STRICT_PASS(migrate_, backup,
            (void *conn, const char *label, quipu_time now, char *ret_path, size_t size,
             quipu_error *reterr),
            (file->conn, label, now, ret_path, size, reterr))

STRICT_PASS(maintain_, rekey, (void *conn, const qp_new_key *key, quipu_error *reterr),
            (file->conn, key, reterr))
STRICT_PASS(maintain_, sizes, (void *conn, qp_sizes *ret, quipu_error *reterr),
            (file->conn, ret, reterr))
STRICT_PASS(maintain_, limit, (void *conn, int64_t max_bytes, quipu_error *reterr),
            (file->conn, max_bytes, reterr))
STRICT_PASS(maintain_, flush, (void *conn, quipu_error *reterr), (file->conn, reterr))
STRICT_PASS(maintain_, rewrite, (void *conn, quipu_error *reterr), (file->conn, reterr))
STRICT_PASS(maintain_, copy, (void *conn, const char *path, quipu_error *reterr),
            (file->conn, path, reterr))
STRICT_PASS(maintain_, check, (void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr),
            (file->conn, fn, ctx, reterr))
STRICT_PASS(maintain_, backups, (void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr),
            (file->conn, fn, ctx, reterr))
STRICT_PASS(maintain_, intact, (void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr),
            (file->conn, fn, ctx, reterr))
STRICT_PASS(maintain_, engine, (void *conn, char *ret, size_t size, quipu_error *reterr),
            (file->conn, ret, size, reterr))
STRICT_PASS(maintain_, checksums, (void *conn, qp_checksums *ret, quipu_error *reterr),
            (file->conn, ret, reterr))
STRICT_PASS(maintain_, seal, (void *conn, quipu_error *reterr), (file->conn, reterr))
STRICT_PASS(maintain_, counters,
            (void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx, quipu_error *reterr),
            (file->conn, entity, fn, ctx, reterr))
STRICT_PASS(maintain_, mend_counters, (void *conn, const ent_entity *entity, quipu_error *reterr),
            (file->conn, entity, reterr))

static void strict_backup_end(void *conn, const char *path, uint32_t keep)
{
    ent_db *file = strict_enter(conn);

    file->engine->migrator->backup_end(file->conn, path, keep);
    (void)strict_leave(conn, QUIPU_OK, NULL);
}

static void strict_close(void *conn)
{
    strict_conn *self = conn;

    STRICT(self->statements == 0);
    STRICT(self->depth == 0);
    ent_close(strict_enter(conn));
    free(self);
}

static void strict_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx)
{
    ent_db *file = strict_enter(conn);

    file->engine->set_interrupt(file->conn, deadline_ns, stop, ctx);
    (void)strict_leave(conn, QUIPU_OK, NULL);
}

/* ---- transactions -----------------------------------------------------------------------------
 */

static quipu_status strict_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr)
{
    strict_conn *self = conn;
    ent_db *file = strict_enter(conn);

    STRICT(depth == self->depth);
    quipu_status status = file->engine->begin(file->conn, depth, kind, reterr);
    self->depth += status == QUIPU_OK;
    return strict_leave(conn, status, reterr);
}

static quipu_status strict_commit(void *conn, int depth, quipu_error *reterr)
{
    strict_conn *self = conn;
    ent_db *file = strict_enter(conn);

    STRICT(depth == self->depth - 1);
    quipu_status status = file->engine->commit(file->conn, depth, reterr);
    self->depth -= status == QUIPU_OK;
    return strict_leave(conn, status, reterr);
}

/* Also behind a commit that failed, and where the engine has rolled back by itself. */
static void strict_rollback(void *conn, int depth)
{
    strict_conn *self = conn;
    ent_db *file = strict_enter(conn);

    STRICT(depth < self->depth || !file->engine->in_transaction(file->conn));
    file->engine->rollback(file->conn, depth);
    self->depth = depth;
    (void)strict_leave(conn, QUIPU_OK, NULL);
}

/* ---- statements -------------------------------------------------------------------------------
 */

static quipu_status strict_prepare(void *conn, quipu_str sql, qp_statement **ret,
                                   quipu_error *reterr)
{
    ent_db *file = strict_enter(conn);
    qp_statement *self = calloc(1, sizeof(*self));
    quipu_status status = self == NULL
                              ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory")
                              : file->engine->prepare(file->conn, sql, &self->inner, reterr);

    if (status == QUIPU_OK) {
        self->conn = conn;
        self->conn->statements++;
        *ret = self;
    } else {
        free(self);
    }
    return strict_leave(conn, status, reterr);
}

/* The row is gone: a late reader finds 0xa5, or a sanitizer finds the reader. */
static void strict_forget(qp_statement *self)
{
    if (self->row != NULL) {
        memset(self->row, 0xa5, self->row_size);
    }
    free(self->row);
    self->row = NULL;
}

static void strict_finalize(qp_statement *self)
{
    if (self != NULL) {
        ent_db *file = strict_enter(self->conn);
        strict_forget(self);
        file->engine->finalize(self->inner);
        self->conn->statements--;
        (void)strict_leave(self->conn, QUIPU_OK, NULL);
        free(self);
    }
}

static quipu_status strict_bind(qp_statement *self, const qp_value *values, size_t n,
                                quipu_error *reterr)
{
    ent_db *file = strict_enter(self->conn);

    STRICT(!self->running);
    self->bound = true;
    return strict_leave(self->conn, file->engine->bind(self->inner, values, n, reterr), reterr);
}

/* Copies what is borrowed from SQLite, so that it ends when it may. Bytes look like texts. */
static void strict_copy(qp_statement *self, qp_value *values, size_t n)
{
    char *at;

    self->row_size = 0;
    for (size_t i = 0; i < n; i++) {
        const bool copied = values[i].kind == QP_TEXT || values[i].kind == QP_BYTES;
        self->row_size += copied ? values[i].as.text.n : 0;
    }
    at = self->row = malloc(self->row_size + 1);
    STRICT(at != NULL);
    for (size_t i = 0; i < n; i++) {
        if (values[i].kind == QP_TEXT || values[i].kind == QP_BYTES) {
            memcpy(at, values[i].as.text.p, values[i].as.text.n);
            values[i].as.text.p = at;
            at += values[i].as.text.n;
        }
    }
}

static quipu_status strict_step(qp_statement *self, const uint8_t *kinds, size_t n, qp_value *ret,
                                bool *ret_row, quipu_error *reterr)
{
    ent_db *file = strict_enter(self->conn);
    quipu_status status;

    STRICT(self->bound && !self->ended);
    STRICT(n <= ENT_FIELDS_MAX);
    strict_forget(self);
    self->running = true;
    status = file->engine->step(self->inner, kinds, n, ret, ret_row, reterr);
    self->ended = status != QUIPU_OK || !*ret_row;
    if (!self->ended) {
        strict_copy(self, ret, n);
    }
    return strict_leave(self->conn, status, reterr);
}

static void strict_reset(qp_statement *self)
{
    ent_db *file = strict_enter(self->conn);

    strict_forget(self);
    file->engine->reset(self->inner);
    self->running = self->ended = self->bound = false;
    (void)strict_leave(self->conn, QUIPU_OK, NULL);
}

/* ---- the tables -------------------------------------------------------------------------------
 */

static const qp_migrator strict_migrator = {
    .version = 1,
    .inspect = strict_migrate_inspect,
    .write_ddl = qp_sqlite_write_ddl,
    .column_fits = qp_sqlite_column_fits,
    .search_state = qp_sqlite_search_state,
    .put_absent = qp_sqlite_put_absent,
    .application_id = strict_migrate_application_id,
    .set_application_id = strict_migrate_set_application_id,
    .backup = strict_migrate_backup,
    .backup_end = strict_backup_end,
    .enforce_references = strict_migrate_enforce_references,
    .count_dangling = strict_migrate_count_dangling,
    .check = strict_migrate_check,
};

static const qp_maintenance strict_maintenance = {
    .version = 1,
    .sizes = strict_maintain_sizes,
    .limit = strict_maintain_limit,
    .flush = strict_maintain_flush,
    .rewrite = strict_maintain_rewrite,
    .copy = strict_maintain_copy,
    .check = strict_maintain_check,
    .backups = strict_maintain_backups,
    .intact = strict_maintain_intact,
    .engine = strict_maintain_engine,
    .checksums = strict_maintain_checksums,
    .seal = strict_maintain_seal,
    .counters = strict_maintain_counters,
    .mend_counters = strict_maintain_mend_counters,
    .rekey = strict_maintain_rekey,
};

/* The real one's statements; only the functions that take a connection are replaced. */
static qp_searcher strict_searcher;
static qp_once strict_once = QP_ONCE_INIT;

static void strict_make_searcher(void)
{
    strict_searcher = qp_sqlite_searcher;
    strict_searcher.check = strict_search_check;
    strict_searcher.discard = strict_search_discard;
    strict_searcher.clean = strict_search_clean;
}

static const qp_engine strict_engine = {
    .version = 1,
    .name = "strict",
    .close = strict_close,
    .parameter = "?",
    .packs_clusters = true,
    .prepare = strict_prepare,
    .finalize = strict_finalize,
    .bind = strict_bind,
    .step = strict_step,
    .reset = strict_reset,
    .changes = strict_changes,
    .total_changes = strict_total_changes,
    .last_key = strict_last_key,
    .begin = strict_begin,
    .commit = strict_commit,
    .rollback = strict_rollback,
    .in_transaction = strict_in_transaction,
    .put_in = qp_sqlite_put_in,
    .put_add = qp_sqlite_put_add,
    .put_match = qp_sqlite_put_match,
    .position = "instr",
    .is_read_only = strict_is_read_only,
    .adopt = strict_adopt,
    .execute = strict_execute,
    .migrator = &strict_migrator,
    .set_interrupt = strict_set_interrupt,
    .searcher = &strict_searcher,
    .maintenance = &strict_maintenance,
    .data_version = strict_data_version,
};

static quipu_status strict_open(const qp_place *place, bool read_only, ent_db **ret_db,
                                quipu_error *reterr)
{
    strict_conn *self = calloc(1, sizeof(*self));
    qp_place file = *place;
    quipu_status status;

    STRICT(self != NULL);
    qp_once_run(&strict_once, strict_make_searcher);
    file.name += strlen(STRICT_SCHEME);
    status = qp_engine_sqlite.open(&file, read_only, &self->file, reterr);
    if (status == QUIPU_OK) {
        status = qp_db_new(&strict_engine, self, read_only, ret_db, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(self->file);
        free(self);
    }
    return status;
}

static const qp_engine_entry strict_entry = {
    .name = "strict", .schemes = {STRICT_SCHEME}, .has_size_cap = true, .open = strict_open};

/* Instead of src/front/engines.c. */
const qp_engine_entry *const qp_engines[] = {&qp_engine_postgres, &strict_entry, &qp_engine_sqlite,
                                             NULL};
