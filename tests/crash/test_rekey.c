/* Another key for an encrypted file, interrupted at every operation: by a kill, by writes that fail
 * or are torn, by a power cut. The file opens with the old key or with the new one, never with both
 * or none, has all rows, and can be given a key again. */
#include "lib/t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "crash/faultvfs.h"
#include "crash/powervfs.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/backup.h"
#include "ent_sqlite/open.h"

#define ROWS 400
#define SEEDS 20          /* cuts at each operation */
#define OPERATIONS_MAX 50 /* of one change; it has four */

static const char *const rk_old = "old key, old key, old key, 32 b.";
static const char *const rk_new = "new key, new key, new key, 32 b.";
static const char *const rk_third = "3rd key, 3rd key, 3rd key, 32 b.";

static size_t rk_give(void *ctx, void *ret_key, size_t size)
{
    memcpy(ret_key, ctx, size < QP_CRYPT_KEY ? size : QP_CRYPT_KEY);
    return QP_CRYPT_KEY;
}

static qp_keys *rk_keys(const char *key)
{
    qp_keys *keys = NULL;

    T_OK(qp_keys_new(rk_give, (void *)(uintptr_t)key, false, &keys, NULL));
    return keys;
}

static quipu_status rk_open(const char *path, const char *vfs, qp_keys *keys, ent_db **ret)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    options.vfs = vfs;
    return qp_sqlite_open(path, &options, keys, ret, NULL);
}

static void rk_run(ent_db *db, const char *sql)
{
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), NULL));
}

static quipu_status rk_change(ent_db *db, const char *key)
{
    const qp_new_key fresh = {rk_give, (void *)(uintptr_t)key, false};

    return qp_maintenance_rekey(db, &fresh, NULL);
}

static void rk_make(const char *path)
{
    qp_keys *keys = rk_keys(rk_old);
    ent_db *db = NULL;

    T_OK(rk_open(path, NULL, keys, &db));
    rk_run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);"
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
               "INSERT INTO t SELECT i, hex(randomblob(100)) FROM n");
    ent_close(db);
    qp_keys_free(keys);
}

/* Whether the key opens the file, which then has all rows. */
static bool rk_fits(const char *path, const char *key)
{
    qp_keys *keys = rk_keys(key);
    sqlite3_stmt *stmt = NULL;
    ent_db *db = NULL;
    const quipu_status status = rk_open(path, "unix", keys, &db);

    if (status != QUIPU_INVALID) { /* the status of another key */
        T_OK(status);
        T_OK(qp_sqlite_check_raw(((qp_sqlite *)db->conn)->db, path, NULL));
        assert_int_equal(sqlite3_prepare_v2(((qp_sqlite *)db->conn)->db, "SELECT count(*) FROM t",
                                            -1, &stmt, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(stmt, 0), ROWS);
        (void)sqlite3_finalize(stmt);
        ent_close(db);
    }
    qp_keys_free(keys);
    return status == QUIPU_OK;
}

/* Whether no copy of the header is left that another key unwraps. */
static bool rk_copies_agree(const char *path)
{
    size_t size = 0;
    char *bytes = t_file_read(path, &size);
    const bool same =
        size > QP_CRYPT_BLOCK && memcmp(bytes, bytes + QP_CRYPT_COPY, QP_CRYPT_COPY) == 0;

    free(bytes);
    return same;
}

/* True: the file has the new key; and it takes a third one. */
static bool rk_judge(const char *path)
{
    const bool is_new = rk_fits(path, rk_new);
    qp_keys *keys = rk_keys(is_new ? rk_new : rk_old);
    ent_db *db = NULL;

    assert_true(rk_fits(path, rk_old) != is_new);
    T_OK(rk_open(path, "unix", keys, &db));
    T_OK(rk_change(db, rk_third));
    ent_close(db);
    qp_keys_free(keys);
    assert_true(rk_copies_agree(path) && rk_fits(path, rk_third));
    assert_false(rk_fits(path, rk_old) || rk_fits(path, rk_new));
    return is_new;
}

/* Changes the key in a process of its own, which ends before its Nth operation. True: it ended. */
static bool rk_killed(const char *path, int64_t at)
{
    const pid_t child = fork();
    int how = 0;

    if (child == 0) {
        const faultvfs_plan plan = {
            .kinds = FAULTVFS_CHANGES, .countdown = at, .effect = FAULTVFS_KILL};
        ent_db *db = NULL;

        faultvfs_install();
        T_OK(rk_open(path, FAULTVFS_NAME, rk_keys(rk_old), &db));
        faultvfs_arm(plan);
        _exit(rk_change(db, rk_new) == QUIPU_OK ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

static void a_kill_leaves_the_old_key_or_the_new_one(void **state)
{
    char path[T_PATH_MAX];
    bool was_new = false;
    bool killed = true;
    int64_t at = 1;

    (void)state;
    for (; killed; at++) {
        assert_true(at < OPERATIONS_MAX);
        t_path(t_tmpdir(), "store.db", path);
        rk_make(path);
        killed = rk_killed(path, at);
        const bool is_new = rk_judge(path);
        assert_true(is_new || !was_new); /* once changed, it stays */
        was_new = is_new;
    }
    assert_true(was_new);
    assert_true(at > 5); /* two writes and two syncs, and a call that was not killed */
}

/* One operation fails, whole or torn; the call is then repeated with the same handle. */
static void a_failed_write_leaves_a_key_that_is_said(void **state)
{
    static const faultvfs_effect effects[] = {FAULTVFS_EIO, FAULTVFS_TORN};
    char path[T_PATH_MAX];

    (void)state;
    faultvfs_install();
    for (size_t i = 0; i < 2; i++) {
        int64_t fired = 1;

        for (int64_t at = 1; fired > 0; at++) {
            const faultvfs_plan plan = {.kinds = 1u << FAULTVFS_WRITE | 1u << FAULTVFS_SYNC,
                                        .countdown = at,
                                        .effect = effects[i]};
            qp_keys *keys = rk_keys(rk_old);
            ent_db *db = NULL;
            quipu_status status;

            assert_true(at < OPERATIONS_MAX);
            t_path(t_tmpdir(), "store.db", path);
            rk_make(path);
            T_OK(rk_open(path, FAULTVFS_NAME, keys, &db));
            faultvfs_arm(plan);
            status = rk_change(db, rk_new);
            fired = faultvfs_fired();
            faultvfs_arm((faultvfs_plan){0});
            assert_true(rk_fits(path, rk_new) == (status != QUIPU_IO));
            assert_true(rk_fits(path, rk_old) == (status == QUIPU_IO));
            assert_true(fired > 0 ? status == QUIPU_IO || status == QUIPU_UNKNOWN
                                  : status == QUIPU_OK);
            T_OK(rk_change(db, rk_new));
            assert_true(rk_copies_agree(path));
            rk_run(db, "UPDATE t SET a = 'x' || a WHERE id < 10");
            ent_close(db);
            qp_keys_free(keys);
            assert_true(rk_judge(path));
        }
    }
}

static void rk_nothing(void *ctx)
{
    (void)ctx;
}

/* What the disk could hold after a cut before the Nth operation; sectors are lost in any part. */
static void a_power_cut_leaves_the_old_key_or_the_new_one(void **state)
{
    uint64_t random = t_seed();
    char path[T_PATH_MAX];
    char cut[T_PATH_MAX];
    bool was_cut = true;
    int changed = 0;
    int64_t at = 1;

    (void)state;
    powervfs_install();
    for (; was_cut; at++) {
        assert_true(at < OPERATIONS_MAX);
        for (int i = 0; i < SEEDS && was_cut; i++) {
            const char *folder = t_tmpdir();
            qp_keys *keys = rk_keys(rk_old);
            ent_db *db = NULL;

            powervfs_reset();
            powervfs_default(true);
            t_path(t_tmpdir(), "store.db", path);
            rk_make(path);
            T_OK(rk_open(path, NULL, keys, &db));
            powervfs_arm(at, folder, t_random(&random), rk_nothing, NULL);
            T_OK(rk_change(db, rk_new));
            was_cut = powervfs_cut();
            if (!was_cut) { /* acknowledged: the next change of the file is behind it */
                rk_run(db, "CREATE TABLE behind (a)");
            }
            assert_true(powervfs_cut());
            ent_close(db);
            powervfs_default(false);
            t_path(folder, "store.db", cut);
            const bool is_new = rk_judge(cut);
            assert_true(is_new || was_cut);
            changed += is_new;
            qp_keys_free(keys);
        }
    }
    assert_true(changed > SEEDS); /* the third operation cuts behind the first synced copy */
    assert_true(at > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_leaves_the_old_key_or_the_new_one),
        cmocka_unit_test(a_failed_write_leaves_a_key_that_is_said),
        cmocka_unit_test(a_power_cut_leaves_the_old_key_or_the_new_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
