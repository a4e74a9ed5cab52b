/* Every I/O call failed, once and from then on, in every writing call of the store: the right
 * error, nothing half done, another writer gets in at once, and the call itself works when the disk
 * does. An unknown outcome is one of both, and a repeat settles it. */
#include "contract/store_t.h"
#include "crash/faultvfs.h"
#include "crash/model.h"

#define K QUIPU_STR("k")
#define AT_ONCE_MS 2000 /* far below the default deadline: nobody may hold a lock */

typedef struct fault_op {
    const char *name;
    void (*prepare)(quipu_store *store); /* with a disk that works */
    quipu_status (*run)(quipu_store *store, quipu_error *err);
    bool (*done)(quipu_store *store); /* wholly done; fails the test when half done */
} fault_op;

static void fault_use_vfs(void)
{
    faultvfs_install();
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
}

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
    int64_t count = (int64_t)history->message_count;
    quipu_history_free(history);
    return count;
}

static int64_t fault_memories(quipu_store *store)
{
    quipu_memory_list *list = NULL;

    T_OK(quipu_memory_list_get(store, QUIPU_OBSERVATION, K, 0, NULL, &list, NULL));
    int64_t count = (int64_t)list->count;
    quipu_memory_list_free(list);
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
    T_OK(quipu_message_append(store, K, messages, 2, NULL, NULL, NULL, NULL));
}

static quipu_status run_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];
    quipu_history *history = NULL;

    fault_messages(messages);
    values.messages = messages;
    values.message_count = 2;
    quipu_status status = quipu_session_create(store, &values, NULL, &history, err);
    assert_int_equal(status == QUIPU_OK, history != NULL);
    quipu_history_free(history);
    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static quipu_status run_get_or_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];

    fault_messages(messages);
    values.messages = messages;
    values.message_count = 2;
    return quipu_session_get_or_create(store, &values, NULL, NULL, NULL, err);
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
    quipu_appended appended = {0};

    fault_messages(messages);
    quipu_status status = quipu_message_append(store, K, messages, 2, NULL, NULL, &appended, err);
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
    quipu_status status = quipu_message_append(store, K, &message, 1, NULL, NULL, NULL, err);
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
    bool done = history->session.model.p != NULL;

    assert_int_equal(history->session.metadata.text.p != NULL, done);
    assert_int_equal(history->session.revision > 0, done);
    quipu_history_free(history);
    return done;
}

static void prepare_full_session(quipu_store *store)
{
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = K, .content = QUIPU_STR("seen")};

    prepare_messages(store);
    T_OK(quipu_memory_save(store, &memory, NULL, NULL, NULL));
}

static quipu_status run_delete(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, K, NULL, err);
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
    quipu_status status = quipu_memory_save(store, &memory, NULL, NULL, err);

    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_memory_save(quipu_store *store)
{
    return fault_memories(store) == 1;
}

static quipu_status run_memory_delete(quipu_store *store, quipu_error *err)
{
    return quipu_memory_delete_session(store, QUIPU_OBSERVATION, K, NULL, NULL, err);
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
    values.messages = messages;
    values.message_count = 2;
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
    quipu_status status = quipu_session_fork(store, K, 2, &values, NULL, err);

    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_fork(quipu_store *store)
{
    if (st_get_status(store, "fork") != QUIPU_OK) {
        return false;
    }
    quipu_history *history = st_get(store, "fork", NULL);
    st_check_whole(history);
    assert_int_equal(history->message_count, 2);
    quipu_history_free(history);
    return true;
}

static void prepare_forked(quipu_store *store)
{
    quipu_session_new values = st_values("fork");

    prepare_full_session(store);
    T_OK(quipu_session_fork(store, K, 1, &values, NULL, NULL));
}

/* What the fork shares must outlive the delete, whatever fails. */
static bool done_delete_forked(quipu_store *store)
{
    quipu_history *history = st_get(store, "fork", NULL);

    assert_int_equal(history->message_count, 1);
    quipu_history_free(history);
    return done_delete(store);
}

static const fault_op fault_ops[] = {
    {"create", prepare_nothing, run_create, done_two},
    {"get_or_create", prepare_nothing, run_get_or_create, done_two},
    {"append", prepare_session, run_append, done_two},
    {"append_large", prepare_session, run_append_large, done_one},
    {"update", prepare_session, run_update, done_update},
    {"delete", prepare_full_session, run_delete, done_delete},
    {"fork", prepare_messages, run_fork, done_fork},
    {"delete_forked", prepare_forked, run_delete, done_delete_forked},
    {"memory_save", prepare_session, run_memory_save, done_memory_save},
    {"memory_delete", prepare_full_session, run_memory_delete, done_memory_delete},
    {"renew", prepare_expired, run_create, done_two},
    {"sweep", prepare_expired, run_sweep, done_sweep},
};

static int64_t fault_refused; /* calls of one sweep that failed, */
static int64_t fault_unknown; /* and of those the ones with an unknown outcome */

/* ---- the sweep --------------------------------------------------------------------------------
 */

static void fault_check_status(const fault_op *op, quipu_status status, const quipu_error *err,
                               faultvfs_effect effect)
{
    bool right = status == QUIPU_IO || status == QUIPU_UNKNOWN ||
                 (status == QUIPU_FULL && effect == FAULTVFS_ENOSPC);

    if (!right || err->status != (int)status) {
        fail_msg("%s: %s (%s)", op->name, quipu_status_name(status), err->message);
    }
}

/* Somebody else opens the file and writes while the store that failed is still open. */
static void fault_other_writer(const char *path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *other = NULL;
    quipu_error err = {0};

    options.deadline_ms = AT_ONCE_MS;
    options.durability = QUIPU_RELAXED; /* not what is tested: spare its syncs */
    if (quipu_open(path, &options, &other, &err) != QUIPU_OK) {
        fail_msg("the other writer cannot open: %s", err.message);
    }
    st_create(other, "other");
    assert_int_equal(st_append(other, "other", "at once"), 1);
    quipu_close(other);
}

/* One run with the Nth operation failing; whether a fault fired. */
static bool fault_once(const fault_op *op, const char *original, faultvfs_plan plan)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};

    t_path(t_tmpdir(), "store.db", path);
    t_file_copy(original, path);
    quipu_store *store = st_open(path);
    faultvfs_arm(plan);
    quipu_status status = op->run(store, &err);
    bool fired = faultvfs_fired() > 0;
    faultvfs_arm((faultvfs_plan){0});
    if (status != QUIPU_OK) {
        assert_true(fired);
        fault_check_status(op, status, &err, plan.effect);
        fault_refused++;
        fault_unknown += status == QUIPU_UNKNOWN;
    }
    fault_other_writer(path);
    bool done = op->done(store);
    assert_true(status == QUIPU_UNKNOWN || done == (status == QUIPU_OK));
    if (status != QUIPU_OK) {
        T_OK(op->run(store, &err));
        assert_true(op->done(store));
    }
    quipu_close(store);
    model_sound(path);
    return fired;
}

static int64_t fault_sweep(const fault_op *op, const char *original, faultvfs_plan plan)
{
    int64_t points = 0;
    int64_t step = 1;

    for (plan.countdown = 1; fault_once(op, original, plan); plan.countdown += step) {
        points++;
        /* A long series of equal operations is sampled. */
        step = plan.countdown < 40 ? 1 : plan.countdown * t_count(100, 2) / 100 + 1;
    }
    return points;
}

static void every_call_survives_every_failed_operation(void **state)
{
    static const faultvfs_effect effects[] = {FAULTVFS_EIO, FAULTVFS_ENOSPC, FAULTVFS_TORN};

    (void)state;
    for (size_t i = 0; i < sizeof(fault_ops) / sizeof(fault_ops[0]); i++) {
        const fault_op *op = &fault_ops[i];
        char original[T_PATH_MAX];
        int64_t points = 0;

        fault_refused = fault_unknown = 0;
        quipu_store *store = st_open_new(NULL, original);
        op->prepare(store);
        quipu_close(store);
        for (size_t e = 0; e < sizeof(effects) / sizeof(effects[0]); e++) {
            const unsigned kinds = effects[e] == FAULTVFS_EIO ? FAULTVFS_ANY : 1u << FAULTVFS_WRITE;
            points += fault_sweep(op, original, (faultvfs_plan){kinds, 1, false, effects[e]});
            points += fault_sweep(op, original, (faultvfs_plan){kinds, 1, true, effects[e]});
        }
        print_message("%s: %lld points fired, %lld calls failed, %lld of them unknown\n", op->name,
                      (long long)points, (long long)fault_refused, (long long)fault_unknown);
        assert_true(points > 0 && fault_refused > 0);
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
            fault_other_writer(path);
            model_sound(path);
            points += fired;
        }
    }
    print_message("open: %lld points fired\n", (long long)points);
    assert_true(points > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_survives_every_failed_operation),
        cmocka_unit_test(open_survives_every_failed_operation),
    };

    fault_use_vfs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
