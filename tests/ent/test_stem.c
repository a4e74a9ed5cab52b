/* Stems of English words: the examples of Porter's paper, and what must not be touched. */
#include "lib/t.h"

#include "ent/stem.h"

/* The examples stand in the paper with the step that they are for; here is what all steps together
 * make of them. */
static const char *const stem_examples[][2] = {{"caresses", "caress"},
                                               {"ponies", "poni"},
                                               {"ties", "ti"},
                                               {"cats", "cat"},
                                               {"feed", "feed"},
                                               {"agreed", "agre"},
                                               {"plastered", "plaster"},
                                               {"bled", "bled"},
                                               {"motoring", "motor"},
                                               {"sing", "sing"},
                                               {"conflated", "conflat"},
                                               {"troubled", "troubl"},
                                               {"sized", "size"},
                                               {"hopping", "hop"},
                                               {"tanned", "tan"},
                                               {"falling", "fall"},
                                               {"hissing", "hiss"},
                                               {"fizzed", "fizz"},
                                               {"failing", "fail"},
                                               {"filing", "file"},
                                               {"happy", "happi"},
                                               {"sky", "sky"},
                                               {"relational", "relat"},
                                               {"conditional", "condit"},
                                               {"digitizer", "digit"},
                                               {"operator", "oper"},
                                               {"feudalism", "feudal"},
                                               {"decisiveness", "decis"},
                                               {"hopefulness", "hope"},
                                               {"callousness", "callous"},
                                               {"triplicate", "triplic"},
                                               {"formative", "form"},
                                               {"formalize", "formal"},
                                               {"electrical", "electr"},
                                               {"goodness", "good"},
                                               {"revival", "reviv"},
                                               {"allowance", "allow"},
                                               {"inference", "infer"},
                                               {"airliner", "airlin"},
                                               {"gyroscopic", "gyroscop"},
                                               {"adjustable", "adjust"},
                                               {"defensible", "defens"},
                                               {"irritant", "irrit"},
                                               {"replacement", "replac"},
                                               {"adjustment", "adjust"},
                                               {"dependent", "depend"},
                                               {"adoption", "adopt"},
                                               {"communism", "commun"},
                                               {"activate", "activ"},
                                               {"effective", "effect"},
                                               {"bowdlerize", "bowdler"},
                                               {"probate", "probat"},
                                               {"rate", "rate"},
                                               {"cease", "ceas"},
                                               {"controlling", "control"},
                                               {"roll", "roll"},
                                               {"generalizations", "gener"},
                                               {"oscillators", "oscil"},
                                               {"onion", "onion"},
                                               {"syzygy", "syzygi"}};

static void stem_expect(const char *word, const char *expected)
{
    char text[64];
    const size_t n = strlen(word);

    assert_true(n < sizeof(text));
    memcpy(text, word, n + 1);
    T_STR(((quipu_str){text, qp_word_stem(text, n)}), expected);
}

static void the_examples_of_the_paper_come_out_as_printed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(stem_examples) / sizeof(stem_examples[0]); i++) {
        stem_expect(stem_examples[i][0], stem_examples[i][1]);
    }
}

static void forms_of_one_word_share_a_stem(void **state)
{
    static const char *const forms[] = {"connect", "connected", "connecting", "connection",
                                        "connections"};

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        stem_expect(forms[i], "connect");
    }
}

static void words_that_are_not_english_stay(void **state)
{
    static const char *const words[] = {"", "a", "is", "h2os", "größes", "книги", "2023", "北"};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        stem_expect(words[i], words[i]);
    }
}

static void stop_words_are_found_and_others_are_not(void **state)
{
    static const char *const stops[] = {"a", "about", "should", "the", "when", "your"};
    static const char *const others[] = {"", "ab", "aboutt", "zebra", "shoul", "may", "not", "北"};

    (void)state;
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        assert_true(qp_word_is_stop(quipu_cstr(stops[i])));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(qp_word_is_stop(quipu_cstr(others[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_paper_come_out_as_printed),
        cmocka_unit_test(forms_of_one_word_share_a_stem),
        cmocka_unit_test(words_that_are_not_english_stay),
        cmocka_unit_test(stop_words_are_found_and_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
