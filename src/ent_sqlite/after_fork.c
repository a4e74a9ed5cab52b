/* A child of fork(2) may open files that its parent has open, also when another thread of the
 * parent was in the middle of a write.
 *
 * SQLite keeps what a process has locked in lists of its own, by device and number of a file,
 * because POSIX locks belong to a process and not to a descriptor. A child inherits the lists with
 * the memory, but none of the locks. By itself its connection would find the parent's entry:
 *
 *   the parent's lists say      the child would                  with the result
 *   a thread writes             wait for that thread             busy for ever
 *   a shared lock is held       take none                        others delete the log that it uses
 *   a mutex is locked           wait for a thread it lacks       it hangs
 *
 * So in a child files have another device number for SQLite: no file is in the parent's lists, and
 * each gets an entry of its own, with locks that the system knows. And a process is copied only
 * while no thread of it has one of SQLite's static mutexes. The entries of the parent stay unused,
 * with their mutexes and descriptors: to close one would drop the child's locks on that file.
 *
 * Owns: how many forks lie between this process and the one that opened the first connection.
 * Called by: open.c, before it opens a connection; the C library around fork(2).
 * Locks: SQLite's static mutexes, from before a fork until after it. */
#include "base/port.h"

#include "ent_sqlite/open.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <sqlite3.h>

#include "base/attr.h"
#include "base/thread.h"
#include "ent_sqlite/page_vfs.h"

#define AFTER_FORK_VFS "unix" /* the forms of SQLite's VFS for POSIX share their system calls */
#define AFTER_FORK_PAUSE_NS 50000
/* Bits of a device number that no device uses: Linux uses the lower 32 of 64; in a number of 32
 * bits these are the upper half of the minor. */
#define AFTER_FORK_SHIFT (sizeof(dev_t) > 4 ? 44 : 12)

/* SQLite's mutexes that are one for the process. Two are left out, which are for applications: one
 * that has its own over a fork would wait for itself. APP1 is page_vfs.c's. */
static const int after_fork_mutexes[] = {
    SQLITE_MUTEX_STATIC_MAIN, SQLITE_MUTEX_STATIC_MEM,  SQLITE_MUTEX_STATIC_OPEN,
    SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_LRU,  SQLITE_MUTEX_STATIC_PMEM,
    SQLITE_MUTEX_STATIC_APP1, SQLITE_MUTEX_STATIC_VFS1,
};
#define AFTER_FORK_MUTEXES (sizeof(after_fork_mutexes) / sizeof(after_fork_mutexes[0]))

typedef int (*after_fork_stat_fn)(const char *, struct stat *);
typedef int (*after_fork_fstat_fn)(int, struct stat *);

static qp_once after_fork_once = QP_ONCE_INIT;
static uint64_t after_fork_count;
static sqlite3_vfs *after_fork_vfs;        /* NULL: SQLite has no such VFS */
static after_fork_stat_fn after_fork_stat; /* what the VFS called before the first fork */
static after_fork_fstat_fn after_fork_fstat;

/* The number of no device, and another one after each fork. */
static void after_fork_set_apart(struct stat *info)
{
    assert(after_fork_count > 0);
    info->st_dev = (dev_t)((uint64_t)info->st_dev ^ (after_fork_count << AFTER_FORK_SHIFT));
}

static int after_fork_child_stat(const char *path, struct stat *info)
{
    const int rc = after_fork_stat(path, info);

    assert(info != NULL);
    if (rc == 0) {
        after_fork_set_apart(info);
    }
    return rc;
}

static int after_fork_child_fstat(int fd, struct stat *info)
{
    const int rc = after_fork_fstat(fd, info);

    assert(info != NULL);
    if (rc == 0) {
        after_fork_set_apart(info);
    }
    return rc;
}

static void after_fork_leave(size_t count)
{
    assert(count <= AFTER_FORK_MUTEXES);
    while (count > 0) {
        sqlite3_mutex_leave(sqlite3_mutex_alloc(after_fork_mutexes[--count]));
    }
}

/* All of them or none. A thread that has one and waits for another is let through: whatever the
 * order in which SQLite takes them, nobody waits for ever. */
static bool after_fork_try(void)
{
    for (size_t i = 0; i < AFTER_FORK_MUTEXES; i++) {
        if (sqlite3_mutex_try(sqlite3_mutex_alloc(after_fork_mutexes[i])) != SQLITE_OK) {
            after_fork_leave(i);
            return false;
        }
    }
    return true;
}

/* SQLite holds these mutexes for moments. */
static void after_fork_before(void)
{
    const struct timespec pause = {.tv_nsec = AFTER_FORK_PAUSE_NS};

    while (!after_fork_try()) {
        (void)nanosleep(&pause, NULL);
    }
}

static void after_fork_parent(void)
{
    after_fork_leave(AFTER_FORK_MUTEXES);
}

/* The child's only thread; the system calls are set once and stay. */
static void after_fork_child(void)
{
    if (++after_fork_count == 1 && after_fork_vfs != NULL) {
        int rc QP_UNUSED = after_fork_vfs->xSetSystemCall(
            after_fork_vfs, "stat", (sqlite3_syscall_ptr)after_fork_child_stat);
        assert(rc == SQLITE_OK);
        rc = after_fork_vfs->xSetSystemCall(after_fork_vfs, "fstat",
                                            (sqlite3_syscall_ptr)after_fork_child_fstat);
        assert(rc == SQLITE_OK);
    }
    after_fork_leave(AFTER_FORK_MUTEXES);
}

/* Registered once a process. Every SQLite that quipu runs on lets its calls be replaced; one for
 * another kind of system has no such VFS, and no such lists. */
static void after_fork_setup(void)
{
    int rc QP_UNUSED = 0;

    after_fork_vfs = sqlite3_vfs_find(AFTER_FORK_VFS);
    if (after_fork_vfs != NULL) {
        after_fork_stat =
            (after_fork_stat_fn)after_fork_vfs->xGetSystemCall(after_fork_vfs, "stat");
        after_fork_fstat =
            (after_fork_fstat_fn)after_fork_vfs->xGetSystemCall(after_fork_vfs, "fstat");
        assert(after_fork_stat != NULL && after_fork_fstat != NULL);
    }
    rc = pthread_atfork(after_fork_before, after_fork_parent, after_fork_child);
    assert(rc == 0);
}

/* Two copies of this library in a process would wait for each other's mutexes when it forks. The
 * page layer belongs to one of them, which alone may open files. */
void qp_sqlite_prepare_fork(void)
{
    if (qp_page_vfs(NULL) != NULL) {
        qp_once_run(&after_fork_once, after_fork_setup);
    }
}
