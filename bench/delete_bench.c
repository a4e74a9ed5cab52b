/* Deleting a long session that is in the search index: what it costs in all, and how long one of
 * its transactions keeps other writers out. CPU time, because the machine's other work would
 * show. */
#include <string.h>
#include <time.h>

#include <quipu/log.h>
#include <quipu/search.h>
#include <quipu/store.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_wall.h"

#define DELETE_LONG 150000
#define DELETE_OTHERS 20000 /* messages that stay */
#define DELETE_OPTIONS "150,000 indexed messages of 300 bytes beside 20,000; CPU time"

/* The CPU time of each step, from the end of the one before. */
typedef struct delete_steps {
    uint64_t at;
    uint64_t longest;
    uint64_t count;
} delete_steps;

static uint64_t delete_cpu(void)
{
    struct timespec at;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) != 0) {
        bench_die("a clock is missing");
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

/* Behind each step. The first is left out: the delete's own transaction comes before it. */
static void delete_hook(void *ctx, const quipu_log_entry *entry)
{
    delete_steps *steps = ctx;

    if (strcmp(entry->event, "purge_step") == 0) {
        const uint64_t now = delete_cpu();
        const uint64_t took = now - steps->at;

        steps->longest = steps->count > 0 && took > steps->longest ? took : steps->longest;
        steps->count++;
        steps->at = now;
    }
}

void bench_store_delete_long(const bench_arguments *arguments)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    delete_steps steps = {0};
    quipu_store *store = NULL;
    quipu_error error = {0};
    char path[STORE_PATH_MAX];
    uint64_t start;

    store_path(arguments->folder, "store.delete_long", path);
    options.durability = QUIPU_RELAXED;
    options.log = delete_hook;
    options.log_ctx = &steps;
    options.log_level = QUIPU_LOG_DEBUG;
    call.deadline_ms = -1;
    bench_ok(quipu_open(path, &options, &store, &error), &error, "open");
    wall_fill(store, QUIPU_STR("others"), DELETE_OTHERS);
    wall_fill(store, QUIPU_STR("long"), DELETE_LONG);
    bench_ok(quipu_search_index(store, &call, NULL, &error), &error, "index");
    start = delete_cpu();
    bench_ok(quipu_session_delete(store, QUIPU_STR("long"), &call, &error), &error, "delete");
    const uint64_t took = delete_cpu() - start;
    if (steps.count < DELETE_LONG / QUIPU_DELETE_BATCH) {
        bench_die("a long session went in %llu steps", (unsigned long long)steps.count);
    }
    quipu_close(store);
    bench_print_count("store.delete_long_ms", (double)took / 1e6, "ms", "CPU time", DELETE_OPTIONS);
    bench_print_count("store.delete_long_step_ms", (double)steps.longest / 1e6, "ms",
                      "CPU time of the longest transaction", DELETE_OPTIONS);
}
