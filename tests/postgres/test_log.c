/* What a store on a server logs when connections are cut and the server refuses: states, retries,
 * outcomes, and no text. */
#include "contract/log_t.h"

#define CUT                                                                                        \
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "                                      \
    "WHERE datname = current_database() AND application_name = 'quipu' AND pid <> "                \
    "pg_backend_pid()"

static void connection_that_was_cut_is_logged_when_it_is_made_anew(void **state)
{
    char uri[T_PATH_MAX];
    quipu_open_options options;
    quipu_store *store;
    lt_log log;

    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_WARN);
    store = st_open_new(&options, uri);
    st_create(store, "k");
    assert_int_equal(log.entries, 0);
    t_pg_execute(uri, CUT);
    assert_int_equal(st_append(store, "k", "secret"), 1);
    quipu_close(store);
    assert_non_null(strstr(log.text, "2 postgres reconnected attempts=1 ms="));
    assert_null(strstr(log.text, "secret"));
    lt_free(&log);
}

static void conflict_is_logged_with_its_state_and_the_retry(void **state)
{
    const quipu_message message = st_says(QUIPU_ROLE_USER, "secret");
    char uri[T_PATH_MAX];
    quipu_open_options options;
    quipu_store *store;
    lt_log log;

    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_WARN);
    store = st_open_new(&options, uri);
    st_create(store, "k");
    t_pg_execute(uri, "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                      "RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$; "
                      "CREATE TRIGGER trip AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION "
                      "trip()");
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, NULL),
             QUIPU_BUSY);
    quipu_close(store);
    assert_non_null(strstr(log.text, "2 postgres server_error sqlstate=40P01 status="));
    assert_non_null(strstr(log.text, "2 store retried_alone status="));
    assert_null(strstr(log.text, "secret"));
    lt_free(&log);
}

static void lost_commit_is_logged_as_one_of_unknown_outcome(void **state)
{
    quipu_session_new values = st_values("secret");
    char uri[T_PATH_MAX];
    quipu_open_options options;
    quipu_store *store;
    lt_log log;

    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_WARN);
    store = st_open_new(&options, uri);
    t_pg_execute(uri, "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                      "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$; "
                      "CREATE CONSTRAINT TRIGGER trip AFTER INSERT ON sessions "
                      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trip()");
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, NULL), QUIPU_UNKNOWN);
    quipu_close(store);
    assert_non_null(strstr(log.text, "1 store unknown_outcome members=1 engine_code="));
    assert_null(strstr(log.text, "secret"));
    lt_free(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_that_was_cut_is_logged_when_it_is_made_anew),
        cmocka_unit_test(conflict_is_logged_with_its_state_and_the_retry),
        cmocka_unit_test(lost_commit_is_logged_as_one_of_unknown_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
