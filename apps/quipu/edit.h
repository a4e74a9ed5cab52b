/* A line of a person with editing and history, by libreadline or libedit where one is installed.
 * For chat. */
#ifndef APPS_QUIPU_EDIT_H
#define APPS_QUIPU_EDIT_H

#include "app.h"

#define APP_EDIT_HISTORY_MAX 200 /* lines that the arrow keys reach */

typedef enum app_edit {
    APP_EDIT_GOT,
    APP_EDIT_MORE, /* the line goes on */
    APP_EDIT_END   /* Ctrl-D in an empty line */
} app_edit;

/* Loads a library. False: none is installed, or this is not a terminal that it could edit on; then
 * lines are read as the terminal gives them. */
bool app_edit_load(void);

/* Adds a line to the history. */
void app_edit_remember(quipu_str line);

/* Shows the prompt on stderr and takes the terminal over; app_edit_end() gives it back. */
void app_edit_begin(const char *prompt);

/* Takes what stdin has; call it when stdin is readable. After APP_EDIT_GOT the terminal is given
 * back and *ret_line is valid until the next app_edit_begin(). A paste is one line with line ends
 * in it. */
app_edit app_edit_read(quipu_str *ret_line);

void app_edit_end(void);

#endif
