/* Tools that read one session: session_overview, read_messages, get_state.
 *
 * Owns: nothing after a call. Called by: tools.c. Transactions: each call of the library is one
 * snapshot, and the scope is checked on what it returned. Locks: none. The result is bounded by
 * max_tokens, an estimate: a result may exceed it by the members around the texts. */
#include "mcp/tool.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "mcp/live.h"

#define READ_NEWEST_BEFORE 9 /* neighbours of the newest message, when no number is given */
#define READ_NAMES_SIZE 1024 /* bytes of the names of a state in an error */
#define READ_NOTE_SIZE 200

/* ---- session_overview ------------------------------------------------------------------------ */

/* The newest memories that fit, of one kind. From the end of the list, which has the oldest first:
 * by the time of creation with QUIPU_MEMORY_FIND_SCOPE, by the number of saving of one session
 * alone. */
static quipu_status read_put_memories(qp_mcp_call *call, quipu_str key, quipu_memory_kind kind,
                                      qp_mcp_items *items, quipu_error *error)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_status status;

    query.kind = kind;
    query.session_key = key;
    /* A user's other sessions lie outside of the scope of one session. */
    query.flags = call->server->session_key.p == NULL ? QUIPU_MEMORY_FIND_SCOPE : 0;
    status = quipu_memory_find(call->server->store, &query, NULL, &list, error);
    if (status != QUIPU_OK) {
        return status;
    }
    for (size_t i = list->memories.count; i > 0; i--) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i - 1);
        qp_jsonw *out = qp_mcp_item_begin(items);
        char id[QUIPU_UUID_TEXT_SIZE];

        quipu_uuid_format(memory->id, id);
        qp_jsonw_put(out, "id", id);
        qp_jsonw_put(out, "kind", kind == QUIPU_OBSERVATION ? "observation" : "reflection");
        /* The first one fits in any case, cut if need be; others are shown as a whole or not. */
        qp_mcp_put_cut(out, "text", memory->content,
                       items->count == 0 ? items->left - QP_MCP_ITEM_TOKENS : INT32_MAX);
        qp_jsonw_put_text(out, "session", memory->session_key);
        qp_jsonw_put_text(out, "subject", memory->subject);
        qp_jsonw_put_time(out, "created_at", memory->created_at);
        if (!qp_mcp_item_end(items)) {
            break;
        }
    }
    quipu_free(list);
    return QUIPU_OK;
}

/* The summary of a compacted session, in at most half of the budget.
 * The summary is the message at compacted_seq; a session without a compaction has none. */
static bool read_put_summary(qp_mcp_call *call, const quipu_session_info *info)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;

    if (info->compacted_seq == 0) {
        return true;
    }
    /* One message: `after` excludes its own number. */
    range.after_seq = info->compacted_seq - 1;
    range.limit = 1;
    if (!qp_mcp_call_get(call, &range, &history)) {
        return false;
    }
    if (history->messages.count == 1) {
        qp_mcp_put_cut(call->out, "summary", quipu_message_at(history->messages, 0)->content,
                       qp_mcp_argument(call, "max_tokens")->number / 2);
    }
    quipu_free(history);
    return true;
}

/* The session, its newest summary and what memory holds about it. Half of the budget is for
 * memories: the summary has the other half.
 * Observations first: they are the newer ones, and reflections summarize them. */
static bool read_put_overview(qp_mcp_call *call, const quipu_session_info *info)
{
    qp_mcp_items items;
    quipu_error error = {0};
    quipu_status status;

    qp_jsonw_key(call->out, QUIPU_STR("session"));
    qp_jsonw_object(call->out);
    qp_mcp_put_session(call->out, info);
    qp_jsonw_object_end(call->out);
    if (!read_put_summary(call, info)) {
        return false;
    }
    qp_mcp_items_begin(&items, call, "memories");
    /* Tokens that the summary did not use are not given to the memories, so that sizes stay
     * predictable. */
    items.left /= 2;
    status = read_put_memories(call, info->key, QUIPU_OBSERVATION, &items, &error);
    if (status == QUIPU_OK && !items.full) {
        status = read_put_memories(call, info->key, QUIPU_REFLECTION, &items, &error);
    }
    qp_mcp_items_end(&items);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    if (items.full) {
        qp_jsonw_put(call->out, "note", "more memories do not fit: raise max_tokens");
    }
    return true;
}

/* Reads the header, the summary and the memories; messages are for read_messages. */
bool qp_mcp_session_overview(qp_mcp_call *call)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    bool done;

    header.flags = QUIPU_RANGE_HEADER;
    if (!qp_mcp_call_get(call, &header, &history)) {
        return false;
    }
    done = read_put_overview(call, history->session);
    quipu_free(history);
    return done;
}

/* ---- read_messages --------------------------------------------------------------------------- */

/* Which messages of a slice fit the budget: [from, to) around `centre`, nearest first. */
typedef struct read_part {
    size_t from;
    size_t to;
    int64_t left; /* tokens for the centre alone, when it does not fit */
} read_part;

/* The tokens of a message, with the members around its text. QP_MCP_ITEM_TOKENS is the cost of the
 * members' names. */
static int64_t read_cost(quipu_messages messages, size_t index)
{
    return qp_mcp_message_tokens(quipu_message_at(messages, index)) + QP_MCP_ITEM_TOKENS;
}

/* Grows from the centre to both sides, the side before it first, and ends at the first message that
 * does not fit: what is shown has no gaps.
 * The centre is always shown, cut to `left` where it does not fit alone. */
static read_part read_choose(quipu_messages messages, size_t centre, int64_t budget)
{
    read_part part = {centre, centre + 1, budget - QP_MCP_ITEM_TOKENS};
    int64_t left = budget - read_cost(messages, centre);
    bool before = part.from > 0;
    bool after = part.to < messages.count;

    assert(centre < messages.count);
    /* `left` below 0 ends both sides: a smaller message behind a large one would be a gap. */
    while (left > 0 && (before || after)) {
        if (before) {
            left -= read_cost(messages, part.from - 1);
            part.from -= left >= 0 ? 1 : 0;
        }
        if (after && left > 0) {
            left -= read_cost(messages, part.to);
            part.to += left >= 0 ? 1 : 0;
        }
        before = before && part.from > 0;
        after = after && part.to < messages.count;
    }
    return part;
}

/* The part around the centre that fits. first_seq and last_seq are those of the session, so that a
 * model knows where it can read on. */
static void read_put_messages(qp_mcp_call *call, const quipu_history *history, size_t centre)
{
    const quipu_messages messages = history->messages;
    const read_part part =
        read_choose(messages, centre, qp_mcp_argument(call, "max_tokens")->number);
    char note[READ_NOTE_SIZE];

    qp_jsonw_put_text(call->out, "session", history->session->key);
    qp_jsonw_key(call->out, QUIPU_STR("messages"));
    qp_jsonw_array(call->out);
    for (size_t i = part.from; i < part.to; i++) {
        qp_mcp_put_message(call->out, quipu_message_at(messages, i), part.left);
    }
    qp_jsonw_array_end(call->out);
    qp_jsonw_put_i64(call->out, "first_seq", history->session->first_seq);
    qp_jsonw_put_i64(call->out, "last_seq", history->session->next_seq - 1);
    if (part.to - part.from < messages.count) {
        (void)snprintf(note, sizeof(note),
                       "%zu of the %zu messages asked for do not fit: raise max_tokens, or ask for "
                       "fewer neighbours",
                       messages.count - (part.to - part.from), messages.count);
        qp_jsonw_put(call->out, "note", note);
    }
}

/* The index of the message of that number, or `count`.
 * A walk: a slice has at most 201 messages. */
static size_t read_find(quipu_messages messages, int64_t seq)
{
    size_t i = 0;

    while (i < messages.count && quipu_message_at(messages, i)->seq != seq) {
        i++;
    }
    return i;
}

/* Without a number: the newest message and those before it.
 * Numbers that the session does not have are an error with the numbers that it has. */
bool qp_mcp_read_messages(qp_mcp_call *call)
{
    const qp_mcp_value *seq = qp_mcp_argument(call, "seq");
    const qp_mcp_value *before = qp_mcp_argument(call, "before");
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    size_t centre;

    if (seq->given) {
        /* The range excludes both of its ends. */
        const int64_t first = seq->number - before->number;

        range.after_seq = first > 1 ? first - 1 : 0;
        range.before_seq = seq->number + qp_mcp_argument(call, "after")->number + 1;
    } else {
        range.flags = QUIPU_RANGE_LAST;
        range.limit = 1 + (before->given ? before->number : READ_NEWEST_BEFORE);
    }
    if (!qp_mcp_call_get(call, &range, &history)) {
        return false;
    }
    centre = seq->given ? read_find(history->messages, seq->number) : history->messages.count - 1;
    if (centre < history->messages.count) {
        read_put_messages(call, history, centre);
    } else if (history->session->message_count == 0) {
        (void)qp_mcp_call_fail(call, "the session has no messages");
    } else {
        (void)qp_mcp_call_fail(
            call, "there is no message %" PRId64 ": the session has %" PRId64 " to %" PRId64,
            seq->number, history->session->first_seq, history->session->next_seq - 1);
    }
    quipu_free(history);
    return call->error[0] == '\0';
}

/* ---- get_state ------------------------------------------------------------------------------- */

/* Fails a call with the names that a state has, so that the model can ask for one.
 * As many names as fit the text; `names` may be cut in the middle of one. */
static bool read_fail_names(qp_mcp_call *call, quipu_json state, const char *why)
{
    char names[READ_NAMES_SIZE] = "";
    size_t n = 0;
    qp_json_doc doc;
    quipu_error error = {0};

    qp_json_init(&doc);
    if (qp_json_parse(&doc, state.text, NULL, &error) == QUIPU_OK) {
        qp_json_iter iter = qp_json_each(qp_json_root(&doc));

        while (n < sizeof(names) && qp_json_next(&iter)) {
            const quipu_str name = qp_json_raw(iter.key);

            /* May count beyond the room, which ends the loop. */
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%.*s", n > 0 ? ", " : "",
                                  (int)name.n, name.p);
        }
    }
    qp_json_free(&doc);
    return qp_mcp_call_fail(call, "%s; its names: %s", why, n > 0 ? names : "none");
}

/* The state, or the value of one name; never a part of it.
 * An object that is cut would be wrong JSON, or wrong: the names are shown instead, and the model
 * asks for one of them. */
static bool read_put_state(qp_mcp_call *call, quipu_live *live)
{
    const qp_mcp_value *name = qp_mcp_argument(call, "name");
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot found = QUIPU_SNAPSHOT_INIT;
    quipu_json value = {{NULL, 0}};
    quipu_json all = {{NULL, 0}};
    quipu_error error = {0};
    quipu_status status;

    query.flags = QUIPU_LIVE_STATE;
    status = quipu_live_get(live, &query, call->arena, &found, &error);
    all = found.state;
    if (status == QUIPU_OK && name->given) {
        query.name = name->text;
        status = quipu_live_get(live, &query, call->arena, &found, &error);
        value = found.state;
        /* A name that is wrong is answered with those that there are. */
        if (status == QUIPU_NOT_FOUND) {
            return read_fail_names(call, all, "the state has no such name");
        }
    }
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    if (!name->given) {
        value = all;
    }
    if (quipu_token_estimate(value.text) > qp_mcp_argument(call, "max_tokens")->number) {
        return read_fail_names(call, all,
                               "the state has more tokens than max_tokens: raise it, or ask for "
                               "one name");
    }
    qp_jsonw_put_text(call->out, "name", name->text);
    qp_mcp_put_json(call->out, name->given ? "value" : "state", value);
    return true;
}

/* The live session behind a header that the scope has admitted.
 * Opened by the plain service, which only reads here; a fork fails, because its state stays with
 * its parent. */
static bool read_live(qp_mcp_call *call, const quipu_session_info *info, quipu_live **ret_live)
{
    quipu_error error = {0};
    const quipu_status status =
        qp_live_of_session(call->server->service, info, NULL, call->arena, ret_live, &error);

    return status == QUIPU_OK || qp_mcp_call_fail_status(call, status, &error);
}

/* Scope first, then state: a session outside of the scope has no state to show.
 * The live session is freed behind the last use of its texts. */
bool qp_mcp_get_state(qp_mcp_call *call)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_live *live = NULL;
    bool done;

    header.flags = QUIPU_RANGE_HEADER;
    if (!qp_mcp_call_get(call, &header, &history)) {
        return false;
    }
    qp_jsonw_put_text(call->out, "session", history->session->key);
    done = read_live(call, history->session, &live) && read_put_state(call, live);
    quipu_live_free(live);
    quipu_free(history);
    return done;
}
