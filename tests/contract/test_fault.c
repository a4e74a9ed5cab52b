/* Out of memory at every allocation of every call: the right status, nothing half done, nothing
 * leaked. */
#include "contract/world.h"

/* What one sweep does: the call under test, and the state it may leave behind. */
typedef struct sweep {
    quipu_status (*call)(ent_db *db, quipu_arena *arena, quipu_error *err);
    int64_t before; /* authors before the call */
    int64_t after;  /* and when it succeeds */
    int64_t runs;
    int64_t failures;
} sweep;

static ent_db *fill(void)
{
    ent_db *db = w_open_memory();

    T_OK(author_create(db, NULL, &(author_new){.name = QUIPU_STR("ann")}, NULL, NULL));
    T_OK(author_create(db, NULL, &(author_new){.name = QUIPU_STR("bob")}, NULL, NULL));
    T_OK(book_create(db, NULL, &(book_new){.author_id = 1, .title = QUIPU_STR("t")}, NULL, NULL));
    T_OK(review_create(db, NULL, &(review_new){.book_id = 1, .stars = 1}, NULL, NULL));
    T_OK(entry_create(db, NULL, &(entry_new){.author_id = 1, .seq = 1, .body = QUIPU_STR("text")},
                      NULL, NULL));
    return db;
}

/* The store is made without faults; only the call meets them. Depth 1 runs it in a transaction. */
static void sweep_body(void *ctx, int depth)
{
    sweep *s = ctx;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error err = {0};
    quipu_status status;
    int64_t n = -1;
    int64_t fired;
    ent_db *db;

    t_fault_pause(true);
    db = fill();
    if (depth == 1) {
        T_OK(ent_begin(db, ENT_WRITE, NULL));
    }
    t_fault_pause(false);
    status = s->call(db, &arena, &err);
    t_fault_pause(true);
    fired = t_fault_fired();
    assert_true(status == QUIPU_OK || (status == QUIPU_NOMEM && fired > 0));
    assert_true(status == QUIPU_OK || (err.status == QUIPU_NOMEM && err.message[0] != '\0'));
    assert_int_equal(ent_depth(db), depth);
    T_OK(author_count(db, NULL, &n, NULL));
    assert_int_equal(n, status == QUIPU_OK ? s->after : s->before);
    if (depth == 1) {
        T_OK(ent_commit(db, NULL));
        T_OK(author_count(db, NULL, &n, NULL));
        assert_int_equal(n, status == QUIPU_OK ? s->after : s->before);
    }
    /* The connection is as good as before. */
    T_OK(author_create(db, NULL, &(author_new){.name = QUIPU_STR("zed")}, NULL, NULL));
    ent_close(db);
    quipu_arena_free(&arena);
    s->runs++;
    s->failures += status == QUIPU_OK ? 0 : 1;
    t_fault_pause(false);
}

static void sweep_outside(void *ctx)
{
    sweep_body(ctx, 0);
}

static void sweep_inside(void *ctx)
{
    sweep_body(ctx, 1);
}

static void run(quipu_status (*call)(ent_db *, quipu_arena *, quipu_error *), int64_t after)
{
    sweep s = {.call = call, .before = 2, .after = after};

    assert_true(t_fault_sweep(sweep_outside, &s) > 0);
    assert_true(t_fault_sweep(sweep_inside, &s) > 0);
    assert_true(s.failures > 0);
}

static quipu_status call_create(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const author *row = NULL;
    quipu_status status = author_create(
        db, arena, &(author_new){.name = QUIPU_STR("cyd"), .country = QUIPU_STR("NO")}, &row, err);

    assert_true((row != NULL) == (status == QUIPU_OK));
    return status;
}

static quipu_status call_create_many(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const author_new rows[] = {{.name = QUIPU_STR("c")},
                               {.name = QUIPU_STR("d")},
                               {.id = ent_some(9), .name = QUIPU_STR("e")}};

    (void)arena;
    return author_create_many(db, rows, 3, err);
}

static quipu_status call_upsert(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const author *row = NULL;
    quipu_status status = author_upsert(db, arena, &(author_new){.name = QUIPU_STR("new")},
                                        AUTHOR_ON_NAME, &row, err);

    assert_true((row != NULL) == (status == QUIPU_OK));
    return status;
}

static quipu_status call_find(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const int64_t ids[] = {1, 2};
    author_list list = {.n = 99};
    quipu_status status = author_find(
        db, arena,
        &(author_query){.where = {.id = ent_in(ids, 2),
                                  .any_of = &(author_where){.name = ent_prefix("a")},
                                  .any_n = 1},
                        .with_books = &(book_query){.with_author = &(author_query){.limit = 0},
                                                    .with_reviews = &(review_query){.limit = 1}},
                        .with_profile = &(profile_query){.limit = 0},
                        .with_entries = &(entry_query){.where = {.seq = ent_ge(1)}}},
        &list, err);

    assert_int_equal(list.n, status == QUIPU_OK ? 1 : 99);
    return status;
}

static quipu_status call_get(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const author *row = NULL;
    quipu_status status = author_by_name(db, arena, QUIPU_STR("ann"), &row, err);

    assert_true((row != NULL) == (status == QUIPU_OK));
    return status;
}

static quipu_status call_update_one(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const author *row = NULL;
    quipu_status status =
        author_update_one(db, arena, &(author_where){.id = ent_eq(1)},
                          &(author_patch){.name = ent_set("other"), .born = ent_add(1)}, &row, err);
    int64_t n = -1;

    t_fault_pause(true);
    T_OK(author_count(db, &(author_where){.name = ent_eq("other")}, &n, NULL));
    t_fault_pause(false);
    assert_int_equal(n, status == QUIPU_OK ? 1 : 0);
    return status;
}

static quipu_status call_delete(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const quipu_str names[] = {QUIPU_STR("bob")};
    int64_t n = -1;

    (void)arena;
    return author_delete(db, &(author_where){.name = ent_in(names, 1)}, &n, err);
}

static quipu_status call_iterate(ent_db *db, quipu_arena *arena, quipu_error *err)
{
    const int64_t ids[] = {1, 2};
    author_iter it;
    author row;
    int rows = 0;
    quipu_status status = author_iter_begin(
        db, &(author_query){.where = {.id = ent_in(ids, 2), .name = ent_prefix("")}}, &it, err);

    (void)arena;
    if (status == QUIPU_OK) {
        while (author_iter_next(&it, &row)) {
            rows++;
        }
        status = author_iter_end(&it, err);
        assert_int_equal(rows, 2);
    }
    return status;
}

static void create_survives_every_fault(void **state)
{
    (void)state;
    run(call_create, 3);
}

static void create_many_survives_every_fault(void **state)
{
    (void)state;
    run(call_create_many, 5);
}

static void upsert_survives_every_fault(void **state)
{
    (void)state;
    run(call_upsert, 3);
}

static void find_with_edges_survives_every_fault(void **state)
{
    (void)state;
    run(call_find, 2);
}

static void get_survives_every_fault(void **state)
{
    (void)state;
    run(call_get, 2);
}

static void update_one_survives_every_fault(void **state)
{
    (void)state;
    run(call_update_one, 2);
}

static void delete_survives_every_fault(void **state)
{
    (void)state;
    run(call_delete, 1);
}

static void iterate_survives_every_fault(void **state)
{
    (void)state;
    run(call_iterate, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_survives_every_fault),
        cmocka_unit_test(create_many_survives_every_fault),
        cmocka_unit_test(upsert_survives_every_fault),
        cmocka_unit_test(find_with_edges_survives_every_fault),
        cmocka_unit_test(get_survives_every_fault),
        cmocka_unit_test(update_one_survives_every_fault),
        cmocka_unit_test(delete_survives_every_fault),
        cmocka_unit_test(iterate_survives_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
