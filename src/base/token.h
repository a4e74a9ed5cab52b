/* The token estimate, rule 1, for messages; the text rule is public (quipu_token_estimate). */
#ifndef QP_BASE_TOKEN_H
#define QP_BASE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_TOKEN_MESSAGE 4 /* what a message costs before its text */

/* 4 + content + every piece of its calls (id, name, input, output), each estimated on its own. */
int64_t qp_token_message(quipu_str content, const quipu_str *parts, size_t part_count);

#endif
