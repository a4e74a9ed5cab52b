/* Maintenance of a SQLite file: sizes, the cap on pages, checkpoint, VACUUM, integrity checks.
 * Copies and the list of backups are in backup.c.
 *
 * Owns: the table qp_sqlite_maintenance.
 * Called by: src/ent/maintenance.c.
 * Locks: checkpoint and VACUUM wait for readers and writers until the call's deadline; they run
 * outside of transactions. Counters are mended inside of the caller's write. The others read.
 * On return no transaction is open that was not before. */
#include "base/port.h"

#include "ent/maintenance.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "ent_sqlite/backup.h"
#include "ent_sqlite/inspect.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

#define MAINTENANCE_SYNCS_FULL 2 /* PRAGMA synchronous: every commit is synced */
#define MAINTENANCE_SQL_MAX 512
#define MAINTENANCE_PAGES_MAX INT64_C(4294967294) /* SQLITE_MAX_PAGE_COUNT: no cap */

/* The size of a file, 0 where it does not exist. */
static int64_t maintenance_bytes(const char *path)
{
    struct stat info;

    return path != NULL && path[0] != '\0' && stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

/* Sizes of the file, of its log and of its free pages. A database in memory has no file: its pages
 * are counted. The durability level is 1 where every COMMIT is synced, else 0: a power failure may
 * lose the last ones. The numbers come from several reads and may be of different moments. */
static quipu_status maintenance_sizes(void *conn, qp_sizes *ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const char *file = sqlite3_db_filename(self->db, "main");
    const bool memory = file == NULL || file[0] == '\0';
    int64_t page = 0;
    int64_t count = 0;
    int64_t unused = 0;
    int64_t level = 0;
    int rc = qp_sqlite_query_int(self->db, "PRAGMA main.page_size", 0, &page);

    assert(ret != NULL);
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_query_int(self->db, "PRAGMA main.synchronous", 0, &level);
    }
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_query_int(self->db, "PRAGMA main.page_count", 0, &count);
    }
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_query_int(self->db, "PRAGMA main.freelist_count", 0, &unused);
    }
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot read", reterr);
    }
    *ret = (qp_sizes){.page_bytes = page,
                      .file_bytes = memory ? page * count : maintenance_bytes(file),
                      .free_bytes = page * unused,
                      .log_bytes = memory ? 0 : maintenance_bytes(sqlite3_filename_wal(file)),
                      .durability_level = !memory && level >= MAINTENANCE_SYNCS_FULL,
                      .syncs = qp_page_vfs_syncs()};
    return QUIPU_OK;
}

/* The library's version at run time, which may differ from that of the header. */
static quipu_status maintenance_engine(void *conn, char *ret_text, size_t size, quipu_error *reterr)
{
    assert(ret_text != NULL && size > 0);
    (void)conn;
    (void)reterr;
    (void)snprintf(ret_text, size, "SQLite %s", sqlite3_libversion());
    return QUIPU_OK;
}

/* Sets max_page_count, at least one page; 0 lifts the cap. It does not shrink below the file's
 * present size. It belongs to the connection and not to the file, so that every writer sets it. A
 * write beyond it fails with SQLITE_FULL. */
static quipu_status maintenance_limit(void *conn, int64_t max_bytes, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    char sql[64];
    int64_t page = 0;
    int64_t pages = MAINTENANCE_PAGES_MAX;
    int rc = qp_sqlite_query_int(self->db, "PRAGMA main.page_size", 0, &page);

    assert(max_bytes >= 0);
    if (rc == SQLITE_OK && max_bytes > 0 && page > 0) {
        pages = max_bytes / page;
        pages = pages < 1 ? 1 : pages > MAINTENANCE_PAGES_MAX ? MAINTENANCE_PAGES_MAX : pages;
    }
    (void)snprintf(sql, sizeof(sql), "PRAGMA main.max_page_count = %lld", (long long)pages);
    if (rc == SQLITE_OK) {
        rc = qp_sqlite_query_int(self->db, sql, 0, &pages);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot cap", reterr);
}

/* Moves the log into the file and truncates it. A checkpoint that readers hinder succeeds with 1 in
 * its first column, which counts as busy here. The loop is for the case in which another connection
 * checkpoints: SQLite then returns at once, without calling the busy handler. */
static quipu_status maintenance_flush(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    int64_t blocked = 0;
    int rc = SQLITE_OK;

    assert(sqlite3_get_autocommit(self->db) != 0);
    do {
        rc = qp_sqlite_query_int(self->db, "PRAGMA main.wal_checkpoint(TRUNCATE)", 0, &blocked);
        if (rc == SQLITE_OK && blocked != 0) {
            rc = SQLITE_BUSY;
        }
    } while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(self, deadline_ns));
    if ((rc & 0xff) == SQLITE_BUSY) {
        quipu_status status =
            self->interrupt.stopped != QUIPU_OK ? self->interrupt.stopped : QUIPU_BUSY;
        return qp_error_set(reterr, status,
                            "the log of %s cannot be emptied: other connections read or wrote "
                            "until the deadline",
                            self->path);
    }
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot checkpoint", reterr);
}

/* VACUUM: free pages, and what deleted rows left in them, are gone afterwards. Needs free disk
 * space of up to twice the file's size until it ends, and no transaction may be open. */
static quipu_status maintenance_rewrite(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    const int64_t deadline_ns = qp_interrupt_deadline(&self->interrupt);
    int rc = SQLITE_OK;

    assert(sqlite3_get_autocommit(self->db) != 0);
    do {
        rc = sqlite3_exec(self->db, "VACUUM main", NULL, NULL, NULL);
    } while ((rc & 0xff) == SQLITE_BUSY && qp_sqlite_wait(self, deadline_ns));
    return rc == SQLITE_OK ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot rewrite", reterr);
}

/* ---- checksums --------------------------------------------------------------------------------
 */

/* A database in memory has none, and needs none. */
static quipu_status maintenance_checksums(void *conn, qp_checksums *ret, quipu_error *reterr)
{
    const qp_sqlite *self = conn;
    qp_page_state state = {0};

    assert(ret != NULL);
    (void)reterr;
    qp_page_vfs_look(self->db);
    (void)qp_page_vfs_state(self->db, &state);
    *ret = !state.sealed ? QP_CHECKSUMS_OFF : state.stale ? QP_CHECKSUMS_STALE : QP_CHECKSUMS_ON;
    return QUIPU_OK;
}

/* A VACUUM that leaves room for trailers, and a checkpoint, in which the page layer fills them in.
 * The VACUUM is one commit in the log: a crash before it leaves the file as it was, one behind it a
 * log that the next opening recovers and whose checkpoint seals the pages. */
static quipu_status maintenance_seal(void *conn, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int reserve = QP_PAGE_RESERVE;
    int64_t page_size = 0;
    int rc = qp_sqlite_query_int(self->db, "PRAGMA main.page_size", 0, &page_size);
    quipu_status status;

    assert(sqlite3_get_autocommit(self->db) != 0);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot read", reterr);
    }
    if (page_size <= QP_PAGE_SIZE_MIN) { /* SQLite needs 480 usable bytes */
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%s has pages of %d bytes, which have no room for checksums; copy it "
                            "to a new store (quipu copy)",
                            self->path, QP_PAGE_SIZE_MIN);
    }
    status = qp_sqlite_use_wal(self, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Has no effect before the VACUUM, which writes every page with the new reserve. */
    rc = sqlite3_file_control(self->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot rewrite", reterr);
    }
    qp_page_vfs_reseal(self->db, true);
    status = maintenance_rewrite(self, reterr);
    if (status == QUIPU_OK) {
        status = maintenance_flush(self, reterr);
    }
    qp_page_vfs_reseal(self->db, false);
    return status;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* Passes each row of a statement to `report`, which calls the caller's function. `fn` ends the loop
 * with any status but QUIPU_OK, which is returned without a message of its own. *ret_pages is what
 * the page layer knows at the end. */
static quipu_status
maintenance_each(qp_sqlite *self, const char *sql,
                 quipu_status (*report)(sqlite3_stmt *stmt, qp_report_fn fn, void *ctx),
                 qp_report_fn fn, void *ctx, qp_page_state *ret_pages, quipu_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    quipu_status status = QUIPU_OK;
    int rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);

    assert(report != NULL && fn != NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    while (rc == SQLITE_ROW && status == QUIPU_OK) {
        status = report(stmt, fn, ctx);
        rc = sqlite3_step(stmt);
    }
    (void)qp_page_vfs_state(self->db, ret_pages); /* before an error names one and forgets it */
    if (status == QUIPU_OK && rc != SQLITE_DONE) {
        status = qp_sqlite_fail(self, rc, "cannot check", reterr);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

/* integrity_check answers "ok" where it finds nothing. The text is SQLite's: page and index
 * numbers, no values. */
static quipu_status maintenance_report_finding(sqlite3_stmt *stmt, qp_report_fn fn, void *ctx)
{
    const char *text = (const char *)sqlite3_column_text(stmt, 0);

    assert(fn != NULL);
    return text == NULL || strcmp(text, "ok") == 0 ? QUIPU_OK : fn(ctx, quipu_cstr(text));
}

/* A row of foreign_key_check: table, rowid, referenced table. */
static quipu_status maintenance_report_dangling(sqlite3_stmt *stmt, qp_report_fn fn, void *ctx)
{
    char text[256];

    assert(fn != NULL);
    (void)snprintf(text, sizeof(text), "row %lld of %s refers to no row of %s",
                   (long long)sqlite3_column_int64(stmt, 1),
                   (const char *)sqlite3_column_text(stmt, 0),
                   (const char *)sqlite3_column_text(stmt, 2));
    return fn(ctx, quipu_cstr(text));
}

/* The pages that failed their checksum while the structure was checked, each with its owner. */
static quipu_status maintenance_report_pages(const qp_sqlite *self, const qp_page_state *state,
                                             qp_report_fn fn, void *ctx)
{
    char text[QP_SQLITE_PAGE_TEXT_SIZE];
    quipu_status status = QUIPU_OK;

    assert(state->bad_count <= QP_PAGE_BAD_MAX);
    for (uint32_t i = 0; i < state->bad_count && status == QUIPU_OK; i++) {
        /* bad_is_log is about the newest page alone. */
        qp_sqlite_page_text(self->db, state->bad[i], state->bad_is_log && i + 1 == state->bad_count,
                            text, sizeof(text));
        status = fn(ctx, quipu_cstr(text));
    }
    return status;
}

/* The structure of the file: pages, indexes, NOT NULL; it reads every page that is in use. A page
 * that fails its checksum ends SQLite's check, and is reported as a finding. The page cache is
 * emptied before: the file is what is checked. */
static quipu_status maintenance_intact(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    qp_page_state state = {0};
    quipu_error error = {0};
    quipu_status status;
    char sql[96];

    assert(conn != NULL);
    /* Pages that failed in earlier calls are not findings of this check. */
    qp_page_vfs_forget(self->db);
    (void)sqlite3_db_release_memory(self->db);
    (void)snprintf(sql, sizeof(sql), "PRAGMA main.integrity_check(%d)",
                   QP_MAINTENANCE_FINDINGS_MAX);
    status = maintenance_each(conn, sql, maintenance_report_finding, fn, ctx, &state, &error);
    /* The failed page is reported below, with its owner; the call succeeds. */
    if (status == QUIPU_CORRUPT && state.bad_count > 0) {
        status = QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = maintenance_report_pages(self, &state, fn, ctx);
    }
    qp_page_vfs_forget(self->db);
    if (status != QUIPU_OK && error.status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* The structure, and references without a target. Both list at most QP_MAINTENANCE_FINDINGS_MAX
 * findings. No transaction holds them together; the caller begins one where it needs one state. */
static quipu_status maintenance_check(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    char sql[96];
    qp_page_state pages = {0};
    quipu_status status = maintenance_intact(conn, fn, ctx, reterr);

    assert(conn != NULL);
    if (status == QUIPU_OK) {
        (void)snprintf(sql, sizeof(sql),
                       "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT %d",
                       QP_MAINTENANCE_FINDINGS_MAX);
        status = maintenance_each(conn, sql, maintenance_report_dangling, fn, ctx, &pages, reterr);
    }
    return status;
}

/* ---- counters ---------------------------------------------------------------------------------
 *
 * The keys of an AUTOINCREMENT table come from its row in sqlite_sequence, which SQLite makes with
 * the first insert. A counter behind the highest key is harmless while the row of that key exists,
 * and hands its number out again once that row is deleted.
 */

/* Reads the counter and the highest key; 0 where there is none. */
static quipu_status maintenance_counter(qp_sqlite *self, const ent_entity *entity,
                                        int64_t *ret_counter, int64_t *ret_highest,
                                        quipu_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    char sql[MAINTENANCE_SQL_MAX];
    int rc;

    /* Names of an entity are a program's own, and no input. */
    (void)snprintf(sql, sizeof(sql),
                   "SELECT (SELECT seq FROM main.sqlite_sequence WHERE name = ?1 ORDER BY rowid "
                   "LIMIT 1), (SELECT max(\"%s\") FROM main.\"%s\")",
                   entity->fields[0].column, entity->table);
    rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_text(stmt, 1, entity->table, -1, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    /* NULL, for no row or an empty table, reads as 0. */
    if (rc == SQLITE_ROW) {
        *ret_counter = sqlite3_column_int64(stmt, 0);
        *ret_highest = sqlite3_column_int64(stmt, 1);
        rc = sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot check", reterr);
}

/* Reports a counter behind the highest key: the next allocation may repeat a number. */
static quipu_status maintenance_counters(void *conn, const ent_entity *entity, qp_report_fn fn,
                                         void *ctx, quipu_error *reterr)
{
    int64_t counter = 0;
    int64_t highest = 0;
    char text[256]; /* cut where the names are longer */
    quipu_status status = maintenance_counter(conn, entity, &counter, &highest, reterr);

    assert(fn != NULL);
    if (status != QUIPU_OK || counter >= highest) {
        return status;
    }
    (void)snprintf(text, sizeof(text), QP_MAINTENANCE_BEHIND, entity->table, (long long)counter,
                   (long long)highest);
    return fn(ctx, quipu_cstr(text));
}

/* Runs a statement whose parameters are the table's name and a number. */
static int maintenance_set_counter(qp_sqlite *self, const char *sql, const char *table,
                                   int64_t number)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(stmt, 2, number);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Replaces the row: one that a damaged file has twice would be read as the first. */
static quipu_status maintenance_mend_counters(void *conn, const ent_entity *entity,
                                              quipu_error *reterr)
{
    qp_sqlite *self = conn;
    int64_t counter = 0;
    int64_t highest = 0;
    int rc = SQLITE_DONE;
    quipu_status status = maintenance_counter(self, entity, &counter, &highest, reterr);

    assert(sqlite3_get_autocommit(self->db) == 0);
    if (status != QUIPU_OK || counter >= highest) {
        return status;
    }
    /* Only a counter below the highest key is deleted: a counter never goes down. */
    rc = maintenance_set_counter(self,
                                 "DELETE FROM main.sqlite_sequence WHERE name = ?1 AND "
                                 "CAST(coalesce(seq, 0) AS integer) < ?2",
                                 entity->table, highest);
    if (rc == SQLITE_DONE) {
        rc = maintenance_set_counter(
            self,
            "INSERT INTO main.sqlite_sequence (name, seq) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 "
            "FROM main.sqlite_sequence WHERE name = ?1)",
            entity->table, highest);
    }
    return rc == SQLITE_DONE ? QUIPU_OK : qp_sqlite_fail(self, rc, "cannot repair", reterr);
}

const struct qp_maintenance qp_sqlite_maintenance = {
    .version = 1,
    .sizes = maintenance_sizes,
    .limit = maintenance_limit,
    .flush = maintenance_flush,
    .rewrite = maintenance_rewrite,
    .copy = qp_sqlite_copy,
    .check = maintenance_check,
    .backups = qp_sqlite_backups,
    .image = qp_sqlite_image,
    .intact = maintenance_intact,
    .engine = maintenance_engine,
    .checksums = maintenance_checksums,
    .seal = maintenance_seal,
    .counters = maintenance_counters,
    .mend_counters = maintenance_mend_counters,
    .forms = qp_sqlite_forms,
    .mend_forms = qp_sqlite_mend_forms,
    .rekey = qp_sqlite_rekey,
};
