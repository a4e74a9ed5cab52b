/* Backup of a live store: while threads write, each copy opens, verifies, and holds a state that
 * was. Export and verify run beside writers too. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITERS 3
#define COPIES 5

typedef struct live {
    quipu_store *store;
    atomic_bool stop;
    atomic_llong acknowledged[WRITERS]; /* messages that a writer knows to be stored */
} live;

typedef struct writer {
    live *live;
    int number;
} writer;

static void *write_on(void *arg)
{
    writer *self = arg;
    char key[32];
    char text[64];

    snprintf(key, sizeof(key), "w%d", self->number);
    for (int i = 1; !atomic_load(&self->live->stop); i++) {
        quipu_message message;
        quipu_error err = {0};
        snprintf(text, sizeof(text), "message %d of writer %d", i, self->number);
        message = st_says(QUIPU_ROLE_USER, text);
        if (quipu_message_append(self->live->store, quipu_cstr(key), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &err) != QUIPU_OK) {
            return "append failed";
        }
        atomic_store(&self->live->acknowledged[self->number], i);
    }
    return NULL;
}

/* The copy holds at least what was acknowledged before it began, without gaps. */
static void check_copy(const char *path, const long long *before)
{
    struct stat info;
    quipu_store *copy = NULL;
    char key[32];

    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    copy = st_open(path);
    mt_clean(copy);
    for (int i = 0; i < WRITERS; i++) {
        snprintf(key, sizeof(key), "w%d", i);
        quipu_history *history = st_get(copy, key, NULL);
        st_check_whole(history);
        assert_true((long long)history->messages.count >= before[i]);
        quipu_free(history);
    }
    st_create(copy, "the copy goes its own way");
    quipu_close(copy);
}

static void copies_made_while_threads_write_are_whole(void **state)
{
    const char *dir = t_tmpdir();
    live shared = {.store = st_open_new(NULL, NULL)};
    writer writers[WRITERS];
    pthread_t threads[WRITERS];
    char path[T_PATH_MAX];
    char name[32];
    quipu_error err = {0};

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        st_create(shared.store, name);
        writers[i] = (writer){&shared, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &writers[i]), 0);
    }
    for (int i = 0; i < COPIES; i++) {
        long long before[WRITERS];
        mt_stream stream = {0};
        quipu_verified verified = QUIPU_VERIFIED_INIT;

        for (int k = 0; k < WRITERS; k++) {
            before[k] = atomic_load(&shared.acknowledged[k]);
        }
        snprintf(name, sizeof(name), "copy%d.db", i);
        t_path(dir, name, path);
        T_OK(quipu_store_backup(shared.store, path, NULL, &err));
        check_copy(path, before);
        T_OK(quipu_store_export(shared.store, NULL, mt_write, &stream, NULL, NULL, &err));
        quipu_store *other = st_open_new(NULL, NULL);
        (void)mt_import(other, &stream);
        mt_clean(other);
        quipu_close(other);
        mt_free(&stream);
        T_OK(quipu_store_verify(shared.store, NULL, NULL, &verified, &err));
        assert_int_equal(verified.problems, 0);
        T_OK(t_session_erase(shared.store, QUIPU_STR("nobody"), 0, NULL, NULL, &err));
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < WRITERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    mt_clean(shared.store);
    quipu_close(shared.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_made_while_threads_write_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
