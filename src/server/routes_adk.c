/* ADK's REST: the routes of its api_server for sessions and memory, so that a client of it works
 * here unchanged. The wire form is that of ADK 2.13; tests/e2e/test_serve_adk.py sends the same
 * requests to both and compares.
 *
 * Sessions are those of the ADK service of the library: with the keys that its bindings use, so
 * that an agent and a browser see the same ones. Runs on workers, but for what needs no store.
 * Owns: nothing after a call. Called by: the table of routes. Locks: none. Transactions: those of
 * the ADK service's calls. A create with events is two of them, and deletes the session when the
 * second fails.
 * A read answers 200; a create 200, 409, 400 or 422; a delete 200 with null, also for a session
 * that is not there; all answer 404 outside of the token's scope. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "server/adk_json.h"
#include "server/route.h"
#include "server/server.h"

#define ADK_ID_SHOWN_MAX 200 /* bytes of a session id in an error text */

/* ---- what routes share ----------------------------------------------------------------------- */

/* App, user and session id of the path, in the order in which ADK writes them.
 * The texts lie in the request, which lives until the answer is sent. */
static quipu_session_ref adk_ref(const qp_call *call)
{
    return (quipu_session_ref){call->path[0], call->path[1], call->path[2]};
}

/* Apps and users outside of the identity's scope do not exist.
 * Copies, because qp_call_scope() fills in what is absent; a path has both. */
static quipu_status adk_check_scope(const qp_call *call, quipu_error *reterr)
{
    quipu_str app_name = call->path[0];
    quipu_str user_id = call->path[1];

    return qp_call_scope(call, &app_name, &user_id, reterr);
}

/* Answers failures in ADK's words; others have the statuses of all routes.
 * QUIPU_OK says that the answer is written; another status goes on to conn_handle(). The id in the
 * text of a 409 is the client's own, cut at a whole character. */
static quipu_status adk_end(qp_call *call, quipu_status status, quipu_str session_id,
                            const quipu_error *error)
{
    char text[ADK_ID_SHOWN_MAX + 32];

    switch (status) {
    /* One text for a session that is missing, has expired or is another user's. */
    case QUIPU_NOT_FOUND:
    case QUIPU_EXPIRED:
        qp_reply_error(&call->answer, 404, "NOT_FOUND", "Session not found");
        return QUIPU_OK;
    case QUIPU_EXISTS:
        (void)snprintf(text, sizeof(text), "Session already exists: %.*s",
                       (int)qp_utf8_cut(session_id, ADK_ID_SHOWN_MAX), session_id.p);
        qp_reply_error(&call->answer, 409, "EXISTS", text);
        return QUIPU_OK;
    case QUIPU_LIMIT:
    case QUIPU_MISUSE:
        qp_reply_error(&call->answer, 400, "INVALID", error->message);
        return QUIPU_OK;
    default:
        return status;
    }
}

/* Reads a session in the scope, or fails with QUIPU_NOT_FOUND. num_recent 0: without events. The
 * live session is the caller's, to free with quipu_live_free(). */
static quipu_status adk_open(qp_call *call, quipu_session_ref ref, int64_t num_recent,
                             quipu_live **ret_live, quipu_error *reterr)
{
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_live *live = NULL;
    quipu_status status = adk_check_scope(call, reterr);

    /* -1: all events; 0: the head and the state alone. */
    options.num_recent = num_recent;
    if (status == QUIPU_OK) {
        status = quipu_service_get(call->server->adk, &ref, &options, &call->limits, &live, reterr);
    }
    if (status == QUIPU_OK && live == NULL) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "the session does not exist");
    }
    if (status == QUIPU_OK) {
        *ret_live = live;
    }
    return status;
}

/* Answers with the whole session; 204 to a token that may not read.
 * A token that only writes may change a session and must not learn what others put into it. */
static quipu_status adk_answer(qp_call *call, quipu_live *live, quipu_error *reterr)
{
    quipu_status status;
    qp_jsonw writer;

    if (!qp_call_may_read(call)) {
        call->answer.status = 204;
        return QUIPU_OK;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    status = qp_adk_put_live(call, &writer, live, reterr);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* ADK's empty answer. */
static quipu_status adk_answer_null(qp_call *call)
{
    qp_buf_puts(&call->answer.body, "null");
    call->answer.status = 200;
    return qp_buf_status(&call->answer.body);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* All events, as ADK's own server answers; a client that wants a part asks /v1. */
quipu_status qp_route_adk_get(qp_call *call, quipu_error *reterr)
{
    quipu_live *live = NULL;
    quipu_status status = adk_open(call, adk_ref(call), -1, &live, reterr);

    if (status == QUIPU_OK) {
        status = adk_answer(call, live, reterr);
    }
    quipu_live_free(live);
    return adk_end(call, status, call->path[2], reterr);
}

/* Sessions of ADK's evaluations are not shown, as in ADK.
 * A list only: by its id such a session can be read. */
static bool adk_is_shown(quipu_str session_id)
{
    static const char *const hidden[] = {"adk-eval-session-", "___eval___session___"};

    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        const size_t n = strlen(hidden[i]);

        if (session_id.n >= n && memcmp(session_id.p, hidden[i], n) == 0) {
            return false;
        }
    }
    return true;
}

/* Without events, as ADK lists them. Sessions that ADK's own server hides are left out. */
quipu_status qp_route_adk_list(qp_call *call, quipu_error *reterr)
{
    quipu_service_list *page = NULL;
    quipu_status status = adk_check_scope(call, reterr);
    qp_jsonw writer;

    if (status == QUIPU_OK) {
        status = quipu_service_find(call->server->adk, call->path[0], call->path[1], &call->limits,
                                    &page, reterr);
    }
    if (status != QUIPU_OK) {
        return adk_end(call, status, QP_STR_ABSENT, reterr);
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < page->sessions.count && status == QUIPU_OK; i++) {
        const quipu_service_entry *entry = quipu_service_entry_at(page->sessions, i);

        /* Hidden ones are read and dropped: the page has all sessions of the user. */
        if (adk_is_shown(entry->ref.session_id)) {
            status = qp_adk_put_entry(&writer, entry, reterr);
        }
    }
    qp_jsonw_array_end(&writer);
    quipu_free(page);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* Options are for session services that take some; ours takes none. */
static bool adk_check_options(qp_call *call, qp_json_node options)
{
    /* Sorted by name, as Python sorts the set in its text. */
    static const char *const bound[] = {"app_name", "session_id", "state", "user_id"};
    char text[160] = "Session options cannot contain keys already bound by the endpoint: ";
    size_t n = strlen(text);
    bool is_first = true;

    for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
        if (qp_json_kind_of(qp_json_get(options, quipu_cstr(bound[i]))) != QP_JSON_NONE) {
            (void)snprintf(text + n, sizeof(text) - n, "%s%s", is_first ? "" : ", ", bound[i]);
            n += strlen(text + n);
            is_first = false;
        }
    }
    /* Absent, or empty: nothing is asked for. */
    if (qp_json_count(options) == 0) {
        return true;
    }
    qp_reply_error(&call->answer, 400, "INVALID",
                   is_first ? "Session options are not supported by the configured session service."
                            : text);
    return false;
}

/* Appends the first events in one transaction. A session without them is not left behind.
 * A crash between the two transactions leaves a session without events. When the delete fails, too,
 * the session is left, and the log says so. */
static quipu_status adk_append_first(qp_call *call, quipu_live *live, quipu_messages messages,
                                     quipu_error *reterr)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
    quipu_error ignored = {0};
    quipu_status status = quipu_live_get(live, NULL, &call->arena, &now, reterr);
    quipu_str key = QP_STR_ABSENT;

    if (status == QUIPU_OK) {
        identity = *now.identity;
        status = qp_call_adk_key(call, &identity.ref, &key, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_message_append(call->store, key, messages, &options, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        /* The answer shows the events with the numbers and times that the store gave them. */
        return quipu_live_refresh(live, &call->limits, reterr);
    }
    if (quipu_service_delete(call->server->adk, &identity.ref, &call->limits, &ignored) !=
        QUIPU_OK) {
        QP_LOG(&call->server->log, QUIPU_LOG_WARN, "server", "session_left",
               QP_LOG_STATUS(ignored.status));
    }
    return status;
}

/* Creates a session with its state and its events, and answers with it.
 * An absent id is made by the library. The checks come in the order of what they cost: scope, id,
 * names of the state, store. */
static quipu_status adk_create(qp_call *call, const qp_adk_body *body, quipu_str session_id,
                               quipu_messages messages, quipu_error *reterr)
{
    const quipu_session_ref ref = {call->path[0], call->path[1], session_id};
    quipu_live *live = NULL;
    quipu_status status = adk_check_scope(call, reterr);

    if (status == QUIPU_OK && qp_text_has_dots(session_id)) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "an id that is . or .. cannot be in a path");
    }
    if (status == QUIPU_OK) {
        /* Names of the app are refused for a token of one user before anything is stored. */
        status = qp_call_check_state(call, body->state, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_service_create(call->server->adk, &ref, body->state, &call->limits, &live,
                                      reterr);
    }
    if (status == QUIPU_OK && messages.count > 0) {
        status = adk_append_first(call, live, messages, reterr);
    }
    if (status == QUIPU_OK) {
        status = adk_answer(call, live, reterr);
    }
    quipu_live_free(live);
    return adk_end(call, status, session_id, reterr);
}

/* The body may bring events and options. Faults in it are answered as ADK does, before anything is
 * stored. Each of the three readers writes the answer itself when it refuses. */
quipu_status qp_route_adk_create(qp_call *call, quipu_error *reterr)
{
    quipu_messages messages = quipu_messages_of(NULL, 0);
    quipu_status status = QUIPU_OK;
    qp_adk_body body;

    if (qp_adk_body_read(call, QP_ADK_NEW, &body) &&
        qp_adk_body_events(call, body.events, &messages) && adk_check_options(call, body.options)) {
        status = adk_create(call, &body, body.session_id, messages, reterr);
    }
    qp_adk_body_free(&body);
    return status;
}

/* The older form of the same: the id is in the path, and the body is the state. */
quipu_status qp_route_adk_create_id(qp_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_adk_body body;

    if (qp_adk_body_read(call, QP_ADK_STATE, &body)) {
        status = adk_create(call, &body, call->path[2], quipu_messages_of(NULL, 0), reterr);
    }
    qp_adk_body_free(&body);
    return status;
}

/* Appends the event of a change of state and sets the call's key, so that tails look.
 * The session is read with its events, because the answer is the whole session. */
static quipu_status adk_patch(qp_call *call, quipu_json delta, quipu_error *reterr)
{
    const quipu_session_ref ref = adk_ref(call);
    quipu_live *live = NULL;
    quipu_status status = qp_call_check_state(call, delta, reterr);
    qp_buf event;

    qp_buf_init(&event, QP_REPLY_MAX);
    if (status == QUIPU_OK) {
        status = adk_open(call, ref, -1, &live, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_call_state_event(delta, &event, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_live_append(live, (quipu_json){qp_buf_str(&event)}, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = adk_answer(call, live, reterr);
    }
    /* For conn_done(): the key of the session whose tails are to look. */
    if (status == QUIPU_OK) { /* behind the answer, which takes the arena */
        status = qp_call_adk_key(call, &ref, &call->key, reterr);
    }
    quipu_live_free(live);
    qp_buf_free(&event);
    return adk_end(call, status, ref.session_id, reterr);
}

/* Changes the state by an event of its own, as every change of state is one. */
quipu_status qp_route_adk_patch(qp_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_adk_body body;

    if (qp_adk_body_read(call, QP_ADK_STATE_DELTA, &body)) {
        status = adk_patch(call, body.state, reterr);
    }
    qp_adk_body_free(&body);
    return status;
}

/* A missing session is deleted already, here too.
 * The key is set behind the delete, so that conn_done() lets the session's tails look and end. */
quipu_status qp_route_adk_delete(qp_call *call, quipu_error *reterr)
{
    const quipu_session_ref ref = adk_ref(call);
    quipu_status status = adk_check_scope(call, reterr);

    if (status == QUIPU_OK) {
        status = quipu_service_delete(call->server->adk, &ref, &call->limits, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_call_adk_key(call, &ref, &call->key, reterr);
    }
    return status == QUIPU_OK ? adk_answer_null(call)
                              : adk_end(call, status, ref.session_id, reterr);
}

/* Recall finds the messages of every session as soon as they are stored: there is nothing to add
 * but the answer whether the session exists.
 * Needs the right to write, as in ADK, although it stores nothing. */
quipu_status qp_route_adk_memory(qp_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    quipu_live *live = NULL;
    qp_adk_body body;

    if (qp_adk_body_read(call, QP_ADK_SESSION_ID, &body)) {
        const quipu_session_ref ref = {call->path[0], call->path[1], body.session_id};

        status = adk_open(call, ref, 0, &live, reterr);
        status = status == QUIPU_OK ? adk_answer_null(call)
                                    : adk_end(call, status, body.session_id, reterr);
    }
    quipu_live_free(live);
    qp_adk_body_free(&body);
    return status;
}

/* ---- apps ------------------------------------------------------------------------------------ */

/* For qsort(): apps are listed in the order of their names.
 * By bytes, so that the order is the same on every machine. */
static int adk_by_name(const void *a, const void *b)
{
    return qp_str_cmp(*(const quipu_str *)a, *(const quipu_str *)b);
}

/* The apps of the newest QUIPU_PAGE_MAX sessions, each once, sorted. An app with sessions is one
 * with an agent, as far as a store knows.
 * Older apps are missing from the list and can be used all the same: a full list would read every
 * session. */
static quipu_status adk_find_apps(qp_call *call, quipu_str **ret_names, size_t *ret_count,
                                  quipu_error *reterr)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_str *names;
    size_t count = 0;
    quipu_status status;

    options.limit = QUIPU_PAGE_MAX;
    status = quipu_session_list(call->store, &options, &call->limits, &page, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    names = quipu_arena_alloc(&call->arena, (page->sessions.count + 1) * sizeof(*names));
    for (size_t i = 0; i < page->sessions.count && names != NULL && status == QUIPU_OK; i++) {
        const quipu_str name = quipu_session_info_at(page->sessions, i)->app_name;

        if (name.n > 0) {
            /* Copied, because the page is freed before the answer is written. */
            status = quipu_arena_copy(&call->arena, name, &names[count++]);
        }
    }
    quipu_free(page);
    if (names == NULL || status != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    /* Sorted first, so that equal names stand next to each other. */
    qsort(names, count, sizeof(*names), adk_by_name);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !quipu_str_eq(names[i], names[i - 1])) {
            /* In place: the number that is kept never overtakes the one that is read. */
            names[(*ret_count)++] = names[i];
        }
    }
    *ret_names = names;
    return QUIPU_OK;
}

/* An app as a name, or with what ADK reports about it: its agent has its name. */
static void adk_put_app(qp_jsonw *writer, quipu_str name, bool is_detailed)
{
    if (!is_detailed) {
        qp_jsonw_str(writer, name);
        return;
    }
    qp_jsonw_object(writer);
    qp_jsonw_put_text(writer, "name", name);
    qp_jsonw_put_text(writer, "rootAgentName", name);
    qp_jsonw_put(writer, "description", "");
    qp_jsonw_put(writer, "language", "python");
    qp_jsonw_put_bool(writer, "isComputerUse", false);
    qp_jsonw_key(writer, QUIPU_STR("agents"));
    qp_jsonw_null(writer);
    qp_jsonw_object_end(writer);
}

/* A scoped token sees the one app that it is for, also when that has no session yet.
 * No read of the store for it; a token of the whole store sees the names of all apps. */
quipu_status qp_route_adk_apps(qp_call *call, quipu_error *reterr)
{
    const bool is_detailed = qp_call_flag(call, "detailed");
    /* For a scoped token, which names an app in any case. */
    quipu_str own = call->identity->app_name;
    quipu_str *names = &own;
    size_t count = 1;
    quipu_status status = QUIPU_OK;
    qp_jsonw writer;

    if (!qp_call_is_scoped(call)) {
        status = adk_find_apps(call, &names, &count, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    if (is_detailed) {
        qp_jsonw_object(&writer);
        qp_jsonw_key(&writer, QUIPU_STR("apps"));
    }
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < count; i++) {
        adk_put_app(&writer, names[i], is_detailed);
    }
    qp_jsonw_array_end(&writer);
    if (is_detailed) {
        qp_jsonw_object_end(&writer);
    }
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* ---- without a store ------------------------------------------------------------------------- */

/* An object of texts. */
static quipu_status adk_answer_texts(qp_call *call, const char *const texts[][2], size_t count,
                                     quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    for (size_t i = 0; i < count; i++) {
        qp_jsonw_put(&writer, texts[i][0], texts[i][1]);
    }
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* About this server, in the members of ADK's answer. */
quipu_status qp_route_adk_version(qp_call *call, quipu_error *reterr)
{
    const char *const texts[][2] = {/* ADK's own server names its language here, too. */
                                    {"version", quipu_version()},
                                    {"language", "c"},
                                    {"language_version", "11"}};

    return adk_answer_texts(call, texts, 3, reterr);
}

/* Whether the process answers, as ADK has it. Whether the store takes writes is /healthz. */
quipu_status qp_route_adk_health(qp_call *call, quipu_error *reterr)
{
    const char *const texts[][2] = {{"status", "ok"}};

    return adk_answer_texts(call, texts, 1, reterr);
}

/* ADK Web asks the server that it came from. */
quipu_status qp_route_adk_config(qp_call *call, quipu_error *reterr)
{
    const char *const texts[][2] = {{"backendUrl", ""}};

    return adk_answer_texts(call, texts, 1, reterr);
}

/* ADK Web offers to run agents; this says what to do instead.
 * On the loop, without a worker: the answer is always the same. */
quipu_status qp_route_adk_run(qp_call *call, quipu_error *reterr)
{
    (void)reterr;
    qp_reply_error(&call->answer, 501, "UNSUPPORTED",
                   "quipu keeps sessions and runs no agent: run it with ADK, and give it quipu as "
                   "its session service");
    return QUIPU_OK;
}
