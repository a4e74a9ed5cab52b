/* Reading: the session's row, then its messages by number. A session's messages lie in segments of
 * consecutive numbers, each in one session's cluster, so that a read is a few range scans. */
#include "store/read.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "store/message.h"

#define READ_FLAGS (QUIPU_RANGE_HEADER | QUIPU_RANGE_LAST)
#define READ_SEGMENTS_MAX 1

/* Messages `from` to `to` of the session lie in the cluster of the session number `session`. */
typedef struct read_segment {
    int64_t session;
    int64_t from;
    int64_t to;
} read_segment;

qp_history *qp_history_new(void)
{
    return qp_calloc(1, sizeof(qp_history));
}

void quipu_history_free(quipu_history *history)
{
    qp_history *self = (qp_history *)history;

    if (self != NULL) {
        quipu_arena_free(&self->arena);
        qp_free(self);
    }
}

quipu_session_info qp_session_info(const qp_session *row)
{
    return (quipu_session_info){.key = row->key,
                                .uid = row->uid,
                                .agent_id = row->agent_id,
                                .channel_type = row->channel_type,
                                .channel_id = row->channel_id,
                                .model = row->model,
                                .metadata = row->metadata,
                                .app_name = row->app_name,
                                .user_id = row->user_id,
                                .session_id = row->session_id,
                                .created_at = row->created_at,
                                .updated_at = row->updated_at,
                                .has_expiry = row->expires_at.has,
                                .expires_at = row->expires_at.v,
                                .revision = row->revision,
                                .first_seq = row->first_seq,
                                .next_seq = row->next_seq,
                                .message_count = row->message_count,
                                .token_count = row->token_count};
}

/* ---- which messages ---------------------------------------------------------------------------
 */

/* The numbers that a range means: *ret_from > *ret_to when there is none. */
static void read_bounds(const qp_session *row, const quipu_range *range, int64_t *ret_from,
                        int64_t *ret_to)
{
    int64_t from = row->first_seq;
    int64_t to = row->next_seq - 1;

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
    *ret_from = from;
    *ret_to = to;
}

/* Where the messages lie; gives the number of segments. */
static size_t read_resolve(const qp_session *row, int64_t from, int64_t to,
                           read_segment ret[READ_SEGMENTS_MAX])
{
    if (from > to) {
        return 0;
    }
    ret[0] = (read_segment){row->id, from, to};
    return 1;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static quipu_status read_segment_into(ent_db *db, const read_segment *segment, qp_json_doc *doc,
                                      quipu_arena *arena, quipu_message *messages,
                                      quipu_error *reterr)
{
    const qp_message_query query = {.order = {QP_MESSAGE_BY_SEQ(ASC)},
                                    .where = {.session_id = ent_eq(segment->session),
                                              .seq = ent_between(segment->from, segment->to)}};
    int64_t seq = segment->from;
    qp_message_iter iter;
    qp_message row;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_message_iter_next(&iter, &row)) {
        if (row.seq != seq) {
            break;
        }
        status = qp_message_decode(&row, doc, arena, &messages[seq - segment->from], reterr);
        seq++;
    }
    quipu_status ended = qp_message_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK && seq != segment->to + 1) {
        status = qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is missing; restore a backup",
                              (long long)seq);
    }
    return status;
}

static quipu_status read_messages(ent_db *db, const qp_session *row, int64_t from, int64_t to,
                                  qp_history *history, quipu_error *reterr)
{
    read_segment segments[READ_SEGMENTS_MAX];
    size_t count = read_resolve(row, from, to, segments);
    quipu_status status = QUIPU_OK;
    quipu_message *messages;
    qp_json_doc doc;

    if (count == 0) {
        return QUIPU_OK;
    }
    /* The numbers have no gaps: how many come is known before the first one. */
    size_t n = (size_t)(to - from + 1);
    messages = qp_arena_take(&history->arena, n * sizeof(*messages));
    if (messages == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu messages", n);
    }
    qp_json_init(&doc);
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = read_segment_into(db, &segments[i], &doc, &history->arena,
                                   messages + (segments[i].from - from), reterr);
    }
    qp_json_free(&doc);
    if (status == QUIPU_OK) {
        history->pub.messages = messages;
        history->pub.message_count = n;
    }
    return status;
}

quipu_status qp_history_read(const quipu_store *store, ent_db *db, quipu_str key,
                             const quipu_range *range, quipu_time now, qp_history *history,
                             quipu_error *reterr)
{
    const qp_session *row = NULL;
    int64_t from = 0;
    int64_t to = 0;
    quipu_status status;

    quipu_arena_free(&history->arena);
    history->pub = (quipu_history){0};
    status = qp_session_load(store, db, &history->arena, key, now, &row, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    history->pub.session = qp_session_info(row);
    if ((range->flags & QUIPU_RANGE_HEADER) != 0) {
        history->pub.more_before = history->pub.more_after = row->next_seq > row->first_seq;
        return QUIPU_OK;
    }
    read_bounds(row, range, &from, &to);
    history->pub.more_before = from > row->first_seq;
    history->pub.more_after = to < row->next_seq - 1;
    return read_messages(db, row, from, to, history, reterr);
}

/* ---- the call ---------------------------------------------------------------------------------
 */

typedef struct read_get {
    const quipu_store *store;
    quipu_str key;
    quipu_range range;
    qp_history *history;
} read_get;

static quipu_status read_get_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    read_get *get = ctx;

    (void)scratch;
    return qp_history_read(get->store, db, get->key, &get->range, quipu_time_now(), get->history,
                           reterr);
}

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

quipu_status quipu_session_get(quipu_store *store, quipu_str key, const quipu_range *range,
                               const quipu_call *call, quipu_history **ret_history,
                               quipu_error *reterr)
{
    read_get get = {.store = store, .key = key, .range = QUIPU_RANGE_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (ret_history == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "get needs a place for the history");
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
                     ? qp_store_read(store, &within, read_get_work, &get, reterr)
                     : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a history");
    }
    if (status == QUIPU_OK) {
        *ret_history = &get.history->pub;
    } else if (get.history != NULL) {
        quipu_history_free(&get.history->pub);
    }
    return qp_store_fail(status, "read", key, reterr);
}
