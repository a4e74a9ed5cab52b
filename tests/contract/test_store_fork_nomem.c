/* Every allocation of the library failed, once and from then on, in the calls about long histories:
 * the right error, nothing half done, nothing leaked, and the next call works. */
#include "contract/history_t.h"
#include "lib/short.h"

#define P QUIPU_STR("p")
#define F QUIPU_STR("f")

typedef struct nomem_op {
    const char *name;
    quipu_status (*run)(quipu_store *store, quipu_error *err);
    /* Before the call, or after one that failed; and after one that went well. */
    void (*untouched)(quipu_store *store);
    void (*done)(quipu_store *store);
    int64_t cap;
} nomem_op;

/* Two compactions in a parent, a fork of it, and a fork of that one. */
static void nomem_world(quipu_store *store)
{
    st_create(store, "p");
    ht_script(store, "p", "uaua");
    assert_int_equal(ht_compact(store, "p", 1, "one"), 5);
    ht_script(store, "p", "ua");
    assert_int_equal(ht_compact(store, "p", 2, "two"), 8);
    ht_fork(store, "p", 8, "f");
    ht_script(store, "f", "ua");
    ht_fork(store, "f", 9, "g");
}

static void nomem_same(quipu_store *store)
{
    HT_ALL(store, "p", "1 2 3 4 5 6 7 8");
    HT_VIEW(store, "p", "8 3 4 6 7");
    HT_ALL(store, "f", "1 2 3 4 5 6 7 8 9 10");
    HT_ALL(store, "g", "1 2 3 4 5 6 7 8 9");
    T_STATUS(st_get_status(store, "new"), QUIPU_NOT_FOUND);
}

/* ---- the calls --------------------------------------------------------------------------------
 */

static quipu_status run_fork(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("new");

    return quipu_session_fork(store, F, 6, &values, NULL, NULL, err);
}

static void done_fork(quipu_store *store)
{
    HT_VIEW(store, "new", "5 2 3 4 6");
}

static quipu_status run_compact(quipu_store *store, quipu_error *err)
{
    return quipu_session_compact(store, F, T_COMPACT(9, QUIPU_STR("more")), NULL, NULL, err);
}

static void done_compact(quipu_store *store)
{
    HT_VIEW(store, "f", "11 10");
}

static quipu_status run_uncompact(quipu_store *store, quipu_error *err)
{
    return quipu_session_compact(store, F, T_COMPACT_UNDO, NULL, NULL, err);
}

static void done_uncompact(quipu_store *store)
{
    HT_VIEW(store, "f", "5 2 3 4 6 7 9 10");
}

static quipu_status run_prune(quipu_store *store, quipu_error *err)
{
    return quipu_session_prune(store, P, NULL, NULL, err);
}

static void done_prune(quipu_store *store)
{
    HT_ALL(store, "p", "3 4 5 6 7 8");
    HT_ALL(store, "f", "1 2 3 4 5 6 7 8 9 10");
}

static quipu_status run_delete(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, F, NULL, NULL, NULL, err);
}

static void done_delete(quipu_store *store)
{
    T_STATUS(st_get_status(store, "f"), QUIPU_NOT_FOUND);
    HT_ALL(store, "g", "1 2 3 4 5 6 7 8 9");
}

static quipu_status run_delete_tree(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, P,
                                &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                        .flags = QUIPU_DELETE_TREE},
                                NULL, NULL, err);
}

static void done_delete_tree(quipu_store *store)
{
    T_STATUS(st_get_status(store, "p"), QUIPU_NOT_FOUND);
    T_STATUS(st_get_status(store, "f"), QUIPU_NOT_FOUND);
    T_STATUS(st_get_status(store, "g"), QUIPU_NOT_FOUND);
}

static quipu_status run_window(quipu_store *store, quipu_error *err)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;

    options.token_budget = 25;
    quipu_status status = quipu_window_read(store, F, &options, NULL, &window, err);
    assert_int_equal(status == QUIPU_OK, window != NULL);
    quipu_free(window);
    return status;
}

static quipu_status run_view(quipu_store *store, quipu_error *err)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;

    range.flags = QUIPU_RANGE_VIEW;
    quipu_status status = quipu_session_get(store, F, &range, NULL, &history, err);
    quipu_free(history);
    return status;
}

/* In a store whose cap this append passes. */
static quipu_status run_capped(quipu_store *store, quipu_error *err)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, "last");

    message.event_id = QUIPU_STR("e");
    return quipu_message_append(store, F, quipu_messages_of(&message, 1), NULL, NULL, NULL, err);
}

static void done_capped(quipu_store *store)
{
    HT_ALL(store, "f", "3 4 5 6 7 8 9 10 11");
}

static const nomem_op nomem_ops[] = {
    {"fork", run_fork, nomem_same, done_fork, 0},
    {"compact", run_compact, nomem_same, done_compact, 0},
    {"uncompact", run_uncompact, nomem_same, done_uncompact, 0},
    {"prune", run_prune, nomem_same, done_prune, 0},
    {"delete", run_delete, nomem_same, done_delete, 0},
    {"delete_tree", run_delete_tree, nomem_same, done_delete_tree, 0},
    {"window", run_window, nomem_same, nomem_same, 0},
    {"view", run_view, nomem_same, nomem_same, 0},
    {"capped append", run_capped, nomem_same, done_capped, 10},
};

/* A new store each time: statements are prepared on their first use. */
static bool nomem_once(const nomem_op *op, int64_t nth, t_fault_mode mode)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.cap_messages = op->cap;
    T_OK(quipu_open(":memory:", &options, &store, &err));
    nomem_world(store);
    t_fault_arm(nth, mode);
    quipu_status status = op->run(store, &err);
    bool fired = t_fault_fired() > 0;
    t_fault_arm(0, mode);
    if (status != QUIPU_OK) {
        assert_true(fired);
        T_STATUS(status, QUIPU_NOMEM);
        assert_int_equal(err.status, QUIPU_NOMEM);
        op->untouched(store);
        T_OK(op->run(store, &err));
    }
    op->done(store);
    quipu_close(store);
    assert_int_equal(t_fault_live(), 0);
    return fired;
}

static void every_call_survives_every_failed_allocation(void **state)
{
    (void)state;
    t_fault_install();
    for (size_t i = 0; i < sizeof(nomem_ops) / sizeof(nomem_ops[0]); i++) {
        int64_t points = 0;
        for (int mode = T_FAULT_ONCE; mode <= T_FAULT_FOR_GOOD; mode++) {
            int64_t nth = 1;
            while (nomem_once(&nomem_ops[i], nth, (t_fault_mode)mode)) {
                nth++;
                points++;
            }
        }
        print_message("%s: %lld points fired\n", nomem_ops[i].name, (long long)points);
        assert_true(points > 0);
    }
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests_name("store_fork_nomem", tests, NULL, NULL);
}
