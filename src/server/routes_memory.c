/* Memories of sessions: listing, correcting and retiring one, and how far workers have observed.
 * Each handler makes one or two calls of the library, within the identity's scope. Runs on workers.
 * Owns: nothing after a call. Called by: the table of routes. Locks: none. Statuses: 200, 204 for a
 * change by a token that may not read, 400 for a body that is wrong, 404 for a session or a memory
 * outside of the scope.
 *
 *   /v1/sessions/{key}/memories        of one session: list, change
 *   /v1/memories                       by a key or by ids, of any session in the scope
 *   /v1/memory                         how far workers have observed
 *
 * A memory belongs to a session, and a token to an app and a user: whose a memory is follows from
 * its session, which is looked up each time (memory_session_check()). */
#include <assert.h>
#include <string.h>

#include <quipu/memory.h>

#include "base/error.h"
#include "base/memory_json.h"
#include "base/str.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"

#define MEMORY_LIMIT_DEFAULT 200 /* memories of a kind that an answer has without a limit */

#define MEMORY_NAMES "one of the names that GET answers with"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Members by the table of fields, and the enums by their names. The same writer as that of a remote
 * store's requests (base/memory_json.h). */
static void memory_put(qp_call *call, qp_jsonw *writer, const quipu_memory *memory)
{
    qp_memory_write(writer, &call->server->memory_fields, memory);
}

/* The memory as it is now, for a caller that may read; for one that may only write, that it is. */
static quipu_status memory_reply(qp_call *call, int http_status, const quipu_memory *memory,
                                 quipu_error *reterr)
{
    qp_jsonw writer;

    if (!qp_call_may_read(call)) {
        call->answer.status = 204;
        return QUIPU_OK;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("memory"));
    memory_put(call, &writer, memory);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, http_status, &writer, reterr);
}

/* The newest of one kind, in the order of creation; *more is set when there are older ones. One
 * more than the limit is asked for: if it comes, there are older ones, and it is not shown. The
 * array is open: both kinds go into one list. */
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
    query.flags = (qp_call_flag(call, "retired") ? QUIPU_MEMORY_FIND_RETIRED : 0) |
                  (qp_call_flag(call, "scope") ? QUIPU_MEMORY_FIND_SCOPE : 0);
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

/* Names the member and what it must be: a client corrects its request by this text. The error's
 * field is the member, so that a program need not read the text. */
static quipu_status memory_wrong(const char *name, const char *rule, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, "body", name, "type", "%s must be %s", name, rule);
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

/* One member of the body. "who" is for programs that act for many people, and a member only where
 * the path names no session. "retire": false is refused: a retired memory does not come back by a
 * patch. No member comes twice: qp_body_parse() has refused that. */
static quipu_status memory_take(qp_call *call, qp_json_node name, qp_json_node value,
                                quipu_memory_patch *patch, quipu_error *reterr)
{
    if (qp_json_text_is(name, QUIPU_STR("kind"))) {
        patch->kind = qp_memory_kind_of(value);
        return (int)patch->kind != 0 ? QUIPU_OK : memory_wrong("kind", MEMORY_NAMES, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("priority"))) {
        patch->priority = qp_memory_priority_of(value);
        patch->set |= QUIPU_MEMORY_SET_PRIORITY;
        return patch->priority != QUIPU_PRIORITY_NONE
                   ? QUIPU_OK
                   : memory_wrong("priority", MEMORY_NAMES, reterr);
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
    if (qp_json_text_is(name, QUIPU_STR("who")) && call->key.p == NULL) {
        return memory_take_text(call, "who", value, &patch->who, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("retire"))) {
        if (qp_json_kind_of(value) != QP_JSON_TRUE) {
            return memory_wrong("retire", "true", reterr);
        }
        patch->set |= QUIPU_MEMORY_SET_RETIRED;
        return QUIPU_OK;
    }
    return qp_body_unknown(reterr);
}

/* Whether a session lies in the identity's scope. A session that does not exist lies in no scope.
 * The check reads call->key, which is the path's: it is lent another one and gets its own back. */
static quipu_status memory_session_check(qp_call *call, quipu_str key, quipu_error *reterr)
{
    const quipu_str path_key = call->key;
    quipu_status status;

    call->key = key;
    status = qp_call_check_session(call, reterr);
    call->key = path_key;
    return status;
}

/* One answer for an id that does not exist, and for one of another session. */
static quipu_status memory_missing(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOT_FOUND, "the session has no such memory");
}

/* The path's id must be a memory of the path's session, or, where the path names no session, of one
 * in the identity's scope: what the identity may change follows from the session. */
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
         (call->key.p != NULL &&
          !quipu_str_eq(quipu_memory_at(list->memories, 0)->session_key, call->key)))) {
        status = memory_missing(reterr);
    }
    if (status == QUIPU_OK && call->key.p == NULL) {
        status =
            memory_session_check(call, quipu_memory_at(list->memories, 0)->session_key, reterr);
        status = status == QUIPU_NOT_FOUND ? memory_missing(reterr) : status;
    }
    quipu_free(list);
    return status;
}

/* A token of an app or a user cannot choose the author of a change: the author is the note in the
 * token file. An id that is not a UUID gets 404, because no memory has it. */
static quipu_status memory_read_patch(qp_call *call, qp_json_node body, quipu_memory_patch *patch,
                                      quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    /* Before the body's members: the path decides which memory it is. */
    if (quipu_uuid_parse(call->path[call->key.p != NULL ? 1 : 0], &patch->id) != QUIPU_OK) {
        return memory_missing(reterr);
    }
    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = memory_take(call, each.key, each.value, patch, reterr);
    }
    if (status == QUIPU_OK && (patch->kind == 0 || patch->set == 0)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the body needs a kind, and what to change: content, priority, "
                              "subject or retire");
    }
    /* The author of a change: the token's note, else its id. The body's author counts with a token
     * of the whole store only. */
    if (patch->who.n == 0 || qp_call_is_scoped(call)) {
        patch->who = call->identity->note.n > 0 && call->identity->note.n <= QUIPU_EDITED_BY_MAX
                         ? call->identity->note
                         : quipu_cstr(call->identity->id);
    }
    return status;
}

/* Parse, scope, whose memory, change: the store is not asked before the body is right, and the
 * change is one transaction. */
quipu_status qp_route_memory_update(qp_call *call, quipu_error *reterr)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *changed = NULL;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK && call->key.p != NULL) {
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
    if (status == QUIPU_OK) {
        status = memory_reply(call, 200, quipu_memory_at(changed->memories, 0), reterr);
    }
    quipu_free(changed);
    qp_json_free(&doc);
    return status;
}

/* ---- by session or by ids -------------------------------------------------------------------- */

/* Reads "id,id,..." into the call's arena. As many as a client's line of the request holds
 * (QP_MEMORY_IDS_MAX): one allocation has room for all. */
static quipu_status memory_read_ids(qp_call *call, quipu_str text, quipu_memory_query *query,
                                    quipu_error *reterr)
{
    quipu_uuid *ids = quipu_arena_alloc(&call->arena, QP_MEMORY_IDS_MAX * sizeof(*ids));
    size_t count = 0;

    if (ids == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    while (text.n > 0) {
        const char *comma = memchr(text.p, ',', text.n);
        const size_t n = comma != NULL ? (size_t)(comma - text.p) : text.n;

        if (count == QP_MEMORY_IDS_MAX) {
            return qp_error_set(reterr, QUIPU_LIMIT,
                                "ids has more than %d ids: ask for them in "
                                "several requests",
                                QP_MEMORY_IDS_MAX);
        }
        if (quipu_uuid_parse((quipu_str){text.p, n}, &ids[count]) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_INVALID,
                                "ids must be UUIDs with commas between them");
        }
        count++;
        text = comma != NULL ? (quipu_str){comma + 1, text.n - n - 1} : (quipu_str){text.p, 0};
    }
    query->ids = ids;
    query->id_count = count;
    return QUIPU_OK;
}

/* The query that the parameters name: of a session, which must lie in the identity's scope, or of
 * ids, whose sessions memory_keep_own() looks at. The library refuses neither and both.
 */
static quipu_status memory_read_query(qp_call *call, quipu_memory_query *query, quipu_error *reterr)
{
    const quipu_str kind = qp_call_text(call, "kind");
    const quipu_str ids = qp_call_text(call, "ids");

    call->key = qp_call_text(call, "key");
    query->kind = quipu_str_eq(kind, QUIPU_STR("observation"))  ? QUIPU_OBSERVATION
                  : quipu_str_eq(kind, QUIPU_STR("reflection")) ? QUIPU_REFLECTION
                                                                : (quipu_memory_kind)0;
    query->session_key = call->key;
    query->from_seq = qp_call_number(call, "from", 0);
    query->to_seq = qp_call_number(call, "to", 0);
    if ((int)query->kind == 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "kind must be observation or reflection");
    }
    if (ids.p != NULL) {
        return memory_read_ids(call, ids, query, reterr);
    }
    return call->key.p != NULL ? qp_call_check_session(call, reterr) : QUIPU_OK;
}

/* Drops memories outside of the identity's scope from a list by ids, as if they did not exist. Each
 * memory may be of another session; rows of one session mostly stand together. The session that was
 * checked last is remembered, so that a list of one session costs one read. */
static quipu_status memory_keep_own(qp_call *call, quipu_memory_list *list, quipu_memory *kept,
                                    size_t *ret_count, quipu_error *reterr)
{
    quipu_str checked = QP_STR_ABSENT;
    quipu_status status = QUIPU_OK;
    size_t count = 0;

    for (size_t i = 0; i < list->memories.count && status == QUIPU_OK; i++) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i);

        if (checked.p == NULL || !quipu_str_eq(checked, memory->session_key)) {
            status = memory_session_check(call, memory->session_key, reterr);
            checked = status == QUIPU_OK ? memory->session_key : QP_STR_ABSENT;
        }
        if (status == QUIPU_OK) {
            kept[count++] = *memory;
        }
        status = status == QUIPU_NOT_FOUND ? QUIPU_OK : status;
    }
    *ret_count = count;
    return status;
}

/* The memories of a query by ids that the identity may see, in the call's arena, whose texts are
 * those of *ret_list; without a scope all of them. *ret_list is the caller's to free, when the
 * memories were written. */
static quipu_status memory_find_own(qp_call *call, const quipu_memory_query *query,
                                    quipu_memory_list **ret_list, quipu_memories *ret_own,
                                    quipu_error *reterr)
{
    quipu_memory_list *list = NULL;
    quipu_memory *kept = NULL;
    size_t count = 0;
    quipu_status status = quipu_memory_find(call->store, query, &call->limits, &list, reterr);

    if (status == QUIPU_OK && (query->ids == NULL || !qp_call_is_scoped(call))) {
        *ret_own = list->memories;
        *ret_list = list;
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        assert(list->memories.count <= QP_MEMORY_IDS_MAX);
        kept = quipu_arena_alloc(&call->arena, QP_MEMORY_IDS_MAX * sizeof(*kept));
        status = kept != NULL ? memory_keep_own(call, list, kept, &count, reterr)
                              : qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    if (status != QUIPU_OK) {
        quipu_free(list);
        return status;
    }
    *ret_own = quipu_memories_of(kept, count);
    *ret_list = list;
    return QUIPU_OK;
}

/* Lists what the library's call finds: all memories of a session, or its newest; for ids, those
 * that exist. A session that does not exist may have memories, saved for it before it is created;
 * only a token without a scope gets them. */
quipu_status qp_route_memories_find(qp_call *call, quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_memories own = quipu_memories_of(NULL, 0);
    quipu_status status = memory_read_query(call, &query, reterr);
    qp_jsonw writer;

    query.recent = qp_call_number(call, "recent", 0);
    query.flags = (qp_call_flag(call, "retired") ? QUIPU_MEMORY_FIND_RETIRED : 0) |
                  (qp_call_flag(call, "scope") ? QUIPU_MEMORY_FIND_SCOPE : 0);
    if (status == QUIPU_OK) {
        status = memory_find_own(call, &query, &list, &own, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("memories"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < own.count; i++) {
        memory_put(call, &writer, quipu_memory_at(own, i));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_object_end(&writer);
    quipu_free(list);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* The ids of what the identity may delete take the place of those that were asked for. Between the
 * two calls a memory cannot move to another session. An empty list deletes nothing: the ids are an
 * array without elements, and not absent. */
static quipu_status memory_narrow(qp_call *call, quipu_memory_query *query, quipu_error *reterr)
{
    quipu_memory_list *list = NULL;
    quipu_memories own = quipu_memories_of(NULL, 0);
    quipu_uuid *ids = quipu_arena_alloc(&call->arena, QP_MEMORY_IDS_MAX * sizeof(*ids));
    quipu_status status = ids != NULL ? memory_find_own(call, query, &list, &own, reterr)
                                      : qp_error_set(reterr, QUIPU_NOMEM, "out of memory");

    if (status == QUIPU_OK) {
        for (size_t i = 0; i < own.count; i++) {
            ids[i] = quipu_memory_at(own, i)->id;
        }
        query->ids = ids;
        query->id_count = own.count;
    }
    quipu_free(list);
    return status;
}

/* One transaction, as in the library; unknown ids are ignored. A token that may not read gets no
 * count, because the count would show how many memories there were. */
quipu_status qp_route_memories_delete(qp_call *call, quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    int64_t removed = 0;
    quipu_status status = memory_read_query(call, &query, reterr);
    qp_jsonw writer;

    if (status == QUIPU_OK && query.ids != NULL && qp_call_is_scoped(call)) {
        status = memory_narrow(call, &query, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_memory_delete(call->store, &query, &call->limits, &removed, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (!qp_call_may_read(call)) {
        call->answer.status = 204;
        return QUIPU_OK;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_put_i64(&writer, "removed", removed);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* ---- save ------------------------------------------------------------------------------------ */

/* A member of the table of fields, by the same reader as a client's. */
static quipu_status memory_take_field(qp_call *call, qp_json_node body, qp_json_node name,
                                      quipu_memory *memory, quipu_error *reterr)
{
    const qp_json_fields *fields = &call->server->memory_fields;

    for (size_t i = 0; i < fields->count; i++) {
        const struct qp_field_name *item = &fields->items[i];

        if (qp_json_text_is(name, quipu_cstr(item->name)) && qp_memory_is_given(item->name)) {
            return qp_fields_take_one(item, body, &call->arena, memory)
                       ? QUIPU_OK
                       : qp_error_field(reterr, QUIPU_INVALID, "body", item->name, "type",
                                        "%s has a value of a wrong type", item->name);
        }
    }
    return qp_body_unknown(reterr);
}

/* A member of the body of a save. A wrong name of an enum is reported. The four members that are
 * not plain fields are read here, all others by the table. */
static quipu_status memory_take_new(qp_call *call, qp_json_node body, qp_json_node name,
                                    qp_json_node value, quipu_memory *memory, quipu_error *reterr)
{
    if (qp_json_text_is(name, QUIPU_STR("kind"))) {
        memory->kind = qp_memory_kind_of(value);
        return (int)memory->kind != 0 ? QUIPU_OK : memory_wrong("kind", MEMORY_NAMES, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("priority"))) {
        memory->priority = qp_memory_priority_of(value);
        return memory->priority != QUIPU_PRIORITY_NONE
                   ? QUIPU_OK
                   : memory_wrong("priority", MEMORY_NAMES, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("topic"))) {
        memory->topic = qp_memory_topic_of(value);
        return memory->topic != QUIPU_TOPIC_NONE ? QUIPU_OK
                                                 : memory_wrong("topic", MEMORY_NAMES, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("buffered"))) {
        const qp_json_kind kind = qp_json_kind_of(value);

        memory->state =
            kind == QP_JSON_TRUE ? QUIPU_MEMORY_STATE_BUFFERED : QUIPU_MEMORY_STATE_ACTIVE;
        return kind == QP_JSON_TRUE || kind == QP_JSON_FALSE
                   ? QUIPU_OK
                   : memory_wrong("buffered", "true or false", reterr);
    }
    return memory_take_field(call, body, name, memory, reterr);
}

/* The session of a scoped token must exist; with another token it need not, as in the library.
 * Members are read by the table of fields, those that the store sets are unknown here: a client
 * cannot claim a number or a time. 201 with the memory as it was stored. */
quipu_status qp_route_memories_save(qp_call *call, quipu_error *reterr)
{
    quipu_memory memory = {.kind = (quipu_memory_kind)0};
    quipu_memory_list *saved = NULL;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);
    qp_json_iter each = qp_json_each(qp_json_root(&doc));

    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = memory_take_new(call, qp_json_root(&doc), each.key, each.value, &memory, reterr);
    }
    if (status == QUIPU_OK && ((int)memory.kind == 0 || memory.session_key.p == NULL)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the body needs a kind, a sessionKey and a content");
    }
    if (status == QUIPU_OK) {
        call->key = memory.session_key;
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_memory_save(call->store, quipu_memories_of(&memory, 1), &call->limits,
                                   &saved, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_reply(call, 201, quipu_memory_at(saved->memories, 0), reterr);
    }
    quipu_free(saved);
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
    qp_jsonw_put_i64(writer, "fence", progress->fence);
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
    /* The model is not asked; its presence decides which threshold is shown. */
    static const quipu_provider asks = QUIPU_PROVIDER_INIT;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_status status = QUIPU_OK;
    qp_jsonw writer;

    call->key = qp_call_text(call, "key");
    options.session_key = call->key;
    options.observe_tokens = qp_call_number(call, "observeTokens", 0);
    options.provider = qp_call_flag(call, "asksModel") ? &asks : NULL;
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
