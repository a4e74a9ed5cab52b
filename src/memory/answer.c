/* Reading answers; the head of answer.h says how strictly.
 *
 *   text ─▶ without blanks and one code fence ─▶ JSON ─▶ each member checked ─▶ the whole judged
 *
 * Owns: the rules that judge an answer. Called by observe.c and reflect.c, after ask.c has
 * stored what the question cost. Locks: none; lines lie in the worker's arena. */
#include "memory/answer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/visible.h"

#define ANSWER_BITS 262144    /* of the set of stretches: four for each of the longest text */
#define ANSWER_REPEAT_MIN 240 /* bytes: a shorter text is not a loop */
#define ANSWER_DAY "T00:00:00Z"
#define ANSWER_DAY_SIZE 10 /* of YYYY-MM-DD */

/* In the order of the enums, from 1. */
static const char *const answer_priorities[] = {"standing", "high", "medium", "low", "done"};
static const char *const answer_topics[] = {"instruction", "preference", "decision", "commitment",
                                            "question",    "person",     "quantity", "date",
                                            "outcome",     "failure"};

/* The reason ends up in the job's row and in `quipu memory status`: it names what is wrong with the
 * answer and quotes nothing of it. */
static quipu_status answer_wrong(char why[QP_ANSWER_WHY_SIZE], const char *text)
{
    (void)snprintf(why, QP_ANSWER_WHY_SIZE, "%s", text);
    return QUIPU_INVALID;
}

/* ASCII white space; VT and FF, too, which JSON does not know. */
static bool answer_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Models put line ends around their answers. Blanks inside of the text stay. */
static quipu_str answer_trim(quipu_str text)
{
    while (text.n > 0 && answer_is_blank(text.p[0])) {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && answer_is_blank(text.p[text.n - 1])) {
        text.n--;
    }
    return text;
}

/* Models that have no mode for JSON put it in a code fence: the one wrapping that is taken off.
 * A fence inside of the text, or one without an end, stays: the parser then refuses the answer. */
static quipu_str answer_unfence(quipu_str text)
{
    static const char fence[] = "```";
    const size_t n = sizeof(fence) - 1;
    const char *line;

    text = answer_trim(text);
    /* The line of the opening fence may name a language, and is dropped with it. */
    if (text.n < 2 * n || memcmp(text.p, fence, n) != 0 ||
        memcmp(text.p + text.n - n, fence, n) != 0) {
        return text;
    }
    line = memchr(text.p, '\n', text.n);
    if (line == NULL) {
        return text;
    }
    return answer_trim((quipu_str){line + 1, (size_t)(text.p + text.n - n - (line + 1))});
}

/* ---- degenerate texts ------------------------------------------------------------------------ */

/* Stretches at every offset are hashed into a set of bits; those whose bit is set were there
 * before, but for the few that meet another's: an eighth of them in the longest text. */
bool qp_answer_repeats(quipu_str text)
{
    /* 32 KiB on the stack: one bit for each value of the hash. */
    uint64_t bits[ANSWER_BITS / 64] = {0};
    const size_t stretches = text.n > QP_ANSWER_STRETCH ? text.n - QP_ANSWER_STRETCH + 1 : 0;
    size_t seen = 0;

    /* Short answers repeat their own names; that is not a loop. */
    if (text.n < ANSWER_REPEAT_MIN) {
        return false;
    }
    for (size_t i = 0; i < stretches; i++) {
        const quipu_str stretch = {text.p + i, QP_ANSWER_STRETCH};
        const uint64_t hash = qp_hash64(stretch, 0) % ANSWER_BITS;

        seen += (bits[hash / 64] >> (hash % 64)) & 1;
        bits[hash / 64] |= UINT64_C(1) << (hash % 64);
    }
    /* More than two fifths of all stretches were there before. */
    return seen * 5 > stretches * 2;
}

/* ---- members --------------------------------------------------------------------------------- */

/* The number from 1 of a word; 0: the list does not have it. */
static int answer_word(qp_json_node node, const char *const *words, size_t count)
{
    /* Case counts: "High" is not a word of the form, and the answer is refused. */
    for (size_t i = 0; i < count; i++) {
        if (qp_json_kind_of(node) == QP_JSON_STRING &&
            qp_json_text_is(node, quipu_cstr(words[i]))) {
            return (int)i + 1;
        }
    }
    return 0;
}

/* A text that a column can hold, trimmed; a member that is not there is empty. Escapes are
 * decoded into the arena; a text that the model wrote with a NUL or half a character cannot be
 * stored. */
static quipu_status answer_string(qp_json_node node, size_t size_max, quipu_arena *arena,
                                  quipu_str *ret_text)
{
    uint32_t flags = 0;
    quipu_status status = QUIPU_OK;

    *ret_text = QP_STR_ABSENT;
    if (qp_json_kind_of(node) == QP_JSON_NONE) {
        return QUIPU_OK;
    }
    status = qp_json_text(node, arena, ret_text, &flags);
    *ret_text = answer_trim(*ret_text);
    /* Bytes, as the column's limit counts them. */
    return status == QUIPU_OK && (flags != 0 || ret_text->n > size_max) ? QUIPU_INVALID : status;
}

/* A day, or an empty text. Only the day: models invent hours. */
static quipu_status answer_about(qp_json_node node, quipu_arena *arena, qp_answer_line *line)
{
    char text[ANSWER_DAY_SIZE + sizeof(ANSWER_DAY)];
    quipu_str day;
    quipu_status status = answer_string(node, ANSWER_DAY_SIZE, arena, &day);

    line->has_about = status == QUIPU_OK && day.n > 0;
    if (!line->has_about) {
        return status;
    }
    /* "2026" or "next week" is not a day; the observation is refused, since the form asked for
     * one. */
    if (day.n != ANSWER_DAY_SIZE) {
        return QUIPU_INVALID;
    }
    (void)snprintf(text, sizeof(text), "%.*s%s", ANSWER_DAY_SIZE, day.p, ANSWER_DAY);
    return quipu_time_parse(quipu_cstr(text), &line->about) == QUIPU_OK ? QUIPU_OK : QUIPU_INVALID;
}

/* The messages that it comes from, which the model must have been shown. */
static bool answer_range(qp_json_node item, const qp_answer_shown *shown, qp_answer_line *line)
{
    /* A number in quotes or with a fraction is refused: it may be a mistake about anything. */
    return qp_json_int64(qp_json_get(item, QUIPU_STR("from")), &line->first_seq) == QP_JSON_EXACT &&
           qp_json_int64(qp_json_get(item, QUIPU_STR("to")), &line->last_seq) == QP_JSON_EXACT &&
           line->first_seq >= shown->first_seq && line->last_seq <= shown->last_seq &&
           line->first_seq <= line->last_seq;
}

/* The known line that it makes wrong; a missing number is 0. */
static bool answer_replaces(qp_json_node item, const qp_answer_shown *shown, qp_answer_line *line)
{
    const qp_json_node node = qp_json_get(item, QUIPU_STR("replaces"));

    return qp_json_kind_of(node) == QP_JSON_NONE ||
           (qp_json_int64(node, &line->replaces) == QP_JSON_EXACT && line->replaces >= 0 &&
            /* Known lines are numbered from 1 in the question. */
            line->replaces <= (int64_t)shown->known);
}

/* One observation. */
static quipu_status answer_line(qp_json_node item, const qp_answer_shown *shown, quipu_arena *arena,
                                qp_answer_line *line, char *why)
{
    const int priority = answer_word(qp_json_get(item, QUIPU_STR("priority")), answer_priorities,
                                     sizeof(answer_priorities) / sizeof(answer_priorities[0]));
    const int topic = answer_word(qp_json_get(item, QUIPU_STR("topic")), answer_topics,
                                  sizeof(answer_topics) / sizeof(answer_topics[0]));
    quipu_status status;

    /* The texts come below, each after its check. */
    *line = (qp_answer_line){.priority = (quipu_memory_priority)priority,
                             .topic = (quipu_memory_topic)topic};
    if (qp_json_kind_of(item) != QP_JSON_OBJECT) {
        return answer_wrong(why, "an observation is no object");
    }
    if (priority == 0 || topic == 0) {
        return answer_wrong(why, "an observation has no priority or topic of the list");
    }
    status =
        answer_string(qp_json_get(item, QUIPU_STR("text")), QP_ANSWER_TEXT_MAX, arena, &line->text);
    /* A lack of memory is not a fault of the answer. */
    if (status == QUIPU_NOMEM) {
        return status;
    }
    if (status != QUIPU_OK || !qp_visible_shows(line->text)) {
        return answer_wrong(why, "the text of an observation is missing, empty or too long");
    }
    if (!answer_range(item, shown, line) || !answer_replaces(item, shown, line)) {
        return answer_wrong(why, "an observation names messages or lines that were not shown");
    }
    /* An empty subject is fine: not every line has one. */
    status = answer_string(qp_json_get(item, QUIPU_STR("subject")), QUIPU_SUBJECT_MAX, arena,
                           &line->subject);
    if (status == QUIPU_OK) {
        status = answer_about(qp_json_get(item, QUIPU_STR("about")), arena, line);
    }
    return status == QUIPU_INVALID
               ? answer_wrong(why, "the subject or the day of an observation is in no form")
               : status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Whether all lines together are smaller than what they were made of and do not repeat. */
static quipu_status answer_judge(const qp_answer_lines *lines, const qp_answer_shown *shown,
                                 char *why)
{
    int64_t tokens = 0;
    bool repeats;
    qp_buf all;

    /* Room for the longest answer, so that the buffer fails for lack of memory only. */
    qp_buf_init(&all, (size_t)QP_ANSWER_LINES_MAX * (QP_ANSWER_TEXT_MAX + 1));
    for (size_t i = 0; i < lines->count; i++) {
        tokens += quipu_token_estimate(lines->items[i].text);
        qp_buf_put(&all, lines->items[i].text);
        qp_buf_putc(&all, '\n');
        /* Square in the number of lines, of which an answer has at most QP_ANSWER_LINES_MAX. */
        for (size_t k = 0; k < i; k++) {
            if (quipu_str_eq(lines->items[i].text, lines->items[k].text)) {
                qp_buf_free(&all);
                return answer_wrong(why, "it says the same twice");
            }
        }
    }
    if (qp_buf_status(&all) != QUIPU_OK) {
        qp_buf_free(&all);
        return QUIPU_NOMEM;
    }
    /* All lines together: a loop often spreads over many lines that differ in a number. */
    repeats = qp_answer_repeats(qp_buf_str(&all));
    qp_buf_free(&all);
    if (repeats) {
        return answer_wrong(why, "it repeats itself");
    }
    /* A few lines about a few messages may be longer than these. */
    return tokens > QP_ANSWER_SMALL_TOKENS && tokens >= shown->tokens
               ? answer_wrong(why, "it is not smaller than the messages")
               : QUIPU_OK;
}

/* The array of an answer, parsed. */
static quipu_status answer_list(qp_json_node list, const qp_answer_shown *shown, quipu_arena *arena,
                                qp_answer_lines *ret, char *why)
{
    qp_json_iter iter = qp_json_each(list);
    quipu_status status = QUIPU_OK;

    /* A missing list is a model that did not follow the form; an empty one is an answer. */
    if (qp_json_kind_of(list) != QP_JSON_ARRAY) {
        return answer_wrong(why, "it has no list of observations");
    }
    if (qp_json_count(list) > QP_ANSWER_LINES_MAX) {
        return answer_wrong(why, "it has too many observations");
    }
    /* The first wrong line ends the reading: the answer is refused as a whole. */
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        assert(ret->count < QP_ANSWER_LINES_MAX);
        status = answer_line(iter.value, shown, arena, &ret->items[ret->count++], why);
    }
    return status == QUIPU_OK ? answer_judge(ret, shown, why) : status;
}

/* `shown` is what the question contained: an answer may refer to these messages and lines, and to
 * no others. Out of memory is our failure, not that of the answer. */
quipu_status qp_answer_observations(quipu_str answer, const qp_answer_shown *shown,
                                    quipu_arena *arena, qp_answer_lines *ret,
                                    char ret_why[QP_ANSWER_WHY_SIZE])
{
    qp_json_doc doc;
    quipu_status status;

    assert(shown->first_seq > 0 && shown->first_seq <= shown->last_seq);
    /* A refused answer leaves lines behind; the caller does not look at them. */
    ret->count = 0;
    qp_json_init(&doc);
    status = qp_json_parse(&doc, answer_unfence(answer), NULL, NULL);
    if (status == QUIPU_OK) {
        status = answer_list(qp_json_get(qp_json_root(&doc), QUIPU_STR("observations")), shown,
                             arena, ret, ret_why);
    } else if (status != QUIPU_NOMEM) {
        status = answer_wrong(ret_why, "it is no JSON");
    }
    qp_json_free(&doc);
    return status;
}

/* The text of a reflection, parsed. */
static quipu_status answer_reflection(qp_json_node node, int64_t tokens, quipu_arena *arena,
                                      quipu_str *ret_text, char *why)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = answer_string(node, QP_ANSWER_REFLECTION_MAX, arena, &text);

    if (status == QUIPU_NOMEM) {
        return status;
    }
    if (status != QUIPU_OK || text.n == 0) {
        return answer_wrong(why, "the reflection is missing, empty or too long");
    }
    if (qp_answer_repeats(text)) {
        return answer_wrong(why, "it repeats itself");
    }
    /* In whole numbers: text / lines > 3 / 4. */
    if (quipu_token_estimate(text) * 4 > tokens * 3) {
        return answer_wrong(why, "it is hardly smaller than what it condenses");
    }
    *ret_text = text;
    return QUIPU_OK;
}

/* `tokens` are those of the lines that it condenses: a text of more than three quarters of them is
 * refused. */
quipu_status qp_answer_reflection(quipu_str answer, int64_t tokens, quipu_arena *arena,
                                  quipu_str *ret_text, char ret_why[QP_ANSWER_WHY_SIZE])
{
    qp_json_doc doc;
    quipu_status status;

    qp_json_init(&doc);
    status = qp_json_parse(&doc, answer_unfence(answer), NULL, NULL);
    if (status == QUIPU_OK) {
        status = answer_reflection(qp_json_get(qp_json_root(&doc), QUIPU_STR("reflection")), tokens,
                                   arena, ret_text, ret_why);
    } else if (status != QUIPU_NOMEM) {
        status = answer_wrong(ret_why, "it is no JSON");
    }
    qp_json_free(&doc);
    return status;
}
