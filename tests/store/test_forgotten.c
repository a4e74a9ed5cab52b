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

static void ranges_that_touch_are_one(void **state)
{
    qp_forgotten set = {.count = 0};

    (void)state;
    forgotten_is(&set, "");
    assert_true(qp_forgotten_add(&set, 5, 7));
    assert_true(qp_forgotten_add(&set, 12, 12));
    assert_true(qp_forgotten_add(&set, 9, 9));
    forgotten_is(&set, "5-7 9-9 12-12");
    assert_true(qp_forgotten_add(&set, 8, 8));
    forgotten_is(&set, "5-9 12-12");
    assert_true(qp_forgotten_add(&set, 1, 100));
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
    quipu_arena arena = QUIPU_ARENA_INIT;
    const int64_t high = INT64_MAX - (int64_t)3 * QP_MEMORY_FORGOTTEN_MAX;
    quipu_str text;

    (void)state;
    for (int i = 0; i < QP_MEMORY_FORGOTTEN_MAX; i++) {
        assert_true(qp_forgotten_add(&set, high + 2 * i, high + 2 * i));
    }
    assert_int_equal(qp_forgotten_write(&set, &arena, &text), QUIPU_OK);
    assert_true(text.n <= QP_FORGOTTEN_TEXT_MAX);
    assert_false(qp_forgotten_add(&set, 1, 1));
    assert_int_equal(set.count, QP_MEMORY_FORGOTTEN_MAX);
    assert_true(qp_forgotten_add(&set, high + 1, high + 1));
    assert_true(qp_forgotten_add(&set, 1, 1));
    quipu_arena_free(&arena);
}

/* Against flags, by chance: adding, dropping and passing. */
static void ranges_are_what_flags_say(void **state)
{
    uint64_t random = t_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        bool flags[FLAGS + 2] = {false};
        qp_forgotten set = {.count = 0};
        int64_t watermark = 0;

        for (int step = 0; step < 30; step++) {
            const int64_t from = 1 + (int64_t)(t_random(&random) % FLAGS);
            const int64_t to = from + (int64_t)(t_random(&random) % 4);

            if (t_random(&random) % 6 == 0) {
                watermark = from > watermark ? from : watermark;
                qp_forgotten_drop(&set, watermark);
                while (step % 2 == 0 && flags[watermark + 1]) {
                    watermark++;
                }
                if (step % 2 == 0) {
                    int64_t passed = from > watermark ? from : watermark;

                    qp_forgotten_pass(&set, &passed);
                    assert_int_equal(passed, watermark);
                }
                for (int64_t i = 0; i <= watermark; i++) {
                    flags[i] = false;
                }
            } else if (from > watermark && to <= FLAGS) {
                assert_true(qp_forgotten_add(&set, from, to));
                for (int64_t i = from; i <= to; i++) {
                    flags[i] = true;
                }
            }
            for (int64_t i = 1; i <= FLAGS; i++) {
                assert_int_equal(qp_forgotten_has(&set, i), flags[i]);
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
        cmocka_unit_test(ranges_are_what_flags_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
