/* Create, get, update, delete, upsert and bulk create, as a user calls them. */
#include "contract/world.h"

#include "ent/find.h"

/* The key, too: a caller that asks for one owner's rows has it. */
static void members_that_are_left_out_are_absent_and_the_others_whole(void **state)
{
    static const size_t left_out[] = {offsetof(thing, s_o), offsetof(thing, n),
                                      offsetof(thing, x_o)};
    world *w = *state;
    const thing *made = NULL;
    thing_new v = w_thing(7);
    const thing_query query = {.limit = 0};
    thing_iter it;
    thing row;

    v.n_o = ent_some(-5);
    v.s_o = QUIPU_STR("text");
    v.x_o = (quipu_bytes){"x", 1};
    W_OK(w, thing_create(w->db, &w->arena, &v, &made, &w->err));
    assert_int_not_equal(made->n, 0);
    for (size_t n = 0; n <= 3; n++) { /* each is a statement of its own */
        W_OK(w, qp_iter_begin_without(w->db, &thing_entity, &query, (qp_without){left_out, n},
                                      &it.it, &w->err));
        assert_true(thing_iter_next(&it, &row));
        assert_true(n > 0 ? row.s_o.p == NULL : quipu_str_eq(row.s_o, v.s_o));
        assert_int_equal(row.n, n > 1 ? 0 : made->n);
        assert_true(n > 2 ? row.x_o.p == NULL : row.x_o.n == 1);
        assert_true(row.n_o.has && row.n_o.v == -5);
        assert_true(quipu_str_eq(row.s, made->s) && row.id == made->id);
        assert_false(thing_iter_next(&it, &row));
        W_OK(w, thing_iter_end(&it, &w->err));
    }
}

static void a_created_row_comes_back_whole(void **state)
{
    world *w = *state;
    const thing *made = NULL;
    const thing *got = NULL;
    thing_new v = w_thing(7);

    v.n_o = ent_some(-5);
    v.f_o = ent_some(0.25);
    v.b_o = ent_bool_some(false);
    v.s_o = QUIPU_STR("");
    v.x_o = (quipu_bytes){"", 0};
    v.t_o = ent_some(((quipu_time){.s = 1, .ns = 999999999}));
    v.u_o = ent_some(((quipu_uuid){{1, 2, 3}}));
    v.e_o = THING_E_O_BLUE;
    v.j_o = ent_json(QUIPU_STR("{\"b\": 1, \"a\":\t1e3, \"b\": 2.50}"));
    W_OK(w, thing_create(w->db, &w->arena, &v, &made, &w->err));
    W_OK(w, thing_get(w->db, &w->arena, made->id, &got, &w->err));
    for (int i = 0; i < 2; i++) {
        const thing *row = i == 0 ? made : got;
        assert_int_equal(row->id, 1);
        assert_int_equal(row->n, 7);
        assert_true(row->n_o.has && row->n_o.v == -5);
        assert_true(row->f == 3.5 && row->f_o.has && row->f_o.v == 0.25);
        assert_true(row->b && row->b_o.has && !row->b_o.v);
        T_STR(row->s, "text");
        T_STR(row->s_o, "");
        assert_true(row->x.n == 2 && memcmp(row->x.p, "\x00\x01", 2) == 0);
        assert_true(row->x_o.p != NULL && row->x_o.n == 0);
        assert_true(row->t.s == 7 && row->t.ns == 0);
        assert_true(row->t_o.has && row->t_o.v.s == 1 && row->t_o.v.ns == 999999999);
        assert_memory_equal(&row->u, &v.u, sizeof(row->u));
        assert_true(row->u_o.has && row->u_o.v.b[2] == 3);
        assert_int_equal(row->e, v.e);
        assert_int_equal(row->e_o, THING_E_O_BLUE);
        T_STR(row->j.text, "null");
        T_STR(row->j_o.text, "{\"b\": 1, \"a\":\t1e3, \"b\": 2.50}");
    }
}

static void what_is_not_given_stays_absent(void **state)
{
    world *w = *state;
    const thing *got = NULL;
    thing_new v = w_thing(0);

    W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    W_OK(w, thing_get(w->db, &w->arena, 1, &got, &w->err));
    assert_false(got->n_o.has || got->f_o.has || got->b_o.has || got->t_o.has || got->u_o.has);
    T_STR(got->s_o, NULL);
    assert_null(got->x_o.p);
    assert_int_equal(got->e_o, 0);
    T_STR(got->j_o.text, NULL);
}

static void defaults_fill_what_create_leaves_out(void **state)
{
    world *w = *state;
    const rule *made = NULL;
    const rule *got = NULL;
    quipu_time before = quipu_time_now();

    W_OK(w, rule_create(w->db, &w->arena, &(rule_new){0}, &made, &w->err));
    W_OK(w, rule_get(w->db, &w->arena, made->id, &got, &w->err));
    T_STR(got->name, "anonymous");
    assert_int_equal(got->level, 3);
    assert_true(got->ratio == 0.5);
    assert_true(got->on);
    assert_int_equal(got->mood, RULE_MOOD_WILD);
    T_STR(got->meta.text, "{}");
    assert_true(quipu_time_cmp(before, got->made_at) <= 0);
    /* one clock reading a call */
    assert_int_equal(quipu_time_cmp(got->made_at, got->seen_at), 0);
    assert_int_equal(got->mark.b[6] >> 4, 4);
    assert_memory_equal(&made->mark, &got->mark, sizeof(got->mark));
    assert_int_equal(quipu_time_cmp(made->made_at, got->made_at), 0);
    assert_false(got->maybe.has);
}

static void given_values_win_over_defaults(void **state)
{
    world *w = *state;
    const rule *made = NULL;
    rule_new v = {.name = QUIPU_STR("x"),
                  .level = ent_some(0),
                  .ratio = ent_some(0.0),
                  .on = ent_bool_some(false),
                  .mood = RULE_MOOD_CALM,
                  .meta = {QUIPU_STR("[]")},
                  .made_at = ent_some(((quipu_time){.s = 5})),
                  .mark = ent_some(((quipu_uuid){{9}}))};

    W_OK(w, rule_create(w->db, &w->arena, &v, &made, &w->err));
    T_STR(made->name, "x");
    assert_int_equal(made->level, 0);
    assert_true(made->ratio == 0 && !made->on);
    assert_int_equal(made->mood, RULE_MOOD_CALM);
    T_STR(made->meta.text, "[]");
    assert_int_equal(made->made_at.s, 5);
    assert_int_equal(made->mark.b[0], 9);
}

static void an_importer_may_give_the_key(void **state)
{
    world *w = *state;
    const author *made = NULL;

    W_OK(w,
         author_create(w->db, &w->arena, &(author_new){.id = ent_some(41), .name = QUIPU_STR("a")},
                       &made, &w->err));
    assert_int_equal(made->id, 41);
    assert_int_equal(w_author(w, "b"), 42);
    W_STATUS(w,
             author_create(w->db, NULL, &(author_new){.id = ent_some(41), .name = QUIPU_STR("c")},
                           NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Author", "id", "unique");
}

static void a_taken_unique_value_names_its_field(void **state)
{
    world *w = *state;
    int64_t author_id = w_author(w, "ann");
    const book *b = NULL;

    W_STATUS(w, author_create(w->db, NULL, &(author_new){.name = QUIPU_STR("ann")}, NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Author", "name", "unique");
    assert_true(w->err.engine_code != 0);
    (void)w_book(w, author_id, "one", 2000);
    W_STATUS(w,
             book_create(w->db, &w->arena,
                         &(book_new){.author_id = author_id, .title = QUIPU_STR("one")}, &b,
                         &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Book", "author_id, title", "unique");
    assert_null(b);
}

static void odd_names_of_tables_and_columns_work_in_every_statement(void **state)
{
    world *w = *state;
    const quoted_new first = {.order_by = 1, .group_by = QUIPU_STR("a")};
    const quoted *row = NULL;
    quoted_list list = {0};
    int64_t n = 0;

    W_OK(w, quoted_create(w->db, &w->arena, &first, &row, &w->err));
    W_STATUS(w,
             quoted_create(w->db, NULL, &(quoted_new){.order_by = 2, .group_by = QUIPU_STR("a")},
                           NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Quoted", "group_by", "unique");
    W_STATUS(w,
             quoted_create(w->db, NULL, &(quoted_new){.order_by = 1, .group_by = QUIPU_STR("b")},
                           NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Quoted", "order_by, total", "unique");
    W_OK(w, quoted_upsert(w->db, &w->arena, &first, QUOTED_ON_GROUP_BY, &row, &w->err));
    W_OK(w, quoted_update(w->db, &(quoted_where){.group_by = ent_eq("a")},
                          &(quoted_patch){.total = ent_add(9)}, &n, &w->err));
    assert_int_equal(n, 1);
    W_STATUS(w,
             quoted_update(w->db, &(quoted_where){.group_by = ent_eq("a")},
                           &(quoted_patch){.total = ent_add(1)}, &n, &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Quoted", "total", "range");
    W_OK(w, quoted_find(w->db, &w->arena,
                        &(quoted_query){.where = {.group_by = ent_prefix("a")},
                                        .order = {QUOTED_BY_TOTAL(DESC), QUOTED_BY_GROUP_BY(ASC)}},
                        &list, &w->err));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.items[0].total, 9);
    W_OK(w,
         quoted_delete(w->db, &(quoted_where){.order_by = ent_in(&(int64_t){1}, 1)}, &n, &w->err));
    assert_int_equal(n, 1);
}

static void get_by_a_unique_field_finds_the_row(void **state)
{
    world *w = *state;
    int64_t author_id = w_author(w, "ann");
    int64_t book_id = w_book(w, author_id, "one", 2000);
    const author *a = NULL;
    const book *b = NULL;

    W_OK(w, author_by_name(w->db, &w->arena, QUIPU_STR("ann"), &a, &w->err));
    assert_int_equal(a->id, author_id);
    W_OK(w, book_by_author_id_title(w->db, &w->arena, author_id, QUIPU_STR("one"), &b, &w->err));
    assert_int_equal(b->id, book_id);
    W_STATUS(w, author_by_name(w->db, &w->arena, QUIPU_STR("bob"), &a, &w->err), QUIPU_NOT_FOUND);
    assert_int_equal(a->id, author_id); /* untouched */
    W_STATUS(w, author_by_name(w->db, &w->arena, (quipu_str){NULL, 0}, &a, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_get(w->db, &w->arena, 99, &a, &w->err), QUIPU_NOT_FOUND);
}

static void a_patch_sets_adds_and_clears(void **state)
{
    world *w = *state;
    const rule *made = NULL;
    const rule *now = NULL;
    int64_t n = 0;

    W_OK(w, rule_create(
                w->db, &w->arena,
                &(rule_new){.code = QUIPU_STR("abc"), .seen_at = ent_some(((quipu_time){.s = 1}))},
                &made, &w->err));
    W_OK(w, rule_update(w->db, &(rule_where){.id = ent_eq(made->id)},
                        &(rule_patch){.level = ent_set(4),
                                      .count = ent_add(5),
                                      .maybe = ent_add(2),
                                      .code = ENT_CLEAR,
                                      .mood = rule_mood_set(RULE_MOOD_CALM),
                                      .meta = ent_set(ent_json(QUIPU_STR("[1]"))),
                                      .on = ent_bool_set(false)},
                        &n, &w->err));
    assert_int_equal(n, 1);
    W_OK(w, rule_get(w->db, &w->arena, made->id, &now, &w->err));
    assert_int_equal(now->level, 4);
    assert_int_equal(now->count, 5);
    assert_true(now->maybe.has && now->maybe.v == 2); /* absent counts as 0 */
    T_STR(now->code, NULL);
    assert_int_equal(now->mood, RULE_MOOD_CALM);
    T_STR(now->meta.text, "[1]");
    assert_false(now->on);
    assert_true(now->seen_at.s > 1); /* on_update */
    assert_int_equal(quipu_time_cmp(now->made_at, made->made_at), 0);
}

static void update_leaves_a_given_on_update_time(void **state)
{
    world *w = *state;
    const rule *now = NULL;

    W_OK(w, rule_create(w->db, NULL, &(rule_new){0}, NULL, &w->err));
    W_OK(w, rule_update_one(w->db, &w->arena, &(rule_where){.name = ent_eq("anonymous")},
                            &(rule_patch){.seen_at = ent_set(((quipu_time){.s = 77}))}, &now,
                            &w->err));
    assert_int_equal(now->seen_at.s, 77);
}

static void update_one_returns_the_row_as_stored(void **state)
{
    world *w = *state;
    const author *now = NULL;
    int64_t id = w_author(w, "ann");

    W_OK(w, author_update_one(w->db, &w->arena, &(author_where){.id = ent_eq(id)},
                              &(author_patch){.born = ent_set(1950)}, &now, &w->err));
    assert_int_equal(now->id, id);
    T_STR(now->name, "ann");
    assert_true(now->born.has && now->born.v == 1950);
    W_STATUS(w,
             author_update_one(w->db, &w->arena, &(author_where){.id = ent_eq(id + 1)},
                               &(author_patch){.born = ent_set(1)}, &now, &w->err),
             QUIPU_NOT_FOUND);
    W_OK(w, author_update_one(w->db, NULL, &(author_where){.id = ent_eq(id)},
                              &(author_patch){.born = ENT_CLEAR}, NULL, &w->err));
    assert_int_equal(ent_depth(w->db), 0);
}

static void update_one_of_several_rows_changes_nothing(void **state)
{
    world *w = *state;
    const author *now = NULL;
    int64_t n = -1;

    (void)w_author(w, "ann");
    (void)w_author(w, "bob");
    for (int depth = 0; depth < 2; depth++) {
        W_STATUS(w,
                 author_update_one(w->db, &w->arena, &(author_where){.name = ent_gt("a")},
                                   &(author_patch){.born = ent_set(1)}, &now, &w->err),
                 QUIPU_MISUSE);
        W_OK(w, author_count(w->db, &(author_where){.born = ENT_NOT_NULL}, &n, &w->err));
        assert_int_equal(n, 0);
        assert_null(now);
        assert_int_equal(ent_depth(w->db), depth);
        W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    }
    ent_rollback(w->db);
    ent_rollback(w->db);
}

static void an_addition_that_overflows_changes_nothing(void **state)
{
    world *w = *state;
    const rule *now = NULL;
    int64_t n = -1;

    W_OK(w, rule_create(w->db, NULL, &(rule_new){.count = INT64_MAX - 1}, NULL, &w->err));
    W_OK(w, rule_update(w->db, &(rule_where){.id = ent_eq(1)}, &(rule_patch){.count = ent_add(1)},
                        &n, &w->err));
    W_STATUS(w,
             rule_update(w->db, &(rule_where){.id = ent_eq(1)},
                         &(rule_patch){.count = ent_add(1), .level = ent_set(9)}, &n, &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Rule", "count", "range");
    W_STATUS(w,
             rule_update(w->db, &(rule_where){.id = ent_eq(1)}, &(rule_patch){.level = ent_add(8)},
                         &n, &w->err),
             QUIPU_INVALID); /* 3 + 8 > 10 */
    W_ERROR(w, "Rule", "level", "range");
    W_OK(w, rule_update(w->db, &(rule_where){.id = ent_eq(1)}, &(rule_patch){.level = ent_add(7)},
                        &n, &w->err));
    W_OK(w, rule_get(w->db, &w->arena, 1, &now, &w->err));
    assert_true(now->count == INT64_MAX);
    assert_int_equal(now->level, 10);
}

static void empty_conditions_and_patches_are_refused(void **state)
{
    world *w = *state;
    const author_where none = {.id = {0}};
    const author_where empties[2] = {{.id = {0}}, {.id = {0}}};
    const author_where groups = {.any_of = empties,
                                 .any_n = 2,
                                 .all_of = empties,
                                 .all_n = 2,
                                 .none_of = empties,
                                 .none_n = 1};
    const author_where hollow = {.any_of = NULL, .any_n = 0};
    const author_where *const wheres[] = {&none, &groups, &hollow, NULL};
    const author *row = NULL;
    int64_t n = -1;

    (void)w_author(w, "ann");
    for (size_t i = 0; i < 4; i++) {
        author_query q = {.limit = 0};
        W_STATUS(w, author_delete(w->db, wheres[i], &n, &w->err), QUIPU_MISUSE);
        W_STATUS(w,
                 author_update(w->db, wheres[i], &(author_patch){.born = ent_set(1)}, &n, &w->err),
                 QUIPU_MISUSE);
        W_STATUS(w,
                 author_update_one(w->db, &w->arena, wheres[i], &(author_patch){.born = ent_set(1)},
                                   &row, &w->err),
                 QUIPU_MISUSE);
        if (wheres[i] != NULL) {
            q.where = *wheres[i];
        }
        W_STATUS(w, author_one(w->db, &w->arena, &q, &row, &w->err), QUIPU_MISUSE);
    }
    W_STATUS(w, author_delete(w->db, &(author_where){.id = 0}, &n, &w->err), QUIPU_MISUSE);
    W_STATUS(w,
             author_update(w->db, &(author_where){.id = ent_eq(1)}, &(author_patch){.name = {0}},
                           &n, &w->err),
             QUIPU_MISUSE);
    W_OK(w, author_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 1);
    W_OK(w, author_delete_all(w->db, &n, &w->err));
    assert_int_equal(n, 1);
}

static void an_empty_member_beside_a_real_one_is_refused(void **state)
{
    world *w = *state;
    const author_where members[2] = {{.name = ent_eq("x")}, {.id = {0}}};
    int64_t n = -1;

    (void)w_author(w, "ann");
    W_STATUS(w, author_delete(w->db, &(author_where){.any_of = members, .any_n = 2}, &n, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_delete(w->db, &(author_where){.none_of = members, .none_n = 2}, &n, &w->err),
             QUIPU_MISUSE);
    W_OK(w, author_delete(w->db, &(author_where){.all_of = members, .all_n = 2}, &n, &w->err));
    assert_int_equal(n, 0);
}

static void delete_returns_how_many_were_deleted(void **state)
{
    world *w = *state;
    int64_t n = -1;

    (void)w_author(w, "ann");
    (void)w_author(w, "bob");
    (void)w_author(w, "cyd");
    W_OK(w, author_delete(w->db, &(author_where){.name = ent_ge("bob")}, &n, &w->err));
    assert_int_equal(n, 2);
    W_OK(w, author_delete(w->db, &(author_where){.name = ent_ge("bob")}, &n, &w->err));
    assert_int_equal(n, 0);
}

static void upsert_returns_the_true_row_either_way(void **state)
{
    world *w = *state;
    const author *first = NULL;
    const author *second = NULL;
    int64_t n = 0;

    (void)w_author(w, "zed"); /* so that the last key is not ours */
    W_OK(w, author_upsert(w->db, &w->arena,
                          &(author_new){.name = QUIPU_STR("ann"), .country = QUIPU_STR("NO")},
                          AUTHOR_ON_NAME, &first, &w->err));
    (void)w_author(w, "yan");
    W_OK(w, author_upsert(w->db, &w->arena,
                          &(author_new){.name = QUIPU_STR("ann"), .born = ent_some(1950)},
                          AUTHOR_ON_NAME, &second, &w->err));
    assert_int_equal(first->id, second->id);
    T_STR(second->country, "NO"); /* not given: kept */
    assert_true(second->born.has && second->born.v == 1950);
    W_OK(w, author_upsert(w->db, NULL, &(author_new){.name = QUIPU_STR("ann")}, AUTHOR_ON_NAME,
                          NULL, &w->err));
    W_OK(w, author_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 3);
}

static void upsert_keeps_immutable_fields_and_stamps_on_update(void **state)
{
    world *w = *state;
    const rule *first = NULL;
    const rule *second = NULL;
    const quipu_time past = {.s = 5};

    W_OK(w, rule_upsert(w->db, &w->arena,
                        &(rule_new){.name = QUIPU_STR("r"),
                                    .fixed = 1,
                                    .made_at = ent_some(past),
                                    .seen_at = ent_some(past)},
                        RULE_ON_NAME, &first, &w->err));
    W_OK(w, rule_upsert(w->db, &w->arena,
                        &(rule_new){.name = QUIPU_STR("r"), .fixed = 2, .level = ent_some(9)},
                        RULE_ON_NAME, &second, &w->err));
    assert_int_equal(second->id, first->id);
    assert_int_equal(second->fixed, 1);
    assert_int_equal(second->made_at.s, 5);
    assert_true(second->seen_at.s > 5);
    assert_int_equal(second->level, 9);
    assert_memory_equal(&second->mark, &first->mark, sizeof(first->mark));
    T_STR(second->meta.text, "{}");
}

static void upsert_over_another_unique_key_is_refused(void **state)
{
    world *w = *state;
    const book *row = NULL;
    int64_t author_id = w_author(w, "ann");
    int64_t book_id = w_book(w, author_id, "one", 2000);

    (void)w_book(w, author_id, "two", 2001);
    W_STATUS(
        w,
        book_upsert(
            w->db, &w->arena,
            &(book_new){.id = ent_some(book_id), .author_id = author_id, .title = QUIPU_STR("two")},
            BOOK_ON_ID, &row, &w->err),
        QUIPU_EXISTS);
    W_ERROR(w, "Book", "author_id, title", "unique");
    assert_null(row);
}

static void bulk_create_stores_all_or_nothing(void **state)
{
    T_LONG_ON_PG("100,000 rows");

    enum { ROWS = 100000 };
    world *w = *state;
    author_new *rows = calloc(ROWS, sizeof(*rows));
    ent_stats before;
    int64_t n = -1;

    assert_non_null(rows);
    for (int i = 0; i < ROWS; i++) {
        rows[i].name = w_text(w, "author %d", i);
    }
    rows[ROWS / 2].name = rows[0].name;
    W_STATUS(w, author_create_many(w->db, rows, ROWS, &w->err), QUIPU_EXISTS);
    assert_non_null(strstr(w->err.message, "item 50000"));
    W_ERROR(w, "Author", "name", "unique");
    W_OK(w, author_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 0);
    rows[ROWS / 2].name = QUIPU_STR("");
    W_STATUS(w, author_create_many(w->db, rows, ROWS, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Author", "name", "notempty");
    rows[ROWS / 2].name = QUIPU_STR("the middle one");
    before = ent_stats_read(w->db);
    W_OK(w, author_create_many(w->db, rows, ROWS, &w->err));
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares);
    W_OK(w, author_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, ROWS);
    W_OK(w, author_create_many(w->db, NULL, 0, &w->err));
    assert_int_equal(ent_depth(w->db), 0);
    free(rows);
}

static void one_returns_the_first_row_of_the_order(void **state)
{
    world *w = *state;
    const author *row = NULL;

    (void)w_author(w, "ann");
    (void)w_author(w, "bob");
    W_OK(w, author_one(w->db, &w->arena,
                       &(author_query){.where = {.id = ent_gt(0)}, .order = {AUTHOR_BY_NAME(DESC)}},
                       &row, &w->err));
    T_STR(row->name, "bob");
    W_STATUS(w,
             author_one(w->db, &w->arena, &(author_query){.where = {.name = ent_eq("x")}}, &row,
                        &w->err),
             QUIPU_NOT_FOUND);
    T_STR(row->name, "bob");
}

static void exists_and_count_agree(void **state)
{
    world *w = *state;
    bool exists = true;
    int64_t n = -1;

    W_OK(w, author_exists(w->db, NULL, &exists, &w->err));
    assert_false(exists);
    (void)w_author(w, "ann");
    W_OK(w, author_exists(w->db, &(author_where){.name = ent_eq("ann")}, &exists, &w->err));
    assert_true(exists);
    W_OK(w, author_exists(w->db, &(author_where){.name = ent_eq("bob")}, &exists, &w->err));
    assert_false(exists);
    W_OK(w, author_count(w->db, &(author_where){.name = ent_eq("ann")}, &n, &w->err));
    assert_int_equal(n, 1);
}

static void missing_arguments_are_misuse(void **state)
{
    world *w = *state;
    const author *row = NULL;
    author_list list = {0};
    author_new v = {.name = QUIPU_STR("x")};

    W_STATUS(w, author_create(NULL, &w->arena, &v, &row, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_create(w->db, NULL, &v, &row, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_create(w->db, NULL, NULL, NULL, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_create_many(w->db, NULL, 1, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_find(w->db, NULL, &(author_query){.limit = 1}, &list, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_find(w->db, &w->arena, NULL, &list, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_find(w->db, &w->arena, &(author_query){.limit = -1}, &list, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_find(w->db, &w->arena, &(author_query){.offset = -1}, &list, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_count(w->db, NULL, NULL, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_upsert(w->db, &w->arena, &v, (author_on){99}, &row, &w->err), QUIPU_MISUSE);
    W_STATUS(w, author_upsert(w->db, &w->arena, &v, (author_on){1}, &row, &w->err),
             QUIPU_MISUSE); /* an index that is not unique */
    assert_null(row);
    assert_int_equal(author_count(w->db, NULL, NULL, NULL), QUIPU_MISUSE); /* no error struct */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(a_created_row_comes_back_whole),
        W_TEST(members_that_are_left_out_are_absent_and_the_others_whole),
        W_TEST(what_is_not_given_stays_absent),
        W_TEST(defaults_fill_what_create_leaves_out),
        W_TEST(given_values_win_over_defaults),
        W_TEST(an_importer_may_give_the_key),
        W_TEST(a_taken_unique_value_names_its_field),
        W_TEST(odd_names_of_tables_and_columns_work_in_every_statement),
        W_TEST(get_by_a_unique_field_finds_the_row),
        W_TEST(a_patch_sets_adds_and_clears),
        W_TEST(update_leaves_a_given_on_update_time),
        W_TEST(update_one_returns_the_row_as_stored),
        W_TEST(update_one_of_several_rows_changes_nothing),
        W_TEST(an_addition_that_overflows_changes_nothing),
        W_TEST(empty_conditions_and_patches_are_refused),
        W_TEST(an_empty_member_beside_a_real_one_is_refused),
        W_TEST(delete_returns_how_many_were_deleted),
        W_TEST(upsert_returns_the_true_row_either_way),
        W_TEST(upsert_keeps_immutable_fields_and_stamps_on_update),
        W_TEST(upsert_over_another_unique_key_is_refused),
        W_TEST(bulk_create_stores_all_or_nothing),
        W_TEST(one_returns_the_first_row_of_the_order),
        W_TEST(exists_and_count_agree),
        W_TEST(missing_arguments_are_misuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
