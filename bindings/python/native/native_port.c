/* Threads that run jobs for an event loop. They never touch the interpreter: a finished job goes to
 * a list, and one byte in a pipe wakes the loop when that list was empty.  Most calls take less
 * time than waking a thread on another processor twice. So the submitter of the only job waits for
 * it briefly, and has it run on its own processor, which it yields meanwhile. When a kind of call
 * is not done in time, the next calls of that kind are not waited for; their number doubles with
 * each miss. */
#define _GNU_SOURCE /* sched_getcpu(), pthread_setaffinity_np() */
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

#define PORT_THREADS_MAX 16   /* threads beside those that wait; more would queue for a commit */
#define PORT_MOMENT_NS 200000 /* how long a submitter waits for its job */
#define PORT_HURRY_MAX 31     /* most calls of a kind that are not waited for in a row */
#define PORT_ANYWHERE (-1)    /* not a processor's number */

typedef struct port_list {
    qpy_task *first;
    qpy_task *last;
    int count;
} port_list;

/* A thread. The one that fell asleep last is woken first: its caches are the warmest. */
typedef struct port_worker {
    pthread_cond_t wake;
    bool called;
    struct port_worker *below; /* in the stack of sleepers */
    pthread_t thread;
    int processor; /* the processor that it is bound to, or PORT_ANYWHERE */
#ifdef __linux__
    cpu_set_t processors; /* its own affinity mask */
#endif
} port_worker;

/* Whether calls of a kind are waited for. */
typedef struct port_hurry {
    int left; /* calls to skip before the next wait */
    int next; /* calls to skip after the next miss */
} port_hurry;

struct qpy_port {
    pthread_mutex_t mutex; /* guards all below */
    port_list waiting;
    port_list done;
    port_worker *sleepers;
    port_hurry hurries[QPY_OP_COUNT];
    int threads;
    int running; /* of them, with a job */
    int waiters; /* jobs that wait for others, queued or running; each may have a thread more */
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
    const quipu_allocator memory = qpy_memory();
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
    /* A full pipe already wakes the loop. */
    const ssize_t written = write(port->fds[1], &byte, 1);

    (void)written;
}

/* The processor that this thread is on. */
static int port_here(void)
{
#ifdef __linux__
    return sched_getcpu();
#else
    return PORT_ANYWHERE;
#endif
}

/* Binds a thread to a processor, or restores its mask. */
static void port_bind(port_worker *worker, int processor)
{
#ifdef __linux__
    if (worker->processor != processor) {
        cpu_set_t one;

        CPU_ZERO(&one);
        if (processor != PORT_ANYWHERE) {
            CPU_SET((size_t)processor, &one);
        }
        if (pthread_setaffinity_np(worker->thread, sizeof(one),
                                   processor != PORT_ANYWHERE ? &one : &worker->processors) == 0) {
            worker->processor = processor;
        }
    }
#else
    (void)worker;
    (void)processor;
#endif
}

/* Pops the sleeper on top and binds it to a processor; NULL when all are awake. */
static port_worker *port_take_sleeper(qpy_port *port, int processor)
{
    port_worker *top = port->sleepers;

    if (top != NULL) {
        port->sleepers = top->below;
        top->called = true;
        port_bind(top, processor);
    }
    return top;
}

static void port_sleep(qpy_port *port, port_worker *self)
{
    self->called = false;
    self->below = port->sleepers;
    port->sleepers = self;
    while (!self->called) {
        (void)pthread_cond_wait(&self->wake, &port->mutex);
    }
}

/* Runs a job without the lock. A job that is waited for returns to its submitter; any other goes to
 * the list of finished jobs, and the first one in that list wakes the loop. */
static void port_run(qpy_port *port, port_worker *self, qpy_task *task)
{
    bool first;

    port->running++;
    task->by = self;
    (void)pthread_mutex_unlock(&port->mutex);
    qpy_job_run(&task->job);
    (void)pthread_mutex_lock(&port->mutex);
    port->running--;
    port->waiters -= qpy_op_waits(task->op);
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
    port_worker self = {.thread = pthread_self(), .processor = PORT_ANYWHERE};
    bool last;

    (void)pthread_cond_init(&self.wake, NULL);
#ifdef __linux__
    (void)pthread_getaffinity_np(self.thread, sizeof(self.processors), &self.processors);
#endif
    (void)pthread_mutex_lock(&port->mutex);
    for (;;) {
        qpy_task *task = port_pop(&port->waiting);

        if (task != NULL) {
            port_run(port, &self, task);
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
    const quipu_allocator memory = qpy_memory();
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

/* Starts a thread, with the lock held. Signals are blocked: the interpreter handles them. */
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

/* Whether the submitter should wait for a job that is about to be queued. */
static bool port_worth_waiting(qpy_port *port, const qpy_task *task)
{
    port_hurry *hurry = &port->hurries[task->op];

    if (hurry->left > 0) {
        hurry->left--;
        return false;
    }
    return !qpy_op_waits(task->op) && port->done.count == 0 &&
           port->running + port->waiting.count == port->waiters;
}

static int64_t port_now_ns(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits for a job briefly; true when it is done, and belongs to the caller again. Yielding is
 * cheaper than a timer. */
static bool port_wait(qpy_port *port, qpy_task *task)
{
    const int64_t end = port_now_ns() + PORT_MOMENT_NS;
    port_hurry *hurry = &port->hurries[task->op];
    bool done;

    while (!atomic_load(&task->done) && port_now_ns() < end) {
        (void)sched_yield();
    }
    (void)pthread_mutex_lock(&port->mutex);
    done = atomic_load(&task->done);
    task->watched = false;
    hurry->next = done ? 0 : 2 * hurry->next + 1;
    hurry->next = hurry->next > PORT_HURRY_MAX ? PORT_HURRY_MAX : hurry->next;
    hurry->left = hurry->next;
    if (!done && task->by != NULL) {
        port_bind(task->by, PORT_ANYWHERE);
    }
    (void)pthread_mutex_unlock(&port->mutex);
    return done;
}

int qpy_port_submit(qpy_port *port, qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;
    port_worker *sleeper;
    bool taken = true;
    bool watched;

    (void)pthread_mutex_lock(&port->mutex);
    watched = port_worth_waiting(port, task);
    task->watched = watched;
    sleeper = port_take_sleeper(port, watched ? port_here() : PORT_ANYWHERE);
    port->waiters += qpy_op_waits(task->op);
    /* Threads that neither run nor sleep check the queue before they sleep. */
    if (sleeper == NULL && port->threads - port->running <= port->waiting.count &&
        port->threads - port->waiters < PORT_THREADS_MAX) {
        taken = port_grow(port) || port->threads > 0;
    }
    if (taken) {
        port_put(&port->waiting, task);
    } else {
        port->waiters -= qpy_op_waits(task->op);
    }
    (void)pthread_mutex_unlock(&port->mutex); /* released before the woken thread needs it */
    if (sleeper != NULL) {
        (void)pthread_cond_signal(&sleeper->wake);
    }
    if (!taken) {
        return -1;
    }
    return watched && port_wait(port, task) ? 1 : 0;
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
    port_worker *sleeper;
    bool last;

    if (port == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&port->mutex);
    port->closed = true;
    last = port->threads == 0;
    while ((sleeper = port_take_sleeper(port, PORT_ANYWHERE)) != NULL) {
        (void)pthread_cond_signal(&sleeper->wake); /* it checks `closing` and exits */
    }
    (void)pthread_mutex_unlock(&port->mutex);
    if (last) {
        port_destroy(port);
    }
}
