/* Verify the hash chain of one session: see hash_chain.h.
 *
 * Owns: what a chain has to look like.
 * Called by: verify.c, with the messages that the session holds in the order of their numbers.
 * Transactions: begins none.
 * On return: the first thing that does not fit is a finding. Behind it the chain is followed by the
 * stored hashes: one changed message is one finding, not one for every message behind it. */
#include "store/verify_hash.h"

#include <assert.h>
#include <string.h>

#include "base/sum.h"

/* Whether what the row says of its chain is possible. */
static bool verify_hash_row(const qp_session *row)
{
    const bool has = row->hashed_from > 0;
    const bool pruned = has && row->first_seq > row->hashed_from;

    return row->hashed_from >= 0 && row->hashed_from < row->next_seq &&
           row->head_hash.n == (has ? QP_HASH_SIZE : 0) &&
           row->base_hash.n == (pruned ? QP_HASH_SIZE : 0);
}

/* The walk begins behind a message whose hash is known; without one it begins with the next message
 * that has a hash. */
void qp_hash_walk_at(qp_hash_walk *walk, int64_t seq, quipu_bytes hash)
{
    assert(hash.p != NULL || hash.n == 0);
    walk->known = hash.n == QP_HASH_SIZE;
    walk->seq = seq;
    if (walk->known) {
        memcpy(walk->hash, hash.p, QP_HASH_SIZE);
    }
}

/* Behind a gap nobody knows the hash before: messages that only forks still show may have gaps, and
 * any other gap is a finding of its own. */
void qp_hash_walk_message(qp_hash_walk *walk, const qp_session *row, const qp_message *message,
                          qp_findings *findings)
{
    const quipu_bytes stored = qp_message_hash_of(message);
    uint8_t hash[QP_HASH_SIZE];

    assert(walk != NULL && findings != NULL);
    if (row->hashed_from == 0 || message->seq < row->hashed_from) {
        findings->unhashed++;
        return;
    }
    if (message->seq == row->hashed_from) {
        memset(walk->hash, 0, sizeof(walk->hash));
        walk->known = true;
    } else if (message->seq == row->first_seq) {
        qp_hash_walk_at(walk, message->seq - 1, row->base_hash);
    } else {
        walk->known = walk->known && walk->seq == message->seq - 1;
    }
    if (stored.p == NULL) {
        qp_findings_add(findings, QUIPU_PROBLEM_HASH, message->seq, "message %lld has no hash",
                        (long long)message->seq);
    } else if (walk->known) {
        qp_message_hash(message, walk->hash, hash);
        if (!qp_hash_same(stored, (quipu_bytes){hash, sizeof(hash)})) {
            qp_findings_add(findings, QUIPU_PROBLEM_HASH, message->seq,
                            "message %lld does not fit its hash: it was changed, or the one "
                            "before it",
                            (long long)message->seq);
        }
    }
    qp_hash_walk_at(walk, message->seq, stored);
}

/* The last message's hash must be the head in the session's row: otherwise messages at the end are
 * lost, or the row is not theirs. */
void qp_hash_walk_end(const qp_hash_walk *walk, const qp_session *row, qp_findings *findings)
{
    const int64_t last = qp_difference(row->next_seq, 1);
    quipu_bytes hash = {NULL, 0};

    assert(row->key.p != NULL && !findings->cut);
    if (!verify_hash_row(row)) {
        qp_findings_add(findings, QUIPU_PROBLEM_HASH, 0,
                        "its row has hashes that its messages %lld to %lld cannot have",
                        (long long)row->first_seq, (long long)last);
    } else if (row->hashed_from > 0) {
        if (row->first_seq == row->next_seq) {
            hash = row->base_hash; /* all is pruned */
        } else if (walk->known && walk->seq == last) {
            hash = (quipu_bytes){walk->hash, sizeof(walk->hash)};
        }
        if (hash.p != NULL && !qp_hash_same(hash, row->head_hash)) {
            qp_findings_add(findings, QUIPU_PROBLEM_HASH, last,
                            "the head of its hash chain is not the hash of message %lld, its last",
                            (long long)last);
        }
    }
}
