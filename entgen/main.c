/* The command line of entgen(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/base.h>

#include "entgen/emit.h"
#include "entgen/import.h"
#include "entgen/run.h"
#include "entgen/schema.h"

#define MAIN_USAGE 2 /* exit status: the command line is wrong */

typedef enum main_mode {
    MAIN_GENERATE = 0,
    MAIN_CHECK,
    MAIN_JSON,
    MAIN_SQL,
    MAIN_MERMAID,
    MAIN_PYTHON,
    MAIN_GO,
    MAIN_IMPORT,
} main_mode;

typedef struct main_options {
    main_mode mode;
    const char *dir;
    const char *files[EG_FILES_MAX];
    size_t file_count;
    bool help;
    bool version;
} main_options;

static const char main_help[] =
    "usage: entgen [-o DIR] FILE.ent...      write DIR/<schema>.h and DIR/<schema>.c\n"
    "       entgen --check [-o DIR] FILE...  exit 1 when those files are not up to date\n"
    "       entgen --json FILE...            the schema as JSON\n"
    "       entgen --sql FILE...             the schema as SQLite's DDL\n"
    "       entgen --mermaid FILE...         the schema as a Mermaid diagram\n"
    "       entgen --python FILE...          the views as Python classes\n"
    "       entgen --go FILE...              the views as Go structs\n"
    "       entgen import FILE.db            an existing SQLite file as .ent text\n"
    "       entgen --help | --version\n"
    "\n"
    "Several files form one schema. Errors go to standard error as file:line:column.\n"
    "Exit status: 0 done; 1 errors or a difference; 2 wrong use. See entgen(1).\n";

static int main_usage(const char *complaint, const char *word)
{
    (void)fprintf(stderr, "entgen: %s%s%s\n%s", complaint, word != NULL ? " " : "",
                  word != NULL ? word : "", "Try 'entgen --help'.\n");
    return MAIN_USAGE;
}

/* Standard output, checked to the end: a full disk must not look like success. */
static bool main_print(quipu_str text)
{
    if (fwrite(text.p, 1, text.n, stdout) != text.n || fflush(stdout) != 0) {
        (void)fputs("entgen: cannot write the output\n", stderr);
        return false;
    }
    return true;
}

typedef void (*main_emit_fn)(eg_run *run, const eg_schema *schema, qp_buf *out);

/* The number of the first line that differs, from 1. */
static size_t main_first_difference(quipu_str a, quipu_str b)
{
    size_t line = 1;

    for (size_t i = 0; i < a.n && i < b.n && a.p[i] == b.p[i]; i++) {
        line += a.p[i] == '\n' ? 1 : 0;
    }
    return line;
}

static bool main_check_file(eg_run *run, const char *path, quipu_str text)
{
    bool same = false;
    qp_buf old;

    qp_buf_init(&old, EG_OUTPUT_MAX);
    if (eg_file_read(run, path, &old)) {
        same = quipu_str_eq(qp_buf_str(&old), text);
        if (!same) {
            eg_error_file(run, path, "differs from its schema from line %zu on: run entgen again",
                          main_first_difference(qp_buf_str(&old), text));
        }
    }
    qp_buf_free(&old);
    return same;
}

static bool main_output(eg_run *run, const eg_schema *schema, const main_options *options,
                        const char *ending, main_emit_fn emit)
{
    const char *path = eg_format(run, "%s/%s.%s", options->dir, schema->name.text, ending);
    bool good = false;
    qp_buf text;

    qp_buf_init(&text, EG_OUTPUT_MAX);
    emit(run, schema, &text);
    if (qp_buf_status(&text) != QUIPU_OK) {
        eg_error_file(run, path, "cannot make it: %s", quipu_status_text(qp_buf_status(&text)));
    } else if (options->mode == MAIN_CHECK) {
        good = main_check_file(run, path, qp_buf_str(&text));
    } else {
        good = eg_file_write(run, path, qp_buf_str(&text));
    }
    qp_buf_free(&text);
    return good;
}

static bool main_dump(eg_run *run, const eg_schema *schema, main_emit_fn emit)
{
    bool good;
    qp_buf text;

    qp_buf_init(&text, EG_OUTPUT_MAX);
    emit(run, schema, &text);
    good = qp_buf_status(&text) == QUIPU_OK && main_print(qp_buf_str(&text));
    qp_buf_free(&text);
    return good;
}

static bool main_import(eg_run *run, const char *path)
{
    bool good;
    qp_buf text;

    qp_buf_init(&text, EG_SOURCE_MAX);
    good = eg_import(run, path, &text) && main_print(qp_buf_str(&text));
    qp_buf_free(&text);
    return good;
}

static bool main_run(eg_run *run, const main_options *options)
{
    eg_schema schema;
    bool good;

    if (options->mode == MAIN_IMPORT) {
        return main_import(run, options->files[0]);
    }

    eg_schema_init(&schema);
    if (!eg_schema_load(run, &schema, options->files, options->file_count)) {
        return false;
    }
    switch (options->mode) {
    case MAIN_JSON:
        return main_dump(run, &schema, eg_emit_json);
    case MAIN_SQL:
        return main_dump(run, &schema, eg_emit_sql);
    case MAIN_MERMAID:
        return main_dump(run, &schema, eg_emit_mermaid);
    case MAIN_PYTHON:
        return main_dump(run, &schema, eg_emit_python);
    case MAIN_GO:
        return main_dump(run, &schema, eg_emit_go);
    default:
        break;
    }
    good = main_output(run, &schema, options, "h", eg_emit_header);
    if (good || options->mode == MAIN_CHECK) {
        good = main_output(run, &schema, options, "c", eg_emit_source) && good;
    }
    return good;
}

/* 0, or the exit status of a wrong command line. */
static int main_parse_option(main_options *options, const char *word)
{
    if (strcmp(word, "--check") == 0) {
        options->mode = MAIN_CHECK;
    } else if (strcmp(word, "--json") == 0) {
        options->mode = MAIN_JSON;
    } else if (strcmp(word, "--sql") == 0) {
        options->mode = MAIN_SQL;
    } else if (strcmp(word, "--mermaid") == 0) {
        options->mode = MAIN_MERMAID;
    } else if (strcmp(word, "--python") == 0) {
        options->mode = MAIN_PYTHON;
    } else if (strcmp(word, "--go") == 0) {
        options->mode = MAIN_GO;
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        options->help = true;
    } else if (strcmp(word, "--version") == 0) {
        options->version = true;
    } else {
        return main_usage("unknown option", word);
    }
    return 0;
}

static int main_parse(int argc, char **argv, main_options *options)
{
    bool only_files = false;
    int first = 1;

    if (argc > 1 && strcmp(argv[1], "import") == 0) {
        options->mode = MAIN_IMPORT;
        first = 2;
    }
    for (int i = first; i < argc; i++) {
        const char *word = argv[i];
        if (only_files || word[0] != '-' || word[1] == '\0') {
            if (options->file_count == EG_FILES_MAX) {
                return main_usage("too many files, expected at most 256", NULL);
            }
            options->files[options->file_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            only_files = true;
        } else if (strcmp(word, "-o") == 0) {
            if (i + 1 == argc) {
                return main_usage("a folder must follow", "-o");
            }
            options->dir = argv[++i];
        } else {
            int status = main_parse_option(options, word);
            if (status != 0) {
                return status;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    main_options options = {.dir = "."};
    bool good;
    eg_run run;
    int status = main_parse(argc, argv, &options);

    if (status != 0) {
        return status;
    }
    if (options.help || options.version) {
        return main_print(quipu_cstr(options.help ? main_help : "entgen " QUIPU_VERSION_TEXT "\n"))
                   ? EXIT_SUCCESS
                   : EXIT_FAILURE;
    }
    if (options.file_count == 0) {
        return main_usage("no file was given", NULL);
    }
    if (options.mode == MAIN_IMPORT && options.file_count > 1) {
        return main_usage("import takes one file, not also", options.files[1]);
    }
    eg_run_init(&run);
    good = main_run(&run, &options);
    (void)fputs(qp_buf_str(&run.errors).p, stderr);
    eg_run_free(&run);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
