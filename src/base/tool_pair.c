/* The rule that pairs responses with tool calls. Responses choose in their order, each from the
 * calls before it:
 *
 *     C1(a) C2(f) | R(a)  R(f) | C3(f) | R(f)  R(f)
 *       ^------------'     |       ^------'     |
 *             ^------------'       ^--(repeats)-'
 *
 * Between two bars stands a step: calls without a response or the beginning of a turn among them.
 * The nearest step is looked at first, and in a step the first call, since calls made together are
 * answered in their order.
 *
 * Invariant that the store relies on when it reads backwards: whether a call waits depends only on
 * the items from its step's beginning on, never on what stands before the step.
 * Owns: the rule, for all rooms (decision 24). Called by: src/store (tool_pairs.c, tool_calls.c),
 * src/adk/view.c and src/model (convert.c, repair.c). Locks: none; the items are the caller's. */
#include "base/tool_pair.h"

#include <assert.h>
#include <string.h>

/* How well a call and a response agree; each level is looked for before the one below it. */
enum {
    TOOL_PAIR_NOT = 0,
    TOOL_PAIR_ANY,  /* the response has neither id nor name */
    TOOL_PAIR_NAME, /* one of them has no id of its own, the tool is the same */
    TOOL_PAIR_ID,   /* the same id, where a missing one is made of the name */
    TOOL_PAIR_LEVELS
};

typedef struct tool_pair_choice {
    size_t index;
    size_t step; /* of that call, counted backwards */
    int level;   /* above TOOL_PAIR_LEVELS: it waits */
} tool_pair_choice;

/* Whether `id` is the one that the rule makes of a name. */
static bool tool_pair_is_made(quipu_str id, quipu_str name)
{
    const size_t n = sizeof(QP_CALL_ID_PREFIX) - 1;

    return name.n > 0 && id.n == n + name.n && memcmp(id.p, QP_CALL_ID_PREFIX, n) == 0 &&
           memcmp(id.p + n, name.p, name.n) == 0;
}

/* Whether an item has no id of its own. Calls that ADK appends without an id are stored with a made
 * one. */
static bool tool_pair_is_anonymous(const qp_tool_item *item)
{
    return item->id.n == 0 || tool_pair_is_made(item->id, item->name);
}

/* Absent and empty ids are the same: providers write either. */
static bool tool_pair_same(quipu_str a, quipu_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* How well a call and a response agree:
 *
 *   the response has neither id nor name                                 ANY
 *   equal ids; or one has none and the other's is made of the name       ID
 *   equal names, neither has an id of its own                            ID
 *   equal names, one of them has an id of its own                        NAME
 *   anything else                                                        NOT
 */
static int tool_pair_agree(const qp_tool_item *call, const qp_tool_item *response)
{
    if (response->id.n == 0 && response->name.n == 0) {
        return TOOL_PAIR_ANY;
    }
    if (call->id.n > 0 && response->id.n > 0 && tool_pair_same(call->id, response->id)) {
        return TOOL_PAIR_ID;
    }
    if (call->id.n == 0 && tool_pair_is_made(response->id, call->name)) {
        return TOOL_PAIR_ID;
    }
    if (response->id.n == 0 && tool_pair_is_made(call->id, response->name)) {
        return TOOL_PAIR_ID;
    }
    if (!tool_pair_same(call->name, response->name)) {
        return TOOL_PAIR_NOT;
    }
    if (tool_pair_is_anonymous(call) && tool_pair_is_anonymous(response)) {
        return TOOL_PAIR_ID;
    }
    return tool_pair_is_anonymous(call) || tool_pair_is_anonymous(response) ? TOOL_PAIR_NAME
                                                                            : TOOL_PAIR_NOT;
}

/* Take a call into account that stands before all those looked at so far. A waiting call wins over
 * an answered one, then the better agreement, then the nearer step; within a step the first call,
 * which is the one looked at last. */
static void tool_pair_consider(tool_pair_choice *best, const qp_tool_item *items, size_t index,
                               size_t step, int level)
{
    const bool waits = items[index].pair == QP_TOOL_PAIR_NONE;

    if (level == TOOL_PAIR_NOT || (level == TOOL_PAIR_ANY && !waits)) {
        return; /* a response that names nothing repeats nothing */
    }
    level += waits ? TOOL_PAIR_LEVELS : 0;
    if (level > best->level || (level == best->level && waits && step == best->step)) {
        *best = (tool_pair_choice){index, step, level};
    }
}

/* The call that item `at` answers, looked for backwards. A waiting call of the same id ends the
 * search with its step: nothing further away can be better. Then, and for a response that names
 * nothing once the nearest step is passed, the choice is certain, whatever stands before the first
 * item. */
static tool_pair_choice tool_pair_choose(const qp_tool_item *items, size_t at, int64_t reach,
                                         bool *ret_certain)
{
    const qp_tool_item *response = &items[at];
    const bool names_nothing = response->id.n == 0 && response->name.n == 0;
    tool_pair_choice best = {QP_TOOL_PAIR_NONE, 0, TOOL_PAIR_NOT};
    size_t step = 0;
    bool seen = false; /* a call of step `step` */

    assert(items[at].kind == QP_TOOL_RESPONSE);
    *ret_certain = false;
    for (size_t left = at; left > 0; left--) {
        const size_t i = left - 1;

        if (response->message - items[i].message > reach) {
            break;
        }
        if (items[i].kind != QP_TOOL_CALL) {
            step += seen ? 1 : 0;
            seen = false;
            if (best.level == TOOL_PAIR_LEVELS + TOOL_PAIR_ID ||
                (names_nothing && (step > 0 || items[i].kind == QP_TOOL_TURN))) {
                *ret_certain = true;
                break;
            }
            continue;
        }
        seen = true;
        tool_pair_consider(&best, items, i, step, tool_pair_agree(&items[i], response));
    }
    if (best.level == TOOL_PAIR_LEVELS + TOOL_PAIR_ID || (names_nothing && seen)) {
        *ret_certain = true;
    }
    return best;
}

/* Each response looks back at most `reach` messages: linear where calls are answered soon, and
 * never worse than the square of what lies within reach. */
void qp_tool_pair_match(qp_tool_item *items, size_t count, int64_t reach)
{
    for (size_t i = 0; i < count; i++) {
        assert(items[i].kind != QP_TOOL_NOTHING);
        assert(i == 0 || items[i - 1].message <= items[i].message);
        items[i].pair = QP_TOOL_PAIR_NONE;
        items[i].repeats = false;
        items[i].certain = false;
        if (items[i].kind == QP_TOOL_RESPONSE) {
            const tool_pair_choice choice = tool_pair_choose(items, i, reach, &items[i].certain);

            assert(choice.index == QP_TOOL_PAIR_NONE || choice.index < i);
            items[i].pair = choice.index;
            items[i].repeats = choice.level > TOOL_PAIR_NOT && choice.level < TOOL_PAIR_LEVELS;
            if (choice.level > TOOL_PAIR_LEVELS) {
                assert(items[choice.index].pair == QP_TOOL_PAIR_NONE);
                items[choice.index].pair = i;
            }
        }
    }
}

/* The first call that certainly begins a step: of the first item nobody knows what stands before
 * it. */
static size_t tool_pair_first_step(const qp_tool_item *items, size_t count)
{
    size_t first = 1;

    while (first < count &&
           (items[first].kind != QP_TOOL_CALL || items[first - 1].kind == QP_TOOL_CALL)) {
        first++;
    }
    return first < count ? first : count;
}

/* Whether the pair of a response before that step is known: it names nothing and finds nothing in
 * its turn, whose beginning `turn` says was seen. */
static bool tool_pair_is_alone(const qp_tool_item *item, bool turn)
{
    return turn && item->certain && item->pair == QP_TOOL_PAIR_NONE;
}

/* Whether a response behind the step at `first` has its pair, or may have another one without
 * taking a call away from those that count. */
static bool tool_pair_is_known(const qp_tool_item *item, size_t first, int64_t place)
{
    const bool found = item->pair != QP_TOOL_PAIR_NONE;
    const bool took = found && !item->repeats && item->pair >= first;

    if (item->certain && (!found || item->pair >= first)) {
        return true;
    }
    return item->message < place && !took;
}

/* Called while the store reads backwards: false means that it has to read further before it trusts
 * the pairs. Responses before the first certain step may belong to calls that are not read yet. */
bool qp_tool_pair_is_final(const qp_tool_item *items, size_t count, int64_t place)
{
    const size_t first = tool_pair_first_step(items, count);
    bool turn = false;

    for (size_t i = 0; i < count; i++) {
        const qp_tool_item *item = &items[i];

        turn = turn || item->kind == QP_TOOL_TURN;
        if (item->kind == QP_TOOL_RESPONSE && i < first && item->message >= place &&
            !tool_pair_is_alone(item, turn)) {
            return false;
        }
        if (item->kind == QP_TOOL_RESPONSE && i >= first &&
            !tool_pair_is_known(item, first, place)) {
            return false;
        }
    }
    return true;
}

/* A pair over the beginning of a turn does not count: a window may always begin with a turn. */
bool qp_tool_pair_is_cut(const qp_tool_item *items, size_t count, int64_t place)
{
    size_t turn = 0; /* index of the turn's beginning before item i */

    for (size_t i = 0; i < count; i++) {
        const qp_tool_item *item = &items[i];

        turn = item->kind == QP_TOOL_TURN ? i : turn;
        if (item->kind == QP_TOOL_RESPONSE && item->pair != QP_TOOL_PAIR_NONE &&
            item->message >= place && item->pair >= turn && items[item->pair].message < place) {
            return true;
        }
    }
    return false;
}
