/* The shares of a prompt's sections, the windows of models, the channels of keys. */
#include "lib/t.h"

#include <math.h>

#include <quipu/agent.h>

static quipu_budget budget_without(int64_t window, int64_t reserve, int64_t base, uint32_t empty)
{
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;

    options.empty = empty;
    options.window = window;
    options.reserve = reserve;
    options.base = base;
    T_OK(quipu_budget_make(&options, &budget, NULL));
    return budget;
}

static quipu_budget budget_of(int64_t window, int64_t reserve, int64_t base)
{
    return budget_without(window, reserve, base, 0);
}

static void budget_expect(const quipu_budget *budget, const int64_t sections[QUIPU_SECTIONS])
{
    for (size_t i = 0; i < QUIPU_SECTIONS; i++) {
        assert_int_equal(budget->sections[i], sections[i]);
    }
}

static void default_shares_are_those_of_lango(void **state)
{
    const quipu_budget budget = budget_of(128000, 4000, 24000);

    (void)state;
    assert_int_equal(budget.available, 100000);
    assert_false(budget.degraded);
    budget_expect(&budget, (const int64_t[]){30000, 25000, 25000, 10000, 10000});
}

static void shares_must_add_up_to_one(void **state)
{
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    const double good[][QUIPU_SECTIONS] = {{1, 0, 0, 0, 0}, {.2, .2, .2, .2, .2005}};
    const double bad[][QUIPU_SECTIONS] = {
        {.5, .1, .1, .1, .1}, {.2, .2, .2, .2, .202}, {1.5, -.5, 0, 0, 0}, {NAN, 0, 0, 0, 1}};
    quipu_budget budget = QUIPU_BUDGET_INIT;
    quipu_error error;

    (void)state;
    options.share_count = QUIPU_SECTIONS;
    for (size_t i = 0; i < 2; i++) {
        options.shares = good[i];
        T_OK(quipu_budget_make(&options, &budget, NULL));
    }
    for (size_t i = 0; i < 4; i++) {
        options.shares = bad[i];
        T_STATUS(quipu_budget_make(&options, &budget, &error), QUIPU_INVALID);
    }
    options.shares = bad[0];
    T_STATUS(quipu_budget_make(&options, &budget, &error), QUIPU_INVALID);
    assert_non_null(strstr(error.message, "0.900"));
}

/* What an older or a newer program gives: fewer sections, or more of them. */
static void a_caller_gives_the_sections_that_it_knows(void **state)
{
    const double fewer[] = {.75, .25};
    const double more[QUIPU_SECTIONS + 1] = {.2, .2, .2, .2, .2, 0};
    const double unknown[QUIPU_SECTIONS + 1] = {.2, .2, .2, .2, .1, .1};
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;

    (void)state;
    options.window = 128000;
    options.reserve = 4000;
    options.base = 24000;
    options.shares = fewer;
    options.share_count = 2;
    T_OK(quipu_budget_make(&options, &budget, NULL));
    budget_expect(&budget, (const int64_t[]){75000, 25000, 0, 0, 0});
    options.shares = more;
    options.share_count = QUIPU_SECTIONS + 1;
    T_OK(quipu_budget_make(&options, &budget, NULL));
    budget_expect(&budget, (const int64_t[]){20000, 20000, 20000, 20000, 20000});
    options.shares = unknown;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_UNSUPPORTED);
    options.share_count = 0;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_INVALID);
}

/* A double holds each number up to the limit, and no share of one exceeds an int64_t. */
static void the_window_of_a_budget_has_a_limit(void **state)
{
    const quipu_model_row row = {.prefix = QUIPU_STR("big"), .window = QUIPU_BUDGET_WINDOW_MAX + 1};
    const quipu_model_rows rows = quipu_model_rows_of(&row, 1);
    const double most = 1.0009;
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;

    (void)state;
    options.shares = &most;
    options.share_count = 1;
    options.window = QUIPU_BUDGET_WINDOW_MAX;
    T_OK(quipu_budget_make(&options, &budget, NULL));
    assert_true(budget.sections[0] >= budget.available);
    options.window = QUIPU_BUDGET_WINDOW_MAX + 1;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_LIMIT);
    options.window = INT64_MAX;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_LIMIT);
    options.window = 0;
    options.model = row.prefix;
    options.models = &rows;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_LIMIT);
}

static void model_without_room_is_degraded_and_has_no_limits(void **state)
{
    const int64_t bases[] = {6144, 100000};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const quipu_budget budget = budget_of(8192, 0, bases[i]);

        assert_true(budget.degraded);
        assert_int_equal(budget.available, 0);
        budget_expect(&budget, (const int64_t[]){0, 0, 0, 0, 0});
    }
    assert_false(budget_of(8192, 0, 6143).degraded);
}

static void reserve_has_a_default_a_floor_and_a_ceiling(void **state)
{
    (void)state;
    assert_int_equal(budget_of(128000, 0, 0).reserve, QUIPU_RESERVE);
    assert_int_equal(budget_of(128000, -5, 0).reserve, QUIPU_RESERVE);
    assert_int_equal(budget_of(128000, QUIPU_RESERVE_MIN - 1, 0).reserve, QUIPU_RESERVE_MIN);
    assert_int_equal(budget_of(128000, QUIPU_RESERVE_MIN + 1, 0).reserve, QUIPU_RESERVE_MIN + 1);
    assert_int_equal(budget_of(128000, 32000, 0).reserve, 32000);
    assert_int_equal(budget_of(128000, 32001, 0).reserve, 32000);
    assert_int_equal(budget_of(2000, 0, 0).reserve, 500);
}

static void windows_go_by_the_longest_beginning(void **state)
{
    (void)state;
    assert_int_equal(quipu_model_find(QUIPU_STR("claude-sonnet-4-5"), NULL)->window, 200000);
    assert_int_equal(quipu_model_find(QUIPU_STR("gemini-1.5-pro"), NULL)->window, 2097152);
    assert_int_equal(quipu_model_find(QUIPU_STR("gemini-2.0-flash"), NULL)->window, 1048576);
    assert_int_equal(quipu_model_find(QUIPU_STR("models/gemini-2.5-pro"), NULL)->window, 1048576);
    assert_int_equal(quipu_model_find(QUIPU_STR("gpt-4o-mini"), NULL)->window, 128000);
    assert_int_equal(quipu_model_find(QUIPU_STR("gpt-4"), NULL)->window, 8192);
    assert_int_equal(quipu_model_find(QUIPU_STR("gpt-3.5-turbo"), NULL)->window, 16385);
    assert_int_equal(quipu_model_find(QUIPU_STR("o3-mini"), NULL)->window, 200000);
    assert_int_equal(quipu_model_find(QUIPU_STR("llama-3"), NULL)->window, QUIPU_MODEL_WINDOW);
    assert_int_equal(quipu_model_find((quipu_str){NULL, 0}, NULL)->window, QUIPU_MODEL_WINDOW);
}

static void budget_takes_the_window_of_the_model(void **state)
{
    const quipu_model_row own = {.prefix = QUIPU_STR("gpt-4"), .window = 50000};
    const quipu_model_rows rows = quipu_model_rows_of(&own, 1);
    const quipu_model_rows wrong = {NULL, 1, sizeof(own)};
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;

    (void)state;
    options.model = QUIPU_STR("gpt-4");
    T_OK(quipu_budget_make(&options, &budget, NULL));
    assert_int_equal(budget.window, 8192);
    assert_int_equal(budget.reserve, 2048);
    assert_int_equal(budget.available, 6144);
    options.models = &rows;
    T_OK(quipu_budget_make(&options, &budget, NULL));
    assert_int_equal(budget.window, 50000);
    options.models = &wrong;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_MISUSE);
    options.models = NULL;
    T_STATUS(quipu_budget_make(&options, NULL, NULL), QUIPU_MISUSE);
    options.base = -1;
    T_STATUS(quipu_budget_make(&options, &budget, NULL), QUIPU_MISUSE);
}

static void empty_sections_give_to_the_others_in_proportion(void **state)
{
    const uint32_t empty =
        1u << QUIPU_SECTION_RETRIEVAL | 1u << QUIPU_SECTION_RUNS | 1u << QUIPU_SECTION_HEADROOM;
    const quipu_budget made = budget_without(128000, 4000, 24000, empty);

    (void)state;
    /* 35,000 go to 30,000 and 25,000; the headroom keeps its own. */
    budget_expect(&made, (const int64_t[]){49090, 0, 40909, 0, 10000});
    assert_true(made.sections[0] + made.sections[2] <= 90000);
}

static void nobody_to_take_changes_nothing(void **state)
{
    const quipu_budget budget = budget_of(128000, 4000, 24000);
    const quipu_budget none = budget_of(8192, 0, 8192);
    quipu_budget made = budget_without(128000, 4000, 24000, (1u << QUIPU_SECTIONS) - 1);

    (void)state;
    budget_expect(&made, budget.sections);
    made = budget_without(8192, 0, 8192, 1u << QUIPU_SECTION_KNOWLEDGE);
    assert_true(made.degraded);
    budget_expect(&made, none.sections);
}

static void channels_are_reported_by_the_keys_beginning(void **state)
{
    (void)state;
    assert_string_equal(quipu_key_channel(QUIPU_STR("telegram:1:2")), "telegram");
    assert_string_equal(quipu_key_channel(QUIPU_STR("discord:x")), "discord");
    assert_string_equal(quipu_key_channel(QUIPU_STR("slack:")), "slack");
    assert_string_equal(quipu_key_channel(QUIPU_STR("telegram")), "direct");
    assert_string_equal(quipu_key_channel(QUIPU_STR("irc:1")), "direct");
    assert_string_equal(quipu_key_channel(QUIPU_STR("default")), "direct");
    assert_string_equal(quipu_key_channel((quipu_str){NULL, 0}), "direct");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_shares_are_those_of_lango),
        cmocka_unit_test(shares_must_add_up_to_one),
        cmocka_unit_test(a_caller_gives_the_sections_that_it_knows),
        cmocka_unit_test(the_window_of_a_budget_has_a_limit),
        cmocka_unit_test(model_without_room_is_degraded_and_has_no_limits),
        cmocka_unit_test(reserve_has_a_default_a_floor_and_a_ceiling),
        cmocka_unit_test(windows_go_by_the_longest_beginning),
        cmocka_unit_test(budget_takes_the_window_of_the_model),
        cmocka_unit_test(empty_sections_give_to_the_others_in_proportion),
        cmocka_unit_test(nobody_to_take_changes_nothing),
        cmocka_unit_test(channels_are_reported_by_the_keys_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
