/* Memory under attack in the store: other users' ids, texts that look like other texts, scopes that
 * look like other scopes, and what a model may do to lines that are known. On every engine. */
#include "contract/model_t.h"

#include "base/str.h"

static void hostile_session(quipu_store *store, const char *key, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    if (user != NULL) {
        values.app_name = QUIPU_STR("shop");
        values.user_id = quipu_cstr(user);
    }
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static quipu_memory hostile_line(const char *key, quipu_memory_kind kind, const char *content)
{
    return (quipu_memory){.kind = kind,
                          .session_key = quipu_cstr(key),
                          .content = quipu_cstr(content),
                          .priority = QUIPU_PRIORITY_HIGH,
                          .generation = kind == QUIPU_REFLECTION ? 1 : 0,
                          .origin = QUIPU_STR("test/1")};
}

static quipu_uuid hostile_save(quipu_store *store, const quipu_memory *memory)
{
    quipu_memory_list *saved = NULL;
    quipu_error err = {0};
    quipu_uuid id;

    T_OK(quipu_memory_save(store, quipu_memories_of(memory, 1), NULL, &saved, &err));
    id = quipu_memory_at(saved->memories, 0)->id;
    quipu_free(saved);
    return id;
}

static size_t hostile_scope_count(quipu_store *store, const char *key)
{
    quipu_memory_list *list = model_list(store, key, QUIPU_OBSERVATION, QUIPU_MEMORY_SCOPE);
    const size_t count = list->memories.count;

    quipu_free(list);
    return count;
}

/* ---- other people's memories ------------------------------------------------------------------
 */

/* An id is no permission: whoever learns one must not retire another user's memory with it. */
static void a_memory_supersedes_nothing_outside_of_its_scope(void **state)
{
    model_state *self = *state;
    static const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};

    hostile_session(self->store, "ann", "ann");
    hostile_session(self->store, "ann2", "ann");
    hostile_session(self->store, "bob", "bob");
    for (size_t i = 0; i < 2; i++) {
        quipu_memory known = hostile_line("ann", kinds[i], "Ann lives in Oslo.");
        quipu_memory newer = hostile_line("bob", kinds[i], "Bob lives in Rome.");
        quipu_error err = {0};

        newer.has_supersedes = true;
        newer.supersedes = hostile_save(self->store, &known);
        T_STATUS(quipu_memory_save(self->store, quipu_memories_of(&newer, 1), NULL, NULL, &err),
                 QUIPU_NOT_FOUND);
        assert_int_equal(model_count(self->store, "ann", kinds[i]), 1);
        assert_int_equal(model_count(self->store, "bob", kinds[i]), 0);
        /* Another session of the same user may: it is the same scope. */
        newer.session_key = QUIPU_STR("ann2");
        T_OK(quipu_memory_save(self->store, quipu_memories_of(&newer, 1), NULL, NULL, &err));
        assert_int_equal(model_count(self->store, "ann", kinds[i]), 0);
    }
    mt_clean(self->store);
}

/* Keys that end in slashes look like scopes of users: each has a scope of its own. */
static void keys_that_differ_in_slashes_at_their_end_share_no_memory(void **state)
{
    model_state *self = *state;
    static const char *const keys[] = {"adk:shop/ann/", "adk:shop/ann//", "adk:shop/ann///",
                                       "adk:shop/ann/x/", "adk:shop/ann/x//"};

    hostile_session(self->store, "ann", "ann");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const quipu_memory line = hostile_line(keys[i], QUIPU_OBSERVATION, keys[i]);

        hostile_session(self->store, keys[i], NULL);
        (void)hostile_save(self->store, &line);
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_int_equal(hostile_scope_count(self->store, keys[i]), 1);
    }
    assert_int_equal(hostile_scope_count(self->store, "ann"), 0);
    mt_clean(self->store);
}

/* ---- texts that look like other texts ---------------------------------------------------------
 */

/* What a reader cannot see does not make a second memory. */
static void invisible_characters_make_no_second_memory(void **state)
{
    model_state *self = *state;
    static const char *const same[] = {
        "The user lives in Oslo",
        "The user\xe2\x80\x8b lives in Oslo.",                   /* zero width space */
        "The u\xc2\xadser lives in Oslo",                        /* soft hyphen */
        "\xef\xbb\xbfThe user lives in Oslo",                    /* byte order mark */
        "The\xc2\xa0user lives\xe2\x80\xafin Oslo.\xe2\x80\xa8", /* blanks that do not break, and a
                                                                    line separator */
        "The user lives \xe2\x80\xaein Oslo\xe2\x81\xa0",        /* direction, word joiner */
        "The user lives\x01 in Oslo"};                           /* a control character */

    st_create(self->store, "s");
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        const quipu_memory line = hostile_line("s", QUIPU_OBSERVATION, same[i]);

        (void)hostile_save(self->store, &line);
        assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 1);
    }
    const quipu_memory other =
        hostile_line("s", QUIPU_OBSERVATION, "The user lives in Osl\xc3\xb8");

    (void)hostile_save(self->store, &other);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 2);
    mt_clean(self->store);
}

/* ---- facts that vanish ------------------------------------------------------------------------
 */

#define HOSTILE_ANSWER(text, priority, from, to, replaces)                                         \
    "{\"observations\":[{\"text\":\"" text "\",\"priority\":\"" priority                           \
    "\",\"topic\":\"person\",\"from\":" from ",\"to\":" to                                         \
    ",\"subject\":\"\",\"about\":\"\",\"replaces\":" replaces "}]}"

/* A line that is known already, and replaces itself. */
static void a_line_that_replaces_itself_stays(void **state)
{
    model_state *self = *state;

    st_create(self->store, "s");
    st_append(self->store, "s", "I live in Oslo.");
    self->fake.answer = MODEL_ONE("The user lives in Oslo.", "high", "1", "1");
    (void)model_run_plain(self);
    st_append(self->store, "s", "I still live in Oslo.");
    self->fake.answer = HOSTILE_ANSWER("the user lives in  Oslo", "high", "2", "2", "1");
    assert_int_equal(model_run_plain(self).repeats, 1);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 1);
    mt_clean(self->store);
}

/* ---- forgetting what is not observed yet --------------------------------------------------------
 */

static quipu_status hostile_forget(quipu_store *store, const char *key, int64_t from, int64_t to)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.from_seq = from;
    query.to_seq = to;
    return quipu_memory_delete(store, &query, NULL, NULL, NULL);
}

/* Message 1 is to be observed yet, and 2 must never be. */
static void forgotten_messages_are_passed_over_by_rules_and_by_models(void **state)
{
    model_state *self = *state;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    for (int models = 0; models < 2; models++) {
        const char *key = models ? "m" : "r";

        st_create(self->store, key);
        st_append(self->store, key, "I prefer tea.");
        st_append(self->store, key, "I prefer whisky with breakfast.");
        st_append(self->store, key, "I prefer trains.");
        T_OK(hostile_forget(self->store, key, 2, 2));
        if (models) {
            self->fake.answer = MODEL_ONE("The user prefers tea and trains.", "high", "1", "3");
            ran = model_run_plain(self);
            assert_int_equal(ran.observations, 1);
            assert_null(strstr(self->fake.asked, "whisky"));
            assert_non_null(strstr(self->fake.asked, "trains"));
        } else {
            T_OK(quipu_memory_run(self->store, NULL, NULL, &ran, NULL));
            assert_int_equal(ran.observations, 2);
        }
        assert_int_equal(model_status(self->store, key, NULL).watermark, 3);
        mt_clean(self->store);
    }
}

static void hostile_forgets_the_second(model_fake *self)
{
    self->before = NULL;
    T_OK(hostile_forget(self->store, "s", 2, 2));
}

/* A worker has the lease and has shown the message to its model: the answer is dropped whole. */
static void what_is_forgotten_under_a_lease_does_not_come_back(void **state)
{
    model_state *self = *state;

    st_create(self->store, "s");
    st_append(self->store, "s", "I prefer tea.");
    st_append(self->store, "s", "I prefer whisky with breakfast.");
    st_append(self->store, "s", "I prefer trains.");
    self->fake.answer = MODEL_ONE("The user prefers whisky.", "high", "1", "3");
    self->fake.before = hostile_forgets_the_second;
    assert_int_equal(model_run_plain(self).lost, 1);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 0);
    self->fake.asked_size = 0;
    self->fake.answer = MODEL_ONE("The user prefers tea and trains.", "high", "1", "3");
    assert_int_equal(model_run_plain(self).observations, 1);
    assert_null(strstr(self->fake.asked, "whisky"));
    mt_clean(self->store);
}

/* Behind the watermark: the model was shown the line that is forgotten as known, and says it in
 * other words. */
static void a_known_line_that_is_forgotten_under_a_lease_does_not_come_back(void **state)
{
    model_state *self = *state;

    st_create(self->store, "s");
    st_append(self->store, "s", "I prefer tea.");
    st_append(self->store, "s", "I prefer whisky with breakfast.");
    self->fake.answer = MODEL_ONE("The user prefers whisky.", "high", "2", "2");
    (void)model_run_plain(self);
    st_append(self->store, "s", "I prefer trains.");
    self->fake.answer = MODEL_ONE("A friend of whisky prefers trains.", "high", "3", "3");
    self->fake.before = hostile_forgets_the_second;
    assert_int_equal(model_run_plain(self).lost, 1);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 0);
    mt_clean(self->store);
}

/* Each range that cannot be passed over yet is kept with the session, up to a limit with a name. */
static void ranges_that_are_forgotten_early_have_a_limit(void **state)
{
    model_state *self = *state;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_list *list;

    st_create(self->store, "s");
    for (int i = 0; i < 2 * QP_MEMORY_FORGOTTEN_MAX + 4; i++) {
        char text[40];

        (void)snprintf(text, sizeof(text), "I prefer tea number %d.", i);
        st_append(self->store, "s", text);
    }
    for (int i = 0; i < QP_MEMORY_FORGOTTEN_MAX; i++) {
        T_OK(hostile_forget(self->store, "s", 2 * i + 2, 2 * i + 2));
    }
    /* One that is known, or that touches others, is none more. */
    T_OK(hostile_forget(self->store, "s", 4, 4));
    T_OK(hostile_forget(self->store, "s", 3, 3));
    T_OK(hostile_forget(self->store, "s", 2 * QP_MEMORY_FORGOTTEN_MAX + 2,
                        2 * QP_MEMORY_FORGOTTEN_MAX + 2));
    T_STATUS(hostile_forget(self->store, "s", 2 * QP_MEMORY_FORGOTTEN_MAX + 4,
                            2 * QP_MEMORY_FORGOTTEN_MAX + 4),
             QUIPU_LIMIT);
    T_OK(quipu_memory_run(self->store, NULL, NULL, &ran, NULL));
    list = model_list(self->store, "s", QUIPU_OBSERVATION, 0);
    for (size_t i = 0; i < list->memories.count; i++) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i);

        assert_true(memory->source_start == 1 ||
                    memory->source_start == 2 * QP_MEMORY_FORGOTTEN_MAX + 4 ||
                    (memory->source_start % 2 == 1 && memory->source_start != 3));
    }
    assert_int_equal(list->memories.count, QP_MEMORY_FORGOTTEN_MAX + 2);
    quipu_free(list);
    mt_clean(self->store);
}

/* A session that is made again under the key has messages of its own, which nobody forgot. */
static void what_is_forgotten_of_a_session_is_not_of_the_next_one(void **state)
{
    model_state *self = *state;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    for (int life = 0; life < 2; life++) {
        st_create(self->store, "s");
        st_append(self->store, "s", "I prefer tea.");
        st_append(self->store, "s", "I prefer trains.");
        if (life == 0) {
            T_OK(hostile_forget(self->store, "s", 2, 2));
            T_OK(quipu_session_delete(self->store, QUIPU_STR("s"), NULL, NULL));
        }
    }
    T_OK(quipu_memory_run(self->store, NULL, NULL, &ran, NULL));
    assert_int_equal(ran.observations, 2);
    mt_clean(self->store);
}

/* ---- paying again -------------------------------------------------------------------------------
 */

#define HOSTILE_CAP 4

/* A store that keeps so many messages of each session, for the state. */
static void hostile_capped(model_state *self)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.cap_messages = HOSTILE_CAP;
    quipu_close(self->store);
    self->store = self->fake.store = st_open_new(&options, NULL);
}

static void hostile_says_more(model_fake *self)
{
    char text[60];

    (void)snprintf(text, sizeof(text), "More of it, for the %d. time.", self->calls);
    for (int i = 0; i < 3; i++) {
        st_append(self->store, "s", text);
    }
}

/* The cap deletes messages that the model is thinking about. What it says of them is stored, and
 * nothing is asked twice, however fast the session grows. */
static void messages_that_a_cap_deletes_are_paid_for_once(void **state)
{
    model_state *self = *state;
    quipu_memory_ran ran;

    hostile_capped(self);
    st_create(self->store, "s");
    st_append(self->store, "s", "I prefer tea.");
    self->fake.answer = MODEL_ONE("The user prefers tea.", "high", "1", "1");
    self->fake.before = hostile_says_more;
    ran = model_run_plain(self);
    assert_int_equal(ran.lost, 0);
    assert_int_equal(model_count(self->store, "s", QUIPU_OBSERVATION), 1);
    self->fake.answer = "{\"observations\":[]}";
    for (int i = 0; i < 3; i++) {
        ran = model_run_plain(self);
        assert_int_equal(ran.lost, 0);
    }
    self->fake.before = NULL;
    (void)model_run_plain(self);
    assert_int_equal(model_status(self->store, "s", NULL).pending_messages, 0);
    /* A question for each growth, and none twice. */
    const int calls = self->fake.calls;
    (void)model_run_plain(self);
    assert_int_equal(self->fake.calls, calls);
    assert_int_equal(strstr(strstr(self->fake.asked, "tea") + 1, "I prefer tea") != NULL, 0);
    mt_clean(self->store);
}

/* What is gone is not pending: a threshold counts the tokens that can still be read. */
static void tokens_of_deleted_and_of_shared_messages_make_nothing_due(void **state)
{
    model_state *self = *state;
    quipu_memory_options options = model_options(self);
    int64_t tokens;

    hostile_capped(self);
    hostile_session(self->store, "s", "ann");
    for (int i = 0; i < 40; i++) {
        st_append(self->store, "s", "The same forty bytes in each of them...");
    }
    quipu_history *history = st_get(self->store, "s", NULL);

    tokens = 0;
    for (size_t i = 0; i < history->messages.count; i++) {
        tokens += quipu_message_at(history->messages, i)->tokens;
    }
    assert_true(tokens > 0 && 4 * tokens < history->session->token_count);
    assert_int_equal(model_status(self->store, "s", NULL).pending_tokens, tokens);
    quipu_free(history);
    options.observe_tokens = tokens + 1;
    assert_int_equal(model_run(self, &options).model_calls, 0);
    options.observe_tokens = tokens;
    assert_int_equal(model_run(self, &options).model_calls, 1);
    /* A fork of a user's session begins with its own messages, and with their tokens. */
    mt_fork(self->store, "s", 40, "f");
    st_append(self->store, "f", "Short.");
    assert_true(model_status(self->store, "f", NULL).pending_tokens < 10);
    assert_int_equal(model_status(self->store, "f", NULL).pending_messages, 1);
    mt_clean(self->store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MODEL_TEST(a_memory_supersedes_nothing_outside_of_its_scope),
        MODEL_TEST(keys_that_differ_in_slashes_at_their_end_share_no_memory),
        MODEL_TEST(invisible_characters_make_no_second_memory),
        MODEL_TEST(a_line_that_replaces_itself_stays),
        MODEL_TEST(forgotten_messages_are_passed_over_by_rules_and_by_models),
        MODEL_TEST(what_is_forgotten_under_a_lease_does_not_come_back),
        MODEL_TEST(a_known_line_that_is_forgotten_under_a_lease_does_not_come_back),
        MODEL_TEST(ranges_that_are_forgotten_early_have_a_limit),
        MODEL_TEST(what_is_forgotten_of_a_session_is_not_of_the_next_one),
        MODEL_TEST(messages_that_a_cap_deletes_are_paid_for_once),
        MODEL_TEST(tokens_of_deleted_and_of_shared_messages_make_nothing_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
