/* What workers keep within limits, at these and one above: the allowance of standing lines, with
 * lines that people saved among them, and what one reflection condenses. On every engine. */
#include "contract/model_t.h"

#define LIMITS_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, st_teardown)
#define LIMITS_WISH "Always mention item number 17."
#define LIMITS_LINES (t_long() ? 10000 : 1000)

static quipu_memory_list *limits_list(quipu_store *store, const char *key, int64_t recent)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.recent = recent;
    T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
    return list;
}

/* A history of exactly so many tokens, with a wish at its end. */
static void limits_history(quipu_store *store, const char *key, int64_t tokens)
{
    const int64_t wish = quipu_token_estimate(QUIPU_STR(LIMITS_WISH)) + 4;
    const size_t n = 4 * (size_t)(tokens - wish - 4);
    quipu_history *history;
    char *filler = malloc(n + 1);

    assert_non_null(filler);
    memset(filler, 'p', n);
    filler[n] = '\0';
    st_append(store, key, filler);
    st_append(store, key, LIMITS_WISH);
    history = st_get(store, key, NULL);
    assert_int_equal(history->session->token_count, tokens);
    quipu_free(history);
    free(filler);
}

/* Whether a wish of the user stands beside so many tokens that people saved. These stand in any
 * case. */
static bool limits_stands(int64_t history, int64_t total)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_memory own = {.kind = QUIPU_OBSERVATION,
                        .session_key = QUIPU_STR("s"),
                        .content = QUIPU_STR("said by a person"),
                        .priority = QUIPU_PRIORITY_STANDING};
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_list *list;
    quipu_error err = {0};
    bool stands;

    own.token_count = total - quipu_token_estimate(QUIPU_STR(LIMITS_WISH));
    st_create(store, "s");
    T_OK(quipu_memory_save(store, quipu_memories_of(&own, 1), NULL, NULL, &err));
    limits_history(store, "s", history);
    T_OK(quipu_memory_run(store, NULL, NULL, &ran, &err));
    assert_int_equal(ran.observations, 1);
    list = limits_list(store, "s", 0);
    assert_int_equal(list->memories.count, 2);
    assert_int_equal(quipu_memory_at(list->memories, 0)->priority, QUIPU_PRIORITY_STANDING);
    stands = quipu_memory_at(list->memories, 1)->priority == QUIPU_PRIORITY_STANDING;
    assert_true(stands || quipu_memory_at(list->memories, 1)->priority == QUIPU_PRIORITY_HIGH);
    quipu_free(list);
    quipu_close(store);
    return stands;
}

static void standing_lines_have_three_thousand_tokens_in_any_history(void **state)
{
    static const int64_t histories[] = {(int64_t)QUIPU_STANDING_TOKENS_MAX * QUIPU_STANDING_SHARE,
                                        (int64_t)QUIPU_STANDING_TOKENS_MAX * QUIPU_STANDING_SHARE +
                                            QUIPU_STANDING_SHARE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(limits_stands(histories[i], QUIPU_STANDING_TOKENS_MAX));
        assert_false(limits_stands(histories[i], QUIPU_STANDING_TOKENS_MAX + 1));
    }
}

static void standing_lines_have_two_hundredths_of_the_history(void **state)
{
    const int64_t half = (int64_t)1000 * QUIPU_STANDING_SHARE;

    (void)state;
    assert_true(limits_stands(half, 1000));
    assert_false(limits_stands(half, 1001));
    /* One token of history less. */
    assert_true(limits_stands(half - 1, 999));
    assert_false(limits_stands(half - 1, 1000));
}

static void standing_lines_have_two_hundred_tokens_in_a_short_history(void **state)
{
    const int64_t enough = (int64_t)QUIPU_STANDING_TOKENS_MIN * QUIPU_STANDING_SHARE;

    (void)state;
    assert_true(limits_stands(100, QUIPU_STANDING_TOKENS_MIN));
    assert_false(limits_stands(100, QUIPU_STANDING_TOKENS_MIN + 1));
    /* From here on the share counts. */
    assert_false(limits_stands(enough + QUIPU_STANDING_SHARE - 1, QUIPU_STANDING_TOKENS_MIN + 1));
    assert_true(limits_stands(enough + QUIPU_STANDING_SHARE, QUIPU_STANDING_TOKENS_MIN + 1));
}

/* The history is that of all sessions of the user, and so are the lines. A wish that is said again
 * begins to stand where it is said, when there is room by then. */
static void the_allowance_is_that_of_the_users_sessions_together(void **state)
{
    static const struct {
        const char *key;
        int64_t tokens; /* of the session's history */
        quipu_memory_priority wish;
    } parts[] = {{"one", 24999, QUIPU_PRIORITY_HIGH},     /* 499 are allowed */
                 {"two", 25000, QUIPU_PRIORITY_HIGH},     /* 999 */
                 {"three", 50, QUIPU_PRIORITY_STANDING}}; /* 1,000, which is what there is */
    quipu_store *store = *state;
    quipu_memory own = {.kind = QUIPU_OBSERVATION,
                        .session_key = QUIPU_STR("one"),
                        .content = QUIPU_STR("said by a person"),
                        .priority = QUIPU_PRIORITY_STANDING};
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    own.token_count = 1000 - quipu_token_estimate(QUIPU_STR(LIMITS_WISH));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        quipu_session_new values = st_values(parts[i].key);
        quipu_memory_list *list;

        values.app_name = QUIPU_STR("app");
        values.user_id = QUIPU_STR("ann");
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
        if (i == 0) {
            T_OK(quipu_memory_save(store, quipu_memories_of(&own, 1), NULL, NULL, &err));
        }
        limits_history(store, parts[i].key, parts[i].tokens);
        T_OK(quipu_memory_run(store, NULL, NULL, &ran, &err));
        list = limits_list(store, parts[i].key, 1);
        assert_int_equal(list->memories.count, 1);
        T_STR(quipu_memory_at(list->memories, 0)->content, LIMITS_WISH);
        assert_int_equal(quipu_memory_at(list->memories, 0)->priority, parts[i].wish);
        quipu_free(list);
    }
}

/* Saves lines number 0 to count - 1 as a person does, and returns their tokens. */
static int64_t limits_save(quipu_store *store, int count)
{
    quipu_error err = {0};
    int64_t tokens = 0;

    for (int i = 0; i < count; i++) {
        char text[48];
        quipu_memory line = {.kind = QUIPU_OBSERVATION,
                             .session_key = QUIPU_STR("s"),
                             .priority = QUIPU_PRIORITY_STANDING};

        (void)snprintf(text, sizeof(text), "Line number %d of a person.", i);
        line.content = quipu_cstr(text);
        line.token_count = quipu_token_estimate(line.content);
        tokens += line.token_count;
        T_OK(quipu_memory_save(store, quipu_memories_of(&line, 1), NULL, NULL, &err));
    }
    return tokens;
}

/* Whatever people save stands, and work goes on beside it. */
static void lines_that_people_saved_all_stand_however_many(void **state)
{
    T_LONG_ON_PG("1,000 memories");

    quipu_store *store = *state;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *status = NULL;
    quipu_memory_list *list;
    quipu_error err = {0};
    int64_t tokens;

    st_create(store, "s");
    tokens = limits_save(store, LIMITS_LINES);
    limits_history(store, "s", 1000);
    T_OK(quipu_memory_run(store, NULL, NULL, &ran, &err));
    assert_int_equal(ran.observations, 1);
    list = limits_list(store, "s", 0);
    assert_int_equal(list->memories.count, LIMITS_LINES + 1);
    for (int i = 0; i < LIMITS_LINES; i++) {
        assert_int_equal(quipu_memory_at(list->memories, (size_t)i)->priority,
                         QUIPU_PRIORITY_STANDING);
    }
    assert_int_equal(quipu_memory_at(list->memories, list->memories.count - 1)->priority,
                     QUIPU_PRIORITY_HIGH);
    quipu_free(list);
    options.session_key = QUIPU_STR("s");
    T_OK(quipu_memory_status(store, &options, NULL, &status, &err));
    assert_int_equal(quipu_memory_progress_at(status->sessions, 0)->standing_tokens, tokens);
    quipu_free(status);
}

/* ---- reflections ------------------------------------------------------------------------------
 */

/* Lines as a model's worker leaves them. */
static void limits_know_of(quipu_store *store, int count, int64_t tokens)
{
    quipu_error err = {0};

    for (int i = 0; i < count; i++) {
        char text[48];
        quipu_memory line = {.kind = QUIPU_OBSERVATION,
                             .session_key = QUIPU_STR("s"),
                             .priority = QUIPU_PRIORITY_MEDIUM,
                             .token_count = tokens,
                             .source_start = 1,
                             .source_end = 1,
                             .origin = QUIPU_STR("observe/1 m")};

        (void)snprintf(text, sizeof(text), "The user likes tea number %d.", i);
        line.content = quipu_cstr(text);
        T_OK(quipu_memory_save(store, quipu_memories_of(&line, 1), NULL, NULL, &err));
    }
}

static void limits_know(quipu_store *store, int count)
{
    limits_know_of(store, count, 10);
}

/* Whether a model that observes is shown the oldest of so many known lines. */
static bool limits_shows(model_state *self, const char *key, int count, int64_t tokens)
{
    quipu_memory_options options = model_options(self);
    bool oldest;

    T_OK(quipu_session_delete(self->store, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    st_create(self->store, "s");
    st_append(self->store, "s", key);
    limits_know_of(self->store, count, tokens);
    options.reflect_tokens = -1;
    self->fake.asked_size = 0;
    assert_int_equal(model_run(self, &options).model_calls, 1);
    oldest = strstr(self->fake.asked, "tea number 0.") != NULL;
    assert_non_null(strstr(self->fake.asked, "tea number 1."));
    return oldest;
}

/* The newest fifty, and a thousand tokens of them. */
static void a_model_is_shown_so_many_known_lines_and_no_more(void **state)
{
    model_state *self = *state;

    st_create(self->store, "s");
    assert_true(limits_shows(self, "one", 50, 20));
    assert_false(limits_shows(self, "two", 51, 1));
    assert_true(limits_shows(self, "three", 10, 100));
    assert_false(limits_shows(self, "four", 10, 101));
}

static quipu_memory_ran limits_reflect(model_state *self, int64_t tokens)
{
    quipu_memory_options options = model_options(self);

    options.observe_tokens = 1000000;
    options.reflect_tokens = tokens;
    self->fake.answer = "{\"reflection\":\"The user likes many teas.\"}";
    return model_run(self, &options);
}

/* Of one line more the oldest are condensed, and the newest waits for the next reflection. */
static void a_reflection_condenses_a_thousand_lines_and_no_more(void **state)
{
    T_LONG_ON_PG("1,001 memories");

    model_state *self = *state;

    st_create(self->store, "s");
    limits_know(self->store, QP_MEMORY_REFLECT_MAX);
    assert_int_equal(limits_reflect(self, 10 * QP_MEMORY_REFLECT_MAX).condensed,
                     QP_MEMORY_REFLECT_MAX);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 0);
    for (int more = 0; more < 2; more++) {
        st_append(self->store, "s", "hello");
    }
    limits_know(self->store, QP_MEMORY_REFLECT_MAX);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), QP_MEMORY_REFLECT_MAX);
    /* The reflection from before is one of the thousand. */
    assert_int_equal(limits_reflect(self, 1000).condensed, QP_MEMORY_REFLECT_MAX);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 1);
}

/* They are never condensed, and must not stand in the way of lines that are. */
static void lines_that_people_saved_keep_no_other_from_being_condensed(void **state)
{
    T_LONG_ON_PG("1,001 memories");

    model_state *self = *state;

    st_create(self->store, "s");
    (void)limits_save(self->store, QP_MEMORY_REFLECT_MAX);
    limits_know(self->store, 20);
    assert_int_equal(limits_reflect(self, 100).condensed, 20);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), QP_MEMORY_REFLECT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standing_lines_have_three_thousand_tokens_in_any_history),
        cmocka_unit_test(standing_lines_have_two_hundredths_of_the_history),
        cmocka_unit_test(standing_lines_have_two_hundred_tokens_in_a_short_history),
        LIMITS_TEST(the_allowance_is_that_of_the_users_sessions_together),
        LIMITS_TEST(lines_that_people_saved_all_stand_however_many),
        MODEL_TEST(a_model_is_shown_so_many_known_lines_and_no_more),
        MODEL_TEST(a_reflection_condenses_a_thousand_lines_and_no_more),
        MODEL_TEST(lines_that_people_saved_keep_no_other_from_being_condensed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
