/* Unicode's Normalization Form C: one spelling for texts that look the same. A keyboard or a file
 * system may write "é" as two characters and a Korean syllable as three; words are compared after
 * both sides went through here. */
#ifndef QP_ENT_NFC_H
#define QP_ENT_NFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#include "base/buf.h"

/* Characters of one run that are put into order together. Unicode's stream-safe format allows 30
 * marks behind a letter; a longer run, which no language writes, is normalised in parts. */
#define QP_NFC_RUN_MAX 128

/* Whether the text is known to be in Form C without a closer look: no character of it can change.
 * Says false of some texts that are. Bytes that are not UTF-8 change nothing. */
bool qp_nfc_is(quipu_str text);

/* Appends the text in Form C. Bytes that are not UTF-8 are copied. The buffer keeps a failure. */
void qp_nfc_put(quipu_str text, qp_buf *ret);

/* The same in Form D: what composes is taken apart. */
void qp_nfd_put(quipu_str text, qp_buf *ret);

/* ---- nfc_table.c ------------------------------------------------------------------------------
 */

/* Canonical decompositions, by composite: first << 7 | the place of the second in qp_nfc_marks,
 * which is 0 where one character stands for another. */
extern const uint32_t qp_nfc_pairs[];
extern const size_t qp_nfc_pairs_count;
extern const uint32_t qp_nfc_marks[];
extern const size_t qp_nfc_marks_count;
/* Which composites the pairs are of: runs of neighbours, composite << 12 | place in qp_nfc_pairs. A
 * run ends where the next one begins. */
extern const uint32_t qp_nfc_runs[];
extern const size_t qp_nfc_runs_count;
/* The places in qp_nfc_pairs of those that compose, by first and second. */
extern const uint16_t qp_nfc_composing[];
extern const size_t qp_nfc_composing_count;
/* Characters of class 0 that are second in a pair that composes. */
extern const uint32_t qp_nfc_seconds[];
extern const size_t qp_nfc_seconds_count;
/* Ranges with a combining class other than 0: low << 15 | how many follow << 8 | class. */
extern const uint32_t qp_nfc_classes[];
extern const size_t qp_nfc_classes_count;

#endif
