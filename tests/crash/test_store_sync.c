/* What the commit group promises about fsync: callers that wait together share it, and no append
 * is acknowledged before it. Counted and failed in a VFS shim that this program makes SQLite's
 * default. */
#include "contract/store_t.h"
#include "crash/faultvfs.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLERS 64
#define SYNCS_MAX 4
#define MEMBERS 6

static void use_fault_vfs(void)
{
    faultvfs_install();
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
}

typedef struct caller {
    quipu_store *store;
    int number;
    quipu_status status;
    quipu_str big; /* says this instead of its number, when not absent */
} caller;

static void *caller_run(void *arg)
{
    caller *self = arg;
    char text[32];
    quipu_message message;

    snprintf(text, sizeof(text), "%d", self->number);
    message = st_says(QUIPU_ROLE_USER, text);
    if (self->big.p != NULL) {
        message.content = self->big;
    }
    self->status = quipu_message_append(self->store, QUIPU_STR("k"), quipu_messages_of(&message, 1),
                                        NULL, NULL, NULL, NULL);
    return NULL;
}

/* A foreign lock holds the leader up until all callers wait. */
static void callers_that_wait_together_share_their_syncs(void **state)
{
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    char path[T_PATH_MAX];
    sqlite3 *raw = NULL;
    quipu_store *store = st_open_new(NULL, path);
    const struct timespec wait = {0, 300000000};

    (void)state;
    st_create(store, "k");
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.store = store, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, caller_run, &callers[i]), 0);
    }
    (void)nanosleep(&wait, NULL);
    faultvfs_arm((faultvfs_plan){0});
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_OK(callers[i].status);
    }
    int64_t syncs = faultvfs_count(FAULTVFS_SYNC);
    print_message("%d callers, %lld syncs\n", CALLERS, (long long)syncs);
    assert_true(syncs >= 1);
    assert_true(syncs <= SYNCS_MAX);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, CALLERS);
    quipu_free(history);
    quipu_close(store);
}

static void lone_append_costs_one_sync_and_a_read_none(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 1);
    faultvfs_arm((faultvfs_plan){0});
    st_append_many(store, "k", 1);
    assert_int_equal(faultvfs_count(FAULTVFS_SYNC), 1);
    quipu_free(st_get(store, "k", NULL));
    T_STATUS(st_get_status(store, "ghost"), QUIPU_NOT_FOUND);
    assert_int_equal(faultvfs_count(FAULTVFS_SYNC), 1);
    quipu_close(store);
}

static void relaxed_append_costs_no_sync(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.durability = QUIPU_RELAXED;
    quipu_store *store = st_open_new(&options, NULL);
    st_create(store, "k");
    faultvfs_arm((faultvfs_plan){0});
    st_append_many(store, "k", 3);
    assert_int_equal(faultvfs_count(FAULTVFS_SYNC), 0);
    quipu_close(store);
}

/* The process dies between the write of the commit and its sync: nothing was acknowledged. */
static void kill_before_the_sync_acknowledges_none(void **state)
{
    char path[T_PATH_MAX];
    int fds[2];
    int how = 0;
    char word = 0;
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "k");
    quipu_close(store);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        caller one = {.number = 1};
        (void)close(fds[0]);
        if (quipu_open(path, NULL, &one.store, NULL) != QUIPU_OK) {
            _exit(1);
        }
        faultvfs_arm((faultvfs_plan){1u << FAULTVFS_SYNC, 1, false, FAULTVFS_KILL});
        (void)caller_run(&one);
        (void)!write(fds[1], "y", 1);
        _exit(0);
    }
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], &word, 1), 0);
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    store = st_open(path);
    assert_true(st_append(store, "k", "on") >= 1);
    quipu_close(store);
}

/* A failed sync at the commit: the outcome is unknown, and a repeat with the same id settles it. */
static void failed_sync_is_unknown_and_a_repeat_settles_it(void **state)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "once");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "k");
    message.event_id = QUIPU_STR("e1");
    faultvfs_arm((faultvfs_plan){1u << FAULTVFS_SYNC, 1, false, FAULTVFS_EIO});
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  &appended, &err),
             QUIPU_UNKNOWN);
    assert_int_equal(faultvfs_fired(), 1);
    assert_int_equal(appended.first_seq, 0);
    faultvfs_arm((faultvfs_plan){0});
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_int_equal(appended.first_seq, 1);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
    quipu_close(store);
}

static void full_disk_is_full_and_leaves_nothing(void **state)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_error err = {0};
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 1);
    faultvfs_room(0);
    T_STATUS(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_FULL);
    T_STATUS(st_get_status(store, "k"), QUIPU_OK);
    faultvfs_room(-1);
    assert_int_equal(st_append(store, "k", "again"), 2);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
    quipu_close(store);
}

/* One member's message does not fit the disk, and the engine gives the whole transaction up: the
 * others are run again and stored, and only that one fails. */
static void member_that_fills_the_disk_fails_alone(void **state)
{
    const size_t big_size = 16u << 20;
    pthread_t threads[MEMBERS + 1];
    caller callers[MEMBERS + 1];
    char path[T_PATH_MAX];
    char *big = malloc(big_size);
    sqlite3 *raw = NULL;
    quipu_store *store = st_open_new(NULL, path);
    const struct timespec wait = {0, 20000000};

    (void)state;
    assert_non_null(big);
    memset(big, 'x', big_size);
    st_create(store, "k");
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i <= MEMBERS; i++) {
        callers[i] = (caller){.store = store, .number = i};
        if (i == MEMBERS / 2) {
            callers[i].big = (quipu_str){big, big_size};
        }
        assert_int_equal(pthread_create(&threads[i], NULL, caller_run, &callers[i]), 0);
        (void)nanosleep(&wait, NULL);
    }
    faultvfs_room(1 << 20);
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
    for (int i = 0; i <= MEMBERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i <= MEMBERS; i++) {
        T_STATUS(callers[i].status, i == MEMBERS / 2 ? QUIPU_FULL : QUIPU_OK);
    }
    faultvfs_room(-1);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, MEMBERS);
    quipu_free(history);
    quipu_close(store);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_that_wait_together_share_their_syncs),
        cmocka_unit_test(lone_append_costs_one_sync_and_a_read_none),
        cmocka_unit_test(relaxed_append_costs_no_sync),
        cmocka_unit_test(kill_before_the_sync_acknowledges_none),
        cmocka_unit_test(failed_sync_is_unknown_and_a_repeat_settles_it),
        cmocka_unit_test(full_disk_is_full_and_leaves_nothing),
        cmocka_unit_test(member_that_fills_the_disk_fails_alone),
    };

    use_fault_vfs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
