/* quipu: the program. Finds the verb, parses the command line by the verb's table, and runs it.
 * Each verb is a file of its own, cmd_<verb>.c.
 *
 * Single-threaded up to here; verbs start threads through term.c and progress.c. The exit code is
 * the verb's, unless stdout could not be written. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "render.h"

/* The verb of a name, or NULL. */
static const app_verb *main_find(const char *name)
{
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        if (strcmp(app_verbs[i]->name, name) == 0) {
            return app_verbs[i];
        }
    }
    return NULL;
}

/* Reports an unknown verb, with the nearest known one. */
static int main_unknown(const char *name)
{
    const char *names[APP_WORDS_MAX + 1] = {NULL};
    const char *nearest;

    for (size_t i = 0; i < APP_WORDS_MAX && app_verbs[i] != NULL; i++) {
        names[i] = app_verbs[i]->name;
    }
    nearest = app_nearest(name, names);
    if (name[0] == '\0' || name[0] == '-') {
        fputs("quipu: ", stderr);
        if (name[0] == '-') {
            app_put(stderr, quipu_cstr(name));
            fputs(" does not stand before a verb: its own options follow it; ", stderr);
        } else {
            fputs("a verb is missing; ", stderr);
        }
        fputs("\"quipu --help\" lists them\n", stderr);
        return APP_USAGE;
    }
    fputs("quipu: there is no verb \"", stderr);
    app_put(stderr, quipu_cstr(name));
    fprintf(stderr, "\"; %s%s%s\"quipu --help\" lists them\n",
            nearest != NULL ? "did you mean \"" : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "\"? " : "");
    return APP_USAGE;
}

/* Whether all of the output arrived: a full disk or a closed pipe must not look like success. An
 * earlier failed write leaves nothing to flush; ferror() remembers it. */
static bool main_arrived(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

/* "quipu help" and "quipu help VERB". */
static int main_help(const char *name)
{
    const app_verb *verb = name != NULL ? main_find(name) : NULL;

    if (name != NULL && verb == NULL) {
        return main_unknown(name);
    }
    if (verb != NULL) {
        app_print_help(stdout, verb);
    } else {
        app_print_verbs(stdout);
    }
    if (!main_arrived()) {
        fprintf(stderr, "quipu: %s\n", app_output_why());
        return APP_FAILURE;
    }
    return APP_OK;
}

/* The common option that a word is, as --name, --name=VALUE or its letter; NULL: none, or --help,
 * which needs no verb. */
static const app_option *main_common(const char *word)
{
    const bool is_long = word[0] == '-' && word[1] == '-';
    const size_t n = is_long ? strcspn(word + 2, "=") : 0;

    for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
        const app_option *option = &app_commons[i].option;
        const bool same =
            is_long
                ? strlen(option->name) == n && memcmp(option->name, word + 2, n) == 0
                : word[0] == '-' && word[1] != '\0' && word[1] == option->letter && word[2] == '\0';

        if (same) {
            return app_commons[i].bit != 0 ? option : NULL;
        }
    }
    return NULL;
}

/* The index of the verb in argv: it may follow common options ("quipu --store chats.db ls"). An
 * option with a separate value takes two places. */
static int main_verb_at(int argc, char **argv)
{
    int at = 1;

    while (at < argc) {
        const app_option *option = main_common(argv[at]);

        if (option == NULL) {
            break;
        }
        at += option->value != NULL && strchr(argv[at], '=') == NULL ? 2 : 1;
    }
    return at < argc ? at : argc;
}

/* Whether --quiet leaves out what the verb prints: a report, which nobody reads as JSON either. */
static bool main_is_silent(const app_call *call)
{
    return (call->verb->common & APP_SILENT) == APP_SILENT && app_given(call, "quiet") &&
           !app_given(call, "json");
}

/* A descriptor of 0 to 2 that is closed would be the next file's that is opened, and what is
 * printed would be written into that. A file that is read only keeps its place: writing still
 * fails. */
static void main_hold_streams(void)
{
    int fd = 0;

    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDONLY);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Parses, runs, and makes sure that the output arrived. */
static int main_run(const app_verb *verb, int argc, char **argv)
{
    app_call call;
    int code;

    if (!app_parse(verb, argc, argv, &call)) {
        return APP_USAGE;
    }
    if (app_given(&call, "help")) {
        app_print_help(stdout, verb);
        code = APP_OK;
    } else {
        app_times_utc(app_given(&call, "utc"));
        if (main_is_silent(&call)) {
            (void)freopen("/dev/null", "w", stdout);
        }
        code = verb->run(&call);
        app_pager_end();
    }
    if (!main_arrived() && code == APP_OK) {
        app_report(&call, "%s", app_output_why());
        code = APP_FAILURE;
    }
    return code;
}

/* Help and version work without a verb; anything else needs one. */
int main(int argc, char **argv)
{
    const int at = main_verb_at(argc, argv);
    const char *word = at < argc ? argv[at] : "";
    const app_verb *verb;

    main_hold_streams();
    if (argc < 2) {
        app_print_verbs(stderr);
        return APP_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        return main_help(at + 1 < argc ? argv[at + 1] : NULL);
    }
    verb = main_find(strcmp(word, "--version") == 0 ? "version" : word);
    if (verb == NULL) {
        return main_unknown(word);
    }
    /* Options before the verb are parsed as if they followed it. */
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(argv[0]));
    return main_run(verb, argc - 2, argv + 2);
}
