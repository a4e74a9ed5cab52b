/* The feed of a store: recording changes, keeping it small, reading it.
 *
 * Owns the feed's rows and its cursors. Writers call it inside of their transaction: an exclusive
 * one writes a change at once, a LOCKED batch collects its changes and writes them at its end
 * (feed_queue.h). Readers call quipu_feed_read(), which takes no lock and waits without a
 * connection. A row's number is a reader's position: numbers are drawn in the order of commits and
 * have no gaps, so that a reader that is slower than the deletion of old rows notices it and gets
 * QUIPU_EXPIRED instead of losing changes.
 * Called by: every work of the store that changes a session; users of the C API read. */
#include "store/feed.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/sum.h"
#include "store/tail.h"

#define FEED_PRUNE_STEP 64 /* events between two removals of old ones */
#define FEED_CURSOR 18     /* characters: "1." and 16 hexadecimal digits */

static_assert((int)QUIPU_CHANGE_CREATED == (int)QP_FEED_KIND_CREATED &&
                  (int)QUIPU_CHANGE_FORKED == (int)QP_FEED_KIND_FORKED,
              "kinds have the same numbers in the API and in the schema");
static_assert(QUIPU_FEED_ROWS_MAX % FEED_PRUNE_STEP == 0, "the feed is cut at whole steps");

/* The result that callers get; its arena owns rows, texts and the cursor. */
typedef struct feed_page {
    qp_result head;
    quipu_feed_page pub;
} feed_page;

QP_RESULT(feed_page);

/* One read: its checked options, its position, and the page that the work fills. */
typedef struct feed_call {
    quipu_store *store;
    quipu_feed_options options; /* checked; `after` is parsed into the next member */
    int64_t after;              /* the number of the event before; -1: the oldest that is kept */
    feed_page *page;
} feed_call;

/* ---- recording --------------------------------------------------------------------------------
 */

/* Inserts a row, and deletes the oldest ones every FEED_PRUNE_STEP rows: one range DELETE, spread
 * over many inserts. It leaves room for the rows until the next deletion, so that the feed never
 * holds more than QUIPU_FEED_ROWS_MAX. */
static quipu_status feed_add(ent_db *db, const qp_feed_new *event, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_feed *made = NULL;
    int64_t removed = 0;
    quipu_status status = qp_feed_create(db, &arena, event, &made, reterr);

    assert(ent_depth(db) > 0);
    assert(status != QUIPU_OK || made->id > 0);
    if (status == QUIPU_OK && made->id % FEED_PRUNE_STEP == 0) {
        /* At id n, a multiple of the step, ids up to n - MAX + STEP go: MAX - STEP rows stay, and
         * the next STEP inserts fill the feed to MAX at most. */
        const qp_feed_where old = {.id = ent_le(made->id - QUIPU_FEED_ROWS_MAX + FEED_PRUNE_STEP)};
        status = qp_feed_delete(db, &old, &removed, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

typedef struct qp_queued_change {
    qp_feed_new event;
    struct qp_queued_change *next;
} qp_queued_change;

/* Changes of a transaction that did not commit are nobody's. */
void qp_feed_clear(qp_feed_queue *queue)
{
    assert(queue->count > 0 && queue->first != NULL);
    /* The memory is kept: a busy store fills the queue again with its next batch. */
    quipu_arena_reset(&queue->arena);
    queue->first = queue->last = NULL;
    queue->count = 0;
}

/* Copies a change for the end of the batch. The tenant is the store's, and outlives it. */
static quipu_status feed_queue(qp_feed_queue *queue, const qp_feed_new *event, quipu_error *reterr)
{
    qp_queued_change *change = qp_arena_take(&queue->arena, sizeof(*change));

    assert(queue->is_kept && (queue->count == 0) == (queue->last == NULL));
    if (change != NULL) {
        *change = (qp_queued_change){.event = *event};
    }
    if (change == NULL || quipu_arena_copy(&queue->arena, event->session_key,
                                           &change->event.session_key) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a change of the feed");
    }
    *(queue->last == NULL ? &queue->first : &queue->last->next) = change;
    queue->last = change;
    queue->count++;
    return QUIPU_OK;
}

/* In the order in which members made them, under the lock of the feed's counter: readers see
 * numbers without gaps. */
quipu_status qp_feed_flush(qp_feed_queue *queue, ent_db *db, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (const qp_queued_change *change = queue->first; change != NULL && status == QUIPU_OK;
         change = change->next) {
        status = feed_add(db, &change->event, reterr);
    }
    return status;
}

/* A LOCKED batch has more work to do, and perhaps to wait for others. */
static quipu_status feed_put(quipu_store *store, ent_db *db, const qp_feed_new *event,
                             quipu_error *reterr)
{
    const qp_batch_state state = qp_group_state(&store->group);

    assert(state != QP_BATCH_OPTIMISTIC);
    return state == QP_BATCH_LOCKED ? feed_queue(&store->group.feed, event, reterr)
                                    : feed_add(db, event, reterr);
}

/* Inside of the writer's own transaction: the change and its record are stored together, or
 * neither. Stores without a feed pay one comparison. */
quipu_status qp_feed_record(quipu_store *store, ent_db *db, const qp_session *row,
                            const qp_feed_note *note, quipu_error *reterr)
{
    assert(note->kind >= QUIPU_CHANGE_CREATED && note->kind <= QUIPU_CHANGE_FORKED);
    /* A hidden session has no key: its deletion is recorded already. */
    if (!store->feed || row->key.p == NULL) {
        return QUIPU_OK;
    }
    assert(note->first_seq <= note->last_seq);
    return feed_put(store, db,
                    &(qp_feed_new){.tenant = store->tenant,
                                   .kind = (qp_feed_kind)note->kind,
                                   .session_key = row->key,
                                   .session_uid = row->uid,
                                   .revision = note->revision,
                                   .first_seq = note->first_seq,
                                   .last_seq = note->last_seq},
                    reterr);
}

/* Erasing must leave no key of the session behind, also in rows that were written while another
 * store kept the feed. Followers learn of the deletion by a row without a key. */
quipu_status qp_feed_forget(const quipu_store *store, ent_db *db, const qp_session *row,
                            quipu_error *reterr)
{
    int64_t removed = 0;
    quipu_status status =
        qp_feed_delete(db, &(qp_feed_where){.session_uid = ent_eq(row->uid)}, &removed, reterr);

    assert(ent_depth(db) > 0);
    if (status != QUIPU_OK || !store->feed) {
        return status;
    }
    return feed_add(db,
                    &(qp_feed_new){.tenant = store->tenant,
                                   .kind = (qp_feed_kind)QUIPU_CHANGE_DELETED,
                                   .session_key = QUIPU_STR(""),
                                   .session_uid = row->uid,
                                   .revision = qp_sum(row->revision, 1)},
                    reterr);
}

/* ---- cursors ----------------------------------------------------------------------------------
 */

/* The cursor behind a number: "1." is the version of this form, and the digits are of fixed
 * width. */
static quipu_status feed_cursor(int64_t number, quipu_arena *arena, quipu_str *ret)
{
    char text[FEED_CURSOR + 1];
    int n = snprintf(text, sizeof(text), "1.%016" PRIx64, (uint64_t)number);

    assert(number >= 0 && n == FEED_CURSOR);
    return quipu_arena_copy(arena, (quipu_str){text, (size_t)n}, ret);
}

/* A caller may pass any text as a cursor. -1 means "no cursor"; rows are numbered from 1. */
static quipu_status feed_parse(quipu_str cursor, int64_t *ret, quipu_error *reterr)
{
    uint64_t value = 0;
    bool ours = cursor.n == FEED_CURSOR && cursor.p[0] == '1' && cursor.p[1] == '.';

    *ret = -1;
    if (cursor.p == NULL) {
        return QUIPU_OK;
    }
    /* At most 16 digits, so that `value` cannot overflow. */
    for (size_t i = 2; i < cursor.n && ours; i++) {
        const char c = cursor.p[i];
        ours = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        assert(!ours || i < FEED_CURSOR);
    }
    /* Only lower case and full length: one number has one cursor. */
    if (!ours || value > INT64_MAX) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the cursor is invalid; pass `next` of the page before, unchanged");
    }
    *ret = (int64_t)value;
    return QUIPU_OK;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* The oldest or the newest number that is kept, of any tenant; 0: none. Numbers are shared by all
 * tenants of a store, so that a gap in one tenant's numbers means nothing. One step in the key's
 * index. */
static quipu_status feed_edge(ent_db *db, quipu_arena *scratch, bool newest, int64_t *ret,
                              quipu_error *reterr)
{
    qp_feed_query query = {.limit = 1};
    qp_feed_list list = {0};
    quipu_status status;

    query.order[0] = newest ? QP_FEED_BY_ID(DESC) : QP_FEED_BY_ID(ASC);
    status = qp_feed_find(db, scratch, &query, &list, reterr);
    assert(list.n <= 1);
    *ret = list.n > 0 ? list.items[0].id : 0;
    return status;
}

/* Moves the rows to the page; their texts are in its arena already. */
static quipu_status feed_fill(feed_page *page, const qp_feed_list *rows, int64_t last,
                              quipu_error *reterr)
{
    quipu_change *events = NULL;

    assert(rows->n <= QUIPU_FEED_PAGE_MAX);
    if (rows->n > 0) {
        events = qp_arena_take(&page->head.arena, rows->n * sizeof(*events));
    }
    if ((rows->n > 0 && events == NULL) ||
        feed_cursor(last, &page->head.arena, &page->pub.next) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu events", rows->n);
    }
    for (size_t i = 0; i < rows->n; i++) {
        const qp_feed *row = &rows->items[i];
        assert(events != NULL);
        events[i] = (quipu_change){.kind = (quipu_change_kind)row->kind,
                                   .key = row->session_key,
                                   .uid = row->session_uid,
                                   .at = row->at,
                                   .revision = row->revision,
                                   .first_seq = row->first_seq,
                                   .last_seq = row->last_seq};
    }
    page->pub.changes = quipu_changes_of(events, rows->n);
    return QUIPU_OK;
}

/* Reads one page behind the position. A page that is not full reaches to the newest number of all
 * tenants: the next read does not look at rows of others again, and a quiet tenant does not fall
 * behind because others are busy. */
static quipu_status feed_read_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    feed_call *call = ctx;
    feed_page *page = call->page;
    qp_feed_list rows = {0};
    int64_t oldest = 0;
    int64_t newest = 0;
    int64_t after = call->after;
    quipu_status status = feed_edge(db, scratch, false, &oldest, reterr);

    assert(ent_depth(db) > 0 && call->options.limit > 0);
    quipu_arena_free(&page->head.arena);
    page->pub = (quipu_feed_page){0};
    if (status == QUIPU_OK) {
        status = feed_edge(db, scratch, true, &newest, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Without a cursor: from the oldest row that is kept, or from now on. */
    if (after < 0) {
        after = (call->options.flags & QUIPU_FEED_FROM_NOW) != 0 ? newest : 0;
    } else if (after + 1 < oldest) {
        return qp_error_set(reterr, QUIPU_EXPIRED,
                            "the feed keeps the newest %d events, and this reader fell behind "
                            "them; list the sessions and go on without a cursor",
                            QUIPU_FEED_ROWS_MAX);
    }
    const qp_feed_query query = {
        .limit = call->options.limit,
        .order = {QP_FEED_BY_ID(ASC)},
        .where = {.id = ent_gt(after), .tenant = ent_eq(call->store->tenant)}};
    /* A cursor behind the newest row, for example of a store that was restored from a backup, waits
     * until the numbers reach it. */
    if (newest > after) {
        status = qp_feed_find(db, &page->head.arena, &query, &rows, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (rows.n > 0 && (int64_t)rows.n == call->options.limit) {
        after = rows.items[rows.n - 1].id;
    } else if (newest > after) {
        after = newest; /* past other tenants' events too, or it would fall behind among them */
    }
    assert(after >= call->after); /* a position never moves back */
    return feed_fill(page, &rows, after, reterr);
}

/* Checks the options, fills in the default of the limit and reads cursor and timeout. */
static quipu_status feed_options(const quipu_feed_options *given, feed_call *call, int64_t *ret_end,
                                 quipu_error *reterr)
{
    quipu_feed_options *options = &call->options;
    quipu_status status =
        qp_options_read(options, sizeof(*options), given, "quipu_feed_options", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if ((options->flags & ~QUIPU_FEED_FROM_NOW) != 0 || options->limit < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an option of the feed is out of range: flags 0x%x, limit %lld",
                            (unsigned)options->flags, (long long)options->limit);
    }
    if (options->limit > QUIPU_FEED_PAGE_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a page of the feed holds at most %d events",
                            QUIPU_FEED_PAGE_MAX);
    }
    options->limit = options->limit == 0 ? QUIPU_FEED_PAGE : options->limit;
    assert(options->limit > 0 && options->limit <= QUIPU_FEED_PAGE_MAX);
    status = feed_parse(options->after, &call->after, reterr);
    return status == QUIPU_OK ? qp_wait_begin(options->timeout_ms, ret_end, reterr) : status;
}

/* A page of a local store, or of the server of a remote one. */
static quipu_status feed_read_once(feed_call *read, const qp_call *within, quipu_error *reterr)
{
    const qp_remote *remote = &read->store->remote;

    if (!qp_store_is_remote(read->store)) {
        return qp_store_read(read->store, within, feed_read_work, read, reterr);
    }
    quipu_arena_free(&read->page->head.arena); /* of the empty page before */
    return remote->feed(remote->ctx, within, &read->options, &read->page->head.arena,
                        &read->page->pub, reterr);
}

/* Reads and waits in turn until changes come or the time is over. The count of changes is taken
 * before each read: a commit after the read ends the wait at once. Each read has the deadline of
 * the call; the wait has the timeout of the options. */
static quipu_status feed_follow(quipu_store *store, feed_call *read, int64_t end_ns,
                                const quipu_call_options *call, quipu_error *reterr)
{
    const bool now_only = read->after < 0 && (read->options.flags & QUIPU_FEED_FROM_NOW) != 0;

    assert(read->page != NULL);
    for (;;) {
        const bool is_remote = qp_store_is_remote(store);
        /* Why before the read:
         *
         *     reader     count = 7 ─ read: nothing ─────────── wait(7) returns at once
         *     writer                          COMMIT, count = 8 */
        uint64_t seen = is_remote ? 0 : qp_change_signal_count(&store->signal);
        qp_call within;
        quipu_status status = qp_store_enter_as("quipu_feed_read", store, call, &within, reterr);

        if (status == QUIPU_OK) {
            status = feed_read_once(read, &within, reterr);
        }
        /* The entry of quipu_feed_read() keeps the store open during the wait. */
        qp_store_leave(&within);
        if (status != QUIPU_OK || now_only || read->page->pub.changes.count > 0 ||
            qp_clock_ns() >= end_ns) {
            return status;
        }
        status = is_remote ? qp_wait_pause(store, end_ns, within.cancel, reterr)
                           : qp_wait_change(store, seen, end_ns, within.cancel, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
}

/* The call is inside of the store for its whole length, so that quipu_close() waits for it; each
 * read in feed_follow() enters again with a deadline of its own. */
quipu_status quipu_feed_read(quipu_store *store, const quipu_feed_options *options,
                             const quipu_call_options *call, quipu_feed_page **ret_page,
                             quipu_error *reterr)
{
    feed_call read = {.store = store, .options = QUIPU_FEED_OPTIONS_INIT};
    int64_t end_ns = 0;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_page == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the feed needs a place for its page");
    }
    if (status == QUIPU_OK) {
        status = feed_options(options, &read, &end_ns, reterr);
    }
    if (status == QUIPU_OK) {
        read.page = qp_result_new(sizeof(*read.page));
        if (read.page == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page of the feed");
        }
    }
    if (status == QUIPU_OK) {
        /* No commit of this process wakes a reader of a remote store, so the server is asked
         * again. */
        const bool listens = !qp_store_is_remote(store);

        if (listens) {
            (void)qp_change_signal_listen(&store->signal);
        }
        status = feed_follow(store, &read, end_ns, call, reterr);
        if (listens) {
            qp_change_signal_leave(&store->signal);
        }
    }
    if (status == QUIPU_OK) {
        assert(ret_page != NULL);
        *ret_page = &read.page->pub;
    } else if (read.page != NULL) {
        quipu_free(&read.page->pub);
    }
    qp_store_leave(&within);
    return status;
}
