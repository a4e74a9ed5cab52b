/* Resolving and walking the segments of a session's messages. */
#include "store/fork_chain.h"

#include <assert.h>

#include "base/error.h"

#define FORK_CHAIN_LEAP 16 /* the first step back from the newest message, doubled each time */

int64_t qp_session_base(const qp_session *row)
{
    return row->parent_id.has && row->fork_seq.has ? row->fork_seq.v : 0;
}

bool qp_message_opens(const qp_message *row)
{
    return row->role == QP_MESSAGE_ROLE_USER && row->tool_calls.text.p == NULL;
}

bool qp_message_answers(const qp_message *row)
{
    return row->role == QP_MESSAGE_ROLE_TOOL || row->role == QP_MESSAGE_ROLE_FUNCTION ||
           (row->role == QP_MESSAGE_ROLE_USER && row->tool_calls.text.p != NULL);
}

static quipu_status fork_chain_broken(int64_t session, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_CORRUPT,
                        "session number %lld, which it was forked from, is missing or a fork of "
                        "itself; restore a backup",
                        (long long)session);
}

quipu_status qp_chain_resolve(ent_db *db, const qp_session *row, int64_t from, int64_t to,
                              qp_chain *ret_chain, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_segment found[QP_CHAIN_MAX]; /* newest first */
    size_t count = 0;
    size_t steps = 0;
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && to >= from) {
        const int64_t base = qp_session_base(row);

        if (to > base) {
            found[count++] = (qp_segment){row->id, from > base ? from : base + 1, to};
            to = base;
        }
        if (to < from) {
            break;
        }
        int64_t parent = row->parent_id.has ? row->parent_id.v : 0;
        if (++steps == QP_CHAIN_MAX || parent == 0) {
            status = fork_chain_broken(parent, reterr);
            break;
        }
        status = qp_session_get(db, &arena, parent, &row, reterr);
        if (status == QUIPU_NOT_FOUND) {
            status = fork_chain_broken(parent, reterr);
        }
    }
    quipu_arena_free(&arena);
    if (status == QUIPU_OK) {
        ret_chain->count = count;
        for (size_t i = 0; i < count; i++) {
            ret_chain->segments[i] = found[count - 1 - i];
        }
    }
    return status;
}

/* The part of a segment that lies in `from` to `to`, newest or oldest first. */
static quipu_status fork_chain_part(ent_db *db, const qp_segment *part, bool newest, qp_chain_fn fn,
                                    void *ctx, bool *ret_more, quipu_error *reterr)
{
    const qp_message_query query = {
        .order = {newest ? QP_MESSAGE_BY_SEQ(DESC) : QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(part->session), .seq = ent_between(part->from, part->to)}};
    int64_t left = part->to - part->from + 1;
    bool more = true;
    qp_message_iter iter;
    qp_message row;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (more && qp_message_iter_next(&iter, &row)) {
        left--;
        more = fn(ctx, &row);
    }
    status = qp_message_iter_end(&iter, reterr);
    if (status == QUIPU_OK && more && left != 0) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "%lld of the messages %lld to %lld are missing; restore a backup",
                              (long long)left, (long long)part->from, (long long)part->to);
    }
    *ret_more = more;
    return status;
}

quipu_status qp_chain_each(ent_db *db, const qp_chain *chain, const qp_scan *scan, qp_chain_fn fn,
                           void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool more = true;

    for (size_t i = 0; i < chain->count && more && status == QUIPU_OK; i++) {
        qp_segment part = chain->segments[scan->newest ? chain->count - 1 - i : i];

        part.from = part.from > scan->from ? part.from : scan->from;
        part.to = part.to < scan->to ? part.to : scan->to;
        if (part.from <= part.to) {
            status = fork_chain_part(db, &part, scan->newest, fn, ctx, &more, reterr);
        }
    }
    return status;
}

quipu_status qp_chain_row(ent_db *db, const qp_chain *chain, int64_t seq, quipu_arena *arena,
                          const qp_message **ret_row, quipu_error *reterr)
{
    quipu_status status = QUIPU_NOT_FOUND;

    for (size_t i = 0; i < chain->count; i++) {
        const qp_segment *segment = &chain->segments[i];
        if (seq >= segment->from && seq <= segment->to) {
            status = qp_message_get(db, arena, segment->session, seq, ret_row, reterr);
        }
    }
    return status == QUIPU_NOT_FOUND
               ? qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is missing; restore a backup",
                              (long long)seq)
               : status;
}

/* ---- by tokens --------------------------------------------------------------------------------
 */

/* A message's running total, without its own tokens. */
typedef struct fork_chain_totals {
    int64_t before;
    int64_t through;
} fork_chain_totals;

static bool fork_chain_total(void *ctx, const qp_message *row)
{
    *(fork_chain_totals *)ctx =
        (fork_chain_totals){row->tokens_total - row->tokens, row->tokens_total};
    return true;
}

static quipu_status fork_chain_probe(ent_db *db, const qp_chain *chain, int64_t seq,
                                     fork_chain_totals *ret, quipu_error *reterr)
{
    return qp_chain_each(db, chain, &(qp_scan){.from = seq, .to = seq}, fork_chain_total, ret,
                         reterr);
}

quipu_status qp_chain_budget(ent_db *db, const qp_chain *chain, int64_t from, int64_t to,
                             int64_t budget, int64_t *ret_seq, quipu_error *reterr)
{
    int64_t low = from;    /* every number below is too many */
    int64_t high = to + 1; /* this one fits */
    int64_t leap = FORK_CHAIN_LEAP;
    fork_chain_totals totals = {0, 0};
    quipu_status status = QUIPU_OK;

    if (from <= to) {
        status = fork_chain_probe(db, chain, to, &totals, reterr);
    }
    const int64_t total = totals.through;
    /* First back from the newest in growing leaps: a window near the end never sees the rest. */
    while (status == QUIPU_OK && low < high) {
        int64_t probe = leap > 0 && high - leap > low ? high - leap : low + (high - low) / 2;

        assert(probe >= low && probe < high);
        status = fork_chain_probe(db, chain, probe, &totals, reterr);
        if (status == QUIPU_OK && total - totals.before <= budget) {
            high = probe;
            leap *= 2;
        } else {
            low = probe + 1;
            leap = 0; /* from here on the gap is halved */
        }
    }
    if (status == QUIPU_OK) {
        *ret_seq = high;
    }
    return status;
}
