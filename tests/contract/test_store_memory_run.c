/* Workers of memory: what they observe, what two of them do to each other, and that no kill -9
 * skips a message or observes one twice. On every engine. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <quipu/memory.h>

#include "base/time.h"
#include "memory/rules.h"
#include "store/memory_scope.h"

static int run_teardown(void **state)
{
    qp_time_step(0);
    return st_teardown(state);
}

#define RUN_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, run_teardown)

static quipu_memory_ran run_all(quipu_store *store)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    call.deadline_ms = -1; /* as long as it takes */
    T_OK(quipu_memory_run(store, NULL, &call, &ran, &err));
    assert_false(ran.more);
    return ran;
}

static quipu_memory_list *run_list(quipu_store *store, const char *key, uint32_t flags)
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

static size_t run_count(quipu_store *store, const char *key, uint32_t flags)
{
    quipu_memory_list *list = run_list(store, key, flags);
    size_t count = list->memories.count;

    quipu_free(list);
    return count;
}

/* How far one session is; its texts are gone. */
static quipu_memory_progress run_status(quipu_store *store, const char *key)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_memory_progress item;
    quipu_error err = {0};

    options.session_key = quipu_cstr(key);
    T_OK(quipu_memory_status(store, &options, NULL, &list, &err));
    assert_int_equal(list->sessions.count, 1);
    item = *quipu_memory_progress_at(list->sessions, 0);
    quipu_free(list);
    return item;
}

static void run_user_session(quipu_store *store, const char *key, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = QUIPU_STR("app");
    values.user_id = quipu_cstr(user);
    values.session_id = quipu_cstr(key);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* ---- what is observed -------------------------------------------------------------------------
 */

static void a_run_observes_each_message_once_and_moves_the_watermark(void **state)
{
    quipu_store *store = *state;
    quipu_memory_progress at;
    quipu_memory_list *list;

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    st_append(store, "s", "What time is it?");
    at = run_status(store, "s");
    assert_int_equal(at.watermark, 0);
    assert_int_equal(at.pending_messages, 2);
    assert_true(at.pending_tokens > 0);
    assert_int_equal(run_all(store).messages, 2);
    assert_int_equal(run_all(store).messages, 0);
    st_append(store, "s", "Never use emojis.");
    assert_int_equal(run_all(store).messages, 1);
    list = run_list(store, "s", 0);
    assert_int_equal(list->memories.count, 2);
    const quipu_memory *memory = quipu_memory_at(list->memories, 1);
    assert_string_equal(memory->content.p, "Never use emojis.");
    assert_int_equal(memory->source_start, 3);
    assert_int_equal(memory->source_end, 3);
    assert_int_equal(memory->priority, QUIPU_PRIORITY_STANDING);
    assert_int_equal(memory->generation, 2);
    assert_string_equal(memory->origin.p, QUIPU_RULES_ORIGIN);
    assert_true(memory->token_count > 0 && memory->has_said_at);
    quipu_free(list);
    at = run_status(store, "s");
    assert_int_equal(at.watermark, 3);
    assert_int_equal(at.pending_messages, 0);
    assert_int_equal(at.pending_tokens, 0);
    assert_int_equal(at.generation, 2);
    assert_int_equal(at.observations, 2);
    assert_false(at.has_next_at);
    mt_clean(store);
}

static void messages_of_more_than_one_batch_are_all_observed(void **state)
{
    quipu_store *store = *state;
    const int n = QUIPU_MEMORY_BATCH + 3;

    st_create(store, "s");
    for (int i = 0; i < n; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "I love number %d.", i);
        st_append(store, "s", text);
    }
    assert_int_equal(run_all(store).messages, n);
    assert_int_equal(run_count(store, "s", 0), n);
    assert_int_equal(run_status(store, "s").generation, 2);
}

/* One huge message alone reaches the threshold: the last message counts. */
static void a_session_is_due_when_its_pending_tokens_reach_the_threshold(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    char huge[4096];

    options.observe_tokens = 1000;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    T_OK(quipu_memory_run(store, &options, NULL, &ran, NULL));
    assert_int_equal(ran.messages, 0);
    memset(huge, 'x', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    st_append(store, "s", huge);
    T_OK(quipu_memory_run(store, &options, NULL, &ran, NULL));
    assert_int_equal(ran.messages, 2);
    /* The session keeps the threshold, also for workers that name none. */
    assert_int_equal(run_status(store, "s").observe_tokens, 1000);
    st_append(store, "s", "I prefer coffee.");
    assert_int_equal(run_all(store).messages, 0);
}

static void sessions_of_a_user_count_together_and_forks_are_not_observed_twice(void **state)
{
    quipu_store *store = *state;
    quipu_memory_list *list;

    run_user_session(store, "one", "ann");
    run_user_session(store, "two", "ann");
    run_user_session(store, "bob", "bob");
    st_append(store, "one", "I prefer tea.");
    st_append(store, "one", "I prefer trains.");
    mt_fork(store, "one", 2, "fork");
    st_append(store, "fork", "I prefer boats.");
    st_append(store, "two", "I prefer tea.");
    st_append(store, "bob", "I prefer tea.");
    assert_int_equal(run_all(store).messages, 5);
    list = run_list(store, "two", QUIPU_MEMORY_FIND_SCOPE);
    assert_int_equal(list->memories.count, 3);
    assert_int_equal(quipu_memory_at(list->memories, 0)->times, 2);
    quipu_free(list);
    assert_int_equal(run_count(store, "bob", QUIPU_MEMORY_FIND_SCOPE), 1);
    mt_clean(store);
}

static void a_fork_without_a_user_observes_what_it_shows(void **state)
{
    quipu_store *store = *state;

    st_create(store, "one");
    st_append(store, "one", "I prefer tea.");
    mt_fork(store, "one", 1, "fork");
    assert_int_equal(run_all(store).messages, 2);
    assert_int_equal(run_count(store, "fork", 0), 1);
}

/* The key is used again: nothing of the earlier life counts, least of all its watermark. */
static void
a_session_that_was_deleted_and_made_again_is_observed_from_its_first_message(void **state)
{
    quipu_store *store = *state;

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    st_append(store, "s", "I prefer trains.");
    (void)run_all(store);
    T_OK(quipu_session_delete(store, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    mt_clean(store);
    st_create(store, "s");
    st_append(store, "s", "I prefer boats.");
    assert_int_equal(run_all(store).messages, 1);
    assert_int_equal(run_count(store, "s", QUIPU_MEMORY_FIND_RETIRED), 1);
}

static void a_summary_and_pruned_messages_are_passed_over(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    st_append(store, "s", "I prefer trains.");
    T_OK(quipu_session_compact(store, QUIPU_STR("s"),
                               T_COMPACT(2, QUIPU_STR("I prefer summaries.")), NULL, NULL, &err));
    T_OK(quipu_session_prune(store, QUIPU_STR("s"), NULL, NULL, &err));
    st_append(store, "s", "I prefer boats.");
    (void)run_all(store);
    assert_int_equal(run_count(store, "s", 0), 1);
    assert_int_equal(run_status(store, "s").pending_messages, 0);
}

/* A worker never reads it, and so nothing of it is ever observed. */
static void a_summary_behind_the_watermark_is_not_pending(void **state)
{
    quipu_store *store = *state;
    const quipu_str summary = QUIPU_STR("Tea and trains.");

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    st_append(store, "s", "I prefer trains.");
    (void)run_all(store);
    for (int i = 0; i < 2; i++) {
        T_OK(quipu_session_compact(store, QUIPU_STR("s"), T_COMPACT(1 + i, summary), NULL, NULL,
                                   NULL));
        assert_int_equal(run_status(store, "s").pending_messages, 0);
        assert_int_equal(run_status(store, "s").watermark, 3 + i);
        assert_int_equal(run_status(store, "s").last_seq, 3 + i);
    }
    st_append(store, "s", "I prefer boats.");
    assert_int_equal(run_status(store, "s").watermark, 2);
    assert_true(run_status(store, "s").pending_messages >= 1);
    (void)run_all(store);
    assert_int_equal(run_status(store, "s").watermark, 5);
    assert_int_equal(run_count(store, "s", 0), 3);
}

static void an_expired_session_is_passed_over(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("s");
    quipu_error err = {0};

    values.ttl_ms = 1000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append(store, "s", "I prefer tea.");
    qp_time_step(3600000);
    assert_int_equal(run_all(store).sessions, 0);
}

/* What people saved stays; of what rules made, the oldest yields. */
static void standing_lines_stay_within_their_allowance(void **state)
{
    quipu_store *store = *state;
    quipu_memory own = {.kind = QUIPU_OBSERVATION,
                        .session_key = QUIPU_STR("s"),
                        .content = QUIPU_STR("said by a person"),
                        .token_count = 4,
                        .priority = QUIPU_PRIORITY_STANDING};
    quipu_memory_list *list;
    int64_t standing = 0;

    st_create(store, "s");
    T_OK(quipu_memory_save(store, quipu_memories_of(&own, 1), NULL, NULL, NULL));
    for (int i = 0; i < 150; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "Always mention item number %d.", i);
        st_append(store, "s", text);
    }
    (void)run_all(store);
    list = run_list(store, "s", 0);
    assert_int_equal(list->memories.count, 151);
    for (size_t i = 0; i < list->memories.count; i++) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i);
        standing += memory->priority == QUIPU_PRIORITY_STANDING ? memory->token_count : 0;
    }
    assert_true(standing <= QUIPU_STANDING_TOKENS_MIN);
    assert_true(standing > QUIPU_STANDING_TOKENS_MIN / 2);
    assert_int_equal(quipu_memory_at(list->memories, 0)->priority, QUIPU_PRIORITY_STANDING);
    assert_int_equal(quipu_memory_at(list->memories, 1)->priority, QUIPU_PRIORITY_HIGH);
    assert_int_equal(quipu_memory_at(list->memories, 150)->priority, QUIPU_PRIORITY_STANDING);
    quipu_free(list);
    assert_int_equal(run_status(store, "s").standing_tokens, standing);
}

/* A saved memory may count as many tokens as there are numbers: two of them are no fewer. */
static void token_counts_at_their_limit_add_up_to_the_limit(void **state)
{
    quipu_store *store = *state;
    quipu_memory own = {.kind = QUIPU_OBSERVATION,
                        .session_key = QUIPU_STR("s"),
                        .token_count = INT64_MAX,
                        .priority = QUIPU_PRIORITY_STANDING};
    quipu_memory_list *list;

    st_create(store, "s");
    own.content = QUIPU_STR("one");
    T_OK(quipu_memory_save(store, quipu_memories_of(&own, 1), NULL, NULL, NULL));
    own.content = QUIPU_STR("two");
    T_OK(quipu_memory_save(store, quipu_memories_of(&own, 1), NULL, NULL, NULL));
    assert_true(run_status(store, "s").standing_tokens == INT64_MAX);
    st_append(store, "s", "Always mention the weather.");
    (void)run_all(store);
    list = run_list(store, "s", 0);
    assert_int_equal(list->memories.count, 3);
    /* Beyond its allowance, the session has no room for what a rule made. */
    assert_int_equal(quipu_memory_at(list->memories, 2)->priority, QUIPU_PRIORITY_HIGH);
    assert_int_equal(quipu_memory_at(list->memories, 0)->priority, QUIPU_PRIORITY_STANDING);
    quipu_free(list);
    mt_clean(store);
}

static void an_import_keeps_watermarks_and_observes_nothing_again(void **state)
{
    quipu_store *store = *state;
    quipu_store *target = st_open_new(NULL, NULL);
    mt_stream stream;
    mt_stream again;

    run_user_session(store, "one", "ann");
    st_create(store, "s");
    st_append(store, "one", "I prefer tea.");
    st_append(store, "s", "I prefer tea.");
    (void)run_all(store);
    st_append(store, "s", "I prefer trains.");
    stream = mt_export(store, NULL);
    (void)mt_import(target, &stream);
    again = mt_export(target, NULL);
    assert_int_equal(again.n, stream.n);
    assert_memory_equal(again.p, stream.p, stream.n);
    assert_int_equal(run_status(target, "s").watermark, 1);
    assert_int_equal(run_all(target).messages, 1);
    assert_int_equal(run_status(target, "s").generation, 2);
    mt_clean(target);
    mt_free(&stream);
    mt_free(&again);
    quipu_close(target);
}

static void erasing_a_user_leaves_no_scope_behind(void **state)
{
    quipu_store *store = *state;
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *erasure = NULL;
    mt_stream stream;

    run_user_session(store, "one", "zebra");
    st_append(store, "one", "I prefer tea.");
    (void)run_all(store);
    options.user_id = QUIPU_STR("zebra");
    T_OK(quipu_erase(store, &options, NULL, &erasure, NULL));
    assert_int_equal(erasure->memories, 1);
    quipu_free(erasure);
    stream = mt_export(store, NULL);
    assert_false(mt_find(stream.p, stream.n, "zebra"));
    mt_free(&stream);
    mt_clean(store);
}

/* ---- options ----------------------------------------------------------------------------------
 */

static void a_run_of_one_session_or_user_leaves_the_others(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    run_user_session(store, "one", "ann");
    run_user_session(store, "bob", "bob");
    st_create(store, "s");
    st_append(store, "one", "I prefer tea.");
    st_append(store, "bob", "I prefer tea.");
    st_append(store, "s", "I prefer tea.");
    options.session_key = QUIPU_STR("s");
    T_OK(quipu_memory_run(store, &options, NULL, &ran, NULL));
    assert_int_equal(ran.sessions, 1);
    options = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    options.app_name = QUIPU_STR("app");
    options.user_id = QUIPU_STR("ann");
    T_OK(quipu_memory_run(store, &options, NULL, &ran, NULL));
    assert_int_equal(ran.sessions, 1);
    assert_int_equal(run_status(store, "one").watermark, 1);
    assert_int_equal(run_status(store, "bob").watermark, 0);
    options.changed_after = (quipu_time){quipu_time_now().s + 3600, 0};
    options.user_id = (quipu_str){NULL, 0};
    T_OK(quipu_memory_run(store, &options, NULL, &ran, NULL));
    assert_int_equal(ran.sessions, 0);
}

static void wrong_options_are_refused_before_anything_is_claimed(void **state)
{
    quipu_store *store = *state;
    char name[QUIPU_MEMORY_WORKER_MAX + 1];
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_error err = {0};

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    options.session_key = QUIPU_STR("t");
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_NOT_FOUND);
    options.app_name = QUIPU_STR("app");
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    options.user_id = QUIPU_STR("ann");
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    options.lease_ms = QUIPU_MEMORY_LEASE_MS_MAX + 1;
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_LIMIT);
    options.lease_ms = QUIPU_MEMORY_LEASE_MS_MAX;
    options.observe_tokens = -1;
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_LIMIT);
    options.observe_tokens = 0;
    memset(name, 'w', sizeof(name));
    options.worker = (quipu_str){name, sizeof(name)};
    assert_int_equal(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_LIMIT);
    assert_int_equal(run_status(store, "s").fence, 0);
    options.worker.n = QUIPU_MEMORY_WORKER_MAX;
    T_OK(quipu_memory_run(store, &options, NULL, NULL, &err));
    assert_int_equal(run_status(store, "s").watermark, 1);
}

static void a_cancelled_run_returns_and_leaves_no_lease(void **state)
{
    quipu_store *store = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    call.cancel = quipu_cancel_new();
    quipu_cancel_set(call.cancel);
    assert_int_equal(quipu_memory_run(store, NULL, &call, NULL, NULL), QUIPU_CANCELLED);
    quipu_free(call.cancel);
    assert_int_equal(run_all(store).messages, 1);
}

static void verify_finds_a_watermark_behind_the_end_and_repair_observes_nothing_again(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    ent_db *db;

    (void)state;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    (void)run_all(store);
    db = et_connect(path, 1000);
    T_OK(qp_memory_scope_update(db, &(qp_memory_scope_where){.scope = ent_eq(QUIPU_STR("s"))},
                                &(qp_memory_scope_patch){.watermark = ent_set((int64_t)9)}, NULL,
                                NULL));
    ent_close(db);
    assert_int_equal(mt_verify(store).kinds[QUIPU_PROBLEM_MEMORY], 1);
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
    assert_int_equal(verified.repaired, 1);
    mt_clean(store);
    assert_int_equal(run_all(store).messages, 0);
    assert_int_equal(run_status(store, "s").watermark, 1);
    quipu_close(store);
}

/* ---- two workers ------------------------------------------------------------------------------
 */

static void a_worker_whose_lease_was_taken_over_stores_nothing(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory late = {.kind = QUIPU_OBSERVATION,
                         .content = QUIPU_STR("late"),
                         .origin = QUIPU_STR(QUIPU_RULES_ORIGIN)};
    const qp_memory_batch batch = {.items = &late, .count = 1, .done_seq = 1, .done_tokens = 1};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_memory_stored stored;
    qp_memory_work work;
    qp_call within;

    options.worker = QUIPU_STR("slow");
    options.lease_ms = 1000;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    T_OK(qp_store_enter(store, NULL, &within, NULL));
    T_OK(qp_memory_claim(store, &within, &options, QUIPU_STR("s"), &arena, &work, NULL));
    assert_int_equal(work.claimed, QP_MEMORY_CLAIMED);
    assert_int_equal(run_all(store).sessions, 0); /* it is leased */
    qp_time_step(60000);
    assert_int_equal(run_all(store).messages, 1);
    assert_int_equal(qp_memory_commit(store, &within, &options, &work, &batch, &stored, NULL),
                     QUIPU_CONFLICT);
    T_OK(qp_memory_give_back(store, &within, &work.lease, QUIPU_STR("too late"), NULL));
    qp_store_leave(&within);
    assert_int_equal(run_count(store, "s", 0), 1);
    assert_int_equal(run_status(store, "s").generation, 1);
    assert_int_equal(run_status(store, "s").fence, 2);
    quipu_arena_free(&arena);
    mt_clean(store);
}

/* The other one has claimed and not committed yet: only the fence distinguishes the two. */
static void only_the_newest_of_two_leases_may_commit(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory fact = {.kind = QUIPU_OBSERVATION,
                         .content = QUIPU_STR("fact"),
                         .origin = QUIPU_STR(QUIPU_RULES_ORIGIN)};
    const qp_memory_batch batch = {.items = &fact, .count = 1, .done_seq = 1, .done_tokens = 7};
    quipu_arena arenas[2] = {QUIPU_ARENA_INIT, QUIPU_ARENA_INIT};
    qp_memory_stored stored;
    qp_memory_work works[2];
    qp_call within;

    options.worker = QUIPU_STR("w");
    options.lease_ms = 1000;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    T_OK(qp_store_enter(store, NULL, &within, NULL));
    for (int i = 0; i < 2; i++) {
        T_OK(
            qp_memory_claim(store, &within, &options, QUIPU_STR("s"), &arenas[i], &works[i], NULL));
        assert_int_equal(works[i].claimed, QP_MEMORY_CLAIMED);
        qp_time_step(60000);
    }
    assert_int_equal(works[0].watermark, works[1].watermark);
    assert_int_equal(qp_memory_commit(store, &within, &options, &works[0], &batch, &stored, NULL),
                     QUIPU_CONFLICT);
    assert_int_equal(run_count(store, "s", 0), 0);
    T_OK(qp_memory_commit(store, &within, &options, &works[1], &batch, &stored, NULL));
    qp_store_leave(&within);
    assert_int_equal(run_count(store, "s", 0), 1);
    assert_int_equal(run_status(store, "s").watermark, 1);
    quipu_arena_free(&arenas[0]);
    quipu_arena_free(&arenas[1]);
}

/* A program that does not know jobs has deleted the session and made it again: the job's range
 * reaches further than the new session. */
static void a_job_with_the_range_of_an_earlier_life_ends_at_the_last_message(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    db = et_connect(path, 1000);
    T_OK(qp_job_create(db, NULL,
                       &(qp_job_new){.scope = QUIPU_STR("s"),
                                     .kind = QP_JOB_OBSERVE,
                                     .first_seq = 90,
                                     .last_seq = 99,
                                     .next_at = ent_some(quipu_time_now())},
                       NULL, &err));
    T_OK(qp_memory_scope_create(
        db, NULL,
        &(qp_memory_scope_new){.scope = QUIPU_STR("s"),
                               .kind = QP_MEMORY_SCOPE_KIND_SESSION,
                               .session_uid = ent_some(((quipu_uuid){.b = {1}})),
                               .watermark = 89,
                               .watermark_tokens = 1000},
        NULL, &err));
    ent_close(db);
    assert_int_equal(run_all(store).messages, 1);
    assert_int_equal(run_status(store, "s").watermark, 1);
    assert_false(run_status(store, "s").has_next_at);
    st_append(store, "s", "I prefer trains.");
    assert_int_equal(run_all(store).messages, 1);
    mt_clean(store);
    quipu_close(store);
}

static void a_failure_is_kept_and_tried_again_later(void **state)
{
    quipu_store *store = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_memory_work work;
    qp_call within;

    options.worker = QUIPU_STR("w");
    options.lease_ms = 1000;
    st_create(store, "s");
    st_append(store, "s", "I prefer tea.");
    T_OK(qp_store_enter(store, NULL, &within, NULL));
    T_OK(qp_memory_claim(store, &within, &options, QUIPU_STR("s"), &arena, &work, NULL));
    T_OK(qp_memory_give_back(store, &within, &work.lease, QUIPU_STR("no answer"), NULL));
    qp_store_leave(&within);
    quipu_arena_free(&arena);
    assert_int_equal(run_all(store).sessions, 0);
    T_OK(quipu_memory_status(store, NULL, NULL, &list, NULL));
    assert_string_equal(quipu_memory_progress_at(list->sessions, 0)->last_error.p, "no answer");
    quipu_free(list);
    qp_time_step(60000);
    assert_int_equal(run_all(store).messages, 1);
    assert_int_equal(run_status(store, "s").tries, 0);
}

/* ---- kill -9 ----------------------------------------------------------------------------------
 */

#define KILL_SESSIONS 3
#define KILL_WORKERS_MAX 8
#define KILL_MESSAGES 4 /* appended to each session in a round */

static const char *const kill_keys[KILL_SESSIONS] = {"one", "two", "alone"};

static void kill_nap(uint64_t *random)
{
    const struct timespec nap = {0, (long)t_random_below(random, 100) * 1000000L};

    (void)nanosleep(&nap, NULL);
}

/* A worker that only a signal ends. Its leases are short, so that others take over from a worker
 * that is merely slow, too. It says through its pipe that it begins. */
static void kill_worker(const char *path, int pipe_end)
{
    quipu_store *store = NULL;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    const struct timespec nap = {0, 1000000L};

    options.lease_ms = 60;
    while (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        (void)nanosleep(&nap, NULL);
    }
    if (write(pipe_end, "!", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        if (quipu_memory_run(store, &options, NULL, NULL, NULL) != QUIPU_OK) {
            (void)nanosleep(&nap, NULL);
        }
        (void)nanosleep(&nap, NULL);
    }
}

/* Appends the messages of a round, each with a fact of its own, and exits. */
static void kill_writer(const char *path, int round)
{
    quipu_store *store = NULL;

    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        _exit(1);
    }
    for (int i = 0; i < KILL_MESSAGES; i++) {
        for (int s = 0; s < KILL_SESSIONS; s++) {
            char text[64];
            quipu_message message = {.role = QUIPU_ROLE_USER};

            (void)snprintf(text, sizeof(text), "I love thing %d of round %d in %s.", i, round,
                           kill_keys[s]);
            message.content = quipu_cstr(text);
            if (quipu_message_append(store, quipu_cstr(kill_keys[s]),
                                     quipu_messages_of(&message, 1), NULL, NULL, NULL,
                                     NULL) != QUIPU_OK) {
                _exit(2);
            }
        }
    }
    quipu_close(store);
    _exit(0);
}

/* Starts a worker and waits until it works. */
static pid_t kill_start(const char *path, const int ends[2])
{
    const pid_t pid = fork();
    char begun;

    assert_true(pid >= 0);
    if (pid == 0) {
        kill_worker(path, ends[1]);
    }
    assert_int_equal(read(ends[0], &begun, 1), 1);
    return pid;
}

static void kill_one(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* One round: a writer, and as long as it writes workers of which one after the other is killed and
 * replaced; returns how many. No store is open here: what a child inherits of one is of no use to
 * it. */
static int kill_round(const char *path, int round, uint64_t *random)
{
    const int workers = 2 + round % (KILL_WORKERS_MAX - 1);
    pid_t pids[KILL_WORKERS_MAX];
    int ends[2];
    pid_t writer;
    int kills = workers;
    int status = 0;

    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < workers; i++) {
        pids[i] = kill_start(path, ends);
    }
    writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        kill_writer(path, round);
    }
    do {
        const size_t victim = (size_t)t_random_below(random, (uint64_t)workers);

        kill_nap(random);
        kill_one(pids[victim]);
        pids[victim] = kill_start(path, ends);
        kills++;
    } while (waitpid(writer, &status, WNOHANG) == 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < workers; i++) {
        kill_nap(random);
        kill_one(pids[i]);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    return kills;
}

/* Every message of the session has one observation, said once, and generations have no gap. */
static void kill_check(quipu_store *store, const char *key, int64_t messages)
{
    quipu_memory_list *list = run_list(store, key, QUIPU_MEMORY_FIND_RETIRED);
    const quipu_memory_progress at = run_status(store, key);
    bool *seen = calloc((size_t)messages + 1, sizeof(*seen));
    bool *generations = calloc((size_t)messages + 1, sizeof(*generations));

    assert_non_null(seen);
    assert_non_null(generations);
    assert_int_equal(list->memories.count, messages);
    assert_int_equal(at.watermark, messages);
    assert_int_equal(at.pending_messages, 0);
    assert_null(at.owner.p);
    assert_true(at.generation >= 1 && at.generation <= messages);
    for (size_t i = 0; i < list->memories.count; i++) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i);

        assert_int_equal(memory->times, 1);
        assert_true(memory->source_start >= 1 && memory->source_start <= messages);
        assert_false(seen[memory->source_start]);
        seen[memory->source_start] = true;
        assert_true(memory->generation >= 1 && memory->generation <= at.generation);
        generations[memory->generation] = true;
    }
    for (int64_t i = 1; i <= at.generation; i++) {
        assert_true(generations[i]);
    }
    free(seen);
    free(generations);
    quipu_free(list);
}

static void workers_that_are_killed_skip_no_message_and_observe_none_twice(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    uint64_t random = t_seed();
    const int rounds = t_long() ? 70 : 9; /* ten of each number of workers */
    int kills = 0;

    (void)state;
    run_user_session(store, "one", "ann");
    run_user_session(store, "two", "ann");
    st_create(store, "alone");
    quipu_close(store);
    for (int round = 0; round < rounds; round++) {
        kills += kill_round(path, round, &random);
    }
    store = st_open(path);
    qp_time_step(QUIPU_MEMORY_LEASE_MS_MAX);
    print_message("%d workers were killed; they left %d of %d messages\n", kills,
                  (int)run_all(store).messages, rounds * KILL_MESSAGES * KILL_SESSIONS);
    for (int i = 0; i < KILL_SESSIONS; i++) {
        kill_check(store, kill_keys[i], (int64_t)rounds * KILL_MESSAGES);
    }
    mt_clean(store);
    quipu_close(store);
    qp_time_step(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN_TEST(a_run_observes_each_message_once_and_moves_the_watermark),
        RUN_TEST(messages_of_more_than_one_batch_are_all_observed),
        RUN_TEST(a_session_is_due_when_its_pending_tokens_reach_the_threshold),
        RUN_TEST(sessions_of_a_user_count_together_and_forks_are_not_observed_twice),
        RUN_TEST(a_fork_without_a_user_observes_what_it_shows),
        RUN_TEST(a_session_that_was_deleted_and_made_again_is_observed_from_its_first_message),
        RUN_TEST(a_summary_and_pruned_messages_are_passed_over),
        RUN_TEST(a_summary_behind_the_watermark_is_not_pending),
        RUN_TEST(an_expired_session_is_passed_over),
        RUN_TEST(standing_lines_stay_within_their_allowance),
        RUN_TEST(token_counts_at_their_limit_add_up_to_the_limit),
        RUN_TEST(an_import_keeps_watermarks_and_observes_nothing_again),
        RUN_TEST(erasing_a_user_leaves_no_scope_behind),
        RUN_TEST(a_run_of_one_session_or_user_leaves_the_others),
        RUN_TEST(wrong_options_are_refused_before_anything_is_claimed),
        RUN_TEST(a_cancelled_run_returns_and_leaves_no_lease),
        RUN_TEST(a_worker_whose_lease_was_taken_over_stores_nothing),
        RUN_TEST(only_the_newest_of_two_leases_may_commit),
        RUN_TEST(a_failure_is_kept_and_tried_again_later),
        cmocka_unit_test(a_job_with_the_range_of_an_earlier_life_ends_at_the_last_message),
        cmocka_unit_test(verify_finds_a_watermark_behind_the_end_and_repair_observes_nothing_again),
        cmocka_unit_test(workers_that_are_killed_skip_no_message_and_observe_none_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
