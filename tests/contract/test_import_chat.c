/* Databases of chat programs: llm, OpenAI's Agents SDK and LangGraph. What comes in, that a later
 * import adds what came since, whose keys clash, and that a hostile file brings in nothing. */
#include "contract/import_t.h"
#include "contract/maintain_t.h"
#include "lib/short.h"

#define CHAT_UNICODE                                                                               \
    "openai-agents:\xc3\xbcn\xc3\xaf"                                                              \
    "code \xe2\x98\x83"

static quipu_history *chat_history(quipu_store *store, const char *key)
{
    quipu_history *history = NULL;
    quipu_error err = {0};

    T_OK(quipu_session_get(store, quipu_cstr(key), NULL, NULL, &history, &err));
    return history;
}

/* A message of a session has this role and this text. */
static void chat_is(const quipu_history *history, size_t at, quipu_role role, const char *text)
{
    const quipu_message *message = quipu_message_at(history->messages, at);

    assert_true(at < history->messages.count);
    assert_int_equal((int)message->role, (int)role);
    T_STR(message->content, text);
}

static void chat_file(const char *fixture, char path[T_PATH_MAX])
{
    t_fixture(fixture, path);
}

/* A file comes in with these counts, verifies, and a second import of it changes nothing. */
static quipu_store *chat_in(const char *fixture, quipu_source_kind kind, int64_t sessions,
                            int64_t messages, int64_t orphans)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options dry = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    chat_file(fixture, path);
    chat_file(fixture, copy);
    dry.flags = QUIPU_SOURCE_DRY_RUN;
    const quipu_source_report would = import_ok(store, path, &dry);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_int_equal(stats.sessions, 0);
    const quipu_source_report report = import_ok(store, path, NULL);
    assert_memory_equal(&would, &report, sizeof(report));
    assert_int_equal(report.kind, kind);
    assert_int_equal(report.sessions, sessions);
    assert_int_equal(report.messages, messages);
    assert_int_equal(report.orphans, orphans);
    mt_clean(store);
    const quipu_source_report again = import_ok(store, path, NULL);
    assert_int_equal(again.skipped, sessions);
    assert_int_equal(again.sessions + again.messages, 0);
    assert_true(t_file_equal(path, copy));
    return store;
}

/* ---- what comes in ----------------------------------------------------------------------------
 */

static void conversations_of_llm_come_in(void **state)
{
    quipu_store *store = chat_in("llm-responses.db", QUIPU_SOURCE_LLM, 6, 18, 0);

    (void)state;
    quipu_close(store);
}

static void threads_of_llm_come_in(void **state)
{
    quipu_store *store = chat_in("llm-threads.db", QUIPU_SOURCE_LLM, 6, 18, 0);

    (void)state;
    quipu_close(store);
}

/* Both layouts of the same commands give the same texts and roles. */
static void both_layouts_of_llm_say_the_same(void **state)
{
    static const char *const titles[] = {"What is the capital of Peru?", "describe it",
                                         "Which version is this?"};
    static const char *const fixtures[] = {"llm-responses.db", "llm-threads.db"};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        quipu_store *store = chat_in(fixtures[f], QUIPU_SOURCE_LLM, 6, 18, 0);
        quipu_session_page *list = NULL;
        quipu_error err = {0};
        size_t seen = 0;

        T_OK(quipu_session_list(store, NULL, NULL, &list, &err));
        for (size_t i = 0; i < list->sessions.count; i++) {
            const quipu_session_info *info = quipu_session_info_at(list->sessions, i);
            quipu_history *history = chat_history(store, info->key.p);

            if (quipu_str_eq(info->title, quipu_cstr(titles[0]))) {
                assert_int_equal(history->messages.count, 5);
                chat_is(history, 0, QUIPU_ROLE_SYSTEM, "Answer in one word.");
                chat_is(history, 1, QUIPU_ROLE_USER, titles[0]);
                chat_is(history, 4, QUIPU_ROLE_ASSISTANT, "You said: And of Chile?");
                seen++;
            } else if (quipu_str_eq(info->title, quipu_cstr(titles[2]))) {
                assert_int_equal(history->messages.count, 4);
                chat_is(history, 3, QUIPU_ROLE_ASSISTANT,
                        f == 0 ? "The tool says: 0.31.1" : "The tool says: 0.36");
                seen++;
            } else if (quipu_str_eq(info->title, quipu_cstr(titles[1]))) {
                assert_int_equal(history->messages.count, 2);
                chat_is(history, 0, QUIPU_ROLE_USER, "describe it");
                seen++;
            }
            quipu_free(history);
        }
        assert_int_equal(seen, 3);
        quipu_free(list);
        quipu_close(store);
    }
}

static void a_conversation_that_went_on_as_a_thread_comes_in_once(void **state)
{
    quipu_store *store = chat_in("llm-both.db", QUIPU_SOURCE_LLM, 6, 20, 0);

    (void)state;
    quipu_close(store);
}

static void items_of_openai_agents_come_in(void **state)
{
    quipu_store *store = chat_in("openai-agents.db", QUIPU_SOURCE_OPENAI_AGENTS, 2, 10, 0);
    quipu_history *history = chat_history(store, "openai-agents:weather-1");

    (void)state;
    assert_int_equal(history->messages.count, 8);
    chat_is(history, 0, QUIPU_ROLE_USER, "What is the weather in Lima?");
    chat_is(history, 4, QUIPU_ROLE_ASSISTANT, "Grey, as always.");
    chat_is(history, 6, QUIPU_ROLE_ASSISTANT, "I cannot look.");
    quipu_free(history);
    history = chat_history(store, CHAT_UNICODE);
    chat_is(history, 1, QUIPU_ROLE_ASSISTANT, "hello");
    quipu_free(history);
    quipu_close(store);
}

static void other_branches_of_openai_agents_are_left_out(void **state)
{
    quipu_store *store = chat_in("openai-agents-branches.db", QUIPU_SOURCE_OPENAI_AGENTS, 1, 4, 2);
    quipu_history *history = chat_history(store, "openai-agents:branched");

    (void)state;
    chat_is(history, 3, QUIPU_ROLE_ASSISTANT, "second answer");
    quipu_free(history);
    quipu_close(store);
}

static void messages_of_langgraph_come_in_with_the_time_of_their_step(void **state)
{
    quipu_store *store = chat_in("langgraph.db", QUIPU_SOURCE_LANGGRAPH, 2, 11, 1);
    quipu_history *history = chat_history(store, "langgraph:trip-1");

    (void)state;
    assert_int_equal(history->messages.count, 9);
    chat_is(history, 0, QUIPU_ROLE_SYSTEM, "Be brief.");
    chat_is(history, 1, QUIPU_ROLE_USER, "hi");
    chat_is(history, 2, QUIPU_ROLE_ASSISTANT, "Answer 2");
    chat_is(history, 6, QUIPU_ROLE_ASSISTANT, "Grey, as always.");
    for (size_t i = 1; i < history->messages.count; i++) {
        assert_true(quipu_time_cmp(quipu_message_at(history->messages, i - 1)->timestamp,
                                   quipu_message_at(history->messages, i)->timestamp) <= 0);
    }
    assert_true(quipu_time_cmp(quipu_message_at(history->messages, 2)->timestamp,
                               quipu_message_at(history->messages, 8)->timestamp) < 0);
    quipu_free(history);
    quipu_close(store);
}

/* ---- growing ----------------------------------------------------------------------------------
 */

static void a_later_import_adds_what_came_since(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_history *history;

    (void)state;
    chat_file("openai-agents.db", path);
    (void)import_ok(store, path, NULL);
    import_exec(path, "INSERT INTO agent_messages (session_id, message_data) VALUES "
                      "('weather-1', '{\"role\":\"user\",\"content\":\"thanks\"}'),"
                      "('weather-1', '{\"role\":\"assistant\",\"content\":\"welcome\"}')");
    const quipu_source_report more = import_ok(store, path, NULL);
    assert_int_equal(more.sessions, 1);
    assert_int_equal(more.messages, 2);
    assert_int_equal(more.skipped, 1);
    history = chat_history(store, "openai-agents:weather-1");
    assert_int_equal(history->messages.count, 10);
    chat_is(history, 9, QUIPU_ROLE_ASSISTANT, "welcome");
    quipu_free(history);
    mt_clean(store);
    quipu_close(store);
}

static void a_session_that_went_on_in_the_store_stays_as_it_is(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    (void)state;
    chat_file("openai-agents.db", path);
    (void)import_ok(store, path, NULL);
    st_append(store, "openai-agents:weather-1", "here we go on");
    import_exec(path, "INSERT INTO agent_messages (session_id, message_data) VALUES "
                      "('weather-1', '{\"role\":\"user\",\"content\":\"a\"}'),"
                      "('weather-1', '{\"role\":\"user\",\"content\":\"b\"}')");
    const quipu_source_report again = import_ok(store, path, NULL);
    assert_int_equal(again.sessions, 0);
    assert_int_equal(again.skipped, 2);
    mt_clean(store);
    quipu_close(store);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

static void a_key_of_another_session_fails_is_skipped_or_gets_a_number(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    chat_file("openai-agents.db", path);
    st_create(store, "openai-agents:weather-1");
    T_STATUS(quipu_source_import(store, path, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    options.on_conflict = QUIPU_SOURCE_SKIP;
    const quipu_source_report skipped = import_ok(store, path, &options);
    assert_int_equal(skipped.sessions, 1);
    assert_int_equal(skipped.skipped, 1);
    options.on_conflict = QUIPU_SOURCE_RENAME;
    const quipu_source_report renamed = import_ok(store, path, &options);
    assert_int_equal(renamed.sessions, 1);
    assert_int_equal(renamed.messages, 8);
    quipu_free(chat_history(store, "openai-agents:weather-1-2"));
    /* It is found under the name that it got. */
    assert_int_equal(import_ok(store, path, &options).skipped, 2);
    options.prefix = QUIPU_STR("work/");
    assert_int_equal(import_ok(store, path, &options).sessions, 2);
    quipu_free(chat_history(store, "work/weather-1"));
    mt_clean(store);
    quipu_close(store);
}

static void another_file_s_session_of_the_same_id_is_not_mixed_with_the_first(void **state)
{
    char first[T_PATH_MAX];
    char other[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_history *history;
    quipu_error err = {0};

    (void)state;
    chat_file("openai-agents.db", first);
    (void)import_ok(store, first, NULL);
    chat_file("openai-agents.db", other);
    import_exec(other, "UPDATE agent_sessions SET created_at = '2020-01-02 03:04:05'");
    assert_int_equal(import_ok(store, other, NULL).skipped, 2);
    import_exec(other, "UPDATE agent_messages SET message_data = "
                       "'{\"role\":\"user\",\"content\":\"other\"}'");
    import_exec(other, "INSERT INTO agent_messages (session_id, message_data) VALUES "
                       "('weather-1', '{\"role\":\"user\",\"content\":\"more\"}')");
    T_STATUS(quipu_source_import(store, other, NULL, NULL, NULL, &err), QUIPU_EXISTS);
    options.on_conflict = QUIPU_SOURCE_RENAME;
    for (int64_t skipped = 0; skipped <= 2; skipped += 2) {
        assert_int_equal(import_ok(store, other, &options).skipped, skipped);
    }
    assert_int_equal(import_ok(store, first, NULL).skipped, 2);
    history = chat_history(store, "openai-agents:weather-1-2");
    assert_int_equal(history->messages.count, 9);
    chat_is(history, 0, QUIPU_ROLE_USER, "other");
    quipu_free(history);
    mt_clean(store);
    quipu_close(store);
}

static void sessions_of_adk_keep_their_keys(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    chat_file("adk-python-sqlite.db", path);
    options.on_conflict = QUIPU_SOURCE_RENAME;
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options.on_conflict = (quipu_source_conflict)(QUIPU_SOURCE_RENAME + 1);
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options.on_conflict = QUIPU_SOURCE_FAIL;
    options.prefix = QUIPU_STR("x");
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_MISUSE);
    quipu_close(store);
}

/* A key has a limit, and so have its parts. */
static void a_prefix_has_the_limit_of_a_key(void **state)
{
    static char text[QUIPU_KEY_MAX + 2];
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    memset(text, 'k', sizeof(text) - 1);
    chat_file("openai-agents-branches.db", path);
    options.prefix = (quipu_str){text, QUIPU_KEY_MAX - strlen("branched")};
    assert_int_equal(import_ok(store, path, &options).sessions, 1);
    options.prefix.n++;
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_LIMIT);
    options.prefix.n = QUIPU_KEY_MAX + 1;
    T_STATUS(quipu_source_import(store, path, &options, NULL, NULL, &err), QUIPU_LIMIT);
    quipu_close(store);
}

/* ---- hostile and damaged files ----------------------------------------------------------------
 */

/* A fixture that these statements change is refused with this text, and brings in nothing. */
static void chat_refused(const char *fixture, const char *sql, quipu_status status,
                         const char *text)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);

    chat_file(fixture, path);
    import_exec(path, sql);
    import_refused(store, path, status, text);
    quipu_close(store);
}

static void a_hostile_file_of_llm_brings_in_nothing(void **state)
{
    (void)state;
    chat_refused("llm-threads.db",
                 "UPDATE messages SET parent_hash = (SELECT tip_message_hash FROM threads WHERE "
                 "rowid = 1) WHERE parent_hash IS NULL",
                 QUIPU_CORRUPT, "in a circle");
    chat_refused("llm-threads.db", "DELETE FROM messages WHERE rowid = 2", QUIPU_CORRUPT,
                 "is not in the file");
    chat_refused("llm-threads.db", "UPDATE parts SET payload = '{' WHERE type = 'tool_call'",
                 QUIPU_INVALID, "the message in row");
    chat_refused("llm-threads.db", "DELETE FROM fragments", QUIPU_CORRUPT, "its fragment 1 is not");
    chat_refused("llm-threads.db", "UPDATE turns SET datetime_utc = 'soon' WHERE rowid = 1",
                 QUIPU_INVALID, "a time cannot be read");
    chat_refused("llm-responses.db", "UPDATE responses SET datetime_utc = 'soon' WHERE rowid = 7",
                 QUIPU_INVALID, "the response in row 7: a time cannot be read");
    chat_refused("llm-responses.db", "UPDATE responses SET response = CAST(x'ff' AS TEXT)",
                 QUIPU_INVALID, "the response in row 1: a text is not UTF-8");
}

static void a_hostile_file_of_openai_agents_brings_in_nothing(void **state)
{
    (void)state;
    chat_refused("openai-agents.db",
                 "UPDATE agent_messages SET message_data = '[1]' WHERE rowid = 5", QUIPU_INVALID,
                 "the item in row 5: message_data is not a JSON object");
    chat_refused("openai-agents.db",
                 "UPDATE agent_messages SET message_data = '{\"role\":' WHERE rowid = 10",
                 QUIPU_INVALID, "the item in row 10");
    chat_refused("openai-agents.db", "UPDATE agent_messages SET created_at = 'x'", QUIPU_INVALID,
                 "the item in row 1: a time cannot be read");
}

static void a_hostile_file_of_langgraph_brings_in_nothing(void **state)
{
    (void)state;
    chat_refused("langgraph.db",
                 "UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 'trip-1'",
                 QUIPU_UNSUPPORTED, "its state is written as \"pickle\"");
    chat_refused("langgraph.db",
                 "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 200) WHERE rowid = 1",
                 QUIPU_INVALID, "the checkpoint in row 1: the msgpack is cut off");
    chat_refused("langgraph.db", "UPDATE checkpoints SET checkpoint = x'ff'", QUIPU_INVALID,
                 "the msgpack is no map");
    chat_refused("langgraph.db", "UPDATE checkpoints SET checkpoint = NULL", QUIPU_INVALID,
                 "the msgpack is cut off");
    chat_refused(
        "langgraph.db",
        "UPDATE checkpoints SET type = 'json', checkpoint = "
        "CAST('{\"channel_values\":{\"messages\":[{\"type\":\"human\",\"content\":' AS BLOB)",
        QUIPU_INVALID, "the checkpoint in row");
}

/* Before msgpack LangGraph wrote JSON, with the class and its fields. */
static void a_state_as_json_comes_in(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_history *history;

    (void)state;
    chat_file("langgraph.db", path);
    import_exec(path,
                "DELETE FROM checkpoints WHERE thread_id <> 'other';"
                "UPDATE checkpoints SET type = 'json', checkpoint = CAST('{\"v\":1,"
                "\"ts\":\"2024-08-01T10:00:00+00:00\",\"channel_values\":{\"messages\":["
                "{\"lc\":1,\"type\":\"constructor\",\"id\":[\"langchain\",\"schema\",\"messages\","
                "\"HumanMessage\"],\"kwargs\":{\"content\":\"hi\",\"id\":\"m1\"}},"
                "{\"lc\":1,\"type\":\"constructor\",\"id\":[\"langchain\",\"schema\",\"messages\","
                "\"AIMessage\"],\"kwargs\":{\"content\":\"ho\",\"id\":\"m2\",\"type\":\"ai\"}}]}}' "
                "AS BLOB)");
    assert_int_equal(import_ok(store, path, NULL).messages, 2);
    history = chat_history(store, "langgraph:other");
    chat_is(history, 0, QUIPU_ROLE_USER, "hi");
    chat_is(history, 1, QUIPU_ROLE_ASSISTANT, "ho");
    quipu_free(history);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_of_llm_come_in),
        cmocka_unit_test(threads_of_llm_come_in),
        cmocka_unit_test(both_layouts_of_llm_say_the_same),
        cmocka_unit_test(a_conversation_that_went_on_as_a_thread_comes_in_once),
        cmocka_unit_test(items_of_openai_agents_come_in),
        cmocka_unit_test(other_branches_of_openai_agents_are_left_out),
        cmocka_unit_test(messages_of_langgraph_come_in_with_the_time_of_their_step),
        cmocka_unit_test(a_later_import_adds_what_came_since),
        cmocka_unit_test(a_session_that_went_on_in_the_store_stays_as_it_is),
        cmocka_unit_test(a_key_of_another_session_fails_is_skipped_or_gets_a_number),
        cmocka_unit_test(another_file_s_session_of_the_same_id_is_not_mixed_with_the_first),
        cmocka_unit_test(sessions_of_adk_keep_their_keys),
        cmocka_unit_test(a_prefix_has_the_limit_of_a_key),
        cmocka_unit_test(a_hostile_file_of_llm_brings_in_nothing),
        cmocka_unit_test(a_hostile_file_of_openai_agents_brings_in_nothing),
        cmocka_unit_test(a_hostile_file_of_langgraph_brings_in_nothing),
        cmocka_unit_test(a_state_as_json_comes_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
