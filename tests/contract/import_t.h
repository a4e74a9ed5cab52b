/* What the tests of the importers share. Header only. */
#ifndef T_CONTRACT_IMPORT_T_H
#define T_CONTRACT_IMPORT_T_H

#include "contract/adk_t.h"

#include <quipu/import.h>
#include <sqlite3.h>

/* One statement's first column, row by row. */
typedef struct import_rows {
    sqlite3 *db;
    sqlite3_stmt *stmt;
} import_rows;

static inline import_rows import_query(const char *path, const char *sql)
{
    import_rows rows = {NULL, NULL};

    assert_int_equal(sqlite3_open_v2(path, &rows.db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(rows.db, sql, -1, &rows.stmt, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(rows.db));
    }
    return rows;
}

static inline const char *import_next(import_rows *rows)
{
    return sqlite3_step(rows->stmt) == SQLITE_ROW ? (const char *)sqlite3_column_text(rows->stmt, 0)
                                                  : NULL;
}

static inline void import_end(import_rows *rows)
{
    assert_int_equal(sqlite3_finalize(rows->stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(rows->db), SQLITE_OK);
}

/* Run statements on a file. */
static inline void import_exec(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline quipu_source_report import_ok(quipu_store *store, const char *path,
                                            const quipu_source_options *options)
{
    quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
    quipu_error err = {0};
    quipu_status status = quipu_source_import(store, path, options, NULL, &report, &err);

    if (status != QUIPU_OK) {
        fail_msg("import %s: %s %s", path, quipu_status_name(status), err.message);
    }
    return report;
}

/* The import fails, the message has the text, and nothing came in. */
static inline void import_refused(quipu_store *store, const char *path, quipu_status expected,
                                  const char *text)
{
    quipu_error err = {0};
    quipu_stats stats = QUIPU_STATS_INIT;

    T_STATUS(quipu_source_import(store, path, NULL, NULL, NULL, &err), expected);
    if (strstr(err.message, text) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", text, err.message);
    }
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(stats.messages, 0);
}

static inline quipu_live *import_session(adk_world *world, const char *user, const char *id)
{
    const quipu_session_ref ref = adk_ref("demo_app", user, id);
    quipu_live *session = NULL;
    quipu_error err = {0};

    T_OK(quipu_service_get(world->service, &ref, NULL, NULL, &session, &err));
    assert_non_null(session);
    return session;
}

#endif
