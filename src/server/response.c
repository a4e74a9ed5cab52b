/* The head of an answer. Every header comes from here: nothing of a request, and nothing of a
 * store, is ever written into a head, so that no text can add a header or end the head.
 *
 * Owns: the table of reasons and the policies. Called by: conn.c and stream.c, on the loop's
 * thread. Locks: none. Holds on return: the output has a whole head, and the body follows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "server/conn.h"
#include "server/page.h"

#define RESPONSE_DATE_SIZE 32
#define RESPONSE_HTTPS_ONLY_S 31536000 /* a year: how long a browser uses HTTPS alone */

/* What a browser may do with an answer: nothing, for it is data... */
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

/* "Mon, 16 Nov 2026 16:53:21 GMT", from the library's own calendar: 1970-01-01 was a Thursday. */
static void response_date(quipu_time now, char ret_date[RESPONSE_DATE_SIZE])
{
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char text[QUIPU_TIME_TEXT_SIZE];
    int month;

    if (quipu_time_format(now, text) != QUIPU_OK) {
        ret_date[0] = '\0';
        return;
    }
    month = (text[5] - '0') * 10 + (text[6] - '0') - 1;
    /* Positions in "2026-11-16T16:53:21...": the year at 0, the day at 8, the time at 11. */
    (void)snprintf(ret_date, RESPONSE_DATE_SIZE, "%.3s, %.2s %.3s %.4s %.8s GMT",
                   days + 3 * (size_t)(now.s / 86400 % 7), text + 8,
                   months + 3 * (size_t)(month >= 0 && month < 12 ? month : 0), text, text + 11);
}

/* "no-store": answers are conversations, and no cache may keep them. Files of the page are the same
 * for all, and are asked for again by their ETag. A 204 and a 304 have no body, and so no length.
 * The length of a stream (-1) is unknown: the end of the connection is its end. */
void qp_conn_write_head(qp_conn *conn, const qp_reply *answer, int64_t size)
{
    struct evbuffer *output = bufferevent_get_output(conn->bev);
    char date[RESPONSE_DATE_SIZE];

    response_date(quipu_time_now(), date);
    /* What every answer has. "nosniff": a browser must not guess that a text is a script. */
    (void)evbuffer_add_printf(output,
                              "HTTP/1.1 %d %s\r\nDate: %s\r\nCache-Control: %s\r\n"
                              "Content-Security-Policy: %s\r\n"
                              "X-Content-Type-Options: nosniff\r\n",
                              answer->status, response_reason(answer->status), date,
                              answer->asset != NULL ? "no-cache" : "no-store",
                              answer->asset != NULL ? RESPONSE_PAGE_POLICY : RESPONSE_POLICY);
    if (answer->asset != NULL) {
        (void)evbuffer_add_printf(output,
                                  "ETag: %s\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n"
                                  "Referrer-Policy: no-referrer\r\n"
                                  "Cross-Origin-Opener-Policy: same-origin\r\n",
                                  answer->asset->etag);
    }
    /* Only under the name that clients call it by: a browser would ask every other server of
     * "localhost" by HTTPS, too. */
    if (conn->server->tls != NULL && conn->server->public_host[0] != '\0') {
        (void)evbuffer_add_printf(output, "Strict-Transport-Security: max-age=%d\r\n",
                                  RESPONSE_HTTPS_ONLY_S);
    }
    if (answer->status != 204 && answer->status != 304) {
        (void)evbuffer_add_printf(output, "Content-Type: %s\r\n", answer->type);
        if (size >= 0) {
            (void)evbuffer_add_printf(output, "Content-Length: %" PRId64 "\r\n", size);
        }
    }
    if (answer->status == 401) {
        (void)evbuffer_add_printf(output, "WWW-Authenticate: Bearer\r\n");
    }
    if (answer->status == 503) {
        (void)evbuffer_add_printf(output, "Retry-After: %d\r\n", QP_RETRY_AFTER_S);
    }
    if (answer->allow[0] != '\0') {
        (void)evbuffer_add_printf(output, "Allow: %s\r\n", answer->allow);
    }
    if (conn->closes) {
        (void)evbuffer_add_printf(output, "Connection: close\r\n");
    }
    (void)evbuffer_add(output, "\r\n", 2);
}
