/* The queue in front of the writing connection, and the election of its leader. Callers that arrive
 * while another one leads wait here; the leader takes them into its batch (batch.h). */
#ifndef QP_STORE_QUEUE_H
#define QP_STORE_QUEUE_H

#include <ent/ent.h>

#include "base/thread.h"
#include "store/call.h"

/* A caller's work. Inside a transaction it decides not-found, expired, conflict and duplicate by
 * reads before its first write. It may run twice: it sets its outputs anew each time. `scratch` is
 * empty and lives until the work returns. */
typedef quipu_status (*qp_work_fn)(void *ctx, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr);

typedef enum qp_write_kind {
    QP_WRITE_CHANGE = 1, /* in the transaction of a batch */
    QP_WRITE_READ_ONLY,  /* the same for a read, of a store that has one connection for all */
    QP_WRITE_OUTSIDE     /* outside of batches; no other member runs with it */
} qp_write_kind;

/* One caller, on its own stack from its arrival until its answer. */
typedef struct qp_write {
    qp_write_kind kind;
    qp_work_fn work;
    void *ctx;
    const qp_call *call;
    quipu_error *reterr;
    quipu_status status;   /* the answer */
    bool reenters;         /* a server of a distributed store was lost: its caller queues anew */
    bool unknown;          /* the outcome of an earlier try is unknown */
    bool queued;           /* under the queue's mutex: it waits, and may still leave */
    struct qp_write *next; /* in the queue, then in the batch */
    qp_latch answered;     /* by the leader, with a value of queue.c */
    size_t wakes;          /* how many members behind it this caller wakes */
    size_t arrival;        /* its place in the batch before the batch is sorted */
} qp_write;

typedef struct qp_queue {
    qp_mutex mutex;
    bool led; /* a caller leads: callers that arrive wait */
    qp_write *head;
    qp_write *tail;
    qp_cond arrived;       /* signalled while a leader waits for more members */
    bool waiting_for_more; /* a leader does */
    size_t expected_size;  /* of a batch, from those before it */
} qp_queue;

QUIPU_MUST_USE quipu_status qp_queue_init(qp_queue *queue, quipu_error *reterr);
void qp_queue_done(qp_queue *queue);

/* Enters the queue. True: the caller leads, and must call qp_queue_finish() when its batch is done.
 * False: another leader has set `write->status`, or the caller's deadline passed or its cancel flag
 * was set before any leader took it. */
bool qp_queue_enter(qp_queue *queue, qp_write *write);

/* Moves writes from the head of the queue behind `last`, until the batch has QUIPU_GROUP_MAX
 * members or the next one does not fit: an outside write never does, and with `single_session`
 * neither does a write that concerns more than one session. Returns the new last member. */
qp_write *qp_queue_take(qp_queue *queue, qp_write *last, bool single_session, size_t *count);

/* Waits for another arrival while fewer members are in the batch than earlier ones had, at most
 * `*wait_ns`, from which it subtracts the time it took. */
void qp_queue_wait_for_more(qp_queue *queue, size_t count, int64_t *wait_ns);

/* Puts all members but `own` back at the head of the queue. Nothing was done for them yet. */
void qp_queue_requeue(qp_queue *queue, qp_write *own);

/* Hands the lead to the next waiting caller, then wakes the members behind `own`. */
void qp_queue_finish(qp_queue *queue, qp_write *own);

#endif
