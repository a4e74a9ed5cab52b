/* Schemas at the test server. Built without libpq, every run is on SQLite. */
#include "lib/t_pg.h"

#include <unistd.h>

atomic_bool t_pg_calm;

#ifdef QUIPU_POSTGRES
#include <libpq-fe.h>

static char t_pg_server[T_PATH_MAX / 2];
static pid_t t_pg_owner;

bool t_pg(void)
{
    const char *path = getenv("QUIPU_TEST_PG");
    FILE *file;

    if (path == NULL || path[0] == '\0') {
        return false;
    }
    if (t_pg_server[0] == '\0') {
        file = fopen(path, "r");
        if (file == NULL || fgets(t_pg_server, (int)sizeof(t_pg_server), file) == NULL) {
            print_message("SKIP: no PostgreSQL server runs for the tests\n");
            exit(77);
        }
        (void)fclose(file);
        t_pg_server[strcspn(t_pg_server, "\n")] = '\0';
    }
    return true;
}

void t_pg_uri(char ret_uri[T_PATH_MAX])
{
    assert_true(t_pg());
    (void)snprintf(ret_uri, T_PATH_MAX, "%s", t_pg_server);
}

bool t_pg_is_distributed(void)
{
    return getenv("QUIPU_TEST_CITUS") != NULL;
}

/* Where the first command of a text ends: at a semicolon outside of quotes and of $$ bodies. */
static size_t t_pg_command(const char *sql)
{
    bool body = false;
    char quote = '\0';
    size_t n = 0;

    for (; sql[n] != '\0' && (body || quote != '\0' || sql[n] != ';'); n++) {
        if (quote == '\0' && strncmp(sql + n, "$$", 2) == 0) {
            body = !body;
            n++;
        } else if (!body && quote == '\0' && (sql[n] == '\'' || sql[n] == '"')) {
            quote = sql[n];
        } else if (sql[n] == quote) {
            quote = '\0';
        }
    }
    return n;
}

static void t_pg_run(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
}

/* Citus takes no text of several commands, so each is sent by itself. */
void t_pg_execute(const char *uri, const char *sql)
{
    PGconn *pg = PQconnectdb(uri);

    if (PQstatus(pg) != CONNECTION_OK) {
        fail_msg("%s: %s", uri, PQerrorMessage(pg));
    }
    if (!t_pg_is_distributed()) {
        t_pg_run(pg, sql);
    } else {
        while (*sql != '\0') {
            const size_t n = t_pg_command(sql);
            char *command = strndup(sql, n);

            assert_non_null(command);
            t_pg_run(pg, command);
            free(command);
            sql += sql[n] == ';' ? n + 1 : n;
        }
    }
    PQfinish(pg);
}

/* Each program has its own database, which is deleted with the server: dropping it would cost a
 * checkpoint. A long run may reuse process ids, so a database of an earlier program may exist. */
void t_pg_schema(char ret_uri[T_PATH_MAX])
{
    static unsigned number;
    char sql[96];
    int n;

    assert_true(t_pg());
    if (t_pg_is_distributed()) {
        /* Extension and nodes are of one database, which tests/citus/run.py has made. */
        number++;
        n = snprintf(ret_uri, T_PATH_MAX, "%s&options=-csearch_path%%3Dt_%ld_%u", t_pg_server,
                     (long)getpid(), number);
        assert_true(n > 0 && n < T_PATH_MAX);
        (void)snprintf(sql, sizeof(sql), "CREATE SCHEMA t_%ld_%u", (long)getpid(), number);
        t_pg_execute(ret_uri, sql);
        return;
    }
    if (t_pg_owner == 0) {
        t_pg_owner = getpid();
        (void)snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS t_%ld", (long)t_pg_owner);
        t_pg_execute(t_pg_server, sql);
        (void)snprintf(sql, sizeof(sql), "CREATE DATABASE t_%ld", (long)t_pg_owner);
        t_pg_execute(t_pg_server, sql);
    }
    /* A forked child creates schemas in its parent's database: its process id is in their names. */
    number++;
    n = snprintf(ret_uri, T_PATH_MAX, "%s&dbname=t_%ld&options=-csearch_path%%3Dt_%ld_%u",
                 t_pg_server, (long)t_pg_owner, (long)getpid(), number);
    assert_true(n > 0 && n < T_PATH_MAX);
    (void)snprintf(sql, sizeof(sql), "CREATE SCHEMA t_%ld_%u", (long)getpid(), number);
    t_pg_execute(ret_uri, sql);
}
#else
bool t_pg(void)
{
    return false;
}

bool t_pg_is_distributed(void)
{
    return false;
}

void t_pg_uri(char ret_uri[T_PATH_MAX])
{
    ret_uri[0] = '\0';
    fail_msg("built without libpq");
}

void t_pg_execute(const char *uri, const char *sql)
{
    fail_msg("%s, %s: built without libpq", uri, sql);
}

void t_pg_schema(char ret_uri[T_PATH_MAX])
{
    ret_uri[0] = '\0';
    fail_msg("built without libpq");
}
#endif

bool t_strict(void)
{
    const char *name = getenv("QUIPU_TEST_ENGINE");

    return name != NULL && strcmp(name, "strict") == 0;
}

const char *t_store_file(const char *uri)
{
    return strncmp(uri, "strict:", strlen("strict:")) == 0 ? uri + strlen("strict:") : uri;
}

void t_new_store(const char *name, char ret_uri[T_PATH_MAX])
{
    char path[T_PATH_MAX];

    if (t_pg()) {
        t_pg_schema(ret_uri);
        return;
    }
    t_path(t_tmpdir(), name, path);
    if (t_server()) {
        (void)t_server_start(path, ret_uri);
        return;
    }
    int n = snprintf(ret_uri, T_PATH_MAX, "%s%s", t_strict() ? "strict:" : "", path);
    assert_true(n > 0 && n < T_PATH_MAX);
}
