/* quipu_layout: which physical layout should messages have? Builds a file of interleaved sessions
 * in each layout and reports what an append costs, the bytes, and the time and pages of loading one
 * session. A program of its own: it answers a design question and holds no bar. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bench/harness.h"

#define LAYOUT_PATH_MAX 1024
#define LAYOUT_BODY_MAX 6000
#define LAYOUT_APPENDS 20000
#define LAYOUT_LOADS 300
#define LAYOUT_BATCH 5000 /* rows a transaction while the file is built */
#define LAYOUT_COUNT_MAX 1000000

typedef struct layout_kind {
    const char *name;
    const char *ddl;
    const char *insert;
    const char *all;
    const char *last;
} layout_kind;

#define LAYOUT_OF_PACKED "WHERE id BETWEEN (?1 << 32) AND (?1 << 32) | 4294967295 ORDER BY id"

static const layout_kind layout_kinds[] = {
    {"rowid and unique index (session, seq)",
     "CREATE TABLE m (id INTEGER PRIMARY KEY, s INTEGER NOT NULL, seq INTEGER NOT NULL,"
     " body TEXT NOT NULL); CREATE UNIQUE INDEX m_s ON m (s, seq)",
     "INSERT INTO m (s, seq, body) VALUES (?1, ?2, ?3)",
     "SELECT body FROM m WHERE s = ?1 ORDER BY seq",
     "SELECT body FROM m WHERE s = ?1 ORDER BY seq DESC LIMIT 50"},
    {"packed rowid, session << 32 | seq",
     "CREATE TABLE m (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
     "INSERT INTO m (id, body) VALUES ((?1 << 32) | ?2, ?3)",
     "SELECT body FROM m " LAYOUT_OF_PACKED,
     "SELECT body FROM m " LAYOUT_OF_PACKED " DESC LIMIT 50"},
    {"WITHOUT ROWID, key (session, seq)",
     "CREATE TABLE m (s INTEGER, seq INTEGER, body TEXT NOT NULL, PRIMARY KEY (s, seq))"
     " WITHOUT ROWID",
     "INSERT INTO m (s, seq, body) VALUES (?1, ?2, ?3)",
     "SELECT body FROM m WHERE s = ?1 ORDER BY seq",
     "SELECT body FROM m WHERE s = ?1 ORDER BY seq DESC LIMIT 50"},
};

static double layout_now_us(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static void layout_execute(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
}

static sqlite3_stmt *layout_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
    return stmt;
}

static sqlite3 *layout_open(const char *path)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    }
    return db;
}

/* Sizes of messages as they come: most are short, some long, a few very long. */
static int layout_body_size(uint64_t *random)
{
    uint64_t x = bench_random(random) % 1024;

    if (x < 700) {
        return 200 + (int)(x % 300);
    }
    return x < 980 ? 600 + (int)(x % 1500) : LAYOUT_BODY_MAX;
}

static void layout_insert(sqlite3 *db, sqlite3_stmt *insert, uint64_t session, uint64_t seq,
                          uint64_t *random)
{
    static char body[LAYOUT_BODY_MAX];

    if (body[0] == '\0') {
        memset(body, 'x', sizeof(body));
    }
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)session);
    sqlite3_bind_int64(insert, 2, (sqlite3_int64)seq);
    sqlite3_bind_text(insert, 3, body, layout_body_size(random), SQLITE_STATIC);
    if (sqlite3_step(insert) != SQLITE_DONE) {
        bench_die("insert: %s", sqlite3_errmsg(db));
    }
    sqlite3_reset(insert);
}

/* Every session gets its messages in turn, as in a store that many agents share. Returns the cost
 * of one scattered append, in microseconds. */
static double layout_build(sqlite3 *db, const layout_kind *kind, uint64_t sessions, uint64_t each)
{
    uint64_t random = 1;
    uint64_t rows = 0;
    double start = 0;
    sqlite3_stmt *insert = NULL;

    layout_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    layout_execute(db, kind->ddl);
    insert = layout_prepare(db, kind->insert);
    layout_execute(db, "BEGIN");
    for (uint64_t m = 1; m <= each; m++) {
        for (uint64_t s = 1; s <= sessions; s++) {
            layout_insert(db, insert, s, m, &random);
            if (++rows % LAYOUT_BATCH == 0) {
                layout_execute(db, "COMMIT; BEGIN");
            }
        }
    }
    layout_execute(db, "COMMIT");
    start = layout_now_us();
    for (uint64_t i = 1; i <= LAYOUT_APPENDS; i++) {
        layout_execute(db, "BEGIN IMMEDIATE");
        layout_insert(db, insert, 1 + bench_random(&random) % sessions, each + i, &random);
        layout_execute(db, "COMMIT");
    }
    start = layout_now_us() - start;
    sqlite3_finalize(insert);
    layout_execute(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    return start / LAYOUT_APPENDS;
}

static void layout_read(sqlite3 *db, const char *what, const char *sql, uint64_t sessions)
{
    sqlite3_stmt *stmt = layout_prepare(db, sql);
    uint64_t random = 7;
    uint64_t rows = 0;
    int missed_before = 0, missed = 0, high = 0;
    double start = 0;

    sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_MISS, &missed_before, &high, 0);
    start = layout_now_us();
    for (int i = 0; i < LAYOUT_LOADS; i++) {
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)(1 + bench_random(&random) % sessions));
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            rows += sqlite3_column_bytes(stmt, 0) > 0 ? 1 : 0;
        }
        sqlite3_reset(stmt);
    }
    start = layout_now_us() - start;
    sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_MISS, &missed, &high, 0);
    printf("  %-5s %7.1f us a load, %6.1f pages read, %5.1f rows\n", what, start / LAYOUT_LOADS,
           (double)(missed - missed_before) / LAYOUT_LOADS, (double)rows / LAYOUT_LOADS);
    sqlite3_finalize(stmt);
}

static uint64_t layout_number(const char *text)
{
    char *end = NULL;
    unsigned long value = 0;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value == 0 || value > LAYOUT_COUNT_MAX) {
        bench_die("\"%s\" is no number from 1 to %d", text, LAYOUT_COUNT_MAX);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: quipu_layout FOLDER SESSIONS MESSAGES_EACH\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof(layout_kinds) / sizeof(layout_kinds[0]); i++) {
        const layout_kind *kind = &layout_kinds[i];
        uint64_t sessions = layout_number(argv[2]);
        char path[LAYOUT_PATH_MAX];
        struct stat file = {0};
        double append_us = 0;
        sqlite3 *db = NULL;

        snprintf(path, sizeof(path), "%s/layout%zu.db", argv[1], i);
        remove(path);
        db = layout_open(path);
        append_us = layout_build(db, kind, sessions, layout_number(argv[3]));
        sqlite3_close(db);
        stat(path, &file);
        printf("%s: append %.1f us, file %.1f MB\n", kind->name, append_us,
               (double)file.st_size / 1e6);
        /* A page cache of 2 MB and no mmap: what a small reader connection has. */
        db = layout_open(path);
        layout_execute(db, "PRAGMA mmap_size=0; PRAGMA cache_size=-2000");
        layout_read(db, "all", kind->all, sessions);
        layout_read(db, "last", kind->last, sessions);
        sqlite3_close(db);
        remove(path);
    }
    return 0;
}
