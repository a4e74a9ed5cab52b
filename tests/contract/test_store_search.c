/* Search over messages: what is found, in which order, with which snippet, and for whom. */
#include "contract/search_t.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"

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

/* Korean, Japanese and Russian text, composed and decomposed. */
#define KO_C "\xed\x95\x9c\xea\xb5\xad" /* hanguk */
#define KO_D "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\xe1\x84\x80\xe1\x85\xae\xe1\x86\xa8"
#define KO_HA "\xed\x95\x98" /* the syllable ha, with which the letters of han begin */
#define JA_C "\xe3\x81\x8c\xe3\x81\xa3\xe3\x81\x93\xe3\x81\x86" /* gakkou */
#define JA_D "\xe3\x81\x8b\xe3\x82\x99\xe3\x81\xa3\xe3\x81\x93\xe3\x81\x86"
#define JA_KA "\xe3\x81\x8b"
#define RU_C "\xd0\xbc\xd0\xbe\xd0\xb9" /* moj */
#define RU_D "\xd0\xbc\xd0\xbe\xd0\xb8\xcc\x86"
#define RU_OTHER "\xd0\xbc\xd0\xbe\xd0\xb8" /* moi */

static int by_place(const void *left, const void *right)
{
    return memcmp(left, right, sizeof("c:1"));
}

/* The hits in the order of their places: ranks of the engines differ. */
static char *composed(quipu_store *store, const char *query)
{
    static char text[4096]; /* as found() has */

    snprintf(text, sizeof(text), "%s", found(store, query));
    qsort(text, strlen(text) / sizeof("c:1"), sizeof("c:1"), by_place);
    return text;
}

static void how_a_text_was_composed_does_not_count(void **state)
{
    quipu_store *store = *state;

    st_create(store, "c");
    st_append(store, "c", "one " KO_C " day");
    st_append(store, "c", "two " JA_C " days");
    st_append(store, "c", "three " RU_C " days");
    st_create(store, "d");
    st_append(store, "d", "one " KO_D " day");
    st_append(store, "d", "two " JA_D " days");
    st_append(store, "d", "three " RU_D " days");
    assert_string_equal(composed(store, KO_C), "c:1 d:1 ");
    assert_string_equal(composed(store, KO_D), "c:1 d:1 ");
    assert_string_equal(composed(store, "\"one " KO_C "\""), "c:1 d:1 ");
    assert_string_equal(composed(store, "two " JA_C "*"), "c:2 d:2 ");
    assert_string_equal(composed(store, JA_D " NOT " KO_C), "c:2 d:2 ");
    assert_string_equal(composed(store, KO_C " OR " RU_D), "c:1 c:3 d:1 d:3 ");
    assert_string_equal(composed(store, RU_C), "c:3 d:3 ");
    assert_string_equal(composed(store, "day NOT " KO_C), "");
    /* Parts of what a character decomposes to are other characters. */
    assert_string_equal(composed(store, KO_HA), "");
    assert_string_equal(composed(store, JA_KA), "");
    assert_string_equal(composed(store, RU_OTHER), "");
    assert_string_equal(composed(store, "day NOT " KO_HA), "c:1 d:1 ");
}

static void a_snippet_is_composed(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask(KO_C);
    quipu_search_results *results = NULL;

    st_create(store, "d");
    st_append(store, "d", "one " KO_D " day");
    results = search_with(store, &options);
    assert_int_equal(results->hits.count, 1);
    T_STR(quipu_search_hit_at(results->hits, 0)->snippet, "one [" KO_C "] day");
    quipu_free(results);
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
    assert_true(quipu_search_hit_at(results->hits, 0)->rank >
                quipu_search_hit_at(results->hits, 1)->rank);
    quipu_free(results);
}

/* Of hits that have one word each, those of the rarer word come first, however short the others
 * are; a hit that has both comes before all. */
static void a_rarer_word_counts_more(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "tea");
    st_append(store, "a", "tea again");
    st_append(store, "a", "a cup of coffee, please, if there is any left in the kitchen");
    st_append(store, "a", "more tea");
    st_append(store, "a", "no coffee today, but tea, as every day in this house");
    assert_string_equal(found(store, "tea OR coffee"), "a:5 a:3 a:1 a:2 a:4 ");
}

/* The hits of a user, in order, with their ranks. */
static void ranks_of(quipu_store *store, const quipu_search_options *options, char ret[1024])
{
    quipu_search_results *results = search_with(store, options);
    size_t n = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_search_hit *hit = quipu_search_hit_at(results->hits, i);

        n += (size_t)snprintf(ret + n, 1024 - n, "%lld %a ", (long long)hit->seq, hit->rank);
        assert_true(n < 1024);
    }
    quipu_free(results);
}

static void belongs(quipu_store *store, const char *key, const char *app, const char *user);

/* What one user finds, its order and its ranks, before and after another wrote the same words. */
static void ranks_say_nothing_of_what_others_write(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("coffee OR tea");
    char before[2][1024];
    char after[1024];

    belongs(store, "ann", "app", "ann");
    belongs(store, "bob", "app", "bob");
    st_append(store, "ann", "coffee");
    st_append(store, "ann", "tea tea, and more of it");
    st_append(store, "ann", "tea with coffee");
    options.app_name = QUIPU_STR("app");
    options.user_id = QUIPU_STR("ann");
    ranks_of(store, &options, before[0]);
    options.session_key = QUIPU_STR("ann");
    ranks_of(store, &options, before[1]);
    assert_string_equal(before[0], before[1]);
    for (int i = 0; i < 50; i++) {
        st_append(store, "bob", i % 10 == 0 ? "tea and a long story of how it was made" : "coffee");
    }
    ranks_of(store, &options, after);
    assert_string_equal(after, before[0]);
    options.session_key = (quipu_str){NULL, 0};
    ranks_of(store, &options, after);
    assert_string_equal(after, before[0]);
}

/* The same for tenants of one store: one with a name has no other scope to ask for. */
static void ranks_say_nothing_of_other_tenants(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_open_options named = QUIPU_OPEN_OPTIONS_INIT;
    quipu_search_options options = ask("coffee OR tea");
    char path[T_PATH_MAX];
    quipu_store *theirs = st_open_new(NULL, path);
    quipu_store *mine = NULL;
    quipu_error err = {0};
    char before[1024];
    char after[1024];

    (void)state;
    named.tenant = QUIPU_STR("acme");
    T_OK(quipu_open(path, &named, &mine, &err));
    st_create(mine, "a");
    st_append(mine, "a", "coffee");
    st_append(mine, "a", "tea tea");
    st_append(mine, "a", "tea with coffee");
    ranks_of(mine, &options, before);
    st_create(theirs, "b");
    for (int i = 0; i < 20; i++) {
        st_append(theirs, "b", "coffee, and a long story of how it was made");
    }
    ranks_of(mine, &options, after);
    assert_string_equal(after, before);
    quipu_close(mine);
    quipu_close(theirs);
}

/* The 16th word of a query still ranks, the 17th only finds. */
static void the_first_words_of_a_query_rank(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "w15 and two more words");
    st_append(store, "a", "w16");
    st_append(store, "a", "w17");
    assert_string_equal(found(store, "w1 OR w2 OR w3 OR w4 OR w5 OR w6 OR w7 OR w8 OR w9 OR w10 OR "
                                     "w11 OR w12 OR w13 OR w14 OR w15 OR w16 OR w17"),
                        "a:2 a:1 a:3 ");
}

static void a_hit_describes_its_message(void **state)
{
    quipu_store *store = *state;
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "Here is the answer.");
    quipu_search_options options = ask("answer");
    quipu_error err = {0};

    message.author = QUIPU_STR("helper");
    message.has_timestamp = true;
    message.timestamp = (quipu_time){1700000000, 5};
    st_create(store, "a");
    T_OK(quipu_message_append(store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
    quipu_search_results *results = search_with(store, &options);
    assert_int_equal(results->hits.count, 1);
    T_STR(quipu_search_hit_at(results->hits, 0)->session_key, "a");
    T_STR(quipu_search_hit_at(results->hits, 0)->author, "helper");
    T_STR(quipu_search_hit_at(results->hits, 0)->snippet, "Here is the [answer].");
    assert_int_equal(quipu_search_hit_at(results->hits, 0)->seq, 1);
    assert_int_equal(quipu_search_hit_at(results->hits, 0)->role, QUIPU_ROLE_ASSISTANT);
    assert_int_equal(
        quipu_time_cmp(quipu_search_hit_at(results->hits, 0)->timestamp, message.timestamp), 0);
    assert_false(results->more);
    quipu_free(results);
    quipu_free(NULL);
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
    quipu_str snippet = quipu_search_hit_at(results->hits, 0)->snippet;
    assert_true(qp_utf8_valid(snippet));
    assert_non_null(strstr(snippet.p, "語<b>東京</b>文"));
    assert_true(snippet.n <= QUIPU_SNIPPET_BYTES + 2 * 3 + 7);
    quipu_free(results);
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
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

static void belongs(quipu_store *store, const char *key, const char *app, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* ---- one user's hits among everybody's --------------------------------------------------------
 */

#define CROWD (QUIPU_SEARCH_WINDOW + 76) /* hits of a session that fill more than a window */

/* Appends `count` messages, each with "common" and its own number. */
static void chatters(quipu_store *store, const char *key, int count)
{
    static char texts[CROWD][64];
    static quipu_message messages[CROWD];
    quipu_error err = {0};

    assert_true(count <= CROWD);
    for (int i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "common word n%d", i + 1);
        messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
    }
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, (size_t)count),
                              NULL, NULL, NULL, &err));
}

/* Turns all pages of a search: each hit of the sessions that begin with `prefix` comes once, and
 * nothing else does. Returns how many there are; *ret_first is "key:seq" of the first. */
static size_t pages(quipu_store *store, quipu_search_options *options, const char *prefix,
                    char ret_first[64])
{
    static bool seen[16][2 * CROWD];
    bool more = true;
    size_t count = 0;

    memset(seen, 0, sizeof(seen));
    options->limit = QUIPU_SEARCH_LIMIT_MAX;
    options->offset = 0;
    while (more) {
        quipu_search_results *results = search_with(store, options);

        for (size_t i = 0; i < results->hits.count; i++) {
            const quipu_search_hit *hit = quipu_search_hit_at(results->hits, i);
            const size_t session = (size_t)(hit->session_key.p[hit->session_key.n - 1] - '0');

            assert_memory_equal(hit->session_key.p, prefix, strlen(prefix));
            assert_true(session < 16 && hit->seq < 2 * CROWD);
            assert_false(seen[session][hit->seq]);
            seen[session][hit->seq] = true;
            if (count++ == 0) {
                (void)snprintf(ret_first, 64, "%.*s:%lld", (int)hit->session_key.n,
                               hit->session_key.p, (long long)hit->seq);
            }
        }
        more = results->more;
        options->offset += options->limit;
        quipu_free(results);
    }
    return count;
}

static void one_users_hits_among_everybodys_come_once_and_whole(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("common");
    char first[64];

    belongs(store, "ann 0", "mail", "ann");
    chatters(store, "ann 0", CROWD);
    belongs(store, "bob 0", "mail", "bob");
    chatters(store, "bob 0", CROWD);
    belongs(store, "ann 1", "mail", "ann");
    chatters(store, "ann 1", 30);
    belongs(store, "bob 1", "mail", "bob");
    chatters(store, "bob 1", CROWD);
    belongs(store, "ann 2", "chat", "ann");
    chatters(store, "ann 2", 5);
    options.app_name = QUIPU_STR("mail");
    options.user_id = QUIPU_STR("ann");
    assert_int_equal(pages(store, &options, "ann ", first), CROWD + 30);
    options.user_id = QUIPU_STR("bob");
    assert_int_equal(pages(store, &options, "bob ", first), 2 * CROWD);
    assert_memory_equal(first, "bob 1:", 6); /* the newest window first */
    options.user_id = QUIPU_STR("cid");
    options.offset = 0;
    assert_string_equal(found_with(store, &options), "");
    options = ask("common n30");
    options.app_name = QUIPU_STR("mail");
    options.user_id = QUIPU_STR("ann");
    assert_string_equal(found_with(store, &options), "ann 0:30 ann 1:30 ");
}

static void a_fork_shows_its_user_what_another_users_session_holds(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("common");
    quipu_session_new values = st_values("ann 1");
    quipu_error err = {0};
    char first[64];

    belongs(store, "bob 0", "mail", "bob");
    chatters(store, "bob 0", CROWD);
    belongs(store, "ann 0", "mail", "ann");
    chatters(store, "ann 0", 4);
    values.app_name = QUIPU_STR("mail");
    values.user_id = QUIPU_STR("ann");
    T_OK(quipu_session_fork(store, QUIPU_STR("bob 0"), CROWD - 1, &values, NULL, NULL, &err));
    chatters(store, "ann 1", 3);
    options.app_name = QUIPU_STR("mail");
    options.user_id = QUIPU_STR("ann");
    T_OK(quipu_session_delete(store, QUIPU_STR("bob 0"), NULL, NULL, NULL, &err)); /* hidden now */
    assert_int_equal(pages(store, &options, "ann ", first), 4 + CROWD - 1 + 3);
}

/* SEARCH_FIND_SESSIONS_MAX sessions are asked one by one, more are not: the same hits. */
static void an_app_of_many_sessions_is_searched_as_one_of_few(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("common");
    quipu_search_results *results;
    char key[32];

    belongs(store, "bob 0", "chat", "bob");
    chatters(store, "bob 0", CROWD);
    for (int i = 0; i < 1024; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i);
        belongs(store, key, "mail", "ann");
        if (i % 100 == 0) {
            chatters(store, key, 1);
        }
    }
    options.app_name = QUIPU_STR("mail");
    options.limit = 100;
    results = search_with(store, &options);
    assert_int_equal(results->hits.count, 11);
    assert_false(results->more);
    quipu_free(results);
    belongs(store, "one more", "mail", "ann");
    results = search_with(store, &options);
    assert_int_equal(results->hits.count, 11);
    assert_false(results->more);
    quipu_free(results);
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

/* More messages have the word than a window holds, in two sessions that one fork shows. Pages
 * overlap nowhere, and equal texts have equal ranks in every session and window. */
static void a_fork_ranks_what_it_shares_like_its_own(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("same");
    quipu_session_new fork = st_values("fork");
    enum { BATCH = 1000, BATCHES = 9, OWN = 50 };
    static quipu_message batch[BATCH];
    static bool seen[BATCH * BATCHES + OWN + 1];
    quipu_error err = {0};
    double rank = 0;
    bool more = true;

    st_create(store, "root");
    for (int i = 0; i < BATCH; i++) {
        batch[i] = st_says(QUIPU_ROLE_USER, "the same text");
    }
    for (int i = 0; i < BATCHES; i++) {
        T_OK(quipu_message_append(store, QUIPU_STR("root"), quipu_messages_of(batch, BATCH), NULL,
                                  NULL, NULL, &err));
    }
    T_OK(quipu_session_fork(store, QUIPU_STR("root"), (int64_t)BATCH * BATCHES, &fork, NULL, NULL,
                            &err));
    T_OK(quipu_message_append(store, QUIPU_STR("fork"), quipu_messages_of(batch, OWN), NULL, NULL,
                              NULL, &err));
    options.session_key = QUIPU_STR("fork");
    options.limit = QUIPU_SEARCH_LIMIT_MAX;
    memset(seen, 0, sizeof(seen));
    for (; more; options.offset += options.limit) {
        quipu_search_results *results = search_with(store, &options);

        for (size_t i = 0; i < results->hits.count; i++) {
            const quipu_search_hit *hit = quipu_search_hit_at(results->hits, i);

            rank = options.offset == 0 && i == 0 ? hit->rank : rank;
            assert_true(hit->rank == rank);
            assert_false(seen[hit->seq]);
            seen[hit->seq] = true;
        }
        more = results->more;
        quipu_free(results);
    }
    for (int64_t seq = 1; seq <= BATCH * BATCHES + OWN; seq++) {
        assert_true(seen[seq]);
    }
}

/* However many better hits belong to others. */
static void hits_behind_many_that_are_not_shown_are_found(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("same");
    enum { OTHERS = 1500 };
    static quipu_message others[OTHERS];
    quipu_error err = {0};

    belongs(store, "theirs", "other", "bob");
    belongs(store, "mine", "mail", "ann");
    for (int i = 0; i < OTHERS; i++) {
        others[i] = st_says(QUIPU_ROLE_USER, "same same");
    }
    T_OK(quipu_message_append(store, QUIPU_STR("theirs"), quipu_messages_of(others, OTHERS), NULL,
                              NULL, NULL, &err));
    st_append(store, "mine", "the same word, in a longer text");
    options.app_name = QUIPU_STR("mail");
    options.limit = 1;
    assert_string_equal(found_with(store, &options), "mine:1 ");
    options.limit = 0;
    assert_string_equal(found_with(store, &options), "mine:1 ");
    options.query = QUIPU_STR("\"same word\"");
    assert_string_equal(found_with(store, &options), "mine:1 ");
    options.offset = 1;
    assert_string_equal(found_with(store, &options), "");
}

static void a_tenant_finds_its_own_messages_only(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
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
    assert_int_equal(results->hits.count, QUIPU_SEARCH_LIMIT_DEFAULT);
    assert_true(results->more);
    quipu_free(results);
    options.limit = 10;
    for (options.offset = 0; options.offset < 30; options.offset += 10) {
        results = search_with(store, &options);
        assert_int_equal(results->hits.count, options.offset == 20 ? 5 : 10);
        assert_int_equal(results->more, options.offset < 20);
        for (size_t i = 0; i < results->hits.count; i++) {
            assert_int_equal(quipu_search_hit_at(results->hits, i)->seq, next++);
        }
        quipu_free(results);
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

static void misuse_and_missing_sessions_are_reported(void **state)
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
    T_NOT_SERVED("a server takes texts that are UTF-8");
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
        quipu_free(results);
    }
}

static void a_query_of_very_many_words_is_no_error(void **state)
{
    T_NOT_SERVED("a server takes less at once");
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
            quipu_message message = st_says(QUIPU_ROLE_USER, "word of others");
            bool good = quipu_open(path, NULL, &own, NULL) == QUIPU_OK &&
                        quipu_message_append(own, QUIPU_STR("a"), quipu_messages_of(&message, 1),
                                             NULL, NULL, NULL, NULL) == QUIPU_OK;
            if (good && i == 1) { /* this one does the indexing, too */
                good = quipu_search(own, &options, NULL, &results, NULL) == QUIPU_OK &&
                       results->hits.count == 3;
                quipu_free(results);
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
    T_NOT_SERVED("a server searches and indexes by itself");
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
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;

    call.cancel = quipu_cancel_new();
    quipu_cancel_set(call.cancel);
    T_STATUS(quipu_search(store, &options, &call, &results, NULL), QUIPU_CANCELLED);
    T_STATUS(quipu_search_index(store, &call, NULL, NULL), QUIPU_CANCELLED);
    quipu_free(call.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(all_words_must_occur),
        ST_TEST(accents_and_case_do_not_count),
        ST_TEST(words_of_two_cjk_characters_are_found),
        ST_TEST(how_a_text_was_composed_does_not_count),
        ST_TEST(a_snippet_is_composed),
        ST_TEST(the_better_match_comes_first),
        ST_TEST(a_rarer_word_counts_more),
        ST_TEST(ranks_say_nothing_of_what_others_write),
        cmocka_unit_test(ranks_say_nothing_of_other_tenants),
        ST_TEST(the_first_words_of_a_query_rank),
        ST_TEST(a_hit_describes_its_message),
        ST_TEST(snippets_mark_words_and_split_no_character),
        ST_TEST(one_users_hits_among_everybodys_come_once_and_whole),
        ST_TEST(a_fork_shows_its_user_what_another_users_session_holds),
        ST_TEST(an_app_of_many_sessions_is_searched_as_one_of_few),
        ST_TEST(a_search_is_scoped_by_every_filter),
        ST_TEST(a_fork_ranks_what_it_shares_like_its_own),
        ST_TEST(hits_behind_many_that_are_not_shown_are_found),
        cmocka_unit_test(a_tenant_finds_its_own_messages_only),
        ST_TEST(pages_follow_each_other),
        ST_TEST(limits_hold_at_the_maximum_and_one_past_it),
        ST_TEST(misuse_and_missing_sessions_are_reported),
        ST_TEST(nothing_that_is_typed_is_an_error),
        ST_TEST(a_query_of_very_many_words_is_no_error),
        cmocka_unit_test(messages_of_another_process_are_found),
        cmocka_unit_test(a_read_only_store_searches_what_is_indexed),
        cmocka_unit_test(a_store_in_memory_is_searched_too),
        ST_TEST(a_cancelled_search_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
