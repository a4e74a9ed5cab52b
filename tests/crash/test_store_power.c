/* Power cuts at random points: unsynced writes are lost and torn. A durable store loses nothing
 * that it acknowledged; no store is ever damaged. */
#include "contract/store_t.h"
#include "crash/model.h"
#include "crash/powervfs.h"
#include "lib/short.h"

#include <pthread.h>
#include <stdatomic.h>

#define SCRATCH 4       /* sessions that come and go */
#define ROUND 100       /* cuts on one file */
#define STEPS_MAX 1000  /* calls within which an armed cut comes */
#define TEXT_SIZE 20000 /* of the longest message */

/* What was acknowledged so far. */
typedef struct power_acks {
    int64_t messages; /* of session k */
    int64_t memories;
    bool scratch[SCRATCH];
} power_acks;

typedef struct power_run {
    quipu_store *store;
    quipu_open_options options;
    uint64_t random;
    char path[T_PATH_MAX];
    power_acks acks;
    power_acks at_cut; /* as they were when the power went */
    int busy;          /* scratch session that a call is about, or -1 */
    int busy_at_cut;
} power_run;

static void power_remember(void *ctx)
{
    power_run *run = ctx;

    run->at_cut = run->acks;
    run->busy_at_cut = run->busy;
}

/* ---- work -------------------------------------------------------------------------------------
 */

static void power_append(power_run *run)
{
    static char text[TEXT_SIZE];
    size_t size = t_random_below(&run->random, 8) == 0 ? TEXT_SIZE : 200;
    quipu_message message = {.role = QUIPU_ROLE_USER, .content = {text, size}};
    quipu_appended appended = QUIPU_APPENDED_INIT;

    memset(text, 'x', sizeof(text));
    (void)snprintf(text, sizeof(text), "%lld", (long long)run->acks.messages + 1);
    text[strlen(text)] = ' ';
    T_OK(quipu_message_append(run->store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, NULL));
    run->acks.messages++;
    assert_int_equal(appended.first_seq, run->acks.messages);
}

static void power_scratch(power_run *run)
{
    int at = (int)t_random_below(&run->random, SCRATCH);
    char key[16];

    (void)snprintf(key, sizeof(key), "s%d", at);
    run->busy = at;
    if (run->acks.scratch[at]) {
        T_OK(quipu_session_delete(run->store, quipu_cstr(key), NULL, NULL, NULL, NULL));
    } else {
        quipu_session_new values = st_values(key);
        quipu_message messages[2] = {st_says(QUIPU_ROLE_USER, "a"),
                                     st_says(QUIPU_ROLE_ASSISTANT, "b")};
        values.messages = quipu_messages_of(messages, 2);
        T_OK(quipu_session_create(run->store, &values, NULL, NULL, NULL));
    }
    run->acks.scratch[at] = !run->acks.scratch[at];
    run->busy = -1;
}

static void power_memory(power_run *run)
{
    quipu_memory memory = {
        .kind = QUIPU_REFLECTION, .session_key = QUIPU_STR("k"), .content = QUIPU_STR("thought")};

    T_OK(t_memory_save(run->store, &memory, NULL, NULL, NULL));
    run->acks.memories++;
}

/* Closing moves the whole log into the file and deletes it. */
static void power_reopen(power_run *run)
{
    quipu_close(run->store);
    T_OK(quipu_open(run->path, &run->options, &run->store, NULL));
}

static void power_step(power_run *run)
{
    uint64_t what = t_random_below(&run->random, 20);

    if (what < 13) {
        power_append(run);
    } else if (what < 17) {
        power_scratch(run);
    } else if (what < 19) {
        power_memory(run);
    } else {
        power_reopen(run);
    }
}

/* ---- after the cut ----------------------------------------------------------------------------
 */

static void power_check_memories(quipu_store *store, int64_t acked, bool durable)
{
    quipu_memory_list *list = NULL;

    T_OK(t_memory_list(store, QUIPU_REFLECTION, QUIPU_STR("k"), 0, NULL, &list, NULL));
    assert_true(!durable || (int64_t)list->memories.count >= acked);
    assert_true((int64_t)list->memories.count <= acked + 1);
    quipu_free(list);
}

static void power_check_scratch(quipu_store *store, const power_run *run)
{
    for (int i = 0; i < SCRATCH; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "s%d", i);
        quipu_status status = st_get_status(store, key);
        if (i != run->busy_at_cut) {
            T_STATUS(status, run->at_cut.scratch[i] ? QUIPU_OK : QUIPU_NOT_FOUND);
        }
        if (status == QUIPU_OK) {
            quipu_history *history = st_get(store, key, NULL);
            st_check_whole(history);
            assert_int_equal(history->messages.count, 2);
            quipu_free(history);
        }
    }
}

/* Open what the disk kept: sound, without gaps, and with all that was acknowledged. */
static void power_judge(const power_run *run, const char *folder)
{
    const bool durable = run->options.durability == QUIPU_DURABLE;
    char path[T_PATH_MAX];

    t_path(folder, "store.db", path);
    model_sound(path);
    powervfs_default(false);
    quipu_store *store = st_open(path);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    assert_true(!durable || (int64_t)history->messages.count >= run->at_cut.messages);
    assert_true((int64_t)history->messages.count <= run->at_cut.messages + 1);
    for (size_t i = 0; i < history->messages.count; i++) {
        char *end = NULL;
        assert_int_equal(strtoll(quipu_message_at(history->messages, i)->content.p, &end, 10),
                         (int64_t)i + 1);
    }
    quipu_free(history);
    power_check_memories(store, run->at_cut.memories, durable);
    if (durable) {
        power_check_scratch(store, run);
    }
    assert_true(st_append(store, "k", "after the cut") >= 1);
    quipu_close(store);
    powervfs_default(true);
}

static void power_file_remove(const char *folder, const char *name)
{
    char path[T_PATH_MAX];

    t_path(folder, name, path);
    (void)remove(path);
}

static void power_round(quipu_durability durability, int64_t cuts, uint64_t *random,
                        const char *folder)
{
    power_run run = {.options = QUIPU_OPEN_OPTIONS_INIT, .busy = -1};

    powervfs_reset();
    powervfs_default(true);
    t_path(t_tmpdir(), "store.db", run.path);
    run.random = t_random(random);
    run.options.durability = durability;
    T_OK(quipu_open(run.path, &run.options, &run.store, NULL));
    st_create(run.store, "k");
    if (durability == QUIPU_RELAXED) {
        power_reopen(&run); /* so that the session itself is on the disk */
    }
    for (int64_t cut = 0; cut < cuts; cut++) {
        powervfs_arm(1 + (int64_t)t_random_below(&run.random, 40), folder, t_random(&run.random),
                     power_remember, &run);
        for (int step = 0; !powervfs_cut(); step++) {
            assert_true(step < STEPS_MAX);
            power_step(&run);
        }
        power_judge(&run, folder);
        power_file_remove(folder, "store.db");
        power_file_remove(folder, "store.db-wal");
        power_file_remove(folder, "store.db-shm");
    }
    quipu_close(run.store);
}

static void power_cuts(quipu_durability durability)
{
    uint64_t random = t_seed();
    const int64_t points = t_count(1000, 10000);
    char folder[T_PATH_MAX];
    const int64_t lost = powervfs_lost();
    const int64_t kept = powervfs_kept();

    (void)snprintf(folder, sizeof(folder), "%s", t_tmpdir());
    for (int64_t done = 0; done < points; done += ROUND) {
        power_round(durability, ROUND, &random, folder);
    }
    print_message("%lld cuts: %lld unsynced sectors lost, %lld kept\n", (long long)points,
                  (long long)(powervfs_lost() - lost), (long long)(powervfs_kept() - kept));
    assert_true(powervfs_lost() > lost && powervfs_kept() > kept);
}

static void durable_store_loses_nothing_acknowledged_at_a_power_cut(void **state)
{
    (void)state;
    power_cuts(QUIPU_DURABLE);
}

static void relaxed_store_is_never_damaged_by_a_power_cut(void **state)
{
    (void)state;
    power_cuts(QUIPU_RELAXED);
}

/* ---- groups -----------------------------------------------------------------------------------
 */

#define WRITERS 4

typedef struct power_writer {
    quipu_store *store;
    int number;
    atomic_llong acked;
    int64_t acked_at_cut;
} power_writer;

static power_writer power_writers[WRITERS];

static void power_writers_remember(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < WRITERS; i++) {
        power_writers[i].acked_at_cut = atomic_load(&power_writers[i].acked);
    }
}

static void *power_writer_run(void *arg)
{
    power_writer *self = arg;

    while (!powervfs_cut()) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%d:%lld", self->number,
                       (long long)atomic_load(&self->acked));
        quipu_message message = st_says(QUIPU_ROLE_USER, text);
        if (quipu_message_append(self->store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL,
                                 NULL, NULL, NULL) != QUIPU_OK) {
            return self;
        }
        (void)atomic_fetch_add(&self->acked, 1);
    }
    return NULL;
}

/* Each writer's messages are there in its order, all that were acknowledged. */
static void power_judge_writers(const char *folder)
{
    int64_t next[WRITERS] = {0};
    char path[T_PATH_MAX];

    t_path(folder, "store.db", path);
    model_sound(path);
    powervfs_default(false);
    quipu_store *store = st_open(path);
    quipu_history *history = st_get(store, "k", NULL);
    st_check_whole(history);
    for (size_t i = 0; i < history->messages.count; i++) {
        int number = -1;
        long long at = -1;
        assert_int_equal(
            sscanf(quipu_message_at(history->messages, i)->content.p, "%d:%lld", &number, &at), 2);
        assert_int_equal(at, next[number]++);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_true(next[i] >= power_writers[i].acked_at_cut);
    }
    quipu_free(history);
    quipu_close(store);
    powervfs_default(true);
}

static void groups_of_callers_lose_nothing_acknowledged_at_a_power_cut(void **state)
{
    uint64_t random = t_seed();
    const int64_t points = t_count(50, 500);
    char folder[T_PATH_MAX];

    (void)state;
    (void)snprintf(folder, sizeof(folder), "%s", t_tmpdir());
    for (int64_t point = 0; point < points; point++) {
        pthread_t threads[WRITERS];

        powervfs_reset();
        powervfs_default(true);
        quipu_store *store = st_open_new(NULL, NULL);
        st_create(store, "k");
        powervfs_arm(1 + (int64_t)t_random_below(&random, 200), folder, t_random(&random),
                     power_writers_remember, NULL);
        for (int i = 0; i < WRITERS; i++) {
            power_writers[i] = (power_writer){.store = store, .number = i};
            assert_int_equal(pthread_create(&threads[i], NULL, power_writer_run, &power_writers[i]),
                             0);
        }
        for (int i = 0; i < WRITERS; i++) {
            void *failed = NULL;
            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
        power_judge_writers(folder);
        power_file_remove(folder, "store.db");
        power_file_remove(folder, "store.db-wal");
        power_file_remove(folder, "store.db-shm");
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_store_loses_nothing_acknowledged_at_a_power_cut),
        cmocka_unit_test(relaxed_store_is_never_damaged_by_a_power_cut),
        cmocka_unit_test(groups_of_callers_lose_nothing_acknowledged_at_a_power_cut),
    };

    powervfs_install();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    powervfs_reset();
    return failed;
}
