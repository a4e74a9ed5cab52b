/* What the language accepts: names that are also words of it, items on one line, implied keys,
 * foreign keys and indexes, default names. */
#include "entgen/t_entgen.h"

#include "entgen/check.h"
#include "entgen/run.h"

typedef struct language_fixture {
    eg_run run;
    eg_schema schema;
} language_fixture;

static void language_load(language_fixture *f, const char *text)
{
    if (!t_load(&f->run, &f->schema, quipu_cstr(text))) {
        fail_msg("%s", qp_buf_str(&f->run.errors).p);
    }
}

static const eg_index *language_index(const eg_entity *entity, const char *name)
{
    for (size_t i = 0; i < entity->indexes.n; i++) {
        if (strcmp(eg_index_at(entity, i)->name.text, name) == 0) {
            return eg_index_at(entity, i);
        }
    }
    return NULL;
}

static void words_of_the_language_can_be_fields(void **state)
{
    (void)state;
    t_good(
        "entity Thing {\n  key string\n  index int\n  search text\n  cluster int\n  edge text\n"
        "  unique bool\n  column string\n  len int\n  range float\n  was time\n  text text\n"
        "  time time\n  name string\n  desc bool\n  immutable int\n  cascade json\n  shard int\n "
        " by text\n  view text\n  local bool\n  show int\n  given int\n  bits text\n}\n");
}

/* What gives the shard of a row; the words behind it are no fields, and fields no words. */
static void a_shard_has_a_number_texts_a_key_and_a_function(void **state)
{
    language_fixture f;
    const ent_shard *shard;

    (void)state;
    language_load(&f, "entity Thing {\n  a string\n  b string\n  u uuid\n"
                      "  shard (id, a, b) key u by thing_shard\n  key string\n  by int\n}\n");
    shard = f.schema.described->entities[0]->shard;
    assert_non_null(shard);
    assert_int_equal(shard->number, 1);
    assert_int_equal(shard->key, 4);
    assert_int_equal(shard->text_count, 2);
    assert_true(shard->texts[0] == 1 && shard->texts[1] == 2);
    assert_string_equal(eg_entity_at(&f.schema, 0)->shard_by.text, "thing_shard");
    assert_int_equal(eg_entity_at(&f.schema, 0)->fields.n, 6);
    eg_run_free(&f.run);
}

static void an_entity_without_a_shard_has_none(void **state)
{
    language_fixture f;

    (void)state;
    language_load(&f, "entity Thing {\n  a string\n}\n");
    assert_null(f.schema.described->entities[0]->shard);
    eg_run_free(&f.run);
}

/* Engines without shards keep the text that they always kept, so that their files do not change. */
static void a_shard_does_not_change_the_hash(void **state)
{
    language_fixture with;
    language_fixture without;

    (void)state;
    language_load(&with, "entity Thing {\n  a string\n  shard (a)\n}\n");
    language_load(&without, "entity Thing {\n  a string\n}\n");
    assert_string_equal(with.schema.hash, without.schema.hash);
    eg_run_free(&with.run);
    eg_run_free(&without.run);
}

/* Each field has the number of its class; what the language adds has the last. */
static void every_field_has_its_class(void **state)
{
    language_fixture f;
    const ent_field *fields;

    (void)state;
    language_load(&f, "schema t {\n  classes (content, own, rest)\n}\n"
                      "entity Tree {\n  a text class content local\n  b int class own\n"
                      "  edge leaves -> Tree[] cascade\n"
                      "  edge root <- Tree.leaves ? class content\n}\n"
                      "entity Leaf {\n  x int class own\n}\n");
    fields = f.schema.described->entities[0]->fields;
    assert_string_equal(fields[0].name, "id");
    assert_int_equal(fields[0].data_class, 3);
    assert_int_equal(fields[1].data_class, 1);
    assert_int_equal(fields[1].flags & ENT_F_LOCAL, ENT_F_LOCAL);
    assert_int_equal(fields[2].data_class, 2);
    assert_int_equal(fields[2].flags & ENT_F_LOCAL, 0);
    assert_int_equal(fields[3].data_class, 1);
    assert_int_equal(f.schema.described->entities[1]->fields[0].data_class, 3);
    eg_run_free(&f.run);
}

static void a_member_is_called_after_its_field_or_as_the_view_says(void **state)
{
    language_fixture f;
    const eg_field *field;

    (void)state;
    language_load(&f, "entity Thing {\n  view a \"thing_info\"\n  view b \"thing_change\" bits "
                      "\"SET_\" as Change\n  x int? show (a, a is has_x, b as y)\n"
                      "  z time? show (a as at has has_z,\n    b bit when by hand)\n}\n");
    field = eg_field_at(eg_entity_at(&f.schema, 0), 1);
    assert_string_equal(eg_show_at(field, 0)->member.text, "x");
    assert_null(eg_show_at(field, 0)->bit.text);
    assert_true(eg_show_at(field, 1)->presence);
    assert_string_equal(eg_show_at(field, 1)->member.text, "has_x");
    assert_string_equal(eg_show_at(field, 2)->bit.text, "SET_Y");
    field = eg_field_at(eg_entity_at(&f.schema, 0), 2);
    assert_string_equal(eg_show_at(field, 0)->has.text, "has_z");
    assert_string_equal(eg_show_at(field, 1)->bit.text, "SET_WHEN");
    assert_true(eg_show_at(field, 1)->by_hand && eg_show_at(field, 1)->to->given);
    eg_run_free(&f.run);
}

static void a_member_may_have_a_type_of_its_own(void **state)
{
    language_fixture f;
    const eg_field *field;
    const eg_entity *entity;

    (void)state;
    language_load(&f,
                  "entity Thing {\n  view a \"thing\" also given as Thing for go\n"
                  "  x json show (a as parts type Part[] by hand, a as count type int by hand,\n"
                  "    a as kind type Kind enum(big, small) by hand)\n"
                  "  y uuid show (a type YID)\n  also int\n}\n");
    entity = eg_entity_at(&f.schema, 0);
    assert_true(eg_view_at(entity, 0)->also_given && !eg_view_at(entity, 0)->given);
    assert_string_equal(eg_view_at(entity, 0)->only.text, "go");
    field = eg_field_at(entity, 1);
    assert_true(eg_show_at(field, 0)->many);
    assert_string_equal(eg_show_at(field, 0)->named.text, "Part");
    assert_int_equal(eg_show_type(eg_show_at(field, 0))->type, ENT_JSON);
    assert_int_equal(eg_show_type(eg_show_at(field, 1))->type, ENT_INT);
    assert_null(eg_show_at(field, 1)->named.text);
    assert_int_equal(eg_show_type(eg_show_at(field, 2))->type, ENT_ENUM);
    assert_int_equal(eg_show_type(eg_show_at(field, 2))->labels.n, 2);
    field = eg_field_at(entity, 2);
    assert_string_equal(eg_show_at(field, 0)->named.text, "YID");
    assert_int_equal(eg_show_type(eg_show_at(field, 0))->type, ENT_UUID);
    assert_string_equal(eg_field_at(entity, 3)->name.text, "also");
    eg_run_free(&f.run);
}

static void a_member_of_an_edge_is_called_after_both_or_as_the_view_says(void **state)
{
    language_fixture f;
    const eg_entity *entity;
    const eg_field *field;

    (void)state;
    language_load(&f, "entity Thing {\n  view a \"thing_info\"\n  name string\n"
                      "  edge parts -> Thing[] restrict\n"
                      "  edge whole <- Thing.parts ? show (a of name, a of name as other)\n}\n");
    entity = eg_entity_at(&f.schema, 0);
    field = eg_field_at(entity, entity->fields.n - 1);
    assert_string_equal(eg_show_at(field, 0)->member.text, "whole_name");
    assert_string_equal(eg_show_at(field, 1)->member.text, "other");
    assert_string_equal(eg_show_at(field, 0)->shown->name.text, "name");
    eg_run_free(&f.run);
}

/* Who sees a field is no part of a file: saying it must not migrate anything. */
static void classes_and_views_do_not_change_the_hash(void **state)
{
    language_fixture with;
    language_fixture without;

    (void)state;
    language_load(&with, "schema t {\n  classes (a)\n}\nentity Thing {\n  view v \"s\"\n"
                         "  x int class a local show (v)\n}\n");
    language_load(&without, "schema t {\n}\nentity Thing {\n  x int\n}\n");
    assert_string_equal(with.schema.hash, without.schema.hash);
    eg_run_free(&with.run);
    eg_run_free(&without.run);
}

static void items_may_stand_on_one_line(void **state)
{
    language_fixture f;

    (void)state;
    language_load(&f, "entity Thing { x int unique y text? = \"a\" notempty index (x, y desc) }");
    assert_int_equal(eg_entity_at(&f.schema, 0)->fields.n, 3);
    assert_int_equal(eg_entity_at(&f.schema, 0)->indexes.n, 2);
    eg_run_free(&f.run);
}

static void a_byte_order_mark_and_carriage_returns_are_passed_over(void **state)
{
    language_fixture f;
    eg_run run;
    eg_schema schema;

    (void)state;
    language_load(&f, "\xef\xbb\xbf# c\r\nentity Thing {\r\n  ## doc\r\n  x int = 3 # c\r\n}\r\n");
    assert_int_equal(eg_entity_at(&f.schema, 0)->fields.n, 2);
    eg_run_free(&f.run);
    assert_false(t_load(&run, &schema,
                        QUIPU_STR("\xef\xbb\xbf\xef\xbb\xbf"
                                  "entity A { x int }")));
    assert_non_null(strstr(qp_buf_str(&run.errors).p, "t.ent:1:1: error"));
    eg_run_free(&run);
}

static void attributes_may_go_on_in_the_next_line(void **state)
{
    language_fixture f;
    const eg_field *field;

    (void)state;
    language_load(&f,
                  "entity Thing {\n  x string\n    unique\n    len(1..9)\n  unique index (x, y)\n"
                  "  y int\n}\n");
    field = eg_find_field(eg_entity_at(&f.schema, 0), "x");
    assert_true(field->unique);
    assert_int_equal(field->rule.max, 9);
    assert_int_equal(eg_entity_at(&f.schema, 0)->indexes.n, 2);
    eg_run_free(&f.run);
}

static void an_entity_without_a_key_gets_an_id(void **state)
{
    language_fixture f;
    const eg_field *id;

    (void)state;
    language_load(&f, "entity Thing {\n  x int\n}\n");
    id = eg_field_at(eg_entity_at(&f.schema, 0), 0);
    assert_string_equal(id->name.text, "id");
    assert_int_equal(id->flags, ENT_F_AUTO | ENT_F_OPT_NEW | ENT_F_IMMUTABLE);
    eg_run_free(&f.run);
}

static void a_declared_id_is_the_key(void **state)
{
    static const char *const types[] = {"int", "uuid", "string", "bytes"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        language_fixture f;
        const eg_entity *entity;
        char text[128];
        (void)snprintf(text, sizeof(text), "entity Thing {\n  x int\n  id %s\n}\n", types[i]);
        language_load(&f, text);
        entity = eg_entity_at(&f.schema, 0);
        assert_int_equal(entity->fields.n, 2);
        assert_int_equal(entity->key_count, 1);
        assert_int_equal(entity->key_fields[0], 1);
        assert_int_equal(eg_field_at(entity, 1)->flags & ENT_F_AUTO, 0);
        eg_run_free(&f.run);
    }
}

static void tables_are_plural_snake_case(void **state)
{
    static const char *const pairs[][2] = {
        {"Session", "sessions"},  {"History", "histories"},   {"Day", "days"},
        {"Box", "boxes"},         {"Batch", "batches"},       {"Dish", "dishes"},
        {"Address", "addresses"}, {"ToolCall", "tool_calls"}, {"HTTPServer", "http_servers"},
        {"Order2", "order2s"}};

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        language_fixture f;
        char text[128];
        (void)snprintf(text, sizeof(text), "entity %s {\n  x int\n}\n", pairs[i][0]);
        language_load(&f, text);
        assert_string_equal(eg_entity_at(&f.schema, 0)->table.text, pairs[i][1]);
        eg_run_free(&f.run);
    }
}

static const char language_pair[] = "entity Owner {\n  edge things -> Thing%s cascade\n}\n"
                                    "entity Thing {\n  edge owner <- Owner.things\n  seq int\n"
                                    "  %s\n}\n";

static const eg_entity *language_load_pair(language_fixture *f, const char *many, const char *more)
{
    char text[512];

    (void)snprintf(text, sizeof(text), language_pair, many, more);
    language_load(f, text);
    return eg_entity_at(&f->schema, 1);
}

static void a_foreign_key_gets_an_index(void **state)
{
    language_fixture f;
    const eg_entity *thing = language_load_pair(&f, "[]", "");

    (void)state;
    assert_int_equal(thing->indexes.n, 1);
    assert_non_null(language_index(thing, "thing_owner_id"));
    assert_false(eg_index_at(thing, 0)->unique);
    eg_run_free(&f.run);
}

static void no_index_is_added_where_another_begins_with_the_column(void **state)
{
    static const char *const covers[] = {"index (owner, seq)", "unique index (owner_id)",
                                         "cluster (owner, seq)", "key (owner, seq)",
                                         "index (owner desc)"};
    static const size_t counts[] = {1, 1, 0, 0, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(covers) / sizeof(covers[0]); i++) {
        language_fixture f;
        const eg_entity *thing = language_load_pair(&f, "[]", covers[i]);
        assert_int_equal(thing->indexes.n, counts[i]);
        eg_run_free(&f.run);
    }
}

static void the_key_of_a_one_to_one_edge_is_unique(void **state)
{
    language_fixture f;
    const eg_entity *thing = language_load_pair(&f, "", "index (owner, seq)");

    (void)state;
    assert_int_equal(thing->indexes.n, 2);
    assert_non_null(language_index(thing, "thing_owner_id"));
    assert_true(language_index(thing, "thing_owner_id")->unique);
    eg_run_free(&f.run);
    thing = language_load_pair(&f, "", "key (owner)");
    assert_int_equal(thing->indexes.n, 0);
    eg_run_free(&f.run);
}

static void a_foreign_key_has_the_type_of_the_key_it_holds(void **state)
{
    language_fixture f;
    const eg_field *field;

    (void)state;
    language_load(&f, "entity Aa {\n  edge bb -> Bb cascade\n  id uuid\n}\n"
                      "entity Bb {\n  edge aa <- Aa.bb\n  key (aa)\n  edge cs -> Cc[] set_null\n}\n"
                      "entity Cc {\n  edge bb <- Bb.cs ? column \"b\"\n}\n");
    field = eg_find_field(eg_entity_at(&f.schema, 2), "bb");
    assert_int_equal(field->type, ENT_UUID);
    assert_int_equal(field->flags, ENT_F_NULLABLE | ENT_F_OPT_NEW);
    assert_string_equal(field->column.text, "b");
    eg_run_free(&f.run);
}

static void names_of_indexes_are_those_of_ent(void **state)
{
    language_fixture f;
    const eg_entity *session;

    (void)state;
    language_load(&f, "entity Session table \"sessions\" {\n  key string unique\n"
                      "  updated_at time column \"updated\"\n  index (updated_at, key)\n}\n");
    session = eg_entity_at(&f.schema, 0);
    assert_non_null(language_index(session, "sessions_key_key"));
    assert_non_null(language_index(session, "session_updated_key"));
    eg_run_free(&f.run);
}

static void several_files_form_one_schema(void **state)
{
    eg_run run;
    eg_schema schema;

    (void)state;
    assert_false(t_load(&run, &schema, QUIPU_STR("entity Aa {\n  edge bs -> Bb[] cascade\n}\n")));
    eg_run_free(&run);
    t_good("schema both {\n}\nentity Aa {\n  edge bs -> Bb[] cascade\n}\n"
           "entity Bb {\n  edge aa <- Aa.bs\n}\n");
}

static void scalars_with_a_zero_default_stay_plain(void **state)
{
    language_fixture f;
    const eg_entity *thing;

    (void)state;
    language_load(&f, "entity Thing {\n  a int = 0\n  b float = 0\n  c bool = false\n  d int = 1\n"
                      "  e float = 0.5\n  f bool = true\n  g time = now\n  h uuid = random\n"
                      "  i text = \"x\"\n  j enum(p, q) = q\n  k json = \"{}\"\n}\n");
    thing = eg_entity_at(&f.schema, 0);
    for (size_t i = 1; i <= 11; i++) {
        bool opt = (eg_field_at(thing, i)->flags & ENT_F_OPT_NEW) != 0;
        assert_int_equal(opt, i >= 4 && i <= 8);
    }
    eg_run_free(&f.run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_the_language_can_be_fields),
        cmocka_unit_test(a_shard_has_a_number_texts_a_key_and_a_function),
        cmocka_unit_test(an_entity_without_a_shard_has_none),
        cmocka_unit_test(a_shard_does_not_change_the_hash),
        cmocka_unit_test(every_field_has_its_class),
        cmocka_unit_test(a_member_is_called_after_its_field_or_as_the_view_says),
        cmocka_unit_test(a_member_may_have_a_type_of_its_own),
        cmocka_unit_test(a_member_of_an_edge_is_called_after_both_or_as_the_view_says),
        cmocka_unit_test(classes_and_views_do_not_change_the_hash),
        cmocka_unit_test(items_may_stand_on_one_line),
        cmocka_unit_test(a_byte_order_mark_and_carriage_returns_are_passed_over),
        cmocka_unit_test(attributes_may_go_on_in_the_next_line),
        cmocka_unit_test(an_entity_without_a_key_gets_an_id),
        cmocka_unit_test(a_declared_id_is_the_key),
        cmocka_unit_test(tables_are_plural_snake_case),
        cmocka_unit_test(a_foreign_key_gets_an_index),
        cmocka_unit_test(no_index_is_added_where_another_begins_with_the_column),
        cmocka_unit_test(the_key_of_a_one_to_one_edge_is_unique),
        cmocka_unit_test(a_foreign_key_has_the_type_of_the_key_it_holds),
        cmocka_unit_test(names_of_indexes_are_those_of_ent),
        cmocka_unit_test(several_files_form_one_schema),
        cmocka_unit_test(scalars_with_a_zero_default_stay_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
