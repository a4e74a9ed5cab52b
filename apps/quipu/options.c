/* The command line of a verb, read by the verb's own table. */
#include <string.h>

#include "app.h"

#define OPTIONS_WORD_MAX 32 /* bytes of a word that is compared with others */

/* ---- did you mean -----------------------------------------------------------------------------
 */

/* How many letters must be changed, added or left out to make one word of the other; swapped
 * neighbours count once. */
static size_t options_distance(const char *a, const char *b)
{
    size_t rows[3][OPTIONS_WORD_MAX + 1];
    const size_t n = strlen(a);
    const size_t m = strlen(b);

    if (n > OPTIONS_WORD_MAX || m > OPTIONS_WORD_MAX) {
        return OPTIONS_WORD_MAX;
    }
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3];
        const size_t *two_before = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = before[j - 1] + (a[i - 1] != b[j - 1]);
            least = before[j] + 1 < least ? before[j] + 1 : least;
            least = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < least) {
                least = two_before[j - 2] + 1;
            }
            now[j] = least;
        }
    }
    return rows[n % 3][m];
}

const char *app_nearest(const char *word, const char *const *names)
{
    const char *nearest = NULL;
    size_t least = strlen(word) / 3 + 2;

    for (size_t i = 0; names[i] != NULL; i++) {
        size_t distance = options_distance(word, names[i]);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool options_unknown(const app_verb *verb, const char *given)
{
    const char *names[APP_OPTIONS_MAX + 1] = {NULL};
    const char *nearest;

    for (size_t i = 0; i < APP_OPTIONS_MAX && verb->options[i].name != NULL; i++) {
        names[i] = verb->options[i].name;
    }
    nearest = app_nearest(given + strspn(given, "-"), names);
    fprintf(stderr, "quipu %s: there is no option %s%s%s%s; see \"quipu %s --help\"\n", verb->name,
            given, nearest != NULL ? "; did you mean --" : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "?" : "", verb->name);
    return false;
}

/* One option at argv[*at], with its value, which may follow behind "=" or as the next word. */
static bool options_read(const app_verb *verb, int argc, char **argv, int *at, app_call *call)
{
    const char *given = argv[*at];
    const char *name = given + 2;
    const size_t n = strcspn(name, "=");

    for (size_t i = 0; strncmp(given, "--", 2) == 0 && verb->options[i].name != NULL; i++) {
        const app_option *option = &verb->options[i];

        if (strlen(option->name) != n || strncmp(option->name, name, n) != 0) {
            continue;
        }
        if (option->value == NULL && name[n] == '\0') {
            call->values[i] = "";
            return true;
        }
        if (option->value != NULL && (name[n] == '=' || *at + 1 < argc)) {
            call->values[i] = name[n] == '=' ? name + n + 1 : argv[++*at];
            return true;
        }
        fprintf(stderr, "quipu %s: --%s %s\n", verb->name, option->name,
                option->value != NULL ? "needs a value" : "takes no value");
        return false;
    }
    return options_unknown(verb, given);
}

bool app_parse(const app_verb *verb, int argc, char **argv, app_call *ret_call)
{
    app_call call = {.verb = verb, .arguments = (const char *const *)argv};
    bool only_arguments = false;

    for (int i = 0; i < argc; i++) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!options_read(verb, argc, argv, &i, &call)) {
                return false;
            }
        } else {
            /* Arguments move to the front: those before are read already. */
            argv[call.argument_count++] = argv[i];
        }
    }
    if (call.argument_count < verb->arguments_min || call.argument_count > verb->arguments_max) {
        fprintf(stderr, "usage: quipu %s [OPTION]... %s\n", verb->name, verb->arguments);
        return false;
    }
    *ret_call = call;
    return true;
}

const char *app_value(const app_call *call, const char *name)
{
    for (size_t i = 0; call->verb->options[i].name != NULL; i++) {
        if (strcmp(call->verb->options[i].name, name) == 0) {
            return call->values[i];
        }
    }
    return NULL;
}

void app_print_help(FILE *out, const app_verb *verb)
{
    fprintf(out, "usage: quipu %s%s%s%s\n\n%s\n", verb->name,
            verb->options[0].name != NULL ? " [OPTION]..." : "",
            verb->arguments[0] != '\0' ? " " : "", verb->arguments, verb->summary);
    for (size_t i = 0; verb->options[i].name != NULL; i++) {
        const app_option *option = &verb->options[i];
        int n =
            fprintf(out, "%s  --%s%s%s", i == 0 ? "\n" : "", option->name,
                    option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
        fprintf(out, "%*s%s\n", n < 22 ? 22 - n + (i == 0 ? 1 : 0) : 1, "", option->help);
    }
}
