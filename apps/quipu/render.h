/* A conversation as readable text: for show, tail, chat and the demo. */
#ifndef APPS_QUIPU_RENDER_H
#define APPS_QUIPU_RENDER_H

#include "app.h"

#define APP_RENDER_COLUMNS_MAX 120 /* longer lines are hard to read */
#define APP_RENDER_FOLDED_MAX 256  /* answers printed beside their call, to be skipped later */

/* A message with answers that were printed beside their calls. */
typedef struct app_folded {
    int64_t seq;
    size_t count; /* how many of its answers were printed */
} app_folded;

/* Set out, colours, columns, unfold and live; leave the rest zero. */
typedef struct app_render {
    FILE *out;
    bool colours;
    int columns;
    bool unfold; /* tool calls and answers in full */
    bool live;   /* answers may come later: an open call is not marked as unanswered */
    bool begun;
    int64_t day; /* of the previous message, in days since 1970 */
    int64_t fork_seq;
    int number_columns;
    app_folded folded[APP_RENDER_FOLDED_MAX];
    size_t folded_next; /* a ring buffer: the oldest entry is overwritten */
} app_render;

/* The width of a conversation: the terminal's, at most APP_RENDER_COLUMNS_MAX. */
int app_render_columns(void);

/* Sets the session: the width of message numbers, and where it was forked. */
void app_render_set(app_render *render, const quipu_session_info *session);

/* The same, and prints the session's head. */
void app_render_head(app_render *render, const quipu_session_info *session);

/* Names the artifacts of the session and its user, behind the head. */
void app_render_artifacts(app_render *render, quipu_artifacts artifacts);

/* Prints messages, oldest first. With `more`, stops before a message whose tool calls are not
 * answered yet, unless it is the first or the first after a summary, and before the last few: the
 * next page may have the answers, or remove some. Messages that a later one removes (pop_item() of
 * OpenAI Agents) are passed over. Returns how many were passed. */
size_t app_render_messages(app_render *render, quipu_messages messages, bool more);

/* "user", "assistant"...; "?" for an unknown role. */
const char *app_role_name(quipu_role role);

/* The names of all roles, separated by spaces, in the order of their values from 1. */
#define APP_ROLES "user assistant tool function model system"

/* A time as "YYYY-MM-DD HH:MM:SS", cut to `size`: in the local zone, or in UTC with --utc. */
void app_time_text(quipu_time time, char *ret_text, size_t size);
void app_time_text_utc(quipu_time time, char *ret_text, size_t size);

/* Whether times are shown in UTC. Called once, before a verb runs. */
void app_times_utc(bool utc);

#endif
