/* The store's own schema, through its generated code, on a real file: what the seeds demand of
 * Session, Message, Observation and Reflection. */
#include "lib/t.h"

#include <sqlite3.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>

#include "gen/quipu.h"

static char schema_path[T_PATH_MAX];

static ent_db *schema_open(void)
{
    ent_db *db = NULL;
    quipu_error err = {0};

    T_OK(ent_sqlite_open(schema_path, NULL, &db, &err));
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, NULL, &err));
    return db;
}

static int schema_setup(void **state)
{
    t_path(t_tmpdir(), "store.db", schema_path);
    *state = schema_open();
    return 0;
}

static int schema_teardown(void **state)
{
    ent_close(*state);
    return 0;
}

static int64_t schema_session(ent_db *db, const char *key)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};

    T_OK(qp_session_create(db, &arena, &(qp_session_new){.key = quipu_cstr(key)}, &session, &err));
    int64_t id = session->id;
    quipu_arena_free(&arena);
    return id;
}

static qp_message_new schema_message(int64_t session, int64_t seq, qp_message_role role,
                                     quipu_str content)
{
    static const char ids[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    assert_true(seq >= 0 && seq < (int64_t)sizeof(ids) - 1);
    return (qp_message_new){.session_id = session,
                            .seq = seq,
                            .role = role,
                            .content = content,
                            .event_id = {&ids[seq], 1}};
}

/* One line of SQL answering one text, through SQLite itself: what other programs see in the file.
 */
static void schema_sql(const char *sql, char ret_text[256])
{
    sqlite3 *raw = NULL;
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_open_v2(schema_path, &raw, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const unsigned char *text = sqlite3_column_text(statement, 0);
    snprintf(ret_text, 256, "%s", text == NULL ? "NULL" : (const char *)text);
    sqlite3_finalize(statement);
    sqlite3_close(raw);
}

static void new_file_gets_every_table_and_says_what_it_is(void **state)
{
    char text[256];

    (void)state;
    schema_sql("SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE "
               "type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE "
               "'messages_search_%' ORDER BY name)",
               text);
    assert_string_equal(
        text, "artifacts blobs context_log ent_journal feed jobs memory_scopes messages "
              "messages_search model_factors observations reflections removals sessions state "
              "state_events usage vectors");
    schema_sql("SELECT printf('%x', application_id) FROM pragma_application_id", text);
    assert_string_equal(text, "51495055");
}

static void second_open_changes_nothing(void **state)
{
    ent_db *db = NULL;
    ent_migrate_report report = {0};
    quipu_error err = {0};

    (void)state;
    T_OK(ent_sqlite_open(schema_path, NULL, &db, &err));
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, &report, &err));
    assert_false(report.created);
    assert_int_equal(report.statements, 0);
    assert_true(ent_stats_read(db).statements <= 2);
    ent_close(db);
}

static void session_loads_its_messages_with_it(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    int64_t id = schema_session(db, "chat-1");
    qp_message_new ask = schema_message(id, 1, QP_MESSAGE_ROLE_USER, QUIPU_STR("list the files"));
    qp_message_new reply =
        schema_message(id, 2, QP_MESSAGE_ROLE_ASSISTANT, QUIPU_STR("one: a.txt"));

    reply.author = QUIPU_STR("lango-orchestrator");
    T_OK(qp_message_create(db, NULL, &ask, NULL, &err));
    T_OK(qp_message_create(db, NULL, &reply, NULL, &err));
    T_OK(qp_session_one(db, &arena,
                        &(qp_session_query){.where = {.key = ent_eq("chat-1")},
                                            .with_messages = &(qp_message_query){0}},
                        &session, &err));
    assert_true(session->messages.loaded);
    assert_int_equal(session->messages.n, 2);
    assert_int_equal(session->messages.items[0].role, QP_MESSAGE_ROLE_USER);
    T_STR(session->messages.items[0].content, "list the files");
    T_STR(session->messages.items[1].author, "lango-orchestrator");
    quipu_arena_free(&arena);
}

static void role_is_an_enum_in_c_and_text_in_the_file(void **state)
{
    ent_db *db = *state;
    char text[256];
    quipu_error err = {0};
    int64_t id = schema_session(db, "roles");
    static const char *const labels[] = {"user",     "assistant", "tool",
                                         "function", "model",     "system"};

    for (int i = 0; i < 6; i++) {
        qp_message_new message =
            schema_message(id, i + 1, (qp_message_role)(i + 1), QUIPU_STR("x"));
        T_OK(qp_message_create(db, NULL, &message, NULL, &err));
        assert_string_equal(qp_message_role_text((qp_message_role)(i + 1)), labels[i]);
        assert_int_equal(qp_message_role_parse(quipu_cstr(labels[i])), i + 1);
    }
    schema_sql("SELECT group_concat(role, ' ') FROM messages", text);
    assert_string_equal(text, "user assistant tool function model system");
}

/* What another program writes into the file. */
static void schema_write(const char *sql)
{
    sqlite3 *raw = NULL;

    assert_int_equal(sqlite3_open(schema_path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

/* Labels that another program wrote as text come back as the enum; one that is none is damage. */
static void role_text_in_the_file_is_an_enum_again_when_it_is_read(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *stored = NULL;
    quipu_error err = {0};
    int64_t id = schema_session(db, "read");
    static const char *const labels[] = {"user",     "assistant", "tool",
                                         "function", "model",     "system"};

    for (int i = 0; i < 6; i++) {
        char sql[128];
        qp_message_new message = schema_message(id, i + 1, QP_MESSAGE_ROLE_USER, QUIPU_STR("x"));

        T_OK(qp_message_create(db, NULL, &message, NULL, &err));
        (void)snprintf(sql, sizeof(sql), "UPDATE messages SET role = '%s' WHERE seq = %d",
                       labels[i], i + 1);
        schema_write(sql);
        T_OK(qp_message_get(db, &arena, id, i + 1, &stored, &err));
        assert_int_equal(stored->role, i + 1);
        assert_string_equal(qp_message_role_text(stored->role), labels[i]);
    }
    schema_write("UPDATE messages SET role = 'king' WHERE seq = 1");
    T_STATUS(qp_message_get(db, &arena, id, 1, &stored, &err), QUIPU_CORRUPT);
    assert_string_equal(err.field, "role");
    quipu_arena_free(&arena);
}

/* The generated functions alone make, find, change and remove a session, with members of its own
 * types; tests/mustfail shows what they do not accept. */
static void generated_code_creates_reads_updates_and_deletes_sessions(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *made = NULL;
    const qp_session *found = NULL;
    qp_session_list list = {0};
    int64_t count = 0;
    quipu_error err = {0};

    T_OK(qp_session_create(db, &arena,
                           &(qp_session_new){.key = QUIPU_STR("s"),
                                             .model = QUIPU_STR("m"),
                                             .metadata = ent_json(QUIPU_STR("{\"a\":1}"))},
                           &made, &err));
    assert_true(made->id > 0);
    T_OK(qp_session_get(db, &arena, made->id, &found, &err));
    T_STR(found->key, "s");
    T_STR(found->model, "m");
    T_STR(found->metadata.text, "{\"a\":1}");
    assert_int_equal(found->next_seq, 1);
    T_OK(qp_session_update(db, &(qp_session_where){.id = ent_eq(made->id)},
                           &(qp_session_patch){.model = ent_set("other"), .revision = ent_set(2)},
                           &count, &err));
    assert_int_equal(count, 1);
    T_OK(qp_session_find(db, &arena,
                         &(qp_session_query){.limit = 5, .where = {.model = ent_eq("other")}},
                         &list, &err));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.items[0].revision, 2);
    T_OK(qp_session_delete(db, &(qp_session_where){.id = ent_eq(made->id)}, &count, &err));
    assert_int_equal(count, 1);
    T_STATUS(qp_session_get(db, &arena, made->id, &found, &err), QUIPU_NOT_FOUND);
    quipu_arena_free(&arena);
}

static void author_is_empty_unless_given(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *stored = NULL;
    quipu_error err = {0};
    int64_t id = schema_session(db, "authors");
    qp_message_new message = schema_message(id, 1, QP_MESSAGE_ROLE_USER, QUIPU_STR("x"));

    T_OK(qp_message_create(db, NULL, &message, NULL, &err));
    T_OK(qp_message_get(db, &arena, id, 1, &stored, &err));
    T_STR(stored->author, "");
    quipu_arena_free(&arena);
}

static void tool_calls_come_back_byte_for_byte(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *stored = NULL;
    quipu_error err = {0};
    int64_t id = schema_session(db, "tools");
    const char *calls = "[{\"id\":\"adk-1\",\"name\":\"exec\",\"input\":\"\",\"output\":"
                        "\"{\\\"n\\\": 1e3, \\\"big\\\": 123456789012345678901234567890}\"}]";
    qp_message_new message = schema_message(id, 1, QP_MESSAGE_ROLE_TOOL, QUIPU_STR("done"));

    message.tool_calls = ent_json(quipu_cstr(calls));
    T_OK(qp_message_create(db, NULL, &message, NULL, &err));
    T_OK(qp_message_get(db, &arena, id, 1, &stored, &err));
    T_STR(stored->tool_calls.text, calls);
    quipu_arena_free(&arena);
}

static void second_message_with_an_event_id_is_refused(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};
    int64_t id = schema_session(db, "twice");
    qp_message_new first = schema_message(id, 1, QP_MESSAGE_ROLE_USER, QUIPU_STR("a"));
    qp_message_new second = schema_message(id, 2, QP_MESSAGE_ROLE_USER, QUIPU_STR("b"));
    int64_t count = 0;

    second.event_id = first.event_id;
    T_OK(qp_message_create(db, NULL, &first, NULL, &err));
    T_STATUS(qp_message_create(db, NULL, &second, NULL, &err), QUIPU_EXISTS);
    assert_string_equal(err.entity, "Message");
    T_OK(qp_message_count(db, &(qp_message_where){.session_id = ent_eq(id)}, &count, &err));
    assert_int_equal(count, 1);
}

static void messages_have_one_secondary_index(void **state)
{
    char text[256];

    (void)state;
    schema_sql("SELECT group_concat(i.\"unique\" || ':' || (SELECT group_concat(name, ',') FROM "
               "pragma_index_info(i.name)), ' ') FROM pragma_index_list('messages') AS i",
               text);
    assert_string_equal(text, "1:session_messages,event_id");
}

static void deleting_a_session_takes_its_messages(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};
    int64_t id = schema_session(db, "gone");
    qp_message_new message = schema_message(id, 1, QP_MESSAGE_ROLE_USER, QUIPU_STR("x"));
    int64_t count = 0;

    T_OK(qp_message_create(db, NULL, &message, NULL, &err));
    T_OK(qp_session_delete(db, &(qp_session_where){.key = ent_eq("gone")}, &count, &err));
    assert_int_equal(count, 1);
    T_OK(qp_message_count(db, NULL, &count, &err));
    assert_int_equal(count, 0);
}

static void keys_are_unique_within_a_tenant(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};

    schema_session(db, "same");
    T_STATUS(qp_session_create(db, NULL, &(qp_session_new){.key = QUIPU_STR("same")}, NULL, &err),
             QUIPU_EXISTS);
    T_OK(qp_session_create(db, NULL,
                           &(qp_session_new){.key = QUIPU_STR("same"), .tenant = QUIPU_STR("b")},
                           NULL, &err));
}

static void empty_session_key_is_refused(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};

    T_STATUS(qp_session_create(db, NULL, &(qp_session_new){.key = QUIPU_STR("")}, NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.entity, "Session");
    assert_string_equal(err.field, "key");
    assert_string_equal(err.rule, "notempty");
}

static void session_numbers_are_never_used_again(void **state)
{
    ent_db *db = *state;
    quipu_error err = {0};
    int64_t first = schema_session(db, "a");

    T_OK(qp_session_delete(db, &(qp_session_where){.id = ent_eq(first)}, NULL, &err));
    assert_true(schema_session(db, "b") > first);
}

static void observation_fields_and_defaults(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_observation *stored = NULL;
    quipu_error err = {0};
    quipu_time before = quipu_time_now();
    static const quipu_uuid none = {{0}};

    T_OK(qp_observation_create(
        db, &arena,
        &(qp_observation_new){.session_key = QUIPU_STR("k"), .content = QUIPU_STR("one file")},
        &stored, &err));
    assert_memory_not_equal(&stored->id, &none, sizeof(none));
    assert_int_equal(stored->token_count, 0);
    assert_int_equal(stored->source_start_index, 0);
    assert_int_equal(stored->source_end_index, 0);
    assert_true(quipu_time_cmp(stored->created_at, before) >= 0);
    T_STATUS(qp_observation_create(
                 db, NULL,
                 &(qp_observation_new){.session_key = QUIPU_STR(""), .content = QUIPU_STR("x")},
                 NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.field, "session_key");
    T_STATUS(qp_observation_create(
                 db, NULL,
                 &(qp_observation_new){.session_key = QUIPU_STR("k"), .content = QUIPU_STR("")},
                 NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.field, "content");
    quipu_arena_free(&arena);
}

static void reflection_fields_and_defaults(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_reflection *stored = NULL;
    const quipu_time before = quipu_time_now();
    quipu_uuid first;
    quipu_error err = {0};

    T_OK(qp_reflection_create(
        db, &arena,
        &(qp_reflection_new){.session_key = QUIPU_STR("k"), .content = QUIPU_STR("short")}, &stored,
        &err));
    assert_int_equal(stored->generation, 1);
    assert_int_equal(stored->token_count, 0);
    assert_int_equal(stored->id.b[6] >> 4, 4); /* a random UUID */
    assert_true(quipu_time_cmp(stored->created_at, before) >= 0);
    assert_true(quipu_time_cmp(stored->created_at, quipu_time_now()) <= 0);
    first = stored->id;
    T_STATUS(qp_reflection_create(
                 db, NULL,
                 &(qp_reflection_new){.session_key = QUIPU_STR("k"), .content = QUIPU_STR("")},
                 NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.field, "content");
    T_STATUS(qp_reflection_create(
                 db, NULL,
                 &(qp_reflection_new){.session_key = QUIPU_STR(""), .content = QUIPU_STR("c")},
                 NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.field, "session_key");
    T_OK(qp_reflection_create(db, &arena,
                              &(qp_reflection_new){.session_key = QUIPU_STR("k"),
                                                   .content = QUIPU_STR("again"),
                                                   .generation = ent_some(2)},
                              &stored, &err));
    assert_int_equal(stored->generation, 2);
    assert_true(memcmp(stored->id.b, first.b, sizeof(first.b)) != 0);
    quipu_arena_free(&arena);
}

static void observations_and_reflections_are_indexed_by_session_and_time(void **state)
{
    char text[256];
    static const char *const tables[] = {"observations", "reflections"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char sql[400];
        snprintf(sql, sizeof(sql),
                 "SELECT group_concat(c, ' ') FROM (SELECT (SELECT group_concat(name, ',') FROM "
                 "pragma_index_info(i.name)) AS c FROM pragma_index_list('%s') AS i WHERE origin = "
                 "'c' ORDER BY c)",
                 tables[i]);
        schema_sql(sql, text);
        assert_string_equal(text, "created_at session_key tenant,scope,content_hash "
                                  "tenant,scope,retired_at,priority,created_at "
                                  "tenant,session_key,content_hash");
    }
}

static void older_file_without_observations_gets_them(void **state)
{
    sqlite3 *raw = NULL;
    ent_db *db = NULL;
    quipu_error err = {0};
    ent_migrate_report report = {0};
    int64_t count = -1;

    ent_close(*state);
    *state = NULL;
    /* As a program before observations and the author left it: neither is there. */
    assert_int_equal(sqlite3_open(schema_path, &raw), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(raw,
                     "INSERT INTO sessions(key, created_at, updated_at, uid) VALUES "
                     "('old', '2026-01-01 00:00:00.000000000+00:00', '2026-01-01 "
                     "00:00:00.000000000+00:00', '11111111-2222-4333-8444-555555555555');"
                     "INSERT INTO messages(id, session_messages, seq, role, content, "
                     "timestamp, event_id) VALUES (1 << 32 | 1, 1, 1, 'user', 'hi', "
                     "'2026-01-01 00:00:00.000000000+00:00', x'01');"
                     "ALTER TABLE messages DROP COLUMN author;"
                     "DROP TABLE observations; DROP TABLE reflections;"
                     "UPDATE ent_journal SET schema_hash = 'older';"
                     "DELETE FROM ent_journal",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(raw);
    T_OK(ent_sqlite_open(schema_path, NULL, &db, &err));
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, &report, &err));
    assert_true(report.statements > 0);
    T_OK(qp_observation_count(db, NULL, &count, &err));
    assert_int_equal(count, 0);
    T_OK(qp_reflection_count(db, NULL, &count, &err));
    assert_int_equal(count, 0);
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_message *message = NULL;
    T_OK(qp_message_get(db, &arena, 1, 1, &message, &err));
    T_STR(message->content, "hi");
    T_STR(message->author, "");
    quipu_arena_free(&arena);
    ent_close(db);
}

static void state_has_one_row_a_key(void **state)
{
    ent_db *db = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_state *stored = NULL;
    quipu_error err = {0};
    qp_state_new colour = {.scope = QP_STATE_SCOPE_USER,
                           .app_name = QUIPU_STR("app"),
                           .user_id = QUIPU_STR("ada"),
                           .name = QUIPU_STR("colour"),
                           .value = ent_json(QUIPU_STR("\"red\""))};
    int64_t count = 0;

    T_OK(qp_state_create(db, NULL, &colour, NULL, &err));
    colour.value = ent_json(QUIPU_STR("1e3"));
    T_OK(qp_state_upsert(db, &arena, &colour, QP_STATE_ON_KEY, &stored, &err));
    T_STR(stored->value.text, "1e3");
    T_OK(qp_state_count(db, NULL, &count, &err));
    assert_int_equal(count, 1);
    quipu_arena_free(&arena);
}

#define SCHEMA_TEST(name) cmocka_unit_test_setup_teardown(name, schema_setup, schema_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCHEMA_TEST(new_file_gets_every_table_and_says_what_it_is),
        SCHEMA_TEST(second_open_changes_nothing),
        SCHEMA_TEST(session_loads_its_messages_with_it),
        SCHEMA_TEST(generated_code_creates_reads_updates_and_deletes_sessions),
        SCHEMA_TEST(role_is_an_enum_in_c_and_text_in_the_file),
        SCHEMA_TEST(role_text_in_the_file_is_an_enum_again_when_it_is_read),
        SCHEMA_TEST(author_is_empty_unless_given),
        SCHEMA_TEST(tool_calls_come_back_byte_for_byte),
        SCHEMA_TEST(second_message_with_an_event_id_is_refused),
        SCHEMA_TEST(messages_have_one_secondary_index),
        SCHEMA_TEST(deleting_a_session_takes_its_messages),
        SCHEMA_TEST(keys_are_unique_within_a_tenant),
        SCHEMA_TEST(empty_session_key_is_refused),
        SCHEMA_TEST(session_numbers_are_never_used_again),
        SCHEMA_TEST(observation_fields_and_defaults),
        SCHEMA_TEST(reflection_fields_and_defaults),
        SCHEMA_TEST(observations_and_reflections_are_indexed_by_session_and_time),
        SCHEMA_TEST(older_file_without_observations_gets_them),
        SCHEMA_TEST(state_has_one_row_a_key),
    };
    return cmocka_run_group_tests_name("quipu_schema", tests, NULL, NULL);
}
