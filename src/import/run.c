/* An import from beginning to end. The file is read twice: first everything is checked, then
 * everything is written.
 *
 *   detect ─▶ open (sessions, places) ─▶ check everything ─▶ write sessions ─▶ state ─▶ memories
 *
 * Owns: qp_import, on the stack.
 * Called by: quipu_source_import() in src/front/open_store.c, which has opened the file read-only.
 * Transactions: one read transaction on the file spans both passes, so that they see the same rows.
 * On the store each session is one write transaction; an import that is interrupted can be
 * repeated, and skips what is stored.
 * On return the report counts what was written or, for a dry run, what would be; both connections
 * are outside of a transaction. */
#include "import/import.h"

#include <stdio.h>
#include <string.h>

#include "adk/service.h"
#include "base/arena.h"
#include "base/error.h"

#define RUN_NUMBER_SIZE 16 /* of a key that another session has */

/* "llm:" and the id; a prefix takes the place of the first half, later tries have a number. A
 * prefix replaces "llm:" as it is, so that it brings its own separator; "" keeps the bare id.
 *
 *   conversation 01h…, no prefix       llm:01h…        the second try   llm:01h…-2
 *   prefix "archive/"                  archive/01h…                     archive/01h…-2 */
static quipu_status run_chat_key(qp_import *import, const qp_source_session *session, int number,
                                 quipu_str *ret_key, quipu_error *reterr)
{
    const quipu_str prefix = import->options.prefix;
    const quipu_str id = session->ref.session_id;
    const char *kind = quipu_source_name(import->source.kind);
    const size_t size = prefix.n + strlen(kind) + id.n + RUN_NUMBER_SIZE;
    char tail[RUN_NUMBER_SIZE] = "";
    char *text = qp_arena_take(&import->source.scratch, size);
    size_t n = 0;

    if (text == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a key");
    }
    if (number > 1) {
        (void)snprintf(tail, sizeof(tail), "-%d", number);
    }
    n = (size_t)(prefix.p != NULL ? snprintf(text, size, "%.*s", (int)prefix.n, prefix.p)
                                  : snprintf(text, size, "%s:", kind));
    if (id.n > 0) {
        memcpy(text + n, id.p, id.n);
    }
    memcpy(text + n + id.n, tail, strlen(tail) + 1);
    *ret_key = (quipu_str){text, n + id.n + strlen(tail)};
    return QUIPU_OK;
}

/* The key that the ADK service would give the session, so that services find imported sessions; a
 * chat program's is made of kind and id. The text lies in the scratch arena, until the session is
 * done. */
quipu_status qp_import_key(qp_import *import, const qp_source_session *session, int number,
                           quipu_str *ret_key, quipu_error *reterr)
{
    quipu_session_ref used;
    quipu_status status = import->source.layout->is_chat
                              ? run_chat_key(import, session, number, ret_key, reterr)
                              : qp_ref_key(import->service, &session->ref, false,
                                           &import->source.scratch, &used, ret_key, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(*ret_key, reterr);
    }
    return qp_source_fail(&import->source, "the session", session->row, status, reterr);
}

/* Calls the progress callback, if there is one, on this thread. It may take as long as it likes: no
 * lock of the store is held, only the snapshot of the file. */
static void run_progress(const qp_import *import, bool writing, size_t sessions, size_t messages)
{
    const quipu_source_progress progress = {writing, (int64_t)sessions,
                                            (int64_t)import->source.session_count,
                                            (int64_t)messages, (int64_t)import->source.place_count};

    if (import->options.progress != NULL) {
        import->options.progress(import->options.ctx, &progress);
    }
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* The read of qp_import_meet() in a snapshot of the store, for qp_store_read(). */
static quipu_status run_meeting_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    return qp_import_meet(ctx, db, scratch, reterr);
}

/* Everything that could prevent a session from being stored, without storing it: its values, its
 * key, a clash with the store, and each of its messages. The row that `message` makes is thrown
 * away; the second pass makes it again rather than keeping a file's worth of rows in memory. */
static quipu_status run_check_session(qp_import *import, const qp_source_session *session,
                                      quipu_error *reterr)
{
    qp_source *source = &import->source;
    qp_import_meeting meeting = {.import = import, .session = session};
    quipu_status status = source->layout->session(source, session, &meeting.values, reterr);

    if (status == QUIPU_OK) {
        status = qp_store_read(import->store, import->within, run_meeting_work, &meeting, reterr);
    }
    for (size_t i = 0; i < session->count && status == QUIPU_OK; i++) {
        qp_message_new made = {0};

        status = source->layout->message(source, session, source->places[session->first + i].row,
                                         &made, reterr);
    }
    if (status == QUIPU_OK) {
        qp_import_count(&meeting, &import->report);
    }
    quipu_arena_reset(&source->scratch);
    return status;
}

/* State of apps and users is only counted here: adk_state() has checked it while reading. State
 * that the store has already is found when it is written. */
static quipu_status run_check_shared(void *ctx, const qp_source_shared *shared, quipu_error *reterr)
{
    qp_import *import = ctx;

    (void)reterr;
    import->report.states += (int64_t)shared->state.count;
    return QUIPU_OK;
}

/* The first pass. Stops at the first problem, before anything is written. Checks the deadline after
 * each session, and each read of the file checks it as well. */
static quipu_status run_check(qp_import *import, quipu_error *reterr)
{
    qp_source *source = &import->source;
    size_t messages = 0;
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < source->session_count && status == QUIPU_OK; i++) {
        status = run_check_session(import, &source->sessions[i], reterr);
        if (status == QUIPU_OK) {
            messages += source->sessions[i].count;
            run_progress(import, false, i + 1, messages);
            status = qp_call_check(import->within, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = source->layout->shared(source, run_check_shared, import, reterr);
    }
    return status == QUIPU_OK ? qp_import_memories(import, false, reterr) : status;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* The layout's callback in the second pass: one transaction for each row of the file. */
static quipu_status run_write_shared(void *ctx, const qp_source_shared *shared, quipu_error *reterr)
{
    return qp_import_shared(ctx, shared, reterr);
}

/* The second pass. Its counts start anew and must agree with the first pass. Sessions that were
 * stored before a failure stay: each is complete by itself. */
static quipu_status run_write(qp_import *import, quipu_error *reterr)
{
    qp_source *source = &import->source;
    const int64_t sessions = import->report.sessions + import->report.skipped;
    int64_t stored = 0;
    size_t messages = 0;
    quipu_status status = QUIPU_OK;

    /* The first pass has counted what it would write; the second counts what it wrote. */
    import->report.sessions = import->report.messages = import->report.states = 0;
    import->report.memories = import->report.skipped = 0;
    for (size_t i = 0; i < source->session_count && status == QUIPU_OK; i++) {
        status = qp_import_session(import, &source->sessions[i], reterr);
        quipu_arena_reset(&source->scratch);
        if (status == QUIPU_OK) {
            messages += source->sessions[i].count;
            run_progress(import, true, i + 1, messages);
            status = qp_call_check(import->within, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = source->layout->shared(source, run_write_shared, import, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_import_memories(import, true, reterr);
    }
    /* Another process may have imported the same session between the passes: then it is skipped
     * now. */
    stored = import->report.sessions + import->report.skipped;
    if (status == QUIPU_OK && sessions != stored) {
        status = qp_error_set(reterr, QUIPU_CORRUPT, "%lld sessions were read and %lld stored",
                              (long long)sessions, (long long)stored);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* Reads options of any known size. A read-only store allows a dry run only, which reads the store
 * to report clashes. */
static quipu_status run_options(qp_import *import, const quipu_source_options *given,
                                quipu_error *reterr)
{
    quipu_source_options *options = &import->options;
    quipu_status status =
        qp_options_read(options, sizeof(*options), given, "quipu_source_options", reterr);

    if (status == QUIPU_OK &&
        ((options->flags & ~(uint32_t)QUIPU_SOURCE_DRY_RUN) != 0 ||
         options->kind < QUIPU_SOURCE_AUTO || options->kind > QUIPU_SOURCE_LANGGRAPH)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "flags 0x%x or kind %d of an import is not one of QUIPU_SOURCE_*",
                              (unsigned)options->flags, (int)options->kind);
    }
    if (status == QUIPU_OK &&
        (options->on_conflict < QUIPU_SOURCE_FAIL || options->on_conflict > QUIPU_SOURCE_RENAME)) {
        status =
            qp_error_set(reterr, QUIPU_MISUSE,
                         "on_conflict %d of an import is not one of QUIPU_SOURCE_FAIL, SKIP and "
                         "RENAME",
                         (int)options->on_conflict);
    }
    if (status == QUIPU_OK && options->prefix.n > QUIPU_KEY_MAX) {
        status = qp_error_set(reterr, QUIPU_LIMIT,
                              "the prefix of an import has %zu bytes; a key has at most %d",
                              options->prefix.n, QUIPU_KEY_MAX);
    }
    if (status == QUIPU_OK && import->store->read_only &&
        (options->flags & QUIPU_SOURCE_DRY_RUN) == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the store was opened read-only; open it for writing");
    }
    return status;
}

/* ADK's service finds a session by a key that it makes itself, and Lango by its own: neither may
 * have another one. */
static quipu_status run_keys(const qp_import *import, quipu_error *reterr)
{
    const quipu_source_kind kind = import->source.kind;

    if (kind < QUIPU_SOURCE_LLM &&
        (import->options.prefix.p != NULL || import->options.on_conflict == QUIPU_SOURCE_RENAME)) {
        return qp_error_set(
            reterr, QUIPU_MISUSE,
            "sessions of %s keep their keys: they have no prefix and are not renamed",
            quipu_source_name(kind));
    }
    return QUIPU_OK;
}

/* Both passes in one snapshot of the file. The transaction is rolled back: nothing was written to
 * the file. qp_source_close() comes first, because its statements belong to the connection. */
static quipu_status run_snapshot(qp_import *import, quipu_error *reterr)
{
    qp_source *source = &import->source;
    quipu_status status = ent_begin(source->db, ENT_READ, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    status =
        qp_source_detect(source->db, source->path, import->options.kind, &source->kind, reterr);
    if (status == QUIPU_OK) {
        status = run_keys(import, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_source_open(source, reterr);
    }
    import->report.kind = source->kind;
    import->report.orphans = source->orphans;
    if (status == QUIPU_OK) {
        status = run_check(import, reterr);
    }
    if (status == QUIPU_OK && (import->options.flags & QUIPU_SOURCE_DRY_RUN) == 0) {
        status = run_write(import, reterr);
    }
    qp_source_close(source);
    ent_rollback(source->db);
    return status;
}

/* The service is used for its keys only. The call's deadline and cancel flag also interrupt reads
 * of the file. */
quipu_status qp_import_run(quipu_store *store, ent_db *db, const char *path,
                           const quipu_source_options *options, const quipu_call_options *call,
                           quipu_source_report *ret_report, quipu_error *reterr)
{
    qp_import import = {
        .store = store, .options = QUIPU_SOURCE_OPTIONS_INIT, .source = {.db = db, .path = path}};
    qp_call within;
    quipu_status status =
        qp_maintain_enter_as("quipu_source_import", store, call, -1, &within, reterr);

    if (status == QUIPU_OK) {
        status = run_options(&import, options, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_report, "quipu_source_report", reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_service_new(store, NULL, &import.service, reterr);
    }
    if (status != QUIPU_OK) {
        qp_store_leave(&within);
        return status;
    }
    import.within = &within;
    import.source.bytes_max = store->message_bytes_max;
    import.source.orphan = import.options.orphan;
    import.source.orphan_ctx = import.options.ctx;
    qp_call_watch(&within, db);
    status = run_snapshot(&import, reterr);
    if (status == QUIPU_OK) {
        qp_output_put(ret_report, &import.report, sizeof(import.report));
    }
    quipu_service_free(import.service);
    qp_store_leave(&within);
    return status;
}
