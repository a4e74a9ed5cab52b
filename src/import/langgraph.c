/* Threads of LangGraph (SqliteSaver): each checkpoint holds the whole state of its thread, so that
 * the messages of a thread are those of its last checkpoint. The ones before say only when a
 * message came: the first checkpoint that has so many.
 *
 *   checkpoint 1   [a]          12:00      a at 12:00
 *   checkpoint 2   [a, b, c]    12:01      b and c at 12:01
 *
 * The channel "messages" is read; other channels, pending writes and what a node sends are not. A
 * thread whose last checkpoint has no list of messages (a graph without the channel, one that keeps
 * deltas) is left out and reported; a state that is a pickle is an error that names it.
 *
 * Owns: the table qp_source_langgraph. Called by: source.c, run.c and write.c through it, within
 * the read transaction of run.c. Memory: the messages of one thread as JSON, and one checkpoint. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "gen/langgraph.h"
#include "import/chat.h"
#include "import/msgpack.h"

#define LG_CHANNEL "messages"
#define LG_EVENT_ID_MAX 512 /* QUIPU_EVENT_ID_MAX */
#define LG_NUMBER_SIZE 24   /* the place of a message and a colon, with room to spare */

/* ---- one checkpoint ---------------------------------------------------------------------------
 */

/* The messages of a checkpoint, in either of the two forms that LangGraph has written. */
typedef struct lg_state {
    bool found; /* it has the channel */
    uint32_t count;
    qp_msgpack first;  /* msgpack: the first message... */
    qp_json_node list; /* ...JSON: the list, in source->item_doc */
    ent_opt_time time;
} lg_state;

/* Reads the time and the list from msgpack. The messages themselves are not decoded here: opening a
 * file reads every checkpoint, and needs only the number of its messages.
 *
 *   {"ts": "2025-…", "channel_values": {"messages": [ … ], …}, …} */
static quipu_status lg_read_msgpack(qp_source *source, quipu_bytes bytes, lg_state *ret,
                                    quipu_error *reterr)
{
    qp_msgpack values = {{NULL, 0}};
    qp_msgpack list = {{NULL, 0}};
    qp_msgpack time = {{NULL, 0}};
    quipu_str text = {NULL, 0};
    quipu_status status = qp_msgpack_get((qp_msgpack){bytes}, "channel_values", &values, reterr);

    if (status == QUIPU_OK && values.bytes.p != NULL) {
        status = qp_msgpack_get(values, LG_CHANNEL, &list, reterr);
    }
    /* A value that is not a list is a channel of another form, such as deltas: it is left out. */
    if (status == QUIPU_OK && list.bytes.p != NULL) {
        ret->found = qp_msgpack_list(list, &ret->count, &ret->first, NULL) == QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = qp_msgpack_get((qp_msgpack){bytes}, "ts", &time, reterr);
    }
    if (status == QUIPU_OK && time.bytes.p != NULL) {
        qp_buf_reset(&source->buf);
        status = qp_msgpack_json(&time, &source->buf, reterr);
        if (status == QUIPU_OK) {
            status = qp_json_parse(&source->item_doc, qp_buf_str(&source->buf), NULL, reterr);
        }
        if (status == QUIPU_OK) {
            text = qp_chat_string(source, qp_json_root(&source->item_doc));
        }
    }
    return status == QUIPU_OK ? qp_chat_time(text, &ret->time, reterr) : status;
}

/* Of JSON, which LangGraph wrote before it wrote msgpack. */
static quipu_status lg_read_json(qp_source *source, quipu_bytes bytes, lg_state *ret,
                                 quipu_error *reterr)
{
    quipu_status status =
        qp_json_parse(&source->item_doc, (quipu_str){bytes.p, bytes.n}, NULL, reterr);

    if (status == QUIPU_OK) {
        const qp_json_node root = qp_json_root(&source->item_doc);

        ret->list =
            qp_json_get(qp_json_get(root, QUIPU_STR("channel_values")), QUIPU_STR(LG_CHANNEL));
        ret->found = qp_json_kind_of(ret->list) == QP_JSON_ARRAY;
        ret->count = ret->found ? (uint32_t)qp_json_count(ret->list) : 0;
        status = qp_chat_time(qp_chat_member(source, root, "ts"), &ret->time, reterr);
    }
    return status;
}

/* By the type that stands beside the bytes. A pickle would run code when Python reads it; nobody
 * here does. */
static quipu_status lg_read(qp_source *source, const qp_lg_checkpoint *row, lg_state *ret,
                            quipu_error *reterr)
{
    const int shown = (int)qp_utf8_cut(row->type, 40);

    *ret = (lg_state){.found = false};
    if (quipu_str_eq(row->type, QUIPU_STR("msgpack"))) {
        return lg_read_msgpack(source, row->checkpoint, ret, reterr);
    }
    if (quipu_str_eq(row->type, QUIPU_STR("json"))) {
        return lg_read_json(source, row->checkpoint, ret, reterr);
    }
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "its state is written as \"%.*s\"; \"msgpack\" and \"json\" can be read",
                        shown, row->type.p != NULL ? row->type.p : "");
}

/* ---- opening ----------------------------------------------------------------------------------
 */

/* The thread whose checkpoints are being read. */
typedef struct lg_thread {
    quipu_arena names;
    quipu_str id; /* the thread's, and its namespace behind a slash */
    int64_t row;  /* of its last checkpoint */
    bool found;
    ent_opt_time *times; /* of each message */
    size_t count;
    size_t room;
} lg_thread;

/* The name of a thread: a subgraph keeps its own state beside its graph's. The slash keeps the two
 * apart; both states become sessions. */
static quipu_status lg_name(quipu_arena *arena, const qp_lg_checkpoint *row, quipu_str *ret)
{
    const bool inner = row->checkpoint_ns.n > 0;
    const size_t n = row->thread_id.n + (inner ? 1 + row->checkpoint_ns.n : 0);
    char *text = qp_arena_take(arena, n + 1);

    if (text == NULL) {
        return QUIPU_NOMEM;
    }
    memcpy(text, row->thread_id.p, row->thread_id.n);
    if (inner) {
        text[row->thread_id.n] = '/';
        memcpy(text + row->thread_id.n + 1, row->checkpoint_ns.p, row->checkpoint_ns.n);
    }
    text[n] = '\0';
    *ret = (quipu_str){text, n};
    return QUIPU_OK;
}

/* The thread is complete: it becomes a session with the messages of its last checkpoint. A thread
 * without the channel has no messages to import and is reported. */
static quipu_status lg_thread_end(qp_source *source, lg_thread *thread, quipu_error *reterr)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), thread->id};
    quipu_status status = QUIPU_OK;

    if (thread->id.p == NULL) {
        return QUIPU_OK;
    }
    if (!thread->found) {
        qp_source_report_orphan(source, &ref, thread->row);
        return QUIPU_OK;
    }
    status = qp_source_add_session(source, &ref, thread->row, reterr);
    for (size_t i = 0; i < thread->count && status == QUIPU_OK; i++) {
        const qp_source_item item = {.row = thread->row, .part = (int)i, .time = thread->times[i]};

        status = qp_chat_add(source, source->session_count - 1, &item, reterr);
    }
    return status;
}

/* Messages that this checkpoint has more than the one before came with it; fewer were removed. A
 * message that is added again after a removal has the time of the checkpoint that brought it back.
 * `found` is the last checkpoint's: a thread that lost its channel is left out. The array doubles
 * beyond what is needed, so that a thread of n checkpoints copies O(n) times and not O(n²). */
static quipu_status lg_thread_grow(lg_thread *thread, const lg_state *state, quipu_error *reterr)
{
    if (state->count > thread->room) {
        const size_t room = (size_t)state->count * 2;
        ent_opt_time *times = qp_arena_take(&thread->names, room * sizeof(*times));

        if (times == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the file's messages");
        }
        if (thread->count > 0) {
            memcpy(times, thread->times, thread->count * sizeof(*times));
        }
        thread->times = times;
        thread->room = room;
    }
    for (size_t i = thread->count; i < state->count; i++) {
        thread->times[i] = state->time;
    }
    thread->count = state->count;
    thread->found = state->found;
    return QUIPU_OK;
}

/* One checkpoint: of the thread that is being read, or the first one of the next. The names of a
 * thread outlive the row they were read from: they lie in the thread's own arena, which the next
 * thread resets. */
static quipu_status lg_checkpoint(qp_source *source, lg_thread *thread, const qp_lg_checkpoint *row,
                                  quipu_error *reterr)
{
    lg_state state;
    quipu_str name = {NULL, 0};
    quipu_status status;

    quipu_arena_reset(&source->row);
    status = lg_name(&source->row, row, &name);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for a thread's name");
    }
    if (thread->id.p == NULL || !quipu_str_eq(name, thread->id)) {
        status = lg_thread_end(source, thread, reterr);
        quipu_arena_reset(&thread->names);
        *thread = (lg_thread){.names = thread->names};
        if (status == QUIPU_OK && quipu_arena_copy(&thread->names, name, &thread->id) != QUIPU_OK) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "no memory for a thread's name");
        }
    }
    if (status == QUIPU_OK) {
        status = lg_read(source, row, &state, reterr);
    }
    if (status == QUIPU_OK) {
        thread->row = row->id;
        status = lg_thread_grow(thread, &state, reterr);
    }
    return status;
}

/* In the order of the table's own index; ids of checkpoints sort by time. Checkpoints of a thread
 * are therefore neighbours, and one thread at a time is in memory. The last thread has no successor
 * that would end it, so that it is ended behind the loop. */
static quipu_status lg_open(qp_source *source, quipu_error *reterr)
{
    const qp_lg_checkpoint_query all = {.order = {QP_LG_CHECKPOINT_BY_THREAD_ID(ASC),
                                                  QP_LG_CHECKPOINT_BY_CHECKPOINT_NS(ASC),
                                                  QP_LG_CHECKPOINT_BY_CHECKPOINT_ID(ASC)}};
    lg_thread thread = {.names = QUIPU_ARENA_INIT};
    qp_lg_checkpoint_iter iter = {0};
    qp_lg_checkpoint row;
    quipu_status status = qp_lg_checkpoint_iter_begin(source->db, &all, &iter, reterr);

    while (status == QUIPU_OK && qp_lg_checkpoint_iter_next(&iter, &row)) {
        status = qp_source_fail(source, "the checkpoint", row.id,
                                lg_checkpoint(source, &thread, &row, reterr), reterr);
    }
    quipu_status ended = qp_lg_checkpoint_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK) {
        status = lg_thread_end(source, &thread, reterr);
    }
    quipu_arena_free(&thread.names);
    return status;
}

/* ---- sessions and messages --------------------------------------------------------------------
 */

/* Writes the messages of a checkpoint behind each other into `extra`; *ret_ends are where each one
 * ends. Ends and not pointers, because the buffer moves while it grows. */
static quipu_status lg_texts(qp_source *source, lg_state *state, size_t *ret_ends,
                             quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    qp_buf_reset(&source->extra);
    for (uint32_t i = 0; i < state->count && status == QUIPU_OK; i++) {
        if (state->list.doc != NULL) {
            qp_buf_put(&source->extra, qp_json_raw(qp_json_at(state->list, i)));
        } else {
            status = qp_msgpack_json(&state->first, &source->extra, reterr);
        }
        ret_ends[i] = qp_buf_str(&source->extra).n;
    }
    if (status == QUIPU_OK && qp_buf_status(&source->extra) != QUIPU_OK) {
        status = qp_error_set(reterr, qp_buf_status(&source->extra), "no memory for its messages");
    }
    return status;
}

/* Reads the last checkpoint; the messages stay until the next session. One checkpoint is decoded
 * once a session instead of once a message: its messages lie in one buffer, and source->texts are
 * slices of it. */
static quipu_status lg_load(qp_source *source, const qp_source_session *session,
                            quipu_error *reterr)
{
    const qp_lg_checkpoint *row = NULL;
    lg_state state;
    size_t *ends;
    size_t start = 0;
    quipu_status status =
        qp_lg_checkpoint_get(source->db, &source->scratch, session->row, &row, reterr);

    if (status == QUIPU_OK) {
        status = lg_read(source, row, &state, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    assert(state.count == session->count); /* the same row in the same snapshot */
    ends = qp_arena_take(&source->scratch, (state.count + 1) * sizeof(*ends));
    source->texts = qp_arena_take(&source->scratch, (state.count + 1) * sizeof(*source->texts));
    if (ends == NULL || source->texts == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for its messages");
    }
    status = lg_texts(source, &state, ends, reterr);
    for (uint32_t i = 0; i < state.count && status == QUIPU_OK; i++) {
        source->texts[i] = (quipu_str){qp_buf_str(&source->extra).p + start, ends[i] - start};
        start = ends[i];
    }
    source->text_count = state.count;
    return status;
}

/* Must come before the messages of the session: it loads them. */
static quipu_status lg_session(qp_source *source, const qp_source_session *session,
                               qp_source_values *ret, quipu_error *reterr)
{
    qp_chat_about about = {.title = {NULL, 0}};
    quipu_status status;

    quipu_arena_reset(&source->row);
    status = lg_load(source, session, reterr);
    if (status != QUIPU_OK) {
        return qp_source_fail(source, "the checkpoint", session->row, status, reterr);
    }
    if (session->count > 0) {
        const qp_source_place *places = &source->places[session->first];

        about.created = source->items[places[0].row].time;
        about.updated = source->items[places[session->count - 1].row].time;
    }
    return qp_chat_session(source, session, &about, ret, reterr);
}

/* LangChain's fields, which an older form has one level deeper. */
static qp_json_node lg_fields(qp_json_node message)
{
    const qp_json_node inner = qp_json_get(message, QUIPU_STR("kwargs"));

    return qp_json_kind_of(inner) == QP_JSON_OBJECT ? inner : message;
}

/* ADK's role by LangChain's type; a message that is not an object of LangChain has OpenAI's role.
 * Types outside of the table are "ai", "AIMessageChunk", or those of a later version. */
static const char *lg_role(quipu_str type)
{
    static const char *const roles[][2] = {
        {"human", "user"},
        {"user", "user"},
        {"HumanMessageChunk", "user"},
        {"system", "system"},
        {"developer", "system"},
        {"tool", "user"},
        {"ToolMessageChunk", "user"},
        {"function", "user"},
    };

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (quipu_str_eq(type, quipu_cstr(roles[i][0]))) {
            return roles[i][1];
        }
    }
    return "model";
}

/* LangChain writes the calls of every provider in one form here; the provider's own form, which
 * stands in the content as well, is passed over by chat_block(). */
static void lg_calls(qp_chat *chat, qp_json_node calls)
{
    qp_json_iter each = qp_json_each(calls);

    while (qp_json_next(&each)) {
        qp_chat_call(chat, qp_chat_member(chat->source, each.value, "id"),
                     qp_chat_member(chat->source, each.value, "name"),
                     qp_json_raw(qp_json_get(each.value, QUIPU_STR("args"))));
    }
}

/* Tokens of an answer. Absent unless it is a whole number. */
static ent_opt_int lg_tokens(qp_json_node usage, const char *name)
{
    ent_opt_int tokens = {.has = false};
    int64_t value = 0;

    tokens.has = qp_json_int64(qp_json_get(usage, quipu_cstr(name)), &value) == QP_JSON_EXACT;
    tokens.v = value;
    return tokens;
}

/* The content of a tool's message is its result; any other message has content, then calls. */
static void lg_parts(qp_chat *chat, qp_json_node fields, quipu_str type)
{
    const qp_json_node content = qp_json_get(fields, QUIPU_STR("content"));

    if (quipu_str_eq(type, QUIPU_STR("tool"))) {
        qp_chat_result_json(chat, qp_chat_member(chat->source, fields, "tool_call_id"),
                            qp_chat_member(chat->source, fields, "name"), content);
    } else {
        qp_chat_content(chat, content);
        lg_calls(chat, qp_json_get(fields, QUIPU_STR("tool_calls")));
    }
}

/* The type that LangChain gave, or the role of a plain message. */
static quipu_str lg_type(qp_source *source, qp_json_node message, qp_json_node fields)
{
    const quipu_str role = qp_chat_member(source, fields, "role");
    const quipu_str type = qp_chat_member(source, fields, "type");
    const qp_json_node names = qp_json_get(message, QUIPU_STR("id"));
    const size_t n = qp_json_count(names);
    quipu_str named = {NULL, 0};

    if (type.n > 0 || role.n > 0) {
        return type.n > 0 && !quipu_str_eq(type, QUIPU_STR("constructor")) ? type : role;
    }
    /* The older form names the class only: ["langchain", …, "HumanMessage"]. */
    if (n > 0) {
        named = qp_chat_string(source, qp_json_at(names, n - 1));
    }
    return quipu_str_eq(named, QUIPU_STR("HumanMessage"))    ? QUIPU_STR("human")
           : quipu_str_eq(named, QUIPU_STR("SystemMessage")) ? QUIPU_STR("system")
           : quipu_str_eq(named, QUIPU_STR("ToolMessage"))   ? QUIPU_STR("tool")
                                                             : QUIPU_STR("ai");
}

/* The place of a message is part of its id, because a hostile file may give two the same one. An
 * own id that leaves no room for the place is dropped; the place alone is unique in the session. */
static quipu_str lg_event_id(quipu_str own, int part, char ret_id[LG_EVENT_ID_MAX + 1])
{
    const size_t n = own.n < LG_EVENT_ID_MAX - LG_NUMBER_SIZE ? own.n : 0;
    const int length =
        snprintf(ret_id, LG_EVENT_ID_MAX + 1, "%d:%.*s", part + 1, (int)n, n > 0 ? own.p : "");

    return (quipu_str){ret_id, (size_t)length};
}

/* Called for the session that lg_session() loaded last: source->texts are its messages. */
static quipu_status lg_message(qp_source *source, const qp_source_session *session, int64_t at,
                               qp_message_new *ret, quipu_error *reterr)
{
    const qp_source_item *item = &source->items[at];
    char id[LG_EVENT_ID_MAX + 1];
    qp_chat chat;
    quipu_status status;

    (void)session;
    assert((size_t)item->part < source->text_count);
    qp_encoded_free(&source->encoded);
    quipu_arena_reset(&source->row);
    status = qp_json_parse(&source->item_doc, source->texts[item->part], NULL, reterr);
    if (status == QUIPU_OK) {
        const qp_json_node root = qp_json_root(&source->item_doc);
        const qp_json_node fields = lg_fields(root);
        const qp_json_node usage = qp_json_get(fields, QUIPU_STR("usage_metadata"));
        const quipu_str type = lg_type(source, root, fields);
        const qp_chat_said said = {
            .id = lg_event_id(qp_chat_member(source, fields, "id"), item->part, id),
            .role = lg_role(type),
            .author = quipu_str_eq(type, QUIPU_STR("tool"))
                          ? (quipu_str){NULL, 0} /* the tool's name is the result's */
                          : qp_chat_member(source, fields, "name"),
            .model = qp_chat_member(source, qp_json_get(fields, QUIPU_STR("response_metadata")),
                                    "model_name"),
            .time = item->time,
            .tokens_in = lg_tokens(usage, "input_tokens"),
            .tokens_out = lg_tokens(usage, "output_tokens")};

        qp_chat_begin(&chat, source, &said);
        lg_parts(&chat, fields, type);
        status = qp_chat_end(&chat, ret, reterr);
    }
    return qp_source_fail(source, "a message of the checkpoint", item->row, status, reterr);
}

const qp_source_layout qp_source_langgraph = {
    .open = lg_open,
    .session = lg_session,
    .message = lg_message,
    .shared = qp_chat_no_shared,
    .is_chat = true,
};
