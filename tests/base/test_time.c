/* Instants: every text shape of other programs, what is refused, and round trips over the range. */
#include "lib/t.h"

#include <time.h>

#include <quipu/base.h>

#include "base/time.h"

#define T_2026 INT64_C(1776074400) /* 2026-04-13 10:00:00 UTC */

static void every_known_shape_is_read(void **state)
{
    static const struct {
        const char *text;
        int64_t s;
        uint32_t ns;
    } rows[] = {
        /* the two drivers of Lango */
        {"2026-11-15 08:29:56.833802968+00:00", 1794731396, 833802968},
        {"2026-11-15 08:29:56.88868138 +0000 UTC m=+0.036177572", 1794731396, 888681380},
        {"2026-11-15 17:29:56.943284707+09:00", 1794731396, 943284707},
        {"2026-11-15 17:29:56.99593155 +0900 KST m=+0.033358145", 1794731396, 995931550},
        {"2026-04-13 10:00:00.123456789+00:00", T_2026, 123456789},
        {"2026-04-13 10:00:00.123456789 +0000 UTC", T_2026, 123456789},
        {"2026-04-13 18:30:01.5+09:00", T_2026 - 1799, 500000000},
        {"2026-04-13 18:30:01.5 +0900 KST", T_2026 - 1799, 500000000},
        {"2026-11-14 08:29:56.905468805 +0000 UTC m=-86399.947035003", 1794644996, 905468805},
        {"0001-01-01 00:00:00+00:00", QP_TIME_S_MIN, 0},
        {"0001-01-01 00:00:00 +0000 UTC", QP_TIME_S_MIN, 0},
        /* zones without a name, as Go prints them */
        {"2026-04-13 07:00:00 -0300 -03", T_2026, 0},
        {"2026-04-13 15:45:00 +0545 +0545 m=+1.5", T_2026, 0},
        {"2026-04-13 10:00:00 +0000 UTC m=+7", T_2026, 0},
        /* RFC 3339 and its neighbours */
        {"2026-04-13T10:00:00.000Z", T_2026, 0},
        {"2026-04-13T10:00:00Z", T_2026, 0},
        {"2026-04-13t10:00:00z", T_2026, 0},
        {"2026-04-13 10:00:00Z", T_2026, 0},
        {"2026-04-13T10:00:00.1+00:00", T_2026, 100000000},
        {"2026-04-13T11:00:00+0100", T_2026, 0},
        {"2026-04-14T09:59:00+23:59", T_2026, 0},
        {"2026-04-12T10:01:00-23:59", T_2026, 0},
        {"2026-04-13T10:00:00-00:00", T_2026, 0},
        /* no offset is UTC */
        {"2026-04-13 10:00:00", T_2026, 0},
        {"2026-04-13T10:00:00.000000001", T_2026, 1},
        /* integers */
        {"1776074400", T_2026, 0},
        {"1776074400123", T_2026, 123000000},
        {"0", 0, 0},
        {"-1", -1, 0},
        {"+5", 5, 0},
        {"-62135596800", QP_TIME_S_MIN, 0},
        {"253402300799", QP_TIME_S_MAX, 0},
        {"253402300799999", QP_TIME_S_MAX, 999000000},
        {"-1000000000001", -1000000001, 999000000},
        /* the ends and the leap days */
        {"9999-12-31 23:59:59.999999999+00:00", QP_TIME_S_MAX, 999999999},
        {"2024-02-29 00:00:00+00:00", 1709164800, 0},
        {"2000-02-29 00:00:00Z", 951782400, 0},
        {"1969-12-31 23:59:59.5Z", -1, 500000000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        quipu_time time = {0, 0};
        if (quipu_time_parse(quipu_cstr(rows[i].text), &time) != QUIPU_OK) {
            fail_msg("not read: %s", rows[i].text);
        }
        if (time.s != rows[i].s || time.ns != rows[i].ns) {
            fail_msg("%s gives %lld.%09u", rows[i].text, (long long)time.s, time.ns);
        }
    }
}

static const char *const time_bad_rows[] = {"",
                                            " ",
                                            "-",
                                            "+",
                                            "T",
                                            "Z",
                                            "now",
                                            "2026", /* a year is an integer: see below */
                                            "2026-04-13",
                                            "2026-04-13 10:00",
                                            "2026-04-13 10:00:",
                                            "2026-04-13T10:00:0",
                                            "2026-02-30 00:00:00Z",
                                            "2025-02-29 00:00:00Z",
                                            "1900-02-29 00:00:00Z",
                                            "2026-04-31 00:00:00Z",
                                            "2026-00-10 00:00:00Z",
                                            "2026-13-10 00:00:00Z",
                                            "2026-04-00 00:00:00Z",
                                            "2026-04-13 24:00:00Z",
                                            "2026-04-13 25:00:00Z",
                                            "2026-04-13 10:60:00Z",
                                            "2026-12-31 23:59:60Z",
                                            "0000-01-01 00:00:00Z",
                                            "2026-04-13 10:00:00.Z",
                                            "2026-04-13 10:00:00.1234567890Z",
                                            "2026-04-13 10:00:00.0123456789Z",
                                            "2026-04-13 10:00:00,5Z",
                                            "2026-04-13 10:00:00+24:00",
                                            "2026-04-13 10:00:00+09:60",
                                            "2026-04-13 10:00:00+9:00",
                                            "2026-04-13 10:00:00+09",
                                            "2026-04-13 10:00:00+09:0",
                                            "2026-04-13 10:00:00 KST",
                                            "2026-04-13 10:00:00 +0900 ",
                                            "2026-04-13 10:00:00 +0900 K$T",
                                            "2026-04-13 10:00:00 +0900 ABCDEFGHIJK",
                                            "2026-04-13 10:00:00 +0900 KST m=",
                                            "2026-04-13 10:00:00 +0900 KST m=+",
                                            "2026-04-13 10:00:00 +0900 KST m=1.5",
                                            "2026-04-13 10:00:00 +0900 KST m=+1.",
                                            "2026-04-13 10:00:00 +0900 KST m=+1.5x",
                                            "2026-04-13 10:00:00ZZ",
                                            "2026-04-13 10:00:00Z ",
                                            " 2026-04-13 10:00:00Z",
                                            "2026/04/13 10:00:00Z",
                                            "2026-04-13_10:00:00Z",
                                            "2026-4-13 10:00:00Z",
                                            "20x6-04-13 10:00:00Z",
                                            "2026-04-13 10-00-00Z",
                                            "2026-04-13  10:00:00Z",
                                            "2026-04-13 10:00:00.123456789+00:0x",
                                            "2026-04-13 10:00:00.12345x789+00:00",
                                            "0001-01-01 00:00:00+00:01",
                                            "9999-12-31 23:59:59-00:01",
                                            "1.5",
                                            "12a",
                                            "1e9",
                                            "0x10",
                                            "253402300800",
                                            "-62135596801",
                                            "1000000000000",
                                            "253402300800000",
                                            "99999999999999999999",
                                            "-",
                                            "--1"};

static void what_is_no_instant_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(time_bad_rows) / sizeof(time_bad_rows[0]); i++) {
        quipu_time time = {42, 42};
        quipu_status status = quipu_time_parse(quipu_cstr(time_bad_rows[i]), &time);
        if (strcmp(time_bad_rows[i], "2026") == 0) {
            T_OK(status);
            assert_int_equal(time.s, 2026);
            continue;
        }
        if (status != QUIPU_INVALID) {
            fail_msg("read: \"%s\"", time_bad_rows[i]);
        }
        assert_int_equal(time.s, 42); /* untouched */
    }
    quipu_time time;
    T_STATUS(quipu_time_parse((quipu_str){NULL, 0}, &time), QUIPU_INVALID);
    T_STATUS(quipu_time_parse(QUIPU_STR("1"), NULL), QUIPU_MISUSE);
}

static void every_truncation_and_mutation_of_a_time_is_safe(void **state)
{
    static const char *const rows[] = {"2026-11-15 08:29:56.833802968+00:00",
                                       "2026-11-15 17:29:56.99593155 +0900 KST m=+0.033358145"};
    uint64_t seed = t_seed();

    (void)state;
    for (int64_t round = t_count(100000, 3000000); round > 0; round--) {
        const char *row = rows[round % 2];
        size_t n = (size_t)t_random_below(&seed, strlen(row) + 1);
        char *text = malloc(n + 1);
        char back[QUIPU_TIME_TEXT_SIZE];
        quipu_time time;
        memcpy(text, row, n);
        for (uint64_t k = t_random_below(&seed, 3); k > 0 && n != 0; k--) {
            text[t_random_below(&seed, n)] = "0123456789:-+. TZm=\0\xff"[t_random_below(&seed, 21)];
        }
        char *exact = malloc(n != 0 ? n : 1);
        memcpy(exact, text, n);
        if (quipu_time_parse((quipu_str){exact, n}, &time) == QUIPU_OK) {
            T_OK(quipu_time_format(time, back)); /* what is read can be stored */
        }
        free(exact);
        free(text);
    }
}

/* A "T" between date and time leads past the path for the stored shape. */
static void stored_shape_is_read_as_the_tolerant_reader_reads_it(void **state)
{
    static const char row[] = "2024-02-29 08:29:56.833802968+00:00";

    (void)state;
    for (size_t at = 0; at < sizeof(row) - 1; at++) {
        for (int byte = 0; byte < 256 && at != 10; byte++) {
            char stored[sizeof(row)];
            char other[sizeof(row)];
            quipu_time a = {0, 0};
            quipu_time b = {0, 0};

            memcpy(stored, row, sizeof(row));
            stored[at] = (char)byte;
            memcpy(other, stored, sizeof(row));
            other[10] = 'T';
            quipu_status status = quipu_time_parse((quipu_str){stored, sizeof(row) - 1}, &a);
            T_STATUS(quipu_time_parse((quipu_str){other, sizeof(row) - 1}, &b), status);
            assert_int_equal(a.s, b.s);
            assert_int_equal(a.ns, b.ns);
        }
    }
}

/* The C library's calendar as the second opinion. */
static void time_against_libc(quipu_time time)
{
    time_t s = (time_t)time.s;
    struct tm tm;
    char expected[64];
    char text[QUIPU_TIME_TEXT_SIZE];
    char short_text[QP_TIME_RFC3339_SIZE];
    quipu_time back = {0, 0};
    size_t n = 0;

    assert_non_null(gmtime_r(&s, &tm));
    (void)snprintf(expected, sizeof(expected), "%04d-%02d-%02d %02d:%02d:%02d.%09u+00:00",
                   tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   time.ns);
    T_OK(quipu_time_format(time, text));
    assert_string_equal(text, expected);
    T_OK(quipu_time_parse(quipu_cstr(text), &back));
    assert_int_equal(quipu_time_cmp(back, time), 0);
    T_OK(qp_time_rfc3339(time, short_text, &n));
    assert_int_equal(strlen(short_text), n);
    T_OK(quipu_time_parse(quipu_cstr(short_text), &back));
    assert_int_equal(quipu_time_cmp(back, time), 0);
}

static void random_instants_round_trip_and_agree_with_libc(void **state)
{
    uint64_t seed = t_seed();
    uint64_t range = (uint64_t)(QP_TIME_S_MAX - QP_TIME_S_MIN) + 1;

    (void)state;
    for (int64_t round = t_count(100000, 5000000); round > 0; round--) {
        quipu_time time = {QP_TIME_S_MIN + (int64_t)t_random_below(&seed, range),
                           (uint32_t)t_random_below(&seed, 1000000000)};
        if (round % 4 == 0) {
            time.ns = time.ns / 1000000 * 1000000;
        }
        time_against_libc(time);
    }
}

static void every_day_of_the_range_agrees_with_libc(void **state)
{
    int64_t step = t_long() ? 1 : 3;

    (void)state;
    for (int64_t s = QP_TIME_S_MIN; s <= QP_TIME_S_MAX; s += 86400 * step) {
        time_against_libc((quipu_time){s, 0});
    }
    time_against_libc((quipu_time){QP_TIME_S_MAX, QP_TIME_NS_MAX});
}

static void text_order_is_time_order(void **state)
{
    uint64_t seed = t_seed();
    char a_text[QUIPU_TIME_TEXT_SIZE];
    char b_text[QUIPU_TIME_TEXT_SIZE];

    (void)state;
    for (int round = 0; round < 20000; round++) {
        quipu_time a = {(int64_t)t_random_below(&seed, 1 << 20) - (1 << 19),
                        (uint32_t)t_random_below(&seed, 1000000000)};
        quipu_time b = {a.s + (int64_t)t_random_below(&seed, 3) - 1,
                        (uint32_t)t_random_below(&seed, 1000000000)};
        T_OK(quipu_time_format(a, a_text));
        T_OK(quipu_time_format(b, b_text));
        int order = strcmp(a_text, b_text);
        assert_int_equal((order > 0) - (order < 0), quipu_time_cmp(a, b));
    }
}

static void instants_outside_the_range_are_not_written(void **state)
{
    char text[QUIPU_TIME_TEXT_SIZE] = "untouched";
    const quipu_time bad[] = {{QP_TIME_S_MIN - 1, 0},
                              {QP_TIME_S_MAX + 1, 0},
                              {0, 1000000000},
                              {INT64_MIN, 0},
                              {INT64_MAX, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        T_STATUS(quipu_time_format(bad[i], text), QUIPU_INVALID);
        T_STATUS(qp_time_rfc3339(bad[i], text, NULL), QUIPU_INVALID);
        assert_string_equal(text, "untouched");
    }
    T_STATUS(quipu_time_format((quipu_time){0, 0}, NULL), QUIPU_MISUSE);
}

static void rfc3339_is_written_as_go_does(void **state)
{
    static const struct {
        uint32_t ns;
        const char *text;
    } rows[] = {{0, "2026-04-13T10:00:00Z"},
                {123456789, "2026-04-13T10:00:00.123456789Z"},
                {500000000, "2026-04-13T10:00:00.5Z"},
                {1000, "2026-04-13T10:00:00.000001Z"},
                {1, "2026-04-13T10:00:00.000000001Z"}};
    char text[QP_TIME_RFC3339_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        T_OK(qp_time_rfc3339((quipu_time){T_2026, rows[i].ns}, text, NULL));
        assert_string_equal(text, rows[i].text);
    }
}

static void moving_an_instant_stays_in_the_range_or_fails(void **state)
{
    quipu_time time = {7, 7};

    (void)state;
    T_OK(qp_time_add_ms((quipu_time){10, 999000000}, 1, &time));
    assert_true(time.s == 11 && time.ns == 0);
    T_OK(qp_time_add_ms((quipu_time){10, 0}, -1, &time));
    assert_true(time.s == 9 && time.ns == 999000000);
    T_OK(qp_time_add_ms((quipu_time){10, 5}, -10000, &time));
    assert_true(time.s == 0 && time.ns == 5);
    T_OK(qp_time_add_ms((quipu_time){QP_TIME_S_MAX, 998999999}, 1, &time));
    T_STATUS(qp_time_add_ms((quipu_time){QP_TIME_S_MAX, 999000000}, 1, &time), QUIPU_INVALID);
    T_STATUS(qp_time_add_ms((quipu_time){QP_TIME_S_MIN, 0}, -1, &time), QUIPU_INVALID);
    T_STATUS(qp_time_add_ms((quipu_time){0, 0}, INT64_MAX, &time), QUIPU_INVALID);
    T_STATUS(qp_time_add_ms((quipu_time){0, 0}, INT64_MIN, &time), QUIPU_INVALID);
    T_STATUS(qp_time_add_ms((quipu_time){INT64_MAX, 0}, 1, &time), QUIPU_INVALID);
}

static void unix_nanoseconds_fit_or_fail(void **state)
{
    int64_t ns = 0;

    (void)state;
    T_OK(qp_time_to_unix_ns((quipu_time){T_2026, 5}, &ns));
    assert_int_equal(ns, T_2026 * 1000000000 + 5);
    T_OK(qp_time_to_unix_ns((quipu_time){-1, 999999999}, &ns));
    assert_int_equal(ns, -1);
    T_OK(qp_time_to_unix_ns((quipu_time){9223372036, 854775807}, &ns));
    assert_int_equal(ns, INT64_MAX);
    T_STATUS(qp_time_to_unix_ns((quipu_time){9223372036, 854775808}, &ns), QUIPU_INVALID);
    T_OK(qp_time_to_unix_ns((quipu_time){-9223372037, 145224192}, &ns));
    assert_int_equal(ns, INT64_MIN);
    T_STATUS(qp_time_to_unix_ns((quipu_time){-9223372037, 145224191}, &ns), QUIPU_INVALID);
    T_STATUS(qp_time_to_unix_ns((quipu_time){QP_TIME_S_MAX, 0}, &ns), QUIPU_INVALID);
}

static void now_is_a_storable_instant(void **state)
{
    char text[QUIPU_TIME_TEXT_SIZE];

    (void)state;
    T_OK(quipu_time_format(quipu_time_now(), text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_shape_is_read),
        cmocka_unit_test(what_is_no_instant_is_refused),
        cmocka_unit_test(every_truncation_and_mutation_of_a_time_is_safe),
        cmocka_unit_test(stored_shape_is_read_as_the_tolerant_reader_reads_it),
        cmocka_unit_test(random_instants_round_trip_and_agree_with_libc),
        cmocka_unit_test(every_day_of_the_range_agrees_with_libc),
        cmocka_unit_test(text_order_is_time_order),
        cmocka_unit_test(instants_outside_the_range_are_not_written),
        cmocka_unit_test(rfc3339_is_written_as_go_does),
        cmocka_unit_test(moving_an_instant_stays_in_the_range_or_fails),
        cmocka_unit_test(unix_nanoseconds_fit_or_fail),
        cmocka_unit_test(now_is_a_storable_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
