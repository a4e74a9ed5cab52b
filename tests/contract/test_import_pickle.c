/* Pickles: what data needs is read, what would run something is refused, and a hostile one costs no
 * more than its limits. */
#include "contract/import_t.h"

#include "import/pickle.h"

#define PICKLE_OUT_MAX ((size_t)64 << 20)

/* A pickle under construction. */
typedef struct pickle_text {
    unsigned char *p;
    size_t n;
    size_t cap;
} pickle_text;

static void pickle_add(pickle_text *pickle, const void *bytes, size_t n)
{
    if (pickle->n + n > pickle->cap) {
        pickle->cap = (pickle->n + n) * 2;
        pickle->p = realloc(pickle->p, pickle->cap);
        assert_non_null(pickle->p);
    }
    memcpy(pickle->p + pickle->n, bytes, n);
    pickle->n += n;
}

#define PICKLE_ADD(pickle, literal) pickle_add(pickle, literal, sizeof(literal) - 1)

static quipu_status pickle_run(const void *bytes, size_t n, qp_buf *json, quipu_error *err)
{
    qp_buf_init(json, PICKLE_OUT_MAX);
    return qp_pickle_json((quipu_bytes){bytes, n}, json, err);
}

static void pickle_reads(const void *bytes, size_t n, const char *expected)
{
    qp_buf json;
    quipu_error err = {0};

    if (pickle_run(bytes, n, &json, &err) != QUIPU_OK) {
        fail_msg("%s: %s", expected, err.message);
    }
    T_STR(qp_buf_str(&json), expected);
    qp_buf_free(&json);
}

static void pickle_fails(const void *bytes, size_t n, quipu_status expected, const char *text)
{
    qp_buf json;
    quipu_error err = {0};

    T_STATUS(pickle_run(bytes, n, &json, &err), expected);
    if (strstr(err.message, text) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", text, err.message);
    }
    qp_buf_free(&json);
}

#define READS(literal, expected) pickle_reads(literal, sizeof(literal) - 1, expected)
#define FAILS(literal, status, text) pickle_fails(literal, sizeof(literal) - 1, status, text)

static void every_value_of_data_is_read(void **state)
{
    (void)state;
    READS("\x80\x05N.", "null");
    READS("\x88.", "true");
    READS("\x89.", "false");
    READS("K\xff.", "255");
    READS("M\xff\xff.", "65535");
    READS("J\xff\xff\xff\xff.", "-1");
    READS("J\xff\xff\xff\x7f.", "2147483647");
    READS("\x8a\x00.", "0");
    READS("\x8a\x07\x01\x00\x00\x00\x00\x00 .", "9007199254740993");
    READS("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.", "9223372036854775808");
    READS("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", "-9223372036854775808");
    READS("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xfe.", "-18446744073709551617");
    READS("G?\xd3\x33\x33\x33\x33\x33\x34.", "0.30000000000000004");
    READS("GA\xda\x55\xb8\x41\x00\x00\x00.", "1767301380.0");
    READS("\x8c\x02hi.", "\"hi\"");
    READS("X\x02\x00\x00\x00hi.", "\"hi\"");
    READS("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", "\"hi\"");
    READS("C\x03\xff\xfe\xfb.", "\"__77\"");
    READS("].", "[]");
    READS("](K\x01K\x02"
          "e.",
          "[1,2]");
    READS("]K\x01"
          "a.",
          "[1]");
    READS("(K\x01Nt.", "[1,null]");
    READS("K\x01K\x02\x86.", "[1,2]");
    READS("\x8f(K\x01\x90.", "[1]");
    READS("}.", "{}");
    READS("}\x8c\x01"
          "aNs.",
          "{\"a\":null}");
    READS("}(\x8c\x01"
          "aK\x01K\x07\x88u.",
          "{\"a\":1,\"7\":true}");
    READS("\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x05\x94.", "5");
    READS("\x8c\x01"
          "a\x94h\x00\x86.",
          "[\"a\",\"a\"]");
    READS("\x8c\x01"
          "aq\x05"
          "j\x05\x00\x00\x00\x86.",
          "[\"a\",\"a\"]");
}

#define ADK_CLASS                                                                                  \
    "\x8c\x15google.adk.events.x_y\x8c\x01"                                                        \
    "C\x93)\x81"

static void an_object_of_adk_is_a_record_of_what_is_set(void **state)
{
    (void)state;
    READS(ADK_CLASS ".", "{}");
    READS(ADK_CLASS "}(\x8c\x08__dict__}(\x8c\x01"
                    "aN\x8c\x01"
                    "b}\x8c\x01nNsu\x8c\x12"
                    "__pydantic_extra__}\x8c\x01xK\x01s\x8c\x17__pydantic_fields_set__\x8fub.",
          "{\"b\":{\"n\":null},\"x\":1}");
    /* A member of an enum is its value. */
    READS("\x8c\x12google.genai.types\x8c\x07Outcome\x93\x8c\x02OK\x85R.", "\"OK\"");
}

static void what_would_run_something_is_refused(void **state)
{
    (void)state;
    FAILS("\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", QUIPU_INVALID, "os.system");
    FAILS("\x8c\x08"
          "builtins\x8c\x04"
          "eval\x93.",
          QUIPU_INVALID, "builtins.eval");
    FAILS("cos\nsystem\n(S'id'\ntR.", QUIPU_INVALID, "nothing was executed");
    FAILS("\x8c\x0bgoogle.adkx\x8c\x01"
          "C\x93.",
          QUIPU_INVALID, "not a class of ADK");
    FAILS("\x8c\x12google.genai.types\x8c\x01"
          "C\x93]\x85R.",
          QUIPU_INVALID, "nothing is executed");
    FAILS("\x8c\x12google.genai.types\x8c\x01"
          "C\x93K\x01\x85\x81.",
          QUIPU_INVALID, "nothing is executed");
    FAILS("\x8c\x12google.genai.types\x8c\x01"
          "C\x93.",
          QUIPU_INVALID, "a class where data");
    FAILS("}}b.", QUIPU_INVALID, "not built from fields");
    FAILS("\x82\x01.", QUIPU_INVALID, "0x82"); /* EXT1 */
    FAILS("P1\n.", QUIPU_INVALID, "0x50");     /* PERSID */
    FAILS("\x97.", QUIPU_INVALID, "0x97");     /* NEXT_BUFFER */
    FAILS("\x80\x06N.", QUIPU_INVALID, "newer than 5");
}

static void a_cut_or_senseless_pickle_is_refused(void **state)
{
    static const char whole[] = ADK_CLASS "}(\x8c\x08__dict__}(\x8c\x01"
                                          "aK\x01\x8c\x01"
                                          "bNuub.";

    (void)state;
    FAILS("}\x8c\x02\xd5_Ns.", QUIPU_INVALID, "not UTF-8");
    for (size_t n = 0; n + 1 < sizeof(whole) - 1; n++) {
        pickle_fails(whole, n, QUIPU_INVALID, "the pickle");
    }
    FAILS(".", QUIPU_INVALID, "no value");
    FAILS("NN.", QUIPU_INVALID, "does not end");
    FAILS("N.N", QUIPU_INVALID, "does not end");
    FAILS("(.", QUIPU_INVALID, "no value");
    FAILS("e.", QUIPU_INVALID, "no mark");
    FAILS("a.", QUIPU_INVALID, "no value");
    FAILS("Na.", QUIPU_INVALID, "no value");
    FAILS("NNa.", QUIPU_INVALID, "cannot hold");
    FAILS("}(Nu.", QUIPU_INVALID, "no value");
    FAILS("}]Ns.", QUIPU_INVALID, "not text");
    FAILS("h\x00.", QUIPU_INVALID, "not there");
    FAILS("Nr\xff\xff\xff\xff.", QUIPU_LIMIT, "remembers");
    FAILS("\x8c\x02\xff\xfe.", QUIPU_INVALID, "not UTF-8");
    FAILS("G\x7f\xf8\x00\x00\x00\x00\x00\x00.", QUIPU_INVALID, "NaN");
    FAILS("X\xff\xff\xff\xff"
          "a.",
          QUIPU_INVALID, "truncated");
    FAILS("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
          "a.",
          QUIPU_INVALID, "truncated");
}

/* `depth` lists inside each other. */
static pickle_text pickle_nested(size_t depth)
{
    pickle_text pickle = {NULL, 0, 0};

    for (size_t i = 0; i < depth; i++) {
        PICKLE_ADD(&pickle, "]");
    }
    for (size_t i = 1; i < depth; i++) {
        PICKLE_ADD(&pickle, "a");
    }
    PICKLE_ADD(&pickle, ".");
    return pickle;
}

static void depth_is_bounded(void **state)
{
    qp_buf json;
    quipu_error err = {0};
    pickle_text pickle = pickle_nested(QP_PICKLE_DEPTH_MAX);

    (void)state;
    T_OK(pickle_run(pickle.p, pickle.n, &json, &err));
    assert_int_equal(qp_buf_str(&json).n, 2 * QP_PICKLE_DEPTH_MAX);
    qp_buf_free(&json);
    free(pickle.p);
    pickle = pickle_nested(QP_PICKLE_DEPTH_MAX + 1);
    pickle_fails(pickle.p, pickle.n, QUIPU_LIMIT, "inside each other");
    free(pickle.p);
    /* A list that holds itself. */
    FAILS("]\x94h\x00"
          "a.",
          QUIPU_LIMIT, "inside each other");
}

static void sizes_are_bounded(void **state)
{
    pickle_text pickle = {NULL, 0, 0};
    char long_bytes[QP_PICKLE_LONG_MAX + 1];
    qp_buf json;
    quipu_error err = {0};

    (void)state;
    memset(long_bytes, 0x7f, sizeof(long_bytes));
    PICKLE_ADD(&pickle, "\x8b\x00\x04\x00\x00");
    pickle_add(&pickle, long_bytes, QP_PICKLE_LONG_MAX);
    PICKLE_ADD(&pickle, ".");
    T_OK(pickle_run(pickle.p, pickle.n, &json, &err));
    assert_int_equal(qp_buf_str(&json).n, 2466);
    qp_buf_free(&json);
    pickle.n = 0;
    PICKLE_ADD(&pickle, "\x8b\x01\x04\x00\x00");
    pickle_add(&pickle, long_bytes, QP_PICKLE_LONG_MAX + 1);
    PICKLE_ADD(&pickle, ".");
    pickle_fails(pickle.p, pickle.n, QUIPU_LIMIT, "whole number");
    /* One list and as many values as may be, then one more. */
    pickle.n = 0;
    PICKLE_ADD(&pickle, "](");
    for (size_t i = 1; i < QP_PICKLE_VALUES_MAX; i++) {
        PICKLE_ADD(&pickle, "N");
    }
    PICKLE_ADD(&pickle, "e.");
    T_OK(pickle_run(pickle.p, pickle.n, &json, &err));
    qp_buf_free(&json);
    pickle.n -= 2;
    PICKLE_ADD(&pickle, "Ne.");
    pickle_fails(pickle.p, pickle.n, QUIPU_LIMIT, "values");
    free(pickle.p);
    char *large = calloc(1, QP_PICKLE_BYTES_MAX + 1);
    assert_non_null(large);
    large[0] = '0'; /* no operation that is read */
    pickle_fails(large, QP_PICKLE_BYTES_MAX, QUIPU_INVALID, "0x30");
    pickle_fails(large, QP_PICKLE_BYTES_MAX + 1, QUIPU_LIMIT, "bytes");
    free(large);
}

/* Lists of ten times the list before: a few bytes that unfold without end. */
static void values_that_are_shared_do_not_explode(void **state)
{
    pickle_text pickle = {NULL, 0, 0};
    const unsigned char get[] = {'h', 0};

    (void)state;
    PICKLE_ADD(&pickle, "]\x94");
    for (unsigned char level = 1; level < 30; level++) {
        PICKLE_ADD(&pickle, "](");
        for (int i = 0; i < 10; i++) {
            const unsigned char before[] = {get[0], (unsigned char)(level - 1)};
            pickle_add(&pickle, before, sizeof(before));
        }
        PICKLE_ADD(&pickle, "e\x94");
    }
    /* Leave the last list alone on the stack. */
    pickle_text whole = {NULL, 0, 0};
    PICKLE_ADD(&whole, "](");
    pickle_add(&whole, pickle.p, pickle.n);
    PICKLE_ADD(&whole, "e.");
    pickle_fails(whole.p, whole.n, QUIPU_LIMIT, "unfolds");
    free(whole.p);
    free(pickle.p);
}

/* Any bytes: an answer, never a crash. */
static void random_bytes_never_crash(void **state)
{
    static const unsigned char known[] = "(.GJKMNRXBC]aebhjqrsut})\x80\x81\x85\x86\x87\x88\x89\x8a"
                                         "\x8b\x8c\x8d\x8e\x8f\x90\x91\x93\x94\x95";
    uint64_t seed = t_seed();

    (void)state;
    for (int64_t i = 0; i < t_count(20000, 2000000); i++) {
        unsigned char bytes[64];
        size_t n = (size_t)t_random_below(&seed, sizeof(bytes));
        qp_buf json;

        for (size_t at = 0; at < n; at++) {
            bytes[at] = t_random_below(&seed, 4) == 0
                            ? (unsigned char)t_random(&seed)
                            : known[t_random_below(&seed, sizeof(known) - 1)];
        }
        quipu_status status = pickle_run(bytes, n, &json, NULL);
        assert_true(status == QUIPU_OK || status == QUIPU_INVALID || status == QUIPU_LIMIT);
        if (status == QUIPU_OK) {
            T_OK(qp_json_check(qp_buf_str(&json), NULL, NULL));
        }
        qp_buf_free(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_data_is_read),
        cmocka_unit_test(an_object_of_adk_is_a_record_of_what_is_set),
        cmocka_unit_test(what_would_run_something_is_refused),
        cmocka_unit_test(a_cut_or_senseless_pickle_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(values_that_are_shared_do_not_explode),
        cmocka_unit_test(random_bytes_never_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
