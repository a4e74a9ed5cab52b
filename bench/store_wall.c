/* Wall times, counted syncs and filled stores for the store's benches. */
#include "bench/store_wall.h"

#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WALL_BATCH 1000
#define WALL_PAGE_ROUNDS 50

uint64_t wall_now(void)
{
    struct timespec at;

    if (clock_gettime(CLOCK_MONOTONIC, &at) != 0) {
        bench_die("a clock is missing");
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

static int wall_compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return *x < *y ? -1 : *x > *y;
}

double wall_median(uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(*ns), wall_compare);
    return (double)ns[n / 2];
}

void wall_print_latency(const char *name, uint64_t *ns, size_t n, const char *options)
{
    char line[96];

    qsort(ns, n, sizeof(*ns), wall_compare);
    snprintf(line, sizeof(line), "%s_p50_us", name);
    bench_print_count(line, (double)ns[n / 2] / 1e3, "us", "reported without a bar", options);
    snprintf(line, sizeof(line), "%s_p99_us", name);
    bench_print_count(line, (double)ns[n * 99 / 100] / 1e3, "us", "reported without a bar",
                      options);
}

double wall_mean(const uint64_t *ns, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)ns[i];
    }
    return sum / (double)n;
}

static void wall_print_values(const char *key, const double *values, size_t n)
{
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        printf("%s%.1f", i > 0 ? ", " : "", values[i]);
    }
    printf("]");
}

void wall_print(const char *name, const char *against, const char *options, bench_measure measure,
                const double *ours_ns, const double *yardstick_ns, size_t blocks)
{
    printf("{\"name\": \"%s\", \"bench\": \"%s\", \"measure\": \"%s\", \"against\": \"%s\", "
           "\"options\": \"%s\", \"operations\": 1, \"clock\": \"wall\"",
           name, name, measure == BENCH_COST_RATIO ? "cost_ratio" : "speed_ratio", against,
           options);
    wall_print_values("ours_ns", ours_ns, blocks);
    wall_print_values("yardstick_ns", yardstick_ns, blocks);
    printf("}\n");
    fflush(stdout);
}

/* ---- syncs -------------------------------------------------------------------------------------
 */

#define WALL_TABLES 4 /* of functions: SQLite has one for the database, another for its log */

/* The system's own functions for a file, one of them replaced. */
typedef struct wall_table {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *below;
} wall_table;

static pthread_mutex_t wall_mutex = PTHREAD_MUTEX_INITIALIZER;
static wall_table wall_tables[WALL_TABLES];
static sqlite3_vfs *wall_vfs_below;
static sqlite3_vfs wall_vfs;
static atomic_ullong wall_sync_count;

static int wall_sync(sqlite3_file *file, int flags)
{
    const wall_table *table = (const wall_table *)file->pMethods;

    (void)atomic_fetch_add(&wall_sync_count, 1);
    return table->below->xSync(file, flags);
}

static const sqlite3_io_methods *wall_replace(const sqlite3_io_methods *below)
{
    size_t i = 0;

    (void)pthread_mutex_lock(&wall_mutex);
    while (i < WALL_TABLES && wall_tables[i].below != NULL && wall_tables[i].below != below) {
        i++;
    }
    if (i == WALL_TABLES) {
        bench_die("SQLite has more kinds of files than thought");
    }
    if (wall_tables[i].below == NULL) {
        wall_tables[i] = (wall_table){.methods = *below, .below = below};
        wall_tables[i].methods.xSync = wall_sync;
    }
    (void)pthread_mutex_unlock(&wall_mutex);
    return &wall_tables[i].methods;
}

static int wall_file_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                          int *ret_flags)
{
    int rc = wall_vfs_below->xOpen(wall_vfs_below, name, file, flags, ret_flags);

    (void)vfs;
    if (rc == SQLITE_OK) {
        file->pMethods = wall_replace(file->pMethods);
    }
    return rc;
}

void wall_count_syncs(void)
{
    if (wall_vfs_below == NULL) {
        wall_vfs_below = sqlite3_vfs_find(NULL);
        wall_vfs = *wall_vfs_below;
        wall_vfs.pNext = NULL;
        wall_vfs.zName = "counting";
        wall_vfs.xOpen = wall_file_open;
        if (sqlite3_vfs_register(&wall_vfs, 1) != SQLITE_OK) {
            bench_die("SQLite took no VFS");
        }
    }
}

uint64_t wall_syncs(void)
{
    return atomic_load(&wall_sync_count);
}

/* ---- stores ------------------------------------------------------------------------------------
 */

static quipu_store *wall_open_with(const char *path, const quipu_open_options *options)
{
    quipu_store *store = NULL;
    quipu_error error = {0};

    bench_ok(quipu_open(path, options, &store, &error), &error, "open");
    return store;
}

quipu_store *wall_open(const char *path, bool durable)
{
    return wall_open_search(path, durable, QUIPU_SEARCH_LAZY);
}

quipu_store *wall_open_search(const char *path, bool durable, quipu_search_mode search)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.durability = durable ? QUIPU_DURABLE : QUIPU_RELAXED;
    options.search = search;
    return wall_open_with(path, &options);
}

static size_t wall_give_key(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    memset(ret_key, 7, size < 32 ? size : 32);
    return 32;
}

quipu_store *wall_open_keyed(const char *path, bool durable)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.durability = durable ? QUIPU_DURABLE : QUIPU_RELAXED;
    options.key = wall_give_key;
    return wall_open_with(path, &options);
}

quipu_str wall_text(uint64_t number, char text[WALL_TEXT + 1])
{
    int n = snprintf(text, WALL_TEXT + 1, "message %" PRIu64 " ", number);

    for (size_t i = (size_t)n; i < WALL_TEXT; i++) {
        text[i] = i % 7 == 0 ? ' ' : (char)('a' + (number + i) % 26);
    }
    text[WALL_TEXT] = '\0';
    return (quipu_str){text, WALL_TEXT};
}

void wall_append(quipu_store *store, quipu_str key, quipu_str content)
{
    const quipu_message message = {.role = QUIPU_ROLE_USER, .content = content};
    quipu_error error = {0};

    bench_ok(
        quipu_message_append(store, key, quipu_messages_of(&message, 1), NULL, NULL, NULL, &error),
        &error, "append");
}

void wall_fill(quipu_store *store, quipu_str key, int64_t messages)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_message *batch = bench_alloc(WALL_BATCH * sizeof(*batch));
    char(*texts)[WALL_TEXT + 1] = bench_alloc(WALL_BATCH * sizeof(*texts));
    quipu_error error = {0};

    values.key = key;
    bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
    for (int64_t done = 0; done < messages; done += WALL_BATCH) {
        int64_t n = messages - done < WALL_BATCH ? messages - done : WALL_BATCH;
        for (int64_t i = 0; i < n; i++) {
            batch[i] = (quipu_message){.role = (done + i) % 2 == 0 ? QUIPU_ROLE_USER
                                                                   : QUIPU_ROLE_ASSISTANT,
                                       .content = wall_text((uint64_t)(done + i), texts[i])};
        }
        bench_ok(quipu_message_append(store, key, quipu_messages_of(batch, (size_t)n), NULL, NULL,
                                      NULL, &error),
                 &error, "fill");
    }
    free(batch);
    free(texts);
}

double wall_list_page(quipu_store *store)
{
    uint64_t ns[WALL_PAGE_ROUNDS];

    for (size_t i = 0; i < WALL_PAGE_ROUNDS; i++) {
        quipu_session_page *page = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        bench_ok(quipu_session_list(store, NULL, NULL, &page, &error), &error, "list");
        ns[i] = wall_now() - start;
        if (page->sessions.count != QUIPU_PAGE_DEFAULT) {
            bench_die("a page of %zu sessions", page->sessions.count);
        }
        quipu_free(page);
    }
    return wall_median(ns, WALL_PAGE_ROUNDS);
}
