/* News of other processes' commits: the system tells when the database or its log is written. The
 * log comes and goes with its last connection, so the folder is watched for its return. Linux only;
 * elsewhere there are no news, and whoever waits asks. */
#include "ent/change_watch.h"

#include "ent_sqlite/open.h"

#if defined(__linux__)

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#define NEWS_EVENTS_BYTES 4096 /* events read at once; one has at most NAME_MAX bytes and a head */

typedef struct change_watch {
    int events; /* inotify */
    int bell;   /* eventfd, rung to end a wait */
    int folder; /* watch of the folder */
    char path[QP_SQLITE_PATH_MAX];
    char log[QP_SQLITE_PATH_MAX];
} change_watch;

/* Watch both files; to watch one again is the same watch. A log that does not exist yet is noticed
 * by the folder's watch. */
static bool change_watch_watch_files(const change_watch *self)
{
    bool watched = inotify_add_watch(self->events, self->path, IN_MODIFY) >= 0;

    (void)inotify_add_watch(self->events, self->log, IN_MODIFY);
    return watched;
}

static const char *change_watch_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static bool change_watch_watch(change_watch *self)
{
    char folder[QP_SQLITE_PATH_MAX];
    size_t n = (size_t)(change_watch_name(self->path) - self->path);

    memcpy(folder, self->path, n);
    folder[n] = '\0'; /* ends with a slash: it is a folder, or nothing */
    self->folder = inotify_add_watch(self->events, folder, IN_CREATE | IN_MOVED_TO);
    return self->folder >= 0 && change_watch_watch_files(self);
}

static void change_watch_close(void *ctx)
{
    change_watch *self = ctx;

    if (self->events >= 0) {
        (void)close(self->events);
    }
    if (self->bell >= 0) {
        (void)close(self->bell);
    }
    qp_free(self);
}

static void *change_watch_open(void *conn)
{
    const char *path = sqlite3_db_filename(((qp_sqlite *)conn)->db, "main");
    const char *log = path != NULL && path[0] == '/' ? sqlite3_filename_wal(path) : NULL;
    change_watch *self =
        log != NULL && strlen(log) < QP_SQLITE_PATH_MAX ? qp_calloc(1, sizeof(*self)) : NULL;

    if (self == NULL) {
        return NULL;
    }
    memcpy(self->path, path, strlen(path) + 1);
    memcpy(self->log, log, strlen(log) + 1);
    self->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    self->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->events < 0 || self->bell < 0 || !change_watch_watch(self)) {
        change_watch_close(self);
        return NULL;
    }
    return self;
}

/* Whether an event is about our files. In the folder others come and go too. */
static bool change_watch_is_ours(const change_watch *self, const struct inotify_event *event)
{
    return event->wd != self->folder || event->len == 0 ||
           strcmp(event->name, change_watch_name(self->log)) == 0 ||
           strcmp(event->name, change_watch_name(self->path)) == 0;
}

/* Read what has come; whether something is about our files. */
static bool change_watch_read(change_watch *self)
{
    _Alignas(struct inotify_event) char events[NEWS_EVENTS_BYTES];
    bool ours = false;
    ssize_t n;

    while ((n = read(self->events, events, sizeof(events))) > 0) {
        for (size_t at = 0; at < (size_t)n;) {
            const struct inotify_event *event = (const void *)(events + at);
            bool mine = change_watch_is_ours(self, event);
            if (mine && (event->mask & IN_MODIFY) == 0) {
                (void)change_watch_watch_files(self); /* came, went, or events were lost */
            }
            ours = ours || mine;
            at += sizeof(*event) + event->len;
        }
    }
    return ours;
}

/* Milliseconds until then, rounded up: to wake too early would be to wake twice. */
static int change_watch_patience_ms(int64_t until_ns)
{
    int64_t left_ns;

    if (until_ns == INT64_MAX) {
        return -1;
    }
    left_ns = until_ns - qp_clock_ns();
    if (left_ns <= 0) {
        return 0;
    }
    return left_ns / QP_NS_PER_MS >= INT_MAX ? INT_MAX : (int)(left_ns / QP_NS_PER_MS) + 1;
}

static bool change_watch_wait(void *ctx, int64_t until_ns)
{
    change_watch *self = ctx;
    struct pollfd fds[] = {{self->events, POLLIN, 0}, {self->bell, POLLIN, 0}};
    uint64_t rung = 0;

    if (poll(fds, sizeof(fds) / sizeof(fds[0]), change_watch_patience_ms(until_ns)) <= 0) {
        return false; /* the time, or a signal: the caller looks at the clock */
    }
    if (fds[1].revents != 0) {
        (void)!read(self->bell, &rung, sizeof(rung));
    }
    return fds[0].revents != 0 && change_watch_read(self);
}

static void change_watch_wake(void *ctx)
{
    const uint64_t once = 1;

    /* Fails only when it has been rung 2^64 - 2 times already. */
    (void)!write(((change_watch *)ctx)->bell, &once, sizeof(once));
}

#else

static void *change_watch_open(void *conn)
{
    (void)conn;
    return NULL;
}

static bool change_watch_wait(void *self, int64_t until_ns)
{
    (void)self;
    (void)until_ns;
    return false;
}

static void change_watch_wake(void *self)
{
    (void)self;
}

static void change_watch_close(void *self)
{
    (void)self;
}

#endif

const qp_change_watch_source qp_sqlite_change_watch = {
    .version = 1,
    .open = change_watch_open,
    .wait = change_watch_wait,
    .wake = change_watch_wake,
    .close = change_watch_close,
};
