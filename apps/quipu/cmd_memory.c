/* quipu memory: the observations made in a session, and the reflections drawn from them. The words
 * list, add and clear are here; memory.h has the others. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "provider.h"
#include "render.h"

#define MEMORY_LINE_COLUMNS 110 /* what the facts of a memory need in one line */

static const app_option memory_options[] = {
    {.name = "kind",
     .value = "KIND",
     .choices = "observations reflections all",
     .help = "which kind; list and clear: default all"},
    {.name = "last", .letter = 'n', .value = "N", .help = "list: the newest N of each kind"},
    {.name = "from",
     .value = "SEQ",
     .help = "add, list, clear: the first message that it is based on"},
    {.name = "to",
     .value = "SEQ",
     .help = "add, list, clear: the last message that it is based on"},
    {.name = "generation", .value = "N", .help = "add: generation of a reflection; default 1"},
    {.name = "priority",
     .value = "PRIORITY",
     .choices = MEMORY_PRIORITIES,
     .help = "add, edit: how much it weighs in a prompt; add: default standing"},
    {.name = "supersedes",
     .value = "ID",
     .help = "add: the older memory that it replaces, which is retired"},
    {.name = "subject", .value = "TEXT", .help = "add, edit: its subject, a person or a thing"},
    {.name = "why", .value = "TEXT", .help = "edit: why it is changed"},
    {.name = "who", .value = "NAME", .help = "edit, retire: who does it; default $USER"},
    {.name = "retired", .help = "list: retired memories, too"},
    {.name = "scope", .help = "list: of all sessions of the same app and user"},
    {.name = "app", .value = "NAME", .help = "run, status: sessions of this app"},
    {.name = "user", .value = "ID", .help = "run, status: sessions of this user; with --app"},
    {.name = "tokens",
     .value = "N",
     .help = "run: so many pending tokens are due; default 1, with a model 4000"},
    {.name = "model",
     .value = "NAME",
     .help = "run: observe by this model instead of rules, and condense what is known"},
    {.name = "reflect",
     .value = "N",
     .help = "run: condense what is known from N tokens on; 0: never; default 4000"},
    {.name = "ask",
     .value = "N",
     .help = "run: tokens of messages in one question to the model; default 16000"},
    {.name = "observer-prompt",
     .value = "FILE",
     .help = "run: what the model is asked to write down; - is stdin"},
    {.name = "reflector-prompt",
     .value = "FILE",
     .help = "run: how it is asked to condense what is known"},
    {.name = "embed",
     .value = "MODEL",
     .help = "run: make vectors of messages by this model, for \"quipu recall --embed\""},
    {.name = "embed-only", .help = "run: observe nothing, only make vectors"},
    {.name = "replace", .help = "run: delete the vectors of other models where these are complete"},
    APP_PROVIDER_OPTIONS("run: "),
    {.name = "follow", .letter = 'f', .help = "run: wait for new messages, until Ctrl-C"},
    {.name = NULL},
};

/* --kind uses the plural. */
const char *memory_kind_name(quipu_memory_kind kind)
{
    return kind == QUIPU_OBSERVATION ? "observation" : "reflection";
}

const char *memory_priority_name(quipu_memory_priority priority)
{
    static const char *const names[] = {"", "standing", "high", "medium", "low", "done"};

    return names[(size_t)priority < sizeof(names) / sizeof(names[0]) ? priority : 0];
}

const char *memory_topic_name(quipu_memory_topic topic)
{
    static const char *const names[] = {"",           "instruction", "preference", "decision",
                                        "commitment", "question",    "person",     "quantity",
                                        "date",       "outcome",     "failure"};

    return names[(size_t)topic < sizeof(names) / sizeof(names[0]) ? topic : 0];
}

/* Whether --kind selects this kind. */
static bool memory_wants(const app_call *call, quipu_memory_kind kind)
{
    const char *given = app_value(call, "kind");

    return given == NULL || strcmp(given, "all") == 0 ||
           strncmp(given, memory_kind_name(kind), strlen(memory_kind_name(kind))) == 0;
}

/* ---- list ------------------------------------------------------------------------------------
 */

/* The state of a memory. */
static void memory_json_changes(app_json *json, const quipu_memory *memory)
{
    char id[QUIPU_UUID_TEXT_SIZE];

    if (memory->has_condensed_into) {
        quipu_uuid_format(memory->condensed_into, id);
        app_json_cstr(json, "condensed_into", id);
    }
    if (memory->has_edited_at) {
        app_json_time(json, "edited_at", memory->edited_at);
    }
    if (memory->edited_by.p != NULL) {
        app_json_text(json, "edited_by", memory->edited_by);
    }
    if (memory->edited_why.p != NULL) {
        app_json_text(json, "edited_why", memory->edited_why);
    }
}

/* An observer's notes beside the text; members without a value are left out. */
static void memory_json_facts(app_json *json, const quipu_memory *memory)
{
    char id[QUIPU_UUID_TEXT_SIZE];

    if (memory->scope.p != NULL) {
        app_json_text(json, "scope", memory->scope);
    }
    if (memory->priority != QUIPU_PRIORITY_NONE) {
        app_json_cstr(json, "priority", memory_priority_name(memory->priority));
    }
    if (memory->topic != QUIPU_TOPIC_NONE) {
        app_json_cstr(json, "topic", memory_topic_name(memory->topic));
    }
    if (memory->subject.p != NULL) {
        app_json_text(json, "subject", memory->subject);
    }
    if (memory->has_said_at) {
        app_json_time(json, "said_at", memory->said_at);
    }
    if (memory->has_about_from) {
        app_json_time(json, "about_from", memory->about_from);
    }
    if (memory->has_about_to) {
        app_json_time(json, "about_to", memory->about_to);
    }
    app_json_int(json, "times", memory->times);
    if (memory->has_supersedes) {
        quipu_uuid_format(memory->supersedes, id);
        app_json_cstr(json, "supersedes", id);
    }
    if (memory->has_retired_at) {
        app_json_time(json, "retired_at", memory->retired_at);
    }
    if (memory->retired_why.p != NULL) {
        app_json_text(json, "retired_why", memory->retired_why);
    }
    if (memory->origin.p != NULL) {
        app_json_text(json, "origin", memory->origin);
    }
    memory_json_changes(json, memory);
}

/* Source messages for observations, the generation for reflections. */
void memory_json_members(app_json *json, const quipu_memory *memory)
{
    char id[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(memory->id, id);
    app_json_cstr(json, "kind", memory_kind_name(memory->kind));
    app_json_cstr(json, "id", id);
    app_json_text(json, "key", memory->session_key);
    app_json_text(json, "content", memory->content);
    app_json_int(json, "tokens", memory->token_count);
    if (memory->kind == QUIPU_OBSERVATION) {
        app_json_int(json, "from", memory->source_start);
        app_json_int(json, "to", memory->source_end);
    } else {
        app_json_int(json, "generation", memory->generation);
        if (memory->source_end > 0) {
            app_json_int(json, "from", memory->source_start);
            app_json_int(json, "to", memory->source_end);
        }
    }
    app_json_time(json, "created_at", memory->created_at);
    memory_json_facts(json, memory);
}

void memory_json(const quipu_memory *memory)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    memory_json_members(&json, memory);
    app_json_close(&json, '}');
}

/* One line of facts, then the text. */
void memory_print(const app_call *call, const quipu_memory *memory)
{
    const bool colours = app_colours(call);
    const bool narrow = app_columns() < MEMORY_LINE_COLUMNS;
    const char *between = narrow ? "\n    " : "";
    char time[QUIPU_TIME_TEXT_SIZE];
    char id[QUIPU_UUID_TEXT_SIZE];

    app_time_text(memory->created_at, time, sizeof(time));
    quipu_uuid_format(memory->id, id);
    printf("%s%s%s  ", app_style(colours, APP_BOLD), memory_kind_name(memory->kind),
           app_style(colours, APP_PLAIN));
    if (memory->kind == QUIPU_REFLECTION) {
        printf("generation %" PRId64 "  ", memory->generation);
    }
    if (memory->source_end > 0) {
        printf("of %" PRId64 " to %" PRId64 "  ", memory->source_start, memory->source_end);
    }
    if (memory->priority != QUIPU_PRIORITY_NONE) {
        printf("%s %s  ", memory_priority_name(memory->priority), memory_topic_name(memory->topic));
    }
    if (memory->times > 1) {
        printf("%" PRId64 " times  ", memory->times);
    }
    printf("%s%s%" PRId64 " tokens  %s%s%s%s\n", between, app_style(colours, APP_DIM),
           memory->token_count, time, narrow ? between : "  ", id, app_style(colours, APP_PLAIN));
    if (memory->has_retired_at) {
        app_time_text(memory->retired_at, time, sizeof(time));
        printf("    retired %s%s", time, memory->retired_why.n > 0 ? ": " : "");
        app_put(stdout, memory->retired_why);
        printf("\n");
    }
    if (memory->has_edited_at) {
        app_time_text(memory->edited_at, time, sizeof(time));
        printf("    changed %s%s", time, memory->edited_by.n > 0 ? " by " : "");
        app_put(stdout, memory->edited_by);
        printf("%s", memory->edited_why.n > 0 ? ": " : "");
        app_put(stdout, memory->edited_why);
        printf("\n");
    }
    app_put_wrapped(stdout, memory->content, "    ", app_columns() - 4);
}

/* --from and --to, of list and clear; --from alone means one message. */
static bool memory_range(const app_call *call, int64_t *ret_from, int64_t *ret_to)
{
    if (!app_number(call, "from", 1, UINT32_MAX, ret_from) ||
        !app_number(call, "to", 1, UINT32_MAX, ret_to)) {
        return false;
    }
    *ret_to = *ret_to == 0 ? *ret_from : *ret_to;
    if (*ret_to < *ret_from || (*ret_from == 0 && *ret_to > 0)) {
        (void)app_usage(call, "--from and --to are the first and the last message");
        return false;
    }
    return true;
}

/* The list is empty: a key without a session is mistyped. */
static int memory_none(const app_call *call, quipu_store *store, quipu_str key)
{
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status = app_session_header(store, key, NULL, &history, &error);

    quipu_free(history);
    if (status == QUIPU_NOT_FOUND) {
        return app_fail_session(call, key, status, &error);
    }
    if (!app_given(call, "json")) {
        app_report(call, "there are no memories of \"%s\"", key.p);
    }
    return APP_OK;
}

/* Reflections first: they summarize the observations. */
static int memory_list(const app_call *call, quipu_store *store)
{
    const quipu_str key = app_argument(call, 1);
    static const quipu_memory_kind kinds[] = {QUIPU_REFLECTION, QUIPU_OBSERVATION};
    const bool json = app_given(call, "json");
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    int64_t last = 0;
    int64_t from = 0;
    int64_t to = 0;
    size_t count = 0;

    if (!app_number(call, "last", 0, INT64_MAX, &last) || !memory_range(call, &from, &to)) {
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
        query.from_seq = from;
        query.to_seq = to;
        query.flags = (app_given(call, "retired") ? QUIPU_MEMORY_FIND_RETIRED : 0) |
                      (app_given(call, "scope") ? QUIPU_MEMORY_FIND_SCOPE : 0);
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
    return count == 0 ? memory_none(call, store, key) : APP_OK;
}

/* ---- add -------------------------------------------------------------------------------------
 */

int memory_text(const app_call *call, char *buffer, quipu_str *ret_text)
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
        app_json_cstr(&json, "kind", memory_kind_name(memory->kind));
        app_json_cstr(&json, "id", text);
        app_json_close(&json, '}');
    } else {
        printf("%s\n", text);
    }
    return APP_OK;
}

/* Whether a key has a session, or may have one later. A key without a session that resembles
 * another's is mistyped: reported, with *ret_code. */
static bool memory_key(const app_call *call, quipu_store *store, quipu_str key, int *ret_code)
{
    quipu_history *history = NULL;
    quipu_error error = {0};
    const quipu_status status = app_session_header(store, key, NULL, &history, &error);
    const bool mistyped = status == QUIPU_NOT_FOUND && app_key_is_near(call, key);

    quipu_free(history);
    if (mistyped) {
        *ret_code = app_fail_session(call, key, status, &error);
    }
    return !mistyped;
}

/* --from without --to means a single message. */
static int memory_add(const app_call *call, quipu_store *store)
{
    const quipu_str key = app_argument(call, 1);
    const char *priority = app_value(call, "priority");
    const quipu_str older = app_text_value(call, "supersedes");
    const bool reflection = app_given(call, "kind") && !memory_wants(call, QUIPU_OBSERVATION);
    quipu_memory memory = {.kind = reflection ? QUIPU_REFLECTION : QUIPU_OBSERVATION,
                           .session_key = key,
                           .subject = app_text_value(call, "subject"),
                           .generation = reflection ? 1 : 0};
    char *buffer;
    int code;

    if (!app_number(call, "from", 1, UINT32_MAX, &memory.source_start) ||
        !app_number(call, "to", 1, UINT32_MAX, &memory.source_end) ||
        !app_number(call, "generation", 1, UINT32_MAX, &memory.generation)) {
        return APP_USAGE;
    }
    memory.has_supersedes = older.p != NULL;
    if (older.p != NULL && quipu_uuid_parse(older, &memory.supersedes) != QUIPU_OK) {
        return app_usage(call, "\"%s\" is no id; \"quipu memory list KEY\" shows ids", older.p);
    }
    if (priority != NULL) {
        memory.priority = (quipu_memory_priority)(app_word_number(MEMORY_PRIORITIES, priority) + 1);
    } else if (!reflection) {
        memory.priority = QUIPU_PRIORITY_STANDING; /* what a person adds is meant to be sent */
    }
    if (memory.source_end == 0) {
        memory.source_end = memory.source_start;
    }
    if (!memory_key(call, store, key, &code)) {
        return code;
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

/* Deletes the kinds that --kind selects, or, with --from, what was made of those messages, after
 * confirmation. */
static int memory_clear(const app_call *call, quipu_store *store)
{
    const quipu_str key = app_argument(call, 1);
    app_json json = {.out = stdout};
    const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    int64_t removed = 0;
    int64_t from = 0;
    int64_t to = 0;
    int code;

    if (!memory_range(call, &from, &to)) {
        return APP_USAGE;
    }
    code = from > 0 ? app_confirm(call,
                                  "delete what is known from the messages %" PRId64 " to %" PRId64
                                  " of \"%s\"",
                                  from, to, key.p)
                    : app_confirm(call, "delete the memories of \"%s\"", key.p);
    if (code != APP_OK) {
        return code;
    }
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == QUIPU_OK; k++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        int64_t count = 0;

        query.kind = kinds[k];
        query.session_key = key;
        query.from_seq = from; /* the first deletion of a range removes both kinds */
        query.to_seq = to;
        if (memory_wants(call, kinds[k]) || from > 0) {
            status = quipu_memory_delete(store, &query, NULL, &count, &error);
            removed += count;
        }
    }
    if (status != QUIPU_OK) {
        return app_fail(call, key.p, status, &error);
    }
    if (removed == 0 && !memory_key(call, store, key, &code)) {
        return code;
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

/* A word: its function, how it opens the store, and which and how many arguments follow it. */
typedef struct memory_word {
    int (*run)(const app_call *call, quipu_store *store);
    app_need need;
    const char *takes;
    int least;
    int most;
} memory_word;

#define MEMORY_WORDS "list add clear show edit retire rm source run status"

/* In the order of MEMORY_WORDS. */
static const memory_word memory_words[] = {
    {memory_list, APP_NEED_READ, "KEY", 1, 1},
    {memory_add, APP_NEED_NEW, "KEY [TEXT]", 1, 2},
    {memory_clear, APP_NEED_WRITE, "KEY", 1, 1},
    {memory_show, APP_NEED_READ, "ID", 1, 1},
    {memory_edit, APP_NEED_WRITE, "ID [TEXT]", 1, 2},
    {memory_retire, APP_NEED_WRITE, "ID [WHY]", 1, 2},
    {memory_rm, APP_NEED_WRITE, "ID", 1, 1},
    {memory_source, APP_NEED_READ, "ID", 1, 1},
    {memory_work, APP_NEED_WRITE, "[KEY]", 0, 1},
    {memory_status, APP_NEED_READ, "[KEY]", 0, 1},
};

/* The first argument chooses the function and how the store is opened. */
static int memory_run(const app_call *call)
{
    const memory_word *word = &memory_words[app_word_number(MEMORY_WORDS, call->arguments[0])];
    quipu_store *store = NULL;
    int code;

    if (call->argument_count - 1 < word->least) {
        app_report(call, "an argument is missing: %.*s", (int)strcspn(word->takes, " "),
                   word->takes);
    } else if (call->argument_count - 1 > word->most) {
        app_report(call, "there are too many arguments, from \"%s\" on",
                   call->arguments[word->most + 1]);
    }
    if (call->argument_count - 1 < word->least || call->argument_count - 1 > word->most) {
        app_report_more(call, "usage: quipu memory %s %s", call->arguments[0], word->takes);
        return APP_USAGE;
    }
    code = app_open(call, word->need, &store);
    if (code == APP_OK) {
        code = word->run(call, store);
        quipu_close(store);
    }
    return code;
}

const app_verb app_verb_memory = {
    .name = "memory",
    .group = APP_GROUP_READ,
    .arguments = "WORD [KEY | ID] [TEXT]",
    .arguments_min = 1,
    .arguments_max = 3,
    .words = MEMORY_WORDS,
    .summary = "list, correct, delete and make the memories of sessions",
    .note = "Words:\n"
            "  list KEY         what is known of a session\n"
            "  add KEY TEXT     save an observation; - reads it from stdin\n"
            "  clear KEY        delete all memories of a session\n"
            "  show ID          one memory\n"
            "  edit ID [TEXT]   correct it; - reads the text from stdin\n"
            "  retire ID [WHY]  keep it out of prompts; it stays in the history\n"
            "  rm ID            delete it\n"
            "  source ID        the messages that it was made of\n"
            "  run [KEY]        observe what is due, and make vectors\n"
            "  status [KEY]     how far sessions are observed"
            "\n"
            "\n"
            "Examples:\n"
            "  quipu memory add notes 'Ana prefers trains.'\n"
            "  quipu memory list notes --json",
    .common = APP_READS | APP_YES,
    .options = memory_options,
    .run = memory_run,
};
