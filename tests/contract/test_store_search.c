/* Search over messages: what is found, in which order, with which snippet, and never what is gone.
 * */
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "contract/store_t.h"
#include "store/search.h"

static quipu_search_results *search_with(quipu_store *store, const quipu_search_options *options)
{
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_search(store, options, NULL, &results, &err);

    if (status != QUIPU_OK) {
        fail_msg("search: %s (%s)", quipu_status_name(status), err.message);
    }
    return results;
}

static quipu_search_options ask(const char *query)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;

    options.query = quipu_cstr(query);
    return options;
}

/* The hits as "key:seq key:seq ", best first. */
static const char *found_with(quipu_store *store, const quipu_search_options *options)
{
    static char text[4096];
    quipu_search_results *results = search_with(store, options);
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < results->count; i++) {
        const quipu_search_hit *hit = &results->hits[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s:%lld ", (int)hit->session_key.n,
                              hit->session_key.p, (long long)hit->seq);
        assert_true(n < sizeof(text));
    }
    quipu_search_results_free(results);
    return text;
}

static const char *found(quipu_store *store, const char *query)
{
    quipu_search_options options = ask(query);

    return found_with(store, &options);
}

static quipu_store *open_mode(quipu_search_mode mode, char *ret_path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.search = mode;
    return st_open_new(&options, ret_path);
}

/* ---- finding ------------------------------------------------------------------------------------
 */

static void all_words_must_occur(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "the quick brown fox");
    st_append(store, "a", "a quick answer");
    assert_string_equal(found(store, "quick fox"), "a:1 ");
    assert_string_equal(found(store, "FOX Quick"), "a:1 ");
    assert_string_equal(found(store, "quick wolf"), "");
    assert_string_equal(found(store, "qui*  ans*"), "a:2 ");
    assert_string_equal(found(store, "\"brown fox\""), "a:1 ");
    assert_string_equal(found(store, "\"fox brown\""), "");
    assert_string_equal(found(store, ""), "");
}

static void accents_and_case_do_not_count(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a",
              "Caf\xc3\xa9 \xc3\x9c"
              "bung");
    assert_string_equal(found(store, "cafe UBUNG"), "a:1 ");
    assert_string_equal(found(store, "CAF\xc3\x89"), "a:1 ");
}

static void words_of_two_cjk_characters_are_found(void **state)
{
    quipu_store *store = *state;

    st_create(store, "zh");
    st_append(store, "zh", "我们昨天去了北京大学的图书馆。");
    st_create(store, "ja");
    st_append(store, "ja", "昨日、東京タワーへ行きました。");
    st_create(store, "ko");
    st_append(store, "ko", "어제 한국어를 공부했습니다.");
    assert_string_equal(found(store, "北京"), "zh:1 ");
    assert_string_equal(found(store, "大学"), "zh:1 ");
    assert_string_equal(found(store, "馆"), "zh:1 ");
    assert_string_equal(found(store, "東京"), "ja:1 ");
    assert_string_equal(found(store, "行き"), "ja:1 ");
    assert_string_equal(found(store, "タワー"), "ja:1 ");
    assert_string_equal(found(store, "한국"), "ko:1 ");
    assert_string_equal(found(store, "공부"), "ko:1 ");
    assert_string_equal(found(store, "京都"), "");
}

static void the_better_match_comes_first(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a",
              "a very long message that says index only once, among so many other words that it "
              "can hardly be what anybody wanted to find");
    st_append(store, "a", "index of the index");
    st_append(store, "a", "nothing to see");
    assert_string_equal(found(store, "index"), "a:2 a:1 ");
    quipu_search_options options = ask("index");
    quipu_search_results *results = search_with(store, &options);
    assert_true(results->hits[0].rank > results->hits[1].rank);
    quipu_search_results_free(results);
}

static void a_hit_tells_all_about_its_message(void **state)
{
    quipu_store *store = *state;
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "Here is the answer.");
    quipu_search_options options = ask("answer");
    quipu_error err = {0};

    message.author = QUIPU_STR("helper");
    message.has_timestamp = true;
    message.timestamp = (quipu_time){1700000000, 5};
    st_create(store, "a");
    T_OK(quipu_message_append(store, QUIPU_STR("a"), &message, 1, NULL, NULL, NULL, &err));
    quipu_search_results *results = search_with(store, &options);
    assert_int_equal(results->count, 1);
    T_STR(results->hits[0].session_key, "a");
    T_STR(results->hits[0].author, "helper");
    T_STR(results->hits[0].snippet, "Here is the [answer].");
    assert_int_equal(results->hits[0].seq, 1);
    assert_int_equal(results->hits[0].role, QUIPU_ROLE_ASSISTANT);
    assert_int_equal(quipu_time_cmp(results->hits[0].timestamp, message.timestamp), 0);
    assert_false(results->more);
    quipu_search_results_free(results);
    quipu_search_results_free(NULL);
}

static void snippets_mark_words_and_split_no_character(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("東京");
    char text[9000];
    size_t n = 0;

    for (int i = 0; i < 500; i++) {
        memcpy(text + n, "日本語", 9);
        n += 9;
    }
    memcpy(text + n, "東京", 6);
    n += 6;
    for (int i = 0; i < 400; i++) {
        memcpy(text + n, "文字列", 9);
        n += 9;
    }
    text[n] = '\0';
    st_create(store, "a");
    st_append(store, "a", text);
    options.mark_before = QUIPU_STR("<b>");
    options.mark_after = QUIPU_STR("</b>");
    quipu_search_results *results = search_with(store, &options);
    quipu_str snippet = results->hits[0].snippet;
    assert_true(qp_utf8_valid(snippet));
    assert_non_null(strstr(snippet.p, "語<b>東京</b>文"));
    assert_true(snippet.n <= QUIPU_SNIPPET_BYTES + 2 * 3 + 7);
    quipu_search_results_free(results);
}

/* ---- scope --------------------------------------------------------------------------------------
 */

static void says(quipu_store *store, const char *key, quipu_role role, const char *author,
                 int64_t second, const char *text)
{
    quipu_message message = st_says(role, text);
    quipu_error err = {0};

    message.author = quipu_cstr(author);
    message.has_timestamp = true;
    message.timestamp = (quipu_time){second, 0};
    T_OK(quipu_message_append(store, quipu_cstr(key), &message, 1, NULL, NULL, NULL, &err));
}

static void belongs(quipu_store *store, const char *key, const char *app, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static void a_search_is_scoped_by_every_filter(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options;

    belongs(store, "s1", "mail", "ann");
    belongs(store, "s2", "mail", "bob");
    belongs(store, "s3", "chat", "ann");
    says(store, "s1", QUIPU_ROLE_USER, "ann", 100, "hello one");
    says(store, "s1", QUIPU_ROLE_MODEL, "bot", 200, "hello two");
    says(store, "s2", QUIPU_ROLE_USER, "bob", 300, "hello six");
    says(store, "s3", QUIPU_ROLE_USER, "ann", 400, "hello ten");
    assert_string_equal(found(store, "hello"), "s1:1 s1:2 s2:1 s3:1 ");
    options = ask("hello");
    options.app_name = QUIPU_STR("mail");
    assert_string_equal(found_with(store, &options), "s1:1 s1:2 s2:1 ");
    options.user_id = QUIPU_STR("bob");
    assert_string_equal(found_with(store, &options), "s2:1 ");
    options = ask("hello");
    options.user_id = QUIPU_STR("ann");
    assert_string_equal(found_with(store, &options), "s1:1 s1:2 s3:1 ");
    options = ask("hello");
    options.session_key = QUIPU_STR("s1");
    assert_string_equal(found_with(store, &options), "s1:1 s1:2 ");
    options.app_name = QUIPU_STR("chat");
    assert_string_equal(found_with(store, &options), "");
    options = ask("hello");
    options.author = QUIPU_STR("ann");
    assert_string_equal(found_with(store, &options), "s1:1 s3:1 ");
    options.role = QUIPU_ROLE_MODEL;
    assert_string_equal(found_with(store, &options), "");
    options.author = QUIPU_STR("bot");
    assert_string_equal(found_with(store, &options), "s1:2 ");
    options = ask("hello");
    options.has_after = true;
    options.after = (quipu_time){200, 0};
    assert_string_equal(found_with(store, &options), "s1:2 s2:1 s3:1 ");
    options.has_before = true;
    options.before = (quipu_time){400, 0};
    assert_string_equal(found_with(store, &options), "s1:2 s2:1 ");
    options.has_after = false;
    options.session_key = QUIPU_STR("s1");
    assert_string_equal(found_with(store, &options), "s1:1 s1:2 ");
}

static void a_tenant_finds_its_own_messages_only(void **state)
{
    quipu_open_options other = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *mine = st_open_new(NULL, path);
    quipu_store *theirs = NULL;
    quipu_error err = {0};

    (void)state;
    other.tenant = QUIPU_STR("acme");
    T_OK(quipu_open(path, &other, &theirs, &err));
    st_create(mine, "a");
    st_append(mine, "a", "secret word");
    st_create(theirs, "b");
    st_append(theirs, "b", "secret plan");
    assert_string_equal(found(mine, "secret"), "a:1 ");
    assert_string_equal(found(theirs, "secret"), "b:1 ");
    quipu_close(theirs);
    quipu_close(mine);
}

static void pages_follow_each_other(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("same");
    quipu_search_results *results;
    int64_t next = 1;

    st_create(store, "a");
    for (int i = 0; i < 25; i++) {
        st_append(store, "a", "same text");
    }
    results = search_with(store, &options);
    assert_int_equal(results->count, QUIPU_SEARCH_LIMIT_DEFAULT);
    assert_true(results->more);
    quipu_search_results_free(results);
    options.limit = 10;
    for (options.offset = 0; options.offset < 30; options.offset += 10) {
        results = search_with(store, &options);
        assert_int_equal(results->count, options.offset == 20 ? 5 : 10);
        assert_int_equal(results->more, options.offset < 20);
        for (size_t i = 0; i < results->count; i++) {
            assert_int_equal(results->hits[i].seq, next++);
        }
        quipu_search_results_free(results);
    }
    options.session_key = QUIPU_STR("a");
    options.offset = 24;
    assert_string_equal(found_with(store, &options), "a:25 ");
}

static void limits_hold_at_the_maximum_and_one_past_it(void **state)
{
    quipu_store *store = *state;
    static char text[QUIPU_SEARCH_QUERY_MAX + 2];
    quipu_search_results *results = NULL;
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;

    st_create(store, "a");
    st_append(store, "a", "word");
    memset(text, 'x', sizeof(text) - 1);
    options.query = (quipu_str){text, QUIPU_SEARCH_QUERY_MAX};
    assert_string_equal(found_with(store, &options), "");
    options.query.n++;
    T_STATUS(quipu_search(store, &options, NULL, &results, NULL), QUIPU_LIMIT);
    options = ask("word");
    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    options.offset = QUIPU_SEARCH_OFFSET_MAX;
    assert_string_equal(found_with(store, &options), "");
    options.offset++;
    T_STATUS(quipu_search(store, &options, NULL, &results, NULL), QUIPU_LIMIT);
    options.offset = 0;
    assert_string_equal(found_with(store, &options), "a:1 ");
    options.limit++;
    T_STATUS(quipu_search(store, &options, NULL, &results, NULL), QUIPU_LIMIT);
    options.limit = 0;
    options.mark_before = (quipu_str){text, QUIPU_SEARCH_MARK_MAX};
    assert_string_equal(found_with(store, &options), "a:1 ");
    options.mark_before.n++;
    T_STATUS(quipu_search(store, &options, NULL, &results, NULL), QUIPU_INVALID);
    assert_null(results);
}

static void misuse_and_missing_sessions_are_told(void **state)
{
    quipu_store *store = *state;
    quipu_search_results *results = NULL;
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_error err = {0};

    T_STATUS(quipu_search(store, NULL, NULL, &results, &err), QUIPU_MISUSE);
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_MISUSE);
    options = ask("x");
    T_STATUS(quipu_search(store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_search(NULL, &options, NULL, &results, &err), QUIPU_MISUSE);
    options.limit = -1;
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_MISUSE);
    options = ask("x");
    options.session_key = QUIPU_STR("none");
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "no such session"));
}

/* ---- what a user may type -----------------------------------------------------------------------
 */

static void nothing_that_is_typed_is_an_error(void **state)
{
    static const char *const parts[] = {
        "\"", "*",  "(",  ")",    "AND ", "OR ", "NOT ", "NEAR(",    "^",        "-",  "+",
        ":",  "{",  "}",  "word", "词",   "\\",  "'",    ";",        "%",        "\n", "\xff",
        "\0", ".*", "\t", "--",   "/*",   "*/",  " ",    "content:", "\xe3\x80", "한"};
    quipu_store *store = *state;
    uint64_t seed = t_seed();
    const int64_t rounds = t_count(2000, 200000);

    st_create(store, "a");
    st_append(store, "a", "a word AND 词 content");
    for (int64_t i = 0; i < rounds; i++) {
        quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error err = {0};
        char text[256];
        size_t n = 0;

        if (i % 2 == 0) {
            n = (size_t)t_random_below(&seed, sizeof(text));
            for (size_t j = 0; j < n; j++) {
                text[j] = (char)t_random(&seed);
            }
        } else {
            for (uint64_t j = t_random_below(&seed, 20); j > 0; j--) {
                const char *part = parts[t_random_below(&seed, sizeof(parts) / sizeof(parts[0]))];
                size_t size = part[0] == '\0' ? 1 : strlen(part);
                memcpy(text + n, part, size);
                n += size;
            }
        }
        options.query = (quipu_str){text, n};
        if (quipu_search(store, &options, NULL, &results, &err) != QUIPU_OK) {
            fail_msg("round %lld: %s", (long long)i, err.message);
        }
        quipu_search_results_free(results);
    }
}

static void a_query_of_very_many_words_is_no_error(void **state)
{
    quipu_store *store = *state;
    char text[QUIPU_SEARCH_QUERY_MAX + 1];

    st_create(store, "a");
    st_append(store, "a", "a");
    for (size_t i = 0; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, "a ", 2);
    }
    text[QUIPU_SEARCH_QUERY_MAX] = '\0';
    assert_string_equal(found(store, text), "a:1 ");
    for (size_t i = 0; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, i % 4 == 0 ? "\"a" : "* ", 2);
    }
    (void)found(store, text);
}

/* ---- the index follows --------------------------------------------------------------------------
 */

static void every_query_sees_what_was_appended_before(void **state)
{
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        quipu_store *store = open_mode(modes[i], NULL);
        quipu_session_new values = st_values("b");
        const quipu_message history[] = {st_says(QUIPU_ROLE_USER, "first word"),
                                         st_says(QUIPU_ROLE_USER, "second word")};
        quipu_error err = {0};
        int64_t indexed = -1;

        st_create(store, "a");
        st_append(store, "a", "word one");
        assert_string_equal(found(store, "word"), "a:1 ");
        st_append(store, "a", "word two");
        assert_string_equal(found(store, "word"), "a:1 a:2 ");
        values.messages = history;
        values.message_count = 2;
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
        assert_string_equal(found(store, "word"), "a:1 a:2 b:1 b:2 ");
        st_append(store, "b", "third word");
        T_OK(quipu_search_index(store, NULL, &indexed, &err));
        assert_int_equal(indexed, modes[i] == QUIPU_SEARCH_LAZY ? 1 : 0);
        assert_string_equal(found(store, "third"), "b:3 ");
        T_OK(quipu_search_index(store, NULL, &indexed, &err));
        assert_int_equal(indexed, 0);
        quipu_close(store);
    }
}

static void a_store_without_search_leaves_the_work_to_others(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *off = open_mode(QUIPU_SEARCH_OFF, path);
    quipu_open_options inline_options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_store *other = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(off, "a");
    st_append(off, "a", "word one");
    T_STATUS(quipu_search(off, &options, NULL, &results, &err), QUIPU_UNSUPPORTED);
    T_STATUS(quipu_search_index(off, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    inline_options.search = QUIPU_SEARCH_INLINE;
    T_OK(quipu_open(path, &inline_options, &other, &err));
    st_append(other, "a", "word two");
    assert_string_equal(found(other, "word"), "a:1 a:2 ");
    st_append(off, "a", "word three");
    assert_string_equal(found(other, "word"), "a:1 a:2 a:3 ");
    T_OK(quipu_session_delete(off, QUIPU_STR("a"), NULL, &err));
    assert_string_equal(found(other, "word"), "");
    quipu_close(other);
    quipu_close(off);
}

static void indexing_changes_nothing_else_about_a_session(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "word");
    quipu_history *before = st_get(store, "a", NULL);
    assert_string_equal(found(store, "word"), "a:1 ");
    quipu_history *after = st_get(store, "a", NULL);
    assert_int_equal(quipu_time_cmp(before->session.updated_at, after->session.updated_at), 0);
    assert_int_equal(before->session.revision, after->session.revision);
    quipu_history_free(before);
    quipu_history_free(after);
}

static void step(quipu_store *store, qp_search_walk *walk)
{
    qp_call call;
    quipu_error err = {0};

    T_OK(qp_store_enter(store, NULL, &call, &err));
    T_OK(qp_search_step(store, &call, walk, &err));
}

static void append_batch(quipu_store *store, const char *key, size_t count, const char *text)
{
    quipu_message *messages = calloc(count, sizeof(*messages));
    quipu_error err = {0};

    assert_non_null(messages);
    for (size_t i = 0; i < count; i++) {
        messages[i] = st_says(QUIPU_ROLE_USER, text);
    }
    T_OK(quipu_message_append(store, quipu_cstr(key), messages, count, NULL, NULL, NULL, &err));
    free(messages);
}

static void a_transaction_indexes_a_bounded_number_of_messages(void **state)
{
    quipu_store *store = *state;
    qp_search_walk walk = {.last = INT64_MAX};

    st_create(store, "a");
    st_create(store, "b");
    append_batch(store, "a", QUIPU_INDEX_BATCH, "word");
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    assert_true(walk.ended);
    append_batch(store, "a", QUIPU_INDEX_BATCH + 1, "word");
    append_batch(store, "b", 3, "word");
    walk = (qp_search_walk){.last = INT64_MAX};
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    assert_false(walk.ended);
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH + 4);
    assert_true(walk.ended);
}

static void a_transaction_indexes_a_bounded_number_of_bytes(void **state)
{
    quipu_store *store = *state;
    const size_t size = QUIPU_INDEX_BATCH_BYTES;
    char *text = malloc(size + 2);
    qp_search_walk walk = {.last = INT64_MAX};

    assert_non_null(text);
    memset(text, 'x', size + 1);
    text[size / 2] = '\0';
    st_create(store, "a");
    st_append(store, "a", text);
    st_append(store, "a", text); /* exactly the maximum, together */
    st_append(store, "a", "y");
    step(store, &walk);
    assert_int_equal(walk.indexed, 2);
    step(store, &walk);
    assert_int_equal(walk.indexed, 3);
    text[size / 2] = 'x';
    text[size + 1] = '\0';
    st_append(store, "a", text); /* one past it: alone */
    st_append(store, "a", "y");
    walk = (qp_search_walk){.last = INT64_MAX};
    step(store, &walk);
    assert_int_equal(walk.indexed, 1);
    step(store, &walk);
    assert_int_equal(walk.indexed, 2);
    assert_true(walk.ended);
    free(text);
}

static void a_walk_ends_although_sessions_grow(void **state)
{
    quipu_store *store = *state;
    qp_search_walk walk = {.last = INT64_MAX};

    st_create(store, "a");
    append_batch(store, "a", 300, "word");
    for (int i = 0; i < 10 && !walk.ended; i++) {
        step(store, &walk);
        append_batch(store, "a", 300, "word");
    }
    assert_true(walk.ended);
    assert_true(walk.indexed >= 300 && walk.indexed <= 900);
    assert_string_equal(found(store, "word none"), "");
}

/* ---- what is gone -------------------------------------------------------------------------------
 */

static void deleted_text_is_never_found(void **state)
{
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        quipu_store *store = open_mode(modes[i % 2], NULL);
        quipu_error err = {0};

        st_create(store, "a");
        st_create(store, "b");
        st_append(store, "a", "common secret");
        st_append(store, "b", "common word");
        if (i < 2) {
            assert_string_equal(found(store, "common"), "a:1 b:1 ");
        }
        st_append(store, "a", "another secret"); /* not indexed yet in lazy mode */
        T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, &err));
        assert_string_equal(found(store, "secret"), "");
        assert_string_equal(found(store, "common"), "b:1 ");
        st_create(store, "a");
        st_append(store, "a", "new life");
        assert_string_equal(found(store, "secret"), "");
        assert_string_equal(found(store, "life"), "a:1 ");
        quipu_close(store);
    }
}

static void expired_sessions_are_not_found_and_swept_ones_are_gone(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("a");
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    int64_t removed = 0;

    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_create(store, "b");
    st_append(store, "b", "word");
    values = st_values("c");
    values.ttl_ms = 60000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append(store, "c", "word");
    assert_string_equal(found(store, "word"), "b:1 c:1 ");
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = 1;
    T_OK(quipu_session_update(store, QUIPU_STR("c"), &patch, NULL, NULL, &err));
    st_nap();
    assert_string_equal(found(store, "word"), "b:1 ");
    options.session_key = QUIPU_STR("c");
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_EXPIRED);
    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    assert_int_equal(removed, 2);
    assert_string_equal(found(store, "word"), "b:1 ");
}

static void capped_messages_leave_the_index(void **state)
{
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        open.search = (quipu_search_mode)mode;
        open.cap_messages = 3;
        quipu_store *store = st_open_new(&open, NULL);

        st_create(store, "a");
        st_append(store, "a", "word 1");
        st_append(store, "a", "word 2");
        assert_string_equal(found(store, "word"), "a:1 a:2 ");
        for (int i = 3; i <= 8; i++) {
            st_append(store, "a", "word more");
        }
        assert_string_equal(found(store, "word"), "a:6 a:7 a:8 ");
        quipu_close(store);
    }
}

static void a_rebuilt_index_finds_the_same(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "a");
    st_append(store, "a", "word one");
    st_append(store, "a", "word two");
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    T_OK(ent_begin(store->group.db, ENT_WRITE, &err));
    T_OK(qp_search_rebuild(store->group.db, &err));
    T_OK(ent_commit(store->group.db, &err));
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    st_append(store, "a", "word three");
    T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, &err));
    assert_string_equal(found(store, "word"), "");
    quipu_close(store);
}

static void check_index(quipu_store *store)
{
    quipu_error err = {0};
    quipu_status status;

    T_OK(quipu_search_index(store, NULL, NULL, &err));
    status = qp_message_index_check(store->group.db, &err);
    if (status != QUIPU_OK) {
        fail_msg("the index and the messages differ: %s", err.message);
    }
}

/* Whatever is done in whatever order, the index holds exactly the messages that there are. */
static void the_index_agrees_with_the_messages(void **state)
{
    uint64_t seed = t_seed();
    const int64_t rounds = t_count(400, 20000);

    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;
        open.search = (quipu_search_mode)mode;
        open.cap_messages = 12;
        open.durability = QUIPU_RELAXED;
        quipu_store *store = st_open_new(&open, NULL);

        for (int64_t i = 0; i < rounds; i++) {
            const quipu_message message = st_says(QUIPU_ROLE_USER, "some 文字 text");
            char key[16];
            char other[16];
            quipu_session_new values;

            snprintf(key, sizeof(key), "k%d", (int)t_random_below(&seed, 6));
            snprintf(other, sizeof(other), "k%d", (int)t_random_below(&seed, 6));
            switch (t_random_below(&seed, 10)) {
            case 0:
                (void)!quipu_session_delete(store, quipu_cstr(key), NULL, NULL);
                break;
            case 1:
                values = st_values(other);
                (void)!quipu_session_fork(store, quipu_cstr(key),
                                          (int64_t)t_random_below(&seed, 15), &values, NULL, NULL);
                break;
            case 2:
                (void)found(store, "text");
                break;
            case 3:
                values = st_values(key);
                values.messages = &message;
                values.message_count = 1;
                (void)!quipu_session_create(store, &values, NULL, NULL, NULL);
                break;
            default:
                (void)!quipu_message_append(store, quipu_cstr(key), &message, 1, NULL, NULL, NULL,
                                            NULL);
                break;
            }
            if (i % 50 == 49) {
                check_index(store);
            }
        }
        check_index(store);
        quipu_close(store);
    }
}

/* ---- forks --------------------------------------------------------------------------------------
 */

static void fork_at(quipu_store *store, const char *key, int64_t seq, const char *name)
{
    quipu_session_new values = st_values(name);
    quipu_error err = {0};

    T_OK(quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, &err));
}

static void inherited_messages_are_found_for_the_session_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("word");

    st_create(store, "p");
    st_append(store, "p", "word one");
    st_append(store, "p", "word two");
    st_append(store, "p", "word of the parent");
    fork_at(store, "p", 2, "f");
    st_append(store, "f", "word of the fork");
    fork_at(store, "f", 3, "g");
    st_append(store, "g", "word of the grandchild");
    options.session_key = QUIPU_STR("g");
    assert_string_equal(found_with(store, &options), "g:1 g:2 g:3 g:4 ");
    options.session_key = QUIPU_STR("p");
    assert_string_equal(found_with(store, &options), "p:1 p:2 p:3 ");
    options = ask("word");
    options.session_key = QUIPU_STR("g");
    options.limit = 2;
    options.offset = 1;
    assert_string_equal(found_with(store, &options), "g:2 g:3 ");
    assert_string_equal(found(store, "word"), "p:1 p:2 p:3 f:3 g:4 ");
}

static void inherited_and_own_messages_are_ranked_together(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("word");

    st_create(store, "p");
    st_append(store, "p", "one word among a lot of others that make this a poor match");
    fork_at(store, "p", 1, "f");
    st_append(store, "f", "word");
    options.session_key = QUIPU_STR("f");
    assert_string_equal(found_with(store, &options), "f:2 f:1 ");
}

static void what_a_cap_hides_is_found_through_a_fork(void **state)
{
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    open.cap_messages = 2;
    quipu_store *store = st_open_new(&open, NULL);
    st_create(store, "p");
    st_append(store, "p", "same word");
    st_append(store, "p", "same word");
    fork_at(store, "p", 2, "f");
    st_append(store, "p", "same word");
    st_append(store, "p", "same word");
    assert_string_equal(found(store, "word"), "f:1 f:2 p:3 p:4 ");
    quipu_close(store);
}

static void a_deleted_parents_messages_are_found_through_its_forks(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "p");
    st_append(store, "p", "word one");
    st_append(store, "p", "word two");
    st_append(store, "p", "word three");
    fork_at(store, "p", 1, "f");
    fork_at(store, "p", 2, "g");
    assert_string_equal(found(store, "word"), "p:1 p:2 p:3 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("p"), NULL, &err));
    assert_string_equal(found(store, "word"), "f:1 g:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("f"), NULL, &err));
    assert_string_equal(found(store, "word"), "g:1 g:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("g"), NULL, &err));
    assert_string_equal(found(store, "word"), "");
}

/* ---- others -------------------------------------------------------------------------------------
 */

static void messages_of_another_process_are_found(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "a");
    st_append(store, "a", "word of mine");
    assert_string_equal(found(store, "word"), "a:1 ");
    for (int i = 0; i < 2; i++) {
        int wait_status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            quipu_store *own = NULL;
            quipu_search_results *results = NULL;
            quipu_search_options options = ask("word");
            quipu_message message = st_says(QUIPU_ROLE_USER, "word of theirs");
            bool good = quipu_open(path, NULL, &own, NULL) == QUIPU_OK &&
                        quipu_message_append(own, QUIPU_STR("a"), &message, 1, NULL, NULL, NULL,
                                             NULL) == QUIPU_OK;
            if (good && i == 1) { /* this one does the indexing, too */
                good = quipu_search(own, &options, NULL, &results, NULL) == QUIPU_OK &&
                       results->count == 3;
                quipu_search_results_free(results);
            }
            quipu_close(own);
            _exit(good ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &wait_status, 0), child);
        assert_int_equal(wait_status, 0);
        assert_string_equal(found(store, "word"), i == 0 ? "a:1 a:2 " : "a:1 a:2 a:3 ");
    }
    quipu_close(store);
}

static void a_read_only_store_searches_what_is_indexed(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options read_only = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *reader = NULL;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_error err = {0};

    (void)state;
    read_only.flags = QUIPU_OPEN_READ_ONLY;
    st_create(store, "a");
    st_append(store, "a", "word");
    T_OK(quipu_open(path, &read_only, &reader, &err));
    T_STATUS(quipu_search(reader, &options, NULL, &results, &err), QUIPU_MISUSE);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    assert_string_equal(found(reader, "word"), "a:1 ");
    quipu_close(reader);
    quipu_close(store);
}

static void a_store_in_memory_is_searched_too(void **state)
{
    quipu_store *store = st_open(":memory:");

    (void)state;
    st_create(store, "a");
    st_append(store, "a", "word");
    assert_string_equal(found(store, "word"), "a:1 ");
    quipu_close(store);
}

static void a_cancelled_search_stops(void **state)
{
    quipu_store *store = *state;
    quipu_call call = QUIPU_CALL_INIT;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;

    call.cancel = quipu_cancel_new();
    quipu_cancel_set(call.cancel);
    T_STATUS(quipu_search(store, &options, &call, &results, NULL), QUIPU_CANCELLED);
    T_STATUS(quipu_search_index(store, &call, NULL, NULL), QUIPU_CANCELLED);
    quipu_cancel_free(call.cancel);
}

/* Every allocation of a search that has to catch up, failed once and from then on. */
static void starved(void *ctx)
{
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    quipu_status status;
    quipu_store *store;

    t_fault_pause(true);
    store = open_mode(*(quipu_search_mode *)ctx, NULL);
    st_create(store, "a");
    st_append(store, "a", "word one");
    st_append(store, "a", "word two");
    t_fault_pause(false);
    status = quipu_search(store, &options, NULL, &results, &err);
    t_fault_pause(true);
    if (status == QUIPU_OK) {
        assert_int_equal(results->count, 2);
    } else {
        assert_int_equal(status, QUIPU_NOMEM);
        assert_int_equal(err.status, QUIPU_NOMEM);
        assert_true(t_fault_fired() > 0);
        assert_null(results);
    }
    quipu_search_results_free(results);
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, &err));
    assert_string_equal(found(store, "word"), "");
    quipu_close(store);
    t_fault_pause(false);
}

static void a_search_without_memory_fails_whole(void **state)
{
    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        quipu_search_mode with = (quipu_search_mode)mode;
        t_fault_install();
        int64_t faults = t_fault_sweep(starved, &with);
        t_fault_remove();
        print_message("%lld faults\n", (long long)faults);
        assert_true(faults > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(all_words_must_occur),
        ST_TEST(accents_and_case_do_not_count),
        ST_TEST(words_of_two_cjk_characters_are_found),
        ST_TEST(the_better_match_comes_first),
        ST_TEST(a_hit_tells_all_about_its_message),
        ST_TEST(snippets_mark_words_and_split_no_character),
        ST_TEST(a_search_is_scoped_by_every_filter),
        cmocka_unit_test(a_tenant_finds_its_own_messages_only),
        ST_TEST(pages_follow_each_other),
        ST_TEST(limits_hold_at_the_maximum_and_one_past_it),
        ST_TEST(misuse_and_missing_sessions_are_told),
        ST_TEST(nothing_that_is_typed_is_an_error),
        ST_TEST(a_query_of_very_many_words_is_no_error),
        cmocka_unit_test(every_query_sees_what_was_appended_before),
        cmocka_unit_test(a_store_without_search_leaves_the_work_to_others),
        ST_TEST(indexing_changes_nothing_else_about_a_session),
        ST_TEST(a_transaction_indexes_a_bounded_number_of_messages),
        ST_TEST(a_transaction_indexes_a_bounded_number_of_bytes),
        ST_TEST(a_walk_ends_although_sessions_grow),
        cmocka_unit_test(deleted_text_is_never_found),
        ST_TEST(expired_sessions_are_not_found_and_swept_ones_are_gone),
        cmocka_unit_test(capped_messages_leave_the_index),
        cmocka_unit_test(a_rebuilt_index_finds_the_same),
        cmocka_unit_test(the_index_agrees_with_the_messages),
        ST_TEST(inherited_messages_are_found_for_the_session_asked_for),
        ST_TEST(inherited_and_own_messages_are_ranked_together),
        cmocka_unit_test(what_a_cap_hides_is_found_through_a_fork),
        ST_TEST(a_deleted_parents_messages_are_found_through_its_forks),
        cmocka_unit_test(messages_of_another_process_are_found),
        cmocka_unit_test(a_read_only_store_searches_what_is_indexed),
        cmocka_unit_test(a_store_in_memory_is_searched_too),
        ST_TEST(a_cancelled_search_stops),
        cmocka_unit_test(a_search_without_memory_fails_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
