/* quipu: the program. One table of verbs drives what is run and what --help says; each verb is a
 * file of its own, cmd_<verb>.c. */
#include <string.h>

#include "app.h"

#define MAIN_VERBS_MAX 64

static const app_verb verbs[] = {
    {"demo", "[FOLDER]", 0, 1, "play a conversation of several agents and show what was kept",
     app_demo_options, app_demo},
    {"import", "FILE", 1, 1, "bring in sessions from Google ADK, Lango or an export",
     app_import_options, app_import},
    {"version", "", 0, 0, "tell the version", app_version_options, app_version},
};

#define MAIN_VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static void main_print_help(FILE *out)
{
    fprintf(out, "usage: quipu VERB [OPTION]... [ARGUMENT]...\n\n"
                 "Keeps conversations of AI agents: durable, searchable, in one file.\n\n");
    for (size_t i = 0; i < MAIN_VERB_COUNT; i++) {
        fprintf(out, "  %-8s %-9s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
    }
    fprintf(out,
            "\n\"quipu VERB --help\" tells a verb's options; \"quipu demo\" is where to begin.\n"
            "exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 busy\n");
}

static const app_verb *main_find(const char *name)
{
    for (size_t i = 0; i < MAIN_VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static int main_unknown(const char *name)
{
    const char *names[MAIN_VERBS_MAX + 1] = {NULL};
    const char *nearest;

    for (size_t i = 0; i < MAIN_VERB_COUNT; i++) {
        names[i] = verbs[i].name;
    }
    nearest = app_nearest(name, names);
    fprintf(stderr, "quipu: there is no verb \"%s\"%s%s%s; \"quipu --help\" lists them\n", name,
            nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "\"?" : "");
    return APP_USAGE;
}

int main(int argc, char **argv)
{
    const app_verb *verb;
    app_call call;

    if (argc < 2) {
        main_print_help(stderr);
        return APP_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        main_print_help(stdout);
        return APP_OK;
    }
    verb = main_find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (verb == NULL) {
        return main_unknown(argv[1]);
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            app_print_help(stdout, verb);
            return APP_OK;
        }
    }
    if (!app_parse(verb, argc - 2, argv + 2, &call)) {
        return APP_USAGE;
    }
    int code = verb->run(&call);
    if (fflush(stdout) != 0 && code == APP_OK) {
        perror("quipu: the output could not be written");
        code = APP_FAILURE;
    }
    return code;
}
