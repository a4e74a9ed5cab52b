/* Copying a store into another one, whatever engine is behind each: the export of the source runs
 * in a thread of its own and is read by the import of the target, through a pipe of bounded size.
 * Then the target is exported again, and both exports are compared by their SHA-256.
 *
 *    source ──▶ export ──▶ copy_put ──▶ ring (1 MiB) ──▶ copy_take ──▶ import ──▶ target
 *              (own thread)                             (caller's thread)
 *
 * Owns: the pipe and both sums.
 * Called by: quipu_store_copy(), which `quipu copy` uses.
 * Locks: `mutex` guards the ring and its two end marks; neither store's call runs while it is held.
 * The export holds one snapshot of the source; the import commits session by session, so that a
 * copy that fails leaves whole sessions, and a repeat goes on where it ended.
 * On return: the thread is joined, and on success the two stores export the same bytes. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/thread.h"
#include "store/maintain.h"

#define COPY_PIPE_BYTES ((size_t)1 << 20) /* between the two ends */
#define COPY_PAGE 1000                    /* sessions of the target looked at in one read */

/* Counts and hashes the bytes that pass. Both sums are of the same format, so that equal sums mean
 * equal stores, but for what an export leaves out (see export_row.h). */
typedef struct copy_sum {
    qp_sha256 sha;
    int64_t lines;
    int64_t bytes;
} copy_sum;

/* One copy. The members after the pipe's belong to one thread at a time: `sum`, `held`, `put_error`
 * and `put_call` to the exporting one until it is joined, the rest to the caller's. */
typedef struct copy_run {
    quipu_store *source;
    quipu_store *target;
    quipu_copy_options options;
    qp_call within; /* the source */
    qp_call there;  /* the target */

    /* The pipe. `mutex` guards what follows, up to `sum`. */
    qp_mutex mutex;
    qp_cond changed;
    char *ring;
    size_t at; /* of the first byte that was not taken */
    size_t n;  /* bytes that were not taken */
    bool put_all;
    bool taken_all;
    quipu_status put_status; /* once put_all */

    copy_sum sum;        /* of the source: the writing thread's until it is joined */
    quipu_transfer held; /* by the source */
    quipu_error put_error;
    quipu_call_options put_call;
    bool source_failed; /* the reader got its error: the import's repeats it */
    quipu_copy_progress progress;
} copy_run;

/* ---- sums -------------------------------------------------------------------------------------
 */

/* Lines are counted by their ends, which a chunk may hold any number of. */
static int64_t copy_lines(const char *bytes, size_t n)
{
    const char *const end = bytes + n;
    int64_t lines = 0;

    for (const char *at = memchr(bytes, '\n', n); at != NULL;
         at = memchr(at + 1, '\n', (size_t)(end - at - 1))) {
        lines++;
    }
    assert(lines >= 0 && (size_t)lines <= n);
    return lines;
}

/* Both sides of a copy are summed by this function, so that equal exports have equal sums. */
static void copy_sum_add(copy_sum *sum, const void *bytes, size_t n)
{
    assert(n > 0);
    qp_sha256_add(&sum->sha, bytes, n);
    sum->lines += copy_lines(bytes, n);
    sum->bytes += (int64_t)n;
}

/* Report the progress. Runs on the caller's thread only: the exporting thread reports nothing. */
static void copy_progress(copy_run *run)
{
    if (run->options.progress != NULL) {
        run->options.progress(run->options.ctx, &run->progress);
    }
}

/* The rest of the call's deadline, for a public call inside of it. At least one millisecond: 0
 * would mean the store's default, which may be longer. */
static quipu_status copy_call(const copy_run *run, quipu_call_options *ret, quipu_error *reterr)
{
    quipu_status status = qp_call_check(&run->within, reterr);

    *ret = (quipu_call_options)QUIPU_CALL_OPTIONS_INIT;
    ret->cancel = run->within.cancel;
    ret->deadline_ms = -1;
    /* Public calls take a duration: what is left until the instant, within what they accept. */
    if (status == QUIPU_OK && run->within.deadline_ns != QP_NEVER) {
        int64_t left_ms = (run->within.deadline_ns - qp_clock_ns()) / QP_NS_PER_MS;
        ret->deadline_ms = left_ms < 1 ? 1 : left_ms > INT32_MAX ? INT32_MAX : (int32_t)left_ms;
    }
    assert(ret->deadline_ms != 0);
    return status;
}

/* ---- the pipe ---------------------------------------------------------------------------------
 */

/* The write function of the export: into the ring, waiting while it is full. Fails once nobody
 * reads any more, which ends the export. One condition suffices for both sides: the ring is never
 * full and empty at once, so that at most one of them waits. */
static quipu_status copy_put(void *ctx, const void *bytes, size_t n)
{
    copy_run *run = ctx;
    const char *from = bytes;
    quipu_status status = QUIPU_OK;

    assert(!run->put_all);
    copy_sum_add(&run->sum, bytes, n);
    qp_mutex_lock(&run->mutex);
    while (n > 0 && !run->taken_all) {
        size_t to = (run->at + run->n) % COPY_PIPE_BYTES;
        size_t room = COPY_PIPE_BYTES - run->n;
        size_t part = COPY_PIPE_BYTES - to; /* up to the ring's end */

        part = part < room ? part : room;
        part = part < n ? part : n;
        /* Full: the import is slower than the export. */
        if (part == 0) {
            qp_cond_wait(&run->changed, &run->mutex);
            continue;
        }
        assert(to + part <= COPY_PIPE_BYTES && run->n + part <= COPY_PIPE_BYTES);
        memcpy(run->ring + to, from, part);
        run->n += part;
        from += part;
        n -= part;
        qp_cond_signal(&run->changed);
    }
    if (n > 0) {
        status = QUIPU_CANCELLED; /* the import has failed: nobody reads on */
    }
    qp_mutex_unlock(&run->mutex);
    return status;
}

/* The read function of the import: what lies in the ring up to its end or `size`, waiting while it
 * is empty. The export's failure is reported behind the last byte that it wrote: the sessions that
 * are whole before it are imported. */
static quipu_status copy_take(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    copy_run *run = ctx;
    quipu_status status = QUIPU_OK;
    size_t n;

    assert(size > 0 && !run->taken_all);
    qp_mutex_lock(&run->mutex);
    while (run->n == 0 && !run->put_all) {
        qp_cond_wait(&run->changed, &run->mutex);
    }
    n = COPY_PIPE_BYTES - run->at;
    n = n < run->n ? n : run->n;
    n = n < size ? n : size;
    assert(n > 0 || run->put_all);
    assert(run->n <= COPY_PIPE_BYTES && run->at + n <= COPY_PIPE_BYTES);
    memcpy(ret_bytes, run->ring + run->at, n);
    run->at = (run->at + n) % COPY_PIPE_BYTES;
    run->n -= n;
    /* Empty, and the export has ended: its status ends the stream, too. */
    if (n == 0) {
        status = run->put_status;
        run->source_failed = status != QUIPU_OK;
    }
    qp_cond_signal(&run->changed);
    qp_mutex_unlock(&run->mutex);
    if (status == QUIPU_OK) {
        *ret_n = n;
        run->progress.lines += copy_lines(ret_bytes, n);
        run->progress.bytes += (int64_t)n;
        copy_progress(run);
    }
    return status;
}

/* The thread: exports all, then marks the end, also when it failed. */
static void *copy_put_all(void *arg)
{
    copy_run *run = arg;
    quipu_status status = quipu_store_export(run->source, NULL, copy_put, run, &run->put_call,
                                             &run->held, &run->put_error);

    qp_mutex_lock(&run->mutex);
    assert(!run->put_all);
    run->put_all = true;
    run->put_status = status;
    qp_cond_signal(&run->changed);
    qp_mutex_unlock(&run->mutex);
    return NULL;
}

/* ---- the steps --------------------------------------------------------------------------------
 */

/* Compare a session of the target with that of the source under the same key. If the source does
 * not have the session, or has it under another uid, the two stores would differ, and the copy does
 * not begin. */
static quipu_status copy_meet(const copy_run *run, const quipu_session_info *there,
                              const quipu_call_options *call, quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    quipu_status status;

    header.flags = QUIPU_RANGE_HEADER;
    status = quipu_session_get(run->source, there->key, &header, call, &history, &error);
    if (status == QUIPU_EXPIRED) {
        /* An expired session cannot be read, so its uid is not known here. The import compares
         * it. */
        return QUIPU_OK;
    }
    bool same = status == QUIPU_OK &&
                memcmp(history->session->uid.b, there->uid.b, sizeof(there->uid.b)) == 0;
    quipu_free(history);
    if (status != QUIPU_OK && status != QUIPU_NOT_FOUND) {
        return qp_error_pass(reterr, &error);
    }
    return same ? QUIPU_OK
                : qp_error_set(reterr, QUIPU_EXISTS,
                               "the target has a session \"%.*s\" that is not the source's; copy "
                               "into a new store, or bring both together by export and import",
                               (int)qp_utf8_cut(there->key, 80), there->key.p);
}

/* The target must be empty, or hold what an earlier copy of the same source left: page by page, one
 * read of the source for each session. */
static quipu_status copy_look(const copy_run *run, quipu_error *reterr)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_arena cursor = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;
    bool more = true;

    options.flags = QUIPU_LIST_EXPIRED;
    options.limit = COPY_PAGE;
    while (status == QUIPU_OK && more) {
        quipu_session_page *page = NULL;
        quipu_call_options call;

        status = copy_call(run, &call, reterr);
        if (status == QUIPU_OK) {
            status = quipu_session_list(run->target, &options, &call, &page, reterr);
        }
        for (size_t i = 0; status == QUIPU_OK && i < page->sessions.count; i++) {
            status = copy_meet(run, quipu_session_info_at(page->sessions, i), &call, reterr);
        }
        /* The cursor is copied: the page that holds it is freed. */
        more = status == QUIPU_OK && page->next.p != NULL;
        if (more) {
            quipu_arena_reset(&cursor);
            status = quipu_arena_copy(&cursor, page->next, &options.after);
        }
        quipu_free(page);
    }
    quipu_arena_free(&cursor);
    return status;
}

/* Export and import at the same time. When the import ends first, by a failure, `taken_all` lets
 * the export fail at its next write, and the thread ends.
 *
 *    import fails     taken_all ─▶ copy_put returns CANCELLED ─▶ export fails ─▶ thread ends
 *    export fails     put_all with its status ─▶ copy_take returns it ─▶ import fails
 *    both succeed     put_all ─▶ copy_take returns 0 bytes, the end of the stream */
static quipu_status copy_transfer(copy_run *run, quipu_transfer *ret_added, quipu_error *reterr)
{
    quipu_error error = {0};
    qp_thread thread;
    quipu_call_options call;
    quipu_status status = copy_call(run, &call, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    run->put_call = call;
    if (qp_thread_start(&thread, copy_put_all, run) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gives no thread for a copy");
    }
    status = quipu_store_import(run->target, NULL, copy_take, run, &call, ret_added, &error);
    qp_mutex_lock(&run->mutex);
    run->taken_all = true;
    qp_cond_signal(&run->changed);
    qp_mutex_unlock(&run->mutex);
    (void)qp_thread_join(thread);
    assert(run->put_all);
    if (status == QUIPU_OK) {
        return QUIPU_OK;
    }
    /* An import that fails because the source failed repeats only the status; the source's error
     * has the reason. */
    return qp_error_pass(reterr, run->source_failed ? &run->put_error : &error);
}

/* The second export, of the target: summed, and written nowhere. */
typedef struct copy_check {
    copy_run *run;
    copy_sum sum;
} copy_check;

/* The write function of the second export: nothing is kept but the sum. */
static quipu_status copy_check_add(void *ctx, const void *bytes, size_t n)
{
    copy_check *check = ctx;

    assert(check->run->put_all);
    copy_sum_add(&check->sum, bytes, n);
    check->run->progress.lines = check->sum.lines;
    check->run->progress.bytes = check->sum.bytes;
    copy_progress(check->run);
    return QUIPU_OK;
}

/* Lines are counted, too: factors and ids of state events have no counter of their own. */
static bool copy_is_same(const quipu_transfer *a, const quipu_transfer *b)
{
    return a->lines == b->lines && a->sessions == b->sessions && a->messages == b->messages &&
           a->states == b->states && a->memories == b->memories;
}

/* Compare what the target holds with what the source wrote. The counts come first: their message
 * says what differs, a hash only that something does. */
static quipu_status copy_compare(copy_run *run, uint8_t ret_sha256[QP_SHA256_SIZE],
                                 quipu_error *reterr)
{
    copy_check check = {.run = run};
    quipu_transfer held = QUIPU_TRANSFER_INIT;
    uint8_t here[QP_SHA256_SIZE];
    uint8_t there[QP_SHA256_SIZE];
    quipu_call_options call;
    quipu_status status = copy_call(run, &call, reterr);

    assert(run->put_all && run->taken_all);
    /* The second half of the progress: the target is read as a whole. */
    run->progress = (quipu_copy_progress){true, 0, 0, run->sum.lines};
    qp_sha256_begin(&check.sum.sha);
    if (status == QUIPU_OK) {
        status =
            quipu_store_export(run->target, NULL, copy_check_add, &check, &call, &held, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (!copy_is_same(&held, &run->held)) {
        return qp_error_set(
            reterr, QUIPU_EXISTS,
            "the target holds other things than the source: %lld sessions for %lld, %lld messages "
            "for %lld, %lld keys of state for %lld, %lld memories for %lld; it was not empty, or "
            "is written to: copy into a new store",
            (long long)held.sessions, (long long)run->held.sessions, (long long)held.messages,
            (long long)run->held.messages, (long long)held.states, (long long)run->held.states,
            (long long)held.memories, (long long)run->held.memories);
    }
    /* The exporting thread is joined: its sum is this thread's now. */
    qp_sha256_end(&run->sum.sha, there);
    qp_sha256_end(&check.sum.sha, here);
    if (memcmp(here, there, sizeof(here)) != 0) {
        return qp_error_set(reterr, QUIPU_EXISTS,
                            "the target has as much as the source, but its export has another "
                            "SHA-256: it was not empty, or is written to; copy into a new store");
    }
    memcpy(ret_sha256, here, sizeof(here));
    return QUIPU_OK;
}

/* ---- the call ---------------------------------------------------------------------------------
 */

/* Enter both stores. Both are left by copy_leave() on every path: a store that was not entered is
 * NULL there. */
static quipu_status copy_enter(copy_run *run, const quipu_copy_options *options,
                               const quipu_call_options *call, quipu_error *reterr)
{
    static const char name[] = "quipu_store_copy";
    quipu_status status = qp_maintain_enter_as(name, run->source, call, -1, &run->within, reterr);

    if (status == QUIPU_OK) {
        status = qp_maintain_enter_as(name, run->target, call, -1, &run->there, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&run->options, sizeof(run->options), options, "quipu_copy_options",
                                 reterr);
    }
    if (status == QUIPU_OK && (run->source == run->target || run->options.flags != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a copy needs two stores that are not the same, and no flags");
    }
    return status;
}

/* A store that was not entered is passed over. */
static void copy_leave(copy_run *run)
{
    qp_store_leave(&run->there);
    qp_store_leave(&run->within);
}

/* On failure nothing is left to free. */
static quipu_status copy_pipe(copy_run *run, quipu_error *reterr)
{
    assert(run->ring == NULL && run->n == 0 && run->at == 0);
    run->ring = qp_malloc(COPY_PIPE_BYTES);
    if (run->ring == NULL || qp_mutex_init(&run->mutex) != QUIPU_OK) {
        qp_free(run->ring);
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a copy");
    }
    if (qp_cond_init(&run->changed) != QUIPU_OK) {
        qp_mutex_done(&run->mutex);
        qp_free(run->ring);
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a copy");
    }
    return QUIPU_OK;
}

/* Fills the report of a finished copy, without its hash. */
static quipu_copied copy_report(const copy_run *run, const quipu_transfer *added)
{
    assert(run->put_all && added->sessions <= run->held.sessions);
    return (quipu_copied){.lines = run->held.lines,
                          .bytes = run->sum.bytes,
                          .sessions = run->held.sessions,
                          .messages = run->held.messages,
                          .states = run->held.states,
                          .memories = run->held.memories,
                          .added_sessions = added->sessions,
                          .added_messages = added->messages,
                          .added_states = added->states,
                          .added_memories = added->memories,
                          .skipped = added->skipped};
}

/* Look, transfer, compare: each step only when the one before it succeeded. Nothing is written to
 * the target before its sessions were compared with the source's. */
quipu_status quipu_store_copy(quipu_store *source, quipu_store *target,
                              const quipu_copy_options *options, const quipu_call_options *call,
                              quipu_copied *ret_copied, quipu_error *reterr)
{
    copy_run run = {.source = source,
                    .target = target,
                    .options = QUIPU_COPY_OPTIONS_INIT,
                    .held = QUIPU_TRANSFER_INIT};
    quipu_transfer added = QUIPU_TRANSFER_INIT;
    quipu_status status = copy_enter(&run, options, call, reterr);

    if (status == QUIPU_OK) {
        status = qp_output_check(ret_copied, "quipu_copied", reterr);
    }
    if (status == QUIPU_OK) {
        status = copy_pipe(&run, reterr);
    }
    if (status != QUIPU_OK) {
        copy_leave(&run);
        return status;
    }
    assert(run.ring != NULL && run.within.store == source && run.there.store == target);
    qp_sha256_begin(&run.sum.sha);
    status = copy_look(&run, reterr);
    if (status == QUIPU_OK) {
        status = copy_transfer(&run, &added, reterr);
    }
    if (status == QUIPU_OK) {
        quipu_copied copied = copy_report(&run, &added);

        status = copy_compare(&run, copied.sha256, reterr);
        if (status == QUIPU_OK) {
            qp_output_put(ret_copied, &copied, sizeof(copied));
        }
    }
    qp_cond_done(&run.changed);
    qp_mutex_done(&run.mutex);
    qp_free(run.ring);
    copy_leave(&run);
    return status;
}
