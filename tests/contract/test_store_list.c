/* Pages of sessions: order, cursors, filters, limits. */
#include "contract/store_t.h"

#include "gen/quipu.h"
#include "store/last_change.h"

static quipu_session_page *list(quipu_store *store, const quipu_list_options *options)
{
    quipu_session_page *page = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_session_list(store, options, NULL, &page, &err);

    if (status != QUIPU_OK) {
        fail_msg("list: %s (%s)", quipu_status_name(status), err.message);
    }
    return page;
}

static quipu_list_options options_of(uint32_t flags, int64_t limit)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;

    options.flags = flags;
    options.limit = limit;
    return options;
}

/* The keys of all pages, separated by blanks. */
static void all_keys(quipu_store *store, quipu_list_options options, char ret[1024])
{
    char cursor[128];
    size_t n = 0;
    int pages = 0;

    ret[0] = '\0';
    for (;;) {
        quipu_session_page *page = list(store, &options);
        assert_true(page->sessions.count <= (size_t)(options.limit == 0 ? 50 : options.limit));
        for (size_t i = 0; i < page->sessions.count; i++) {
            n += (size_t)snprintf(ret + n, 1024 - n, "%s%.*s", n == 0 ? "" : " ",
                                  (int)quipu_session_info_at(page->sessions, i)->key.n,
                                  quipu_session_info_at(page->sessions, i)->key.p);
            assert_true(n < 1024);
        }
        if (page->next.p == NULL) {
            quipu_free(page);
            return;
        }
        assert_true(page->next.n < sizeof(cursor));
        memcpy(cursor, page->next.p, page->next.n);
        options.after = (quipu_str){cursor, page->next.n};
        quipu_free(page);
        assert_true(++pages < 100);
    }
}

static void sessions_come_by_their_last_change_in_pages_of_any_size(void **state)
{
    quipu_store *store = *state;
    char keys[1024];

    st_create(store, "a");
    st_create(store, "b");
    st_create(store, "c");
    st_create(store, "d");
    st_create(store, "e");
    st_append_many(store, "b", 1);
    for (int64_t limit = 0; limit <= 6; limit++) {
        all_keys(store, options_of(0, limit), keys);
        assert_string_equal(keys, "b e d c a");
        all_keys(store, options_of(QUIPU_LIST_OLDEST_FIRST, limit), keys);
        assert_string_equal(keys, "a c d e b");
    }
}

static void empty_store_has_an_empty_page(void **state)
{
    quipu_session_page *page = list(*state, NULL);

    assert_int_equal(page->sessions.count, 0);
    assert_null(page->next.p);
    quipu_free(page);
}

static void page_has_counts_and_tokens(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_session_page *page = list(store, NULL);
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(quipu_session_info_at(page->sessions, 0)->message_count, 3);
    assert_int_equal(quipu_session_info_at(page->sessions, 0)->token_count,
                     history->session->token_count);
    assert_true(quipu_session_info_at(page->sessions, 0)->token_count > 0);
    quipu_free(history);
    quipu_free(page);
}

static void page_that_ends_exactly_has_no_next(void **state)
{
    quipu_store *store = *state;
    quipu_list_options options = options_of(0, 2);

    st_create(store, "a");
    st_create(store, "b");
    quipu_session_page *page = list(store, &options);
    assert_int_equal(page->sessions.count, 2);
    assert_null(page->next.p);
    quipu_free(page);
}

static void make(quipu_store *store, const char *key, const char *app, const char *user,
                 const char *agent, const char *metadata)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    values.agent_id = quipu_cstr(agent);
    values.metadata.text = quipu_cstr(metadata);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static void filters_narrow_the_list(void **state)
{
    quipu_store *store = *state;
    quipu_list_options options = options_of(QUIPU_LIST_OLDEST_FIRST, 2);
    char keys[1024];

    make(store, "1", "shop", "ann", "x", "{\"lang\":\"de\",\"n\":1}");
    make(store, "2", "shop", "bob", "x", "{\"lang\":\"fr\"}");
    make(store, "3", "game", "ann", "y", "{\"l\\u0061ng\":\"d\\u0065\"}");
    make(store, "4", "game", "ann", "x", NULL);
    make(store, "5", NULL, NULL, NULL, "{\"lang\":7}");
    options.app_name = QUIPU_STR("shop");
    all_keys(store, options, keys);
    assert_string_equal(keys, "1 2");
    options.user_id = QUIPU_STR("ann");
    all_keys(store, options, keys);
    assert_string_equal(keys, "1");
    options = options_of(QUIPU_LIST_OLDEST_FIRST, 2);
    options.agent_id = QUIPU_STR("x");
    all_keys(store, options, keys);
    assert_string_equal(keys, "1 2 4");
    options = options_of(QUIPU_LIST_OLDEST_FIRST, 2);
    options.metadata_name = QUIPU_STR("lang");
    all_keys(store, options, keys);
    assert_string_equal(keys, "1 2 3 5");
    options.metadata_text = QUIPU_STR("de");
    all_keys(store, options, keys);
    assert_string_equal(keys, "1 3");
    options.app_name = QUIPU_STR(""); /* a plain session's app, not "any" */
    all_keys(store, options, keys);
    assert_string_equal(keys, "");
}

static void metadata_filter_walks_past_many_that_do_not_match(void **state)
{
    quipu_store *store = *state;
    quipu_list_options options = options_of(QUIPU_LIST_OLDEST_FIRST, 2);
    char keys[1024];

    for (int i = 0; i < 600; i++) {
        char key[32];
        snprintf(key, sizeof(key), "s%d", i);
        make(store, key, NULL, NULL, NULL, i % 200 == 199 ? "{\"pick\":true}" : "{}");
    }
    options.metadata_name = QUIPU_STR("pick");
    all_keys(store, options, keys);
    assert_string_equal(keys, "s199 s399 s599");
}

static void metadata_filter_gives_up_at_its_limit_and_goes_on_from_there(void **state)
{
    quipu_list_options options = options_of(QUIPU_LIST_OLDEST_FIRST, 2);
    quipu_store *store = st_open(":memory:");
    char keys[1024];

    (void)state;
    for (int i = 0; i < QUIPU_LIST_SCAN_MAX + 30; i++) {
        char key[32];
        snprintf(key, sizeof(key), "s%d", i);
        make(store, key, NULL, NULL, NULL, i >= QUIPU_LIST_SCAN_MAX ? "{\"pick\":1}" : "{}");
    }
    options.metadata_name = QUIPU_STR("pick");
    quipu_session_page *page = list(store, &options);
    assert_int_equal(page->sessions.count, 0);
    assert_non_null(page->next.p);
    quipu_free(page);
    options.limit = 100;
    all_keys(store, options, keys);
    assert_memory_equal(keys, "s10000 s10001", 13);
    quipu_close(store);
}

static void expired_sessions_are_left_out_unless_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("old");
    char keys[1024];
    quipu_error err = {0};

    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_create(store, "new");
    st_nap();
    all_keys(store, options_of(QUIPU_LIST_OLDEST_FIRST, 0), keys);
    assert_string_equal(keys, "new");
    all_keys(store, options_of(QUIPU_LIST_OLDEST_FIRST | QUIPU_LIST_EXPIRED, 0), keys);
    assert_string_equal(keys, "old new");
}

static void strange_cursors_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "2.0000000000000001000000000000000000000001",
                                      "1.0000000000000001000000000000000000000000",
                                      "1.000000000000000100000000000000000000000G",
                                      "1.00000000000000010000000000000000000000011",
                                      "1.7fffffffffffffff000000000000000000000001"};
    quipu_session_page *page = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        quipu_list_options options = options_of(0, 0);
        options.after = quipu_cstr(bad[i]);
        T_STATUS(quipu_session_list(*state, &options, NULL, &page, NULL), QUIPU_INVALID);
    }
    assert_null(page);
}

static void page_that_names_no_limit_has_the_default(void **state)
{
    quipu_store *store = *state;
    quipu_list_options options = options_of(0, 0);
    char key[32];

    for (int i = 0; i <= QUIPU_PAGE_DEFAULT; i++) {
        snprintf(key, sizeof(key), "s%d", i);
        st_create(store, key);
    }
    quipu_session_page *page = list(store, &options);
    assert_int_equal(page->sessions.count, QUIPU_PAGE_DEFAULT);
    assert_non_null(page->next.p);
    quipu_free(page);
}

static void page_limit_holds_at_its_edge(void **state)
{
    quipu_list_options options = options_of(0, QUIPU_PAGE_MAX);
    quipu_session_page *page = list(*state, &options);

    quipu_free(page);
    options.limit = QUIPU_PAGE_MAX + 1;
    T_STATUS(quipu_session_list(*state, &options, NULL, &page, NULL), QUIPU_LIMIT);
    options.limit = -1;
    T_STATUS(quipu_session_list(*state, &options, NULL, &page, NULL), QUIPU_MISUSE);
    options = options_of(0x40, 0);
    T_STATUS(quipu_session_list(*state, &options, NULL, &page, NULL), QUIPU_MISUSE);
    options = options_of(0, 0);
    options.metadata_text = QUIPU_STR("x");
    T_STATUS(quipu_session_list(*state, &options, NULL, &page, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_session_list(*state, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
}

/* ---- exact and rounded times ------------------------------------------------------------------
 */

#define TIMED 60                    /* sessions */
#define TIMED_S INT64_C(1700000040) /* the end of a minute */

/* Gives a session times as this program, an older one, or both one after the other leave them. The
 * numbers are few, so that many times are equal or end a minute. */
static void time_session(ent_db *db, uint64_t *random, const char *key)
{
    const uint64_t r = t_random(random);
    const quipu_time at = {TIMED_S + (int64_t)(r % 13) * 15, r / 13 % 3 == 0 ? 1 : 0};
    const quipu_time end = qp_last_change_round(at);
    qp_session_patch patch = {.updated_at = ent_set(at), .changed_at = ENT_CLEAR};
    quipu_error err = {0};

    switch (r / 64 % 4) {
    case 0: /* a busy session */
    case 1:
        patch.updated_at = ent_set(end);
        if (quipu_time_cmp(at, end) < 0) {
            patch.changed_at = ent_set(at);
        }
        break;
    case 2: /* busy once, then written to by a program that knows updated_at only */
        patch.updated_at = ent_set(((quipu_time){at.s, 2 + (uint32_t)(t_random(random) >> 40)}));
        patch.changed_at = ent_set(((quipu_time){TIMED_S - 600, 5}));
        break;
    default:
        break;
    }
    T_OK(qp_session_update(db, &(qp_session_where){.tenant = ent_eq(""), .key = ent_eq(key)},
                           &patch, NULL, &err));
}

static int timed_order(const void *a, const void *b)
{
    const qp_session *one = *(const qp_session *const *)a;
    const qp_session *two = *(const qp_session *const *)b;
    const int order = quipu_time_cmp(qp_last_change(one), qp_last_change(two));

    return order != 0 ? order : (one->id > two->id) - (one->id < two->id);
}

/* The keys of all sessions in the order of their last change, read without the list. */
static void timed_keys(ent_db *db, bool oldest_first, char ret[1024])
{
    const qp_session_query all = {.order = {QP_SESSION_BY_ID(ASC)}};
    const qp_session *rows[TIMED];
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list found = {0};
    size_t n = 0;

    T_OK(qp_session_find(db, &arena, &all, &found, NULL));
    assert_int_equal(found.n, TIMED);
    for (size_t i = 0; i < TIMED; i++) {
        rows[i] = &found.items[i];
    }
    qsort(rows, TIMED, sizeof(rows[0]), timed_order);
    for (size_t i = 0; i < TIMED; i++) {
        const qp_session *row = rows[oldest_first ? i : TIMED - 1 - i];
        n += (size_t)snprintf(ret + n, 1024 - n, "%s%.*s", n == 0 ? "" : " ", (int)row->key.n,
                              row->key.p);
    }
    quipu_arena_free(&arena);
}

static void a_list_has_the_exact_order_of_rounded_times(void **state)
{
    T_NOT_SERVED("it looks at the file");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    uint64_t random = t_seed();
    ent_db *db;

    (void)state;
    for (int i = 0; i < TIMED; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
    }
    db = et_connect(path, 1000);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < TIMED; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            time_session(db, &random, key);
        }
        for (unsigned flags = 0; flags <= QUIPU_LIST_OLDEST_FIRST;
             flags += QUIPU_LIST_OLDEST_FIRST) {
            char expected[1024];

            timed_keys(db, flags != 0, expected);
            for (int64_t limit = 1; limit <= TIMED + 1; limit = limit * 2 + 1) {
                char keys[1024];

                all_keys(store, options_of(flags, limit), keys);
                assert_string_equal(keys, expected);
            }
        }
    }
    ent_close(db);
    quipu_close(store);
}

static void a_busy_session_shows_when_it_changed_and_moves_its_index_entry_rarely(void **state)
{
    T_NOT_SERVED("it looks at the file");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    ent_db *db = NULL;
    int moves = 0;
    quipu_time last = {0, 0};
    quipu_time indexed = {0, 0};

    (void)state;
    st_create(store, "k");
    db = et_connect(path, 1000);
    for (int i = 0; i < 20; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT;
        const qp_session *row = NULL;
        quipu_history *history;

        (void)st_append(store, "k", "x");
        history = st_get(store, "k", NULL);
        assert_true(quipu_time_cmp(history->session->updated_at, last) >= 0);
        assert_true(quipu_time_cmp(history->session->updated_at, quipu_time_now()) <= 0);
        last = history->session->updated_at;
        quipu_free(history);
        T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR("k"), &row, NULL));
        moves += quipu_time_cmp(row->updated_at, indexed) != 0;
        indexed = row->updated_at;
        quipu_arena_free(&arena);
    }
    assert_true(moves <= 2); /* a minute may end meanwhile */
    ent_close(db);
    quipu_close(store);
}

static void times_are_rounded_to_the_end_of_their_minute(void **state)
{
    const quipu_time last = {INT64_C(253402300799), 999999999};

    (void)state;
    assert_int_equal(qp_last_change_round((quipu_time){60, 0}).s, 60);
    assert_int_equal(qp_last_change_round((quipu_time){60, 1}).s, 120);
    assert_int_equal(qp_last_change_round((quipu_time){119, 0}).s, 120);
    assert_int_equal(qp_last_change_round((quipu_time){-61, 0}).s, -60);
    assert_int_equal(qp_last_change_round((quipu_time){-60, 1}).s, 0);
    assert_int_equal(quipu_time_cmp(qp_last_change_round(last), last), 0); /* the calendar ends */
}

/* Of any row, rounded or exact, and any time: what is written reads as the time of the change. */
static void a_change_is_read_back_at_the_edges_of_its_minute(void **state)
{
    static const quipu_time times[] = {{59, 999999999},  {60, 0},  {60, 1},  {61, 0},
                                       {119, 999999999}, {120, 0}, {120, 1}, {181, 0},
                                       {-60, 0},         {-1, 1}};
    const size_t n = sizeof(times) / sizeof(times[0]);

    (void)state;
    for (size_t i = 0; i < n * n * 2; i++) {
        const quipu_time before = times[i / 2 / n];
        const quipu_time now = times[i / 2 % n];
        qp_session row = {.updated_at = before};
        qp_session_patch patch = {.turn_seq = {0}};

        if (i % 2 == 1) { /* as another change left it */
            row.updated_at = qp_last_change_round(before);
            row.changed_at = ent_some(before);
        }
        qp_last_change_set(&row, now, &patch);
        if (patch.updated_at.op == ENT_OP_SET) {
            row.updated_at = patch.updated_at.v;
        }
        row.changed_at.has = patch.changed_at.op == ENT_OP_SET ||
                             (patch.changed_at.op != ENT_OP_CLEAR && row.changed_at.has);
        row.changed_at.v =
            patch.changed_at.op == ENT_OP_SET ? patch.changed_at.v : row.changed_at.v;
        assert_int_equal(quipu_time_cmp(qp_last_change(&row), now), 0);
        assert_int_equal(quipu_time_cmp(row.updated_at, qp_last_change_round(now)), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(sessions_come_by_their_last_change_in_pages_of_any_size),
        ST_TEST(empty_store_has_an_empty_page),
        ST_TEST(page_has_counts_and_tokens),
        ST_TEST(page_that_ends_exactly_has_no_next),
        ST_TEST(filters_narrow_the_list),
        ST_TEST(metadata_filter_walks_past_many_that_do_not_match),
        cmocka_unit_test(metadata_filter_gives_up_at_its_limit_and_goes_on_from_there),
        ST_TEST(expired_sessions_are_left_out_unless_asked_for),
        ST_TEST(strange_cursors_are_refused),
        ST_TEST(page_that_names_no_limit_has_the_default),
        ST_TEST(page_limit_holds_at_its_edge),
        cmocka_unit_test(a_list_has_the_exact_order_of_rounded_times),
        cmocka_unit_test(a_busy_session_shows_when_it_changed_and_moves_its_index_entry_rarely),
        cmocka_unit_test(times_are_rounded_to_the_end_of_their_minute),
        cmocka_unit_test(a_change_is_read_back_at_the_edges_of_its_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
