/* Bare SQLite, only what an append needs; see store_raw.h. */
#include "bench/store_raw.h"

#include <sqlite3.h>
#include <stdlib.h>

#define BARE_TIMEOUT_MS 30000

struct bare_db {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *find;
    sqlite3_stmt *insert;
    sqlite3_stmt *touch;
};

static void bare_execute(bare_db *bare, const char *sql)
{
    if (sqlite3_exec(bare->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(bare->db));
    }
}

static sqlite3_stmt *bare_prepare(bare_db *bare, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v3(bare->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) !=
        SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(bare->db));
    }
    return stmt;
}

static void bare_run(bare_db *bare, sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE) {
        bench_die("%s: %s", sqlite3_sql(stmt), sqlite3_errmsg(bare->db));
    }
    sqlite3_reset(stmt);
}

static void bare_create(bare_db *bare, quipu_str key)
{
    sqlite3_stmt *stmt =
        bare_prepare(bare, "INSERT INTO sessions (key,created_at,updated_at) VALUES (?1,0,0)");

    sqlite3_bind_text(stmt, 1, key.p, (int)key.n, SQLITE_STATIC);
    bare_run(bare, stmt);
    sqlite3_finalize(stmt);
}

bare_db *bare_open(const char *path, bool full, quipu_str key)
{
    bare_db *bare = bench_alloc(sizeof(*bare));

    if (sqlite3_open_v2(path, &bare->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(bare->db));
    }
    sqlite3_busy_timeout(bare->db, BARE_TIMEOUT_MS);
    bare_execute(bare, "PRAGMA journal_mode=WAL");
    bare_execute(bare, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    bare_execute(bare,
                 "CREATE TABLE sessions (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,"
                 " created_at INTEGER, updated_at INTEGER);"
                 "CREATE TABLE messages (session INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT,"
                 " author TEXT, time INTEGER, content TEXT, tool_calls TEXT,"
                 " PRIMARY KEY (session, seq)) WITHOUT ROWID");
    bare->begin = bare_prepare(bare, "BEGIN IMMEDIATE");
    bare->commit = bare_prepare(bare, "COMMIT");
    bare->find = bare_prepare(bare, "SELECT id FROM sessions WHERE key=?1");
    bare->insert = bare_prepare(
        bare, "INSERT INTO messages SELECT ?1,"
              "COALESCE((SELECT max(seq) FROM messages WHERE session=?1),0)+1,'user','',?2,?3,"
              "NULL");
    bare->touch = bare_prepare(bare, "UPDATE sessions SET updated_at=?2 WHERE id=?1");
    bare_create(bare, key);
    return bare;
}

void bare_close(bare_db *bare)
{
    sqlite3_stmt *stmt = NULL;

    while ((stmt = sqlite3_next_stmt(bare->db, NULL)) != NULL) {
        sqlite3_finalize(stmt);
    }
    sqlite3_close(bare->db);
    free(bare);
}

void bare_append(bare_db *bare, quipu_str key, quipu_str content)
{
    quipu_time now = quipu_time_now();
    sqlite3_int64 us = (sqlite3_int64)now.s * 1000000 + (sqlite3_int64)(now.ns / 1000);
    sqlite3_int64 session = 0;

    bare_run(bare, bare->begin);
    sqlite3_bind_text(bare->find, 1, key.p, (int)key.n, SQLITE_STATIC);
    if (sqlite3_step(bare->find) != SQLITE_ROW) {
        bench_die("no session");
    }
    session = sqlite3_column_int64(bare->find, 0);
    sqlite3_reset(bare->find);
    sqlite3_bind_int64(bare->insert, 1, session);
    sqlite3_bind_int64(bare->insert, 2, us);
    sqlite3_bind_text(bare->insert, 3, content.p, (int)content.n, SQLITE_STATIC);
    bare_run(bare, bare->insert);
    sqlite3_bind_int64(bare->touch, 1, session);
    sqlite3_bind_int64(bare->touch, 2, us);
    bare_run(bare, bare->touch);
    bare_run(bare, bare->commit);
}
