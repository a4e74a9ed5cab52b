/* MCP over two file descriptors: one message a line, one response a line, in the order of arrival.
 *
 * Owns: the buffer of what was read and not answered yet, and the client's revision, during a call
 * of quipu_mcp_serve(). Called by: programs. Locks: none. Holds on return: every line that was read
 * is answered, unless the client stopped reading. A line longer than QUIPU_MCP_REQUEST_MAX is
 * refused once and skipped up to its end. One client, one thread, one message at a time: a slow
 * client holds up nobody else. Requests that it sends while a response is written wait in the
 * pipe. */
#include "mcp/mcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* The size of a pipe on Linux: one read() takes all that may wait. */
#define STDIO_READ_SIZE 65536

typedef struct stdio_loop {
    const qp_mcp *server;
    qp_mcp_peer peer;
    int input_fd;
    int output_fd;
    qp_buf line;         /* the beginning of a line whose end has not arrived */
    qp_buf response;     /* with its newline */
    bool skipping;       /* inside of a line that was refused */
    bool hung_up;        /* the client does not read any more */
    quipu_error *reterr; /* the caller's, for the failure that ends the loop */
} stdio_loop;

/* Waits until a descriptor that does not block is ready again.
 * Descriptors that the program has set not to block are taken as they are. */
static void stdio_wait(int fd, short events)
{
    struct pollfd wait = {.fd = fd, .events = events};

    (void)poll(&wait, 1, -1); /* a failure shows again in read() or write() */
}

/* Whether a failed read() or write() is to be repeated.
 * Looks at errno: to be called at once behind the call that failed. */
static bool stdio_is_retry(int fd, short events)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        stdio_wait(fd, events);
        return true;
    }
    return errno == EINTR;
}

/* A client that stopped reading ends the loop without an error: it has what it wanted.
 * SIGPIPE is the program's business: where it is not ignored, it ends the process first. */
static quipu_status stdio_write(stdio_loop *loop, quipu_str bytes)
{
    while (bytes.n > 0) {
        const ssize_t n = write(loop->output_fd, bytes.p, bytes.n);

        if (n < 0 && !stdio_is_retry(loop->output_fd, POLLOUT)) {
            loop->hung_up = errno == EPIPE || errno == ECONNRESET;
            return loop->hung_up ? QUIPU_OK
                                 : qp_error_set(loop->reterr, QUIPU_IO,
                                                "the response cannot be written: errno %d", errno);
        }
        if (n > 0) {
            bytes = (quipu_str){bytes.p + n, bytes.n - (size_t)n};
        }
    }
    return QUIPU_OK;
}

/* Sends what is in the response buffer, if anything is. */
static quipu_status stdio_send(stdio_loop *loop, quipu_status status)
{
    if (status == QUIPU_OK && loop->response.n > 0) {
        qp_buf_putc(&loop->response, '\n');
        status = qp_buf_status(&loop->response);
        if (status == QUIPU_OK) {
            return stdio_write(loop, qp_buf_str(&loop->response));
        }
    }
    return status == QUIPU_OK ? status
                              : qp_error_set(loop->reterr, status, "no memory for a response");
}

/* A line without its newline. Blank lines are nothing.
 * The newline is LF; a CR before it is dropped, for clients on other systems. */
static quipu_status stdio_line(stdio_loop *loop, quipu_str line)
{
    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    if (line.n == 0) {
        return QUIPU_OK;
    }
    return stdio_send(loop, qp_mcp_respond(loop->server, &loop->peer, line, &loop->response, NULL));
}

/* Bytes that continue a line: keeps them, or refuses the line when it is too long.
 * The refusal is sent as soon as the limit is passed and not at the line's end, which may never
 * come. */
static quipu_status stdio_keep(stdio_loop *loop, quipu_str bytes)
{
    if (loop->skipping) {
        return QUIPU_OK;
    }
    if (loop->line.n + bytes.n <= QUIPU_MCP_REQUEST_MAX) {
        qp_buf_put(&loop->line, bytes);
        return qp_buf_status(&loop->line);
    }
    loop->skipping = true;
    qp_buf_reset(&loop->line);
    return stdio_send(loop, qp_mcp_refuse_size(&loop->response));
}

/* Splits what arrived into lines and answers each. */
static quipu_status stdio_take(stdio_loop *loop, quipu_str bytes)
{
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && bytes.n > 0 && !loop->hung_up) {
        const char *end = memchr(bytes.p, '\n', bytes.n);
        const size_t n = end != NULL ? (size_t)(end - bytes.p) : bytes.n;

        status = stdio_keep(loop, (quipu_str){bytes.p, n});
        if (end == NULL) {
            break;
        }
        if (status == QUIPU_OK && !loop->skipping) {
            status = stdio_line(loop, qp_buf_str(&loop->line));
        }
        /* The end of a refused line: the next one is a message again. */
        loop->skipping = false;
        qp_buf_reset(&loop->line);
        bytes = (quipu_str){end + 1, bytes.n - n - 1};
    }
    return status;
}

/* Reads until the end of the input. A last line without a newline is a message, too.
 * Blocks in read() while nothing comes; a stop is the end of the input. */
static quipu_status stdio_run(stdio_loop *loop)
{
    char bytes[STDIO_READ_SIZE];
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && !loop->hung_up) {
        const ssize_t n = read(loop->input_fd, bytes, sizeof(bytes));

        if (n > 0) {
            status = stdio_take(loop, (quipu_str){bytes, (size_t)n});
        } else if (n == 0) {
            return loop->line.n > 0 ? stdio_line(loop, qp_buf_str(&loop->line)) : QUIPU_OK;
        } else if (!stdio_is_retry(loop->input_fd, POLLIN)) {
            return qp_error_set(loop->reterr, QUIPU_IO, "the input cannot be read: errno %d",
                                errno);
        }
    }
    return status;
}

/* See <quipu/server.h>. Runs on the caller's thread until the input ends or the client hangs up. */
quipu_status quipu_mcp_serve(quipu_store *store, const quipu_mcp_options *options, int input_fd,
                             int output_fd, quipu_error *reterr)
{
    qp_mcp server = {0};
    stdio_loop loop = {
        .server = &server, .input_fd = input_fd, .output_fd = output_fd, .reterr = reterr};
    quipu_status status = qp_mcp_begin(store, options, &server, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_init(&loop.line, QUIPU_MCP_REQUEST_MAX);
    qp_buf_init(&loop.response, QUIPU_MCP_RESPONSE_MAX + QUIPU_MCP_REQUEST_MAX);
    status = stdio_run(&loop);
    qp_buf_free(&loop.line);
    qp_buf_free(&loop.response);
    qp_mcp_end(&server);
    return status;
}
