/* Recall and search on real conversations: four questions of LongMemEval, each about one of some 50
 * sessions, answered alike by the engine under test and by a second store in memory. */
#include "contract/recall_t.h"

#include <jansson.h>

#define FIXTURE_LIMIT 100
#define FIXTURE_MESSAGES_MAX 64

static quipu_str fixture_text(json_t *object, const char *name)
{
    return quipu_cstr(json_string_value(json_object_get(object, name)));
}

/* One session of the file, with all its messages, in one append. */
static void fixture_session(quipu_store *store, const char *user, json_t *session)
{
    quipu_message messages[FIXTURE_MESSAGES_MAX];
    json_t *list = json_object_get(session, "messages");
    quipu_error err = {0};
    char key[128];
    size_t i;
    json_t *item;

    assert_true(json_array_size(list) <= FIXTURE_MESSAGES_MAX);
    (void)snprintf(key, sizeof(key), "%s/%s", user,
                   json_string_value(json_object_get(session, "id")));
    recall_create(store, key, "app", user);
    json_array_foreach(list, i, item)
    {
        char time[64];

        messages[i] =
            (quipu_message){.role = quipu_str_eq(fixture_text(item, "role"), QUIPU_STR("user"))
                                        ? QUIPU_ROLE_USER
                                        : QUIPU_ROLE_ASSISTANT,
                            .content = fixture_text(item, "content"),
                            .has_timestamp = true};
        (void)snprintf(time, sizeof(time), "%sZ",
                       json_string_value(json_object_get(item, "created_at")));
        T_OK(quipu_time_parse(quipu_cstr(time), &messages[i].timestamp));
    }
    T_OK(quipu_message_append(store, quipu_cstr(key),
                              quipu_messages_of(messages, json_array_size(list)), NULL, NULL, NULL,
                              &err));
}

/* The session that answers comes first, and both stores return the same. */
static void fixture_question(quipu_store *store, quipu_store *reference, const char *user,
                             const char *question)
{
    quipu_recall_options options = recall_user("app", user, question);
    char answer[64];

    options.limit = FIXTURE_LIMIT;
    quipu_recall_results *ours = recall_with(store, &options);
    quipu_recall_results *theirs = recall_with(reference, &options);
    assert_true(ours->hits.count > 0);
    recall_same(ours, theirs);
    (void)snprintf(answer, sizeof(answer), "%s/answer", user);
    assert_memory_equal(quipu_recall_hit_at(ours->hits, 0)->session_key.p, answer, strlen(answer));
    quipu_free(ours);
    quipu_free(theirs);
}

/* Exact search for one of the question's words or another: both stores return the same. */
static void fixture_search(quipu_store *store, quipu_store *reference, const char *user,
                           const char *question)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *ours = NULL;
    quipu_search_results *theirs = NULL;
    quipu_error err = {0};
    char query[2048];
    size_t n = 0;

    for (const char *at = question; *at != '\0'; at++) {
        assert_true(n + 8 < sizeof(query));
        if (*at == ' ') {
            n += (size_t)snprintf(query + n, sizeof(query) - n, " OR ");
        } else {
            query[n++] = *at;
        }
    }
    options.query = (quipu_str){query, n};
    options.app_name = QUIPU_STR("app");
    options.user_id = quipu_cstr(user);
    options.limit = FIXTURE_LIMIT;
    T_OK(quipu_search(store, &options, NULL, &ours, &err));
    T_OK(quipu_search(reference, &options, NULL, &theirs, &err));
    assert_true(ours->hits.count > 0);
    assert_int_equal(ours->hits.count, theirs->hits.count);
    for (size_t i = 0; i < ours->hits.count; i++) {
        const quipu_search_hit *a = quipu_search_hit_at(ours->hits, i);
        const quipu_search_hit *b = quipu_search_hit_at(theirs->hits, i);

        assert_true(quipu_str_eq(a->session_key, b->session_key) && a->seq == b->seq);
        assert_memory_equal(&a->rank, &b->rank, sizeof(a->rank));
    }
    quipu_free(ours);
    quipu_free(theirs);
}

static void the_session_that_answers_comes_first_on_every_engine(void **state)
{
    quipu_store *store = *state;
    quipu_store *reference = NULL;
    quipu_error err = {0};
    size_t size = 0;
    char *file = t_file_read(QUIPU_SOURCE_DIR "/tests/vectors/longmemeval-s-4.jsonl", &size);
    json_t *lines[4];
    char *at = file;

    T_OK(quipu_open(":memory:", NULL, &reference, &err));
    for (int i = 0; i < 4; i++) {
        char *end = memchr(at, '\n', (size_t)(file + size - at));
        char user[16];
        size_t n;
        json_t *session;

        assert_non_null(end);
        lines[i] = json_loadb(at, (size_t)(end - at), 0, NULL);
        assert_non_null(lines[i]);
        at = end + 1;
        (void)snprintf(user, sizeof(user), "u%d", i);
        json_array_foreach(json_object_get(lines[i], "sessions"), n, session)
        {
            fixture_session(store, user, session);
            fixture_session(reference, user, session);
        }
    }
    for (int i = 0; i < 4; i++) {
        char user[16];

        (void)snprintf(user, sizeof(user), "u%d", i);
        fixture_question(store, reference, user,
                         json_string_value(json_object_get(lines[i], "question")));
        fixture_search(store, reference, user,
                       json_string_value(json_object_get(lines[i], "question")));
        json_decref(lines[i]);
    }
    quipu_close(reference);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(the_session_that_answers_comes_first_on_every_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
