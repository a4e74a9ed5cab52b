/* The rule observer: what a message says that is worth keeping, found without a model.
 *
 * A pure function of one message: no store, no clock, no memory but the caller's. It would rather
 * miss than invent: it looks at sentences that people write, never inside code, quoted text or
 * tables, and keeps a sentence as it was written. What the user says weighs more than what the
 * assistant says: only users make standing lines.
 *
 *   message ──▶ sentences (rules_text.c) ──▶ words ──▶ cues, names, numbers (rules.c)
 *                                              └─────▶ dates (rules_date.c)
 *
 * Called by: run.c, for every message behind a watermark. A change of what is found needs a new
 * number in QUIPU_RULES_ORIGIN. */
#ifndef QP_MEMORY_RULES_H
#define QP_MEMORY_RULES_H

#include <quipu/memory.h>

#define QP_RULES_FOUND_MAX 32  /* observations of one message; what follows is passed over */
#define QP_RULES_CONTENT 300   /* bytes of a sentence that are kept */
#define QP_RULES_TOOL_TEXT 160 /* bytes of a tool's input or failure that are kept */

/* The findings in one message, in its order. Texts are slices of the message or of `texts`. */
typedef struct qp_rules_found {
    size_t count;
    quipu_memory items[QP_RULES_FOUND_MAX];
    size_t used; /* of `texts` */
    char texts[QP_RULES_FOUND_MAX * (2 * QP_RULES_TOOL_TEXT + 64)];
} qp_rules_found;

/* Observe a message. Kind, content, priority, topic, subject, times, source and origin of the items
 * are set; the rest is zero. */
void qp_rules_observe(const quipu_message *message, qp_rules_found *ret);

#endif
