/* Reading, the store as a whole: sessions whose messages lie between those of others, the memory
 * that a history needs, a cold start, search. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/benches.h"
#include "bench/store_sides.h"

/* ---- interleaved sessions ----------------------------------------------------------------------
 */

#define MIXED_BODY_MAX 6000
#define MIXED_BATCH 5000
#define MIXED_LOADS 100
#define MIXED_LAST 50

/* The yardstick is the first layout of layout.c: rows in the order of arrival and an index. */
typedef struct mixed_bench {
    quipu_store *store;
    sqlite3 *db;
    sqlite3_stmt *all;
    sqlite3_stmt *last;
    uint64_t sessions;
    uint64_t each;
    bool whole;
} mixed_bench;

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

static void mixed_build_rows(const mixed_bench *bench, const char *path, const char *body)
{
    sqlite3 *db = mixed_open(path);
    sqlite3_stmt *insert = NULL;
    uint64_t random = 1;
    uint64_t rows = 0;

    mixed_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    mixed_execute(db, "CREATE TABLE m (id INTEGER PRIMARY KEY, s INTEGER NOT NULL,"
                      " seq INTEGER NOT NULL, body TEXT NOT NULL);"
                      "CREATE UNIQUE INDEX m_s ON m (s, seq); BEGIN");
    insert = mixed_prepare(db, "INSERT INTO m (s, seq, body) VALUES (?1, ?2, ?3)");
    for (uint64_t m = 1; m <= bench->each; m++) {
        for (uint64_t s = 1; s <= bench->sessions; s++) {
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

static void mixed_build_store(const mixed_bench *bench, const char *path, const char *body)
{
    quipu_store *store = wall_open(path, false);
    uint64_t random = 1;
    char key[STORE_KEY_SIZE];

    for (uint64_t s = 1; s <= bench->sessions; s++) {
        wall_fill(store, sides_key(s, key), 0);
    }
    for (uint64_t m = 1; m <= bench->each; m++) {
        for (uint64_t s = 1; s <= bench->sessions; s++) {
            wall_append(store, sides_key(s, key), (quipu_str){body, mixed_size(&random)});
        }
    }
    quipu_close(store);
}

static bench_work mixed_ours(void *ctx)
{
    mixed_bench *bench = ctx;
    quipu_range range = QUIPU_RANGE_INIT;
    bench_work work = {0};
    uint64_t random = 7;
    char key[STORE_KEY_SIZE];

    range.limit = bench->whole ? 0 : MIXED_LAST;
    range.flags = bench->whole ? 0 : QUIPU_RANGE_LAST;
    for (int i = 0; i < MIXED_LOADS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        quipu_str text = sides_key(1 + bench_random(&random) % bench->sessions, key);
        bench_ok(quipu_session_get(bench->store, text, &range, NULL, &history, &error), &error,
                 "load");
        for (size_t m = 0; m < history->message_count; m++) {
            work.checksum += history->messages[m].content.n; /* the orders differ */
        }
        work.rows += history->message_count;
        quipu_history_free(history);
    }
    return work;
}

static bench_work mixed_yardstick(void *ctx)
{
    mixed_bench *bench = ctx;
    sqlite3_stmt *stmt = bench->whole ? bench->all : bench->last;
    bench_work work = {0};
    uint64_t random = 7;

    for (int i = 0; i < MIXED_LOADS; i++) {
        uint64_t session = 1 + bench_random(&random) % bench->sessions;
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)session);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            work.checksum += (uint64_t)sqlite3_column_bytes(stmt, 0);
            work.rows++;
        }
        sqlite3_reset(stmt);
    }
    return work;
}

static void mixed_run(mixed_bench *bench, const bench_arguments *arguments, const char *name,
                      bool whole)
{
    char options[80];

    snprintf(options, sizeof(options), "%llu interleaved sessions of %llu messages",
             (unsigned long long)bench->sessions, (unsigned long long)bench->each);
    bench->whole = whole;
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "SQLite, rows as they came and an index, 2 MB of cache",
                                 .options = options,
                                 .measure = BENCH_COST_RATIO,
                                 .operations = MIXED_LOADS,
                                 .in_kernel = true,
                                 .ctx = bench,
                                 .ours = mixed_ours,
                                 .yardstick = mixed_yardstick},
                   arguments);
}

static void mixed_bench_run(const bench_arguments *arguments, const char *name, bool whole)
{
    const bool full = sides_long();
    mixed_bench bench = {.sessions = full ? 2000 : 500, .each = full ? 200 : 100};
    char *body = bench_alloc(MIXED_BODY_MAX);
    char path[STORE_PATH_MAX];
    char ours[STORE_PATH_MAX];

    memset(body, 'x', MIXED_BODY_MAX);
    store_path(arguments->folder, whole ? "mixed_all.db" : "mixed_last.db", path);
    store_path(arguments->folder, whole ? "mixed_all_ours.db" : "mixed_last_ours.db", ours);
    mixed_build_rows(&bench, path, body);
    mixed_build_store(&bench, ours, body);
    bench.store = wall_open(ours, false);
    bench.db = mixed_open(path);
    mixed_execute(bench.db, "PRAGMA mmap_size=0; PRAGMA cache_size=-2000");
    bench.all = mixed_prepare(bench.db, "SELECT body FROM m WHERE s = ?1 ORDER BY seq");
    bench.last =
        mixed_prepare(bench.db, "SELECT body FROM m WHERE s = ?1 ORDER BY seq DESC LIMIT 50");
    mixed_run(&bench, arguments, name, whole);
    sqlite3_finalize(bench.all);
    sqlite3_finalize(bench.last);
    sqlite3_close(bench.db);
    quipu_close(bench.store);
    free(body);
}

void bench_store_mixed_all(const bench_arguments *arguments)
{
    mixed_bench_run(arguments, "store.interleaved_all", true);
}

void bench_store_mixed_last(const bench_arguments *arguments)
{
    mixed_bench_run(arguments, "store.interleaved_last_50", false);
}

/* ---- the same, decoded -------------------------------------------------------------------------
 */

/* The layout alone: raw_same reads whole messages into our structs from rows as they came. */
typedef struct decoded_bench {
    quipu_store *store;
    same_db *same;
    uint64_t sessions;
    int64_t last;
} decoded_bench;

/* Our messages once more, in the order of arrival, in the yardstick's own file. */
static void decoded_build(const char *path)
{
    sqlite3 *db = mixed_open(path);

    mixed_execute(db, "CREATE TABLE m AS SELECT id >> 32 AS s, role, content, timestamp,"
                      " tool_calls, author, seq, event_id, invocation_id, branch, tokens,"
                      " tokens_total, extra, mark FROM messages ORDER BY seq, id;"
                      "CREATE UNIQUE INDEX m_s ON m (s, seq);");
    sqlite3_close(db);
}

static same_db *decoded_open(const char *path)
{
    same_db *same = same_open_reader(path);

    sqlite3_finalize(same->messages_between);
    same->messages_between = mixed_prepare(
        same->db, "SELECT role, content, timestamp, tool_calls, author, seq, event_id,"
                  " invocation_id, branch, tokens, tokens_total, extra, mark FROM m WHERE"
                  " s = ?1 >> 32 AND seq BETWEEN ?1 & 4294967295 AND ?2 & 4294967295"
                  " ORDER BY seq");
    return same;
}

static bench_work decoded_ours(void *ctx)
{
    decoded_bench *bench = ctx;
    quipu_range range = QUIPU_RANGE_INIT;
    bench_work work = {0};
    uint64_t random = 7;
    char key[STORE_KEY_SIZE];

    range.limit = bench->last;
    range.flags = bench->last > 0 ? QUIPU_RANGE_LAST : 0;
    for (int i = 0; i < MIXED_LOADS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        quipu_str text = sides_key(1 + bench_random(&random) % bench->sessions, key);
        uint64_t sum = 0;
        bench_ok(quipu_session_get(bench->store, text, &range, NULL, &history, &error), &error,
                 "load");
        for (size_t m = 0; m < history->message_count; m++) {
            sum = same_mix(sum, &history->messages[m]);
        }
        work.rows += history->message_count;
        work.checksum = bench_mix(work.checksum, sum);
        quipu_history_free(history);
    }
    return work;
}

static bench_work decoded_yardstick(void *ctx)
{
    decoded_bench *bench = ctx;
    bench_work work = {0};
    uint64_t random = 7;
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MIXED_LOADS; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT; /* a result of its own each time, as ours */
        quipu_str text = sides_key(1 + bench_random(&random) % bench->sessions, key);
        bench_work one = same_load(bench->same, &arena, text, bench->last);
        work.rows += one.rows;
        work.checksum = bench_mix(work.checksum, one.checksum);
        quipu_arena_free(&arena);
    }
    return work;
}

static void decoded_run(decoded_bench *bench, const bench_arguments *arguments, const char *name,
                        int64_t last)
{
    char options[80];

    snprintf(options, sizeof(options), "%llu interleaved sessions",
             (unsigned long long)bench->sessions);
    bench->last = last;
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "raw_same, whole messages from rows as they came",
                                 .options = options,
                                 .measure = BENCH_COST_RATIO,
                                 .operations = MIXED_LOADS,
                                 .in_kernel = true,
                                 .ctx = bench,
                                 .ours = decoded_ours,
                                 .yardstick = decoded_yardstick},
                   arguments);
}

static void decoded_bench_run(const bench_arguments *arguments, const char *name, int64_t last)
{
    const bool full = sides_long();
    mixed_bench shape = {.sessions = full ? 2000 : 500, .each = full ? 200 : 100};
    decoded_bench bench = {.sessions = shape.sessions};
    char *body = bench_alloc(MIXED_BODY_MAX);
    char path[STORE_PATH_MAX];

    memset(body, 'x', MIXED_BODY_MAX);
    store_path(arguments->folder, last > 0 ? "decoded_last.db" : "decoded_all.db", path);
    mixed_build_store(&shape, path, body);
    decoded_build(path);
    bench.store = wall_open(path, false);
    bench.same = decoded_open(path);
    decoded_run(&bench, arguments, name, last);
    same_close(bench.same);
    quipu_close(bench.store);
    free(body);
}

void bench_store_decoded_all(const bench_arguments *arguments)
{
    decoded_bench_run(arguments, "store.interleaved_all_decoded", 0);
}

void bench_store_decoded_last(const bench_arguments *arguments)
{
    decoded_bench_run(arguments, "store.interleaved_last_50_decoded", MIXED_LAST);
}

/* ---- peak memory -------------------------------------------------------------------------------
 */

#define PEAK_MESSAGES 4000
#define PEAK_BYTES 1000
#define PEAK_BATCH 1000

typedef struct peak_memory {
    size_t now;
    size_t most;
} peak_memory;

/* The size stands before each block; two words keep the alignment. */
static void *peak_realloc(void *ctx, void *p, size_t size)
{
    peak_memory *memory = ctx;
    size_t *block = p == NULL ? NULL : (size_t *)p - 2;
    size_t old = block == NULL ? 0 : block[0];

    if (size == 0) {
        memory->now -= old;
        free(block);
        return NULL;
    }
    block = realloc(block, size + 2 * sizeof(size_t));
    if (block == NULL) {
        return NULL;
    }
    block[0] = size;
    memory->now += size - old;
    memory->most = memory->now > memory->most ? memory->now : memory->most;
    return block + 2;
}

static void peak_fill(quipu_store *store)
{
    static char text[PEAK_BYTES];
    quipu_message *batch = bench_alloc(PEAK_BATCH * sizeof(*batch));
    quipu_error error = {0};

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < PEAK_BATCH; i++) {
        batch[i] = (quipu_message){.role = QUIPU_ROLE_USER, .content = {text, sizeof(text)}};
    }
    wall_fill(store, SIDES_KEY, 0);
    for (int i = 0; i < PEAK_MESSAGES / PEAK_BATCH; i++) {
        bench_ok(quipu_message_append(store, SIDES_KEY, (quipu_messages){batch, PEAK_BATCH}, NULL,
                                      NULL, NULL, &error),
                 &error, "fill");
    }
    free(batch);
}

void bench_store_peak(const bench_arguments *arguments)
{
    peak_memory memory = {0};
    quipu_history *history = NULL;
    quipu_error error = {0};
    char path[STORE_PATH_MAX];
    size_t before = 0;

    if (quipu_set_allocator(&(quipu_allocator){.ctx = &memory, .realloc = peak_realloc}) !=
        QUIPU_OK) {
        bench_die("the allocator is refused");
    }
    store_path(arguments->folder, "peak.db", path);
    quipu_store *store = wall_open(path, false);
    peak_fill(store);
    for (int i = 0; i < 2; i++) { /* the second time everything is warm */
        quipu_history_free(history);
        before = memory.now;
        memory.most = memory.now;
        bench_ok(quipu_session_get(store, SIDES_KEY, NULL, NULL, &history, &error), &error, "load");
    }
    if (history->message_count != PEAK_MESSAGES) {
        bench_die("%zu messages", history->message_count);
    }
    double ratio = (double)(memory.most - before) / ((double)PEAK_MESSAGES * PEAK_BYTES);
    quipu_history_free(history);
    quipu_close(store);
    if (quipu_set_allocator(NULL) != QUIPU_OK) {
        bench_die("the allocator cannot be restored");
    }
    bench_print_count("store.load_peak_memory", ratio, "x", "the payload",
                      "4,000 messages of 1,000 bytes, counted by the allocator without SQLite's");
}

/* ---- cold start --------------------------------------------------------------------------------
 */

#define COLD_MESSAGES 100
#define COLD_ROUNDS 20

static double cold_ours(const char *path)
{
    uint64_t ns[COLD_ROUNDS];

    for (size_t i = 0; i < COLD_ROUNDS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        quipu_store *store = wall_open(path, false);
        bench_ok(quipu_session_get(store, SIDES_KEY, NULL, NULL, &history, &error), &error, "load");
        ns[i] = wall_now() - start;
        if (history->message_count != COLD_MESSAGES) {
            bench_die("%zu messages", history->message_count);
        }
        quipu_history_free(history);
        quipu_close(store);
    }
    return wall_median(ns, COLD_ROUNDS);
}

static double cold_same(const char *path)
{
    uint64_t ns[COLD_ROUNDS];

    for (size_t i = 0; i < COLD_ROUNDS; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT;
        uint64_t start = wall_now();
        same_db *same = same_open_reader(path);
        bench_work work = same_load(same, &arena, SIDES_KEY, 0);
        ns[i] = wall_now() - start;
        if (work.rows != COLD_MESSAGES) {
            bench_die("%llu messages", (unsigned long long)work.rows);
        }
        quipu_arena_free(&arena);
        same_close(same);
    }
    return wall_median(ns, COLD_ROUNDS);
}

void bench_store_cold(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    sides self;

    sides_open(&self, arguments, "cold", false, COLD_MESSAGES);
    sides_close(&self);
    for (size_t i = 0; i < 2 * blocks; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) { /* who goes first alternates */
            times[i / 2] = cold_ours(self.path);
        } else {
            times[blocks + i / 2] = cold_same(self.same_path);
        }
    }
    wall_print("store.cold_start", WALL_AGAINST,
               "p50 from open to a session of 100 messages, the file in the system's cache",
               BENCH_COST_RATIO, times, times + blocks, blocks);
    free(times);
}

/* ---- search ------------------------------------------------------------------------------------
 */

#define SEARCH_WORDS 20000
#define SEARCH_TEXT_WORDS 40
#define SEARCH_TEXT_MAX 512
#define SEARCH_BATCH 1000
#define SEARCH_SESSION 10000 /* messages of one session */
#define SEARCH_QUERIES 300

/* A word by its number; few are common and most are rare, as in any language. */
static size_t search_word(uint64_t *random, char *ret_word, size_t size)
{
    double u = (double)(bench_random(random) >> 11) / 9007199254740992.0;
    uint64_t number = (uint64_t)(u * u * u * SEARCH_WORDS);
    int n = snprintf(ret_word, size, "w%c%c%llu", (char)('a' + number % 26),
                     (char)('a' + number / 26 % 26), (unsigned long long)number);

    return (size_t)n;
}

static quipu_str search_text(uint64_t *random, char text[SEARCH_TEXT_MAX])
{
    size_t n = 0;

    for (int i = 0; i < SEARCH_TEXT_WORDS; i++) {
        n += search_word(random, text + n, SEARCH_TEXT_MAX - n);
        text[n++] = ' ';
    }
    return (quipu_str){text, n - 1};
}

static void search_fill(quipu_store *store, uint64_t messages, uint64_t *random)
{
    quipu_message *batch = bench_alloc(SEARCH_BATCH * sizeof(*batch));
    char(*texts)[SEARCH_TEXT_MAX] = bench_alloc(SEARCH_BATCH * sizeof(*texts));
    char key[STORE_KEY_SIZE];

    for (uint64_t done = 0; done < messages; done += SEARCH_BATCH) {
        quipu_str session = sides_key(1 + done / SEARCH_SESSION, key);
        quipu_error error = {0};
        if (done % SEARCH_SESSION == 0) {
            wall_fill(store, session, 0);
        }
        for (size_t i = 0; i < SEARCH_BATCH; i++) {
            batch[i] =
                (quipu_message){.role = QUIPU_ROLE_USER, .content = search_text(random, texts[i])};
        }
        bench_ok(quipu_message_append(store, session, (quipu_messages){batch, SEARCH_BATCH}, NULL,
                                      NULL, NULL, &error),
                 &error, "fill");
    }
    free(batch);
    free(texts);
}

/* CPU nanoseconds a message of the indexer, which runs in the thread that calls it. */
static double search_index(quipu_store *store, uint64_t messages)
{
    quipu_call call = QUIPU_CALL_INIT;
    quipu_error error = {0};
    struct timespec before;
    struct timespec after;
    int64_t indexed = 0;

    call.deadline_ms = -1;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    bench_ok(quipu_search_index(store, &call, &indexed, &error), &error, "index");
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    if (indexed != (int64_t)messages) {
        bench_die("%lld messages were indexed", (long long)indexed);
    }
    return ((double)(after.tv_sec - before.tv_sec) * 1e9 +
            (double)(after.tv_nsec - before.tv_nsec)) /
           (double)messages;
}

/* Two words drawn as the texts draw them; gives how many queries found something. */
static size_t search_queries(quipu_store *store, uint64_t *random, uint64_t *ns)
{
    size_t found = 0;

    for (size_t i = 0; i < SEARCH_QUERIES; i++) {
        quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error error = {0};
        char query[64];
        size_t n = search_word(random, query, 30);
        query[n++] = ' ';
        n += search_word(random, query + n, 30);
        options.query = (quipu_str){query, n};
        uint64_t start = wall_now();
        bench_ok(quipu_search(store, &options, NULL, &results, &error), &error, "search");
        ns[i] = wall_now() - start;
        found += results->count > 0 ? 1 : 0;
        quipu_search_results_free(results);
    }
    return found;
}

void bench_store_search(const bench_arguments *arguments)
{
    const uint64_t messages = sides_long() ? 1000000 : 100000;
    uint64_t random = 11;
    uint64_t ns[SEARCH_QUERIES];
    char path[STORE_PATH_MAX];
    char options[96];

    store_path(arguments->folder, "search.db", path);
    quipu_store *store = wall_open(path, false);
    search_fill(store, messages, &random);
    double cpu = search_index(store, messages);
    size_t found = search_queries(store, &random, ns);
    quipu_close(store);
    if (found == 0) {
        bench_die("no query found anything");
    }
    snprintf(options, sizeof(options),
             "%llu messages of 40 words, %d queries of two words, %zu found some",
             (unsigned long long)messages, SEARCH_QUERIES, found);
    wall_print_latency("store.search", ns, SEARCH_QUERIES, options);
    bench_print_count("store.search_index_cpu_us", cpu / 1e3, "us", "reported without a bar",
                      "CPU time of the indexer, a message of 40 words");
}
