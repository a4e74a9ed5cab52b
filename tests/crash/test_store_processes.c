/* Many processes with many threads on one file: every append is stored once, each writer's in its
 * order, without gaps, and nobody sees an error. */
#include "contract/store_t.h"
#include "lib/short.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 8
#define THREADS_MAX 8

typedef struct writer {
    quipu_store *store;
    int number; /* unique in the whole test */
    int count;
    bool failed;
} writer;

static void *writer_run(void *arg)
{
    writer *self = arg;
    char text[32];

    for (int i = 0; i < self->count && !self->failed; i++) {
        quipu_message message;
        quipu_error err = {0};
        snprintf(text, sizeof(text), "%d:%d", self->number, i);
        message = st_says(QUIPU_ROLE_USER, text);
        if (quipu_message_append(self->store, QUIPU_STR("shared"), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &err) != QUIPU_OK) {
            (void)fprintf(stderr, "writer %d: %s\n", self->number, err.message);
            self->failed = true;
        }
    }
    return NULL;
}

/* In a child: open the file, write with some threads, close; gives the exit code. */
static int process_run(const char *path, int process, int threads, int count)
{
    pthread_t ids[THREADS_MAX];
    writer writers[THREADS_MAX];
    quipu_store *store = NULL;
    quipu_error err = {0};
    int failed = 0;

    if (quipu_open(path, NULL, &store, &err) != QUIPU_OK) {
        (void)fprintf(stderr, "open: %s\n", err.message);
        return 1;
    }
    for (int i = 0; i < threads; i++) {
        writers[i] = (writer){store, process * threads + i, count, false};
        if (pthread_create(&ids[i], NULL, writer_run, &writers[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
        failed |= writers[i].failed;
    }
    quipu_close(store);
    return failed ? 3 : 0;
}

static void check_all_stored(const char *path, int writers, int count)
{
    int next[PROCESSES_MAX * THREADS_MAX] = {0};
    quipu_store *store = st_open(path);
    quipu_history *history = st_get(store, "shared", NULL);

    st_check_whole(history);
    assert_int_equal(history->messages.count, writers * count);
    for (size_t i = 0; i < history->messages.count; i++) {
        int number = -1;
        int at = -1;
        assert_int_equal(
            sscanf(quipu_message_at(history->messages, i)->content.p, "%d:%d", &number, &at), 2);
        assert_true(number >= 0 && number < writers);
        assert_int_equal(at, next[number]++);
    }
    quipu_free(history);
    quipu_close(store);
}

static void processes_and_threads_append_to_one_session(void **state)
{
    const int processes = (int)t_count(4, 8);
    const int threads = (int)t_count(4, 8);
    const int count = (int)t_count(40, 1000);
    pid_t pids[PROCESSES_MAX];
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "shared");
    quipu_close(store);
    for (int i = 0; i < processes; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(process_run(path, i, threads, count));
        }
    }
    for (int i = 0; i < processes; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    check_all_stored(path, processes * threads, count);
}

/* The experiment at which a peer fails: many first openers of fresh files at once. */
static void first_openers_of_a_fresh_file_all_get_in(void **state)
{
    const int files = (int)t_count(5, 20);

    (void)state;
    for (int file = 0; file < files; file++) {
        pid_t pids[PROCESSES_MAX];
        char path[T_PATH_MAX];
        t_path(t_tmpdir(), "fresh.db", path);
        for (int i = 0; i < PROCESSES_MAX; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                quipu_store *store = NULL;
                quipu_session_new values = st_values("shared");
                quipu_error err = {0};
                bool right = quipu_open(path, NULL, &store, &err) == QUIPU_OK &&
                             t_session_reuse(store, &values, NULL, NULL, NULL, &err) == QUIPU_OK;
                if (!right) {
                    (void)fprintf(stderr, "opener %d: %s\n", i, err.message);
                }
                quipu_close(store);
                _exit(right ? 0 : 1);
            }
        }
        for (int i = 0; i < PROCESSES_MAX; i++) {
            int how = 0;
            assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
            assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_and_threads_append_to_one_session),
        cmocka_unit_test(first_openers_of_a_fresh_file_all_get_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
