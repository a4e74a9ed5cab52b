/* What the tests of recall share: asking, and the hits as text. Header only. */
#ifndef T_CONTRACT_RECALL_T_H
#define T_CONTRACT_RECALL_T_H

#include "contract/store_t.h"

static inline quipu_recall_options recall_everything(const char *question)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;

    options.question = quipu_cstr(question);
    options.flags = QUIPU_RECALL_EVERYTHING;
    return options;
}

static inline quipu_recall_options recall_session(const char *key, const char *question)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;

    options.question = quipu_cstr(question);
    options.session_key = quipu_cstr(key);
    return options;
}

static inline quipu_recall_options recall_user(const char *app, const char *user,
                                               const char *question)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;

    options.question = quipu_cstr(question);
    options.app_name = quipu_cstr(app);
    options.user_id = user != NULL ? quipu_cstr(user) : (quipu_str){NULL, 0};
    return options;
}

static inline quipu_recall_results *recall_with(quipu_store *store,
                                                const quipu_recall_options *options)
{
    quipu_recall_results *results = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_recall(store, options, NULL, &results, &err);

    if (status != QUIPU_OK) {
        fail_msg("recall: %s (%s)", quipu_status_name(status), err.message);
    }
    return results;
}

/* The hits as "key:seq key:seq ", best first. */
static inline const char *recalled(quipu_store *store, quipu_recall_options options)
{
    static char text[65536];
    quipu_recall_results *results = recall_with(store, &options);
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s:%lld ", (int)hit->session_key.n,
                              hit->session_key.p, (long long)hit->seq);
        assert_true(n < sizeof(text));
    }
    quipu_free(results);
    return text;
}

/* Both stores return the same hits, in the same order, with the same bits of their scores. */
static inline void recall_same(const quipu_recall_results *ours, const quipu_recall_results *theirs)
{
    assert_int_equal(ours->hits.count, theirs->hits.count);
    assert_int_equal(ours->memories, theirs->memories);
    for (size_t i = 0; i < ours->hits.count; i++) {
        const quipu_recall_hit *a = quipu_recall_hit_at(ours->hits, i);
        const quipu_recall_hit *b = quipu_recall_hit_at(theirs->hits, i);

        assert_true(quipu_str_eq(a->session_key, b->session_key) && a->seq == b->seq);
        assert_true(quipu_str_eq(a->content, b->content));
        assert_true((a->memory != NULL) == (b->memory != NULL));
        assert_memory_equal(&a->score, &b->score, sizeof(a->score));
    }
}

/* A session of an app and a user. */
static inline void recall_create(quipu_store *store, const char *key, const char *app,
                                 const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

/* One message of an author at a time. */
static inline void recall_say(quipu_store *store, const char *key, const char *author,
                              const char *time, const char *text)
{
    quipu_message message = st_says(QUIPU_ROLE_USER, text);
    quipu_error err = {0};

    message.author = quipu_cstr(author);
    message.has_timestamp = true;
    T_OK(quipu_time_parse(quipu_cstr(time), &message.timestamp));
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

#endif
