/* Conversations of other programs (foreign.h): the file, what its kind is, and the way into a
 * store.
 *
 *   file ─▶ lines ─▶ reader of the kind ─▶ events ─▶ checked ─▶ sessions, one by one
 *
 * Owns: the file's text and the sessions read. Called by: cmd_import.c, on one thread.
 * Everything is read and checked before the first write, so that a wrong file changes nothing.
 * A session is stored in transactions of APP_FOREIGN_BATCH messages; what a kill interrupts is
 * completed by the next run, which knows its sessions by the member "imported" of their
 * metadata and adds what they lack. */
#include "foreign.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/adk.h>

#include "text.h"

#define FOREIGN_READ_FIRST 65536
#define FOREIGN_DETECT_LINES 64 /* lines that decide the kind */
#define FOREIGN_ID_MAX 256      /* bytes of a session's id in its key */

/* ---- reading ---------------------------------------------------------------------------------
 */

void app_foreign_fail(app_foreign *foreign, const char *format, ...)
{
    char text[APP_MESSAGE_MAX];
    va_list arguments;

    if (foreign->failed) {
        return;
    }
    foreign->failed = true;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (foreign->line > 0) {
        app_report(foreign->call, "%s, %s %" PRId64 ": %s; nothing was imported", foreign->path,
                   foreign->root != NULL ? "entry" : "line", foreign->line, text);
    } else {
        app_report(foreign->call, "%s: %s; nothing was imported", foreign->path, text);
    }
}

/* The whole file, without the mark that some programs of Windows begin it with; false: reported. */
static bool foreign_slurp(app_foreign *foreign, FILE *file, quipu_str head)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t room = FOREIGN_READ_FIRST + head.n;
    char *text = malloc(room);
    size_t n = 0;

    if (text != NULL && head.n > 0) {
        memcpy(text, head.p, n = head.n);
    }
    while (text != NULL) {
        const size_t got = fread(text + n, 1, room - n, file);

        n += got;
        if (got == 0) {
            break;
        }
        if ((int64_t)n > APP_FOREIGN_FILE_MAX) {
            app_foreign_fail(foreign, "the file has more than %" PRId64 " bytes",
                             APP_FOREIGN_FILE_MAX);
            break;
        }
        if (n == room) {
            char *more = realloc(text, room *= 2);

            if (more == NULL) {
                free(text);
            }
            text = more;
        }
    }
    if (text == NULL) {
        app_foreign_fail(foreign, "out of memory");
        return false;
    }
    if (n >= sizeof(mark) - 1 && memcmp(text, mark, sizeof(mark) - 1) == 0) {
        n -= sizeof(mark) - 1;
        memmove(text, text + sizeof(mark) - 1, n);
    }
    foreign->text = (quipu_str){text, n};
    if (ferror(file)) {
        (void)app_fail_errno(foreign->call, foreign->path);
        foreign->failed = true;
    }
    return !foreign->failed;
}

/* The next line; false at the end. */
static bool foreign_line(const app_foreign *foreign, size_t *at, quipu_str *ret_line)
{
    const char *p = foreign->text.p + *at;
    const size_t left = foreign->text.n - *at;
    const char *end = left > 0 ? memchr(p, '\n', left) : NULL;

    if (left == 0) {
        return false;
    }
    *ret_line = (quipu_str){p, end != NULL ? (size_t)(end - p) : left};
    *at += ret_line->n + (end != NULL ? 1 : 0);
    return true;
}

/* One line as a tree; NULL: a blank line, or reported. */
static const app_tree *foreign_parse(app_foreign *foreign, quipu_str line, bool last)
{
    const app_tree *tree = NULL;
    quipu_status status;

    quipu_arena_reset(&foreign->scratch);
    if (app_is_blank(line)) {
        return NULL;
    }
    if (line.n > APP_FOREIGN_LINE_MAX) {
        app_foreign_fail(foreign, "it has %zu bytes, and at most %d are read", line.n,
                         APP_FOREIGN_LINE_MAX);
        return NULL;
    }
    status = app_tree_read(line, &foreign->scratch, &tree);
    if (status == QUIPU_INVALID && last) {
        app_foreign_fail(foreign, "it is not JSON: the file seems to be cut off here");
    } else if (status != QUIPU_OK) {
        app_foreign_fail(foreign, "%s",
                         status == QUIPU_INVALID ? "it is not JSON" : quipu_status_text(status));
    } else if (tree->kind != APP_TREE_OBJECT) {
        app_foreign_fail(foreign, "it is not a JSON object");
    }
    return foreign->failed ? NULL : tree;
}

/* The kind that a line shows; NONE: it may be of any. */
static app_foreign_kind foreign_kind_of(const app_tree *line)
{
    const quipu_str type = app_tree_text(line, "type");

    if (app_tree_get(line, "mapping") != NULL) {
        return APP_FOREIGN_CHATGPT;
    }
    if (app_tree_get(line, "payload") != NULL && (quipu_str_eq(type, QUIPU_STR("session_meta")) ||
                                                  quipu_str_eq(type, QUIPU_STR("response_item")) ||
                                                  quipu_str_eq(type, QUIPU_STR("event_msg")) ||
                                                  quipu_str_eq(type, QUIPU_STR("turn_context")))) {
        return APP_FOREIGN_CODEX;
    }
    if (app_tree_text(line, "sessionId").n > 0 && app_tree_text(line, "uuid").n > 0) {
        return APP_FOREIGN_CLAUDE_CODE;
    }
    if (app_tree_get(line, "role") != NULL && app_tree_get(line, "content") != NULL) {
        return APP_FOREIGN_CHAT;
    }
    return app_tree_get(line, "messages") != NULL ? APP_FOREIGN_CHAT : APP_FOREIGN_NONE;
}

/* Reads a file that is one value, over any number of lines: a list, or a text that does not begin
 * with an object on a line of its own. Other files stay JSON Lines, whose errors name the line. */
static void foreign_read_root(app_foreign *foreign)
{
    const app_tree *root = NULL;
    size_t at = 0;
    quipu_str line = {NULL, 0};

    while (foreign_line(foreign, &at, &line) && app_is_blank(line)) {
    }
    quipu_arena_reset(&foreign->scratch);
    if (line.n > APP_FOREIGN_LINE_MAX ||
        (app_tree_read(line, &foreign->scratch, &root) == QUIPU_OK &&
         root->kind == APP_TREE_OBJECT)) {
        return;
    }
    if (app_tree_read(foreign->text, &foreign->arena, &root) == QUIPU_OK &&
        (root->kind == APP_TREE_ARRAY || root->kind == APP_TREE_OBJECT)) {
        foreign->root = root;
    }
}

/* The kind of an empty list, or of one that is cut off: ChatGPT's export is the only file that a
 * program writes as a list. */
static bool foreign_is_list(const app_foreign *foreign)
{
    size_t at = 0;

    while (at < foreign->text.n && strchr(" \t\r\n", foreign->text.p[at]) != NULL) {
        at++;
    }
    return at < foreign->text.n && foreign->text.p[at] == '[' &&
           (foreign->root == NULL || foreign->root->count == 0);
}

/* By the first lines, or entries of the list, that say it. */
static app_foreign_kind foreign_detect(app_foreign *foreign)
{
    const app_tree *root = foreign->root;
    const app_tree *entry = root != NULL && root->kind == APP_TREE_ARRAY ? root->first : root;
    app_foreign_kind kind = APP_FOREIGN_NONE;
    size_t at = 0;
    quipu_str line;

    if (foreign->map != NULL) {
        return APP_FOREIGN_CHAT;
    }
    if (foreign_is_list(foreign)) {
        return APP_FOREIGN_CHATGPT;
    }
    for (int i = 0; i < FOREIGN_DETECT_LINES && kind == APP_FOREIGN_NONE && entry != NULL; i++) {
        kind = foreign_kind_of(entry);
        entry = entry->next;
    }
    for (int i = 0; i < FOREIGN_DETECT_LINES && root == NULL && kind == APP_FOREIGN_NONE &&
                    foreign_line(foreign, &at, &line);
         i++) {
        const app_tree *tree = NULL;

        quipu_arena_reset(&foreign->scratch);
        if (line.n <= APP_FOREIGN_LINE_MAX &&
            app_tree_read(line, &foreign->scratch, &tree) == QUIPU_OK) {
            kind = foreign_kind_of(tree);
        }
    }
    return kind;
}

/* One line, or one entry of a list. */
static void foreign_read_entry(app_foreign *foreign, const app_tree *tree)
{
    if (foreign->kind == APP_FOREIGN_CLAUDE_CODE) {
        app_foreign_claude_line(foreign, tree);
    } else if (foreign->kind == APP_FOREIGN_CODEX) {
        app_foreign_codex_line(foreign, tree);
    } else {
        app_foreign_chat_line(foreign, tree);
    }
}

static const char *foreign_name(app_foreign_kind kind)
{
    static const char *const names[] = {"claude-code", "codex", "chatgpt", "chat"};

    return names[kind];
}

/* Lines, one by one. */
static void foreign_read_lines(app_foreign *foreign)
{
    size_t at = 0;
    quipu_str line;

    for (foreign->line = 1; !foreign->failed && foreign_line(foreign, &at, &line);
         foreign->line++) {
        const app_tree *tree = foreign_parse(foreign, line, at == foreign->text.n);

        if (tree != NULL) {
            foreign_read_entry(foreign, tree);
        }
    }
    foreign->line = 0;
}

/* The entries of a list, or one object. */
static void foreign_read_list(app_foreign *foreign)
{
    const app_tree *root = foreign->root;
    const app_tree *entry = root->kind == APP_TREE_ARRAY ? root->first : root;

    for (foreign->line = 1; !foreign->failed && entry != NULL; entry = entry->next) {
        if (entry->kind == APP_TREE_OBJECT) {
            foreign_read_entry(foreign, entry);
        } else {
            app_foreign_fail(foreign, "it is not a JSON object");
        }
        foreign->line++;
    }
    foreign->line = 0;
}

/* ChatGPT's conversations: one value. */
static void foreign_read_chatgpt(app_foreign *foreign)
{
    const quipu_status status = foreign->root != NULL
                                    ? QUIPU_OK
                                    : app_tree_read(foreign->text, &foreign->arena, &foreign->root);

    if (status == QUIPU_OK) {
        app_foreign_chatgpt(foreign, foreign->root);
    } else {
        app_foreign_fail(foreign, "%s",
                         status == QUIPU_INVALID ? "it is not JSON, or is cut off"
                                                 : quipu_status_text(status));
    }
}

int app_foreign_read(const app_call *call, FILE *file, quipu_str head, const char *path,
                     app_foreign_kind wanted, app_foreign *ret_foreign)
{
    app_foreign *foreign = ret_foreign;

    *foreign = (app_foreign){.call = call,
                             .path = path,
                             .kind = wanted,
                             .arena = QUIPU_ARENA_INIT,
                             .scratch = QUIPU_ARENA_INIT,
                             .map = app_value(call, "map")};
    if (!foreign_slurp(foreign, file, head)) {
        return APP_FAILURE;
    }
    foreign_read_root(foreign);
    foreign->kind = foreign_detect(foreign);
    if (wanted != APP_FOREIGN_NONE && foreign->kind != APP_FOREIGN_NONE &&
        foreign->kind != wanted) {
        app_foreign_fail(foreign, "it is %s, not %s", foreign_name(foreign->kind),
                         foreign_name(wanted));
        return APP_FAILURE;
    }
    foreign->kind = wanted != APP_FOREIGN_NONE ? wanted : foreign->kind;
    if (foreign->kind == APP_FOREIGN_CHATGPT) {
        foreign_read_chatgpt(foreign);
    } else if (foreign->kind != APP_FOREIGN_NONE && foreign->root != NULL) {
        foreign_read_list(foreign);
    } else if (foreign->kind != APP_FOREIGN_NONE) {
        foreign_read_lines(foreign);
    }
    return foreign->failed ? APP_FAILURE : APP_OK;
}

void app_foreign_free(app_foreign *foreign)
{
    for (size_t i = 0; i < foreign->session_count; i++) {
        free(foreign->sessions[i].events);
    }
    free(foreign->sessions);
    app_names_free(&foreign->session_ids);
    app_names_free(&foreign->call_ids);
    free(foreign->call_names);
    free((void *)(uintptr_t)foreign->text.p);
    quipu_arena_free(&foreign->arena);
    quipu_arena_free(&foreign->scratch);
    *foreign = (app_foreign){.kind = APP_FOREIGN_NONE};
}

/* The id becomes part of a key: what makes none is refused before anything is written. */
app_foreign_session *app_foreign_session_of(app_foreign *foreign, quipu_str id)
{
    const size_t found = app_names_get(&foreign->session_ids, id);
    app_foreign_session *session;

    if (found != APP_NAMES_NONE) {
        return &foreign->sessions[found];
    }
    if (id.n > FOREIGN_ID_MAX || !app_is_utf8(id) || memchr(id.p, '\0', id.n) != NULL) {
        app_foreign_fail(foreign,
                         "the id of a session is a text of at most %d bytes without U+0000",
                         FOREIGN_ID_MAX);
        return NULL;
    }
    if (foreign->session_count == foreign->session_room) {
        const size_t room = foreign->session_room > 0 ? foreign->session_room * 2 : 16;
        app_foreign_session *sessions = realloc(foreign->sessions, room * sizeof(*sessions));

        if (sessions == NULL) {
            app_foreign_fail(foreign, "out of memory");
            return NULL;
        }
        foreign->sessions = sessions;
        foreign->session_room = room;
    }
    session = &foreign->sessions[foreign->session_count];
    *session = (app_foreign_session){.id = {NULL, 0}};
    if (quipu_arena_copy(&foreign->arena, id, &session->id) != QUIPU_OK ||
        !app_names_put(&foreign->session_ids, session->id, foreign->session_count)) {
        app_foreign_fail(foreign, "out of memory");
        return NULL;
    }
    foreign->session_count++;
    return session;
}

/* ---- storing ---------------------------------------------------------------------------------
 */

/* A session on its way into the store. */
typedef struct foreign_put {
    app_foreign *foreign;
    quipu_store *store; /* NULL: a dry run without a store */
    const app_foreign_session *session;
    char key[QUIPU_KEY_MAX + 1];
    quipu_arena arena;
    quipu_message *messages;
    bool there;     /* an earlier run stored it */
    int64_t stored; /* how many of its messages */
    bool skip;
} foreign_put;

/* "codex:" and the id; --prefix takes the place of the first half; later tries have a number. */
static bool foreign_key(foreign_put *put, int number)
{
    const char *prefix = app_value(put->foreign->call, "prefix");
    const quipu_str id = put->session->id;
    char tail[APP_NUMBER_SIZE] = "";
    int n;

    if (number > 1) {
        (void)snprintf(tail, sizeof(tail), "-%d", number);
    }
    n = snprintf(put->key, sizeof(put->key), "%s%s%.*s%s",
                 prefix != NULL ? prefix : foreign_name(put->foreign->kind),
                 prefix != NULL ? "" : ":", (int)id.n, id.p, tail);
    return n > 0 && n < (int)sizeof(put->key);
}

/* Whether a stored session is this one: its metadata says where it came from. */
static bool foreign_is_ours(const foreign_put *put, const quipu_session_info *info,
                            quipu_arena *arena)
{
    const app_tree *root = NULL;
    const app_tree *imported;

    if (info->metadata.text.n == 0 ||
        app_tree_read(info->metadata.text, arena, &root) != QUIPU_OK) {
        return false;
    }
    imported = app_tree_get(root, "imported");
    return quipu_str_eq(app_tree_text(imported, "kind"),
                        quipu_cstr(foreign_name(put->foreign->kind))) &&
           quipu_str_eq(app_tree_text(imported, "id"), put->session->id);
}

/* Whether message `seq` of the stored session is number `seq` of the file, by its id. A message
 * that was pruned in the store counts as the same. `content`: the ids were made of places and say
 * nothing about the texts, so that these are compared, too. */
static quipu_status foreign_is_message(foreign_put *put, int64_t seq, bool content, bool *ret_is,
                                       quipu_error *error)
{
    const app_foreign_event *event = &put->session->events[seq - 1];
    quipu_messages said = quipu_messages_of(NULL, 0);
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.after_seq = seq - 1;
    range.limit = 1;
    status = quipu_session_get(put->store, quipu_cstr(put->key), &range, NULL, &history, error);
    if (status == QUIPU_OK && content) {
        status = quipu_event_to_message((quipu_json){event->json}, &put->arena, &said, error);
    }
    if (status == QUIPU_OK) {
        const quipu_message *have =
            history->messages.count == 1 ? quipu_message_at(history->messages, 0) : NULL;

        *ret_is = have == NULL || have->seq != seq ||
                  (quipu_str_eq(have->event_id, event->id) &&
                   (!content || quipu_str_eq(have->content, quipu_message_at(said, 0)->content)));
    }
    quipu_free(history);
    return status;
}

/* How many messages of the file a session has that was imported before: all that it has, when its
 * last one is from the file. A session that was continued in the store counts as complete.
 * QUIPU_EXISTS: it is another one; chat messages without a session's id have the file's name, which
 * others have, too. */
static quipu_status foreign_progress(foreign_put *put, const quipu_session_info *info,
                                     quipu_error *error)
{
    const int64_t have = info->next_seq - 1;
    quipu_status status = QUIPU_OK;
    bool is = true;

    if (have > 0 && put->foreign->kind == APP_FOREIGN_CHAT) {
        status = foreign_is_message(put, 1, true, &is, error);
    }
    if (status != QUIPU_OK || !is) {
        return status != QUIPU_OK ? status : QUIPU_EXISTS;
    }
    put->there = true;
    put->stored = (int64_t)put->session->count;
    if (have > 0 && have < put->stored) {
        status = foreign_is_message(put, have, false, &is, error);
    }
    put->stored = have < put->stored && is ? have : put->stored;
    return status;
}

/* Finds the key: a free one, or that of an earlier run. */
static int foreign_meet(foreign_put *put)
{
    const char *policy = app_value(put->foreign->call, "on-conflict");
    quipu_error error = {0};

    for (int number = 1; number <= APP_FOREIGN_RENAMES; number++) {
        quipu_history *history = NULL;
        quipu_arena arena = QUIPU_ARENA_INIT;
        quipu_status status;
        bool ours = false;

        if (!foreign_key(put, number)) {
            app_report(put->foreign->call, "a key would have more than %d bytes", QUIPU_KEY_MAX);
            return APP_USAGE;
        }
        status = app_session_header(put->store, quipu_cstr(put->key), NULL, &history, &error);
        if (status == QUIPU_OK) {
            ours = foreign_is_ours(put, history->session, &arena);
            status = ours ? foreign_progress(put, history->session, &error) : QUIPU_EXISTS;
        }
        quipu_arena_free(&arena);
        quipu_free(history);
        if (status == QUIPU_OK || status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
            return APP_OK;
        }
        if (status != QUIPU_EXISTS) {
            return app_fail(put->foreign->call, put->key, status, &error);
        }
        put->skip = policy != NULL && strcmp(policy, "skip") == 0;
        if (put->skip) {
            return APP_OK;
        }
        if (policy == NULL || strcmp(policy, "fail") == 0) {
            app_report(put->foreign->call,
                       "another session has the key \"%s\"; nothing was imported: use "
                       "--on-conflict skip or rename, or --prefix",
                       put->key);
            return APP_CONFLICT;
        }
    }
    app_report(put->foreign->call, "no key is free for \"%s\"", put->key);
    return APP_CONFLICT;
}

static int foreign_by_id(const void *a, const void *b)
{
    const app_foreign_event *const *x = a;
    const app_foreign_event *const *y = b;
    const quipu_str first = (*x)->id;
    const quipu_str second = (*y)->id;
    const size_t n = first.n < second.n ? first.n : second.n;
    const int order = memcmp(first.p, second.p, n);

    if (order != 0 || first.n != second.n) {
        return order != 0 ? order : (first.n > second.n) - (first.n < second.n);
    }
    return (*x > *y) - (*x < *y); /* in the order of the file */
}

/* Leaves out messages whose id another one has already: files repeat what they continue. */
static bool foreign_dedupe(app_foreign *foreign, app_foreign_session *session)
{
    app_foreign_event **sorted = malloc((session->count + 1) * sizeof(app_foreign_event *));
    size_t kept = 0;

    if (sorted == NULL) {
        app_foreign_fail(foreign, "out of memory");
        return false;
    }
    for (size_t i = 0; i < session->count; i++) {
        sorted[i] = &session->events[i];
    }
    qsort(sorted, session->count, sizeof(app_foreign_event *), foreign_by_id);
    for (size_t i = session->count; i > 1; i--) {
        if (quipu_str_eq(sorted[i - 1]->id, sorted[i - 2]->id)) {
            sorted[i - 1]->json = (quipu_str){NULL, 0};
        }
    }
    for (size_t i = 0; i < session->count; i++) {
        if (session->events[i].json.p != NULL) {
            session->events[kept++] = session->events[i];
        }
    }
    foreign->left_out += (int64_t)(session->count - kept);
    session->count = kept;
    free(sorted);
    return true;
}

/* The events as messages. False: reported. */
static bool foreign_messages(foreign_put *put)
{
    const app_foreign_session *session = put->session;

    put->messages = malloc((session->count + 1) * sizeof(*put->messages));
    if (put->messages == NULL) {
        app_foreign_fail(put->foreign, "out of memory");
        return false;
    }
    for (size_t i = 0; i < session->count; i++) {
        quipu_messages one = quipu_messages_of(NULL, 0);
        quipu_error error = {0};
        const quipu_status status = quipu_event_to_message((quipu_json){session->events[i].json},
                                                           &put->arena, &one, &error);

        if (status != QUIPU_OK) {
            app_foreign_fail(put->foreign, "message %zu of \"%.*s\": %s", i + 1, (int)session->id.n,
                             session->id.p,
                             error.message[0] != '\0' ? error.message : quipu_status_text(status));
            return false;
        }
        put->messages[i] = *quipu_message_at(one, 0);
        put->messages[i].event_id = session->events[i].id;
    }
    return true;
}

/* The session's note of its source. */
static quipu_status foreign_metadata(foreign_put *put, quipu_json *ret_metadata)
{
    char *text = NULL;
    size_t n = 0;
    app_json json = {.out = open_memstream(&text, &n)};
    quipu_status status;

    if (json.out == NULL) {
        return QUIPU_NOMEM;
    }
    app_json_open(&json, NULL, '{');
    app_json_open(&json, "imported", '{');
    app_json_cstr(&json, "kind", foreign_name(put->foreign->kind));
    app_json_text(&json, "id", put->session->id);
    app_json_close(&json, '}');
    app_json_close(&json, '}');
    if (fclose(json.out) != 0) {
        free(text);
        return QUIPU_NOMEM;
    }
    status = quipu_arena_copy(&put->arena, (quipu_str){text, n - 1}, &ret_metadata->text);
    free(text);
    return status;
}

/* Creates the session with its first messages. */
static quipu_status foreign_create(foreign_put *put, quipu_error *error)
{
    const app_foreign_session *session = put->session;
    const size_t first = session->count < APP_FOREIGN_BATCH ? session->count : APP_FOREIGN_BATCH;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_status status = foreign_metadata(put, &values.metadata);

    values.key = quipu_cstr(put->key);
    values.title = session->title;
    values.title.n = values.title.n < QUIPU_TITLE_MAX ? values.title.n : QUIPU_TITLE_MAX;
    while (values.title.n > 0 && values.title.n < session->title.n &&
           ((unsigned char)session->title.p[values.title.n] & 0xc0U) == 0x80U) {
        values.title.n--; /* not within a character */
    }
    values.model = session->model;
    values.channel_type = quipu_cstr(foreign_name(put->foreign->kind));
    values.messages = quipu_messages_of(put->messages, first);
    if (status == QUIPU_OK) {
        status = quipu_session_create(put->store, &values, NULL, NULL, error);
    }
    put->stored = status == QUIPU_OK ? (int64_t)first : 0;
    return status;
}

/* The rest, batch by batch. */
static quipu_status foreign_append(foreign_put *put, quipu_error *error)
{
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && put->stored < (int64_t)put->session->count) {
        if (app_signals_came()) {
            return QUIPU_CANCELLED;
        }
        const size_t left = put->session->count - (size_t)put->stored;
        const size_t n = left < APP_FOREIGN_BATCH ? left : APP_FOREIGN_BATCH;

        status = quipu_message_append(put->store, quipu_cstr(put->key),
                                      quipu_messages_of(put->messages + put->stored, n), NULL, NULL,
                                      NULL, error);
        put->stored += status == QUIPU_OK ? (int64_t)n : 0;
    }
    return status;
}

/* Checks one session, and with `write` stores it. */
static int foreign_one(foreign_put *put, bool write, app_foreign_report *report)
{
    const int64_t all = (int64_t)put->session->count;
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    int code = put->store != NULL ? foreign_meet(put) : APP_OK;

    if (code != APP_OK) {
        return code;
    }
    if (put->skip || (put->there && put->stored == all)) {
        report->skipped++;
        return APP_OK;
    }
    if (!foreign_messages(put)) {
        return APP_FAILURE;
    }
    report->sessions++;
    report->messages += all - put->stored;
    if (!write) {
        return APP_OK;
    }
    if (!put->there) {
        status = foreign_create(put, &error);
    }
    if (status == QUIPU_OK) {
        status = foreign_append(put, &error);
    }
    return status == QUIPU_OK ? APP_OK : app_fail(put->foreign->call, put->key, status, &error);
}

static int foreign_pass(app_foreign *foreign, quipu_store *store, bool write,
                        app_foreign_report *report)
{
    app_progress progress;
    int code = APP_OK;

    *report = (app_foreign_report){.left_out = foreign->left_out};
    app_progress_begin(&progress, foreign->call, write ? "writing" : "checking", "sessions",
                       (int64_t)foreign->session_count);
    for (size_t i = 0; i < foreign->session_count && code == APP_OK; i++) {
        if (app_signals_came()) {
            code = app_fail(foreign->call, foreign->path, QUIPU_CANCELLED, NULL);
            break;
        }
        foreign_put put = {.foreign = foreign,
                           .store = store,
                           .session = &foreign->sessions[i],
                           .arena = QUIPU_ARENA_INIT};

        if (put.session->count > 0) {
            code = foreign_one(&put, write, report);
        }
        free(put.messages);
        quipu_arena_free(&put.arena);
        app_progress_to(&progress, (int64_t)i + 1);
    }
    app_progress_end(&progress);
    return code;
}

/* The first pass checks all sessions, so that only the store can stop the second one. */
int app_foreign_store(app_foreign *foreign, quipu_store *store, app_foreign_report *ret_report)
{
    int code = APP_OK;

    for (size_t i = 0; i < foreign->session_count; i++) {
        if (!foreign_dedupe(foreign, &foreign->sessions[i])) {
            return APP_FAILURE;
        }
    }
    code = foreign_pass(foreign, store, false, ret_report);
    if (code == APP_OK && !app_given(foreign->call, "dry-run")) {
        code = foreign_pass(foreign, store, true, ret_report);
    }
    return code;
}
