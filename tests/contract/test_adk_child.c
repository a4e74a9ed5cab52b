/* Child sessions: apart from their parents until merged or discarded, each in one transaction. */
#include "contract/adk_t.h"
#include "lib/short.h"

static quipu_live *spawn(quipu_live *parent, const char *agent, int64_t inherit, int64_t max)
{
    quipu_child_options options = QUIPU_CHILD_OPTIONS_INIT;
    quipu_live *child = NULL;
    quipu_error err = {0};
    quipu_status status;

    options.inherit = inherit;
    options.max_messages = max;
    status = quipu_live_spawn(parent, quipu_cstr(agent), &options, NULL, &child, &err);
    if (status != QUIPU_OK) {
        fail_msg("spawn %s: %s", agent, err.message);
    }
    return child;
}

static quipu_live *parent_of_three(adk_world *world)
{
    quipu_live *parent = adk_create(world, "u", "p", NULL);

    adk_append(parent, adk_says(world, "p1", "user", "one", 1));
    adk_append(parent, adk_says(world, "p2", "root", "two", 2));
    adk_append(parent, adk_says(world, "p3", "user", "three", 3));
    return parent;
}

static void a_new_child_has_a_key_of_its_own_and_no_history(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 0, 0);
    quipu_session_ref ref;
    quipu_children list = quipu_children_of(NULL, 0);

    (void)state;
    T_OK(t_live_identity(child, &world->arena, &ref, NULL, NULL));
    assert_memory_equal(ref.session_id.p, "p:child:scout:", 14);
    assert_int_equal(t_live_event_count(child), 0);
    T_OK(quipu_live_find_children(parent, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 1);
    T_STR(quipu_child_at(list, 0)->agent, "scout");
    assert_false(quipu_child_at(list, 0)->merged);
    assert_true(quipu_str_eq(quipu_child_at(list, 0)->ref.session_id, ref.session_id));
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void children_are_listed_with_their_own_parent_only(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *other = adk_create(world, "u", "other", NULL);
    quipu_live *children[2] = {spawn(parent, "a", 0, 0), spawn(parent, "b", 0, 0)};
    quipu_children list = quipu_children_of(NULL, 0);

    (void)state;
    T_OK(quipu_live_find_children(parent, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 2);
    T_STR(quipu_child_at(list, 0)->agent, "a");
    T_STR(quipu_child_at(list, 1)->agent, "b");
    T_OK(quipu_live_find_children(other, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 0);
    quipu_live_free(children[0]);
    quipu_live_free(children[1]);
    quipu_live_free(other);
    quipu_live_free(parent);
    adk_close(world);
}

static void a_child_inherits_none_the_last_or_all(void **state)
{
    static const struct {
        int64_t inherit;
        size_t count;
    } cases[] = {{0, 0}, {2, 2}, {10, 3}, {-1, 3}};
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_live *child = spawn(parent, "a", cases[i].inherit, 0);

        assert_int_equal(t_live_event_count(child), cases[i].count);
        if (cases[i].count > 0) {
            assert_non_null(strstr(adk_event(world, child, cases[i].count - 1).p, "three"));
        }
        quipu_live_free(child);
    }
    quipu_live_free(parent);
    adk_close(world);
}

static void a_limit_keeps_the_last_of_its_own(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *limited = spawn(parent, "a", 1, 3);
    quipu_live *unlimited = spawn(parent, "b", 0, 0);
    char id[16];

    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof(id), "c%d", i);
        adk_append(limited, adk_says(world, id, "a", id, i));
        adk_append(unlimited, adk_says(world, id, "b", id, i));
    }
    assert_int_equal(t_live_event_count(limited), 4); /* one inherited */
    assert_non_null(strstr(adk_event(world, limited, 1).p, "c7"));
    assert_int_equal(t_live_event_count(unlimited), 10);
    quipu_live_free(limited);
    quipu_live_free(unlimited);
    quipu_live_free(parent);
    adk_close(world);
}

static void a_child_works_apart(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "a", -1, 0);

    (void)state;
    adk_append(child, adk_says(world, "c1", "a", "secret", 4));
    adk_append(parent, adk_says(world, "p4", "user", "four", 5)); /* nobody is stale */
    adk_append(child, adk_says(world, "c2", "a", "more", 6));
    T_OK(quipu_live_refresh(parent, NULL, NULL));
    assert_int_equal(t_live_event_count(parent), 4);
    assert_int_equal(t_live_event_count(child), 5);
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void merging_with_a_summary_adds_one_message_by_the_agent(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 0, 0);
    quipu_children list = quipu_children_of(NULL, 0);
    quipu_history *history;
    quipu_error err = {0};

    (void)state;
    adk_append(child, adk_says(world, "c1", "scout", "long", 4));
    T_OK(t_live_merge(parent, child, QUIPU_STR("short"), (quipu_str){NULL, 0}, NULL, &err));
    assert_int_equal(t_live_event_count(parent), 4);
    history = st_get(world->store, "adk:app/u/p", NULL);
    assert_int_equal(history->messages.count, 4);
    assert_int_equal(quipu_message_at(history->messages, 3)->role, QUIPU_ROLE_ASSISTANT);
    T_STR(quipu_message_at(history->messages, 3)->content, "short");
    T_STR(quipu_message_at(history->messages, 3)->author, "scout");
    quipu_free(history);
    T_STATUS(t_live_merge(parent, child, QUIPU_STR("x"), (quipu_str){NULL, 0}, NULL, &err),
             QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "already merged"));
    assert_int_equal(t_live_event_count(parent), 4);
    T_OK(quipu_live_find_children(parent, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 1);
    assert_true(quipu_child_at(list, 0)->merged);
    adk_append(parent, adk_says(world, "p4", "user", "on", 5));
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void merging_without_a_summary_adds_every_event(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 2, 0);

    (void)state;
    adk_append(child, adk_says(world, "c1", "scout", "a", 4));
    adk_append(child, adk_says(world, "c2", "scout", "b", 5));
    T_OK(t_live_merge(parent, child, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, NULL, NULL));
    assert_int_equal(t_live_event_count(parent), 5);
    adk_check_json(adk_event(world, parent, 4), adk_says(world, "c2", "scout", "b", 5));
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void a_merge_that_failed_can_be_repeated(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *other = adk_get(world, "u", "p", NULL);
    quipu_live *child = spawn(parent, "scout", 0, 0);
    quipu_children list = quipu_children_of(NULL, 0);
    quipu_error err = {0};

    (void)state;
    adk_append(other, adk_says(world, "p4", "user", "between", 4));
    T_STATUS(t_live_merge(parent, child, QUIPU_STR("sum"), QUIPU_STR("root"), NULL, &err),
             QUIPU_CONFLICT);
    T_OK(quipu_live_find_children(parent, NULL, &world->arena, &list, NULL));
    assert_false(quipu_child_at(list, 0)->merged);
    T_OK(quipu_live_refresh(parent, NULL, &err));
    T_OK(t_live_merge(parent, child, QUIPU_STR("sum"), QUIPU_STR("root"), NULL, &err));
    assert_int_equal(t_live_event_count(parent), 5);
    assert_non_null(strstr(adk_event(world, parent, 4).p, "\"author\":\"root\""));
    quipu_live_free(child);
    quipu_live_free(other);
    quipu_live_free(parent);
    adk_close(world);
}

static void a_child_outlives_its_live_session(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 2, 0);
    quipu_session_ref ref;
    quipu_error err = {0};

    (void)state;
    adk_append(child, adk_says(world, "c1", "scout", "found", 4));
    T_OK(t_live_identity(child, &world->arena, &ref, NULL, NULL));
    quipu_live_free(child);
    T_OK(quipu_service_get(world->service, &ref, NULL, NULL, &child, &err));
    assert_int_equal(t_live_event_count(child), 4); /* three of its parent's */
    T_OK(t_live_merge(parent, child, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, NULL, &err));
    assert_int_equal(t_live_event_count(parent), 4);
    assert_non_null(strstr(adk_event(world, parent, 3).p, "found"));
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void only_a_child_can_be_merged(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *other = adk_create(world, "u", "other", NULL);
    quipu_error err = {0};

    (void)state;
    T_STATUS(t_live_merge(parent, other, QUIPU_STR("x"), (quipu_str){NULL, 0}, NULL, &err),
             QUIPU_MISUSE);
    T_STATUS(t_live_discard(parent, parent, QUIPU_STR("x"), NULL, &err), QUIPU_MISUSE);
    quipu_live_free(other);
    quipu_live_free(parent);
    adk_close(world);
}

static void only_its_own_parent_ends_a_child(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *other = adk_create(world, "u", "other", NULL);
    quipu_live *child = spawn(parent, "scout", 0, 0);
    quipu_error err = {0};

    (void)state;
    adk_append(child, adk_says(world, "c1", "scout", "found", 4));
    T_STATUS(t_live_merge(other, child, QUIPU_STR("x"), (quipu_str){NULL, 0}, NULL, &err),
             QUIPU_MISUSE);
    T_STATUS(t_live_discard(other, child, QUIPU_STR("x"), NULL, &err), QUIPU_MISUSE);
    assert_int_equal(t_live_event_count(other), 0);
    T_OK(t_live_merge(parent, child, QUIPU_STR("x"), (quipu_str){NULL, 0}, NULL, &err));
    quipu_live_free(child);
    quipu_live_free(other);
    quipu_live_free(parent);
    adk_close(world);
}

/* Whatever of it the live session holds. */
static void a_merge_brings_all_that_the_child_has(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 1, 0);
    quipu_live *last = NULL;
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_session_ref ref;
    quipu_error err = {0};

    (void)state;
    adk_append(child, adk_says(world, "c1", "scout", "a", 4));
    adk_append(child, adk_says(world, "c2", "scout", "b", 5));
    T_OK(t_live_identity(child, &world->arena, &ref, NULL, NULL));
    options.num_recent = 1;
    T_OK(quipu_service_get(world->service, &ref, &options, NULL, &last, &err));
    adk_append(child, adk_says(world, "c3", "scout", "c", 6));
    T_OK(t_live_merge(parent, last, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, NULL, &err));
    assert_int_equal(t_live_event_count(parent), 6);
    adk_check_json(adk_event(world, parent, 3), adk_says(world, "c1", "scout", "a", 4));
    adk_check_json(adk_event(world, parent, 5), adk_says(world, "c3", "scout", "c", 6));
    quipu_live_free(last);
    quipu_live_free(child);
    quipu_live_free(parent);
    adk_close(world);
}

static void a_discarded_child_is_gone_and_leaves_a_note(void **state)
{
    adk_world *world = adk_open(0);
    quipu_live *parent = parent_of_three(world);
    quipu_live *child = spawn(parent, "scout", 0, 0);
    quipu_live *silent = spawn(parent, "mute", -1, 0);
    quipu_children list = quipu_children_of(NULL, 0);
    quipu_history *history;
    quipu_error err = {0};

    (void)state;
    T_OK(t_live_discard(parent, child, QUIPU_STR("timed out"), NULL, &err));
    history = st_get(world->store, "adk:app/u/p", NULL);
    assert_int_equal(history->messages.count, 4);
    T_STR(quipu_message_at(history->messages, 3)->content,
          "[Isolated sub-agent scout discarded: timed out. Raw child history discarded.]");
    T_STR(quipu_message_at(history->messages, 3)->author, QUIPU_ROOT_AGENT);
    quipu_free(history);
    T_OK(t_live_discard(parent, silent, QUIPU_STR(" "), NULL, &err));
    assert_int_equal(t_live_event_count(parent), 4);
    T_OK(quipu_live_find_children(parent, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 0);
    T_STATUS(t_live_merge(parent, child, QUIPU_STR("x"), (quipu_str){NULL, 0}, NULL, &err),
             QUIPU_NOT_FOUND);
    quipu_live_free(child);
    quipu_live_free(silent);
    quipu_live_free(parent);
    adk_close(world);
}

/* ---- isolated agents --------------------------------------------------------------------------
 */

typedef struct heard {
    size_t count;
    quipu_child_change changes[8];
} heard;

static void hear(void *ctx, quipu_child_change change, quipu_str agent)
{
    heard *all = ctx;

    assert_true(all->count < 8);
    assert_true(agent.n > 0);
    all->changes[all->count++] = change;
}

/* A service in which alpha and beta are isolated, and a session of it with one question. */
static quipu_live *isolated(adk_world **ret_world, heard *all)
{
    const quipu_str agents[] = {QUIPU_STR("alpha"), QUIPU_STR("beta")};
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    adk_world *world = adk_open(0);
    quipu_live *session;

    quipu_service_free(world->service);
    options.isolated = agents;
    options.isolated_count = 2;
    options.root_agent = QUIPU_STR("root");
    options.on_child = all != NULL ? hear : NULL;
    options.on_child_ctx = all;
    T_OK(quipu_service_new(world->store, &options, &world->service, NULL));
    session = adk_create(world, "u", "p", NULL);
    adk_append(session, adk_says(world, "q", "user", "question", 1));
    *ret_world = world;
    return session;
}

static void check_stored(adk_world *world, size_t count, const char *last, const char *author)
{
    quipu_history *history = st_get(world->store, "adk:app/u/p", NULL);

    assert_int_equal(history->messages.count, count);
    T_STR(quipu_message_at(history->messages, count - 1)->content, last);
    T_STR(quipu_message_at(history->messages, count - 1)->author, author);
    quipu_free(history);
}

static void an_isolated_agent_shows_but_is_not_stored_with_its_parent(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);
    quipu_children list = quipu_children_of(NULL, 0);

    (void)state;
    adk_append(session, adk_says(world, "a1", "alpha", "thinking", 2));
    adk_append(session, "{\"id\":\"a2\",\"author\":\"alpha\",\"content\":{\"role\":\"user\","
                        "\"parts\":[{\"functionResponse\":{\"id\":\"c\",\"name\":\"f\","
                        "\"response\":{}}}]}}");
    assert_int_equal(t_live_event_count(session), 3);
    assert_non_null(strstr(adk_event(world, session, 1).p, "thinking"));
    assert_non_null(strstr(adk_event(world, session, 2).p, "functionResponse"));
    check_stored(world, 1, "question", "user");
    T_OK(quipu_live_refresh(session, NULL, NULL)); /* the overlay stays */
    assert_int_equal(t_live_event_count(session), 3);
    T_OK(quipu_live_find_children(session, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 1);
    quipu_live_free(session);
    adk_close(world);
}

static void anybody_else_ends_the_child_with_a_summary_by_the_root(void **state)
{
    heard all = {.count = 0};
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, &all);

    (void)state;
    adk_append(session, adk_says(world, "a1", "alpha", "draft", 2));
    adk_append(session, adk_says(world, "a2", "alpha", "answer", 3));
    adk_append(session, adk_says(world, "r1", "root", "so it is", 4));
    assert_int_equal(t_live_event_count(session), 3);
    assert_non_null(strstr(adk_event(world, session, 1).p, "answer"));
    assert_non_null(strstr(adk_event(world, session, 1).p, "\"author\":\"root\""));
    check_stored(world, 3, "so it is", "root");
    assert_int_equal(all.count, 2);
    assert_int_equal(all.changes[0], QUIPU_CHILD_FORKED);
    assert_int_equal(all.changes[1], QUIPU_CHILD_MERGED);
    quipu_live_free(session);
    adk_close(world);
}

static void names_that_an_isolated_agent_sets_go_with_its_child(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);
    quipu_live *stored;
    quipu_json value = {{NULL, 0}};
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_live_set(session, QUIPU_STR("k"), (quipu_json){QUIPU_STR("0")}, NULL, &err));
    T_OK(quipu_live_set(session, QUIPU_STR("z"), (quipu_json){QUIPU_STR("9")}, NULL, &err));
    adk_append(session, "{\"id\":\"a1\",\"author\":\"alpha\",\"content\":{\"parts\":[{\"text\":"
                        "\"x\"}]},\"actions\":{\"stateDelta\":{\"k\":1,\"own\":2,\"app:a\":3,"
                        "\"user:u\":4,\"temp:t\":5}}}");
    /* While it works, the agent reads what it wrote. */
    adk_check_state(world, session,
                    "{\"app:a\":3,\"k\":1,\"own\":2,\"temp:t\":5,\"user:u\":4,\"z\":9}");
    T_OK(t_live_state(session, QUIPU_STR("k"), &world->arena, &value, &err));
    T_STR(value.text, "1");
    T_OK(t_live_state(session, QUIPU_STR("z"), &world->arena, &value, &err));
    T_STR(value.text, "9");
    stored = adk_get(world, "u", "p", NULL);
    adk_check_state(world, stored, "{\"app:a\":3,\"k\":0,\"user:u\":4,\"z\":9}");
    quipu_live_free(stored);
    T_OK(quipu_live_end_child(session, NULL, NULL, NULL, &err));
    adk_check_state(world, session, "{\"app:a\":3,\"k\":0,\"temp:t\":5,\"user:u\":4,\"z\":9}");
    adk_append(session, adk_says(world, "r1", "root", "on", 5)); /* and nothing was stale */
    stored = adk_get(world, "u", "p", NULL);
    adk_check_state(world, stored, "{\"app:a\":3,\"k\":0,\"user:u\":4,\"z\":9}");
    quipu_live_free(stored);
    quipu_live_free(session);
    adk_close(world);
}

static void other_agents_write_to_the_parent(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);

    (void)state;
    assert_int_equal(adk_append(session, adk_says(world, "g", "gamma", "hello", 2)).seq, 2);
    check_stored(world, 2, "hello", "gamma");
    quipu_live_free(session);
    adk_close(world);
}

static void one_isolated_agent_ends_another(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);

    (void)state;
    adk_append(session, adk_says(world, "a1", "alpha", "first", 2));
    adk_append(session, adk_says(world, "b1", "beta", "second", 3));
    check_stored(world, 2, "first", "root");
    assert_int_equal(t_live_event_count(session), 3);
    T_OK(quipu_live_end_child(session, NULL, NULL, NULL, NULL));
    check_stored(world, 3, "second", "root");
    T_OK(quipu_live_end_child(session, NULL, NULL, NULL, NULL)); /* there is none */
    assert_int_equal(t_live_event_count(session), 3);
    quipu_live_free(session);
    adk_close(world);
}

static void a_child_that_said_nothing_leaves_a_note(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);

    (void)state;
    adk_append(session, "{\"id\":\"a1\",\"author\":\"alpha\",\"content\":{\"role\":\"model\","
                        "\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]}}");
    T_OK(quipu_live_end_child(session, NULL, NULL, NULL, NULL));
    check_stored(world, 2,
                 "[Isolated sub-agent alpha ended without a visible assistant result: "
                 "empty_after_tool_use.]",
                 "root");
    quipu_live_free(session);
    adk_close(world);
}

static void an_agent_that_hands_over_empty_is_discarded(void **state)
{
    heard all = {.count = 0};
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, &all);

    (void)state;
    adk_append(session, adk_says(world, "a1", "alpha", "hm", 2));
    adk_append(session, "{\"id\":\"a2\",\"author\":\"alpha\",\"actions\":{\"transferToAgent\":"
                        "\"root\"}}");
    check_stored(world, 2,
                 "[Isolated sub-agent alpha discarded: escalated without producing a result. Raw "
                 "child history discarded.]",
                 "root");
    assert_int_equal(t_live_event_count(session), 2);
    assert_int_equal(all.changes[1], QUIPU_CHILD_DISCARDED);
    quipu_live_free(session);
    adk_close(world);
}

static void a_failed_turn_closes_calls_and_discards_the_child(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);
    quipu_children list = quipu_children_of(NULL, 0);
    quipu_history *history;

    (void)state;
    adk_append(session, "{\"id\":\"r1\",\"author\":\"root\",\"content\":{\"role\":\"model\","
                        "\"parts\":[{\"functionCall\":{\"id\":\"c1\",\"name\":\"delegate\","
                        "\"args\":{}}}]}}");
    adk_append(session, adk_says(world, "a1", "alpha", "half", 3));
    T_OK(quipu_live_fail_turn(session, QUIPU_STR("timeout"), NULL, NULL, NULL));
    history = st_get(world->store, "adk:app/u/p", NULL);
    assert_int_equal(history->messages.count, 4);
    assert_int_equal(quipu_message_at(history->messages, 2)->role, QUIPU_ROLE_TOOL);
    T_STR(quipu_tool_call_at(quipu_message_at(history->messages, 2)->calls, 0)->id, "c1");
    T_STR(quipu_message_at(history->messages, 3)->content,
          "[Isolated sub-agent alpha discarded: timeout. Raw child history discarded.]");
    quipu_free(history);
    assert_int_equal(t_live_event_count(session), 4);
    assert_non_null(strstr(adk_event(world, session, 2).p, "interrupted"));
    T_OK(quipu_live_find_children(session, NULL, &world->arena, &list, NULL));
    assert_int_equal(list.count, 0);
    quipu_live_free(session);
    adk_close(world);
}

static void a_summary_that_cannot_be_written_leaves_the_child_at_work(void **state)
{
    adk_world *world = NULL;
    quipu_live *session = isolated(&world, NULL);
    quipu_live *other = adk_get(world, "u", "p", NULL);
    quipu_error err = {0};

    (void)state;
    adk_append(session, adk_says(world, "a1", "alpha", "result", 2));
    adk_append(other, adk_says(world, "x", "user", "between", 3));
    T_STATUS(quipu_live_end_child(session, NULL, NULL, NULL, &err), QUIPU_CONFLICT);
    assert_int_equal(t_live_event_count(session), 2);
    assert_non_null(strstr(adk_event(world, session, 1).p, "result"));
    T_OK(quipu_live_refresh(session, NULL, &err));
    assert_non_null(strstr(adk_event(world, session, 1).p, "between"));
    assert_non_null(strstr(adk_event(world, session, 2).p, "result"));
    T_OK(quipu_live_end_child(session, NULL, NULL, NULL, &err));
    check_stored(world, 3, "result", "root");
    quipu_live_free(other);
    quipu_live_free(session);
    adk_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_child_has_a_key_of_its_own_and_no_history),
        cmocka_unit_test(children_are_listed_with_their_own_parent_only),
        cmocka_unit_test(a_child_inherits_none_the_last_or_all),
        cmocka_unit_test(a_limit_keeps_the_last_of_its_own),
        cmocka_unit_test(a_child_works_apart),
        cmocka_unit_test(merging_with_a_summary_adds_one_message_by_the_agent),
        cmocka_unit_test(merging_without_a_summary_adds_every_event),
        cmocka_unit_test(a_merge_that_failed_can_be_repeated),
        cmocka_unit_test(a_child_outlives_its_live_session),
        cmocka_unit_test(only_a_child_can_be_merged),
        cmocka_unit_test(only_its_own_parent_ends_a_child),
        cmocka_unit_test(a_merge_brings_all_that_the_child_has),
        cmocka_unit_test(a_discarded_child_is_gone_and_leaves_a_note),
        cmocka_unit_test(an_isolated_agent_shows_but_is_not_stored_with_its_parent),
        cmocka_unit_test(anybody_else_ends_the_child_with_a_summary_by_the_root),
        cmocka_unit_test(names_that_an_isolated_agent_sets_go_with_its_child),
        cmocka_unit_test(other_agents_write_to_the_parent),
        cmocka_unit_test(one_isolated_agent_ends_another),
        cmocka_unit_test(a_child_that_said_nothing_leaves_a_note),
        cmocka_unit_test(an_agent_that_hands_over_empty_is_discarded),
        cmocka_unit_test(a_failed_turn_closes_calls_and_discards_the_child),
        cmocka_unit_test(a_summary_that_cannot_be_written_leaves_the_child_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
