/* The window of the next prompt: whole turns, a budget, tool pairs, and what it costs. */
#include "contract/history_t.h"
#include "lib/short.h"

#include "store/store.h"

static quipu_window *window(quipu_store *store, const char *key, int64_t budget, uint32_t flags)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *got = NULL;
    quipu_error err = {0};

    options.token_budget = budget;
    options.flags = flags;
    quipu_status status = quipu_window_read(store, quipu_cstr(key), &options, NULL, &got, &err);
    if (status != QUIPU_OK) {
        fail_msg("window of %s: %s (%s)", key, quipu_status_name(status), err.message);
    }
    return got;
}

/* The window's numbers and flags. */
#define CHECK_WINDOW(store, budget, flags, numbers, over, was_cut)                                 \
    check_window(store, budget, flags, numbers, over, was_cut, __LINE__)

static void check_window(quipu_store *store, int64_t budget, uint32_t flags, const char *numbers,
                         bool over, bool was_cut, int line)
{
    quipu_window *got = window(store, "k", budget, flags);
    char text[HT_TEXT_MAX];

    ht_numbers(got->messages, text);
    if (strcmp(text, numbers) != 0 || got->over_budget != over || got->cut != was_cut) {
        fail_msg("line %d: window \"%s\" over %d cut %d, not \"%s\" over %d cut %d", line, text,
                 got->over_budget, got->cut, numbers, over, was_cut);
    }
    quipu_free(got);
}

/* Tokens of the messages from number `seq` on. */
static int64_t tokens_from(quipu_store *store, int64_t seq)
{
    quipu_history *history = st_get(store, "k", NULL);
    int64_t tokens = 0;

    for (size_t i = 0; i < history->messages.count; i++) {
        tokens += quipu_message_at(history->messages, i)->seq >= seq
                      ? quipu_message_at(history->messages, i)->tokens
                      : 0;
    }
    quipu_free(history);
    return tokens;
}

static void window_holds_whole_turns_within_the_budget(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "uauaua");
    int64_t two = tokens_from(store, 3);
    CHECK_WINDOW(store, two, 0, "3 4 5 6", false, false);
    CHECK_WINDOW(store, two - 1, 0, "5 6", false, false);
    CHECK_WINDOW(store, tokens_from(store, 1), 0, "1 2 3 4 5 6", false, false);
    CHECK_WINDOW(store, tokens_from(store, 1) - 1, 0, "3 4 5 6", false, false);
    quipu_window *got = window(store, "k", two, 0);
    assert_int_equal(got->tokens, two);
    assert_true(got->more_before);
    T_STR(got->session->key, "k");
    quipu_free(got);
}

static void window_never_begins_with_an_answer_to_a_tool_call(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "umtaumttaua");
    for (int64_t budget = 1; budget <= tokens_from(store, 1); budget++) {
        for (uint32_t flags = 0; flags <= QUIPU_WINDOW_CUT; flags++) {
            quipu_window *got = window(store, "k", budget, flags);
            assert_true(got->messages.count > 0);
            quipu_role role = quipu_message_at(got->messages, 0)->role;
            assert_true(role != QUIPU_ROLE_TOOL);
            assert_true(flags != 0 || role == QUIPU_ROLE_USER);
            assert_int_equal(got->over_budget, got->tokens > budget);
            quipu_free(got);
        }
    }
}

static void newest_turn_over_the_budget_comes_whole_and_flagged(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "uaumtmta");
    CHECK_WINDOW(store, tokens_from(store, 3) - 1, 0, "3 4 5 6 7 8", true, false);
    CHECK_WINDOW(store, 1, 0, "3 4 5 6 7 8", true, false);
}

static void newest_turn_is_cut_between_tool_pairs_by_option(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "uaumtmtta");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "3 4 5 6 7 8 9", false, false);
    CHECK_WINDOW(store, tokens_from(store, 3) - 1, QUIPU_WINDOW_CUT, "4 5 6 7 8 9", false, true);
    CHECK_WINDOW(store, tokens_from(store, 5), QUIPU_WINDOW_CUT, "6 7 8 9", false, true);
    CHECK_WINDOW(store, tokens_from(store, 6) - 1, QUIPU_WINDOW_CUT, "9", false, true);
    CHECK_WINDOW(store, 1, QUIPU_WINDOW_CUT, "9", true, true);
}

/* Something was said between a call and its answer. */
static void cut_does_not_fall_between_a_call_and_a_later_answer(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "umat");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "2 3 4", true, true);
    ht_script(store, "k", "a");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "5", false, true);
    CHECK_WINDOW(store, tokens_from(store, 2), QUIPU_WINDOW_CUT, "2 3 4 5", false, true);
    ht_script(store, "k", "mt");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "5 6 7", false, true);
}

/* A plain answer names no call: it belongs to the message right before it. */
static void plain_answer_stays_with_the_message_before_it(void **state)
{
    quipu_store *store = *state;
    const quipu_message plain[5] = {
        st_says(QUIPU_ROLE_USER, "word"), st_says(QUIPU_ROLE_ASSISTANT, "word"),
        st_says(QUIPU_ROLE_TOOL, "word"), st_says(QUIPU_ROLE_ASSISTANT, "word"),
        st_says(QUIPU_ROLE_TOOL, "word")};
    quipu_error err = {0};

    st_create(store, "k");
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(plain, 5), NULL, NULL, NULL,
                              &err));
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "4 5", false, true);
    CHECK_WINDOW(store, tokens_from(store, 5), QUIPU_WINDOW_CUT, "4 5", true, true);
    CHECK_WINDOW(store, tokens_from(store, 2), QUIPU_WINDOW_CUT, "2 3 4 5", false, true);
}

static void last_pair_over_the_budget_is_kept_together(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "uamtt");
    CHECK_WINDOW(store, 1, QUIPU_WINDOW_CUT, "3 4 5", true, true);
    CHECK_WINDOW(store, 1, 0, "1 2 3 4 5", true, false);
}

/* ---- pairs by id ------------------------------------------------------------------------------
 */

static void answers_are_paired_by_the_ids_of_their_calls(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "u");
    ht_tools(store, "k", QUIPU_ROLE_MODEL, "a");
    ht_tools(store, "k", QUIPU_ROLE_MODEL, "b");
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "a"); /* 4, of 2 */
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "b");
    ht_script(store, "k", "a");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "6", false, true);
    CHECK_WINDOW(store, tokens_from(store, 2), QUIPU_WINDOW_CUT, "2 3 4 5 6", false, true);
    /* One message answers calls of two others. */
    ht_tools(store, "k", QUIPU_ROLE_MODEL, "c"); /* 7 */
    ht_tools(store, "k", QUIPU_ROLE_MODEL, "d,e");
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "e,d,c");
    CHECK_WINDOW(store, tokens_from(store, 8), QUIPU_WINDOW_CUT, "7 8 9", true, true);
}

static void id_that_is_used_again_means_the_nearest_call(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "umtamt");
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "4 5 6", false, true);
    CHECK_WINDOW(store, tokens_from(store, 5), QUIPU_WINDOW_CUT, "5 6", false, true);
}

static void answer_whose_call_is_nowhere_takes_no_text_with_it(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "a");
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "lost");
    ht_script(store, "k", "a");
    CHECK_WINDOW(store, 1000, 0, "1 2 3", false, false);
    ht_script(store, "k", "ua"); /* 4 5 */
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "lost");
    ht_script(store, "k", "a");
    CHECK_WINDOW(store, tokens_from(store, 5), QUIPU_WINDOW_CUT, "5 6 7", false, true);
    /* A call in an earlier turn is not looked for either. */
    ht_tools(store, "k", QUIPU_ROLE_MODEL, "early"); /* 8 */
    ht_script(store, "k", "ua");                     /* 9 10 */
    ht_tools(store, "k", QUIPU_ROLE_TOOL, "early");
    CHECK_WINDOW(store, tokens_from(store, 10), QUIPU_WINDOW_CUT, "10 11", false, true);
}

static void missing_id_agrees_with_the_nearest_call(void **state)
{
    quipu_store *store = *state;
    const char *const pairs[][2] = {{"a", ""}, {"", "a"}, {"", ""}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        st_create(store, "k");
        ht_script(store, "k", "u");
        ht_tools(store, "k", QUIPU_ROLE_MODEL, pairs[i][0]);
        ht_script(store, "k", "a");
        ht_tools(store, "k", QUIPU_ROLE_TOOL, pairs[i][1]);
        CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "2 3 4", true, true);
        ht_delete(store, "k");
    }
}

/* The window must begin with the call, or right before the answer. */
static int64_t far_window_begins(quipu_store *store, const char *key, int64_t budget)
{
    quipu_window *got = window(store, key, budget, QUIPU_WINDOW_CUT);
    int64_t seq = quipu_message_at(got->messages, 0)->seq;

    quipu_free(got);
    return seq;
}

static void call_is_looked_for_so_far_away_and_no_farther(void **state)
{
    quipu_store *store = *state;

    ht_far_pair(store, "near", QUIPU_PAIR_REACH);
    ht_far_pair(store, "far", QUIPU_PAIR_REACH + 1);
    assert_int_equal(far_window_begins(store, "near", 30), 2);
    assert_true(far_window_begins(store, "far", 30) > QUIPU_PAIR_REACH - 10);
}

static void budget_is_one_or_more(void **state)
{
    quipu_store *store = *state;
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *got = NULL;
    quipu_error err = {0};

    st_create(store, "k");
    ht_script(store, "k", "ua");
    for (int64_t budget = 0; budget >= -1; budget--) {
        options.token_budget = budget;
        T_STATUS(quipu_window_read(store, QUIPU_STR("k"), &options, NULL, &got, &err),
                 QUIPU_MISUSE);
    }
    T_STATUS(quipu_window_read(store, QUIPU_STR("k"), NULL, NULL, &got, &err), QUIPU_MISUSE);
    options.token_budget = 1;
    options.flags = 2;
    T_STATUS(quipu_window_read(store, QUIPU_STR("k"), &options, NULL, &got, &err), QUIPU_MISUSE);
    assert_null(got);
    CHECK_WINDOW(store, 1, 0, "1 2", true, false);
    CHECK_WINDOW(store, INT64_MAX, 0, "1 2", false, false);
}

static void empty_session_has_an_empty_window(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    CHECK_WINDOW(store, 100, 0, "", false, false);
}

static void history_without_a_user_is_one_turn(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "taa");
    CHECK_WINDOW(store, 1000, 0, "2 3", false, false); /* 1 answers nothing that is there */
    CHECK_WINDOW(store, 1, 0, "2 3", true, false);
    ht_script(store, "k", "u");
    CHECK_WINDOW(store, tokens_from(store, 3), 0, "4", false, false);
}

static void answer_in_a_users_message_begins_no_turn(void **state)
{
    quipu_store *store = *state;
    const quipu_tool_call answer = {
        .id = QUIPU_STR("c1"), .name = QUIPU_STR("look"), .output = QUIPU_STR("1")};
    quipu_message message = st_says(QUIPU_ROLE_USER, "");
    quipu_error err = {0};

    st_create(store, "k");
    ht_script(store, "k", "um");
    message.calls = quipu_tool_calls_of(&answer, 1);
    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    ht_script(store, "k", "a");
    CHECK_WINDOW(store, tokens_from(store, 3), 0, "1 2 3 4", true, false);
    CHECK_WINDOW(store, tokens_from(store, 3), QUIPU_WINDOW_CUT, "4", false, true);
}

static void window_of_a_missing_or_expired_session_says_so(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *got = NULL;
    quipu_error err = {0};

    options.token_budget = 10;
    T_STATUS(quipu_window_read(store, QUIPU_STR("k"), &options, NULL, &got, &err), QUIPU_NOT_FOUND);
    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_nap();
    T_STATUS(quipu_window_read(store, QUIPU_STR("k"), &options, NULL, &got, &err), QUIPU_EXPIRED);
    assert_null(got);
}

/* ---- with a compaction ------------------------------------------------------------------------
 */

static void summary_comes_first_while_the_newest_turn_fits_beside_it(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "uauaua");
    assert_int_equal(ht_compact(store, "k", 2, "a short summary"), 7);
    int64_t turn = tokens_from(store, 5);
    quipu_window *all = window(store, "k", 1000, 0);
    int64_t summary = all->tokens - 2 * turn;
    assert_true(summary > 0);
    assert_false(all->more_before);
    quipu_free(all);
    CHECK_WINDOW(store, 2 * turn + summary, 0, "7 3 4 5 6", false, false);
    CHECK_WINDOW(store, 2 * turn + summary - 1, 0, "7 5 6", false, false);
    CHECK_WINDOW(store, turn + summary, 0, "7 5 6", false, false);
    CHECK_WINDOW(store, turn + summary - 1, 0, "5 6", false, false);
    CHECK_WINDOW(store, turn, 0, "5 6", false, false);
    CHECK_WINDOW(store, turn - 1, 0, "5 6", true, false);
}

static void summaries_that_are_not_the_newest_are_not_in_the_window(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "k");
    ht_script(store, "k", "uaua");
    assert_int_equal(ht_compact(store, "k", 2, "first"), 5);
    ht_script(store, "k", "ua");
    assert_int_equal(ht_compact(store, "k", 4, "second"), 8);
    CHECK_WINDOW(store, 1000, 0, "8 6 7", false, false);
    T_OK(quipu_session_compact(store, QUIPU_STR("k"), T_COMPACT_UNDO, NULL, NULL, &err));
    CHECK_WINDOW(store, 1000, 0, "5 3 4 6 7", false, false);
    T_OK(quipu_session_compact(store, QUIPU_STR("k"), T_COMPACT_UNDO, NULL, NULL, &err));
    CHECK_WINDOW(store, 1000, 0, "1 2 3 4 6 7", false, false);
    CHECK_WINDOW(store, tokens_from(store, 3), 0, "3 4 6 7", false, false);
}

static void summary_that_covers_everything_is_the_window(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "ua");
    assert_int_equal(ht_compact(store, "k", 2, "everything so far"), 3);
    CHECK_WINDOW(store, 1000, 0, "3", false, false);
    CHECK_WINDOW(store, 1, 0, "3", true, false);
}

static void window_of_the_whole_view_says_that_nothing_is_before_it(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;

    st_create(store, "k");
    ht_script(store, "k", "ua");
    assert_int_equal(ht_compact(store, "k", 2, "everything so far"), 3);
    ht_script(store, "k", "aa"); /* no turn begins: the summary is the view's first number */
    quipu_window *all = window(store, "k", 1000, 0);
    assert_int_equal(all->messages.count, 3);
    assert_false(all->more_before);
    quipu_free(all);
    ht_script(store, "k", "u");
    quipu_window *last = window(store, "k", tokens_from(store, 6), 0);
    assert_int_equal(last->messages.count, 1);
    assert_true(last->more_before);
    quipu_free(last);
}

/* ---- what it costs ----------------------------------------------------------------------------
 */

#define LONG_HISTORY 100000 /* in PostgreSQL's short form a tenth: many round trips */
#define ROWS_BESIDE 64      /* read beside the window: the session, and what the search looks at */

/* Gives how many messages it has. */
static int64_t long_history(quipu_store *store, const char *key)
{
    const int64_t length = t_pg() && !t_long() ? LONG_HISTORY / 10 : LONG_HISTORY;
    quipu_message *batch = calloc(QUIPU_BATCH_MAX, sizeof(*batch));
    quipu_error err = {0};

    assert_non_null(batch);
    for (int i = 0; i < QUIPU_BATCH_MAX; i++) {
        batch[i] = st_says(i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, "a few words");
    }
    st_create(store, key);
    for (int64_t i = 0; i < length / QUIPU_BATCH_MAX; i++) {
        T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(batch, QUIPU_BATCH_MAX),
                                  NULL, NULL, NULL, &err));
    }
    free(batch);
    return length;
}

/* Rows that reading connections have read so far; no call is under way. */
static uint64_t rows_read(const quipu_store *store)
{
    uint64_t rows = 0;

    for (size_t i = 0; i < store->pool.idle_count; i++) {
        rows += ent_stats_read(store->pool.idle[i]).rows;
    }
    return rows;
}

static void window_reads_no_more_rows_than_it_holds_and_a_few(void **state)
{
    T_NOT_SERVED("it counts rows");
    T_LONG_ON_PG("100,000 messages");

    quipu_store *store = *state;

    (void)long_history(store, "k");
    for (int64_t budget = 1; budget <= 1000000; budget *= 10) {
        quipu_window *warm = window(store, "k", budget, 0);
        quipu_free(warm);
        uint64_t before = rows_read(store);
        quipu_window *got = window(store, "k", budget, 0);
        uint64_t rows = rows_read(store) - before;
        print_message("budget %lld: %zu messages, %llu rows\n", (long long)budget,
                      got->messages.count, (unsigned long long)rows);
        assert_true(rows >= got->messages.count);
        assert_true(rows <= got->messages.count + ROWS_BESIDE);
        quipu_free(got);
    }
}

/* Rows that one page of the view costs. */
static uint64_t page_rows(quipu_store *store, uint32_t flags, int64_t limit, size_t expected)
{
    quipu_range range = QUIPU_RANGE_INIT;
    uint64_t rows = 0;

    range.flags = QUIPU_RANGE_VIEW | flags;
    range.limit = limit;
    atomic_store(&t_pg_calm, true); /* it counts rows */
    for (int i = 0; i < 2; i++) {   /* the first warms up */
        uint64_t before = rows_read(store);
        quipu_history *page = st_get(store, "k", &range);
        rows = rows_read(store) - before;
        assert_int_equal(page->messages.count, expected);
        quipu_free(page);
    }
    atomic_store(&t_pg_calm, false);
    return rows;
}

static void page_of_the_view_is_read_once(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = *state;

    int64_t length = long_history(store, "k");
    assert_true(page_rows(store, 0, 500, 500) <= 510);
    assert_true(page_rows(store, QUIPU_RANGE_LAST, 500, 500) <= 510);
    assert_int_equal(ht_compact(store, "k", 1000, "a summary"), length + 1);
    assert_true(page_rows(store, 0, 500, 501) <= 510);
    /* Only a page in which a summary stands is looked at before it is read. */
    assert_true(page_rows(store, QUIPU_RANGE_LAST, 500, 500) <= 1520);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(window_holds_whole_turns_within_the_budget),
        ST_TEST(window_never_begins_with_an_answer_to_a_tool_call),
        ST_TEST(newest_turn_over_the_budget_comes_whole_and_flagged),
        ST_TEST(newest_turn_is_cut_between_tool_pairs_by_option),
        ST_TEST(cut_does_not_fall_between_a_call_and_a_later_answer),
        ST_TEST(plain_answer_stays_with_the_message_before_it),
        ST_TEST(last_pair_over_the_budget_is_kept_together),
        ST_TEST(answers_are_paired_by_the_ids_of_their_calls),
        ST_TEST(id_that_is_used_again_means_the_nearest_call),
        ST_TEST(answer_whose_call_is_nowhere_takes_no_text_with_it),
        ST_TEST(missing_id_agrees_with_the_nearest_call),
        ST_TEST(call_is_looked_for_so_far_away_and_no_farther),
        ST_TEST(budget_is_one_or_more),
        ST_TEST(empty_session_has_an_empty_window),
        ST_TEST(history_without_a_user_is_one_turn),
        ST_TEST(answer_in_a_users_message_begins_no_turn),
        ST_TEST(window_of_a_missing_or_expired_session_says_so),
        ST_TEST(summary_comes_first_while_the_newest_turn_fits_beside_it),
        ST_TEST(summaries_that_are_not_the_newest_are_not_in_the_window),
        ST_TEST(summary_that_covers_everything_is_the_window),
        ST_TEST(window_of_the_whole_view_says_that_nothing_is_before_it),
        ST_TEST(window_reads_no_more_rows_than_it_holds_and_a_few),
        ST_TEST(page_of_the_view_is_read_once),
    };

    return cmocka_run_group_tests_name("store_window", tests, NULL, NULL);
}
