/* Artifacts, for /v1 and for ADK's routes. A session's artifacts are its own and its user's; what
 * the identity may see is decided by the session, or by app and user of the path. Runs on workers.
 *
 * Bytes are always sent inside of JSON: a client's file is never a document of this origin.
 * Called by: the table of routes. Owns: nothing after a call; lists of the library are freed by the
 * handler, texts of bodies lie in the call's arena. Locks: none. Transactions: a read of the
 * session's header where a check needs it, then one call of the library. Statuses: 200 and 201; 204
 * where a token that may not read would learn something; 400 for a body or a name that is wrong;
 * 404 outside of the scope and for what is missing; 413 beyond the limits of the library. A save is
 * not idempotent: sent twice, it makes two versions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "server/adk_json.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session_json.h"

/* Nine digits fit 32 bits, and are more than a version can have. */
#define ARTIFACT_DIGITS_MAX 9 /* of a version in a path */

/* ---- /v1 ------------------------------------------------------------------------------------- */

/* The first row is for a kind of 0, which stored artifacts do not have. */
static const char *const artifact_kinds[] = {"data", "data", "text", "uri"}; /* by their enum */

/* By the table of fields, whose names are the schema's; the kind by its name, which the table has
 * not. Lists leave the bytes out: a list costs what its names cost. */
static void artifact_put(qp_jsonw *writer, const qp_json_fields *fields,
                         const quipu_artifact *artifact, bool with_data)
{
    qp_jsonw_object(writer);
    qp_fields_members(writer, fields, artifact);
    qp_jsonw_put(writer, "kind", artifact_kinds[artifact->kind]);
    if (with_data) {
        qp_jsonw_key(writer, QUIPU_STR("data"));
        qp_base64_json(writer, artifact->data);
    }
    qp_jsonw_object_end(writer);
}

/* {"artifact":{...}}
 * The list has one item: a get and a save of one artifact return exactly one. */
static quipu_status artifact_answer(qp_call *call, int status, const quipu_artifact_list *list,
                                    bool with_data, quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("artifact"));
    artifact_put(&writer, &call->server->artifact_fields, quipu_artifact_at(list->artifacts, 0),
                 with_data);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, status, &writer, reterr);
}

/* The owner of the artifacts that a request names. By a session's key alone, in the path or as a
 * parameter, the session must exist in the identity's scope. Where an app or a user is named the
 * rows are theirs, as with ADK: the key need not be that of a session, and only the names decide
 * what is seen. On return the query's app and user are within the scope, and the store selects by
 * them: a key of somebody else's session finds nothing. */
static quipu_status artifact_place(qp_call *call, quipu_artifact_query *query, quipu_error *reterr)
{
    quipu_status status;

    if (query->app_name.p == NULL && query->user_id.p == NULL && query->session_key.p != NULL) {
        call->key = query->session_key;
        return qp_call_check_session(call, reterr);
    }
    status = qp_call_scope(call, &query->app_name, &query->user_id, reterr);
    if (status == QUIPU_OK && query->session_key.p != NULL &&
        !qp_text_is_segment(query->session_key)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the key cannot be part of a path");
    }
    return status;
}

/* The place that the path or the parameters name, and the name, which is the path's last value.
 * In "/v1/sessions/{key}/artifacts/{name}" the name is the second value; in "/v1/artifacts/{name}"
 * it is the first, and the owner comes from the parameters. */
static quipu_status artifact_query(qp_call *call, quipu_artifact_query *query, quipu_error *reterr)
{
    const bool has_key = call->key.p != NULL;

    query->session_key = has_key ? call->key : qp_call_text(call, "key");
    query->app_name = qp_call_text(call, "app");
    query->user_id = qp_call_text(call, "user");
    query->name = call->path[has_key ? 1 : 0];
    return artifact_place(call, query, reterr);
}

/* Without bytes: how large the answer can get is bounded by the library (QUIPU_ARTIFACT_LIST_MAX
 * and _BYTES_MAX). */
quipu_status qp_route_artifact_list(qp_call *call, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status = artifact_query(call, &query, reterr);
    qp_jsonw writer;

    /* Absent: all names. */
    query.name = qp_call_text(call, "name"); /* none is in the path of a list */
    query.flags = qp_call_flag(call, "versions") ? QUIPU_ARTIFACT_FIND_VERSIONS : 0;
    if (status == QUIPU_OK) {
        status = quipu_artifact_find(call->store, &query, &call->limits, &list, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("artifacts"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < list->artifacts.count; i++) {
        artifact_put(&writer, &call->server->artifact_fields, quipu_artifact_at(list->artifacts, i),
                     false);
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_object_end(&writer);
    quipu_free(list);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* With the bytes, as base64 inside of JSON: a browser that is led here shows no document of a
 * client's.
 * Without `version` the newest (-1). The bytes are held twice for a moment, as bytes and as base64,
 * within QP_REPLY_MAX. */
quipu_status qp_route_artifact_get(qp_call *call, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status = artifact_query(call, &query, reterr);

    query.flags = QUIPU_ARTIFACT_FIND_BYTES;
    query.version = qp_call_number(call, "version", -1);
    if (status == QUIPU_OK) {
        status = quipu_artifact_find(call->store, &query, &call->limits, &list, reterr);
    }
    if (status == QUIPU_OK) {
        status = artifact_answer(call, 200, list, true, reterr);
    }
    quipu_free(list);
    return status;
}

/* A text of the body.
 * `name` is for the error; the text is copied to the call's arena. */
static quipu_status artifact_text(qp_call *call, const char *name, qp_json_node value,
                                  quipu_str *ret, quipu_error *reterr)
{
    quipu_status status = qp_json_kind_of(value) == QP_JSON_STRING
                              ? qp_json_text_copy(value, &call->arena, ret)
                              : QUIPU_INVALID;

    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "%s must be a text", name);
}

/* Bytes of a text in base64.
 * An empty text is zero bytes and not a missing member: `ret->p` is set in every case. */
static quipu_status artifact_bytes(qp_call *call, qp_json_node value, quipu_bytes *ret,
                                   quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = artifact_text(call, "data", value, &text, reterr);

    *ret = (quipu_bytes){"", 0};
    if (status == QUIPU_OK && text.n > 0) {
        status = qp_base64_read(text, &call->arena, ret);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "data must be base64");
        }
    }
    return status;
}

/* The kind of the bytes; without it `text` is text, and `data` is data. Strict: a kind of a newer
 * version is refused, because it would be shown wrongly later. */
static quipu_status artifact_kind(qp_json_node value, quipu_artifact *ret, quipu_error *reterr)
{
    for (int i = QUIPU_ARTIFACT_DATA; i <= QUIPU_ARTIFACT_URI; i++) {
        if (qp_json_kind_of(value) == QP_JSON_STRING &&
            qp_json_text_is(value, quipu_cstr(artifact_kinds[i]))) {
            ret->kind = (quipu_artifact_kind)i;
            return QUIPU_OK;
        }
    }
    return qp_error_set(reterr, QUIPU_INVALID, "kind must be data, text or uri");
}

/* The members that say whose an artifact is, where the path does not. *ret_known: it is one.
 * With a key in the path the three names are unknown members, and refused as such: the body must
 * not name another owner than the path does. */
static quipu_status artifact_owner(qp_call *call, qp_json_node name, qp_json_node value,
                                   quipu_artifact *ret, bool *ret_known, quipu_error *reterr)
{
    const struct {
        const char *name;
        quipu_str *to;
    } owners[] = {{"app", &ret->app_name}, {"user", &ret->user_id}, {"key", &ret->session_key}};

    *ret_known = true;
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]) && call->key.p == NULL; i++) {
        if (qp_json_text_is(name, quipu_cstr(owners[i].name))) {
            return artifact_text(call, owners[i].name, value, owners[i].to, reterr);
        }
    }
    *ret_known = false;
    return QUIPU_OK;
}

/* One member of the body; `text` and `data` are two spellings of the same thing.
 * A member that is unknown is refused: it may be a misspelled one. The metadata stay in the body's
 * document, which the handler frees behind the save. */
static quipu_status artifact_member(qp_call *call, qp_json_node name, qp_json_node value,
                                    quipu_artifact *ret, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    bool is_known = true;
    quipu_status status;

    if (qp_json_text_is(name, QUIPU_STR("name"))) {
        return artifact_text(call, "name", value, &ret->name, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("mimeType"))) {
        return artifact_text(call, "mimeType", value, &ret->mime_type, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("metadata"))) {
        ret->metadata.text = qp_json_raw(value);
        return QUIPU_OK;
    }
    if (qp_json_text_is(name, QUIPU_STR("text"))) {
        status = artifact_text(call, "text", value, &text, reterr);
        /* An explicit kind counts, whether it stands before or behind the text. */
        ret->kind = (int)ret->kind == 0 ? QUIPU_ARTIFACT_TEXT : ret->kind;
        ret->data = (quipu_bytes){text.p, text.n};
        return status;
    }
    if (qp_json_text_is(name, QUIPU_STR("data"))) {
        return artifact_bytes(call, value, &ret->data, reterr);
    }
    if (qp_json_text_is(name, QUIPU_STR("kind"))) {
        return artifact_kind(value, ret, reterr);
    }
    status = artifact_owner(call, name, value, ret, &is_known, reterr);
    return status != QUIPU_OK || is_known
               ? status
               : qp_error_set(reterr, QUIPU_INVALID,
                              "an artifact has name, data or text, kind, mimeType and metadata");
}

/* {"name", "data" or "text", "kind", "mimeType", "metadata"}, and the owner. A name that no path
 * can carry is refused here: what is saved under it could not be read again. */
static quipu_status artifact_read(qp_call *call, qp_json_node body, quipu_artifact *ret,
                                  quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && qp_json_next(&each)) {
        status = artifact_member(call, each.key, each.value, ret, reterr);
    }
    if (status == QUIPU_OK && !qp_text_is_segment(ret->name)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "a name with control characters, or with . or .. between slashes, "
                              "cannot be part of a path");
    }
    if (status == QUIPU_OK && ret->data.p == NULL) {
        status = qp_error_set(reterr, QUIPU_INVALID, "an artifact needs data or text");
    }
    return status;
}

/* The body is read before the session is looked up: a malformed one costs no read of the store.
 * 201 with the version that the store chose. When the client leaves meanwhile, the version stays:
 * it finds it in the list. */
quipu_status qp_route_artifact_save(qp_call *call, quipu_error *reterr)
{
    quipu_artifact artifact = {.session_key = call->key};
    quipu_artifact_query place = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = artifact_read(call, qp_json_root(&doc), &artifact, reterr);
    }
    if (status == QUIPU_OK) {
        place.app_name = artifact.app_name;
        place.user_id = artifact.user_id;
        place.session_key = artifact.session_key;
        status = artifact_place(call, &place, reterr);
        /* The place that was checked is the one that is written to. */
        artifact.app_name = place.app_name; /* a scoped token's, where none is named */
        artifact.user_id = place.user_id;
    }
    if (status == QUIPU_OK) {
        status = quipu_artifact_save(call->store, quipu_artifacts_of(&artifact, 1), &call->limits,
                                     &list, reterr);
    }
    if (status == QUIPU_OK) {
        status = artifact_answer(call, 201, list, false, reterr);
    }
    quipu_free(list);
    qp_json_free(&doc);
    return status;
}

/* All versions of the name. A missing name succeeds: a repeat removes 0 versions. How many there
 * were is a fact of the store: a token that only writes gets 204 without it. */
quipu_status qp_route_artifact_delete(qp_call *call, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_status status = artifact_query(call, &query, reterr);
    int64_t removed = 0;
    qp_jsonw writer;

    if (status == QUIPU_OK) {
        status = quipu_artifact_delete(call->store, &query, &call->limits, &removed, reterr);
    }
    if (status != QUIPU_OK || !qp_call_may_read(call)) {
        call->answer.status = 204;
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    /* Versions, of this one name. */
    qp_jsonw_put_i64(&writer, "removed", removed);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* ---- ADK ------------------------------------------------------------------------------------- */

/* The place of a path: app, user, and the key of the session, which need not exist.
 * The scope is checked before the key is made and before any read: for another user's path the
 * answer is the same whether the session exists or not. */
static quipu_status adk_place(qp_call *call, quipu_artifact_query *query, quipu_error *reterr)
{
    /* By the ADK service's rule for keys, so that an agent finds what is saved here. */
    const quipu_session_ref ref = {call->path[0], call->path[1], call->path[2]};

    query->app_name = call->path[0];
    query->user_id = call->path[1];
    quipu_status status = qp_call_scope(call, &query->app_name, &query->user_id, reterr);
    return status == QUIPU_OK ? qp_call_adk_key(call, &ref, &query->session_key, reterr) : status;
}

/* Answers failures in ADK's words: what is not found, or of an expired session, is `missing`.
 * QUIPU_OK is passed on; others have the statuses of all routes. */
static quipu_status adk_fail(qp_call *call, quipu_status status, const char *missing,
                             const quipu_error *error)
{
    if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        qp_reply_error(&call->answer, 404, "NOT_FOUND", missing);
        return QUIPU_OK;
    }
    if (status == QUIPU_LIMIT || status == QUIPU_INVALID || status == QUIPU_MISUSE) {
        qp_reply_error(&call->answer, 400, "INVALID", error->message);
        return QUIPU_OK;
    }
    return status;
}

/* ADK's ArtifactVersion.
 * The URI names the version for people and tools of ADK; no route of this server is called by it.
 * */
static void adk_put_version(qp_jsonw *writer, const qp_call *call, const quipu_artifact *artifact)
{
    const quipu_time at = artifact->created_at;
    qp_buf uri;

    qp_buf_init(&uri, QP_REPLY_MAX);
    /* The parts are put in as they are: the URI is a name to be shown, not to be parsed. */
    qp_buf_puts(&uri, "quipu://apps/");
    qp_buf_put(&uri, call->path[0]);
    qp_buf_puts(&uri, "/users/");
    qp_buf_put(&uri, call->path[1]);
    if (artifact->session_key.p != NULL) {
        qp_buf_puts(&uri, "/sessions/");
        qp_buf_put(&uri, call->path[2]);
    }
    qp_buf_puts(&uri, "/artifacts/");
    qp_buf_put(&uri, artifact->name);
    qp_buf_printf(&uri, "/versions/%" PRId64, artifact->version);
    qp_jsonw_object(writer);
    qp_jsonw_put_i64(writer, "version", artifact->version);
    qp_jsonw_put_text(writer, "canonicalUri", qp_buf_str(&uri));
    qp_jsonw_key(writer, QUIPU_STR("customMetadata"));
    qp_jsonw_raw(writer,
                 artifact->metadata.text.p != NULL ? artifact->metadata.text : QUIPU_STR("{}"));
    qp_jsonw_put_double(writer, "createTime", (double)at.s + (double)at.ns / 1e9);
    if (artifact->mime_type.p != NULL) {
        qp_jsonw_put_text(writer, "mimeType", artifact->mime_type);
    }
    qp_jsonw_object_end(writer);
    qp_buf_free(&uri);
}

/* Bytes as pydantic writes them: base64 with the alphabet for URLs.
 * The alphabet differs in two characters, which are replaced in place. */
static void adk_put_bytes(qp_jsonw *writer, quipu_bytes bytes)
{
    qp_buf text;

    qp_buf_init(&text, QP_REPLY_MAX);
    qp_base64_put(&text, bytes);
    for (size_t i = 0; i < text.n; i++) {
        text.p[i] = text.p[i] == '+' ? '-' : text.p[i] == '/' ? '_' : text.p[i];
    }
    qp_jsonw_str(writer, qp_buf_str(&text));
    qp_buf_free(&text);
}

/* A Part of Google's GenAI.
 * A text is never base64, and a URI is never fetched: it is what the client saved. */
static void adk_put_part(qp_jsonw *writer, const quipu_artifact *artifact)
{
    const quipu_str text = {artifact->data.p, artifact->data.n};

    qp_jsonw_object(writer);
    if (artifact->kind == QUIPU_ARTIFACT_TEXT) {
        qp_jsonw_put_text(writer, "text", text);
    } else {
        const bool is_uri = artifact->kind == QUIPU_ARTIFACT_URI;

        qp_jsonw_key(writer, is_uri ? QUIPU_STR("fileData") : QUIPU_STR("inlineData"));
        qp_jsonw_object(writer);
        if (is_uri) {
            qp_jsonw_put_text(writer, "fileUri", text);
        } else {
            qp_jsonw_key(writer, QUIPU_STR("data"));
            adk_put_bytes(writer, artifact->data);
        }
        if (artifact->mime_type.p != NULL) {
            qp_jsonw_put_text(writer, "mimeType", artifact->mime_type);
        }
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_object_end(writer);
}

/* A member of an object in either spelling; none: missing or null.
 * The camelCase one first, as in the rest of ADK's bodies. */
static qp_json_node adk_member(qp_json_node object, const char *camel, const char *snake)
{
    qp_json_node node = qp_json_get(object, quipu_cstr(camel));

    node = qp_json_kind_of(node) == QP_JSON_NONE ? qp_json_get(object, quipu_cstr(snake)) : node;
    return qp_json_kind_of(node) == QP_JSON_NULL ? (qp_json_node){NULL, 0} : node;
}

/* A text member to the arena; absent where there is none. */
static quipu_status adk_text(qp_call *call, qp_json_node object, const char *camel,
                             const char *snake, quipu_str *ret, quipu_error *reterr)
{
    qp_json_node node = adk_member(object, camel, snake);

    return node.doc == NULL ? QUIPU_OK : artifact_text(call, camel, node, ret, reterr);
}

/* A part as an artifact: inline data before a text before the URI of a file, as in ADK.
 * A part without any of the three is refused in ADK's own words. */
static quipu_status adk_read_part(qp_call *call, qp_json_node part, quipu_artifact *ret,
                                  quipu_error *reterr)
{
    const qp_json_node inline_data = adk_member(part, "inlineData", "inline_data");
    const qp_json_node file_data = adk_member(part, "fileData", "file_data");
    const qp_json_node text = adk_member(part, "text", "text");
    const qp_json_node data = adk_member(inline_data, "data", "data");
    quipu_str words = QP_STR_ABSENT;
    quipu_status status = QUIPU_OK;

    ret->data = (quipu_bytes){"", 0};
    if (inline_data.doc != NULL) {
        status = adk_text(call, inline_data, "mimeType", "mime_type", &ret->mime_type, reterr);
        return status == QUIPU_OK && data.doc != NULL
                   ? artifact_bytes(call, data, &ret->data, reterr)
                   : status;
    }
    if (text.doc != NULL) {
        ret->kind = QUIPU_ARTIFACT_TEXT;
        ret->mime_type = QUIPU_STR("text/plain");
        status = artifact_text(call, "text", text, &words, reterr);
    } else if (file_data.doc != NULL) {
        ret->kind = QUIPU_ARTIFACT_URI;
        status = adk_text(call, file_data, "mimeType", "mime_type", &ret->mime_type, reterr);
        if (status == QUIPU_OK) {
            status = adk_text(call, file_data, "fileUri", "file_uri", &words, reterr);
        }
    } else {
        return qp_error_set(reterr, QUIPU_INVALID, "Not supported artifact type.");
    }
    ret->data = (quipu_bytes){words.p != NULL ? words.p : "", words.n};
    return status;
}

/* Saves what the body has; answers with the version.
 * `session_id` of the body is the file's name here (QP_ADK_ARTIFACT). */
static quipu_status adk_save(qp_call *call, const qp_adk_body *body, quipu_error *reterr)
{
    quipu_artifact artifact = {.name = body->session_id, .metadata = body->state};
    quipu_artifact_query place = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status = adk_place(call, &place, reterr);
    qp_jsonw writer;

    artifact.app_name = place.app_name;
    artifact.user_id = place.user_id;
    artifact.session_key = place.session_key;
    if (status == QUIPU_OK) {
        status = adk_read_part(call, body->options, &artifact, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_artifact_save(call->store, quipu_artifacts_of(&artifact, 1), &call->limits,
                                     &list, reterr);
    }
    if (status == QUIPU_OK && !qp_call_may_read(call)) {
        call->answer.status = 204;
    } else if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &call->answer.body);
        adk_put_version(&writer, call, quipu_artifact_at(list->artifacts, 0));
        status = qp_reply_json(&call->answer, 200, &writer, reterr);
    }
    quipu_free(list);
    return adk_fail(call, status, "Session not found", reterr);
}

/* The body is checked first, and answered with 422 and all of its faults, as ADK's framework does.
 * */
quipu_status qp_route_adk_artifact_save(qp_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_adk_body body;

    if (qp_adk_body_read(call, QP_ADK_ARTIFACT, &body)) {
        status = adk_save(call, &body, reterr);
    }
    qp_adk_body_free(&body);
    return status;
}

/* The fields that a list shows of each artifact. Names are of the newest versions; the other two
 * list every version of one name. */
typedef enum adk_shows { ADK_NAMES, ADK_VERSIONS, ADK_METADATA } adk_shows;

/* Three routes are one list: ADK asks for names, for the versions of one, or for what is known of
 * each version. An expired session has an empty list, like a session that never existed. The user's
 * own names are listed all the same. */
static quipu_status adk_list(qp_call *call, adk_shows shows, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status = adk_place(call, &query, reterr);
    qp_jsonw writer;

    if (shows != ADK_NAMES) {
        query.name = call->path[3];
        query.flags = QUIPU_ARTIFACT_FIND_VERSIONS;
    }
    if (status == QUIPU_OK) {
        status = quipu_artifact_find(call->store, &query, &call->limits, &list, reterr);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &call->answer.body);
        qp_jsonw_array(&writer);
        for (size_t i = 0; i < list->artifacts.count; i++) {
            const quipu_artifact *artifact = quipu_artifact_at(list->artifacts, i);

            if (shows == ADK_NAMES) {
                qp_jsonw_str(&writer, artifact->name);
            } else if (shows == ADK_VERSIONS) {
                qp_jsonw_i64(&writer, artifact->version);
            } else {
                adk_put_version(&writer, call, artifact);
            }
        }
        qp_jsonw_array_end(&writer);
        status = qp_reply_json(&call->answer, 200, &writer, reterr);
    }
    quipu_free(list);
    return adk_fail(call, status, "Session not found", reterr);
}

/* GET .../artifacts: the session's names and the user's, by name. */
quipu_status qp_route_adk_artifact_names(qp_call *call, quipu_error *reterr)
{
    return adk_list(call, ADK_NAMES, reterr);
}

/* GET .../artifacts/{name}/versions: numbers, also of versions that a rewind emptied. */
quipu_status qp_route_adk_artifact_versions(qp_call *call, quipu_error *reterr)
{
    return adk_list(call, ADK_VERSIONS, reterr);
}

/* GET .../versions/metadata: one object for each version. */
quipu_status qp_route_adk_artifact_metadatas(qp_call *call, quipu_error *reterr)
{
    return adk_list(call, ADK_METADATA, reterr);
}

/* The version that a path names: "latest", or a number. false: the answer is 422.
 * A negative number is a number to ADK, and no version has it: 404 and not 422. An absent text and
 * "latest" are the newest one. */
static bool adk_version(qp_call *call, quipu_str text, int64_t *ret_version)
{
    const bool negative = text.n > 0 && text.p[0] == '-';
    int64_t version = 0;
    bool good = text.n > (size_t)negative && text.n <= ARTIFACT_DIGITS_MAX;

    /* ADK's word for the newest one, in a path or as a parameter. */
    if (text.p == NULL || quipu_str_eq(text, QUIPU_STR("latest"))) {
        *ret_version = -1;
        return true;
    }
    for (size_t i = negative; i < text.n && good; i++) {
        good = text.p[i] >= '0' && text.p[i] <= '9';
        version = version * 10 + (text.p[i] - '0');
    }
    if (!good) {
        qp_reply_error(&call->answer, 422, "INVALID", "Invalid version ID");
    }
    *ret_version = negative ? QUIPU_ARTIFACT_VERSIONS_MAX : version; /* which nothing has */
    return good;
}

/* Whether a version is what a rewind of ADK saves to remove an artifact.
 * ADK knows no deletion of one version: its rewind saves an empty one over it, so that reading the
 * newest must find nothing. The versions before it stay readable. */
static bool adk_is_gone(const quipu_artifact *artifact)
{
    return artifact->kind == QUIPU_ARTIFACT_DATA && artifact->size == 0 &&
           quipu_str_eq(artifact->mime_type, QUIPU_STR("application/octet-stream"));
}

/* One version: its part, or what is known of it.
 * Metadata show the emptied version, too: only its part does not exist. */
static quipu_status adk_get(qp_call *call, quipu_str version, bool metadata, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status = adk_place(call, &query, reterr);
    qp_jsonw writer;

    query.name = call->path[3];
    query.flags = QUIPU_ARTIFACT_FIND_BYTES;
    if (status == QUIPU_OK && !adk_version(call, version, &query.version)) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = quipu_artifact_find(call->store, &query, &call->limits, &list, reterr);
    }
    if (status == QUIPU_OK && !metadata && adk_is_gone(quipu_artifact_at(list->artifacts, 0))) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "the artifact was removed by a rewind");
    }
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &call->answer.body);
        if (metadata) {
            adk_put_version(&writer, call, quipu_artifact_at(list->artifacts, 0));
        } else {
            adk_put_part(&writer, quipu_artifact_at(list->artifacts, 0));
        }
        status = qp_reply_json(&call->answer, 200, &writer, reterr);
    }
    quipu_free(list);
    return adk_fail(call, status, metadata ? "Artifact version not found" : "Artifact not found",
                    reterr);
}

/* GET .../artifacts/{name}: the newest version, or the one of the parameter. */
quipu_status qp_route_adk_artifact_get(qp_call *call, quipu_error *reterr)
{
    return adk_get(call, qp_call_text(call, "version"), false, reterr);
}

/* GET .../versions/{version}: the number stands in the path. */
quipu_status qp_route_adk_artifact_version(qp_call *call, quipu_error *reterr)
{
    return adk_get(call, call->path[4], false, reterr);
}

/* GET .../versions/{version}/metadata, without the bytes. */
quipu_status qp_route_adk_artifact_metadata(qp_call *call, quipu_error *reterr)
{
    return adk_get(call, call->path[4], true, reterr);
}

/* ADK answers null whether there was one or not. */
quipu_status qp_route_adk_artifact_delete(qp_call *call, quipu_error *reterr)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_status status = adk_place(call, &query, reterr);

    query.name = call->path[3];
    if (status == QUIPU_OK) {
        status = quipu_artifact_delete(call->store, &query, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        qp_buf_puts(&call->answer.body, "null");
        call->answer.status = 200;
        return qp_buf_status(&call->answer.body);
    }
    return adk_fail(call, status, "Artifact not found", reterr);
}
