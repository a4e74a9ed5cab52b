/* Imports while memory runs out: every single failure is answered, nothing leaks, no half session
 * stays. */
#include "contract/import_t.h"

typedef struct import_sweep {
    const char *path;
    int64_t messages;
} import_sweep;

static void import_body(void *ctx)
{
    const import_sweep *sweep = ctx;
    quipu_store *store = NULL;
    quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    t_fault_pause(true);
    T_OK(quipu_open(":memory:", NULL, &store, &err));
    t_fault_pause(false);
    quipu_status status = quipu_source_import(store, sweep->path, NULL, NULL, &report, &err);
    t_fault_pause(true);
    if (t_fault_fired() == 0) {
        T_OK(status);
    }
    if (status == QUIPU_OK) {
        assert_int_equal(report.messages, sweep->messages);
    } else {
        assert_true(status == QUIPU_NOMEM || status == QUIPU_LIMIT);
    }
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, &err));
    assert_int_equal(verified.problems, 0);
    quipu_close(store);
    t_fault_pause(false);
}

/* `less` leaves only as much of the file as has a path of its own. */
static void import_swept(const char *name, const char *less, int64_t messages)
{
    char path[T_PATH_MAX];
    import_sweep sweep = {path, messages};

    t_fixture(name, path);
    import_exec(path, less);
    t_fault_install();
    assert_true(t_fault_sweep(import_body, &sweep) > 50);
    t_fault_remove();
}

static void an_import_of_pickles_answers_every_failed_allocation(void **state)
{
    (void)state;
    import_swept("adk-python-database-v0.db",
                 "DELETE FROM events WHERE id NOT IN ('ev-003', 'ev-010')", 2);
}

static void an_import_of_lango_answers_every_failed_allocation(void **state)
{
    (void)state;
    if (!t_long()) {
        printf("a file of 37 tables is swept in the long form only\n");
        return;
    }
    import_swept("lango-mattn.db",
                 "DELETE FROM sessions WHERE id = 2; DELETE FROM messages WHERE "
                 "session_messages = 2 OR id > 4; DELETE FROM observations WHERE rowid > 1",
                 (int64_t)2);
}

static void an_import_of_llm_answers_every_failed_allocation(void **state)
{
    (void)state;
    import_swept("llm-threads.db", "DELETE FROM threads WHERE name NOT LIKE 'Which%'", 4);
}

static void an_import_of_langgraph_answers_every_failed_allocation(void **state)
{
    (void)state;
    import_swept("langgraph.db", "DELETE FROM checkpoints WHERE thread_id <> 'other'", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_import_of_pickles_answers_every_failed_allocation),
        cmocka_unit_test(an_import_of_lango_answers_every_failed_allocation),
        cmocka_unit_test(an_import_of_llm_answers_every_failed_allocation),
        cmocka_unit_test(an_import_of_langgraph_answers_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
