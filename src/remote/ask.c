/* One request to a server of quipu, sent until its outcome is known (remote.h).
 *
 *   send ─▶ answer ─▶ good: done
 *    ▲        ├─ 503, nothing was done ──────────┐
 *    │        └─ another status: the server's,   │
 *    │           or UNKNOWN behind a lost answer │
 *    ├─ no connection: it has seen nothing ──────┤
 *    │  connection lost ─ repeatable ────────────┤
 *    │                  └ a write: UNKNOWN       │
 *    └──── pause, while the call has time ◀──────┘
 *
 * Owns: nothing but the request. Called by: this room, from any thread. No locks. Sends again after
 * a lost connection or a 503: reads, unless bytes were handed on (`once`); writes whose repeat
 * changes nothing (`repeatable`: appends, which all have event ids, and deletes of sessions); other
 * writes (create, fork, update, artifacts, compaction) only when the server has not seen them, or
 * says by 503 that it did nothing. All other answers of the server are final. UNKNOWN means that
 * the write may be stored or not, and that this call cannot find out: the caller reads, or repeats
 * with the same ids. This file makes it for writes only. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/str.h"
#include "base/thread.h"
#include "remote/remote.h"

#define ASK_RETRY_MS 5000   /* how long a server may be down: it restarts */
#define ASK_PAUSE_MS 20     /* before another try, and as much again by chance */
#define ASK_CONNECT_MS 5000 /* for a connection */
#define ASK_ERROR_SHOWN 300 /* bytes of a server's message */

/* ---- the request ----------------------------------------------------------------------------- */

/* Everything but letters, digits and "-._~" is escaped (RFC 3986, 2.3), so that a slash of a key
 * stays within its segment.
 * A NUL is escaped, too: strchr() would find it at the end of `plain`. */
static void ask_escape(qp_buf *url, quipu_str text)
{
    static const char plain[] = "-._~";

    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            (c != '\0' && strchr(plain, c) != NULL)) {
            qp_buf_putc(url, c);
        } else {
            qp_buf_printf(url, "%%%02X", (unsigned)(unsigned char)c);
        }
    }
}

/* The URL grows in a buffer with a limit; a request that becomes too long is refused by
 * qp_remote_run(), which is the one place that looks. A segment that no path can carry only sets a
 * flag: what it names does not exist at a server, and the caller knows what that means for its
 * call. */
void qp_remote_begin(qp_remote_ask *ask, void *server, const qp_call *call, const char *method,
                     const quipu_str *segments, size_t count)
{
    *ask = (qp_remote_ask){.server = server, .call = call, .method = method};
    qp_buf_init(&ask->url, QP_REMOTE_URL_MAX);
    qp_buf_init(&ask->body, QP_REMOTE_BODY_MAX);
    qp_buf_init(&ask->answer, QP_REMOTE_ANSWER_MAX);
    qp_json_init(&ask->doc);
    qp_buf_puts(&ask->url, ask->server->base);
    qp_buf_puts(&ask->url, "/v1");
    for (size_t i = 0; i < count; i++) {
        qp_buf_putc(&ask->url, '/');
        ask_escape(&ask->url, segments[i]);
        ask->no_place = ask->no_place || !qp_text_is_segment(segments[i]);
    }
}

/* Runs after a failure, too: every part is empty or valid from qp_remote_begin() on. */
void qp_remote_end(qp_remote_ask *ask)
{
    qp_json_free(&ask->doc);
    qp_buf_free(&ask->answer);
    qp_buf_free(&ask->body);
    qp_buf_free(&ask->url);
}

/* A present text without bytes is sent as "name=": for a filter, an empty app is another thing than
 * any app. */
void qp_remote_text(qp_remote_ask *ask, const char *name, quipu_str value)
{
    if (value.p != NULL) {
        qp_buf_putc(&ask->url, ask->has_query ? '&' : '?');
        qp_buf_puts(&ask->url, name);
        qp_buf_putc(&ask->url, '=');
        ask_escape(&ask->url, value);
        ask->has_query = true;
    }
}

/* Control bytes are not part of words, and a server refuses them in a URL. "q" is begun with an
 * empty text, and the words are escaped behind it byte for byte. */
void qp_remote_words(qp_remote_ask *ask, quipu_str words)
{
    qp_remote_text(ask, "q", QUIPU_STR(""));
    for (size_t i = 0; i < words.n; i++) {
        const bool is_control = (unsigned char)words.p[i] < 0x20 || words.p[i] == 0x7f;

        ask_escape(&ask->url, is_control ? QUIPU_STR(" ") : (quipu_str){words.p + i, 1});
    }
}

/* Larger numbers than the server takes are cut to the largest one: no session has so many messages,
 * so that the answer is the same.
 * 0 is the default of every number and is left out; a 0 that has a meaning is sent as a text. */
void qp_remote_number(qp_remote_ask *ask, const char *name, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld",
                   (long long)(value < QP_REMOTE_NUMBER_MAX ? value : QP_REMOTE_NUMBER_MAX));
    qp_remote_text(ask, name, value != 0 ? quipu_cstr(text) : QP_STR_ABSENT);
}

/* A flag that is not set is left out, as in curl commands of the documentation. */
void qp_remote_flag(qp_remote_ask *ask, const char *name, bool value)
{
    qp_remote_text(ask, name, value ? QUIPU_STR("true") : QP_STR_ABSENT);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Keeps the bytes of an answer, or hands those of a good one on.
 * On the thread of the call. Bytes that were handed on cannot be taken back: from the first one on,
 * the request is not repeated. A body of an error is kept, for its message. */
static quipu_status ask_on_bytes(void *ctx, int http_status, quipu_str bytes, quipu_error *reterr)
{
    qp_remote_ask *ask = ctx;
    quipu_status status;

    if (ask->write != NULL && http_status < 300) {
        ask->once = true;
        status = ask->write(ask->write_ctx, bytes.p, bytes.n);
        return status == QUIPU_OK ? status
                                  : qp_error_set(reterr, status, "the export cannot be written");
    }
    qp_buf_put(&ask->answer, bytes);
    status = qp_buf_status(&ask->answer);
    return status == QUIPU_OK ? status
                              : qp_error_set(reterr, status, "the server's answer is too large");
}

/* The status that a server names; QUIPU_IO for a name that is not known here.
 * QUIPU_OK is not in the list: an error must not become a success by what its body says. */
static quipu_status ask_status_of(qp_json_node name)
{
    static const quipu_status statuses[] = {
        QUIPU_NOT_FOUND, QUIPU_EXISTS,    QUIPU_EXPIRED,     QUIPU_CONFLICT,
        QUIPU_BUSY,      QUIPU_FULL,      QUIPU_UNKNOWN,     QUIPU_INVALID,
        QUIPU_MISUSE,    QUIPU_LIMIT,     QUIPU_NOMEM,       QUIPU_IO,
        QUIPU_CORRUPT,   QUIPU_CANCELLED, QUIPU_UNSUPPORTED, QUIPU_NEWER,
    };

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (qp_json_kind_of(name) == QP_JSON_STRING &&
            qp_json_text_is(name, quipu_cstr(quipu_status_name(statuses[i])))) {
            return statuses[i];
        }
    }
    return QUIPU_IO;
}

/* Copies a short text of an error, cut at a whole character; a member that is missing is "". */
static void ask_take_name(qp_json_node error, const char *name, quipu_arena *arena, char *to,
                          size_t size)
{
    bool good = true;
    const quipu_str text = qp_answer_text(error, name, arena, &good);
    const size_t n = good ? qp_utf8_cut(text, size - 1) : 0;

    if (n > 0) {
        memcpy(to, text.p, n);
    }
    to[n] = '\0';
}

/* An answer of an error: {"error":{"status":...,"message":...}}, with the field that is wrong.
 * Without such a body, as from a proxy, the status is QUIPU_IO and the text has the number of HTTP.
 * */
static quipu_status ask_failure(qp_remote_ask *ask, int http_status, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str message = QP_STR_ABSENT;
    quipu_status status = QUIPU_IO;
    quipu_error field = {0};
    qp_json_node error;

    if (qp_json_parse(&ask->doc, qp_buf_str(&ask->answer), NULL, NULL) == QUIPU_OK) {
        error = qp_json_get(qp_json_root(&ask->doc), QUIPU_STR("error"));
        status = ask_status_of(qp_json_get(error, QUIPU_STR("status")));
        if (qp_json_text_copy(qp_json_get(error, QUIPU_STR("message")), &arena, &message) !=
            QUIPU_OK) {
            message = QP_STR_ABSENT; /* the status says enough */
        }
        ask_take_name(error, "entity", &arena, field.entity, sizeof(field.entity));
        ask_take_name(error, "field", &arena, field.field, sizeof(field.field));
        ask_take_name(error, "rule", &arena, field.rule, sizeof(field.rule));
    }
    (void)qp_error_field(reterr, status, field.entity, field.field, field.rule, "%.*s (HTTP %d)",
                         (int)qp_utf8_cut(message, ASK_ERROR_SHOWN),
                         message.p != NULL ? message.p : "", http_status);
    quipu_arena_free(&arena);
    return status;
}

/* A write whose answer is garbled has happened. To call it failed would make a caller write again
 * under other ids. */
quipu_status qp_remote_unread(const qp_remote_ask *ask, quipu_error *reterr)
{
    return ask->writes ? qp_error_set(reterr, QUIPU_UNKNOWN,
                                      "the server did it, and its answer cannot be read: repeat "
                                      "with the same event ids")
                       : qp_remote_malformed(reterr);
}

/* Says what to suspect: a proxy in between, or a server of another version. */
quipu_status qp_remote_malformed(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_IO, "the server's answer is not what this version expects");
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The result of one try. */
typedef struct ask_try {
    quipu_status status;
    bool may_pass; /* another try is safe, and may succeed */
    bool settles;  /* it also says that an earlier try which was lost has stored nothing */
    int64_t wait_ms;
} ask_try;

/* One exchange. Headers that libcurl would add by itself are removed: an Expect header costs a
 * round trip for each append. The body is sent as it lies in the buffer, without a copy. -1: no
 * limit but the deadline of the call; a server may work on a request for long. */
static quipu_status ask_send(qp_remote_ask *ask, qp_http_answer *answer, quipu_error *reterr)
{
    const char *headers[4] = {"Expect:", "Accept: application/json"};
    qp_http_request request = {.url = qp_buf_str(&ask->url).p,
                               .headers = headers,
                               .header_count = 2,
                               .method = ask->method,
                               .deadline_ns = ask->call->deadline_ns,
                               .cancel = ask->call->cancel,
                               .connect_ms = ASK_CONNECT_MS,
                               .first_byte_ms = -1,
                               .idle_ms = -1,
                               .on_bytes = ask_on_bytes,
                               .ctx = ask};

    if (ask->server->auth != NULL) {
        headers[request.header_count++] = ask->server->auth;
    }
    if (ask->body.n > 0) {
        headers[request.header_count++] = "Content-Type: application/json";
        request.body = qp_buf_str(&ask->body);
    }
    qp_buf_reset(&ask->answer);
    return qp_http_run(&ask->server->pool, &request, answer, reterr);
}

/* Whether a refusal follows from the request, or from what is stored: an earlier try of the same
 * request was refused, too, or would have made this one succeed, because ids are looked up first.
 * A token that ended meanwhile, or a disk that failed, says nothing of the earlier try. */
static bool ask_settles(int http_status)
{
    return http_status == 400 || http_status == 404 || http_status == 409 || http_status == 410 ||
           http_status == 413 || http_status == 501;
}

/* Sends once, and judges what came of it.
 * The order of the questions matters: an answer settles more than a lost connection, and whether
 * the request was sent decides between "not done" and UNKNOWN. */
static ask_try ask_once(qp_remote_ask *ask, quipu_error *reterr)
{
    qp_http_answer answer;
    ask_try try = {.status = ask_send(ask, &answer, reterr), .wait_ms = ASK_PAUSE_MS};

    if (try.status == QUIPU_OK && answer.http_status < 300) {
        return try;
    }
    if (try.status == QUIPU_OK) {
        try.status = ask_failure(ask, answer.http_status, reterr);
        try.settles = ask_settles(answer.http_status);
        /* 503: the server says that nothing was done, or that it does not know. */
        try.may_pass =
            answer.http_status == 503 && (try.status != QUIPU_UNKNOWN || ask->repeatable);
        return try;
    }
    if (answer.was_sent && ask->writes) {
        const quipu_status cause = try.status;

        try.status = qp_error_set(reterr, QUIPU_UNKNOWN,
                                  "the server did not answer, and may have done it or not");
        try.may_pass = ask->repeatable && cause == QUIPU_IO;
        return try;
    }
    try.may_pass = try.status == QUIPU_IO && !ask->once;
    return try;
}

/* Whether there is time for another try; waits for it.
 * The pause has a part by chance, so that the clients of a server that restarts do not come at
 * once. */
static bool ask_pause(const qp_remote_ask *ask, const ask_try *try, int64_t began_ns)
{
    int64_t now_ns = qp_clock_ns();
    int64_t end_ns = began_ns + (int64_t)ASK_RETRY_MS * QP_NS_PER_MS;

    end_ns = ask->call->deadline_ns < end_ns ? ask->call->deadline_ns : end_ns;
    if (!try->may_pass || now_ns >= end_ns || qp_cancel_is_set(ask->call->cancel)) {
        return false;
    }
    qp_sleep_jitter((int32_t)try->wait_ms, ASK_PAUSE_MS, end_ns - now_ns);
    return true;
}

/* When a repeat finds nothing, the first try has deleted it. */
static quipu_status ask_outcome(const qp_remote_ask *ask, bool is_unknown, quipu_status status)
{
    return is_unknown && status == QUIPU_NOT_FOUND && ask->deletes ? QUIPU_OK : status;
}

/* The loop of the diagram above. Whether an earlier try may have arrived is remembered over all of
 * them: what the last one came to, an end of the call's time included, is the outcome of the write
 * only where it settles the earlier ones, too. */
quipu_status qp_remote_run(qp_remote_ask *ask, quipu_error *reterr)
{
    const int64_t began_ns = qp_clock_ns();
    quipu_error error = {0};
    bool is_unknown = false;
    ask_try try;

    if (ask->no_place) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "a server has no key with control characters, or with . or .. between "
                            "slashes");
    }
    if (qp_buf_status(&ask->url) != QUIPU_OK || qp_buf_status(&ask->body) != QUIPU_OK) {
        const quipu_status url = qp_buf_status(&ask->url);

        return qp_error_set(reterr, url != QUIPU_OK ? url : qp_buf_status(&ask->body),
                            "the request to the server is too large");
    }
    do {
        error = (quipu_error){0};
        try = ask_once(ask, &error);
        is_unknown = is_unknown || try.status == QUIPU_UNKNOWN;
    } while (try.status != QUIPU_OK && ask_pause(ask, &try, began_ns));
    try.status = ask_outcome(ask, is_unknown, try.status);
    /* An earlier try may have arrived, and none after it said otherwise. */
    if (is_unknown && try.status != QUIPU_OK && !try.settles) {
        return qp_error_set(reterr, QUIPU_UNKNOWN,
                            "the server did not answer, and may have done it or not: repeat with "
                            "the same event ids");
    }
    if (try.status != QUIPU_OK) {
        assert(error.status != QUIPU_OK);
        if (reterr != NULL) {
            *reterr = error;
        }
        return try.status;
    }
    if (ask->answer.n > 0 &&
        qp_json_parse(&ask->doc, qp_buf_str(&ask->answer), NULL, NULL) != QUIPU_OK) {
        return qp_remote_unread(ask, reterr);
    }
    return QUIPU_OK;
}
