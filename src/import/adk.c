/* ADK's files: sessions and state, whose tables differ only in how they write times, and events,
 * which exist in four layouts (adk_event.c).
 *
 * Owns: the table qp_source_adk.
 * Called by: source.c, run.c and write.c through it, once for each session and event in each pass.
 * Transactions: within the read transaction of run.c, so that a row found in the first pass is
 * there in the second. On return texts lie in the source's arenas; a failure names the file and the
 * row. */
#include "import/source.h"

#include <assert.h>

#include "adk/delta.h"
#include "base/arena.h"
#include "base/error.h"
#include "gen/adk_database.h"
#include "gen/adk_go.h"
#include "gen/adk_sqlite.h"
#include "gen/adk_v0.h"

#define ADK_PLACE_FIELDS 5 /* of an event: row, app, user, session, time */

/* The layouts, by source.kind:
 *
 *   ADK_DATABASE   event_data is JSON, times are texts     (ADK for Python, layout 1)
 *   ADK_SQLITE     event_data is JSON, times are seconds   (its SQLite service)
 *   ADK_V0         a column a field, actions are a pickle  (before layout 1)
 *   ADK_GO         a column a field, actions are JSON      (ADK for Go)
 */

/* Only ADK's SQLite service writes times as numbers; its tables have generated types of their own.
 * The three other kinds of file share the types qp_adk_*, with times as text. */
static bool adk_has_seconds(const qp_source *source)
{
    return source->kind == QUIPU_SOURCE_ADK_SQLITE;
}

/* ---- times ------------------------------------------------------------------------------------
 */

/* NULL means no time; a text must be readable: a wrong time would put a message in the wrong
 * place. */
static quipu_status adk_time_text(quipu_str text, ent_opt_time *ret)
{
    ret->has = text.p != NULL;
    return ret->has ? qp_adk_time(text, &ret->v) : QUIPU_OK;
}

/* NULL means no time; a number must be within the years 1 to 9999. */
static quipu_status adk_time_seconds(ent_opt_float seconds, ent_opt_time *ret)
{
    ret->has = seconds.has;
    return ret->has ? qp_adk_seconds(seconds.v, &ret->v) : QUIPU_OK;
}

/* Turns a time that cannot be read into an error that names the row. Passes QUIPU_OK on, so that
 * callers need no condition. */
static quipu_status adk_bad_time(const qp_source *source, const char *what, int64_t row,
                                 quipu_status status, quipu_error *reterr)
{
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_source_fail(source, what, row,
                                qp_error_set(reterr, status, "a time cannot be read"), reterr);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

/* The owner of a row: rows of sessions and of events have these three fields in both types. */
#define ADK_REF(row) ((quipu_session_ref){(row).app_name, (row).user_id, (row).session_id})

/* Reads identity and row of every session. Two generated types with the same fields share this
 * loop; the union holds whichever the file has. A failed loop keeps its own error: ent_iter_end()
 * is then called without a place for another. */
static quipu_status adk_sessions(qp_source *source, quipu_error *reterr)
{
    const bool seconds = adk_has_seconds(source);
    const ent_entity *entity = seconds ? &qp_adks_session_entity : &qp_adk_session_entity;
    const qp_adk_session_query all = {0};
    const qp_adks_session_query all_seconds = {0};
    union {
        qp_adk_session text;
        qp_adks_session seconds;
    } row;
    ent_iter iter = {0};
    quipu_status status =
        ent_iter_begin(source->db, entity,
                       seconds ? (const void *)&all_seconds : (const void *)&all, &iter, reterr);

    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        const quipu_session_ref ref = seconds ? ADK_REF(row.seconds) : ADK_REF(row.text);

        status =
            qp_source_add_session(source, &ref, seconds ? row.seconds.id : row.text.id, reterr);
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* An event without its session is an orphan: reported, not imported. An event without a time sorts
 * before all others: its time is then 0. */
static quipu_status adk_place(qp_source *source, const quipu_session_ref *ref, int64_t row,
                              ent_opt_time time, quipu_error *reterr)
{
    const size_t session = qp_source_find(source, ref);

    if (session == source->session_count) {
        qp_source_report_orphan(source, ref, row);
        return QUIPU_OK;
    }
    return qp_source_add_place(source, (qp_source_place){session, time.v, row}, reterr);
}

/* Reads session and time of every event, and nothing else of it: field_count cuts the entity after
 * the time. Contents may be many megabytes; places are 32 bytes. */
static quipu_status adk_places(qp_source *source, quipu_error *reterr)
{
    const bool seconds = adk_has_seconds(source);
    const qp_adk_event_query all = {0};
    const qp_adks_event_query all_seconds = {0};
    union {
        qp_adk_event text;
        qp_adks_event seconds;
    } row;
    ent_iter iter = {0};
    quipu_status status;

    /* All layouts begin with the same five fields, which is all that a place needs. */
    source->place = seconds ? qp_adks_event_entity : qp_adk_event_entity;
    source->place.field_count = ADK_PLACE_FIELDS;
    status =
        ent_iter_begin(source->db, &source->place,
                       seconds ? (const void *)&all_seconds : (const void *)&all, &iter, reterr);
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        const quipu_session_ref ref = seconds ? ADK_REF(row.seconds) : ADK_REF(row.text);
        const int64_t id = seconds ? row.seconds.id : row.text.id;
        ent_opt_time time = {0};

        status = seconds ? adk_time_seconds(row.seconds.timestamp, &time)
                         : adk_time_text(row.text.timestamp, &time);
        status = adk_bad_time(source, "the event", id, status, reterr);
        if (status == QUIPU_OK) {
            status = adk_place(source, &ref, id, time, reterr);
        }
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* The columns that this file has, then sessions, then the places of events. Sessions must be sorted
 * before the places are read, because each place looks its session up. The events' entity is the
 * only one that differs between all four layouts. */
static quipu_status adk_open(qp_source *source, quipu_error *reterr)
{
    const ent_entity *entity = source->kind == QUIPU_SOURCE_ADK_GO       ? &qp_adkgo_event_entity
                               : source->kind == QUIPU_SOURCE_ADK_V0     ? &qp_adk0_event_entity
                               : source->kind == QUIPU_SOURCE_ADK_SQLITE ? &qp_adks_event_entity
                                                                         : &qp_adk_event_entity;
    quipu_status status = qp_source_fit(source, entity, &source->event, reterr);

    if (status == QUIPU_OK) {
        status = adk_sessions(source, reterr);
    }
    if (status == QUIPU_OK) {
        qp_source_sort_sessions(source);
        status = adk_places(source, reterr);
    }
    return status;
}

/* ---- state ------------------------------------------------------------------------------------
 */

/* A key of state as the store keeps names; odd characters as in delta.c. The store's limit applies
 * already here, in the first pass, before anything is written. */
static quipu_status adk_state_name(qp_source *source, qp_json_node key, quipu_str *ret,
                                   quipu_error *reterr)
{
    quipu_status status = qp_delta_name(key, false, &source->scratch, ret);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for a key of state");
    }
    if (ret->n > QP_STATE_NAME_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a key of state has %zu bytes; at most %d are allowed", ret->n,
                            QP_STATE_NAME_MAX);
    }
    return QUIPU_OK;
}

/* The members of a state object as items of one scope. Values are slices of the text; names lie in
 * the scratch arena. A name that occurs twice gives two items; the later one wins when it is
 * stored. */
static quipu_status adk_state(qp_source *source, quipu_str text, qp_scope scope,
                              qp_state_items *ret, quipu_error *reterr)
{
    qp_json_node root;
    qp_state_item *items;
    size_t count;
    quipu_status status;

    *ret = (qp_state_items){NULL, 0};
    if (text.p == NULL) {
        return QUIPU_OK;
    }
    status = qp_json_parse(&source->doc, text, NULL, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    root = qp_json_root(&source->doc);
    /* null counts as an empty state. */
    if (qp_json_kind_of(root) == QP_JSON_NULL) {
        return QUIPU_OK;
    }
    if (qp_json_kind_of(root) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_INVALID, "the state is not a JSON object");
    }
    count = qp_json_count(root);
    items = qp_arena_take(&source->scratch, (count + 1) * sizeof(*items));
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for %zu keys of state", count);
    }
    qp_json_iter iter = qp_json_each(root);
    for (size_t i = 0; status == QUIPU_OK && qp_json_next(&iter); i++) {
        items[i] = (qp_state_item){.scope = scope, .value = qp_json_raw(iter.value)};
        status = adk_state_name(source, iter.key, &items[i].name, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    *ret = (qp_state_items){items, count};
    return QUIPU_OK;
}

/* A row of state in any of its four shapes; which one it is, adk_shared_walk()'s arguments say. */
typedef union adk_shared_row {
    qp_adk_app_state app;
    qp_adk_user_state user;
    qp_adks_app_state app_seconds;
    qp_adks_user_state user_seconds;
} adk_shared_row;

/* Names, state and time of one row, whichever of the four shapes it has. The caller knows the shape
 * by the table and the kind of file: the row itself does not say. */
static quipu_status adk_shared_read(const adk_shared_row *row, bool user, bool seconds,
                                    qp_source_shared *ret, quipu_str *ret_state)
{
    ent_opt_time time = {0};
    quipu_status status;

    if (user) {
        ret->app_name = seconds ? row->user_seconds.app_name : row->user.app_name;
        ret->user_id = seconds ? row->user_seconds.user_id : row->user.user_id;
        *ret_state = seconds ? row->user_seconds.state.text : row->user.state.text;
        status = seconds ? adk_time_seconds(row->user_seconds.update_time, &time)
                         : adk_time_text(row->user.update_time, &time);
    } else {
        ret->app_name = seconds ? row->app_seconds.app_name : row->app.app_name;
        *ret_state = seconds ? row->app_seconds.state.text : row->app.state.text;
        status = seconds ? adk_time_seconds(row->app_seconds.update_time, &time)
                         : adk_time_text(row->app.update_time, &time);
    }
    ret->has_time = time.has;
    ret->updated_at = time.v;
    return status;
}

/* All rows of one table; `query` is the empty query of its type. Rows have no number of their own,
 * so errors count them. The scratch arena is reset after each row: `fn` has written or counted
 * it. */
static quipu_status adk_shared_walk(qp_source *source, const ent_entity *entity, const void *query,
                                    bool user, qp_source_shared_fn fn, void *ctx,
                                    quipu_error *reterr)
{
    ent_iter iter = {0};
    adk_shared_row row;
    int64_t number = 0;
    quipu_status status = ent_iter_begin(source->db, entity, query, &iter, reterr);

    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        qp_source_shared shared = {.has_time = false};
        quipu_str state = {NULL, 0};

        number++;
        status = adk_shared_read(&row, user, adk_has_seconds(source), &shared, &state);
        status = adk_bad_time(source, entity->table, number, status, reterr);
        if (status == QUIPU_OK) {
            status = adk_state(source, state, user ? QP_SCOPE_USER : QP_SCOPE_APP, &shared.state,
                               reterr);
            status = qp_source_fail(source, entity->table, number, status, reterr);
        }
        if (status == QUIPU_OK) {
            status = fn(ctx, &shared, reterr);
        }
        quipu_arena_reset(&source->scratch);
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* App state, then user state. Tables of the two kinds of files have types of their own in C,
 * although only their times differ. */
static quipu_status adk_shared(qp_source *source, qp_source_shared_fn fn, void *ctx,
                               quipu_error *reterr)
{
    const qp_adk_app_state_query apps = {0};
    const qp_adk_user_state_query users = {0};
    const qp_adks_app_state_query apps_seconds = {0};
    const qp_adks_user_state_query users_seconds = {0};
    quipu_status status;

    if (adk_has_seconds(source)) {
        status = adk_shared_walk(source, &qp_adks_app_state_entity, &apps_seconds, false, fn, ctx,
                                 reterr);
        return status == QUIPU_OK ? adk_shared_walk(source, &qp_adks_user_state_entity,
                                                    &users_seconds, true, fn, ctx, reterr)
                                  : status;
    }
    status = adk_shared_walk(source, &qp_adk_app_state_entity, &apps, false, fn, ctx, reterr);
    return status == QUIPU_OK
               ? adk_shared_walk(source, &qp_adk_user_state_entity, &users, true, fn, ctx, reterr)
               : status;
}

/* ---- sessions and events ----------------------------------------------------------------------
 */

/* Values and state of one session. An absent time stays absent: the row then gets the field's
 * default. An unreadable one fails, as for events. */
static quipu_status adk_session(qp_source *source, const qp_source_session *session,
                                qp_source_values *ret, quipu_error *reterr)
{
    const qp_adk_session *text = NULL;
    const qp_adks_session *seconds = NULL;
    quipu_str state = {NULL, 0};
    ent_opt_time created = {0};
    ent_opt_time updated = {0};
    quipu_status status =
        adk_has_seconds(source)
            ? qp_adks_session_get(source->db, &source->scratch, session->row, &seconds, reterr)
            : qp_adk_session_get(source->db, &source->scratch, session->row, &text, reterr);

    if (status != QUIPU_OK) {
        return qp_source_fail(source, "the session", session->row, status, reterr);
    }
    if (seconds != NULL) {
        state = seconds->state.text;
        status = adk_time_seconds(seconds->create_time, &created);
        status = status == QUIPU_OK ? adk_time_seconds(seconds->update_time, &updated) : status;
    } else {
        assert(text != NULL);
        state = text->state.text;
        status = adk_time_text(text->create_time, &created);
        status = status == QUIPU_OK ? adk_time_text(text->update_time, &updated) : status;
    }
    status = adk_bad_time(source, "the session", session->row, status, reterr);
    if (status == QUIPU_OK) {
        *ret = (qp_source_values){.row = {.app_name = session->ref.app_name,
                                          .user_id = session->ref.user_id,
                                          .session_id = session->ref.session_id,
                                          .created_at = created,
                                          .updated_at = updated,
                                          .last_event_at = updated}};
        status = adk_state(source, state, QP_SCOPE_SESSION, &ret->state, reterr);
        status = qp_source_fail(source, "the session", session->row, status, reterr);
    }
    return status;
}

/* The event as JSON, then the same way as every event: codec, then row. The result is valid until
 * the next call. `row` is the row id of the event's table in all four layouts. */
static quipu_status adk_message(qp_source *source, const qp_source_session *session, int64_t row,
                                qp_message_new *ret, quipu_error *reterr)
{
    quipu_status status;

    (void)session;
    /* The previous message's row is not needed any more. */
    qp_encoded_free(&source->encoded);
    quipu_arena_reset(&source->row);
    status = qp_adk_event_json(source, row, reterr);
    if (status == QUIPU_OK) {
        status = qp_source_event(source, ret, reterr);
    }
    return qp_source_fail(source, "the event", row, status, reterr);
}

const qp_source_layout qp_source_adk = {
    .open = adk_open,
    .session = adk_session,
    .message = adk_message,
    .shared = adk_shared,
};
