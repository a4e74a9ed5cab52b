/* Normalization Form C against what Python's unicodedata makes of random texts
 * (tests/vectors/nfc.txt, printed by tools/make_nfc.py --vectors 400), and rules of the standard.
 */
#include "lib/t.h"

#include <ctype.h>

#include "ent/nfc.h"

#define NFC_TEXT_MAX 256

/* The Form C of a text; the caller frees the buffer. */
static quipu_str nfc_of(quipu_str text, qp_buf *buf)
{
    qp_buf_init(buf, (size_t)1 << 20);
    qp_nfc_put(text, buf);
    assert_int_equal(qp_buf_status(buf), QUIPU_OK);
    return qp_buf_str(buf);
}

static void nfc_expect(const char *given, const char *expected)
{
    qp_buf buf;

    T_STR(nfc_of(quipu_cstr(given), &buf), expected);
    qp_buf_free(&buf);
}

/* Form D takes Form C apart: a text and its Form C have the same one, which composes to Form C. */
static void nfd_expect(const char *given, const char *composed)
{
    qp_buf first;
    qp_buf second;

    qp_buf_init(&first, (size_t)1 << 20);
    qp_buf_init(&second, (size_t)1 << 20);
    qp_nfd_put(quipu_cstr(given), &first);
    qp_nfd_put(quipu_cstr(composed), &second);
    assert_int_equal(qp_buf_status(&first), QUIPU_OK);
    assert_string_equal(qp_buf_str(&first).p, qp_buf_str(&second).p);
    nfc_expect(qp_buf_str(&first).p, composed);
    qp_buf_free(&first);
    qp_buf_free(&second);
}

/* Hexadecimal digits up to a space or a line end. */
static size_t nfc_hex(const char **at, char ret[NFC_TEXT_MAX])
{
    size_t n = 0;

    while (isxdigit((unsigned char)(*at)[0]) != 0) {
        char digits[3] = {(*at)[0], (*at)[1], '\0'};
        char *end = NULL;

        assert_true(n < NFC_TEXT_MAX - 1);
        ret[n++] = (char)strtol(digits, &end, 16);
        assert_ptr_equal(end, digits + 2);
        *at += 2;
    }
    ret[n] = '\0';
    return n;
}

static void random_texts_become_what_unicode_says(void **state)
{
    char given[NFC_TEXT_MAX];
    char expected[NFC_TEXT_MAX];
    size_t size = 0;
    char *file = t_file_read(QUIPU_SOURCE_DIR "/tests/vectors/nfc.txt", &size);
    int count = 0;

    (void)state;
    for (const char *at = file; at < file + size; at++) {
        const size_t n = nfc_hex(&at, given);
        assert_int_equal(*at, ' ');
        at++;
        (void)nfc_hex(&at, expected);
        assert_int_equal(*at, '\n');
        nfc_expect(given, expected);
        nfc_expect(expected, expected);
        nfd_expect(given, expected);
        if (qp_nfc_is((quipu_str){given, n})) {
            assert_string_equal(given, expected);
        }
        count++;
    }
    assert_int_equal(count, 400);
    free(file);
}

static void decomposed_korean_and_japanese_is_composed(void **state)
{
    (void)state;
    nfc_expect("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\xe1\x84\x80\xe1\x85\xb3\xe1\x86\xaf", "한글");
    nfc_expect("\xe3\x81\x8b\xe3\x82\x99\xe3\x81\xaf\xe3\x82\x9a", "がぱ");
    nfc_expect("cafe\xcc\x81", "café");
}

static void composed_korean_and_japanese_is_taken_apart(void **state)
{
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, (size_t)1 << 20);
    qp_nfd_put(QUIPU_STR("한 が"), &buf);
    T_STR(qp_buf_str(&buf), "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab \xe3\x81\x8b\xe3\x82\x99");
    qp_buf_free(&buf);
}

static void common_texts_need_no_closer_look(void **state)
{
    static const char *const texts[] = {"",     "plain", "naïve café", "Привет", "北京",
                                        "がぱ", "한글",  "Tiếng Việt", "😀"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_true(qp_nfc_is(quipu_cstr(texts[i])));
        nfc_expect(texts[i], texts[i]);
    }
    assert_false(qp_nfc_is(QUIPU_STR("e\xcc\x81")));
}

static void bytes_that_are_no_text_are_kept(void **state)
{
    (void)state;
    nfc_expect("a\xff"
               "e\xcc\x81\xcc",
               "a\xff"
               "é\xcc");
}

/* A run at the limit is put into order as a whole; one mark more begins another run. */
static void a_run_of_marks_is_bounded(void **state)
{
    char text[2 * (QP_NFC_RUN_MAX + 2) + 2];

    (void)state;
    for (size_t marks = QP_NFC_RUN_MAX - 1; marks <= QP_NFC_RUN_MAX; marks++) {
        qp_buf buf;
        size_t n = 0;

        text[n++] = 'e';
        for (size_t i = 0; i + 1 < marks; i++) {
            memcpy(text + n, "\xcc\xa3", 2); /* a dot below, class 220 */
            n += 2;
        }
        memcpy(text + n, "\xcc\x9b", 2); /* a horn, class 216: belongs before the dots */
        n += 2;
        const quipu_str made = nfc_of((quipu_str){text, n}, &buf);
        const bool first = memcmp(made.p + 3, "\xcc\x9b", 2) == 0 || made.p[0] != 'e';
        assert_int_equal(made.n >= n - 2, true);
        assert_true(first);
        assert_int_equal(memcmp(made.p + made.n - 2, "\xcc\x9b", 2) == 0, marks == QP_NFC_RUN_MAX);
        qp_buf_free(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_become_what_unicode_says),
        cmocka_unit_test(decomposed_korean_and_japanese_is_composed),
        cmocka_unit_test(composed_korean_and_japanese_is_taken_apart),
        cmocka_unit_test(common_texts_need_no_closer_look),
        cmocka_unit_test(bytes_that_are_no_text_are_kept),
        cmocka_unit_test(a_run_of_marks_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
