/* What is remembered of a session comes into the prompt, as much as fits. */
#include "agent/script.h"
#include "agent/turn.h"
#include "lib/short.h"

typedef struct memory_world {
    quipu_store *store;
    script *script;
    quipu_arena arena;
} memory_world;

static int memory_setup(void **state)
{
    memory_world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->store = st_open_new(NULL, NULL);
    world->script = script_new();
    st_create(world->store, "s");
    *state = world;
    return 0;
}

static int memory_teardown(void **state)
{
    memory_world *world = *state;

    quipu_close(world->store);
    script_free(world->script);
    quipu_arena_free(&world->arena);
    free(world);
    return 0;
}

#define MEMORY_TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

static void memory_keep(memory_world *world, quipu_memory_kind kind, const char *content)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = QUIPU_STR("s"),
                                 .content = quipu_cstr(content),
                                 .generation = kind == QUIPU_REFLECTION ? 1 : 0};

    T_OK(t_memory_save(world->store, &memory, NULL, NULL, NULL));
}

/* What a new block of at most so many tokens says; 0: the default. */
static const char *memory_block(memory_world *world, int64_t tokens)
{
    qp_context_offer offer;
    qp_context_text block;

    T_OK(qp_context_offer_read(world->store, QUIPU_STR("s"), 0, NULL, &world->arena, &offer, NULL));
    T_OK(qp_context_block_make(&offer, QUIPU_STR("s"), 0, tokens > 0 ? tokens : QUIPU_MEMORY_TOKENS,
                               &world->arena, &block, NULL));
    return block.text.p;
}

static void reflections_come_before_observations_in_order(void **state)
{
    memory_world *world = *state;

    memory_keep(world, QUIPU_OBSERVATION, "Ada asked for tea");
    memory_keep(world, QUIPU_REFLECTION, "Ada likes tea");
    memory_keep(world, QUIPU_OBSERVATION, "Ada asked for more");
    memory_keep(world, QUIPU_REFLECTION, "Ada is polite");
    assert_string_equal(memory_block(world, 0), "## Conversation Memory\n\n### Summary\n"
                                                "Ada likes tea\nAda is polite\n\n"
                                                "### Recent Observations\n"
                                                "- Ada asked for tea\n- Ada asked for more");
}

static void nothing_remembered_gives_no_text(void **state)
{
    assert_null(memory_block(*state, 0));
}

static void newest_that_fit_the_budget_are_reported(void **state)
{
    memory_world *world = *state;
    const char *newer = "the newer one of two observations";
    const char *block = NULL;
    int64_t tokens = 0;

    memory_keep(world, QUIPU_OBSERVATION, "the older one of two observations");
    memory_keep(world, QUIPU_OBSERVATION, newer);
    while (block == NULL) {
        block = memory_block(world, ++tokens);
    }
    assert_string_equal(block, "## Conversation Memory\n\n### Recent Observations\n"
                               "- the newer one of two observations");
    assert_true(quipu_token_estimate(quipu_cstr(block)) <= tokens);
}

static void memory_too_large_hides_no_other(void **state)
{
    memory_world *world = *state;
    char large[4096];

    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    memory_keep(world, QUIPU_REFLECTION, "small and old");
    memory_keep(world, QUIPU_REFLECTION, large);
    memory_keep(world, QUIPU_REFLECTION, "small and new");
    assert_string_equal(memory_block(world, 100), "## Conversation Memory\n\n### Summary\n"
                                                  "small and old\nsmall and new");
}

static void memories_end_the_system_instruction_when_asked(void **state)
{
    memory_world *world = *state;
    quipu_turn_options options = script_options(world->script, "hi");
    char *history;

    memory_keep(world, QUIPU_REFLECTION, "Ada likes tea");
    options.flags = QUIPU_TURN_MEMORY;
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    assert_non_null(strstr(world->script->prompts[0], "Be kind."));
    assert_non_null(strstr(world->script->prompts[0], "### Summary\nAda likes tea"));
    history = script_history(world->store);
    assert_null(strstr(history, "tea"));
    free(history);
}

static void turn_that_does_not_ask_is_reported_nothing_remembered(void **state)
{
    memory_world *world = *state;
    quipu_turn_options options = script_options(world->script, "hi");

    memory_keep(world, QUIPU_REFLECTION, "Ada likes tea");
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    assert_null(strstr(world->script->prompts[0], "tea"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMORY_TEST(reflections_come_before_observations_in_order),
        MEMORY_TEST(nothing_remembered_gives_no_text),
        MEMORY_TEST(newest_that_fit_the_budget_are_reported),
        MEMORY_TEST(memory_too_large_hides_no_other),
        MEMORY_TEST(memories_end_the_system_instruction_when_asked),
        MEMORY_TEST(turn_that_does_not_ask_is_reported_nothing_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
