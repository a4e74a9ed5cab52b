/* From what a user types to an FTS5 expression. */
#include <string.h>

#include "ent_sqlite/search.h"

/* The length of the space at `p`, or 0: ASCII's, and the wide one that CJK keyboards type. */
static size_t search_words_space(const char *p, const char *end)
{
    if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
        return 1;
    }
    return end - p >= 3 && p[0] == '\xe3' && p[1] == '\x80' && p[2] == '\x80' ? 3 : 0;
}

static void search_words_put(qp_buf *ret, const char *p, size_t n, bool prefix)
{
    if (n == 0) {
        return;
    }
    qp_buf_putc(ret, '"');
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"') {
            qp_buf_putc(ret, '"');
        }
        qp_buf_putc(ret, p[i]);
    }
    qp_buf_puts(ret, prefix ? "\"* " : "\" ");
}

/* From behind an opening quote to behind the closing one; without one, the rest is the phrase. */
static const char *search_words_phrase(const char *p, const char *end, qp_buf *ret)
{
    const char *close = memchr(p, '"', (size_t)(end - p));
    const char *stop = close == NULL ? end : close;
    bool prefix = close != NULL && close + 1 < end && close[1] == '*';

    search_words_put(ret, p, (size_t)(stop - p), prefix);
    return close == NULL ? end : close + (prefix ? 2 : 1);
}

void qp_sqlite_words(quipu_str words, qp_buf *ret)
{
    const char *at = words.p;
    const char *end = words.p + words.n;
    size_t empty = ret->n;

    while (at < end) {
        const char *start = at;
        size_t space = search_words_space(at, end);

        if (space != 0) {
            at += space;
            continue;
        }
        if (*at == '"') {
            at = search_words_phrase(at + 1, end, ret);
            continue;
        }
        while (at < end && *at != '"' && search_words_space(at, end) == 0) {
            at++;
        }
        bool prefix = at - start > 1 && at[-1] == '*';
        search_words_put(ret, start, (size_t)(at - start) - (prefix ? 1 : 0), prefix);
    }
    if (ret->n == empty) {
        qp_buf_puts(ret, "\"\""); /* no words match nothing; an empty text would be an error */
    }
}
