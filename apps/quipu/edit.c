/* Line editing by a library that is loaded when a person chats (edit.h): libreadline, which takes a
 * paste of several lines as one, else libedit under its names for readline's functions.
 *
 * The library calls back with a line and without a context, so that what is edited is one static
 * struct: a process has one terminal. History stays in memory, filled by the chat from its session:
 * a file of it would keep what `quipu erase` promises to remove.
 *
 * Owns: the line that came last. Called by: cmd_chat.c on the main thread, between turns. Signals
 * are blocked there and taken by another thread (term.c); the library must not install handlers. */
#include "edit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef APP_PROVIDER
#include <dlfcn.h>
#include <locale.h>

/* The functions of the library; both libraries have them under these names. */
static struct {
    bool loaded;
    bool shown; /* the terminal is the library's */
    bool came;
    char *line; /* NULL with `came`: the end */
    void (*install)(const char *prompt, void (*handler)(char *));
    void (*remove)(void);
    void (*read_char)(void);
    int (*add_history)(const char *line);
    void (*stifle_history)(int max);
} edit;

static void edit_on_line(char *line)
{
    free(edit.line);
    edit.line = line;
    edit.came = true;
    edit.remove(); /* before the library shows the next prompt */
    edit.shown = false;
}

/* A function or a variable of the library, or false. */
static bool edit_find(void *handle, const char *name, void *ret, size_t size)
{
    void *symbol = dlsym(handle, name);

    if (symbol != NULL) {
        memcpy(ret, &symbol, size); /* POSIX allows it, ISO C has no cast for it */
    }
    return symbol != NULL;
}

/* Output goes to stderr, where the prompt stands: stdout has the answers only. */
static bool edit_bind(void *handle)
{
    FILE **out = NULL;
    int *catches = NULL;
    void (*begin)(void) = NULL;

    if (!edit_find(handle, "rl_callback_handler_install", &edit.install, sizeof(edit.install)) ||
        !edit_find(handle, "rl_callback_handler_remove", &edit.remove, sizeof(edit.remove)) ||
        !edit_find(handle, "rl_callback_read_char", &edit.read_char, sizeof(edit.read_char)) ||
        !edit_find(handle, "add_history", &edit.add_history, sizeof(edit.add_history)) ||
        !edit_find(handle, "stifle_history", &edit.stifle_history, sizeof(edit.stifle_history)) ||
        !edit_find(handle, "using_history", &begin, sizeof(begin)) ||
        !edit_find(handle, "rl_outstream", &out, sizeof(out))) {
        return false;
    }
    if (edit_find(handle, "rl_catch_signals", &catches, sizeof(catches))) {
        *catches = 0;
    }
    *out = stderr;
    begin();
    edit.stifle_history(APP_EDIT_HISTORY_MAX);
    return true;
}

bool app_edit_load(void)
{
    static const char *const names[] = {"libreadline.so.8", "libreadline.so.7", "libedit.so.2",
                                        "libedit.so.0", "libedit.dylib"};
    const char *wanted = getenv("QUIPU_EDITOR_LIBRARY");
    const char *term = getenv("TERM");

    if (term == NULL || strcmp(term, "dumb") == 0 || isatty(STDERR_FILENO) == 0) {
        return false;
    }
    /* In a locale of single bytes the library would take a letter beyond ASCII for several keys. */
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !edit.loaded; i++) {
        /* The variable chooses one of them, or "none"; a path would be somebody else's code. */
        void *handle = wanted == NULL || strstr(names[i], wanted) == names[i]
                           ? dlopen(names[i], RTLD_NOW | RTLD_LOCAL)
                           : NULL;

        edit.loaded = handle != NULL && edit_bind(handle);
    }
    return edit.loaded;
}

void app_edit_remember(quipu_str line)
{
    char *copy = edit.loaded && line.n > 0 ? malloc(line.n + 1) : NULL;

    if (copy != NULL) {
        memcpy(copy, line.p, line.n);
        copy[line.n] = '\0';
        (void)edit.add_history(copy);
        free(copy);
    }
}

void app_edit_begin(const char *prompt)
{
    edit.came = false;
    edit.shown = true;
    edit.install(prompt, edit_on_line);
}

app_edit app_edit_read(quipu_str *ret_line)
{
    edit.read_char();
    if (!edit.came) {
        return APP_EDIT_MORE;
    }
    if (edit.line == NULL) {
        return APP_EDIT_END;
    }
    *ret_line = quipu_cstr(edit.line);
    return APP_EDIT_GOT;
}

void app_edit_end(void)
{
    if (edit.shown) {
        edit.remove();
        edit.shown = false;
    }
}
#else
/* A program that loads no library, as the static one, reads lines as the terminal gives them. */
bool app_edit_load(void)
{
    return false;
}

void app_edit_remember(quipu_str line)
{
    (void)line;
}

void app_edit_begin(const char *prompt)
{
    (void)prompt;
}

app_edit app_edit_read(quipu_str *ret_line)
{
    (void)ret_line;
    return APP_EDIT_END;
}

void app_edit_end(void)
{
}
#endif
