/* What an append costs in indexes: the server counts how many updates it could keep inside of their
 * page (HOT), and how many entries it put into indexes. */
#include "contract/store_t.h"

#include <inttypes.h>
#include <libpq-fe.h>

#include "postgres/client_t.h"

#define SESSIONS 8
#define APPENDS 100 /* to each */

/* Waits until the server has counted the updates of sessions: a backend reports what it did when it
 * ends, some time after its client. */
static int64_t count_updates(PGconn *pg, int64_t expected)
{
    static const char sql[] = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = "
                              "'sessions' AND schemaname = current_schema()";
    int64_t updates = 0;

    for (int i = 0; i < 500 && updates < expected; i++) {
        st_nap();
        PQclear(PQexec(pg, "SELECT pg_stat_clear_snapshot()"));
        updates = cl_ask_on(pg, sql);
    }
    return updates;
}

/* Where the server's log ends. */
static void log_place(PGconn *pg, char ret[64])
{
    PGresult *result = PQexec(pg, "SELECT pg_current_wal_flush_lsn()");

    assert_int_equal(PQntuples(result), 1);
    (void)snprintf(ret, 64, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

/* At most 4.5 entries of B-trees an append: two of the message, and a part of the session's. */
static void check_entries(PGconn *pg, const char *from)
{
    char sql[256];
    int64_t entries;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT COUNT(*) FROM pg_get_wal_records_info('%s', pg_current_wal_flush_lsn()) "
                   "WHERE resource_manager = 'Btree' AND record_type LIKE 'INSERT%%'",
                   from);
    entries = cl_ask_on(pg, sql);
    printf("%" PRId64 " index entries for %d appends\n", entries, SESSIONS * APPENDS);
    assert_true(entries >= (int64_t)SESSIONS * APPENDS);
    assert_true(entries * 2 <= (int64_t)SESSIONS * APPENDS * 9);
}

static void appends_leave_the_indexes_of_their_session_alone(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    PGconn *pg = PQconnectdb(uri);
    PGresult *extension = PQexec(pg, "CREATE EXTENSION pg_walinspect");
    const bool inspects = PQresultStatus(extension) == PGRES_COMMAND_OK;
    char from[64] = "";
    int64_t updates;
    int64_t hot;

    (void)state;
    PQclear(extension);
    for (int i = 0; i < SESSIONS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
    }
    log_place(pg, from);
    for (int n = 0; n < APPENDS; n++) {
        for (int i = 0; i < SESSIONS; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            (void)st_append(store, key, "a message of usual length, as people write them");
        }
    }
    quipu_close(store);
    if (inspects) {
        check_entries(pg, from);
    }
    updates = count_updates(pg, (int64_t)SESSIONS * APPENDS);
    assert_true(updates >= (int64_t)SESSIONS * APPENDS);
    hot = cl_ask_on(pg,
                    "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sessions' AND "
                    "schemaname = current_schema()");
    if (hot * 100 < updates * 75) {
        fail_msg("%" PRId64 " of %" PRId64 " updates of sessions were HOT", hot, updates);
    }
    printf("%" PRId64 " of %" PRId64 " updates of sessions were HOT\n", hot, updates);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_leave_the_indexes_of_their_session_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
