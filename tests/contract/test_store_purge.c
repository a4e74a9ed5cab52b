/* Purges: a long session is gone at once, and its messages go in bounded steps, whichever caller
 * does them. Jobs are left behind on purpose by removing a session below the public API, as a crash
 * would. */
#include <quipu/memory.h>

#include "contract/log_t.h"
#include "contract/maintain_t.h"
#include "contract/recall_t.h"
#include "contract/search_t.h"
#include "lib/short.h"

#include "base/str.h"
#include "base/time.h"

#include "store/job.h"
#include "store/purge.h"
#include "store/size.h"
#include "store/store.h"

#define WORD "quetzalcoatl"
#define LONG (QUIPU_DELETE_BATCH + 500) /* messages of a long session: two transactions */

#define MORE (2 * QUIPU_DELETE_BATCH + 5)

/* Append so many messages that hold the word. */
static void fill(quipu_store *store, const char *key, int count)
{
    static char texts[10000][48];
    static quipu_message messages[10000];
    quipu_error err = {0};

    for (int done = 0; done < count;) {
        const int n = count - done < 10000 ? count - done : 10000;

        for (int i = 0; i < n; i++) {
            (void)snprintf(texts[i], sizeof(texts[i]), WORD " number %d", done + i + 1);
            messages[i] = st_says(i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, texts[i]);
        }
        T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, (size_t)n),
                                  NULL, NULL, NULL, &err));
        done += n;
    }
}

static void filled(quipu_store *store, const char *key, int count)
{
    st_create(store, key);
    fill(store, key, count);
}

/* ---- behind the public API --------------------------------------------------------------------
 */

typedef struct behind {
    quipu_store *store;
    const char *key;
    int64_t messages;
    int64_t jobs;
    qp_job_lease lease;
    quipu_arena arena;
    bool found;
} behind;

static void run(quipu_store *store, qp_work_fn work, behind *ctx)
{
    quipu_error err = {0};
    qp_call within;

    ctx->store = store;
    T_OK(qp_store_enter(store, NULL, &within, &err));
    T_OK(qp_size_exempt(store, &within, work, ctx, &err));
    qp_store_leave(&within);
}

static quipu_status remove_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    behind *self = ctx;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_lookup(self->store, db, scratch, quipu_cstr(self->key), &row, reterr);

    assert_true(status != QUIPU_OK || row != NULL);
    return status == QUIPU_OK ? qp_session_remove(self->store, db, row, reterr) : status;
}

/* The first transaction of a delete, and then a crash. */
static void delete_and_stop(quipu_store *store, const char *key)
{
    run(store, remove_work, &(behind){.key = key});
}

static quipu_status count_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    behind *self = ctx;
    quipu_status status = qp_message_count(db, NULL, &self->messages, reterr);

    (void)scratch;
    return status == QUIPU_OK ? qp_job_count(db, &(qp_job_where){.kind = ent_eq(QP_JOB_PURGE)},
                                             &self->jobs, reterr)
                              : status;
}

static int64_t rows(quipu_store *store)
{
    behind self = {0};

    run(store, count_work, &self);
    return self.messages;
}

static int64_t jobs(quipu_store *store)
{
    behind self = {0};

    run(store, count_work, &self);
    return self.jobs;
}

static quipu_status claim_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    behind *self = ctx;

    (void)scratch;
    return qp_job_claim_next(
        self->store, db, &self->arena,
        &(qp_job_claim){QP_JOB_PURGE, QP_STR_ABSENT, QUIPU_STR("another"), 60000}, &self->lease,
        &self->found, reterr);
}

static int64_t sweep(quipu_store *store)
{
    int64_t removed = -1;
    quipu_error err = {0};

    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    return removed;
}

/* Nobody sees the session or a word of it. */
static void check_gone(quipu_store *store, const char *key)
{
    quipu_recall_options question = recall_everything(WORD);
    quipu_recall_results *recalled = recall_with(store, &question);
    quipu_session_new values = st_values("fork of nothing");
    quipu_export_options flat = QUIPU_EXPORT_OPTIONS_INIT;
    mt_stream stream = mt_export(store, NULL);

    assert_int_equal(recalled->hits.count, 0);
    quipu_free(recalled);
    assert_false(mt_find(stream.p, stream.n, WORD));
    mt_free(&stream);
    flat.flags = QUIPU_EXPORT_FLAT;
    stream = mt_export(store, &flat);
    assert_false(mt_find(stream.p, stream.n, WORD));
    mt_free(&stream);
    assert_string_equal(found(store, WORD), "");
    assert_int_equal(st_get_status(store, key), QUIPU_NOT_FOUND);
    assert_int_equal(quipu_session_fork(store, quipu_cstr(key), 1, &values, NULL, NULL, NULL),
                     QUIPU_NOT_FOUND);
    mt_clean(store);
}

/* ---- deleting ---------------------------------------------------------------------------------
 */

static void a_session_of_one_batch_goes_in_one_transaction(void **state)
{
    quipu_error err = {0};

    filled(*state, "short", QUIPU_DELETE_BATCH);
    delete_and_stop(*state, "short");
    assert_int_equal(jobs(*state), 0);
    assert_int_equal(rows(*state), 0);
    filled(*state, "long", QUIPU_DELETE_BATCH + 1);
    delete_and_stop(*state, "long");
    assert_int_equal(jobs(*state), 1);
    assert_int_equal(rows(*state), 1);
    T_OK(quipu_session_delete(*state, QUIPU_STR("nobody"), NULL, NULL, NULL,
                              &err)); /* finishes the rest */
    assert_int_equal(jobs(*state), 0);
    assert_int_equal(rows(*state), 0);
    mt_clean(*state);
}

/* A session of so many messages of so many bytes, which the search index does not contain yet. */
static void filled_with_rows(quipu_store *store, const char *key, int count, size_t bytes)
{
    char *text = malloc(bytes + 1);
    quipu_message message;
    quipu_error err = {0};

    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = i % 8 == 7 ? ' ' : 'x';
    }
    text[bytes] = '\0';
    message = st_says(QUIPU_ROLE_USER, text);
    st_create(store, key);
    for (int i = 0; i < count; i++) {
        T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, &err));
    }
    free(text);
}

static void filled_with_long(quipu_store *store, const char *key, int count, size_t bytes)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};

    filled_with_rows(store, key, count, bytes);
    call.deadline_ms = -1;
    T_OK(quipu_search_index(store, &call, NULL, &err));
}

/* A transaction takes eight times as many of them, and one more waits. */
static void bytes_outside_of_the_index_count_an_eighth(void **state)
{
    const int fit = 4 * QUIPU_DELETE_BATCH_ROW_SHARE;

    filled_with_rows(*state, "max", fit, QUIPU_DELETE_BATCH_BYTES / 4);
    delete_and_stop(*state, "max");
    assert_int_equal(rows(*state), 0);
    assert_int_equal(jobs(*state), 0);
    filled_with_rows(*state, "more", fit + 1, QUIPU_DELETE_BATCH_BYTES / 4);
    delete_and_stop(*state, "more");
    assert_int_equal(rows(*state), 1);
    assert_int_equal(jobs(*state), 1);
    (void)sweep(*state);
    assert_int_equal(rows(*state), 0);
}

static void long_messages_count_by_their_bytes(void **state)
{
    filled_with_long(*state, "k", 6, QUIPU_DELETE_BATCH_BYTES / 4);
    delete_and_stop(*state, "k");
    assert_int_equal(rows(*state), 2); /* four fill a transaction */
    assert_int_equal(jobs(*state), 1);
    (void)sweep(*state);
    assert_int_equal(rows(*state), 0);
}

/* One message a transaction: the first, and QUIPU_DELETE_BATCHES behind it. */
static void a_call_removes_so_many_batches_and_later_calls_the_rest(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    filled_with_long(store, "max", QUIPU_DELETE_BATCHES + 1, QUIPU_DELETE_BATCH_BYTES);
    T_OK(quipu_session_delete(store, QUIPU_STR("max"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    filled_with_long(store, "more", QUIPU_DELETE_BATCHES + 2, QUIPU_DELETE_BATCH_BYTES);
    T_OK(quipu_session_delete(store, QUIPU_STR("more"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), 1);
    assert_int_equal(jobs(store), 1);
    assert_int_equal(st_get_status(store, "more"), QUIPU_NOT_FOUND);
    mt_clean(store);
    T_OK(quipu_session_delete(store, QUIPU_STR("nobody"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
}

static void workers_go_on_with_what_a_delete_left(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    filled(store, "k", LONG);
    delete_and_stop(store, "k");
    assert_int_equal(jobs(store), 1);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    assert_int_equal(jobs(store), 0);
    filled(store, "k", LONG);
    delete_and_stop(store, "k");
    T_OK(quipu_memory_run(store, NULL, NULL, NULL, &err));
    assert_int_equal(jobs(store), 0);
    assert_int_equal(rows(store), 0);
    mt_clean(store);
}

static void a_deleted_session_is_gone_while_its_messages_wait(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    filled(store, "other", 3);
    T_OK(quipu_session_delete(store, QUIPU_STR("other"), NULL, NULL, NULL, &err));
    filled(store, "k", LONG);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    delete_and_stop(store, "k");
    assert_int_equal(rows(store), LONG - QUIPU_DELETE_BATCH);
    check_gone(store, "k");
    st_create(store, "k"); /* the key is free */
    assert_int_equal(st_append(store, "k", "new"), 1);
    assert_string_equal(found(store, "new"), "k:1 ");
    assert_int_equal(sweep(store), 0);
    assert_int_equal(rows(store), 1);
    assert_int_equal(jobs(store), 0);
    assert_string_equal(found(store, "new"), "k:1 ");
    mt_clean(store);
}

/* Looks at the store behind every step, from another one. */
typedef struct steps {
    quipu_store *beside;
    int count;
    int64_t messages;
    int64_t most;
} steps;

static void step_hook(void *ctx, const quipu_log_entry *entry)
{
    steps *self = ctx;

    if (strcmp(entry->event, "purge_step") == 0) {
        const int64_t n = quipu_log_field_at(entry->fields, 0)->number;

        self->count++;
        self->messages += n;
        self->most = n > self->most ? n : self->most;
        check_gone(self->beside, "k");
        assert_int_equal(st_append(self->beside, "writer", "between two steps"), self->count);
    }
}

static void no_step_removes_more_than_a_batch_and_others_write_between(void **state)
{
    steps seen = {0};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store;
    quipu_error err = {0};

    (void)state;
    options.log = step_hook;
    options.log_ctx = &seen;
    options.log_level = QUIPU_LOG_DEBUG;
    store = st_open_new(&options, path);
    seen.beside = st_open(path);
    st_create(store, "writer");
    filled(store, "k", MORE);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    assert_true(seen.count >= 2);
    assert_int_equal(seen.messages, MORE - QUIPU_DELETE_BATCH);
    assert_int_equal(seen.most, QUIPU_DELETE_BATCH);
    assert_int_equal(rows(store), seen.count);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
    quipu_close(seen.beside);
    quipu_close(store);
}

/* ---- forks ------------------------------------------------------------------------------------
 */

static void forks_keep_what_they_share_of_a_purged_session(void **state)
{
    quipu_store *store = *state;
    mt_stream whole;
    quipu_error err = {0};
    quipu_history *history;

    filled(store, "k", LONG);
    mt_fork(store, "k", 10, "fork");
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    delete_and_stop(store, "k");
    assert_int_equal(rows(store), LONG - QUIPU_DELETE_BATCH);
    mt_clean(store);
    assert_true(strncmp(found(store, "\"number 10\""), "fork:10 ", 8) == 0);
    assert_string_equal(found(store, "\"number 2500\""), "");
    whole = mt_export(store, NULL); /* the parent, with what the fork shares, and the fork */
    assert_true(mt_find(whole.p, whole.n, "number 10\""));
    assert_false(mt_find(whole.p, whole.n, "number 2500\""));
    (void)sweep(store);
    assert_int_equal(rows(store), 10);
    mt_stream again = mt_export(store, NULL);
    assert_int_equal(again.n, whole.n);
    mt_free(&again);
    mt_free(&whole);
    history = st_get(store, "fork", NULL);
    assert_int_equal(history->messages.count, 10);
    quipu_free(history);
    mt_clean(store);
    T_OK(quipu_session_delete(store, QUIPU_STR("fork"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), 0);
    mt_clean(store);
}

static void the_last_fork_takes_a_long_hidden_parent_along(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    filled(store, "k", LONG);
    mt_fork(store, "k", LONG, "fork");
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), LONG);
    assert_int_equal(jobs(store), 0);
    delete_and_stop(store, "fork");
    assert_int_equal(rows(store), LONG - QUIPU_DELETE_BATCH);
    check_gone(store, "fork");
    (void)sweep(store);
    assert_int_equal(rows(store), 0);
    mt_clean(store);
}

/* A session may go with its last fork while a worker that died still has its purge. */
static void a_purge_goes_with_its_session(void **state)
{
    quipu_store *store = *state;
    behind other = {0};
    quipu_error err = {0};

    filled(store, "k", LONG);
    mt_fork(store, "k", 1, "fork");
    delete_and_stop(store, "k");
    assert_int_equal(jobs(store), 1);
    run(store, claim_work, &other);
    assert_true(other.found);
    T_OK(quipu_session_delete(store, QUIPU_STR("fork"), NULL, NULL, NULL, &err));
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
    quipu_arena_free(&other.arena);
}

static void a_tree_of_long_sessions_goes_as_one(void **state)
{
    quipu_store *store = *state;
    int64_t removed = 0;
    quipu_error err = {0};

    filled(store, "k", QUIPU_DELETE_BATCH + 7);
    mt_fork(store, "k", 5, "fork");
    fill(store, "fork", QUIPU_DELETE_BATCH + 7);
    mt_fork(store, "fork", 9, "fork of it");
    fill(store, "fork of it", 100);
    T_OK(quipu_session_delete(store, QUIPU_STR("k"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, &removed, &err));
    assert_int_equal(removed, 3);
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
}

/* ---- caps, prunes, expiry ---------------------------------------------------------------------
 */

static void a_prune_of_a_long_history_shows_the_rest_at_once(void **state)
{
    quipu_store *store = *state;
    int64_t removed = 0;
    int64_t seq = 0;
    quipu_error err = {0};

    filled(store, "k", LONG);
    T_OK(quipu_session_compact(store, QUIPU_STR("k"), T_COMPACT(LONG - 4, QUIPU_STR("a summary")),
                               NULL, &seq, &err));
    T_OK(quipu_session_prune(store, QUIPU_STR("k"), NULL, &removed, &err));
    assert_int_equal(removed, LONG - 4);
    assert_int_equal(rows(store), 5);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
}

static void a_cap_on_a_long_history_holds_with_the_next_append(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_history *history;
    quipu_error err = {0};

    (void)state;
    filled(store, "k", LONG);
    quipu_close(store);
    options.cap_messages = 10;
    T_OK(quipu_open(path, &options, &store, &err));
    assert_int_equal(st_append(store, "k", "one more"), LONG + 1);
    history = st_get(store, "k", NULL);
    assert_true(history->messages.count <= 10);
    assert_int_equal(rows(store), history->messages.count);
    quipu_free(history);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
    quipu_close(store);
}

/* A turn waits for an append: it never pays for a whole purge. */
static void an_append_removes_one_batch_of_what_others_left(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store;

    (void)state;
    options.cap_messages = 10;
    store = st_open_new(&options, path);
    st_create(store, "talk");
    filled_with_long(store, "k", 5, QUIPU_DELETE_BATCH_BYTES);
    delete_and_stop(store, "k");
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(st_append(store, "talk", "go on"), i);
        assert_int_equal(rows(store), 4); /* one more here, one less there */
    }
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
    quipu_close(store);
}

static void a_sweep_takes_long_sessions_in_batches(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error err = {0};

    for (int i = 0; i < 3; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        values.key = quipu_cstr(key);
        values.ttl_ms = 60000;
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
        fill(store, key, QUIPU_DELETE_BATCH + i);
    }
    qp_time_step(61000);
    assert_int_equal(sweep(store), 3);
    qp_time_step(0);
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
}

/* ---- workers ----------------------------------------------------------------------------------
 */

static void a_purge_of_another_worker_is_left_to_it_until_its_lease_ends(void **state)
{
    quipu_store *store = *state;
    behind other = {0};

    filled(store, "k", LONG);
    delete_and_stop(store, "k");
    run(store, claim_work, &other);
    assert_true(other.found);
    (void)sweep(store);
    assert_int_equal(rows(store), LONG - QUIPU_DELETE_BATCH);
    mt_clean(store);
    qp_time_step(61000); /* the worker is dead */
    (void)sweep(store);
    qp_time_step(0);
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    quipu_arena_free(&other.arena);
}

static void a_session_that_is_named_like_a_purge_stays(void **state)
{
    quipu_store *store = *state;

    /* A session that is named like a job's scope keeps its row and its own jobs. */
    st_create(store, "1");
    filled(store, "k", LONG);
    delete_and_stop(store, "k");
    check_gone(store, "k");
    assert_int_equal(st_append(store, "1", "I stay"), 1);
    (void)sweep(store);
    assert_int_equal(rows(store), 1);
    mt_clean(store);
}

static void an_erase_waits_for_the_last_message(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    quipu_error err = {0};

    (void)state;
    filled(store, "k", LONG);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    options.key = QUIPU_STR("k");
    T_OK(quipu_erase(store, &options, NULL, &receipt, &err));
    assert_int_equal(receipt->messages, LONG);
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    quipu_free(receipt);
    mt_clean(store);
    quipu_close(store);
    assert_false(mt_files_hold(path, WORD));
}

static quipu_status nothing_due_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const behind *self = ctx;

    return qp_purge_make_due(self->store, db, scratch, 999999, 1, 9, reterr);
}

static void verify_finds_a_purge_of_nothing_and_a_dead_session_without_one(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, path);
    mt_problems heard;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    (void)state;
    filled(store, "k", LONG);
    delete_and_stop(store, "k");
    mt_sql(path, "DELETE FROM jobs WHERE kind = 'purge'");
    run(store, nothing_due_work, &(behind){0});
    heard = mt_verify(store);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_FORK], 1);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_MEMORY], 1);
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, &err));
    (void)sweep(store);
    assert_int_equal(rows(store), 0);
    assert_int_equal(jobs(store), 0);
    mt_clean(store);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(a_session_of_one_batch_goes_in_one_transaction),
        ST_TEST(long_messages_count_by_their_bytes),
        ST_TEST(bytes_outside_of_the_index_count_an_eighth),
        ST_TEST(a_call_removes_so_many_batches_and_later_calls_the_rest),
        ST_TEST(workers_go_on_with_what_a_delete_left),
        ST_TEST(a_deleted_session_is_gone_while_its_messages_wait),
        cmocka_unit_test(no_step_removes_more_than_a_batch_and_others_write_between),
        ST_TEST(forks_keep_what_they_share_of_a_purged_session),
        ST_TEST(the_last_fork_takes_a_long_hidden_parent_along),
        ST_TEST(a_purge_goes_with_its_session),
        ST_TEST(a_tree_of_long_sessions_goes_as_one),
        ST_TEST(a_prune_of_a_long_history_shows_the_rest_at_once),
        cmocka_unit_test(a_cap_on_a_long_history_holds_with_the_next_append),
        cmocka_unit_test(an_append_removes_one_batch_of_what_others_left),
        ST_TEST(a_sweep_takes_long_sessions_in_batches),
        ST_TEST(a_purge_of_another_worker_is_left_to_it_until_its_lease_ends),
        ST_TEST(a_session_that_is_named_like_a_purge_stays),
        cmocka_unit_test(an_erase_waits_for_the_last_message),
        cmocka_unit_test(verify_finds_a_purge_of_nothing_and_a_dead_session_without_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
