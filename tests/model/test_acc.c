/* The accumulator of streamed tool calls, as OpenAI and as Anthropic stream them. */
#include "lib/t.h"

#include "base/str.h"
#include "model/acc.h"

typedef struct acc_run {
    qp_acc acc;
    quipu_arena arena;
    quipu_part *parts;
    size_t count;
    quipu_error error;
} acc_run;

static void acc_begin(acc_run *run)
{
    *run = (acc_run){.count = 0};
    qp_acc_init(&run->acc);
}

static void acc_end(acc_run *run)
{
    qp_acc_free(&run->acc);
    quipu_arena_free(&run->arena);
}

static quipu_delta acc_delta(int index, const char *id, const char *name, const char *arguments)
{
    return (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                         .kind = QUIPU_DELTA_CALL,
                         .has_index = index >= 0,
                         .index = index >= 0 ? index : 0,
                         .id = quipu_cstr(id),
                         .name = quipu_cstr(name),
                         .text = quipu_cstr(arguments)};
}

/* index -1: none; id and name NULL: none. Gives the slot. */
static size_t acc_put(acc_run *run, int index, const char *id, const char *name,
                      const char *arguments)
{
    quipu_delta delta = acc_delta(index, id, name, arguments);
    size_t slot = 0;

    T_OK(qp_acc_put(&run->acc, &delta, &slot, NULL));
    return slot;
}

static void acc_finish(acc_run *run)
{
    T_OK(qp_acc_done(&run->acc, false, &run->arena, &run->parts, &run->count, &run->error));
}

static void acc_expect(const acc_run *run, size_t at, const char *id, const char *name,
                       const char *arguments)
{
    assert_true(at < run->count);
    assert_int_equal(run->parts[at].kind, QUIPU_PART_CALL);
    T_STR(run->parts[at].id, id);
    T_STR(run->parts[at].name, name);
    T_STR(run->parts[at].json.text, arguments);
}

static void single_complete_call_is_kept(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, 0, "call_1", "exec", "{\"command\":\"ls\"}");
    acc_finish(&run);
    assert_int_equal(run.count, 1);
    acc_expect(&run, 0, "call_1", "exec", "{\"command\":\"ls\"}");
    acc_end(&run);
}

static void indexed_pieces_are_put_together(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, 0, "call_1", "exec", "");
    acc_put(&run, 0, NULL, NULL, "{\"comm");
    acc_put(&run, 0, NULL, NULL, "and\":\"ls\"}");
    acc_finish(&run);
    assert_int_equal(run.count, 1);
    acc_expect(&run, 0, "call_1", "exec", "{\"command\":\"ls\"}");
    acc_end(&run);
}

static void interleaved_calls_come_out_by_index(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, 2, "c", "three", "{");
    acc_put(&run, 0, "a", "one", "{\"a\"");
    acc_put(&run, 1, "b", "two", "");
    acc_put(&run, 0, NULL, NULL, ":1}");
    acc_put(&run, 2, NULL, NULL, "}");
    acc_put(&run, 1, NULL, NULL, "{\"b\":2}");
    acc_finish(&run);
    assert_int_equal(run.count, 3);
    acc_expect(&run, 0, "a", "one", "{\"a\":1}");
    acc_expect(&run, 1, "b", "two", "{\"b\":2}");
    acc_expect(&run, 2, "c", "three", "{}");
    acc_end(&run);
}

static void anonymous_pieces_go_to_the_call_before_them(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, -1, "toolu_1", "exec", "");
    acc_put(&run, -1, NULL, NULL, "{\"a\":");
    acc_put(&run, -1, NULL, NULL, "1}");
    acc_put(&run, -1, "toolu_2", "search", "");
    acc_put(&run, -1, NULL, NULL, "{\"q\":\"x\"}");
    acc_finish(&run);
    assert_int_equal(run.count, 2);
    acc_expect(&run, 0, "toolu_1", "exec", "{\"a\":1}");
    acc_expect(&run, 1, "toolu_2", "search", "{\"q\":\"x\"}");
    acc_end(&run);
}

static void orphan_piece_is_dropped_and_later_calls_are_whole(void **state)
{
    acc_run run;
    size_t slot = 0;

    (void)state;
    acc_begin(&run);
    assert_int_equal(acc_put(&run, -1, NULL, NULL, "{\"lost\":1}"), QP_ACC_NONE);
    T_OK(qp_acc_put(&run.acc, NULL, &slot, NULL));
    assert_int_equal(slot, QP_ACC_NONE);
    acc_put(&run, -1, "a", "exec", "{}");
    acc_finish(&run);
    assert_int_equal(run.count, 1);
    acc_expect(&run, 0, "a", "exec", "{}");
    acc_end(&run);
}

static void nameless_call_is_dropped(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, 0, "a", NULL, "not even JSON");
    acc_put(&run, 1, "b", "exec", "{}");
    acc_finish(&run);
    assert_int_equal(run.count, 1);
    acc_expect(&run, 0, "b", "exec", "{}");
    acc_end(&run);
}

static void missing_ids_follow_the_rule_and_stay_apart(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, -1, NULL, "exec", "{\"n\":1}");
    acc_put(&run, -1, NULL, "exec", "{\"n\":2}");
    acc_put(&run, 5, NULL, "search", NULL);
    acc_finish(&run);
    assert_int_equal(run.count, 3);
    acc_expect(&run, 0, "call_search", "search", "{}");
    acc_expect(&run, 1, "call_exec", "exec", "{\"n\":1}");
    acc_expect(&run, 2, "call_exec_2", "exec", "{\"n\":2}");
    acc_end(&run);
}

/* Seen in the wild: every parallel call says index 0, or says its id in every piece and no
 * index. */
static void ids_keep_calls_of_careless_servers_apart(void **state)
{
    acc_run run;

    (void)state;
    acc_begin(&run);
    acc_put(&run, 0, "a", "one", "{\"n\":1}");
    acc_put(&run, 0, "b", "two", "{\"n\":");
    acc_put(&run, 0, NULL, NULL, "2}");
    acc_put(&run, -1, "c", "three", "{\"n\"");
    acc_put(&run, -1, "c", NULL, ":3}");
    acc_finish(&run);
    assert_int_equal(run.count, 3);
    acc_expect(&run, 0, "a", "one", "{\"n\":1}");
    acc_expect(&run, 1, "b", "two", "{\"n\":2}");
    acc_expect(&run, 2, "c", "three", "{\"n\":3}");
    acc_end(&run);
}

static void thought_fields_survive_both_styles(void **state)
{
    static const char signature[] = "s\0ig";
    quipu_delta indexed = acc_delta(0, "a", "one", "{}");
    quipu_delta anonymous = acc_delta(-1, "b", "two", "{}");
    size_t slot = 0;
    acc_run run;

    (void)state;
    acc_begin(&run);
    indexed.thought = true;
    indexed.signature = (quipu_bytes){signature, 4};
    anonymous.signature = (quipu_bytes){signature + 1, 3};
    T_OK(qp_acc_put(&run.acc, &indexed, &slot, NULL));
    T_OK(qp_acc_put(&run.acc, &anonymous, &slot, NULL));
    acc_put(&run, -1, NULL, NULL, " ");
    acc_finish(&run);
    assert_int_equal(run.count, 2);
    assert_true(run.parts[0].thought);
    assert_false(run.parts[1].thought);
    assert_int_equal(run.parts[0].signature.n, 4);
    assert_memory_equal(run.parts[0].signature.p, signature, 4);
    assert_int_equal(run.parts[1].signature.n, 3);
    acc_end(&run);
}

static void bad_arguments_are_a_clear_error(void **state)
{
    static const char *const bad[] = {"{",     "{\"a\":}",        "[1]", "7", "null",
                                      "{} {}", "{\"a\":\"\xff\"}"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        acc_run run;

        acc_begin(&run);
        acc_put(&run, 0, "a", "good", "{}");
        acc_put(&run, 1, "b", "exec", bad[i]);
        T_STATUS(qp_acc_done(&run.acc, i == 0, &run.arena, &run.parts, &run.count, &run.error),
                 QUIPU_INVALID);
        assert_int_equal(run.count, 0);
        assert_non_null(strstr(run.error.message, "\"exec\""));
        assert_int_equal(strstr(run.error.message, "cut off") != NULL, i == 0);
        T_STR(quipu_cstr(run.error.field), "exec");
        acc_end(&run);
    }
}

/* Arguments and names of two bytes a letter are quoted up to a whole one. */
static void errors_quote_whole_characters(void **state)
{
    char text[202] = "x";
    acc_run run;

    (void)state;
    for (size_t i = 1; i + 2 < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa9", 3);
    }
    for (int shift = 0; shift < 2; shift++) {
        acc_begin(&run);
        acc_put(&run, 0, "a", text + shift, text + shift);
        T_STATUS(qp_acc_done(&run.acc, false, &run.arena, &run.parts, &run.count, &run.error),
                 QUIPU_INVALID);
        assert_true(qp_utf8_valid(quipu_cstr(run.error.message)));
        acc_end(&run);
    }
}

static void number_of_calls_has_a_maximum(void **state)
{
    quipu_delta delta = acc_delta(QUIPU_RESPONSE_CALLS_MAX, "x", "f", "");
    size_t slot = 0;
    acc_run run;

    (void)state;
    acc_begin(&run);
    for (int i = 0; i < QUIPU_RESPONSE_CALLS_MAX; i++) {
        acc_put(&run, i, NULL, "f", "{}");
    }
    T_STATUS(qp_acc_put(&run.acc, &delta, &slot, NULL), QUIPU_LIMIT);
    acc_finish(&run);
    assert_int_equal(run.count, QUIPU_RESPONSE_CALLS_MAX);
    acc_expect(&run, QUIPU_RESPONSE_CALLS_MAX - 1, "call_f_1024", "f", "{}");
    acc_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_complete_call_is_kept),
        cmocka_unit_test(indexed_pieces_are_put_together),
        cmocka_unit_test(interleaved_calls_come_out_by_index),
        cmocka_unit_test(anonymous_pieces_go_to_the_call_before_them),
        cmocka_unit_test(orphan_piece_is_dropped_and_later_calls_are_whole),
        cmocka_unit_test(nameless_call_is_dropped),
        cmocka_unit_test(missing_ids_follow_the_rule_and_stay_apart),
        cmocka_unit_test(ids_keep_calls_of_careless_servers_apart),
        cmocka_unit_test(thought_fields_survive_both_styles),
        cmocka_unit_test(bad_arguments_are_a_clear_error),
        cmocka_unit_test(errors_quote_whole_characters),
        cmocka_unit_test(number_of_calls_has_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
