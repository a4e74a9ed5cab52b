/* Times to live: sliding, expired, renewed, swept. */
#include "contract/history_t.h"
#include "lib/short.h"

#define K QUIPU_STR("k")
#define HOUR_MS INT64_C(3600000)

static void create_for(quipu_store *store, const char *key, int64_t ttl_ms)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.ttl_ms = ttl_ms;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* Milliseconds from the last write to the expiry, or -1 without one. */
static int64_t life_ms(quipu_store *store)
{
    quipu_history *history = st_get(store, "k", NULL);
    const quipu_session_info *session = history->session;
    int64_t ms = -1;

    if (session->has_expiry) {
        assert_int_equal(session->expires_at.ns, session->updated_at.ns);
        ms = (session->expires_at.s - session->updated_at.s) * 1000;
    }
    quipu_free(history);
    return ms;
}

static void every_write_moves_the_expiry_and_reads_do_not(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    create_for(store, "k", HOUR_MS);
    quipu_history *first = st_get(store, "k", NULL);
    quipu_history *again = st_get(store, "k", NULL);
    assert_int_equal(quipu_time_cmp(first->session->expires_at, again->session->expires_at), 0);
    st_append_many(store, "k", 1);
    quipu_history *appended = st_get(store, "k", NULL);
    assert_true(quipu_time_cmp(appended->session->expires_at, first->session->expires_at) > 0);
    patch.set = QUIPU_SET_MODEL;
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    quipu_history *updated = st_get(store, "k", NULL);
    assert_true(quipu_time_cmp(updated->session->expires_at, appended->session->expires_at) > 0);
    assert_int_equal(life_ms(store), HOUR_MS);
    quipu_free(first);
    quipu_free(again);
    quipu_free(appended);
    quipu_free(updated);
}

static void time_to_live_can_be_set_and_taken_away(void **state)
{
    quipu_store *store = *state;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    create_for(store, "k", 0);
    assert_int_equal(life_ms(store), -1);
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = HOUR_MS;
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    assert_int_equal(life_ms(store), HOUR_MS);
    patch.ttl_ms = -1;
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    assert_int_equal(life_ms(store), -1);
}

static void store_gives_its_time_to_live_to_sessions_that_name_none(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.ttl_ms = HOUR_MS;
    quipu_store *store = st_open_new(&options, NULL);
    create_for(store, "k", 0);
    assert_int_equal(life_ms(store), HOUR_MS);
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    create_for(store, "k", -1);
    assert_int_equal(life_ms(store), -1);
    quipu_close(store);
}

static void time_to_live_past_the_year_9999_is_refused(void **state)
{
    quipu_session_new values = st_values("k");

    values.ttl_ms = INT64_MAX;
    T_STATUS(quipu_session_create(*state, &values, NULL, NULL, NULL), QUIPU_INVALID);
    values.ttl_ms = -2;
    T_STATUS(quipu_session_create(*state, &values, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(st_get_status(*state, "k"), QUIPU_NOT_FOUND);
}

/* What was within the calendar when it was set is not any more after a while: the session goes on,
 * and expires at the end of the calendar. */
static void time_to_live_that_outgrows_the_calendar_does_not_stop_a_session(void **state)
{
    const quipu_time end = {253402300799, 999999999};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_session_new values = st_values("k");
    char path[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db = NULL;

    (void)state;
    values.ttl_ms = 60000;
    quipu_store *store = st_open_new(&options, path);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    const qp_session_patch patch = {
        .ttl_ms = ent_set((end.s - quipu_time_now().s) * 1000 + 10000)}; /* ten seconds later */
    db = et_connect(path, 0);
    T_OK(qp_session_update(db, &(qp_session_where){.key = ent_eq("k")}, &patch, NULL, &err));
    ent_close(db);
    assert_int_equal(st_append(store, "k", "goes on"), 1);
    quipu_history *history = st_get(store, "k", NULL);
    assert_true(history->session->has_expiry);
    assert_int_equal(quipu_time_cmp(history->session->expires_at, end), 0);
    quipu_free(history);
    quipu_close(store);
}

static void expired_session_says_so_to_every_call(void **state)
{
    quipu_store *store = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "late");
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_error err = {0};

    create_for(store, "k", 1);
    st_nap();
    T_STATUS(st_get_status(store, "k"), QUIPU_EXPIRED);
    T_STATUS(quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL, &err),
             QUIPU_EXPIRED);
    assert_non_null(strstr(err.message, "expired at "));
    patch.set = QUIPU_SET_MODEL;
    T_STATUS(quipu_session_update(store, K, &patch, NULL, NULL, NULL), QUIPU_EXPIRED);
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
}

static void expired_session_can_be_deleted_and_made_again(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");

    create_for(store, "k", 1);
    st_nap();
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    values.model = QUIPU_STR("new");
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    quipu_history *history = st_get(store, "k", NULL);
    T_STR(history->session->model, "new");
    quipu_free(history);
}

/* Create and get-or-create both replace an expired session: nothing of the old one is left. */
static void check_renewal(quipu_store *store, bool get_or_create)
{
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = K, .content = QUIPU_STR("old")};
    quipu_session_new values = st_values("k");
    quipu_message old = st_says(QUIPU_ROLE_USER, "old");
    quipu_history *fresh = NULL;
    quipu_memory_list *list = NULL;
    bool created = false;
    quipu_error err = {0};

    values.messages = quipu_messages_of(&old, 1);
    values.ttl_ms = 1;
    quipu_history *first = NULL;
    T_OK(quipu_session_create(store, &values, NULL, &first, &err));
    T_OK(t_memory_save(store, &memory, NULL, NULL, &err));
    st_nap();
    values.messages.count = 0;
    values.ttl_ms = 0;
    if (get_or_create) {
        T_OK(t_session_reuse(store, &values, NULL, &fresh, &created, &err));
        assert_true(created);
    } else {
        T_OK(quipu_session_create(store, &values, NULL, &fresh, &err));
    }
    assert_memory_not_equal(&first->session->uid, &fresh->session->uid, sizeof(quipu_uuid));
    assert_int_equal(fresh->messages.count, 0);
    T_OK(t_memory_list(store, QUIPU_OBSERVATION, K, 0, NULL, &list, &err));
    assert_int_equal(list->memories.count, 0);
    quipu_free(list);
    quipu_free(first);
    quipu_free(fresh);
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
}

static void expired_session_is_renewed_blank_with_a_new_uid(void **state)
{
    check_renewal(*state, false);
    check_renewal(*state, true);
}

static void sweep_removes_the_expired_and_only_them(void **state)
{
    quipu_store *store = *state;
    quipu_list_options all = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    int64_t removed = -1;
    quipu_error err = {0};

    for (int i = 0; i < QUIPU_SWEEP_BATCH * 2 + 1; i++) {
        char key[32];
        snprintf(key, sizeof(key), "old%d", i);
        create_for(store, key, 1);
    }
    create_for(store, "renewed", 1);
    create_for(store, "young", HOUR_MS);
    create_for(store, "eternal", -1);
    st_nap();
    quipu_session_new values = st_values("renewed");
    T_OK(t_session_reuse(store, &values, NULL, NULL, NULL, &err));
    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    assert_int_equal(removed, QUIPU_SWEEP_BATCH * 2 + 1);
    all.flags = QUIPU_LIST_EXPIRED;
    T_OK(quipu_session_list(store, &all, NULL, &page, &err));
    assert_int_equal(page->sessions.count, 3);
    quipu_free(page);
    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    assert_int_equal(removed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(every_write_moves_the_expiry_and_reads_do_not),
        ST_TEST(time_to_live_can_be_set_and_taken_away),
        ST_TEST(store_gives_its_time_to_live_to_sessions_that_name_none),
        ST_TEST(time_to_live_past_the_year_9999_is_refused),
        cmocka_unit_test(time_to_live_that_outgrows_the_calendar_does_not_stop_a_session),
        ST_TEST(expired_session_says_so_to_every_call),
        ST_TEST(expired_session_can_be_deleted_and_made_again),
        ST_TEST(expired_session_is_renewed_blank_with_a_new_uid),
        ST_TEST(sweep_removes_the_expired_and_only_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
