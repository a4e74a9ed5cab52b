/* The sessions of an import with their messages: a session that is there already is skipped when it
 * is the same and no older, and each is checked before it is committed, so that no export can bring
 * in what verify would report.
 *
 * Owns: the list of sessions that forks of later lines may name (`parents`), and the session of the
 * group (`row`, `skip`).
 * Called by: import.c, for one line at a time, and at the end of a group.
 * Transactions: the group's open one; the line is parsed in `doc`.
 * On return: rows are inserted as the line says; numbers, totals and counts are the export's, and
 * qp_import_line_check() proves that they agree. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/export_row.h"
#include "store/feed.h"
#include "store/import_internal.h"
#include "store/message.h"
#include "store/verify.h"

/* ---- parents ----------------------------------------------------------------------------------
 */

/* Remember a session whose line says that forks follow. A retry of the group adds it again, with
 * its new number; the search finds the newer entry first. */
static quipu_status import_session_remember(qp_lines_import *run, quipu_uuid uid, int64_t id,
                                            quipu_error *reterr)
{
    assert(id != 0);
    if (run->parent_count == run->parent_cap) {
        /* Only sessions with forks are remembered: the list is short even for a large store. */
        size_t cap = run->parent_cap == 0 ? 64 : run->parent_cap * 2;
        qp_import_parent *more = qp_realloc(run->parents, cap * sizeof(*more));
        if (more == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the forks of an import");
        }
        run->parents = more;
        run->parent_cap = cap;
    }
    assert(run->parent_count < run->parent_cap);
    run->parents[run->parent_count++] = (qp_import_parent){uid, id};
    return QUIPU_OK;
}

/* The number of the session with this uid, or 0. From the newest on: a fork mostly follows its
 * parent closely. */
static int64_t import_session_parent(const qp_lines_import *run, quipu_uuid uid)
{
    for (size_t i = run->parent_count; i > 0; i--) {
        if (memcmp(run->parents[i - 1].uid.b, uid.b, sizeof(uid.b)) == 0) {
            return run->parents[i - 1].id;
        }
    }
    return 0;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* The session that is there under the same key; a hidden one, which has no key, is known by its
 * uid. */
static quipu_status import_session_existing(const qp_lines_import *run, ent_db *db,
                                            const qp_session_new *made, quipu_arena *arena,
                                            const qp_session **ret_row, quipu_error *reterr)
{
    const qp_session_query query = {.limit = 1,
                                    .where = {.tenant = ent_eq(run->store->tenant),
                                              .key = ENT_IS_NULL,
                                              .uid = ent_eq(made->uid.v)}};
    qp_session_list list = {0};
    quipu_status status;

    assert(made->uid.has);
    *ret_row = NULL;
    /* Expired sessions are found, too: an export may bring them, and a repeat must know them. */
    if (made->key.p != NULL) {
        return qp_session_lookup(run->store, db, arena, made->key, ret_row, reterr);
    }
    status = qp_session_find(db, arena, &query, &list, reterr);
    if (status == QUIPU_OK && list.n > 0) {
        *ret_row = list.items;
    }
    return status;
}

/* A session that is there already. The same uid means the same session: it is skipped with all its
 * lines, unless the store's copy is older. Sessions are not merged. */
static quipu_status import_session_meet(qp_lines_import *run, const qp_session_new *made,
                                        const qp_session *existing, quipu_error *reterr)
{
    bool same = memcmp(existing->uid.b, made->uid.v.b, sizeof(existing->uid.b)) == 0;

    assert(!run->skip && made->uid.has);
    if (!same || (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0) {
        return qp_error_set(reterr, QUIPU_EXISTS, "the session \"%.*s\" exists already%s",
                            (int)qp_utf8_cut(made->key, 80), made->key.n > 0 ? made->key.p : "",
                            same ? "" : ", and is another one; delete it, or leave this one out");
    }
    /* The store's session has not seen what the export has. Replacing it is for the caller to
     * decide. */
    if (existing->revision < made->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "the session \"%.*s\" is there with revision %lld, older than %lld; "
                            "delete it first to replace it",
                            (int)qp_utf8_cut(made->key, 80), made->key.n > 0 ? made->key.p : "",
                            (long long)existing->revision, (long long)made->revision);
    }
    run->skip = true;
    run->group.skipped++;
    return QUIPU_OK;
}

/* Check what the line says, and find the session it was forked from, which stands on a line
 * before. */
static quipu_status import_session_read(qp_lines_import *run, quipu_arena *scratch,
                                        qp_session_new *ret_made, quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, QP_EXPORT_PARENT, QP_EXPORT_FORKS, NULL};
    const qp_json_node object = qp_json_root(&run->doc);
    quipu_str parent = QP_STR_ABSENT;
    quipu_uuid uid;
    quipu_status status =
        qp_import_row(&qp_session_entity, object, NULL, others, scratch, ret_made, reterr);

    if (status == QUIPU_OK && ret_made->key.p != NULL) {
        status = qp_key_check(ret_made->key, reterr);
    }
    if (status == QUIPU_OK && !ret_made->uid.has) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the session has no uid");
    }
    if (status == QUIPU_OK) {
        status = qp_import_text(object, QUIPU_STR(QP_EXPORT_PARENT), scratch, &parent, reterr);
    }
    if (status == QUIPU_OK && parent.p != NULL) {
        /* A uid that cannot be parsed is one that no line before had. */
        int64_t id =
            quipu_uuid_parse(parent, &uid) == QUIPU_OK ? import_session_parent(run, uid) : 0;
        ret_made->parent_id = ent_some(id);
        if (id == 0) {
            status = qp_error_set(reterr, QUIPU_INVALID,
                                  "the session that it was forked from must be on an earlier line");
        }
    }
    assert(status != QUIPU_OK || ret_made->uid.has);
    return status;
}

/* Insert the row. Where a uid is part of keys it may be taken: by what forks share of a deleted
 * session, or by another tenant's session in the same shard. Then the session gets a new uid. */
static quipu_status import_session_create(qp_lines_import *run, ent_db *db,
                                          const qp_session_new *made, quipu_error *reterr)
{
    qp_session_new fresh = *made;
    quipu_error error = {0};
    quipu_status status = qp_session_create(db, &run->kept, made, &run->row, &error);

    assert(made->uid.has && ent_depth(db) > 0);
    /* Only an engine that has the uid in its keys reports this. */
    if (status == QUIPU_EXISTS && strcmp(error.field, "uid") == 0) {
        status = qp_uuid_v7(&fresh.uid.v);
        status = status == QUIPU_OK
                     ? qp_session_create(db, &run->kept, &fresh, &run->row, &error)
                     : qp_error_set(&error, status, "the system has no randomness for a uid");
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* The line that begins a group. Its messages are not in the search index: the next search adds
 * them. */
quipu_status qp_import_line_session(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    const qp_json_node forks = qp_json_get(qp_json_root(&run->doc), QUIPU_STR(QP_EXPORT_FORKS));
    qp_session_new made = {.tenant = run->store->tenant};
    const qp_session *existing = NULL;
    quipu_status status = import_session_read(run, scratch, &made, reterr);

    assert(!run->loose && run->row == NULL && !run->skip);
    if (status == QUIPU_OK) {
        status = import_session_existing(run, db, &made, scratch, &existing, reterr);
    }
    if (status == QUIPU_OK && existing != NULL) {
        status = import_session_meet(run, &made, existing, reterr);
    } else if (status == QUIPU_OK) {
        /* The watermark is not part of an export: all messages are pending. */
        made.index_pending = made.next_seq.has && made.next_seq.v > 1;
        status = import_session_create(run, db, &made, reterr);
        run->group.sessions++;
    }
    assert(status != QUIPU_OK || run->skip == (run->row == NULL));
    if (status == QUIPU_OK && qp_json_kind_of(forks) == QP_JSON_TRUE) {
        status = import_session_remember(run, made.uid.v,
                                         existing != NULL ? existing->id : run->row->id, reterr);
    }
    return status;
}

/* A message of the group's session, as the line has it: its number and its running total are not
 * computed anew. */
quipu_status qp_import_line_message(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_EVENT_ID, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, QP_EXPORT_EVENT_ID, NULL};
    qp_message_new made = {.session_id = run->row->id};
    quipu_str event_id = QP_STR_ABSENT;
    quipu_status status = qp_import_row(&qp_message_entity, qp_json_root(&run->doc), left_out,
                                        others, scratch, &made, reterr);

    assert(!run->loose && !run->skip && run->row != NULL);
    if (status == QUIPU_OK) {
        status = qp_import_text(qp_json_root(&run->doc), QUIPU_STR(QP_EXPORT_EVENT_ID), scratch,
                                &event_id, reterr);
    }
    if (status == QUIPU_OK && (event_id.n == 0 || event_id.n > QUIPU_EVENT_ID_MAX)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the event id has %zu bytes; give 1 to %d",
                              event_id.n, QUIPU_EVENT_ID_MAX);
    }
    if (status == QUIPU_OK) {
        status = qp_event_id_bytes(event_id, NULL, scratch, &made.event_id);
    }
    if (status == QUIPU_OK) {
        /* Numbers that do not fit are found by the check at the end of the group. */
        status = qp_message_create(db, NULL, &made, NULL, reterr);
        run->group.messages++;
    }
    return status;
}

/* Check the session as verify does, before the commit. The error names the session's own line. */
quipu_status qp_import_line_check(qp_lines_import *run, ent_db *db, quipu_error *reterr)
{
    qp_findings findings;
    quipu_status status = QUIPU_OK;

    assert(run->loose || run->skip || run->row != NULL);
    /* Nothing of a session was stored. */
    if (run->loose || run->skip) {
        return QUIPU_OK;
    }
    status = qp_verify_session(db, run->row, &findings, reterr);
    for (int kind = 1; kind < QP_PROBLEM_KINDS && status == QUIPU_OK; kind++) {
        /* One without a key waits for the forks that follow it. */
        /* A hidden session has no forks yet: they stand on later lines. */
        if (findings.has[kind] && (kind != QUIPU_PROBLEM_FORK || run->row->key.p != NULL)) {
            status =
                qp_error_set(reterr, QUIPU_INVALID, "the session \"%.*s\" is not whole: %s",
                             (int)qp_utf8_cut(run->row->key, 80),
                             run->row->key.p != NULL ? run->row->key.p : "", findings.text[kind]);
        }
    }
    return qp_import_line_fail(run, run->begun, status, reterr);
}

/* Record the session in the feed. For followers one that came with its whole past is a new session,
 * also when it is a fork. */
quipu_status qp_import_line_record(const qp_lines_import *run, ent_db *db, quipu_error *reterr)
{
    const qp_session *row = run->row;

    if (run->loose || run->skip) {
        return QUIPU_OK;
    }
    assert(row != NULL);
    return qp_feed_record(run->store, db, row,
                          &(qp_feed_note){QUIPU_CHANGE_CREATED, row->revision,
                                          row->message_count > 0 ? row->first_seq : 0,
                                          row->message_count > 0 ? row->next_seq - 1 : 0},
                          reterr);
}
