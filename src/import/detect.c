/* Which program wrote a file, by its tables and columns, in the order in which the layouts exclude
 * each other:
 *
 *   messages.session_messages ─▶ Lango
 *   responses.conversation_id ─▶ llm
 *   agent_messages.message_data ─▶ OpenAI Agents
 *   checkpoints.checkpoint_ns ─▶ LangGraph
 *   sessions.app_name ─▶ ADK: a version row ─▶ layout 1
 *                             event_data    ─▶ database or sqlite, by the form of its times
 *                             actions       ─▶ v0 or Go, by pickle or JSON
 *
 * Called by: run.c, within its read transaction. Owns nothing.
 * On return the kind is one that a layout exists for, or the error says why none fits. */
#include "import/source.h"

#include <string.h>

#include <ent/migrate.h>

#include "base/error.h"
#include "gen/adk_database.h"
#include "gen/adk_v0.h"

/* ADK's layout 1 has a table with its version. An unknown version is refused: a layout that is only
 * similar would lose data silently. */
static quipu_status detect_marked(ent_db *db, quipu_arena *arena, bool *ret_is, quipu_error *reterr)
{
    const qp_adk_metadata *row = NULL;
    bool has = false;
    quipu_status status = ent_step_has_table(db, "adk_internal_metadata", &has, reterr);

    *ret_is = false;
    if (status != QUIPU_OK || !has) {
        return status;
    }
    status = qp_adk_metadata_get(db, arena, QUIPU_STR("schema_version"), &row, reterr);
    if (status == QUIPU_NOT_FOUND) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && !quipu_str_eq(row->value, QUIPU_STR("1"))) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the file has ADK's layout %s; layouts 0 and 1 are known",
                            row->value.p);
    }
    *ret_is = status == QUIPU_OK;
    return status;
}

/* Both layouts have events as JSON; one of them writes times as numbers. A file without sessions
 * can be either, and importing nothing is right in both cases. */
static quipu_status detect_times(ent_db *db, quipu_arena *arena, quipu_source_kind *ret,
                                 quipu_error *reterr)
{
    qp_adk_session_list list = {0};
    quipu_status status =
        qp_adk_session_find(db, arena, &(qp_adk_session_query){.limit = 1}, &list, reterr);

    *ret = QUIPU_SOURCE_ADK_SQLITE;
    if (status == QUIPU_OK && list.n > 0 && list.items[0].update_time.p != NULL) {
        quipu_str time = list.items[0].update_time;
        /* A date has dashes after its first character; a number has one there only in an
         * exponent. */
        if (time.n > 1 && memchr(time.p + 1, '-', time.n - 1) != NULL &&
            memchr(time.p, 'e', time.n) == NULL) {
            *ret = QUIPU_SOURCE_ADK_DATABASE;
        }
    }
    return status;
}

/* Both layouts have one column for each field; Go's actions are JSON, Python's a pickle. Without
 * events it may be either, which again makes no difference. */
static quipu_status detect_actions(ent_db *db, quipu_arena *arena, quipu_source_kind *ret,
                                   quipu_error *reterr)
{
    bool routes = false;
    quipu_status status = ent_step_has_column(db, "events", "routes_json", &routes, reterr);
    ent_entity entity = qp_adk0_event_entity;
    qp_adk0_event_list list = {0};

    *ret = routes ? QUIPU_SOURCE_ADK_GO : QUIPU_SOURCE_ADK_V0;
    if (status != QUIPU_OK || routes) {
        return status;
    }
    /* Only fields up to `actions`: columns behind it may be missing in older files. */
    while (strcmp(entity.fields[entity.field_count - 1].name, "actions") != 0) {
        entity.field_count--;
    }
    status = ent_find(db, arena, &entity, &(qp_adk0_event_query){.limit = 1}, &list, reterr);
    if (status == QUIPU_OK && list.n > 0 && list.items[0].actions.n > 0 &&
        *(const char *)list.items[0].actions.p == '{') {
        *ret = QUIPU_SOURCE_ADK_GO;
    }
    return status;
}

/* Sorts out ADK's four layouts: the version row first, because it is the only mark that ADK left on
 * purpose; columns are the evidence of files without one. */
static quipu_status detect_adk(ent_db *db, quipu_arena *arena, quipu_source_kind *ret,
                               quipu_error *reterr)
{
    bool marked = false;
    bool data = false;
    bool actions = false;
    quipu_status status = detect_marked(db, arena, &marked, reterr);

    *ret = QUIPU_SOURCE_ADK_DATABASE;
    if (status != QUIPU_OK || marked) {
        return status;
    }
    *ret = QUIPU_SOURCE_AUTO;
    status = ent_step_has_column(db, "events", "event_data", &data, reterr);
    if (status == QUIPU_OK && data) {
        return detect_times(db, arena, ret, reterr);
    }
    if (status == QUIPU_OK) {
        status = ent_step_has_column(db, "events", "actions", &actions, reterr);
    }
    return status == QUIPU_OK && actions ? detect_actions(db, arena, ret, reterr) : status;
}

/* Chat programs, each by a column that only its own table has. */
static quipu_status detect_chat(ent_db *db, quipu_source_kind *ret, quipu_error *reterr)
{
    static const struct {
        const char *table;
        const char *column;
        quipu_source_kind kind;
    } marks[] = {{"responses", "conversation_id", QUIPU_SOURCE_LLM},
                 {"agent_messages", "message_data", QUIPU_SOURCE_OPENAI_AGENTS},
                 {"checkpoints", "checkpoint_ns", QUIPU_SOURCE_LANGGRAPH}};
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && status == QUIPU_OK; i++) {
        bool has = false;

        status = ent_step_has_column(db, marks[i].table, marks[i].column, &has, reterr);
        if (status == QUIPU_OK && has) {
            *ret = marks[i].kind;
            return QUIPU_OK;
        }
    }
    return status;
}

/* A quipu store is recognized too, and refused with the way to do it. Its tables are Lango's with
 * more columns, so that event_id decides. */
static quipu_status detect_any(ent_db *db, quipu_arena *arena, quipu_source_kind *ret,
                               quipu_error *reterr)
{
    bool lango = false;
    bool ours = false;
    bool app = false;
    quipu_status status = ent_step_has_column(db, "messages", "session_messages", &lango, reterr);

    *ret = QUIPU_SOURCE_AUTO;
    if (status == QUIPU_OK && lango) {
        status = ent_step_has_column(db, "messages", "event_id", &ours, reterr);
        if (status == QUIPU_OK && ours) {
            return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                "the file is a quipu store; export it and import the export");
        }
        *ret = QUIPU_SOURCE_LANGO;
        return status;
    }
    if (status == QUIPU_OK) {
        status = detect_chat(db, ret, reterr);
    }
    if (status == QUIPU_OK && *ret == QUIPU_SOURCE_AUTO) {
        status = ent_step_has_column(db, "sessions", "app_name", &app, reterr);
    }
    return status == QUIPU_OK && app ? detect_adk(db, arena, ret, reterr) : status;
}

/* A kind that the caller names must be the one that is found: a wrong guess would import
 * nonsense. */
quipu_status qp_source_detect(ent_db *db, const char *path, quipu_source_kind wanted,
                              quipu_source_kind *ret_kind, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_source_kind found = QUIPU_SOURCE_AUTO;
    quipu_status status = detect_any(db, &arena, &found, reterr);

    quipu_arena_free(&arena);
    if (status != QUIPU_OK) {
        return status;
    }
    if (found == QUIPU_SOURCE_AUTO) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%s has no known layout: none of ADK's four, and none of Lango, llm, "
                            "OpenAI Agents and LangGraph",
                            path);
    }
    if (wanted != QUIPU_SOURCE_AUTO && wanted != found) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s is %s, not %s", path,
                            quipu_source_name(found), quipu_source_name(wanted));
    }
    *ret_kind = found;
    return QUIPU_OK;
}
