/* Which lines of memory a prompt has: what stands gets in whatever else is known, and what is gone,
 * superseded, or somebody else's does not come back. */
#include "agent/context_t.h"

#include "base/time.h"

#define LINES_LONG 4000 /* bytes of a long text */
#define LINES_BLOCK 512 /* QP_CONTEXT_LINES_MAX */
#define LINES_TAILS 512 /* QP_CONTEXT_TAILS_MAX */

/* The session of the fixture that Lango observed, and the lines of it that are not retired here. */
#define LINES_LANGO "telegram:123:456"
#define LINES_LANGO_KNOWN 3

/* A line of some 900 tokens that begins with a word. */
static const char *lines_long(char text[LINES_LONG], const char *word)
{
    int n = snprintf(text, LINES_LONG, "%s", word);

    while (n < LINES_LONG - 400) {
        n += snprintf(text + n, (size_t)(LINES_LONG - n), " tea");
    }
    return text;
}

/* The model condenses what is known of "s" into one text. */
static void lines_condense(context_world *world, const char *answer)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;

    world->script->steps[world->script->at].texts[0] = answer;
    options.session_key = QUIPU_STR("s");
    options.provider = &world->script->provider;
    options.model = QUIPU_STR("m");
    options.observe_tokens = 1000000;
    options.reflect_tokens = 1;
    T_OK(quipu_memory_run(world->beside, &options, NULL, &ran, NULL));
    assert_true(ran.condensed > 0);
}

static void lines_fill(context_world *world, quipu_uuid ids[8])
{
    for (int i = 0; i < 8; i++) {
        char text[100];

        (void)snprintf(text, sizeof(text), "The user has said something about tea number %d.", i);
        ids[i] = context_keep(world, "s", QUIPU_OBSERVATION, QUIPU_PRIORITY_NONE, text);
    }
}

/* The newest reflection of a session. */
static quipu_uuid lines_reflection(quipu_store *store, const char *key)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_uuid id;

    query.session_key = quipu_cstr(key);
    query.kind = QUIPU_REFLECTION;
    T_OK(quipu_memory_find(store, &query, NULL, &list, NULL));
    assert_true(list->memories.count > 0);
    id = quipu_memory_at(list->memories, list->memories.count - 1)->id;
    quipu_free(list);
    return id;
}

/* ---- what stands gets in -----------------------------------------------------------------------
 */

static void standing_line_reaches_the_next_turn_when_observations_fill_the_block(void **state)
{
    context_world *world = *state;
    char text[LINES_LONG];
    const char *first;

    for (int i = 0; i < 8; i++) {
        char word[20];

        (void)snprintf(word, sizeof(word), "Known%d", i);
        context_keep(world, "s", QUIPU_OBSERVATION, QUIPU_PRIORITY_HIGH, lines_long(text, word));
    }
    for (int i = 0; i < 60; i++) {
        (void)snprintf(text, sizeof(text), "Small thing number %d is known.", i);
        context_keep(world, "s", QUIPU_OBSERVATION, QUIPU_PRIORITY_NONE, text);
    }
    (void)context_says(world, "one", 0);
    first = context_prompt(world);
    context_stands(world, "s", "Always answer in French.");
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), first);
    assert_non_null(strstr(context_prompt(world), "- Always answer in French."));
}

static void standing_line_is_not_held_up_by_an_older_one_that_does_not_fit(void **state)
{
    context_world *world = *state;
    char text[LINES_LONG];

    context_stands(world, "s", lines_long(text, "Older"));
    context_stands(world, "s", lines_long(text, "Newer"));
    (void)context_says(world, "one", 5600); /* 1,400 tokens for memory: room for one of them */
    assert_non_null(strstr(context_prompt(world), "Newer"));
    assert_null(strstr(context_prompt(world), "Older"));
    context_stands(world, "s", "Be brief.");
    (void)context_says(world, "two", 5600);
    assert_non_null(strstr(context_prompt(world), "- Be brief."));
}

/* A turn whose instruction is another one: the block is made anew. */
static void lines_other_instruction(context_world *world)
{
    const quipu_part system = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Be short.")};
    quipu_turn_options options = script_options(world->script, "again");
    quipu_model_request request = *options.request;

    request.system = quipu_parts_of(&system, 1);
    options.request = &request;
    options.flags = QUIPU_TURN_MEMORY | QUIPU_TURN_NO_RECALL;
    options.token_budget = 100000;
    world->script->steps[world->script->at].texts[0] = "Fine.";
    assert_int_equal(
        script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK).reason,
        QUIPU_CONTEXT_REASON_INSTRUCTIONS);
}

/* A long window holds more lines' messages than are offered at once. */
static void older_lines_are_sent_although_the_window_shows_many_newer_ones(void **state)
{
    static const quipu_memory_priority priorities[] = {QUIPU_PRIORITY_HIGH, QUIPU_PRIORITY_MEDIUM};
    context_world *world = *state;
    char text[LINES_LONG];

    context_stands(world, "s", "Be brief.");
    (void)context_says(world, "zero", 8000);
    for (int i = 0; i < 40; i++) {
        context_append(world->store, i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_MODEL,
                       lines_long(text, "Said"));
    }
    for (int i = 0; i < 400; i++) {
        /* One of the first message, and many of the last, which every window shows. */
        quipu_memory line = {.kind = QUIPU_OBSERVATION,
                             .session_key = QUIPU_STR("s"),
                             .priority = priorities[i % 2],
                             .source_start = i < 2 ? 1 : 42,
                             .source_end = i < 2 ? 1 : 42};

        (void)snprintf(text, sizeof(text), "Line number %d.", i);
        line.content = quipu_cstr(text);
        line.token_count = quipu_token_estimate(line.content);
        T_OK(t_memory_save(world->store, &line, NULL, NULL, NULL));
    }
    assert_int_equal(context_says(world, "one", 8000).reason, QUIPU_CONTEXT_REASON_WINDOW);
    assert_non_null(strstr(context_prompt(world), "- Line number 0."));
    assert_non_null(strstr(context_prompt(world), "- Line number 1."));
    assert_null(strstr(context_prompt(world), "- Line number 399."));
}

static void summaries_are_sent_although_many_newer_reflections_stand(void **state)
{
    context_world *world = *state;
    char text[LINES_LONG];

    context_keep(world, "s", QUIPU_REFLECTION, QUIPU_PRIORITY_NONE, "They talked of tea.");
    for (int i = 0; i < 70; i++) {
        (void)snprintf(text, sizeof(text), "Stands %d.", i);
        context_keep(world, "s", QUIPU_REFLECTION, QUIPU_PRIORITY_STANDING, text);
    }
    (void)context_says(world, "one", 0);
    assert_non_null(strstr(context_prompt(world), "- Stands 0."));
    assert_non_null(strstr(context_prompt(world), "They talked of tea."));
}

/* So many lines has a block, however short they are; the newest get in. */
static void a_block_has_so_many_lines_and_no_more(void **state)
{
    context_world *world = *state;
    char text[40];

    for (int i = 0; i < LINES_BLOCK; i++) {
        (void)snprintf(text, sizeof(text), "Wish %d.", i);
        context_stands(world, "s", text);
    }
    (void)context_says(world, "one", 100000);
    assert_non_null(strstr(context_prompt(world), "- Wish 0.\n"));
    assert_non_null(strstr(context_prompt(world), "- Wish 511."));
    context_stands(world, "s", "Wish 512.");
    /* The block stays, and the newer one stands with the input. */
    (void)context_says(world, "two", 100000);
    assert_non_null(strstr(context_prompt(world), "- Wish 0.\n"));
    assert_non_null(strstr(context_prompt(world), "- Wish 512."));
    lines_other_instruction(world);
    assert_null(strstr(context_prompt(world), "- Wish 0.\n"));
    assert_non_null(strstr(context_prompt(world), "- Wish 1.\n"));
    assert_non_null(strstr(context_prompt(world), "- Wish 512."));
}

/* The next prompt, which is logged, in a budget that nothing uses up. */
static quipu_context *lines_context(context_world *world)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    options.flags = QUIPU_CONTEXT_LOG;
    options.key = QUIPU_STR("s");
    options.model = QUIPU_STR("m");
    options.provider = QUIPU_STR("p");
    options.token_budget = 1000000;
    options.memory_tokens = 200000;
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    return context;
}

/* A line with each input: behind the last tail that a prompt may have the block takes them in, and
 * every prompt that says nothing else begins with the one before. */
static void a_prompt_has_so_many_tails_and_no_more(void **state)
{
    context_world *world = *state;
    char *before = NULL;
    char text[40];

    for (int i = 0; i <= LINES_TAILS + 1; i++) {
        (void)snprintf(text, sizeof(text), "Wish %d.", i);
        context_stands(world, "s", text);
        context_append(world->store, QUIPU_ROLE_USER, "Hello.");

        quipu_context *context = lines_context(world);
        char *prompt = context_noted(context);

        assert_int_equal(context->reason, i == 0                 ? QUIPU_CONTEXT_REASON_FIRST
                                          : i == LINES_TAILS + 1 ? QUIPU_CONTEXT_REASON_WINDOW
                                                                 : QUIPU_CONTEXT_REASON_SAME);
        if (context->reason == QUIPU_CONTEXT_REASON_SAME) {
            context_assert_begins(prompt, before);
        }
        assert_non_null(strstr(prompt, text));
        free(before);
        before = prompt;
        if (i >= LINES_TAILS) {
            quipu_context *past = context_get(world->store, context->last_seq, QUIPU_OK);

            assert_true(past->exact);
            quipu_free(past);
        }
        quipu_free(context);
        context_append(world->store, QUIPU_ROLE_ASSISTANT, "Fine.");
    }
    free(before);
}

/* Lines with inputs have used up what memory has: the block is made anew, and says so. */
static void standing_line_that_finds_no_room_makes_the_block_anew(void **state)
{
    context_world *world = *state;
    char text[LINES_LONG];
    quipu_turn_result result;

    context_stands(world, "s", lines_long(text, "First"));
    (void)context_says(world, "one", 5600);
    context_stands(world, "s", lines_long(text, "Second"));
    result = context_says(world, "two", 5600);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_WINDOW);
    assert_non_null(strstr(context_prompt(world), "### Standing\n- Second"));
    assert_null(strstr(context_prompt(world), "First"));
    assert_int_equal(context_says(world, "three", 5600).reason, QUIPU_CONTEXT_REASON_SAME);
}

/* A word of two letters has no token by the estimate. */
static void line_of_two_letters_stands_also_in_a_new_block(void **state)
{
    context_world *world = *state;
    const quipu_uuid other = context_stands(world, "s", "I prefer trains.");

    (void)context_says(world, "one", 0);
    context_stands(world, "s", "Hi");
    (void)context_says(world, "two", 0);
    context_retire(world, other);
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_non_null(strstr(context_prompt(world), "### Standing\n- Hi\n"));
}

/* ---- what is gone does not come back -----------------------------------------------------------
 */

/* What was condensed stays in the block only as long as the reflection says it. */
static void lines_of_a_reflection_leave_with_it(void **state, bool deleted, bool edited)
{
    context_world *world = *state;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_uuid ids[8];
    quipu_uuid id;

    lines_fill(world, ids);
    (void)context_says(world, "one", 0);
    lines_condense(world, "{\"reflection\":\"Eight teas.\"}");
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    assert_non_null(strstr(context_prompt(world), "tea number 3."));
    id = lines_reflection(world->store, "s");
    patch.kind = query.kind = QUIPU_REFLECTION;
    patch.id = id;
    patch.set = edited ? QUIPU_MEMORY_SET_CONTENT : QUIPU_MEMORY_SET_RETIRED;
    patch.content = QUIPU_STR("No tea at all.");
    query.ids = &id;
    query.id_count = 1;
    if (deleted) {
        T_OK(quipu_memory_delete(world->store, &query, NULL, NULL, NULL));
    } else {
        T_OK(quipu_memory_update(world->store, &patch, NULL, NULL, NULL));
    }
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "tea number"));
    assert_int_equal(strstr(context_prompt(world), "No tea at all.") != NULL, edited);
    assert_int_equal(context_says(world, "four", 0).reason, QUIPU_CONTEXT_REASON_SAME);
}

static void lines_of_a_retired_reflection_leave_at_once(void **state)
{
    lines_of_a_reflection_leave_with_it(state, false, false);
}

static void lines_of_a_deleted_reflection_leave_at_once(void **state)
{
    lines_of_a_reflection_leave_with_it(state, true, false);
}

static void lines_of_an_edited_reflection_leave_at_once(void **state)
{
    lines_of_a_reflection_leave_with_it(state, false, true);
}

/* Also when it was condensed once more: the newest text speaks for all of them. */
static void lines_of_a_twice_condensed_reflection_leave_with_the_last_one(void **state)
{
    context_world *world = *state;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_uuid ids[8];
    quipu_uuid first;

    lines_fill(world, ids);
    (void)context_says(world, "one", 0);
    lines_condense(world, "{\"reflection\":\"Eight teas, each of some number.\"}");
    first = lines_reflection(world->store, "s");
    lines_fill(world, ids);
    lines_condense(world, "{\"reflection\":\"All the teas.\"}");
    patch.kind = QUIPU_REFLECTION;
    patch.id = lines_reflection(world->store, "s");
    assert_memory_not_equal(patch.id.b, first.b, sizeof(first.b));
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    assert_non_null(strstr(context_prompt(world), "tea number 3."));
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    T_OK(quipu_memory_update(world->store, &patch, NULL, NULL, NULL));
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "tea"));
}

static void superseded_line_leaves_at_once_also_when_it_was_condensed(void **state)
{
    context_world *world = *state;
    quipu_uuid ids[8];
    quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                           .session_key = QUIPU_STR("s"),
                           .content = QUIPU_STR("Coffee now."),
                           .priority = QUIPU_PRIORITY_STANDING,
                           .has_supersedes = true};

    lines_fill(world, ids);
    (void)context_says(world, "one", 0);
    lines_condense(world, "{\"reflection\":\"Eight teas.\"}");
    memory.supersedes = ids[3];
    T_OK(t_memory_save(world->store, &memory, NULL, NULL, NULL));
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "tea number"));
    assert_non_null(strstr(context_prompt(world), "- Coffee now."));
}

/* ---- nobody else's -----------------------------------------------------------------------------
 */

/* The name of a user's scope is a key that a session could have. */
static void key_in_the_form_of_a_users_scope_has_nothing_of_the_user(void **state)
{
    context_world *world = *state;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;

    context_stands(world, "s", "I am Ada.");
    /* Listed before there is such a session... */
    query.session_key = options.key = QUIPU_STR("adk:app/ada/");
    query.kind = QUIPU_OBSERVATION;
    query.flags = QUIPU_MEMORY_FIND_SCOPE;
    T_OK(quipu_memory_find(world->store, &query, NULL, &list, NULL));
    assert_int_equal(list->memories.count, 0);
    quipu_free(list);
    /* ...written to... */
    context_stands(world, "adk:app/ada/", "I am Mallory.");
    (void)context_says(world, "who am I?", 0);
    assert_non_null(strstr(context_prompt(world), "Ada"));
    assert_null(strstr(context_prompt(world), "Mallory"));
    /* ...and sent. */
    context_create(world->store, "adk:app/ada/", NULL);
    T_OK(quipu_context_make(world->store, &options, NULL, &context, NULL));
    assert_non_null(strstr(context->block.p, "Mallory"));
    assert_null(strstr(context->block.p, "Ada"));
    quipu_free(context);
}

/* ---- when it pays ------------------------------------------------------------------------------
 */

/* Long lines are condensed early in a conversation: what is sent again is little, what is saved is
 * much. */
static void shorter_block_comes_when_it_pays(void **state)
{
    context_world *world = *state;
    char text[LINES_LONG];
    quipu_turn_result result;

    for (int i = 0; i < 3; i++) {
        char word[20];

        (void)snprintf(word, sizeof(word), "Known%d", i);
        context_keep(world, "s", QUIPU_OBSERVATION, QUIPU_PRIORITY_NONE, lines_long(text, word));
    }
    (void)context_says(world, "one", 20000);
    assert_non_null(strstr(context_prompt(world), "Known1"));
    context_stands(world, "s", "Be brief.");
    (void)context_says(world, "two", 20000);
    lines_condense(world, "{\"reflection\":\"Much tea.\"}");
    result = context_says(world, "three", 20000);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_PAYS);
    assert_null(strstr(context_prompt(world), "Known1"));
    assert_non_null(strstr(context_prompt(world), "### Standing\n- Be brief.\n\n"
                                                  "### Summary\nMuch tea.\nuser: one"));
    context_assert_rebuilt(world->store, result.last_seq, context_prompt(world));
    assert_int_equal(context_says(world, "four", 20000).reason, QUIPU_CONTEXT_REASON_SAME);
}

/* The history is long, and little is saved in the turns that are left until the window moves. */
static void shorter_block_waits_when_it_does_not_pay(void **state)
{
    context_world *world = *state;
    quipu_uuid ids[8];

    lines_fill(world, ids);
    (void)context_says(world, "hello", 5600);
    for (int i = 0; i < 40; i++) {
        context_append(world->store, i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT,
                       "words that take some twenty tokens of the budget, as most messages do, or "
                       "a few more");
    }
    (void)context_says(world, "one", 5600);
    lines_condense(world, "{\"reflection\":\"Much tea.\"}");
    assert_int_equal(context_says(world, "two", 5600).reason, QUIPU_CONTEXT_REASON_SAME);
    assert_non_null(strstr(context_prompt(world), "tea number 3."));
}

/* ---- a cold cache ------------------------------------------------------------------------------
 */

static int lines_teardown(void **state)
{
    qp_time_step(0);
    return context_teardown(state);
}

/* A model whose cache lives five minutes. */
static const quipu_model_row lines_model = {.prefix = {"test-model", 10},
                                            .window = 100000,
                                            .budget = 20000,
                                            .cache = QUIPU_CACHE_EXPLICIT,
                                            .cache_ttl = 300,
                                            .cache_min = 1};
static const quipu_model_rows lines_models = {&lines_model, 1, sizeof(lines_model)};

static quipu_turn_result lines_says(context_world *world, const char *says)
{
    quipu_turn_options options = script_options(world->script, says);

    options.flags = QUIPU_TURN_MEMORY | QUIPU_TURN_NO_RECALL;
    options.models = &lines_models;
    world->script->steps[world->script->at].texts[0] = "Fine.";
    return script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
}

static void cold_cache_is_used_to_take_new_lines_into_the_block(void **state)
{
    context_world *world = *state;
    quipu_turn_result result;

    context_stands(world, "s", "I prefer trains.");
    (void)lines_says(world, "one");
    context_stands(world, "s", "Be brief.");
    result = lines_says(world, "two");
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_SAME);
    assert_true(result.expected_cached > 0);
    assert_non_null(strstr(context_prompt(world), "- Be brief.\n\ntwo"));
    qp_time_step(INT64_C(301) * 1000);
    result = lines_says(world, "three");
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_IDLE);
    assert_int_equal(result.expected_cached, 0);
    assert_non_null(strstr(context_prompt(world), "### Standing\n- I prefer trains.\n- Be brief."));
    assert_null(strstr(context_prompt(world), "To keep in mind"));
    assert_int_equal(lines_says(world, "four").reason, QUIPU_CONTEXT_REASON_SAME);
}

/* Nothing to take in: the cache is cold, and no byte changes. A clock that goes back is no
 * reason. */
static void cold_cache_without_new_lines_changes_no_byte(void **state)
{
    context_world *world = *state;
    const char *first;
    quipu_turn_result result;

    context_stands(world, "s", "I prefer trains.");
    (void)lines_says(world, "one");
    first = context_prompt(world);
    qp_time_step(INT64_C(301) * 1000);
    result = lines_says(world, "two");
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_SAME);
    assert_int_equal(result.expected_cached, 0);
    context_assert_begins(context_prompt(world), first);
    context_stands(world, "s", "Be brief.");
    qp_time_step(INT64_C(-7200) * 1000);
    result = lines_says(world, "three");
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_SAME);
    assert_non_null(strstr(context_prompt(world), "- Be brief.\n\nthree"));
}

/* ---- Lango's file ------------------------------------------------------------------------------
 */

/* What Lango observed is in the prompt of the adopted session, is condensed with what our workers
 * observe, and its messages are observed from the first one on. */
static void memories_of_an_adopted_file_join_the_pipeline(void **state)
{
    context_world *world = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_context_options prompt = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_context *context = NULL;
    quipu_store *store = NULL;
    quipu_error err = {0};
    char path[T_PATH_MAX];

    t_fixture("lango-mattn.db", path);
    T_OK(quipu_open(path, NULL, &store, &err));
    prompt.key = options.session_key = QUIPU_STR(LINES_LANGO);
    prompt.model = QUIPU_STR("test-model");
    prompt.models = &lines_models; /* its cache has nothing of last year's talk */
    T_OK(quipu_context_make(store, &prompt, NULL, &context, &err));
    assert_string_equal(context->block.p, "## Conversation Memory\n\n### Summary\n"
                                          "User explores a directory with the exec tool.\n"
                                          "Meta: short file-listing conversation.");
    quipu_free(context);
    /* Retired as any other. */
    patch.kind = QUIPU_REFLECTION;
    patch.id = lines_reflection(store, LINES_LANGO);
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, &err));
    T_OK(quipu_context_make(store, &prompt, NULL, &context, &err));
    assert_string_equal(context->block.p, "## Conversation Memory\n\n### Summary\n"
                                          "User explores a directory with the exec tool.");
    quipu_free(context);
    T_OK(quipu_memory_run(store, &options, NULL, &ran, &err));
    assert_int_equal(ran.messages, 7);
    world->script->steps[0].texts[0] =
        "{\"reflection\":\"The user explores, lists files. Greeting. 사용자가.\"}";
    options.provider = &world->script->provider;
    options.model = QUIPU_STR("m");
    options.observe_tokens = 1000000;
    options.reflect_tokens = 1;
    T_OK(quipu_memory_run(store, &options, NULL, &ran, &err));
    assert_int_equal(ran.reflections, 1);
    assert_true(ran.condensed >= LINES_LANGO_KNOWN);
    T_OK(quipu_context_make(store, &prompt, NULL, &context, &err));
    assert_string_equal(context->block.p, "## Conversation Memory\n\n### Summary\nThe user "
                                          "explores, lists files. Greeting. 사용자가.");
    quipu_free(context);
    quipu_close(store);
}

#define LINES_TEST(name) cmocka_unit_test_setup_teardown(name, context_setup, lines_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(older_lines_are_sent_although_the_window_shows_many_newer_ones),
        CONTEXT_TEST(summaries_are_sent_although_many_newer_reflections_stand),
        CONTEXT_TEST(a_block_has_so_many_lines_and_no_more),
        CONTEXT_TEST(a_prompt_has_so_many_tails_and_no_more),
        LINES_TEST(standing_line_reaches_the_next_turn_when_observations_fill_the_block),
        LINES_TEST(standing_line_is_not_held_up_by_an_older_one_that_does_not_fit),
        LINES_TEST(standing_line_that_finds_no_room_makes_the_block_anew),
        LINES_TEST(line_of_two_letters_stands_also_in_a_new_block),
        LINES_TEST(lines_of_a_retired_reflection_leave_at_once),
        LINES_TEST(lines_of_a_deleted_reflection_leave_at_once),
        LINES_TEST(lines_of_an_edited_reflection_leave_at_once),
        LINES_TEST(lines_of_a_twice_condensed_reflection_leave_with_the_last_one),
        LINES_TEST(superseded_line_leaves_at_once_also_when_it_was_condensed),
        LINES_TEST(key_in_the_form_of_a_users_scope_has_nothing_of_the_user),
        LINES_TEST(shorter_block_comes_when_it_pays),
        LINES_TEST(shorter_block_waits_when_it_does_not_pay),
        LINES_TEST(cold_cache_is_used_to_take_new_lines_into_the_block),
        LINES_TEST(memories_of_an_adopted_file_join_the_pipeline),
        LINES_TEST(cold_cache_without_new_lines_changes_no_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
