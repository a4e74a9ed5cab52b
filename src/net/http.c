/* Exchanges over libcurl. Each exchange has a multi handle of its own, which keeps its
 * connections for the next exchange.
 *
 * Owns: handles in the pool's idle list.
 * Called by: providers and remote stores, from any thread.
 * Locks: pool->mutex guards the idle list only, and is never held during an exchange. Why a multi
 * handle: its poll can be interrupted every HTTP_SLICE_MS to check the cancel flag and the
 * timeouts, which curl_easy_perform() cannot.
 * On return the exchange has ended and its handle is back in the pool, or freed. */
#include "net/http.h"

#include <assert.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/str.h"
#include "net/libcurl.h"

/* How often a waiting exchange checks cancel flag and timeouts: 50 wake-ups a second cost little,
 * and a cancelled call ends at once for a person. */
#define HTTP_SLICE_MS 20
#define HTTP_MS_PER_S 1000
/* More than thirty years: beyond it a number is a mistake. */
#define HTTP_RETRY_AFTER_S_MAX 1000000000

/* A multi handle with its connections, and the easy handle that uses it. */
typedef struct qp_http_line {
    CURLM *multi; /* owns the connections */
    CURL *easy;   /* of one exchange at a time; its options are reset after it */
    struct qp_http_line *next;
} qp_http_line;

/* One exchange under way. */
typedef struct http_run {
    /* The caller's; both live until the exchange has ended. */
    const qp_http_request *request;
    qp_http_answer *answer;
    CURL *easy;
    quipu_status status; /* what the callback returned last */
    quipu_error *reterr;
    int64_t began_ns;
    int64_t heard_ns; /* time of the last byte; 0: none yet */
    char problem[CURL_ERROR_SIZE];
} http_run;

/* Connections are kept for the next request. The lock is the pool's own, so that any thread may ask
 * at any time. */
quipu_status qp_http_pool_init(qp_http_pool *pool, quipu_error *reterr)
{
    quipu_status status = qp_libcurl_load(reterr);

    *pool = (qp_http_pool){.count = 0};
    if (status == QUIPU_OK && qp_mutex_init(&pool->mutex) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for connections");
    }
    return status;
}

/* NULL is fine.
 * The easy handle first: it must not be in a multi handle that is gone. */
static void http_line_free(qp_http_line *line)
{
    if (line != NULL) {
        curl_easy_cleanup(line->easy);
        (void)curl_multi_cleanup(line->multi);
        qp_free(line);
    }
}

/* No exchange may be running: the idle list is taken without the lock. */
void qp_http_pool_done(qp_http_pool *pool)
{
    while (pool->idle != NULL) {
        qp_http_line *line = pool->idle;

        pool->idle = line->next;
        http_line_free(line);
    }
    qp_mutex_done(&pool->mutex);
}

/* An idle line, else a new one; NULL when memory is short. The newest idle line first: its
 * connection is the most likely to be alive. */
static qp_http_line *http_line_take(qp_http_pool *pool)
{
    qp_http_line *line;

    qp_mutex_lock(&pool->mutex);
    line = pool->idle;
    if (line != NULL) {
        pool->idle = line->next;
        pool->count--;
    }
    qp_mutex_unlock(&pool->mutex);
    if (line != NULL) {
        return line;
    }
    line = qp_calloc(1, sizeof(*line));
    if (line == NULL) {
        return NULL;
    }
    line->multi = curl_multi_init();
    line->easy = curl_easy_init();
    if (line->multi == NULL || line->easy == NULL) {
        http_line_free(line);
        return NULL;
    }
    return line;
}

/* Returns a line to the idle list, or frees it when QP_HTTP_IDLE_MAX are there. Freed outside of
 * the lock: closing TLS connections takes time. */
static void http_line_give(qp_http_pool *pool, qp_http_line *line)
{
    curl_easy_reset(line->easy); /* clears the key; connections stay with the multi handle */
    qp_mutex_lock(&pool->mutex);
    if (pool->count < QP_HTTP_IDLE_MAX) {
        line->next = pool->idle;
        pool->idle = line;
        pool->count++;
        line = NULL;
    }
    qp_mutex_unlock(&pool->mutex);
    http_line_free(line);
}

/* libcurl's write callback. Returning less than it was given makes libcurl end the exchange. May
 * come many times with few bytes; each goes on at once, for the user waits for the first word. */
static size_t http_on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    http_run *run = ctx;
    long code = 0;

    run->heard_ns = qp_clock_ns();
    if (curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &code) == CURLE_OK) {
        run->answer->http_status = (int)code;
    }
    /* From now on a retry could deliver text twice, so client.c does not retry. */
    run->answer->bytes = true;
    run->status = run->request->on_bytes(run->request->ctx, run->answer->http_status,
                                         (quipu_str){bytes, size * count}, run->reterr);
    return run->status == QUIPU_OK ? size * count : 0;
}

/* The value of the header `name` without surrounding blanks; absent when the line is another
 * header. Names have no case. */
static quipu_str http_header(quipu_str line, const char *name)
{
    size_t n = strlen(name);

    if (line.n <= n || strncasecmp(line.p, name, n) != 0 || line.p[n] != ':') {
        return QP_STR_ABSENT;
    }
    line = (quipu_str){line.p + n + 1, line.n - n - 1};
    while (line.n > 0 && (line.p[0] == ' ' || line.p[0] == '\t')) {
        line = (quipu_str){line.p + 1, line.n - 1};
    }
    while (line.n > 0 && (unsigned char)line.p[line.n - 1] <= ' ') {
        line.n--;
    }
    return line;
}

/* A whole number at the beginning; -1 when there is none or it is absurdly large. The limit keeps
 * the multiplication by 1000 within 64 bits.
 * Further digits behind the limit make the text no number. */
static int64_t http_digits(quipu_str text)
{
    int64_t value = 0;
    size_t i = 0;

    while (i < text.n && text.p[i] >= '0' && text.p[i] <= '9' && value < HTTP_RETRY_AFTER_S_MAX) {
        value = value * 10 + (text.p[i++] - '0');
    }
    /* A fraction is cut off: some servers send "1.5". */
    return i > 0 && (i == text.n || text.p[i] == '.') ? value : -1;
}

/* Seconds, or an HTTP date relative to this machine's clock; a date in the past is 0. */
int64_t qp_http_retry_after(quipu_str value)
{
    char text[64];
    int64_t seconds = http_digits(value);
    int64_t now = quipu_time_now().s;
    time_t date;

    if (seconds >= 0) {
        return seconds * HTTP_MS_PER_S;
    }
    if (value.n == 0 || value.n >= sizeof(text)) {
        return -1;
    }
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    date = curl_getdate(text, NULL);
    if (date == (time_t)-1) {
        return -1;
    }
    return (int64_t)date > now ? ((int64_t)date - now) * HTTP_MS_PER_S : 0;
}

/* retry-after-ms is more exact and wins over retry-after, in either order. Called for each header
 * line, also those of an intermediate 1xx answer. */
static size_t http_on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    http_run *run = ctx;
    quipu_str line = {bytes, size * count};
    quipu_str value = http_header(line, "retry-after-ms");
    int64_t ms;

    if (value.p != NULL) {
        ms = http_digits(value);
        run->answer->retry_after_ms = ms >= 0 ? ms : run->answer->retry_after_ms;
    }
    value = http_header(line, "retry-after");
    if (value.p != NULL && run->answer->retry_after_ms < 0) {
        run->answer->retry_after_ms = qp_http_retry_after(value);
    }
    return line.n;
}

/* All options of one exchange. Redirects are not followed, since they could carry the key
 * elsewhere; certificates are always verified. The body is not copied: it outlives the exchange. */
static CURLcode http_setup(const qp_http_pool *pool, http_run *run, struct curl_slist *headers)
{
    const qp_http_request *request = run->request;
    CURL *easy = run->easy;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, request->url);

#define HTTP_SET(option, value)                                                                    \
    code = code == CURLE_OK ? curl_easy_setopt(easy, (option), (value)) : code
    /* No signals: this is a library in a program with threads of its own. */
    HTTP_SET(CURLOPT_NOSIGNAL, 1L);
    HTTP_SET(CURLOPT_PROTOCOLS_STR, "http,https");
    HTTP_SET(CURLOPT_FOLLOWLOCATION, 0L);
    /* A session's key may be "." or "..": resolved in the path, it would name something else. */
    HTTP_SET(CURLOPT_PATH_AS_IS, 1L);
    HTTP_SET(CURLOPT_SSL_VERIFYPEER, 1L);
    HTTP_SET(CURLOPT_SSL_VERIFYHOST, 2L);
    HTTP_SET(CURLOPT_HTTPHEADER, headers);
    HTTP_SET(CURLOPT_ERRORBUFFER, run->problem);
    HTTP_SET(CURLOPT_WRITEFUNCTION, http_on_bytes);
    HTTP_SET(CURLOPT_WRITEDATA, run);
    HTTP_SET(CURLOPT_HEADERFUNCTION, http_on_header);
    HTTP_SET(CURLOPT_HEADERDATA, run);
    HTTP_SET(CURLOPT_USERAGENT, "quipu/" QUIPU_VERSION_TEXT);
    /* 0 would mean libcurl's own five minutes. */
    HTTP_SET(CURLOPT_CONNECTTIMEOUT_MS,
             request->connect_ms < 0 ? (long)INT32_MAX : (long)request->connect_ms);
    /* Otherwise the certificates of the system. */
    if (pool->ca_file != NULL) {
        HTTP_SET(CURLOPT_CAINFO, pool->ca_file);
    }
    if (pool->direct) {
        HTTP_SET(CURLOPT_PROXY, "");
    }
    if (pool->unix_path != NULL) {
        HTTP_SET(CURLOPT_UNIX_SOCKET_PATH, pool->unix_path);
    }
    if (request->body.p != NULL) {
        HTTP_SET(CURLOPT_POST, 1L);
        HTTP_SET(CURLOPT_POSTFIELDS, request->body.p);
        HTTP_SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.n);
    }
    if (request->method != NULL) {
        HTTP_SET(CURLOPT_CUSTOMREQUEST, request->method);
    }
#undef HTTP_SET
    return code;
}

/* QUIPU_OK, or why the exchange must not wait any longer. Without any byte the first-byte timeout
 * applies, afterwards the idle timeout. Called at least every HTTP_SLICE_MS while nothing happens.
 * The order decides which reason is reported where several apply. */
static quipu_status http_check(const http_run *run)
{
    const qp_http_request *request = run->request;
    int64_t now = qp_clock_ns();
    int64_t quiet_ms = (now - (run->heard_ns != 0 ? run->heard_ns : run->began_ns)) / QP_NS_PER_MS;

    if (qp_cancel_is_set(request->cancel)) {
        return qp_error_set(run->reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    if (now >= request->deadline_ns) {
        return qp_error_set(run->reterr, QUIPU_BUSY, "the server did not finish by the deadline");
    }
    if (run->heard_ns == 0 && request->first_byte_ms >= 0 && quiet_ms > request->first_byte_ms) {
        return qp_error_set(run->reterr, QUIPU_IO, "no byte of an answer came in %d ms",
                            (int)request->first_byte_ms);
    }
    if (run->heard_ns != 0 && request->idle_ms >= 0 && quiet_ms > request->idle_ms) {
        return qp_error_set(run->reterr, QUIPU_IO, "the answer stopped for more than %d ms",
                            (int)request->idle_ms);
    }
    return QUIPU_OK;
}

/* The outcome of an exchange. The callback's own error comes first: libcurl only knows that the
 * write failed. libcurl's own text names hosts and never headers. */
static quipu_status http_result(const http_run *run, CURLcode code)
{
    if (run->status != QUIPU_OK) {
        return run->status; /* the callback has set the error */
    }
    if (code == CURLE_OK) {
        return QUIPU_OK;
    }
    if (code == CURLE_OUT_OF_MEMORY) {
        return qp_error_set(run->reterr, QUIPU_NOMEM, "out of memory");
    }
    (void)qp_error_set(run->reterr, QUIPU_IO, "%s",
                       run->problem[0] != '\0' ? run->problem : curl_easy_strerror(code));
    if (run->reterr != NULL) {
        run->reterr->engine_code = (int32_t)code;
    }
    return QUIPU_IO;
}

/* Drives the exchange to its end. curl_multi_poll() also returns early when the socket is ready. */
static quipu_status http_loop(http_run *run, CURLM *multi)
{
    quipu_status status = QUIPU_OK;
    int running = 1;

    /* perform() moves what is possible without waiting; poll() waits for the socket, at most a
     * slice. */
    while (running > 0 && status == QUIPU_OK) {
        CURLMcode code = curl_multi_perform(multi, &running);

        if (code == CURLM_OK && running > 0) {
            code = curl_multi_poll(multi, NULL, 0, HTTP_SLICE_MS, NULL);
        }
        if (code != CURLM_OK) {
            return qp_error_set(run->reterr, QUIPU_IO, "%s", curl_multi_strerror(code));
        }
        status = running > 0 ? http_check(run) : QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        int left = 0;
        CURLMsg *message = curl_multi_info_read(multi, &left);

        assert(message != NULL && message->msg == CURLMSG_DONE);
        status = http_result(run, message->data.result);
    }
    return status;
}

/* Whether there was a connection: without one, the server has seen nothing of the request.
 * true where libcurl does not say: the safe answer for a write. */
static bool http_has_connected(CURL *easy)
{
    long sent = 0;

    return curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent) != CURLE_OK || sent > 0;
}

/* One exchange, without retries. The line returns to the pool whatever happens. *ret_answer is
 * filled in also on failure: the status and `bytes` decide about a retry. */
quipu_status qp_http_run(qp_http_pool *pool, const qp_http_request *request,
                         qp_http_answer *ret_answer, quipu_error *reterr)
{
    qp_http_line *line = http_line_take(pool);
    struct curl_slist *headers = NULL;
    http_run run = {.request = request, .answer = ret_answer, .reterr = reterr};
    quipu_status status = QUIPU_OK;
    long code = 0;

    *ret_answer = (qp_http_answer){.retry_after_ms = -1};
    if (line == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    /* The list is built anew for each exchange, and freed behind it. */
    for (size_t i = 0; i < request->header_count && status == QUIPU_OK; i++) {
        struct curl_slist *more = curl_slist_append(headers, request->headers[i]);

        status = more != NULL ? QUIPU_OK : QUIPU_NOMEM;
        headers = more != NULL ? more : headers;
    }
    run.easy = line->easy;
    run.began_ns = qp_clock_ns();
    if (status != QUIPU_OK || http_setup(pool, &run, headers) != CURLE_OK ||
        curl_multi_add_handle(line->multi, line->easy) != CURLM_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "the request could not be set up");
        goto done;
    }
    status = http_loop(&run, line->multi);
    if (curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, &code) == CURLE_OK) {
        ret_answer->http_status = (int)code;
    }
    /* Decides whether a write that got no answer may have happened. */
    ret_answer->was_sent = run.heard_ns != 0 || http_has_connected(line->easy);
    (void)curl_multi_remove_handle(line->multi, line->easy);

/* The easy handle is out of the multi handle here, or was never added. */
done:
    curl_slist_free_all(headers);
    http_line_give(pool, line);
    return status;
}

/* for callers that only want to know whether libcurl is there, and which. */
const char *qp_http_library(void)
{
    quipu_error ignored;

    return qp_libcurl_load(&ignored) == QUIPU_OK ? curl_version() : "no libcurl";
}
