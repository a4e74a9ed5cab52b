/* The history cap: a prefix goes, at turn borders, in the transaction of the append. */
#include "contract/history_t.h"

#include "store/store.h"

static quipu_store *capped(int64_t messages, int64_t tokens, char *ret_path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.cap_messages = messages;
    options.cap_tokens = tokens;
    return st_open_new(&options, ret_path);
}

/* One more handle on the same file. */
static quipu_store *again(const char *path, int64_t messages, int64_t tokens)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.cap_messages = messages;
    options.cap_tokens = tokens;
    T_OK(quipu_open(path, &options, &store, &err));
    return store;
}

static void cap_keeps_at_most_so_many_messages(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = capped(4, 0, path);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uaua");
    HT_ALL(store, "k", "1 2 3 4"); /* the maximum */
    ht_script(store, "k", "u");
    HT_ALL(store, "k", "3 4 5"); /* one more: the oldest turn goes */
    assert_int_equal(ht_count(path).messages, 3);
    ht_script(store, "k", "a");
    HT_ALL(store, "k", "3 4 5 6");
    quipu_close(store);
}

/* A message with an old time is still the newest: it stays, and the oldest number goes. */
static void cap_goes_by_numbers_and_not_by_times(void **state)
{
    quipu_store *store = capped(3, 0, NULL);
    quipu_message late = st_says(QUIPU_ROLE_USER, "late, with an early time");

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uuu");
    late.has_timestamp = true;
    late.timestamp = (quipu_time){.s = 86400};
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&late, 1), NULL, NULL, NULL,
                              NULL));
    HT_ALL(store, "k", "2 3 4");
    ht_script(store, "k", "u");
    HT_ALL(store, "k", "3 4 5");
    quipu_close(store);
}

static void cap_moves_first_seq_and_totals_go_on(void **state)
{
    quipu_store *store = capped(2, 0, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uauaua");
    quipu_history *got = st_get(store, "k", NULL);
    assert_int_equal(got->session->first_seq, 5);
    assert_int_equal(got->session->next_seq, 7);
    assert_int_equal(got->session->message_count, 2);
    assert_int_equal(got->session->token_count, 6 * quipu_message_at(got->messages, 0)->tokens);
    assert_int_equal(quipu_message_at(got->messages, 0)->tokens_total,
                     5 * quipu_message_at(got->messages, 0)->tokens);
    assert_int_equal(quipu_message_at(got->messages, 1)->tokens_total, got->session->token_count);
    assert_false(got->more_before);
    quipu_free(got);
    quipu_close(store);
}

static void tool_call_never_loses_its_answer(void **state)
{
    const char *script = "umtaumttmtaummttau";

    (void)state;
    for (int64_t cap = 1; cap <= 18; cap++) {
        quipu_store *store = capped(cap, 0, NULL);
        st_create(store, "k");
        for (const char *p = script; *p != '\0'; p++) {
            char one[2] = {*p, '\0'};
            ht_script(store, "k", one);
            quipu_history *got = st_get(store, "k", NULL);
            assert_int_equal(quipu_message_at(got->messages, 0)->role, QUIPU_ROLE_USER);
            assert_int_equal(quipu_message_at(got->messages, got->messages.count - 1)->seq,
                             p - script + 1);
            quipu_free(got);
        }
        quipu_close(store);
    }
}

static void newest_turn_stays_whole_however_long(void **state)
{
    quipu_store *store = capped(3, 0, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uaumtmta");
    HT_ALL(store, "k", "3 4 5 6 7 8");
    ht_script(store, "k", "u");
    HT_ALL(store, "k", "9");
    quipu_close(store);
}

static void cap_by_tokens_holds_at_the_maximum_and_one_past_it(void **state)
{
    quipu_store *probe = capped(0, 0, NULL);

    (void)state;
    st_create(probe, "k");
    ht_script(probe, "k", "u");
    const int64_t one = ht_info(probe, "k").token_count;
    quipu_close(probe);
    for (int64_t less = 0; less <= 1; less++) {
        quipu_store *store = capped(0, 4 * one - less, NULL);
        st_create(store, "k");
        ht_script(store, "k", "uaua");
        HT_ALL(store, "k", less == 0 ? "1 2 3 4" : "3 4");
        ht_script(store, "k", "u");
        HT_ALL(store, "k", "3 4 5");
        quipu_close(store);
    }
}

static void stricter_of_two_caps_holds(void **state)
{
    quipu_store *store = capped(5, 1, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uaua");
    HT_ALL(store, "k", "3 4");
    quipu_close(store);
}

static void history_without_a_user_is_not_cut(void **state)
{
    quipu_store *store = capped(2, 0, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "aaaa");
    HT_ALL(store, "k", "1 2 3 4");
    ht_script(store, "k", "u");
    HT_ALL(store, "k", "5");
    quipu_close(store);
}

static void cap_holds_for_an_initial_history_and_a_batch(void **state)
{
    quipu_store *store = capped(2, 0, NULL);
    quipu_session_new values = st_values("k");
    quipu_message messages[6];
    quipu_error err = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        messages[i] = st_says(i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, "x");
    }
    values.messages = quipu_messages_of(messages, 6);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    HT_ALL(store, "k", "5 6");
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(messages, 6), NULL, NULL,
                              NULL, &err));
    HT_ALL(store, "k", "11 12");
    quipu_close(store);
}

static void cap_finds_turns_that_were_stored_before_it(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *plain = capped(0, 0, path);
    quipu_store *store;

    (void)state;
    st_create(plain, "k");
    ht_script(plain, "k", "uauauaua");
    quipu_close(plain);
    store = again(path, 4, 0);
    ht_script(store, "k", "a");
    HT_ALL(store, "k", "7 8 9"); /* 5 would leave five */
    quipu_close(store);
}

static void ids_of_capped_messages_are_forgotten(void **state)
{
    quipu_store *store = capped(2, 0, NULL);
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    message.event_id = QUIPU_STR("e1");
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_true(appended.repeated);
    ht_script(store, "k", "uau");
    message.content = QUIPU_STR("something else");
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_false(appended.repeated);
    assert_int_equal(appended.first_seq, 5);
    quipu_close(store);
}

static void summary_goes_with_the_turns_around_it(void **state)
{
    quipu_store *store = capped(4, 0, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "ua");
    assert_int_equal(ht_compact(store, "k", 2, "sum"), 3);
    HT_VIEW(store, "k", "3");
    ht_script(store, "k", "ua");
    HT_ALL(store, "k", "4 5");
    HT_VIEW(store, "k", "4 5");
    assert_int_equal(ht_info(store, "k").compacted_seq, 0);
    quipu_close(store);
}

/* A compaction removes nothing, as it promises; the next append holds the cap. */
static void compaction_at_the_cap_removes_nothing(void **state)
{
    quipu_store *store = capped(4, 0, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uaua");
    assert_int_equal(ht_compact(store, "k", 2, "sum"), 5);
    HT_ALL(store, "k", "1 2 3 4 5");
    HT_VIEW(store, "k", "5 3 4");
    ht_script(store, "k", "u");
    HT_ALL(store, "k", "3 4 5 6");
    quipu_close(store);
}

static void cap_below_zero_is_misuse(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    (void)state;
    options.cap_messages = -1;
    T_STATUS(quipu_open(":memory:", &options, &store, &err), QUIPU_MISUSE);
    options.cap_messages = 0;
    options.cap_tokens = -1;
    T_STATUS(quipu_open(":memory:", &options, &store, &err), QUIPU_MISUSE);
    assert_null(store);
}

/* Forks keep what the cap takes from their parent; the parent does not see it any more. */
static void capped_messages_stay_for_the_forks_that_share_them(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = capped(4, 0, path);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "uaua");
    ht_fork(store, "k", 3, "f");
    ht_script(store, "k", "uaua");
    HT_ALL(store, "k", "5 6 7 8");
    HT_ALL(store, "f", "1 2 3");
    assert_int_equal(ht_count(path).messages, 3 + 4); /* 4 is reached by nobody */
    ht_script(store, "f", "aaua");                    /* the fork has a cap too: "1 2" go */
    HT_ALL(store, "f", "6 7");
    assert_int_equal(ht_count(path).messages, 4 + 2);
    quipu_close(store);
}

/* ---- what it costs ----------------------------------------------------------------------------
 */

/* One turn that never ends must not be searched again and again. */
static void append_to_one_long_turn_reads_a_few_rows(void **state)
{
    quipu_store *store = capped(10, 100, NULL);

    (void)state;
    st_create(store, "k");
    ht_script(store, "k", "u");
    for (int i = 0; i < 500; i++) {
        ht_script(store, "k", "a");
    }
    atomic_store(&t_pg_calm, true); /* it counts rows */
    uint64_t before = ent_stats_read(store->group.db).rows;
    ht_script(store, "k", "a");
    uint64_t rows = ent_stats_read(store->group.db).rows - before;
    atomic_store(&t_pg_calm, false);
    print_message("%llu rows\n", (unsigned long long)rows);
    assert_true(rows <= 32);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cap_keeps_at_most_so_many_messages),
        cmocka_unit_test(cap_goes_by_numbers_and_not_by_times),
        cmocka_unit_test(cap_moves_first_seq_and_totals_go_on),
        cmocka_unit_test(tool_call_never_loses_its_answer),
        cmocka_unit_test(newest_turn_stays_whole_however_long),
        cmocka_unit_test(cap_by_tokens_holds_at_the_maximum_and_one_past_it),
        cmocka_unit_test(stricter_of_two_caps_holds),
        cmocka_unit_test(history_without_a_user_is_not_cut),
        cmocka_unit_test(cap_holds_for_an_initial_history_and_a_batch),
        cmocka_unit_test(cap_finds_turns_that_were_stored_before_it),
        cmocka_unit_test(ids_of_capped_messages_are_forgotten),
        cmocka_unit_test(summary_goes_with_the_turns_around_it),
        cmocka_unit_test(compaction_at_the_cap_removes_nothing),
        cmocka_unit_test(cap_below_zero_is_misuse),
        cmocka_unit_test(capped_messages_stay_for_the_forks_that_share_them),
        cmocka_unit_test(append_to_one_long_turn_reads_a_few_rows),
    };

    return cmocka_run_group_tests_name("store_cap", tests, NULL, NULL);
}
