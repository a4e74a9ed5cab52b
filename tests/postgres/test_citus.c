/* What the engine does for a distributed store, as far as it shows on a server without Citus: a
 * connection is made to take its store for one. The rest is `make test-citus`. */
#include "ent_postgres/connect.h"

#include <libpq-fe.h>
#include <unistd.h>

#include <ent/migrate.h>
#include <quipu/store.h>

#include "ent/db.h"
#include "ent_postgres/open.h"
#include "gen/quipu.h"
#include "lib/t_pg.h"

typedef struct world {
    char uri[T_PATH_MAX];
    ent_db *db;
    qp_pg *conn;
    PGconn *other;
} world;

static int setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    t_pg_schema(w->uri);
    w->db = connect_to(w->uri);
    w->conn = w->db->conn;
    w->conn->citus = true;
    w->other = PQconnectdb(w->uri);
    assert_int_equal(PQstatus(w->other), CONNECTION_OK);
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    PQfinish(w->other);
    ent_close(w->db);
    free(w);
    return 0;
}

/* ---- refused ----------------------------------------------------------------------------------
 */

static void check_refused(const char *uri, const char *why)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.flags = QUIPU_OPEN_DISTRIBUTE;
    T_STATUS(quipu_open(uri, &options, &store, &err), QUIPU_UNSUPPORTED);
    assert_null(store);
    if (strstr(err.message, why) == NULL) {
        fail_msg("%s: %s", why, err.message);
    }
}

static void a_server_without_the_extension_cannot_distribute_and_says_what_is_missing(void **state)
{
    world *w = *state;

    check_refused(w->uri, "CREATE EXTENSION citus");
}

static void a_file_cannot_be_distributed_and_the_error_names_what_can(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "alone.db", path);
    check_refused(path, "PostgreSQL with Citus");
    assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- names of shards --------------------------------------------------------------------------
 */

/* What the caller gets when this statement fails. */
static void explain(world *w, const char *sql, quipu_error *ret)
{
    PGresult *failure = PQexec(w->other, sql);

    assert_int_equal(PQresultStatus(failure), PGRES_FATAL_ERROR);
    (void)qp_pg_fail(w->conn, failure, "cannot write to", ret);
    qp_pg_explain_unique(w->conn, failure, ret);
    PQclear(failure);
}

static void make_shard(world *w)
{
    t_pg_execute(w->uri, "CREATE TABLE own (part int, id int, key text, CONSTRAINT own_part_key "
                         "UNIQUE (part, key)); CREATE TABLE own_102008 (part int, id int, key "
                         "text, CONSTRAINT own_part_key_102008 UNIQUE (part, key)); "
                         "INSERT INTO own_102008 VALUES (1, 1, 'k')");
}

static void a_shards_constraint_names_the_fields_of_its_table(void **state)
{
    world *w = *state;
    quipu_error err = {0};

    make_shard(w);
    explain(w, "INSERT INTO own_102008 VALUES (1, 2, 'k')", &err);
    assert_string_equal(err.message, "own.part, own.key");
}

/* Citus passes the text of a worker's error on, and not always its fields. */
static void a_shards_constraint_is_found_in_the_text_of_an_error_without_fields(void **state)
{
    world *w = *state;
    quipu_error err = {0};

    make_shard(w);
    explain(w,
            "DO $$ BEGIN RAISE EXCEPTION 'duplicate key value violates unique constraint "
            "\"own_part_key_102008\"' USING ERRCODE = '23505'; END $$",
            &err);
    assert_string_equal(err.message, "own.part, own.key");
}

/* ---- DDL --------------------------------------------------------------------------------------
 */

static void commands_are_sent_one_by_one(void **state)
{
    world *w = *state;
    PGresult *result;

    t_pg_execute(w->uri, "CREATE TABLE seen (sql text); "
                         "CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
                         "INSERT INTO seen VALUES (current_query()); END $$; "
                         "CREATE EVENT TRIGGER see ON ddl_command_end EXECUTE FUNCTION see()");
    T_OK(ent_begin(w->db, ENT_WRITE, NULL));
    T_OK(
        qp_pg_execute(w->conn, QUIPU_STR("CREATE TABLE a (b int);\nCREATE TABLE c (d int)"), NULL));
    T_OK(ent_commit(w->db, NULL));
    t_pg_execute(w->uri, "DROP EVENT TRIGGER see");
    result = PQexec(w->other, "SELECT count(*), count(*) FILTER (WHERE sql LIKE '%;%') FROM seen "
                              "WHERE sql ~ '^CREATE TABLE [ac] '");
    assert_string_equal(PQgetvalue(result, 0, 0), "2");
    assert_string_equal(PQgetvalue(result, 0, 1), "0");
    PQclear(result);
}

/* ---- the layout -------------------------------------------------------------------------------
 */

/* No worker can enforce a fork's reference to its parent, which may lie in another shard. */
static void a_fork_needs_no_reference_to_its_parent_where_tables_are_distributed(void **state)
{
    world *w = *state;
    ent_migrate_report report = {0};
    quipu_error err = {0};

    w->conn->citus = false;
    T_OK(ent_migrate(w->db, &qp_quipu_schema, NULL, &report, &err));
    t_pg_execute(w->uri,
                 "DO $$ BEGIN EXECUTE (SELECT 'ALTER TABLE sessions DROP CONSTRAINT ' || conname "
                 "FROM pg_constraint WHERE conrelid = CAST('sessions' AS regclass) AND contype = "
                 "'f'); END $$; DELETE FROM ent_journal"); /* so that it looks at every table */
    assert_int_not_equal(ent_migrate(w->db, &qp_quipu_schema, NULL, &report, &err), QUIPU_OK);
    assert_non_null(strstr(err.message, "sessions"));
    w->conn->citus = true;
    if (ent_migrate(w->db, &qp_quipu_schema, NULL, &report, &err) != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
}

/* ---- COMMIT with a warning --------------------------------------------------------------------
 */

/* A transaction whose COMMIT succeeds and warns, as that of Citus does when a worker is lost
 * between the phases. */
static quipu_status commit_with_a_warning(world *w, const char *level, quipu_error *reterr)
{
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE t (a int); "
                   "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                   "RAISE %s 'failed to commit'; RETURN NEW; END $$; "
                   "CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED "
                   "FOR EACH ROW EXECUTE FUNCTION warn()",
                   level);
    t_pg_execute(w->uri, sql);
    T_OK(ent_begin(w->db, ENT_WRITE, NULL));
    T_OK(qp_pg_execute(w->conn, QUIPU_STR("INSERT INTO t VALUES (1)"), NULL));
    return ent_commit(w->db, reterr);
}

static void a_commit_that_warns_is_not_acknowledged(void **state)
{
    world *w = *state;
    quipu_error err = {0};

    /* The store looks for what it appended, as after a lost standby (postgres.standby). */
    T_STATUS(commit_with_a_warning(w, "WARNING", &err), QUIPU_IO);
    assert_non_null(strstr(err.message, "not finished on every worker"));
    assert_int_equal(w->conn->failure, QP_FAILURE_CONFLICT);
}

static void a_notice_of_a_commit_is_no_warning(void **state)
{
    T_OK(commit_with_a_warning(*state, "NOTICE", NULL));
}

static void without_citus_a_warning_of_a_commit_has_other_causes(void **state)
{
    world *w = *state;

    w->conn->citus = false;
    T_OK(commit_with_a_warning(w, "WARNING", NULL));
}

#define CITUS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CITUS_TEST(a_server_without_the_extension_cannot_distribute_and_says_what_is_missing),
        CITUS_TEST(a_file_cannot_be_distributed_and_the_error_names_what_can),
        CITUS_TEST(a_shards_constraint_names_the_fields_of_its_table),
        CITUS_TEST(a_shards_constraint_is_found_in_the_text_of_an_error_without_fields),
        CITUS_TEST(commands_are_sent_one_by_one),
        CITUS_TEST(a_fork_needs_no_reference_to_its_parent_where_tables_are_distributed),
        CITUS_TEST(a_commit_that_warns_is_not_acknowledged),
        CITUS_TEST(a_notice_of_a_commit_is_no_warning),
        CITUS_TEST(without_citus_a_warning_of_a_commit_has_other_causes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
