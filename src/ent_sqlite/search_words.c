/* From what a user types to an FTS5 expression. */
#include "ent/words.h"
#include "ent_sqlite/search.h"

void qp_sqlite_words(quipu_str words, qp_buf *ret)
{
    const char *at = words.p;
    const char *end = words.p + words.n;
    const size_t empty = ret->n;
    qp_phrase phrase;

    while (qp_phrase_next(&at, end, &phrase)) {
        if (phrase.text.n == 0) {
            continue;
        }
        qp_buf_putc(ret, '"');
        qp_buf_put(ret, phrase.text); /* it holds no quote: that would have ended it */
        qp_buf_puts(ret, phrase.prefix ? "\"* " : "\" ");
    }
    if (ret->n == empty) {
        qp_buf_puts(ret, "\"\""); /* no words match nothing; an empty text would be an error */
    }
}
