/* The client of the cluster test: a program on the public headers alone. `write` appends from
 * several threads until it is asked to stop and logs every invocation and its outcome, so that
 * history.py can compare what was acknowledged with what is stored. `make test-cluster` runs it. */
#include <quipu/store.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITER_THREADS_MAX 64
#define WRITER_SESSIONS_MAX 1000
#define WRITER_DEADLINE_MAX_MS 3600000
#define WRITER_OPEN_MS 120000
#define WRITER_ID_SIZE 64
#define WRITER_KEY_SIZE 32
#define WRITER_LINE_SIZE 640
#define WRITER_PAGE 5000 /* messages read at a time */

/* What a message carries besides its id. */
#define WRITER_TEXT                                                                                \
    "a text as long as a short answer of a model is, so that a row is as large as usual: "         \
    "the quick brown fox jumps over the lazy dog, and the dog lets it."

typedef struct writer_options {
    const char *uri;
    const char *name; /* begins every event id and the names of the logs */
    const char *folder;
    long threads;
    long sessions;
    long deadline_ms;
    long first; /* thread t appends to session first + t alone; 0: each thread to all in turn */
} writer_options;

typedef struct writer {
    const writer_options *options;
    quipu_store *store;
    long number; /* of the thread, from 0 */
    int log;
    bool failed;
    pthread_t thread;
} writer;

static atomic_bool writer_stop;

static void writer_asked_to_stop(int number)
{
    (void)number;
    atomic_store(&writer_stop, true);
}

static int64_t writer_now_ns(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the log ----------------------------------------------------------------------------------
 */

/* One line is one write: nothing of it is in the program when the program is killed. */
static void writer_log(writer *self, const char *word, const char *id, const char *rest)
{
    char line[WRITER_LINE_SIZE];
    int n = snprintf(line, sizeof(line), "%" PRId64 " %s %s %s", writer_now_ns(), word, id, rest);

    if (n < 0) {
        self->failed = true;
        return;
    }
    n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
    for (int i = 0; i < n; i++) {
        line[i] = line[i] == '\n' ? ' ' : line[i];
    }
    line[n++] = '\n';
    if (write(self->log, line, (size_t)n) != n) {
        self->failed = true;
    }
}

static void writer_nap(void)
{
    const struct timespec nap = {0, 50000000};

    (void)nanosleep(&nap, NULL);
}

/* ---- appending --------------------------------------------------------------------------------
 */

static quipu_status writer_append(writer *self, const char *key, const char *id)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    quipu_message message = {
        .role = QUIPU_ROLE_USER, .content = QUIPU_STR(WRITER_TEXT), .event_id = quipu_cstr(id)};
    char rest[WRITER_LINE_SIZE];
    quipu_status status;

    call.deadline_ms = (int32_t)self->options->deadline_ms;
    status = quipu_message_append(self->store, quipu_cstr(key), quipu_messages_of(&message, 1),
                                  NULL, &call, &appended, &err);
    if (status == QUIPU_OK) {
        (void)snprintf(rest, sizeof(rest), "%" PRId64 " %s", appended.first_seq,
                       appended.repeated ? "repeated" : "new");
        writer_log(self, "ok", id, rest);
    } else {
        (void)snprintf(rest, sizeof(rest), "%s %s", quipu_status_name(status), err.message);
        writer_log(self, status == QUIPU_UNKNOWN ? "unknown" : "failed", id, rest);
    }
    return status;
}

/* One event until its outcome is known. After an UNKNOWN only success settles it: a failure says
 * of the repeat alone. */
static void writer_event(writer *self, const char *key, const char *id)
{
    quipu_status status;
    bool unknown = false;

    writer_log(self, "invoke", id, key);
    status = writer_append(self, key, id);
    unknown = status == QUIPU_UNKNOWN;
    while (unknown && status != QUIPU_OK && !self->failed) {
        writer_nap();
        writer_log(self, "again", id, key);
        status = writer_append(self, key, id);
    }
    if (status != QUIPU_OK) {
        writer_nap();
    }
}

static void *writer_run(void *arg)
{
    writer *self = arg;
    const writer_options *options = self->options;

    for (long i = 1; !atomic_load(&writer_stop) && !self->failed; i++) {
        char key[WRITER_KEY_SIZE];
        char id[WRITER_ID_SIZE];

        (void)snprintf(key, sizeof(key), "s%ld",
                       (options->first > 0 ? options->first + self->number : self->number + i) %
                           options->sessions);
        (void)snprintf(id, sizeof(id), "%s.%ld.%ld", options->name, self->number, i);
        writer_event(self, key, id);
    }
    return NULL;
}

static bool writer_start(writer *self)
{
    char path[WRITER_LINE_SIZE];
    int n = snprintf(path, sizeof(path), "%s/%s.%ld.log", self->options->folder,
                     self->options->name, self->number);

    if (n < 0 || n >= (int)sizeof(path)) {
        return false;
    }
    self->log = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (self->log < 0) {
        return false;
    }
    if (pthread_create(&self->thread, NULL, writer_run, self) != 0) {
        (void)close(self->log);
        return false;
    }
    return true;
}

static int writer_complain(const char *doing, quipu_status status, const quipu_error *err)
{
    (void)fprintf(stderr, "writer: %s: %s: %s\n", doing, quipu_status_name(status), err->message);
    return 1;
}

static quipu_status writer_open(const char *uri, uint32_t flags, quipu_store **ret_store,
                                quipu_error *reterr)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.flags = flags;
    options.deadline_ms = WRITER_OPEN_MS;
    options.search = QUIPU_SEARCH_OFF;
    return quipu_open(uri, &options, ret_store, reterr);
}

static int writer_write(const writer_options *options)
{
    static writer writers[WRITER_THREADS_MAX];
    struct sigaction action = {.sa_handler = writer_asked_to_stop};
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = writer_open(options->uri, 0, &store, &err);
    long started = 0;
    int code = 0;

    if (status != QUIPU_OK) {
        return writer_complain("open", status, &err);
    }
    (void)sigaction(SIGTERM, &action, NULL);
    for (; started < options->threads; started++) {
        writers[started] = (writer){.options = options, .store = store, .number = started};
        if (!writer_start(&writers[started])) {
            (void)fprintf(stderr, "writer: thread %ld did not start\n", started);
            atomic_store(&writer_stop, true);
            code = 1;
            break;
        }
    }
    for (long i = 0; i < started; i++) {
        (void)pthread_join(writers[i].thread, NULL);
        code = writers[i].failed || close(writers[i].log) != 0 ? 1 : code;
    }
    quipu_close(store);
    return code;
}

/* ---- before and after -------------------------------------------------------------------------
 */

static int writer_create(const writer_options *options)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = writer_open(options->uri, 0, &store, &err);

    for (long i = 0; i < options->sessions && status == QUIPU_OK; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        char key[WRITER_KEY_SIZE];

        (void)snprintf(key, sizeof(key), "s%ld", i);
        values.key = quipu_cstr(key);
        values.flags = QUIPU_CREATE_OR_GET;
        status = quipu_session_create(store, &values, NULL, NULL, &err);
    }
    quipu_close(store);
    return status == QUIPU_OK ? 0 : writer_complain("create", status, &err);
}

/* Print "key seq id" for each message of a session. */
static quipu_status writer_dump_session(quipu_store *store, const char *key, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_status status;
    bool more = true;

    range.limit = WRITER_PAGE;
    while (more) {
        quipu_history *history = NULL;

        status = quipu_session_get(store, quipu_cstr(key), &range, NULL, &history, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        for (size_t i = 0; i < history->messages.count; i++) {
            const quipu_message *message = quipu_message_at(history->messages, i);

            (void)printf("%s %" PRId64 " %.*s\n", key, message->seq, (int)message->event_id.n,
                         message->event_id.p);
            range.after_seq = message->seq;
        }
        more = history->more_after && history->messages.count > 0;
        quipu_free(history);
    }
    return QUIPU_OK;
}

static void writer_problem(void *ctx, const quipu_problem *problem)
{
    (void)ctx;
    (void)fprintf(stderr, "writer: %.*s: %.*s\n", (int)problem->session_key.n,
                  problem->session_key.p != NULL ? problem->session_key.p : "",
                  (int)problem->text.n, problem->text.p);
}

/* Everything that is stored, and whether the store finds itself whole. */
static int writer_dump(const writer_options *options)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_verify_options checks = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status = writer_open(options->uri, QUIPU_OPEN_READ_ONLY, &store, &err);

    for (long i = 0; i < options->sessions && status == QUIPU_OK; i++) {
        char key[WRITER_KEY_SIZE];

        (void)snprintf(key, sizeof(key), "s%ld", i);
        status = writer_dump_session(store, key, &err);
    }
    if (status == QUIPU_OK) {
        checks.on_problem = writer_problem;
        status = quipu_store_verify(store, &checks, NULL, &verified, &err);
    }
    quipu_close(store);
    if (status != QUIPU_OK) {
        return writer_complain("dump", status, &err);
    }
    return verified.problems == 0 && fflush(stdout) == 0 ? 0 : 1;
}

/* ---- the command line -------------------------------------------------------------------------
 */

static bool writer_number(const char *text, long max, long *ret)
{
    char *end = NULL;
    long number;

    errno = 0;
    number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > max) {
        return false;
    }
    *ret = number;
    return true;
}

/* The arguments of `write`, behind the number of sessions. */
static bool writer_read_options(int argc, char **argv, writer_options *options)
{
    if ((argc != 8 && argc != 9) || strcmp(argv[1], "write") != 0 ||
        !writer_number(argv[6], WRITER_THREADS_MAX, &options->threads) ||
        !writer_number(argv[7], WRITER_DEADLINE_MAX_MS, &options->deadline_ms) ||
        (argc == 9 && !writer_number(argv[8], WRITER_SESSIONS_MAX, &options->first))) {
        return false;
    }
    options->name = argv[4];
    options->folder = argv[5];
    return true;
}

int main(int argc, char **argv)
{
    writer_options options = {0};
    const char *verb = argc > 3 ? argv[1] : "";
    bool right = argc > 3 && writer_number(argv[3], WRITER_SESSIONS_MAX, &options.sessions);

    options.uri = right ? argv[2] : NULL;
    if (right && argc == 4 && strcmp(verb, "create") == 0) {
        return writer_create(&options);
    }
    if (right && argc == 4 && strcmp(verb, "dump") == 0) {
        return writer_dump(&options);
    }
    if (right && writer_read_options(argc, argv, &options)) {
        return writer_write(&options);
    }
    (void)fprintf(stderr,
                  "usage: writer create|dump URI SESSIONS\n"
                  "       writer write URI SESSIONS NAME FOLDER THREADS DEADLINE_MS [FIRST]\n");
    return 2;
}
