/* Verify the usage of a session's answers: each row of usage states the totals before its span, so
 * that the answers of the span are the difference to the next row, or to the session's totals.
 *
 *    answers     a  a  a | b  b | a  a
 *    rows        0         3      5       plus the span's answers = the next row,
 *    the session's row                 7  or the session
 *
 * Owns: nothing.
 * Called by: verify.c, for a session that can be reached and whose messages were all read.
 * Transactions: reads in the caller's.
 * On return the first span that does not fit is a finding. Spans whose first messages were pruned
 * cannot be counted any more and are left out; a fork counts its own answers only. Nothing is
 * mended: which of the two numbers is right is not known. */
#include <assert.h>

#include "base/sum.h"
#include "store/usage.h"
#include "store/verify.h"

/* The first row of usage from message `seq` on; NULL: there is none. */
static quipu_status verify_usage_row(ent_db *db, const qp_session *row, int64_t seq,
                                     quipu_arena *arena, const qp_usage **ret, quipu_error *reterr)
{
    const qp_usage_query query = {.limit = 1,
                                  .order = {QP_USAGE_BY_SEQ(ASC)},
                                  .where = {.session_number = ent_eq(row->id), .seq = ent_ge(seq)}};
    qp_usage_list list = {0};
    quipu_status status = qp_usage_find(db, arena, &query, &list, reterr);

    assert(ent_depth(db) > 0);
    *ret = status == QUIPU_OK && list.n > 0 ? &list.items[0] : NULL;
    return status;
}

/* Adds the answers from message `from` to message `to`, as an append does. */
static quipu_status verify_usage_sum(ent_db *db, const qp_session *row, int64_t from, int64_t to,
                                     qp_usage_sum *sum, quipu_error *reterr)
{
    const qp_message_query query = {
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(row->id), .seq = ent_between(from, to)}};
    qp_message_iter iter;
    qp_message message;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    assert(from <= to && sum->count >= 0);
    if (status != QUIPU_OK) {
        return status;
    }
    while (qp_message_iter_next(&iter, &message)) {
        if (message.prompt_tokens.has || message.answer_tokens.has) {
            sum->prompt = qp_sum(sum->prompt, message.prompt_tokens.v);
            sum->cached = qp_sum(sum->cached, message.cached_tokens.v);
            sum->answer = qp_sum(sum->answer, message.answer_tokens.v);
            sum->count = qp_sum(sum->count, 1);
        }
    }
    return qp_message_iter_end(&iter, reterr);
}

/* The span that begins with `span`, and the next one's row, or NULL. */
static quipu_status verify_usage_span(ent_db *db, const qp_session *row, const qp_usage *span,
                                      const qp_usage *next, qp_findings *findings,
                                      quipu_error *reterr)
{
    qp_usage_sum sum = {span->prompt_before, span->cached_before, span->answer_before,
                        span->count_before, 0};
    qp_usage_sum right = QP_USAGE_OF(row);
    quipu_status status;

    assert(next == NULL || next->seq > span->seq);
    if (next != NULL) {
        right = (qp_usage_sum){next->prompt_before, next->cached_before, next->answer_before,
                               next->count_before, 0};
    }
    status = verify_usage_sum(db, row, span->seq,
                              next != NULL ? next->seq - 1 : ENT_CLUSTER_SEQ_MAX, &sum, reterr);
    if (status == QUIPU_OK && (sum.prompt != right.prompt || sum.cached != right.cached ||
                               sum.answer != right.answer || sum.count != right.count)) {
        qp_findings_add(findings, QUIPU_PROBLEM_TOTALS, span->seq,
                        "what its answers from message %lld on used does not fit %s (%lld answers, "
                        "not %lld)",
                        (long long)span->seq, next != NULL ? "the next row of usage" : "its totals",
                        (long long)sum.count, (long long)right.count);
    }
    return status;
}

/* A row of usage that cannot be is a finding of its own table, and ends this check. */
quipu_status qp_verify_usage(ent_db *db, const qp_session *row, qp_findings *findings,
                             quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_usage *span = NULL;
    const qp_usage *next = NULL;
    quipu_status status = QUIPU_OK;

    assert(row->key.p != NULL && !findings->cut);
    if (row->prompt_total == 0 && row->cached_total == 0 && row->answer_total == 0 &&
        row->answer_count == 0) {
        return QUIPU_OK; /* most sessions, and a child whose parent counts its answers */
    }
    status = verify_usage_row(db, row, qp_verify_lowest(row), &arena, &span, reterr);
    while (status == QUIPU_OK && span != NULL && qp_usage_sound(span, row->next_seq)) {
        status = verify_usage_row(db, row, span->seq + 1, &arena, &next, reterr);
        if (status == QUIPU_OK) {
            status = verify_usage_span(db, row, span, next, findings, reterr);
        }
        span = next;
    }
    quipu_arena_free(&arena);
    return status;
}
