/* What the tests of the ADK service share. Header only. */
#ifndef T_CONTRACT_ADK_T_H
#define T_CONTRACT_ADK_T_H

#include "contract/store_t.h"
#include "lib/short.h"

#include <quipu/adk.h>

#include "base/json.h"

/* A store and a service over it. */
typedef struct adk_world {
    quipu_store *store;
    quipu_service *service;
    quipu_arena arena;
    char path[T_PATH_MAX];
} adk_world;

static inline adk_world *adk_open(uint32_t flags)
{
    adk_world *world = calloc(1, sizeof(*world));
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_error err = {0};

    assert_non_null(world);
    world->store = st_open_new(NULL, world->path);
    options.flags = flags;
    T_OK(quipu_service_new(world->store, &options, &world->service, &err));
    return world;
}

static inline void adk_close(adk_world *world)
{
    quipu_arena_free(&world->arena);
    quipu_service_free(world->service);
    quipu_close(world->store);
    free(world);
}

static inline quipu_session_ref adk_ref(const char *app, const char *user, const char *session)
{
    return (quipu_session_ref){quipu_cstr(app), quipu_cstr(user), quipu_cstr(session)};
}

static inline quipu_live *adk_create(adk_world *world, const char *user, const char *id,
                                     const char *state)
{
    const quipu_session_ref ref = adk_ref("app", user, id);
    quipu_live *session = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_service_create(
        world->service, &ref, (quipu_json){quipu_cstr(state)}, NULL, &session, &err);

    if (status != QUIPU_OK) {
        fail_msg("create %s: %s", id, err.message);
    }
    return session;
}

static inline quipu_live *adk_get(adk_world *world, const char *user, const char *id,
                                  const quipu_get_options *options)
{
    const quipu_session_ref ref = adk_ref("app", user, id);
    quipu_live *session = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_service_get(world->service, &ref, options, NULL, &session, &err);

    if (status != QUIPU_OK) {
        fail_msg("get %s: %s", id, err.message);
    }
    return session;
}

static inline quipu_event_result adk_append(quipu_live *session, const char *event)
{
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_error err = {0};
    quipu_status status =
        quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, &result, &err);

    if (status != QUIPU_OK) {
        fail_msg("append %s: %s", event, err.message);
    }
    return result;
}

/* An event with a text. */
static inline const char *adk_says(adk_world *world, const char *id, const char *author,
                                   const char *text, double time)
{
    char *event = quipu_arena_alloc(&world->arena, 512);

    assert_non_null(event);
    assert_true(snprintf(event, 512,
                         "{\"id\":\"%s\",\"author\":\"%s\",\"timestamp\":%.1f,\"content\":{"
                         "\"role\":\"%s\",\"parts\":[{\"text\":\"%s\"}]}}",
                         id, author, time, strcmp(author, "user") == 0 ? "user" : "model",
                         text) < 512);
    return event;
}

static inline bool adk_same(quipu_str a, quipu_str b)
{
    qp_json_doc left;
    qp_json_doc right;
    bool same = false;

    qp_json_init(&left);
    qp_json_init(&right);
    T_OK(qp_json_parse(&left, a, NULL, NULL));
    T_OK(qp_json_parse(&right, b, NULL, NULL));
    T_OK(qp_json_equal(qp_json_root(&left), qp_json_root(&right), &same));
    qp_json_free(&left);
    qp_json_free(&right);
    return same;
}

static inline void adk_check_json(quipu_str actual, const char *expected)
{
    if (!adk_same(actual, quipu_cstr(expected))) {
        fail_msg("not the same:\n%s\n%s", actual.p, expected);
    }
}

static inline void adk_check_state(adk_world *world, quipu_live *session, const char *expected)
{
    quipu_json state = {{NULL, 0}};
    quipu_error err = {0};

    T_OK(t_live_state(session, (quipu_str){NULL, 0}, &world->arena, &state, &err));
    adk_check_json(state.text, expected);
}

static inline quipu_str adk_event(adk_world *world, quipu_live *session, size_t index)
{
    quipu_json event = {{NULL, 0}};
    quipu_error err = {0};

    T_OK(t_live_event(session, index, &world->arena, &event, &err));
    return event.text;
}

/* The rules of ADK for Python, turn 0, and of ADK for Go, turn 1: each with a world of its own. */
static const uint32_t adk_both[] = {QUIPU_SERVICE_PYTHON, QUIPU_SERVICE_GO};

#define ADK_BOTH(world)                                                                            \
    for (size_t turn_ = 0; turn_ < 2; turn_++)                                                     \
        for (adk_world *world = adk_open(adk_both[turn_]); world != NULL;                          \
             adk_close(world), world = NULL)

#endif
