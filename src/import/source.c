/* Shared by all foreign files: sessions and places are collected, sorted and counted.
 *
 * Owns: qp_source, freed by qp_source_close(). Called by: run.c, and the layouts (adk.c, lango.c,
 * llm.c, openai_agents.c, langgraph.c) through the functions at the end of source.h. The caller
 * holds a read transaction on the file.
 * Memory: one session is some names, one message is 32 bytes (its place); contents are read when
 * they are written. */
#include "import/source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <ent/migrate.h>

#include "adk/event.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/maintenance.h"

/* Prefixes an error with the file and the row. Keeps entity, field and rule of the original error,
 * and passes QUIPU_OK on. */
quipu_status qp_source_fail(const qp_source *source, const char *what, int64_t row,
                            quipu_status status, quipu_error *reterr)
{
    if (status != QUIPU_OK && reterr != NULL) {
        quipu_error cause = *reterr;

        (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                             "%s, %s in row %lld: %s", source->path, what, (long long)row,
                             cause.message);
        reterr->engine_code = cause.engine_code;
    }
    return status;
}

/* ---- gathering --------------------------------------------------------------------------------
 */

/* Makes space for one more item, doubling from 64. On failure *items stays as it was, and
 * qp_source_close() frees it. The callers store *items back before they look at the status, so that
 * a failure loses no array. */
static quipu_status source_grow(void **items, size_t *room, size_t count, size_t size,
                                quipu_error *reterr)
{
    size_t more = *room == 0 ? 64 : *room * 2;
    void *grown = count < *room ? *items : qp_realloc(*items, more * size);

    if (grown == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the file's sessions");
    }
    *room = count < *room ? *room : more;
    *items = grown;
    return QUIPU_OK;
}

/* Names are copied; the row's own texts are gone with the next row. */
quipu_status qp_source_add_session(qp_source *source, const quipu_session_ref *ref, int64_t row,
                                   quipu_error *reterr)
{
    void *items = source->sessions;
    qp_source_session session = {.row = row};
    quipu_status status =
        source_grow(&items, &source->session_room, source->session_count, sizeof(session), reterr);

    source->sessions = items;
    if (status != QUIPU_OK) {
        return status;
    }
    status = quipu_arena_copy(&source->arena, ref->app_name, &session.ref.app_name);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&source->arena, ref->user_id, &session.ref.user_id);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&source->arena, ref->session_id, &session.ref.session_id);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for the file's sessions");
    }
    source->sessions[source->session_count++] = session;
    return QUIPU_OK;
}

/* Remembers where a message belongs: 32 bytes for each message of the file, whatever its size. */
quipu_status qp_source_add_place(qp_source *source, qp_source_place place, quipu_error *reterr)
{
    void *items = source->places;
    quipu_status status =
        source_grow(&items, &source->place_room, source->place_count, sizeof(place), reterr);

    source->places = items;
    if (status == QUIPU_OK) {
        source->places[source->place_count++] = place;
    }
    return status;
}

/* A chat program's message: 48 bytes beside its place. Its index is the `row` of its place, which
 * qp_chat_add() adds right behind it. */
quipu_status qp_source_add_item(qp_source *source, const qp_source_item *item, quipu_error *reterr)
{
    void *items = source->items;
    quipu_status status =
        source_grow(&items, &source->item_room, source->item_count, sizeof(*item), reterr);

    source->items = items;
    if (status == QUIPU_OK) {
        source->items[source->item_count++] = *item;
    }
    return status;
}

/* App, user, session id. */
static int source_compare_ref(const quipu_session_ref *a, const quipu_session_ref *b)
{
    int order = qp_str_cmp(a->app_name, b->app_name);

    order = order != 0 ? order : qp_str_cmp(a->user_id, b->user_id);
    return order != 0 ? order : qp_str_cmp(a->session_id, b->session_id);
}

/* For qsort() and bsearch(): by app, user and session id, which is unique in a file. */
static int source_compare_sessions(const void *a, const void *b)
{
    const qp_source_session *x = a;
    const qp_source_session *y = b;

    return source_compare_ref(&x->ref, &y->ref);
}

/* By session, then time, then row: a total order, since rows are unique. Equal times are frequent,
 * and ADK inserts events in order. Places of chat programs all have time 0: their order is that of
 * their items. */
static int source_compare_places(const void *a, const void *b)
{
    const qp_source_place *x = a;
    const qp_source_place *y = b;
    int order = (x->session > y->session) - (x->session < y->session);

    order = order != 0 ? order : quipu_time_cmp(x->time, y->time);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

/* By name, for qp_source_find(). qsort() must not be called with NULL, even for no elements. */
void qp_source_sort_sessions(qp_source *source)
{
    if (source->session_count > 0) {
        qsort(source->sessions, source->session_count, sizeof(*source->sessions),
              source_compare_sessions);
    }
}

/* By name; sessions must be sorted. log n comparisons for each event of the file, without memory of
 * its own. */
size_t qp_source_find(const qp_source *source, const quipu_session_ref *ref)
{
    const qp_source_session wanted = {.ref = *ref};
    const qp_source_session *found =
        source->session_count == 0 ? NULL
                                   : bsearch(&wanted, source->sessions, source->session_count,
                                             sizeof(*source->sessions), source_compare_sessions);

    return found != NULL ? (size_t)(found - source->sessions) : source->session_count;
}

/* Counted even without a callback. The callback runs on the caller's thread, inside of the file's
 * read transaction; its texts are valid until it returns. */
void qp_source_report_orphan(qp_source *source, const quipu_session_ref *ref, int64_t row)
{
    source->orphans++;
    if (source->orphan != NULL) {
        const quipu_orphan orphan = {ref->app_name, ref->user_id, ref->session_id, row};

        source->orphan(source->orphan_ctx, &orphan);
    }
}

/* ---- columns ----------------------------------------------------------------------------------
 */

/* Older versions of a program lack columns that newer ones have; the entity is reduced to what the
 * file has. The key is first and has no column that could be looked up. A missing nullable column
 * reads as NULL, which the layouts handle as absent. The copy has no indexes: they say nothing
 * about a file of another program. */
quipu_status qp_source_fit(qp_source *source, const ent_entity *entity, ent_entity *ret,
                           quipu_error *reterr)
{
    size_t size = entity->field_count * sizeof(*entity->fields);
    ent_field *fields = qp_arena_take(&source->arena, size);
    quipu_status status = QUIPU_OK;
    uint8_t count = 0;

    assert(entity->key_count == 1 && entity->key[0] == 0 && entity->edge_count == 0);
    if (fields == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %s", source->path);
    }
    for (uint8_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        const ent_field *field = &entity->fields[i];
        bool has = i == 0; /* the key is the row id, not a column that can be looked up */

        if (!has) {
            status = ent_step_has_column(source->db, entity->table, field->column, &has, reterr);
        }
        if (status == QUIPU_OK && has) {
            fields[count++] = *field;
        } else if (status == QUIPU_OK && (field->flags & ENT_F_NULLABLE) == 0) {
            status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                  "%s: its table %s has no column %s; this layout is not known",
                                  source->path, entity->table, field->column);
        }
    }
    if (status == QUIPU_OK) {
        *ret = *entity;
        ret->fields = fields;
        ret->field_count = count;
        ret->indexes = NULL;
        ret->index_count = 0;
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* The first finding is enough to refuse the file; its status ends the check. */
static quipu_status source_on_finding(void *ctx, quipu_str text)
{
    *(bool *)ctx = true;
    (void)text;
    return QUIPU_CORRUPT;
}

/* Runs the engine's integrity check. Tables and indexes are different pages: reading tables alone
 * would import the rest of a damaged file without noticing. */
static quipu_status source_intact(const qp_source *source, quipu_error *reterr)
{
    bool damaged = false;
    quipu_status status = qp_maintenance_intact(source->db, source_on_finding, &damaged, reterr);

    return damaged ? qp_error_set(reterr, QUIPU_CORRUPT,
                                  "%s is damaged; repair it with \"sqlite3 FILE .recover\"",
                                  source->path)
                   : status;
}

/* Counts and ids are the event's own. The batch of the previous event is freed first, so that
 * memory does not grow with the file. source->buf has the event's JSON; the codec of src/adk reads
 * it, so that an imported event is stored as one that a session service appends. */
quipu_status qp_source_event(qp_source *source, qp_message_new *ret, quipu_error *reterr)
{
    quipu_message message = {.role = (quipu_role)0};
    qp_event_facts facts;
    quipu_status status = qp_event_parse(&source->doc, qp_buf_str(&source->buf), reterr);

    if (status == QUIPU_OK) {
        status = qp_event_encode(&source->doc, (quipu_str){NULL, 0}, &source->row, &message, &facts,
                                 reterr);
    }
    if (status == QUIPU_OK) {
        qp_encoded_free(&source->encoded);
        status = qp_encoded_make(&source->encoded, QP_MESSAGES_PARSED,
                                 quipu_messages_of(&message, 1), source->bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        *ret = source->encoded.rows[0];
    }
    return status;
}

/* The layout of each kind; AUTO has none. */
static const qp_source_layout *source_layout(quipu_source_kind kind)
{
    switch (kind) {
    case QUIPU_SOURCE_LANGO:
        return &qp_source_lango;
    case QUIPU_SOURCE_LLM:
        return &qp_source_llm;
    case QUIPU_SOURCE_OPENAI_AGENTS:
        return &qp_source_openai_agents;
    case QUIPU_SOURCE_LANGGRAPH:
        return &qp_source_langgraph;
    default:
        assert(kind != QUIPU_SOURCE_AUTO);
        return &qp_source_adk;
    }
}

/* After sorting, each session's messages are consecutive places; counting backwards leaves `first`
 * at the lowest. */
quipu_status qp_source_open(qp_source *source, quipu_error *reterr)
{
    quipu_status status;

    source->layout = source_layout(source->kind);
    qp_buf_init(&source->buf, QP_SOURCE_TEXT_MAX);
    qp_buf_init(&source->extra, QP_SOURCE_TEXT_MAX);
    qp_json_init(&source->doc);
    qp_json_init(&source->item_doc);
    status = source_intact(source, reterr);
    if (status == QUIPU_OK) {
        status = source->layout->open(source, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (source->place_count > 0) {
        qsort(source->places, source->place_count, sizeof(*source->places), source_compare_places);
    }
    for (size_t i = source->place_count; i > 0; i--) {
        qp_source_session *session = &source->sessions[source->places[i - 1].session];

        session->first = i - 1;
        session->count++;
    }
    return QUIPU_OK;
}

/* Closes a source after a failed open, too, and one that was never opened: all members are zero
 * then. The connection belongs to the caller. */
void qp_source_close(qp_source *source)
{
    qp_encoded_free(&source->encoded);
    qp_json_free(&source->doc);
    qp_json_free(&source->item_doc);
    qp_buf_free(&source->buf);
    qp_buf_free(&source->extra);
    quipu_arena_free(&source->row);
    quipu_arena_free(&source->scratch);
    quipu_arena_free(&source->arena);
    qp_free(source->sessions);
    qp_free(source->places);
    qp_free(source->items);
}
