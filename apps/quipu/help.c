/* The table of verbs as --help text and as roff for the manual pages.
 *
 * Owns: app_verbs, made from APP_VERBS in app.h. The manual pages in docs/man contain the roff that
 * app_print_roff() writes; tools/check_man.py compares the two, so a changed option needs its page
 * regenerated. */
#include <ctype.h>

#include "app.h"

#define HELP_MARGIN 24      /* columns before the text of an option */
#define HELP_VERB_MARGIN 14 /* where the summary of a verb begins */
#define HELP_COLUMNS 80

const app_verb *const app_verbs[] = {
#define HELP_VERB(name) &app_verb_##name,
    APP_VERBS(HELP_VERB)
#undef HELP_VERB
        NULL};

static const char *const help_groups[APP_GROUP_COUNT] = {
    [APP_GROUP_BEGIN] = "getting started",
    [APP_GROUP_READ] = "reading",
    [APP_GROUP_WRITE] = "writing",
    [APP_GROUP_MAINTAIN] = "maintenance",
};

/* ---- --help ----------------------------------------------------------------------------------
 */

/* A text behind `used` columns, in lines of HELP_COLUMNS that begin at `margin`. */
static void help_wrapped(FILE *out, const char *text, int used, int margin)
{
    quipu_str line;
    size_t at = 0;

    while (app_line_next(quipu_cstr(text), HELP_COLUMNS - margin, &at, &line)) {
        fprintf(out, "%*s", used < margin ? margin - used : 0, "");
        fwrite(line.p, 1, line.n, out);
        fputc('\n', out);
        used = 0;
    }
}

/* The verbs by group, in the order of APP_VERBS. */
void app_print_verbs(FILE *out)
{
    fprintf(out, "usage: quipu VERB [OPTION]... [ARGUMENT]...\n\n"
                 "Stores conversations of AI agents: durable, searchable, in one file.\n");
    for (int group = 0; group < APP_GROUP_COUNT; group++) {
        bool any = false;

        for (size_t i = 0; app_verbs[i] != NULL; i++) {
            if ((int)app_verbs[i]->group == group) {
                fprintf(out, "%s%s%s", any ? "" : "\n", any ? "" : help_groups[group],
                        any ? "" : ":\n");
                fprintf(out, "  %-11s ", app_verbs[i]->name);
                help_wrapped(out, app_verbs[i]->summary, HELP_VERB_MARGIN, HELP_VERB_MARGIN);
                any = true;
            }
        }
    }
    fprintf(out, "\n\"quipu VERB --help\" shows a verb's options; start with \"quipu demo\".\n"
                 "exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 busy\n");
}

/* One option: short form, long form, value, help; the allowed values on a line of their own. */
static void help_option(FILE *out, const app_option *option)
{
    char head[APP_MESSAGE_MAX / 16];
    const int n = snprintf(
        head, sizeof(head), "  %c%c%s --%s%s%s", option->letter != 0 ? '-' : ' ',
        option->letter != 0 ? option->letter : ' ', option->letter != 0 ? "," : " ", option->name,
        option->value != NULL ? " " : "", option->value != NULL ? option->value : "");

    fputs(head, out);
    if (n >= HELP_MARGIN) {
        fputc('\n', out);
    }
    help_wrapped(out, option->help, n < HELP_MARGIN ? n : 0, HELP_MARGIN);
    if (option->choices != NULL) {
        help_wrapped(out, option->choices, 0, HELP_MARGIN);
    }
}

/* The verb's own options first, then its common ones. */
void app_print_help(FILE *out, const app_verb *verb)
{
    fprintf(out, "usage: quipu %s [OPTION]...%s%s\n\n", verb->name,
            verb->arguments[0] != '\0' ? " " : "", verb->arguments);
    help_wrapped(out, verb->summary, 0, 0);
    fputc('\n', out);
    for (size_t i = 0; verb->options != NULL && verb->options[i].name != NULL; i++) {
        help_option(out, &verb->options[i]);
    }
    for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
        if (app_commons[i].bit == 0 || (verb->common & app_commons[i].bit) != 0) {
            help_option(out, &app_commons[i].option);
        }
    }
    if (verb->note != NULL) {
        fputc('\n', out);
        help_wrapped(out, verb->note, 0, 0);
    }
}

/* ---- manual pages ----------------------------------------------------------------------------
 */

/* Text in roff: '-' becomes a minus, '\' is escaped. No text of the table begins with a roff
 * request. */
static void help_roff_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '-') {
            fputs("\\-", out);
        } else if (*c == '\\') {
            fputs("\\e", out);
        } else {
            fputc(*c, out);
        }
    }
}

/* A help text with its first letter in upper case. */
static void help_roff_sentence(FILE *out, const char *text)
{
    fputc(toupper((unsigned char)text[0]), out);
    help_roff_text(out, text + 1);
}

/* One option as a .TP paragraph. */
static void help_roff_option(FILE *out, const app_option *option)
{
    fputs(".TP\n", out);
    if (option->letter != 0) {
        fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    }
    fputs("\\fB\\-\\-", out);
    help_roff_text(out, option->name);
    fputs("\\fR", out);
    if (option->value != NULL) {
        fputs(" \\fI", out);
        help_roff_text(out, option->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    help_roff_sentence(out, option->help);
    if (option->choices != NULL) {
        fputs(" (", out);
        help_roff_text(out, option->choices);
        fputc(')', out);
    }
    fputs(".\n", out);
}

/* The synopsis line of a verb's page. */
static void help_roff_synopsis(FILE *out, const app_verb *verb)
{
    fputs("\\fBquipu ", out);
    help_roff_text(out, verb->name);
    fputs("\\fR [\\fIOPTION\\fR]...", out);
    if (verb->arguments[0] != '\0') {
        fputs(" \\fI", out);
        help_roff_text(out, verb->arguments);
        fputs("\\fR", out);
    }
    fputc('\n', out);
}

/* The VERBS section of quipu.1. */
static void help_roff_verbs(FILE *out)
{
    fputs(".SH VERBS\n", out);
    for (int group = 0; group < APP_GROUP_COUNT; group++) {
        fprintf(out, ".SS %s\n", help_groups[group]);
        for (size_t i = 0; app_verbs[i] != NULL; i++) {
            if ((int)app_verbs[i]->group == group) {
                fputs(".TP\n.BR quipu\\-", out);
                help_roff_text(out, app_verbs[i]->name);
                fputs(" (1)\n", out);
                help_roff_sentence(out, app_verbs[i]->summary);
                fputs(".\n", out);
            }
        }
    }
}

/* NAME, SYNOPSIS and OPTIONS of a verb's page. */
void app_print_roff(FILE *out, const app_verb *verb)
{
    if (verb == NULL) {
        help_roff_verbs(out);
        return;
    }
    fputs(".SH NAME\nquipu\\-", out);
    help_roff_text(out, verb->name);
    fputs(" \\- ", out);
    help_roff_text(out, verb->summary);
    fputs("\n.SH SYNOPSIS\n", out);
    help_roff_synopsis(out, verb);
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; verb->options != NULL && verb->options[i].name != NULL; i++) {
        help_roff_option(out, &verb->options[i]);
    }
    for (size_t i = 0; app_commons[i].option.name != NULL; i++) {
        if (app_commons[i].bit == 0 || (verb->common & app_commons[i].bit) != 0) {
            help_roff_option(out, &app_commons[i].option);
        }
    }
}
