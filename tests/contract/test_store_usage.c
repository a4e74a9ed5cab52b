/* What answers used: totals of a session, and sums by session, model and day. */
#include "contract/adk_t.h"
#include "contract/maintain_t.h"

#include <quipu/models.h>
#include <quipu/usage.h>

#define DAY 86400

/* An answer of a model at a day. */
static void says(quipu_store *store, const char *key, const char *model, int64_t day,
                 int64_t prompt, int64_t cached, int64_t answer)
{
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_error err = {0};

    message.model = model != NULL ? quipu_cstr(model) : (quipu_str){NULL, 0};
    message.has_timestamp = true;
    message.timestamp = (quipu_time){day * DAY + 7, 0};
    message.prompt_tokens = prompt;
    message.cached_tokens = cached;
    message.answer_tokens = answer;
    options.flags = QUIPU_APPEND_CREATE;
    if (quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), &options, NULL,
                             NULL, &err) != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
}

static quipu_usage_report *usage(quipu_store *store, quipu_usage_query query)
{
    quipu_usage_report *report = NULL;
    quipu_error err = {0};

    if (quipu_usage_get(store, &query, NULL, &report, &err) != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
    return report;
}

static void check_row(const quipu_usage_report *report, size_t at, const char *key,
                      const char *model, int64_t day, int64_t prompt, int64_t cached,
                      int64_t answer, int64_t answers)
{
    const quipu_usage_row *row;

    assert_true(at < report->rows.count);
    row = quipu_usage_row_at(report->rows, at);
    assert_true(quipu_str_eq(row->session_key, quipu_cstr(key)) ||
                (key == NULL && row->session_key.n == 0));
    assert_true(quipu_str_eq(row->model, quipu_cstr(model)) ||
                (model == NULL && row->model.n == 0));
    assert_int_equal(row->day, day);
    assert_int_equal(row->prompt_tokens, prompt);
    assert_int_equal(row->cached_tokens, cached);
    assert_int_equal(row->answer_tokens, answer);
    assert_int_equal(row->answers, answers);
}

static void check_totals(quipu_store *store, const char *key, int64_t prompt, int64_t cached,
                         int64_t answer, int64_t answers)
{
    quipu_history *history = st_get(store, key, NULL);

    assert_int_equal(history->session->prompt_total, prompt);
    assert_int_equal(history->session->cached_total, cached);
    assert_int_equal(history->session->answer_total, answer);
    assert_int_equal(history->session->answer_count, answers);
    quipu_free(history);
}

/* Two sessions, two models, three days. */
static void fill(quipu_store *store)
{
    says(store, "a", "gpt-4o", 20000, 100, 10, 5);
    st_append(store, "a", "a question");
    says(store, "a", "gpt-4o", 20000, 200, 150, 6);
    says(store, "a", "other", 20000, 1000, 0, 7);
    says(store, "a", "gpt-4o", 20001, 300, 0, 8);
    says(store, "b", "gpt-4o", 20001, 30, 0, 1);
    says(store, "b", NULL, 20002, 40, 0, 0);
}

/* ---- totals -----------------------------------------------------------------------------------
 */

static void a_session_sums_up_what_its_answers_used(void **state)
{
    quipu_store *store = *state;

    fill(store);
    check_totals(store, "a", 1600, 160, 26, 4);
    check_totals(store, "b", 70, 0, 1, 2);
    mt_clean(store);
}

static void a_message_gives_back_what_it_used(void **state)
{
    quipu_store *store = *state;
    quipu_history *history;
    const quipu_message *message;

    fill(store);
    history = st_get(store, "a", NULL);
    message = quipu_message_at(history->messages, 2);
    assert_true(quipu_str_eq(message->model, QUIPU_STR("gpt-4o")));
    assert_int_equal(message->prompt_tokens, 200);
    assert_int_equal(message->cached_tokens, 150);
    assert_int_equal(message->answer_tokens, 6);
    message = quipu_message_at(history->messages, 1);
    assert_null(message->model.p);
    assert_int_equal(message->prompt_tokens, 0);
    quipu_free(history);
}

static void a_list_shows_the_totals(void **state)
{
    quipu_store *store = *state;
    quipu_session_page *page = NULL;

    fill(store);
    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    assert_int_equal(quipu_session_info_at(page->sessions, 1)->prompt_total, 1600);
    quipu_free(page);
}

static void one_append_of_several_answers_counts_all(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("many");
    quipu_message messages[3] = {st_says(QUIPU_ROLE_ASSISTANT, "one"),
                                 st_says(QUIPU_ROLE_ASSISTANT, "two"),
                                 st_says(QUIPU_ROLE_ASSISTANT, "three")};
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;

    for (size_t i = 0; i < 3; i++) {
        messages[i].prompt_tokens = 10;
        messages[i].model = i == 2 ? QUIPU_STR("z") : QUIPU_STR("a");
    }
    values.messages = quipu_messages_of(messages, 3);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    check_totals(store, "many", 30, 0, 0, 3);
    T_OK(quipu_message_append(store, QUIPU_STR("many"), quipu_messages_of(messages, 3), NULL, NULL,
                              NULL, NULL));
    check_totals(store, "many", 60, 0, 0, 6);
    query.flags = QUIPU_USAGE_BY_MODEL;
    report = usage(store, query);
    assert_int_equal(report->rows.count, 2);
    check_row(report, 0, NULL, "a", 0, 40, 0, 0, 4);
    check_row(report, 1, NULL, "z", 0, 20, 0, 0, 2);
    quipu_free(report);
}

static void a_repeated_answer_counts_once(void **state)
{
    quipu_store *store = *state;
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");

    st_create(store, "key");
    message.event_id = QUIPU_STR("id");
    message.prompt_tokens = 5;
    for (int i = 0; i < 2; i++) {
        T_OK(quipu_message_append(store, QUIPU_STR("key"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL));
    }
    check_totals(store, "key", 5, 0, 0, 1);
    message.prompt_tokens = 6; /* another payload */
    assert_int_equal(quipu_message_append(store, QUIPU_STR("key"), quipu_messages_of(&message, 1),
                                          NULL, NULL, NULL, NULL),
                     QUIPU_EXISTS);
}

static void a_fork_counts_its_own_answers_only(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;

    fill(store);
    mt_fork(store, "a", 5, "fork");
    check_totals(store, "fork", 0, 0, 0, 0);
    says(store, "fork", "gpt-4o", 20001, 11, 0, 2);
    check_totals(store, "fork", 11, 0, 2, 1);
    report = usage(store, query);
    check_row(report, 0, NULL, NULL, 0, 1681, 160, 29, 7);
    quipu_free(report);
    mt_clean(store);
}

static void pruned_answers_still_count(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store;

    T_NOT_SERVED("a server decides about caps");
    (void)state;
    options.cap_messages = 1;
    store = st_open_new(&options, NULL);
    st_create(store, "a");
    for (int i = 0; i < 4; i++) {
        st_append(store, "a", "a question");
        says(store, "a", "m", 20000 + i, 10, 0, 1);
    }
    check_totals(store, "a", 40, 0, 4, 4);
    mt_clean(store);
    quipu_close(store);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

static quipu_status say_model(quipu_store *store, size_t length)
{
    char name[QUIPU_MODEL_NAME_MAX + 2];
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");

    memset(name, 'm', sizeof(name));
    message.model = (quipu_str){name, length};
    message.answer_tokens = 1;
    return quipu_message_append(store, QUIPU_STR("key"), quipu_messages_of(&message, 1), NULL, NULL,
                                NULL, NULL);
}

static void a_models_name_has_a_limit(void **state)
{
    quipu_store *store = *state;

    st_create(store, "key");
    assert_int_equal(say_model(store, QUIPU_MODEL_NAME_MAX), QUIPU_OK);
    assert_int_equal(say_model(store, QUIPU_MODEL_NAME_MAX + 1), QUIPU_LIMIT);
}

static void negative_tokens_are_refused(void **state)
{
    quipu_store *store = *state;
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");

    st_create(store, "key");
    message.cached_tokens = -1;
    assert_int_equal(quipu_message_append(store, QUIPU_STR("key"), quipu_messages_of(&message, 1),
                                          NULL, NULL, NULL, NULL),
                     QUIPU_INVALID);
}

static void totals_never_wrap(void **state)
{
    quipu_store *store = *state;

    says(store, "a", "m", 20000, INT64_MAX, 0, 1);
    says(store, "a", "m", 20000, INT64_MAX, 0, 1);
    check_totals(store, "a", INT64_MAX, 0, 2, 2);
    mt_clean(store);
}

static void a_page_of_usage_has_a_limit(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report = NULL;

    query.limit = QUIPU_PAGE_MAX;
    T_OK(quipu_usage_get(store, &query, NULL, &report, NULL));
    quipu_free(report);
    query.limit = QUIPU_PAGE_MAX + 1;
    assert_int_equal(quipu_usage_get(store, &query, NULL, &report, NULL), QUIPU_LIMIT);
    query.limit = 0;
    query.from_day = 2;
    query.to_day = 1;
    assert_int_equal(quipu_usage_get(store, &query, NULL, &report, NULL), QUIPU_MISUSE);
}

/* ---- sums -------------------------------------------------------------------------------------
 */

static void usage_is_summed_by_day_model_and_session(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;

    fill(store);
    query.flags = QUIPU_USAGE_BY_DAY | QUIPU_USAGE_BY_MODEL | QUIPU_USAGE_BY_SESSION;
    report = usage(store, query);
    assert_int_equal(report->sessions, 2);
    assert_int_equal(report->rows.count, 5);
    check_row(report, 0, "a", "gpt-4o", 20000, 300, 160, 11, 2);
    check_row(report, 1, "a", "other", 20000, 1000, 0, 7, 1);
    check_row(report, 2, "a", "gpt-4o", 20001, 300, 0, 8, 1);
    check_row(report, 3, "b", "gpt-4o", 20001, 30, 0, 1, 1);
    check_row(report, 4, "b", NULL, 20002, 40, 0, 0, 1);
    quipu_free(report);
    query.flags = QUIPU_USAGE_BY_DAY;
    report = usage(store, query);
    assert_int_equal(report->rows.count, 3);
    check_row(report, 0, NULL, NULL, 20000, 1300, 160, 18, 3);
    quipu_free(report);
    query.flags = QUIPU_USAGE_BY_SESSION;
    report = usage(store, query);
    assert_int_equal(report->rows.count, 2);
    check_row(report, 0, "a", NULL, 0, 1600, 160, 26, 4);
    quipu_free(report);
}

static void usage_of_some_days_only(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;

    fill(store);
    query.from_day = query.to_day = 20001;
    report = usage(store, query);
    assert_int_equal(report->rows.count, 1);
    check_row(report, 0, NULL, NULL, 0, 330, 0, 9, 2);
    quipu_free(report);
    /* Sessions that have not changed since are not looked at. */
    query.from_day = query.to_day = 1000000;
    report = usage(store, query);
    assert_int_equal(report->rows.count, 0);
    assert_int_equal(report->sessions, 0);
    quipu_free(report);
}

static void usage_of_one_session(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report = NULL;

    fill(store);
    query.key = QUIPU_STR("b");
    report = usage(store, query);
    check_row(report, 0, NULL, NULL, 0, 70, 0, 1, 2);
    quipu_free(report);
    query.key = QUIPU_STR("missing");
    assert_int_equal(quipu_usage_get(store, &query, NULL, &report, NULL), QUIPU_NOT_FOUND);
}

static void pages_of_sessions_add_up_to_all(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    int64_t prompt = 0;
    int pages = 0;
    char key[16];

    for (int i = 0; i < 7; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i);
        says(store, key, "m", 20000, 1 << i, 0, 0);
    }
    query.limit = 3;
    do {
        quipu_usage_report *report = usage(store, query);

        assert_true(report->sessions <= 3);
        prompt += report->rows.count > 0 ? quipu_usage_row_at(report->rows, 0)->prompt_tokens : 0;
        T_OK(quipu_arena_copy(&arena, report->next, &query.after));
        quipu_free(report);
        pages++;
    } while (query.after.p != NULL);
    assert_int_equal(pages, 3);
    assert_int_equal(prompt, 127);
    quipu_arena_free(&arena);
}

static void answers_of_a_model_with_a_price_cost_money(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;
    const quipu_model_row *prices = quipu_model_find(QUIPU_STR("gpt-4o"), NULL);

    assert_true(prices->price_input > 0);
    says(store, "a", "gpt-4o", 20000, 1000000, 0, 1000000);
    says(store, "a", "nobody knows it", 20000, 1000000, 0, 0);
    report = usage(store, query);
    assert_int_equal(quipu_usage_row_at(report->rows, 0)->cost,
                     prices->price_input + prices->price_output);
    assert_int_equal(quipu_usage_row_at(report->rows, 0)->unpriced, 1);
    quipu_free(report);
}

static void a_deleted_session_leaves_no_usage(void **state)
{
    quipu_store *store = *state;
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;

    fill(store);
    T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, NULL, NULL, NULL));
    report = usage(store, query);
    check_row(report, 0, NULL, NULL, 0, 70, 0, 1, 2);
    quipu_free(report);
    mt_clean(store);
}

/* ---- moving -----------------------------------------------------------------------------------
 */

static void an_export_carries_usage(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report;
    mt_stream stream;

    T_NOT_SERVED("a server does not import");
    fill(store);
    stream = mt_export(store, NULL);
    mt_import(other, &stream);
    mt_free(&stream);
    query.flags = QUIPU_USAGE_BY_DAY | QUIPU_USAGE_BY_MODEL | QUIPU_USAGE_BY_SESSION;
    report = usage(other, query);
    assert_int_equal(report->rows.count, 5);
    check_row(report, 0, "a", "gpt-4o", 20000, 300, 160, 11, 2);
    quipu_free(report);
    /* Goes on there: the import does not know the last span, and begins another. */
    says(other, "b", NULL, 20002, 2, 0, 0);
    report = usage(other, query);
    check_row(report, 4, "b", NULL, 20002, 42, 0, 0, 2);
    quipu_free(report);
    mt_clean(other);
    quipu_close(other);
}

static void an_event_of_adk_says_what_it_used(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *live = adk_create(world, "user", "s", NULL);
    quipu_history *history;
    const quipu_message *message;

    (void)state;
    (void)adk_append(
        live, "{\"id\":\"e1\",\"author\":\"agent\",\"timestamp\":1.5,\"modelVersion\":\"gemini-x\","
              "\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hi\"}]},"
              "\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":60,"
              "\"candidatesTokenCount\":7,\"thoughtsTokenCount\":3,\"totalTokenCount\":110}}");
    (void)adk_append(
        live, "{\"id\":\"e2\",\"author\":\"agent\",\"timestamp\":2.5,\"invocation_id\":\"i\","
              "\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"ho\"}]},"
              "\"usage_metadata\":{\"prompt_token_count\":10,\"candidates_token_count\":2}}");
    history = st_get(world->store, "adk:app/user/s", NULL);
    message = quipu_message_at(history->messages, 0);
    assert_true(quipu_str_eq(message->model, QUIPU_STR("gemini-x")));
    assert_int_equal(message->answer_tokens, 10);
    assert_int_equal(history->session->prompt_total, 110);
    assert_int_equal(history->session->cached_total, 60);
    assert_int_equal(history->session->answer_total, 12);
    quipu_free(history);
    quipu_live_free(live);
    adk_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_session_sums_up_what_its_answers_used),
        ST_TEST(a_message_gives_back_what_it_used),
        ST_TEST(a_list_shows_the_totals),
        ST_TEST(one_append_of_several_answers_counts_all),
        ST_TEST(a_repeated_answer_counts_once),
        ST_TEST(a_fork_counts_its_own_answers_only),
        cmocka_unit_test(pruned_answers_still_count),
        ST_TEST(a_models_name_has_a_limit),
        ST_TEST(negative_tokens_are_refused),
        ST_TEST(totals_never_wrap),
        ST_TEST(a_page_of_usage_has_a_limit),
        ST_TEST(usage_is_summed_by_day_model_and_session),
        ST_TEST(usage_of_some_days_only),
        ST_TEST(usage_of_one_session),
        ST_TEST(pages_of_sessions_add_up_to_all),
        ST_TEST(answers_of_a_model_with_a_price_cost_money),
        ST_TEST(a_deleted_session_leaves_no_usage),
        ST_TEST(an_export_carries_usage),
        cmocka_unit_test(an_event_of_adk_says_what_it_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
