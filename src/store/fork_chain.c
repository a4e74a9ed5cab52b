/* Resolving and walking the segments of a session's messages.
 *
 * Owns: the rule which ancestor holds which number (fork_chain.h has the picture).
 * Called by: the readers of messages in this room.
 * Locks: none; runs in the caller's transaction, so that the rows of ancestors and their messages
 * are of one snapshot.
 * On return: a chain covers exactly the numbers that were asked for; a message that should be there
 * and is not is QUIPU_CORRUPT, never a shorter result. */
#include "store/fork_chain.h"

#include <assert.h>

#include "base/error.h"
#include "store/message.h"
#include "store/tool_calls.h"

#define FORK_CHAIN_LEAP 16 /* the first step back from the newest message, doubled each time */

/* The last number that a fork shares; 0 for a session of its own. Numbers above it are the fork's
 * own messages. A row of the file is input: there is no message beyond the numbers that one can
 * have. */
int64_t qp_session_base(const qp_session *row)
{
    if (!row->parent_id.has || !row->fork_seq.has) {
        return 0;
    }
    if (row->fork_seq.v < 0) {
        return 0;
    }
    return row->fork_seq.v < ENT_CLUSTER_SEQ_MAX ? row->fork_seq.v : ENT_CLUSTER_SEQ_MAX - 1;
}

/* A parent that is missing is damage, which a read through it reports; so are parents that form a
 * circle. */
quipu_status qp_family_root(ent_db *db, int64_t id, const qp_session *row, int64_t *ret_root,
                            quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    ent_opt_int next = row != NULL ? row->parent_id : (ent_opt_int){true, id};
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && id != 0 && (row == NULL || row->id == id));
    /* The root of a circle is whatever session the limit ends at. Its lock protects no family, but
     * the read that follows reports the damage. */
    for (size_t steps = 0; next.has && steps <= QP_CHAIN_MAX && status == QUIPU_OK; steps++) {
        quipu_error error = {0};

        id = next.v;
        status = qp_session_get(db, &arena, id, &row, &error);
        next = (ent_opt_int){.has = false};
        if (status == QUIPU_OK) {
            next = row->parent_id;
        } else if (status == QUIPU_NOT_FOUND) {
            status = QUIPU_OK;
        } else if (reterr != NULL) {
            *reterr = error;
        }
    }
    quipu_arena_free(&arena);
    *ret_root = id;
    return status;
}

/* A user message with tool calls holds responses (ADK writes them so): it continues a turn. */
bool qp_message_opens(const qp_message *row)
{
    return row->role == QP_MESSAGE_ROLE_USER && qp_tool_calls_none(row->tool_calls.text);
}

/* Whether a message belongs to the turn before it: results of tools never begin a turn. */
bool qp_message_answers(const qp_message *row)
{
    return row->role == QP_MESSAGE_ROLE_TOOL || row->role == QP_MESSAGE_ROLE_FUNCTION ||
           (row->role == QP_MESSAGE_ROLE_USER && !qp_tool_calls_none(row->tool_calls.text));
}

/* One error for both: the row of an ancestor is missing, or the parents form a circle. */
static quipu_status fork_chain_broken(int64_t session, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_CORRUPT,
                        "session number %lld, which it was forked from, is missing or a fork of "
                        "itself; restore a backup",
                        (long long)session);
}

/* Walk up from the session, taking from each what it holds of the range, until the lowest number is
 * covered. `to` falls with every step, so that segments are found newest first and do not
 * overlap. */
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
            assert(count < QP_CHAIN_MAX);
            found[count++] = (qp_segment){row->id, from > base ? from : base + 1, to};
            to = base;
        }
        if (to < from) {
            break;
        }
        int64_t parent = row->parent_id.has ? row->parent_id.v : 0;
        /* A sound chain ends after QP_CHAIN_MAX rows; a longer one is a circle. */
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
        assert(to < from && count <= QP_CHAIN_MAX);
        ret_chain->count = count;
        for (size_t i = 0; i < count; i++) {
            /* cppcheck-suppress uninitvar; the first `count` are set */
            ret_chain->segments[i] = found[count - 1 - i];
            assert(i == 0 || ret_chain->segments[i].from == ret_chain->segments[i - 1].to + 1);
        }
    }
    return status;
}

/* A walk that was not cut short must have met every number: rows that are missing at either end
 * show by the count as well. */
quipu_status qp_segment_each(ent_db *db, const qp_segment *part, bool newest, qp_chain_fn fn,
                             void *ctx, bool *ret_more, quipu_error *reterr)
{
    const qp_message_query query = {
        .order = {newest ? QP_MESSAGE_BY_SEQ(DESC) : QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(part->session), .seq = ent_between(part->from, part->to)}};
    /* Messages that the walk still has to meet. */
    int64_t left = part->to - part->from + 1;
    bool more = true;
    bool sound = true;
    qp_message_iter iter;
    qp_message row;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    assert(part->from <= part->to && fn != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    while (more && sound && qp_message_iter_next(&iter, &row)) {
        left--;
        sound = row.seq >= part->from && row.seq <= part->to && qp_message_counts_sound(&row);
        more = sound && fn(ctx, &row);
    }
    status = qp_message_iter_end(&iter, reterr);
    if (status == QUIPU_OK && !sound) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "one of the messages %lld to %lld has a number that it cannot have; "
                              "verify the store",
                              (long long)part->from, (long long)part->to);
    }
    if (status == QUIPU_OK && more && left != 0) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "%lld of the messages %lld to %lld are missing; restore a backup",
                              (long long)left, (long long)part->from, (long long)part->to);
    }
    *ret_more = more;
    return status;
}

/* Each segment is cut to the scan; segments outside of it cost nothing. */
quipu_status qp_chain_each(ent_db *db, const qp_chain *chain, const qp_scan *scan, qp_chain_fn fn,
                           void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool more = true;

    for (size_t i = 0; i < chain->count && more && status == QUIPU_OK; i++) {
        qp_segment part = chain->segments[scan->newest ? chain->count - 1 - i : i];

        /* Cut on a copy: the chain may be scanned again. */
        part.from = part.from > scan->from ? part.from : scan->from;
        part.to = part.to < scan->to ? part.to : scan->to;
        if (part.from <= part.to) {
            status = qp_segment_each(db, &part, scan->newest, fn, ctx, &more, reterr);
        }
    }
    return status;
}

/* At most one segment holds the number. */
quipu_status qp_chain_row(ent_db *db, const qp_chain *chain, int64_t seq, quipu_arena *arena,
                          const qp_message **ret_row, quipu_error *reterr)
{
    quipu_status status = QUIPU_NOT_FOUND;

    assert(chain->count <= QP_CHAIN_MAX);
    for (size_t i = 0; i < chain->count; i++) {
        const qp_segment *segment = &chain->segments[i];
        if (seq >= segment->from && seq <= segment->to) {
            status = qp_message_get(db, arena, segment->session, seq, ret_row, reterr);
        }
    }
    if (status == QUIPU_OK &&
        (*ret_row)->seq != seq) { /* where an engine packs the number as well */
        return qp_error_set(reterr, QUIPU_CORRUPT, "message %lld stands under another number",
                            (long long)seq);
    }
    return status == QUIPU_NOT_FOUND
               ? qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is missing; restore a backup",
                              (long long)seq)
               : status;
}

/* ---- by tokens --------------------------------------------------------------------------------
 */

/* A message's running total, without its own tokens and with them. */
typedef struct fork_chain_totals {
    int64_t before;
    int64_t through;
} fork_chain_totals;

/* A qp_chain_fn for a scan of one message. */
static bool fork_chain_total(void *ctx, const qp_message *row)
{
    *(fork_chain_totals *)ctx =
        (fork_chain_totals){row->tokens_total - row->tokens, row->tokens_total};
    return true;
}

/* A qp_chain_fn: ends the walk at the first message that opens a turn. */
static bool fork_chain_opens(void *ctx, const qp_message *row)
{
    bool *opens = ctx;

    *opens = qp_message_opens(row);
    return !*opens;
}

/* Looks at QP_FIRST_TURN_MAX messages at most: an append asks for it, inside of its transaction,
 * when the row says turn_seq 0. */
quipu_status qp_chain_has_turn(ent_db *db, const qp_session *row, int64_t to, bool *ret_has,
                               quipu_error *reterr)
{
    const qp_scan scan = {.from = row->first_seq, .to = to, .newest = false};
    qp_chain chain;
    quipu_status status = qp_chain_resolve(db, row, scan.from, scan.to, &chain, reterr);

    assert(to - row->first_seq < QP_FIRST_TURN_MAX);
    *ret_has = false;
    if (status == QUIPU_OK) {
        status = qp_chain_each(db, &chain, &scan, fork_chain_opens, ret_has, reterr);
    }
    return status;
}

/* The totals of one message: one row by its key. */
static quipu_status fork_chain_probe(ent_db *db, const qp_chain *chain, int64_t seq,
                                     fork_chain_totals *ret, quipu_error *reterr)
{
    assert(chain->count > 0 && seq >= chain->segments[0].from);
    return qp_chain_each(db, chain, &(qp_scan){.from = seq, .to = seq}, fork_chain_total, ret,
                         reterr);
}

/* A search over the running totals, which do not fall: the tokens of messages n to `to` are the
 * last total minus what stands before n. Invariant: every number below `low` is too many, `high`
 * fits. */
quipu_status qp_chain_budget(ent_db *db, const qp_chain *chain, int64_t from, int64_t to,
                             int64_t budget, int64_t *ret_seq, quipu_error *reterr)
{
    int64_t low = from;    /* every number below is too many */
    int64_t high = to + 1; /* this one fits */
    int64_t leap = FORK_CHAIN_LEAP;
    fork_chain_totals totals = {0, 0};
    quipu_status status = QUIPU_OK;

    assert(from <= to + 1 && budget >= 0);
    if (from <= to) {
        status = fork_chain_probe(db, chain, to, &totals, reterr);
    }
    const int64_t total = totals.through;
    /* First back from the newest in growing leaps: a window near the end does not read the
     * rest. */
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
        assert(low == high && high >= from && high <= to + 1);
        *ret_seq = high;
    }
    return status;
}
