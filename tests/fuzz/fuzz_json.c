/* Any bytes through the JSON reader: check and parse agree; what parses is walked, unescaped,
 * rewritten in two ways, and both equal the original. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/str.h"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("{\"id\":\"0198c0de\",\"author\":\"agent\",\"partial\":false,\"content\":{\"role\":"
              "\"model\","
              "\"parts\":[{\"text\":\"caf\xc3\xa9 "
              "\\\"no\\\"\\n\"},{\"functionCall\":{\"args\":{\"n\":25}}}]},"
              "\"actions\":{\"stateDelta\":{\"app:q\":9007199254740993}},\"x\":null}"),
    FUZZ_SEED("{\"z\":1,\"a\":1.0,\"dup\":\"\\u00e9 "
              "\\ud83d\\ude00\",\"dup\":\"a\\u0000b\",\"\\u0064up\":-0.0}"),
    FUZZ_SEED("[1e3,-0.0,0.1,18446744073709551615,123456789012345678901234567890,1E-400,1e400]"),
    FUZZ_SEED("[\"\",\"\\\\\",\"\\/"
              "\\b\\f\\n\\r\\t\",\"\\ud800\",\"\\udc00\\ud800\",\"\xed\x95\x9c\xea\xb5\xad\"]"),
    FUZZ_SEED("[[[[[[{\"a\":[{}]},[]]]]]],true,false,null]"),
    FUZZ_SEED("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,"
              "\"a\":11}"),
    FUZZ_SEED(" \t\r\n{ \"k\" : [ 1 , 2 ] , \"m\" : { } }\n"),
    FUZZ_SEED("\"\xf0\x9f\x98\x80\""),
    {NULL, 0}};

typedef struct json_fuzz {
    qp_jsonw raw;     /* slices as they are */
    qp_jsonw meaning; /* strings unescaped and written anew */
    quipu_arena arena;
    bool lossy; /* a string holds what text cannot */
} json_fuzz;

static void json_fuzz_number(qp_json_node node)
{
    int64_t integer = 0;
    double real = 0.0;
    qp_json_exact exact = qp_json_int64(node, &integer);

    FUZZ_CHECK(exact != QP_JSON_NO_NUMBER);
    FUZZ_CHECK(qp_json_double(node, &real) != QP_JSON_NO_NUMBER);
    if (exact == QP_JSON_EXACT && integer < (INT64_C(1) << 53) && integer > -(INT64_C(1) << 53)) {
        FUZZ_CHECK(real == (double)integer);
        FUZZ_CHECK(qp_json_double(node, &real) == QP_JSON_EXACT);
    }
}

static quipu_str json_fuzz_text(json_fuzz *fuzz, qp_json_node node)
{
    quipu_str text = {NULL, 0};
    uint32_t flags = 0;

    FUZZ_CHECK(qp_json_text(node, &fuzz->arena, &text, &flags) == QUIPU_OK);
    FUZZ_CHECK(qp_text_check(text, NULL) == QP_TEXT_OK);
    FUZZ_CHECK(qp_json_text_is(node, text) == (flags == 0));
    fuzz->lossy = fuzz->lossy || flags != 0;
    return text;
}

static void json_fuzz_walk(json_fuzz *fuzz, qp_json_node node)
{
    qp_json_kind kind = qp_json_kind_of(node);
    qp_json_iter iter = qp_json_each(node);

    switch (kind) {
    case QP_JSON_OBJECT:
    case QP_JSON_ARRAY:
        break;
    case QP_JSON_STRING:
        qp_jsonw_raw(&fuzz->raw, qp_json_raw(node));
        qp_jsonw_str(&fuzz->meaning, json_fuzz_text(fuzz, node));
        return;
    case QP_JSON_NUMBER:
        json_fuzz_number(node);
        qp_jsonw_raw(&fuzz->raw, qp_json_raw(node));
        qp_jsonw_raw(&fuzz->meaning, qp_json_raw(node));
        return;
    default:
        FUZZ_CHECK(kind != QP_JSON_NONE);
        qp_jsonw_raw(&fuzz->raw, qp_json_raw(node));
        qp_jsonw_raw(&fuzz->meaning, qp_json_raw(node));
        return;
    }
    (kind == QP_JSON_OBJECT ? qp_jsonw_object : qp_jsonw_array)(&fuzz->raw);
    (kind == QP_JSON_OBJECT ? qp_jsonw_object : qp_jsonw_array)(&fuzz->meaning);
    while (qp_json_next(&iter)) {
        if (kind == QP_JSON_OBJECT) {
            FUZZ_CHECK(qp_json_kind_of(iter.key) == QP_JSON_STRING);
            qp_jsonw_raw_key(&fuzz->raw, qp_json_raw(iter.key));
            qp_jsonw_key(&fuzz->meaning, json_fuzz_text(fuzz, iter.key));
        }
        json_fuzz_walk(fuzz, iter.value);
    }
    (kind == QP_JSON_OBJECT ? qp_jsonw_object_end : qp_jsonw_array_end)(&fuzz->raw);
    (kind == QP_JSON_OBJECT ? qp_jsonw_object_end : qp_jsonw_array_end)(&fuzz->meaning);
}

static void json_fuzz_same(const qp_json_doc *doc, quipu_str text)
{
    qp_json_doc back;
    bool equal = false;

    qp_json_init(&back);
    FUZZ_CHECK(qp_json_parse(&back, text, NULL, NULL) == QUIPU_OK);
    FUZZ_CHECK(qp_json_equal(qp_json_root(doc), qp_json_root(&back), &equal) == QUIPU_OK);
    FUZZ_CHECK(equal);
    FUZZ_CHECK(back.count == doc->count);
    qp_json_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    quipu_str text = {(const char *)data, size};
    qp_json_fault fault = {0, NULL};
    quipu_status status = qp_json_check(text, NULL, &fault);
    json_fuzz fuzz = {.lossy = false};
    quipu_error error;
    qp_json_doc doc;
    qp_buf raw;
    qp_buf meaning;

    qp_json_init(&doc);
    FUZZ_CHECK(qp_json_parse(&doc, text, NULL, &error) == status);
    if (status == QUIPU_OK) {
        /* An escape of six bytes may become a replacement character of three: nothing grows but
         * what is escaped in another way, so six times the source is always enough. */
        qp_buf_init(&raw, size);
        qp_buf_init(&meaning, size * 6);
        qp_jsonw_begin(&fuzz.raw, &raw);
        qp_jsonw_begin(&fuzz.meaning, &meaning);
        json_fuzz_walk(&fuzz, qp_json_root(&doc));
        FUZZ_CHECK(qp_jsonw_end(&fuzz.raw) == QUIPU_OK);
        FUZZ_CHECK(qp_jsonw_end(&fuzz.meaning) == QUIPU_OK);
        json_fuzz_same(&doc, qp_buf_str(&raw));
        if (!fuzz.lossy) {
            json_fuzz_same(&doc, qp_buf_str(&meaning));
        }
        qp_buf_free(&meaning);
        qp_buf_free(&raw);
    } else if (status == QUIPU_INVALID) {
        FUZZ_CHECK(fault.offset <= size && fault.expected != NULL);
        FUZZ_CHECK(qp_json_root(&doc).doc == NULL);
    } else {
        FUZZ_CHECK(status == QUIPU_LIMIT);
    }
    quipu_arena_free(&fuzz.arena);
    qp_json_free(&doc);
    return 0;
}
