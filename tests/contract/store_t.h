/* What the tests of the store share: opening, short forms of the calls, and checks of a history.
 * Header only, so that tests of several folders use it. */
#ifndef T_CONTRACT_STORE_T_H
#define T_CONTRACT_STORE_T_H

#include "lib/t.h"

#include <time.h>

#include <quipu/store.h>

#include "contract/engine_t.h"

/* An empty store in a fresh place; `ret_path` may be NULL. */
static inline quipu_store *st_open_new(const quipu_open_options *options, char *ret_path)
{
    char path[T_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error err = {0};

    t_new_store("store.db", path);
    if (ret_path != NULL) {
        memcpy(ret_path, path, sizeof(path));
    }
    if (quipu_open(path, options, &store, &err) != QUIPU_OK) {
        fail_msg("open %s: %s", path, err.message);
    }
    return store;
}

static inline quipu_store *st_open(const char *path)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_open(path, NULL, &store, &err);

    if (status != QUIPU_OK) {
        fail_msg("open %s: %s", path, err.message);
    }
    return store;
}

/* A key of a store, a quipu_key_fn: the context is the text, which is never changed. */
static inline size_t st_give_key(void *ctx, void *ret_key, size_t size)
{
    const size_t n = strlen(ctx);

    memcpy(ret_key, ctx, n < size ? n : size);
    return n;
}

static inline int st_setup(void **state)
{
    *state = st_open_new(NULL, NULL);
    return 0;
}

static inline int st_teardown(void **state)
{
    quipu_close(*state);
    return 0;
}

#define ST_TEST(name) cmocka_unit_test_setup_teardown(name, st_setup, st_teardown)

static inline quipu_session_new st_values(const char *key)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = quipu_cstr(key);
    return values;
}

static inline void st_create(quipu_store *store, const char *key)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static inline quipu_message st_says(quipu_role role, const char *text)
{
    return (quipu_message){.role = role, .content = quipu_cstr(text)};
}

/* Append one message of the user's; gives its number. */
static inline int64_t st_append(quipu_store *store, const char *key, const char *text)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, text);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    quipu_status status = quipu_message_append(
        store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL, &appended, &err);

    if (status != QUIPU_OK) {
        fail_msg("append to %s: %s (%s)", key, quipu_status_name(status), err.message);
    }
    return appended.first_seq;
}

static inline void st_append_many(quipu_store *store, const char *key, int count)
{
    char text[32];

    for (int i = 1; i <= count; i++) {
        snprintf(text, sizeof(text), "m%d", i);
        assert_true(st_append(store, key, text) > 0);
    }
}

/* The whole session, or what `range` asks for. */
static inline quipu_history *st_get(quipu_store *store, const char *key, const quipu_range *range)
{
    quipu_history *history = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_session_get(store, quipu_cstr(key), range, NULL, &history, &err);

    if (status != QUIPU_OK) {
        fail_msg("get %s: %s (%s)", key, quipu_status_name(status), err.message);
    }
    return history;
}

static inline quipu_status st_get_status(quipu_store *store, const char *key)
{
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, quipu_cstr(key), NULL, NULL, &history, NULL);

    quipu_free(history);
    return status;
}

/* Numbers without gaps from `first` on, totals that add up, and a header that agrees. */
static inline void st_check_whole(const quipu_history *history)
{
    const quipu_session_info *session = history->session;
    int64_t total = 0;

    assert_int_equal(history->messages.count, session->message_count);
    assert_int_equal(session->next_seq - session->first_seq, session->message_count);
    assert_false(history->more_before);
    assert_false(history->more_after);
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);
        total += message->tokens;
        assert_int_equal(message->seq, session->first_seq + (int64_t)i);
        assert_int_equal(message->tokens_total, total);
    }
    assert_int_equal(session->token_count, total);
}

/* Long enough for a time to live of a millisecond to pass. */
static inline void st_nap(void)
{
    const struct timespec nap = {0, 8000000};

    (void)nanosleep(&nap, NULL);
}

#endif
