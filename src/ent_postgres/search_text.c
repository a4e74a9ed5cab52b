/* Words as PostgreSQL reads them: a binary tsvector for a row, tsqueries for a query.
 *
 * Owns: the encoding of both; the words themselves come from ent/words.h and ent/match.h.
 * Called by: search.c for rows, stmt.c (QP_WORDS) for queries. Words hold letters and digits only,
 * so that nothing has to be escaped.
 *
 * A row's words are collected in a hash table (open addressing, linear probing) with a linked list
 * of positions each, then written in the server's order. A literal costs the server several times
 * as much to read: character by character, and each position as a decimal number.
 * Locks: none; everything lies in the caller's arena. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "ent/match.h"
#include "ent_postgres/search.h"

#define SEARCH_TEXT_SLOTS_MIN 256
#define SEARCH_TEXT_WORD_COST 3  /* bytes of a tsvector: a word's, without its letters */
#define SEARCH_TEXT_PLACE_COST 2 /* and a position's */
#define SEARCH_TEXT_QUERY_MAX ((size_t)64 << 20)

/* One distinct word of the row. */
typedef struct search_text_word {
    uint64_t hash;
    size_t at;     /* of its letters in `letters` */
    const char *p; /* these letters, once all words are read */
    uint16_t n;
    uint16_t count; /* positions so far */
    uint16_t first; /* the first position, 0: none */
    uint16_t last;  /* the latest one: the list in row->next ends there */
} search_text_word;

/* The words of a row. Invariants: 2 * count <= slot_count, so that probing ends; slot_count is a
 * power of two; bytes <= QP_PG_WORDS_BYTES_MAX. */
typedef struct search_text_row {
    qp_buf letters;
    search_text_word *words; /* in the order in which they came */
    size_t count;
    uint32_t *slots; /* numbers of words from 1, by hash; a power of two of them */
    size_t slot_count;
    size_t bytes; /* taken so far */
    bool partial;
    uint16_t next[QP_PG_POSITION_MAX + 1]; /* the word's next position, by position */
} search_text_row;

/* ---- rows -------------------------------------------------------------------------------------
 */

/* Room for one more word, by doubling and rehashing. False: no memory; the row stays as it was. */
static bool search_text_grow(search_text_row *row)
{
    const size_t slots = row->slot_count == 0 ? SEARCH_TEXT_SLOTS_MIN : 2 * row->slot_count;
    search_text_word *words;
    uint32_t *table;

    if (2 * (row->count + 1) <= row->slot_count) {
        return true;
    }
    words = qp_realloc(row->words, slots / 2 * sizeof(*words));
    row->words = words != NULL ? words : row->words;
    table = qp_calloc(slots, sizeof(*table));
    if (words == NULL || table == NULL) {
        qp_free(table);
        return false;
    }
    for (size_t i = 0; i < row->count; i++) {
        size_t slot = words[i].hash & (slots - 1);
        while (table[slot] != 0) {
            slot = (slot + 1) & (slots - 1);
        }
        table[slot] = (uint32_t)i + 1;
    }
    assert(2 * (row->count + 1) <= slots);
    qp_free(row->slots);
    row->slots = table;
    row->slot_count = slots;
    return true;
}

/* The word's entry, a new one when it fits into the tsvector; NULL: it does not. */
static search_text_word *search_text_find(search_text_row *row, quipu_str text)
{
    const uint64_t hash = qp_hash64(text, 0);
    size_t slot = hash & (row->slot_count - 1);

    assert(row->slot_count >= 2 * (row->count + 1));
    assert(text.n <= UINT16_MAX);
    for (; row->slots[slot] != 0; slot = (slot + 1) & (row->slot_count - 1)) {
        search_text_word *word = &row->words[row->slots[slot] - 1];
        if (word->hash == hash && word->n == text.n &&
            memcmp(qp_buf_str(&row->letters).p + word->at, text.p, text.n) == 0) {
            return word;
        }
    }
    if (row->bytes + text.n + SEARCH_TEXT_WORD_COST > QP_PG_WORDS_BYTES_MAX) {
        return NULL;
    }
    row->bytes += text.n + SEARCH_TEXT_WORD_COST;
    row->words[row->count] =
        (search_text_word){.hash = hash, .at = row->letters.n, .n = (uint16_t)text.n};
    qp_buf_put(&row->letters, text);
    row->slots[slot] = (uint32_t)row->count + 1;
    return &row->words[row->count++];
}

/* Appends a position to the word's list. A position that does not fit makes the row partial. */
static void search_text_place(search_text_row *row, search_text_word *word, size_t position)
{
    assert(position >= 1);
    if (word == NULL || position > QP_PG_POSITION_MAX || word->count == QP_PG_WORD_POSITIONS_MAX ||
        row->bytes + SEARCH_TEXT_PLACE_COST > QP_PG_WORDS_BYTES_MAX) {
        row->partial = true;
        return;
    }
    row->bytes += SEARCH_TEXT_PLACE_COST;
    row->next[position] = 0;
    if (word->count++ == 0) {
        word->first = (uint16_t)position;
    } else {
        row->next[word->last] = (uint16_t)position;
    }
    word->last = (uint16_t)position;
}

/* The server's order of the words of a tsvector: by bytes, a beginning first. */
static int search_text_compare(const void *a, const void *b)
{
    const search_text_word *one = a;
    const search_text_word *other = b;

    return qp_str_cmp((quipu_str){one->p, one->n}, (quipu_str){other->p, other->n});
}

/* An int2 in network byte order. */
static void search_text_int2(qp_buf *out, unsigned number)
{
    assert(number <= UINT16_MAX);
    qp_buf_putc(out, (char)(unsigned char)(number >> 8));
    qp_buf_putc(out, (char)(unsigned char)(number & 0xff));
}

/* The tsvector in its binary format:
 *
 *   int4 count   then for each word: letters, NUL, int2 count of positions, int2 each
 *
 * The words are in order: what the server stores is then, byte by byte, what it stores for a
 * literal, so that a check may compare it with rows of older programs. */
static void search_text_write(search_text_row *row, qp_buf *out)
{
    assert(out != NULL && row->count <= QP_PG_WORDS_BYTES_MAX);
    for (size_t i = 0; i < row->count; i++) {
        row->words[i].p = qp_buf_str(&row->letters).p + row->words[i].at;
    }
    if (row->count > 1) {
        qsort(row->words, row->count, sizeof(*row->words), search_text_compare);
    }
    search_text_int2(out, (unsigned)(row->count >> 16));
    search_text_int2(out, (unsigned)(row->count & UINT16_MAX));
    for (size_t i = 0; i < row->count; i++) {
        const search_text_word *word = &row->words[i];

        qp_buf_put(out, (quipu_str){word->p, word->n});
        qp_buf_putc(out, '\0');
        search_text_int2(out, word->count);
        for (unsigned at = word->first; at != 0; at = row->next[at]) {
            search_text_int2(out, at);
        }
    }
}

/* Cuts the texts into words. One position is left out between two texts, so that a phrase does not
 * match across them. */
static quipu_status search_text_read(search_text_row *row, const quipu_str *texts, size_t n)
{
    size_t position = 0;

    assert(texts != NULL || n == 0);
    for (size_t i = 0; i < n; i++) {
        qp_word_reader reader;
        qp_word word;

        qp_words_begin(&reader, texts[i], true);
        while (qp_words_next(&reader, &word)) {
            if (!search_text_grow(row)) {
                return QUIPU_NOMEM;
            }
            search_text_place(row, search_text_find(row, word.text), ++position);
        }
        position++;
    }
    return qp_buf_status(&row->letters);
}

/* Allocated on the heap: the position list alone takes 32 KiB. */
quipu_status qp_pg_put_words(const quipu_str *texts, size_t n, qp_buf *out, bool *ret_partial)
{
    search_text_row *row = qp_calloc(1, sizeof(*row));
    quipu_status status;

    assert(out != NULL && ret_partial != NULL);
    if (row == NULL) {
        return QUIPU_NOMEM;
    }
    qp_buf_init(&row->letters, QP_PG_WORDS_BYTES_MAX);
    status = search_text_read(row, texts, n);
    if (status == QUIPU_OK) {
        search_text_write(row, out);
        *ret_partial = row->partial;
        status = qp_buf_status(out);
    }
    qp_buf_free(&row->letters);
    qp_free(row->words);
    qp_free(row->slots);
    qp_free(row);
    return status;
}

/* ---- queries ----------------------------------------------------------------------------------
 */

/* The words of a phrase joined by <-> (adjacent) or, loosely, by &. */
static void search_text_words(const qp_match_query *query, qp_match_span words, bool prefix,
                              bool loose, qp_buf *out)
{
    for (size_t i = 0; i < words.count; i++) {
        qp_buf_puts(out, i == 0 ? "" : loose ? "&" : "<->");
        qp_buf_putc(out, '\'');
        qp_buf_put(out, query->words[words.first + i]);
        qp_buf_puts(out, prefix && i + 1 == words.count ? "':*" : "'");
    }
}

/* A phrase in one of its spellings. */
static void search_text_phrase(const qp_match_query *query, const qp_match_phrase *phrase,
                               bool loose, qp_buf *out)
{
    const qp_match_span words = {phrase->first, phrase->count};

    qp_buf_puts(out, phrase->other_count > 0 ? "(" : "");
    search_text_words(query, words, phrase->prefix, loose, out);
    for (size_t i = 0; i < phrase->other_count; i++) {
        qp_buf_putc(out, '|');
        search_text_words(query, phrase->others[i], phrase->prefix, loose, out);
    }
    qp_buf_puts(out, phrase->other_count > 0 ? ")" : "");
}

/* The phrases of one alternative, from number `first` on, joined by &; returns the number of the
 * next alternative's first phrase. Exclusions are left out here, because only the text shows
 * whether a partly indexed row lacks a phrase. */
static size_t search_text_alternative(const qp_match_query *query, size_t first, bool loose,
                                      qp_buf *out)
{
    const size_t alternative = query->phrases[first].alternative;
    const size_t start = out->n;
    size_t wanted = 0;
    size_t i = first;

    for (; i < query->phrase_count && query->phrases[i].alternative == alternative; i++) {
        const qp_match_phrase *phrase = &query->phrases[i];

        if (phrase->excluded && loose) {
            continue;
        }
        qp_buf_puts(out, out->n > start ? "&" : start > 0 ? "|" : "");
        qp_buf_puts(out, phrase->excluded ? "!(" : "");
        search_text_phrase(query, phrase, loose, out);
        qp_buf_puts(out, phrase->excluded ? ")" : "");
        wanted += phrase->excluded ? 0 : 1;
    }
    if (wanted == 0) {
        qp_buf_cut(out, start); /* it matches nothing */
    }
    return i;
}

/* All alternatives joined by |, which binds weaker than &. */
static void search_text_query(const qp_match_query *query, bool loose, qp_buf *out)
{
    assert(out != NULL && out->n == 0);
    for (size_t i = 0; i < query->phrase_count;) {
        i = search_text_alternative(query, i, loose, out);
    }
}

/* Two tsqueries as a text array: strict with phrases, loose without. See search_put_hits(). */
quipu_status qp_pg_encode_words(quipu_str words, qp_buf *buf, Oid *ret_type)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_match_query query;
    quipu_str texts[2];
    const qp_list_operand list = {.items = texts, .n = 2, .kind = QP_TEXT};
    qp_buf strict;
    qp_buf loose;
    quipu_status status = qp_match_query_make(&arena, words, true, &query, NULL);

    assert(ret_type != NULL);
    qp_buf_init(&strict, SEARCH_TEXT_QUERY_MAX);
    qp_buf_init(&loose, SEARCH_TEXT_QUERY_MAX);
    if (status == QUIPU_OK) {
        search_text_query(&query, false, &strict);
        search_text_query(&query, true, &loose);
        status =
            qp_buf_status(&strict) != QUIPU_OK ? qp_buf_status(&strict) : qp_buf_status(&loose);
    }
    if (status == QUIPU_OK) {
        texts[0] = qp_buf_str(&strict);
        texts[1] = qp_buf_str(&loose);
        status = qp_pg_encode_list(&list, buf, ret_type);
    }
    qp_buf_free(&strict);
    qp_buf_free(&loose);
    quipu_arena_free(&arena);
    return status;
}
