/* Deleting a long session that is in the search index: what the call costs, and how long one of
 * its transactions, or of those that follow, keeps other writers out. CPU time, because the
 * machine's other work would show. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <quipu/log.h>
#include <quipu/search.h>
#include <quipu/store.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_wall.h"

#define DELETE_OTHERS 20000 /* messages that stay */
#define DELETE_WIDE 1024    /* bytes of a long message */
#define DELETE_BATCH 1000
#define DELETE_LONG_OPTIONS "150,000 indexed messages of 300 bytes beside 20,000; CPU time"
#define DELETE_WIDE_OPTIONS "20,000 indexed messages of 1 KB beside 20,000 of 300 bytes; CPU time"

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

/* One session to delete. */
typedef struct delete_case {
    const char *name; /* of the measure */
    const char *options;
    int64_t messages;
    bool wide; /* messages of 1 KB, 128 words of 20,000; else of 300 bytes */
} delete_case;

/* Text of 128 words, which differ from message to message as those of a conversation do. */
static quipu_str delete_text(uint64_t number, char text[DELETE_WIDE + 1])
{
    uint64_t random = number * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (size_t i = 0; i < DELETE_WIDE; i += 8) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        (void)snprintf(text + i, 9, "w%06u ", (unsigned)((random >> 33) % 20000));
    }
    return (quipu_str){text, DELETE_WIDE - 1};
}

static void delete_fill(quipu_store *store, quipu_str key, const delete_case *of)
{
    static quipu_message batch[DELETE_BATCH];
    static char texts[DELETE_BATCH][DELETE_WIDE + 1];
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error error = {0};

    if (!of->wide) {
        wall_fill(store, key, of->messages);
        return;
    }
    values.key = key;
    bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
    for (int64_t done = 0; done < of->messages; done += DELETE_BATCH) {
        for (size_t i = 0; i < DELETE_BATCH; i++) {
            batch[i] = (quipu_message){.role = QUIPU_ROLE_USER,
                                       .content = delete_text((uint64_t)done + i, texts[i])};
        }
        bench_ok(quipu_message_append(store, key, quipu_messages_of(batch, DELETE_BATCH), NULL,
                                      NULL, NULL, &error),
                 &error, "fill");
    }
}

/* The call, and a sweep for what it leaves. */
static void delete_measure(const bench_arguments *arguments, const delete_case *of)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    delete_steps steps = {0};
    quipu_store *store = NULL;
    quipu_error error = {0};
    char path[STORE_PATH_MAX];
    char name[64];
    uint64_t start;

    store_path(arguments->folder, of->name, path);
    options.durability = QUIPU_RELAXED;
    options.log = delete_hook;
    options.log_ctx = &steps;
    options.log_level = QUIPU_LOG_DEBUG;
    call.deadline_ms = -1;
    bench_ok(quipu_open(path, &options, &store, &error), &error, "open");
    wall_fill(store, QUIPU_STR("others"), DELETE_OTHERS);
    delete_fill(store, QUIPU_STR("long"), of);
    bench_ok(quipu_search_index(store, &call, NULL, &error), &error, "index");
    steps = (delete_steps){0};
    start = delete_cpu();
    bench_ok(quipu_session_delete(store, QUIPU_STR("long"), NULL, &call, NULL, &error), &error,
             "delete");
    const uint64_t took = delete_cpu() - start;
    bench_ok(quipu_store_sweep(store, &call, NULL, &error), &error, "sweep");
    const uint64_t all = delete_cpu() - start;
    if (steps.count < (uint64_t)of->messages / QUIPU_DELETE_BATCH) {
        bench_die("a long session went in %llu steps", (unsigned long long)steps.count);
    }
    quipu_close(store);
    (void)snprintf(name, sizeof(name), "%s_ms", of->name);
    bench_print_count(name, (double)took / 1e6, "ms", "CPU time of the call", of->options);
    (void)snprintf(name, sizeof(name), "%s_step_ms", of->name);
    bench_print_count(name, (double)steps.longest / 1e6, "ms",
                      "CPU time of the longest transaction", of->options);
    (void)snprintf(name, sizeof(name), "%s_all_ms", of->name);
    bench_print_count(name, (double)all / 1e6, "ms", "reported without a bar: with a sweep",
                      of->options);
}

void bench_store_delete_long(const bench_arguments *arguments)
{
    delete_measure(arguments,
                   &(delete_case){"store.delete_long", DELETE_LONG_OPTIONS, 150000, false});
    delete_measure(arguments,
                   &(delete_case){"store.delete_wide", DELETE_WIDE_OPTIONS, 20000, true});
}
