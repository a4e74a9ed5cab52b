/* Verify: the file's structure first, then session by session, each from a snapshot of its own,
 * then state whose session is gone. Reports problems; with the flag, repair.c mends them.
 *
 *    rows say            checked against
 *    seq                 1, 2, 3 ... without gaps, from where the session's own begin
 *    tokens_total        the running sum of the messages' tokens
 *    next_seq, counts    the messages that are there
 *    compact_seq         a message that is a summary
 *    parent, fork_seq    ancestors that are there, with all shared messages
 *    indexed_seq         the messages; words are compared by a repair only
 *    hidden              holds no value of its own, has a fork
 *
 * Owns: what a sound session is.
 * Called by: quipu_store_verify(); qp_verify_session() also by imports before they commit.
 * Transactions: reads only. A short snapshot for each session, so that a long check neither blocks
 * writers nor keeps the log from being truncated.
 * On return: the caller's function has got every problem; a problem is no failure of the call. */
#include "store/verify.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "ent/maintenance.h"
#include "ent/search_engine.h"
#include "store/classes.h"
#include "store/fork_chain.h"
#include "store/message.h"

#define VERIFY_NAME_SHOWN 60 /* bytes of a name that a text shows */

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
    (void)vsnprintf(findings->text[kind], QP_PROBLEM_TEXT_SIZE, format, args);
    va_end(args);
}

void qp_verify_tell(qp_verify_run *run, quipu_problem_kind kind, quipu_str tenant, quipu_str key,
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

int64_t qp_verify_lowest(const qp_session *row)
{
    const int64_t base = qp_session_base(row);

    return row->first_seq > base ? row->first_seq : base + 1;
}

/* The tokens of all messages before the first that the session holds and shows; *ret_known is false
 * when only that message itself says it. That is so when earlier messages were removed: then its
 * own total is where the sum begins. */
static quipu_status verify_base(ent_db *db, const qp_session *row, bool *ret_known,
                                qp_findings *findings, quipu_error *reterr)
{
    const int64_t base = qp_session_base(row);
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *message = NULL;
    quipu_error error = {0};
    qp_chain chain;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    findings->base_total = 0;
    /* A session that is no fork begins with 0 tokens, unless its first messages were removed; a
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

/* What the walk over a session's messages remembers. It sees every message that the session holds,
 * also those that only forks still show: these must be readable, but need not be without gaps. */
typedef struct verify_walk {
    const qp_session *row;
    qp_findings *findings;
    int64_t lowest;
    int64_t expected; /* number of the next message that is shown */
    int64_t before;   /* number of the message before, held or not */
    int64_t total;    /* and its running total, by the messages' own tokens */
    bool known;       /* the total is */
    bool indexed;     /* the file has a search index */
    qp_json_doc doc;
    quipu_arena arena;
} verify_walk;

/* The running total. Behind a gap the sum is not known, so that the next message's own total is the
 * new beginning: one missing message is one finding, not one for every message behind it. */
static void verify_totals(verify_walk *walk, const qp_message *message)
{
    if (!walk->known || message->seq != walk->before + 1) {
        walk->total = message->tokens_total - message->tokens;
    }
    if (message->seq == walk->lowest) {
        walk->findings->base_total = walk->total;
    }
    walk->total += message->tokens;
    walk->known = true;
    walk->before = message->seq;
    if (message->tokens_total != walk->total || message->tokens < 0) {
        qp_findings_add(walk->findings, QUIPU_PROBLEM_TOTALS, message->seq,
                        "the running total of message %lld is %lld, not %lld",
                        (long long)message->seq, (long long)message->tokens_total,
                        (long long)walk->total);
    }
}

/* One message: its place, its total, and whether it can be decoded. A living session shows its own
 * messages without gaps; of a hidden one only what forks reach is left. */
static quipu_status verify_message(verify_walk *walk, const qp_message *message,
                                   quipu_error *reterr)
{
    const qp_session *row = walk->row;
    quipu_error error = {0};
    quipu_message decoded;
    quipu_status status;

    assert(!walk->findings->cut);
    walk->findings->messages++;
    walk->findings->last_seq = message->seq;
    /* Messages below are kept for forks only; there may be gaps between them. */
    if (message->seq >= walk->lowest && row->key.p != NULL) {
        if (message->seq != walk->expected) {
            qp_findings_add(walk->findings, QUIPU_PROBLEM_SEQ, walk->expected,
                            "message %lld is missing", (long long)walk->expected);
        }
        walk->expected = message->seq + 1;
        if (message->seq >= row->next_seq) {
            qp_findings_add(walk->findings, QUIPU_PROBLEM_NEXT_SEQ, message->seq,
                            "there is message %lld, but the next number is %lld",
                            (long long)message->seq, (long long)row->next_seq);
        }
    }
    verify_totals(walk, message);
    /* Decoded and dropped: only whether it can be decoded matters. */
    quipu_arena_reset(&walk->arena);
    status = qp_message_decode(message, &walk->doc, &walk->arena, &decoded, &error);
    if (status == QUIPU_CORRUPT) {
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
    if (status == QUIPU_OK && ended == QUIPU_CORRUPT && error.field[0] != '\0') {
        /* A value is outside its field's enum or type. */
        qp_findings_add(walk->findings, QUIPU_PROBLEM_MESSAGE, walk->before + 1, "%s",
                        error.message);
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
    const int64_t last = walk->expected - 1;

    assert(!walk->findings->cut && walk->row->key.p != NULL);
    /* An empty session has no last message to compare with. */
    if (row->next_seq != last + 1 && row->next_seq > row->first_seq) {
        qp_findings_add(findings, QUIPU_PROBLEM_NEXT_SEQ, last,
                        "the last message is %lld, but the next number is %lld", (long long)last,
                        (long long)row->next_seq);
    }
    if (row->first_seq < 1 || row->first_seq > row->next_seq ||
        row->message_count != row->next_seq - row->first_seq) {
        qp_findings_add(findings, QUIPU_PROBLEM_COUNT, 0,
                        "it counts %lld messages, but has the numbers %lld to %lld",
                        (long long)row->message_count, (long long)row->first_seq,
                        (long long)row->next_seq - 1);
    }
    if (walk->known && row->token_count != walk->total) {
        qp_findings_add(findings, QUIPU_PROBLEM_TOTALS, 0, "it counts %lld tokens, not %lld",
                        (long long)row->token_count, (long long)walk->total);
    }
    /* Messages behind the watermark are found by `index_pending` only: without it no search would
     * ever index them. */
    if (walk->indexed && !row->index_pending && last >= walk->lowest && row->indexed_seq < last) {
        qp_findings_add(findings, QUIPU_PROBLEM_SEARCH, row->indexed_seq + 1,
                        "its messages behind %lld are in no search index, and nobody knows",
                        (long long)row->indexed_seq);
    }
    if (row->indexed_seq < 0 || row->indexed_seq >= row->next_seq) {
        qp_findings_add(findings, QUIPU_PROBLEM_SEARCH, 0,
                        "the search index reaches to %lld, the messages to %lld",
                        (long long)row->indexed_seq, (long long)row->next_seq - 1);
    }
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
    good = good && status == QUIPU_OK && message->mark == QP_MESSAGE_MARK_COMPACTION;
    if (!good && (status == QUIPU_OK || status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND)) {
        qp_findings_add(findings, QUIPU_PROBLEM_VIEW, seq,
                        "its view begins with message %lld, which is no summary", (long long)seq);
        status = QUIPU_OK;
    }
    quipu_arena_free(&arena);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
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
    /* It shows nothing of its parent any more. */
    if (base < row->first_seq) {
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

/* A session without a key is kept for its forks, and keeps nothing of its own (classes.h). */
static quipu_status verify_hidden(ent_db *db, const qp_session *row, qp_findings *findings,
                                  quipu_error *reterr)
{
    bool has_forks = false;
    quipu_status status = qp_session_exists(db, &(qp_session_where){.parent_id = ent_eq(row->id)},
                                            &has_forks, reterr);
    const ent_field *held = ent_class_held(&qp_session_entity, QP_CLASSES_OWN, row);

    assert(row->key.p == NULL);
    if (held != NULL) {
        qp_findings_add(findings, QUIPU_PROBLEM_DELETED, 0,
                        "it was deleted, but its row still has a value in %s", held->name);
    }
    if (status == QUIPU_OK && !has_forks) {
        qp_findings_add(findings, QUIPU_PROBLEM_FORK, 0,
                        "it was deleted, and no fork of it is left");
    }
    return status;
}

/* The messages first: what they say is the measure for the row. */
quipu_status qp_verify_session(ent_db *db, const qp_session *row, qp_findings *ret_findings,
                               quipu_error *reterr)
{
    verify_walk walk = {.row = row,
                        .findings = ret_findings,
                        .lowest = qp_verify_lowest(row),
                        .indexed = qp_search_is_there(db, &qp_message_entity)};
    quipu_status status;

    assert(ent_depth(db) > 0 && ret_findings != NULL);
    *ret_findings = (qp_findings){.messages = 0};
    walk.expected = walk.lowest;
    walk.before = walk.lowest - 1;
    qp_json_init(&walk.doc);
    status = verify_base(db, row, &walk.known, ret_findings, reterr);
    walk.total = ret_findings->base_total;
    if (status == QUIPU_OK) {
        status = verify_messages(db, &walk, reterr);
    }
    ret_findings->last_total = walk.total;
    /* A hidden row keeps its old numbers; nothing reads them, so that they are not compared. */
    if (status == QUIPU_OK && row->key.p == NULL) {
        status = verify_hidden(db, row, ret_findings, reterr);
    } else if (status == QUIPU_OK) {
        /* Half of the messages say nothing about counts and totals. */
        if (!ret_findings->cut) {
            verify_header(&walk);
        }
        status = verify_view(db, row, ret_findings, reterr);
        if (status == QUIPU_OK) {
            status = verify_past(db, row, ret_findings, reterr);
        }
    }
    qp_json_free(&walk.doc);
    quipu_arena_free(&walk.arena);
    return status;
}

/* ---- the whole store --------------------------------------------------------------------------
 */

/* A qp_report_fn: what the engine finds wrong with the file's structure. */
static quipu_status verify_hear(void *ctx, quipu_str text)
{
    qp_verify_tell(ctx, QUIPU_PROBLEM_FILE, QP_STR_ABSENT, QP_STR_ABSENT, 0, text, false);
    return QUIPU_OK;
}

/* The engine's own check. Outside of a transaction: it takes the snapshots that it needs. */
static quipu_status verify_file_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    assert(ent_depth(db) == 0);
    (void)scratch;
    return qp_maintenance_check(db, verify_hear, ctx, reterr);
}

/* The walk over all sessions by number, of all tenants that the connection may read: they share the
 * file. `id` is the last one that was checked. */
typedef struct verify_next {
    qp_verify_run *run;
    int64_t id;
    bool found;
    const qp_session *row;
    qp_findings findings;
} verify_next;

/* Check the session behind number `id`. Its problems are reported outside of the snapshot, so that
 * a slow function keeps nobody waiting; with repairs, repair.c reports them. A retry reports
 * nothing twice: reports come behind everything that can fail. */
static quipu_status verify_next_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    verify_next *next = ctx;
    const qp_session_query query = {
        .limit = 1, .order = {QP_SESSION_BY_ID(ASC)}, .where = {.id = ent_gt(next->id)}};
    qp_session_list list = {0};
    quipu_status status = ent_begin(db, ENT_READ, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_find(db, scratch, &query, &list, reterr);
    }
    next->found = status == QUIPU_OK && list.n > 0;
    if (!next->found) {
        return status;
    }
    status = qp_verify_session(db, &list.items[0], &next->findings, reterr);
    if (status == QUIPU_OK) {
        next->id = list.items[0].id; /* a try that failed is repeated from the same one */
    }
    while (ent_depth(db) > 0) {
        ent_rollback(db); /* nobody waits while the callback runs */
    }
    assert(ent_depth(db) == 0);
    for (int kind = 1; kind < QP_PROBLEM_KINDS && status == QUIPU_OK && !next->run->repairs;
         kind++) {
        if (next->findings.has[kind]) {
            qp_verify_tell(next->run, (quipu_problem_kind)kind, list.items[0].tenant,
                           list.items[0].key, next->findings.seq[kind],
                           quipu_cstr(next->findings.text[kind]), false);
        }
    }
    return status;
}

/* Session after session, until none is left. What is created meanwhile has a larger number and is
 * checked, too. */
static quipu_status verify_sessions(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    verify_next next = {.run = run};
    quipu_status status;

    for (;;) {
        status = qp_store_read_apart(run->store, call, verify_next_work, &next, reterr);
        if (status != QUIPU_OK || !next.found) {
            return status;
        }
        assert(next.findings.messages >= 0);
        run->done.sessions++;
        run->done.messages += next.findings.messages;
        /* The repair checks again in its own transaction: the session may have changed since. */
        if (run->repairs && qp_findings_any(&next.findings)) {
            status = qp_repair_session(run, call, next.id, reterr);
        }
        qp_call_tell(call, run->done.sessions);
        if (status != QUIPU_OK) {
            return status;
        }
    }
}

/* The walk over the state of sessions, for rows whose session is not there. `row` is the one that
 * was found, and where the next look begins. */
typedef struct verify_state {
    qp_verify_run *run;
    quipu_arena arena; /* holds `row` */
    const qp_state *row;
} verify_state;

/* Find the next row without a session. Rows are passed over one by one, in the order of the key; a
 * retry begins behind the last one that was seen. The row that was found lies in an arena of its
 * own, which is exchanged only when the next row is known. */
static quipu_status verify_state_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    verify_state *state = ctx;
    qp_state_query query = {.limit = 1,
                            .order = {QP_STATE_BY_TENANT(ASC), QP_STATE_BY_APP_NAME(ASC),
                                      QP_STATE_BY_USER_ID(ASC), QP_STATE_BY_SESSION_NUMBER(ASC)},
                            .where = {.scope = qp_state_scope_is(QP_STATE_SCOPE_SESSION)}};
    quipu_arena fresh = QUIPU_ARENA_INIT;
    qp_state_list list = {0};
    quipu_status status = QUIPU_OK;
    bool exists = true;

    (void)scratch;
    while (status == QUIPU_OK && exists) {
        query.after = state->row;
        status = qp_state_find(db, &fresh, &query, &list, reterr);
        if (status != QUIPU_OK || list.n == 0) {
            break;
        }
        status = qp_session_exists(
            db, &(qp_session_where){.id = ent_eq(list.items[0].session_number)}, &exists, reterr);
        if (status == QUIPU_OK) { /* a try that failed is repeated from the same row */
            quipu_arena_free(&state->arena);
            state->arena = fresh;
            fresh = (quipu_arena)QUIPU_ARENA_INIT;
            state->row = &list.items[0];
        }
    }
    assert(status != QUIPU_OK || exists || state->row != NULL);
    quipu_arena_free(&fresh);
    if (status == QUIPU_OK && exists) {
        state->row = NULL; /* the end */
    }
    return status;
}

/* Report or remove such rows until none is left. */
static quipu_status verify_states(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    verify_state state = {.run = run};
    char text[QP_PROBLEM_TEXT_SIZE];
    quipu_status status = QUIPU_OK;

    do {
        status = qp_store_read_apart(run->store, call, verify_state_work, &state, reterr);
        if (status == QUIPU_OK && state.row != NULL) {
            (void)snprintf(text, sizeof(text),
                           "there is state \"%.*s\" of session number %lld, which is not there",
                           (int)qp_utf8_cut(state.row->name, VERIFY_NAME_SHOWN), state.row->name.p,
                           (long long)state.row->session_number);
            /* Reported as repaired only when the removal is committed. */
            if (run->repairs) {
                status = qp_repair_state(run, call, state.row, reterr);
            }
            if (status == QUIPU_OK) {
                qp_verify_tell(run, QUIPU_PROBLEM_STATE, state.row->tenant, QP_STR_ABSENT, 0,
                               quipu_cstr(text), run->repairs);
            }
        }
    } while (status == QUIPU_OK && state.row != NULL);
    quipu_arena_free(&state.arena);
    return status;
}

/* The whole check, in the order in which problems explain each other: a broken file breaks
 * sessions. */
static quipu_status verify_all(qp_verify_run *run, const quipu_call_options *call,
                               quipu_verified *ret_verified, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_maintain_enter(run->store, call, &within, reterr);

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
        status = verify_sessions(run, &within, reterr);
    }
    if (status == QUIPU_OK) {
        status = verify_states(run, &within, reterr);
    }
    if (status == QUIPU_OK && run->repairs) {
        /* Behind the sessions: their repairs decide whether the index is rebuilt. */
        status = qp_repair_search(run, &within, reterr);
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

quipu_status quipu_store_verify(quipu_store *store, uint32_t flags, quipu_problem_fn fn, void *ctx,
                                const quipu_call_options *call, quipu_verified *ret_verified,
                                quipu_error *reterr)
{
    qp_verify_run run = {
        .store = store, .fn = fn, .fn_ctx = ctx, .repairs = (flags & QUIPU_VERIFY_REPAIR) != 0};

    return (flags & ~QUIPU_VERIFY_REPAIR) == 0
               ? verify_all(&run, call, ret_verified, reterr)
               : qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_VERIFY_*",
                              (unsigned)flags);
}
