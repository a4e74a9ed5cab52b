/* Appending: the session's row gives out numbers and revision, then the messages follow, all in one
 * transaction. Whatever refuses the append is decided by reads before the first write. */
#include <assert.h>

#include "base/error.h"
#include "store/feed.h"
#include "store/message.h"
#include "store/session.h"
#include "store/store.h"

typedef struct append_call {
    const quipu_store *store;
    quipu_str key;
    int64_t expected_revision;
    qp_batch batch;
    quipu_appended result;
} append_call;

/* Look one event id up: *ret_seq is 0 when the session does not have it. */
static quipu_status append_find(const append_call *call, size_t at, ent_db *db,
                                quipu_arena *scratch, int64_t session, int64_t *ret_seq,
                                quipu_error *reterr)
{
    const qp_message *row = NULL;
    bool equal = false;
    quipu_error error = {0}; /* not to find it is no failure */
    quipu_status status = qp_message_by_session_id_event_id(
        db, scratch, session, call->batch.rows[at].event_id, &row, &error);

    if (status == QUIPU_NOT_FOUND) {
        *ret_seq = 0;
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    status = qp_batch_equals(&call->batch, at, row, &equal);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "cannot compare with message %lld",
                            (long long)row->seq);
    }
    if (!equal) {
        return qp_error_field(reterr, QUIPU_EXISTS, "Message", "event_id", "unique",
                              "message %lld has the same event id and says something else; "
                              "give the new message an id of its own",
                              (long long)row->seq);
    }
    *ret_seq = row->seq;
    return QUIPU_OK;
}

/* Whether the batch is a repeat: *ret_seq is the number of its first message, 0 for a new batch. */
static quipu_status append_repeated(const append_call *call, ent_db *db, quipu_arena *scratch,
                                    int64_t session, int64_t *ret_seq, quipu_error *reterr)
{
    size_t found = 0;
    int64_t first = 0;

    for (size_t i = 0; i < call->batch.count; i++) {
        int64_t seq = 0;
        quipu_status status = QUIPU_OK;

        if (call->batch.named[i]) {
            status = append_find(call, i, db, scratch, session, &seq, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
        found += seq != 0;
        first = i == 0 ? seq : first;
    }
    if (found != 0 && found != call->batch.count) {
        return qp_error_field(reterr, QUIPU_EXISTS, "Message", "event_id", "unique",
                              "%zu of the %zu messages are there already; append the others alone",
                              found, call->batch.count);
    }
    *ret_seq = first;
    return QUIPU_OK;
}

static quipu_status append_refuse(const append_call *call, const qp_session *row,
                                  quipu_error *reterr)
{
    if (call->expected_revision >= 0 && call->expected_revision != row->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "its revision is %lld, not %lld: somebody else changed it first; "
                            "reload and try again",
                            (long long)row->revision, (long long)call->expected_revision);
    }
    if (row->next_seq > ENT_CLUSTER_SEQ_MAX - (int64_t)call->batch.count + 1) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a session holds at most %lld messages",
                            (long long)ENT_CLUSTER_SEQ_MAX);
    }
    return QUIPU_OK;
}

static quipu_status append_move(const append_call *call, ent_db *db, const qp_session *row,
                                quipu_time now, quipu_error *reterr)
{
    const qp_batch *batch = &call->batch;
    const int64_t count = (int64_t)batch->count;
    qp_session_patch patch = {
        .revision = ent_set(row->revision + 1),
        .next_seq = ent_set(row->next_seq + count),
        .message_count = ent_set(row->message_count + count),
        .token_count = ent_set(row->token_count + batch->tokens),
        .updated_at = ent_set(now),
        .last_event_at = ent_set(batch->rows[batch->count - 1].timestamp.v),
    };
    int64_t changed = 0;
    quipu_status status = qp_session_slide(row->ttl_ms, now, &patch, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, &changed,
                                   reterr);
    }
    assert(status != QUIPU_OK || changed == 1);
    return status;
}

static quipu_status append_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    append_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    int64_t repeated = 0;
    quipu_status status = qp_session_load(call->store, db, scratch, call->key, now, &row, reterr);

    call->result = (quipu_appended){0};
    if (status == QUIPU_OK) {
        status = append_repeated(call, db, scratch, row->id, &repeated, reterr);
    }
    if (status == QUIPU_OK && repeated != 0) {
        call->result = (quipu_appended){repeated, row->revision, true};
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = append_refuse(call, row, reterr);
    }
    if (status == QUIPU_OK) {
        qp_batch_place(&call->batch, row->id, row->next_seq, row->token_count, now);
        status = qp_batch_insert(&call->batch, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = append_move(call, db, row, now, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_feed_tell(call->store, db, QUIPU_EVENT_APPENDED, row, row->revision + 1,
                         row->next_seq, row->next_seq + (int64_t)call->batch.count - 1, reterr);
    }
    if (status == QUIPU_OK) {
        call->result = (quipu_appended){row->next_seq, row->revision + 1, false};
    }
    return status;
}

/* NOLINTNEXTLINE(readability-function-size): options and call may both be NULL, and are apart */
quipu_status quipu_message_append(quipu_store *store, quipu_str key, const quipu_message *messages,
                                  size_t count, const quipu_append_options *options,
                                  const quipu_call *call, quipu_appended *ret_appended,
                                  quipu_error *reterr)
{
    append_call append = {.store = store, .key = key};
    quipu_append_options opt = QUIPU_APPEND_OPTIONS_INIT;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&opt, sizeof(opt), options, "quipu_append_options", reterr);
    }
    if (status == QUIPU_OK && (count == 0 || opt.flags != 0 || opt.expected_revision < -1)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "append needs at least one message, flags 0 and an expected revision "
                              "of -1 or more");
    }
    if (status == QUIPU_OK) {
        append.expected_revision = opt.expected_revision;
        status = qp_batch_encode(&append.batch, messages, count, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, append_work, &append, reterr);
    }
    if (status == QUIPU_OK && ret_appended != NULL) {
        *ret_appended = append.result;
    }
    qp_batch_free(&append.batch);
    return qp_store_fail(status, "append to", key, reterr);
}
