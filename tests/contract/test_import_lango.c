/* Lango's files brought into a store that exists: the same as adopting them, beside what is there.
 */
#include "contract/import_t.h"
#include "contract/maintain_t.h"
#include "lib/short.h"

static quipu_history *import_history(quipu_store *store, const char *key)
{
    quipu_history *history = NULL;
    quipu_error err = {0};

    T_OK(quipu_session_get(store, quipu_cstr(key), NULL, NULL, &history, &err));
    return history;
}

static void import_check_same(const quipu_history *a, const quipu_history *b)
{
    quipu_arena arena = QUIPU_ARENA_INIT;

    assert_int_equal(a->messages.count, b->messages.count);
    for (size_t i = 0; i < a->messages.count; i++) {
        quipu_str x = {NULL, 0};
        quipu_str y = {NULL, 0};
        T_OK(t_message_json(quipu_message_at(a->messages, i), &arena, &x, NULL));
        T_OK(t_message_json(quipu_message_at(b->messages, i), &arena, &y, NULL));
        T_STR(x, y.p);
    }
    assert_int_equal(a->session->token_count, b->session->token_count);
    assert_int_equal(quipu_time_cmp(a->session->created_at, b->session->created_at), 0);
    assert_int_equal(quipu_time_cmp(a->session->updated_at, b->session->updated_at), 0);
    assert_true(quipu_str_eq(a->session->model, b->session->model));
    assert_true(quipu_str_eq(a->session->metadata.text, b->session->metadata.text));
    quipu_arena_free(&arena);
}

static void import_check_memories(quipu_store *a, quipu_store *b, quipu_memory_kind kind,
                                  const char *key, int64_t *total)
{
    quipu_memory_list *x = NULL;
    quipu_memory_list *y = NULL;

    T_OK(t_memory_list(a, kind, quipu_cstr(key), 0, NULL, &x, NULL));
    T_OK(t_memory_list(b, kind, quipu_cstr(key), 0, NULL, &y, NULL));
    assert_int_equal(x->memories.count, y->memories.count);
    for (size_t i = 0; i < x->memories.count; i++) {
        assert_memory_equal(quipu_memory_at(x->memories, i)->id.b,
                            quipu_memory_at(y->memories, i)->id.b, 16);
        T_STR(quipu_memory_at(x->memories, i)->content, quipu_memory_at(y->memories, i)->content.p);
        assert_int_equal(quipu_memory_at(x->memories, i)->source_start,
                         quipu_memory_at(y->memories, i)->source_start);
        assert_int_equal(quipu_memory_at(x->memories, i)->source_end,
                         quipu_memory_at(y->memories, i)->source_end);
        assert_int_equal(quipu_memory_at(x->memories, i)->generation,
                         quipu_memory_at(y->memories, i)->generation);
    }
    *total += (int64_t)x->memories.count;
    quipu_free(x);
    quipu_free(y);
}

/* Import a fixture, adopt a copy of it, and compare. */
static void import_check_fixture(const char *name)
{
    static const char *const keys[] = {"telegram:123:456", "direct-plain"};
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_store *store;
    quipu_store *adopted;
    int64_t memories = 0;

    t_fixture(name, path);
    t_fixture(name, copy);
    store = st_open_new(NULL, NULL);
    st_create(store, "mine");
    adopted = st_open(copy);
    const quipu_source_report report = import_ok(store, path, NULL);
    assert_int_equal(report.kind, QUIPU_SOURCE_LANGO);
    assert_int_equal(report.sessions, 2);
    assert_int_equal(report.messages, 9);
    assert_int_equal(report.memories, 5);
    assert_int_equal(report.orphans, 0);
    for (size_t i = 0; i < 2; i++) {
        quipu_history *ours = import_history(store, keys[i]);
        quipu_history *theirs = import_history(adopted, keys[i]);
        assert_int_equal(ours->messages.count, i == 0 ? 7 : 2);
        import_check_same(ours, theirs);
        quipu_free(ours);
        quipu_free(theirs);
        import_check_memories(store, adopted, QUIPU_OBSERVATION, keys[i], &memories);
        import_check_memories(store, adopted, QUIPU_REFLECTION, keys[i], &memories);
    }
    assert_int_equal(memories, 5);
    const quipu_source_report again = import_ok(store, path, NULL);
    assert_int_equal(again.skipped, 2);
    assert_int_equal(again.sessions + again.messages + again.memories, 0);
    quipu_close(adopted);
    quipu_close(store);
}

static void a_file_by_mattn_comes_in_as_if_adopted(void **state)
{
    (void)state;
    import_check_fixture("lango-mattn.db");
}

static void a_file_by_modernc_comes_in_as_if_adopted(void **state)
{
    (void)state;
    import_check_fixture("lango-modernc.db");
}

static void orphans_are_counted_and_left_out(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("lango-mattn.db", path);
    import_exec(path, "UPDATE messages SET session_messages = NULL WHERE id = 2;"
                      "UPDATE messages SET session_messages = 77 WHERE id = 10");
    const quipu_source_report report = import_ok(store, path, NULL);
    assert_int_equal(report.orphans, 2);
    assert_int_equal(report.messages, 7);
    assert_int_equal(report.sessions, 2);
    quipu_close(store);
}

static void an_early_file_without_authors_and_memory_comes_in(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("lango-modernc.db", path);
    import_exec(path, "ALTER TABLE messages DROP COLUMN author; DROP TABLE observations;"
                      "DROP TABLE reflections");
    const quipu_source_report report = import_ok(store, path, NULL);
    assert_int_equal(report.messages, 9);
    assert_int_equal(report.memories, 0);
    quipu_close(store);
}

static void the_file_itself_stays_as_it_was(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("lango-mattn.db", path);
    t_fixture("lango-mattn.db", copy);
    (void)import_ok(store, path, NULL);
    assert_true(t_file_equal(path, copy));
    quipu_close(store);
}

/* Lango counts messages from 0, quipu from 1: the highest number has none above it. */
static void an_observation_of_the_last_number_comes_in_and_one_behind_it_is_refused(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    t_fixture("lango-mattn.db", path);
    import_exec(path, "UPDATE observations SET source_end_index = 9223372036854775807");
    T_STATUS(quipu_source_import(store, path, NULL, NULL, NULL, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "to 9223372036854775807, which cannot be"));
    import_exec(path, "UPDATE observations SET source_end_index = 9223372036854775806");
    assert_int_equal(import_ok(store, path, NULL).memories, 5);
    quipu_close(store);
}

/* What no program of Lango's writes: the sums of the import would overflow, or verify would find
 * the rows afterwards. The first pass finds each, also in a dry run. */
static void impossible_numbers_of_a_memory_stop_the_import_before_anything_is_written(void **state)
{
    static const char *const updates[] = {
        "observations SET source_start_index = 9223372036854775807",
        "observations SET source_end_index = 9223372036854775807",
        "observations SET source_start_index = -1",
        "observations SET source_start_index = (-9223372036854775807 - 1)",
        "observations SET source_end_index = (-9223372036854775807 - 1)",
        ("observations SET source_start_index = 9223372036854775807, "
         "source_end_index = 9223372036854775807"),
        "observations SET token_count = -1",
        "observations SET token_count = (-9223372036854775807 - 1)",
        "reflections SET token_count = -1",
        "reflections SET token_count = (-9223372036854775807 - 1)",
        "reflections SET generation = -1",
        "reflections SET generation = (-9223372036854775807 - 1)",
    };
    quipu_source_options dry = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    dry.flags = QUIPU_SOURCE_DRY_RUN;
    for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++) {
        char path[T_PATH_MAX];
        char sql[256];
        quipu_error err = {0};

        t_fixture("lango-mattn.db", path);
        (void)snprintf(sql, sizeof(sql), "UPDATE %s", updates[i]);
        import_exec(path, sql);
        T_STATUS(quipu_source_import(store, path, &dry, NULL, NULL, &err), QUIPU_INVALID);
        import_refused(store, path, QUIPU_INVALID, "cannot be; correct or delete it");
    }
    quipu_close(store);
}

static void memories_at_their_limits_come_in_and_verify_clean(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    t_fixture("lango-mattn.db", path);
    import_exec(path, "UPDATE observations SET source_end_index = 9223372036854775806, "
                      "token_count = 9223372036854775807;"
                      "UPDATE reflections SET token_count = 9223372036854775807, "
                      "generation = 9223372036854775807");
    assert_int_equal(import_ok(store, path, NULL).memories, 5);
    mt_clean(store);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_by_mattn_comes_in_as_if_adopted),
        cmocka_unit_test(a_file_by_modernc_comes_in_as_if_adopted),
        cmocka_unit_test(orphans_are_counted_and_left_out),
        cmocka_unit_test(an_early_file_without_authors_and_memory_comes_in),
        cmocka_unit_test(the_file_itself_stays_as_it_was),
        cmocka_unit_test(an_observation_of_the_last_number_comes_in_and_one_behind_it_is_refused),
        cmocka_unit_test(impossible_numbers_of_a_memory_stop_the_import_before_anything_is_written),
        cmocka_unit_test(memories_at_their_limits_come_in_and_verify_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
