/* What is forgotten stays forgotten: in forks that share the messages, behind damage, and in what
 * comes from outside. On every engine. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <quipu/memory.h>

#include "store/memory_scope.h"

#define FORGET_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, st_teardown)

static void forget(quipu_store *store, const char *key, int64_t from, int64_t to)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_error err = {0};

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.from_seq = from;
    query.to_seq = to;
    if (quipu_memory_delete(store, &query, NULL, NULL, &err) != QUIPU_OK) {
        fail_msg("forget: %s", err.message);
    }
}

static quipu_memory_ran forget_run(quipu_store *store)
{
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    T_OK(quipu_memory_run(store, NULL, NULL, &ran, &err));
    return ran;
}

/* The words of what is known of a session, retired or not. */
static void forget_check(quipu_store *store, const char *key, size_t count, const char *not_there)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.flags = QUIPU_MEMORY_FIND_RETIRED;
    T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
    for (size_t i = 0; i < list->memories.count; i++) {
        const quipu_str content = quipu_memory_at(list->memories, i)->content;

        if (not_there != NULL && mt_find(content.p, content.n, not_there)) {
            fail_msg("%s knows \"%.*s\"", key, (int)content.n, content.p);
        }
    }
    assert_int_equal(list->memories.count, count);
    quipu_free(list);
}

static quipu_memory_progress forget_status(quipu_store *store, const char *key)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_memory_progress at;
    quipu_error err = {0};

    options.session_key = quipu_cstr(key);
    T_OK(quipu_memory_status(store, &options, NULL, &list, &err));
    at = *quipu_memory_progress_at(list->sessions, 0);
    quipu_free(list);
    return at;
}

static void forget_fill(quipu_store *store, const char *key)
{
    st_append(store, key, "I prefer tea.");
    st_append(store, key, "I prefer whisky with breakfast.");
    st_append(store, key, "I prefer trains.");
}

/* ---- forks ------------------------------------------------------------------------------------
 */

/* Forgotten before a worker came, and behind its watermark. */
static void a_fork_does_not_observe_what_its_parent_forgot_before(void **state)
{
    for (int observed = 0; observed < 2; observed++) {
        quipu_store *store = *state;
        char parent[] = "parent0";
        char fork[] = "fork0";
        char below[] = "below0";

        parent[6] = fork[4] = below[5] = (char)('0' + observed);
        st_create(store, parent);
        forget_fill(store, parent);
        if (observed) {
            (void)forget_run(store);
        }
        forget(store, parent, 2, 2);
        mt_fork(store, parent, 3, fork);
        mt_fork(store, fork, 2, below);
        (void)forget_run(store);
        forget_check(store, parent, 2, "whisky");
        forget_check(store, fork, 2, "whisky");
        forget_check(store, below, 1, "whisky");
        st_append(store, fork, "I prefer boats.");
        (void)forget_run(store);
        forget_check(store, fork, 3, "whisky");
        mt_clean(store);
    }
}

/* The fork is there already, and so is what it has observed. */
static void forgetting_reaches_the_forks_that_share_the_messages(void **state)
{
    quipu_store *store = *state;

    st_create(store, "parent");
    forget_fill(store, "parent");
    mt_fork(store, "parent", 3, "observed");
    mt_fork(store, "parent", 1, "before");
    (void)forget_run(store);
    mt_fork(store, "observed", 3, "later");
    st_append(store, "observed", "I prefer boats.");
    forget_check(store, "observed", 3, NULL);
    forget(store, "parent", 2, 9);
    /* What lies behind the fork is the fork's own. */
    (void)forget_run(store);
    forget_check(store, "parent", 1, "whisky");
    forget_check(store, "observed", 2, "whisky");
    forget_check(store, "later", 1, "whisky");
    forget_check(store, "before", 1, NULL);
    mt_clean(store);
}

static void a_fork_remembers_what_its_deleted_parent_forgot(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "parent");
    forget_fill(store, "parent");
    forget(store, "parent", 2, 2);
    mt_fork(store, "parent", 3, "fork");
    T_OK(quipu_session_delete(store, QUIPU_STR("parent"), NULL, NULL, NULL, &err));
    mt_fork(store, "fork", 3, "below");
    (void)forget_run(store);
    forget_check(store, "fork", 2, "whisky");
    forget_check(store, "below", 2, "whisky");
    mt_clean(store);
}

/* Two users share messages; what each has remembered of them is its own. */
static void forgetting_leaves_the_memories_of_another_user(void **state)
{
    static const char *const users[] = {"ann", "bob"};
    quipu_store *store = *state;
    quipu_error err = {0};

    for (size_t i = 0; i < 2; i++) {
        quipu_session_new values = st_values(users[i]);
        quipu_memory line = {.kind = QUIPU_OBSERVATION,
                             .session_key = quipu_cstr(users[i]),
                             .content = QUIPU_STR("They talked of whisky."),
                             .source_start = 2,
                             .source_end = 2};

        values.app_name = QUIPU_STR("shop");
        values.user_id = quipu_cstr(users[i]);
        if (i == 0) {
            T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
            forget_fill(store, "ann");
        } else {
            T_OK(quipu_session_fork(store, QUIPU_STR("ann"), 3, &values, NULL, NULL, &err));
        }
        T_OK(quipu_memory_save(store, quipu_memories_of(&line, 1), NULL, NULL, &err));
    }
    forget(store, "ann", 2, 2);
    (void)forget_run(store);
    forget_check(store, "ann", 2, "whisky");
    forget_check(store, "bob", 1, NULL);
    /* A fork of a user's session begins behind what it shares: no token of it is pending. */
    assert_int_equal(forget_status(store, "bob").pending_tokens, 0);
    mt_clean(store);
}

/* ---- damage -----------------------------------------------------------------------------------
 */

/* A store with a session of which 2 is forgotten, 1 was retired and 3 is still to be observed when
 * `pending`; then one column of its scope is damaged, and repaired. */
static quipu_store *forget_damage(bool pending, const qp_memory_scope_patch *patch, size_t known)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_patch retire = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};
    ent_db *db;

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    st_append(store, "s", "I prefer whisky with breakfast.");
    if (pending) {
        st_append(store, "s", "I prefer trains.");
        st_append(store, "s", "I prefer rum at noon.");
        forget(store, "s", 4, 4);
    }
    forget(store, "s", 2, 2);
    if (!pending) {
        (void)forget_run(store);
        query.kind = QUIPU_OBSERVATION;
        query.session_key = QUIPU_STR("s");
        T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
        retire.kind = QUIPU_OBSERVATION;
        retire.id = quipu_memory_at(list->memories, 0)->id;
        retire.set = QUIPU_MEMORY_SET_RETIRED;
        T_OK(quipu_memory_update(store, &retire, NULL, NULL, &err));
        quipu_free(list);
    }
    db = et_connect(path, 1000);
    T_OK(qp_memory_scope_update(db, &(qp_memory_scope_where){.scope = ent_eq(QUIPU_STR("s"))},
                                patch, NULL, &err));
    ent_close(db);
    /* Not before the repair either: a worker does not guess. */
    (void)forget_run(store);
    forget_check(store, "s", known, "whisky");
    assert_int_equal(mt_verify(store).kinds[QUIPU_PROBLEM_MEMORY], 1);
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, &err));
    assert_int_equal(verified.repaired, 1);
    mt_clean(store);
    return store;
}

static void a_repaired_watermark_brings_nothing_back(void **state)
{
    static const int64_t marks[] = {9, -1, INT64_MIN, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        quipu_store *store =
            forget_damage(false, &(qp_memory_scope_patch){.watermark = ent_set(marks[i])}, 1);

        assert_int_equal(forget_run(store).messages, 0);
        assert_int_equal(forget_status(store, "s").watermark, 2);
        forget_check(store, "s", 1, "whisky");
        mt_fork(store, "s", 2, "fork");
        st_append(store, "s", "I prefer boats.");
        (void)forget_run(store);
        forget_check(store, "s", 2, "whisky");
        forget_check(store, "fork", 1, "whisky");
        mt_clean(store);
        quipu_close(store);
    }
}

/* Which messages were meant is lost: none that is there is read. */
static void ranges_that_cannot_be_read_stand_for_every_message(void **state)
{
    static const char *const texts[] = {"2-", "2-2,4-4", "4-4 2-2", "2-2 4-4 x"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const qp_memory_scope_patch patch = {.forgotten = ent_set(quipu_cstr(texts[i]))};
        quipu_store *store = forget_damage(true, &patch, 0);

        assert_int_equal(forget_run(store).messages, 0);
        mt_fork(store, "s", 4, "fork");
        st_append(store, "s", "I prefer boats.");
        st_append(store, "fork", "I prefer planes.");
        assert_int_equal(forget_run(store).messages, 2);
        forget_check(store, "s", 1, "rum");
        forget_check(store, "fork", 1, "rum");
        mt_clean(store);
        quipu_close(store);
    }
}

/* What is meant can be read, and more: nobody forgot what was not said yet. */
static void ranges_behind_the_last_message_end_there(void **state)
{
    static const char *const texts[] = {"2-2 4-5", "2-2 4-9223372036854775807", "2-2 4-4 9-9"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const qp_memory_scope_patch patch = {.forgotten = ent_set(quipu_cstr(texts[i]))};
        quipu_store *store = forget_damage(true, &patch, 2);

        forget_check(store, "s", 2, "rum");
        for (int k = 0; k < 6; k++) {
            st_append(store, "s", "I prefer boats.");
        }
        assert_int_equal(forget_run(store).messages, 6);
        mt_clean(store);
        quipu_close(store);
    }
}

/* Before a repair as well: a person who forgets more meets no sum that overflows. */
static void forgetting_goes_on_beside_a_damaged_range(void **state)
{
    static const char *const texts[] = {"1-9223372036854775807", "2-2 9-9", "4-4 2-2"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char path[T_PATH_MAX];
        quipu_store *store = st_open_new(NULL, path);
        quipu_error err = {0};
        ent_db *db;

        st_create(store, "s");
        forget_fill(store, "s");
        forget(store, "s", 2, 2);
        db = et_connect(path, 1000);
        T_OK(qp_memory_scope_update(
            db, &(qp_memory_scope_where){.scope = ent_eq(QUIPU_STR("s"))},
            &(qp_memory_scope_patch){.forgotten = ent_set(quipu_cstr(texts[i]))}, NULL, &err));
        ent_close(db);
        forget(store, "s", 3, 3);
        mt_fork(store, "s", 3, "fork");
        (void)forget_run(store);
        forget_check(store, "s", i == 1 ? 1 : 0, "whisky");
        forget_check(store, "fork", i == 1 ? 1 : 0, "whisky");
        mt_clean(store);
        quipu_close(store);
    }
}

/* Numbers beside the watermark say nothing of messages: what is known stays, and work goes on. */
static void other_numbers_are_mended_and_the_watermark_stays(void **state)
{
    const qp_memory_scope_patch patches[] = {
        {.watermark_tokens = ent_set((int64_t)-1)}, {.watermark_tokens = ent_set(INT64_MAX)},
        {.generation = ent_set((int64_t)-1)},       {.generation = ent_set(INT64_MAX)},
        {.observe_tokens = ent_set((int64_t)-7)},   {.model_calls = ent_set((int64_t)-1)},
        {.model_input = ent_set((int64_t)-1)},      {.model_output = ent_set((int64_t)-1)},
        {.model_cost = ent_set((int64_t)-1)},       {.model_unpriced = ent_set((int64_t)-1)}};

    (void)state;
    for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++) {
        quipu_store *store = forget_damage(false, &patches[i], 1);

        assert_int_equal(forget_status(store, "s").watermark, 2);
        assert_int_equal(forget_status(store, "s").pending_tokens, 0);
        st_append(store, "s", "I prefer boats.");
        assert_int_equal(forget_run(store).messages, 1);
        forget_check(store, "s", 2, "whisky");
        mt_clean(store);
        quipu_close(store);
    }
}

/* ---- from outside -----------------------------------------------------------------------------
 */

static void forgotten_ranges_travel_with_an_export(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    mt_stream stream;

    st_create(store, "s");
    forget_fill(store, "s");
    (void)forget_run(store);
    forget(store, "s", 2, 2);
    stream = mt_export(store, NULL);
    (void)mt_import(target, &stream);
    mt_fork(target, "s", 3, "fork");
    (void)forget_run(target);
    forget_check(target, "s", 2, "whisky");
    forget_check(target, "fork", 2, "whisky");
    mt_clean(target);
    mt_free(&stream);
    quipu_close(target);
}

/* A range behind the last message would hide messages that come later, and its sums overflow. */
static void an_import_of_ranges_behind_the_last_message_is_refused(void **state)
{
    static const char *const ranges[] = {"1-4", "3-4", "1-9223372036854775807"};
    quipu_store *store = *state;

    st_create(store, "s");
    forget_fill(store, "s");
    forget(store, "s", 3, 3);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        quipu_store *target = st_open_new(NULL, NULL);
        mt_stream stream = mt_export(store, NULL);
        mt_stream changed = {.p = NULL};
        quipu_error err = {0};
        char *at = strstr(stream.p, "\"forgotten\":\"3-3\"");

        assert_non_null(at);
        T_OK(mt_write(&changed, stream.p, (size_t)(at - stream.p)));
        T_OK(mt_write(&changed, "\"forgotten\":\"", 13));
        T_OK(mt_write(&changed, ranges[i], strlen(ranges[i])));
        T_OK(mt_write(&changed, "\"", 1));
        at += strlen("\"forgotten\":\"3-3\"");
        T_OK(mt_write(&changed, at, stream.n - (size_t)(at - stream.p)));
        T_STATUS(mt_try_import(target, &changed, 0, NULL, &err), QUIPU_INVALID);
        assert_non_null(strstr(err.message, "is forgotten"));
        mt_free(&changed);
        mt_free(&stream);
        quipu_close(target);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORGET_TEST(a_fork_does_not_observe_what_its_parent_forgot_before),
        FORGET_TEST(forgetting_reaches_the_forks_that_share_the_messages),
        FORGET_TEST(a_fork_remembers_what_its_deleted_parent_forgot),
        FORGET_TEST(forgetting_leaves_the_memories_of_another_user),
        cmocka_unit_test(a_repaired_watermark_brings_nothing_back),
        cmocka_unit_test(ranges_that_cannot_be_read_stand_for_every_message),
        cmocka_unit_test(ranges_behind_the_last_message_end_there),
        cmocka_unit_test(forgetting_goes_on_beside_a_damaged_range),
        cmocka_unit_test(other_numbers_are_mended_and_the_watermark_stays),
        FORGET_TEST(forgotten_ranges_travel_with_an_export),
        FORGET_TEST(an_import_of_ranges_behind_the_last_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
