/* Many threads on one store: every append is stored once, in order, without gaps and without an
 * error; racing creators get one session; readers see whole prefixes. Runs under TSan. */
#include "contract/store_t.h"
#include "lib/short.h"

#include <pthread.h>

#include "store/store.h"

#define THREADS 8
#define RACERS 10

typedef struct worker {
    quipu_store *store;
    const char *key;
    int number;
    int count;
    int64_t failures;
    quipu_error err; /* of the first failure */
} worker;

static void worker_failed(worker *self, const quipu_error *err)
{
    if (self->failures++ == 0) {
        self->err = *err;
    }
}

static void *worker_append(void *arg)
{
    worker *self = arg;
    char text[32];

    for (int i = 0; i < self->count; i++) {
        quipu_message message;
        quipu_error err = {0};
        snprintf(text, sizeof(text), "%d:%d", self->number, i);
        message = st_says(QUIPU_ROLE_USER, text);
        if (quipu_message_append(self->store, quipu_cstr(self->key), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &err) != QUIPU_OK) {
            worker_failed(self, &err);
        }
    }
    return NULL;
}

static void *worker_read(void *arg)
{
    worker *self = arg;
    int64_t seen = 0;

    for (int i = 0; i < self->count; i++) {
        quipu_history *history = NULL;
        quipu_error err = {0};
        if (quipu_session_get(self->store, quipu_cstr(self->key), NULL, NULL, &history, &err) !=
            QUIPU_OK) {
            worker_failed(self, &err);
            continue;
        }
        /* Each read is one snapshot, and none is older than the one before. */
        if (history->session->message_count != (int64_t)history->messages.count ||
            history->session->message_count < seen) {
            snprintf(err.message, sizeof(err.message), "%zu messages, header says %lld, saw %lld",
                     history->messages.count, (long long)history->session->message_count,
                     (long long)seen);
            worker_failed(self, &err);
        }
        seen = history->session->message_count;
        quipu_free(history);
    }
    return NULL;
}

static void run_all(worker *workers, size_t n, void *(*run)(void *))
{
    pthread_t threads[64];

    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < n; i++) {
        if (workers[i].failures != 0) {
            fail_msg("thread %zu: %lld failures, first: %s", i, (long long)workers[i].failures,
                     workers[i].err.message);
        }
    }
}

/* Each thread's messages are there in its own order, none twice. */
static void check_order(const quipu_history *history, int threads, int count)
{
    int next[64] = {0};

    st_check_whole(history);
    assert_int_equal(history->messages.count, threads * count);
    for (size_t i = 0; i < history->messages.count; i++) {
        int thread = -1;
        int number = -1;
        assert_int_equal(
            sscanf(quipu_message_at(history->messages, i)->content.p, "%d:%d", &thread, &number),
            2);
        assert_true(thread >= 0 && thread < 64);
        assert_int_equal(number, next[thread]++);
    }
}

static void check_appends(const quipu_open_options *options, const char *uri)
{
    const int count = (int)t_count(60, 2000);
    quipu_store *store = NULL;
    worker workers[THREADS] = {{0}};

    if (uri != NULL) {
        T_OK(quipu_open(uri, options, &store, NULL));
    } else {
        store = st_open_new(options, NULL);
    }
    st_create(store, "one");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = store, .key = "one", .number = i, .count = count};
    }
    run_all(workers, THREADS, worker_append);
    quipu_history *history = st_get(store, "one", NULL);
    check_order(history, THREADS, count);
    assert_int_equal(history->session->revision, THREADS * count);
    quipu_free(history);
    quipu_close(store);
}

static void threads_append_to_one_session_without_gaps(void **state)
{
    (void)state;
    check_appends(NULL, NULL);
}

static void threads_share_a_store_in_memory(void **state)
{
    (void)state;
    check_appends(NULL, ":memory:");
}

static void threads_append_to_sessions_of_their_own(void **state)
{
    static const char *const keys[THREADS] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
    const int count = (int)t_count(60, 2000);
    quipu_store *store = st_open_new(NULL, NULL);
    worker workers[THREADS] = {{0}};

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        st_create(store, keys[i]);
        workers[i] = (worker){.store = store, .key = keys[i], .number = i, .count = count};
    }
    run_all(workers, THREADS, worker_append);
    for (int i = 0; i < THREADS; i++) {
        quipu_history *history = st_get(store, keys[i], NULL);
        check_order(history, 1, count);
        quipu_free(history);
    }
    quipu_close(store);
}

typedef struct mixed {
    worker writer;
    worker reader;
} mixed;

static void *mixed_writer(void *arg)
{
    return worker_append(&((mixed *)arg)->writer);
}

static void readers_see_whole_prefixes_while_writers_run(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    const int count = (int)t_count(30, 300);
    pthread_t threads[THREADS];
    mixed pairs[THREADS / 2] = {{{0}, {0}}};

    (void)state;
    options.readers_max = 2; /* fewer than readers: they wait for each other */
    quipu_store *store = st_open_new(&options, NULL);
    st_create(store, "one");
    for (int i = 0; i < THREADS / 2; i++) {
        pairs[i].writer = (worker){.store = store, .key = "one", .number = i, .count = count};
        pairs[i].reader = pairs[i].writer;
        assert_int_equal(pthread_create(&threads[2 * i], NULL, mixed_writer, &pairs[i]), 0);
        assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, worker_read, &pairs[i].reader),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < THREADS / 2; i++) {
        if (pairs[i].writer.failures + pairs[i].reader.failures != 0) {
            fail_msg("writer: %s, reader: %s", pairs[i].writer.err.message,
                     pairs[i].reader.err.message);
        }
    }
    quipu_history *history = st_get(store, "one", NULL);
    check_order(history, THREADS / 2, count);
    quipu_free(history);
    quipu_close(store);
}

typedef struct racer {
    quipu_store *store;
    quipu_status status;
    quipu_uuid uid;
    bool created;
} racer;

static void *racer_run(void *arg)
{
    racer *self = arg;
    quipu_session_new values = st_values("raced");
    quipu_history *history = NULL;

    self->status = t_session_reuse(self->store, &values, NULL, &history, &self->created, NULL);
    if (self->status == QUIPU_OK) {
        self->uid = history->session->uid;
    }
    quipu_free(history);
    return NULL;
}

static void of_racing_creators_one_creates_and_all_get_the_same(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    for (int round = 0; round < (int)t_count(5, 100); round++) {
        racer racers[RACERS] = {{0}};
        pthread_t threads[RACERS];
        int created = 0;
        for (int i = 0; i < RACERS; i++) {
            racers[i].store = store;
            assert_int_equal(pthread_create(&threads[i], NULL, racer_run, &racers[i]), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            T_OK(racers[i].status);
            created += racers[i].created;
            assert_memory_equal(&racers[i].uid, &racers[0].uid, sizeof(quipu_uuid));
        }
        assert_int_equal(created, 1);
        T_OK(quipu_session_delete(store, QUIPU_STR("raced"), NULL, NULL, NULL, NULL));
    }
    quipu_close(store);
}

static void *worker_compete(void *arg)
{
    worker *self = arg;

    /* Every thread tries to be the one that moves the revision on. */
    for (int done = 0; done < self->count;) {
        quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
        quipu_range header = QUIPU_RANGE_INIT;
        quipu_history *history = NULL;
        quipu_message message = st_says(QUIPU_ROLE_USER, "x");
        quipu_error err = {0};
        quipu_status status;
        header.flags = QUIPU_RANGE_HEADER;
        status =
            quipu_session_get(self->store, quipu_cstr(self->key), &header, NULL, &history, &err);
        if (status == QUIPU_OK) {
            options.expected_revision = history->session->revision;
            status =
                quipu_message_append(self->store, quipu_cstr(self->key),
                                     quipu_messages_of(&message, 1), &options, NULL, NULL, &err);
        }
        quipu_free(history);
        done += status == QUIPU_OK;
        if (status != QUIPU_OK && status != QUIPU_CONFLICT) {
            worker_failed(self, &err);
            return NULL;
        }
    }
    return NULL;
}

static void conflicts_fail_one_caller_and_not_its_group(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    worker workers[THREADS] = {{0}};
    const int count = (int)t_count(10, 200);

    (void)state;
    st_create(store, "one");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = store, .key = "one", .number = i, .count = count};
    }
    run_all(workers, THREADS, worker_compete);
    quipu_history *history = st_get(store, "one", NULL);
    st_check_whole(history);
    assert_int_equal(history->session->revision, THREADS * count);
    quipu_free(history);
    quipu_close(store);
}

static void *worker_same_ids(void *arg)
{
    worker *self = arg;
    char id[32];

    for (int i = 0; i < self->count; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "same");
        quipu_error err = {0};
        snprintf(id, sizeof(id), "event-%d", i);
        message.event_id = quipu_cstr(id);
        if (quipu_message_append(self->store, quipu_cstr(self->key), quipu_messages_of(&message, 1),
                                 NULL, NULL, NULL, &err) != QUIPU_OK) {
            worker_failed(self, &err);
        }
    }
    return NULL;
}

static void same_events_from_many_threads_are_stored_once(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    worker workers[THREADS] = {{0}};
    const int count = (int)t_count(20, 500);

    (void)state;
    st_create(store, "one");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = store, .key = "one", .number = i, .count = count};
    }
    run_all(workers, THREADS, worker_same_ids);
    quipu_history *history = st_get(store, "one", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, count);
    quipu_free(history);
    quipu_close(store);
}

/* ---- the greatest group -----------------------------------------------------------------------
 */

#define CROWD (QUIPU_GROUP_MAX + 2)

static void *crowd_append(void *arg)
{
    worker *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, "0:0");
    quipu_error err = {0};

    if (quipu_message_append(self->store, quipu_cstr(self->key), quipu_messages_of(&message, 1),
                             NULL, NULL, NULL, &err) != QUIPU_OK) {
        worker_failed(self, &err);
    }
    return NULL;
}

/* How many callers stand in the queue. */
static size_t crowd_waiting(quipu_store *store)
{
    size_t count = 0;

    qp_mutex_lock(&store->group.queue.mutex);
    for (const qp_write *write = store->group.queue.head; write != NULL; write = write->next) {
        count++;
    }
    qp_mutex_unlock(&store->group.queue.mutex);
    return count;
}

/* `count` callers that wait together behind another program's lock; gives what was counted. */
static quipu_stats crowd_run(size_t count)
{
    static worker workers[CROWD];
    static pthread_t threads[CROWD];
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_stats stats = QUIPU_STATS_INIT;

    st_create(store, "one");
    ent_db *other = et_lock(path);
    for (size_t i = 0; i < count; i++) {
        workers[i] = (worker){.store = store, .key = "one"};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_append, &workers[i]), 0);
    }
    while (crowd_waiting(store) < count - 1) { /* the first one leads */
        st_nap();
    }
    et_unlock(other);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failures, 0);
    }
    quipu_history *history = st_get(store, "one", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, count);
    quipu_free(history);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    quipu_close(store);
    return stats;
}

static void group_holds_its_maximum_and_one_more_waits_for_the_next(void **state)
{
    /* A server's BEGIN travels with the first statement: the first caller waits with its batch
     * made, and the others form the next one. */
    const size_t alone = t_pg() ? 1 : 0;
    quipu_stats stats = QUIPU_STATS_INIT;

    (void)state;
    atomic_store(&t_pg_calm, true); /* it counts commits */
    stats = crowd_run(alone + QUIPU_GROUP_MAX);
    assert_int_equal(stats.largest_commit, QUIPU_GROUP_MAX);
    assert_int_equal(stats.commits, 2 + alone); /* the first made the session */
    assert_int_equal(stats.commit_sizes[0], 1 + alone);
    assert_int_equal(stats.commit_sizes[QUIPU_COMMIT_SIZES - 1], 1);
    stats = crowd_run(alone + QUIPU_GROUP_MAX + 1);
    assert_true(stats.largest_commit <= QUIPU_GROUP_MAX);
    assert_true(stats.commits >=
                3); /* the session, and two batches, whichever caller is in the first */
    atomic_store(&t_pg_calm, false);
}

/* ---- one commit of many kinds -----------------------------------------------------------------
 */

typedef enum step_kind {
    STEP_APPEND = 1,
    STEP_UPDATE,
    STEP_FORK,
    STEP_DELETE,
    STEP_CREATE
} step_kind;

/* What one caller does, and the status that it must get. */
typedef struct step {
    step_kind kind;
    const char *key;
    int64_t expected_revision; /* -1: any */
    const char *event_id;      /* or NULL */
    quipu_status status;
    int64_t seq;
    int64_t revision;
    quipu_store *store;
    quipu_status reported;
    quipu_appended appended;
} step;

static void *step_run(void *arg)
{
    step *self = arg;
    quipu_str key = quipu_cstr(self->key);
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, "text");
    quipu_session_new values = st_values(self->kind == STEP_FORK ? "fork" : self->key);

    options.expected_revision = self->expected_revision;
    message.event_id = self->event_id != NULL ? quipu_cstr(self->event_id) : message.event_id;
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("other");
    self->appended = (quipu_appended)QUIPU_APPENDED_INIT;
    switch (self->kind) {
    case STEP_APPEND:
        self->reported = quipu_message_append(self->store, key, quipu_messages_of(&message, 1),
                                              &options, NULL, &self->appended, NULL);
        break;
    case STEP_UPDATE:
        self->reported =
            quipu_session_update(self->store, key, &patch, NULL, &self->appended.revision, NULL);
        break;
    case STEP_FORK:
        self->reported = quipu_session_fork(self->store, key, self->seq, &values, NULL, NULL, NULL);
        break;
    case STEP_DELETE:
        self->reported = quipu_session_delete(self->store, key, NULL, NULL, NULL, NULL);
        break;
    case STEP_CREATE:
        self->reported = quipu_session_create(self->store, &values, NULL, NULL, NULL);
        break;
    }
    return NULL;
}

/* Wait until the store has a leader and, with `behind`, another one than `last` at the end of the
 * queue; gives that one. */
static const void *step_wait(quipu_store *store, bool behind, const void *last)
{
    const void *tail = NULL;
    bool leading = false;

    do {
        st_nap();
        qp_mutex_lock(&store->group.queue.mutex);
        tail = store->group.queue.tail;
        leading = store->group.queue.led;
        qp_mutex_unlock(&store->group.queue.mutex);
    } while (!leading || (behind && tail == last));
    return tail;
}

static void step_check(const step *self, size_t number)
{
    if (self->reported != self->status) {
        fail_msg("step %zu: %s", number, quipu_status_name(self->reported));
    }
    if (self->kind == STEP_APPEND && self->reported == QUIPU_OK) {
        assert_int_equal(self->appended.first_seq, self->seq);
    }
    if (self->revision != 0) {
        assert_int_equal(self->appended.revision, self->revision);
    }
}

static void callers_of_one_commit_fare_as_one_after_another(void **state)
{
    step steps[] = {
        {.kind = STEP_APPEND,
         .key = "a",
         .expected_revision = -1,
         .event_id = "first",
         .seq = 1,
         .revision = 1},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = 1, .seq = 2, .revision = 2},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = 1, .status = QUIPU_CONFLICT},
        {.kind = STEP_APPEND, .key = "b", .expected_revision = -1, .seq = 1, .revision = 1},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = -1, .seq = 3, .revision = 3},
        {.kind = STEP_UPDATE, .key = "a", .expected_revision = -1, .revision = 4},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = 4, .seq = 4, .revision = 5},
        {.kind = STEP_APPEND,
         .key = "a",
         .expected_revision = -1,
         .event_id = "first",
         .seq = 1,
         .revision = 5},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = -1, .seq = 5, .revision = 6},
        {.kind = STEP_FORK, .key = "a", .expected_revision = -1, .seq = 5},
        {.kind = STEP_APPEND, .key = "fork", .expected_revision = -1, .seq = 6, .revision = 1},
        {.kind = STEP_APPEND, .key = "b", .expected_revision = -1, .seq = 2, .revision = 2},
        {.kind = STEP_DELETE, .key = "b", .expected_revision = -1},
        {.kind = STEP_APPEND, .key = "b", .expected_revision = -1, .status = QUIPU_NOT_FOUND},
        {.kind = STEP_CREATE, .key = "b", .expected_revision = -1},
        {.kind = STEP_APPEND, .key = "b", .expected_revision = -1, .seq = 1, .revision = 1},
        {.kind = STEP_APPEND, .key = "a", .expected_revision = -1, .seq = 6, .revision = 7},
    };
    const size_t count = sizeof(steps) / sizeof(steps[0]);
    pthread_t threads[sizeof(steps) / sizeof(steps[0])];
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_stats before = QUIPU_STATS_INIT;
    quipu_stats after = QUIPU_STATS_INIT;

    (void)state;
    atomic_store(&t_pg_calm, true); /* it counts commits */
    st_create(store, "a");
    st_create(store, "b");
    T_OK(quipu_store_stats(store, NULL, NULL, &before, NULL));
    const void *last = NULL;
    ent_db *other = et_lock(path);
    for (size_t i = 0; i < count; i++) {
        steps[i].store = store;
        assert_int_equal(pthread_create(&threads[i], NULL, step_run, &steps[i]), 0);
        last = step_wait(store, i > 0, last);
    }
    et_unlock(other);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        step_check(&steps[i], i);
    }
    T_OK(quipu_store_stats(store, NULL, NULL, &after, NULL));
    /* A server takes those that concern one session together, before the fork and behind it; the
     * fork names two and has a commit for itself. The first caller waits for the lock with its
     * batch made. */
    assert_int_equal(after.commits, before.commits + (t_pg() ? 4 : 1));
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    quipu_history *history = st_get(store, "fork", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 6);
    quipu_free(history);
    quipu_close(store);
    atomic_store(&t_pg_calm, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_append_to_one_session_without_gaps),
        cmocka_unit_test(threads_share_a_store_in_memory),
        cmocka_unit_test(threads_append_to_sessions_of_their_own),
        cmocka_unit_test(readers_see_whole_prefixes_while_writers_run),
        cmocka_unit_test(of_racing_creators_one_creates_and_all_get_the_same),
        cmocka_unit_test(conflicts_fail_one_caller_and_not_its_group),
        cmocka_unit_test(same_events_from_many_threads_are_stored_once),
        cmocka_unit_test(group_holds_its_maximum_and_one_more_waits_for_the_next),
        cmocka_unit_test(callers_of_one_commit_fare_as_one_after_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
