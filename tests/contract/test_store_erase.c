/* Erasing: no byte of the text is left in the file, its log or the index; forks go too; the receipt
 * names what went and what is out of reach. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#define SECRET "xyzzysecretmarker"

static bool in_list(const quipu_str *items, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (quipu_str_eq(items[i], quipu_cstr(text))) {
            return true;
        }
    }
    return false;
}

static size_t hits(quipu_store *store, const char *words)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    size_t count;

    options.query = quipu_cstr(words);
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    count = results->hits.count;
    quipu_free(results);
    return count;
}

static void say(quipu_store *store, const char *key, const char *text)
{
    const quipu_tool_call call = {
        .id = QUIPU_STR("c"), .name = QUIPU_STR("tool"), .input = quipu_cstr(text)};
    quipu_message message = {.role = QUIPU_ROLE_MODEL,
                             .content = quipu_cstr(text),
                             .author = quipu_cstr(text),
                             .calls = quipu_tool_calls_of(&call, 1)};
    quipu_error err = {0};

    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

static void create(quipu_store *store, const char *key, const char *app, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    values.metadata = (quipu_json){QUIPU_STR("{\"note\":\"" SECRET "-metadata\"}")};
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* Sessions that grow side by side, so that their rows lie and move among each other's. */
static void interleave(quipu_store *store, int rounds)
{
    char text[4000];
    uint64_t random = 7;

    for (int i = 0; i < rounds; i++) {
        size_t n = 40 + (size_t)t_random_below(&random, 3600);
        memset(text, 'p', n);
        text[n] = '\0';
        say(store, "other", text);
        for (size_t at = 0; at + 30 < n; at += 30) {
            memcpy(text + at, SECRET " word ", sizeof(SECRET " word ") - 1);
        }
        say(store, "victim", text);
        if (i % 7 == 0) {
            say(store, "fork", text);
        }
    }
}

static void erased_session_leaves_no_byte(void **state)
{
    static const uint32_t flags[] = {0, QUIPU_ERASE_QUICK};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[T_PATH_MAX];
        quipu_store *store = st_open_new(NULL, path);
        quipu_erasure *erasure = NULL;
        quipu_error err = {0};

        st_create(store, "other");
        create(store, "victim", "", "");
        say(store, "victim", SECRET);
        mt_fork(store, "victim", 1, "fork");
        interleave(store, 60);
        mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "victim", "n", "\"" SECRET "-state\"");
        mt_memory(store, QUIPU_OBSERVATION, "victim", SECRET " seen");
        mt_memory(store, QUIPU_REFLECTION, "fork", SECRET " thought");
        assert_true(hits(store, SECRET) > 0); /* it is in the index too */
        say(store, "victim", SECRET " behind the index");
        assert_true(mt_files_hold(path, SECRET));

        T_OK(t_session_erase(store, QUIPU_STR("victim"), flags[i], NULL, &erasure, &err));
        assert_false(mt_files_hold(path, SECRET));
        assert_int_equal(erasure->session_count, 1);
        T_STR(erasure->sessions[0], "victim");
        assert_int_equal(erasure->fork_count, 1);
        T_STR(erasure->forks[0], "fork");
        assert_int_equal(erasure->messages, 62 + 9);
        assert_int_equal(erasure->states, 1);
        assert_int_equal(erasure->memories, 2);
        assert_int_equal(erasure->backup_count, 0);
        quipu_free(erasure);

        assert_int_equal(st_get_status(store, "victim"), QUIPU_NOT_FOUND);
        assert_int_equal(st_get_status(store, "fork"), QUIPU_NOT_FOUND);
        assert_int_equal(hits(store, SECRET), 0);
        quipu_history *history = st_get(store, "other", NULL);
        assert_int_equal(history->messages.count, 60);
        quipu_free(history);
        mt_clean(store);
        quipu_close(store);
        assert_false(mt_files_hold(path, SECRET));
    }
}

static void shared_past_stays_with_its_owner(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "owner");
    say(store, "owner", "of the owner");
    mt_fork(store, "owner", 1, "fork");
    say(store, "fork", SECRET);
    T_OK(t_session_erase(store, QUIPU_STR("fork"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->fork_count, 0);
    quipu_free(erasure);
    assert_false(mt_files_hold(path, SECRET));
    quipu_history *history = st_get(store, "owner", NULL);
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
    mt_clean(store);
    quipu_close(store);
}

static void past_that_was_kept_for_a_fork_goes_with_it(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "owner");
    say(store, "owner", SECRET);
    mt_fork(store, "owner", 1, "fork");
    T_OK(quipu_session_delete(store, QUIPU_STR("owner"), NULL, NULL, NULL, &err));
    assert_true(mt_files_hold(path, SECRET));
    T_OK(t_session_erase(store, QUIPU_STR("fork"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->hidden, 1);
    assert_int_equal(erasure->messages, 1);
    quipu_free(erasure);
    assert_false(mt_files_hold(path, SECRET));
    mt_clean(store);
    quipu_close(store);
}

static void text_that_was_only_deleted_goes_with_the_next_erase(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "gone");
    say(store, "gone", SECRET);
    assert_int_equal(hits(store, SECRET), 1);
    T_OK(quipu_session_delete(store, QUIPU_STR("gone"), NULL, NULL, NULL, &err));
    mt_memory(store, QUIPU_OBSERVATION, "gone", SECRET);
    T_OK(t_session_erase(store, QUIPU_STR("gone"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->session_count, 0);
    assert_int_equal(erasure->memories, 1);
    quipu_free(erasure);
    assert_false(mt_files_hold(path, SECRET));
    quipu_close(store);
}

static void erased_user_leaves_no_byte(void **state)
{
    char path[T_PATH_MAX];
    char key[32];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erasure *erasure = NULL;
    const int count = QUIPU_SWEEP_BATCH + 5; /* more than one transaction */
    quipu_error err = {0};

    (void)state;
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "s%d", i);
        create(store, key, "app", "ann");
        say(store, key, SECRET);
    }
    create(store, "elsewhere", "app2", "ann");
    mt_fork(store, "s0", 1, "of another");
    say(store, "of another", SECRET);
    create(store, "deleted", "app", "ann");
    say(store, "deleted", SECRET);
    mt_fork(store, "deleted", 1, "kept");
    T_OK(quipu_session_delete(store, QUIPU_STR("deleted"), NULL, NULL, NULL, &err));
    st_create(store, "bob");
    say(store, "bob", "of bob");
    mt_state(path, QP_STATE_SCOPE_USER, "app", "ann", NULL, "lang", "\"" SECRET "\"");
    mt_state(path, QP_STATE_SCOPE_USER, "app", "bob", NULL, "lang", "\"bobs\"");
    mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "s1", "n", "\"" SECRET "\"");

    T_OK(t_user_erase(store, QUIPU_STR("app"), QUIPU_STR("ann"), 0, NULL, &erasure, &err));
    /* The fork of a deleted session and its own are ann's too: forks inherit the user. */
    assert_int_equal(erasure->session_count + erasure->fork_count, (size_t)count + 2);
    assert_true(in_list(erasure->sessions, erasure->session_count, "s104"));
    assert_true(in_list(erasure->sessions, erasure->session_count, "kept") ||
                in_list(erasure->forks, erasure->fork_count, "kept"));
    assert_true(in_list(erasure->forks, erasure->fork_count, "of another"));
    assert_int_equal(erasure->hidden, 1);
    assert_int_equal(erasure->states, 2);
    quipu_free(erasure);
    assert_int_equal(st_get_status(store, "elsewhere"), QUIPU_OK);
    assert_int_equal(st_get_status(store, "bob"), QUIPU_OK);
    mt_clean(store);

    T_OK(t_user_erase(store, (quipu_str){NULL, 0}, QUIPU_STR("ann"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->session_count, 1);
    T_STR(erasure->sessions[0], "elsewhere");
    quipu_free(erasure);
    assert_false(mt_files_hold(path, SECRET));
    assert_true(mt_files_hold(path, "bobs"));
    mt_clean(store);
    quipu_close(store);
}

static void receipt_names_the_backups_beside_the_file(void **state)
{
    T_SQLITE_ONLY("a server's backups lie elsewhere");

    char path[T_PATH_MAX];
    char backup[T_PATH_MAX + 64];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    say(store, "k", SECRET);
    snprintf(backup, sizeof(backup), "%s.bak-step-20260101T000000000000005Z", path);
    T_OK(quipu_store_backup(store, backup, NULL, &err));
    T_OK(t_session_erase(store, QUIPU_STR("k"), 0, NULL, &erasure, &err));
    assert_int_equal(erasure->backup_count, 1);
    T_STR(erasure->backups[0], backup);
    assert_true(mt_files_hold(backup, SECRET)); /* out of reach, as the receipt says */
    assert_false(mt_files_hold(path, SECRET));
    quipu_free(erasure);
    quipu_close(store);
}

static void reader_in_the_way_is_reported_and_the_repeat_cleans(void **state)
{
    char path[T_PATH_MAX];
    T_SQLITE_ONLY("a server's readers are in nobody's way");
    quipu_store *store = st_open_new(NULL, path);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    ent_db *reader = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    say(store, "k", SECRET);
    options.flags = ENT_SQLITE_READ_ONLY;
    T_OK(ent_sqlite_open(path, &options, &reader, &err));
    T_OK(ent_begin(reader, ENT_READ, &err));
    call.deadline_ms = 200;
    T_STATUS(t_session_erase(store, QUIPU_STR("k"), 0, &call, NULL, &err), QUIPU_BUSY);
    assert_non_null(strstr(err.message, "repeat"));
    assert_int_equal(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    ent_rollback(reader);
    T_OK(t_session_erase(store, QUIPU_STR("k"), 0, &call, NULL, &err));
    assert_false(mt_files_hold(path, SECRET));
    ent_close(reader);
    quipu_close(store);
}

static void wrong_calls_are_refused(void **state)
{
    quipu_store *store = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *reader = st_open_new(NULL, path);
    quipu_store *memory = NULL;
    quipu_error err = {0};

    T_STATUS(t_user_erase(store, QUIPU_STR("a"), QUIPU_STR(""), 0, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(t_user_erase(store, QUIPU_STR("a"), QUIPU_STR("\xff"), 0, NULL, NULL, &err),
             QUIPU_INVALID);
    T_STATUS(t_session_erase(store, QUIPU_STR("a"), 2, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(t_session_erase(store, QUIPU_STR(""), 0, NULL, NULL, &err), QUIPU_INVALID);
    T_STATUS(t_session_erase(NULL, QUIPU_STR("a"), 0, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(reader);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &reader, &err));
    T_STATUS(t_session_erase(reader, QUIPU_STR("a"), 0, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(reader);
    T_OK(quipu_open(":memory:", NULL, &memory, &err));
    st_create(memory, "k");
    T_OK(t_session_erase(memory, QUIPU_STR("k"), 0, NULL, NULL, &err));
    assert_int_equal(st_get_status(memory, "k"), QUIPU_NOT_FOUND);
    quipu_close(memory);
    quipu_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(erased_session_leaves_no_byte),
        cmocka_unit_test(shared_past_stays_with_its_owner),
        cmocka_unit_test(past_that_was_kept_for_a_fork_goes_with_it),
        cmocka_unit_test(text_that_was_only_deleted_goes_with_the_next_erase),
        cmocka_unit_test(erased_user_leaves_no_byte),
        cmocka_unit_test(receipt_names_the_backups_beside_the_file),
        cmocka_unit_test(reader_in_the_way_is_reported_and_the_repeat_cleans),
        ST_TEST(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
