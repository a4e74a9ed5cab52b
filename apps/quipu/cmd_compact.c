/* quipu compact: hide old messages behind a summary, or undo that. Messages stay in the store until
 * prune. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fork.h"

#define COMPACT_CHUNK 65536

static const app_option compact_options[] = {
    {.name = "summary",
     .value = "TEXT",
     .help = "the summary of the messages; \"-\" reads it from stdin"},
    {.name = "through", .value = "SEQ", .help = "the last message it covers; default: the newest"},
    {.name = "undo", .help = "undo the newest compaction"},
    {.name = NULL},
};

/* All of stdin without the line break at its end, in the arena. Returns an exit code. */
static int compact_read(const app_call *call, quipu_arena *arena, quipu_str *ret_text)
{
    char *text = NULL;
    size_t n = 0;
    size_t got = 0;
    int code = APP_OK;

    do {
        char *more = realloc(text, n + COMPACT_CHUNK);
        if (more == NULL) {
            code = app_fail(call, "stdin", QUIPU_NOMEM, NULL);
            break;
        }
        text = more;
        got = fread(text + n, 1, COMPACT_CHUNK, stdin);
        n += got;
    } while (got > 0 && n <= QUIPU_MESSAGE_BYTES_MAX); /* more is rejected in any case */
    if (code == APP_OK && ferror(stdin)) {
        code = app_fail_errno(call, "stdin");
    }
    if (code == APP_OK) {
        n -= n > 0 && text[n - 1] == '\n';
        quipu_status status = quipu_arena_copy(arena, (quipu_str){text, n}, ret_text);
        code = status == QUIPU_OK ? APP_OK : app_fail(call, "stdin", status, NULL);
    }
    free(text);
    return code;
}

/* Without --through the newest message is the last one covered. */
static int compact_do(const app_call *call, quipu_store *store, quipu_str summary, int64_t *through,
                      int64_t *ret_seq)
{
    const quipu_str key = app_argument(call, 0);
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;
    int code = *through < 0 ? app_seq_newest(call, store, key, through) : APP_OK;

    if (code != APP_OK) {
        return code;
    }
    options.covers_to = *through;
    options.summary = summary;
    status = quipu_session_compact(store, key, &options, NULL, ret_seq, &error);
    return status == QUIPU_OK ? APP_OK
                              : app_fail_session(call, app_argument(call, 0), status, &error);
}

/* Only the newest compaction can be undone; repeat it for earlier ones. */
static int compact_undo(const app_call *call, quipu_store *store)
{
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    options.flags = QUIPU_COMPACT_UNDO;
    status = quipu_session_compact(store, app_argument(call, 0), &options, NULL, NULL, &error);
    /* "Not found" may mean the session or the compaction; the library's message says which. */
    return status == QUIPU_OK ? APP_OK : app_fail(call, call->arguments[0], status, &error);
}

/* The number of the summary is what --undo and show refer to. */
static void compact_print(const app_call *call, int64_t seq, int64_t through)
{
    const bool undo = app_given(call, "undo");
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "key", call->arguments[0]);
        app_json_bool(&json, "undone", undo);
        if (!undo) {
            app_json_int(&json, "seq", seq);
            app_json_int(&json, "covers_to", through);
        }
        app_json_close(&json, '}');
    } else if (undo) {
        printf("the newest compaction is undone\n");
    } else {
        printf("message %" PRId64 " summarizes messages up to %" PRId64
               "; --undo undoes it, \"quipu prune\" deletes them\n",
               seq, through);
    }
}

/* Exactly one of --summary and --undo. */
static int compact_run(const app_call *call)
{
    const bool undo = app_given(call, "undo");
    quipu_str summary = app_text_value(call, "summary");
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_store *store = NULL;
    int64_t through = -1;
    int64_t seq = 0;
    int code = APP_OK;

    if (undo == (summary.p != NULL) || (undo && app_given(call, "through"))) {
        return app_usage(call, "give either --summary TEXT (with --through SEQ) or --undo");
    }
    if (!app_number(call, "through", 1, INT64_MAX, &through)) {
        return APP_USAGE;
    }
    if (!undo && strcmp(summary.p, "-") == 0) {
        code = compact_read(call, &arena, &summary);
    }
    if (code == APP_OK) {
        code = app_open(call, APP_NEED_WRITE, &store);
    }
    if (code == APP_OK) {
        code = undo ? compact_undo(call, store) : compact_do(call, store, summary, &through, &seq);
    }
    if (code == APP_OK) {
        compact_print(call, seq, through);
    }
    quipu_close(store);
    quipu_arena_free(&arena);
    return code;
}

const app_verb app_verb_compact = {
    .name = "compact",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "replace old messages by a summary, or undo that",
    .note = "Examples:\n"
            "  quipu compact trip --through 2 --summary 'She wants to see Cusco.'\n"
            "  echo 'She left.' | quipu compact trip --through 2 --summary -",
    .common = APP_STORE | APP_ADDS | APP_JSON | APP_SILENT,
    .options = compact_options,
    .run = compact_run,
};
