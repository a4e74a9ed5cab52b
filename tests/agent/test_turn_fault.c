/* A turn that is cut short, in every way and at every point: what was said is kept, no call stays
 * open, and the next turn goes on as if nothing had been. */
#include "agent/script.h"

#include <sys/wait.h>
#include <unistd.h>

#define FAULT_CRASHES 5 /* places where a turn may die; at the last one it is done */

typedef struct fault_world {
    quipu_store *store;
    script *script;
    quipu_arena arena;
    char path[T_PATH_MAX];
} fault_world;

static int fault_setup(void **state)
{
    fault_world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->store = st_open_new(NULL, world->path);
    world->script = script_new();
    st_create(world->store, "s");
    *state = world;
    return 0;
}

static int fault_teardown(void **state)
{
    fault_world *world = *state;

    quipu_close(world->store);
    script_free(world->script);
    quipu_arena_free(&world->arena);
    free(world);
    return 0;
}

#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, fault_setup, fault_teardown)

static void fault_turn(fault_world *world, const char *says, quipu_status expected)
{
    quipu_turn_options options = script_options(world->script, says);

    (void)script_turn(world->store, world->script, &options, &world->arena, expected);
}

static void fault_expect(fault_world *world, const char *expected)
{
    char *history = script_history(world->store);

    assert_string_equal(history, expected);
    free(history);
    script_check_valid(world->store);
}

/* A fresh flag, and a turn that must work. */
static void fault_goes_on(fault_world *world)
{
    quipu_free(world->script->cancel);
    world->script->cancel = quipu_cancel_new();
    world->script->tool_cancels = false;
    world->script->tool_status = QUIPU_OK;
    world->script->event_status = QUIPU_OK;
    world->script->steps[world->script->at] = (script_step){.texts = {"fine"}};
    fault_turn(world, "and now?", QUIPU_OK);
    script_check_valid(world->store);
}

static void cancelled_answer_keeps_its_text_byte_for_byte(void **state)
{
    fault_world *world = *state;

    world->script->steps[0] =
        (script_step){.texts = {"  So \xc3\xa9", "\n\twell", "never seen"}, .cancel = true};
    fault_turn(world, "go", QUIPU_CANCELLED);
    fault_expect(world, "user: go|assistant*:   So \xc3\xa9\n\twell");
    assert_int_equal(world->script->reported[QUIPU_MODEL_ERROR], 1);
    fault_goes_on(world);
    assert_string_equal(world->script->prompts[1], "system: Be kind.\nuser: go\nassistant:   So "
                                                   "\xc3\xa9\n\twell\nuser: and now?\n");
}

static void failed_answer_keeps_its_text_and_runs_no_tool(void **state)
{
    fault_world *world = *state;

    world->script->steps[0] = (script_step){.texts = {"I will"}, .calls = {"a"}, .fail = QUIPU_IO};
    fault_turn(world, "go", QUIPU_IO);
    fault_expect(world, "user: go|assistant*: I will");
    assert_int_equal(world->script->tool_runs, 0);
    fault_goes_on(world);
}

static void answer_that_breaks_off_is_cut_and_kept(void **state)
{
    fault_world *world = *state;

    world->script->steps[0] = (script_step){.texts = {"I w"}, .broken = true};
    fault_turn(world, "go", QUIPU_IO);
    fault_expect(world, "user: go|assistant*: I w");
    fault_goes_on(world);
}

static void failure_before_any_text_leaves_the_question_alone(void **state)
{
    fault_world *world = *state;
    quipu_turn_options options;

    world->script->steps[0] = (script_step){.thought = "hm", .fail = QUIPU_BUSY};
    world->script->steps[1] = (script_step){.texts = {"yes"}};
    fault_turn(world, "go", QUIPU_BUSY);
    fault_expect(world, "user: go");
    options = script_options(world->script, NULL);
    (void)script_turn(world->store, world->script, &options, &world->arena, QUIPU_OK);
    fault_expect(world, "user: go|assistant: yes");
}

/* A provider that stops inside of a character: the store takes whole ones only. */
static void half_a_character_is_left_out(void **state)
{
    fault_world *world = *state;

    world->script->steps[0] = (script_step){.texts = {"caf\xc3"}, .fail = QUIPU_IO};
    fault_turn(world, "go", QUIPU_IO);
    fault_expect(world, "user: go|assistant*: caf");
}

static void caller_who_refuses_an_event_ends_the_turn(void **state)
{
    fault_world *world = *state;

    world->script->event_status = QUIPU_FULL;
    world->script->steps[0] = (script_step){.texts = {"one", "two"}};
    fault_turn(world, "go", QUIPU_FULL);
    fault_expect(world, "user: go|assistant*: one");
    fault_goes_on(world);
}

static void tool_that_gives_up_closes_all_calls_once(void **state)
{
    fault_world *world = *state;

    world->script->tool_status = QUIPU_NOT_FOUND;
    world->script->steps[0] = (script_step){.calls = {"a", "b"}};
    fault_turn(world, "go", QUIPU_NOT_FOUND);
    assert_int_equal(world->script->tool_runs, 1);
    fault_expect(world, "user: go|assistant: +a{\"n\":0}+b{\"n\":1}|"
                        "tool: -a{\"error\":\"tool call was interrupted and did not complete\"}|"
                        "tool: -b{\"error\":\"tool call was interrupted and did not complete\"}");
    fault_goes_on(world);
}

/* What a tool did is done: its result is kept although the turn ends. */
static void result_of_a_tool_that_was_cancelled_meanwhile_is_kept(void **state)
{
    fault_world *world = *state;

    world->script->tool_cancels = true;
    world->script->steps[0] = (script_step){.calls = {"a", "b"}};
    fault_turn(world, "go", QUIPU_CANCELLED);
    assert_int_equal(world->script->tool_runs, 1);
    fault_expect(world, "user: go|assistant: +a{\"n\":0}+b{\"n\":1}|tool: -a{\"ok\":true}|"
                        "tool: -b{\"error\":\"tool call was interrupted and did not complete\"}");
    fault_goes_on(world);
}

static void flag_that_is_set_before_the_turn_writes_nothing(void **state)
{
    fault_world *world = *state;

    quipu_cancel_set(world->script->cancel);
    fault_turn(world, "go", QUIPU_CANCELLED);
    fault_expect(world, "");
    assert_int_equal(world->script->at, 0);
}

/* A deadline that comes while a tool runs: its result is kept, the next question not asked. */
static quipu_status fault_slow_tool(void *ctx, const quipu_part *call,
                                    const quipu_call_options *within, quipu_arena *arena,
                                    quipu_json *ret_result)
{
    const struct timespec more = {0, ((long)within->deadline_ms + 20) * 1000000};

    (void)ctx;
    (void)call;
    (void)arena;
    assert_true(within->deadline_ms > 0);
    (void)nanosleep(&more, NULL);
    *ret_result = (quipu_json){QUIPU_STR("{\"late\":true}")};
    return QUIPU_OK;
}

static void deadline_ends_a_turn_between_its_steps(void **state)
{
    fault_world *world = *state;
    quipu_turn_options options = script_options(world->script, "go");
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = 300;
    options.on_tool = fault_slow_tool;
    world->script->steps[0] = (script_step){.calls = {"a", "b"}};
    T_STATUS(quipu_turn(world->store, &world->script->provider, &options, &call, NULL, NULL, NULL),
             QUIPU_BUSY);
    assert_int_equal(world->script->at, 1);
    fault_expect(world, "user: go|assistant: +a{\"n\":0}+b{\"n\":1}|tool: -a{\"late\":true}|"
                        "tool: -b{\"error\":\"tool call was interrupted and did not complete\"}");
    fault_goes_on(world);
}

static void arguments_that_are_no_json_run_nothing(void **state)
{
    fault_world *world = *state;

    world->script->steps[0] = (script_step){.texts = {"Hm."}, .calls = {"a"}, .broken = true};
    fault_turn(world, "go", QUIPU_IO);
    assert_int_equal(world->script->tool_runs, 0);
    fault_expect(world, "user: go|assistant*: Hm.");
}

/* ---- crashes ------------------------------------------------------------------------------- */

static void fault_die(void *ctx)
{
    (void)ctx;
    _exit(9);
}

static quipu_status fault_die_in_tool(void *ctx, const quipu_part *call,
                                      const quipu_call_options *within, quipu_arena *arena,
                                      quipu_json *ret_result)
{
    script *played = ctx;

    (void)within;
    (void)arena;
    *ret_result = (quipu_json){QUIPU_STR("{\"ok\":true}")};
    if (++played->tool_runs == (size_t)played->result[0]) {
        _exit(9);
    }
    (void)call;
    return QUIPU_OK;
}

/* A process that dies at point `where` of a turn with two tools and two steps. */
static void fault_crash(const char *path, int where)
{
    const char dies_at[] = {(char)(where == 1 ? 1 : where == 2 ? 2 : 100), '\0'};
    script *played = script_new();
    quipu_turn_options options = script_options(played, "go");
    quipu_store *store = NULL;

    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        _exit(2);
    }
    played->result = dies_at;
    options.on_tool = fault_die_in_tool;
    played->steps[0] = (script_step){.texts = {"On it."}, .calls = {"a", "b"}};
    played->steps[0].before = where == 0 ? fault_die : NULL;
    played->steps[1] = (script_step){.texts = {"Done."}};
    played->steps[1].before = where == 3 ? fault_die : NULL;
    if (quipu_turn(store, &played->provider, &options, NULL, NULL, NULL, NULL) != QUIPU_OK) {
        _exit(3);
    }
    _exit(where + 1 == FAULT_CRASHES ? 9 : 4);
}

static void crash_at_any_point_is_mended_by_the_next_turn_once(void **state)
{
    static const char *const calls[] = {"", "+a{\"n\":0}+b{\"n\":1}"};

    (void)state;
    for (int where = 0; where < FAULT_CRASHES; where++) {
        fault_world *world = NULL;
        int status = -1;
        pid_t pid;
        char *history;

        assert_int_equal(fault_setup((void **)&world), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fault_crash(world->path, where);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
        fault_goes_on(world);
        fault_goes_on(world);
        history = script_history(world->store);
        assert_non_null(strstr(history, calls[where > 0 ? 1 : 0]));
        assert_non_null(strstr(history, "user: go|"));
        assert_non_null(strstr(history, "user: and now?|assistant: fine|user: and now?|assistant: "
                                        "fine"));
        free(history);
        assert_int_equal(fault_teardown((void **)&world), 0);
    }
}

/* Two processes find the same open call: it is closed once. */
static void open_call_is_closed_once_by_two_processes(void **state)
{
    fault_world *world = *state;
    quipu_tool_call call = {.id = QUIPU_STR("x"), .name = QUIPU_STR("a"), .input = QUIPU_STR("{}")};
    quipu_message message = {.role = QUIPU_ROLE_ASSISTANT, .calls = quipu_tool_calls_of(&call, 1)};
    pid_t pids[2];
    char *history;
    size_t closed = 0;

    assert_int_equal(st_append(world->store, "s", "go"), 1);
    T_OK(quipu_message_append(world->store, QUIPU_STR("s"), quipu_messages_of(&message, 1), NULL,
                              NULL, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            quipu_store *store = NULL;
            script *played = script_new();
            quipu_turn_options options = script_options(played, "hello?");
            quipu_status status;

            played->steps[0] = (script_step){.texts = {"here"}};
            if (quipu_open(world->path, NULL, &store, NULL) != QUIPU_OK) {
                _exit(2);
            }
            status = quipu_turn(store, &played->provider, &options, NULL, NULL, NULL, NULL);
            _exit(status == QUIPU_OK || status == QUIPU_CONFLICT ? 0 : 3);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    script_check_valid(world->store);
    history = script_history(world->store);
    for (const char *at = history; (at = strstr(at, "interrupted")) != NULL; at++) {
        closed++;
    }
    assert_int_equal(closed, 1);
    free(history);
}

/* ---- memory -------------------------------------------------------------------------------- */

typedef struct fault_swept {
    quipu_store *store;
    script *script;
} fault_swept;

static void fault_body(void *ctx)
{
    fault_swept *swept = ctx;
    quipu_turn_options options;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_status status;
    int64_t fired;

    swept->script->at = 0;
    for (size_t i = 0; i < SCRIPT_STEPS_MAX; i++) {
        free(swept->script->prompts[i]);
        swept->script->prompts[i] = NULL;
    }
    options = script_options(swept->script, "go");
    status =
        quipu_turn(swept->store, &swept->script->provider, &options, NULL, &arena, &result, NULL);
    fired = t_fault_fired();
    t_fault_pause(true);
    assert_true(status == QUIPU_OK || fired > 0);
    if (status == QUIPU_OK) {
        T_STR(result.text, "Done.");
    } else {
        assert_int_equal(result.text.n, 0);
    }
    quipu_arena_free(&arena);
    t_fault_pause(false);
}

/* The scripted provider keeps its notes with the library's buffers, so it is swept as well. */
static void turn_without_memory_fails_and_the_next_one_mends_it(void **state)
{
    fault_swept swept;
    int64_t faults;

    (void)state;
    t_fault_install();
    t_fault_arm(0, T_FAULT_ONCE);
    swept.script = script_new();
    swept.script->steps[0] = (script_step){.thought = "t", .texts = {"On it."}, .calls = {"a"}};
    swept.script->steps[1] = (script_step){.texts = {"Done."}};
    swept.store = st_open_new(NULL, NULL);
    st_create(swept.store, "s");
    faults = 0;
    for (int64_t n = 1; n < 4000; n += n < 200 ? 1 : 7) {
        t_fault_arm(n, T_FAULT_ONCE);
        fault_body(&swept);
        if (t_fault_fired() == 0) {
            break;
        }
        faults++;
    }
    t_fault_arm(0, T_FAULT_ONCE);
    fault_body(&swept);
    script_check_valid(swept.store);
    quipu_close(swept.store);
    script_free(swept.script);
    t_fault_remove();
    assert_true(faults > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(cancelled_answer_keeps_its_text_byte_for_byte),
        FAULT_TEST(failed_answer_keeps_its_text_and_runs_no_tool),
        FAULT_TEST(answer_that_breaks_off_is_cut_and_kept),
        FAULT_TEST(failure_before_any_text_leaves_the_question_alone),
        FAULT_TEST(half_a_character_is_left_out),
        FAULT_TEST(caller_who_refuses_an_event_ends_the_turn),
        FAULT_TEST(tool_that_gives_up_closes_all_calls_once),
        FAULT_TEST(result_of_a_tool_that_was_cancelled_meanwhile_is_kept),
        FAULT_TEST(flag_that_is_set_before_the_turn_writes_nothing),
        FAULT_TEST(deadline_ends_a_turn_between_its_steps),
        FAULT_TEST(arguments_that_are_no_json_run_nothing),
        cmocka_unit_test(crash_at_any_point_is_mended_by_the_next_turn_once),
        FAULT_TEST(open_call_is_closed_once_by_two_processes),
        cmocka_unit_test(turn_without_memory_fails_and_the_next_one_mends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
