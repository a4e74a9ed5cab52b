/* Every I/O call failed, once and from then on, in the calls that change a history (compaction,
 * prune, cap, forks), that maintain the store (import, erase, search index, repair) and that change
 * state; crash/store_fault_t.h says what must hold. */
#include "crash/store_fault_t.h"
#include "lib/short.h"

#include <quipu/adk.h>

#define K QUIPU_STR("k")
#define FORK QUIPU_STR("fork")
#define SECRET "unmistakable"

static quipu_session_info maintain_info(quipu_store *store, const char *key)
{
    quipu_history *history = st_get(store, key, NULL);
    quipu_session_info info = *history->session; /* numbers only: its texts go */

    assert_int_equal(history->messages.count, info.message_count);
    assert_int_equal(info.next_seq - info.first_seq, info.message_count);
    quipu_free(history);
    return info;
}

/* Six messages, and a fork that shares three of them. */
static void prepare_long(quipu_store *store)
{
    st_create(store, "k");
    st_append_many(store, "k", 6);
    mt_fork(store, "k", 3, "fork");
    st_append_many(store, "fork", 2);
}

static void maintain_fork_is_whole(quipu_store *store)
{
    assert_int_equal(maintain_info(store, "fork").message_count, 5);
}

/* ---- compaction ---------------------------------------------------------------------------- */

static quipu_status run_compact(quipu_store *store, quipu_error *err)
{
    quipu_status status =
        quipu_session_compact(store, K, T_COMPACT(4, QUIPU_STR("in short")), NULL, NULL, err);

    return status == QUIPU_INVALID ? QUIPU_OK
                                   : status; /* covered already, after an unknown outcome */
}

static bool done_compact(quipu_store *store)
{
    quipu_session_info info = maintain_info(store, "k");

    assert_int_equal(info.message_count, info.compacted_seq == 7 ? 7 : 6);
    maintain_fork_is_whole(store);
    return info.compacted_seq == 7;
}

static void prepare_compacted(quipu_store *store)
{
    prepare_long(store);
    T_OK(quipu_session_compact(store, K, T_COMPACT(4, QUIPU_STR("in short")), NULL, NULL, NULL));
}

static quipu_status run_uncompact(quipu_store *store, quipu_error *err)
{
    quipu_status status = quipu_session_compact(store, K, T_COMPACT_UNDO, NULL, NULL, err);

    return status == QUIPU_NOT_FOUND ? QUIPU_OK : status; /* undone, after an unknown outcome */
}

static bool done_uncompact(quipu_store *store)
{
    quipu_session_info info = maintain_info(store, "k");

    assert_int_equal(info.message_count, 7);
    return info.compacted_seq == 0;
}

static quipu_status run_prune(quipu_store *store, quipu_error *err)
{
    return quipu_session_prune(store, K, NULL, NULL, err);
}

static bool done_prune(quipu_store *store)
{
    quipu_session_info info = maintain_info(store, "k");

    assert_true(info.first_seq == 1 || info.first_seq == 5);
    assert_int_equal(info.compacted_seq, 7);
    maintain_fork_is_whole(store);
    return info.first_seq == 5;
}

/* ---- appends that do more ------------------------------------------------------------------ */

static quipu_status run_append(quipu_store *store, quipu_error *err)
{
    quipu_message messages[2] = {st_says(QUIPU_ROLE_USER, "question"),
                                 st_says(QUIPU_ROLE_USER, "another")};

    messages[0].event_id = QUIPU_STR("one");
    messages[1].event_id = QUIPU_STR("two");
    return quipu_message_append(store, K, quipu_messages_of(messages, 2), NULL, NULL, NULL, err);
}

/* The cap was 6: two oldest turns go with the append of two. */
static bool done_append_capped(quipu_store *store)
{
    quipu_session_info info = maintain_info(store, "k");

    assert_int_equal(info.message_count, 6);
    assert_true(info.first_seq == 1 || info.first_seq == 3);
    maintain_fork_is_whole(store);
    return info.first_seq == 3;
}

static bool maintain_finds(quipu_store *store, const char *word, size_t hits)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;

    options.query = quipu_cstr(word);
    T_OK(quipu_search(store, &options, NULL, &results, NULL));
    size_t count = results->hits.count;
    quipu_free(results);
    return count == hits;
}

static bool done_append_inline(quipu_store *store)
{
    quipu_session_info info = maintain_info(store, "k");

    assert_true(info.message_count == 6 || info.message_count == 8);
    assert_true(maintain_finds(store, "question", info.message_count == 8 ? 1 : 0));
    return info.message_count == 8;
}

/* ---- forks --------------------------------------------------------------------------------- */

static quipu_status run_rewind(quipu_store *store, quipu_error *err)
{
    quipu_status status = t_session_rewind(store, K, 4, QUIPU_STR("back"), NULL, err);

    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_rewind(quipu_store *store)
{
    if (st_get_status(store, "back") != QUIPU_OK) {
        return false;
    }
    assert_int_equal(maintain_info(store, "back").message_count, 4);
    return true;
}

static void maintain_deep_key(int depth, char ret_key[32])
{
    (void)snprintf(ret_key, 32, "deep %d", depth);
}

/* A chain as deep as it can be: the next fork is a copy. */
static void prepare_deep(quipu_store *store)
{
    char key[32];
    char next[32];

    prepare_long(store);
    mt_fork(store, "fork", 5, "deep 2");
    for (int i = 2; i < QUIPU_FORK_DEPTH_MAX; i++) {
        maintain_deep_key(i, key);
        maintain_deep_key(i + 1, next);
        mt_fork(store, key, 5, next);
    }
}

static quipu_status run_fork_flat(quipu_store *store, quipu_error *err)
{
    quipu_session_new values = st_values("flat");
    char key[32];

    maintain_deep_key(QUIPU_FORK_DEPTH_MAX, key);
    quipu_status status = quipu_session_fork(store, quipu_cstr(key), 5, &values, NULL, NULL, err);
    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_fork_flat(quipu_store *store)
{
    if (st_get_status(store, "flat") != QUIPU_OK) {
        return false;
    }
    quipu_session_info info = maintain_info(store, "flat");
    assert_int_equal(info.message_count, 5);
    assert_false(info.is_fork);
    return true;
}

static void prepare_tree(quipu_store *store)
{
    prepare_long(store);
    mt_fork(store, "fork", 4, "twig");
    mt_memory(store, QUIPU_OBSERVATION, "fork", "seen");
}

static quipu_status run_delete_tree(quipu_store *store, quipu_error *err)
{
    return quipu_session_delete(store, K,
                                &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                        .flags = QUIPU_DELETE_TREE},
                                NULL, NULL, err);
}

static bool done_delete_tree(quipu_store *store)
{
    quipu_memory_list *list = NULL;
    bool gone = st_get_status(store, "k") == QUIPU_NOT_FOUND;

    assert_int_equal(st_get_status(store, "fork"), gone ? QUIPU_NOT_FOUND : QUIPU_OK);
    assert_int_equal(st_get_status(store, "twig"), gone ? QUIPU_NOT_FOUND : QUIPU_OK);
    T_OK(t_memory_list(store, QUIPU_OBSERVATION, FORK, 0, NULL, &list, NULL));
    assert_int_equal(list->memories.count, gone ? 0 : 1);
    quipu_free(list);
    return gone;
}

/* ---- import -------------------------------------------------------------------------------- */

static mt_stream maintain_exported;

/* What is imported is made in a store beside the one under test. */
static void prepare_import(quipu_store *store)
{
    char path[T_PATH_MAX];
    quipu_store *from = st_open_new(NULL, path);

    (void)store;
    prepare_tree(from);
    mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "k", "step", "3");
    mt_state(path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"dark\"");
    mt_free(&maintain_exported);
    maintain_exported = mt_export(from, NULL);
    quipu_close(from);
}

static quipu_status run_import(quipu_store *store, quipu_error *err)
{
    return mt_try_import(store, &maintain_exported, 0, NULL, err);
}

/* Each session is there with all its messages, or not at all. */
static bool done_import(quipu_store *store)
{
    static const char *const keys[] = {"k", "fork", "twig"};
    static const int64_t counts[] = {6, 5, 4};
    size_t there = 0;

    for (size_t i = 0; i < 3; i++) {
        quipu_status status = st_get_status(store, keys[i]);
        assert_true(status == QUIPU_OK || status == QUIPU_NOT_FOUND);
        if (status == QUIPU_OK) {
            assert_int_equal(maintain_info(store, keys[i]).message_count, counts[i]);
            there++;
        }
    }
    if (there < 3) {
        return false;
    }
    mt_stream now = mt_export(store, NULL);
    bool other = mt_find(now.p, now.n, "\"other\"");
    bool same = now.n == maintain_exported.n && memcmp(now.p, maintain_exported.p, now.n) == 0;
    mt_free(&now);
    return same || other;
}

/* ---- erase --------------------------------------------------------------------------------- */

static void prepare_erase(quipu_store *store)
{
    quipu_session_new values = st_values("k");

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("user");
    values.session_id = QUIPU_STR("s");
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_append(store, "k", "some " SECRET " text");
    mt_fork(store, "k", 1, "fork");
    st_create(store, "innocent");
    st_append(store, "innocent", "a text that stays");
    T_OK(quipu_search_index(store, NULL, NULL, NULL));
}

static quipu_status run_erase(quipu_store *store, quipu_error *err)
{
    return t_session_erase(store, K, 0, NULL, NULL, err);
}

static quipu_status run_erase_user(quipu_store *store, quipu_error *err)
{
    return t_user_erase(store, QUIPU_STR("app"), QUIPU_STR("user"), 0, NULL, NULL, err);
}

static bool done_erase(quipu_store *store)
{
    bool gone = st_get_status(store, "k") == QUIPU_NOT_FOUND;

    assert_int_equal(st_get_status(store, "fork"), gone ? QUIPU_NOT_FOUND : QUIPU_OK);
    assert_int_equal(maintain_info(store, "innocent").message_count, 1);
    return gone && !mt_files_hold(fault_path, SECRET);
}

/* ---- the search index ---------------------------------------------------------------------- */

static quipu_status run_index(quipu_store *store, quipu_error *err)
{
    return quipu_search_index(store, NULL, NULL, err);
}

/* No session is pending, and the index holds exactly the messages that there are. */
static bool done_index(quipu_store *store)
{
    quipu_error err = {0};
    ent_db *db = NULL;
    bool pending = false;

    (void)store;
    T_OK(ent_sqlite_open(fault_path, NULL, &db, &err));
    T_OK(qp_session_exists(db, &(qp_session_where){.index_pending = ent_is(true)}, &pending, &err));
    if (!pending && qp_message_index_check(db, &err) != QUIPU_OK) {
        fail_msg("the index and the messages differ: %s", err.message);
    }
    ent_close(db);
    return !pending;
}

/* ---- repair -------------------------------------------------------------------------------- */

static void prepare_damage(quipu_store *store)
{
    prepare_long(store);
    mt_sql(fault_path, "UPDATE messages SET tokens_total = seq * 1000 WHERE seq > 3;"
                       "UPDATE sessions SET message_count = 99, next_seq = 50");
}

static quipu_status run_repair(quipu_store *store, quipu_error *err)
{
    return quipu_store_verify(store, T_REPAIR, NULL, NULL, err);
}

static bool done_repair(quipu_store *store)
{
    return mt_verify(store).count == 0;
}

/* ---- sweep --------------------------------------------------------------------------------- */

static void prepare_expired(quipu_store *store)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    prepare_tree(store);
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = 1;
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    T_OK(quipu_session_update(store, QUIPU_STR("twig"), &patch, NULL, NULL, NULL));
    st_nap();
}

static quipu_status run_sweep(quipu_store *store, quipu_error *err)
{
    return quipu_store_sweep(store, NULL, NULL, err);
}

static bool done_sweep(quipu_store *store)
{
    quipu_status status = st_get_status(store, "k");

    assert_int_equal(st_get_status(store, "twig"), status); /* one batch, one transaction */
    maintain_fork_is_whole(store);
    return status == QUIPU_NOT_FOUND;
}

/* ---- state --------------------------------------------------------------------------------- */

static const quipu_session_ref maintain_ref = {{"app", 3}, {"user", 4}, {"s", 1}};

static quipu_service *maintain_service(quipu_store *store)
{
    quipu_service *service = NULL;

    T_OK(quipu_service_new(store, NULL, &service, NULL));
    return service;
}

static void prepare_service(quipu_store *store)
{
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;

    T_OK(quipu_service_create(service, &maintain_ref,
                              (quipu_json){QUIPU_STR("{\"a\":0,\"gone\":1}")}, NULL, &session,
                              NULL));
    quipu_live_free(session);
    quipu_service_free(service);
}

static quipu_status run_state(quipu_store *store, quipu_error *err)
{
    static const char event[] =
        "{\"id\":\"e1\",\"author\":\"user\",\"timestamp\":1.0,\"content\":{\"role\":\"user\","
        "\"parts\":[{\"text\":\"hi\"}]},\"actions\":{\"stateDelta\":{\"a\":1,\"gone\":null,"
        "\"app:b\":2,\"user:c\":3}}}";
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;
    quipu_status status = quipu_service_get(service, &maintain_ref, NULL, NULL, &session, err);

    if (status == QUIPU_OK) {
        assert_non_null(session);
        status = quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, err);
    }
    quipu_live_free(session);
    quipu_service_free(service);
    return status;
}

static quipu_status run_state_only(quipu_store *store, quipu_error *err)
{
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;
    quipu_status status = quipu_service_get(service, &maintain_ref, NULL, NULL, &session, err);

    if (status == QUIPU_OK) {
        assert_non_null(session);
        status = quipu_live_set(session, QUIPU_STR("a"), (quipu_json){QUIPU_STR("1")}, NULL, err);
    }
    quipu_live_free(session);
    quipu_service_free(service);
    return status;
}

/* Whether the state is this text, with so many events; else it is what was prepared. */
static bool maintain_state_is(quipu_store *store, const char *text, size_t events)
{
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json state = {{NULL, 0}};

    T_OK(quipu_service_get(service, &maintain_ref, NULL, NULL, &session, NULL));
    assert_non_null(session);
    T_OK(t_live_state(session, (quipu_str){NULL, 0}, &arena, &state, NULL));
    bool after = quipu_str_eq(state.text, quipu_cstr(text));
    if (!after) {
        T_STR(state.text, "{\"a\":0,\"gone\":1}");
    }
    assert_int_equal(t_live_event_count(session), after ? events : 0);
    quipu_arena_free(&arena);
    quipu_live_free(session);
    quipu_service_free(service);
    return after;
}

static bool done_state(quipu_store *store)
{
    return maintain_state_is(store, "{\"a\":1,\"app:b\":2,\"gone\":null,\"user:c\":3}", 1);
}

static bool done_state_only(quipu_store *store)
{
    return maintain_state_is(store, "{\"a\":1,\"gone\":1}", 0);
}

static void prepare_nothing(quipu_store *store)
{
    (void)store;
}

static quipu_status run_service_create(quipu_store *store, quipu_error *err)
{
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;
    quipu_status status = quipu_service_create(
        service, &maintain_ref, (quipu_json){QUIPU_STR("{\"a\":1,\"app:b\":2,\"user:c\":3}")}, NULL,
        &session, err);

    quipu_live_free(session);
    quipu_service_free(service);
    return status == QUIPU_EXISTS ? QUIPU_OK : status; /* after an unknown outcome */
}

static bool done_service_create(quipu_store *store)
{
    quipu_service *service = maintain_service(store);
    quipu_live *session = NULL;

    T_OK(quipu_service_get(service, &maintain_ref, NULL, NULL, &session, NULL));
    bool there = session != NULL;
    quipu_live_free(session);
    quipu_service_free(service);
    return there && maintain_state_is(store, "{\"a\":1,\"app:b\":2,\"user:c\":3}", 0);
}

/* ---- all of them --------------------------------------------------------------------------- */

static const fault_op maintain_ops[] = {
    {.name = "compact", .prepare = prepare_long, .run = run_compact, .done = done_compact},
    {.name = "uncompact",
     .prepare = prepare_compacted,
     .run = run_uncompact,
     .done = done_uncompact},
    {.name = "prune", .prepare = prepare_compacted, .run = run_prune, .done = done_prune},
    {.name = "append_capped",
     .prepare = prepare_long,
     .run = run_append,
     .done = done_append_capped,
     .cap_messages = 6},
    {.name = "append_inline",
     .prepare = prepare_long,
     .run = run_append,
     .done = done_append_inline,
     .search = QUIPU_SEARCH_INLINE},
    {.name = "rewind", .prepare = prepare_long, .run = run_rewind, .done = done_rewind},
    {.name = "fork_flat", .prepare = prepare_deep, .run = run_fork_flat, .done = done_fork_flat},
    {.name = "delete_tree",
     .prepare = prepare_tree,
     .run = run_delete_tree,
     .done = done_delete_tree},
    {.name = "import",
     .prepare = prepare_import,
     .run = run_import,
     .done = done_import,
     .stepwise = true},
    {.name = "erase",
     .prepare = prepare_erase,
     .run = run_erase,
     .done = done_erase,
     .stepwise = true},
    {.name = "erase_user",
     .prepare = prepare_erase,
     .run = run_erase_user,
     .done = done_erase,
     .stepwise = true},
    {.name = "index", .prepare = prepare_tree, .run = run_index, .done = done_index},
    {.name = "repair",
     .prepare = prepare_damage,
     .run = run_repair,
     .done = done_repair,
     .stepwise = true,
     .damaged = true},
    {.name = "sweep_tree", .prepare = prepare_expired, .run = run_sweep, .done = done_sweep},
    {.name = "state", .prepare = prepare_service, .run = run_state, .done = done_state},
    {.name = "state_only",
     .prepare = prepare_service,
     .run = run_state_only,
     .done = done_state_only},
    {.name = "service_create",
     .prepare = prepare_nothing,
     .run = run_service_create,
     .done = done_service_create},
};

static void every_call_survives_every_failed_operation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(maintain_ops) / sizeof(maintain_ops[0]); i++) {
        fault_every_point(&maintain_ops[i]);
    }
    mt_free(&maintain_exported);
}

/* Of what a call could not read it never says that it is sound. */
static void check_nothing_unread_is_sound(uint32_t flags, const char *name)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    int64_t points = 0;
    int64_t reported = 0;
    bool fired = true;

    prepare_tree(store);
    quipu_close(store);
    for (int64_t n = 1; fired; n++) {
        quipu_verified verified = QUIPU_VERIFIED_INIT;
        quipu_error err = {0};

        store = st_open(path);
        faultvfs_arm((faultvfs_plan){FAULTVFS_ANY, n, false, FAULTVFS_EIO});
        quipu_status status =
            quipu_store_verify(store, T_VERIFY(flags, NULL, NULL), NULL, &verified, &err);
        fired = faultvfs_fired() > 0;
        faultvfs_arm((faultvfs_plan){0});
        assert_true(status == QUIPU_OK || status == QUIPU_IO || status == QUIPU_UNKNOWN);
        assert_int_equal(fired, status != QUIPU_OK || verified.problems > 0);
        assert_int_equal(verified.repaired, 0); /* there was nothing to mend */
        points += fired;
        reported += status == QUIPU_OK && fired;
        mt_clean(store);
        quipu_close(store);
    }
    print_message("%s: %lld points fired, %lld of them reported as problems of the file\n", name,
                  (long long)points, (long long)reported);
    assert_true(points > 0);
}

static void verify_calls_nothing_sound_that_it_could_not_read(void **state)
{
    (void)state;
    check_nothing_unread_is_sound(0, "verify");
}

static void repair_calls_nothing_sound_that_it_could_not_read(void **state)
{
    (void)state;
    check_nothing_unread_is_sound(QUIPU_VERIFY_REPAIR, "repair");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_survives_every_failed_operation),
        cmocka_unit_test(verify_calls_nothing_sound_that_it_could_not_read),
        cmocka_unit_test(repair_calls_nothing_sound_that_it_could_not_read),
    };

    fault_use_vfs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
