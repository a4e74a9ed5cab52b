/* sub_agents: a root agent sends two scouts out. Each works in a child session of its own; one is
 * merged with a summary, one is discarded with a reason. Then an isolated agent, whose events the
 * service puts into a child session by itself, and a turn that fails with an open tool call. Fails
 * unless the parent's history is what it should be.
 * usage: sub_agents */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/quipu.h>

static void check(quipu_status status, const quipu_error *error)
{
    if (status != QUIPU_OK) {
        fprintf(stderr, "sub_agents: %s\n", error->message);
        exit(1);
    }
}

static void expect(bool is, const char *what)
{
    if (!is) {
        fprintf(stderr, "sub_agents: %s\n", what);
        exit(1);
    }
}

static void say(quipu_live *session, const char *author, const char *part)
{
    char event[512];
    quipu_error error = {0};

    (void)snprintf(event, sizeof(event),
                   "{\"author\":\"%s\",\"content\":{\"role\":\"%s\",\"parts\":[{%s}]}}", author,
                   strcmp(author, "user") == 0 ? "user" : "model", part);
    check(quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &error), &error);
}

/* Two scouts: what one found is merged, what the other did is discarded. */
static void send_scouts(quipu_live *root)
{
    quipu_child_options options = QUIPU_CHILD_OPTIONS_INIT;
    quipu_child_end merge = QUIPU_CHILD_END_INIT;
    quipu_child_end discard = QUIPU_CHILD_END_INIT;
    quipu_children children = quipu_children_of(NULL, 0);
    quipu_live *found = NULL;
    quipu_live *lost = NULL;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    options.inherit = -1; /* a scout knows what was said so far */
    check(quipu_live_spawn(root, QUIPU_STR("north"), &options, NULL, &found, &error), &error);
    check(quipu_live_spawn(root, QUIPU_STR("south"), &options, NULL, &lost, &error), &error);
    say(found, "north", "\"text\":\"A bridge, and behind it a village.\"");
    say(lost, "south", "\"text\":\"Fog.\"");
    check(quipu_live_find_children(root, NULL, &arena, &children, &error), &error);
    expect(children.count == 2, "there are not two children");
    expect(!quipu_child_at(children, 0)->merged, "a child is merged before its merge");
    merge.summary = QUIPU_STR("North: a village.");
    check(quipu_live_end_child(root, found, &merge, NULL, &error), &error);
    discard.flags = QUIPU_CHILD_END_DISCARD;
    discard.reason = QUIPU_STR("it found nothing");
    check(quipu_live_end_child(root, lost, &discard, NULL, &error), &error);
    quipu_live_free(found);
    quipu_live_free(lost);
    quipu_arena_free(&arena);
}

/* How many events the live session holds. */
static size_t count(quipu_live *session)
{
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    check(quipu_live_get(session, NULL, &arena, &got, &error), &error);
    quipu_arena_free(&arena);
    return got.count;
}

/* The events of an isolated agent show until its child ends; then one message stands for them. */
static void run_isolated(quipu_live *root)
{
    const size_t before = count(root);
    quipu_error error = {0};

    say(root, "clerk", "\"text\":\"Counting the houses.\"");
    say(root, "clerk", "\"text\":\"There are twelve.\"");
    expect(count(root) == before + 2, "the clerk's events do not show");
    check(quipu_live_end_child(root, NULL, NULL, NULL, &error), &error);
    expect(count(root) == before + 1, "the clerk left more than one message");
}

/* A tool was called, and the program that was to run it failed. */
static void fail_a_turn(quipu_live *root)
{
    int64_t closed = 0;
    quipu_error error = {0};

    say(root, "root",
        "\"functionCall\":{\"id\":\"c1\",\"name\":\"look\",\"args\":{\"where\":\"north\"}}");
    check(quipu_live_fail_turn(root, (quipu_str){NULL, 0}, NULL, &closed, &error), &error);
    expect(closed == 1, "not one call was closed");
}

/* What a model would see next, and a value of the state. */
static void show(quipu_live *root)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    check(quipu_live_set(root, QUIPU_STR("place"), (quipu_json){QUIPU_STR("\"north\"")}, NULL,
                         &error),
          &error);
    check(quipu_live_refresh(root, NULL, &error), &error);
    query.flags = QUIPU_LIVE_STATE | QUIPU_LIVE_VIEW;
    query.name = QUIPU_STR("place");
    query.token_budget = 1000;
    check(quipu_live_get(root, &query, &arena, &now, &error), &error);
    expect(quipu_str_eq(now.state.text, QUIPU_STR("\"north\"")), "the state lost the place");
    for (size_t i = 0; i < now.events.count; i++) {
        printf("%s\n", quipu_json_at(now.events, i)->text.p);
    }
    expect(now.view_first == 0 && now.events.count >= 5, "the view is cut, or lacks events");
    quipu_arena_free(&arena);
}

int main(void)
{
    static const quipu_str isolated[] = {{"clerk", 5}};
    const quipu_session_ref ref = {QUIPU_STR("tour"), QUIPU_STR("ana"), QUIPU_STR("one")};
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_service *service = NULL;
    quipu_live *root = NULL;
    quipu_error error = {0};

    options.isolated = isolated;
    options.isolated_count = 1;
    check(quipu_open(":memory:", NULL, &store, &error), &error);
    check(quipu_service_new(store, &options, &service, &error), &error);
    check(quipu_service_create(service, &ref, (quipu_json){{NULL, 0}}, NULL, &root, &error),
          &error);
    say(root, "user", "\"text\":\"Where should we go?\"");
    send_scouts(root);
    run_isolated(root);
    fail_a_turn(root);
    show(root);
    quipu_live_free(root);
    quipu_service_free(service);
    quipu_close(store);
    return 0;
}
