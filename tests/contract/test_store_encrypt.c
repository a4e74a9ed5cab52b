/* QUIPU_OPEN_ENCRYPT: a plain store becomes an encrypted one, whole and with nothing plain left
 * beside it; what cannot be encrypted says why and stays as it is. Interruptions:
 * tests/crash/test_encrypt.c. */
#include "contract/maintain_t.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#define PLANTED "planted-and-later-unreadable"

static const char *const en_key = "the key, the key, the key, 32 b.";
static const char *const en_other = "another key, another key, 32 by.";

static quipu_open_options en_options(const char *key, uint32_t flags)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.flags = flags;
    options.key = key != NULL ? st_give_key : NULL;
    options.key_ctx = (void *)(uintptr_t)key;
    options.deadline_ms = 200;
    return options;
}

static quipu_status en_encrypt(const char *uri, const char *key, uint32_t flags,
                               quipu_error *reterr)
{
    const quipu_open_options options = en_options(key, flags | QUIPU_OPEN_ENCRYPT);
    quipu_store *store = NULL;
    const quipu_status status = quipu_open(uri, &options, &store, reterr);

    quipu_close(store);
    return status;
}

static quipu_status en_try(const char *path, const char *key, quipu_store **ret)
{
    const quipu_open_options options = en_options(key, QUIPU_OPEN_MUST_EXIST);

    return quipu_open(path, &options, ret, NULL);
}

/* A plain store with everything in it, in a folder of its own; returns its export. */
static mt_stream en_make(char path[T_PATH_MAX])
{
    quipu_store *store = NULL;
    mt_stream before;

    t_path(t_tmpdir(), "store.db", path);
    T_OK(quipu_open(path, NULL, &store, NULL));
    mt_fill(store, path);
    (void)st_append(store, "root", PLANTED);
    before = mt_export(store, NULL);
    quipu_close(store);
    return before;
}

/* No file beside the store shows the text; returns how many there are. */
static int en_hidden(const char *path)
{
    char folder[T_PATH_MAX];
    char name[T_PATH_MAX];
    struct dirent *entry = NULL;
    DIR *dir = NULL;
    int count = 0;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            size_t size = 0;
            char *bytes = NULL;

            t_path(folder, entry->d_name, name);
            bytes = t_file_read(name, &size);
            assert_false(mt_find_bytes(bytes, size, QUIPU_STR("planted")));
            assert_false(mt_find_bytes(bytes, size, QUIPU_STR("SQLite format")));
            free(bytes);
            count++;
        }
    }
    closedir(dir);
    return count;
}

/* The key opens the store, which has what it had and no problem. */
static void en_same(const char *path, const char *key, const mt_stream *before)
{
    quipu_store *store = NULL;
    mt_stream after;

    T_OK(en_try(path, key, &store));
    mt_clean(store);
    after = mt_export(store, NULL);
    assert_int_equal(after.n, before->n);
    assert_memory_equal(after.p, before->p, before->n);
    mt_free(&after);
    quipu_close(store);
}

static void a_plain_store_becomes_an_encrypted_one(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = NULL;
    mt_stream before = en_make(path);
    struct stat info;

    (void)state;
    assert_int_equal(chmod(path, 0640), 0);
    T_OK(en_encrypt(path, en_key, 0, NULL));
    assert_int_equal(en_hidden(path), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(info.st_nlink, 1);
    en_same(path, en_key, &before);
    T_STATUS(en_try(path, NULL, &store), QUIPU_MISUSE);
    T_STATUS(en_try(path, en_other, &store), QUIPU_INVALID);
    T_OK(en_try(path, en_key, &store));
    (void)st_append(store, "root", PLANTED);
    assert_int_equal(en_hidden(path), 3); /* it has a log again */
    quipu_close(store);
    mt_free(&before);
}

static void a_passphrase_and_a_link_do_as_well(void **state)
{
    char path[T_PATH_MAX];
    char link[T_PATH_MAX];
    struct stat info;
    mt_stream before = en_make(path);

    (void)state;
    t_path(t_tmpdir(), "link.db", link);
    assert_int_equal(symlink(path, link), 0);
    T_OK(en_encrypt(link, "open sesame", QUIPU_OPEN_PASSPHRASE, NULL));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode)); /* the file behind it was replaced */
    assert_int_equal(en_hidden(path), 1);
    en_same(path, "open sesame", &before);
    mt_free(&before);
}

/* Another program's VACUUM, with no room for tags in the pages. */
static void en_strip(const char *path)
{
    sqlite3 *db = NULL;
    int reserve = 0;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "VACUUM", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_file_without_checksums_gets_room_first(void **state)
{
    char path[T_PATH_MAX];
    mt_stream before = en_make(path);

    (void)state;
    en_strip(path);
    T_OK(en_encrypt(path, en_key, 0, NULL));
    assert_int_equal(en_hidden(path), 1);
    en_same(path, en_key, &before);
    mt_free(&before);
}

/* A repeat does nothing; another key neither opens nor changes the file. */
static void an_encrypted_store_stays_as_it_is(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_error error = {0};
    mt_stream before = en_make(path);

    (void)state;
    T_OK(en_encrypt(path, en_key, 0, NULL));
    t_path(t_tmpdir(), "copy.db", copy);
    t_file_copy(path, copy);
    T_OK(en_encrypt(path, en_key, 0, NULL));
    assert_true(t_file_equal(path, copy));
    T_STATUS(en_encrypt(path, en_other, 0, &error), QUIPU_INVALID);
    assert_non_null(strstr(error.message, "the key does not fit"));
    assert_true(t_file_equal(path, copy));
    mt_free(&before);
}

/* What a call leaves that a crash ended before the names are swapped, or behind that. */
static void a_repeat_ends_what_a_crash_left(void **state)
{
    char path[T_PATH_MAX];
    char left[T_PATH_MAX + 16];
    char plain[T_PATH_MAX];
    mt_stream before = en_make(path);

    (void)state;
    (void)snprintf(left, sizeof(left), "%s-encrypting", path);
    t_path(t_tmpdir(), "plain.db", plain);
    t_file_copy(path, plain);
    t_file_write(left, "half of a copy", 14);
    T_OK(en_encrypt(path, en_key, 0, NULL));
    assert_int_equal(en_hidden(path), 1);
    t_file_copy(plain, left); /* the plain file under its new name */
    T_OK(en_encrypt(path, en_key, 0, NULL));
    assert_int_equal(en_hidden(path), 1);
    en_same(path, en_key, &before);
    mt_free(&before);
}

/* Readers would go on reading a file that is gone, writers would lose what they write. */
static void a_store_that_is_open_is_refused(void **state)
{
    char path[T_PATH_MAX];
    quipu_error error = {0};
    quipu_store *store = NULL;
    quipu_open_options reading = QUIPU_OPEN_OPTIONS_INIT;
    mt_stream before = en_make(path);

    (void)state;
    T_OK(quipu_open(path, NULL, &store, NULL));
    T_STATUS(en_encrypt(path, en_key, 0, &error), QUIPU_BUSY);
    assert_non_null(strstr(error.message, "a program has it open"));
    (void)st_append(store, "root", "is not lost");
    quipu_close(store);
    reading.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &reading, &store, NULL));
    T_STATUS(en_encrypt(path, en_key, 0, &error), QUIPU_BUSY);
    quipu_close(store);
    mt_free(&before);
    T_OK(quipu_open(path, NULL, &store, NULL));
    before = mt_export(store, NULL);
    quipu_close(store);
    T_OK(en_encrypt(path, en_key, 0, NULL));
    en_same(path, en_key, &before);
    mt_free(&before);
}

static void what_cannot_be_encrypted_says_why(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_error error = {0};
    mt_stream before = en_make(path);

    (void)state;
    t_path(t_tmpdir(), "copy.db", copy);
    t_file_copy(path, copy);
    T_STATUS(en_encrypt(path, NULL, 0, &error), QUIPU_MISUSE);
    T_STATUS(en_encrypt(NULL, en_key, 0, &error), QUIPU_MISUSE);
    T_STATUS(en_encrypt(path, en_key, QUIPU_OPEN_READ_ONLY, &error), QUIPU_MISUSE);
    T_STATUS(en_encrypt(path, "short", 0, &error), QUIPU_INVALID);
    T_STATUS(en_encrypt(path, "", QUIPU_OPEN_PASSPHRASE, &error), QUIPU_INVALID);
    T_STATUS(en_encrypt(":memory:", en_key, 0, &error), QUIPU_UNSUPPORTED);
    T_STATUS(en_encrypt("postgresql://nowhere/x", en_key, 0, &error), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(error.message, "by its own means"));
    T_STATUS(en_encrypt("http://127.0.0.1:9", en_key, 0, &error), QUIPU_UNSUPPORTED);
    T_STATUS(en_encrypt("/nowhere/store.db", en_key, 0, &error), QUIPU_NOT_FOUND);
    assert_true(t_file_equal(path, copy));
    mt_free(&before);
}

/* Who may write to the folder could point the name at a file of somebody else. */
static void what_has_the_name_of_the_copy_and_is_not_ours_stays(void **state)
{
    char path[T_PATH_MAX];
    char left[T_PATH_MAX + 16];
    char other[T_PATH_MAX];
    quipu_error error = {0};
    mt_stream before = en_make(path);
    size_t size = 0;
    char *bytes = NULL;

    (void)state;
    (void)snprintf(left, sizeof(left), "%s-encrypting", path);
    t_path(t_tmpdir(), "other", other);
    t_file_write(other, "precious", 8);
    assert_int_equal(link(other, left), 0);
    T_STATUS(en_encrypt(path, en_key, 0, &error), QUIPU_IO);
    assert_non_null(strstr(error.message, "not a file of this store"));
    assert_int_equal(unlink(left), 0);
    assert_int_equal(symlink(other, left), 0);
    T_STATUS(en_encrypt(path, en_key, 0, &error), QUIPU_IO);
    assert_int_equal(unlink(left), 0);
    assert_int_equal(mkfifo(left, 0600), 0);
    T_STATUS(en_encrypt(path, en_key, 0, &error), QUIPU_IO);
    assert_int_equal(unlink(left), 0);
    bytes = t_file_read(other, &size);
    assert_int_equal(size, 8);
    assert_memory_equal(bytes, "precious", 8);
    free(bytes);
    en_same(path, NULL, &before);
    T_OK(en_encrypt(path, en_key, 0, &error));
    en_same(path, en_key, &before);
    mt_free(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_store_becomes_an_encrypted_one),
        cmocka_unit_test(a_passphrase_and_a_link_do_as_well),
        cmocka_unit_test(a_file_without_checksums_gets_room_first),
        cmocka_unit_test(an_encrypted_store_stays_as_it_is),
        cmocka_unit_test(a_repeat_ends_what_a_crash_left),
        cmocka_unit_test(a_store_that_is_open_is_refused),
        cmocka_unit_test(what_cannot_be_encrypted_says_why),
        cmocka_unit_test(what_has_the_name_of_the_copy_and_is_not_ours_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
