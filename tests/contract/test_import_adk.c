/* The four layouts of ADK: sessions, state and times of the fixtures, and what an import does and
 * refuses. Events are compared in test_import_trees.c. */
#include "contract/import_t.h"
#include "lib/short.h"

static void import_check_counts(const quipu_source_report *report, quipu_source_kind kind,
                                int64_t sessions, int64_t messages, int64_t orphans)
{
    assert_int_equal(report->kind, kind);
    assert_int_equal(report->sessions, sessions);
    assert_int_equal(report->messages, messages);
    assert_int_equal(report->orphans, orphans);
    assert_int_equal(report->skipped, 0);
    assert_int_equal(report->memories, 0);
}

/* The store as verify sees it: nothing to complain about. */
static void import_check_whole(quipu_store *store)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    T_OK(quipu_store_verify(store, NULL, NULL, &verified, &err));
    assert_int_equal(verified.problems, 0);
}

static void import_check_time(adk_world *world, const char *user, const char *id, int64_t seconds)
{
    quipu_live *session = import_session(world, user, id);
    quipu_time time = {0, 0};
    quipu_error err = {0};

    T_OK(t_live_identity(session, &world->arena, NULL, &time, &err));
    assert_int_equal(time.s, seconds);
    assert_int_equal(time.ns, 0);
    quipu_live_free(session);
}

/* ---- the fixtures -----------------------------------------------------------------------------
 */

/* Both of Python's services wrote the same sessions. */
static void import_python(const char *path, quipu_source_kind kind)
{
    adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
    const quipu_source_report report = import_ok(world->store, path, NULL);
    quipu_live *session = import_session(world, "alice", "sess-0001");

    import_check_counts(&report, kind, 2, 12, 0);
    import_check_time(world, "alice", "sess-0001", 1767225612);
    adk_check_state(world, session,
                    "{\"topic\":\"weather\",\"last_city\":null,\"obj\":{\"k\":[1,2]},\"nul\":null,"
                    "\"pi\":0.30000000000000004,\"app:theme\":\"dark\",\"app:calls\":1,"
                    "\"user:name\":\"Alice\",\"user:lang\":\"de\"}");
    quipu_live_free(session);
    import_check_whole(world->store);
    adk_close(world);
}

static void python_database_comes_in_whole(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_fixture("adk-python-database.db", path);
    import_python(path, QUIPU_SOURCE_ADK_DATABASE);
}

static void python_sqlite_comes_in_whole(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    import_python(path, QUIPU_SOURCE_ADK_SQLITE);
}

typedef struct import_orphans {
    int count;
    char who[128];
} import_orphans;

static void import_on_orphan(void *ctx, const quipu_orphan *orphan)
{
    import_orphans *heard = ctx;

    heard->count++;
    assert_true(snprintf(heard->who, sizeof(heard->who), "%.*s/%.*s row %lld",
                         (int)orphan->app_name.n, orphan->app_name.p, (int)orphan->user_id.n,
                         orphan->user_id.p, (long long)orphan->row) < (int)sizeof(heard->who));
}

static void go_database_comes_in_and_its_orphan_is_reported(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_live *session;
    import_orphans heard = {0};
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;

    (void)state;
    t_fixture("adk-go-database.db", path);
    world = adk_open(QUIPU_SERVICE_GO);
    options.orphan = import_on_orphan;
    options.ctx = &heard;
    const quipu_source_report report = import_ok(world->store, path, &options);
    import_check_counts(&report, QUIPU_SOURCE_ADK_GO, 2, 11, 1);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.who, "demo_app/carol row 12");
    session = import_session(world, "alice", "sess-0001");
    assert_int_equal(t_live_event_count(session), 9);
    adk_check_state(world, session,
                    "{\"last_city\":\"Zürich\",\"nul\":null,\"topic\":\"weather\",\"app:calls\":1,"
                    "\"app:theme\":\"dark\",\"user:lang\":\"de\",\"user:name\":\"Alice\"}");
    quipu_live_free(session);
    import_check_whole(world->store);
    adk_close(world);
}

/* ---- what an import does and does not do ------------------------------------------------------
 */

static void a_dry_run_reports_and_changes_nothing(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    (void)state;
    t_fixture("adk-go-database.db", path);
    world = adk_open(QUIPU_SERVICE_GO);
    options.flags = QUIPU_SOURCE_DRY_RUN;
    const quipu_source_report reported = import_ok(world->store, path, &options);
    T_OK(quipu_store_stats(world->store, NULL, NULL, &stats, &err));
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(stats.commits, 0);
    const quipu_source_report done = import_ok(world->store, path, NULL);
    assert_memory_equal(&reported, &done, sizeof(reported));
    adk_close(world);
}

static void a_repeated_import_skips_what_is_there(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    world = adk_open(QUIPU_SERVICE_PYTHON);
    (void)import_ok(world->store, path, NULL);
    const quipu_source_report again = import_ok(world->store, path, NULL);
    assert_int_equal(again.sessions, 0);
    assert_int_equal(again.messages, 0);
    assert_int_equal(again.states, 0);
    assert_int_equal(again.skipped, 2);
    adk_close(world);
}

static void the_cap_of_the_store_holds_for_what_comes_in(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    options.cap_messages = 4;
    quipu_store *store = st_open_new(&options, NULL);
    assert_int_equal(import_ok(store, path, NULL).messages, 12); /* all came, and were counted */
    quipu_history *history = st_get(store, "adk:demo_app/alice/sess-0001", NULL);
    assert_in_range(history->messages.count, 1, 10); /* whole turns go, never the newest one */
    assert_int_equal(quipu_message_at(history->messages, history->messages.count - 1)->seq, 11);
    assert_true(history->session->updated_at.s < quipu_time_now().s);
    quipu_free(history);
    import_check_whole(store);
    assert_int_equal(import_ok(store, path, NULL).skipped, 2);
    T_OK(quipu_session_delete(store, QUIPU_STR("adk:demo_app/alice/sess-0001"), NULL, NULL, NULL,
                              &err));
    quipu_close(store);
}

static void a_session_that_grew_in_the_file_is_a_conflict(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_error err = {0};

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    world = adk_open(QUIPU_SERVICE_PYTHON);
    (void)import_ok(world->store, path, NULL);
    import_exec(path, "INSERT INTO events SELECT 'ev-new', app_name, user_id, session_id, "
                      "invocation_id, timestamp + 1, event_data FROM events WHERE id = 'ev-b1'");
    T_STATUS(quipu_source_import(world->store, path, NULL, NULL, NULL, &err), QUIPU_CONFLICT);
    adk_close(world);
}

static void another_session_of_the_same_key_is_not_touched(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    const quipu_session_ref ref = adk_ref("demo_app", "alice", "sess-0001");
    quipu_live *session = NULL;
    quipu_error err = {0};

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    world = adk_open(QUIPU_SERVICE_PYTHON);
    T_OK(quipu_service_create(world->service, &ref, (quipu_json){{NULL, 0}}, NULL, &session, &err));
    quipu_live_free(session);
    T_STATUS(quipu_source_import(world->store, path, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    session = import_session(world, "alice", "sess-0001");
    assert_int_equal(t_live_event_count(session), 0);
    quipu_live_free(session);
    adk_close(world);
}

static void the_columns_id_wins_and_the_json_time_wins(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_live *session;

    (void)state;
    t_fixture("adk-python-database.db", path);
    import_exec(path, "UPDATE events SET id = 'renamed', timestamp = '2026-01-01 00:00:01.300000' "
                      "WHERE id = 'ev-001'");
    import_exec(path, "UPDATE events SET event_data = NULL WHERE id = 'ev-b1'");
    world = adk_open(QUIPU_SERVICE_PYTHON);
    (void)import_ok(world->store, path, NULL);
    session = import_session(world, "alice", "sess-0001");
    adk_check_json(adk_event(world, session, 0),
                   "{\"id\":\"renamed\",\"timestamp\":1767225601.25,\"invocation_id\":\"inv-1\","
                   "\"author\":\"user\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":"
                   "\"Wie ist das Wetter in Zürich? \xf0\x9f\x8c\xa6\"}]},\"actions\":{"
                   "\"state_delta\":{},\"artifact_delta\":{},\"requested_auth_configs\":{},"
                   "\"requested_tool_confirmations\":{}},\"node_info\":{\"path\":\"\"}}");
    quipu_live_free(session);
    adk_close(world);
}

/* An event whose JSON says no time, or nothing, happened when its column says. */
static void a_time_that_the_json_lacks_is_the_columns(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_live *session;

    (void)state;
    t_fixture("adk-python-database.db", path);
    import_exec(path,
                "UPDATE events SET event_data = json_remove(event_data, '$.timestamp'), timestamp "
                "= '2026-01-01 00:00:01.250000' WHERE id = 'ev-001';"
                "UPDATE events SET event_data = NULL, timestamp = '2026-01-01 00:00:02.500000' "
                "WHERE id = 'ev-002'");
    world = adk_open(QUIPU_SERVICE_PYTHON);
    (void)import_ok(world->store, path, NULL);
    session = import_session(world, "alice", "sess-0001");
    assert_non_null(strstr(adk_event(world, session, 0).p, "\"timestamp\":1767225601.25"));
    assert_non_null(strstr(adk_event(world, session, 1).p, "\"timestamp\":1767225602.5"));
    quipu_live_free(session);
    adk_close(world);
}

/* The same names as by way of the service. */
static void names_of_imported_state_may_be_odd(void **state)
{
    static const char odd[] =
        "{\"\\u0001x\":1,\"a\\u0000b\":2,\"\\ud800\":3,\"app:\\u0001\":4,\"\":5}";
    char path[T_PATH_MAX];
    char sql[512];
    adk_world *world;
    quipu_live *session;

    (void)state;
    t_fixture("adk-python-database.db", path);
    assert_true(snprintf(sql, sizeof(sql),
                         "UPDATE sessions SET state = '%s' WHERE id = 'sess-0001';"
                         "DELETE FROM app_states; DELETE FROM user_states",
                         odd) < (int)sizeof(sql));
    import_exec(path, sql);
    world = adk_open(QUIPU_SERVICE_PYTHON);
    (void)import_ok(world->store, path, NULL);
    session = import_session(world, "alice", "sess-0001");
    adk_check_state(world, session, odd);
    quipu_live_free(session);
    adk_close(world);
}

static void old_files_that_lack_columns_come_in(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;

    (void)state;
    t_fixture("adk-python-database-v0.db", path);
    import_exec(path, "ALTER TABLE events DROP COLUMN custom_metadata;"
                      "ALTER TABLE events DROP COLUMN usage_metadata;"
                      "ALTER TABLE events DROP COLUMN citation_metadata;"
                      "ALTER TABLE events DROP COLUMN input_transcription;"
                      "ALTER TABLE events DROP COLUMN output_transcription");
    world = adk_open(QUIPU_SERVICE_PYTHON);
    const quipu_source_report report = import_ok(world->store, path, NULL);
    import_check_counts(&report, QUIPU_SOURCE_ADK_V0, 1, 11, 0);
    adk_close(world);
    t_fixture("adk-go-database.db", path);
    import_exec(path, "ALTER TABLE events DROP COLUMN routes_json;"
                      "ALTER TABLE events DROP COLUMN node_info_json");
    world = adk_open(QUIPU_SERVICE_GO);
    const quipu_source_report go = import_ok(world->store, path, NULL);
    import_check_counts(&go, QUIPU_SOURCE_ADK_GO, 2, 11, 1);
    adk_close(world);
}

static void the_newer_value_of_shared_state_stays(void **state)
{
    char path[T_PATH_MAX];
    adk_world *world;
    quipu_live *session;
    const quipu_session_ref ref = adk_ref("demo_app", "dora", "s");
    quipu_error err = {0};

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    world = adk_open(QUIPU_SERVICE_PYTHON);
    T_OK(quipu_service_create(world->service, &ref,
                              (quipu_json){QUIPU_STR("{\"app:theme\":\"light\"}")}, NULL, &session,
                              &err));
    (void)import_ok(world->store, path, NULL);
    T_OK(quipu_live_refresh(session, NULL, &err));
    adk_check_state(world, session, "{\"app:theme\":\"light\",\"app:calls\":1}");
    quipu_live_free(session);
    adk_close(world);
}

/* ---- what is refused --------------------------------------------------------------------------
 */

static void other_files_get_a_clear_error(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    t_path(t_tmpdir(), "missing.db", path);
    import_refused(store, path, QUIPU_NOT_FOUND, "missing.db");
    t_file_write(path, "no database at all", 18);
    import_refused(store, path, QUIPU_CORRUPT, "");
    t_path(t_tmpdir(), "other.db", path);
    import_exec(path, "CREATE TABLE sessions (id INTEGER PRIMARY KEY)");
    import_refused(store, path, QUIPU_UNSUPPORTED, "has no known layout");
    quipu_close(st_open_new(NULL, path));
    import_refused(store, path, QUIPU_UNSUPPORTED, "is a quipu store");
    t_fixture("adk-go-database.db", path);
    options.kind = QUIPU_SOURCE_ADK_V0;
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "adk-go, not adk-v0"));
    options.kind = (quipu_source_kind)99;
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_source_import(store, NULL, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(store);
}

/* Each page of the file overwritten in turn: an error and nothing imported, or a page that no
 * session's data is on. */
static void a_corrupted_file_imports_nothing(void **state)
{
    char path[T_PATH_MAX];
    char broken[T_PATH_MAX];
    size_t size = 0;
    int refused = 0;

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    char *bytes = t_file_read(path, &size);
    t_path(t_tmpdir(), "broken.db", broken);
    for (size_t at = 4096; at < size; at += 4096) {
        quipu_store *store = st_open_new(NULL, NULL);
        quipu_stats stats = QUIPU_STATS_INIT;
        quipu_error err = {0};
        char *copy = malloc(size);

        assert_non_null(copy);
        memcpy(copy, bytes, size);
        memset(copy + at, 0xa5, 4096);
        t_file_write(broken, copy, size);
        free(copy);
        if (quipu_source_import(store, broken, NULL, NULL, NULL, &err) != QUIPU_OK) {
            T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
            assert_int_equal(stats.sessions, 0);
            assert_true(strlen(err.message) > 10);
            refused++;
        }
        quipu_close(store);
    }
    free(bytes);
    assert_true(refused >= 4);
}

static void broken_json_in_the_last_session_imports_nothing(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    import_exec(path, "UPDATE events SET event_data = '{\"id\":' WHERE id = 'ev-b1'");
    import_refused(store, path, QUIPU_INVALID, "the event in row");
    t_fixture("adk-python-sqlite.db", path);
    import_exec(path, "UPDATE sessions SET state = '[1]' WHERE user_id = 'bob'");
    import_refused(store, path, QUIPU_INVALID, "state is not a JSON object");
    t_fixture("adk-python-database.db", path);
    import_exec(path, "UPDATE events SET timestamp = 'yesterday' WHERE id = 'ev-b1'");
    import_refused(store, path, QUIPU_INVALID, "a time cannot be read");
    quipu_close(store);
}

static void a_key_of_state_may_have_1024_bytes(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    import_exec(path, "UPDATE sessions SET state = json_object(printf('%.*c', 1025, 'k'), 1) "
                      "WHERE user_id = 'bob'");
    import_refused(store, path, QUIPU_LIMIT, "at most 1024");
    import_exec(path, "UPDATE sessions SET state = json_object(printf('%.*c', 1024, 'k'), 1) "
                      "WHERE user_id = 'bob'");
    assert_int_equal(import_ok(store, path, NULL).sessions, 2);
    quipu_close(store);
}

static void a_hostile_pickle_imports_nothing(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("adk-python-database-v0.db", path);
    /* os.system("touch /tmp/pwned"), as protocol 4 writes it. */
    import_exec(path,
                "UPDATE events SET actions = x'80048c026f738c0673797374656d938c10746f756368202f746d"
                "702f70776e656485522e' WHERE id = 'ev-012'");
    import_refused(store, path, QUIPU_INVALID, "os.system, which is not a class of ADK");
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_database_comes_in_whole),
        cmocka_unit_test(python_sqlite_comes_in_whole),
        cmocka_unit_test(go_database_comes_in_and_its_orphan_is_reported),
        cmocka_unit_test(a_dry_run_reports_and_changes_nothing),
        cmocka_unit_test(a_repeated_import_skips_what_is_there),
        cmocka_unit_test(the_cap_of_the_store_holds_for_what_comes_in),
        cmocka_unit_test(a_session_that_grew_in_the_file_is_a_conflict),
        cmocka_unit_test(another_session_of_the_same_key_is_not_touched),
        cmocka_unit_test(the_columns_id_wins_and_the_json_time_wins),
        cmocka_unit_test(a_time_that_the_json_lacks_is_the_columns),
        cmocka_unit_test(names_of_imported_state_may_be_odd),
        cmocka_unit_test(old_files_that_lack_columns_come_in),
        cmocka_unit_test(the_newer_value_of_shared_state_stays),
        cmocka_unit_test(other_files_get_a_clear_error),
        cmocka_unit_test(a_corrupted_file_imports_nothing),
        cmocka_unit_test(broken_json_in_the_last_session_imports_nothing),
        cmocka_unit_test(a_key_of_state_may_have_1024_bytes),
        cmocka_unit_test(a_hostile_pickle_imports_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
