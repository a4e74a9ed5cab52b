/* Pairs around a place, read forwards from it and then backwards until what was found cannot change
 * any more.
 *
 * Owns the reading for the pairing rule; the rule itself is in base/tool_pair.c. Called by window.c
 * and compact.c, in their transaction and over their chain. Takes no lock. How far back a read
 * goes, the rule says (qp_tool_pair_is_final()): for responses with ids of their own it is the step
 * of the farthest call. The rule runs again whenever twice as many messages were read, so that its
 * cost stays below theirs.
 *
 *        start                 start + count
 *  buffer: [ free | items, oldest first | free ]
 *             <- backwards       forwards -> */
#include "store/tool_pairs.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/tool_calls.h"

#define PAIRS_FIRST 16 /* room of a list at first */

/* Nothing is read yet: memory comes with the first message that has calls. */
void qp_pairs_init(qp_pairs *pairs)
{
    *pairs = (qp_pairs){.low = 0};
    qp_json_init(&pairs->doc);
}

/* After every init, also when reading failed. */
void qp_pairs_free(qp_pairs *pairs)
{
    qp_free(pairs->buffer);
    qp_free(pairs->places);
    qp_json_free(&pairs->doc);
    quipu_arena_free(&pairs->arena);
}

/* Makes room for `n` items before the first one, or behind the last one. The buffer at least
 * doubles, at the side where it is short, so that all moves together cost as much as the items. */
static quipu_status tool_pairs_room(qp_pairs *pairs, size_t n, bool before)
{
    const size_t more = pairs->capacity + n + PAIRS_FIRST;
    const bool fits =
        before ? pairs->start >= n : pairs->capacity - pairs->start - pairs->count >= n;
    qp_tool_item *buffer;

    assert(pairs->start + pairs->count <= pairs->capacity);
    if (fits) {
        return QUIPU_OK;
    }
    buffer = qp_calloc(pairs->capacity + more, sizeof(*buffer));
    if (buffer == NULL) {
        return QUIPU_NOMEM;
    }
    if (pairs->count > 0) {
        memcpy(buffer + pairs->start + (before ? more : 0), pairs->buffer + pairs->start,
               pairs->count * sizeof(*buffer));
    }
    qp_free(pairs->buffer);
    pairs->buffer = buffer;
    pairs->start += before ? more : 0;
    pairs->capacity += more;
    assert(pairs->start + pairs->count <= pairs->capacity);
    return QUIPU_OK;
}

/* Adds the items of one message at one end, in their order. The list stays sorted by message
 * number, which the rule relies on. */
static quipu_status tool_pairs_put(qp_pairs *pairs, const qp_tool_item *items, size_t n,
                                   int64_t seq, bool before)
{
    quipu_status status = tool_pairs_room(pairs, n, before);
    qp_tool_item *to;

    if (status != QUIPU_OK || n == 0) {
        return status;
    }
    assert(!before || pairs->start >= n);
    pairs->start -= before ? n : 0;
    to = pairs->buffer + pairs->start + (before ? 0 : pairs->count);
    pairs->count += n;
    assert(pairs->start + pairs->count <= pairs->capacity);
    for (size_t i = 0; i < n; i++) {
        to[i] = items[i];
        to[i].message = seq;
    }
    return QUIPU_OK;
}

/* Adds a message: a turn's beginning and an answer without entries are one item each, others one
 * for each entry of their column. */
static quipu_status tool_pairs_take(qp_pairs *pairs, const qp_message *row, bool before)
{
    const bool answers = qp_message_answers(row);
    const bool opens = qp_message_opens(row);
    const qp_tool_item alone = {.kind = opens ? QP_TOOL_TURN : QP_TOOL_RESPONSE};
    qp_tool_item *items = NULL;
    size_t count = 0;
    quipu_status status;

    if (opens || (answers && qp_tool_calls_none(row->tool_calls.text))) {
        return tool_pairs_put(pairs, &alone, 1, row->seq, before);
    }
    status = qp_tool_calls_items(row->tool_calls.text, answers, &pairs->doc, &pairs->arena, &items,
                                 &count);
    return status == QUIPU_OK ? tool_pairs_put(pairs, items, count, row->seq, before) : status;
}

/* Forwards until another turn begins: pairs do not reach over it. */
static bool tool_pairs_forth(void *ctx, const qp_message *row)
{
    qp_pairs *pairs = ctx;

    assert(pairs->status == QUIPU_OK);
    if (row->mark == QP_MESSAGE_MARK_COMPACTION) {
        return true; /* no part of the view */
    }
    if (qp_message_opens(row)) {
        return false;
    }
    pairs->status = tool_pairs_take(pairs, row, false);
    return pairs->status == QUIPU_OK;
}

/* Whether the pairs of messages from `place` on are known: everything was read, the rule's reach is
 * passed, there is nothing to pair, or the rule says that more messages change nothing. */
static bool tool_pairs_known(const qp_pairs *pairs, int64_t place)
{
    assert(place >= pairs->low);
    return pairs->low <= pairs->bottom || place - pairs->low >= QUIPU_PAIR_REACH ||
           pairs->count == 0 ||
           qp_tool_pair_is_final(pairs->buffer + pairs->start, pairs->count, place);
}

/* The rule of base/tool_pair.h, over what was read so far. */
static void tool_pairs_match(qp_pairs *pairs)
{
    if (pairs->count > 0) {
        qp_tool_pair_match(pairs->buffer + pairs->start, pairs->count, QUIPU_PAIR_REACH);
    }
}

/* Whether enough was read. Looking for a place, the newest one that cuts no pair wins; it is
 * certain only once its own pairs and those of newer places are known. */
static bool tool_pairs_enough(qp_pairs *pairs)
{
    tool_pairs_match(pairs);
    if (!pairs->seek_place) {
        return tool_pairs_known(pairs, pairs->place);
    }
    /* From the newest place on: the window shall be as small as possible. */
    for (size_t i = 0; i < pairs->place_count; i++) {
        if (!tool_pairs_known(pairs, pairs->places[i])) {
            return false; /* and those before it need even more */
        }
        if (!qp_pairs_parts(pairs, pairs->places[i])) {
            return true;
        }
    }
    return false;
}

/* Places are found from the newest on: they fall. */
static quipu_status tool_pairs_add_place(qp_pairs *pairs, int64_t seq)
{
    if (pairs->place_count == pairs->place_capacity) {
        size_t capacity = pairs->place_capacity > 0 ? pairs->place_capacity * 2 : PAIRS_FIRST;
        int64_t *places = qp_realloc(pairs->places, capacity * sizeof(*places));

        if (places == NULL) {
            return QUIPU_NOMEM;
        }
        pairs->places = places;
        pairs->place_capacity = capacity;
    }
    assert(pairs->place_count < pairs->place_capacity);
    assert(pairs->place_count == 0 || pairs->places[pairs->place_count - 1] > seq);
    pairs->places[pairs->place_count++] = seq;
    return QUIPU_OK;
}

/* Backwards, one message; ends the scan when enough was read, which is asked at powers of two
 * only. */
static bool tool_pairs_back(void *ctx, const qp_message *row)
{
    qp_pairs *pairs = ctx;

    assert(pairs->status == QUIPU_OK);
    assert(row->seq < pairs->low);
    pairs->low = row->seq;
    if (row->mark == QP_MESSAGE_MARK_COMPACTION) {
        return true;
    }
    /* Summaries are not part of the view, and do not count. */
    pairs->looked++;
    pairs->status = tool_pairs_take(pairs, row, true);
    if (pairs->status == QUIPU_OK && !qp_message_answers(row)) {
        pairs->status = tool_pairs_add_place(pairs, row->seq);
    }
    return pairs->status == QUIPU_OK &&
           ((pairs->looked & (pairs->looked - 1)) != 0 || !tool_pairs_enough(pairs));
}

/* Scans in one direction and pairs what was found. A callback cannot return a status: it leaves one
 * in `pairs`, which becomes the error here. */
static quipu_status tool_pairs_walk(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                    const qp_scan *scan, quipu_error *reterr)
{
    quipu_status status = qp_chain_each(
        db, chain, scan, scan->newest ? tool_pairs_back : tool_pairs_forth, pairs, reterr);

    if (status == QUIPU_OK && pairs->status != QUIPU_OK) {
        status = qp_error_set(reterr, pairs->status, "cannot pair tool calls with their responses");
    }
    tool_pairs_match(pairs);
    return status;
}

/* Around a place at which a window may begin or a compaction may end: forward from it, and back
 * only where a response could answer a call before it. */
quipu_status qp_pairs_read(qp_pairs *pairs, ent_db *db, const qp_chain *chain, const qp_scan *scan,
                           int64_t at, quipu_error *reterr)
{
    const int64_t far = at - QUIPU_PAIR_REACH;
    const qp_scan forth = {at, scan->to, false};
    const qp_scan back = {far > scan->from ? far : scan->from, at - 1, true};
    quipu_status status = tool_pairs_walk(pairs, db, chain, &forth, reterr);

    assert(!scan->newest);
    pairs->place = at;
    pairs->low = at;
    pairs->bottom = scan->from;
    /* Most places need no look back: behind them stands a turn's beginning, or no response at
     * all. */
    if (status == QUIPU_OK && !tool_pairs_known(pairs, at)) {
        status = tool_pairs_walk(pairs, db, chain, &back, reterr);
    }
    return status;
}

/* Farther back than was read so far, until a place is found that cuts no pair. */
quipu_status qp_pairs_read_back(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                const qp_scan *scan, quipu_error *reterr)
{
    const qp_scan back = {scan->from, pairs->low - 1, true};

    assert(scan->newest && pairs->status == QUIPU_OK);
    pairs->seek_place = true;
    return tool_pairs_enough(pairs) ? QUIPU_OK : tool_pairs_walk(pairs, db, chain, &back, reterr);
}

/* Whether a window that begins at `seq` would separate a call from its response. */
bool qp_pairs_parts(const qp_pairs *pairs, int64_t seq)
{
    assert(pairs->start + pairs->count <= pairs->capacity);
    return pairs->count > 0 && qp_tool_pair_is_cut(pairs->buffer + pairs->start, pairs->count, seq);
}
