/* The walk of verify along the hash chain of one session. A value without memory of its own; all
 * zero is a walk that has seen nothing. */
#ifndef QP_STORE_VERIFY_HASH_H
#define QP_STORE_VERIFY_HASH_H

#include "store/hash_chain.h"
#include "store/verify.h"

typedef struct qp_hash_walk {
    bool known; /* `hash` is that of message `seq` */
    int64_t seq;
    uint8_t hash[QP_HASH_SIZE];
} qp_hash_walk;

/* The hash of a message that the walk does not see: the last one that a fork shares. */
void qp_hash_walk_at(qp_hash_walk *walk, int64_t seq, quipu_bytes hash);

/* The next message that the session holds. */
void qp_hash_walk_message(qp_hash_walk *walk, const qp_session *row, const qp_message *message,
                          qp_findings *findings);

/* Called behind the last message of a living session: checks the head, and the row's other fields
 * of the chain. */
void qp_hash_walk_end(const qp_hash_walk *walk, const qp_session *row, qp_findings *findings);

#endif
