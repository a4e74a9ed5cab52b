/* Artifacts and usage at a server (store/remote.h): each call is one request of docs/server.md.
 *
 * Owns: nothing; results go to the caller's arena. Called by: the store's table, from any thread.
 * Locks: none. A save and a delete are not sent twice: a lost answer to a save would leave two
 * versions, and one to a delete a count of none, so that both are QUIPU_UNKNOWN then.
 * UNKNOWN of a save: the list of versions shows whether there is one more. */
#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "remote/remote.h"

#define ARTIFACTS QUIPU_STR("artifacts")
/* Days are counted in UTC, as the store counts them. */
#define USAGE_DAY_SECONDS INT64_C(86400)
#define USAGE_DAY_MAX INT64_C(2932896) /* 9999-12-31, the last one that has a spelling */

/* ---- artifacts ------------------------------------------------------------------------------- */

/* The index is the enum's value; 0 is not a kind. */
static const char *const artifact_kinds[] = {"", "data", "text", "uri"}; /* by their enum */

/* By name and not by number, so that a server may add kinds. An unknown one gives 0, and
 * artifact_take() refuses the row: bytes of an unknown meaning are worse than an error. */
static quipu_artifact_kind artifact_kind(qp_json_node row)
{
    const qp_json_node kind = qp_json_get(row, QUIPU_STR("kind"));

    for (int i = QUIPU_ARTIFACT_DATA; i <= QUIPU_ARTIFACT_URI; i++) {
        if (qp_json_kind_of(kind) == QP_JSON_STRING &&
            qp_json_text_is(kind, quipu_cstr(artifact_kinds[i]))) {
            return (quipu_artifact_kind)i;
        }
    }
    return (quipu_artifact_kind)0; /* of a newer server; the row is refused */
}

/* The bytes, where an answer has them: lists do not.
 * NULL for no data, and an empty text for zero bytes: the caller distinguishes them. */
static bool artifact_take_data(qp_json_node row, quipu_arena *arena, quipu_bytes *ret_data)
{
    bool good = true;
    const quipu_str text = qp_answer_text(row, "data", arena, &good);

    if (text.n > 0) {
        return good && qp_base64_read(text, arena, ret_data) == QUIPU_OK;
    }
    *ret_data = text.p != NULL ? (quipu_bytes){"", 0} : (quipu_bytes){NULL, 0};
    return good;
}

/* One artifact of a list, or of an answer. Its texts lie in the arena of the result, which outlives
 * the document.
 * A row without a name or with an unknown kind makes the whole answer malformed. */
static bool artifact_take(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    const qp_remote_server *server = ctx;
    quipu_artifact *artifact = item;

    *artifact = (quipu_artifact){.kind = artifact_kind(row)};
    return qp_fields_take(&server->artifact, row, arena, artifact) &&
           artifact_take_data(row, arena, &artifact->data) && artifact->name.p != NULL &&
           (int)artifact->kind != 0;
}

/* The owner of the artifacts: an app or a user that is named is sent, also when it is empty. A key
 * without app and user is a session's: the server looks it up within the token's scope. */
static void artifact_put_owner(qp_remote_ask *ask, const quipu_artifact_query *query)
{
    qp_remote_text(ask, "app", query->app_name);
    qp_remote_text(ask, "user", query->user_id);
    qp_remote_text(ask, "key", query->session_key);
}

/* The one artifact of an answer, as a list of one.
 * Also for the answer to a save: unreadable, it is UNKNOWN, because the version exists. */
static quipu_status artifact_take_one(const qp_remote_ask *ask, quipu_arena *arena,
                                      quipu_artifacts *ret_artifacts, quipu_error *reterr)
{
    quipu_artifact *one = quipu_arena_alloc(arena, sizeof(*one));

    if (one == NULL || !artifact_take(qp_json_get(qp_json_root(&ask->doc), QUIPU_STR("artifact")),
                                      ask->server, arena, one)) {
        return qp_remote_unread(ask, reterr);
    }
    *ret_artifacts = quipu_artifacts_of(one, 1);
    return QUIPU_OK;
}

/* A version that no artifact can have is answered here: the route refuses the number as a wrong
 * parameter, where the library says that there is no such version.
 * Version 0 is a version and -1 the newest: 0 goes as a text, for qp_remote_number() leaves it out.
 * */
quipu_status qp_remote_artifact_get(void *ctx, const qp_call *call,
                                    const quipu_artifact_query *query, quipu_arena *arena,
                                    quipu_artifacts *ret_artifacts, quipu_error *reterr)
{
    const quipu_str segments[] = {ARTIFACTS, query->name};
    qp_remote_ask ask;
    quipu_status status;

    assert(query->name.p != NULL && query->version >= -1);
    qp_remote_begin(&ask, ctx, call, "GET", segments, 2);
    artifact_put_owner(&ask, query);
    if (query->version >= QUIPU_ARTIFACT_VERSIONS_MAX) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no such artifact or version");
    } else {
        qp_remote_text(&ask, "version", query->version == 0 ? QUIPU_STR("0") : QP_STR_ABSENT);
        qp_remote_number(&ask, "version", query->version > 0 ? query->version : 0);
        status = qp_remote_run(&ask, reterr);
    }
    if (status == QUIPU_OK) {
        status = artifact_take_one(&ask, arena, ret_artifacts, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* One request for all: a list has no bytes, and the server limits how many rows it may have
 * (QUIPU_ARTIFACT_LIST_MAX).
 * The session need not exist where an app or a user is named. */
quipu_status qp_remote_artifact_find(void *ctx, const qp_call *call,
                                     const quipu_artifact_query *query, quipu_arena *arena,
                                     quipu_artifacts *ret_artifacts, quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_artifact), artifact_take};
    const quipu_str segments[] = {ARTIFACTS};
    quipu_artifact *items;
    qp_remote_ask ask;
    quipu_status status;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    artifact_put_owner(&ask, query);
    qp_remote_text(&ask, "name", query->name);
    qp_remote_flag(&ask, "versions", (query->flags & QUIPU_ARTIFACT_FIND_VERSIONS) != 0);
    status = qp_remote_run(&ask, reterr);
    items = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), ARTIFACTS), &kind, ctx, arena,
                           &count, &status, reterr);
    if (status == QUIPU_OK) {
        *ret_artifacts = quipu_artifacts_of(items, count);
    }
    qp_remote_end(&ask);
    return status;
}

/* An absent text is left out: for the server, an empty app is one that is named. */
static void artifact_put_text(qp_jsonw *writer, const char *name, quipu_str text)
{
    if (text.p != NULL) {
        qp_jsonw_put_text(writer, name, text);
    }
}

/* Bytes always go as base64, also of a text: nothing asks whether they are UTF-8. base64 takes four
 * bytes for three: what exceeds QP_REMOTE_BODY_MAX so is refused before it is sent. */
quipu_status qp_remote_artifact_save(void *ctx, const qp_call *call, const quipu_artifact *given,
                                     quipu_arena *arena, quipu_artifacts *ret_artifacts,
                                     quipu_error *reterr)
{
    const quipu_str segments[] = {ARTIFACTS};
    qp_remote_ask ask;
    qp_jsonw writer;
    quipu_status status;

    assert(given->kind >= QUIPU_ARTIFACT_DATA && given->kind <= QUIPU_ARTIFACT_URI);
    qp_remote_begin(&ask, ctx, call, "POST", segments, 1);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    artifact_put_text(&writer, "app", given->app_name);
    artifact_put_text(&writer, "user", given->user_id);
    artifact_put_text(&writer, "key", given->session_key);
    artifact_put_text(&writer, "name", given->name);
    artifact_put_text(&writer, "mimeType", given->mime_type);
    qp_jsonw_put(&writer, "kind", artifact_kinds[given->kind]);
    if (given->metadata.text.n > 0) {
        qp_jsonw_key(&writer, QUIPU_STR("metadata"));
        qp_jsonw_raw(&writer, given->metadata.text);
    }
    qp_jsonw_key(&writer, QUIPU_STR("data"));
    qp_base64_json(&writer, given->data);
    qp_jsonw_object_end(&writer);
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK) {
        status = artifact_take_one(&ask, arena, ret_artifacts, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* A name that cannot be part of a path was never saved over HTTP. A name that a program saved into
 * the file stays there, and is deleted there. 204, from a token that may not read, has no number: 0
 * is reported then. */
quipu_status qp_remote_artifact_remove(void *ctx, const qp_call *call,
                                       const quipu_artifact_query *query, int64_t *ret_removed,
                                       quipu_error *reterr)
{
    const quipu_str segments[] = {ARTIFACTS, query->name};
    qp_remote_ask ask;
    quipu_status status;

    assert(query->name.p != NULL);
    qp_remote_begin(&ask, ctx, call, "DELETE", segments, 2);
    artifact_put_owner(&ask, query);
    ask.writes = true;
    status = ask.no_place ? QUIPU_OK : qp_remote_run(&ask, reterr);
    if (status == QUIPU_OK) {
        *ret_removed = qp_answer_number(qp_json_root(&ask.doc), "removed");
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- usage ----------------------------------------------------------------------------------- */

/* A day as the instant that it begins; 0, no bound, is left out.
 * A day behind the last one is sent as the last one, which bounds as much. */
static void usage_put_day(qp_remote_ask *ask, const char *name, int64_t day)
{
    char text[QP_TIME_RFC3339_SIZE];
    const int64_t shown = day < USAGE_DAY_MAX ? day : USAGE_DAY_MAX;

    assert(day >= 0);
    if (day > 0 &&
        qp_time_rfc3339((quipu_time){shown * USAGE_DAY_SECONDS, 0}, text, NULL) == QUIPU_OK) {
        qp_remote_text(ask, name, quipu_cstr(text));
    }
}

/* The grouping of rows, as the parameter spells it. The index is the flags' own bits, put
 * together. */
static void usage_put_by(qp_remote_ask *ask, uint32_t flags)
{
    static const char *const names[] = {
        /* by day 1, model 2, session 4 */
        "all",     "day",         "model",         "day,model",
        "session", "day,session", "model,session", "day,model,session"};
    const size_t index = ((flags & QUIPU_USAGE_BY_DAY) != 0 ? 1U : 0U) +
                         ((flags & QUIPU_USAGE_BY_MODEL) != 0 ? 2U : 0U) +
                         ((flags & QUIPU_USAGE_BY_SESSION) != 0 ? 4U : 0U);

    qp_remote_text(ask, "by", quipu_cstr(names[index]));
}

/* "2026-03-01" as a number of days; 0 where the row is of no single day.
 * A time is parsed with the library's own reader, at midnight of that day. */
static bool usage_take_day(qp_json_node row, quipu_arena *arena, int64_t *ret_day)
{
    bool good = true;
    const quipu_str text = qp_answer_text(row, "day", arena, &good);
    quipu_time time = {0, 0};
    char whole[32];

    if (text.p == NULL) {
        return good;
    }
    if (text.n != strlen("2026-03-01")) {
        return false;
    }
    memcpy(whole, text.p, text.n);
    memcpy(whole + text.n, "T00:00:00Z", sizeof("T00:00:00Z"));
    good = quipu_time_parse(quipu_cstr(whole), &time) == QUIPU_OK;
    *ret_day = time.s / USAGE_DAY_SECONDS;
    return good;
}

/* Members that the query does not group by are missing in a row, and 0 or absent here, as
 * <quipu/usage.h> promises.
 * Figures that an older server lacks are 0. */
static bool usage_take(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    quipu_usage_row *usage = item;
    bool good = true;

    (void)ctx;
    *usage = (quipu_usage_row){.session_key = qp_answer_text(row, "sessionKey", arena, &good),
                               .model = qp_answer_text(row, "model", arena, &good),
                               .prompt_tokens = qp_answer_number(row, "promptTokens"),
                               .cached_tokens = qp_answer_number(row, "cachedTokens"),
                               .answer_tokens = qp_answer_number(row, "answerTokens"),
                               .answers = qp_answer_number(row, "answers"),
                               .cost = qp_answer_number(row, "cost"),
                               .unpriced = qp_answer_number(row, "unpriced")};
    return good && usage_take_day(row, arena, &usage->day);
}

/* The cursor is the server's and goes back to it byte for byte: it names a place in the list of
 * sessions, which only that store understands.
 * A read: it may be sent again. */
quipu_status qp_remote_usage(void *ctx, const qp_call *call, const quipu_usage_query *query,
                             quipu_arena *arena, quipu_usage_report *ret_report,
                             quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_usage_row), usage_take};
    const quipu_str segments[] = {QUIPU_STR("usage")};
    quipu_usage_row *rows;
    qp_remote_ask ask;
    quipu_status status;
    bool good = true;
    size_t count = 0;

    assert(query->limit > 0 && query->limit <= QUIPU_PAGE_MAX);
    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    usage_put_by(&ask, query->flags);
    qp_remote_text(&ask, "key", query->key);
    qp_remote_text(&ask, "app", query->app_name);
    qp_remote_text(&ask, "user", query->user_id);
    qp_remote_text(&ask, "after", query->after);
    usage_put_day(&ask, "from", query->from_day);
    usage_put_day(&ask, "to", query->to_day);
    qp_remote_number(&ask, "limit", query->limit);
    status = qp_remote_run(&ask, reterr);
    rows = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("usage")), &kind, NULL,
                          arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        const qp_json_node root = qp_json_root(&ask.doc);

        *ret_report = (quipu_usage_report){.rows = quipu_usage_rows_of(rows, count),
                                           .sessions = qp_answer_number(root, "sessions"),
                                           .next = qp_answer_text(root, "next", arena, &good)};
        status = good ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    qp_remote_end(&ask);
    return status;
}
