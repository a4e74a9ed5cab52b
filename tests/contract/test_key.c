/* Keys of every kind, clusters among them, and what a delete takes along, forbids or clears. */
#include "contract/world.h"

static void string_and_uuid_keys_work(void **state)
{
    world *w = *state;
    const shelf *s = NULL;
    const device *d = NULL;
    const device *again = NULL;
    int64_t n = 0;

    W_OK(w, shelf_create(w->db, &w->arena, &(shelf_new){.id = QUIPU_STR("top")}, &s, &w->err));
    W_OK(w, shelf_get(w->db, &w->arena, QUIPU_STR("top"), &s, &w->err));
    T_STR(s->id, "top");
    W_STATUS(w, shelf_create(w->db, NULL, &(shelf_new){.id = QUIPU_STR("top")}, NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Shelf", "id", "unique");
    W_OK(w, device_create(w->db, &w->arena, &(device_new){.label = QUIPU_STR("x")}, &d, &w->err));
    W_OK(w, device_get(w->db, &w->arena, d->id, &again, &w->err));
    T_STR(again->label, "x");
    W_OK(w, device_update(w->db, &(device_where){.id = ent_eq(d->id)},
                          &(device_patch){.label = ent_set("y")}, &n, &w->err));
    assert_int_equal(n, 1);
    W_OK(w, device_upsert(w->db, &w->arena,
                          &(device_new){.id = ent_some(d->id), .label = QUIPU_STR("z")},
                          DEVICE_ON_ID, &again, &w->err));
    assert_memory_equal(&again->id, &d->id, sizeof(d->id));
    T_STR(again->label, "z");
}

static void composite_keys_work(void **state)
{
    world *w = *state;
    const pair *p = NULL;
    pair_list list = {0};
    int64_t n = 0;

    for (int64_t i = 0; i < 4; i++) {
        W_OK(w, pair_create(w->db, &w->arena,
                            &(pair_new){.a = i < 2 ? QUIPU_STR("y") : QUIPU_STR("x"), .b = i % 2},
                            &p, &w->err));
    }
    W_STATUS(w, pair_create(w->db, NULL, &(pair_new){.a = QUIPU_STR("x"), .b = 1}, NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Pair", "a, b", "unique");
    W_OK(w, pair_get(w->db, &w->arena, QUIPU_STR("x"), 1, &p, &w->err));
    assert_true(p->b == 1 && p->v.p == NULL);
    W_OK(w, pair_find(w->db, &w->arena, &(pair_query){.limit = 0}, &list, &w->err));
    assert_int_equal(list.n, 4);
    T_STR(list.items[0].a, "x");
    assert_int_equal(list.items[1].b, 1);
    W_OK(w, pair_find(w->db, &w->arena, &(pair_query){.after = &list.items[1]}, &list, &w->err));
    assert_int_equal(list.n, 2);
    T_STR(list.items[0].a, "y");
    W_OK(w, pair_upsert(w->db, &w->arena,
                        &(pair_new){.a = QUIPU_STR("x"), .b = 1, .v = QUIPU_STR("new")},
                        PAIR_ON_KEY, &p, &w->err));
    T_STR(p->v, "new");
    W_OK(w, pair_update_one(w->db, NULL, &(pair_where){.a = ent_eq("x"), .b = ent_eq(1)},
                            &(pair_patch){.v = ENT_CLEAR}, NULL, &w->err));
    W_OK(w, pair_delete(w->db, &(pair_where){.a = ent_eq("x")}, &n, &w->err));
    assert_int_equal(n, 2);
}

/* ---- clusters ---------------------------------------------------------------------------------
 */

static void add_entries(world *w, int64_t author_id, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        W_OK(w, entry_create(
                    w->db, NULL,
                    &(entry_new){.author_id = author_id,
                                 .seq = i,
                                 .body = w_text(w, "%lld/%lld", (long long)author_id, (long long)i),
                                 .kind = i % 3},
                    NULL, &w->err));
    }
}

static void cluster_conditions_agree_with_a_filter(void **state)
{
    static const unsigned ops[] = {ENT_OP_NONE, ENT_OP_EQ, ENT_OP_NE,      ENT_OP_GT, ENT_OP_GE,
                                   ENT_OP_LT,   ENT_OP_LE, ENT_OP_BETWEEN, ENT_OP_IN};
    static const int64_t values[] = {
        INT64_MIN, -1, 0, 1, 4, 9, 10, 11, ENT_CLUSTER_SEQ_MAX, ENT_CLUSTER_SEQ_MAX + 1, INT64_MAX};
    world *w = *state;
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");
    const int64_t owners[] = {ann, bob, 0, -1, 77, ENT_CLUSTER_OWNER_MAX + INT64_C(1), INT64_MAX};
    entry_list all = {0};

    add_entries(w, ann, 1, 10);
    add_entries(w, bob, 5, 15);
    W_OK(w, entry_find(w->db, &w->arena, &(entry_query){.limit = 0}, &all, &w->err));
    assert_int_equal(all.n, 21);
    for (size_t o = 0; o < 7; o++) {
        for (size_t op = 0; op < 9; op++) {
            for (size_t v = 0; v < 11; v++) {
                const int64_t items[] = {values[v], 7};
                entry_query q = {.where = {.author_id = ent_eq(owners[o]),
                                           .seq = {.op = (ent_wants_int)ops[op],
                                                   .v = values[v],
                                                   .upper = 9,
                                                   .list = items,
                                                   .n = 2}},
                                 .order = {ENTRY_BY_SEQ(DESC)}};
                entry_list got = {0};
                size_t expected = 0;

                W_OK(w, entry_find(w->db, &w->arena, &q, &got, &w->err));
                for (size_t i = all.n; i-- > 0;) {
                    int64_t s = all.items[i].seq;
                    int64_t x = values[v];
                    const bool hit[] = {true,  s == x, s != x,           s > x,           s >= x,
                                        s < x, s <= x, s >= x && s <= 9, s == x || s == 7};
                    if (all.items[i].author_id == owners[o] && hit[op]) {
                        assert_true(expected < got.n);
                        assert_int_equal(got.items[expected].seq, s);
                        expected++;
                    }
                }
                assert_int_equal(got.n, expected);
            }
        }
    }
}

static void a_cluster_is_read_by_key_changed_and_deleted(void **state)
{
    world *w = *state;
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");
    const entry *e = NULL;
    int64_t n = 0;

    add_entries(w, ann, 1, 3);
    add_entries(w, bob, 1, 3);
    W_OK(w, entry_get(w->db, &w->arena, ann, 2, &e, &w->err));
    assert_true(e->author_id == ann && e->seq == 2);
    W_STATUS(w, entry_get(w->db, &w->arena, ann, 9, &e, &w->err), QUIPU_NOT_FOUND);
    W_STATUS(w, entry_get(w->db, &w->arena, -5, 9, &e, &w->err), QUIPU_NOT_FOUND);
    W_STATUS(w,
             entry_create(w->db, NULL,
                          &(entry_new){.author_id = ann, .seq = 2, .body = QUIPU_STR("")}, NULL,
                          &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Entry", "author_id, seq", "unique");
    W_OK(w, entry_upsert(w->db, &w->arena,
                         &(entry_new){.author_id = ann, .seq = 2, .body = QUIPU_STR("new")},
                         ENTRY_ON_KEY, &e, &w->err));
    T_STR(e->body, "new");
    W_OK(w, entry_update(w->db, &(entry_where){.author_id = ent_eq(ann), .seq = ent_gt(1)},
                         &(entry_patch){.kind = ent_set(9)}, &n, &w->err));
    assert_int_equal(n, 2);
    W_OK(w, entry_delete(w->db, &(entry_where){.author_id = ent_eq(ann), .seq = ent_le(2)}, &n,
                         &w->err));
    assert_int_equal(n, 2);
    W_OK(w, entry_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 4);
}

static void cluster_numbers_are_limited(void **state)
{
    world *w = *state;
    const entry *e = NULL;
    const struct {
        int64_t owner;
        int64_t seq;
        const char *field;
    } bad[] = {{0, 1, "author_id"},
               {-1, 1, "author_id"},
               {ENT_CLUSTER_OWNER_MAX + INT64_C(1), 1, "author_id"},
               {1, 0, "seq"},
               {1, -1, "seq"},
               {1, ENT_CLUSTER_SEQ_MAX + INT64_C(1), "seq"}};

    W_OK(w, author_create(w->db, NULL,
                          &(author_new){.id = ent_some((int64_t)ENT_CLUSTER_OWNER_MAX),
                                        .name = QUIPU_STR("last")},
                          NULL, &w->err));
    W_OK(w, entry_create(w->db, NULL,
                         &(entry_new){.author_id = ENT_CLUSTER_OWNER_MAX,
                                      .seq = ENT_CLUSTER_SEQ_MAX,
                                      .body = QUIPU_STR("end")},
                         NULL, &w->err));
    W_OK(w, entry_get(w->db, &w->arena, ENT_CLUSTER_OWNER_MAX, ENT_CLUSTER_SEQ_MAX, &e, &w->err));
    assert_true(e->author_id == ENT_CLUSTER_OWNER_MAX && e->seq == ENT_CLUSTER_SEQ_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        W_STATUS(
            w,
            entry_create(
                w->db, NULL,
                &(entry_new){.author_id = bad[i].owner, .seq = bad[i].seq, .body = QUIPU_STR("x")},
                NULL, &w->err),
            QUIPU_LIMIT);
        W_ERROR(w, "Entry", bad[i].field, "cluster");
    }
}

static void a_cluster_pages_in_every_order(void **state)
{
    world *w = *state;
    const entry_order orders[][2] = {{ENTRY_BY_SEQ(ASC)},
                                     {ENTRY_BY_SEQ(DESC)},
                                     {ENTRY_BY_AUTHOR_ID(ASC), ENTRY_BY_SEQ(ASC)},
                                     {ENTRY_BY_AUTHOR_ID(DESC), ENTRY_BY_SEQ(ASC)},
                                     {ENTRY_BY_KIND(DESC), ENTRY_BY_SEQ(ASC)}};
    int64_t ann = w_author(w, "ann");
    int64_t bob = w_author(w, "bob");

    add_entries(w, ann, 1, 7);
    add_entries(w, bob, 3, 9);
    for (size_t o = 0; o < 5; o++) {
        for (int tied = 0; tied < 2; tied++) {
            entry_query q = {.limit = 0, .order = {orders[o][0], orders[o][1]}};
            entry_list all = {0};
            size_t seen = 0;

            if (tied == 1) {
                q.where.author_id = ent_eq(bob);
            }
            W_OK(w, entry_find(w->db, &w->arena, &q, &all, &w->err));
            assert_int_equal(all.n, tied == 1 ? 7 : 14);
            q.limit = 2;
            for (;;) {
                entry_list page = {0};
                W_OK(w, entry_find(w->db, &w->arena, &q, &page, &w->err));
                if (page.n == 0) {
                    break;
                }
                for (size_t i = 0; i < page.n; i++, seen++) {
                    assert_int_equal(page.items[i].seq, all.items[seen].seq);
                    assert_int_equal(page.items[i].author_id, all.items[seen].author_id);
                }
                q.after = &page.items[page.n - 1];
            }
            assert_int_equal(seen, all.n);
        }
    }
}

/* ---- references ---------------------------------------------------------------------------------
 */

static void a_reference_must_exist(void **state)
{
    world *w = *state;

    W_STATUS(w, review_create(w->db, NULL, &(review_new){.book_id = 99, .stars = 3}, NULL, &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Review", "book_id", "reference");
    W_STATUS(w,
             book_create(w->db, NULL, &(book_new){.author_id = 99, .title = QUIPU_STR("x")}, NULL,
                         &w->err),
             QUIPU_INVALID);
    W_ERROR(w, "Book", "", "reference"); /* two references: the engine does not say which */
}

static void delete_cascades_restricts_and_sets_null(void **state)
{
    world *w = *state;
    int64_t ann = w_author(w, "ann");
    int64_t first = w_book(w, ann, "one", 2000);
    int64_t second = w_book(w, ann, "two", 2001);
    const book *b = NULL;
    int64_t n = -1;

    W_OK(w, shelf_create(w->db, NULL, &(shelf_new){.id = QUIPU_STR("top")}, NULL, &w->err));
    W_OK(w, book_update(w->db, &(book_where){.author_id = ent_eq(ann)},
                        &(book_patch){.shelf_id = ent_set("top")}, &n, &w->err));
    W_OK(w, shelf_delete(w->db, &(shelf_where){.id = ent_eq("top")}, &n, &w->err));
    W_OK(w, book_get(w->db, &w->arena, first, &b, &w->err));
    T_STR(b->shelf_id, NULL);
    W_OK(w, review_create(w->db, NULL, &(review_new){.book_id = first, .stars = 5}, NULL, &w->err));
    W_STATUS(w, book_delete(w->db, &(book_where){.id = ent_eq(first)}, &n, &w->err), QUIPU_INVALID);
    W_ERROR(w, "Book", "", "reference");
    W_STATUS(w, author_delete(w->db, &(author_where){.id = ent_eq(ann)}, &n, &w->err),
             QUIPU_INVALID); /* would cascade into what is restricted */
    W_OK(w, book_get(w->db, &w->arena, second, &b, &w->err));
    W_OK(w, review_delete(w->db, &(review_where){.book_id = ent_eq(first)}, &n, &w->err));
    add_entries(w, ann, 1, 2);
    W_OK(w, author_delete(w->db, &(author_where){.id = ent_eq(ann)}, &n, &w->err));
    assert_int_equal(n, 1);
    W_OK(w, book_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 0);
    W_OK(w, entry_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 0);
}

static void a_tree_goes_with_its_root(void **state)
{
    world *w = *state;
    const node *root = NULL;
    int64_t parent = 0;
    int64_t n = -1;

    W_OK(w, node_create(w->db, &w->arena, &(node_new){.label = QUIPU_STR("root")}, &root, &w->err));
    parent = root->id;
    for (int i = 0; i < 5; i++) {
        const node *made = NULL;
        W_OK(w, node_create(w->db, &w->arena,
                            &(node_new){.label = QUIPU_STR("x"), .parent_id = ent_some(parent)},
                            &made, &w->err));
        parent = made->id;
    }
    W_OK(w, node_delete(w->db, &(node_where){.id = ent_eq(root->id)}, &n, &w->err));
    assert_int_equal(n, 1);
    W_OK(w, node_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 0);
}

static void one_to_one_admits_one(void **state)
{
    world *w = *state;
    int64_t ann = w_author(w, "ann");

    W_OK(w, profile_create(w->db, NULL, &(profile_new){.author_id = ann, .bio = QUIPU_STR("a")},
                           NULL, &w->err));
    W_STATUS(w,
             profile_create(w->db, NULL, &(profile_new){.author_id = ann, .bio = QUIPU_STR("b")},
                            NULL, &w->err),
             QUIPU_EXISTS);
    W_ERROR(w, "Profile", "author_id", "unique");
}

static void an_entity_of_one_field_is_counted(void **state)
{
    world *w = *state;
    const tag_new tags[] = {{.name = QUIPU_STR("a")}, {.name = QUIPU_STR("b")}};
    bool exists = false;
    int64_t n = -1;

    W_OK(w, tag_exists(w->db, NULL, &exists, &w->err));
    assert_false(exists);
    W_OK(w, tag_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 0);
    W_OK(w, tag_create_many(w->db, tags, 2, &w->err));
    W_OK(w, tag_count(w->db, NULL, &n, &w->err));
    assert_int_equal(n, 2);
    W_OK(w, tag_exists(w->db, &(tag_where){.name = ent_eq("b")}, &exists, &w->err));
    assert_true(exists);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(string_and_uuid_keys_work),
        W_TEST(composite_keys_work),
        W_TEST(cluster_conditions_agree_with_a_filter),
        W_TEST(a_cluster_is_read_by_key_changed_and_deleted),
        W_TEST(cluster_numbers_are_limited),
        W_TEST(a_cluster_pages_in_every_order),
        W_TEST(a_reference_must_exist),
        W_TEST(delete_cascades_restricts_and_sets_null),
        W_TEST(a_tree_goes_with_its_root),
        W_TEST(one_to_one_admits_one),
        W_TEST(an_entity_of_one_field_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
