/* The terminal: width and colours, the pager, signals.
 *
 * Threads: app_signals_listen() starts one that waits in sigwait(2); it runs until the process
 * exits. Signals are blocked in all threads that start later. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

extern char **environ;

/* ---- width and colours ------------------------------------------------------------------------
 */

/* The descriptor of stdout before a pager took its place. */
static struct {
    int pid;   /* 0: no pager runs */
    int saved; /* the original stdout */
    void (*interrupt)(int);
} term_pager;

static int term_out(void)
{
    return term_pager.pid != 0 ? term_pager.saved : STDOUT_FILENO;
}

bool app_out_is_terminal(void)
{
    return isatty(term_out()) == 1;
}

/* The terminal first, then $COLUMNS, then the default; always within APP_COLUMNS_MIN and _MAX. */
int app_columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size = {0};
    long columns = 0;

    if (ioctl(term_out(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        columns = size.ws_col;
    } else if (given != NULL) {
        char *end = NULL;
        columns = strtol(given, &end, 10);
        columns = *end == '\0' ? columns : 0;
    }
    if (columns <= 0) {
        columns = APP_COLUMNS_DEFAULT;
    }
    columns = columns < APP_COLUMNS_MIN ? APP_COLUMNS_MIN : columns;
    return (int)(columns > APP_COLUMNS_MAX ? APP_COLUMNS_MAX : columns);
}

/* NO_COLOR as on no-color.org; --color overrides it. */
bool app_colours(const app_call *call)
{
    const char *when = app_value(call, "color");
    const char *no_color = getenv("NO_COLOR");
    const char *kind = getenv("TERM");

    if (when != NULL && strcmp(when, "auto") != 0) {
        return strcmp(when, "always") == 0;
    }
    return app_out_is_terminal() && (no_color == NULL || no_color[0] == '\0') &&
           (kind == NULL || strcmp(kind, "dumb") != 0);
}

/* Without colours every style is empty, so callers need no condition. */
const char *app_style(bool colours, app_look look)
{
    static const char *const sequences[] = {
        [APP_PLAIN] = "\033[0m", [APP_BOLD] = "\033[1m",     [APP_DIM] = "\033[2m",
        [APP_RED] = "\033[31m",  [APP_GREEN] = "\033[32m",   [APP_YELLOW] = "\033[33m",
        [APP_BLUE] = "\033[34m", [APP_MAGENTA] = "\033[35m", [APP_CYAN] = "\033[36m",
    };

    return colours ? sequences[look] : "";
}

/* A descriptor that was closed has a file that is read only (main.c). */
const char *app_output_why(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        return "the output could not be written: it is closed";
    }
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0
               ? "the output could not be written: nobody reads it any more"
               : "the output could not be written: is the disk full?";
}

/* ---- the pager --------------------------------------------------------------------------------
 */

/* The pager without $PAGER: less or, where it is not installed, the output as it is. */
#define TERM_PAGER "if command -v less >/dev/null 2>&1; then exec less -FRX; else exec cat; fi"

/* Starts `sh -c $PAGER` with the pipe as its stdin; returns its pid, 0 on failure. */
static int term_pager_spawn(const char *command, int reading, int writing)
{
    char shell[] = "sh";
    char flag[] = "-c";
    char text[APP_PATH_MAX];
    char *const arguments[] = {shell, flag, text, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;

    if (snprintf(text, sizeof(text), "%s", command) >= (int)sizeof(text) ||
        posix_spawn_file_actions_init(&actions) != 0) {
        return 0;
    }
    /* less: quit when everything fits on one screen, pass colours, do not clear the screen. */
    (void)setenv("LESS", "FRX", 0);
    (void)setenv("LESSCHARSET", "utf-8", 0); /* it is that in any locale */
    if (posix_spawn_file_actions_adddup2(&actions, reading, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, writing) != 0 ||
        posix_spawnp(&pid, shell, &actions, NULL, arguments, environ) != 0) {
        pid = 0;
    }
    posix_spawn_file_actions_destroy(&actions);
    return (int)pid;
}

/* Redirects stdout into the pipe; without a pager nothing changes. An empty $PAGER means no
 * pager. */
void app_pager_begin(const app_call *call)
{
    const char *named = getenv("PAGER");
    const char *command = named != NULL ? named : TERM_PAGER;
    const int saved = dup(STDOUT_FILENO);
    int ends[2];

    assert(term_pager.pid == 0);
    if (command[0] == '\0' || strcmp(command, "cat") == 0 || isatty(STDOUT_FILENO) != 1 ||
        app_given(call, "no-pager") || saved < 0 || pipe(ends) != 0) {
        if (saved >= 0) {
            close(saved);
        }
        return;
    }
    (void)fcntl(saved, F_SETFD, FD_CLOEXEC);
    fflush(stdout);
    term_pager.saved = saved;
    term_pager.pid = term_pager_spawn(command, ends[0], ends[1]);
    close(ends[0]);
    if (term_pager.pid != 0) {
        dup2(ends[1], STDOUT_FILENO);
        term_pager.interrupt = signal(SIGINT, SIG_IGN); /* Ctrl-C is the pager's */
    } else {
        close(saved);
    }
    close(ends[1]);
}

/* Restores stdout, which closes the pipe, and waits. */
void app_pager_end(void)
{
    if (term_pager.pid == 0) {
        return;
    }
    fflush(stdout);
    dup2(term_pager.saved, STDOUT_FILENO);
    close(term_pager.saved);
    while (waitpid(term_pager.pid, NULL, 0) < 0 && errno == EINTR) {
    }
    term_pager.pid = 0;
    if (term_pager.interrupt != SIG_ERR) {
        (void)signal(SIGINT, term_pager.interrupt);
    }
}

/* ---- signals ----------------------------------------------------------------------------------
 */

static atomic_bool term_signal_came;
static bool term_listens; /* somebody gets the signals; written by the main thread */

/* The receiver of signals; static, because its thread runs until the process exits. */
typedef struct term_listener {
    app_signal_fn fn;
    void *ctx;
    sigset_t set;
} term_listener;

/* The signal thread. The receiver takes locks, which a signal handler must not. */
static void *term_listen(void *ctx)
{
    const term_listener *listener = ctx;
    int number = 0;

    while (sigwait(&listener->set, &number) == 0) {
        listener->fn(listener->ctx, number);
    }
    return NULL;
}

/* The mask is set before the thread starts, which inherits it. A terminal that is closed ends the
 * program in order, too, unless it was started with nohup(1). */
bool app_signals_listen(app_signal_fn fn, void *ctx)
{
    static term_listener listener;
    struct sigaction hangup = {0};
    pthread_t thread;

    assert(!term_listens); /* a second receiver would take the place of the first one */
    listener = (term_listener){.fn = fn, .ctx = ctx};
    sigemptyset(&listener.set);
    sigaddset(&listener.set, SIGINT);
    sigaddset(&listener.set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
        sigaddset(&listener.set, SIGHUP);
    }
    if (pthread_sigmask(SIG_BLOCK, &listener.set, NULL) != 0 ||
        pthread_create(&thread, NULL, term_listen, &listener) != 0) {
        return false;
    }
    pthread_detach(thread);
    term_listens = true;
    return true;
}

/* The receiver for app_signals_begin(). */
static void term_stop(void *cancel, int number)
{
    (void)number;
    atomic_store(&term_signal_came, true);
    quipu_cancel_set(cancel);
}

/* Called from the main thread only, hence no lock. */
quipu_cancel *app_signals_begin(void)
{
    static quipu_cancel *begun;
    quipu_cancel *cancel;

    if (term_listens) {
        return begun;
    }
    cancel = quipu_cancel_new();
    if (cancel == NULL || !app_signals_listen(term_stop, cancel)) {
        quipu_free(cancel);
        return NULL;
    }
    begun = cancel;
    return cancel;
}

bool app_signals_came(void)
{
    return atomic_load(&term_signal_came);
}
