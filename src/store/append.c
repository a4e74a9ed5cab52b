/* Appending messages to a session.
 *
 * Owns the work of an append inside the transaction of a batch (batch.h), and the two calls that
 * lead there. The session's row, from the session cache, gives out numbers and revision; the
 * messages follow; the row's own change is deferred, so that a batch writes the row of a session
 * once. What refuses an append is decided by reads before the first write.
 * Called by quipu_message_append(), quipu_say() and the live sessions of src/adk; expects no lock:
 * the batch holds what its state promises.
 *
 *   quipu_message_append()      outside of any lock: key, options, messages encoded
 *     └─ append_run()           here, or at the server that has the store
 *          └─ append_work()     in the batch; runs again when the batch is retried (is_retry)
 *               cache ─▶ row         NOT_FOUND, EXPIRED, CORRUPT
 *               append_is_stored()   a repeat: nothing is written, the first result is returned
 *               append_refuse()      CONFLICT, LIMIT
 *               ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄     from here on no refusal: a failure takes the batch with it
 *               append_write()       messages, usage, state, feed; the row changes in the cache
 */
#include "store/append.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/time.h"
#include "base/uuid.h"
#include "ent/db.h"
#include "ent/patch.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/fork_chain.h"
#include "store/last_change.h"
#include "store/purge.h"
#include "store/search.h"
#include "store/session.h"
#include "store/state_internal.h"

/* One append, on the stack of the public call from its checks until its answer. Texts of the caller
 * are borrowed for all of that time; `encoded` owns what was made of them. The leader of a batch
 * runs the work on its own thread while the caller waits, so that no member needs a lock. */
typedef struct append_call {
    quipu_store *store;
    quipu_str key;
    int64_t expected_revision; /* -1: do not check */
    qp_encoded encoded;        /* empty: only state changes */
    qp_append_also *also;      /* or NULL */
    bool has_settings;         /* the next two change with it */
    quipu_session_patch settings;
    ent_opt_int ttl_ms;
    quipu_appended result; /* set anew by each run of the work */
    qp_append_also own;    /* `also` of a call that brings an event */
    bool is_retry;         /* the work has run before, and may have been stored then */
    bool creates;          /* the session, when there is none */
    bool has_uid;          /* `uid` is drawn */
    quipu_uuid uid;        /* of a session that the append creates */
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
        db, scratch, where->session, call->encoded.rows[at].event_id, &row, &error);

    assert(at < call->encoded.count);
    /* A row outside of the segment is not this session's message:
     *
     *     parent   1 2 3 4 | 5 6     messages 5 and 6 of the parent came after the fork
     *     fork               5' 6'   an id that only 5 or 6 has is free here */
    if (status == QUIPU_NOT_FOUND ||
        (status == QUIPU_OK && (row->seq < where->from || row->seq > where->to))) {
        *ret_seq = 0;
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    status = qp_encoded_equals(&call->encoded, at, row, &equal);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "cannot compare with message %lld",
                            (long long)row->seq);
    }
    /* A caller that gives two messages the same id would lose one of them if this counted as a
     * repeat. */
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
        /* A chain that ends at the fork number has ancestors only, so that one place is left. */
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

    assert(places->count > 0 && places->count <= QP_CHAIN_MAX);
    *ret_seq = 0;
    /* The session's own cluster first: what is repeated was mostly appended a moment ago. */
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

    assert(call->encoded.count > 0 && row->next_seq >= row->first_seq);
    places.count = 0;
    for (size_t i = 0; i < call->encoded.count; i++) {
        /* An id that the store drew itself can be there only when this very call was stored before:
         * its ids are drawn once, before the first run. */
        const bool named = call->encoded.named[i] || call->is_retry;
        int64_t seq = 0;
        quipu_status status = QUIPU_OK;

        /* Resolved for the first id: an append without ids reads no ancestor. */
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
        unnamed += !call->encoded.named[i]; /* by the caller */
        first = i == 0 ? seq : first;
    }
    /* An append is stored whole: a part of it that is there means another append, or a cap that
     * removed the rest. To store only what is missing would change the order. */
    if (found != 0 && found != call->encoded.count) {
        return qp_error_field(
            reterr, QUIPU_EXISTS, "Message", "event_id", "unique",
            "%zu of the %zu messages are there already; %s", found, call->encoded.count,
            unnamed > 0 ? "whether those without an event id are, only the history "
                          "says: read it, and give every message of a batch an id"
                        : "the others are new, or were capped or pruned: append only "
                          "those that are new");
    }
    *ret_seq = first;
    return QUIPU_OK;
}

/* Whether the session is as the caller expects it, and has numbers left. */
static quipu_status append_refuse(const append_call *call, const qp_session *row,
                                  quipu_error *reterr)
{
    assert(row->revision >= 0 && row->next_seq >= 1);
    /* Set before the comparison: a caller that gets CONFLICT reports the session's revision. */
    if (call->also != NULL) {
        call->also->revision = row->revision;
    }
    if (call->expected_revision >= 0 && call->expected_revision != row->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "its revision is %lld, not %lld: somebody else changed it first; "
                            "reload and try again",
                            (long long)row->revision, (long long)call->expected_revision);
    }
    /* A number has 32 bits in SQLite's packed key. Checked here, before the first write, because
     * the INSERT that would fail later takes the whole batch with it. */
    if (row->next_seq > ENT_CLUSTER_SEQ_MAX - (int64_t)call->encoded.count + 1) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a session holds at most %lld messages",
                            (long long)ENT_CLUSTER_SEQ_MAX);
    }
    return QUIPU_OK;
}

/* Whether a turn begins before these messages: then they do not give the session its first words.
 * For a row that says turn_seq 0. A program that did not know the column, or another program, may
 * have written it. Happens once a session: the row knows afterwards. */
static quipu_status append_look_for_turn(ent_db *db, const qp_session *row, qp_encoded *encoded,
                                         quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool asks = false;

    assert(row->turn_seq == 0 && row->next_seq > 1);
    for (size_t i = 0; i < encoded->count; i++) {
        asks = asks || encoded->rows[i].role == QP_MESSAGE_ROLE_USER;
    }
    encoded->later_turn = asks;
    /* Where messages are gone, or too many are there, it is unknown which one was the first. */
    if (asks && row->first_seq == 1 && row->next_seq <= QP_FIRST_TURN_MAX + 1) {
        status = qp_chain_has_turn(db, row, row->next_seq - 1, &encoded->later_turn, reterr);
    }
    return status;
}

/* Places and inserts the batch; *ret_patch is how the session's row moves. */
static quipu_status append_rows(quipu_store *store, ent_db *db, const qp_session *row,
                                qp_encoded *encoded, quipu_time now, qp_session_patch *ret_patch,
                                quipu_error *reterr)
{
    const int64_t count = (int64_t)encoded->count;
    qp_session_patch patch = {.revision = ent_set(row->revision + 1)};
    quipu_status status = QUIPU_OK;

    assert(count > 0 && row->next_seq >= row->first_seq);
    /* Before the messages are placed: placing decides whether one of them gives the first words. */
    if (row->turn_seq == 0 && row->first_words.p == NULL && row->next_seq > 1) {
        status = append_look_for_turn(db, row, encoded, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_last_change_set(row, now, &patch);
    qp_encoded_place(encoded, row, now);
    qp_header_patch(&encoded->header, &patch);
    /* The summary is the only message of its batch, so that it gets the next number. */
    if (encoded->summary) {
        patch.compact_seq = ent_set(row->next_seq);
    }
    status = qp_encoded_insert(encoded, db, store->tenant, reterr);
    /* The watermark is one number: while older messages are pending, these wait behind them. */
    if (status == QUIPU_OK && !row->index_pending) {
        status = qp_search_follow(store, db, row, row->next_seq + count, &patch, reterr);
    }
    if (status == QUIPU_OK && row->ttl_ms.has) {
        qp_session_slide(row, now, &patch);
    }
    /* In the same transaction: followers see the append if and only if it is stored. */
    if (status == QUIPU_OK && store->feed) {
        status = qp_feed_record(store, db, row,
                                &(qp_feed_note){QUIPU_CHANGE_APPENDED, row->revision + 1,
                                                row->next_seq, row->next_seq + count - 1},
                                reterr);
    }
    *ret_patch = patch;
    return status;
}

/* For works that read the row themselves, not through the session cache: a compaction, the end of a
 * child session. So the row is written at once. */
quipu_status qp_append_write(quipu_store *store, ent_db *db, quipu_arena *scratch,
                             const qp_session *row, qp_encoded *encoded, quipu_time now,
                             quipu_error *reterr)
{
    /* `row` stays as it was read; the cap must see the numbers behind the append. */
    qp_session after = *row; /* the row as it will be */
    qp_session_patch patch;
    quipu_status status = append_rows(store, db, row, encoded, now, &patch, reterr);

    assert(encoded->count > 0 && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_update_row(db, &qp_session_entity, row->id, &patch, reterr);
    }
    if (status == QUIPU_OK) {
        qp_patch_apply(&qp_session_entity, &patch, false, &after);
        /* A compaction promises that nothing is removed: the next append holds the cap. */
        status = encoded->summary ? QUIPU_OK : qp_cap_hold(store, db, scratch, &after, reterr);
    }
    return status;
}

/* An append without messages: the session moves, and its id is remembered. */
static quipu_status append_only_state(const append_call *call, ent_db *db, const qp_session *row,
                                      quipu_time now, qp_session_patch *ret_patch,
                                      quipu_error *reterr)
{
    const qp_append_also *also = call->also;
    quipu_status status =
        qp_state_event_add(db, row, row->revision + 1, also->event_id, also->changes, reterr);

    assert(call->also != NULL && call->encoded.count == 0);
    *ret_patch = (qp_session_patch){.revision = ent_set(row->revision + 1),
                                    .last_event_at = ent_set(also->time)};
    qp_last_change_set(row, now, ret_patch);
    qp_session_slide(row, now, ret_patch);
    if (status == QUIPU_OK) {
        status =
            qp_feed_record(call->store, db, row,
                           &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
    }
    return status;
}

/* Whether all of the append is stored already: then its result is set. */
static quipu_status append_is_stored(append_call *call, ent_db *db, quipu_arena *scratch,
                                     const qp_session *row, bool *ret_stored, quipu_error *reterr)
{
    int64_t seq = 0;
    quipu_status status = QUIPU_OK;

    *ret_stored = false;
    /* The uid names one life of a session. Under the same key another session may live meanwhile,
     * to which this event does not belong, whatever its revision is. */
    if (call->also != NULL && call->also->has_uid &&
        memcmp(call->also->uid.b, row->uid.b, sizeof(row->uid.b)) != 0) {
        call->also->revision = row->revision;
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "it was deleted and made anew since it was read; reload it");
    }
    if (call->encoded.count == 0) {
        assert(call->also != NULL);
        status = qp_state_event_known(db, scratch, row, call->also->event_id, call->also->changes,
                                      ret_stored, reterr);
    } else if ((call->encoded.any_named || call->is_retry) &&
               (qp_group_state(&call->store->group) != QP_BATCH_OPTIMISTIC || row->fork_seq.has)) {
        /* On the optimistic path no row is locked, so a duplicate event id is not looked up: the
         * unique index rejects it. No index covers the past that a fork inherited. */
        status = append_repeated(call, db, scratch, row, &seq, reterr);
        *ret_stored = seq != 0;
    }
    /* From the next run on, ids that the store drew are looked up as well: a commit whose outcome
     * is UNKNOWN may have stored them. */
    call->is_retry = true;
    if (status == QUIPU_OK && *ret_stored) {
        call->result =
            (quipu_appended){.repeated = true, .first_seq = seq, .revision = row->revision};
    }
    return status;
}

/* Holds the history cap, which reads and changes the row by statements of its own. */
static quipu_status append_cap(quipu_store *store, ent_db *db, quipu_arena *scratch,
                               const qp_session *row, quipu_error *reterr)
{
    /* The cap reads the stored row: what this append and the members before it changed is still in
     * the cache. */
    quipu_status status = qp_session_cache_flush(&store->group.sessions, db, reterr);

    assert(ent_depth(db) > 0 && row->id != 0);
    if (status == QUIPU_OK) {
        status = qp_cap_hold(store, db, scratch, row, reterr);
        qp_session_cache_detach(&store->group.sessions, row);
    }
    return status;
}

/* Writes the append, and moves the session's row in the cache. */
static quipu_status append_write(append_call *call, ent_db *db, quipu_arena *scratch,
                                 const qp_session *row, quipu_time now, quipu_error *reterr)
{
    quipu_store *store = call->store;
    /* Before the row moves, which it does in place. */
    const quipu_appended result = {.first_seq = call->encoded.count > 0 ? row->next_seq : 0,
                                   .revision = row->revision + 1};
    qp_session_patch patch;
    quipu_status status = call->encoded.count > 0
                              ? append_rows(store, db, row, &call->encoded, now, &patch, reterr)
                              : append_only_state(call, db, row, now, &patch, reterr);

    assert(call->encoded.count > 0 || call->also != NULL);
    /* The last message stands for the event: it gives changes of state their author and number. */
    if (status == QUIPU_OK && call->also != NULL) {
        const qp_encoded *encoded = &call->encoded;
        const qp_state_origin origin = {
            .author =
                encoded->count > 0 ? encoded->rows[encoded->count - 1].author : call->also->author,
            .seq = encoded->count > 0 ? encoded->rows[encoded->count - 1].seq : 0,
            .at = now};

        status = qp_state_apply(store, db, row, call->also->changes, &origin, reterr);
    }
    /* Into the same patch: settings and messages are one UPDATE and one revision. */
    if (status == QUIPU_OK && call->has_settings) {
        qp_session_settings_put(&call->settings, call->ttl_ms, now, &patch);
    }
    if (status == QUIPU_OK) {
        qp_session_cache_change(&store->group.sessions, row, &patch);
        call->result = result;
        call->result.time = call->encoded.count > 0 ? patch.last_event_at.v : (quipu_time){0, 0};
    }
    /* Last: the cap looks at counts and totals that include this append. */
    if (status == QUIPU_OK && (store->cap_messages > 0 || store->cap_tokens > 0)) {
        status = append_cap(store, db, scratch, row, reterr);
    }
    return status;
}

/* A qp_work_fn, run by the leader of a batch for each append in it. The row comes from the session
 * cache; every refusal is decided before append_write() changes anything, so that a refused append
 * leaves the batch's transaction as it was. */
static quipu_status append_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    append_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    bool stored = false;
    quipu_status status =
        qp_session_cache_get(&call->store->group.sessions, db, call->key, &row, reterr);

    assert(ent_depth(db) > 0 && call->key.n > 0);
    call->result = (quipu_appended)QUIPU_APPENDED_INIT;
    if (status == QUIPU_OK) {
        status = qp_session_living(row, now, reterr);
    }
    if (status == QUIPU_OK) {
        status = append_is_stored(call, db, scratch, row, &stored, reterr);
    }
    if (status != QUIPU_OK || stored) {
        return status;
    }
    status = append_refuse(call, row, reterr);
    return status == QUIPU_OK ? append_write(call, db, scratch, row, now, reterr) : status;
}

/* ---- the calls --------------------------------------------------------------------------------
 */

/* Appends, and creates the session before when it is missing or expired. That session's row is read
 * and written by statements that the cache does not see: what the cache holds is written before
 * them, and read anew after them. */
static quipu_status append_create_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    append_call *call = ctx;
    qp_session_cache *sessions = &call->store->group.sessions;
    const qp_session *row = NULL;
    quipu_status status = qp_session_cache_get(sessions, db, call->key, &row, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    /* The common case costs no more than an append that may not create. */
    if (row != NULL && !qp_session_expired(row, quipu_time_now())) {
        return append_work(call, db, scratch, reterr);
    }
    assert(qp_group_state(&call->store->group) != QP_BATCH_OPTIMISTIC || row != NULL);
    if (row != NULL && !qp_group_owns_expired(&call->store->group, row)) {
        /* It has expired just now: qp_session_write_new() repeats alone. */
        return qp_session_living(row, quipu_time_now(), reterr);
    }
    /* Drawn once: a work that runs again creates the same session. */
    if (!call->has_uid && qp_uuid_v7(&call->uid) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    call->has_uid = true;
    status = qp_session_cache_flush(sessions, db, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_ensure(call->store, db, scratch, call->key, call->uid, reterr);
    }
    if (status == QUIPU_OK && qp_group_state(&call->store->group) == QP_BATCH_EXCLUSIVE) {
        /* In a LOCKED batch qp_session_ensure() reports to the cache what it has created. In an
         * EXCLUSIVE one the cache reads all rows again. */
        qp_session_cache_detach_all(sessions);
    }
    return status == QUIPU_OK ? append_work(call, db, scratch, reterr) : status;
}

/* An append at a server. */
static quipu_status append_ask(append_call *append, const qp_call *call, quipu_messages messages,
                               quipu_error *reterr)
{
    const qp_remote *remote = &append->store->remote;
    const qp_remote_batch asked = {.key = append->key,
                                   .messages = messages,
                                   .creates = append->creates,
                                   .expected_revision = append->expected_revision,
                                   .settings = append->has_settings ? &append->settings : NULL,
                                   .also = append->also};
    quipu_status status = qp_store_writable(append->store, reterr);

    assert(qp_store_is_remote(append->store) && remote->append != NULL);
    append->result = (quipu_appended)QUIPU_APPENDED_INIT;
    return status == QUIPU_OK ? remote->append(remote->ctx, call, &asked, &append->result, reterr)
                              : status;
}

/* After a conflict at a server: the session's revision, if it says so. */
static void append_ask_revision(const append_call *append, const qp_call *call)
{
    quipu_range header = QUIPU_RANGE_INIT;
    qp_history *history = qp_history_new();

    assert(append->also != NULL);
    /* Best effort: when this read fails, too, the caller has its CONFLICT all the same. */
    header.flags = QUIPU_RANGE_HEADER;
    if (history != NULL) {
        if (qp_history_ask(append->store, call, append->key, &header, history, NULL) == QUIPU_OK) {
            append->also->revision = history->session.revision;
        }
        quipu_free(&history->pub);
    }
}

/* The end of both calls: writes what was encoded unless `status` says that it is refused already,
 * and leaves the store. */
static quipu_status append_run(append_call *append, qp_call *within, quipu_messages messages,
                               quipu_status status, quipu_appended *ret_appended,
                               quipu_error *reterr)
{
    const qp_state_items none = {NULL, 0};

    assert(within->store == NULL || within->store == append->store);
    if (status == QUIPU_OK && append->store->remote.append != NULL) {
        status = append_ask(append, within, messages, reterr);
        if (status == QUIPU_CONFLICT && append->also != NULL) {
            append_ask_revision(append, within);
        }
    } else if (status == QUIPU_OK) {
        qp_store_make_shared(append->store, append->key,
                             append->also == NULL ? none : append->also->changes, within);
        /* The session's row is changed through the cache only, so that a batch writes it once. */
        within->coalesces = true;
        within->idempotent = true; /* by the event ids */
        status =
            append->creates
                ? qp_session_write_new(append->store, within, append_create_work, append, reterr)
                : qp_store_write(append->store, within, append_work, append, reterr);
        /* The cap may have released more than one transaction removes. One step: the caller waits
         * with a turn. */
        if (status == QUIPU_OK && within->family) {
            qp_purge_after(append->store, within, 1);
        }
    }
    if (status == QUIPU_OK && ret_appended != NULL) {
        qp_output_put(ret_appended, &append->result, sizeof(append->result));
    }
    /* Only now: a retry runs the work again over the same rows. */
    qp_encoded_free(&append->encoded);
    qp_store_leave(within);
    return status == QUIPU_OK ? QUIPU_OK : qp_store_fail(status, "append to", append->key, reterr);
}

/* Checks what an append brings beside messages. An event that only changes state has no message to
 * carry its id, so it needs one of its own to be repeatable. */
static quipu_status append_check_also(const quipu_store *store, const qp_append_also *also,
                                      bool has_messages, quipu_error *reterr)
{
    quipu_status status = qp_state_check(also->changes, store->message_bytes_max, reterr);

    assert(also != NULL);
    if (status == QUIPU_OK && !has_messages &&
        (also->event_id.n == 0 || also->event_id.n > QUIPU_EVENT_ID_MAX ||
         !qp_time_valid(also->time))) {
        status = qp_error_field(reterr, QUIPU_LIMIT, "StateEvent", "event_id", "len",
                                "an event that only changes state needs an id of 1 to %d bytes and "
                                "a time",
                                QUIPU_EVENT_ID_MAX);
    }
    return status;
}

/* For the ADK room: messages and changes of state in one transaction. */
quipu_status qp_append_also_state(quipu_store *store, quipu_str key, quipu_messages messages,
                                  qp_append_also *also, const quipu_call_options *call,
                                  quipu_appended *ret_appended, quipu_error *reterr)
{
    append_call append = {
        .store = store, .key = key, .expected_revision = also->expected_revision, .also = also};
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = append_check_also(store, also, messages.count > 0, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_encoded_make(&append.encoded, also->made ? QP_MESSAGES_PARSED : QP_MESSAGES_GIVEN,
                            messages, store->message_bytes_max, reterr);
    }
    status = append_run(&append, &within, messages, status, ret_appended, reterr);
    if (status == QUIPU_OK && messages.count > 0 && !append.result.repeated) {
        also->time = append.result.time;
    }
    return status;
}

/* Reads and checks the settings that change with an append. Its own revision is the expected one.
 * */
static quipu_status append_settings(append_call *append, const quipu_session_patch *given,
                                    quipu_error *reterr)
{
    quipu_session_patch own = QUIPU_SESSION_PATCH_INIT;
    quipu_status status = qp_options_read(&own, sizeof(own), given, "quipu_session_patch", reterr);

    if (status == QUIPU_OK && (own.set & QUIPU_SET_IF_REVISION) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "an append has an expected revision of its own: leave out "
                              "QUIPU_SET_IF_REVISION");
    }
    append->settings = own;
    append->has_settings = true;
    return status == QUIPU_OK ? qp_session_settings_check(append->store, &append->settings,
                                                          &append->ttl_ms, reterr)
                              : status;
}

/* Reads and checks the event and the uid of an append. */
static quipu_status append_event(append_call *append, const quipu_append_options *options,
                                 bool has_messages, quipu_arena *arena, quipu_error *reterr)
{
    quipu_state_event event = QUIPU_STATE_EVENT_INIT;
    qp_append_also *also = &append->own;
    quipu_status status = QUIPU_OK;

    assert(options->event != NULL || options->uid != NULL);
    if (options->uid != NULL && append->creates) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an append that may create its session cannot know its uid");
    }
    if (options->event != NULL) {
        status =
            qp_options_read(&event, sizeof(event), options->event, "quipu_state_event", reterr);
    }
    *also = (qp_append_also){.author = event.author,
                             .event_id = event.event_id,
                             .time = event.time,
                             .has_uid = options->uid != NULL,
                             .expected_revision = options->expected_revision};
    if (options->uid != NULL) {
        also->uid = *options->uid;
    }
    if (status == QUIPU_OK) {
        status = qp_state_given(&event.changes, arena, &also->changes, reterr);
    }
    append->also = also;
    return status == QUIPU_OK ? append_check_also(append->store, also, has_messages, reterr)
                              : status;
}

/* Reads and checks the options of an append; what the arena owns is needed until it has run. */
static quipu_status append_options(append_call *append, const quipu_append_options *options,
                                   bool has_messages, quipu_arena *arena, quipu_error *reterr)
{
    quipu_append_options opt = QUIPU_APPEND_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    if (options != NULL) {
        status = qp_options_read(&opt, sizeof(opt), options, "quipu_append_options", reterr);
    }
    if (status == QUIPU_OK && opt.settings != NULL) {
        status = append_settings(append, opt.settings, reterr);
    }
    if (status == QUIPU_OK &&
        ((!has_messages && opt.event == NULL) || (opt.flags & ~QUIPU_APPEND_CREATE) != 0 ||
         opt.expected_revision < -1)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "append needs at least one message or an event, known flags and an "
                              "expected revision of -1 or more");
    }
    append->creates = (opt.flags & QUIPU_APPEND_CREATE) != 0;
    append->expected_revision = opt.expected_revision;
    return status == QUIPU_OK && (opt.event != NULL || opt.uid != NULL)
               ? append_event(append, &opt, has_messages, arena, reterr)
               : status;
}

/* See <quipu/store.h>. Everything that can be checked and encoded without the store is done here,
 * before any lock: other callers of the group never wait for it. */
quipu_status quipu_message_append(quipu_store *store, quipu_str key, quipu_messages messages,
                                  const quipu_append_options *options,
                                  const quipu_call_options *call, quipu_appended *ret_appended,
                                  quipu_error *reterr)
{
    append_call append = {.store = store, .key = key, .expected_revision = -1};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK && ret_appended != NULL) {
        status = qp_output_check(ret_appended, "quipu_appended", reterr);
    }
    if (status == QUIPU_OK && (options != NULL || messages.count == 0)) {
        status = append_options(&append, options, messages.count > 0, &arena, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_encoded_make(&append.encoded, QP_MESSAGES_GIVEN, messages,
                                 store->message_bytes_max, reterr);
    }
    status = append_run(&append, &within, messages, status, ret_appended, reterr);
    if (QP_ARENA_IS_USED(&arena)) { /* only options need it */
        quipu_arena_free(&arena);
    }
    return status;
}

/* See <quipu/store.h>. An append with all defaults that creates its session. */
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
