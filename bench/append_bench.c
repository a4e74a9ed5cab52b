/* Appends: one caller against raw_same and against raw, with search lazy and off; threads together;
 * flat in the length of a session. processes_bench.c has the processes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/benches.h"
#include "bench/store_raw.h"
#include "bench/store_sides.h"

#define APPEND_RAW "raw: bare SQLite, two tables, one transaction an append"

/* ---- one caller --------------------------------------------------------------------------------
 */

#define APPEND_NORMAL 1000
#define APPEND_FULL 200

/* Who appends, each to a file of its own. */
typedef enum append_side {
    APPEND_OURS = 0,
    APPEND_OFF, /* ours, search off */
    APPEND_SAME,
    APPEND_BARE,
    APPEND_SIDES
} append_side;

typedef struct append_files {
    sides sides;
    quipu_store *off;
    bare_db *bare;
} append_files;

static bare_db *append_open_bare(const bench_arguments *arguments, const char *name, bool durable)
{
    char file[64];
    char path[STORE_PATH_MAX];

    snprintf(file, sizeof(file), "%s_raw.db", name);
    store_path(arguments->folder, file, path);
    return bare_open(path, durable, SIDES_KEY);
}

static void append_open(append_files *self, const bench_arguments *arguments, const char *name,
                        bool durable)
{
    char file[64];
    char path[STORE_PATH_MAX];

    sides_open(&self->sides, arguments, name, durable, 100);
    snprintf(file, sizeof(file), "%s_off.db", name);
    store_path(arguments->folder, file, path);
    self->off = wall_open_search(path, durable, QUIPU_SEARCH_OFF);
    wall_fill(self->off, SIDES_KEY, 100);
    self->bare = append_open_bare(arguments, name, durable);
}

static void append_close(append_files *self)
{
    sides_close(&self->sides);
    quipu_close(self->off);
    bare_close(self->bare);
}

static void append_one(append_files *self, append_side side, quipu_str content)
{
    switch (side) {
    case APPEND_OURS:
        wall_append(self->sides.store, SIDES_KEY, content);
        break;
    case APPEND_OFF:
        wall_append(self->off, SIDES_KEY, content);
        break;
    case APPEND_SAME:
        same_begin(self->sides.same);
        same_append(self->sides.same, SIDES_KEY, content);
        same_commit(self->sides.same);
        break;
    case APPEND_BARE:
    case APPEND_SIDES:
        bare_append(self->bare, SIDES_KEY, content);
        break;
    }
}

static void append_block(append_files *self, append_side side, uint64_t *ns, size_t n)
{
    char text[WALL_TEXT + 1];

    for (size_t i = 0; i < n; i++) {
        quipu_str content = wall_text(i, text);
        uint64_t start = wall_now();
        append_one(self, side, content);
        ns[i] = wall_now() - start;
    }
}

/* The lines of one statistic; `times` holds `blocks` values a side. */
static void append_print(const char *name, const char *suffix, bool durable, const double *times,
                         size_t blocks)
{
    static const char *const texts[2][2] = {
        {"WAL, synchronous NORMAL, search lazy", "WAL, synchronous NORMAL, search off"},
        {"WAL, synchronous FULL, search lazy", "WAL, synchronous FULL, search off"}};
    const double *ours = times + APPEND_OURS * blocks;
    const double *off = times + APPEND_OFF * blocks;
    const double *same = times + APPEND_SAME * blocks;
    const double *bare = times + APPEND_BARE * blocks;
    char line[96];

    snprintf(line, sizeof(line), "%s%s", name, suffix);
    wall_print(line, WALL_AGAINST, texts[durable][0], BENCH_COST_RATIO, ours, same, blocks);
    snprintf(line, sizeof(line), "%s_raw%s", name, suffix);
    wall_print(line, APPEND_RAW, texts[durable][0], BENCH_COST_RATIO, ours, bare, blocks);
    snprintf(line, sizeof(line), "%s_search_off%s", name, suffix);
    wall_print(line, WALL_AGAINST, texts[durable][1], BENCH_COST_RATIO, off, same, blocks);
    snprintf(line, sizeof(line), "%s_search_off_raw%s", name, suffix);
    wall_print(line, APPEND_RAW, texts[durable][1], BENCH_COST_RATIO, off, bare, blocks);
}

static void append_run(const bench_arguments *arguments, const char *name, bool durable, size_t n)
{
    size_t blocks = arguments->blocks;
    double *mean = bench_alloc(APPEND_SIDES * blocks * sizeof(*mean));
    double *p50 = bench_alloc(APPEND_SIDES * blocks * sizeof(*p50));
    uint64_t *ns = bench_alloc(n * sizeof(*ns));
    append_files self;

    append_open(&self, arguments, name, durable);
    for (size_t side = 0; side < APPEND_SIDES; side++) {
        append_block(&self, (append_side)side, ns, n / 4);
    }
    for (size_t i = 0; i < APPEND_SIDES * blocks; i++) {
        size_t block = i / APPEND_SIDES;
        size_t turn = i % APPEND_SIDES;
        /* Who goes first changes from block to block. */
        size_t side =
            (block % 2 == 0 ? turn + block : APPEND_SIDES - 1 - turn + block) % APPEND_SIDES;
        append_block(&self, (append_side)side, ns, n);
        mean[side * blocks + block] = wall_mean(ns, n);
        p50[side * blocks + block] = wall_median(ns, n);
    }
    append_close(&self);
    append_print(name, "", durable, mean, blocks);
    append_print(name, "_p50", durable, p50, blocks);
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

/* ---- callers together --------------------------------------------------------------------------
 */

#define CALLERS_MAX 64
#define CALLERS_COUNT 100 /* appends of a caller in a block */
#define CALLERS_ALONE 200 /* appends of the one raw connection in a block */

typedef struct caller {
    quipu_store *store;
    int count;
    uint64_t *ns; /* of each append */
} caller;

/* What one block cost: nanoseconds an append. */
typedef struct callers_cost {
    double wall;
    double cpu; /* of all threads together */
} callers_cost;

static uint64_t callers_cpu(void)
{
    struct timespec at;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at) != 0) {
        bench_die("a clock is missing");
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

static void *caller_run(void *arg)
{
    const caller *self = arg;
    char text[WALL_TEXT + 1];

    for (int i = 0; i < self->count; i++) {
        quipu_str content = wall_text((uint64_t)i, text);
        uint64_t start = wall_now();
        wall_append(self->store, SIDES_KEY, content);
        self->ns[i] = wall_now() - start;
    }
    return NULL;
}

/* `threads` callers at once; `ns` has room for all their appends. */
static callers_cost callers_store(quipu_store *store, int threads, int count, uint64_t *ns)
{
    pthread_t ids[CALLERS_MAX];
    caller callers[CALLERS_MAX];
    double appends = (double)threads * count;
    uint64_t cpu = callers_cpu();
    uint64_t start = wall_now();

    for (int i = 0; i < threads; i++) {
        callers[i] = (caller){store, count, ns + (size_t)i * (size_t)count};
        if (pthread_create(&ids[i], NULL, caller_run, &callers[i]) != 0) {
            bench_die("no thread");
        }
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (callers_cost){(double)(wall_now() - start) / appends,
                          (double)(callers_cpu() - cpu) / appends};
}

/* The ceiling: one thread that commits batches. */
static callers_cost callers_same(same_db *same, int batch, int count)
{
    char text[WALL_TEXT + 1];
    double appends = (double)batch * count;
    uint64_t cpu = callers_cpu();
    uint64_t start = wall_now();

    for (int i = 0; i < count; i++) {
        same_begin(same);
        for (int b = 0; b < batch; b++) {
            same_append(same, SIDES_KEY, wall_text((uint64_t)i, text));
        }
        same_commit(same);
    }
    return (callers_cost){(double)(wall_now() - start) / appends,
                          (double)(callers_cpu() - cpu) / appends};
}

static double callers_bare(bare_db *bare)
{
    char text[WALL_TEXT + 1];
    uint64_t start = wall_now();

    for (uint64_t i = 0; i < CALLERS_ALONE; i++) {
        bare_append(bare, SIDES_KEY, wall_text(i, text));
    }
    return (double)(wall_now() - start) / CALLERS_ALONE;
}

/* Block times, `blocks` of each. */
typedef struct callers_times {
    double *ours;
    double *same;
    double *bare;
    double *ours_cpu;
    double *same_cpu;
    uint64_t syncs;
} callers_times;

static void callers_print(const char *name, int threads, const callers_times *times, size_t blocks)
{
    char text[64];
    char line[96];
    double appends = (double)blocks * threads * CALLERS_COUNT;

    snprintf(text, sizeof(text), "synchronous FULL, %d callers", threads);
    wall_print(name, "raw_same, one thread that commits batches of as many", text,
               BENCH_SPEED_RATIO, times->ours, times->same, blocks);
    snprintf(line, sizeof(line), "%s_cpu", name);
    wall_print(line, "the same in CPU time of all threads", text, BENCH_SPEED_RATIO,
               times->ours_cpu, times->same_cpu, blocks);
    snprintf(line, sizeof(line), "%s_one_raw", name);
    wall_print(line, "one raw connection, one transaction an append", text, BENCH_SPEED_RATIO,
               times->ours, times->bare, blocks);
    snprintf(line, sizeof(line), "%s_syncs", name);
    bench_print_count(line, (double)times->syncs / appends, "syncs", "counted in a VFS", text);
}

static void callers_measure(const sides *self, bare_db *bare, int threads, callers_times *times,
                            size_t blocks, uint64_t *ns)
{
    const size_t appends = (size_t)threads * CALLERS_COUNT;

    for (size_t i = 0; i < 2 * blocks; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) { /* who goes first alternates */
            uint64_t before = wall_syncs();
            callers_cost cost =
                callers_store(self->store, threads, CALLERS_COUNT, ns + i / 2 * appends);
            times->syncs += wall_syncs() - before;
            times->ours[i / 2] = cost.wall;
            times->ours_cpu[i / 2] = cost.cpu;
        } else {
            callers_cost cost = callers_same(self->same, threads, CALLERS_COUNT);
            times->same[i / 2] = cost.wall;
            times->same_cpu[i / 2] = cost.cpu;
            times->bare[i / 2] = callers_bare(bare);
        }
    }
}

static void callers_run(const bench_arguments *arguments, const char *name, int threads)
{
    size_t blocks = arguments->blocks;
    size_t appends = blocks * (size_t)threads * CALLERS_COUNT;
    double *values = bench_alloc(5 * blocks * sizeof(*values));
    uint64_t *ns = bench_alloc(appends * sizeof(*ns));
    callers_times times = {.ours = values,
                           .same = values + blocks,
                           .bare = values + 2 * blocks,
                           .ours_cpu = values + 3 * blocks,
                           .same_cpu = values + 4 * blocks};
    bare_db *bare = NULL;
    sides self;

    wall_count_syncs();
    sides_open(&self, arguments, name, true, 100);
    bare = append_open_bare(arguments, name, true);
    (void)callers_store(self.store, threads, CALLERS_COUNT / 2, ns);
    (void)callers_same(self.same, threads, CALLERS_COUNT / 2);
    callers_measure(&self, bare, threads, &times, blocks, ns);
    sides_close(&self);
    bare_close(bare);
    callers_print(name, threads, &times, blocks);
    wall_print_latency(name, ns, appends, "synchronous FULL");
    free(values);
    free(ns);
}

void bench_store_callers_8(const bench_arguments *arguments)
{
    callers_run(arguments, "store.append_full_8_callers", 8);
}

void bench_store_callers_64(const bench_arguments *arguments)
{
    callers_run(arguments, "store.append_full_64_callers", 64);
}

/* ---- flat --------------------------------------------------------------------------------------
 */

#define FLAT_APPENDS 300
#define FLAT_GROWN 10000                /* so long a session may grow while it is measured */
#define FLAT_NEWER UINT64_C(2000000000) /* added to the number of a session: the next one's */

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

/* The same in a session of `messages`. Short ones are always new: they grow by what is appended. A
 * newer session follows each: the last one of a file is cheaper, however long it is, because SQLite
 * splits no page at the end of a table. */
static double flat_measure(quipu_store *store, int64_t messages, size_t block)
{
    char key[STORE_KEY_SIZE];
    char newer[STORE_KEY_SIZE];
    uint64_t number = (uint64_t)messages * BENCH_BLOCKS_MAX + (messages < FLAT_GROWN ? block : 0);
    quipu_str text = sides_key(number, key);

    if (messages < FLAT_GROWN || block == 0) {
        wall_fill(store, text, messages);
        wall_fill(store, sides_key(number + FLAT_NEWER, newer), 1);
    }
    return flat_append(store, text);
}

void bench_store_append_flat(const bench_arguments *arguments)
{
    const int64_t sizes[] = {10, 100, 1000, FLAT_GROWN, sides_most()};
    const size_t n = sizeof(sizes) / sizeof(sizes[0]);
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(n * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "flat.db", path);
    quipu_store *store = wall_open(path, false);
    for (size_t i = 0; i < blocks; i++) {
        for (size_t s = 0; s < n; s++) {
            times[s * blocks + i] = flat_measure(store, sizes[s], i);
        }
    }
    quipu_close(store);
    for (size_t s = 1; s < n; s++) {
        char name[64];
        char options[96];
        snprintf(name, sizeof(name), "store.append_flat_%lld", (long long)sizes[s]);
        snprintf(options, sizeof(options), "p50 in a session of %lld messages, NORMAL, %s",
                 (long long)sizes[s], sides_form());
        wall_print(s == n - 1 ? "store.append_flat" : name, "the same in a session of 10 messages",
                   options, BENCH_COST_RATIO, times + s * blocks, times, blocks);
    }
    free(times);
}
