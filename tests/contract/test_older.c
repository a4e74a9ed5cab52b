/* Read-only connections to files of an older layout: what an upgrade would add reads as if it were
 * there, what only an upgrade can give is refused by name, and nothing is written. */
#include "contract/world.h"

#include <ent/migrate.h>

#include "contract/maintain_t.h"
#include "ent/db.h"

#define OLDER_JOURNAL "UPDATE \"ent_journal\" SET \"schema_hash\" = 'older', \"schema_text\" = ''"

/* Take something out of the file, as if a program without it had written it. */
static void older_take(world *w, const char *sql)
{
    W_OK(w, w->db->engine->execute(w->db->conn, quipu_cstr(sql), &w->err));
    ent_close(w->db);
    w->db = NULL;
    mt_sql(w->path, OLDER_JOURNAL);
}

static quipu_status older_try(world *w, ent_migrate_report *ret_report)
{
    if (w->db == NULL) {
        w->db = et_connect_as(w->path, 0, true);
    }
    return ent_migrate(w->db, &world_schema, NULL, ret_report, &w->err);
}

/* Go on with a read-only connection; gives what is missing. */
static ent_migrate_report older_read(world *w)
{
    ent_migrate_report report = {0};

    W_OK(w, older_try(w, &report));
    return report;
}

static int64_t older_count(world *w, const rule_where *where)
{
    int64_t count = -1;

    W_OK(w, rule_count(w->db, where, &count, &w->err));
    return count;
}

static const char older_rules[] =
    "ALTER TABLE \"rules\" DROP COLUMN \"level\";ALTER TABLE \"rules\" DROP COLUMN \"ratio\";"
    "ALTER TABLE \"rules\" DROP COLUMN \"on\";ALTER TABLE \"rules\" DROP COLUMN \"code\";"
    "ALTER TABLE \"rules\" DROP COLUMN \"blob\";ALTER TABLE \"rules\" DROP COLUMN \"mood\";"
    "ALTER TABLE \"rules\" DROP COLUMN \"meta\";ALTER TABLE \"rules\" DROP COLUMN \"maybe\"";

/* Three rows, "a" to "c", whose other values are lost. */
static void older_fill_rules(world *w)
{
    static const char *const names[] = {"b", "a", "c"};

    for (size_t i = 0; i < 3; i++) {
        W_OK(w, rule_create(w->db, NULL,
                            &(rule_new){.name = quipu_cstr(names[i]),
                                        .level = ent_some((int64_t)7),
                                        .code = QUIPU_STR("xyz"),
                                        .mood = RULE_MOOD_CALM,
                                        .maybe = ent_some((int64_t)1)},
                            NULL, &w->err));
    }
    older_take(w, older_rules);
    (void)older_read(w);
}

static void older_is_default(const rule *row)
{
    assert_int_equal(row->level, 3);
    assert_float_equal(row->ratio, 0.5, 0);
    assert_true(row->on);
    assert_null(row->code.p);
    assert_null(row->blob.p);
    assert_int_equal(row->mood, RULE_MOOD_WILD);
    assert_string_equal(row->meta.text.p, "{}");
    assert_false(row->maybe.has);
}

static void missing_columns_show_their_default_or_nothing(void **state)
{
    world *w = *state;
    rule_list list = {0};
    const rule *one = NULL;
    rule_iter iter;
    rule row;
    int n = 0;

    older_fill_rules(w);
    W_OK(w,
         rule_find(w->db, &w->arena, &(rule_query){.order = {RULE_BY_NAME(ASC)}}, &list, &w->err));
    assert_int_equal(list.n, 3);
    assert_string_equal(list.items[0].name.p, "a");
    for (size_t i = 0; i < list.n; i++) {
        older_is_default(&list.items[i]);
    }
    W_OK(w, rule_get(w->db, &w->arena, list.items[0].id, &one, &w->err));
    older_is_default(one);
    W_OK(w, rule_by_name(w->db, &w->arena, QUIPU_STR("b"), &one, &w->err));
    older_is_default(one);
    W_OK(w, rule_iter_begin(w->db, &(rule_query){.limit = 0}, &iter, &w->err));
    while (rule_iter_next(&iter, &row)) {
        assert_int_equal(row.level, 3);
        n++;
    }
    W_OK(w, rule_iter_end(&iter, &w->err));
    assert_int_equal(n, 3);
}

static void conditions_on_missing_columns_see_the_default(void **state)
{
    static const int64_t some[] = {1, 3};
    static const rule_mood wild[] = {RULE_MOOD_WILD};
    world *w = *state;
    const rule_where all[] = {
        {.level = ent_eq((int64_t)3)},
        {.level = ent_between((int64_t)2, (int64_t)4)},
        {.level = ent_in(some, 2)},
        {.ratio = ent_gt(0.25)},
        {.ratio = ent_eq(0.5)},
        {.on = ent_is(true)},
        {.mood = rule_mood_is(RULE_MOOD_WILD)},
        {.mood = rule_mood_in(wild, 1)},
        {.code = ENT_IS_NULL},
        {.blob = ENT_IS_NULL},
        {.maybe = ENT_IS_NULL},
        {.none_of = &(rule_where){.level = ent_eq((int64_t)7)}, .none_n = 1},
    };
    const rule_where none[] = {
        {.level = ent_ne((int64_t)3)},
        {.level = ent_not_in(some, 2)},
        {.ratio = ent_lt(0.5)},
        {.on = ent_is(false)},
        {.mood = rule_mood_is(RULE_MOOD_CALM)},
        {.code = ent_eq("xyz")},
        {.code = ent_prefix("x")},
        {.code = ent_contains("y")},
        {.maybe = ent_eq((int64_t)1)},
        {.maybe = ent_not_in(some, 2)},
    };

    older_fill_rules(w);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(older_count(w, &all[i]), 3);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(older_count(w, &none[i]), 0);
    }
    assert_int_equal(
        older_count(w, &(rule_where){.level = ent_eq((int64_t)3), .name = ent_eq("b")}), 1);
}

static void pages_in_the_order_of_missing_columns_give_each_row_once(void **state)
{
    const rule_order orders[][2] = {{RULE_BY_LEVEL(DESC), RULE_BY_NAME(ASC)},
                                    {RULE_BY_MAYBE(ASC), RULE_BY_NAME(ASC)},
                                    {RULE_BY_MAYBE(DESC), RULE_BY_NAME(ASC)},
                                    {RULE_BY_MOOD(ASC), RULE_BY_NAME(ASC)},
                                    {RULE_BY_CODE(DESC), RULE_BY_NAME(ASC)}};
    world *w = *state;

    older_fill_rules(w);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const rule *after = NULL;
        for (char name = 'a'; name <= 'd'; name++) {
            rule_list page = {0};
            W_OK(w,
                 rule_find(w->db, &w->arena,
                           &(rule_query){
                               .order = {orders[i][0], orders[i][1]}, .limit = 1, .after = after},
                           &page, &w->err));
            assert_int_equal(page.n, name == 'd' ? 0 : 1);
            if (page.n == 1) {
                assert_int_equal(page.items[0].name.p[0], name);
                after = &page.items[0];
            }
        }
    }
}

static void missing_tables_have_no_rows(void **state)
{
    world *w = *state;
    int64_t owner = w_author(w, "Guaman Poma");
    author_list authors = {0};
    const pair *row = NULL;
    const device *gadget = NULL;
    bool exists = true;
    int64_t count = -1;

    W_OK(w, pair_create(w->db, NULL, &(pair_new){.a = QUIPU_STR("x"), .b = 1}, NULL, &w->err));
    older_take(w, "DROP TABLE \"pairs\";DROP TABLE \"entries\";DROP TABLE \"devices\"");
    (void)older_read(w);
    W_STATUS(w, pair_get(w->db, &w->arena, QUIPU_STR("x"), 1, &row, &w->err), QUIPU_NOT_FOUND);
    W_STATUS(w, device_get(w->db, &w->arena, (quipu_uuid){{1}}, &gadget, &w->err), QUIPU_NOT_FOUND);
    W_OK(w, pair_exists(w->db, NULL, &exists, &w->err));
    assert_false(exists);
    W_OK(w,
         entry_count(w->db, &(entry_where){.author_id = ent_eq(owner), .seq = ent_gt((int64_t)0)},
                     &count, &w->err));
    assert_int_equal(count, 0);
    W_OK(w,
         author_find(w->db, &w->arena, &(author_query){.with_entries = &(entry_query){.limit = 5}},
                     &authors, &w->err));
    assert_int_equal(authors.n, 1);
    assert_true(authors.items[0].entries.loaded);
    assert_int_equal(authors.items[0].entries.n, 0);
}

static void a_missing_full_text_index_fails_searches_only(void **state)
{
    world *w = *state;
    int64_t owner = w_author(w, "Guaman Poma");
    entry_list entries = {0};
    ent_iter hits;

    W_OK(w, entry_create(w->db, NULL,
                         &(entry_new){.author_id = owner, .seq = 1, .body = QUIPU_STR("word")},
                         NULL, &w->err));
    older_take(w, "DROP TABLE \"entries_search\"");
    (void)older_read(w);
    W_OK(w, entry_find(w->db, &w->arena, &(entry_query){.where = {.author_id = ent_eq(owner)}},
                       &entries, &w->err));
    assert_int_equal(entries.n, 1);
    W_STATUS(w, entry_hits_begin(w->db, QUIPU_STR("word"), NULL, 1, &hits, &w->err),
             QUIPU_UNSUPPORTED);
    assert_non_null(strstr(w->err.message, "\"entries\""));
    assert_non_null(strstr(w->err.message, "for writing once"));
    W_STATUS(w,
             entry_find(w->db, &w->arena,
                        &(entry_query){.where = {.search = ent_match(QUIPU_STR("word"))}}, &entries,
                        &w->err),
             QUIPU_UNSUPPORTED);
}

static void the_report_names_what_an_upgrade_adds(void **state)
{
    world *w = *state;
    ent_migrate_report report;

    older_take(w, "DROP INDEX \"author_country_born\";ALTER TABLE \"rules\" DROP COLUMN \"maybe\";"
                  "DROP TABLE \"pairs\"");
    report = older_read(w);
    assert_string_equal(report.missing, "column \"maybe\" of table \"rules\", table \"pairs\", "
                                        "index \"author_country_born\" of table \"authors\"");
    assert_int_equal(report.statements, 0);
    ent_close(w->db);
    w->db = w_connect(w, 0); /* upgrades */
    ent_close(w->db);
    w->db = NULL;
    report = older_read(w);
    assert_string_equal(report.missing, "");
}

static void a_time_or_a_random_value_needs_the_upgrade(void **state)
{
    static const char *const columns[] = {"seen_at", "mark"};
    world *w = *state;

    for (size_t i = 0; i < 2; i++) {
        char sql[128];

        snprintf(sql, sizeof(sql), "ALTER TABLE \"rules\" DROP COLUMN \"%s\"", columns[i]);
        older_take(w, sql);
        W_STATUS(w, older_try(w, NULL), QUIPU_UNSUPPORTED);
        assert_string_equal(w->err.entity, "Rule");
        assert_string_equal(w->err.field, columns[i]);
        assert_non_null(strstr(w->err.message, "for writing once"));
        ent_close(w->db);
        w->db = w_connect(w, 0);
    }
}

static void what_needs_a_step_says_so(void **state)
{
    world *w = *state;

    older_take(w, "DROP INDEX IF EXISTS \"thing_n\";ALTER TABLE \"things\" DROP COLUMN \"n\"");
    W_STATUS(w, older_try(w, NULL), QUIPU_UNSUPPORTED);
    assert_string_equal(w->err.entity, "Thing");
    assert_string_equal(w->err.field, "n");
    assert_non_null(strstr(w->err.message, "step"));
    assert_non_null(strstr(w->err.message, "for writing"));
}

static void a_file_that_wants_a_newer_reader_is_refused(void **state)
{
    world *w = *state;

    older_take(w, "UPDATE \"ent_journal\" SET \"min_reader\" = 9;"
                  "ALTER TABLE \"rules\" DROP COLUMN \"maybe\"");
    W_STATUS(w, older_try(w, NULL), QUIPU_NEWER);
}

static void a_file_without_a_journal_is_not_taken_for_an_older_one(void **state)
{
    world *w = *state;

    older_take(w, "ALTER TABLE \"rules\" DROP COLUMN \"maybe\"");
    mt_sql(w->path, "DROP TABLE \"ent_journal\"");
    W_STATUS(w, older_try(w, NULL), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(w->err.message, "column \"maybe\" of table \"rules\""));
}

/* Another program upgrades the file and changes one row. */
static void older_upgrade(world *w)
{
    ent_db *writer = w_connect(w, 0);

    W_OK(w, rule_update(writer, &(rule_where){.name = ent_eq("b")},
                        &(rule_patch){.level = ent_set((int64_t)9)}, NULL, &w->err));
    ent_close(writer);
}

static void a_reader_notices_that_another_program_upgrades_the_file(void **state)
{
    const rule_where changed = {.level = ent_eq((int64_t)9)};
    world *w = *state;

    older_fill_rules(w);
    assert_int_equal(older_count(w, &changed), 0);
    older_upgrade(w);
    assert_int_equal(older_count(w, &changed), 1);
    assert_int_equal(older_count(w, &(rule_where){.level = ent_eq((int64_t)3)}), 2);
}

static void an_iterator_outlives_an_upgrade(void **state)
{
    const rule_where changed = {.level = ent_eq((int64_t)9)};
    world *w = *state;
    rule_iter iter;
    rule row;
    int seen = 0;

    older_fill_rules(w);
    W_OK(w, rule_iter_begin(w->db, &(rule_query){.limit = 10}, &iter, &w->err));
    assert_true(rule_iter_next(&iter, &row));
    older_upgrade(w);
    /* SQLite's iterator holds its snapshot for the whole connection. */
    assert_int_equal(older_count(w, &changed), t_pg() ? 1 : 0);
    for (; rule_iter_next(&iter, &row); seen++) {
        assert_int_equal(row.level, 3);
    }
    W_OK(w, rule_iter_end(&iter, &w->err));
    assert_int_equal(seen, 2);
    assert_int_equal(older_count(w, &changed), 1);
}

/* ---- names --------------------------------------------------------------------------------------
 */

static void names_that_need_quotes_are_quoted(void **state)
{
    world *w = *state;
    quoted_list list = {0};

    W_OK(w, quoted_create(w->db, NULL, &(quoted_new){.order_by = 4, .group_by = QUIPU_STR("g")},
                          NULL, &w->err));
    older_take(w, "DROP INDEX \"drop table\";"
                  "ALTER TABLE \"select.from, \"\"where\"\"\" DROP COLUMN \"it's %s\"");
    (void)older_read(w);
    W_OK(w, quoted_find(w->db, &w->arena, &(quoted_query){.where = {.total = ent_eq((int64_t)0)}},
                        &list, &w->err));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.items[0].order_by, 4);
}

static void a_renamed_column_is_read_by_its_former_name(void **state)
{
    static ent_field fields[8];
    static ent_entity renamed;
    static const ent_entity *entities[] = {&renamed};
    static ent_schema schema;
    world *w = *state;
    pair_list list = {0};
    size_t at = 0;

    W_OK(w,
         pair_create(w->db, NULL, &(pair_new){.a = QUIPU_STR("x"), .b = 1, .v = QUIPU_STR("kept")},
                     NULL, &w->err));
    older_take(w, "SELECT 1");
    assert_true(pair_entity.field_count <= sizeof(fields) / sizeof(fields[0]));
    memcpy(fields, pair_entity.fields, pair_entity.field_count * sizeof(fields[0]));
    while (strcmp(fields[at].name, "v") != 0) {
        at++;
    }
    fields[at].was = fields[at].column;
    fields[at].column = "text";
    renamed = pair_entity;
    renamed.fields = fields;
    schema = world_schema;
    schema.entities = entities;
    schema.entity_count = 1;
    w->db = et_connect_as(w->path, 0, true);
    W_OK(w, ent_migrate(w->db, &schema, NULL, NULL, &w->err));
    W_OK(w, ent_find(w->db, &w->arena, &renamed, &(pair_query){.where = {.v = ent_eq("kept")}},
                     &list, &w->err));
    assert_int_equal(list.n, 1);
    assert_string_equal(list.items[0].v.p, "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST_FILE(missing_columns_show_their_default_or_nothing),
        W_TEST_FILE(conditions_on_missing_columns_see_the_default),
        W_TEST_FILE(pages_in_the_order_of_missing_columns_give_each_row_once),
        W_TEST_FILE(missing_tables_have_no_rows),
        W_TEST_FILE(a_missing_full_text_index_fails_searches_only),
        W_TEST_FILE(the_report_names_what_an_upgrade_adds),
        W_TEST_FILE(a_time_or_a_random_value_needs_the_upgrade),
        W_TEST_FILE(what_needs_a_step_says_so),
        W_TEST_FILE(a_file_that_wants_a_newer_reader_is_refused),
        W_TEST_FILE(a_file_without_a_journal_is_not_taken_for_an_older_one),
        W_TEST_FILE(a_reader_notices_that_another_program_upgrades_the_file),
        W_TEST_FILE(an_iterator_outlives_an_upgrade),
        W_TEST_FILE(a_renamed_column_is_read_by_its_former_name),
        W_TEST_FILE(names_that_need_quotes_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
