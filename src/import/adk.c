/* ADK's files: sessions and states, whose tables differ in their times only, and events, which are
 * four layouts of the same thing (adk_event.c). */
#include "import/source.h"

#include <assert.h>

#include "adk/event.h"
#include "base/arena.h"
#include "base/error.h"
#include "gen/adk_database.h"
#include "gen/adk_go.h"
#include "gen/adk_sqlite.h"
#include "gen/adk_v0.h"

#define ADK_PLACE_FIELDS 5 /* of an event: row, app, user, session, time */

static bool adk_has_seconds(const qp_source *source)
{
    return source->kind == QUIPU_SOURCE_ADK_SQLITE;
}

/* ---- times ------------------------------------------------------------------------------------
 */

static quipu_status adk_time_text(quipu_str text, ent_opt_time *ret)
{
    ret->has = text.p != NULL;
    return ret->has ? qp_adk_time(text, &ret->v) : QUIPU_OK;
}

static quipu_status adk_time_seconds(ent_opt_float seconds, ent_opt_time *ret)
{
    ret->has = seconds.has;
    return ret->has ? qp_adk_seconds(seconds.v, &ret->v) : QUIPU_OK;
}

static quipu_status adk_bad_time(const qp_source *source, const char *what, int64_t row,
                                 quipu_status status, quipu_error *reterr)
{
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_source_fail(source, what, row, qp_error_set(reterr, status, "a time is none"),
                                reterr);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

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
        const quipu_session_ref ref =
            seconds ? (quipu_session_ref){row.seconds.app_name, row.seconds.user_id,
                                          row.seconds.session_id}
                    : (quipu_session_ref){row.text.app_name, row.text.user_id, row.text.session_id};
        status =
            qp_source_add_session(source, &ref, seconds ? row.seconds.id : row.text.id, reterr);
    }
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

static quipu_status adk_place(qp_source *source, const quipu_session_ref *ref, int64_t row,
                              ent_opt_time time, quipu_error *reterr)
{
    const size_t session = qp_source_find(source, ref);

    if (session == source->session_count) {
        qp_source_tell_orphan(source, ref, row);
        return QUIPU_OK;
    }
    return qp_source_add_place(source, (qp_source_place){session, time.v, row}, reterr);
}

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

    source->place = seconds ? qp_adks_event_entity : qp_adk_event_entity;
    source->place.field_count = ADK_PLACE_FIELDS;
    status =
        ent_iter_begin(source->db, &source->place,
                       seconds ? (const void *)&all_seconds : (const void *)&all, &iter, reterr);
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        const quipu_session_ref ref =
            seconds ? (quipu_session_ref){row.seconds.app_name, row.seconds.user_id,
                                          row.seconds.session_id}
                    : (quipu_session_ref){row.text.app_name, row.text.user_id, row.text.session_id};
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

/* A count by an index and a walk over the table must agree: they are different pages. */
static quipu_status adk_count(qp_source *source, quipu_error *reterr)
{
    const int64_t seen = (int64_t)source->place_count + source->orphans;
    const qp_adk_event_where any = {0};
    int64_t counted = 0;
    quipu_status status = qp_adk_event_count(source->db, &any, &counted, reterr);

    if (status == QUIPU_OK && counted != seen) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "%s counts %lld events and shows %lld; repair it with "
                              "\"sqlite3 FILE .recover\"",
                              source->path, (long long)counted, (long long)seen);
    }
    return status;
}

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
    return status == QUIPU_OK ? adk_count(source, reterr) : status;
}

/* ---- state ------------------------------------------------------------------------------------
 */

/* The members of a state object as items of one scope; texts lie in the text and in the arena. */
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
    if (qp_json_kind_of(root) == QP_JSON_NULL) {
        return QUIPU_OK;
    }
    if (qp_json_kind_of(root) != QP_JSON_OBJECT) {
        return qp_error_set(reterr, QUIPU_INVALID, "the state is no JSON object");
    }
    count = qp_json_count(root);
    items = qp_arena_take(&source->scratch, (count + 1) * sizeof(*items));
    if (items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for %zu keys of state", count);
    }
    qp_json_iter iter = qp_json_each(root);
    for (size_t i = 0; status == QUIPU_OK && qp_json_next(&iter); i++) {
        items[i] = (qp_state_item){.scope = scope, .value = qp_json_raw(iter.value)};
        status = qp_json_text(iter.key, &source->scratch, &items[i].name, NULL);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the state has a key that cannot be read");
    }
    *ret = (qp_state_items){items, count};
    return QUIPU_OK;
}

static quipu_status adk_shared_one(qp_source *source, qp_source_shared *shared, quipu_str state,
                                   ent_opt_time time, qp_source_shared_fn fn, void *ctx,
                                   quipu_error *reterr)
{
    const bool user = shared->user_id.p != NULL;
    quipu_status status =
        adk_state(source, state, user ? QP_SCOPE_USER : QP_SCOPE_APP, &shared->state, reterr);

    shared->has_time = time.has;
    shared->updated_at = time.v;
    return status == QUIPU_OK ? fn(ctx, shared, reterr) : status;
}

static quipu_status adk_shared_text(qp_source *source, qp_source_shared_fn fn, void *ctx,
                                    quipu_error *reterr)
{
    qp_adk_app_state_iter apps = {0};
    qp_adk_user_state_iter users = {0};
    qp_adk_app_state app;
    qp_adk_user_state user;
    ent_opt_time time = {0};
    quipu_status ended;
    quipu_status status =
        qp_adk_app_state_iter_begin(source->db, &(qp_adk_app_state_query){0}, &apps, reterr);

    while (status == QUIPU_OK && qp_adk_app_state_iter_next(&apps, &app)) {
        qp_source_shared shared = {.app_name = app.app_name};
        status = adk_bad_time(source, "the app's state", app.id,
                              adk_time_text(app.update_time, &time), reterr);
        if (status == QUIPU_OK) {
            status = adk_shared_one(source, &shared, app.state.text, time, fn, ctx, reterr);
        }
        quipu_arena_reset(&source->scratch);
    }
    ended = qp_adk_app_state_iter_end(&apps, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK) {
        status =
            qp_adk_user_state_iter_begin(source->db, &(qp_adk_user_state_query){0}, &users, reterr);
    }
    while (status == QUIPU_OK && qp_adk_user_state_iter_next(&users, &user)) {
        qp_source_shared shared = {.app_name = user.app_name, .user_id = user.user_id};
        status = adk_bad_time(source, "the user's state", user.id,
                              adk_time_text(user.update_time, &time), reterr);
        if (status == QUIPU_OK) {
            status = adk_shared_one(source, &shared, user.state.text, time, fn, ctx, reterr);
        }
        quipu_arena_reset(&source->scratch);
    }
    ended = qp_adk_user_state_iter_end(&users, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

static quipu_status adk_shared_seconds(qp_source *source, qp_source_shared_fn fn, void *ctx,
                                       quipu_error *reterr)
{
    qp_adks_app_state_iter apps = {0};
    qp_adks_user_state_iter users = {0};
    qp_adks_app_state app;
    qp_adks_user_state user;
    ent_opt_time time = {0};
    quipu_status ended;
    quipu_status status =
        qp_adks_app_state_iter_begin(source->db, &(qp_adks_app_state_query){0}, &apps, reterr);

    while (status == QUIPU_OK && qp_adks_app_state_iter_next(&apps, &app)) {
        qp_source_shared shared = {.app_name = app.app_name};
        status = adk_bad_time(source, "the app's state", app.id,
                              adk_time_seconds(app.update_time, &time), reterr);
        if (status == QUIPU_OK) {
            status = adk_shared_one(source, &shared, app.state.text, time, fn, ctx, reterr);
        }
        quipu_arena_reset(&source->scratch);
    }
    ended = qp_adks_app_state_iter_end(&apps, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK) {
        status = qp_adks_user_state_iter_begin(source->db, &(qp_adks_user_state_query){0}, &users,
                                               reterr);
    }
    while (status == QUIPU_OK && qp_adks_user_state_iter_next(&users, &user)) {
        qp_source_shared shared = {.app_name = user.app_name, .user_id = user.user_id};
        status = adk_bad_time(source, "the user's state", user.id,
                              adk_time_seconds(user.update_time, &time), reterr);
        if (status == QUIPU_OK) {
            status = adk_shared_one(source, &shared, user.state.text, time, fn, ctx, reterr);
        }
        quipu_arena_reset(&source->scratch);
    }
    ended = qp_adks_user_state_iter_end(&users, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

static quipu_status adk_shared(qp_source *source, qp_source_shared_fn fn, void *ctx,
                               quipu_error *reterr)
{
    return adk_has_seconds(source) ? adk_shared_seconds(source, fn, ctx, reterr)
                                   : adk_shared_text(source, fn, ctx, reterr);
}

/* ---- sessions and events ----------------------------------------------------------------------
 */

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

static quipu_status adk_message(qp_source *source, const qp_source_session *session, int64_t row,
                                qp_message_new *ret, quipu_error *reterr)
{
    quipu_message message = {.role = (quipu_role)0};
    qp_event_facts facts;
    quipu_status status;

    (void)session;
    qp_batch_free(&source->batch);
    quipu_arena_reset(&source->row);
    status = qp_adk_event_json(source, row, reterr);
    if (status == QUIPU_OK) {
        status = qp_event_parse(&source->doc, qp_buf_str(&source->buf), reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_event_encode(&source->doc, (quipu_str){NULL, 0}, &source->row, &message, &facts,
                                 reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_batch_encode(&source->batch, &message, 1, source->bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        *ret = source->batch.rows[0];
    }
    return qp_source_fail(source, "the event", row, status, reterr);
}

const qp_source_layout qp_source_adk = {
    .open = adk_open,
    .session = adk_session,
    .message = adk_message,
    .shared = adk_shared,
};
