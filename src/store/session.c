/* Creating sessions, get-or-create, and changing their settings. */
#include "store/session.h"

#include <assert.h>

#include <ent/view.h>

#include "base/error.h"
#include "base/time.h"
#include "base/uuid.h"
#include "ent/patch.h"
#include "store/cap.h"
#include "store/feed.h"
#include "store/message.h"
#include "store/read.h"
#include "store/search.h"
#include "store/state_internal.h"

/* ---- expiry -----------------------------------------------------------------------------------
 */

quipu_time qp_session_expiry(int64_t ttl_ms, quipu_time now)
{
    quipu_time at = {0, 0};

    /* What was within the calendar when it was given grows out of it with every write. */
    if (qp_time_add_ms(now, ttl_ms, &at) != QUIPU_OK) {
        at = (quipu_time){QP_TIME_S_MAX, QP_TIME_NS_MAX};
    }
    return at;
}

void qp_session_slide(ent_opt_int ttl_ms, quipu_time now, qp_session_patch *patch)
{
    if (ttl_ms.has) {
        patch->expires_at = ent_set(qp_session_expiry(ttl_ms.v, now));
    }
}

quipu_status qp_session_ttl(const quipu_store *store, int64_t given, ent_opt_int *ret_ttl,
                            quipu_error *reterr)
{
    quipu_time at = {0, 0};

    if (given < -1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "ttl_ms is %lld; give milliseconds, 0 for the store's or -1 for never",
                            (long long)given);
    }
    given = given == 0 ? store->ttl_ms : given;
    if (given > 0 && qp_time_add_ms(quipu_time_now(), given, &at) != QUIPU_OK) {
        return qp_error_field(reterr, QUIPU_INVALID, "Session", "ttl_ms", "range",
                              "a time to live of %lld ms ends after the year 9999; -1 means never",
                              (long long)given);
    }
    *ret_ttl = given > 0 ? ent_some(given) : (ent_opt_int){.has = false};
    return QUIPU_OK;
}

/* ---- create -----------------------------------------------------------------------------------
 */

typedef struct session_create {
    const quipu_store *store;
    quipu_session_new values;
    ent_opt_int ttl_ms;
    quipu_uuid uid;
    qp_batch batch;
    quipu_range range;   /* of the messages that come back */
    bool reuse;          /* an existing session will do */
    qp_history *history; /* or NULL */
    bool created;
    qp_state_items changes;   /* of state, when it is created */
    const qp_live_want *want; /* the state comes back too, in `live`; or NULL */
    qp_live live;
} session_create;

static quipu_status session_insert(session_create *create, ent_db *db, quipu_arena *scratch,
                                   quipu_time now, quipu_error *reterr)
{
    const quipu_session_new *values = &create->values;
    qp_batch *batch = &create->batch;
    const int64_t count = (int64_t)batch->count;
    const qp_session *row = NULL;
    quipu_status status;
    qp_session_new made = {.key = values->key,
                           .created_at = ent_some(now),
                           .updated_at = ent_some(now),
                           .uid = ent_some(create->uid),
                           .tenant = create->store->tenant,
                           .ttl_ms = create->ttl_ms};

    ent_view_create(&qp_session_new_view, values, &made);
    made.session_id = values->session_id.p != NULL ? values->session_id : values->key;
    if (create->ttl_ms.has) {
        made.expires_at = ent_some(qp_session_expiry(create->ttl_ms.v, now));
    }
    if (count > 0) {
        qp_session_patch patch = {.key = ENT_CLEAR};

        qp_batch_place(batch, NULL, now);
        qp_header_patch(&batch->header, &patch);
        qp_patch_create(&qp_session_entity, &patch, &made);
        qp_search_born(create->store, count, &made);
    }
    status = qp_session_create(db, scratch, &made, &row, reterr);
    if (status == QUIPU_OK && count > 0) {
        qp_batch_own(batch, row->id);
        status = qp_batch_insert(batch, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_search_filled(create->store, db, row->id, count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_state_apply(create->store, db, row, create->changes, now, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_feed_tell(
            create->store, db, row,
            &(qp_feed_note){QUIPU_CHANGE_CREATED, row->revision, count > 0 ? 1 : 0, count}, reterr);
    }
    return status == QUIPU_OK ? qp_cap_hold(create->store, db, scratch, row, reterr) : status;
}

/* What the caller gets of the session that is there now. */
static quipu_status session_read(session_create *create, ent_db *db, quipu_time now,
                                 quipu_error *reterr)
{
    return create->want != NULL ? qp_live_read(create->store, db, create->values.key, create->want,
                                               create->history, &create->live, reterr)
                                : qp_history_read(create->store, db, create->values.key,
                                                  &create->range, now, create->history, reterr);
}

static quipu_status session_create_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_create *create = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_lookup(create->store, db, scratch, create->values.key, &row, reterr);

    create->created = row == NULL;
    if (status == QUIPU_OK && row != NULL) {
        create->created = qp_session_expired(row, now);
        if (!create->created && !create->reuse) {
            return qp_error_field(reterr, QUIPU_EXISTS, "Session", "key", "unique",
                                  "it exists already; get it, or use get-or-create");
        }
        if (create->created) {
            status = qp_session_remove(create->store, db, row, reterr);
        }
    }
    if (status == QUIPU_OK && create->created) {
        status = session_insert(create, db, scratch, now, reterr);
    }
    if (status == QUIPU_OK && create->history != NULL) {
        status = session_read(create, db, now, reterr);
    }
    return status;
}

quipu_status qp_session_ensure(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                               quipu_str key, quipu_uuid uid, quipu_error *reterr)
{
    session_create create = {
        .store = store, .values = QUIPU_SESSION_NEW_INIT, .reuse = true, .uid = uid};
    quipu_status status = qp_session_ttl(store, 0, &create.ttl_ms, reterr);

    create.values.key = key;
    return status == QUIPU_OK ? session_create_work(&create, db, scratch, reterr) : status;
}

/* Check the caller's values and make ready what does not need the lock. */
static quipu_status session_prepare(quipu_store *store, const quipu_session_new *given,
                                    bool wants_history, session_create *create, quipu_error *reterr)
{
    quipu_session_new *values = &create->values;
    quipu_status status;

    if (given == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the new session's values are NULL");
    }
    status = qp_options_read(values, sizeof(*values), given, "quipu_session_new", reterr);
    if (status == QUIPU_OK) {
        status = qp_key_check(values->key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_object_check(values->metadata, "metadata", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_ttl(store, values->ttl_ms, &create->ttl_ms, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_batch_encode(&create->batch, values->messages, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK && qp_uuid_v7(&create->uid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    if (status == QUIPU_OK && wants_history) {
        create->history = qp_history_new();
        if (create->history == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a history");
        }
    }
    return status;
}

static void session_create_end(session_create *create, quipu_status status,
                               quipu_history **ret_history)
{
    if (status == QUIPU_OK && ret_history != NULL) {
        *ret_history = &create->history->pub;
    } else if (create->history != NULL) {
        quipu_free(&create->history->pub);
    }
    qp_batch_free(&create->batch);
}

quipu_status quipu_session_create(quipu_store *store, const quipu_session_new *values,
                                  const quipu_call_options *call, quipu_history **ret_history,
                                  quipu_error *reterr)
{
    session_create create = {
        .store = store, .values = QUIPU_SESSION_NEW_INIT, .range = QUIPU_RANGE_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = session_prepare(store, values, ret_history != NULL, &create, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, session_create_work, &create, reterr);
    }
    session_create_end(&create, status, ret_history);
    qp_store_leave(&within);
    return qp_store_fail(status, "create", create.values.key, reterr);
}

/* ---- get-or-create ----------------------------------------------------------------------------
 */

static quipu_status session_peek_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    session_create *create = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;

    create->created = false;
    return create->history != NULL
               ? session_read(create, db, now, reterr)
               : qp_session_load(create->store, db, scratch, create->values.key, now, &row, reterr);
}

quipu_status quipu_session_get_or_create(quipu_store *store, const quipu_session_new *values,
                                         const quipu_call_options *call,
                                         quipu_history **ret_history, bool *ret_created,
                                         quipu_error *reterr)
{
    session_create create = {
        .store = store, .values = QUIPU_SESSION_NEW_INIT, .range = QUIPU_RANGE_INIT, .reuse = true};
    quipu_error error = {0};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = session_prepare(store, values, ret_history != NULL, &create, reterr);
    }
    if (status == QUIPU_OK) {
        /* Most often it is there, and a reader needs no lock. */
        status = qp_store_read(store, &within, session_peek_work, &create, &error);
        if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
            status = qp_store_write(store, &within, session_create_work, &create, reterr);
        } else if (status != QUIPU_OK) {
            (void)qp_error_pass(reterr, &error);
        }
    }
    session_create_end(&create, status, ret_history);
    if (status == QUIPU_OK && ret_created != NULL) {
        *ret_created = create.created;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "get or create", create.values.key, reterr);
}

/* ---- with state -------------------------------------------------------------------------------
 */

quipu_status qp_live_create(quipu_store *store, const qp_live_new *given,
                            const quipu_call_options *call, qp_live *ret_live, quipu_error *reterr)
{
    session_create create = {.store = store,
                             .values = QUIPU_SESSION_NEW_INIT,
                             .range = QUIPU_RANGE_INIT,
                             .reuse = given->reuse,
                             .changes = given->changes,
                             .want = given->want};
    quipu_history *history = NULL;
    quipu_error error = {0};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_state_check(given->changes, store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        status = session_prepare(store, given->values, true, &create, reterr);
    }
    if (status == QUIPU_OK) {
        quipu_status peek = given->reuse
                                ? qp_store_read(store, &within, session_peek_work, &create, &error)
                                : QUIPU_NOT_FOUND;
        if (peek == QUIPU_NOT_FOUND || peek == QUIPU_EXPIRED) {
            status = qp_store_write(store, &within, session_create_work, &create, reterr);
        } else if (peek != QUIPU_OK) {
            status = qp_error_pass(reterr, &error);
        }
    }
    session_create_end(&create, status, &history);
    if (status == QUIPU_OK) {
        *ret_live = create.live;
        ret_live->history = history;
        ret_live->created = create.created;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, given->reuse ? "get or create" : "create", create.values.key,
                         reterr);
}

/* ---- update -----------------------------------------------------------------------------------
 */

typedef struct session_change {
    quipu_store *store;
    quipu_str key;
    quipu_session_patch given;
    ent_opt_int ttl_ms;
    int64_t revision;
} session_change;

static void session_patch(const session_change *change, const qp_session *row, quipu_time now,
                          qp_session_patch *ret)
{
    const quipu_session_patch *given = &change->given;
    const uint32_t set = given->set;
    ent_opt_int ttl_ms = row->ttl_ms;

    *ret = (qp_session_patch){.revision = ent_set(row->revision + 1), .updated_at = ent_set(now)};
    ent_view_patch(&qp_session_patch_view, set, given, ret);
    if ((set & QUIPU_SET_TTL) != 0) {
        ttl_ms = change->ttl_ms;
        ret->ttl_ms =
            ttl_ms.has ? ent_set(ttl_ms.v) : (ent_patch_int){.op = (ent_wants_int)ENT_OP_CLEAR};
        ret->expires_at = (ent_patch_time){.op = (ent_wants_time)ENT_OP_CLEAR};
    }
    qp_session_slide(ttl_ms, now, ret);
}

static quipu_status session_update_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    session_change *change = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    qp_session_patch patch;
    int64_t changed = 0;
    quipu_status status =
        qp_session_load_for_update(change->store, db, change->key, now, &row, reterr);

    (void)scratch;
    if (status == QUIPU_OK && (change->given.set & QUIPU_SET_IF_REVISION) != 0 &&
        change->given.expected_revision != row->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "its revision is %lld, not %lld: somebody else changed it first; "
                            "reload and try again",
                            (long long)row->revision, (long long)change->given.expected_revision);
    }
    if (status == QUIPU_OK) {
        session_patch(change, row, now, &patch);
        change->revision = row->revision + 1;
        status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, &changed,
                                   reterr);
    }
    assert(status != QUIPU_OK || changed == 1);
    if (status == QUIPU_OK) {
        status =
            qp_feed_tell(change->store, db, row,
                         &(qp_feed_note){QUIPU_CHANGE_UPDATED, row->revision + 1, 0, 0}, reterr);
    }
    return status;
}

static quipu_status session_patch_check(const quipu_store *store, session_change *change,
                                        quipu_error *reterr)
{
    const quipu_session_patch *given = &change->given;
    const uint32_t settings = ent_view_bits(&qp_session_patch_view);

    if ((given->set & ~(settings | QUIPU_SET_IF_REVISION)) != 0 || (given->set & settings) == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the patch sets 0x%x; give at least one bit of QUIPU_SET_*, and no "
                            "other",
                            (unsigned)given->set);
    }
    if ((given->set & QUIPU_SET_METADATA) != 0) {
        quipu_status status = qp_object_check(given->metadata, "metadata", reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    return (given->set & QUIPU_SET_TTL) != 0
               ? qp_session_ttl(store, given->ttl_ms, &change->ttl_ms, reterr)
               : QUIPU_OK;
}

quipu_status quipu_session_update(quipu_store *store, quipu_str key,
                                  const quipu_session_patch *patch, const quipu_call_options *call,
                                  int64_t *ret_revision, quipu_error *reterr)
{
    session_change change = {.store = store, .key = key, .given = QUIPU_SESSION_PATCH_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&change.given, sizeof(change.given), patch, "quipu_session_patch",
                                 reterr);
    }
    if (status == QUIPU_OK) {
        status = session_patch_check(store, &change, reterr);
    }
    if (status == QUIPU_OK) {
        within.session = store->feed ? (quipu_str){NULL, 0} : key; /* the feed draws numbers */
        status = qp_store_write(store, &within, session_update_work, &change, reterr);
    }
    if (status == QUIPU_OK && ret_revision != NULL) {
        *ret_revision = change.revision;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "update", key, reterr);
}
