/* Recall: which messages a question finds, in which order, in which scope, and what it refuses.
 * A second store, in a file, is the reference: every engine returns the same hits. */
#include "contract/history_t.h"
#include "contract/recall_t.h"

#include "base/buf.h"

/* ---- finding ------------------------------------------------------------------------------------
 */

static void a_question_finds_a_message_that_shares_some_of_its_words(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "we talked about the weather");
    for (int i = 0; i < 6; i++) {
        st_append(store, "a", i % 2 == 0 ? "nothing much" : "as always");
    }
    st_append(store, "a", "I redeemed a coupon at Target for coffee creamer");
    assert_string_equal(recalled(store, recall_session("a", "Where did I redeem that $5 coupon?")),
                        "a:8 a:7 a:6 ");
    assert_string_equal(recalled(store, recall_session("a", "Where is the zebra?")), "");
}

static void forms_of_a_word_find_each_other(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "The ponies were running happily");
    assert_string_equal(recalled(store, recall_everything("pony")), "a:1 ");
    assert_string_equal(recalled(store, recall_everything("run")), "a:1 ");
    assert_string_equal(recalled(store, recall_everything("HAPPY?")), "");
    assert_string_equal(recalled(store, recall_everything("happily")), "a:1 ");
}

static void composed_and_decomposed_spellings_are_the_same(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a",
              "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\xe1\x84\x80\xe1\x85\xb3\xe1\x86\xaf");
    st_append(store, "a", "カ\xe3\x82\x99ラス");
    st_append(store, "a", "Cafe\xcc\x81");
    assert_int_equal(strncmp(recalled(store, recall_everything("한글")), "a:1 ", 4), 0);
    assert_int_equal(strncmp(recalled(store, recall_everything("ガラス")), "a:2 ", 4), 0);
    assert_int_equal(strncmp(recalled(store, recall_everything("café")), "a:3 ", 4), 0);
}

static void chinese_is_compared_by_pairs_of_characters(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_create(store, "b");
    st_append(store, "a", "我们昨天去了北京大学的图书馆。");
    st_append(store, "b", "京城的北边下雨。");
    assert_string_equal(recalled(store, recall_everything("谁去了北京?")), "a:1 ");
    assert_string_equal(recalled(store, recall_everything("雨")), "b:1 ");
}

static void a_question_of_stop_words_is_asked_with_them(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_create(store, "b");
    st_append(store, "a", "to be or not to be");
    st_append(store, "b", "whether it rains");
    assert_string_equal(recalled(store, recall_everything("to be")), "a:1 ");
    assert_string_equal(recalled(store, recall_everything("it")), "b:1 ");
}

static void rare_words_count_more_than_common_ones(void **state)
{
    quipu_store *store = *state;
    char key[16];

    for (int i = 0; i < 9; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(store, key);
        st_append(store, key, i == 4 ? "the train ticket to Cusco" : "a ticket, a ticket");
        st_append(store, key, key);
    }
    assert_int_equal(
        strncmp(recalled(store, recall_everything("which ticket to Cusco?")), "k4:1 ", 5), 0);
}

static void the_author_that_a_question_names_comes_first(void **state)
{
    quipu_store *store = *state;

    recall_create(store, "a", "app", "u");
    recall_create(store, "b", "app", "u");
    recall_say(store, "a", "melanie", "2023-05-08T10:00:00Z", "I painted a sunrise");
    recall_say(store, "b", "caroline", "2023-05-08T10:00:00Z", "I painted a sunset");
    assert_string_equal(recalled(store, recall_user("app", "u", "What did Caroline paint?")),
                        "b:1 a:1 ");
    assert_string_equal(recalled(store, recall_user("app", "u", "What did Melanie paint?")),
                        "a:1 b:1 ");
}

static void a_day_that_a_question_names_counts(void **state)
{
    static const char *const questions[] = {"What about the meeting in July?",
                                            "the meeting on 9 July 2023", "the meeting on July 9th",
                                            "the meeting of 2023-07-09", "the meeting of Jul 9"};
    quipu_store *store = *state;

    recall_create(store, "a", "app", "u");
    recall_create(store, "b", "app", "u");
    recall_create(store, "c", "app", "u");
    recall_say(store, "a", "x", "2023-05-08T10:00:00Z", "the meeting went well");
    recall_say(store, "b", "x", "2023-07-09T23:59:59Z", "our meeting was long");
    recall_say(store, "c", "x", "2022-03-08T10:00:00Z", "the meeting is over");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        assert_int_equal(strncmp(recalled(store, recall_user("app", "u", questions[i])), "b:1 ", 4),
                         0);
    }
    assert_string_equal(recalled(store, recall_everything("may we march to the meeting?")),
                        "b:1 c:1 a:1 "); /* no month: the longest text comes last */
    assert_int_equal(
        strncmp(recalled(store, recall_everything("the meeting in March 2022")), "c:1 ", 4), 0);
}

static void a_neighbour_of_a_match_is_found_behind_it(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "one");
    st_append(store, "a", "two");
    st_append(store, "a", "what is your favourite opera?");
    st_append(store, "a", "Rigoletto, of course");
    st_append(store, "a", "five");
    st_append(store, "a", "six");
    assert_string_equal(recalled(store, recall_session("a", "favourite opera")),
                        "a:3 a:4 a:2 a:5 a:1 ");
}

static void score_parts_add_up_and_fall(void **state)
{
    quipu_store *store = *state;
    const quipu_recall_options options = recall_everything("red apple");
    double last = 1e9;

    st_create(store, "a");
    st_create(store, "b");
    st_append(store, "a", "a red apple");
    st_append(store, "a", "a green apple");
    st_append(store, "b", "red");
    st_append(store, "b", "nothing");
    quipu_recall_results *results = recall_with(store, &options);
    assert_int_equal(results->hits.count, 4);
    assert_int_equal(results->sessions, 2);
    assert_int_equal(results->messages, 4);
    assert_int_equal(results->terms, 2);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        const double sum = hit->from_words + hit->from_neighbours + hit->from_session;

        assert_true(hit->score <= last && hit->score > 0);
        assert_true(hit->score - sum < 1e-12 && sum - hit->score < 1e-12);
        last = hit->score;
    }
    T_STR(quipu_recall_hit_at(results->hits, 0)->content, "a red apple");
    assert_int_equal(quipu_recall_hit_at(results->hits, 0)->event_id.n, 36);
    assert_int_equal(quipu_recall_hit_at(results->hits, 0)->role, QUIPU_ROLE_USER);
    quipu_free(results);
}

static void repeated_and_empty_texts_are_left_out(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "the same apple");
    st_append(store, "a", "");
    st_append(store, "a", "the same apple");
    assert_string_equal(recalled(store, recall_session("a", "apple")), "a:3 ");
}

/* More of them than a recall would read: the answer stands behind them. */
static void repeated_and_empty_texts_hide_no_others(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple");
    quipu_message empty = {.role = QUIPU_ROLE_TOOL, .author = QUIPU_STR("apple")};
    quipu_message same = st_says(QUIPU_ROLE_USER, "apple apple");
    quipu_message many[500];
    quipu_error err = {0};

    st_create(store, "a");
    st_append(store, "a", "one text of many words, behind whose end there stands an apple");
    for (size_t i = 0; i < 500; i++) {
        many[i] = i % 3 == 0 ? same : i % 3 == 1 ? empty : st_says(QUIPU_ROLE_ASSISTANT, "a pear");
    }
    T_OK(quipu_message_append(store, QUIPU_STR("a"), quipu_messages_of(many, 500), NULL, NULL, NULL,
                              &err));
    /* The pear stands between two of them. */
    assert_string_equal(recalled(store, options), "a:500 a:499 a:1 ");
    options.limit = 2;
    assert_string_equal(recalled(store, options), "a:500 a:499 ");
}

/* The same of messages that are larger than the budget. */
static void texts_beyond_the_budget_hide_no_others(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple pie");
    char text[512];

    st_create(store, "a");
    st_append(store, "a", "one apple, and a pie that has nothing of it");
    for (int i = 0; i < 300; i++) {
        int n = snprintf(text, sizeof(text), "number%d", i);

        while (n < 400) {
            n += snprintf(text + n, sizeof(text) - (size_t)n, " apple pie");
        }
        st_append(store, "a", text);
    }
    options.budget = 40;
    assert_string_equal(recalled(store, options), "a:1 ");
    options.flags |= QUIPU_RECALL_MEMORIES;
    assert_string_equal(recalled(store, options), "a:1 ");
}

static void a_budget_takes_whole_messages(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_everything("apple");
    int64_t first;

    st_create(store, "a");
    st_create(store, "b");
    st_append(store, "a", "apple pie with a long recipe that takes many more tokens than others");
    st_append(store, "b", "apple");
    quipu_recall_results *results = recall_with(store, &options);
    assert_int_equal(results->hits.count, 2);
    T_STR(quipu_recall_hit_at(results->hits, 0)->session_key, "b");
    first = quipu_recall_hit_at(results->hits, 0)->tokens;
    options.budget = first + quipu_recall_hit_at(results->hits, 1)->tokens;
    quipu_free(results);
    assert_string_equal(recalled(store, options), "b:1 a:1 ");
    options.budget--;
    assert_string_equal(recalled(store, options), "b:1 ");
    options.budget = 1;
    assert_string_equal(recalled(store, options), first > 1 ? "" : "b:1 ");
}

/* ---- scope ------------------------------------------------------------------------------------
 */

static void nobody_sees_what_another_user_said(void **state)
{
    quipu_store *store = *state;

    recall_create(store, "a", "app", "ana");
    recall_create(store, "b", "app", "bob");
    recall_create(store, "c", "other", "ana");
    st_append(store, "a", "the secret of ana");
    st_append(store, "b", "the secret of bob");
    st_append(store, "c", "the secret of the other app");
    assert_string_equal(recalled(store, recall_user("app", "ana", "secret")), "a:1 ");
    assert_string_equal(recalled(store, recall_user("app", "bob", "secret")), "b:1 ");
    assert_string_equal(recalled(store, recall_user("app", NULL, "secret")), "a:1 b:1 ");
    assert_string_equal(recalled(store, recall_user("app", "eve", "secret")), "");
    assert_string_equal(recalled(store, recall_user("none", NULL, "secret")), "");
    assert_string_equal(recalled(store, recall_user("", NULL, "secret")), "");
}

static void the_scope_of_a_fork_has_what_it_shares(void **state)
{
    quipu_store *store = *state;

    st_create(store, "parent");
    st_append(store, "parent", "one apple");
    st_append(store, "parent", "two pears");
    st_append(store, "parent", "three apples of the parent");
    ht_fork(store, "parent", 2, "fork");
    st_append(store, "fork", "apples of the fork");
    assert_string_equal(recalled(store, recall_session("fork", "apple")), "fork:3 fork:1 fork:2 ");
    /* Among all sessions each message is found once, for the session that holds it. */
    assert_null(strstr(recalled(store, recall_everything("apple")), "fork:1"));
    ht_delete(store, "parent");
    assert_string_equal(recalled(store, recall_session("fork", "apple")), "fork:3 fork:1 fork:2 ");
    assert_non_null(strstr(recalled(store, recall_everything("apple")), "fork:1"));
    assert_null(strstr(recalled(store, recall_everything("apple")), "parent"));
}

static void hidden_messages_belong_to_one_fork_only(void **state)
{
    quipu_store *store = *state;

    st_create(store, "parent");
    for (int i = 0; i < 6; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "apple number %d", i);
        st_append(store, "parent", text);
    }
    ht_fork(store, "parent", 2, "b");
    ht_fork(store, "parent", 5, "a");
    ht_delete(store, "parent");
    quipu_recall_options options = recall_everything("apple");
    quipu_recall_results *results = recall_with(store, &options);
    assert_int_equal(results->messages, 5);
    assert_int_equal(results->hits.count, 5);
    quipu_free(results);
}

static void only_messages_before_a_number_are_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple");

    st_create(store, "a");
    st_append(store, "a", "apple one");
    st_append(store, "a", "apple two");
    st_append(store, "a", "apple three");
    options.before_seq = 2;
    assert_string_equal(recalled(store, options), "a:1 ");
    options.before_seq = 1;
    assert_string_equal(recalled(store, options), "");
    options.before_seq = 99;
    assert_string_equal(recalled(store, options), "a:2 a:3 a:1 ");
}

static void only_messages_from_a_number_on_are_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple");
    quipu_recall_results *results = NULL;
    quipu_error err = {0};

    st_create(store, "a");
    st_append(store, "a", "apple one");
    st_append(store, "a", "apple two");
    st_append(store, "a", "apple three");
    options.from_seq = 3;
    assert_string_equal(recalled(store, options), "a:3 ");
    options.from_seq = 4;
    assert_string_equal(recalled(store, options), "");
    options.from_seq = 2;
    options.before_seq = 3;
    assert_string_equal(recalled(store, options), "a:2 ");
    options.before_seq = 1;
    assert_string_equal(recalled(store, options), "");
    options.from_seq = -1;
    T_STATUS(quipu_recall(store, &options, NULL, &results, &err), QUIPU_MISUSE);
    options = recall_everything("apple");
    options.from_seq = 1;
    T_STATUS(quipu_recall(store, &options, NULL, &results, &err), QUIPU_MISUSE);
}

static void search_that_is_off_and_reading_only_do_not_matter(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store;
    quipu_error err = {0};

    (void)state;
    options.search = QUIPU_SEARCH_OFF;
    store = st_open_new(&options, path);
    st_create(store, "a");
    st_append(store, "a", "an apple");
    assert_string_equal(recalled(store, recall_everything("apples")), "a:1 ");
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &store, &err));
    assert_string_equal(recalled(store, recall_everything("apples")), "a:1 ");
    quipu_close(store);
}

/* ---- bad input --------------------------------------------------------------------------------
 */

static quipu_status recall_status(quipu_store *store, const quipu_recall_options *options,
                                  quipu_error *err)
{
    quipu_recall_results *untouched = NULL;
    const quipu_status status = quipu_recall(store, options, NULL, &untouched, err);

    assert_null(untouched);
    return status;
}

static void a_scope_is_required_and_only_one(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_everything("apple");
    quipu_error err = {0};

    st_create(store, "a");
    options.flags = 0;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_MISUSE);
    assert_non_null(strstr(err.message, "scope"));
    options.user_id = QUIPU_STR("ana");
    assert_int_equal(recall_status(store, &options, &err), QUIPU_MISUSE);
    assert_non_null(strstr(err.message, "app"));
    options = recall_session("a", "apple");
    options.flags = QUIPU_RECALL_EVERYTHING;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_MISUSE);
    options = recall_everything("apple");
    options.before_seq = 3;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_MISUSE);
    options = recall_session("missing", "apple");
    assert_int_equal(recall_status(store, &options, &err), QUIPU_NOT_FOUND);
    options = recall_user("a\xff", NULL, "apple");
    assert_int_equal(recall_status(store, &options, &err), QUIPU_INVALID);
}

static void any_text_is_a_question(void **state)
{
    T_NOT_SERVED("a server takes texts that are UTF-8");
    static const char *const questions[] = {
        "",      " \t\n",        "?!*\"",  "\"apple",   "apple*",         "NEAR(apple)",
        "a AND", "apple OR pie", "-apple", "col:apple", "\xff\xfe apple", "苹果 apple яблоко"};
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "an apple");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        assert_string_equal(recalled(store, recall_everything(questions[i])),
                            strstr(questions[i], "apple") != NULL ? "a:1 " : "");
    }
}

static void limits_hold_at_their_border(void **state)
{
    T_NOT_SERVED("a server takes less at once");
    quipu_store *store = *state;
    char *question = malloc(QUIPU_RECALL_QUESTION_MAX + 1);
    quipu_recall_options options = recall_everything("");
    quipu_error err = {0};

    st_create(store, "a");
    st_append(store, "a", "an apple");
    assert_non_null(question);
    memset(question, ' ', QUIPU_RECALL_QUESTION_MAX + 1);
    memcpy(question + QUIPU_RECALL_QUESTION_MAX - 6, " apple", 6);
    options.question = (quipu_str){question, QUIPU_RECALL_QUESTION_MAX};
    options.limit = QUIPU_RECALL_LIMIT_MAX;
    assert_string_equal(recalled(store, options), "a:1 ");
    options.question.n++;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_LIMIT);
    assert_non_null(strstr(err.message, "65536"));
    options.question.n--;
    options.limit++;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_LIMIT);
    options.limit = -1;
    assert_int_equal(recall_status(store, &options, &err), QUIPU_MISUSE);
    free(question);
}

/* A question reads 256 different words; the last of them still counts, and one more does not. */
static void a_question_has_as_many_words_as_the_limit_says(void **state)
{
    quipu_store *store = *state;
    qp_buf text;

    st_create(store, "a");
    st_append(store, "a", "apple");
    for (int words = QUIPU_RECALL_WORDS_MAX - 1; words <= QUIPU_RECALL_WORDS_MAX; words++) {
        quipu_recall_options options = recall_everything("");

        qp_buf_init(&text, QUIPU_RECALL_QUESTION_MAX);
        for (int i = 0; i < words; i++) {
            qp_buf_printf(&text, "w%d ", i);
        }
        qp_buf_puts(&text, "apple");
        options.question = qp_buf_str(&text);
        assert_string_equal(recalled(store, options), words < QUIPU_RECALL_WORDS_MAX ? "a:1 " : "");
        qp_buf_free(&text);
    }
}

/* Of the words that occur, the 16 rarest decide: the common one of 17 adds nothing. */
static void the_rarest_terms_decide(void **state)
{
    quipu_store *store = *state;
    char rare[128] = "";
    size_t n = 0;

    st_create(store, "a");
    st_create(store, "b");
    for (int i = 0; i < QUIPU_RECALL_TERMS_MAX; i++) {
        n += (size_t)snprintf(rare + n, sizeof(rare) - n, "w%d ", i);
    }
    st_append(store, "a", rare);
    st_append(store, "b", "common");
    st_append(store, "b", "common again");
    assert_string_equal(recalled(store, recall_everything("common w1")), "b:1 b:2 a:1 ");
    (void)snprintf(rare + n, sizeof(rare) - n, "common");
    assert_string_equal(recalled(store, recall_everything(rare)), "a:1 ");
}

/* ---- engines ----------------------------------------------------------------------------------
 */

/* The same random conversations in two stores: equal hits, in the same order, with equal scores. */
static void every_engine_returns_the_same_hits(void **state)
{
    static const char *const words[] = {"apple",  "pear", "running", "runs",   "Cusco", "train",
                                        "ticket", "北京", "大学",    "한글",   "café",  "the",
                                        "when",   "may",  "2023",    "meeting"};
    const size_t word_count = sizeof(words) / sizeof(words[0]);
    quipu_store *store = *state;
    quipu_store *file = NULL;
    quipu_error err = {0};
    uint64_t seed = t_seed();
    char text[256];
    char key[16];

    T_OK(quipu_open(":memory:", NULL, &file, &err));
    for (int i = 0; i < 300; i++) {
        size_t n = 0;

        (void)snprintf(key, sizeof(key), "s%d", (int)t_random_below(&seed, 12));
        for (uint64_t left = 1 + t_random_below(&seed, 12); left > 0; left--) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
                                  words[t_random_below(&seed, word_count)]);
        }
        for (int side = 0; side < 2; side++) {
            quipu_store *on = side == 0 ? store : file;
            bool found = false;
            quipu_history *history = NULL;

            if (quipu_session_get(on, quipu_cstr(key), NULL, NULL, &history, NULL) == QUIPU_OK) {
                found = true;
            }
            quipu_free(history);
            if (!found) {
                recall_create(on, key, "app", "u");
            }
            recall_say(on, key, i % 3 == 0 ? "ana" : "bob",
                       i % 2 == 0 ? "2023-05-08T10:00:00Z" : "2022-01-01T00:00:00Z", text);
        }
    }
    for (int i = 0; i < 60; i++) {
        quipu_recall_options options;
        size_t n = 0;

        for (uint64_t left = 1 + t_random_below(&seed, 5); left > 0; left--) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
                                  words[t_random_below(&seed, word_count)]);
        }
        options = recall_user("app", "u", text);
        options.limit = QUIPU_RECALL_LIMIT_MAX;
        quipu_recall_results *ours = recall_with(store, &options);
        quipu_recall_results *theirs = recall_with(file, &options);
        recall_same(ours, theirs);
        quipu_free(ours);
        quipu_free(theirs);
    }
    quipu_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_question_finds_a_message_that_shares_some_of_its_words),
        ST_TEST(forms_of_a_word_find_each_other),
        ST_TEST(composed_and_decomposed_spellings_are_the_same),
        ST_TEST(chinese_is_compared_by_pairs_of_characters),
        ST_TEST(a_question_of_stop_words_is_asked_with_them),
        ST_TEST(rare_words_count_more_than_common_ones),
        ST_TEST(the_author_that_a_question_names_comes_first),
        ST_TEST(a_day_that_a_question_names_counts),
        ST_TEST(a_neighbour_of_a_match_is_found_behind_it),
        ST_TEST(score_parts_add_up_and_fall),
        ST_TEST(repeated_and_empty_texts_are_left_out),
        ST_TEST(repeated_and_empty_texts_hide_no_others),
        ST_TEST(texts_beyond_the_budget_hide_no_others),
        ST_TEST(a_budget_takes_whole_messages),
        ST_TEST(nobody_sees_what_another_user_said),
        ST_TEST(the_scope_of_a_fork_has_what_it_shares),
        ST_TEST(hidden_messages_belong_to_one_fork_only),
        ST_TEST(only_messages_before_a_number_are_asked_for),
        ST_TEST(only_messages_from_a_number_on_are_asked_for),
        cmocka_unit_test(search_that_is_off_and_reading_only_do_not_matter),
        ST_TEST(a_scope_is_required_and_only_one),
        ST_TEST(any_text_is_a_question),
        ST_TEST(limits_hold_at_their_border),
        ST_TEST(a_question_has_as_many_words_as_the_limit_says),
        ST_TEST(the_rarest_terms_decide),
        ST_TEST(every_engine_returns_the_same_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
