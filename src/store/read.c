/* Reading: the session's row, then its messages by number.
 *
 * Owns the translation of a range into numbers, the default view (what follows the newest summary,
 * without the summaries themselves), and decoding into a history. Called by quipu_session_get(),
 * and inside other transactions by tail.c, session.c, fork.c, window.c, compact.c and state_live.c.
 * Expects an open transaction and takes no lock. A session's messages lie in segments of
 * consecutive numbers, each in one session's cluster, so that a read is a few range scans. A result
 * holds messages without a gap, or the read fails with QUIPU_CORRUPT. */
#include "store/read.h"

#include <assert.h>

#include <ent/view.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/find.h"
#include "store/last_change.h"
#include "store/message.h"
#include "store/state_internal.h"

#define READ_FLAGS (QUIPU_RANGE_HEADER | QUIPU_RANGE_LAST | QUIPU_RANGE_VIEW | QUIPU_RANGE_STATE)

/* A result with an arena of its own, which quipu_free() frees as a whole. */
qp_history *qp_history_new(void)
{
    return qp_result_new(sizeof(qp_history));
}

/* A parent is one more row by its number. A hidden parent has no key, so that its fork shows none.
 * Nor does a fork whose parent's row is missing: the read of its messages reports that. */
quipu_status qp_session_show(ent_db *db, quipu_arena *arena, const qp_session *row,
                             quipu_session_info *ret_info, quipu_error *reterr)
{
    quipu_session_info info = {.key = {NULL, 0}};
    qp_session shown = *row;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    if (row->parent_id.has) {
        status = qp_session_get(db, arena, row->parent_id.v, &shown.parent, reterr);
    }
    if (status != QUIPU_OK && status != QUIPU_NOT_FOUND) {
        return status;
    }
    ent_view_read(&qp_session_info_view, &shown, &info);
    info.updated_at = qp_last_change(row);
    *ret_info = info;
    return QUIPU_OK;
}

/* ---- which messages ---------------------------------------------------------------------------
 */

/* The numbers that a range means, of the messages from `first` on: *ret_from > *ret_to when there
 * is none. A limit keeps the oldest ones, or with QUIPU_RANGE_LAST the newest. */
static void read_bounds(const qp_session *row, int64_t first, const quipu_range *range,
                        int64_t *ret_from, int64_t *ret_to)
{
    int64_t from = first;
    int64_t to = row->next_seq - 1;

    assert(range->after_seq >= 0 && range->before_seq >= 0 && range->limit >= 0);
    /* A position behind the last message leaves nothing, and must not overflow. */
    if (range->after_seq >= from) {
        from = range->after_seq < to ? range->after_seq + 1 : to + 1;
    }
    if (range->before_seq > 0 && range->before_seq <= to) {
        to = range->before_seq - 1;
    }
    if (range->limit > 0 && to - from >= range->limit) {
        if ((range->flags & QUIPU_RANGE_LAST) != 0) {
            from = to - range->limit + 1;
        } else {
            to = from + range->limit - 1;
        }
    }
    assert(range->limit == 0 || to - from < range->limit);
    assert(to < row->next_seq);
    *ret_from = from;
    *ret_to = to;
}

/* One read by number. The row names the newest summary; that the message there is none means that
 * row and messages contradict each other. */
quipu_status qp_summary_read(ent_db *db, const qp_session *row, quipu_arena *arena,
                             qp_summary *ret_summary, quipu_error *reterr)
{
    qp_summary summary = {.view_from = row->first_seq};
    quipu_status status = QUIPU_OK;

    if (row->compact_seq > 0) {
        const qp_extent one = {.from = row->compact_seq, .to = row->compact_seq};
        quipu_messages found = quipu_messages_of(NULL, 0);

        status = qp_messages_read(db, row, &one, arena, &found, reterr);
        assert(status != QUIPU_OK || found.count == 1);
        const quipu_message *message = found.items;
        if (status == QUIPU_OK && message->mark != QUIPU_MARK_COMPACTION) {
            status = qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is no summary",
                                  (long long)row->compact_seq);
        }
        if (status == QUIPU_OK) {
            summary.message = *message;
            /* A prune may have removed more than the summary covers: the later beginning counts. */
            if (summary.view_from <= message->covers_to) {
                summary.view_from = message->covers_to + 1;
            }
        }
    }
    if (status == QUIPU_OK) {
        *ret_summary = summary;
    }
    return status;
}

/* ---- the default view -------------------------------------------------------------------------
 */

/* A count of messages while a scan passes them. */
typedef struct read_places {
    int64_t left; /* still to be passed */
    int64_t seq;  /* of the last one */
} read_places;

/* Counts messages until the one that qp_view_place() looks for. */
static bool read_place(void *ctx, const qp_message *row)
{
    read_places *places = ctx;

    assert(places->left > 0);
    if (row->mark != QP_MESSAGE_MARK_COMPACTION) {
        places->seq = row->seq;
        places->left--;
    }
    return places->left > 0;
}

/* The number of the n-th message of a view, counted from the end that the scan begins with.
 * Summaries do not count. */
quipu_status qp_view_place(ent_db *db, const qp_chain *chain, const qp_scan *scan, int64_t place,
                           int64_t *ret_seq, quipu_error *reterr)
{
    read_places places = {.left = place};
    quipu_status status = qp_chain_each(db, chain, scan, read_place, &places, reterr);

    assert(place > 0 && places.left >= 0);
    if (status == QUIPU_OK) {
        *ret_seq = places.seq;
    }
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Where decoded messages go: an array with room for all that can come. */
typedef struct read_sink {
    qp_json_doc doc;
    quipu_arena *arena;
    quipu_message *messages; /* room for all that can come */
    size_t count;            /* of them that are decoded */
    bool view;               /* summaries are left out */
    size_t bytes;            /* of the texts so far, with one that did not fit any more */
    size_t bytes_max;        /* 0: no bound */
    bool is_full;            /* the next message would exceed it */
} read_sink;

/* Whether a row still fits; the first one always does. */
static bool read_fits(read_sink *sink, const qp_message *row)
{
    sink->bytes += row->content.n + row->tool_calls.text.n + row->extra.text.n;
    sink->is_full = sink->bytes_max > 0 && sink->count > 0 && sink->bytes > sink->bytes_max;
    return !sink->is_full;
}

/* Columns that no message shows: the hash is for verify, and the segment names its owner. */
static const size_t read_unshown[] = {offsetof(qp_message, salted_hash),
                                      offsetof(qp_message, session_id)};

/* Reads one segment behind what the sink holds. The query asks for a range of numbers in order: the
 * first number that differs from the expected one is a gap. */
static quipu_status read_segment(ent_db *db, const qp_segment *segment, read_sink *sink,
                                 quipu_error *reterr)
{
    const qp_message_query query = {.order = {QP_MESSAGE_BY_SEQ(ASC)},
                                    .where = {.session_id = ent_eq(segment->session),
                                              .seq = ent_between(segment->from, segment->to)}};
    int64_t seq = segment->from;
    qp_message_iter iter;
    qp_message row;
    const qp_without without = {read_unshown, sizeof(read_unshown) / sizeof(read_unshown[0])};
    quipu_status status =
        qp_iter_begin_without(db, &qp_message_entity, &query, without, &iter.it, reterr);

    assert(segment->from <= segment->to && !sink->is_full);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_message_iter_next(&iter, &row)) {
        /* A gap ends the loop as a full sink does; behind it the number says which it was. */
        if (row.seq != seq || !read_fits(sink, &row)) {
            break;
        }
        assert(seq <= segment->to && sink->messages != NULL);
        if (!sink->view || row.mark != QP_MESSAGE_MARK_COMPACTION) {
            status = qp_message_decode(&row, &sink->doc, sink->arena, &sink->messages[sink->count],
                                       reterr);
            sink->count++;
        }
        seq++;
    }
    /* An engine that failed in the middle looks like missing rows; its own error comes first. */
    quipu_status ended = qp_message_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK && seq != segment->to + 1 && !sink->is_full) {
        status = qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is missing; restore a backup",
                              (long long)seq);
    }
    return status;
}

/* Takes the array at once and decodes into it: no message is copied twice. The view reads
 * summaries, too, and leaves them out; their room in the arena stays unused. */
quipu_status qp_messages_read(ent_db *db, const qp_session *row, const qp_extent *extent,
                              quipu_arena *arena, quipu_messages *ret_messages, quipu_error *reterr)
{
    read_sink sink = {.arena = arena, .view = extent->view, .bytes_max = extent->bytes_max};
    qp_chain chain = {.count = 0};
    quipu_status status = qp_chain_resolve(db, row, extent->from, extent->to, &chain, reterr);
    /* The numbers have no gaps: how many come at most is known before the first one. */
    size_t n = extent->from <= extent->to ? (size_t)(extent->to - extent->from + 1) : 0;

    n += extent->head != NULL;
    if (status == QUIPU_OK && n > 0) {
        sink.messages = qp_arena_take(arena, n * sizeof(*sink.messages));
        if (sink.messages == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu messages", n);
        } else if (extent->head != NULL) {
            sink.messages[sink.count++] = *extent->head;
        }
    }
    /* One document for all messages: its memory is reused from row to row. */
    qp_json_init(&sink.doc);
    for (size_t i = 0; i < chain.count && status == QUIPU_OK && !sink.is_full; i++) {
        status = read_segment(db, &chain.segments[i], &sink, reterr);
    }
    qp_json_free(&sink.doc);
    if (status == QUIPU_OK) {
        assert(sink.count <= n && (extent->view || sink.is_full || sink.count == n));
        *ret_messages = quipu_messages_of(sink.messages, sink.count);
    }
    return status;
}

/* ---- a session --------------------------------------------------------------------------------
 */

/* The arguments of a read of the view. */
typedef struct read_view {
    const qp_session *row;
    const quipu_range *range;
    qp_summary summary;
    qp_chain chain;   /* of the whole view */
    qp_extent extent; /* what is read of it */
} read_view;

/* Reads the extent of the view, and finds out whether messages lie before and behind it. Summaries
 * have numbers but are not part of the view, so that numbers alone cannot answer that. The summary
 * stands before the first message of the view, unless the range begins behind it. */
static quipu_status read_view_extent(ent_db *db, read_view *view, qp_history *history,
                                     quipu_error *reterr)
{
    const int64_t first = view->summary.view_from;
    const qp_scan older = {first, view->extent.from - 1, true};
    const qp_scan newer = {view->extent.to + 1, view->row->next_seq - 1, false};
    quipu_history *pub = &history->pub;
    int64_t before = 0;
    int64_t after = 0;
    quipu_status status = qp_view_place(db, &view->chain, &older, 1, &before, reterr);

    assert(view->extent.view && view->summary.view_from == first);
    if (status == QUIPU_OK) {
        status = qp_view_place(db, &view->chain, &newer, 1, &after, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    pub->more_before = before != 0;
    pub->more_after = after != 0;
    view->extent.head =
        view->summary.message.seq != 0 && before == 0 && view->range->after_seq < first
            ? &view->summary.message
            : NULL;
    return qp_messages_read(db, view->row, &view->extent, &history->head.arena, &pub->messages,
                            reterr);
}

/* Reads as many messages of the view as the range asks for. Most pages hold no summary: then their
 * numbers follow from the bounds, and the messages are read once. A page with summaries comes out
 * too short: then the place of the last message that belongs to it is searched, and the page is
 * read again. */
static quipu_status read_view_range(ent_db *db, const qp_session *row, const quipu_range *range,
                                    qp_history *history, quipu_error *reterr)
{
    const bool newest = (range->flags & QUIPU_RANGE_LAST) != 0;
    read_view view = {.row = row, .range = range, .extent = {.view = true}};
    quipu_range all = *range;
    qp_scan within = {.newest = newest};
    int64_t seq = 0;
    quipu_status status = qp_summary_read(db, row, &history->head.arena, &view.summary, reterr);

    if (status == QUIPU_OK) {
        status = qp_chain_resolve(db, row, view.summary.view_from, row->next_seq - 1, &view.chain,
                                  reterr);
    }
    if (status == QUIPU_OK) {
        read_bounds(row, view.summary.view_from, range, &view.extent.from, &view.extent.to);
        status = read_view_extent(db, &view, history, reterr);
    }
    /* The range without its limit: how far the search for another border may go. */
    all.limit = 0;
    read_bounds(row, view.summary.view_from, &all, &within.from, &within.to);
    const int64_t got = (int64_t)history->pub.messages.count - (view.extent.head != NULL);
    if (status != QUIPU_OK || got >= range->limit ||
        within.to - within.from == view.extent.to - view.extent.from) {
        return status;
    }
    /* Summaries took places of the page: count messages from the fixed end on, and read again up to
     * there. */
    status = qp_view_place(db, &view.chain, &within, range->limit, &seq, reterr);
    if (seq != 0) {
        *(newest ? &view.extent.from : &view.extent.to) = seq;
    }
    return status == QUIPU_OK ? read_view_extent(db, &view, history, reterr) : status;
}

/* The arena is freed first, because a retried work starts over. The row stays in it: callers inside
 * of this room read `history->row` after this. */
quipu_status qp_history_read(const quipu_store *store, ent_db *db, quipu_str key,
                             const quipu_range *range, quipu_time now, qp_history *history,
                             quipu_error *reterr)
{
    quipu_history *pub = &history->pub;
    const qp_session *row = NULL;
    qp_extent extent = {.view = false};
    quipu_status status;

    assert(ent_depth(db) > 0);
    quipu_arena_free(&history->head.arena);
    *pub = (quipu_history){0};
    status = qp_session_load(store, db, &history->head.arena, key, now, &row, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_session_show(db, &history->head.arena, row, &history->session, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    history->row = row;
    pub->session = &history->session;
    /* Only the row was asked for: no message is read, and `more` says whether there is any. */
    if ((range->flags & QUIPU_RANGE_HEADER) != 0) {
        pub->more_before = pub->more_after = row->next_seq > row->first_seq;
        return QUIPU_OK;
    }
    if ((range->flags & QUIPU_RANGE_VIEW) != 0) {
        return read_view_range(db, row, range, history, reterr);
    }
    assert(history->row == row && pub->session == &history->session);
    read_bounds(row, row->first_seq, range, &extent.from, &extent.to);
    extent.bytes_max = history->bytes_max;
    pub->more_before = extent.from > row->first_seq;
    status = qp_messages_read(db, row, &extent, &history->head.arena, &pub->messages, reterr);
    /* No message is left out, so that the count says where a read that became full has ended. */
    if (pub->messages.count > 0) {
        extent.to = extent.from + (int64_t)pub->messages.count - 1;
    }
    pub->more_after = extent.to < row->next_seq - 1;
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------
 */

/* One quipu_session_get(). */
typedef struct read_get {
    const quipu_store *store;
    quipu_str key;
    quipu_range range;   /* checked */
    qp_history *history; /* made before the read, which fills it anew when it is retried */
} read_get;

/* The same from a server; also for the sessions that other calls have made there. */
quipu_status qp_history_ask(quipu_store *store, const qp_call *call, quipu_str key,
                            const quipu_range *range, qp_history *history, quipu_error *reterr)
{
    const qp_remote_read read = {key, range, &history->head.arena, &history->session,
                                 &history->pub};

    assert(qp_store_is_remote(store));
    quipu_arena_free(&history->head.arena);
    history->pub = (quipu_history){.session = &history->session};
    return store->remote.get(store->remote.ctx, call, &read, reterr);
}

/* A qp_work_fn: one snapshot, on a reading connection. */
static quipu_status read_get_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    read_get *get = ctx;
    qp_history *history = get->history;
    quipu_status status;

    assert(history != NULL);
    (void)scratch;
    status =
        qp_history_read(get->store, db, get->key, &get->range, quipu_time_now(), history, reterr);
    if (status == QUIPU_OK && (get->range.flags & QUIPU_RANGE_STATE) != 0) {
        history->pub.state = &history->state;
        history->pub.last_event_at = qp_live_time(history->row);
        status = qp_state_entries(get->store, db, history->row, &history->head.arena,
                                  &history->state.entries, reterr);
    }
    return status;
}

static quipu_status read_get_run(read_get *get, quipu_store *store, const qp_call *call,
                                 quipu_error *reterr)
{
    return qp_store_is_remote(store)
               ? qp_history_ask(store, call, get->key, &get->range, get->history, reterr)
               : qp_store_read(store, call, read_get_work, get, reterr);
}

/* Refuses flags of a later version and negative numbers; a range that is merely empty is fine. */
static quipu_status read_range_check(const quipu_range *range, quipu_error *reterr)
{
    if ((range->flags & ~READ_FLAGS) != 0 || range->after_seq < 0 || range->before_seq < 0 ||
        range->limit < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the range is out of bounds: flags 0x%x, after_seq %lld, before_seq "
                            "%lld, limit %lld",
                            (unsigned)range->flags, (long long)range->after_seq,
                            (long long)range->before_seq, (long long)range->limit);
    }
    return QUIPU_OK;
}

/* One snapshot for the session's row and its messages. The result is allocated before the read, so
 * that a retried read uses it again. */
quipu_status quipu_session_get(quipu_store *store, quipu_str key, const quipu_range *range,
                               const quipu_call_options *call, quipu_history **ret_history,
                               quipu_error *reterr)
{
    read_get get = {.store = store, .key = key, .range = QUIPU_RANGE_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_history == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "get needs a place for the history");
    }
    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&get.range, sizeof(get.range), range, "quipu_range", reterr);
    }
    if (status == QUIPU_OK) {
        status = read_range_check(&get.range, reterr);
    }
    if (status == QUIPU_OK) {
        get.history = qp_history_new();
        status = get.history != NULL
                     ? read_get_run(&get, store, &within, reterr)
                     : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a history");
    }
    if (status == QUIPU_OK) {
        assert(ret_history != NULL);
        *ret_history = &get.history->pub;
    } else if (get.history != NULL) {
        quipu_free(&get.history->pub);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "read", key, reterr);
}
