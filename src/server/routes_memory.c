/* What is known of sessions: their memories, correcting and retiring one, and how far workers have
 * observed. Each handler makes one or two calls of the library, within the identity's scope. Runs
 * on workers.
 * Owns: nothing after a call. Called by: the table of routes. Locks: none. Statuses: 200, 204 for a
 * change by a token that may not read, 400 for a body that is wrong, 404 for a session or a memory
 * outside of the scope. */
#include <quipu/memory.h>

#include "base/error.h"
#include "base/str.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"

#define MEMORY_LIMIT_DEFAULT 200 /* memories of a kind that an answer has without a limit */

/* In the order of their enums in <quipu/store.h>.
 * The place in a list is the enum's value; 0 is no value, and has no name. */
static const char *const memory_kinds[] = {"", "observation", "reflection"};
static const char *const memory_priorities[] = {"", "standing", "high", "medium", "low", "done"};
static const char *const memory_topics[] = {"",           "instruction", "preference", "decision",
                                            "commitment", "question",    "person",     "quantity",
                                            "date",       "outcome",     "failure"};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A value without a name here, of a newer library, is left out rather than shown as a number that
 * means something else elsewhere. */
static void memory_put_name(qp_jsonw *writer, const char *name, const char *const *names,
                            size_t count, size_t value)
{
    if (value > 0 && value < count) {
        qp_jsonw_put(writer, name, names[value]);
    }
}

/* Members by the table of fields, and the enums by their names. */
static void memory_put(qp_call *call, qp_jsonw *writer, const quipu_memory *memory)
{
    qp_jsonw_object(writer);
    memory_put_name(writer, "kind", memory_kinds, COUNT_OF(memory_kinds), memory->kind);
    memory_put_name(writer, "priority", memory_priorities, COUNT_OF(memory_priorities),
                    memory->priority);
    memory_put_name(writer, "topic", memory_topics, COUNT_OF(memory_topics), memory->topic);
    /* A buffered memory was observed ahead and is not part of the block of memory yet. */
    qp_jsonw_put_bool(writer, "buffered", memory->state == QUIPU_MEMORY_BUFFERED);
    qp_fields_members(writer, &call->server->memory_fields, memory);
    qp_jsonw_object_end(writer);
}

/* The newest of one kind, in the order of creation; *more is set when there are older ones.
 * One more than the limit is asked for: if it comes, there are older ones, and it is not shown. */
static quipu_status memory_put_kind(qp_call *call, qp_jsonw *writer, quipu_memory_kind kind,
                                    bool *more, quipu_error *reterr)
{
    const int64_t limit = qp_call_number(call, "limit", MEMORY_LIMIT_DEFAULT);
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_status status;
    size_t skip;

    query.kind = kind;
    query.session_key = call->key;
    query.recent = limit + 1;
    query.flags = (qp_call_flag(call, "retired") ? QUIPU_MEMORY_RETIRED : 0) |
                  (qp_call_flag(call, "scope") ? QUIPU_MEMORY_SCOPE : 0);
    status = quipu_memory_find(call->store, &query, &call->limits, &list, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* The list is in the order of creation, so that the ones too many stand in front. */
    skip = list->memories.count > (size_t)limit ? list->memories.count - (size_t)limit : 0;
    *more = *more || skip > 0;
    for (size_t i = skip; i < list->memories.count; i++) {
        memory_put(call, writer, quipu_memory_at(list->memories, i));
    }
    quipu_free(list);
    return QUIPU_OK;
}

/* Reflections first: they summarize the observations.
 * The header is read for every token: a session that does not exist is 404 and not an empty list.
 * Two reads follow; a memory that is committed between them is shown or not, which a client cannot
 * distinguish from asking a moment earlier. */
quipu_status qp_route_memory_list(qp_call *call, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = qp_call_session(call, &history, reterr);
    bool more = false;
    qp_jsonw writer;

    quipu_free(history);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("memories"));
    qp_jsonw_array(&writer);
    status = memory_put_kind(call, &writer, QUIPU_REFLECTION, &more, reterr);
    if (status == QUIPU_OK) {
        status = memory_put_kind(call, &writer, QUIPU_OBSERVATION, &more, reterr);
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_put_bool(&writer, "more", more);
    qp_jsonw_object_end(&writer);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* ---- change ---------------------------------------------------------------------------------- */

/* Names the member and what it must be: a client corrects its request by this text. */
static quipu_status memory_wrong(const char *name, const char *rule, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, "body", name, "type", "%s must be %s", name, rule);
}

/* A text of the body that is one of several names; `*ret_value` is its number.
 * 0 is skipped: the empty text is no name. */
static quipu_status memory_take_name(const char *name, qp_json_node value, const char *const *names,
                                     size_t count, size_t *ret_value, quipu_error *reterr)
{
    for (size_t i = 1; i < count; i++) {
        if (qp_json_text_is(value, quipu_cstr(names[i]))) {
            *ret_value = i;
            return QUIPU_OK;
        }
    }
    return memory_wrong(name, "one of the names that GET answers with", reterr);
}

/* null is an absent text: it clears a subject, and is refused by the library where a text must be.
 * The copy lies in the call's arena. */
static quipu_status memory_take_text(qp_call *call, const char *name, qp_json_node value,
                                     quipu_str *ret_text, quipu_error *reterr)
{
    if (qp_json_kind_of(value) == QP_JSON_NULL) {
        *ret_text = QP_STR_ABSENT;
        return QUIPU_OK;
    }
    if (qp_json_kind_of(value) != QP_JSON_STRING) {
        return memory_wrong(name, "a text", reterr);
    }
    return qp_json_text_copy(value, &call->arena, ret_text) == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
}

/* One member of the body.
 * "retire": false is refused: a retired memory does not come back by a patch. */
static quipu_status memory_take(qp_call *call, qp_json_node name, qp_json_node value,
                                quipu_memory_patch *patch, quipu_error *reterr)
{
    size_t number = 0;
    quipu_status status;

    if (qp_json_text_is(name, QUIPU_STR("kind"))) {
        status =
            memory_take_name("kind", value, memory_kinds, COUNT_OF(memory_kinds), &number, reterr);
        patch->kind = (quipu_memory_kind)number;
        return status;
    }
    if (qp_json_text_is(name, QUIPU_STR("priority"))) {
        status = memory_take_name("priority", value, memory_priorities, COUNT_OF(memory_priorities),
                                  &number, reterr);
        patch->priority = (quipu_memory_priority)number;
        patch->set |= QUIPU_MEMORY_SET_PRIORITY;
        return status;
    }
    if (qp_json_text_is(name, QUIPU_STR("content"))) {
        patch->set |= QUIPU_MEMORY_SET_CONTENT;
        return memory_take_text(call, "content", value, &patch->content, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("subject"))) {
        patch->set |= QUIPU_MEMORY_SET_SUBJECT;
        return memory_take_text(call, "subject", value, &patch->subject, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("why"))) {
        return memory_take_text(call, "why", value, &patch->why, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("retire"))) {
        if (qp_json_kind_of(value) != QP_JSON_TRUE) {
            return memory_wrong("retire", "true", reterr);
        }
        patch->set |= QUIPU_MEMORY_RETIRE;
        return QUIPU_OK;
    }
    return qp_body_unknown(reterr);
}

/* The path's id must be a memory of the path's session: what the identity may change follows from
 * the session.
 * One answer for an id that does not exist and for one of another session. */
static quipu_status memory_check(qp_call *call, const quipu_memory_patch *patch,
                                 quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_status status;

    query.kind = patch->kind;
    /* By id alone: the session is compared with the path below. */
    query.ids = &patch->id;
    query.id_count = 1;
    status = quipu_memory_find(call->store, &query, &call->limits, &list, reterr);
    if (status == QUIPU_OK &&
        (list->memories.count == 0 ||
         !quipu_str_eq(quipu_memory_at(list->memories, 0)->session_key, call->key))) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "the session has no such memory");
    }
    quipu_free(list);
    return status;
}

/* Who changed a memory is not the client's to say: it is the note that the maker of the token
 * wrote.
 * An id that is no UUID is 404: no memory has it, and the path is right otherwise. */
static quipu_status memory_read_patch(qp_call *call, qp_json_node body, quipu_memory_patch *patch,
                                      quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    /* Before the body's members: the path decides which memory it is. */
    if (quipu_uuid_parse(call->path[1], &patch->id) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "the session has no such memory");
    }
    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = memory_take(call, each.key, each.value, patch, reterr);
    }
    if (status == QUIPU_OK && (patch->kind == 0 || patch->set == 0)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the body needs a kind, and what to change: content, priority, "
                              "subject or retire");
    }
    /* Who did it: the token, by what its maker wrote down about it, else by its id. */
    patch->who = call->identity->note.n > 0 && call->identity->note.n <= QUIPU_EDITED_BY_MAX
                     ? call->identity->note
                     : quipu_cstr(call->identity->id);
    return status;
}

/* Parse, scope, whose memory, change: the store is not asked before the body is right, and the
 * change is one transaction. */
quipu_status qp_route_memory_update(qp_call *call, quipu_error *reterr)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *changed = NULL;
    qp_json_doc doc;
    qp_jsonw writer;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_read_patch(call, qp_json_root(&doc), &patch, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_check(call, &patch, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_memory_update(call->store, &patch, &call->limits, &changed, reterr);
    }
    if (status == QUIPU_OK && qp_call_may_read(call)) {
        qp_jsonw_begin(&writer, &call->answer.body);
        qp_jsonw_object(&writer);
        qp_jsonw_key(&writer, QUIPU_STR("memory"));
        memory_put(call, &writer, quipu_memory_at(changed->memories, 0));
        qp_jsonw_object_end(&writer);
        status = qp_reply_json(&call->answer, 200, &writer, reterr);
    } else if (status == QUIPU_OK) {
        call->answer.status = 204;
    }
    quipu_free(changed);
    qp_json_free(&doc);
    return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Why a worker failed. A token of one user learns that it did: the text may be that of a model's
 * provider, with its host and the account of the operator.
 * That there is an error is shown to everybody: a client must see that its session is not observed.
 * */
static void memory_put_error(const qp_call *call, qp_jsonw *writer, const char *name,
                             quipu_str text)
{
    /* A token of an app, or of the whole store, is an operator's. */
    const bool may_know = call->identity->user_id.p == NULL;

    qp_jsonw_put_text(writer, name,
                      may_know || text.p == NULL ? text : QUIPU_STR("the worker failed"));
}

/* Figures by the names of the struct, in its order.
 * Times that do not exist are left out. */
static void memory_put_progress(const qp_call *call, qp_jsonw *writer,
                                const quipu_memory_progress *progress)
{
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        /* Numbers of messages, then counts, then what models cost so far. */
        {"watermark", progress->watermark},
        {"lastSeq", progress->last_seq},
        {"pendingMessages", progress->pending_messages},
        {"pendingTokens", progress->pending_tokens},
        {"observeTokens", progress->observe_tokens},
        {"generation", progress->generation},
        {"observations", progress->observations},
        {"reflections", progress->reflections},
        {"standingTokens", progress->standing_tokens},
        {"tries", progress->tries},
        {"modelCalls", progress->model_calls},
        {"modelInput", progress->model_input},
        {"modelOutput", progress->model_output},
        {"modelCost", progress->model_cost},
        {"modelUnpriced", progress->model_unpriced},
    };

    qp_jsonw_object(writer);
    qp_jsonw_put_text(writer, "key", progress->session_key);
    qp_jsonw_put_text(writer, "scope", progress->scope);
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        qp_jsonw_put_i64(writer, figures[i].name, figures[i].value);
    }
    /* The worker that claimed the job: the name that it gave itself, and the id of its claim. */
    qp_jsonw_put_text(writer, "owner", progress->owner);
    if (progress->has_lease_until) {
        qp_jsonw_put_time(writer, "leaseUntil", progress->lease_until);
    }
    if (progress->has_next_at) {
        qp_jsonw_put_time(writer, "nextAt", progress->next_at);
    }
    memory_put_error(call, writer, "lastError", progress->last_error);
    memory_put_error(call, writer, "reflectError", progress->reflect_error);
    qp_jsonw_object_end(writer);
}

/* The library's list for one session, for a user of an app, or for the whole store, as far as the
 * token reaches.
 * `more` without a cursor: the list is for looking, and names of an app or a session narrow it. */
quipu_status qp_route_memory_progress(qp_call *call, quipu_error *reterr)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_status status = QUIPU_OK;
    qp_jsonw writer;

    call->key = qp_call_text(call, "key");
    options.session_key = call->key;
    if (call->key.p != NULL) { /* a session is a scope of its own */
        status = qp_call_check_session(call, reterr);
    } else {
        /* Absent names are filled in from the token by qp_call_scope(). */
        options.app_name = qp_call_text(call, "app");
        options.user_id = qp_call_text(call, "user");
        status = qp_call_scope(call, &options.app_name, &options.user_id, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_memory_status(call->store, &options, &call->limits, &list, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("sessions"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < list->sessions.count; i++) {
        memory_put_progress(call, &writer, quipu_memory_progress_at(list->sessions, i));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_put_bool(&writer, "more", list->more);
    qp_jsonw_object_end(&writer);
    quipu_free(list);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
