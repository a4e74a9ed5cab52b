/* Four processes that append to one file at once, each to a session of its own: ours against
 * raw_same. Every append that fails ends its process, and so the bench, without a result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/benches.h"
#include "bench/store_sides.h"

#define PROCESSES 4
#define PROCESSES_NS UINT64_C(200000000) /* of a block */
#define PROCESSES_READY_NS 50000000      /* until all have opened the file */
#define PROCESSES_APPENDS_MAX 65536      /* of one process in one block */

/* One block: the appends of all processes in the same span of time. */
typedef struct processes_block {
    const char *path;
    bool ours;
    uint64_t start;
    uint64_t *ns; /* of each append, of all processes */
    size_t n;
} processes_block;

static void processes_write(int fd, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno != EINTR) {
            bench_die("a pipe: error %d", errno);
        }
        if (done > 0) {
            at += done;
            n -= (size_t)done;
        }
    }
}

/* The work of a process: appends until the time is up, then writes the duration of each append. */
static void processes_child(const processes_block *block, uint64_t number, int fd)
{
    quipu_store *store = block->ours ? wall_open(block->path, false) : NULL;
    same_db *same = block->ours ? NULL : same_open(block->path, false);
    uint64_t *ns = bench_alloc(PROCESSES_APPENDS_MAX * sizeof(*ns));
    char key_text[STORE_KEY_SIZE];
    char text[WALL_TEXT + 1];
    quipu_str key = sides_key(number, key_text);
    size_t n = 0;

    while (wall_now() < block->start) {
        (void)usleep(200);
    }
    for (uint64_t at = wall_now(); at < block->start + PROCESSES_NS && n < PROCESSES_APPENDS_MAX;) {
        quipu_str content = wall_text(n, text);
        if (block->ours) {
            wall_append(store, key, content);
        } else {
            same_begin(same);
            same_append(same, key, content);
            same_commit(same);
        }
        uint64_t end = wall_now();
        ns[n++] = end - at;
        at = end;
    }
    processes_write(fd, ns, n * sizeof(*ns));
    if (block->ours) {
        quipu_close(store);
    } else {
        same_close(same);
    }
    free(ns);
}

static pid_t processes_start(const processes_block *block, uint64_t number, int *ret_fd)
{
    int fds[2];
    pid_t pid = 0;

    (void)fflush(stdout);
    if (pipe(fds) != 0 || (pid = fork()) < 0) {
        bench_die("no process: error %d", errno);
    }
    if (pid == 0) {
        (void)close(fds[0]);
        processes_child(block, number, fds[1]);
        _exit(0);
    }
    (void)close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

static void processes_read(processes_block *block, int fd)
{
    char *at = (char *)(block->ns + block->n);
    size_t bytes = 0;
    ssize_t got = 0;

    do {
        got = read(fd, at + bytes, PROCESSES_APPENDS_MAX * sizeof(*block->ns) - bytes);
        bytes += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    (void)close(fd);
    block->n += bytes / sizeof(*block->ns);
}

/* Nanoseconds an append. The parent has no store open: a store is not for a forked child. */
static double processes_run(processes_block *block)
{
    pid_t pids[PROCESSES];
    int fds[PROCESSES];

    block->start = wall_now() + PROCESSES_READY_NS;
    block->n = 0;
    for (uint64_t i = 0; i < PROCESSES; i++) {
        pids[i] = processes_start(block, i + 1, &fds[i]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        processes_read(block, fds[i]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        if (waitpid(pids[i], &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            bench_die("one of the processes failed");
        }
    }
    if (block->n == 0) {
        bench_die("nothing was appended");
    }
    return (double)PROCESSES_NS / (double)block->n;
}

static void processes_make(const char *path)
{
    quipu_store *store = wall_open(path, false);
    char key[STORE_KEY_SIZE];

    for (uint64_t i = 1; i <= PROCESSES; i++) {
        wall_fill(store, sides_key(i, key), 10);
    }
    quipu_close(store);
}

void bench_store_processes(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    uint64_t *ns = bench_alloc(PROCESSES * PROCESSES_APPENDS_MAX * sizeof(*ns));
    char paths[2][STORE_PATH_MAX];
    processes_block block = {.ns = ns};

    store_path(arguments->folder, "processes_same.db", paths[0]);
    store_path(arguments->folder, "processes_ours.db", paths[1]);
    processes_make(paths[0]);
    processes_make(paths[1]);
    for (size_t i = 0; i < 2 * blocks; i++) {
        block.ours = (i % 2 == 0) == (i / 2 % 2 == 0); /* who goes first alternates */
        block.path = paths[block.ours];
        times[block.ours ? i / 2 : blocks + i / 2] = processes_run(&block);
    }
    wall_print("store.append_4_processes", "raw_same in 4 processes",
               "NORMAL, a session each, no append failed", BENCH_SPEED_RATIO, times, times + blocks,
               blocks);
    block.ours = true;
    block.path = paths[1];
    (void)processes_run(&block);
    wall_print_latency("store.append_4_processes", ns, block.n, "ours, one block, NORMAL");
    free(times);
    free(ns);
}
