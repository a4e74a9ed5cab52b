/* Search in PostgreSQL finds what it finds in SQLite, also in messages that are larger than what
 * the server's index can hold of one. */
#include "contract/search_t.h"

#include "base/buf.h"
#include "ent_postgres/search.h"

/* The same store in both engines. */
typedef struct twins {
    quipu_store *server;
    quipu_store *file;
} twins;

static twins twins_open(void)
{
    char path[T_PATH_MAX];
    twins both = {.server = st_open_new(NULL, NULL)};
    quipu_error err = {0};

    t_path(t_tmpdir(), "twin.db", path);
    (void)remove(path);
    T_OK(quipu_open(path, NULL, &both.file, &err));
    st_create(both.server, "a");
    st_create(both.file, "a");
    return both;
}

static void twins_close(twins *both)
{
    quipu_close(both->server);
    quipu_close(both->file);
}

static void twins_append(twins *both, const char *text)
{
    st_append(both->server, "a", text);
    st_append(both->file, "a", text);
}

static int by_number(const void *left, const void *right)
{
    const int64_t l = *(const int64_t *)left;
    const int64_t r = *(const int64_t *)right;

    return (l > r) - (l < r);
}

/* The numbers of the messages that a query finds, and their snippets, in the order of the former.
 */
static size_t numbers(quipu_store *store, const char *query, int64_t ret[QUIPU_SEARCH_LIMIT_MAX],
                      qp_buf *snippets)
{
    quipu_search_options options = ask(query);
    quipu_search_results *results;
    size_t n;

    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    results = search_with(store, &options);
    n = results->hits.count;
    for (size_t i = 0; i < n; i++) {
        ret[i] = quipu_search_hit_at(results->hits, i)->seq;
    }
    qsort(ret, n, sizeof(*ret), by_number);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (quipu_search_hit_at(results->hits, j)->seq == ret[i]) {
                qp_buf_put(snippets, quipu_search_hit_at(results->hits, j)->snippet);
                qp_buf_putc(snippets, '\n');
            }
        }
    }
    quipu_free(results);
    return n;
}

static void check_same(twins *both, const char *query)
{
    static int64_t server[QUIPU_SEARCH_LIMIT_MAX];
    static int64_t file[QUIPU_SEARCH_LIMIT_MAX];
    qp_buf server_text;
    qp_buf file_text;

    qp_buf_init(&server_text, 64 << 20);
    qp_buf_init(&file_text, 64 << 20);
    size_t n = numbers(both->server, query, server, &server_text);
    size_t expected = numbers(both->file, query, file, &file_text);
    if (n != expected || memcmp(server, file, n * sizeof(*file)) != 0) {
        fail_msg("\"%s\" finds %zu, and %zu in SQLite", query, n, expected);
    }
    assert_string_equal(qp_buf_str(&server_text).p, qp_buf_str(&file_text).p);
    qp_buf_free(&server_text);
    qp_buf_free(&file_text);
}

static const char *const parts[] = {"red",
                                    "Red,",
                                    "green",
                                    "gre",
                                    "caf\xc3\xa9",
                                    "CAFE",
                                    "\xe5\x8c\x97",
                                    "\xe4\xba\xac",
                                    "\xe5\x8c\x97\xe4\xba\xac",
                                    "it's",
                                    "x_y",
                                    "42",
                                    "-",
                                    "'",
                                    "\\",
                                    "\xed\x95\x9c",
                                    "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
                                    "\xe3\x81\x8c",
                                    "\xe3\x81\x8b\xe3\x82\x99",
                                    "\xe3\x81\x8b",
                                    "\xd0\xbc\xd0\xbe\xd0\xb8\xcc\x86",
                                    "\xd0\xbc\xd0\xbe\xd0\xb9",
                                    "e\xcc\x81",
                                    "\n",
                                    "...",
                                    "\xd0\x9c\xd0\xb8\xd1\x80"};
static const char *const joints[] = {" ", " ", " ", "", "\"", "*", " \"", "\" "};

static const char *const operators[] = {" OR ", " NOT ", " AND ", " "};

static void compose(uint64_t *seed, bool query, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint64_t i = t_random_below(seed, query ? 5 : 12); i > 0; i--) {
        n += (size_t)snprintf(text + n, size - n, "%s%s",
                              parts[t_random_below(seed, sizeof(parts) / sizeof(parts[0]))],
                              joints[t_random_below(seed, query ? 8 : 4)]);
    }
}

static void every_query_finds_what_it_finds_in_sqlite(void **state)
{
    uint64_t seed = t_seed();
    twins both = twins_open();
    char text[512];

    (void)state;
    for (int i = 0; i < 150; i++) {
        compose(&seed, false, text, sizeof(text));
        twins_append(&both, text);
    }
    for (int64_t i = t_count(400, 20000); i > 0; i--) {
        compose(&seed, true, text, sizeof(text));
        check_same(&both, text);
    }
    twins_close(&both);
}

static void every_query_with_operators_finds_what_it_finds_in_sqlite(void **state)
{
    uint64_t seed = t_seed();
    twins both = twins_open();
    char text[2048];

    (void)state;
    for (int i = 0; i < 150; i++) {
        compose(&seed, false, text, sizeof(text));
        twins_append(&both, text);
    }
    for (int64_t i = t_count(400, 20000); i > 0; i--) {
        size_t n = 0;

        for (uint64_t j = 1 + t_random_below(&seed, 4); j > 0; j--) {
            compose(&seed, true, text + n, sizeof(text) - n);
            n += strlen(text + n);
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s",
                                  operators[t_random_below(&seed, 4)]);
        }
        check_same(&both, text);
    }
    twins_close(&both);
}

/* Words up to behind the last place that an index has. */
static void fill_places(qp_buf *text)
{
    qp_buf_init(text, 64 << 20);
    for (int i = 0; i < QP_PG_POSITION_MAX + 100; i++) {
        qp_buf_printf(text, "w%d ", i % 5000);
    }
}

/* Whether a message lacks a word, an index that holds it in part cannot say. */
static void what_is_excluded_is_looked_for_in_the_whole_text(void **state)
{
    twins both = twins_open();
    qp_buf text;

    (void)state;
    fill_places(&text);
    qp_buf_puts(&text, "alpha beta gamma");
    twins_append(&both, qp_buf_str(&text).p);
    twins_append(&both, "alpha gamma beta");
    check_same(&both, "alpha NOT \"alpha beta\"");
    check_same(&both, "alpha NOT \"beta alpha\"");
    check_same(&both, "alpha NOT gamma OR \"w4999 w0\"");
    assert_string_equal(found(both.server, "alpha NOT \"alpha beta\""), "a:2 ");
    qp_buf_free(&text);
    twins_close(&both);
}

static void phrases_are_found_behind_the_last_place_of_an_index(void **state)
{
    twins both = twins_open();
    qp_buf text;

    (void)state;
    fill_places(&text);
    qp_buf_puts(&text, "alpha beta gamma \xe5\x8c\x97\xe4\xba\xac");
    twins_append(&both, qp_buf_str(&text).p);
    qp_buf_reset(&text);
    for (int i = 0; i < 2 * QP_PG_WORD_POSITIONS_MAX; i++) {
        qp_buf_puts(&text, "beta ");
    }
    qp_buf_puts(&text, "delta alpha beta");
    twins_append(&both, qp_buf_str(&text).p);
    twins_append(&both, "alpha beta");
    check_same(&both, "\"alpha beta\"");
    check_same(&both, "\"beta alpha\"");
    check_same(&both, "\"beta delta alpha\" alpha");
    check_same(&both, "\"alpha bet\"*");
    check_same(&both, "\xe5\x8c\x97\xe4\xba\xac");
    check_same(&both, "\xe4\xba\xac\xe5\x8c\x97");
    check_same(&both, "\"w4999 w0\"");
    check_same(&both, "beta alpha");
    assert_string_equal(found(both.server, "\"beta gamma\""), "a:1 ");
    qp_buf_free(&text);
    twins_close(&both);
}

/* Rows that only may have the phrase take no place of a page. */
static void a_page_is_full_though_some_rows_are_looked_at_in_vain(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_search_options options = ask("\"alpha beta\"");
    qp_buf text;

    (void)state;
    st_create(store, "a");
    qp_buf_init(&text, 1 << 20);
    for (int i = 0; i < 3; i++) {
        st_append(store, "a", "beta alpha");
        st_append(store, "a", "alpha or beta");
    }
    for (int i = 0; i <= QP_PG_WORD_POSITIONS_MAX; i++) {
        qp_buf_puts(&text, "alpha ");
    }
    qp_buf_puts(&text, "and beta");
    for (int i = 0; i < 3; i++) {
        st_append(store, "a", qp_buf_str(&text).p);
    }
    st_append(store, "a", "alpha beta");
    st_append(store, "a", "an alpha beta");
    options.limit = 1;
    options.session_key = QUIPU_STR("a");
    assert_string_equal(found_with(store, &options), "a:10 ");
    options.limit = 2;
    assert_string_equal(found_with(store, &options), "a:10 a:11 ");
    qp_buf_free(&text);
    quipu_close(store);
}

/* More different words than a tsvector can hold: all fits into the store, and what fits into the
 * index is found. */
static void a_message_of_very_many_words_is_found_by_the_words_that_fit(void **state)
{
    const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        quipu_store *store = open_mode(modes[i], NULL);
        quipu_error err = {0};
        qp_buf text;

        qp_buf_init(&text, 64 << 20);
        for (int j = 0; j < 300000; j++) {
            qp_buf_printf(&text, "w%07d ", j);
        }
        st_create(store, "a");
        assert_int_equal(st_append(store, "a", qp_buf_str(&text).p), 1);
        assert_int_equal(st_append(store, "a", "a small one"), 2);
        assert_string_equal(found(store, "w0000000"), "a:1 ");
        assert_string_equal(found(store, "w0090000 w0000007"), "a:1 ");
        assert_string_equal(found(store, "w0299999"), "");
        assert_string_equal(found(store, "small"), "a:2 ");
        T_OK(quipu_store_verify(store, QUIPU_VERIFY_REPAIR, NULL, NULL, NULL, NULL,
                                &err)); /* nothing is wrong with it */
        T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, &err));
        assert_string_equal(found(store, "w0000000"), "");
        qp_buf_free(&text);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_finds_what_it_finds_in_sqlite),
        cmocka_unit_test(every_query_with_operators_finds_what_it_finds_in_sqlite),
        cmocka_unit_test(what_is_excluded_is_looked_for_in_the_whole_text),
        cmocka_unit_test(phrases_are_found_behind_the_last_place_of_an_index),
        cmocka_unit_test(a_page_is_full_though_some_rows_are_looked_at_in_vain),
        cmocka_unit_test(a_message_of_very_many_words_is_found_by_the_words_that_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
