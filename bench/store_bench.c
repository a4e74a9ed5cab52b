/* The store against raw_same: load, create, get-or-create, delete; and against itself: flat in the
 * length of a session and in the number of sessions. append_bench.c has the appends. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_same.h"
#include "bench/store_sides.h"
#include "bench/store_wall.h"

/* ---- load --------------------------------------------------------------------------------------
 */

#define LOAD_ALL 10000
#define LOAD_LAST 50

typedef struct load_side {
    sides sides;
    quipu_arena arena;
    int64_t last;
    int rounds;
} load_side;

static bench_work load_store(void *ctx)
{
    load_side *self = ctx;
    bench_work work = {0};

    for (int i = 0; i < self->rounds; i++) {
        bench_work one = sides_load(self->sides.store, SIDES_KEY, self->last);
        work.rows += one.rows;
        work.checksum = bench_mix(work.checksum, one.checksum);
    }
    return work;
}

static bench_work load_same(void *ctx)
{
    load_side *self = ctx;
    bench_work work = {0};

    for (int i = 0; i < self->rounds; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT; /* a result of its own each time, as ours */
        bench_work one = same_load(self->sides.same, &arena, SIDES_KEY, self->last, NULL);
        work.rows += one.rows;
        work.checksum = bench_mix(work.checksum, one.checksum);
        quipu_arena_free(&arena);
    }
    return work;
}

static void load_run(const bench_arguments *arguments, const char *name, int64_t last, int rounds)
{
    load_side self = {.last = last, .rounds = rounds};

    sides_open(&self.sides, arguments, name, false, LOAD_ALL);
    /* Both read the same file, so that the checksums agree to the last byte. */
    same_close(self.sides.same);
    self.sides.same = same_open(self.sides.path, false);
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = WALL_AGAINST,
                                 .options = "10000 messages of 300 bytes, page cache warm",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = (uint64_t)rounds,
                                 .ctx = &self,
                                 .ours = load_store,
                                 .yardstick = load_same},
                   arguments);
    sides_close(&self.sides);
}

void bench_store_load_all(const bench_arguments *arguments)
{
    load_run(arguments, "store.load_10000", 0, 3);
}

void bench_store_load_last(const bench_arguments *arguments)
{
    load_run(arguments, "store.last_50_of_10000", LOAD_LAST, 400);
}

/* ---- create, get-or-create, delete -------------------------------------------------------------
 */

#define MAKE_SESSIONS 400
#define DELETE_SESSIONS 4
#define DELETE_MESSAGES 1000

typedef struct make_side {
    sides sides;
    uint64_t next_ours;
    uint64_t next_same;
    bool reuse;
} make_side;

static bench_work make_store(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MAKE_SESSIONS; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        values.key = sides_key(++self->next_ours, key);
        values.flags = self->reuse ? QUIPU_CREATE_OR_GET : 0;
        bench_ok(quipu_session_create(self->sides.store, &values, NULL, NULL, &error), &error,
                 "create");
    }
    return (bench_work){.rows = MAKE_SESSIONS};
}

static bench_work make_same(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MAKE_SESSIONS; i++) {
        quipu_str text = sides_key(++self->next_same, key);
        if (!self->reuse) {
            same_create(self->sides.same, text);
        } else if (!same_get_or_create(self->sides.same, text)) {
            bench_die("the session was there");
        }
    }
    return (bench_work){.rows = MAKE_SESSIONS};
}

static void make_run(const bench_arguments *arguments, const char *name, bool reuse)
{
    make_side self = {.reuse = reuse};

    sides_open(&self.sides, arguments, name, false, 1);
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = WALL_AGAINST,
                                 .options = "WAL, synchronous NORMAL, a new key each time",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = MAKE_SESSIONS,
                                 .ctx = &self,
                                 .ours = make_store,
                                 .yardstick = make_same},
                   arguments);
    sides_close(&self.sides);
}

void bench_store_create(const bench_arguments *arguments)
{
    make_run(arguments, "store.create", false);
}

void bench_store_get_or_create(const bench_arguments *arguments)
{
    make_run(arguments, "store.get_or_create", true);
}

/* Fill the sessions of the next block; not timed. */
static void delete_fill(make_side *self, bool ours)
{
    quipu_store *store = ours ? self->sides.store : wall_open(self->sides.same_path, false);
    char key[STORE_KEY_SIZE];

    for (uint64_t i = 1; i <= DELETE_SESSIONS; i++) {
        wall_fill(store, sides_key(i, key), DELETE_MESSAGES);
    }
    if (!ours) {
        quipu_close(store);
    }
}

static bench_work delete_store(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (uint64_t i = 1; i <= DELETE_SESSIONS; i++) {
        quipu_error error = {0};
        bench_ok(
            quipu_session_delete(self->sides.store, sides_key(i, key), NULL, NULL, NULL, &error),
            &error, "delete");
    }
    return (bench_work){.rows = DELETE_SESSIONS};
}

static bench_work delete_same(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (uint64_t i = 1; i <= DELETE_SESSIONS; i++) {
        same_delete(self->sides.same, sides_key(i, key));
    }
    return (bench_work){.rows = DELETE_SESSIONS};
}

static void delete_settle_store(void *ctx, bench_work work)
{
    (void)work;
    delete_fill(ctx, true);
}

static void delete_settle_same(void *ctx, bench_work work)
{
    (void)work;
    delete_fill(ctx, false);
}

void bench_store_delete(const bench_arguments *arguments)
{
    make_side self = {.reuse = false};

    sides_open(&self.sides, arguments, "store.delete_1000", false, 1);
    delete_fill(&self, true);
    delete_fill(&self, false);
    bench_run_pair(&(bench_pair){.name = "store.delete_1000",
                                 .against = WALL_AGAINST,
                                 .options = "WAL, synchronous NORMAL, secure_delete on",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = DELETE_SESSIONS,
                                 .ctx = &self,
                                 .ours = delete_store,
                                 .yardstick = delete_same,
                                 .settle_ours = delete_settle_store,
                                 .settle_yardstick = delete_settle_same},
                   arguments);
    sides_close(&self.sides);
}

/* ---- flat --------------------------------------------------------------------------------------
 */

static quipu_store *list_make(const bench_arguments *arguments, const char *name, uint64_t sessions)
{
    char path[STORE_PATH_MAX];
    char key[STORE_KEY_SIZE];

    store_path(arguments->folder, name, path);
    quipu_store *store = wall_open(path, false);
    for (uint64_t i = 1; i <= sessions; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        values.key = sides_key(i, key);
        bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
    }
    return store;
}

void bench_store_list_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    quipu_store *small = list_make(arguments, "list_small.db", 1000);
    quipu_store *large = list_make(arguments, "list_large.db", 100000);

    for (size_t i = 0; i < blocks; i++) {
        times[i] = wall_list_page(large);
        times[blocks + i] = wall_list_page(small);
    }
    quipu_close(small);
    quipu_close(large);
    wall_print("store.list_flat", "the same out of 1,000 sessions",
               "p50 of a page of 50 out of 100,000 sessions, both forms", BENCH_COST_RATIO, times,
               times + blocks, blocks);
    free(times);
}

/* ---- the window --------------------------------------------------------------------------------
 */

#define WINDOW_TOKENS 8000
#define WINDOW_ROUNDS 20

static double window_get(quipu_store *store, quipu_str key)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    uint64_t ns[WINDOW_ROUNDS];

    options.token_budget = WINDOW_TOKENS;
    for (size_t i = 0; i < WINDOW_ROUNDS; i++) {
        quipu_window *window = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        bench_ok(quipu_window_read(store, key, &options, NULL, &window, &error), &error, "window");
        ns[i] = wall_now() - start;
        if (window->tokens < WINDOW_TOKENS / 2) {
            bench_die("a window of %lld tokens", (long long)window->tokens);
        }
        quipu_free(window);
    }
    return wall_median(ns, WINDOW_ROUNDS);
}

void bench_store_window_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];
    char options[96];

    store_path(arguments->folder, "window.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), 1000);
    wall_fill(store, QUIPU_STR("long"), sides_most());
    for (size_t i = 0; i < blocks; i++) {
        times[i] = window_get(store, QUIPU_STR("long"));
        times[blocks + i] = window_get(store, QUIPU_STR("short"));
    }
    quipu_close(store);
    snprintf(options, sizeof(options), "p50 of a window of %d tokens at %lld messages, %s",
             WINDOW_TOKENS, (long long)sides_most(), sides_form());
    wall_print("store.window_flat", "the same at 1,000 messages", options, BENCH_COST_RATIO, times,
               times + blocks, blocks);
    free(times);
}

/* ---- the last 50 and a fork, flat --------------------------------------------------------------
 */

#define NEAR_ROUNDS 50
#define FORK_ROUNDS 20

static double near_last(quipu_store *store, quipu_str key)
{
    quipu_range range = QUIPU_RANGE_INIT;
    uint64_t ns[NEAR_ROUNDS];

    range.limit = LOAD_LAST;
    range.flags = QUIPU_RANGE_LAST;
    for (size_t i = 0; i < NEAR_ROUNDS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        bench_ok(quipu_session_get(store, key, &range, NULL, &history, &error), &error, "load");
        ns[i] = wall_now() - start;
        if (history->messages.count != LOAD_LAST) {
            bench_die("%zu messages", history->messages.count);
        }
        quipu_free(history);
    }
    return wall_median(ns, NEAR_ROUNDS);
}

/* The median fork at the last message but one. */
static double near_fork(quipu_store *store, quipu_str key, int64_t messages, uint64_t *number)
{
    uint64_t ns[FORK_ROUNDS];

    for (size_t i = 0; i < FORK_ROUNDS; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        char text[STORE_KEY_SIZE];
        values.key = sides_key(++*number, text);
        uint64_t start = wall_now();
        bench_ok(quipu_session_fork(store, key, messages - 1, &values, NULL, NULL, &error), &error,
                 "fork");
        ns[i] = wall_now() - start;
    }
    return wall_median(ns, FORK_ROUNDS);
}

void bench_store_near_flat(const bench_arguments *arguments)
{
    const int64_t many = sides_most();
    const int64_t few = 1000;
    size_t blocks = arguments->blocks;
    double *loads = bench_alloc(2 * blocks * sizeof(*loads));
    double *forks = bench_alloc(2 * blocks * sizeof(*forks));
    uint64_t number = 0;
    char path[STORE_PATH_MAX];
    char options[64];

    store_path(arguments->folder, "near.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), few);
    wall_fill(store, QUIPU_STR("long"), many);
    for (size_t i = 0; i < blocks; i++) {
        loads[i] = near_last(store, QUIPU_STR("long"));
        loads[blocks + i] = near_last(store, QUIPU_STR("short"));
        forks[i] = near_fork(store, QUIPU_STR("long"), many, &number);
        forks[blocks + i] = near_fork(store, QUIPU_STR("short"), few, &number);
    }
    quipu_close(store);
    snprintf(options, sizeof(options), "p50 at %lld messages, NORMAL, %s", (long long)many,
             sides_form());
    wall_print("store.fork_flat", "the same at 1,000 messages", options, BENCH_COST_RATIO, forks,
               forks + blocks, blocks);
    wall_print("store.last_50_flat", "the same at 1,000 messages", options, BENCH_COST_RATIO, loads,
               loads + blocks, blocks);
    free(loads);
    free(forks);
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

#define BYTES_MESSAGES 20000
#define BYTES_ID 16 /* the event id that the store gave: a UUID */

static double bytes_ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
    double value = sqlite3_column_double(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static void bytes_print(const char *name, double bytes, const char *what)
{
    char line[64];

    snprintf(line, sizeof(line), "store.bytes_per_message_%s", name);
    bench_print_count(line, bytes / BYTES_MESSAGES, "bytes", "reported without a bar", what);
}

/* Where the bytes go; the parts add up to the whole file. */
static void bytes_where(const char *path, double whole)
{
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    }
    double pages = bytes_ask(db, "SELECT sum(pgsize) FROM dbstat WHERE name='messages'");
    double rows = bytes_ask(db, "SELECT sum(payload) FROM dbstat WHERE name='messages'");
    double index = bytes_ask(db, "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM "
                                 "sqlite_schema WHERE type='index' AND tbl_name='messages')");
    double content = bytes_ask(db, "SELECT sum(length(CAST(content AS BLOB))) FROM messages");
    sqlite3_close(db);
    bytes_print("content", content, "the text itself");
    bytes_print("columns", rows - content, "the row's other columns and its header");
    bytes_print("pages", pages - rows, "keys, cell pointers and free space of the table's pages");
    bytes_print("event_index", index, "the index that finds a repeated event id");
    bytes_print("other", whole - pages - index, "sessions, schema and empty tables");
}

void bench_store_bytes(const bench_arguments *arguments)
{
    char path[STORE_PATH_MAX];
    char options[160];
    struct stat file;

    store_path(arguments->folder, "bytes.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, SIDES_KEY, BYTES_MESSAGES);
    quipu_close(store); /* moves the log into the file */
    if (stat(path, &file) != 0) {
        bench_die("%s: error %d", path, errno);
    }
    double each = (double)file.st_size / BYTES_MESSAGES;
    double bar = 1.25 * (WALL_TEXT + BYTES_ID) + 150;
    snprintf(options, sizeof(options), "%d messages of %d bytes, not searched: %.0f bytes each",
             BYTES_MESSAGES, WALL_TEXT, each);
    bench_print_count("store.bytes_per_message", each / bar, "x",
                      "1.25 times the payload, and 150 bytes", options);
    bytes_where(path, (double)file.st_size);
}
