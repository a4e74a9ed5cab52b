/* SQL as the runtime writes it, for an engine that is not SQLite: numbered parameters of another
 * spelling, no packed clusters, its own way to say IN. Nothing is executed here. */
#include "lib/t.h"

#include "ent/plan.h"

/* ---- an entity by hand
 * --------------------------------------------------------------------------- */

typedef struct item_where {
    ent_where_int owner;
    ent_where_int seq;
    ent_where_text name;
    const struct item_where *any_of;
    const struct item_where *all_of;
    const struct item_where *none_of;
    size_t any_n;
    size_t all_n;
    size_t none_n;
} item_where;

typedef struct item {
    int64_t owner;
    int64_t seq;
    quipu_str name;
} item;

static const ent_field item_fields[] = {
    {.name = "owner",
     .column = "owner",
     .type = ENT_INT,
     .row = offsetof(item, owner),
     .where = offsetof(item_where, owner)},
    {.name = "seq",
     .column = "se\"q",
     .type = ENT_INT,
     .row = offsetof(item, seq),
     .where = offsetof(item_where, seq)},
    {.name = "name",
     .column = "name",
     .type = ENT_TEXT,
     .flags = ENT_F_NULLABLE,
     .row = offsetof(item, name),
     .where = offsetof(item_where, name)},
};

static const ent_entity item_entity = {.name = "Item",
                                       .table = "items",
                                       .fields = item_fields,
                                       .field_count = 3,
                                       .key = {0, 1},
                                       .key_count = 2,
                                       .flags = ENT_E_CLUSTER,
                                       .row_size = sizeof(item),
                                       .where_size = sizeof(item_where),
                                       .where_groups = offsetof(item_where, any_of),
                                       .where_match = ENT_ABSENT};

static void put_in(qp_buf *sql, const char *column, unsigned number, bool negated)
{
    qp_sql_name(sql, column);
    qp_buf_printf(sql, "%s($%u)", negated ? " <> ALL" : " = ANY", number);
}

static const qp_engine elsewhere = {
    .version = 1, .name = "elsewhere", .parameter = "$", .put_in = put_in, .position = "place"};
static const qp_engine packing = {
    .version = 1, .name = "packing", .parameter = "?", .packs_clusters = true, .put_in = put_in};

/* The SQL of a query, and how many values it binds. */
static void check_select(const qp_engine *engine, const item_where *where, const ent_query *query,
                         const char *expected, size_t binds)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_error err = {0};
    size_t columns = 0;
    qp_plan plan;
    qp_buf sql;

    qp_plan_init(&plan, &scratch);
    qp_buf_init(&sql, 1 << 16);
    qp_plan_begin(&plan, &item_entity, engine, QP_OP_SELECT);
    T_OK(qp_where_walk(&plan, where, &err));
    T_OK(qp_order_walk(&plan, query, 0, &err));
    T_OK(qp_plan_status(&plan, &err));
    T_OK(qp_sql_write(engine, NULL, &item_entity, qp_buf_str(&plan.shape), &sql, &columns, &err));
    assert_string_equal(qp_buf_str(&sql).p, expected);
    assert_int_equal(plan.bind_count, binds);
    assert_int_equal(columns, 3);
    qp_buf_free(&sql);
    qp_plan_free(&plan);
    quipu_arena_free(&scratch);
}

#define COLUMNS "SELECT \"owner\",\"se\"\"q\",\"name\" FROM \"items\""

static void another_engine_gets_its_own_spelling(void **state)
{
    const int64_t list[] = {1, 2};
    const item_where members[] = {{.name = ent_contains("x")}, {.seq = ent_in(list, 2)}};
    const item_where where = {.owner = ent_eq(7), .any_of = members, .any_n = 2};
    const ent_query query = {.limit = 5, .order = {{2, ENT_DESC}}};

    (void)state;
    check_select(&elsewhere, &where, &query,
                 COLUMNS " WHERE \"owner\"=$1 AND ((place(\"name\",$2)>0) OR (\"se\"\"q\" = "
                         "ANY($3))) ORDER BY \"se\"\"q\" DESC LIMIT $4",
                 4);
}

static void an_engine_that_packs_gets_a_range(void **state)
{
    const item_where where = {.owner = ent_eq(7), .seq = ent_ge(3)};
    const ent_query query = {.limit = 5, .order = {{2, ENT_DESC}}};

    (void)state;
    check_select(&packing, &where, &query,
                 COLUMNS " WHERE \"id\" BETWEEN ?1 AND ?2 ORDER BY \"id\" DESC LIMIT ?3", 3);
    check_select(&packing, &(item_where){.owner = ent_eq(7), .seq = ent_eq(3)},
                 &(ent_query){.limit = 0}, COLUMNS " WHERE \"id\"=?1", 1);
}

static void null_takes_its_place_in_the_order(void **state)
{
    const item absent = {.owner = 1, .seq = 2};
    const item there = {.owner = 1, .seq = 2, .name = {"n", 1}};

    (void)state;
    check_select(&elsewhere, NULL, &(ent_query){.order = {{3, ENT_ASC}}, .after = &absent},
                 COLUMNS " WHERE (\"name\" IS NOT NULL OR (\"name\" IS NULL AND \"owner\">$1) OR "
                         "(\"name\" IS NULL AND \"owner\"=$1 AND \"se\"\"q\">$2)) ORDER BY "
                         "\"name\" NULLS FIRST,\"owner\",\"se\"\"q\"",
                 2);
    check_select(&packing, NULL, &(ent_query){.order = {{3, ENT_DESC}}, .after = &there},
                 COLUMNS " WHERE ((\"name\"<?1 OR \"name\" IS NULL) OR (\"name\"=?1 AND "
                         "\"id\"<?2)) ORDER BY \"name\" DESC NULLS LAST,\"id\" DESC",
                 2);
}

static void a_field_that_is_left_out_keeps_its_place(void **state)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    const item_where where = {.owner = ent_eq(7)};
    quipu_error err = {0};
    size_t columns = 0;
    qp_plan plan;
    qp_buf sql;

    (void)state;
    qp_plan_init(&plan, &scratch);
    qp_buf_init(&sql, 1 << 16);
    qp_plan_begin(&plan, &item_entity, &packing, QP_OP_SELECT);
    for (unsigned field = 0; field < 3; field += 2) {
        qp_plan_mark(&plan, QP_MARK_WITHOUT);
        qp_plan_mark(&plan, field);
    }
    T_OK(qp_where_walk(&plan, &where, &err));
    T_OK(qp_sql_write(&packing, NULL, &item_entity, qp_buf_str(&plan.shape), &sql, &columns, &err));
    assert_string_equal(qp_buf_str(&sql).p, "SELECT 0,\"se\"\"q\",NULL FROM \"items\" WHERE "
                                            "\"id\" BETWEEN ?1 AND ?2");
    assert_int_equal(columns, 3);
    qp_buf_free(&sql);
    qp_plan_free(&plan);
    quipu_arena_free(&scratch);
}

static void the_same_shape_has_the_same_bytes(void **state)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    const int64_t many[] = {1, 2, 3, 4};
    char first[64];
    size_t n = 0;

    (void)state;
    for (size_t round = 1; round <= 4; round++) {
        const item_where where = {.seq = ent_in(many, round),
                                  .name = ent_prefix(round % 2 == 0 ? "a" : "longer")};
        qp_plan plan;

        qp_plan_init(&plan, &scratch);
        qp_plan_begin(&plan, &item_entity, &packing, QP_OP_COUNT);
        T_OK(qp_where_walk(&plan, &where, NULL));
        if (round == 1) {
            n = plan.shape.n;
            assert_true(n > 0 && n <= sizeof(first));
            memcpy(first, plan.shape.p, n);
        }
        assert_int_equal(plan.shape.n, n);
        assert_memory_equal(plan.shape.p, first, n);
        qp_plan_free(&plan);
    }
    quipu_arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_engine_gets_its_own_spelling),
        cmocka_unit_test(an_engine_that_packs_gets_a_range),
        cmocka_unit_test(null_takes_its_place_in_the_order),
        cmocka_unit_test(a_field_that_is_left_out_keeps_its_place),
        cmocka_unit_test(the_same_shape_has_the_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
