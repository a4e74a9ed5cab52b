/* The index of a search follows the messages: behind the appends or beside them, over forks, and
 * never holds what is gone. */
#include "contract/search_t.h"

#include "store/search.h"

/* ---- the index follows --------------------------------------------------------------------------
 */

static void every_query_sees_what_was_appended_before(void **state)
{
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        quipu_store *store = open_mode(modes[i], NULL);
        quipu_session_new values = st_values("b");
        const quipu_message history[] = {st_says(QUIPU_ROLE_USER, "first word"),
                                         st_says(QUIPU_ROLE_USER, "second word")};
        quipu_error err = {0};
        int64_t indexed = -1;

        st_create(store, "a");
        st_append(store, "a", "word one");
        assert_string_equal(found(store, "word"), "a:1 ");
        st_append(store, "a", "word two");
        assert_string_equal(found(store, "word"), "a:1 a:2 ");
        values.messages = quipu_messages_of(history, 2);
        T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
        assert_string_equal(found(store, "word"), "a:1 a:2 b:1 b:2 ");
        st_append(store, "b", "third word");
        T_OK(quipu_search_index(store, NULL, &indexed, &err));
        assert_int_equal(indexed, modes[i] == QUIPU_SEARCH_LAZY ? 1 : 0);
        assert_string_equal(found(store, "third"), "b:3 ");
        T_OK(quipu_search_index(store, NULL, &indexed, &err));
        assert_int_equal(indexed, 0);
        quipu_close(store);
    }
}

static void a_store_without_search_leaves_the_work_to_others(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *off = open_mode(QUIPU_SEARCH_OFF, path);
    quipu_open_options inline_options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_store *other = NULL;
    quipu_error err = {0};

    (void)state;
    st_create(off, "a");
    st_append(off, "a", "word one");
    T_STATUS(quipu_search(off, &options, NULL, &results, &err), QUIPU_UNSUPPORTED);
    T_STATUS(quipu_search_index(off, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    inline_options.search = QUIPU_SEARCH_INLINE;
    T_OK(quipu_open(path, &inline_options, &other, &err));
    st_append(other, "a", "word two");
    assert_string_equal(found(other, "word"), "a:1 a:2 ");
    st_append(off, "a", "word three");
    assert_string_equal(found(other, "word"), "a:1 a:2 a:3 ");
    T_OK(quipu_session_delete(off, QUIPU_STR("a"), NULL, NULL, NULL, &err));
    assert_string_equal(found(other, "word"), "");
    quipu_close(other);
    quipu_close(off);
}

static void indexing_changes_nothing_else_about_a_session(void **state)
{
    quipu_store *store = *state;

    st_create(store, "a");
    st_append(store, "a", "word");
    quipu_history *before = st_get(store, "a", NULL);
    assert_string_equal(found(store, "word"), "a:1 ");
    quipu_history *after = st_get(store, "a", NULL);
    assert_int_equal(quipu_time_cmp(before->session->updated_at, after->session->updated_at), 0);
    assert_int_equal(before->session->revision, after->session->revision);
    quipu_free(before);
    quipu_free(after);
}

static void step(quipu_store *store, qp_search_walk *walk)
{
    qp_call call;
    quipu_error err = {0};

    T_OK(qp_store_enter(store, NULL, &call, &err));
    T_OK(qp_search_step(store, &call, walk, &err));
    qp_store_leave(&call);
}

static void append_batch(quipu_store *store, const char *key, size_t count, const char *text)
{
    quipu_message *messages = calloc(count, sizeof(*messages));
    quipu_error err = {0};

    assert_non_null(messages);
    for (size_t i = 0; i < count; i++) {
        messages[i] = st_says(QUIPU_ROLE_USER, text);
    }
    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, count), NULL,
                              NULL, NULL, &err));
    free(messages);
}

static void a_transaction_indexes_a_bounded_number_of_messages(void **state)
{
    quipu_store *store = *state;
    qp_search_walk walk = {.last = INT64_MAX};

    st_create(store, "a");
    st_create(store, "b");
    append_batch(store, "a", QUIPU_INDEX_BATCH, "word");
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    assert_true(walk.ended);
    append_batch(store, "a", QUIPU_INDEX_BATCH + 1, "word");
    append_batch(store, "b", 3, "word");
    walk = (qp_search_walk){.last = INT64_MAX};
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH);
    assert_false(walk.ended);
    step(store, &walk);
    assert_int_equal(walk.indexed, QUIPU_INDEX_BATCH + 4);
    assert_true(walk.ended);
}

static void a_transaction_indexes_a_bounded_number_of_bytes(void **state)
{
    quipu_store *store = *state;
    const size_t size = QUIPU_INDEX_BATCH_BYTES;
    char *text = malloc(size + 2);
    qp_search_walk walk = {.last = INT64_MAX};

    assert_non_null(text);
    memset(text, 'x', size + 1);
    text[size / 2] = '\0';
    st_create(store, "a");
    st_append(store, "a", text);
    st_append(store, "a", text); /* exactly the maximum, together */
    st_append(store, "a", "y");
    step(store, &walk);
    assert_int_equal(walk.indexed, 2);
    step(store, &walk);
    assert_int_equal(walk.indexed, 3);
    text[size / 2] = 'x';
    text[size + 1] = '\0';
    st_append(store, "a", text); /* one past it: alone */
    st_append(store, "a", "y");
    walk = (qp_search_walk){.last = INT64_MAX};
    step(store, &walk);
    assert_int_equal(walk.indexed, 1);
    step(store, &walk);
    assert_int_equal(walk.indexed, 2);
    assert_true(walk.ended);
    free(text);
}

static void a_walk_ends_although_sessions_grow(void **state)
{
    quipu_store *store = *state;
    qp_search_walk walk = {.last = INT64_MAX};

    st_create(store, "a");
    append_batch(store, "a", 300, "word");
    for (int i = 0; i < 10 && !walk.ended; i++) {
        step(store, &walk);
        append_batch(store, "a", 300, "word");
    }
    assert_true(walk.ended);
    assert_true(walk.indexed >= 300 && walk.indexed <= 900);
    assert_string_equal(found(store, "word none"), "");
}

/* ---- what is gone -------------------------------------------------------------------------------
 */

static void deleted_text_is_never_found(void **state)
{
    static const quipu_search_mode modes[] = {QUIPU_SEARCH_LAZY, QUIPU_SEARCH_INLINE};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        quipu_store *store = open_mode(modes[i % 2], NULL);
        quipu_error err = {0};

        st_create(store, "a");
        st_create(store, "b");
        st_append(store, "a", "common secret");
        st_append(store, "b", "common word");
        if (i < 2) {
            assert_string_equal(found(store, "common"), "a:1 b:1 ");
        }
        st_append(store, "a", "another secret"); /* not indexed yet in lazy mode */
        T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, NULL, NULL, &err));
        assert_string_equal(found(store, "secret"), "");
        assert_string_equal(found(store, "common"), "b:1 ");
        st_create(store, "a");
        st_append(store, "a", "new life");
        assert_string_equal(found(store, "secret"), "");
        assert_string_equal(found(store, "life"), "a:1 ");
        quipu_close(store);
    }
}

static void expired_sessions_are_not_found_and_swept_ones_are_gone(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("a");
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    int64_t removed = 0;

    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_create(store, "b");
    st_append(store, "b", "word");
    values = st_values("c");
    values.ttl_ms = 60000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append(store, "c", "word");
    assert_string_equal(found(store, "word"), "b:1 c:1 ");
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = 1;
    T_OK(quipu_session_update(store, QUIPU_STR("c"), &patch, NULL, NULL, &err));
    st_nap();
    assert_string_equal(found(store, "word"), "b:1 ");
    options.session_key = QUIPU_STR("c");
    T_STATUS(quipu_search(store, &options, NULL, &results, &err), QUIPU_EXPIRED);
    T_OK(quipu_store_sweep(store, NULL, &removed, &err));
    assert_int_equal(removed, 2);
    assert_string_equal(found(store, "word"), "b:1 ");
}

static void capped_messages_leave_the_index(void **state)
{
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        open.search = (quipu_search_mode)mode;
        open.cap_messages = 3;
        quipu_store *store = st_open_new(&open, NULL);

        st_create(store, "a");
        st_append(store, "a", "word 1");
        st_append(store, "a", "word 2");
        assert_string_equal(found(store, "word"), "a:1 a:2 ");
        for (int i = 3; i <= 8; i++) {
            st_append(store, "a", "word more");
        }
        assert_string_equal(found(store, "word"), "a:6 a:7 a:8 ");
        quipu_close(store);
    }
}

static void a_rebuilt_index_finds_the_same(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    bool discarded = true;
    quipu_error err = {0};

    (void)state;
    st_create(store, "a");
    st_append(store, "a", "word one");
    st_append(store, "a", "word two");
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    atomic_store(&t_pg_calm, true); /* the caller of a transaction repeats it */
    T_OK(ent_begin(store->group.db, ENT_WRITE, &err));
    T_OK(qp_search_rebuild(store->group.db, &discarded, &err));
    T_OK(ent_commit(store->group.db, &err));
    assert_false(discarded);
    atomic_store(&t_pg_calm, false);
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    st_append(store, "a", "word three");
    T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, NULL, NULL, &err));
    assert_string_equal(found(store, "word"), "");
    quipu_close(store);
}

static void check_index(quipu_store *store)
{
    quipu_error err = {0};
    quipu_status status;

    T_OK(quipu_search_index(store, NULL, NULL, &err));
    status = qp_message_index_check(store->group.db, &err);
    if (status != QUIPU_OK) {
        fail_msg("the index and the messages differ: %s", err.message);
    }
}

/* Whatever is done in whatever order, the index holds exactly the messages that there are. */
static void the_index_agrees_with_the_messages(void **state)
{
    uint64_t seed = t_seed();
    const int64_t rounds = t_count(400, 20000);

    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;
        open.search = (quipu_search_mode)mode;
        open.cap_messages = 12;
        open.durability = QUIPU_RELAXED;
        quipu_store *store = st_open_new(&open, NULL);

        for (int64_t i = 0; i < rounds; i++) {
            const quipu_message message = st_says(QUIPU_ROLE_USER, "some 文字 text");
            char key[16];
            char other[16];
            quipu_session_new values;

            snprintf(key, sizeof(key), "k%d", (int)t_random_below(&seed, 6));
            snprintf(other, sizeof(other), "k%d", (int)t_random_below(&seed, 6));
            switch (t_random_below(&seed, 10)) {
            case 0:
                (void)!quipu_session_delete(store, quipu_cstr(key), NULL, NULL, NULL, NULL);
                break;
            case 1:
                values = st_values(other);
                (void)!quipu_session_fork(store, quipu_cstr(key),
                                          (int64_t)t_random_below(&seed, 15), &values, NULL, NULL,
                                          NULL);
                break;
            case 2:
                (void)found(store, "text");
                break;
            case 3:
                values = st_values(key);
                values.messages = quipu_messages_of(&message, 1);
                (void)!quipu_session_create(store, &values, NULL, NULL, NULL);
                break;
            default:
                (void)!quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1),
                                            NULL, NULL, NULL, NULL);
                break;
            }
            if (i % 50 == 49) {
                check_index(store);
            }
        }
        check_index(store);
        quipu_close(store);
    }
}

/* ---- forks --------------------------------------------------------------------------------------
 */

static void fork_at(quipu_store *store, const char *key, int64_t seq, const char *name)
{
    quipu_session_new values = st_values(name);
    quipu_error err = {0};

    T_OK(quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, &err));
}

static void inherited_messages_are_found_for_the_session_asked_for(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("word");

    st_create(store, "p");
    st_append(store, "p", "word one");
    st_append(store, "p", "word two");
    st_append(store, "p", "word of the parent");
    fork_at(store, "p", 2, "f");
    st_append(store, "f", "word of the fork");
    fork_at(store, "f", 3, "g");
    st_append(store, "g", "word of the grandchild");
    options.session_key = QUIPU_STR("g");
    assert_string_equal(found_with(store, &options), "g:1 g:2 g:3 g:4 ");
    options.session_key = QUIPU_STR("p");
    assert_string_equal(found_with(store, &options), "p:1 p:2 p:3 ");
    options = ask("word");
    options.session_key = QUIPU_STR("g");
    options.limit = 2;
    options.offset = 1;
    assert_string_equal(found_with(store, &options), "g:2 g:3 ");
    assert_string_equal(found(store, "word"), "p:1 p:2 p:3 f:3 g:4 ");
}

static void inherited_and_own_messages_are_ranked_together(void **state)
{
    quipu_store *store = *state;
    quipu_search_options options = ask("word");

    st_create(store, "p");
    st_append(store, "p", "one word among a lot of others that make this a poor match");
    fork_at(store, "p", 1, "f");
    st_append(store, "f", "word");
    options.session_key = QUIPU_STR("f");
    assert_string_equal(found_with(store, &options), "f:2 f:1 ");
}

static void what_a_cap_hides_is_found_through_a_fork(void **state)
{
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    open.cap_messages = 2;
    quipu_store *store = st_open_new(&open, NULL);
    st_create(store, "p");
    st_append(store, "p", "same word");
    st_append(store, "p", "same word");
    fork_at(store, "p", 2, "f");
    st_append(store, "p", "same word");
    st_append(store, "p", "same word");
    assert_string_equal(found(store, "word"), "f:1 f:2 p:3 p:4 ");
    quipu_close(store);
}

static void a_deleted_parents_messages_are_found_through_its_forks(void **state)
{
    quipu_store *store = *state;
    quipu_error err = {0};

    st_create(store, "p");
    st_append(store, "p", "word one");
    st_append(store, "p", "word two");
    st_append(store, "p", "word three");
    fork_at(store, "p", 1, "f");
    fork_at(store, "p", 2, "g");
    assert_string_equal(found(store, "word"), "p:1 p:2 p:3 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("p"), NULL, NULL, NULL, &err));
    assert_string_equal(found(store, "word"), "f:1 g:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("f"), NULL, NULL, NULL, &err));
    assert_string_equal(found(store, "word"), "g:1 g:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("g"), NULL, NULL, NULL, &err));
    assert_string_equal(found(store, "word"), "");
}

/* Every allocation of a search that has to catch up, failed once and from then on. */
typedef struct starving {
    quipu_search_mode mode;
    char path[T_PATH_MAX];
} starving;

static void starved(void *ctx)
{
    starving *with = ctx;
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;
    quipu_search_options options = ask("word");
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    quipu_status status;
    quipu_store *store;

    t_fault_pause(true);
    open.search = with->mode;
    if (with->path[0] == '\0') { /* one for all runs: a new one costs a server much more */
        store = st_open_new(&open, with->path);
    } else {
        T_OK(quipu_open(with->path, &open, &store, &err));
    }
    st_create(store, "a");
    st_append(store, "a", "word one");
    st_append(store, "a", "word two");
    t_fault_pause(false);
    status = quipu_search(store, &options, NULL, &results, &err);
    t_fault_pause(true);
    if (status == QUIPU_OK) {
        assert_int_equal(results->hits.count, 2);
    } else {
        assert_int_equal(status, QUIPU_NOMEM);
        assert_int_equal(err.status, QUIPU_NOMEM);
        assert_true(t_fault_fired() > 0);
        assert_null(results);
    }
    quipu_free(results);
    assert_string_equal(found(store, "word"), "a:1 a:2 ");
    T_OK(quipu_session_delete(store, QUIPU_STR("a"), NULL, NULL, NULL, &err));
    assert_string_equal(found(store, "word"), "");
    quipu_close(store);
    t_fault_pause(false);
}

static void a_search_without_memory_fails_whole(void **state)
{
    T_LONG_ON_PG("hundreds of runs, each with connections of its own");

    (void)state;
    for (int mode = QUIPU_SEARCH_LAZY; mode <= QUIPU_SEARCH_INLINE; mode++) {
        starving with = {.mode = (quipu_search_mode)mode};
        t_fault_install();
        int64_t faults = t_fault_sweep(starved, &with);
        t_fault_remove();
        print_message("%lld faults\n", (long long)faults);
        assert_true(faults > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_sees_what_was_appended_before),
        cmocka_unit_test(a_store_without_search_leaves_the_work_to_others),
        ST_TEST(indexing_changes_nothing_else_about_a_session),
        ST_TEST(a_transaction_indexes_a_bounded_number_of_messages),
        ST_TEST(a_transaction_indexes_a_bounded_number_of_bytes),
        ST_TEST(a_walk_ends_although_sessions_grow),
        cmocka_unit_test(deleted_text_is_never_found),
        ST_TEST(expired_sessions_are_not_found_and_swept_ones_are_gone),
        cmocka_unit_test(capped_messages_leave_the_index),
        cmocka_unit_test(a_rebuilt_index_finds_the_same),
        cmocka_unit_test(the_index_agrees_with_the_messages),
        ST_TEST(inherited_messages_are_found_for_the_session_asked_for),
        ST_TEST(inherited_and_own_messages_are_ranked_together),
        cmocka_unit_test(what_a_cap_hides_is_found_through_a_fork),
        ST_TEST(a_deleted_parents_messages_are_found_through_its_forks),
        cmocka_unit_test(a_search_without_memory_fails_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
