/* Iterators over more rows than an engine likes to hold at once: on a server they come in chunks,
 * with the same result. */
#include "contract/world.h"

#ifdef QUIPU_POSTGRES
#include "ent_postgres/open.h"
#else
#define QP_PG_CHUNK_FIRST 256
#define QP_PG_CHUNK_ROWS_MAX 512
#endif

#define CHUNKS_MANY (QP_PG_CHUNK_FIRST + 2 * QP_PG_CHUNK_ROWS_MAX + 100)

/* Authors until there are `n`, in one transaction. Their names sort in another order than their
 * keys, and some have a country. */
static void fill(world *w, int n)
{
    int64_t have = 0;

    W_OK(w, author_count(w->db, NULL, &have, &w->err));
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    for (int64_t i = have; i < n; i++) {
        author_new made = {.name = w_text(w, "%05d", (int)((i * 7919 + 13) % 100003))};

        if (i % 3 == 0) {
            made.country = w_text(w, "country %d", (int)(i % 7));
        }
        W_OK(w, author_create(w->db, NULL, &made, NULL, &w->err));
    }
    W_OK(w, ent_commit(w->db, &w->err));
}

/* What an iterator gives is what find gives. */
static void check_same(world *w, const author_query *query, int n)
{
    author_list list = {0};
    author_iter it;
    author row;
    size_t at = 0;

    W_OK(w, author_find(w->db, &w->arena, query, &list, &w->err));
    assert_int_equal(list.n, n);
    W_OK(w, author_iter_begin(w->db, query, &it, &w->err));
    while (author_iter_next(&it, &row)) {
        assert_true(at < list.n);
        assert_int_equal(row.id, list.items[at].id);
        assert_true(quipu_str_eq(row.name, list.items[at].name));
        assert_true(quipu_str_eq(row.country, list.items[at].country));
        at++;
    }
    W_OK(w, author_iter_end(&it, &w->err));
    assert_int_equal(at, n);
    quipu_arena_reset(&w->arena);
}

static void every_row_comes_once_and_in_order(void **state)
{
    static const int sizes[] = {0,
                                1,
                                QP_PG_CHUNK_FIRST - 1,
                                QP_PG_CHUNK_FIRST,
                                QP_PG_CHUNK_FIRST + 1,
                                QP_PG_CHUNK_FIRST + QP_PG_CHUNK_ROWS_MAX - 1,
                                QP_PG_CHUNK_FIRST + QP_PG_CHUNK_ROWS_MAX,
                                QP_PG_CHUNK_FIRST + QP_PG_CHUNK_ROWS_MAX + 1,
                                CHUNKS_MANY};
    const author_query by_key = {.order = {AUTHOR_BY_ID(ASC)}};
    const author_query by_country = {.order = {AUTHOR_BY_COUNTRY(DESC), AUTHOR_BY_NAME(ASC)}};
    world *w = *state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(w, sizes[i]);
        check_same(w, &by_key, sizes[i]);
        W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
        check_same(w, &by_key, sizes[i]);
        check_same(w, &by_country, sizes[i]);
        W_OK(w, ent_commit(w->db, &w->err));
        W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
        check_same(w, &by_key, sizes[i]);
        check_same(w, &by_country, sizes[i]);
        W_OK(w, ent_commit(w->db, &w->err));
    }
}

static void a_limit_and_an_offset_are_kept(void **state)
{
    world *w = *state;

    fill(w, CHUNKS_MANY);
    W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
    check_same(w, &(author_query){.limit = QP_PG_CHUNK_FIRST + 1}, QP_PG_CHUNK_FIRST + 1);
    check_same(w, &(author_query){.offset = 7}, CHUNKS_MANY - 7);
    W_OK(w, ent_commit(w->db, &w->err));
}

/* Several are open, some are left early, and other statements run between their chunks. */
static void many_are_read_side_by_side(void **state)
{
    const author_query query = {.order = {AUTHOR_BY_ID(ASC)}};
    world *w = *state;
    author_iter its[40];
    author rows[40];
    int read[40] = {0};
    bool more = true;

    fill(w, 2 * QP_PG_CHUNK_FIRST);
    W_OK(w, ent_begin(w->db, ENT_READ, &w->err));
    for (int i = 0; i < 40; i++) {
        W_OK(w, author_iter_begin(w->db, &query, &its[i], &w->err));
    }
    for (int step = 0; more; step++) {
        more = false;
        for (int i = 0; i < 40; i++) {
            bool wanted = step <= QP_PG_CHUNK_FIRST + i * 7;
            if (wanted && author_iter_next(&its[i], &rows[i])) {
                more = true;
                read[i]++;
            }
        }
    }
    for (int i = 0; i < 40; i++) {
        int most = QP_PG_CHUNK_FIRST + i * 7 + 1;
        W_OK(w, author_iter_end(&its[i], &w->err));
        assert_int_equal(read[i], most < 2 * QP_PG_CHUNK_FIRST ? most : 2 * QP_PG_CHUNK_FIRST);
    }
    check_same(w, &query, 2 * QP_PG_CHUNK_FIRST);
    W_OK(w, ent_commit(w->db, &w->err));
}

/* A reader that changes what it reads meets every row, too. */
static void rows_may_be_removed_while_they_are_read(void **state)
{
    world *w = *state;
    author_iter it;
    author row;
    int64_t left = -1;
    int n = 0;

    fill(w, CHUNKS_MANY);
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    W_OK(w, author_iter_begin(w->db, &(author_query){.order = {AUTHOR_BY_ID(ASC)}}, &it, &w->err));
    while (author_iter_next(&it, &row)) {
        W_OK(w, author_delete(w->db, &(author_where){.id = ent_eq(row.id)}, NULL, &w->err));
        n++;
    }
    W_OK(w, author_iter_end(&it, &w->err));
    assert_int_equal(n, CHUNKS_MANY);
    W_OK(w, author_count(w->db, NULL, &left, &w->err));
    assert_int_equal(left, 0);
    W_OK(w, ent_commit(w->db, &w->err));
}

/* Read up to `before` rows, let `change` happen, read on. Gives how it ended and how many came. */
static quipu_status read_on(world *w, int before, void (*change)(world *), int *ret_n)
{
    author_iter it;
    author row;
    int n = 0;

    W_OK(w, author_iter_begin(w->db, &(author_query){.order = {AUTHOR_BY_ID(ASC)}}, &it, &w->err));
    while (n < before && author_iter_next(&it, &row)) {
        n++;
    }
    assert_int_equal(n, before);
    change(w);
    while (author_iter_next(&it, &row)) {
        n++;
    }
    *ret_n = n;
    return author_iter_end(&it, &w->err);
}

static void undo_all(world *w)
{
    ent_rollback(w->db);
}

static void commit_all(world *w)
{
    W_OK(w, ent_commit(w->db, &w->err));
}

/* Something is written inside of a savepoint, and stays. */
static void write_inside(world *w)
{
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    W_OK(w, author_update(w->db, &(author_where){.id = ent_ge(1)},
                          &(author_patch){.country = ent_set("changed")}, NULL, &w->err));
    W_OK(w, ent_commit(w->db, &w->err));
}

static void ending_the_transaction_fails_the_iterator_or_loses_no_row(void **state)
{
    static const int places[] = {1, QP_PG_CHUNK_FIRST, QP_PG_CHUNK_FIRST + 1,
                                 QP_PG_CHUNK_FIRST + QP_PG_CHUNK_ROWS_MAX + 1};
    world *w = *state;

    fill(w, CHUNKS_MANY);
    for (size_t i = 0; i < 2 * sizeof(places) / sizeof(places[0]); i++) {
        const int before = places[i / 2];
        quipu_status status;
        int n = 0;

        W_OK(w, ent_begin(w->db, i % 2 == 0 ? ENT_READ : ENT_WRITE, &w->err));
        status = read_on(w, before, undo_all, &n);
        assert_true(status == QUIPU_CANCELLED || (status == QUIPU_OK && n == CHUNKS_MANY));
        W_OK(w, ent_begin(w->db, i % 2 == 0 ? ENT_READ : ENT_WRITE, &w->err));
        status = read_on(w, before, commit_all, &n);
        assert_true(status == QUIPU_CANCELLED || (status == QUIPU_OK && n == CHUNKS_MANY));
        check_same(w, &(author_query){.limit = 0}, CHUNKS_MANY); /* nothing stays behind */
    }
}

static void a_savepoint_between_chunks_changes_nothing(void **state)
{
    world *w = *state;
    int n = 0;

    fill(w, CHUNKS_MANY);
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    W_OK(w, read_on(w, QP_PG_CHUNK_FIRST, write_inside, &n));
    assert_int_equal(n, CHUNKS_MANY);
    W_OK(w, read_on(w, QP_PG_CHUNK_FIRST + QP_PG_CHUNK_ROWS_MAX + 1, write_inside, &n));
    assert_int_equal(n, CHUNKS_MANY);
    W_OK(w, ent_commit(w->db, &w->err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(every_row_comes_once_and_in_order),
        W_TEST(a_limit_and_an_offset_are_kept),
        W_TEST(many_are_read_side_by_side),
        W_TEST(rows_may_be_removed_while_they_are_read),
        W_TEST(ending_the_transaction_fails_the_iterator_or_loses_no_row),
        W_TEST(a_savepoint_between_chunks_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
