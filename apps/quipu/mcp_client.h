/* A client of the Model Context Protocol, as far as tools need it: starts a server, lists its
 * tools, calls them. Messages are lines over the server's stdin and stdout. */
#ifndef APPS_QUIPU_MCP_CLIENT_H
#define APPS_QUIPU_MCP_CLIENT_H

#include "child.h"
#include "lines.h"
#include "tree.h"

#define APP_MCP_LINE_MAX 4194304 /* bytes of a message of a server: 4 MiB */
#define APP_MCP_WHY_SIZE 512     /* bytes of a reason, with its NUL */

typedef struct app_mcp {
    app_child child;
    app_lines lines;
    char *sending; /* what the server has not read yet... */
    size_t sent;   /* ...from here on... */
    size_t size;   /* ...to here */
    int64_t last_id;
    quipu_arena arena;          /* of the last answer */
    char why[APP_MCP_WHY_SIZE]; /* why it has ended; "": it runs */
} app_mcp;

typedef enum app_mcp_outcome {
    APP_MCP_OK,
    APP_MCP_ERROR,   /* the server answered with an error; the result is its message, or NULL */
    APP_MCP_LATE,    /* no answer in time; the server goes on */
    APP_MCP_STOPPED, /* a signal came; the server goes on */
    APP_MCP_ENDED    /* the server is of no more use: see `why` */
} app_mcp_outcome;

/* Starts a server and agrees with it on a revision; `more` as for app_child_start(). */
app_mcp_outcome app_mcp_start(app_mcp *mcp, char *const *words, char *const *more,
                              const app_until *until);

/* A page of its tools, from `cursor` on (absent: the first): the result of that method. Results
 * live until the next request. */
app_mcp_outcome app_mcp_tools(app_mcp *mcp, quipu_str cursor, const app_until *until,
                              const app_tree **ret_result);

/* Calls a tool with a JSON object: its result. */
app_mcp_outcome app_mcp_call(app_mcp *mcp, quipu_str name, quipu_str arguments,
                             const app_until *until, const app_tree **ret_result);

/* Ends the server; one that never started is fine. */
void app_mcp_end(app_mcp *mcp);

#endif
