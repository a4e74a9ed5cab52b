/* Readers of JSON Lines (foreign.h): Claude Code's and Codex's session files, and chat messages as
 * OpenAI writes them. Each gets one line and adds at most one message; other lines are counted.
 *
 *   claude-code  {"type": "user", "sessionId", "uuid", "message": {"role", "content"}}
 *   codex        {"type": "response_item", "timestamp", "payload": {"type": "message", ...}}
 *   chat         {"role": "user", "content": "..."}     or {"messages": [...]}, a session a line
 *
 * Called by: foreign.c. Owns nothing. */
#include <string.h>

#include "foreign.h"

#define LINES_NAME_MAX 128 /* bytes of a member's name in --map */

static quipu_str lines_keep(app_foreign *foreign, quipu_str text)
{
    quipu_str kept = {NULL, 0};

    if (text.n > 0 && quipu_arena_copy(&foreign->arena, text, &kept) != QUIPU_OK) {
        app_foreign_fail(foreign, "out of memory");
    }
    return kept;
}

/* ---- Claude Code -----------------------------------------------------------------------------
 */

/* Several lines share one answer of the API and repeat its usage, which counts once. */
static const app_tree *claude_usage(app_foreign *foreign, app_foreign_session *session,
                                    const app_tree *message)
{
    const quipu_str id = app_tree_text(message, "id");

    if (id.n > 0 && quipu_str_eq(id, session->answer)) {
        return NULL;
    }
    session->answer = lines_keep(foreign, id);
    return app_tree_get(message, "usage");
}

/* The session's id; an agent that it started has its own, though its file names the session's. */
static quipu_str claude_session(app_foreign *foreign, const app_tree *line)
{
    const quipu_str session = app_tree_text(line, "sessionId");
    const quipu_str agent = app_tree_text(line, "agentId");
    char *both;

    if (session.n == 0 || agent.n == 0) {
        return session;
    }
    both = quipu_arena_alloc(&foreign->scratch, session.n + agent.n + 1);
    if (both == NULL) {
        app_foreign_fail(foreign, "out of memory");
        return (quipu_str){NULL, 0};
    }
    memcpy(both, session.p, session.n);
    both[session.n] = '/';
    memcpy(both + session.n + 1, agent.p, agent.n);
    return (quipu_str){both, session.n + agent.n + 1};
}

/* A line of its own has what Claude Code calls the conversation; it may stand before the first
 * message, and behind the last. It does not say whose it is: a file has one conversation, and those
 * of the agents that it started. */
static bool claude_title(app_foreign *foreign, const app_tree *line)
{
    const quipu_str title = app_tree_text(line, "summary");

    if (title.n == 0 || !quipu_str_eq(app_tree_text(line, "type"), QUIPU_STR("summary"))) {
        return false;
    }
    foreign->title = lines_keep(foreign, title);
    if (foreign->session_count > 0) {
        foreign->sessions[0].title = foreign->title;
    }
    return true;
}

/* The session of a line; the first one has the title that stood before it. */
static app_foreign_session *claude_begin(app_foreign *foreign, quipu_str id)
{
    app_foreign_session *session = app_foreign_session_of(foreign, id);

    if (session != NULL && foreign->session_count == 1) {
        session->title = foreign->title;
    }
    return session;
}

void app_foreign_claude_line(app_foreign *foreign, const app_tree *line)
{
    const quipu_str type = app_tree_text(line, "type");
    const app_tree *message = app_tree_get(line, "message");
    const quipu_str id = claude_session(foreign, line);
    const bool answer = quipu_str_eq(type, QUIPU_STR("assistant"));
    app_foreign_session *session;
    app_foreign_writer writer;

    if (claude_title(foreign, line)) {
        return;
    }
    if (message == NULL || id.n == 0 || (!answer && !quipu_str_eq(type, QUIPU_STR("user")))) {
        foreign->left_out++;
        return;
    }
    if (message->kind != APP_TREE_OBJECT || app_tree_get(message, "content") == NULL) {
        app_foreign_fail(foreign, "its \"message\" has no \"content\"");
        return;
    }
    session = claude_begin(foreign, id);
    if (session == NULL) {
        return;
    }
    const app_foreign_said said = {
        .id = app_tree_text(line, "uuid"),
        .role = answer ? "model" : "user",
        .time = app_tree_get(line, "timestamp"),
        .model = app_tree_text(message, "model"),
        .branch =
            app_tree_true(line, "isSidechain") ? QUIPU_STR("sidechain") : (quipu_str){NULL, 0},
        .usage = answer ? claude_usage(foreign, session, message) : NULL};

    if (answer && session->model.n == 0) {
        session->model = lines_keep(foreign, said.model);
    }
    if (app_foreign_begin(foreign, session, &said, &writer)) {
        app_foreign_content(&writer, app_tree_get(message, "content"));
        app_foreign_end(&writer);
    }
}

/* ---- Codex -----------------------------------------------------------------------------------
 */

/* The session of the file: the id of its first line. */
static app_foreign_session *codex_session(app_foreign *foreign, const app_tree *payload)
{
    const quipu_str id = app_tree_text(payload, "id");

    if (foreign->session_count > 0) {
        return &foreign->sessions[foreign->session_count - 1];
    }
    if (id.n == 0) {
        app_foreign_fail(foreign, "the file does not begin with \"session_meta\" and its id");
        return NULL;
    }
    return app_foreign_session_of(foreign, id);
}

/* Reasoning: its summaries; encrypted content is for its provider. */
static void codex_reasoning(app_foreign_writer *writer, const app_tree *item)
{
    static const char *const lists[] = {"summary", "content"};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const app_tree *list = app_tree_get(item, lists[i]);

        for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL;
             one = one->next) {
            app_foreign_text(writer, app_tree_text(one, "text"), true);
        }
    }
}

/* The usage of an answer, on a line behind it; the totals distinguish a repeated line. */
static void codex_usage(app_foreign *foreign, app_foreign_session *session, const app_tree *info)
{
    const int64_t total =
        app_tree_int(app_tree_get(info, "total_token_usage"), "total_tokens", session->tokens);

    if (total != session->tokens) {
        session->tokens = total;
        app_foreign_used(foreign, session, app_tree_get(info, "last_token_usage"));
    }
}

/* The parts of an item. */
static void codex_parts(app_foreign_writer *writer, const app_tree *item, quipu_str type)
{
    const quipu_str id = app_tree_text(item, "call_id");

    if (quipu_str_eq(type, QUIPU_STR("reasoning"))) {
        codex_reasoning(writer, item);
    } else if (quipu_str_eq(type, QUIPU_STR("function_call"))) {
        app_foreign_call(writer, id, app_tree_text(item, "name"), app_tree_text(item, "arguments"));
    } else if (quipu_str_eq(type, QUIPU_STR("custom_tool_call"))) {
        app_foreign_call(writer, id, app_tree_text(item, "name"), app_tree_text(item, "input"));
    } else if (quipu_str_eq(type, QUIPU_STR("function_call_output")) ||
               quipu_str_eq(type, QUIPU_STR("custom_tool_call_output"))) {
        app_foreign_response(writer, id, (quipu_str){NULL, 0}, app_tree_get(item, "output"), false);
    } else if (quipu_str_eq(type, QUIPU_STR("message"))) {
        app_foreign_content(writer, app_tree_get(item, "content"));
    } else {
        app_foreign_text(writer, item->raw, false); /* a kind of item that came later */
    }
}

static const char *codex_role(const app_tree *item, quipu_str type)
{
    const quipu_str role = app_tree_text(item, "role");

    if (type.n > 7 && memcmp(type.p + type.n - 7, "_output", 7) == 0) {
        return "user"; /* as ADK writes a tool's responses */
    }
    if (quipu_str_eq(role, QUIPU_STR("user"))) {
        return "user";
    }
    return quipu_str_eq(role, QUIPU_STR("developer")) || quipu_str_eq(role, QUIPU_STR("system"))
               ? "system"
               : "model";
}

void app_foreign_codex_line(app_foreign *foreign, const app_tree *line)
{
    const quipu_str kind = app_tree_text(line, "type");
    const app_tree *payload = app_tree_get(line, "payload");
    const quipu_str type = app_tree_text(payload, "type");
    app_foreign_session *session = codex_session(foreign, payload);
    app_foreign_writer writer;

    if (session == NULL) {
        return;
    }
    if (quipu_str_eq(kind, QUIPU_STR("turn_context"))) {
        session->model = lines_keep(foreign, app_tree_text(payload, "model"));
    }
    if (quipu_str_eq(kind, QUIPU_STR("event_msg")) &&
        quipu_str_eq(type, QUIPU_STR("token_count"))) {
        codex_usage(foreign, session, app_tree_get(payload, "info"));
        return;
    }
    if (!quipu_str_eq(kind, QUIPU_STR("response_item")) || type.n == 0) {
        foreign->left_out++;
        return;
    }
    const char *role = codex_role(payload, type);
    const app_foreign_said said = {.role = role,
                                   .time = app_tree_get(line, "timestamp"),
                                   .model = strcmp(role, "model") == 0 ? session->model
                                                                       : (quipu_str){NULL, 0}};

    if (app_foreign_begin(foreign, session, &said, &writer)) {
        codex_parts(&writer, payload, type);
        app_foreign_end(&writer);
    }
}

/* ---- chat messages ---------------------------------------------------------------------------
 */

bool app_foreign_map_fits(const char *map)
{
    for (const char *at = map; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        const size_t name = strcspn(at, "=,");
        char word[LINES_NAME_MAX];

        if (name == 0 || name + 1 >= n || n - name - 1 >= LINES_NAME_MAX || name >= sizeof(word)) {
            return false;
        }
        memcpy(word, at, name);
        word[name] = '\0';
        if (app_word_number(APP_FOREIGN_MAP, word) < 0) {
            return false;
        }
        at += n + (at[n] == ',');
    }
    return *map != '\0';
}

/* The member that has what `name` says: --map role=who,content=text names others. */
static const app_tree *chat_member(const app_foreign *foreign, const app_tree *line,
                                   const char *name)
{
    const char *at = foreign->map;
    char other[LINES_NAME_MAX];
    const size_t n = strlen(name);

    while (at != NULL && *at != '\0') {
        const char *end = strchr(at, ',');
        const size_t length = end != NULL ? (size_t)(end - at) : strlen(at);

        if (length > n + 1 && memcmp(at, name, n) == 0 && at[n] == '=' &&
            length - n - 1 < sizeof(other)) {
            memcpy(other, at + n + 1, length - n - 1);
            other[length - n - 1] = '\0';
            return app_tree_get(line, other);
        }
        at = end != NULL ? end + 1 : NULL;
    }
    return app_tree_get(line, name);
}

static quipu_str chat_text(const app_foreign *foreign, const app_tree *line, const char *name)
{
    const app_tree *member = chat_member(foreign, line, name);

    return member != NULL && member->kind == APP_TREE_STRING ? member->text : (quipu_str){NULL, 0};
}

/* The role by ADK's names; NULL: unknown. */
static const char *chat_role(quipu_str role)
{
    static const char *const roles[][2] = {
        {"user", "user"},        {"human", "user"},  {"assistant", "model"},
        {"ai", "model"},         {"model", "model"}, {"system", "system"},
        {"developer", "system"}, {"tool", "user"},   {"function", "user"},
    };

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (quipu_str_eq(role, quipu_cstr(roles[i][0]))) {
            return roles[i][1];
        }
    }
    return NULL;
}

/* The list of calls, and the only one of OpenAI's older form. */
static void chat_calls(app_foreign_writer *writer, const app_tree *line)
{
    const app_tree *calls = app_tree_get(line, "tool_calls");
    const app_tree *older = app_tree_get(line, "function_call");

    for (const app_tree *one = calls != NULL ? calls->first : NULL; one != NULL; one = one->next) {
        const app_tree *function = app_tree_get(one, "function");
        const app_tree *arguments = app_tree_get(function != NULL ? function : one,
                                                 function != NULL ? "arguments" : "args");

        app_foreign_call(writer, app_tree_text(one, "id"),
                         app_tree_text(function != NULL ? function : one, "name"),
                         arguments == NULL                    ? (quipu_str){NULL, 0}
                         : arguments->kind == APP_TREE_STRING ? arguments->text
                                                              : arguments->raw);
    }
    if (older != NULL && older->kind == APP_TREE_OBJECT) {
        app_foreign_call(writer, (quipu_str){NULL, 0}, app_tree_text(older, "name"),
                         app_tree_text(older, "arguments"));
    }
}

/* One message. */
static void chat_message(app_foreign *foreign, app_foreign_session *session, const app_tree *line)
{
    const quipu_str role = chat_text(foreign, line, "role");
    const app_tree *content = chat_member(foreign, line, "content");
    const char *name = chat_role(role);
    const app_tree *time = chat_member(foreign, line, "timestamp");
    app_foreign_writer writer;

    if (name == NULL) {
        app_foreign_fail(foreign, "its role is not user, assistant, system or tool; --map "
                                  "role=NAME names the member that has it");
        return;
    }
    if (content == NULL && app_tree_get(line, "tool_calls") == NULL) {
        app_foreign_fail(foreign, "it has no content; --map content=NAME names its member");
        return;
    }
    const app_foreign_said said = {.id = chat_text(foreign, line, "id"),
                                   .role = name,
                                   .author = chat_text(foreign, line, "name"),
                                   .time = time != NULL ? time : app_tree_get(line, "created_at"),
                                   .model = chat_text(foreign, line, "model"),
                                   .usage = app_tree_get(line, "usage")};

    if (!app_foreign_begin(foreign, session, &said, &writer)) {
        return;
    }
    if (quipu_str_eq(role, QUIPU_STR("tool")) || quipu_str_eq(role, QUIPU_STR("function"))) {
        app_foreign_response(&writer, app_tree_text(line, "tool_call_id"),
                             app_tree_text(line, "name"), content, false);
    } else {
        app_foreign_text(&writer, app_tree_text(line, "reasoning_content"), true);
        app_foreign_content(&writer, content);
        chat_calls(&writer, line);
    }
    app_foreign_end(&writer);
}

/* A file has one session, named like it, unless its lines name theirs or are sessions. */
static quipu_str chat_session(const app_foreign *foreign, const app_tree *line)
{
    static const char *const suffixes[] = {".jsonl", ".json"};
    const quipu_str named = chat_text(foreign, line, "session_id");
    const char *base = strrchr(foreign->path, '/');
    quipu_str name = quipu_cstr(base != NULL ? base + 1 : foreign->path);

    if (named.n > 0) {
        return named;
    }
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const size_t n = strlen(suffixes[i]);

        if (name.n > n && memcmp(name.p + name.n - n, suffixes[i], n) == 0) {
            name.n -= n;
        }
    }
    return quipu_str_eq(name, QUIPU_STR("-")) ? QUIPU_STR("stdin") : name;
}

void app_foreign_chat_line(app_foreign *foreign, const app_tree *line)
{
    const app_tree *messages = app_tree_get(line, "messages");
    app_foreign_session *session;
    char id[APP_PATH_MAX + APP_NUMBER_SIZE];
    quipu_str name = chat_session(foreign, line);

    if (messages != NULL && messages->kind == APP_TREE_ARRAY) {
        (void)snprintf(id, sizeof(id), "%.*s-%lld", (int)name.n, name.p, (long long)foreign->line);
        name = quipu_cstr(id);
    }
    session = app_foreign_session_of(foreign, name);
    if (session == NULL) {
        return;
    }
    if (messages == NULL) {
        chat_message(foreign, session, line);
        return;
    }
    for (const app_tree *one = messages->first; one != NULL && !foreign->failed; one = one->next) {
        chat_message(foreign, session, one);
    }
}
