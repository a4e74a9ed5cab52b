/* The workers (pool.h).
 *
 *    loop: submit ─▶ queue ─▶ worker: run ─▶ finished ─▶ loop: done
 *                                               └ a byte wakes the loop, unless the job is quiet
 *
 * Owns: the threads and both lists. Called by: the loop's thread; workers run pool_work(). Locks:
 * one mutex guards both lists, the count and `stops`; it is held for a few instructions and never
 * while a job runs. Holds on return of qp_pool_stop(): no thread is left, and `done` of every job
 * was called once. */
#include "server/pool.h"

#include <assert.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* Appends to a list; first in, first out, so that no request waits for later ones.
 * The caller holds the mutex. A job is in one list at most: it is linked by its own member, so that
 * queueing allocates nothing and cannot fail. */
static void pool_put(qp_job_list *list, qp_job *job)
{
    job->next = NULL;
    if (list->last != NULL) {
        list->last->next = job;
    } else {
        list->first = job;
    }
    list->last = job;
    list->count++;
}

/* NULL: the list is empty. */
static qp_job *pool_take(qp_job_list *list)
{
    qp_job *job = list->first;

    if (job != NULL) {
        list->first = job->next;
        list->last = list->first != NULL ? list->last : NULL;
        list->count--;
    }
    return job;
}

/* A byte in the pipe wakes the loop; a full pipe has woken it already. */
static void pool_wake(const qp_pool *pool)
{
    ssize_t n = write(pool->wake_fd, "", 1);

    (void)n;
}

/* A worker. It looks at the queue before `stops`, so that a stop that empties the queue first ends
 * all workers behind the jobs that they are at. A job whose owner waits wakes the loop, which then
 * takes all that have finished. */
static void *pool_work(void *arg)
{
    qp_pool *pool = arg;

    qp_mutex_lock(&pool->mutex);
    for (;;) {
        qp_job *job = pool_take(&pool->queue);

        if (job == NULL) {
            if (pool->stops) {
                break;
            }
            qp_cond_wait(&pool->work, &pool->mutex);
            continue;
        }
        pool->busy++;
        qp_mutex_unlock(&pool->mutex);
        /* Without the mutex: a job may take as long as the store does. The job's owner must not
         * free it before `done`. */
        job->run(job);
        job->has_run = true;
        qp_mutex_lock(&pool->mutex);
        pool->busy--;
        pool_put(&pool->finished, job);
        /* The loop takes the whole list at a time: more bytes would wake it for nothing. It is
         * woken without the mutex, which it takes first of all. */
        if ((!job->is_quiet || job->is_awaited) && !pool->is_woken) {
            pool->is_woken = true;
            qp_mutex_unlock(&pool->mutex);
            pool_wake(pool);
            qp_mutex_lock(&pool->mutex);
        }
    }
    qp_mutex_unlock(&pool->mutex);
    return NULL;
}

/* Threads that could be started are stopped again when a later one cannot: the caller has all
 * workers, or none and an error. */
quipu_status qp_pool_start(qp_pool *pool, size_t threads, size_t queue_max, int wake_fd,
                           quipu_error *reterr)
{
    quipu_status status;

    assert(threads > 0);
    *pool = (qp_pool){.queue_max = queue_max, .wake_fd = wake_fd};
    pool->threads = qp_calloc(threads, sizeof(*pool->threads));
    /* `threads` is what qp_pool_stop() looks at: it stays NULL unless the mutex exists. */
    status = pool->threads != NULL ? qp_mutex_init(&pool->mutex) : QUIPU_NOMEM;
    if (status == QUIPU_OK) {
        status = qp_cond_init(&pool->work);
        if (status != QUIPU_OK) {
            qp_mutex_done(&pool->mutex);
        }
    }
    if (status != QUIPU_OK) {
        qp_free(pool->threads);
        pool->threads = NULL;
        return qp_error_set(reterr, status, "the workers cannot be started");
    }
    while (pool->thread_count < threads && status == QUIPU_OK) {
        status = qp_thread_start(&pool->threads[pool->thread_count], pool_work, pool);
        pool->thread_count += status == QUIPU_OK ? 1 : 0;
    }
    if (status != QUIPU_OK) {
        qp_pool_stop(pool);
        return qp_error_set(reterr, status, "the workers cannot be started");
    }
    return QUIPU_OK;
}

/* A full queue is refused at once and never waited for: the loop serves everybody. */
bool qp_pool_submit(qp_pool *pool, qp_job *job)
{
    bool has_room;

    assert(job->run != NULL && job->done != NULL);
    qp_mutex_lock(&pool->mutex);
    has_room = pool->queue.count < pool->queue_max;
    if (has_room) {
        job->has_run = job->is_quiet = job->is_awaited = false;
        pool_put(&pool->queue, job);
    }
    qp_mutex_unlock(&pool->mutex);
    if (has_room) {
        qp_cond_signal(&pool->work); /* without the mutex, which the worker takes first of all */
    }
    return has_room;
}

/* The list is taken as a whole under the mutex; `done` runs without it, because it submits further
 * jobs. */
void qp_pool_finish(qp_pool *pool)
{
    qp_job_list finished;
    qp_job *job;

    qp_mutex_lock(&pool->mutex);
    finished = pool->finished;
    pool->finished = (qp_job_list){.count = 0};
    pool->is_woken = false;
    qp_mutex_unlock(&pool->mutex);
    while ((job = pool_take(&finished)) != NULL) {
        job->done(job);
    }
}

/* Under the mutex the job is either finished, and done below, or it sees that it is awaited. */
void qp_pool_await(qp_pool *pool, qp_job *job)
{
    qp_mutex_lock(&pool->mutex);
    job->is_awaited = true;
    qp_mutex_unlock(&pool->mutex);
    qp_pool_finish(pool);
}

/* Under the mutex, like every look at the lists; the number is old as soon as it is released, which
 * is enough for a limit that need not be exact. */
size_t qp_pool_waiting(qp_pool *pool)
{
    size_t count;

    qp_mutex_lock(&pool->mutex);
    count = pool->queue.count;
    qp_mutex_unlock(&pool->mutex);
    return count;
}

/* A hint for probes: a worker that is free now may have work a moment later, and then the probe
 * waits its turn. */
bool qp_pool_is_free(qp_pool *pool)
{
    bool is_free;

    qp_mutex_lock(&pool->mutex);
    is_free = pool->busy + pool->queue.count < pool->thread_count;
    qp_mutex_unlock(&pool->mutex);
    return is_free;
}

/* Queued jobs move to `finished` without having run (has_run stays false), so that its owners
 * answer that the server stops. Safe on a pool that never started. */
void qp_pool_stop(qp_pool *pool)
{
    qp_job *job;

    if (pool->threads == NULL) {
        return;
    }
    qp_mutex_lock(&pool->mutex);
    /* Behind this point no worker waits again, and none takes a new job. */
    pool->stops = true;
    while ((job = pool_take(&pool->queue)) != NULL) {
        pool_put(&pool->finished, job);
    }
    qp_cond_broadcast(&pool->work);
    qp_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->thread_count; i++) {
        (void)qp_thread_join(pool->threads[i]);
    }
    qp_pool_finish(pool);
    assert(pool->queue.count == 0 && pool->finished.count == 0);
    qp_cond_done(&pool->work);
    qp_mutex_done(&pool->mutex);
    qp_free(pool->threads);
    pool->threads = NULL;
}
