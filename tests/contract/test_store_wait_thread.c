/* One wait for many tails: quipu_change_wait(). */
#include "contract/store_t.h"

#include "base/thread.h"

#define WAIT_TAILS 1000
#define WAIT_SESSIONS 50
#define WAIT_MS 60000 /* of a wait that ends before */

/* A thread that appends to a session. */
static void *append_one(void *arg)
{
    st_append(arg, "s0", "news");
    return NULL;
}

static int64_t first(quipu_store *store)
{
    int64_t seen = 0;

    T_OK(quipu_change_wait(store, 0, 0, NULL, &seen, NULL));
    assert_true(seen > 0);
    return seen;
}

static void a_change_ends_the_wait(void **state)
{
    quipu_store *store = *state;
    int64_t seen = first(store);
    int64_t now = 0;
    qp_thread thread;

    st_create(store, "s0");
    T_OK(quipu_change_wait(store, seen, WAIT_MS, NULL, &now, NULL)); /* it came before the wait */
    assert_true(now > seen);
    seen = now;
    T_OK(quipu_change_wait(store, seen, 0, NULL, &now, NULL));
    assert_int_equal(now, seen);
    T_OK(qp_thread_start(&thread, append_one, store));
    T_OK(quipu_change_wait(store, seen, WAIT_MS, NULL, &now, NULL));
    (void)qp_thread_join(thread);
    assert_true(now > seen);
}

/* Another store of the same place, as another process would be. */
static void a_change_of_another_store_ends_it_too(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open(path);
    int64_t seen;
    int64_t now;

    (void)state;
    st_create(store, "s0");
    now = seen = first(store);
    /* What was before the first look is no change that is missed: wait until it is quiet. */
    T_OK(quipu_change_wait(store, seen, 300, NULL, &seen, NULL));
    st_append(other, "s0", "from elsewhere");
    T_OK(quipu_change_wait(store, seen, WAIT_MS, NULL, &now, NULL));
    assert_true(now > seen);
    quipu_close(other);
    quipu_close(store);
}

/* No thread for a tail: one waits, and looks at all of them. */
static void one_thread_follows_a_thousand_tails(void **state)
{
    quipu_store *store = *state;
    quipu_tail **tails = calloc(WAIT_TAILS, sizeof(quipu_tail *));
    int64_t seen;
    int64_t now = 0;
    size_t got = 0;
    char key[16];
    qp_thread thread;

    assert_non_null(tails);
    for (int i = 0; i < WAIT_SESSIONS; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i);
        st_create(store, key);
    }
    for (int i = 0; i < WAIT_TAILS; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i % WAIT_SESSIONS);
        T_OK(quipu_tail_open(store, quipu_cstr(key), 0, NULL, &tails[i], NULL));
    }
    seen = first(store);
    T_OK(qp_thread_start(&thread, append_one, store));
    T_OK(quipu_change_wait(store, seen, WAIT_MS, NULL, &now, NULL));
    (void)qp_thread_join(thread);
    for (int i = 0; i < WAIT_TAILS; i++) {
        quipu_history *batch = NULL;

        T_OK(quipu_tail_next(tails[i], 0, NULL, &batch, NULL));
        assert_int_equal(batch != NULL, i % WAIT_SESSIONS == 0);
        got += batch != NULL;
        quipu_free(batch);
        quipu_tail_close(tails[i]);
    }
    assert_int_equal(got, WAIT_TAILS / WAIT_SESSIONS);
    free(tails);
}

/* A thread that waits without end, until its flag is set. */
typedef struct waiter {
    quipu_store *store;
    quipu_cancel *cancel;
    quipu_status status;
} waiter;

static void *wait_on(void *arg)
{
    waiter *one = arg;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    int64_t seen = first(one->store);

    call.cancel = one->cancel;
    do {
        one->status = quipu_change_wait(one->store, seen, -1, &call, &seen, NULL);
    } while (one->status == QUIPU_OK);
    return NULL;
}

static void a_cancel_flag_ends_it(void **state)
{
    waiter one = {.store = *state, .cancel = quipu_cancel_new()};
    qp_thread thread;

    T_OK(qp_thread_start(&thread, wait_on, &one));
    quipu_cancel_set(one.cancel);
    (void)qp_thread_join(thread);
    assert_int_equal(one.status, QUIPU_CANCELLED);
    quipu_free(one.cancel);
}

static void nonsense_is_refused(void **state)
{
    int64_t seen = 0;

    assert_int_equal(quipu_change_wait(*state, -1, 0, NULL, &seen, NULL), QUIPU_MISUSE);
    assert_int_equal(quipu_change_wait(*state, 0, -2, NULL, &seen, NULL), QUIPU_MISUSE);
    assert_int_equal(quipu_change_wait(*state, 0, 0, NULL, NULL, NULL), QUIPU_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_change_ends_the_wait),
        cmocka_unit_test(a_change_of_another_store_ends_it_too),
        ST_TEST(one_thread_follows_a_thousand_tails),
        ST_TEST(a_cancel_flag_ends_it),
        ST_TEST(nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
