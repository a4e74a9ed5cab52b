/* Faults between a suite and its server, for tests/postgres/sweep.py: the suite itself does not
 * know. QUIPU_TEST_PG_FAULTS is read by test programs only; what it names is put into the table
 * through which the engine calls libpq.
 *
 *   conflicts K   every K-th transaction meets a serialization failure, at a place of chance, at
 *                 the latest in its COMMIT
 *   cuts K        the connection of every K-th statement is terminated from outside, in turn before
 *                 the statement is sent and while it runs. A COMMIT is spared: what was asked for
 *                 may then be unknown by contract (tests/postgres/test_failures.c is about that).
 *                 After a cut some transaction may commit first, or a long one never would.
 *
 * Every K-th on average: chance decides (QUIPU_SEED), because an even step would fall on the same
 * place of every repeat. */
#ifdef QUIPU_POSTGRES
#include "lib/t_pg.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "ent_postgres/libpq.h"

#define FAULTS_CONNECTIONS_MAX 512
#define FAULTS_PLACES 6 /* statements of a transaction among which chance chooses */
#define FAULTS_NAME_SIZE 32
#define FAULTS_CUT_MS 5000 /* after that it is cut all the same, only later */

/* One connection of the engine. */
typedef struct faults_line {
    PGconn *pg;
    char commit[FAULTS_NAME_SIZE]; /* names of the prepared commands */
    char rollback[FAULTS_NAME_SIZE];
    bool doomed; /* its transaction meets a conflict, at a statement: */
    int place;
    bool cut;    /* the batch under way is cut, unless it */
    bool spared; /* holds a COMMIT */
} faults_line;

static struct {
    pthread_mutex_t mutex;
    qp_libpq_table real;
    faults_line lines[FAULTS_CONNECTIONS_MAX];
    uint64_t chance;
    int64_t conflicts; /* K, or 0 */
    int64_t cuts;
    int64_t statements;
    int64_t left; /* transactions or statements until the next fault */
    bool resting; /* no cut before a transaction has ended */
    int64_t fired;
    pthread_mutex_t knife_mutex;
    PGconn *knife;     /* the connection that cuts others... */
    pid_t knife_owner; /* ...of this process */
} faults = {.mutex = PTHREAD_MUTEX_INITIALIZER, .knife_mutex = PTHREAD_MUTEX_INITIALIZER};

static const char faults_conflict[] =
    "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END $$";

/* With the mutex held: whether it is the turn of what comes now. */
static bool faults_turn(int64_t k)
{
    if (k == 0 || atomic_load(&t_pg_calm) || --faults.left > 0) {
        return false;
    }
    faults.left = 1 + (int64_t)t_random_below(&faults.chance, (uint64_t)(2 * k - 1));
    return true;
}

/* With the mutex held. */
static faults_line *faults_find(PGconn *pg)
{
    faults_line *empty = NULL;

    for (size_t i = 0; i < FAULTS_CONNECTIONS_MAX; i++) {
        faults_line *line = &faults.lines[i];
        if (line->pg == pg) {
            return line;
        }
        empty = empty == NULL && line->pg == NULL ? line : empty;
    }
    assert_non_null(empty);
    *empty = (faults_line){.pg = pg};
    return empty;
}

static void faults_finish(PGconn *pg)
{
    if (pg != NULL) {
        pthread_mutex_lock(&faults.mutex);
        faults_find(pg)->pg = NULL;
        pthread_mutex_unlock(&faults.mutex);
    }
    faults.real.p_PQfinish(pg);
}

/* A batch begins; between transactions a transaction does. One that was doomed and met nothing, say
 * because it was rolled back, leaves its fate to the next that is not calm. */
static int faults_enter(PGconn *pg)
{
    pthread_mutex_lock(&faults.mutex);
    faults_line *line = faults_find(pg);
    line->cut = false;
    line->spared = false;
    if (faults.conflicts > 0 && PQtransactionStatus(pg) == PQTRANS_IDLE) {
        line->doomed = faults_turn(faults.conflicts) || line->doomed;
        line->place = (int)t_random_below(&faults.chance, FAULTS_PLACES) + 1;
    }
    pthread_mutex_unlock(&faults.mutex);
    return faults.real.p_PQenterPipelineMode(pg);
}

static int faults_prepare(PGconn *pg, const char *name, const char *sql, int count,
                          const Oid *types)
{
    pthread_mutex_lock(&faults.mutex);
    faults_line *line = faults_find(pg);
    if (strcmp(sql, "COMMIT") == 0) {
        (void)snprintf(line->commit, sizeof(line->commit), "%s", name);
    } else if (strcmp(sql, "ROLLBACK") == 0) {
        (void)snprintf(line->rollback, sizeof(line->rollback), "%s", name);
    }
    pthread_mutex_unlock(&faults.mutex);
    return faults.real.p_PQsendPrepare(pg, name, sql, count, types);
}

/* One statement more; true: it shall meet a conflict. */
static bool faults_count(PGconn *pg, const char *name)
{
    bool conflict = false;

    pthread_mutex_lock(&faults.mutex);
    faults_line *line = faults_find(pg);
    bool commit = name[0] != '\0' && strcmp(name, line->commit) == 0;
    bool rollback = name[0] != '\0' && strcmp(name, line->rollback) == 0;
    faults.statements++;
    faults.resting = faults.resting && !commit;
    if (line->doomed && !rollback && !atomic_load(&t_pg_calm)) {
        conflict = --line->place == 0 || commit;
        line->doomed = !conflict;
        faults.fired += conflict;
    }
    line->cut = line->cut || faults_turn(faults.cuts);
    line->spared = line->spared || commit;
    pthread_mutex_unlock(&faults.mutex);
    return conflict;
}

static int faults_run(PGconn *pg, const char *name, int count, const char *const *values,
                      const int *lengths, const int *formats, int result_format)
{
    if (faults_count(pg, name)) {
        return faults.real.p_PQsendQueryParams(pg, faults_conflict, 0, NULL, NULL, NULL, NULL, 1);
    }
    return faults.real.p_PQsendQueryPrepared(pg, name, count, values, lengths, formats,
                                             result_format);
}

/* A command as text: savepoints, questions. */
static int faults_params(PGconn *pg, const char *sql, int count, const Oid *types,
                         const char *const *values, const int *lengths, const int *formats,
                         int result_format)
{
    bool undoes = strncmp(sql, "ROLLBACK", strlen("ROLLBACK")) == 0;
    bool conflict = !undoes && faults_count(pg, "");

    return faults.real.p_PQsendQueryParams(pg, conflict ? faults_conflict : sql,
                                           conflict ? 0 : count, types, values, lengths, formats,
                                           result_format);
}

/* With its mutex held. A forked child must not speak on its parent's connection. */
static PGconn *faults_knife(void)
{
    char uri[T_PATH_MAX];

    if (faults.knife == NULL || faults.knife_owner != getpid()) {
        t_pg_uri(uri);
        faults.knife = PQconnectdb(uri);
        faults.knife_owner = getpid();
        assert_int_equal(PQstatus(faults.knife), CONNECTION_OK);
    }
    return faults.knife;
}

/* Cut a connection and wait until it is gone. The socket shows that at once, whatever is left to be
 * read from it; the server's own wait would look up ten times a second. */
static void faults_cut(PGconn *pg)
{
    struct pollfd gone = {.fd = PQsocket(pg)};
    char sql[96];
    PGresult *result;

    (void)snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)", PQbackendPID(pg));
    pthread_mutex_lock(&faults.knife_mutex);
    result = PQexec(faults_knife(), sql);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    pthread_mutex_unlock(&faults.knife_mutex);
    while (poll(&gone, 1, FAULTS_CUT_MS) < 0 && errno == EINTR) {
        /* a signal is no hang-up */
    }
}

static int faults_sync(PGconn *pg)
{
    int synced;

    pthread_mutex_lock(&faults.mutex);
    const faults_line *line = faults_find(pg);
    bool cut = line->cut && !line->spared && !faults.resting;
    faults.resting = faults.resting || cut;
    faults.fired += cut;
    bool before = faults.fired % 2 == 0;
    pthread_mutex_unlock(&faults.mutex);
    if (cut && before) {
        faults_cut(pg);
    }
    synced = faults.real.p_PQpipelineSync(pg);
    if (cut && !before) {
        (void)PQflush(pg);
        faults_cut(pg);
    }
    return synced;
}

/* Several commands in one text: a transaction of its own, or a part of one. */
static int faults_text(PGconn *pg, const char *sql)
{
    bool conflict = faults_count(pg, "");
    bool cut;

    pthread_mutex_lock(&faults.mutex);
    cut = faults_find(pg)->cut && !faults.resting;
    faults_find(pg)->cut = false;
    faults.resting = faults.resting || cut;
    faults.fired += cut;
    pthread_mutex_unlock(&faults.mutex);
    if (cut) {
        faults_cut(pg);
    }
    return faults.real.p_PQsendQuery(pg, conflict ? faults_conflict : sql);
}

static void faults_report(void)
{
    print_message("faults: %lld in %lld statements\n", (long long)faults.fired,
                  (long long)faults.statements);
}

static void __attribute__((constructor)) faults_install(void)
{
    const char *wanted = getenv("QUIPU_TEST_PG_FAULTS");

    if (wanted == NULL || wanted[0] == '\0') {
        return;
    }
    if (sscanf(wanted, "conflicts %" SCNd64, &faults.conflicts) != 1 &&
        sscanf(wanted, "cuts %" SCNd64, &faults.cuts) != 1) {
        print_message("QUIPU_TEST_PG_FAULTS: %s?\n", wanted);
        abort();
    }
    if (qp_libpq_load(NULL) != QUIPU_OK) {
        abort();
    }
    faults.chance = t_seed();
    (void)faults_turn(faults.conflicts + faults.cuts);
    faults.real = qp_libpq;
    qp_libpq.p_PQfinish = faults_finish;
    qp_libpq.p_PQenterPipelineMode = faults_enter;
    qp_libpq.p_PQsendPrepare = faults_prepare;
    qp_libpq.p_PQsendQueryPrepared = faults_run;
    qp_libpq.p_PQsendQueryParams = faults_params;
    qp_libpq.p_PQpipelineSync = faults_sync;
    qp_libpq.p_PQsendQuery = faults_text;
    (void)atexit(faults_report);
}
#else
typedef int faults_none; /* ISO C wants something in every file */
#endif
