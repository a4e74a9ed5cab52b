/* Compare a store with what was known of it earlier: heads of sessions, or the lines of an export,
 * which have the same members.
 *
 *    known       ... h(n) ── kept elsewhere
 *    now         ... h(n) ─▶ h(n+1) ─▶ head_hash      equal: nothing up to n is lost or changed
 *
 * Owns: what counts as lost. That the messages fit their hashes is verify's own check.
 * Called by: quipu_store_verify_against().
 * Transactions: reads only, a short snapshot for each session; problems are reported outside of it.
 * On return: every session that was known was looked for. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/option.h"
#include "base/str.h"
#include "base/sum.h"
#include "store/export_crypt.h"
#include "store/export_lines.h"
#include "store/export_row.h"
#include "store/hash_chain.h"
#include "store/import_read.h"
#include "store/verify.h"

/* The fate of a session that the heads name. */
typedef enum against_what {
    AGAINST_PROVED,   /* nothing up to the message that was known last is lost or changed */
    AGAINST_PRUNED,   /* that message was removed since: there is no hash to compare with */
    AGAINST_UNHASHED, /* it had messages, and no hash was known of them */
    AGAINST_REMOVED,  /* it was deleted by a call: its uid is among the removals */
    AGAINST_PROBLEM   /* lost or changed: `kind`, `seq` and `text` say how */
} against_what;

/* One comparison under way. */
typedef struct against_run {
    qp_verify_run verify;                 /* to report with */
    qp_line_reader reader;                /* of the lines that the caller's function gives */
    qp_json_doc doc;                      /* of one line; its memory is used again */
    quipu_arena arena;                    /* of one line */
    qp_session_new known;                 /* by that line */
    quipu_verify_against_options options; /* what the caller gave... */
    quipu_compared done;                  /* ...and what it gets */
    bool is_export;                       /* the first line says so... */
    bool has_end;                         /* ...and the last one ends it */
    against_what what;                    /* became of the session of this line */
    quipu_problem_kind kind;              /* a problem: what it is about, and where */
    int64_t seq;                          /* the message that a problem is about, or 0 */
    char text[QP_PROBLEM_TEXT_SIZE];      /* a sentence about it, for the caller */
} against_run;

/* ---- one session ------------------------------------------------------------------------------
 */

/* Whether the row is of the session that was known. */
static bool against_is_same(const against_run *run, const qp_session *row)
{
    assert(run->known.uid.has);
    return row != NULL && memcmp(row->uid.b, run->known.uid.v.b, sizeof(row->uid.b)) == 0;
}

/* Whether the session is the one that the heads name, and not an older state of it. A finding is
 * noted in the run. */
static bool against_is_there(against_run *run, const qp_session *row)
{
    const qp_session_new *known = &run->known;
    const int64_t last = known->next_seq.v - 1;

    assert(known->next_seq.has && last >= 0);
    run->kind = QUIPU_PROBLEM_LOST;
    run->seq = 0;
    /* One sentence a session: what comes first explains what would follow. */
    if (row == NULL) {
        qp_problem_say(run->text, "it is not in the store, and was not deleted");
    } else if (!against_is_same(run, row)) {
        qp_problem_say(run->text, "another session has its key, and it was not deleted");
    } else if (row->next_seq <= last) {
        run->seq = row->next_seq;
        qp_problem_say(run->text, "it had messages up to %lld, and has none behind %lld",
                       (long long)last, (long long)qp_difference(row->next_seq, 1));
    } else if (row->revision < known->revision) {
        qp_problem_say(run->text, "its revision was %lld and is %lld: changes are lost",
                       (long long)known->revision, (long long)row->revision);
    } else {
        return true;
    }
    return false;
}

/* The hash that was known against that of the same message now. */
static quipu_status against_hash(against_run *run, ent_db *db, quipu_arena *scratch,
                                 const qp_session *row, quipu_error *reterr)
{
    const qp_session_new *known = &run->known;
    const int64_t last = qp_difference(known->next_seq.v, 1);
    quipu_bytes hash = row->base_hash;
    quipu_status status = QUIPU_OK;

    assert(against_is_same(run, row) && row->next_seq > last);
    run->kind = QUIPU_PROBLEM_HASH;
    run->seq = last;
    if (known->head_hash.p == NULL) {
        /* A session that had no message cannot have lost one. */
        run->what = last == 0 ? AGAINST_PROVED : AGAINST_UNHASHED;
        return QUIPU_OK;
    }
    if (row->hashed_from != known->hashed_from) {
        qp_problem_say(run->text,
                       "its hash chain began with message %lld and begins with %lld: "
                       "a repair has begun it anew, and nothing is proved",
                       (long long)known->hashed_from, (long long)row->hashed_from);
        return QUIPU_OK;
    }
    if (last < qp_difference(row->first_seq, 1)) {
        run->what = AGAINST_PRUNED;
        return QUIPU_OK;
    }
    if (last >= row->first_seq) {
        status = qp_hash_at(db, row, last, scratch, &hash, reterr);
    }
    if (status == QUIPU_OK && qp_hash_same(hash, known->head_hash)) {
        run->what = AGAINST_PROVED;
    } else if (status == QUIPU_OK) {
        qp_problem_say(run->text, "message %lld, or one before it, is not the one that was known",
                       (long long)last);
    }
    return status;
}

/* Whether the session that was known was removed by a call, and not lost. */
static quipu_status against_removed(against_run *run, ent_db *db, quipu_error *reterr)
{
    const qp_removal_where where = {.tenant = ent_eq(run->verify.store->tenant),
                                    .uid = ent_eq(run->known.uid.v)};
    bool removed = false;
    quipu_status status = qp_removal_exists(db, &where, &removed, reterr);

    assert(run->what == AGAINST_PROBLEM);
    if (status == QUIPU_OK && removed) {
        run->what = AGAINST_REMOVED;
    }
    return status;
}

/* Looks for the session in one snapshot. Damage on the way is a problem, not a failure. */
static quipu_status against_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    against_run *run = ctx;
    const qp_session *row = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_session_lookup(run->verify.store, db, scratch, run->known.key, &row, &error);

    assert(ent_depth(db) > 0 && run->known.key.p != NULL);
    run->what = AGAINST_PROBLEM;
    if (status == QUIPU_OK && against_is_there(run, row)) {
        status = against_hash(run, db, scratch, row, &error);
    } else if (status == QUIPU_OK && !against_is_same(run, row)) {
        status = against_removed(run, db, &error);
    }
    if (status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND) {
        run->kind = QUIPU_PROBLEM_LOST;
        qp_problem_say(run->text, "%s", error.message);
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* Compares one session, counts it, and reports what is wrong. */
static quipu_status against_session(against_run *run, const qp_call *call, quipu_error *reterr)
{
    quipu_status status = qp_store_read(run->verify.store, call, against_work, run, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(run->what >= AGAINST_PROVED && run->what <= AGAINST_PROBLEM);
    run->done.sessions++;
    run->done.proved += run->what == AGAINST_PROVED;
    run->done.pruned += run->what == AGAINST_PRUNED;
    run->done.unhashed += run->what == AGAINST_UNHASHED;
    run->done.removed += run->what == AGAINST_REMOVED;
    if (run->what == AGAINST_PROBLEM) {
        qp_verify_report(&run->verify, run->kind, run->verify.store->tenant, run->known.key,
                         run->seq, quipu_cstr(run->text), false);
    }
    qp_call_progress(call, run->done.sessions);
    return qp_call_check(call, reterr);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* Whether a member of the line is this text. */
static bool against_is(const against_run *run, const char *member, const char *text)
{
    const qp_json_node node = qp_json_get(qp_json_root(&run->doc), quipu_cstr(member));

    return qp_json_kind_of(node) == QP_JSON_STRING && qp_json_text_is(node, quipu_cstr(text));
}

/* Reads the session or the head of a line. A hidden session, which has no key, is passed over. */
static quipu_status against_known(against_run *run, quipu_error *reterr)
{
    /* Members of a line that are not columns of a session. */
    static const char *const others[] = {QP_EXPORT_TYPE, QP_EXPORT_PARENT, QP_EXPORT_FORKS, NULL};
    qp_session_new *known = &run->known;
    quipu_status status;

    assert(qp_json_kind_of(qp_json_root(&run->doc)) == QP_JSON_OBJECT);
    *known = (qp_session_new){.revision = 0};
    if (run->arena.head != NULL) {
        quipu_arena_reset(&run->arena);
    }
    status = qp_import_row(&qp_session_entity, qp_json_root(&run->doc), NULL, others, &run->arena,
                           known, reterr);
    if (status == QUIPU_OK && known->key.p != NULL) {
        status = qp_key_check(known->key, reterr);
    }
    if (status == QUIPU_OK &&
        (!known->uid.has || !known->next_seq.has || known->next_seq.v < 1 ||
         (known->head_hash.p == NULL) != (known->hashed_from == 0) ||
         (known->head_hash.p != NULL && known->head_hash.n != QP_HASH_SIZE))) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "it is no head: uid, next_seq, or the hash is missing or wrong");
    }
    return status;
}

/* One line: a session is compared, what else an export has is passed over. */
static quipu_status against_line(against_run *run, quipu_str text, const qp_call *call,
                                 quipu_error *reterr)
{
    const qp_json_limits limits = {.size_max = QP_JSON_SIZE_CAP, .depth_max = QP_JSON_DEPTH_CAP};
    quipu_error error = {0};
    quipu_status status = qp_json_parse(&run->doc, text, &limits, &error);

    assert(text.p != NULL && run->reader.number > 0);
    /* An export says in its first line what it is; heads begin at once. */
    if (status == QUIPU_OK && run->reader.number == 1 && against_is(run, "quipu", "export")) {
        run->is_export = true;
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && (against_is(run, QP_EXPORT_TYPE, "session") ||
                               against_is(run, QP_EXPORT_TYPE, QP_EXPORT_HEAD))) {
        status = against_known(run, &error);
        if (status == QUIPU_OK) {
            return run->known.key.p != NULL ? against_session(run, call, reterr) : QUIPU_OK;
        }
    } else if (status == QUIPU_OK && !run->is_export) {
        status = qp_error_set(&error, QUIPU_INVALID, "this is no head, and no export of quipu");
    }
    run->has_end = run->has_end || (status == QUIPU_OK && against_is(run, QP_EXPORT_TYPE, "end"));
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "line %lld: %s",
                                             (long long)run->reader.number, error.message);
}

/* All lines. An export that is cut would prove less than it seems to. */
static quipu_status against_lines(against_run *run, const qp_call *call, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status;

    assert(run->reader.number == 0 && run->done.sessions == 0);
    do {
        status = qp_lines_next(&run->reader, &text, reterr);
        if (status == QUIPU_OK && text.p != NULL) {
            status = against_line(run, text, call, reterr);
        }
    } while (status == QUIPU_OK && text.p != NULL);
    if (status == QUIPU_OK && run->is_export && !run->has_end) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the export is cut: its last line is missing");
    }
    if (status == QUIPU_OK && run->reader.number == 0) {
        status = qp_error_set(reterr, QUIPU_INVALID, "there is no head in it");
    }
    return status;
}

/* What the caller asks for; its key stays where it is. */
static quipu_status against_options(against_run *run, const quipu_verify_against_options *given,
                                    quipu_error *reterr)
{
    quipu_status status = qp_options_read(&run->options, sizeof(run->options), given,
                                          "quipu_verify_against_options", reterr);

    if (status == QUIPU_OK && run->options.flags != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; there are none",
                              (unsigned)run->options.flags);
    }
    run->verify.fn = run->options.on_problem;
    run->verify.fn_ctx = run->options.problem_ctx;
    return status;
}

/* Compares all that the source has, of an encrypted one once all of it is verified. */
static quipu_status against_source(against_run *run, quipu_read_fn read, void *read_ctx,
                                   const qp_call *call, quipu_error *reterr)
{
    qp_export_reader *source = NULL;
    quipu_status status =
        qp_export_reader_new(read, read_ctx, run->options.encryption_key,
                             run->options.encryption_key_ctx, call, &source, reterr);

    if (status == QUIPU_OK) {
        qp_json_init(&run->doc);
        qp_lines_begin(&run->reader, qp_export_reader_read, source, QUIPU_LINE_BYTES_MAX);
        status = against_lines(run, call, reterr);
        qp_lines_end(&run->reader);
        qp_json_free(&run->doc);
        quipu_arena_free(&run->arena);
    }
    qp_export_reader_free(source);
    return status;
}

quipu_status quipu_store_verify_against(quipu_store *store,
                                        const quipu_verify_against_options *options,
                                        quipu_read_fn read, void *ctx,
                                        const quipu_call_options *call,
                                        quipu_compared *ret_compared, quipu_error *reterr)
{
    against_run run = {.verify = {.store = store},
                       .options = QUIPU_VERIFY_AGAINST_OPTIONS_INIT,
                       .done = QUIPU_COMPARED_INIT};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && read == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "there is nothing to read what was known from");
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_compared, "quipu_compared", reterr);
    }
    if (status == QUIPU_OK) {
        status = against_options(&run, options, reterr);
    }
    if (status == QUIPU_OK) {
        status = against_source(&run, read, ctx, &within, reterr);
    }
    if (status == QUIPU_OK) {
        run.done.problems = run.verify.done.problems;
        assert(run.done.problems <= run.done.sessions);
        qp_output_put(ret_compared, &run.done, sizeof(run.done));
    }
    qp_store_leave(&within);
    return status;
}
