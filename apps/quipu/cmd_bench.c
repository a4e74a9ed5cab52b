/* quipu bench: a short version of the project's benchmarks, on the disk of the store. Works in
 * files of its own beside the store and deletes them; leftovers of killed runs are deleted by the
 * next. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#define BENCH_SAMPLES_MAX 20000 /* for one figure */
#define BENCH_SAMPLES_MIN 20
#define BENCH_SECONDS 4 /* for all figures together, by default */
#define BENCH_SECONDS_MAX 600
#define BENCH_MESSAGES 10000 /* in the session that is read */
#define BENCH_LAST 50
#define BENCH_TOKENS 4000
#define BENCH_PAGE 4096
#define BENCH_MARK ".bench-"
#define BENCH_KEY QUIPU_STR("bench")

static const app_option bench_options[] = {
    {.name = "seconds", .value = "N", .help = "how long to measure; default: 4"},
    {.name = NULL},
};

/* The figures, in the order of the table. */
typedef enum bench_kind {
    BENCH_SYNC,
    BENCH_NORMAL,
    BENCH_FULL,
    BENCH_LAST_50,
    BENCH_WINDOW,
    BENCH_KINDS
} bench_kind;

static const struct {
    const char *name;
    const char *text;
} bench_names[BENCH_KINDS] = {
    [BENCH_SYNC] = {"sync", "a page written and synced, without quipu"},
    [BENCH_NORMAL] = {"append_normal", "append, relaxed: survives a crash"},
    [BENCH_FULL] = {"append_full", "append, durable: survives a power cut"},
    [BENCH_LAST_50] = {"last_50", "the last 50 of 10000 messages"},
    [BENCH_WINDOW] = {"window", "the window of 4000 tokens"},
};

typedef struct bench_figure {
    size_t samples;
    double p50_us;
    double p99_us;
    double per_s;
} bench_figure;

typedef struct bench_run {
    const app_call *call;
    char path[APP_PATH_MAX]; /* of the benchmark's store */
    quipu_store *store;
    int fd; /* the file for BENCH_SYNC */
    int64_t budget_ns;
    int64_t *taken_ns;
    bench_figure figures[BENCH_KINDS];
    int64_t done; /* figures measured so far */
    app_progress progress;
} bench_run;

/* ---- operations -------------------------------------------------------------------------------
 */

static int64_t bench_now_ns(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A typical short message; about 40 tokens. */
static quipu_message bench_message(void)
{
    return (quipu_message){
        .role = QUIPU_ROLE_USER,
        .content = QUIPU_STR("The quick brown fox jumps over the lazy dog, and the dog lets it. "
                             "What would you do in its place, and why would you not do more? "
                             "Please answer in two sentences, without any word of more than ten.")};
}

/* Appends n messages (at most BENCH_LAST) in one batch. */
static quipu_status bench_append(bench_run *run, size_t n, quipu_error *reterr)
{
    quipu_message messages[BENCH_LAST];

    n = n < BENCH_LAST ? n : BENCH_LAST;
    for (size_t i = 0; i < n; i++) {
        messages[i] = bench_message();
    }
    return quipu_message_append(run->store, BENCH_KEY, quipu_messages_of(messages, n), NULL, NULL,
                                NULL, reterr);
}

/* Syncs as SQLite does: macOS has no fdatasync(2), and its fsync(2) stops at the drive's cache. */
static bool bench_sync_file(int fd)
{
#if defined(__APPLE__)
    return fcntl(fd, F_FULLFSYNC) != -1;
#else
    return fdatasync(fd) == 0;
#endif
}

/* The disk's own latency: one page and its sync, as a floor for a durable append. */
static quipu_status bench_sync(bench_run *run, quipu_error *reterr)
{
    char page[BENCH_PAGE];

    memset(page, 'x', sizeof(page));
    if (write(run->fd, page, sizeof(page)) == (ssize_t)sizeof(page) && bench_sync_file(run->fd)) {
        return QUIPU_OK;
    }
    snprintf(reterr->message, sizeof(reterr->message), "cannot write beside the store: error %d",
             errno);
    return errno == ENOSPC ? QUIPU_FULL : QUIPU_IO;
}

/* The newest messages of a long session. */
static quipu_status bench_last(bench_run *run, quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.flags = QUIPU_RANGE_LAST;
    range.limit = BENCH_LAST;
    status = quipu_session_get(run->store, BENCH_KEY, &range, NULL, &history, reterr);
    quipu_free(history);
    return status;
}

/* Found by running totals, not by reading backwards. */
static quipu_status bench_window(bench_run *run, quipu_error *reterr)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_status status;

    options.token_budget = BENCH_TOKENS;
    status = quipu_window_read(run->store, BENCH_KEY, &options, NULL, &window, reterr);
    quipu_free(window);
    return status;
}

/* One operation of a figure. */
static quipu_status bench_once(bench_run *run, bench_kind kind, quipu_error *reterr)
{
    switch (kind) {
    case BENCH_SYNC:
        return bench_sync(run, reterr);
    case BENCH_LAST_50:
        return bench_last(run, reterr);
    case BENCH_WINDOW:
        return bench_window(run, reterr);
    default:
        return bench_append(run, 1, reterr);
    }
}

static int bench_compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Repeats until the time is up, but at least BENCH_SAMPLES_MIN times, then sorts for the
 * percentiles. */
static quipu_status bench_measure(bench_run *run, bench_kind kind, quipu_error *reterr)
{
    const int64_t begun = bench_now_ns();
    quipu_status status = QUIPU_OK;
    int64_t before = begun;
    size_t n = 0;

    while (n < BENCH_SAMPLES_MAX && !app_signals_came() &&
           (n < BENCH_SAMPLES_MIN || before - begun < run->budget_ns)) {
        status = bench_once(run, kind, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
        const int64_t now = bench_now_ns();
        run->taken_ns[n++] = now - before;
        before = now;
    }
    if (n < BENCH_SAMPLES_MIN) {
        return QUIPU_CANCELLED;
    }
    qsort(run->taken_ns, n, sizeof(run->taken_ns[0]), bench_compare);
    const int64_t half = run->taken_ns[n / 2];
    const int64_t slow = run->taken_ns[n - 1 - n / 100];
    run->figures[kind] = (bench_figure){.samples = n,
                                        .p50_us = (double)half / 1000,
                                        .p99_us = (double)slow / 1000,
                                        .per_s = (double)n / ((double)(before - begun) / 1e9)};
    return QUIPU_OK;
}

/* ---- the files --------------------------------------------------------------------------------
 */

/* Deletes a store with its log files. */
static void bench_remove(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-journal", NULL};
    char name[APP_PATH_MAX + 16];

    for (size_t i = 0; tails[i] != NULL; i++) {
        snprintf(name, sizeof(name), "%s%s", path, tails[i]);
        (void)unlink(name);
    }
}

/* Deletes leftovers of killed runs. */
static void bench_sweep(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-journal", NULL};

    for (size_t i = 0; tails[i] != NULL; i++) {
        app_output_sweep(path, BENCH_MARK, tails[i]);
    }
}

/* Opens the benchmark's store again with another durability. */
static quipu_status bench_open(bench_run *run, quipu_durability durability, quipu_error *reterr)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_status status;

    quipu_close(run->store);
    run->store = NULL;
    options.durability = durability;
    status = quipu_open(run->path, &options, &run->store, reterr);
    values.key = BENCH_KEY;
    values.flags = QUIPU_CREATE_OR_GET;
    return status == QUIPU_OK ? quipu_session_create(run->store, &values, NULL, NULL, reterr)
                              : status;
}

/* The session that the read figures need. */
static quipu_status bench_fill(bench_run *run, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (int n = 0; n < BENCH_MESSAGES && status == QUIPU_OK; n += BENCH_LAST) {
        status = bench_append(run, BENCH_LAST, reterr);
    }
    return status;
}

/* ---- the figures ------------------------------------------------------------------------------
 */

/* Measures one figure and advances the bar. */
static quipu_status bench_next(bench_run *run, bench_kind kind, quipu_error *reterr)
{
    quipu_status status = bench_measure(run, kind, reterr);

    app_progress_to(&run->progress, ++run->done);
    return status;
}

/* Durable appends first: they leave the fewest messages behind for the rest. */
static quipu_status bench_stores(bench_run *run, quipu_error *reterr)
{
    quipu_status status = bench_open(run, QUIPU_DURABLE, reterr);

    if (status == QUIPU_OK) {
        status = bench_next(run, BENCH_FULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = bench_open(run, QUIPU_RELAXED, reterr);
    }
    if (status == QUIPU_OK) {
        status = bench_next(run, BENCH_NORMAL, reterr);
    }
    if (status == QUIPU_OK) {
        status = bench_fill(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = bench_next(run, BENCH_LAST_50, reterr);
    }
    if (status == QUIPU_OK) {
        status = bench_next(run, BENCH_WINDOW, reterr);
    }
    quipu_close(run->store);
    bench_remove(run->path);
    return status;
}

/* O_EXCL: never measures into a file that exists. */
static quipu_status bench_all(bench_run *run, quipu_error *reterr)
{
    quipu_status status;

    run->fd = open(run->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (run->fd < 0) {
        snprintf(reterr->message, sizeof(reterr->message), "no file can be created there");
        return QUIPU_IO;
    }
    status = bench_next(run, BENCH_SYNC, reterr);
    close(run->fd);
    bench_remove(run->path);
    return status == QUIPU_OK ? bench_stores(run, reterr) : status;
}

/* JSON names are stable; the texts of the table are not. */
static void bench_print(const bench_run *run, const char *path)
{
    app_json json = {.out = stdout};

    if (app_given(run->call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "beside", path);
        app_json_cstr(&json, "version", quipu_version());
        for (int i = 0; i < BENCH_KINDS; i++) {
            app_json_open(&json, bench_names[i].name, '{');
            app_json_int(&json, "samples", (int64_t)run->figures[i].samples);
            app_json_double(&json, "p50_us", run->figures[i].p50_us);
            app_json_double(&json, "p99_us", run->figures[i].p99_us);
            app_json_double(&json, "per_s", run->figures[i].per_s);
            app_json_close(&json, '}');
        }
        app_json_close(&json, '}');
        return;
    }
    printf("%-41s %9s %9s %10s\n", "", "p50", "p99", "a second");
    for (int i = 0; i < BENCH_KINDS; i++) {
        printf("%-41s %6.0f us %6.0f us %10.0f\n", bench_names[i].text, run->figures[i].p50_us,
               run->figures[i].p99_us, run->figures[i].per_s);
    }
}

/* The benchmark's files are named after the process, so that several can run. */
static int bench_verb(const app_call *call)
{
    bench_run run = {.call = call};
    char path[APP_PATH_MAX];
    quipu_error error = {0};
    quipu_status status;
    int64_t seconds = BENCH_SECONDS;
    int n;

    if (!app_number(call, "seconds", 1, BENCH_SECONDS_MAX, &seconds)) {
        return APP_USAGE;
    }
    if (!app_store_path(call, true, path)) {
        return APP_FAILURE;
    }
    if (strstr(path, "://") != NULL || strcmp(path, ":memory:") == 0) {
        return app_usage(call, "%s is not a file: give --store a path on the disk to measure",
                         path);
    }
    n = snprintf(run.path, sizeof(run.path), "%s%s%ld", path, BENCH_MARK, (long)getpid());
    run.taken_ns = calloc(BENCH_SAMPLES_MAX, sizeof(*run.taken_ns));
    if (n < 0 || n >= (int)sizeof(run.path) || run.taken_ns == NULL) {
        free(run.taken_ns);
        return app_fail(call, path, n >= (int)sizeof(run.path) ? QUIPU_LIMIT : QUIPU_NOMEM, NULL);
    }
    (void)app_signals_begin();
    bench_sweep(path);
    run.budget_ns = seconds * 1000000000 / BENCH_KINDS;
    app_progress_begin(&run.progress, call, "measuring", "figures", BENCH_KINDS);
    status = bench_all(&run, &error);
    app_progress_end(&run.progress);
    free(run.taken_ns);
    if (status != QUIPU_OK) {
        return app_fail(call, run.path, status, &error);
    }
    bench_print(&run, path);
    return APP_OK;
}

const app_verb app_verb_bench = {
    .name = "bench",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "measure appends and reads on the disk of the store",
    .note = "Examples:\n"
            "  quipu bench --seconds 1\n"
            "  quipu bench --seconds 1 --json",
    .common = APP_STORE | APP_JSON | APP_QUIET,
    .options = bench_options,
    .run = bench_verb,
};
