/* Holding the history cap, in the transaction of the append that exceeded it.
 *
 * Owns the choice of what goes. Called by append.c, session.c and src/import after the messages are
 * written, with the session's row up to date; expects a transaction that is exclusive or has locked
 * the session's row and its family, because releasing messages looks at forks. Only a prefix goes,
 * and only whole turns: a tool call never loses its answer, and the newest turn stays even when it
 * alone exceeds the cap. The rows that are looked at to find the border are those that go, so that
 * an append costs the same on the whole. */
#include "store/cap.h"

#include <assert.h>

#include "store/fork_chain.h"
#include "store/fork_release.h"
#include "store/hash_chain.h"

/* A search for the beginning of a turn. */
typedef struct cap_search {
    int64_t seq; /* 0: not found */
} cap_search;

/* Ends the scan at the first message that begins a turn. */
static bool cap_is_turn(void *ctx, const qp_message *row)
{
    cap_search *search = ctx;

    assert(search->seq == 0);
    if (qp_message_opens(row)) {
        search->seq = row->seq;
    }
    return search->seq == 0;
}

/* The number from which on everything is within the cap; first_seq when all is. It may lie inside
 * of a turn: qp_cap_hold() moves it to a border. */
static quipu_status cap_target(const quipu_store *store, ent_db *db, const qp_session *row,
                               const qp_chain *chain, int64_t *ret_target, quipu_error *reterr)
{
    const int64_t last = row->next_seq - 1;
    int64_t target = row->first_seq;
    int64_t by_tokens = 0;
    quipu_status status = QUIPU_OK;

    assert(store->cap_messages > 0 || store->cap_tokens > 0);
    if (store->cap_messages > 0 && row->next_seq - store->cap_messages > target) {
        target = row->next_seq - store->cap_messages;
    }
    if (store->cap_tokens > 0) {
        status = qp_chain_budget(db, chain, target, last, store->cap_tokens, &by_tokens, reterr);
        target = by_tokens > target ? by_tokens : target;
    }
    if (status == QUIPU_OK) {
        assert(target >= row->first_seq);
        *ret_target = target;
    }
    return status;
}

/* Where the newest turn begins: most often the row knows. Otherwise a scan backwards finds it. A
 * history without a user's message is one turn, which begins with the first message. */
static quipu_status cap_newest_turn(ent_db *db, const qp_session *row, const qp_chain *chain,
                                    int64_t *ret_seq, quipu_error *reterr)
{
    cap_search search = {.seq = row->turn_seq};
    quipu_status status = QUIPU_OK;

    if (search.seq == 0) {
        const qp_scan back = {row->first_seq, row->next_seq - 1, true};
        status = qp_chain_each(db, chain, &back, cap_is_turn, &search, reterr);
    }
    *ret_seq = search.seq > row->first_seq ? search.seq : row->first_seq;
    return status;
}

/* The row moves first: qp_fork_release() asks all sessions which messages they still show. */
quipu_status qp_first_move(quipu_store *store, ent_db *db, quipu_arena *scratch,
                           const qp_session *row, int64_t first_seq, qp_session_patch *patch,
                           quipu_error *reterr)
{
    quipu_bytes base = {NULL, 0};
    int64_t changed = 0;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    assert(first_seq >= row->first_seq && first_seq <= row->next_seq);
    /* The hash chain goes on behind what goes: the hash of its last message stays in the row. */
    if (first_seq > row->first_seq) {
        status = qp_hash_at(db, row, first_seq - 1, scratch, &base, reterr);
    }
    if (base.p != NULL) {
        patch->base_hash = ent_set(base);
    }
    patch->first_seq = ent_set(first_seq);
    patch->message_count = ent_set(row->next_seq - first_seq);
    if (row->compact_seq > 0 && row->compact_seq < first_seq) {
        patch->compact_seq = ent_set((int64_t)0); /* the summary is among what goes */
    }
    if (status == QUIPU_OK) {
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, patch, &changed,
                                   reterr);
    }
    assert(status != QUIPU_OK || changed == 1);
    if (status == QUIPU_OK && first_seq > row->first_seq) {
        status =
            qp_fork_release(store, db, scratch, row->id, row->first_seq, first_seq - 1, reterr);
    }
    return status;
}

/* The history begins with the first turn from `target` on (x), or with the newest turn when no
 * other begins there.
 *
 *      first_seq      target         turn           last
 *  -------|-------------|------x-------|--------------|
 *         deleted ------------>|stays */
quipu_status qp_cap_hold(quipu_store *store, ent_db *db, quipu_arena *scratch,
                         const qp_session *row, quipu_error *reterr)
{
    const int64_t last = row->next_seq - 1;
    cap_search search = {.seq = 0};
    qp_chain chain;
    int64_t target = 0;
    int64_t turn = 0;
    quipu_status status;

    assert(ent_depth(db) > 0);
    if ((store->cap_messages == 0 && store->cap_tokens == 0) || last <= row->first_seq) {
        return QUIPU_OK;
    }
    if (store->cap_tokens == 0 && row->next_seq - row->first_seq <= store->cap_messages) {
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, row, row->first_seq, last, &chain, reterr);
    if (status == QUIPU_OK) {
        status = cap_target(store, db, row, &chain, &target, reterr);
    }
    if (status != QUIPU_OK || target <= row->first_seq) {
        return status;
    }
    status = cap_newest_turn(db, row, &chain, &turn, reterr);
    if (status == QUIPU_OK && target < turn) {
        const qp_scan forth = {target, turn, false};
        status = qp_chain_each(db, &chain, &forth, cap_is_turn, &search, reterr);
    }
    if (status != QUIPU_OK || (turn == row->first_seq && row->turn_seq != 0)) {
        return status;
    }
    /* Remembered also when nothing can go: the next append does not look for it again. */
    qp_session_patch patch = {.turn_seq = ent_set(turn)};
    return qp_first_move(store, db, scratch, row, search.seq != 0 ? search.seq : turn, &patch,
                         reterr);
}
