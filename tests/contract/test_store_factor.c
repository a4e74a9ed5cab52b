/* The factor of a model's tokens: learned from reports, bounded, smoothed, one row a model. */
#include "contract/store_t.h"

#include <sys/wait.h>
#include <unistd.h>

#define FACTOR_REPORTS 40 /* of each process */

static quipu_model_factor factor_get(quipu_store *store, const char *model)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;

    T_OK(quipu_model_factor_learn(store, quipu_cstr(model), NULL, NULL, &factor, NULL));
    return factor;
}

static quipu_model_factor factor_learn(quipu_store *store, const char *model, int64_t estimated,
                                       int64_t reported)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;

    T_OK(quipu_model_factor_learn(store, quipu_cstr(model),
                                  &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                        .estimated = estimated,
                                                        .reported = reported},
                                  NULL, &factor, NULL));
    return factor;
}

static void unknown_model_has_the_estimate_as_it_is(void **state)
{
    quipu_model_factor factor = factor_get(*state, "new");

    assert_int_equal(factor.ppm, QUIPU_FACTOR_ONE);
    assert_int_equal(factor.samples, 0);
}

static void first_report_is_taken_and_later_ones_move_it_to_their_mean(void **state)
{
    quipu_model_factor factor = factor_learn(*state, "m", 1000, 1500);

    assert_int_equal(factor.ppm, 1500000);
    factor = factor_learn(*state, "m", 1000, 1300);
    assert_int_equal(factor.ppm, 1400000);
    assert_int_equal(factor.samples, 2);
    assert_int_equal(factor_get(*state, "m").ppm, 1400000);
    assert_int_equal(factor_get(*state, "other").samples, 0);
}

/* One odd report among many moves it by no more than a part in QUIPU_FACTOR_WEIGHT_MAX. */
static void settled_factor_hardly_moves(void **state)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;

    for (int i = 0; i < 2 * QUIPU_FACTOR_WEIGHT_MAX; i++) {
        factor = factor_learn(*state, "m", 1000, 1000);
    }
    assert_int_equal(factor.ppm, QUIPU_FACTOR_ONE);
    factor = factor_learn(*state, "m", 1000, 2000);
    assert_int_equal(factor.ppm, QUIPU_FACTOR_ONE + QUIPU_FACTOR_ONE / QUIPU_FACTOR_WEIGHT_MAX);
}

static void bounds_hold_at_their_ends_and_past_them(void **state)
{
    assert_int_equal(factor_learn(*state, "a", 1000, 8000).ppm, QUIPU_FACTOR_MAX);
    assert_int_equal(factor_learn(*state, "b", 1000, 8001).ppm, QUIPU_FACTOR_MAX);
    assert_int_equal(factor_learn(*state, "c", 1000, 250).ppm, QUIPU_FACTOR_MIN);
    assert_int_equal(factor_learn(*state, "d", 1000, 249).ppm, QUIPU_FACTOR_MIN);
    assert_int_equal(factor_learn(*state, "e", INT64_MAX, INT64_MAX).ppm, QUIPU_FACTOR_ONE);
    assert_int_equal(factor_learn(*state, "f", INT64_MAX, 1).ppm, QUIPU_FACTOR_MIN);
    assert_int_equal(factor_learn(*state, "g", QUIPU_FACTOR_TOKENS_MIN, INT64_MAX).ppm,
                     QUIPU_FACTOR_MAX);
}

static void small_prompts_teach_nothing(void **state)
{
    assert_int_equal(factor_learn(*state, "m", QUIPU_FACTOR_TOKENS_MIN - 1, 500).samples, 0);
    assert_int_equal(factor_learn(*state, "m", QUIPU_FACTOR_TOKENS_MIN, 128).samples, 1);
    assert_int_equal(factor_get(*state, "m").ppm, 2000000);
}

static void names_are_limited_and_must_be_there(void **state)
{
    char name[QUIPU_MODEL_NAME_MAX + 2];
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;

    memset(name, 'm', sizeof(name));
    name[QUIPU_MODEL_NAME_MAX] = '\0';
    assert_int_equal(factor_learn(*state, name, 1000, 1100).samples, 1);
    name[QUIPU_MODEL_NAME_MAX] = 'm';
    name[QUIPU_MODEL_NAME_MAX + 1] = '\0';
    T_STATUS(quipu_model_factor_learn(*state, quipu_cstr(name), NULL, NULL, &factor, NULL),
             QUIPU_LIMIT);
    T_STATUS(quipu_model_factor_learn(*state, QUIPU_STR(""), NULL, NULL, &factor, NULL),
             QUIPU_MISUSE);
    T_STATUS(quipu_model_factor_learn(*state, QUIPU_STR("m"), NULL, NULL, NULL, NULL),
             QUIPU_MISUSE);
    T_STATUS(quipu_model_factor_learn(
                 *state, QUIPU_STR("m"),
                 &(quipu_model_report){
                     .struct_size = sizeof(quipu_model_report), .estimated = 100, .reported = 0},
                 NULL, NULL, NULL),
             QUIPU_MISUSE);
    T_STATUS(quipu_model_factor_learn(
                 *state, QUIPU_STR("m"),
                 &(quipu_model_report){
                     .struct_size = sizeof(quipu_model_report), .estimated = -1, .reported = 100},
                 NULL, NULL, NULL),
             QUIPU_MISUSE);
}

static void factors_of_tenants_are_apart(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *first = st_open_new(NULL, path);
    quipu_store *other = NULL;

    (void)state;
    options.tenant = QUIPU_STR("other");
    T_OK(quipu_open(path, &options, &other, NULL));
    (void)factor_learn(first, "m", 1000, 2000);
    assert_int_equal(factor_get(other, "m").samples, 0);
    assert_int_equal(factor_get(first, "m").samples, 1);
    quipu_close(other);
    quipu_close(first);
}

/* What was counted stays as it was counted. */
static void learning_rewrites_no_stored_total(void **state)
{
    quipu_session_new values = st_values("s");
    quipu_message message = {.role = QUIPU_ROLE_USER, .content = QUIPU_STR("How are you today?")};
    quipu_history *before = NULL;
    quipu_history *after = NULL;

    values.messages = quipu_messages_of(&message, 1);
    T_OK(quipu_session_create(*state, &values, NULL, &before, NULL));
    (void)factor_learn(*state, "m", 1000, 3000);
    T_OK(quipu_session_get(*state, QUIPU_STR("s"), NULL, NULL, &after, NULL));
    assert_int_equal(after->session->token_count, before->session->token_count);
    assert_int_equal(after->session->revision, before->session->revision);
    assert_int_equal(quipu_message_at(after->messages, 0)->tokens_total,
                     quipu_message_at(before->messages, 0)->tokens_total);
    quipu_free(after);
    quipu_free(before);
}

static int factor_child(const char *path)
{
    quipu_store *store = NULL;

    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        return 2;
    }
    for (int i = 0; i < FACTOR_REPORTS; i++) {
        if (quipu_model_factor_learn(
                store, QUIPU_STR("m"),
                &(quipu_model_report){
                    .struct_size = sizeof(quipu_model_report), .estimated = 1000, .reported = 1250},
                NULL, NULL, NULL) != QUIPU_OK) {
            return 3;
        }
    }
    quipu_close(store);
    return 0;
}

static void two_processes_lose_no_report(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    pid_t pids[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(factor_child(path));
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(factor_get(store, "m").samples, 2 * FACTOR_REPORTS);
    assert_int_equal(factor_get(store, "m").ppm, 1250000);
    quipu_close(store);
}

static void read_only_store_reads_and_does_not_learn(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *reader = NULL;

    (void)state;
    (void)factor_learn(store, "m", 1000, 2000);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &reader, NULL));
    assert_int_equal(factor_get(reader, "m").ppm, 2000000);
    assert_true(
        quipu_model_factor_learn(reader, QUIPU_STR("m"),
                                 &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                       .estimated = 1000,
                                                       .reported = 1250},
                                 NULL, NULL, NULL) != QUIPU_OK);
    quipu_close(reader);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(unknown_model_has_the_estimate_as_it_is),
        ST_TEST(first_report_is_taken_and_later_ones_move_it_to_their_mean),
        ST_TEST(settled_factor_hardly_moves),
        ST_TEST(bounds_hold_at_their_ends_and_past_them),
        ST_TEST(small_prompts_teach_nothing),
        ST_TEST(names_are_limited_and_must_be_there),
        cmocka_unit_test(factors_of_tenants_are_apart),
        ST_TEST(learning_rewrites_no_stored_total),
        cmocka_unit_test(two_processes_lose_no_report),
        cmocka_unit_test(read_only_store_reads_and_does_not_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
