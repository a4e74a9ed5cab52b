/* A store with one session, and turns of it that a script answers: what the tests of prompts with
 * memory share. */
#ifndef T_AGENT_CONTEXT_T_H
#define T_AGENT_CONTEXT_T_H

#include "agent/script.h"

#include "contract/maintain_t.h"
#include "lib/short.h"
#include <quipu/memory.h>

#define CONTEXT_TEXT 400

typedef struct context_world {
    quipu_store *store;
    quipu_store *beside; /* for turns and workers: the same, or its file where it is served */
    char path[T_PATH_MAX];
    script *script;
    quipu_arena arena;
} context_world;

static inline void context_create(quipu_store *store, const char *key, const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    if (user != NULL) {
        values.app_name = QUIPU_STR("app");
        values.user_id = quipu_cstr(user);
    }
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
}

static inline int context_setup(void **state)
{
    context_world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->store = st_open_new(NULL, world->path);
    world->beside = t_server() ? st_open(t_server_file()) : world->store;
    world->script = script_new();
    context_create(world->store, "s", "ada");
    *state = world;
    return 0;
}

static inline int context_teardown(void **state)
{
    context_world *world = *state;

    if (world->beside != world->store) {
        quipu_close(world->beside);
    }
    quipu_close(world->store);
    script_free(world->script);
    quipu_arena_free(&world->arena);
    free(world);
    return 0;
}

#define CONTEXT_TEST(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)

/* One turn of session "s" with memory; the model says "Fine.". */
static inline quipu_turn_result context_says(context_world *world, const char *says, int64_t budget)
{
    quipu_turn_options options = script_options(world->script, says);

    options.flags = QUIPU_TURN_MEMORY | QUIPU_TURN_NO_RECALL;
    options.token_budget = budget;
    if (world->script->steps[world->script->at].texts[0] == NULL &&
        world->script->steps[world->script->at].calls[0] == NULL) {
        world->script->steps[world->script->at].texts[0] = "Fine.";
    }
    return script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
}

static inline void context_append(quipu_store *store, quipu_role role, const char *text)
{
    const quipu_message message = st_says(role, text);
    quipu_error err = {0};

    T_OK(quipu_message_append(store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

static inline const char *context_prompt(const context_world *world)
{
    assert_true(world->script->at > 0);
    return world->script->prompts[world->script->at - 1];
}

static inline quipu_uuid context_keep(context_world *world, const char *key, quipu_memory_kind kind,
                                      quipu_memory_priority priority, const char *content)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = quipu_cstr(key),
                                 .content = quipu_cstr(content),
                                 .priority = priority,
                                 .token_count = quipu_token_estimate(quipu_cstr(content)),
                                 .generation = kind == QUIPU_REFLECTION ? 1 : 0};
    quipu_uuid id = {{0}};

    T_OK(t_memory_save(world->store, &memory, NULL, &id, NULL));
    return id;
}

static inline quipu_uuid context_stands(context_world *world, const char *key, const char *content)
{
    return context_keep(world, key, QUIPU_OBSERVATION, QUIPU_PRIORITY_STANDING, content);
}

static inline void context_retire(context_world *world, quipu_uuid id)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error err = {0};

    patch.kind = QUIPU_OBSERVATION;
    patch.id = id;
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.why = QUIPU_STR("no longer");
    T_OK(quipu_memory_update(world->store, &patch, NULL, NULL, &err));
}

static inline void context_assert_begins(const char *prompt, const char *with)
{
    if (strncmp(prompt, with, strlen(with)) != 0) {
        fail_msg("the prompt\n%s\ndoes not begin with\n%s", prompt, with);
    }
}

static inline quipu_context *context_get(quipu_store *store, int64_t at, quipu_status expected)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    options.key = QUIPU_STR("s");
    options.at_seq = at;
    T_STATUS(quipu_context_make(store, &options, NULL, &context, &err), expected);
    return context;
}

/* A context as the script notes a prompt: it goes through the model's conversion again. */
static inline char *context_noted(const quipu_context *context)
{
    script *noter = script_new();
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error err = {0};
    char *prompt;

    noter->steps[0].texts[0] = "x";
    request.system = context->system;
    request.contents = context->contents;
    T_OK(quipu_model_generate(&noter->provider, &request, NULL, NULL, &arena, NULL, &err));
    prompt = noter->prompts[0];
    noter->prompts[0] = NULL;
    quipu_arena_free(&arena);
    script_free(noter);
    return prompt;
}

/* The prompt that message `at` belongs to is the noted one, byte for byte. */
static inline void context_assert_rebuilt(quipu_store *store, int64_t at, const char *prompt)
{
    quipu_context *context = context_get(store, at, QUIPU_OK);
    char *noted = context_noted(context);

    assert_string_equal(noted, prompt);
    assert_true(context->exact);
    free(noted);
    quipu_free(context);
}

#endif
