/* Verify: the file's structure first and the forms of all values (verify_counters.c), then session
 * by session, each from a snapshot of its own, then the other tables (verify_rows.c), the counters
 * of numbers (verify_counters.c), and the search index. Reports problems; with the flag,
 * repair.c mends them.
 *
 *    rows say            checked against
 *    every field         the rules of a write: UTF-8, JSON, lengths, ranges (qp_row_sound)
 *    seq                 1, 2, 3 ... without gaps, from where the session's own begin
 *    tokens_total        the running sum of the messages' tokens
 *    salted_hash         the hash of the message and of all before it (verify_hash.c)
 *    next_seq, counts    the messages that are there
 *    compact_seq         a message that is a summary
 *    totals of answers   the rows of usage and the messages behind them (verify_usage.c)
 *    parent, fork_seq    ancestors that are there, with all shared messages
 *    indexed_seq         the messages; the index has their words, no others (search_engine.h)
 *    hidden              holds no value of its own, has a fork or is purged
 *
 * Owns: what a sound session is. Called by: quipu_store_verify(); qp_verify_session() also by
 * imports before they commit. Transactions: reads only. A short snapshot for each session, so that
 * a long check neither blocks writers nor keeps the log from being truncated. On return: the
 * caller's function has got every problem; a problem is not an error of the call. */
#include "store/verify.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "base/str.h"
#include "base/sum.h"
#include "ent/maintenance.h"
#include "ent/row.h"
#include "ent/search_engine.h"
#include "store/classes.h"
#include "store/fork_chain.h"
#include "store/message.h"
#include "store/purge.h"
#include "store/verify_hash.h"

#define VERIFY_UNREADABLE_MAX 100 /* sessions that are skipped before the walk ends */

/* ---- findings ---------------------------------------------------------------------------------
 */

/* `cut` alone cannot be set: it comes with a finding. */
bool qp_findings_any(const qp_findings *findings)
{
    for (size_t i = 0; i < QP_PROBLEM_KINDS; i++) {
        if (findings->has[i]) {
            return true;
        }
    }
    assert(!findings->cut);
    return false;
}

/* A text may quote a damaged value: invalid UTF-8 in it is shown as '?'. */
QUIPU_PRINTF(2, 0)
static void verify_say(char ret_text[QP_PROBLEM_TEXT_SIZE], const char *format, va_list args)
{
    size_t at = 0;
    size_t n = 0;

    (void)vsnprintf(ret_text, QP_PROBLEM_TEXT_SIZE, format, args);
    n = strlen(ret_text);
    /* A '?' takes the place of each byte: the length stays. */
    while (at < n) {
        at += qp_utf8_prefix((quipu_str){ret_text + at, n - at});
        if (at < n) {
            ret_text[at++] = '?';
        }
    }
}

/* Cut at a character where it does not fit. */
void qp_problem_say(char ret_text[QP_PROBLEM_TEXT_SIZE], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    verify_say(ret_text, format, args);
    va_end(args);
}

/* The first of a kind is kept: later ones are mostly its consequences. */
void qp_findings_add(qp_findings *findings, quipu_problem_kind kind, int64_t seq,
                     const char *format, ...)
{
    va_list args;

    assert(kind > 0 && kind < QP_PROBLEM_KINDS);
    if (findings->has[kind]) {
        return;
    }
    findings->has[kind] = true;
    findings->seq[kind] = seq;
    va_start(args, format);
    verify_say(findings->text[kind], format, args);
    va_end(args);
}

/* Counts a problem and passes it on. The store's own checks report between two transactions, so
 * that the program's function may take its time; the engine's check of the file reports while it
 * reads. */
void qp_verify_report(qp_verify_run *run, quipu_problem_kind kind, quipu_str tenant, quipu_str key,
                      int64_t seq, quipu_str text, bool repaired)
{
    const quipu_problem problem = {kind, tenant, key, seq, text, repaired};

    assert(kind > 0 && kind < QP_PROBLEM_KINDS);
    run->done.problems++;
    run->done.repaired += repaired;
    assert(run->done.repaired <= run->done.problems);
    if (run->fn != NULL) {
        run->fn(run->fn_ctx, &problem);
    }
}

/* ---- one session ------------------------------------------------------------------------------
 */

/* The first message that the session itself holds and shows. */
int64_t qp_verify_lowest(const qp_session *row)
{
    const int64_t base = qp_session_base(row);

    return row->first_seq > base ? row->first_seq : base + 1;
}

/* The tokens of all messages before the first that the session holds and shows; *ret_known is false
 * when only that message itself says it. That is so when earlier messages were removed: then its
 * own total is where the sum begins. A fork's hash chain goes on from the same message. */
static quipu_status verify_base(ent_db *db, const qp_session *row, bool *ret_known,
                                qp_hash_walk *ret_chain, qp_findings *findings, quipu_error *reterr)
{
    const int64_t base = qp_session_base(row);
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *message = NULL;
    quipu_error error = {0};
    qp_chain chain;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    findings->base_total = 0;
    /* A session that is not a fork begins with 0 tokens, unless its first messages were removed; a
     * fork begins with the total at its fork number, if it still shows that message. */
    *ret_known = base == 0 ? row->first_seq == 1 : row->first_seq <= base;
    if (!*ret_known || base == 0) {
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, row, base, base, &chain, &error);
    if (status == QUIPU_OK) {
        status = qp_chain_row(db, &chain, base, &arena, &message, &error);
    }
    if (status == QUIPU_OK) {
        assert(message != NULL);
        findings->base_total = message->tokens_total;
        qp_hash_walk_at(ret_chain, base, qp_message_hash_of(message));
        /* A shared past that is missing is a finding here, not a failure. */
    } else if (status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND) {
        *ret_known = false;
        if (row->key.p != NULL) { /* of a hidden one only what forks reach has to be there */
            qp_findings_add(findings, QUIPU_PROBLEM_FORK, base, "%s", error.message);
        }
        status = QUIPU_OK;
    } else {
        (void)qp_error_pass(reterr, &error);
    }
    quipu_arena_free(&arena);
    return status;
}

/* The state of the walk over a session's messages. It sees every message that the session holds,
 * also those that only forks still show: these must be readable, but need not be without gaps. */
typedef struct verify_walk {
    ent_db *db;
    const qp_session *row;
    qp_findings *findings;
    int64_t lowest;   /* number of the first message that it holds and shows */
    int64_t expected; /* number of the next message that is shown */
    int64_t before;   /* number of the message before, held or not */
    int64_t total;    /* and its running total, by the messages' own tokens */
    bool known;       /* the total is */
    qp_hash_walk chain;
    bool indexed;      /* the file has a search index */
    qp_json_doc doc;   /* its memory is used again for each message */
    quipu_arena arena; /* the same */
} verify_walk;

/* The running total. Behind a gap the sum is not known, so that the next message's own total is the
 * new beginning: one missing message is one finding, not one for every message behind it.
 *
 *   message        1    2         4
 *   tokens        10    5         7
 *   tokens_total  10   15        40      message 3 is missing: the sum goes on from 40 - 7 */
static void verify_totals(verify_walk *walk, const qp_message *message)
{
    if (!walk->known || message->seq != qp_sum(walk->before, 1)) {
        walk->total = qp_difference(message->tokens_total, message->tokens);
    }
    if (message->seq == walk->lowest) {
        walk->findings->base_total = walk->total;
    }
    walk->total = qp_sum(walk->total, message->tokens);
    walk->known = true;
    walk->before = message->seq;
    if (message->tokens_total != walk->total || message->tokens < 0) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_TOTALS, message->seq,
                        "the running total of message %lld is %lld, not %lld",
                        (long long)message->seq, (long long)message->tokens_total,
                        (long long)walk->total);
    }
}

/* The event id is bytes to the schema, and text to callers: 1 to QUIPU_EVENT_ID_MAX of UTF-8. */
static bool verify_is_text(const quipu_message *decoded)
{
    return decoded->event_id.n >= 1 && decoded->event_id.n <= QUIPU_EVENT_ID_MAX &&
           qp_utf8_valid(decoded->event_id);
}

/* Whether a message that only forks still show can be there, and be found by its number. There may
 * be gaps between such messages, so that their count says nothing: where the engine packs numbers
 * into its own key, the two may differ. */
static quipu_status verify_kept(verify_walk *walk, const qp_message *message, quipu_error *reterr)
{
    const int64_t base = qp_session_base(walk->row);
    bool exists = false;
    quipu_status status = qp_message_exists(
        walk->db,
        &(qp_message_where){.session_id = ent_eq(walk->row->id), .seq = ent_eq(message->seq)},
        &exists, reterr);

    if (status == QUIPU_OK && !exists) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, message->seq,
                        "message %lld stands under another number", (long long)message->seq);
    }
    /* The numbers up to the fork's are its parent's. */
    if (status == QUIPU_OK && message->seq <= base) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, message->seq,
                        "it holds message %lld, although it is a fork at message %lld",
                        (long long)message->seq, (long long)base);
    }
    return status;
}

/* The same for the messages that the session shows: as many stand under their numbers as there are
 * numbers. */
static quipu_status verify_shown(ent_db *db, const verify_walk *walk, quipu_error *reterr)
{
    const int64_t last = walk->expected - 1;
    int64_t count = 0;
    quipu_status status = QUIPU_OK;

    /* It shows no message of its own. */
    if (last < walk->lowest) {
        return QUIPU_OK;
    }
    status = qp_message_count(db,
                              &(qp_message_where){.session_id = ent_eq(walk->row->id),
                                                  .seq = ent_between(walk->lowest, last)},
                              &count, reterr);
    if (status == QUIPU_OK && count != last - walk->lowest + 1) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, 0,
                        "of the messages %lld to %lld, %lld stand under their numbers",
                        (long long)walk->lowest, (long long)last, (long long)count);
    }
    return status;
}

/* One message: its place, its total, and whether it can be decoded. A living session shows its own
 * messages without gaps; of a hidden one only what forks reach is left. */
static quipu_status verify_message(verify_walk *walk, const qp_message *message,
                                   quipu_error *reterr)
{
    const qp_session *row = walk->row;
    const bool shown = message->seq >= walk->lowest && row->key.p != NULL;
    quipu_error error = {0};
    quipu_message decoded;
    quipu_status status = QUIPU_OK;

    assert(!walk->findings->cut);
    if (walk->findings->messages > 0 && message->seq <= walk->findings->last_seq) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, message->seq,
                        "message %lld stands behind message %lld", (long long)message->seq,
                        (long long)walk->findings->last_seq);
    }
    walk->findings->messages++;
    walk->findings->last_seq = message->seq;
    /* Messages below are kept for forks only; there may be gaps between them. */
    if (!shown) {
        status = verify_kept(walk, message, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    } else {
        if (message->seq != walk->expected) {
            qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, walk->expected,
                            "message %lld is missing", (long long)walk->expected);
        }
        walk->expected = qp_sum(message->seq, 1);
        if (message->seq >= row->next_seq) {
            qp_findings_add(walk->findings, QUIPU_PROBLEM_NEXT_SEQ, message->seq,
                            "there is message %lld, but the next number is %lld",
                            (long long)message->seq, (long long)row->next_seq);
        }
    }
    verify_totals(walk, message);
    qp_hash_walk_message(&walk->chain, row, message, walk->findings);
    /* Decoded and dropped: only whether it can be decoded matters. */
    quipu_arena_reset(&walk->arena);
    status = qp_row_sound(&qp_message_entity, message, &error);
    if (status == QUIPU_OK) {
        status = qp_message_decode(message, &walk->doc, &walk->arena, &decoded, &error);
    }
    if (status == QUIPU_OK && !verify_is_text(&decoded)) {
        status = qp_error_set(&error, QUIPU_CORRUPT, "message %lld has an event id that is no text",
                              (long long)message->seq);
    }
    if (status == QUIPU_CORRUPT || status == QUIPU_INVALID || status == QUIPU_LIMIT) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_MESSAGE, message->seq, "%s", error.message);
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* All messages that the session holds. A row that cannot be read ends the walk, because the
 * iteration cannot continue behind it: then no count is compared. */
static quipu_status verify_messages(ent_db *db, verify_walk *walk, quipu_error *reterr)
{
    const qp_message_query query = {.order = {QP_MESSAGE_BY_SEQ(ASC)},
                                    .where = {.session_id = ent_eq(walk->row->id)}};
    qp_message_iter iter;
    qp_message message;
    quipu_error error = {0};
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    assert(ent_depth(db) > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_message_iter_next(&iter, &message)) {
        status = verify_message(walk, &message, reterr);
    }
    quipu_status ended = qp_message_iter_end(&iter, &error);
    if (status == QUIPU_OK && ended == QUIPU_CORRUPT) {
        /* A value is outside its field's enum or type, or a page is damaged. */
        qp_findings_add(walk->findings,
                        error.field[0] != '\0' ? QUIPU_PROBLEM_MESSAGE : QUIPU_PROBLEM_FILE,
                        qp_sum(walk->before, 1), "%s", error.message);
        walk->findings->cut = true;
        return QUIPU_OK;
    }
    return status == QUIPU_OK && ended != QUIPU_OK ? qp_error_pass(reterr, &error) : status;
}

/* Compare the session's row with what the walk has seen. Each kind has its own condition, so that
 * one wrong number gives one finding. Not called when the walk was cut, nor for a hidden session,
 * whose numbers nobody reads. */
static void verify_header(const verify_walk *walk)
{
    const qp_session *row = walk->row;
    qp_findings *findings = walk->findings;
    const int64_t last = qp_difference(walk->expected, 1);

    assert(!walk->findings->cut && walk->row->key.p != NULL);
    /* An empty session has no last message to compare with. */
    if (row->next_seq != walk->expected && row->next_seq > row->first_seq) {
        qp_findings_add(findings, QUIPU_PROBLEM_NEXT_SEQ, last,
                        "the last message is %lld, but the next number is %lld", (long long)last,
                        (long long)row->next_seq);
    }
    if (row->first_seq < 1 || row->first_seq > row->next_seq ||
        row->message_count != qp_difference(row->next_seq, row->first_seq)) {
        qp_findings_add(findings, QUIPU_PROBLEM_COUNT, 0,
                        "it counts %lld messages, but has the numbers %lld to %lld",
                        (long long)row->message_count, (long long)row->first_seq,
                        (long long)qp_difference(row->next_seq, 1));
    }
    /* Without a known beginning there is no sum to compare with. */
    if (walk->known && row->token_count != walk->total) {
        qp_findings_add(findings, QUIPU_PROBLEM_TOTALS, 0, "it counts %lld tokens, not %lld",
                        (long long)row->token_count, (long long)walk->total);
    }
}

/* The watermark of the search index. Messages behind it are found by `index_pending` only: without
 * it no search would ever index them. Also of a hidden session, whose messages are indexed under
 * its own number. */
static void verify_watermark(const verify_walk *walk)
{
    const qp_session *row = walk->row;
    const int64_t last = walk->findings->last_seq;

    assert(!walk->findings->cut);
    if (walk->indexed && !row->index_pending && last > qp_session_base(row) &&
        row->indexed_seq < last) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEARCH, qp_sum(row->indexed_seq, 1),
                        "its messages behind %lld are in no search index, and it is not "
                        "marked as pending",
                        (long long)row->indexed_seq);
    }
    if (row->indexed_seq < 0 || row->indexed_seq >= row->next_seq) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_SEARCH, 0,
                        "the search index reaches to %lld, the messages to %lld",
                        (long long)row->indexed_seq, (long long)qp_difference(row->next_seq, 1));
    }
}

/* Compares the usage of its own answers, and where its newest turn begins. */
static bool verify_row_answers(const qp_session *row)
{
    return row->prompt_total >= 0 && row->cached_total >= 0 && row->answer_total >= 0 &&
           row->answer_count >= 0 && row->turn_seq <= ENT_CLUSTER_SEQ_MAX;
}

/* The numbers that nothing else is compared with. Where the messages of a living row begin and end
 * they say themselves. */
static bool verify_row_numbers(const qp_session *row)
{
    const bool placed =
        row->key.p != NULL || (row->first_seq >= 1 && row->next_seq >= row->first_seq &&
                               row->next_seq <= ENT_CLUSTER_SEQ_MAX + 1);

    return placed && verify_row_answers(row) && row->id >= 1 && row->revision >= 0 &&
           row->revision < INT64_MAX && row->compact_seq >= 0 && row->turn_seq >= 0 &&
           row->token_rule >= 0 && (!row->ttl_ms.has || row->ttl_ms.v >= 1);
}

/* Checks the row alone: the rules of its fields, and those that calls keep. Only the messages of a
 * sound row are read: wrong numbers would mislead every other check. */
static quipu_status verify_row(const qp_session *row, qp_findings *findings, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = qp_row_sound(&qp_session_entity, row, &error);

    if (status == QUIPU_OK) {
        status = qp_object_check(row->metadata, "metadata", &error);
    }
    if (status == QUIPU_OK && row->key.p != NULL) {
        status = qp_key_check(row->key, &error);
    }
    if (status == QUIPU_OK && !verify_row_numbers(row)) {
        status =
            qp_error_set(&error, QUIPU_INVALID,
                         "its row has a number that it cannot have (id, revision, compact_seq, "
                         "turn_seq, token_rule, ttl_ms or the totals of its answers; of a deleted "
                         "one first_seq or next_seq)");
    }
    /* The one failure that says nothing of the row. */
    if (status == QUIPU_NOMEM) {
        return qp_error_pass(reterr, &error);
    }
    if (status != QUIPU_OK) {
        qp_findings_add(findings, QUIPU_PROBLEM_SESSION, 0, "%s", error.message);
    }
    return QUIPU_OK;
}

/* The summary with which the view begins must be there, and be one. */
static quipu_status verify_view(ent_db *db, const qp_session *row, qp_findings *findings,
                                quipu_error *reterr)
{
    const int64_t seq = row->compact_seq;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *message = NULL;
    quipu_error error = {0};
    qp_chain chain;
    bool good = seq >= row->first_seq && seq < row->next_seq;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    /* Never compacted: the view begins with the first message. */
    if (seq == 0) {
        return QUIPU_OK;
    }
    if (good) {
        status = qp_chain_resolve(db, row, seq, seq, &chain, &error);
    }
    if (good && status == QUIPU_OK) {
        status = qp_chain_row(db, &chain, seq, &arena, &message, &error);
    }
    assert(status != QUIPU_OK || !good || message != NULL);
    /* The row says where the view begins; a message there that is not a summary is as wrong as a
     * missing one. */
    good = good && status == QUIPU_OK && message->mark == QP_MESSAGE_MARK_COMPACTION;
    if (!good && (status == QUIPU_OK || status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND)) {
        qp_findings_add(findings, QUIPU_PROBLEM_VIEW, seq,
                        "its view begins with message %lld, which is no summary", (long long)seq);
        status = QUIPU_OK;
    }
    quipu_arena_free(&arena);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* Numbers are never reused: a fork has a larger one than its parent. */
static bool verify_can_fork(const qp_session *row)
{
    const int64_t base = qp_session_base(row);

    return !row->parent_id.has || (row->parent_id.v >= 1 && row->parent_id.v < row->id &&
                                   row->fork_seq.v >= 0 && base < row->next_seq);
}

/* A fork belongs to the tenant of its parent; one that is missing is found by the chain. */
static quipu_status verify_tenant(ent_db *db, const qp_session *row, qp_findings *findings,
                                  quipu_error *reterr)
{
    bool exists = false;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    if (row->parent_id.has) {
        status = qp_session_exists(
            db, &(qp_session_where){.id = ent_eq(row->parent_id.v), .tenant = ent_ne(row->tenant)},
            &exists, reterr);
    }
    if (status == QUIPU_OK && exists) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0,
                        "it is a fork of session number %lld, which is another tenant's",
                        (long long)row->parent_id.v);
    }
    return status;
}

/* The past that a fork shares must be there: as many messages as there are numbers. They are
 * counted, not read: reading is their holder's check. */
static quipu_status verify_past(ent_db *db, const qp_session *row, qp_findings *findings,
                                quipu_error *reterr)
{
    const int64_t base = qp_session_base(row);
    quipu_error error = {0};
    qp_chain chain = {0};
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    /* No call writes one without the other. */
    if (row->parent_id.has != row->fork_seq.has) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0, "it is half a fork");
        return QUIPU_OK;
    }
    if (!verify_can_fork(row)) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0,
                        "it is a fork of session number %lld at %lld, which cannot be",
                        (long long)row->parent_id.v, (long long)base);
        return QUIPU_OK;
    }
    status = verify_tenant(db, row, findings, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* It shows no message of its parent any more. A hidden session needs only the shared messages
     * that its forks reach; the forks' own checks cover these. */
    if (base < row->first_seq || row->key.p == NULL) {
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, row, row->first_seq, base, &chain, &error);
    for (size_t i = 0; i < chain.count && status == QUIPU_OK; i++) {
        const qp_segment *part = &chain.segments[i];
        int64_t count = 0;
        status = qp_message_count(db,
                                  &(qp_message_where){.session_id = ent_eq(part->session),
                                                      .seq = ent_between(part->from, part->to)},
                                  &count, &error);
        if (status == QUIPU_OK && count != part->to - part->from + 1) {
            qp_findings_add(findings, QUIPU_PROBLEM_FORK, part->from,
                            "of the messages %lld to %lld that it shares, %lld are missing",
                            (long long)part->from, (long long)part->to,
                            (long long)(part->to - part->from + 1 - count));
        }
    }
    if (status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0, "%s", error.message);
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* A session without a key is kept for its forks, or until it is purged (purge.h), and keeps nothing
 * of its own (classes.h). */
static quipu_status verify_hidden(ent_db *db, const qp_session *row, qp_findings *findings,
                                  quipu_error *reterr)
{
    bool has_forks = false;
    bool has_job = false;
    quipu_status status = qp_session_exists(db, &(qp_session_where){.parent_id = ent_eq(row->id)},
                                            &has_forks, reterr);
    const ent_field *held = ent_class_held(&qp_session_entity, QP_CLASSES_OWN, row);

    assert(row->key.p == NULL);
    if (held != NULL) {
        qp_findings_add(findings, QUIPU_PROBLEM_DELETED, 0,
                        "it was deleted, but its row still has a value in %s", held->name);
    }
    /* A purge that is under way removes the row at its end. */
    if (status == QUIPU_OK && !has_forks) {
        status = qp_purge_exists(db, row->tenant, row->id, &has_job, reterr);
    }
    if (status == QUIPU_OK && !has_forks && !has_job) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0,
                        "it was deleted, and no fork of it is left");
    }
    return status;
}

/* Compares the row with what the walk over its messages has seen. */
static quipu_status verify_against(ent_db *db, const verify_walk *walk, quipu_error *reterr)
{
    const qp_session *row = walk->row;
    quipu_status status = QUIPU_OK;

    /* Half of the messages say nothing about counts, totals and the index. */
    if (!walk->findings->cut) {
        verify_watermark(walk);
    }
    if (row->key.p == NULL) {
        status = verify_hidden(db, row, walk->findings, reterr);
    } else {
        /* A hidden row keeps its old numbers; nothing reads them, so that they are not compared. */
        if (!walk->findings->cut) {
            verify_header(walk);
            qp_hash_walk_end(&walk->chain, row, walk->findings);
            status = verify_shown(db, walk, reterr);
            if (status == QUIPU_OK) {
                status = qp_verify_usage(db, row, walk->findings, reterr);
            }
        }
        if (status == QUIPU_OK) {
            status = verify_view(db, row, walk->findings, reterr);
        }
    }
    return status == QUIPU_OK ? verify_past(db, row, walk->findings, reterr) : status;
}

/* The messages first: what they say is the measure for the row. Damage that stops the check is a
 * finding as well: the caller goes on with the next session. */
quipu_status qp_verify_session(ent_db *db, const qp_session *row, qp_findings *ret_findings,
                               quipu_error *reterr)
{
    verify_walk walk = {.db = db,
                        .row = row,
                        .findings = ret_findings,
                        .lowest = qp_verify_lowest(row),
                        .indexed = qp_search_is_there(db, &qp_message_entity)};
    quipu_error error = {0};
    quipu_status status;

    assert(ent_depth(db) > 0 && ret_findings != NULL);
    *ret_findings = (qp_findings){.messages = 0};
    /* As if the message in front of the lowest one had just been seen. */
    walk.expected = walk.lowest;
    walk.before = walk.lowest - 1;
    qp_json_init(&walk.doc);
    status = verify_row(row, ret_findings, &error);
    if (status == QUIPU_OK) {
        status = verify_base(db, row, &walk.known, &walk.chain, ret_findings, &error);
    }
    walk.total = ret_findings->base_total;
    if (status == QUIPU_OK) {
        status = verify_messages(db, &walk, &error);
    }
    ret_findings->last_total = walk.total;
    if (status == QUIPU_OK) {
        status = verify_against(db, &walk, &error);
    }
    qp_json_free(&walk.doc);
    quipu_arena_free(&walk.arena);
    if (status == QUIPU_CORRUPT) {
        qp_findings_add(ret_findings, QUIPU_PROBLEM_FILE, 0, "%s", error.message);
        ret_findings->cut = true;
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* ---- the whole store --------------------------------------------------------------------------
 */

/* A qp_report_fn: what the engine finds wrong with the file's structure. */
static quipu_status verify_hear(void *ctx, quipu_str text)
{
    qp_verify_report(ctx, QUIPU_PROBLEM_FILE, QP_STR_ABSENT, QP_STR_ABSENT, 0, text, false);
    return QUIPU_OK;
}

/* The engine's own check. Outside of a transaction: it takes the snapshots that it needs. */
static quipu_status verify_file_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) == 0);
    (void)scratch;
    status = qp_maintenance_layout(db, &qp_quipu_schema, verify_hear, ctx, &error);
    if (status == QUIPU_OK) {
        status = qp_maintenance_check(db, verify_hear, ctx, &error);
    }
    if (status == QUIPU_CORRUPT) {
        return verify_hear(ctx, quipu_cstr(error.message)); /* the check itself cannot go on */
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* The walk over all sessions by number, of all tenants that the connection may read: they share the
 * file. `id` is the last one that was checked or skipped. A sound number is positive; what lies
 * below is damage, and is to be found, the lowest number too. */
typedef struct verify_next {
    qp_verify_run *run;
    bool begun; /* one was */
    int64_t id;
    bool found;           /* a session was read: `findings` are of it */
    bool skipped;         /* one was not: `text` says why */
    bool ended;           /* nothing can be read behind `id` */
    int unreadable;       /* rows that were skipped; too many end the walk */
    qp_findings findings; /* of the session that was found */
    char text[QP_PROBLEM_TEXT_SIZE];
} verify_next;

/* The lowest session number from `low` on, when the row itself cannot be read: halves the range by
 * asking whether there is any, which reads no column. */
static quipu_status verify_seek(ent_db *db, int64_t low, int64_t *ret_id, quipu_error *reterr)
{
    int64_t high = INT64_MAX;
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && low < high) {
        /* The range may have more numbers than the signed type. */
        const int64_t middle = low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
        bool exists = false;

        status = qp_session_exists(db, &(qp_session_where){.id = ent_between(low, middle)}, &exists,
                                   reterr);
        if (exists) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    *ret_id = low;
    return status;
}

/* A row that cannot be read is a problem, and the walk goes on behind it; when its number cannot be
 * found either, or too many rows were skipped, the walk ends. */
static void verify_skip(verify_next *next, ent_db *db, const quipu_error *why)
{
    quipu_error error = {0};
    int64_t id = 0;
    const bool last = next->begun && next->id == INT64_MAX; /* nothing can stand behind */
    const quipu_status status =
        last ? QUIPU_CORRUPT : verify_seek(db, next->begun ? next->id + 1 : next->id, &id, &error);

    next->skipped = true;
    next->ended = status != QUIPU_OK || ++next->unreadable > VERIFY_UNREADABLE_MAX;
    if (next->ended) {
        qp_problem_say(next->text, "the sessions behind number %lld cannot be read: %s",
                       (long long)next->id, why->message);
        return;
    }
    assert(id > next->id || !next->begun);
    next->id = id;
    next->begun = true;
    qp_problem_say(next->text, "session number %lld cannot be read: %s", (long long)id,
                   why->message);
}

/* Reads the session behind `id`; NULL at the end. A row that does not stand behind it would make
 * the walk endless: the file is damaged. */
static quipu_status verify_read_next(verify_next *next, ent_db *db, quipu_arena *scratch,
                                     const qp_session **ret_row, quipu_error *reterr)
{
    const qp_session_query query = {
        .limit = 1,
        .order = {QP_SESSION_BY_ID(ASC)},
        .where = {.id = next->begun ? ent_gt(next->id) : ent_ge(next->id)}};
    quipu_error error = {0};
    qp_session_list list = {0};
    quipu_status status = qp_session_find(db, scratch, &query, &list, &error);

    if (status == QUIPU_OK && list.n > 0 && next->begun && list.items[0].id <= next->id) {
        status = qp_error_set(&error, QUIPU_CORRUPT, "rows are not in the order of their numbers");
    }
    if (status == QUIPU_CORRUPT) {
        verify_skip(next, db, &error);
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    *ret_row = list.n > 0 ? &list.items[0] : NULL;
    return QUIPU_OK;
}

/* Reports what the step found; with repairs, repair.c reports the problems of a session. */
static void verify_report(const verify_next *next, const qp_session *row)
{
    const bool is_text = row != NULL && qp_text_check(row->key, NULL) == QP_TEXT_OK;

    if (next->skipped) {
        qp_verify_report(next->run, next->ended ? QUIPU_PROBLEM_FILE : QUIPU_PROBLEM_SESSION,
                         QP_STR_ABSENT, QP_STR_ABSENT, 0, quipu_cstr(next->text), false);
    }
    for (int kind = 1; kind < QP_PROBLEM_KINDS && row != NULL && !next->run->repairs; kind++) {
        if (next->findings.has[kind]) {
            next->run->search = next->run->search || kind == QUIPU_PROBLEM_SEARCH;
            qp_verify_report(next->run, (quipu_problem_kind)kind, row->tenant,
                             is_text ? row->key : QP_STR_ABSENT, next->findings.seq[kind],
                             quipu_cstr(next->findings.text[kind]), false);
        }
    }
}

/* Check the session behind number `id`. Its problems are reported outside of the snapshot, so that
 * a slow function keeps nobody waiting. A retry reports nothing twice: reports come behind
 * everything that can fail. */
static quipu_status verify_next_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    verify_next *next = ctx;
    const qp_session *row = NULL;
    quipu_status status = ent_begin(db, ENT_READ, reterr);

    next->skipped = false; /* of a try before */
    if (status == QUIPU_OK) {
        status = verify_read_next(next, db, scratch, &row, reterr);
    }
    next->found = status == QUIPU_OK && row != NULL;
    if (next->found) {
        status = qp_verify_session(db, row, &next->findings, reterr);
    }
    if (status == QUIPU_OK && next->found) {
        next->id = row->id; /* a try that failed is repeated from the same one */
        next->begun = true;
    }
    while (ent_depth(db) > 0) {
        ent_rollback(db); /* nobody waits while the callback runs */
    }
    assert(ent_depth(db) == 0);
    if (status == QUIPU_OK) {
        verify_report(next, row);
    }
    return status;
}

/* Session after session, until none is left. A session that is created meanwhile is checked, too,
 * when its number is larger than the walk's. */
static quipu_status verify_sessions(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    verify_next next = {.run = run, .id = INT64_MIN};
    quipu_status status;

    for (;;) {
        status = qp_store_read_apart(run->store, call, verify_next_work, &next, reterr);
        if (status != QUIPU_OK || next.ended || (!next.found && !next.skipped)) {
            return status;
        }
        if (next.found) {
            assert(next.findings.messages >= 0);
            run->done.sessions++;
            run->done.messages += next.findings.messages;
            run->done.unhashed += next.findings.unhashed;
            /* The repair checks again in its own transaction: the session may have changed. */
            if (run->repairs && qp_findings_any(&next.findings)) {
                status = qp_repair_session(run, call, next.id, reterr);
            }
            qp_call_progress(call, run->done.sessions);
        }
        if (status == QUIPU_OK) {
            status = qp_call_check(call, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
    }
}

/* Whether the index holds the words of exactly the messages up to each session's watermark. */
static quipu_status verify_index_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    bool *differs = ctx;
    quipu_error error = {0};
    quipu_status status = ent_begin(db, ENT_READ, reterr);

    (void)scratch;
    *differs = false;
    if (status == QUIPU_OK && qp_search_is_there(db, &qp_message_entity)) {
        /* A term of an order names its field by number + 1. */
        const qp_session_order watermark = QP_SESSION_BY_INDEXED_SEQ(ASC);
        status = qp_search_check_index(db, &qp_message_entity,
                                       &qp_session_entity.fields[watermark.field - 1], &error);
        *differs = status == QUIPU_CORRUPT;
        status = *differs || status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
    }
    return status;
}

/* Runs once, behind all sessions: their repairs decide whether the index is rebuilt in any case. An
 * index with wrong watermarks is not compared. */
static quipu_status verify_index(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    bool differs = false;
    quipu_status status = QUIPU_OK;

    if (!run->search) {
        status = qp_store_read_apart(run->store, call, verify_index_work, &differs, reterr);
        run->search = status == QUIPU_OK && differs;
    }
    if (status == QUIPU_OK && run->search && run->repairs) {
        status = qp_repair_search(run, call, reterr);
    }
    if (status == QUIPU_OK && differs) {
        qp_verify_report(run, QUIPU_PROBLEM_SEARCH, QP_STR_ABSENT, QP_STR_ABSENT, 0,
                         QUIPU_STR("the search index and the messages differ"), run->repairs);
    }
    return status;
}

/* The whole check, in the order in which problems explain each other: a broken file breaks
 * sessions. */
static quipu_status verify_all(qp_verify_run *run, const quipu_call_options *call,
                               quipu_verified *ret_verified, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_maintain_enter_as("quipu_store_verify", run->store, call,
                                               QUIPU_VERIFY_DEADLINE_MS, &within, reterr);

    assert(run->done.sessions == 0 && run->done.problems == 0);
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_verified, "quipu_verified", reterr);
    }
    /* Refused before the check, which may take hours. */
    if (status == QUIPU_OK && run->repairs) {
        status = qp_store_writable(run->store, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_read_apart(run->store, &within, verify_file_work, run, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_verify_forms(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        status = verify_sessions(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_verify_rows(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_verify_counters(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        status = verify_index(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        assert(run->repairs || run->done.repaired == 0);
        qp_output_put(ret_verified, &run->done, sizeof(run->done));
        QP_LOG(&run->store->log, QUIPU_LOG_INFO, "store", run->repairs ? "repair" : "verify",
               QP_LOG_NUMBER("sessions", run->done.sessions),
               QP_LOG_NUMBER("problems", run->done.problems),
               QP_LOG_NUMBER("repaired", run->done.repaired));
    }
    qp_store_leave(&within);
    return status;
}

/* See <quipu/maintain.h>. Unknown flags are refused: a repair must not be started by accident. */
quipu_status quipu_store_verify(quipu_store *store, const quipu_verify_options *options,
                                const quipu_call_options *call, quipu_verified *ret_verified,
                                quipu_error *reterr)
{
    quipu_verify_options given = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_status status =
        qp_options_read(&given, sizeof(given), options, "quipu_verify_options", reterr);
    qp_verify_run run = {.store = store,
                         .fn = given.on_problem,
                         .fn_ctx = given.problem_ctx,
                         .repairs = (given.flags & QUIPU_VERIFY_REPAIR) != 0};

    if (status == QUIPU_OK && (given.flags & ~QUIPU_VERIFY_REPAIR) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_VERIFY_*",
                              (unsigned)given.flags);
    }
    return status == QUIPU_OK ? verify_all(&run, call, ret_verified, reterr) : status;
}
