/* Pairing answers with calls while messages pass by: forwards from a place, then backwards for what
 * was called before it. */
#include "store/tool_pairs.h"

#include "base/alloc.h"
#include "base/error.h"
#include "store/tool_calls.h"

#define PAIRS_FIRST 16 /* room of a list at first */

void qp_pairs_init(qp_pairs *pairs)
{
    *pairs = (qp_pairs){.low = 0};
    qp_json_init(&pairs->doc);
}

void qp_pairs_free(qp_pairs *pairs)
{
    qp_free(pairs->calls.items);
    qp_free(pairs->answers.items);
    qp_json_free(&pairs->doc);
    quipu_arena_free(&pairs->arena);
}

static quipu_status tool_pairs_add(qp_pair_list *list, qp_pair pair)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : PAIRS_FIRST;
        qp_pair *items = qp_realloc(list->items, capacity * sizeof(*items));

        if (items == NULL) {
            return QUIPU_NOMEM;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = pair;
    return QUIPU_OK;
}

/* Whether this call is what the answer may belong to. */
static bool tool_pairs_agree(const qp_pair *call, const qp_pair *answer)
{
    return call->call < answer->answer && answer->answer - call->call <= QUIPU_PAIR_REACH &&
           (call->id.n == 0 || answer->id.n == 0 || quipu_str_eq(call->id, answer->id));
}

/* Whether the call of an answer may still stand before message `seq`. */
static bool tool_pairs_misses(const qp_pair *answer, int64_t seq)
{
    return answer->call == 0 && answer->answer - seq < QUIPU_PAIR_REACH;
}

static bool tool_pairs_miss(const qp_pairs *pairs, int64_t seq)
{
    for (size_t i = 0; i < pairs->answers.count; i++) {
        if (tool_pairs_misses(&pairs->answers.items[i], seq)) {
            return true;
        }
    }
    return false;
}

/* A call that stands before all others: of some answers it is the nearest. */
static void tool_pairs_call(qp_pairs *pairs, qp_pair call)
{
    for (size_t i = 0; i < pairs->answers.count; i++) {
        qp_pair *answer = &pairs->answers.items[i];
        if (answer->call == 0 && tool_pairs_agree(&call, answer)) {
            answer->call = call.call;
        }
    }
}

/* An answer; its call may be among those that were seen before it. */
static quipu_status tool_pairs_answer(qp_pairs *pairs, qp_pair answer)
{
    for (size_t i = pairs->calls.count; i > 0 && answer.call == 0; i--) {
        const qp_pair *call = &pairs->calls.items[i - 1];
        if (answer.answer - call->call > QUIPU_PAIR_REACH) {
            break; /* and those before it are farther away */
        }
        if (tool_pairs_agree(call, &answer)) {
            answer.call = call->call;
        }
    }
    return tool_pairs_add(&pairs->answers, answer);
}

/* Take a message's calls or answers in. */
static quipu_status tool_pairs_take(qp_pairs *pairs, const qp_message *row, bool behind)
{
    const bool answers = qp_message_answers(row);
    const quipu_str *ids = NULL;
    size_t count = 0;
    quipu_status status =
        qp_tool_calls_ids(row->tool_calls.text, &pairs->doc, &pairs->arena, &ids, &count);

    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        const qp_pair call = {.call = row->seq, .id = ids[i]};
        if (answers) {
            status = tool_pairs_answer(pairs, (qp_pair){.answer = row->seq, .id = ids[i]});
        } else if (behind) {
            status = tool_pairs_add(&pairs->calls, call);
        } else {
            tool_pairs_call(pairs, call);
        }
    }
    return status;
}

static bool tool_pairs_forth(void *ctx, const qp_message *row)
{
    qp_pairs *pairs = ctx;

    if (row->mark == QP_MESSAGE_MARK_COMPACTION) {
        return true; /* no part of the view */
    }
    if (qp_message_opens(row)) {
        return false;
    }
    pairs->status = tool_pairs_take(pairs, row, true);
    return pairs->status == QUIPU_OK;
}

static bool tool_pairs_back(void *ctx, const qp_message *row)
{
    qp_pairs *pairs = ctx;

    pairs->low = row->seq;
    if (row->mark == QP_MESSAGE_MARK_COMPACTION) {
        return true;
    }
    pairs->began = qp_message_opens(row);
    if (!pairs->began) {
        pairs->status = tool_pairs_take(pairs, row, false);
    }
    return pairs->status == QUIPU_OK && !pairs->began &&
           (tool_pairs_miss(pairs, row->seq) || (pairs->to_a_place && qp_message_answers(row)));
}

static quipu_status tool_pairs_walk(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                    const qp_scan *scan, quipu_error *reterr)
{
    quipu_status status = qp_chain_each(
        db, chain, scan, scan->newest ? tool_pairs_back : tool_pairs_forth, pairs, reterr);

    if (status == QUIPU_OK && pairs->status != QUIPU_OK) {
        status = qp_error_set(reterr, pairs->status, "cannot pair tool calls with their answers");
    }
    return status;
}

quipu_status qp_pairs_read(qp_pairs *pairs, ent_db *db, const qp_chain *chain, const qp_scan *scan,
                           int64_t at, quipu_error *reterr)
{
    const qp_scan forth = {at, scan->to, false};
    const qp_scan back = {scan->from, at - 1, true};
    quipu_status status = tool_pairs_walk(pairs, db, chain, &forth, reterr);

    pairs->low = at;
    if (status == QUIPU_OK && tool_pairs_miss(pairs, at)) {
        status = tool_pairs_walk(pairs, db, chain, &back, reterr);
    }
    return status;
}

quipu_status qp_pairs_read_back(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                const qp_scan *scan, quipu_error *reterr)
{
    const qp_scan back = {scan->from, pairs->low - 1, true};

    pairs->to_a_place = true;
    return pairs->began ? QUIPU_OK : tool_pairs_walk(pairs, db, chain, &back, reterr);
}

bool qp_pairs_parts(const qp_pairs *pairs, int64_t seq)
{
    for (size_t i = 0; i < pairs->answers.count; i++) {
        const qp_pair *answer = &pairs->answers.items[i];
        if (answer->call != 0 && answer->call < seq && answer->answer >= seq) {
            return true;
        }
    }
    return false;
}
