/* Loading edges: trees equal to what a naive loader finds, limits per parent, sharing, one
 * snapshot. */
#include "contract/world.h"

/* Authors with a varying number of books and reviews. */
static void fill(world *w, int authors)
{
    for (int a = 0; a < authors; a++) {
        int64_t id = w_author(w, w_text(w, "author %03d", a).p);
        for (int b = 0; b < a % 5; b++) {
            int64_t book_id = w_book(w, id, w_text(w, "book %d", b).p, 2000 + (b * 7 + a) % 10);
            for (int r = 0; r < (a + b) % 4; r++) {
                W_OK(w, review_create(w->db, NULL,
                                      &(review_new){.book_id = book_id, .stars = 1 + (a + r) % 5},
                                      NULL, &w->err));
            }
        }
    }
}

/* What a user would write without eager loading. */
static void check_reviews(world *w, const book *b)
{
    review_list naive = {0};

    W_OK(w, review_find(w->db, &w->arena,
                        &(review_query){.where = {.book_id = ent_eq(b->id), .stars = ent_ge(2)},
                                        .order = {REVIEW_BY_STARS(DESC)}},
                        &naive, &w->err));
    assert_true(b->reviews.loaded);
    assert_int_equal(b->reviews.n, naive.n);
    for (size_t i = 0; i < naive.n; i++) {
        assert_int_equal(b->reviews.items[i].id, naive.items[i].id);
        assert_false(b->reviews.items[i].book != NULL);
    }
}

static void a_loaded_tree_equals_a_naive_one(void **state)
{
    world *w = *state;
    author_list all = {0};
    const review_query reviews = {.where = {.stars = ent_ge(2)}, .order = {REVIEW_BY_STARS(DESC)}};
    const book_query books = {.where = {.year = ent_lt(2008)},
                              .order = {BOOK_BY_YEAR(DESC), BOOK_BY_TITLE(ASC)},
                              .limit = 3,
                              .with_reviews = &reviews,
                              .with_author = &(author_query){.limit = 0}};

    fill(w, 40);
    W_OK(w, author_find(w->db, &w->arena,
                        &(author_query){.order = {AUTHOR_BY_NAME(DESC)}, .with_books = &books},
                        &all, &w->err));
    assert_int_equal(all.n, 40);
    for (size_t i = 0; i < all.n; i++) {
        const author *a = &all.items[i];
        book_list naive = {0};
        W_OK(w, book_find(w->db, &w->arena,
                          &(book_query){.where = {.author_id = ent_eq(a->id), .year = ent_lt(2008)},
                                        .order = {BOOK_BY_YEAR(DESC), BOOK_BY_TITLE(ASC)},
                                        .limit = 3},
                          &naive, &w->err));
        assert_true(a->books.loaded);
        assert_false(a->entries.loaded);
        assert_null(a->profile);
        assert_int_equal(a->books.n, naive.n);
        for (size_t k = 0; k < naive.n; k++) {
            const book *b = &a->books.items[k];
            assert_int_equal(b->id, naive.items[k].id);
            T_STR(b->title, naive.items[k].title.p);
            assert_non_null(b->author);
            assert_int_equal(b->author->id, a->id);
            assert_false(b->author->books.loaded);
            check_reviews(w, b);
        }
    }
}

static void each_parent_gets_its_own_newest_five(void **state)
{
    world *w = *state;
    author_list all = {0};
    entry_new *entries = calloc((size_t)200 * 20, sizeof(*entries));
    ent_stats before;

    assert_non_null(entries);
    for (int a = 0; a < 200; a++) {
        int64_t id = w_author(w, w_text(w, "author %d", a).p);
        for (int e = 0; e < 20; e++) {
            entries[e * 200 + a] =
                (entry_new){.author_id = id, .seq = e + 1, .body = QUIPU_STR("text")};
        }
    }
    W_OK(w, entry_create_many(w->db, entries, (size_t)200 * 20, &w->err));
    for (int warm = 0; warm < 2; warm++) {
        before = ent_stats_read(w->db);
        W_OK(w, author_find(
                    w->db, &w->arena,
                    &(author_query){.with_entries = &(entry_query){.order = {ENTRY_BY_SEQ(DESC)},
                                                                   .where = {.seq = ent_lt(19)},
                                                                   .limit = 5}},
                    &all, &w->err));
    }
    assert_int_equal(ent_stats_read(w->db).prepares, before.prepares);
    assert_int_equal(all.n, 200);
    for (size_t i = 0; i < all.n; i++) {
        assert_int_equal(all.items[i].entries.n, 5);
        for (size_t k = 0; k < 5; k++) {
            assert_int_equal(all.items[i].entries.items[k].seq, 18 - (int64_t)k);
            assert_int_equal(all.items[i].entries.items[k].author_id, all.items[i].id);
        }
    }
    free(entries);
}

static void any_number_of_parents_is_loaded(void **state)
{
    T_LONG_ON_PG("100,000 rows");

    enum { PARENTS = 40000 };
    world *w = *state;
    author_new *authors = calloc(PARENTS, sizeof(*authors));
    book_new *books = calloc(PARENTS, sizeof(*books));
    author_list all = {.n = 1};
    book_list back = {0};

    assert_non_null(authors);
    assert_non_null(books);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.with_books = &(book_query){.limit = 1}},
                        &all, &w->err));
    assert_int_equal(all.n, 0);
    for (int i = 0; i < PARENTS; i++) {
        authors[i].name = w_text(w, "a%d", i);
        books[i] = (book_new){.author_id = i + 1, .title = QUIPU_STR("t")};
    }
    W_OK(w, author_create_many(w->db, authors, PARENTS, &w->err));
    W_OK(w, book_create_many(w->db, books, PARENTS, &w->err));
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.with_books = &(book_query){.limit = 0}},
                        &all, &w->err));
    assert_int_equal(all.n, PARENTS);
    for (size_t i = 0; i < PARENTS; i++) {
        assert_int_equal(all.items[i].books.n, 1);
        assert_int_equal(all.items[i].books.items[0].author_id, all.items[i].id);
    }
    W_OK(w, book_find(w->db, &w->arena, &(book_query){.with_author = &(author_query){.limit = 0}},
                      &back, &w->err));
    for (size_t i = 0; i < PARENTS; i++) {
        assert_int_equal(back.items[i].author->id, back.items[i].author_id);
    }
    free(authors);
    free(books);
}

static void rows_behind_a_to_one_edge_are_shared(void **state)
{
    world *w = *state;
    book_list list = {0};
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");
    ent_stats before;

    W_OK(w, shelf_create(w->db, NULL, &(shelf_new){.id = QUIPU_STR("top")}, NULL, &w->err));
    for (int i = 0; i < 6; i++) {
        int64_t id = w_book(w, i % 2 == 0 ? ann : bob, w_text(w, "t%d", i).p, 2000);
        if (i < 4) {
            W_OK(w, book_update_one(w->db, NULL, &(book_where){.id = ent_eq(id)},
                                    &(book_patch){.shelf_id = ent_set("top")}, NULL, &w->err));
        }
    }
    before = ent_stats_read(w->db);
    W_OK(w, book_find(w->db, &w->arena,
                      &(book_query){.with_author = &(author_query){.limit = 0},
                                    .with_shelf = &(shelf_query){.limit = 0}},
                      &list, &w->err));
    /* one list, two authors, one shelf */
    assert_int_equal(ent_stats_read(w->db).statements - before.statements, 4);
    assert_int_equal(list.n, 6);
    assert_ptr_equal(list.items[0].author, list.items[2].author);
    assert_ptr_equal(list.items[1].author, list.items[3].author);
    assert_ptr_equal(list.items[0].shelf, list.items[3].shelf);
    assert_null(list.items[4].shelf);
    T_STR(list.items[1].author->name, "bob");
    T_STR(list.items[0].shelf->id, "top");
    W_OK(w,
         book_find(w->db, &w->arena,
                   &(book_query){.with_author = &(author_query){.where = {.name = ent_eq("bob")}}},
                   &list, &w->err));
    assert_null(list.items[0].author); /* filtered out */
    assert_non_null(list.items[1].author);
}

static void one_to_one_loads_from_both_sides(void **state)
{
    world *w = *state;
    author_list authors = {0};
    profile_list profiles = {0};
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");

    (void)ann;
    W_OK(w, profile_create(w->db, NULL, &(profile_new){.author_id = bob, .bio = QUIPU_STR("hi")},
                           NULL, &w->err));
    W_OK(w, author_find(
                w->db, &w->arena,
                &(author_query){.with_profile =
                                    &(profile_query){.with_author = &(author_query){.limit = 0}}},
                &authors, &w->err));
    assert_null(authors.items[0].profile);
    T_STR(authors.items[1].profile->bio, "hi");
    assert_int_equal(authors.items[1].profile->author->id, bob);
    W_OK(w, profile_find(w->db, &w->arena,
                         &(profile_query){.with_author = &(author_query){.limit = 0}}, &profiles,
                         &w->err));
    T_STR(profiles.items[0].author->name, "bob");
    W_STATUS(w,
             profile_find(w->db, &w->arena,
                          &(profile_query){.with_author = &(author_query){.limit = 1}}, &profiles,
                          &w->err),
             QUIPU_MISUSE);
}

static void a_tree_of_one_entity_loads_to_any_allowed_depth(void **state)
{
    world *w = *state;
    node_query levels[ENT_EAGER_MAX + 2];
    node_list roots = {0};
    const node *at = NULL;
    int64_t parent = 0;

    for (int i = 0; i < ENT_EAGER_MAX + 2; i++) {
        const node *made = NULL;
        node_new v = {.label = w_text(w, "%d", i)};
        if (i > 0) {
            v.parent_id = ent_some(parent);
        }
        W_OK(w, node_create(w->db, &w->arena, &v, &made, &w->err));
        parent = made->id;
    }
    memset(levels, 0, sizeof(levels));
    for (size_t i = 1; i < ENT_EAGER_MAX + 2; i++) {
        levels[i].with_children = &levels[i - 1];
    }
    levels[ENT_EAGER_MAX].where.parent_id = (ent_where_int){.op = (ent_wants_int)ENT_OP_IS_NULL};
    levels[ENT_EAGER_MAX + 1].where = levels[ENT_EAGER_MAX].where;
    W_OK(w, node_find(w->db, &w->arena, &levels[ENT_EAGER_MAX], &roots, &w->err));
    assert_int_equal(roots.n, 1);
    at = &roots.items[0];
    for (int i = 0; i < ENT_EAGER_MAX; i++) {
        assert_int_equal(at->children.n, 1);
        at = &at->children.items[0];
        T_STR(at->label, w_text(w, "%d", i + 1).p);
    }
    assert_false(at->children.loaded);
    levels[ENT_EAGER_MAX].where = (node_where){.id = {0}};
    W_STATUS(w, node_find(w->db, &w->arena, &levels[ENT_EAGER_MAX + 1], &roots, &w->err),
             QUIPU_LIMIT);
    assert_int_equal(roots.n, 1);
}

static void one_loads_edges_too(void **state)
{
    world *w = *state;
    const author *a = NULL;
    int64_t ann = w_author(w, "ann");

    (void)w_book(w, ann, "x", 1);
    W_OK(w, author_one(w->db, &w->arena,
                       &(author_query){.where = {.name = ent_eq("ann")},
                                       .with_books = &(book_query){.limit = 9}},
                       &a, &w->err));
    assert_int_equal(a->books.n, 1);
}

static void a_child_condition_on_another_owner_finds_nothing(void **state)
{
    world *w = *state;
    author_list all = {0};
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");

    W_OK(w,
         entry_create(w->db, NULL, &(entry_new){.author_id = ann, .seq = 1, .body = QUIPU_STR("a")},
                      NULL, &w->err));
    W_OK(w,
         entry_create(w->db, NULL, &(entry_new){.author_id = bob, .seq = 1, .body = QUIPU_STR("b")},
                      NULL, &w->err));
    W_OK(w, author_find(w->db, &w->arena,
                        &(author_query){.with_entries =
                                            &(entry_query){.where = {.author_id = ent_eq(bob)}}},
                        &all, &w->err));
    assert_int_equal(all.items[0].entries.n, 0);
    assert_int_equal(all.items[1].entries.n, 1);
}

static void a_bad_child_query_leaves_nothing_behind(void **state)
{
    world *w = *state;
    quipu_arena arena = QUIPU_ARENA_INIT;
    author_list all = {.n = 7};
    size_t bytes;

    (void)w_author(w, "ann");
    W_STATUS(w,
             author_find(w->db, &arena, &(author_query){.with_books = &(book_query){.limit = -1}},
                         &all, &w->err),
             QUIPU_MISUSE);
    assert_int_equal(all.n, 7);
    bytes = arena.bytes;
    W_STATUS(w,
             author_find(w->db, &arena, &(author_query){.with_books = &(book_query){.limit = -1}},
                         &all, &w->err),
             QUIPU_MISUSE);
    assert_int_equal(arena.bytes, bytes);
    quipu_arena_free(&arena);
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err)); /* the snapshot was closed */
    ent_rollback(w->db);
}

/* ---- one snapshot
 * -------------------------------------------------------------------------------- */

typedef struct intruder {
    ent_db *db;
    bool done;
} intruder;

/* Called after every statement of the reader: another connection commits in between. */
static void intrude(void *ctx, const ent_trace_event *event)
{
    intruder *i = ctx;

    if (!i->done && strncmp(event->sql, "SELECT", 6) == 0) {
        i->done = true;
        T_OK(book_create(i->db, NULL, &(book_new){.author_id = 1, .title = QUIPU_STR("late")}, NULL,
                         NULL));
    }
}

static void all_levels_come_from_one_snapshot(void **state)
{
    world *w = *state;
    intruder other = {.db = w_connect(w, 1000), .done = false};
    author_list all = {0};

    (void)w_author(w, "ann");
    ent_trace(w->db, intrude, &other);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.with_books = &(book_query){.limit = 0}},
                        &all, &w->err));
    ent_trace(w->db, NULL, NULL);
    assert_true(other.done);
    assert_int_equal(all.items[0].books.n, 0);
    W_OK(w, author_find(w->db, &w->arena, &(author_query){.with_books = &(book_query){.limit = 0}},
                        &all, &w->err));
    assert_int_equal(all.items[0].books.n, 1);
    ent_close(other.db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(a_loaded_tree_equals_a_naive_one),
        W_TEST(each_parent_gets_its_own_newest_five),
        W_TEST(any_number_of_parents_is_loaded),
        W_TEST(rows_behind_a_to_one_edge_are_shared),
        W_TEST(one_to_one_loads_from_both_sides),
        W_TEST(a_tree_of_one_entity_loads_to_any_allowed_depth),
        W_TEST(one_loads_edges_too),
        W_TEST(a_child_condition_on_another_owner_finds_nothing),
        W_TEST(a_bad_child_query_leaves_nothing_behind),
        W_TEST_FILE(all_levels_come_from_one_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
