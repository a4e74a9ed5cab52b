/* Servers that refuse: no room for a connection, a wrong password, a URI that is none, one that is
 * down for a while or takes no writes. Errors name the reason and never a password. The
 * tests have a server of their own. */
#include "contract/store_t.h"

#include <pthread.h>

#include <ent/postgres.h>

#include "base/error.h"
#include "ent_postgres/libpq.h"
#include "postgres/server_t.h"

#define ROOM 4 /* connections that the server takes */
#define PATIENCE_MS 1000
#define ATTEMPT_MS 100 /* between two attempts at a server without room, at least */

static const char room_conf[] = "max_connections = 4\nsuperuser_reserved_connections = 0";

typedef struct server {
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX];
} server;

static int server_setup(void **state)
{
    server *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    sv_start(room_conf, self->folder, self->uri);
    assert_int_equal(qp_libpq_load(NULL), QUIPU_OK);
    *state = self;
    return 0;
}

static int server_teardown(void **state)
{
    server *self = *state;

    sv_script("stop", self->folder, "");
    free(self);
    return 0;
}

/* ---- no room ----------------------------------------------------------------------------------
 */

static int attempts;
static PGconn *(*connect_real)(const char *const *names, const char *const *values, int expand);

static PGconn *connect_count(const char *const *names, const char *const *values, int expand)
{
    attempts++;
    return connect_real(names, values, expand);
}

static void crowd_enter(const server *self, ent_db *crowd[ROOM])
{
    for (int i = 0; i < ROOM; i++) {
        T_OK(ent_postgres_open(self->uri, NULL, &crowd[i], NULL));
    }
}

static void crowd_leave(ent_db *crowd[ROOM])
{
    for (int i = 0; i < ROOM; i++) {
        ent_close(crowd[i]);
        crowd[i] = NULL;
    }
}

static void a_full_server_is_busy_and_retried_rarely(void **state)
{
    const server *self = *state;
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    ent_db *crowd[ROOM];
    quipu_error err = {0};
    ent_db *db = NULL;

    crowd_enter(self, crowd);
    options.busy_ms = PATIENCE_MS;
    connect_real = qp_libpq.p_PQconnectStartParams;
    qp_libpq.p_PQconnectStartParams = connect_count;
    T_STATUS(ent_postgres_open(self->uri, &options, &db, &err), QUIPU_BUSY);
    qp_libpq.p_PQconnectStartParams = connect_real;
    assert_non_null(strstr(err.message, "no free connection"));
    assert_non_null(strstr(err.message, "53300"));
    print_message("%d attempts in %d ms\n", attempts, PATIENCE_MS);
    assert_in_range(attempts, 2, PATIENCE_MS / ATTEMPT_MS + 1);
    crowd_leave(crowd);
}

static void *crowd_goes(void *arg)
{
    ent_db **crowd = arg;

    st_nap();
    ent_close(crowd[0]);
    crowd[0] = NULL;
    return NULL;
}

static void an_opener_that_waits_for_a_free_connection_gets_it(void **state)
{
    const server *self = *state;
    ent_db *crowd[ROOM];
    pthread_t thread;
    ent_db *db = NULL;

    crowd_enter(self, crowd);
    assert_int_equal(pthread_create(&thread, NULL, crowd_goes, crowd), 0);
    T_OK(ent_postgres_open(self->uri, NULL, &db, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    ent_close(db);
    crowd_leave(crowd);
}

/* ---- no server --------------------------------------------------------------------------------
 */

static void a_server_that_is_down_fails_an_open_at_once(void **state)
{
    const server *self = *state;
    quipu_error err = {0};
    quipu_store *store = NULL;

    sv_script("halt", self->folder, "");
    T_STATUS(quipu_open(self->uri, NULL, &store, &err), QUIPU_IO);
    assert_string_equal(err.rule, QP_RULE_AWAY);
    sv_script("resume", self->folder, "");
}

static void *server_comes_back(void *arg)
{
    const server *self = arg;

    for (int i = 0; i < 20; i++) {
        st_nap(); /* the call meets nobody meanwhile */
    }
    sv_script("resume", self->folder, "");
    return NULL;
}

/* It ends as by a crash, so that it recovers before it answers. */
static void an_open_store_waits_for_a_server_that_comes_back(void **state)
{
    server *self = *state;
    quipu_history *history;
    quipu_store *store = NULL;
    pthread_t thread;

    T_OK(quipu_open(self->uri, NULL, &store, NULL));
    st_create(store, "k");
    for (int i = 1; i <= 3; i++) {
        sv_script("halt", self->folder, "");
        assert_int_equal(pthread_create(&thread, NULL, server_comes_back, self), 0);
        if (i % 2 == 0) {
            T_OK(st_get_status(store, "k"));
            assert_int_equal(st_append(store, "k", "once"), i);
        } else {
            assert_int_equal(st_append(store, "k", "once"), i);
            T_OK(st_get_status(store, "k")); /* the first one by a connection that is new */
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 3);
    quipu_free(history);
    quipu_close(store);
}

/* ---- passwords --------------------------------------------------------------------------------
 */

/* Whether the role still gets in without one. */
static bool password_lets_in(const server *self)
{
    const char *host = strstr(self->uri, "host=");
    char uri[2 * T_PATH_MAX];
    ent_db *db = NULL;

    (void)snprintf(uri, sizeof(uri), "postgresql://scrammed@/postgres?%.*s",
                   (int)strcspn(host, "&"), host);
    const bool in = ent_postgres_open(uri, NULL, &db, NULL) == QUIPU_OK;
    ent_close(db);
    return in;
}

/* A role that needs one; everybody else is trusted. */
static void password_set(const server *self)
{
    t_pg_execute(self->uri, "CREATE ROLE scrammed LOGIN PASSWORD 'open sesame'");
    t_pg_execute(self->uri, "DO $$ BEGIN EXECUTE format('COPY (VALUES (%L), (%L)) TO %L', "
                            "'local all scrammed scram-sha-256', 'local all all trust', "
                            "current_setting('hba_file')); END $$");
    t_pg_execute(self->uri, "SELECT pg_reload_conf()");
    while (password_lets_in(self)) { /* until the postmaster has read it */
        t_pg_execute(self->uri, "SELECT pg_sleep(0.01)");
    }
}

static void reported_without(const char *uri, quipu_status expected, const char *secret)
{
    quipu_error err = {0};
    quipu_store *store = NULL;
    quipu_status status = quipu_open(uri, NULL, &store, &err);

    print_message("%s: %s\n", quipu_status_name(status), err.message);
    T_STATUS(status, expected);
    assert_null(strstr(err.message, secret));
}

static void no_failure_shows_a_password(void **state)
{
    const server *self = *state;
    const char *host = strstr(self->uri, "host=");
    char uri[2 * T_PATH_MAX];
    quipu_error err = {0};
    quipu_store *store = NULL;

    assert_non_null(host);
    password_set(self);
    (void)snprintf(uri, sizeof(uri), "postgresql://scrammed:geheim@/postgres?%.*s",
                   (int)strcspn(host, "&"), host);
    reported_without(uri, QUIPU_IO, "geheim");
    T_STATUS(quipu_open(uri, NULL, &store, &err), QUIPU_IO);
    assert_non_null(strstr(err.message, "28P01"));
    assert_string_equal(err.rule, ""); /* it is there, and refuses */
    (void)snprintf(uri, sizeof(uri), "postgresql://quipu:geheim@/nowhere?%.*s",
                   (int)strcspn(host, "&"), host);
    reported_without(uri, QUIPU_IO, "geheim");
    reported_without("postgresql://me:geheim@/db?host=/nonexistent", QUIPU_IO, "geheim");
    reported_without("postgresql://me:geheim@127.0.0.1:1/db", QUIPU_IO, "geheim");
    reported_without("postgresql://me:geheim@host.invalid/db", QUIPU_IO, "geheim");
    reported_without("postgresql://me@/db?password=geheim&host=/nonexistent", QUIPU_IO, "geheim");
}

/* libpq takes a part of such a password for a host or a port, or shows the whole URI. */
static void a_password_that_is_not_encoded_is_not_shown_either(void **state)
{
    (void)state;
    reported_without("postgresql://me:geh@eim@127.0.0.1:1/db", QUIPU_INVALID, "eim");
    reported_without("postgresql://me:geh/eim@127.0.0.1:1/db", QUIPU_INVALID, "geh");
    reported_without("postgresql://me:geh?eim@127.0.0.1:1/db", QUIPU_IO, "eim");
    reported_without("postgresql://me:geh%eim@127.0.0.1:1/db", QUIPU_INVALID, "eim");
    reported_without("postgresql://me:geheim@[::1/db", QUIPU_INVALID, "geheim");
    reported_without("postgresql://me:geheim@[::1]x/db", QUIPU_INVALID, "geheim");
}

/* ---- no writes --------------------------------------------------------------------------------
 */

/* As a leader that has become another's standby would answer. */
static void a_server_that_takes_no_writes_is_left_for_one_that_does(void **state)
{
    server *self = *state;
    quipu_store *store = NULL;

    T_OK(quipu_open(self->uri, NULL, &store, NULL));
    st_create(store, "left");
    t_pg_execute(self->uri, "CREATE TABLE seen (pid int PRIMARY KEY); CREATE SEQUENCE tries; "
                            "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                            "IF nextval('tries') % 2 = 1 THEN "
                            "RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END IF; "
                            "INSERT INTO seen VALUES (pg_backend_pid()); RETURN NEW; END $$; "
                            "CREATE TRIGGER trip AFTER INSERT ON messages FOR EACH ROW "
                            "EXECUTE FUNCTION trip()");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(st_append(store, "left", "x"), i); /* each over a connection of its own */
    }
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_server_is_busy_and_retried_rarely),
        cmocka_unit_test(an_opener_that_waits_for_a_free_connection_gets_it),
        cmocka_unit_test(a_server_that_is_down_fails_an_open_at_once),
        cmocka_unit_test(an_open_store_waits_for_a_server_that_comes_back),
        cmocka_unit_test(a_server_that_takes_no_writes_is_left_for_one_that_does),
        cmocka_unit_test(no_failure_shows_a_password),
        cmocka_unit_test(a_password_that_is_not_encoded_is_not_shown_either),
    };

    return cmocka_run_group_tests(tests, server_setup, server_teardown);
}
