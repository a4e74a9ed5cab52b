/* Appending: the session's row gives out numbers and revision, then the messages follow, all in one
 * transaction. Whatever refuses the append is decided by reads before the first write. */
#include "store/append.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "base/uuid.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/fork_chain.h"
#include "store/search.h"
#include "store/session.h"
#include "store/state_internal.h"

typedef struct append_call {
    quipu_store *store;
    quipu_str key;
    int64_t expected_revision;
    qp_batch batch;       /* empty: only state changes */
    qp_append_also *also; /* or NULL */
    bool carries;         /* it may go on with the store's run */
    quipu_appended result;
    bool again;     /* the work has run before, and may have been stored then */
    quipu_uuid uid; /* of a session that the append creates */
} append_call;

/* Look one event id up in one cluster: *ret_seq is 0 when it is not there, or not among the numbers
 * `from` to `to`. */
static quipu_status append_find(const append_call *call, size_t at, ent_db *db,
                                quipu_arena *scratch, const qp_segment *where, int64_t *ret_seq,
                                quipu_error *reterr)
{
    const qp_message *row = NULL;
    bool equal = false;
    quipu_error error = {0}; /* not to find it is no failure */
    quipu_status status = qp_message_by_session_id_event_id(
        db, scratch, where->session, call->batch.rows[at].event_id, &row, &error);

    if (status == QUIPU_NOT_FOUND ||
        (status == QUIPU_OK && (row->seq < where->from || row->seq > where->to))) {
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

/* Where an event id may stand: everywhere in the session's own cluster, because the index there
 * knows no number, and in the past that a fork inherited. */
static quipu_status append_places(ent_db *db, const qp_session *row, qp_chain *ret_chain,
                                  quipu_error *reterr)
{
    quipu_status status =
        qp_chain_resolve(db, row, row->first_seq, qp_session_base(row), ret_chain, reterr);

    if (status == QUIPU_OK) {
        assert(ret_chain->count < QP_CHAIN_MAX);
        ret_chain->segments[ret_chain->count++] = (qp_segment){row->id, 1, ENT_CLUSTER_SEQ_MAX};
    }
    return status;
}

/* Look one event id up in all places. */
static quipu_status append_search(const append_call *call, size_t at, ent_db *db,
                                  quipu_arena *scratch, const qp_chain *places, int64_t *ret_seq,
                                  quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    *ret_seq = 0;
    for (size_t i = places->count; i > 0 && *ret_seq == 0 && status == QUIPU_OK; i--) {
        status = append_find(call, at, db, scratch, &places->segments[i - 1], ret_seq, reterr);
    }
    return status;
}

/* Whether the batch is a repeat: *ret_seq is the number of its first message, 0 for a new batch. */
static quipu_status append_repeated(const append_call *call, ent_db *db, quipu_arena *scratch,
                                    const qp_session *row, int64_t *ret_seq, quipu_error *reterr)
{
    qp_chain places;
    size_t found = 0;
    size_t unnamed = 0;
    int64_t first = 0;

    places.count = 0;
    for (size_t i = 0; i < call->batch.count; i++) {
        const bool named = call->batch.named[i] || call->again;
        int64_t seq = 0;
        quipu_status status = QUIPU_OK;

        if (named && places.count == 0) {
            status = append_places(db, row, &places, reterr);
        }
        if (named && status == QUIPU_OK) {
            status = append_search(call, i, db, scratch, &places, &seq, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
        found += seq != 0;
        unnamed += !call->batch.named[i]; /* by the caller */
        first = i == 0 ? seq : first;
    }
    if (found != 0 && found != call->batch.count) {
        return qp_error_field(
            reterr, QUIPU_EXISTS, "Message", "event_id", "unique",
            "%zu of the %zu messages are there already; %s", found, call->batch.count,
            unnamed > 0 ? "whether those without an event id are, only the history "
                          "tells: read it, and give every message of a batch an id"
                        : "the others are new, or were capped or pruned: append only "
                          "those that are new");
    }
    *ret_seq = first;
    return QUIPU_OK;
}

static quipu_status append_refuse(const append_call *call, const qp_session *row,
                                  quipu_error *reterr)
{
    if (call->also != NULL) {
        call->also->revision = row->revision;
    }
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

/* Place and insert the batch, and say how the session's row moves. */
static quipu_status append_rows(const quipu_store *store, ent_db *db, const qp_session *row,
                                qp_batch *batch, quipu_time now, qp_session_patch *ret_patch,
                                quipu_error *reterr)
{
    const int64_t count = (int64_t)batch->count;

    qp_batch_place(batch, row->id, row->next_seq, row->token_count, now);
    qp_session_patch patch = {
        .revision = ent_set(row->revision + 1),
        .next_seq = ent_set(row->next_seq + count),
        .message_count = ent_set(row->message_count + count),
        .token_count = ent_set(row->token_count + batch->tokens),
        .turn_seq = ent_set(qp_batch_turn(batch, row->turn_seq)),
        .updated_at = ent_set(now),
        .last_event_at = ent_set(batch->rows[batch->count - 1].timestamp.v),
    };
    if (batch->summary) {
        patch.compact_seq = ent_set(row->next_seq);
    }
    quipu_status status = qp_batch_insert(batch, db, reterr);
    if (status == QUIPU_OK) {
        status = qp_search_follow(store, db, row, row->next_seq + count, &patch, reterr);
    }
    if (status == QUIPU_OK) {
        qp_session_slide(row->ttl_ms, now, &patch);
        status = qp_feed_tell(store, db, row,
                              &(qp_feed_note){QUIPU_CHANGE_APPENDED, row->revision + 1,
                                              row->next_seq, row->next_seq + count - 1},
                              reterr);
    }
    if (status == QUIPU_OK) {
        *ret_patch = patch;
    }
    return status;
}

quipu_status qp_append_write(quipu_store *store, ent_db *db, quipu_arena *scratch,
                             const qp_session *row, qp_batch *batch, quipu_time now,
                             quipu_error *reterr)
{
    qp_session after = *row; /* the row as it will be */
    qp_session_patch patch = {.revision = ent_set(row->revision)};
    quipu_status status = append_rows(store, db, row, batch, now, &patch, reterr);

    if (status == QUIPU_OK) {
        status = qp_append_run_write(&store->run, db, row, &patch, reterr);
    }
    if (status == QUIPU_OK) {
        qp_append_patch_apply(&patch, &after);
        status = qp_cap_hold(store, db, scratch, &after, reterr);
    }
    return status;
}

/* The same for one of a run, whose row is written after the last of it. */
static quipu_status append_move(const append_call *call, ent_db *db, const qp_session *row,
                                qp_batch *batch, quipu_time now, quipu_error *reterr)
{
    qp_session_patch patch = {.revision = ent_set(row->revision)};
    quipu_status status = append_rows(call->store, db, row, batch, now, &patch, reterr);

    if (status == QUIPU_OK) {
        qp_append_run_move(&call->store->run, &patch);
    }
    return status;
}

bool qp_append_goes_on(const void *run, const void *work_ctx)
{
    const append_call *call = work_ctx;

    return qp_append_run_goes_on(run, call->key);
}

/* An append without messages: the session moves, and its id is remembered. */
static quipu_status append_only_state(const append_call *call, ent_db *db, const qp_session *row,
                                      quipu_time now, quipu_error *reterr)
{
    const qp_append_also *also = call->also;
    qp_session_patch patch = {.revision = ent_set(row->revision + 1),
                              .updated_at = ent_set(now),
                              .last_event_at = ent_set(also->time)};
    quipu_status status;

    qp_session_slide(row->ttl_ms, now, &patch);
    status = qp_append_run_write(&call->store->run, db, row, &patch, reterr);
    if (status == QUIPU_OK) {
        status =
            qp_state_event_add(db, row, row->revision + 1, also->event_id, also->changes, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_feed_tell(call->store, db, row,
                         &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
    }
    return status;
}

/* Whether all of it is there already: then the result is set. */
static quipu_status append_settled(append_call *call, ent_db *db, quipu_arena *scratch,
                                   const qp_session *row, bool *ret_settled, quipu_error *reterr)
{
    int64_t seq = 0;
    quipu_status status;

    if (call->also != NULL && call->also->has_uid &&
        memcmp(call->also->uid.b, row->uid.b, sizeof(row->uid.b)) != 0) {
        call->also->revision = row->revision;
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "it was deleted and made anew since it was read; reload it");
    }
    if (call->batch.count == 0) {
        assert(call->also != NULL);
        status = qp_state_event_known(db, scratch, row, call->also->event_id, call->also->changes,
                                      ret_settled, reterr);
    } else {
        /* Whoever only believes what the row is like has not waited for others, and does not ask
         * either: a taken id breaks the rule of the index. Of a fork's past there is no index. */
        status = call->store->run.believing && !row->fork_seq.has
                     ? QUIPU_OK
                     : append_repeated(call, db, scratch, row, &seq, reterr);
        *ret_settled = seq != 0;
        call->again = true;
    }
    if (status == QUIPU_OK && *ret_settled) {
        call->result =
            (quipu_appended){.repeated = true, .first_seq = seq, .revision = row->revision};
    }
    return status;
}

static quipu_status append_row(const append_call *call, ent_db *db, quipu_arena *scratch,
                               quipu_time now, const qp_session **ret_row, quipu_error *reterr)
{
    quipu_status status;

    if (!call->carries) {
        return qp_session_load_locked(call->store, db, scratch, call->key, now, ret_row, reterr);
    }
    status = qp_append_run_row(call->store, &call->store->run, db, call->key, ret_row, reterr);
    return status == QUIPU_OK ? qp_session_living(*ret_row, now, reterr) : status;
}

/* Write the batch and move the session. */
static quipu_status append_write(append_call *call, ent_db *db, quipu_arena *scratch,
                                 const qp_session *row, quipu_time now, quipu_error *reterr)
{
    if (call->batch.count == 0) {
        return append_only_state(call, db, row, now, reterr);
    }
    return call->carries
               ? append_move(call, db, row, &call->batch, now, reterr)
               : qp_append_write(call->store, db, scratch, row, &call->batch, now, reterr);
}

static quipu_status append_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    append_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    quipu_appended result;
    bool settled = false;
    quipu_status status = append_row(call, db, scratch, now, &row, reterr);

    call->result = (quipu_appended)QUIPU_APPENDED_INIT;
    if (status == QUIPU_OK) {
        status = append_settled(call, db, scratch, row, &settled, reterr);
    }
    if (status != QUIPU_OK || settled) {
        return status;
    }
    /* Before the row moves: that of a run does so in place. */
    result = (quipu_appended){.first_seq = call->batch.count > 0 ? row->next_seq : 0,
                              .revision = row->revision + 1};
    status = append_refuse(call, row, reterr);
    if (status == QUIPU_OK) {
        status = append_write(call, db, scratch, row, now, reterr);
    }
    if (status == QUIPU_OK && call->also != NULL) {
        status = qp_state_apply(call->store, db, row, call->also->changes, now, reterr);
    }
    if (status == QUIPU_OK) {
        call->result = result;
    }
    return status;
}

/* The session, when an append with these changes concerns it alone. The feed numbers its events; a
 * cap looks at forks, whose own caps look back; and state of a user or an app is that of many. */
static quipu_str append_session(const quipu_store *store, quipu_str key, qp_state_items changes)
{
    bool alone = store->feed || store->cap_messages > 0 || store->cap_tokens > 0;

    for (size_t i = 0; i < changes.count && !alone; i++) {
        alone = changes.items[i].scope != QP_SCOPE_SESSION;
    }
    return alone ? (quipu_str){NULL, 0} : key;
}

quipu_status qp_append_also_state(quipu_store *store, quipu_str key, quipu_messages messages,
                                  qp_append_also *also, const quipu_call_options *call,
                                  quipu_appended *ret_appended, quipu_error *reterr)
{
    append_call append = {
        .store = store, .key = key, .expected_revision = also->expected_revision, .also = also};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_state_check(also->changes, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK && messages.count == 0 &&
        (also->event_id.n == 0 || also->event_id.n > QUIPU_EVENT_ID_MAX ||
         !qp_time_valid(also->time))) {
        status = qp_error_field(reterr, QUIPU_LIMIT, "StateEvent", "event_id", "len",
                                "an event that only changes state needs an id of 1 to %d bytes and "
                                "a time",
                                QUIPU_EVENT_ID_MAX);
    }
    if (status == QUIPU_OK) {
        status = (also->made ? qp_batch_encode_made : qp_batch_encode)(
            &append.batch, messages, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        within.settles = true; /* by the event ids */
        within.session = append_session(store, key, also->changes);
        status = qp_store_write(store, &within, append_work, &append, reterr);
    }
    if (status == QUIPU_OK && ret_appended != NULL) {
        *ret_appended = append.result;
    }
    qp_batch_free(&append.batch);
    qp_store_leave(&within);
    return qp_store_fail(status, "append to", key, reterr);
}

/* In one exclusive transaction: the session, when it is missing or expired, and the batch. */
static quipu_status append_create_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    append_call *call = ctx;
    quipu_status status = qp_session_ensure(call->store, db, scratch, call->key, call->uid, reterr);

    return status == QUIPU_OK ? append_work(call, db, scratch, reterr) : status;
}

/* Append to a session that most often exists; with `creates`, create it when it does not. */
static quipu_status append_run(append_call *append, bool creates, qp_call *within,
                               quipu_error *reterr)
{
    quipu_store *store = append->store;
    quipu_error missing = {0};
    quipu_status status;

    within->settles = true; /* by the event ids */
    within->session = append_session(store, append->key, (qp_state_items){NULL, 0});
    /* A cap moves the row too, and reads it. */
    within->carries = store->cap_messages == 0 && store->cap_tokens == 0;
    append->carries = within->carries;
    status = qp_store_write(store, within, append_work, append, creates ? &missing : reterr);
    if (!creates || status == QUIPU_OK) {
        return status;
    }
    if (status != QUIPU_NOT_FOUND && status != QUIPU_EXPIRED) {
        return qp_error_pass(reterr, &missing);
    }
    if (qp_uuid_v7(&append->uid) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    within->session = (quipu_str){NULL, 0};
    within->carries = append->carries = false;
    return qp_store_write(store, within, append_create_work, append, reterr);
}

quipu_status quipu_message_append(quipu_store *store, quipu_str key, quipu_messages messages,
                                  const quipu_append_options *options,
                                  const quipu_call_options *call, quipu_appended *ret_appended,
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
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_appended, "quipu_appended", reterr);
    }
    if (status == QUIPU_OK && (messages.count == 0 || (opt.flags & ~QUIPU_APPEND_CREATE) != 0 ||
                               opt.expected_revision < -1)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "append needs at least one message, known flags and an expected "
                              "revision of -1 or more");
    }
    if (status == QUIPU_OK) {
        append.expected_revision = opt.expected_revision;
        status = qp_batch_encode(&append.batch, messages, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        status = append_run(&append, (opt.flags & QUIPU_APPEND_CREATE) != 0, &within, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_appended, &append.result, sizeof(append.result));
    }
    qp_batch_free(&append.batch);
    qp_store_leave(&within);
    return qp_store_fail(status, "append to", key, reterr);
}

quipu_status quipu_say(quipu_store *store, const char *key, quipu_role role, const char *text,
                       quipu_error *reterr)
{
    const quipu_message message = {.role = role, .content = quipu_cstr(text)};
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;

    if (text == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the text is NULL");
    }
    options.flags = QUIPU_APPEND_CREATE;
    return quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), &options,
                                NULL, NULL, reterr);
}
