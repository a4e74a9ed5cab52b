/* Export and import: nothing is lost, the same store gives the same bytes, a wrong line stores
 * nothing of its session. */
#include "contract/maintain_t.h"

static mt_stream text_stream(const char *text)
{
    mt_stream stream = {0};

    T_OK(mt_write(&stream, text, strlen(text)));
    return stream;
}

/* The stream with the first occurrence of `from` replaced. */
static mt_stream changed(const mt_stream *stream, const char *from, const char *to)
{
    const char *at = strstr(stream->p, from);
    mt_stream made = {0};

    if (at == NULL) {
        fail_msg("the export has no %s", from);
    }
    T_OK(mt_write(&made, stream->p, (size_t)(at - stream->p)));
    T_OK(mt_write(&made, to, strlen(to)));
    T_OK(mt_write(&made, at + strlen(from), strlen(at + strlen(from))));
    return made;
}

static void same_bytes(const mt_stream *a, const mt_stream *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->p, b->p, a->n);
}

/* ---- whole stores -----------------------------------------------------------------------------
 */

static void everything_comes_back_byte_for_byte(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, NULL);

    (void)state;
    mt_fill(store, path);
    mt_clean(store);
    mt_stream first = mt_export(store, NULL);
    mt_stream again = mt_export(store, NULL);
    same_bytes(&first, &again);
    quipu_transfer done = mt_import(other, &first);
    assert_int_equal(done.sessions, 10); /* the hidden one too */
    assert_int_equal(done.states, 4);
    assert_int_equal(done.memories, 5);
    assert_int_equal(done.skipped, 0);
    mt_stream back = mt_export(other, NULL);
    same_bytes(&first, &back);
    mt_clean(other);

    /* The relation is restored, not a copy. */
    quipu_history *history = st_get(other, "fork of fork", NULL);
    assert_int_equal(history->messages.count, 6);
    T_STR(quipu_message_at(history->messages, 5)->content, "m2");
    quipu_free(history);
    assert_int_equal(st_append(other, "orphan", "goes on"), 5);
    history = st_get(other, "rich \xe2\x82\xac \"key\"", NULL);
    assert_true(quipu_str_eq(quipu_message_at(history->messages, 0)->content,
                             QUIPU_STR("a\0b \xf0\x9f\x99\x82 \xe2\x80\xa8 end\n")));
    T_STR(quipu_message_at(history->messages, 2)->extra.text, "{\n  \"pretty\": [\r\n1]\n}");
    T_STR(history->session->metadata.text, "{\"thinking\":\"high\",\n\"n\":1e400}");
    quipu_free(history);
    assert_int_equal(st_get_status(other, "late"), QUIPU_EXPIRED);

    mt_free(&first);
    mt_free(&again);
    mt_free(&back);
    quipu_close(store);
    quipu_close(other);
}

static void import_can_be_repeated(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    mt_fill(store, path);
    mt_stream first = mt_export(store, NULL);
    (void)mt_import(other, &first);
    quipu_transfer done = mt_import(other, &first);
    assert_int_equal(done.sessions, 0);
    assert_int_equal(done.skipped, 10);
    assert_int_equal(done.messages, 0);
    mt_stream back = mt_export(other, NULL);
    same_bytes(&first, &back);
    (void)mt_import(store, &first); /* into itself */
    T_STATUS(mt_try_import(other, &first, QUIPU_IMPORT_MUST_BE_NEW, NULL, &err), QUIPU_EXISTS);

    /* A session that went on here stays as it is; one that went on there is a conflict. */
    st_append(other, "empty", "newer");
    done = mt_import(other, &first);
    assert_int_equal(done.skipped, 10);
    mt_stream newer = mt_export(other, NULL);
    T_STATUS(mt_try_import(store, &newer, 0, NULL, &err), QUIPU_CONFLICT);
    assert_non_null(strstr(err.message, "\"empty\""));
    mt_free(&first);
    mt_free(&back);
    mt_free(&newer);
    quipu_close(store);
    quipu_close(other);
}

static void key_of_another_session_is_never_overwritten(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_error err = {0};

    st_create(store, "k");
    st_append(store, "k", "here");
    st_create(other, "k");
    st_append(other, "k", "there");
    mt_stream stream = mt_export(other, NULL);
    T_STATUS(mt_try_import(store, &stream, 0, NULL, &err), QUIPU_EXISTS);
    assert_non_null(strstr(err.message, "line 2"));
    quipu_history *history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 1);
    T_STR(quipu_message_at(history->messages, 0)->content, "here");
    quipu_free(history);
    mt_free(&stream);
    quipu_close(other);
}

/* What forks share keeps the uid of its life; the session itself comes back beside it. */
static void deleted_session_with_a_living_fork_comes_back(void **state)
{
    quipu_export_options only = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_error err = {0};
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_history *history;

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    mt_fork(store, "k", 2, "f");
    only.key = QUIPU_STR("k");
    mt_stream stream = mt_export(store, &only);
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, &err));
    done = mt_import(store, &stream);
    assert_int_equal(done.sessions, 1);
    history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 3);
    quipu_free(history);
    history = st_get(store, "f", NULL);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
    mt_clean(store);
    mt_free(&stream);
    quipu_close(store);
}

static void newer_state_stays(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    mt_state(path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"old\"");
    mt_stream old = mt_export(store, NULL);
    mt_sql(path, "UPDATE state SET value = '\"new\"', updated_at = "
                 "'9000-01-01 00:00:00.000000000+00:00'");
    mt_stream newer = mt_export(store, NULL);
    quipu_transfer done = mt_import(store, &old);
    assert_int_equal(done.states, 0);
    mt_stream now = mt_export(store, NULL);
    same_bytes(&now, &newer);
    mt_sql(path, "UPDATE state SET value = '1', updated_at = '1000-01-01 "
                 "00:00:00.000000000+00:00'");
    done = mt_import(store, &newer);
    assert_int_equal(done.states, 1);
    mt_free(&now);
    now = mt_export(store, NULL);
    same_bytes(&now, &newer);
    mt_free(&old);
    mt_free(&newer);
    mt_free(&now);
    quipu_close(store);
}

static void stores_in_memory_and_of_tenants_export_their_own(void **state)
{
    char path[T_PATH_MAX];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *memory = NULL;
    quipu_store *tenant = NULL;
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_open(":memory:", NULL, &memory, &err));
    options.tenant = QUIPU_STR("t");
    T_OK(quipu_open(path, &options, &tenant, &err));
    st_create(store, "k");
    st_append(store, "k", "of nobody");
    st_create(tenant, "other");
    mt_memory(tenant, QUIPU_OBSERVATION, "other", "seen");
    mt_stream plain = mt_export(store, NULL);
    mt_stream theirs = mt_export(tenant, NULL);
    assert_null(strstr(plain.p, "other"));
    assert_null(strstr(theirs.p, "of nobody"));
    (void)mt_import(memory, &plain);
    (void)mt_import(memory, &theirs);
    mt_clean(memory);
    (void)mt_import(tenant, &plain); /* a move between tenants */
    mt_clean(tenant);
    mt_stream both = mt_export(memory, NULL);
    assert_non_null(strstr(both.p, "of nobody"));
    assert_non_null(strstr(both.p, "\"seen\""));
    mt_free(&plain);
    mt_free(&theirs);
    mt_free(&both);
    quipu_close(memory);
    quipu_close(tenant);
    quipu_close(store);
}

/* ---- forks ------------------------------------------------------------------------------------
 */

static void flat_export_makes_sessions_of_forks(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_error err = {0};

    (void)state;
    mt_fill(store, path);
    options.flags = QUIPU_EXPORT_FLAT;
    mt_stream flat = mt_export(store, &options);
    assert_null(strstr(flat.p, "\"parent\""));
    quipu_transfer done = mt_import(other, &flat);
    assert_int_equal(done.sessions, 9); /* no hidden one */
    mt_clean(other);
    static const char *const keys[] = {"fork", "fork of fork", "orphan", "blank fork", "root"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        quipu_history *a = st_get(store, keys[i], NULL);
        quipu_history *b = st_get(other, keys[i], NULL);
        assert_int_equal(a->messages.count, b->messages.count);
        assert_int_equal(a->session->token_count, b->session->token_count);
        for (size_t k = 0; k < a->messages.count; k++) {
            assert_true(quipu_str_eq(quipu_message_at(a->messages, k)->content,
                                     quipu_message_at(b->messages, k)->content));
            assert_true(quipu_str_eq(quipu_message_at(a->messages, k)->event_id,
                                     quipu_message_at(b->messages, k)->event_id));
        }
        quipu_free(a);
        quipu_free(b);
    }
    T_OK(quipu_session_delete(other, QUIPU_STR("root"), NULL, NULL, NULL, &err));
    mt_clean(other);
    mt_free(&flat);
    quipu_close(store);
    quipu_close(other);
}

static void one_session_comes_with_those_it_was_forked_from(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_error err = {0};

    (void)state;
    mt_fill(store, path);
    options.key = QUIPU_STR("fork of fork");
    mt_stream one = mt_export(store, &options);
    done = mt_import(other, &one);
    assert_int_equal(done.sessions, 3);
    mt_clean(other);
    assert_int_equal(st_get_status(other, "orphan"), QUIPU_NOT_FOUND);
    options.key = QUIPU_STR("nobody");
    mt_free(&one);
    T_STATUS(quipu_store_export(store, &options, mt_write, &one, NULL, NULL, &err),
             QUIPU_NOT_FOUND);
    mt_free(&one);
    quipu_close(store);
    quipu_close(other);
}

/* ---- wrong lines ------------------------------------------------------------------------------
 */

typedef struct wrong_case {
    const char *from;
    const char *to;
    const char *says; /* in the message */
} wrong_case;

static void wrong_line_is_named_and_its_session_not_stored(void **state)
{
    static const wrong_case cases[] = {
        {"\"content\":\"second\"", "\"content\":\"second", "line 6"},   /* no JSON */
        {"\"content\":\"second\"", "\"content\":5", "line 6"},          /* another type */
        {"\"content\":\"second\"", "\"contend\":\"x\"", "\"contend\""}, /* no member */
        {"\"content\":\"second\"", "\"content\":\"a\",\"content\":\"b\"", "twice"},
        {"\"content\":\"second\"", "\"content\":\"\\u0000\"", "line 6"},
        {"\"content\":\"second\"", "\"content\":\"\\ud800\"", "line 6"},
        {"\"seq\":2", "\"seq\":3", "not whole"},
        {"\"seq\":2", "\"seq\":2.5", "whole number"},
        {"\"role\":\"model\"", "\"role\":\"king\"", "labels"},
        {"\"type\":\"message\",\"event_id\":\"the second\"",
         "\"type\":\"massage\",\"event_id\":\"the second\"", "type"},
        {"\"event_id\":\"the second\"", "\"event_id\":\"\"", "event id"},
        {"\"event_id\":\"the second\"", "\"event_id\":\"the first\"", "line 6"},
        {"\"token_count\":", "\"token_count\":1", "not whole"},
    };
    quipu_store *store = *state;
    quipu_message messages[2] = {st_says(QUIPU_ROLE_USER, "first"),
                                 st_says(QUIPU_ROLE_MODEL, "second")};
    quipu_error err = {0};

    messages[0].event_id = QUIPU_STR("the first");
    messages[1].event_id = QUIPU_STR("the second");
    st_create(store, "a");
    st_append(store, "a", "whole");
    st_create(store, "b");
    T_OK(quipu_message_append(store, QUIPU_STR("b"), quipu_messages_of(messages, 2), NULL, NULL,
                              NULL, &err));
    st_create(store, "c");
    mt_stream good = mt_export(store, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_store *other = st_open_new(NULL, NULL);
        mt_stream bad = {0};
        if (strncmp(cases[i].from, "\"token_count\"", 13) == 0) {
            /* of session b: behind its key */
            char *key = strstr(good.p, "\"key\":\"b\"");
            assert_non_null(key);
            char *at = strstr(key, cases[i].from);
            T_OK(mt_write(&bad, good.p, (size_t)(at - good.p)));
            T_OK(mt_write(&bad, cases[i].to, strlen(cases[i].to)));
            T_OK(mt_write(&bad, at + strlen(cases[i].from), strlen(at + strlen(cases[i].from))));
        } else {
            bad = changed(&good, cases[i].from, cases[i].to);
        }
        quipu_status status = mt_try_import(other, &bad, 0, NULL, &err);
        if (status == QUIPU_OK || strstr(err.message, cases[i].says) == NULL ||
            strstr(err.message, "line ") == NULL) {
            fail_msg("%s for %s: %s (%s)", cases[i].to, cases[i].from, quipu_status_name(status),
                     err.message);
        }
        assert_true(status == QUIPU_INVALID || status == QUIPU_EXISTS);
        assert_int_equal(st_get_status(other, "a"), QUIPU_OK);
        assert_int_equal(st_get_status(other, "b"), QUIPU_NOT_FOUND);
        assert_int_equal(st_get_status(other, "c"), QUIPU_NOT_FOUND);
        mt_clean(other);
        (void)mt_import(other, &good); /* what was wrong stands in no way */
        mt_free(&bad);
        quipu_close(other);
    }
    mt_free(&good);
}

static void cut_export_is_refused_wherever_it_is_cut(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "a");
    st_append_many(store, "a", 2);
    st_create(store, "b");
    mt_stream good = mt_export(store, NULL);
    for (size_t n = 0; n < good.n; n++) {
        quipu_store *other = NULL;
        mt_stream cut = good;
        T_OK(quipu_open(":memory:", NULL, &other, &err));
        cut.n = n;
        quipu_status status = mt_try_import(other, &cut, 0, NULL, &err);
        /* The very last line break may be missing. */
        assert_int_equal(status, n == good.n - 1 ? QUIPU_OK : QUIPU_INVALID);
        mt_clean(other);
        quipu_close(other);
    }
    T_OK(mt_write(&good, "{}\n", 3));
    quipu_store *other = st_open_new(NULL, NULL);
    T_STATUS(mt_try_import(other, &good, 0, NULL, &err), QUIPU_INVALID);
    quipu_close(other);
    mt_free(&good);
}

static void other_versions_and_other_files_are_refused(void **state)
{
    static const struct {
        const char *text;
        quipu_status status;
    } cases[] = {
        {"", QUIPU_INVALID},
        {"hello\n", QUIPU_INVALID},
        {"{}\n", QUIPU_INVALID},
        {"[1]\n", QUIPU_INVALID},
        {"{\"quipu\":\"backup\",\"major\":1}\n", QUIPU_INVALID},
        {"{\"quipu\":\"export\"}\n", QUIPU_INVALID},
        {"{\"quipu\":\"export\",\"major\":\"1\"}\n", QUIPU_INVALID},
        {"{\"quipu\":\"export\",\"major\":2,\"minor\":0}\n{\"type\":\"end\",\"sessions\":0}\n",
         QUIPU_NEWER},
        {"{\"quipu\":\"export\",\"major\":1,\"minor\":7}\n{\"type\":\"end\",\"sessions\":0}\n",
         QUIPU_OK},
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"end\",\"sessions\":1}\n", QUIPU_INVALID},
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"message\",\"event_id\":\"x\"}\n"
         "{\"type\":\"end\",\"sessions\":0}\n",
         QUIPU_INVALID},
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"session\",\"key\":\"k\"}\n"
         "{\"type\":\"end\",\"sessions\":1}\n",
         QUIPU_INVALID}, /* no uid */
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"session\",\"key\":\"k\",\"uid\":"
         "\"0190a5c3-7e5b-7cc0-8d3f-0123456789ab\",\"parent\":"
         "\"0190a5c3-7e5b-7cc0-8d3f-0123456789ac\",\"fork_seq\":0}\n"
         "{\"type\":\"end\",\"sessions\":1}\n",
         QUIPU_INVALID}, /* no such parent */
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"session\",\"key\":\"k\",\"uid\":"
         "\"0190a5c3-7e5b-7cc0-8d3f-0123456789ab\"}\n{\"type\":\"end\",\"sessions\":1}\n",
         QUIPU_OK}, /* the least that is a session */
        {"{\"quipu\":\"export\",\"major\":1}\n{\"type\":\"session\",\"key\":\"k\",\"uid\":"
         "\"0190a5c3-7e5b-7cc0-8d3f-0123456789ab\",\"id\":7}\n{\"type\":\"end\",\"sessions\":1}\n",
         QUIPU_INVALID}, /* numbers are the file's own */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        quipu_store *store = NULL;
        quipu_error err = {0};
        mt_stream stream = text_stream(cases[i].text);
        T_OK(quipu_open(":memory:", NULL, &store, &err));
        quipu_status status = mt_try_import(store, &stream, 0, NULL, &err);
        if (status != cases[i].status) {
            fail_msg("%s: %s (%s)", cases[i].text, quipu_status_name(status), err.message);
        }
        mt_clean(store);
        mt_free(&stream);
        quipu_close(store);
    }
}

/* ---- streaming --------------------------------------------------------------------------------
 */

static void bytes_may_come_one_by_one(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, NULL);

    (void)state;
    mt_fill(store, path);
    mt_stream first = mt_export(store, NULL);
    first.step = 1;
    (void)mt_import(other, &first);
    mt_stream back = mt_export(other, NULL);
    same_bytes(&first, &back);
    mt_free(&first);
    mt_free(&back);
    quipu_close(store);
    quipu_close(other);
}

static void session_larger_than_the_buffer_is_one_transaction(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open_new(NULL, NULL);
    const size_t size = (size_t)1 << 20;
    char *text = malloc(size + 1);
    quipu_error err = {0};

    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = '\0';
    st_create(store, "big");
    for (int i = 0; i < QUIPU_IMPORT_BUFFER / (1 << 20) + 3; i++) {
        st_append(store, "big", text);
    }
    st_append(store, "big", "the last one");
    st_create(store, "after");
    atomic_store(&t_pg_calm, true); /* longer than what is held back, and than what is gathered */
    mt_stream stream = mt_export(store, NULL);
    assert_true(stream.n > (size_t)QUIPU_IMPORT_BUFFER);
    assert_true(stream.calls > 8); /* it came in pieces */
    mt_stream bad = changed(&stream, "\"content\":\"the last one\"", "\"content\":7");
    T_STATUS(mt_try_import(other, &bad, 0, NULL, &err), QUIPU_INVALID);
    assert_int_equal(st_get_status(other, "big"), QUIPU_NOT_FOUND);
    mt_clean(other);
    quipu_transfer done = mt_import(other, &stream);
    assert_int_equal(done.sessions, 2);
    mt_stream back = mt_export(other, NULL);
    atomic_store(&t_pg_calm, false);
    same_bytes(&stream, &back);
    free(text);
    mt_free(&bad);
    mt_free(&stream);
    mt_free(&back);
    quipu_close(other);
}

static void line_limit_lets_the_longest_in_and_no_byte_more(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_import_options options = QUIPU_IMPORT_OPTIONS_INIT;
    int64_t longest = 0;
    int64_t n = 0;
    quipu_error err = {0};

    st_create(store, "k");
    st_append(store, "k",
              "some words that make this line longer than the others, by far: "
              "..................................................................."
              "..................................................................."
              "..................................................................."
              "...................................................................");
    mt_stream stream = mt_export(store, NULL);
    for (size_t i = 0; i < stream.n; i++) {
        n = stream.p[i] == '\n' ? 0 : n + 1;
        longest = n > longest ? n : longest;
    }
    options.line_bytes_max = longest - 1;
    T_STATUS(quipu_store_import(other, &options, mt_read, &stream, NULL, NULL, &err), QUIPU_LIMIT);
    assert_int_equal(st_get_status(other, "k"), QUIPU_NOT_FOUND);
    stream.at = 0;
    options.line_bytes_max = longest;
    T_OK(quipu_store_import(other, &options, mt_read, &stream, NULL, NULL, &err));
    options.line_bytes_max = (int64_t)QUIPU_LINE_BYTES_MAX + 1;
    T_STATUS(quipu_store_import(other, &options, mt_read, &stream, NULL, NULL, &err), QUIPU_MISUSE);
    mt_free(&stream);
    quipu_close(other);
}

static void failure_of_the_callers_stream_is_passed_on(void **state)
{
    quipu_store *store = *state;
    quipu_store *other = st_open_new(NULL, NULL);
    quipu_error err = {0};

    st_create(store, "a");
    st_create(store, "b");
    st_append_many(store, "b", 5);
    mt_stream good = mt_export(store, NULL);
    mt_stream stream = {.fail_at = 100};
    T_STATUS(quipu_store_export(store, NULL, mt_write, &stream, NULL, NULL, &err), QUIPU_IO);
    good.fail_at = good.n - 10;
    good.step = 7;
    T_STATUS(mt_try_import(other, &good, 0, NULL, &err), QUIPU_IO);
    assert_int_equal(st_get_status(other, "a"), QUIPU_OK);
    assert_int_equal(st_get_status(other, "b"), QUIPU_NOT_FOUND);
    mt_free(&good);
    mt_free(&stream);
    quipu_close(other);
}

static void wrong_calls_are_misuse(void **state)
{
    quipu_store *store = *state;
    quipu_export_options out = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_import_options in = QUIPU_IMPORT_OPTIONS_INIT;
    quipu_cancel *cancel = quipu_cancel_new();
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    mt_stream stream = {0};

    T_STATUS(quipu_store_export(NULL, NULL, mt_write, &stream, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_store_export(store, NULL, NULL, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_store_import(store, NULL, NULL, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    out.flags = 4;
    T_STATUS(quipu_store_export(store, &out, mt_write, &stream, NULL, NULL, NULL), QUIPU_MISUSE);
    in.flags = 2;
    T_STATUS(quipu_store_import(store, &in, mt_read, &stream, NULL, NULL, NULL), QUIPU_MISUSE);
    quipu_cancel_set(cancel);
    call.cancel = cancel;
    T_STATUS(quipu_store_export(store, NULL, mt_write, &stream, &call, NULL, NULL),
             QUIPU_CANCELLED);
    T_STATUS(quipu_store_import(store, NULL, mt_read, &stream, &call, NULL, NULL), QUIPU_CANCELLED);
    quipu_free(cancel);
    mt_free(&stream);
}

/* ---- memory that runs out ---------------------------------------------------------------------
 */

typedef struct sweep_ctx {
    const char *path;
    mt_stream *stream;
    bool exports;
} sweep_ctx;

static void sweep_body(void *ctx)
{
    sweep_ctx *sweep = ctx;
    mt_stream out = {0};
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    t_fault_pause(true);
    T_OK(quipu_open(sweep->exports ? sweep->path : ":memory:", NULL, &store, &err));
    t_fault_pause(false);
    status = sweep->exports ? quipu_store_export(store, NULL, mt_write, &out, NULL, NULL, &err)
                            : mt_try_import(store, sweep->stream, 0, NULL, &err);
    t_fault_pause(true);
    if (t_fault_fired() == 0) {
        assert_int_equal(status, QUIPU_OK);
    } else if (status != QUIPU_OK && status != QUIPU_NOMEM) {
        fail_msg("%s (%s)", quipu_status_name(status), err.message);
    }
    if (sweep->exports && status == QUIPU_OK) {
        same_bytes(&out, sweep->stream);
    }
    /* A deleted session that forks share may wait for them: the repeat settles it. */
    if (!sweep->exports) {
        (void)mt_import(store, sweep->stream);
    }
    mt_clean(store);
    quipu_close(store);
    mt_free(&out);
    t_fault_pause(false);
}

static void export_and_import_survive_every_failed_allocation(void **state)
{
    T_LONG_ON_PG("hundreds of stores");

    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    mt_fill(store, path);
    mt_stream stream = mt_export(store, NULL);
    quipu_close(store);
    for (int i = 0; i < 2; i++) {
        sweep_ctx ctx = {path, &stream, i == 0};
        t_fault_install();
        int64_t fired = t_fault_sweep(sweep_body, &ctx);
        t_fault_remove();
        print_message("%s: %lld faults\n", i == 0 ? "export" : "import", (long long)fired);
        assert_true(fired > 0);
    }
    mt_free(&stream);
}

static void import_records_what_it_stored_in_the_feed(void **state)
{
    static const char *const keys[] = {"k", "fork", "blank"};
    static const int64_t firsts[] = {1, 1, 0};
    static const int64_t lasts[] = {3, 2, 0};
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *from = st_open_new(NULL, NULL);
    quipu_feed_page *page = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(from, "k");
    st_append_many(from, "k", 3);
    mt_fork(from, "k", 2, "fork");
    st_create(from, "blank");
    mt_stream stream = mt_export(from, NULL);
    open.flags = QUIPU_OPEN_FEED;
    quipu_store *to = st_open_new(&open, NULL);
    (void)mt_import(to, &stream);
    (void)mt_import(to, &stream); /* a repeat stores nothing, and reports nothing */
    T_OK(quipu_feed_read(to, NULL, NULL, &page, &err));
    assert_int_equal(page->changes.count, 3);
    for (size_t i = 0; i < 3; i++) {
        quipu_history *history = st_get(to, keys[i], NULL);
        assert_int_equal(quipu_change_at(page->changes, i)->kind, QUIPU_CHANGE_CREATED);
        T_STR(quipu_change_at(page->changes, i)->key, keys[i]);
        assert_memory_equal(quipu_change_at(page->changes, i)->uid.b, history->session->uid.b, 16);
        assert_int_equal(quipu_change_at(page->changes, i)->revision, history->session->revision);
        assert_int_equal(quipu_change_at(page->changes, i)->first_seq, firsts[i]);
        assert_int_equal(quipu_change_at(page->changes, i)->last_seq, lasts[i]);
        quipu_free(history);
    }
    quipu_free(page);
    mt_free(&stream);
    quipu_close(to);
    quipu_close(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back_byte_for_byte),
        cmocka_unit_test(import_can_be_repeated),
        ST_TEST(key_of_another_session_is_never_overwritten),
        cmocka_unit_test(deleted_session_with_a_living_fork_comes_back),
        cmocka_unit_test(newer_state_stays),
        cmocka_unit_test(stores_in_memory_and_of_tenants_export_their_own),
        cmocka_unit_test(flat_export_makes_sessions_of_forks),
        cmocka_unit_test(one_session_comes_with_those_it_was_forked_from),
        ST_TEST(wrong_line_is_named_and_its_session_not_stored),
        ST_TEST(cut_export_is_refused_wherever_it_is_cut),
        cmocka_unit_test(other_versions_and_other_files_are_refused),
        cmocka_unit_test(bytes_may_come_one_by_one),
        ST_TEST(session_larger_than_the_buffer_is_one_transaction),
        ST_TEST(line_limit_lets_the_longest_in_and_no_byte_more),
        ST_TEST(failure_of_the_callers_stream_is_passed_on),
        ST_TEST(wrong_calls_are_misuse),
        cmocka_unit_test(export_and_import_survive_every_failed_allocation),
        cmocka_unit_test(import_records_what_it_stored_in_the_feed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
