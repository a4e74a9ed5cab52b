/* What handlers share: parameters, the scope of the identity, and answers. Called by workers and,
 * for answers that need no store, by the loop. Owns nothing but what a call owns. No locks. */
#include "server/call.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* How a status of the library is answered. The closed list of base.h, in its order. */
static const struct {
    quipu_status status;
    int http_status;
} call_statuses[] = {
    {QUIPU_NOT_FOUND, 404}, {QUIPU_EXISTS, 409},    {QUIPU_EXPIRED, 410},     {QUIPU_CONFLICT, 409},
    {QUIPU_BUSY, 503},      {QUIPU_FULL, 507},      {QUIPU_UNKNOWN, 503},     {QUIPU_INVALID, 400},
    {QUIPU_MISUSE, 400},    {QUIPU_LIMIT, 413},     {QUIPU_NOMEM, 503},       {QUIPU_IO, 500},
    {QUIPU_CORRUPT, 500},   {QUIPU_CANCELLED, 503}, {QUIPU_UNSUPPORTED, 501}, {QUIPU_NEWER, 500},
};

void qp_reply_init(qp_reply *answer)
{
    *answer = (qp_reply){.status = 500, .type = "application/json", .file_fd = -1};
    qp_buf_init(&answer->body, QP_REPLY_MAX);
}

void qp_reply_free(qp_reply *answer)
{
    qp_buf_free(&answer->body);
    if (answer->file_fd >= 0) {
        (void)close(answer->file_fd);
        answer->file_fd = -1;
    }
}

void qp_reply_error(qp_reply *answer, int http_status, const char *status, const char *message)
{
    qp_jsonw writer;

    qp_buf_reset(&answer->body);
    qp_jsonw_begin(&writer, &answer->body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("error"));
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("status"));
    qp_jsonw_str(&writer, quipu_cstr(status));
    qp_jsonw_key(&writer, QUIPU_STR("message"));
    qp_jsonw_str(&writer, quipu_cstr(message));
    qp_jsonw_object_end(&writer);
    qp_jsonw_object_end(&writer);
    if (qp_jsonw_end(&writer) != QUIPU_OK) {
        qp_buf_reset(&answer->body); /* the status says enough */
    }
    answer->status = http_status;
    answer->type = "application/json";
}

void qp_reply_failure(qp_reply *answer, quipu_status status, const quipu_error *error)
{
    int http_status = 500;

    assert(status != QUIPU_OK);
    for (size_t i = 0; i < sizeof(call_statuses) / sizeof(call_statuses[0]); i++) {
        if (call_statuses[i].status == status) {
            http_status = call_statuses[i].http_status;
        }
    }
    qp_reply_error(answer, http_status, quipu_status_name(status),
                   error->message[0] != '\0' ? error->message : quipu_status_text(status));
}

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

quipu_str qp_call_text(const qp_call *call, const char *name)
{
    return qp_http_parameter(call->request, name);
}

bool qp_call_flag(const qp_call *call, const char *name)
{
    return quipu_str_eq(qp_call_text(call, name), QUIPU_STR("true"));
}

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

bool qp_call_time(const qp_call *call, const char *name, quipu_time *ret_time)
{
    quipu_str text = qp_call_text(call, name);

    return text.n > 0 && quipu_time_parse(text, ret_time) == QUIPU_OK;
}

/* ---- scope ----------------------------------------------------------------------------------- */

bool qp_call_may_read(const qp_call *call)
{
    return call->identity != NULL && (call->identity->verbs & QUIPU_TOKEN_READ) != 0;
}

bool qp_call_is_scoped(const qp_call *call)
{
    return call->identity != NULL &&
           (call->identity->app_name.p != NULL || call->identity->user_id.p != NULL);
}

static bool call_covers(quipu_str scope, quipu_str name)
{
    return scope.p == NULL || quipu_str_eq(scope, name);
}

quipu_status qp_call_session(qp_call *call, quipu_history **ret_history, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.flags = QUIPU_RANGE_HEADER;
    status = quipu_session_get(call->store, call->key, &range, &call->limits, &history, reterr);
    if (qp_call_is_scoped(call) &&
        (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED ||
         (status == QUIPU_OK &&
          (!call_covers(call->identity->app_name, history->session->app_name) ||
           !call_covers(call->identity->user_id, history->session->user_id))))) {
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

/* Takes an escaped name off the front of a key, and the slash behind it. */
static bool call_take_name(quipu_str *key, quipu_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        const quipu_str byte = name.p[i] == '/'   ? QUIPU_STR("%2F")
                               : name.p[i] == '%' ? QUIPU_STR("%25")
                                                  : (quipu_str){name.p + i, 1};

        if (key->n < byte.n || memcmp(key->p, byte.p, byte.n) != 0) {
            return false;
        }
        *key = (quipu_str){key->p + byte.n, key->n - byte.n};
    }
    if (key->n == 0 || key->p[0] != '/') {
        return false;
    }
    *key = (quipu_str){key->p + 1, key->n - 1};
    return true;
}

quipu_status qp_call_check_new_key(const qp_call *call, quipu_str key, quipu_str app_name,
                                   quipu_str user_id, quipu_error *reterr)
{
    const quipu_str head = QUIPU_STR("adk:");
    quipu_str rest = {NULL, 0};

    if (!qp_call_is_scoped(call) || key.n < head.n || memcmp(key.p, head.p, head.n) != 0) {
        return QUIPU_OK;
    }
    rest = (quipu_str){key.p + head.n, key.n - head.n};
    if (call_take_name(&rest, app_name) && call_take_name(&rest, user_id) && rest.n > 0 &&
        memchr(rest.p, '/', rest.n) == NULL) {
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_INVALID,
                        "a key that begins with \"adk:\" names an app and a user, and these are "
                        "not the session's");
}
