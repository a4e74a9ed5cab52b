/* Msgpack: every form of a value is read as JSON, objects of Python as their fields, and what is
 * cut off, too deep or no msgpack is refused. */
#include "contract/import_t.h"

#include "import/msgpack.h"

#define MSGPACK_OUT_MAX ((size_t)1 << 20)

static quipu_status msgpack_run(const void *bytes, size_t n, qp_buf *json, quipu_error *err)
{
    qp_msgpack value = {{bytes, n}};

    qp_buf_init(json, MSGPACK_OUT_MAX);
    return qp_msgpack_json(&value, json, err);
}

static void msgpack_reads(const void *bytes, size_t n, const char *expected)
{
    qp_buf json;
    quipu_error err = {0};

    if (msgpack_run(bytes, n, &json, &err) != QUIPU_OK) {
        fail_msg("%s: %s", expected, err.message);
    }
    T_STR(qp_buf_str(&json), expected);
    qp_buf_free(&json);
}

static void msgpack_fails(const void *bytes, size_t n, quipu_status expected, const char *text)
{
    qp_buf json;
    quipu_error err = {0};

    T_STATUS(msgpack_run(bytes, n, &json, &err), expected);
    if (strstr(err.message, text) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", text, err.message);
    }
    qp_buf_free(&json);
}

#define READS(literal, expected) msgpack_reads(literal, sizeof(literal) - 1, expected)
#define FAILS(literal, status, text) msgpack_fails(literal, sizeof(literal) - 1, status, text)

static void every_form_of_a_number_is_read(void **state)
{
    (void)state;
    READS("\x00", "0");
    READS("\x7f", "127");
    READS("\xff", "-1");
    READS("\xe0", "-32");
    READS("\xcc\xff", "255");
    READS("\xcd\xff\xff", "65535");
    READS("\xce\xff\xff\xff\xff", "4294967295");
    READS("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", "9223372036854775807");
    READS("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
    READS("\xd0\x80", "-128");
    READS("\xd1\x80\x00", "-32768");
    READS("\xd2\x80\x00\x00\x00", "-2147483648");
    READS("\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808");
    READS("\xca\x3f\xc0\x00\x00", "1.5");
    READS("\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5");
    READS("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "null");
    READS("\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", "null");
}

static void texts_lists_maps_and_bytes_are_read(void **state)
{
    (void)state;
    READS("\xc0", "null");
    READS("\xc2", "false");
    READS("\xc3", "true");
    READS("\xa2hi", "\"hi\"");
    READS("\xd9\x02hi", "\"hi\"");
    READS("\xda\x00\x02hi", "\"hi\"");
    READS("\xdb\x00\x00\x00\x02hi", "\"hi\"");
    READS("\xc4\x03\x00\x01\x02", "\"AAEC\"");
    READS("\xc5\x00\x01\xff", "\"/w==\"");
    READS("\x93\x01\xc0\x90", "[1,null,[]]");
    READS("\xdc\x00\x01\x07", "[7]");
    READS("\xdd\x00\x00\x00\x01\x07", "[7]");
    READS("\x82\xa1"
          "a\x01\x05\x80",
          "{\"a\":1,\"5\":{}}");
    READS("\xde\x00\x01\xa1"
          "a\x01",
          "{\"a\":1}");
    READS("\xdf\x00\x00\x00\x01\xa1"
          "a\x01",
          "{\"a\":1}");
}

/* As LangGraph's JsonPlusSerializer writes them: [module, class, what it is made from, ...]. */
static void objects_are_their_fields(void **state)
{
    (void)state;
    READS("\xc7\x09\x05\x93\xa1m\xa1"
          "C\x81\xa1k\x01",
          "{\"k\":1}");
    READS("\xd7\x05\x93\xa1m\xa1"
          "C\xa1v\xc0",
          "\"v\"");
    READS("\xc7\x09\x03\x94\xa1m\xa1"
          "C\xa1v\xa1w",
          "\"v\"");
    READS("\xc7\x02\x07\x91\x05", "[5]");
    READS("\xc7\x01\x06\x00", "null");
    READS("\x92\xd4\x06\x00\x02", "[null,2]");
    FAILS("\xd4\x08\x00", QUIPU_INVALID, "an extension 8");
    FAILS("\xd4\xff\x00", QUIPU_INVALID, "an extension -1");
    FAILS("\xd4\x05\x00", QUIPU_INVALID, "an object without fields");
    FAILS("\xd6\x05\x92\xa1m\xc0", QUIPU_INVALID, "an object without fields");
}

/* Each prefix of a value is cut off; a length that the bytes do not have costs nothing. */
static void what_is_cut_off_is_refused(void **state)
{
    static const char whole[] = "\x83\xa1"
                                "a\x92\xcd\x01\x00\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"
                                "\xa1"
                                "b\xd9\x02hi\xa1"
                                "c\xc7\x09\x05\x93\xa1m\xa1"
                                "C\x81\xa1k\x01";

    (void)state;
    READS("\x83\xa1"
          "a\x92\xcd\x01\x00\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"
          "\xa1"
          "b\xd9\x02hi\xa1"
          "c\xc7\x09\x05\x93\xa1m\xa1"
          "C\x81\xa1k\x01",
          "{\"a\":[256,1.5],\"b\":\"hi\",\"c\":{\"k\":1}}");
    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        msgpack_fails(whole, n, QUIPU_INVALID, "cut off");
    }
    FAILS("\xdb\xff\xff\xff\xff", QUIPU_INVALID, "cut off");
    FAILS("\xdd\xff\xff\xff\xff\x00", QUIPU_INVALID, "cut off");
    FAILS("\xdf\xff\xff\xff\xff\x00", QUIPU_INVALID, "cut off");
    FAILS("\xc9\xff\xff\xff\xff\x05", QUIPU_INVALID, "cut off");
    FAILS("\xc1", QUIPU_INVALID, "0xc1");
    FAILS("\xa1\xff", QUIPU_INVALID, "not UTF-8");
    FAILS("\x81\xc0\x01", QUIPU_INVALID, "a key that is neither a text nor a number");
}

static void values_in_each_other_have_a_limit(void **state)
{
    unsigned char deep[QP_MSGPACK_DEPTH_MAX + 2];
    qp_buf json;
    quipu_error err = {0};

    (void)state;
    memset(deep, 0x91, sizeof(deep));
    deep[QP_MSGPACK_DEPTH_MAX] = 0x01;
    T_OK(msgpack_run(deep, QP_MSGPACK_DEPTH_MAX + 1, &json, &err));
    qp_buf_free(&json);
    deep[QP_MSGPACK_DEPTH_MAX] = 0x91;
    deep[QP_MSGPACK_DEPTH_MAX + 1] = 0x01;
    msgpack_fails(deep, sizeof(deep), QUIPU_LIMIT, "more than 100");
}

static void a_member_is_found_behind_others(void **state)
{
    static const char map[] = "\x84\x07\xa1x\xc0\x91\x01\xa3"
                              "abc\x82\x01\x02\x03\x04\xa1k\x92\x05\x06";
    qp_msgpack found = {{NULL, 0}};
    qp_msgpack first = {{NULL, 0}};
    uint32_t count = 0;
    qp_buf json;
    quipu_error err = {0};

    (void)state;
    T_OK(qp_msgpack_get((qp_msgpack){{map, sizeof(map) - 1}}, "k", &found, &err));
    T_OK(qp_msgpack_list(found, &count, &first, &err));
    assert_int_equal(count, 2);
    qp_buf_init(&json, MSGPACK_OUT_MAX);
    T_OK(qp_msgpack_json(&first, &json, &err));
    T_OK(qp_msgpack_json(&first, &json, &err));
    T_STR(qp_buf_str(&json), "56");
    qp_buf_free(&json);
    T_OK(qp_msgpack_get((qp_msgpack){{map, sizeof(map) - 1}}, "other", &found, &err));
    assert_null(found.bytes.p);
    T_STATUS(qp_msgpack_get((qp_msgpack){{map, sizeof(map) - 2}}, "k", &found, &err),
             QUIPU_INVALID);
    T_STATUS(qp_msgpack_get((qp_msgpack){{"\x05", 1}}, "k", &found, &err), QUIPU_INVALID);
    T_STATUS(qp_msgpack_list((qp_msgpack){{"\x80", 1}}, &count, &first, &err), QUIPU_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_number_is_read),
        cmocka_unit_test(texts_lists_maps_and_bytes_are_read),
        cmocka_unit_test(objects_are_their_fields),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(values_in_each_other_have_a_limit),
        cmocka_unit_test(a_member_is_found_behind_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
