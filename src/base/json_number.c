/* Numbers on demand. A JSON number of any length is read as digits and a decimal point, so that the
 * caller learns whether its int64 or double is the number or only near it.
 *
 * Owns: nothing; all work is done in fixed buffers on the stack.
 * Called by: every reader of JSON; qp_double_text() also by the writers of DDL.
 * Threads: safe; the locale of the process may be any, and may change.
 * Locks: none. */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* The exact expansion of a double has at most 767 significant digits, so more of them can only say
 * whether there is something left; one further digit says that. */
#define JSON_NUMBER_DIGITS 767
#define JSON_NUMBER_TEXT_SIZE (JSON_NUMBER_DIGITS + 32)
#define JSON_NUMBER_EXPONENT_MAX INT64_C(1000000000000)

/* A number taken apart, not computed: the value is whole.fraction * 10^exponent. Both texts are
 * slices of the source; `fraction` is empty where there is no point. */
typedef struct json_number_parts {
    quipu_str whole;
    quipu_str fraction;
    int64_t exponent; /* clamped: beyond it every result is 0 or out of range anyway */
    bool minus;
} json_number_parts;

/* The end of the digits that begin at `from`. */
static size_t json_number_run(quipu_str text, size_t from)
{
    size_t n = from;

    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9') {
        n++;
    }
    return n;
}

/* Take apart a number that the parser has checked: -12.340e5 has the whole part 12, the fraction
 * 340 and the exponent 5. The exponent is clamped while it is read, so that no number of digits
 * overflows it. */
static json_number_parts json_number_split(quipu_str raw)
{
    json_number_parts parts = {QP_STR_ABSENT, {"", 0}, 0, raw.p[0] == '-'};
    size_t at = parts.minus ? 1 : 0;
    size_t stop = json_number_run(raw, at);
    bool minus;

    assert(raw.n > 0);
    parts.whole = (quipu_str){raw.p + at, stop - at};
    if (stop < raw.n && raw.p[stop] == '.') {
        at = stop + 1;
        stop = json_number_run(raw, at);
        parts.fraction = (quipu_str){raw.p + at, stop - at};
    }
    if (stop < raw.n) {
        at = stop + 1;
        minus = raw.p[at] == '-';
        at += minus || raw.p[at] == '+' ? 1 : 0;
        for (; at < raw.n; at++) {
            if (parts.exponent < JSON_NUMBER_EXPONENT_MAX) {
                parts.exponent = parts.exponent * 10 + (raw.p[at] - '0');
            }
        }
        parts.exponent = minus ? -parts.exponent : parts.exponent;
    }
    return parts;
}

/* The i-th digit, counted over both sides of the point. */
static unsigned json_number_digit(const json_number_parts *parts, size_t i)
{
    char c = i < parts->whole.n ? parts->whole.p[i] : parts->fraction.p[i - parts->whole.n];
    return (unsigned)(c - '0');
}

/* value * 10 + digit, or false when that passes `most`. */
static bool json_number_push(uint64_t *value, unsigned digit, uint64_t most)
{
    assert(digit <= 9);
    if (*value > (most - digit) / 10) {
        return false;
    }
    *value = *value * 10 + digit;
    return true;
}

/* Digits before the decimal point, which the exponent has moved, make the number; a digit behind it
 * that is not 0 makes it rounded. 1e3 and 1000.0 are exact, therefore. Zeros that the exponent adds
 * are pushed one by one, at most 19 of them, because `value` is then out of range or 0. */
qp_json_exact qp_json_int64(qp_json_node node, int64_t *ret_value)
{
    json_number_parts parts;
    qp_json_exact exact = QP_JSON_EXACT;
    uint64_t value = 0;
    uint64_t most;
    int64_t point; /* how many of the digits stand before the decimal point */
    size_t total;
    bool fits = true;

    if (qp_json_kind_of(node) != QP_JSON_NUMBER) {
        return QP_JSON_NO_NUMBER;
    }
    parts = json_number_split(qp_json_raw(node));
    most = (uint64_t)INT64_MAX + (parts.minus ? 1 : 0);
    total = parts.whole.n + parts.fraction.n;
    point = (int64_t)parts.whole.n + parts.exponent;
    for (size_t i = 0; i < total && fits; i++) {
        unsigned digit = json_number_digit(&parts, i);
        if ((int64_t)i < point) {
            fits = json_number_push(&value, digit, most);
        } else if (digit != 0) {
            exact = QP_JSON_ROUNDED;
            break;
        }
    }
    for (int64_t i = (int64_t)total; i < point && fits && value != 0; i++) {
        fits = json_number_push(&value, 0, most);
    }
    if (!fits) {
        value = most;
        exact = QP_JSON_RANGE;
    }
    *ret_value = parts.minus ? (int64_t)(UINT64_C(0) - value) : (int64_t)value;
    return exact;
}

/* Significant digits of a number, without zeros on either side, and the power of ten of the last:
 * 12.340e5 is "1234" and 3. Zero has no digits. */
typedef struct json_number_decimal {
    char digits[JSON_NUMBER_DIGITS + 2]; /* one digit more, and a NUL */
    size_t count;
    int64_t exponent;
} json_number_decimal;

/* Cuts the zeros on both sides, and digits beyond those that a double can need. A cut tail becomes
 * one digit 1: strtod() then rounds as it would with all digits. */
static void json_number_reduce(const json_number_parts *parts, json_number_decimal *decimal)
{
    size_t total = parts->whole.n + parts->fraction.n;
    size_t first = 0;
    size_t last = total;
    bool more = false;

    while (first < total && json_number_digit(parts, first) == 0) {
        first++;
    }
    while (last > first && json_number_digit(parts, last - 1) == 0) {
        last--;
    }
    if (last - first > JSON_NUMBER_DIGITS) {
        last = first + JSON_NUMBER_DIGITS;
        more = true; /* the digit dropped last is not zero */
    }
    decimal->count = last - first;
    for (size_t i = 0; i < decimal->count; i++) {
        decimal->digits[i] = (char)('0' + json_number_digit(parts, first + i));
    }
    decimal->exponent = (int64_t)parts->whole.n + parts->exponent - (int64_t)last;
    if (more) {
        decimal->digits[decimal->count++] = '1';
        decimal->exponent--;
    }
    assert(decimal->count < sizeof(decimal->digits));
    decimal->digits[decimal->count] = '\0';
}

/* Whether a double, printed in full, has just these digits. The exact expansion is compared: "0.1"
 * is not the double that it reads as, 0.5 is. */
static bool json_number_is(double value, const json_number_decimal *decimal)
{
    char text[JSON_NUMBER_TEXT_SIZE];
    const char *mark;
    size_t at = 0;
    int64_t exponent;

    if (decimal->count > JSON_NUMBER_DIGITS) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%.*e", JSON_NUMBER_DIGITS - 1, value);
    mark = strchr(text, 'e');
    assert(mark != NULL);
    for (const char *p = text; p < mark; p++) {
        if (*p < '0' || *p > '9') {
            continue; /* the point, whatever the locale writes for it */
        }
        if (*p != (at < decimal->count ? decimal->digits[at] : '0')) {
            return false;
        }
        at++;
    }
    exponent = 0;
    for (const char *p = mark + 2; *p != '\0'; p++) {
        exponent = exponent * 10 + (*p - '0');
    }
    exponent = mark[1] == '-' ? -exponent : exponent;
    return exponent == decimal->exponent + (int64_t)decimal->count - 1;
}

/* Text that we have just written ourselves, so all of it is a number. A locale with another decimal
 * point cannot get in the way: the text has none, or was printed under the same locale. */
static double json_number_read(const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);

    assert(end != text && *end == '\0');
    return value;
}

/* The nearest double, as strtod() rounds. Whether it is exact costs a second conversion, of the
 * double to all of its digits; both are rare, because most numbers of this library are integers. */
qp_json_exact qp_json_double(qp_json_node node, double *ret_value)
{
    json_number_parts parts;
    json_number_decimal decimal;
    char text[JSON_NUMBER_TEXT_SIZE];
    qp_json_exact exact = QP_JSON_EXACT;
    double value = 0.0;

    if (qp_json_kind_of(node) != QP_JSON_NUMBER) {
        return QP_JSON_NO_NUMBER;
    }
    parts = json_number_split(qp_json_raw(node));
    json_number_reduce(&parts, &decimal);
    if (decimal.count != 0) {
        /* Without a point there is nothing for the locale to change. */
        (void)snprintf(text, sizeof(text), "%se%" PRId64, decimal.digits, decimal.exponent);
        value = json_number_read(text);
        if (isinf(value)) {
            exact = QP_JSON_RANGE;
        } else if (!json_number_is(value, &decimal)) {
            exact = QP_JSON_ROUNDED;
        }
    }
    *ret_value = parts.minus ? -value : value;
    return exact;
}

/* Tries 15, 16 and 17 digits: 15 survive any double, 17 identify every one. The result is the same
 * in every locale. */
bool qp_double_text(double value, char ret_text[QP_DOUBLE_TEXT_SIZE])
{
    char text[QP_DOUBLE_TEXT_SIZE];
    size_t n = 0;

    if (!isfinite(value)) {
        return false;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (json_number_read(text) == value) {
            break;
        }
    }
    /* A locale may write its point in another way, and in several bytes. */
    for (const char *p = text; *p != '\0'; p++) {
        bool plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (plain) {
            ret_text[n++] = *p;
        } else if (n == 0 || ret_text[n - 1] != '.') {
            ret_text[n++] = '.';
        }
    }
    ret_text[n] = '\0';
    return true;
}
