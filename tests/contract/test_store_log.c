/* The log hook: what reaches it at which level, and what never does. */
#include "contract/log_t.h"
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <quipu/adk.h>
#include <quipu/maintain.h>
#include <quipu/memory.h>

#define SECRET "xyzzy" /* in every text that a caller gives */

/* What a session may say about itself and its messages. */
static quipu_message secret_message(quipu_role role, const quipu_tool_call *call)
{
    return (quipu_message){.role = role,
                           .content = QUIPU_STR(SECRET " text"),
                           .author = QUIPU_STR(SECRET "-author"),
                           .calls = quipu_tool_calls_of(call, call != NULL ? 1 : 0),
                           .invocation_id = QUIPU_STR(SECRET "-invocation"),
                           .branch = QUIPU_STR(SECRET "-branch"),
                           .extra = {QUIPU_STR("{\"" SECRET "\":\"" SECRET "\"}")}};
}

static quipu_session_new secret_session(const char *key)
{
    quipu_session_new values = st_values(key);

    values.agent_id = QUIPU_STR(SECRET "-agent");
    values.channel_type = QUIPU_STR(SECRET "-channel");
    values.channel_id = QUIPU_STR(SECRET "-channel-id");
    values.model = QUIPU_STR(SECRET "-model");
    values.metadata.text = QUIPU_STR("{\"" SECRET "\":\"" SECRET "\"}");
    return values;
}

static void secret_talk(quipu_store *store, const char *key)
{
    const quipu_tool_call call = {.id = QUIPU_STR(SECRET "-id"),
                                  .name = QUIPU_STR(SECRET "-tool"),
                                  .input = QUIPU_STR("{\"" SECRET "\":1}")};
    const quipu_tool_call answer = {.id = QUIPU_STR(SECRET "-id"),
                                    .name = QUIPU_STR(SECRET "-tool"),
                                    .input = QUIPU_STR(""),
                                    .output = QUIPU_STR("{\"" SECRET "\":2}")};
    const quipu_session_new values = secret_session(key);
    quipu_message messages[] = {
        secret_message(QUIPU_ROLE_USER, NULL), secret_message(QUIPU_ROLE_ASSISTANT, &call),
        secret_message(QUIPU_ROLE_TOOL, &answer), secret_message(QUIPU_ROLE_ASSISTANT, NULL)};
    quipu_error err = {0};

    messages[0].event_id = QUIPU_STR(SECRET "-event");
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_EXISTS);
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, 4), NULL, NULL,
                              NULL, &err));
    T_STATUS(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, 4), NULL,
                                  NULL, NULL, &err),
             QUIPU_EXISTS); /* the others have new ids */
    T_OK(quipu_say(store, key, QUIPU_ROLE_USER, SECRET " said", &err));
}

static void secret_reads(quipu_store *store, quipu_str key)
{
    quipu_window_options window_options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_search_options search_options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_session_page *page = NULL;
    quipu_search_results *results = NULL;
    quipu_history *history = NULL;
    quipu_tail *tail = NULL;
    quipu_feed_page *feed = NULL;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    window_options.token_budget = 10;
    window_options.flags = QUIPU_WINDOW_CUT;
    search_options.query = QUIPU_STR(SECRET);
    T_OK(quipu_session_get(store, key, NULL, NULL, &history, &err));
    quipu_free(history);
    T_OK(quipu_window_read(store, key, &window_options, NULL, &window, &err));
    quipu_free(window);
    T_OK(quipu_session_list(store, NULL, NULL, &page, &err));
    quipu_free(page);
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    T_OK(quipu_search(store, &search_options, NULL, &results, &err));
    quipu_free(results);
    T_OK(quipu_tail_open(store, key, 0, NULL, &tail, &err));
    T_OK(quipu_tail_next(tail, 0, NULL, &history, &err));
    quipu_free(history);
    quipu_tail_close(tail);
    T_OK(quipu_feed_read(store, NULL, NULL, &feed, &err));
    quipu_free(feed);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    T_STATUS(quipu_session_get(store, QUIPU_STR(SECRET "-missing"), NULL, NULL, &history, &err),
             QUIPU_NOT_FOUND);
}

static void secret_changes(quipu_store *store, quipu_str key)
{
    const quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = key, .content = QUIPU_STR(SECRET " remembered")};
    quipu_session_new fork = secret_session(SECRET "-fork");
    quipu_error err = {0};

    T_OK(quipu_model_factor_learn(store, QUIPU_STR(SECRET "-model"),
                                  &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                        .estimated = 1000,
                                                        .reported = 1200},
                                  NULL, NULL, &err));
    T_OK(t_memory_save(store, &memory, NULL, NULL, &err));
    T_OK(quipu_session_compact(store, key, T_COMPACT(1, QUIPU_STR(SECRET " summary")), NULL, NULL,
                               &err));
    T_STATUS(quipu_session_compact(store, key, T_COMPACT(2, QUIPU_STR(SECRET)), NULL, NULL, &err),
             QUIPU_INVALID);
    T_OK(quipu_session_compact(store, key, T_COMPACT_UNDO, NULL, NULL, &err));
    T_OK(quipu_session_compact(store, key, T_COMPACT(1, QUIPU_STR(SECRET " summary")), NULL, NULL,
                               &err));
    T_OK(quipu_session_prune(store, key, NULL, NULL, &err));
    T_OK(quipu_session_fork(store, key, 3, &fork, NULL, NULL, &err));
    T_OK(t_session_rewind(store, key, 3, QUIPU_STR(SECRET "-rewound"), NULL, &err));
    T_OK(quipu_session_delete(store, QUIPU_STR(SECRET "-rewound"), NULL, NULL, NULL, &err));
}

static void secret_events(quipu_store *store)
{
    const quipu_session_ref ref = {QUIPU_STR(SECRET), QUIPU_STR(SECRET), QUIPU_STR(SECRET)};
    const char *event = "{\"id\":\"" SECRET "\",\"author\":\"" SECRET "\",\"content\":{\"role\":"
                        "\"model\",\"parts\":[{\"text\":\"" SECRET "\"},{\"functionCall\":{"
                        "\"name\":\"" SECRET "\",\"args\":{}}}]},\"actions\":{\"stateDelta\":{"
                        "\"" SECRET "\":\"" SECRET "\",\"user:" SECRET "\":\"" SECRET "\"}}}";
    quipu_service *service = NULL;
    quipu_live *session = NULL;
    quipu_error err = {0};

    T_OK(quipu_service_new(store, NULL, &service, &err));
    T_OK(quipu_service_create(service, &ref,
                              (quipu_json){QUIPU_STR("{\"" SECRET "\":\"" SECRET "\"}")}, NULL,
                              &session, &err));
    T_OK(quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &err));
    T_OK(quipu_live_set(session, QUIPU_STR("app:" SECRET),
                        (quipu_json){QUIPU_STR("\"" SECRET "\"")}, NULL, &err));
    T_OK(quipu_live_fail_turn(session, QUIPU_STR(SECRET), NULL, NULL, &err));
    quipu_live_free(session);
    quipu_service_free(service);
}

static void secret_upkeep(quipu_store *store, lt_log *log, quipu_str key)
{
    quipu_open_options options = lt_options(log, QUIPU_LOG_DEBUG);
    quipu_store *other = st_open_new(&options, NULL);
    quipu_erasure *erasure = NULL;
    mt_stream stream = {0};
    quipu_error err = {0};

    T_OK(quipu_store_export(store, NULL, mt_write, &stream, NULL, NULL, &err));
    T_OK(quipu_store_import(other, NULL, mt_read, &stream, NULL, NULL, &err));
    mt_free(&stream);
    T_OK(quipu_store_copy(store, other, NULL, NULL, NULL, &err));
    if (!t_pg()) {
        char path[T_PATH_MAX];

        t_path(t_tmpdir(), SECRET "-backup.db", path);
        T_OK(quipu_store_backup(store, path, NULL, &err));
    }
    T_OK(quipu_store_verify(store, NULL, NULL, NULL, &err));
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err));
    T_OK(quipu_store_sweep(store, NULL, NULL, &err));
    T_OK(t_session_erase(store, key, QUIPU_ERASE_QUICK, NULL, &erasure, &err));
    quipu_free(erasure);
    quipu_close(other);
}

/* The error of a worker names the session: the log may not. */
static void secret_worker(quipu_store *store, lt_log *log)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_error err = {0};
    bool logged = false;

    options.session_key = QUIPU_STR(SECRET "-gone");
    T_STATUS(quipu_memory_run(store, &options, NULL, NULL, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, SECRET));
    T_OK(quipu_memory_start(store, &options, &err));
    while (!logged) {
        pthread_mutex_lock(&log->mutex);
        logged = strstr(log->text, "2 memory worker_failed status=NOT_FOUND") != NULL;
        pthread_mutex_unlock(&log->mutex);
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    T_OK(quipu_memory_stop(store, NULL, &err));
}

/* Whatever a caller stores, at the level that says most. */
static void nothing_that_callers_store_reaches_the_hook(void **state)
{
    lt_log log;
    quipu_open_options options;
    quipu_store *store = NULL;
    char path[T_PATH_MAX];

    T_NOT_SERVED("a server decides about caps");
    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_DEBUG);
    options.flags = QUIPU_OPEN_FEED;
    options.tenant = QUIPU_STR(SECRET "-tenant");
    store = st_open_new(&options, path);
    secret_talk(store, SECRET "-key");
    secret_reads(store, QUIPU_STR(SECRET "-key"));
    secret_changes(store, QUIPU_STR(SECRET "-key"));
    secret_events(store);
    secret_worker(store, &log);
    secret_upkeep(store, &log, QUIPU_STR(SECRET "-key"));
    quipu_close(store);
    assert_true(log.entries > 40);
    assert_non_null(strstr(log.text, " store call us="));
    assert_non_null(strstr(log.text, " store sweep sessions="));
    if (strstr(log.text, SECRET) != NULL) {
        fail_msg("the log has what a caller stored: %.200s", strstr(log.text, SECRET));
    }
    lt_free(&log);
}

static void failed_open_shows_neither_password_nor_path(void **state)
{
    static const char *const uris[] = {"postgresql://" SECRET ":" SECRET "@127.0.0.1:1/" SECRET
                                       "?connect_timeout=1",
                                       "/nonexistent/" SECRET "/store.db"};
    lt_log log;

    (void)state;
    lt_init(&log);
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        const quipu_open_options options = lt_options(&log, QUIPU_LOG_DEBUG);
        quipu_store *store = NULL;

        assert_int_not_equal(quipu_open(uris[i], &options, &store, NULL), QUIPU_OK);
    }
    assert_non_null(strstr(log.text, "1 store open_failed engine=postgres status="));
    assert_non_null(strstr(log.text, "3 store open_failed engine=sqlite status=NOT_FOUND"));
    assert_null(strstr(log.text, SECRET));
    lt_free(&log);
}

static void entries_come_up_to_the_level_that_was_asked_for(void **state)
{
    size_t before = 0;

    (void)state;
    for (int level = QUIPU_LOG_ERROR; level <= QUIPU_LOG_DEBUG; level++) {
        lt_log log;
        quipu_open_options options;
        quipu_store *store;

        lt_init(&log);
        options = lt_options(&log, (quipu_log_level)level);
        store = st_open_new(&options, NULL);
        st_create(store, "k");
        quipu_close(store);
        for (const char *line = log.text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_true(line[0] - '0' <= level);
        }
        assert_int_equal(strstr(log.text, "3 store open engine=") != NULL, level >= QUIPU_LOG_INFO);
        assert_int_equal(strstr(log.text, "3 store close ms=") != NULL, level >= QUIPU_LOG_INFO);
        assert_int_equal(strstr(log.text, "4 store call us=") != NULL, level >= QUIPU_LOG_DEBUG);
        assert_true(log.entries >= before);
        assert_true(level >= QUIPU_LOG_INFO || log.entries == 0);
        before = log.entries;
        lt_free(&log);
    }
}

static void default_level_is_warnings(void **state)
{
    lt_log log;
    quipu_open_options options;
    quipu_store *store = NULL;

    (void)state;
    lt_init(&log);
    options = lt_options(&log, QUIPU_LOG_DEFAULT);
    assert_int_not_equal(quipu_open(t_tmpdir(), &options, &store, NULL), QUIPU_OK); /* no file */
    assert_int_equal(log.entries, 1);
    store = st_open_new(&options, NULL);
    st_create(store, "k");
    quipu_close(store);
    assert_int_equal(log.entries, 1);
    options.log_level = (quipu_log_level)5;
    T_STATUS(quipu_open(":memory:", &options, &store, NULL), QUIPU_MISUSE);
    lt_free(&log);
}

static void store_without_a_hook_calls_nothing(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store;

    (void)state;
    assert_null(options.log);
    options.log_level = QUIPU_LOG_DEBUG; /* and no function to call */
    store = st_open_new(&options, NULL);
    st_create(store, "k");
    assert_int_equal(st_append(store, "k", "text"), 1);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_callers_store_reaches_the_hook),
        cmocka_unit_test(failed_open_shows_neither_password_nor_path),
        cmocka_unit_test(entries_come_up_to_the_level_that_was_asked_for),
        cmocka_unit_test(default_level_is_warnings),
        cmocka_unit_test(store_without_a_hook_calls_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
