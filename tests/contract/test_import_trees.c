/* Every event of ADK's four fixtures, whole: it comes in, comes out, and after an export and an
 * import of that it is the JSON tree that the file holds. What the file holds is said by SQL over
 * its own tables, without a line of the importer. */
#include "contract/adk_event_t.h"
#include "contract/import_t.h"
#include "contract/maintain_t.h"
#include "lib/short.h"

/* The same events went to layouts 0 and 1: what the old one has a column for must be the same. */
static const char trees_v0[] =
    "(SELECT json_group_object(key, json(e.event_data -> ('$.' || key))) FROM "
    "json_each(e.event_data) WHERE key IN ('id', 'invocation_id', 'author', 'actions', "
    "'long_running_tool_ids', 'branch', 'timestamp', 'content', 'grounding_metadata', "
    "'custom_metadata', 'usage_metadata', 'citation_metadata', 'partial', 'turn_complete', "
    "'error_code', 'error_message', 'interrupted', 'input_transcription', "
    "'output_transcription'))";

/* A column that is empty, or says null or false, is no member of Go's event. */
static const char trees_go[] =
    "(SELECT json_group_object(k, json(v)) FROM (SELECT NULL AS k, NULL AS v "
    "UNION ALL SELECT 'id', json_quote(e.id) "
    "UNION ALL SELECT 'timestamp', json_quote(replace(replace(e.timestamp, ' ', 'T'), '+00:00', "
    "'Z')) "
    "UNION ALL SELECT 'invocationId', nullif(json_quote(nullif(e.invocation_id, '')), 'null') "
    "UNION ALL SELECT 'author', nullif(json_quote(nullif(e.author, '')), 'null') "
    "UNION ALL SELECT 'branch', nullif(json_quote(nullif(e.branch, '')), 'null') "
    "UNION ALL SELECT 'isolationScope', nullif(json_quote(nullif(e.isolation_scope, '')), 'null') "
    "UNION ALL SELECT 'errorCode', nullif(json_quote(nullif(e.error_code, '')), 'null') "
    "UNION ALL SELECT 'errorMessage', nullif(json_quote(nullif(e.error_message, '')), 'null') "
    "UNION ALL SELECT 'content', nullif(nullif(CAST(e.content AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'actions', nullif(nullif(CAST(e.actions AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'longRunningToolIds', nullif(nullif(CAST(e.long_running_tool_ids_json AS "
    "TEXT), ''), 'null') "
    "UNION ALL SELECT 'routes', nullif(nullif(CAST(e.routes_json AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'output', nullif(nullif(CAST(e.output_json AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'nodeInfo', nullif(nullif(CAST(e.node_info_json AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'requestedInput', nullif(nullif(CAST(e.requested_input_json AS TEXT), ''), "
    "'null') "
    "UNION ALL SELECT 'groundingMetadata', nullif(nullif(CAST(e.grounding_metadata AS TEXT), ''), "
    "'null') "
    "UNION ALL SELECT 'customMetadata', nullif(nullif(CAST(e.custom_metadata AS TEXT), ''), "
    "'null') "
    "UNION ALL SELECT 'usageMetadata', nullif(nullif(CAST(e.usage_metadata AS TEXT), ''), 'null') "
    "UNION ALL SELECT 'citationMetadata', nullif(nullif(CAST(e.citation_metadata AS TEXT), ''), "
    "'null') "
    "UNION ALL SELECT 'partial', CASE WHEN e.partial THEN 'true' END "
    "UNION ALL SELECT 'turnComplete', CASE WHEN e.turn_complete THEN 'true' END "
    "UNION ALL SELECT 'interrupted', CASE WHEN e.interrupted THEN 'true' END "
    ") WHERE v IS NOT NULL)";

/* A fixture, and what tests/fixtures/README.md says it holds. */
typedef struct trees_fixture {
    const char *name;
    const char *oracle; /* the file that says what the events are */
    const char *event;  /* an expression over a row `e` of its events */
    quipu_source_kind kind;
    uint32_t flags;
    int64_t sessions;
    int64_t messages;
    int64_t orphans;
    int64_t states;
} trees_fixture;

static const trees_fixture trees_database = {"adk-python-database.db",
                                             "adk-python-database.db",
                                             "e.event_data",
                                             QUIPU_SOURCE_ADK_DATABASE,
                                             QUIPU_SERVICE_PYTHON,
                                             2,
                                             12,
                                             0,
                                             10};
static const trees_fixture trees_sqlite = {"adk-python-sqlite.db",
                                           "adk-python-sqlite.db",
                                           "e.event_data",
                                           QUIPU_SOURCE_ADK_SQLITE,
                                           QUIPU_SERVICE_PYTHON,
                                           2,
                                           12,
                                           0,
                                           10};
static const trees_fixture trees_pickles = {"adk-python-database-v0.db",
                                            "adk-python-database.db",
                                            trees_v0,
                                            QUIPU_SOURCE_ADK_V0,
                                            QUIPU_SERVICE_PYTHON,
                                            1,
                                            11,
                                            0,
                                            9};
static const trees_fixture trees_of_go = {"adk-go-database.db",
                                          "adk-go-database.db",
                                          trees_go,
                                          QUIPU_SOURCE_ADK_GO,
                                          QUIPU_SERVICE_GO,
                                          2,
                                          11,
                                          1,
                                          8};

/* Every event of a session against the oracle, in the file's order. */
static int64_t trees_check_session(adk_world *world, const trees_fixture *fixture,
                                   const char *oracle, const char *user, const char *id)
{
    quipu_live *session = import_session(world, user, id);
    char sql[4096];
    int64_t count = 0;

    assert_true(snprintf(sql, sizeof(sql),
                         "SELECT %s FROM events AS e WHERE e.user_id = '%s' AND e.session_id = "
                         "'%s' ORDER BY e.timestamp, e.rowid",
                         fixture->event, user, id) < (int)sizeof(sql));
    import_rows rows = import_query(oracle, sql);
    for (const char *text = import_next(&rows); text != NULL; text = import_next(&rows)) {
        adk_check_json(adk_event(world, session, (size_t)count), text);
        adk_check_event(text, strlen(text));
        count++;
    }
    import_end(&rows);
    assert_int_equal(t_live_event_count(session), count);
    quipu_live_free(session);
    return count;
}

static void trees_check_all(adk_world *world, const trees_fixture *fixture, const char *path,
                            const char *oracle)
{
    import_rows rows = import_query(path, "SELECT user_id || ' ' || id FROM sessions");
    int64_t sessions = 0;
    int64_t events = 0;

    for (const char *who = import_next(&rows); who != NULL; who = import_next(&rows)) {
        char user[128] = "";
        const char *space = strchr(who, ' ');

        assert_non_null(space);
        memcpy(user, who, (size_t)(space - who));
        events += trees_check_session(world, fixture, oracle, user, space + 1);
        sessions++;
    }
    import_end(&rows);
    assert_int_equal(sessions, fixture->sessions);
    assert_int_equal(events, fixture->messages);
}

static void trees_hear_orphan(void *ctx, const quipu_orphan *orphan)
{
    (*(int64_t *)ctx)++;
    T_STR(orphan->app_name, "demo_app");
    T_STR(orphan->user_id, "carol");
    assert_int_equal(orphan->row, 12);
}

static void trees_check_report(const trees_fixture *fixture, const quipu_source_report *report)
{
    assert_int_equal(report->kind, fixture->kind);
    assert_int_equal(report->sessions, fixture->sessions);
    assert_int_equal(report->messages, fixture->messages);
    assert_int_equal(report->orphans, fixture->orphans);
    assert_int_equal(report->states, fixture->states);
    assert_int_equal(report->skipped, 0);
    assert_int_equal(report->memories, 0);
}

static void trees_check(const trees_fixture *fixture)
{
    char path[T_PATH_MAX];
    char oracle[T_PATH_MAX];
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    int64_t orphans = 0;

    t_fixture(fixture->name, path);
    t_fixture(fixture->oracle, oracle);
    adk_world *world = adk_open(fixture->flags);
    options.orphan = trees_hear_orphan;
    options.ctx = &orphans;
    const quipu_source_report report = import_ok(world->store, path, &options);
    trees_check_report(fixture, &report);
    assert_int_equal(orphans, fixture->orphans);
    trees_check_all(world, fixture, path, oracle);

    adk_world *other = adk_open(fixture->flags);
    mt_stream stream = mt_export(world->store, NULL);
    mt_import(other->store, &stream);
    trees_check_all(other, fixture, path, oracle);
    mt_stream again = mt_export(other->store, NULL);
    assert_int_equal(again.n, stream.n);
    mt_free(&again);
    mt_free(&stream);
    adk_close(other);
    adk_close(world);
}

static void every_event_of_a_python_database_is_the_same_tree(void **state)
{
    (void)state;
    trees_check(&trees_database);
}

static void every_event_of_a_python_sqlite_file_is_the_same_tree(void **state)
{
    (void)state;
    trees_check(&trees_sqlite);
}

static void every_event_with_a_pickle_is_the_same_tree(void **state)
{
    (void)state;
    trees_check(&trees_pickles);
}

static void every_event_of_a_go_database_is_the_same_tree(void **state)
{
    (void)state;
    trees_check(&trees_of_go);
}

/* Of the two sessions whose names are as they were: every event is what the file says now. */
static void trees_check_flipped(adk_world *world, const char *path)
{
    /* Of id and invocation id the columns are right, of the time when the JSON says none. */
    static const trees_fixture now = {
        .event = "json_insert(json_set(e.event_data, '$.id', e.id, '$.invocation_id', "
                 "e.invocation_id), '$.timestamp', e.timestamp)"};
    import_rows rows = import_query(
        path,
        "SELECT user_id || ' ' || id FROM sessions WHERE app_name = 'demo_app' AND user_id IN "
        "('alice', 'bob') AND id IN ('sess-0001', (SELECT session_id FROM events WHERE "
        "user_id = 'bob'))");

    for (const char *who = import_next(&rows); who != NULL; who = import_next(&rows)) {
        char user[128] = "";
        const char *space = strchr(who, ' ');

        assert_non_null(space);
        memcpy(user, who, (size_t)(space - who));
        (void)trees_check_session(world, &now, path, user, space + 1);
    }
    import_end(&rows);
}

/* A byte changed here and there, where the file has something: the import refuses with a reason and
 * brings nothing in, or it brings in what the file says now. A text that is another text now cannot
 * be known from the true one; nobody wrote a sum of it. */
static void flipped_bytes_bring_in_nothing_or_what_the_file_says(void **state)
{
    const int64_t flips = t_count(150, 20000);
    uint64_t random = t_seed();
    char path[T_PATH_MAX];
    char broken[T_PATH_MAX];
    size_t size = 0;
    int64_t refused = 0;

    (void)state;
    t_fixture("adk-python-sqlite.db", path);
    char *bytes = t_file_read(path, &size);
    t_path(t_tmpdir(), "flipped.db", broken);
    for (int64_t i = 0; i < flips; i++) {
        size_t at = (size_t)t_random_below(&random, size);
        adk_world *world = adk_open(QUIPU_SERVICE_PYTHON);
        quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
        quipu_stats stats = QUIPU_STATS_INIT;
        quipu_error err = {0};

        while (bytes[at] == '\0') {
            at = (size_t)t_random_below(&random, size);
        }
        const char was = bytes[at];
        bytes[at] = (char)(was ^ (char)(1 + t_random_below(&random, 127)));
        t_file_write(broken, bytes, size);
        bytes[at] = was;
        const quipu_status status =
            quipu_source_import(world->store, broken, NULL, NULL, &report, &err);
        T_OK(quipu_store_stats(world->store, NULL, NULL, &stats, NULL));
        if (status == QUIPU_OK) {
            assert_int_equal(report.messages + report.orphans, 12);
            assert_int_equal(stats.messages, report.messages);
            mt_clean(world->store);
            trees_check_flipped(world, broken);
        } else {
            assert_int_equal(stats.sessions, 0);
            assert_int_equal(stats.messages, 0);
            assert_true(strlen(err.message) > 10);
            refused++;
        }
        adk_close(world);
    }
    free(bytes);
    printf("%lld of %lld refused\n", (long long)refused, (long long)flips);
    assert_true(refused > flips / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_of_a_python_database_is_the_same_tree),
        cmocka_unit_test(every_event_of_a_python_sqlite_file_is_the_same_tree),
        cmocka_unit_test(every_event_with_a_pickle_is_the_same_tree),
        cmocka_unit_test(every_event_of_a_go_database_is_the_same_tree),
        cmocka_unit_test(flipped_bytes_bring_in_nothing_or_what_the_file_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
