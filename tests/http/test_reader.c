/* The reader of requests: what it accepts and how it decodes it, what it refuses and with which
 * status, every limit at its maximum and one above, and that the cut of a stream never matters. */
#include "lib/t.h"

#include "http/transcript.h"

#define READER_OUT_MAX ((size_t)1 << 20)
#define READER_BODY_MAX 64

#define HOST "Host: a\r\n"
#define GET(headers) "GET /a HTTP/1.1\r\n" HOST headers "\r\n"
#define POST(headers, body) "POST /a HTTP/1.1\r\n" HOST headers "\r\n" body
#define CHUNKED(body) POST("Transfer-Encoding: chunked\r\n", body)
#define TARGET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

typedef struct reader_case {
    const char *name;
    const char *bytes;
    size_t size;
    quipu_str expected; /* the transcript; of a refusal, its status */
} reader_case;

#define CASE(name, bytes, expected)                                                                \
    {name, bytes, sizeof(bytes) - 1, {expected, sizeof(expected) - 1}}

/* Whether a transcript ends as expected: a refusal is known by its status alone. */
static bool reader_agrees(quipu_str transcript, quipu_str expected)
{
    if (expected.n == 3) {
        return transcript.n > 4 && memcmp(transcript.p, expected.p, 3) == 0 &&
               transcript.p[3] == ' ';
    }
    return quipu_str_eq(transcript, expected);
}

/* Each case whole, and cut in two at every place, and byte by byte. */
static void reader_run(const reader_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        quipu_str bytes = {cases[i].bytes, cases[i].size};
        qp_buf whole;

        qp_buf_init(&whole, READER_OUT_MAX);
        transcript_read(bytes, bytes.n, 1, READER_BODY_MAX, &whole);
        if (!reader_agrees(qp_buf_str(&whole), cases[i].expected)) {
            print_message("%s\n", cases[i].name);
            T_STR(qp_buf_str(&whole), cases[i].expected.p);
        }
        for (size_t cut = 0; cut < bytes.n; cut++) {
            qp_buf pieces;

            qp_buf_init(&pieces, READER_OUT_MAX);
            /* The first time byte by byte, then in two pieces. */
            transcript_read(bytes, cut, cut == 0 ? 1 : bytes.n, READER_BODY_MAX, &pieces);
            assert_true(quipu_str_eq(qp_buf_str(&pieces), qp_buf_str(&whole)));
            qp_buf_free(&pieces);
        }
        qp_buf_free(&whole);
    }
}

static const reader_case reader_good[] = {
    CASE("plain get", GET(""), "GET [a] #host=a keep body<>\nidle"),
    CASE("root", TARGET("/"), "GET  #host=a keep body<>\nidle"),
    CASE("a slash at the end is an empty segment", TARGET("/a/"),
         "GET [a][] #host=a keep body<>\nidle"),
    CASE("an escaped slash is no border", TARGET("/v1/adk%3Aa%2fb/tail"),
         "GET [v1][adk:a/b][tail] #host=a keep body<>\nidle"),
    CASE("UTF-8 in escapes", TARGET("/%C3%A4"), "GET [\xc3\xa4] #host=a keep body<>\nidle"),
    CASE("dots inside of a segment", TARGET("/a..b/...c/.d"),
         "GET [a..b][...c][.d] #host=a keep body<>\nidle"),
    CASE("a query", TARGET("/a?x=1&y=a+b%26&&z"),
         "GET [a] ?x=1 ?y=a b& ?z= #host=a keep body<>\nidle"),
    CASE("a plus in a path stays", TARGET("/a+b"), "GET [a+b] #host=a keep body<>\nidle"),
    CASE("absolute form of this host", "GET http://A:80/b HTTP/1.1\r\nHost: a:80\r\n\r\n",
         "GET [b] #host=a:80 keep body<>\nidle"),
    CASE("names are put into lower case, values trimmed", GET("X-Big: \t a b \t\r\n"),
         "GET [a] #host=a #x-big=a b keep body<>\nidle"),
    CASE("an empty value", GET("X:\r\n"), "GET [a] #host=a #x= keep body<>\nidle"),
    CASE("a body", POST("Content-Length: 3\r\n", "abc"),
         "POST [a] #host=a #content-length=3 keep body<abc>\nidle"),
    CASE("a body holds any byte", POST("Content-Length: 4\r\n", "\r\n\0\x7f"),
         "POST [a] #host=a #content-length=4 keep body<\r\n\0\x7f>\nidle"),
    CASE("no length is no body", POST("", ""), "POST [a] #host=a keep body<>\nidle"),
    CASE("chunks are joined", CHUNKED("3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n"),
         "POST [a] #host=a #transfer-encoding=chunked keep body<abc0123456789>\nidle"),
    CASE("no chunk but the last", CHUNKED("0\r\n\r\n"),
         "POST [a] #host=a #transfer-encoding=chunked keep body<>\nidle"),
    CASE("close", GET("Connection: x, Close\r\n"),
         "GET [a] #host=a #connection=x, Close close body<>\nidle"),
    CASE("close in the second of two", GET("Connection: keep-alive\r\nConnection: close\r\n"),
         "GET [a] #host=a #connection=keep-alive #connection=close close body<>\nidle"),
    CASE("HTTP/1.0 closes", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET  #host=a close body<>\nidle"),
    CASE("HTTP/1.0 with keep-alive", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
         "GET  #host=a #connection=keep-alive keep body<>\nidle"),
    CASE("expect", POST("Content-Length: 3\r\nExpect: 100-continue\r\n", "abc"),
         "POST [a] #host=a #content-length=3 #expect=100-continue keep continue body<abc>\nidle"),
    CASE("pipelined", POST("Content-Length: 1\r\n", "x") GET(""),
         "POST [a] #host=a #content-length=1 keep body<x>\nGET [a] #host=a keep body<>\nidle"),
    CASE("cut in the head", "GET / HTTP/1.1\r\nHost", "more"),
    CASE("cut in the body", POST("Content-Length: 3\r\n", "ab"), "more"),
    CASE("cut behind a chunk", CHUNKED("1\r\na\r\n"), "more"),
    CASE("an IPv6 host", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
         "GET  #host=[::1]:8080 keep body<>\nidle"),
    CASE("a DELETE may have a body", "DELETE /a HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}",
         "DELETE [a] #host=a #content-length=2 keep body<{}>\nidle"),
};

/* A request that two programs could read in two ways, or that names what it must not. */
static const reader_case reader_hostile[] = {
    CASE("both lengths",
         POST("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
              "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"),
         "400"),
    CASE("two lengths, equal", POST("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), "400"),
    CASE("two lengths", POST("Content-Length: 3\r\nContent-Length: 30\r\n", "abc"), "400"),
    CASE("length +3", POST("Content-Length: +3\r\n", "abc"), "400"),
    CASE("length -1", POST("Content-Length: -1\r\n", "abc"), "400"),
    CASE("length 0x3", POST("Content-Length: 0x3\r\n", "abc"), "400"),
    CASE("length 3 3", POST("Content-Length: 3 3\r\n", "abc"), "400"),
    CASE("length 3,3", POST("Content-Length: 3,3\r\n", "abc"), "400"),
    CASE("length empty", POST("Content-Length:\r\n", "abc"), "400"),
    CASE("length beyond 64 bits", POST("Content-Length: 18446744073709551619\r\n", "abc"), "413"),
    CASE("length of 9 MiB", POST("Content-Length: 9437184\r\n", ""), "413"),
    CASE("encoding xchunked", POST("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "501"),
    CASE("encoding gzip, chunked", POST("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
         "501"),
    CASE("encoding chunked, identity",
         POST("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), "501"),
    CASE("encoding empty", POST("Transfer-Encoding:\r\n", "0\r\n\r\n"), "501"),
    CASE("two encodings",
         POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), "400"),
    CASE("chunks in HTTP/1.0",
         "POST /a HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
    CASE("a body without a length in HTTP/1.0", "POST /a HTTP/1.0\r\n" HOST "\r\nabc", "411"),
    CASE("space before the colon", GET("X-A : 1\r\n"), "400"),
    CASE("tab before the colon", GET("Content-Length\t: 1\r\n"), "400"),
    CASE("a folded line", GET("X-A: 1\r\n folded\r\n"), "400"),
    CASE("a line folded with a tab", GET("X-A: 1\r\n\tfolded\r\n"), "400"),
    CASE("a folded first header", "GET /a HTTP/1.1\r\n Host: a\r\n\r\n", "400"),
    CASE("LF alone", "GET /a HTTP/1.1\nHost: a\n\n", "400"),
    CASE("LF alone at the end of the head", "GET /a HTTP/1.1\r\nHost: a\r\n\n", "400"),
    CASE("CR alone in a header", GET("X-A: a\rX-B: b\r\n"), "400"),
    CASE("CR twice", "GET /a HTTP/1.1\r\r\nHost: a\r\n\r\n", "400"),
    CASE("NUL in a header", GET("X-A: a\0b\r\n"), "400"),
    CASE("DEL in a header", GET("X-A: a\x7f\r\n"), "400"),
    CASE("escape byte in a header", GET("X-A: \x1b[2J\r\n"), "400"),
    CASE("NUL in a path", TARGET("/a\0b"), "400"),
    CASE("%00 in a path", TARGET("/a%00b"), "400"),
    CASE("%00 in a query", TARGET("/a?b=%00"), "400"),
    CASE("%0d%0a in a path", TARGET("/a%0d%0aX:y"), "400"),
    CASE("%7f in a path", TARGET("/a%7f"), "400"),
    CASE("half an escape", TARGET("/a%4"), "400"),
    CASE("a percent sign alone", TARGET("/a%"), "400"),
    CASE("an escape that is no byte", TARGET("/a%zz"), "400"),
    CASE("%u0041", TARGET("/a%u0041"), "400"),
    CASE("an overlong slash", TARGET("/a%c0%af"), "400"),
    CASE("half a character", TARGET("/%e2%82"), "400"),
    CASE("raw 8-bit bytes", TARGET("/\xc3\xa4"), "400"),
    CASE("a backslash", TARGET("/a\\b"), "400"),
    CASE("a fragment", TARGET("/a#b"), "400"),
    CASE("..", TARGET("/a/../b"), "400"),
    CASE(". at the end", TARGET("/a/."), "400"),
    CASE("%2e%2E", TARGET("/a/%2e%2E/b"), "400"),
    CASE("..%2f", TARGET("/a/..%2fetc"), "400"),
    CASE("%2f..", TARGET("/a/b%2f.."), "400"),
    CASE("..%5c", TARGET("/a/..%5cetc"), "400"),
    CASE("a parameter twice", TARGET("/a?x=1&%78=2"), "400"),
    CASE("no Host", "GET /a HTTP/1.1\r\nX: y\r\n\r\n", "400"),
    CASE("an empty Host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", "400"),
    CASE("no Host in HTTP/1.0", "GET /a HTTP/1.0\r\n\r\n", "400"),
    CASE("two Hosts", GET("Host: evil\r\n"), "400"),
    CASE("a Host with a user", "GET /a HTTP/1.1\r\nHost: a@evil\r\n\r\n", "400"),
    CASE("a Host with a path", "GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
    CASE("two tokens", GET("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), "400"),
    CASE("two Origins", GET("Origin: http://a\r\nOrigin: http://b\r\n"), "400"),
    CASE("chunk size 0x3", CHUNKED("0x3\r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size -3", CHUNKED("-3\r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size +3", CHUNKED("+3\r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size empty", CHUNKED("\r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size with a space", CHUNKED("3 \r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size beyond 64 bits", CHUNKED("ffffffffffffffff3\r\nabc\r\n0\r\n\r\n"), "413"),
    CASE("chunk extension", CHUNKED("3;a=b\r\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size ends with LF", CHUNKED("3\nabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk size ends with CR", CHUNKED("3\rabc\r\n0\r\n\r\n"), "400"),
    CASE("chunk longer than its size", CHUNKED("3\r\nabcXX0\r\n\r\n"), "400"),
    CASE("chunk ends with LF", CHUNKED("3\r\nabc\n0\r\n\r\n"), "400"),
    CASE("chunk ends with CR and more", CHUNKED("3\r\nabc\rX0\r\n\r\n"), "400"),
    CASE("a trailer", CHUNKED("3\r\nabc\r\n0\r\nAuthorization: Bearer evil\r\n\r\n"), "400"),
    CASE("the body ends with CR and more", CHUNKED("0\r\n\rX"), "400"),
    CASE("no colon", GET("garbage\r\n"), "400"),
    CASE("no name", GET(": x\r\n"), "400"),
    CASE("a name with a wrong byte", GET("X(Y): 1\r\n"), "400"),
    CASE("absolute form of another host", TARGET("http://evil/a"), "400"),
    CASE("absolute form of a longer host", TARGET("http://a.evil/b"), "400"),
    CASE("absolute form with a user", TARGET("http://x@a/b"), "400"),
    CASE("absolute form without a path", TARGET("http://a"), "400"),
    CASE("another scheme", TARGET("file:///etc/passwd"), "400"),
    CASE("a star", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("no target", "GET  HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("HTTP/1.9", "GET /a HTTP/1.9\r\n" HOST "\r\n", "505"),
    CASE("HTTP/2.0", "GET /a HTTP/2.0\r\n" HOST "\r\n", "505"),
    CASE("HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
    CASE("HTTP/1.10", "GET /a HTTP/1.10\r\n" HOST "\r\n", "400"),
    CASE("http/1.1", "GET /a http/1.1\r\n" HOST "\r\n", "400"),
    CASE("HTTP/0.9", "GET /a\r\n\r\n", "400"),
    CASE("tabs in the request line", "GET\t/a\tHTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("two spaces", "GET  /a HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("a space at the end", "GET /a HTTP/1.1 \r\n" HOST "\r\n", "400"),
    CASE("a space in front", " GET /a HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("an empty line in front", "\r\nGET /a HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01", "400"),
    CASE("a GET with a body", "GET /a HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", "400"),
    CASE("CONNECT", "CONNECT a:80 HTTP/1.1\r\n" HOST "\r\n", "501"),
    CASE("TRACE", "TRACE / HTTP/1.1\r\n" HOST "\r\n", "501"),
    CASE("a method in lower case", "get /a HTTP/1.1\r\n" HOST "\r\n", "501"),
    CASE("a method with a wrong byte", "G@T /a HTTP/1.1\r\n" HOST "\r\n", "400"),
    CASE("another expectation", POST("Content-Length: 3\r\nExpect: 200-ok\r\n", "abc"), "417"),
};

static void good_requests_are_read_alike_however_the_stream_is_cut(void **state)
{
    (void)state;
    reader_run(reader_good, sizeof(reader_good) / sizeof(reader_good[0]));
}

static void hostile_requests_are_refused_however_the_stream_is_cut(void **state)
{
    (void)state;
    reader_run(reader_hostile, sizeof(reader_hostile) / sizeof(reader_hostile[0]));
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Reads a whole stream; 0: it is one accepted request, else the refusal's status. */
static int reader_status(qp_buf *stream, size_t body_max)
{
    qp_http_reader reader;
    size_t head = 0;
    size_t used = 0;
    int status = 0;
    qp_http_result result;

    T_OK(qp_buf_status(stream));
    qp_http_reader_init(&reader, body_max);
    result = qp_http_read(&reader, qp_buf_str(stream), &used);
    if (result == QP_HTTP_BODY_FOLLOWS) {
        head = used;
        result = qp_http_read(&reader, (quipu_str){stream->p + head, stream->n - head}, &used);
    }
    switch (result) {
    case QP_HTTP_REQUEST:
        assert_int_equal(head + used, stream->n);
        break;
    case QP_HTTP_REFUSED:
        status = reader.refusal.status;
        break;
    case QP_HTTP_MORE:
    case QP_HTTP_BODY_FOLLOWS: /* a second time would be wrong */
        status = -1;
        break;
    }
    qp_http_reader_free(&reader);
    qp_buf_free(stream);
    return status;
}

static void reader_fill(qp_buf *stream, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        qp_buf_putc(stream, 'a');
    }
}

static int reader_request_line_of(size_t size)
{
    static const char rest[] = "GET / HTTP/1.1";
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_puts(&stream, "GET /");
    reader_fill(&stream, size - (sizeof(rest) - 1));
    qp_buf_puts(&stream, " HTTP/1.1\r\n" HOST "\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

static int reader_header_line_of(size_t size)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_puts(&stream, "GET / HTTP/1.1\r\n" HOST "X:");
    reader_fill(&stream, size - 2);
    qp_buf_puts(&stream, "\r\n\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

static int reader_head_of(size_t size)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_puts(&stream, "GET / HTTP/1.1\r\n" HOST);
    while (size - stream.n > 2 * 1024) {
        qp_buf_puts(&stream, "X:");
        reader_fill(&stream, 1000);
        qp_buf_puts(&stream, "\r\n");
    }
    qp_buf_puts(&stream, "X:");
    reader_fill(&stream, size - stream.n - 4);
    qp_buf_puts(&stream, "\r\n\r\n");
    assert_int_equal(stream.n, size);
    return reader_status(&stream, READER_BODY_MAX);
}

static int reader_headers_of(size_t count)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_puts(&stream, "GET / HTTP/1.1\r\n" HOST);
    for (size_t i = 1; i < count; i++) {
        qp_buf_puts(&stream, "X: 1\r\n");
    }
    qp_buf_puts(&stream, "\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

/* `count` times "/a", or parameters. */
static int reader_target_of(const char *first, size_t segments, size_t parameters)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_printf(&stream, "GET %s", first);
    for (size_t i = 0; i < segments; i++) {
        qp_buf_puts(&stream, "/a");
    }
    for (size_t i = 0; i < parameters; i++) {
        qp_buf_printf(&stream, "%cp%zu=1", i == 0 ? '?' : '&', i);
    }
    qp_buf_puts(&stream, " HTTP/1.1\r\n" HOST "\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

static int reader_body_of(size_t size, bool chunked)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    if (!chunked) {
        qp_buf_printf(&stream, "POST / HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
        reader_fill(&stream, size);
        return reader_status(&stream, READER_BODY_MAX);
    }
    qp_buf_puts(&stream, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t left = size; left > 0;) {
        size_t n = left < 10 ? left : 10;

        qp_buf_printf(&stream, "%zx\r\n", n);
        reader_fill(&stream, n);
        qp_buf_puts(&stream, "\r\n");
        left -= n;
    }
    qp_buf_puts(&stream, "0\r\n\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

static int reader_chunk_digits_of(size_t count)
{
    qp_buf stream;

    qp_buf_init(&stream, READER_OUT_MAX);
    qp_buf_puts(&stream, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 1; i < count; i++) {
        qp_buf_putc(&stream, '0');
    }
    qp_buf_puts(&stream, "1\r\na\r\n0\r\n\r\n");
    return reader_status(&stream, READER_BODY_MAX);
}

static void each_limit_holds_at_its_maximum_and_refuses_one_more(void **state)
{
    (void)state;
    assert_int_equal(reader_request_line_of(QP_HTTP_LINE_MAX), 0);
    assert_int_equal(reader_request_line_of(QP_HTTP_LINE_MAX + 1), 414);
    assert_int_equal(reader_header_line_of(QP_HTTP_LINE_MAX), 0);
    assert_int_equal(reader_header_line_of(QP_HTTP_LINE_MAX + 1), 431);
    assert_int_equal(reader_head_of(QP_HTTP_HEAD_MAX), 0);
    assert_int_equal(reader_head_of(QP_HTTP_HEAD_MAX + 1), 431);
    assert_int_equal(reader_headers_of(QP_HTTP_HEADERS_MAX), 0);
    assert_int_equal(reader_headers_of(QP_HTTP_HEADERS_MAX + 1), 431);
    assert_int_equal(reader_target_of("", QP_HTTP_SEGMENTS_MAX, 0), 0);
    assert_int_equal(reader_target_of("", QP_HTTP_SEGMENTS_MAX + 1, 0), 414);
    assert_int_equal(reader_target_of("/", 0, QP_HTTP_PARAMETERS_MAX), 0);
    assert_int_equal(reader_target_of("/", 0, QP_HTTP_PARAMETERS_MAX + 1), 414);
    for (int chunked = 0; chunked < 2; chunked++) {
        assert_int_equal(reader_body_of(READER_BODY_MAX, chunked), 0);
        assert_int_equal(reader_body_of(READER_BODY_MAX + 1, chunked), 413);
    }
    assert_int_equal(reader_chunk_digits_of(QP_HTTP_CHUNK_DIGITS_MAX), 0);
    assert_int_equal(reader_chunk_digits_of(QP_HTTP_CHUNK_DIGITS_MAX + 1), 413);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void a_refusal_is_for_good(void **state)
{
    qp_http_reader reader;
    size_t used = 0;

    (void)state;
    qp_http_reader_init(&reader, READER_BODY_MAX);
    assert_int_equal(qp_http_read(&reader, QUIPU_STR("\n"), &used), QP_HTTP_REFUSED);
    assert_int_equal(reader.refusal.status, 400);
    assert_int_equal(qp_http_read(&reader, QUIPU_STR(GET("")), &used), QP_HTTP_REFUSED);
    assert_int_equal(used, 0);
    qp_http_reader_free(&reader);
}

static void a_client_waits_for_100_continue_until_its_body_begins(void **state)
{
    static const char head[] = POST("Content-Length: 2\r\nExpect: 100-continue\r\n", "");
    qp_http_reader reader;
    size_t used = 0;

    (void)state;
    qp_http_reader_init(&reader, READER_BODY_MAX);
    assert_true(qp_http_reader_is_idle(&reader));
    assert_int_equal(qp_http_read(&reader, (quipu_str){head, 10}, &used), QP_HTTP_MORE);
    assert_false(qp_http_reader_is_idle(&reader));
    assert_false(qp_http_reader_awaits_continue(&reader));
    assert_int_equal(qp_http_read(&reader, (quipu_str){head + 10, sizeof(head) - 11}, &used),
                     QP_HTTP_BODY_FOLLOWS);
    assert_true(qp_http_reader_awaits_continue(&reader));
    assert_int_equal(qp_http_read(&reader, QUIPU_STR("a"), &used), QP_HTTP_MORE);
    assert_false(qp_http_reader_awaits_continue(&reader));
    assert_int_equal(qp_http_read(&reader, QUIPU_STR("b"), &used), QP_HTTP_REQUEST);
    T_STR(reader.request.body, "ab");
    T_STR(qp_http_header(&reader.request, "expect"), "100-continue");
    assert_null(qp_http_header(&reader.request, "origin").p);
    qp_http_reader_next(&reader);
    assert_true(qp_http_reader_is_idle(&reader));
    qp_http_reader_free(&reader);
}

/* A server decides about a request before it keeps a byte of the body. */
static void the_head_of_a_request_is_known_before_its_body_is_read(void **state)
{
    static const char *const frames[] = {"Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"};
    static const char *const bodies[] = {"abc", "3\r\nabc\r\n0\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        qp_http_reader reader;
        qp_buf stream;
        size_t head;
        size_t used = 0;

        qp_buf_init(&stream, READER_OUT_MAX);
        qp_buf_printf(&stream, "POST /a HTTP/1.1\r\n" HOST "%s\r\n", frames[i]);
        head = stream.n;
        qp_buf_puts(&stream, bodies[i]);
        T_OK(qp_buf_status(&stream));
        qp_http_reader_init(&reader, READER_BODY_MAX);
        assert_int_equal(qp_http_read(&reader, qp_buf_str(&stream), &used), QP_HTTP_BODY_FOLLOWS);
        assert_int_equal(used, head);
        assert_int_equal(reader.body.n, 0);
        T_STR(reader.request.segments[0], "a");
        assert_int_equal(
            qp_http_read(&reader, (quipu_str){stream.p + head, stream.n - head}, &used),
            QP_HTTP_REQUEST);
        T_STR(reader.request.body, "abc");
        qp_http_reader_free(&reader);
        qp_buf_free(&stream);
    }
}

static void reader_without_memory(void *ctx)
{
    qp_http_reader reader;
    size_t used = 0;

    (void)ctx;
    qp_http_reader_init(&reader, READER_BODY_MAX);
    if (qp_http_read(&reader, QUIPU_STR(POST("Content-Length: 3\r\n", "")), &used) ==
            QP_HTTP_REFUSED ||
        qp_http_read(&reader, QUIPU_STR("abc"), &used) == QP_HTTP_REFUSED) {
        assert_int_equal(reader.refusal.status, 503);
    } else {
        assert_int_equal(t_fault_fired(), 0);
    }
    qp_http_reader_free(&reader);
}

static void a_reader_without_memory_answers_503(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(reader_without_memory, NULL) > 0);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests_are_read_alike_however_the_stream_is_cut),
        cmocka_unit_test(hostile_requests_are_refused_however_the_stream_is_cut),
        cmocka_unit_test(each_limit_holds_at_its_maximum_and_refuses_one_more),
        cmocka_unit_test(a_refusal_is_for_good),
        cmocka_unit_test(a_client_waits_for_100_continue_until_its_body_begins),
        cmocka_unit_test(the_head_of_a_request_is_known_before_its_body_is_read),
        cmocka_unit_test(a_reader_without_memory_answers_503),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
