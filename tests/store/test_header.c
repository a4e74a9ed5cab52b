/* What messages mean for the row of their session: counts, turns, first words. */
#include "lib/t.h"

#include "store/header.h"

static qp_message_new header_message(const qp_header *header, qp_message_role role,
                                     const char *content)
{
    return (qp_message_new){.role = role,
                            .content = quipu_cstr(content),
                            .seq = header->next_seq,
                            .tokens = 3,
                            .timestamp = ent_some(((quipu_time){header->next_seq, 0}))};
}

static void header_see(qp_header *header, qp_message_role role, const char *content)
{
    const qp_message_new message = header_message(header, role, content);

    qp_header_see(header, &message);
}

/* The first words of a session whose first user message this is. */
static quipu_str header_words_of(qp_header *header, const char *content)
{
    qp_session_patch patch = {.key = ENT_CLEAR};

    qp_header_begin(header, NULL);
    header_see(header, QP_MESSAGE_ROLE_USER, content);
    qp_header_patch(header, &patch);
    return patch.first_words.op == ENT_OP_SET ? patch.first_words.v : (quipu_str){NULL, 0};
}

static void header_check(const char *content, const char *words)
{
    qp_header header;
    const quipu_str found = header_words_of(&header, content);

    if (!quipu_str_eq(found, quipu_cstr(words))) {
        fail_msg("\"%s\" gives \"%.*s\", not \"%s\"", content, (int)found.n, found.p, words);
    }
}

static void a_row_moves_by_what_was_seen(void **state)
{
    const qp_session row = {.next_seq = 5, .message_count = 4, .token_count = 20, .turn_seq = 3};
    qp_session_patch patch = {.key = ENT_CLEAR};
    qp_header header;

    (void)state;
    qp_header_begin(&header, &row);
    header_see(&header, QP_MESSAGE_ROLE_ASSISTANT, "a");
    header_see(&header, QP_MESSAGE_ROLE_USER, "b");
    header_see(&header, QP_MESSAGE_ROLE_ASSISTANT, "c");
    qp_header_patch(&header, &patch);
    assert_true(patch.next_seq.v == 8 && patch.message_count.v == 7 && patch.token_count.v == 29);
    assert_true(patch.turn_seq.v == 6 && patch.last_event_at.v.s == 7);
}

static void first_words_are_one_line(void **state)
{
    (void)state;
    header_check("hello", "hello");
    header_check("  hello \n\t  there\r\n", "hello there");
    header_check("a\x01\x1b[0mb", "a [0mb");
    header_check("grüße \xe2\x9c\x93", "grüße \xe2\x9c\x93");
}

static void first_words_end_with_a_word(void **state)
{
    char text[401] = "";
    char words[QUIPU_FIRST_WORDS_MAX + 2] = "";

    (void)state;
    for (int i = 0; i < 40; i++) { /* words of nine bytes and a space: twelve fit */
        memcpy(text + (size_t)i * 10, "ninebytes ", 10);
    }
    memcpy(words, text, 12 * 10 - 1);
    header_check(text, words);
    assert_int_equal(strlen(words), QUIPU_FIRST_WORDS_MAX - 1);
}

/* At the maximum all of it stays; one byte more, and the last word goes. */
static void first_words_at_the_limit(void **state)
{
    char text[QUIPU_FIRST_WORDS_MAX + 2];
    char words[QUIPU_FIRST_WORDS_MAX + 2];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[100] = ' ';
    text[QUIPU_FIRST_WORDS_MAX] = '\0';
    header_check(text, text);
    memcpy(words, text, sizeof(words));
    words[100] = '\0';
    text[QUIPU_FIRST_WORDS_MAX] = 'x';
    text[QUIPU_FIRST_WORDS_MAX + 1] = '\0';
    header_check(text, words);
    text[QUIPU_FIRST_WORDS_MAX] = ' '; /* a word that ends there is whole */
    memcpy(words, text, sizeof(words));
    words[QUIPU_FIRST_WORDS_MAX] = '\0';
    header_check(text, words);
}

static void one_long_word_is_cut_at_a_character(void **state)
{
    char text[3 * 60 + 1] = "";
    char words[QUIPU_FIRST_WORDS_MAX + 1];
    char shifted[sizeof(text) + 1];

    (void)state;
    for (int i = 0; i < 60; i++) {
        memcpy(text + (size_t)i * 3, "\xe2\x82\xac", 3); /* forty of them fit */
    }
    memcpy(words, text, QUIPU_FIRST_WORDS_MAX);
    words[QUIPU_FIRST_WORDS_MAX] = '\0';
    header_check(text, words);
    (void)snprintf(shifted, sizeof(shifted), "x%s", text); /* the fortieth would end past it */
    (void)snprintf(words, sizeof(words), "x%.*s", 39 * 3, text);
    header_check(shifted, words);
}

static void only_the_first_user_message_gives_words(void **state)
{
    qp_session_patch patch = {.key = ENT_CLEAR};
    qp_session row = {.next_seq = 1};
    qp_header header;

    (void)state;
    qp_header_begin(&header, &row);
    header_see(&header, QP_MESSAGE_ROLE_SYSTEM, "be good");
    qp_header_patch(&header, &patch);
    assert_int_equal(patch.first_words.op, ENT_OP_KEEP);
    header_see(&header, QP_MESSAGE_ROLE_USER, "first");
    header_see(&header, QP_MESSAGE_ROLE_USER, "second");
    qp_header_patch(&header, &patch);
    assert_true(quipu_str_eq(patch.first_words.v, QUIPU_STR("first")));
    /* A row that has words, or had a turn before it could have some, gets none. */
    patch = (qp_session_patch){.key = ENT_CLEAR};
    row.first_words = QUIPU_STR("there");
    qp_header_begin(&header, &row);
    header_see(&header, QP_MESSAGE_ROLE_USER, "later");
    qp_header_patch(&header, &patch);
    row = (qp_session){.next_seq = 9, .turn_seq = 7};
    qp_header_begin(&header, &row);
    header_see(&header, QP_MESSAGE_ROLE_USER, "later");
    qp_header_patch(&header, &patch);
    assert_int_equal(patch.first_words.op, ENT_OP_KEEP);
}

static void a_message_without_words_gives_none(void **state)
{
    qp_header header;

    (void)state;
    assert_null(header_words_of(&header, "").p);
    assert_null(header_words_of(&header, " \n\t ").p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_moves_by_what_was_seen),
        cmocka_unit_test(first_words_are_one_line),
        cmocka_unit_test(first_words_end_with_a_word),
        cmocka_unit_test(first_words_at_the_limit),
        cmocka_unit_test(one_long_word_is_cut_at_a_character),
        cmocka_unit_test(only_the_first_user_message_gives_words),
        cmocka_unit_test(a_message_without_words_gives_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
