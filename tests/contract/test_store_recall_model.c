/* Who can read what: sessions of several users and apps are made, forked, compacted, pruned and
 * deleted at random. A recall in any scope then finds each text that its sessions show, once, and
 * no other; a search finds as many. On every engine. */
#include "contract/history_t.h"
#include "contract/maintain_t.h"
#include "contract/recall_t.h"
#include "lib/short.h"

#define READ_STEPS 120
#define READ_KEYS 12
#define READ_USERS 3
#define READ_APPS 2
#define READ_TEXTS 600

/* A session as the test made it; the texts that it shows are asked of the store. */
typedef struct read_session {
    bool there;
    int app;
    int user;
} read_session;

typedef struct read_world {
    quipu_store *store;
    uint64_t random;
    int said; /* each text has a number of its own */
    read_session sessions[READ_KEYS];
} read_world;

static size_t read_below(read_world *world, size_t limit)
{
    return (size_t)t_random_below(&world->random, (uint64_t)limit);
}

static const char *read_key(size_t i, char key[16])
{
    (void)snprintf(key, 16, "k%zu", i);
    return key;
}

static quipu_session_new read_values(read_world *world, size_t i, char key[16], char app[16],
                                     char user[16])
{
    quipu_session_new values = st_values(read_key(i, key));
    read_session *session = &world->sessions[i];

    session->there = true;
    session->app = (int)read_below(world, READ_APPS);
    session->user = (int)read_below(world, READ_USERS);
    (void)snprintf(app, 16, "app%d", session->app);
    (void)snprintf(user, 16, "user%d", session->user);
    values.app_name = quipu_cstr(app);
    values.user_id = quipu_cstr(user);
    return values;
}

/* A number is a word of its own: no text is like another. */
static void read_say(read_world *world, const char *key)
{
    char text[32];

    assert_true(world->said < READ_TEXTS);
    (void)snprintf(text, sizeof(text), "apple n%d", world->said++);
    st_append(world->store, key, text);
}

/* The number behind a prefix of a text, or of a key. */
static size_t read_number(quipu_str text, const char *prefix)
{
    size_t number = 0;

    assert_true(text.n > strlen(prefix) && memcmp(text.p, prefix, strlen(prefix)) == 0);
    for (size_t i = strlen(prefix); i < text.n; i++) {
        assert_true(text.p[i] >= '0' && text.p[i] <= '9');
        number = 10 * number + (size_t)(text.p[i] - '0');
    }
    assert_true(number < READ_TEXTS);
    return number;
}

static void read_fork(read_world *world, size_t from, size_t to)
{
    char of[16];
    char key[16];
    char app[16];
    char user[16];
    const int64_t last = ht_info(world->store, read_key(from, of)).next_seq - 1;
    const int64_t first = ht_info(world->store, of).first_seq;
    quipu_session_new values;
    quipu_error err = {0};

    if (last < first || world->sessions[to].there) {
        return;
    }
    values = read_values(world, to, key, app, user);
    T_OK(quipu_session_fork(world->store, quipu_cstr(of),
                            first + (int64_t)read_below(world, (size_t)(last - first + 1)), &values,
                            NULL, NULL, &err));
}

/* A summary of what is there, a text like others; sometimes without what it covers then. */
static void read_compact(read_world *world, const char *key)
{
    const quipu_session_info info = ht_info(world->store, key);
    char text[32];
    quipu_error err = {0};

    if (info.next_seq <= info.first_seq) {
        return;
    }
    (void)snprintf(text, sizeof(text), "apple n%d", world->said++);
    if (quipu_session_compact(world->store, quipu_cstr(key),
                              T_COMPACT(info.next_seq - 1, quipu_cstr(text)), NULL, NULL,
                              &err) == QUIPU_OK &&
        read_below(world, 2) == 0) {
        T_OK(quipu_session_prune(world->store, quipu_cstr(key), NULL, NULL, &err));
    }
}

static void read_step(read_world *world)
{
    const size_t i = read_below(world, READ_KEYS);
    read_session *session = &world->sessions[i];
    char key[16];
    char app[16];
    char user[16];
    quipu_error err = {0};

    (void)read_key(i, key);
    if (!session->there) {
        const quipu_session_new values = read_values(world, i, key, app, user);

        T_OK(quipu_session_create(world->store, &values, NULL, NULL, &err));
        return;
    }
    switch (read_below(world, 12)) {
    case 0:
        read_compact(world, key);
        break;
    case 1:
        T_OK(quipu_session_delete(world->store, quipu_cstr(key), NULL, NULL, NULL, &err));
        session->there = false;
        break;
    case 2:
    case 3:
    case 4:
        read_fork(world, i, read_below(world, READ_KEYS));
        break;
    default:
        read_say(world, key);
        read_say(world, key);
        break;
    }
}

/* Counts the texts that sessions of a scope show: each once, however many of them do. */
static size_t read_shown(read_world *world, int app, int user, bool shown[READ_TEXTS])
{
    size_t count = 0;

    memset(shown, 0, READ_TEXTS * sizeof(*shown));
    for (size_t i = 0; i < READ_KEYS; i++) {
        const read_session *session = &world->sessions[i];
        quipu_history *history;
        char key[16];

        if (!session->there || session->app != app || (user >= 0 && session->user != user)) {
            continue;
        }
        history = st_get(world->store, read_key(i, key), NULL);
        for (size_t k = 0; k < history->messages.count; k++) {
            const quipu_str text = quipu_message_at(history->messages, k)->content;
            const size_t number = read_number(text, "apple n");

            count += !shown[number];
            shown[number] = true;
        }
        quipu_free(history);
    }
    return count;
}

/* A hit's text is that of its message in a session of the scope, and no other hit has it. */
static void read_check_hit(read_world *world, int app, int user, const quipu_recall_hit *hit,
                           bool shown[READ_TEXTS])
{
    const read_session *session = &world->sessions[read_number(hit->session_key, "k")];
    const size_t number = read_number(hit->content, "apple n");
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history;

    assert_true(session->there && session->app == app && (user < 0 || session->user == user));
    assert_true(shown[number]);
    shown[number] = false;
    range.after_seq = hit->seq - 1;
    range.limit = 1;
    history = st_get(world->store, hit->session_key.p, &range);
    assert_int_equal(quipu_message_at(history->messages, 0)->seq, hit->seq);
    assert_true(quipu_str_eq(quipu_message_at(history->messages, 0)->content, hit->content));
    quipu_free(history);
}

static void read_check(read_world *world, int app, int user)
{
    static bool shown[READ_TEXTS];
    const size_t count = read_shown(world, app, user, shown);
    quipu_search_options query = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *found = NULL;
    quipu_recall_results *results;
    quipu_recall_options options;
    quipu_error err = {0};
    char app_name[16];
    char user_id[16];

    (void)snprintf(app_name, sizeof(app_name), "app%d", app);
    (void)snprintf(user_id, sizeof(user_id), "user%d", user);
    options = recall_user(app_name, user >= 0 ? user_id : NULL, "apples");
    options.limit = QUIPU_RECALL_LIMIT_MAX;
    results = recall_with(world->store, &options);
    assert_int_equal(results->hits.count, count);
    for (size_t i = 0; i < count; i++) {
        read_check_hit(world, app, user, quipu_recall_hit_at(results->hits, i), shown);
    }
    quipu_free(results);
    query.query = QUIPU_STR("apple");
    query.app_name = options.app_name;
    query.user_id = options.user_id;
    query.limit = QUIPU_SEARCH_LIMIT_MAX;
    T_OK(quipu_search(world->store, &query, NULL, &found, &err));
    assert_int_equal(found->hits.count, count);
    quipu_free(found);
}

static void each_text_of_a_scope_is_found_once_and_no_other(void **state)
{
    read_world *world = calloc(1, sizeof(*world));
    const int rounds = t_long() ? 20 : 2;

    assert_non_null(world);
    world->random = t_seed();
    world->store = *state;
    for (int round = 0; round < rounds; round++) {
        for (int step = 0; step < READ_STEPS; step++) {
            read_step(world);
            if (step % 20 == 19) {
                for (int app = 0; app < READ_APPS; app++) {
                    for (int user = -1; user < READ_USERS; user++) {
                        read_check(world, app, user);
                    }
                }
            }
        }
        for (size_t i = 0; i < READ_KEYS; i++) {
            char key[16];

            if (world->sessions[i].there) {
                ht_delete(world->store, read_key(i, key));
                world->sessions[i].there = false;
            }
        }
        world->said = 0;
    }
    mt_clean(world->store);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(each_text_of_a_scope_is_found_once_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
