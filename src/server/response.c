/* The head of an answer. Every header comes from here: nothing of a request, and nothing of a
 * store, is ever written into a head, so that no text can add a header or end the head.
 *
 * Owns: the table of reasons and the policies. Called by: conn.c and stream.c, on the loop's
 * thread, and on a worker that answers itself. Locks: none. Holds on return: the head is whole, up
 * to its empty line. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/conn.h"
#include "server/page.h"

#define RESPONSE_DATE_SIZE sizeof("ddd, DD MMM YYYY hh:mm:ss GMT")
#define RESPONSE_HTTPS_ONLY_S "31536000" /* a year: how long a browser uses HTTPS alone */

/* Rights of a browser with an answer: none, because it is data... */
#define RESPONSE_POLICY "default-src 'none'"
/* ...or, for a file of the page, use the page's other files, ask this server, and show media that
 * the page itself made of data. Texts become elements by textContent alone: Trusted Types forbid
 * every other way. */
#define RESPONSE_PAGE_POLICY                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' blob:; media-src blob:; base-uri 'none'; form-action 'none'; "                 \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

static const struct {
    /* The statuses that conn.c, the reader and the handlers answer with; the library's are mapped
     * to them in call.c. A status that is missing here is sent with the reason "Error". */
    int status;
    const char *reason;
} response_reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Entity"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Supported"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

/* Clients read the number; the text is for people who look at the bytes. */
static const char *response_reason(int status)
{
    for (size_t i = 0; i < sizeof(response_reasons) / sizeof(response_reasons[0]); i++) {
        if (response_reasons[i].status == status) {
            return response_reasons[i].reason;
        }
    }
    return "Error";
}

/* "Mon, 16 Nov 2026 16:53:21 GMT", from the library's own calendar: 1970-01-01 was a Thursday. Put
 * together by hand: every answer has one. */
static void response_date(quipu_time now, char ret_date[RESPONSE_DATE_SIZE])
{
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char text[QUIPU_TIME_TEXT_SIZE];
    int month;

    if (now.s < 0 || quipu_time_format(now, text) != QUIPU_OK) {
        ret_date[0] = '\0';
        return;
    }
    /* Positions in "2026-11-16T16:53:21...": the year at 0, the day at 8, the time at 11. */
    month = (text[5] - '0') * 10 + (text[6] - '0') - 1;
    memcpy(ret_date, "ddd, DD MMM YYYY hh:mm:ss GMT", RESPONSE_DATE_SIZE);
    memcpy(ret_date, days + 3 * (size_t)(now.s / 86400 % 7), 3);
    memcpy(ret_date + 5, text + 8, 2);
    memcpy(ret_date + 8, months + 3 * (size_t)(month >= 0 && month < 12 ? month : 0), 3);
    memcpy(ret_date + 12, text, 4);
    memcpy(ret_date + 17, text + 11, 8);
}

/* Texts of the tables above and of this file: they fit, whatever is answered. */
static void response_put(qp_head *head, const char *text)
{
    const size_t n = strlen(text);

    assert(head->n + n <= sizeof(head->text));
    memcpy(head->text + head->n, text, n);
    head->n += n;
}

/* A whole header line. */
static void response_line(qp_head *head, const char *name, const char *value)
{
    response_put(head, name);
    response_put(head, ": ");
    response_put(head, value);
    response_put(head, "\r\n");
}

/* The same with a number. */
static void response_number(qp_head *head, const char *name, int64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%" PRId64, value);
    response_line(head, name, digits);
}

/* Headers of some answers alone. */
static void response_put_some(const qp_server *server, const qp_reply *answer, qp_head *head)
{
    if (answer->asset != NULL) {
        response_line(head, "ETag", answer->asset->etag);
        response_line(head, "Vary", "Accept-Encoding");
        response_line(head, "Content-Encoding", "gzip");
        response_line(head, "Referrer-Policy", "no-referrer");
        response_line(head, "Cross-Origin-Opener-Policy", "same-origin");
    }
    /* Only under the name that clients call it by: a browser would ask every other server of
     * "localhost" by HTTPS, too. */
    if (server->tls != NULL && server->public_host[0] != '\0') {
        response_line(head, "Strict-Transport-Security", "max-age=" RESPONSE_HTTPS_ONLY_S);
    }
    if (answer->status == 401) {
        response_line(head, "WWW-Authenticate", "Bearer");
    }
    if (answer->status == 503) {
        response_number(head, "Retry-After", QP_RETRY_AFTER_S);
    }
    if (answer->allow[0] != '\0') {
        response_line(head, "Allow", answer->allow);
    }
}

/* "no-store": answers are conversations, and no cache may keep them. Files of the page are the same
 * for all, and are asked for again by their ETag. A 204 and a 304 have no body, and so no length.
 * The length of a stream (-1) is unknown: the end of the connection is its end. */
void qp_conn_head(const qp_conn *conn, int64_t size, qp_head *ret_head)
{
    const qp_reply *answer = &conn->call.answer;
    const bool is_page = answer->asset != NULL;
    char date[RESPONSE_DATE_SIZE];
    char status[8];

    response_date(quipu_time_now(), date);
    ret_head->n = 0;
    (void)snprintf(status, sizeof(status), "%03d ", answer->status % 1000);
    response_put(ret_head, "HTTP/1.1 ");
    response_put(ret_head, status);
    response_put(ret_head, response_reason(answer->status));
    response_put(ret_head, "\r\n");
    /* The headers of every answer. "nosniff": a browser must not guess that a text is a script. */
    response_line(ret_head, "Date", date);
    response_line(ret_head, "Cache-Control", is_page ? "no-cache" : "no-store");
    response_line(ret_head, "Content-Security-Policy",
                  is_page ? RESPONSE_PAGE_POLICY : RESPONSE_POLICY);
    response_line(ret_head, "X-Content-Type-Options", "nosniff");
    response_put_some(conn->server, answer, ret_head);
    if (answer->status != 204 && answer->status != 304) {
        response_line(ret_head, "Content-Type", answer->type);
        if (size >= 0) {
            response_number(ret_head, "Content-Length", size);
        }
    }
    if (conn->closes) {
        response_line(ret_head, "Connection", "close");
    }
    response_put(ret_head, "\r\n");
}
