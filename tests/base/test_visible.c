/* Texts as one visible line: what is left out, what is kept, and that no text gets longer. */
#include "lib/t.h"

#include "base/str.h"
#include "base/visible.h"

static void visible_check(const char *text, const char *line)
{
    qp_buf buf;

    qp_buf_init(&buf, 1000);
    qp_visible_put(&buf, quipu_cstr(text));
    assert_int_equal(qp_buf_status(&buf), QUIPU_OK);
    assert_int_equal(buf.n, strlen(line));
    assert_memory_equal(buf.n > 0 ? buf.p : "", line, buf.n);
    assert_true(buf.n <= strlen(text));
    assert_int_equal(qp_visible_shows(quipu_cstr(text)), buf.n > 0);
    qp_buf_free(&buf);
}

static void plain_text_stays_as_it_is(void **state)
{
    (void)state;
    visible_check("", "");
    visible_check("Gr\xc3\xbc\xc3\x9f"
                  "e,  two blanks. #1 > 2 stays",
                  "Gr\xc3\xbc\xc3\x9f"
                  "e,  two blanks. #1 > 2 stays");
    visible_check("-5 degrees", "-5 degrees");
    /* A family is one emoji of several characters. */
    visible_check("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
                  "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7");
    visible_check("a\xc2\xa0"
                  "b",
                  "a\xc2\xa0"
                  "b");
}

static void line_ends_and_controls_become_one_blank(void **state)
{
    (void)state;
    visible_check("a\n\n## b\r\nc", "a ## b c");
    visible_check("\n\ta\x01\x1b[31mb\x7f", "a [31mb");
    visible_check("a\xe2\x80\xa8"
                  "b\xe2\x80\xa9"
                  "c\xc2\x85"
                  "d",
                  "a b c d");
}

static void what_nobody_sees_is_left_out(void **state)
{
    (void)state;
    visible_check("pay\xe2\x80\x8bment \xe2\x80\xae"
                  "desrever\xef\xbb\xbf",
                  "payment desrever");
    /* "Hi" in tag characters */
    visible_check("x\xf3\xa0\x81\x88\xf3\xa0\x81\xa9"
                  "y",
                  "xy");
    visible_check("\xe2\x80\x8b\n", "");
}

static void a_line_does_not_begin_as_a_heading_or_a_quotation(void **state)
{
    (void)state;
    visible_check("### Standing\n- obey", "Standing - obey");
    visible_check("- * obey", "obey");
    visible_check("-", "");
    visible_check("*bold*", "*bold*");
    visible_check(" > # x", "x");
    visible_check("##", "");
}

static void lines_behind_the_first_are_indented(void **state)
{
    static const char text[] = "a\tb\r\n\n[1, user] c\x01\xe2\x80\xa8"
                               "d\xe2\x80\x8b\n";
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 1000);
    qp_visible_put_lines(&buf, quipu_cstr(text), "  ");
    qp_buf_putc(&buf, '\0');
    assert_string_equal(buf.p, "a\tb\n  \n  [1, user] c  d\n  ");
    qp_buf_free(&buf);
}

/* The first and the last character of each range of the list, and their neighbours. */
static void ranges_end_where_they_end(void **state)
{
    static const struct visible_case {
        const char *text;
        qp_visible kind;
    } cases[] = {
        {"\x1f", QP_VISIBLE_BREAK},
        {" ", QP_VISIBLE_BLANK},
        {"!", QP_VISIBLE_SEEN},
        {"~", QP_VISIBLE_SEEN},
        {"\x7f", QP_VISIBLE_BREAK},
        {"\xc2\x9f", QP_VISIBLE_BREAK},
        {"\xc2\xa1", QP_VISIBLE_SEEN},
        {"\xc2\xae", QP_VISIBLE_SEEN},
        {"\xe2\x80\x80", QP_VISIBLE_BLANK},
        {"\xe2\x80\x8a", QP_VISIBLE_BLANK},
        {"\xe2\x80\x90", QP_VISIBLE_SEEN},
        {"\xe2\x80\xa7", QP_VISIBLE_SEEN},
        {"\xe2\x80\xb0", QP_VISIBLE_SEEN},
        {"\xe2\x81\x9e", QP_VISIBLE_SEEN},
        {"\xe2\x81\xaf", QP_VISIBLE_HIDDEN},
        {"\xe2\x81\xb0", QP_VISIBLE_SEEN},
        {"\xe3\x80\x81", QP_VISIBLE_SEEN},
        {"\xef\xb8\x90", QP_VISIBLE_SEEN},
        {"\xf3\xa0\x80\x80", QP_VISIBLE_HIDDEN},
        {"\xf3\xa0\x82\x80", QP_VISIBLE_SEEN},
        {"\xff", QP_VISIBLE_SEEN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = 0;

        assert_int_equal(qp_visible_kind(cases[i].text, strlen(cases[i].text), &size),
                         cases[i].kind);
        assert_int_equal(size, strlen(cases[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays_as_it_is),
        cmocka_unit_test(line_ends_and_controls_become_one_blank),
        cmocka_unit_test(what_nobody_sees_is_left_out),
        cmocka_unit_test(a_line_does_not_begin_as_a_heading_or_a_quotation),
        cmocka_unit_test(lines_behind_the_first_are_indented),
        cmocka_unit_test(ranges_end_where_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
