/* One wait for all tails: a thread that waits until the store changes, by this process or by
 * another, and wakes the loop, which then looks at its streams (stream.c). Idle streams cost
 * nothing meanwhile.
 *
 *   quipu_change_wait() ──changed──▶ server->changes ──a byte in the pipe──▶ the loop
 *
 * Owns: the thread and its cancel flag. Started by the first stream, on the loop's thread, and
 * stopped when the loop has ended. The number of changes is the only thing that both threads touch.
 * */
#include <assert.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"

#define WATCH_WAIT_MS 60000 /* of one call; nothing depends on it */
#define WATCH_RETRY_MS 500  /* after a failed wait, which counts as a change */

/* A byte in the pipe wakes the loop; a full pipe has woken it already. */
static void watch_wake(qp_server *server, int64_t changes)
{
    ssize_t n;

    atomic_store(&server->changes, changes);
    n = write(server->wake_fds[1], "", 1);
    (void)n;
}

/* The loop of the thread. A store that cannot be asked is tried again after a moment, and the
 * streams look by the clock meanwhile. */
static void *watch_run(void *arg)
{
    const struct timespec pause = {0, WATCH_RETRY_MS * 1000000L};
    qp_server *server = arg;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;
    int64_t seen = 0;
    int64_t failures = 0;

    call.cancel = server->watch_cancel;
    while (status != QUIPU_CANCELLED) {
        int64_t now = seen;
        quipu_error error;

        status = quipu_change_wait(server->store, seen, WATCH_WAIT_MS, &call, &now, &error);
        if (status != QUIPU_OK && status != QUIPU_CANCELLED) {
            failures++; /* nobody knows what was missed: the streams look */
            (void)nanosleep(&pause, NULL);
            watch_wake(server, now + failures);
        } else if (now != seen) {
            seen = now;
            watch_wake(server, seen + failures);
        }
    }
    return NULL;
}

/* With the first stream and not with the server: the first wait makes the store count commits,
 * which servers without tails need not pay for. */
void qp_watch_start(qp_server *server)
{
    if (server->watch_runs) {
        return;
    }
    server->watch_cancel = server->watch_cancel != NULL ? server->watch_cancel : quipu_cancel_new();
    server->watch_runs = server->watch_cancel != NULL &&
                         qp_thread_start(&server->watch, watch_run, server) == QUIPU_OK;
}

/* The flag ends a wait at once; the store is the caller's and outlives the thread. */
void qp_watch_stop(qp_server *server)
{
    if (server->watch_runs) {
        quipu_cancel_set(server->watch_cancel);
        (void)qp_thread_join(server->watch);
        server->watch_runs = false;
    }
    quipu_free(server->watch_cancel);
    server->watch_cancel = NULL;
}
