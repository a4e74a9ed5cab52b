/* Where a session's messages lie. A fork's past lies in its ancestors: its messages are segments of
 * consecutive numbers, each in the cluster of one session.
 *
 *    a: 1 ... 9        b forked from a at 4       c forked from b at 6
 *    chain of c, 1 to 8:   [a 1..4] [b 5..6] [c 7..8]
 *
 * Owns: qp_chain, a value without memory of its own. It is valid in the snapshot that it was
 * resolved in.
 * Called by: everything that reads messages by number (read.c, window.c, compact.c, cap.c,
 * export.c, search_find.c, verify.c, fork.c, append.c).
 * Transactions: all functions read from the caller's open transaction. */
#ifndef QP_STORE_FORK_CHAIN_H
#define QP_STORE_FORK_CHAIN_H

#include <quipu/store.h>

#include "gen/quipu.h"

#define QP_CHAIN_MAX (QUIPU_FORK_DEPTH_MAX + 1) /* segments: a session and its ancestors */

/* Messages `from` to `to` lie in the cluster of session number `session`. */
typedef struct qp_segment {
    int64_t session;
    int64_t from;
    int64_t to;
} qp_segment;

/* Segments, oldest first, without gaps between them. Count 0: an empty range. */
typedef struct qp_chain {
    size_t count;
    qp_segment segments[QP_CHAIN_MAX];
} qp_chain;

/* The number up to which a session's messages lie in its parent; 0 when it is not a fork. A session
 * holds the messages behind it, and shows those from its first_seq on, which may be before or
 * behind. */
int64_t qp_session_base(const qp_session *row);

/* A family: a session, all its ancestors, and everything that is forked from one of them. Its root
 * is the ancestor that is not a fork. Messages are shared inside of a family only. A writer that
 * forks, removes messages or indexes them locks the family, by a counter that follows from its root
 * (batch.c).
 *
 * *ret_root: the number of the root of session `id`. `row` is its row, or NULL: then it is read.
 * Parents never change, and a session's ancestors exist as long as its row does; for a session that
 * is gone, any number will do. */
QUIPU_MUST_USE quipu_status qp_family_root(ent_db *db, int64_t id, const qp_session *row,
                                           int64_t *ret_root, quipu_error *reterr);

/* Where the messages `from` to `to` of a session lie. A session that is not a fork costs no read, a
 * fork one row for each ancestor that is gone through. QUIPU_CORRUPT when one is missing. */
QUIPU_MUST_USE quipu_status qp_chain_resolve(ent_db *db, const qp_session *row, int64_t from,
                                             int64_t to, qp_chain *ret_chain, quipu_error *reterr);

/* Called with one message, whose texts live until it returns; returns true for the next one, false
 * to end the walk. */
typedef bool (*qp_chain_fn)(void *ctx, const qp_message *row);

/* Call `fn` with the messages of one segment, one by one, until it returns false. *ret_more: it did
 * not. QUIPU_CORRUPT when a number is missing. */
QUIPU_MUST_USE quipu_status qp_segment_each(ent_db *db, const qp_segment *part, bool newest,
                                            qp_chain_fn fn, void *ctx, bool *ret_more,
                                            quipu_error *reterr);

/* Messages `from` to `to`, from the newest or from the oldest on. */
typedef struct qp_scan {
    int64_t from;
    int64_t to;
    bool newest;
} qp_scan;

/* Call `fn` with messages of a resolved chain, one by one, until it returns false. One statement a
 * segment. QUIPU_CORRUPT when a number of the scan is missing. */
QUIPU_MUST_USE quipu_status qp_chain_each(ent_db *db, const qp_chain *chain, const qp_scan *scan,
                                          qp_chain_fn fn, void *ctx, quipu_error *reterr);

/* One message of a chain, copied to the arena. QUIPU_CORRUPT when it is missing. */
QUIPU_MUST_USE quipu_status qp_chain_row(ent_db *db, const qp_chain *chain, int64_t seq,
                                         quipu_arena *arena, const qp_message **ret_row,
                                         quipu_error *reterr);

/* The number from which on the messages up to `to` have at most `budget` tokens together, by the
 * running totals: `from` when all have, to + 1 when the newest alone has more. Looks at as many
 * rows as the logarithm of what fits. */
QUIPU_MUST_USE quipu_status qp_chain_budget(ent_db *db, const qp_chain *chain, int64_t from,
                                            int64_t to, int64_t budget, int64_t *ret_seq,
                                            quipu_error *reterr);

/* Whether a turn begins with this message: it is a user's own. */
bool qp_message_opens(const qp_message *row);

/* At most so many messages are searched for the first turn. A longer past is taken to have one. */
#define QP_FIRST_TURN_MAX 100

/* Whether a turn begins among the messages from the session's first_seq to `to`. Reads up to the
 * first that opens one. */
QUIPU_MUST_USE quipu_status qp_chain_has_turn(ent_db *db, const qp_session *row, int64_t to,
                                              bool *ret_has, quipu_error *reterr);

/* Whether a message answers a tool call that stands before it, and must not be parted from it. */
bool qp_message_answers(const qp_message *row);

#endif
