/* Random ADK events for property tests: every field that ADK has, fields nobody knows, both
 * spellings and their mixture, values of the wrong type, odd texts and odd numbers. */
#ifndef T_CONTRACT_ADK_GEN_H
#define T_CONTRACT_ADK_GEN_H

#include "base/buf.h"

/* Write one event; the same state gives the same event. */
void gen_event(uint64_t *random, qp_buf *buf);

#endif
