/* Verify and repair: every kind of damage is reported with its session, what can be mended is. */
#include "contract/maintain_t.h"
#include "lib/short.h"
#include "lib/t_oracle.h"

#include <inttypes.h>

#include <quipu/agent.h>

#include "base/json.h"
#include "store/job.h"

typedef struct damage {
    const char *sql;
    quipu_problem_kind kind;
    const char *key;
    bool mends;
} damage;

#define OF(key) "(SELECT id FROM sessions WHERE key = '" key "')"

static const damage damages[] = {
    {"UPDATE sessions SET message_count = 99 WHERE key = 'plain'", QUIPU_PROBLEM_COUNT, "plain",
     true},
    {"UPDATE sessions SET token_count = token_count + 1 WHERE key = 'plain'", QUIPU_PROBLEM_TOTALS,
     "plain", true},
    {"UPDATE sessions SET next_seq = 9, message_count = 8 WHERE key = 'plain'",
     QUIPU_PROBLEM_NEXT_SEQ, "plain", true},
    {"UPDATE sessions SET next_seq = 4, message_count = 3 WHERE key = 'plain'",
     QUIPU_PROBLEM_NEXT_SEQ, "plain", true},
    {"UPDATE messages SET tokens_total = tokens_total + 5 WHERE seq = 2 AND session_messages = " OF(
         "plain"),
     QUIPU_PROBLEM_TOTALS, "plain", true},
    {"UPDATE messages SET tokens_total = 0 WHERE session_messages = " OF("fork"),
     QUIPU_PROBLEM_TOTALS, "fork", true},
    {"UPDATE sessions SET compact_seq = 2 WHERE key = 'plain'", QUIPU_PROBLEM_VIEW, "plain", true},
    {"UPDATE sessions SET lags = 0 WHERE key = 'plain'", QUIPU_PROBLEM_SEARCH, "plain", true},
    {"UPDATE messages SET tokens_total = 0 WHERE seq = 1 AND session_messages = (SELECT id FROM "
     "sessions WHERE key IS NULL)",
     QUIPU_PROBLEM_TOTALS, "", true},
    {"UPDATE sessions SET indexed_seq = 77 WHERE key = 'plain'", QUIPU_PROBLEM_SEARCH, "plain",
     true},
    {"INSERT INTO state (tenant, scope, app_name, user_id, session_number, name, value, updated_at)"
     " SELECT '', 'session', '', '', 4711, 'n', '1', updated_at FROM sessions LIMIT 1",
     QUIPU_PROBLEM_STATE, "", true},
    {"UPDATE sessions SET model = 'm' WHERE key IS NULL", QUIPU_PROBLEM_DELETED, "", true},
    {"UPDATE sessions SET user_id = 'u' WHERE key IS NULL", QUIPU_PROBLEM_DELETED, "", true},
    {"UPDATE sessions SET key = NULL WHERE key = 'lonely'", QUIPU_PROBLEM_FORK, "", true},
    {"DELETE FROM messages WHERE seq = 2 AND session_messages = " OF("plain"), QUIPU_PROBLEM_SEQ,
     "plain", false},
    {"DELETE FROM messages WHERE seq = 1 AND session_messages = " OF("root"), QUIPU_PROBLEM_FORK,
     "fork", false},
    {"UPDATE messages SET tool_calls = '[7]' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET role = 'king' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET event_id = x'07' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET extra = '{\"quipu\":{} ,\"a\":1}' WHERE seq = 2 AND session_messages "
     "= " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"PRAGMA foreign_keys = OFF; UPDATE sessions SET fork_parent = 4711 WHERE key = 'fork'",
     QUIPU_PROBLEM_FILE, NULL, false},
    {"UPDATE messages SET content = CAST(x'61ff62' AS TEXT) WHERE seq = 2 AND session_messages "
     "= " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET author = CAST(x'61c0' AS TEXT) WHERE seq = 2 AND session_messages "
     "= " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET extra = '{\"a\":' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET event_id = x'00ff' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE sessions SET metadata = '{' WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "plain",
     false},
    {"UPDATE sessions SET metadata = '[1]' WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "plain",
     false},
    {"UPDATE sessions SET title = CAST(x'c328' AS TEXT) WHERE key = 'plain'", QUIPU_PROBLEM_SESSION,
     "plain", false},
    {"UPDATE sessions SET turn_seq = -1 WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "plain",
     false},
    {"UPDATE sessions SET created_at = 'yesterday' WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "",
     false},
    {"UPDATE sessions SET changed_at = 'soon' WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "",
     false},
    {"UPDATE sessions SET fork_parent = id WHERE key = 'fork'", QUIPU_PROBLEM_FORK, "fork", false},
    {"UPDATE sessions SET indexed_seq = 0, lags = 0 WHERE key IS NULL", QUIPU_PROBLEM_SEARCH, "",
     true},
    {"UPDATE state SET value = '{\"a\"' WHERE scope = 'app'", QUIPU_PROBLEM_STATE, NULL, false},
    {"UPDATE state SET name = CAST(x'ff' AS TEXT) WHERE scope = 'user'", QUIPU_PROBLEM_STATE, NULL,
     false},
    {"UPDATE state SET session_number = 7 WHERE scope = 'app'", QUIPU_PROBLEM_STATE, NULL, false},
    {"UPDATE state SET app_name = 'other' WHERE scope = 'session'", QUIPU_PROBLEM_STATE, "plain",
     false},
    {"UPDATE state SET scope = 'world' WHERE scope = 'app'", QUIPU_PROBLEM_STATE, NULL, false},
    {"UPDATE state_events SET session_number = 4711", QUIPU_PROBLEM_STATE, NULL, true},
    {"UPDATE state_events SET digest = x'01'", QUIPU_PROBLEM_STATE, "plain", false},
    {"UPDATE observations SET content = ''", QUIPU_PROBLEM_MEMORY, NULL, false},
    {"UPDATE observations SET source_start_index = 9", QUIPU_PROBLEM_MEMORY, "plain", false},
    {"UPDATE reflections SET content = CAST(x'80' AS TEXT)", QUIPU_PROBLEM_MEMORY, NULL, false},
    {"UPDATE reflections SET token_count = -3", QUIPU_PROBLEM_MEMORY, "plain", false},
    {"UPDATE model_factors SET ppm = 0", QUIPU_PROBLEM_FACTOR, NULL, false},
    {"UPDATE model_factors SET model = ''", QUIPU_PROBLEM_FACTOR, NULL, false},
    {"UPDATE feed SET kind = 'burnt' WHERE id = 2", QUIPU_PROBLEM_FEED, NULL, false},
    {"UPDATE feed SET last_seq = -1 WHERE id = 2", QUIPU_PROBLEM_FEED, NULL, false},
    {"UPDATE messages SET id = id + 5 WHERE seq = 5 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_SEQ, "plain", false},
    {"UPDATE messages SET seq = 7 WHERE seq = 2 AND session_messages = (SELECT id FROM sessions "
     "WHERE key IS NULL)",
     QUIPU_PROBLEM_SEQ, "", false},
    {"UPDATE messages SET seq = 1 WHERE seq = 2 AND session_messages = (SELECT id FROM sessions "
     "WHERE key IS NULL)",
     QUIPU_PROBLEM_SEQ, "", false},
    {"UPDATE sessions SET metadata = '' WHERE key = 'plain'", QUIPU_PROBLEM_SESSION, "plain",
     false},
    {"UPDATE messages SET extra = '' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET tool_calls = '' WHERE seq = 2 AND session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"PRAGMA foreign_keys = OFF; UPDATE sessions SET id = 0 WHERE key = 'lonely'",
     QUIPU_PROBLEM_SESSION, "lonely", false},
    {"UPDATE sessions SET key = '' WHERE key = 'lonely'", QUIPU_PROBLEM_SESSION, "", false},
    {"UPDATE sessions SET next_seq = -1 WHERE key = 'plain'", QUIPU_PROBLEM_COUNT, "plain", true},
    {"UPDATE jobs SET fence = -1 WHERE kind = 'observe'", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE jobs SET fence = 9223372036854775807", QUIPU_PROBLEM_MEMORY, NULL, true},
    {"UPDATE jobs SET last_seq = 9223372036854775807", QUIPU_PROBLEM_MEMORY, NULL, true},
    {"UPDATE jobs SET scope = '!!!!!!!!!!!!!!!!!!!!!!!!' WHERE kind = 'purge'",
     QUIPU_PROBLEM_MEMORY, "", true},
    {"UPDATE jobs SET scope = '922337203685477579z' WHERE kind = 'purge'", QUIPU_PROBLEM_MEMORY, "",
     true},
    {"UPDATE jobs SET tenant = 'other' WHERE kind = 'purge'", QUIPU_PROBLEM_MEMORY, "", true},
    {"UPDATE jobs SET scope = '', next_at = updated_at", QUIPU_PROBLEM_MEMORY, NULL, false},
    {"UPDATE jobs SET scope = 'nobody' WHERE kind = 'observe'", QUIPU_PROBLEM_MEMORY, "nobody",
     true},
    {"UPDATE memory_scopes SET watermark = -1", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE memory_scopes SET watermark = 6", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE memory_scopes SET watermark_tokens = 9223372036854775807", QUIPU_PROBLEM_MEMORY,
     "plain", true},
    {"UPDATE memory_scopes SET generation = 9223372036854775807", QUIPU_PROBLEM_MEMORY, "plain",
     true},
    {"UPDATE memory_scopes SET model_cost = -1", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET sent_hash = x''", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET block = x'00'", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET summary_seq = 9223372036854775807", QUIPU_PROBLEM_MEMORY, "plain",
     true},
    {"UPDATE context_log SET tokens = 9223372036854775807", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET from_tokens = -1", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET from_seq = 0", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE context_log SET session_number = 4711", QUIPU_PROBLEM_MEMORY, "", true},
    {"UPDATE removals SET removed_at = 'once'", QUIPU_PROBLEM_SESSION, "", false},
    {"UPDATE removals SET tenant = x''", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE jobs SET tenant = x''", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE sessions SET key = CAST(key AS BLOB) WHERE key = 'lonely'", QUIPU_PROBLEM_FILE, NULL,
     true},
    {"UPDATE sessions SET uid = upper(uid)", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE sessions SET lags = 7 WHERE lags = 1", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE sessions SET updated_at = replace(updated_at, ' ', 'T')", QUIPU_PROBLEM_FILE, NULL,
     true},
    {"UPDATE messages SET content = CAST(content AS BLOB)", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE messages SET event_id = CAST(event_id AS TEXT)", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE observations SET scope = 4711, subject = x'78'", QUIPU_PROBLEM_FILE, NULL, true},
    {"UPDATE state SET value = CAST(value AS BLOB)", QUIPU_PROBLEM_FILE, NULL, true},
    {"PRAGMA foreign_keys = OFF; UPDATE sessions SET id = (-9223372036854775807 - 1) WHERE key = "
     "'lonely'",
     QUIPU_PROBLEM_SESSION, "lonely", false},
    {"UPDATE sessions SET fork_parent = (SELECT max(id) FROM sessions)", QUIPU_PROBLEM_FORK, NULL,
     false},
    {"PRAGMA foreign_keys = OFF; UPDATE sessions SET fork_parent = 'x' WHERE key = 'fork'",
     QUIPU_PROBLEM_SESSION, NULL, false},
    {"PRAGMA foreign_keys = OFF; UPDATE messages SET session_messages = x'' WHERE seq = 2 AND "
     "session_messages = " OF("plain"),
     QUIPU_PROBLEM_FILE, NULL, false},
    {"UPDATE messages SET tokens = -1", QUIPU_PROBLEM_MESSAGE, NULL, false},
    {"UPDATE messages SET seq = seq + 1", QUIPU_PROBLEM_SEQ, NULL, false},
    {"UPDATE sessions SET prompt_total = prompt_total + 1 WHERE key = 'answered'",
     QUIPU_PROBLEM_TOTALS, "answered", false},
    {"UPDATE sessions SET answer_count = 1 WHERE key = 'answered'", QUIPU_PROBLEM_TOTALS,
     "answered", false},
    {"UPDATE usage SET count_before = count_before + 1 WHERE seq = 2", QUIPU_PROBLEM_TOTALS,
     "answered", false},
    {"UPDATE messages SET cached_tokens = 9 WHERE cached_tokens = 3", QUIPU_PROBLEM_TOTALS,
     "answered", false},
    {"UPDATE sessions SET answer_total = -1 WHERE key = 'answered'", QUIPU_PROBLEM_SESSION,
     "answered", false},
    {"UPDATE sessions SET turn_seq = 9223372036854775807 WHERE key = 'plain'",
     QUIPU_PROBLEM_SESSION, "plain", false},
    {"UPDATE memory_scopes SET watermark_tokens = watermark_tokens + 1", QUIPU_PROBLEM_MEMORY,
     "plain", true},
    {"UPDATE memory_scopes SET watermark = watermark - 1", QUIPU_PROBLEM_MEMORY, "plain", true},
    {"UPDATE sessions SET tenant = 'other' WHERE key = 'of hidden'", QUIPU_PROBLEM_FORK, NULL,
     false},
    {"UPDATE sessions SET hashed_from = 9223372036854775807 WHERE key = 'plain'",
     QUIPU_PROBLEM_HASH, "plain", true},
    {"UPDATE sessions SET token_count = 9223372036854775807 WHERE key = 'plain'",
     QUIPU_PROBLEM_TOTALS, "plain", true},
    {"UPDATE sessions SET revision = 9223372036854775807 WHERE key = 'plain'",
     QUIPU_PROBLEM_SESSION, "plain", false},
    {"UPDATE sessions SET next_seq = (-9223372036854775807 - 1) WHERE key = 'plain'",
     QUIPU_PROBLEM_COUNT, "plain", true},
    {"UPDATE sessions SET first_seq = 9223372036854775807 WHERE key IS NULL", QUIPU_PROBLEM_SESSION,
     "", false},
    {"UPDATE sessions SET fork_seq = 9223372036854775807 WHERE key = 'fork'", QUIPU_PROBLEM_FORK,
     "fork", false},
    {"UPDATE sessions SET fork_seq = fork_seq + 1 WHERE key = 'fork'", QUIPU_PROBLEM_SEQ, "fork",
     false},
    {"UPDATE sessions SET fork_seq = -5 WHERE key = 'fork'", QUIPU_PROBLEM_FORK, "fork", false},
    {"UPDATE sessions SET indexed_seq = 9223372036854775807, lags = 1 WHERE key = 'plain'",
     QUIPU_PROBLEM_SEARCH, "plain", true},
    {"PRAGMA foreign_keys = OFF; UPDATE sessions SET fork_parent = 9223372036854775807",
     QUIPU_PROBLEM_FILE, NULL, false},
    {"UPDATE messages SET tokens = 9223372036854775807 WHERE seq = 2 AND session_messages = " OF(
         "plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", false},
    {"UPDATE messages SET tokens_total = (-9223372036854775807 - 1) WHERE seq = 2 AND "
     "session_messages = " OF("plain"),
     QUIPU_PROBLEM_MESSAGE, "plain", true},
    {"UPDATE messages SET seq = 9223372036854775807 WHERE seq = 2 AND session_messages = " OF(
         "plain"),
     QUIPU_PROBLEM_SEQ, "plain", false},
    {"DELETE FROM messages_search_docsize", QUIPU_PROBLEM_SEARCH, "", true},
    {"UPDATE messages_search_data SET block = x'00' WHERE id > 10", QUIPU_PROBLEM_SEARCH, "", true},
};

/* What is observed of session "plain", and what was sent of it. */
static void observe_and_send(quipu_store *store)
{
    quipu_memory_options watch = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    watch.session_key = QUIPU_STR("plain");
    watch.observe_tokens = 1;
    T_OK(quipu_memory_run(store, &watch, NULL, NULL, &err));
    options.key = watch.session_key;
    options.model = QUIPU_STR("model");
    options.flags = QUIPU_CONTEXT_LOG;
    T_OK(quipu_context_make(store, &options, NULL, &context, &err));
    quipu_free(context);
}

/* A purge of the hidden session that a crash left, behind what its fork shares. */
static void leave_purge(const char *path)
{
    const qp_session_query hidden = {.limit = 1, .where = {.key = ENT_IS_NULL}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list list = {0};
    quipu_error err = {0};
    ent_db *db = et_connect(path, 0);
    char scope[32];

    T_OK(qp_session_find(db, &arena, &hidden, &list, &err));
    assert_int_equal(list.n, 1);
    (void)snprintf(scope, sizeof(scope), "%" PRId64, list.items[0].id);
    T_OK(qp_job_create(db, NULL,
                       &(qp_job_new){.scope = quipu_cstr(scope),
                                     .kind = QP_JOB_PURGE,
                                     .first_seq = 3,
                                     .last_seq = 3,
                                     .next_at = {true, list.items[0].created_at}},
                       NULL, &err));
    ent_close(db);
    quipu_arena_free(&arena);
}

/* Answers of two models, which are two spans of usage. */
static void answer_twice(quipu_store *store)
{
    st_create(store, "answered");
    for (int i = 0; i < 2; i++) {
        quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");
        quipu_error err = {0};

        message.model = i == 0 ? QUIPU_STR("one") : QUIPU_STR("two");
        message.prompt_tokens = 10;
        message.cached_tokens = 3 + i;
        message.answer_tokens = 2;
        T_OK(quipu_message_append(store, QUIPU_STR("answered"), quipu_messages_of(&message, 1),
                                  NULL, NULL, NULL, &err));
    }
}

/* A store that has a row in every table, and messages in the search index and behind it. */
static quipu_store *damaged_store(const char *sql, char path[T_PATH_MAX])
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;

    options.flags = QUIPU_OPEN_FEED;
    store = st_open_new(&options, path);
    st_create(store, "indexed");
    st_append_many(store, "indexed", 3);
    T_OK(quipu_search_index(store, NULL, NULL, NULL));
    st_create(store, "plain");
    st_append_many(store, "plain", 5);
    mt_state(path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"dark\"");
    mt_state(path, QP_STATE_SCOPE_USER, "app", "user", NULL, "lang", "1");
    mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "plain", "cart", "null");
    mt_memory(store, QUIPU_OBSERVATION, "plain", "saw one");
    mt_memory(store, QUIPU_REFLECTION, "plain", "thought");
    mt_learned(path, "plain");
    st_create(store, "root");
    st_append_many(store, "root", 4);
    mt_fork(store, "root", 3, "fork");
    st_append_many(store, "fork", 2);
    st_create(store, "lonely");
    answer_twice(store);
    st_create(store, "hidden");
    st_append_many(store, "hidden", 3);
    mt_fork(store, "hidden", 2, "of hidden");
    T_OK(quipu_session_delete(store, QUIPU_STR("hidden"), NULL, NULL, NULL, NULL));
    observe_and_send(store);
    leave_purge(path);
    mt_clean(store);
    mt_sql(path, sql);
    return store;
}

static void each_damage_is_reported_and_mended_where_it_can_be(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");

    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const damage *one = &damages[i];
        char path[T_PATH_MAX];
        quipu_store *store = damaged_store(one->sql, path);
        mt_problems heard = mt_verify(store);
        quipu_verified verified = QUIPU_VERIFIED_INIT;
        quipu_error err = {0};

        if (heard.kinds[one->kind] == 0) {
            fail_msg("%s: %d problems, the last: \"%s\" %s", one->sql, heard.count, heard.key,
                     heard.text);
        }
        if (one->key != NULL && heard.count == 1) {
            assert_string_equal(heard.key, one->key);
        }
        heard = (mt_problems){0};
        if (quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL,
                               &verified, &err) != QUIPU_OK) {
            fail_msg("%s: the repair fails: %s", one->sql, err.message);
        }
        assert_int_equal(verified.problems, heard.count);
        assert_int_equal(verified.repaired, heard.repaired);
        if (one->mends) {
            if (heard.count == 0 || heard.repaired != heard.count) {
                fail_msg("%s: %d of %d repaired: %s", one->sql, heard.repaired, heard.count,
                         heard.text);
            }
            mt_clean(store);
            quipu_history *history = st_get(store, "plain", NULL);
            st_check_whole(history);
            assert_int_equal(history->messages.count, 5);
            quipu_free(history);
            assert_int_equal(st_append(store, "plain", "goes on"), 6);
            assert_int_equal(st_append(store, "fork", "goes on"), 6);
            mt_clean(store);
        } else {
            heard = mt_verify(store);
            assert_true(heard.kinds[one->kind] > 0); /* still reported: nothing was made up */
        }
        quipu_close(store);
    }
}

/* A line of an export that a reader of JSON refuses would spoil all of it. */
static void exported_lines_are_json(const mt_stream *stream)
{
    for (size_t at = 0; at < stream->n;) {
        const char *line = stream->p + at;
        const char *end = memchr(line, '\n', stream->n - at);

        assert_non_null(end);
        T_OK(qp_json_check((quipu_str){line, (size_t)(end - line)}, NULL, NULL));
        at += (size_t)(end - line) + 1;
    }
}

/* What stands in a file is input: whatever it is, a call works or reports an error. */
static void no_damage_ends_the_program(void **state)
{
    static const char *const keys[] = {"plain", "lonely", "fork", "of hidden", "indexed"};
    int refused = 0;

    T_SQLITE_ONLY("the damage is SQLite's");
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        char path[T_PATH_MAX];
        mt_stream stream = {0};
        quipu_error err = {0};
        quipu_store *store = damaged_store(damages[i].sql, path);

        if (quipu_store_export(store, NULL, mt_write, &stream, NULL, NULL, &err) == QUIPU_OK) {
            exported_lines_are_json(&stream);
        }
        mt_free(&stream);
        refused += quipu_memory_run(store, NULL, NULL, NULL, &err) != QUIPU_OK;
        refused += t_oracle_observe(store, &err) != QUIPU_OK;
        refused += t_oracle_sessions(store, t_oracle_known, &err) != QUIPU_OK;
        refused += t_oracle_search(store, &err) != QUIPU_OK;
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            const quipu_str key = quipu_cstr(keys[k]);
            quipu_history *history = NULL;

            refused += quipu_say(store, keys[k], QUIPU_ROLE_USER, "more", &err) != QUIPU_OK;
            if (quipu_session_get(store, key, NULL, NULL, &history, &err) == QUIPU_OK) {
                quipu_free(history);
            }
            refused += quipu_session_delete(store, key, NULL, NULL, NULL, &err) != QUIPU_OK;
        }
        refused += quipu_store_sweep(store, NULL, NULL, &err) != QUIPU_OK;
        quipu_close(store);
    }
    assert_true(refused > 0);
}

/* ---- counters ---------------------------------------------------------------------------------
 */

typedef struct counter_damage {
    const char *file;   /* the statement for a file... */
    const char *server; /* ...and for a server */
    bool stops;         /* the server creates nothing more */
} counter_damage;

static const counter_damage counter_damages[] = {
    {"UPDATE sqlite_sequence SET seq = 1 WHERE name = 'sessions'",
     "UPDATE ent_numbers SET last = 0 WHERE name LIKE 'number of sessions/%'", false},
    {"DELETE FROM sqlite_sequence WHERE name = 'sessions'",
     "DELETE FROM ent_numbers WHERE name LIKE 'number of sessions/%'", false},
    {"UPDATE sqlite_sequence SET seq = 'none' WHERE name = 'sessions'",
     "DELETE FROM ent_numbers WHERE name IN ('base of sessions', 'number of sessions')", true},
    {"UPDATE sqlite_sequence SET seq = 0 WHERE name = 'feed'",
     "UPDATE ent_numbers SET last = 1 WHERE name = 'number of feed'", false},
    {"DELETE FROM sqlite_sequence WHERE name = 'feed'",
     "DELETE FROM ent_numbers WHERE name = 'number of feed'", true},
};

/* The highest number that the store has given to a session. */
static int64_t highest_session(const char *path)
{
    const qp_session_query query = {.limit = 1, .order = {QP_SESSION_BY_ID(DESC)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list list = {0};
    quipu_error err = {0};
    ent_db *db = et_connect(path, 0);
    int64_t highest = 0;

    T_OK(qp_session_find(db, &arena, &query, &list, &err));
    assert_int_equal(list.n, 1);
    highest = list.items[0].id;
    ent_close(db);
    quipu_arena_free(&arena);
    return highest;
}

static void counter_behind_the_highest_number_is_found_and_mended(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(counter_damages) / sizeof(counter_damages[0]); i++) {
        const counter_damage *one = &counter_damages[i];
        char path[T_PATH_MAX];
        quipu_store *store = damaged_store("SELECT 1", path);
        quipu_verified verified = QUIPU_VERIFIED_INIT;
        mt_problems heard = {0};
        quipu_error err = {0};
        int64_t highest;

        mt_sql(path, et_is_server(path) ? one->server : one->file);
        heard = mt_verify(store);
        if (heard.kinds[QUIPU_PROBLEM_COUNTER] == 0) {
            fail_msg("%s: %d problems: %s", one->file, heard.count, heard.text);
        }
        assert_int_equal(heard.kinds[QUIPU_PROBLEM_COUNTER], heard.count);
        if (et_is_server(path) && one->stops) {
            quipu_session_new values = st_values("no number");
            assert_int_not_equal(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_OK);
        }
        heard = (mt_problems){0};
        T_OK(quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL,
                                &verified, &err));
        assert_true(heard.count > 0);
        assert_int_equal(heard.repaired, heard.count);
        mt_clean(store);
        /* Numbers go on behind the highest, also when its row is gone. */
        highest = highest_session(path);
        T_OK(quipu_session_delete(store, QUIPU_STR("of hidden"), NULL, NULL, NULL, NULL));
        st_create(store, "after");
        st_append_many(store, "after", 2);
        assert_true(highest_session(path) > highest);
        mt_clean(store);
        quipu_close(store);
    }
}

/* A key of state that does not stand where it sorts: pages by key came back to the rows before it,
 * for ever. */
static void verify_ends_when_keys_are_out_of_order(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");
    static const char *const names[] = {"aaaa-key", "bbbb-key", "cccc-key", "dddd-key"};
    char path[T_PATH_MAX];
    char *bytes = NULL;
    size_t size = 0;
    size_t flipped = 0;
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    mt_problems heard = {0};
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "k", names[i], "1");
    }
    quipu_close(store);
    bytes = t_file_read(path, &size);
    for (size_t i = 0; i + 8 <= size; i++) {
        if (memcmp(bytes + i, "cccc-key", 8) == 0) {
            bytes[i] ^= 0x03; /* "`ccc-key" */
            flipped++;
        }
    }
    assert_int_equal(flipped, 1);
    t_file_write(path, bytes, size);
    free(bytes);
    store = st_open(path);
    T_OK(quipu_store_verify(store, T_VERIFY(0, mt_hear, &heard), NULL, &verified, &err));
    assert_true(heard.kinds[QUIPU_PROBLEM_FILE] > 0);
    quipu_close(store);
}

/* A summary is stored behind the last message that it covers. One that claims to cover messages
 * behind itself would make a prune delete the session's future. */
static void prune_refuses_a_summary_that_covers_what_follows_it(void **state)
{
    T_SQLITE_ONLY("the damage is SQLite's");
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    const quipu_str key = QUIPU_STR("plain");
    int64_t removed = -1;
    quipu_error err = {0};

    (void)state;
    st_create(store, "plain");
    st_append_many(store, "plain", 5);
    T_OK(quipu_session_compact(store, key, T_COMPACT(2, QUIPU_STR("sum")), NULL, NULL, &err));
    mt_sql(path,
           "UPDATE messages SET extra = '{\"quipu\":{\"covers\":[1,99,0]}}' WHERE mark IS NOT "
           "NULL");
    T_STATUS(quipu_session_prune(store, key, NULL, &removed, &err), QUIPU_CORRUPT);
    assert_int_equal(removed, -1);
    T_OK(quipu_session_compact(store, key, T_COMPACT_UNDO, NULL, NULL, &err));
    quipu_history *history = st_get(store, "plain", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, 6);
    quipu_free(history);
    quipu_close(store);
}

static void sound_store_has_no_problem(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, &err));
    assert_int_equal(verified.sessions, 0);
    mt_fill(store, path);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, &err));
    assert_int_equal(verified.sessions, 10);
    assert_int_equal(verified.problems, 0);
    assert_true(verified.messages > 20);
    mt_stream before = mt_export(store, NULL);
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, &err));
    mt_stream after = mt_export(store, NULL);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, before.n); /* nothing was touched */
    mt_free(&before);
    mt_free(&after);
    quipu_close(store);
}

static void hidden_session_whose_shared_past_was_pruned_is_sound(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    (void)state;
    st_create(store, "parent");
    st_append_many(store, "parent", 3);
    values.key = QUIPU_STR("fork");
    T_OK(quipu_session_fork(store, QUIPU_STR("parent"), 2, &values, NULL, NULL, &err));
    st_append_many(store, "fork", 2);
    values.key = QUIPU_STR("leaf");
    T_OK(quipu_session_fork(store, QUIPU_STR("fork"), 4, &values, NULL, NULL, &err));
    T_OK(quipu_session_compact(store, QUIPU_STR("leaf"), T_COMPACT(3, QUIPU_STR("sum")), NULL, NULL,
                               &err));
    T_OK(quipu_session_prune(store, QUIPU_STR("leaf"), NULL, NULL, &err));
    T_OK(quipu_session_delete(store, QUIPU_STR("parent"), NULL, NULL, NULL, &err));
    T_OK(quipu_session_delete(store, QUIPU_STR("fork"), NULL, NULL, NULL, &err));
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, &err));
    assert_int_equal(verified.problems, 0);
    quipu_close(store);
}

static void many_wrong_totals_are_mended_in_batches(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    (void)state;
    st_create(store, "long");
    st_append_many(store, "long", 700);
    mt_sql(path, "UPDATE messages SET tokens_total = seq * 1000 WHERE seq % 3 > 0");
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, &err));
    assert_int_equal(verified.problems, 1);
    assert_int_equal(verified.repaired, 1);
    quipu_history *history = st_get(store, "long", NULL);
    st_check_whole(history);
    quipu_free(history);
    quipu_close(store);
}

static void capped_and_pruned_sessions_are_sound(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    options.cap_messages = 4;
    quipu_store *store = st_open_new(&options, NULL);
    st_create(store, "capped");
    st_append_many(store, "capped", 3);
    mt_fork(store, "capped", 2, "fork");
    st_append_many(store, "capped", 9);
    st_append_many(store, "fork", 9);
    mt_clean(store);
    st_create(store, "pruned");
    st_append_many(store, "pruned", 4);
    T_OK(quipu_session_compact(store, QUIPU_STR("pruned"), T_COMPACT(3, QUIPU_STR("short")), NULL,
                               NULL, &err));
    T_OK(quipu_session_prune(store, QUIPU_STR("pruned"), NULL, NULL, &err));
    mt_clean(store);
    mt_stream stream = mt_export(store, NULL);
    quipu_store *other = st_open_new(NULL, NULL);
    (void)mt_import(other, &stream);
    mt_stream back = mt_export(other, NULL);
    assert_int_equal(back.n, stream.n);
    assert_memory_equal(back.p, stream.p, stream.n);
    mt_clean(other);
    mt_free(&stream);
    mt_free(&back);
    quipu_close(other);
    quipu_close(store);
}

static void verify_of_a_read_only_store_works_and_repair_is_misuse(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = damaged_store(damages[0].sql, path);
    quipu_cancel *cancel = quipu_cancel_new();
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    quipu_close(store);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &store, &err));
    assert_int_equal(mt_verify(store).count, 1);
    T_STATUS(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_store_verify(NULL, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(
        quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR << 1, NULL, NULL), NULL, NULL, &err),
        QUIPU_MISUSE);
    quipu_cancel_set(cancel);
    call.cancel = cancel;
    T_STATUS(quipu_store_verify(store, NULL, &call, NULL, &err), QUIPU_CANCELLED);
    quipu_free(cancel);
    quipu_close(store);
}

static void search_finds_again_after_repair(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    st_append(store, "k", "needle in hay");
    options.query = QUIPU_STR("needle");
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    assert_int_equal(results->hits.count, 1);
    quipu_free(results);
    mt_sql(path, "UPDATE sessions SET indexed_seq = 5");
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err));
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    assert_int_equal(results->hits.count, 1);
    quipu_free(results);
    mt_clean(store);
    quipu_close(store);
}

/* A word that is in no message, or a message whose words are not in the index; while other messages
 * wait to be indexed, too. A repair does not touch an index that is right. */
static void verify_compares_the_words_of_the_search_index(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    mt_problems heard = {0};
    quipu_error err = {0};

    (void)state;
    st_create(store, "k");
    st_append(store, "k", "needle in hay");
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    T_OK(quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL, NULL,
                            &err));
    assert_int_equal(heard.count, 0);
    st_create(store, "pending");
    st_append(store, "pending", "words that wait");
    mt_clean(store);
    mt_sql(path, "UPDATE messages SET content = 'other words' WHERE content = 'needle in hay'");
    heard = mt_verify(store);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_HASH], 1); /* a text that nobody appended */
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_SEARCH], 1);
    heard = (mt_problems){0};
    T_OK(quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL, NULL,
                            &err));
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_SEARCH], 1);
    assert_int_equal(heard.repaired, 2);
    options.query = QUIPU_STR("other");
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    assert_int_equal(results->hits.count, 1);
    quipu_free(results);
    options.query = QUIPU_STR("needle");
    T_OK(quipu_search(store, &options, NULL, &results, &err));
    assert_int_equal(results->hits.count, 0);
    quipu_free(results);
    heard = (mt_problems){0};
    T_OK(quipu_store_verify(store, T_VERIFY(QUIPU_VERIFY_REPAIR, mt_hear, &heard), NULL, NULL,
                            &err));
    assert_int_equal(heard.count, 0);
    mt_clean(store);
    quipu_close(store);
}

typedef struct counted {
    int64_t last;
    int calls;
} counted;

static void count_progress(void *ctx, int64_t done)
{
    counted *counts = ctx;

    assert_true(done >= counts->last);
    counts->last = done;
    counts->calls++;
}

static void long_calls_count_what_they_have_done(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    counted counts = {0};
    quipu_error err = {0};

    (void)state;
    st_create(store, "a");
    st_create(store, "b");
    st_create(store, "c");
    call.progress = count_progress;
    call.progress_ctx = &counts;
    T_OK(quipu_store_verify(store, NULL, &call, &verified, &err));
    assert_int_equal(counts.calls, 3);
    assert_int_equal(counts.last, 3);
    counts = (counted){0};
    T_OK(quipu_store_verify(store, T_REPAIR, &call, &verified, &err));
    assert_int_equal(counts.calls, verified.sessions);

    counts = (counted){0};
    st_append_many(store, "a", QUIPU_INDEX_BATCH + 1);
    T_OK(quipu_search_index(store, &call, NULL, &err));
    assert_int_equal(counts.last, QUIPU_INDEX_BATCH + 1);
    counts = (counted){0};
    for (int i = 0; i <= QUIPU_SWEEP_BATCH; i++) {
        char key[32];
        snprintf(key, sizeof(key), "late %d", i);
        quipu_session_new values = st_values(key);
        values.ttl_ms = 1;
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    }
    while (st_get_status(store, "late 100") != QUIPU_EXPIRED) {
    }
    T_OK(quipu_store_sweep(store, &call, NULL, &err));
    assert_int_equal(counts.last, QUIPU_SWEEP_BATCH + 1);
    assert_int_equal(counts.calls, 2);

    counts = (counted){0};
    for (int i = 0; i <= QUIPU_SWEEP_BATCH; i++) {
        char key[32];
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        (void)snprintf(key, sizeof(key), "of ann %d", i);
        values.key = quipu_cstr(key);
        values.user_id = QUIPU_STR("ann");
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    }
    T_OK(t_user_erase(store, (quipu_str){NULL, 0}, QUIPU_STR("ann"), 0, &call, NULL, &err));
    assert_int_equal(counts.last, QUIPU_SWEEP_BATCH + 1);
    assert_int_equal(counts.calls, 2);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_damage_is_reported_and_mended_where_it_can_be),
        cmocka_unit_test(no_damage_ends_the_program),
        cmocka_unit_test(counter_behind_the_highest_number_is_found_and_mended),
        cmocka_unit_test(verify_ends_when_keys_are_out_of_order),
        cmocka_unit_test(prune_refuses_a_summary_that_covers_what_follows_it),
        cmocka_unit_test(sound_store_has_no_problem),
        cmocka_unit_test(long_calls_count_what_they_have_done),
        cmocka_unit_test(hidden_session_whose_shared_past_was_pruned_is_sound),
        cmocka_unit_test(many_wrong_totals_are_mended_in_batches),
        cmocka_unit_test(capped_and_pruned_sessions_are_sound),
        cmocka_unit_test(verify_of_a_read_only_store_works_and_repair_is_misuse),
        cmocka_unit_test(search_finds_again_after_repair),
        cmocka_unit_test(verify_compares_the_words_of_the_search_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
