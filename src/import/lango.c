/* Lango's files: sessions, and messages ordered by their times. Observations and reflections are in
 * memories.c.
 *
 * Owns: the table qp_source_lango. Called by: source.c, run.c and write.c through it, within the
 * read transaction of run.c. Row values are converted by lango_adopt.c of src/store, the code
 * that also adopts such a file in place: both ways give equal rows. */
#include "import/source.h"

#include <stdlib.h>

#include "base/error.h"
#include "store/lango.h"

/* A Lango session has a key and neither app nor user. Its id is the key itself, so that a store
 * finds it under the name that Lango used. */
static quipu_status lango_sessions(qp_source *source, quipu_error *reterr)
{
    qp_lango_session_iter iter = {0};
    qp_lango_session row;
    quipu_status status =
        qp_lango_session_iter_begin(source->db, &(qp_lango_session_query){0}, &iter, reterr);

    while (status == QUIPU_OK && qp_lango_session_iter_next(&iter, &row)) {
        const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), row.key};
        status = qp_source_add_session(source, &ref, row.id, reterr);
    }
    /* Ended after a failure, too: the iterator holds a statement. The first error is reported. */
    quipu_status ended = qp_lango_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* By row id, which messages refer to. For qsort() and bsearch(). */
static int lango_by_session(const void *a, const void *b)
{
    const qp_source_session *x = a;
    const qp_source_session *y = b;

    return (x->row > y->row) - (x->row < y->row);
}

/* The index of the session with this row, or session_count. Sessions are sorted by row here, not by
 * name. */
static size_t lango_find(const qp_source *source, ent_opt_int row)
{
    const qp_source_session wanted = {.row = row.v};
    /* A message may have no session; bsearch() wants an array even for no items. */
    const qp_source_session *found = !row.has || source->session_count == 0
                                         ? NULL
                                         : bsearch(&wanted, source->sessions, source->session_count,
                                                   sizeof(*source->sessions), lango_by_session);

    return found != NULL ? (size_t)(found - source->sessions) : source->session_count;
}

/* Messages without a session are orphans. The engine's own count must agree with the rows seen: a
 * damaged index would hide some. */
static quipu_status lango_places(qp_source *source, quipu_error *reterr)
{
    qp_lango_message_query all = {0};
    qp_lango_message row;
    ent_iter iter = {0};
    int64_t counted = 0;
    quipu_status status = ent_iter_begin(source->db, &source->event, &all, &iter, reterr);

    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        const size_t found = lango_find(source, row.session_messages);

        /* Its session is not in the file, so that the report has its row and no names. */
        if (found == source->session_count) {
            qp_source_report_orphan(
                source, &(quipu_session_ref){QUIPU_STR(""), QUIPU_STR(""), QUIPU_STR("")}, row.id);
        } else {
            status = qp_source_add_place(source, (qp_source_place){found, row.timestamp, row.id},
                                         reterr);
        }
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK) {
        status = qp_lango_message_count(source->db, &all.where, &counted, reterr);
    }
    /* SQLite may count by an index, while the rows come from the table. */
    if (status == QUIPU_OK && counted != (int64_t)source->place_count + source->orphans) {
        status = qp_error_set(reterr, QUIPU_CORRUPT, "%s counts %lld messages and shows %lld",
                              source->path, (long long)counted,
                              (long long)source->place_count + source->orphans);
    }
    return status;
}

/* Sessions first, sorted by row, so that lango_find() can search them. The order by row stays: no
 * later step searches by name. */
static quipu_status lango_open(qp_source *source, quipu_error *reterr)
{
    quipu_status status = qp_source_fit(source, &qp_lango_message_entity, &source->event, reterr);

    if (status == QUIPU_OK) {
        status = lango_sessions(source, reterr);
    }
    if (status == QUIPU_OK) {
        /* qsort() must not get a NULL array. */
        if (source->session_count > 0) {
            qsort(source->sessions, source->session_count, sizeof(*source->sessions),
                  lango_by_session);
        }
        status = lango_places(source, reterr);
    }
    return status;
}

/* Values of one session; metadata become JSON. last_event_at is the time of the last update: Lango
 * has no other. */
static quipu_status lango_session(qp_source *source, const qp_source_session *session,
                                  qp_source_values *ret, quipu_error *reterr)
{
    const qp_lango_session *row = NULL;
    quipu_status status =
        qp_lango_session_get(source->db, &source->scratch, session->row, &row, reterr);

    if (status == QUIPU_OK) {
        *ret = (qp_source_values){.row = {.agent_id = row->agent_id,
                                          .channel_type = row->channel_type,
                                          .channel_id = row->channel_id,
                                          .model = row->model,
                                          .created_at = ent_some(row->created_at),
                                          .updated_at = ent_some(row->updated_at),
                                          .last_event_at = ent_some(row->updated_at),
                                          .app_name = session->ref.app_name,
                                          .user_id = session->ref.user_id,
                                          .session_id = session->ref.session_id}};
        status = qp_lango_metadata(row->metadata, &source->buf, &ret->row.metadata);
    }
    return qp_source_fail(source, "the session", session->row, status, reterr);
}

/* One message. Its event id is made from its row, so that a repeated import recognizes it. The
 * result is valid until the next call: it lies in source->row and source->extra. */
static quipu_status lango_message(qp_source *source, const qp_source_session *session, int64_t row,
                                  qp_message_new *ret, quipu_error *reterr)
{
    const qp_lango_message *old = NULL;
    const void *keys[] = {&row}; /* of the primary key, which is index -1 */
    quipu_status status;

    quipu_arena_reset(&source->row);
    status = ent_get(source->db, &source->row, &source->event, -1, keys, &old, reterr);
    if (status == QUIPU_OK) {
        *ret = (qp_message_new){.event_id = qp_lango_event_id(row, source->event_id)};
        status = qp_lango_message_values(old, session->row, &source->row, &source->extra, ret);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for the message");
        }
    }
    return qp_source_fail(source, "the message", row, status, reterr);
}

/* Lango has no state of apps or users; what it stores about a session is metadata. */
static quipu_status lango_shared(qp_source *source, qp_source_shared_fn fn, void *ctx,
                                 quipu_error *reterr)
{
    (void)source;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}

const qp_source_layout qp_source_lango = {
    .open = lango_open,
    .session = lango_session,
    .message = lango_message,
    .shared = lango_shared,
};
