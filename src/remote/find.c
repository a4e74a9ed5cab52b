/* Windows, hits and exports of a server (remote.h). Called through the store's table, from any
 * thread; owns nothing. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "remote/remote.h"

#define FIND_LIST_MAX ((size_t)1 << 34)
#define FIND_BUDGET_MAX INT64_C(1000000000000) /* what a server takes, and more than any session */

/* ---- members --------------------------------------------------------------------------------- */

static bool find_flag(qp_json_node object, const char *name)
{
    return qp_json_kind_of(qp_json_get(object, quipu_cstr(name))) == QP_JSON_TRUE;
}

static int64_t find_number(qp_json_node object, const char *name)
{
    int64_t number = 0;

    (void)qp_json_int64(qp_json_get(object, quipu_cstr(name)), &number);
    return number;
}

static double find_double(qp_json_node object, const char *name)
{
    double number = 0;

    (void)qp_json_double(qp_json_get(object, quipu_cstr(name)), &number);
    return number;
}

/* A text in the arena; absent: there is none, or no memory, which *ret_good says. */
static quipu_str find_text(qp_json_node object, const char *name, quipu_arena *arena,
                           bool *ret_good)
{
    qp_json_node node = qp_json_get(object, quipu_cstr(name));
    quipu_str text = QP_STR_ABSENT;

    if (qp_json_kind_of(node) == QP_JSON_STRING &&
        qp_json_text_copy(node, arena, &text) != QUIPU_OK) {
        *ret_good = false;
    }
    return text;
}

static quipu_time find_time(qp_json_node object, const char *name, quipu_arena *arena,
                            bool *ret_good)
{
    quipu_str text = find_text(object, name, arena, ret_good);
    quipu_time time = {0, 0};

    if (text.p == NULL || quipu_time_parse(text, &time) != QUIPU_OK) {
        *ret_good = false;
    }
    return time;
}

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

/* ---- window ---------------------------------------------------------------------------------- */

quipu_status qp_remote_window(void *ctx, const qp_call *call, quipu_str key,
                              const quipu_window_options *options, quipu_arena *arena,
                              quipu_session_info *ret_session, quipu_window *ret_window,
                              quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {QUIPU_STR("sessions"), key, QUIPU_STR("window")};
    qp_remote_ask ask;
    qp_json_node root;
    quipu_status status;
    qp_buf list;

    qp_buf_init(&list, FIND_LIST_MAX);
    qp_remote_begin(&ask, ctx, call, "GET", segments, 3);
    qp_remote_number(&ask, "budget",
                     options->token_budget < FIND_BUDGET_MAX ? options->token_budget
                                                             : FIND_BUDGET_MAX);
    qp_remote_flag(&ask, "cut", (options->flags & QUIPU_WINDOW_CUT) != 0);
    status = qp_remote_run(&ask, reterr);
    root = qp_json_root(&ask.doc);
    if (status == QUIPU_OK &&
        !qp_fields_take(&server->info, qp_json_get(root, QUIPU_STR("session")), arena,
                        ret_session)) {
        status = qp_remote_malformed(reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_remote_messages(root, arena, &list, reterr);
    }
    if (status == QUIPU_OK) {
        ret_window->session = ret_session;
        ret_window->tokens = find_number(root, "tokens");
        ret_window->more_before = find_flag(root, "moreBefore");
        ret_window->over_budget = find_flag(root, "overBudget");
        ret_window->cut = find_flag(root, "cut");
        status = qp_remote_messages_end(&list, arena, &ret_window->messages, reterr);
    }
    qp_buf_free(&list);
    qp_remote_end(&ask);
    return status;
}

/* ---- hits ------------------------------------------------------------------------------------ */

/* Room for the hits of an answer; NULL: reported. */
static void *find_room(qp_json_node hits, size_t size, quipu_arena *arena, quipu_status *status,
                       quipu_error *reterr)
{
    void *room = NULL;

    if (*status == QUIPU_OK && qp_json_kind_of(hits) != QP_JSON_ARRAY) {
        *status = qp_remote_malformed(reterr);
    }
    if (*status == QUIPU_OK) {
        room = quipu_arena_alloc(arena, qp_json_count(hits) * size + 1);
        *status = room != NULL
                      ? QUIPU_OK
                      : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a server's answer");
    }
    return room;
}

static void find_put_time(qp_remote_ask *ask, const char *name, bool has, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (has && qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_remote_text(ask, name, quipu_cstr(text));
    }
}

quipu_status qp_remote_search(void *ctx, const qp_call *call, const quipu_search_options *options,
                              quipu_arena *arena, quipu_search_results *ret_results,
                              quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("search")};
    quipu_search_hit *hits;
    qp_remote_ask ask;
    qp_json_node array;
    qp_json_iter each;
    quipu_status status;
    bool is_good = true;
    size_t count = 0;

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
    array = qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("hits"));
    hits = find_room(array, sizeof(*hits), arena, &status, reterr);
    each = qp_json_each(array);
    while (status == QUIPU_OK && is_good && qp_json_next(&each)) {
        hits[count++] =
            (quipu_search_hit){.session_key = find_text(each.value, "key", arena, &is_good),
                               .seq = find_number(each.value, "seq"),
                               .role = find_role(each.value),
                               .author = find_text(each.value, "author", arena, &is_good),
                               .timestamp = find_time(each.value, "timestamp", arena, &is_good),
                               .snippet = find_text(each.value, "snippet", arena, &is_good),
                               .rank = find_double(each.value, "rank")};
    }
    if (status == QUIPU_OK) {
        ret_results->hits = quipu_search_hits_of(hits, count);
        ret_results->more = find_flag(qp_json_root(&ask.doc), "more");
        status = is_good ? QUIPU_OK : qp_remote_malformed(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

static quipu_recall_hit find_recalled(qp_json_node object, quipu_arena *arena, bool *ret_good)
{
    return (quipu_recall_hit){.session_key = find_text(object, "key", arena, ret_good),
                              .seq = find_number(object, "seq"),
                              .role = find_role(object),
                              .event_id = find_text(object, "eventId", arena, ret_good),
                              .author = find_text(object, "author", arena, ret_good),
                              .timestamp = find_time(object, "timestamp", arena, ret_good),
                              .content = find_text(object, "content", arena, ret_good),
                              .tokens = find_number(object, "tokens"),
                              .score = find_double(object, "score"),
                              .from_words = find_double(object, "fromWords"),
                              .from_neighbours = find_double(object, "fromNeighbours"),
                              .from_session = find_double(object, "fromSession")};
}

quipu_status qp_remote_recall(void *ctx, const qp_call *call, const quipu_recall_options *options,
                              quipu_arena *arena, quipu_recall_results *ret_results,
                              quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("recall")};
    quipu_recall_hit *hits;
    qp_remote_ask ask;
    qp_json_node root;
    qp_json_iter each;
    quipu_status status;
    bool is_good = true;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_words(&ask, options->question);
    qp_remote_text(&ask, "key", options->session_key);
    qp_remote_text(&ask, "app", options->app_name);
    qp_remote_text(&ask, "user", options->user_id);
    qp_remote_number(&ask, "limit", options->limit);
    qp_remote_number(&ask, "budget", options->budget);
    qp_remote_number(&ask, "from", options->from_seq);
    qp_remote_number(&ask, "before", options->before_seq);
    status = qp_remote_run(&ask, reterr);
    root = qp_json_root(&ask.doc);
    hits = find_room(qp_json_get(root, QUIPU_STR("hits")), sizeof(*hits), arena, &status, reterr);
    each = qp_json_each(qp_json_get(root, QUIPU_STR("hits")));
    while (status == QUIPU_OK && is_good && qp_json_next(&each)) {
        hits[count++] = find_recalled(each.value, arena, &is_good);
    }
    if (status == QUIPU_OK) {
        ret_results->hits = quipu_recall_hits_of(hits, count);
        ret_results->sessions = find_number(root, "sessions");
        ret_results->messages = find_number(root, "messages");
        ret_results->terms = find_number(root, "terms");
        status = is_good ? QUIPU_OK : qp_remote_malformed(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- export ---------------------------------------------------------------------------------- */

/* Counts lines while they pass. Their first member is their type. */
typedef struct find_lines {
    quipu_write_fn write;
    void *ctx;
    quipu_transfer *done;
    char begin[32]; /* of the current line */
    size_t n;
} find_lines;

static void find_count(find_lines *lines)
{
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

        if (lines->n >= n && memcmp(lines->begin, kinds[i].begin, n) == 0) {
            ++*(int64_t *)((char *)lines->done + kinds[i].offset);
        }
    }
    lines->n = 0;
}

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

/* A server exports one session. */
quipu_status qp_remote_dump(void *ctx, const qp_call *call, const quipu_export_options *options,
                            quipu_write_fn write, void *write_ctx, quipu_transfer *ret_done,
                            quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("sessions"), options->key, QUIPU_STR("export")};
    find_lines lines = {.write = write, .ctx = write_ctx, .done = ret_done};
    qp_remote_ask ask;
    quipu_status status;

    if (options->key.p == NULL || (options->flags & ~QUIPU_EXPORT_FLAT) != 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "quipu_store_export of a store behind a server writes one session: "
                            "name its key, and no heads");
    }
    qp_remote_begin(&ask, ctx, call, "GET", segments, 3);
    qp_remote_flag(&ask, "flat", (options->flags & QUIPU_EXPORT_FLAT) != 0);
    ask.write = find_write;
    ask.write_ctx = &lines;
    status = qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}
