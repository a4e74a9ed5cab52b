/* Instants as text. The stored shape is fixed-width and read once per row, so it has a path of its
 * own; the tolerant reader takes what other programs wrote. Calendar arithmetic counts from 1
 * March, which puts the leap day at the end of the year.
 *
 *   stored     2026-11-18 19:45:02.120000000+00:00   fixed width: texts sort as the instants do
 *   RFC 3339   2026-11-18T19:45:02.12Z               for JSON; zeros at the end are left out
 *
 *   seconds ─▶ day since 0000-03-01 ─▶ era of 400 years ─▶ year of the era ─▶ day of the year
 *              (a leap day is the last day of such a year, so that no month depends on it)
 *
 * Owns: nothing. Called by: every room that reads or writes instants. Locks: none; the time zone
 * and the locale of the process are never looked at. */
#include "base/port.h"

#include "base/time.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"
#include "base/str.h"

#define TIME_S_PER_DAY INT64_C(86400)
#define TIME_DAYS_TO_1970 719468            /* from 0000-03-01 */
#define TIME_DAYS_PER_ERA 146097            /* 400 years */
#define TIME_MS_PAST INT64_C(1000000000000) /* larger than any second until the year 33658 */
#define TIME_ZONE_NAME_MAX 10               /* "+1030" and all abbreviations are shorter */

/* A date and a time of day as people write them: month and day from 1, no offset. */
typedef struct time_civil {
    unsigned year, month, day, hour, minute, second;
} time_civil;

/* How far a test has moved the wall clock; 0 in every program. */
static _Atomic int64_t time_step_ms;

/* Atomic, because a test moves the clock while threads of a store read it. */
void qp_time_step(int64_t ms)
{
    atomic_store(&time_step_ms, ms);
}

/* The wall clock, UTC. Never used for order or versions. A test may step beyond the years that can
 * be stored: the clock then stands at the end of them. */
quipu_time quipu_time_now(void)
{
    const int64_t step_ms = atomic_load_explicit(&time_step_ms, memory_order_relaxed);
    struct timespec now = {0, 0};
    quipu_time time;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    time = (quipu_time){(int64_t)now.tv_sec, (uint32_t)now.tv_nsec};
    if (step_ms != 0 && qp_time_add_ms(time, step_ms, &time) != QUIPU_OK) {
        time = (quipu_time){step_ms < 0 ? QP_TIME_S_MIN : QP_TIME_S_MAX, 0};
    }
    return time;
}

/* The bounds are those of the stored text, whose year has four digits. */
bool qp_time_valid(quipu_time time)
{
    return time.s >= QP_TIME_S_MIN && time.s <= QP_TIME_S_MAX && time.ns <= QP_TIME_NS_MAX;
}

/* ms % 1000 has the sign of ms, so that the nanoseconds may leave their range on either side, by
 * less than a second. */
quipu_status qp_time_add_ms(quipu_time time, int64_t ms, quipu_time *ret_time)
{
    int64_t s = ms / 1000;
    int64_t ns = (int64_t)time.ns + ms % 1000 * 1000000;

    if (!qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    if (ns < 0) {
        ns += 1000000000;
        s--;
    } else if (ns > QP_TIME_NS_MAX) {
        ns -= 1000000000;
        s++;
    }
    /* Neither side can overflow: a year-9999 instant and 2^63 ms are both far below 2^62 s. */
    if (time.s + s < QP_TIME_S_MIN || time.s + s > QP_TIME_S_MAX) {
        return QUIPU_INVALID;
    }
    *ret_time = (quipu_time){time.s + s, (uint32_t)ns};
    return QUIPU_OK;
}

/* An int64_t of nanoseconds reaches 292 years to either side of 1970; stored times reach
 * further. */
quipu_status qp_time_to_unix_ns(quipu_time time, int64_t *ret_ns)
{
    int64_t s = time.s;
    int64_t ns = time.ns;

    if (!qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    /* Count towards zero, so that the very first representable instant does not overflow. */
    if (s < 0 && ns != 0) {
        s++;
        ns -= 1000000000;
    }
    if (s > INT64_MAX / 1000000000 || s < INT64_MIN / 1000000000) {
        return QUIPU_INVALID;
    }
    s *= 1000000000;
    if ((ns > 0 && s > INT64_MAX - ns) || (ns < 0 && s < INT64_MIN - ns)) {
        return QUIPU_INVALID;
    }
    *ret_ns = s + ns;
    return QUIPU_OK;
}

/* ---- calendar ------------------------------------------------------------------------------ */

/* Days since 1970-01-01 of a date whose year is at least 0. From March on the months have 31, 30,
 * 31, 30, 31 days, 153 in five of them: (153 * m + 2) / 5 is how many lie before month m. */
QP_INLINE int64_t time_days(unsigned year, unsigned month, unsigned day)
{
    unsigned y = year + (month > 2 ? 4800 : 4799); /* 4800 years are 12 eras: never negative */
    unsigned m = month > 2 ? month - 3 : month + 9;
    unsigned day_of_year = (153 * m + 2) / 5 + day - 1;
    unsigned days = y * 365 + y / 4 - y / 100 + y / 400 + day_of_year;

    assert(month >= 1 && month <= 12 && day >= 1);
    return (int64_t)days - TIME_DAYS_TO_1970 - INT64_C(12) * TIME_DAYS_PER_ERA;
}

/* Whether the date and time exist; no leap seconds. */
QP_INLINE bool time_is_real(const time_civil *civil)
{
    static const uint8_t month_days[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = civil->year % 4 == 0 && (civil->year % 100 != 0 || civil->year % 400 == 0);

    if (civil->year < 1 || civil->month < 1 || civil->month > 12 || civil->day < 1) {
        return false;
    }
    if (civil->day > month_days[civil->month] && !(leap && civil->month == 2 && civil->day == 29)) {
        return false;
    }
    return civil->hour < 24 && civil->minute < 60 && civil->second < 60;
}

/* Calendar fields to seconds since 1970. */
QP_INLINE int64_t time_join(const time_civil *civil)
{
    return time_days(civil->year, civil->month, civil->day) * TIME_S_PER_DAY +
           (int64_t)civil->hour * 3600 + (int64_t)civil->minute * 60 + (int64_t)civil->second;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Two digits of a number below 100. */
#define TIME_PUT2(to, value)                                                                       \
    ((to)[0] = (char)('0' + (value) / 10), (to)[1] = (char)('0' + (value) % 10))

/* Writes 29 characters: calendar fields (proleptic Gregorian calendar), then nanoseconds. An era is
 * 400 years, after which the calendar repeats. The divisions take the leap days out: one in 1460
 * days, but not one in 36524, but one in 146096. */
static void time_put(char *to, quipu_time time, char separator)
{
    assert(time.s >= QP_TIME_S_MIN && time.s <= QP_TIME_S_MAX);
    /* Both terms are shifted to be positive: the range starts in year 1. */
    const uint32_t days = (uint32_t)((time.s - QP_TIME_S_MIN) / TIME_S_PER_DAY) + 306;
    const uint32_t rest = (uint32_t)((time.s - QP_TIME_S_MIN) % TIME_S_PER_DAY);
    const uint32_t era = days / TIME_DAYS_PER_ERA; /* since 0000-03-01 */
    const uint32_t day_of_era = days % TIME_DAYS_PER_ERA;
    const uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const uint32_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const uint32_t m = (5 * day_of_year + 2) / 153; /* from March on */
    const uint32_t month = m < 10 ? m + 3 : m - 9;
    const uint32_t year = era * 400 + year_of_era + (month <= 2 ? 1 : 0);
    const uint32_t day = day_of_year - (153 * m + 2) / 5 + 1;
    const uint32_t ns = time.ns % 100000000;

    TIME_PUT2(to, year / 100);
    TIME_PUT2(to + 2, year % 100);
    to[4] = '-';
    TIME_PUT2(to + 5, month);
    to[7] = '-';
    TIME_PUT2(to + 8, day);
    to[10] = separator;
    TIME_PUT2(to + 11, rest / 3600);
    to[13] = ':';
    TIME_PUT2(to + 14, rest / 60 % 60);
    to[16] = ':';
    TIME_PUT2(to + 17, rest % 60);
    to[19] = '.';
    to[20] = (char)('0' + time.ns / 100000000);
    TIME_PUT2(to + 21, ns / 1000000);
    TIME_PUT2(to + 23, ns / 10000 % 100);
    TIME_PUT2(to + 25, ns / 100 % 100);
    TIME_PUT2(to + 27, ns % 100);
}

/* The stored shape: fixed width, so that text order is time order. */
quipu_status quipu_time_format(quipu_time time, char ret_text[QUIPU_TIME_TEXT_SIZE])
{
    if (ret_text == NULL) {
        return QUIPU_MISUSE;
    }
    if (!qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    time_put(ret_text, time, ' ');
    memcpy(ret_text + 29, "+00:00", 7);
    return QUIPU_OK;
}

/* Writes all nine digits and takes zeros away: "...:05.250000000" becomes "...:05.25Z". */
quipu_status qp_time_rfc3339(quipu_time time, char ret_text[QP_TIME_RFC3339_SIZE], size_t *ret_size)
{
    size_t n = 29;

    if (!qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    time_put(ret_text, time, 'T');
    while (ret_text[n - 1] == '0' && n > 20) {
        n--;
    }
    if (n == 20) {
        n--; /* the point goes with the last zero */
    }
    ret_text[n++] = 'Z';
    ret_text[n] = '\0';
    if (ret_size != NULL) {
        *ret_size = n;
    }
    return QUIPU_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Two digits; anything else sets bits in *bad that a digit value never has. */
QP_INLINE unsigned time_get2(const char *p, unsigned *bad)
{
    unsigned high = (unsigned)(unsigned char)p[0] - '0';
    unsigned low = (unsigned)(unsigned char)p[1] - '0';

    *bad |= (high > 9) | (low > 9);
    return high * 10 + low;
}

/* "YYYY-MM-DD?HH:MM:SS", 19 characters that are there, into seconds. */
QP_INLINE bool time_get_civil(const char *p, int64_t *ret_s)
{
    time_civil civil;
    unsigned bad = 0;

    civil.year = time_get2(p, &bad) * 100;
    civil.year += time_get2(p + 2, &bad);
    civil.month = time_get2(p + 5, &bad);
    civil.day = time_get2(p + 8, &bad);
    civil.hour = time_get2(p + 11, &bad);
    civil.minute = time_get2(p + 14, &bad);
    civil.second = time_get2(p + 17, &bad);
    bad |= (unsigned)(p[4] != '-') | (unsigned)(p[7] != '-') | (unsigned)(p[13] != ':') |
           (unsigned)(p[16] != ':');
    if (bad != 0 || !time_is_real(&civil)) {
        return false;
    }
    *ret_s = time_join(&civil);
    return true;
}

/* The eight characters at `p` against a shape of eight, in which '0' stands for any digit and
 * everything else for itself. Returns the digits' values, one a byte, the first in the lowest; what
 * differs from the shape sets a bit of *bad.
 *
 * A byte of `value` is 0 to 9 for a digit and 0 for an equal character. Adding 0x76 to it, or 0x7f
 * where the shape has no digit, sets its highest bit when it is larger. Only a byte that has
 * that bit already carries into the next one, and it is bad by itself. For a constant shape the
 * compiler computes `most`. */
QP_INLINE uint64_t time_digits(const char *p, const char *shape, uint64_t *bad)
{
    const uint64_t form = qp_load64(shape);
    const uint64_t others = ((form ^ QP_STR_ONES * '0') + QP_STR_ONES * 0x7f) & QP_STR_HIGHS;
    const uint64_t most = QP_STR_ONES * 0x76 + (others >> 7) * 9;
    uint64_t value = qp_load64(p) ^ form;

    *bad |= ((value + most) | value) & QP_STR_HIGHS;
    return value;
}

/* The number that the digits in the bytes `at` and `at` + 1 make. Ten times a digit fits a byte. */
QP_INLINE unsigned time_pair(uint64_t digits, unsigned at)
{
    return (unsigned)((digits * 10 + (digits >> 8)) >> 8 * at & 0xff);
}

/* Our own stored shape, and nothing else: "YYYY-MM-DD HH:MM:SS.nnnnnnnnn+00:00". It is parsed once
 * a row, so that four words are read instead of 29 characters; two of them overlap in the month.
 * The four words:
 *
 *   2026-11-18 19:45:02.120000000+00:00
 *   └──year┘    └second┘└─rest─┘            the last byte of `second` is the first digit behind the
 *        └─day──┘                           point, `rest` are the other eight */
QP_INLINE bool time_get_stored(quipu_str text, quipu_time *ret_time)
{
    const char *p = text.p;
    uint64_t bad = 0;
    time_civil civil;

    if (text.n != QUIPU_TIME_TEXT_SIZE - 1 || memcmp(p + 29, "+00:00", 6) != 0) {
        return false;
    }
    const uint64_t year = time_digits(p, "0000-00-", &bad);
    const uint64_t day = time_digits(p + 5, "00-00 00", &bad);
    const uint64_t second = time_digits(p + 13, ":00:00.0", &bad);
    const uint64_t rest = time_digits(p + 21, "00000000", &bad);
    civil = (time_civil){.year = time_pair(year, 0) * 100 + time_pair(year, 2),
                         .month = time_pair(day, 0),
                         .day = time_pair(day, 3),
                         .hour = time_pair(day, 6),
                         .minute = time_pair(second, 1),
                         .second = time_pair(second, 4)};
    if (bad != 0 || !time_is_real(&civil)) {
        return false;
    }
    unsigned ns = (unsigned)(second >> 56) * 100 + time_pair(rest, 0);
    ns = ns * 10000 + time_pair(rest, 2) * 100 + time_pair(rest, 4);
    *ret_time = (quipu_time){time_join(&civil), ns * 100 + time_pair(rest, 6)};
    return true;
}

/* ASCII only: isdigit() depends on the locale. */
static bool time_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Each reader below takes its part from the front of *text when it is there. */
static void time_skip(quipu_str *text, size_t n)
{
    assert(n <= text->n);
    text->p += n;
    text->n -= n;
}

/* ".5" to ".123456789"; none is zero. */
static bool time_get_fraction(quipu_str *text, uint32_t *ret_ns)
{
    uint32_t ns = 0;
    size_t digits = 0;

    *ret_ns = 0;
    if (text->n == 0 || text->p[0] != '.') {
        return true;
    }
    time_skip(text, 1);
    while (digits < text->n && time_is_digit(text->p[digits])) {
        if (digits == 9) {
            return false;
        }
        ns = ns * 10 + (uint32_t)(text->p[digits] - '0');
        digits++;
    }
    time_skip(text, digits);
    for (size_t i = digits; i < 9; i++) {
        ns *= 10;
    }
    *ret_ns = ns;
    return digits != 0;
}

/* "+09:00" or "-0330" at the sign; gives its length, or 0. */
static size_t time_get_sign(quipu_str text, int64_t *ret_s)
{
    size_t colon = text.n > 3 && text.p[3] == ':' ? 1 : 0;
    unsigned bad = 0;
    unsigned hours;
    unsigned minutes;

    if (text.n < 5 + colon) {
        return 0;
    }
    hours = time_get2(text.p + 1, &bad);
    minutes = time_get2(text.p + 3 + colon, &bad);
    if (bad != 0 || hours > 23 || minutes > 59) {
        return 0;
    }
    *ret_s = ((int64_t)hours * 60 + minutes) * (text.p[0] == '-' ? -60 : 60);
    return 5 + colon;
}

/* An offset or "Z", with a space before the sign or not; none is UTC. *ret_named: a zone name may
 * follow. Offsets are subtracted: 09:00+09:00 is 00:00 UTC. */
static bool time_get_offset(quipu_str *text, int64_t *ret_s, bool *ret_named)
{
    size_t space = text->n != 0 && text->p[0] == ' ' ? 1 : 0;
    quipu_str at = {text->p + space, text->n - space};
    size_t n;

    *ret_s = 0;
    *ret_named = false;
    if (space == 0 && at.n != 0 && (at.p[0] == 'Z' || at.p[0] == 'z')) {
        time_skip(text, 1);
        return true;
    }
    if (at.n == 0 || (at.p[0] != '+' && at.p[0] != '-')) {
        return true; /* what follows, if anything, must be the tail */
    }
    n = time_get_sign(at, ret_s);
    if (n == 0) {
        return false;
    }
    time_skip(text, space + n);
    *ret_named = true;
    return true;
}

/* " KST" as Go writes it behind the offset, or " +03" where the zone has no name. Not Go's tail. */
static bool time_get_name(quipu_str *text)
{
    size_t n = 1;

    if (text->n < 2 || text->p[0] != ' ' ||
        (text->p[1] == 'm' && text->n > 2 && text->p[2] == '=')) {
        return true;
    }
    while (n < text->n &&
           ((text->p[n] >= 'A' && text->p[n] <= 'Z') || (text->p[n] >= 'a' && text->p[n] <= 'z') ||
            time_is_digit(text->p[n]) || text->p[n] == '+' || text->p[n] == '-')) {
        n++;
    }
    if (n - 1 > TIME_ZONE_NAME_MAX) {
        return false;
    }
    time_skip(text, n);
    return n > 1;
}

/* " m=+0.036177572": Go's monotonic reading, which says nothing to another process. */
static bool time_get_tail(quipu_str *text)
{
    bool digits = false;

    if (text->n == 0) {
        return true;
    }
    if (text->n < 5 || memcmp(text->p, " m=", 3) != 0 || (text->p[3] != '+' && text->p[3] != '-')) {
        return false;
    }
    time_skip(text, 4);
    while (text->n != 0 && time_is_digit(text->p[0])) {
        time_skip(text, 1);
        digits = true;
    }
    if (digits && text->n != 0 && text->p[0] == '.') {
        time_skip(text, 1);
        digits = false;
        while (text->n != 0 && time_is_digit(text->p[0])) {
            time_skip(text, 1);
            digits = true;
        }
    }
    return digits && text->n == 0;
}

/* A bare integer: Unix seconds, or milliseconds past 1e12 in size. The remainder of a negative
 * number of milliseconds is brought into 0 to 999, since nanoseconds count forwards from the
 * second. */
static bool time_get_integer(quipu_str text, quipu_time *ret_time)
{
    bool minus = text.n != 0 && text.p[0] == '-';
    int64_t value = 0;
    int64_t ms = 0;

    if (text.n != 0 && (text.p[0] == '-' || text.p[0] == '+')) {
        time_skip(&text, 1);
    }
    if (text.n == 0 || text.n > 18) {
        return false; /* 18 digits always fit, and no instant that we store needs more */
    }
    for (size_t i = 0; i < text.n; i++) {
        if (!time_is_digit(text.p[i])) {
            return false;
        }
        value = value * 10 + (text.p[i] - '0');
    }
    value = minus ? -value : value;
    if (value > TIME_MS_PAST || value < -TIME_MS_PAST) {
        ms = value % 1000;
        value /= 1000;
        if (ms < 0) {
            ms += 1000;
            value--;
        }
    }
    *ret_time = (quipu_time){value, (uint32_t)(ms * 1000000)};
    return true;
}

/* Every shape that other programs write: RFC 3339, Go's, SQLite's, Unix numbers. Not inlined,
 * so that the stored shape does not pay for saving its registers. */
static QP_NOINLINE bool time_get_any(quipu_str text, quipu_time *ret_time)
{
    quipu_time time;
    int64_t offset_s;
    bool named;

    if (text.n < 19 || text.p[4] != '-') {
        return time_get_integer(text, ret_time);
    }
    if (text.p[10] != ' ' && text.p[10] != 'T' && text.p[10] != 't') {
        return false;
    }
    if (!time_get_civil(text.p, &time.s)) {
        return false;
    }
    time_skip(&text, 19);
    if (!time_get_fraction(&text, &time.ns) || !time_get_offset(&text, &offset_s, &named)) {
        return false;
    }
    if ((named && !time_get_name(&text)) || !time_get_tail(&text)) {
        return false;
    }
    time.s -= offset_s;
    *ret_time = time;
    return true;
}

/* Our own shape first: it is read once a row. */
quipu_status quipu_time_parse(quipu_str text, quipu_time *ret_time)
{
    quipu_time time;

    if (ret_time == NULL) {
        return QUIPU_MISUSE;
    }
    if (text.p == NULL) {
        return QUIPU_INVALID;
    }
    if (time_get_stored(text, &time)) {
        *ret_time = time;
        return QUIPU_OK;
    }
    if (!time_get_any(text, &time) || !qp_time_valid(time)) {
        return QUIPU_INVALID;
    }
    *ret_time = time;
    return QUIPU_OK;
}
