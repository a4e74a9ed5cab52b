/* Order with ties and NULLs, limits, offsets, and keyset paging that visits every row once. */
#include "contract/world.h"

enum { ROWS = 60, FIELDS = 20 };

/* Fields of `thing` that have an order; numbers as in X_order, plus one. */
static const uint8_t orderable[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 20};

/* -1, 0, 1 for one field, NULL first. */
#define COMPARE(a, b) ((a) > (b)) - ((a) < (b))
#define COMPARE_OPT(a, b) (!(a).has || !(b).has ? (a).has - (b).has : COMPARE((a).v, (b).v))

static int compare_text(quipu_str a, quipu_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int sign;

    if (a.p == NULL || b.p == NULL) {
        return (a.p != NULL) - (b.p != NULL);
    }
    sign = n == 0 ? 0 : memcmp(a.p, b.p, n);
    return sign != 0 ? sign : COMPARE(a.n, b.n);
}

/* Enums are stored, and ordered, by their labels. */
static int compare_enum(int a, int b)
{
    if (a == 0 || b == 0) {
        return (a != 0) - (b != 0);
    }
    return compare_text(quipu_cstr(thing_e_text((thing_e)a)), quipu_cstr(thing_e_text((thing_e)b)));
}

static int compare_field(const thing *a, const thing *b, uint8_t field)
{
    switch (field) {
    case 1:
        return COMPARE(a->id, b->id);
    case 2:
        return COMPARE(a->n, b->n);
    case 3:
        return COMPARE_OPT(a->n_o, b->n_o);
    case 4:
        return COMPARE(a->f, b->f);
    case 5:
        return COMPARE_OPT(a->f_o, b->f_o);
    case 6:
        return COMPARE(a->b, b->b);
    case 7:
        return COMPARE_OPT(a->b_o, b->b_o);
    case 8:
        return compare_text(a->s, b->s);
    case 9:
        return compare_text(a->s_o, b->s_o);
    case 12:
        return quipu_time_cmp(a->t, b->t);
    case 13:
        return !a->t_o.has || !b->t_o.has ? a->t_o.has - b->t_o.has
                                          : quipu_time_cmp(a->t_o.v, b->t_o.v);
    case 14:
        return memcmp(&a->u, &b->u, sizeof(a->u));
    case 15:
        return !a->u_o.has || !b->u_o.has ? a->u_o.has - b->u_o.has
                                          : memcmp(&a->u_o.v, &b->u_o.v, sizeof(a->u_o.v));
    case 16:
        return compare_enum((int)a->e, (int)b->e);
    case 17:
        return compare_enum((int)a->e_o, (int)b->e_o);
    default:
        return compare_text(a->big, b->big);
    }
}

/* By the query's terms, then by the key in the direction of the last. */
static int compare_rows(const thing *a, const thing *b, const thing_order *order)
{
    int last = 1;

    for (size_t i = 0; i < ENT_ORDER_MAX && order[i].field != 0; i++) {
        int sign = compare_field(a, b, order[i].field);
        bool is_repeated = false;

        for (size_t k = 0; k < i; k++) {
            is_repeated = is_repeated || order[k].field == order[i].field;
        }
        if (is_repeated) {
            continue; /* a field named twice counts once */
        }
        last = order[i].direction == ENT_DESC ? -1 : 1;
        if (sign != 0) {
            return sign * last;
        }
    }
    return last * (COMPARE(a->id, b->id));
}

static void fill(world *w, uint64_t *seed)
{
    static const char *const texts[] = {"", "a", "b", "\xc3\xa9"};

    for (int i = 0; i < ROWS; i++) {
        thing_new v = w_thing((int64_t)t_random_below(seed, 3));
        v.s = quipu_cstr(texts[t_random_below(seed, 4)]);
        if (t_random_below(seed, 2) == 0) {
            v.n_o = ent_some((int64_t)t_random_below(seed, 3));
            v.f_o = ent_some((double)t_random_below(seed, 3) / 3);
            v.u_o = ent_some(v.u);
        }
        if (t_random_below(seed, 2) == 0) {
            v.b_o = ent_bool_some(t_random_below(seed, 2) == 0);
            v.s_o = v.s;
            v.t_o = ent_some(((quipu_time){.s = (int64_t)t_random_below(seed, 3), .ns = 5}));
            v.e_o = (thing_e_o)(1 + t_random_below(seed, 3));
            v.big = quipu_cstr(texts[t_random_below(seed, 4)]);
        }
        W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    }
}

static void roll_order(uint64_t *seed, thing_order *order)
{
    size_t terms = t_random_below(seed, ENT_ORDER_MAX + 1);

    for (size_t i = 0; i < ENT_ORDER_MAX; i++) {
        order[i].field = i < terms ? orderable[t_random_below(seed, sizeof(orderable))] : 0;
        order[i].direction = (uint8_t)t_random_below(seed, 2);
    }
}

static void any_order_is_total_and_paging_visits_each_row_once(void **state)
{
    world *w = *state;
    uint64_t seed = t_seed();
    int64_t rounds = t_count(150, 5000);

    fill(w, &seed);
    for (int64_t round = 0; round < rounds; round++) {
        thing_query q = {.limit = 0};
        thing_list all = {0};
        size_t seen = 0;

        quipu_arena_reset(&w->arena);
        roll_order(&seed, q.order);
        W_OK(w, thing_find(w->db, &w->arena, &q, &all, &w->err));
        assert_int_equal(all.n, ROWS);
        for (size_t i = 1; i < all.n; i++) {
            if (compare_rows(&all.items[i - 1], &all.items[i], q.order) >= 0) {
                fail_msg("round %lld: rows %zu and %zu are out of order", (long long)round, i - 1,
                         i);
            }
        }
        q.limit = 1 + (int64_t)t_random_below(&seed, 9);
        for (;;) {
            thing_list page = {0};
            W_OK(w, thing_find(w->db, &w->arena, &q, &page, &w->err));
            for (size_t i = 0; i < page.n; i++) {
                assert_true(seen < all.n);
                assert_int_equal(page.items[i].id, all.items[seen].id);
                seen++;
            }
            if (page.n == 0) {
                break;
            }
            q.after = &page.items[page.n - 1];
        }
        assert_int_equal(seen, all.n);
    }
}

static void paging_works_under_a_condition(void **state)
{
    world *w = *state;
    uint64_t seed = t_seed();
    thing_query q = {.where = {.e = thing_e_is(THING_E_RED)},
                     .order = {THING_BY_N_O(DESC), THING_BY_S(ASC)},
                     .limit = 2};
    int64_t total = 0;
    int64_t seen = 0;

    fill(w, &seed);
    W_OK(w, thing_count(w->db, &q.where, &total, &w->err));
    assert_true(total > 4);
    for (;;) {
        thing_list page = {0};
        W_OK(w, thing_find(w->db, &w->arena, &q, &page, &w->err));
        if (page.n == 0) {
            break;
        }
        seen += (int64_t)page.n;
        q.after = &page.items[page.n - 1];
    }
    assert_int_equal(seen, total);
}

static void limit_and_offset_cut_the_list(void **state)
{
    world *w = *state;
    author_list list = {0};

    for (int i = 0; i < 5; i++) {
        (void)w_author(w, w_text(w, "a%d", i).p);
    }
    W_OK(w,
         author_find(w->db, &w->arena, &(author_query){.limit = 2, .offset = 1}, &list, &w->err));
    assert_int_equal(list.n, 2);
    T_STR(list.items[0].name, "a1");
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.offset = 3}, &list, &w->err));
    assert_int_equal(list.n, 2);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.offset = 9}, &list, &w->err));
    assert_int_equal(list.n, 0);
    assert_true(list.loaded);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.limit = INT64_MAX}, &list, &w->err));
    assert_int_equal(list.n, 5);
}

static void terms_that_have_no_order_are_refused(void **state)
{
    world *w = *state;
    thing_list list = {0};
    const uint8_t bad[] = {10, 11, 18, 19, FIELDS + 1, 255}; /* bytes, json, none */

    for (size_t i = 0; i < sizeof(bad); i++) {
        W_STATUS(w,
                 thing_find(w->db, &w->arena, &(thing_query){.order = {{bad[i], ENT_ASC}}}, &list,
                            &w->err),
                 QUIPU_MISUSE);
    }
    W_STATUS(w, thing_find(w->db, &w->arena, &(thing_query){.order = {{1, 2}}}, &list, &w->err),
             QUIPU_MISUSE);
}

static void four_terms_are_honoured(void **state)
{
    world *w = *state;
    thing_list list = {0};
    thing_new v = w_thing(1);

    for (int64_t i = 0; i < 3; i++) {
        v.t_o = ent_some(((quipu_time){.s = i}));
        W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    }
    W_OK(w, thing_find(w->db, &w->arena,
                       &(thing_query){.order = {THING_BY_N(ASC), THING_BY_S(ASC), THING_BY_F(ASC),
                                                THING_BY_T_O(DESC)}},
                       &list, &w->err));
    assert_int_equal(list.items[0].t_o.v.s, 2);
    assert_int_equal(list.items[2].t_o.v.s, 0);
}

static void a_row_without_a_needed_value_cannot_be_continued_after(void **state)
{
    world *w = *state;
    author_list list = {0};
    const author broken = {.id = 1};

    W_STATUS(w,
             author_find(w->db, &w->arena,
                         &(author_query){.order = {AUTHOR_BY_NAME(ASC)}, .after = &broken}, &list,
                         &w->err),
             QUIPU_MISUSE);
    W_ERROR(w, "Author", "name", "");
}

static void a_literal_can_be_used_again(void **state)
{
    world *w = *state;
    const author_query q = {.where = {.name = ent_prefix("a")}, .order = {AUTHOR_BY_ID(DESC)}};
    author_list first = {0};
    author_list second = {0};

    (void)w_author(w, "ab");
    (void)w_author(w, "aa");
    W_OK(w, author_find(w->db, &w->arena, &q, &first, &w->err));
    W_OK(w, author_find(w->db, &w->arena, &q, &second, &w->err));
    assert_int_equal(first.n, 2);
    assert_int_equal(second.n, 2);
    assert_int_equal(first.items[0].id, second.items[0].id);
}

/* A loop that pages until nothing comes must end, also when the key is given. */
static void nothing_comes_after_the_only_row_that_a_key_allows(void **state)
{
    world *w = *state;
    int64_t id = w_author(w, "ann");
    const pair_new given = {.a = QUIPU_STR("a"), .b = 1};
    const author *row = NULL;
    const pair *both = NULL;
    author_query q = {.where = {.id = ent_eq(id)}};
    author_list list = {0};
    pair_list pairs = {0};
    author_iter it;
    author now;

    W_OK(w, author_get(w->db, &w->arena, id, &row, &w->err));
    W_OK(w, author_find(w->db, &w->arena, &q, &list, &w->err));
    assert_int_equal(list.n, 1);
    q.after = row;
    W_OK(w, author_find(w->db, &w->arena, &q, &list, &w->err));
    assert_int_equal(list.n, 0);
    W_OK(w, author_iter_begin(w->db, &q, &it, &w->err));
    assert_false(author_iter_next(&it, &now));
    W_OK(w, author_iter_end(&it, &w->err));
    q.limit = 1;
    q.offset = 0;
    W_OK(w, author_find(w->db, &w->arena, &q, &list, &w->err));
    assert_int_equal(list.n, 0);
    W_STATUS(w, author_one(w->db, &w->arena, &q, &row, &w->err), QUIPU_NOT_FOUND);
    W_OK(w, pair_create(w->db, &w->arena, &given, &both, &w->err));
    W_OK(w, pair_find(w->db, &w->arena,
                      &(pair_query){.where = {.a = ent_eq("a"), .b = ent_eq(1)}, .after = both},
                      &pairs, &w->err));
    assert_int_equal(pairs.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(any_order_is_total_and_paging_visits_each_row_once),
        W_TEST(paging_works_under_a_condition),
        W_TEST(limit_and_offset_cut_the_list),
        W_TEST(terms_that_have_no_order_are_refused),
        W_TEST(four_terms_are_honoured),
        W_TEST(a_row_without_a_needed_value_cannot_be_continued_after),
        W_TEST(a_literal_can_be_used_again),
        W_TEST(nothing_comes_after_the_only_row_that_a_key_allows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
