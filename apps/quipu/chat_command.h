/* The commands of a chat: lines that begin with "/". For chat. */
#ifndef APPS_QUIPU_CHAT_COMMAND_H
#define APPS_QUIPU_CHAT_COMMAND_H

#include <quipu/model.h>

#include "app.h"
#include "tools.h"

#define APP_CHAT_FILES_MAX 16               /* files that go with one message */
#define APP_CHAT_FILE_MAX INT64_C(20971520) /* 20 MiB: providers take no more in one request */

/* The state that commands change. Texts lie in the arena. */
typedef struct app_chat_state {
    const app_call *call;
    quipu_store *store;
    quipu_arena *arena;
    quipu_str key;
    quipu_str model;
    const app_tools *tools;
    quipu_part files[APP_CHAT_FILES_MAX]; /* of the next message */
    size_t file_count;
    bool ended; /* /quit */
} app_chat_state;

/* Runs a line that is a command; *ret_said is what to send instead of the line: the line itself, or
 * without the first "/" of two. False: it was a command, and nothing is sent. */
bool app_chat_command(app_chat_state *state, quipu_str line, quipu_str *ret_said);

#endif
