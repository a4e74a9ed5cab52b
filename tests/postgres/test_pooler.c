/* Behind PgBouncer in transaction mode, where every transaction may meet another of the server's
 * connections. The test has a pooler of its own, in front of the test server. */
#include "contract/store_t.h"

#include "lib/t_pg.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <quipu/maintain.h>

#define PROGRAM "/usr/sbin/pgbouncer"
#define STORES 4
#define THREADS 4 /* for each of them */
#define APPENDS 25
#define SERVERS 3     /* connections that the pooler shares out */
#define PATIENCE 5000 /* sleeps until it answers; one that has ended fails at once */

typedef struct pooler {
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX + 128];
    pid_t pid;
} pooler;

static void pooler_write_config(const pooler *self, const char *host, const char *database)
{
    char path[T_PATH_MAX];
    FILE *file;

    t_path(self->folder, "pooler.ini", path);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "[databases]\n%s = host=%s dbname=%s user=quipu\n[pgbouncer]\n"
                  "listen_addr =\nunix_socket_dir = %s\nauth_type = any\npool_mode = transaction\n"
                  "default_pool_size = %d\nserver_round_robin = 1\nmax_client_conn = 200\n"
                  "logfile = %s/log\n",
                  database, host, database, self->folder, SERVERS, self->folder);
    assert_int_equal(fclose(file), 0);
}

/* Like the server it refuses to be root, and only the server's own user reaches its socket. */
static pid_t pooler_start(const pooler *self)
{
    char path[T_PATH_MAX];
    pid_t pid;

    t_path(self->folder, "pooler.ini", path);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0 && getuid() == 0) {
        (void)execlp("setpriv", "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                     PROGRAM, "-q", path, (char *)NULL);
    } else if (pid == 0) {
        (void)execl(PROGRAM, PROGRAM, "-q", path, (char *)NULL);
    }
    if (pid == 0) {
        _exit(127);
    }
    return pid;
}

static bool pooler_answers(const char *uri)
{
    PGconn *pg = PQconnectdb(uri);
    bool answers = PQstatus(pg) == CONNECTION_OK;

    PQfinish(pg);
    return answers;
}

/* The value of a parameter of the server's URI. */
static void uri_take(const char *uri, const char *name, char ret_value[T_PATH_MAX])
{
    const char *from = strstr(uri, name);

    assert_non_null(from);
    from += strlen(name);
    (void)snprintf(ret_value, T_PATH_MAX, "%.*s", (int)strcspn(from, "&\n"), from);
}

static int pooler_setup(void **state)
{
    pooler *self = calloc(1, sizeof(*self));
    char direct[T_PATH_MAX];
    char host[T_PATH_MAX];
    char database[T_PATH_MAX];

    assert_non_null(self);
    if (access(PROGRAM, X_OK) != 0) {
        print_message("SKIP: no PgBouncer is installed (pgbouncer)\n");
        exit(77);
    }
    t_pg_schema(direct); /* its database is the program's own, its schema is not used */
    uri_take(direct, "?host=", host);
    uri_take(strstr(direct, "&dbname=t_"), "&dbname=", database);
    /* Beside the server, and gone with it: its user may not look into the tests' own folders. */
    (void)snprintf(self->folder, sizeof(self->folder), "%.64s/pooler.%d", host, (int)getpid());
    assert_int_equal(mkdir(self->folder, 0777), 0);
    assert_int_equal(chmod(self->folder, 0777), 0);
    pooler_write_config(self, host, database);
    (void)snprintf(self->uri, sizeof(self->uri), "postgresql:///%.64s?host=%s&port=6432&user=quipu",
                   database, self->folder);
    self->pid = pooler_start(self);
    *state = self;
    for (int i = 0; !pooler_answers(self->uri); i++) {
        assert_int_equal(waitpid(self->pid, NULL, WNOHANG), 0);
        assert_true(i < PATIENCE);
        st_nap();
    }
    return 0;
}

static int pooler_teardown(void **state)
{
    pooler *self = *state;
    int status = 0;

    if (self == NULL) {
        return 0; /* it was never set up */
    }
    (void)kill(self->pid, SIGINT);
    assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
    free(self);
    return 0;
}

typedef struct caller {
    quipu_store *store;
    char key[32];
    pthread_t thread;
    quipu_status status;
    quipu_error err;
} caller;

static void *caller_run(void *arg)
{
    caller *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, self->key);

    for (int i = 0; i < APPENDS && self->status == QUIPU_OK; i++) {
        quipu_history *history = NULL;

        self->status =
            quipu_message_append(self->store, quipu_cstr(self->key), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &self->err);
        if (self->status == QUIPU_OK) {
            self->status = quipu_session_get(self->store, quipu_cstr(self->key), NULL, NULL,
                                             &history, &self->err);
        }
        quipu_free(history);
    }
    return NULL;
}

static void stores_share_the_servers_connections_and_do_not_notice(void **state)
{
    const pooler *self = *state;
    quipu_store *stores[STORES] = {NULL};
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    caller callers[STORES * THREADS];

    for (int i = 0; i < STORES; i++) {
        T_OK(quipu_open(self->uri, NULL, &stores[i], NULL));
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        callers[i] = (caller){.store = stores[i % STORES]};
        (void)snprintf(callers[i].key, sizeof(callers[i].key), "k%d", i);
        st_create(callers[i].store, callers[i].key);
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]), 0);
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        if (callers[i].status != QUIPU_OK) {
            fail_msg("%s: %s", callers[i].key, callers[i].err.message);
        }
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        quipu_history *history = st_get(stores[0], callers[i].key, NULL);

        st_check_whole(history);
        assert_int_equal(history->messages.count, APPENDS);
        for (size_t m = 0; m < history->messages.count; m++) {
            T_STR(quipu_message_at(history->messages, m)->content, callers[i].key);
        }
        quipu_free(history);
    }
    T_OK(quipu_store_verify(stores[1], NULL, NULL, &verified, NULL));
    assert_int_equal(verified.messages, STORES * THREADS * APPENDS);
    assert_int_equal(verified.problems, 0);
    for (int i = 0; i < STORES; i++) {
        quipu_close(stores[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_share_the_servers_connections_and_do_not_notice),
    };

    return cmocka_run_group_tests_name("postgres.pooler", tests, pooler_setup, pooler_teardown);
}
