/* Compaction without loss: a summary is appended, names what it covers, and the default view begins
 * with it. Undoing returns to the summary that it replaced. Only pruning deletes messages.
 *
 * Owns both calls and the rule where a compaction may end. Called by quipu_session_compact() and
 * quipu_session_prune(). Each has the lock of the session's row, which it writes past the session
 * cache; a prune looks at forks, and has the family's as well. A call is refused by reads before
 * its first write. On QUIPU_OK the row's compact_seq names the newest summary that is still stored,
 * or 0.
 *
 *    1      2      3      4      5      6      7
 *    user   model  user   model  SUMMARY user  model
 *    └── covers 1 to 2 ──┘       compact_seq = 5
 *    view:  SUMMARY, 3, 4, 6, 7 */
#include <assert.h>

#include "base/error.h"
#include "base/option.h"
#include "store/append.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/fork_chain.h"
#include "store/last_change.h"
#include "store/purge.h"
#include "store/read.h"
#include "store/session.h"
#include "store/size.h"
#include "store/tool_calls.h"
#include "store/tool_pairs.h"

/* One call of this file: its arguments, and what it returns. */
typedef struct compact_call {
    const char *name; /* of the public call */
    quipu_store *store;
    quipu_str key;
    quipu_str text;    /* of the summary; absent for the other calls */
    int64_t covers_to; /* the last message that the summary stands for */
    int64_t seq;       /* the number that the summary got */
    int64_t removed;   /* messages that a prune deleted */
} compact_call;

/* Looks at the first message behind the border, past summaries: an answer without tool calls
 * belongs to the message before it, whatever ids say. */
static bool compact_look(void *ctx, const qp_message *row)
{
    bool *parted = ctx;

    *parted = qp_message_answers(row) && qp_tool_calls_none(row->tool_calls.text);
    return row->mark == QP_MESSAGE_MARK_COMPACTION;
}

/* Whether a border behind message `covers_to` parts a call from its answer. A response is looked
 * for at most QUIPU_PAIR_REACH messages behind the border, as everywhere. */
static quipu_status compact_parts(const compact_call *call, ent_db *db, const qp_session *row,
                                  const qp_summary *before, bool *ret_parted, quipu_error *reterr)
{
    const int64_t next = call->covers_to + 1;
    const int64_t last = row->next_seq - 1;
    const int64_t reach = call->covers_to + QUIPU_PAIR_REACH;
    const qp_scan scan = {before->view_from, reach < last ? reach : last, false};
    const qp_scan behind = {next, last, false};
    qp_pairs pairs;
    qp_chain chain;
    quipu_status status = qp_chain_resolve(db, row, scan.from, last, &chain, reterr);

    assert(call->covers_to >= before->view_from && call->covers_to <= last);
    *ret_parted = false;
    qp_pairs_init(&pairs);
    if (status == QUIPU_OK) {
        status = qp_chain_each(db, &chain, &behind, compact_look, ret_parted, reterr);
    }
    /* Calls in the messages that are covered already do not matter: the scan begins with the
     * view. */
    if (status == QUIPU_OK && !*ret_parted) {
        status = qp_pairs_read(&pairs, db, &chain, &scan, next, reterr);
        *ret_parted = qp_pairs_parts(&pairs, next);
    }
    qp_pairs_free(&pairs);
    return status;
}

/* Whether the view's messages up to covers_to can be covered. A compaction covers at least one
 * message that the view shows, and does not end inside of a tool call. */
static quipu_status compact_check(const compact_call *call, ent_db *db, const qp_session *row,
                                  const qp_summary *before, quipu_error *reterr)
{
    const int64_t last = row->next_seq - 1;
    bool parted = false;
    quipu_status status;

    if (call->covers_to < before->view_from || call->covers_to > last) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "a compaction up to message %lld covers nothing; the view has the "
                            "messages %lld to %lld",
                            (long long)call->covers_to, (long long)before->view_from,
                            (long long)last);
    }
    /* The numbers are checked first: the search for pairs relies on them. */
    status = compact_parts(call, db, row, before, &parted, reterr);
    if (status == QUIPU_OK && parted) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "tool calls up to message %lld are answered behind it; end the "
                            "compaction before the call or after the last answer",
                            (long long)call->covers_to);
    }
    return status;
}

/* Appends the summary as a message with a number of its own. It covers what the summary before it
 * covered, too, and names that one in `replaces`, for the way back. */
static quipu_status compact_append(compact_call *call, ent_db *db, quipu_arena *scratch,
                                   const qp_session *row, const qp_summary *before, quipu_time now,
                                   quipu_error *reterr)
{
    const bool first = before->message.seq == 0;
    const quipu_message summary = {
        .role = QUIPU_ROLE_SYSTEM,
        .content = call->text,
        .mark = QUIPU_MARK_COMPACTION,
        .covers_from = first ? row->first_seq : before->message.covers_from,
        .covers_to = call->covers_to,
        .replaces = before->message.seq,
    };
    qp_encoded encoded;
    quipu_status status =
        qp_encoded_make(&encoded, QP_MESSAGES_STORED, quipu_messages_of(&summary, 1),
                        call->store->message_bytes_max, reterr);

    assert(call->text.n > 0); /* compact_run() */
    if (status == QUIPU_OK && row->next_seq > ENT_CLUSTER_SEQ_MAX) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "a session holds at most %lld messages",
                              (long long)ENT_CLUSTER_SEQ_MAX);
    }
    if (status == QUIPU_OK) {
        assert(encoded.count == 1 && encoded.rows[0].mark == QP_MESSAGE_MARK_COMPACTION);
        call->seq = row->next_seq;
        /* The append writes the row's compact_seq with its own change of the row. */
        encoded.summary = true;
        status = qp_append_write(call->store, db, scratch, row, &encoded, now, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_feed_record(call->store, db, row,
                           &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
    }
    qp_encoded_free(&encoded);
    return status;
}

/* The session of a call, under the lock of its row. */
static quipu_status compact_load(const compact_call *call, ent_db *db, quipu_arena *scratch,
                                 quipu_time now, const qp_session **ret_row, quipu_error *reterr)
{
    quipu_status status =
        qp_session_lookup_for_update(call->store, db, scratch, call->key, ret_row, reterr);

    return status == QUIPU_OK ? qp_session_living(*ret_row, now, reterr) : status;
}

/* Creates a compaction: everything it needs to know is read first, the append comes last. */
static quipu_status compact_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    compact_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    qp_summary before = {.view_from = 0};
    quipu_status status = compact_load(call, db, scratch, now, &row, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_summary_read(db, row, scratch, &before, reterr);
    }
    if (status == QUIPU_OK) {
        status = compact_check(call, db, row, &before, reterr);
    }
    return status == QUIPU_OK ? compact_append(call, db, scratch, row, &before, now, reterr)
                              : status;
}

/* The part that all changes of this file share: the revision moves, the expiry slides, the feed
 * records the change. The caller adds the rest to the patch and writes it. */
static quipu_status compact_patch(const compact_call *call, const qp_session *row, ent_db *db,
                                  quipu_time now, qp_session_patch *patch, quipu_error *reterr)
{
    assert(ent_depth(db) > 0);
    patch->revision = ent_set(row->revision + 1);
    qp_last_change_set(row, now, patch);
    qp_session_slide(row, now, patch);
    return qp_feed_record(call->store, db, row,
                          &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
}

/* Returns to the summary that this one replaced, unless that one was pruned: then the view is the
 * whole history. The summary itself stays stored: it keeps its number, and no view shows it.
 *
 * The row's compact_seq goes back along `replaces`, one compaction for each call:
 *
 *     compact_seq   9 ──▶ 5 ──▶ 0      9 replaces 5, 5 replaces none: the view is all messages */
static quipu_status compact_undo_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    compact_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    qp_summary summary = {.view_from = 0};
    qp_session_patch patch = {.compact_seq = ent_set((int64_t)0)};
    int64_t changed = 0;
    quipu_status status = compact_load(call, db, scratch, now, &row, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_summary_read(db, row, scratch, &summary, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    const quipu_message *message = &summary.message;
    if (message->seq == 0) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "it has no compaction to undo");
    }
    /* A pruned history cannot come back: without the summary, its beginning would be lost from the
     * view. */
    if (message->covers_to < row->first_seq) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "the messages that the compaction covers were removed; it cannot be "
                            "undone any more");
    }
    assert(message->mark == QUIPU_MARK_COMPACTION);
    /* Summaries are never deleted but by a prune or a cap, so that what is in range is there. */
    if (message->replaces >= row->first_seq) {
        patch.compact_seq = ent_set(message->replaces);
    }
    status = compact_patch(call, row, db, now, &patch, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, &changed,
                                   reterr);
    }
    assert(status != QUIPU_OK || changed == 1);
    return status;
}

/* Deletes what the newest summary covers; without a compaction there is nothing to delete, and
 * nothing is written. */
static quipu_status compact_prune_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    compact_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    qp_summary summary = {.view_from = 0};
    qp_session_patch patch = {0};
    quipu_status status = compact_load(call, db, scratch, now, &row, reterr);

    assert(ent_depth(db) > 0);
    call->removed = 0;
    if (status == QUIPU_OK) {
        status = qp_summary_read(db, row, scratch, &summary, reterr);
    }
    if (status != QUIPU_OK || summary.view_from == row->first_seq) {
        return status;
    }
    assert(summary.view_from > row->first_seq);
    /* A summary is stored behind the messages that it covers. A row that says otherwise is damaged:
     * a prune by it would delete messages that no summary covers, and the summary itself. */
    if (summary.view_from > row->compact_seq) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "the summary, message %lld, covers messages up to %lld; undo the "
                            "compaction",
                            (long long)row->compact_seq, (long long)summary.message.covers_to);
    }
    /* Summaries that are older than the border go with the rest; the newest one lies behind it. */
    call->removed = summary.view_from - row->first_seq;
    status = compact_patch(call, row, db, now, &patch, reterr);
    return status == QUIPU_OK
               ? qp_first_move(call->store, db, scratch, row, summary.view_from, &patch, reterr)
               : status;
}

/* ---- the calls --------------------------------------------------------------------------------
 */

/* The same for a remote store; the server does the purge. */
static quipu_status compact_ask(const quipu_store *store, compact_call *call, qp_work_fn work,
                                const qp_call *within, quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;

    assert(qp_store_is_remote(store));
    if (work == compact_work) {
        return remote->compact(remote->ctx, within, call->key, call->covers_to, call->text,
                               &call->seq, reterr);
    }
    return work == compact_prune_work
               ? remote->prune(remote->ctx, within, call->key, &call->removed, reterr)
               : remote->uncompact(remote->ctx, within, call->key, reterr);
}

/* The way that all three calls go. A prune makes the file smaller, so that the size cap does not
 * hold for it. */
static quipu_status compact_run(quipu_store *store, compact_call *call, qp_work_fn work,
                                const quipu_call_options *given, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter_as(call->name, store, given, &within, reterr);

    assert(work != compact_work || call->text.p != NULL);
    if (status == QUIPU_OK) {
        status = qp_key_check(call->key, reterr);
    }
    if (status == QUIPU_OK && call->text.p != NULL && call->text.n == 0) {
        status = qp_error_field(reterr, QUIPU_INVALID, "Message", "content", "notempty",
                                "the summary is empty");
    }
    if (status == QUIPU_OK && qp_store_is_remote(store)) {
        status = compact_ask(store, call, work, &within, reterr);
    } else if (status == QUIPU_OK) {
        within.session = call->key;
        within.family = work == compact_prune_work; /* only that one removes messages */
        status = work == compact_prune_work ? qp_size_exempt(store, &within, work, call, reterr)
                                            : qp_store_write(store, &within, work, call, reterr);
    }
    if (status == QUIPU_OK && work == compact_prune_work && !qp_store_is_remote(store)) {
        qp_purge_after(store, &within, QUIPU_DELETE_BATCHES);
    }
    qp_store_leave(&within);
    return status;
}

/* Either a compaction or an undo of one: options that mix the two are a mistake of the caller, who
 * must not lose a summary by it. */
static quipu_status compact_read_options(const quipu_compact_options *given,
                                         quipu_compact_options *ret_options, quipu_error *reterr)
{
    quipu_status status =
        qp_options_read(ret_options, sizeof(*ret_options), given, "quipu_compact_options", reterr);

    if (status == QUIPU_OK && given == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a compaction needs options: its summary and "
                              "the last message that it covers, or QUIPU_COMPACT_UNDO");
    }
    if (status == QUIPU_OK && (ret_options->flags & ~QUIPU_COMPACT_UNDO) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_COMPACT_*",
                              (unsigned)ret_options->flags);
    }
    if (status == QUIPU_OK && ret_options->flags != 0 &&
        (ret_options->summary.p != NULL || ret_options->covers_to != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "QUIPU_COMPACT_UNDO undoes the newest compaction: give it neither a "
                              "summary nor a message");
    }
    return status;
}

/* A summary that is NULL becomes an empty one, which compact_run() refuses: of the three calls only
 * this one has a text. */
quipu_status quipu_session_compact(quipu_store *store, quipu_str key,
                                   const quipu_compact_options *options,
                                   const quipu_call_options *call, int64_t *ret_seq,
                                   quipu_error *reterr)
{
    compact_call compact = {.name = __func__, .store = store, .key = key};
    quipu_compact_options given = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_status status = compact_read_options(options, &given, reterr);
    const bool is_undo = (given.flags & QUIPU_COMPACT_UNDO) != 0;

    if (status != QUIPU_OK) {
        return status;
    }
    if (!is_undo) {
        compact.covers_to = given.covers_to;
        compact.text = given.summary.p != NULL ? given.summary : QUIPU_STR("");
    }
    status = compact_run(store, &compact, is_undo ? compact_undo_work : compact_work, call, reterr);
    assert(status != QUIPU_OK || is_undo || compact.seq > compact.covers_to);
    assert(status != QUIPU_OK || !is_undo || compact.seq == 0);
    if (status == QUIPU_OK && ret_seq != NULL) {
        *ret_seq = compact.seq;
    }
    return qp_store_fail(status, is_undo ? "undo the compaction of" : "compact", key, reterr);
}

/* Cannot be undone. A session without a compaction is not changed, and 0 is returned. */
quipu_status quipu_session_prune(quipu_store *store, quipu_str key, const quipu_call_options *call,
                                 int64_t *ret_removed, quipu_error *reterr)
{
    compact_call compact = {.name = __func__, .store = store, .key = key};
    quipu_status status = compact_run(store, &compact, compact_prune_work, call, reterr);

    assert(status != QUIPU_OK || compact.removed >= 0);
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = compact.removed;
    }
    return qp_store_fail(status, "prune", key, reterr);
}
