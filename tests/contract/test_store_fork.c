/* Forks: a past that is shared, not copied, and stays right when any of the sessions appends, is
 * capped, pruned, expires or is deleted, in any order. */
#include "contract/history_t.h"

#include "lib/short.h"
#include "store/store.h"

static quipu_status fork_status(quipu_store *store, const char *key, int64_t seq,
                                const char *new_key, quipu_error *err)
{
    quipu_session_new values = st_values(new_key);

    return quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, err);
}

static void name(char ret_key[32], const char *stem, int number)
{
    (void)snprintf(ret_key, 32, "%s%d", stem, number);
}

/* The keys of the forks of a session, newest change first, in pages of `limit`. */
static void forks_of(quipu_store *store, const char *key, int64_t limit, char ret[256])
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    char cursor[128];
    size_t n = 0;

    ret[0] = '\0';
    options.parent = quipu_cstr(key);
    options.limit = limit;
    do {
        quipu_session_page *page = NULL;

        T_OK(quipu_session_list(store, &options, NULL, &page, NULL));
        for (size_t i = 0; i < page->sessions.count; i++) {
            const quipu_session_info *info = quipu_session_info_at(page->sessions, i);

            T_STR(info->parent_key, key);
            n += (size_t)snprintf(ret + n, 256 - n, "%s%s", n == 0 ? "" : " ", info->key.p);
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", page->next.p != NULL ? page->next.p : "");
        options.after = quipu_cstr(cursor);
        quipu_free(page);
    } while (cursor[0] != '\0');
}

/* ---- sharing ----------------------------------------------------------------------------------
 */

static void fork_has_the_past_and_goes_its_own_way(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;

    st_create(self->store, "p");
    st_append_many(self->store, "p", 5);
    ht_fork(self->store, "p", 3, "f");
    assert_int_equal(st_append(self->store, "f", "mine"), 4);
    assert_int_equal(st_append(self->store, "p", "yours"), 6);
    HT_ALL(self->store, "f", "1 2 3 4");
    HT_ALL(self->store, "p", "1 2 3 4 5 6");
    quipu_history *got = st_get(self->store, "f", NULL);
    T_STR(quipu_message_at(got->messages, 2)->content, "m3");
    T_STR(quipu_message_at(got->messages, 3)->content, "mine");
    st_check_whole(got);
    assert_true(got->session->is_fork);
    assert_int_equal(got->session->fork_seq, 3);
    quipu_free(got);
    got = st_get(self->store, "p", NULL);
    st_check_whole(got);
    assert_false(got->session->is_fork);
    quipu_free(got);
    assert_int_equal(ht_count(self->path).messages, 7);
}

static void every_number_can_be_forked_at_and_no_other(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};
    char key[32];

    st_create(self->store, "p");
    st_append_many(self->store, "p", 4);
    for (int seq = 0; seq <= 4; seq++) {
        name(key, "f", seq);
        ht_fork(self->store, "p", seq, key);
        quipu_history *got = st_get(self->store, key, NULL);
        assert_int_equal(got->messages.count, seq);
        assert_int_equal(got->session->next_seq, seq + 1);
        st_check_whole(got);
        quipu_free(got);
    }
    T_STATUS(fork_status(self->store, "p", 5, "x", &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "message 5"));
    T_STATUS(fork_status(self->store, "p", -1, "x", &err), QUIPU_INVALID);
    T_STATUS(st_get_status(self->store, "x"), QUIPU_NOT_FOUND);
}

static void fork_inherits_settings_that_are_not_given(void **state)
{
    ht_store *self = *state;
    quipu_session_new values = st_values("p");
    quipu_error err = {0};

    values.agent_id = QUIPU_STR("planner");
    values.model = QUIPU_STR("big");
    values.metadata.text = QUIPU_STR("{\"a\":1}");
    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ann");
    values.session_id = QUIPU_STR("one");
    values.ttl_ms = 60000;
    T_OK(quipu_session_create(self->store, &values, NULL, NULL, &err));
    values = st_values("f");
    values.model = QUIPU_STR("small");
    T_OK(quipu_session_fork(self->store, QUIPU_STR("p"), 0, &values, NULL, NULL, &err));
    quipu_history *got = st_get(self->store, "f", NULL);
    T_STR(got->session->agent_id, "planner");
    T_STR(got->session->model, "small");
    T_STR(got->session->metadata.text, "{\"a\":1}");
    T_STR(got->session->app_name, "app");
    T_STR(got->session->user_id, "ann");
    T_STR(got->session->session_id, "f");
    assert_null(got->session->channel_id.p);
    assert_true(got->session->has_expiry);
    quipu_free(got);
    values = st_values("g");
    values.ttl_ms = -1;
    T_OK(quipu_session_fork(self->store, QUIPU_STR("p"), 0, &values, NULL, NULL, &err));
    assert_false(ht_info(self->store, "g").has_expiry);
}

static void fork_refuses_what_create_refuses(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_session_new values = st_values("f");
    quipu_error err = {0};

    T_STATUS(fork_status(self->store, "p", 0, "f", &err), QUIPU_NOT_FOUND);
    st_create(self->store, "p");
    st_create(self->store, "taken");
    T_STATUS(fork_status(self->store, "p", 0, "taken", &err), QUIPU_EXISTS);
    T_STATUS(fork_status(self->store, "p", 0, "p", &err), QUIPU_EXISTS);
    T_STATUS(fork_status(self->store, "p", 0, "", &err), QUIPU_INVALID);
    T_STATUS(quipu_session_fork(self->store, QUIPU_STR("p"), 0, NULL, NULL, NULL, &err),
             QUIPU_MISUSE);
    values.messages = quipu_messages_of(&message, 1);
    T_STATUS(quipu_session_fork(self->store, QUIPU_STR("p"), 0, &values, NULL, NULL, &err),
             QUIPU_MISUSE);
    values = st_values("f");
    values.metadata.text = QUIPU_STR("[]");
    T_STATUS(quipu_session_fork(self->store, QUIPU_STR("p"), 0, &values, NULL, NULL, &err),
             QUIPU_INVALID);
    assert_int_equal(ht_count(self->path).named, 2);
}

static void id_in_the_inherited_past_counts_as_existing(void **state)
{
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    st_create(self->store, "p");
    message.event_id = QUIPU_STR("e1");
    T_OK(quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(&message, 1), NULL,
                              NULL, NULL, &err));
    ht_fork(self->store, "p", 1, "f");
    ht_fork(self->store, "f", 1, "g");
    message.event_id = QUIPU_STR("e2");
    T_OK(quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(&message, 1), NULL,
                              NULL, NULL, &err));

    message.event_id = QUIPU_STR("e1");
    T_OK(quipu_message_append(self->store, QUIPU_STR("g"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_true(appended.repeated);
    assert_int_equal(appended.first_seq, 1);
    message.content = QUIPU_STR("another");
    T_STATUS(quipu_message_append(self->store, QUIPU_STR("g"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, &err),
             QUIPU_EXISTS);
    message.event_id = QUIPU_STR("e2"); /* came to the parent after the fork */
    T_OK(quipu_message_append(self->store, QUIPU_STR("g"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_false(appended.repeated);
    assert_int_equal(appended.first_seq, 2);
}

static void pages_and_windows_go_across_the_fork(void **state)
{
    ht_store *self = *state;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_error err = {0};
    char text[HT_TEXT_MAX];

    st_create(self->store, "p");
    ht_script(self->store, "p", "uauaua");
    ht_fork(self->store, "p", 4, "f");
    ht_script(self->store, "f", "ua");
    ht_fork(self->store, "f", 5, "g");
    ht_script(self->store, "g", "aua");
    HT_ALL(self->store, "g", "1 2 3 4 5 6 7 8");
    range.after_seq = 3;
    range.limit = 3;
    quipu_history *got = st_get(self->store, "g", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "4 5 6");
    int64_t tokens = quipu_message_at(got->messages, 0)->tokens;
    quipu_free(got);
    range.after_seq = 0;
    range.limit = 5;
    range.flags = QUIPU_RANGE_LAST;
    got = st_get(self->store, "g", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "4 5 6 7 8");
    quipu_free(got);
    options.token_budget = 6 * tokens;
    T_OK(quipu_window_read(self->store, QUIPU_STR("g"), &options, NULL, &window, &err));
    ht_numbers(window->messages, text);
    assert_string_equal(text, "3 4 5 6 7 8");
    assert_int_equal(window->tokens, 6 * tokens);
    quipu_free(window);
}

static void rewind_is_a_fork_of_itself(void **state)
{
    ht_store *self = *state;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_error err = {0};
    char text[HT_TEXT_MAX];

    st_create(self->store, "p");
    st_append_many(self->store, "p", 4);
    T_OK(t_session_rewind(self->store, QUIPU_STR("p"), 2, QUIPU_STR("r"), NULL, &err));
    HT_ALL(self->store, "r", "1 2");
    HT_ALL(self->store, "p", "1 2 3 4");
    range.before_seq = 3; /* the same past as a view */
    quipu_history *got = st_get(self->store, "p", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "1 2");
    quipu_free(got);
}

static void list_shows_forks_and_no_hidden_session(void **state)
{
    ht_store *self = *state;
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_error err = {0};

    st_create(self->store, "p");
    st_append_many(self->store, "p", 3);
    ht_fork(self->store, "p", 2, "f");
    ht_delete(self->store, "p");
    options.flags = QUIPU_LIST_EXPIRED;
    T_OK(quipu_session_list(self->store, &options, NULL, &page, &err));
    assert_int_equal(page->sessions.count, 1);
    T_STR(quipu_session_info_at(page->sessions, 0)->key, "f");
    assert_int_equal(quipu_session_info_at(page->sessions, 0)->message_count, 2);
    assert_int_equal(quipu_session_info_at(page->sessions, 0)->token_count,
                     ht_info(self->store, "f").token_count);
    quipu_free(page);
}

/* ---- deleting ---------------------------------------------------------------------------------
 */

static void deleted_parent_frees_its_key_and_keeps_only_what_forks_share(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;

    st_create(self->store, "p");
    st_append_many(self->store, "p", 10);
    ht_fork(self->store, "p", 3, "f");
    ht_delete(self->store, "p");
    T_STATUS(st_get_status(self->store, "p"), QUIPU_NOT_FOUND);
    HT_ALL(self->store, "f", "1 2 3");
    ht_file count = ht_count(self->path);
    assert_int_equal(count.messages, 3);
    assert_int_equal(count.hidden, 1);
    st_create(self->store, "p"); /* the key is free */
    HT_ALL(self->store, "p", "");
    assert_int_equal(st_append(self->store, "f", "on"), 4);
    ht_delete(self->store, "f");
    count = ht_count(self->path);
    assert_int_equal(count.messages, 0);
    assert_int_equal(count.hidden, 0);
    assert_int_equal(count.named, 1);
}

static void nothing_is_kept_between_what_two_forks_share(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "p");
    ht_script(self->store, "p", "uauauaua");
    ht_fork(self->store, "p", 2, "old");
    assert_int_equal(ht_compact(self->store, "p", 6, "sum"), 9);
    T_OK(quipu_session_prune(self->store, QUIPU_STR("p"), NULL, NULL, &err));
    assert_int_equal(ht_count(self->path).messages, 2 + 3); /* 1 2, and 7 8 9 */
    ht_fork(self->store, "p", 7, "new");
    HT_ALL(self->store, "new", "7");
    ht_delete(self->store, "p");
    assert_int_equal(ht_count(self->path).messages, 2 + 1);
    HT_ALL(self->store, "old", "1 2");
    HT_ALL(self->store, "new", "7");
    T_STATUS(fork_status(self->store, "new", 6, "x", &err), QUIPU_INVALID); /* pruned */
    ht_delete(self->store, "old");
    assert_int_equal(ht_count(self->path).messages, 1);
    ht_delete(self->store, "new");
    assert_int_equal(ht_count(self->path).messages, 0);
    assert_int_equal(ht_count(self->path).hidden, 0);
}

static void chain_is_right_in_every_order_of_deletes(void **state)
{
    T_NOT_SERVED("it looks at the file");
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const char *keys[3] = {"a", "b", "c"};
    const char *numbers[3] = {"1 2 3", "1 2 3 4 5", "1 2 3 4 5 6 7"};
    ht_store *self = *state;

    for (size_t order = 0; order < 6; order++) {
        st_create(self->store, "a");
        st_append_many(self->store, "a", 3);
        ht_fork(self->store, "a", 3, "b");
        st_append_many(self->store, "b", 2);
        ht_fork(self->store, "b", 5, "c");
        st_append_many(self->store, "c", 2);
        for (size_t i = 0; i < 3; i++) {
            ht_delete(self->store, keys[orders[order][i]]);
            for (size_t k = i + 1; k < 3; k++) {
                HT_ALL(self->store, keys[orders[order][k]], numbers[orders[order][k]]);
            }
        }
        ht_file count = ht_count(self->path);
        assert_int_equal(count.messages + count.named + count.hidden, 0);
    }
}

static void fork_below_the_parents_own_fork_reaches_the_grandparent(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;

    st_create(self->store, "a");
    st_append_many(self->store, "a", 4);
    ht_fork(self->store, "a", 4, "b");
    st_append_many(self->store, "b", 2);
    ht_fork(self->store, "b", 2, "c"); /* shares nothing that b itself holds */
    HT_ALL(self->store, "c", "1 2");
    ht_delete(self->store, "b");
    ht_delete(self->store, "a");
    HT_ALL(self->store, "c", "1 2");
    ht_file count = ht_count(self->path);
    assert_int_equal(count.messages, 2);
    assert_int_equal(count.hidden, 2);
    ht_delete(self->store, "c");
    count = ht_count(self->path);
    assert_int_equal(count.messages + count.named + count.hidden, 0);
}

static void delete_tree_takes_the_forks_along(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    int64_t removed = 0;
    quipu_error err = {0};

    st_create(self->store, "a");
    st_append_many(self->store, "a", 3);
    ht_fork(self->store, "a", 2, "b");
    ht_fork(self->store, "b", 1, "c");
    ht_fork(self->store, "b", 2, "d");
    ht_fork(self->store, "a", 0, "e");
    st_append_many(self->store, "d", 2);
    ht_delete(self->store, "b"); /* hidden; its forks still are forks of a */
    T_OK(quipu_session_delete(self->store, QUIPU_STR("d"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, &removed, &err));
    assert_int_equal(removed, 1);
    HT_ALL(self->store, "c", "1");
    T_OK(quipu_session_delete(self->store, QUIPU_STR("a"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, &removed, &err));
    assert_int_equal(removed, 3);
    ht_file count = ht_count(self->path);
    assert_int_equal(count.messages + count.named + count.hidden, 0);
    T_OK(quipu_session_delete(self->store, QUIPU_STR("a"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, &removed, &err));
    assert_int_equal(removed, 0);
}

static void delete_of_a_parent_takes_its_memories_at_once(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = QUIPU_STR("p"), .content = QUIPU_STR("x")};
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    st_create(self->store, "p");
    ht_fork(self->store, "p", 0, "f");
    T_OK(t_memory_save(self->store, &memory, NULL, NULL, &err));
    ht_delete(self->store, "p");
    T_OK(t_memory_list(self->store, QUIPU_OBSERVATION, QUIPU_STR("p"), 0, NULL, &list, &err));
    assert_int_equal(list->memories.count, 0);
    quipu_free(list);
}

/* ---- expiry -----------------------------------------------------------------------------------
 */

static void expired_parent_is_swept_and_renewed_without_harm_to_its_fork(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    quipu_session_new values = st_values("p");
    quipu_message messages[3] = {st_says(QUIPU_ROLE_USER, "1"), st_says(QUIPU_ROLE_USER, "2"),
                                 st_says(QUIPU_ROLE_USER, "3")};
    quipu_session_new fork = st_values("f");
    int64_t removed = 0;
    quipu_error err = {0};

    values.ttl_ms = 2000;
    values.messages = quipu_messages_of(messages, 3);
    T_OK(quipu_session_create(self->store, &values, NULL, NULL, &err));
    fork.ttl_ms = -1;
    T_OK(quipu_session_fork(self->store, QUIPU_STR("p"), 2, &fork, NULL, NULL, &err));
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = 1;
    T_OK(quipu_session_update(self->store, QUIPU_STR("p"), &patch, NULL, NULL, &err));
    st_nap();
    T_STATUS(fork_status(self->store, "p", 1, "g", &err), QUIPU_EXPIRED);
    HT_ALL(self->store, "f", "1 2");
    T_OK(quipu_store_sweep(self->store, NULL, &removed, &err));
    assert_int_equal(removed, 1);
    assert_int_equal(ht_count(self->path).messages, 2);
    T_OK(quipu_store_sweep(self->store, NULL, &removed, &err));
    assert_int_equal(removed, 0); /* the hidden row has no time to live */
    T_OK(quipu_session_create(self->store, &values, NULL, NULL, &err));
    HT_ALL(self->store, "p", "1 2 3");
    HT_ALL(self->store, "f", "1 2");
}

static void expired_session_of_the_new_key_is_replaced(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;
    quipu_session_new values = st_values("f");
    quipu_error err = {0};

    st_create(self->store, "p");
    st_append_many(self->store, "p", 2);
    values.ttl_ms = 1;
    T_OK(quipu_session_fork(self->store, QUIPU_STR("p"), 1, &values, NULL, NULL, &err));
    st_nap();
    ht_fork(self->store, "p", 2, "f");
    HT_ALL(self->store, "f", "1 2");
    assert_int_equal(ht_count(self->path).named, 2);
}

/* ---- compaction -------------------------------------------------------------------------------
 */

static void compaction_within_the_shared_past_holds_in_the_fork(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "p");
    ht_script(self->store, "p", "uaua");
    assert_int_equal(ht_compact(self->store, "p", 2, "one"), 5);
    ht_script(self->store, "p", "ua");
    assert_int_equal(ht_compact(self->store, "p", 4, "two"), 8);
    ht_fork(self->store, "p", 8, "after");
    ht_fork(self->store, "p", 7, "between");
    ht_fork(self->store, "p", 4, "before");
    HT_VIEW(self->store, "after", "8 6 7");
    HT_VIEW(self->store, "between", "5 3 4 6 7");
    HT_VIEW(self->store, "before", "1 2 3 4");
    /* Either side undoes and prunes for itself. */
    T_OK(quipu_session_compact(self->store, QUIPU_STR("after"), T_COMPACT_UNDO, NULL, NULL, &err));
    HT_VIEW(self->store, "after", "5 3 4 6 7");
    T_OK(quipu_session_prune(self->store, QUIPU_STR("p"), NULL, NULL, &err));
    HT_ALL(self->store, "p", "5 6 7 8");
    HT_ALL(self->store, "before", "1 2 3 4");
    HT_VIEW(self->store, "after", "5 3 4 6 7");
    assert_int_equal(ht_count(self->path).messages, 8);
    ht_delete(self->store, "before");
    ht_delete(self->store, "between");
    T_OK(quipu_session_prune(self->store, QUIPU_STR("after"), NULL, NULL, &err));
    HT_ALL(self->store, "after", "3 4 5 6 7 8");
    assert_int_equal(ht_count(self->path).messages, 6); /* 3 and 4 lie there for the fork alone */
    ht_delete(self->store, "after");
    assert_int_equal(ht_count(self->path).messages, 4);
    HT_VIEW(self->store, "p", "8 6 7");
}

/* The index of a session knows no numbers: an id stays while its message is kept for a fork. */
static void pruned_id_is_forgotten_with_the_last_fork_that_shares_it(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    st_create(self->store, "p");
    message.event_id = QUIPU_STR("e1");
    T_OK(quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(&message, 1), NULL,
                              NULL, NULL, &err));
    ht_fork(self->store, "p", 1, "f");
    assert_int_equal(ht_compact(self->store, "p", 1, "sum"), 2);
    T_OK(quipu_session_prune(self->store, QUIPU_STR("p"), NULL, NULL, &err));
    T_OK(quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_true(appended.repeated);
    ht_delete(self->store, "f");
    T_OK(quipu_message_append(self->store, QUIPU_STR("p"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_false(appended.repeated);
    assert_int_equal(appended.first_seq, 3);
}

/* ---- depth and cost ---------------------------------------------------------------------------
 */

static void fork_past_the_depth_limit_is_a_copy(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "m1");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    char parent[32] = "f0";
    char key[32];

    st_create(self->store, "f0");
    for (int depth = 1; depth <= QUIPU_FORK_DEPTH_MAX; depth++) {
        message.event_id = quipu_cstr(parent); /* in "f3": the id "f3" */
        T_OK(quipu_message_append(self->store, quipu_cstr(parent), quipu_messages_of(&message, 1),
                                  NULL, NULL, NULL, &err));
        name(key, "f", depth);
        ht_fork(self->store, parent, depth, key);
        assert_true(ht_info(self->store, key).is_fork);
        memcpy(parent, key, sizeof(parent));
    }
    assert_int_equal(ht_count(self->path).messages, QUIPU_FORK_DEPTH_MAX);
    quipu_history *deep = st_get(self->store, parent, NULL);
    st_check_whole(deep);
    assert_int_equal(deep->messages.count, QUIPU_FORK_DEPTH_MAX);

    ht_fork(self->store, parent, QUIPU_FORK_DEPTH_MAX, "flat");
    quipu_history *flat = st_get(self->store, "flat", NULL);
    st_check_whole(flat);
    assert_false(flat->session->is_fork);
    assert_int_equal(flat->messages.count, deep->messages.count);
    for (size_t i = 0; i < flat->messages.count; i++) {
        assert_true(quipu_str_eq(quipu_message_at(flat->messages, i)->event_id,
                                 quipu_message_at(deep->messages, i)->event_id));
        assert_int_equal(quipu_message_at(flat->messages, i)->tokens_total,
                         quipu_message_at(deep->messages, i)->tokens_total);
        assert_int_equal(quipu_time_cmp(quipu_message_at(flat->messages, i)->timestamp,
                                        quipu_message_at(deep->messages, i)->timestamp),
                         0);
    }
    quipu_free(flat);
    quipu_free(deep);
    assert_int_equal(ht_count(self->path).messages, 2 * QUIPU_FORK_DEPTH_MAX);

    message.event_id = QUIPU_STR("f0"); /* through all 64 ancestors, and in the copy */
    T_OK(quipu_message_append(self->store, quipu_cstr(parent), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_true(appended.repeated);
    T_OK(quipu_message_append(self->store, QUIPU_STR("flat"), quipu_messages_of(&message, 1), NULL,
                              NULL, &appended, &err));
    assert_true(appended.repeated);
    T_OK(quipu_session_delete(self->store, QUIPU_STR("f0"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, NULL, &err));
    HT_ALL(self->store, "flat",
           "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 "
           "33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 "
           "62 63 64");
    assert_int_equal(ht_count(self->path).messages, QUIPU_FORK_DEPTH_MAX);
}

static void copy_of_many_messages_is_whole(void **state)
{
    T_NOT_SERVED("it looks at the file");
    ht_store *self = *state;
    char parent[32] = "f0";
    char key[32];

    st_create(self->store, "f0");
    st_append_many(self->store, "f0", 600); /* more than two batches of the copy */
    for (int depth = 1; depth <= QUIPU_FORK_DEPTH_MAX + 1; depth++) {
        name(key, "f", depth);
        ht_fork(self->store, parent, 600, key);
        memcpy(parent, key, sizeof(parent));
    }
    assert_int_equal(ht_count(self->path).messages, 1200);
    quipu_history *got = st_get(self->store, parent, NULL);
    assert_int_equal(got->messages.count, 600);
    T_STR(quipu_message_at(got->messages, 599)->content, "m600");
    st_check_whole(got);
    quipu_free(got);
}

static void fork_of_a_long_history_writes_one_row_and_reads_a_few(void **state)
{
    T_NOT_SERVED("it looks at the file");
    T_LONG_ON_PG("100,000 messages");

    ht_store *self = *state;
    uint64_t rows[2] = {0, 0};
    uint64_t statements[2] = {0, 0};
    char key[32];

    st_create(self->store, "p");
    for (int round = 0; round < 2; round++) {
        ht_file before = ht_count(self->path);
        ent_stats start = ent_stats_read(self->store->group.db);
        name(key, "f", round);
        ht_fork(self->store, "p", round == 0 ? 0 : 5000, key);
        ent_stats end = ent_stats_read(self->store->group.db);
        ht_file after = ht_count(self->path);
        rows[round] = end.rows - start.rows;
        statements[round] = end.statements - start.statements;
        assert_int_equal(after.messages, before.messages);
        assert_int_equal(after.named, before.named + 1);
        if (round == 0) {
            st_append_many(self->store, "p", 10000);
        }
    }
    print_message("empty: %llu rows, %llu statements; 10,000 messages: %llu, %llu\n",
                  (unsigned long long)rows[0], (unsigned long long)statements[0],
                  (unsigned long long)rows[1], (unsigned long long)statements[1]);
    assert_true(rows[1] <= rows[0] + 1); /* the message that it is forked at */
    assert_true(statements[1] <= statements[0] + 1);
}

/* ---- parents and children ---------------------------------------------------------------------
 */

static void a_fork_names_its_parent_until_that_is_deleted(void **state)
{
    ht_store *self = *state;
    quipu_window_options budget = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_history *got;

    st_create(self->store, "p");
    st_append_many(self->store, "p", 3);
    ht_fork(self->store, "p", 2, "f");
    ht_fork(self->store, "f", 2, "g");
    got = st_get(self->store, "f", NULL);
    T_STR(got->session->parent_key, "p");
    quipu_free(got);
    got = st_get(self->store, "p", NULL);
    assert_null(got->session->parent_key.p);
    quipu_free(got);
    budget.token_budget = 1000;
    T_OK(quipu_window_read(self->store, QUIPU_STR("f"), &budget, NULL, &window, NULL));
    T_STR(window->session->parent_key, "p");
    quipu_free(window);
    T_OK(quipu_session_delete(self->store, QUIPU_STR("p"), NULL, NULL, NULL, NULL));
    got = st_get(self->store, "f", NULL);
    assert_true(got->session->is_fork);
    assert_null(got->session->parent_key.p);
    assert_int_equal(got->session->fork_seq, 2);
    quipu_free(got);
}

static void the_forks_of_a_session_are_listed_by_their_last_change(void **state)
{
    ht_store *self = *state;
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_error err = {0};
    char keys[256];

    st_create(self->store, "p");
    st_create(self->store, "other");
    st_append_many(self->store, "p", 3);
    ht_fork(self->store, "p", 1, "a");
    ht_fork(self->store, "p", 2, "b");
    ht_fork(self->store, "p", 3, "c");
    st_append_many(self->store, "c", 1);
    ht_fork(self->store, "c", 4, "grandchild");
    ht_fork(self->store, "other", 0, "else");
    st_append_many(self->store, "a", 1);
    for (int64_t limit = 1; limit <= 4; limit++) {
        forks_of(self->store, "p", limit, keys);
        assert_string_equal(keys, "a c b");
    }
    forks_of(self->store, "c", 2, keys);
    assert_string_equal(keys, "grandchild");
    forks_of(self->store, "b", 2, keys);
    assert_string_equal(keys, "");
    options.parent = QUIPU_STR("nobody");
    T_STATUS(quipu_session_list(self->store, &options, NULL, &page, &err), QUIPU_NOT_FOUND);
    options.parent = QUIPU_STR("");
    T_STATUS(quipu_session_list(self->store, &options, NULL, &page, &err), QUIPU_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HT_TEST(fork_has_the_past_and_goes_its_own_way),
        HT_TEST(every_number_can_be_forked_at_and_no_other),
        HT_TEST(fork_inherits_settings_that_are_not_given),
        HT_TEST(fork_refuses_what_create_refuses),
        HT_TEST(id_in_the_inherited_past_counts_as_existing),
        HT_TEST(pages_and_windows_go_across_the_fork),
        HT_TEST(rewind_is_a_fork_of_itself),
        HT_TEST(list_shows_forks_and_no_hidden_session),
        HT_TEST(deleted_parent_frees_its_key_and_keeps_only_what_forks_share),
        HT_TEST(nothing_is_kept_between_what_two_forks_share),
        HT_TEST(chain_is_right_in_every_order_of_deletes),
        HT_TEST(fork_below_the_parents_own_fork_reaches_the_grandparent),
        HT_TEST(delete_tree_takes_the_forks_along),
        HT_TEST(delete_of_a_parent_takes_its_memories_at_once),
        HT_TEST(expired_parent_is_swept_and_renewed_without_harm_to_its_fork),
        HT_TEST(expired_session_of_the_new_key_is_replaced),
        HT_TEST(compaction_within_the_shared_past_holds_in_the_fork),
        HT_TEST(pruned_id_is_forgotten_with_the_last_fork_that_shares_it),
        HT_TEST(fork_past_the_depth_limit_is_a_copy),
        HT_TEST(copy_of_many_messages_is_whole),
        HT_TEST(fork_of_a_long_history_writes_one_row_and_reads_a_few),
        HT_TEST(a_fork_names_its_parent_until_that_is_deleted),
        HT_TEST(the_forks_of_a_session_are_listed_by_their_last_change),
    };

    return cmocka_run_group_tests_name("store_fork", tests, NULL, NULL);
}
