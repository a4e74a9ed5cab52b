/* A program whose connection or whose row fails does not keep the others from writing: repeats
 * after a lost connection run beside other writers, and an exclusive write waits for a row that
 * somebody else has locked in short tries. Others are transactions that stay open, never times. */
#include "contract/store_t.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include "postgres/client_t.h"
#include "postgres/server_t.h"

#define PATIENCE_MS 60000 /* of calls that must come to an end by themselves */

typedef struct caller {
    quipu_store *store;
    int32_t ms;
    bool deletes; /* "a"; else it appends to it */
    atomic_bool done;
    quipu_status status;
    quipu_error error;
} caller;

/* ---- the other side ---------------------------------------------------------------------------
 */

/* Waits until the caller waits for `holder`; with `ends`, its connection is ended then. */
static void wait_until_blocked(const char *uri, PGconn *holder, caller *self, bool ends)
{
    PGconn *pg = PQconnectdb(uri);
    char sql[256];
    int blocked = 0;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT %s FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))",
                   ends ? "pg_terminate_backend(pid)" : "pid", PQbackendPID(holder));
    while (blocked == 0) {
        PGresult *result;

        if (atomic_load(&self->done)) {
            fail_msg("it waits no more: %s: %s", quipu_status_name(self->status),
                     self->error.message);
        }
        result = PQexec(pg, sql);

        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        blocked = PQntuples(result);
        PQclear(result);
        st_nap();
    }
    PQfinish(pg);
}

static const char *const row_of_a = "SELECT 1 FROM sessions WHERE key = 'a' FOR UPDATE";
/* A slot of another program, far from those that the next connections of this one get in turn. */
static const char *const other_slot =
    "SELECT 1 FROM ent_numbers WHERE name = (SELECT 'write/' || lpad(CAST((last + 10) % 16 AS "
    "text), "
    "2, '0') FROM ent_numbers WHERE name = 'seats taken') FOR UPDATE";

/* ---- callers ----------------------------------------------------------------------------------
 */

static void *caller_run(void *arg)
{
    caller *self = arg;
    const quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = self->ms;
    self->status =
        self->deletes
            ? quipu_session_delete(self->store, QUIPU_STR("a"), NULL, &call, NULL, &self->error)
            : quipu_message_append(self->store, QUIPU_STR("a"), quipu_messages_of(&message, 1),
                                   NULL, &call, NULL, &self->error);
    atomic_store(&self->done, true);
    return NULL;
}

static pthread_t caller_start(caller *self)
{
    pthread_t thread;

    atomic_store(&self->done, false);
    self->error = (quipu_error){0};
    assert_int_equal(pthread_create(&thread, NULL, caller_run, self), 0);
    return thread;
}

static void caller_end(pthread_t thread, const caller *self)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (self->status != QUIPU_OK) {
        fail_msg("%s: %s", quipu_status_name(self->status), self->error.message);
    }
}

static int64_t messages_of(quipu_store *store, const char *key)
{
    quipu_history *history = st_get(store, key, NULL);
    const int64_t count = (int64_t)history->messages.count;

    st_check_whole(history);
    quipu_free(history);
    return count;
}

/* ---- lost connections -------------------------------------------------------------------------
 */

/* Another program holds its slot all the time: a repeat that wanted all slots would wait for it. */
static void a_repeat_after_a_lost_connection_does_not_wait_for_other_writers(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    caller one = {.store = store, .ms = PATIENCE_MS};

    (void)state;
    st_create(store, "a");
    for (int i = 1; i <= 3; i++) {
        PGconn *row = cl_hold(uri, row_of_a);
        PGconn *slot = cl_hold(uri, other_slot);
        pthread_t thread = caller_start(&one);

        for (int cuts = 0; cuts < 4; cuts++) {
            wait_until_blocked(uri, row, &one, true);
        }
        cl_release(row);
        caller_end(thread, &one);
        assert_int_equal(messages_of(store, "a"), i);
        cl_release(slot);
    }
    quipu_close(store);
}

/* What a stopped server interrupts is stored when it is back, within the call's deadline. */
static void an_append_outlives_a_server_that_stops_and_starts(void **state)
{
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX];
    quipu_store *store = NULL;
    caller one = {.ms = PATIENCE_MS};
    quipu_error err = {0};

    (void)state;
    sv_start("", folder, uri);
    T_OK(quipu_open(uri, NULL, &store, &err));
    one.store = store;
    st_create(store, "a");
    for (int i = 1; i <= 2; i++) {
        PGconn *row = cl_hold(uri, row_of_a);
        pthread_t thread = caller_start(&one);

        wait_until_blocked(uri, row, &one, false);
        sv_script("halt", folder, "");
        PQfinish(row);
        sv_script("resume", folder, "");
        caller_end(thread, &one);
        assert_int_equal(messages_of(store, "a"), i);
    }
    quipu_close(store);
    sv_script("stop", folder, "");
}

/* ---- rows that somebody else has locked -------------------------------------------------------
 */

static void an_exclusive_write_that_waits_for_a_row_ends_at_its_deadline(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    caller one = {.store = store, .deletes = true, .ms = 200};
    PGconn *row;

    (void)state;
    st_create(store, "a");
    row = cl_hold(uri, row_of_a);
    (void)caller_run(&one);
    T_STATUS(one.status, QUIPU_BUSY);
    one.ms = 3000; /* several tries */
    (void)caller_run(&one);
    T_STATUS(one.status, QUIPU_BUSY);
    cl_release(row);
    T_OK(st_get_status(store, "a"));
    one.ms = PATIENCE_MS;
    caller_end(caller_start(&one), &one);
    T_STATUS(st_get_status(store, "a"), QUIPU_NOT_FOUND);
    quipu_close(store);
}

/* The row stays locked until the other program has written: it need not wait for the delete. */
static void an_exclusive_write_that_waits_for_a_row_admits_other_writers(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_store *other = st_open(uri);
    caller one = {.store = store, .deletes = true, .ms = PATIENCE_MS};
    pthread_t thread;
    PGconn *row;

    (void)state;
    st_create(store, "a");
    st_create(store, "b");
    row = cl_hold(uri, row_of_a);
    thread = caller_start(&one);
    for (int i = 1; i <= 3; i++) {
        wait_until_blocked(uri, row, &one, false);
        assert_int_equal(st_append(other, "b", "x"), i);
    }
    cl_release(row);
    caller_end(thread, &one);
    T_STATUS(st_get_status(store, "a"), QUIPU_NOT_FOUND);
    quipu_close(other);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeat_after_a_lost_connection_does_not_wait_for_other_writers),
        cmocka_unit_test(an_append_outlives_a_server_that_stops_and_starts),
        cmocka_unit_test(an_exclusive_write_that_waits_for_a_row_ends_at_its_deadline),
        cmocka_unit_test(an_exclusive_write_that_waits_for_a_row_admits_other_writers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
