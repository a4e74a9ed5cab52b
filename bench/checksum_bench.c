/* What the page layer costs: the store with checksums against itself on a file without them, and an
 * encrypted store against a plain one. Everything else is the same on both sides, the checkpoints
 * of the appends included. */
#include <stdio.h>
#include <stdlib.h>

#include <ent/sqlite.h>

#include "bench/benches.h"
#include "bench/store_sides.h"

#define CHECKSUM_MESSAGES 10000
#define CHECKSUM_LOADS 3
#define CHECKSUM_APPENDS 1000
#define CHECKSUM_APPENDS_FULL 200
#define CHECKSUM_AGAINST "itself, on a file without checksums"
#define CHECKSUM_AGAINST_PLAIN "itself, on a file that is not encrypted"

typedef struct checksum_bench {
    quipu_store *on;
    quipu_store *off;
    uint64_t appended_on;
    uint64_t appended_off;
} checksum_bench;

/* A store with one session; `flags` of the engine, with which its file is created. */
static quipu_store *checksum_open(const bench_arguments *arguments, const char *name,
                                  uint32_t flags, bool durable, quipu_checksums expected)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    char path[STORE_PATH_MAX];
    ent_db *db = NULL;
    quipu_store *store;

    store_path(arguments->folder, name, path);
    options.flags = flags;
    bench_ok(ent_sqlite_open(path, &options, &db, &error), &error, "create");
    ent_close(db);
    store = wall_open(path, false);
    wall_fill(store, SIDES_KEY, CHECKSUM_MESSAGES);
    quipu_close(store);
    store = wall_open(path, durable);
    bench_ok(quipu_store_stats(store, NULL, NULL, &stats, &error), &error, "stats");
    if (stats.checksums != expected) {
        bench_die("%s has checksums %d instead of %d", path, (int)stats.checksums, (int)expected);
    }
    return store;
}

static void checksum_begin(checksum_bench *self, const bench_arguments *arguments, const char *name,
                           bool durable)
{
    char file[64];

    snprintf(file, sizeof(file), "%s_on.db", name);
    self->on = checksum_open(arguments, file, 0, durable, QUIPU_CHECKSUMS_ON);
    snprintf(file, sizeof(file), "%s_off.db", name);
    self->off =
        checksum_open(arguments, file, ENT_SQLITE_NO_CHECKSUMS, durable, QUIPU_CHECKSUMS_OFF);
}

/* A store with one session, opened again. */
static quipu_store *checksum_open_page(const bench_arguments *arguments, const char *name,
                                       bool durable,
                                       quipu_store *(*opens)(const char *path, bool durable))
{
    char path[STORE_PATH_MAX];
    quipu_store *store;

    store_path(arguments->folder, name, path);
    store = opens(path, false);
    wall_fill(store, SIDES_KEY, CHECKSUM_MESSAGES);
    quipu_close(store);
    return opens(path, durable);
}

static void checksum_begin_encrypted(checksum_bench *self, const bench_arguments *arguments,
                                     const char *name, bool durable)
{
    char file[64];

    snprintf(file, sizeof(file), "%s_on.db", name);
    self->on = checksum_open_page(arguments, file, durable, wall_open_keyed);
    snprintf(file, sizeof(file), "%s_off.db", name);
    self->off = checksum_open_page(arguments, file, durable, wall_open);
}

static void checksum_end(checksum_bench *self)
{
    quipu_close(self->on);
    quipu_close(self->off);
}

/* The session is larger than the page cache: most pages come from the file. */
static bench_work checksum_load(quipu_store *store)
{
    bench_work work = {0};

    for (int i = 0; i < CHECKSUM_LOADS; i++) {
        work.rows += sides_load(store, SIDES_KEY, 0).rows;
    }
    return work;
}

static bench_work checksum_load_on(void *ctx)
{
    return checksum_load(((checksum_bench *)ctx)->on);
}

static bench_work checksum_load_off(void *ctx)
{
    return checksum_load(((checksum_bench *)ctx)->off);
}

static bench_work checksum_append(quipu_store *store, int appends, uint64_t *number)
{
    bench_work work = {.rows = (uint64_t)appends};
    char text[WALL_TEXT + 1];

    for (int i = 0; i < appends; i++) {
        wall_append(store, SIDES_KEY, wall_text((*number)++, text));
    }
    work.checksum = *number;
    return work;
}

static bench_work checksum_append_on(void *ctx)
{
    checksum_bench *self = ctx;

    return checksum_append(self->on, CHECKSUM_APPENDS, &self->appended_on);
}

static bench_work checksum_append_off(void *ctx)
{
    checksum_bench *self = ctx;

    return checksum_append(self->off, CHECKSUM_APPENDS, &self->appended_off);
}

static void checksum_run_load(checksum_bench *self, const bench_arguments *arguments,
                              const char *name, const char *against)
{
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = against,
                                 .options = "10000 messages of 300 bytes, a cache of 2 MB",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = CHECKSUM_LOADS,
                                 .ctx = self,
                                 .ours = checksum_load_on,
                                 .yardstick = checksum_load_off},
                   arguments);
    checksum_end(self);
}

static void checksum_run_append(checksum_bench *self, const bench_arguments *arguments,
                                const char *name, const char *against)
{
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = against,
                                 .options = "one transaction an append, NORMAL, with checkpoints",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = CHECKSUM_APPENDS,
                                 .ctx = self,
                                 .ours = checksum_append_on,
                                 .yardstick = checksum_append_off},
                   arguments);
    checksum_end(self);
}

void bench_store_checksums_load(const bench_arguments *arguments)
{
    checksum_bench self = {0};

    checksum_begin(&self, arguments, "checksums_load", false);
    checksum_run_load(&self, arguments, "store.checksums_load", CHECKSUM_AGAINST);
}

void bench_store_checksums_append(const bench_arguments *arguments)
{
    checksum_bench self = {0};

    checksum_begin(&self, arguments, "checksums_append", false);
    checksum_run_append(&self, arguments, "store.checksums_append", CHECKSUM_AGAINST);
}

void bench_store_encrypted_load(const bench_arguments *arguments)
{
    checksum_bench self = {0};

    checksum_begin_encrypted(&self, arguments, "encrypted_load", false);
    checksum_run_load(&self, arguments, "store.encrypted_load", CHECKSUM_AGAINST_PLAIN);
}

void bench_store_encrypted_append_cpu(const bench_arguments *arguments)
{
    checksum_bench self = {0};

    checksum_begin_encrypted(&self, arguments, "encrypted_append_cpu", false);
    checksum_run_append(&self, arguments, "store.encrypted_append_cpu", CHECKSUM_AGAINST_PLAIN);
}

/* The mean wall time of an append, as in append_bench.c: what a caller waits, the sync included. */
void bench_store_encrypted_append(const bench_arguments *arguments)
{
    const size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    checksum_bench self = {0};

    checksum_begin_encrypted(&self, arguments, "encrypted_append_full", true);
    for (size_t i = 0; i < 2 * blocks; i++) {
        const bool on = (i % 2 == 0) == (i / 2 % 2 == 0); /* who goes first alternates */
        const uint64_t start = wall_now();

        if (on) {
            checksum_append(self.on, CHECKSUM_APPENDS_FULL, &self.appended_on);
        } else {
            checksum_append(self.off, CHECKSUM_APPENDS_FULL, &self.appended_off);
        }
        times[(on ? 0 : blocks) + i / 2] = (double)(wall_now() - start) / CHECKSUM_APPENDS_FULL;
    }
    wall_print("store.encrypted_append", CHECKSUM_AGAINST_PLAIN,
               "one transaction an append, FULL, with checkpoints, mean", BENCH_COST_RATIO, times,
               times + blocks, blocks);
    checksum_end(&self);
    free(times);
}
