/* Every allocation of the library failed, once and from then on, in every writing call and in the
 * reads: the right error, nothing half done, nothing leaked, and the next call works. */
#include "contract/history_t.h"
#include "lib/short.h"

#define K QUIPU_STR("k")

/* The store of the sweep under way; opened with the failing allocator in place, so that its blocks
 * are counted too. */
static quipu_store *nomem_store;

typedef struct nomem_op {
    const char *name;
    void (*prepare)(quipu_store *store); /* with an allocator that works */
    quipu_status (*run)(quipu_store *store, quipu_error *err);
    /* What is true after a failure, and after a success. */
    void (*check)(quipu_store *store, bool done);
} nomem_op;

static int64_t nomem_count(quipu_store *store)
{
    quipu_history *history = st_get(store, "k", NULL);
    int64_t count = (int64_t)history->messages.count;

    st_check_whole(history);
    quipu_free(history);
    return count;
}

/* ---- the calls --------------------------------------------------------------------------------
 */

static const quipu_tool_call nomem_call = {.id = {"1", 1},
                                           .name = {"n", 1},
                                           .input = {"\"\\\n", 3},
                                           .output = {"o", 1},
                                           .thought_signature = {"sig", 3}};

static void nomem_messages(quipu_message ret[2])
{
    ret[0] = (quipu_message){.role = QUIPU_ROLE_USER,
                             .content = QUIPU_STR("a\0b"),
                             .event_id = QUIPU_STR("an id"),
                             .calls = quipu_tool_calls_of(&nomem_call, 1),
                             .extra = {QUIPU_STR("{\"a\":[1,2]}")}};
    ret[1] = st_says(QUIPU_ROLE_ASSISTANT, "plain");
}

/* The question is not in Form C, so that its copy can fail, too. */
static quipu_status run_recall(quipu_store *store, quipu_error *err)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;

    options.question = QUIPU_STR("a plain cafe\xcc\x81");
    options.flags = QUIPU_RECALL_EVERYTHING;
    const quipu_status status = quipu_recall(store, &options, NULL, &results, err);
    assert_int_equal(results != NULL, status == QUIPU_OK);
    assert_true(status != QUIPU_OK || results->hits.count == 2);
    quipu_free(results);
    return status;
}

/* The same with two memories, of which one says what a message says. */
static quipu_status run_recall_memories(quipu_store *store, quipu_error *err)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;

    options.question = QUIPU_STR("a plain apple");
    options.flags = QUIPU_RECALL_EVERYTHING | QUIPU_RECALL_MEMORIES;
    const quipu_status status = quipu_recall(store, &options, NULL, &results, err);
    assert_int_equal(results != NULL, status == QUIPU_OK);
    assert_true(status != QUIPU_OK || results->hits.count == 3);
    quipu_free(results);
    return status;
}

static void prepare_nothing(quipu_store *store)
{
    (void)store;
}

static void prepare_session(quipu_store *store)
{
    st_create(store, "k");
}

static void prepare_messages(quipu_store *store)
{
    quipu_message messages[2];

    st_create(store, "k");
    nomem_messages(messages);
    T_OK(quipu_message_append(store, K, quipu_messages_of(messages, 2), NULL, NULL, NULL, NULL));
}

static void prepare_memories(quipu_store *store)
{
    static const char *const texts[] = {"Plain.", "likes an apple"};

    prepare_messages(store);
    for (size_t i = 0; i < 2; i++) {
        const quipu_memory memory = {.kind = i == 0 ? QUIPU_REFLECTION : QUIPU_OBSERVATION,
                                     .session_key = K,
                                     .content = quipu_cstr(texts[i]),
                                     .token_count = 2,
                                     .generation = 1,
                                     .subject = QUIPU_STR("Ana")};

        T_OK(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, NULL));
    }
}

static quipu_status run_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_message messages[2];
    quipu_history *history = NULL;

    nomem_messages(messages);
    values.metadata.text = QUIPU_STR("{\"a\":1}");
    values.messages = quipu_messages_of(messages, 2);
    quipu_status status = quipu_session_create(store, &values, NULL, &history, err);
    assert_int_equal(status == QUIPU_OK, history != NULL);
    quipu_free(history);
    return status;
}

static quipu_status run_get_or_create(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("k");
    quipu_history *history = NULL;
    quipu_status status = t_session_reuse(store, &values, NULL, &history, NULL, err);

    quipu_free(history);
    return status;
}

static void check_created(quipu_store *store, bool done)
{
    T_STATUS(st_get_status(store, "k"), done ? QUIPU_OK : QUIPU_NOT_FOUND);
    if (done) {
        (void)nomem_count(store);
    }
}

static quipu_status run_append(quipu_store *store, quipu_error *err)
{
    quipu_message messages[2];
    quipu_appended appended = QUIPU_APPENDED_INIT;

    nomem_messages(messages);
    quipu_status status =
        quipu_message_append(store, K, quipu_messages_of(messages, 2), NULL, NULL, &appended, err);
    assert_int_equal(appended.first_seq, status == QUIPU_OK ? 1 : 0);
    return status;
}

static void check_appended(quipu_store *store, bool done)
{
    assert_int_equal(nomem_count(store), done ? 2 : 0);
}

static quipu_status run_repeat(quipu_store *store, quipu_error *err)
{
    quipu_message messages[2];
    quipu_appended appended = QUIPU_APPENDED_INIT;

    nomem_messages(messages);
    messages[0].extra.text = QUIPU_STR("{ \"a\":[1,2] }");
    quipu_status status =
        quipu_message_append(store, K, quipu_messages_of(messages, 1), NULL, NULL, &appended, err);
    assert_int_equal(appended.repeated, status == QUIPU_OK);
    return status;
}

static quipu_status run_get(quipu_store *store, quipu_error *err)
{
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, K, NULL, NULL, &history, err);

    if (status == QUIPU_OK) {
        assert_int_equal(history->messages.count, 2);
        assert_true(
            quipu_str_eq(quipu_message_at(history->messages, 0)->content, QUIPU_STR("a\0b")));
        assert_true(quipu_str_eq(quipu_message_at(history->messages, 0)->extra.text,
                                 QUIPU_STR("{\"a\":[1,2]}")));
    }
    quipu_free(history);
    return status;
}

static void check_two(quipu_store *store, bool done)
{
    (void)done;
    assert_int_equal(nomem_count(store), 2);
}

static quipu_status run_update(quipu_store *store, quipu_error *err)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_MODEL | QUIPU_SET_METADATA;
    patch.model = QUIPU_STR("new");
    patch.metadata.text = QUIPU_STR("{}");
    return quipu_session_update(store, K, &patch, NULL, NULL, err);
}

static void check_updated(quipu_store *store, bool done)
{
    quipu_history *history = st_get(store, "k", NULL);

    assert_int_equal(history->session->model.p != NULL, done);
    assert_int_equal(history->session->metadata.text.p != NULL, done);
    assert_int_equal(history->session->revision, done ? 1 : 0);
    quipu_free(history);
}

static quipu_status run_delete(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, K, NULL, NULL, NULL, err);
}

static void check_deleted(quipu_store *store, bool done)
{
    if (done) {
        T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    } else {
        assert_int_equal(nomem_count(store), 2);
    }
}

static quipu_status run_list(quipu_store *store, quipu_error *err)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;

    options.metadata_name = QUIPU_STR("nothing");
    quipu_status status = quipu_session_list(store, &options, NULL, &page, err);
    quipu_free(page);
    return status;
}

static quipu_status run_memory(quipu_store *store, quipu_error *err)
{
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = K, .content = QUIPU_STR("seen")};
    quipu_memory_list *list = NULL;
    quipu_status status = t_memory_save(store, &memory, NULL, NULL, err);

    if (status == QUIPU_OK) {
        status = t_memory_list(store, QUIPU_OBSERVATION, K, 1, NULL, &list, err);
    }
    quipu_free(list);
    return status;
}

static void check_memory(quipu_store *store, bool done)
{
    quipu_memory_list *list = NULL;

    T_OK(t_memory_list(store, QUIPU_OBSERVATION, K, 0, NULL, &list, NULL));
    assert_true(list->memories.count <= 1);
    assert_true(!done || list->memories.count == 1);
    quipu_free(list);
}

static void prepare_expired(quipu_store *store)
{
    quipu_session_new values = st_values("k");

    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_nap();
}

static quipu_status run_sweep(quipu_store *store, quipu_error *err)
{
    return quipu_store_sweep(store, NULL, NULL, err);
}

static void check_swept(quipu_store *store, bool done)
{
    T_STATUS(st_get_status(store, "k"), done ? QUIPU_NOT_FOUND : QUIPU_EXPIRED);
}

/* Parallel calls whose answers stand behind the place where the window or the summary would part
 * them, enough for a list of pairs to grow. */
static void prepare_pairs(quipu_store *store)
{
    char id[16];

    st_create(store, "k");
    ht_script(store, "k", "u");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(id, sizeof(id), "call-%d", i % 20);
        ht_tools(store, "k", i < 20 ? QUIPU_ROLE_MODEL : QUIPU_ROLE_TOOL, id);
    }
    ht_script(store, "k", "a");
}

static quipu_status run_cut(quipu_store *store, quipu_error *err)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;

    options.token_budget = 200;
    options.flags = QUIPU_WINDOW_CUT;
    quipu_status status = quipu_window_read(store, K, &options, NULL, &window, err);
    assert_int_equal(status == QUIPU_OK, window != NULL);
    if (window != NULL) {
        assert_int_equal(quipu_message_at(window->messages, 0)->seq, 42);
    }
    quipu_free(window);
    return status;
}

static quipu_status run_compact(quipu_store *store, quipu_error *err)
{
    quipu_error refused = {0};
    quipu_status status =
        quipu_session_compact(store, K, T_COMPACT(25, QUIPU_STR("sum")), NULL, NULL, &refused);

    if (status != QUIPU_INVALID) { /* it parts calls from answers, when that can be found out */
        *err = refused;
        return status;
    }
    return quipu_session_compact(store, K, T_COMPACT(41, QUIPU_STR("sum")), NULL, NULL, err);
}

static void check_pairs(quipu_store *store, bool done)
{
    (void)done;
    assert_int_equal(ht_info(store, "k").message_count, 42);
}

static void check_compacted(quipu_store *store, bool done)
{
    assert_int_equal(ht_info(store, "k").compacted_seq, done ? 43 : 0);
}

/* ---- the sweep --------------------------------------------------------------------------------
 */

static const nomem_op nomem_ops[] = {
    {"create", prepare_nothing, run_create, check_created},
    {"get_or_create", prepare_nothing, run_get_or_create, check_created},
    {"append", prepare_session, run_append, check_appended},
    {"repeat", prepare_messages, run_repeat, check_two},
    {"get", prepare_messages, run_get, check_two},
    {"update", prepare_session, run_update, check_updated},
    {"delete", prepare_messages, run_delete, check_deleted},
    {"list", prepare_messages, run_list, check_two},
    {"recall", prepare_messages, run_recall, check_two},
    {"recall memories", prepare_memories, run_recall_memories, check_two},
    {"memory", prepare_session, run_memory, check_memory},
    {"sweep", prepare_expired, run_sweep, check_swept},
    {"window", prepare_pairs, run_cut, check_pairs},
    {"compact", prepare_pairs, run_compact, check_compacted},
};

/* Statements are prepared on their first use: a new store each time meets those paths as well. */
static bool nomem_once(const nomem_op *op, int64_t nth, t_fault_mode mode)
{
    quipu_error err = {0};

    nomem_store = st_open(":memory:");
    op->prepare(nomem_store);
    t_fault_arm(nth, mode);
    quipu_status status = op->run(nomem_store, &err);
    bool fired = t_fault_fired() > 0;
    t_fault_arm(0, mode);
    if (status != QUIPU_OK) {
        assert_true(fired);
        T_STATUS(status, QUIPU_NOMEM);
        assert_int_equal(err.status, QUIPU_NOMEM);
    }
    op->check(nomem_store, status == QUIPU_OK);
    if (status != QUIPU_OK) {
        /* What failed for want of memory works when there is some. */
        if (op->run != run_memory) {
            T_OK(op->run(nomem_store, &err));
            op->check(nomem_store, true);
        }
    }
    quipu_close(nomem_store);
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

static void nomem_open_body(void *ctx)
{
    quipu_store *store = NULL;
    quipu_status status = quipu_open(ctx, NULL, &store, NULL);

    if (status != QUIPU_OK) {
        T_STATUS(status, QUIPU_NOMEM);
        assert_null(store);
    }
    quipu_close(store);
}

static void open_survives_every_failed_allocation(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    int64_t points = t_fault_sweep(nomem_open_body, path);
    points += t_fault_sweep(nomem_open_body, (char[]){":memory:"});
    print_message("open: %lld points fired\n", (long long)points);
    assert_true(points > 0);
    quipu_store *store = st_open(path);
    st_create(store, "k");
    quipu_close(store);
}

static void nomem_reader_body(void *ctx)
{
    char *path = ctx;
    quipu_store *store = NULL;
    quipu_history *history = NULL;
    quipu_status status = quipu_open(path, NULL, &store, NULL);

    if (status == QUIPU_OK) {
        status = quipu_session_get(store, K, NULL, NULL, &history, NULL);
    }
    if (status != QUIPU_OK) {
        T_STATUS(status, QUIPU_NOMEM);
    }
    quipu_free(history);
    quipu_close(store);
}

/* On a file a read opens a connection of the pool. */
static void pool_survives_every_failed_allocation(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    prepare_messages(store);
    quipu_close(store);
    assert_true(t_fault_sweep(nomem_reader_body, path) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_survives_every_failed_allocation),
        cmocka_unit_test(open_survives_every_failed_allocation),
        cmocka_unit_test(pool_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
