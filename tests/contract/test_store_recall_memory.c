/* Recall with QUIPU_RECALL_MEMORIES: which observations and reflections a question finds beside the
 * messages, in which scope, and what stays out. On every engine, and behind a server. */
#include <quipu/maintain.h>

#include "contract/history_t.h"
#include "contract/recall_t.h"
#include "lib/short.h"

#include "base/time.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static quipu_recall_options with_memories(quipu_recall_options options)
{
    options.flags |= QUIPU_RECALL_MEMORIES;
    return options;
}

static quipu_memory known_of(const char *key, const char *text)
{
    return (quipu_memory){.kind = QUIPU_OBSERVATION,
                          .session_key = quipu_cstr(key),
                          .content = quipu_cstr(text),
                          .token_count = 7};
}

static quipu_uuid known_save(quipu_store *store, const quipu_memory *memory)
{
    quipu_uuid id = {{0}};
    quipu_error err = {0};

    if (t_memory_save(store, memory, NULL, &id, &err) != QUIPU_OK) {
        fail_msg("save: %s", err.message);
    }
    return id;
}

static quipu_uuid known(quipu_store *store, const char *key, const char *text)
{
    const quipu_memory memory = known_of(key, text);

    return known_save(store, &memory);
}

/* Made of messages `from` to `to`. */
static quipu_uuid known_from(quipu_store *store, const char *key, const char *text, int64_t from,
                             int64_t to)
{
    quipu_memory memory = known_of(key, text);

    memory.source_start = from;
    memory.source_end = to;
    return known_save(store, &memory);
}

/* The hits, best first: "key:3" for a message, "key=text" for a memory, a blank behind each. */
static const char *found(quipu_store *store, quipu_recall_options options)
{
    static char text[65536];
    quipu_recall_results *results;
    size_t n = 0;

    options = with_memories(options);
    results = recall_with(store, &options);
    text[0] = '\0';
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        n += (size_t)(hit->memory != NULL ? snprintf(text + n, sizeof(text) - n, "%.*s=%.*s ",
                                                     (int)hit->session_key.n, hit->session_key.p,
                                                     (int)hit->content.n, hit->content.p)
                                          : snprintf(text + n, sizeof(text) - n, "%.*s:%lld ",
                                                     (int)hit->session_key.n, hit->session_key.p,
                                                     (long long)hit->seq));
        assert_true(n < sizeof(text));
    }
    quipu_free(results);
    return text;
}

static quipu_time time_of(const char *text)
{
    quipu_time time;

    T_OK(quipu_time_parse(quipu_cstr(text), &time));
    return time;
}

/* ---- hits ------------------------------------------------------------------------------------ */

static void memories_are_found_when_they_are_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_memory reflection = known_of("a", "all apples of the autumn");

    st_create(store, "a");
    st_append(store, "a", "an apple a day");
    st_append(store, "a", "nothing else");
    st_append(store, "a", "nor here");
    st_append(store, "a", "nor there");
    (void)known(store, "a", "likes green apples");
    reflection.kind = QUIPU_REFLECTION;
    (void)known_save(store, &reflection);
    assert_string_equal(recalled(store, recall_session("a", "green apples in autumn")),
                        "a:1 a:2 a:3 ");
    assert_null(strstr(recalled(store, recall_session("a", "green")), "green"));
    assert_string_equal(found(store, recall_session("a", "green")), "a=likes green apples ");
    assert_string_equal(found(store, recall_session("a", "autumn")), "a=all apples of the autumn ");
    assert_non_null(strstr(found(store, recall_session("a", "apple")), "a:1 "));
    assert_non_null(strstr(found(store, recall_session("a", "apple")), "a=likes green apples "));
    assert_string_equal(found(store, recall_session("a", "zebra")), "");
}

static void a_hit_says_what_it_is_and_both_times(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = with_memories(recall_session("a", "train to Cusco"));
    quipu_memory memory = known_of("a", "The train to Cusco leaves at nine.");
    quipu_recall_results *results;
    const quipu_recall_hit *hit;

    st_create(store, "a");
    st_append(store, "a", "one");
    memory.source_start = 1;
    memory.source_end = 1;
    memory.subject = QUIPU_STR("Ana");
    memory.has_said_at = memory.has_about_from = memory.has_about_to = true;
    memory.said_at = time_of("2023-05-08T10:00:00Z");
    memory.about_from = time_of("2023-05-09T00:00:00Z");
    memory.about_to = time_of("2023-05-09T23:59:59Z");
    memory.id = known_save(store, &memory);
    results = recall_with(store, &options);
    assert_int_equal(results->hits.count, 1);
    assert_int_equal(results->memories, 1);
    assert_int_equal(results->messages, 1);
    hit = quipu_recall_hit_at(results->hits, 0);
    assert_non_null(hit->memory);
    assert_int_equal(hit->memory->kind, QUIPU_OBSERVATION);
    assert_memory_equal(hit->memory->id.b, memory.id.b, sizeof(memory.id.b));
    assert_int_equal(hit->memory->source_start, 1);
    assert_int_equal(hit->memory->source_end, 1);
    T_STR(hit->memory->subject, "Ana");
    assert_true(hit->memory->has_about_from && hit->memory->has_about_to);
    assert_int_equal(quipu_time_cmp(hit->memory->about_from, memory.about_from), 0);
    assert_int_equal(quipu_time_cmp(hit->memory->about_to, memory.about_to), 0);
    assert_int_equal(quipu_time_cmp(hit->timestamp, memory.said_at), 0);
    T_STR(hit->session_key, "a");
    T_STR(hit->content, "The train to Cusco leaves at nine.");
    assert_int_equal(hit->tokens, 7);
    assert_true(hit->seq == 0 && hit->role == 0 && hit->event_id.p == NULL &&
                hit->author.p == NULL);
    assert_true(hit->score > 0 && hit->from_neighbours == 0);
    quipu_free(results);
}

/* Equal words weigh the same in a message and in a memory, but for what only a message has. */
static void scores_are_comparable_and_add_up(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = with_memories(recall_session("a", "green apple"));
    quipu_recall_results *results;
    double of_message = 0;
    double of_memory = 0;
    double last = 1e9;

    st_create(store, "a");
    st_append(store, "a", "apple pie, green apple pie");
    (void)known(store, "a", "pie: apple, green apple pie");
    (void)known(store, "a", "a green house");
    results = recall_with(store, &options);
    assert_int_equal(results->hits.count, 3);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        const double sum =
            hit->from_words + hit->from_neighbours + hit->from_session + hit->from_vector;

        assert_true(hit->score <= last && hit->score > 0);
        assert_true(hit->score - sum < 1e-12 && sum - hit->score < 1e-12);
        assert_true(hit->from_session > 0);
        last = hit->score;
        if (hit->memory == NULL) {
            of_message = hit->from_words;
        } else if (hit->content.p[0] == 'p') {
            of_memory = hit->from_words;
        }
    }
    assert_true(of_memory > 0 && of_memory == of_message);
    quipu_free(results);
}

static void a_day_that_a_question_names_counts_for_both_times(void **state)
{
    static const struct {
        const char *question;
        const char *first;
    } cases[] = {{"the meeting on 8 May 2023", "a=one meeting "},
                 {"the meeting in July 2023", "a=two meetings "},
                 {"the meeting of 2023-08-02", "a=two meetings "},
                 {"the meeting in September 2023", "a=meetings, three "}};
    quipu_store *store = *state;
    quipu_memory memory = known_of("a", "one meeting");

    st_create(store, "a");
    memory.has_said_at = true;
    memory.said_at = time_of("2023-05-08T10:00:00Z");
    (void)known_save(store, &memory);
    memory.content = QUIPU_STR("two meetings");
    memory.said_at = time_of("2023-06-08T10:00:00Z");
    memory.has_about_from = memory.has_about_to = true;
    memory.about_from = time_of("2023-07-31T00:00:00Z");
    memory.about_to = time_of("2023-08-02T23:59:59Z");
    (void)known_save(store, &memory);
    memory = known_of("a", "meetings, three");
    memory.has_about_from = true;
    memory.about_from = time_of("2023-09-01T00:00:00Z");
    (void)known_save(store, &memory);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *hits = found(store, recall_session("a", cases[i].question));

        if (strncmp(hits, cases[i].first, strlen(cases[i].first)) != 0) {
            fail_msg("%s: %s", cases[i].question, hits);
        }
    }
}

static void the_subject_counts_as_an_author_does(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = known_of("a", "painted a sunrise");

    st_create(store, "a");
    memory.subject = QUIPU_STR("Melanie");
    (void)known_save(store, &memory);
    memory.content = QUIPU_STR("painted a sunset");
    memory.subject = QUIPU_STR("Caroline");
    (void)known_save(store, &memory);
    assert_string_equal(found(store, recall_session("a", "What did Caroline paint?")),
                        "a=painted a sunset a=painted a sunrise ");
    assert_string_equal(found(store, recall_session("a", "What did Melanie paint?")),
                        "a=painted a sunrise a=painted a sunset ");
}

static void what_is_left_of_pruned_messages_is_found(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "a");
    st_append(store, "a", "the code word is heliotrope");
    st_append(store, "a", "very well");
    (void)known_from(store, "a", "code word: heliotrope", 1, 1);
    T_OK(quipu_session_compact(store, QUIPU_STR("a"), T_COMPACT(2, QUIPU_STR("a talk")), NULL, NULL,
                               &err));
    T_OK(quipu_session_prune(store, QUIPU_STR("a"), NULL, NULL, &err));
    assert_string_equal(found(store, recall_session("a", "heliotrope")),
                        "a=code word: heliotrope ");
}

static void a_budget_takes_whole_memories(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple");
    quipu_memory memory = known_of("a", "apple");

    st_create(store, "a");
    (void)known_save(store, &memory);
    memory.content = QUIPU_STR("apple and pear and a great many other things");
    memory.token_count = 0; /* its tokens are estimated */
    (void)known_save(store, &memory);
    options.budget = 6;
    assert_string_equal(found(store, options), "");
    options.budget = 7;
    assert_string_equal(found(store, options), "a=apple ");
    options.budget = 8;
    assert_string_equal(found(store, options), "a=apple ");
    options.budget = 1000;
    assert_string_equal(found(store, options),
                        "a=apple a=apple and pear and a great many other things ");
    options.limit = 1;
    assert_string_equal(found(store, options), "a=apple ");
}

/* ---- duplicates ------------------------------------------------------------------------------ */

/* The memory stays, at the place of the message: it has the time that it is about. */
static void a_message_that_a_memory_says_again_gives_it_its_place(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = with_memories(recall_session("a", "I prefer window seats"));
    quipu_recall_results *results;

    st_create(store, "a");
    st_append(store, "a", "I prefer window seats.");
    st_append(store, "a", "Which seats, please?");
    (void)known_from(store, "a", "i prefer  window seats", 1, 1);
    results = recall_with(store, &options);
    assert_int_equal(results->hits.count, 2);
    assert_non_null(quipu_recall_hit_at(results->hits, 0)->memory);
    T_STR(quipu_recall_hit_at(results->hits, 0)->content, "i prefer  window seats");
    assert_int_equal(quipu_recall_hit_at(results->hits, 0)->memory->source_start, 1);
    /* It has the message's score, which its neighbour raised. */
    assert_true(quipu_recall_hit_at(results->hits, 0)->from_neighbours > 0);
    assert_int_equal(quipu_recall_hit_at(results->hits, 1)->seq, 2);
    quipu_free(results);
    assert_string_equal(recalled(store, recall_session("a", "I prefer window seats")), "a:1 a:2 ");
}

static void memories_that_say_the_same_are_found_once(void **state)
{
    quipu_store *store = *state;

    recall_create(store, "a", "app", "ana");
    recall_create(store, "b", "app", "ana");
    (void)known(store, "a", "Likes apples.");
    (void)known(store, "b", "likes  apples");
    (void)known(store, "b", "likes apples and pears");
    assert_string_equal(found(store, recall_user("app", "ana", "apples")),
                        "a=Likes apples. b=likes apples and pears ");
    assert_string_equal(found(store, recall_session("b", "apples")),
                        "b=likes  apples b=likes apples and pears ");
}

/* ---- what stays out -------------------------------------------------------------------------- */

static void what_is_superseded_or_retired_stays_out(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = known_of("a", "lives in Lima, near the sea");
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error err = {0};

    st_create(store, "a");
    memory.supersedes = known_save(store, &memory);
    memory.has_supersedes = true;
    memory.content = QUIPU_STR("lives in Cusco now");
    patch.id = known_save(store, &memory);
    assert_string_equal(found(store, recall_session("a", "Who lives in Lima or Cusco?")),
                        "a=lives in Cusco now ");
    patch.kind = QUIPU_OBSERVATION;
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, &err));
    assert_string_equal(found(store, recall_session("a", "Who lives in Lima or Cusco?")), "");
}

static void an_edited_memory_is_found_by_its_new_words(void **state)
{
    quipu_store *store = *state;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error err = {0};

    st_create(store, "a");
    patch.id = known(store, "a", "likes apples");
    patch.kind = QUIPU_OBSERVATION;
    patch.set = QUIPU_MEMORY_SET_CONTENT;
    patch.content = QUIPU_STR("likes pears");
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, &err));
    assert_string_equal(found(store, recall_session("a", "apples")), "");
    assert_string_equal(found(store, recall_session("a", "pears")), "a=likes pears ");
}

static void what_is_made_in_advance_stays_out(void **state)
{
    quipu_store *store = *state;
    quipu_memory memory = known_of("a", "likes apples");

    st_create(store, "a");
    memory.state = QUIPU_MEMORY_STATE_BUFFERED;
    (void)known_save(store, &memory);
    assert_string_equal(found(store, recall_session("a", "apples")), "");
}

static void what_is_forgotten_never_comes_back(void **state)
{
    quipu_store *store = *state;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_uuid id;
    quipu_error err = {0};

    st_create(store, "a");
    st_append(store, "a", "one");
    st_append(store, "a", "two");
    id = known_from(store, "a", "apple of the first", 1, 1);
    (void)known_from(store, "a", "the second apple", 2, 2);
    (void)known(store, "a", "apple, third");
    query.kind = QUIPU_OBSERVATION;
    query.ids = &id;
    query.id_count = 1;
    T_OK(quipu_memory_delete(store, &query, NULL, NULL, &err));
    assert_null(strstr(found(store, recall_session("a", "apple")), "first"));
    query = (quipu_memory_query)QUIPU_MEMORY_QUERY_INIT;
    query.kind = QUIPU_OBSERVATION;
    query.session_key = QUIPU_STR("a");
    query.from_seq = 2;
    T_OK(quipu_memory_delete(store, &query, NULL, NULL, &err));
    assert_string_equal(found(store, recall_session("a", "apple")), "a=apple, third ");
    ht_delete(store, "a");
    assert_string_equal(found(store, recall_everything("apple")), "");
}

static void what_is_erased_never_comes_back(void **state)
{
    T_NOT_SERVED("a server does not erase");
    quipu_store *store = *state;
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};

    recall_create(store, "a", "app", "ana");
    recall_create(store, "b", "app", "bob");
    (void)known(store, "a", "apple of ana");
    (void)known(store, "b", "apple of bob");
    options.user_id = QUIPU_STR("ana");
    T_OK(quipu_erase(store, &options, NULL, &erasure, &err));
    quipu_free(erasure);
    assert_string_equal(found(store, recall_everything("apple")), "b=apple of bob ");
}

static void an_expired_session_has_no_memories(void **state)
{
    T_NOT_SERVED("a server has a clock of its own");
    quipu_store *store = *state;
    quipu_session_new values = st_values("a");
    quipu_error err = {0};

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ana");
    values.ttl_ms = 1000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    (void)known(store, "a", "likes apples");
    assert_string_equal(found(store, recall_user("app", "ana", "apples")), "a=likes apples ");
    qp_time_step(3600000);
    assert_string_equal(found(store, recall_user("app", "ana", "apples")), "");
    qp_time_step(-3600000);
}

/* ---- scope ----------------------------------------------------------------------------------- */

static void nobody_sees_what_is_known_of_another_user(void **state)
{
    quipu_store *store = *state;

    recall_create(store, "a", "app", "ana");
    recall_create(store, "a2", "app", "ana");
    recall_create(store, "b", "app", "bob");
    recall_create(store, "c", "other", "ana");
    st_create(store, "plain");
    (void)known(store, "a", "the secret of ana");
    (void)known(store, "b", "the secret of bob");
    (void)known(store, "c", "the secret of the other app");
    (void)known(store, "plain", "the secret of nobody");
    /* Of keys that no session has, one in the form of the user's scope. */
    (void)known(store, "adk:app/ana/", "the secret of a key");
    (void)known(store, "nothing", "the secret of nothing");
    assert_string_equal(found(store, recall_user("app", "ana", "secret")), "a=the secret of ana ");
    assert_string_equal(found(store, recall_user("app", "bob", "secret")), "b=the secret of bob ");
    assert_string_equal(found(store, recall_user("app", NULL, "secret")),
                        "a=the secret of ana b=the secret of bob ");
    assert_string_equal(found(store, recall_user("other", "ana", "secret")),
                        "c=the secret of the other app ");
    assert_string_equal(found(store, recall_user("app", "eve", "secret")), "");
    assert_string_equal(found(store, recall_user("", NULL, "secret")),
                        "plain=the secret of nobody ");
    assert_string_equal(found(store, recall_session("a", "secret")), "a=the secret of ana ");
    assert_string_equal(found(store, recall_session("a2", "secret")), "");
    assert_non_null(strstr(found(store, recall_everything("secret")), "c=the secret"));
    assert_null(strstr(found(store, recall_everything("secret")), "of nothing"));
}

static void nobody_sees_what_is_known_of_another_tenant(void **state)
{
    T_NOT_SERVED("a server has one tenant");
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *one = st_open_new(NULL, path);
    quipu_store *two = NULL;

    (void)state;
    options.tenant = QUIPU_STR("two");
    T_OK(quipu_open(path, &options, &two, NULL));
    recall_create(one, "a", "app", "ana");
    recall_create(two, "a", "app", "ana");
    (void)known(one, "a", "the secret of one");
    (void)known(two, "a", "the secret of two");
    assert_string_equal(found(one, recall_everything("secret")), "a=the secret of one ");
    assert_string_equal(found(two, recall_everything("secret")), "a=the secret of two ");
    assert_string_equal(found(two, recall_session("a", "secret")), "a=the secret of two ");
    assert_string_equal(found(two, recall_user("app", "ana", "secret")), "a=the secret of two ");
    quipu_close(two);
    quipu_close(one);
}

static void fork_for(quipu_store *store, const char *key, int64_t seq, const char *new_key,
                     const char *user)
{
    quipu_session_new values = st_values(new_key);
    quipu_error err = {0};

    values.app_name = QUIPU_STR("app");
    values.user_id = quipu_cstr(user);
    values.ttl_ms = 1000000000;
    T_OK(quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, &err));
}

/* What was made of messages that a fork shares, of the same user, is in its scope; what has another
 * source is not. */
static void the_scope_of_a_fork_has_what_is_known_of_what_it_shares(void **state)
{
    quipu_store *store = *state;

    recall_create(store, "parent", "app", "ana");
    st_append(store, "parent", "one");
    st_append(store, "parent", "two");
    st_append(store, "parent", "three");
    fork_for(store, "parent", 2, "fork", "ana");
    fork_for(store, "parent", 2, "foreign", "bob");
    fork_for(store, "fork", 2, "below", "ana");
    st_append(store, "fork", "another three");
    (void)known_from(store, "parent", "apple of both", 1, 2);
    (void)known_from(store, "parent", "apple of the parent alone", 2, 3);
    (void)known(store, "parent", "apple of no message");
    (void)known_from(store, "fork", "apple of the fork", 3, 3);
    assert_string_equal(found(store, recall_session("fork", "apple")),
                        "fork=apple of the fork parent=apple of both ");
    assert_string_equal(found(store, recall_session("below", "apple")), "parent=apple of both ");
    assert_string_equal(found(store, recall_session("foreign", "apple")), "");
    assert_string_equal(found(store, recall_user("app", "bob", "apple")), "");
    /* Among all sessions of the user each is found once, as that of the session that it names. */
    assert_string_equal(found(store, recall_user("app", "ana", "apple")),
                        "fork=apple of the fork parent=apple of both "
                        "parent=apple of no message parent=apple of the parent alone ");
    ht_delete(store, "parent");
    assert_string_equal(found(store, recall_session("fork", "apple")), "fork=apple of the fork ");
}

/* Who forgets in a fork corrects the fork: its parent goes on knowing it. */
static void what_a_fork_has_forgotten_does_not_come_back_from_its_parent(void **state)
{
    quipu_store *store = *state;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_error err = {0};

    recall_create(store, "parent", "app", "ana");
    for (int i = 0; i < 4; i++) {
        st_append(store, "parent", "nothing");
    }
    fork_for(store, "parent", 4, "fork", "ana");
    fork_for(store, "fork", 4, "below", "ana");
    (void)known_from(store, "parent", "first apple", 1, 1);
    (void)known_from(store, "parent", "apple of 2 and 3", 2, 3);
    (void)known_from(store, "parent", "apple of the fourth", 4, 4);
    query.kind = QUIPU_OBSERVATION;
    query.session_key = QUIPU_STR("fork");
    query.from_seq = 1;
    query.to_seq = 2;
    T_OK(quipu_memory_delete(store, &query, NULL, NULL, &err));
    fork_for(store, "fork", 4, "later", "ana");
    assert_string_equal(found(store, recall_session("fork", "apple")),
                        "parent=apple of the fourth ");
    assert_string_equal(found(store, recall_session("below", "apple")),
                        "parent=apple of the fourth ");
    assert_string_equal(found(store, recall_session("later", "apple")),
                        "parent=apple of the fourth ");
    assert_non_null(strstr(found(store, recall_session("parent", "apple")), "first apple"));
}

/* The holder has expired: its messages are found for the fork, and so is what was made of them. */
static void a_fork_of_an_expired_session_keeps_what_it_shares(void **state)
{
    T_NOT_SERVED("a server has a clock of its own");
    quipu_store *store = *state;
    quipu_session_new values = st_values("parent");
    quipu_error err = {0};

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ana");
    values.ttl_ms = 1000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append(store, "parent", "an apple");
    st_append(store, "parent", "two");
    fork_for(store, "parent", 1, "fork", "ana");
    (void)known_from(store, "parent", "likes apples", 1, 1);
    (void)known_from(store, "parent", "apples of the second", 2, 2);
    qp_time_step(3600000);
    assert_string_equal(found(store, recall_user("app", "ana", "apple")),
                        "fork:1 parent=likes apples ");
    qp_time_step(-3600000);
}

static void a_range_of_messages_has_what_was_made_of_them(void **state)
{
    quipu_store *store = *state;
    quipu_recall_options options = recall_session("a", "apple");

    st_create(store, "a");
    for (int i = 0; i < 4; i++) {
        st_append(store, "a", "nothing");
    }
    (void)known_from(store, "a", "apple of 1", 1, 1);
    (void)known_from(store, "a", "apple of 2 and 3", 2, 3);
    (void)known_from(store, "a", "apple of 4", 4, 4);
    (void)known(store, "a", "apple of none");
    options.before_seq = 3;
    assert_string_equal(found(store, options), "a=apple of 1 ");
    options.before_seq = 4;
    options.from_seq = 2;
    assert_string_equal(found(store, options), "a=apple of 2 and 3 ");
    options.before_seq = 0;
    options.from_seq = 3;
    assert_string_equal(found(store, options), "a=apple of 4 ");
    options.before_seq = 1;
    options.from_seq = 0;
    assert_string_equal(found(store, options), "");
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The newest of a scope, of both kinds and all sessions together. */
static void as_many_memories_are_looked_at_as_the_limit_says(void **state)
{
    T_NOT_SERVED("the limit is the library's, behind a server too");
    quipu_store *store = *state;
    quipu_recall_options options = with_memories(recall_user("app", "ana", "zebra"));
    quipu_memory memory = known_of("a", "the zebra");
    quipu_recall_results *results;
    char text[32];

    recall_create(store, "a", "app", "ana");
    recall_create(store, "b", "app", "ana");
    (void)known_save(store, &memory);
    for (int i = 1; i < QUIPU_RECALL_MEMORIES_MAX; i++) {
        (void)snprintf(text, sizeof(text), "fact number %d", i);
        memory = known_of(i % 2 == 0 ? "a" : "b", text);
        memory.kind = i % 3 == 0 ? QUIPU_REFLECTION : QUIPU_OBSERVATION;
        (void)known_save(store, &memory);
    }
    assert_string_equal(found(store, options), "a=the zebra ");
    (void)known(store, "b", "one more");
    results = recall_with(store, &options);
    assert_int_equal(results->memories, QUIPU_RECALL_MEMORIES_MAX);
    assert_int_equal(results->hits.count, 0);
    quipu_free(results);
    /* In the scope of one session the limit counts for itself. */
    assert_string_equal(found(store, recall_session("a", "zebra")), "a=the zebra ");
}

/* The sessions of a scope are read some at a time: all of them are. */
static void memories_of_many_sessions_are_found(void **state)
{
    T_NOT_SERVED("it needs no server");
    quipu_store *store = *state;
    quipu_recall_options options = recall_user("app", "ana", "apple");
    char key[16];
    char text[32];

    options.limit = QUIPU_RECALL_LIMIT_MAX;
    for (int i = 0; i < 520; i++) {
        (void)snprintf(key, sizeof(key), "s%03d", i);
        recall_create(store, key, "app", "ana");
        if (i % 130 == 0 || i == 519 || (i >= 255 && i <= 257)) {
            (void)snprintf(text, sizeof(text), "apple %d", i);
            (void)known(store, key, text);
        }
    }
    assert_string_equal(found(store, options),
                        "s000=apple 0 s130=apple 130 s255=apple 255 s256=apple 256 s257=apple 257 "
                        "s260=apple 260 s390=apple 390 s519=apple 519 ");
}

/* ---- bad input ------------------------------------------------------------------------------- */

static void any_text_is_a_question(void **state)
{
    T_NOT_SERVED("a server takes texts that are UTF-8");
    static const char *const questions[] = {
        "",      " \t\n",        "?!*\"",  "\"apple",   "apple*",         "NEAR(apple)",
        "a AND", "apple OR pie", "-apple", "col:apple", "\xff\xfe apple", "苹果 apple яблоко"};
    quipu_store *store = *state;
    quipu_recall_options options = recall_everything("apple");
    quipu_recall_results *results = NULL;
    quipu_error err = {0};

    st_create(store, "a");
    (void)known(store, "a", "an apple, ' OR 1=1; --");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        assert_string_equal(found(store, recall_everything(questions[i])),
                            strstr(questions[i], "apple") != NULL ? "a=an apple, ' OR 1=1; -- "
                                                                  : "");
    }
    options.flags |= 4;
    T_STATUS(quipu_recall(store, &options, NULL, &results, &err), QUIPU_MISUSE);
    options.flags = QUIPU_RECALL_MEMORIES; /* it is no scope */
    T_STATUS(quipu_recall(store, &options, NULL, &results, &err), QUIPU_MISUSE);
}

/* ---- engines --------------------------------------------------------------------------------- */

#define RANDOM_SESSIONS 12

/* A text of some of a few words, drawn anew. */
static void random_text(uint64_t *seed, size_t most, char text[256])
{
    static const char *const words[] = {"apple",  "pear", "running", "runs",   "Cusco", "train",
                                        "ticket", "北京", "大学",    "한글",   "café",  "the",
                                        "when",   "may",  "2023",    "meeting"};
    size_t n = 0;

    for (uint64_t left = 1 + t_random_below(seed, most); left > 0; left--) {
        n += (size_t)snprintf(text + n, 256 - n, "%s ",
                              words[t_random_below(seed, sizeof(words) / sizeof(words[0]))]);
    }
}

static void random_fill(quipu_store *store, uint64_t seed)
{
    char text[256];
    char key[16];

    for (int i = 0; i < RANDOM_SESSIONS; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i);
        recall_create(store, key, "app", "u");
    }
    for (int i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof(key), "s%d", (int)t_random_below(&seed, RANDOM_SESSIONS));
        random_text(&seed, 12, text);
        if (i % 2 == 0) {
            recall_say(store, key, i % 3 == 0 ? "ana" : "bob",
                       i % 4 == 0 ? "2023-05-08T10:00:00Z" : "2022-01-01T00:00:00Z", text);
        } else {
            quipu_memory memory = known_of(key, text);

            memory.kind = i % 3 == 0 ? QUIPU_REFLECTION : QUIPU_OBSERVATION;
            memory.subject = i % 5 == 0 ? QUIPU_STR("Cusco") : (quipu_str){NULL, 0};
            memory.has_about_from = i % 7 == 0;
            memory.about_from = time_of("2023-05-09T00:00:00Z");
            (void)known_save(store, &memory);
        }
    }
}

static void every_engine_returns_the_same_hits(void **state)
{
    quipu_store *store = *state;
    quipu_store *file = NULL;
    quipu_error err = {0};
    uint64_t seed = t_seed();
    char text[256];

    T_OK(quipu_open(":memory:", NULL, &file, &err));
    random_fill(store, seed);
    random_fill(file, seed);
    for (int i = 0; i < 40; i++) {
        quipu_recall_options options = with_memories(recall_user("app", "u", text));
        quipu_recall_results *ours;
        quipu_recall_results *theirs;

        random_text(&seed, 5, text);
        options.question = quipu_cstr(text);
        options.limit = QUIPU_RECALL_LIMIT_MAX;
        ours = recall_with(store, &options);
        theirs = recall_with(file, &options);
        recall_same(ours, theirs);
        quipu_free(ours);
        quipu_free(theirs);
    }
    quipu_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(memories_are_found_when_they_are_asked_for),
        ST_TEST(a_hit_says_what_it_is_and_both_times),
        ST_TEST(scores_are_comparable_and_add_up),
        ST_TEST(a_day_that_a_question_names_counts_for_both_times),
        ST_TEST(the_subject_counts_as_an_author_does),
        ST_TEST(what_is_left_of_pruned_messages_is_found),
        ST_TEST(a_budget_takes_whole_memories),
        ST_TEST(a_message_that_a_memory_says_again_gives_it_its_place),
        ST_TEST(memories_that_say_the_same_are_found_once),
        ST_TEST(what_is_superseded_or_retired_stays_out),
        ST_TEST(an_edited_memory_is_found_by_its_new_words),
        ST_TEST(what_is_made_in_advance_stays_out),
        ST_TEST(what_is_forgotten_never_comes_back),
        ST_TEST(what_is_erased_never_comes_back),
        ST_TEST(an_expired_session_has_no_memories),
        ST_TEST(nobody_sees_what_is_known_of_another_user),
        cmocka_unit_test(nobody_sees_what_is_known_of_another_tenant),
        ST_TEST(the_scope_of_a_fork_has_what_is_known_of_what_it_shares),
        ST_TEST(what_a_fork_has_forgotten_does_not_come_back_from_its_parent),
        ST_TEST(a_fork_of_an_expired_session_keeps_what_it_shares),
        ST_TEST(a_range_of_messages_has_what_was_made_of_them),
        ST_TEST(as_many_memories_are_looked_at_as_the_limit_says),
        ST_TEST(memories_of_many_sessions_are_found),
        ST_TEST(any_text_is_a_question),
        ST_TEST(every_engine_returns_the_same_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
