/* Observations and reflections through the public API. */
#include "contract/history_t.h"
#include "lib/short.h"

static quipu_uuid save(quipu_store *store, quipu_memory_kind kind, const char *key,
                       const char *content)
{
    quipu_memory memory = {.kind = kind,
                           .session_key = quipu_cstr(key),
                           .content = quipu_cstr(content),
                           .token_count = 7,
                           .source_start = 2,
                           .source_end = 5,
                           .generation = kind == QUIPU_REFLECTION ? 3 : 0};
    quipu_uuid id = {{0}};
    quipu_error err = {0};

    T_OK(t_memory_save(store, &memory, NULL, &id, &err));
    return id;
}

/* The contents of a session's list, separated by blanks. */
static void contents(quipu_store *store, quipu_memory_kind kind, const char *key, int64_t recent,
                     char ret[256])
{
    quipu_memory_list *list = NULL;
    quipu_error err = {0};
    size_t n = 0;

    T_OK(t_memory_list(store, kind, quipu_cstr(key), recent, NULL, &list, &err));
    ret[0] = '\0';
    for (size_t i = 0; i < list->memories.count; i++) {
        n += (size_t)snprintf(ret + n, 256 - n, "%s%s", n == 0 ? "" : " ",
                              quipu_memory_at(list->memories, i)->content.p);
    }
    quipu_free(list);
}

static quipu_status memory_by_id(quipu_store *store, quipu_memory_kind kind, quipu_uuid id,
                                 quipu_memory_list **ret_list)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    query.kind = kind;
    query.ids = &id;
    query.id_count = 1;
    return quipu_memory_find(store, &query, NULL, ret_list, NULL);
}

static void memories_come_back_whole_and_in_order(void **state)
{
    quipu_store *store = *state;
    char text[256];

    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        quipu_memory_kind k = (quipu_memory_kind)kind;
        quipu_memory_list *list = NULL;
        save(store, k, "k", "one");
        save(store, k, "other", "foreign");
        quipu_uuid id = save(store, k, "k", "two");
        save(store, k, "k", "three");
        contents(store, k, "k", 0, text);
        assert_string_equal(text, "one two three");
        contents(store, k, "k", 2, text);
        assert_string_equal(text, "two three");
        contents(store, k, "k", 99, text);
        assert_string_equal(text, "one two three");
        contents(store, k, "nobody", 0, text);
        assert_string_equal(text, "");
        T_OK(memory_by_id(store, k, id, &list));
        assert_int_equal(list->memories.count, 1);
        assert_int_equal(quipu_memory_at(list->memories, 0)->kind, kind);
        T_STR(quipu_memory_at(list->memories, 0)->content, "two");
        T_STR(quipu_memory_at(list->memories, 0)->session_key, "k");
        assert_int_equal(quipu_memory_at(list->memories, 0)->token_count, 7);
        assert_int_equal(quipu_memory_at(list->memories, 0)->source_end, 5);
        assert_int_equal(quipu_memory_at(list->memories, 0)->source_start, 2);
        assert_int_equal(quipu_memory_at(list->memories, 0)->generation,
                         k == QUIPU_REFLECTION ? 3 : 0);
        assert_memory_equal(&quipu_memory_at(list->memories, 0)->id, &id, sizeof(id));
        assert_true(quipu_memory_at(list->memories, 0)->created_at.s > 0);
        quipu_free(list);
    }
}

static void many_saved_at_once_keep_their_order(void **state)
{
    quipu_store *store = *state;
    quipu_memory_list *list = NULL;
    char text[32];

    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "%d", i);
        save(store, QUIPU_OBSERVATION, "k", text);
    }
    T_OK(t_memory_list(store, QUIPU_OBSERVATION, QUIPU_STR("k"), 0, NULL, &list, NULL));
    assert_int_equal(list->memories.count, 200);
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "%d", i);
        T_STR(quipu_memory_at(list->memories, (size_t)i)->content, text);
    }
    quipu_free(list);
}

static void generation_is_one_unless_given(void **state)
{
    quipu_memory memory = {
        .kind = QUIPU_REFLECTION, .session_key = QUIPU_STR("k"), .content = QUIPU_STR("x")};
    quipu_memory_list *list = NULL;

    T_OK(t_memory_save(*state, &memory, NULL, NULL, NULL));
    T_OK(t_memory_list(*state, QUIPU_REFLECTION, QUIPU_STR("k"), 0, NULL, &list, NULL));
    assert_int_equal(quipu_memory_at(list->memories, 0)->generation, 1);
    quipu_free(list);
}

static void given_id_is_kept_and_may_not_be_used_twice(void **state)
{
    quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                           .id = {{1, 2, 3}},
                           .session_key = QUIPU_STR("k"),
                           .content = QUIPU_STR("x")};
    quipu_uuid id = {{0}};

    T_OK(t_memory_save(*state, &memory, NULL, &id, NULL));
    assert_memory_equal(&id, &memory.id, sizeof(id));
    T_STATUS(t_memory_save(*state, &memory, NULL, &id, NULL), QUIPU_EXISTS);
}

static void unknown_id_finds_nothing(void **state)
{
    quipu_memory_list *list = NULL;

    T_OK(memory_by_id(*state, QUIPU_REFLECTION, (quipu_uuid){{9}}, &list));
    assert_int_equal(list->memories.count, 0);
    quipu_free(list);
}

static void memories_are_deleted_by_ids(void **state)
{
    quipu_store *store = *state;
    quipu_uuid ids[3];
    int64_t removed = -1;
    char text[256];

    ids[0] = save(store, QUIPU_OBSERVATION, "k", "one");
    save(store, QUIPU_OBSERVATION, "k", "two");
    ids[1] = save(store, QUIPU_OBSERVATION, "l", "three");
    ids[2] = (quipu_uuid){{42}};
    T_OK(t_memory_delete(store, QUIPU_OBSERVATION, ids, 3, NULL, &removed, NULL));
    assert_int_equal(removed, 2);
    contents(store, QUIPU_OBSERVATION, "k", 0, text);
    assert_string_equal(text, "two");
    T_OK(t_memory_delete(store, QUIPU_OBSERVATION, ids, 0, NULL, &removed, NULL));
    assert_int_equal(removed, 0);
}

static void memories_are_deleted_by_session(void **state)
{
    quipu_store *store = *state;
    int64_t removed = -1;
    char text[256];

    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        quipu_memory_kind k = (quipu_memory_kind)kind;
        save(store, k, "k", "one");
        save(store, k, "k", "two");
        save(store, k, "other", "kept");
        T_OK(t_memory_delete_session(store, k, QUIPU_STR("k"), NULL, &removed, NULL));
        assert_int_equal(removed, 2);
        T_OK(t_memory_delete_session(store, k, QUIPU_STR("k"), NULL, &removed, NULL));
        assert_int_equal(removed, 0);
        contents(store, k, "other", 0, text);
        assert_string_equal(text, "kept");
    }
}

static void senseless_memories_are_refused(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = QUIPU_STR("k"), .content = QUIPU_STR("")};
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    T_STATUS(t_memory_save(store, &memory, NULL, NULL, &err), QUIPU_INVALID);
    assert_string_equal(err.field, "content");
    memory.content = QUIPU_STR("x");
    memory.session_key = QUIPU_STR("");
    T_STATUS(t_memory_save(store, &memory, NULL, NULL, &err), QUIPU_INVALID);
    memory.session_key = QUIPU_STR("k");
    memory.kind = (quipu_memory_kind)0;
    T_STATUS(t_memory_save(store, &memory, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(t_memory_save(store, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(t_memory_list(store, QUIPU_OBSERVATION, QUIPU_STR("k"), -1, NULL, &list, &err),
             QUIPU_MISUSE);
    T_STATUS(t_memory_delete(store, QUIPU_OBSERVATION, NULL, 1, NULL, NULL, &err), QUIPU_MISUSE);
}

/* The order is that of saving, whatever the clock said: here it was set back in between. */
static void order_of_saving_does_not_come_from_the_clock(void **state)
{
    ht_store *self = *state;
    const quipu_time later = {quipu_time_now().s + 3600, 0};
    const qp_observation_new seen = {.session_key = QUIPU_STR("k"),
                                     .content = QUIPU_STR("one"),
                                     .created_at = ent_some(later),
                                     .number = 1};
    const qp_reflection_new thought = {.session_key = QUIPU_STR("k"),
                                       .content = QUIPU_STR("one"),
                                       .created_at = ent_some(later),
                                       .number = 1};
    quipu_error err = {0};
    ent_db *db = NULL;
    char text[256];

    T_NOT_SERVED("it writes to the file");
    db = et_connect(self->path, 0);
    T_OK(qp_observation_create(db, NULL, &seen, NULL, &err));
    T_OK(qp_reflection_create(db, NULL, &thought, NULL, &err));
    ent_close(db);
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        save(self->store, (quipu_memory_kind)kind, "k", "two");
        contents(self->store, (quipu_memory_kind)kind, "k", 0, text);
        assert_string_equal(text, "one two");
        contents(self->store, (quipu_memory_kind)kind, "k", 1, text);
        assert_string_equal(text, "two");
    }
}

/* An observer that comes too late saves for a session that is gone: deleting the key again takes
 * that too, so that the next session of the key begins without it. */
static void delete_of_a_missing_session_takes_its_memories(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};
    char text[256];

    save(store, QUIPU_OBSERVATION, "k", "late");
    save(store, QUIPU_REFLECTION, "k", "late");
    save(store, QUIPU_OBSERVATION, "other", "stays");
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        contents(store, (quipu_memory_kind)kind, "k", 0, text);
        assert_string_equal(text, "");
    }
    contents(store, QUIPU_OBSERVATION, "other", 0, text);
    assert_string_equal(text, "stays");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(memories_come_back_whole_and_in_order),
        ST_TEST(many_saved_at_once_keep_their_order),
        ST_TEST(generation_is_one_unless_given),
        ST_TEST(given_id_is_kept_and_may_not_be_used_twice),
        ST_TEST(unknown_id_finds_nothing),
        ST_TEST(memories_are_deleted_by_ids),
        ST_TEST(memories_are_deleted_by_session),
        ST_TEST(senseless_memories_are_refused),
        HT_TEST(order_of_saving_does_not_come_from_the_clock),
        ST_TEST(delete_of_a_missing_session_takes_its_memories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
