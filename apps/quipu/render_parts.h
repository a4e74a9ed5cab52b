/* Prints the contents of a message besides its text and its tool calls: parts of other kinds, and
 * the facts of its event. render.c prints the message. */
#ifndef APPS_QUIPU_RENDER_PARTS_H
#define APPS_QUIPU_RENDER_PARTS_H

#include "render.h"
#include "tree.h"

/* A message's event. Zeroed: the message has nothing but text and calls. */
typedef struct app_parts {
    quipu_arena arena;
    const app_tree *event; /* NULL: there is none to look into */
    bool odd;              /* text and calls alone do not show its parts */
    bool more;             /* there is something besides text, calls and answers */
} app_parts;

/* Looks into the first message of a list. Free it in any case. */
void app_parts_read(quipu_messages list, app_parts *ret_parts);
void app_parts_free(app_parts *parts);

/* Prints a call, or an answer, of a message: how render.c does it. */
typedef void (*app_parts_call_fn)(app_render *render, quipu_messages list, size_t number);

typedef struct app_parts_how {
    const char *margin;
    app_parts_call_fn call;   /* a call with its answer */
    app_parts_call_fn answer; /* an answer whose call is elsewhere; NULL: it was printed already */
} app_parts_how;

/* Prints the parts in their order. */
void app_parts_print(app_render *render, quipu_messages list, const app_parts *parts,
                     const app_parts_how *how);

/* Prints what the event says of the answer behind its parts: errors, why it stopped, transfers,
 * state, usage. */
void app_parts_facts(app_render *render, const quipu_message *message, const app_parts *parts,
                     const char *margin);

#endif
