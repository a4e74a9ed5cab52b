/* What the tests of windows, caps, compaction and forks share: short forms of the calls, numbers of
 * messages as text, and counts of what really lies in the file. */
#ifndef T_CONTRACT_HISTORY_T_H
#define T_CONTRACT_HISTORY_T_H

#include "contract/store_t.h"
#include "lib/short.h"

#include "gen/quipu.h"

#define HT_TEXT_MAX 4096

/* Append one message of that role; gives its number. A tool call and its answer share an id. */
static inline int64_t ht_say(quipu_store *store, const char *key, quipu_role role, const char *text)
{
    const quipu_tool_call call = {.id = QUIPU_STR("c1"),
                                  .name = QUIPU_STR("look"),
                                  .input = QUIPU_STR("{}"),
                                  .output = role == QUIPU_ROLE_TOOL ? QUIPU_STR("[]")
                                                                    : (quipu_str){NULL, 0}};
    quipu_message message = st_says(role, text);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    if (role == QUIPU_ROLE_TOOL || role == QUIPU_ROLE_MODEL) {
        message.calls = quipu_tool_calls_of(&call, 1);
    }
    quipu_status status = quipu_message_append(
        store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL, &appended, &err);
    if (status != QUIPU_OK) {
        fail_msg("append to %s: %s (%s)", key, quipu_status_name(status), err.message);
    }
    return appended.first_seq;
}

/* Messages by letters: u a user, a an assistant, m a model that calls a tool, t its answer, s the
 * system. */
static inline void ht_script(quipu_store *store, const char *key, const char *letters)
{
    for (const char *p = letters; *p != '\0'; p++) {
        quipu_role role = *p == 'u'   ? QUIPU_ROLE_USER
                          : *p == 'a' ? QUIPU_ROLE_ASSISTANT
                          : *p == 'm' ? QUIPU_ROLE_MODEL
                          : *p == 't' ? QUIPU_ROLE_TOOL
                                      : QUIPU_ROLE_SYSTEM;
        assert_true(ht_say(store, key, role, "word") > 0);
    }
}

/* Append a model's message that calls tools, or an answer, with these ids: "a,b". */
static inline int64_t ht_tools(quipu_store *store, const char *key, quipu_role role,
                               const char *ids)
{
    quipu_tool_call calls[4];
    quipu_message message = st_says(role, "word");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    const char *at = ids;

    message.calls = quipu_tool_calls_of(calls, 0);
    for (;;) {
        size_t n = strcspn(at, ",");
        assert_true(message.calls.count < sizeof(calls) / sizeof(calls[0]));
        calls[message.calls.count++] = (quipu_tool_call){
            .id = {at, n},
            .name = QUIPU_STR("look"),
            .input = QUIPU_STR("{}"),
            .output = role == QUIPU_ROLE_TOOL ? QUIPU_STR("[]") : (quipu_str){NULL, 0}};
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, NULL));
    return appended.first_seq;
}

/* A user's message, a call, so much talk that the answer is `distance` behind it, the answer. */
static inline void ht_far_pair(quipu_store *store, const char *key, int distance)
{
    quipu_message *talk = calloc((size_t)distance, sizeof(*talk));

    assert_non_null(talk);
    for (int i = 0; i < distance; i++) {
        talk[i] = st_says(QUIPU_ROLE_ASSISTANT, "word");
    }
    st_create(store, key);
    ht_script(store, key, "u");
    assert_int_equal(ht_tools(store, key, QUIPU_ROLE_MODEL, "far"), 2);
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(talk, (size_t)distance - 1),
                              NULL, NULL, NULL, NULL));
    assert_int_equal(ht_tools(store, key, QUIPU_ROLE_TOOL, "far"), 2 + distance);
    free(talk);
}

static inline void ht_fork(quipu_store *store, const char *key, int64_t seq, const char *new_key)
{
    quipu_session_new values = st_values(new_key);
    quipu_error err = {0};
    quipu_status status =
        quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, &err);

    if (status != QUIPU_OK) {
        fail_msg("fork %s at %lld: %s (%s)", key, (long long)seq, quipu_status_name(status),
                 err.message);
    }
}

static inline int64_t ht_compact(quipu_store *store, const char *key, int64_t covers_to,
                                 const char *summary)
{
    int64_t seq = 0;
    quipu_error err = {0};
    quipu_status status = quipu_session_compact(
        store, quipu_cstr(key), T_COMPACT(covers_to, quipu_cstr(summary)), NULL, &seq, &err);

    if (status != QUIPU_OK) {
        fail_msg("compact %s to %lld: %s (%s)", key, (long long)covers_to,
                 quipu_status_name(status), err.message);
    }
    return seq;
}

static inline void ht_delete(quipu_store *store, const char *key)
{
    quipu_error err = {0};

    T_OK(quipu_session_delete(store, quipu_cstr(key), NULL, NULL, NULL, &err));
}

/* The numbers of a history's messages: "1 2 3". */
static inline void ht_numbers(quipu_messages messages, char ret_text[HT_TEXT_MAX])
{
    size_t n = 0;

    ret_text[0] = '\0';
    for (size_t i = 0; i < messages.count; i++) {
        n += (size_t)snprintf(ret_text + n, HT_TEXT_MAX - n, "%s%lld", i > 0 ? " " : "",
                              (long long)quipu_message_at(messages, i)->seq);
        assert_true(n < HT_TEXT_MAX);
    }
}

/* Whether a session, or its default view, has exactly these messages. */
#define HT_ALL(store, key, numbers) ht_check(store, key, 0, numbers, __LINE__)
#define HT_VIEW(store, key, numbers) ht_check(store, key, QUIPU_RANGE_VIEW, numbers, __LINE__)

static inline void ht_check(quipu_store *store, const char *key, uint32_t flags,
                            const char *numbers, int line)
{
    quipu_range range = QUIPU_RANGE_INIT;
    char text[HT_TEXT_MAX];

    range.flags = flags;
    quipu_history *history = st_get(store, key, &range);
    ht_numbers(history->messages, text);
    if (strcmp(text, numbers) != 0) {
        fail_msg("line %d: %s has \"%s\", not \"%s\"", line, key, text, numbers);
    }
    quipu_free(history);
}

static inline quipu_session_info ht_info(quipu_store *store, const char *key)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.flags = QUIPU_RANGE_HEADER;
    quipu_history *history = st_get(store, key, &range);
    quipu_session_info info = *history->session; /* numbers only: its texts go */
    quipu_free(history);
    return info;
}

/* What lies in the file: all messages, sessions with a key, and sessions without one. */
typedef struct ht_file {
    int64_t messages;
    int64_t named;
    int64_t hidden;
} ht_file;

static inline ht_file ht_count(const char *path)
{
    ht_file count = {0, 0, 0};
    quipu_error err = {0};
    ent_db *db = NULL;

    db = et_connect(path, 0);
    T_OK(qp_message_count(db, NULL, &count.messages, &err));
    T_OK(qp_session_count(db, &(qp_session_where){.key = ENT_NOT_NULL}, &count.named, &err));
    T_OK(qp_session_count(db, &(qp_session_where){.key = ENT_IS_NULL}, &count.hidden, &err));
    ent_close(db);
    return count;
}

/* A store with its path, for tests that look into the file. */
typedef struct ht_store {
    quipu_store *store;
    char path[T_PATH_MAX];
} ht_store;

static inline int ht_setup(void **state)
{
    ht_store *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    self->store = st_open_new(NULL, self->path);
    *state = self;
    return 0;
}

static inline int ht_teardown(void **state)
{
    ht_store *self = *state;

    quipu_close(self->store);
    free(self);
    return 0;
}

#define HT_TEST(name) cmocka_unit_test_setup_teardown(name, ht_setup, ht_teardown)

#endif
