/* Base64 both ways. */
#include "lib/t.h"

#include "base/base64.h"

static void rfc_vectors_come_out_and_back(void **state)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        qp_buf buf;
        quipu_arena arena = QUIPU_ARENA_INIT;
        quipu_bytes back = {NULL, 0};
        qp_buf_init(&buf, 64);
        qp_base64_put(&buf, (quipu_bytes){plain[i], strlen(plain[i])});
        T_STR(qp_buf_str(&buf), coded[i]);
        T_OK(qp_base64_read(quipu_cstr(coded[i]), &arena, &back));
        assert_int_equal(back.n, strlen(plain[i]));
        assert_memory_equal(back.p, plain[i], back.n);
        quipu_arena_free(&arena);
        qp_buf_free(&buf);
    }
}

static void every_length_of_random_bytes_survives(void **state)
{
    uint64_t seed = t_seed();
    unsigned char bytes[300];

    (void)state;
    for (size_t n = 0; n < sizeof(bytes); n++) {
        qp_buf buf;
        quipu_arena arena = QUIPU_ARENA_INIT;
        quipu_bytes back = {NULL, 0};
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (unsigned char)t_random(&seed);
        }
        qp_buf_init(&buf, 1024);
        qp_base64_put(&buf, (quipu_bytes){bytes, n});
        T_OK(qp_base64_read(qp_buf_str(&buf), &arena, &back));
        assert_int_equal(back.n, n);
        assert_memory_equal(back.p, bytes, n);
        quipu_arena_free(&arena);
        qp_buf_free(&buf);
    }
}

static void url_alphabet_and_missing_padding_are_read(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_bytes back = {NULL, 0};
    static const unsigned char expected[] = {0xfb, 0xff, 0xfe, 0xff};

    (void)state;
    T_OK(qp_base64_read(QUIPU_STR("-__-_w"), &arena, &back));
    assert_int_equal(back.n, 4);
    assert_memory_equal(back.p, expected, 4);
    T_OK(qp_base64_read(QUIPU_STR("+//+/w=="), &arena, &back));
    assert_memory_equal(back.p, expected, 4);
    quipu_arena_free(&arena);
}

static void what_is_no_base64_is_refused(void **state)
{
    static const char *const bad[] = {
        "A", "AAAAA", "Zg=", "Z===", "====", "Zm 9v", "Zm9v=", "Z\n==", "Zg==Zg=="};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_bytes back = {NULL, 7};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        T_STATUS(qp_base64_read(quipu_cstr(bad[i]), &arena, &back), QUIPU_INVALID);
        assert_int_equal(back.n, 7);
    }
    quipu_arena_free(&arena);
}

static void stands_in_json_as_a_string(void **state)
{
    qp_buf buf;
    qp_jsonw writer;

    (void)state;
    qp_buf_init(&buf, 64);
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_array(&writer);
    qp_base64_json(&writer, (quipu_bytes){"foo", 3});
    qp_base64_json(&writer, (quipu_bytes){"", 0});
    qp_jsonw_array_end(&writer);
    T_OK(qp_jsonw_end(&writer));
    T_STR(qp_buf_str(&buf), "[\"Zm9v\",\"\"]");
    qp_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_vectors_come_out_and_back),
        cmocka_unit_test(every_length_of_random_bytes_survives),
        cmocka_unit_test(url_alphabet_and_missing_padding_are_read),
        cmocka_unit_test(what_is_no_base64_is_refused),
        cmocka_unit_test(stands_in_json_as_a_string),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
