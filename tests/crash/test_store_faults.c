/* Every I/O call failed, once and from then on, in every writing call on sessions, messages and
 * memories, and in opening; crash/store_fault_t.h says what must hold. The calls that change a
 * history or maintain the store are in test_store_faults_maintain.c. */
#include "crash/store_fault_t.h"
#include "lib/short.h"

#define K QUIPU_STR("k")

/* ---- the calls --------------------------------------------------------------------------------
 */

/* The messages of session k, checked; -1: no such session. */
static int64_t fault_count(quipu_store *store)
{
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, K, NULL, NULL, &history, NULL);

    if (status != QUIPU_OK) {
        assert_true(status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED);
        return -1;
    }
    st_check_whole(history);
    int64_t count = (int64_t)history->messages.count;
    quipu_free(history);
    return count;
}

static int64_t fault_memories(quipu_store *store)
{
    quipu_memory_list *list = NULL;

    T_OK(t_memory_list(store, QUIPU_OBSERVATION, K, 0, NULL, &list, NULL));
    int64_t count = (int64_t)list->memories.count;
    quipu_free(list);
    return count;
}

static void fault_messages(quipu_message ret[2])
{
    ret[0] = st_says(QUIPU_ROLE_USER, "question");
    ret[0].event_id = QUIPU_STR("event one");
    ret[1] = st_says(QUIPU_ROLE_ASSISTANT, "answer");
    ret[1].event_id = QUIPU_STR("event two");
}

static void prepare_nothing(quipu_store *store)
{
    (void)store;
}

static void prepare_session(quipu_store *store)
{
    st_create(store, "k");
}

static void prepare_messages(quipu_store *store)
{
    quipu_message messages[2];

    st_create(store, "k");
    fault_messages(messages);
    T_OK(quipu_message_append(store, K, quipu_messages_of(messages, 2), NULL, NULL, NULL, NULL));
}

static quipu_status run_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];
    quipu_history *history = NULL;

    fault_messages(messages);
    values.messages = quipu_messages_of(messages, 2);
    quipu_status status = quipu_session_create(store, &values, NULL, &history, err);
    assert_int_equal(status == QUIPU_OK, history != NULL);
    quipu_free(history);
    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static quipu_status run_get_or_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];

    fault_messages(messages);
    values.messages = quipu_messages_of(messages, 2);
    return t_session_reuse(store, &values, NULL, NULL, NULL, err);
}

static bool done_two(quipu_store *store)
{
    int64_t count = fault_count(store);

    assert_true(count <= 0 || count == 2);
    return count == 2;
}

static quipu_status run_append(quipu_store *store, quipu_error *err)
{
    quipu_message messages[2];
    quipu_appended appended = QUIPU_APPENDED_INIT;

    fault_messages(messages);
    quipu_status status =
        quipu_message_append(store, K, quipu_messages_of(messages, 2), NULL, NULL, &appended, err);
    assert_int_equal(appended.first_seq, status == QUIPU_OK ? 1 : 0);
    return status;
}

/* So large that its commit makes SQLite move the whole log into the file. */
static quipu_status run_append_large(quipu_store *store, quipu_error *err)
{
    enum { SIZE = 5 << 20 };
    char *text = malloc(SIZE);
    quipu_message message = {
        .role = QUIPU_ROLE_USER, .event_id = QUIPU_STR("large"), .content = {text, SIZE}};

    assert_non_null(text);
    memset(text, 'x', SIZE);
    quipu_status status =
        quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL, err);
    free(text);
    return status;
}

static bool done_one(quipu_store *store)
{
    int64_t count = fault_count(store);

    assert_true(count == 0 || count == 1);
    return count == 1;
}

static quipu_status run_update(quipu_store *store, quipu_error *err)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_MODEL | QUIPU_SET_METADATA;
    patch.model = QUIPU_STR("new");
    patch.metadata.text = QUIPU_STR("{}");
    return quipu_session_update(store, K, &patch, NULL, NULL, err);
}

static bool done_update(quipu_store *store)
{
    quipu_history *history = st_get(store, "k", NULL);
    bool done = history->session->model.p != NULL;

    assert_int_equal(history->session->metadata.text.p != NULL, done);
    assert_int_equal(history->session->revision > 0, done);
    quipu_free(history);
    return done;
}

static void prepare_full_session(quipu_store *store)
{
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = K, .content = QUIPU_STR("seen")};

    prepare_messages(store);
    T_OK(t_memory_save(store, &memory, NULL, NULL, NULL));
}

static quipu_status run_delete(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, K, NULL, NULL, NULL, err);
}

static bool done_delete(quipu_store *store)
{
    int64_t count = fault_count(store);

    assert_true(count == -1 || count == 2);
    assert_int_equal(fault_memories(store), count == -1 ? 0 : 1);
    return count == -1;
}

static quipu_status run_memory_save(quipu_store *store, quipu_error *err)
{
    quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                           .id = {{1, 2, 3}},
                           .session_key = K,
                           .content = QUIPU_STR("seen")};
    quipu_status status = t_memory_save(store, &memory, NULL, NULL, err);

    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_memory_save(quipu_store *store)
{
    return fault_memories(store) == 1;
}

static quipu_status run_memory_delete(quipu_store *store, quipu_error *err)
{
    return t_memory_delete_session(store, QUIPU_OBSERVATION, K, NULL, NULL, err);
}

static bool done_memory_delete(quipu_store *store)
{
    return fault_memories(store) == 0;
}

static void prepare_expired(quipu_store *store)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];

    fault_messages(messages);
    values.ttl_ms = 1;
    values.messages = quipu_messages_of(messages, 2);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_nap();
}

static quipu_status run_sweep(quipu_store *store, quipu_error *err)
{
    return quipu_store_sweep(store, NULL, NULL, err);
}

static bool done_sweep(quipu_store *store)
{
    return st_get_status(store, "k") == QUIPU_NOT_FOUND;
}

static quipu_status run_fork(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("fork");
    quipu_status status = quipu_session_fork(store, K, 2, &values, NULL, NULL, err);

    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_fork(quipu_store *store)
{
    if (st_get_status(store, "fork") != QUIPU_OK) {
        return false;
    }
    quipu_history *history = st_get(store, "fork", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
    return true;
}

static void prepare_forked(quipu_store *store)
{
    quipu_session_new values = st_values("fork");

    prepare_full_session(store);
    T_OK(quipu_session_fork(store, K, 1, &values, NULL, NULL, NULL));
}

/* What the fork shares must outlive the delete, whatever fails. */
static bool done_delete_forked(quipu_store *store)
{
    quipu_history *history = st_get(store, "fork", NULL);

    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
    return done_delete(store);
}

static const fault_op fault_ops[] = {
    {.name = "create", .prepare = prepare_nothing, .run = run_create, .done = done_two},
    {.name = "get_or_create",
     .prepare = prepare_nothing,
     .run = run_get_or_create,
     .done = done_two},
    {.name = "append", .prepare = prepare_session, .run = run_append, .done = done_two},
    {.name = "append_large",
     .prepare = prepare_session,
     .run = run_append_large,
     .done = done_one,
     .bulky = true},
    {.name = "update", .prepare = prepare_session, .run = run_update, .done = done_update},
    {.name = "delete", .prepare = prepare_full_session, .run = run_delete, .done = done_delete},
    {.name = "fork", .prepare = prepare_messages, .run = run_fork, .done = done_fork},
    {.name = "delete_forked",
     .prepare = prepare_forked,
     .run = run_delete,
     .done = done_delete_forked},
    {.name = "memory_save",
     .prepare = prepare_session,
     .run = run_memory_save,
     .done = done_memory_save},
    {.name = "memory_delete",
     .prepare = prepare_full_session,
     .run = run_memory_delete,
     .done = done_memory_delete},
    {.name = "renew", .prepare = prepare_expired, .run = run_create, .done = done_two},
    {.name = "sweep", .prepare = prepare_expired, .run = run_sweep, .done = done_sweep},
};

static void every_call_survives_every_failed_operation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fault_ops) / sizeof(fault_ops[0]); i++) {
        fault_every_point(&fault_ops[i]);
    }
}

/* Opening itself, on a new file. */
static void open_survives_every_failed_operation(void **state)
{
    int64_t points = 0;

    (void)state;
    for (int for_good = 0; for_good < 2; for_good++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            char path[T_PATH_MAX];
            quipu_store *store = NULL;
            quipu_error err = {0};

            t_path(t_tmpdir(), "store.db", path);
            faultvfs_arm((faultvfs_plan){FAULTVFS_ANY, n, for_good == 1, FAULTVFS_EIO});
            quipu_status status = quipu_open(path, NULL, &store, &err);
            fired = faultvfs_fired() > 0;
            faultvfs_arm((faultvfs_plan){0});
            assert_int_equal(status == QUIPU_OK, store != NULL);
            assert_true(status == QUIPU_OK || status == QUIPU_IO);
            quipu_close(store);
            fault_other_writer(path, false);
            model_sound(path);
            points += fired;
        }
    }
    print_message("open: %lld points fired\n", (long long)points);
    assert_true(points > 0);
}

static int64_t faults_count(quipu_store *store)
{
    quipu_history *history = st_get(store, "k", NULL);
    const int64_t count = (int64_t)history->messages.count;

    quipu_free(history);
    return count;
}

/* A file and its log as a crash leaves them: a copy of both while a store has them open. */
static void faults_copy_crashed(const char *path, const char *to)
{
    char log[T_PATH_MAX + 8];
    char log_to[T_PATH_MAX + 8];

    (void)snprintf(log, sizeof(log), "%s-wal", path);
    (void)snprintf(log_to, sizeof(log_to), "%s-wal", to);
    t_file_copy(path, to);
    t_file_copy(log, log_to);
}

/* The log holds messages that are nowhere else. An opening that could not read it fails; it does
 * not take what it could not read for the log's end. */
static void recovery_that_cannot_read_the_log_loses_nothing(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *writer = st_open_new(NULL, path);
    int64_t points = 0;
    bool fired = true;

    (void)state;
    st_create(writer, "k");
    st_append_many(writer, "k", 6);
    for (int64_t n = 1; fired; n++) {
        char crashed[T_PATH_MAX];
        quipu_store *store = NULL;
        quipu_error err = {0};

        t_path(t_tmpdir(), "crashed.db", crashed);
        faults_copy_crashed(path, crashed);
        faultvfs_arm((faultvfs_plan){1u << FAULTVFS_READ, n, false, FAULTVFS_EIO});
        quipu_status status = quipu_open(crashed, NULL, &store, &err);
        fired = faultvfs_fired() > 0;
        faultvfs_arm((faultvfs_plan){0});
        if (status != QUIPU_OK) {
            assert_int_equal(status, QUIPU_IO);
            store = st_open(crashed);
        }
        assert_int_equal(faults_count(store), 6);
        mt_clean(store);
        quipu_close(store);
        points += fired;
    }
    quipu_close(writer);
    print_message("recovery: %lld points fired\n", (long long)points);
    assert_true(points > 0);
}

/* Another program empties the log and begins it anew while this store is open. A read that fails is
 * an error of the disk then, too, and no damage. */
static void a_read_that_fails_in_a_log_begun_anew_is_no_damage(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    int64_t points = 0;
    bool fired = true;

    (void)state;
    st_create(store, "k");
    for (int64_t n = 1; fired; n++) {
        quipu_store *other = st_open(path);
        quipu_history *history = NULL;
        quipu_error err = {0};

        mt_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
        assert_int_equal(st_append(other, "k", "of another program"), n);
        quipu_close(other);
        faultvfs_arm((faultvfs_plan){1u << FAULTVFS_READ, n, false, FAULTVFS_EIO});
        quipu_status status = quipu_session_get(store, QUIPU_STR("k"), NULL, NULL, &history, &err);
        fired = faultvfs_fired() > 0;
        faultvfs_arm((faultvfs_plan){0});
        if (status != QUIPU_OK && status != QUIPU_IO) {
            fail_msg("%s (%s)", quipu_status_name(status), err.message);
        }
        quipu_free(history);
        assert_int_equal(faults_count(store), n);
        points += fired;
    }
    quipu_close(store);
    print_message("a log begun anew: %lld points fired\n", (long long)points);
    assert_true(points > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_survives_every_failed_operation),
        cmocka_unit_test(open_survives_every_failed_operation),
        cmocka_unit_test(recovery_that_cannot_read_the_log_loses_nothing),
        cmocka_unit_test(a_read_that_fails_in_a_log_begun_anew_is_no_damage),
    };

    fault_use_vfs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
