/* The JSON writer: what it writes is JSON that reads back as what was given. */
#include "lib/t.h"

#include <math.h>

#include "base/json.h"
#include "base/json_gen.h"
#include "base/jsonw.h"
#include "base/str.h"

static void values_get_their_commas_and_brackets(void **state)
{
    qp_jsonw w;
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 1000);
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_object(&w);
    qp_jsonw_key(&w, QUIPU_STR("a"));
    qp_jsonw_array(&w);
    qp_jsonw_i64(&w, INT64_MIN);
    qp_jsonw_bool(&w, true);
    qp_jsonw_bool(&w, false);
    qp_jsonw_null(&w);
    qp_jsonw_array(&w);
    qp_jsonw_array_end(&w);
    qp_jsonw_object(&w);
    qp_jsonw_object_end(&w);
    qp_jsonw_array(&w); /* a level that was an object before */
    qp_jsonw_null(&w);
    qp_jsonw_array_end(&w);
    qp_jsonw_array_end(&w);
    qp_jsonw_key(&w, QUIPU_STR("b\n"));
    qp_jsonw_raw(&w, QUIPU_STR("1.0e+05"));
    qp_jsonw_raw_key(&w, QUIPU_STR("\"\\u0063\""));
    qp_jsonw_str(&w, QUIPU_STR(""));
    qp_jsonw_key(&w, QUIPU_STR(""));
    qp_jsonw_double(&w, 0.1);
    qp_jsonw_object_end(&w);
    T_OK(qp_jsonw_end(&w));
    T_STR(qp_buf_str(&buf),
          "{\"a\":[-9223372036854775808,true,false,null,[],{},[null]],\"b\\n\":1.0e+05,"
          "\"\\u0063\":\"\",\"\":0.1}");
    T_OK(qp_json_check(qp_buf_str(&buf), NULL, NULL));
    qp_buf_free(&buf);
}

static void only_what_must_be_is_escaped(void **state)
{
    qp_jsonw w;
    qp_buf buf;
    char all[0x21];

    (void)state;
    qp_buf_init(&buf, 1000);
    for (int i = 0; i <= 0x20; i++) {
        all[i] = (char)i;
    }
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_str(&w, (quipu_str){all, sizeof(all)});
    T_OK(qp_jsonw_end(&w));
    T_STR(qp_buf_str(&buf),
          "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e"
          "\\u000f\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a"
          "\\u001b\\u001c\\u001d\\u001e\\u001f \"");
    qp_buf_reset(&buf);
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_str(&w, QUIPU_STR("<>&'/\"\\\x7f\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"));
    T_OK(qp_jsonw_end(&w));
    T_STR(qp_buf_str(&buf), "\"<>&'/\\\"\\\\\x7f\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80\"");
    qp_buf_free(&buf);
}

/* Simple texts are copied, others written byte by byte: every byte at every place of every length
 * around the eights that are looked at together. */
static void every_byte_is_written_alike_at_every_place(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        for (size_t at = 0; at < n; at++) {
            for (int byte = 0; byte < 0x100; byte++) {
                char text[20];
                char one[1] = {(char)byte};
                qp_buf whole;
                qp_buf parts;
                qp_jsonw w;

                memset(text, 'a', sizeof(text));
                text[at] = (char)byte;
                qp_buf_init(&whole, 1000);
                qp_buf_init(&parts, 1000);
                qp_jsonw_begin(&w, &whole);
                qp_jsonw_str(&w, (quipu_str){text, n});
                qp_jsonw_begin(&w, &parts);
                qp_jsonw_str(&w, (quipu_str){one, 1});
                assert_int_equal(qp_buf_status(&whole), byte < 0x80 ? QUIPU_OK : QUIPU_INVALID);
                assert_int_equal(qp_buf_status(&parts), qp_buf_status(&whole));
                if (byte < 0x80) { /* the one byte's own form, between the others */
                    assert_int_equal(whole.n, n - 1 + parts.n);
                    assert_memory_equal(whole.p + 1 + at, parts.p + 1, parts.n - 2);
                }
                qp_buf_free(&whole);
                qp_buf_free(&parts);
            }
        }
    }
}

static void text_that_is_not_utf8_is_never_written(void **state)
{
    qp_jsonw w;
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 1000);
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_array(&w);
    qp_jsonw_str(&w, QUIPU_STR("\xed\xa0\x80"));
    qp_jsonw_array_end(&w);
    T_STATUS(qp_jsonw_end(&w), QUIPU_INVALID);
    qp_buf_reset(&buf);
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_double(&w, (double)NAN);
    T_STATUS(qp_jsonw_end(&w), QUIPU_INVALID);
    qp_buf_free(&buf);
}

static void random_text_reads_back_the_same(void **state)
{
    uint64_t seed = t_seed();
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_json_doc doc;
    qp_jsonw w;
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 10000);
    qp_json_init(&doc);
    for (int64_t round = t_count(20000, 1000000); round > 0; round--) {
        char text[200];
        char put[4];
        size_t n = 0;
        quipu_str back;
        for (uint64_t k = t_random_below(&seed, 40); k > 0; k--) {
            uint32_t point = (uint32_t)t_random_below(&seed, k % 3 == 0 ? 0x110000 : 0x60);
            if (point != 0 && (point < 0xd800 || point >= 0xe000)) {
                size_t size = qp_utf8_put(point, put);
                memcpy(text + n, put, size);
                n += size;
            }
        }
        qp_buf_reset(&buf);
        qp_jsonw_begin(&w, &buf);
        qp_jsonw_str(&w, (quipu_str){text, n});
        T_OK(qp_jsonw_end(&w));
        T_OK(qp_json_parse(&doc, qp_buf_str(&buf), NULL, NULL));
        T_OK(qp_json_text(qp_json_root(&doc), &arena, &back, NULL));
        assert_true(back.n == n && memcmp(back.p, text, n) == 0);
        assert_true(qp_json_text_is(qp_json_root(&doc), (quipu_str){text, n}));
        quipu_arena_reset(&arena);
    }
    qp_json_free(&doc);
    qp_buf_free(&buf);
    quipu_arena_free(&arena);
}

static void doubles_read_back_the_same_and_are_short(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.1, "0.1"},
                {1.0, "1"},
                {-0.0, "-0"},
                {1e300, "1e+300"},
                {5e-324, "4.94065645841247e-324"},
                {1.0 / 3, "0.3333333333333333"},
                {123456.789, "123456.789"}};
    uint64_t seed = t_seed();
    char text[QP_DOUBLE_TEXT_SIZE];
    qp_json_doc doc;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(qp_double_text(rows[i].value, text));
        assert_string_equal(text, rows[i].text);
    }
    assert_false(qp_double_text((double)INFINITY, text));
    qp_json_init(&doc);
    for (int64_t round = t_count(20000, 1000000); round > 0; round--) {
        uint64_t bits = t_random(&seed);
        double value;
        double back = 0.0;
        memcpy(&value, &bits, sizeof(value));
        if (!qp_double_text(value, text)) {
            continue;
        }
        T_OK(qp_json_parse(&doc, quipu_cstr(text), NULL, NULL));
        assert_int_not_equal(qp_json_double(qp_json_root(&doc), &back), QP_JSON_NO_NUMBER);
        assert_memory_equal(&value, &back, sizeof(value));
    }
    qp_json_free(&doc);
}

static void depth_of_the_writer_is_what_the_reader_takes(void **state)
{
    qp_jsonw w;
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 10000);
    for (int more = 0; more <= 1; more++) {
        qp_buf_reset(&buf);
        qp_jsonw_begin(&w, &buf);
        for (int i = 0; i < QP_JSON_DEPTH_MAX + more; i++) {
            qp_jsonw_array(&w);
        }
        for (int i = 0; i < QP_JSON_DEPTH_MAX + more; i++) {
            qp_jsonw_array_end(&w);
        }
        T_STATUS(qp_jsonw_end(&w), more != 0 ? QUIPU_LIMIT : QUIPU_OK);
    }
    qp_buf_reset(&buf);
    qp_jsonw_begin(&w, &buf);
    for (int i = 0; i < QP_JSON_DEPTH_MAX / 2; i++) { /* kinds are kept apart on the way back */
        qp_jsonw_array(&w);
        qp_jsonw_object(&w);
        qp_jsonw_key(&w, QUIPU_STR("k"));
    }
    qp_jsonw_null(&w);
    for (int i = 0; i < QP_JSON_DEPTH_MAX / 2; i++) {
        qp_jsonw_object_end(&w);
        qp_jsonw_array_end(&w);
    }
    T_OK(qp_jsonw_end(&w));
    T_OK(qp_json_check(qp_buf_str(&buf), NULL, NULL));
    qp_buf_free(&buf);
}

static void jsonw_fault_body(void *ctx)
{
    qp_jsonw w;
    qp_buf buf;

    qp_buf_init(&buf, *(size_t *)ctx);
    qp_jsonw_begin(&w, &buf);
    qp_jsonw_object(&w);
    for (int i = 0; i < 100; i++) {
        qp_jsonw_key(&w, QUIPU_STR("key"));
        qp_jsonw_array(&w);
        qp_jsonw_str(&w, QUIPU_STR("some text\n"));
        qp_jsonw_i64(&w, i);
        qp_jsonw_array_end(&w);
    }
    qp_jsonw_object_end(&w);
    T_STATUS(qp_jsonw_end(&w), t_fault_fired() != 0 ? QUIPU_NOMEM : QUIPU_OK);
    qp_buf_free(&buf);
}

static void writer_without_memory_says_so_and_leaks_nothing(void **state)
{
    size_t size_max = 100000;

    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(jsonw_fault_body, &size_max) > 0);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_get_their_commas_and_brackets),
        cmocka_unit_test(only_what_must_be_is_escaped),
        cmocka_unit_test(every_byte_is_written_alike_at_every_place),
        cmocka_unit_test(text_that_is_not_utf8_is_never_written),
        cmocka_unit_test(random_text_reads_back_the_same),
        cmocka_unit_test(doubles_read_back_the_same_and_are_short),
        cmocka_unit_test(depth_of_the_writer_is_what_the_reader_takes),
        cmocka_unit_test(writer_without_memory_says_so_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
