/* The spellings of a query that an index may hold. Texts are indexed as they were written: a Korean
 * syllable is one word, or two or three where the writer's system decomposes it. A query asks for
 * every spelling, and each hit is rechecked with both sides in Form C (nfc.h), so that what is
 * found does not depend on how anything was typed, in files of every age
 * (docs/decisions/0038-search-windows-and-forms.md). */
#ifndef QP_ENT_FORMS_H
#define QP_ENT_FORMS_H

#include <ent/ent.h>

#define QP_FORMS_MAX 3              /* Form C, Form D, as written */
#define QP_FORMS_GROWTH ((size_t)3) /* times as many bytes, at most, has a text in Form C or D */

/* Whether the text has one spelling only. */
bool qp_forms_is_ascii(quipu_str text);

/* The spellings of a text whose words differ, the first in Form C; in the arena, or the text
 * itself. Returns how many they are, 0 without memory. */
size_t qp_forms_of(quipu_arena *arena, quipu_str text, quipu_str ret[QP_FORMS_MAX]);

/* The text in Form C; in the arena. False: no memory. */
bool qp_forms_c(quipu_arena *arena, quipu_str text, quipu_str *ret);

#endif
