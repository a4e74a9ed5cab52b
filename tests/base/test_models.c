/* The table of models: what its rows must keep to, how names are looked up, rows of a caller. */
#include "lib/t.h"

#include "base/models.h"

static int64_t models_window(const char *name)
{
    return quipu_model_find(quipu_cstr(name), NULL)->window;
}

static void rows_are_sorted_and_in_small_letters(void **state)
{
    size_t count = 0;
    const quipu_model_row *rows = qp_model_builtin(&count);

    (void)state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].prefix.n == strlen(rows[i].prefix.p) && rows[i].prefix.n > 0);
        assert_true(i == 0 || strcmp(rows[i - 1].prefix.p, rows[i].prefix.p) < 0);
        for (size_t k = 0; k < rows[i].prefix.n; k++) {
            assert_false(rows[i].prefix.p[k] >= 'A' && rows[i].prefix.p[k] <= 'Z');
        }
    }
}

static void figures_of_a_row_fit_each_other(void **state)
{
    size_t count = 0;
    const quipu_model_row *rows = qp_model_builtin(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const quipu_model_row *row = &rows[i];

        assert_true(row->window > 0 && row->output >= 0 && row->output <= row->window);
        assert_true(row->budget > 0 && row->budget <= row->window / 2); /* room for the answer */
        assert_true(row->cache_min >= 0 && row->cache_step >= 0 && row->cache_ttl >= 0);
        assert_true(row->cache > QUIPU_CACHE_NONE || (row->cache_min == 0 && row->cache_ttl == 0));
        assert_true(row->price_cached <= row->price_input);
        assert_true(row->price_input <= row->price_output);
        assert_true(row->as_of > 202401 && row->as_of % 100 >= 1 && row->as_of % 100 <= 12);
    }
}

static void every_row_is_found_by_its_own_name(void **state)
{
    size_t count = 0;
    const quipu_model_row *rows = qp_model_builtin(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(quipu_model_find(rows[i].prefix, NULL), &rows[i]);
    }
}

static void the_longest_beginning_wins(void **state)
{
    (void)state;
    assert_int_equal(models_window("gpt-4"), 8192);
    assert_int_equal(models_window("gpt-4-0613"), 8192);
    assert_int_equal(models_window("gpt-4-turbo-2024-04-09"), 128000);
    assert_int_equal(models_window("gpt-4o-mini-2024-07-18"), 128000);
    assert_int_equal(models_window("gpt-4.1-nano"), 1047576);
    assert_int_equal(models_window("o1-mini"), 128000);
}

static void path_or_provider_may_stand_before_the_name(void **state)
{
    static const char *const names[] = {"claude-3-opus-20240229",
                                        "anthropic/claude-3-opus",
                                        "openrouter/anthropic/claude-3-opus",
                                        "us.anthropic.claude-3-opus-20240229-v1:0",
                                        "models/CLAUDE-3-OPUS",
                                        "x:claude-3-opus"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        T_STR(quipu_model_find(quipu_cstr(names[i]), NULL)->prefix, "claude-3-opus");
    }
    T_STR(quipu_model_find(QUIPU_STR("notclaude-3-opus"), NULL)->prefix, "");
}

static void unknown_name_has_the_defaults(void **state)
{
    static const quipu_str names[] = {{"llama-3", 7}, {"", 0}, {NULL, 0}, {"gpt", 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const quipu_model_row *row = quipu_model_find(names[i], NULL);

        assert_int_equal(row->prefix.n, 0);
        assert_int_equal(row->window, QUIPU_MODEL_WINDOW);
        assert_int_equal(row->budget, QUIPU_MODEL_BUDGET);
        assert_int_equal(row->price_input, 0);
    }
}

static void rows_of_a_caller_extend_and_replace(void **state)
{
    const quipu_model_row own[] = {{.prefix = {"gpt-4", 5}, .window = 5000},
                                   {.prefix = {"Mine-", 5}, .window = 70, .budget = 60},
                                   {.prefix = {"gpt-4o-mini-x", 13}},
                                   {.prefix = {"", 0}, .window = 1}};
    const quipu_model_rows rows = quipu_model_rows_of(own, 4);

    (void)state;
    assert_ptr_equal(quipu_model_find(QUIPU_STR("gpt-4"), &rows), &own[0]);
    assert_int_equal(qp_model_row(QUIPU_STR("gpt-4"), &rows).budget, 2500);
    assert_int_equal(quipu_model_find(QUIPU_STR("gpt-4o"), &rows)->window, 128000);
    assert_int_equal(qp_model_row(QUIPU_STR("mine-1"), &rows).budget, 60);
    assert_int_equal(qp_model_row(QUIPU_STR("gpt-4o-mini-x"), &rows).window, QUIPU_MODEL_WINDOW);
    assert_int_equal(qp_model_row(QUIPU_STR("llama"), &rows).window, QUIPU_MODEL_WINDOW);
}

/* Compiled against an earlier or a later header, whose rows are shorter or longer. */
static void rows_have_the_size_that_their_maker_states(void **state)
{
    struct {
        quipu_str prefix;
        int64_t window;
    } shorter[] = {{{"a-", 2}, 10}, {{"b-", 2}, 20}};
    struct {
        quipu_model_row row;
        int64_t more;
    } longer[] = {{{.prefix = {"a-", 2}, .window = 30}, 0},
                  {{.prefix = {"b-", 2}, .window = 40}, 8}};
    quipu_model_rows rows = {shorter, 2, sizeof(shorter[0])};

    (void)state;
    assert_int_equal(qp_model_row(QUIPU_STR("b-1"), &rows).window, 20);
    assert_int_equal(qp_model_row(QUIPU_STR("b-1"), &rows).budget, 10);
    rows = (quipu_model_rows){longer, 2, sizeof(longer[0])};
    T_STATUS(qp_model_rows_check(&rows, NULL), QUIPU_UNSUPPORTED);
    longer[1].more = 0;
    assert_int_equal(qp_model_row(QUIPU_STR("b-1"), &rows).window, 40);
}

static void rows_without_items_or_size_are_misuse(void **state)
{
    const quipu_model_row own = {.prefix = {"a-", 2}, .window = 1};
    const quipu_model_rows without_items = {NULL, 1, sizeof(own)};
    const quipu_model_rows without_size = {&own, 1, 0};
    const quipu_model_rows empty = {NULL, 0, 0};

    (void)state;
    T_STATUS(qp_model_rows_check(&without_items, NULL), QUIPU_MISUSE);
    T_STATUS(qp_model_rows_check(&without_size, NULL), QUIPU_MISUSE);
    T_OK(qp_model_rows_check(&empty, NULL));
    T_OK(qp_model_rows_check(NULL, NULL));
    assert_int_equal(quipu_model_find(QUIPU_STR("a-"), &without_items)->window, QUIPU_MODEL_WINDOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sorted_and_in_small_letters),
        cmocka_unit_test(figures_of_a_row_fit_each_other),
        cmocka_unit_test(every_row_is_found_by_its_own_name),
        cmocka_unit_test(the_longest_beginning_wins),
        cmocka_unit_test(path_or_provider_may_stand_before_the_name),
        cmocka_unit_test(unknown_name_has_the_defaults),
        cmocka_unit_test(rows_of_a_caller_extend_and_replace),
        cmocka_unit_test(rows_have_the_size_that_their_maker_states),
        cmocka_unit_test(rows_without_items_or_size_are_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
