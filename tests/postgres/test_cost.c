/* What an append costs beside a plain libpq program that sends the same commands to the same
 * server. Times are printed, not checked; checked are counts: commits per append, and that every
 * acknowledged append is a row. */
#include "contract/store_t.h"

#include <libpq-fe.h>
#include <pthread.h>

#include <quipu/maintain.h>

#define CALLERS 32

static int64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- a plain program --------------------------------------------------------------------------
 */

static void plain_say(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
}

static void plain_prepare(PGconn *pg, const char *name, const char *sql)
{
    PGresult *result = PQprepare(pg, name, sql, 0, NULL);

    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
}

static void plain_run(PGconn *pg, const char *name, int n, const char *const *values)
{
    PGresult *result = PQexecPrepared(pg, name, n, values, NULL, NULL, 0);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", name, PQerrorMessage(pg));
    }
    PQclear(result);
}

/* The shard and the number of the session. */
static void plain_find(PGconn *pg, char ret_shard[32], char ret_number[32])
{
    PGresult *result = PQexec(pg, "SELECT part, id FROM sessions WHERE tenant = '' AND key = 'k'");

    assert_int_equal(PQntuples(result), 1);
    (void)snprintf(ret_shard, 32, "%s", PQgetvalue(result, 0, 0));
    (void)snprintf(ret_number, 32, "%s", PQgetvalue(result, 0, 1));
    PQclear(result);
}

/* Appends as our engine makes them, command by command. Gives nanoseconds per append. */
static int64_t plain_appends(const char *uri, int count)
{
    PGconn *pg = PQconnectdb(uri);
    char shard[32];
    char number[32];
    int64_t start_ns;

    plain_prepare(pg, "lease", "UPDATE ent_numbers SET last = last + 1 WHERE name = 'write'");
    plain_find(pg, shard, number);
    plain_prepare(pg, "session",
                  "SELECT * FROM sessions WHERE part = $1 AND tenant = '' AND key = $2");
    plain_prepare(
        pg, "message",
        "INSERT INTO messages (part, uid, role, content, \"timestamp\", author, seq, event_id, "
        "tokens, tokens_total, session_messages) VALUES ($3, (SELECT uid FROM sessions WHERE "
        "part = $3 AND id = $4), 'user', $2, '2026-01-01 00:00:00.000000000+00:00', '', $1, "
        "decode(md5($2), 'hex'), 1, $1, $4)");
    plain_prepare(pg, "move",
                  "UPDATE sessions SET next_seq = $1, revision = revision + 1, message_count = "
                  "message_count + 1, token_count = token_count + 1, lags = true, updated_at = "
                  "'2026-01-01 00:00:00.000000000+00:00' WHERE part = $2 AND id = $3");
    start_ns = now_ns();
    for (int i = 1; i <= count; i++) {
        char seq[16];
        char text[32];
        char next[16];

        (void)snprintf(seq, sizeof(seq), "%d", i);
        (void)snprintf(next, sizeof(next), "%d", i + 1);
        (void)snprintf(text, sizeof(text), "message %d", i);
        plain_say(pg, "BEGIN");
        plain_run(pg, "lease", 0, NULL);
        plain_run(pg, "session", 2, (const char *const[]){shard, "k"});
        plain_run(pg, "message", 4, (const char *const[]){seq, text, shard, number});
        plain_run(pg, "move", 3, (const char *const[]){next, shard, number});
        plain_say(pg, "COMMIT");
    }
    start_ns = (now_ns() - start_ns) / count;
    PQfinish(pg);
    return start_ns;
}

/* ---- the library
 * ------------------------------------------------------------------------------------- */

static void one_caller_costs_about_what_the_commands_cost(void **state)
{
    const int count = (int)t_count(200, 5000);
    char uri[T_PATH_MAX];
    int64_t plain_ns;
    int64_t start_ns;
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    st_create(store, "k");
    quipu_close(store);
    plain_ns = plain_appends(uri, count);
    store = st_open_new(NULL, uri);
    st_create(store, "k");
    assert_int_equal(st_append(store, "k", "warm"), 1);
    start_ns = now_ns();
    for (int i = 0; i < count; i++) {
        assert_int_equal(st_append(store, "k", "message"), i + 2);
    }
    start_ns = (now_ns() - start_ns) / count;
    print_message("an append with one caller: %lld us, plain libpq %lld us, ratio %.2f\n",
                  (long long)(start_ns / 1000), (long long)(plain_ns / 1000),
                  (double)start_ns / (double)plain_ns);
    quipu_close(store);
}

typedef struct caller {
    quipu_store *store;
    int number;
    int count;
    int failures;
} caller;

static void *caller_run(void *arg)
{
    caller *self = arg;
    char key[16];

    (void)snprintf(key, sizeof(key), "k%d", self->number);
    for (int i = 0; i < self->count; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "message");
        self->failures +=
            quipu_message_append(self->store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                 NULL, NULL, NULL) != QUIPU_OK;
    }
    return NULL;
}

static void many_callers_share_commits(void **state)
{
    static caller callers[CALLERS];
    const int count = (int)t_count(50, 1000);
    pthread_t threads[CALLERS];
    quipu_stats before = QUIPU_STATS_INIT;
    quipu_stats after = QUIPU_STATS_INIT;
    int64_t start_ns;
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    for (int i = 0; i < CALLERS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
        callers[i] = (caller){.store = store, .number = i, .count = count};
    }
    T_OK(quipu_store_stats(store, NULL, NULL, &before, NULL));
    start_ns = now_ns();
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, caller_run, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(callers[i].failures, 0);
    }
    start_ns = now_ns() - start_ns;
    T_OK(quipu_store_stats(store, NULL, NULL, &after, NULL));
    assert_int_equal(after.messages - before.messages, CALLERS * count);
    print_message("%d callers: %lld appends/s, %lld commits for %d appends\n", CALLERS,
                  (long long)((int64_t)CALLERS * count * 1000000000 / start_ns),
                  (long long)(after.commits - before.commits), CALLERS * count);
    assert_true((after.commits - before.commits) * 8 <= CALLERS * count);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_caller_costs_about_what_the_commands_cost),
        cmocka_unit_test(many_callers_share_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
