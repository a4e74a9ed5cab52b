/* Page checksums and the end of a process: before, during and after checkpoints, and while an old
 * file gets its checksums. Whatever was acknowledged is there, and no page looks damaged. */
#include "lib/t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>

#include "crash/faultvfs.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/open.h"

#define ROUNDS 4

static ent_db *pk_open(const char *path, const char *vfs, uint32_t flags)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    ent_db *db = NULL;

    options.vfs = vfs;
    options.flags = flags;
    if (ent_sqlite_open(path, &options, &db, &error) != QUIPU_OK) {
        fail_msg("%s: %s", path, error.message);
    }
    return db;
}

static quipu_status pk_run(ent_db *db, const char *sql)
{
    return db->engine->execute(db->conn, quipu_cstr(sql), NULL);
}

static int64_t pk_number(ent_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = -1;

    assert_int_equal(sqlite3_prepare_v2(((qp_sqlite *)db->conn)->db, sql, -1, &stmt, NULL),
                     SQLITE_OK);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        value = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return value;
}

static quipu_status pk_finding(void *ctx, quipu_str text)
{
    (void)ctx;
    fail_msg("%.*s", (int)text.n, text.p);
    return QUIPU_OK;
}

static void pk_make(const char *path, uint32_t flags)
{
    ent_db *db = pk_open(path, NULL, flags);

    T_OK(pk_run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, round, a TEXT);"
                    "CREATE INDEX t_round ON t (round);"
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
                    "INSERT INTO t SELECT i, 0, replace(hex(zeroblob(300)), '00', i) FROM n"));
    ent_close(db);
}

/* What the child does: commits, each acknowledged by a byte, and checkpoints between them. */
static void pk_write(ent_db *db, int ack)
{
    char sql[256];

    for (int round = 1; round <= ROUNDS; round++) {
        (void)snprintf(sql, sizeof(sql),
                       "BEGIN; UPDATE t SET round = %d; INSERT INTO t (round, a) SELECT %d, a "
                       "FROM t LIMIT 5; DELETE FROM t WHERE id %% 13 = %d; COMMIT",
                       round, round, round);
        if (pk_run(db, sql) != QUIPU_OK || write(ack, "+", 1) != 1) {
            return;
        }
        if (round % 2 == 0 && qp_maintenance_flush(db, NULL) != QUIPU_OK) {
            return;
        }
    }
}

/* Ends a child at its Nth operation; gives the rounds it acknowledged. */
static int pk_child(const char *path, faultvfs_plan plan, bool seals, bool *ret_ended)
{
    int fds[2];
    int how = 0;
    int rounds = 0;
    char byte;

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        ent_db *db = pk_open(path, FAULTVFS_NAME, 0);
        faultvfs_arm(plan);
        if (seals) {
            (void)!qp_maintenance_seal(db, NULL);
        } else {
            pk_write(db, fds[1]);
        }
        const bool fired = faultvfs_fired() > 0;
        _exit(fired ? 1 : 0); /* no close: as after a crash */
    }
    (void)close(fds[1]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    while (read(fds[0], &byte, 1) == 1) {
        rounds++;
    }
    (void)close(fds[0]);
    *ret_ended = WIFSIGNALED(how) || WEXITSTATUS(how) != 0;
    return rounds;
}

/* Opens the file after the crash: everything acknowledged is there, nothing looks damaged, also
 * once the log is in the file. */
static void pk_check(const char *path, int rounds, bool seals)
{
    qp_checksums checksums = QP_CHECKSUMS_OFF;
    ent_db *db = pk_open(path, NULL, 0);
    const int64_t last = pk_number(db, "SELECT max(round) FROM t");

    if (last < rounds) {
        fail_msg("%d rounds were acknowledged, %lld are there", rounds, (long long)last);
    }
    assert_int_equal(pk_number(db, "SELECT min(round) FROM t"), last);
    T_OK(qp_maintenance_check(db, pk_finding, NULL, NULL));
    T_OK(qp_maintenance_flush(db, NULL));
    T_OK(qp_maintenance_check(db, pk_finding, NULL, NULL));
    if (seals) {
        T_OK(qp_maintenance_seal(db, NULL));
        T_OK(qp_maintenance_check(db, pk_finding, NULL, NULL));
    }
    T_OK(qp_maintenance_checksums(db, &checksums, NULL));
    assert_int_equal(checksums, QP_CHECKSUMS_ON);
    ent_close(db);
}

static void pk_sweep(unsigned kinds, faultvfs_effect effect, bool seals)
{
    char original[T_PATH_MAX];
    char path[T_PATH_MAX];
    bool ended = true;
    int64_t n = 0;

    faultvfs_install();
    faultvfs_spare_syncs(true);
    t_path(t_tmpdir(), "original.db", original);
    t_path(t_tmpdir(), "store.db", path);
    pk_make(original, seals ? ENT_SQLITE_NO_CHECKSUMS : 0);
    while (ended) {
        char side[T_PATH_MAX + 8];

        (void)snprintf(side, sizeof(side), "%s-wal", path);
        (void)unlink(side);
        (void)snprintf(side, sizeof(side), "%s-shm", path);
        (void)unlink(side);
        t_file_copy(original, path);
        const int rounds = pk_child(
            path, (faultvfs_plan){kinds, ++n, effect != FAULTVFS_KILL, effect}, seals, &ended);
        pk_check(path, rounds, seals);
    }
    print_message("%lld runs\n", (long long)n);
    assert_true(n > 20);
}

static void acknowledged_rows_survive_a_kill_around_checkpoints(void **state)
{
    (void)state;
    pk_sweep(FAULTVFS_CHANGES, FAULTVFS_KILL, false);
}

/* Half of a page reaches the file, and nothing behind it: the log has the page whole. */
static void acknowledged_rows_survive_torn_pages_around_checkpoints(void **state)
{
    (void)state;
    pk_sweep(1u << FAULTVFS_WRITE, FAULTVFS_TORN, false);
}

static void a_killed_upgrade_leaves_the_old_file_or_the_new_one(void **state)
{
    (void)state;
    pk_sweep(FAULTVFS_CHANGES, FAULTVFS_KILL, true);
}

static void an_upgrade_on_a_failing_disk_leaves_the_old_file_or_the_new_one(void **state)
{
    (void)state;
    pk_sweep(1u << FAULTVFS_WRITE, FAULTVFS_TORN, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_rows_survive_a_kill_around_checkpoints),
        cmocka_unit_test(acknowledged_rows_survive_torn_pages_around_checkpoints),
        cmocka_unit_test(a_killed_upgrade_leaves_the_old_file_or_the_new_one),
        cmocka_unit_test(an_upgrade_on_a_failing_disk_leaves_the_old_file_or_the_new_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
