/* Memories and prompts at a server (store/remote.h): each call is one request of docs/server.md.
 *
 * Owns: nothing; results go to the caller's arena. Called by: the store's table, from any thread.
 * Locks: none. No request here is sent twice once a server may have seen it: a save with an origin
 * would count as said again, and a deletion would answer that it removed nothing. A lost answer to
 * a write is QUIPU_UNKNOWN. UNKNOWN of a save: its id, or the same content with an origin, shows
 * whether it is there. */
#include <assert.h>

#include "base/error.h"
#include "base/memory_json.h"
#include "base/prompt_json.h"
#include "base/str.h"
#include "remote/remote.h"

#define MEMORIES QUIPU_STR("memories") /* the route's segment, and the member of its answer */

/* The routes, and what a lost answer means:
 *
 *   find      GET    /v1/memories                     sent again
 *   save      POST   /v1/memories                     UNKNOWN
 *   update    PATCH  /v1/memories/{id}                UNKNOWN
 *   remove    DELETE /v1/memories                     UNKNOWN
 *   status    GET    /v1/memory                       sent again
 *   context   POST   /v1/sessions/{key}/context       UNKNOWN if it logs, else sent again
 */

/* ---- memories -------------------------------------------------------------------------------- */

/* One memory of a list; `ctx` is the server, which knows the fields. */
static bool memory_take(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    const qp_remote_server *server = ctx;

    return qp_memory_take(&server->memory, row, arena, item);
}

/* "id,id,...": the server takes so many that its line of the request holds them. */
static quipu_status memory_put_ids(qp_remote_ask *ask, const quipu_memory_query *query,
                                   quipu_error *reterr)
{
    quipu_status status;
    qp_buf ids;

    if (query->id_count > QP_MEMORY_IDS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a server takes at most %d ids at once: ask in several calls",
                            QP_MEMORY_IDS_MAX);
    }
    qp_buf_init(&ids, (size_t)QP_MEMORY_IDS_MAX * QUIPU_UUID_TEXT_SIZE);
    for (size_t i = 0; i < query->id_count; i++) {
        char text[QUIPU_UUID_TEXT_SIZE];

        quipu_uuid_format(query->ids[i], text);
        if (i > 0) {
            qp_buf_putc(&ids, ',');
        }
        qp_buf_puts(&ids, text);
    }
    status = qp_buf_status(&ids);
    if (status == QUIPU_OK) {
        qp_remote_text(ask, "ids", qp_buf_str(&ids));
    }
    qp_buf_free(&ids);
    return status == QUIPU_OK ? status : qp_answer_nomem(reterr);
}

/* The query as parameters. A key that cannot be a path segment cannot be a key of a server, and has
 * no memories. */
static quipu_status memory_put_query(qp_remote_ask *ask, const quipu_memory_query *query,
                                     quipu_error *reterr)
{
    qp_remote_text(ask, "kind", quipu_cstr(qp_memory_kind_name(query->kind)));
    if (query->ids != NULL) {
        return memory_put_ids(ask, query, reterr);
    }
    ask->no_place = !qp_text_is_segment(query->session_key);
    qp_remote_text(ask, "key", query->session_key);
    qp_remote_number(ask, "from", query->from_seq);
    qp_remote_number(ask, "to", query->to_seq);
    return QUIPU_OK;
}

/* A read: it may be sent again. `no_place` with QUIPU_OK is an empty list, without a request. */
quipu_status qp_remote_memory_find(void *ctx, const qp_call *call, const quipu_memory_query *query,
                                   quipu_arena *arena, quipu_memories *ret_memories,
                                   quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_memory), memory_take};
    const quipu_str segments[] = {MEMORIES};
    quipu_memory *items = NULL;
    qp_remote_ask ask;
    quipu_status status;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    status = memory_put_query(&ask, query, reterr);
    qp_remote_number(&ask, "recent", query->recent);
    qp_remote_flag(&ask, "retired", (query->flags & QUIPU_MEMORY_FIND_RETIRED) != 0);
    qp_remote_flag(&ask, "scope", (query->flags & QUIPU_MEMORY_FIND_SCOPE) != 0);
    if (status == QUIPU_OK && !ask.no_place) {
        status = qp_remote_run(&ask, reterr);
        items = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), MEMORIES), &kind, ctx, arena,
                               &count, &status, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_memories = quipu_memories_of(items, count);
    }
    qp_remote_end(&ask);
    return status;
}

/* The one memory of an answer to a write, as a list of one. Unreadable, it is UNKNOWN: the write is
 * done. */
static quipu_status memory_take_one(const qp_remote_ask *ask, quipu_arena *arena,
                                    quipu_memories *ret_memories, quipu_error *reterr)
{
    quipu_memory *one = quipu_arena_alloc(arena, sizeof(*one));

    if (one == NULL ||
        !qp_memory_take(&ask->server->memory,
                        qp_json_get(qp_json_root(&ask->doc), QUIPU_STR("memory")), arena, one)) {
        return qp_remote_unread(ask, reterr);
    }
    *ret_memories = quipu_memories_of(one, 1);
    return QUIPU_OK;
}

/* Texts that JSON cannot hold are refused as the store refuses them, and not as a request that
 * cannot be written. The field is named, which a writer of JSON could not do. */
static quipu_status memory_text_check(const char *name, quipu_str text, quipu_error *reterr)
{
    return text.p == NULL || qp_text_check(text, NULL) == QP_TEXT_OK
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_INVALID, "%s must be UTF-8 without NUL", name);
}

/* Members that the store sets are not sent: the server refuses them. */
quipu_status qp_remote_memory_save(void *ctx, const qp_call *call, const quipu_memory *given,
                                   quipu_arena *arena, quipu_memories *ret_memories,
                                   quipu_error *reterr)
{
    const qp_remote_server *server = ctx;
    const quipu_str segments[] = {MEMORIES};
    qp_remote_ask ask;
    qp_jsonw writer;
    quipu_status status = memory_text_check("content", given->content, reterr);

    status = status == QUIPU_OK ? memory_text_check("subject", given->subject, reterr) : status;
    status = status == QUIPU_OK ? memory_text_check("origin", given->origin, reterr) : status;
    if (status != QUIPU_OK) {
        return status;
    }
    qp_remote_begin(&ask, ctx, call, "POST", segments, 1);
    qp_jsonw_begin(&writer, &ask.body);
    qp_memory_write_new(&writer, &server->memory, given);
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK) {
        status = memory_take_one(&ask, arena, ret_memories, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* An absent subject clears it, which is null; an absent reason is left out. */
static void memory_put_patch(qp_jsonw *writer, const quipu_memory_patch *patch)
{
    qp_jsonw_object(writer);
    qp_jsonw_put(writer, "kind", qp_memory_kind_name(patch->kind));
    if ((patch->set & QUIPU_MEMORY_SET_CONTENT) != 0) {
        qp_jsonw_key(writer, QUIPU_STR("content"));
        qp_jsonw_str(writer, patch->content);
    }
    if ((patch->set & QUIPU_MEMORY_SET_PRIORITY) != 0) {
        qp_jsonw_put(writer, "priority", qp_memory_priority_name(patch->priority));
    }
    if ((patch->set & QUIPU_MEMORY_SET_SUBJECT) != 0) {
        qp_jsonw_key(writer, QUIPU_STR("subject"));
        if (patch->subject.n > 0) {
            qp_jsonw_str(writer, patch->subject);
        } else {
            qp_jsonw_null(writer);
        }
    }
    if ((patch->set & QUIPU_MEMORY_SET_RETIRED) != 0) {
        qp_jsonw_put_bool(writer, "retire", true);
    }
    qp_jsonw_put_text(writer, "why", patch->why);
    qp_jsonw_put_text(writer, "who", patch->who);
    qp_jsonw_object_end(writer);
}

/* One memory, by its id. The answer is the memory as it is now. */
quipu_status qp_remote_memory_update(void *ctx, const qp_call *call,
                                     const quipu_memory_patch *patch, quipu_arena *arena,
                                     quipu_memories *ret_memories, quipu_error *reterr)
{
    char id[QUIPU_UUID_TEXT_SIZE];
    quipu_str segments[] = {MEMORIES, QP_STR_ABSENT};
    qp_remote_ask ask;
    qp_jsonw writer;
    quipu_status status = memory_text_check("content", patch->content, reterr);

    status = status == QUIPU_OK ? memory_text_check("subject", patch->subject, reterr) : status;
    status = status == QUIPU_OK ? memory_text_check("why", patch->why, reterr) : status;
    status = status == QUIPU_OK ? memory_text_check("who", patch->who, reterr) : status;
    if (status != QUIPU_OK) {
        return status;
    }
    quipu_uuid_format(patch->id, id);
    segments[1] = quipu_cstr(id);
    qp_remote_begin(&ask, ctx, call, "PATCH", segments, 2);
    qp_jsonw_begin(&writer, &ask.body);
    memory_put_patch(&writer, patch);
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK) {
        status = memory_take_one(&ask, arena, ret_memories, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* The query of a find, without `recent`, decides what is removed. The answer counts it: 0 is a
 * result, and so is a key that no server can have. */
quipu_status qp_remote_memory_remove(void *ctx, const qp_call *call,
                                     const quipu_memory_query *query, int64_t *ret_removed,
                                     quipu_error *reterr)
{
    const quipu_str segments[] = {MEMORIES};
    qp_remote_ask ask;
    quipu_status status;

    assert(query->recent == 0);
    qp_remote_begin(&ask, ctx, call, "DELETE", segments, 1);
    ask.writes = true;
    status = memory_put_query(&ask, query, reterr);
    if (status == QUIPU_OK && !ask.no_place) {
        status = qp_remote_run(&ask, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_removed = qp_answer_number(qp_json_root(&ask.doc), "removed");
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* By the names of the route. Numbers that the server does not send are 0; a row without its
 * session's key is refused. */
static bool progress_take(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    quipu_memory_progress *progress = item;
    bool good = true;

    (void)ctx;
    *progress =
        (quipu_memory_progress){.session_key = qp_answer_text(row, "key", arena, &good),
                                .scope = qp_answer_text(row, "scope", arena, &good),
                                .watermark = qp_answer_number(row, "watermark"),
                                .last_seq = qp_answer_number(row, "lastSeq"),
                                .pending_messages = qp_answer_number(row, "pendingMessages"),
                                .pending_tokens = qp_answer_number(row, "pendingTokens"),
                                .observe_tokens = qp_answer_number(row, "observeTokens"),
                                .generation = qp_answer_number(row, "generation"),
                                .observations = qp_answer_number(row, "observations"),
                                .reflections = qp_answer_number(row, "reflections"),
                                .standing_tokens = qp_answer_number(row, "standingTokens"),
                                .owner = qp_answer_text(row, "owner", arena, &good),
                                .fence = qp_answer_number(row, "fence"),
                                .tries = qp_answer_number(row, "tries"),
                                .last_error = qp_answer_text(row, "lastError", arena, &good),
                                .reflect_error = qp_answer_text(row, "reflectError", arena, &good),
                                .model_calls = qp_answer_number(row, "modelCalls"),
                                .model_input = qp_answer_number(row, "modelInput"),
                                .model_output = qp_answer_number(row, "modelOutput"),
                                .model_cost = qp_answer_number(row, "modelCost"),
                                .model_unpriced = qp_answer_number(row, "modelUnpriced")};
    progress->has_lease_until =
        qp_answer_has_time(row, "leaseUntil", arena, &progress->lease_until, &good);
    progress->has_next_at = qp_answer_has_time(row, "nextAt", arena, &progress->next_at, &good);
    return good && progress->session_key.p != NULL;
}

/* A key that no path can have names no session of a server. The provider stays here: "asksModel"
 * says that there is one, which decides the threshold that the server shows. */
quipu_status qp_remote_memory_status(void *ctx, const qp_call *call,
                                     const quipu_memory_options *options, quipu_arena *arena,
                                     quipu_memory_status_list *ret_list, quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_memory_progress), progress_take};
    const quipu_str segments[] = {QUIPU_STR("memory")};
    quipu_memory_progress *items;
    qp_remote_ask ask;
    quipu_status status;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    ask.no_place = options->session_key.p != NULL && !qp_text_is_segment(options->session_key);
    qp_remote_text(&ask, "key", options->session_key);
    qp_remote_text(&ask, "app", options->app_name);
    qp_remote_text(&ask, "user", options->user_id);
    qp_remote_number(&ask, "observeTokens",
                     options->observe_tokens > 0 ? options->observe_tokens : 0);
    qp_remote_flag(&ask, "asksModel", options->provider != NULL);
    status = qp_remote_run(&ask, reterr);
    items = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("sessions")), &kind, NULL,
                           arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        *ret_list =
            (quipu_memory_status_list){.sessions = quipu_memory_progresses_of(items, count),
                                       .more = qp_answer_flag(qp_json_root(&ask.doc), "more")};
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* A prompt that is logged, and one that brings what a provider said of the one before, write: a
 * repeat would log it twice. The others may be sent again. */
quipu_status qp_remote_context(void *ctx, const qp_call *call, const quipu_context_options *options,
                               quipu_arena *arena, quipu_context *ret_context, quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("sessions"), options->key, QUIPU_STR("context")};
    qp_remote_ask ask;
    qp_jsonw writer;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    ask.writes = (options->flags & QUIPU_CONTEXT_LOG) != 0 || options->usage != NULL;
    qp_jsonw_begin(&writer, &ask.body);
    qp_prompt_ask_write(&writer, options);
    status = qp_jsonw_end(&writer);
    status = status == QUIPU_OK
                 ? qp_remote_run(&ask, reterr)
                 : qp_error_set(reterr, status, "the request for a prompt cannot be written: %s",
                                quipu_status_text(status));
    if (status == QUIPU_OK &&
        !qp_prompt_take(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("context")), arena,
                        ret_context)) {
        status = qp_remote_unread(&ask, reterr);
    }
    qp_remote_end(&ask);
    return status;
}
