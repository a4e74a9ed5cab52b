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

int main(void)
{
    const struct CMUnitTest tests[] = {
        MODEL_TEST(a_memory_supersedes_nothing_outside_of_its_scope),
        MODEL_TEST(keys_that_differ_in_slashes_at_their_end_share_no_memory),
        MODEL_TEST(invisible_characters_make_no_second_memory),
        MODEL_TEST(a_line_that_replaces_itself_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
