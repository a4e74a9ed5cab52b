/* Compaction without loss, its undoing, pruning, and the note of a timeout. */
#include "contract/history_t.h"
#include "lib/short.h"

#define KEY QUIPU_STR("k")

static quipu_status compact(quipu_store *store, int64_t covers_to, quipu_error *err)
{
    return quipu_session_compact(store, KEY, T_COMPACT(covers_to, QUIPU_STR("sum")), NULL, NULL,
                                 err);
}

static void view_begins_with_the_summary_and_the_originals_stay(void **state)
{
    ht_store *self = *state;

    st_create(self->store, "k");
    ht_script(self->store, "k", "uauaua");
    assert_int_equal(ht_compact(self->store, "k", 4, "what was said"), 7);
    HT_VIEW(self->store, "k", "7 5 6");
    HT_ALL(self->store, "k", "1 2 3 4 5 6 7");
    ht_script(self->store, "k", "ua");
    HT_VIEW(self->store, "k", "7 5 6 8 9");

    quipu_history *got = st_get(self->store, "k", NULL);
    const quipu_message *summary = quipu_message_at(got->messages, 6);
    assert_int_equal(got->session->compacted_seq, 7);
    assert_int_equal(summary->mark, QUIPU_MARK_COMPACTION);
    assert_int_equal(summary->covers_from, 1);
    assert_int_equal(summary->covers_to, 4);
    assert_int_equal(summary->replaces, 0);
    T_STR(summary->content, "what was said");
    assert_null(summary->extra.text.p);
    st_check_whole(got);
    quipu_free(got);
}

static void second_compaction_covers_the_view_of_the_first(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "uaua");
    assert_int_equal(ht_compact(self->store, "k", 2, "one"), 5);
    ht_script(self->store, "k", "uaua");
    assert_int_equal(ht_compact(self->store, "k", 7, "two"), 10);
    HT_VIEW(self->store, "k", "10 8 9");
    quipu_history *got = st_get(self->store, "k", NULL);
    assert_int_equal(quipu_message_at(got->messages, 9)->covers_from, 1);
    assert_int_equal(quipu_message_at(got->messages, 9)->covers_to, 7);
    assert_int_equal(quipu_message_at(got->messages, 9)->replaces, 5);
    quipu_free(got);
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err));
    HT_VIEW(self->store, "k", "5 3 4 6 7 8 9");
}

static void undone_compaction_gives_the_view_from_before(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "uaua");
    assert_int_equal(ht_compact(self->store, "k", 2, "one"), 5);
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err));
    HT_VIEW(self->store, "k", "1 2 3 4");
    HT_ALL(self->store, "k", "1 2 3 4 5");
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err),
             QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "no compaction"));
    assert_int_equal(ht_compact(self->store, "k", 3, "again"), 6);
    HT_VIEW(self->store, "k", "6 4");
}

static void compaction_moves_revision_and_numbers_like_an_append(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "ua");
    quipu_session_info before = ht_info(self->store, "k");
    assert_int_equal(ht_compact(self->store, "k", 1, "one"), 3);
    quipu_session_info after = ht_info(self->store, "k");
    assert_int_equal(after.revision, before.revision + 1);
    assert_int_equal(after.next_seq, 4);
    assert_int_equal(after.message_count, 3);
    assert_int_equal(after.token_count, before.token_count);
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err));
    assert_int_equal(ht_info(self->store, "k").revision, before.revision + 2);
}

static void range_that_is_not_in_the_view_is_refused(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    T_STATUS(compact(self->store, 0, &err), QUIPU_INVALID);
    T_STATUS(compact(self->store, 1, &err), QUIPU_INVALID);
    ht_script(self->store, "k", "uaua");
    T_STATUS(compact(self->store, 0, &err), QUIPU_INVALID);
    T_STATUS(compact(self->store, -1, &err), QUIPU_INVALID);
    T_STATUS(compact(self->store, 5, &err), QUIPU_INVALID);
    T_OK(compact(self->store, 2, &err));
    T_STATUS(compact(self->store, 2, &err), QUIPU_INVALID); /* covered already */
    T_STATUS(compact(self->store, 1, &err), QUIPU_INVALID);
    HT_VIEW(self->store, "k", "5 3 4");
}

static void call_is_not_parted_from_its_answers(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "umtta");
    T_STATUS(compact(self->store, 2, &err), QUIPU_INVALID);
    T_STATUS(compact(self->store, 3, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "tool calls"));
    T_OK(compact(self->store, 1, &err)); /* 6 */
    T_OK(compact(self->store, 4, &err)); /* 7 */
    HT_VIEW(self->store, "k", "7 5");
    ht_script(self->store, "k", "um");
    T_OK(compact(self->store, 8, &err)); /* 10: stands between a call and its answer */
    ht_script(self->store, "k", "t");
    T_STATUS(compact(self->store, 9, &err), QUIPU_INVALID);
    T_STATUS(compact(self->store, 10, &err), QUIPU_INVALID);
    T_OK(compact(self->store, 11, &err));
    HT_VIEW(self->store, "k", "12");
}

static void call_is_not_parted_from_an_answer_that_came_later(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "umatamt");
    for (int64_t to = 2; to <= 3; to++) {
        T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT(to, QUIPU_STR("sum")), NULL,
                                       NULL, &err),
                 QUIPU_INVALID);
    }
    assert_int_equal(ht_compact(self->store, "k", 1, "before the call"), 8);
    assert_int_equal(ht_compact(self->store, "k", 4, "after the answer"), 9);
}

static void border_does_not_part_what_ids_join(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "u");
    ht_tools(self->store, "k", QUIPU_ROLE_MODEL, "a");
    ht_tools(self->store, "k", QUIPU_ROLE_MODEL, "b");
    ht_tools(self->store, "k", QUIPU_ROLE_TOOL, "a");
    ht_tools(self->store, "k", QUIPU_ROLE_TOOL, "b");
    ht_script(self->store, "k", "a");                    /* 6 */
    ht_tools(self->store, "k", QUIPU_ROLE_TOOL, "lost"); /* of no call: it is tied to nothing */
    for (int64_t to = 2; to <= 4; to++) {
        T_STATUS(compact(self->store, to, &err), QUIPU_INVALID);
    }
    T_OK(compact(self->store, 1, &err)); /* 8 */
    T_OK(compact(self->store, 5, &err)); /* 9 */
    T_OK(compact(self->store, 6, &err)); /* 10 */
    HT_VIEW(self->store, "k", "10 7");
}

static void border_looks_so_far_for_an_answer_and_no_farther(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    ht_far_pair(self->store, "near", QUIPU_PAIR_REACH);
    ht_far_pair(self->store, "far", QUIPU_PAIR_REACH + 1);
    T_STATUS(quipu_session_compact(self->store, QUIPU_STR("near"), T_COMPACT(2, QUIPU_STR("sum")),
                                   NULL, NULL, &err),
             QUIPU_INVALID);
    T_STATUS(quipu_session_compact(self->store, QUIPU_STR("near"),
                                   T_COMPACT(QUIPU_PAIR_REACH + 1, QUIPU_STR("sum")), NULL, NULL,
                                   &err),
             QUIPU_INVALID);
    assert_true(ht_compact(self->store, "far", QUIPU_PAIR_REACH + 2, "sum") > 0);
    assert_true(ht_compact(self->store, "near", QUIPU_PAIR_REACH + 2, "sum") > 0);
}

/* An undo that names a summary is a compaction that somebody got wrong: nothing is undone. */
static void options_are_a_compaction_or_an_undo(void **state)
{
    ht_store *self = *state;
    const quipu_compact_options wrong[] = {
        {.flags = QUIPU_COMPACT_UNDO, .summary = QUIPU_STR("sum")},
        {.flags = QUIPU_COMPACT_UNDO, .covers_to = 1},
        {.flags = QUIPU_COMPACT_UNDO << 1, .covers_to = 1, .summary = QUIPU_STR("sum")},
    };
    quipu_history *history = NULL;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "ua");
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT(1, QUIPU_STR("sum")), NULL, NULL, &err));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        quipu_compact_options options = wrong[i];

        options.struct_size = (uint32_t)sizeof(options);
        T_STATUS(quipu_session_compact(self->store, KEY, &options, NULL, NULL, &err), QUIPU_MISUSE);
    }
    T_STATUS(quipu_session_compact(self->store, KEY, NULL, NULL, NULL, &err), QUIPU_MISUSE);
    T_STATUS(quipu_session_compact(self->store, KEY, &wrong[0], NULL, NULL, &err), QUIPU_MISUSE);
    T_OK(quipu_session_get(self->store, KEY, NULL, NULL, &history, &err));
    assert_int_equal(history->session->compacted_seq, 3);
    quipu_free(history);
}

static void summary_must_be_text(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "ua");
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT(1, QUIPU_STR("")), NULL, NULL, &err),
             QUIPU_INVALID);
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT(1, (quipu_str){NULL, 0}), NULL, NULL,
                                   &err),
             QUIPU_INVALID);
    T_STATUS(
        quipu_session_compact(self->store, KEY, T_COMPACT(1, QUIPU_STR("a\xff")), NULL, NULL, &err),
        QUIPU_INVALID);
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT(1, (quipu_str){"a\0b", 3}), NULL, NULL,
                               &err));
    quipu_history *got = st_get(self->store, "k", NULL);
    assert_int_equal(quipu_message_at(got->messages, 2)->content.n, 3);
    assert_memory_equal(quipu_message_at(got->messages, 2)->content.p, "a\0b", 3);
    assert_int_equal(quipu_message_at(got->messages, 2)->covers_to, 1);
    quipu_free(got);
}

static void only_compact_makes_summaries(void **state)
{
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_SYSTEM, "x");
    quipu_error err = {0};

    st_create(self->store, "k");
    message.mark = QUIPU_MARK_COMPACTION;
    T_STATUS(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_INVALID);
    message.mark = (quipu_mark)3;
    T_STATUS(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_INVALID);
}

static void view_can_be_read_in_ranges(void **state)
{
    ht_store *self = *state;
    quipu_range range = QUIPU_RANGE_INIT;
    char text[HT_TEXT_MAX];

    st_create(self->store, "k");
    ht_script(self->store, "k", "uauauaua");
    assert_int_equal(ht_compact(self->store, "k", 4, "sum"), 9);
    range.flags = QUIPU_RANGE_VIEW | QUIPU_RANGE_LAST;
    range.limit = 3; /* the summary, number 9, does not count */
    quipu_history *got = st_get(self->store, "k", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "6 7 8");
    assert_true(got->more_before);
    quipu_free(got);

    range.flags = QUIPU_RANGE_VIEW;
    range.limit = 2;
    got = st_get(self->store, "k", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "9 5 6");
    assert_true(got->more_after);
    quipu_free(got);

    range.after_seq = 6;
    range.limit = 0;
    got = st_get(self->store, "k", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "7 8");
    quipu_free(got);
}

/* Summaries stand among the messages, also those that were undone: no page is short of a message or
 * empty because of them, and a page that says there is more is followed by more. */
static void pages_of_a_view_are_full_wherever_summaries_stand(void **state)
{
    ht_store *self = *state;
    char text[HT_TEXT_MAX];
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "uaua");
    assert_int_equal(ht_compact(self->store, "k", 2, "undone"), 5);
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err));
    ht_script(self->store, "k", "ua");
    assert_int_equal(ht_compact(self->store, "k", 2, "sum"), 8);
    HT_VIEW(self->store, "k", "8 3 4 6 7");
    quipu_range back = QUIPU_RANGE_INIT;
    back.flags = QUIPU_RANGE_VIEW | QUIPU_RANGE_LAST;
    back.limit = 1;
    static const char *const backwards[] = {"7", "6", "4", "8 3"};
    for (size_t i = 0; i < 4; i++) {
        quipu_history *page = st_get(self->store, "k", &back);
        ht_numbers(page->messages, text);
        assert_string_equal(text, backwards[i]);
        assert_int_equal(page->more_before, i < 3);
        assert_int_equal(page->more_after, i > 0);
        back.before_seq = quipu_message_at(page->messages, 0)->seq;
        quipu_free(page);
    }
    quipu_range on = QUIPU_RANGE_INIT;
    on.flags = QUIPU_RANGE_VIEW;
    on.limit = 1;
    static const char *const forwards[] = {"8 3", "4", "6", "7"};
    for (size_t i = 0; i < 4; i++) {
        quipu_history *page = st_get(self->store, "k", &on);
        ht_numbers(page->messages, text);
        assert_string_equal(text, forwards[i]);
        assert_int_equal(page->more_after, i < 3);
        assert_int_equal(page->more_before, i > 0);
        on.after_seq = quipu_message_at(page->messages, page->messages.count - 1)->seq;
        quipu_free(page);
    }
}

/* A reader that has seen the summary asks for what follows, and does not get it again. */
static void view_after_its_summary_has_no_summary(void **state)
{
    ht_store *self = *state;
    quipu_range range = QUIPU_RANGE_INIT;
    char text[HT_TEXT_MAX];

    st_create(self->store, "k");
    ht_script(self->store, "k", "ua");
    assert_int_equal(ht_compact(self->store, "k", 2, "sum"), 3);
    ht_script(self->store, "k", "ua");
    range.flags = QUIPU_RANGE_VIEW;
    range.after_seq = 3;
    quipu_history *got = st_get(self->store, "k", &range);
    ht_numbers(got->messages, text);
    assert_string_equal(text, "4 5");
    quipu_free(got);
}

/* ---- prune ------------------------------------------------------------------------------------
 */

static void prune_removes_what_is_covered_and_nothing_else(void **state)
{
    ht_store *self = *state;
    int64_t removed = -1;
    quipu_error err = {0};

    T_NOT_SERVED("it looks into the file");
    st_create(self->store, "k");
    ht_script(self->store, "k", "uauaua");
    T_OK(quipu_session_prune(self->store, KEY, NULL, &removed, &err));
    assert_int_equal(removed, 0); /* no compaction */
    assert_int_equal(ht_compact(self->store, "k", 4, "sum"), 7);
    quipu_session_info before = ht_info(self->store, "k");
    T_OK(quipu_session_prune(self->store, KEY, NULL, &removed, &err));
    assert_int_equal(removed, 4);
    HT_ALL(self->store, "k", "5 6 7");
    HT_VIEW(self->store, "k", "7 5 6");
    assert_int_equal(ht_count(self->path).messages, 3);
    quipu_session_info after = ht_info(self->store, "k");
    assert_int_equal(after.first_seq, 5);
    assert_int_equal(after.message_count, 3);
    assert_int_equal(after.token_count, before.token_count);
    assert_int_equal(after.revision, before.revision + 1);
    T_OK(quipu_session_prune(self->store, KEY, NULL, &removed, &err));
    assert_int_equal(removed, 0);
    assert_int_equal(ht_info(self->store, "k").revision, after.revision);
}

static void pruned_compaction_cannot_be_undone(void **state)
{
    ht_store *self = *state;
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "uaua");
    assert_int_equal(ht_compact(self->store, "k", 2, "one"), 5);
    T_OK(quipu_session_prune(self->store, KEY, NULL, NULL, &err));
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err),
             QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "removed"));
    HT_VIEW(self->store, "k", "5 3 4");
    /* One on top of it can, down to the summary that was pruned. */
    assert_int_equal(ht_compact(self->store, "k", 3, "two"), 6);
    HT_VIEW(self->store, "k", "6 4");
    T_OK(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err));
    HT_VIEW(self->store, "k", "5 3 4");
}

static void ids_of_pruned_messages_are_forgotten(void **state)
{
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    st_create(self->store, "k");
    message.event_id = QUIPU_STR("e1");
    T_OK(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_int_equal(ht_compact(self->store, "k", 1, "one"), 2);
    T_OK(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_true(appended.repeated); /* covered, not gone */
    T_OK(quipu_session_prune(self->store, KEY, NULL, NULL, &err));
    message.content = QUIPU_STR("another");
    T_OK(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_false(appended.repeated);
    assert_int_equal(appended.first_seq, 3);
}

static void missing_and_expired_sessions_differ(void **state)
{
    ht_store *self = *state;
    quipu_session_new values = st_values("k");
    quipu_error err = {0};

    T_STATUS(compact(self->store, 1, &err), QUIPU_NOT_FOUND);
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err),
             QUIPU_NOT_FOUND);
    T_STATUS(quipu_session_prune(self->store, KEY, NULL, NULL, &err), QUIPU_NOT_FOUND);
    values.ttl_ms = 1;
    T_OK(quipu_session_create(self->store, &values, NULL, NULL, &err));
    st_nap();
    T_STATUS(compact(self->store, 1, &err), QUIPU_EXPIRED);
    T_STATUS(quipu_session_compact(self->store, KEY, T_COMPACT_UNDO, NULL, NULL, &err),
             QUIPU_EXPIRED);
    T_STATUS(quipu_session_prune(self->store, KEY, NULL, NULL, &err), QUIPU_EXPIRED);
}

/* ---- timeouts ---------------------------------------------------------------------------------
 */

/* What an interrupted answer had said so far. */
static quipu_status append_partial(quipu_store *store, quipu_str partial, quipu_str author,
                                   quipu_appended *ret_appended, quipu_error *reterr)
{
    const quipu_message message = {.role = QUIPU_ROLE_ASSISTANT,
                                   .content = partial,
                                   .author = author,
                                   .mark = QUIPU_MARK_TIMEOUT};

    return quipu_message_append(store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                                ret_appended, reterr);
}

static void timeout_note_keeps_the_partial_text_byte_for_byte(void **state)
{
    ht_store *self = *state;
    const quipu_str partial = {"The answer is \xe4\xb8\xad\0, and", 24};
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str json = {NULL, 0};
    quipu_error err = {0};

    st_create(self->store, "k");
    ht_script(self->store, "k", "u");
    T_OK(append_partial(self->store, partial, QUIPU_STR("planner"), &appended, &err));
    assert_int_equal(appended.first_seq, 2);
    quipu_history *got = st_get(self->store, "k", NULL);
    const quipu_message *note = quipu_message_at(got->messages, 1);
    assert_int_equal(note->content.n, partial.n);
    assert_memory_equal(note->content.p, partial.p, partial.n);
    assert_int_equal(note->mark, QUIPU_MARK_TIMEOUT);
    assert_int_equal(note->role, QUIPU_ROLE_ASSISTANT);
    T_STR(note->author, "planner");
    T_OK(t_message_json(note, &arena, &json, &err));
    assert_non_null(strstr(json.p, "\"mark\":\"timeout\""));
    quipu_arena_free(&arena);
    quipu_free(got);
    T_OK(append_partial(self->store, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, NULL, &err));
}

static void same_id_with_another_mark_is_another_message(void **state)
{
    ht_store *self = *state;
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "x");
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    st_create(self->store, "k");
    message.event_id = QUIPU_STR("e");
    message.mark = QUIPU_MARK_TIMEOUT;
    T_OK(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                              &err));
    T_OK(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, &err));
    assert_true(appended.repeated);
    message.mark = QUIPU_MARK_NONE;
    T_STATUS(quipu_message_append(self->store, KEY, quipu_messages_of(&message, 1), NULL, NULL,
                                  NULL, &err),
             QUIPU_EXISTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HT_TEST(view_begins_with_the_summary_and_the_originals_stay),
        HT_TEST(second_compaction_covers_the_view_of_the_first),
        HT_TEST(undone_compaction_gives_the_view_from_before),
        HT_TEST(compaction_moves_revision_and_numbers_like_an_append),
        HT_TEST(range_that_is_not_in_the_view_is_refused),
        HT_TEST(call_is_not_parted_from_its_answers),
        HT_TEST(call_is_not_parted_from_an_answer_that_came_later),
        HT_TEST(border_does_not_part_what_ids_join),
        HT_TEST(border_looks_so_far_for_an_answer_and_no_farther),
        HT_TEST(options_are_a_compaction_or_an_undo),
        HT_TEST(summary_must_be_text),
        HT_TEST(only_compact_makes_summaries),
        HT_TEST(view_can_be_read_in_ranges),
        HT_TEST(pages_of_a_view_are_full_wherever_summaries_stand),
        HT_TEST(view_after_its_summary_has_no_summary),
        HT_TEST(prune_removes_what_is_covered_and_nothing_else),
        HT_TEST(pruned_compaction_cannot_be_undone),
        HT_TEST(ids_of_pruned_messages_are_forgotten),
        HT_TEST(missing_and_expired_sessions_differ),
        HT_TEST(timeout_note_keeps_the_partial_text_byte_for_byte),
        HT_TEST(same_id_with_another_mark_is_another_message),
    };

    return cmocka_run_group_tests_name("store_compact", tests, NULL, NULL);
}
