/* Normalization Form C, as the Unicode Standard defines it (annex 15): decompose, put marks into
 * order, compose. The tables are nfc_table.c's; Hangul syllables are composed by arithmetic.
 *
 * Owns: nothing; pure functions over a text.
 * Called by: recall_terms.c of the store, for questions and messages alike; forms.c for search.
 *
 *   text ─▶ characters that cannot change: copied as they are
 *        ─▶ run: a starter and all behind it that may combine with it
 *             decompose ─▶ sort marks by class ─▶ compose ─▶ buffer
 *
 *   e U+0302 U+0323 ─▶ sort: 230, 220 ─▶ e U+0323 U+0302 ─▶ U+1EB9 U+0302 ─▶ U+1EC7
 *   U+1112 U+1161 U+11AB ─▶ U+D558 U+11AB ─▶ U+D55C
 *
 * Cost: a binary search or two for each character that may change; most texts have none. */
#include "ent/nfc.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

#define NFC_FIRST 0x300   /* no character below it can change or combine with the one before it */
#define NFC_NONE SIZE_MAX /* no pair */
#define NFC_DECOMPOSED_MAX 4 /* characters of one full decomposition */

#define NFC_S 0xac00 /* Hangul: syllables, and the letters that make them */
#define NFC_L 0x1100
#define NFC_V 0x1161
#define NFC_T 0x11a7
#define NFC_L_COUNT 19
#define NFC_V_COUNT 21
#define NFC_T_COUNT 28
#define NFC_S_COUNT (NFC_L_COUNT * NFC_V_COUNT * NFC_T_COUNT)

/* One run; `classes` are those of the characters. */
typedef struct nfc_run {
    uint32_t points[QP_NFC_RUN_MAX +
                    NFC_DECOMPOSED_MAX]; /* with room for one decomposition behind a full run */
    uint8_t classes[QP_NFC_RUN_MAX + NFC_DECOMPOSED_MAX];
    size_t n;
} nfc_run;

/* A pair is one number, so that the table stays small: 21 bits are enough for a character, and
 * fewer than 128 marks come second. */
static uint32_t nfc_first(size_t pair)
{
    assert(pair < qp_nfc_pairs_count);
    return qp_nfc_pairs[pair] >> 7;
}

/* 0: the character stands for another one alone, and nothing composes to it again. */
static uint32_t nfc_second(size_t pair)
{
    assert((qp_nfc_pairs[pair] & 0x7f) < qp_nfc_marks_count);
    return qp_nfc_marks[qp_nfc_pairs[pair] & 0x7f];
}

/* The last run whose number, shifted by `shift` and masked, is not above `wanted`; the count of
 * runs when there is none. Composites and places both ascend. */
static size_t nfc_run_of(uint32_t wanted, unsigned shift, uint32_t mask)
{
    size_t low = 0;
    size_t high = qp_nfc_runs_count;

    while (low < high) {
        const size_t at = (low + high) / 2;
        if ((qp_nfc_runs[at] >> shift & mask) <= wanted) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low > 0 ? low - 1 : qp_nfc_runs_count;
}

/* The place of a character's decomposition, or NFC_NONE. The table lists runs of neighbours,
 * whose decompositions stand one behind the other. */
static size_t nfc_pair_of(uint32_t point)
{
    const size_t run = nfc_run_of(point, 12, 0xfffff);

    if (run == qp_nfc_runs_count) {
        return NFC_NONE;
    }
    const size_t place = qp_nfc_runs[run] & 0xfff;
    const size_t end =
        run + 1 < qp_nfc_runs_count ? qp_nfc_runs[run + 1] & 0xfff : qp_nfc_pairs_count;
    /* How far behind the beginning of its run: beyond the run's end it has no decomposition. */
    const size_t way = point - (qp_nfc_runs[run] >> 12);

    assert(place < end && end <= qp_nfc_pairs_count);
    return way < end - place ? place + way : NFC_NONE;
}

/* The character that a pair is the decomposition of. */
static uint32_t nfc_composite(size_t pair)
{
    const size_t run = nfc_run_of((uint32_t)pair, 0, 0xfff);

    assert(run < qp_nfc_runs_count);
    return (qp_nfc_runs[run] >> 12) + (uint32_t)pair - (qp_nfc_runs[run] & 0xfff);
}

/* The canonical combining class: 0 for starters. Marks are sorted by it; two of one class stand at
 * the same place of the letter, so that their order means something and stays. */
static uint8_t nfc_class_of(uint32_t point)
{
    size_t low = 0;
    size_t high = point < NFC_FIRST ? 0 : qp_nfc_classes_count;

    while (low < high) {
        size_t at = (low + high) / 2;
        if (point >= qp_nfc_classes[at] >> 15) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    if (low == 0) {
        return 0;
    }
    const uint32_t range = qp_nfc_classes[low - 1];
    return point - (range >> 15) <= (range >> 8 & 0x7f) ? (uint8_t)(range & 0xff) : 0;
}

/* Two Hangul letters, or a syllable without a final and a final: their syllable, else 0. The
 * syllables are numbered by their letters: ((L * 21) + V) * 28 + T, where T 0 is not a final. The
 * differences are unsigned: one comparison checks both ends of a range. */
static uint32_t nfc_hangul(uint32_t first, uint32_t second)
{
    if (first - NFC_L < NFC_L_COUNT && second - NFC_V < NFC_V_COUNT) {
        return NFC_S + ((first - NFC_L) * NFC_V_COUNT + (second - NFC_V)) * NFC_T_COUNT;
    }
    if (first - NFC_S < NFC_S_COUNT && (first - NFC_S) % NFC_T_COUNT == 0 && second > NFC_T &&
        second - NFC_T < NFC_T_COUNT) {
        return first + (second - NFC_T);
    }
    return 0;
}

/* The composition of two characters, or 0. Pairs that never compose (a character that stands for
 * another, Unicode's exclusions) are not in the list that is searched. */
static uint32_t nfc_compose(uint32_t first, uint32_t second)
{
    const uint64_t wanted = (uint64_t)first << 32 | second;
    size_t low = 0;
    size_t high = qp_nfc_composing_count;

    while (low < high) {
        const size_t at = (low + high) / 2;
        const size_t pair = qp_nfc_composing[at];
        if (((uint64_t)nfc_first(pair) << 32 | nfc_second(pair)) < wanted) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    if (low < qp_nfc_composing_count) {
        const size_t pair = qp_nfc_composing[low];
        if (nfc_first(pair) == first && nfc_second(pair) == second) {
            return nfc_composite(pair);
        }
    }
    return nfc_hangul(first, second);
}

/* Whether a starter is composed with the one before it: Hangul's vowels and finals, and a few signs
 * of Indian scripts. Linear: there are about 25. */
static bool nfc_is_second(uint32_t point)
{
    size_t at = 0;

    if (point >= NFC_V && point < NFC_T + NFC_T_COUNT) {
        return true;
    }
    while (at < qp_nfc_seconds_count && qp_nfc_seconds[at] < point) {
        at++;
    }
    return at < qp_nfc_seconds_count && qp_nfc_seconds[at] == point;
}

/* Whether a character stays as it is, whatever stands before it: a run can begin with it. The
 * blocks that most texts are written in are answered without a table: Latin, Cyrillic, kana,
 * ideographs, Hangul syllables. */
static bool nfc_is_inert(uint32_t point)
{
    if (point < NFC_FIRST || (point >= 0x400 && point < 0x483) ||
        (point >= 0x3041 && point < 0x3099) || (point >= 0x3400 && point < 0xa66f) ||
        (point >= NFC_S && point < NFC_S + NFC_S_COUNT)) {
        return true;
    }
    const size_t pair = nfc_pair_of(point);
    return nfc_class_of(point) == 0 && !nfc_is_second(point) &&
           (pair == NFC_NONE || nfc_compose(nfc_first(pair), nfc_second(pair)) == point);
}

/* ASCII and Latin texts cost one comparison a byte. Continuation bytes are below CC, too, so that a
 * character whose lead byte was skipped is skipped to its end. */
bool qp_nfc_is(quipu_str text)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const unsigned char *end = text.n != 0 ? p + text.n : p;

    while (p < end) {
        uint32_t point = 0;
        size_t step;

        /* U+0300 is CC 80: every lead byte below begins a character that cannot change.
         * One comparison for most bytes of most texts; only the rest is decoded. */
        if (*p < 0xcc) {
            p++;
            continue;
        }
        step = qp_utf8_step(p, end, &point);
        if (step != 0 && !nfc_is_inert(point)) {
            return false;
        }
        p += step != 0 ? step : 1;
    }
    return true;
}

/* Appends a character's full decomposition to the run. The first part of a pair may decompose
 * again, the second never does; what is second is kept on the side until the first is done. */
static void nfc_decompose(uint32_t point, nfc_run *run)
{
    uint32_t behind[NFC_DECOMPOSED_MAX];
    size_t n = 0;
    size_t pair;

    assert(run->n < QP_NFC_RUN_MAX); /* qp_nfc_put() flushes before */
    if (point >= NFC_S && point < NFC_S + NFC_S_COUNT) {
        const uint32_t at = point - NFC_S;
        const uint32_t last = at % NFC_T_COUNT;

        /* From the number of a syllable back to its letters, as nfc_hangul() puts them together. */
        run->points[run->n] = NFC_L + at / (NFC_V_COUNT * NFC_T_COUNT);
        run->points[run->n + 1] = NFC_V + at % (NFC_V_COUNT * NFC_T_COUNT) / NFC_T_COUNT;
        run->points[run->n + 2] = NFC_T + last;
        memset(&run->classes[run->n], 0, 3);
        run->n += last != 0 ? 3 : 2;
        return;
    }
    while ((pair = nfc_pair_of(point)) != NFC_NONE) {
        if (nfc_second(pair) != 0) {
            assert(n < NFC_DECOMPOSED_MAX - 1);
            behind[n++] = nfc_second(pair);
        }
        point = nfc_first(pair);
    }
    /* Behind the loop `point` decomposes no further; it is the first of all. */
    behind[n++] = point;
    while (n > 0) {
        run->points[run->n] = behind[--n];
        run->classes[run->n] = nfc_class_of(behind[n]);
        run->n++;
    }
    assert(run->n <= QP_NFC_RUN_MAX + NFC_DECOMPOSED_MAX);
}

/* Sorts marks between starters by class; equal classes keep their order. Insertion: runs are
 * short. */
static void nfc_order(nfc_run *run)
{
    assert(run->n <= QP_NFC_RUN_MAX + NFC_DECOMPOSED_MAX);
    for (size_t i = 1; i < run->n; i++) {
        const uint32_t point = run->points[i];
        const uint8_t class = run->classes[i];
        size_t at = i;

        while (class != 0 && at > 0 && run->classes[at - 1] > class) {
            run->points[at] = run->points[at - 1];
            run->classes[at] = run->classes[at - 1];
            at--;
        }
        run->points[at] = point;
        run->classes[at] = class;
    }
}

/* Composes in place: n follows i, and what was composed leaves a gap. A character composes with the
 * last starter when nothing between them blocks it: a starter, or a mark of the same or a higher
 * class. Marks are sorted, so that only the one right before it can block. */
static void nfc_recompose(nfc_run *run)
{
    /* No starter yet: a run that begins with a mark has nothing to compose it with. */
    size_t starter = run->n;
    size_t n = 0;

    for (size_t i = 0; i < run->n; i++) {
        const uint8_t class = run->classes[i];
        const bool adjacent = n > 0 && starter == n - 1;
        uint32_t made = 0;

        if (starter < n &&
            (adjacent || (run->classes[n - 1] < class && run->classes[n - 1] != 0))) {
            made = nfc_compose(run->points[starter], run->points[i]);
        }
        if (made != 0) {
            /* The composed character is the starter again, and may compose with the next mark. */
            run->points[starter] = made;
            continue;
        }
        if (class == 0) {
            starter = n;
        }
        run->points[n] = run->points[i];
        run->classes[n] = class;
        n++;
    }
    assert(n <= run->n);
    run->n = n;
}

/* Normalises what the run holds, appends it and empties the run. Failures stay in the buffer. */
static void nfc_flush(nfc_run *run, bool composed, qp_buf *ret)
{
    nfc_order(run);
    if (composed) {
        nfc_recompose(run);
    }
    for (size_t i = 0; i < run->n; i++) {
        char bytes[4];

        qp_buf_put(ret, (quipu_str){bytes, qp_utf8_put(run->points[i], bytes)});
    }
    run->n = 0;
}

/* A run ends before a character that can neither change nor combine with what stands before it.
 * `composed`: to Form C, else to Form D. */
static void nfc_put(quipu_str text, bool composed, qp_buf *ret)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const unsigned char *end = text.n != 0 ? p + text.n : p;
    nfc_run run;

    assert(ret != NULL);
    run.n = 0;
    while (p < end) {
        uint32_t point = 0;
        const size_t step = qp_utf8_step(p, end, &point);

        /* Bytes that are not UTF-8 stand between runs and are copied as they are. */
        if (step == 0) {
            nfc_flush(&run, composed, ret);
            qp_buf_putc(ret, (char)*p++);
            continue;
        }
        if (run.n >= QP_NFC_RUN_MAX || (run.n > 0 && nfc_is_inert(point))) {
            nfc_flush(&run, composed, ret);
        }
        nfc_decompose(point, &run);
        p += step;
    }
    nfc_flush(&run, composed, ret);
}

void qp_nfc_put(quipu_str text, qp_buf *ret)
{
    nfc_put(text, true, ret);
}

void qp_nfd_put(quipu_str text, qp_buf *ret)
{
    nfc_put(text, false, ret);
}
