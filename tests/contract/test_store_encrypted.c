/* A store with a key: the whole library on an encrypted file, through its public functions; engines
 * that cannot keep a key refuse it. */
#include "contract/store_t.h"

#include <dirent.h>

#define PLANTED "planted-and-never-readable"

/* How often the key was asked for. */
typedef struct en_key {
    const char *text;
    int asked;
} en_key;

static size_t en_give(void *ctx, void *ret_key, size_t size)
{
    en_key *key = ctx;

    key->asked++;
    return st_give_key((void *)(uintptr_t)key->text, ret_key, size);
}

static quipu_status en_try(const char *path, en_key *key, uint32_t flags, quipu_store **ret,
                           quipu_error *reterr)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.flags = flags;
    options.key = key != NULL ? en_give : NULL;
    options.key_ctx = key;
    return quipu_open(path, &options, ret, reterr);
}

static quipu_store *en_open(const char *path, en_key *key)
{
    quipu_store *store = NULL;

    T_OK(en_try(path, key, 0, &store, NULL));
    return store;
}

static bool en_has(const char *path, const char *text)
{
    size_t size = 0;
    char *bytes = t_file_read(path, &size);
    const size_t n = strlen(text);
    bool found = false;

    for (size_t i = 0; !found && i + n <= size; i++) {
        found = memcmp(bytes + i, text, n) == 0;
    }
    free(bytes);
    return found;
}

/* How many files lie in the folder; none has the planted text, also in part. */
static int en_files(const char *folder)
{
    char name[T_PATH_MAX];
    struct dirent *entry = NULL;
    DIR *dir = opendir(folder);
    int count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            t_path(folder, entry->d_name, name);
            assert_false(en_has(name, "planted"));
            assert_false(en_has(name, "sessions"));
            count++;
        }
    }
    closedir(dir);
    return count;
}

static void everything_works_on_an_encrypted_store(void **state)
{
    const char *folder = t_tmpdir();
    en_key key = {"0123456789abcdef0123456789abcdef", 0};
    quipu_stats stats = QUIPU_STATS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = NULL;

    (void)state;
    t_path(folder, "store.db", path);
    store = en_open(path, &key);
    st_create(store, "one");
    for (int i = 0; i < 50; i++) {
        (void)st_append(store, "one", PLANTED " and searched");
    }
    assert_int_equal(en_files(folder), 3);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.messages, 50);
    quipu_close(store);
    assert_int_equal(key.asked, 1);
    assert_int_equal(en_files(folder), 1);
    store = en_open(path, &key);
    stats = (quipu_stats)QUIPU_STATS_INIT;
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.messages, 50);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_works_on_an_encrypted_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
