/* Sessions of OpenAI's Agents SDK (SQLiteSession): one row an item of the Responses API, as JSON.
 * An item is a message, a call, an output or a reasoning; each becomes one message.
 *
 * AdvancedSQLiteSession has branches in the same table: what lies on the branch "main" is imported,
 * items of other branches only are left out and counted.
 *
 * Owns: the table qp_source_openai_agents. Called by: source.c, run.c and write.c through it,
 * within the read transaction of run.c. On return texts lie in the source's arenas; a failure names
 * the file and the row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ent/migrate.h>

#include "base/arena.h"
#include "base/error.h"
#include "gen/openai_agents.h"
#include "import/chat.h"

#define OAI_EVENT_ID_SIZE 32 /* "item-" and the digits of an int64_t */
#define OAI_MAIN "main"

/* ---- opening ----------------------------------------------------------------------------------
 */

/* A failure in the loop keeps its own error: ending the iterator gets no place for another one. */
static quipu_status oai_sessions(qp_source *source, quipu_error *reterr)
{
    qp_oai_session_iter iter = {0};
    qp_oai_session row;
    quipu_status status =
        qp_oai_session_iter_begin(source->db, &(qp_oai_session_query){0}, &iter, reterr);

    while (status == QUIPU_OK && qp_oai_session_iter_next(&iter, &row)) {
        status = qp_source_add_session(
            source, &(quipu_session_ref){QUIPU_STR(""), QUIPU_STR(""), row.session_id}, row.id,
            reterr);
    }
    quipu_status ended = qp_oai_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* Whether an item lies on other branches only. An item without a row of the structure was added by
 * a plain SQLiteSession: it is on every branch. The table's index begins with other columns, so
 * that two counts for each item would be slow for long files; these rows are few. */
static quipu_status oai_elsewhere(const qp_source *source, int64_t item, bool *ret_elsewhere,
                                  quipu_error *reterr)
{
    qp_oai_structure_where where = {.message_id = ent_eq(item)};
    int64_t all = 0;
    int64_t on_main = 0;
    quipu_status status = qp_oai_structure_count(source->db, &where, &all, reterr);

    where.branch_id = ent_eq(QUIPU_STR(OAI_MAIN));
    if (status == QUIPU_OK && all > 0) {
        status = qp_oai_structure_count(source->db, &where, &on_main, reterr);
    }
    *ret_elsewhere = all > 0 && on_main == 0;
    return status;
}

/* An item without its session, or on another branch, is reported and left out. Plain files have no
 * table of branches: `branches` says whether to ask it at all. */
static quipu_status oai_place(qp_source *source, const qp_oai_item *row, bool branches,
                              quipu_error *reterr)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), row->session_id};
    const size_t session = qp_source_find(source, &ref);
    qp_source_item item = {.row = row->id};
    bool elsewhere = false;
    quipu_status status = QUIPU_OK;

    if (branches && session < source->session_count) {
        status = oai_elsewhere(source, row->id, &elsewhere, reterr);
    }
    if (status == QUIPU_OK && (session == source->session_count || elsewhere)) {
        qp_source_report_orphan(source, &ref, row->id);
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = qp_chat_time(row->created_at, &item.time, reterr);
    }
    return status == QUIPU_OK ? qp_chat_add(source, session, &item, reterr) : status;
}

/* Ids of items rise in the order in which they were added. Contents are not read here. Contents may
 * be megabytes, places are not: the copy of the entity ends before the column that holds them.
 * Times are seconds in the file; items of one second keep the order of their ids. */
static quipu_status oai_places(qp_source *source, quipu_error *reterr)
{
    qp_oai_item_query all = {.order = {QP_OAI_ITEM_BY_ID(ASC)}};
    qp_oai_item row = {0};
    ent_iter iter = {0};
    bool branches = false;
    quipu_status status =
        ent_step_has_column(source->db, "message_structure", "branch_id", &branches, reterr);

    source->place = qp_oai_item_entity;
    source->place.field_count--; /* without message_data, the last field */
    if (status == QUIPU_OK) {
        status = ent_iter_begin(source->db, &source->place, &all, &iter, reterr);
    }
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        status = qp_source_fail(source, "the item", row.id,
                                oai_place(source, &row, branches, reterr), reterr);
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* Sessions are sorted before the items are read, because each item looks its session up. */
static quipu_status oai_open(qp_source *source, quipu_error *reterr)
{
    quipu_status status = oai_sessions(source, reterr);

    qp_source_sort_sessions(source);
    return status == QUIPU_OK ? oai_places(source, reterr) : status;
}

/* ---- sessions and items -----------------------------------------------------------------------
 */

/* The SDK keeps neither title nor model beside a session; the store takes the title's place from
 * the first words, as of any session. */
static quipu_status oai_session(qp_source *source, const qp_source_session *session,
                                qp_source_values *ret, quipu_error *reterr)
{
    const qp_oai_session *row = NULL;
    qp_chat_about about = {.created = {0}};
    quipu_status status =
        qp_oai_session_get(source->db, &source->scratch, session->row, &row, reterr);

    if (status == QUIPU_OK) {
        status = qp_chat_time(row->created_at, &about.created, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_chat_time(row->updated_at, &about.updated, reterr);
    }
    if (status != QUIPU_OK) {
        return qp_source_fail(source, "the session", session->row, status, reterr);
    }
    return qp_chat_session(source, session, &about, ret, reterr);
}

/* Summaries of what a model thought; encrypted content is for its provider. */
static void oai_reasoning(qp_chat *chat, qp_json_node item)
{
    static const char *const lists[] = {"summary", "content"};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        qp_json_iter each = qp_json_each(qp_json_get(item, quipu_cstr(lists[i])));

        while (qp_json_next(&each)) {
            qp_chat_text(chat, qp_chat_member(chat->source, each.value, "text"), true);
        }
    }
}

/* Whether a type says that an item is what a tool gave back. */
static bool oai_is_output(quipu_str type)
{
    static const char end[] = "_output";
    const size_t n = sizeof(end) - 1;

    return type.n > n && memcmp(type.p + type.n - n, end, n) == 0;
}

/* ADK's role: outputs come from the user's side, as ADK writes the responses of tools. */
static const char *oai_role(quipu_str role, quipu_str type)
{
    if (quipu_str_eq(role, QUIPU_STR("user")) || oai_is_output(type)) {
        return "user";
    }
    return quipu_str_eq(role, QUIPU_STR("system")) || quipu_str_eq(role, QUIPU_STR("developer"))
               ? "system"
               : "model";
}

/* By the item's type. An input message may lack the type, which the API allows; calls of tools that
 * the provider runs itself (web search, files) have forms of their own and are kept as JSON, so
 * that nothing is lost.
 *
 *   reasoning                          thoughts
 *   function_call, custom_tool_call    a call, with the `call_id` that its output has, too
 *   …_output with a call_id            a result
 *   message, or none                   content
 *   anything else                      the JSON of the item, as a text */
static void oai_parts(qp_chat *chat, qp_json_node item, quipu_str type)
{
    const quipu_str id = qp_chat_member(chat->source, item, "call_id");
    const quipu_str name = qp_chat_member(chat->source, item, "name");
    const qp_json_node content = qp_json_get(item, QUIPU_STR("content"));

    if (quipu_str_eq(type, QUIPU_STR("reasoning"))) {
        oai_reasoning(chat, item);
    } else if (quipu_str_eq(type, QUIPU_STR("function_call"))) {
        qp_chat_call(chat, id, name, qp_chat_member(chat->source, item, "arguments"));
    } else if (quipu_str_eq(type, QUIPU_STR("custom_tool_call"))) {
        qp_chat_call(chat, id, name, qp_chat_member(chat->source, item, "input"));
    } else if (oai_is_output(type) && id.n > 0) {
        qp_chat_result_json(chat, id, name, qp_json_get(item, QUIPU_STR("output")));
    } else if (qp_json_kind_of(content) != QP_JSON_NONE &&
               (type.n == 0 || quipu_str_eq(type, QUIPU_STR("message")))) {
        qp_chat_content(chat, content);
    } else {
        qp_chat_text(chat, qp_json_raw(item), false); /* a kind of item that came later */
    }
}

/* Items have no id that is unique in a file: the number of the row is, and stays, so that it
 * becomes the event id. */
static quipu_status oai_message(qp_source *source, const qp_source_session *session, int64_t at,
                                qp_message_new *ret, quipu_error *reterr)
{
    const qp_source_item *item = &source->items[at];
    char id[OAI_EVENT_ID_SIZE];
    const qp_oai_item *row = NULL;
    qp_chat chat;
    quipu_status status;

    (void)session;
    qp_encoded_free(&source->encoded);
    quipu_arena_reset(&source->row);
    (void)snprintf(id, sizeof(id), "item-%lld", (long long)item->row);
    status = qp_oai_item_get(source->db, &source->row, item->row, &row, reterr);
    if (status == QUIPU_OK) {
        status = qp_json_parse(&source->item_doc, row->message_data.text, NULL, reterr);
    }
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(&source->item_doc)) != QP_JSON_OBJECT) {
        status = qp_error_set(reterr, QUIPU_INVALID, "message_data is not a JSON object");
    }
    if (status == QUIPU_OK) {
        const qp_json_node root = qp_json_root(&source->item_doc);
        const quipu_str type = qp_chat_member(source, root, "type");
        const qp_chat_said said = {.id = quipu_cstr(id),
                                   .role = oai_role(qp_chat_member(source, root, "role"), type),
                                   .time = item->time};

        qp_chat_begin(&chat, source, &said);
        oai_parts(&chat, root, type);
        status = qp_chat_end(&chat, ret, reterr);
    }
    return qp_source_fail(source, "the item", item->row, status, reterr);
}

const qp_source_layout qp_source_openai_agents = {
    .open = oai_open,
    .session = oai_session,
    .message = oai_message,
    .shared = qp_chat_no_shared,
    .is_chat = true,
};
