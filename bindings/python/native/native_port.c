/* Threads that run jobs for an event loop. They never touch the interpreter: a finished job goes to
 * a list, and one byte in a pipe wakes the loop when that list was empty.
 *
 * Most calls take less time than it takes to send a thread to sleep and to wake it. So whoever
 * submits the only job looks after it for a moment, which is all that it ever waits; a kind of call
 * that was not done by then is left alone for longer and longer. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <quipu/base.h>

#include "native_job.h"

#define PORT_THREADS_MAX 16   /* callers that share one commit; more only wait in line */
#define PORT_MOMENT_NS 150000 /* how long a submitter looks after its job */
#define PORT_HURRY_MAX 255    /* calls of a kind in a row that nobody looks after */

typedef struct port_list {
    qpy_task *first;
    qpy_task *last;
    int count;
} port_list;

/* A thread that sleeps. The one that slept last is woken first: its caches are the warmest. */
typedef struct port_sleeper {
    pthread_cond_t wake;
    bool called;
    struct port_sleeper *below;
} port_sleeper;

/* Whether calls of a kind are worth a look. */
typedef struct port_hurry {
    int left; /* calls until the next look */
    int next; /* calls without one after a look in vain */
} port_hurry;

struct qpy_port {
    pthread_mutex_t mutex; /* guards all below */
    port_list waiting;
    port_list done;
    port_sleeper *sleepers;
    port_hurry hurries[QPY_OP_COUNT];
    int threads;
    int running; /* of them, with a job */
    bool closed;
    int fds[2];
};

static void port_put(port_list *list, qpy_task *task)
{
    task->next = NULL;
    if (list->last != NULL) {
        list->last->next = task;
    } else {
        list->first = task;
    }
    list->last = task;
    list->count++;
}

static qpy_task *port_pop(port_list *list)
{
    qpy_task *task = list->first;

    if (task != NULL) {
        list->first = task->next;
        if (list->first == NULL) {
            list->last = NULL;
        }
        list->count--;
    }
    return task;
}

static void port_destroy(qpy_port *port)
{
    const quipu_allocator memory = quipu_get_allocator();
    qpy_task *task;

    while ((task = port_pop(&port->done)) != NULL) {
        qpy_job_free(&task->job);
    }
    for (int i = 0; i < 2; i++) {
        if (port->fds[i] >= 0) {
            (void)close(port->fds[i]);
        }
    }
    (void)pthread_mutex_destroy(&port->mutex);
    (void)memory.realloc(memory.ctx, port, 0);
}

static void port_wake(qpy_port *port)
{
    const char byte = 0;
    /* A full pipe is as good as a byte in it. */
    const ssize_t written = write(port->fds[1], &byte, 1);

    (void)written;
}

/* Wake the sleeper on top, if there is one. */
static bool port_call(qpy_port *port)
{
    port_sleeper *top = port->sleepers;

    if (top == NULL) {
        return false;
    }
    port->sleepers = top->below;
    top->called = true;
    (void)pthread_cond_signal(&top->wake);
    return true;
}

static void port_sleep(qpy_port *port, port_sleeper *self)
{
    self->called = false;
    self->below = port->sleepers;
    port->sleepers = self;
    while (!self->called) {
        (void)pthread_cond_wait(&self->wake, &port->mutex);
    }
}

/* Run a job outside of the lock; whoever makes the list of done ones begin wakes the loop. One that
 * is looked after is its submitter's. */
static void port_run(qpy_port *port, qpy_task *task)
{
    bool first;

    port->running++;
    (void)pthread_mutex_unlock(&port->mutex);
    qpy_job_run(&task->job);
    (void)pthread_mutex_lock(&port->mutex);
    port->running--;
    if (task->watched) {
        atomic_store(&task->done, true);
        return;
    }
    first = port->done.first == NULL;
    port_put(&port->done, task);
    if (first) {
        (void)pthread_mutex_unlock(&port->mutex);
        port_wake(port);
        (void)pthread_mutex_lock(&port->mutex);
    }
}

static void *port_main(void *context)
{
    qpy_port *port = context;
    port_sleeper self = {.called = false};
    bool last;

    (void)pthread_cond_init(&self.wake, NULL);
    (void)pthread_mutex_lock(&port->mutex);
    for (;;) {
        qpy_task *task = port_pop(&port->waiting);

        if (task != NULL) {
            port_run(port, task);
        } else if (port->closed) {
            break;
        } else {
            port_sleep(port, &self);
        }
    }
    last = --port->threads == 0;
    (void)pthread_mutex_unlock(&port->mutex);
    (void)pthread_cond_destroy(&self.wake);
    if (last) {
        port_destroy(port);
    }
    return NULL;
}

qpy_port *qpy_port_new(void)
{
    const quipu_allocator memory = quipu_get_allocator();
    qpy_port *port = memory.realloc(memory.ctx, NULL, sizeof(*port));

    if (port == NULL) {
        return NULL;
    }
    *port = (qpy_port){.fds = {-1, -1}};
    (void)pthread_mutex_init(&port->mutex, NULL);
    if (pipe(port->fds) != 0) {
        port->fds[0] = port->fds[1] = -1;
        port_destroy(port);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(port->fds[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(port->fds[i], F_SETFD, FD_CLOEXEC);
    }
    return port;
}

int qpy_port_fd(qpy_port *port)
{
    return port->fds[0];
}

/* One more thread, under the lock; signals are the interpreter's business. */
static bool port_grow(qpy_port *port)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    bool grown;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    grown = pthread_create(&thread, NULL, port_main, port) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (grown) {
        port->threads++;
        (void)pthread_detach(thread);
    }
    return grown;
}

/* Whether a job that is about to wait in line shall be looked after. */
static bool port_worth_a_look(qpy_port *port, const qpy_task *task)
{
    port_hurry *hurry = &port->hurries[task->op];

    if (hurry->left > 0) {
        hurry->left--;
        return false;
    }
    return port->running == 0 && port->waiting.count == 0 && port->done.count == 0;
}

static int64_t port_now_ns(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Look after a job for a moment; true when it is done, and the caller's again. */
static bool port_look(qpy_port *port, qpy_task *task)
{
    const int64_t end = port_now_ns() + PORT_MOMENT_NS;
    port_hurry *hurry = &port->hurries[task->op];
    bool done;

    while (!atomic_load(&task->done) && port_now_ns() < end) {
        (void)sched_yield(); /* to the thread with the job, should it want this processor */
    }
    (void)pthread_mutex_lock(&port->mutex);
    done = atomic_load(&task->done);
    task->watched = false;
    hurry->next = done ? 0 : 2 * hurry->next + 1;
    hurry->next = hurry->next > PORT_HURRY_MAX ? PORT_HURRY_MAX : hurry->next;
    hurry->left = hurry->next;
    (void)pthread_mutex_unlock(&port->mutex);
    return done;
}

int qpy_port_submit(qpy_port *port, qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;
    bool taken = true;
    bool watched;

    (void)pthread_mutex_lock(&port->mutex);
    watched = task->watched = port_worth_a_look(port, task);
    /* Threads that neither run nor sleep look for a job before they sleep. */
    if (!port_call(port) && port->threads - port->running <= port->waiting.count &&
        port->threads < PORT_THREADS_MAX) {
        taken = port_grow(port) || port->threads > 0;
    }
    if (taken) {
        port_put(&port->waiting, task);
    }
    (void)pthread_mutex_unlock(&port->mutex);
    if (!taken) {
        return -1;
    }
    return watched && port_look(port, task) ? 1 : 0;
}

qpy_job *qpy_port_take(qpy_port *port)
{
    char bytes[16];
    qpy_task *task;

    /* Bytes first: a job that is done after the list is taken writes another. Each stands for a
     * list that was empty, so there are few. */
    while (read(port->fds[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) {
    }
    (void)pthread_mutex_lock(&port->mutex);
    task = port->done.first;
    port->done = (port_list){NULL, NULL, 0};
    (void)pthread_mutex_unlock(&port->mutex);
    return task != NULL ? &task->job : NULL;
}

qpy_job *qpy_job_next(qpy_job *job)
{
    qpy_task *next = ((qpy_task *)job)->next;

    return next != NULL ? &next->job : NULL;
}

void qpy_port_free(qpy_port *port)
{
    bool last;

    if (port == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&port->mutex);
    port->closed = true;
    last = port->threads == 0;
    while (port_call(port)) {
        /* All of them look, and leave. */
    }
    (void)pthread_mutex_unlock(&port->mutex);
    if (last) {
        port_destroy(port);
    }
}
