/* Import: lines are gathered until their session is whole, or the buffer full; then the write lock
 * is taken and the rows are inserted, in one transaction a session.
 *
 *    read ─▶ gather ─▶ whole? ── yes ──▶ transaction: store all ─▶ check ─▶ commit ─▶ next group
 *                         └─ no, buffer full ──▶ transaction: store, read on, store ... ─▶ commit
 *
 * Owns: the run of an import (qp_lines_import) and its transactions. The other import_*.c files
 * read lines and store rows for it.
 * Called by: quipu_store_import(); copy.c through it.
 * Locks: has the writing connection to itself while a group is stored, and not while lines are
 * read, but for a group that outgrows the buffer.
 * On return: every group before the first failure is committed; a repeated import skips those. */
#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "store/export_crypt.h"
#include "store/import_internal.h"

/* ---- groups -----------------------------------------------------------------------------------
 */

/* Store one line of the open transaction, by its type. Lines of a session that is skipped are read
 * and dropped. Factors belong to no session and are never skipped. */
static quipu_status import_store(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                 const qp_import_line *line, quipu_error *reterr)
{
    quipu_status status = qp_import_line_parse(run, line->text, line->number, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    /* One line at a time: memory does not grow with the group. */
    if (scratch->head != NULL) {
        quipu_arena_reset(scratch);
    }
    assert(line->number >= run->begun && ent_depth(db) > 0);
    switch (line->type) {
    /* The group's transaction is open; each function stores one line, or finds it stored. */
    case QP_LINE_SESSION:
        status = qp_import_line_session(run, db, scratch, reterr);
        break;
    case QP_LINE_MESSAGE:
        status = run->loose  ? qp_error_set(reterr, QUIPU_INVALID,
                                            "a message line must follow the line of its session")
                 : run->skip ? QUIPU_OK
                             : qp_import_line_message(run, db, scratch, reterr);
        break;
    case QP_LINE_STATE:
        status = run->skip ? QUIPU_OK : qp_import_line_state(run, db, scratch, reterr);
        break;
    case QP_LINE_OBSERVATION:
        status = run->skip ? QUIPU_OK
                           : qp_import_line_memory(run, db, scratch, QUIPU_OBSERVATION, reterr);
        break;
    case QP_LINE_STATE_EVENT:
        status = run->skip ? QUIPU_OK : qp_import_line_state_event(run, db, scratch, reterr);
        break;
    case QP_LINE_FACTOR:
        status = qp_import_line_factor(run, db, scratch, reterr);
        break;
    case QP_LINE_SCOPE:
        status = run->skip ? QUIPU_OK : qp_import_line_scope(run, db, scratch, reterr);
        break;
    case QP_LINE_USAGE:
        status = run->skip ? QUIPU_OK : qp_import_line_usage(run, db, scratch, reterr);
        break;
    case QP_LINE_ARTIFACT:
        status = run->skip ? QUIPU_OK : qp_import_line_artifact(run, db, scratch, reterr);
        break;
    case QP_LINE_CONTEXT:
        status = run->skip ? QUIPU_OK : qp_import_line_context(run, db, scratch, reterr);
        break;
    default:
        assert(line->type == QP_LINE_REFLECTION);
        status = run->skip ? QUIPU_OK
                           : qp_import_line_memory(run, db, scratch, QUIPU_REFLECTION, reterr);
        break;
    }
    return qp_import_line_fail(run, line->number, status, reterr);
}

/* Store what was gathered, in the order of the file. */
static quipu_status import_store_gathered(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                          quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert((run->first == NULL) == (run->last == NULL));
    assert(ent_depth(db) > 0);
    for (const qp_import_line *line = run->first; line != NULL && status == QUIPU_OK;
         line = line->next) {
        status = import_store(run, db, scratch, line, reterr);
    }
    return status;
}

/* Free the lines that are stored. Lines that were read cannot be read again, so the transaction
 * cannot be retried after that: the call is consumed. */
static void import_forget_gathered(qp_lines_import *run)
{
    assert(!run->whole);
    quipu_arena_free(&run->gathered);
    run->first = run->last = NULL;
    run->gathered_bytes = 0;
    run->consumed = true;
}

/* The transaction of one group. A retry begins with the gathered lines again, so that everything
 * that storing sets is set anew. A group that outgrows the buffer runs once.
 *
 * A crash before the commit leaves nothing of the group, and one after it all of it: a repeated
 * import stores it then, or meets the session and skips it.
 * After UNKNOWN a repeat finds out in the same way. */
static quipu_status import_group_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    qp_lines_import *run = ctx;
    quipu_error error = {0};
    const qp_call step = qp_maintain_step(run->store, run->within);
    quipu_status status;

    assert(run->open && !run->consumed && ent_depth(db) == 0);
    /* The rows of an earlier try were rolled back with its transaction. */
    run->row = NULL;
    run->skip = false;
    run->group = (quipu_transfer)QUIPU_TRANSFER_INIT;
    /* Waiting for the lock ends at the store's deadline; the work itself may last as long as the
     * call. */
    qp_call_watch(&step, db);
    status = ent_begin(db, ENT_WRITE, reterr);
    qp_call_watch(run->within, db);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Stores the gathered lines first; when the buffer was full, then reads and stores the rest in
     * turns. */
    status = import_store_gathered(run, db, scratch, reterr);
    while (status == QUIPU_OK && !run->whole) {
        import_forget_gathered(run);
        /* It goes on; the parsed line ahead was overwritten while lines were stored. */
        status = qp_import_line_parse(run, run->ahead.text, run->ahead.number, reterr);
        if (status == QUIPU_OK) {
            status = qp_import_line_gather(run, reterr);
        }
        if (status == QUIPU_OK) {
            status = import_store_gathered(run, db, scratch, reterr);
        }
    }
    if (status == QUIPU_OK) {
        assert(run->whole);
        status = qp_import_line_check(run, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_import_line_record(run, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = ent_commit(db, &error);
        if (status != QUIPU_OK) {
            /* These are reported before anything is stored; after any other failure the commit may
             * have happened. */
            const bool stored_nothing =
                status == QUIPU_FULL || status == QUIPU_BUSY || status == QUIPU_INVALID;
            status = stored_nothing
                         ? qp_error_pass(reterr, &error)
                         : qp_error_set(reterr, QUIPU_UNKNOWN,
                                        "the commit failed (%s); repeat the import", error.message);
        }
    }
    return status;
}

/* Forget the last group; `ahead` and `doc` hold the first line of this one. */
static void import_group_begin(qp_lines_import *run)
{
    assert(run->ahead.type != QP_LINE_NONE && run->ahead.type != QP_LINE_END);
    quipu_arena_free(&run->gathered);
    quipu_arena_free(&run->kept);
    run->first = run->last = NULL;
    run->gathered_bytes = 0;
    run->key = QP_STR_ABSENT;
    run->open = run->loose = run->whole = run->consumed = false;
}

/* Count a group once it is committed: a try that failed counts nothing. */
static void import_group_end(qp_lines_import *run)
{
    assert(run->whole && run->group.sessions + run->group.skipped <= 1);
    run->done.sessions += run->group.sessions;
    run->done.messages += run->group.messages;
    run->done.states += run->group.states;
    run->done.memories += run->group.memories;
    run->done.skipped += run->group.skipped;
}

/* One group of lines: `ahead` is its first line, and afterwards the first of the next. Storing
 * lines overwrites `doc`, so that the line ahead is parsed again. */
static quipu_status import_group(qp_lines_import *run, quipu_error *reterr)
{
    quipu_status status;

    import_group_begin(run);
    /* Outside of the lock: a slow source holds up no writer until its session is whole. */
    status = qp_import_line_gather(run, reterr);
    if (status == QUIPU_OK) {
        status = qp_maintain_write(run->store, run->within, import_group_work, run, reterr);
    }
    if (status == QUIPU_OK) {
        /* Only here: counts of a group that failed never reach the caller. */
        import_group_end(run);
        status = qp_import_line_parse(run, run->ahead.text, run->ahead.number, reterr);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* The first line: whether this is an export, and of a version that this program reads. Reads the
 * first line behind it. */
static quipu_status import_header(qp_lines_import *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    int64_t major = 0;
    quipu_status status = qp_lines_next(&run->reader, &text, reterr);
    qp_json_node root;

    assert(run->reader.number <= 1);
    if (status != QUIPU_OK) {
        return status;
    }
    if (text.p == NULL || qp_json_parse(&run->doc, text, NULL, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "line 1: this is no export of quipu");
    }
    root = qp_json_root(&run->doc);
    qp_json_node what = qp_json_get(root, QUIPU_STR("quipu"));
    if (qp_json_kind_of(what) != QP_JSON_STRING || !qp_json_text_is(what, QUIPU_STR("export")) ||
        qp_json_int64(qp_json_get(root, QUIPU_STR("major")), &major) != QP_JSON_EXACT) {
        return qp_error_set(reterr, QUIPU_INVALID, "line 1: this is no export of quipu");
    }
    /* A minor version adds nothing that an import could miss in silence: unknown members are
     * errors. */
    if (major != QUIPU_EXPORT_MAJOR) {
        return qp_error_set(reterr, QUIPU_NEWER,
                            "line 1: the export has version %lld, this program reads %d only",
                            (long long)major, QUIPU_EXPORT_MAJOR);
    }
    return qp_import_line_read(run, reterr);
}

/* The last line's number of sessions is that of the groups before it, stored and skipped; nothing
 * follows. */
static quipu_status import_footer(qp_lines_import *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    int64_t sessions = -1;
    const int64_t number = run->ahead.number;
    const int64_t seen = run->done.sessions + run->done.skipped;
    quipu_status status = QUIPU_OK;

    assert(run->ahead.type == QP_LINE_END);
    if (qp_json_int64(qp_json_get(qp_json_root(&run->doc), QUIPU_STR("sessions")), &sessions) !=
            QP_JSON_EXACT ||
        sessions != seen) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the export announces another number of sessions than %lld",
                              (long long)seen);
        return qp_import_line_fail(run, number, status, reterr);
    }
    /* The lines of the file, the header included. */
    run->done.lines = number;
    /* Two exports in one stream would otherwise import as the first alone. */
    status = qp_lines_next(&run->reader, &text, reterr);
    if (status == QUIPU_OK && text.p != NULL) {
        status = qp_error_set(reterr, QUIPU_INVALID, "there is something behind the last line");
        return qp_import_line_fail(run, number + 1, status, reterr);
    }
    return status;
}

/* The caller's options, checked and completed. */
static quipu_status import_options(qp_lines_import *run, const quipu_import_options *options,
                                   quipu_read_fn read, quipu_error *reterr)
{
    quipu_import_options *given = &run->options;
    quipu_status status =
        qp_options_read(given, sizeof(*given), options, "quipu_import_options", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (read == NULL || (given->flags & ~(uint32_t)QUIPU_IMPORT_MUST_BE_NEW) != 0 ||
        given->line_bytes_max < 0 || given->line_bytes_max > QUIPU_LINE_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "import needs somewhere to read from, flags of QUIPU_IMPORT_* and "
                            "line_bytes_max of 0 to %d",
                            QUIPU_LINE_BYTES_MAX);
    }
    given->line_bytes_max =
        given->line_bytes_max == 0 ? QUIPU_LINE_BYTES_MAX : given->line_bytes_max;
    assert(given->line_bytes_max > 0);
    return qp_store_writable(run->store, reterr);
}

/* The deadline is also checked between groups, so that an import of many small ones, none of which
 * waits long, ends in time. */
quipu_status quipu_store_import(quipu_store *store, const quipu_import_options *options,
                                quipu_read_fn read, void *ctx, const quipu_call_options *call,
                                quipu_transfer *ret_done, quipu_error *reterr)
{
    qp_lines_import run = {.store = store, .options = QUIPU_IMPORT_OPTIONS_INIT};
    qp_export_reader *source = NULL;
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = import_options(&run, options, read, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_done, "quipu_transfer", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_reader_new(read, ctx, run.options.encryption_key,
                                      run.options.encryption_key_ctx, &within, &source, reterr);
    }
    if (status != QUIPU_OK) {
        qp_store_leave(&within);
        return status;
    }
    assert(within.store == store);
    /* From here on the reader and the document need their end, whatever fails. */
    run.within = &within;
    within.consumed = &run.consumed;
    qp_json_init(&run.doc);
    qp_lines_begin(&run.reader, qp_export_reader_read, source, (size_t)run.options.line_bytes_max);
    status = import_header(&run, reterr);
    while (status == QUIPU_OK && run.ahead.type != QP_LINE_END) {
        status = import_group(&run, reterr);
        if (status == QUIPU_OK) {
            status = qp_call_check(&within, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = import_footer(&run, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_done, &run.done, sizeof(run.done));
    }
    qp_lines_end(&run.reader);
    qp_export_reader_free(source);
    qp_json_free(&run.doc);
    quipu_arena_free(&run.gathered);
    quipu_arena_free(&run.kept);
    qp_free(run.parents);
    qp_store_leave(&within);
    return status;
}
