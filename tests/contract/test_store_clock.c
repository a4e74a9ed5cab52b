/* A wall clock that is wrong: it steps back and forth, as after a reboot without a battery or when
 * NTP corrects it. Nothing is lost by it, and no order comes from it. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include "base/thread.h"
#include "base/time.h"
#include "base/uuid.h"

#define HOUR_MS INT64_C(3600000)

static int clock_teardown(void **state)
{
    qp_time_step(0);
    qp_clock_step(0);
    return st_teardown(state);
}

#define CLOCK_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, clock_teardown)

static void create_with_ttl(quipu_store *store, const char *key, int64_t ttl_ms)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.ttl_ms = ttl_ms;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static quipu_time expiry_of(quipu_store *store, const char *key)
{
    quipu_history *history = st_get(store, key, NULL);
    quipu_time at = history->session->expires_at;

    assert_true(history->session->has_expiry);
    quipu_free(history);
    return at;
}

/* Each write moves the expiry; one under a clock that is an hour behind must not move it back. */
static void no_write_shortens_a_life_when_the_clock_steps_back(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_error err = {0};
    quipu_time before;

    create_with_ttl(store, "s", HOUR_MS);
    st_append(store, "s", "one");
    before = expiry_of(store, "s");
    qp_time_step(-2 * HOUR_MS);
    st_append(store, "s", "two");
    assert_int_equal(quipu_time_cmp(expiry_of(store, "s"), before), 0);
    patch.set = QUIPU_SET_TITLE;
    patch.title = QUIPU_STR("t");
    T_OK(quipu_session_update(store, QUIPU_STR("s"), &patch, NULL, NULL, &err));
    T_OK(quipu_session_compact(store, QUIPU_STR("s"), T_COMPACT(1, QUIPU_STR("short")), NULL, NULL,
                               &err));
    assert_int_equal(quipu_time_cmp(expiry_of(store, "s"), before), 0);
    qp_time_step(0);
    assert_int_equal(st_get_status(store, "s"), QUIPU_OK);
    mt_clean(store);
}

static void get_or_create_keeps_a_session_that_a_wrong_clock_wrote_to(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("s");
    quipu_history *history = NULL;
    quipu_error err = {0};
    bool created = true;

    create_with_ttl(store, "s", HOUR_MS);
    st_append(store, "s", "kept");
    qp_time_step(-2 * HOUR_MS);
    st_append(store, "s", "kept too");
    qp_time_step(0);
    values.ttl_ms = HOUR_MS;
    T_OK(t_session_reuse(store, &values, NULL, &history, &created, &err));
    assert_false(created);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
}

/* A time to live that is set counts from now, whatever the clock said before. */
static void new_time_to_live_counts_from_the_present_clock(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_error err = {0};
    quipu_time before;

    qp_time_step(1000 * HOUR_MS);
    create_with_ttl(store, "s", HOUR_MS);
    before = expiry_of(store, "s");
    qp_time_step(0);
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = HOUR_MS;
    T_OK(quipu_session_update(store, QUIPU_STR("s"), &patch, NULL, NULL, &err));
    assert_true(quipu_time_cmp(expiry_of(store, "s"), before) < 0);
}

static void sessions_expire_by_the_clock(void **state)
{
    quipu_store *store = *state;
    int64_t removed = 0;
    quipu_error err = {0};

    create_with_ttl(store, "s", HOUR_MS);
    qp_time_step(HOUR_MS - 60000);
    assert_int_equal(st_get_status(store, "s"), QUIPU_OK);
    qp_time_step(HOUR_MS);
    assert_int_equal(st_get_status(store, "s"), QUIPU_EXPIRED);
    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    assert_int_equal(removed, 1);
}

/* Numbers, memories and ids keep their order under a clock that runs backwards. */
static void no_order_comes_from_the_clock(void **state)
{
    quipu_store *store = *state;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};
    quipu_uuid last = {{0}};

    st_create(store, "s");
    for (int i = 1; i <= 5; i++) {
        char text[24];
        quipu_uuid uuid;

        qp_time_step(-i * HOUR_MS);
        (void)snprintf(text, sizeof(text), "text %d", i);
        assert_int_equal(st_append(store, "s", text), i);
        mt_memory(store, QUIPU_OBSERVATION, "s", text);
        assert_int_equal(qp_uuid_v7(&uuid), QUIPU_OK);
        assert_true(memcmp(uuid.b, last.b, sizeof(uuid.b)) > 0);
        last = uuid;
    }
    query.kind = QUIPU_OBSERVATION;
    query.session_key = QUIPU_STR("s");
    T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
    assert_int_equal(list->memories.count, 5);
    for (size_t i = 0; i < 5; i++) {
        char text[24];
        (void)snprintf(text, sizeof(text), "text %zu", i + 1);
        T_STR(quipu_memory_at(list->memories, i)->content, text);
    }
    quipu_free(list);
    quipu_history *history = st_get(store, "s", NULL);
    st_check_whole(history);
    quipu_free(history);
    mt_clean(store);
}

/* Moves the clock beyond the default deadline while the verification is under way. */
static void an_hour_passes(void *ctx, int64_t done)
{
    (void)ctx;
    (void)done;
    qp_clock_step(QUIPU_VERIFY_DEADLINE_MS + 1);
}

static void verify_ends_at_its_default_deadline(void **state)
{
    quipu_store *store = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};

    st_create(store, "a");
    st_create(store, "b");
    call.progress = an_hour_passes;
    T_STATUS(quipu_store_verify(store, NULL, &call, NULL, &err), QUIPU_BUSY);
    qp_clock_step(0);
    call.deadline_ms = -1;
    T_OK(quipu_store_verify(store, NULL, &call, NULL, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLOCK_TEST(no_write_shortens_a_life_when_the_clock_steps_back),
        CLOCK_TEST(get_or_create_keeps_a_session_that_a_wrong_clock_wrote_to),
        CLOCK_TEST(new_time_to_live_counts_from_the_present_clock),
        CLOCK_TEST(sessions_expire_by_the_clock),
        CLOCK_TEST(no_order_comes_from_the_clock),
        CLOCK_TEST(verify_ends_at_its_default_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
