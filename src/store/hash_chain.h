/* The hash chain over the messages of a session: each message has a random salt and the hash of
 * itself and of all before it, so that one hash that was kept elsewhere, the head, proves later
 * that no message up to it is missing, changed or in another place.
 *
 *    message         1            2            3                    session
 *    salted_hash     s1 h1 ─────▶ s2 h2 ─────▶ s3 h3 ─────────────▶ head_hash = h3
 *
 *    h(n) = BLAKE2b-256(salt s(n), h(n-1) and the fields of message n); before the first: 32 zeros
 *
 * A fork goes on from the hash of the message that it was forked at. When prune or cap delete
 * messages, base_hash keeps the hash before first_seq. Messages of older programs have no hash: the
 * chain begins with the first message that has one, hashed_from. To erase a message's row destroys
 * its salt, and with it the way to test a guess of its text against a hash that somebody kept.
 * docs/integrity.md defines the bytes that are hashed; docs/decisions/0035-hash-chains.md has the
 * reasons.
 *
 * Owns: what is hashed, and how.
 * Called by: message.c and src/import on the way in; fork.c and cap.c, which carry hashes on;
 * verify.c and verify_against.c on the way back.
 * Transactions: none; the rows are the caller's. */
#ifndef QP_STORE_HASH_CHAIN_H
#define QP_STORE_HASH_CHAIN_H

#include "base/blake2b.h"
#include "store/header.h"

#define QP_SALT_SIZE QP_BLAKE2B_SALT
#define QP_SALTED_HASH_SIZE (QP_SALT_SIZE + QP_HASH_SIZE) /* of the column salted_hash */

/* The next link of the session's chain: hashes a message that is ready to be stored, with its
 * number and its time, and gives it its salted_hash, which is `room`. The room holds a salt and
 * outlives the message. qp_header_see() follows. */
void qp_header_hash(qp_header *header, qp_message_new *message, uint8_t room[QP_SALTED_HASH_SIZE]);

/* The same for a stored message: its hash behind `before`, by its own salt. */
void qp_message_hash(const qp_message *message, const uint8_t before[QP_HASH_SIZE],
                     uint8_t ret_hash[QP_HASH_SIZE]);

/* The hash that a row has; absent when it has none, or one of another size. */
quipu_bytes qp_message_hash_of(const qp_message *message);

/* The hash of message `seq` of a session, in the arena, through its forks: what a fork at it, or a
 * history that begins behind it, goes on from. Absent when the chain does not reach so far back.
 * QUIPU_CORRUPT when the message is missing. */
QUIPU_MUST_USE quipu_status qp_hash_at(ent_db *db, const qp_session *row, int64_t seq,
                                       quipu_arena *arena, quipu_bytes *ret_hash,
                                       quipu_error *reterr);

/* Whether two hashes are there and equal. */
bool qp_hash_same(quipu_bytes a, quipu_bytes b);

#endif
