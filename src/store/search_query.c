/* Reading filters out of a search: search_query.h.
 *
 * Owns the grammar of `author:`, `role:`, `after:` and `before:`. Called by search_find.c before
 * any connection is taken: pure, without a lock, and where a query is refused. */
#include "store/search_query.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "ent/words.h"

#define SEARCH_QUERY_SHOWN 64 /* bytes of a filter that an error shows */
#define SEARCH_QUERY_DAY 10   /* bytes of "2026-03-01" */
#define SEARCH_QUERY_TIME 64  /* bytes of a time at most, with its NUL */

typedef struct search_query_filter search_query_filter;

/* Fills in the condition; false: the value is wrong. */
typedef bool (*search_query_fn)(quipu_str value, qp_message_where *ret);

struct search_query_filter {
    quipu_str name;       /* with its colon */
    search_query_fn read; /* into a condition of the query */
    const char *values;   /* for an error */
    bool excludes;        /* may follow NOT */
};

/* One filter of the query under way; `whole` and `value` point into the query's clean text. */
typedef struct search_query_found {
    const search_query_filter *filter;
    quipu_str whole; /* as it was typed */
    quipu_str value;
} search_query_found;

/* ---- values -----------------------------------------------------------------------------------
 */

/* Filters of a query, "name:value": each sets its condition and returns whether the value is one. A
 * wrong value fails the search. */
static bool search_query_author(quipu_str value, qp_message_where *ret)
{
    ret->author = ent_eq(value);
    return value.n > 0;
}

/* Roles have the names of the JSON form. Another name is an error, and is not searched as a
 * word. */
static bool search_query_role(quipu_str value, qp_message_where *ret)
{
    const qp_message_role role = qp_message_role_parse(value);

    if ((int)role != 0) {
        ret->role = qp_message_role_is(role);
    }
    return (int)role != 0;
}

/* A day in UTC, or a time that begins with one: a bare number would be seconds since 1970. */
static bool search_query_time(quipu_str value, quipu_time *ret_time)
{
    char text[SEARCH_QUERY_TIME];

    if (value.n < SEARCH_QUERY_DAY || value.n + sizeof(" 00:00:00") > sizeof(text) ||
        value.p[4] != '-' || value.p[7] != '-') {
        return false;
    }
    memcpy(text, value.p, value.n);
    memcpy(text + value.n, " 00:00:00", sizeof(" 00:00:00"));
    if (value.n > SEARCH_QUERY_DAY) {
        text[value.n] = '\0';
    }
    return quipu_time_parse(quipu_cstr(text), ret_time) == QUIPU_OK;
}

/* From that moment on: a day begins at its midnight in UTC. */
static bool search_query_after(quipu_str value, qp_message_where *ret)
{
    quipu_time time = {0};
    const bool valid = search_query_time(value, &time);

    ret->timestamp = ent_ge(time);
    return valid;
}

/* Up to that moment, without it. */
static bool search_query_before(quipu_str value, qp_message_where *ret)
{
    quipu_time time = {0};
    const bool valid = search_query_time(value, &time);

    ret->timestamp = ent_lt(time);
    return valid;
}

/* All filters. A new one is a line here, with a function that reads its value. Two filters never
 * share the beginning of a name, since the first that fits is taken. */
static const search_query_filter search_query_filters[] = {
    {{"author:", 7}, search_query_author, "a name, in quotes when it has spaces", true},
    {{"role:", 5}, search_query_role, "user, assistant, tool, function, model or system", true},
    {{"after:", 6}, search_query_after, "a day or a time, such as 2026-03-01", false},
    {{"before:", 7}, search_query_before, "a day or a time, such as 2026-03-01", false},
};

/* ---- the query --------------------------------------------------------------------------------
 */

/* Fails with the filter and what is wrong with it. The text is the searcher's own; it is cut at a
 * character, since a query may be long, and quotes around it are the way to search it as words. */
static quipu_status search_query_invalid(const search_query_found *found, const char *why,
                                         const char *what, quipu_error *reterr)
{
    const bool cut = found->whole.n > SEARCH_QUERY_SHOWN;
    const size_t n = cut ? qp_utf8_cut(found->whole, SEARCH_QUERY_SHOWN) : found->whole.n;

    return qp_error_set(reterr, QUIPU_INVALID, "%.*s%s: %s%s; put it in quotes to search its words",
                        (int)n, found->whole.p, cut ? "\xe2\x80\xa6" : "", why, what);
}

/* Copies the text with a space for each byte that is not text: a space parts words just as well. It
 * keeps its length. */
static void search_query_clean(quipu_str text, char *ret_clean)
{
    size_t at = 0;

    while (at < text.n) {
        const unsigned char *p = (const unsigned char *)text.p + at;
        uint32_t point = 0;
        const size_t n = qp_utf8_step(p, (const unsigned char *)text.p + text.n, &point);

        if (n == 0 || point == 0) {
            ret_clean[at++] = ' ';
        } else {
            memcpy(ret_clean + at, p, n);
            at += n;
        }
    }
    assert(at == text.n);
}

/* Whether a part is a filter. Its value ends where the part does; one that begins with a quote is
 * the next part. *at moves behind it. */
static bool search_query_find(const qp_phrase *phrase, const char **at, const char *end,
                              search_query_found *ret)
{
    const size_t count = sizeof(search_query_filters) / sizeof(search_query_filters[0]);
    const char *start = phrase->text.p;
    qp_phrase quoted;

    assert(*at <= end);
    for (size_t i = 0; i < count && !phrase->quoted; i++) {
        const quipu_str name = search_query_filters[i].name;

        if (phrase->text.n < name.n || memcmp(start, name.p, name.n) != 0) {
            continue;
        }
        ret->filter = &search_query_filters[i];
        ret->value = (quipu_str){start + name.n, (size_t)(*at - start) - name.n};
        if (ret->value.n == 0 && *at < end && **at == '"' && qp_phrase_next(at, end, &quoted)) {
            ret->value = quoted.text;
        }
        ret->whole = (quipu_str){start, (size_t)(*at - start)};
        return true;
    }
    return false;
}

/* Adds a filter to the query, and puts spaces where it stood. Wanted ones lie at the front of the
 * array, excluded ones at its end: each kind is one list for a condition. */
static quipu_status search_query_add(qp_search_query *query, const search_query_found *found,
                                     bool excluded, quipu_error *reterr)
{
    qp_message_where where = {0};

    assert(found != NULL && query != NULL);
    if (!found->filter->read(found->value, &where)) {
        return search_query_invalid(found, "the filter needs ", found->filter->values, reterr);
    }
    if (excluded && !found->filter->excludes) {
        return search_query_invalid(
            found, "NOT does not go with it; use ",
            found->filter->read == search_query_after ? "before:" : "after:", reterr);
    }
    if (query->wanted_count + query->excluded_count == QP_SEARCH_FILTERS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a search takes at most %d filters",
                            QP_SEARCH_FILTERS_MAX);
    }
    if (excluded) {
        query->filters[QP_SEARCH_FILTERS_MAX - ++query->excluded_count] = where;
    } else {
        query->filters[query->wanted_count++] = where;
    }
    memset(query->text + (found->whole.p - query->clean), ' ', found->whole.n);
    return QUIPU_OK;
}

/* Whether there is a word to look for. Filters alone would list the whole scope, which is what
 * quipu_session_get() and lists are for; an error says so instead of an empty page. */
static bool search_query_has_words(quipu_str words)
{
    qp_query_reader parts;
    qp_query_part part;
    bool found = false;

    qp_query_begin(&parts, words);
    while (!found && qp_query_next(&parts, &part)) {
        qp_word_reader reader;
        qp_word word;

        qp_words_begin(&reader, part.phrase.text, true);
        found = !part.excluded && qp_words_next(&reader, &word);
    }
    return found;
}

/* A filter is an operand of NOT only: it holds for the whole query and cannot be an alternative.
 * Its text is replaced by spaces of the same length, so that places in the query stay as they were
 * typed, and the words around a filter stay apart. */
quipu_status qp_search_query_read(qp_search_query *query, quipu_str text, quipu_error *reterr)
{
    const char *at = query->clean;
    const char *end = query->clean + text.n;
    search_query_found found = {.filter = NULL};
    qp_operator before = QP_OPERATOR_NONE;
    size_t place = 0; /* of the operator before */
    bool filter_before = false;
    qp_phrase phrase;
    quipu_status status = QUIPU_OK;

    assert(text.n <= QUIPU_SEARCH_QUERY_MAX);
    search_query_clean(text, query->clean);
    memcpy(query->text, query->clean, text.n);
    query->words = (quipu_str){query->text, text.n};
    query->wanted_count = 0;
    query->excluded_count = 0;
    while (status == QUIPU_OK && qp_phrase_next(&at, end, &phrase)) {
        const qp_operator op = qp_phrase_operator(&phrase);

        if (search_query_find(&phrase, &at, end, &found)) {
            /* The operator goes with its operand: left alone it would exclude the next word. */
            if (before == QP_OPERATOR_NOT) {
                memset(query->text + place, ' ', sizeof("NOT") - 1);
            }
            status = before == QP_OPERATOR_OR
                         ? search_query_invalid(&found, "a filter holds for the whole query",
                                                ", it cannot follow OR", reterr)
                         : search_query_add(query, &found, before == QP_OPERATOR_NOT, reterr);
            filter_before = true;
        } else if (op == QP_OPERATOR_OR && filter_before) {
            status = search_query_invalid(&found, "a filter holds for the whole query",
                                          ", OR cannot follow it", reterr);
        } else {
            filter_before = false;
        }
        before = op;
        place = (size_t)(phrase.text.p - query->clean);
    }
    if (status == QUIPU_OK && found.filter != NULL && !search_query_has_words(query->words)) {
        status =
            search_query_invalid(&found, "a filter needs a word to look for", " beside it", reterr);
    }
    return status;
}
