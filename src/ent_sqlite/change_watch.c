/* The change watch: wakes a waiting thread when another process writes to the database file or its
 * log.
 *
 * Owns: an inotify descriptor that watches both files and their folder, and an eventfd to end a
 * wait.
 * Called by: src/ent/change_watch.c; one thread waits, any thread wakes it.
 * Locks: none. The watch outlives the connection it was opened from.
 *
 * The log is deleted when its last connection closes and created by the next one, so that the
 * folder is watched for its return. An event may come before the commit it belongs to is visible:
 * the caller reads the data version. Linux only; on other systems the caller polls.
 */
#include "base/port.h"

#include "ent/change_watch.h"

#include "ent_sqlite/open.h"

#if QP_LINUX

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#define CHANGE_WATCH_EVENTS_BYTES 4096 /* read at once; an event takes at most 16 + NAME_MAX + 1 */

typedef struct change_watch {
    int inotify_fd;
    int wake_fd;                   /* an eventfd: readable ends the wait */
    int folder;                    /* the folder's watch descriptor */
    char path[QP_SQLITE_PATH_MAX]; /* of the database */
    char log[QP_SQLITE_PATH_MAX];  /* of its write-ahead log */
} change_watch;

/* Watches both files; adding one twice gives the same watch. A log that does not exist yet is
 * noticed by the folder's watch. False: the database itself cannot be watched. */
static bool change_watch_watch_files(const change_watch *self)
{
    bool watched = inotify_add_watch(self->inotify_fd, self->path, IN_MODIFY) >= 0;

    assert(self->inotify_fd >= 0);
    (void)inotify_add_watch(self->inotify_fd, self->log, IN_MODIFY);
    return watched;
}

/* The file name of an absolute path. */
static const char *change_watch_name(const char *path)
{
    assert(path[0] == '/');
    return strrchr(path, '/') + 1;
}

/* Watches the folder and the files. The trailing slash makes a path that is not a folder fail. */
static bool change_watch_watch(change_watch *self)
{
    char folder[QP_SQLITE_PATH_MAX];
    size_t n = (size_t)(change_watch_name(self->path) - self->path);

    assert(self->inotify_fd >= 0);
    memcpy(folder, self->path, n);
    folder[n] = '\0';
    self->folder = inotify_add_watch(self->inotify_fd, folder, IN_CREATE | IN_MOVED_TO);
    return self->folder >= 0 && change_watch_watch_files(self);
}

/* Closes a half-open watch, too. */
static void change_watch_close(void *ctx)
{
    change_watch *self = ctx;

    assert(self != NULL);
    if (self->inotify_fd >= 0) {
        (void)close(self->inotify_fd);
    }
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
    qp_free(self);
}

/* NULL: a database in memory, no inotify left (fs.inotify.max_user_instances), or no memory. */
static void *change_watch_open(void *conn)
{
    const char *path = sqlite3_db_filename(((qp_sqlite *)conn)->db, "main");
    const char *log = path != NULL && path[0] == '/' ? sqlite3_filename_wal(path) : NULL;
    change_watch *self =
        log != NULL && strlen(log) < QP_SQLITE_PATH_MAX ? qp_calloc(1, sizeof(*self)) : NULL;

    assert(conn != NULL);
    if (self == NULL) {
        return NULL;
    }
    memcpy(self->path, path, strlen(path) + 1);
    memcpy(self->log, log, strlen(log) + 1);
    self->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->inotify_fd < 0 || self->wake_fd < 0 || !change_watch_watch(self)) {
        change_watch_close(self);
        return NULL;
    }
    return self;
}

/* Whether an event is about our files; other files come and go in the folder. An event without a
 * name is about a watched file itself, or says that events were lost. */
static bool change_watch_is_ours(const change_watch *self, const struct inotify_event *event)
{
    assert(event != NULL);
    return event->wd != self->folder || event->len == 0 ||
           strcmp(event->name, change_watch_name(self->log)) == 0 ||
           strcmp(event->name, change_watch_name(self->path)) == 0;
}

/* Reads all events; true: one is about our files. A file that was created or deleted, or lost
 * events, renew the watches. */
static bool change_watch_read(change_watch *self)
{
    assert(self->inotify_fd >= 0);
    _Alignas(struct inotify_event) char events[CHANGE_WATCH_EVENTS_BYTES];
    bool ours = false;
    ssize_t n;

    while ((n = read(self->inotify_fd, events, sizeof(events))) > 0) {
        for (size_t at = 0; at < (size_t)n;) {
            const struct inotify_event *event = (const void *)(events + at);
            bool mine = change_watch_is_ours(self, event);
            if (mine && (event->mask & IN_MODIFY) == 0) {
                (void)change_watch_watch_files(self);
            }
            ours = ours || mine;
            at += sizeof(*event) + event->len;
        }
    }
    return ours;
}

/* The timeout for poll(), rounded up: waking too early would mean waking twice. */
static int change_watch_poll_ms(int64_t until_ns)
{
    int64_t left_ns;

    assert(until_ns >= 0);
    if (until_ns == INT64_MAX) {
        return -1;
    }
    left_ns = until_ns - qp_clock_ns();
    if (left_ns <= 0) {
        return 0;
    }
    return left_ns / QP_NS_PER_MS >= INT_MAX ? INT_MAX : (int)(left_ns / QP_NS_PER_MS) + 1;
}

/* True: something may have changed. False: woken, timed out, or interrupted by a signal; the caller
 * looks at the clock. One thread at a time: it consumes the events. */
static bool change_watch_wait(void *ctx, int64_t until_ns)
{
    change_watch *self = ctx;
    struct pollfd fds[] = {{self->inotify_fd, POLLIN, 0}, {self->wake_fd, POLLIN, 0}};
    uint64_t rung = 0;

    assert(self != NULL);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), change_watch_poll_ms(until_ns)) <= 0) {
        return false;
    }
    if (fds[1].revents != 0) {
        (void)!read(self->wake_fd, &rung, sizeof(rung));
    }
    return fds[0].revents != 0 && change_watch_read(self);
}

/* Ends the wait of another thread, or the next wait if none is under way: the counter stays
 * readable until change_watch_wait() reads it. Safe from any thread, because it only writes to a
 * descriptor. */
static void change_watch_wake(void *ctx)
{
    const uint64_t once = 1;

    /* Fails only when the counter would overflow, after 2^64 - 2 calls. */
    (void)!write(((change_watch *)ctx)->wake_fd, &once, sizeof(once));
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
