/* The logs of `llm`: conversations of one row a question with its answer (until 0.31), and threads,
 * which are chains of messages from a tip back to their beginning (since 0.32):
 *
 *   threads.tip_message_hash ─▶ assistant ─▶ user ─▶ assistant ─▶ user ─▶ system
 *   turns.tip_message_hash   ─▶ assistant: its time, model and tokens
 *
 * A conversation that went on as a thread of the same id is in the thread as a whole, and is read
 * from there alone.
 *
 * Owns: the table qp_source_llm. Called by: source.c, run.c and write.c through it, within the read
 * transaction of run.c. On return texts lie in the source's arenas; a failure names the file and
 * the row. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ent/migrate.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "gen/llm.h"
#include "import/chat.h"

#define LLM_EVENT_ID_MAX 128
#define LLM_FILE_MAX 4200 /* "file://" and a path; PATH_MAX is 4,096 on Linux */

/* Sessions of two tables (qp_source_session.table). */
enum { LLM_THREADS = 1, LLM_CONVERSATIONS = 2 };

/* The messages of one row of responses (qp_source_item.part); a row of messages makes one
 * message. */
enum { LLM_MESSAGE = 0, LLM_SYSTEM, LLM_PROMPT, LLM_ANSWER };

/* Tables that older releases lack (qp_source.tables). */
enum {
    LLM_HAS_THREADS = 1,
    LLM_HAS_ATTACHMENTS = 2,
    LLM_HAS_FRAGMENTS = 4,
    LLM_HAS_TOOL_CALLS = 8,
    LLM_HAS_TOOL_RESULTS = 16,
};

/* ---- opening: sessions ------------------------------------------------------------------------
 */

/* `llm` adds tables as it grows and never rewrites old files, so that each one is looked up by
 * name; a query of a table that is missing would fail the import of a file that is merely old. */
static quipu_status llm_tables(qp_source *source, quipu_error *reterr)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } optional[] = {{"threads", LLM_HAS_THREADS},
                    {"prompt_attachments", LLM_HAS_ATTACHMENTS},
                    {"prompt_fragments", LLM_HAS_FRAGMENTS},
                    {"tool_calls", LLM_HAS_TOOL_CALLS},
                    {"tool_results", LLM_HAS_TOOL_RESULTS}};
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]) && status == QUIPU_OK; i++) {
        bool has = false;

        status = ent_step_has_table(source->db, optional[i].name, &has, reterr);
        source->tables |= has ? optional[i].bit : 0;
    }
    return status;
}

/* The row numbers of the two tables overlap: `table` says which one `row` counts in. */
static quipu_status llm_add(qp_source *source, int table, quipu_str id, int64_t row,
                            quipu_error *reterr)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), id};
    quipu_status status = qp_source_add_session(source, &ref, row, reterr);

    if (status == QUIPU_OK) {
        source->sessions[source->session_count - 1].table = table;
    }
    return status;
}

/* Names only; the messages of a thread are walked in llm_open(), when all sessions are sorted. */
static quipu_status llm_threads(qp_source *source, quipu_error *reterr)
{
    qp_llm_thread_iter iter = {0};
    qp_llm_thread row;
    quipu_status status =
        qp_llm_thread_iter_begin(source->db, &(qp_llm_thread_query){0}, &iter, reterr);

    while (status == QUIPU_OK && qp_llm_thread_iter_next(&iter, &row)) {
        status = llm_add(source, LLM_THREADS, row.thread_id, row.id, reterr);
    }
    quipu_status ended = qp_llm_thread_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* Threads are sorted, so that each conversation can be looked up among them. The ones that are
 * added behind them are not sorted yet: session_count hides them from qp_source_find() for the time
 * of the search. Sorting again at the end makes all of them searchable; indexes of sessions are
 * valid from then on. */
static quipu_status llm_conversations(qp_source *source, quipu_error *reterr)
{
    const size_t threads = source->session_count;
    qp_llm_conversation_iter iter = {0};
    qp_llm_conversation row;
    quipu_status status =
        qp_llm_conversation_iter_begin(source->db, &(qp_llm_conversation_query){0}, &iter, reterr);

    qp_source_sort_sessions(source);
    while (status == QUIPU_OK && qp_llm_conversation_iter_next(&iter, &row)) {
        const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), row.conversation_id};
        const size_t all = source->session_count;

        source->session_count = threads; /* those that are sorted */
        const bool went_on = qp_source_find(source, &ref) < threads;
        source->session_count = all;
        if (!went_on) {
            status = llm_add(source, LLM_CONVERSATIONS, row.conversation_id, row.id, reterr);
        }
    }
    quipu_status ended = qp_llm_conversation_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    qp_source_sort_sessions(source);
    return status == QUIPU_OK ? ended : status;
}

/* ---- opening: messages of conversations -------------------------------------------------------
 */

/* FNV-1a. A conversation logs its system prompt with every row; only a change makes a message.
 * Eight bytes a session remember the last one, where the prompt itself may have many kilobytes. Two
 * prompts of one hash, one in 2^64, would be taken for the same. */
static uint64_t llm_hash(quipu_str text)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < text.n; i++) {
        hash = (hash ^ (uint8_t)text.p[i]) * 0x100000001b3u;
    }
    return hash;
}

/* One row: a system prompt when it is another one than before, the question, the answer. The three
 * items share row and time and differ in `part`; they are added in the order in which they were
 * said, which qp_chat_add() keeps. */
static quipu_status llm_response(qp_source *source, const qp_llm_response *row, uint64_t *systems,
                                 quipu_error *reterr)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), row->conversation_id};
    const size_t session = qp_source_find(source, &ref);
    const uint64_t system = llm_hash(row->system);
    qp_source_item item = {.row = row->id};
    quipu_status status;

    if (session == source->session_count) {
        qp_source_report_orphan(source, &ref, row->id);
        return QUIPU_OK;
    }
    if (source->sessions[session].table != LLM_CONVERSATIONS) {
        return QUIPU_OK; /* its thread has it */
    }
    status = qp_chat_time(row->datetime_utc, &item.time, reterr);
    for (int part = LLM_SYSTEM; part <= LLM_ANSWER && status == QUIPU_OK; part++) {
        item.part = part;
        if (part != LLM_SYSTEM || (row->system.n > 0 && systems[session] != system)) {
            status = qp_chat_add(source, session, &item, reterr);
        }
    }
    if (row->system.n > 0) {
        systems[session] = system;
    }
    return status;
}

/* Rows are in the order in which they were logged. The entity is fitted to the file once and kept
 * in source->event, which llm_response_message() reads by, too: older releases lack columns. */
static quipu_status llm_responses(qp_source *source, quipu_error *reterr)
{
    const qp_llm_response_query all = {.order = {QP_LLM_RESPONSE_BY_ID(ASC)}};
    uint64_t *systems =
        qp_arena_take(&source->arena, (source->session_count + 1) * sizeof(*systems));
    qp_llm_response row = {0};
    ent_iter iter = {0};
    quipu_status status = qp_source_fit(source, &qp_llm_response_entity, &source->event, reterr);

    if (systems == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the file's sessions");
    }
    memset(systems, 0, (source->session_count + 1) * sizeof(*systems));
    if (status == QUIPU_OK) {
        status = ent_iter_begin(source->db, &source->event, &all, &iter, reterr);
    }
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        status = qp_source_fail(source, "the response", row.id,
                                llm_response(source, &row, systems, reterr), reterr);
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* ---- opening: messages of threads -------------------------------------------------------------
 */

/* By the hash of the message that they end with. For qsort() and bsearch(). */
static int llm_by_tip(const void *a, const void *b)
{
    const qp_llm_turn *x = a;
    const qp_llm_turn *y = b;

    return qp_str_cmp(x->tip_message_hash, y->tip_message_hash);
}

/* From the tip back to the beginning; *ret are in that order. A chain that is longer than the table
 * goes in a circle. Each step is a lookup by `hash`; the number of rows bounds the walk, because
 * parents come from the file and may point at each other. Arrays double in the arena and leave
 * their old halves there: a few times the chain, until llm_thread() resets the arena.
 *
 *   count = 0   tip            ─▶ row, parent_hash
 *   count = 1   its parent     ─▶ row, parent_hash
 *   …           the beginning: parent_hash is NULL */
static quipu_status llm_chain(qp_source *source, quipu_str tip, qp_source_item **ret,
                              quipu_str **ret_hashes, size_t *ret_count, quipu_error *reterr)
{
    quipu_arena *arena = &source->scratch;
    qp_source_item *items = NULL;
    quipu_str *hashes = NULL;
    quipu_str next = tip;
    int64_t rows = 0;
    size_t count = 0;
    size_t room = 0;
    quipu_status status =
        qp_llm_message_count(source->db, &(qp_llm_message_where){.id = {0}}, &rows, reterr);

    while (status == QUIPU_OK && next.p != NULL) {
        const qp_llm_message *row = NULL;
        const qp_llm_message_query query = {.where = {.hash = ent_eq(next)}};

        status = qp_llm_message_one(source->db, arena, &query, &row, reterr);
        if (status == QUIPU_NOT_FOUND) {
            return qp_error_set(reterr, QUIPU_CORRUPT, "its message \"%.*s\" is not in the file",
                                (int)qp_utf8_cut(next, 80), next.p);
        }
        if (status == QUIPU_OK && (int64_t)count == rows) {
            return qp_error_set(reterr, QUIPU_CORRUPT,
                                "its messages follow each other in a circle");
        }
        if (status == QUIPU_OK && count == room) {
            const size_t more = room == 0 ? 64 : room * 2;
            qp_source_item *grown = qp_arena_take(arena, more * sizeof(*grown));
            quipu_str *names = qp_arena_take(arena, more * sizeof(*names));

            if (grown == NULL || names == NULL) {
                return qp_error_set(reterr, QUIPU_NOMEM, "no memory for its messages");
            }
            if (count > 0) {
                memcpy(grown, items, count * sizeof(*grown));
                memcpy(names, hashes, count * sizeof(*names));
            }
            items = grown;
            hashes = names;
            room = more;
        }
        if (status == QUIPU_OK) {
            hashes[count] = row->hash;
            items[count++] = (qp_source_item){.row = row->id, .part = LLM_MESSAGE};
            next = row->parent_hash;
        }
    }
    if (status == QUIPU_OK) {
        *ret = items;
        *ret_hashes = hashes;
        *ret_count = count;
    }
    return status;
}

/* Messages are shared by threads and have no time of their own: a message has that of the turn
 * which it belongs to, the first one that ends at it or behind it. The walk goes from the newest
 * message to the oldest, so that `time` is that of the newest turn until an older one ends; a
 * message before any turn has the thread's own time.
 *
 *   tip ──────────────▶ beginning
 *   answer 2  question 2  answer 1  question 1
 *   turn 2    (turn 2)    turn 1    (turn 1)
 *
 * `about_row` is set where a turn ends, on its answer: that is the message which gets its model and
 * its tokens. The items are added from the back, in the order of the conversation. */
static quipu_status llm_thread(qp_source *source, size_t session, const qp_llm_thread *thread,
                               quipu_error *reterr)
{
    const qp_llm_turn_query query = {.where = {.thread_id = ent_eq(thread->thread_id)}};
    qp_source_item *items = NULL;
    quipu_str *hashes = NULL;
    ent_opt_time time = {.has = false};
    qp_llm_turn_list turns = {0};
    qp_llm_turn *sorted = NULL;
    size_t count = 0;
    quipu_status status =
        llm_chain(source, thread->tip_message_hash, &items, &hashes, &count, reterr);

    if (status == QUIPU_OK) {
        status = qp_llm_turn_find(source->db, &source->scratch, &query, &turns, reterr);
    }
    if (status == QUIPU_OK) {
        sorted = qp_arena_take(&source->scratch, (turns.n + 1) * sizeof(*sorted));
        status = sorted != NULL
                     ? qp_chat_time(thread->datetime_utc, &time, reterr)
                     : qp_error_set(reterr, QUIPU_NOMEM, "no memory for the thread's turns");
    }
    if (status == QUIPU_OK && turns.n > 0) {
        assert(sorted != NULL);
        memcpy(sorted, turns.items, turns.n * sizeof(*sorted));
        qsort(sorted, turns.n, sizeof(*sorted), llm_by_tip);
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        const qp_llm_turn wanted = {.tip_message_hash = hashes[i]};
        const qp_llm_turn *turn =
            turns.n > 0 ? bsearch(&wanted, sorted, turns.n, sizeof(*sorted), llm_by_tip) : NULL;

        if (turn != NULL) {
            items[i].about_row = turn->id;
            status = qp_chat_time(turn->datetime_utc, &time, reterr);
        }
        items[i].time = time;
    }
    while (status == QUIPU_OK && count > 0) {
        status = qp_chat_add(source, session, &items[--count], reterr);
    }
    quipu_arena_reset(&source->scratch);
    return status;
}

/* All sessions first, then messages: an index of a session is only valid once all are sorted. */
static quipu_status llm_open(qp_source *source, quipu_error *reterr)
{
    quipu_status status = llm_tables(source, reterr);

    if (status == QUIPU_OK && (source->tables & LLM_HAS_THREADS) != 0) {
        status = llm_threads(source, reterr);
    }
    if (status == QUIPU_OK) {
        status = llm_conversations(source, reterr);
    }
    if (status == QUIPU_OK) {
        status = llm_responses(source, reterr);
    }
    for (size_t i = 0; i < source->session_count && status == QUIPU_OK; i++) {
        const qp_source_session *session = &source->sessions[i];
        const qp_llm_thread *thread = NULL;

        if (session->table == LLM_THREADS) {
            status = qp_llm_thread_get(source->db, &source->scratch, session->row, &thread, reterr);
            if (status == QUIPU_OK) {
                status = llm_thread(source, i, thread, reterr);
            }
            status = qp_source_fail(source, "the thread", session->row, status, reterr);
        }
    }
    return status;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* Name, and the times of the first and last message; the model of the last answer is in it. Neither
 * table has a time of the last change; a session without messages has no times at all and gets
 * those of its import. */
static quipu_status llm_session(qp_source *source, const qp_source_session *session,
                                qp_source_values *ret, quipu_error *reterr)
{
    const qp_source_place *places = &source->places[session->first];
    const qp_llm_thread *thread = NULL;
    const qp_llm_conversation *conversation = NULL;
    qp_chat_about about = {.title = {NULL, 0}};
    quipu_status status =
        session->table == LLM_THREADS
            ? qp_llm_thread_get(source->db, &source->scratch, session->row, &thread, reterr)
            : qp_llm_conversation_get(source->db, &source->scratch, session->row, &conversation,
                                      reterr);

    if (status != QUIPU_OK) {
        return qp_source_fail(source, "the session", session->row, status, reterr);
    }
    assert(thread != NULL || conversation != NULL);
    about.title = thread != NULL ? thread->name : conversation->name;
    if (session->count > 0) {
        about.created = source->items[places[0].row].time;
        about.updated = source->items[places[session->count - 1].row].time;
    }
    return qp_chat_session(source, session, &about, ret, reterr);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

/* An attachment by its id: its bytes, or where they are. A missing one is named by its id. `llm`
 * keeps bytes only of what it was given as bytes; of a file it keeps the path, and the import does
 * not open it: a log must not make this process read files that it names. A path that is too long
 * for the buffer is left out, and "file://" stays as a trace of it. */
static quipu_status llm_attachment(qp_chat *chat, quipu_str id, quipu_error *reterr)
{
    qp_source *source = chat->source;
    const qp_llm_attachment_query query = {.where = {.attachment_id = ent_eq(id)}};
    char file[LLM_FILE_MAX];
    const qp_llm_attachment *row = NULL;
    quipu_status status = qp_llm_attachment_one(source->db, &source->row, &query, &row, reterr);

    if (status == QUIPU_NOT_FOUND) {
        qp_chat_uri(chat, (quipu_str){NULL, 0}, id);
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (row->content.n > 0) {
        qp_chat_bytes(chat, row->type, row->content);
    } else if (row->url.n > 0) {
        qp_chat_uri(chat, row->type, row->url);
    } else {
        (void)snprintf(file, sizeof(file), "file://%.*s",
                       row->path.n < LLM_FILE_MAX - 10 ? (int)row->path.n : 0,
                       row->path.p != NULL ? row->path.p : "");
        qp_chat_uri(chat, row->type, quipu_cstr(file));
    }
    return QUIPU_OK;
}

/* A fragment: a text that `llm` keeps once and prompts refer to. A missing fragment is damage,
 * unlike a missing attachment: the text of the question is gone. */
static quipu_status llm_fragment(qp_source *source, int64_t id, quipu_str *ret, quipu_error *reterr)
{
    const qp_llm_fragment *row = NULL;
    quipu_status status = qp_llm_fragment_get(source->db, &source->row, id, &row, reterr);

    if (status == QUIPU_NOT_FOUND) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "its fragment %lld is not in the file",
                            (long long)id);
    }
    if (status == QUIPU_OK) {
        *ret = row->content;
    }
    return status;
}

/* ---- messages of conversations ----------------------------------------------------------------
 */

/* Fragments stand before the prompt, as the model got them. */
static quipu_status llm_prompt_fragments(qp_chat *chat, quipu_str response, quipu_error *reterr)
{
    qp_source *source = chat->source;
    const qp_llm_prompt_fragment_query query = {.where = {.response_id = ent_eq(response)},
                                                .order = {QP_LLM_PROMPT_FRAGMENT_BY_POSITION(ASC)}};
    qp_llm_prompt_fragment_list list = {0};
    quipu_status status = QUIPU_OK;

    if ((source->tables & LLM_HAS_FRAGMENTS) != 0) {
        status = qp_llm_prompt_fragment_find(source->db, &source->row, &query, &list, reterr);
    }
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        quipu_str text = {NULL, 0};

        status = llm_fragment(source, list.items[i].fragment_id.v, &text, reterr);
        if (status == QUIPU_OK) {
            qp_chat_text(chat, text, false);
        }
    }
    return status;
}

/* Media stand behind the prompt, in the order in which they were given. */
static quipu_status llm_prompt_attachments(qp_chat *chat, quipu_str response, quipu_error *reterr)
{
    qp_source *source = chat->source;
    const qp_llm_prompt_attachment_query query = {
        .where = {.response_id = ent_eq(response)},
        .order = {QP_LLM_PROMPT_ATTACHMENT_BY_POSITION(ASC)}};
    qp_llm_prompt_attachment_list list = {0};
    quipu_status status = QUIPU_OK;

    if ((source->tables & LLM_HAS_ATTACHMENTS) != 0) {
        status = qp_llm_prompt_attachment_find(source->db, &source->row, &query, &list, reterr);
    }
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = llm_attachment(chat, list.items[i].attachment_id, reterr);
    }
    return status;
}

/* Calls of an answer, or results that a prompt brought. Both tables name the response they were
 * logged with: a call is what that answer asked for, a result is what the prompt before that answer
 * brought. The two finds exclude each other; the loop over the list that was not read does nothing.
 */
static quipu_status llm_tools(qp_chat *chat, quipu_str response, bool results, quipu_error *reterr)
{
    qp_source *source = chat->source;
    const qp_llm_tool_call_query calls = {.where = {.response_id = ent_eq(response)},
                                          .order = {QP_LLM_TOOL_CALL_BY_ID(ASC)}};
    const qp_llm_tool_result_query outputs = {.where = {.response_id = ent_eq(response)},
                                              .order = {QP_LLM_TOOL_RESULT_BY_ID(ASC)}};
    qp_llm_tool_call_list called = {0};
    qp_llm_tool_result_list came = {0};
    quipu_status status = QUIPU_OK;

    if (results && (source->tables & LLM_HAS_TOOL_RESULTS) != 0) {
        status = qp_llm_tool_result_find(source->db, &source->row, &outputs, &came, reterr);
    } else if (!results && (source->tables & LLM_HAS_TOOL_CALLS) != 0) {
        status = qp_llm_tool_call_find(source->db, &source->row, &calls, &called, reterr);
    }
    for (size_t i = 0; i < came.n; i++) {
        qp_chat_result(chat, came.items[i].tool_call_id, came.items[i].name, came.items[i].output);
    }
    for (size_t i = 0; i < called.n; i++) {
        qp_chat_call(chat, called.items[i].tool_call_id, called.items[i].name,
                     called.items[i].arguments);
    }
    return status;
}

/* The question or the answer of one row. The event id is the row's own id and the role,
 * "01hx…:user", so that the three messages of a row differ and a second import finds them again. A
 * row without a usable id has its row number.
 *
 *   LLM_SYSTEM   the system prompt
 *   LLM_PROMPT   results of tools, fragments, the prompt, attachments
 *   LLM_ANSWER   reasoning, the answer, calls; model and tokens are its */
static quipu_status llm_response_message(qp_source *source, const qp_source_item *item,
                                         qp_message_new *ret, quipu_error *reterr)
{
    static const char *const roles[] = {"", "system", "user", "model"};
    const void *keys[] = {&item->row};
    const bool answer = item->part == LLM_ANSWER;
    char id[LLM_EVENT_ID_MAX + 1];
    const qp_llm_response *row = NULL;
    qp_chat chat;
    quipu_status status = ent_get(source->db, &source->row, &source->event, -1, keys, &row, reterr);

    assert(item->part >= LLM_SYSTEM && item->part <= LLM_ANSWER);
    if (status != QUIPU_OK) {
        return status;
    }
    if (row->response_id.n > 0 && row->response_id.n < LLM_EVENT_ID_MAX - 10) {
        (void)snprintf(id, sizeof(id), "%.*s:%s", (int)row->response_id.n, row->response_id.p,
                       roles[item->part]);
    } else {
        (void)snprintf(id, sizeof(id), "row %lld:%s", (long long)row->id, roles[item->part]);
    }
    qp_chat_begin(&chat, source,
                  &(qp_chat_said){.id = quipu_cstr(id),
                                  .role = roles[item->part],
                                  .time = item->time,
                                  .model = answer ? row->model : (quipu_str){NULL, 0},
                                  .tokens_in = answer ? row->input_tokens : (ent_opt_int){0},
                                  .tokens_out = answer ? row->output_tokens : (ent_opt_int){0}});
    if (answer) {
        qp_chat_text(&chat, row->reasoning, true);
        qp_chat_text(&chat, row->response, false);
        status = llm_tools(&chat, row->response_id, false, reterr);
    } else if (item->part == LLM_SYSTEM) {
        qp_chat_text(&chat, row->system, false);
    } else {
        status = llm_tools(&chat, row->response_id, true, reterr);
        if (status == QUIPU_OK) {
            status = llm_prompt_fragments(&chat, row->response_id, reterr);
        }
        qp_chat_text(&chat, row->prompt, false);
        if (status == QUIPU_OK) {
            status = llm_prompt_attachments(&chat, row->response_id, reterr);
        }
    }
    return status == QUIPU_OK ? qp_chat_end(&chat, ret, reterr) : status;
}

/* ---- messages of threads ----------------------------------------------------------------------
 */

/* The text of a part: its own, or the pieces of its payload, some of which are fragments.
 * `text_ref` is a list of {"literal": …} and {"fragment": number}; joined, they are the text that
 * the model got. `extra` holds it until the part is written, and the next part reuses it. */
static quipu_status llm_part_text(qp_chat *chat, const qp_llm_part *part, qp_json_node payload,
                                  bool thought, quipu_error *reterr)
{
    qp_source *source = chat->source;
    qp_json_iter each = qp_json_each(qp_json_get(payload, QUIPU_STR("text_ref")));
    quipu_status status = QUIPU_OK;

    if (part->text.p != NULL) {
        qp_chat_text(chat, part->text, thought);
        return QUIPU_OK;
    }
    qp_buf_reset(&source->extra);
    while (status == QUIPU_OK && qp_json_next(&each)) {
        const qp_json_node fragment = qp_json_get(each.value, QUIPU_STR("fragment"));
        quipu_str text = qp_chat_member(source, each.value, "literal");
        int64_t id = 0;

        if (qp_json_int64(fragment, &id) == QP_JSON_EXACT) {
            status = llm_fragment(source, id, &text, reterr);
        }
        qp_buf_put(&source->extra, text);
    }
    if (status == QUIPU_OK && qp_buf_status(&source->extra) != QUIPU_OK) {
        status = qp_error_set(reterr, qp_buf_status(&source->extra), "its text is too large");
    }
    if (status == QUIPU_OK) {
        qp_chat_text(chat, qp_buf_str(&source->extra), thought);
    }
    return status;
}

/* A tool's result, with the media that came beside it. Media are parts of their own behind the
 * result, because a response in ADK holds JSON alone. */
static quipu_status llm_part_result(qp_chat *chat, qp_json_node payload, quipu_error *reterr)
{
    qp_source *source = chat->source;
    qp_json_iter each = qp_json_each(qp_json_get(payload, QUIPU_STR("attachments")));
    quipu_status status = QUIPU_OK;

    qp_chat_result_json(chat, qp_chat_member(source, payload, "tool_call_id"),
                        qp_chat_member(source, payload, "name"),
                        qp_json_get(payload, QUIPU_STR("output")));
    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = llm_attachment(chat, qp_chat_member(source, each.value, "id"), reterr);
    }
    return status;
}

/* One part. The JSON of an unknown type is kept as text. The document of `payload` is valid until
 * the next part. Known types other than text and reasoning have their values in it. */
static quipu_status llm_part(qp_chat *chat, const qp_llm_part *part, quipu_error *reterr)
{
    qp_source *source = chat->source;
    const quipu_str json = part->payload.text;
    qp_json_node payload;
    quipu_status status =
        qp_json_parse(&source->item_doc, json.p != NULL ? json : QUIPU_STR("{}"), NULL, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    payload = qp_json_root(&source->item_doc);
    if (quipu_str_eq(part->type, QUIPU_STR("text")) ||
        quipu_str_eq(part->type, QUIPU_STR("reasoning"))) {
        return llm_part_text(chat, part, payload, part->type.p[0] == 'r', reterr);
    }
    if (quipu_str_eq(part->type, QUIPU_STR("tool_call"))) {
        qp_chat_call(chat, qp_chat_member(source, payload, "tool_call_id"),
                     qp_chat_member(source, payload, "name"),
                     qp_json_raw(qp_json_get(payload, QUIPU_STR("arguments"))));
    } else if (quipu_str_eq(part->type, QUIPU_STR("tool_result"))) {
        status = llm_part_result(chat, payload, reterr);
    } else if (quipu_str_eq(part->type, QUIPU_STR("attachment"))) {
        status = llm_attachment(
            chat, qp_chat_member(source, qp_json_get(payload, QUIPU_STR("attachment")), "id"),
            reterr);
    } else {
        qp_chat_text(chat, part->text.p != NULL ? part->text : json, false);
    }
    return status;
}

/* A message of a thread, with the model and the tokens of its turn when it ends one. The hash of
 * its content and its parents is its event id: two threads that share a beginning have the same ids
 * there, each in its own session. A role that is neither an assistant's nor a system's is the
 * user's side, where ADK has results of tools as well. */
static quipu_status llm_thread_message(qp_source *source, const qp_source_item *item,
                                       qp_message_new *ret, quipu_error *reterr)
{
    const qp_llm_message *row = NULL;
    const qp_llm_turn *turn = NULL;
    qp_llm_part_list parts = {0};
    qp_chat_said said = {.time = item->time};
    qp_chat chat;
    quipu_status status = qp_llm_message_get(source->db, &source->row, item->row, &row, reterr);

    if (status == QUIPU_OK && item->about_row != 0) {
        status = qp_llm_turn_get(source->db, &source->row, item->about_row, &turn, reterr);
    }
    if (status == QUIPU_OK) {
        const qp_llm_part_query query = {.where = {.message_hash = ent_eq(row->hash)},
                                         .order = {QP_LLM_PART_BY_POSITION(ASC)}};

        status = qp_llm_part_find(source->db, &source->row, &query, &parts, reterr);
    }
    if (status == QUIPU_OK && (row->hash.n == 0 || row->hash.n > LLM_EVENT_ID_MAX)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "its hash has %zu bytes; 1 to %d are allowed",
                              row->hash.n, LLM_EVENT_ID_MAX);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    said.id = row->hash;
    said.role = quipu_str_eq(row->role, QUIPU_STR("assistant")) ? "model"
                : quipu_str_eq(row->role, QUIPU_STR("system"))  ? "system"
                                                                : "user";
    if (turn != NULL) {
        said.model = turn->model;
        said.tokens_in = turn->input_tokens;
        said.tokens_out = turn->output_tokens;
    }
    qp_chat_begin(&chat, source, &said);
    for (size_t i = 0; i < parts.n && status == QUIPU_OK; i++) {
        status = llm_part(&chat, &parts.items[i], reterr);
    }
    return status == QUIPU_OK ? qp_chat_end(&chat, ret, reterr) : status;
}

/* Frees what the previous message left before it reads: memory does not grow with the file. */
static quipu_status llm_message(qp_source *source, const qp_source_session *session, int64_t at,
                                qp_message_new *ret, quipu_error *reterr)
{
    const qp_source_item *item = &source->items[at];
    const bool thread = item->part == LLM_MESSAGE;
    quipu_status status;

    assert(thread == (session->table == LLM_THREADS));
    (void)session;
    qp_encoded_free(&source->encoded);
    quipu_arena_reset(&source->row);
    status = thread ? llm_thread_message(source, item, ret, reterr)
                    : llm_response_message(source, item, ret, reterr);
    return qp_source_fail(source, thread ? "the message" : "the response", item->row, status,
                          reterr);
}

const qp_source_layout qp_source_llm = {
    .open = llm_open,
    .session = llm_session,
    .message = llm_message,
    .shared = qp_chat_no_shared,
    .is_chat = true,
};
