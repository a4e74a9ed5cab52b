/* A conversation as a person likes to read it: for show, tail, chat and the demo. */
#ifndef APPS_QUIPU_RENDER_H
#define APPS_QUIPU_RENDER_H

#include "app.h"

#define APP_RENDER_COLUMNS_MAX 120 /* longer lines are hard to read */
#define APP_RENDER_FOLDED_MAX 256  /* answers that wait for their message to be passed over */

/* An answer to tool calls that stands beside the calls already. */
typedef struct app_folded {
    int64_t seq;
    size_t count; /* of its answers that were shown */
} app_folded;

/* Set out, colours, columns, unfold and live; leave the rest zero. */
typedef struct app_render {
    FILE *out;
    bool colours;
    int columns;
    bool unfold; /* tool calls and answers in full */
    bool live;   /* answers may come later: a call does not say that it has none */
    bool begun;
    int64_t day; /* of the message before, in days since 1970 */
    int64_t fork_seq;
    int number_columns;
    app_folded folded[APP_RENDER_FOLDED_MAX];
    size_t folded_next; /* a ring: the oldest are forgotten */
} app_render;

/* The columns of a conversation: the terminal, as far as lines of that length are easy to read. */
int app_render_columns(void);

/* Tell the renderer which session it is. */
void app_render_set(app_render *render, const quipu_session_info *session);

/* The same, and write the head of the conversation. */
void app_render_head(app_render *render, const quipu_session_info *session);

/* Render messages, oldest first, up to one whose tool calls have no answer yet: with `more`, it is
 * left for the next time, unless it is the first, or the first behind a summary. Gives how many are
 * done. */
size_t app_render_messages(app_render *render, quipu_messages messages, bool more);

/* "user", "assistant"...; "?" for none. */
const char *app_role_name(quipu_role role);

/* The words of all roles, parted by spaces, in the order of their numbers from 1. */
#define APP_ROLES "user assistant tool function model system"

/* The instant as "YYYY-MM-DD HH:MM:SS", or as much of it as `size` takes. */
void app_time_text(quipu_time time, char *ret_text, size_t size);

#endif
