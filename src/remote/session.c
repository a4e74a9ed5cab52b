/* Sessions and messages at a server (remote.h): each call is one request of docs/server.md, a long
 * history several. Called through the store's table, from any thread; owns nothing. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/uuid.h"
#include "remote/remote.h"

#define SESSION_PAGE 1000 /* messages of one request */
#define SESSION_LIST_MAX ((size_t)1 << 34)

#define SESSIONS QUIPU_STR("sessions")

/* ---- reading --------------------------------------------------------------------------------- */

static quipu_status session_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a server's answer");
}

/* The running totals of the messages from byte `begin` of the list on: an answer has that of its
 * last one, and a summary, which counts nothing, may stand before the others. */
static void session_count(qp_buf *list, size_t begin, int64_t total)
{
    for (size_t at = list->n; at > begin; at -= sizeof(quipu_message)) {
        quipu_message message;

        memcpy(&message, list->p + at - sizeof(message), sizeof(message));
        message.tokens_total = total;
        total = qp_difference(total, message.tokens);
        memcpy(list->p + at - sizeof(message), &message, sizeof(message));
    }
}

quipu_status qp_remote_messages(qp_json_node answer, quipu_arena *arena, qp_buf *list,
                                quipu_error *reterr)
{
    const qp_json_node array = qp_json_get(answer, QUIPU_STR("messages"));
    qp_json_iter each = qp_json_each(array);
    const size_t begin = list->n;
    int64_t total = 0;

    if (qp_json_kind_of(array) != QP_JSON_ARRAY) {
        return qp_remote_malformed(reterr);
    }
    while (qp_json_next(&each)) {
        quipu_messages one;
        quipu_status status = quipu_message_parse(qp_json_raw(each.value), arena, &one, reterr);

        if (status != QUIPU_OK) {
            return status == QUIPU_NOMEM ? status : qp_remote_malformed(reterr);
        }
        assert(one.count == 1);
        qp_buf_put(list,
                   (quipu_str){(const char *)quipu_message_at(one, 0), sizeof(quipu_message)});
    }
    if (qp_buf_status(list) != QUIPU_OK) {
        return session_nomem(reterr);
    }
    (void)qp_json_int64(qp_json_get(answer, QUIPU_STR("tokensTotal")), &total);
    session_count(list, begin, total);
    return QUIPU_OK;
}

quipu_status qp_remote_messages_end(const qp_buf *list, quipu_arena *arena,
                                    quipu_messages *ret_messages, quipu_error *reterr)
{
    quipu_message *messages = quipu_arena_alloc(arena, list->n + 1);

    if (messages == NULL) {
        return session_nomem(reterr);
    }
    if (list->n > 0) {
        memcpy(messages, list->p, list->n);
    }
    *ret_messages = quipu_messages_of(messages, list->n / sizeof(*messages));
    return QUIPU_OK;
}

/* One page of a range. *after moves behind it; *ret_more: another page follows. */
static quipu_status session_page(void *ctx, const qp_call *call, const qp_remote_read *read,
                                 int64_t limit, int64_t *after, qp_buf *list, bool *ret_more,
                                 quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS, read->key};
    const uint32_t flags = read->range->flags;
    const bool is_first = list->n == 0;
    qp_remote_ask ask;
    qp_json_node root;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 2);
    qp_remote_text(&ask, "limit", limit == 0 ? QUIPU_STR("0") : QP_STR_ABSENT);
    qp_remote_number(&ask, "limit", limit);
    qp_remote_number(&ask, "after", *after);
    qp_remote_number(&ask, "before", read->range->before_seq);
    qp_remote_flag(&ask, "last", (flags & QUIPU_RANGE_LAST) != 0 && read->range->limit > 0);
    qp_remote_flag(&ask, "view", (flags & QUIPU_RANGE_VIEW) != 0);
    status = qp_remote_run(&ask, reterr);
    root = qp_json_root(&ask.doc);
    if (status == QUIPU_OK &&
        !qp_fields_take(&server->info, qp_json_get(root, QUIPU_STR("session")), read->arena,
                        read->session)) {
        status = qp_remote_malformed(reterr);
    }
    if (status == QUIPU_OK && limit > 0) {
        status = qp_remote_messages(root, read->arena, list, reterr);
    }
    *ret_more = qp_json_kind_of(qp_json_get(root, QUIPU_STR("moreAfter"))) == QP_JSON_TRUE;
    if (is_first) {
        read->history->more_before =
            qp_json_kind_of(qp_json_get(root, QUIPU_STR("moreBefore"))) == QP_JSON_TRUE;
    }
    if (status == QUIPU_OK && list->n >= sizeof(quipu_message)) {
        quipu_message last;

        memcpy(&last, list->p + list->n - sizeof(last), sizeof(last));
        *after = last.seq;
    }
    qp_remote_end(&ask);
    return status;
}

/* Whether the newest messages of a range are wanted: they come in one request. */
static bool session_is_last(const quipu_range *range)
{
    return (range->flags & QUIPU_RANGE_LAST) != 0 && range->limit > 0;
}

/* How many messages the next request asks for; 0: the session alone. */
static int64_t session_limit(const quipu_range *range, int64_t got)
{
    int64_t left = range->limit - got;

    if ((range->flags & QUIPU_RANGE_HEADER) != 0) {
        return 0;
    }
    if (session_is_last(range)) {
        return range->limit;
    }
    return range->limit == 0 || left > SESSION_PAGE ? SESSION_PAGE : left;
}

/* Whether the range goes on behind a page that ended with message `after`. */
static bool session_goes_on(const quipu_range *range, int64_t got, int64_t after)
{
    return (range->flags & QUIPU_RANGE_HEADER) == 0 && !session_is_last(range) &&
           (range->limit == 0 || got < range->limit) &&
           (range->before_seq == 0 || after < range->before_seq - 1);
}

/* A range in pages, oldest first. Messages are only added at the end, so that pages fit
 * together. */
quipu_status qp_remote_get(void *ctx, const qp_call *call, const qp_remote_read *read,
                           quipu_error *reterr)
{
    const quipu_range *range = read->range;
    int64_t after = range->after_seq;
    int64_t from = 0;
    int64_t got = 0;
    bool more = true;
    quipu_status status = QUIPU_OK;
    qp_buf list;

    if (session_is_last(range) && range->limit > QUIPU_BATCH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a server gives at most the last %d messages",
                            QUIPU_BATCH_MAX);
    }
    qp_buf_init(&list, SESSION_LIST_MAX);
    while (status == QUIPU_OK && more) {
        from = after;
        status =
            session_page(ctx, call, read, session_limit(range, got), &after, &list, &more, reterr);
        read->history->more_after = more;
        got = (int64_t)(list.n / sizeof(quipu_message));
        /* A page that does not lead on is the last one, whatever the server says. */
        more = more && after > from && session_goes_on(range, got, after);
    }
    if (status == QUIPU_OK && (range->flags & QUIPU_RANGE_HEADER) != 0) {
        const bool any = read->session->next_seq > read->session->first_seq;

        read->history->more_before = read->history->more_after = any;
    }
    if (status == QUIPU_OK) {
        status = qp_remote_messages_end(&list, read->arena, &read->history->messages, reterr);
    }
    qp_buf_free(&list);
    return status;
}

quipu_status qp_remote_list(void *ctx, const qp_call *call, const quipu_list_options *options,
                            quipu_arena *arena, quipu_session_page *ret_page, quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS};
    quipu_session_info *sessions = NULL;
    qp_remote_ask ask;
    qp_json_node array;
    qp_json_iter each;
    quipu_status status;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_text(&ask, "app", options->app_name);
    qp_remote_text(&ask, "user", options->user_id);
    qp_remote_text(&ask, "agent", options->agent_id);
    qp_remote_text(&ask, "parent", options->parent);
    qp_remote_text(&ask, "metadataName", options->metadata_name);
    qp_remote_text(&ask, "metadataText", options->metadata_text);
    qp_remote_text(&ask, "after", options->after);
    qp_remote_number(&ask, "limit", options->limit);
    qp_remote_flag(&ask, "oldestFirst", (options->flags & QUIPU_LIST_OLDEST_FIRST) != 0);
    qp_remote_flag(&ask, "expired", (options->flags & QUIPU_LIST_EXPIRED) != 0);
    status = qp_remote_run(&ask, reterr);
    array = qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("sessions"));
    if (status == QUIPU_OK) {
        sessions = quipu_arena_alloc(arena, qp_json_count(array) * sizeof(*sessions) + 1);
        status = sessions != NULL ? QUIPU_OK : session_nomem(reterr);
    }
    each = qp_json_each(array);
    while (status == QUIPU_OK && qp_json_next(&each)) {
        sessions[count] = (quipu_session_info){.next_seq = 0};
        status = qp_fields_take(&server->info, each.value, arena, &sessions[count++])
                     ? QUIPU_OK
                     : qp_remote_malformed(reterr);
    }
    if (status == QUIPU_OK) {
        qp_json_node next = qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("next"));

        ret_page->sessions = quipu_session_infos_of(sessions, count);
        ret_page->next = QP_STR_ABSENT;
        if (qp_json_kind_of(next) == QP_JSON_STRING &&
            qp_json_text_copy(next, arena, &ret_page->next) != QUIPU_OK) {
            status = session_nomem(reterr);
        }
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A message without its time, which is the server's to give. */
static quipu_status session_put_untimed(qp_jsonw *writer, quipu_str json, quipu_error *reterr)
{
    qp_json_doc doc;
    qp_json_iter each;
    quipu_status status;

    qp_json_init(&doc);
    status = qp_json_parse(&doc, json, NULL, reterr);
    each = qp_json_each(qp_json_root(&doc));
    qp_jsonw_object(writer);
    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (!qp_json_text_is(each.key, QUIPU_STR("timestamp"))) {
            qp_jsonw_raw_key(writer, qp_json_raw(each.key));
            qp_jsonw_raw(writer, qp_json_raw(each.value));
        }
    }
    qp_jsonw_object_end(writer);
    qp_json_free(&doc);
    return status;
}

/* A message as JSON. Without an event id it gets one, so that a request can be sent again. */
static quipu_status session_put_message(qp_jsonw *writer, quipu_messages messages, size_t index,
                                        quipu_arena *arena, quipu_error *reterr)
{
    quipu_message message = *quipu_message_at(messages, index);
    char id[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;
    quipu_str json;
    quipu_status status;

    if (message.event_id.n == 0) {
        status = qp_uuid_v7(&uuid);
        if (status != QUIPU_OK) {
            return qp_error_set(reterr, status, "the system has no randomness for an id");
        }
        quipu_uuid_format(uuid, id);
        message.event_id = quipu_cstr(id);
    }
    quipu_arena_reset(arena);
    status = quipu_message_json(quipu_messages_of(&message, 1), 0, arena, &json, reterr);
    if (status == QUIPU_OK && message.has_timestamp) {
        qp_jsonw_raw(writer, json);
    } else if (status == QUIPU_OK) {
        status = session_put_untimed(writer, json, reterr);
    }
    return status;
}

static quipu_status session_put_messages(qp_jsonw *writer, quipu_messages messages,
                                         quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    qp_jsonw_key(writer, QUIPU_STR("messages"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < messages.count && status == QUIPU_OK; i++) {
        status = session_put_message(writer, messages, i, &arena, reterr);
    }
    qp_jsonw_array_end(writer);
    quipu_arena_free(&arena);
    return status;
}

/* Sends the body that was written, unless writing it failed. */
static quipu_status session_send(qp_remote_ask *ask, const qp_jsonw *writer, quipu_status status,
                                 quipu_error *reterr)
{
    ask->writes = true;
    if (status == QUIPU_OK && qp_jsonw_end(writer) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "the request to the server is too large");
    }
    return status == QUIPU_OK ? qp_remote_run(ask, reterr) : status;
}

/* Not repeatable: the second try would find the session of the first. */
quipu_status qp_remote_create(void *ctx, const qp_call *call, const quipu_session_new *values,
                              quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS};
    quipu_status status = QUIPU_OK;
    qp_remote_ask ask;
    qp_jsonw writer;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 1);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    qp_fields_members(&writer, &server->fresh, values);
    if (values->messages.count > 0) {
        status = session_put_messages(&writer, values->messages, reterr);
    }
    qp_jsonw_object_end(&writer);
    status = session_send(&ask, &writer, status, reterr);
    qp_remote_end(&ask);
    return status;
}

quipu_status qp_remote_fork(void *ctx, const qp_call *call, quipu_str key, int64_t seq,
                            const quipu_session_new *values, quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS, key, QUIPU_STR("fork")};
    quipu_status status;
    qp_remote_ask ask;
    qp_jsonw writer;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    qp_fields_members(&writer, &server->fresh, values);
    qp_jsonw_put_i64(&writer, "seq", seq);
    qp_jsonw_object_end(&writer);
    status = session_send(&ask, &writer, QUIPU_OK, reterr);
    qp_remote_end(&ask);
    return status;
}

/* The fields that a patch sets; an absent text is null, which clears. */
static void session_put_patch(qp_jsonw *writer, const qp_buf *body, const qp_remote_server *server,
                              const quipu_session_patch *patch)
{
    for (size_t i = 0; i < server->patch.count; i++) {
        const struct qp_field_name *item = &server->patch.items[i];
        const size_t before = body->n;

        if ((patch->set & item->field.bit) != 0) {
            qp_fields_write_one(writer, item, patch);
            if (body->n == before) {
                qp_jsonw_key(writer, quipu_cstr(item->name));
                qp_jsonw_null(writer);
            }
        }
    }
}

quipu_status qp_remote_update(void *ctx, const qp_call *call, quipu_str key,
                              const quipu_session_patch *patch, int64_t *ret_revision,
                              quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS, key};
    quipu_status status;
    qp_remote_ask ask;
    qp_jsonw writer;

    qp_remote_begin(&ask, ctx, call, "PATCH", segments, 2);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    session_put_patch(&writer, &ask.body, server, patch);
    if ((patch->set & QUIPU_SET_IF_REVISION) != 0) {
        qp_jsonw_put_i64(&writer, "expectedRevision", patch->expected_revision);
    }
    qp_jsonw_object_end(&writer);
    status = session_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK &&
        qp_json_int64(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("revision")), ret_revision) !=
            QP_JSON_EXACT) {
        status = qp_remote_malformed(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* A session that is gone is deleted: the request may be sent again. */
quipu_status qp_remote_remove(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "DELETE", segments, 2);
    ask.writes = ask.repeatable = true;
    status = qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}

/* Every message has an event id, so that what a lost connection leaves open is settled by sending
 * the same again. With an expected revision the second try could conflict with the first. */
quipu_status qp_remote_append(void *ctx, const qp_call *call, quipu_str key,
                              quipu_messages messages, const quipu_append_options *options,
                              quipu_appended *ret_appended, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key, QUIPU_STR("messages")};
    quipu_status status;
    qp_remote_ask ask;
    qp_jsonw writer;
    qp_json_node root;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    if ((options->flags & QUIPU_APPEND_CREATE) != 0) {
        qp_jsonw_put_bool(&writer, "create", true);
    }
    if (options->expected_revision >= 0) {
        qp_jsonw_put_i64(&writer, "expectedRevision", options->expected_revision);
    }
    if (options->settings != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("settings"));
        qp_jsonw_object(&writer);
        session_put_patch(&writer, &ask.body, ctx, options->settings);
        qp_jsonw_object_end(&writer);
    }
    status = session_put_messages(&writer, messages, reterr);
    qp_jsonw_object_end(&writer);
    ask.repeatable = true;
    status = session_send(&ask, &writer, status, reterr);
    root = qp_json_root(&ask.doc);
    if (status == QUIPU_OK && (qp_json_int64(qp_json_get(root, QUIPU_STR("firstSeq")),
                                             &ret_appended->first_seq) != QP_JSON_EXACT ||
                               qp_json_int64(qp_json_get(root, QUIPU_STR("revision")),
                                             &ret_appended->revision) != QP_JSON_EXACT)) {
        status = qp_remote_malformed(reterr);
    }
    ret_appended->repeated =
        qp_json_kind_of(qp_json_get(root, QUIPU_STR("repeated"))) == QP_JSON_TRUE;
    qp_remote_end(&ask);
    return status;
}
