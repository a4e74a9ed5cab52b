/* quipu: the program. It finds the verb, reads the command line by the verb's table, and runs it.
 * Each verb is a file of its own, cmd_<verb>.c. */
#include <string.h>
#include <unistd.h>

#include "app.h"

static const app_verb *main_find(const char *name)
{
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        if (strcmp(app_verbs[i]->name, name) == 0) {
            return app_verbs[i];
        }
    }
    return NULL;
}

static int main_unknown(const char *name)
{
    const char *names[APP_WORDS_MAX + 1] = {NULL};
    const char *nearest;

    for (size_t i = 0; app_verbs[i] != NULL && i < APP_WORDS_MAX; i++) {
        names[i] = app_verbs[i]->name;
    }
    nearest = app_nearest(name, names);
    fputs("quipu: there is no verb \"", stderr);
    app_put(stderr, quipu_cstr(name));
    fprintf(stderr, "\"%s%s%s; \"quipu --help\" lists them\n",
            nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "\"?" : "");
    return APP_USAGE;
}

/* Where the verb stands: behind common options, if any ("quipu --store chats.db ls"). */
static int main_verb_at(int argc, char **argv)
{
    int at = 1;

    while (at < argc && argv[at][0] == '-' && argv[at][1] == '-') {
        const char *name = argv[at] + 2;
        const app_option *option = NULL;

        for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
            if (strcmp(app_commons[i].option.name, name) == 0) {
                option = &app_commons[i].option;
            }
        }
        at += option != NULL && option->value != NULL ? 2 : 1;
    }
    return at < argc ? at : 1;
}

/* Let quipu-net run the verb, which is this program with the network provider: its many libraries
 * would make every other verb start late. It stands beside us, or where it is installed; comes back
 * when it is not there, and the verb says what is missing. */
static void main_hand_over(char **argv)
{
#ifndef QUIPU_WITH_PROVIDER
    static const char *const places[] = {"quipu-net", "../libexec/quipu/quipu-net"};
    char self[APP_PATH_MAX];
    char path[APP_PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(self, '/');
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        const int length =
            snprintf(path, sizeof(path), "%.*s%s", (int)(slash + 1 - self), self, places[i]);
        if (length > 0 && length < (int)sizeof(path)) {
            execv(path, argv);
        }
    }
#else
    (void)argv;
#endif
}

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
        code = verb->run(&call);
    }
    if (fflush(stdout) != 0 && code == APP_OK) {
        code = app_fail_errno(&call, "the output could not be written");
    }
    return code;
}

int main(int argc, char **argv)
{
    const int at = main_verb_at(argc, argv);
    const char *word = argc > 1 ? argv[at] : "";
    const app_verb *verb;

    if (argc < 2) {
        app_print_verbs(stderr);
        return APP_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        app_print_verbs(stdout);
        return APP_OK;
    }
    verb = main_find(strcmp(word, "--version") == 0 ? "version" : word);
    if (verb == NULL) {
        return main_unknown(word);
    }
    if ((verb->common & APP_NETWORK) != 0) {
        main_hand_over(argv);
    }
    /* What stood before the verb is read as if it stood behind it. */
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(argv[0]));
    return main_run(verb, argc - 2, argv + 2);
}
