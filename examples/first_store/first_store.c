/* first_store: several agents talk with a user; the store is closed and reopened in the middle;
 * then everything is read back, and the program fails unless it equals what was written. It ends
 * with the tools for long conversations: the window of the next prompt, a search, a fork. usage:
 * first_store [folder]        without a folder: a temporary one, deleted at the end */
#include <inttypes.h>
#include <quipu/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 1024
#define WRAP_COLUMNS 74 /* of people's text, right of the margin */
#define MARGIN 5        /* where it begins */
#define BUDGET 60       /* tokens of the prompt's window */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- input ----------------------------------------------------------------------------------- */

static const quipu_str key = {"trip-to-cusco", 13};
static const quipu_str fork_key = {"trip-to-cusco/by-bus", 20};

static const quipu_tool_call ask_trains = {
    .id = {"call_1", 6},
    .name = {"find_trains", 11},
    .input = {"{\"from\":\"Ollantaytambo\",\"day\":\"2026-03-21\"}", 43}};
static const quipu_tool_call trains = {
    .id = {"call_1", 6},
    .name = {"find_trains", 11},
    .output = {"[{\"leaves\":\"06:10\",\"seats\":12},{\"leaves\":\"07:45\",\"seats\":0}]", 60}};

typedef struct line {
    quipu_role role;
    const char *author;
    const char *content;
    const quipu_tool_call *call;
} line;

static const line conversation[] = {
    {QUIPU_ROLE_USER, "ana", "We have two days in Cusco. Is Machu Picchu possible by train?", NULL},
    {QUIPU_ROLE_ASSISTANT, "planner", "I will ask for trains on Saturday.", &ask_trains},
    {QUIPU_ROLE_TOOL, "find_trains", "one train with seats", &trains},
    {QUIPU_ROLE_ASSISTANT, "researcher",
     "Only the 06:10 has seats left: twelve. From Cusco that means a taxi at four in the morning, "
     "or a night in Ollantaytambo.",
     NULL},
    {QUIPU_ROLE_ASSISTANT, "planner",
     "Yes, it is. Friday: Cusco, then the evening bus to Ollantaytambo. Saturday: the 06:10, the "
     "ruins by nine, back in Cusco at eight. Shall I hold three seats?",
     NULL},
    {QUIPU_ROLE_USER, "ana", "¡Sí, por favor! Three seats.", NULL},
    {QUIPU_ROLE_ASSISTANT, "planner", "Held: three seats on the 06:10.", NULL},
};

#define RESTART_AT 4 /* messages before the store is closed and opened again */

static quipu_message first_message(size_t number)
{
    const line *in = &conversation[number];

    return (quipu_message){.role = in->role,
                           .author = quipu_cstr(in->author),
                           .content = quipu_cstr(in->content),
                           .calls = quipu_tool_calls_of(in->call, in->call != NULL ? 1 : 0)};
}

static quipu_status first_append(quipu_store *store, size_t from, size_t to, quipu_error *err)
{
    quipu_message messages[COUNT_OF(conversation)];

    for (size_t i = from; i < to; i++) {
        messages[i - from] = first_message(i);
    }
    return quipu_message_append(store, key, quipu_messages_of(messages, to - from), NULL, NULL,
                                NULL, err);
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The bytes of the next line of `text`: at most `columns` characters, broken at a space. */
static size_t first_line_bytes(const char *text, size_t columns)
{
    size_t bytes = 0;
    size_t space = 0;

    for (size_t column = 0; text[bytes] != '\0'; bytes++) {
        /* Bytes that continue a UTF-8 character take no column. */
        column += ((unsigned char)text[bytes] & 0xc0u) != 0x80u;
        if (column > columns) {
            return space > 0 ? space : bytes;
        }
        if (text[bytes] == ' ') {
            space = bytes;
        }
    }
    return bytes;
}

/* Text under the margin, as many lines as it needs. */
static void first_print_wrapped(const char *text)
{
    while (*text != '\0') {
        size_t bytes = first_line_bytes(text, WRAP_COLUMNS);
        printf("%*s%.*s\n", MARGIN, "", (int)bytes, text);
        text += bytes;
        text += strspn(text, " ");
    }
}

static const char *first_role(quipu_role role)
{
    static const char *const names[] = {"",         "user",  "assistant", "tool",
                                        "function", "model", "system"};

    return names[role];
}

static void first_print_message(const quipu_message *message)
{
    printf("%3" PRId64 "  %-11s %-9s %3" PRId64 " tokens\n", message->seq, message->author.p,
           first_role(message->role), message->tokens);
    first_print_wrapped(message->content.p);
    for (size_t i = 0; i < message->calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);
        bool answer = call->output.p != NULL;
        printf("%*s%s %s %s\n", MARGIN, "", call->name.p, answer ? "<-" : "->",
               answer ? call->output.p : call->input.p);
    }
}

/* ---- comparison ------------------------------------------------------------------------------ */

static bool first_same_call(const quipu_message *got, const quipu_tool_call *call)
{
    if (call == NULL) {
        return got->calls.count == 0;
    }
    return got->calls.count == 1 && quipu_str_eq(quipu_tool_call_at(got->calls, 0)->id, call->id) &&
           quipu_str_eq(quipu_tool_call_at(got->calls, 0)->name, call->name) &&
           (call->output.p == NULL ||
            quipu_str_eq(quipu_tool_call_at(got->calls, 0)->output, call->output)) &&
           (call->input.p == NULL ||
            quipu_str_eq(quipu_tool_call_at(got->calls, 0)->input, call->input));
}

/* Whether the messages equal the conversation, in order, numbered without gaps. */
static bool first_same(const quipu_history *got)
{
    bool same = got->messages.count == COUNT_OF(conversation);

    for (size_t i = 0; same && i < got->messages.count; i++) {
        const quipu_message *message = quipu_message_at(got->messages, i);
        const line *in = &conversation[i];
        same = message->seq == (int64_t)i + 1 && message->role == in->role &&
               quipu_str_eq(message->author, quipu_cstr(in->author)) &&
               quipu_str_eq(message->content, quipu_cstr(in->content)) &&
               first_same_call(message, in->call);
        if (!same) {
            fprintf(stderr, "first_store: message %zu came back different\n", i + 1);
        }
    }
    return same;
}

static quipu_status first_read(quipu_store *store, bool *ret_same, quipu_error *err)
{
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, key, NULL, NULL, &history, err);

    if (status == QUIPU_OK) {
        printf("\n%s: %" PRId64 " messages, about %" PRId64 " tokens\n\n", history->session->key.p,
               history->session->message_count, history->session->token_count);
        for (size_t i = 0; i < history->messages.count; i++) {
            first_print_message(quipu_message_at(history->messages, i));
        }
        *ret_same = first_same(history);
    }
    quipu_free(history);
    return status;
}

/* The newest whole turns within the budget: the contents of the next prompt. */
static quipu_status first_window(quipu_store *store, quipu_error *err)
{
    quipu_window *window = NULL;
    quipu_status status = quipu_window_get(store, key.p, BUDGET, &window, err);

    if (status == QUIPU_OK) {
        const quipu_messages messages = window->messages;

        printf("\nwindow    %d tokens hold messages %" PRId64 " to %" PRId64 ", %" PRId64
               " tokens: whole turns only\n",
               BUDGET, quipu_message_at(messages, 0)->seq,
               quipu_message_at(messages, messages.count - 1)->seq, window->tokens);
    }
    quipu_free(window);
    return status;
}

static quipu_status first_search(quipu_store *store, quipu_error *err)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;

    options.query = QUIPU_STR("seats held");
    quipu_status status = quipu_search(store, &options, NULL, &results, err);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        printf("search    \"seats held\": message %" PRId64 ", %s\n",
               quipu_search_hit_at(results->hits, i)->seq,
               quipu_search_hit_at(results->hits, i)->snippet.p);
    }
    quipu_free(results);
    return status;
}

/* A fork at message 5: the history is shared, not copied. */
static quipu_status first_fork(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_message other = {.role = QUIPU_ROLE_USER,
                           .author = QUIPU_STR("ana"),
                           .content = QUIPU_STR("And if we went by bus?")};
    quipu_appended appended = QUIPU_APPENDED_INIT;

    values.key = fork_key;
    quipu_status status = quipu_session_fork(store, key, 5, &values, NULL, NULL, err);
    if (status == QUIPU_OK) {
        status = quipu_message_append(store, fork_key, quipu_messages_of(&other, 1), NULL, NULL,
                                      &appended, err);
    }
    if (status == QUIPU_OK) {
        printf("fork      %s shares messages 1 to 5 and goes on with number %" PRId64 "\n",
               fork_key.p, appended.first_seq);
    }
    return status;
}

/* ---- the program ----------------------------------------------------------------------------- */

static quipu_status first_begin(const char *path, quipu_error *err)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *store = NULL;
    quipu_status status = quipu_open(path, NULL, &store, err);

    values.key = key;
    if (status == QUIPU_OK) {
        status = quipu_session_create(store, &values, NULL, NULL, err);
    }
    if (status == QUIPU_OK) {
        status = first_append(store, 0, RESTART_AT, err);
    }
    if (status == QUIPU_OK) {
        printf("made      %s with %d messages, closed it\n", path, RESTART_AT);
    }
    quipu_close(store);
    return status;
}

static quipu_status first_go_on(const char *path, bool *ret_same, quipu_error *err)
{
    quipu_store *store = NULL;
    quipu_status status = quipu_open(path, NULL, &store, err);

    if (status == QUIPU_OK) {
        status = first_append(store, RESTART_AT, COUNT_OF(conversation), err);
    }
    if (status == QUIPU_OK) {
        printf("reopened  went on with message %d; all writes are on the disk\n", RESTART_AT + 1);
        status = first_read(store, ret_same, err);
    }
    if (status == QUIPU_OK) {
        status = first_window(store, err);
    }
    if (status == QUIPU_OK) {
        status = first_search(store, err);
    }
    if (status == QUIPU_OK) {
        status = first_fork(store, err);
    }
    quipu_close(store);
    return status;
}

static void first_print_end(const char *path, bool kept)
{
    struct stat info;

    if (stat(path, &info) == 0) {
        printf("\nAll of it came back as it went in. The file weighs %" PRIdMAX " KiB.\n",
               (intmax_t)info.st_size / 1024);
    }
    printf("\nTo try next:\n");
    if (kept) {
        printf("  sqlite3 -readonly %s .schema    what is in the file\n", path);
    } else {
        printf("  build/release/bin/first_store my-folder    keeps the file\n");
    }
    printf("  include/quipu/store.h    what else the store does\n"
           "  examples/notes    entities of your own, with entgen\n");
}

/* Deletes the store and its folder; missing files are ignored. */
static void first_remove(const char *folder)
{
    static const char *const names[] = {"store.db", "store.db-wal", "store.db-shm"};
    char path[PATH_SIZE];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < (int)sizeof(path)) {
            unlink(path);
        }
    }
    rmdir(folder);
}

static int first_run(const char *folder, bool kept)
{
    char path[PATH_SIZE];
    quipu_error err = {0};
    bool same = false;

    if (snprintf(path, sizeof(path), "%s/store.db", folder) >= (int)sizeof(path)) {
        fprintf(stderr, "first_store: the folder's name is too long\n");
        return 1;
    }
    quipu_status status = first_begin(path, &err);
    if (status == QUIPU_OK) {
        status = first_go_on(path, &same, &err);
    }
    if (status != QUIPU_OK) {
        fprintf(stderr, "first_store: %s\n", err.message);
        return 1;
    }
    if (same) {
        first_print_end(path, kept);
    }
    return same ? 0 : 1;
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/first_store.XXXXXX";

    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        printf("usage: first_store [folder]\n"
               "Writes a conversation to a new store in the folder and shows what came back.\n");
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    if (argc == 2) {
        if (mkdir(argv[1], 0700) != 0) {
            perror(argv[1]);
            return 1;
        }
        return first_run(argv[1], true);
    }
    if (mkdtemp(temporary) == NULL) {
        perror("first_store: a temporary folder");
        return 1;
    }
    int code = first_run(temporary, false);
    first_remove(temporary);
    return code;
}
