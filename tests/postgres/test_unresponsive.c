/* Servers that do not answer: one that stands still while its system answers for it, so that the
 * network shows nothing, hosts without a listener, and the backoff of reconnecting. Deadlines hold,
 * and an unknown outcome is resolved by the event id. The tests have a server of
 * their own. */
#include "contract/store_t.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ent/postgres.h>

#include "ent_postgres/libpq.h"
#include "ent_postgres/open.h"
#include "postgres/server_t.h"

#define DEADLINE_MS 500
#define DEADLINE_LONG_MS 36000000
#define PATIENCE_MS 1000
/* In PATIENCE_MS no more attempts can be made: backoffs of at least 10, 20, 40, 80, 160, 250 ...
 * ms. */
#define ATTEMPTS_MAX 9
#define SLEEPS_MAX 1500
#define LONG_NAPS 2600 /* of st_nap(): longer than a silence is borne */
#define HOSTS_SIZE 512
#define DEAD_PORT 1 /* where nobody listens */

typedef struct server {
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX];
    quipu_store *store;
    char key[16]; /* the session of the test under way */
    int tests;
} server;

static int server_setup(void **state)
{
    server *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    sv_start("", self->folder, self->uri);
    assert_int_equal(qp_libpq_load(NULL), QUIPU_OK);
    T_OK(quipu_open(self->uri, NULL, &self->store, NULL));
    *state = self;
    return 0;
}

static int session_setup(void **state)
{
    server *self = *state;

    (void)snprintf(self->key, sizeof(self->key), "k%d", ++self->tests);
    st_create(self->store, self->key);
    return 0;
}

static int server_teardown(void **state)
{
    server *self = *state;

    quipu_close(self->store);
    sv_script("stop", self->folder, "");
    free(self);
    return 0;
}

/* ---- one append, in a thread ------------------------------------------------------------------
 */

typedef struct appender {
    const server *server;
    int32_t deadline_ms;
    quipu_status status;
    quipu_appended appended;
} appender;

static void appender_once(appender *self)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "once");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};

    message.event_id = quipu_cstr(self->server->key);
    call.deadline_ms = self->deadline_ms;
    self->appended = (quipu_appended)QUIPU_APPENDED_INIT;
    self->status =
        quipu_message_append(self->server->store, quipu_cstr(self->server->key),
                             quipu_messages_of(&message, 1), NULL, &call, &self->appended, &err);
    print_message("%s: %s\n", quipu_status_name(self->status), err.message);
}

static void *appender_run(void *arg)
{
    appender_once(arg);
    return NULL;
}

/* Let every commit that holds a message take a while. */
static void server_dawdles(const server *self, const char *seconds)
{
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "CREATE OR REPLACE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
                   "$$ BEGIN PERFORM pg_sleep(%s); RETURN NEW; END $$; "
                   "DROP TRIGGER IF EXISTS dawdle ON messages; "
                   "CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON messages DEFERRABLE INITIALLY "
                   "DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()",
                   seconds);
    t_pg_execute(self->uri, sql);
}

static void server_freezes_in_commit(const server *self)
{
    PGconn *pg = PQconnectdb(self->uri);
    bool met = false;

    for (int sleeps = 0; !met && sleeps < SLEEPS_MAX; sleeps++) {
        PGresult *result = PQexec(pg, "SELECT 1 FROM pg_stat_activity "
                                      "WHERE wait_event = 'PgSleep' AND query = 'COMMIT'");
        met = PQntuples(result) == 1;
        PQclear(result);
        st_nap();
    }
    assert_true(met);
    PQfinish(pg);
    sv_script("freeze", self->folder, "");
}

static void check_one_message(const server *self)
{
    quipu_history *history = st_get(self->store, self->key, NULL);

    st_check_whole(history);
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
}

/* ---- a server that stands still ---------------------------------------------------------------
 */

static void a_commit_at_a_frozen_server_is_unknown_soon_after_the_deadline(void **state)
{
    server *self = *state;
    appender one = {.server = self, .deadline_ms = DEADLINE_MS};
    pthread_t thread;

    server_dawdles(self, "3600");
    assert_int_equal(pthread_create(&thread, NULL, appender_run, &one), 0);
    server_freezes_in_commit(self);
    assert_int_equal(pthread_join(thread, NULL), 0); /* while the server still stands */
    T_STATUS(one.status, QUIPU_UNKNOWN);
    sv_script("thaw", self->folder, "");
    sv_script("halt", self->folder, ""); /* the commit is waited for no more, nor is it made */
    sv_script("resume", self->folder, "");
    server_dawdles(self, "0");
    one.deadline_ms = 0;
    appender_once(&one);
    T_OK(one.status);
    assert_int_equal(one.appended.first_seq, 1);
    check_one_message(self);
}

/* A server that is silent is not waited for until the deadline. */
static void a_commit_at_a_frozen_server_is_resolved_when_it_resumes(void **state)
{
    server *self = *state;
    appender one = {.server = self, .deadline_ms = 120000};
    pthread_t thread;

    if (!t_long()) {
        print_message("the silence takes half a minute: in the long form only\n");
        return;
    }
    server_dawdles(self, "1"); /* less than the silence */
    assert_int_equal(pthread_create(&thread, NULL, appender_run, &one), 0);
    server_freezes_in_commit(self);
    for (int i = 0; i < LONG_NAPS; i++) {
        st_nap();
    }
    sv_script("thaw", self->folder, "");
    assert_int_equal(pthread_join(thread, NULL), 0);
    T_OK(one.status);
    assert_true(one.appended.repeated); /* the first commit went on, and its answer was not read */
    assert_int_equal(one.appended.first_seq, 1);
    check_one_message(self);
    server_dawdles(self, "0");
}

static void an_append_at_a_frozen_server_ends_at_the_deadline(void **state)
{
    server *self = *state;
    appender one = {.server = self, .deadline_ms = DEADLINE_MS};
    quipu_history *history;

    sv_script("freeze", self->folder, "");
    appender_once(&one);
    sv_script("thaw", self->folder, "");
    assert_true(one.status == QUIPU_BUSY || one.status == QUIPU_IO);
    history = st_get(self->store, self->key, NULL);
    assert_int_equal(history->messages.count, 0);
    quipu_free(history);
    one.deadline_ms = 0;
    appender_once(&one);
    T_OK(one.status);
    check_one_message(self);
}

static void a_read_at_a_frozen_server_ends_at_the_deadline(void **state)
{
    server *self = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_history *history = NULL;
    quipu_error err = {0};
    quipu_status status;

    call.deadline_ms = DEADLINE_MS;
    T_OK(st_get_status(self->store, self->key)); /* the connection is there */
    sv_script("freeze", self->folder, "");
    status = quipu_session_get(self->store, quipu_cstr(self->key), NULL, &call, &history, &err);
    sv_script("thaw", self->folder, "");
    print_message("%s: %s\n", quipu_status_name(status), err.message);
    assert_true(status == QUIPU_BUSY || status == QUIPU_IO);
    T_OK(st_get_status(self->store, self->key));
}

/* ---- hosts ------------------------------------------------------------------------------------
 */

/* A port whose connections are taken by the system and by nobody else. */
static int silent_port(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* The server behind `before` hosts at one port. */
static void uri_behind(const server *self, int before, int port, char ret_uri[2 * T_PATH_MAX])
{
    const char *folder = strstr(self->uri, "host=") + strlen("host=");
    char hosts[HOSTS_SIZE] = "";
    char ports[HOSTS_SIZE] = "";
    size_t n = 0;
    size_t m = 0;

    for (int i = 0; i < before; i++) {
        n += (size_t)snprintf(hosts + n, sizeof(hosts) - n, "127.0.0.1,");
        m += (size_t)snprintf(ports + m, sizeof(ports) - m, "%d,", port);
    }
    (void)snprintf(ret_uri, 2 * T_PATH_MAX,
                   "postgresql:///?port=%s5432&user=quipu&dbname=postgres&host=%s%.*s", ports,
                   hosts, (int)strcspn(folder, "&"), folder);
}

/* With a deadline that no test lives to see: hosts have a time of their own. */
static void works_at(const server *self, const char *uri)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;

    options.deadline_ms = DEADLINE_LONG_MS;
    T_OK(quipu_open(uri, &options, &store, NULL));
    T_OK(st_get_status(store, self->key));
    quipu_close(store);
}

static void an_unresponsive_host_is_skipped(void **state)
{
    const server *self = *state;
    char uri[2 * T_PATH_MAX];
    int port;
    int fd = silent_port(&port);

    uri_behind(self, 1, port, uri);
    works_at(self, uri);
    (void)close(fd);
}

/* A server that has no database; ends when its socket is shut down. */
static void *refuser_run(void *arg)
{
    static const char answer[] = "E\0\0\0\x17SFATAL\0C3D000\0Mno\0";
    char request[1024];
    int listener = *(const int *)arg;
    int fd = accept(listener, NULL, NULL);

    while (fd >= 0) {
        assert_true(read(fd, request, sizeof(request)) > 0);
        assert_int_equal(write(fd, answer, sizeof(answer)), sizeof(answer));
        (void)close(fd);
        fd = accept(listener, NULL, NULL);
    }
    return NULL;
}

/* libpq would end its search there. */
static void a_host_without_the_database_is_passed_over(void **state)
{
    const server *self = *state;
    char uri[2 * T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db = NULL;
    pthread_t thread;
    int port;
    int fd = silent_port(&port);
    size_t n;

    assert_int_equal(pthread_create(&thread, NULL, refuser_run, &fd), 0);
    uri_behind(self, 1, port, uri);
    n = strlen(uri);
    (void)snprintf(uri + n, sizeof(uri) - n, "&sslmode=disable&gssencmode=disable");
    works_at(self, uri);
    (void)snprintf(uri, sizeof(uri),
                   "postgresql://quipu@127.0.0.1:%d,127.0.0.1:%d/x?sslmode=disable&"
                   "gssencmode=disable",
                   port, DEAD_PORT);
    T_STATUS(ent_postgres_open(uri, NULL, &db, &err), QUIPU_IO);
    assert_non_null(strstr(err.message, "3D000")); /* a server's error wins over a later timeout */
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fd);
}

static void as_many_hosts_as_may_be_are_tried_and_more_by_libpq(void **state)
{
    const server *self = *state;
    char uri[2 * T_PATH_MAX];

    uri_behind(self, QP_PG_HOSTS_MAX - 1, DEAD_PORT, uri);
    works_at(self, uri);
    uri_behind(self, QP_PG_HOSTS_MAX, DEAD_PORT, uri);
    works_at(self, uri);
}

/* ---- attempts ---------------------------------------------------------------------------------
 */

static int attempts;
static PGconn *(*connect_real)(const char *const *names, const char *const *values, int expand);

static PGconn *connect_count(const char *const *names, const char *const *values, int expand)
{
    attempts++;
    return connect_real(names, values, expand);
}

static void attempts_at_a_server_that_is_away_become_rare(void **state)
{
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)state;
    (void)snprintf(uri, sizeof(uri), "postgresql://quipu@127.0.0.1:%d/postgres", DEAD_PORT);
    options.busy_ms = PATIENCE_MS;
    options.flags = ENT_POSTGRES_WAIT;
    attempts = 0;
    connect_real = qp_libpq.p_PQconnectStartParams;
    qp_libpq.p_PQconnectStartParams = connect_count;
    T_STATUS(ent_postgres_open(uri, &options, &db, &err), QUIPU_IO);
    qp_libpq.p_PQconnectStartParams = connect_real;
    print_message("%d attempts in %d ms\n", attempts, PATIENCE_MS);
    assert_in_range(attempts, 2, ATTEMPTS_MAX);
}

#define SERVER_TEST(name) cmocka_unit_test_setup(name, session_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_commit_at_a_frozen_server_is_unknown_soon_after_the_deadline),
        SERVER_TEST(a_commit_at_a_frozen_server_is_resolved_when_it_resumes),
        SERVER_TEST(an_append_at_a_frozen_server_ends_at_the_deadline),
        SERVER_TEST(a_read_at_a_frozen_server_ends_at_the_deadline),
        SERVER_TEST(an_unresponsive_host_is_skipped),
        SERVER_TEST(a_host_without_the_database_is_passed_over),
        SERVER_TEST(as_many_hosts_as_may_be_are_tried_and_more_by_libpq),
        SERVER_TEST(attempts_at_a_server_that_is_away_become_rare),
    };
    return cmocka_run_group_tests(tests, server_setup, server_teardown);
}
