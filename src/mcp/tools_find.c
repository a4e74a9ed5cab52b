/* Tools that find: search_sessions, recall, list_sessions. An empty result says what was looked at
 * and what to try; a session outside of the scope is an error.
 *
 * Owns: nothing after a call. Called by: tools.c. Transactions: each call of the library is one
 * snapshot.
 * Locks: none. Hits are cut to max_tokens (items.c); the scope of the server is a part of each
 * query, so that nothing has to be dropped afterwards. */
#include "mcp/tool.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/memory_json.h"

/* Room for the longest note with two numbers. */
#define FIND_NOTE_SIZE 300
#define FIND_NONE "there is no session here"

/* The session that a search or a recall is limited to: the argument's, or the scope's; absent when
 * it is neither. Fails the call when the session is not in the scope.
 * The key lies in the request or in the server's options; both outlive the call. */
static bool find_session(qp_mcp_call *call, quipu_str *ret_key)
{
    *ret_key = (quipu_str){NULL, 0};
    if (!qp_mcp_argument(call, "session")->given && call->server->session_key.p == NULL) {
        return true;
    }
    return qp_mcp_call_key(call, ret_key);
}

/* Where a hit is, and in which role it was said. */
static void find_put_place(qp_jsonw *out, quipu_str key, int64_t seq, quipu_role role)
{
    qp_jsonw_put_text(out, "session", key);
    qp_jsonw_put_i64(out, "seq", seq);
    qp_jsonw_put(out, "role", qp_mcp_role_name(role));
}

/* ---- search_sessions ------------------------------------------------------------------------- */

/* A list that is empty says what to try: models repeat a search that only said nothing.
 * `more` is true also where the budget ended the list. */
static void find_put_hits(qp_mcp_call *call, const quipu_search_results *results)
{
    qp_mcp_items items;

    qp_mcp_items_begin(&items, call, "hits");
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_search_hit *hit = quipu_search_hit_at(results->hits, i);
        qp_jsonw *out = qp_mcp_item_begin(&items);

        find_put_place(out, hit->session_key, hit->seq, hit->role);
        qp_jsonw_put_text(out, "author", hit->author);
        qp_jsonw_put_time(out, "timestamp", hit->timestamp);
        qp_jsonw_put_text(out, "snippet", hit->snippet);
        /* The item that did not fit was taken back. */
        if (!qp_mcp_item_end(&items)) {
            break;
        }
    }
    qp_mcp_items_end(&items);
    qp_jsonw_put_bool(call->out, "more", results->more || items.full);
    if (results->hits.count == 0) {
        qp_jsonw_put(call->out, "note",
                     "no message has all of these words: use fewer words or OR, or ask recall");
    }
}

/* The scope of the server is part of the query, so that counts and ranks never show what lies
 * outside of it. An index that is missing or behind points to recall, which needs none.
 * A query with a fault in its syntax is a result with isError, so that the model corrects it. */
bool qp_mcp_search_sessions(qp_mcp_call *call)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (!find_session(call, &options.session_key)) {
        return false;
    }
    /* The texts lie in the call's arena or in the request, and outlive the search. */
    options.query = qp_mcp_argument(call, "query")->text;
    options.app_name = call->server->app_name;
    options.user_id = call->server->user_id;
    options.limit = qp_mcp_argument(call, "limit")->number;
    options.offset = qp_mcp_argument(call, "offset")->number;
    status = quipu_search(call->server->store, &options, NULL, &results, &error);
    if (status == QUIPU_MISUSE ||
        status == QUIPU_UNSUPPORTED) { /* no index, or one that is behind */
        return qp_mcp_call_fail(call, "%s; recall needs no index", error.message);
    }
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    find_put_hits(call, results);
    quipu_free(results);
    return true;
}

/* ---- recall ---------------------------------------------------------------------------------- */

/* How much an empty recall looked at, and whether hits were left out. In the order of what helps
 * most: no sessions, no words, no hits, no room. */
static void find_put_recall_note(qp_mcp_call *call, const quipu_recall_results *results, bool full)
{
    char note[FIND_NOTE_SIZE] = "";

    if (results->sessions == 0) {
        (void)snprintf(note, sizeof(note), FIND_NONE);
    } else if (results->terms == 0) {
        (void)snprintf(note, sizeof(note), "the question has no word to look for");
    } else if (results->hits.count == 0) {
        (void)snprintf(note, sizeof(note),
                       "none of %" PRId64 " messages in %" PRId64
                       " sessions has a word of the question: use other words",
                       results->messages, results->sessions);
    } else if (full) {
        (void)snprintf(note, sizeof(note), "more hits do not fit: raise max_tokens");
    }
    if (note[0] != '\0') {
        qp_jsonw_put(call->out, "note", note);
    }
}

/* Where a hit is and when it was said; of a memory, what it is and the time that it is about, too.
 * A memory that was made of no message has no number. */
static void find_put_hit(qp_jsonw *out, const quipu_recall_hit *hit)
{
    const quipu_memory *memory = hit->memory;

    if (memory == NULL) {
        find_put_place(out, hit->session_key, hit->seq, hit->role);
        qp_jsonw_put_text(out, "author", hit->author);
        qp_jsonw_put_time(out, "timestamp", hit->timestamp);
        return;
    }
    qp_jsonw_put_text(out, "session", hit->session_key);
    qp_jsonw_put(out, "kind", qp_memory_kind_name(memory->kind));
    if (memory->source_end > 0) {
        qp_jsonw_put_i64(out, "seq", memory->source_end);
    }
    qp_jsonw_put_time(out, "timestamp", hit->timestamp);
    if (memory->has_about_from) {
        qp_jsonw_put_time(out, "about_from", memory->about_from);
    }
    if (memory->has_about_to) {
        qp_jsonw_put_time(out, "about_to", memory->about_to);
    }
}

/* The text as a whole: recall is for prompts, and the budget bounds the sum. */
static void find_put_recalled(qp_mcp_call *call, const quipu_recall_results *results)
{
    qp_mcp_items items;

    qp_mcp_items_begin(&items, call, "hits");
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        qp_jsonw *out = qp_mcp_item_begin(&items);

        find_put_hit(out, hit);
        /* The best hit always fits, cut if need be; of the others, those that are whole. */
        qp_mcp_put_cut(out, "text", hit->content,
                       items.count == 0 ? items.left - QP_MCP_ITEM_TOKENS : INT32_MAX);
        /* Comparable within one answer only. */
        qp_jsonw_key(out, QUIPU_STR("score"));
        qp_jsonw_double(out, hit->score);
        if (!qp_mcp_item_end(&items)) {
            break;
        }
    }
    qp_mcp_items_end(&items);
    qp_jsonw_put_i64(call->out, "searched_sessions", results->sessions);
    qp_jsonw_put_i64(call->out, "searched_messages", results->messages);
    qp_jsonw_put_i64(call->out, "searched_memories", results->memories);
    find_put_recall_note(call, results, items.full);
}

/* A session is a scope of its own; otherwise app and user of the server, or everything.
 * Vectors are not asked for: they need an embedder, which is the operator's. */
bool qp_mcp_recall(qp_mcp_call *call)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (!find_session(call, &options.session_key)) {
        return false;
    }
    if (options.session_key.p == NULL) {
        options.app_name = call->server->app_name;
        options.user_id = call->server->user_id;
        /* A server without a scope searches everything, which has to be said. */
        options.flags = options.app_name.p == NULL ? QUIPU_RECALL_EVERYTHING : 0;
    }
    /* A model that asks must find what it saved by the tool remember. */
    options.flags |= QUIPU_RECALL_MEMORIES;
    options.question = qp_mcp_argument(call, "question")->text;
    options.limit = qp_mcp_argument(call, "limit")->number;
    status = quipu_recall(call->server->store, &options, NULL, &results, &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    find_put_recalled(call, results);
    quipu_free(results);
    return true;
}

/* ---- list_sessions --------------------------------------------------------------------------- */

/* Writes the sessions of a page that fit; returns how many.
 * Fewer than the page has: the cursor must then be that of the last one shown. */
static size_t find_put_page(qp_mcp_call *call, const quipu_session_page *page)
{
    qp_mcp_items items;

    qp_mcp_items_begin(&items, call, "sessions");
    for (size_t i = 0; i < page->sessions.count; i++) {
        qp_mcp_put_session(qp_mcp_item_begin(&items), quipu_session_info_at(page->sessions, i));
        if (!qp_mcp_item_end(&items)) {
            break;
        }
    }
    qp_mcp_items_end(&items);
    return items.count;
}

/* The one session of the scope.
 * No cursor: there is one page. */
static bool find_put_only(qp_mcp_call *call)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status;

    header.flags = QUIPU_RANGE_HEADER;
    status = qp_mcp_scope_get(call->server, call->server->session_key, &header, &history, &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    qp_jsonw_key(call->out, QUIPU_STR("sessions"));
    qp_jsonw_array(call->out);
    qp_jsonw_object(call->out);
    qp_mcp_put_session(call->out, history->session);
    qp_jsonw_object_end(call->out);
    qp_jsonw_array_end(call->out);
    quipu_free(history);
    return true;
}

/* A page that the budget cuts is read again with as many sessions as fit, for its cursor. Between
 * the two reads sessions may change their places: one may come twice or not, as between any two
 * pages. */
bool qp_mcp_list_sessions(qp_mcp_call *call)
{
    const quipu_str after = qp_mcp_argument(call, "cursor")->text;
    quipu_session_page *page = NULL;
    quipu_session_page *shorter = NULL;
    quipu_error error = {0};
    quipu_status status;
    size_t count;

    if (call->server->session_key.p != NULL) {
        return find_put_only(call);
    }
    status = qp_mcp_scope_list(call->server, qp_mcp_argument(call, "limit")->number, after, &page,
                               &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    count = find_put_page(call, page);
    if (count < page->sessions.count) {
        status = qp_mcp_scope_list(call->server, (int64_t)count, after, &shorter, &error);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_put_text(call->out, "next_cursor", shorter != NULL ? shorter->next : page->next);
        if (count == 0) {
            qp_jsonw_put(call->out, "note", FIND_NONE);
        }
    }
    quipu_free(shorter);
    quipu_free(page);
    return status == QUIPU_OK || qp_mcp_call_fail_status(call, status, &error);
}
