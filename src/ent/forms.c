/* The spellings of a text. See forms.h.
 *
 * Owns: nothing. Called by: match.c and the engines for queries, search.c for the texts of hits.
 *
 *   text      spellings                  words of each
 *   red       red                        red
 *   café      café                       cafe            (Form D has the same word)
 *   한        한 | U+1112 U+1161 U+11AB   한 | three
 *
 * Locks: none; spellings lie in the caller's arena. */
#include "ent/forms.h"

#include <assert.h>

#include "base/buf.h"
#include "ent/nfc.h"
#include "ent/words.h"

bool qp_forms_is_ascii(quipu_str text)
{
    size_t at = 0;

    while (at < text.n && (unsigned char)text.p[at] < 0x80) {
        at++;
    }
    return at == text.n;
}

/* Whether two texts are cut into the same words. */
static bool forms_same(quipu_str a, quipu_str b)
{
    qp_word_reader readers[2];
    qp_word words[2];
    bool has[2];

    qp_words_begin(&readers[0], a, true);
    qp_words_begin(&readers[1], b, true);
    do {
        has[0] = qp_words_next(&readers[0], &words[0]);
        has[1] = qp_words_next(&readers[1], &words[1]);
    } while (has[0] && has[1] && quipu_str_eq(words[0].text, words[1].text));
    return !has[0] && !has[1];
}

/* A text as `put` writes it. */
static bool forms_make(quipu_arena *arena, quipu_str text, void (*put)(quipu_str text, qp_buf *ret),
                       quipu_str *ret)
{
    qp_buf buf;
    bool made;

    qp_buf_init(&buf, QP_FORMS_GROWTH * text.n + 1);
    put(text, &buf);
    made = qp_buf_status(&buf) == QUIPU_OK &&
           quipu_arena_copy(arena, qp_buf_str(&buf), ret) == QUIPU_OK;
    qp_buf_free(&buf);
    return made;
}

bool qp_forms_c(quipu_arena *arena, quipu_str text, quipu_str *ret)
{
    assert(ret != NULL);
    return qp_nfc_is(text) ? quipu_arena_copy(arena, text, ret) == QUIPU_OK
                           : forms_make(arena, text, qp_nfc_put, ret);
}

size_t qp_forms_of(quipu_arena *arena, quipu_str text, quipu_str ret[QP_FORMS_MAX])
{
    quipu_str decomposed;
    size_t n = 0;

    if (qp_forms_is_ascii(text)) {
        ret[0] = text;
        return 1;
    }
    if (!qp_forms_c(arena, text, &ret[n++]) || !forms_make(arena, text, qp_nfd_put, &decomposed)) {
        return 0;
    }
    if (!forms_same(ret[0], decomposed)) {
        ret[n++] = decomposed;
    }
    if (!forms_same(ret[0], text) && !forms_same(decomposed, text)) {
        ret[n++] = text;
    }
    assert(n <= QP_FORMS_MAX);
    return n;
}
