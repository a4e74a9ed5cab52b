/* A program that the chat starts and speaks to over pipes: the command of a tool, or a server of
 * the Model Context Protocol. No shell reads its words. */
#ifndef APPS_QUIPU_CHILD_H
#define APPS_QUIPU_CHILD_H

#include <stdatomic.h>

#include "app.h"

#define APP_CHILD_SAID_MAX 2000 /* bytes that are kept of the end of its stderr */

/* A running program, the leader of a process group of its own: Ctrl-C of the terminal does not
 * reach it. Our ends of the pipes do not block. */
typedef struct app_child {
    int pid;    /* 0: none */
    int input;  /* its stdin; -1: closed */
    int output; /* its stdout; -1: at its end */
    int errors; /* its stderr; -1: at its end */
    char said[2 * APP_CHILD_SAID_MAX];
    size_t said_n;
} app_child;

/* How long something may take. */
typedef struct app_until {
    int64_t end_ms;             /* by app_clock_ms() */
    const atomic_bool *stopped; /* set by a signal */
} app_until;

typedef enum app_wait {
    APP_WAIT_GO_ON, /* something may have happened: read, write, look */
    APP_WAIT_LATE,
    APP_WAIT_STOPPED
} app_wait;

/* Milliseconds of a clock that only goes forward. */
int64_t app_clock_ms(void);

/* Whether there is time left. */
app_wait app_until_look(const app_until *until);

/* Splits a command into words as a shell does: at white space, with '...', "..." and \; nothing is
 * replaced. The result ends with NULL and lies in the arena. NULL: *ret_why says why. */
char **app_command_words(quipu_str command, quipu_arena *arena, const char **ret_why);

/* Whether a program can be started by this name, as app_child_start() looks for it. */
bool app_program_is_there(const char *name);

/* Starts a program that is looked up in $PATH; `more` (or NULL) are further "NAME=VALUE" of its
 * environment, ending with NULL. False: errno is set. */
bool app_child_start(app_child *child, char *const *words, char *const *more);

/* Waits a moment for output, or for room when there is something to write; keeps what comes on its
 * stderr. */
app_wait app_child_wait(app_child *child, const app_until *until, bool writes);

/* Writes what fits of *text, which advances. False: it reads no more, and its stdin is closed. */
bool app_child_write(app_child *child, quipu_str *text);

/* Nothing more is written to it. */
void app_child_close_input(app_child *child);

/* Whether it has ended; app_child_end() is still to be called. */
bool app_child_exited(const app_child *child);

/* Closes the pipes, waits `grace_ms` for it to end by itself, then ends it and all that it left
 * running. Returns its status as waitpid() does; a child that never started is fine. */
int app_child_end(app_child *child, int64_t grace_ms);

/* The end of what it wrote to its stderr, without white space around it. */
quipu_str app_child_said(const app_child *child);

#endif
