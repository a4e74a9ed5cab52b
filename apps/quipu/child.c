/* Programs that the chat starts (child.h).
 *
 * Owns: the pipes and the process of an app_child, until app_child_end(). Called by: tools.c,
 * mcp_client.c. One thread for a child; the signal thread only sets the flag of an app_until.
 * Holds on return of app_child_end(): neither the child nor a process of its group is left. */
#include "child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_SLICE_MS 50  /* the flag of a signal is looked at so often */
#define CHILD_PAUSE_MS 5   /* between two looks whether a process has ended */
#define CHILD_TERM_MS 1000 /* from SIGTERM to SIGKILL */
#define CHILD_READS 40     /* of its stderr at a time: more than a pipe holds */
#define CHILD_FILES 1024   /* descriptors below this are kept from it: a chat opens fewer */

extern char **environ;

int64_t app_clock_ms(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

app_wait app_until_look(const app_until *until)
{
    if (atomic_load(until->stopped)) {
        return APP_WAIT_STOPPED;
    }
    return app_clock_ms() < until->end_ms ? APP_WAIT_GO_ON : APP_WAIT_LATE;
}

/* ---- words -----------------------------------------------------------------------------------
 */

/* A word that only a shell understands: the user expects a shell, but no shell runs. */
static bool child_is_operator(const char *word)
{
    return app_word_number("| || & && ; > >> < << 2>&1", word) >= 0;
}

/* Whether a backslash here makes the next byte an ordinary one. Between double quotes it is one
 * itself, but before a quote or another one; between single quotes always. */
static bool child_escapes(const char *at, const char *end, char quote)
{
    return *at == '\\' && quote != '\'' && at + 1 < end &&
           (quote == '\0' || at[1] == '"' || at[1] == '\\');
}

/* Copies one word to `to`, which has room for it; returns the end of the word in the command. NULL:
 * a quote is open at the end. *ret_plain: nothing of it was quoted. */
static const char *child_word(const char *at, const char *end, char *to, bool *ret_plain)
{
    char quote = '\0';

    *ret_plain = true;
    for (; at < end && (quote != '\0' || strchr(" \t\r\n", *at) == NULL); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
            *ret_plain = false;
        } else if (quote != '\0' && *at == quote) {
            quote = '\0';
        } else if (child_escapes(at, end, quote)) {
            *to++ = *++at;
            *ret_plain = false;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
    return quote == '\0' ? at : NULL;
}

char **app_command_words(quipu_str command, quipu_arena *arena, const char **ret_why)
{
    /* Words are parted by a byte at least; each gets its NUL in place of that. */
    char **words = quipu_arena_alloc(arena, (command.n / 2 + 2) * sizeof(*words));
    char *text = quipu_arena_alloc(arena, command.n + 2);
    const char *at = command.p;
    const char *const end = command.p + command.n;
    size_t count = 0;

    *ret_why = "out of memory";
    if (words == NULL || text == NULL) {
        return NULL;
    }
    for (;;) {
        bool plain;

        while (at < end && strchr(" \t\r\n", *at) != NULL) {
            at++;
        }
        if (at == end) {
            break;
        }
        at = child_word(at, end, text, &plain);
        if (at == NULL) {
            *ret_why = "a quote is not closed";
            return NULL;
        }
        if (plain && child_is_operator(text)) {
            *ret_why = "no shell reads it: write sh -c '...' for pipes and the like";
            return NULL;
        }
        words[count++] = text;
        text += strlen(text) + 1;
    }
    words[count] = NULL;
    *ret_why = "it is empty";
    return count > 0 && words[0][0] != '\0' ? words : NULL;
}

bool app_program_is_there(const char *name)
{
    const char *at = getenv("PATH");
    char path[APP_PATH_MAX];

    if (strchr(name, '/') != NULL || at == NULL) {
        return access(name, X_OK) == 0;
    }
    for (;;) {
        const size_t n = strcspn(at, ":");
        const int length = snprintf(path, sizeof(path), "%.*s/%s", (int)n, at, name);

        if (length > 0 && (size_t)length < sizeof(path) && access(path, X_OK) == 0) {
            return true;
        }
        if (at[n] == '\0') {
            return false;
        }
        at += n + 1;
    }
}

/* ---- starting --------------------------------------------------------------------------------
 */

static void child_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* A pipe whose ends no other program inherits; ours (0: the reading one) does not block. */
static bool child_pipe(int ends[2], int ours)
{
    if (pipe(ends) != 0) {
        ends[0] = ends[1] = -1;
        return false;
    }
    return fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0 &&
           fcntl(ends[ours], F_SETFL, O_NONBLOCK) == 0;
}

/* Whether one of `more` has the name of "NAME=VALUE". */
static bool child_replaces(char *const *more, const char *variable)
{
    const size_t n = strcspn(variable, "=") + 1;

    while (*more != NULL && strncmp(*more, variable, n) != 0) {
        more++;
    }
    return *more != NULL;
}

/* The environment with `more` in place of variables of the same names; NULL without memory. */
static char **child_environment(char *const *more, quipu_arena *arena)
{
    size_t room = 1;
    size_t count = 0;
    char **names;

    for (size_t i = 0; more[i] != NULL; i++) {
        room++;
    }
    for (size_t i = 0; environ[i] != NULL; i++) {
        room++;
    }
    names = quipu_arena_alloc(arena, room * sizeof(*names));
    if (names == NULL) {
        return NULL;
    }
    for (size_t i = 0; more[i] != NULL; i++) {
        names[count++] = more[i];
    }
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!child_replaces(more, environ[i])) {
            names[count++] = environ[i];
        }
    }
    names[count] = NULL;
    return names;
}

/* Closes the program's descriptors in the child: a tool must not get libcurl's connections or the
 * pipe that wakes the chat. */
static void child_keep_files(void)
{
    for (int fd = STDERR_FILENO + 1; fd < CHILD_FILES; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* fails where none is open */
    }
}

/* Starts it on its ends of the pipes, with no signal blocked or ignored. Returns an errno. */
static int child_spawn(app_child *child, char *const *words, char *const *names, const int fds[3])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t usual;
    pid_t pid = 0;
    int failed = posix_spawn_file_actions_init(&files);

    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return failed;
    }
    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &usual);
    for (int fd = 0; fd < 3 && failed == 0; fd++) {
        failed = posix_spawn_file_actions_adddup2(&files, fds[fd], fd);
    }
    if (failed == 0) {
        child_keep_files();
        failed = posix_spawnp(&pid, words[0], &files, &attributes, words, names);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    child->pid = failed == 0 ? (int)pid : 0;
    return failed;
}

bool app_child_start(app_child *child, char *const *words, char *const *more)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    char **names = more != NULL ? child_environment(more, &arena) : environ;
    int failed = ENOMEM;

    if (names != NULL) {
        failed = child_pipe(in, 1) && child_pipe(out, 0) && child_pipe(err, 0) ? 0 : errno;
    }
    *child = (app_child){.input = in[1], .output = out[0], .errors = err[0]};
    if (failed == 0) {
        failed = child_spawn(child, words, names, (int[]){in[0], out[1], err[1]});
    }
    child_close(&in[0]);
    child_close(&out[1]);
    child_close(&err[1]);
    quipu_arena_free(&arena);
    if (failed != 0) {
        (void)app_child_end(child, 0);
        errno = failed;
    }
    return failed == 0;
}

/* ---- speaking --------------------------------------------------------------------------------
 */

/* Keeps the end of what comes on stderr: there stands why it failed. Reads a pipe's worth at most,
 * so that a program that never ends to write holds up nobody. */
static void child_listen(app_child *child)
{
    for (int i = 0; i < CHILD_READS && child->errors >= 0; i++) {
        ssize_t n;

        if (child->said_n == sizeof(child->said)) {
            child->said_n = APP_CHILD_SAID_MAX;
            memmove(child->said, child->said + APP_CHILD_SAID_MAX, APP_CHILD_SAID_MAX);
        }
        n = read(child->errors, child->said + child->said_n, sizeof(child->said) - child->said_n);
        if (n > 0) {
            child->said_n += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            child_close(&child->errors);
        }
    }
}

app_wait app_child_wait(app_child *child, const app_until *until, bool writes)
{
    struct pollfd fds[] = {{.fd = child->output, .events = POLLIN},
                           {.fd = child->errors, .events = POLLIN},
                           {.fd = writes ? child->input : -1, .events = POLLOUT}};
    const int slice = child->output >= 0 ? CHILD_SLICE_MS : CHILD_PAUSE_MS;
    const app_wait look = app_until_look(until);

    if (look == APP_WAIT_GO_ON) {
        (void)poll(fds, sizeof(fds) / sizeof(fds[0]), slice); /* a failure is a short wait */
        child_listen(child);
    }
    return look;
}

bool app_child_write(app_child *child, quipu_str *text)
{
    while (text->n > 0 && child->input >= 0) {
        const ssize_t n = write(child->input, text->p, text->n);

        if (n >= 0) {
            *text = (quipu_str){text->p + n, text->n - (size_t)n};
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            child_close(&child->input);
        }
    }
    return child->input >= 0;
}

void app_child_close_input(app_child *child)
{
    child_close(&child->input);
}

quipu_str app_child_said(const app_child *child)
{
    const size_t n = child->said_n;
    const size_t cut = n > APP_CHILD_SAID_MAX ? n - APP_CHILD_SAID_MAX : 0;
    quipu_str said = {child->said + cut, n - cut};

    while (said.n > 0 && strchr(" \t\r\n", said.p[said.n - 1]) != NULL) {
        said.n--;
    }
    while (said.n > 0 && strchr(" \t\r\n", said.p[0]) != NULL) {
        said = (quipu_str){said.p + 1, said.n - 1};
    }
    return said;
}

/* ---- ending ----------------------------------------------------------------------------------
 */

/* Its number stays its own until it is waited for, so that a signal reaches no other process. */
bool app_child_exited(const app_child *child)
{
    siginfo_t info = {0};

    assert(child->pid > 0);
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

/* Waits for its end, at most so long. */
static bool child_ends(const app_child *child, int64_t most_ms)
{
    const int64_t end = app_clock_ms() + most_ms;

    while (!app_child_exited(child)) {
        if (app_clock_ms() >= end) {
            return false;
        }
        (void)poll(NULL, 0, CHILD_PAUSE_MS);
    }
    return true;
}

/* Its group, and itself: a program can leave its group. */
static void child_kill(const app_child *child, int number)
{
    (void)kill(-child->pid, number);
    (void)kill(child->pid, number);
}

int app_child_end(app_child *child, int64_t grace_ms)
{
    int status = 0;

    child_listen(child);
    child_close(&child->input);
    child_close(&child->output);
    child_close(&child->errors);
    if (child->pid == 0) {
        return 0;
    }
    if (!child_ends(child, grace_ms)) {
        child_kill(child, SIGTERM);
        (void)child_ends(child, CHILD_TERM_MS);
    }
    child_kill(child, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    child->pid = 0;
    return status;
}
