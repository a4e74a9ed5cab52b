/* Full-text search of the runtime: an index kept by hand over a cluster, hits by rank, snippets. */
#include "base/str.h"
#include "contract/world.h"

#define SEARCH_MARKS ((ent_marks){QUIPU_STR("red"), QUIPU_STR("["), QUIPU_STR("]"), 256})

static int64_t ada;

static void put(world *w, int64_t seq, const char *body)
{
    W_OK(w, entry_create(w->db, NULL,
                         &(entry_new){.author_id = ada, .seq = seq, .body = quipu_cstr(body)}, NULL,
                         &w->err));
    W_OK(w, entry_index(w->db, &(entry_where){.author_id = ent_eq(ada), .seq = ent_eq(seq)}, NULL,
                        &w->err));
}

static int setup(void **state)
{
    int failed = w_setup(state);

    ada = failed == 0 ? w_author(*state, "Ada") : 0;
    return failed;
}

#define S_TEST(f) cmocka_unit_test_setup_teardown(f, setup, w_teardown)

/* The numbers of the hits, best first: "2 1 ". */
static const char *hits_of(world *w, const char *words, const entry_where *where, int64_t limit)
{
    static char text[512];
    ent_iter iter;
    ent_hit hit;
    size_t n = 0;

    text[0] = '\0';
    W_OK(w, entry_hits_begin(w->db, quipu_cstr(words), where, limit, &iter, &w->err));
    while (ent_hits_next(&iter, &hit)) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%lld ", (long long)hit.seq);
    }
    W_OK(w, ent_iter_end(&iter, &w->err));
    return text;
}

static const char *snippet_of(world *w, const char *words, int64_t seq, const ent_marks *marks)
{
    const ent_hit hit = {.key = ada, .seq = seq};
    ent_marks marked = *marks;
    quipu_str text = {NULL, 0};

    marked.words = quipu_cstr(words);

    W_OK(w, entry_snippet(w->db, &w->arena, &hit, &marked, &text, &w->err));
    return text.p;
}

static void hits_come_best_first(void **state)
{
    world *w = *state;

    put(w, 1, "a long entry in which the word cat comes once among a great many other words");
    put(w, 2, "cat and cat");
    put(w, 3, "no such word");
    assert_string_equal(hits_of(w, "cat", NULL, 0), "2 1 ");
    assert_string_equal(hits_of(w, "cat", NULL, 1), "2 ");
    assert_string_equal(hits_of(w, "word cat", NULL, 0), "1 ");
}

static void equal_hits_come_by_key(void **state)
{
    world *w = *state;

    for (int64_t i = 1; i <= 4; i++) {
        put(w, i, "same text");
    }
    assert_string_equal(hits_of(w, "same", NULL, 0), "1 2 3 4 ");
}

/* One more than a window: the newest are ranked first, then the oldest, each once. */
static void more_hits_than_a_window_come_once_each(void **state)
{
    world *w = *state;
    const int64_t count = 2 * ENT_HITS_WINDOW + 1;
    bool *seen = calloc((size_t)count + 1, sizeof(*seen));
    int64_t read = 0;
    ent_iter iter;
    ent_hit hit;

    assert_non_null(seen);
    W_OK(w, ent_begin(w->db, ENT_WRITE, &w->err));
    for (int64_t i = 1; i <= count; i++) {
        put(w, i, i % 100 == 0 ? "same same same" : "the same in a longer text");
    }
    W_OK(w, ent_commit(w->db, &w->err));
    W_OK(w, entry_hits_begin(w->db, QUIPU_STR("same"), NULL, 0, &iter, &w->err));
    while (ent_hits_next(&iter, &hit)) {
        const int64_t window = read / ENT_HITS_WINDOW;
        const int64_t high = count - window * ENT_HITS_WINDOW;
        const int64_t best =
            high / 100 - (high > ENT_HITS_WINDOW ? (high - ENT_HITS_WINDOW) / 100 : 0);

        assert_true(hit.seq >= 1 && hit.seq <= high && hit.seq > high - ENT_HITS_WINDOW);
        assert_false(seen[hit.seq]);
        seen[hit.seq] = true;
        assert_int_equal(hit.seq % 100 == 0, read % ENT_HITS_WINDOW < best);
        read++;
    }
    W_OK(w, ent_iter_end(&iter, &w->err));
    assert_int_equal(read, count);
    W_OK(w, entry_hits_begin(w->db, QUIPU_STR("same"), NULL, ENT_HITS_WINDOW + 1, &iter, &w->err));
    for (read = 0; ent_hits_next(&iter, &hit); read++) {
    }
    W_OK(w, ent_iter_end(&iter, &w->err));
    assert_int_equal(read, ENT_HITS_WINDOW + 1);
    free(seen);
}

static void conditions_narrow_the_hits(void **state)
{
    world *w = *state;

    for (int64_t i = 1; i <= 5; i++) {
        put(w, i, "same text");
    }
    W_OK(w, entry_update(w->db, &(entry_where){.author_id = ent_eq(ada), .seq = ent_eq(4)},
                         &(entry_patch){.kind = ent_set(7)}, NULL, &w->err));
    assert_string_equal(
        hits_of(w, "text", &(entry_where){.author_id = ent_eq(ada), .seq = ent_between(2, 4)}, 0),
        "2 3 4 ");
    assert_string_equal(
        hits_of(w, "text", &(entry_where){.author_id = ent_eq(ada), .seq = ent_eq(3)}, 0), "3 ");
    assert_string_equal(hits_of(w, "text", &(entry_where){.kind = ent_eq(7)}, 0), "4 ");
    assert_string_equal(
        hits_of(w, "text",
                &(entry_where){.author_id = ent_eq(ada), .seq = ent_ne(1), .kind = ent_eq(0)}, 0),
        "2 3 5 ");
    assert_string_equal(hits_of(w, "text", &(entry_where){.author_id = ent_eq(ada + 1)}, 0), "");
}

static void rows_leave_the_index_before_they_go(void **state)
{
    world *w = *state;
    const entry_where first = {.author_id = ent_eq(ada), .seq = ent_eq(1)};
    int64_t n = 0;

    put(w, 1, "red car");
    put(w, 2, "red bicycle");
    W_OK(w, entry_unindex(w->db, &first, &n, &w->err));
    assert_int_equal(n, 1);
    assert_string_equal(hits_of(w, "red", NULL, 0), "2 ");
    W_OK(w, entry_index(w->db, &first, &n, &w->err));
    assert_int_equal(n, 1);
    assert_string_equal(hits_of(w, "red", NULL, 0), "1 2 ");
    W_OK(w, entry_index_check(w->db, &w->err));
    W_OK(w, entry_index_clear(w->db, &w->err));
    assert_string_equal(hits_of(w, "red", NULL, 0), "");
    W_OK(w, entry_index(w->db, &(entry_where){.author_id = ent_eq(ada)}, &n, &w->err));
    assert_int_equal(n, 2);
    assert_string_equal(hits_of(w, "red", NULL, 0), "1 2 ");
}

static void a_difference_between_index_and_rows_is_reported(void **state)
{
    world *w = *state;
    const entry_where first = {.author_id = ent_eq(ada), .seq = ent_eq(1)};

    put(w, 1, "red car");
    put(w, 2, "red bicycle");
    W_OK(w, entry_index_check(w->db, &w->err));
    W_OK(w, entry_unindex(w->db, &first, NULL, &w->err));
    W_STATUS(w, entry_index_check(w->db, &w->err), QUIPU_CORRUPT);
    W_OK(w, entry_index(w->db, &first, NULL, &w->err));
    W_OK(w, entry_index_check(w->db, &w->err));
    W_OK(w,
         entry_update(w->db, &first, &(entry_patch){.body = ent_set("green car")}, NULL, &w->err));
    W_STATUS(w, entry_index_check(w->db, &w->err), QUIPU_CORRUPT);
}

static void misuse_is_refused(void **state)
{
    world *w = *state;
    const ent_hit hit = {.key = ada, .seq = 1};
    ent_marks marks = SEARCH_MARKS;
    quipu_str text = {NULL, 0};
    ent_iter iter;
    int64_t n = 0;

    put(w, 1, "red car");
    W_STATUS(w, entry_index(w->db, &(entry_where){0}, &n, &w->err), QUIPU_MISUSE);
    W_STATUS(w, entry_unindex(w->db, NULL, &n, &w->err), QUIPU_MISUSE);
    W_STATUS(
        w, entry_unindex(w->db, &(entry_where){.search = ent_match(QUIPU_STR("red"))}, &n, &w->err),
        QUIPU_MISUSE);
    W_STATUS(w, ent_index_rows(w->db, &note_entity, &(note_where){.id = ent_eq(1)}, &n, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, ent_index_clear(w->db, &author_entity, &w->err), QUIPU_MISUSE);
    W_STATUS(w, ent_hits_begin(w->db, &author_entity, QUIPU_STR("x"), NULL, 0, &iter, &w->err),
             QUIPU_MISUSE);
    W_STATUS(w, entry_hits_begin(w->db, QUIPU_STR("x"), NULL, -1, &iter, &w->err), QUIPU_MISUSE);
    W_STATUS(w, entry_hits_begin(w->db, (quipu_str){"\xff", 1}, NULL, 0, &iter, &w->err),
             QUIPU_INVALID);
    marks.bytes = ENT_SNIPPET_BYTES_MAX + 1;
    W_STATUS(w, entry_snippet(w->db, &w->arena, &hit, &marks, &text, &w->err), QUIPU_MISUSE);
    marks.bytes = ENT_SNIPPET_BYTES_MAX;
    W_OK(w, entry_snippet(w->db, &w->arena, &hit, &marks, &text, &w->err));
    assert_string_equal(text.p, "[red] car");
}

static void an_index_that_the_engine_keeps_has_hits_too(void **state)
{
    world *w = *state;
    ent_marks marks = SEARCH_MARKS;
    const note *made = NULL;
    quipu_str text = {NULL, 0};
    ent_iter iter;
    ent_hit hit;

    W_OK(w, note_create(w->db, &w->arena,
                        &(note_new){.title = QUIPU_STR("Milk"), .body = QUIPU_STR("buy the milk")},
                        &made, &w->err));
    if (t_pg()) { /* PostgreSQL keeps only those that are kept by hand, and says so */
        W_STATUS(w, note_hits_begin(w->db, QUIPU_STR("buy"), NULL, 0, &iter, &w->err),
                 QUIPU_UNSUPPORTED);
        return;
    }
    W_OK(w, note_hits_begin(w->db, QUIPU_STR("buy"), NULL, 0, &iter, &w->err));
    assert_true(ent_hits_next(&iter, &hit));
    assert_int_equal(hit.key, made->id);
    assert_int_equal(hit.seq, 0);
    assert_true(hit.rank > 0);
    assert_false(ent_hits_next(&iter, &hit));
    W_OK(w, ent_iter_end(&iter, &w->err));
    hit = (ent_hit){.key = made->id};
    marks.words = QUIPU_STR("buy");
    W_OK(w, note_snippet(w->db, &w->arena, &hit, &marks, &text, &w->err));
    assert_string_equal(text.p, "[buy] the milk");
}

static void snippets_mark_words_phrases_and_prefixes(void **state)
{
    world *w = *state;
    const ent_marks marks = SEARCH_MARKS;

    put(w, 1, "The red car, the Red bicycle; a carpet.");
    assert_string_equal(snippet_of(w, "red", 1, &marks),
                        "The [red] car, the [Red] bicycle; a carpet.");
    assert_string_equal(snippet_of(w, "\"red car\"", 1, &marks),
                        "The [red car], the Red bicycle; a carpet.");
    assert_string_equal(snippet_of(w, "car* red", 1, &marks),
                        "The [red] [car], the [Red] bicycle; a [carpet].");
    assert_string_equal(snippet_of(w, "\"red car\" \"car the\"", 1, &marks),
                        "The [red car, the] Red bicycle; a carpet.");
    assert_string_equal(snippet_of(w, "green", 1, &marks), "");
    assert_string_equal(snippet_of(w, "red", 2, &marks), "");
}

static void a_snippet_shows_where_the_words_stand_together(void **state)
{
    world *w = *state;
    const ent_marks marks = SEARCH_MARKS;
    char body[4096] = "apple ";
    size_t n = strlen(body);

    for (int i = 0; i < 100; i++) {
        n += (size_t)snprintf(body + n, sizeof(body) - n, "w%d ", i);
    }
    snprintf(body + n, sizeof(body) - n, "apple pear end");
    put(w, 1, body);
    assert_string_equal(snippet_of(w, "apple pear", 1, &marks),
                        "\xe2\x80\xa6w94 w95 w96 w97 w98 w99 [apple] [pear] end");
}

static void a_snippet_is_bounded_in_bytes_and_splits_no_character(void **state)
{
    world *w = *state;
    char body[6000];
    size_t n = 0;

    while (n < 5000) {
        memcpy(body + n, "\xc3\xa9", 2); /* one word of 2,500 accented letters */
        n += 2;
    }
    memcpy(body + n, " needle", 8);
    put(w, 1, body);
    for (int64_t bytes = 16; bytes < 80; bytes++) {
        const ent_marks marks = {QUIPU_STR(""), QUIPU_STR("<"), QUIPU_STR(">"), bytes};
        const char *text = snippet_of(w, "needle", 1, &marks);

        assert_non_null(strstr(text, "<needle>"));
        assert_true(strlen(text) <= (size_t)bytes + 2 + 2 * 3);
        assert_true(qp_utf8_valid(quipu_cstr(text)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        S_TEST(hits_come_best_first),
        S_TEST(equal_hits_come_by_key),
        S_TEST(more_hits_than_a_window_come_once_each),
        S_TEST(conditions_narrow_the_hits),
        S_TEST(rows_leave_the_index_before_they_go),
        S_TEST(a_difference_between_index_and_rows_is_reported),
        S_TEST(misuse_is_refused),
        S_TEST(an_index_that_the_engine_keeps_has_hits_too),
        S_TEST(snippets_mark_words_phrases_and_prefixes),
        S_TEST(a_snippet_shows_where_the_words_stand_together),
        S_TEST(a_snippet_is_bounded_in_bytes_and_splits_no_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
