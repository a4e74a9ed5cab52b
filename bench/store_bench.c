/* The store against raw_same: append, load, create, get-or-create, delete, callers together; and
 * against itself: flat in the length of a session and in the number of sessions. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_same.h"
#include "bench/store_wall.h"

#define STORE_BENCH_KEY QUIPU_STR("telegram:4711:main")

/* Two files made alike, one a side. */
typedef struct sides {
    quipu_store *store;
    same_db *same;
    char path[STORE_PATH_MAX];
    char same_path[STORE_PATH_MAX];
} sides;

static void sides_open(sides *self, const bench_arguments *arguments, const char *name,
                       bool durable, int64_t messages)
{
    char file[64];
    quipu_store *maker = NULL;

    snprintf(file, sizeof(file), "%s_ours.db", name);
    store_path(arguments->folder, file, self->path);
    snprintf(file, sizeof(file), "%s_same.db", name);
    store_path(arguments->folder, file, self->same_path);
    maker = wall_open(self->same_path, false);
    wall_fill(maker, STORE_BENCH_KEY, messages);
    quipu_close(maker);
    maker = wall_open(self->path, false);
    wall_fill(maker, STORE_BENCH_KEY, messages);
    quipu_close(maker);
    self->store = wall_open(self->path, durable);
    self->same = same_open(self->same_path, durable);
}

static void sides_close(sides *self)
{
    quipu_close(self->store);
    same_close(self->same);
}

static bool store_bench_long(void)
{
    const char *text = getenv("QUIPU_LONG");

    return text != NULL && strcmp(text, "1") == 0;
}

/* ---- append, one caller ------------------------------------------------------------------------
 */

#define APPEND_NORMAL 1000
#define APPEND_FULL 200

static void append_block(sides *self, bool ours, uint64_t *ns, size_t n)
{
    char text[WALL_TEXT + 1];

    for (size_t i = 0; i < n; i++) {
        quipu_str content = wall_text(i, text);
        uint64_t start = wall_now();
        if (ours) {
            wall_append(self->store, STORE_BENCH_KEY, content);
        } else {
            same_begin(self->same);
            same_append(self->same, STORE_BENCH_KEY, content);
            same_commit(self->same);
        }
        ns[i] = wall_now() - start;
    }
}

static void append_run(const bench_arguments *arguments, const char *name, bool durable, size_t n)
{
    const char *options = durable ? "WAL, synchronous FULL, search lazy, wall time"
                                  : "WAL, synchronous NORMAL, search lazy, wall time";
    size_t blocks = arguments->blocks;
    double *mean = bench_alloc(2 * blocks * sizeof(*mean));
    double *p50 = bench_alloc(2 * blocks * sizeof(*p50));
    uint64_t *ns = bench_alloc(n * sizeof(*ns));
    char p50_name[64];
    sides self;

    sides_open(&self, arguments, name, durable, 100);
    append_block(&self, true, ns, n / 4);
    append_block(&self, false, ns, n / 4);
    for (size_t i = 0; i < 2 * blocks; i++) {
        bool ours = (i % 2 == 0) == (i / 2 % 2 == 0); /* who goes first alternates */
        size_t at = ours ? i / 2 : blocks + i / 2;
        append_block(&self, ours, ns, n);
        mean[at] = wall_mean(ns, n);
        p50[at] = wall_median(ns, n);
    }
    sides_close(&self);
    snprintf(p50_name, sizeof(p50_name), "%s_p50", name);
    wall_print(name, WALL_AGAINST, options, BENCH_COST_RATIO, mean, mean + blocks, blocks);
    wall_print(p50_name, WALL_AGAINST, options, BENCH_COST_RATIO, p50, p50 + blocks, blocks);
    free(mean);
    free(p50);
    free(ns);
}

void bench_store_append_normal(const bench_arguments *arguments)
{
    append_run(arguments, "store.append_normal", false, APPEND_NORMAL);
}

void bench_store_append_full(const bench_arguments *arguments)
{
    append_run(arguments, "store.append_full", true, APPEND_FULL);
}

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
    quipu_range range = QUIPU_RANGE_INIT;
    bench_work work = {0};

    range.limit = self->last;
    range.flags = self->last > 0 ? QUIPU_RANGE_LAST : 0;
    for (int i = 0; i < self->rounds; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        uint64_t sum = 0;
        bench_ok(
            quipu_session_get(self->sides.store, STORE_BENCH_KEY, &range, NULL, &history, &error),
            &error, "load");
        for (size_t m = 0; m < history->message_count; m++) {
            sum = same_mix(sum, &history->messages[m]);
        }
        work.rows += history->message_count;
        work.checksum = bench_mix(work.checksum, sum);
        quipu_history_free(history);
    }
    return work;
}

static bench_work load_same(void *ctx)
{
    load_side *self = ctx;
    bench_work work = {0};

    for (int i = 0; i < self->rounds; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT; /* a result of its own each time, as ours */
        bench_work one = same_load(self->sides.same, &arena, STORE_BENCH_KEY, self->last);
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

static quipu_str make_key(uint64_t number, char key[STORE_KEY_SIZE])
{
    store_key(number, key);
    return quipu_cstr(key);
}

static bench_work make_store(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MAKE_SESSIONS; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        values.key = make_key(++self->next_ours, key);
        bench_ok(self->reuse ? quipu_session_get_or_create(self->sides.store, &values, NULL, NULL,
                                                           NULL, &error)
                             : quipu_session_create(self->sides.store, &values, NULL, NULL, &error),
                 &error, "create");
    }
    return (bench_work){.rows = MAKE_SESSIONS};
}

static bench_work make_same(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (int i = 0; i < MAKE_SESSIONS; i++) {
        quipu_str text = make_key(++self->next_same, key);
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
        wall_fill(store, make_key(i, key), DELETE_MESSAGES);
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
        bench_ok(quipu_session_delete(self->sides.store, make_key(i, key), NULL, &error), &error,
                 "delete");
    }
    return (bench_work){.rows = DELETE_SESSIONS};
}

static bench_work delete_same(void *ctx)
{
    make_side *self = ctx;
    char key[STORE_KEY_SIZE];

    for (uint64_t i = 1; i <= DELETE_SESSIONS; i++) {
        same_delete(self->sides.same, make_key(i, key));
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

/* ---- callers together --------------------------------------------------------------------------
 */

#define CALLERS_MAX 64

typedef struct caller {
    quipu_store *store;
    int number;
    int count;
} caller;

static void *caller_run(void *arg)
{
    const caller *self = arg;
    char text[WALL_TEXT + 1];

    for (int i = 0; i < self->count; i++) {
        wall_append(self->store, STORE_BENCH_KEY, wall_text((uint64_t)i, text));
    }
    return NULL;
}

/* Nanoseconds an append of `threads` callers at once. */
static double callers_store(quipu_store *store, int threads, int count)
{
    pthread_t ids[CALLERS_MAX];
    caller callers[CALLERS_MAX];
    uint64_t start = wall_now();

    for (int i = 0; i < threads; i++) {
        callers[i] = (caller){store, i, count};
        if (pthread_create(&ids[i], NULL, caller_run, &callers[i]) != 0) {
            bench_die("no thread");
        }
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (double)(wall_now() - start) / ((double)threads * count);
}

/* The ceiling: one thread that commits batches. */
static double callers_same(same_db *same, int batch, int count)
{
    char text[WALL_TEXT + 1];
    uint64_t start = wall_now();

    for (int i = 0; i < count; i++) {
        same_begin(same);
        for (int b = 0; b < batch; b++) {
            same_append(same, STORE_BENCH_KEY, wall_text((uint64_t)i, text));
        }
        same_commit(same);
    }
    return (double)(wall_now() - start) / ((double)batch * count);
}

static void callers_run(const bench_arguments *arguments, const char *name, int threads, int count)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    uint64_t syncs = 0;
    char text[64];
    sides self;

    wall_count_syncs();
    sides_open(&self, arguments, name, true, 100);
    (void)callers_store(self.store, threads, count / 2 + 1);
    (void)callers_same(self.same, threads, count / 2 + 1);
    for (size_t i = 0; i < 2 * blocks; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) { /* who goes first alternates */
            uint64_t before = wall_syncs();
            times[i / 2] = callers_store(self.store, threads, count);
            syncs += wall_syncs() - before;
        } else {
            times[blocks + i / 2] = callers_same(self.same, threads, count);
        }
    }
    sides_close(&self);
    snprintf(text, sizeof(text), "synchronous FULL, wall time, %d callers", threads);
    wall_print(name, "raw_same, one thread that commits batches of as many", text,
               BENCH_SPEED_RATIO, times, times + blocks, blocks);
    char syncs_name[64];
    snprintf(syncs_name, sizeof(syncs_name), "%s_syncs", name);
    bench_print_count(syncs_name, (double)syncs / ((double)blocks * threads * count), "syncs",
                      "counted in a VFS", text);
    free(times);
}

void bench_store_callers_8(const bench_arguments *arguments)
{
    callers_run(arguments, "store.append_full_8_callers", 8, 100);
}

void bench_store_callers_64(const bench_arguments *arguments)
{
    callers_run(arguments, "store.append_full_64_callers", 64, 100);
}

/* ---- flat --------------------------------------------------------------------------------------
 */

#define FLAT_APPENDS 300

/* The median append to a session that has so many messages. */
static double flat_append(quipu_store *store, quipu_str key)
{
    uint64_t ns[FLAT_APPENDS];
    char text[WALL_TEXT + 1];

    for (size_t i = 0; i < FLAT_APPENDS; i++) {
        quipu_str content = wall_text(i, text);
        uint64_t start = wall_now();
        wall_append(store, key, content);
        ns[i] = wall_now() - start;
    }
    return wall_median(ns, FLAT_APPENDS);
}

void bench_store_append_flat(const bench_arguments *arguments)
{
    const bool full = store_bench_long();
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "flat.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), 10);
    wall_fill(store, QUIPU_STR("long"), full ? 1000000 : 100000);
    for (size_t i = 0; i < blocks; i++) {
        char key[STORE_KEY_SIZE];
        quipu_str text;
        /* Always a session that is short: it grows by what is appended. */
        text = make_key(i + 1, key);
        wall_fill(store, text, 10);
        times[blocks + i] = flat_append(store, text);
        times[i] = flat_append(store, QUIPU_STR("long"));
    }
    quipu_close(store);
    wall_print("store.append_flat", "the same in a session of 10 messages",
               full ? "p50 in a session of 1,000,000 messages, NORMAL"
                    : "p50 in a session of 100,000 messages, NORMAL",
               BENCH_COST_RATIO, times, times + blocks, blocks);
    free(times);
}

#define PAGE_ROUNDS 50

static double list_page(quipu_store *store)
{
    uint64_t ns[PAGE_ROUNDS];

    for (size_t i = 0; i < PAGE_ROUNDS; i++) {
        quipu_session_page *page = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        bench_ok(quipu_session_list(store, NULL, NULL, &page, &error), &error, "list");
        ns[i] = wall_now() - start;
        if (page->count != QUIPU_PAGE_DEFAULT) {
            bench_die("a page of %zu sessions", page->count);
        }
        quipu_session_page_free(page);
    }
    return wall_median(ns, PAGE_ROUNDS);
}

static quipu_store *list_make(const bench_arguments *arguments, const char *name, uint64_t sessions)
{
    char path[STORE_PATH_MAX];
    char key[STORE_KEY_SIZE];

    store_path(arguments->folder, name, path);
    quipu_store *store = wall_open(path, false);
    for (uint64_t i = 1; i <= sessions; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        values.key = make_key(i, key);
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
        times[i] = list_page(large);
        times[blocks + i] = list_page(small);
    }
    quipu_close(small);
    quipu_close(large);
    wall_print("store.list_flat", "the same out of 1,000 sessions",
               "p50 of a page of 50 out of 100,000 sessions", BENCH_COST_RATIO, times,
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
        bench_ok(quipu_window_get(store, key, &options, NULL, &window, &error), &error, "window");
        ns[i] = wall_now() - start;
        if (window->tokens < WINDOW_TOKENS / 2) {
            bench_die("a window of %lld tokens", (long long)window->tokens);
        }
        quipu_window_free(window);
    }
    return wall_median(ns, WINDOW_ROUNDS);
}

void bench_store_window_flat(const bench_arguments *arguments)
{
    const bool full = store_bench_long();
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "window.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), 1000);
    wall_fill(store, QUIPU_STR("long"), full ? 1000000 : 100000);
    for (size_t i = 0; i < blocks; i++) {
        times[i] = window_get(store, QUIPU_STR("long"));
        times[blocks + i] = window_get(store, QUIPU_STR("short"));
    }
    quipu_close(store);
    wall_print("store.window_flat", "the same at 1,000 messages",
               full ? "p50 of a window of 8,000 tokens at 1,000,000 messages"
                    : "p50 of a window of 8,000 tokens at 100,000 messages",
               BENCH_COST_RATIO, times, times + blocks, blocks);
    free(times);
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

#define BYTES_MESSAGES 20000
#define BYTES_ID 16 /* the event id that the store gave: a UUID */

void bench_store_bytes(const bench_arguments *arguments)
{
    char path[STORE_PATH_MAX];
    char options[160];
    struct stat file;

    store_path(arguments->folder, "bytes.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, STORE_BENCH_KEY, BYTES_MESSAGES);
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
}
