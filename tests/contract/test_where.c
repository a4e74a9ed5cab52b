/* Conditions: random ones of every operator and type against a filter in memory, and the cases that
 * chance would miss. */
#include "contract/world.h"

#include <math.h>

/* ---- the filter in memory, in SQL's three-valued logic ----------------------------------------
 */

typedef enum truth { NO = 0, YES = 1, UNKNOWN = 2 } truth;

static truth truth_not(truth a)
{
    return a == UNKNOWN ? UNKNOWN : a == YES ? NO : YES;
}

static truth truth_and(truth a, truth b)
{
    return a == NO || b == NO ? NO : a == UNKNOWN || b == UNKNOWN ? UNKNOWN : YES;
}

static truth truth_or(truth a, truth b)
{
    return truth_not(truth_and(truth_not(a), truth_not(b)));
}

/* The outcome of an ordering operator, from the sign of a comparison. */
static truth truth_of(unsigned op, int sign, int sign_upper)
{
    switch (op) {
    case ENT_OP_EQ:
        return sign == 0 ? YES : NO;
    case ENT_OP_NE:
        return sign != 0 ? YES : NO;
    case ENT_OP_GT:
        return sign > 0 ? YES : NO;
    case ENT_OP_GE:
        return sign >= 0 ? YES : NO;
    case ENT_OP_LT:
        return sign < 0 ? YES : NO;
    case ENT_OP_LE:
        return sign <= 0 ? YES : NO;
    default:
        assert_int_equal(op, ENT_OP_BETWEEN);
        return sign >= 0 && sign_upper <= 0 ? YES : NO;
    }
}

static int sign_int(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int sign_float(double a, double b)
{
    return (a > b) - (a < b);
}

static int sign_text(quipu_str a, quipu_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int sign = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return sign != 0 ? sign : sign_int((int64_t)a.n, (int64_t)b.n);
}

static int sign_uuid(quipu_uuid a, quipu_uuid b)
{
    return memcmp(a.b, b.b, sizeof(a.b));
}

/* The part that all types share. */
#define EVAL(has, c, SIGN, value, upper_sign)                                                      \
    do {                                                                                           \
        unsigned op_ = (unsigned)(c).op;                                                           \
        if (op_ == ENT_OP_NONE) {                                                                  \
            return YES;                                                                            \
        }                                                                                          \
        if (op_ == ENT_OP_IS_NULL || op_ == ENT_OP_NOT_NULL) {                                     \
            return (has) == (op_ == ENT_OP_NOT_NULL) ? YES : NO;                                   \
        }                                                                                          \
        if (!(has)) {                                                                              \
            return op_ == ENT_OP_IN && (c).n == 0 ? NO : UNKNOWN;                                  \
        }                                                                                          \
        if (op_ == ENT_OP_IN || op_ == ENT_OP_NOT_IN) {                                            \
            truth found = NO;                                                                      \
            for (size_t i = 0; i < (c).n; i++) {                                                   \
                found = SIGN(value, (c).list[i]) == 0 ? YES : found;                               \
            }                                                                                      \
            return op_ == ENT_OP_IN ? found : truth_not(found);                                    \
        }                                                                                          \
        return truth_of(op_, SIGN(value, (c).v), upper_sign);                                      \
    } while (0)

static truth eval_int(bool has, int64_t v, ent_where_int c)
{
    EVAL(has, c, sign_int, v, sign_int(v, c.upper));
}

static truth eval_float(bool has, double v, ent_where_float c)
{
    EVAL(has, c, sign_float, v, sign_float(v, c.upper));
}

static truth eval_time(bool has, quipu_time v, ent_where_time c)
{
    EVAL(has, c, quipu_time_cmp, v, quipu_time_cmp(v, c.upper));
}

static truth eval_uuid(bool has, quipu_uuid v, ent_where_uuid c)
{
    EVAL(has, c, sign_uuid, v, 0);
}

static truth eval_text(quipu_str v, ent_where_text c)
{
    if (v.p != NULL && (unsigned)c.op == ENT_OP_PREFIX) {
        return v.n >= c.v.n && memcmp(v.p, c.v.p, c.v.n) == 0 ? YES : NO;
    }
    if (v.p != NULL && (unsigned)c.op == ENT_OP_CONTAINS) {
        for (size_t i = 0; i + c.v.n <= v.n; i++) {
            if (memcmp(v.p + i, c.v.p, c.v.n) == 0) {
                return YES;
            }
        }
        return NO;
    }
    EVAL(v.p != NULL, c, sign_text, v, 0);
}

static truth eval_enum(int v, unsigned op, int wanted, const int *list, size_t n)
{
    const struct {
        unsigned op;
        size_t n;
        int v;
        const int *list;
    } c = {op, n, wanted, list};

    EVAL(v != 0, c, sign_int, v, 0);
}

static truth eval_bytes(quipu_bytes v, ent_where_bytes c)
{
    unsigned op = (unsigned)c.op;
    bool same = v.p != NULL && c.v.p != NULL && v.n == c.v.n && memcmp(v.p, c.v.p, v.n) == 0;

    if (op == ENT_OP_NONE) {
        return YES;
    }
    if (op == ENT_OP_IS_NULL || op == ENT_OP_NOT_NULL) {
        return (v.p != NULL) == (op == ENT_OP_NOT_NULL) ? YES : NO;
    }
    return v.p == NULL ? UNKNOWN : same == (op == ENT_OP_EQ) ? YES : NO;
}

static truth eval_null(bool has, unsigned op, truth otherwise)
{
    if (op == ENT_OP_IS_NULL || op == ENT_OP_NOT_NULL) {
        return has == (op == ENT_OP_NOT_NULL) ? YES : NO;
    }
    return op == ENT_OP_NONE ? YES : !has ? UNKNOWN : otherwise;
}

static truth eval(const thing *r, const thing_where *w)
{
    truth all = YES;
    truth any = NO;
    truth none = NO;

    all = truth_and(all, eval_int(true, r->n, w->n));
    all = truth_and(all, eval_int(r->n_o.has, r->n_o.v, w->n_o));
    all = truth_and(all, eval_float(true, r->f, w->f));
    all = truth_and(all, eval_float(r->f_o.has, r->f_o.v, w->f_o));
    all = truth_and(all, eval_null(true, (unsigned)w->b.op, r->b == w->b.v ? YES : NO));
    all =
        truth_and(all, eval_null(r->b_o.has, (unsigned)w->b_o.op, r->b_o.v == w->b_o.v ? YES : NO));
    all = truth_and(all, eval_text(r->s, w->s));
    all = truth_and(all, eval_text(r->s_o, w->s_o));
    all = truth_and(all, eval_bytes(r->x, w->x));
    all = truth_and(all, eval_bytes(r->x_o, w->x_o));
    all = truth_and(all, eval_time(true, r->t, w->t));
    all = truth_and(all, eval_time(r->t_o.has, r->t_o.v, w->t_o));
    all = truth_and(all, eval_uuid(true, r->u, w->u));
    all = truth_and(all, eval_uuid(r->u_o.has, r->u_o.v, w->u_o));
    all = truth_and(all, eval_enum((int)r->e, (unsigned)w->e.op, (int)w->e.v,
                                   (const int *)(const void *)w->e.list, w->e.n));
    all = truth_and(all, eval_enum((int)r->e_o, (unsigned)w->e_o.op, (int)w->e_o.v,
                                   (const int *)(const void *)w->e_o.list, w->e_o.n));
    all = truth_and(all, eval_null(r->j_o.text.p != NULL, (unsigned)w->j_o.op, YES));
    for (size_t i = 0; i < w->all_n; i++) {
        all = truth_and(all, eval(r, &w->all_of[i]));
    }
    for (size_t i = 0; i < w->any_n; i++) {
        any = truth_or(any, eval(r, &w->any_of[i]));
    }
    for (size_t i = 0; i < w->none_n; i++) {
        none = truth_or(none, eval(r, &w->none_of[i]));
    }
    all = w->any_n == 0 ? all : truth_and(all, any);
    return w->none_n == 0 ? all : truth_and(all, truth_not(none));
}

/* ---- chance -------------------------------------------------------------------------------------
 */

typedef struct dice {
    world *w;
    uint64_t seed;
} dice;

static uint64_t roll(dice *d, uint64_t below)
{
    return t_random_below(&d->seed, below);
}

static int64_t roll_int(dice *d)
{
    static const int64_t values[] = {INT64_MIN, -3, -1, 0, 1, 2, 3, 7, INT64_MAX};
    return values[roll(d, 9)];
}

static double roll_float(dice *d)
{
    static const double values[] = {-1e300, -0.1, 0.0, 0.1, 0.30000000000000004, 0.3, 1e-300, 7.0};
    return values[roll(d, 8)];
}

static quipu_str roll_text(dice *d)
{
    static const char *const values[] = {"",
                                         "a",
                                         "ab",
                                         "abc",
                                         "b",
                                         "a%",
                                         "a_",
                                         "A",
                                         "\x7f",
                                         "\xc3\xa9",
                                         "\xed\x9f\xbf",
                                         "\xee\x80\x80",
                                         "\xf4\x8f\xbf\xbf",
                                         "\xf4\x8f\xbf\xbf\x78",
                                         "'\";--"};
    return quipu_cstr(values[roll(d, 15)]);
}

static quipu_time roll_time(dice *d)
{
    static const quipu_time values[] = {
        {INT64_C(-62135596800), 0},        {-1, 999999999}, {0, 0}, {0, 1}, {1, 0},
        {INT64_C(253402300799), 999999999}};
    return values[roll(d, 6)];
}

static quipu_uuid roll_uuid(dice *d)
{
    quipu_uuid u = {{0}};

    u.b[roll(d, 2) * 15] = (uint8_t)roll(d, 3);
    return u;
}

static quipu_bytes roll_bytes(dice *d)
{
    static const quipu_bytes values[] = {{"", 0}, {"\0", 1}, {"a", 1}, {"\xff\xfe", 2}};
    return values[roll(d, 4)];
}

static unsigned roll_op(dice *d, bool ordered, bool text, bool optional)
{
    static const unsigned ops[] = {ENT_OP_EQ, ENT_OP_NE, ENT_OP_IN, ENT_OP_NOT_IN,
                                   ENT_OP_GT, ENT_OP_GE, ENT_OP_LT, ENT_OP_LE};

    if (optional && roll(d, 4) == 0) {
        return roll(d, 2) == 0 ? ENT_OP_IS_NULL : ENT_OP_NOT_NULL;
    }
    if (text && roll(d, 3) == 0) {
        return roll(d, 2) == 0 ? ENT_OP_PREFIX : ENT_OP_CONTAINS;
    }
    if (ordered && !text && roll(d, 6) == 0) {
        return ENT_OP_BETWEEN;
    }
    return ops[roll(d, ordered ? 8 : 4)];
}

#define ROLL_LIST(d, T, ROLL, ret_n, ret_list)                                                     \
    do {                                                                                           \
        T *items_ = quipu_arena_alloc(&(d)->w->arena, 4 * sizeof(T));                              \
        assert_non_null(items_);                                                                   \
        *(ret_n) = (uint32_t)roll(d, 5);                                                           \
        for (size_t i_ = 0; i_ < 4; i_++) {                                                        \
            items_[i_] = ROLL(d);                                                                  \
        }                                                                                          \
        *(ret_list) = items_;                                                                      \
    } while (0)

#define ROLL_SLOT(d, slot, W, T, ROLL, ordered, optional)                                          \
    do {                                                                                           \
        (slot)->op = (W)roll_op(d, ordered, false, optional);                                      \
        (slot)->v = ROLL(d);                                                                       \
        ROLL_LIST(d, T, ROLL, &(slot)->n, &(slot)->list);                                          \
    } while (0)

static thing_e roll_enum(dice *d)
{
    return (thing_e)(1 + roll(d, 3));
}

static thing_e_o roll_enum_o(dice *d)
{
    return (thing_e_o)(1 + roll(d, 3));
}

static void roll_slot(dice *d, thing_where *w)
{
    switch (roll(d, 17)) {
    case 0:
        ROLL_SLOT(d, &w->n, ent_wants_int, int64_t, roll_int, true, false);
        w->n.upper = roll_int(d);
        break;
    case 1:
        ROLL_SLOT(d, &w->n_o, ent_wants_int, int64_t, roll_int, true, true);
        w->n_o.upper = roll_int(d);
        break;
    case 2:
        ROLL_SLOT(d, &w->f, ent_wants_float, double, roll_float, true, false);
        w->f.upper = roll_float(d);
        break;
    case 3:
        ROLL_SLOT(d, &w->f_o, ent_wants_float, double, roll_float, true, true);
        w->f_o.upper = roll_float(d);
        break;
    case 4:
        w->b = ent_is(roll(d, 2) == 0);
        break;
    case 5:
        w->b_o = ent_is(roll(d, 2) == 0);
        w->b_o.op = roll(d, 2) == 0 ? w->b_o.op : (ent_wants_bool)ENT_OP_IS_NULL;
        break;
    case 6:
    case 7:
        ROLL_SLOT(d, &w->s, ent_wants_text, quipu_str, roll_text, true, false);
        w->s.op = (ent_wants_text)roll_op(d, true, true, false);
        break;
    case 8:
        ROLL_SLOT(d, &w->s_o, ent_wants_text, quipu_str, roll_text, true, true);
        w->s_o.op = (ent_wants_text)roll_op(d, true, true, true);
        break;
    case 9:
        w->x = roll(d, 2) == 0 ? ent_eq(roll_bytes(d)) : ent_ne(roll_bytes(d));
        break;
    case 10:
        w->x_o = ent_ne(roll_bytes(d));
        w->x_o.op = roll(d, 3) == 0 ? (ent_wants_bytes)ENT_OP_NOT_NULL : w->x_o.op;
        break;
    case 11:
        ROLL_SLOT(d, &w->t, ent_wants_time, quipu_time, roll_time, true, false);
        w->t.upper = roll_time(d);
        break;
    case 12:
        ROLL_SLOT(d, &w->t_o, ent_wants_time, quipu_time, roll_time, true, true);
        w->t_o.upper = roll_time(d);
        break;
    case 13:
        ROLL_SLOT(d, &w->u, ent_wants_uuid, quipu_uuid, roll_uuid, false, false);
        break;
    case 14:
        ROLL_SLOT(d, &w->u_o, ent_wants_uuid, quipu_uuid, roll_uuid, false, true);
        break;
    case 15:
        ROLL_SLOT(d, &w->e, ent_wants_enum, thing_e, roll_enum, false, false);
        break;
    default:
        ROLL_SLOT(d, &w->e_o, ent_wants_enum, thing_e_o, roll_enum_o, false, true);
        if (roll(d, 2) == 0) {
            w->j_o = (ent_where_json)ENT_IS_NULL;
        }
        break;
    }
}

static void roll_where(dice *d, thing_where *w, int depth)
{
    size_t slots = 1 + (size_t)roll(d, depth == 0 ? 2 : 1);

    memset(w, 0, sizeof(*w));
    for (size_t i = 0; i < slots; i++) {
        roll_slot(d, w);
    }
    for (int group = 0; group < 3 && depth < 3; group++) {
        if (roll(d, 3) == 0) {
            size_t n = 1 + (size_t)roll(d, 2);
            thing_where *members = quipu_arena_alloc(&d->w->arena, n * sizeof(*members));
            assert_non_null(members);
            for (size_t i = 0; i < n; i++) {
                roll_where(d, &members[i], depth + 1);
            }
            *(group == 0 ? &w->any_of : group == 1 ? &w->all_of : &w->none_of) = members;
            *(group == 0 ? &w->any_n : group == 1 ? &w->all_n : &w->none_n) = n;
        }
    }
}

static thing_new roll_thing(dice *d)
{
    thing_new v = {.n = roll_int(d),
                   .f = roll_float(d),
                   .b = roll(d, 2) == 0,
                   .s = roll_text(d),
                   .x = roll_bytes(d),
                   .t = roll_time(d),
                   .u = roll_uuid(d),
                   .e = roll_enum(d),
                   .j = {QUIPU_STR("1")}};

    if (roll(d, 3) != 0) {
        v.n_o = ent_some(roll_int(d));
        v.f_o = ent_some(roll_float(d));
    }
    if (roll(d, 3) != 0) {
        v.b_o = ent_bool_some(roll(d, 2) == 0);
        v.s_o = roll_text(d);
        v.x_o = roll_bytes(d);
    }
    if (roll(d, 3) != 0) {
        v.t_o = ent_some(roll_time(d));
        v.u_o = ent_some(roll_uuid(d));
        v.e_o = roll_enum_o(d);
        v.j_o = ent_json(QUIPU_STR("[]"));
    }
    return v;
}

static void every_operator_agrees_with_a_filter_in_memory(void **state)
{
    enum { ROWS = 300 };
    world *w = *state;
    dice d = {w, t_seed()};
    int64_t rounds = t_count(4000, 200000);
    quipu_arena rows_arena = QUIPU_ARENA_INIT;
    thing_list all = {0};

    for (int i = 0; i < ROWS; i++) {
        thing_new v = roll_thing(&d);
        W_OK(w, thing_create(w->db, NULL, &v, NULL, &w->err));
    }
    W_OK(w, thing_find(w->db, &rows_arena, &(thing_query){.limit = 0}, &all, &w->err));
    assert_int_equal(all.n, ROWS);
    for (int64_t round = 0; round < rounds; round++) {
        thing_query q = {.limit = 0};
        thing_list found = {0};
        int64_t counted = -1;
        bool exists = false;
        size_t expected = 0;

        quipu_arena_reset(&w->arena);
        roll_where(&d, &q.where, 0);
        W_OK(w, thing_find(w->db, &w->arena, &q, &found, &w->err));
        for (size_t i = 0; i < all.n; i++) {
            bool in = expected < found.n && found.items[expected].id == all.items[i].id;
            if ((eval(&all.items[i], &q.where) == YES) != in) {
                fail_msg("round %lld, row %lld: the store says %s", (long long)round,
                         (long long)all.items[i].id, in ? "yes" : "no");
            }
            expected += in ? 1 : 0;
        }
        W_OK(w, thing_count(w->db, &q.where, &counted, &w->err));
        W_OK(w, thing_exists(w->db, &q.where, &exists, &w->err));
        assert_int_equal(counted, expected);
        assert_int_equal(exists, expected > 0);
    }
    quipu_arena_free(&rows_arena);
}

/* ---- what chance would miss
 * ----------------------------------------------------------------------- */

static void a_list_of_100000_items_is_one_parameter(void **state)
{
    enum { ITEMS = 100000 };
    world *w = *state;
    int64_t *ids = calloc(ITEMS, sizeof(*ids));
    quipu_str *names = calloc(ITEMS, sizeof(*names));
    int64_t n = -1;

    assert_non_null(ids);
    assert_non_null(names);
    for (int i = 0; i < ITEMS; i++) {
        ids[i] = (int64_t)i * 2;
        names[i] = w_text(w, "name %d", i * 2);
    }
    for (int i = 1; i <= 20; i++) {
        (void)w_author(w, w_text(w, "name %d", i).p);
    }
    W_OK(w, author_count(w->db, &(author_where){.id = ent_in(ids, ITEMS)}, &n, &w->err));
    assert_int_equal(n, 10);
    W_OK(w, author_count(w->db, &(author_where){.name = ent_in(names, ITEMS)}, &n, &w->err));
    assert_int_equal(n, 10);
    W_OK(w, author_count(w->db, &(author_where){.name = ent_not_in(names, ITEMS)}, &n, &w->err));
    assert_int_equal(n, 10);
    free(ids);
    free(names);
}

static void wrong_operands_are_refused_by_name(void **state)
{
    world *w = *state;
    const quipu_str absent[] = {QUIPU_STR("a"), {NULL, 0}};
    const thing_where cases[] = {
        {.s = ent_eq((const char *)NULL)},
        {.s = ent_in(absent, 2)},
        {.s = ent_in((const quipu_str *)NULL, 1)},
        {.x = ent_eq(((quipu_bytes){NULL, 0}))},
        {.n = ENT_IS_NULL},
        {.n = {.op = (ent_wants_int)ENT_OP_PREFIX}},
        {.j_o = {.op = (ent_wants_json)ENT_OP_EQ}},
        {.n = {.op = (ent_wants_int)99}},
        {.any_of = NULL, .any_n = 1},
    };
    const thing_where invalid[] = {
        {.s = ent_eq(((quipu_str){"\xff", 1}))},
        {.s = ent_prefix(((quipu_str){"\0", 1}))},
        {.f = ent_eq((double)NAN)},
        {.t = ent_eq(((quipu_time){.s = INT64_MAX}))},
        {.e = thing_e_is((thing_e)9)},
    };
    int64_t n = -1;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        W_STATUS(w, thing_count(w->db, &cases[i], &n, &w->err), QUIPU_MISUSE);
        assert_non_null(strstr(w->err.message, "Thing"));
    }
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        W_STATUS(w, thing_count(w->db, &invalid[i], &n, &w->err), QUIPU_INVALID);
    }
    W_OK(w, thing_count(w->db, &(thing_where){.f = ent_lt((double)INFINITY)}, &n, &w->err));
    assert_int_equal(n, 0);
}

static void nesting_is_allowed_up_to_its_limit(void **state)
{
    world *w = *state;
    author_where levels[ENT_NEST_MAX + 2];
    int64_t n = -1;

    (void)w_author(w, "ann");
    memset(levels, 0, sizeof(levels));
    levels[0].name = ent_eq("ann");
    for (size_t i = 1; i < ENT_NEST_MAX + 2; i++) {
        levels[i].any_of = &levels[i - 1];
        levels[i].any_n = 1;
    }
    W_OK(w, author_count(w->db, &levels[ENT_NEST_MAX], &n, &w->err));
    assert_int_equal(n, 1);
    W_STATUS(w, author_count(w->db, &levels[ENT_NEST_MAX + 1], &n, &w->err), QUIPU_LIMIT);
}

static void conditions_are_allowed_up_to_their_limit(void **state)
{
    world *w = *state;
    author_where members[ENT_CONDITIONS_MAX + 1];
    int64_t n = -1;

    (void)w_author(w, "ann");
    memset(members, 0, sizeof(members));
    for (size_t i = 0; i <= ENT_CONDITIONS_MAX; i++) {
        members[i].id = ent_between((int64_t)i, (int64_t)i + 1);
    }
    W_OK(w, author_count(w->db, &(author_where){.any_of = members, .any_n = ENT_CONDITIONS_MAX}, &n,
                         &w->err));
    assert_int_equal(n, 1);
    W_STATUS(w,
             author_count(w->db,
                          &(author_where){.any_of = members, .any_n = ENT_CONDITIONS_MAX + 1}, &n,
                          &w->err),
             QUIPU_LIMIT);
}

static void text_that_looks_like_sql_is_only_text(void **state)
{
    static const char *const texts[] = {"'; DROP TABLE authors; --", "\"", "\\", "%", "?1", "$1"};
    world *w = *state;
    int64_t n = -1;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)w_author(w, texts[i]);
        W_OK(w, author_count(w->db, &(author_where){.name = ent_eq(texts[i])}, &n, &w->err));
        assert_int_equal(n, 1);
        W_OK(w, author_count(w->db, &(author_where){.name = ent_contains(texts[i])}, &n, &w->err));
        assert_int_equal(n, 1);
    }
}

/* ---- full text
 * -------------------------------------------------------------------------------------- */

static int64_t matches(world *w, const char *words)
{
    int64_t n = -1;

    W_OK(w, note_count(w->db, &(note_where){.search = ent_match(quipu_cstr(words))}, &n, &w->err));
    return n;
}

static void search_finds_words_and_prefixes(void **state)
{
    T_SQLITE_ONLY("PostgreSQL keeps no index by itself");

    world *w = *state;
    int64_t n = 0;

    W_OK(w, note_create(w->db, NULL,
                        &(note_new){.title = QUIPU_STR("Red cars"), .body = QUIPU_STR("fast")},
                        NULL, &w->err));
    W_OK(w, note_create(w->db, NULL,
                        &(note_new){.title = QUIPU_STR("Blue"), .body = QUIPU_STR("red carpet")},
                        NULL, &w->err));
    assert_int_equal(matches(w, "red"), 2);
    assert_int_equal(matches(w, "red car*"), 2);
    assert_int_equal(matches(w, "red cars"), 1);
    assert_int_equal(matches(w, "green"), 0);
    assert_int_equal(matches(w, ""), 0);
    W_OK(w, note_update(w->db, &(note_where){.id = ent_eq(1)},
                        &(note_patch){.body = ent_set("slow")}, &n, &w->err));
    assert_int_equal(matches(w, "fast"), 0);
    assert_int_equal(matches(w, "slow"), 1);
    W_OK(w, note_delete(w->db, &(note_where){.search = ent_match(QUIPU_STR("slow"))}, &n, &w->err));
    assert_int_equal(n, 1);
    assert_int_equal(matches(w, "red"), 1);
}

static void no_search_text_is_a_syntax_error(void **state)
{
    T_SQLITE_ONLY("PostgreSQL keeps no index by itself");

    static const char *const words[] = {"",   " ",      "\"",   "'",  "a AND",  "NOT",
                                        "(",  "*",      "a*b",  "-x", "title:", "NEAR(",
                                        "^a", "\"\"\"", "a\"b", "{",  "+",      "\xc3\xa9*"};
    world *w = *state;
    uint64_t seed = t_seed();

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        (void)matches(w, words[i]);
    }
    for (int i = 0; i < 500; i++) {
        char text[16] = "";
        for (size_t k = 0; k < sizeof(text) - 1; k++) {
            text[k] = "ab \"*()'-+:^{}ANDORT"[t_random_below(&seed, 20)];
        }
        (void)matches(w, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(every_operator_agrees_with_a_filter_in_memory),
        W_TEST(a_list_of_100000_items_is_one_parameter),
        W_TEST(wrong_operands_are_refused_by_name),
        W_TEST(nesting_is_allowed_up_to_its_limit),
        W_TEST(conditions_are_allowed_up_to_their_limit),
        W_TEST(text_that_looks_like_sql_is_only_text),
        W_TEST(search_finds_words_and_prefixes),
        W_TEST(no_search_text_is_a_syntax_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
