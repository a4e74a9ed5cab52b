/* Backup through the public API: whole, private, never over another file. */
#include "contract/maintain_t.h"

#include <sys/stat.h>

static void backup_is_a_store_with_the_same_export(void **state)
{
    char path[T_PATH_MAX];
    char copy_path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    struct stat info;
    quipu_error err = {0};

    (void)state;
    mt_fill(store, path);
    t_path(t_tmpdir(), "backup.db", copy_path);
    T_OK(quipu_store_backup(store, copy_path, NULL, &err));
    assert_int_equal(stat(copy_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    mt_stream before = mt_export(store, NULL);
    st_append(store, "root", "after the backup");
    quipu_close(store);
    store = st_open(copy_path);
    mt_clean(store);
    mt_stream after = mt_export(store, NULL);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, before.n);
    mt_free(&before);
    mt_free(&after);
    quipu_close(store);
}

static void existing_target_is_refused_and_untouched(void **state)
{
    quipu_store *store = *state;
    char path[T_PATH_MAX];
    size_t size = 0;
    quipu_error err = {0};

    t_path(t_tmpdir(), "precious", path);
    t_file_write(path, "precious", 8);
    T_STATUS(quipu_store_backup(store, path, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, path));
    char *bytes = t_file_read(path, &size);
    assert_string_equal(bytes, "precious");
    free(bytes);
    T_STATUS(quipu_store_backup(store, "no/such/folder/b.db", NULL, &err), QUIPU_IO);
    T_STATUS(quipu_store_backup(store, "", NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_backup(store, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_backup(NULL, path, NULL, &err), QUIPU_MISUSE);
}

static void stores_in_memory_and_read_only_ones_are_backed_up(void **state)
{
    char path[T_PATH_MAX];
    char again[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_open(":memory:", NULL, &store, &err));
    st_create(store, "k");
    st_append_many(store, "k", 3);
    t_path(t_tmpdir(), "memory.db", path);
    T_OK(quipu_store_backup(store, path, NULL, &err));
    st_append(store, "k", "goes on");
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &store, &err));
    t_path(t_tmpdir(), "again.db", again);
    T_OK(quipu_store_backup(store, again, NULL, &err));
    quipu_close(store);
    store = st_open(again);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 3);
    quipu_free(history);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_is_a_store_with_the_same_export),
        ST_TEST(existing_target_is_refused_and_untouched),
        cmocka_unit_test(stores_in_memory_and_read_only_ones_are_backed_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
