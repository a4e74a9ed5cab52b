/* Windows, hits and exports of a server (remote.h). Called through the store's table, from any
 * thread; owns nothing.
 * Locks: none. All of these are reads and may be sent again, except for an export that has handed
 * on its first bytes: a second try would write the beginning twice. */
#include <string.h>

#include "base/error.h"
#include "base/memory_json.h"
#include "base/time.h"
#include "remote/remote.h"

/* A bound against a server that sends without an end; a window is far smaller. */
#define FIND_LIST_MAX ((size_t)1 << 34) /* bytes */

/* ---- window ---------------------------------------------------------------------------------- */

/* Session, messages and totals are of one snapshot of the server, as those of quipu_window_get()
 * are of one transaction.
 * The server computes the window: what fits a budget is decided in one place. */
quipu_status qp_remote_window(void *ctx, const qp_call *call, const qp_remote_budget *read,
                              quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {QUIPU_STR("sessions"), read->key, QUIPU_STR("window")};
    qp_remote_ask ask;
    qp_json_node root;
    quipu_status status;
    qp_buf list;

    qp_buf_init(&list, FIND_LIST_MAX);
    qp_remote_begin(&ask, ctx, call, "GET", segments, 3);
    qp_remote_number(&ask, "budget", read->options->token_budget);
    qp_remote_flag(&ask, "cut", (read->options->flags & QUIPU_WINDOW_CUT) != 0);
    status = qp_remote_run(&ask, reterr);
    root = qp_json_root(&ask.doc);
    if (status == QUIPU_OK &&
        !qp_fields_take(&server->info, qp_json_get(root, QUIPU_STR("session")), read->arena,
                        read->session)) {
        status = qp_remote_malformed(reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_remote_messages(root, read->arena, &list, reterr);
    }
    if (status == QUIPU_OK) {
        read->window->session = read->session;
        read->window->tokens = qp_answer_number(root, "tokens");
        read->window->more_before = qp_answer_flag(root, "moreBefore");
        read->window->over_budget = qp_answer_flag(root, "overBudget");
        read->window->cut = qp_answer_flag(root, "cut");
        status = qp_remote_messages_end(&list, read->arena, &read->window->messages, reterr);
    }
    qp_buf_free(&list);
    qp_remote_end(&ask);
    return status;
}

/* ---- hits ------------------------------------------------------------------------------------ */

/* By name, as messages have it; 0 for a role that this version does not know, which no search by
 * role finds again.
 * The order of the names is that of the enum, from 1 on. */
static quipu_role find_role(qp_json_node object)
{
    static const char *const names[] = {"user", "assistant", "tool", "function", "model", "system"};
    qp_json_node role = qp_json_get(object, QUIPU_STR("role"));

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (qp_json_kind_of(role) == QP_JSON_STRING &&
            qp_json_text_is(role, quipu_cstr(names[i]))) {
            return (quipu_role)(i + 1);
        }
    }
    return (quipu_role)0;
}

/* A bound that has no spelling, beyond the year 9999, bounds nothing and is left out.
 * In RFC 3339, in UTC. */
static void find_put_time(qp_remote_ask *ask, const char *name, bool has, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (has && qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_remote_text(ask, name, quipu_cstr(text));
    }
}

/* A hit without its message: search answers with snippets, also locally.
 * Texts are copied to the arena of the results. */
static bool find_take_found(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    bool good = true;

    (void)ctx;
    *(quipu_search_hit *)item =
        (quipu_search_hit){.session_key = qp_answer_text(row, "key", arena, &good),
                           .seq = qp_answer_number(row, "seq"),
                           .role = find_role(row),
                           .author = qp_answer_text(row, "author", arena, &good),
                           .timestamp = qp_answer_time(row, "timestamp", arena, &good),
                           .snippet = qp_answer_text(row, "snippet", arena, &good),
                           .rank = qp_answer_double(row, "rank")};
    return good;
}

/* Ranks are the server's: they depend on all of its sessions, and are compared within one answer
 * only.
 * The index is the server's, and so is the error about one that is missing. */
quipu_status qp_remote_search(void *ctx, const qp_call *call, const quipu_search_options *options,
                              quipu_arena *arena, quipu_search_results *ret_results,
                              quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_search_hit), find_take_found};
    const quipu_str segments[] = {QUIPU_STR("search")};
    quipu_search_hit *hits;
    size_t count = 0;
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_words(&ask, options->query);
    qp_remote_text(&ask, "key", options->session_key);
    qp_remote_text(&ask, "app", options->app_name);
    qp_remote_text(&ask, "user", options->user_id);
    qp_remote_text(&ask, "author", options->author);
    qp_remote_number(&ask, "role", (int64_t)options->role);
    qp_remote_text(&ask, "markBefore", options->mark_before);
    qp_remote_text(&ask, "markAfter", options->mark_after);
    find_put_time(&ask, "after", options->has_after, options->after);
    find_put_time(&ask, "before", options->has_before, options->before);
    qp_remote_number(&ask, "limit", options->limit);
    qp_remote_number(&ask, "offset", options->offset);
    status = qp_remote_run(&ask, reterr);
    hits = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("hits")), &kind, NULL,
                          arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        ret_results->hits = quipu_search_hits_of(hits, count);
        ret_results->more = qp_answer_flag(qp_json_root(&ask.doc), "more");
    }
    qp_remote_end(&ask);
    return status;
}

/* The memory that a hit is, if it is one; false: it cannot be read. `server` knows the fields. A
 * server that does not know memories among the hits sends none; the member is missing then. */
static bool find_take_memory(const qp_remote_server *server, qp_json_node row, quipu_arena *arena,
                             const quipu_memory **ret_memory)
{
    const qp_json_node object = qp_json_get(row, QUIPU_STR("memory"));
    quipu_memory *memory;

    *ret_memory = NULL;
    if (qp_json_kind_of(object) == QP_JSON_NONE) {
        return true;
    }
    memory = quipu_arena_alloc(arena, sizeof(*memory));
    *ret_memory = memory;
    return memory != NULL && qp_memory_take(&server->memory, object, arena, memory);
}

/* A hit with its text as a whole, and the parts of its score, which explain it.
 * The text is bounded by the budget that the request named. */
static bool find_take_recalled(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    const quipu_memory *memory;
    bool good = find_take_memory(ctx, row, arena, &memory);

    *(quipu_recall_hit *)item =
        (quipu_recall_hit){.memory = memory,
                           .session_key = qp_answer_text(row, "key", arena, &good),
                           .seq = qp_answer_number(row, "seq"),
                           .role = find_role(row),
                           .event_id = qp_answer_text(row, "eventId", arena, &good),
                           .author = qp_answer_text(row, "author", arena, &good),
                           .timestamp = qp_answer_time(row, "timestamp", arena, &good),
                           .content = qp_answer_text(row, "content", arena, &good),
                           .tokens = qp_answer_number(row, "tokens"),
                           .score = qp_answer_double(row, "score"),
                           .from_words = qp_answer_double(row, "fromWords"),
                           .from_neighbours = qp_answer_double(row, "fromNeighbours"),
                           .from_session = qp_answer_double(row, "fromSession")};
    return good;
}

/* How many sessions, messages and terms were looked at comes along, so that an empty list is a
 * result and no doubt.
 * Vectors stay at the store that has them: the question goes as words. */
quipu_status qp_remote_recall(void *ctx, const qp_call *call, const quipu_recall_options *options,
                              quipu_arena *arena, quipu_recall_results *ret_results,
                              quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_recall_hit), find_take_recalled};
    const quipu_str segments[] = {QUIPU_STR("recall")};
    quipu_recall_hit *hits;
    size_t count = 0;
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_words(&ask, options->question);
    qp_remote_text(&ask, "key", options->session_key);
    qp_remote_text(&ask, "app", options->app_name);
    qp_remote_text(&ask, "user", options->user_id);
    qp_remote_number(&ask, "limit", options->limit);
    qp_remote_number(&ask, "budget", options->budget);
    qp_remote_number(&ask, "from", options->from_seq);
    qp_remote_number(&ask, "before", options->before_seq);
    qp_remote_flag(&ask, "memories", (options->flags & QUIPU_RECALL_MEMORIES) != 0);
    status = qp_remote_run(&ask, reterr);
    hits = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("hits")), &kind, ctx, arena,
                          &count, &status, reterr);
    if (status == QUIPU_OK) {
        const qp_json_node root = qp_json_root(&ask.doc);

        ret_results->hits = quipu_recall_hits_of(hits, count);
        ret_results->sessions = qp_answer_number(root, "sessions");
        ret_results->messages = qp_answer_number(root, "messages");
        ret_results->terms = qp_answer_number(root, "terms");
        ret_results->memories = qp_answer_number(root, "memories");
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- export ---------------------------------------------------------------------------------- */

/* Counts lines while they pass. Their first member is their type. `begin` holds the beginning of a
 * line, which may come in several pieces. */
typedef struct find_lines {
    quipu_write_fn write;
    void *ctx;
    quipu_transfer *done;
    char begin[32]; /* of the current line */
    size_t n;
} find_lines;

/* A line's type is its first member (docs/export.md), so that its beginning decides; other lines
 * are counted as lines only. */
static void find_count(find_lines *lines)
{
    /* A row is the beginning of a line and the counter that it raises. */
    static const struct {
        const char *begin;
        size_t offset;
    } kinds[] = {
        {"{\"type\":\"session\"", offsetof(quipu_transfer, sessions)},
        {"{\"type\":\"message\"", offsetof(quipu_transfer, messages)},
        {"{\"type\":\"state\"", offsetof(quipu_transfer, states)},
        {"{\"type\":\"observation\"", offsetof(quipu_transfer, memories)},
        {"{\"type\":\"reflection\"", offsetof(quipu_transfer, memories)},
    };

    lines->done->lines++;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const size_t n = strlen(kinds[i].begin);

        /* A line that is shorter than its type was cut, and is counted as a line. */
        if (lines->n >= n && memcmp(lines->begin, kinds[i].begin, n) == 0) {
            ++*(int64_t *)((char *)lines->done + kinds[i].offset);
        }
    }
    lines->n = 0;
}

/* Bytes go on as they come: a whole store does not fit into memory. Only the beginning of each line
 * is looked at, which may come in pieces.
 * A failure of the caller's function ends the request: the connection is closed, and the server
 * notices it. */
static quipu_status find_write(void *ctx, const void *bytes, size_t size)
{
    find_lines *lines = ctx;
    const char *p = bytes;

    for (size_t i = 0; i < size; i++) {
        if (p[i] == '\n') {
            find_count(lines);
        } else if (lines->n < sizeof(lines->begin)) {
            lines->begin[lines->n++] = p[i];
        }
    }
    return lines->write(lines->ctx, bytes, size);
}

/* The whole store, or one session.
 * A connection that is lost in the middle is an error, and the output is half of an export: the
 * caller removes it. */
quipu_status qp_remote_dump(void *ctx, const qp_call *call, const quipu_export_options *options,
                            quipu_write_fn write, void *write_ctx, quipu_transfer *ret_done,
                            quipu_error *reterr)
{
    const quipu_str one[] = {QUIPU_STR("sessions"), options->key, QUIPU_STR("export")};
    const bool is_whole = options->key.p == NULL;
    find_lines lines = {.write = write, .ctx = write_ctx, .done = ret_done};
    qp_remote_ask ask;
    quipu_status status;

    if (!is_whole && (options->flags & QUIPU_EXPORT_HEADS) != 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "quipu_store_export of a store behind a server writes the heads of all "
                            "sessions: name no key");
    }
    qp_remote_begin(&ask, ctx, call, "GET", is_whole ? &one[2] : one, is_whole ? 1 : 3);
    qp_remote_flag(&ask, "flat", (options->flags & QUIPU_EXPORT_FLAT) != 0);
    qp_remote_flag(&ask, "heads", (options->flags & QUIPU_EXPORT_HEADS) != 0);
    ask.write = find_write;
    ask.write_ctx = &lines;
    status = qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}
