/* Cutting texts and queries into words. The character classes are in words_table.c.
 *
 * Owns: the definition of a word. A change here makes every stored index stale.
 * Called by: tokenizer.c of SQLite's engine, search_text.c of PostgreSQL's, match.c and snippet.c:
 * one code, so that all engines find the same and snippets mark what was found. Pure functions over
 * a text; a reader's buffer holds one folded word at a time.
 *
 *   text     Crème brûlée, 2nd TRY: 東京          cjk: 東 and 京 are words, otherwise 東京 is one
 *   words    creme brulee 2nd try 東 京
 */
#include "ent/words.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

/* The role of a character in a word. */
typedef enum words_kind {
    WORDS_GAP = 0, /* ends it */
    WORDS_LETTER,
    WORDS_MARK, /* goes on with it and is left out */
    WORDS_CJK   /* a word of its own */
} words_kind;

/* Whether a character is a word of its own: scripts that are written without spaces. Linear,
 * because words_step() asks only for characters from U+1000 on, and most texts have few of them. */
bool qp_word_is_cjk(uint32_t point)
{
    /* Ideographs, kana, bopomofo, Hangul and its letters; the marks between them are not words. */
    static const struct {
        uint32_t low;
        uint32_t high;
    } ranges[] = {{0x1100, 0x11ff}, {0x2e80, 0x2fdf},   {0x3005, 0x3007},   {0x3021, 0x302f},
                  {0x3031, 0x3035}, {0x3038, 0x303c},   {0x3041, 0x309f},   {0x30a1, 0x30fa},
                  {0x30fc, 0x318e}, {0x31a0, 0x31bf},   {0x31f0, 0x31ff},   {0x3400, 0x4dbf},
                  {0x4e00, 0x9fff}, {0xa960, 0xa97c},   {0xac00, 0xd7fb},   {0xf900, 0xfaff},
                  {0xff66, 0xffdc}, {0x16fe0, 0x18cff}, {0x1aff0, 0x1b2ff}, {0x20000, 0x3ffff}};
    const size_t count = sizeof(ranges) / sizeof(ranges[0]);
    size_t at = 0;

    /* The ranges ascend: the first that does not end before the character decides. */
    while (at < count && point > ranges[at].high) {
        at++;
    }
    return at < count && point >= ranges[at].low;
}

/* Binary search in the table of characters that are not letters. The ranges are sorted and do not
 * overlap. A character outside of all ranges is a letter, also one that Unicode adds later. */
static words_kind words_kind_of(uint32_t point)
{
    size_t low = 0;
    size_t high = qp_word_gaps_count;

    while (low < high) {
        /* Looks for the last range that does not begin behind the character. */
        size_t at = (low + high) / 2;
        if (point >= qp_word_gaps[at].low) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    if (low > 0) {
        const qp_word_gap gap = qp_word_gaps[low - 1];
        /* `more` is the distance of the last character of the range. */
        if (point - gap.low <= gap.more) {
            return gap.mark != 0 ? WORDS_MARK : WORDS_GAP;
        }
    }
    return WORDS_LETTER;
}

/* Lower case, without the accents of Latin letters: binary search in the table of folds. A run
 * covers `count` characters, each `apart` from the next: scripts alternate capital and small
 * letters. apart 0: one target for the whole run. */
static uint32_t words_fold(uint32_t point)
{
    size_t low = 0;
    size_t high = qp_word_folds_count;

    while (low < high) {
        size_t at = (low + high) / 2;
        if (point >= qp_word_folds[at].from) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    if (low > 0) {
        const qp_word_fold *run = &qp_word_folds[low - 1];
        const uint32_t way = point - run->from;
        if (run->apart == 0) {
            /* Between the letters of a run stand those that count as themselves: the small ones. */
            return way < run->count ? run->to : point;
        }
        if (way % run->apart == 0 && way / run->apart < run->count) {
            return run->to + way;
        }
    }
    return point;
}

/* The character at the reader's place: its length, what it is, and what it counts as. ASCII takes
 * no table: it is most of all text. Invalid UTF-8 ends a word and is skipped byte by byte. */
static size_t words_step(const qp_word_reader *reader, words_kind *ret_kind, uint32_t *ret_point)
{
    const unsigned char c = *reader->at;
    const unsigned char lower = (unsigned char)(c | 0x20); /* of a capital the small letter */
    uint32_t point = 0;
    size_t n = 1;

    assert(reader->at < reader->end);
    if (c < 0x80) {
        bool upper = c >= 'A' && c <= 'Z';
        *ret_kind =
            (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ? WORDS_LETTER : WORDS_GAP;
        *ret_point = upper ? lower : c;
        return n;
    }
    n = qp_utf8_step(reader->at, reader->end, &point);
    if (n == 0) {
        *ret_kind = WORDS_GAP;
        return 1;
    }
    /* The first byte settles most: U+1100 is E1 84 80. */
    if (reader->cjk && c >= 0xe1 && qp_word_is_cjk(point)) {
        *ret_kind = WORDS_CJK;
    } else {
        *ret_kind = words_kind_of(point);
    }
    *ret_point = words_fold(point);
    return n;
}

/* Starts at the beginning of the text, which is borrowed until the last word is read. Allocates
 * nothing. */
void qp_words_begin(qp_word_reader *reader, quipu_str text, bool cjk)
{
    assert(reader != NULL);
    reader->start = (const unsigned char *)text.p;
    /* A text of no bytes may have no address, to which nothing is added. */
    reader->at = reader->start;
    reader->end = text.n != 0 ? reader->start + text.n : reader->start;
    reader->cjk = cjk;
}

/* The next word, folded into the reader's buffer; bytes beyond QP_TOKEN_BYTES_MAX are cut. Marks
 * (accents that stand alone) belong to the word and are not in the folded form. start and end are
 * places in the original text: snippets need them. */
bool qp_words_next(qp_word_reader *reader, qp_word *ret)
{
    words_kind kind = WORDS_GAP;
    uint32_t point = 0;
    size_t step = 0;
    size_t n = 0;
    bool full = false;
    const unsigned char *start;

    assert(reader->at <= reader->end);
    while (reader->at < reader->end && kind != WORDS_LETTER && kind != WORDS_CJK) {
        reader->at += step;
        if (reader->at < reader->end) {
            step = words_step(reader, &kind, &point);
        }
        /* Leaves the loop at the first character of a word, not behind it. */
    }
    if (reader->at >= reader->end) {
        return false;
    }
    assert(kind == WORDS_LETTER || kind == WORDS_CJK);
    start = reader->at;
    if (kind == WORDS_CJK) {
        reader->at += step;
        *ret = (qp_word){{(const char *)start, step},
                         (size_t)(start - reader->start),
                         (size_t)(reader->at - reader->start)};
        return true;
    }
    /* Not folded: such characters have no case. The text is the original's own. */
    while (kind == WORDS_LETTER || kind == WORDS_MARK) {
        char bytes[4];
        size_t size = kind == WORDS_MARK ? 0 : qp_utf8_put(point, bytes);

        full = full || n + size > sizeof(reader->folded);
        if (!full) {
            memcpy(reader->folded + n, bytes, size);
            n += size;
        }
        reader->at += step;
        /* A word that is full stays full: a short character behind a long one would make another
         * word. */
        if (reader->at >= reader->end) {
            break;
        }
        step = words_step(reader, &kind, &point);
    }
    *ret = (qp_word){
        {reader->folded, n}, (size_t)(start - reader->start), (size_t)(reader->at - reader->start)};
    return true;
}

/* ---- queries ----------------------------------------------------------------------------------
 */

/* The length of the space at `p`, or 0: ASCII's, and the wide one that CJK keyboards type. Other
 * spaces of Unicode stay inside of a phrase, where the word reader skips them. */
static size_t words_space(const char *p, const char *end)
{
    assert(p < end);
    if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
        return 1;
    }
    return end - p >= 3 && p[0] == '\xe3' && p[1] == '\x80' && p[2] == '\x80' ? 3 : 0;
}

/* From behind an opening quote to behind the closing one; without one, the rest is the phrase.
 * There is no escape: no word contains a quote. */
static const char *words_quoted(const char *p, const char *end, qp_phrase *ret)
{
    const char *close = memchr(p, '"', (size_t)(end - p));
    const char *stop = close == NULL ? end : close;

    assert(p <= end && p[-1] == '"');
    ret->quoted = true;
    ret->prefix = close != NULL && close + 1 < end && close[1] == '*';
    ret->text = (quipu_str){p, (size_t)(stop - p)};
    return close == NULL ? end : close + (ret->prefix ? 2 : 1);
}

/* Never fails: a quote that is not closed extends to the end. A lone "*" is not a prefix (hence p -
 * start > 1): an empty prefix would match everything.
 *
 *   red "big car" whe*"x      red | big car | whe, prefix | x
 */
bool qp_phrase_next(const char **at, const char *end, qp_phrase *ret)
{
    const char *p = *at;
    const char *start;
    size_t space = 0;

    assert(*at <= end);
    while (p < end && (space = words_space(p, end)) != 0) {
        p += space;
    }
    if (p >= end) {
        *at = end;
        return false;
    }
    if (*p == '"') {
        *at = words_quoted(p + 1, end, ret);
        return true;
    }
    start = p;
    while (p < end && *p != '"' && words_space(p, end) == 0) {
        p++;
    }
    ret->quoted = false;
    ret->prefix = p - start > 1 && p[-1] == '*';
    ret->text = (quipu_str){start, (size_t)(p - start) - (ret->prefix ? 1 : 0)};
    *at = p;
    return true;
}

qp_operator qp_phrase_operator(const qp_phrase *phrase)
{
    if (phrase->quoted || phrase->prefix) {
        /* In quotes they are words like others, and with a star as well: `AND*`. */
        return QP_OPERATOR_NONE;
    }
    if (quipu_str_eq(phrase->text, QUIPU_STR("AND"))) {
        return QP_OPERATOR_AND;
    }
    if (quipu_str_eq(phrase->text, QUIPU_STR("OR"))) {
        return QP_OPERATOR_OR;
    }
    return quipu_str_eq(phrase->text, QUIPU_STR("NOT")) ? QP_OPERATOR_NOT : QP_OPERATOR_NONE;
}

void qp_query_begin(qp_query_reader *reader, quipu_str query)
{
    assert(query.p != NULL || query.n == 0);
    *reader = (qp_query_reader){.at = query.p, .end = query.p + query.n};
}

/* OR begins the next alternative when the current one has a part; NOT excludes the next part. */
bool qp_query_next(qp_query_reader *reader, qp_query_part *ret)
{
    bool excluded = false;
    qp_phrase phrase;

    while (qp_phrase_next(&reader->at, reader->end, &phrase)) {
        switch (qp_phrase_operator(&phrase)) {
        case QP_OPERATOR_NONE:
            reader->begun = true;
            *ret = (qp_query_part){phrase, reader->alternative, excluded};
            return true;
        case QP_OPERATOR_OR:
            /* OR at the beginning, or two of them, begin nothing. */
            reader->alternative += reader->begun ? 1 : 0;
            reader->begun = false;
            excluded = false;
            break;
        case QP_OPERATOR_NOT:
            excluded = true;
            break;
        case QP_OPERATOR_AND:
            break;
        }
    }
    return false;
}
