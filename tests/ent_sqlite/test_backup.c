/* Backups beside the file: exactly the committed state, whatever is under way. */
#include "crash/model.h"

#include <unistd.h>

#include "ent/db.h"
#include "ent_sqlite/backup.h"

static quipu_status backup_make(ent_db *db, const char *label, char ret_path[1024],
                                quipu_error *reterr)
{
    return qp_sqlite_backup(db->conn, label, quipu_time_now(), ret_path, 1024, reterr);
}

static void backup_holds_the_committed_state_under_the_write_lock(void **state)
{
    static const char *const modes[] = {"PRAGMA journal_mode = WAL",
                                        "PRAGMA journal_mode = DELETE"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[T_PATH_MAX];
        char backup[1024];
        char *before = NULL;
        ent_db *db = NULL;

        t_path(t_tmpdir(), "store.db", path);
        model_exec(path, modes[i]);
        model_exec(path, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)");
        before = model_dump(path, true);
        T_OK(ent_sqlite_open(path, NULL, &db, NULL));
        T_OK(ent_begin(db, ENT_WRITE, NULL));
        T_OK(db->engine->execute(db->conn,
                                 QUIPU_STR("INSERT INTO t VALUES (3); CREATE TABLE u (b)"), NULL));
        T_OK(backup_make(db, "x", backup, NULL));
        T_OK(ent_commit(db, NULL));
        model_same(before, model_dump(backup, true));
        model_sound(backup);
        model_check(path, "SELECT count(*) FROM t", "3\n");
        qp_sqlite_backup_end(db->conn, backup, 0);
        assert_false(t_file_exists(backup));
        ent_close(db);
    }
}

static void backup_is_a_store_that_opens(void **state)
{
    char path[T_PATH_MAX];
    char backup[1024];
    ent_db *db = NULL;
    model m;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    model_begin(&m, 77);
    (void)model_entity(&m, "Note", "notes");
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(backup_make(db, "x", backup, NULL));
    ent_close(db);
    model_expect(model_visit(backup, &m.schema, NULL, ENT_SQLITE_READ_ONLY), QUIPU_OK, NULL);
    assert_int_equal(MODEL_OPEN(backup, &m).report.statements, 0);
    model_free(&m);
}

static void label_is_cut_at_its_limit_and_made_plain(void **state)
{
    char label[QP_SQLITE_BACKUP_LABEL_MAX + 2];
    char path[T_PATH_MAX];
    char backup[1024];
    ent_db *db = NULL;

    (void)state;
    memset(label, 'a', sizeof(label));
    label[0] = '/';
    label[QP_SQLITE_BACKUP_LABEL_MAX - 1] = 'b';
    label[QP_SQLITE_BACKUP_LABEL_MAX] = 'c'; /* one too many */
    label[QP_SQLITE_BACKUP_LABEL_MAX + 1] = '\0';
    t_path(t_tmpdir(), "store.db", path);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(backup_make(db, label, backup, NULL));
    assert_non_null(strstr(backup, "store.db.bak-_aaa"));
    assert_non_null(strstr(backup, "aab-20"));
    ent_close(db);
}

static void path_without_room_for_its_backup_is_refused(void **state)
{
    char path[T_PATH_MAX];
    char small[64];
    ent_db *db = NULL;

    (void)state;
    t_path(t_tmpdir(), "a-name-that-leaves-no-room-for-a-backup-beside-it.db", path);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_STATUS(qp_sqlite_backup(db->conn, "x", quipu_time_now(), small, sizeof(small), NULL),
             QUIPU_LIMIT);
    ent_close(db);
}

static void existing_file_is_never_overwritten(void **state)
{
    const quipu_time now = {1767225600, 5};
    char path[T_PATH_MAX];
    char backup[1024];
    char again[1024];
    ent_db *db = NULL;
    quipu_error error = {0};

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    T_OK(ent_sqlite_open(path, NULL, &db, NULL));
    T_OK(qp_sqlite_backup(db->conn, "x", now, backup, sizeof(backup), NULL));
    assert_non_null(strstr(backup, ".bak-x-20260101T000000000000005Z"));
    T_STATUS(qp_sqlite_backup(db->conn, "x", now, again, sizeof(again), &error), QUIPU_EXISTS);
    assert_non_null(strstr(error.message, "exists"));
    assert_true(t_file_exists(backup));
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_holds_the_committed_state_under_the_write_lock),
        cmocka_unit_test(backup_is_a_store_that_opens),
        cmocka_unit_test(label_is_cut_at_its_limit_and_made_plain),
        cmocka_unit_test(path_without_room_for_its_backup_is_refused),
        cmocka_unit_test(existing_file_is_never_overwritten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
