/* Settings that an operator gives to a role (ALTER ROLE ... SET): most change nothing here, some
 * are refused because they would hide lost commits, and what ends a call is named. */
#include "contract/store_t.h"

#include "postgres/server_t.h"

#define ROLE "t_settings"

/* A role with a schema of its own, first on a path that goes on to `public` as the default does. */
static void role_make(const char *const *settings, char ret_uri[T_PATH_MAX])
{
    char admin[T_PATH_MAX];
    char sql[256];

    t_pg_schema(admin);
    t_pg_execute(admin, "DO $$BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = "
                        "'" ROLE "') THEN CREATE ROLE " ROLE " LOGIN; END IF; END$$");
    t_pg_execute(admin, "ALTER ROLE " ROLE " RESET ALL");
    t_pg_execute(admin, "DROP SCHEMA IF EXISTS " ROLE " CASCADE");
    t_pg_execute(admin, "CREATE SCHEMA " ROLE " AUTHORIZATION " ROLE);
    for (; *settings != NULL; settings++) {
        (void)snprintf(sql, sizeof(sql), "ALTER ROLE " ROLE " SET %s", *settings);
        t_pg_execute(admin, sql);
    }
    *strstr(admin, "&options=") = '\0';
    assert_true((size_t)snprintf(ret_uri, T_PATH_MAX, "%.900s&user=" ROLE, admin) < T_PATH_MAX);
}

static void setting_changes_nothing(const char *const *settings)
{
    char uri[T_PATH_MAX];
    quipu_store *store = NULL;
    quipu_history *history;
    quipu_error err = {0};

    role_make(settings, uri);
    if (quipu_open(uri, NULL, &store, &err) != QUIPU_OK) {
        fail_msg("%s: %s", settings[0], err.message);
    }
    st_create(store, "k");
    (void)st_append(store, "k",
                    "Gr\xc3\xbc\xc3\x9f"
                    "e \xf0\x9f\xa7\xb6 '\\n'");
    history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 1);
    assert_true(quipu_str_eq(quipu_message_at(history->messages, 0)->content,
                             QUIPU_STR("Gr\xc3\xbc\xc3\x9f"
                                       "e \xf0\x9f\xa7\xb6 '\\n'")));
    quipu_free(history);
    quipu_close(store);
}

static void forms_and_levels_of_the_role_change_nothing(void **state)
{
    static const char *const each[][4] = {
        {"client_encoding = latin1", NULL},
        {"datestyle = 'German'", "timezone = 'Asia/Kolkata'", "bytea_output = escape", NULL},
        {"extra_float_digits = -15", "intervalstyle = sql_standard", NULL},
        {"default_transaction_isolation = serializable", "default_transaction_deferrable = on",
         NULL},
        {"lock_timeout = 1000", "statement_timeout = 60000", NULL},
        {"idle_in_transaction_session_timeout = 1000", "idle_session_timeout = 1000", NULL},
        {"transform_null_equals = on", "plan_cache_mode = force_generic_plan", NULL},
        {"search_path = " ROLE ", pg_catalog", "row_security = off", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        setting_changes_nothing(each[i]);
    }
}

/* ---- refused ----------------------------------------------------------------------------------
 */

static void setting_is_refused(const char *setting, quipu_status status, const char *word)
{
    const char *const settings[] = {setting, NULL};
    char uri[T_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error err = {0};

    role_make(settings, uri);
    T_STATUS(quipu_open(uri, NULL, &store, &err), status);
    print_message("%s: %s\n", setting, err.message);
    assert_non_null(strstr(err.message, word));
}

/* The warning about a commit that reached no standby would not come. */
static void a_role_that_suppresses_warnings_is_refused(void **state)
{
    (void)state;
    setting_is_refused("client_min_messages = error", QUIPU_UNSUPPORTED, "client_min_messages");
}

static void the_uri_can_enable_a_roles_warnings(void **state)
{
    static const char *const settings[] = {"client_min_messages = error", NULL};
    char uri[T_PATH_MAX];
    char hearing[T_PATH_MAX + 64];
    quipu_store *store = NULL;

    (void)state;
    role_make(settings, uri);
    (void)snprintf(hearing, sizeof(hearing), "%s&options=-cclient_min_messages%%3Dwarning", uri);
    T_OK(quipu_open(hearing, NULL, &store, NULL));
    quipu_close(store);
}

static void literals_of_another_kind_are_refused(void **state)
{
    (void)state;
    setting_is_refused("standard_conforming_strings = off", QUIPU_UNSUPPORTED,
                       "standard_conforming_strings");
}

static void a_role_that_may_only_read_cannot_open_for_writing(void **state)
{
    (void)state;
    setting_is_refused("default_transaction_read_only = on", QUIPU_IO, "read-only");
}

/* Not the caller's own cancel, and no reason to put a backup in the store's place. */
static void the_servers_own_timeout_is_busy_and_named(void **state)
{
    (void)state;
    setting_is_refused("statement_timeout = 1", QUIPU_BUSY, "statement_timeout");
}

/* ---- the search path --------------------------------------------------------------------------
 */

/* The default search path of a role: its own schema, then the public one. */
static void a_path_that_leads_on_to_another_store_is_refused(void **state)
{
    static const char *const none[] = {NULL};
    char uri[T_PATH_MAX];
    char admin[T_PATH_MAX];
    char one[T_PATH_MAX + 64];
    quipu_store *store = NULL;
    quipu_store *others = NULL;
    quipu_error err = {0};

    (void)state;
    role_make(none, uri);
    (void)snprintf(admin, sizeof(admin), "%s", uri);
    *strstr(admin, "&user=" ROLE) = '\0';
    T_OK(quipu_open(admin, NULL, &others, NULL)); /* in the schema `public` */
    st_create(others, "k");
    t_pg_execute(admin, "GRANT ALL ON ALL TABLES IN SCHEMA public TO " ROLE);
    T_STATUS(quipu_open(uri, NULL, &store, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "search_path"));
    (void)snprintf(one, sizeof(one), "%s&options=-csearch_path%%3D" ROLE, uri);
    T_OK(quipu_open(one, NULL, &store, NULL));
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    st_create(store, "mine");
    quipu_close(store);
    /* With tables of its own first on the path the role meets only those. */
    T_OK(quipu_open(uri, NULL, &store, NULL));
    T_OK(st_get_status(store, "mine"));
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    quipu_close(store);
    T_STATUS(st_get_status(others, "mine"), QUIPU_NOT_FOUND);
    quipu_close(others);
    t_pg_execute(admin, "DROP SCHEMA public CASCADE");
    t_pg_execute(admin, "CREATE SCHEMA public");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_and_levels_of_the_role_change_nothing),
        cmocka_unit_test(a_role_that_suppresses_warnings_is_refused),
        cmocka_unit_test(the_uri_can_enable_a_roles_warnings),
        cmocka_unit_test(literals_of_another_kind_are_refused),
        cmocka_unit_test(a_role_that_may_only_read_cannot_open_for_writing),
        cmocka_unit_test(the_servers_own_timeout_is_busy_and_named),
        cmocka_unit_test(a_path_that_leads_on_to_another_store_is_refused),
    };

    return cmocka_run_group_tests_name("postgres.settings", tests, NULL, NULL);
}
