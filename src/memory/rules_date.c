/* Dates in a sentence; the head of rules_date.h has the forms.
 *
 * Pure. Days are counted from 1970-01-01 in the proleptic Gregorian calendar; nothing here knows
 * time zones, so that a day is a day in UTC.
 * Called by rules.c, for each sentence that could have a date. */
#include "memory/rules_date.h"

#include <assert.h>
#include <string.h>

#include "base/time.h"

#define DATE_DAY_S 86400   /* leap seconds are not counted */
#define DATE_YEAR_MIN 1900 /* older and later years are numbers of something else */
#define DATE_YEAR_MAX 2200
#define DATE_PAST_DAYS 180 /* a day without a year is at most so long ago */

static const char *const rules_date_months[] = {"january jan", "february feb", "march mar",
                                                "april apr",   "may",          "june jun",
                                                "july jul",    "august aug",   "september sept sep",
                                                "october oct", "november nov", "december dec"};

static const char *const rules_date_weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                                  "friday", "saturday", "sunday"};

/* The number of a day; months count from 1. March is the first month of the year that is counted
 * here, so that the day of a leap year comes last. */
static int64_t rules_date_number(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t m = month <= 2 ? month + 9 : month - 3;
    const int64_t in_year = (153 * m + 2) / 5 + day - 1;

    assert(year > 0 && month >= 1 && month <= 12);
    return 365 * y + y / 4 - y / 100 + y / 400 + in_year - 719468;
}

/* The year of a day. */
static int64_t rules_date_year(int64_t number)
{
    /* A first guess: days of a leap year make it a little early, and the loops correct it. */
    int64_t year = 1970 + number / 366;

    while (rules_date_number(year + 1, 1, 1) <= number) {
        year++;
    }
    while (rules_date_number(year, 1, 1) > number) {
        year--;
    }
    return year;
}

/* Checked by the length of the month: 30 February does not exist, 29 February only in leap
 * years. */
static bool rules_date_is_day(int64_t year, int64_t month, int64_t day)
{
    const int64_t next =
        month == 12 ? rules_date_number(year + 1, 1, 1) : rules_date_number(year, month + 1, 1);

    return day >= 1 && day <= next - rules_date_number(year, month, 1);
}

/* A number of at most four digits, with "st", "nd", "rd" or "th" behind it; -1 for other texts. */
static int64_t rules_date_digits(const qp_rules_word *word)
{
    int64_t value = 0;
    size_t i = 0;

    /* Four digits are a year at most. */
    while (i < word->n && i < 4 && word->lower[i] >= '0' && word->lower[i] <= '9') {
        value = 10 * value + (word->lower[i++] - '0');
    }
    const char *rest = word->lower + i;
    const bool ends = *rest == '\0' || strcmp(rest, "st") == 0 || strcmp(rest, "nd") == 0 ||
                      strcmp(rest, "rd") == 0 || strcmp(rest, "th") == 0;

    return i > 0 && ends ? value : -1;
}

/* The month that a word names, from 1; 0 when it names none. */
static int64_t rules_date_month(const qp_rules_word *word)
{
    for (size_t i = 0; i < 12; i++) {
        /* "May" and "March" in small letters are a verb and a noun. */
        if (word->capital && qp_rules_in(word, rules_date_months[i])) {
            return (int64_t)i + 1;
        }
    }
    return 0;
}

/* A day of a month, with or without a year: then the one in this year, or in the next when this
 * year's is long past. */
static bool rules_date_of(int64_t today, int64_t month, int64_t day, int64_t year, int64_t *ret)
{
    const bool given = year >= DATE_YEAR_MIN && year <= DATE_YEAR_MAX;

    if (!given) {
        year = rules_date_year(today);
    }
    if (month < 1 || month > 12 || !rules_date_is_day(year, month, day)) {
        return false;
    }
    *ret = rules_date_number(year, month, day);
    /* 29 February exists only in some years: then the date stays in this one. */
    if (!given && *ret < today - DATE_PAST_DAYS && rules_date_is_day(year + 1, month, day)) {
        *ret = rules_date_number(year + 1, month, day);
    }
    return true;
}

/* "2026-11-16", as the splitter of words keeps it together. */
static bool rules_date_iso(const qp_rules_word *word, int64_t *ret)
{
    int64_t part[3] = {0, 0, 0};

    /* The shape is fixed: two dashes at their places. */
    if (word->n != 10 || word->lower[4] != '-' || word->lower[7] != '-') {
        return false;
    }
    for (size_t i = 0, p = 0; i < 10; i++) {
        if (i == 4 || i == 7) {
            p++;
        } else if (word->lower[i] < '0' || word->lower[i] > '9') {
            return false;
        } else {
            part[p] = 10 * part[p] + (word->lower[i] - '0');
        }
    }
    if (part[0] < DATE_YEAR_MIN || part[0] > DATE_YEAR_MAX || part[1] < 1 || part[1] > 12 ||
        !rules_date_is_day(part[0], part[1], part[2])) {
        return false;
    }
    *ret = rules_date_number(part[0], part[1], part[2]);
    return true;
}

/* "Nov 16, 2026" and "16 November 2026", each also without the year. */
static bool rules_date_named(const qp_rules_sentence *sentence, size_t at, int64_t today,
                             int64_t *ret)
{
    const qp_rules_word *words = sentence->words;
    const int64_t month = rules_date_month(&words[at]);
    const size_t left = sentence->count - at - 1;

    if (month == 0) {
        return false;
    }
    const int64_t before = at > 0 ? rules_date_digits(&words[at - 1]) : -1;
    const int64_t behind = left > 0 ? rules_date_digits(&words[at + 1]) : -1;

    /* "16 November 2026": the year stands behind the month. */
    if (before >= 1 && before <= 31) {
        return rules_date_of(today, month, before, behind, ret);
    }
    return behind >= 1 && behind <= 31 &&
           rules_date_of(today, month, behind, left > 1 ? rules_date_digits(&words[at + 2]) : -1,
                         ret);
}

/* Expressions that count from the day of the message; *ret_days: how many days they cover. */
static bool rules_date_relative(const qp_rules_sentence *sentence, size_t at, int64_t today,
                                int64_t *ret, int64_t *ret_days)
{
    const int64_t weekday = ((today + 3) % 7 + 7) % 7; /* 1970-01-01 was a Thursday; Monday is 0 */
    const qp_rules_word *word = &sentence->words[at];

    *ret_days = 1;
    if (qp_rules_in(word, "today tonight")) {
        *ret = today;
    } else if (qp_rules_in(word, "tomorrow")) {
        *ret = today + 1;
    } else if (qp_rules_in(word, "yesterday")) {
        *ret = today - 1;
    } else if (qp_rules_match(sentence, at, "next week") > 0) {
        *ret = today - weekday + 7;
        *ret_days = 7;
    } else {
        /* A weekday alone may be in the past ("I was there on Monday"): it needs a word before
         * it. */
        if (!qp_rules_in(word, "next on this by until") || at + 1 >= sentence->count) {
            return false;
        }
        for (int64_t i = 0; i < 7; i++) {
            if (qp_rules_match(sentence, at + 1, rules_date_weekdays[i]) > 0) {
                /* The coming one; on the same weekday the one a week later. */
                *ret = today + ((i - weekday + 6) % 7) + 1;
                return true;
            }
        }
        return false;
    }
    return true;
}

/* Whether a date may begin with a word, by its first letter: most words are sorted out here. */
static bool rules_date_may_begin(const qp_rules_word *word)
{
    const char first = word->lower[0];

    return !word->quoted &&
           (word->capital || (first >= '0' && first <= '9') || strchr("tynobu", first) != NULL);
}

/* The first date of a sentence counts. Relative ones ("tomorrow", "next week") refer to the day on
 * which it was said, not to the day on which it is read. */
bool qp_rules_date(const qp_rules_sentence *sentence, quipu_time said_at, qp_rules_days *ret)
{
    /* Times before 1970 are negative, and division rounds towards zero. */
    const int64_t today =
        (said_at.s - (said_at.s < 0 ? DATE_DAY_S - 1 : 0)) / DATE_DAY_S; /* floor */
    int64_t day = 0;
    int64_t days = 1;
    bool found = false;

    for (size_t i = 0; i < sentence->count && !found; i++) {
        if (rules_date_may_begin(&sentence->words[i])) {
            found = rules_date_iso(&sentence->words[i], &day) ||
                    rules_date_named(sentence, i, today, &day) ||
                    rules_date_relative(sentence, i, today, &day, &days);
        }
    }
    if (found) {
        ret->from = (quipu_time){day * DATE_DAY_S, 0};
        /* The last nanosecond of the last day: ranges are closed on both sides. */
        ret->to = (quipu_time){(day + days) * DATE_DAY_S - 1, QP_TIME_NS_MAX};
    }
    /* No column holds a year of five digits. */
    return found && qp_time_valid(ret->from) && qp_time_valid(ret->to);
}
