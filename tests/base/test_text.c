/* Text: UTF-8 against a plain reference, text checks, hashes, SHA-256, token estimate, errors. */
#include "lib/t.h"

#include <quipu/base.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/token.h"

/* RFC 3629's table of well-formed byte sequences, line by line, and nothing clever. */
static size_t text_ref_step(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char low[4], high[4];
        size_t size;
    } rows[] = {
        {{0x00}, {0x7f}, 1},
        {{0xc2, 0x80}, {0xdf, 0xbf}, 2},
        {{0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}, 3},
        {{0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}, 3},
        {{0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}, 3},
        {{0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}, 3},
        {{0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}, 4},
        {{0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}, 4},
        {{0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}, 4},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        size_t i = 0;
        while (i < rows[r].size && i < n && p[i] >= rows[r].low[i] && p[i] <= rows[r].high[i]) {
            i++;
        }
        if (i == rows[r].size) {
            return i;
        }
    }
    return 0;
}

static size_t text_ref_prefix(const unsigned char *p, size_t n)
{
    size_t at = 0;

    while (at < n) {
        size_t step = text_ref_step(p + at, n - at);
        if (step == 0) {
            break;
        }
        at += step;
    }
    return at;
}

static void text_compare(const unsigned char *p, size_t n)
{
    quipu_str text = {(const char *)p, n};
    size_t valid = text_ref_prefix(p, n);
    const unsigned char *nul = memchr(p, 0, n);
    size_t offset = 12345;
    qp_text_fault fault = qp_text_check(text, &offset);

    assert_int_equal(qp_utf8_prefix(text), valid);
    assert_int_equal(qp_utf8_valid(text), valid == n);
    if (nul != NULL && (size_t)(nul - p) < valid) {
        assert_int_equal(fault, QP_TEXT_NUL);
        assert_int_equal(offset, nul - p);
    } else if (valid < n) {
        assert_int_equal(fault, QP_TEXT_UTF8);
        assert_int_equal(offset, valid);
    } else {
        assert_int_equal(fault, QP_TEXT_OK);
        assert_int_equal(offset, 12345);
    }
}

static void every_sequence_of_up_to_three_bytes_is_judged_right(void **state)
{
    unsigned char bytes[16];

    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            for (unsigned c = 0; c < 256; c += (a >= 0xc0 || t_long()) ? 1 : 17) {
                memset(bytes, 'x', sizeof(bytes));
                bytes[6] = (unsigned char)a;
                bytes[7] = (unsigned char)b;
                bytes[8] = (unsigned char)c;
                if (qp_utf8_prefix((quipu_str){(char *)bytes, 16}) != text_ref_prefix(bytes, 16) ||
                    qp_utf8_prefix((quipu_str){(char *)bytes + 6, 3}) !=
                        text_ref_prefix(bytes + 6, 3)) {
                    fail_msg("bytes %02x %02x %02x", a, b, c);
                }
            }
        }
    }
}

static void random_bytes_are_judged_as_the_reference_does(void **state)
{
    uint64_t seed = t_seed();

    (void)state;
    for (int64_t round = t_count(60000, 3000000); round > 0; round--) {
        size_t n = (size_t)t_random_below(&seed, 70);
        unsigned char *bytes = malloc(n + 1); /* exact, so that ASan sees a read past the end */
        for (size_t i = 0; i < n;) {
            char put[4];
            uint64_t kind = t_random_below(&seed, 40);
            uint32_t point = (uint32_t)t_random_below(&seed, kind < 20 ? 0x80 : 0x10ffff);
            size_t size = qp_utf8_put(kind == 39 ? 0 : point, put);
            for (size_t k = 0; k < size && i < n; k++) {
                bytes[i++] = (unsigned char)put[k];
            }
        }
        for (uint64_t k = t_random_below(&seed, 3); k > 0 && n != 0; k--) {
            bytes[t_random_below(&seed, n)] = (unsigned char)t_random(&seed);
        }
        unsigned char *exact = malloc(n != 0 ? n : 1);
        memcpy(exact, bytes, n);
        text_compare(exact, n);
        free(exact);
        free(bytes);
    }
}

static void every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        char put[4];
        uint32_t back = 0;
        size_t n = qp_utf8_put(point, put);
        size_t step = qp_utf8_step((unsigned char *)put, (unsigned char *)put + n, &back);
        if (point >= 0xd800 && point < 0xe000) {
            assert_int_equal(step, 0);
        } else if (step != n || back != point) {
            fail_msg("U+%04X", point);
        }
    }
}

static void cut_falls_between_characters(void **state)
{
    (void)state;
    quipu_str text = QUIPU_STR("a\xc3\xa9\xed\x95\x9c\xf0\x9f\x98\x80z"); /* a é 한 😀 z */
    const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};

    for (size_t max = 0; max < sizeof(cuts) / sizeof(cuts[0]); max++) {
        assert_int_equal(qp_utf8_cut(text, max), cuts[max]);
    }
    assert_int_equal(qp_utf8_cut(QUIPU_STR("\x80\x80\x80\x80\x80\x80\x80"), 5), 5);
}

static void strings_compare_by_bytes_and_absence(void **state)
{
    (void)state;
    T_STR(quipu_cstr("abc"), "abc");
    assert_null(quipu_cstr(NULL).p);
    assert_true(quipu_str_eq(QUIPU_STR("a"), QUIPU_STR("a")));
    assert_false(quipu_str_eq(QUIPU_STR("a"), QUIPU_STR("b")));
    assert_false(quipu_str_eq(QUIPU_STR(""), (quipu_str){NULL, 0}));
    assert_true(quipu_str_eq((quipu_str){NULL, 0}, (quipu_str){NULL, 0}));
    assert_true(qp_str_cmp(QUIPU_STR("a"), QUIPU_STR("ab")) < 0);
    assert_true(qp_str_cmp(QUIPU_STR("\xff"), QUIPU_STR("a")) > 0);
    assert_int_equal(qp_str_cmp(QUIPU_STR(""), (quipu_str){NULL, 0}), 0);
}

static void hash_sees_every_byte_and_the_length(void **state)
{
    char text[64];
    uint64_t plain;

    (void)state;
    memset(text, 0, sizeof(text));
    for (size_t n = 0; n < sizeof(text); n++) {
        plain = qp_hash64((quipu_str){text, n}, 7);
        assert_int_not_equal(plain, qp_hash64((quipu_str){text, n + 1}, 7));
        assert_int_not_equal(plain, qp_hash64((quipu_str){text, n}, 8));
        for (size_t i = 0; i < n; i++) {
            text[i] = 1;
            assert_int_not_equal(plain, qp_hash64((quipu_str){text, n}, 7));
            text[i] = 0;
        }
    }
}

static void text_sha(const char *data, size_t size, const char *expected)
{
    uint8_t digest[QP_SHA256_SIZE];
    char hex[2 * QP_SHA256_SIZE + 1];

    qp_sha256_of(data, size, digest);
    for (size_t i = 0; i < QP_SHA256_SIZE; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(hex, expected);
}

static void sha256_gives_the_standard_vectors(void **state)
{
    (void)state;
    text_sha("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    text_sha("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    text_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    text_sha(
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnop"
        "qrlmnopqrsmnopqrstnopqrstu",
        112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    text_sha(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void sha256_in_chunks_equals_the_whole(void **state)
{
    uint64_t seed = t_seed();
    uint8_t data[300];
    uint8_t whole[QP_SHA256_SIZE];
    uint8_t pieces[QP_SHA256_SIZE];

    (void)state;
    for (size_t n = 0; n < sizeof(data); n++) {
        qp_sha256 sha;
        data[n] = (uint8_t)t_random(&seed);
        qp_sha256_of(data, n, whole);
        qp_sha256_begin(&sha);
        for (size_t at = 0; at < n;) {
            size_t take = 1 + (size_t)t_random_below(&seed, n - at);
            qp_sha256_add(&sha, data + at, take);
            at += take;
        }
        qp_sha256_end(&sha, pieces);
        assert_memory_equal(whole, pieces, QP_SHA256_SIZE);
    }
}

static void token_estimate_gives_the_vectors(void **state)
{
    const quipu_str call[] = {QUIPU_STR("tc01"), QUIPU_STR("search"),
                              QUIPU_STR("{\"query\":\"test\"}"), QUIPU_STR("{\"results\":[]}")};

    (void)state;
    assert_int_equal(quipu_token_estimate((quipu_str){NULL, 0}), 0);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("")), 0);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("Hello world")), 2);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("안녕하세요")), 2);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("Hello 안녕")), 2);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("The quick brown fox jumps over the lazy dog")),
                     10);
    assert_int_equal(qp_token_message(QUIPU_STR("Hello world"), NULL, 0), 6);
    assert_int_equal(qp_token_message(QUIPU_STR("result"), call, 4), 14);
}

static void token_estimate_knows_the_edges_of_cjk(void **state)
{
    static const struct {
        uint32_t point;
        bool cjk;
    } edges[] = {{0x33ff, false}, {0x3400, true},  {0x4dbf, true}, {0x4dc0, false},
                 {0x4dff, false}, {0x4e00, true},  {0x9fff, true}, {0xa000, false},
                 {0xabff, false}, {0xac00, true},  {0xd7af, true}, {0xd7b0, false},
                 {0x3042, false}, {0x20000, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        char text[16];
        size_t n = 0;
        for (int k = 0; k < 4; k++) {
            n += qp_utf8_put(edges[i].point, text + n);
        }
        assert_int_equal(quipu_token_estimate((quipu_str){text, n}), edges[i].cjk ? 2 : 1);
    }
    /* An invalid byte is one other character each: four of them are a token. */
    assert_int_equal(quipu_token_estimate(QUIPU_STR("\xff\xff\xff\xff")), 1);
    assert_int_equal(quipu_token_estimate(QUIPU_STR("\xe4\xb8\xe4\xb8")), 1);
}

static void statuses_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(quipu_status_name(QUIPU_OK), "OK");
    assert_string_equal(quipu_status_name(QUIPU_NEWER), "NEWER");
    assert_string_equal(quipu_status_name((quipu_status)77), "?");
    assert_string_equal(quipu_status_text(QUIPU_NOMEM), "out of memory");
    assert_string_equal(quipu_status_text((quipu_status)77), "unknown status");
    assert_string_equal(quipu_version(), QUIPU_VERSION_TEXT);
    assert_int_equal(QUIPU_NEWER, -16); /* frozen */
}

static void error_is_filled_and_cut_between_characters(void **state)
{
    quipu_error error;
    char text[600];

    (void)state;
    T_STATUS(qp_error_set(NULL, QUIPU_IO, "nobody listens %d", 1), QUIPU_IO);
    memset(&error, 'x', sizeof(error));
    T_STATUS(qp_error_field(&error, QUIPU_INVALID, "Session", "key", NULL, "the %s", "reason"),
             QUIPU_INVALID);
    assert_int_equal(error.status, QUIPU_INVALID);
    assert_int_equal(error.engine_code, 0);
    assert_string_equal(error.entity, "Session");
    assert_string_equal(error.field, "key");
    assert_string_equal(error.rule, "");
    assert_string_equal(error.message, "the reason");
    for (size_t pad = 0; pad < 3; pad++) {
        memset(text, 'a', pad);
        for (size_t i = pad; i + 3 < sizeof(text); i += 3) {
            memcpy(text + i, "\xed\x95\x9c", 4);
        }
        T_STATUS(qp_error_set(&error, QUIPU_LIMIT, "%s", text), QUIPU_LIMIT);
        assert_string_equal(error.entity, "");
        assert_true(qp_utf8_valid(quipu_cstr(error.message)));
        assert_true(strlen(error.message) >= sizeof(error.message) - 3);
    }
    memset(text, 'n', 100);
    text[100] = '\0';
    T_STATUS(qp_error_field(&error, QUIPU_INVALID, text, text, text, "long"), QUIPU_INVALID);
    assert_int_equal(strlen(error.rule), sizeof(error.rule) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sequence_of_up_to_three_bytes_is_judged_right),
        cmocka_unit_test(random_bytes_are_judged_as_the_reference_does),
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(cut_falls_between_characters),
        cmocka_unit_test(strings_compare_by_bytes_and_absence),
        cmocka_unit_test(hash_sees_every_byte_and_the_length),
        cmocka_unit_test(sha256_gives_the_standard_vectors),
        cmocka_unit_test(sha256_in_chunks_equals_the_whole),
        cmocka_unit_test(token_estimate_gives_the_vectors),
        cmocka_unit_test(token_estimate_knows_the_edges_of_cjk),
        cmocka_unit_test(statuses_have_names_and_texts),
        cmocka_unit_test(error_is_filled_and_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
