/* quipu stats: how much is in a store, and how large it is. The JSON member "disks" is
 * quipu_stats.durability_level; its name is part of the output format. */
#include <inttypes.h>

#include "app.h"

/* Member names are part of the output format. */
static void stats_json(const quipu_stats *stats)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_int(&json, "sessions", stats->sessions);
    app_json_int(&json, "forks", stats->forks);
    app_json_int(&json, "messages", stats->messages);
    app_json_int(&json, "tokens", stats->tokens);
    app_json_int(&json, "bytes", stats->file_bytes + stats->log_bytes);
    app_json_int(&json, "file_bytes", stats->file_bytes);
    app_json_int(&json, "log_bytes", stats->log_bytes);
    app_json_int(&json, "free_bytes", stats->free_bytes);
    app_json_int(&json, "unindexed", stats->unindexed);
    app_json_int(&json, "expired", stats->expired);
    app_json_int(&json, "artifacts", stats->artifacts);
    app_json_int(&json, "artifact_bytes", stats->artifact_bytes);
    app_json_int(&json, "disks", stats->durability_level);
    app_json_cstr(&json, "checksums", app_checksums_name(stats->checksums));
    if (stats->sessions > 0) {
        app_json_cstr(&json, "largest_key", stats->largest_key);
        app_json_int(&json, "largest_messages", stats->largest_messages);
    }
    app_json_close(&json, '}');
}

/* Tokens are estimates, hence "about". */
static void stats_print(const app_call *call, const quipu_stats *stats)
{
    const bool colours = app_colours(call);
    char file[APP_NUMBER_SIZE];
    char log[APP_NUMBER_SIZE];
    char spare[APP_NUMBER_SIZE];

    app_size_text(stats->file_bytes, file);
    app_size_text(stats->log_bytes, log);
    app_size_text(stats->free_bytes, spare);
    printf("sessions  %" PRId64 ", %" PRId64 " of them forks, %" PRId64 " expired\n",
           stats->sessions, stats->forks, stats->expired);
    printf("messages  %" PRId64 ", %" PRId64 " of them not indexed yet\n", stats->messages,
           stats->unindexed);
    printf("tokens    about %" PRId64 "\n", stats->tokens);
    printf("file      %s, %s of it free, and a log of %s\n", file, spare, log);
    if (stats->sessions > 0) {
        printf("largest   %s", app_style(colours, APP_BOLD));
        app_put(stdout, quipu_cstr(stats->largest_key));
        printf("%s, %" PRId64 " messages\n", app_style(colours, APP_PLAIN),
               stats->largest_messages);
    }
}

/* Read-only; does not index or migrate. */
static int stats_run(const app_call *call)
{
    quipu_store *store = NULL;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    quipu_status status;
    int code = app_open(call, APP_NEED_READ, &store);

    if (code != APP_OK) {
        return code;
    }
    status = quipu_store_stats(store, NULL, NULL, &stats, &error);
    if (status != QUIPU_OK) {
        code = app_fail(call, "the statistics", status, &error);
    } else if (app_given(call, "json")) {
        stats_json(&stats);
    } else {
        stats_print(call, &stats);
    }
    quipu_close(store);
    return code;
}

const app_verb app_verb_stats = {
    .name = "stats",
    .group = APP_GROUP_READ,
    .arguments = "",
    .summary = "show how much is in the store and how large it is",
    .note = "Examples:\n"
            "  quipu stats\n"
            "  quipu stats --json",
    .common = APP_READS,
    .run = stats_run,
};
