/* The client behind server.half_load_p99 (bench/server_bench.py): how long answers take when
 * requests come at half of the rate that this client and the server bear together.
 *
 *   usage: quipu_load PORT CONNECTIONS MILLISECONDS BLOCKS <request
 *
 * A block is a closed loop, in which every connection asks again as soon
 * as it is answered, and an open loop, in which a request is due at fixed intervals, whether others
 * were answered or not. The time of an answer counts from when its request was due, so a request
 * that waited for a free connection or for this client has that wait in its time. One line for each
 * block: answers a second of the closed loop; p50, p99 and the longest time of the open one; p99 of
 * how late requests left. Times are nanoseconds.
 *
 * In C, and one thread with ppoll() without timer slack, because the client must not be what is
 * measured: Python's selectors wait in whole milliseconds, and its work for an answer was almost
 * half of the median. */
#define _GNU_SOURCE /* ppoll(), strcasestr() */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/thread.h"
#include "bench/harness.h"

#define LOAD_CONNECTIONS_MAX 256
#define LOAD_REQUEST_MAX 8192
#define LOAD_ANSWER_MAX (1 << 20)
#define LOAD_MS_MAX 60000
#define LOAD_BLOCKS_MAX 1000

typedef struct load_conn {
    bool is_busy;   /* asked, and not answered yet */
    int64_t due_ns; /* of the request under way */
    size_t got;     /* bytes of the answer */
    size_t size;    /* of the whole answer; 0: its head is not complete */
    char *answer;
} load_conn;

typedef struct load {
    struct pollfd polls[LOAD_CONNECTIONS_MAX];
    load_conn conns[LOAD_CONNECTIONS_MAX];
    size_t conn_count;
    char request[LOAD_REQUEST_MAX];
    size_t request_size;
    size_t count;      /* requests of the open loop */
    int64_t *taken_ns; /* by each answer */
    int64_t *late_ns;  /* from when each request was due until it left */
} load;

/* ---- requests and answers -------------------------------------------------------------------- */

static void load_connect(load *self, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < self->conn_count; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
            bench_die("port %d: errno %d", port, errno);
        }
        self->polls[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        self->conns[i].answer = bench_alloc(LOAD_ANSWER_MAX + 1);
    }
}

static void load_ask(load *self, size_t i, int64_t due_ns)
{
    load_conn *conn = &self->conns[i];

    if (send(self->polls[i].fd, self->request, self->request_size, MSG_NOSIGNAL) !=
        (ssize_t)self->request_size) {
        bench_die("a request cannot be sent: errno %d", errno);
    }
    conn->is_busy = true;
    conn->due_ns = due_ns;
    conn->got = conn->size = 0;
}

/* Bytes of the answer whose head has come; 0: not yet. It must be a good one. */
static size_t load_size(const load_conn *conn)
{
    const char *end = strstr(conn->answer, "\r\n\r\n");
    const char *length = strcasestr(conn->answer, "\r\nContent-Length: ");
    char *after = NULL;
    size_t size;

    if (end == NULL) {
        return 0;
    }
    if (strncmp(conn->answer, "HTTP/1.1 2", 10) != 0 || length == NULL || length > end) {
        bench_die("the answer is no good one: %.300s", conn->answer);
    }
    size = strtoul(strchr(length, ':') + 1, &after, 10);
    if (*after != '\r' || size > LOAD_ANSWER_MAX) {
        bench_die("the answer has a wrong length: %.300s", conn->answer);
    }
    return (size_t)(end + 4 - conn->answer) + size;
}

/* Takes what has come; returns whether the answer is complete. */
static bool load_receive(load *self, size_t i)
{
    load_conn *conn = &self->conns[i];
    const ssize_t n =
        recv(self->polls[i].fd, conn->answer + conn->got, LOAD_ANSWER_MAX - conn->got, 0);

    if (n <= 0) {
        bench_die("the server closed a connection, or its answer is too long");
    }
    conn->got += (size_t)n;
    conn->answer[conn->got] = '\0';
    if (conn->size == 0) {
        conn->size = load_size(conn);
    }
    conn->is_busy = conn->size == 0 || conn->got < conn->size;
    return !conn->is_busy;
}

/* Waits for answers, at most until a time. */
static void load_wait(load *self, int64_t until_ns)
{
    const int64_t left = until_ns - qp_clock_ns();
    const struct timespec wait = {.tv_sec = (left > 0 ? left : 0) / QP_NS_PER_S,
                                  .tv_nsec = (left > 0 ? left : 0) % QP_NS_PER_S};

    if (ppoll(self->polls, self->conn_count, &wait, NULL) < 0) {
        bench_die("ppoll: errno %d", errno);
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Answers a second when every connection asks again at once. */
static double load_closed(load *self, int64_t length_ns)
{
    const int64_t end = qp_clock_ns() + length_ns;
    size_t busy = self->conn_count;
    size_t count = 0;

    for (size_t i = 0; i < self->conn_count; i++) {
        load_ask(self, i, 0);
    }
    while (busy > 0) {
        load_wait(self, INT64_MAX);
        for (size_t i = 0; i < self->conn_count; i++) {
            if (self->polls[i].revents == 0 || !load_receive(self, i)) {
                continue;
            }
            if (qp_clock_ns() < end) {
                count++;
                load_ask(self, i, 0);
            } else {
                busy--;
            }
        }
    }
    return (double)count * (double)QP_NS_PER_S / (double)length_ns;
}

/* A connection that is free; conn_count: none is. */
static size_t load_free(const load *self)
{
    size_t i = 0;

    while (i < self->conn_count && self->conns[i].is_busy) {
        i++;
    }
    return i;
}

/* Sends over free connections what is due. Returns when to do so again. */
static int64_t load_ask_due(load *self, int64_t begin_ns, int64_t every_ns, size_t *asked)
{
    while (*asked < self->count) {
        const int64_t due = begin_ns + (int64_t)*asked * every_ns;
        const int64_t now = qp_clock_ns();
        const size_t to = load_free(self);

        if (to == self->conn_count) {
            break; /* with the next answer */
        }
        if (now < due) {
            return due;
        }
        self->late_ns[(*asked)++] = now - due;
        load_ask(self, to, due);
    }
    return INT64_MAX;
}

/* Measures answers while a request is due at fixed intervals. */
static void load_open(load *self, int64_t every_ns)
{
    const int64_t begin = qp_clock_ns();
    size_t asked = 0;
    size_t answered = 0;

    while (answered < self->count) {
        load_wait(self, load_ask_due(self, begin, every_ns, &asked));
        for (size_t i = 0; i < self->conn_count; i++) {
            if (self->polls[i].revents != 0 && load_receive(self, i)) {
                self->taken_ns[answered++] = qp_clock_ns() - self->conns[i].due_ns;
            }
        }
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int load_compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void load_block(load *self, int64_t length_ns)
{
    const double rate = load_closed(self, length_ns);
    const double every_ns = (double)QP_NS_PER_S / (rate / 2);

    self->count = (size_t)((double)length_ns / every_ns);
    if (self->count == 0) {
        bench_die("nothing was answered");
    }
    self->taken_ns = bench_alloc(self->count * sizeof(*self->taken_ns));
    self->late_ns = bench_alloc(self->count * sizeof(*self->late_ns));
    load_open(self, (int64_t)every_ns);
    qsort(self->taken_ns, self->count, sizeof(*self->taken_ns), load_compare);
    qsort(self->late_ns, self->count, sizeof(*self->late_ns), load_compare);
    (void)printf("%.0f %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", rate,
                 self->taken_ns[self->count / 2], self->taken_ns[self->count * 99 / 100],
                 self->taken_ns[self->count - 1], self->late_ns[self->count * 99 / 100]);
    free(self->taken_ns);
    free(self->late_ns);
}

/* A whole number from 1 to `most`. */
static long load_number(const char *text, long most)
{
    char *end = NULL;
    const long number = strtol(text, &end, 10);

    if (end == text || *end != '\0' || number < 1 || number > most) {
        bench_die("%s is no number from 1 to %ld", text, most);
    }
    return number;
}

int main(int count, char **words)
{
    static load self;

    if (count != 5) {
        bench_die("usage: quipu_load PORT CONNECTIONS MILLISECONDS BLOCKS <request");
    }
    self.conn_count = (size_t)load_number(words[2], LOAD_CONNECTIONS_MAX);
    self.request_size = fread(self.request, 1, sizeof(self.request), stdin);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* nanoseconds; the default is 50,000 */
    load_connect(&self, (int)load_number(words[1], UINT16_MAX));
    for (long i = load_number(words[4], LOAD_BLOCKS_MAX); i > 0; i--) {
        load_block(&self, load_number(words[3], LOAD_MS_MAX) * QP_NS_PER_MS);
    }
    return 0;
}
