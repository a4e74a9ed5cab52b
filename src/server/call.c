/* Shared by the handlers: parameters, the scope of the identity, and answers.
 *
 * Owns: the table of HTTP statuses; otherwise nothing but what a call owns. Called by: handlers on
 * workers and, for answers that need no store, by the loop. Locks: none; a call has one user at a
 * time. Transactions: each read of a session is one snapshot of its own, so that a handler that
 * writes afterwards relies on the store's checks, not on what was read here.
 *
 * What an identity may see is decided here for all routes: a session outside of its scope has the
 * same answer as a missing one. */
#include "server/call.h"

#include <assert.h>
#include <string.h>

#include "base/adk_key.h"
#include "base/error.h"
#include "base/str.h"
#include "server/spool.h"

/* How a status of the library is answered. The closed list of base.h, in its order. 4xx: the
 * request is at fault, and a repeat of it fails again. 503: come again; UNKNOWN with the same event
 * ids, which store nothing twice. 500: a fault that no client can mend, whose text is not shown. */
static const struct {
    quipu_status status;
    int http_status;
} call_statuses[] = {
    {QUIPU_NOT_FOUND, 404}, {QUIPU_EXISTS, 409},    {QUIPU_EXPIRED, 410},     {QUIPU_CONFLICT, 409},
    {QUIPU_BUSY, 503},      {QUIPU_FULL, 507},      {QUIPU_UNKNOWN, 503},     {QUIPU_INVALID, 400},
    {QUIPU_MISUSE, 400},    {QUIPU_LIMIT, 413},     {QUIPU_NOMEM, 503},       {QUIPU_IO, 500},
    {QUIPU_CORRUPT, 500},   {QUIPU_CANCELLED, 503}, {QUIPU_UNSUPPORTED, 501}, {QUIPU_NEWER, 500},
};

/* Whether the store's own server is away, which src/ent_postgres says where it makes the error. A
 * client may come again then, as to a server that is busy; any other fault of the system is 500,
 * because nothing says that it will pass. */
static bool call_is_away(quipu_status status, const quipu_error *error)
{
    return status == QUIPU_IO && strcmp(error->rule, QP_RULE_AWAY) == 0;
}

/* 500 until a handler says otherwise: an answer that was forgotten is noticed. */
void qp_reply_init(qp_reply *answer)
{
    *answer = (qp_reply){.status = 500, .type = "application/json"};
    qp_buf_init(&answer->body, QP_REPLY_MAX);
}

void qp_reply_free(qp_reply *answer)
{
    qp_buf_free(&answer->body);
    qp_spool_free(answer->spool);
    answer->spool = NULL;
}

/* Writes over what a handler has written so far: half of a result must not leave. `field` names the
 * value that is wrong, with its entity and rule; NULL: none is. */
static void call_put_error(qp_reply *answer, int http_status, const char *status,
                           const char *message, const quipu_error *field)
{
    qp_jsonw writer;

    qp_buf_reset(&answer->body);
    qp_jsonw_begin(&writer, &answer->body);
    qp_jsonw_object(&writer);
    if (answer->has_detail) {
        qp_jsonw_put(&writer, "detail", message);
    } else {
        qp_jsonw_key(&writer, QUIPU_STR("error"));
        qp_jsonw_object(&writer);
        qp_jsonw_put(&writer, "status", status);
        qp_jsonw_put(&writer, "message", message);
        if (field != NULL) {
            qp_jsonw_put(&writer, "entity", field->entity);
            qp_jsonw_put(&writer, "field", field->field);
            qp_jsonw_put(&writer, "rule", field->rule);
        }
        qp_jsonw_object_end(&writer);
    }
    qp_jsonw_object_end(&writer);
    if (qp_jsonw_end(&writer) != QUIPU_OK) {
        qp_buf_reset(&answer->body); /* the status says enough */
    }
    answer->status = http_status;
    answer->type = "application/json";
}

void qp_reply_error(qp_reply *answer, int http_status, const char *status, const char *message)
{
    call_put_error(answer, http_status, status, message, NULL);
}

/* A status that the table lacks is the server's fault, 500. */
void qp_reply_failure(qp_reply *answer, quipu_status status, const quipu_error *error)
{
    int http_status = 500;

    assert(status != QUIPU_OK);
    for (size_t i = 0; i < sizeof(call_statuses) / sizeof(call_statuses[0]); i++) {
        if (call_statuses[i].status == status) {
            http_status = call_is_away(status, error) ? 503 : call_statuses[i].http_status;
        }
    }
    /* A fault of the store is not the request's: its text would show where the store lies. */
    call_put_error(answer, http_status, quipu_status_name(status),
                   error->message[0] != '\0' && !qp_error_is_fault(status)
                       ? error->message
                       : quipu_status_text(status),
                   error->field[0] != '\0' && http_status < 500 ? error : NULL);
}

/* The size of an answer is limited by its buffer, whose error shows here. */
quipu_status qp_reply_json(qp_reply *answer, int http_status, const qp_jsonw *writer,
                           quipu_error *reterr)
{
    quipu_status status = qp_jsonw_end(writer);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the answer cannot be written: %s",
                            quipu_status_text(status));
    }
    answer->status = http_status;
    return QUIPU_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Absent for a parameter that is not there. The text lies in the request, which lives until the
 * answer is sent. */
quipu_str qp_call_text(const qp_call *call, const char *name)
{
    return qp_http_parameter(call->request, name);
}

/* "false" and an absent flag are the same. */
bool qp_call_flag(const qp_call *call, const char *name)
{
    return quipu_str_eq(qp_call_text(call, name), QUIPU_STR("true"));
}

/* qp_route_check() has seen that these are digits, and that the number is within the limits of its
 * parameter, which are far below overflow. */
int64_t qp_call_number(const qp_call *call, const char *name, int64_t otherwise)
{
    quipu_str text = qp_call_text(call, name);
    int64_t value = 0;

    for (size_t i = 0; i < text.n; i++) {
        assert(text.p[i] >= '0' && text.p[i] <= '9');
        value = value * 10 + (text.p[i] - '0');
    }
    return text.n > 0 ? value : otherwise;
}

/* A time may be absent; qp_route_check() has refused a wrong one. */
bool qp_call_time(const qp_call *call, const char *name, quipu_time *ret_time)
{
    quipu_str text = qp_call_text(call, name);

    return text.n > 0 && quipu_time_parse(text, ret_time) == QUIPU_OK;
}

/* ---- scope ----------------------------------------------------------------------------------- */

/* memchr() first: texts are long, and words begin with rare bytes. No allocation, because it looks
 * into what comes from strangers. */
bool qp_call_holds(quipu_str text, const char *word)
{
    const size_t n = strlen(word);

    for (size_t i = 0; i + n <= text.n; i++) {
        const char *found = memchr(text.p + i, word[0], text.n - n - i + 1);

        if (found == NULL) {
            return false;
        }
        if (memcmp(found, word, n) == 0) {
            return true;
        }
        i = (size_t)(found - text.p);
    }
    return false;
}

/* A route that is open to everybody has no identity and shows nothing of a store. */
bool qp_call_may_read(const qp_call *call)
{
    return call->identity != NULL && (call->identity->verbs & QUIPU_ACCESS_TOKEN_READ) != 0;
}

/* A token of the whole store has neither an app nor a user; a route without a token has no
 * identity, and shows nothing of a store. */
bool qp_call_is_scoped(const qp_call *call)
{
    return call->identity != NULL &&
           (call->identity->app_name.p != NULL || call->identity->user_id.p != NULL);
}

/* An absent name in an identity's scope admits every name. */
static bool call_covers(quipu_str scope, quipu_str name)
{
    return scope.p == NULL || quipu_str_eq(scope, name);
}

/* Whether a session lies in the identity's scope. */
static bool call_covers_session(const qp_call *call, const quipu_session_info *session)
{
    return !qp_call_is_scoped(call) || (call_covers(call->identity->app_name, session->app_name) &&
                                        call_covers(call->identity->user_id, session->user_id));
}

/* The session's content and its owner come from one snapshot: a session that is deleted and made
 * again for another user between two reads cannot be taken for the one that was checked. */
quipu_status qp_call_history(qp_call *call, const quipu_range *range, quipu_history **ret_history,
                             quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status =
        quipu_session_get(call->store, call->key, range, &call->limits, &history, reterr);

    if (status != QUIPU_OK && qp_call_is_scoped(call) && (range->flags & QUIPU_RANGE_HEADER) == 0) {
        /* A fault of another user's messages, or of the range, must not say that they exist. */
        return qp_call_check_session(call, NULL) == QUIPU_NOT_FOUND
                   ? qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no session of this key")
                   : status;
    }
    if (qp_call_is_scoped(call) &&
        (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED ||
         (status == QUIPU_OK && !call_covers_session(call, history->session)))) {
        /* One answer for what is missing, has expired or is another's: a scoped token learns
         * nothing of others. */
        quipu_free(history);
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no session of this key");
    }
    if (status == QUIPU_OK) {
        *ret_history = history;
    }
    return status;
}

/* Reads the header only: no message is decoded to find out whose session it is. */
quipu_status qp_call_session(qp_call *call, quipu_history **ret_history, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.flags = QUIPU_RANGE_HEADER;
    return qp_call_history(call, &range, ret_history, reterr);
}

/* Without a scope there is nothing to check, and no read: the handler's own call finds out whether
 * the session exists. */
quipu_status qp_call_check_session(qp_call *call, quipu_error *reterr)
{
    quipu_history *history = NULL;
    quipu_status status = QUIPU_OK;

    if (qp_call_is_scoped(call)) {
        status = qp_call_session(call, &history, reterr);
        quipu_free(history);
    }
    return status;
}

/* A client that names nothing gets what its token is for; one that names another app or user learns
 * as little as from a missing one. */
quipu_status qp_call_scope(const qp_call *call, quipu_str *app_name, quipu_str *user_id,
                           quipu_error *reterr)
{
    const qp_identity *identity = call->identity;

    if (!qp_call_is_scoped(call)) {
        return QUIPU_OK;
    }
    *app_name = app_name->p != NULL ? *app_name : identity->app_name;
    *user_id = user_id->p != NULL ? *user_id : identity->user_id;
    if (!call_covers(identity->app_name, *app_name) || !call_covers(identity->user_id, *user_id)) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no such app or user");
    }
    return QUIPU_OK;
}

/* The same form that the ADK service of the library uses, so that a client which speaks of app,
 * user and session finds the session that an agent wrote. */
quipu_status qp_call_adk_key(qp_call *call, const quipu_session_ref *ref, quipu_str *ret_key,
                             quipu_error *reterr)
{
    quipu_status status;
    qp_buf key;

    qp_buf_init(&key, QP_HTTP_HEAD_MAX * 3); /* an escaped byte takes three */
    qp_key_put_user(ref->app_name, ref->user_id, &key);
    qp_key_escape(ref->session_id, &key);
    status = qp_buf_status(&key);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&call->arena, qp_buf_str(&key), ret_key);
    }
    qp_buf_free(&key);
    return status == QUIPU_OK ? status : qp_error_set(reterr, status, "no room for a key");
}

/* Compared as escaped text: two different users never have the same beginning of a key, because a
 * slash inside of a name is escaped. A further slash would name a session of the service that it
 * could not find. */
quipu_status qp_call_check_new_key(const qp_call *call, quipu_str key, quipu_str app_name,
                                   quipu_str user_id, quipu_error *reterr)
{
    const quipu_str head = QUIPU_STR(QP_KEY_OF_USER);
    bool is_own;
    qp_buf own;

    if (key.n > 0 && !qp_text_is_segment(key)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "a key with control characters, or with . or .. between slashes, "
                            "cannot be part of a path");
    }
    if (!qp_call_is_scoped(call) || key.n < head.n || memcmp(key.p, head.p, head.n) != 0) {
        return QUIPU_OK;
    }
    qp_buf_init(&own, QUIPU_KEY_MAX);
    qp_key_put_user(app_name, user_id, &own);
    is_own = qp_buf_status(&own) == QUIPU_OK && key.n > own.n &&
             memcmp(key.p, qp_buf_str(&own).p, own.n) == 0 &&
             memchr(key.p + own.n, '/', key.n - own.n) == NULL;
    qp_buf_free(&own);
    return is_own ? QUIPU_OK
                  : qp_error_set(reterr, QUIPU_INVALID,
                                 "a key that begins with \"adk:\" names an app and a user, and "
                                 "these are not the session's");
}
