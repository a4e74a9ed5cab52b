/* The workers: a bounded queue of jobs and the threads that run them. The loop submits and is woken
 * when jobs are done; it never waits for a store. */
#ifndef QP_SERVER_POOL_H
#define QP_SERVER_POOL_H

#include <stddef.h>

#include "base/thread.h"

/* A job. `run` is called on a worker, unless the pool stops before its turn comes; then `done` on
 * the loop's thread. Between the two calls of the loop, submit and done, the job belongs to the
 * pool. */
typedef struct qp_job {
    struct qp_job *next;
    void *owner;  /* what it works for */
    bool has_run; /* for `done` */
    /* Set by `run`: nobody waits for `done`, which may come when the loop wakes for another reason,
     * unless the loop awaits it (qp_pool_await()). */
    bool is_quiet;
    bool is_awaited;
    void (*run)(struct qp_job *job);
    void (*done)(struct qp_job *job);
} qp_job;

typedef struct qp_job_list {
    qp_job *first;
    qp_job *last;
    size_t count;
} qp_job_list;

typedef struct qp_pool {
    qp_mutex mutex;
    qp_cond work;      /* the queue is not empty, or the pool stops */
    qp_job_list queue; /* under the mutex, as what follows */
    qp_job_list finished;
    size_t busy;   /* workers at a job */
    bool is_woken; /* the loop was woken and has not taken `finished` since */
    bool stops;
    size_t queue_max;
    int wake_fd; /* gets a byte when the loop is to take `finished` */
    qp_thread *threads;
    size_t thread_count;
} qp_pool;

QUIPU_MUST_USE quipu_status qp_pool_start(qp_pool *pool, size_t threads, size_t queue_max,
                                          int wake_fd, quipu_error *reterr);

/* Queues a job; false: the queue is full. */
QUIPU_MUST_USE bool qp_pool_submit(qp_pool *pool, qp_job *job);

/* Calls `done` of the jobs that have run. On the loop's thread. */
void qp_pool_finish(qp_pool *pool);

/* The same where the loop waits for this job: if it has not run yet, it will wake the loop even if
 * it is quiet. */
void qp_pool_await(qp_pool *pool, qp_job *job);

/* How many jobs wait for a worker. */
size_t qp_pool_waiting(qp_pool *pool);

/* Whether a worker would take a job at once. */
bool qp_pool_is_free(qp_pool *pool);

/* Ends the workers behind the jobs that they are at; what is queued is not run. Then calls `done`
 * of all. */
void qp_pool_stop(qp_pool *pool);

#endif
