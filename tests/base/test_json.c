/* The JSON reader: what is accepted and refused and where, walking, lookup, strings, numbers,
 * equality, fidelity, limits, truncation, and running out of memory. */
#include "lib/t.h"

#include <math.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/str.h"

static void texts_of_the_grammar_are_accepted(void **state)
{
    static const char *const rows[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-0",
                                       "1",
                                       "-1",
                                       "10",
                                       "123456789012345678901234567890",
                                       "0.0",
                                       "-0.0",
                                       "0.1",
                                       "1.5e10",
                                       "1E5",
                                       "1e+5",
                                       "1e-5",
                                       "0e0",
                                       "0E-0",
                                       "1.0e0001",
                                       "-1.5E+3",
                                       "\"\"",
                                       "\"a\"",
                                       "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                       "\"\\u0000\"",
                                       "\"\\uD834\\udd1e\"",
                                       "\"\\ud800\"",
                                       "\"\\udfff\\ud800\"",
                                       "\"\\uFFFF\"",
                                       "\"\x7f\"",
                                       "\"\xc3\xa9\"",
                                       "\"\xf0\x9f\x98\x80\"",
                                       "\"\xe2\x80\xa8\"",
                                       "\"\xef\xbf\xbf\"",
                                       "\"\xef\xbb\xbf\"",
                                       "\"/\"",
                                       "\"'\"",
                                       "[]",
                                       "{}",
                                       "[ ]",
                                       "{ }",
                                       "[[]]",
                                       "[[],[]]",
                                       "[{}]",
                                       "{\"\":{}}",
                                       " 1 ",
                                       "\t\n\r 1\r\n\t ",
                                       "[1,2]",
                                       "[1 , 2]",
                                       "{\"a\":1}",
                                       "{ \"a\" : 1 , \"b\" : 2 }",
                                       "{\"a\":1,\"a\":2}",
                                       "{\"\\u0061\":1}",
                                       "[null,true,false]",
                                       "[[[[[[[[[[]]]]]]]]]]",
                                       "\"12345678\"",
                                       "\"1234567\"",
                                       "\"123456789012345\\n\"",
                                       "[\"\",\"\\\\\",\"\\\"\"]"};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        qp_json_fault fault;
        if (qp_json_check(quipu_cstr(rows[i]), NULL, &fault) != QUIPU_OK) {
            fail_msg("refused at %zu (%s): %s", fault.offset, fault.expected, rows[i]);
        }
    }
}

typedef struct json_bad {
    const char *text;
    size_t offset;
    const char *expected;
} json_bad;

static const json_bad json_bad_rows[] = {
    {"", 0, "a value"},
    {" ", 1, "a value"},
    {",", 0, "a value"},
    {"nul", 0, "a value"},
    {"True", 0, "a value"},
    {"nan", 0, "a value"},
    {"NaN", 0, "a value"},
    {"Infinity", 0, "a value"},
    {"-Infinity", 1, "a digit"},
    {"'a'", 0, "a value"},
    {"nullx", 4, "the end of the text"},
    {"1 2", 2, "the end of the text"},
    {"{}{}", 2, "the end of the text"},
    {"[]]", 2, "the end of the text"},
    {"-", 1, "a digit"},
    {"+1", 0, "a value"},
    {"--1", 1, "a digit"},
    {".5", 0, "a value"},
    {"-.5", 1, "a digit"},
    {"01", 1, "the end of the text"},
    {"-01", 2, "the end of the text"},
    {"00", 1, "the end of the text"},
    {"0x10", 1, "the end of the text"},
    {"1.", 2, "a digit after the point"},
    {"1.e5", 2, "a digit after the point"},
    {"1e", 2, "a digit in the exponent"},
    {"1e+", 3, "a digit in the exponent"},
    {"1e5.5", 3, "the end of the text"},
    {"1_000", 1, "the end of the text"},
    {"1,000", 1, "the end of the text"},
    {"\"", 1, "a closing quote"},
    {"\"a", 2, "a closing quote"},
    {"\"\\", 2, "one of \"\\/bfnrtu after a backslash"},
    {"\"\\\"", 3, "a closing quote"},
    {"\"\\x41\"", 2, "one of \"\\/bfnrtu after a backslash"},
    {"\"\\0\"", 2, "one of \"\\/bfnrtu after a backslash"},
    {"\"\\'\"", 2, "one of \"\\/bfnrtu after a backslash"},
    {"\"\\U0041\"", 2, "one of \"\\/bfnrtu after a backslash"},
    {"\"\\u\"", 3, "four hex digits after \\u"},
    {"\"\\u12\"", 5, "four hex digits after \\u"},
    {"\"\\u123", 6, "four hex digits after \\u"},
    {"\"\\u12g4\"", 5, "four hex digits after \\u"},
    {"\"\\u 123\"", 3, "four hex digits after \\u"},
    {"\"a\nb\"", 2, "no bare control character in a string"},
    {"\"\t\"", 1, "no bare control character in a string"},
    {"\"aaaaaaaaaaaa\x1f\"", 13, "no bare control character in a string"},
    {"\"\x80\"", 1, "valid UTF-8"},
    {"\"\xc0\x80\"", 1, "valid UTF-8"},
    {"\"\xed\xa0\x80\"", 1, "valid UTF-8"},
    {"\"\xf5\x80\x80\x80\"", 1, "valid UTF-8"},
    {"\"\xe2\x82\"", 1, "valid UTF-8"},
    {"\xef\xbb\xbf{}", 0, "a value"}, /* RFC 8259 lets a reader refuse the mark, and we do */
    {"[", 1, "a value"},
    {"[1", 2, "',' or ']'"},
    {"[1,", 3, "a value"},
    {"[1,]", 3, "a value"},
    {"[,1]", 1, "a value"},
    {"[1,,2]", 3, "a value"},
    {"[1 2]", 3, "',' or ']'"},
    {"[1}", 2, "',' or ']'"},
    {"[1:2]", 2, "',' or ']'"},
    {"{", 1, "a key in quotes"},
    {"{\"a\"", 4, "':'"},
    {"{\"a\":", 5, "a value"},
    {"{\"a\":1", 6, "',' or '}'"},
    {"{\"a\":1,", 7, "a key in quotes"},
    {"{\"a\":1,}", 7, "a key in quotes"},
    {"{\"a\":1]", 6, "',' or '}'"},
    {"{\"a\" 1}", 5, "':'"},
    {"{\"a\",1}", 4, "':'"},
    {"{a:1}", 1, "a key in quotes"},
    {"{1:1}", 1, "a key in quotes"},
    {"{:1}", 1, "a key in quotes"},
    {"{,}", 1, "a key in quotes"},
    {"{\"a\":1 \"b\":2}", 7, "',' or '}'"},
    {"{\"a\"::1}", 5, "a value"},
    {"[1]//x", 3, "the end of the text"},
    {"/*x*/1", 0, "a value"},
    {"\f1", 0, "a value"},
    {"\v1", 0, "a value"},
    {"\xc2\xa0"
     "1",
     0, "a value"},
};

static void what_is_no_json_is_refused_at_the_right_place(void **state)
{
    qp_json_doc doc;
    quipu_error error;

    (void)state;
    qp_json_init(&doc);
    for (size_t i = 0; i < sizeof(json_bad_rows) / sizeof(json_bad_rows[0]); i++) {
        const json_bad *row = &json_bad_rows[i];
        qp_json_fault fault = {0, ""};
        quipu_status status = qp_json_check(quipu_cstr(row->text), NULL, &fault);
        if (status != QUIPU_INVALID || fault.offset != row->offset ||
            strcmp(fault.expected, row->expected) != 0) {
            fail_msg("status %d at %zu, expected %s: %s", status, fault.offset, fault.expected,
                     row->text);
        }
        T_STATUS(qp_json_parse(&doc, quipu_cstr(row->text), NULL, &error), QUIPU_INVALID);
        assert_int_equal(doc.fault.offset, row->offset);
        assert_int_equal(qp_json_kind_of(qp_json_root(&doc)), QP_JSON_NONE);
        assert_non_null(strstr(error.message, row->expected));
    }
    /* NUL is a byte like any other that does not belong. */
    T_STATUS(qp_json_check((quipu_str){"1\0", 2}, NULL, NULL), QUIPU_INVALID);
    T_STATUS(qp_json_check((quipu_str){"\"\0\"", 3}, NULL, NULL), QUIPU_INVALID);
    T_STATUS(qp_json_check((quipu_str){NULL, 0}, NULL, NULL), QUIPU_INVALID);
    qp_json_free(&doc);
    qp_json_free(NULL);
}

/* A document that JSON libraries commonly change when they read and write it. */
static const char json_fidelity[] =
    "{\"z\":1,\"a\":1.0,\"int64\":9223372036854775807,\"uint64\":18446744073709551615,"
    "\"big\":123456789012345678901234567890,\"tenth\":0.1,\"exp\":1e3,\"minus\":-0.0,"
    "\"dup\":\"first\",\"dup\":\"second\",\"esc\":\"\\u00e9 \\ud83d\\ude00 \xc3\xa9\","
    "\"nul\":\"a\\u0000b\",\"past53\":9007199254740993,\"unknown\":{\"x\":[1, 2]}}";

static const quipu_str json_fidelity_text = {json_fidelity, sizeof(json_fidelity) - 1};

static void json_copy(qp_jsonw *writer, qp_json_node node)
{
    qp_json_iter iter = qp_json_each(node);
    bool object = qp_json_kind_of(node) == QP_JSON_OBJECT;

    if (!object && qp_json_kind_of(node) != QP_JSON_ARRAY) {
        qp_jsonw_raw(writer, qp_json_raw(node));
        return;
    }
    if (object) {
        qp_jsonw_object(writer);
    } else {
        qp_jsonw_array(writer);
    }
    while (qp_json_next(&iter)) {
        if (object) {
            qp_jsonw_raw_key(writer, qp_json_raw(iter.key));
        }
        json_copy(writer, iter.value);
    }
    if (object) {
        qp_jsonw_object_end(writer);
    } else {
        qp_jsonw_array_end(writer);
    }
}

static void nothing_is_lost_in_a_rewrite(void **state)
{
    qp_json_doc doc;
    qp_jsonw writer;
    qp_buf buf;

    (void)state;
    qp_json_init(&doc);
    qp_buf_init(&buf, 10000);
    T_OK(qp_json_parse(&doc, json_fidelity_text, NULL, NULL));
    qp_jsonw_begin(&writer, &buf);
    json_copy(&writer, qp_json_root(&doc));
    T_OK(qp_jsonw_end(&writer));
    char expected[sizeof(json_fidelity)];
    memcpy(expected, json_fidelity, sizeof(expected));
    char *space = strstr(expected, "1, 2"); /* only white space between tokens goes */
    memmove(space + 2, space + 3, strlen(space + 2));
    T_STR(qp_buf_str(&buf), expected);
    qp_buf_free(&buf);
    qp_json_free(&doc);
}

static void lookup_finds_by_meaning_and_the_last_wins(void **state)
{
    qp_json_doc doc;
    qp_json_node root;

    (void)state;
    qp_json_init(&doc);
    T_OK(qp_json_parse(&doc, json_fidelity_text, NULL, NULL));
    root = qp_json_root(&doc);
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("dup"))), "\"second\"");
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("minus"))), "-0.0");
    T_STR(qp_json_raw(qp_json_get(qp_json_get(root, QUIPU_STR("unknown")), QUIPU_STR("x"))),
          "[1, 2]");
    assert_int_equal(qp_json_count(root), 14);
    assert_int_equal(qp_json_kind_of(qp_json_get(root, QUIPU_STR("absent"))), QP_JSON_NONE);
    /* Lookups chain over what is not there. */
    assert_null(qp_json_raw(qp_json_get(qp_json_get(root, QUIPU_STR("z")), QUIPU_STR("y"))).p);
    assert_null(qp_json_raw(qp_json_at(qp_json_get(root, QUIPU_STR("nope")), 3)).p);
    assert_null(qp_json_raw(qp_json_at(root, 0)).p);
    T_OK(qp_json_parse(&doc,
                       QUIPU_STR("{\"a\\u0062\":1,\"\\u00e9\":2,\"x\\\"\":3,\"\\u0000\":4,"
                                 "\"\\ud83d\\ude00\":5,\"\":6,\"ab\":7,\"\\ud800\":8}"),
                       NULL, NULL));
    root = qp_json_root(&doc);
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("ab"))), "7");
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("\xc3\xa9"))), "2");
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("x\""))), "3");
    T_STR(qp_json_raw(qp_json_get(root, (quipu_str){"\0", 1})), "4");
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR("\xf0\x9f\x98\x80"))), "5");
    T_STR(qp_json_raw(qp_json_get(root, QUIPU_STR(""))), "6");
    assert_null(qp_json_raw(qp_json_get(root, QUIPU_STR("\xef\xbf\xbd"))).p); /* not U+FFFD */
    assert_null(qp_json_raw(qp_json_get(root, QUIPU_STR("\xed\xa0\x80"))).p);
    assert_null(qp_json_raw(qp_json_get(root, (quipu_str){NULL, 0})).p);
    qp_json_free(&doc);
}

static void arrays_and_objects_are_walked_in_order(void **state)
{
    qp_json_doc doc;
    qp_json_iter iter;
    static const char *const values[] = {"1", "[2,[3]]", "{\"k\":[]}", "\"s\"", "null"};
    size_t i = 0;

    (void)state;
    qp_json_init(&doc);
    T_OK(qp_json_parse(&doc, QUIPU_STR("[1,[2,[3]],{\"k\":[]},\"s\",null]"), NULL, NULL));
    for (iter = qp_json_each(qp_json_root(&doc)); qp_json_next(&iter); i++) {
        T_STR(qp_json_raw(iter.value), values[i]);
        assert_int_equal(qp_json_kind_of(iter.key), QP_JSON_NONE);
        T_STR(qp_json_raw(qp_json_at(qp_json_root(&doc), i)), values[i]);
    }
    assert_int_equal(i, 5);
    assert_false(qp_json_next(&iter)); /* stays at the end */
    assert_null(qp_json_raw(qp_json_at(qp_json_root(&doc), 5)).p);
    assert_int_equal(qp_json_count(qp_json_at(qp_json_root(&doc), 0)), 0);
    qp_json_free(&doc);
}

static void strings_are_unescaped_and_unstorable_text_is_reported(void **state)
{
    static const struct {
        const char *json, *text;
        uint32_t flags;
        bool slice;
    } rows[] = {
        {"\"plain \xc3\xa9\"", "plain \xc3\xa9", 0, true},
        {"\"\"", "", 0, true},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 0, false},
        {"\"\\u0041\\u00e9\\uD55C\\uac00\"", "A\xc3\xa9\xed\x95\x9c\xea\xb0\x80", 0, false},
        {"\"x\\ud83d\\uDE00y\"", "x\xf0\x9f\x98\x80y", 0, false},
        {"\"a\\u0000b\"",
         "a\xef\xbf\xbd"
         "b",
         QP_JSON_TEXT_NUL, false},
        {"\"\\ud800\"", "\xef\xbf\xbd", QP_JSON_TEXT_SURROGATE, false},
        {"\"\\udc00x\"", "\xef\xbf\xbdx", QP_JSON_TEXT_SURROGATE, false},
        {"\"\\ud800\\u0041\"",
         "\xef\xbf\xbd"
         "A",
         QP_JSON_TEXT_SURROGATE, false},
        {"\"\\ud800\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80", QP_JSON_TEXT_SURROGATE,
         false},
        {"\"\\ud800\\ue000\"", "\xef\xbf\xbd\xee\x80\x80", QP_JSON_TEXT_SURROGATE, false},
        {"\"\\ud83d\\n\"", "\xef\xbf\xbd\n", QP_JSON_TEXT_SURROGATE, false},
        {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf", 0, false},
        {"\"\\ufffd\"", "\xef\xbf\xbd", 0, false},
    };
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_json_doc doc;

    (void)state;
    qp_json_init(&doc);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        quipu_str text = {NULL, 0};
        uint32_t flags = 99;
        T_OK(qp_json_parse(&doc, quipu_cstr(rows[i].json), NULL, NULL));
        T_OK(qp_json_text(qp_json_root(&doc), &arena, &text, &flags));
        T_STR(text, rows[i].text);
        assert_int_equal(flags, rows[i].flags);
        assert_int_equal(text.p == rows[i].json + 1, rows[i].slice);
    }
    quipu_str text = {"untouched", 9};
    T_OK(qp_json_parse(&doc, QUIPU_STR("1"), NULL, NULL));
    T_STATUS(qp_json_text(qp_json_root(&doc), &arena, &text, NULL), QUIPU_INVALID);
    T_STR(text, "untouched");
    quipu_arena small = {NULL, 0, 64};
    T_OK(qp_json_parse(&doc, QUIPU_STR("\"\\n12345678901234567890123456789012\""), NULL, NULL));
    T_STATUS(qp_json_text(qp_json_root(&doc), &small, &text, NULL), QUIPU_LIMIT);
    quipu_arena_free(&small);
    quipu_arena_free(&arena);
    qp_json_free(&doc);
}

static void integers_say_whether_they_are_exact(void **state)
{
    static const struct {
        const char *json;
        int64_t value;
        qp_json_exact exact;
    } rows[] = {
        {"0", 0, QP_JSON_EXACT},
        {"-0", 0, QP_JSON_EXACT},
        {"-0.0e5", 0, QP_JSON_EXACT},
        {"42", 42, QP_JSON_EXACT},
        {"9223372036854775807", INT64_MAX, QP_JSON_EXACT},
        {"-9223372036854775808", INT64_MIN, QP_JSON_EXACT},
        {"9223372036854775808", INT64_MAX, QP_JSON_RANGE},
        {"-9223372036854775809", INT64_MIN, QP_JSON_RANGE},
        {"18446744073709551615", INT64_MAX, QP_JSON_RANGE},
        {"123456789012345678901234567890", INT64_MAX, QP_JSON_RANGE},
        {"9223372036854775807.0", INT64_MAX, QP_JSON_EXACT},
        {"9223372036854775807.5", INT64_MAX, QP_JSON_ROUNDED},
        {"1.0", 1, QP_JSON_EXACT},
        {"1.5", 1, QP_JSON_ROUNDED},
        {"-1.5", -1, QP_JSON_ROUNDED},
        {"0.9", 0, QP_JSON_ROUNDED},
        {"1e3", 1000, QP_JSON_EXACT},
        {"1.25e2", 125, QP_JSON_EXACT},
        {"1.25e1", 12, QP_JSON_ROUNDED},
        {"1200e-2", 12, QP_JSON_EXACT},
        {"1200e-4", 0, QP_JSON_ROUNDED},
        {"9e18", INT64_C(9000000000000000000), QP_JSON_EXACT},
        {"9e19", INT64_MAX, QP_JSON_RANGE},
        {"-1e999999999999999999999999", INT64_MIN, QP_JSON_RANGE},
        {"0e999999999999999999999999", 0, QP_JSON_EXACT},
        {"5e-999999999999999999999999", 0, QP_JSON_ROUNDED},
        {"0.000000000000000000001e21", 1, QP_JSON_EXACT},
        {"\"1\"", 77, QP_JSON_NO_NUMBER},
        {"null", 77, QP_JSON_NO_NUMBER},
    };
    qp_json_doc doc;

    (void)state;
    qp_json_init(&doc);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t value = 77;
        T_OK(qp_json_parse(&doc, quipu_cstr(rows[i].json), NULL, NULL));
        qp_json_exact exact = qp_json_int64(qp_json_root(&doc), &value);
        if (exact != rows[i].exact || value != rows[i].value) {
            fail_msg("%s gives %lld, %d", rows[i].json, (long long)value, (int)exact);
        }
    }
    qp_json_free(&doc);
}

static void doubles_say_whether_they_are_exact(void **state)
{
    static const struct {
        const char *json;
        double value;
        qp_json_exact exact;
    } rows[] = {
        {"0", 0.0, QP_JSON_EXACT},
        {"-0.0", -0.0, QP_JSON_EXACT},
        {"1.0", 1.0, QP_JSON_EXACT},
        {"0.5", 0.5, QP_JSON_EXACT},
        {"0.1", 0.1, QP_JSON_ROUNDED},
        {"1e3", 1000.0, QP_JSON_EXACT},
        {"-2.50e-1", -0.25, QP_JSON_EXACT},
        {"9007199254740992", 9007199254740992.0, QP_JSON_EXACT},
        {"9007199254740993", 9007199254740992.0, QP_JSON_ROUNDED},
        {"0.1000000000000000055511151231257827021181583404541015625", 0.1, QP_JSON_EXACT},
        {"1.7976931348623157e308", 1.7976931348623157e308, QP_JSON_ROUNDED},
        {"1e309", INFINITY, QP_JSON_RANGE},
        {"-1e309", -INFINITY, QP_JSON_RANGE},
        {"1e-400", 0.0, QP_JSON_ROUNDED},
        {"5e-324", 5e-324, QP_JSON_ROUNDED},
        {"1e999999999999999999999", INFINITY, QP_JSON_RANGE},
        {"0e999999999999999999999", 0.0, QP_JSON_EXACT},
        {"true", 77.0, QP_JSON_NO_NUMBER},
    };
    qp_json_doc doc;

    (void)state;
    qp_json_init(&doc);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double value = 77.0;
        T_OK(qp_json_parse(&doc, quipu_cstr(rows[i].json), NULL, NULL));
        qp_json_exact exact = qp_json_double(qp_json_root(&doc), &value);
        if (exact != rows[i].exact || memcmp(&value, &rows[i].value, sizeof(value)) != 0) {
            fail_msg("%s gives %.17g, %d", rows[i].json, value, (int)exact);
        }
    }
    /* Longer than any exact expansion: the tail decides the rounding and is not forgotten. */
    char text[1200];
    memset(text, '0', sizeof(text));
    memcpy(text, "9007199254740993.", 17);
    double value = 0.0;
    T_OK(qp_json_parse(&doc, (quipu_str){text, 1199}, NULL, NULL));
    assert_int_equal(qp_json_double(qp_json_root(&doc), &value), QP_JSON_ROUNDED);
    assert_true(value == 9007199254740992.0);
    text[1198] = '1';
    T_OK(qp_json_parse(&doc, (quipu_str){text, 1199}, NULL, NULL));
    assert_int_equal(qp_json_double(qp_json_root(&doc), &value), QP_JSON_ROUNDED);
    assert_true(value == 9007199254740994.0);
    qp_json_free(&doc);
}

static bool json_same(const char *a, const char *b)
{
    qp_json_doc da;
    qp_json_doc db;
    bool equal = false;
    bool back = false;

    qp_json_init(&da);
    qp_json_init(&db);
    T_OK(qp_json_parse(&da, quipu_cstr(a), NULL, NULL));
    T_OK(qp_json_parse(&db, quipu_cstr(b), NULL, NULL));
    T_OK(qp_json_equal(qp_json_root(&da), qp_json_root(&db), &equal));
    T_OK(qp_json_equal(qp_json_root(&db), qp_json_root(&da), &back));
    assert_int_equal(equal, back);
    qp_json_free(&db);
    qp_json_free(&da);
    return equal;
}

static void equality_is_that_of_trees(void **state)
{
    (void)state;
    assert_true(
        json_same("{\"a\":1,\"b\":[true,null]}", " { \"b\" : [ true , null ] , \"a\" : 1 }"));
    assert_true(json_same("{\"a\":1,\"a\":2}", "{\"a\":2}"));
    assert_true(json_same("{\"a\":1,\"b\":0,\"\\u0061\":2}", "{\"b\":0,\"a\":2}"));
    assert_true(json_same("\"\\u00e9\\/\\ud83d\\ude00\"", "\"\xc3\xa9/\xf0\x9f\x98\x80\""));
    assert_true(json_same("\"\\ud800\"", "\"\\uD800\""));
    assert_false(json_same("\"\\ud800\"", "\"\\ufffd\""));
    assert_false(json_same("\"\\u0000\"", "\"\""));
    assert_false(json_same("{\"a\":1,\"a\":2}", "{\"a\":1}"));
    assert_false(json_same("1", "1.0"));
    assert_false(json_same("1e3", "1E3"));
    assert_false(json_same("[1,2]", "[2,1]"));
    assert_false(json_same("[1,2]", "[1,2,3]"));
    assert_false(json_same("[]", "{}"));
    assert_false(json_same("true", "false"));
    assert_false(json_same("{\"a\":null}", "{}"));
    assert_false(json_same("{\"a\":null}", "{\"b\":null}"));
    assert_false(json_same("\"ab\"", "\"a\""));
    assert_false(json_same("\"\\u0061b\"", "\"a\""));
    /* Past the size that is compared in place. */
    assert_true(
        json_same("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}",
                  "{\"i\":0,\"h\":8,\"g\":7,\"f\":6,\"e\":5,\"d\":4,\"c\":3,\"b\":2,"
                  "\"\\u0061\":1,\"i\":9}"));
    assert_false(
        json_same("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}",
                  "{\"i\":9,\"h\":8,\"g\":7,\"f\":6,\"e\":5,\"d\":4,\"c\":3,\"b\":2,"
                  "\"a\":1,\"i\":0}"));
    assert_false(json_same(
        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}", "{\"a\":1}"));
}

static quipu_status json_deep(const qp_json_limits *limits, size_t depth, const char *open,
                              const char *inner, const char *close)
{
    size_t n = strlen(open);
    size_t m = strlen(close);
    size_t k = strlen(inner);
    char *text = malloc(depth * (n + m) + k + 1);
    quipu_status status;
    quipu_error error;
    qp_json_doc doc;
    char *p = text;

    for (size_t i = 0; i < depth; i++, p += n) {
        memcpy(p, open, n);
    }
    memcpy(p, inner, k);
    p += k;
    for (size_t i = 0; i < depth; i++, p += m) {
        memcpy(p, close, m);
    }
    status = qp_json_check((quipu_str){text, (size_t)(p - text)}, limits, NULL);
    qp_json_init(&doc);
    T_STATUS(qp_json_parse(&doc, (quipu_str){text, (size_t)(p - text)}, limits, &error), status);
    if (status == QUIPU_LIMIT) {
        assert_non_null(strstr(error.message, "deep"));
    }
    qp_json_free(&doc);
    free(text);
    return status;
}

static void depth_is_bounded_at_exactly_the_limit(void **state)
{
    const qp_json_limits cap = {QP_JSON_SIZE_CAP, QP_JSON_DEPTH_CAP};
    const qp_json_limits flat = {1000, 0};

    (void)state;
    T_OK(json_deep(NULL, QP_JSON_DEPTH_MAX, "[", "", "]"));
    T_STATUS(json_deep(NULL, QP_JSON_DEPTH_MAX + 1, "[", "", "]"), QUIPU_LIMIT);
    T_OK(json_deep(NULL, QP_JSON_DEPTH_MAX, "{\"a\":", "1", "}"));
    T_STATUS(json_deep(NULL, QP_JSON_DEPTH_MAX + 1, "{\"a\":", "1", "}"), QUIPU_LIMIT);
    T_STATUS(json_deep(&cap, QP_JSON_DEPTH_CAP, "[1,", "{}", "]"), QUIPU_LIMIT);
    T_OK(json_deep(&cap, QP_JSON_DEPTH_CAP, "[", "", "]"));
    T_STATUS(json_deep(&cap, QP_JSON_DEPTH_CAP + 1, "[", "", "]"), QUIPU_LIMIT);
    T_OK(json_deep(&flat, 0, "", "1", ""));
    T_STATUS(json_deep(&flat, 1, "[", "", "]"), QUIPU_LIMIT);
    T_STATUS(json_deep(NULL, 100000, "[", "", ""), QUIPU_LIMIT);
}

static void size_is_bounded_at_exactly_the_limit(void **state)
{
    qp_json_limits limits = {10, 5};
    quipu_error error;
    qp_json_doc doc;

    (void)state;
    qp_json_init(&doc);
    T_OK(qp_json_check(QUIPU_STR("[12345678]"), &limits, NULL));
    T_STATUS(qp_json_check(QUIPU_STR("[123456789]"), &limits, NULL), QUIPU_LIMIT);
    T_STATUS(qp_json_parse(&doc, QUIPU_STR("[123456789]"), &limits, &error), QUIPU_LIMIT);
    assert_non_null(strstr(error.message, "large"));
    qp_json_free(&doc);
    char *text = malloc(QP_JSON_SIZE_MAX + 1);
    memset(text, ' ', QP_JSON_SIZE_MAX + 1);
    text[0] = '1';
    T_OK(qp_json_check((quipu_str){text, QP_JSON_SIZE_MAX}, NULL, NULL));
    T_STATUS(qp_json_check((quipu_str){text, QP_JSON_SIZE_MAX + 1}, NULL, NULL), QUIPU_LIMIT);
    free(text);
}

static void every_truncation_fails_cleanly(void **state)
{
    qp_json_doc doc;

    (void)state;
    qp_json_init(&doc);
    for (size_t n = 0; n < sizeof(json_fidelity) - 1; n++) {
        char *text = malloc(n != 0 ? n : 1); /* exact, for ASan */
        memcpy(text, json_fidelity, n);
        qp_json_fault fault = {SIZE_MAX, NULL};
        T_STATUS(qp_json_check((quipu_str){text, n}, NULL, &fault), QUIPU_INVALID);
        assert_true(fault.offset <= n);
        T_STATUS(qp_json_parse(&doc, (quipu_str){text, n}, NULL, NULL), QUIPU_INVALID);
        free(text);
    }
    qp_json_free(&doc);
}

static void json_fault_body(void *ctx)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error;
    quipu_str text;
    qp_json_doc doc;
    bool equal = false;
    quipu_status status;

    (void)ctx;
    qp_json_init(&doc);
    status = qp_json_parse(&doc, json_fidelity_text, NULL, &error);
    if (status == QUIPU_OK) {
        status =
            qp_json_text(qp_json_get(qp_json_root(&doc), QUIPU_STR("esc")), &arena, &text, NULL);
    }
    if (status == QUIPU_OK) {
        status = qp_json_equal(qp_json_root(&doc), qp_json_root(&doc), &equal);
    }
    assert_int_equal(equal, status == QUIPU_OK);
    T_STATUS(status, t_fault_fired() == 0 ? QUIPU_OK : QUIPU_NOMEM);
    quipu_arena_free(&arena);
    qp_json_free(&doc);
}

static void reader_without_memory_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(json_fault_body, NULL) > 0);
    t_fault_remove();
}

static void a_warm_document_allocates_nothing(void **state)
{
    qp_json_doc doc;

    (void)state;
    t_fault_install();
    qp_json_init(&doc);
    t_fault_arm(0, T_FAULT_ONCE);
    T_OK(qp_json_parse(&doc, QUIPU_STR("{\"id\":\"x\",\"args\":[1,2,3]}"), NULL, NULL));
    assert_int_equal(t_fault_calls(), 0); /* short ones need no heap at all */
    T_OK(qp_json_parse(&doc, json_fidelity_text, NULL, NULL));
    t_fault_arm(0, T_FAULT_ONCE);
    T_OK(qp_json_parse(&doc, json_fidelity_text, NULL, NULL));
    T_OK(qp_json_check(json_fidelity_text, NULL, NULL));
    assert_int_equal(t_fault_calls(), 0);
    qp_json_free(&doc);
    t_fault_remove();
}

/* Small objects are compared in place, larger ones sorted: the last member repeats in both. */
static void repeated_members_are_found_by_meaning(void **state)
{
    static const struct {
        const char *text;
        bool repeats;
    } cases[] = {
        {"{}", false},
        {"7", false},
        {"[1,1]", false},
        {"{\"a\":{\"b\":1,\"b\":2}}", false},
        {"{\"a\":1,\"A\":1}", false},
        {"{\"a\":1,\"a\":1}", true},
        {"{\"a\":1,\"b\":2,\"\\u0061\":3}", true},
        {"{\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"9\":0}", false},
        {"{\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"1\":0}", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool repeats = !cases[i].repeats;
        qp_json_doc doc;

        qp_json_init(&doc);
        T_OK(qp_json_parse(&doc, quipu_cstr(cases[i].text), NULL, NULL));
        T_OK(qp_json_repeats(qp_json_root(&doc), &repeats));
        assert_int_equal(repeats, cases[i].repeats);
        qp_json_free(&doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_the_grammar_are_accepted),
        cmocka_unit_test(what_is_no_json_is_refused_at_the_right_place),
        cmocka_unit_test(nothing_is_lost_in_a_rewrite),
        cmocka_unit_test(lookup_finds_by_meaning_and_the_last_wins),
        cmocka_unit_test(arrays_and_objects_are_walked_in_order),
        cmocka_unit_test(strings_are_unescaped_and_unstorable_text_is_reported),
        cmocka_unit_test(integers_say_whether_they_are_exact),
        cmocka_unit_test(doubles_say_whether_they_are_exact),
        cmocka_unit_test(equality_is_that_of_trees),
        cmocka_unit_test(repeated_members_are_found_by_meaning),
        cmocka_unit_test(depth_is_bounded_at_exactly_the_limit),
        cmocka_unit_test(size_is_bounded_at_exactly_the_limit),
        cmocka_unit_test(every_truncation_fails_cleanly),
        cmocka_unit_test(reader_without_memory_says_so_and_leaks_nothing),
        cmocka_unit_test(a_warm_document_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
