/* QUIPU_STORE_SET_KEY: who has the store open goes on, who opens it needs the new key, and what
 * cannot be rekeyed says why. Interruptions: tests/crash/test_rekey.c. */
#include "contract/maintain_t.h"

#include <pthread.h>
#include <stdatomic.h>

#define PHRASE QUIPU_OPEN_PASSPHRASE

static const char *const rk_old = "old key, old key, old key, 32 b.";
static const char *const rk_new = "new key, new key, new key, 32 b.";
static const char *const rk_phrase = "open sesame";

static quipu_status rk_try(const char *path, const char *key, uint32_t flags, quipu_store **ret)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.flags = flags;
    options.key = st_give_key;
    options.key_ctx = (void *)(uintptr_t)key;
    return quipu_open(path, &options, ret, NULL);
}

static quipu_store *rk_open(const char *path, const char *key, uint32_t flags)
{
    quipu_store *store = NULL;

    T_OK(rk_try(path, key, flags, &store));
    return store;
}

static quipu_status rk_change(quipu_store *store, const char *key, uint32_t flags,
                              quipu_error *reterr)
{
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;

    patch.set = flags == PHRASE ? QUIPU_STORE_SET_PASSPHRASE
                                : (flags == 0 ? QUIPU_STORE_SET_KEY : flags << 1);
    patch.key = st_give_key;
    patch.key_ctx = (void *)(uintptr_t)key;
    return quipu_store_update(store, &patch, NULL, reterr);
}

static void rk_make(char path[T_PATH_MAX])
{
    quipu_store *store = NULL;

    t_path(t_tmpdir(), "store.db", path);
    store = rk_open(path, rk_old, 0);
    st_create(store, "one");
    (void)st_append(store, "one", "first");
    quipu_close(store);
}

static int64_t rk_messages(quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    return stats.messages;
}

/* The key opens the store, which has that many messages and no problem. */
static void rk_opens(const char *path, const char *key, int64_t messages)
{
    quipu_store *store = rk_open(path, key, 0);

    mt_clean(store);
    assert_int_equal(rk_messages(store), messages);
    quipu_close(store);
}

static void rk_refuses(const char *path, const char *key)
{
    quipu_store *store = NULL;

    T_STATUS(rk_try(path, key, 0, &store), QUIPU_INVALID);
}

static void a_store_is_opened_with_its_new_key_alone(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_store *store = NULL;

    (void)state;
    T_SQLITE_ONLY("it is about the key of a file");
    rk_make(path);
    store = rk_open(path, rk_old, 0);
    T_OK(rk_change(store, rk_new, 0, NULL));
    (void)st_append(store, "one", "second");
    t_path(t_tmpdir(), "copy.db", copy);
    T_OK(quipu_store_backup(store, copy, NULL, NULL)); /* is made for the new key */
    rk_opens(path, rk_new, 2);
    rk_refuses(path, rk_old);
    quipu_close(store);
    rk_opens(path, rk_new, 2);
    rk_opens(copy, rk_new, 2);
    rk_refuses(copy, rk_old);
}

static void a_passphrase_takes_the_place_of_a_key_and_back(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = NULL;

    (void)state;
    T_SQLITE_ONLY("it is about the key of a file");
    rk_make(path);
    store = rk_open(path, rk_old, 0);
    T_OK(rk_change(store, rk_phrase, PHRASE, NULL));
    rk_refuses(path, rk_old);
    rk_opens(path, rk_phrase, 1);
    T_OK(rk_change(store, rk_new, 0, NULL)); /* the same handle has the passphrase by now */
    quipu_close(store);
    rk_refuses(path, rk_phrase);
    rk_opens(path, rk_new, 1);
}

/* What a program does that has the store open while another one changes the key. */
typedef struct rk_work {
    quipu_store *store;
    int64_t appended;
    _Atomic bool stop;
} rk_work;

static void *rk_append_and_read(void *ctx)
{
    rk_work *work = ctx;

    while (!work->stop || work->appended < 50) {
        (void)st_append(work->store, "one", "while the key changes");
        work->appended++;
        assert_int_equal(rk_messages(work->store), work->appended + 1);
    }
    return NULL;
}

/* Two handles that know nothing of each other, as two processes. The one that works had opened
 * nothing but its first connection when the key changed. */
static void calls_go_on_while_the_key_changes_and_afterwards(void **state)
{
    char path[T_PATH_MAX];
    quipu_error error = {0};
    rk_work work = {0};
    quipu_store *other = NULL;
    pthread_t thread;

    (void)state;
    T_SQLITE_ONLY("it is about the key of a file");
    rk_make(path);
    work.store = rk_open(path, rk_old, 0);
    other = rk_open(path, rk_old, 0);
    assert_int_equal(pthread_create(&thread, NULL, rk_append_and_read, &work), 0);
    for (int i = 0; i < 20; i++) {
        T_OK(rk_change(other, i % 2 == 0 ? rk_new : rk_old, 0, NULL));
    }
    T_OK(rk_change(other, rk_new, 0, NULL));
    quipu_close(other);
    work.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* It cannot change a key that it does not have. */
    T_STATUS(rk_change(work.store, rk_phrase, PHRASE, &error), QUIPU_CONFLICT);
    assert_non_null(strstr(error.message, "nothing was written"));
    quipu_close(work.store);
    rk_opens(path, rk_new, work.appended + 1);
    rk_refuses(path, rk_old);
}

static void what_is_no_new_key_is_refused(void **state)
{
    static char long_phrase[1026];
    char path[T_PATH_MAX];
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_store *store = NULL;

    (void)state;
    T_SQLITE_ONLY("it is about the key of a file");
    rk_make(path);
    store = rk_open(path, rk_old, 0);
    patch.set = QUIPU_STORE_SET_KEY;
    T_STATUS(quipu_store_update(store, &patch, NULL, &error), QUIPU_MISUSE);
    T_STATUS(rk_change(store, rk_new, PHRASE << 1, &error), QUIPU_MISUSE);
    T_STATUS(rk_change(store, "short", 0, &error), QUIPU_INVALID);
    assert_non_null(strstr(error.message, "32 bytes"));
    T_STATUS(rk_change(store, "", PHRASE, &error), QUIPU_INVALID);
    memset(long_phrase, 'x', sizeof(long_phrase) - 1);
    T_STATUS(rk_change(store, long_phrase, PHRASE, &error), QUIPU_LIMIT);
    long_phrase[1024] = '\0';
    T_OK(rk_change(store, long_phrase, PHRASE, &error));
    T_OK(rk_change(store, rk_old, 0, &error));
    T_STATUS(rk_change(NULL, rk_old, 0, &error), QUIPU_MISUSE);
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    options.key = st_give_key;
    options.key_ctx = (void *)(uintptr_t)rk_old;
    T_OK(quipu_open(path, &options, &store, NULL));
    T_STATUS(rk_change(store, rk_new, 0, &error), QUIPU_MISUSE);
    quipu_close(store);
    rk_opens(path, rk_old, 1);
}

/* On every engine: a file names the way to encrypt it, a server its own means. */
static void a_store_without_a_key_says_what_to_do(void **state)
{
    quipu_error error = {0};
    quipu_store *store = st_open_new(NULL, NULL);
    const quipu_status status = rk_change(store, rk_new, 0, &error);

    (void)state;
    if (t_pg()) {
        T_STATUS(status, QUIPU_UNSUPPORTED);
        assert_non_null(strstr(error.message, "the server's administrator"));
    } else {
        T_STATUS(status, QUIPU_MISUSE);
        assert_non_null(strstr(error.message, "quipu upgrade --encrypt"));
    }
    quipu_close(store);
    if (!t_pg()) {
        T_OK(quipu_open(":memory:", NULL, &store, NULL));
        T_STATUS(rk_change(store, rk_new, 0, &error), QUIPU_MISUSE);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_is_opened_with_its_new_key_alone),
        cmocka_unit_test(a_passphrase_takes_the_place_of_a_key_and_back),
        cmocka_unit_test(calls_go_on_while_the_key_changes_and_afterwards),
        cmocka_unit_test(what_is_no_new_key_is_refused),
        cmocka_unit_test(a_store_without_a_key_says_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
