/* The state of a session, its export, the beginning of its tail, and figures of the store.
 *
 * Owns: nothing after a call. Called by: workers, by the table of routes. Locks: none.
 * Transactions: a change of state is one event, stored in one transaction with all its names; an
 * export is one snapshot, written to a temporary file (spool.h), so that the store is not held for
 * as long as a slow client reads.
 * Statuses: 200, 204 for a patch by a token that may not read, 400 for names that the token may not
 * set, 404 outside of the scope, 409 for a tail behind the end. Names of an app are seen by all of
 * its users: a token of one user reads their values, and neither sets them nor learns who did. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "mcp/live.h"
#include "server/adk_json.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"
#include "server/spool.h"

/* ---- state ----------------------------------------------------------------------------------- */

/* Checks the scope by the header, then opens the session by its app, user and id.
 * The caller frees the live session. Two reads: what the second one finds under the same app, user
 * and id is in the same scope. */
static quipu_status state_open(qp_call *call, quipu_live **ret_live, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = qp_call_session(call, &history, reterr);

    if (status == QUIPU_OK) {
        status = qp_live_of_session(call->service, history->session, &call->limits, &call->arena,
                                    ret_live, reterr);
        quipu_free(history);
    }
    return status;
}

/* {"state":{...}}
 * The state is JSON of the library and is copied as it is. */
static quipu_status state_reply(qp_call *call, quipu_json state, quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("state"));
    qp_jsonw_raw(&writer, state.text);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* The merged state as the session sees it: its own, its user's and its app's. */
static quipu_status state_answer(qp_call *call, quipu_live *live, quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot found = QUIPU_SNAPSHOT_INIT;
    quipu_status status;

    query.flags = QUIPU_LIVE_STATE;
    status = quipu_live_get(live, &query, &call->arena, &found, reterr);
    return status == QUIPU_OK ? state_reply(call, found.state, reterr) : status;
}

/* Whether the identity may see the author of an entry: sessions of other users set the state of the
 * app, too, and a token of one user must not see them. Entries that this session set are shown. */
static bool state_may_blame(const qp_call *call, const quipu_state_entry *entry)
{
    return call->identity->user_id.p == NULL || entry->scope != QUIPU_SCOPE_APP ||
           quipu_str_eq(entry->set_in, call->key);
}

/* The index is the enum's value; 0 is not a scope. */
static const char *const state_scopes[] = {"", "app", "user", "session"}; /* by quipu_scope */

/* The author and session of an app's name are left out for a token of one user: it may have been
 * another user's session. */
static void state_put_row(qp_jsonw *writer, const qp_call *call, const quipu_state_entry *entry)
{
    qp_jsonw_object(writer);
    qp_jsonw_put(writer, "scope", state_scopes[entry->scope]);
    qp_jsonw_put_text(writer, "name", entry->name);
    qp_jsonw_key(writer, QUIPU_STR("value"));
    qp_jsonw_raw(writer, entry->value.text);
    if (state_may_blame(call, entry)) {
        qp_jsonw_put_time(writer, "setAt", entry->set_at);
        qp_jsonw_put_text(writer, "setBy", entry->set_by);
        if (entry->set_seq > 0) {
            qp_jsonw_put_i64(writer, "setSeq", entry->set_seq);
        }
        qp_jsonw_put_text(writer, "setIn", entry->set_in);
    }
    qp_jsonw_object_end(writer);
}

/* In the order of the library: app, user, session, each by name. */
static void state_put_rows(qp_jsonw *writer, const qp_call *call, quipu_state_entries entries)
{
    qp_jsonw_array(writer);
    for (size_t i = 0; i < entries.count; i++) {
        state_put_row(writer, call, quipu_state_entry_at(entries, i));
    }
    qp_jsonw_array_end(writer);
}

/* Behind "session" in the answer: what a live session of a client begins with. */
void qp_fields_state(qp_jsonw *writer, const qp_call *call, const quipu_history *history)
{
    qp_jsonw_key(writer, QUIPU_STR("state"));
    state_put_rows(writer, call, history->state->entries);
    qp_jsonw_put_time(writer, "lastEventAt", history->last_event_at);
}

/* {"blame":[...]}: the names as rows, of one snapshot.
 * The rows say for each name its scope, its value, and who set it last, when and where. */
static quipu_status state_blame(qp_call *call, quipu_error *reterr)
{
    quipu_state_list *list = NULL;
    quipu_status status = qp_call_check_session(call, reterr);
    qp_jsonw writer;

    if (status == QUIPU_OK) {
        status = quipu_state_get(call->store, call->key, &call->limits, &list, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("blame"));
    state_put_rows(&writer, call, list->entries);
    qp_jsonw_object_end(&writer);
    quipu_free(list);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* A session that never set state has an empty object. A fork fails: its state stays with the
 * session that it was made from.
 * The live session has a snapshot of its own, and is freed behind the answer. */
quipu_status qp_route_state_get(qp_call *call, quipu_error *reterr)
{
    quipu_live *live = NULL;
    quipu_status status;

    if (qp_call_flag(call, "blame")) {
        return state_blame(call, reterr);
    }
    status = state_open(call, &live, reterr);
    if (status == QUIPU_OK) {
        status = state_answer(call, live, reterr);
    }
    quipu_live_free(live);
    return status;
}

/* Its id makes it unique, its time is now.
 * The event is ADK's: an agent that reads the session finds the change among its events, by author
 * "user" and an invocation of its own, "p-" and a UUID. */
quipu_status qp_call_state_event(quipu_json names, qp_buf *event, quipu_error *reterr)
{
    /* The time of this machine; the order of events never depends on it. */
    const quipu_time now = quipu_time_now();
    char id[QUIPU_UUID_TEXT_SIZE];
    char invocation[2 + QUIPU_UUID_TEXT_SIZE] = "p-";
    quipu_uuid uuids[2];
    qp_jsonw writer;
    quipu_status status = qp_uuid_v4(&uuids[0]);

    status = status == QUIPU_OK ? qp_uuid_v4(&uuids[1]) : status;
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no random bits for an id");
    }
    quipu_uuid_format(uuids[0], invocation + 2);
    quipu_uuid_format(uuids[1], id);
    qp_jsonw_begin(&writer, event);
    qp_jsonw_object(&writer);
    qp_jsonw_put(&writer, "id", id);
    qp_jsonw_put(&writer, "invocationId", invocation);
    qp_jsonw_put(&writer, "author", "user");
    qp_jsonw_put_double(&writer, "timestamp", (double)now.s + (double)now.ns / 1e9);
    qp_jsonw_key(&writer, QUIPU_STR("actions"));
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("stateDelta"));
    qp_jsonw_raw(&writer, names.text);
    qp_jsonw_object_end(&writer);
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    return status == QUIPU_OK ? status : qp_error_set(reterr, status, "the state is too large");
}

/* Names are compared as they are decoded: an escape in the JSON must not pass by.
 * A token of an app without a user may set them. The values are not looked at. */
quipu_status qp_call_check_state(qp_call *call, quipu_json names, quipu_error *reterr)
{
    const quipu_str head = QUIPU_STR("app:");
    quipu_status status = QUIPU_OK;
    qp_json_iter each;
    qp_json_doc doc;

    if (names.text.p == NULL || call->identity->user_id.p == NULL) {
        return QUIPU_OK;
    }
    qp_json_init(&doc);
    status = qp_json_parse(&doc, names.text, NULL, reterr);
    each = qp_json_each(qp_json_root(&doc));
    while (status == QUIPU_OK && qp_json_next(&each)) {
        quipu_str name;

        if (qp_json_text_copy(each.key, &call->arena, &name) != QUIPU_OK) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
        } else if (name.n >= head.n && memcmp(name.p, head.p, head.n) == 0) {
            status = qp_error_set(reterr, QUIPU_MISUSE,
                                  "a token of one user may not change the state of the app");
        }
    }
    qp_json_free(&doc);
    return status;
}

/* ---- changes in bodies ----------------------------------------------------------------------- */

/* One row; `value` may be null, which is a value.
 * A row without `value` removes its name. A scope that is unknown stays 0 and is refused below. */
static quipu_status state_read_change(qp_call *call, qp_json_node row, quipu_state_change *change,
                                      quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(row);
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (qp_json_text_is(each.key, QUIPU_STR("name"))) {
            status = qp_body_text("name", each.value, &call->arena, &change->name, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("value"))) {
            change->value.text = qp_json_raw(each.value);
        } else if (qp_json_text_is(each.key, QUIPU_STR("scope"))) {
            for (int scope = QUIPU_SCOPE_APP; scope <= QUIPU_SCOPE_SESSION; scope++) {
                if (qp_json_kind_of(each.value) == QP_JSON_STRING &&
                    qp_json_text_is(each.value, quipu_cstr(state_scopes[scope]))) {
                    change->scope = (quipu_scope)scope;
                }
            }
        } else {
            status = qp_body_unknown(reterr);
        }
    }
    if (status == QUIPU_OK && (change->scope < QUIPU_SCOPE_APP || change->name.p == NULL)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "a change of state has a scope (app, user or session) and a name");
    }
    if (status == QUIPU_OK && change->scope == QUIPU_SCOPE_APP &&
        call->identity->user_id.p != NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a token of one user may not change the state of the app");
    }
    return status;
}

/* Each row has a scope, a name and perhaps a value. The rows stay in their order: the last of two
 * changes of a name counts, as in an event.
 * The array is the arena's, and so are the names; the values point into the body's document. */
quipu_status qp_body_changes(qp_call *call, qp_json_node array, quipu_state_changes *ret_changes,
                             quipu_error *reterr)
{
    const size_t count = qp_json_count(array);
    qp_json_iter each = qp_json_each(array);
    quipu_state_change *changes;
    quipu_status status = QUIPU_OK;
    size_t at = 0;

    if (qp_json_kind_of(array) != QP_JSON_ARRAY) {
        return qp_error_set(reterr, QUIPU_INVALID, "changes of state are an array");
    }
    changes = quipu_arena_alloc(&call->arena, count * sizeof(*changes) + 1);
    if (changes == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    while (status == QUIPU_OK && qp_json_next(&each)) {
        changes[at] = (quipu_state_change){.name = QP_STR_ABSENT};
        status = qp_body_check_repeats(each.value, "a change of state", reterr);
        if (status == QUIPU_OK) {
            status = state_read_change(call, each.value, &changes[at++], reterr);
        }
    }
    *ret_changes = quipu_state_changes_of(changes, count);
    return status;
}

/* ---- state of a user ------------------------------------------------------------------------- */

/* {"state":{...}}: the names that all sessions of a user of an app see, without "user:".
 * App and user are the token's where they are not named: a token of one user needs no parameter. */
quipu_status qp_route_user_state(qp_call *call, quipu_error *reterr)
{
    quipu_str app = qp_call_text(call, "app");
    quipu_str user = qp_call_text(call, "user");
    quipu_json state = {QP_STR_ABSENT};
    quipu_status status = qp_call_scope(call, &app, &user, reterr);

    if (status == QUIPU_OK) {
        status = quipu_service_get_user_state(call->service, app, user, &call->limits, &call->arena,
                                              &state, reterr);
    }
    return status == QUIPU_OK ? state_reply(call, state, reterr) : status;
}

/* null removes a name. The check of app: names comes before the session is opened, so that a
 * refusal depends on the request alone.
 * The event's id is new with each request: a repeat after a lost answer is a second event, which
 * sets the same names again. */
quipu_status qp_route_state_patch(qp_call *call, quipu_error *reterr)
{
    quipu_live *live = NULL;
    quipu_json names = {QP_STR_ABSENT};
    qp_json_doc doc;
    qp_buf event;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    qp_buf_init(&event, QP_HTTP_BODY_CAP);
    if (status == QUIPU_OK) {
        names.text = qp_json_raw(qp_json_root(&doc));
        status = qp_call_check_state(call, names, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_call_state_event(names, &event, reterr);
    }
    if (status == QUIPU_OK) {
        status = state_open(call, &live, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_live_append(live, (quipu_json){qp_buf_str(&event)}, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK && qp_call_may_read(call)) {
        status = state_answer(call, live, reterr);
    } else if (status == QUIPU_OK) {
        call->answer.status = 204;
    }
    quipu_live_free(live);
    qp_buf_free(&event);
    qp_json_free(&doc);
    return status;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A bound on the time of a request, not on its answer. */
#define STATE_LOOK 2000 /* messages that one request looks at without a limit */

/* Writes what a message changed, if it was an event with a state delta.
 * The two spellings are looked for without their first letter, which has two cases. */
static quipu_status state_put_change(qp_call *call, qp_jsonw *writer, quipu_messages messages,
                                     size_t index, quipu_error *reterr)
{
    const quipu_message *message = quipu_message_at(messages, index);
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_status status;
    qp_json_node delta;
    quipu_json event;
    qp_json_doc doc;

    /* Most messages change nothing: no event is built for them. */
    if (!qp_call_holds(message->extra.text, "tateDelta") &&
        !qp_call_holds(message->extra.text, "tate_delta")) {
        return QUIPU_OK;
    }
    /* One spelling for the look into the event below, whatever the runtime wrote. */
    dialect.key_case = QUIPU_KEYS_CAMEL;
    quipu_arena_reset(&call->arena); /* one message at a time */
    qp_json_init(&doc);
    status = quipu_message_to_event(messages, index, &dialect, &call->arena, &event, reterr);
    if (status == QUIPU_CORRUPT) {
        return QUIPU_OK; /* a writer of messages made it up: it was no event */
    }
    if (status == QUIPU_OK) {
        status = qp_json_parse(&doc, event.text, NULL, reterr);
    }
    if (status != QUIPU_OK) {
        qp_json_free(&doc);
        return status;
    }
    delta =
        qp_json_get(qp_json_get(qp_json_root(&doc), QUIPU_STR("actions")), QUIPU_STR("stateDelta"));
    if (qp_json_kind_of(delta) == QP_JSON_OBJECT && qp_json_count(delta) > 0) {
        qp_jsonw_object(writer);
        qp_jsonw_put_i64(writer, "seq", message->seq);
        qp_jsonw_put_text(writer, "author", message->author);
        qp_jsonw_put_time(writer, "timestamp", message->timestamp);
        qp_jsonw_key(writer, QUIPU_STR("delta"));
        qp_jsonw_raw(writer, qp_json_raw(delta));
        qp_jsonw_object_end(writer);
    }
    qp_json_free(&doc);
    return QUIPU_OK;
}

/* Looks at a bounded number of messages, so that a long history costs no request much: `next` says
 * where to go on. An event that only changed state is a message only if its service records it.
 * Newest first, so that the first page answers "who changed this?". */
quipu_status qp_route_state_changes(qp_call *call, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status = qp_call_check_session(call, reterr);
    qp_jsonw writer;

    range.flags = QUIPU_RANGE_LAST;
    range.before_seq = qp_call_number(call, "before", 0);
    range.limit = qp_call_number(call, "limit", STATE_LOOK);
    if (status == QUIPU_OK) {
        status = quipu_session_get(call->store, call->key, &range, &call->limits, &history, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("changes"));
    qp_jsonw_array(&writer);
    for (size_t i = history->messages.count; i > 0 && status == QUIPU_OK; i--) {
        status = state_put_change(call, &writer, history->messages, i - 1, reterr);
    }
    qp_jsonw_array_end(&writer);
    if (history->more_before && history->messages.count > 0) {
        qp_jsonw_put_i64(&writer, "next", quipu_message_at(history->messages, 0)->seq);
    }
    qp_jsonw_object_end(&writer);
    quipu_free(history);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* ---- export ---------------------------------------------------------------------------------- */

/* Exports one session or, without a key, the store. Writes to a file without a name, which the loop
 * sends: neither a large session nor a slow client costs memory, and no worker waits for a client.
 */
quipu_status qp_route_export(qp_call *call, quipu_error *reterr)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_status status = call->key.p != NULL ? qp_call_check_session(call, reterr) : QUIPU_OK;
    qp_spool *spool = NULL;

    if (status == QUIPU_OK) {
        status = qp_spool_new((call->server->options.flags & QUIPU_SERVER_ENCRYPTED) != 0, &spool,
                              reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Absent for /v1/export: the whole store, for a token of the whole store. */
    options.key = call->key;
    /* Ancestors of a fork may lie outside of the scope: a flat export leaves them out. */
    options.flags =
        (qp_call_flag(call, "flat") || qp_call_is_scoped(call) ? QUIPU_EXPORT_FLAT : 0) |
        (qp_call_flag(call, "heads") ? QUIPU_EXPORT_HEADS : 0);
    status = quipu_store_export(call->store, &options, qp_spool_write, spool, &call->limits, NULL,
                                reterr);
    if (status == QUIPU_OK) {
        status = qp_spool_end(spool, reterr);
    }
    if (status != QUIPU_OK) { /* the answer is an error and no half of an export */
        qp_spool_free(spool);
        return status;
    }
    call->answer.spool = spool;
    call->answer.type = "application/x-ndjson";
    call->answer.status = 200;
    return QUIPU_OK;
}

/* ---- tail ------------------------------------------------------------------------------------ */

/* The number that a stream goes on after: Last-Event-ID, which a client repeats by itself when it
 * reconnects, before the parameter. 18 digits fit an int64_t. A header that is not a number is
 * refused: ignoring it would repeat messages. */
static quipu_status state_tail_after(const qp_call *call, int64_t *ret_after, quipu_error *reterr)
{
    quipu_str last = qp_http_header(call->request, "last-event-id");
    int64_t after = 0;

    for (size_t i = 0; i < last.n; i++) {
        if (last.p[i] < '0' || last.p[i] > '9' || i == 18) {
            return qp_error_set(reterr, QUIPU_INVALID, "Last-Event-ID must be a message's number");
        }
        after = after * 10 + (last.p[i] - '0');
    }
    *ret_after = last.n > 0 ? after : qp_call_number(call, "after", 0);
    return QUIPU_OK;
}

/* A client that has seen more than there is follows another life of the session, or the store is an
 * older copy: to wait for that number would leave out what comes before it.
 * Only for the header: the parameter may wait for a message that is still to come. */
static quipu_status state_check_tail(qp_call *call, int64_t after, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = qp_call_session(call, &history, reterr);

    if (status == QUIPU_OK && after >= history->session->next_seq &&
        qp_http_header(call->request, "last-event-id").n > 0) {
        status = qp_error_set(reterr, QUIPU_CONFLICT,
                              "Last-Event-ID is beyond the end of the session, message %lld: it is "
                              "another one, or older; begin again",
                              (long long)(history->session->next_seq - 1));
    }
    quipu_free(history);
    return status;
}

/* Opens the tail; the connection goes on with it (stream.c).
 * 200 is written by the loop when the stream begins; the limits of tails are looked at once more
 * there (conn_done()). */
quipu_status qp_route_tail(qp_call *call, quipu_error *reterr)
{
    int64_t after = 0;
    quipu_status status = state_tail_after(call, &after, reterr);

    if (status == QUIPU_OK) {
        status = state_check_tail(call, after, reterr);
    }
    if (status == QUIPU_OK) {
        /* The tail is the call's until the stream takes it over; without one, conn.c closes it. */
        status = quipu_tail_open(call->store, call->key, after, &call->limits, &call->tail, reterr);
    }
    if (status == QUIPU_OK) {
        call->answer.status = 200;
        call->answer.type = "text/event-stream";
    }
    return status;
}

/* ---- figures --------------------------------------------------------------------------------- */
