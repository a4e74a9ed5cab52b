/* Which tool call does a response answer? The one rule, stated in <quipu/history.h>, over an
 * abstract sequence: each room lists the calls and responses of its own structs, runs the rule, and
 * reads the pairs. store cuts no pair, adk closes what has none, model sends pairs side by side.
 * Pure functions over the caller's memory. */
#ifndef QP_BASE_TOOL_PAIR_H
#define QP_BASE_TOOL_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_CALL_ID_PREFIX "call_" /* before the tool's name: the id of a call that has none */
#define QP_TOOL_PAIR_NONE SIZE_MAX

typedef enum qp_tool_item_kind {
    QP_TOOL_NOTHING = 0, /* no item of a sequence */
    QP_TOOL_TURN,        /* a user's message that answers nothing: a turn begins */
    QP_TOOL_CALL,
    QP_TOOL_RESPONSE
} qp_tool_item_kind;

typedef struct qp_tool_item {
    qp_tool_item_kind kind;
    int64_t message; /* the number of the message it stands in; never decreases */
    quipu_str id;    /* may be empty, as the name */
    quipu_str name;  /* of the tool */
    size_t entry;    /* the caller's: where it stands in its message */
    size_t pair;     /* found: index of the other one, QP_TOOL_PAIR_NONE without */
    bool repeats;    /* found, of a response: its call was answered before; that answer counts */
    bool certain;    /* found, of a response: items before the first one cannot change its pair,
                      * given that the first one begins a step */
} qp_tool_item;

/* Find the pairs of a sequence; what the items say of pairs is overwritten. A call more than
 * `reach` messages before a response is not looked at. */
void qp_tool_pair_match(qp_tool_item *items, size_t count, int64_t reach);

/* Whether the pairs that hold messages from `place` on are those that the rule finds in any longer
 * sequence with these items at its end. */
bool qp_tool_pair_is_final(const qp_tool_item *items, size_t count, int64_t place);

/* Whether a cut right before message `place` parts a response from its call in the same turn. */
bool qp_tool_pair_is_cut(const qp_tool_item *items, size_t count, int64_t place);

#endif
