/* What holds for every call: open options, URIs, tenants, read-only and in-memory stores, option
 * structs that grow, deadlines, cancellation, fork(2). */
#include "contract/store_t.h"
#include "lib/short.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define K QUIPU_STR("k")

/* ---- opening ----------------------------------------------------------------------------------
 */

static void store_keeps_what_it_was_given_when_it_is_opened_again(void **state)
{
    char path[T_PATH_MAX];
    char uri[T_PATH_MAX + 8];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_close(store);
    snprintf(uri, sizeof(uri), "file:%s", path);
    store = st_open(uri);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 3);
    quipu_close(store);
    T_STR(quipu_message_at(history->messages, 2)->content, "m3"); /* results outlive the store */
    quipu_free(history);
}

static void closing_folds_the_log_into_the_file(void **state)
{
    char path[T_PATH_MAX];
    char wal[T_PATH_MAX + 8];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "k");
    quipu_free(st_get(store, "k", NULL));
    quipu_close(store);
    quipu_close(NULL);
    snprintf(wal, sizeof(wal), "%s-wal", path);
    assert_false(t_file_exists(wal));
}

static void strange_uris_are_refused(void **state)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    T_STATUS(quipu_open("mysql://host/db", NULL, &store, &err), QUIPU_UNSUPPORTED);
    T_STATUS(quipu_open("", NULL, &store, &err), QUIPU_MISUSE);
    T_STATUS(quipu_open("file:", NULL, &store, &err), QUIPU_MISUSE);
    T_STATUS(quipu_open(NULL, NULL, &store, &err), QUIPU_MISUSE);
    T_STATUS(quipu_open(":memory:", NULL, NULL, &err), QUIPU_MISUSE);
    options.flags = QUIPU_OPEN_MUST_EXIST;
    T_STATUS(quipu_open("/nonexistent/x.db", &options, &store, &err), QUIPU_NOT_FOUND);
    T_STATUS(quipu_open(":memory:", &options, &store, &err), QUIPU_MISUSE);
    assert_null(store);
}

static void open_options_hold_at_their_edges(void **state)
{
    const quipu_open_options good[] = {
        {.struct_size = sizeof(quipu_open_options), .readers_max = QUIPU_READERS_LIMIT},
        {.struct_size = sizeof(quipu_open_options), .message_bytes_max = QUIPU_MESSAGE_BYTES_LIMIT},
        {.struct_size = sizeof(quipu_open_options), .durability = QUIPU_RELAXED},
        {.struct_size = sizeof(quipu_open_options), .deadline_ms = -1},
        {.struct_size = 8}}; /* of an older program */
    const quipu_open_options bad[] = {
        {.struct_size = sizeof(quipu_open_options), .readers_max = QUIPU_READERS_LIMIT + 1},
        {.struct_size = sizeof(quipu_open_options), .readers_max = -1},
        {.struct_size = sizeof(quipu_open_options),
         .message_bytes_max = QUIPU_MESSAGE_BYTES_LIMIT + 1},
        {.struct_size = sizeof(quipu_open_options), .deadline_ms = -2},
        {.struct_size = sizeof(quipu_open_options), .ttl_ms = -1},
        {.struct_size = sizeof(quipu_open_options), .flags = 0x100},
        {.struct_size = sizeof(quipu_open_options), .durability = (quipu_durability)7},
        {.struct_size = 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        quipu_store *store = st_open_new(&good[i], NULL);
        st_create(store, "k");
        quipu_close(store);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        quipu_store *store = NULL;
        quipu_error err = {0};
        T_STATUS(quipu_open(":memory:", &bad[i], &store, &err), QUIPU_MISUSE);
        assert_null(store);
    }
}

static void options_of_a_newer_program_pass_only_when_they_ask_for_nothing_new(void **state)
{
    struct {
        quipu_call_options call;
        int64_t newer;
    } call = {QUIPU_CALL_OPTIONS_INIT, 0};
    quipu_store *store = *state;
    quipu_history *history = NULL;

    st_create(store, "k");
    call.call.struct_size = sizeof(call);
    T_OK(quipu_session_get(store, K, NULL, &call.call, &history, NULL));
    quipu_free(history);
    call.newer = 1;
    T_STATUS(quipu_session_get(store, K, NULL, &call.call, &history, NULL), QUIPU_UNSUPPORTED);
}

static void store_in_memory_works(void **state)
{
    quipu_store *store = st_open(":memory:");

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 5);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 5);
    quipu_free(history);
    T_STATUS(st_get_status(store, "ghost"), QUIPU_NOT_FOUND);
    assert_int_equal(st_append(store, "k", "on"), 6);
    quipu_close(store);
}

static void tenants_do_not_see_each_other(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_memory memory = {.kind = QUIPU_OBSERVATION, .session_key = K, .content = QUIPU_STR("x")};
    quipu_memory_list *list = NULL;
    quipu_session_page *page = NULL;
    char path[T_PATH_MAX];
    quipu_store *one = st_open_new(NULL, path);
    quipu_store *two = NULL;

    (void)state;
    options.tenant = QUIPU_STR("two");
    T_OK(quipu_open(path, &options, &two, NULL));
    st_create(one, "k");
    st_append_many(one, "k", 2);
    T_OK(t_memory_save(one, &memory, NULL, NULL, NULL));
    T_STATUS(st_get_status(two, "k"), QUIPU_NOT_FOUND);
    st_create(two, "k");
    quipu_history *history = st_get(two, "k", NULL);
    assert_int_equal(history->messages.count, 0);
    quipu_free(history);
    T_OK(t_memory_list(two, QUIPU_OBSERVATION, K, 0, NULL, &list, NULL));
    assert_int_equal(list->memories.count, 0);
    quipu_free(list);
    T_OK(quipu_session_list(two, NULL, NULL, &page, NULL));
    assert_int_equal(page->sessions.count, 1);
    quipu_free(page);
    T_OK(quipu_session_delete(two, K, NULL, NULL, NULL, NULL));
    T_STATUS(st_get_status(one, "k"), QUIPU_OK);
    quipu_close(two);
    quipu_close(one);
    options.tenant = QUIPU_STR("\xff");
    T_STATUS(quipu_open(path, &options, &two, NULL), QUIPU_INVALID);
}

static void read_only_store_reads_and_refuses_to_write(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_session_new values = st_values("l");
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 2);
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &store, &err));
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL, &err),
             QUIPU_MISUSE);
    T_STATUS(quipu_session_delete(store, K, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    values.key = K;
    T_OK(t_session_reuse(store, &values, NULL, NULL, NULL, &err));
    quipu_close(store);
}

static void store_file_is_for_its_user_only(void **state)
{
    char path[T_PATH_MAX];
    struct stat info;

    (void)state;
    T_SQLITE_ONLY("a server's files are its own");
    quipu_store *store = st_open_new(NULL, path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    quipu_close(store);
}

/* ---- deadlines and cancellation ---------------------------------------------------------------
 */

static void writer_answers_busy_at_its_deadline_and_reads_go_on(void **state)
{
    T_NOT_SERVED("it looks at the file");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    ent_db *other = et_lock(path);
    call.deadline_ms = 20;
    T_STATUS(
        quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, &call, NULL, &err),
        QUIPU_BUSY);
    assert_non_null(strstr(err.message, "\"k\""));
    assert_null(strstr(err.message, "locked"));
    T_STATUS(st_get_status(store, "k"), QUIPU_OK);
    et_unlock(other);
    assert_int_equal(st_append(store, "k", "now"), 1);
    quipu_close(store);
}

typedef struct waiter {
    quipu_store *store;
    quipu_cancel *cancel;
    int32_t deadline_ms;
    const char *text;
    quipu_status status;
} waiter;

static void *waiter_run(void *arg)
{
    waiter *self = arg;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, self->text);

    call.cancel = self->cancel;
    call.deadline_ms = self->deadline_ms;
    self->status = quipu_message_append(self->store, K, quipu_messages_of(&message, 1), NULL, &call,
                                        NULL, NULL);
    return NULL;
}

/* One caller leads and waits for the file, others wait behind it: each gives up for its own reason,
 * and the patient one succeeds. */
static void waiters_give_up_each_for_its_own_reason(void **state)
{
    T_NOT_SERVED("it looks at the file");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_cancel *cancels[2] = {quipu_cancel_new(), quipu_cancel_new()};
    waiter waiters[4] = {{store, cancels[0], -1, "cancelled", QUIPU_OK},
                         {store, NULL, -1, "patient", QUIPU_OK},
                         {store, NULL, 40, "hasty", QUIPU_OK},
                         {store, cancels[1], -1, "cancelled too", QUIPU_OK}};
    pthread_t threads[4];

    (void)state;
    st_create(store, "k");
    ent_db *other = et_lock(path);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, waiter_run, &waiters[i]), 0);
        st_nap();
    }
    quipu_cancel_set(cancels[0]);
    quipu_cancel_set(cancels[1]);
    for (size_t i = 0; i < 4; i++) {
        if (i != 1) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
    }
    et_unlock(other);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    T_STATUS(waiters[0].status, QUIPU_CANCELLED);
    T_STATUS(waiters[1].status, QUIPU_OK);
    T_STATUS(waiters[2].status, QUIPU_BUSY);
    T_STATUS(waiters[3].status, QUIPU_CANCELLED);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 1);
    T_STR(quipu_message_at(history->messages, 0)->content, "patient");
    quipu_free(history);
    quipu_close(store);
    quipu_free(cancels[0]);
    quipu_free(cancels[1]);
}

static void leader_that_gives_up_at_its_deadline_hands_the_lead_on(void **state)
{
    T_NOT_SERVED("it looks at the file");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    waiter waiters[3] = {{store, NULL, 100, "leads first", QUIPU_OK},
                         {store, NULL, 150, "leads then", QUIPU_OK},
                         {store, NULL, -1, "patient", QUIPU_OK}};
    pthread_t threads[3];

    (void)state;
    st_create(store, "k");
    ent_db *other = et_lock(path);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, waiter_run, &waiters[i]), 0);
        st_nap();
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        T_STATUS(waiters[i].status, QUIPU_BUSY);
    }
    et_unlock(other);
    assert_int_equal(pthread_join(threads[2], NULL), 0);
    T_STATUS(waiters[2].status, QUIPU_OK);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
    quipu_close(store);
}

/* Runs while an export holds the only reading connection. */
typedef struct crowd {
    quipu_store *store;
    quipu_status late;      /* of a reader with a deadline */
    quipu_status cancelled; /* of one that is cancelled while it waits */
    quipu_status writer;
    bool done;
} crowd;

static void *crowd_cancel(void *arg)
{
    st_nap();
    quipu_cancel_set(arg);
    return NULL;
}

static quipu_status crowd_write(void *ctx, const void *bytes, size_t n)
{
    crowd *self = ctx;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_history *history = NULL;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    pthread_t thread;

    (void)bytes;
    (void)n;
    if (self->done) {
        return QUIPU_OK;
    }
    self->done = true;
    call.deadline_ms = 20;
    self->late = quipu_session_get(self->store, K, NULL, &call, &history, NULL);
    call.deadline_ms = -1;
    call.cancel = quipu_cancel_new();
    if (pthread_create(&thread, NULL, crowd_cancel, call.cancel) != 0) {
        return QUIPU_NOMEM;
    }
    self->cancelled = quipu_session_get(self->store, K, NULL, &call, &history, NULL);
    (void)pthread_join(thread, NULL);
    quipu_free(call.cancel);
    self->writer = quipu_message_append(self->store, K, quipu_messages_of(&message, 1), NULL, NULL,
                                        NULL, NULL);
    return QUIPU_OK;
}

static void reader_without_a_connection_waits_no_longer_than_its_deadline(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error err = {0};
    quipu_stats stats = QUIPU_STATS_INIT;

    (void)state;
    options.readers_max = 1;
    quipu_store *store = st_open_new(&options, NULL);
    crowd self = {.store = store};
    st_create(store, "k");
    T_OK(quipu_store_export(store, NULL, crowd_write, &self, NULL, NULL, &err));
    T_STATUS(self.late, QUIPU_BUSY);
    T_STATUS(self.cancelled, QUIPU_CANCELLED);
    T_STATUS(self.writer, QUIPU_OK);
    T_STATUS(st_get_status(store, "k"), QUIPU_OK);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_int_equal(stats.readers, 1);
    quipu_close(store);
}

static void call_with_a_set_flag_does_nothing(void **state)
{
    quipu_store *store = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_session_new values = st_values("k");
    quipu_history *history = NULL;

    call.cancel = quipu_cancel_new();
    quipu_cancel_set(call.cancel);
    T_STATUS(quipu_session_create(store, &values, &call, NULL, NULL), QUIPU_CANCELLED);
    T_STATUS(quipu_session_get(store, K, NULL, &call, &history, NULL), QUIPU_CANCELLED);
    T_STATUS(quipu_store_sweep(store, &call, NULL, NULL), QUIPU_CANCELLED);
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    quipu_free(call.cancel);
    quipu_free(NULL);
    quipu_cancel_set(NULL);
}

static void senseless_calls_are_misuse(void **state)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_history *history = NULL;

    call.deadline_ms = -2;
    T_STATUS(quipu_session_get(*state, K, NULL, &call, &history, NULL), QUIPU_MISUSE);
    call = (quipu_call_options){.struct_size = 2};
    T_STATUS(quipu_session_get(*state, K, NULL, &call, &history, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_session_get(NULL, K, NULL, NULL, &history, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_session_create(*state, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_session_create(NULL, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
}

/* ---- fork(2) ----------------------------------------------------------------------------------
 */

static void forked_child_must_open_its_own_store(void **state)
{
    quipu_store *store = *state;
    int how = 0;

    st_create(store, "k");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "x");
        quipu_history *history = NULL;
        quipu_error err = {0};
        bool right = quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL,
                                          NULL, &err) == QUIPU_MISUSE &&
                     strstr(err.message, "fork") != NULL &&
                     quipu_session_get(store, K, NULL, NULL, &history, NULL) == QUIPU_MISUSE &&
                     quipu_store_sweep(store, NULL, NULL, NULL) == QUIPU_MISUSE;
        quipu_close(store);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(st_append(store, "k", "the parent goes on"), 1);
}

#define FORKS 8

/* A thread that appends until it is asked to end. */
typedef struct busy_parent {
    quipu_store *store;
    atomic_bool over;
    int64_t count; /* of its messages */
    bool failed;
} busy_parent;

/* Outside of the test's own thread: it reports instead of failing. */
static bool appends(quipu_store *store, quipu_str key)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_error err = {0};
    const bool right = quipu_message_append(store, key, quipu_messages_of(&message, 1), NULL, NULL,
                                            NULL, &err) == QUIPU_OK;

    if (!right) {
        (void)fprintf(stderr, "append: %s\n", err.message);
    }
    return right;
}

static void *write_until_over(void *arg)
{
    busy_parent *self = arg;

    while (!atomic_load(&self->over) && !self->failed) {
        self->failed = !appends(self->store, QUIPU_STR("parent"));
        self->count++;
    }
    return NULL;
}

/* The child ends with its store open, like one that is killed. */
static void append_in_a_child(const char *uri)
{
    int how = 0;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *store = NULL;
        _exit(quipu_open(uri, NULL, &store, NULL) == QUIPU_OK && appends(store, K) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
}

static void child_of_a_writing_parent_appends_to_a_store_of_its_own(void **state)
{
    char uri[T_PATH_MAX];
    busy_parent parent = {.store = st_open_new(NULL, uri)};
    quipu_history *history;
    pthread_t thread;

    (void)state;
    st_create(parent.store, "k");
    st_create(parent.store, "parent");
    assert_int_equal(pthread_create(&thread, NULL, write_until_over, &parent), 0);
    for (int i = 0; i < FORKS; i++) {
        append_in_a_child(uri);
    }
    atomic_store(&parent.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(parent.failed);
    quipu_close(parent.store);
    parent.store = st_open(uri);
    history = st_get(parent.store, "k", NULL);
    assert_int_equal(history->messages.count, FORKS);
    quipu_free(history);
    history = st_get(parent.store, "parent", NULL);
    assert_int_equal(history->messages.count, parent.count);
    quipu_free(history);
    quipu_close(parent.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_keeps_what_it_was_given_when_it_is_opened_again),
        cmocka_unit_test(closing_folds_the_log_into_the_file),
        cmocka_unit_test(strange_uris_are_refused),
        cmocka_unit_test(open_options_hold_at_their_edges),
        ST_TEST(options_of_a_newer_program_pass_only_when_they_ask_for_nothing_new),
        cmocka_unit_test(store_in_memory_works),
        cmocka_unit_test(tenants_do_not_see_each_other),
        cmocka_unit_test(read_only_store_reads_and_refuses_to_write),
        cmocka_unit_test(store_file_is_for_its_user_only),
        cmocka_unit_test(writer_answers_busy_at_its_deadline_and_reads_go_on),
        cmocka_unit_test(waiters_give_up_each_for_its_own_reason),
        cmocka_unit_test(leader_that_gives_up_at_its_deadline_hands_the_lead_on),
        cmocka_unit_test(reader_without_a_connection_waits_no_longer_than_its_deadline),
        ST_TEST(call_with_a_set_flag_does_nothing),
        ST_TEST(senseless_calls_are_misuse),
        ST_TEST(forked_child_must_open_its_own_store),
        cmocka_unit_test(child_of_a_writing_parent_appends_to_a_store_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
