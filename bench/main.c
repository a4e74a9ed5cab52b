/* quipu_bench: runs the given benches and prints raw results, one JSON object a line.
 * People call it through `make bench` (bench/run.py), which judges the results. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/benches.h"
#include "bench/harness.h"

#define MAIN_BLOCKS_DEFAULT 15

static const bench_entry main_benches[] = {
    {"base.json_parse", bench_json_parse, NULL},
    {"ent.session_by_key_with_50_messages", bench_ent_load, NULL},
    {"ent.insert_in_transaction", bench_ent_insert, NULL},
    {"ent.iterate_per_row", bench_ent_iterate, NULL},
    {"ent.allocations_per_row", bench_ent_allocations, NULL},
    {"ent.prepares_warm", bench_ent_prepares, NULL},
    {"store.append_normal", bench_store_append_normal, NULL},
    {"store.append_full", bench_store_append_full, NULL},
    {"store.load_10000", bench_store_load_all, NULL},
    {"store.last_50_of_10000", bench_store_load_last, NULL},
    {"store.create", bench_store_create, NULL},
    {"store.get_or_create", bench_store_get_or_create, NULL},
    {"store.delete_1000", bench_store_delete, NULL},
    {"store.delete_long_ms", bench_store_delete_long,
     "store.delete_long_step_ms store.delete_wide_ms store.delete_wide_step_ms"},
    {"store.append_full_8_callers", bench_store_callers_8, NULL},
    {"store.append_full_64_callers", bench_store_callers_64, NULL},
    {"store.append_flat", bench_store_append_flat, NULL},
    {"store.list_flat", bench_store_list_flat, NULL},
    {"store.window_flat", bench_store_window_flat, NULL},
    {"store.bytes_per_message", bench_store_bytes, NULL},
    {"store.append_4_processes", bench_store_processes, NULL},
    {"store.fork_flat", bench_store_near_flat, "store.last_50_flat"},
    {"store.interleaved", bench_store_mixed, NULL},
    {"store.load_peak_memory", bench_store_peak, NULL},
    {"store.cold_start", bench_store_cold, NULL},
    {"store.checksums_load", bench_store_checksums_load, NULL},
    {"store.checksums_append", bench_store_checksums_append, NULL},
    {"store.encrypted_load", bench_store_encrypted_load, NULL},
    {"store.encrypted_append", bench_store_encrypted_append, NULL},
    {"store.encrypted_append_cpu", bench_store_encrypted_append_cpu, NULL},
    {"store.encrypted_cold_start", bench_store_encrypted_cold, NULL},
    {"store.chain_normal", bench_store_chain_normal, NULL},
    {"store.chain_full", bench_store_chain_full, NULL},
    {"store.search", bench_store_search, NULL},
    {"adk.event_decode", bench_event_decode, NULL},
    {"adk.event_encode", bench_event_encode, NULL},
    {"adk.event_append", bench_event_append, NULL},
    {"adk.event_append_with_state", bench_event_append_state, NULL},
    {"adk.last_50_events", bench_event_recent, NULL},
    {"adk.last_50_events_as_texts", bench_event_recent_texts, NULL},
    {"adk.append_flat", bench_event_flat, "adk.last_50_flat"},
    {"recall.user_flat", bench_recall_user, "recall.user_p50_us recall.user_p95_us"},
    {"agent.turn_flat", bench_agent_turn_flat, "agent.turn_us"},
    {"agent.recall_flat", bench_agent_recall_flat, "agent.recall_turn_us"},
    {"memory.rules_us", bench_memory_rules, NULL},
    {"context.flat", bench_context_flat, "context.us"},
    {"context.raw", bench_context_raw, NULL},
    {"context.replay", bench_context_replay, NULL},
#ifdef BENCH_POSTGRES /* built with libpq */
    {"postgres.append", bench_postgres_append, NULL},
    {"postgres.append_32_callers", bench_postgres_callers, NULL},
    {"postgres.load_10000", bench_postgres_load_all, NULL},
    {"postgres.last_50_of_10000", bench_postgres_load_last, NULL},
    {"postgres.list_flat", bench_postgres_list_flat, NULL},
    {"postgres.beside_creates", bench_postgres_beside_creates, NULL},
    {"postgres.beside_indexing", bench_postgres_beside_indexing, NULL},
    {"postgres.hot_share", bench_postgres_hot, "postgres.index_entries"},
#endif
#ifdef BENCH_PROVIDER /* built with libcurl */
    {"model.sse_accumulate", bench_model_sse, NULL},
    {"model.stream_openai", bench_model_openai, NULL},
    {"model.stream_anthropic", bench_model_anthropic, NULL},
    {"model.stream_gemini", bench_model_gemini, NULL},
#endif
};

#define MAIN_BENCHES (sizeof(main_benches) / sizeof(main_benches[0]))

static int main_usage(FILE *stream)
{
    fputs("usage: quipu_bench [--blocks N] [--count ours|yardstick] --folder FOLDER [NAME...]\n"
          "       quipu_bench --list\n"
          "  --folder   an empty folder for the databases; stays as it is afterwards\n"
          "  --blocks   blocks of each side, 7 to 1024 (default 15)\n"
          "  --count    run one block of one side inside bench_counted_block(), for callgrind\n"
          "  NAME       benches to run; all when none is named\n",
          stream);
    return stream == stdout ? 0 : 2;
}

static uint64_t main_read_blocks(const char *text)
{
    char *end = NULL;
    unsigned long long value = 0;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < BENCH_BLOCKS_MIN ||
        value > BENCH_BLOCKS_MAX) {
        bench_die("--blocks wants a number from %d to %d, not \"%s\"", BENCH_BLOCKS_MIN,
                  BENCH_BLOCKS_MAX, text);
    }
    return value;
}

static const bench_entry *main_find(const char *name)
{
    for (size_t i = 0; i < MAIN_BENCHES; i++) {
        if (strcmp(main_benches[i].name, name) == 0) {
            return &main_benches[i];
        }
    }
    bench_die("no bench is called \"%s\"; see --list", name);
}

static int main_list(void)
{
    for (size_t i = 0; i < MAIN_BENCHES; i++) {
        const char *also = main_benches[i].also;
        printf("%s%s%s\n", main_benches[i].name, also != NULL ? " " : "", also != NULL ? also : "");
    }
    return 0;
}

/* Take one option and its value; false when `argv[at]` is no option. */
static bool main_read_option(char **argv, int at, bench_arguments *arguments)
{
    const char *value = argv[at + 1];

    if (strncmp(argv[at], "--", 2) != 0) {
        return false;
    }
    if (value == NULL) {
        bench_die("%s wants a value", argv[at]);
    }
    if (strcmp(argv[at], "--folder") == 0) {
        arguments->folder = value;
    } else if (strcmp(argv[at], "--blocks") == 0) {
        arguments->blocks = main_read_blocks(value);
    } else if (strcmp(argv[at], "--count") == 0) {
        if (strcmp(value, "ours") != 0 && strcmp(value, "yardstick") != 0) {
            bench_die("--count wants ours or yardstick, not \"%s\"", value);
        }
        arguments->count_side = value;
    } else {
        bench_die("unknown option %s", argv[at]);
    }
    return true;
}

int main(int argc, char **argv)
{
    bench_arguments arguments = {.blocks = MAIN_BLOCKS_DEFAULT};
    int at = 1;

    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        return main_list();
    }
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        return main_usage(stdout);
    }
    while (at < argc && main_read_option(argv, at, &arguments)) {
        at += 2;
    }
    if (arguments.folder == NULL) {
        return main_usage(stderr);
    }
    if (at == argc) {
        for (size_t i = 0; i < MAIN_BENCHES; i++) {
            main_benches[i].run(&arguments);
        }
    }
    for (; at < argc; at++) {
        main_find(argv[at])->run(&arguments);
    }
    return 0;
}
