/* Export and import of what a store has learned: factors of models, and the ids of events that only
 * changed state. */
#include "contract/maintain_t.h"

#define HEADER "{\"quipu\":\"export\",\"major\":1,\"minor\":0}\n"
#define FOOTER "{\"type\":\"end\",\"sessions\":0,\"messages\":0,\"states\":0,\"memories\":0}\n"

/* Import a text between header and footer. */
static quipu_status import_text(quipu_store *store, const char *text, quipu_error *reterr)
{
    mt_stream stream = {0};
    quipu_status status;

    T_OK(mt_write(&stream, HEADER, strlen(HEADER)));
    T_OK(mt_write(&stream, text, strlen(text)));
    T_OK(mt_write(&stream, FOOTER, strlen(FOOTER)));
    status = mt_try_import(store, &stream, 0, NULL, reterr);
    mt_free(&stream);
    return status;
}

static quipu_status import_factor(quipu_store *store, size_t name_n, long long ppm, int day)
{
    char name[QUIPU_MODEL_NAME_MAX + 2];
    char line[QUIPU_MODEL_NAME_MAX + 256];
    quipu_error err = {0};

    memset(name, 'm', name_n);
    name[name_n] = '\0';
    snprintf(line, sizeof(line),
             "{\"type\":\"factor\",\"model\":\"%s\",\"ppm\":%lld,\"samples\":1,\"updated_at\":"
             "\"2026-01-%02dT00:00:00Z\"}\n",
             name, ppm, day);
    return import_text(store, line, &err);
}

static int64_t factor_of(quipu_store *store, const char *model)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;

    T_OK(quipu_model_factor_learn(store, quipu_cstr(model), NULL, NULL, &factor, NULL));
    return factor.ppm;
}

static void factor_is_kept_within_its_limits(void **state)
{
    quipu_store *store = *state;

    T_OK(import_factor(store, 1, QUIPU_FACTOR_MIN, 1));
    assert_int_equal(factor_of(store, "m"), QUIPU_FACTOR_MIN);
    T_OK(import_factor(store, 2, QUIPU_FACTOR_MAX, 1));
    assert_int_equal(factor_of(store, "mm"), QUIPU_FACTOR_MAX);
    T_OK(import_factor(store, QUIPU_MODEL_NAME_MAX, QUIPU_FACTOR_ONE, 1));
    T_STATUS(import_factor(store, 3, QUIPU_FACTOR_MIN - 1, 1), QUIPU_INVALID);
    T_STATUS(import_factor(store, 3, QUIPU_FACTOR_MAX + 1, 1), QUIPU_INVALID);
    T_STATUS(import_factor(store, QUIPU_MODEL_NAME_MAX + 1, QUIPU_FACTOR_ONE, 1), QUIPU_INVALID);
    T_STATUS(import_factor(store, 0, QUIPU_FACTOR_ONE, 1), QUIPU_INVALID);
}

static void newer_factor_stays(void **state)
{
    quipu_store *store = *state;

    T_OK(import_factor(store, 1, 2000000, 2));
    T_OK(import_factor(store, 1, 3000000, 1));
    assert_int_equal(factor_of(store, "m"), 2000000);
    T_OK(import_factor(store, 1, 4000000, 3));
    assert_int_equal(factor_of(store, "m"), 4000000);
}

static void factor_that_is_there_is_refused_when_all_must_be_new(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "root");
    mt_learned(path, "root");
    mt_stream stream = mt_export(store, NULL);
    quipu_store *other = st_open_new(NULL, NULL);
    T_OK(mt_try_import(other, &stream, QUIPU_IMPORT_MUST_BE_NEW, NULL, &err));
    T_STATUS(mt_try_import(other, &stream, QUIPU_IMPORT_MUST_BE_NEW, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "factor"));
    mt_free(&stream);
    quipu_close(store);
    quipu_close(other);
}

static void event_of_state_needs_its_session_an_id_and_a_digest(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } cases[] = {
        {"\"digest\":\"AQID", "\"digest\":\"AQIDAQID"},
        {"\"event_id\":\"aWQgACD/\"", "\"event_id\":\"\""},
    };
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    T_STATUS(import_text(store,
                         "{\"type\":\"state_event\",\"number\":1,\"event_id\":\"aWQ=\",\"digest\":"
                         "\"AQIDAQIDAQIDAQIDAQIDAQIDAQIDAQIDAQIDAQIDAQI=\"}\n",
                         &err),
             QUIPU_INVALID);
    assert_non_null(strstr(err.message, "must follow its session's line"));
    st_create(store, "root");
    mt_learned(path, "root");
    mt_stream stream = mt_export(store, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_store *other = st_open(":memory:");
        const char *at = strstr(stream.p, cases[i].from);
        mt_stream made = {0};
        assert_non_null(at);
        T_OK(mt_write(&made, stream.p, (size_t)(at - stream.p)));
        T_OK(mt_write(&made, cases[i].to, strlen(cases[i].to)));
        at += strlen(cases[i].from);
        T_OK(mt_write(&made, at, stream.n - (size_t)(at - stream.p)));
        T_STATUS(mt_try_import(other, &made, 0, NULL, &err), QUIPU_INVALID);
        assert_int_equal(st_get_status(other, "root"), QUIPU_NOT_FOUND);
        mt_free(&made);
        quipu_close(other);
    }
    mt_free(&stream);
    quipu_close(store);
}

/* A server that writes to see whether it can must not change what an export of the store holds. */
static void factor_of_a_probe_is_in_no_export_and_no_copy(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open(":memory:");
    mt_stream stream;

    T_OK(quipu_model_factor_learn(store, QUIPU_STR(QUIPU_FACTOR_PROBE "healthz"),
                                  &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                        .estimated = 100,
                                                        .reported = 200},
                                  NULL, NULL, NULL));
    T_OK(quipu_model_factor_learn(store, QUIPU_STR("quip"),
                                  &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                        .estimated = 100,
                                                        .reported = 200},
                                  NULL, NULL, NULL));
    assert_int_equal(factor_of(store, QUIPU_FACTOR_PROBE "healthz"), 2 * QUIPU_FACTOR_ONE);
    stream = mt_export(store, NULL);
    assert_null(strstr(stream.p, "healthz"));
    assert_non_null(strstr(stream.p, "\"quip\""));
    T_OK(quipu_store_copy(store, other, NULL, NULL, NULL, NULL));
    assert_int_equal(factor_of(other, QUIPU_FACTOR_PROBE "healthz"), QUIPU_FACTOR_ONE);
    mt_free(&stream);
    quipu_close(other);
}

/* A new entity is exported, or named here as one that is not. */
static void every_entity_is_exported_or_named_as_one_that_is_not(void **state)
{
    /* Blobs are the bytes of artifacts, and exported with them. */
    static const char *const known[] = {"Session",     "Message",    "State",       "StateEvent",
                                        "Observation", "Reflection", "ModelFactor", "MemoryScope",
                                        "ContextLog",  "Usage",      "Artifact",    "Blob"};
    static const char *const left[] = {"Feed", "Job", "Removal", "Vector"};
    const size_t known_n = sizeof(known) / sizeof(known[0]);
    const size_t left_n = sizeof(left) / sizeof(left[0]);

    (void)state;
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        const char *name = qp_quipu_schema.entities[i]->name;
        bool is_known = false;

        for (size_t k = 0; k < known_n + left_n && !is_known; k++) {
            is_known = strcmp(name, k < known_n ? known[k] : left[k - known_n]) == 0;
        }
        if (!is_known) {
            fail_msg("does an export contain %s? see src/store/export.c", name);
        }
    }
    assert_int_equal(qp_quipu_schema.entity_count, known_n + left_n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(factor_is_kept_within_its_limits),
        ST_TEST(newer_factor_stays),
        ST_TEST(factor_of_a_probe_is_in_no_export_and_no_copy),
        cmocka_unit_test(factor_that_is_there_is_refused_when_all_must_be_new),
        cmocka_unit_test(event_of_state_needs_its_session_an_id_and_a_digest),
        cmocka_unit_test(every_entity_is_exported_or_named_as_one_that_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
