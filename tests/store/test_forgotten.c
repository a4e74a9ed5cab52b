/* Ranges of forgotten messages: the text, the set and its limit, compared with plain flags. */
#include "lib/t.h"

#include "base/arena.h"
#include "store/forgotten.h"

#define FLAGS 80

static void forgotten_is(const qp_forgotten *forgotten, const char *expected)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_forgotten again;
    quipu_str text;

    assert_int_equal(qp_forgotten_write(forgotten, &arena, &text), QUIPU_OK);
    assert_int_equal(text.n, strlen(expected));
    assert_memory_equal(text.n > 0 ? text.p : "", expected, text.n);
    assert_true(qp_forgotten_read(text, &again));
    assert_int_equal(again.count, forgotten->count);
    quipu_arena_free(&arena);
}

static bool forgotten_add(qp_forgotten *set, int64_t from, int64_t to, int64_t watermark)
{
    return qp_forgotten_add(set, (qp_forgotten_range){from, to}, watermark);
}

static void ranges_that_touch_are_one(void **state)
{
    qp_forgotten set = {.count = 0};

    (void)state;
    forgotten_is(&set, "");
    assert_true(forgotten_add(&set, 5, 7, 0));
    assert_true(forgotten_add(&set, 12, 12, 0));
    assert_true(forgotten_add(&set, 9, 9, 0));
    forgotten_is(&set, "5-7 9-9 12-12");
    assert_true(forgotten_add(&set, 8, 8, 0));
    forgotten_is(&set, "5-9 12-12");
    assert_true(forgotten_add(&set, 1, 100, 0));
    forgotten_is(&set, "1-100");
}

static void texts_in_another_form_are_damage(void **state)
{
    static const char *const texts[] = {"x",
                                        " ",
                                        "0-1",
                                        "5",
                                        "5-",
                                        "7-5",
                                        "5-7 ",
                                        "5-7  9-9",
                                        "5-7 8-9",
                                        "5-7 6-9",
                                        "9-9 5-7",
                                        "-1-2",
                                        "01-2",
                                        "1-02",
                                        "5-7,9-9",
                                        "1-9223372036854775808",
                                        "9223372036854775808-1"};
    qp_forgotten set;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(qp_forgotten_read(quipu_cstr(texts[i]), &set));
    }
    assert_true(qp_forgotten_read(QUIPU_STR("1-9223372036854775807"), &set));
    assert_true(qp_forgotten_read((quipu_str){NULL, 0}, &set));
    assert_int_equal(set.count, 0);
}

/* The largest numbers that a session has, in as many ranges as there may be, fit the column. */
static void the_limit_of_ranges_fits_the_column(void **state)
{
    qp_forgotten set = {.count = 0};
    qp_forgotten again;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const int64_t high = INT64_MAX - (int64_t)3 * QP_FORGOTTEN_RANGES;
    quipu_str text;

    (void)state;
    for (int i = 0; i < QP_MEMORY_FORGOTTEN_MAX; i++) {
        assert_true(forgotten_add(&set, high + 2 * i, high + 2 * i, high - 2));
    }
    assert_false(forgotten_add(&set, high + 2 * QP_MEMORY_FORGOTTEN_MAX,
                               high + 2 * QP_MEMORY_FORGOTTEN_MAX, high - 2));
    assert_int_equal(set.count, QP_MEMORY_FORGOTTEN_MAX);
    assert_true(forgotten_add(&set, high + 1, high + 1, high - 2));
    assert_true(forgotten_add(&set, high + 2 * QP_MEMORY_FORGOTTEN_MAX,
                              high + 2 * QP_MEMORY_FORGOTTEN_MAX, high - 2));
    /* With one that is passed there is one more, and that is all that a row can have. */
    assert_true(forgotten_add(&set, high - 2, high - 2, high - 2));
    assert_int_equal(set.count, QP_FORGOTTEN_RANGES);
    assert_int_equal(qp_forgotten_write(&set, &arena, &text), QUIPU_OK);
    assert_true(text.n <= QP_FORGOTTEN_TEXT_MAX);
    assert_true(qp_forgotten_read(text, &again));
    assert_int_equal(again.count, QP_FORGOTTEN_RANGES);
    quipu_arena_free(&arena);
}

static void one_range_more_than_a_row_can_have_is_damage(void **state)
{
    char text[QP_FORGOTTEN_RANGES * 10 + 20];
    size_t n = 0;
    qp_forgotten set;

    (void)state;
    for (int i = 0; i <= QP_FORGOTTEN_RANGES; i++) {
        if (i == QP_FORGOTTEN_RANGES) {
            assert_true(qp_forgotten_read((quipu_str){text, n}, &set));
        }
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d-%d", i > 0 ? " " : "", 2 * i + 1,
                              2 * i + 1);
    }
    assert_false(qp_forgotten_read((quipu_str){text, n}, &set));
}

/* What waits stays exact however much is passed: only ranges before the watermark become one. */
static void passed_ranges_that_lie_nearest_become_one(void **state)
{
    qp_forgotten set = {.count = 0};
    const int64_t watermark = 1000;

    (void)state;
    for (int i = 0; i < QP_FORGOTTEN_RANGES; i++) {
        assert_true(forgotten_add(&set, 10 * i + 1, 10 * i + 1, watermark));
    }
    assert_int_equal(set.count, QP_FORGOTTEN_RANGES);
    assert_false(qp_forgotten_has(&set, 102));
    /* 103 lies nearer to 101 than any two others to each other. */
    assert_true(forgotten_add(&set, 103, 103, watermark));
    assert_int_equal(set.count, QP_FORGOTTEN_RANGES);
    assert_true(qp_forgotten_has(&set, 102));
    assert_false(qp_forgotten_has(&set, 112));
    for (int i = 0; i < QP_MEMORY_FORGOTTEN_MAX; i++) {
        assert_true(forgotten_add(&set, watermark + 2 + 2 * i, watermark + 2 + 2 * i, watermark));
        assert_false(qp_forgotten_has(&set, watermark + 1 + 2 * i));
    }
    assert_false(forgotten_add(&set, watermark + 500, watermark + 500, watermark));
    assert_int_equal(set.count, QP_FORGOTTEN_RANGES);
    assert_true(qp_forgotten_has(&set, 1) && qp_forgotten_has(&set, 103));
}

/* Against flags, by chance: adding, cutting and passing. */
static void ranges_are_what_flags_say(void **state)
{
    uint64_t random = t_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        bool flags[FLAGS + 2] = {false};
        qp_forgotten set = {.count = 0};

        for (int step = 0; step < 30; step++) {
            const int64_t from = 1 + (int64_t)(t_random(&random) % FLAGS);
            const int64_t to = from + (int64_t)(t_random(&random) % 4);
            int64_t watermark = from - 1;

            if (t_random(&random) % 12 == 0) {
                qp_forgotten_cut(&set, from);
                for (int64_t i = from + 1; i <= FLAGS; i++) {
                    flags[i] = false;
                }
            } else if (to <= FLAGS) {
                assert_true(forgotten_add(&set, from, to, 0));
                for (int64_t i = from; i <= to; i++) {
                    flags[i] = true;
                }
            }
            for (int64_t i = 1; i <= FLAGS; i++) {
                assert_int_equal(qp_forgotten_has(&set, i), flags[i]);
            }
            qp_forgotten_pass(&set, &watermark);
            assert_true(watermark >= from - 1 && !flags[watermark + 1]);
            for (int64_t i = from; i <= watermark; i++) {
                assert_true(flags[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_touch_are_one),
        cmocka_unit_test(texts_in_another_form_are_damage),
        cmocka_unit_test(the_limit_of_ranges_fits_the_column),
        cmocka_unit_test(one_range_more_than_a_row_can_have_is_damage),
        cmocka_unit_test(passed_ranges_that_lie_nearest_become_one),
        cmocka_unit_test(ranges_are_what_flags_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
