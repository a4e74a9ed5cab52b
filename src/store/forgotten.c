/* Ranges of messages that are forgotten; the head of forgotten.h has the picture.
 *
 * Owns: the form of the text. Called by: memory_scope.c, memory_forget.c, verify, import_memory.c.
 * Locks: none. Holds on return: ranges are in order, none is empty, and between two of them lies a
 * message that is not forgotten. */
#include "store/forgotten.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"

/* ---- the text ---------------------------------------------------------------------------------
 */

/* A number of at least 1, without leading zeros, and the byte behind it; 0: there is none.
 *
 * Strict, so that a set has one spelling: equal sets are equal texts, and a damaged text is
 * refused, not guessed. An overflow is damage, too. */
static int64_t forgotten_number(quipu_str text, size_t *at)
{
    int64_t number = 0;

    if (*at < text.n && text.p[*at] == '0') {
        return 0;
    }
    while (*at < text.n && text.p[*at] >= '0' && text.p[*at] <= '9') {
        const int digit = text.p[*at] - '0';

        if (number > (INT64_MAX - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
        (*at)++;
    }
    return number;
}

/* One byte that must stand there. */
static bool forgotten_byte(quipu_str text, size_t *at, char byte)
{
    if (*at >= text.n || text.p[*at] != byte) {
        return false;
    }
    (*at)++;
    return true;
}

bool qp_forgotten_read(quipu_str text, qp_forgotten *ret)
{
    size_t at = 0;

    ret->count = 0;
    /* "5-7 9-9" is read as {5, 7}, {9, 9}. Refused:
     *
     *     "7-5"          ends before it begins
     *     "5-7 8-9"      touch: qp_forgotten_add() would have joined them
     *     "9-9 5-7"      not in order
     *     "5-7  9-9"     two spaces, and so is any byte more
     *     "05-7" "5-"    no numbers of this form */
    while (at < text.n) {
        const int64_t least = ret->count > 0 ? ret->ranges[ret->count - 1].to : 0;
        qp_forgotten_range range = {0, 0};

        if (ret->count == QP_FORGOTTEN_RANGES ||
            (ret->count > 0 && !forgotten_byte(text, &at, ' '))) {
            return false;
        }
        range.from = forgotten_number(text, &at);
        range.to = forgotten_byte(text, &at, '-') ? forgotten_number(text, &at) : 0;
        /* Two that touch would be one. */
        if (range.from <= least || (least > 0 && range.from == least + 1) ||
            range.to < range.from) {
            return false;
        }
        ret->ranges[ret->count++] = range;
    }
    return true;
}

quipu_status qp_forgotten_write(const qp_forgotten *forgotten, quipu_arena *arena,
                                quipu_str *ret_text)
{
    quipu_status status = QUIPU_OK;
    qp_buf text;

    assert(forgotten->count <= QP_FORGOTTEN_RANGES);
    qp_buf_init(&text, QP_FORGOTTEN_TEXT_MAX);
    for (size_t i = 0; i < forgotten->count; i++) {
        const qp_forgotten_range *range = &forgotten->ranges[i];

        assert(range->from > 0 && range->to >= range->from);
        qp_buf_printf(&text, "%s%" PRId64 "-%" PRId64, i > 0 ? " " : "", range->from, range->to);
    }
    /* QP_FORGOTTEN_TEXT_MAX has room for the most ranges with the longest numbers: only memory may
     * lack. */
    status = qp_buf_status(&text);
    *ret_text = (quipu_str){NULL, 0};
    if (status == QUIPU_OK && forgotten->count > 0) {
        status = quipu_arena_copy(arena, qp_buf_str(&text), ret_text);
    }
    qp_buf_free(&text);
    return status;
}

/* ---- the set ----------------------------------------------------------------------------------
 */

/* Removes ranges first..end-1. */
static void forgotten_remove(qp_forgotten *forgotten, size_t first, size_t end)
{
    assert(first <= end && end <= forgotten->count);
    for (size_t i = end; i < forgotten->count; i++) {
        forgotten->ranges[first + i - end] = forgotten->ranges[i];
    }
    forgotten->count -= end - first;
}

/* How many ranges lie before a watermark: no worker comes to them any more. */
static size_t forgotten_passed(const qp_forgotten *forgotten, int64_t watermark)
{
    size_t passed = 0;

    while (passed < forgotten->count && forgotten->ranges[passed].to <= watermark) {
        passed++;
    }
    return passed;
}

/* Join those two of the first `passed` ranges that lie nearest to each other. */
static void forgotten_join(qp_forgotten *forgotten, size_t passed)
{
    qp_forgotten_range *ranges = forgotten->ranges;
    size_t nearest = 0;

    assert(passed > 1 && passed <= forgotten->count);
    for (size_t i = 1; i + 1 < passed; i++) {
        if (ranges[i + 1].from - ranges[i].to < ranges[nearest + 1].from - ranges[nearest].to) {
            nearest = i;
        }
    }
    ranges[nearest].to = ranges[nearest + 1].to;
    forgotten_remove(forgotten, nearest + 1, nearest + 2);
}

/* Puts a range into its place; the set has room for it. */
static void forgotten_put(qp_forgotten *forgotten, qp_forgotten_range range)
{
    size_t first = 0;
    size_t end;

    assert(forgotten->count <= QP_FORGOTTEN_RANGES);
    /* Ranges before `first` end before the new one, with a gap; from `end` on they begin behind it:
     *
     *     before   [1-3]   [6-7]   [9-12]          add 8-8
     *                      first           end     both that are met touch 8
     *     after    [1-3]   [6------------12] */
    while (first < forgotten->count && forgotten->ranges[first].to < range.from - 1) {
        first++;
    }
    for (end = first; end < forgotten->count && forgotten->ranges[end].from <= range.to + 1;
         end++) {
        const qp_forgotten_range *met = &forgotten->ranges[end];

        range.from = met->from < range.from ? met->from : range.from;
        range.to = met->to > range.to ? met->to : range.to;
    }
    forgotten_remove(forgotten, first, end);
    for (size_t i = forgotten->count; i > first; i--) {
        forgotten->ranges[i] = forgotten->ranges[i - 1];
    }
    forgotten->ranges[first] = range;
    forgotten->count++;
}

bool qp_forgotten_add(qp_forgotten *forgotten, qp_forgotten_range range, int64_t watermark)
{
    qp_forgotten made = *forgotten;
    size_t passed;

    assert(range.from > 0 && range.to >= range.from && range.to < INT64_MAX);
    forgotten_put(&made, range);
    passed = forgotten_passed(&made, watermark);
    /* Ranges behind the watermark are kept exactly, so their number has a limit. */
    if (made.count - passed > QP_MEMORY_FORGOTTEN_MAX) {
        return false;
    }
    /* One too many: two at least are passed, as no more than the limit wait. */
    if (made.count > QP_FORGOTTEN_RANGES) {
        forgotten_join(&made, passed);
    }
    *forgotten = made;
    assert(forgotten->count <= QP_FORGOTTEN_RANGES);
    assert(qp_forgotten_has(forgotten, range.from) && qp_forgotten_has(forgotten, range.to));
    return true;
}

void qp_forgotten_cut(qp_forgotten *forgotten, int64_t last)
{
    size_t kept = 0;

    assert(last >= 0);
    while (kept < forgotten->count && forgotten->ranges[kept].from <= last) {
        kept++;
    }
    forgotten->count = kept;
    if (kept > 0 && forgotten->ranges[kept - 1].to > last) {
        forgotten->ranges[kept - 1].to = last;
    }
    assert(!qp_forgotten_has(forgotten, last + 1));
}

/* Ranges are in order, so that one look is enough. */
void qp_forgotten_pass(const qp_forgotten *forgotten, int64_t *watermark)
{
    for (size_t i = 0; i < forgotten->count; i++) {
        const qp_forgotten_range *range = &forgotten->ranges[i];

        if (range->from <= *watermark + 1 && range->to > *watermark) {
            *watermark = range->to;
        }
    }
    assert(!qp_forgotten_has(forgotten, *watermark + 1));
}

bool qp_forgotten_meets(const qp_forgotten *forgotten, int64_t from, int64_t to)
{
    for (size_t i = 0; i < forgotten->count; i++) {
        if (to >= forgotten->ranges[i].from && from <= forgotten->ranges[i].to) {
            return true;
        }
    }
    return false;
}

bool qp_forgotten_has(const qp_forgotten *forgotten, int64_t seq)
{
    return qp_forgotten_meets(forgotten, seq, seq);
}
