/* What a store in a server does otherwise: what it cannot do it says by name, an erased session is
 * gone, and many programs may open a new one together. */
#include "contract/store_t.h"
#include "lib/short.h"

#include <libpq-fe.h>
#include <pthread.h>

#include <quipu/maintain.h>

#define OPENERS 8

static void unsupported_maintenance_is_refused_by_name(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    char path[T_PATH_MAX];
    quipu_error err = {0};
    quipu_store *other = NULL;
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    t_path(t_tmpdir(), "backup.db", path);
    T_STATUS(quipu_store_backup(store, path, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "pg_dump"));
    assert_false(t_file_exists(path));
    options.max_bytes = 64 << 20;
    T_STATUS(quipu_open(uri, &options, &other, &err), QUIPU_UNSUPPORTED);
    assert_null(other);
    quipu_close(store);
}

static void an_erased_session_is_gone_and_others_stay(void **state)
{
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "gone");
    st_create(store, "stays");
    st_append_many(store, "gone", 20);
    st_append_many(store, "stays", 3);
    T_OK(t_session_erase(store, QUIPU_STR("gone"), 0, NULL, &erasure, &err));
    quipu_free(erasure);
    T_STATUS(st_get_status(store, "gone"), QUIPU_NOT_FOUND);
    assert_int_equal(st_append(store, "stays", "still"), 4);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_int_equal(stats.messages, 4);
    assert_true(stats.file_bytes > 0);
    quipu_close(store);
}

static bool is_kept(const quipu_erasure *erasure, const char *words)
{
    for (size_t i = 0; i < erasure->kept_count; i++) {
        if (strstr(erasure->kept[i].p, words) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether the tables of the messages were cleaned so often, all together. */
static bool vacuumed(const char *uri, const char *times)
{
    PGconn *pg = PQconnectdb(uri);
    PGresult *result = PQexec(pg, "SELECT COALESCE(sum(vacuum_count), 0) FROM pg_stat_user_tables "
                                  "WHERE schemaname = current_schema() "
                                  "AND relname LIKE 'messages%'");
    bool same = strcmp(PQgetvalue(result, 0, 0), times) == 0;

    PQclear(result);
    PQfinish(pg);
    return same;
}

static void a_receipt_names_the_remnants_at_the_server(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "gone");
    st_append(store, "gone", "a secret");
    T_OK(t_session_erase(store, QUIPU_STR("gone"), QUIPU_ERASE_QUICK, NULL, &erasure, &err));
    assert_true(is_kept(erasure, "VACUUM") && is_kept(erasure, "log") &&
                is_kept(erasure, "backup"));
    assert_false(is_kept(erasure, "not cleaned"));
    quipu_free(erasure);
    assert_true(vacuumed(uri, "0"));
    T_OK(t_session_erase(store, QUIPU_STR("gone"), 0, NULL, &erasure, &err));
    assert_true(vacuumed(uri, "2")); /* the messages, and their words */
    quipu_free(erasure);
    quipu_close(store);
}

/* Rows are gone and the call has succeeded; that the tables cannot be cleaned is in the receipt. */
static void tables_that_cannot_be_cleaned_fail_no_erasure(void **state)
{
    static char uri[T_PATH_MAX];
    static char role_uri[2 * T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_erasure *erasure = NULL;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};
    PGconn *locker;

    (void)state;
    st_create(store, "first");
    st_create(store, "second");
    st_append(store, "first", "a secret");
    locker = PQconnectdb(uri); /* holds what VACUUM needs, and lets writers write */
    PQclear(PQexec(locker, "BEGIN; LOCK TABLE messages IN SHARE UPDATE EXCLUSIVE MODE"));
    call.deadline_ms = 300;
    T_OK(t_session_erase(store, QUIPU_STR("first"), 0, &call, &erasure, &err));
    assert_int_equal(erasure->messages, 1);
    assert_true(is_kept(erasure, "not cleaned"));
    quipu_free(erasure);
    T_STATUS(st_get_status(store, "first"), QUIPU_NOT_FOUND);
    PQfinish(locker);
    quipu_close(store);

    t_pg_execute(uri, "DO $$ BEGIN CREATE ROLE quipu_guest LOGIN; EXCEPTION WHEN duplicate_object "
                      "THEN NULL; END $$");
    t_pg_execute(uri, "DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %1$I TO quipu_guest; "
                      "GRANT ALL ON ALL TABLES IN SCHEMA %1$I TO quipu_guest', current_schema()); "
                      "END $$");
    (void)snprintf(role_uri, sizeof(role_uri), "%s&user=quipu_guest", uri);
    T_OK(quipu_open(role_uri, NULL, &store, &err));
    T_OK(t_session_erase(store, QUIPU_STR("second"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->session_count, 1);
    assert_true(is_kept(erasure, "does not own the tables"));
    quipu_free(erasure);
    quipu_close(store);
}

typedef struct opener {
    const char *uri;
    quipu_status status;
    quipu_error err;
} opener;

static void *opener_run(void *arg)
{
    opener *self = arg;
    quipu_store *store = NULL;

    self->status = quipu_open(self->uri, NULL, &store, &self->err);
    quipu_close(store);
    return NULL;
}

static void many_openers(const char *setting)
{
    for (int64_t round = 0; round < t_count(3, 20); round++) {
        opener openers[OPENERS];
        pthread_t threads[OPENERS];
        char schema[T_PATH_MAX];
        char uri[T_PATH_MAX + 64];

        t_pg_schema(schema);
        (void)snprintf(uri, sizeof(uri), "%s%s", schema, setting);
        for (int i = 0; i < OPENERS; i++) {
            openers[i] = (opener){.uri = uri};
            assert_int_equal(pthread_create(&threads[i], NULL, opener_run, &openers[i]), 0);
        }
        for (int i = 0; i < OPENERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            if (openers[i].status != QUIPU_OK) {
                fail_msg("opener %d: %s", i, openers[i].err.message);
            }
        }
    }
}

static void many_openers_of_a_new_store_all_succeed(void **state)
{
    (void)state;
    many_openers("");
}

static void many_openers_succeed_where_transactions_are_serializable(void **state)
{
    (void)state;
    many_openers("%20-cdefault_transaction_isolation%3Dserializable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported_maintenance_is_refused_by_name),
        cmocka_unit_test(an_erased_session_is_gone_and_others_stay),
        cmocka_unit_test(a_receipt_names_the_remnants_at_the_server),
        cmocka_unit_test(tables_that_cannot_be_cleaned_fail_no_erasure),
        cmocka_unit_test(many_openers_of_a_new_store_all_succeed),
        cmocka_unit_test(many_openers_succeed_where_transactions_are_serializable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
