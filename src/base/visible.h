/* The visible characters of a text: which ones look like nothing, or like a blank.
 *
 * Texts of memory come from anybody, and stand between lines that quipu writes itself. So a prompt
 * has each of them in one line (qp_visible_put()), and two that look alike count as the same one
 * (qp_visible_kind()). The lists are closed: hashes are stored, and must not depend on tables that
 * a later version of Unicode extends. Pure. Called by: the store's memory_put.c, src/memory. */
#ifndef QP_BASE_VISIBLE_H
#define QP_BASE_VISIBLE_H

#include "base/buf.h"

typedef enum qp_visible {
    QP_VISIBLE_SEEN = 0,
    QP_VISIBLE_BLANK,  /* a blank of some width */
    QP_VISIBLE_BREAK,  /* ends a line, or is a control character */
    QP_VISIBLE_JOINER, /* changes the characters beside it: of scripts and of emoji */
    QP_VISIBLE_HIDDEN  /* nothing, a direction, or a tag that only machines read */
} qp_visible;

/* The kind of the character that n > 0 bytes begin with; *ret_size says how many of them it has.
 * A byte that begins no character is seen, and is one. */
qp_visible qp_visible_kind(const char *p, size_t n, size_t *ret_size);

/* Append a text as one line: breaks become one blank, hidden characters are left out, and so are
 * blanks and marks of headings, quotations and lists that it begins with. It gets no longer. */
void qp_visible_put(qp_buf *buf, quipu_str text);

/* Whether qp_visible_put() would write anything of a text. */
bool qp_visible_shows(quipu_str text);

/* Append a text that keeps its lines and tabs: each line behind the first begins with `indent`, so
 * that none passes for one that quipu writes, and no line is empty. Other controls become a blank,
 * hidden characters are left out. */
void qp_visible_put_lines(qp_buf *buf, quipu_str text, const char *indent);

#endif
