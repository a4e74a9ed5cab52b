/* Commands of a chat (chat_command.h). Reports go to stderr, where the prompt stands: stdout has
 * the answers only. A command that fails changes nothing, and the chat goes on.
 *
 * Owns: nothing. Called by: cmd_chat.c between turns, on the main thread. Locks: none. */
#include "chat_command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "export_as.h"
#include "output.h"
#include "text.h"

#define COMMAND_KEYS_MAX 1000 /* keys that are tried for a fork */

/* A text with its NUL in the chat's arena; absent without memory, which is reported. */
static quipu_str command_keep(app_chat_state *state, quipu_str text)
{
    quipu_str kept = {NULL, 0};

    if (quipu_arena_copy(state->arena, text, &kept) != QUIPU_OK) {
        app_report(state->call, "out of memory");
        kept = (quipu_str){NULL, 0};
    }
    return kept;
}

/* ---- forks -----------------------------------------------------------------------------------
 */

/* Goes on in a fork at `seq`, under the given key, or under the session's with a number. */
static void command_fork(app_chat_state *state, int64_t seq, quipu_str wanted)
{
    char key[QUIPU_KEY_MAX + 1];
    quipu_error error = {0};
    quipu_status status = QUIPU_EXISTS;

    for (int number = 2; status == QUIPU_EXISTS && number < COMMAND_KEYS_MAX; number++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        const int n = wanted.n > 0 ? snprintf(key, sizeof(key), "%s", wanted.p)
                                   : snprintf(key, sizeof(key), "%s~%d", state->key.p, number);

        if (n < 0 || n >= (int)sizeof(key)) {
            app_report(state->call, "the key would have more than %d bytes", QUIPU_KEY_MAX);
            return;
        }
        values.key = quipu_cstr(key);
        status = quipu_session_fork(state->store, state->key, seq, &values, NULL, NULL, &error);
        if (wanted.n > 0) {
            break;
        }
    }
    if (status != QUIPU_OK) {
        (void)app_fail(state->call, key, status, &error);
        return;
    }
    const quipu_str kept = command_keep(state, quipu_cstr(key));

    state->key = kept.n > 0 ? kept : state->key;
    if (seq == 0) {
        app_report(state->call, "the chat goes on in \"%s\", which is empty", key);
    } else {
        app_report(state->call, "the chat goes on in \"%s\", which has messages 1 to %" PRId64, key,
                   seq);
    }
}

/* The newest message, or the user's newest; 0 when there is none. False: reported. */
static bool command_newest(app_chat_state *state, bool user, int64_t *ret_seq)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status;

    range.flags = user ? 0 : QUIPU_RANGE_LAST;
    range.limit = user ? 0 : 1;
    status = quipu_session_get(state->store, state->key, &range, NULL, &history, &error);
    if (status != QUIPU_OK) {
        (void)app_fail_session(state->call, state->key, status, &error);
        return false;
    }
    *ret_seq = 0;
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        if (!user || message->role == QUIPU_ROLE_USER) {
            *ret_seq = message->seq;
        }
    }
    quipu_free(history);
    return true;
}

static void command_fork_here(app_chat_state *state, quipu_str key)
{
    int64_t seq = 0;

    if (!command_newest(state, false, &seq)) {
        return;
    }
    if (seq == 0) {
        app_report(state->call, "there is no message to fork at yet");
        return;
    }
    command_fork(state, seq, key);
}

/* The session stays as it is: the chat goes on in a fork that ends before the last question. */
static void command_undo(app_chat_state *state)
{
    int64_t seq = 0;

    if (!command_newest(state, true, &seq)) {
        return;
    }
    if (seq == 0) {
        app_report(state->call, "there is no question to undo yet");
        return;
    }
    command_fork(state, seq - 1, (quipu_str){NULL, 0});
}

/* ---- model, memory, files --------------------------------------------------------------------
 */

static void command_model(app_chat_state *state, quipu_str name)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_error error = {0};
    quipu_status status;
    quipu_str kept;

    if (name.n == 0) {
        app_report(state->call, "the model is %s", state->model.p);
        return;
    }
    kept = command_keep(state, name);
    patch.set = QUIPU_SET_MODEL;
    patch.model = kept;
    status = kept.n > 0 ? quipu_session_update(state->store, state->key, &patch, NULL, NULL, &error)
                        : QUIPU_NOMEM;
    if (status != QUIPU_OK) {
        (void)app_fail_session(state->call, state->key, status, &error);
        return;
    }
    state->model = kept;
    app_report(state->call, "the model is now %s", kept.p);
}

static void command_memory(app_chat_state *state)
{
    static const quipu_memory_kind kinds[] = {QUIPU_REFLECTION, QUIPU_OBSERVATION};
    size_t shown = 0;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;
        quipu_error error = {0};
        quipu_status status;

        query.kind = kinds[k];
        query.session_key = state->key;
        query.flags = QUIPU_MEMORY_FIND_SCOPE;
        status = quipu_memory_find(state->store, &query, NULL, &list, &error);
        if (status != QUIPU_OK) {
            (void)app_fail(state->call, "the memory", status, &error);
            return;
        }
        for (size_t i = 0; i < list->memories.count; i++, shown++) {
            fputs("- ", stderr);
            app_put_cut(stderr, quipu_memory_at(list->memories, i)->content, app_columns() - 2);
            fputc('\n', stderr);
        }
        quipu_free(list);
    }
    if (shown == 0) {
        app_report(state->call, "nothing is remembered; --observe writes down what is said");
    }
}

static void command_tools(app_chat_state *state)
{
    for (size_t i = 0; i < state->tools->count; i++) {
        const quipu_tool *tool = &state->tools->offered[i];

        fputs("- ", stderr);
        app_put(stderr, tool->name);
        fputs(": ", stderr);
        app_put_cut(stderr, tool->description, app_columns() - (int)tool->name.n - 4);
        fputc('\n', stderr);
    }
    if (state->tools->count == 0) {
        app_report(state->call, "there are no tools; --tool, --mcp and --tools declare some");
    }
}

/* A path as people write it: "~/" is their folder, as in a shell. Absent: no path was given, or
 * memory is used up, which is reported. */
static quipu_str command_path(app_chat_state *state, quipu_str given)
{
    const char *home = getenv("HOME");
    char path[APP_PATH_MAX];
    int n;

    if (given.n < 2 || given.p[0] != '~' || given.p[1] != '/' || home == NULL) {
        return given.n > 0 ? command_keep(state, given) : given;
    }
    n = snprintf(path, sizeof(path), "%s%.*s", home, (int)(given.n - 1), given.p + 1);
    return n < (int)sizeof(path) ? command_keep(state, quipu_cstr(path))
                                 : command_keep(state, given);
}

/* The session as Markdown; a file that exists is not replaced. */
static void command_save(app_chat_state *state, quipu_str given)
{
    const quipu_str path = command_path(state, given);
    app_output output;
    quipu_error error = {0};
    quipu_status status;

    if (path.n == 0) {
        app_report(state->call, "name a file: /save trip.md");
        return;
    }
    if (app_output_begin(state->call, path.p, false, &output) != APP_OK ||
        app_output_open(state->call, &output) != APP_OK) {
        return;
    }
    status = app_export_as(state->store, state->key, "markdown", output.file, NULL, &error);
    if (status != QUIPU_OK) {
        app_output_drop(&output);
        (void)app_fail_session(state->call, state->key, status, &error);
    } else if (app_output_keep(state->call, &output) == APP_OK) {
        app_report(state->call, "saved to %s", path.p);
    }
}

/* The type by the suffix; NULL: a text, or nothing that can be sent. */
static const char *command_mime(quipu_str path)
{
    static const char *const types[][2] = {
        {".png", "image/png"}, {".jpg", "image/jpeg"},  {".jpeg", "image/jpeg"},
        {".gif", "image/gif"}, {".webp", "image/webp"}, {".pdf", "application/pdf"},
        {".wav", "audio/wav"}, {".mp3", "audio/mpeg"},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const size_t n = strlen(types[i][0]);

        if (path.n > n && strncasecmp(path.p + path.n - n, types[i][0], n) == 0) {
            return types[i][1];
        }
    }
    return NULL;
}

/* The bytes of a file in the arena. False: reported. */
static bool command_read(app_chat_state *state, quipu_str path, quipu_bytes *ret_bytes)
{
    FILE *file = fopen(path.p, "rb");
    const int64_t size = file != NULL ? app_input_bytes(file) : 0;
    char *bytes = NULL;
    size_t n = 0;

    if (file == NULL) {
        (void)app_fail_errno(state->call, path.p);
        return false;
    }
    if (size <= 0 || size > APP_CHAT_FILE_MAX) {
        app_report(state->call, "%s: a file has 1 to %" PRId64 " bytes", path.p, APP_CHAT_FILE_MAX);
    } else {
        bytes = quipu_arena_alloc(state->arena, (size_t)size);
        n = bytes != NULL ? fread(bytes, 1, (size_t)size, file) : 0;
        if (n != (size_t)size) {
            app_report(state->call, "%s could not be read", path.p);
        }
    }
    (void)fclose(file);
    *ret_bytes = (quipu_bytes){bytes, n};
    return n > 0 && n == (size_t)size;
}

static void command_file(app_chat_state *state, quipu_str given)
{
    const quipu_str path = command_path(state, given);
    const char *mime = command_mime(path);
    quipu_part part = {.kind = QUIPU_PART_DATA};

    if (path.n == 0) {
        app_report(state->call, "name a file: /file photo.png; text, images, sound and PDF are "
                                "sent");
        return;
    }
    if (state->file_count == APP_CHAT_FILES_MAX) {
        app_report(state->call, "at most %d files go with a message", APP_CHAT_FILES_MAX);
        return;
    }
    if (!command_read(state, path, &part.data)) {
        return;
    }
    if (mime == NULL) {
        part.kind = QUIPU_PART_TEXT;
        part.text = (quipu_str){part.data.p, part.data.n};
        part.data = (quipu_bytes){NULL, 0};
        if (!app_is_utf8(part.text) || memchr(part.text.p, '\0', part.text.n) != NULL) {
            app_report(state->call,
                       "%s is not UTF-8 text, and its suffix names no image, sound or PDF", path.p);
            return;
        }
    } else {
        part.mime = quipu_cstr(mime);
    }
    state->files[state->file_count++] = part;
    app_report(state->call, "%s goes with the next message", path.p);
}

/* ---- the table -------------------------------------------------------------------------------
 */

static void command_help(app_chat_state *state)
{
    static const char *const lines[] = {
        "/help            this list",
        "/fork [KEY]      go on in a fork; the session stays as it is",
        "/undo            go on before the last question, in a fork",
        "/model [NAME]    show or change the model",
        "/file PATH       send a text, an image, sound or a PDF with the next message",
        "/memory          what is remembered",
        "/tools           what the model may call",
        "/save FILE       write the conversation as Markdown",
        "/quit            end the chat, as Ctrl-D does",
        "//text           send a message that begins with a slash",
    };

    app_report(state->call, "commands:");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        app_report_more(state->call, "%s", lines[i]);
    }
}

bool app_chat_command(app_chat_state *state, quipu_str line, quipu_str *ret_said)
{
    static const char names[] = "help fork undo model file memory tools save quit";
    char word[APP_NUMBER_SIZE] = "";
    quipu_str rest = {"", 0};
    size_t n = 1;

    *ret_said = line;
    if (line.n == 0 || line.p[0] != '/') {
        return true;
    }
    if (line.n > 1 && line.p[1] == '/') {
        *ret_said = (quipu_str){line.p + 1, line.n - 1};
        return true;
    }
    while (n < line.n && line.p[n] != ' ' && n < sizeof(word)) {
        word[n - 1] = line.p[n];
        n++;
    }
    word[n - 1] = '\0';
    while (n < line.n && line.p[n] == ' ') {
        n++;
    }
    if (n < line.n) {
        rest = command_keep(state, (quipu_str){line.p + n, line.n - n});
    }
    if (rest.n > 0 && app_word_number("help undo memory tools quit", word) >= 0) {
        app_report(state->call, "/%s takes nothing behind it; //%s sends it as a message", word,
                   word);
        return false;
    }
    switch (app_word_number(names, word)) {
    case 0:
        command_help(state);
        break;
    case 1:
        command_fork_here(state, rest);
        break;
    case 2:
        command_undo(state);
        break;
    case 3:
        command_model(state, rest);
        break;
    case 4:
        command_file(state, rest);
        break;
    case 5:
        command_memory(state);
        break;
    case 6:
        command_tools(state);
        break;
    case 7:
        command_save(state, rest);
        break;
    case 8:
        state->ended = true;
        break;
    default:
        app_report(state->call, "there is no command \"/%s\"; /help lists them, //text sends it",
                   word);
        break;
    }
    return false;
}
