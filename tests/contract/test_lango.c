/* Real files that Lango wrote, with two Go drivers: read in place without a changed byte, and
 * adopted for good with nothing lost. */
#include "lib/t.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>

#include "gen/lango.h"
#include "gen/quipu.h"
#include "store/lango.h"

static const char *const lango_files[] = {"lango-mattn.db", "lango-modernc.db"};
#define LANGO_FILES 2

static ent_db *lango_open(const char *path, uint32_t flags)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    ent_db *db = NULL;
    quipu_error err = {0};

    options.flags = flags;
    T_OK(ent_sqlite_open(path, &options, &db, &err));
    return db;
}

static quipu_status lango_adopt(ent_db *db, ent_migrate_report *ret_report, quipu_error *reterr)
{
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    options.program = "test";
    options.steps = &qp_lango_adopt;
    options.step_count = 1;
    return ent_migrate(db, &qp_quipu_schema, &options, ret_report, reterr);
}

static void lango_time_is(quipu_time time, const char *expected)
{
    char text[QUIPU_TIME_TEXT_SIZE];

    T_OK(quipu_time_format(time, text));
    assert_string_equal(text, expected);
}

/* ---- reading in place ---------------------------------------------------------------------------
 */

static void lango_check_sessions(ent_db *db)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_lango_session_list sessions = {0};
    quipu_error err = {0};

    T_OK(qp_lango_session_find(db, &arena,
                               &(qp_lango_session_query){.order = {QP_LANGO_SESSION_BY_ID(ASC)}},
                               &sessions, &err));
    assert_int_equal(sessions.n, 2);
    T_STR(sessions.items[0].key, "telegram:123:456");
    T_STR(sessions.items[0].agent_id, "agent-1");
    T_STR(sessions.items[0].model, "claude-sonnet-4-20250514");
    T_STR(sessions.items[0].metadata.text,
          "{\"counter\":\"1\",\"lang\":\"ko\",\"obj\":\"{\\\"a\\\":1}\",\"user\":\"kim\"}");
    T_STR(sessions.items[1].key, "direct-plain");
    assert_null(sessions.items[1].agent_id.p);
    assert_null(sessions.items[1].metadata.text.p);
    quipu_arena_free(&arena);
}

static void lango_check_first_history(const qp_lango_message_list *list)
{
    static const char *const roles[] = {"user",      "assistant", "tool",     "tool",
                                        "assistant", "user",      "assistant"};
    static const char *const authors[] = {
        "user", "lango-orchestrator", "tool", "tool", "lango-orchestrator", "", ""};

    assert_int_equal(list->n, 7);
    for (size_t i = 0; i < 7; i++) {
        T_STR(list->items[i].role, roles[i]);
        T_STR(list->items[i].author, authors[i]);
        assert_int_equal(list->items[i].id, 3 + (int64_t)i);
    }
    lango_time_is(list->items[0].timestamp, "2026-04-13 10:00:00.123456789+00:00");
    T_STR(list->items[2].tool_calls.text,
          "[{\"id\":\"adk-abc-123\",\"name\":\"exec\",\"input\":\"\","
          "\"output\":\"{\\\"output\\\":\\\"file.txt\\\"}\"}]");
    T_STR(list->items[6].content, "[This response was interrupted due to a timeout]");
}

static void lango_check_messages(ent_db *db)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_lango_message_list list = {0};
    quipu_error err = {0};

    qp_lango_message_query query = {.where = {.session_messages = ent_eq(1)},
                                    .order = {QP_LANGO_MESSAGE_BY_ID(ASC)}};

    T_OK(qp_lango_message_find(db, &arena, &query, &list, &err));
    lango_check_first_history(&list);
    query.where.session_messages = ent_eq(2);
    T_OK(qp_lango_message_find(db, &arena, &query, &list, &err));
    assert_int_equal(list.n, 2);
    /* 18:30:01.5 in Seoul is 09:30:01.5 UTC; the compaction's summary came long after it. */
    lango_time_is(list.items[0].timestamp, "2026-04-13 09:30:01.500000000+00:00");
    T_STR(list.items[0].content, "\xEB\xB0\x98\xEA\xB0\x91\xEC\x8A\xB5\xEB\x8B\x88\xEB\x8B\xA4 "
                                 "\xF0\x9F\x91\x8B");
    T_STR(list.items[1].role, "system");
    assert_null(list.items[1].tool_calls.text.p);
    quipu_arena_free(&arena);
}

static void lango_check_memory(ent_db *db)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_lango_observation_list seen = {0};
    qp_lango_reflection_list thought = {0};
    quipu_error err = {0};

    T_OK(qp_lango_observation_find(
        db, &arena,
        &(qp_lango_observation_query){.order = {QP_LANGO_OBSERVATION_BY_CREATED_AT(ASC)}}, &seen,
        &err));
    assert_int_equal(seen.n, 3);
    T_STR(seen.items[0].content, "User listed files; exactly one file exists.");
    assert_int_equal(seen.items[0].token_count, 11);
    assert_int_equal(seen.items[1].source_start_index, 4);
    assert_int_equal(seen.items[1].source_end_index, 6);
    T_STR(seen.items[2].session_key, "direct-plain");
    T_OK(qp_lango_reflection_find(
        db, &arena, &(qp_lango_reflection_query){.order = {QP_LANGO_REFLECTION_BY_CREATED_AT(ASC)}},
        &thought, &err));
    assert_int_equal(thought.n, 2);
    assert_int_equal(thought.items[0].generation, 1);
    assert_int_equal(thought.items[1].generation, 2);
    quipu_arena_free(&arena);
}

static void read_in_place_gives_everything_and_changes_no_byte(void **state)
{
    (void)state;
    for (int i = 0; i < LANGO_FILES; i++) {
        char path[T_PATH_MAX];
        char before[T_PATH_MAX];
        t_fixture(lango_files[i], path);
        snprintf(before, sizeof(before), "%.1000s.before", path);
        t_file_copy(path, before);
        ent_db *db = lango_open(path, ENT_SQLITE_READ_ONLY);
        lango_check_sessions(db);
        lango_check_messages(db);
        lango_check_memory(db);
        ent_close(db);
        assert_true(t_file_equal(path, before));
    }
}

static void read_in_place_works_in_a_folder_that_cannot_be_written(void **state)
{
    char path[T_PATH_MAX];
    char folder[T_PATH_MAX];

    (void)state;
    t_fixture(lango_files[0], path);
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(chmod(folder, 0500), 0);
    ent_db *db = lango_open(path, ENT_SQLITE_READ_ONLY);
    lango_check_messages(db);
    ent_close(db);
    assert_int_equal(chmod(folder, 0700), 0);
}

/* ---- adopting
 * ------------------------------------------------------------------------------------- */

/* A digest of every row of the tables that are not ours, with the text that made them. */
static char *lango_dump_others(const char *path)
{
    sqlite3 *raw = NULL;
    sqlite3_stmt *tables = NULL;
    sqlite3_str *out = sqlite3_str_new(NULL);
    sqlite3_str *list = sqlite3_str_new(NULL);
    char *ours;
    char *select;

    assert_int_equal(sqlite3_open_v2(path, &raw, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_str_appendall(list, "'ent_journal', 'sqlite_sequence'");
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        sqlite3_str_appendf(list, ", %Q", qp_quipu_schema.entities[i]->table);
    }
    ours = sqlite3_str_finish(list);
    select = sqlite3_mprintf("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name "
                             "NOT IN (%s) AND name NOT LIKE 'messages_search%%' ORDER BY name",
                             ours);
    assert_int_equal(sqlite3_prepare_v2(raw, select, -1, &tables, NULL), SQLITE_OK);
    sqlite3_free(select);
    sqlite3_free(ours);
    while (sqlite3_step(tables) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(tables, 0);
        sqlite3_stmt *rows = NULL;
        sqlite3_str_appendf(out, "%s\n", sqlite3_column_text(tables, 1));
        char *sql = sqlite3_mprintf("SELECT * FROM \"%w\" ORDER BY rowid", name);
        assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &rows, NULL), SQLITE_OK);
        while (sqlite3_step(rows) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(rows); i++) {
                sqlite3_str_appendf(out, "%d:", sqlite3_column_type(rows, i));
                const unsigned char *bytes = sqlite3_column_blob(rows, i);
                for (int k = 0; k < sqlite3_column_bytes(rows, i); k++) {
                    sqlite3_str_appendf(out, "%02x", bytes[k]);
                }
                sqlite3_str_appendchar(out, 1, '|');
            }
            sqlite3_str_appendchar(out, 1, '\n');
        }
        sqlite3_finalize(rows);
        sqlite3_free(sql);
    }
    sqlite3_finalize(tables);
    sqlite3_close(raw);
    return sqlite3_str_finish(out);
}

static int64_t lango_number(const char *path, const char *sql)
{
    sqlite3 *raw = NULL;
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_open_v2(path, &raw, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(raw);
    return number;
}

static void lango_exec(const char *path, const char *sql)
{
    sqlite3 *raw = NULL;

    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
}

static void lango_check_adopted(ent_db *db)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    static const char *const contents[] = {"list the files",
                                           "Let me check",
                                           "{\"output\":\"file.txt\"}",
                                           "{\"results\":[\"x\",\"y\"]}",
                                           "There is one file: file.txt",
                                           "now uses time.Now()",
                                           "[This response was interrupted due to a timeout]"};

    T_OK(qp_session_one(db, &arena,
                        &(qp_session_query){.where = {.key = ent_eq("telegram:123:456")},
                                            .with_messages = &(qp_message_query){0}},
                        &session, &err));
    assert_int_equal(session->id, 1);
    assert_int_equal(session->message_count, 7);
    assert_int_equal(session->next_seq, 8);
    T_STR(session->session_id, "telegram:123:456");
    assert_int_equal(session->messages.n, 7);
    int64_t total = 0;
    for (size_t i = 0; i < 7; i++) {
        const qp_message *message = &session->messages.items[i];
        assert_int_equal(message->seq, i + 1);
        T_STR(message->content, contents[i]);
        total += message->tokens;
        assert_int_equal(message->tokens_total, total);
        assert_null(message->extra.text.p);
    }
    assert_int_equal(session->token_count, total);
    assert_int_equal(session->messages.items[1].role, QP_MESSAGE_ROLE_ASSISTANT);
    T_STR(session->messages.items[1].author, "lango-orchestrator");
    T_STR(session->messages.items[1].tool_calls.text,
          "[{\"id\":\"adk-abc-123\",\"name\":\"exec\",\"input\":\"{\\\"command\\\":\\\"ls\\\"}\","
          "\"thought\":true,\"thoughtSignature\":\"c2lnMTIz\"},{\"id\":\"call_search\",\"name\":"
          "\"search\",\"input\":\"{\\\"query\\\":\\\"a\\u003cb \\u0026 c\\\"}\"}]");
    lango_time_is(session->messages.items[0].timestamp, "2026-04-13 10:00:00.123456789+00:00");
    quipu_arena_free(&arena);
}

static void lango_check_adopted_memory(ent_db *db)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_observation_list list = {0};
    quipu_error err = {0};
    int64_t count = 0;

    T_OK(qp_observation_find(db, &arena,
                             &(qp_observation_query){.order = {QP_OBSERVATION_BY_CREATED_AT(ASC)}},
                             &list, &err));
    assert_int_equal(list.n, 3);
    T_STR(list.items[0].content, "User listed files; exactly one file exists.");
    /* Positions 0 to 3 and 4 to 6 are the messages 1 to 4 and 5 to 7. */
    assert_int_equal(list.items[0].source_start_index, 1);
    assert_int_equal(list.items[0].source_end_index, 4);
    assert_int_equal(list.items[1].source_start_index, 5);
    assert_int_equal(list.items[1].source_end_index, 7);
    T_OK(qp_reflection_count(db, NULL, &count, &err));
    assert_int_equal(count, 2);
    quipu_arena_free(&arena);
}

static void adopting_keeps_everything_and_leaves_other_tables_alone(void **state)
{
    (void)state;
    for (int i = 0; i < LANGO_FILES; i++) {
        char path[T_PATH_MAX];
        ent_migrate_report report = {0};
        quipu_error err = {0};
        t_fixture(lango_files[i], path);
        char *before = lango_dump_others(path);
        ent_db *db = lango_open(path, 0);
        T_OK(lango_adopt(db, &report, &err));
        assert_int_equal(report.steps, 1);
        lango_check_adopted(db);
        lango_check_adopted_memory(db);
        ent_close(db);
        char *after = lango_dump_others(path);
        assert_string_equal(before, after);
        sqlite3_free(before);
        sqlite3_free(after);
        assert_int_equal(lango_number(path, "SELECT count(*) FROM sessions"), 2);
        assert_int_equal(lango_number(path, "SELECT count(*) FROM messages"), 9);
        assert_int_equal(lango_number(path, "SELECT count(*) FROM pragma_integrity_check WHERE "
                                            "integrity_check <> 'ok'"),
                         0);
        assert_int_equal(lango_number(path, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
        assert_int_equal(lango_number(path, "PRAGMA application_id"), 0x51495055);
    }
}

static void second_open_of_an_adopted_file_changes_nothing(void **state)
{
    char path[T_PATH_MAX];
    ent_migrate_report report = {0};
    quipu_error err = {0};

    (void)state;
    t_fixture(lango_files[0], path);
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    ent_close(db);
    db = lango_open(path, 0);
    T_OK(lango_adopt(db, &report, &err));
    assert_int_equal(report.statements, 0);
    assert_int_equal(report.steps, 0);
    assert_string_equal(report.backup, "");
    assert_true(ent_stats_read(db).statements <= 2);
    ent_close(db);
}

static void the_backup_is_the_file_as_lango_left_it(void **state)
{
    char path[T_PATH_MAX];
    ent_migrate_report report = {0};
    quipu_error err = {0};

    (void)state;
    t_fixture(lango_files[1], path);
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, &report, &err));
    ent_close(db);
    assert_true(t_file_exists(report.backup));
    db = lango_open(report.backup, ENT_SQLITE_READ_ONLY);
    lango_check_sessions(db);
    lango_check_messages(db);
    lango_check_memory(db);
    ent_close(db);
}

static void orphans_get_a_session_of_their_own(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path, "INSERT INTO messages(role, content, timestamp, session_messages) VALUES "
                     "('user', 'nobody''s', '2026-04-13 10:00:00+00:00', NULL), "
                     "('user', 'gone', '2026-04-13 09:00:00+00:00', 77)");
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    T_OK(qp_session_one(db, &arena,
                        &(qp_session_query){.where = {.key = ent_eq("lango-orphans")},
                                            .with_messages = &(qp_message_query){0}},
                        &session, &err));
    assert_int_equal(session->messages.n, 2);
    T_STR(session->messages.items[0].content, "gone");
    T_STR(session->messages.items[0].extra.text, "{\"lango_session\":77}");
    T_STR(session->messages.items[1].content, "nobody's");
    ent_close(db);
    quipu_arena_free(&arena);
}

static void what_our_columns_cannot_hold_is_kept_beside_them(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path, "UPDATE sessions SET metadata = x'7b62726f6b656e' WHERE id = 2;"
                     "UPDATE messages SET role = 'developer', content = CAST(x'61FF6200' AS TEXT), "
                     "tool_calls = x'5b' WHERE id = 2");
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    T_OK(qp_session_one(db, &arena,
                        &(qp_session_query){.where = {.key = ent_eq("direct-plain")},
                                            .with_messages = &(qp_message_query){0}},
                        &session, &err));
    T_STR(session->metadata.text, "{\"lango_metadata_base64\":\"e2Jyb2tlbg==\"}");
    const qp_message *message = &session->messages.items[0];
    assert_int_equal(message->role, QP_MESSAGE_ROLE_SYSTEM);
    T_STR(message->content, "a\xEF\xBF\xBD"
                            "b\xEF\xBF\xBD");
    T_STR(message->extra.text, "{\"lango_role_base64\":\"ZGV2ZWxvcGVy\",\"lango_content_base64\":"
                               "\"Yf9iAA==\",\"lango_tool_calls_base64\":\"Ww==\"}");
    ent_close(db);
    quipu_arena_free(&arena);
}

static void unknown_columns_of_a_newer_lango_survive(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path,
               "ALTER TABLE messages ADD COLUMN mood text; UPDATE messages SET mood = 'm' || id;"
               "ALTER TABLE sessions ADD COLUMN colour text; UPDATE sessions SET colour = 'c' || "
               "id");
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    ent_close(db);
    assert_int_equal(lango_number(path, "SELECT count(*) FROM messages WHERE mood IS NOT NULL"), 9);
    assert_int_equal(
        lango_number(path, "SELECT mood = 'm3' FROM messages WHERE content = 'list the files'"), 1);
    assert_int_equal(lango_number(path, "SELECT count(*) FROM sessions WHERE colour = 'c' || id"),
                     2);
}

static void file_from_before_authors_and_observations_is_adopted(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};
    int64_t count = -1;

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path, "ALTER TABLE messages DROP COLUMN author; DROP TABLE observations; DROP TABLE "
                     "reflections");
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    T_OK(qp_message_count(db, &(qp_message_where){.author = ent_eq("")}, &count, &err));
    assert_int_equal(count, 9);
    T_OK(qp_observation_count(db, NULL, &count, &err));
    assert_int_equal(count, 0);
    ent_close(db);
}

static void time_that_is_none_stops_the_adoption_and_changes_nothing(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path, "UPDATE messages SET timestamp = 'yesterday' WHERE id = 5");
    ent_db *db = lango_open(path, 0);
    T_STATUS(lango_adopt(db, NULL, &err), QUIPU_CORRUPT);
    assert_non_null(strstr(err.message, "timestamp"));
    ent_close(db);
    assert_int_equal(lango_number(path, "SELECT count(*) FROM messages WHERE typeof(tool_calls) = "
                                        "'blob'"),
                     8);
    assert_int_equal(lango_number(path, "SELECT count(*) FROM sqlite_schema WHERE name = "
                                        "'ent_journal'"),
                     0);
    assert_int_equal(lango_number(path, "PRAGMA application_id"), 0);
}

/* SQLite would make a float of the number behind the last one, which no program reads back. */
static void number_that_a_memory_cannot_have_stops_the_adoption_and_changes_nothing(void **state)
{
    static const char *const updates[] = {
        "UPDATE observations SET source_end_index = 9223372036854775807",
        "UPDATE observations SET source_start_index = (-9223372036854775807 - 1)",
        "UPDATE observations SET token_count = -1",
        "UPDATE reflections SET token_count = (-9223372036854775807 - 1)",
        "UPDATE reflections SET generation = -1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++) {
        char path[T_PATH_MAX];
        quipu_error err = {0};

        t_fixture(lango_files[0], path);
        lango_exec(path, updates[i]);
        ent_db *db = lango_open(path, 0);
        T_STATUS(lango_adopt(db, NULL, &err), QUIPU_INVALID);
        assert_non_null(strstr(err.message, "cannot be; correct or delete it"));
        ent_close(db);
        assert_int_equal(lango_number(path, "SELECT count(*) FROM sqlite_schema WHERE name = "
                                            "'ent_journal'"),
                         0);
        assert_int_equal(lango_number(path, "PRAGMA application_id"), 0);
    }
}

static void two_tenants_may_use_one_key_in_an_adopted_file(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    t_fixture(lango_files[0], path);
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    qp_session_new values = {.key = QUIPU_STR("direct-plain"), .tenant = QUIPU_STR("b")};
    T_OK(qp_session_create(db, NULL, &values, NULL, &err));
    T_STATUS(qp_session_create(db, NULL, &values, NULL, &err), QUIPU_EXISTS);
    ent_close(db);
}

static void session_numbers_go_on_where_lango_stopped(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;

    (void)state;
    t_fixture(lango_files[0], path);
    lango_exec(path,
               "INSERT INTO sessions(id, key, created_at, updated_at) VALUES (40, 'x', "
               "'2026-04-13 10:00:00+00:00', '2026-04-13 10:00:00+00:00'); DELETE FROM sessions "
               "WHERE id = 40");
    ent_db *db = lango_open(path, 0);
    T_OK(lango_adopt(db, NULL, &err));
    T_OK(
        qp_session_create(db, &arena, &(qp_session_new){.key = QUIPU_STR("next")}, &session, &err));
    assert_int_equal(session->id, 41);
    ent_close(db);
    quipu_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_in_place_gives_everything_and_changes_no_byte),
        cmocka_unit_test(read_in_place_works_in_a_folder_that_cannot_be_written),
        cmocka_unit_test(adopting_keeps_everything_and_leaves_other_tables_alone),
        cmocka_unit_test(second_open_of_an_adopted_file_changes_nothing),
        cmocka_unit_test(the_backup_is_the_file_as_lango_left_it),
        cmocka_unit_test(orphans_get_a_session_of_their_own),
        cmocka_unit_test(what_our_columns_cannot_hold_is_kept_beside_them),
        cmocka_unit_test(unknown_columns_of_a_newer_lango_survive),
        cmocka_unit_test(file_from_before_authors_and_observations_is_adopted),
        cmocka_unit_test(time_that_is_none_stops_the_adoption_and_changes_nothing),
        cmocka_unit_test(number_that_a_memory_cannot_have_stops_the_adoption_and_changes_nothing),
        cmocka_unit_test(two_tenants_may_use_one_key_in_an_adopted_file),
        cmocka_unit_test(session_numbers_go_on_where_lango_stopped),
    };
    return cmocka_run_group_tests_name("lango", tests, NULL, NULL);
}
