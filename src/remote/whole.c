/* Calls for whole sessions and for the store, at a server (store/remote.h): compaction, the feed,
 * figures.
 *
 * Owns: nothing; results go to the caller's arena. Called by: the store's table, from any thread.
 * Locks: none. No request here is sent twice: a second summary would cover the first one, a second
 * undoing another compaction, and a second prune would answer that it removed nothing. UNKNOWN of a
 * compaction: the view shows whether the summary is there. A prune may be repeated by the caller:
 * what is gone is gone. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "remote/remote.h"

#define SESSIONS QUIPU_STR("sessions")

/* ---- compaction ------------------------------------------------------------------------------ */

/* UTF-8, with NUL too: a message may have what a column cannot hold. The parts between NULs are
 * checked one by one. The server gets such a text as JSON, where a NUL is \u0000. */
static bool compact_is_text(quipu_str text)
{
    while (text.n > 0) {
        const char *nul = memchr(text.p, '\0', text.n);
        const size_t n = nul != NULL ? (size_t)(nul - text.p) : text.n;

        if (qp_text_check((quipu_str){text.p, n}, NULL) != QP_TEXT_OK) {
            return false;
        }
        text = nul != NULL ? (quipu_str){nul + 1, text.n - n - 1} : (quipu_str){text.p, 0};
    }
    return true;
}

/* Checked before it is sent: a summary that is not UTF-8 cannot be written as JSON, and would come
 * back as an error of the writer instead of the field's. 201 with the number of the summary; an
 * unreadable number is UNKNOWN, for the summary is stored.
 * */
quipu_status qp_remote_compact(void *ctx, const qp_call *call, quipu_str key, int64_t covers_to,
                               quipu_str summary, int64_t *ret_seq, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key, QUIPU_STR("compact")};
    qp_remote_ask ask;
    qp_jsonw writer;
    quipu_status status;

    assert(summary.n > 0);
    if (!compact_is_text(summary) || covers_to < 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "the summary is no UTF-8, or covers nothing");
    }
    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    qp_jsonw_begin(&writer, &ask.body);
    qp_jsonw_object(&writer);
    qp_jsonw_put_i64(&writer, "coversTo", covers_to);
    qp_jsonw_put_text(&writer, "summary", summary);
    qp_jsonw_object_end(&writer);
    status = qp_remote_send(&ask, &writer, QUIPU_OK, reterr);
    if (status == QUIPU_OK && qp_json_int64(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("seq")),
                                            ret_seq) != QP_JSON_EXACT) {
        status = qp_remote_unread(&ask, reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* The answer has the outcome only: a caller that wants the view reads it. 204 has no body. */
quipu_status qp_remote_uncompact(void *ctx, const qp_call *call, quipu_str key, quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key, QUIPU_STR("compact")};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "DELETE", segments, 3);
    ask.writes = true;
    status = qp_remote_run(&ask, reterr);
    qp_remote_end(&ask);
    return status;
}

/* A repeat after a lost answer reports what was left to remove: nothing.
 * Messages that were removed are gone for good, whether the answer arrives or not. */
quipu_status qp_remote_prune(void *ctx, const qp_call *call, quipu_str key, int64_t *ret_removed,
                             quipu_error *reterr)
{
    const quipu_str segments[] = {SESSIONS, key, QUIPU_STR("prune")};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "POST", segments, 3);
    ask.writes = true;
    status = qp_remote_run(&ask, reterr);
    if (status == QUIPU_OK) {
        *ret_removed = qp_answer_number(qp_json_root(&ask.doc), "removed");
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- feed ------------------------------------------------------------------------------------ */

/* A change of a kind that this version does not know refuses the page, rather than a reader that
 * misses a deletion.
 * The uid must be one: by it a reader distinguishes two lives of a key. */
static bool feed_take(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    static const char *const kinds[] = {"",        "created", "appended",
                                        "updated", "deleted", "forked"}; /* by their enum */
    quipu_change *change = item;
    bool good = true;
    const quipu_str kind = qp_answer_text(row, "kind", arena, &good);
    const quipu_str uid = qp_answer_text(row, "uid", arena, &good);

    (void)ctx;
    *change = (quipu_change){.key = qp_answer_text(row, "key", arena, &good),
                             .at = qp_answer_time(row, "at", arena, &good),
                             .revision = qp_answer_number(row, "revision"),
                             .first_seq = qp_answer_number(row, "firstSeq"),
                             .last_seq = qp_answer_number(row, "lastSeq")};
    for (int i = QUIPU_CHANGE_CREATED; i <= QUIPU_CHANGE_FORKED; i++) {
        if (quipu_str_eq(kind, quipu_cstr(kinds[i]))) {
            change->kind = (quipu_change_kind)i;
        }
    }
    return good && (int)change->kind != 0 && quipu_uuid_parse(uid, &change->uid) == QUIPU_OK;
}

/* One page, without waiting: the caller asks again (src/store/feed.c).
 * A page without a cursor is malformed: its reader could not go on. */
quipu_status qp_remote_feed(void *ctx, const qp_call *call, const quipu_feed_options *options,
                            quipu_arena *arena, quipu_feed_page *ret_page, quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_change), feed_take};
    const quipu_str segments[] = {QUIPU_STR("feed")};
    quipu_change *changes;
    qp_remote_ask ask;
    quipu_status status;
    bool good = true;
    size_t count = 0;

    assert(options->limit > 0);
    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_text(&ask, "after", options->after);
    qp_remote_number(&ask, "limit", options->limit);
    qp_remote_flag(&ask, "fromNow", (options->flags & QUIPU_FEED_FROM_NOW) != 0);
    status = qp_remote_run(&ask, reterr);
    changes = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("changes")), &kind, NULL,
                             arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        *ret_page =
            (quipu_feed_page){.changes = quipu_changes_of(changes, count),
                              .next = qp_answer_text(qp_json_root(&ask.doc), "next", arena, &good)};
        status = good && ret_page->next.p != NULL ? QUIPU_OK : qp_remote_malformed(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* A text of an answer into an array of the struct, cut where it is longer.
 * Cut at a whole character; absent is the empty text. */
static void stats_take_text(qp_json_node root, const char *name, char *to, size_t size)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    bool good = true;
    const quipu_str text = qp_answer_text(root, name, &arena, &good);
    const size_t n = qp_utf8_cut(text, size - 1);

    if (n > 0) {
        memcpy(to, text.p, n);
    }
    to[n] = '\0';
    quipu_arena_free(&arena);
}

/* By the names of the route, which are those of `quipu stats --json`. A figure that an older server
 * lacks stays 0.
 * An unknown word for checksums leaves the default. */
static void stats_take(qp_json_node root, quipu_stats *stats)
{
    static const struct {
        const char *name;
        size_t offset;
    } figures[] = {
        /* A row is the member's name and its place in the struct. */
        {"sessions", offsetof(quipu_stats, sessions)},
        {"forks", offsetof(quipu_stats, forks)},
        {"messages", offsetof(quipu_stats, messages)},
        {"tokens", offsetof(quipu_stats, tokens)},
        {"fileBytes", offsetof(quipu_stats, file_bytes)},
        {"logBytes", offsetof(quipu_stats, log_bytes)},
        {"freeBytes", offsetof(quipu_stats, free_bytes)},
        {"unindexed", offsetof(quipu_stats, unindexed)},
        {"expired", offsetof(quipu_stats, expired)},
        {"disks", offsetof(quipu_stats, durability_level)},
        {"artifacts", offsetof(quipu_stats, artifacts)},
        {"artifactBytes", offsetof(quipu_stats, artifact_bytes)},
        {"commits", offsetof(quipu_stats, commits)},
        {"writes", offsetof(quipu_stats, writes)},
        {"largestCommit", offsetof(quipu_stats, largest_commit)},
        {"largestMessages", offsetof(quipu_stats, largest_messages)},
        {"readers", offsetof(quipu_stats, readers)},
        {"syncs", offsetof(quipu_stats, syncs)},
        {"jobsPending", offsetof(quipu_stats, jobs_pending)},
        {"jobsLeased", offsetof(quipu_stats, jobs_leased)},
        {"jobsFailed", offsetof(quipu_stats, jobs_failed)},
    };
    static const char *const checksums[] = {"off", "on", "stale"}; /* by quipu_checksums */
    const qp_json_node state = qp_json_get(root, QUIPU_STR("checksums"));
    qp_json_iter each = qp_json_each(qp_json_get(root, QUIPU_STR("commitSizes")));

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        *(int64_t *)((char *)stats + figures[i].offset) = qp_answer_number(root, figures[i].name);
    }
    for (size_t i = 0; i < QUIPU_COMMIT_SIZES && qp_json_next(&each); i++) {
        (void)qp_json_int64(each.value, &stats->commit_sizes[i]);
    }
    for (size_t i = 0; i < sizeof(checksums) / sizeof(checksums[0]); i++) {
        if (qp_json_kind_of(state) == QP_JSON_STRING &&
            qp_json_text_is(state, quipu_cstr(checksums[i]))) {
            stats->checksums = (quipu_checksums)i;
        }
    }
    stats_take_text(root, "engine", stats->engine, sizeof(stats->engine));
    stats_take_text(root, "largestKey", stats->largest_key, sizeof(stats->largest_key));
}

/* Figures of the server's store and process: commits and readers are those of the server.
 * Needs a token of the whole store at the server. */
quipu_status qp_remote_stats(void *ctx, const qp_call *call, bool is_quick, quipu_stats *ret_stats,
                             quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("stats")};
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_flag(&ask, "quick", is_quick);
    status = qp_remote_run(&ask, reterr);
    if (status == QUIPU_OK) {
        stats_take(qp_json_root(&ask.doc), ret_stats);
    }
    qp_remote_end(&ask);
    return status;
}
