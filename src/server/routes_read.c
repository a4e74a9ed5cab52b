/* Reads for prompts and questions: window, context, search, recall.
 *
 * Owns: nothing after a call; results of the library are freed once they are written as JSON.
 * Called by: workers, by the table of routes. Locks: none. Transactions: each handler makes one
 * call of the library, which reads one snapshot. The scope of the identity is part of the query
 * where the library takes one; otherwise a read of the session's header before that call checks it.
 * Statuses: 200; 400 for parameters; 404 for a session outside of the scope, 410 for one that has
 * expired (whole-store tokens alone); 503 when the store is busy. All need the right to read. */
#include <stdio.h>

#include <quipu/agent.h>

#include "base/jsonw.h"
#include "base/memory_json.h"
#include "base/prompt_json.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"

/* The names of roles, as quipu_message_json() writes them, by number. */
static const char *const read_roles[] = {"",         "user",  "assistant", "tool",
                                         "function", "model", "system"};

/* In the order of quipu_context_reason.
 * Why the prompt begins otherwise than the one before it, or that it does not ("same"). */
static const char *const read_reasons[] = {
    "same", "first",      "model",  "instructions", "memory",
    "idle", "compaction", "window", "history",      "pays",
};

#define READ_ROLES (sizeof(read_roles) / sizeof(read_roles[0]))
#define READ_REASONS (sizeof(read_reasons) / sizeof(read_reasons[0]))

/* ---- members --------------------------------------------------------------------------------- */

/* A role that this server does not know comes from a newer library.
 * "other" keeps the member a text, which the document of the routes promises. */
static void read_put_role(qp_jsonw *writer, quipu_role role)
{
    qp_jsonw_put(writer, "role", (size_t)role < READ_ROLES ? read_roles[role] : "other");
}

/* ---- window ---------------------------------------------------------------------------------- */

/* `overBudget` says that the newest turn alone is larger than the budget.
 * A window over the budget is an answer and no error: the client decides whether it cuts. */
quipu_status qp_route_window(qp_call *call, quipu_error *reterr)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_status status = qp_call_check_session(call, reterr);
    qp_jsonw writer;

    /* The table of routes demands the budget, so that 0 never gets here. */
    options.token_budget = qp_call_number(call, "budget", 0);
    options.flags = qp_call_flag(call, "cut") ? QUIPU_WINDOW_CUT : 0;
    if (status == QUIPU_OK) {
        status =
            quipu_window_read(call->store, call->key, &options, &call->limits, &window, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_put_i64(&writer, "tokens", window->tokens);
    qp_jsonw_put_bool(&writer, "moreBefore", window->more_before);
    qp_jsonw_put_bool(&writer, "overBudget", window->over_budget);
    qp_jsonw_put_bool(&writer, "cut", window->cut);
    qp_jsonw_put_i64(&writer, "tokensTotal", qp_fields_tokens(window->messages));
    qp_jsonw_key(&writer, QUIPU_STR("session"));
    qp_jsonw_object(&writer);
    qp_fields_session(&writer, call, window->session);
    qp_jsonw_object_end(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("messages"));
    status = qp_fields_messages(&writer, window->messages, &call->arena, reterr);
    qp_jsonw_object_end(&writer);
    quipu_free(window);
    return status == QUIPU_OK ? qp_reply_json(&call->answer, 200, &writer, reterr) : status;
}

/* ---- context --------------------------------------------------------------------------------- */

/* Members as `quipu context --json` has them.
 * Bytes of data are not sent: their type and size say what a model would get. */
static void read_put_part(qp_jsonw *writer, const quipu_part *part)
{
    qp_jsonw_object(writer);
    switch (part->kind) {
    case QUIPU_PART_TEXT:
        qp_jsonw_put_text(writer, "text", part->text);
        break;
    case QUIPU_PART_THOUGHT:
        qp_jsonw_put_text(writer, "thought", part->text);
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        qp_jsonw_put_text(writer, part->kind == QUIPU_PART_CALL ? "call" : "response", part->name);
        qp_jsonw_put_text(writer, "id", part->id);
        /* A call without arguments has no value to show. */
        if (part->json.text.n > 0) {
            qp_jsonw_key(writer, QUIPU_STR("value"));
            qp_jsonw_raw(writer, part->json.text);
        }
        break;
    case QUIPU_PART_DATA:
        qp_jsonw_put_text(writer, "data", part->mime);
        qp_jsonw_put_i64(writer, "bytes", (int64_t)part->data.n);
        break;
    /* A part that the neutral form has no member for is shown as it is stored. */
    case QUIPU_PART_OTHER:
        qp_jsonw_key(writer, QUIPU_STR("part"));
        qp_jsonw_raw(writer, part->json.text);
        break;
    }
    qp_jsonw_object_end(writer);
}

/* Hashes are hexadecimal, as `quipu context` prints them, to be compared by people. */
static void read_put_hash(qp_jsonw *writer, const char *name,
                          const uint8_t hash[QUIPU_CONTEXT_HASH])
{
    char text[2 * QUIPU_CONTEXT_HASH + 1];

    for (size_t i = 0; i < QUIPU_CONTEXT_HASH; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
    }
    qp_jsonw_put(writer, name, text);
}

/* The context as a whole: what the model gets, in its order, and what is known about the cache of
 * the provider. `exact` belongs to contexts that were sent: it says whether their bytes are still
 * those.
 * Figures that a provider reported are left out while there are none (-1). */
static void read_put_context(qp_jsonw *writer, const quipu_context *context, bool is_past)
{
    qp_jsonw_put(writer, "reason",
                 (size_t)context->reason < READ_REASONS ? read_reasons[context->reason] : "other");
    qp_jsonw_put_i64(writer, "from", context->first_seq);
    qp_jsonw_put_i64(writer, "to", context->last_seq);
    qp_jsonw_put_bool(writer, "moreBefore", context->more_before);
    qp_jsonw_put_i64(writer, "tokens", context->tokens);
    qp_jsonw_put_i64(writer, "blockTokens", context->block_tokens);
    qp_jsonw_put_i64(writer, "shared", context->shared);
    qp_jsonw_put_i64(writer, "expectedCached", context->expected_cached);
    qp_jsonw_put_text(writer, "model", context->model);
    qp_jsonw_put_text(writer, "provider", context->provider);
    read_put_hash(writer, "prefixHash", context->prefix_hash);
    read_put_hash(writer, "promptHash", context->prompt_hash);
    if (is_past) {
        qp_jsonw_put_bool(writer, "exact", context->exact);
        if (context->reported_input >= 0) {
            qp_jsonw_put_i64(writer, "reportedInput", context->reported_input);
            qp_jsonw_put_i64(writer, "reportedCached", context->reported_cached);
        }
    }
    if (context->tools.text.n > 0) {
        qp_jsonw_key(writer, QUIPU_STR("tools"));
        qp_jsonw_raw(writer, context->tools.text);
    }
    qp_jsonw_key(writer, QUIPU_STR("system"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < context->system.count; i++) {
        qp_jsonw_str(writer, quipu_part_at(context->system, i)->text);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_key(writer, QUIPU_STR("contents"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        qp_jsonw_object(writer);
        read_put_role(writer, content->role);
        qp_jsonw_key(writer, QUIPU_STR("parts"));
        qp_jsonw_array(writer);
        for (size_t k = 0; k < content->parts.count; k++) {
            read_put_part(writer, quipu_part_at(content->parts, k));
        }
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* Looks at a prompt and logs nothing: a GET writes nothing. */
quipu_status qp_route_context(qp_call *call, quipu_error *reterr)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_status status = qp_call_check_session(call, reterr);
    qp_jsonw writer;

    options.key = call->key;
    options.model = qp_call_text(call, "model");
    options.token_budget = qp_call_number(call, "budget", 0);
    options.at_seq = qp_call_number(call, "at", 0);
    /* AS_BEFORE: what the prompt that was logged last had, because a GET brings nothing itself. */
    options.flags = options.at_seq > 0 ? 0 : QUIPU_CONTEXT_AS_BEFORE;
    if (status == QUIPU_OK) {
        status = quipu_context_make(call->store, &options, &call->limits, &context, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    read_put_context(&writer, context, options.at_seq > 0);
    qp_jsonw_object_end(&writer);
    quipu_free(context);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* Whether the identity may write; false: the answer is 403. */
static bool read_may_log(qp_call *call)
{
    if ((call->identity->verbs & QUIPU_ACCESS_TOKEN_WRITE) != 0) {
        return true;
    }
    qp_reply_error(&call->answer, 403, "MISUSE",
                   "this token may not write: a prompt is logged, and the usage of one reported, "
                   "with the right to write");
    return false;
}

/* Returns quipu_context_make() for a program that has its own instruction and tools and sends the
 * prompt itself. A prompt contains messages, so a token that only writes does not get here. */
quipu_status qp_route_context_make(qp_call *call, quipu_error *reterr)
{
    quipu_context *context = NULL;
    qp_prompt_ask ask;
    qp_json_doc doc;
    qp_jsonw writer;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = qp_prompt_ask_take(qp_json_root(&doc), &call->arena, &ask, reterr);
    }
    if (status == QUIPU_OK &&
        ((ask.options.flags & QUIPU_CONTEXT_LOG) != 0 || ask.options.usage != NULL) &&
        !read_may_log(call)) {
        qp_json_free(&doc);
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        ask.options.key = call->key;
        status = quipu_context_make(call->store, &ask.options, &call->limits, &context, reterr);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &call->answer.body);
        qp_jsonw_object(&writer);
        qp_jsonw_key(&writer, QUIPU_STR("context"));
        qp_prompt_write(&writer, context);
        qp_jsonw_object_end(&writer);
        status = qp_reply_json(&call->answer, 200, &writer, reterr);
    }
    quipu_free(context);
    qp_json_free(&doc);
    return status;
}

/* ---- search and recall ----------------------------------------------------------------------- */

/* The session that a search is limited to, when it names one.
 * call->key is what the scope is checked by, here and in the rest of the handler. */
static quipu_status read_check_key(qp_call *call, quipu_error *reterr)
{
    /* A parameter here; in other routes it is a part of the path. */
    call->key = qp_call_text(call, "key");
    return call->key.p != NULL ? qp_call_check_session(call, reterr) : QUIPU_OK;
}

/* Where a hit is: the beginning of its object. */
static void read_begin_hit(qp_jsonw *writer, quipu_str key, int64_t seq, quipu_role role)
{
    qp_jsonw_object(writer);
    qp_jsonw_put_text(writer, "key", key);
    qp_jsonw_put_i64(writer, "seq", seq);
    read_put_role(writer, role);
}

/* The beginning of an answer with hits. */
static void read_begin_hits(qp_call *call, qp_jsonw *writer)
{
    qp_jsonw_begin(writer, &call->answer.body);
    qp_jsonw_object(writer);
    qp_jsonw_key(writer, QUIPU_STR("hits"));
    qp_jsonw_array(writer);
}

/* A snippet, with the marks that the request asked for; never the whole message. */
static void read_put_hit(qp_jsonw *writer, const quipu_search_hit *hit)
{
    read_begin_hit(writer, hit->session_key, hit->seq, hit->role);
    qp_jsonw_put_text(writer, "author", hit->author);
    qp_jsonw_put_time(writer, "timestamp", hit->timestamp);
    qp_jsonw_put_text(writer, "snippet", hit->snippet);
    qp_jsonw_put_double(writer, "rank", hit->rank);
    qp_jsonw_object_end(writer);
}

/* The filters of the library, one parameter each. A key that is named must be in the scope, which
 * the filters on app and user alone would not report as missing.
 * `more` says that a further page exists; the next request raises `offset`. Pages of a store that
 * changes meanwhile may repeat or miss a hit. */
quipu_status qp_route_search(qp_call *call, quipu_error *reterr)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_status status = read_check_key(call, reterr);
    qp_jsonw writer;

    options.query = qp_call_text(call, "q");
    options.session_key = call->key;
    options.app_name = qp_call_text(call, "app");
    options.user_id = qp_call_text(call, "user");
    options.author = qp_call_text(call, "author");
    options.role = (quipu_role)qp_call_number(call, "role", 0);
    options.mark_before = qp_call_text(call, "markBefore");
    options.mark_after = qp_call_text(call, "markAfter");
    /* Absent times do not filter; wrong ones were refused before the queue. */
    options.has_after = qp_call_time(call, "after", &options.after);
    options.has_before = qp_call_time(call, "before", &options.before);
    options.limit = qp_call_number(call, "limit", 0);
    options.offset = qp_call_number(call, "offset", 0);
    if (status == QUIPU_OK) {
        /* Behind this call the query cannot leave the token's scope. */
        status = qp_call_scope(call, &options.app_name, &options.user_id, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_search(call->store, &options, &call->limits, &results, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    read_begin_hits(call, &writer);
    for (size_t i = 0; i < results->hits.count; i++) {
        read_put_hit(&writer, quipu_search_hit_at(results->hits, i));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_put_bool(&writer, "more", results->more);
    qp_jsonw_object_end(&writer);
    quipu_free(results);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* The message as a whole: recall is for prompts, and its budget bounds the sum. A memory has no
 * number, role, event id and author, and all of its own members in `memory`. */
static void read_put_recalled(qp_jsonw *writer, const qp_json_fields *fields,
                              const quipu_recall_hit *hit)
{
    if (hit->memory != NULL) {
        qp_jsonw_object(writer);
        qp_jsonw_put_text(writer, "key", hit->session_key);
        qp_jsonw_key(writer, QUIPU_STR("memory"));
        qp_memory_write(writer, fields, hit->memory);
    } else {
        read_begin_hit(writer, hit->session_key, hit->seq, hit->role);
        qp_jsonw_put_text(writer, "eventId", hit->event_id);
        qp_jsonw_put_text(writer, "author", hit->author);
    }
    qp_jsonw_put_time(writer, "timestamp", hit->timestamp);
    qp_jsonw_put_text(writer, "content", hit->content);
    qp_jsonw_put_i64(writer, "tokens", hit->tokens);
    qp_jsonw_put_double(writer, "score", hit->score);
    qp_jsonw_put_double(writer, "fromWords", hit->from_words);
    qp_jsonw_put_double(writer, "fromNeighbours", hit->from_neighbours);
    qp_jsonw_put_double(writer, "fromSession", hit->from_session);
    qp_jsonw_object_end(writer);
}

/* Counts of sessions, messages and memories show how much was looked at, so that a client can see
 * that an empty list is a result.
 * EVERYTHING is only for tokens of the whole store that name no app: qp_call_scope() has set the
 * app of all others. */
quipu_status qp_route_recall(qp_call *call, quipu_error *reterr)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;
    quipu_status status = read_check_key(call, reterr);
    qp_jsonw writer;

    /* The table of routes demands it; the library bounds its size. */
    options.question = qp_call_text(call, "q");
    options.session_key = call->key;
    options.limit = qp_call_number(call, "limit", 0);
    options.budget = qp_call_number(call, "budget", 0);
    options.from_seq = qp_call_number(call, "from", 0);
    options.before_seq = qp_call_number(call, "before", 0);
    if (call->key.p == NULL) { /* a session is a scope of its own */
        options.app_name = qp_call_text(call, "app");
        options.user_id = qp_call_text(call, "user");
        status = qp_call_scope(call, &options.app_name, &options.user_id, reterr);
        options.flags = options.app_name.p == NULL ? QUIPU_RECALL_EVERYTHING : 0;
    }
    if (qp_call_flag(call, "memories")) {
        options.flags |= QUIPU_RECALL_MEMORIES;
    }
    if (status == QUIPU_OK) {
        status = quipu_recall(call->store, &options, &call->limits, &results, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    read_begin_hits(call, &writer);
    for (size_t i = 0; i < results->hits.count; i++) {
        read_put_recalled(&writer, &call->server->memory_fields,
                          quipu_recall_hit_at(results->hits, i));
    }
    qp_jsonw_array_end(&writer);
    /* How many sessions and messages the scope has, and how many terms the question has. */
    qp_jsonw_put_i64(&writer, "sessions", results->sessions);
    qp_jsonw_put_i64(&writer, "messages", results->messages);
    qp_jsonw_put_i64(&writer, "terms", results->terms);
    qp_jsonw_put_i64(&writer, "memories", results->memories);
    qp_jsonw_object_end(&writer);
    quipu_free(results);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
