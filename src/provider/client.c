/* A provider over HTTP: writes the request, sends it, retries where that is safe, reads the answer.
 *
 *   write body ─▶ try ─▶ answer ─▶ parse ─▶ sink
 *                  ▲       │ 408 409 429 5xx, or no byte came
 *                  └─ pause ◀┘ at most options.retries times, never past the deadline
 *
 * Owns: struct client (address, key, connection pool), freed by the provider's close(). Called by:
 * model/ through quipu_provider's functions, from any number of threads: the client is immutable
 * after opening, and only the pool has a lock. Secrets: the key is in `key` and `auth` only, is
 * overwritten on close, and is masked in every error text. */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include <quipu/provider.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/option.h"
#include "base/thread.h"
#include "base/uuid.h"
#include "net/http.h"
#include "provider/key.h"
#include "provider/wire.h"

/* More than any provider needs. */
#define CLIENT_URL_MAX 8192
#define CLIENT_HEADERS_MAX 6
#define CLIENT_HTTP_ERROR 400
#define CLIENT_SLICE_MS 20 /* how often a pause checks its cancel flag */

/* An open provider. Constant after quipu_provider_open(), except for the pool, which has its own
 * lock. */
typedef struct client {
    quipu_provider provider; /* returned to the caller; its ctx is this struct */
    const qp_wire *wire;
    quipu_provider_options options;
    qp_http_pool pool;
    qp_buf base_url;
    qp_buf ca_file;
    qp_buf key;
    qp_buf auth; /* the complete header line */
    bool own;    /* base_url is the provider's own, not a compatible server's */
} client;

/* One exchange with its retries. */
typedef struct client_ask {
    client *self;
    quipu_str body; /* absent: GET */
    qp_buf url;
    int64_t deadline_ns;
    int32_t first_byte_ms; /* -1: only the deadline ends the wait */
    quipu_cancel *cancel;
    qp_wire_reader *reader; /* for a stream; NULL: the answer is collected in `whole` */
    bool begun;             /* the first byte was examined */
    bool gather;            /* the answer is one JSON object, whether or not that was asked for */
    qp_buf whole;           /* the answer, or the body of an error */
} client_ask;

/* ---- asking -------------------------------------------------------------------------------- */

/* Receives the body as it arrives. Error bodies are kept up to a limit; streams go to the reader;
 * everything else is collected. Called by http.c on the thread of the request, with at least one
 * byte. */
static quipu_status client_on_bytes(void *ctx, int http_status, quipu_str bytes,
                                    quipu_error *reterr)
{
    client_ask *ask = ctx;

    if (http_status >= CLIENT_HTTP_ERROR) {
        size_t room = QUIPU_PROVIDER_ERROR_MAX - ask->whole.n;

        /* Only the beginning is needed: it has the reason. */
        qp_buf_put(&ask->whole, (quipu_str){bytes.p, bytes.n < room ? bytes.n : room});
        return QUIPU_OK;
    }
    /* Some gateways send white space to keep the connection alive while the model works. */
    while (!ask->begun && bytes.n > 0 && strchr(" \t\r\n", bytes.p[0]) != NULL &&
           bytes.p[0] != '\0') {
        bytes = (quipu_str){bytes.p + 1, bytes.n - 1};
    }
    if (bytes.n == 0) {
        return QUIPU_OK;
    }
    if (!ask->begun) {
        /* No event stream begins with '{': the server does not stream, or sends an error with
         * status 200. */
        ask->begun = true;
        ask->gather = ask->reader == NULL || bytes.p[0] == '{';
    }
    /* A stream goes on event by event; everything else is gathered and read as a whole. */
    if (!ask->gather) {
        return qp_wire_feed(ask->reader, bytes, reterr);
    }
    qp_buf_put(&ask->whole, bytes);
    if (qp_buf_status(&ask->whole) != QUIPU_OK) {
        return qp_error_set(reterr, qp_buf_status(&ask->whole),
                            "the answer is larger than %d bytes", QUIPU_PROVIDER_BODY_MAX);
    }
    return QUIPU_OK;
}

/* Statuses that say "try again": a timeout, a conflict, a rate limit, a failing server. 501 stays
 * the same. 4xx otherwise means that the request is wrong, and will be next time.
 * An exchange that broke off without a status is judged by client_try(). */
static bool client_may_retry(int http_status)
{
    return http_status == 408 || http_status == 409 || http_status == 429 ||
           (http_status >= 500 && http_status != 501);
}

/* The pause before attempt `retry`, counted from 1: it doubles each time, minus up to a quarter at
 * random, so that clients that failed together do not return together. At most
 * QUIPU_PROVIDER_RETRY_MS_MAX, whatever the options say. */
static int64_t client_pause_ms(const client *self, int retry)
{
    int64_t ms = self->options.retry_ms;
    uint32_t chance = 0;

    for (int i = 1; i < retry && ms < QUIPU_PROVIDER_RETRY_MS_MAX; i++) {
        /* The loop ends at the limit, so that the product cannot overflow. */
        ms *= 2;
    }
    /* Without randomness the full pause is used. */
    ms = ms < QUIPU_PROVIDER_RETRY_MS_MAX ? ms : QUIPU_PROVIDER_RETRY_MS_MAX;
    if (qp_random(&chance, sizeof(chance)) != QUIPU_OK) {
        chance = 0;
    }
    return ms - (int64_t)(chance % 1000) * (ms / 4) / 1000;
}

/* Sleeps; QUIPU_CANCELLED when the flag was set meanwhile. A condition that nobody signals is the
 * portable timed sleep of base/thread.h; slices make a cancellation take effect within
 * CLIENT_SLICE_MS. */
static quipu_status client_wait(const client_ask *ask, int64_t ms, quipu_error *reterr)
{
    int64_t until = qp_clock_ns() + ms * QP_NS_PER_MS;
    quipu_status status;
    qp_mutex mutex;
    qp_cond cond;

    status = qp_mutex_init(&mutex);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the pause before a retry could not be set up");
    }
    status = qp_cond_init(&cond);
    if (status != QUIPU_OK) {
        qp_mutex_done(&mutex);
        return qp_error_set(reterr, status, "the pause before a retry could not be set up");
    }
    qp_mutex_lock(&mutex);
    while (qp_clock_ns() < until && !qp_cancel_is_set(ask->cancel)) {
        int64_t slice = qp_clock_ns() + CLIENT_SLICE_MS * QP_NS_PER_MS;

        (void)qp_cond_wait_until(&cond, &mutex, slice < until ? slice : until);
    }
    qp_mutex_unlock(&mutex);
    qp_cond_done(&cond);
    qp_mutex_done(&mutex);
    if (qp_cancel_is_set(ask->cancel)) {
        return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    return QUIPU_OK;
}

/* One attempt. *ret_again: another may help; *ret_pause_ms is then the pause that the provider asks
 * for, or -1. An attempt of which any byte of the answer arrived is not repeated: the caller may
 * have seen part of it. */
static quipu_status client_try(client_ask *ask, bool *ret_again, int64_t *ret_pause_ms,
                               quipu_error *reterr)
{
    client *self = ask->self;
    const char *headers[CLIENT_HEADERS_MAX];
    qp_http_answer answer;
    qp_http_request request = {.url = qp_buf_str(&ask->url).p,
                               .headers = headers,
                               .body = ask->body,
                               .deadline_ns = ask->deadline_ns,
                               .cancel = ask->cancel,
                               .connect_ms = self->options.connect_ms,
                               .first_byte_ms = ask->first_byte_ms,
                               .idle_ms = self->options.idle_ms,
                               .on_bytes = client_on_bytes,
                               .ctx = ask};
    quipu_status status;

    /* Headers are the same for every attempt; "Expect:" turns off libcurl's wait for 100
     * Continue. */
    headers[request.header_count++] = "Content-Type: application/json";
    headers[request.header_count++] =
        ask->reader != NULL ? "Accept: text/event-stream" : "Accept: application/json";
    headers[request.header_count++] = "Expect:"; /* no pause before large bodies */
    if (self->auth.n > 0) {
        headers[request.header_count++] = qp_buf_str(&self->auth).p;
    }
    if (self->wire->extra_header != NULL) {
        headers[request.header_count++] = self->wire->extra_header;
    }
    assert(request.header_count <= CLIENT_HEADERS_MAX);
    qp_buf_reset(&ask->whole);
    status = qp_http_run(&self->pool, &request, &answer, reterr);
    *ret_pause_ms = answer.retry_after_ms;
    /* An error body that breaks off is still an error of the provider, not of the network. */
    if (answer.http_status >= CLIENT_HTTP_ERROR && (status == QUIPU_OK || status == QUIPU_IO)) {
        *ret_again = client_may_retry(answer.http_status);
        return qp_wire_error(qp_buf_str(&ask->whole), answer.http_status, reterr);
    }
    *ret_again = status == QUIPU_IO && !answer.bytes;
    if (status == QUIPU_OK && (answer.http_status < 200 || answer.http_status >= 300)) {
        return qp_error_set(reterr, QUIPU_IO,
                            "the provider answered HTTP %d; redirects are not "
                            "followed",
                            answer.http_status);
    }
    return status;
}

/* Whether the pause is reasonable and ends before the deadline. A provider that asks for minutes is
 * not waited for: the caller decides about that. */
static bool client_pause_fits(const client_ask *ask, int64_t pause_ms)
{
    if (pause_ms > QUIPU_PROVIDER_RETRY_AFTER_MS_MAX) {
        return false;
    }
    return ask->deadline_ns == QP_HTTP_NEVER ||
           qp_clock_ns() + pause_ms * QP_NS_PER_MS < ask->deadline_ns;
}

/* Attempts until one succeeds, cannot be repeated, or time runs out. The error is the last
 * attempt's, with the key masked. */
static quipu_status client_ask_run(client_ask *ask, quipu_error *reterr)
{
    quipu_error error = {.status = QUIPU_OK};
    quipu_status status = qp_buf_status(&ask->url);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the provider's address is too long");
    }
    /* The first attempt is not a retry: at most options.retries + 1 attempts. */
    for (int retry = 1;; retry++) {
        bool again = false;
        int64_t asked_ms = -1;
        int64_t pause_ms;

        status = client_try(ask, &again, &asked_ms, &error);
        if (status == QUIPU_OK || !again || retry > ask->self->options.retries) {
            break;
        }
        pause_ms = asked_ms >= 0 ? asked_ms : client_pause_ms(ask->self, retry);
        if (!client_pause_fits(ask, pause_ms)) {
            break;
        }
        if (client_wait(ask, pause_ms, &error) != QUIPU_OK) {
            status = (quipu_status)error.status;
            break;
        }
    }
    if (status != QUIPU_OK) {
        qp_key_hide(qp_buf_str(&ask->self->key), &error);
        if (reterr != NULL) {
            *reterr = error;
        }
    }
    return status;
}

/* Begins an exchange: deadline, cancel flag, and the address up to the path. The deadline is fixed
 * here and covers all attempts and pauses. On failure the ask is usable for client_ask_end() all
 * the same. */
static quipu_status client_ask_begin(client_ask *ask, client *self, const quipu_call_options *call,
                                     quipu_error *reterr)
{
    quipu_call_options given = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status =
        qp_options_read(&given, sizeof(given), call, "quipu_call_options", reterr);
    int32_t ms = given.deadline_ms != 0 ? given.deadline_ms : self->options.deadline_ms;

    *ask = (client_ask){
        .self = self, .first_byte_ms = self->options.first_byte_ms, .cancel = given.cancel};
    qp_buf_init(&ask->url, CLIENT_URL_MAX);
    qp_buf_init(&ask->whole, QUIPU_PROVIDER_BODY_MAX);
    ask->deadline_ns = ms < 0 ? QP_HTTP_NEVER : qp_clock_ns() + (int64_t)ms * QP_NS_PER_MS;
    qp_buf_put(&ask->url, qp_buf_str(&self->base_url));
    return status;
}

/* Frees the ask's buffers; the reader and the body belong to the caller. */
static void client_ask_end(client_ask *ask)
{
    qp_buf_free(&ask->url);
    qp_buf_free(&ask->whole);
}

/* ---- the provider's functions -------------------------------------------------------------- */

/* quipu_provider.generate: deltas go to the sink while they arrive. The body is written once and
 * sent by every attempt. Deltas of a failed attempt never reach the sink: an attempt is repeated
 * only while no byte of an answer has arrived. */
static quipu_status client_generate(void *ctx, const quipu_model_params *params,
                                    const quipu_call_options *call, const quipu_sink *sink,
                                    quipu_error *reterr)
{
    client *self = ctx;
    qp_wire_reader reader;
    client_ask ask;
    qp_jsonw writer;
    qp_buf body;
    quipu_status status = client_ask_begin(&ask, self, call, reterr);

    qp_buf_init(&body, QUIPU_REQUEST_BYTES_MAX);
    qp_wire_reader_init(&reader, self->wire, sink);
    if (status == QUIPU_OK) {
        status = self->wire->path(params, &ask.url, reterr);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &body);
        self->wire->write(params, self->own, &writer);
        status = qp_jsonw_end(&writer);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "the request cannot be written: %s",
                               status == QUIPU_INVALID
                                   ? "a text is not UTF-8 or a number is not finite"
                                   : "it is too large");
        }
    }
    if (status == QUIPU_OK) {
        ask.body = qp_buf_str(&body);
        ask.reader = params->stream ? &reader : NULL;
        /* An answer in one piece is silent while the model thinks. Asking again would begin anew,
         * and cost twice. */
        ask.first_byte_ms = params->stream ? ask.first_byte_ms : -1;
        status = client_ask_run(&ask, reterr);
    }
    if (status == QUIPU_OK && (ask.gather || !params->stream)) {
        status = qp_wire_whole(&reader, qp_buf_str(&ask.whole), reterr);
        qp_key_hide(qp_buf_str(&self->key), status != QUIPU_OK ? reterr : NULL);
    }
    qp_wire_reader_free(&reader);
    qp_buf_free(&body);
    client_ask_end(&ask);
    return status;
}

/* A request whose answer is one JSON object. The document refers to ask->whole, which must outlive
 * it. */
static quipu_status client_object(client_ask *ask, qp_json_doc *doc, quipu_error *reterr)
{
    quipu_status status = client_ask_run(ask, reterr);

    if (status == QUIPU_OK) {
        status = qp_json_parse(doc, qp_buf_str(&ask->whole), NULL, reterr);
        if (status == QUIPU_INVALID) {
            status = qp_error_set(reterr, QUIPU_CORRUPT, "the provider's answer is not JSON");
        }
    }
    if (status == QUIPU_OK && qp_wire_is_error(qp_json_root(doc))) {
        status = qp_wire_error(qp_buf_str(&ask->whole), 0, reterr);
        qp_key_hide(qp_buf_str(&ask->self->key), reterr);
    }
    return status;
}

/* quipu_provider.list: all pages, at most QUIPU_PROVIDER_PAGES_MAX, so that a server cannot keep
 * the client asking. The deadline starts anew with each page. The page's token is copied to the
 * arena by list_read(), and outlives the page. */
static quipu_status client_list(void *ctx, const quipu_call_options *call, quipu_arena *arena,
                                quipu_model_infos *ret_list, quipu_error *reterr)
{
    client *self = ctx;
    qp_wire_list list = {.arena = arena};
    quipu_status status = QUIPU_OK;
    int page = 0;

    do {
        client_ask ask;
        qp_json_doc doc;

        status = client_ask_begin(&ask, self, call, reterr);
        qp_json_init(&doc);
        self->wire->list_path(list.next, &ask.url);
        list.next = (quipu_str){"", 0};
        if (status == QUIPU_OK) {
            status = client_object(&ask, &doc, reterr);
        }
        if (status == QUIPU_OK) {
            status = self->wire->list_read(qp_json_root(&doc), &list);
            if (status != QUIPU_OK) {
                (void)qp_error_set(reterr, status, "no room for the list of models");
            }
        }
        qp_json_free(&doc);
        client_ask_end(&ask);
    } while (status == QUIPU_OK && list.next.n > 0 && ++page < QUIPU_PROVIDER_PAGES_MAX);
    if (status == QUIPU_OK) {
        *ret_list = quipu_model_infos_of(list.items, list.count);
    }
    return status;
}

/* quipu_provider.embed: one request for all texts. */
static quipu_status client_embed(void *ctx, const quipu_embed_request *request,
                                 const quipu_call_options *call, quipu_arena *arena,
                                 quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    client *self = ctx;
    quipu_status status;
    client_ask ask;
    qp_json_doc doc;
    qp_jsonw writer;
    qp_buf body;

    qp_json_init(&doc);
    qp_buf_init(&body, QUIPU_REQUEST_BYTES_MAX);
    status = client_ask_begin(&ask, self, call, reterr);
    if (status == QUIPU_OK) {
        status = self->wire->embed_path(request->model, &ask.url, reterr);
    }
    if (status == QUIPU_OK) {
        qp_jsonw_begin(&writer, &body);
        self->wire->embed_write(request, &writer);
        status = qp_jsonw_end(&writer);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "the texts are too large, or not UTF-8");
        }
    }
    if (status == QUIPU_OK) {
        ask.body = qp_buf_str(&body);
        status = client_object(&ask, &doc, reterr);
    }
    if (status == QUIPU_OK) {
        status = self->wire->embed_read(qp_json_root(&doc), arena, ret_embeddings, reterr);
    }
    qp_json_free(&doc);
    qp_buf_free(&body);
    client_ask_end(&ask);
    return status;
}

/* quipu_provider.close. No call may be running. The pool first: its connections use the certificate
 * file's name. */
static void client_close(void *ctx)
{
    client *self = ctx;

    qp_http_pool_done(&self->pool);
    qp_buf_free(&self->base_url);
    qp_buf_free(&self->ca_file);
    qp_key_forget(&self->key);
    qp_key_forget(&self->auth);
    qp_free(self);
}

/* ---- opening ------------------------------------------------------------------------------- */

/* The table of a format; the only place that lists them all. */
static const qp_wire *client_wire(quipu_provider_kind kind)
{
    switch (kind) {
    case QUIPU_PROVIDER_OPENAI:
        return &qp_wire_openai;
    case QUIPU_PROVIDER_ANTHROPIC:
        return &qp_wire_anthropic;
    case QUIPU_PROVIDER_GEMINI:
        return &qp_wire_gemini;
    }
    return NULL;
}

/* Compares without case: schemes and host names have none. ASCII only, as URLs are. */
static bool client_begins(quipu_str text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.n >= n && strncasecmp(text.p, prefix, n) == 0;
}

/* Whether an http:// address is this machine's loopback: unencrypted traffic does not leave it. The
 * host must end behind the name: "localhost.example.com" is another machine. */
static bool client_is_here(quipu_str url)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    quipu_str host = {url.p + 7, url.n - 7};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);

        if (client_begins(host, names[i]) &&
            (host.n == n || host.p[n] == ':' || host.p[n] == '/')) {
            return true;
        }
    }
    return false;
}

/* No blanks or control characters, and no "user:password@", which would end up in logs. libcurl
 * would accept both. */
static bool client_url_plain(quipu_str url)
{
    for (size_t i = 0; i < url.n; i++) {
        if (url.p[i] <= ' ' || url.p[i] == '@' || url.p[i] == '\x7f') {
            return false;
        }
    }
    return true;
}

/* Copies what the options point to: address, certificate file, and the header with the key. `own`
 * decides about members that only the provider's own servers know. */
static quipu_status client_keep(client *self, quipu_str url, quipu_error *reterr)
{
    self->own = quipu_str_eq(url, quipu_cstr(self->wire->base_url));
    qp_buf_put(&self->base_url, url);
    qp_buf_put(&self->ca_file, self->options.ca_file);
    if (self->key.n > 0) {
        qp_buf_puts(&self->auth, self->wire->auth);
        qp_buf_put(&self->auth, qp_buf_str(&self->key));
    }
    self->pool.ca_file = self->ca_file.n > 0 ? qp_buf_str(&self->ca_file).p : NULL;
    if (qp_buf_status(&self->base_url) != QUIPU_OK || qp_buf_status(&self->ca_file) != QUIPU_OK ||
        qp_buf_status(&self->auth) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_LIMIT, "base_url or ca_file is too long");
    }
    return QUIPU_OK;
}

/* Checks the address. A key is sent over plain http only to this machine, or when
 * QUIPU_PROVIDER_PLAIN allows it. On this machine a proxy is bypassed as well, which would see the
 * key. */
static quipu_status client_address(client *self, quipu_error *reterr)
{
    quipu_str url =
        self->options.base_url.n > 0 ? self->options.base_url : quipu_cstr(self->wire->base_url);
    bool plain = client_begins(url, "http://");

    /* Paths begin with '/', so a trailing one would be doubled. */
    while (url.n > 0 && url.p[url.n - 1] == '/') {
        url.n--;
    }
    if (!plain && !client_begins(url, "https://")) {
        return qp_error_set(reterr, QUIPU_MISUSE, "base_url must begin with https:// or http://");
    }
    if (!client_url_plain(url)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "base_url contains a blank or a user name; use the key option");
    }
    self->pool.direct = plain && client_is_here(url);
    if (plain && self->key.n > 0 && (self->options.flags & QUIPU_PROVIDER_PLAIN) == 0 &&
        !self->pool.direct) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the key would be sent unencrypted; use https://, or set "
                            "QUIPU_PROVIDER_PLAIN");
    }
    return client_keep(self, url, reterr);
}

/* Replaces 0 by the defaults; -1 turns a limit off. Afterwards every value is a number that can be
 * compared, and retries is never negative. */
static quipu_status client_times(quipu_provider_options *options, quipu_error *reterr)
{
    const struct {
        int32_t *value;
        int32_t usual;
    } times[] = {{&options->deadline_ms, QUIPU_PROVIDER_DEADLINE_MS},
                 {&options->connect_ms, QUIPU_PROVIDER_CONNECT_MS},
                 {&options->first_byte_ms, QUIPU_PROVIDER_FIRST_BYTE_MS},
                 {&options->idle_ms, QUIPU_PROVIDER_IDLE_MS},
                 {&options->retries, QUIPU_PROVIDER_RETRIES},
                 {&options->retry_ms, QUIPU_PROVIDER_RETRY_MS}};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (*times[i].value < -1) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "times and retries are numbers, 0 (the default) or -1 (none)");
        }
        *times[i].value = *times[i].value != 0 ? *times[i].value : times[i].usual;
    }
    if (options->retries > QUIPU_PROVIDER_RETRIES_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "at most %d retries", QUIPU_PROVIDER_RETRIES_MAX);
    }
    options->retries = options->retries > 0 ? options->retries : 0;
    options->retry_ms = options->retry_ms > 0 ? options->retry_ms : 0;
    return QUIPU_OK;
}

/* Opens no connection: the first request does. On failure everything is freed, the key
 * overwritten. */
quipu_status quipu_provider_open(quipu_provider_kind kind, const quipu_provider_options *options,
                                 quipu_provider **ret_provider, quipu_error *reterr)
{
    quipu_provider_options init = QUIPU_PROVIDER_OPTIONS_INIT;
    const qp_wire *wire = client_wire(kind);
    quipu_status status;
    client *self;

    if (wire == NULL || ret_provider == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "opening needs a known kind of provider and a place for it");
    }
    self = qp_calloc(1, sizeof(*self));
    if (self == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    self->wire = wire;
    self->options = init;
    qp_buf_init(&self->base_url, CLIENT_URL_MAX / 2);
    qp_buf_init(&self->ca_file, CLIENT_URL_MAX);
    qp_buf_init(&self->key, QUIPU_PROVIDER_KEY_MAX);
    qp_buf_init(&self->auth, QUIPU_PROVIDER_KEY_MAX + 64);
    status = qp_http_pool_init(&self->pool, reterr);
    if (status != QUIPU_OK) {
        qp_free(self);
        return status;
    }
    status = qp_options_read(&self->options, sizeof(self->options), options,
                             "quipu_provider_options", reterr);
    if (status == QUIPU_OK) {
        status = client_times(&self->options, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_key_read(&self->options, wire->key_env, &self->key, reterr);
    }
    if (status == QUIPU_OK) {
        status = client_address(self, reterr);
    }
    if (status != QUIPU_OK) {
        client_close(self);
        return status;
    }
    self->provider = (quipu_provider){.struct_size = (uint32_t)sizeof(quipu_provider),
                                      .ctx = self,
                                      .id = wire->id,
                                      .generate = client_generate,
                                      .list = client_list,
                                      .embed = wire->embed_path != NULL ? client_embed : NULL,
                                      .close = client_close,
                                      .network = qp_http_library()};
    /* The options pointed into the caller's memory; everything that is needed later has been
     * copied. */
    self->options.base_url = self->options.key = self->options.key_file = (quipu_str){NULL, 0};
    self->options.key_env = self->options.ca_file = (quipu_str){NULL, 0};
    *ret_provider = &self->provider;
    return QUIPU_OK;
}
