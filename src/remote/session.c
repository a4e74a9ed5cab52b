/* Sessions and messages at a server (remote.h): each call is one request of docs/server.md, a long
 * history several. Called through the store's table, from any thread; owns nothing.
 * Locks: none. Texts of results lie in the caller's arena, texts of requests in the request. Reads
 * may be sent again; of the writes, appends and deletes may, and all others are UNKNOWN after a
 * lost answer: the comments below say why for each.
 *
 *   append                 sent again: its event ids find what the first try stored
 *   delete                 sent again: what is gone is what the first try deleted
 *   create, fork, update   UNKNOWN: a second try would meet what the first one made */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/uuid.h"
#include "remote/remote.h"

/* Messages of one request: an answer stays small enough to be held in memory as JSON and as
 * messages. */
#define SESSION_PAGE 1000 /* messages of one request */
/* A bound against a server that never ends its pages. */
#define SESSION_LIST_MAX ((size_t)1 << 34)

#define SESSIONS QUIPU_STR("sessions")

/* ---- reading --------------------------------------------------------------------------------- */

/* The running totals of the messages from byte `begin` of the list on: an answer has that of its
 * last one, and a summary, which counts nothing, may stand before the others.
 * From the last one backwards: the total before a message is its own less its tokens. */
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

/* Each message is parsed by the same public function that programs use, so that what is read over
 * HTTP and what an export holds have one meaning. Messages of several pages grow into one list.
 * A message that cannot be read makes the answer malformed: leaving it out would be a gap. */
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
        return qp_answer_nomem(reterr);
    }
    (void)qp_json_int64(qp_json_get(answer, QUIPU_STR("tokensTotal")), &total);
    session_count(list, begin, total);
    return QUIPU_OK;
}

/* The list of pages is copied once, when its length is known, into the arena that the result
 * owns. */
quipu_status qp_remote_messages_end(const qp_buf *list, quipu_arena *arena,
                                    quipu_messages *ret_messages, quipu_error *reterr)
{
    quipu_message *messages = quipu_arena_alloc(arena, list->n + 1);

    if (messages == NULL) {
        return qp_answer_nomem(reterr);
    }
    if (list->n > 0) {
        memcpy(messages, list->p, list->n);
    }
    *ret_messages = quipu_messages_of(messages, list->n / sizeof(*messages));
    return QUIPU_OK;
}

/* One page of a range. *after moves behind it; the history says whether another page follows.
 * Header and state come with every page; those of the last page count, so that they are as new as
 * the newest message. */
static quipu_status session_page(void *ctx, const qp_call *call, const qp_remote_read *read,
                                 int64_t limit, int64_t *after, qp_buf *list, quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {SESSIONS, read->key};
    const uint32_t flags = read->range->flags;
    const bool is_first = list->n == 0;
    qp_remote_ask ask;
    qp_json_node root;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 2);
    /* 0 is not left out here: without a limit the server would send 100 messages. */
    qp_remote_text(&ask, "limit", limit == 0 ? QUIPU_STR("0") : QP_STR_ABSENT);
    qp_remote_number(&ask, "limit", limit);
    /* 0, from the beginning, is left out. */
    qp_remote_number(&ask, "after", *after);
    qp_remote_number(&ask, "before", read->range->before_seq);
    qp_remote_flag(&ask, "last", (flags & QUIPU_RANGE_LAST) != 0 && read->range->limit > 0);
    qp_remote_flag(&ask, "view", (flags & QUIPU_RANGE_VIEW) != 0);
    qp_remote_flag(&ask, "state", (flags & QUIPU_RANGE_STATE) != 0);
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
    if (status == QUIPU_OK && (flags & QUIPU_RANGE_STATE) != 0) {
        status = qp_remote_state(root, read->arena, read->history, reterr);
    }
    /* Also set after a failure, when the caller reads none of it. */
    read->history->more_after = qp_answer_flag(root, "moreAfter");
    if (is_first) {
        read->history->more_before = qp_answer_flag(root, "moreBefore");
    }
    if (status == QUIPU_OK && list->n >= sizeof(quipu_message)) {
        quipu_message last;

        memcpy(&last, list->p + list->n - sizeof(last), sizeof(last));
        /* The cursor of the next page is the last number of this one. */
        *after = last.seq;
    }
    qp_remote_end(&ask);
    return status;
}

/* Whether the newest messages of a range are wanted: they come in one request. More than
 * QUIPU_BATCH_MAX of them take session_last() instead. */
static bool session_is_last(const quipu_range *range)
{
    return (range->flags & QUIPU_RANGE_LAST) != 0 && range->limit > 0;
}

/* How many messages the next request asks for; 0: the session alone.
 * `got` is what earlier pages had. */
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

/* Whether the range goes on behind a page that ended with message `after`.
 * A range that ends before a number needs no request for what cannot come. */
static bool session_has_more(const quipu_range *range, int64_t got, int64_t after)
{
    return (range->flags & QUIPU_RANGE_HEADER) == 0 && !session_is_last(range) &&
           (range->limit == 0 || got < range->limit) &&
           (range->before_seq == 0 || after < range->before_seq - 1);
}

/* All pages of a range, oldest first. Messages are only added at the end, so that pages fit
 * together.
 * Pages are of different moments. Where messages were pruned meanwhile, the next page begins behind
 * the hole, as a single read of that moment would. */
static quipu_status session_pages(void *ctx, const qp_call *call, const qp_remote_read *read,
                                  qp_buf *list, quipu_error *reterr)
{
    const quipu_range *range = read->range;
    int64_t after = range->after_seq;
    int64_t from = 0;
    int64_t got = 0;
    bool more = true;
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && more) {
        from = after;
        status = session_page(ctx, call, read, session_limit(range, got), &after, list, reterr);
        got = (int64_t)(list->n / sizeof(quipu_message));
        /* A page that does not lead on is the last one, whatever the server says. */
        more = read->history->more_after && after > from && session_has_more(range, got, after);
    }
    return status;
}

/* The last messages, more than one request gives: their numbers follow from the session's end.
 * Others that are added meanwhile come along, and the oldest are left out for them. Two kinds of
 * requests: one for the header, whose next number is the end, then pages from the computed
 * beginning. A view has no such numbers, because a compaction leaves some out.
 *
 *   next_seq 3501, the last 1200 of it:   after = 3500 - 1200 = 2300
 *   pages                                 2301 to 3300, 3301 to 3500, and what came meanwhile */
static quipu_status session_last(void *ctx, const qp_call *call, const qp_remote_read *read,
                                 qp_buf *list, quipu_error *reterr)
{
    quipu_range range = *read->range;
    const qp_remote_read own = {read->key, &range, read->arena, read->session, read->history};
    const int64_t most = range.limit;
    int64_t after = 0;
    int64_t begin;
    int64_t end;
    size_t over;
    quipu_status status;

    if ((range.flags & QUIPU_RANGE_VIEW) != 0) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a server gives at most the last %d messages of a view",
                            QUIPU_BATCH_MAX);
    }
    status = session_page(ctx, call, read, 0, &after, list, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    end = read->session->next_seq;
    /* The number behind the last message that is wanted. */
    end = range.before_seq > 0 && range.before_seq < end ? range.before_seq : end;
    /* Below 0 for a session that has fewer: then the pages begin at its first message. */
    begin = qp_difference(qp_difference(end, 1), most);
    range.after_seq = begin > range.after_seq ? begin : range.after_seq;
    range.flags &= ~(uint32_t)QUIPU_RANGE_LAST;
    range.limit = 0;
    status = session_pages(ctx, call, &own, list, reterr);
    over = list->n / sizeof(quipu_message);
    over = over > (uint64_t)most ? over - (size_t)most : 0;
    if (status == QUIPU_OK && over > 0) {
        over *= sizeof(quipu_message);
        memmove(list->p, list->p + over, list->n - over);
        qp_buf_cut(list, list->n - over);
        read->history->more_before = true;
    }
    return status;
}

/* The header alone, the last messages, or pages from the beginning: the three ways that the range
 * of quipu_session_get() has.
 * For a header alone, whether there is more follows from its numbers. */
quipu_status qp_remote_get(void *ctx, const qp_call *call, const qp_remote_read *read,
                           quipu_error *reterr)
{
    const quipu_range *range = read->range;
    quipu_status status;
    qp_buf list;

    qp_buf_init(&list, SESSION_LIST_MAX);
    status = session_is_last(range) && range->limit > QUIPU_BATCH_MAX
                 ? session_last(ctx, call, read, &list, reterr)
                 : session_pages(ctx, call, read, &list, reterr);
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

/* Starts from zero: a member that the answer lacks, such as the parent of a fork that the token may
 * not see, is absent.
 * false: no memory, or a member of another kind; both make the answer malformed. */
static bool session_take_info(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    const qp_remote_server *server = ctx;

    *(quipu_session_info *)item = (quipu_session_info){.next_seq = 0};
    return qp_fields_take(&server->info, row, arena, item);
}

/* A page and its cursor. The server's order is the library's; nothing is sorted here.
 * Filters that are absent are not sent, and the token's scope narrows the list at the server. */
quipu_status qp_remote_list(void *ctx, const qp_call *call, const quipu_list_options *options,
                            quipu_arena *arena, quipu_session_page *ret_page, quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_session_info), session_take_info};
    const quipu_str segments[] = {SESSIONS};
    quipu_session_info *sessions;
    qp_remote_ask ask;
    quipu_status status;
    bool good = true;
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
    sessions = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("sessions")), &kind,
                              ctx, arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        ret_page->sessions = quipu_session_infos_of(sessions, count);
        ret_page->next = qp_answer_text(qp_json_root(&ask.doc), "next", arena, &good);
        status = good ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A message without its time, which is the server's to give.
 * The time of this machine must not be stored: the order at the server is its own. */
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

/* A message as JSON. Without an event id it gets one, so that a request can be sent again.
 * The id is made once, in the body: all tries of the request send the same one. */
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
    /* The message before was copied into the body. */
    quipu_arena_reset(arena);
    status = quipu_message_json(quipu_messages_of(&message, 1), 0, arena, &json, reterr);
    /* A time that the caller gave is kept. */
    if (status == QUIPU_OK && message.has_timestamp) {
        qp_jsonw_raw(writer, json);
    } else if (status == QUIPU_OK) {
        status = session_put_untimed(writer, json, reterr);
    }
    return status;
}

/* One arena serves one message after another: a batch of large messages needs the memory of the
 * largest one.
 * The body is bounded by QP_REMOTE_BODY_MAX; a batch that exceeds it fails before it is sent. */
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

/* Not repeatable: the second try would find the session of the first.
 * EXISTS would then be the answer to a success. After a lost answer the caller gets UNKNOWN and
 * reads the key to find out. */
quipu_status qp_remote_create(void *ctx, const qp_call *call, const quipu_session_new *values,
                              qp_state_items changes, quipu_error *reterr)
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
    if (changes.count > 0) {
        qp_remote_put_changes(&writer, "state", changes);
    }
    qp_jsonw_object_end(&writer);
    status = qp_remote_send(&ask, &writer, status, reterr);
    qp_remote_end(&ask);
    return status;
}

/* Not repeatable, as a create: the second try would find the fork of the first.
 * The messages that both share stay at the server: the request has a number only. */
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
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    qp_remote_end(&ask);
    return status;
}

/* The fields that a patch sets; an absent text is null, which clears.
 * A field that the writer leaves out has no value: the body did not grow, and null says so. */
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

/* Not repeatable: another writer may have changed the same settings since the first try.
 * With an expected revision a second try would be a conflict with the first one. */
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
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK &&
        qp_json_int64(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("revision")), ret_revision) !=
            QP_JSON_EXACT) {
        status = qp_remote_unread(&ask, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* A session that is gone is deleted: the request may be sent again.
 * A key that no path can carry does not exist at a server: nothing is sent, and it counts as
 * deleted. */
quipu_status qp_remote_remove(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "DELETE", segments, 2);
    /* A second try gets 204 for what the first one deleted, or 404 for a scoped token. */
    ask.writes = ask.repeatable = ask.deletes = true;
    status = ask.no_place ? QUIPU_OK : qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}

/* The uid that the session must have, and changes of state.
 * With messages their ids make the request repeatable; without them the event has its own. */
static void session_put_also(qp_jsonw *writer, const qp_append_also *also, bool has_messages)
{
    char uid[QUIPU_UUID_TEXT_SIZE];

    if (also->has_uid) {
        quipu_uuid_format(also->uid, uid);
        qp_jsonw_put(writer, "uid", uid);
    }
    if (has_messages && also->changes.count == 0) {
        return;
    }
    qp_jsonw_key(writer, QUIPU_STR("event"));
    qp_jsonw_object(writer);
    qp_remote_put_changes(writer, "changes", also->changes);
    if (!has_messages) {
        qp_jsonw_put_text(writer, "eventId", also->event_id);
        qp_jsonw_put_text(writer, "author", also->author);
        qp_jsonw_put_time(writer, "time", also->time);
    }
    qp_jsonw_object_end(writer);
}

/* The members of the body in the order of docs/server.md; those that say nothing are left out,
 * because the server refuses a null where it wants a number. `create` and `settings` are part of
 * the same transaction at the server.
 *
 *   {"create": true,                        the session is made if there is none
 *    "expectedRevision": 7,                 compare-and-set
 *    "settings": {…}, "uid": "…",           the uid: this life of the key, or a conflict
 *    "event": {"changes": […], …},          state; without messages also its id, author and time
 *    "messages": [{"eventId": "…", …}, …]} */
static quipu_status session_put_append(qp_remote_ask *ask, qp_jsonw *writer,
                                       const qp_remote_batch *append, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    qp_jsonw_object(writer);
    if (append->creates) {
        qp_jsonw_put_bool(writer, "create", true);
    }
    if (append->expected_revision >= 0) {
        qp_jsonw_put_i64(writer, "expectedRevision", append->expected_revision);
    }
    if (append->settings != NULL) {
        qp_jsonw_key(writer, QUIPU_STR("settings"));
        qp_jsonw_object(writer);
        session_put_patch(writer, &ask->body, ask->server, append->settings);
        qp_jsonw_object_end(writer);
    }
    if (append->also != NULL) {
        session_put_also(writer, append->also, append->messages.count > 0);
    }
    if (append->messages.count > 0) {
        status = session_put_messages(writer, append->messages, reterr);
    }
    qp_jsonw_object_end(writer);
    return status;
}

/* Every message has an event id, and so has an event without one: what a lost connection leaves
 * open is settled by sending the same again, also with an expected revision, which is compared
 * behind the ids.
 * UNKNOWN is left for a server that stays away longer than the retries last. A caller can repeat
 * such an append when it gave the event ids itself; ids that were made here are lost with the
 * request. */
quipu_status qp_remote_append(void *ctx, const qp_call *call, const qp_remote_batch *append,
                              quipu_appended *ret_appended, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, append->key, QUIPU_STR("messages")};
    quipu_arena arena = QUIPU_ARENA_INIT;
    bool good = true;
    quipu_status status;
    qp_remote_ask ask;
    qp_jsonw writer;
    qp_json_node root;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    qp_jsonw_begin(&writer, &ask.body);
    /* A body that cannot be written is not sent, and its status is the call's. */
    status = session_put_append(&ask, &writer, append, reterr);
    ask.repeatable = true;
    status = qp_remote_send(&ask, &writer, status, reterr);
    root = qp_json_root(&ask.doc);
    if (status == QUIPU_OK && (qp_json_int64(qp_json_get(root, QUIPU_STR("firstSeq")),
                                             &ret_appended->first_seq) != QP_JSON_EXACT ||
                               qp_json_int64(qp_json_get(root, QUIPU_STR("revision")),
                                             &ret_appended->revision) != QP_JSON_EXACT)) {
        status = qp_remote_unread(&ask, reterr);
    }
    if (status == QUIPU_OK) {
        ret_appended->repeated = qp_answer_flag(root, "repeated");
        /* Absent for a repeat and for an event without messages: then it stays 0. */
        (void)qp_answer_has_time(root, "time", &arena, &ret_appended->time, &good);
        /* The messages are stored: an answer that cannot be read makes that UNKNOWN. */
        status = good ? QUIPU_OK : qp_remote_unread(&ask, reterr);
    }
    quipu_arena_free(&arena);
    qp_remote_end(&ask);
    return status;
}
