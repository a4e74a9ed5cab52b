/* Prompts with memory: they begin with the bytes of the one before, say why when they do not, and
 * every one that was sent can be built again. */
#include "agent/context_t.h"
#include "lib/short.h"

/* ---- standing lines ----------------------------------------------------------------------------
 */

static void standing_line_reaches_the_next_turn_and_no_byte_before_it_changes(void **state)
{
    context_world *world = *state;
    const char *first;
    const char *second;

    context_stands(world, "s", "I prefer trains.");
    assert_int_equal(context_says(world, "hello", 0).reason, QUIPU_CONTEXT_REASON_FIRST);
    first = context_prompt(world);
    assert_non_null(strstr(first, "Be kind.\n## Conversation Memory\n\n### Standing\n"
                                  "- I prefer trains.\nuser: hello"));
    context_stands(world, "s", "Always give prices in euros.");
    assert_int_equal(context_says(world, "and now?", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    second = context_prompt(world);
    context_assert_begins(second, first);
    assert_non_null(strstr(second, "user: To keep in mind from now on:\n"
                                   "- Always give prices in euros.\n\nand now?"));
    assert_int_equal(context_says(world, "go on", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), second);
    assert_null(strstr(strstr(context_prompt(world), "euros") + 1, "euros"));
}

static void standing_line_reaches_every_session_of_the_user_and_nobody_else(void **state)
{
    context_world *world = *state;

    context_create(world->store, "other", "ada");
    context_create(world->store, "stranger", "bob");
    (void)context_says(world, "hello", 0);
    context_stands(world, "other", "I am Ada.");
    context_stands(world, "stranger", "I am Bob.");
    context_keep(world, "other", QUIPU_OBSERVATION, QUIPU_PRIORITY_LOW, "It rained.");
    (void)context_says(world, "who am I?", 0);
    assert_non_null(strstr(context_prompt(world), "I am Ada."));
    assert_null(strstr(context_prompt(world), "Bob"));
    assert_null(strstr(context_prompt(world), "rained"));
}

static void retired_line_leaves_at_once_with_a_reason(void **state)
{
    context_world *world = *state;
    const quipu_uuid trains = context_stands(world, "s", "I prefer trains.");
    quipu_uuid euros;

    (void)context_says(world, "one", 0);
    euros = context_stands(world, "s", "Prices in euros.");
    (void)context_says(world, "two", 0);
    context_retire(world, trains);
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "trains"));
    assert_non_null(strstr(context_prompt(world), "### Standing\n- Prices in euros."));
    /* Also a line that stands with a message only. */
    (void)context_stands(world, "s", "Be brief.");
    (void)context_says(world, "four", 0);
    context_retire(world, euros);
    assert_int_equal(context_says(world, "five", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "euros"));
    assert_non_null(strstr(context_prompt(world), "### Standing\n- Be brief."));
    assert_int_equal(context_says(world, "six", 0).reason, QUIPU_CONTEXT_REASON_SAME);
}

/* A reflection comes into the block when that is made anew, and the cache is not lost for it. */
static void condensed_lines_stay_until_a_stated_point(void **state)
{
    context_world *world = *state;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_uuid ids[8];
    const char *first;

    for (int i = 0; i < 8; i++) {
        char text[100];

        (void)snprintf(text, sizeof(text), "The user has said something about tea number %d.", i);
        ids[i] = context_keep(world, "s", QUIPU_OBSERVATION, QUIPU_PRIORITY_NONE, text);
    }
    (void)context_says(world, "one", 0);
    first = context_prompt(world);
    assert_non_null(strstr(first, "tea number 3."));
    world->script->steps[world->script->at].texts[0] = "{\"reflection\":\"Eight teas.\"}";
    options.session_key = QUIPU_STR("s");
    options.provider = &world->script->provider;
    options.model = QUIPU_STR("m");
    options.observe_tokens = 1000000;
    options.reflect_tokens = 1;
    T_OK(quipu_memory_run(world->beside, &options, NULL, &ran, NULL));
    assert_int_equal(ran.condensed, 8);
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), first);
    /* What a person retires leaves at once, also when it was condensed. */
    context_retire(world, ids[3]);
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "tea number"));
    assert_non_null(strstr(context_prompt(world), "### Summary\nEight teas."));
}

static void edited_and_deleted_lines_are_reasons(void **state)
{
    context_world *world = *state;
    quipu_uuid ids[2] = {context_stands(world, "s", "I live in Rome."),
                         context_stands(world, "s", "I have a dog.")};
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    (void)context_says(world, "one", 0);
    patch.kind = query.kind = QUIPU_OBSERVATION;
    patch.id = ids[0];
    patch.set = QUIPU_MEMORY_SET_CONTENT;
    patch.content = QUIPU_STR("I live in Oslo.");
    T_OK(quipu_memory_update(world->store, &patch, NULL, NULL, NULL));
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_non_null(strstr(context_prompt(world), "Oslo"));
    assert_null(strstr(context_prompt(world), "Rome"));
    query.ids = &ids[1];
    query.id_count = 1;
    T_OK(quipu_memory_delete(world->store, &query, NULL, NULL, NULL));
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_MEMORY);
    assert_null(strstr(context_prompt(world), "dog"));
    /* What was deleted is in no past prompt either, and the prompt says so. */
    quipu_context *past = context_get(world->store, 1, QUIPU_OK);
    char *noted = context_noted(past);
    assert_false(past->exact);
    assert_null(strstr(noted, "dog"));
    free(noted);
    quipu_free(past);
}

static void lower_priority_of_a_sent_line_changes_no_byte(void **state)
{
    context_world *world = *state;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    const char *first;

    patch.kind = QUIPU_OBSERVATION;
    patch.id = context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    first = context_prompt(world);
    patch.set = QUIPU_MEMORY_SET_PRIORITY;
    patch.priority = QUIPU_PRIORITY_HIGH;
    T_OK(quipu_memory_update(world->store, &patch, NULL, NULL, NULL));
    assert_int_equal(context_says(world, "two", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), first);
}

/* ---- without memory ----------------------------------------------------------------------------
 */

static void session_without_memories_gets_the_plain_prompt_and_no_log(void **state)
{
    context_world *world = *state;
    script *plain = NULL;
    quipu_store *other = NULL;
    quipu_error err = {0};
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;

    T_NOT_SERVED("its turns need two stores with files");
    plain = script_new();
    other = st_open_new(NULL, NULL);
    st_create(other, "s");
    for (int i = 0; i < 30; i++) {
        char says[CONTEXT_TEXT];
        quipu_turn_options without;

        (void)snprintf(says, sizeof(says), "line %d about wind and rain and nothing else", i);
        (void)context_says(world, says, 300);
        without = script_options(plain, says);
        without.flags = QUIPU_TURN_NO_RECALL;
        without.token_budget = 300;
        plain->steps[plain->at].texts[0] = "Fine.";
        (void)script_turn(other, plain, &without, &world->arena, QUIPU_OK);
        assert_string_equal(context_prompt(world), plain->prompts[plain->at - 1]);
    }
    options.key = QUIPU_STR("s");
    options.at_seq = 1000;
    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_NOT_FOUND);
    quipu_close(other);
    script_free(plain);
}

static void first_memory_of_a_session_changes_no_byte_of_what_was_sent_before(void **state)
{
    context_world *world = *state;
    const char *plain;
    quipu_turn_result result;

    (void)context_says(world, "one", 0);
    (void)context_says(world, "two", 0);
    plain = context_prompt(world);
    context_stands(world, "s", "I prefer trains.");
    result = context_says(world, "three", 0);
    context_assert_begins(context_prompt(world), plain);
    assert_non_null(strstr(context_prompt(world), "- I prefer trains.\n\nthree"));
    context_assert_rebuilt(world->store, result.last_seq, context_prompt(world));
    plain = context_prompt(world);
    assert_int_equal(context_says(world, "four", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), plain);
}

/* ---- the window --------------------------------------------------------------------------------
 */

static void window_moves_rarely_and_every_move_is_stated(void **state)
{
    context_world *world = *state;
    char before[20000] = "";
    int moves = 0;

    context_stands(world, "s", "I prefer trains.");
    for (int i = 0; i < 60; i++) {
        char says[CONTEXT_TEXT];
        quipu_turn_result result;

        (void)snprintf(says, sizeof(says),
                       "turn %d has some forty letters about trains, and a few more for good "
                       "measure",
                       i);
        result = context_says(world, says, 600);
        assert_true(result.estimated <= 600);
        if (result.reason == QUIPU_CONTEXT_REASON_SAME) {
            context_assert_begins(context_prompt(world), before);
            assert_true(result.shared > 0);
        } else {
            assert_int_equal(result.reason,
                             i == 0 ? QUIPU_CONTEXT_REASON_FIRST : QUIPU_CONTEXT_REASON_WINDOW);
            moves++;
        }
        assert_non_null(strstr(context_prompt(world), "- I prefer trains."));
        (void)snprintf(before, sizeof(before), "%s", context_prompt(world));
    }
    assert_true(moves >= 3 && moves <= 12);
}

static void memories_of_messages_that_are_sent_are_left_out(void **state)
{
    context_world *world = *state;
    quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                           .session_key = QUIPU_STR("s"),
                           .content = QUIPU_STR("The sky is green."),
                           .priority = QUIPU_PRIORITY_HIGH,
                           .source_start = 1,
                           .source_end = 1};

    (void)context_says(world, "The sky is green.", 0);
    T_OK(t_memory_save(world->store, &memory, NULL, NULL, NULL));
    context_stands(world, "s", "Be brief.");
    (void)context_says(world, "and the sea?", 0);
    assert_null(strstr(context_prompt(world), "- The sky"));
    /* When the message has left, what is known of it comes. */
    for (int i = 0; i < 12; i++) {
        (void)context_says(world, "many words about something else, to fill up the little budget",
                           250);
    }
    assert_null(strstr(context_prompt(world), "user: The sky"));
    assert_non_null(strstr(context_prompt(world), "### Recent Observations\n- The sky is green."));
}

static void other_model_other_instruction_and_a_compaction_are_reasons(void **state)
{
    context_world *world = *state;
    quipu_part system = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Be short.")};
    quipu_turn_options options;
    quipu_model_request request;
    quipu_turn_result result;
    quipu_error err = {0};

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    options = script_options(world->script, "two");
    request = *options.request;
    options.flags = QUIPU_TURN_MEMORY;
    options.model = QUIPU_STR("other-model");
    world->script->steps[1].texts[0] = "Fine.";
    result = script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_MODEL);
    request.system = quipu_parts_of(&system, 1);
    options.request = &request;
    world->script->steps[2].texts[0] = "Fine.";
    result = script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_INSTRUCTIONS);
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"),
                               T_COMPACT(2, QUIPU_STR("They said one thing.")), NULL, NULL, &err));
    world->script->steps[3].texts[0] = "Fine.";
    result = script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_COMPACTION);
    assert_non_null(strstr(context_prompt(world), "They said one thing."));
    assert_null(strstr(context_prompt(world), "user: one"));
    context_assert_rebuilt(world->store, result.last_seq, context_prompt(world));
    /* From then on it is the same again, the summary included. */
    world->script->steps[4].texts[0] = "Fine.";
    result = script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_SAME);
    context_assert_begins(context_prompt(world), world->script->prompts[3]);
    context_assert_rebuilt(world->store, result.last_seq, context_prompt(world));
}

/* ---- past prompts ------------------------------------------------------------------------------
 */

/* Whatever else has changed meanwhile. */
static void compaction_is_not_missed_when_a_memory_was_corrected_as_well(void **state)
{
    context_world *world = *state;
    const quipu_uuid id = context_stands(world, "s", "I prefer trains.");
    quipu_error err = {0};

    context_stands(world, "s", "Be brief.");
    (void)context_says(world, "one", 0);
    (void)context_says(world, "two", 0);
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"), T_COMPACT(2, QUIPU_STR("They met.")),
                               NULL, NULL, &err));
    context_retire(world, id);
    assert_int_equal(context_says(world, "three", 0).reason, QUIPU_CONTEXT_REASON_COMPACTION);
    assert_non_null(strstr(context_prompt(world), "They met."));
    assert_null(strstr(context_prompt(world), "user: one"));
    assert_null(strstr(context_prompt(world), "trains"));
    assert_int_equal(context_says(world, "four", 0).reason, QUIPU_CONTEXT_REASON_SAME);
}

/* A program that compacts before it sends: the summary is the session's last message. */
static void summary_behind_the_input_is_a_reason_once(void **state)
{
    context_world *world = *state;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    options.key = QUIPU_STR("s");
    options.flags = QUIPU_CONTEXT_LOG;
    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    context_append(world->store, QUIPU_ROLE_USER, "two");
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"), T_COMPACT(2, QUIPU_STR("They met.")),
                               NULL, NULL, &err));
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    quipu_free(context);
    context_append(world->store, QUIPU_ROLE_ASSISTANT, "Fine.");
    context_stands(world, "s", "Be brief.");
    context_append(world->store, QUIPU_ROLE_USER, "three");
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    assert_int_equal(context->reason, QUIPU_CONTEXT_REASON_SAME);
    assert_null(strstr(context->block.p, "brief"));
    quipu_free(context);
}

static void every_prompt_of_the_past_is_built_again_byte_for_byte(void **state)
{
    context_world *world = *state;
    int64_t at[SCRIPT_STEPS_MAX] = {0};
    quipu_uuid id = context_stands(world, "s", "I prefer trains.");
    size_t asked = 0;

    world->script->steps[3].calls[0] = "a";
    world->script->steps[3].calls[1] = "b";
    world->script->steps[7].thought = "hm";
    world->script->steps[7].texts[0] = "Fine.";
    for (int i = 0; world->script->at < 30; i++) {
        char says[CONTEXT_TEXT];
        quipu_turn_result result;

        (void)snprintf(says, sizeof(says), "turn %d says some words about trains and boats", i);
        if (i == 5) {
            context_stands(world, "s", "Prices in euros.");
        }
        if (i == 9) {
            context_retire(world, id);
        }
        result = context_says(world, says, 700);
        /* The answer of each request: a turn with tools asked twice. */
        if (result.steps == 2) {
            at[asked++] = result.first_seq + 1;
        }
        at[asked++] = result.last_seq;
        assert_int_equal(asked, world->script->at);
    }
    for (size_t i = 0; i < asked; i++) {
        context_assert_rebuilt(world->store, at[i], world->script->prompts[i]);
        /* By the message that it ended with, too. */
        context_assert_rebuilt(world->store, at[i] - 1, world->script->prompts[i]);
    }
}

static void past_prompts_survive_an_export_and_go_with_their_session(void **state)
{
    context_world *world = *state;
    quipu_store *other = NULL;
    char *prompt;
    mt_stream stream;
    mt_stream again;

    T_NOT_SERVED("a server does not import");
    other = st_open_new(NULL, NULL);
    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    context_stands(world, "s", "Prices in euros.");
    (void)context_says(world, "two", 0);
    prompt = world->script->prompts[1];
    stream = mt_export(world->store, NULL);
    assert_true(mt_find(stream.p, stream.n, "\"type\":\"context\""));
    (void)mt_import(other, &stream);
    context_assert_rebuilt(other, 4, prompt);
    mt_clean(other);
    again = mt_export(other, NULL);
    assert_int_equal(again.n, stream.n);
    assert_memory_equal(again.p, stream.p, stream.n);
    T_OK(quipu_session_delete(other, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    mt_clean(other);
    mt_free(&stream);
    mt_free(&again);
    quipu_close(other);
}

static void pruned_messages_change_no_prompt_and_their_own_cannot_be_built(void **state)
{
    context_world *world = *state;
    quipu_error err = {0};

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    (void)context_says(world, "two", 0);
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"),
                               T_COMPACT(2, QUIPU_STR("They said one.")), NULL, NULL, &err));
    (void)context_says(world, "three", 0);
    T_OK(quipu_session_prune(world->store, QUIPU_STR("s"), NULL, NULL, &err));
    assert_int_equal(context_says(world, "four", 0).reason, QUIPU_CONTEXT_REASON_SAME);
    assert_null(context_get(world->store, 2, QUIPU_NOT_FOUND));
    mt_clean(world->beside);
}

static void capped_messages_are_named_where_a_prompt_needs_them(void **state)
{
    context_world *world = *state;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_open_options capped = QUIPU_OPEN_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    T_NOT_SERVED("a server has the cap of its start");
    capped.cap_messages = 4;
    quipu_close(world->store);
    T_OK(quipu_open(world->path, &capped, &world->store, &err));
    world->beside = world->store;
    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    (void)context_says(world, "two", 0);
    context_assert_rebuilt(world->store, 4, world->script->prompts[1]);
    (void)context_says(world, "three", 0); /* messages 1 and 2 leave */
    (void)context_says(world, "four", 0);
    options.key = QUIPU_STR("s");
    for (options.at_seq = 1; options.at_seq <= 8; options.at_seq++) {
        /* Turn 4 was sent with turn 2, which the cap removed when its input was appended. */
        const char *first = options.at_seq <= 6 ? "began with message 1," : "began with message 3,";

        T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_NOT_FOUND);
        assert_non_null(strstr(err.message, first));
        assert_non_null(
            strstr(err.message, "which is deleted: the session has messages from 5 on"));
    }
    mt_clean(world->beside);
}

static void message_without_a_logged_prompt_has_none(void **state)
{
    context_world *world = *state;

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    context_append(world->store, QUIPU_ROLE_USER, "said without a turn");
    context_append(world->store, QUIPU_ROLE_ASSISTANT, "answered without one");
    context_assert_rebuilt(world->store, 2, world->script->prompts[0]);
    assert_null(context_get(world->store, 3, QUIPU_NOT_FOUND));
    assert_null(context_get(world->store, 4, QUIPU_NOT_FOUND));
    assert_null(context_get(world->store, 99, QUIPU_NOT_FOUND));
}

/* ---- forks -------------------------------------------------------------------------------------
 */

static void context_fork(context_world *world, const char *from, int64_t seq, const char *key,
                         const char *user)
{
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    values.app_name = QUIPU_STR("app");
    values.user_id = quipu_cstr(user);
    values.session_id = quipu_cstr(key);
    T_OK(quipu_session_fork(world->store, quipu_cstr(from), seq, &values, NULL, NULL, &err));
}

static quipu_status context_forked(quipu_store *store, const char *key, int64_t at,
                                   const char *prompt, quipu_error *err)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_status status;

    options.key = quipu_cstr(key);
    options.at_seq = at;
    status = quipu_context_make(store, &options, NULL, &context, err);
    if (status == QUIPU_OK) {
        char *noted = context_noted(context);

        assert_string_equal(noted, prompt);
        assert_true(context->exact);
        free(noted);
        quipu_free(context);
    }
    return status;
}

static void fork_builds_the_prompts_that_it_shares_with_its_ancestors(void **state)
{
    context_world *world = *state;
    char **prompts = world->script->prompts;
    quipu_error err = {0};

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0); /* 1, 2 */
    context_stands(world, "s", "Prices in euros.");
    (void)context_says(world, "two", 0); /* 3, 4 */
    world->script->steps[2].calls[0] = "a";
    (void)context_says(world, "three", 0); /* 5, call 6, result 7, answer 8 */
    context_fork(world, "s", 4, "f", "ada");
    context_fork(world, "f", 2, "g", "ada");
    context_fork(world, "s", 6, "h", "ada");
    for (int64_t at = 1; at <= 4; at++) {
        T_OK(context_forked(world->store, "f", at, prompts[(at - 1) / 2], &err));
    }
    T_OK(context_forked(world->store, "g", 2, prompts[0], &err));
    /* A fork in the middle of a turn has its first prompt, and not the one with the result. */
    T_OK(context_forked(world->store, "h", 6, prompts[2], &err));
    T_STATUS(context_forked(world->store, "h", 7, NULL, &err), QUIPU_NOT_FOUND);
    /* What the ancestor says later is no part of the fork. */
    T_STATUS(context_forked(world->store, "f", 5, NULL, &err), QUIPU_NOT_FOUND);
    mt_clean(world->beside);
}

/* What the ancestor prunes is still the fork's, and so are the prompts that had it; a line that is
 * retired stays in the history of both. */
static void fork_keeps_the_prompts_that_its_ancestor_has_pruned(void **state)
{
    context_world *world = *state;
    char **prompts = world->script->prompts;
    quipu_error err = {0};
    quipu_uuid trains = context_stands(world, "s", "I prefer trains.");

    (void)context_says(world, "one", 0);
    context_stands(world, "s", "Prices in euros.");
    (void)context_says(world, "two", 0);
    context_fork(world, "s", 4, "f", "ada");
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"),
                               T_COMPACT(4, QUIPU_STR("They said two.")), NULL, NULL, &err));
    T_OK(quipu_session_prune(world->store, QUIPU_STR("s"), NULL, NULL, &err));
    context_retire(world, trains);
    assert_null(context_get(world->store, 2, QUIPU_NOT_FOUND));
    for (int64_t at = 1; at <= 4; at++) {
        T_OK(context_forked(world->store, "f", at, prompts[(at - 1) / 2], &err));
    }
    (void)context_says(world, "three", 0);
    T_OK(context_forked(world->store, "f", 4, prompts[1], &err));
    mt_clean(world->beside);
}

static void fork_of_another_user_or_of_a_deleted_session_says_so(void **state)
{
    context_world *world = *state;
    quipu_error err = {0};

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    context_fork(world, "s", 2, "theirs", "bob");
    context_fork(world, "s", 2, "mine", "ada");
    T_STATUS(context_forked(world->store, "theirs", 2, NULL, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "another user"));
    T_OK(quipu_session_delete(world->store, QUIPU_STR("s"), NULL, NULL, NULL, &err));
    T_STATUS(context_forked(world->store, "mine", 2, NULL, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "nothing that was sent is logged"));
    mt_clean(world->beside);
}

static void turn_that_failed_is_repeated_with_the_same_prompt(void **state)
{
    context_world *world = *state;
    quipu_turn_options options;
    quipu_turn_result result;

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    context_stands(world, "s", "Prices in euros.");
    world->script->steps[1].fail = QUIPU_IO;
    options = script_options(world->script, "two");
    options.flags = QUIPU_TURN_MEMORY;
    (void)script_turn(world->beside, world->script, &options, &world->arena, QUIPU_IO);
    context_stands(world, "s", "Be brief.");
    options = script_options(world->script, NULL);
    options.flags = QUIPU_TURN_MEMORY;
    world->script->steps[2].texts[0] = "Fine.";
    result = script_turn(world->beside, world->script, &options, &world->arena, QUIPU_OK);
    assert_int_equal(result.reason, QUIPU_CONTEXT_REASON_SAME);
    assert_string_equal(world->script->prompts[2], world->script->prompts[1]);
    context_assert_rebuilt(world->store, result.last_seq, world->script->prompts[2]);
    /* The newest line stands with the next input. */
    (void)context_says(world, "three", 0);
    context_assert_begins(context_prompt(world), world->script->prompts[2]);
    assert_non_null(strstr(context_prompt(world), "- Be brief.\n\nthree"));
}

static void reported_tokens_stand_beside_the_expected_ones(void **state)
{
    context_world *world = *state;
    quipu_context *context;
    quipu_turn_result result;

    context_stands(world, "s", "I prefer trains.");
    (void)context_says(world, "one", 0);
    world->script->steps[1].tokens = 100;
    world->script->steps[1].texts[0] = "Fine.";
    result = context_says(world, "two", 0);
    context = context_get(world->store, result.last_seq, QUIPU_OK);
    assert_int_equal(context->expected_cached, result.expected_cached);
    assert_true(context->expected_cached > 0);
    assert_int_equal(context->reported_input, 100);
    assert_int_equal(context->reported_cached, 50);
    quipu_free(context);
}

static void context_of_a_programs_own_loop_is_logged_on_request(void **state)
{
    context_world *world = *state;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *first = NULL;
    quipu_context *second = NULL;
    quipu_context *again = NULL;
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_error err = {0};

    context_stands(world, "s", "I prefer trains.");
    context_append(world->store, QUIPU_ROLE_USER, "hello");
    options.key = QUIPU_STR("s");
    options.provider = QUIPU_STR("own");
    T_OK(quipu_context_make(world->store, &options, NULL, &first, &err));
    quipu_free(first);
    assert_null(context_get(world->store, 1, QUIPU_NOT_FOUND));
    options.flags = QUIPU_CONTEXT_LOG;
    T_OK(quipu_context_make(world->store, &options, NULL, &first, &err));
    assert_int_equal(first->reason, QUIPU_CONTEXT_REASON_FIRST);
    assert_int_equal(first->first_seq, 1);
    assert_int_equal(first->last_seq, 1);
    context_append(world->store, QUIPU_ROLE_ASSISTANT, "hi");
    context_append(world->store, QUIPU_ROLE_USER, "prices?");
    context_stands(world, "s", "Prices in euros.");
    usage.input = 50;
    usage.cached = 20;
    options.usage = &usage;
    T_OK(quipu_context_make(world->store, &options, NULL, &second, &err));
    assert_int_equal(second->reason, QUIPU_CONTEXT_REASON_SAME);
    assert_memory_equal(second->prefix_hash, first->prompt_hash, QUIPU_CONTEXT_HASH);
    assert_int_equal(second->shared, first->tokens);
    assert_non_null(strstr(second->tail.p, "euros"));
    again = context_get(world->store, 1, QUIPU_OK);
    assert_true(again->exact);
    assert_int_equal(again->reported_cached, 20);
    assert_memory_equal(again->prompt_hash, first->prompt_hash, QUIPU_CONTEXT_HASH);
    quipu_free(again);
    again = context_get(world->store, 3, QUIPU_OK);
    assert_true(again->exact);
    assert_memory_equal(again->prompt_hash, second->prompt_hash, QUIPU_CONTEXT_HASH);
    quipu_free(again);
    quipu_free(first);
    quipu_free(second);
}

/* Nothing of it could be built again, and verify would report the row as damage. */
static void prompt_of_a_summary_alone_is_not_logged(void **state)
{
    context_world *world = *state;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    context_append(world->store, QUIPU_ROLE_USER, "hello");
    T_OK(quipu_session_compact(world->store, QUIPU_STR("s"), T_COMPACT(1, QUIPU_STR("They met.")),
                               NULL, NULL, &err));
    options.key = QUIPU_STR("s");
    options.flags = QUIPU_CONTEXT_LOG;
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    quipu_free(context);
    assert_null(context_get(world->store, 2, QUIPU_NOT_FOUND));
    mt_clean(world->beside);
    context_append(world->store, QUIPU_ROLE_USER, "and again");
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    quipu_free(context);
    context = context_get(world->store, 3, QUIPU_OK);
    assert_true(context->exact);
    quipu_free(context);
    mt_clean(world->beside);
}

static void wrong_calls_are_refused(void **state)
{
    context_world *world = *state;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};

    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_MISUSE);
    options.key = QUIPU_STR("s");
    options.at_seq = -1;
    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_MISUSE);
    options.at_seq = 1;
    options.flags = QUIPU_CONTEXT_LOG;
    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_MISUSE);
    options.at_seq = 0;
    options.flags = 0;
    options.token_budget = (int64_t)QUIPU_TURN_BUDGET_MAX + 1;
    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_LIMIT);
    options.token_budget = QUIPU_TURN_BUDGET_MAX;
    T_OK(quipu_context_make(world->store, &options, NULL, &context, &err));
    quipu_free(context);
    context = NULL;
    options.key = QUIPU_STR("nobody");
    T_STATUS(quipu_context_make(world->store, &options, NULL, &context, &err), QUIPU_NOT_FOUND);
    assert_null(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(standing_line_reaches_the_next_turn_and_no_byte_before_it_changes),
        CONTEXT_TEST(standing_line_reaches_every_session_of_the_user_and_nobody_else),
        CONTEXT_TEST(retired_line_leaves_at_once_with_a_reason),
        CONTEXT_TEST(condensed_lines_stay_until_a_stated_point),
        CONTEXT_TEST(edited_and_deleted_lines_are_reasons),
        CONTEXT_TEST(lower_priority_of_a_sent_line_changes_no_byte),
        CONTEXT_TEST(session_without_memories_gets_the_plain_prompt_and_no_log),
        CONTEXT_TEST(first_memory_of_a_session_changes_no_byte_of_what_was_sent_before),
        CONTEXT_TEST(window_moves_rarely_and_every_move_is_stated),
        CONTEXT_TEST(memories_of_messages_that_are_sent_are_left_out),
        CONTEXT_TEST(other_model_other_instruction_and_a_compaction_are_reasons),
        CONTEXT_TEST(compaction_is_not_missed_when_a_memory_was_corrected_as_well),
        CONTEXT_TEST(summary_behind_the_input_is_a_reason_once),
        CONTEXT_TEST(every_prompt_of_the_past_is_built_again_byte_for_byte),
        CONTEXT_TEST(past_prompts_survive_an_export_and_go_with_their_session),
        CONTEXT_TEST(pruned_messages_change_no_prompt_and_their_own_cannot_be_built),
        CONTEXT_TEST(capped_messages_are_named_where_a_prompt_needs_them),
        CONTEXT_TEST(message_without_a_logged_prompt_has_none),
        CONTEXT_TEST(fork_builds_the_prompts_that_it_shares_with_its_ancestors),
        CONTEXT_TEST(fork_keeps_the_prompts_that_its_ancestor_has_pruned),
        CONTEXT_TEST(fork_of_another_user_or_of_a_deleted_session_says_so),
        CONTEXT_TEST(turn_that_failed_is_repeated_with_the_same_prompt),
        CONTEXT_TEST(reported_tokens_stand_beside_the_expected_ones),
        CONTEXT_TEST(context_of_a_programs_own_loop_is_logged_on_request),
        CONTEXT_TEST(prompt_of_a_summary_alone_is_not_logged),
        CONTEXT_TEST(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
