/* Correcting memories: repeats, supersedes, edit, retire, and the scope of a user. */
#include "contract/maintain_t.h"

#include "base/str.h"

#define EDIT_APP "shop"
#define EDIT_USER "ann/1%"

/* Save an observation that is known by its content. */
static quipu_memory edit_fact(const char *key, const char *content)
{
    return (quipu_memory){.kind = QUIPU_OBSERVATION,
                          .session_key = quipu_cstr(key),
                          .content = quipu_cstr(content),
                          .origin = QUIPU_STR("test/1")};
}

static quipu_uuid edit_save(quipu_store *store, const quipu_memory *memory)
{
    quipu_memory_list *saved = NULL;
    quipu_error err = {0};
    quipu_uuid id;

    T_OK(quipu_memory_save(store, quipu_memories_of(memory, 1), NULL, &saved, &err));
    id = quipu_memory_at(saved->memories, 0)->id;
    quipu_free(saved);
    return id;
}

static quipu_memory_list *edit_list(quipu_store *store, const char *key, uint32_t flags)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.flags = flags;
    T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
    return list;
}

static size_t edit_count(quipu_store *store, const char *key, uint32_t flags)
{
    quipu_memory_list *list = edit_list(store, key, flags);
    size_t count = list->memories.count;

    quipu_free(list);
    return count;
}

/* One memory by its id; free the list. */
static const quipu_memory *edit_get(quipu_store *store, quipu_uuid id, quipu_memory_list **ret_list)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_error err = {0};

    query.kind = QUIPU_OBSERVATION;
    query.ids = &id;
    query.id_count = 1;
    T_OK(quipu_memory_find(store, &query, NULL, ret_list, &err));
    assert_int_equal((*ret_list)->memories.count, 1);
    return quipu_memory_at((*ret_list)->memories, 0);
}

static quipu_status edit_retire(quipu_store *store, quipu_uuid id, const char *why)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;

    patch.kind = QUIPU_OBSERVATION;
    patch.id = id;
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.why = quipu_cstr(why);
    return quipu_memory_update(store, &patch, NULL, NULL, NULL);
}

static void edit_user_session(quipu_store *store, const char *key, const char *app,
                              const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    values.session_id = quipu_cstr(key);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

static void the_same_fact_said_again_is_counted_and_stored_once(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "I prefer tea");
    quipu_memory_list *list = NULL;
    quipu_uuid first;
    quipu_uuid again;

    memory.has_said_at = true;
    memory.said_at = (quipu_time){1000, 0};
    memory.priority = QUIPU_PRIORITY_MEDIUM;
    first = edit_save(store, &memory);
    memory.content = QUIPU_STR("  i PREFER\n tea. ");
    memory.said_at = (quipu_time){2000, 0};
    memory.priority = QUIPU_PRIORITY_STANDING;
    again = edit_save(store, &memory);
    assert_memory_equal(first.b, again.b, sizeof(first.b));
    const quipu_memory *row = edit_get(store, first, &list);
    assert_int_equal(row->times, 2);
    assert_int_equal(row->said_at.s, 2000);
    assert_int_equal(row->priority, QUIPU_PRIORITY_STANDING);
    assert_string_equal(row->content.p, "I prefer tea");
    quipu_free(list);
    assert_int_equal(edit_count(store, "s", 0), 1);
}

/* Programs that know no origins keep what they save, twice if they want. */
static void without_an_origin_every_save_is_a_row(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "the same");

    memory.origin = (quipu_str){NULL, 0};
    (void)edit_save(store, &memory);
    (void)edit_save(store, &memory);
    assert_int_equal(edit_count(store, "s", 0), 2);
}

static void a_fact_of_another_session_is_another_fact(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "the same");

    (void)edit_save(store, &memory);
    memory.session_key = QUIPU_STR("t");
    (void)edit_save(store, &memory);
    assert_int_equal(edit_count(store, "s", 0), 1);
    assert_int_equal(edit_count(store, "t", 0), 1);
}

/* ---- scopes -----------------------------------------------------------------------------------
 */

static void sessions_of_a_user_share_a_scope_and_nobody_elses(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("one", "answer in French");
    quipu_memory_list *list = NULL;

    edit_user_session(store, "one", EDIT_APP, EDIT_USER);
    edit_user_session(store, "two", EDIT_APP, EDIT_USER);
    edit_user_session(store, "other", EDIT_APP, "bob");
    edit_user_session(store, "app", "desk", EDIT_USER);
    (void)edit_save(store, &memory);
    memory.session_key = QUIPU_STR("two");
    (void)edit_save(store, &memory); /* said again, in another session */
    memory.content = QUIPU_STR("answer in short sentences");
    (void)edit_save(store, &memory);
    assert_int_equal(edit_count(store, "two", 0), 1);
    list = edit_list(store, "two", QUIPU_MEMORY_FIND_SCOPE);
    assert_int_equal(list->memories.count, 2);
    assert_int_equal(quipu_memory_at(list->memories, 0)->times, 2);
    assert_string_equal(quipu_memory_at(list->memories, 0)->scope.p, "adk:shop/ann%2F1%25/");
    quipu_free(list);
    assert_int_equal(edit_count(store, "other", QUIPU_MEMORY_FIND_SCOPE), 0);
    assert_int_equal(edit_count(store, "app", QUIPU_MEMORY_FIND_SCOPE), 0);
}

/* What was saved for a key before its session existed still counts, and is recognized. */
static void a_memory_from_before_its_session_is_part_of_its_scope(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("one", "early");

    (void)edit_save(store, &memory);
    edit_user_session(store, "one", EDIT_APP, EDIT_USER);
    (void)edit_save(store, &memory);
    assert_int_equal(edit_count(store, "one", QUIPU_MEMORY_FIND_SCOPE), 1);
}

/* ---- supersede, retire, edit ------------------------------------------------------------------
 */

static void a_memory_that_supersedes_another_retires_it_in_one_transaction(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "lives in Rome");
    quipu_memory_list *list = NULL;
    quipu_uuid old = edit_save(store, &memory);

    memory.content = QUIPU_STR("lives in Oslo");
    memory.has_supersedes = true;
    memory.supersedes = old;
    (void)edit_save(store, &memory);
    list = edit_list(store, "s", 0);
    assert_int_equal(list->memories.count, 1);
    assert_string_equal(quipu_memory_at(list->memories, 0)->content.p, "lives in Oslo");
    assert_true(quipu_memory_at(list->memories, 0)->has_supersedes);
    quipu_free(list);
    assert_int_equal(edit_count(store, "s", QUIPU_MEMORY_FIND_RETIRED), 2);
    const quipu_memory *row = edit_get(store, old, &list);
    assert_true(row->has_retired_at);
    assert_string_equal(row->retired_why.p, "superseded");
    quipu_free(list);
}

static void superseding_what_is_not_there_saves_nothing(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "new");
    quipu_error err = {0};

    memory.has_supersedes = true;
    memory.supersedes.b[0] = 7;
    assert_int_equal(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, &err),
                     QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "supersedes"));
    assert_int_equal(edit_count(store, "s", QUIPU_MEMORY_FIND_RETIRED), 0);
}

static void a_retired_memory_keeps_its_first_reason_and_is_in_no_list(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "wrong");
    quipu_memory_list *list = NULL;
    quipu_uuid id = edit_save(store, &memory);

    T_OK(edit_retire(store, id, "never said so"));
    T_OK(edit_retire(store, id, "another reason"));
    assert_int_equal(edit_count(store, "s", 0), 0);
    const quipu_memory *row = edit_get(store, id, &list);
    assert_string_equal(row->retired_why.p, "never said so");
    quipu_free(list);
    (void)edit_save(store, &memory); /* said again, later: a new one */
    assert_int_equal(edit_count(store, "s", 0), 1);
    assert_int_equal(edit_count(store, "s", QUIPU_MEMORY_FIND_RETIRED), 2);
}

static void an_edit_changes_what_is_known_and_how_it_is_recognized(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "met in 2019");
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    patch.kind = QUIPU_OBSERVATION;
    patch.id = edit_save(store, &memory);
    patch.set = QUIPU_MEMORY_SET_CONTENT | QUIPU_MEMORY_SET_PRIORITY | QUIPU_MEMORY_SET_SUBJECT;
    patch.content = QUIPU_STR("met in 2018, in Rome");
    patch.priority = QUIPU_PRIORITY_HIGH;
    patch.subject = QUIPU_STR("Ann");
    T_OK(quipu_memory_update(store, &patch, NULL, &list, &err));
    const quipu_memory *row = quipu_memory_at(list->memories, 0);
    assert_string_equal(row->content.p, "met in 2018, in Rome");
    assert_int_equal(row->token_count, quipu_token_estimate(row->content));
    assert_int_equal(row->priority, QUIPU_PRIORITY_HIGH);
    assert_string_equal(row->subject.p, "Ann");
    quipu_free(list);
    memory.content = QUIPU_STR("Met in 2018, in Rome.");
    (void)edit_save(store, &memory);
    assert_int_equal(edit_count(store, "s", 0), 1);
    memory.content = QUIPU_STR("something else");
    (void)edit_save(store, &memory);
    patch.content = memory.content;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "says the same"));
}

static void a_change_of_an_unknown_id_or_of_nothing_is_refused(void **state)
{
    quipu_store *store = *state;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error err = {0};

    patch.kind = QUIPU_OBSERVATION;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_MISUSE);
    patch.set = 1u << 20;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_MISUSE);
    patch.set = QUIPU_MEMORY_SET_PRIORITY;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_MISUSE);
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_NOT_FOUND);
    patch.kind = QUIPU_REFLECTION;
    assert_int_equal(quipu_memory_update(store, &patch, NULL, NULL, &err), QUIPU_NOT_FOUND);
}

static void texts_of_a_memory_have_limits(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "limits");
    char text[QUIPU_RETIRED_WHY_MAX + 1];
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;

    memset(text, 'x', sizeof(text));
    memory.subject = (quipu_str){text, QUIPU_SUBJECT_MAX + 1};
    assert_true(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, NULL) !=
                QUIPU_OK);
    memory.subject.n = QUIPU_SUBJECT_MAX;
    memory.origin = (quipu_str){text, QUIPU_ORIGIN_MAX + 1};
    assert_true(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, NULL) !=
                QUIPU_OK);
    memory.origin.n = QUIPU_ORIGIN_MAX;
    patch.kind = QUIPU_OBSERVATION;
    patch.id = edit_save(store, &memory);
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.why = (quipu_str){text, QUIPU_RETIRED_WHY_MAX + 1};
    assert_true(quipu_memory_update(store, &patch, NULL, NULL, NULL) != QUIPU_OK);
    patch.why.n = QUIPU_RETIRED_WHY_MAX;
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, NULL));
}

/* It would be an empty line in every prompt. */
static void a_memory_that_nobody_sees_is_refused(void **state)
{
    static const char *const texts[] = {"", " ", "\n\t\n", "\xe2\x80\x8b", "\xc2\xa0", "- #"};
    quipu_store *store = *state;
    quipu_memory memory = edit_fact("s", "seen");
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;

    patch.kind = QUIPU_OBSERVATION;
    patch.id = edit_save(store, &memory);
    patch.set = QUIPU_MEMORY_SET_CONTENT;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        memory.content = patch.content = quipu_cstr(texts[i]);
        T_STATUS(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, NULL),
                 QUIPU_INVALID);
        T_STATUS(quipu_memory_update(store, &patch, NULL, NULL, NULL), QUIPU_INVALID);
    }
}

static void an_export_carries_repeats_and_what_was_retired(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = NULL;
    quipu_memory memory = edit_fact("s", "kept");
    quipu_memory_list *list = NULL;
    quipu_uuid id;
    mt_stream stream;

    T_NOT_SERVED("a server does not import");
    target = st_open_new(NULL, NULL);
    st_create(store, "s");
    id = edit_save(store, &memory);
    (void)edit_save(store, &memory);
    memory.content = QUIPU_STR("gone");
    T_OK(edit_retire(store, edit_save(store, &memory), "why not"));
    stream = mt_export(store, NULL);
    (void)mt_import(target, &stream);
    assert_int_equal(edit_get(target, id, &list)->times, 2);
    quipu_free(list);
    assert_int_equal(edit_count(target, "s", 0), 1);
    assert_int_equal(edit_count(target, "s", QUIPU_MEMORY_FIND_RETIRED), 2);
    memory.content = QUIPU_STR("kept");
    (void)edit_save(target, &memory);
    assert_int_equal(edit_count(target, "s", 0), 1);
    mt_free(&stream);
    quipu_close(target);
}

static void a_correction_says_who_made_it_and_why(void **state)
{
    quipu_store *store = *state;
    const quipu_memory fact = edit_fact("s", "The user drinks tea.");
    const quipu_uuid id = edit_save(store, &fact);
    char who[QUIPU_EDITED_BY_MAX + 2];
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *list = NULL;
    const quipu_memory *memory = edit_get(store, id, &list);

    assert_false(memory->has_edited_at);
    quipu_free(list);
    memset(who, 'w', sizeof(who));
    patch.kind = QUIPU_OBSERVATION;
    patch.id = id;
    patch.set = QUIPU_MEMORY_SET_CONTENT;
    patch.content = QUIPU_STR("The user drinks coffee.");
    patch.why = QUIPU_STR("she said so");
    patch.who = (quipu_str){who, QUIPU_EDITED_BY_MAX + 1};
    T_STATUS(quipu_memory_update(store, &patch, NULL, NULL, NULL), QUIPU_INVALID);
    patch.who = (quipu_str){who, QUIPU_EDITED_BY_MAX};
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, NULL));
    patch.who = QUIPU_STR("support");
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, NULL));
    memory = edit_get(store, id, &list);
    assert_true(memory->has_edited_at);
    assert_string_equal(memory->edited_by.p, "support");
    assert_string_equal(memory->edited_why.p, "she said so");
    quipu_free(list);
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.who = QUIPU_STR("ann");
    patch.why = QUIPU_STR("no longer");
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, NULL));
    memory = edit_get(store, id, &list);
    assert_string_equal(memory->edited_by.p, "ann");
    assert_string_equal(memory->retired_why.p, "no longer");
    assert_null(memory->edited_why.p);
    quipu_free(list);
}

/* Imports an export in which a memory has another number. */
static quipu_status edit_import(quipu_store *store, const mt_stream *stream, const char *number,
                                quipu_error *reterr)
{
    mt_stream made = mt_replaced(stream, "\"content\":\"From a file.\"", "\"number\":1,", number);
    quipu_status status = mt_try_import(store, &made, 0, NULL, reterr);

    mt_free(&made);
    return status;
}

/* What verify would report does not come in, and what is at the limit does no harm. */
static void numbers_of_an_import_are_those_that_a_memory_can_have(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    T_NOT_SERVED("a server does not import");
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        quipu_store *target = st_open_new(NULL, NULL);
        quipu_memory memory = edit_fact("s", "From a file.");
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;
        mt_stream stream;

        st_create(store, "s");
        query.kind = memory.kind = (quipu_memory_kind)kind;
        query.session_key = QUIPU_STR("s");
        memory.generation = kind == QUIPU_REFLECTION ? 1 : 0;
        (void)edit_save(store, &memory);
        stream = mt_export(store, NULL);
        T_STATUS(edit_import(target, &stream, "\"number\":-1,", &err), QUIPU_INVALID);
        assert_non_null(strstr(err.message, "negative number"));
        T_OK(edit_import(target, &stream, "\"number\":9223372036854775807,", &err));
        memory.content = QUIPU_STR("Said later.");
        (void)edit_save(target, &memory);
        T_OK(quipu_memory_find(target, &query, NULL, &list, &err));
        assert_int_equal(list->memories.count, 2);
        quipu_free(list);
        mt_clean(target);
        mt_free(&stream);
        quipu_close(target);
        T_OK(quipu_session_delete(store, QUIPU_STR("s"), NULL, NULL, NULL, &err));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_correction_says_who_made_it_and_why),
        ST_TEST(the_same_fact_said_again_is_counted_and_stored_once),
        ST_TEST(without_an_origin_every_save_is_a_row),
        ST_TEST(a_fact_of_another_session_is_another_fact),
        ST_TEST(sessions_of_a_user_share_a_scope_and_nobody_elses),
        ST_TEST(a_memory_from_before_its_session_is_part_of_its_scope),
        ST_TEST(a_memory_that_supersedes_another_retires_it_in_one_transaction),
        ST_TEST(superseding_what_is_not_there_saves_nothing),
        ST_TEST(a_retired_memory_keeps_its_first_reason_and_is_in_no_list),
        ST_TEST(an_edit_changes_what_is_known_and_how_it_is_recognized),
        ST_TEST(a_change_of_an_unknown_id_or_of_nothing_is_refused),
        ST_TEST(texts_of_a_memory_have_limits),
        ST_TEST(a_memory_that_nobody_sees_is_refused),
        ST_TEST(an_export_carries_repeats_and_what_was_retired),
        ST_TEST(numbers_of_an_import_are_those_that_a_memory_can_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
