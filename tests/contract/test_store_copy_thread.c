/* Copying a store: equal byte for byte, completed when it was cut, never mixed into another one. */
#include "contract/maintain_t.h"

#define SESSIONS 40
#define MESSAGE_BYTES 40000

static void same_exports(quipu_store *a, quipu_store *b)
{
    mt_stream first = mt_export(a, NULL);
    mt_stream second = mt_export(b, NULL);

    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.p, second.p, first.n);
    mt_free(&first);
    mt_free(&second);
}

static quipu_copied copy(quipu_store *source, quipu_store *target)
{
    quipu_copied copied = QUIPU_COPIED_INIT;
    quipu_error err = {0};
    quipu_status status = quipu_store_copy(source, target, NULL, NULL, &copied, &err);

    if (status != QUIPU_OK) {
        fail_msg("copy: %s (%s)", quipu_status_name(status), err.message);
    }
    return copied;
}

/* Enough that it does not fit the pipe between the two ends. */
static void fill_large(quipu_store *store)
{
    char *text = malloc(MESSAGE_BYTES + 1);

    assert_non_null(text);
    memset(text, 'x', MESSAGE_BYTES);
    text[MESSAGE_BYTES] = '\0';
    for (int i = 0; i < SESSIONS; i++) {
        char key[32];
        snprintf(key, sizeof(key), "large-%02d", i);
        st_create(store, key);
        st_append(store, key, text);
        st_append(store, key, "and on");
    }
    free(text);
}

/* ---- whole ------------------------------------------------------------------------------------
 */

static void copy_exports_byte_for_byte(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *target = st_open_new(NULL, NULL);

    (void)state;
    mt_fill(store, path);
    quipu_copied copied = copy(store, target);
    mt_stream stream = mt_export(store, NULL);
    assert_int_equal(copied.bytes, stream.n);
    assert_int_equal(copied.sessions, 10);
    assert_int_equal(copied.added_sessions, 10);
    assert_int_equal(copied.added_states, 4);
    assert_int_equal(copied.added_memories, 5);
    same_exports(store, target);
    mt_clean(target);

    /* Once more: all of it is there. */
    quipu_copied again = copy(store, target);
    assert_int_equal(again.added_sessions, 0);
    assert_int_equal(again.skipped, 10);
    assert_memory_equal(again.sha256, copied.sha256, sizeof(copied.sha256));
    same_exports(store, target);
    mt_free(&stream);
    quipu_close(store);
    quipu_close(target);
}

/* With PostgreSQL under test: out of the server, into a file, and back into the server. */
static void copy_goes_from_engine_to_engine_and_back(void **state)
{
    char path[T_PATH_MAX];
    char file[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *back = st_open_new(NULL, NULL);
    quipu_store *middle;

    (void)state;
    t_path(t_tmpdir(), "file.db", file);
    middle = st_open(file);
    mt_fill(store, path);
    quipu_copied there = copy(store, middle);
    same_exports(store, middle);
    mt_clean(middle);
    quipu_copied here = copy(middle, back);
    same_exports(store, back);
    mt_clean(back);
    assert_memory_equal(there.sha256, here.sha256, sizeof(there.sha256));

    /* Both go on alike: the fork has its past there too. */
    assert_int_equal(st_append(middle, "fork of fork", "on"), 7);
    assert_int_equal(st_append(back, "orphan", "on"), 5);
    quipu_close(store);
    quipu_close(middle);
    quipu_close(back);
}

static void copy_goes_through_stores_in_memory(void **state)
{
    quipu_store *store = *state;
    quipu_store *memory = st_open(":memory:");
    quipu_store *target = st_open_new(NULL, NULL);

    fill_large(store);
    atomic_store(&t_pg_calm, true); /* its export is longer than what is held back */
    (void)copy(store, memory);
    (void)copy(memory, target);
    same_exports(store, target);
    atomic_store(&t_pg_calm, false);
    quipu_close(memory);
    quipu_close(target);
}

static void empty_store_is_copied(void **state)
{
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_copied copied = copy(*state, target);

    assert_int_equal(copied.sessions, 0);
    assert_int_equal(copied.lines, 2);
    quipu_close(target);
}

/* ---- cut --------------------------------------------------------------------------------------
 */

typedef struct cut {
    quipu_cancel *cancel;
    int64_t at_lines;
    int64_t lines;
    int64_t checked;
} cut;

static void cut_hear(void *ctx, const quipu_copy_progress *progress)
{
    cut *heard = ctx;

    if (progress->checking) {
        assert_true(progress->lines <= progress->lines_total);
        heard->checked = progress->lines;
    } else {
        assert_true(progress->lines >= heard->lines);
        heard->lines = progress->lines;
    }
    if (heard->at_lines > 0 && progress->lines >= heard->at_lines) {
        quipu_cancel_set(heard->cancel);
    }
}

static void copy_that_was_cut_is_completed_by_the_next(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_copy_options options = QUIPU_COPY_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_copied copied = QUIPU_COPIED_INIT;
    cut heard = {.cancel = quipu_cancel_new(), .at_lines = SESSIONS};
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    fill_large(store);
    atomic_store(&t_pg_calm, true); /* its export is longer than what is held back */
    options.progress = cut_hear;
    options.ctx = &heard;
    call.cancel = heard.cancel;
    T_STATUS(quipu_store_copy(store, target, &options, &call, &copied, &err), QUIPU_CANCELLED);
    assert_int_equal(copied.bytes, 0);
    mt_clean(target);
    T_OK(quipu_store_stats(target, NULL, NULL, &stats, &err));
    assert_in_range(stats.sessions, 1, SESSIONS - 1);

    heard.at_lines = heard.lines = 0;
    T_OK(quipu_store_copy(store, target, &options, NULL, &copied, &err));
    assert_int_equal(copied.skipped, stats.sessions);
    assert_int_equal(copied.added_sessions, SESSIONS - stats.sessions);
    assert_int_equal(heard.lines, copied.lines);
    assert_int_equal(heard.checked, copied.lines);
    same_exports(store, target);
    atomic_store(&t_pg_calm, false);
    quipu_free(heard.cancel);
    quipu_close(target);
}

static void deadline_ends_a_copy(void **state)
{
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_cancel *cancel = quipu_cancel_new();
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};

    fill_large(*state);
    quipu_cancel_set(cancel);
    call.cancel = cancel;
    T_STATUS(quipu_store_copy(*state, target, NULL, &call, NULL, &err), QUIPU_CANCELLED);
    call = (quipu_call_options)QUIPU_CALL_OPTIONS_INIT;
    call.deadline_ms = 1;
    T_STATUS(quipu_store_copy(*state, target, NULL, &call, NULL, &err), QUIPU_BUSY);
    quipu_free(cancel);
    quipu_close(target);
}

/* ---- refused ----------------------------------------------------------------------------------
 */

static void target_of_others_stays_as_it_was(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_error err = {0};

    st_create(store, "mine");
    st_create(target, "theirs");
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "\"theirs\""));
    assert_int_equal(st_get_status(target, "mine"), QUIPU_NOT_FOUND);
    st_create(store, "theirs"); /* of the same name, but another one */
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    assert_int_equal(st_get_status(target, "mine"), QUIPU_NOT_FOUND);
    quipu_close(target);
}

static void memory_of_others_in_the_target_is_noticed(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_error err = {0};

    st_create(store, "a");
    mt_memory(target, QUIPU_OBSERVATION, "nobody", "strange");
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "1 memories for 0"));
    quipu_close(target);
}

static void other_value_under_the_same_name_is_noticed(void **state)
{
    char path[T_PATH_MAX];
    char target_path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *target = st_open_new(NULL, target_path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "a");
    mt_state(path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"dark\"");
    mt_state(target_path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"light\"");
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "SHA-256")); /* the newer one stays, and counts agree */
    quipu_close(store);
    quipu_close(target);
}

static void source_that_went_on_is_a_conflict(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_error err = {0};

    st_create(store, "a");
    (void)copy(store, target);
    st_create(store, "b"); /* a new session is no harm */
    (void)copy(store, target);
    same_exports(store, target);
    st_append(store, "a", "more");
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_CONFLICT);
    assert_non_null(strstr(err.message, "\"a\""));
    quipu_close(target);
}

static void copy_reports_the_failure_of_its_source(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *target = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    mt_fill(store, path);
    if (t_pg()) {
        t_pg_execute(path, "UPDATE messages SET event_id = '\\x07' WHERE seq = 3");
    } else {
        mt_sql(path, "UPDATE messages SET event_id = x'07' WHERE seq = 3");
    }
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_CORRUPT);
    assert_non_null(strstr(err.message, "event id of message 3"));
    mt_clean(target);
    quipu_close(store);
    quipu_close(target);
}

static void copy_refuses_what_is_no_copy(void **state)
{
    quipu_store *store = *state;
    quipu_open_options reading = QUIPU_OPEN_OPTIONS_INIT;
    quipu_copy_options options = QUIPU_COPY_OPTIONS_INIT;
    quipu_store *target = NULL;
    char path[T_PATH_MAX];
    quipu_error err = {0};

    quipu_close(st_open_new(NULL, path));
    reading.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &reading, &target, &err));
    st_create(store, "a");
    T_STATUS(quipu_store_copy(store, store, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_copy(store, NULL, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_copy(NULL, store, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_copy(store, target, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    options.flags = 1;
    T_STATUS(quipu_store_copy(store, target, &options, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(target);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static void sweep_body(void *path)
{
    quipu_store *source = NULL;
    quipu_store *target = NULL;
    quipu_error err = {0};
    quipu_status status;

    t_fault_pause(true);
    source = st_open(path);
    target = st_open(":memory:");
    t_fault_pause(false);
    status = quipu_store_copy(source, target, NULL, NULL, NULL, &err);
    t_fault_pause(true);
    if (t_fault_fired() == 0) {
        assert_int_equal(status, QUIPU_OK);
    } else if (status != QUIPU_OK && status != QUIPU_NOMEM) {
        fail_msg("%s: %s", quipu_status_name(status), err.message);
    }
    (void)copy(source, target);
    quipu_close(target);
    quipu_close(source);
    t_fault_pause(false);
}

static void copy_without_memory_fails_and_is_completed(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *source;

    (void)state;
    t_path(t_tmpdir(), "file.db", path); /* opened hundreds of times: no server takes that fast */
    source = st_open(path);
    st_create(source, "root");
    st_append_many(source, "root", 3);
    mt_fork(source, "root", 2, "fork");
    mt_memory(source, QUIPU_OBSERVATION, "root", "saw");
    quipu_close(source);
    t_fault_install();
    assert_in_range(t_fault_sweep(sweep_body, path), 10, 100000);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_exports_byte_for_byte),
        cmocka_unit_test(copy_goes_from_engine_to_engine_and_back),
        ST_TEST(copy_goes_through_stores_in_memory),
        ST_TEST(empty_store_is_copied),
        ST_TEST(copy_that_was_cut_is_completed_by_the_next),
        ST_TEST(deadline_ends_a_copy),
        ST_TEST(target_of_others_stays_as_it_was),
        ST_TEST(memory_of_others_in_the_target_is_noticed),
        cmocka_unit_test(other_value_under_the_same_name_is_noticed),
        ST_TEST(source_that_went_on_is_a_conflict),
        cmocka_unit_test(copy_reports_the_failure_of_its_source),
        ST_TEST(copy_refuses_what_is_no_copy),
        cmocka_unit_test(copy_without_memory_fails_and_is_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
