/* Changes that a LOCKED batch records in the feed at its end (batch.h): the feed's counter is held
 * from the first number that is drawn until the COMMIT, so that the order of numbers is that of the
 * commits, and nobody may wait for anything else meanwhile.
 *
 * Owns: qp_feed_queue, which belongs to the leader of the commit group. Implemented in feed.c. */
#ifndef QP_STORE_FEED_QUEUE_H
#define QP_STORE_FEED_QUEUE_H

#include <ent/ent.h>

struct qp_queued_change;

typedef struct qp_feed_queue {
    bool is_kept; /* the store records its changes */
    size_t count;
    struct qp_queued_change *first;
    struct qp_queued_change *last;
    quipu_arena arena; /* of the changes and their texts */
} qp_feed_queue;

/* Forgets the changes of a transaction that is over; there are some. */
void qp_feed_clear(qp_feed_queue *queue);

/* Writes all changes, in the order in which they were made. May wait for another writer's feed, and
 * must be the last that does. */
QUIPU_MUST_USE quipu_status qp_feed_flush(qp_feed_queue *queue, ent_db *db, quipu_error *reterr);

#endif
