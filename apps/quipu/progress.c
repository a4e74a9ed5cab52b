/* Progress bars with rate and time left, driven by counts or by a thread that polls.
 *
 * Owns: the state of the one bar on the terminal. Locks: progress_mutex guards the terminal line;
 * app_progress_pause() takes it and app_progress_resume() releases it, so that messages and bars
 * never mix. A bar appears only on a terminal, without --quiet, and after one second. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"

#define PROGRESS_AFTER_MS 1000
#define PROGRESS_EVERY_MS 100
#define PROGRESS_BAR_COLUMNS 20
#define PROGRESS_SHARE_MAX 0.99 /* totals are estimates: a bar never shows 100 % */
#define PROGRESS_IO_SIZE 512    /* more than /proc/self/io has: seven lines */

/* The terminal is shared by all threads: a bar is cleared before anything else is written. */
static pthread_mutex_t progress_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool progress_drawn;

static int64_t progress_now_ms(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether a bar would be shown at all. */
static bool progress_able(const app_call *call)
{
    return isatty(STDERR_FILENO) == 1 && !app_given(call, "quiet");
}

/* The statistics cost a scan of the sessions, so they are read only for a bar. */
quipu_stats app_progress_stats(const app_call *call, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    if (progress_able(call)) {
        (void)!quipu_store_stats(store, NULL, NULL, &stats, NULL);
    }
    return stats;
}

const char *app_checksums_name(quipu_checksums checksums)
{
    return checksums == QUIPU_CHECKSUMS_ON      ? "on"
           : checksums == QUIPU_CHECKSUMS_STALE ? "stale"
                                                : "off";
}

/* The bar is not drawn yet: short calls never show one. */
void app_progress_begin(app_progress *progress, const app_call *call, const char *what,
                        const char *unit, int64_t total)
{
    *progress = (app_progress){.what = what,
                               .unit = unit,
                               .total = total,
                               .able = progress_able(call),
                               .begun_ms = progress_now_ms()};
}

/* The bar itself and the percentage. */
static void progress_bar(double share)
{
    fputs(" [", stderr);
    for (int i = 0; i < PROGRESS_BAR_COLUMNS; i++) {
        fputc(i < (int)(share * PROGRESS_BAR_COLUMNS) ? '#' : '.', stderr);
    }
    fprintf(stderr, "] %3d%%", (int)(share * 100));
}

/* Amount and rate; bytes are shown as sizes. */
static void progress_rate(const app_progress *progress, int64_t done, double seconds)
{
    char size[APP_NUMBER_SIZE];
    char rate[APP_NUMBER_SIZE];

    if (strcmp(progress->unit, APP_BYTES) == 0) {
        app_size_text(done, size);
        app_size_text((int64_t)((double)done / seconds), rate);
        fprintf(stderr, ", %s, %s/s", size, rate);
    } else {
        fprintf(stderr, ", %" PRId64 " %s, %.0f/s", done, progress->unit, (double)done / seconds);
    }
}

/* Draws at most every PROGRESS_EVERY_MS. "\r" returns to the line's start, "ESC [K" clears the
 * rest. */
void app_progress_to(void *ctx, int64_t done)
{
    app_progress *progress = ctx;
    const int64_t now = progress->able ? progress_now_ms() : 0;
    const double seconds = (double)(now - progress->begun_ms) / 1000;

    if (!progress->able || now - progress->begun_ms < PROGRESS_AFTER_MS ||
        now - progress->drawn_ms < PROGRESS_EVERY_MS || done <= 0) {
        return;
    }
    progress->drawn_ms = now;
    pthread_mutex_lock(&progress_mutex);
    progress_drawn = true;
    fprintf(stderr, "\r%s", progress->what);
    if (progress->total > 0) {
        const double share = (double)done / (double)progress->total;
        const double shown = share < PROGRESS_SHARE_MAX ? share : PROGRESS_SHARE_MAX;
        progress_bar(shown);
        fprintf(stderr, ", %.0f s left", seconds / shown - seconds);
    }
    progress_rate(progress, done, seconds);
    fputs("\033[K", stderr);
    fflush(stderr);
    pthread_mutex_unlock(&progress_mutex);
}

/* Leaves the lock held; app_progress_resume() releases it. */
void app_progress_pause(void)
{
    pthread_mutex_lock(&progress_mutex);
    if (progress_drawn) {
        fputs("\r\033[K", stderr);
        progress_drawn = false;
    }
}

void app_progress_resume(void)
{
    pthread_mutex_unlock(&progress_mutex);
}

/* Pausing clears the bar. */
void app_progress_end(app_progress *progress)
{
    if (progress->able) {
        app_progress_pause();
        app_progress_resume();
    }
}

/* ---- polling ----------------------------------------------------------------------------------
 */

/* The number after a name in /proc/self/io. */
static int64_t progress_member(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    char *end = NULL;
    const int64_t value = at != NULL ? strtoll(at + strlen(name), &end, 10) : 0;

    return end != NULL && *end == '\n' ? value : 0;
}

/* The bytes that this process has read and written so far. */
static int64_t progress_traffic(void *ctx)
{
    char text[PROGRESS_IO_SIZE];
    FILE *file = fopen("/proc/self/io", "r");
    size_t n;

    (void)ctx;
    if (file == NULL) {
        return -1; /* not Linux, or no permission */
    }
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    return progress_member(text, "rchar: ") + progress_member(text, "wchar: ");
}

/* The thread: draws until the pipe is closed. */
static void *progress_watch(void *ctx)
{
    app_watch *watch = ctx;
    struct pollfd end = {.fd = watch->ends[0], .events = POLLIN};

    while (poll(&end, 1, PROGRESS_EVERY_MS) == 0) {
        app_progress_to(&watch->progress, watch->look(watch->ctx) - watch->from);
    }
    return NULL;
}

/* Without a working `look` there is no thread and no bar. */
void app_watch_begin(app_watch *watch, const app_call *call, const char *what, app_look_fn look,
                     void *ctx, int64_t total)
{
    *watch =
        (app_watch){.look = look != NULL ? look : progress_traffic, .ctx = ctx, .ends = {-1, -1}};
    app_progress_begin(&watch->progress, call, what, APP_BYTES, total);
    watch->from = watch->progress.able && look == NULL ? watch->look(ctx) : 0;
    if (watch->progress.able && watch->from >= 0 && pipe(watch->ends) == 0) {
        watch->watching = pthread_create(&watch->thread, NULL, progress_watch, watch) == 0;
        if (!watch->watching) {
            close(watch->ends[0]);
            close(watch->ends[1]);
        }
    }
}

/* The thread is joined before `watch` goes out of scope. */
void app_watch_end(app_watch *watch)
{
    if (watch->watching) {
        close(watch->ends[1]);
        (void)pthread_join(watch->thread, NULL);
        close(watch->ends[0]);
        watch->watching = false;
    }
    app_progress_end(&watch->progress);
}
