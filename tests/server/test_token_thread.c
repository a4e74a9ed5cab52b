/* The token file and the workers: rights that stay whole when several write at once, limits at
 * their maximum and one above, and options of a server that are refused before anything runs. */
#include "lib/t.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <quipu/server.h>

#include "base/thread.h"
#include "base/time.h"
#include "server/pool.h"
#include "server/token.h"

#define TOKEN_T_THREADS 4
#define TOKEN_T_EACH 10

static void token_path(char ret_path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "tokens", ret_path);
}

static quipu_access_token_options token_options(void)
{
    quipu_access_token_options options = QUIPU_ACCESS_TOKEN_OPTIONS_INIT;

    options.verbs = QUIPU_ACCESS_TOKEN_READ;
    return options;
}

static size_t token_count(const char *path)
{
    quipu_access_token_list *list = NULL;
    quipu_error error;
    size_t count;

    T_OK(quipu_access_token_find(path, &list, &error));
    count = list->tokens.count;
    quipu_free(list);
    return count;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void a_token_is_found_by_its_text_and_by_nothing_else(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    qp_token_table *table = NULL;
    quipu_error error;
    const qp_identity *found;

    (void)state;
    token_path(path);
    options.app_name = QUIPU_STR("app");
    options.user_id = QUIPU_STR("user");
    T_OK(quipu_access_token_create(path, &options, token, &error));
    assert_int_equal(strlen(token), QUIPU_ACCESS_TOKEN_SIZE - 1);
    T_OK(qp_token_load(path, &table, &error));
    found = qp_token_find(table, QUIPU_STR(""), quipu_cstr(token));
    assert_non_null(found);
    T_STR(found->app_name, "app");
    T_STR(found->user_id, "user");
    assert_int_equal(found->verbs, QUIPU_ACCESS_TOKEN_READ);
    assert_null(
        qp_token_find(table, QUIPU_STR(""), (quipu_str){token, QUIPU_ACCESS_TOKEN_SIZE - 2}));
    token[10] = (char)(token[10] == 'a' ? 'b' : 'a');
    assert_null(qp_token_find(table, QUIPU_STR(""), quipu_cstr(token)));
    assert_null(qp_token_find(table, QUIPU_STR(""), QUIPU_STR("")));
    qp_token_release(table);
}

static void a_token_counts_for_its_own_tenant_alone(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char tokens[2][QUIPU_ACCESS_TOKEN_SIZE];
    static const char *const tenants[] = {"", "acme"};
    qp_token_table *table = NULL;
    quipu_error error;

    (void)state;
    token_path(path);
    for (size_t i = 0; i < 2; i++) {
        options.tenant = quipu_cstr(tenants[i]);
        T_OK(quipu_access_token_create(path, &options, tokens[i], &error));
    }
    T_OK(qp_token_load(path, &table, &error));
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 2; k++) {
            const qp_identity *found =
                qp_token_find(table, quipu_cstr(tenants[k]), quipu_cstr(tokens[i]));

            assert_int_equal(found != NULL, i == k);
        }
        assert_null(qp_token_find(table, QUIPU_STR("acm"), quipu_cstr(tokens[i])));
    }
    qp_token_release(table);
}

static void an_identity_is_found_again_until_its_rights_change(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    qp_token_table *table = NULL;
    qp_identity before;
    quipu_error error;

    (void)state;
    token_path(path);
    options.app_name = QUIPU_STR("app");
    T_OK(quipu_access_token_create(path, &options, token, &error));
    T_OK(qp_token_load(path, &table, &error));
    before = table->items[0];
    assert_ptr_equal(qp_token_again(table, &before), &table->items[0]);
    before.verbs = QUIPU_ACCESS_TOKEN_READ | QUIPU_ACCESS_TOKEN_WRITE;
    assert_null(qp_token_again(table, &before));
    before = table->items[0];
    before.app_name = QUIPU_STR("other");
    assert_null(qp_token_again(table, &before));
    before = table->items[0];
    table->items[0].has_expiry = true;
    table->items[0].expires_at = quipu_time_now();
    assert_null(qp_token_again(table, &before));
    before.hash[0] ^= 1;
    assert_null(qp_token_again(table, &before));
    qp_token_release(table);
}

/* Steps of the wall clock, forward and back: an expiry is a time, not a countdown. */
static void a_token_expires_by_the_clock(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    qp_token_table *table = NULL;
    quipu_error error;

    (void)state;
    token_path(path);
    options.ttl_ms = 3600000;
    T_OK(quipu_access_token_create(path, &options, token, &error));
    T_OK(qp_token_load(path, &table, &error));
    assert_non_null(qp_token_find(table, QUIPU_STR(""), quipu_cstr(token)));
    qp_time_step(options.ttl_ms - 60000);
    assert_non_null(qp_token_find(table, QUIPU_STR(""), quipu_cstr(token)));
    qp_time_step(options.ttl_ms);
    assert_null(qp_token_find(table, QUIPU_STR(""), quipu_cstr(token)));
    qp_time_step(-options.ttl_ms);
    assert_non_null(qp_token_find(table, QUIPU_STR(""), quipu_cstr(token)));
    qp_time_step(0);
    qp_token_release(table);
}

static void *token_add_some(void *arg)
{
    for (int i = 0; i < TOKEN_T_EACH; i++) {
        quipu_access_token_options options = token_options();
        char token[QUIPU_ACCESS_TOKEN_SIZE];
        quipu_error error;

        if (quipu_access_token_create(arg, &options, token, &error) != QUIPU_OK) {
            return arg;
        }
    }
    return NULL;
}

static void tokens_added_at_once_are_all_kept(void **state)
{
    qp_thread threads[TOKEN_T_THREADS];
    char path[T_PATH_MAX];

    (void)state;
    token_path(path);
    for (int i = 0; i < TOKEN_T_THREADS; i++) {
        T_OK(qp_thread_start(&threads[i], token_add_some, path));
    }
    for (int i = 0; i < TOKEN_T_THREADS; i++) {
        assert_null(qp_thread_join(threads[i]));
    }
    assert_int_equal(token_count(path), TOKEN_T_THREADS * TOKEN_T_EACH);
}

/* A file with so many tokens, written as the library writes it. */
static void token_fill(const char *path, int count)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    (void)fputs("{\"quipu\":\"tokens\",\"major\":1,\"tokens\":[", file);
    for (int i = 0; i < count; i++) {
        (void)fprintf(file, "%s{\"hash\":\"%064x\",\"verbs\":[\"read\"]}", i > 0 ? "," : "", i);
    }
    (void)fputs("]}", file);
    assert_int_equal(fclose(file), 0);
}

static void a_file_holds_tokens_up_to_its_limit(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    quipu_error error;

    (void)state;
    token_path(path);
    token_fill(path, QUIPU_ACCESS_TOKENS_MAX - 1);
    T_OK(quipu_access_token_create(path, &options, token, &error));
    assert_int_equal(token_count(path), QUIPU_ACCESS_TOKENS_MAX);
    T_STATUS(quipu_access_token_create(path, &options, token, &error), QUIPU_LIMIT);
    assert_int_equal(token_count(path), QUIPU_ACCESS_TOKENS_MAX);
    token_fill(path, QUIPU_ACCESS_TOKENS_MAX + 1);
    T_STATUS(quipu_access_token_create(path, &options, token, &error), QUIPU_INVALID);
}

#define TOKEN_T_HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void wrong_files_are_refused_and_stay_as_they_are(void **state)
{
    static const char *const wrong[] = {
        "x",
        "[]",
        "{}",
        "{\"quipu\":\"tokens\",\"major\":2,\"tokens\":[]}",
        "{\"quipu\":\"tokens\",\"major\":1,\"tokens\":{}}",
        "{\"quipu\":\"tokens\",\"major\":1,\"tokens\":[{}]}",
        "{\"quipu\":\"tokens\",\"major\":1,\"tokens\":[{\"hash\":\"00\"}]}",
        /* A user without an app. */
        "{\"quipu\":\"tokens\",\"major\":1,\"tokens\":[{\"hash\":\"" TOKEN_T_HASH
        "\",\"user\":\"u\",\"verbs\":[\"read\"]}]}",
    };
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    quipu_error error;

    (void)state;
    token_path(path);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *text;
        size_t size = 0;

        t_file_write(path, wrong[i], strlen(wrong[i]));
        assert_int_equal(chmod(path, 0600), 0);
        T_STATUS(quipu_access_token_create(path, &options, token, &error), QUIPU_INVALID);
        text = t_file_read(path, &size);
        assert_string_equal(text, wrong[i]);
        free(text);
    }
}

static void token_sweep(void *ctx)
{
    quipu_access_token_options options = token_options();
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    quipu_error error;
    quipu_status status = quipu_access_token_create(ctx, &options, token, &error);

    assert_true(status == QUIPU_OK || t_fault_fired() > 0);
}

static void a_token_is_added_or_not_without_memory(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    token_path(path);
    t_fault_install();
    assert_true(t_fault_sweep(token_sweep, path) > 0);
    t_fault_remove();
    assert_true(token_count(path) > 0); /* the file is whole after every failure */
}

/* Without a descriptor a file that has changed cannot be read: nobody gets in until it can. */
static void a_file_that_cannot_be_opened_for_a_while_is_read_later(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    qp_token_book book = {.path = path};
    struct rlimit files;
    struct rlimit none;
    quipu_error error;

    (void)state;
    token_path(path);
    T_OK(qp_token_refresh(&book, &error));
    T_OK(quipu_access_token_create(path, &options, token, &error));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    T_STATUS(qp_token_refresh(&book, &error), QUIPU_IO);
    T_STATUS(qp_token_refresh(&book, &error), QUIPU_IO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_null(book.table);
    T_OK(qp_token_refresh(&book, &error));
    assert_non_null(qp_token_find(book.table, QUIPU_STR(""), quipu_cstr(token)));
    qp_token_release(book.table);
}

static void token_refresh_sweep(void *ctx)
{
    qp_token_book book = {.path = ctx};
    quipu_error error;

    if (qp_token_refresh(&book, &error) != QUIPU_OK) {
        assert_int_equal(error.status, QUIPU_NOMEM);
        assert_null(book.table);
        t_fault_pause(true);
        T_OK(qp_token_refresh(&book, &error));
        t_fault_pause(false);
    }
    assert_int_equal(book.table->count, 2);
    qp_token_release(book.table);
}

static void a_file_that_is_read_without_memory_is_read_later(void **state)
{
    quipu_access_token_options options = token_options();
    char path[T_PATH_MAX];
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    quipu_error error;

    (void)state;
    token_path(path);
    options.app_name = QUIPU_STR("app");
    T_OK(quipu_access_token_create(path, &options, token, &error));
    T_OK(quipu_access_token_create(path, &options, token, &error));
    assert_true(t_fault_sweep(token_refresh_sweep, path) > 0);
}

/* ---- workers --------------------------------------------------------------------------------- */

typedef struct token_gate {
    qp_mutex mutex;
    qp_cond open;
    bool is_open;
    int run;
    int done;
} token_gate;

static void token_job_run(qp_job *job)
{
    token_gate *gate = job->owner;

    qp_mutex_lock(&gate->mutex);
    gate->run++;
    while (!gate->is_open) {
        qp_cond_wait(&gate->open, &gate->mutex);
    }
    qp_mutex_unlock(&gate->mutex);
}

static void token_job_done(qp_job *job)
{
    ((token_gate *)job->owner)->done++;
}

static void token_gate_open(token_gate *gate)
{
    qp_mutex_lock(&gate->mutex);
    gate->is_open = true;
    qp_cond_broadcast(&gate->open);
    qp_mutex_unlock(&gate->mutex);
}

/* A pool with one worker, which is at the first job and waits at the gate; two more are queued. */
static void token_pool_begin(qp_pool *pool, token_gate *gate, qp_job jobs[3])
{
    quipu_error error;

    *gate = (token_gate){.is_open = false};
    T_OK(qp_mutex_init(&gate->mutex));
    T_OK(qp_cond_init(&gate->open));
    T_OK(qp_pool_start(pool, 1, 2, -1, &error));
    for (size_t i = 0; i < 3; i++) {
        jobs[i] = (qp_job){.owner = gate, .run = token_job_run, .done = token_job_done};
        assert_true(qp_pool_submit(pool, &jobs[i]));
        while (i == 0 && qp_pool_waiting(pool) > 0) {
            (void)sched_yield();
        }
    }
}

static void *token_pool_stop(void *pool)
{
    qp_pool_stop(pool);
    return NULL;
}

static void token_pool_end(token_gate *gate)
{
    qp_cond_done(&gate->open);
    qp_mutex_done(&gate->mutex);
}

static void a_full_queue_takes_no_job_and_a_stop_runs_none_that_waits(void **state)
{
    token_gate gate;
    qp_job jobs[3];
    qp_job beyond = {.owner = &gate, .run = token_job_run, .done = token_job_done};
    qp_pool pool;
    qp_thread stopper;

    (void)state;
    token_pool_begin(&pool, &gate, jobs);
    assert_false(qp_pool_submit(&pool, &beyond));
    T_OK(qp_thread_start(&stopper, token_pool_stop, &pool));
    while (qp_pool_waiting(&pool) > 0) { /* the stop has begun once nothing waits */
        (void)sched_yield();
    }
    token_gate_open(&gate);
    assert_null(qp_thread_join(stopper));
    assert_int_equal(gate.run, 1);
    assert_int_equal(gate.done, 3);
    assert_true(jobs[0].has_run && !jobs[1].has_run && !jobs[2].has_run);
    token_pool_end(&gate);
}

/* ---- options --------------------------------------------------------------------------------- */

static void options_of_a_server_are_checked_at_their_limits(void **state)
{
    char tokens[T_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error error;
    const struct {
        int32_t workers;
        int64_t body_max;
        const char *listen;
        const char *public_url;
        quipu_status expected;
    } cases[] = {
        {QUIPU_SERVER_WORKERS_LIMIT, 0, "127.0.0.1:0", NULL, QUIPU_OK},
        {QUIPU_SERVER_WORKERS_LIMIT + 1, 0, "127.0.0.1:0", NULL, QUIPU_LIMIT},
        {-1, 0, "127.0.0.1:0", NULL, QUIPU_LIMIT},
        {1, 268435456, "[::1]:0", NULL, QUIPU_OK},
        {1, 268435457, "127.0.0.1:0", NULL, QUIPU_LIMIT},
        {1, 0, "0.0.0.0:0", NULL, QUIPU_MISUSE},
        {1, 0, "127.0.0.1:0", "sessions.example.org", QUIPU_MISUSE},
        {1, 0, "127.0.0.1:0", "https://sessions.example.org", QUIPU_OK},
    };

    (void)state;
    token_path(tokens);
    T_OK(quipu_open(":memory:", NULL, &store, &error));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_server_options options = QUIPU_SERVER_OPTIONS_INIT;
        quipu_server *server = NULL;

        options.token_file = tokens;
        options.workers = cases[i].workers;
        options.body_max = cases[i].body_max;
        options.listen = cases[i].listen;
        options.public_url = cases[i].public_url;
        T_STATUS(quipu_server_start(store, &options, &server, &error), cases[i].expected);
        if (server != NULL) {
            assert_int_equal(strncmp(server->address, "http://", 7), 0);
        }
        quipu_server_stop(server);
    }
    quipu_close(store);
}

static void a_server_takes_the_flags_that_it_knows(void **state)
{
    char tokens[T_PATH_MAX];
    quipu_server_options options = QUIPU_SERVER_OPTIONS_INIT;
    quipu_server *server = NULL;
    quipu_store *store = NULL;
    quipu_error error;

    (void)state;
    token_path(tokens);
    T_OK(quipu_open(":memory:", NULL, &store, &error));
    options.token_file = tokens;
    options.listen = "127.0.0.1:0";
    options.flags = QUIPU_SERVER_ENCRYPTED;
    T_OK(quipu_server_start(store, &options, &server, &error));
    quipu_server_stop(server);
    options.flags = QUIPU_SERVER_ENCRYPTED << 1;
    T_STATUS(quipu_server_start(store, &options, &server, &error), QUIPU_MISUSE);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_found_by_its_text_and_by_nothing_else),
        cmocka_unit_test(a_token_counts_for_its_own_tenant_alone),
        cmocka_unit_test(an_identity_is_found_again_until_its_rights_change),
        cmocka_unit_test(a_token_expires_by_the_clock),
        cmocka_unit_test(tokens_added_at_once_are_all_kept),
        cmocka_unit_test(a_file_holds_tokens_up_to_its_limit),
        cmocka_unit_test(wrong_files_are_refused_and_stay_as_they_are),
        cmocka_unit_test(a_token_is_added_or_not_without_memory),
        cmocka_unit_test(a_file_that_cannot_be_opened_for_a_while_is_read_later),
        cmocka_unit_test(a_file_that_is_read_without_memory_is_read_later),
        cmocka_unit_test(a_full_queue_takes_no_job_and_a_stop_runs_none_that_waits),
        cmocka_unit_test(options_of_a_server_are_checked_at_their_limits),
        cmocka_unit_test(a_server_takes_the_flags_that_it_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
