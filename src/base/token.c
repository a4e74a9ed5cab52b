/* The fixed token estimate, rule 1. It is stored beside counts, so it never changes: a better rule
 * would get a new number.
 *
 *   "abcdefgh"   8 characters / 4            2
 *   "漢字漢字"       4 of CJK / 2                2
 *   "abc漢"       3 / 4 + 1 / 2, each down    0
 *
 * Owns: the rule. Called by: store for every message, agent and mcp for budgets, users of the C
 * API. Locks: none; a pure function of the text. */
#include "base/token.h"

#include <stdbool.h>

#include "base/str.h"

/* Kana are not counted as CJK: that is the rule, and files written under it rely on it. */
static bool token_is_cjk(uint32_t point)
{
    return (point >= 0x4e00 && point <= 0x9fff) || (point >= 0x3400 && point <= 0x4dbf) ||
           (point >= 0xac00 && point <= 0xd7af);
}

/* A quarter of a token for each character, half of one for each CJK character, both rounded down.
 * Eight ASCII bytes are eight characters and are counted at once; a byte that is not UTF-8 counts
 * as a character, so that every text has an estimate. */
int64_t quipu_token_estimate(quipu_str text)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const unsigned char *end = text.n != 0 ? p + text.n : p;
    int64_t other = 0;
    int64_t cjk = 0;
    uint32_t point;
    size_t n;

    while (p < end) {
        if (end - p >= 8 && (qp_load64(p) & QP_STR_HIGHS) == 0) {
            p += 8;
            other += 8;
            continue;
        }
        if (*p < 0x80) {
            p++;
            other++;
            continue;
        }
        n = qp_utf8_step(p, end, &point);
        if (n != 0 && token_is_cjk(point)) {
            cjk++;
        } else {
            other++;
        }
        p += n != 0 ? n : 1;
    }
    return other / 4 + cjk / 2;
}

/* Pieces are rounded one by one: rule 1 says so, and stored counts rely on it. */
int64_t qp_token_message(quipu_str content, const quipu_str *parts, size_t part_count)
{
    int64_t tokens = QP_TOKEN_MESSAGE + quipu_token_estimate(content);

    for (size_t i = 0; i < part_count; i++) {
        tokens += quipu_token_estimate(parts[i]);
    }
    return tokens;
}
