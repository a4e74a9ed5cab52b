/* Sessions whose messages lie between those of others. The yardstick of the bars is the first one
 * of layout.c, rows in the order of arrival and an index, of which only the text is touched. Beside
 * it: that layout decoded as we do, our layout with only the text touched, and hand-written calls
 * on our own tables; these two show what there is to gain. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/benches.h"
#include "bench/store_sides.h"

#define MIXED_SESSIONS 2000
#define MIXED_EACH 100 /* messages of a session; twice as many in the long form */
#define MIXED_BODY_MAX 6000
#define MIXED_BATCH 5000
#define MIXED_LOADS 100
#define MIXED_LAST 50

/* Who reads. Each draws its own sessions, all the same ones, and goes on from block to block, so
 * that no cache learns them. */
typedef enum mixed_side {
    MIXED_OURS = 0,
    MIXED_ROWS,    /* rows as they came, the text touched */
    MIXED_DECODED, /* rows as they came, decoded */
    MIXED_FLOOR,   /* our layout, decoded by hand */
    MIXED_TOUCHED, /* our layout, the text touched: what the layout itself gives */
    MIXED_SIDES
} mixed_side;

/* Texts of one session, all and the last, of which only the sizes are looked at. */
typedef struct mixed_reader {
    sqlite3 *db;
    sqlite3_stmt *all;
    sqlite3_stmt *last;
} mixed_reader;

typedef struct mixed_files {
    quipu_store *store;
    mixed_reader rows;
    mixed_reader touched;
    same_db *decoded;
    same_db *floor;
    uint64_t each;
    char path[STORE_PATH_MAX];
    char rows_path[STORE_PATH_MAX];
} mixed_files;

typedef struct mixed_pair {
    mixed_files *files;
    int64_t limit; /* 0: all */
    bool sizes;    /* only the sizes of texts go into the checksum */
    mixed_side ours;
    mixed_side yardstick;
    uint64_t random[MIXED_SIDES];
} mixed_pair;

/* ---- files ------------------------------------------------------------------------------------
 */

/* Sizes as in layout.c: most are short, some long, a few very long. */
static size_t mixed_size(uint64_t *random)
{
    uint64_t x = bench_random(random) % 1024;

    if (x < 700) {
        return 200 + x % 300;
    }
    return x < 980 ? 600 + x % 1500 : MIXED_BODY_MAX;
}

static void mixed_execute(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
}

static sqlite3_stmt *mixed_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
    return stmt;
}

static sqlite3 *mixed_open(const char *path)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    }
    return db;
}

#define MIXED_OURS_OF " FROM messages WHERE id BETWEEN (?1 << 32) AND (?1 << 32) | 4294967295"

static mixed_reader mixed_open_reader(const char *path, const char *all, const char *last)
{
    mixed_reader reader = {.db = mixed_open(path)};

    mixed_execute(reader.db, "PRAGMA mmap_size=0; PRAGMA cache_size=-2000");
    reader.all = mixed_prepare(reader.db, all);
    reader.last = mixed_prepare(reader.db, last);
    return reader;
}

static void mixed_close_reader(mixed_reader *reader)
{
    sqlite3_finalize(reader->all);
    sqlite3_finalize(reader->last);
    sqlite3_close(reader->db);
}

static void mixed_build_rows(const mixed_files *self, const char *body)
{
    sqlite3 *db = mixed_open(self->rows_path);
    sqlite3_stmt *insert = NULL;
    uint64_t random = 1;
    uint64_t rows = 0;

    mixed_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    mixed_execute(db, "CREATE TABLE m (id INTEGER PRIMARY KEY, s INTEGER NOT NULL,"
                      " seq INTEGER NOT NULL, body TEXT NOT NULL);"
                      "CREATE UNIQUE INDEX m_s ON m (s, seq); BEGIN");
    insert = mixed_prepare(db, "INSERT INTO m (s, seq, body) VALUES (?1, ?2, ?3)");
    for (uint64_t m = 1; m <= self->each; m++) {
        for (uint64_t s = 1; s <= MIXED_SESSIONS; s++) {
            sqlite3_bind_int64(insert, 1, (sqlite3_int64)s);
            sqlite3_bind_int64(insert, 2, (sqlite3_int64)m);
            sqlite3_bind_text(insert, 3, body, (int)mixed_size(&random), SQLITE_STATIC);
            if (sqlite3_step(insert) != SQLITE_DONE) {
                bench_die("insert: %s", sqlite3_errmsg(db));
            }
            sqlite3_reset(insert);
            if (++rows % MIXED_BATCH == 0) {
                mixed_execute(db, "COMMIT; BEGIN");
            }
        }
    }
    mixed_execute(db, "COMMIT");
    sqlite3_finalize(insert);
    sqlite3_close(db);
}

static void mixed_build_store(const mixed_files *self, const char *body)
{
    quipu_store *store = wall_open(self->path, false);
    uint64_t random = 1;
    char key[STORE_KEY_SIZE];

    for (uint64_t s = 1; s <= MIXED_SESSIONS; s++) {
        wall_fill(store, sides_key(s, key), 0);
    }
    for (uint64_t m = 1; m <= self->each; m++) {
        for (uint64_t s = 1; s <= MIXED_SESSIONS; s++) {
            wall_append(store, sides_key(s, key), (quipu_str){body, mixed_size(&random)});
        }
    }
    quipu_close(store);
}

/* raw_same, with its messages from another file: ours once more, in the order of arrival. */
static same_db *mixed_open_decoded(const mixed_files *self, const bench_arguments *arguments)
{
    same_db *same = same_open_reader(self->path);
    char path[STORE_PATH_MAX];
    char *sql = NULL;

    store_path(arguments->folder, "mixed_decoded.db", path);
    sqlite3_close(mixed_open(path)); /* an empty file: raw_same makes none */
    sql = sqlite3_mprintf("ATTACH %Q AS came", path);
    if (sql == NULL) {
        bench_die("out of memory");
    }
    mixed_execute(same->db, sql);
    sqlite3_free(sql);
    mixed_execute(same->db, "CREATE TABLE came.m AS SELECT id >> 32 AS s, role, content, timestamp,"
                            " tool_calls, author, seq, event_id, invocation_id, branch, tokens,"
                            " tokens_total, extra, mark, salted_hash, model, prompt_tokens,"
                            " cached_tokens, answer_tokens FROM messages ORDER BY seq, id;"
                            "CREATE UNIQUE INDEX came.m_s ON m (s, seq)");
    sqlite3_finalize(same->messages_between);
    same->messages_between = mixed_prepare(
        same->db, "SELECT role, content, timestamp, tool_calls, author, seq, event_id,"
                  " invocation_id, branch, tokens, tokens_total, extra, mark, salted_hash,"
                  " model, prompt_tokens, cached_tokens, answer_tokens FROM came.m WHERE"
                  " s = ?1 >> 32 AND seq BETWEEN ?1 & 4294967295 AND ?2 & 4294967295"
                  " ORDER BY seq");
    return same;
}

static void mixed_files_open(mixed_files *self, const bench_arguments *arguments)
{
    char *body = bench_alloc(MIXED_BODY_MAX);

    memset(body, 'x', MIXED_BODY_MAX);
    store_path(arguments->folder, "mixed_rows.db", self->rows_path);
    store_path(arguments->folder, "mixed_ours.db", self->path);
    mixed_build_rows(self, body);
    mixed_build_store(self, body);
    free(body);
    self->rows = mixed_open_reader(self->rows_path, "SELECT body FROM m WHERE s = ?1 ORDER BY seq",
                                   "SELECT body FROM m WHERE s = ?1 ORDER BY seq DESC LIMIT 50");
    self->touched = mixed_open_reader(self->path, "SELECT content" MIXED_OURS_OF " ORDER BY id",
                                      "SELECT content" MIXED_OURS_OF " ORDER BY id DESC LIMIT 50");
    self->decoded = mixed_open_decoded(self, arguments);
    self->floor = same_open_reader(self->path);
    self->store = wall_open(self->path, false);
}

static void mixed_files_close(mixed_files *self)
{
    mixed_close_reader(&self->rows);
    mixed_close_reader(&self->touched);
    same_close(self->decoded);
    same_close(self->floor);
    quipu_close(self->store);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void mixed_load_ours(const mixed_pair *pair, quipu_str key, bench_work *work)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    uint64_t sum = 0;

    range.limit = pair->limit;
    range.flags = pair->limit > 0 ? QUIPU_RANGE_LAST : 0;
    bench_ok(quipu_session_get(pair->files->store, key, &range, NULL, &history, &error), &error,
             "load");
    for (size_t m = 0; m < history->messages.count; m++) {
        sum = pair->sizes ? sum + quipu_message_at(history->messages, m)->content.n
                          : same_mix(sum, quipu_message_at(history->messages, m));
    }
    work->rows += history->messages.count;
    work->checksum = bench_mix(work->checksum, sum);
    quipu_free(history);
}

static void mixed_load_sizes(const mixed_pair *pair, const mixed_reader *reader, uint64_t session,
                             bench_work *work)
{
    sqlite3_stmt *stmt = pair->limit > 0 ? reader->last : reader->all;
    uint64_t sum = 0; /* of sizes: the orders differ */

    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)session);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        sum += (uint64_t)sqlite3_column_bytes(stmt, 0);
        work->rows++;
    }
    sqlite3_reset(stmt);
    work->checksum = bench_mix(work->checksum, sum);
}

static void mixed_load_same(const mixed_pair *pair, same_db *same, quipu_str key, bench_work *work)
{
    quipu_arena arena = QUIPU_ARENA_INIT; /* a result of its own each time, as ours */
    const quipu_message *messages = NULL;
    bench_work one = same_load(same, &arena, key, pair->limit, &messages);
    uint64_t sum = 0;

    for (size_t m = 0; pair->sizes && m < one.rows; m++) {
        sum += messages[m].content.n;
    }
    work->rows += one.rows;
    work->checksum = bench_mix(work->checksum, pair->sizes ? sum : one.checksum);
    quipu_arena_free(&arena);
}

static bench_work mixed_block(mixed_pair *pair, mixed_side side)
{
    bench_work work = {0};
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MIXED_LOADS; i++) {
        uint64_t session = 1 + bench_random(&pair->random[side]) % MIXED_SESSIONS;
        quipu_str text = sides_key(session, key);
        if (side == MIXED_OURS) {
            mixed_load_ours(pair, text, &work);
        } else if (side == MIXED_ROWS) {
            mixed_load_sizes(pair, &pair->files->rows, session, &work);
        } else if (side == MIXED_TOUCHED) {
            mixed_load_sizes(pair, &pair->files->touched, session, &work);
        } else {
            mixed_load_same(pair, side == MIXED_DECODED ? pair->files->decoded : pair->files->floor,
                            text, &work);
        }
    }
    return work;
}

static bench_work mixed_ours(void *ctx)
{
    mixed_pair *pair = ctx;

    return mixed_block(pair, pair->ours);
}

static bench_work mixed_yardstick(void *ctx)
{
    mixed_pair *pair = ctx;

    return mixed_block(pair, pair->yardstick);
}

static void mixed_run(mixed_files *files, const bench_arguments *arguments, const char *name,
                      mixed_pair pair, const char *against)
{
    char options[96];

    pair.files = files;
    for (size_t i = 0; i < MIXED_SIDES; i++) {
        pair.random[i] = 7;
    }
    snprintf(options, sizeof(options), "%d interleaved sessions of %llu messages, %s",
             MIXED_SESSIONS, (unsigned long long)files->each, sides_form());
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = against,
                                 .options = options,
                                 .measure = BENCH_COST_RATIO,
                                 .operations = MIXED_LOADS,
                                 .in_kernel = true,
                                 .ctx = &pair,
                                 .ours = mixed_ours,
                                 .yardstick = mixed_yardstick},
                   arguments);
}

void bench_store_mixed(const bench_arguments *arguments)
{
    static const char rows[] = "SQLite, rows as they came and an index, 2 MB of cache";
    static const char decoded[] = "raw_same, whole messages from rows as they came";
    static const char touched[] = "the rows: our layout, of which only the text is touched, too";
    static const char floor[] = "the rows: what raw_same reaches on our tables";
    mixed_files files = {.each = sides_long() ? (uint64_t)2 * MIXED_EACH : MIXED_EACH};

    mixed_files_open(&files, arguments);
    mixed_run(&files, arguments, "store.interleaved_all",
              (mixed_pair){.sizes = true, .ours = MIXED_OURS, .yardstick = MIXED_ROWS}, rows);
    mixed_run(&files, arguments, "store.interleaved_last_50",
              (mixed_pair){
                  .limit = MIXED_LAST, .sizes = true, .ours = MIXED_OURS, .yardstick = MIXED_ROWS},
              rows);
    mixed_run(&files, arguments, "store.interleaved_all_floor",
              (mixed_pair){.sizes = true, .ours = MIXED_FLOOR, .yardstick = MIXED_ROWS}, floor);
    mixed_run(&files, arguments, "store.interleaved_last_50_floor",
              (mixed_pair){
                  .limit = MIXED_LAST, .sizes = true, .ours = MIXED_FLOOR, .yardstick = MIXED_ROWS},
              floor);
    mixed_run(&files, arguments, "store.interleaved_all_touched",
              (mixed_pair){.sizes = true, .ours = MIXED_TOUCHED, .yardstick = MIXED_ROWS}, touched);
    mixed_run(
        &files, arguments, "store.interleaved_last_50_touched",
        (mixed_pair){
            .limit = MIXED_LAST, .sizes = true, .ours = MIXED_TOUCHED, .yardstick = MIXED_ROWS},
        touched);
    mixed_run(&files, arguments, "store.interleaved_all_decoded",
              (mixed_pair){.ours = MIXED_OURS, .yardstick = MIXED_DECODED}, decoded);
    mixed_run(&files, arguments, "store.interleaved_last_50_decoded",
              (mixed_pair){.limit = MIXED_LAST, .ours = MIXED_OURS, .yardstick = MIXED_DECODED},
              decoded);
    mixed_files_close(&files);
}
