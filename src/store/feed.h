/* The feed: what happened to which session, recorded in the transaction of the change.
 *
 * Called by every work that creates, changes or deletes a session, inside of its transaction: the
 * record commits or disappears with the change. A number of the feed is drawn store-wide and
 * by one transaction after the other: a LOCKED batch leaves it to its end (feed_queue.h). */
#ifndef QP_STORE_FEED_H
#define QP_STORE_FEED_H

#include "store/store.h"

/* What happened: the revision is what the session has after the change. */
typedef struct qp_feed_note {
    quipu_change_kind kind;
    int64_t revision;
    int64_t first_seq;
    int64_t last_seq;
} qp_feed_note;

/* Records a change in the open transaction when the store keeps a feed; otherwise it only looks at
 * a flag. `row` names the session as it was before the change. */
QUIPU_MUST_USE quipu_status qp_feed_record(quipu_store *store, ent_db *db, const qp_session *row,
                                           const qp_feed_note *note, quipu_error *reterr);

/* Remove every trace of a session from the feed, whether the store has it on or not; followers
 * then get one QUIPU_CHANGE_DELETED that names the uid and no key. */
QUIPU_MUST_USE quipu_status qp_feed_forget(const quipu_store *store, ent_db *db,
                                           const qp_session *row, quipu_error *reterr);

#endif
