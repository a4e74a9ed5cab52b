/* kill -9 in the middle of an import: every session is there whole or not at all, and running the
 * import again completes it. */
#include "contract/import_t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSIONS 60 /* beside the fixture's two */
#define EVENTS 11   /* of each */

/* A file of ADK's with many sessions, made from the fixture's first. */
static void kill_source(char path[T_PATH_MAX])
{
    t_fixture("adk-python-sqlite.db", path);
    import_exec(path,
                "INSERT INTO sessions WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                "FROM n WHERE i < 60) SELECT app_name, user_id, 'many-' || i, state, "
                "create_time, update_time FROM sessions, n WHERE id = 'sess-0001';"
                "INSERT INTO events WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                "FROM n WHERE i < 60) SELECT id, app_name, user_id, 'many-' || i, "
                "invocation_id, timestamp, event_data FROM events, n "
                "WHERE session_id = 'sess-0001'");
}

/* What the child reports over its pipe: so many sessions are written. */
typedef struct kill_child {
    int fd;
} kill_child;

static void kill_report(void *ctx, const quipu_source_progress *progress)
{
    const kill_child *child = ctx;
    const unsigned char word = (unsigned char)progress->sessions;

    if (progress->writing && write(child->fd, &word, 1) != 1) {
        _exit(4);
    }
}

static int kill_import(const char *target, const char *source, int fd)
{
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    kill_child child = {fd};
    quipu_store *store = NULL;

    options.progress = kill_report;
    options.ctx = &child;
    if (quipu_open(target, NULL, &store, NULL) != QUIPU_OK) {
        return 2;
    }
    quipu_status status = quipu_source_import(store, source, &options, NULL, NULL, NULL);
    quipu_close(store);
    return status == QUIPU_OK ? 0 : 3;
}

/* Run an import in a child and kill it when it has reported `after` sessions: it is then at work on
 * one of the next. The number that it reported last. */
static int kill_run(const char *target, const char *source, int after)
{
    unsigned char word = 0;
    int fds[2];
    int reported = 0;
    int how = 0;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        _exit(kill_import(target, source, fds[1]));
    }
    (void)close(fds[1]);
    while (reported < after && read(fds[0], &word, 1) == 1) {
        reported = word;
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(fds[0], &word, 1) == 1) {
        reported = word;
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    (void)close(fds[0]);
    return reported;
}

/* Sessions that are there, each whole. */
static int64_t kill_check(quipu_store *store)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    int64_t count;

    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    options.limit = 2 * SESSIONS;
    T_OK(quipu_session_list(store, &options, NULL, &page, NULL));
    for (size_t i = 0; i < page->sessions.count; i++) {
        const quipu_session_info *info = quipu_session_info_at(page->sessions, i);

        assert_true(info->message_count == EVENTS || info->message_count == 1); /* bob has one */
    }
    count = (int64_t)page->sessions.count;
    quipu_free(page);
    return count;
}

static void a_killed_import_leaves_whole_sessions_and_can_be_repeated(void **state)
{
    char source[T_PATH_MAX];
    uint64_t random = t_seed();
    const int64_t rounds = t_count(6, 60);

    (void)state;
    kill_source(source);
    for (int64_t round = 0; round < rounds; round++) {
        const int after = (int)t_random_below(&random, SESSIONS);
        char target[T_PATH_MAX];

        quipu_close(st_open_new(NULL, target));
        const int reported = kill_run(target, source, after);
        quipu_store *store = st_open(target);
        const int64_t there = kill_check(store);
        assert_true(there >= reported && there <= SESSIONS + 2); /* what was reported is there */
        const quipu_source_report report = import_ok(store, source, NULL);
        assert_int_equal(report.skipped, there);
        assert_int_equal(report.sessions + there, SESSIONS + 2);
        assert_int_equal(kill_check(store), SESSIONS + 2);
        quipu_stats stats = QUIPU_STATS_INIT;
        T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
        assert_int_equal(stats.messages, (SESSIONS + 1) * EVENTS + 1);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_import_leaves_whole_sessions_and_can_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
