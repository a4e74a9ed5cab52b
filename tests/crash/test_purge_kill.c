/* A process is killed while it purges a long session, behind its first step, its second and so on:
 * the session is gone for everybody, verify finds nothing at that moment, and the next sweep
 * removes the rest. The clock is stepped over the dead worker's lease, never waited for. */
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quipu/log.h>

#include "base/time.h"

#define WORD "quetzalcoatl"
#define STEPS 5 /* of the purge, behind the delete itself */
#define MESSAGES ((STEPS + 1) * QUIPU_DELETE_BATCH)

static void fill(quipu_store *store, const char *key, int count)
{
    static quipu_message messages[MESSAGES];
    static char texts[MESSAGES][40];
    quipu_error err = {0};

    for (int done = 0; done < count; done += QUIPU_BATCH_MAX) {
        const int n = count - done < QUIPU_BATCH_MAX ? count - done : QUIPU_BATCH_MAX;

        for (int i = 0; i < n; i++) {
            (void)snprintf(texts[i], sizeof(texts[i]), WORD " %d", done + i);
            messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
        }
        T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, (size_t)n),
                                  NULL, NULL, NULL, &err));
    }
}

/* Reports each step to the parent. */
static void report(void *ctx, const quipu_log_entry *entry)
{
    const int *to = ctx;

    if (strcmp(entry->event, "purge_step") == 0 && write(*to, "s", 1) != 1) {
        _exit(3);
    }
}

/* In a child. */
static void victim(const char *path, int to)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;

    options.log = report;
    options.log_ctx = &to;
    options.log_level = QUIPU_LOG_DEBUG;
    if (quipu_open(path, &options, &store, NULL) != QUIPU_OK ||
        quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, NULL) != QUIPU_OK) {
        _exit(1);
    }
    for (;;) { /* it may have been too quick for the parent */
        (void)pause();
    }
}

static void kill_behind_step(const char *path, int step)
{
    int ends[2];
    int how = 0;
    char got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        victim(path, ends[1]);
    }
    (void)close(ends[1]);
    for (int i = 0; i < step; i++) {
        assert_int_equal(read(ends[0], &got, 1), 1);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    (void)close(ends[0]);
}

static void a_sweep_finishes_what_a_killed_delete_left(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "other");
    assert_int_equal(st_append(store, "other", "I stay"), 1);
    for (int step = 1; step <= STEPS; step++) {
        st_create(store, "k");
        fill(store, "k", MESSAGES);
        mt_fork(store, "k", 3, "fork");
        T_OK(quipu_search_index(store, NULL, NULL, &err));
        quipu_close(store); /* before fork() */
        kill_behind_step(path, step);
        store = st_open(path);
        mt_clean(store);
        assert_int_equal(st_get_status(store, "k"), QUIPU_NOT_FOUND);
        assert_true(strncmp(found(store, WORD), "fork:", 5) == 0);
        qp_time_step(60000);
        T_OK(quipu_session_delete(store, QUIPU_STR("fork"), NULL, NULL, NULL, &err));
        T_OK(quipu_store_sweep(store, NULL, NULL, &err));
        qp_time_step(0);
        mt_clean(store);
        quipu_close(store);
        assert_false(mt_files_hold(path, WORD " 5")); /* of an index, only its own words */
        store = st_open(path);
    }
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_finishes_what_a_killed_delete_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
