/* Rules of the schema on the create and on the update path, values at their extremes, and what a
 * file that others wrote may hold. */
#include "contract/world.h"

#include <math.h>

#include "ent/db.h"

/* One broken rule, tried by create and by update. */
typedef struct broken {
    rule_new v;
    rule_patch p;
    const char *field;
    const char *rule;
    quipu_status status;
} broken;

/* Tried on row 1, by create, update and upsert. */
static void must_break(world *w, const broken *cases, size_t n)
{
    int64_t changed = 0;

    for (size_t i = 0; i < n; i++) {
        const broken *c = &cases[i];
        W_STATUS(w, rule_create(w->db, NULL, &c->v, NULL, &w->err), c->status);
        W_ERROR(w, "Rule", c->field, c->rule);
        memset(&w->err, 0, sizeof(w->err));
        W_STATUS(w, rule_update(w->db, &(rule_where){.id = ent_eq(1)}, &c->p, &changed, &w->err),
                 c->status);
        W_ERROR(w, "Rule", c->field, c->rule);
        W_STATUS(w, rule_upsert(w->db, NULL, &c->v, RULE_ON_ID, NULL, &w->err), c->status);
    }
}

static void broken_text_rules_are_refused_by_create_and_update(void **state)
{
    static const char long_text[ENT_STRING_MAX + 2] = "";
    world *w = *state;
    const quipu_str nul = {"a\0b", 3};
    const quipu_str bad = {"a\xff", 2};
    const quipu_str surrogate = {"\xed\xa0\x80", 3};
    const quipu_str large = {long_text, ENT_STRING_MAX + 1};
    const quipu_bytes four = {"abcd", 4};
    const quipu_json no_json = {QUIPU_STR("{\"a\":}")};
    const broken cases[] = {
        {{.name = QUIPU_STR("")}, {.name = ent_set("")}, "name", "notempty", QUIPU_INVALID},
        {{.name = nul}, {.name = ent_set(nul)}, "name", "nul", QUIPU_INVALID},
        {{.name = bad}, {.name = ent_set(bad)}, "name", "utf8", QUIPU_INVALID},
        {{.name = surrogate}, {.name = ent_set(surrogate)}, "name", "utf8", QUIPU_INVALID},
        {{.name = large}, {.name = ent_set(large)}, "name", "size", QUIPU_LIMIT},
        {{.code = QUIPU_STR("a")}, {.code = ent_set("a")}, "code", "len", QUIPU_INVALID},
        {{.code = QUIPU_STR("abcde")}, {.code = ent_set("abcde")}, "code", "len", QUIPU_INVALID},
        {{.blob = four}, {.blob = ent_set(four)}, "blob", "len", QUIPU_INVALID},
        {{.meta = no_json}, {.meta = ent_set(no_json)}, "meta", "json", QUIPU_INVALID},
    };
    int64_t n = 0;

    W_OK(w, rule_create(w->db, NULL, &(rule_new){.name = QUIPU_STR("kept")}, NULL, &w->err));
    must_break(w, cases, sizeof(cases) / sizeof(cases[0]));
    W_OK(w, rule_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 1);
}

static void broken_number_rules_are_refused_by_create_and_update(void **state)
{
    world *w = *state;
    const double not_a_number = (double)NAN;
    const double infinite = -(double)INFINITY;
    const rule_mood odd = (rule_mood)3;
    const quipu_time year_0 = {.s = INT64_C(-62135596801)};
    const quipu_time far = {.s = INT64_C(253402300800)}; /* year 10000 */
    const quipu_time no_ns = {.ns = 1000000000};
    const broken cases[] = {
        {{.level = ent_some(-1)}, {.level = ent_set(-1)}, "level", "range", QUIPU_INVALID},
        {{.level = ent_some(11)}, {.level = ent_set(11)}, "level", "range", QUIPU_INVALID},
        {{.ratio = ent_some(1.5)}, {.ratio = ent_set(1.5)}, "ratio", "range", QUIPU_INVALID},
        {{.ratio = ent_some(not_a_number)},
         {.ratio = ent_set(not_a_number)},
         "ratio",
         "finite",
         QUIPU_INVALID},
        {{.ratio = ent_some(infinite)},
         {.ratio = ent_set(infinite)},
         "ratio",
         "finite",
         QUIPU_INVALID},
        {{.mood = odd}, {.mood = rule_mood_set(odd)}, "mood", "enum", QUIPU_INVALID},
        {{.seen_at = ent_some(year_0)},
         {.seen_at = ent_set(year_0)},
         "seen_at",
         "range",
         QUIPU_INVALID},
        {{.seen_at = ent_some(far)}, {.seen_at = ent_set(far)}, "seen_at", "range", QUIPU_INVALID},
        {{.seen_at = ent_some(no_ns)},
         {.seen_at = ent_set(no_ns)},
         "seen_at",
         "range",
         QUIPU_INVALID},
    };
    int64_t n = 0;

    W_OK(w, rule_create(w->db, NULL, &(rule_new){.name = QUIPU_STR("kept")}, NULL, &w->err));
    must_break(w, cases, sizeof(cases) / sizeof(cases[0]));
    W_OK(w, rule_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 1);
}

static void values_at_the_rules_borders_are_stored(void **state)
{
    static char text[ENT_STRING_MAX];
    world *w = *state;
    const rule *row = NULL;
    int64_t n = 0;

    memset(text, 'x', sizeof(text));
    W_OK(w, rule_create(w->db, &w->arena,
                        &(rule_new){.name = {text, ENT_STRING_MAX},
                                    .level = ent_some(10),
                                    .ratio = ent_some(1.0),
                                    .code = QUIPU_STR("ab"),
                                    .blob = {"abc", 3}},
                        &row, &w->err));
    assert_int_equal(row->name.n, ENT_STRING_MAX);
    W_OK(w, rule_update(w->db, &(rule_where){.id = ent_eq(row->id)},
                        &(rule_patch){.level = ent_set(0),
                                      .ratio = ent_set(0.0),
                                      .code = ent_set("abcd"),
                                      .blob = ent_set(((quipu_bytes){"a", 1}))},
                        &n, &w->err));
    assert_int_equal(n, 1);
}

static void required_fields_must_be_given(void **state)
{
    world *w = *state;
    thing_new v = w_thing(1);
    int64_t n = 0;

    v.s = (quipu_str){NULL, 0};
    W_STATUS(w, thing_create(w->db, NULL, &v, NULL, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Thing", "s", "required");
    v = w_thing(1);
    v.x.p = NULL;
    W_STATUS(w, thing_create(w->db, NULL, &v, NULL, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Thing", "x", "required");
    v = w_thing(1);
    v.e = (thing_e)0;
    W_STATUS(w, thing_create(w->db, NULL, &v, NULL, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Thing", "e", "required");
    v = w_thing(1);
    v.j.text.p = NULL;
    W_STATUS(w, thing_create(w->db, NULL, &v, NULL, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Thing", "j", "required");
    v = w_thing(1);
    W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    W_STATUS(w,
             thing_update(w->db, &(thing_where){.id = ent_eq(1)}, &(thing_patch){.s = ENT_CLEAR},
                          &n, &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Thing", "s", "required");
    W_STATUS(w,
             thing_update(w->db, &(thing_where){.id = ent_eq(1)},
                          &(thing_patch){.s_o = ent_set((const char *)NULL)}, &n, &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Thing", "s_o", "required");
}

static void extremes_of_every_type_survive(void **state)
{
    static const int64_t ints[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
    static const double floats[] = {
        -1.7976931348623157e308, -4.9406564584124654e-324, -0.0, 0.0, 0.1, 1.7976931348623157e308};
    static const quipu_time times[] = {
        {INT64_C(-62135596800), 0},        {-1, 999999999}, {-1, 0}, {0, 0}, {0, 1},
        {INT64_C(253402300799), 999999999}};
    world *w = *state;

    for (size_t i = 0; i < 6; i++) {
        const thing *made = NULL;
        const thing *got = NULL;
        thing_new v = w_thing(1);

        v.n = ints[i];
        v.f = floats[i];
        v.t = times[i];
        memset(v.u.b, i % 2 == 0 ? 0 : 0xff, sizeof(v.u.b));
        W_OK(w, thing_create(w->db, &w->arena, &v, &made, &w->err));
        W_OK(w, thing_get(w->db, &w->arena, made->id, &got, &w->err));
        assert_true(got->n == ints[i]);
        /* SQLite keeps -0.0 as 0.0: equal as numbers */
        assert_true(got->f == floats[i]);
        assert_true(got->t.s == times[i].s && got->t.ns == times[i].ns);
        assert_memory_equal(&got->u, &v.u, sizeof(v.u));
    }
}

static void long_texts_and_bytes_survive(void **state)
{
    enum { SIZE = 1 << 20 };
    world *w = *state;
    const thing *got = NULL;
    thing_new v = w_thing(1);
    char *text = malloc(SIZE);
    char *json = malloc(SIZE);

    assert_non_null(text);
    assert_non_null(json);
    memset(text, 'y', SIZE);
    memcpy(text + SIZE - 4, "\xf0\x9f\x98\x80", 4);
    memset(json, ' ', SIZE);
    json[0] = '[';
    json[SIZE - 1] = ']';
    v.big = (quipu_str){text, SIZE};
    v.x = (quipu_bytes){text, SIZE};
    v.j = (quipu_json){{json, SIZE}};
    W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    W_OK(w, thing_get(w->db, &w->arena, 1, &got, &w->err));
    assert_int_equal(got->big.n, SIZE);
    assert_memory_equal(got->big.p, text, SIZE);
    assert_int_equal(got->big.p[SIZE], '\0');
    assert_int_equal(got->x.n, SIZE);
    assert_memory_equal(got->x.p, text, SIZE);
    assert_int_equal(got->j.text.n, SIZE);
    assert_memory_equal(got->j.text.p, json, SIZE);
    free(text);
    free(json);
}

static void a_value_past_the_size_limit_is_refused(void **state)
{
    world *w = *state;
    thing_new v = w_thing(1);
    char *text = calloc(1, (size_t)ENT_VALUE_MAX + 1);

    assert_non_null(text);
    memset(text, 'z', (size_t)ENT_VALUE_MAX + 1);
    v.big = (quipu_str){text, (size_t)ENT_VALUE_MAX + 1};
    W_STATUS(w, thing_create(w->db, NULL, &v, NULL, &w->err), QUIPU_LIMIT);
    W_ERROR(w, "Thing", "big", "size");
    v.big.n = ENT_VALUE_MAX;
    W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    free(text);
}

/* ---- what others wrote ------------------------------------------------------------------------
 */

static void world_sql(world *w, const char *sql)
{
    W_OK(w, w->db->engine->execute(w->db->conn, quipu_cstr(sql), &w->err));
}

static void foreign_forms_of_times_uuids_and_json_are_read(void **state)
{
    T_SQLITE_ONLY("a server's columns hold no other forms");

    static const char *const times[] = {"'2026-04-13 09:30:01.5+09:00'", "'2026-04-13T00:30:01.5Z'",
                                        "'2026-04-13 09:30:01.5 +0900 KST'",
                                        "'2026-04-13 00:30:01.5 +0000 UTC m=+0.036'",
                                        "1776040201500"};
    world *w = *state;
    thing_new v = w_thing(1);
    const thing *got = NULL;

    W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    world_sql(w, "UPDATE things SET u = '0123ABCD-4567-89ab-CDEF-0123456789AB', "
                 "u_o = x'0123abcd456789abcdef0123456789ab', j = x'7b7d'");
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        world_sql(w, w_text(w, "UPDATE things SET t = %s", times[i]).p);
        W_OK(w, thing_get(w->db, &w->arena, 1, &got, &w->err));
        assert_true(got->t.s == 1776040201 && got->t.ns == 500000000);
    }
    assert_memory_equal(&got->u, &got->u_o.v, sizeof(got->u));
    assert_int_equal(got->u.b[3], 0xcd);
    T_STR(got->j.text, "{}");
}

static void a_null_in_a_field_with_a_default_reads_as_the_default(void **state)
{
    world *w = *state;
    const rule *row = NULL;

    /* as a file has it that was adopted: the column may be NULL there */
    world_sql(w, "ALTER TABLE rules RENAME TO old; CREATE TABLE rules AS SELECT * FROM old;"
                 "INSERT INTO rules (id, made_at, seen_at, mark, fixed, count) VALUES (5, "
                 "'2026-01-01 00:00:00.000000000+00:00', '2026-01-01 00:00:00.000000000+00:00', "
                 "'00000000-0000-4000-8000-000000000000', 0, 0)");
    W_OK(w, rule_get(w->db, &w->arena, 5, &row, &w->err));
    T_STR(row->name, "anonymous");
    assert_int_equal(row->level, 3);
    assert_true(row->ratio == 0.5 && row->on);
    assert_int_equal(row->mood, RULE_MOOD_WILD);
    T_STR(row->meta.text, "{}");
    world_sql(w, "UPDATE rules SET made_at = NULL");
    W_STATUS(w, rule_get(w->db, &w->arena, 5, &row, &w->err), QUIPU_CORRUPT);
    W_ERROR(w, "Rule", "made_at", "type");
}

static void values_that_do_not_fit_are_named_as_damage(void **state)
{
    T_SQLITE_ONLY("a server's columns hold no other forms");

    static const struct {
        const char *set;
        const char *field;
        const char *shown;
    } cases[] = {
        {"e = 'mauve'", "e", "mauve"}, {"e = ''", "e", ""},
        {"e = 're'", "e", "re"},       {"t = 'yesterday'", "t", "yesterday"},
        {"t = 1.5", "t", ""},          {"u = 'abc'", "u", "abc"},
        {"u = x'00'", "u", ""},        {"n = 'many'", "n", "many"},
        {"n = 1.5", "n", ""},          {"b = 'perhaps'", "b", "perhaps"},
        {"f = 'wide'", "f", "wide"},
    };
    world *w = *state;
    thing_new v = w_thing(1);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const thing *row = NULL;
        thing_list list = {.n = 77};
        quipu_arena arena = QUIPU_ARENA_INIT;
        thing_iter it;
        thing now;
        int64_t n = 0;

        W_OK(w, thing_delete_all(w->db, &n, &w->err));
        W_OK(w, thing_create(w->db, &w->arena, &v, &row, &w->err));
        world_sql(w, w_text(w, "UPDATE things SET %s", cases[i].set).p);
        W_STATUS(w, thing_find(w->db, &arena, &(thing_query){.limit = 0}, &list, &w->err),
                 QUIPU_CORRUPT);
        W_ERROR(w, "Thing", cases[i].field, "type");
        assert_non_null(strstr(w->err.message, cases[i].shown));
        assert_int_equal(list.n, 77);
        quipu_arena_free(&arena);
        W_OK(w, thing_iter_begin(w->db, &(thing_query){.limit = 0}, &it, &w->err));
        assert_false(thing_iter_next(&it, &now));
        W_STATUS(w, thing_iter_end(&it, &w->err), QUIPU_CORRUPT);
        W_ERROR(w, "Thing", cases[i].field, "type");
    }
}

static void an_arena_at_its_limit_says_so(void **state)
{
    world *w = *state;
    quipu_arena arena = {.limit = 64 * 1024};
    thing_list list = {.n = 77};
    thing_new v = w_thing(1);
    char text[1024];

    memset(text, 'x', sizeof(text));
    v.big = (quipu_str){text, sizeof(text)};
    for (int i = 0; i < 100; i++) {
        W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    }
    W_STATUS(w, thing_find(w->db, &arena, &(thing_query){.limit = 0}, &list, &w->err), QUIPU_LIMIT);
    assert_int_equal(list.n, 77);
    W_OK(w, thing_find(w->db, &arena, &(thing_query){.limit = 3}, &list, &w->err));
    assert_int_equal(list.n, 3);
    quipu_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(broken_text_rules_are_refused_by_create_and_update),
        W_TEST(broken_number_rules_are_refused_by_create_and_update),
        W_TEST(values_at_the_rules_borders_are_stored),
        W_TEST(required_fields_must_be_given),
        W_TEST(extremes_of_every_type_survive),
        W_TEST(long_texts_and_bytes_survive),
        W_TEST(a_value_past_the_size_limit_is_refused),
        W_TEST(foreign_forms_of_times_uuids_and_json_are_read),
        W_TEST(a_null_in_a_field_with_a_default_reads_as_the_default),
        W_TEST(values_that_do_not_fit_are_named_as_damage),
        W_TEST(an_arena_at_its_limit_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
