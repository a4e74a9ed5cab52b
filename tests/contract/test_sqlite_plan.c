/* How SQLite runs what the runtime writes: which conditions an index serves, and which orders need
 * no sorting. What is asked for here is what makes the store fast. */
#include "contract/world.h"

#include "ent/db.h"

#define SQL_MAX 4096

/* The last statement that the trace hook saw. */
static void keep_sql(void *ctx, const ent_trace_event *event)
{
    if (strcmp(event->sql, "BEGIN") != 0 && strcmp(event->sql, "COMMIT") != 0) {
        (void)snprintf(ctx, SQL_MAX, "%s", event->sql);
    }
}

/* EXPLAIN QUERY PLAN of it, lines joined by "; ". */
static void explain(world *w, const char *sql, char *ret_plan, size_t size)
{
    const uint8_t kinds[4] = {QP_INT, QP_INT, QP_INT, QP_TEXT};
    qp_statement *statement = NULL;
    qp_value values[4];
    bool is_row = true;
    char text[SQL_MAX + 32];
    size_t n = 0;

    (void)snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", sql);
    W_OK(w, w->db->engine->prepare(w->db->conn, quipu_cstr(text), &statement, &w->err));
    ret_plan[0] = '\0';
    for (;;) {
        W_OK(w, w->db->engine->step(statement, kinds, 4, values, &is_row, &w->err));
        if (!is_row) {
            break;
        }
        n += (size_t)snprintf(ret_plan + n, size - n, "%s; ", values[3].as.text.p);
        assert_true(n < size);
    }
    w->db->engine->finalize(statement);
}

/* Run the query, then look at its plan: `has` is in it, a temporary B-tree is not. */
#define CHECK_PLAN(w, call, has) check_plan(w, call, has, #call, __LINE__)

static char last_sql[SQL_MAX];

static void check_plan(world *w, quipu_status status, const char *has, const char *what, int line)
{
    char plan[SQL_MAX];

    t_status_check(status, QUIPU_OK, what, __FILE__, line);
    explain(w, last_sql, plan, sizeof(plan));
    if (strstr(plan, has) == NULL || strstr(plan, "TEMP B-TREE") != NULL ||
        strstr(plan, "SCAN authors") != NULL || strstr(plan, "SCAN entries") != NULL) {
        print_error("%s\n  %s\n  plan: %s\n  expected: %s\n", what, last_sql, plan, has);
        _fail(__FILE__, line);
    }
}

static void conditions_use_their_indexes(void **state)
{
    world *w = *state;
    const int64_t ids[] = {1, 2};
    const quipu_str names[] = {QUIPU_STR("a"), QUIPU_STR("b")};
    int64_t n = 0;

    ent_trace(w->db, keep_sql, last_sql);
    CHECK_PLAN(w, author_count(w->db, &(author_where){.name = ent_eq("a")}, &n, &w->err),
               "authors_name_key (name=?)");
    CHECK_PLAN(w, author_count(w->db, &(author_where){.name = ent_prefix("a")}, &n, &w->err),
               "authors_name_key (name>? AND name<?)");
    CHECK_PLAN(w, author_count(w->db, &(author_where){.name = ent_in(names, 2)}, &n, &w->err),
               "authors_name_key (name=?)");
    CHECK_PLAN(w, author_count(w->db, &(author_where){.id = ent_in(ids, 2)}, &n, &w->err),
               "INTEGER PRIMARY KEY (rowid=?)");
    CHECK_PLAN(w,
               author_count(w->db,
                            &(author_where){.country = ent_eq("NO"), .born = ent_between(1, 2)}, &n,
                            &w->err),
               "author_country_born (country=? AND born>? AND born<?)");
    CHECK_PLAN(w, book_count(w->db, &(book_where){.author_id = ent_eq(1)}, &n, &w->err),
               "book_author_id_title (author_id=?)");
}

static void a_cluster_is_a_range_of_its_table(void **state)
{
    world *w = *state;
    entry_list list = {0};
    author_list authors = {0};
    const entry last = {.author_id = 1, .seq = 5};
    const entry *row = NULL;
    const char *range = "SEARCH entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";

    (void)w_author(w, "ann");
    ent_trace(w->db, keep_sql, last_sql);
    CHECK_PLAN(w,
               entry_find(w->db, &w->arena,
                          &(entry_query){.where = {.author_id = ent_eq(1)},
                                         .order = {ENTRY_BY_SEQ(DESC)},
                                         .limit = 5},
                          &list, &w->err),
               range);
    CHECK_PLAN(w,
               entry_find(w->db, &w->arena,
                          &(entry_query){.where = {.author_id = ent_eq(1), .seq = ent_gt(3)},
                                         .after = &last},
                          &list, &w->err),
               range);
    CHECK_PLAN(
        w,
        author_find(w->db, &w->arena,
                    &(author_query){.with_entries = &(entry_query){.order = {ENTRY_BY_SEQ(DESC)},
                                                                   .where = {.seq = ent_le(9)},
                                                                   .limit = 5}},
                    &authors, &w->err),
        range);
    T_STATUS(entry_get(w->db, &w->arena, 1, 1, &row, &w->err), QUIPU_NOT_FOUND);
    CHECK_PLAN(w, QUIPU_OK, "SEARCH entries USING INTEGER PRIMARY KEY (rowid=?)");
    CHECK_PLAN(
        w, entry_find(w->db, &w->arena, &(entry_query){.after = &last, .limit = 9}, &list, &w->err),
        "SEARCH entries USING INTEGER PRIMARY KEY (rowid>?)");
}

static void pages_start_at_the_row_they_continue_after(void **state)
{
    world *w = *state;
    author_list list = {0};
    const author last = {.id = 5, .name = {"m", 1}, .country = {"NO", 2}, .born = {true, 1950}};

    ent_trace(w->db, keep_sql, last_sql);
    CHECK_PLAN(w,
               author_find(w->db, &w->arena,
                           &(author_query){.order = {AUTHOR_BY_NAME(DESC)}, .after = &last}, &list,
                           &w->err),
               "authors_name_key (name<?)");
    CHECK_PLAN(w,
               author_find(w->db, &w->arena,
                           &(author_query){.order = {AUTHOR_BY_COUNTRY(ASC), AUTHOR_BY_BORN(DESC),
                                                     AUTHOR_BY_ID(ASC)},
                                           .where = {.country = ENT_NOT_NULL},
                                           .limit = 2},
                           &list, &w->err),
               "author_country_born");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        W_TEST(conditions_use_their_indexes),
        W_TEST(a_cluster_is_a_range_of_its_table),
        W_TEST(pages_start_at_the_row_they_continue_after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
