/* A thread that sleeps until jobs of an environment are done, and then asks the environment's thread
 * to settle their promises. It is started with the first call that is not done at once, and ends with
 * the environment. It touches the port's descriptor, the pipe, the semaphore and `wake`, all of which
 * live until it was joined.
 *
 *   port: a job is done ──byte──▶ watcher ──wake──▶ environment's thread: node_take()
 *                                    ▲                          │
 *                                    └──────── taken ◀──────────┘   then it looks again */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "addon.h"

static void *watch_main(void *context)
{
    node_state *state = context;

    for (;;) {
        struct pollfd fds[] = {
            {.fd = qpy_port_fd(state->port), .events = POLLIN},
            {.fd = state->stop[0], .events = POLLIN},
        };

        if (poll(fds, 2, -1) < 0) {
            continue; /* a signal of somebody else's */
        }
        if (fds[1].revents != 0) {
            return NULL;
        }
        if (napi_call_threadsafe_function(state->wake, NULL, napi_tsfn_blocking) != napi_ok) {
            return NULL; /* the environment ends, and takes what is done by itself */
        }
        while (sem_wait(&state->taken) != 0) {
        }
    }
}

/* Without an environment Node empties its queue after addon_end(): the state may be gone, and the
 * watcher has been joined. */
void node_wake(napi_env env, napi_value callback, void *context, void *data)
{
    node_state *state = context;

    (void)callback;
    (void)data;
    if (env == NULL) {
        return;
    }
    if (!state->ended) {
        node_take(state);
    }
    (void)sem_post(&state->taken);
}

bool node_watch(node_state *state)
{
    sigset_t all;
    sigset_t before;

    if (state->watching) {
        return true;
    }
    if (state->stop[0] < 0 && pipe(state->stop) != 0) {
        return false;
    }
    (void)sigfillset(&all); /* signals are Node's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    state->watching = pthread_create(&state->watcher, NULL, watch_main, state) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return state->watching;
}

void node_watch_end(node_state *state)
{
    if (state->watching) {
        const ssize_t written = write(state->stop[1], "", 1);

        (void)written;
        (void)sem_post(&state->taken);
        (void)pthread_join(state->watcher, NULL);
        state->watching = false;
    }
    for (int i = 0; i < 2; i++) {
        if (state->stop[i] >= 0) {
            (void)close(state->stop[i]);
        }
    }
}
