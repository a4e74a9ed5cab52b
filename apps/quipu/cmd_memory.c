/* quipu memory: the observations made in a session, and the reflections drawn from them. Three
 * words: list, add, clear. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "render.h"

#define MEMORY_TEXT_MAX 1048576 /* bytes of an observation that is read from stdin */

static const app_option memory_options[] = {
    {.name = "kind",
     .value = "KIND",
     .choices = "observations reflections all",
     .help = "which kind; list and clear: default all"},
    {.name = "last", .letter = 'n', .value = "N", .help = "list: the newest N of each kind"},
    {.name = "from", .value = "SEQ", .help = "add: the first message that it is based on"},
    {.name = "to", .value = "SEQ", .help = "add: the last message that it is based on"},
    {.name = "generation", .value = "N", .help = "add: generation of a reflection; default 1"},
    {.name = NULL},
};

/* Singular, as shown; --kind uses the plural. */
static const char *memory_name(quipu_memory_kind kind)
{
    return kind == QUIPU_OBSERVATION ? "observation" : "reflection";
}

/* Whether --kind selects this kind. */
static bool memory_wants(const app_call *call, quipu_memory_kind kind)
{
    const char *given = app_value(call, "kind");

    return given == NULL || strcmp(given, "all") == 0 ||
           strncmp(given, memory_name(kind), strlen(memory_name(kind))) == 0;
}

/* ---- list ------------------------------------------------------------------------------------
 */

/* Source messages for observations, the generation for reflections. */
static void memory_json(const quipu_memory *memory)
{
    app_json json = {.out = stdout};
    char id[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(memory->id, id);
    app_json_open(&json, NULL, '{');
    app_json_cstr(&json, "kind", memory_name(memory->kind));
    app_json_cstr(&json, "id", id);
    app_json_text(&json, "key", memory->session_key);
    app_json_text(&json, "content", memory->content);
    app_json_int(&json, "tokens", memory->token_count);
    if (memory->kind == QUIPU_OBSERVATION) {
        app_json_int(&json, "from", memory->source_start);
        app_json_int(&json, "to", memory->source_end);
    } else {
        app_json_int(&json, "generation", memory->generation);
    }
    app_json_time(&json, "created", memory->created_at);
    app_json_close(&json, '}');
}

/* One line of facts, then the text. */
static void memory_print(const app_call *call, const quipu_memory *memory)
{
    const bool colours = app_colours(call);
    char time[QUIPU_TIME_TEXT_SIZE];

    app_time_text(memory->created_at, time, sizeof(time));
    printf("%s%s%s  ", app_style(colours, APP_BOLD), memory_name(memory->kind),
           app_style(colours, APP_PLAIN));
    if (memory->kind == QUIPU_REFLECTION) {
        printf("generation %" PRId64 "  ", memory->generation);
    } else if (memory->source_end > 0) {
        printf("of %" PRId64 " to %" PRId64 "  ", memory->source_start, memory->source_end);
    }
    printf("%s%" PRId64 " tokens  %s%s\n", app_style(colours, APP_DIM), memory->token_count, time,
           app_style(colours, APP_PLAIN));
    app_put_wrapped(stdout, memory->content, "    ", app_columns() - 4);
}

/* Reflections first: they summarize the observations. */
static int memory_list(const app_call *call, quipu_store *store, quipu_str key)
{
    static const quipu_memory_kind kinds[] = {QUIPU_REFLECTION, QUIPU_OBSERVATION};
    const bool json = app_given(call, "json");
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    int64_t last = 0;
    size_t count = 0;

    if (!app_number(call, "last", 0, INT64_MAX, &last)) {
        return APP_USAGE;
    }
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == QUIPU_OK; k++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;

        if (!memory_wants(call, kinds[k])) {
            continue;
        }
        query.kind = kinds[k];
        query.session_key = key;
        query.recent = last;
        status = quipu_memory_find(store, &query, NULL, &list, &error);
        for (size_t i = 0; status == QUIPU_OK && i < list->memories.count; i++, count++) {
            if (json) {
                memory_json(quipu_memory_at(list->memories, i));
            } else {
                memory_print(call, quipu_memory_at(list->memories, i));
            }
        }
        quipu_free(list);
    }
    if (status != QUIPU_OK) {
        return app_fail(call, key.p, status, &error);
    }
    if (count == 0 && !json) {
        app_report(call, "there are no memories of \"%s\"", key.p);
    }
    return APP_OK;
}

/* ---- add -------------------------------------------------------------------------------------
 */

/* The text of the argument, or of stdin without its last newline. `buffer` has MEMORY_TEXT_MAX + 1
 * bytes. */
static int memory_text(const app_call *call, char *buffer, quipu_str *ret_text)
{
    quipu_str text = app_argument(call, 2);

    if (text.p == NULL) {
        return app_usage(call, "the text is missing: give it, or - for stdin");
    }
    if (strcmp(text.p, "-") == 0) {
        text = (quipu_str){buffer, fread(buffer, 1, MEMORY_TEXT_MAX + 1, stdin)};
        if (text.n > MEMORY_TEXT_MAX) {
            return app_usage(call, "the text is longer than %d bytes", MEMORY_TEXT_MAX);
        }
        if (text.n > 0 && text.p[text.n - 1] == '\n') {
            text.n--;
        }
    }
    *ret_text = text;
    return APP_OK;
}

/* Stores a memory and prints its id. */
static int memory_save(const app_call *call, quipu_store *store, const quipu_memory *memory)
{
    app_json json = {.out = stdout};
    char text[QUIPU_UUID_TEXT_SIZE];
    quipu_memory_list *saved = NULL;
    quipu_error error = {0};
    quipu_status status =
        quipu_memory_save(store, quipu_memories_of(memory, 1), NULL, &saved, &error);

    if (status != QUIPU_OK) {
        return app_fail(call, memory->session_key.p, status, &error);
    }
    quipu_uuid_format(quipu_memory_at(saved->memories, 0)->id, text);
    quipu_free(saved);
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "kind", memory_name(memory->kind));
        app_json_cstr(&json, "id", text);
        app_json_close(&json, '}');
    } else {
        printf("%s\n", text);
    }
    return APP_OK;
}

/* --from without --to means a single message. */
static int memory_add(const app_call *call, quipu_store *store, quipu_str key)
{
    const bool reflection = app_given(call, "kind") && !memory_wants(call, QUIPU_OBSERVATION);
    quipu_memory memory = {.kind = reflection ? QUIPU_REFLECTION : QUIPU_OBSERVATION,
                           .session_key = key,
                           .generation = reflection ? 1 : 0};
    char *buffer;
    int code;

    if (!app_number(call, "from", 1, UINT32_MAX, &memory.source_start) ||
        !app_number(call, "to", 1, UINT32_MAX, &memory.source_end) ||
        !app_number(call, "generation", 1, UINT32_MAX, &memory.generation)) {
        return APP_USAGE;
    }
    if (memory.source_end == 0) {
        memory.source_end = memory.source_start;
    }
    buffer = malloc(MEMORY_TEXT_MAX + 1);
    if (buffer == NULL) {
        return app_fail(call, key.p, QUIPU_NOMEM, NULL);
    }
    code = memory_text(call, buffer, &memory.content);
    if (code == APP_OK) {
        memory.token_count = quipu_token_estimate(memory.content);
        code = memory_save(call, store, &memory);
    }
    free(buffer);
    return code;
}

/* ---- clear -----------------------------------------------------------------------------------
 */

/* Deletes the kinds that --kind selects, after confirmation. */
static int memory_clear(const app_call *call, quipu_store *store, quipu_str key)
{
    app_json json = {.out = stdout};
    const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    int64_t removed = 0;
    int code = app_confirm(call, "delete the memories of \"%s\"", key.p);

    if (code != APP_OK) {
        return code;
    }
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == QUIPU_OK; k++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        int64_t count = 0;

        query.kind = kinds[k];
        query.session_key = key;
        if (memory_wants(call, kinds[k])) {
            status = quipu_memory_delete(store, &query, NULL, &count, &error);
            removed += count;
        }
    }
    if (status != QUIPU_OK) {
        return app_fail(call, key.p, status, &error);
    }
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_int(&json, "removed", removed);
        app_json_close(&json, '}');
    } else {
        printf("%" PRId64 " deleted\n", removed);
    }
    return APP_OK;
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* The first argument chooses the function and how the store is opened. */
static int memory_run(const app_call *call)
{
    static int (*const words[])(const app_call *, quipu_store *,
                                quipu_str) = {memory_list, memory_add, memory_clear};
    static const app_need needs[] = {APP_NEED_READ, APP_NEED_NEW, APP_NEED_WRITE};
    const int word = app_word_number(call->verb->words, call->arguments[0]);
    quipu_store *store = NULL;
    int code = app_open(call, needs[word], &store);

    if (code == APP_OK) {
        code = words[word](call, store, app_argument(call, 1));
        quipu_close(store);
    }
    return code;
}

const app_verb app_verb_memory = {
    .name = "memory",
    .group = APP_GROUP_READ,
    .arguments = "list|add|clear KEY [TEXT]",
    .arguments_min = 2,
    .arguments_max = 3,
    .words = "list add clear",
    .summary = "list, add or delete the memories of a session",
    .common = APP_READS | APP_YES,
    .options = memory_options,
    .run = memory_run,
};
