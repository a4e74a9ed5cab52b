/* UUIDs: versions, order within a thread and across threads, forks, and their text. Also the thread
 * wrappers that they and others stand on. */
#include "lib/t.h"

#include <sys/wait.h>
#include <unistd.h>

#include <quipu/base.h>

#include "base/thread.h"
#include "base/uuid.h"

#define T_THREADS 4
#define T_EACH 5000

static void versions_and_variant_are_stamped(void **state)
{
    quipu_uuid uuid;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        T_OK(qp_uuid_v4(&uuid));
        assert_int_equal(uuid.b[6] >> 4, 4);
        assert_int_equal(uuid.b[8] >> 6, 2);
        T_OK(qp_uuid_v7(&uuid));
        assert_int_equal(uuid.b[6] >> 4, 7);
        assert_int_equal(uuid.b[8] >> 6, 2);
    }
    T_STATUS(qp_uuid_v4(NULL), QUIPU_MISUSE);
    T_STATUS(qp_uuid_v7(NULL), QUIPU_MISUSE);
}

static void v7_carries_the_time_and_only_rises(void **state)
{
    quipu_uuid last;
    quipu_uuid uuid;
    int64_t before = quipu_time_now().s;
    int64_t ms = 0;

    (void)state;
    T_OK(qp_uuid_v7(&last));
    for (int i = 0; i < 6; i++) {
        ms = ms << 8 | last.b[i];
    }
    assert_true(ms / 1000 >= before - 1 && ms / 1000 <= quipu_time_now().s + 1);
    for (int i = 0; i < 200000; i++) {
        T_OK(qp_uuid_v7(&uuid));
        assert_true(memcmp(&last, &uuid, sizeof(uuid)) < 0);
        last = uuid;
    }
}

static void *uuid_thread_run(void *arg)
{
    quipu_uuid *made = arg;

    for (int i = 0; i < T_EACH; i++) {
        if (qp_uuid_v7(&made[i]) != QUIPU_OK) {
            return arg;
        }
    }
    return NULL;
}

static int uuid_thread_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(quipu_uuid));
}

static void v7_rises_in_each_thread_and_never_repeats_across(void **state)
{
    static quipu_uuid made[T_THREADS * T_EACH];
    qp_thread threads[T_THREADS];

    (void)state;
    for (int i = 0; i < T_THREADS; i++) {
        T_OK(qp_thread_start(&threads[i], uuid_thread_run, &made[i * T_EACH]));
    }
    for (int i = 0; i < T_THREADS; i++) {
        assert_null(qp_thread_join(threads[i]));
        for (int k = 1; k < T_EACH; k++) {
            assert_true(memcmp(&made[i * T_EACH + k - 1], &made[i * T_EACH + k], 16) < 0);
        }
    }
    qsort(made, T_THREADS * T_EACH, sizeof(made[0]), uuid_thread_order);
    for (int k = 1; k < T_THREADS * T_EACH; k++) {
        assert_true(memcmp(&made[k - 1], &made[k], 16) < 0);
    }
}

static void child_of_a_fork_does_not_repeat_its_parent(void **state)
{
    quipu_uuid child[8];
    quipu_uuid mine[8];
    int pipes[2];
    int wait_status = 0;

    (void)state;
    T_OK(qp_uuid_v4(&mine[0])); /* the pool is filled now */
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    for (int i = 0; i < 8; i++) {
        quipu_uuid *to = pid == 0 ? &child[i] : &mine[i];
        if ((i % 2 == 0 ? qp_uuid_v4(to) : qp_uuid_v7(to)) != QUIPU_OK) {
            _exit(1);
        }
    }
    if (pid == 0) {
        _exit(write(pipes[1], child, sizeof(child)) == (ssize_t)sizeof(child) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    assert_int_equal(read(pipes[0], child, sizeof(child)), sizeof(child));
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 8; k++) {
            assert_memory_not_equal(&mine[i].b[10], &child[k].b[10], 6);
        }
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void uuid_text_round_trips_in_both_cases(void **state)
{
    char text[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;
    quipu_uuid back;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        T_OK(qp_uuid_v4(&uuid));
        quipu_uuid_format(uuid, text);
        assert_int_equal(strlen(text), 36);
        T_OK(quipu_uuid_parse(quipu_cstr(text), &back));
        assert_memory_equal(&uuid, &back, 16);
        for (int k = 0; k < 36; k++) {
            text[k] = text[k] >= 'a' ? (char)(text[k] - 32) : text[k];
        }
        T_OK(quipu_uuid_parse(quipu_cstr(text), &back));
        assert_memory_equal(&uuid, &back, 16);
    }
    T_OK(quipu_uuid_parse(QUIPU_STR("11111111-2222-4333-8444-555555555555"), &uuid));
    quipu_uuid_format(uuid, text);
    assert_string_equal(text, "11111111-2222-4333-8444-555555555555");
}

static void uuid_text_has_two_digits_for_each_byte(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16 * 256; i++) {
        quipu_uuid uuid = {{0}};
        char text[QUIPU_UUID_TEXT_SIZE];
        char expected[QUIPU_UUID_TEXT_SIZE];
        size_t n = 0;

        uuid.b[i / 256] = (uint8_t)(i % 256);
        uuid.b[(i / 256 + 5) % 16] = (uint8_t)(255 - i % 256);
        for (size_t k = 0; k < 16; k++) {
            const char *hyphen = k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "";
            n += (size_t)snprintf(expected + n, sizeof(expected) - n, "%s%02x", hyphen, uuid.b[k]);
        }
        quipu_uuid_format(uuid, text);
        assert_string_equal(text, expected);
    }
}

static void uuid_text_of_another_shape_is_refused(void **state)
{
    const char good[] = "0198c0de-0000-7abc-8def-0123456789ab";
    char text[40];
    quipu_uuid uuid = {{42}};

    (void)state;
    for (size_t n = 0; n < 36; n++) {
        T_STATUS(quipu_uuid_parse((quipu_str){good, n}, &uuid), QUIPU_INVALID);
    }
    T_STATUS(quipu_uuid_parse(QUIPU_STR("0198c0de-0000-7abc-8def-0123456789ab0"), &uuid),
             QUIPU_INVALID);
    for (size_t i = 0; i < 36; i++) {
        for (int c = 0; c < 256; c++) {
            bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            bool fits = good[i] == '-' ? c == '-' : hex;
            memcpy(text, good, sizeof(good));
            text[i] = (char)c;
            T_STATUS(quipu_uuid_parse((quipu_str){text, 36}, &uuid),
                     fits ? QUIPU_OK : QUIPU_INVALID);
        }
    }
    T_STATUS(quipu_uuid_parse((quipu_str){NULL, 0}, &uuid), QUIPU_INVALID);
    T_STATUS(quipu_uuid_parse(QUIPU_STR(""), NULL), QUIPU_MISUSE);
}

static void randomness_larger_than_the_pool_is_given(void **state)
{
    uint8_t bytes[1000] = {0};
    int zeros = 0;

    (void)state;
    T_OK(qp_random(bytes, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        zeros += bytes[i] == 0 ? 1 : 0;
    }
    assert_true(zeros < 60); /* about 4 expected */
}

typedef struct uuid_thread_gate {
    qp_mutex mutex;
    qp_cond cond;
    int turn;
} uuid_thread_gate;

static void *uuid_thread_gate_run(void *arg)
{
    uuid_thread_gate *gate = arg;

    for (int i = 0; i < 100; i++) {
        qp_mutex_lock(&gate->mutex);
        while (gate->turn % 2 == 0) {
            qp_cond_wait(&gate->cond, &gate->mutex);
        }
        gate->turn++;
        qp_cond_broadcast(&gate->cond);
        qp_mutex_unlock(&gate->mutex);
    }
    return NULL;
}

static void two_threads_take_turns(void **state)
{
    uuid_thread_gate gate = {.turn = 0};
    qp_thread thread;

    (void)state;
    T_OK(qp_mutex_init(&gate.mutex));
    T_OK(qp_cond_init(&gate.cond));
    T_OK(qp_thread_start(&thread, uuid_thread_gate_run, &gate));
    for (int i = 0; i < 100; i++) {
        qp_mutex_lock(&gate.mutex);
        while (gate.turn % 2 == 1) {
            (void)qp_cond_wait_until(&gate.cond, &gate.mutex, qp_clock_ns() + QP_NS_PER_S);
        }
        gate.turn++;
        qp_cond_signal(&gate.cond);
        qp_mutex_unlock(&gate.mutex);
    }
    assert_null(qp_thread_join(thread));
    assert_int_equal(gate.turn, 200);
    /* A deadline that has passed answers at once, also one before the clock's beginning. */
    qp_mutex_lock(&gate.mutex);
    assert_false(qp_cond_wait_until(&gate.cond, &gate.mutex, qp_clock_ns()));
    assert_false(qp_cond_wait_until(&gate.cond, &gate.mutex, -5));
    qp_mutex_unlock(&gate.mutex);
    qp_cond_done(&gate.cond);
    qp_mutex_done(&gate.mutex);
}

typedef struct event_pair {
    qp_latch ask;
    qp_latch answer;
    int question;
    int answered;
} event_pair;

static void *event_answer(void *arg)
{
    event_pair *pair = arg;

    if (qp_latch_wait(&pair->ask, INT64_MAX) == 7) {
        pair->answered = pair->question * 2; /* what was written before the latch was set is seen */
        qp_latch_set(&pair->answer, QP_LATCH_VALUE_MAX);
    }
    return NULL;
}

static void latch_publishes_its_value_and_earlier_writes(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        event_pair pair = {.question = i};
        qp_thread thread;
        T_OK(qp_thread_start(&thread, event_answer, &pair));
        qp_latch_set(&pair.ask, 7);
        assert_int_equal(qp_latch_wait(&pair.answer, INT64_MAX), QP_LATCH_VALUE_MAX);
        assert_int_equal(pair.answered, i * 2);
        (void)qp_thread_join(thread);
    }
}

static void unset_latch_times_out_and_can_be_waited_for_again(void **state)
{
    qp_latch event = {0};

    (void)state;
    assert_int_equal(qp_latch_wait(&event, 0), 0);
    assert_int_equal(qp_latch_wait(&event, qp_clock_ns() + QP_NS_PER_MS), 0);
    qp_latch_set(&event, 1);
    assert_int_equal(qp_latch_wait(&event, 0), 1);
    assert_int_equal(qp_latch_wait(&event, INT64_MAX), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_variant_are_stamped),
        cmocka_unit_test(v7_carries_the_time_and_only_rises),
        cmocka_unit_test(v7_rises_in_each_thread_and_never_repeats_across),
        cmocka_unit_test(child_of_a_fork_does_not_repeat_its_parent),
        cmocka_unit_test(uuid_text_round_trips_in_both_cases),
        cmocka_unit_test(uuid_text_has_two_digits_for_each_byte),
        cmocka_unit_test(uuid_text_of_another_shape_is_refused),
        cmocka_unit_test(randomness_larger_than_the_pool_is_given),
        cmocka_unit_test(two_threads_take_turns),
        cmocka_unit_test(latch_publishes_its_value_and_earlier_writes),
        cmocka_unit_test(unset_latch_times_out_and_can_be_waited_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
