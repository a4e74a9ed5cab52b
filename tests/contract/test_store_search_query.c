/* Operators and filters in the text of a search, on every engine. */
#include "contract/search_t.h"

#include "base/str.h"
#include "store/search_query.h"

/* ---- asking -------------------------------------------------------------------------------------
 */

static int query_by_number(const void *left, const void *right)
{
    return *(const char *)left - *(const char *)right;
}

/* The numbers of the hits in ascending order, which no ranking changes: "135". At most nine. */
static const char *numbers(quipu_store *store, const char *query)
{
    static char digits[10];
    const quipu_search_options options = ask(query);
    quipu_search_results *results = search_with(store, &options);

    assert_true(results->hits.count < sizeof(digits));
    for (size_t i = 0; i < results->hits.count; i++) {
        digits[i] = (char)('0' + quipu_search_hit_at(results->hits, i)->seq);
    }
    digits[results->hits.count] = '\0';
    qsort(digits, results->hits.count, 1, query_by_number);
    quipu_free(results);
    return digits;
}

static const char *snippet(quipu_store *store, const char *query)
{
    static char text[512];
    const quipu_search_options options = ask(query);
    quipu_search_results *results = search_with(store, &options);

    assert_true(results->hits.count > 0);
    const quipu_str shown = quipu_search_hit_at(results->hits, 0)->snippet;
    (void)snprintf(text, sizeof(text), "%.*s", (int)shown.n, shown.p);
    quipu_free(results);
    return text;
}

/* The message of the error that a query is. */
static const char *refusal(quipu_store *store, const char *query, quipu_status expected)
{
    static quipu_error err;
    const quipu_search_options options = ask(query);
    quipu_search_results *results = NULL;

    err = (quipu_error){0};
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), expected);
    assert_null(results);
    return err.message;
}

static void says(quipu_store *store, quipu_role role, const char *author, const char *day,
                 const char *text)
{
    quipu_message message = st_says(role, text);
    quipu_error err = {0};

    message.author = quipu_cstr(author);
    message.has_timestamp = true;
    T_OK(quipu_time_parse(quipu_cstr(day), &message.timestamp));
    T_OK(quipu_message_append(store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

static void fill(quipu_store *store)
{
    st_create(store, "a");
    says(store, QUIPU_ROLE_USER, "ana", "2026-03-01 09:00:00", "the red train to Cusco");
    says(store, QUIPU_ROLE_ASSISTANT, "helper", "2026-03-01 09:01:00", "the blue bus to Lima");
    says(store, QUIPU_ROLE_TOOL, "lookup", "2026-03-02 10:00:00", "red bus, cancelled");
    says(store, QUIPU_ROLE_USER, "Ana Maria", "2026-03-03 00:00:00", "a blue train or nothing");
    says(store, QUIPU_ROLE_USER, "ana", "2026-03-04 00:00:00", "我们去了北京大学, red");
}

/* ---- operators ----------------------------------------------------------------------------------
 */

static void or_asks_for_one_side(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "train OR bus"), "1234");
    assert_string_equal(numbers(store, "red train OR blue bus"), "12");
    assert_string_equal(numbers(store, "\"red train\" OR lim*"), "12");
    assert_string_equal(numbers(store, "cusco OR lima OR 北京"), "125");
    assert_string_equal(numbers(store, "wolf OR cusco"), "1");
    assert_string_equal(numbers(store, "wolf OR bear"), "");
}

static void not_leaves_messages_out(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "red NOT bus"), "15");
    assert_string_equal(numbers(store, "NOT bus red"), "15");
    assert_string_equal(numbers(store, "red NOT bus NOT 大学"), "1");
    assert_string_equal(numbers(store, "red NOT \"red train\""), "35");
    assert_string_equal(numbers(store, "red NOT \"train red\""), "135");
    assert_string_equal(numbers(store, "red NOT ca*"), "15");
    assert_string_equal(numbers(store, "train NOT red OR bus NOT cancelled"), "24");
    assert_string_equal(numbers(store, "red NOT red"), "");
    assert_string_equal(numbers(store, "NOT red"), ""); /* everything else is no list of hits */
    assert_string_equal(numbers(store, "NOT red OR lima"), "2");
}

static void and_is_what_words_side_by_side_mean(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "red AND train"), "1");
    assert_string_equal(numbers(store, "red AND NOT bus"), "15");
    assert_string_equal(numbers(store, "red AND train OR blue AND bus"), "12");
}

static void operators_are_capitals_without_quotes(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "train or nothing"), "4");
    assert_string_equal(numbers(store, "train \"OR\" nothing"), "4");
    assert_string_equal(numbers(store, "red not bus"), "");
    assert_string_equal(numbers(store, "OR*"), "4");
}

static void an_operator_with_nothing_to_join_is_passed_over(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "OR lima OR"), "2");
    assert_string_equal(numbers(store, "lima OR OR cusco"), "12");
    assert_string_equal(numbers(store, "lima NOT"), "2");
    assert_string_equal(numbers(store, "lima NOT NOT blue"), "");
    assert_string_equal(numbers(store, "AND lima AND"), "2");
    assert_string_equal(numbers(store, "lima NOT !!!"), "2");
    assert_string_equal(numbers(store, "!!! OR lima"), "2");
    assert_string_equal(numbers(store, "!!! NOT lima"), "");
    assert_string_equal(numbers(store, "OR NOT AND"), "");
}

static void snippets_mark_what_is_wanted(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(snippet(store, "wolf OR cusco"), "the red train to [Cusco]");
    assert_string_equal(snippet(store, "cusco NOT \"blue train\""), "the red train to [Cusco]");
    assert_string_equal(snippet(store, "wolf bus OR red bus NOT lima"), "[red] [bus], cancelled");
}

static void very_many_operators_are_no_error(void **state)
{
    static const char *const joints[] = {" OR ", " NOT ", " AND "};
    quipu_store *store = *state;
    char text[QUIPU_SEARCH_QUERY_MAX + 1];

    fill(store);
    for (size_t i = 0; i < sizeof(joints) / sizeof(joints[0]); i++) {
        size_t n = (size_t)snprintf(text, sizeof(text), "lima");

        while (n + 8 < sizeof(text)) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%c", joints[i],
                                  (char)('b' + n % 20));
        }
        assert_string_equal(numbers(store, text), i == 2 ? "" : "2");
    }
}

/* ---- filters ------------------------------------------------------------------------------------
 */

static void filters_narrow_the_hits(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_string_equal(numbers(store, "red author:ana"), "15");
    assert_string_equal(numbers(store, "author:\"Ana Maria\" train"), "4");
    assert_string_equal(numbers(store, "train author:Ana"), "");
    assert_string_equal(numbers(store, "bus role:assistant"), "2");
    assert_string_equal(numbers(store, "role:tool red OR x"), "3");
    assert_string_equal(numbers(store, "train OR bus OR red after:2026-03-02"), "345");
    assert_string_equal(numbers(store, "train OR bus before:2026-03-02"), "12");
    assert_string_equal(numbers(store, "train OR bus after:2026-03-01T09:01:00Z "
                                       "before:2026-03-02T10:00:00Z"),
                        "2");
    assert_string_equal(numbers(store, "red NOT role:tool"), "15");
    assert_string_equal(numbers(store, "red NOT role:tool AND NOT author:ana"), "");
    assert_string_equal(numbers(store, "train NOT author:ana"), "4");
}

static void filters_of_the_options_hold_as_well(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("red role:user before:2026-03-04");

    fill(store);
    assert_string_equal(found_with(store, &options), "a:1 ");
    options.role = QUIPU_ROLE_TOOL;
    assert_string_equal(found_with(store, &options), "");
    options = ask("red OR blue role:user");
    options.session_key = QUIPU_STR("a");
    options.has_before = true;
    T_OK(quipu_time_parse(QUIPU_STR("2026-03-02T00:00:00Z"), &options.before));
    assert_string_equal(found_with(store, &options), "a:1 ");
}

static void words_that_only_look_like_filters_are_words(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "note:this is the author: ana, role:king");
    assert_string_equal(numbers(store, "note:this"), "1");
    assert_string_equal(numbers(store, "\"role:king\""), "1");
    assert_string_equal(numbers(store, "\"author: ana\""), "1");
    assert_string_equal(numbers(store, "Role:king"), "1");
}

static void a_wrong_filter_is_named(void **state)
{
    quipu_store *store = *state;

    fill(store);
    assert_non_null(strstr(refusal(store, "red role:king", QUIPU_INVALID), "role:king: "));
    assert_non_null(strstr(refusal(store, "red role:king", QUIPU_INVALID), "user, assistant"));
    assert_non_null(strstr(refusal(store, "red role:", QUIPU_INVALID), "role:: "));
    assert_non_null(strstr(refusal(store, "author: ana", QUIPU_INVALID), "author:: "));
    assert_non_null(strstr(refusal(store, "author:\"\" ana", QUIPU_INVALID), "author:\"\": "));
    assert_non_null(strstr(refusal(store, "x after:yesterday", QUIPU_INVALID), "after:yesterday"));
    assert_non_null(strstr(refusal(store, "x after:2026", QUIPU_INVALID), "2026-03-01"));
    assert_non_null(strstr(refusal(store, "x before:2026-13-01", QUIPU_INVALID), "before:2026-13"));
    assert_non_null(strstr(refusal(store, "x NOT after:2026-03-01", QUIPU_INVALID), "before:"));
    assert_non_null(strstr(refusal(store, "x OR role:user", QUIPU_INVALID), "follow OR"));
    assert_non_null(strstr(refusal(store, "role:user OR x", QUIPU_INVALID), "OR cannot follow"));
    assert_non_null(strstr(refusal(store, "role:user", QUIPU_INVALID), "needs a word"));
    assert_non_null(strstr(refusal(store, "NOT red role:user", QUIPU_INVALID), "needs a word"));
}

static void a_long_filter_is_cut_in_its_error(void **state)
{
    T_NOT_SERVED("a server takes less at once");
    quipu_store *store = *state;
    char text[QUIPU_SEARCH_QUERY_MAX + 1];

    fill(store);
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "x role:", 7);
    for (size_t i = 8; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa9", 2);
    }
    text[sizeof(text) - 1] = '\0';
    assert_true(qp_utf8_valid(quipu_cstr(refusal(store, text, QUIPU_INVALID))));
    assert_non_null(strstr(refusal(store, text, QUIPU_INVALID), "user, assistant"));
}

static void filters_have_a_limit(void **state)
{
    quipu_store *store = *state;
    char text[QUIPU_SEARCH_QUERY_MAX];
    size_t n = (size_t)snprintf(text, sizeof(text), "red");

    fill(store);
    for (int i = 0; i < QP_SEARCH_FILTERS_MAX; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              i % 2 == 0 ? " role:user" : " NOT author:x");
    }
    assert_string_equal(numbers(store, text), "15");
    (void)snprintf(text + n, sizeof(text) - n, " role:user");
    assert_non_null(strstr(refusal(store, text, QUIPU_LIMIT), "16 filters"));
}

/* Whatever is typed gives hits, or an error that names a filter. */
static void every_text_is_a_query_or_names_its_filter(void **state)
{
    T_NOT_SERVED("a server takes texts that are UTF-8");
    static const char *const parts[] = {
        "red",    " OR ",    " NOT ", " AND ", "author:",    "role:", "user",         " ", "\"",
        "after:", "before:", "*",     "\xff",  "2026-03-01", " ",     "\xe5\x8c\x97", "(", " bus "};
    quipu_store *store = *state;
    uint64_t seed = t_seed();

    fill(store);
    for (int64_t i = t_count(2000, 100000); i > 0; i--) {
        quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error err = {0};
        char text[256];
        size_t n = 0;

        for (uint64_t j = t_random_below(&seed, 16); j > 0; j--) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s",
                                  parts[t_random_below(&seed, sizeof(parts) / sizeof(parts[0]))]);
        }
        options.query = (quipu_str){text, n};
        const quipu_status status = quipu_search(store, &options, NULL, &results, &err);
        if (status != QUIPU_OK && (status != QUIPU_INVALID || strchr(err.message, ':') == NULL)) {
            fail_msg("\"%.*s\": %s (%s)", (int)n, text, quipu_status_name(status), err.message);
        }
        quipu_free(results);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(or_asks_for_one_side),
        ST_TEST(not_leaves_messages_out),
        ST_TEST(and_is_what_words_side_by_side_mean),
        ST_TEST(operators_are_capitals_without_quotes),
        ST_TEST(an_operator_with_nothing_to_join_is_passed_over),
        ST_TEST(snippets_mark_what_is_wanted),
        ST_TEST(very_many_operators_are_no_error),
        ST_TEST(filters_narrow_the_hits),
        ST_TEST(filters_of_the_options_hold_as_well),
        ST_TEST(words_that_only_look_like_filters_are_words),
        ST_TEST(a_wrong_filter_is_named),
        ST_TEST(a_long_filter_is_cut_in_its_error),
        ST_TEST(filters_have_a_limit),
        ST_TEST(every_text_is_a_query_or_names_its_filter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
