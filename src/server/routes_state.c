/* The state of a session, its export, the beginning of its tail, and figures of the store. Runs on
 * workers. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "mcp/live.h"
#include "server/adk_json.h"
#include "server/route.h"
#include "server/session_json.h"

/* ---- state ----------------------------------------------------------------------------------- */

static quipu_status state_open(qp_call *call, quipu_live **ret_live, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = qp_call_session(call, &history, reterr);

    if (status == QUIPU_OK) {
        status = qp_live_of_session(call->service, history->session, &call->limits, &call->arena,
                                    ret_live, reterr);
        quipu_free(history);
    }
    return status;
}

static quipu_status state_answer(qp_call *call, quipu_live *live, quipu_error *reterr)
{
    quipu_json state;
    qp_jsonw writer;
    quipu_status status = quipu_live_state(live, QP_STR_ABSENT, &call->arena, &state, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("state"));
    qp_jsonw_raw(&writer, state.text);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

quipu_status qp_route_state_get(qp_call *call, quipu_error *reterr)
{
    quipu_live *live = NULL;
    quipu_status status = state_open(call, &live, reterr);

    if (status == QUIPU_OK) {
        status = state_answer(call, live, reterr);
    }
    quipu_live_free(live);
    return status;
}

/* Its id makes it unique, its time is now. */
quipu_status qp_call_state_event(quipu_json names, qp_buf *event, quipu_error *reterr)
{
    const quipu_time now = quipu_time_now();
    char id[QUIPU_UUID_TEXT_SIZE];
    char invocation[2 + QUIPU_UUID_TEXT_SIZE] = "p-";
    quipu_uuid uuids[2];
    qp_jsonw writer;
    quipu_status status = qp_uuid_v4(&uuids[0]);

    status = status == QUIPU_OK ? qp_uuid_v4(&uuids[1]) : status;
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no random bits for an id");
    }
    quipu_uuid_format(uuids[0], invocation + 2);
    quipu_uuid_format(uuids[1], id);
    qp_jsonw_begin(&writer, event);
    qp_jsonw_object(&writer);
    qp_jsonw_put(&writer, "id", id);
    qp_jsonw_put(&writer, "invocationId", invocation);
    qp_jsonw_put(&writer, "author", "user");
    qp_jsonw_put_double(&writer, "timestamp", (double)now.s + (double)now.ns / 1e9);
    qp_jsonw_key(&writer, QUIPU_STR("actions"));
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("stateDelta"));
    qp_jsonw_raw(&writer, names.text);
    qp_jsonw_object_end(&writer);
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    return status == QUIPU_OK ? status : qp_error_set(reterr, status, "the state is too large");
}

quipu_status qp_call_check_state(qp_call *call, quipu_json names, quipu_error *reterr)
{
    const quipu_str head = QUIPU_STR("app:");
    quipu_status status = QUIPU_OK;
    qp_json_iter each;
    qp_json_doc doc;

    if (names.text.p == NULL || call->identity->user_id.p == NULL) {
        return QUIPU_OK;
    }
    qp_json_init(&doc);
    status = qp_json_parse(&doc, names.text, NULL, reterr);
    each = qp_json_each(qp_json_root(&doc));
    while (status == QUIPU_OK && qp_json_next(&each)) {
        quipu_str name;

        if (qp_json_text_copy(each.key, &call->arena, &name) != QUIPU_OK) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
        } else if (name.n >= head.n && memcmp(name.p, head.p, head.n) == 0) {
            status = qp_error_set(reterr, QUIPU_MISUSE,
                                  "a token of one user may not change the state of the app");
        }
    }
    qp_json_free(&doc);
    return status;
}

quipu_status qp_route_state_patch(qp_call *call, quipu_error *reterr)
{
    quipu_live *live = NULL;
    quipu_json names = {QP_STR_ABSENT};
    qp_json_doc doc;
    qp_buf event;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    qp_buf_init(&event, QP_HTTP_BODY_CAP);
    if (status == QUIPU_OK) {
        names.text = qp_json_raw(qp_json_root(&doc));
        status = qp_call_check_state(call, names, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_call_state_event(names, &event, reterr);
    }
    if (status == QUIPU_OK) {
        status = state_open(call, &live, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_live_append(live, (quipu_json){qp_buf_str(&event)}, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK && qp_call_may_read(call)) {
        status = state_answer(call, live, reterr);
    } else if (status == QUIPU_OK) {
        call->answer.status = 204;
    }
    quipu_live_free(live);
    qp_buf_free(&event);
    qp_json_free(&doc);
    return status;
}

/* ---- export ---------------------------------------------------------------------------------- */

static quipu_status state_write_file(void *ctx, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, ctx) == n ? QUIPU_OK : QUIPU_IO;
}

/* Takes a second descriptor of the file for the answer: the stream's own is closed with it. */
static quipu_status state_hand_over(FILE *file, qp_reply *answer, quipu_error *reterr)
{
    int fd = fflush(file) == 0 ? dup(fileno(file)) : -1;
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;

    if (size < 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return qp_error_set(reterr, QUIPU_IO, "the export cannot be written");
    }
    answer->file_fd = fd;
    answer->file_size = (int64_t)size;
    answer->type = "application/x-ndjson";
    answer->status = 200;
    return QUIPU_OK;
}

/* Writes to a file without a name, which the loop sends: neither a large session nor a slow client
 * costs memory, and no worker waits for a client. */
quipu_status qp_route_export(qp_call *call, quipu_error *reterr)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_status status = qp_call_check_session(call, reterr);
    FILE *file;

    if (status != QUIPU_OK) {
        return status;
    }
    file = tmpfile();
    if (file == NULL) {
        return qp_error_set(reterr, QUIPU_IO, "no temporary file for the export");
    }
    options.key = call->key;
    /* Ancestors of a fork may lie outside of the scope: flat, they are no part of the export. */
    options.flags = qp_call_flag(call, "flat") || qp_call_is_scoped(call) ? QUIPU_EXPORT_FLAT : 0;
    status = quipu_store_export(call->store, &options, state_write_file, file, &call->limits, NULL,
                                reterr);
    if (status == QUIPU_OK) {
        status = state_hand_over(file, &call->answer, reterr);
    }
    (void)fclose(file);
    return status;
}

/* ---- tail ------------------------------------------------------------------------------------ */

/* The number that a stream goes on after: Last-Event-ID, which a client repeats by itself when it
 * reconnects, before the parameter. */
static quipu_status state_tail_after(const qp_call *call, int64_t *ret_after, quipu_error *reterr)
{
    quipu_str last = qp_http_header(call->request, "last-event-id");
    int64_t after = 0;

    for (size_t i = 0; i < last.n; i++) {
        if (last.p[i] < '0' || last.p[i] > '9' || i == 18) {
            return qp_error_set(reterr, QUIPU_INVALID, "Last-Event-ID must be a message's number");
        }
        after = after * 10 + (last.p[i] - '0');
    }
    *ret_after = last.n > 0 ? after : qp_call_number(call, "after", 0);
    return QUIPU_OK;
}

/* A client that has seen more than there is follows another life of the session, or the store is an
 * older copy: to wait for that number would leave out what comes before it. */
static quipu_status state_check_tail(qp_call *call, int64_t after, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = qp_call_session(call, &history, reterr);

    if (status == QUIPU_OK && after >= history->session->next_seq &&
        qp_http_header(call->request, "last-event-id").n > 0) {
        status = qp_error_set(reterr, QUIPU_CONFLICT,
                              "Last-Event-ID is beyond the end of the session, message %lld: it is "
                              "another one, or older; begin again",
                              (long long)(history->session->next_seq - 1));
    }
    quipu_free(history);
    return status;
}

/* Opens the tail; the connection goes on with it (stream.c). */
quipu_status qp_route_tail(qp_call *call, quipu_error *reterr)
{
    int64_t after = 0;
    quipu_status status = state_tail_after(call, &after, reterr);

    if (status == QUIPU_OK) {
        status = state_check_tail(call, after, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_tail_open(call->store, call->key, after, &call->limits, &call->tail, reterr);
    }
    if (status == QUIPU_OK) {
        call->answer.status = 200;
        call->answer.type = "text/event-stream";
    }
    return status;
}

/* ---- figures --------------------------------------------------------------------------------- */

quipu_status qp_route_stats(qp_call *call, quipu_error *reterr)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_status status = quipu_store_stats(call->store, &call->limits, &stats, reterr);
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        {"sessions", stats.sessions},
        {"forks", stats.forks},
        {"messages", stats.messages},
        {"tokens", stats.tokens},
        {"fileBytes", stats.file_bytes},
        {"logBytes", stats.log_bytes},
        {"freeBytes", stats.free_bytes},
        {"unindexed", stats.unindexed},
        {"expired", stats.expired},
        {"disks", stats.durability_level},
        {"commits", stats.commits},
        {"writes", stats.writes},
        {"largestCommit", stats.largest_commit},
    };
    qp_jsonw writer;

    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        qp_jsonw_key(&writer, quipu_cstr(figures[i].name));
        qp_jsonw_i64(&writer, figures[i].value);
    }
    qp_jsonw_key(&writer, QUIPU_STR("engine"));
    qp_jsonw_str(&writer, quipu_cstr(stats.engine));
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
