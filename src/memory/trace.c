/* Words of lines and where they come from; the head of trace.h says what for.
 *
 *   text ─▶ words ─▶ the beginning of each, in lower case ─▶ a set of bits, by hash
 *
 * Owns: what counts as a word. Called by observe.c and answer.c, on the worker's thread. Locks:
 * none. Two words may share a bit: in a message of a thousand words one in sixty is taken for
 * another, which finds rather too much than too little. */
#include "memory/trace.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"
#include "memory/rules_text.h"

#define TRACE_WORD_MAX 32       /* bytes of a word that are looked at */
#define TRACE_STEM 4            /* bytes of a word of ASCII that count */
#define TRACE_STEM_WIDE 8       /* the same of other letters */
#define TRACE_IDEOGRAPH 0x2e80u /* from here on each character is a word */

/* Words that say nothing about where a line comes from. */
static const char trace_empty[] =
    "the and for with that this from has have had was were are will would should must can not user "
    "users user's assistant wants want asked asks said says they their them its his her who which "
    "when what been being does did also about into than then there";

qp_speaker qp_word_of(const quipu_message *message)
{
    bool returned = false;

    for (size_t i = 0; i < message->calls.count; i++) {
        returned = returned || quipu_tool_call_at(message->calls, i)->output.n > 0;
    }
    if (returned || message->mark == QUIPU_MARK_COMPACTION) {
        /* A summary is a model's text about others' words. */
        return QP_WORD_TOOL;
    }
    switch (message->role) {
    case QUIPU_ROLE_USER:
        return QP_WORD_USER;
    case QUIPU_ROLE_ASSISTANT:
    case QUIPU_ROLE_MODEL:
        return QP_WORD_ASSISTANT;
    default:
        return QP_WORD_TOOL;
    }
}

/* ---- words ------------------------------------------------------------------------------------
 */

/* A word under way. */
typedef struct trace_word {
    char bytes[TRACE_WORD_MAX];
    size_t n;
    bool wide; /* letters outside of ASCII */
} trace_word;

static bool trace_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A character of a text. */
typedef struct trace_char {
    size_t size;
    bool letter;
    bool alone; /* a word by itself */
} trace_char;

/* Marks between U+2000 and U+2BFF, and those of Latin-1, are not letters. Nor is a byte that does
 * not begin a character. */
static trace_char trace_read(quipu_str text, size_t at)
{
    const unsigned char *p = (const unsigned char *)text.p + at;
    uint32_t point = 0;
    /* ASCII first: most of all text. */

    assert(at < text.n);
    if (*p < 0x80) {
        return (trace_char){1, trace_is_plain((char)*p), false};
    }
    const size_t size = qp_utf8_step(p, (const unsigned char *)text.p + text.n, &point);

    return (trace_char){size > 0 ? size : 1, point >= 0xc0 && (point < 0x2000 || point >= 0x2c00),
                        point >= TRACE_IDEOGRAPH};
}

/* Appends a character in lower case, as far as there is room. */
static void trace_put(trace_word *word, const char *p, const trace_char *c)
{
    /* The rest of a long word is dropped: its beginning is what counts. */
    for (size_t i = 0; i < c->size && word->n < TRACE_WORD_MAX; i++) {
        word->bytes[word->n++] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] - 'A' + 'a' : p[i]);
    }
    word->wide = word->wide || c->size > 1;
}

/* Reads the next word from `*at` on; false at the end. */
static bool trace_next(quipu_str text, size_t *at, trace_word *ret)
{
    *ret = (trace_word){.n = 0};
    while (*at < text.n) {
        const trace_char c = trace_read(text, *at);

        /* A character that is a word of its own ends the one before it. */
        if (ret->n > 0 && (c.alone || !c.letter)) {
            return true;
        }
        if (c.letter) {
            trace_put(ret, text.p + *at, &c);
        }
        *at += c.size;
        if (c.letter && c.alone) {
            return true;
        }
    }
    return ret->n > 0;
}

/* Whether a word is one of those that every line has. */
static bool trace_is_empty(const trace_word *word)
{
    qp_rules_word looked = {.n = (uint16_t)word->n};

    /* Words of other scripts and long ones are in no list. */
    if (word->n > QP_RULES_WORD_BYTES || word->wide) {
        return false;
    }
    memcpy(looked.lower, word->bytes, word->n);
    return qp_rules_in(&looked, trace_empty);
}

/* The bit of a word; false: it does not count. Short words count when they have a digit. */
static bool trace_bit(const trace_word *word, size_t *ret_bit)
{
    quipu_str stem = {word->bytes, word->n};
    bool digit = false;

    /* A word with a digit is not cut below: 2025 and 2026 must not become one word. */
    for (size_t i = 0; i < word->n; i++) {
        digit = digit || (word->bytes[i] >= '0' && word->bytes[i] <= '9');
    }
    if ((word->n < 3 && !digit && !word->wide) || trace_is_empty(word)) {
        return false;
    }
    if (word->wide) {
        stem.n = qp_utf8_cut(stem, TRACE_STEM_WIDE);
    } else if (!digit) {
        stem.n -= stem.n > 3 && stem.p[stem.n - 1] == 's'; /* a plural, "prefers" */
        stem.n = stem.n < TRACE_STEM ? stem.n : TRACE_STEM;
    }
    *ret_bit = (size_t)(qp_hash64(stem, 0) % QP_TRACE_BITS);
    return true;
}

void qp_trace_add(qp_trace_words *words, quipu_str text)
{
    trace_word word;
    size_t bit;

    for (size_t at = 0; trace_next(text, &at, &word);) {
        if (trace_bit(&word, &bit)) {
            assert(bit < QP_TRACE_BITS);
            words->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
    }
}

static bool trace_has(const qp_trace_words *words, size_t bit)
{
    return ((words->bits[bit / 64] >> (bit % 64)) & 1) != 0;
}

qp_trace_share qp_trace_find(const qp_trace_words *words, quipu_str text)
{
    qp_trace_share share = {0, 0};
    trace_word word;
    size_t bit;

    for (size_t at = 0; trace_next(text, &at, &word);) {
        if (trace_bit(&word, &bit)) {
            share.words++;
            share.found += trace_has(words, bit);
        }
    }
    assert(share.found <= share.words);
    return share;
}

bool qp_trace_bears(qp_trace_share share)
{
    return share.found > 0 && share.found * QP_TRACE_PART >= share.words;
}

/* ---- the user's own ---------------------------------------------------------------------------
 */

void qp_trace_read(const quipu_message *message, qp_trace_said *ret)
{
    qp_rules_walk walk = {.text = message->content};
    quipu_str piece;

    memset(ret, 0, sizeof(*ret));
    if (qp_word_of(message) != QP_WORD_USER) {
        return;
    }
    while (qp_rules_own(&walk, &piece)) {
        qp_trace_add(&ret->own, piece);
    }
    qp_trace_add(&ret->all, message->content);
}

bool qp_trace_is_own(const qp_trace_said *said, quipu_str line)
{
    trace_word word;
    size_t bit;

    for (size_t at = 0; trace_next(line, &at, &word);) {
        if (trace_bit(&word, &bit) && trace_has(&said->all, bit) && !trace_has(&said->own, bit)) {
            return false; /* it stands only in what the user quotes */
        }
    }
    return qp_trace_bears(qp_trace_find(&said->own, line));
}
