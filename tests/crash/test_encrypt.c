/* Encrypting a plain file, interrupted by a kill or a fault at every operation of SQLite's: the
 * file is plain or encrypted, has all rows, and a repeat leaves an encrypted one with nothing
 * beside it. tests/e2e/test_encrypt.py kills the program at any moment. */
#include "lib/t.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "crash/faultvfs.h"
#include "ent/db.h"
#include "ent_sqlite/backup.h"
#include "ent_sqlite/encrypt.h"

#define ROWS 300
#define SECRET "plaintext-of-the-test"
#define OPERATIONS_MAX 1000

static size_t ec_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    memset(ret_key, 'k', size < QP_CRYPT_KEY ? size : QP_CRYPT_KEY);
    return QP_CRYPT_KEY;
}

static qp_keys *ec_keys(void)
{
    qp_keys *keys = NULL;

    T_OK(qp_keys_new(ec_give, NULL, false, &keys, NULL));
    return keys;
}

static ent_sqlite_options ec_options(const char *vfs)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;

    options.flags = ENT_SQLITE_MUST_EXIST;
    options.busy_ms = 100;
    options.vfs = vfs;
    return options;
}

/* A plain file whose last rows are in its log only, as a program that was killed leaves it. */
static void ec_make(char path[T_PATH_MAX])
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    pid_t child;
    int how = 0;

    t_path(t_tmpdir(), "store.db", path);
    child = fork();
    if (child == 0) {
        ent_db *db = NULL;
        T_OK(ent_sqlite_open(path, &options, &db, NULL));
        T_OK(db->engine->execute(
            db->conn,
            QUIPU_STR("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);"
                      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                      "300) INSERT INTO t SELECT i, '" SECRET "' || hex(randomblob(20)) FROM n"),
            NULL));
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static bool ec_is_encrypted(const char *path)
{
    const ent_sqlite_options options = ec_options("unix");
    bool encrypted = false;

    T_OK(qp_sqlite_is_encrypted(path, &options, &encrypted, NULL));
    return encrypted;
}

/* All rows are there, whatever form the file has. */
static void ec_whole(const char *path)
{
    const ent_sqlite_options options = ec_options("unix");
    qp_keys *keys = ec_keys();
    sqlite3_stmt *stmt = NULL;
    ent_db *db = NULL;

    T_OK(qp_sqlite_open(path, &options, ec_is_encrypted(path) ? keys : NULL, &db, NULL));
    T_OK(qp_sqlite_check_raw(((qp_sqlite *)db->conn)->db, path, NULL));
    assert_int_equal(sqlite3_prepare_v2(((qp_sqlite *)db->conn)->db,
                                        "SELECT count(*) FROM t WHERE a LIKE '" SECRET "%'", -1,
                                        &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(stmt, 0), ROWS);
    (void)sqlite3_finalize(stmt);
    ent_close(db);
    qp_keys_free(keys);
}

/* One file, and nothing of its text. */
static void ec_alone(const char *path)
{
    char folder[T_PATH_MAX];
    struct dirent *entry = NULL;
    DIR *dir = NULL;
    size_t size = 0;
    char *bytes = t_file_read(path, &size);

    for (size_t i = 0; i + strlen(SECRET) <= size; i++) {
        assert_false(bytes[i] == SECRET[0] && memcmp(bytes + i, SECRET, strlen(SECRET)) == 0);
    }
    free(bytes);
    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        assert_true(entry->d_name[0] == '.' || strcmp(entry->d_name, "store.db") == 0);
    }
    closedir(dir);
}

static quipu_status ec_encrypt(const char *path, const char *vfs, qp_keys *keys)
{
    const ent_sqlite_options options = ec_options(vfs);

    return ec_is_encrypted(path) ? qp_sqlite_encrypt_end(path, &options, keys, NULL)
                                 : qp_sqlite_encrypt(path, &options, keys, NULL);
}

/* Encrypts in a process of its own, which ends before its Nth operation. True: it ended. */
static bool ec_killed(const char *path, int64_t at)
{
    const pid_t child = fork();
    int how = 0;

    if (child == 0) {
        const faultvfs_plan plan = {
            .kinds = FAULTVFS_CHANGES, .countdown = at, .effect = FAULTVFS_KILL};

        faultvfs_install();
        faultvfs_spare_syncs(true);
        faultvfs_arm(plan);
        _exit(ec_encrypt(path, FAULTVFS_NAME, ec_keys()) == QUIPU_OK ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

/* Whatever was interrupted: the rows are there, and a repeat ends it. */
static void ec_judge(const char *path)
{
    qp_keys *keys = ec_keys();

    ec_whole(path);
    T_OK(ec_encrypt(path, "unix", keys));
    assert_true(ec_is_encrypted(path));
    ec_whole(path);
    ec_alone(path);
    qp_keys_free(keys);
}

static void a_kill_leaves_a_whole_file_and_a_repeat_ends_it(void **state)
{
    char path[T_PATH_MAX];
    bool killed = true;
    int64_t at = 1;

    (void)state;
    for (; killed; at++) {
        assert_true(at < OPERATIONS_MAX);
        ec_make(path);
        killed = ec_killed(path, at);
        ec_judge(path);
    }
    assert_true(at > 30); /* pages of the copy among them */
}

static void a_fault_leaves_a_whole_file_and_a_repeat_ends_it(void **state)
{
    static const faultvfs_effect effects[] = {FAULTVFS_EIO, FAULTVFS_ENOSPC, FAULTVFS_TORN};
    char path[T_PATH_MAX];
    int64_t fired = 1;

    (void)state;
    faultvfs_install();
    faultvfs_spare_syncs(true);
    for (int64_t at = 1; fired > 0; at++) {
        const faultvfs_plan plan = {.kinds = FAULTVFS_ANY & ~(1u << FAULTVFS_SHM),
                                    .countdown = at,
                                    .effect = effects[at % 3]};
        qp_keys *keys = ec_keys();

        assert_true(at < OPERATIONS_MAX);
        ec_make(path);
        faultvfs_arm(plan);
        (void)ec_encrypt(path, FAULTVFS_NAME, keys);
        fired = faultvfs_fired();
        faultvfs_arm((faultvfs_plan){0});
        ec_judge(path);
        qp_keys_free(keys);
    }
    faultvfs_spare_syncs(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_leaves_a_whole_file_and_a_repeat_ends_it),
        cmocka_unit_test(a_fault_leaves_a_whole_file_and_a_repeat_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
