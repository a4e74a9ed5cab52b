/* The search index beside the messages. A session's own messages up to indexed_seq, its watermark,
 * are in it, later ones are not; index_pending is set while there are such.
 *
 *    search mode    append                       search
 *    inline         indexes, moves watermark     finds nothing pending
 *    lazy           sets index_pending           indexes what is pending, then searches
 *    off            sets index_pending           QUIPU_UNSUPPORTED
 *
 * Owns: the watermark of every session.
 * Called by: every place that adds or removes messages (session.c, append.c, fork_release.c), in
 * its own transaction; search_find.c catches up.
 * Transactions: `born` needs none; `filled`, `follow`, `forget` and `rebuild` run in the caller's
 * open one; the walk begins its own, batch by batch. */
#ifndef QP_STORE_SEARCH_H
#define QP_STORE_SEARCH_H

#include <ent/migrate.h>

#include "store/store.h"

/* A session is about to be created with `count` messages: sets its watermark. Once they are stored,
 * the second function indexes them. */
void qp_search_born(const quipu_store *store, int64_t count, qp_session_new *made);
QUIPU_MUST_USE quipu_status qp_search_filled(const quipu_store *store, ent_db *db, int64_t session,
                                             int64_t count, quipu_error *reterr);

/* Messages up to `next_seq` - 1 were stored behind those that `row` knows: indexes them, or marks
 * the session, by what it puts into the patch of the session's row. Costs nothing while messages of
 * the session are pending anyway. */
QUIPU_MUST_USE quipu_status qp_search_follow(const quipu_store *store, ent_db *db,
                                             const qp_session *row, int64_t next_seq,
                                             qp_session_patch *patch, quipu_error *reterr);

/* Messages `from` to `to` that session number `session` holds are about to be removed: takes those
 * that are indexed out of the index. The rows must still be there. */
QUIPU_MUST_USE quipu_status qp_search_forget(ent_db *db, int64_t session, int64_t from, int64_t to,
                                             quipu_error *reterr);

/* Empty the index and mark every session as pending, in the open transaction: for repair, and so
 * that nothing of an erased text is left. The next search, or quipu_search_index(), fills it.
 * *ret_discarded: it was damaged, and the file has to be rewritten to be rid of its pages. */
QUIPU_MUST_USE quipu_status qp_search_rebuild(ent_db *db, bool *ret_discarded, quipu_error *reterr);

/* One walk over the sessions that are pending, by number, up to what they held when it came to
 * them: an end is certain while others append. */
typedef struct qp_search_walk {
    const int64_t *holders; /* only these sessions, or NULL: all of the tenant... */
    size_t holder_count;
    int64_t last;    /* ...up to this number */
    size_t holder;   /* the next one of `holders` */
    int64_t done;    /* sessions up to this number are behind us */
    int64_t current; /* the session that is being worked on, and... */
    int64_t target;  /* ...the number that it is indexed to */
    int64_t indexed; /* messages so far */
    bool ended;
} qp_search_walk;

/* One batch of the walk, in one transaction. */
QUIPU_MUST_USE quipu_status qp_search_step(quipu_store *store, const qp_call *call,
                                           qp_search_walk *walk, quipu_error *reterr);

/* Walk on until the end, batch by batch. QUIPU_BUSY when the deadline passes before. */
QUIPU_MUST_USE quipu_status qp_search_walk_on(quipu_store *store, const qp_call *call,
                                              qp_search_walk *walk, quipu_error *reterr);

/* QUIPU_UNSUPPORTED when the store was opened without search. */
QUIPU_MUST_USE quipu_status qp_search_check(const quipu_store *store, quipu_error *reterr);

/* search_probe.c: QUIPU_CORRUPT when the index does not find a message that it must hold. In the
 * caller's snapshot. */
QUIPU_MUST_USE quipu_status qp_search_probe(ent_db *db, quipu_str tenant, quipu_error *reterr);

/* pending_step.c: a step of the migration, for files from before `index_pending`. */
extern const ent_step qp_search_pending_step;

#endif
