/* Search in PostgreSQL finds what it finds in SQLite, in the same order, also in messages that are
 * larger than what the server's index can hold of one. */
#include "contract/search_t.h"
#include "lib/short.h"

#include "base/buf.h"
#include "ent_postgres/search.h"

/* The same store in both engines: session a of nobody, b and c of two users of an app, and d, a
 * fork of c for the user of b. */
typedef struct twins {
    quipu_store *server;
    quipu_store *file;
} twins;

static void twins_create(quipu_store *store)
{
    quipu_session_new b = st_values("b");
    quipu_session_new c = st_values("c");
    quipu_session_new d = st_values("d");
    quipu_error err = {0};

    st_create(store, "a");
    b.app_name = c.app_name = d.app_name = QUIPU_STR("app");
    b.user_id = d.user_id = QUIPU_STR("ann");
    c.user_id = QUIPU_STR("bob");
    T_OK(quipu_session_create(store, &b, NULL, NULL, &err));
    T_OK(quipu_session_create(store, &c, NULL, NULL, &err));
    st_append(store, "c", "red red green");
    st_append(store, "c", "a red thing that is longer, and green");
    T_OK(quipu_session_fork(store, QUIPU_STR("c"), 1, &d, NULL, NULL, &err));
}

static twins twins_open(void)
{
    char path[T_PATH_MAX];
    twins both = {.server = st_open_new(NULL, NULL)};
    quipu_error err = {0};

    t_path(t_tmpdir(), "twin.db", path);
    (void)remove(path);
    T_OK(quipu_open(path, NULL, &both.file, &err));
    twins_create(both.server);
    twins_create(both.file);
    return both;
}

static void twins_close(twins *both)
{
    quipu_close(both->server);
    quipu_close(both->file);
}

static void twins_append_to(twins *both, const char *key, const char *text)
{
    st_append(both->server, key, text);
    st_append(both->file, key, text);
}

static void twins_append(twins *both, const char *text)
{
    twins_append_to(both, "a", text);
}

/* Whether both find the same hits in the same order, with the same ranks and snippets. */
static void check_asked(twins *both, const quipu_search_options *options)
{
    quipu_search_results *server = search_with(both->server, options);
    quipu_search_results *file = search_with(both->file, options);

    if (server->hits.count != file->hits.count || server->more != file->more) {
        fail_msg("\"%.*s\" finds %zu, and %zu in SQLite", (int)options->query.n, options->query.p,
                 server->hits.count, file->hits.count);
    }
    for (size_t i = 0; i < file->hits.count; i++) {
        const quipu_search_hit *one = quipu_search_hit_at(server->hits, i);
        const quipu_search_hit *other = quipu_search_hit_at(file->hits, i);

        if (!quipu_str_eq(one->session_key, other->session_key) || one->seq != other->seq ||
            memcmp(&one->rank, &other->rank, sizeof(one->rank)) != 0 ||
            !quipu_str_eq(one->snippet, other->snippet)) {
            fail_msg("\"%.*s\", hit %zu: %.*s:%lld %.17g, and %.*s:%lld %.17g in SQLite",
                     (int)options->query.n, options->query.p, i, (int)one->session_key.n,
                     one->session_key.p, (long long)one->seq, one->rank, (int)other->session_key.n,
                     other->session_key.p, (long long)other->seq, other->rank);
        }
    }
    quipu_free(server);
    quipu_free(file);
}

/* Everywhere, for a user, and in a fork. */
static void check_same(twins *both, const char *query)
{
    quipu_search_options options = ask(query);

    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    check_asked(both, &options);
    options.app_name = QUIPU_STR("app");
    options.user_id = QUIPU_STR("ann");
    check_asked(both, &options);
    options.session_key = QUIPU_STR("d");
    check_asked(both, &options);
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
        const char *const keys[] = {"a", "b", "c", "d"};

        compose(&seed, false, text, sizeof(text));
        twins_append_to(&both, keys[t_random_below(&seed, 4)], text);
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
        const char *const keys[] = {"a", "b", "c", "d"};

        compose(&seed, false, text, sizeof(text));
        twins_append_to(&both, keys[t_random_below(&seed, 4)], text);
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

/* More hits than a window, in sessions of one user among those of another. */
static void windows_are_the_same_as_in_sqlite(void **state)
{
    twins both = twins_open();
    quipu_search_options options = ask("common OR rare");
    static quipu_message batch[QUIPU_SEARCH_WINDOW - 100];
    static char texts[QUIPU_SEARCH_WINDOW - 100][64];
    const size_t n = sizeof(batch) / sizeof(batch[0]);
    const char *const keys[] = {"b", "c", "d", "b", "d", "c"};
    uint64_t seed = t_seed();
    quipu_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t j = 0; j < n; j++) {
            (void)snprintf(texts[j], sizeof(texts[j]), "%s %s %s",
                           t_random_below(&seed, 20) == 0 ? "rare" : "common",
                           t_random_below(&seed, 3) == 0 ? "common" : "and",
                           t_random_below(&seed, 2) == 0 ? "more of it" : "");
            batch[j] = st_says(QUIPU_ROLE_USER, texts[j]);
        }
        T_OK(quipu_message_append(both.server, quipu_cstr(keys[i]), quipu_messages_of(batch, n),
                                  NULL, NULL, NULL, &err));
        T_OK(quipu_message_append(both.file, quipu_cstr(keys[i]), quipu_messages_of(batch, n), NULL,
                                  NULL, NULL, &err));
    }
    options.app_name = QUIPU_STR("app");
    options.user_id = QUIPU_STR("ann");
    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    for (; options.offset < 4 * QUIPU_SEARCH_LIMIT_MAX; options.offset += options.limit) {
        check_asked(&both, &options);
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
        T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err)); /* nothing is wrong with it */
        T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, NULL, NULL, &err));
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
        cmocka_unit_test(windows_are_the_same_as_in_sqlite),
        cmocka_unit_test(what_is_excluded_is_looked_for_in_the_whole_text),
        cmocka_unit_test(phrases_are_found_behind_the_last_place_of_an_index),
        cmocka_unit_test(a_page_is_full_though_some_rows_are_looked_at_in_vain),
        cmocka_unit_test(a_message_of_very_many_words_is_found_by_the_words_that_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
