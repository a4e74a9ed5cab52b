/* quipu state: the state that a session sees, with who set each name last; as it was after a
 * message; set and delete one name. Listing reads only; a change is one event, stored in one
 * transaction. */
#include <stdlib.h>
#include <string.h>

#include <quipu/adk.h>

#include "app.h"
#include "fork.h"
#include "state_past.h"
#include "text.h"

#define STATE_SCOPES "app user session"       /* in the order of quipu_scope */
#define STATE_NAME_MAX 1024                   /* bytes of a name, with its prefix */
#define STATE_NO_TIME_S INT64_C(-62135596800) /* the year 1: Go's zero time, of an import */

static const app_option state_options[] = {
    {.name = "scope",
     .value = "SCOPE",
     .choices = STATE_SCOPES,
     .help = "only names of this scope"},
    {.name = "at",
     .value = "SEQ",
     .help = "the session's names as they were after this message, by recorded events"},
    {.name = "who", .value = "NAME", .help = "set: who does it; default $USER"},
    {.name = "text", .help = "set: VALUE is a text, not JSON"},
    {.name = NULL},
};

enum {
    STATE_SCOPE,
    STATE_NAME,
    STATE_VALUE,
    STATE_BY,
    STATE_MESSAGE,
    STATE_WHEN,
    STATE_IN,
    STATE_COLUMNS
};

static const app_column state_columns[STATE_COLUMNS] = {
    [STATE_SCOPE] = {.title = "SCOPE"},
    [STATE_NAME] = {.title = "NAME", .fits = true},
    [STATE_VALUE] = {.title = "VALUE", .fits = true},
    [STATE_BY] = {.title = "SET BY", .fits = true, .spare = true},
    [STATE_MESSAGE] = {.title = "MESSAGE", .right = true, .spare = true},
    [STATE_WHEN] = {.title = "SET", .spare = true},
    [STATE_IN] = {.title = "IN", .fits = true, .spare = true},
};

static const char *state_scope_name(quipu_scope scope)
{
    static const char *const names[] = {"", "app", "user", "session"};

    return names[(size_t)scope < sizeof(names) / sizeof(names[0]) ? scope : 0];
}

/* ---- listing ---------------------------------------------------------------------------------
 */

/* State from an import may have no time. */
static bool state_has_time(const quipu_state_entry *entry)
{
    return entry->set_at.s != STATE_NO_TIME_S;
}

/* Member names are those of an export. */
static void state_json(const quipu_state_entry *entry)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_cstr(&json, "scope", state_scope_name(entry->scope));
    app_json_text(&json, "name", entry->name);
    app_json_raw(&json, "value", entry->value.text);
    if (state_has_time(entry)) {
        app_json_time(&json, "updated_at", entry->set_at);
    }
    app_json_text(&json, "set_by", entry->set_by);
    if (entry->set_seq > 0) {
        app_json_int(&json, "set_seq", entry->set_seq);
    }
    app_json_text(&json, "set_in", entry->set_in);
    app_json_close(&json, '}');
}

static quipu_status state_cells(quipu_arena *arena, const quipu_state_entry *entry,
                                quipu_str cells[STATE_COLUMNS])
{
    quipu_status status = QUIPU_OK;

    cells[STATE_WHEN] = (quipu_str){NULL, 0};
    if (state_has_time(entry)) {
        status = app_cell_time(arena, entry->set_at, &cells[STATE_WHEN]);
    }
    cells[STATE_SCOPE] = quipu_cstr(state_scope_name(entry->scope));
    cells[STATE_NAME] = entry->name;
    cells[STATE_VALUE] = entry->value.text;
    cells[STATE_BY] = entry->set_by;
    cells[STATE_IN] = entry->set_in;
    cells[STATE_MESSAGE] = (quipu_str){NULL, 0};
    if (status == QUIPU_OK && entry->set_seq > 0) {
        status = app_cell_number(arena, entry->set_seq, &cells[STATE_MESSAGE]);
    }
    return status;
}

/* The entries of --scope, as a table or as JSON. */
static quipu_status state_print(const app_call *call, quipu_state_entries entries,
                                quipu_arena *arena)
{
    const char *scope = app_value(call, "scope");
    app_table table = {.out = stdout,
                       .colours = app_colours(call),
                       .columns = app_table_width(),
                       .kinds = state_columns,
                       .count = STATE_COLUMNS};
    quipu_str *cells =
        quipu_arena_alloc(arena, (entries.count + 1) * STATE_COLUMNS * sizeof(*cells));
    quipu_status status = cells != NULL ? QUIPU_OK : QUIPU_NOMEM;
    size_t rows = 0;

    for (size_t i = 0; i < entries.count && status == QUIPU_OK; i++) {
        const quipu_state_entry *entry = quipu_state_entry_at(entries, i);

        if (scope != NULL && strcmp(scope, state_scope_name(entry->scope)) != 0) {
            continue;
        }
        if (app_given(call, "json")) {
            state_json(entry);
        } else {
            status = state_cells(arena, entry, cells + rows * STATE_COLUMNS);
        }
        rows++;
    }
    if (status == QUIPU_OK && rows > 0 && !app_given(call, "json")) {
        app_table_print(&table, cells, rows);
    }
    if (status == QUIPU_OK && rows == 0) {
        app_report(call, "there is no such state");
    }
    return status;
}

/* Reports that recorded events are not complete: a name that is missing here may have been set. */
static int state_list_past(const app_call *call, quipu_store *store, quipu_arena *arena)
{
    const quipu_str key = app_argument(call, 0);
    quipu_state_entries entries = {NULL, 0, 0};
    quipu_error error = {0};
    quipu_status status;
    int64_t newest = 0;
    int64_t at = 0;
    int code;

    if (!app_number(call, "at", 1, UINT32_MAX, &at)) {
        return APP_USAGE;
    }
    code = app_seq_newest(call, store, key, &newest);
    if (code != APP_OK) {
        return code;
    }
    if (at > newest) {
        app_report(call, "%s: there is no message %lld; the newest is %lld", key.p, (long long)at,
                   (long long)newest);
        return APP_NOT_FOUND;
    }
    status = app_state_past(store, key, at, arena, &entries, &error);
    if (status == QUIPU_OK) {
        status = state_print(call, entries, arena);
    }
    if (status != QUIPU_OK) {
        return app_fail_session(call, key, status, &error);
    }
    app_report(call, "by recorded events; what was set without one is not shown");
    return APP_OK;
}

static int state_list(const app_call *call, quipu_store *store, quipu_arena *arena)
{
    const quipu_str key = app_argument(call, 0);
    quipu_state_list *list = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (app_given(call, "at")) {
        return state_list_past(call, store, arena);
    }
    status = quipu_state_get(store, key, NULL, &list, &error);
    if (status == QUIPU_OK) {
        status = state_print(call, list->entries, arena);
    }
    quipu_free(list);
    return status == QUIPU_OK ? APP_OK : app_fail_session(call, key, status, &error);
}

/* ---- set and delete --------------------------------------------------------------------------
 */

/* Opens the session of the key with its state. The ADK service finds sessions by app, user and id:
 * the uid says whether that is the session of the key. A fork has its parent's names. */
static int state_open(const app_call *call, quipu_store *store, quipu_service *service,
                      quipu_arena *arena, quipu_live **ret_live)
{
    const quipu_str key = app_argument(call, 0);
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status = app_session_header(store, key, NULL, &history, &error);

    options.num_recent = 0;
    if (status == QUIPU_OK) {
        const quipu_session_info *info = history->session;
        const bool named = info->app_name.n > 0 || info->user_id.n > 0;
        const quipu_session_ref ref = {info->app_name, info->user_id,
                                       named ? info->session_id : info->key};

        status = quipu_service_get(service, &ref, &options, NULL, ret_live, &error);
    }
    if (status == QUIPU_OK && *ret_live != NULL) {
        status = quipu_live_get(*ret_live, NULL, arena, &now, &error);
    }
    const bool same = status == QUIPU_OK && *ret_live != NULL &&
                      memcmp(&now.identity->uid, &history->session->uid, sizeof(quipu_uuid)) == 0;
    quipu_free(history);
    if (status != QUIPU_OK) {
        return app_fail_session(call, key, status, &error);
    }
    if (!same) {
        app_report(call,
                   "%s: this session has no state of its own: that of a fork stays with the "
                   "session that it was made from",
                   key.p);
        return APP_FAILURE;
    }
    return APP_OK;
}

/* The event that sets the name, as JSON that the caller frees; NULL without memory. */
static char *state_event(const app_call *call)
{
    const char *who = app_value(call, "who");
    const char *user = getenv("USER");
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    app_json json = {.out = out};

    if (out == NULL) {
        return NULL;
    }
    who = who != NULL ? who : user;
    app_json_open(&json, NULL, '{');
    app_json_cstr(&json, "author", who != NULL && who[0] != '\0' ? who : "user");
    app_json_open(&json, "actions", '{');
    app_json_open(&json, "stateDelta", '{');
    if (app_given(call, "text")) {
        app_json_text(&json, call->arguments[2], app_argument(call, 3));
    } else {
        app_json_raw(&json, call->arguments[2], app_argument(call, 3));
    }
    app_json_close(&json, '}');
    app_json_close(&json, '}');
    app_json_close(&json, '}');
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Whether a text can be written as JSON without a change. */
static bool state_is_utf8(const char *text)
{
    const size_t n = strlen(text);
    uint32_t c = 0;

    for (size_t at = 0; at < n && c != APP_CHAR_BAD;) {
        at += app_char_next(text + at, n - at, &c);
    }
    return c != APP_CHAR_BAD;
}

/* The command line of set and delete; everything that needs no store. */
static int state_check(const app_call *call)
{
    const char *name = call->arguments[2];
    const char *value = call->argument_count > 3 ? call->arguments[3] : NULL;

    if (app_given(call, "at") || app_given(call, "scope")) {
        return app_usage(call, "--at and --scope are for lists; a name of another scope begins "
                               "with app: or user:");
    }
    if (name[0] == '\0' || strlen(name) > STATE_NAME_MAX || !state_is_utf8(name)) {
        return app_usage(call, "a name is UTF-8 of 1 to %d bytes", STATE_NAME_MAX);
    }
    if (strncmp(name, "temp:", 5) == 0) {
        return app_usage(call, "\"%s\": temp: names are not stored", name);
    }
    if (value != NULL && (!state_is_utf8(value) ||
                          (app_given(call, "who") && !state_is_utf8(app_value(call, "who"))))) {
        return app_usage(call, "the value and who sets it must be UTF-8");
    }
    return APP_OK;
}

/* Reports the change. */
static void state_print_change(const app_call *call)
{
    const bool deleted = call->argument_count == 3;
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "key", call->arguments[0]);
        app_json_cstr(&json, "name", call->arguments[2]);
        app_json_bool(&json, "deleted", deleted);
        app_json_close(&json, '}');
        return;
    }
    app_put(stdout, app_argument(call, 2));
    fputs(deleted ? " is deleted\n" : " is set\n", stdout);
}

/* Checks the value, or that the name exists, without a write: a "temp:" name is kept in memory
 * only. */
static int state_try(const app_call *call, quipu_live *live, quipu_arena *arena)
{
    const quipu_str name = app_argument(call, 2);
    const quipu_str value = app_argument(call, 3);
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot found = QUIPU_SNAPSHOT_INIT;
    quipu_error error = {0};

    if (value.p == NULL) {
        query.flags = QUIPU_LIVE_STATE;
        query.name = name;
        if (quipu_live_get(live, &query, arena, &found, &error) == QUIPU_OK) {
            return app_confirm(call, "delete \"%s\" of the state of \"%s\"", name.p,
                               call->arguments[0]);
        }
        app_report(call, "there is no \"%s\" in the state of \"%s\"; \"quipu state %s\" lists it",
                   name.p, call->arguments[0], call->arguments[0]);
        return APP_NOT_FOUND;
    }
    if (!app_given(call, "text") && quipu_live_set(live, QUIPU_STR("temp:value"),
                                                   (quipu_json){value}, NULL, &error) != QUIPU_OK) {
        return app_usage(call, "the value is not JSON: \"%s\"; with --text it is taken as a text",
                         value.p);
    }
    return APP_OK;
}

/* Writes the change: an event names who set a value, and a deletion leaves nothing to name. */
static quipu_status state_write(const app_call *call, quipu_live *live, quipu_error *error)
{
    quipu_status status = QUIPU_NOMEM;
    char *event;

    if (call->argument_count == 3) {
        return quipu_live_set(live, app_argument(call, 2), (quipu_json){{NULL, 0}}, NULL, error);
    }
    event = state_event(call);
    if (event != NULL) {
        status = quipu_live_append(live, (quipu_json){quipu_cstr(event)}, NULL, NULL, error);
    }
    free(event);
    return status;
}

/* One name, set or deleted. */
static int state_change(const app_call *call, quipu_store *store, quipu_arena *arena)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_service *service = NULL;
    quipu_live *live = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code;

    options.flags = QUIPU_SERVICE_REBASE; /* other writers may change it after the read */
    status = quipu_service_new(store, &options, &service, &error);
    code = status == QUIPU_OK ? state_open(call, store, service, arena, &live)
                              : app_fail(call, "state", status, &error);
    if (code == APP_OK) {
        code = state_try(call, live, arena);
    }
    if (code == APP_OK) {
        status = state_write(call, live, &error);
        code = status == QUIPU_OK ? APP_OK
                                  : app_fail_session(call, app_argument(call, 0), status, &error);
    }
    if (code == APP_OK) {
        state_print_change(call);
    }
    quipu_live_free(live);
    quipu_service_free(service);
    return code;
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* KEY, KEY set NAME VALUE, or KEY delete NAME. */
static int state_run(const app_call *call)
{
    const bool changes = call->argument_count > 1;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_store *store = NULL;
    int code = APP_OK;

    if (changes && !(call->argument_count == 4 && strcmp(call->arguments[1], "set") == 0) &&
        !(call->argument_count == 3 && strcmp(call->arguments[1], "delete") == 0)) {
        return app_usage(call, "behind the key say \"set NAME VALUE\" or \"delete NAME\"");
    }
    if (changes) {
        code = state_check(call);
    }
    if (code == APP_OK) {
        code = app_open(call, changes ? APP_NEED_WRITE : APP_NEED_READ, &store);
    }
    if (code == APP_OK) {
        code = changes ? state_change(call, store, &arena) : state_list(call, store, &arena);
        quipu_close(store);
    }
    quipu_arena_free(&arena);
    return code;
}

const app_verb app_verb_state = {
    .name = "state",
    .group = APP_GROUP_READ,
    .arguments = "KEY [set NAME VALUE | delete NAME]",
    .arguments_min = 1,
    .arguments_max = 4,
    .summary = "show the state of a session and who set it, or change a name of it",
    .note = "VALUE is JSON. Names of the app and the user begin with app: and user:\n"
            "\n"
            "Examples:\n"
            "  quipu state trip --at 3\n"
            "  quipu state trip set user:language '\"es\"'",
    .common = APP_READS | APP_YES,
    .options = state_options,
    .run = state_run,
};
