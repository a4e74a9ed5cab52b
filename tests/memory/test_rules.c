/* The rule observer, by examples: what it keeps, with which weight, and what it must not keep. */
#include "lib/t.h"

#include "memory/rules.h"
#include "memory/rules_text.h"

#define AT ((quipu_time){1795000000, 0}) /* 2026-11-18, a Wednesday */

static quipu_message rules_says(quipu_role role, const char *text)
{
    return (quipu_message){.role = role,
                           .content = quipu_cstr(text),
                           .seq = 7,
                           .timestamp = AT,
                           .has_timestamp = true};
}

/* What is found in a text of this role. */
static const qp_rules_found *rules_in(quipu_role role, const char *text)
{
    static qp_rules_found found;
    quipu_message message = rules_says(role, text);

    qp_rules_observe(&message, &found);
    return &found;
}

static void rules_is(quipu_str text, const char *expected)
{
    if (!quipu_str_eq(text, quipu_cstr(expected))) {
        fail_msg("\"%.*s\" and not \"%s\"", (int)text.n, text.p, expected);
    }
}

typedef struct rules_example {
    const char *text;
    quipu_memory_topic topic;
    quipu_memory_priority priority;
} rules_example;

static void rules_check(const rules_example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const qp_rules_found *found = rules_in(QUIPU_ROLE_USER, examples[i].text);

        if (found->count != 1 || found->items[0].topic != examples[i].topic ||
            found->items[0].priority != examples[i].priority) {
            fail_msg("\"%s\": %zu found, topic %d, priority %d", examples[i].text, found->count,
                     found->count > 0 ? (int)found->items[0].topic : 0,
                     found->count > 0 ? (int)found->items[0].priority : 0);
        }
    }
}

#define STANDING QUIPU_PRIORITY_STANDING
#define HIGH QUIPU_PRIORITY_HIGH
#define MEDIUM QUIPU_PRIORITY_MEDIUM
#define LOW QUIPU_PRIORITY_LOW
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void standing_instructions_are_found(void **state)
{
    static const rules_example examples[] = {
        {"Always answer in French.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Please always answer in French.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Never use emojis", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"And never commit to main.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"From now on, write tests first.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Use metric units from now on.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Going forward, keep answers short.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"You should always cite your sources.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"You must never share my address.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"I want you to always ask before you delete files.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Could you always include the units?", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Don\xe2\x80\x99t ever apologise.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Whenever you write code, add comments.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"When I ask for a recipe, give me grams.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Remember that I am left-handed.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Keep in mind that my car is electric.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"- Always use tabs", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"1. Never use tabs", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Always discuss trade-offs.", QUIPU_TOPIC_INSTRUCTION, STANDING},
        {"Please call me Kit.", QUIPU_TOPIC_PERSON, STANDING},
        {"Refer to me as Doctor Who.", QUIPU_TOPIC_INSTRUCTION, STANDING},
    };

    (void)state;
    rules_check(examples, COUNT(examples));
}

static void preferences_are_found(void **state)
{
    static const rules_example examples[] = {
        {"I prefer tea to coffee.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"Thanks, but I prefer window seats.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"Well, I much prefer short answers", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"My favourite colour is teal.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"my favorite editor is vim", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"My preferred language is Go.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"I'm allergic to peanuts.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"I am vegan, so no honey please.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"I don't eat pork.", QUIPU_TOPIC_PREFERENCE, STANDING},
        {"I'd prefer a morning flight.", QUIPU_TOPIC_PREFERENCE, HIGH},
        {"I love hiking in autumn.", QUIPU_TOPIC_PREFERENCE, HIGH},
        {"I hate crowded places.", QUIPU_TOPIC_PREFERENCE, HIGH},
        {"I don't like spicy food.", QUIPU_TOPIC_PREFERENCE, HIGH},
        {"I'm not a fan of horror films.", QUIPU_TOPIC_PREFERENCE, HIGH},
    };

    (void)state;
    rules_check(examples, COUNT(examples));
}

static void decisions_commitments_and_open_ends_are_found(void **state)
{
    static const rules_example examples[] = {
        {"We decided to use PostgreSQL.", QUIPU_TOPIC_DECISION, HIGH},
        {"Let's go with the blue design.", QUIPU_TOPIC_DECISION, HIGH},
        {"I've decided to take the job.", QUIPU_TOPIC_DECISION, HIGH},
        {"We settled on Lisbon.", QUIPU_TOPIC_DECISION, HIGH},
        {"We haven't decided on a name.", QUIPU_TOPIC_QUESTION, MEDIUM},
        {"I still need to book the hotel.", QUIPU_TOPIC_QUESTION, MEDIUM},
        {"Remind me to call the dentist.", QUIPU_TOPIC_COMMITMENT, HIGH},
        {"Don't forget to renew the domain.", QUIPU_TOPIC_COMMITMENT, HIGH},
        {"TO"
         "DO: clean up the schema",
         QUIPU_TOPIC_COMMITMENT, MEDIUM},
        {"I need to finish the report by Friday.", QUIPU_TOPIC_COMMITMENT, MEDIUM},
        {"The deadline is March 3.", QUIPU_TOPIC_COMMITMENT, HIGH},
    };

    (void)state;
    rules_check(examples, COUNT(examples));
}

static void names_numbers_and_dates_are_found(void **state)
{
    static const rules_example examples[] = {
        {"My name is Ada Lovelace.", QUIPU_TOPIC_PERSON, STANDING},
        {"I work as a nurse in Bergen.", QUIPU_TOPIC_PERSON, HIGH},
        {"I live in Lisbon.", QUIPU_TOPIC_PERSON, HIGH},
        {"My sister Ana visits often.", QUIPU_TOPIC_PERSON, HIGH},
        {"my boss is called Ravi", QUIPU_TOPIC_PERSON, HIGH},
        {"Our dog's name is Rex.", QUIPU_TOPIC_PERSON, HIGH},
        {"Anna is our CTO.", QUIPU_TOPIC_PERSON, HIGH},
        {"My flight leaves tomorrow.", QUIPU_TOPIC_DATE, MEDIUM},
        {"We moved here on 2019-05-04.", QUIPU_TOPIC_DATE, MEDIUM},
        {"Our wedding is on 12 June 2027.", QUIPU_TOPIC_DATE, MEDIUM},
        {"My budget is $3,000.", QUIPU_TOPIC_QUANTITY, LOW},
        {"Our server has 64 GB of memory.", QUIPU_TOPIC_QUANTITY, LOW},
        {"I run 12km most mornings.", QUIPU_TOPIC_QUANTITY, LOW},
        {"We keep 20% in reserve.", QUIPU_TOPIC_QUANTITY, LOW},
    };

    (void)state;
    rules_check(examples, COUNT(examples));
}

static void what_is_not_meant_is_not_found(void **state)
{
    static const char *const texts[] = {
        "",
        "ok",
        "What should I cook tonight?",
        "Never mind.",
        "Never heard of it.",
        "Never used it before.",
        "Always a pleasure!",
        "Always wanted to go there.",
        "I always forget the syntax.",
        "He always answers late.",
        "She sits there, never smiles.",
        "They never call.",
        "From now on he was alone.",
        "Is it always like this?",
        "Do you think I prefer tea?",
        "I prefer it.",
        "I prefer that.",
        "Which one do I prefer?",
        "I love it!",
        "I love this.",
        "I love you.",
        "I hate to ask.",
        "I don't like this error.",
        "I don't like how that looks.",
        "I'd love to see more.",
        "Call me back later.",
        "Call me when you can.",
        "My name is on the list.",
        "Remember when we met?",
        "Remember that time in Rome?",
        "I need to know how this works.",
        "I have to say, nice work.",
        "I have to be honest.",
        "What is the deadline?",
        "Who is my boss?",
        ("Can you make a to"
         "do app?"),
        "The function returns 64 bytes.",
        "There are 20 files.",
        "The moon landing was on 20 July 1969.",
        "Write a poem about spring.",
        "Whenever you want.",
        "This is my favourite",
        "We decided?",
        "Let's go with that.",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        const qp_rules_found *found = rules_in(QUIPU_ROLE_USER, texts[i]);

        if (found->count != 0) {
            fail_msg("\"%s\": topic %d, \"%.*s\"", texts[i], (int)found->items[0].topic,
                     (int)found->items[0].content.n, found->items[0].content.p);
        }
    }
}

static void code_and_the_words_of_others_are_passed_over(void **state)
{
    static const char *const texts[] = {
        "```\nAlways answer in French.\n```",
        "```c\n// I prefer tabs\nNever use goto\n```\n",
        "~~~\nI prefer tabs over spaces.\n```\nNever use goto.\n~~~",
        "    Always use tabs",
        "\tI prefer spaces",
        "> I prefer tea.\n> Never use emojis.",
        "| Always use it | I prefer tea |",
        "{\"text\": \"Always do it\"}",
        "<b>Always do it</b>",
        "$ always run as root",
        "He said \"Always answer in French.\"",
        "She wrote \"I prefer tea. Never use emojis. Always whisper.\"",
        "The rule says: \xe2\x80\x9cnever use goto\xe2\x80\x9d",
        "The rule says: 'never use goto' and so on",
        "The flag is `never use`: ok",
        "Fix this: \"always use tabs",
        "See below.\n-----Original Message-----\nI prefer tea.\nAlways use tabs.",
        "```\nAlways use a fence that nobody closes.\nI prefer tea.",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        const qp_rules_found *found = rules_in(QUIPU_ROLE_USER, texts[i]);

        if (found->count != 0) {
            fail_msg("\"%s\": \"%.*s\"", texts[i], (int)found->items[0].content.n,
                     found->items[0].content.p);
        }
    }
}

/* What is pasted without marks of Markdown, or with marks inside of marks. */
static void pasted_documents_and_long_quotations_are_passed_over(void **state)
{
    static const char *const texts[] = {
        "He wrote: \"Hello team,\nAlways cc legal.\nNever use the old server.\nBest, Bo\"",
        "She said \xe2\x80\x9cHello,\nalways cc legal.\nI prefer tea.\xe2\x80\x9d",
        "Here:\n\"\"\"\nAlways cc legal.\n\nNever use the old server.\n\"\"\"",
        "````\n```\nAlways cc legal.\n```\nNever use it.\n````",
        "```\n```c\nAlways cc legal.\n```",
        "1. ```\n   Always cc legal.\n   ```",
        "- ~~~\n  Always cc legal.\n  ~~~",
        "<document>\nAlways cc legal.\n\nNever use the old server.\n</document>",
        "<email from=\"bo\">\nAlways cc legal.\n</email>",
        "Il dit \xc2\xab"
        "Always cc legal.\xc2\xbb",
        "He said \xe2\x80\x98"
        "always cc legal\xe2\x80\x99 and left",
        "Please summarise this email:\n\nHi team,\nAlways cc legal.\nNever use the old server.",
        "Summarize the following:\n\nAlways cc legal. I prefer tea.",
        "Translate this to French:\nAlways wear a helmet.",
        "Here is the policy:\n\nNever share passwords.",
        "The readme says:\nAlways run as root.",
        "What do you think of this article:\nI prefer tea.\n\nI prefer cake.",
        "Bo wrote:\nI prefer tea.",
        "From: Bo <bo@example.org>\nSubject: rules\n\nAlways cc legal.",
    };
    const qp_rules_found *found;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        found = rules_in(QUIPU_ROLE_USER, texts[i]);
        if (found->count != 0) {
            fail_msg("\"%s\": \"%.*s\"", texts[i], (int)found->items[0].content.n,
                     found->items[0].content.p);
        }
    }
}

static void what_the_user_says_before_and_beside_a_document_is_still_read(void **state)
{
    static const char *const texts[] = {
        "Always use tabs. Now summarise this email:\n\nI prefer tea.",
        "<document>\nI prefer tea.\n</document>\nAlways use tabs.",
        "He said \"hello\nthere\" to me.\nAlways use tabs.",
        "The pipe is 12\" wide.\nAlways use tabs.",
        "Remember these rules:\n- Always use tabs.",
        "Two things:\n1. Always use tabs.",
        "````\n```\nI prefer tea.\n```\n````\nAlways use tabs.",
        "<3 this.\nAlways use tabs.",
        "<br>\nAlways use tabs.",
        "Bo\xe2\x80\x99s car and Ann\xe2\x80\x99s car.\nAlways use tabs.",
        "The users\xe2\x80\x99 wishes, \xe2\x80\x99til noon.\nAlways use tabs.",
        "3\xc2\xab 4\xe2\x80\x9c.\nAlways use tabs.",
    };
    const qp_rules_found *found;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        found = rules_in(QUIPU_ROLE_USER, texts[i]);
        if (found->count != 1) {
            fail_msg("\"%s\": %zu", texts[i], found->count);
        }
        rules_is(found->items[0].content, "Always use tabs.");
    }
}

static void prose_around_code_is_still_read(void **state)
{
    const qp_rules_found *found =
        rules_in(QUIPU_ROLE_USER,
                 "Here it is:\n```\nnever mind\n```\nI prefer\nshort names. He said \"no\". "
                 "Always use tabs!\n> quoted\nNever use goto.");

    (void)state;
    assert_int_equal(found->count, 3);
    assert_int_equal(found->items[0].content.n, strlen("I prefer\nshort names."));
    rules_is(found->items[1].content, "Always use tabs!");
    rules_is(found->items[2].content, "Never use goto.");
    assert_int_equal(found->items[0].source_start, 7);
    assert_int_equal(found->items[0].source_end, 7);
    rules_is(found->items[0].origin, QUIPU_RULES_ORIGIN);
}

static void only_users_make_standing_lines(void **state)
{
    static const quipu_role roles[] = {QUIPU_ROLE_ASSISTANT, QUIPU_ROLE_MODEL, QUIPU_ROLE_TOOL,
                                       QUIPU_ROLE_FUNCTION, QUIPU_ROLE_SYSTEM};
    const qp_rules_found *found;

    (void)state;
    for (size_t i = 0; i < COUNT(roles); i++) {
        assert_int_equal(rules_in(roles[i], "Always answer in French. I prefer tea. My name is Bo. "
                                            "From now on I will be brief.")
                             ->count,
                         0);
    }
    found = rules_in(QUIPU_ROLE_ASSISTANT, "We decided to use PostgreSQL.");
    assert_int_equal(found->count, 1);
    assert_int_equal(found->items[0].priority, LOW);
}

static void a_summary_is_not_observed_again(void **state)
{
    static qp_rules_found found;
    quipu_message message = rules_says(QUIPU_ROLE_USER, "I prefer tea.");

    (void)state;
    message.mark = QUIPU_MARK_COMPACTION;
    qp_rules_observe(&message, &found);
    assert_int_equal(found.count, 0);
}

static void a_name_is_the_subject(void **state)
{
    const qp_rules_found *found =
        rules_in(QUIPU_ROLE_USER, "I think my sister Zo\xc3\xab is home.");

    (void)state;
    assert_int_equal(found->count, 1);
    rules_is(found->items[0].subject, "Zo\xc3\xab");
}

typedef struct rules_day {
    const char *text;
    const char *from;
    const char *to;
} rules_day;

static void dates_are_counted_from_when_it_was_said(void **state)
{
    static const rules_day days[] = {
        {"My flight leaves tomorrow.", "2026-11-19", "2026-11-19"},
        {"I met her yesterday.", "2026-11-17", "2026-11-17"},
        {"I fly on Friday.", "2026-11-20", "2026-11-20"},
        {"I fly next Wednesday.", "2026-11-25", "2026-11-25"},
        {"We move next week.", "2026-11-23", "2026-11-29"},
        {"My exam is on Nov 30.", "2026-11-30", "2026-11-30"},
        {"My exam is on January 5th.", "2027-01-05", "2027-01-05"},
        {"We married on 29 February 2024.", "2024-02-29", "2024-02-29"},
        {"We met on 2019-05-04.", "2019-05-04", "2019-05-04"},
    };
    char text[QUIPU_TIME_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < COUNT(days); i++) {
        const qp_rules_found *found = rules_in(QUIPU_ROLE_USER, days[i].text);

        assert_int_equal(found->count, 1);
        assert_true(found->items[0].has_about_from && found->items[0].has_about_to);
        T_OK(quipu_time_format(found->items[0].about_from, text));
        if (strncmp(text, days[i].from, 10) != 0) {
            fail_msg("\"%s\" is about %s", days[i].text, text);
        }
        T_OK(quipu_time_format(found->items[0].about_to, text));
        assert_int_equal(strncmp(text, days[i].to, 10), 0);
    }
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 30 February 2024.")->count, 0);
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 2024-13-01.")->count, 0);
}

static void tools_are_kept_with_what_they_did(void **state)
{
    static qp_rules_found found;
    const quipu_tool_call calls[] = {
        {.name = QUIPU_STR("read"),
         .input = QUIPU_STR("{\"path\":\"a\"}"),
         .output = QUIPU_STR("text")},
        {.name = QUIPU_STR("write"), .output = QUIPU_STR("Error: disk is\nfull")},
        {.name = QUIPU_STR("get"), .output = QUIPU_STR("{\"error\":null}")},
        {.name = QUIPU_STR("put"), .output = QUIPU_STR(" {\"error\":\"no\"}")},
        {.name = QUIPU_STR("later"), .input = QUIPU_STR("{}")}, /* no answer yet */
    };
    quipu_message message = rules_says(QUIPU_ROLE_TOOL, "I prefer tea.");

    (void)state;
    message.calls = quipu_tool_calls_of(calls, COUNT(calls));
    qp_rules_observe(&message, &found);
    assert_int_equal(found.count, 4);
    rules_is(found.items[0].content, "read {\"path\":\"a\"} succeeded");
    assert_int_equal(found.items[0].topic, QUIPU_TOPIC_OUTCOME);
    rules_is(found.items[1].content, "write failed: Error: disk is full");
    assert_int_equal(found.items[1].topic, QUIPU_TOPIC_FAILURE);
    rules_is(found.items[1].subject, "write");
    assert_int_equal(found.items[2].topic, QUIPU_TOPIC_OUTCOME);
    assert_int_equal(found.items[3].topic, QUIPU_TOPIC_FAILURE);
}

/* A name with U+0000 would fail the whole batch, again and again: no column holds it. */
static void subject_of_a_tool_ends_before_a_nul(void **state)
{
    static qp_rules_found found;
    const quipu_tool_call calls[] = {
        {.name = QUIPU_STR("exec\0x"), .output = QUIPU_STR("done")},
        {.name = QUIPU_STR("\0"), .output = QUIPU_STR("done")},
    };
    quipu_message message = rules_says(QUIPU_ROLE_TOOL, "");

    (void)state;
    message.calls = quipu_tool_calls_of(calls, COUNT(calls));
    qp_rules_observe(&message, &found);
    assert_int_equal(found.count, 2);
    rules_is(found.items[0].subject, "exec");
    assert_null(found.items[1].subject.p);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

static void a_message_gives_at_most_so_many_observations(void **state)
{
    static char text[QP_RULES_FOUND_MAX * 40 + 200];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < QP_RULES_FOUND_MAX; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "I prefer number %d. ", i);
    }
    assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->count, QP_RULES_FOUND_MAX);
    (void)snprintf(text + n, sizeof(text) - n, "I prefer one more.");
    assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->count, QP_RULES_FOUND_MAX);
}

static void a_long_sentence_is_cut_and_one_that_is_longer_is_a_list(void **state)
{
    char text[QP_RULES_SENTENCE_MAX + 2];

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "I prefer ", 9);
    text[QP_RULES_SENTENCE_MAX] = '\0';
    assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->count, 1);
    assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->items[0].content.n, QP_RULES_CONTENT);
    text[QP_RULES_SENTENCE_MAX] = 'x';
    text[QP_RULES_SENTENCE_MAX + 1] = '\0';
    assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->count, 0);
}

static void a_year_is_a_date_from_nineteen_hundred_to_twenty_two_hundred(void **state)
{
    (void)state;
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 1900-05-04.")->count, 1);
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 2200-05-04.")->count, 1);
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 1899-05-04.")->count, 0);
    assert_int_equal(rules_in(QUIPU_ROLE_USER, "We met on 2201-05-04.")->count, 0);
}

/* The last words that the rules see may be the cue. */
static void a_sentence_has_so_many_words_and_no_more(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[QP_RULES_SENTENCE_MAX] = "Use";

        for (int i = 0; i < QP_RULES_WORDS_MAX - 4 + more; i++) {
            memcpy(text + strlen(text), " units", sizeof(" units"));
        }
        memcpy(text + strlen(text), " from now on.", sizeof(" from now on."));
        assert_int_equal(rules_in(QUIPU_ROLE_USER, text)->count, 1 - more);
    }
}

/* Whatever the bytes are, every content is a part of the message and ends between characters. */
/* What the rules look at, in any order. */
static const char *const pieces[] = {"I prefer ",
                                     "always ",
                                     "never ",
                                     "\"",
                                     "'",
                                     "`",
                                     "```\n",
                                     "\n",
                                     "\n\n",
                                     ". ",
                                     "? ",
                                     "12",
                                     "kg ",
                                     "$",
                                     "%",
                                     "Nov ",
                                     "2026-11-16 ",
                                     "my ",
                                     "boss ",
                                     "Anna ",
                                     "is ",
                                     "\xc3\xa9",
                                     "\xe2\x80\x9c",
                                     "\xf0\x9f\x98\x80",
                                     "- ",
                                     "> ",
                                     "    ",
                                     "from now on ",
                                     ",",
                                     "\t",
                                     "-----",
                                     "\xe2\x80\x99",
                                     "\xe2\x80\x98",
                                     "\xc2\xab",
                                     "<a>",
                                     "</a>",
                                     "~~~~",
                                     "\"\"\"",
                                     "my email:\n"};

static void any_bytes_are_read_safely(void **state)
{
    uint64_t random = t_seed();

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[2048];
        size_t n = 0;
        const qp_rules_found *found;

        while (n < 1500 && t_random_below(&random, 60) > 0) {
            const char *piece = pieces[t_random_below(&random, COUNT(pieces))];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        text[n] = '\0';
        found = rules_in(QUIPU_ROLE_USER, text);
        assert_true(found->count <= QP_RULES_FOUND_MAX);
        for (size_t i = 0; i < found->count; i++) {
            const quipu_str content = found->items[i].content;
            assert_true(content.p >= text && content.p + content.n <= text + n);
            assert_true(content.n > 0 && content.n <= QP_RULES_CONTENT);
            assert_true(content.p + content.n == text + n ||
                        ((unsigned char)content.p[content.n] & 0xc0) != 0x80);
        }
        qp_rules_walk walk = {.text = {text, n}};
        quipu_str own = {text, 0};

        for (const char *last = text; qp_rules_own(&walk, &own); last = own.p + own.n) {
            assert_true(own.n > 0 && own.p >= last && own.p + own.n <= text + n);
        }
    }
}

/* Reads a text of `size` bytes that begins with `head`, goes on with `body` and ends with `tail`,
 * as sentences and as pieces. Returns how many sentences are kept. */
static size_t rules_of_long(const char *head, const char *body, const char *tail, size_t size)
{
    char *text = malloc(size);
    const size_t end = size - strlen(tail);
    const quipu_message message = {.role = QUIPU_ROLE_USER, .seq = 1, .content = {text, size}};
    static qp_rules_found found;
    quipu_str own;
    size_t count;

    assert_non_null(text);
    memcpy(text, head, strlen(head));
    for (size_t n = strlen(head), k = 0; n < end; n++, k++) {
        text[n] = body[k % strlen(body)];
    }
    memcpy(text + end, tail, strlen(tail));
    qp_rules_observe(&message, &found);
    count = found.count;
    for (qp_rules_walk walk = {.text = message.content}; qp_rules_own(&walk, &own);) {
        assert_true(own.n > 0);
    }
    free(text);
    return count;
}

/* Texts for which a reader that looks ahead at every line or mark takes hours. */
static void a_text_of_any_form_costs_what_its_length_says(void **state)
{
    static const char *const forms[][3] = {
        {"", "\"", ""},                   /* marks of quotations in one line */
        {"", "`a ", ""},                  /* and words between them */
        {"A \"b\n", "\n", "\" c."},       /* lines inside of one quotation */
        {"A \"b\n", "Some text\n", "\""}, /* the same with prose */
        {"", "<a>\n", ""},                /* markup that nothing closes */
        {"", "<a>\n</b>\n", ""},          /* or that is closed by another name */
        {"", "{\"a\":", ""},              /* JSON without line ends */
        {"", "mail:\n", ""},              /* documents that are announced */
        {"", "a.b:", ""}};

    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        (void)rules_of_long(forms[i][0], forms[i][1], forms[i][2], (size_t)8 << 20);
    }
}

static void ends_of_markup_are_sought_in_so_many_bytes_and_no_more(void **state)
{
    static const char head[] = "<a>\nI prefer tea.\n";

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        assert_int_equal(rules_of_long(head, "\n", "", strlen("<a") + QP_RULES_SOUGHT_MAX + more),
                         1 - more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standing_instructions_are_found),
        cmocka_unit_test(preferences_are_found),
        cmocka_unit_test(decisions_commitments_and_open_ends_are_found),
        cmocka_unit_test(names_numbers_and_dates_are_found),
        cmocka_unit_test(what_is_not_meant_is_not_found),
        cmocka_unit_test(code_and_the_words_of_others_are_passed_over),
        cmocka_unit_test(pasted_documents_and_long_quotations_are_passed_over),
        cmocka_unit_test(what_the_user_says_before_and_beside_a_document_is_still_read),
        cmocka_unit_test(prose_around_code_is_still_read),
        cmocka_unit_test(only_users_make_standing_lines),
        cmocka_unit_test(a_summary_is_not_observed_again),
        cmocka_unit_test(a_name_is_the_subject),
        cmocka_unit_test(dates_are_counted_from_when_it_was_said),
        cmocka_unit_test(tools_are_kept_with_what_they_did),
        cmocka_unit_test(subject_of_a_tool_ends_before_a_nul),
        cmocka_unit_test(a_message_gives_at_most_so_many_observations),
        cmocka_unit_test(a_long_sentence_is_cut_and_one_that_is_longer_is_a_list),
        cmocka_unit_test(a_year_is_a_date_from_nineteen_hundred_to_twenty_two_hundred),
        cmocka_unit_test(a_sentence_has_so_many_words_and_no_more),
        cmocka_unit_test(any_bytes_are_read_safely),
        cmocka_unit_test(a_text_of_any_form_costs_what_its_length_says),
        cmocka_unit_test(ends_of_markup_are_sought_in_so_many_bytes_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
