/* Sessions and their messages: list, create, get, change, delete, append, fork.
 *
 * Owns: nothing after a call; bodies and results are freed by the handler. Called by: workers, by
 * the table of routes. Locks: none. Transactions: each handler makes one call of the library that
 * is one transaction; where the identity has a scope, a read before it checks whose session it is:
 * no call changes the app and the user of a session.
 *
 * A token that may not read gets no answer that shows what others wrote.
 * Statuses that all handlers share: 404 for a session outside of the scope, 410 for one that has
 * expired (whole-store tokens), 409 for a revision that is another one, 413 for a batch or a text
 * beyond the library's limits, 503 with UNKNOWN when nobody can say whether a write was stored. A
 * client that leaves sets the cancel flag of the call. A write that still waits for its turn or for
 * a lock is then dropped (CANCELLED); one whose batch has its locks is carried through, and a
 * repeat with the same event ids finds it. */
#include <assert.h>

#include "base/error.h"
#include "base/str.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"

/* A screen or two of a conversation; a client that wants all of them pages. */
#define ROUTES_MESSAGES_DEFAULT 100 /* messages of a GET without a limit */

/* A session of a list with its state, read anew: both are of one moment. A session that was deleted
 * since, or belongs to another owner under the same key, is left out. One read for each session of
 * the page, which has at most QUIPU_PAGE_MAX: it is why `state` is a flag and no part of every
 * list. */
static quipu_status routes_put_stateful(qp_call *call, qp_jsonw *writer,
                                        const quipu_session_info *listed, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.flags = QUIPU_RANGE_HEADER | QUIPU_RANGE_STATE;
    status = quipu_session_get(call->store, listed->key, &range, &call->limits, &history, reterr);
    if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && quipu_str_eq(history->session->app_name, listed->app_name) &&
        quipu_str_eq(history->session->user_id, listed->user_id)) {
        qp_jsonw_object(writer);
        qp_fields_session(writer, call, history->session);
        qp_fields_state(writer, call, history);
        qp_jsonw_object_end(writer);
    }
    quipu_free(history);
    return status;
}

/* The sessions of a page, as an array.
 * The array is closed also after a failure, so that the writer stays balanced; the answer is then
 * an error, which replaces it. */
static quipu_status routes_put_sessions(qp_call *call, qp_jsonw *writer, quipu_session_infos list,
                                        quipu_error *reterr)
{
    const bool stateful = qp_call_flag(call, "state");
    quipu_status status = QUIPU_OK;

    qp_jsonw_array(writer);
    for (size_t i = 0; i < list.count && status == QUIPU_OK; i++) {
        if (stateful) {
            status = routes_put_stateful(call, writer, quipu_session_info_at(list, i), reterr);
        } else {
            qp_jsonw_object(writer);
            qp_fields_session(writer, call, quipu_session_info_at(list, i));
            qp_jsonw_object_end(writer);
        }
    }
    qp_jsonw_array_end(writer);
    return status;
}

/* A page; "next" is the position that the next request gives as "after". Forks are listed by a
 * parent that must itself be in the scope.
 * The page's texts belong to `page`, which is freed behind the last use of them. */
quipu_status qp_route_session_list(qp_call *call, quipu_error *reterr)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_status status;
    qp_jsonw writer;

    options.app_name = qp_call_text(call, "app");
    options.user_id = qp_call_text(call, "user");
    options.agent_id = qp_call_text(call, "agent");
    options.after = qp_call_text(call, "after");
    options.parent = qp_call_text(call, "parent");
    options.metadata_name = qp_call_text(call, "metadataName");
    options.metadata_text = qp_call_text(call, "metadataText");
    options.limit = qp_call_number(call, "limit", 0);
    options.flags = (qp_call_flag(call, "oldestFirst") ? QUIPU_LIST_OLDEST_FIRST : 0) |
                    (qp_call_flag(call, "expired") ? QUIPU_LIST_EXPIRED : 0);
    status = qp_call_scope(call, &options.app_name, &options.user_id, reterr);
    if (status == QUIPU_OK && options.parent.p != NULL) {
        call->key = options.parent; /* which must be in the scope, too */
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_session_list(call->store, &options, &call->limits, &page, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("sessions"));
    status = routes_put_sessions(call, &writer, page->sessions, reterr);
    /* Absent on the last page. */
    if (page->next.p != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("next"));
        qp_jsonw_str(&writer, page->next);
    }
    qp_jsonw_object_end(&writer);
    quipu_free(page);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* {"session":...}, with the messages and what lies around them if `with_messages`.
 * `history` stays the caller's. Messages take the call's arena and empty it: nothing else in the
 * answer may point into it. */
static quipu_status routes_answer_session(qp_call *call, int http_status,
                                          const quipu_history *history, bool with_messages,
                                          quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("session"));
    qp_jsonw_object(&writer);
    qp_fields_session(&writer, call, history->session);
    qp_jsonw_object_end(&writer);
    if (with_messages) {
        qp_jsonw_key(&writer, QUIPU_STR("messages"));
        status = qp_fields_messages(&writer, history->messages, &call->arena, reterr);
        qp_jsonw_put_bool(&writer, "moreBefore", history->more_before);
        qp_jsonw_put_bool(&writer, "moreAfter", history->more_after);
        qp_jsonw_put_i64(&writer, "tokensTotal", qp_fields_tokens(history->messages));
    }
    if (history->state != NULL) {
        qp_fields_state(&writer, call, history);
    }
    qp_jsonw_object_end(&writer);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, http_status, &writer, reterr) : status;
}

/* Fills in a new session from the body: its settings and, without `seq`, messages and state; with
 * it, where a fork begins.
 * App and user that the body leaves out are the token's. A body that names another app or user is
 * answered with 404, like a read of them. */
static quipu_status routes_read_new(qp_call *call, qp_json_node body, quipu_session_new *values,
                                    quipu_state_changes *state, int64_t *seq, quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (seq == NULL && qp_json_text_is(each.key, QUIPU_STR("messages"))) {
            status = qp_body_messages(each.value, &call->arena, &values->messages, reterr);
        } else if (seq == NULL && qp_json_text_is(each.key, QUIPU_STR("state"))) {
            status = qp_body_changes(call, each.value, state, reterr);
            values->state = state;
        } else if (seq != NULL && qp_json_text_is(each.key, QUIPU_STR("seq"))) {
            status = qp_body_number("seq", each.value, seq, reterr);
        } else {
            status = qp_fields_set(&call->server->new_fields, values, NULL, each.key, each.value,
                                   &call->arena, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = qp_call_scope(call, &values->app_name, &values->user_id, reterr);
    }
    return status == QUIPU_OK
               ? qp_call_check_new_key(call, values->key, values->app_name, values->user_id, reterr)
               : status;
}

/* The key of a new session is taken. A scoped token that chose it learns no more than that: not
 * whether there is a session that it could get, which may be another's.
 * Keys are unique in the store, over all users: that much cannot be hidden. */
static quipu_status routes_key_taken(const qp_call *call, quipu_status status, quipu_error *reterr)
{
    return status == QUIPU_EXISTS && qp_call_is_scoped(call)
               ? qp_error_set(reterr, status, "this key cannot be used: choose another one")
               : status;
}

/* 201 with the new session, also for a token that may not read: it shows what the body said and
 * what the store added.
 * Session, messages and state are one transaction: there is no session without its beginning. */
quipu_status qp_route_session_create(qp_call *call, quipu_error *reterr)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_state_changes state = quipu_state_changes_of(NULL, 0);
    quipu_history *history = NULL;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = routes_read_new(call, qp_json_root(&doc), &values, &state, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_session_create(call->store, &values, &call->limits, &history, reterr);
        status = routes_key_taken(call, status, reterr);
    }
    if (status == QUIPU_OK) {
        status = routes_answer_session(call, 201, history, false, reterr);
    }
    quipu_free(history);
    qp_json_free(&doc);
    return status;
}

/* "seq" has no default: a fork at the wrong message is seen only much later.
 * The parent and the child both lie in the token's scope: a fork carries no messages out of it. */
quipu_status qp_route_session_fork(qp_call *call, quipu_error *reterr)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_history *fork = NULL;
    int64_t seq = -1;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = routes_read_new(call, qp_json_root(&doc), &values, NULL, &seq, reterr);
    }
    if (status == QUIPU_OK && seq < 0) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "seq is required: the last message that both share");
    }
    if (status == QUIPU_OK) {
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_fork(call->store, call->key, seq, &values, &call->limits, &fork, reterr);
        status = routes_key_taken(call, status, reterr);
    }
    if (status == QUIPU_OK && qp_call_may_read(call)) {
        status = routes_answer_session(call, 201, fork, false, reterr);
    } else if (status == QUIPU_OK) {
        call->answer.status = 204; /* what it shares is not for this token */
    }
    quipu_free(fork);
    qp_json_free(&doc);
    return status;
}

/* The scope is checked by the header of the same snapshot as the messages and the state.
 * limit=0 sets HEADER: no message is decoded. */
quipu_status qp_route_session_get(qp_call *call, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.after_seq = qp_call_number(call, "after", 0);
    range.before_seq = qp_call_number(call, "before", 0);
    /* The table of routes bounds it by QUIPU_BATCH_MAX. */
    range.limit = qp_call_number(call, "limit", ROUTES_MESSAGES_DEFAULT);
    range.flags = (range.limit == 0 ? QUIPU_RANGE_HEADER : 0) |
                  (qp_call_flag(call, "last") ? QUIPU_RANGE_LAST : 0) |
                  (qp_call_flag(call, "view") ? QUIPU_RANGE_VIEW : 0) |
                  (qp_call_flag(call, "state") ? QUIPU_RANGE_STATE : 0);
    status = qp_call_history(call, &range, &history, reterr);
    if (status == QUIPU_OK) {
        status = routes_answer_session(call, 200, history, range.limit > 0, reterr);
    }
    quipu_free(history);
    return status;
}

/* The revision that a later change can demand as "expectedRevision".
 * A number and no session: it shows nothing that a token which only writes may not learn. */
static quipu_status routes_answer_revision(qp_call *call, int64_t revision, quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("revision"));
    qp_jsonw_i64(&writer, revision);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* Members of the body are fields of the table (qp_fields_set), but for expectedRevision, which
 * makes the change a compare-and-set.
 * 409 when the session has another revision: the client reads it again and decides. */
quipu_status qp_route_session_update(qp_call *call, quipu_error *reterr)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    int64_t revision = 0;
    qp_json_iter each;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    each = qp_json_each(status == QUIPU_OK ? qp_json_root(&doc) : (qp_json_node){NULL, 0});
    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (qp_json_text_is(each.key, QUIPU_STR("expectedRevision"))) {
            /* A condition and no setting: alone it changes nothing. */
            patch.set |= QUIPU_SET_IF_REVISION;
            status =
                qp_body_number("expectedRevision", each.value, &patch.expected_revision, reterr);
            continue;
        }
        status = qp_fields_set(&call->server->patch_fields, &patch, &patch.set, each.key,
                               each.value, &call->arena, reterr);
    }
    /* An empty patch is refused, because it is a mistake more often than a wish. */
    if (status == QUIPU_OK && (patch.set & ~(uint32_t)QUIPU_SET_IF_REVISION) == 0) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the body changes nothing");
    }
    if (status == QUIPU_OK) {
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_update(call->store, call->key, &patch, &call->limits, &revision, reterr);
    }
    if (status == QUIPU_OK) {
        status = routes_answer_revision(call, revision, reterr);
    }
    qp_json_free(&doc);
    return status;
}

/* A missing session is deleted already; for a scoped token it does not exist. Forks may belong to
 * other users: only a token of the whole store deletes them along.
 * So a missing session is 204 for a token of the whole store, and 404 for a scoped one. Forks that
 * are not deleted along keep the messages that they share. */
quipu_status qp_route_session_delete(qp_call *call, quipu_error *reterr)
{
    quipu_delete_options options = QUIPU_DELETE_OPTIONS_INIT;
    quipu_status status = qp_call_check_session(call, reterr);

    options.flags = qp_call_flag(call, "forks") ? QUIPU_DELETE_TREE : 0;
    if (status == QUIPU_OK && options.flags != 0 && qp_call_is_scoped(call)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "forks=true is for tokens of the whole store: delete the forks by "
                              "their keys");
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_delete(call->store, call->key, &options, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        call->answer.status = 204;
    }
    return status;
}

/* ---- append ---------------------------------------------------------------------------------- */

/* Strictly a boolean: "create": 1 is a mistake that must not create sessions. */
static quipu_status routes_read_create(qp_json_node value, quipu_append_options *options,
                                       quipu_error *reterr)
{
    const qp_json_kind kind = qp_json_kind_of(value);

    if (kind != QP_JSON_TRUE && kind != QP_JSON_FALSE) {
        return qp_error_set(reterr, QUIPU_INVALID, "create is true or false");
    }
    options->flags |= kind == QP_JSON_TRUE ? QUIPU_APPEND_CREATE : 0;
    return QUIPU_OK;
}

/* Settings of a session by their names.
 * They are written in the transaction of the append: a title and the message that it is about come
 * together. */
static quipu_status routes_read_settings(qp_call *call, qp_json_node value,
                                         quipu_session_patch *patch, quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(value);
    quipu_status status = qp_json_kind_of(value) == QP_JSON_OBJECT
                              ? QUIPU_OK
                              : qp_error_set(reterr, QUIPU_INVALID, "settings is an object");

    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = qp_fields_set(&call->server->patch_fields, patch, &patch->set, each.key,
                               each.value, &call->arena, reterr);
    }
    return status;
}

/* The parsed body of an append. On the handler's stack; `options` points to its siblings, so that
 * the struct must not be copied. */
typedef struct routes_append {
    quipu_messages messages;
    quipu_append_options options; /* refers to the others */
    quipu_session_patch settings;
    quipu_state_event event;
    quipu_uuid uid;
} routes_append;

/* {"changes":[...],"eventId":"...","author":"...","time":"..."}: changes of state.
 * Without a time the event gets that of the request's handling. An event id makes a repeat find the
 * first one. */
static quipu_status routes_read_event(qp_call *call, qp_json_node value, quipu_state_event *event,
                                      quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(value);
    quipu_str time = QP_STR_ABSENT;
    quipu_status status = qp_json_kind_of(value) == QP_JSON_OBJECT
                              ? qp_body_check_repeats(value, "event", reterr)
                              : qp_error_set(reterr, QUIPU_INVALID, "event is an object");

    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (qp_json_text_is(each.key, QUIPU_STR("changes"))) {
            status = qp_body_changes(call, each.value, &event->changes, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("eventId"))) {
            status = qp_body_text("eventId", each.value, &call->arena, &event->event_id, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("author"))) {
            status = qp_body_text("author", each.value, &call->arena, &event->author, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("time"))) {
            status = qp_body_text("time", each.value, &call->arena, &time, reterr);
        } else {
            status = qp_body_unknown(reterr);
        }
    }
    event->time = quipu_time_now();
    if (status == QUIPU_OK && time.p != NULL && quipu_time_parse(time, &event->time) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_INVALID, "time must be a time, as RFC 3339 writes it");
    }
    return status;
}

/* The life of the session that the client knows: a key may have been deleted and made again.
 * With it an append to a key that was deleted and created again fails and does not continue a
 * conversation that is another one. */
static quipu_status routes_read_uid(qp_call *call, qp_json_node value, routes_append *append,
                                    quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = qp_body_text("uid", value, &call->arena, &text, reterr);

    if (status == QUIPU_OK && quipu_uuid_parse(text, &append->uid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_INVALID, "uid must be a UUID");
    }
    append->options.uid = &append->uid;
    return status;
}

/* {"messages":[...],"create":true,"expectedRevision":7,"settings":{...},"event":{...},"uid":""}.
 * One pass over the members in the order of the body; each writes its part of `append`. Unknown
 * members are refused. */
static quipu_status routes_read_append(qp_call *call, qp_json_node body, routes_append *append,
                                       quipu_error *reterr)
{
    quipu_append_options *options = &append->options;
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (qp_json_text_is(each.key, QUIPU_STR("messages"))) {
            status = qp_body_messages(each.value, &call->arena, &append->messages, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("expectedRevision"))) {
            status =
                qp_body_number("expectedRevision", each.value, &options->expected_revision, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("create"))) {
            status = routes_read_create(each.value, options, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("settings"))) {
            status = routes_read_settings(call, each.value, &append->settings, reterr);
            options->settings = append->settings.set != 0 ? &append->settings : NULL;
        } else if (qp_json_text_is(each.key, QUIPU_STR("event"))) {
            status = routes_read_event(call, each.value, &append->event, reterr);
            options->event = &append->event;
        } else if (qp_json_text_is(each.key, QUIPU_STR("uid"))) {
            status = routes_read_uid(call, each.value, append, reterr);
        } else {
            status = qp_body_unknown(reterr);
        }
    }
    if (status == QUIPU_OK && append->messages.count == 0 && options->event == NULL) {
        status =
            qp_error_set(reterr, QUIPU_INVALID,
                         "messages is required and must not be empty, unless there is an event");
    }
    return status;
}

/* A session that an append creates has neither app nor user: a scoped token would lose it. */
static quipu_status routes_check_append(qp_call *call, const quipu_append_options *options,
                                        quipu_error *reterr)
{
    if ((options->flags & QUIPU_APPEND_CREATE) != 0 && qp_call_is_scoped(call)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "create is for tokens of the whole store: create "
                            "the session with POST /v1/sessions");
    }
    return qp_call_check_session(call, reterr);
}

/* Messages with event ids can be sent again after any failure: "repeated" says that they were there
 * already. firstSeq is the number of the first one in both cases.
 * Messages lie in the call's arena; the JSON document is freed before the answer is written. */
quipu_status qp_route_session_append(qp_call *call, quipu_error *reterr)
{
    routes_append append = {.options = QUIPU_APPEND_OPTIONS_INIT,
                            .settings = QUIPU_SESSION_PATCH_INIT,
                            .event = QUIPU_STATE_EVENT_INIT};
    quipu_appended appended = QUIPU_APPENDED_INIT;
    qp_jsonw writer;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = routes_read_append(call, qp_json_root(&doc), &append, reterr);
    }
    if (status == QUIPU_OK) {
        status = routes_check_append(call, &append.options, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_message_append(call->store, call->key, append.messages, &append.options,
                                      &call->limits, &appended, reterr);
    }
    qp_json_free(&doc);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_put_i64(&writer, "firstSeq", appended.first_seq);
    qp_jsonw_put_i64(&writer, "revision", appended.revision);
    /* True: all of the messages were stored before, by an earlier request with the same ids. */
    qp_jsonw_put_bool(&writer, "repeated", appended.repeated);
    if (!appended.repeated && append.messages.count > 0) {
        qp_jsonw_put_time(&writer, "time", appended.time);
    }
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
