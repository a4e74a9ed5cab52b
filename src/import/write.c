/* Writing what was read: a session with its messages and its state in one transaction, counted and
 * verified before it is committed.
 *
 * Called by: run.c for each session and each row of shared state. Each write runs through
 * qp_maintain_write(), which takes the store's writing connection; the transaction begins and ends
 * in write_transaction(). On failure: the transaction is rolled back, and sessions written before
 * it stay.
 * Owns: the transaction of one session. */
#include "import/import.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "import/chat.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/hash_chain.h"
#include "store/last_change.h"
#include "store/session.h"
#include "store/verify.h"

/* ---- transactions -----------------------------------------------------------------------------
 */

/* A unit of work and its import, for qp_maintain_write(). */
typedef struct write_call {
    qp_import *import;
    qp_work_fn work;
    void *ctx;
} write_call;

/* Waits for the write lock within the step's own deadline, then works within the import's. A failed
 * commit whose outcome is not known is QUIPU_UNKNOWN: repeating the import skips what was stored.
 * On failure the transaction is still open: qp_maintain_write() rolls it back. FULL and BUSY are
 * failures at which nothing can have been stored. */
static quipu_status write_transaction(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    const write_call *call = ctx;
    const qp_import *import = call->import;
    const qp_call step = qp_maintain_step(import->store, import->within);
    quipu_error error = {0};
    quipu_status status;

    /* Waiting for the lock has the step's deadline, the work itself the import's. */
    qp_call_watch(&step, db);
    status = ent_begin(db, ENT_WRITE, reterr);
    qp_call_watch(import->within, db);
    if (status == QUIPU_OK) {
        status = call->work(call->ctx, db, scratch, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = ent_commit(db, &error);
    if (status == QUIPU_OK || status == QUIPU_FULL || status == QUIPU_BUSY) {
        return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
    }
    return qp_error_set(reterr, QUIPU_UNKNOWN, "the commit failed (%s); repeat the import",
                        error.message);
}

/* The store's maintenance writer retries when another process holds the lock. `work` may therefore
 * run several times and must set its results anew each time. */
quipu_status qp_import_write(qp_import *import, qp_work_fn work, void *ctx, quipu_error *reterr)
{
    write_call call = {import, work, ctx};

    return qp_maintain_write(import->store, import->within, write_transaction, &call, reterr);
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* One session while it is written. Members that a transaction sets (meeting.there, row, header) are
 * set again when it is retried; the values were read before and stay. */
typedef struct write_session {
    qp_import_meeting meeting;
    ent_opt_int ttl_ms;
    const qp_session *row;
    qp_header header;
} write_session;

/* How a message of the store compares with the same one of the file. */
typedef struct write_compared {
    bool there; /* in the store; a prune may have removed it */
    bool same_id;
    bool same_content;
} write_compared;

/* Compares message `seq` of a chat program's session. The file's message is made anew by its layout
 * and thrown away: only the event id and the content say whether it is the one that the store has.
 */
static quipu_status write_compare(qp_import_meeting *meeting, ent_db *db, quipu_arena *scratch,
                                  int64_t seq, write_compared *ret, quipu_error *reterr)
{
    qp_source *source = &meeting->import->source;
    const qp_source_session *session = meeting->session;
    const qp_message_query query = {
        .where = {.session_id = ent_eq(meeting->row->id), .seq = ent_eq(seq)}, .limit = 1};
    qp_message_list list = {0};
    qp_message_new made = {0};
    quipu_status status = qp_message_find(db, scratch, &query, &list, reterr);

    assert(seq > 0 && (size_t)seq <= session->count);
    *ret = (write_compared){.there = list.n == 1};
    if (status != QUIPU_OK || list.n != 1) {
        return status;
    }
    status = source->layout->message(
        source, session, source->places[session->first + (size_t)seq - 1].row, &made, reterr);
    if (status == QUIPU_OK) {
        const qp_message *have = &list.items[0];

        ret->same_id = have->event_id.n == made.event_id.n &&
                       memcmp(have->event_id.p, made.event_id.p, made.event_id.n) == 0;
        ret->same_content = quipu_str_eq(have->content, made.content);
    }
    return status;
}

/* How much of a chat program's session the store has: all that it has, when its last message is the
 * file's, too. A session that was continued in the store counts as complete. Three outcomes, by the
 * last message of the store:
 *
 *   the file has no more than the store                    there: nothing to do
 *   the last id is the file's at the same number           stored = that number: the rest is added
 *   the last id is another one                             there: somebody went on in the store
 *
 * The third is not an error: a conversation that was imported and continued here must not stop the
 * import of all the others. */
static quipu_status write_progress(qp_import_meeting *meeting, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    const int64_t have = meeting->row->next_seq - 1;
    write_compared last;
    quipu_status status;

    meeting->there = have >= (int64_t)meeting->session->count;
    if (meeting->there || have == 0) {
        return QUIPU_OK;
    }
    status = write_compare(meeting, db, scratch, have, &last, reterr);
    if (status == QUIPU_OK) {
        meeting->there = !last.same_id;
        meeting->stored = last.same_id ? (size_t)have : 0;
    }
    return status;
}

/* Two files may have a conversation of one id, such as "1", which their programs were given: theirs
 * began at other times, and with other words. Either alone may change in one conversation. Only
 * when both differ is it another conversation. A session without messages, here or there, has
 * nothing to compare and counts as the same; so does one whose first message was pruned. */
static quipu_status write_is_of_another_file(qp_import_meeting *meeting, ent_db *db,
                                             quipu_arena *scratch, bool *ret_is,
                                             quipu_error *reterr)
{
    const ent_opt_time created = meeting->values.row.created_at;
    write_compared first;
    quipu_status status;

    *ret_is = false;
    if (!created.has || quipu_time_cmp(meeting->row->created_at, created.v) == 0 ||
        meeting->row->next_seq == 1 || meeting->session->count == 0) {
        return QUIPU_OK;
    }
    status = write_compare(meeting, db, scratch, 1, &first, reterr);
    *ret_is = status == QUIPU_OK && first.there && !(first.same_id && first.same_content);
    return status;
}

/* Whether the stored session is the one of the file. For a chat program its metadata decide; for
 * the others the creation time, because a new session has another one. */
static bool write_is_same(const qp_import_meeting *meeting, const qp_session *row)
{
    const ent_opt_time created = meeting->values.row.created_at;

    if (meeting->import->source.layout->is_chat) {
        return qp_chat_is_from(&meeting->import->source, meeting->session, row->metadata.text);
    }
    return created.has && quipu_time_cmp(row->created_at, created.v) == 0;
}

/* The stored session of this key, compared: the same one, imported before, must have as many
 * messages or be able to grow. */
static quipu_status write_meet_row(qp_import_meeting *meeting, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    const qp_session *row = meeting->row;
    const quipu_str key = meeting->key;
    const int shown = (int)qp_utf8_cut(key, 80);
    const bool is_chat = meeting->import->source.layout->is_chat;
    bool other = !write_is_same(meeting, row);
    quipu_status status = QUIPU_OK;

    if (!other && is_chat) {
        status = write_is_of_another_file(meeting, db, scratch, &other, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (other) {
        return qp_error_set(reterr, QUIPU_EXISTS,
                            "the store has another session with the key \"%.*s\"; delete it, or "
                            "import into another store",
                            shown, key.p);
    }
    if (is_chat) {
        return write_progress(meeting, db, scratch, reterr);
    }
    if (row->next_seq - 1 < (int64_t)meeting->session->count) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "the session \"%.*s\" is there with %lld messages, the file has %zu; "
                            "delete it first to replace it",
                            shown, key.p, (long long)(row->next_seq - 1), meeting->session->count);
    }
    meeting->there = true;
    return QUIPU_OK;
}

/* Finds the key: a free one, or that of an earlier import. An expired session does not count;
 * write_row() removes it. Called twice: in a snapshot for the check, and under the write lock,
 * where the answer counts. Every way out but the renames is within the first turn of the loop:
 *
 *   no session, or an expired one    QUIPU_OK, `row` NULL: it will be created
 *   the same one                     QUIPU_OK, `row` set; `there`, or `stored` messages of it
 *   another one                      FAIL: QUIPU_EXISTS. SKIP: `there`. RENAME: the next number
 *
 * With RENAME a session of a chat program gets "-2", "-3" and so on at its key until one is free or
 * is its own from an earlier import. */
quipu_status qp_import_meet(qp_import_meeting *meeting, ent_db *db, quipu_arena *scratch,
                            quipu_error *reterr)
{
    const quipu_source_conflict policy = meeting->import->options.on_conflict;
    quipu_status status = QUIPU_EXISTS;

    for (int number = 1; number <= QUIPU_SOURCE_RENAMES && status == QUIPU_EXISTS; number++) {
        const qp_session *row = NULL;

        meeting->there = false;
        meeting->stored = 0;
        meeting->row = NULL;
        status = qp_import_key(meeting->import, meeting->session, number, &meeting->key, reterr);
        if (status == QUIPU_OK) {
            status =
                qp_session_lookup(meeting->import->store, db, scratch, meeting->key, &row, reterr);
        }
        if (status != QUIPU_OK || row == NULL || qp_session_expired(row, quipu_time_now())) {
            return status;
        }
        meeting->row = row;
        status = write_meet_row(meeting, db, scratch, reterr);
        if (status == QUIPU_EXISTS && policy == QUIPU_SOURCE_SKIP) {
            meeting->there = true;
            return QUIPU_OK;
        }
        if (policy != QUIPU_SOURCE_RENAME) {
            return status;
        }
    }
    return status;
}

/* A session that grew counts as a session, with its new messages only. */
void qp_import_count(const qp_import_meeting *meeting, quipu_source_report *report)
{
    assert(meeting->stored <= meeting->session->count);
    report->skipped += meeting->there ? 1 : 0;
    report->sessions += meeting->there ? 0 : 1;
    report->messages += meeting->there ? 0 : (int64_t)(meeting->session->count - meeting->stored);
    report->states += meeting->there ? 0 : (int64_t)meeting->values.state.count;
}

/* Creates the session's row, without messages. index_pending lets search index them later. w->row
 * is the row as it was created, with its id and defaults. An expired session with this key is
 * removed first, in the same transaction: the key is unique. */
static quipu_status write_row(write_session *w, ent_db *db, quipu_arena *scratch,
                              quipu_error *reterr)
{
    quipu_store *store = w->meeting.import->store;
    const int64_t count = (int64_t)w->meeting.session->count;
    const quipu_time now = quipu_time_now();
    const qp_session *expired = NULL;
    qp_session_new made = w->meeting.values.row;
    quipu_uuid uid;
    quipu_status status = qp_session_lookup(store, db, scratch, w->meeting.key, &expired, reterr);

    if (status == QUIPU_OK && expired != NULL) {
        status = qp_session_remove(store, db, expired, reterr);
    }
    if (status == QUIPU_OK && qp_uuid_v7(&uid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Bookkeeping that the source does not have; counts are known before the messages are
     * written. */
    made.key = w->meeting.key;
    made.uid = ent_some(uid);
    made.tenant = store->tenant;
    made.next_seq = ent_some(count + 1);
    made.message_count = count;
    made.index_pending = count > 0;
    made.ttl_ms = w->ttl_ms;
    if (w->ttl_ms.has) {
        made.expires_at = ent_some(qp_session_expiry(w->ttl_ms.v, now));
    }
    return qp_session_create(db, scratch, &made, &w->row, reterr);
}

/* Numbers the messages from 1 and keeps the running total of tokens, as appends do. Rows go through
 * the same header as those of an append, so that title, first words and totals agree. Each message
 * gets a random salt of its own for its hash in the chain, as an append's does. For a session that
 * grows the header begins with its row: numbers, totals and the chain go on from there. */
static quipu_status write_messages(write_session *w, ent_db *db, quipu_error *reterr)
{
    qp_source *source = &w->meeting.import->source;
    quipu_status status = QUIPU_OK;

    qp_header_begin(&w->header, w->meeting.row);
    for (size_t i = w->meeting.stored; i < w->meeting.session->count && status == QUIPU_OK; i++) {
        const qp_source_place *place = &source->places[w->meeting.session->first + i];
        uint8_t salted_hash[QP_SALTED_HASH_SIZE];
        const qp_usage_sum before = w->header.usage; /* the header's own is before all of them */
        qp_message_new made = {0};

        status = source->layout->message(source, w->meeting.session, place->row, &made, reterr);
        if (status == QUIPU_OK) {
            made.session_id = w->row->id;
            made.seq = w->header.next_seq;
            made.tokens_total = w->header.token_count + made.tokens;
            status = qp_random(salted_hash, QP_SALT_SIZE);
            if (status != QUIPU_OK) {
                (void)qp_error_set(reterr, status, "the system has no randomness for a salt");
            }
        }
        if (status == QUIPU_OK) {
            qp_header_hash(&w->header, &made, salted_hash);
            qp_header_see(&w->header, &made);
            status = qp_message_create(db, NULL, &made, NULL, reterr);
        }
        if (status == QUIPU_OK) {
            status = qp_usage_write(db, w->meeting.import->store->tenant, before, &made, 1, reterr);
        }
        /* The unique index on (session, event id) rejects a duplicate within the file. */
        if (status == QUIPU_EXISTS) {
            status = qp_source_fail(source, "the event", place->row,
                                    qp_error_set(reterr, status, "its id occurs twice"), reterr);
        }
    }
    return status;
}

/* The session's own state. Upsert: of a name that occurs twice the last value stays. ADK keeps one
 * time for all names, the session's. */
static quipu_status write_state(const write_session *w, ent_db *db, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < w->meeting.values.state.count && status == QUIPU_OK; i++) {
        const qp_state_item *item = &w->meeting.values.state.items[i];
        const qp_state_new made = {.tenant = w->meeting.import->store->tenant,
                                   .scope = (qp_state_scope)item->scope,
                                   .app_name = w->row->app_name,
                                   .user_id = w->row->user_id,
                                   .session_number = w->row->id,
                                   .name = item->name,
                                   .value = {item->value},
                                   .updated_at = ent_some(w->row->updated_at)};

        status = qp_state_upsert(db, NULL, &made, QP_STATE_ON_KEY, NULL, reterr);
    }
    return status;
}

/* Runs the checks of `verify` on the new session within its transaction, and counts its messages.
 * An error here is a defect of this code or a file that lies about itself; either way nothing of
 * the session is stored. */
static quipu_status write_check(const write_session *w, ent_db *db, quipu_arena *scratch,
                                quipu_error *reterr)
{
    const qp_session *row = NULL;
    qp_findings findings;
    int64_t count = 0;
    const qp_import_meeting *meeting = &w->meeting;
    const int64_t expected = (meeting->row != NULL ? meeting->row->message_count : 0) +
                             (int64_t)(meeting->session->count - meeting->stored);
    quipu_status status = qp_session_get(db, scratch, w->row->id, &row, reterr);

    if (status == QUIPU_OK) {
        status = qp_verify_session(db, row, &findings, reterr);
    }
    for (int kind = 1; kind < QP_PROBLEM_KINDS && status == QUIPU_OK; kind++) {
        if (findings.has[kind]) {
            status = qp_error_set(reterr, QUIPU_INVALID, "the session is inconsistent: %s",
                                  findings.text[kind]);
        }
    }
    if (status == QUIPU_OK) {
        status = qp_message_count(db, &(qp_message_where){.session_id = ent_eq(row->id)}, &count,
                                  reterr);
    }
    if (status == QUIPU_OK && count != expected) {
        status = qp_error_set(reterr, QUIPU_INVALID, "%lld messages were read and %lld stored",
                              (long long)expected, (long long)count);
    }
    return status;
}

/* Applies the store's cap, as for a session that is created with a history. updated_at stays, since
 * nobody used the session today. */
static quipu_status write_cap(const write_session *w, ent_db *db, quipu_arena *scratch,
                              quipu_error *reterr)
{
    quipu_store *store = w->meeting.import->store;
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    if (store->cap_messages == 0 && store->cap_tokens == 0) {
        return QUIPU_OK;
    }
    status = qp_session_get(db, scratch, w->row->id, &row, reterr);
    if (status == QUIPU_OK) {
        status = qp_cap_hold(store, db, scratch, row, reterr);
    }
    return status;
}

/* A session that an earlier import stored gets what came since: as an append would store it, which
 * leaves its title and its metadata alone. turn_seq stays as it is, and index_pending lets search
 * index the new messages later. The feed names the range that was added. */
static quipu_status write_more(write_session *w, ent_db *db, quipu_arena *scratch,
                               quipu_error *reterr)
{
    quipu_store *store = w->meeting.import->store;
    const qp_session *row = w->meeting.row;
    qp_session_patch patch = {.revision = ent_set(row->revision + 1)};
    quipu_status status;

    assert(row->next_seq == (int64_t)w->meeting.stored + 1);
    w->row = row;
    qp_last_change_set(row, quipu_time_now(), &patch);
    status = write_messages(w, db, reterr);
    if (status == QUIPU_OK) {
        qp_header_patch(&w->header, &patch);
        patch.turn_seq = (ent_patch_int){0};
        patch.index_pending = ent_set((bool)true);
        status =
            qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = write_check(w, db, scratch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_feed_record(store, db, row,
                                &(qp_feed_note){QUIPU_CHANGE_APPENDED, row->revision + 1,
                                                row->next_seq, w->header.next_seq - 1},
                                reterr);
    }
    return status == QUIPU_OK ? write_cap(w, db, scratch, reterr) : status;
}

/* The transaction of one session. Meeting the stored session is repeated here, under the write
 * lock. The feed gets one entry for the whole session, before the cap deletes messages again. */
static quipu_status write_session_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    write_session *w = ctx;
    const int64_t count = (int64_t)w->meeting.session->count;
    quipu_status status = qp_import_meet(&w->meeting, db, scratch, reterr);

    if (status != QUIPU_OK || w->meeting.there) {
        return status;
    }
    if (w->meeting.row != NULL) {
        return write_more(w, db, scratch, reterr);
    }
    status = write_row(w, db, scratch, reterr);
    if (status == QUIPU_OK) {
        status = write_messages(w, db, reterr);
    }
    if (status == QUIPU_OK) {
        qp_session_patch patch = {.turn_seq = {0}};

        qp_header_patch(&w->header, &patch);
        patch.turn_seq = (ent_patch_int){0}; /* both stay as the row has them */
        patch.last_event_at = (ent_patch_time){0};
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(w->row->id)}, &patch, NULL,
                                   reterr);
    }
    if (status == QUIPU_OK) {
        status = write_state(w, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = write_check(w, db, scratch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_feed_record(
            w->meeting.import->store, db, w->row,
            &(qp_feed_note){QUIPU_CHANGE_CREATED, w->row->revision, count > 0 ? 1 : 0, count},
            reterr);
    }
    return status == QUIPU_OK ? write_cap(w, db, scratch, reterr) : status;
}

/* Reads the session's values, then writes; counts only after the commit, so that what a retried
 * transaction wrote before does not count twice. */
quipu_status qp_import_session(qp_import *import, const qp_source_session *session,
                               quipu_error *reterr)
{
    write_session w = {.meeting = {.import = import, .session = session}};
    quipu_status status =
        import->source.layout->session(&import->source, session, &w.meeting.values, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_ttl(import->store, 0, &w.ttl_ms, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_import_write(import, write_session_work, &w, reterr);
    }
    if (status == QUIPU_OK) {
        qp_import_count(&w.meeting, &import->report);
    }
    return status;
}

/* ---- state of apps and users ------------------------------------------------------------------
 */

/* State of one app or user; `written` counts what this attempt changed. */
typedef struct write_shared {
    qp_import *import;
    const qp_source_shared *shared;
    int64_t written;
} write_shared;

/* Whether the stored value stays: it is as new as the file's, or the file has no time. A tie keeps
 * the stored value, so that a repeated import changes nothing. */
static bool write_shared_kept(const qp_source_shared *shared, const qp_state *row)
{
    return row != NULL &&
           (!shared->has_time || quipu_time_cmp(row->updated_at, shared->updated_at) >= 0);
}

/* State of an app or a user: the newer value of each name wins. Runs under the write lock, so that
 * no other writer comes between the comparison and the write. */
static quipu_status write_shared_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    write_shared *w = ctx;
    const qp_source_shared *shared = w->shared;
    quipu_status status = QUIPU_OK;

    w->written = 0;
    for (size_t i = 0; i < shared->state.count && status == QUIPU_OK; i++) {
        const qp_state_item *item = &shared->state.items[i];
        const qp_state_new made = {
            .tenant = w->import->store->tenant,
            .scope = (qp_state_scope)item->scope,
            .app_name = shared->app_name,
            .user_id = shared->user_id.p != NULL ? shared->user_id : QUIPU_STR(""),
            .name = item->name,
            .value = {item->value},
            .updated_at = ent_some(shared->has_time ? shared->updated_at : quipu_time_now())};
        const qp_state *row = NULL;

        status = qp_maintain_state(db, scratch, &made, &row, reterr);
        if (status == QUIPU_OK && !write_shared_kept(shared, row)) {
            status = qp_state_upsert(db, NULL, &made, QP_STATE_ON_KEY, NULL, reterr);
            w->written++;
        }
    }
    return status;
}

/* One transaction for each row of the file; empty state needs none. */
quipu_status qp_import_shared(qp_import *import, const qp_source_shared *shared,
                              quipu_error *reterr)
{
    write_shared w = {.import = import, .shared = shared};
    quipu_status status = shared->state.count == 0
                              ? QUIPU_OK
                              : qp_import_write(import, write_shared_work, &w, reterr);

    if (status == QUIPU_OK) {
        import->report.states += w.written;
    }
    return status;
}
