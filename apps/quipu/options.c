/* The command line of a verb, parsed by the verb's own table and the table of common options.
 *
 * Owns: app_commons. Called by: main.c (parsing) and the verbs (values). Values are pointers into
 * argv; nothing is copied or freed. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

#define OPTIONS_WORD_SIZE 64   /* a proposed word with its NUL */
#define OPTIONS_SHOWN_MAX 4096 /* bytes of an argument in a report */

const app_common app_commons[APP_COMMON_COUNT + 1] = {
    {{.name = "store",
      .value = "URI",
      .help = "the store; else $QUIPU_STORE, else a file in your data folder"},
     APP_STORE},
    {{.name = "tenant", .value = "NAME", .help = "the tenant; default: the one without a name"},
     APP_STORE | APP_STORES},
    {{.name = "wait",
      .value = "SECONDS",
      .help = "how long to wait for other processes that hold the store; default 30"},
     APP_STORE | APP_STORES},
    {{.name = "durability",
      .value = "KIND",
      .choices = APP_DURABILITIES,
      .help = "full survives a power cut; relaxed is faster, and may lose the last writes"},
     APP_ADDS},
    {{.name = "index",
      .value = "WHEN",
      .choices = APP_INDEX_WORDS,
      .help = "when new messages are indexed for search; lazy: with the next search"},
     APP_ADDS},
    {{.name = "max-size",
      .value = "BYTES",
      .help = "fail rather than let the file grow beyond this, such as 512M or 2G"},
     APP_ADDS},
    {{.name = "json", .help = "write JSON instead of text"}, APP_JSON},
    {{.name = "read-only", .help = "open the store read-only"}, APP_READ_ONLY},
    {{.name = "yes", .letter = 'y', .help = "do not ask for confirmation"}, APP_YES},
    {{.name = "color",
      .value = "WHEN",
      .choices = "auto always never",
      .help = "colours; auto: on a terminal"},
     APP_COLOR},
    {{.name = "utc", .help = "show times in UTC, not in the local zone"}, APP_UTC},
    {{.name = "no-pager", .help = "do not page through $PAGER, or less"}, APP_PAGED},
    {{.name = "quiet", .letter = 'q', .help = "show no progress, and do not report success"},
     APP_QUIET},
    {{.name = "help", .letter = 'h', .help = "show this help"}, 0},
    {{.name = NULL}, 0},
};

/* ---- which option ----------------------------------------------------------------------------
 */

/* An option and where its value goes. */
typedef struct options_slot {
    const app_option *option;
    const char **value;
} options_slot;

/* Option number `i` of a verb: its own, then its common ones; false after the last. */
static bool options_at(app_call *call, size_t i, options_slot *ret_slot)
{
    const app_verb *verb = call->verb;
    size_t own = 0;

    for (; verb->options != NULL && verb->options[own].name != NULL; own++) {
        assert(own < APP_OPTIONS_MAX);
        if (own == i) {
            *ret_slot = (options_slot){&verb->options[own], &call->values[own]};
            return true;
        }
    }
    for (size_t c = 0; app_commons[c].option.name != NULL; c++) {
        if (app_commons[c].bit != 0 && (verb->common & app_commons[c].bit) == 0) {
            continue;
        }
        if (own++ == i) {
            *ret_slot = (options_slot){&app_commons[c].option, &call->common[c]};
            return true;
        }
    }
    return false;
}

/* Finds an option by the first n bytes of `name`. */
static bool options_find(app_call *call, const char *name, size_t n, options_slot *ret_slot)
{
    options_slot slot;

    for (size_t i = 0; options_at(call, i, &slot); i++) {
        if (strlen(slot.option->name) == n && memcmp(slot.option->name, name, n) == 0) {
            *ret_slot = slot;
            return true;
        }
    }
    return false;
}

/* Finds an option by its short form. */
static bool options_find_letter(app_call *call, char letter, options_slot *ret_slot)
{
    options_slot slot;

    for (size_t i = 0; options_at(call, i, &slot); i++) {
        if (slot.option->letter == letter) {
            *ret_slot = slot;
            return true;
        }
    }
    return false;
}

/* Reports an unknown option, with the nearest known one. Returns false for the caller. */
static bool options_unknown(app_call *call, const char *given)
{
    const char *names[APP_OPTIONS_MAX + APP_COMMON_COUNT + 1] = {NULL};
    char word[OPTIONS_WORD_SIZE];
    const char *name = given + strspn(given, "-");
    const char *nearest;
    options_slot slot;

    for (size_t i = 0; options_at(call, i, &slot); i++) {
        names[i] = slot.option->name;
    }
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, "="), name);
    nearest = app_nearest(word, names);
    app_usage(call, "there is no option %s; %s%s%ssee \"quipu %s --help\"", given,
              nearest != NULL ? "did you mean --" : "", nearest != NULL ? nearest : "",
              nearest != NULL ? "? " : "", call->verb->name);
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Whether a word is allowed; reported when not. */
static bool options_choose(const app_call *call, const char *what, const char *words,
                           const char *given)
{
    char nearest[OPTIONS_WORD_SIZE];

    if (words == NULL || app_word_number(words, given) >= 0) {
        return true;
    }
    app_word_nearest(words, given, nearest, sizeof(nearest));
    app_usage(call, "%s cannot be \"%s\"; %s%s%sthere are: %s", what, given,
              nearest[0] != '\0' ? "did you mean \"" : "", nearest,
              nearest[0] != '\0' ? "\"? " : "", words);
    return false;
}

/* Stores an option's value: `value` from "--name=VALUE", else `next`, the next word. */
static bool options_take(app_call *call, const options_slot *slot, const char *value,
                         const char *next)
{
    char what[OPTIONS_WORD_SIZE];

    if (slot->option->value == NULL) {
        if (value != NULL) {
            app_usage(call, "--%s takes no value", slot->option->name);
            return false;
        }
        *slot->value = "";
        return true;
    }
    value = value != NULL ? value : next;
    if (value == NULL) {
        app_usage(call, "--%s needs a value: %s", slot->option->name, slot->option->value);
        return false;
    }
    *slot->value = value;
    if (slot->option->repeats) {
        if (call->repeat_count == APP_REPEATS_MAX) {
            app_usage(call, "--%s: a call has at most %d options that may be repeated",
                      slot->option->name, APP_REPEATS_MAX);
            return false;
        }
        call->repeats[call->repeat_count].option = slot->option;
        call->repeats[call->repeat_count++].value = value;
    }
    snprintf(what, sizeof(what), "--%s", slot->option->name);
    return options_choose(call, what, slot->option->choices, value);
}

/* --name, --name=VALUE or --name VALUE at argv[*at]; *at advances over the value. */
static bool options_read_long(app_call *call, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    const size_t n = strcspn(name, "=");
    options_slot slot;

    if (!options_find(call, name, n, &slot)) {
        return options_unknown(call, argv[*at]);
    }
    const bool takes_next = slot.option->value != NULL && name[n] != '=' && *at + 1 < argc;
    const char *next = takes_next ? argv[*at + 1] : NULL;

    *at += takes_next ? 1 : 0;
    return options_take(call, &slot, name[n] == '=' ? name + n + 1 : NULL, next);
}

/* -x, -xVALUE, -x VALUE, or several letters without values: -fq. */
static bool options_read_short(app_call *call, int argc, char **argv, int *at)
{
    const char *given = argv[*at];
    options_slot slot;

    for (size_t i = 1; given[i] != '\0'; i++) {
        if (!options_find_letter(call, given[i], &slot)) {
            return options_unknown(call, given);
        }
        if (slot.option->value != NULL) {
            const bool takes_next = given[i + 1] == '\0' && *at + 1 < argc;
            const char *next = takes_next ? argv[*at + 1] : NULL;

            *at += takes_next ? 1 : 0;
            return options_take(call, &slot, given[i + 1] != '\0' ? given + i + 1 : NULL, next);
        }
        if (!options_take(call, &slot, NULL, NULL)) {
            return false;
        }
    }
    return true;
}

/* The number of arguments, and the first one where the verb lists its words. */
static bool options_check_arguments(const app_call *call)
{
    const app_verb *verb = call->verb;

    if (call->argument_count < verb->arguments_min || call->argument_count > verb->arguments_max) {
        const bool missing = call->argument_count < verb->arguments_min;
        const char *name = verb->arguments;

        if (call->argument_count == 0 && verb->words != NULL) {
            app_report(call, "say what to do: %s", verb->words);
            app_report_more(call, "usage: quipu %s [OPTION]... %s", verb->name, verb->arguments);
            return false;
        }
        /* The first one that is not there: names stand in their order. */
        for (int i = 0; missing && i < call->argument_count && strchr(name, ' ') != NULL; i++) {
            name = strchr(name, ' ') + 1;
        }
        app_report(call, "%s%.*s%s",
                   missing ? "an argument is missing: " : "there are too many arguments, from \"",
                   missing ? (int)strcspn(name, " ") : OPTIONS_SHOWN_MAX,
                   missing ? name : call->arguments[verb->arguments_max], missing ? "" : "\" on");
        app_report_more(call, "usage: quipu %s [OPTION]...%s%s", verb->name,
                        verb->arguments[0] != '\0' ? " " : "", verb->arguments);
        return false;
    }
    return call->argument_count == 0 ||
           options_choose(call, "the first word", verb->words, call->arguments[0]);
}

/* Options may follow arguments, as in GNU programs. */
bool app_parse(const app_verb *verb, int argc, char **argv, app_call *ret_call)
{
    app_call call = {.verb = verb, .arguments = (const char *const *)argv};
    bool only_arguments = false;

    for (int i = 0; i < argc; i++) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && argv[i][0] == '-' && argv[i][1] != '\0') {
            const bool read = argv[i][1] == '-' ? options_read_long(&call, argc, argv, &i)
                                                : options_read_short(&call, argc, argv, &i);
            if (!read) {
                return false;
            }
        } else {
            /* Arguments move to the front of argv, over entries that were parsed already. */
            argv[call.argument_count++] = argv[i];
        }
    }
    if (!app_given(&call, "help") && !options_check_arguments(&call)) {
        return false;
    }
    *ret_call = call;
    return true;
}

/* ---- values ----------------------------------------------------------------------------------
 */

/* The verb's own options hide common ones of the same name. */
const char *app_value(const app_call *call, const char *name)
{
    const app_option *own = call->verb->options;

    for (size_t i = 0; own != NULL && own[i].name != NULL; i++) {
        if (strcmp(own[i].name, name) == 0) {
            return call->values[i];
        }
    }
    for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
        if (strcmp(app_commons[i].option.name, name) == 0) {
            return call->common[i];
        }
    }
    return NULL;
}

const char *app_each_value(const app_call *call, const char *name, size_t *at)
{
    while (*at < call->repeat_count) {
        const size_t i = (*at)++;

        if (strcmp(call->repeats[i].option->name, name) == 0) {
            return call->repeats[i].value;
        }
    }
    return NULL;
}

bool app_given(const app_call *call, const char *name)
{
    return app_value(call, name) != NULL;
}

quipu_str app_text_value(const app_call *call, const char *name)
{
    return quipu_cstr(app_value(call, name));
}

quipu_str app_argument(const app_call *call, int number)
{
    return quipu_cstr(number < call->argument_count ? call->arguments[number] : NULL);
}

bool app_join(const app_call *call, char *ret_text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < call->argument_count; i++) {
        const size_t n = strlen(call->arguments[i]);

        if (used + (i > 0) + n >= size) {
            return false;
        }
        if (i > 0) {
            ret_text[used++] = ' ';
        }
        memcpy(ret_text + used, call->arguments[i], n);
        used += n;
    }
    ret_text[used] = '\0';
    return true;
}

/* Decimal, without white space; strtoll() alone would accept trailing text. */
bool app_number(const app_call *call, const char *name, int64_t least, int64_t most,
                int64_t *ret_value)
{
    const char *given = app_value(call, name);
    char *end = NULL;
    long long value;

    if (given == NULL) {
        return true;
    }
    errno = 0;
    value = strtoll(given, &end, 10);
    if (end == given || *end != '\0' || errno != 0 || value < least || value > most) {
        app_usage(call, "--%s must be a number from %lld to %lld, not \"%s\"", name,
                  (long long)least, (long long)most, given);
        return false;
    }
    *ret_value = value;
    return true;
}

/* The shift is checked before it is applied, so that no value overflows. */
bool app_size(const app_call *call, const char *name, int64_t least, int64_t *ret_bytes)
{
    static const char letters[] = "KMGT";
    const char *given = app_value(call, name);
    char *end = NULL;
    long long count;
    int shift = 0;

    if (given == NULL) {
        return true;
    }
    errno = 0;
    count = strtoll(given, &end, 10);
    const char *letter = *end != '\0' ? strchr(letters, *end) : NULL;
    if (letter != NULL) {
        shift = 10 * (int)(letter - letters + 1);
        end++;
    }
    if (end == given || *end != '\0' || errno != 0 || count < 0 || count > INT64_MAX >> shift ||
        count << shift < least) {
        app_usage(call, "--%s must be a size of at least %lld bytes, such as 512M, not \"%s\"",
                  name, (long long)least, given);
        return false;
    }
    *ret_bytes = (int64_t)count << shift;
    return true;
}

/* A number of seconds, minutes, hours or days, such as 15m. */
static bool options_seconds(const char *text, int64_t *ret_seconds)
{
    static const char letters[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    const int64_t most = 100 * INT64_C(366) * 86400; /* more is surely a typing error */
    char *end = NULL;
    long long count = strtoll(text, &end, 10);
    const char *letter = *end != '\0' ? strchr(letters, *end) : NULL;

    if (end == text || letter == NULL || end[1] != '\0' || count < 0 ||
        count > most / seconds[letter - letters]) {
        return false;
    }
    *ret_seconds = count * seconds[letter - letters];
    return true;
}

/* An age, as a time before now. */
static bool options_age(const char *text, quipu_time *ret_time)
{
    int64_t seconds = 0;

    if (!options_seconds(text, &seconds)) {
        return false;
    }
    *ret_time = quipu_time_now();
    ret_time->s -= seconds;
    return true;
}

bool app_duration(const app_call *call, const char *name, int64_t *ret_ms)
{
    const char *given = app_value(call, name);
    int64_t seconds = 0;

    if (given == NULL) {
        return true;
    }
    if (!options_seconds(given, &seconds) || seconds == 0) {
        app_usage(call, "--%s must be a duration such as 30m, 12h or 7d, not \"%s\"", name, given);
        return false;
    }
    *ret_ms = seconds * 1000;
    return true;
}

/* A day alone means its first moment, in UTC as the store counts days. */
static bool options_day(const char *given, quipu_time *ret_time)
{
    char text[sizeof("YYYY-MM-DDT00:00:00Z")];

    if (strlen(given) != 10) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%sT00:00:00Z", given);
    return quipu_time_parse(quipu_cstr(text), ret_time) == QUIPU_OK;
}

/* An age is tried first: "2h" is not a time. */
bool app_instant(const app_call *call, const char *name, bool *ret_given, quipu_time *ret_time)
{
    const char *given = app_value(call, name);

    *ret_given = given != NULL;
    if (given != NULL && !options_age(given, ret_time) && !options_day(given, ret_time) &&
        quipu_time_parse(quipu_cstr(given), ret_time) != QUIPU_OK) {
        app_usage(call,
                  "--%s must be a time such as 2026-03-21T10:00:00Z, or an age such as 2h, "
                  "not \"%s\"",
                  name, given);
        return false;
    }
    return true;
}
