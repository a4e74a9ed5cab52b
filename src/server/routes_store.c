/* Routes for whole sessions and for the store: compaction, the feed, figures.
 *
 * Owns: nothing after a call. Called by: workers, by the table of routes. Locks: none.
 * Transactions: each handler makes one call of the library that is one transaction; where the
 * identity has a scope, a read before it checks whose session it is. The feed and the figures are
 * of all sessions: their routes need a token of the whole store. */
#include <quipu/maintain.h>

#include "base/error.h"
#include "server/route.h"
#include "server/session_json.h"

/* ---- compaction ------------------------------------------------------------------------------ */

/* {"coversTo": 7, "summary": "..."}
 * The client wrote the summary, or its model: this server calls none. A number below 0 is left to
 * the check at the end. */
static quipu_status store_read_compaction(qp_call *call, qp_json_node body, int64_t *ret_covers,
                                          quipu_str *ret_summary, quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(body);
    quipu_status status = QUIPU_OK;

    /* No message has this number: it shows that the member was missing. */
    *ret_covers = -1;
    while (status == QUIPU_OK && qp_json_next(&each)) {
        if (qp_json_text_is(each.key, QUIPU_STR("coversTo"))) {
            status = qp_body_number("coversTo", each.value, ret_covers, reterr);
        } else if (qp_json_text_is(each.key, QUIPU_STR("summary"))) {
            status = qp_body_text("summary", each.value, &call->arena, ret_summary, reterr);
        } else {
            status = qp_body_unknown(reterr);
        }
    }
    if (status == QUIPU_OK && (*ret_covers < 0 || ret_summary->p == NULL)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "coversTo, the last message that is covered, and summary are "
                              "required");
    }
    return status;
}

/* An object with one number.
 * Shows no text, so that tokens which only write may have it. */
static quipu_status store_answer_number(qp_call *call, int status, const char *name, int64_t value,
                                        quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_put_i64(&writer, name, value);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, status, &writer, reterr);
}

/* The summary is a message of the session: a token that may append may also compact. 201 with the
 * number of the summary's message. Sent twice, it is refused or makes a second summary: the library
 * decides by what the view has. */
quipu_status qp_route_session_compact(qp_call *call, quipu_error *reterr)
{
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;
    int64_t seq = 0;
    qp_json_doc doc;
    quipu_status status = qp_body_parse(call, &doc, reterr);

    if (status == QUIPU_OK) {
        status = store_read_compaction(call, qp_json_root(&doc), &options.covers_to,
                                       &options.summary, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_compact(call->store, call->key, &options, &call->limits, &seq, reterr);
    }
    qp_json_free(&doc);
    return status == QUIPU_OK ? store_answer_number(call, 201, "seq", seq, reterr) : status;
}

/* The summary stays among the messages, outside of the view.
 * 204; without a compaction the library's error. */
quipu_status qp_route_session_uncompact(qp_call *call, quipu_error *reterr)
{
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_status status = qp_call_check_session(call, reterr);

    options.flags = QUIPU_COMPACT_UNDO;
    if (status == QUIPU_OK) {
        status =
            quipu_session_compact(call->store, call->key, &options, &call->limits, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        call->answer.status = 204;
    }
    return status;
}

/* Removes for good what the newest compaction covers; what forks share stays for them.
 * 200 with the number of messages that were removed. A second one finds nothing left. */
quipu_status qp_route_session_prune(qp_call *call, quipu_error *reterr)
{
    int64_t removed = 0;
    quipu_status status = qp_call_check_session(call, reterr);

    if (status == QUIPU_OK) {
        status = quipu_session_prune(call->store, call->key, &call->limits, &removed, reterr);
    }
    return status == QUIPU_OK ? store_answer_number(call, 200, "removed", removed, reterr) : status;
}

/* ---- feed ------------------------------------------------------------------------------------ */

/* No text of a conversation: a reader of the feed learns which session to look at.
 * The uid separates two lives of a key: a reader that sees a new one forgets what it has. */
static void store_put_change(qp_jsonw *writer, const quipu_change *change)
{
    static const char *const kinds[] = {"",        "created", "appended",
                                        "updated", "deleted", "forked"}; /* by their enum */
    char uid[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(change->uid, uid);
    qp_jsonw_object(writer);
    qp_jsonw_put(writer, "kind", kinds[change->kind]);
    qp_jsonw_put_text(writer, "key", change->key);
    qp_jsonw_put(writer, "uid", uid);
    qp_jsonw_put_time(writer, "at", change->at);
    qp_jsonw_put_i64(writer, "revision", change->revision);
    qp_jsonw_put_i64(writer, "firstSeq", change->first_seq);
    qp_jsonw_put_i64(writer, "lastSeq", change->last_seq);
    qp_jsonw_object_end(writer);
}

/* One page, without waiting: a worker that waits would be taken from everybody else.
 * A client that is at the end asks again after a while, or waits with a tail. */
quipu_status qp_route_feed(qp_call *call, quipu_error *reterr)
{
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;
    quipu_status status;
    qp_jsonw writer;

    options.after = qp_call_text(call, "after");
    options.limit = qp_call_number(call, "limit", 0);
    /* For a reader that wants no past: it starts with the cursor of this moment. */
    options.flags = qp_call_flag(call, "fromNow") ? QUIPU_FEED_FROM_NOW : 0;
    status = quipu_feed_read(call->store, &options, &call->limits, &page, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("changes"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < page->changes.count; i++) {
        store_put_change(&writer, quipu_change_at(page->changes, i));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_put_text(&writer, "next", page->next);
    qp_jsonw_object_end(&writer);
    quipu_free(page);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Figures that `quipu stats --json` prints have the same names here; those of the process, such as
 * commits, are here only.
 * Without `quick` every session's row may be read: the figures are for people, not for a monitor,
 * which asks /metrics. */
quipu_status qp_route_stats(qp_call *call, quipu_error *reterr)
{
    static const char *const checksums[] = {"off", "on", "stale"}; /* by quipu_checksums */
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_status status;
    qp_jsonw writer;

    options.flags = qp_call_flag(call, "quick") ? QUIPU_STATS_QUICK : 0;
    status = quipu_store_stats(call->store, &options, &call->limits, &stats, reterr);

    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        {"sessions", stats.sessions},
        {"forks", stats.forks},
        {"messages", stats.messages},
        {"tokens", stats.tokens},
        {"fileBytes", stats.file_bytes},
        {"logBytes", stats.log_bytes},
        {"freeBytes", stats.free_bytes},
        {"unindexed", stats.unindexed},
        {"expired", stats.expired},
        {"disks", stats.durability_level},
        {"artifacts", stats.artifacts},
        {"artifactBytes", stats.artifact_bytes},
        {"commits", stats.commits},
        {"writes", stats.writes},
        {"largestCommit", stats.largest_commit},
        {"largestMessages", stats.largest_messages},
        {"readers", stats.readers},
        {"syncs", stats.syncs},
        {"jobsPending", stats.jobs_pending},
        {"jobsLeased", stats.jobs_leased},
        {"jobsFailed", stats.jobs_failed},
    };

    if (status != QUIPU_OK) {
        return status;
    }
    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        qp_jsonw_key(&writer, quipu_cstr(figures[i].name));
        qp_jsonw_i64(&writer, figures[i].value);
    }
    qp_jsonw_key(&writer, QUIPU_STR("commitSizes"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < QUIPU_COMMIT_SIZES; i++) {
        qp_jsonw_i64(&writer, stats.commit_sizes[i]);
    }
    qp_jsonw_array_end(&writer);
    /* Which engine is behind the store; nothing of its address. */
    qp_jsonw_put(&writer, "engine", stats.engine);
    qp_jsonw_put(&writer, "largestKey", stats.largest_key);
    qp_jsonw_put(&writer, "checksums", checksums[stats.checksums]);
    qp_jsonw_put(&writer, "version", quipu_version());
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
