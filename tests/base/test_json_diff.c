/* The JSON reader against two others over random and damaged texts: SQLite's json_valid() for what
 * is JSON, jansson for what it means. */
#include "lib/t.h"

#include <jansson.h>
#include <sqlite3.h>

#include "base/json.h"
#include "base/json_gen.h"
#include "base/str.h"

#define T_TEXT_MAX 20000

typedef struct diff {
    sqlite3 *db;
    sqlite3_stmt *valid;
    qp_json_doc doc;
    quipu_arena arena;
    int accepted, refused;
} diff;

static void diff_open(diff *d)
{
    memset(d, 0, sizeof(*d));
    qp_json_init(&d->doc);
    assert_int_equal(sqlite3_open(":memory:", &d->db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(d->db, "SELECT json_valid(?1)", -1, &d->valid, NULL),
                     SQLITE_OK);
}

static void diff_close(diff *d)
{
    (void)sqlite3_finalize(d->valid);
    (void)sqlite3_close(d->db);
    qp_json_free(&d->doc);
    quipu_arena_free(&d->arena);
    print_message("accepted %d, refused %d\n", d->accepted, d->refused);
}

static bool diff_sqlite(diff *d, quipu_str text)
{
    bool valid;

    (void)sqlite3_bind_text(d->valid, 1, text.p, (int)text.n, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(d->valid), SQLITE_ROW);
    valid = sqlite3_column_int(d->valid, 0) != 0;
    (void)sqlite3_reset(d->valid);
    return valid;
}

static size_t diff_distinct(qp_json_node object)
{
    qp_json_iter iter = qp_json_each(object);
    size_t count = 0;

    while (qp_json_next(&iter)) {
        qp_json_iter later = iter;
        bool last = true;
        while (qp_json_next(&later)) {
            last = last && qp_json_text_cmp(iter.key, later.key) != 0;
        }
        count += last ? 1 : 0;
    }
    return count;
}

static void diff_value(diff *d, qp_json_node node, json_t *other);

static void diff_object(diff *d, qp_json_node node, json_t *other)
{
    const char *key;
    json_t *value;

    assert_int_equal(qp_json_kind_of(node), QP_JSON_OBJECT);
    assert_int_equal(diff_distinct(node), json_object_size(other));
    json_object_foreach(other, key, value)
    {
        diff_value(d, qp_json_get(node, quipu_cstr(key)), value);
    }
}

static void diff_value(diff *d, qp_json_node node, json_t *other)
{
    quipu_str text;
    uint32_t flags = 0;
    int64_t integer = 0;
    double real = 0.0;

    switch (json_typeof(other)) {
    case JSON_OBJECT:
        diff_object(d, node, other);
        break;
    case JSON_ARRAY:
        assert_int_equal(qp_json_count(node), json_array_size(other));
        for (size_t i = 0; i < json_array_size(other); i++) {
            diff_value(d, qp_json_at(node, i), json_array_get(other, i));
        }
        break;
    case JSON_STRING:
        T_OK(qp_json_text(node, &d->arena, &text, &flags));
        if (flags == 0) { /* U+0000 is a replacement character in ours */
            assert_int_equal(text.n, json_string_length(other));
            assert_memory_equal(text.p, json_string_value(other), text.n);
        }
        assert_true(qp_json_text_is(
            node, (quipu_str){json_string_value(other), json_string_length(other)}));
        break;
    case JSON_INTEGER:
        assert_int_equal(qp_json_int64(node, &integer), QP_JSON_EXACT);
        assert_int_equal(integer, json_integer_value(other));
        break;
    case JSON_REAL:
        assert_int_not_equal(qp_json_double(node, &real), QP_JSON_NO_NUMBER);
        assert_true(real == json_real_value(other));
        break;
    case JSON_TRUE:
        assert_int_equal(qp_json_kind_of(node), QP_JSON_TRUE);
        break;
    case JSON_FALSE:
        assert_int_equal(qp_json_kind_of(node), QP_JSON_FALSE);
        break;
    case JSON_NULL:
        assert_int_equal(qp_json_kind_of(node), QP_JSON_NULL);
        break;
    }
}

/* What jansson refuses though it is JSON: numbers that fit no C type, half a surrogate pair, and
 * NUL in a key. */
static bool diff_jansson_may_refuse(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode") != NULL;
}

static void diff_one(diff *d, quipu_str text)
{
    json_error_t error;
    qp_json_fault fault = {0, ""};
    quipu_status status = qp_json_check(text, NULL, &fault);
    quipu_status parsed = qp_json_parse(&d->doc, text, NULL, NULL);
    json_t *other = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool utf8 = qp_utf8_valid(text);

    assert_int_equal(status, parsed);
    /* SQLite reads bytes, whether they are UTF-8 or not, and stops at a NUL. */
    if (utf8 && memchr(text.p, 0, text.n) == NULL && diff_sqlite(d, text) != (status == QUIPU_OK)) {
        fail_msg("SQLite differs: %.*s\nours: %s at %zu", (int)text.n, text.p, fault.expected,
                 fault.offset);
    }
    if (status == QUIPU_OK) {
        d->accepted++;
        if (other != NULL) {
            diff_value(d, qp_json_root(&d->doc), other);
        } else if (!diff_jansson_may_refuse(&error)) {
            fail_msg("jansson refuses (%s): %.*s", error.text, (int)text.n, text.p);
        }
    } else {
        d->refused++;
        if (other != NULL) {
            fail_msg("jansson accepts: %.*s", (int)text.n, text.p);
        }
    }
    json_decref(other);
    quipu_arena_reset(&d->arena);
}

static void random_json_means_the_same_to_others(void **state)
{
    uint64_t seed = t_seed();
    diff d;
    qp_buf buf;

    (void)state;
    diff_open(&d);
    qp_buf_init(&buf, T_TEXT_MAX);
    for (int64_t round = t_count(20000, 1000000); round > 0; round--) {
        qp_buf_reset(&buf);
        t_json_value(&buf, &seed, 5);
        if (qp_buf_status(&buf) == QUIPU_OK) {
            diff_one(&d, qp_buf_str(&buf));
            T_OK(qp_json_check(qp_buf_str(&buf), NULL, NULL));
        }
    }
    qp_buf_free(&buf);
    diff_close(&d);
}

static void damaged_json_is_judged_as_others_do(void **state)
{
    uint64_t seed = t_seed();
    diff d;
    qp_buf buf;

    (void)state;
    diff_open(&d);
    qp_buf_init(&buf, T_TEXT_MAX);
    for (int64_t round = t_count(60000, 3000000); round > 0; round--) {
        qp_buf_reset(&buf);
        t_json_value(&buf, &seed, 3);
        if (qp_buf_status(&buf) == QUIPU_OK) {
            quipu_str text = qp_buf_str(&buf);
            char *copy = malloc(text.n + 4);
            memcpy(copy, text.p, text.n);
            size_t n = t_json_damage(copy, text.n, text.n + 4, &seed);
            char *exact = malloc(n != 0 ? n : 1); /* for ASan */
            memcpy(exact, copy, n);
            diff_one(&d, (quipu_str){exact, n});
            free(exact);
            free(copy);
        }
    }
    assert_true(d.accepted > 100 && d.refused > 100);
    qp_buf_free(&buf);
    diff_close(&d);
}

static void random_json_equals_itself_and_not_its_damage(void **state)
{
    uint64_t seed = t_seed();
    qp_json_doc a;
    qp_json_doc b;
    qp_buf buf;

    (void)state;
    qp_json_init(&a);
    qp_json_init(&b);
    qp_buf_init(&buf, T_TEXT_MAX);
    for (int64_t round = t_count(10000, 300000); round > 0; round--) {
        qp_buf_reset(&buf);
        t_json_value(&buf, &seed, 4);
        if (qp_buf_status(&buf) != QUIPU_OK) {
            continue;
        }
        quipu_str text = qp_buf_str(&buf);
        bool equal = false;
        bool other = false;
        T_OK(qp_json_parse(&a, text, NULL, NULL));
        T_OK(qp_json_equal(qp_json_root(&a), qp_json_root(&a), &equal));
        assert_true(equal);
        char *copy = malloc(text.n + 4);
        memcpy(copy, text.p, text.n);
        size_t n = t_json_damage(copy, text.n, text.n + 4, &seed);
        if (qp_json_parse(&b, (quipu_str){copy, n}, NULL, NULL) == QUIPU_OK) {
            T_OK(qp_json_equal(qp_json_root(&a), qp_json_root(&b), &equal));
            T_OK(qp_json_equal(qp_json_root(&b), qp_json_root(&a), &other));
            assert_int_equal(equal, other);
        }
        free(copy);
    }
    qp_json_free(&a);
    qp_json_free(&b);
    qp_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_json_means_the_same_to_others),
        cmocka_unit_test(damaged_json_is_judged_as_others_do),
        cmocka_unit_test(random_json_equals_itself_and_not_its_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
