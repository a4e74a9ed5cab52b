/* The day or days that a sentence is about. */
#ifndef QP_MEMORY_RULES_DATE_H
#define QP_MEMORY_RULES_DATE_H

#include "memory/rules_text.h"

/* Days in UTC, from the first second of the first to the last second of the last. */
typedef struct qp_rules_days {
    quipu_time from;
    quipu_time to;
} qp_rules_days;

/* The first date of the sentence: 2026-11-16, Nov 16(, 2026), 16 November (2026), tomorrow, today,
 * yesterday, next week, next or on or this or by Friday. Relative dates count from `said_at`; a day
 * without a year is the next one that is not long past. False: it has none, or one that cannot
 * be. */
bool qp_rules_date(const qp_rules_sentence *sentence, quipu_time said_at, qp_rules_days *ret);

#endif
