/* The accumulator of streamed tool calls (rules: acc.h).
 *
 *   OpenAI      {index 0, id "a", name "f"}  {index 0, text "{\"x\":"}  {index 0, text "1}"}
 *   Anthropic   {index 1, id "a", name "f"}  {index 1, text "{\"x\":1}"}
 *   Gemini      {id "a", name "f", text "{\"x\":1}"}
 *
 * Owns: the slots and their buffers, freed by qp_acc_free(). Called by: answer.c, on the thread
 * that reads the stream. Limits: QUIPU_RESPONSE_CALLS_MAX calls, QUIPU_RESPONSE_BYTES_MAX bytes of
 * arguments; a server cannot make it grow without bound. */
#include "model/acc.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "model/call_id.h"

#define ACC_NAME_MAX 4096 /* bytes of a call's name, and of its id */
#define ACC_SLOTS_FIRST 4
#define ACC_SHOWN_MAX 80      /* bytes of bad arguments that an error quotes */
#define ACC_NAME_SHOWN_MAX 64 /* and of a name */

/* No call yet, so an anonymous piece has no place. */
void qp_acc_init(qp_acc *acc)
{
    *acc = (qp_acc){.last = QP_ACC_NONE};
}

/* NULL is fine; the accumulator is empty and usable again afterwards. */
void qp_acc_free(qp_acc *acc)
{
    if (acc == NULL) {
        return;
    }
    for (size_t i = 0; i < acc->count; i++) {
        qp_buf_free(&acc->slots[i].id);
        qp_buf_free(&acc->slots[i].name);
        qp_buf_free(&acc->slots[i].arguments);
        qp_buf_free(&acc->slots[i].signature);
    }
    qp_free(acc->slots);
    qp_acc_init(acc);
}

/* Begins a call; it becomes the one that anonymous pieces continue. Slots may move when the array
 * grows: callers keep numbers of slots, no pointers. */
static quipu_status acc_add(qp_acc *acc, const quipu_delta *delta, quipu_error *reterr)
{
    qp_acc_slot *slot;

    assert(acc->count <= acc->cap);
    /* Checked before the array grows: a hostile server cannot make it larger. */
    if (acc->count == QUIPU_RESPONSE_CALLS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the model made more than %d tool calls at once",
                            QUIPU_RESPONSE_CALLS_MAX);
    }
    if (acc->count == acc->cap) {
        size_t cap = acc->cap != 0 ? acc->cap * 2 : ACC_SLOTS_FIRST;
        qp_acc_slot *slots = qp_realloc(acc->slots, cap * sizeof(*slots));

        if (slots == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
        }
        acc->slots = slots;
        acc->cap = cap;
    }
    slot = &acc->slots[acc->count];
    *slot = (qp_acc_slot){.has_index = delta->has_index, .index = delta->index};
    qp_buf_init(&slot->id, ACC_NAME_MAX);
    qp_buf_init(&slot->name, ACC_NAME_MAX);
    qp_buf_init(&slot->arguments, QUIPU_RESPONSE_BYTES_MAX);
    qp_buf_init(&slot->signature, QUIPU_RESPONSE_BYTES_MAX);
    acc->last = acc->count++;
    return QUIPU_OK;
}

/* The call that a piece continues, or QP_ACC_NONE. The search starts at the newest, because some
 * servers give every call the index 0 and distinguish calls by id only: same index but another id
 * and a name is a new call. An id alone finds its call too: Gemini sends no index. Linear: the
 * number of calls is limited, and the newest is nearly always the one. */
static size_t acc_find(const qp_acc *acc, const quipu_delta *delta)
{
    for (size_t i = acc->count; i > 0; i--) {
        const qp_acc_slot *slot = &acc->slots[i - 1];
        bool same_id = delta->id.n > 0 && quipu_str_eq(qp_buf_str(&slot->id), delta->id);

        /* Without an index only the id says which call is meant. */
        if (!delta->has_index) {
            if (same_id) {
                return i - 1;
            }
            continue;
        }
        if (slot->has_index && slot->index == delta->index) {
            bool other = delta->id.n > 0 && delta->name.n > 0 && slot->id.n > 0 && !same_id;

            return other ? QP_ACC_NONE : i - 1;
        }
    }
    return QP_ACC_NONE;
}

/* Ids, names and signatures are sent whole, sometimes repeatedly; only arguments arrive in pieces.
 * An empty text says nothing and replaces nothing. */
static void acc_replace(qp_buf *buf, quipu_str text)
{
    if (text.n > 0) {
        qp_buf_reset(buf);
        qp_buf_put(buf, text);
    }
}

/* Finds or begins the call, then adds the piece. Buffer errors stick, so one check at the end
 * suffices. */
quipu_status qp_acc_put(qp_acc *acc, const quipu_delta *delta, size_t *ret_slot,
                        quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_acc_slot *slot;

    *ret_slot = QP_ACC_NONE;
    if (delta == NULL) {
        return QUIPU_OK;
    }
    /* A piece that identifies its call continues it or begins one; an anonymous piece continues the
     * last. */
    if (delta->has_index || delta->id.n > 0 || delta->name.n > 0) {
        size_t found = acc_find(acc, delta);

        if (found == QP_ACC_NONE) {
            status = acc_add(acc, delta, reterr);
        } else {
            acc->last = found;
        }
    }
    /* An anonymous piece before any call belongs to none, and is dropped. */
    if (status != QUIPU_OK || acc->last == QP_ACC_NONE) {
        return status;
    }
    assert(acc->last < acc->count);
    slot = &acc->slots[acc->last];
    /* Everything but the arguments is sent whole, so a later value replaces an earlier one. */
    acc_replace(&slot->id, delta->id);
    acc_replace(&slot->name, delta->name);
    acc_replace(&slot->signature, (quipu_str){delta->signature.p, delta->signature.n});
    qp_buf_put(&slot->arguments, delta->text);
    slot->thought = slot->thought || delta->thought;
    const qp_buf *bufs[] = {&slot->id, &slot->name, &slot->signature, &slot->arguments};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) {
        if (qp_buf_status(bufs[i]) != QUIPU_OK) {
            return qp_error_set(reterr, qp_buf_status(bufs[i]),
                                "a tool call of the model is too large, or memory is used up");
        }
    }
    *ret_slot = acc->last;
    return QUIPU_OK;
}

/* The arguments as a JSON object. White space alone counts as none. The error quotes the beginning
 * of bad arguments, since the cause is usually visible there. */
static quipu_status acc_arguments(const qp_acc_slot *slot, bool cut, quipu_str *ret_json,
                                  quipu_error *reterr)
{
    quipu_str json = qp_buf_str(&slot->arguments);
    quipu_str name = qp_buf_str(&slot->name);
    size_t at = 0;

    /* Some servers send white space for "no arguments". */
    while (at < json.n && strchr(" \t\r\n", json.p[at]) != NULL && json.p[at] != '\0') {
        at++;
    }
    json = (quipu_str){json.p + at, json.n - at};
    if (json.n == 0) {
        *ret_json = QUIPU_STR("{}");
        return QUIPU_OK;
    }
    /* An array or a number is JSON as well, and no arguments. */
    if (json.p[0] == '{' && qp_json_check(json, NULL, NULL) == QUIPU_OK) {
        *ret_json = json;
        return QUIPU_OK;
    }
    return qp_error_field(
        reterr, QUIPU_INVALID, "tool call", name.p, "arguments",
        "the model called \"%.*s\" with arguments that are not a JSON object%s: %.*s",
        (int)qp_utf8_cut(name, ACC_NAME_SHOWN_MAX), name.p,
        cut ? ", because its answer was cut off by the token limit" : "",
        (int)qp_utf8_cut(json, ACC_SHOWN_MAX), json.p);
}

/* By index, calls without one behind. Insertion sort: stable, and linear where the calls came in
 * order. */
static void acc_sort(const qp_acc *acc, const qp_acc_slot **order)
{
    for (size_t i = 0; i < acc->count; i++) {
        const qp_acc_slot *slot = &acc->slots[i];
        size_t at = i;

        while (at > 0 && slot->has_index &&
               (!order[at - 1]->has_index || order[at - 1]->index > slot->index)) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = slot;
    }
}

/* Copies one call to the arena. Ids are made unique among the calls of this answer: a server that
 * repeats an id, or sends none, would make two results indistinguishable in the history. */
static quipu_status acc_part(const qp_acc_slot *slot, bool cut, qp_call_ids *ids,
                             quipu_arena *arena, quipu_part *ret_part, quipu_error *reterr)
{
    quipu_part part = {.kind = QUIPU_PART_CALL, .thought = slot->thought};
    quipu_str signature = QP_STR_ABSENT;
    quipu_status status = acc_arguments(slot, cut, &part.json.text, reterr);

    assert(slot->name.n > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    status = quipu_arena_copy(arena, qp_buf_str(&slot->name), &part.name);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, part.json.text, &part.json.text);
    }
    if (status == QUIPU_OK && slot->signature.n > 0) {
        status = quipu_arena_copy(arena, qp_buf_str(&slot->signature), &signature);
        part.signature = (quipu_bytes){signature.p, signature.n};
    }
    if (status == QUIPU_OK) {
        status = qp_call_ids_add(ids, qp_buf_str(&slot->id), part.name, &part.id);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the model's tool calls");
    }
    *ret_part = part;
    return QUIPU_OK;
}

/* One call with bad arguments fails the whole answer: running the others alone would change what
 * the model meant. */
quipu_status qp_acc_done(const qp_acc *acc, bool cut, quipu_arena *arena, quipu_part **ret_parts,
                         size_t *ret_count, quipu_error *reterr)
{
    size_t n = acc->count != 0 ? acc->count : 1; /* an arena allocation is never of size 0 */
    const qp_acc_slot **order = qp_arena_take(arena, n * sizeof(*order));
    quipu_part *parts = qp_arena_take(arena, n * sizeof(*parts));
    quipu_status status = QUIPU_OK;
    size_t count = 0;
    qp_call_ids ids;

    if (order == NULL || parts == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, n * sizeof(*parts)),
                            "no room for the model's tool calls");
    }
    acc_sort(acc, order);
    qp_call_ids_init(&ids, arena);
    for (size_t i = 0; i < acc->count && status == QUIPU_OK; i++) {
        /* A call without a name cannot be run, nor sent back to a provider. */
        if (order[i]->name.n > 0) {
            status = acc_part(order[i], cut, &ids, arena, &parts[count++], reterr);
        }
    }
    if (status == QUIPU_OK) {
        *ret_parts = parts;
        *ret_count = count;
    }
    return status;
}
