/* The lines of an export that are rows of one table each: state, what is known of sessions, what
 * was sent and used, artifacts. Sessions and messages are export.c's.
 *
 * Owns: which rows of these tables an export has, and their order; both are part of the format
 * (docs/export.md). A table is added with a member of the union, a function that makes its query,
 * and a call in export.c.
 * Called by: export.c, for each session and for what belongs to none.
 * Transactions: the one read transaction of the export; nothing is written.
 * On return the lines are in the run's buffer or with the caller; a failure has its error set, and
 * what was written before stays. */
#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "store/export_lines.h"
#include "store/export_row.h"
#include "store/export_run.h"

/* A row of any of the tables that tables_walk() reads. */
typedef union tables_row {
    qp_state state;
    qp_state_event event;
    qp_model_factor factor;
    qp_observation observation;
    qp_reflection reflection;
    qp_memory_scope scope;
    qp_context_log context;
    qp_usage usage;
} tables_row;

/* A table, the rows that are wanted of it, and the lines that they become. */
typedef struct tables_source {
    const char *type; /* of the lines */
    const ent_entity *entity;
    const void *query;           /* of the entity's own type */
    const char *const *left_out; /* fields that the line does not have, or NULL */
    int64_t *count;              /* of the footer, or NULL */
    /* Which of the rows are written; NULL: all. */
    quipu_status (*is_wanted)(const qp_export_run *run, const tables_row *row, bool *ret_wanted,
                              quipu_error *reterr);
} tables_source;

/* One row at a time: memory does not grow with the table. */
static quipu_status tables_walk(qp_export_run *run, const tables_source *source,
                                quipu_error *reterr)
{
    ent_iter iter = {0};
    tables_row row;
    quipu_status status = ent_iter_begin(run->db, source->entity, source->query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        bool wanted = true;

        if (source->is_wanted != NULL) {
            status = source->is_wanted(run, &row, &wanted, reterr);
        }
        if (status == QUIPU_OK && wanted) {
            qp_export_begin(run, source->type);
            qp_export_row(&run->writer, source->entity, &row, source->left_out);
            status = qp_export_end(run, source->count, reterr);
        }
    }
    /* The first failure is reported: ending an iteration must not replace the error of a row. */
    quipu_status ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* ---- state ------------------------------------------------------------------------------------
 */

quipu_status qp_export_states(qp_export_run *run, const qp_state_where *where, bool in_session,
                              quipu_error *reterr)
{
    static const char *const left_out[] = {"app_name", "user_id", NULL};
    const qp_state_query query = {
        .order = {QP_STATE_BY_APP_NAME(ASC), QP_STATE_BY_USER_ID(ASC), QP_STATE_BY_NAME(ASC)},
        .where = *where};

    assert(run->db != NULL);
    return tables_walk(run,
                       &(tables_source){.type = "state",
                                        .entity = &qp_state_entity,
                                        .query = &query,
                                        .left_out = in_session ? left_out : NULL,
                                        .count = &run->done.states},
                       reterr);
}

quipu_status qp_export_state_events(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const qp_state_event_query query = {.order = {QP_STATE_EVENT_BY_NUMBER(ASC)},
                                        .where = {.session_number = ent_eq(row->id)}};

    return tables_walk(
        run,
        &(tables_source){.type = "state_event", .entity = &qp_state_event_entity, .query = &query},
        reterr);
}

/* ---- models -----------------------------------------------------------------------------------
 */

/* Rows that a program writes to see that the store takes writes are not data. */
static quipu_status tables_is_learned(const qp_export_run *run, const tables_row *row,
                                      bool *ret_wanted, quipu_error *reterr)
{
    const quipu_str head = QUIPU_STR(QUIPU_FACTOR_PROBE);
    const quipu_str model = row->factor.model;

    (void)run;
    (void)reterr;
    *ret_wanted = model.n < head.n || memcmp(model.p, head.p, head.n) != 0;
    return QUIPU_OK;
}

quipu_status qp_export_factors(qp_export_run *run, quipu_error *reterr)
{
    const qp_model_factor_query query = {.order = {QP_MODEL_FACTOR_BY_MODEL(ASC)},
                                         .where = {.tenant = ent_eq(run->store->tenant)}};

    return tables_walk(run,
                       &(tables_source){.type = "factor",
                                        .entity = &qp_model_factor_entity,
                                        .query = &query,
                                        .is_wanted = tables_is_learned},
                       reterr);
}

quipu_status qp_export_contexts(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const qp_context_log_query query = {.order = {QP_CONTEXT_LOG_BY_SEQ(ASC)},
                                        .where = {.session_number = ent_eq(row->id)}};

    return tables_walk(
        run, &(tables_source){.type = "context", .entity = &qp_context_log_entity, .query = &query},
        reterr);
}

quipu_status qp_export_usage(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const qp_usage_query query = {.order = {QP_USAGE_BY_SEQ(ASC)},
                                  .where = {.session_number = ent_eq(row->id)}};

    assert(run->db != NULL && row->id > 0);
    /* Without an answer that has reported its usage there is no row to look for. */
    return row->answer_count == 0
               ? QUIPU_OK
               : tables_walk(
                     run,
                     &(tables_source){.type = "usage", .entity = &qp_usage_entity, .query = &query},
                     reterr);
}

/* ---- what is known ----------------------------------------------------------------------------
 */

/* Whether no session has the memory's key, which is all that it names of one. */
static quipu_status tables_is_alone(const qp_export_run *run, quipu_str key, bool *ret_alone,
                                    quipu_error *reterr)
{
    const qp_session_where session = {.tenant = ent_eq(run->store->tenant), .key = ent_eq(key)};
    bool has_session = false;
    quipu_status status;

    assert(key.p != NULL);
    status = qp_session_exists(run->db, &session, &has_session, reterr);
    *ret_alone = !has_session;
    return status;
}

static quipu_status tables_seen_is_alone(const qp_export_run *run, const tables_row *row,
                                         bool *ret_wanted, quipu_error *reterr)
{
    return tables_is_alone(run, row->observation.session_key, ret_wanted, reterr);
}

static quipu_status tables_thought_is_alone(const qp_export_run *run, const tables_row *row,
                                            bool *ret_wanted, quipu_error *reterr)
{
    return tables_is_alone(run, row->reflection.session_key, ret_wanted, reterr);
}

/* The session's, by the index; or, with an absent key, those without a session: for these every row
 * of the tenant is read, because there is no index of keys that no session has. Each row is in
 * exactly one of both walks. */
static quipu_status tables_memories(qp_export_run *run, quipu_str key, quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(run->store->tenant);
    const bool alone = key.p == NULL;
    qp_observation_query seen = {
        .order = {QP_OBSERVATION_BY_SESSION_KEY(ASC), QP_OBSERVATION_BY_NUMBER(ASC)},
        .where = {.tenant = tenant}};
    qp_reflection_query thought = {
        .order = {QP_REFLECTION_BY_SESSION_KEY(ASC), QP_REFLECTION_BY_NUMBER(ASC)},
        .where = {.tenant = tenant}};
    quipu_status status;

    if (!alone) {
        seen.where.session_key = thought.where.session_key = ent_eq(key);
    }
    status = tables_walk(run,
                         &(tables_source){.type = "observation",
                                          .entity = &qp_observation_entity,
                                          .query = &seen,
                                          .count = &run->done.memories,
                                          .is_wanted = alone ? tables_seen_is_alone : NULL},
                         reterr);
    return status == QUIPU_OK
               ? tables_walk(run,
                             &(tables_source){.type = "reflection",
                                              .entity = &qp_reflection_entity,
                                              .query = &thought,
                                              .count = &run->done.memories,
                                              .is_wanted = alone ? tables_thought_is_alone : NULL},
                             reterr)
               : status;
}

quipu_status qp_export_memories(qp_export_run *run, quipu_str key, quipu_error *reterr)
{
    qp_memory_scope_query scopes = {
        .order = {QP_MEMORY_SCOPE_BY_SCOPE(ASC)},
        .where = {.tenant = ent_eq(run->store->tenant),
                  .kind = qp_memory_scope_kind_is(key.p != NULL ? QP_MEMORY_SCOPE_KIND_SESSION
                                                                : QP_MEMORY_SCOPE_KIND_USER)}};
    quipu_status status = tables_memories(run, key, reterr);

    if (key.p != NULL) {
        scopes.where.scope = ent_eq(key);
    }
    return status == QUIPU_OK ? tables_walk(run,
                                            &(tables_source){.type = "memory_scope",
                                                             .entity = &qp_memory_scope_entity,
                                                             .query = &scopes},
                                            reterr)
                              : status;
}

/* ---- artifacts --------------------------------------------------------------------------------
 */

quipu_status qp_export_artifacts(qp_export_run *run, const qp_artifact_where *where,
                                 quipu_error *reterr)
{
    const qp_artifact_query query = {
        .order = {QP_ARTIFACT_BY_APP_NAME(ASC), QP_ARTIFACT_BY_USER_ID(ASC),
                  QP_ARTIFACT_BY_NAME(ASC), QP_ARTIFACT_BY_VERSION(ASC)},
        .where = *where};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_artifact_iter iter;
    qp_artifact row;
    quipu_status status = qp_artifact_iter_begin(run->db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_artifact_iter_next(&iter, &row)) {
        /* One blob at a time: each may have 32 MiB, and the arena is freed behind its line. */
        const qp_blob *blob = NULL;

        status = qp_blob_get(run->db, &arena, row.tenant, row.app_name, row.user_id, row.hash,
                             &blob, reterr);
        if (status == QUIPU_OK) {
            qp_export_begin(run, "artifact");
            qp_export_row(&run->writer, &qp_artifact_entity, &row, NULL);
            qp_jsonw_key(&run->writer, QUIPU_STR(QP_EXPORT_DATA));
            qp_base64_json(&run->writer, blob->data);
            status = qp_export_end(run, NULL, reterr);
        }
        quipu_arena_free(&arena);
    }
    quipu_status ended = qp_artifact_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* The artifacts of a key, an app and a user, unless a session has all three. */
static quipu_status tables_loose_place(qp_export_run *run, const quipu_str place[3],
                                       quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(run->store->tenant), key = ent_eq(place[0]);
    const ent_where_text app = ent_eq(place[1]), user = ent_eq(place[2]);
    const qp_session_where session = {
        .tenant = tenant, .key = key, .app_name = app, .user_id = user};
    const qp_artifact_where where = {
        .tenant = tenant, .session_key = key, .app_name = app, .user_id = user};
    bool has_session = false;
    /* Without a key they are those of a user. */
    quipu_status status =
        place[0].n > 0 ? qp_session_exists(run->db, &session, &has_session, reterr) : QUIPU_OK;

    return status != QUIPU_OK || has_session ? status : qp_export_artifacts(run, &where, reterr);
}

quipu_status qp_export_loose_artifacts(qp_export_run *run, quipu_error *reterr)
{
    const qp_artifact_query query = {.order = {QP_ARTIFACT_BY_SESSION_KEY(ASC),
                                               QP_ARTIFACT_BY_APP_NAME(ASC),
                                               QP_ARTIFACT_BY_USER_ID(ASC)},
                                     .where = {.tenant = ent_eq(run->store->tenant)}};
    qp_artifact_iter iter;
    qp_artifact row;
    quipu_str last[3] = {QP_STR_ABSENT};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = qp_artifact_iter_begin(run->db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_artifact_iter_next(&iter, &row)) {
        const quipu_str place[3] = {row.session_key, row.app_name, row.user_id};

        /* Rows of one place stand together: the first of them stands for all. */
        if (last[0].p != NULL && quipu_str_eq(last[0], place[0]) &&
            quipu_str_eq(last[1], place[1]) && quipu_str_eq(last[2], place[2])) {
            continue;
        }
        /* The row's texts end with the next step of the iteration. */
        quipu_arena_reset(&arena);
        for (size_t i = 0; i < 3 && status == QUIPU_OK; i++) {
            status = quipu_arena_copy(&arena, place[i], &last[i]);
        }
        status = status == QUIPU_OK ? tables_loose_place(run, last, reterr) : status;
    }
    quipu_arena_free(&arena);
    quipu_status ended = qp_artifact_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}
