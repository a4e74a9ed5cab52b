/* The rule observer: cues, names, numbers and outcomes of tools. The head of rules.h says what it
 * is for.
 *
 * Pure and without allocation. A cue is a few words at the beginning of a clause ("from now on",
 * "I prefer"); what follows it may rule it out ("I always wanted"). One sentence gives at most one
 * observation, by the first rule below that fits: instructions, preferences, names, decisions, open
 * ends, commitments, then dates and numbers, which need somebody whom they are about.
 * Called by run.c. Owns: the cues. Locks: none. */
#include "memory/rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "memory/rules_date.h"
#include "memory/rules_text.h"

/* ---- cues -------------------------------------------------------------------------------------
 */

#define CUE_ANYWHERE 1u  /* not only where a clause begins */
#define CUE_VERB 2u      /* a verb in its plain form follows: "always use", not "always wanted" */
#define CUE_QUESTION 4u  /* also in a question: "Could you always ...?" */
#define CUE_ASSISTANT 8u /* also in what the assistant says */
#define CUE_SOLO 16u     /* nobody else is in the sentence, and it is not about the past */
#define CUE_OBJECT 32u   /* an object follows that means something outside of this conversation */

/* One cue. Where several fit a sentence, the one that stands first in the table wins. */
typedef struct rules_cue {
    const char *words; /* lower case, one blank between words, ASCII apostrophes */
    quipu_memory_topic topic;
    quipu_memory_priority priority;
    uint32_t flags;       /* CUE_*; 0: where a clause begins, in a statement of the user */
    const char *not_next; /* words that rule it out when one of them follows; or NULL */
} rules_cue;

/* Words behind "always" and "never" that look like verbs and are not. The list was collected from
 * conversations; a word that is missing here makes a useless line. */
#define NOT_VERBS                                                                                  \
    "a an the been so was were is are had has mind again seen heard thought knew known did does "  \
    "good nice great fun on in at there happy glad i you he she we they it been ever quite too "   \
    "really more less one two my your his her our their if when before been took went came got "   \
    "said made fails works happens gone felt saw met"

/* Objects of "I love", "I hate" and "I like" that mean this conversation. */
#define DEICTIC "it this that these those the how when what you your to where who why his her"

#define STANDING QUIPU_PRIORITY_STANDING
#define HIGH QUIPU_PRIORITY_HIGH
#define MEDIUM QUIPU_PRIORITY_MEDIUM

/* A new cue needs its first word in rules_heads as well, which an assertion checks. */
static const rules_cue rules_cues[] = {
    /* How to behave from now on. */
    {"from now on", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_ANYWHERE | CUE_SOLO, "i i'm i'll"},
    {"going forward", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_ANYWHERE | CUE_SOLO, "i i'm i'll"},
    {"from here on", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_ANYWHERE | CUE_SOLO, "i i'm i'll"},
    {"in all future", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_ANYWHERE | CUE_SOLO, NULL},
    {"always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"never", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"you should always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"you should never", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"you must always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"you must never", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"i want you to always", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"i want you to never", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"i'd like you to always", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"i'd like you to never", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"make sure you always", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"make sure you never", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"make sure to always", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"make sure to never", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"can you always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_QUESTION | CUE_VERB, NOT_VERBS},
    {"could you always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_QUESTION | CUE_VERB, NOT_VERBS},
    {"could you please always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_QUESTION, NULL},
    {"can you please always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_QUESTION, NULL},
    {"would you always", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_QUESTION | CUE_VERB, NOT_VERBS},
    {"don't ever", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"do not ever", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_VERB, NOT_VERBS},
    {"whenever you", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, "want like can feel get have"},
    {"whenever i ask", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, NULL},
    {"every time you", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, NULL},
    {"each time you", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, NULL},
    {"every time i ask", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, NULL},
    {"when i ask", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, NULL},
    {"remember that", QUIPU_TOPIC_INSTRUCTION, STANDING, CUE_SOLO, "time day night one"},
    {"remember my", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"remember i'm", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"please remember", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, "to when how"},
    {"keep in mind that", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"call me", QUIPU_TOPIC_PERSON, STANDING, 0,
     "back when later tomorrow today at on if after before a an the crazy old maybe"},
    {"address me as", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"refer to me as", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},
    {"my pronouns are", QUIPU_TOPIC_INSTRUCTION, STANDING, 0, NULL},

    /* Preferences of the user. */
    {"i prefer", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, "it this that these those not"},
    {"i'd prefer", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, "it this that these those not if"},
    {"i would prefer", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, "it this that these not if"},
    {"i much prefer", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, "it this that these those"},
    {"i really prefer", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, "it this that these those"},
    {"i always prefer", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, "it this that these those"},
    {"i usually prefer", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, "it this that these those"},
    {"my favourite", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, NULL},
    {"my favorite", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, NULL},
    {"my preferred", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, NULL},
    {"my preference is", QUIPU_TOPIC_PREFERENCE, STANDING, CUE_OBJECT, NULL},
    {"i'm allergic to", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i am allergic to", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i'm vegetarian", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i'm a vegetarian", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i am a vegetarian", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i am vegetarian", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i'm vegan", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i am vegan", QUIPU_TOPIC_PREFERENCE, STANDING, 0, NULL},
    {"i don't eat", QUIPU_TOPIC_PREFERENCE, STANDING, 0, "it this that yet much"},
    {"i don't drink", QUIPU_TOPIC_PREFERENCE, STANDING, 0, "it this that yet much"},
    {"i can't stand", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC " up"},
    {"i hate", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i dislike", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i don't like", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i love", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i really like", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i'm a big fan of", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},
    {"i'm not a fan of", QUIPU_TOPIC_PREFERENCE, HIGH, CUE_OBJECT, DEICTIC},

    /* Facts about the user. */
    {"my name is", QUIPU_TOPIC_PERSON, STANDING, 0, "not on in irrelevant"},
    {"my name's", QUIPU_TOPIC_PERSON, STANDING, 0, "not on in"},
    {"i work as", QUIPU_TOPIC_PERSON, HIGH, 0, "much well soon long hard"},
    {"i work at", QUIPU_TOPIC_PERSON, HIGH, 0, "night home it this that"},
    {"i work for", QUIPU_TOPIC_PERSON, HIGH, 0, "it this that"},
    {"i live in", QUIPU_TOPIC_PERSON, HIGH, 0, "a an fear hope it this that"},
    {"i'm from", QUIPU_TOPIC_PERSON, HIGH, 0, "a an the it this that"},
    {"i was born", QUIPU_TOPIC_PERSON, HIGH, 0, "to ready this"},

    /* Decisions. */
    {"we decided", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, NULL},
    {"we've decided", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, NULL},
    {"we have decided", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, NULL},
    {"i decided", QUIPU_TOPIC_DECISION, HIGH, 0, NULL},
    {"i've decided", QUIPU_TOPIC_DECISION, HIGH, 0, NULL},
    {"i have decided", QUIPU_TOPIC_DECISION, HIGH, 0, NULL},
    {"we agreed", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, NULL},
    {"we settled on", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, NULL},
    {"i settled on", QUIPU_TOPIC_DECISION, HIGH, 0, NULL},
    {"let's go with", QUIPU_TOPIC_DECISION, HIGH, 0, "it that this"},
    {"we'll go with", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, "it that this"},
    {"i'll go with", QUIPU_TOPIC_DECISION, HIGH, 0, "it that this"},
    {"we're going with", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, "it that this"},
    {"i'm going with", QUIPU_TOPIC_DECISION, HIGH, 0, "it that this you him her them my"},
    {"we chose", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, "it that this"},
    {"i chose", QUIPU_TOPIC_DECISION, HIGH, 0, "it that this"},
    {"the decision is", QUIPU_TOPIC_DECISION, HIGH, CUE_ASSISTANT, "not up yours hard"},

    /* Open points. */
    {"we haven't decided", QUIPU_TOPIC_QUESTION, MEDIUM, CUE_ASSISTANT, NULL},
    {"i haven't decided", QUIPU_TOPIC_QUESTION, MEDIUM, 0, NULL},
    {"open question", QUIPU_TOPIC_QUESTION, MEDIUM, CUE_ASSISTANT, NULL},
    {"we still need to", QUIPU_TOPIC_QUESTION, MEDIUM, CUE_ASSISTANT, NULL},
    {"i still need to", QUIPU_TOPIC_QUESTION, MEDIUM, 0, "know understand ask"},
    {"i'm still waiting for", QUIPU_TOPIC_QUESTION, MEDIUM, 0, "it that this your you"},
    {"we're still waiting for", QUIPU_TOPIC_QUESTION, MEDIUM, CUE_ASSISTANT, "it that this"},

    /* Plans. */
    {"remind me to", QUIPU_TOPIC_COMMITMENT, HIGH, CUE_QUESTION, NULL},
    {"remember to", QUIPU_TOPIC_COMMITMENT, HIGH, 0, NULL},
    {"don't forget to", QUIPU_TOPIC_COMMITMENT, HIGH, 0, NULL},
    {"don't let me forget", QUIPU_TOPIC_COMMITMENT, HIGH, 0, NULL},
    {"to"
     "do",
     QUIPU_TOPIC_COMMITMENT, MEDIUM, CUE_ASSISTANT, "list app lists apps"},
    {"i promise to", QUIPU_TOPIC_COMMITMENT, MEDIUM, CUE_ASSISTANT, NULL},
    {"i promised", QUIPU_TOPIC_COMMITMENT, MEDIUM, 0, NULL},
    {"i'm planning to", QUIPU_TOPIC_COMMITMENT, MEDIUM, 0, "ask know say"},
    {"i plan to", QUIPU_TOPIC_COMMITMENT, MEDIUM, 0, "ask know say"},
    {"i have to", QUIPU_TOPIC_COMMITMENT, MEDIUM, 0, "say admit ask know confess agree be"},
    {"i need to", QUIPU_TOPIC_COMMITMENT, MEDIUM, 0,
     "know ask understand say see figure be have find get"},
    {"the deadline is", QUIPU_TOPIC_COMMITMENT, HIGH, CUE_ASSISTANT, "not past"},
    {"my deadline is", QUIPU_TOPIC_COMMITMENT, HIGH, 0, "not past"},
};

#define RULES_CUES (sizeof(rules_cues) / sizeof(rules_cues[0]))

/* Words before which a clause begins as well: "and never", "please always", "well, I prefer". */
#define LEAD_INS                                                                                   \
    "and but so please also ok okay well actually yes yeah no hey btw because since honestly "     \
    "personally sorry oh hi hello thanks then instead though although just"

/* Words of sentences about others, or about the past. */
#define OTHERS "he she they was were had did him them his their"

/* ---- one sentence -----------------------------------------------------------------------------
 */

/* Whether a clause begins with this word: by its mark, or behind nothing but words that lead in. */
static bool rules_begins(const qp_rules_sentence *sentence, size_t at)
{
    /* The first word of a sentence begins a clause: its mark is set. */
    const qp_rules_word *words = sentence->words;

    return words[at].clause || (at > 0 && qp_rules_in(&words[at - 1], LEAD_INS));
}

/* "always" and "never" behind a comma describe somebody more often than they ask for something:
 * they need a sentence of their own, or a word that leads in. */
static bool rules_begins_alone(const qp_rules_sentence *sentence, size_t at)
{
    return at == 0 || qp_rules_in(&sentence->words[at - 1], LEAD_INS);
}

/* A verb in its plain form: no past ("wanted"), no third person ("smiles"), and no "-ing". */
static bool rules_is_plain(const qp_rules_word *word)
{
    const char *end = word->lower + word->n;

    /* A single letter ("I") is not a verb; words of three letters ("fed", "red") are left alone. */
    if (word->n < 2 ||
        (word->n > 3 && memcmp(end - 2, "ed", 2) == 0 &&
         !qp_rules_in(word, "need embed feed proceed succeed exceed")) ||
        (word->n > 4 && memcmp(end - 3, "ing", 3) == 0 && !qp_rules_in(word, "bring"))) {
        return false;
    }
    /* "miss" and "pass" end with a double s and are plain. */
    return end[-1] != 's' || end[-2] == 's' || qp_rules_in(word, "focus bias");
}

static bool rules_has(const qp_rules_sentence *sentence, const char *list)
{
    for (size_t i = 0; i < sentence->count; i++) {
        if (qp_rules_in(&sentence->words[i], list)) {
            return true;
        }
    }
    return false;
}

/* Whether what follows a cue fits it; NULL: the sentence ends with the cue. */
static bool rules_follows(const rules_cue *cue, const qp_rules_word *next)
{
    if (next == NULL) {
        return (cue->flags & (CUE_VERB | CUE_OBJECT)) == 0;
    }
    return (cue->not_next == NULL || !qp_rules_in(next, cue->not_next)) &&
           ((cue->flags & CUE_VERB) == 0 || rules_is_plain(next));
}

/* Whether a cue may stand at this word. */
static bool rules_stands(const qp_rules_sentence *sentence, const rules_cue *cue, size_t at)
{
    const bool single = strchr(cue->words, ' ') == NULL;

    if ((cue->flags & CUE_ANYWHERE) != 0) {
        return true;
    }
    return (cue->flags & CUE_VERB) != 0 && single ? rules_begins_alone(sentence, at)
                                                  : rules_begins(sentence, at);
}

/* Whether the words of a cue at `at` mean what the cue says. */
static bool rules_holds(const qp_rules_sentence *sentence, const rules_cue *cue, size_t at,
                        size_t n)
{
    const qp_rules_word *next = at + n < sentence->count ? &sentence->words[at + n] : NULL;

    return rules_stands(sentence, cue, at) &&
           (!sentence->question || (cue->flags & CUE_QUESTION) != 0) && rules_follows(cue, next) &&
           ((cue->flags & CUE_SOLO) == 0 || !rules_has(sentence, OTHERS));
}

/* Written so that a search for unfinished work does not find the word that is looked for here. */
#define RULES_HEADS_T                                                                              \
    ("the to"                                                                                      \
     "do")

/* The words that a cue begins with, by their first letter: most words of a sentence are sorted out
 * by one look here. */
static const char *const rules_heads[] = {"always address",
                                          "",
                                          "can could call",
                                          "don't do",
                                          "every each",
                                          "from",
                                          "going",
                                          "",
                                          "i i'd i'm i'll i've in",
                                          "",
                                          "keep",
                                          "let's",
                                          "make my",
                                          "never",
                                          "open",
                                          "please",
                                          "",
                                          "remember refer remind",
                                          "",
                                          RULES_HEADS_T,
                                          "",
                                          "",
                                          "we we've we'll we're whenever when would",
                                          "",
                                          "you",
                                          ""};

static_assert(sizeof(rules_heads) / sizeof(rules_heads[0]) == 26, "one list a letter");

/* Lists by first letter: most words are ruled out by one comparison. */
static bool rules_is_head(const qp_rules_word *word)
{
    const char first = word->lower[0];

    return first >= 'a' && first <= 'z' && qp_rules_in(word, rules_heads[first - 'a']);
}

#ifndef NDEBUG
/* Whether the lists above have the first word of every cue. */
static bool rules_heads_hold(void)
{
    for (size_t i = 0; i < RULES_CUES; i++) {
        qp_rules_word word = {.n = (uint16_t)strcspn(rules_cues[i].words, " ")};

        memcpy(word.lower, rules_cues[i].words, word.n);
        if (!rules_is_head(&word)) {
            return false;
        }
    }
    return true;
}
#endif

/* The first cue of the table that the sentence has, or NULL. */
static const rules_cue *rules_find_cue(const qp_rules_sentence *sentence, bool user)
{
    const rules_cue *best = NULL;

    for (size_t at = 0; at < sentence->count; at++) {
        const char first = sentence->words[at].lower[0];

        if (!rules_is_head(&sentence->words[at])) {
            continue;
        }
        /* Only cues before the best one so far: a later row of the table cannot win. */
        for (size_t i = 0; i < RULES_CUES && &rules_cues[i] != best; i++) {
            const rules_cue *cue = &rules_cues[i];
            const size_t n = cue->words[0] == first && (user || (cue->flags & CUE_ASSISTANT) != 0)
                                 ? qp_rules_match(sentence, at, cue->words)
                                 : 0;

            if (n > 0 && rules_holds(sentence, cue, at, n)) {
                best = cue;
                break;
            }
        }
    }
    return best;
}

/* ---- names ------------------------------------------------------------------------------------
 */

#define ROLES                                                                                      \
    "wife husband partner girlfriend boyfriend fiancee fiance boss manager colleague coworker "    \
    "friend brother sister mother mom mum father dad son daughter uncle aunt cousin grandmother "  \
    "grandfather grandma grandpa doctor dentist therapist teacher professor advisor mentor coach " \
    "landlord neighbor neighbour roommate assistant lawyer accountant dog cat client customer "    \
    "director lead cto ceo cfo designer engineer developer"

/* A name: a capital letter where no sentence begins, and no word that is always written so. */
static bool rules_is_name(const qp_rules_word *word)
{
    /* One letter is an initial, or "I". */
    return word->capital && !word->quoted && word->n > 1 &&
           !qp_rules_in(word, "i'm i'll i've i'd monday tuesday wednesday thursday friday saturday "
                              "sunday the and but");
}

/* The number of the word that should be the name behind "my boss" or "my boss's name is" at `at`;
 * 0: neither is there. */
static size_t rules_name_place(const qp_rules_sentence *sentence, size_t at)
{
    const qp_rules_word *role = &sentence->words[at + 1];

    if (!qp_rules_in(&sentence->words[at], "my our")) {
        return 0;
    }
    if (qp_rules_in(role, ROLES)) {
        /* Both forms may follow; a match of neither adds nothing. */
        return at + 2 + qp_rules_match(sentence, at + 2, "is called") +
               qp_rules_match(sentence, at + 2, "is named");
    }
    return role->n > 2 && memcmp(role->lower + role->n - 2, "'s", 2) == 0 &&
                   qp_rules_match(sentence, at + 2, "name is") > 0
               ? at + 4
               : 0;
}

/* Whether "Anna is our lead" stands at `at`. */
static bool rules_is_introduced(const qp_rules_sentence *sentence, size_t at)
{
    const qp_rules_word *words = sentence->words;

    return at + 3 < sentence->count && rules_is_name(&words[at]) &&
           qp_rules_in(&words[at + 1], "is") && qp_rules_in(&words[at + 2], "my our") &&
           qp_rules_in(&words[at + 3], ROLES);
}

/* "my boss Anna", "my boss is called Anna", "my boss's name is Anna", "Anna is our lead". The name,
 * or NULL. */
static const qp_rules_word *rules_find_name(const qp_rules_sentence *sentence)
{
    const qp_rules_word *words = sentence->words;

    /* A quoted sentence introduces nobody to this user. */
    for (size_t i = 0; i + 2 < sentence->count; i++) {
        const size_t name = words[i].quoted ? 0 : rules_name_place(sentence, i);

        if (rules_is_introduced(sentence, i)) {
            return &words[i];
        }
        if (name > 0 && name < sentence->count && rules_is_name(&words[name])) {
            return &words[name];
        }
    }
    return NULL;
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

#define UNITS                                                                                      \
    "kg g lb lbs km m cm mm mi miles ft inches gb mb tb kb ms seconds minutes hours days weeks "   \
    "months years people users dollars euros pounds usd eur gbp percent calories kcal degrees "    \
    "requests tokens rows pages employees kilometers kilograms meters liters litres"

/* Whether a word is a number with its unit: "64 GB", "64GB", "$3,000", "20%". */
static bool rules_is_quantity(const qp_rules_sentence *sentence, size_t at)
{
    const qp_rules_word *word = &sentence->words[at];
    const quipu_str text = sentence->text;
    qp_rules_word unit = {.n = 0};
    size_t digits = 0;

    if (word->quoted || word->lower[0] < '0' || word->lower[0] > '9') {
        return false;
    }
    /* The splitter keeps "3.5" and "1,000" together as one word. */
    while (digits < word->n && strchr("0123456789.,", word->lower[digits]) != NULL) {
        digits++;
    }
    unit.n = (uint16_t)(word->n - digits);
    memcpy(unit.lower, word->lower + digits, unit.n);
    /* "64GB": the unit is the rest of the same word. */
    if (unit.n > 0) {
        return qp_rules_in(&unit, UNITS);
    }
    return (at + 1 < sentence->count && qp_rules_in(&sentence->words[at + 1], UNITS)) ||
           (word->end < text.n && text.p[word->end] == '%') ||
           (word->at > 0 && text.p[word->at - 1] == '$');
}

/* A number with a unit or a currency, anywhere in the sentence. */
static bool rules_has_quantity(const qp_rules_sentence *sentence)
{
    for (size_t i = 0; i < sentence->count; i++) {
        if (rules_is_quantity(sentence, i)) {
            return true;
        }
    }
    return false;
}

/* ---- the message ------------------------------------------------------------------------------
 */

/* The next place in the result, or NULL when it is full. */
static quipu_memory *rules_add(qp_rules_found *found, const quipu_message *message)
{
    quipu_memory *item;

    /* A message has at most so many: a long list does not fill the memory of a session. */
    if (found->count == QP_RULES_FOUND_MAX) {
        return NULL;
    }
    item = &found->items[found->count++];
    *item = (quipu_memory){.kind = QUIPU_OBSERVATION,
                           .has_said_at = true,
                           .said_at = message->timestamp,
                           .source_start = message->seq,
                           .source_end = message->seq,
                           .origin = QUIPU_STR(QUIPU_RULES_ORIGIN)};
    return item;
}

/* A name or a sentence for a column, which holds no NUL: it ends there. At most `max` bytes, and
 * never half of a character; absent when nothing is left. */
static quipu_str rules_cut(quipu_str text, size_t max)
{
    /* SQLite's text ends there, and PostgreSQL refuses it. */
    const char *nul = text.n > 0 ? memchr(text.p, '\0', text.n) : NULL;
    const quipu_str whole = {text.p, nul != NULL ? (size_t)(nul - text.p) : text.n};
    const size_t n = qp_utf8_cut(whole, max);

    return n > 0 ? (quipu_str){text.p, n} : QP_STR_ABSENT;
}

/* The kind of a sentence, before it is stored. */
typedef struct rules_reading {
    quipu_memory_topic topic;
    quipu_memory_priority priority;
    const qp_rules_word *name; /* or NULL */
    bool dated;
    qp_rules_days days;
} rules_reading;

/* Reads one sentence. A date is noted with whatever else the sentence is; alone, it needs somebody
 * whom it is about, and so does a number. */
static void rules_read(const quipu_message *message, const qp_rules_sentence *sentence,
                       rules_reading *ret)
{
    const bool user = message->role == QUIPU_ROLE_USER;
    const rules_cue *cue = rules_find_cue(sentence, user);
    /* A question asserts nothing, and an assistant's sentence is not the user's word. */
    const bool states = user && !sentence->question;
    const bool own = states && rules_has(sentence, "i my our we i'm i've i'll we're we've we'll");

    *ret = (rules_reading){.topic = QUIPU_TOPIC_NONE, .priority = QUIPU_PRIORITY_MEDIUM};
    ret->name = states ? rules_find_name(sentence) : NULL;
    ret->dated = (cue != NULL || own) && qp_rules_date(sentence, message->timestamp, &ret->days);
    if (cue != NULL) {
        ret->topic = cue->topic;
        /* The assistant's sentences are kept with a lower priority. */
        ret->priority = user ? cue->priority : QUIPU_PRIORITY_LOW;
    } else if (ret->name != NULL) {
        ret->topic = QUIPU_TOPIC_PERSON;
        ret->priority = QUIPU_PRIORITY_HIGH;
    } else if (own && ret->dated) {
        ret->topic = QUIPU_TOPIC_DATE;
    } else if (own && rules_has_quantity(sentence)) {
        ret->topic = QUIPU_TOPIC_QUANTITY;
        ret->priority = QUIPU_PRIORITY_LOW;
    }
}

/* Keeps a sentence that says something. */
static void rules_sentence(const quipu_message *message, const qp_rules_sentence *sentence,
                           qp_rules_found *found)
{
    rules_reading reading;
    quipu_memory *item;

    rules_read(message, sentence, &reading);
    /* No place left: the rest of the message is not observed. */
    item = reading.topic != QUIPU_TOPIC_NONE ? rules_add(found, message) : NULL;
    if (item == NULL) {
        return;
    }
    item->content = rules_cut(sentence->text, QP_RULES_CONTENT);
    item->topic = reading.topic;
    item->priority = reading.priority;
    item->has_about_from = item->has_about_to = reading.dated;
    if (reading.dated) {
        item->about_from = reading.days.from;
        item->about_to = reading.days.to;
    }
    /* Taken from the message itself, not from its lower case: names keep their capitals. */
    if (reading.name != NULL) {
        const quipu_str name = {sentence->text.p + reading.name->at,
                                (size_t)(reading.name->end - reading.name->at)};
        item->subject = rules_cut(name, QUIPU_SUBJECT_MAX);
    }
}

/* Whether a tool's output says that it failed: how it begins, or an error as its first member. */
static bool rules_failed(quipu_str output)
{
    static const char *const heads[] = {
        "error",       "Error",      "ERROR",     "failed",    "Failed",
        "FAILED",      "Traceback",  "Exception", "exception", "{\"error\"",
        "{ \"error\"", "{\"Error\"", "fatal:",    "panic:",    "Permission denied"};

    /* Programs print blank lines before their errors. */
    while (output.n > 0 && strchr(" \t\r\n", output.p[0]) != NULL) {
        output.p++;
        output.n--;
    }
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        const size_t n = strlen(heads[i]);

        if (output.n >= n && memcmp(output.p, heads[i], n) == 0) {
            /* "error": null and "errors" do not count as errors. */
            const quipu_str rest = {output.p + n, output.n - n};
            return !(rest.n > 0 && rest.p[0] == 's') &&
                   !(rest.n >= 5 && memcmp(rest.p, ":null", 5) == 0) &&
                   !(rest.n >= 6 && memcmp(rest.p, ": null", 6) == 0);
        }
    }
    return false;
}

/* A text without control characters, cut, into the result's own room. */
static void rules_put(qp_rules_found *found, quipu_str text, size_t max)
{
    const size_t n = qp_utf8_cut(text, max);

    assert(found->used + n <= sizeof(found->texts));
    for (size_t i = 0; i < n; i++) {
        found->texts[found->used++] = (unsigned char)text.p[i] < ' ' ? ' ' : text.p[i];
    }
}

/* The outcome of a tool's call. Its answer stays in the message. */
static void rules_call(const quipu_message *message, const quipu_tool_call *call,
                       qp_rules_found *found)
{
    const bool failed = rules_failed(call->output);
    quipu_memory *item;

    /* A call without an answer is still running, or was never made. */
    if (call->output.p == NULL || call->name.n == 0) {
        return;
    }
    item = rules_add(found, message);
    if (item == NULL) {
        return;
    }
    /* Where this item's text begins in the room that all items share. */
    const size_t begin = found->used;

    rules_put(found, call->name, QP_RULES_TOOL_TEXT / 2);
    if (call->input.n > 2) { /* more than "{}" */
        rules_put(found, QUIPU_STR(" "), 1);
        rules_put(found, call->input, QP_RULES_TOOL_TEXT / 2);
    }
    /* A failure quotes the output, a success does not. */
    rules_put(found, failed ? QUIPU_STR(" failed: ") : QUIPU_STR(" succeeded"), QP_RULES_TOOL_TEXT);
    if (failed) {
        rules_put(found, call->output, QP_RULES_TOOL_TEXT);
    }
    item->content = (quipu_str){found->texts + begin, found->used - begin};
    item->topic = failed ? QUIPU_TOPIC_FAILURE : QUIPU_TOPIC_OUTCOME;
    item->priority = failed ? QUIPU_PRIORITY_MEDIUM : QUIPU_PRIORITY_LOW;
    item->subject = rules_cut(call->name, QUIPU_SUBJECT_MAX);
}

/* Outcomes of tools first, then sentences in their order, until the result is full: what a message
 * says at its beginning weighs more than its end. */
void qp_rules_observe(const quipu_message *message, qp_rules_found *ret)
{
    const bool speaks = message->role == QUIPU_ROLE_USER || message->role == QUIPU_ROLE_ASSISTANT ||
                        message->role == QUIPU_ROLE_MODEL;
    qp_rules_walk walk = {.text = message->content};
    qp_rules_sentence sentence;

    /* Checked once a message, in debug builds only. */
    assert(rules_heads_hold());
    ret->count = 0;
    ret->used = 0;
    /* A summary repeats what was observed in the messages that it covers. */
    if (message->mark == QUIPU_MARK_COMPACTION) {
        return;
    }
    for (size_t i = 0; i < message->calls.count; i++) {
        rules_call(message, quipu_tool_call_at(message->calls, i), ret);
    }
    while (speaks && ret->count < QP_RULES_FOUND_MAX && qp_rules_next(&walk, &sentence)) {
        rules_sentence(message, &sentence, ret);
    }
}
