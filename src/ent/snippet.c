/* The snippet of a match: the passage around the place where most of the query is close together.
 * Bounded in bytes, never splits a character, and stops reading as soon as nothing better can come.
 * Called by search.c with the texts of one row; allocates from the caller's scratch arena.
 *
 *   ... w9 | w10 w11 w12 w13 w14 w15 [w16] w17 [w18 w19] ... w41 | w42 ...
 *            └─ SNIPPET_LEAD words ─┘  └ the chosen place      └ SNIPPET_WORDS in all
 *
 * Two readings: the first finds where phrases begin and chooses the place, the second marks every
 * match of the chosen window. Words are counted within their text, from 0.
 * Owns: the choice. Locks: none; nothing is kept between rows. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/match.h"

#define SNIPPET_WORDS 32 /* of a window */
#define SNIPPET_LEAD 6   /* words before the first match */
#define SNIPPET_REACH (SNIPPET_WORDS - SNIPPET_LEAD)
#define SNIPPET_MATCHES 1024                /* that are looked at to choose the window */
#define SNIPPET_SIZE_MAX ((size_t)16 << 20) /* with its marks */
#define SNIPPET_MORE "\xe2\x80\xa6"         /* an ellipsis */

static_assert(SNIPPET_LEAD < SNIPPET_WORDS, "the match itself is in its window");

/* A place where a phrase begins. */
typedef struct snippet_place {
    size_t text;
    size_t word;
    size_t phrase;
} snippet_place;

typedef struct snippet_search {
    const qp_match_query *query;
    qp_matcher matcher;
    size_t places;
    snippet_place found[SNIPPET_MATCHES];
    snippet_place *last; /* of each phrase that was seen */
    bool *seen;          /* which phrases were */
    bool holds;          /* what was seen meets the query */
} snippet_search;

typedef struct snippet_span {
    size_t start;
    size_t end;
} snippet_span;

typedef struct snippet_window {
    size_t text;
    size_t first; /* number of its first word */
    size_t count; /* of words in it */
    bool more;    /* words follow it */
    snippet_span words[SNIPPET_WORDS];
    bool marked[SNIPPET_WORDS];
    bool joined[SNIPPET_WORDS]; /* with the next word, by one match */
} snippet_window;

/* ---- choosing the window ----------------------------------------------------------------------
 */

/* Whether the last places of all wanted phrases of an alternative lie within one window: there is
 * nothing better. */
static bool snippet_together(const snippet_search *search, size_t text)
{
    const qp_match_query *query = search->query;
    size_t i = 0;

    while (i < query->phrase_count) {
        const size_t alternative = query->phrases[i].alternative;
        size_t low = SIZE_MAX;
        size_t high = 0;
        bool here = true;

        for (; i < query->phrase_count && query->phrases[i].alternative == alternative; i++) {
            const snippet_place *last = &search->last[i];

            if (query->phrases[i].excluded) {
                continue;
            }
            here = here && search->seen[i] && last->text == text;
            low = last->word < low ? last->word : low;
            high = last->word > high ? last->word : high;
        }
        if (here && low != SIZE_MAX && high < low + SNIPPET_REACH) {
            return true;
        }
    }
    return false;
}

/* Notes the wanted phrases that end at the current word; returns whether any does. Beyond
 * SNIPPET_MATCHES places are only counted as seen: a text that repeats one word must not take
 * memory for each. */
static bool snippet_note(snippet_search *search, size_t text)
{
    bool any = false;

    assert(search->places <= SNIPPET_MATCHES);
    for (size_t i = 0; i < search->query->phrase_count; i++) {
        const qp_match_phrase *phrase = &search->query->phrases[i];
        snippet_place place = {text, search->matcher.at + 1 - phrase->count, i};

        if (phrase->excluded || !qp_matcher_ends(&search->matcher, phrase)) {
            continue;
        }
        any = true;
        if (search->places < SNIPPET_MATCHES) {
            search->found[search->places++] = place;
        }
        search->last[i] = place;
        if (!search->seen[i]) {
            search->seen[i] = true;
            search->holds = qp_match_holds(search->query, search->seen);
        }
    }
    return any;
}

/* Reads texts until the whole query was seen close together, or to the end. */
static void snippet_find(snippet_search *search, const quipu_str *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        qp_matcher_begin(&search->matcher, texts[i]);
        while (qp_matcher_next(&search->matcher)) {
            if (snippet_note(search, i) && search->holds &&
                (search->places == SNIPPET_MATCHES || snippet_together(search, i))) {
                return;
            }
        }
    }
}

/* For qsort(): by text, then by place. */
static int snippet_compare(const void *left, const void *right)
{
    const snippet_place *l = left;
    const snippet_place *r = right;

    if (l->text != r->text) {
        return l->text < r->text ? -1 : 1;
    }
    if (l->word != r->word) {
        return l->word < r->word ? -1 : 1;
    }
    return (l->phrase > r->phrase) - (l->phrase < r->phrase);
}

/* How many different phrases begin within a window that begins with place `at`. 64 bits distinguish
 * phrases; in longer queries some share a bit, which only makes the choice less sharp. */
static int snippet_score(const snippet_search *search, size_t at)
{
    const snippet_place *first = &search->found[at];
    uint64_t seen = 0;
    int score = 0;

    assert(at < search->places);
    for (size_t i = at; i < search->places && i < at + SNIPPET_WORDS; i++) {
        const snippet_place *place = &search->found[i];
        if (place->text != first->text || place->word >= first->word + SNIPPET_REACH) {
            break;
        }
        score += (seen >> (place->phrase & 63) & 1) == 0 ? 1 : 0;
        seen |= UINT64_C(1) << (place->phrase & 63);
    }
    return score;
}

/* The first of the best windows. Phrases are noted where they end, so that places have to be sorted
 * by where they begin. */
static void snippet_choose(snippet_search *search, snippet_window *ret)
{
    size_t best = 0;
    int best_score = -1;

    assert(search->places > 0);
    qsort(search->found, search->places, sizeof(search->found[0]), snippet_compare);
    for (size_t i = 0; i < search->places; i++) {
        int score = snippet_score(search, i);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    const snippet_place *place = &search->found[best];
    ret->text = place->text;
    ret->first = place->word > SNIPPET_LEAD ? place->word - SNIPPET_LEAD : 0;
}

/* ---- the window -------------------------------------------------------------------------------
 */

/* A phrase of `count` words ends at word number `last`. */
static void snippet_mark(snippet_window *window, size_t last, size_t count)
{
    assert(count >= 1 && last + 1 >= count);
    for (size_t word = last + 1 - count; word <= last; word++) {
        if (word >= window->first && word < window->first + SNIPPET_WORDS) {
            window->marked[word - window->first] = true;
            window->joined[word - window->first] |= word < last;
        }
    }
}

/* Marks every match inside of the window. */
static void snippet_read(snippet_search *search, quipu_str text, snippet_window *window)
{
    const qp_match_query *query = search->query;
    qp_matcher *matcher = &search->matcher;
    /* A phrase that begins in the window may end behind it. */
    const size_t end = window->first + SNIPPET_WORDS + query->longest;

    assert(window->count == 0);
    qp_matcher_begin(matcher, text);
    while (qp_matcher_next(matcher) && matcher->at < end) {
        if (matcher->at >= window->first + SNIPPET_WORDS) {
            window->more = true;
        } else if (matcher->at >= window->first) {
            window->words[window->count++] = (snippet_span){matcher->word.start, matcher->word.end};
        }
        for (size_t i = 0; i < query->phrase_count; i++) {
            if (!query->phrases[i].excluded && qp_matcher_ends(matcher, &query->phrases[i])) {
                snippet_mark(window, matcher->at, query->phrases[i].count);
            }
        }
    }
}

/* Which bytes to show: the window, or, when that is too long, a part that begins shortly before the
 * first match. Neither end splits a character. */
static snippet_span snippet_bounds(const snippet_window *window, quipu_str text, size_t size_max)
{
    snippet_span span = {window->first > 0 ? window->words[0].start : 0,
                         window->more ? window->words[window->count - 1].end : text.n};
    size_t match = 0;

    assert(window->count > 0);
    while (match + 1 < window->count && !window->marked[match]) {
        match++;
    }
    if (span.end - span.start > size_max) {
        const size_t lead = size_max / 4;
        if (window->words[match].start > span.start + lead) {
            span.start = qp_utf8_cut(text, window->words[match].start - lead);
        }
        if (span.end - span.start > size_max) {
            span.end = qp_utf8_cut(text, span.start + size_max);
        }
    }
    assert(span.start <= span.end && span.end <= text.n);
    return span;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

/* A part of the text as it is. */
static void snippet_part(qp_buf *out, quipu_str text, size_t from, size_t to)
{
    assert(from <= to && to <= text.n);
    qp_buf_put(out, (quipu_str){text.p + from, to - from});
}

/* The matches of the window between their marks, those that touch or overlap as one. A match that
 * the bounds cut is marked as far as it is shown. */
static void snippet_write(const snippet_window *window, quipu_str text, snippet_span shown,
                          const ent_marks *marks, qp_buf *out)
{
    size_t at = shown.start;

    assert(shown.start <= shown.end && shown.end <= text.n);
    for (size_t i = 0; i < window->count; i++) {
        size_t start = window->words[i].start > at ? window->words[i].start : at;
        size_t end;

        if (!window->marked[i]) {
            continue;
        }
        while (i + 1 < window->count && window->marked[i + 1] &&
               (window->joined[i] || window->words[i].end == window->words[i + 1].start)) {
            i++;
        }
        end = window->words[i].end < shown.end ? window->words[i].end : shown.end;
        if (start < end) {
            snippet_part(out, text, at, start);
            qp_buf_put(out, marks->before);
            snippet_part(out, text, start, end);
            qp_buf_put(out, marks->after);
            at = end;
        }
    }
    snippet_part(out, text, at, shown.end);
}

/* The window as text, with ellipses where it was cut. */
static quipu_status snippet_made(const snippet_window *window, quipu_str text,
                                 const ent_marks *marks, quipu_arena *arena, quipu_str *ret)
{
    const snippet_span shown = snippet_bounds(window, text, (size_t)marks->bytes);
    quipu_status status;
    qp_buf out;

    qp_buf_init(&out, SNIPPET_SIZE_MAX);
    qp_buf_puts(&out, shown.start > 0 ? SNIPPET_MORE : "");
    snippet_write(window, text, shown, marks, &out);
    qp_buf_puts(&out, shown.end < text.n ? SNIPPET_MORE : "");
    status = qp_buf_status(&out);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&out), ret);
    }
    qp_buf_free(&out);
    return status;
}

/* Texts that lack a phrase give an empty snippet: the row has changed since it was found. The
 * search struct has 24 KiB of places and is kept off the caller's stack. */
quipu_status qp_match_snippet(quipu_arena *arena, const qp_match_query *query,
                              const quipu_str *texts, size_t n, const ent_marks *marks,
                              quipu_str *ret_snippet, quipu_error *reterr)
{
    const size_t last_size = (query->phrase_count + 1) * sizeof(snippet_place);
    snippet_search *search = qp_arena_take(arena, sizeof(*search));
    snippet_window window = {.count = 0};
    quipu_str snippet = {"", 0};
    quipu_status status = QUIPU_OK;

    if (search != NULL) {
        *search = (snippet_search){.query = query};
        search->last = qp_arena_take(arena, last_size);
        search->seen = qp_arena_take(arena, query->phrase_count + 1);
    }
    if (search == NULL || search->last == NULL || search->seen == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a snippet");
    }
    memset(search->last, 0, last_size);
    memset(search->seen, 0, query->phrase_count + 1);
    status = qp_matcher_make(arena, query, &search->matcher, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    snippet_find(search, texts, n);
    if (search->holds && search->places > 0) {
        snippet_choose(search, &window);
        snippet_read(search, texts[window.text], &window);
        assert(window.count > 0);
        status = snippet_made(&window, texts[window.text], marks, arena, &snippet);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "a snippet cannot be made: out of memory, or too long");
    }
    *ret_snippet = snippet;
    return QUIPU_OK;
}
