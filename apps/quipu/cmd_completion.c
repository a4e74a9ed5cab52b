/* quipu completion: writes a shell script that completes verbs, options and their values, from the
 * table of verbs. Also writes the generated parts of the manual pages, for tools/check_man.py. */
#include <string.h>

#include "app.h"

static const app_option completion_options[] = {
    {.name = "roff", .value = "VERB", .help = "the generated parts of a manual page instead"},
    {.name = NULL},
};

/* Called for each option of a verb, its own and the common ones. */
typedef void (*completion_fn)(const app_verb *verb, const app_option *option);

/* Calls `fn` for each option of a verb, its own and the common ones. */
static void completion_each(const app_verb *verb, completion_fn fn)
{
    for (size_t i = 0; verb->options != NULL && verb->options[i].name != NULL; i++) {
        fn(verb, &verb->options[i]);
    }
    for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
        if (app_commons[i].bit == 0 || (verb->common & app_commons[i].bit) != 0) {
            fn(verb, &app_commons[i].option);
        }
    }
}

#define COMPLETION_KEYS "quipu ls --keys --limit 1000 2>/dev/null"

/* Whether a verb's arguments are keys of sessions. */
static bool completion_takes_keys(const app_verb *verb)
{
    return strncmp(verb->arguments, "KEY", 3) == 0 || strncmp(verb->arguments, "[KEY", 4) == 0;
}

/* A text in single quotes of a shell. */
static void completion_quote(const char *text)
{
    fputc('\'', stdout);
    for (const char *c = text; *c != '\0'; c++) {
        fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, stdout);
    }
    fputc('\'', stdout);
}

/* ---- bash ------------------------------------------------------------------------------------
 */

/* A case that completes the value of an option: its choices, or files. */
static void completion_bash_value(const app_verb *verb, const app_option *option)
{
    if (option->choices != NULL) {
        printf("    %s:--%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n", verb->name,
               option->name, option->choices);
    } else if (option->value != NULL) {
        printf("    %s:--%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", verb->name,
               option->name);
    }
}

/* One word of the list of options. */
static void completion_bash_name(const app_verb *verb, const app_option *option)
{
    (void)verb;
    printf(" --%s", option->name);
}

/* One function with three cases: the verb, the value of an option, the name of an option. */
static void completion_bash(void)
{
    /* compgen -W would run what a key says; this compares, and quotes what it offers. A colon parts
     * words, so that only what follows the last one is offered. */
    printf("# bash completion of quipu; source it: . <(quipu completion bash)\n"
           "_quipu_keys() {\n"
           "    local line=${COMP_LINE:0:$COMP_POINT} key begun\n"
           "    begun=${line##*[ =]}\n"
           "    while IFS= read -r key; do\n"
           "        [[ $key == \"$begun\"* ]] || continue\n"
           "        if [[ $begun == *:* ]]; then key=${key#\"${begun%%:*}:\"}; fi\n"
           "        COMPREPLY+=(\"$(printf %%q \"$key\")\")\n"
           "    done < <(" COMPLETION_KEYS ")\n"
           "    compopt +o filenames 2>/dev/null\n"
           "}\n"
           "_quipu() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local verb=${COMP_WORDS[1]}\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '--help --version");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        printf(" %s", app_verbs[i]->name);
    }
    printf("' -- \"$word\"))\n        return\n    fi\n    case $verb:$before in\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        completion_each(app_verbs[i], completion_bash_value);
        if (app_verbs[i]->words != NULL) {
            printf("    %s:%s) case $word in -*) ;; *)\n"
                   "        COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;; esac ;;\n",
                   app_verbs[i]->name, app_verbs[i]->name, app_verbs[i]->words);
        }
    }
    printf("    esac\n    case $word in\n    -*) case $verb in\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        printf("        %s) COMPREPLY=($(compgen -W '", app_verbs[i]->name);
        completion_each(app_verbs[i], completion_bash_name);
        printf("' -- \"$word\")) ;;\n");
    }
    printf("        esac ;;\n    *) case $verb in\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        if (completion_takes_keys(app_verbs[i])) {
            printf("        %s) _quipu_keys ;;\n", app_verbs[i]->name);
        }
    }
    printf("        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n        esac ;;\n"
           "    esac\n}\n"
           "complete -o filenames -F _quipu quipu\n");
}

/* ---- zsh -------------------------------------------------------------------------------------
 */

/* Help inside a zsh specification: brackets and colons are escaped. */
static void completion_zsh_help(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            fputs("'\\''", stdout);
        } else if (strchr("[]:\\", *c) != NULL) {
            printf("\\%c", *c);
        } else {
            fputc(*c, stdout);
        }
    }
}

/* A specification of _arguments: name, help, value. */
static void completion_zsh_option(const app_verb *verb, const app_option *option)
{
    (void)verb;
    printf("            '--%s%s[", option->name, option->value != NULL ? "=" : "");
    completion_zsh_help(option->help);
    fputc(']', stdout);
    if (option->choices != NULL) {
        printf(":%s:(%s)", option->value, option->choices);
    } else if (option->value != NULL) {
        printf(":%s:_files", option->value);
    }
    printf("' \\\n");
}

/* _describe for verbs, _arguments for each verb's options. */
static void completion_zsh(void)
{
    printf("#compdef quipu\n# zsh completion of quipu; source it: . <(quipu completion zsh)\n"
           "_quipu_keys() {\n    local -a keys\n"
           "    keys=(\"${(@f)$(" COMPLETION_KEYS ")}\")\n    compadd -a keys\n}\n"
           "_quipu() {\n    local -a verbs\n    verbs=(\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        printf("        '%s:", app_verbs[i]->name);
        completion_zsh_help(app_verbs[i]->summary);
        printf("'\n");
    }
    printf("    )\n    if (( CURRENT == 2 )); then\n"
           "        _describe verb verbs\n        return\n    fi\n    case $words[2] in\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        printf("        %s) shift words; (( CURRENT-- )); _arguments \\\n", app_verbs[i]->name);
        completion_each(app_verbs[i], completion_zsh_option);
        if (app_verbs[i]->words != NULL) {
            printf("            '1:word:(%s)' \\\n", app_verbs[i]->words);
        }
        printf("            '*:argument:%s' ;;\n",
               completion_takes_keys(app_verbs[i]) ? "_quipu_keys" : "_files");
    }
    printf("    esac\n}\ncompdef _quipu quipu\n");
}

/* ---- fish ------------------------------------------------------------------------------------
 */

/* fish has a condition for each line: the verb must be on the command line. */
static void completion_fish_option(const app_verb *verb, const app_option *option)
{
    printf("complete -c quipu -n '__fish_seen_subcommand_from %s' -l %s", verb->name, option->name);
    if (option->letter != 0) {
        printf(" -s %c", option->letter);
    }
    if (option->choices != NULL) {
        printf(" -x -a '%s'", option->choices);
    } else if (option->value != NULL) {
        printf(" -r");
    }
    printf(" -d ");
    completion_quote(option->help);
    fputc('\n', stdout);
}

/* One `complete` line for each verb and option. */
static void completion_fish(void)
{
    printf("# fish completion of quipu; source it: quipu completion fish | source\n");
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        printf("complete -c quipu -n __fish_use_subcommand -f -a %s -d ", app_verbs[i]->name);
        completion_quote(app_verbs[i]->summary);
        fputc('\n', stdout);
        completion_each(app_verbs[i], completion_fish_option);
        if (completion_takes_keys(app_verbs[i])) {
            printf("complete -c quipu -n '__fish_seen_subcommand_from %s' -f -a "
                   "'(" COMPLETION_KEYS ")'\n",
                   app_verbs[i]->name);
        }
        if (app_verbs[i]->words != NULL) {
            printf("complete -c quipu -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                   app_verbs[i]->name, app_verbs[i]->words);
        }
    }
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* The generated parts of one page, or of quipu.1. */
static int completion_roff(const app_call *call, const char *name)
{
    for (size_t i = 0; app_verbs[i] != NULL; i++) {
        if (strcmp(app_verbs[i]->name, name) == 0) {
            app_print_roff(stdout, app_verbs[i]);
            return APP_OK;
        }
    }
    if (strcmp(name, "quipu") == 0) {
        app_print_roff(stdout, NULL);
        return APP_OK;
    }
    return app_usage(call, "there is no verb \"%s\"", name);
}

/* The order of `shells` is that of the verb's words. */
static int completion_run(const app_call *call)
{
    static void (*const shells[])(void) = {completion_bash, completion_zsh, completion_fish};

    if (app_given(call, "roff")) {
        return completion_roff(call, app_value(call, "roff"));
    }
    if (call->argument_count == 0) {
        return app_usage(call, "which shell? There are: %s", call->verb->words);
    }
    shells[app_word_number(call->verb->words, call->arguments[0])]();
    return APP_OK;
}

const app_verb app_verb_completion = {
    .name = "completion",
    .group = APP_GROUP_BEGIN,
    .arguments = "bash|zsh|fish",
    .arguments_min = 0,
    .arguments_max = 1,
    .words = "bash zsh fish",
    .summary = "write a completion script for a shell",
    .note = "Examples:\n"
            "  source <(quipu completion bash)\n"
            "  quipu completion zsh > _quipu",
    .options = completion_options,
    .run = completion_run,
};
