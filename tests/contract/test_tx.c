/* Transactions and savepoints, the statement cache, iterators, counters, the trace hook, and two
 * connections to one file. */
#include "contract/world.h"

#include "base/thread.h"
#include "ent/cache.h"
#include "ent/db.h"

static int64_t authors(world *w)
{
    int64_t n = -1;

    W_OK(w, author_count(w->db, NULL, &n, &w->err));
    return n;
}

/* ---- transactions -----------------------------------------------------------------------------
 */

static void savepoints_nest(void **state)
{
    world *w = *state;

    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "one");
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "two");
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "three");
    assert_int_equal(ent_depth(w->db), 3);
    W_OK(w, ent_commit(w->db, &w->err));
    ent_rollback(w->db); /* takes two and three */
    assert_int_equal(authors(w), 1);
    W_OK(w, ent_begin(w->db, ENT_READ, &w->err)); /* reading inside a write is fine */
    W_OK(w, ent_commit(w->db, &w->err));
    W_OK(w, ent_commit(w->db, &w->err));
    assert_int_equal(ent_depth(w->db), 0);
    assert_int_equal(authors(w), 1);
}

static void rollback_undoes_everything(void **state)
{
    world *w = *state;

    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "one");
    W_STATUS(w, author_create(w->db, NULL, &(author_new){.name = QUIPU_STR("one")}, NULL, &w->err),
             QUIPU_EXISTS);
    assert_int_equal(authors(w), 1); /* a refused row does not end the transaction */
    ent_rollback(w->db);
    assert_int_equal(authors(w), 0);
    ent_rollback(w->db); /* harmless */
    ent_rollback(NULL);
    W_STATUS(w, ent_commit(w->db, &w->err), QUIPU_MISUSE);
    W_STATUS(w, ent_begin(w->db, (ent_tx_kind)7, &w->err), QUIPU_MISUSE);
}

static void writing_inside_a_read_is_refused(void **state)
{
    world *w = *state;
    int64_t n = 0;

    W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
    W_STATUS(w, author_create(w->db, NULL, &(author_new){.name = QUIPU_STR("x")}, NULL, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_delete_all(w->db, &n, &w->err), QUIPU_MISUSE);
    W_STATUS(w, ent_begin(w->db, ENT_WRITE, &w->err), QUIPU_MISUSE);
    assert_int_equal(authors(w), 0);
    W_OK(w, ent_commit(w->db, &w->err));
}

static void transactions_nest_up_to_their_limit(void **state)
{
    world *w = *state;

    /* the transaction itself and ENT_SAVEPOINT_MAX savepoints */
    for (int i = 0; i <= ENT_SAVEPOINT_MAX; i++) {
        W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    }
    W_STATUS(w, ent_begin(w->db, ENT_WRITE, &w->err), QUIPU_LIMIT);
    (void)w_author(w, "deep");
    while (ent_depth(w->db) > 0) {
        W_OK(w, ent_commit(w->db, &w->err));
    }
    assert_int_equal(authors(w), 1);
}

static void closing_rolls_back(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 1000);

    T_OK(ent_begin(other, ENT_WRITE, NULL));
    T_OK(author_create(other, NULL, &(author_new){.name = QUIPU_STR("x")}, NULL, NULL));
    T_OK(ent_begin(other, ENT_WRITE, NULL));
    ent_close(other);
    assert_int_equal(authors(w), 0);
    ent_close(NULL);
}

/* What a full disk or an I/O error does: the engine ends the transaction by itself. */
static void a_transaction_that_the_engine_ended_says_so_until_rollback(void **state)
{
    world *w = *state;
    int64_t n = 0;

    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "x");
    w->db->engine->rollback(w->db->conn, 0);
    w->db->broken = QUIPU_OK;
    assert_int_equal(qp_db_failed(w->db, QUIPU_FULL), QUIPU_FULL);
    W_STATUS(w, author_count(w->db, NULL, &n, &w->err), QUIPU_FULL);
    W_STATUS(w, author_create(w->db, NULL, &(author_new){.name = QUIPU_STR("y")}, NULL, &w->err),
             QUIPU_FULL);
    W_STATUS(w, ent_commit(w->db, &w->err), QUIPU_FULL);
    assert_int_equal(ent_depth(w->db), 2);
    ent_rollback(w->db);
    W_STATUS(w, ent_commit(w->db, &w->err), QUIPU_FULL); /* the outermost ends by failing */
    assert_int_equal(ent_depth(w->db), 0);
    assert_int_equal(authors(w), 0);
    (void)w_author(w, "z");
}

/* ---- two connections
 * ------------------------------------------------------------------------------ */

static void a_second_writer_gets_busy_after_its_deadline(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 30);
    quipu_error err = {0};
    int64_t n = -1;

    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    (void)w_author(w, "x");
    T_STATUS(ent_begin(other, ENT_WRITE, &err), QUIPU_BUSY);
    assert_true(err.message[0] != '\0' && err.engine_code != 0);
    assert_int_equal(ent_depth(other), 0);
    T_STATUS(author_create(other, NULL, &(author_new){.name = QUIPU_STR("y")}, NULL, &err),
             QUIPU_BUSY);
    T_OK(author_count(other, NULL, &n, &err)); /* readers are not in the way */
    assert_int_equal(n, 0);
    W_OK(w, ent_commit(w->db, &w->err));
    T_OK(author_create(other, NULL, &(author_new){.name = QUIPU_STR("y")}, NULL, &err));
    ent_close(other);
}

/* ---- writing beside others --------------------------------------------------------------------
 */

/* Lock one author, with the connection's own patience. */
static quipu_status lock_author(ent_db *db, const char *name, quipu_error *err)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    author_list list = {0};
    quipu_status status = author_lock(
        db, &arena, &(author_query){.where = {.name = ent_eq(quipu_cstr(name))}}, &list, err);

    assert_true(status != QUIPU_OK || list.n == 1);
    quipu_arena_free(&arena);
    return status;
}

/* A caller that must wait has a short deadline. */
static void hurry(ent_db *db)
{
    ent_watch(db, qp_clock_ns() + 20 * QP_NS_PER_MS, NULL, NULL);
}

static void check_waits(ent_db *db, ent_tx_kind kind)
{
    hurry(db);
    T_STATUS(ent_begin(db, kind, NULL), QUIPU_BUSY);
    ent_watch(db, 0, NULL, NULL);
}

static void set_born(ent_db *db, const char *name, int64_t born)
{
    int64_t n = 0;

    T_OK(author_update(db, &(author_where){.name = ent_eq(quipu_cstr(name))},
                       &(author_patch){.born = ent_set(born)}, &n, NULL));
    assert_int_equal(n, 1);
}

static void locked_rows_stay_locked_until_the_transaction_ends(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 30000);
    quipu_error err = {0};
    const author *row = NULL;

    (void)w_author(w, "a");
    (void)w_author(w, "b");
    W_OK(w, ent_begin(w->db, ENT_WRITE_ROWS, &w->err));
    W_OK(w, lock_author(w->db, "a", &w->err));
    if (t_pg()) {
        T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
        T_OK(lock_author(other, "b", &err));
        set_born(other, "b", 2);
        T_OK(ent_commit(other, &err)); /* while the first is open */
        T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
        hurry(other);
        T_STATUS(lock_author(other, "a", &err), QUIPU_BUSY);
        ent_watch(other, 0, NULL, NULL);
        ent_rollback(other);
    } else {
        check_waits(other, ENT_WRITE_ROWS);
    }
    set_born(w->db, "a", 1);
    W_OK(w, ent_commit(w->db, &w->err));
    T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
    T_OK(lock_author(other, "a", &err));
    T_OK(author_by_name(other, &w->arena, QUIPU_STR("a"), &row, &err));
    assert_int_equal(row->born.v, 1);
    ent_close(other);
}

static void an_exclusive_writer_waits_for_the_shared_ones(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 30000);
    quipu_error err = {0};

    W_OK(w, ent_begin(w->db, ENT_WRITE_ROWS, &w->err));
    check_waits(other, ENT_WRITE);
    hurry(other);
    T_STATUS(author_create(other, NULL, &(author_new){.name = QUIPU_STR("x")}, NULL, &err),
             QUIPU_BUSY);
    ent_watch(other, 0, NULL, NULL);
    W_OK(w, ent_commit(w->db, &w->err));
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    check_waits(other, ENT_WRITE_ROWS);
    W_OK(w, ent_commit(w->db, &w->err));
    T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
    ent_close(other);
}

static void locks_need_a_transaction_that_writes(void **state)
{
    world *w = *state;

    (void)w_author(w, "a");
    W_STATUS(w, lock_author(w->db, "a", &w->err), QUIPU_MISUSE);
    W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
    W_STATUS(w, lock_author(w->db, "a", &w->err), QUIPU_MISUSE);
    W_STATUS(w, ent_begin(w->db, ENT_WRITE_ROWS, &w->err), QUIPU_MISUSE);
    W_OK(w, ent_commit(w->db, &w->err));
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err)); /* alone it is allowed, and costs nothing */
    W_OK(w, lock_author(w->db, "a", &w->err));
    W_OK(w, ent_commit(w->db, &w->err));
}

static int64_t numbered(ent_db *db, quipu_arena *arena, const char *name)
{
    const author *row = NULL;

    T_OK(author_create(db, arena, &(author_new){.name = quipu_cstr(name)}, &row, NULL));
    return row->id;
}

/* Another connection's numbers are known when its transaction is over: there are no gaps, and a
 * larger number is committed later. */
static void shared_writers_number_rows_one_after_the_other(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 30000);
    quipu_error err = {0};

    const int64_t first = w_author(w, "a");
    W_OK(w, ent_begin(w->db, ENT_WRITE_ROWS, &w->err));
    assert_int_equal(numbered(w->db, &w->arena, "b"), first + 1);
    if (t_pg()) {
        T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
        hurry(other);
        T_STATUS(author_create(other, NULL, &(author_new){.name = QUIPU_STR("x")}, NULL, &err),
                 QUIPU_BUSY);
        ent_watch(other, 0, NULL, NULL);
        ent_rollback(other);
    } else {
        check_waits(other, ENT_WRITE_ROWS);
    }
    assert_int_equal(numbered(w->db, &w->arena, "c"), first + 2);
    W_OK(w, ent_commit(w->db, &w->err));
    T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
    assert_int_equal(numbered(other, &w->arena, "d"), first + 3);
    ent_rollback(other);
    T_OK(ent_begin(other, ENT_WRITE_ROWS, &err));
    assert_int_equal(numbered(other, &w->arena, "e"), first + 3);
    T_OK(ent_commit(other, &err));
    ent_close(other);
}

static void a_read_keeps_its_snapshot_from_the_start(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 1000);
    int64_t n = -1;

    T_OK(ent_begin(other, ENT_READ, NULL));
    (void)w_author(w, "x");
    T_OK(author_count(other, NULL, &n, NULL));
    assert_int_equal(n, 0);
    T_OK(ent_commit(other, NULL));
    T_OK(author_count(other, NULL, &n, NULL));
    assert_int_equal(n, 1);
    ent_close(other);
}

/* ---- cache
 * ---------------------------------------------------------------------------------------- */

static void the_data_version_changes_with_other_connections_commits(void **state)
{
    world *w = *state;
    ent_db *other = w_connect(w, 1000);
    int64_t first = 0;
    int64_t now = 0;

    W_OK(w, ent_data_version(w->db, &first, &w->err));
    (void)w_author(w, "own");
    W_OK(w, ent_data_version(w->db, &now, &w->err));
    assert_int_equal(now, first);
    W_OK(w, author_create(other, NULL, &(author_new){.name = QUIPU_STR("theirs")}, NULL, &w->err));
    W_OK(w, ent_data_version(w->db, &now, &w->err));
    assert_int_not_equal(now, first);
    first = now;
    W_OK(w, ent_begin(other, ENT_WRITE_ROWS, &w->err));
    W_OK(w, lock_author(other, "own", &w->err));
    set_born(other, "own", 1);
    W_OK(w, ent_commit(other, &w->err));
    W_OK(w, ent_data_version(w->db, &now, &w->err));
    assert_int_not_equal(now, first);
    first = now;
    W_OK(w, ent_begin(w->db, ENT_WRITE_ROWS, &w->err));
    set_born(w->db, "own", 2);
    W_OK(w, ent_commit(w->db, &w->err));
    W_OK(w, ent_data_version(w->db, &now, &w->err));
    assert_int_equal(now, first);
    W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
    W_STATUS(w, ent_data_version(w->db, &now, &w->err), QUIPU_MISUSE);
    ent_rollback(w->db);
    W_STATUS(w, ent_data_version(w->db, NULL, &w->err), QUIPU_MISUSE);
    ent_close(other);
}

static void a_warm_query_prepares_nothing(void **state)
{
    world *w = *state;
    ent_stats before = {0};

    for (int round = 0; round < 3; round++) {
        const int64_t ids[] = {1, 2, 3, round};
        const author *row = NULL;
        author_list list = {0};
        int64_t n = 0;
        author_new v = {.name = w_text(w, "n%d", round)};

        if (round == 1) {
            before = ent_stats_read(w->db);
        }
        W_OK(w, author_create(w->db, &w->arena, &v, &row, &w->err));
        W_OK(w, author_get(w->db, &w->arena, row->id, &row, &w->err));
        W_OK(w, author_by_name(w->db, &w->arena, v.name, &row, &w->err));
        W_OK(w, author_find(w->db, &w->arena,
                            &(author_query){.where = {.id = ent_in(ids, 1 + (size_t)round),
                                                      .name = ent_prefix(v.name)},
                                            .limit = 1 + round,
                                            .with_books = &(book_query){.limit = 2}},
                            &list, &w->err));
        W_OK(w, author_update(w->db, &(author_where){.id = ent_eq(row->id)},
                              &(author_patch){.born = ent_set(round)}, &n, &w->err));
        W_OK(w, author_update_one(w->db, &w->arena, &(author_where){.id = ent_eq(row->id)},
                                  &(author_patch){.born = ent_add(round)}, &row, &w->err));
        W_OK(w, author_upsert(w->db, &w->arena, &v, AUTHOR_ON_NAME, &row, &w->err));
        W_OK(w, author_delete(w->db, &(author_where){.id = ent_gt(100 + round)}, &n, &w->err));
    }
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares);
    assert_true(ent_stats_read(w->db).statements > before.statements);
}

/* A query of its own shape for each number. */
static quipu_status shaped(world *w, unsigned number, int64_t *ret)
{
    thing_where q = {.id = ent_ge(0)};

    q.n = (number & 1) != 0 ? ent_ge(0) : q.n;
    q.f = (number & 2) != 0 ? ent_ge(0.0) : q.f;
    q.s = (number & 4) != 0 ? ent_ge("") : q.s;
    q.n_o = (number & 8) != 0 ? ent_ge(0) : q.n_o;
    q.f_o = (number & 16) != 0 ? ent_ge(0.0) : q.f_o;
    q.s_o = (number & 32) != 0 ? ent_ge("") : q.s_o;
    q.t = (number & 64) != 0 ? ent_ge(((quipu_time){.s = 0})) : q.t;
    q.b = (number & 128) != 0 ? ent_is(true) : q.b;
    return thing_count(w->db, &q, ret, &w->err);
}

static void the_least_recently_used_statement_leaves_first(void **state)
{
    world *w = *state;
    ent_stats before;
    int64_t n = 0;

    qp_cache_clear(w->db);
    for (unsigned i = 0; i < ENT_CACHE_SLOTS; i++) {
        W_OK(w, shaped(w, i, &n));
    }
    before = ent_stats_read(w->db);
    for (unsigned i = 0; i < ENT_CACHE_SLOTS; i++) {
        W_OK(w, shaped(w, i, &n)); /* all of them fit */
    }
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares);
    assert_int_equal(w->db->cache.count, ENT_CACHE_SLOTS);
    W_OK(w, shaped(w, 0, &n));
    W_OK(w, shaped(w, ENT_CACHE_SLOTS, &n)); /* one too many: number 1 is the oldest now */
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares + 1);
    assert_int_equal(w->db->cache.count, ENT_CACHE_SLOTS);
    W_OK(w, shaped(w, 0, &n));
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares + 1);
    W_OK(w, shaped(w, 1, &n));
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares + 2);
}

/* ---- iterators
 * --------------------------------------------------------------------------------------- */

static void an_iterator_gives_what_find_gives(void **state)
{
    world *w = *state;
    const author_query q = {.where = {.name = ent_gt("b")}, .order = {AUTHOR_BY_NAME(DESC)}};
    author_list list = {0};
    author_iter it;
    author row;
    size_t i = 0;

    for (int k = 0; k < 9; k++) {
        (void)w_author(w, w_text(w, "%c", 'a' + k).p);
    }
    W_OK(w, author_find(w->db, &w->arena, &q, &list, &w->err));
    W_OK(w, author_iter_begin(w->db, &q, &it, &w->err));
    while (author_iter_next(&it, &row)) {
        assert_int_equal(row.id, list.items[i].id);
        T_STR(row.name, list.items[i].name.p);
        assert_false(row.books.loaded);
        i++;
    }
    W_OK(w, author_iter_end(&it, &w->err));
    W_OK(w, author_iter_end(&it, &w->err)); /* a second end is harmless */
    assert_false(author_iter_next(&it, &row));
    assert_int_equal(i, list.n);
}

static void an_iterator_outlives_the_literal_it_was_begun_with(void **state)
{
    world *w = *state;
    author_iter it;
    author row;
    size_t n = 0;

    for (int k = 0; k < 9; k++) {
        (void)w_author(w, w_text(w, "x%d", k).p);
    }
    {
        char *text = strdup("x");
        char *other = strdup("x3");
        quipu_str *list = calloc(2, sizeof(*list));
        int64_t *ids = calloc(3, sizeof(*ids));

        list[0] = quipu_cstr(other);
        list[1] = QUIPU_STR("x4");
        ids[0] = 4;
        ids[1] = 5;
        ids[2] = 9;
        W_OK(w, author_iter_begin(
                    w->db,
                    &(author_query){.where = {.name = ent_prefix(text),
                                              .id = ent_in(ids, 3),
                                              .all_of = &(author_where){.name = ent_in(list, 2)},
                                              .all_n = 1}},
                    &it, &w->err));
        memset(other, 'z', 2);
        free(text);
        free(other);
        free(list);
        free(ids);
    }
    (void)w_author(w, "between"); /* other calls may come in between */
    while (author_iter_next(&it, &row)) {
        n++;
    }
    W_OK(w, author_iter_end(&it, &w->err));
    assert_int_equal(n, 2);
}

static void iterators_can_end_early_and_run_side_by_side(void **state)
{
    world *w = *state;
    const author_query q = {.order = {AUTHOR_BY_ID(ASC)}};
    author_iter outer;
    author a;
    int pairs = 0;
    ent_stats before = {0};

    for (int k = 0; k < 5; k++) {
        (void)w_author(w, w_text(w, "%d", k).p);
    }
    for (int round = 0; round < 2; round++) {
        W_OK(w, author_iter_begin(w->db, &q, &outer, &w->err));
        while (author_iter_next(&outer, &a)) {
            author_iter inner;
            author b;

            W_OK(w, author_iter_begin(w->db, &q, &inner, &w->err));
            while (author_iter_next(&inner, &b) && b.id < a.id) {
                pairs++;
            }
            W_OK(w, author_iter_end(&inner, &w->err));
        }
        W_OK(w, author_iter_end(&outer, &w->err));
        if (round == 0) {
            before = ent_stats_read(w->db);
        }
    }
    assert_int_equal(pairs, 20);
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares);
}

static void more_iterators_than_cache_slots_work(void **state)
{
    enum { MANY = ENT_CACHE_SLOTS + 3 };
    world *w = *state;
    author_iter its[MANY];
    author row;

    (void)w_author(w, "x");
    for (int i = 0; i < MANY; i++) {
        W_OK(w, author_iter_begin(w->db, &(author_query){.limit = 0}, &its[i], &w->err));
        assert_true(author_iter_next(&its[i], &row));
    }
    assert_int_equal(authors(w), 1);
    for (int i = 0; i < MANY; i++) {
        assert_false(author_iter_next(&its[i], &row));
        W_OK(w, author_iter_end(&its[i], &w->err));
    }
    assert_true(w->db->cache.count <= ENT_CACHE_SLOTS);
}

static void an_iterator_cannot_load_edges(void **state)
{
    world *w = *state;
    author_iter it;

    W_STATUS(w,
             author_iter_begin(w->db, &(author_query){.with_books = &(book_query){.limit = 1}}, &it,
                               &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, author_iter_begin(w->db, NULL, &it, &w->err), QUIPU_MISUSE);
}

static void an_iterator_sees_no_rows_that_were_rolled_back(void **state)
{
    world *w = *state;
    author_iter it;
    author row;
    quipu_status status;

    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    for (int k = 0; k < 100; k++) {
        (void)w_author(w, w_text(w, "%d", k).p);
    }
    W_OK(w, author_iter_begin(w->db, &(author_query){.limit = 0}, &it, &w->err));
    assert_true(author_iter_next(&it, &row));
    ent_rollback(w->db);
    assert_false(author_iter_next(&it, &row));
    status = author_iter_end(&it, &w->err);
    assert_true(status == QUIPU_OK || status == QUIPU_CANCELLED);
    assert_int_equal(authors(w), 0);
}

/* ---- trace and counters
 * --------------------------------------------------------------------------------- */

typedef struct seen {
    int events;
    char sql[512];
    uint64_t rows;
    bool cached;
    quipu_status status;
} seen;

static void watch(void *ctx, const ent_trace_event *event)
{
    seen *s = ctx;

    s->events++;
    (void)snprintf(s->sql, sizeof(s->sql), "%s", event->sql);
    s->rows = event->rows;
    s->cached = event->cached;
    s->status = event->status;
}

static void the_trace_hook_sees_statements_without_values(void **state)
{
    world *w = *state;
    seen s = {0};
    author_list list = {0};
    ent_stats before = ent_stats_read(w->db);

    ent_trace(w->db, watch, &s);
    (void)w_author(w, "secret");
    assert_int_equal(s.events, 1);
    assert_null(strstr(s.sql, "secret"));
    assert_non_null(strstr(s.sql, "INSERT INTO \"authors\""));
    assert_false(s.cached);
    (void)w_author(w, "secret two");
    assert_true(s.cached);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.where = {.name = ent_gt("s")}}, &list,
                        &w->err));
    assert_int_equal(s.rows, 2);
    W_STATUS(w,
             author_create(w->db, NULL, &(author_new){.name = QUIPU_STR("secret")}, NULL, &w->err),
             QUIPU_EXISTS);
    assert_int_equal(s.status, QUIPU_EXISTS);
    assert_int_equal(ent_stats_read(w->db).rows - before.rows, 2);
    assert_int_equal(ent_stats_read(w->db).statements - before.statements, 4);
    ent_trace(w->db, NULL, NULL);
    (void)w_author(w, "unseen");
    assert_int_equal(s.events, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(savepoints_nest),
        W_TEST(rollback_undoes_everything),
        W_TEST(writing_inside_a_read_is_refused),
        W_TEST(transactions_nest_up_to_their_limit),
        W_TEST_FILE(closing_rolls_back),
        W_TEST(a_transaction_that_the_engine_ended_says_so_until_rollback),
        W_TEST_FILE(a_second_writer_gets_busy_after_its_deadline),
        W_TEST_FILE(locked_rows_stay_locked_until_the_transaction_ends),
        W_TEST_FILE(an_exclusive_writer_waits_for_the_shared_ones),
        W_TEST(locks_need_a_transaction_that_writes),
        W_TEST_FILE(shared_writers_number_rows_one_after_the_other),
        W_TEST_FILE(a_read_keeps_its_snapshot_from_the_start),
        W_TEST_FILE(the_data_version_changes_with_other_connections_commits),
        W_TEST(a_warm_query_prepares_nothing),
        W_TEST(the_least_recently_used_statement_leaves_first),
        W_TEST(an_iterator_gives_what_find_gives),
        W_TEST(an_iterator_outlives_the_literal_it_was_begun_with),
        W_TEST(iterators_can_end_early_and_run_side_by_side),
        W_TEST(more_iterators_than_cache_slots_work),
        W_TEST(an_iterator_cannot_load_edges),
        W_TEST(an_iterator_sees_no_rows_that_were_rolled_back),
        W_TEST(the_trace_hook_sees_statements_without_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
