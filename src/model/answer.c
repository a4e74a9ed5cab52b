/* Builds a response from deltas and sends its events.
 *
 *   START ─▶ (TEXT | THOUGHT | CALL | PART)* ─▶ USAGE, FINISH in any order ─▶ qp_answer_done()
 *
 * Owns: the pieces and buffers of qp_answer, from qp_answer_init() to qp_answer_free().
 * Called by: generate.c; qp_answer_put() by the provider as its sink, on the same thread.
 * On return from qp_answer_done() the response lies in the arena and refers to no buffer.
 * Invariant: pieces stay in the order in which they began. Calls are assembled in acc.c; a piece of
 * kind CALL only marks the place.
 *
 *   deltas     thought "a"  thought "b"  text "c"  call 0 name  call 0 "{}"  text "d"
 *   pieces     [thought "ab"]            [text "c"]  [call]                    [text "d"]
 *   response   thought "ab", text "c", call 0, text "d"; its text is "cd"
 */
#include "model/answer.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/json.h"
#include "base/option.h"
#include "base/str.h"
#include "model/message.h"

/* Most answers have one to three parts. */
#define ANSWER_PIECES_FIRST 4
#define ANSWER_PIECES_MAX 65536
#define ANSWER_NAME_MAX 4096 /* bytes of the answer's id and of the model's name */

/* `said` is the event that is reused for every text: only kind and text change. */
void qp_answer_init(qp_answer *answer)
{
    /* Counters of the usage begin with -1, "not reported". */
    *answer = (qp_answer){
        .usage = QUIPU_MODEL_USAGE_INIT, .finish = QUIPU_FINISH_NONE, .said = {.partial = true}};
    qp_acc_init(&answer->acc);
    qp_buf_init(&answer->id, ANSWER_NAME_MAX);
    qp_buf_init(&answer->model, ANSWER_NAME_MAX);
}

/* Frees a failed or finished answer alike; the response's texts are the arena's. */
void qp_answer_free(qp_answer *answer)
{
    if (answer == NULL) {
        return;
    }
    /* Buffers of a piece that has ended are still there: the response is made from them. */
    for (size_t i = 0; i < answer->count; i++) {
        qp_buf_free(&answer->pieces[i].text);
        qp_buf_free(&answer->pieces[i].signature);
    }
    qp_free(answer->pieces);
    qp_acc_free(&answer->acc);
    qp_buf_free(&answer->id);
    qp_buf_free(&answer->model);
}

/* Calls the caller's callback. A status other than QUIPU_OK ends the call, and no error event
 * follows. The event is valid until the callback returns. */
static quipu_status answer_send(qp_answer *answer, const quipu_model_event *event,
                                quipu_error *reterr)
{
    quipu_status status;

    if (answer->on_event == NULL) {
        return QUIPU_OK;
    }
    status = answer->on_event(answer->event_ctx, event);
    if (status != QUIPU_OK) {
        answer->refused = true;
        return qp_error_set(reterr, status, "the caller's event callback ended the call");
    }
    return QUIPU_OK;
}

/* The newest piece when the delta continues it, otherwise a new one. Only the newest can be
 * continued, so that texts around a call stay apart. Redacted thoughts are never joined. The
 * pointer is valid until the next piece begins: the array may move. */
static quipu_status answer_piece(qp_answer *answer, quipu_part_kind kind, bool begins,
                                 qp_answer_piece **ret_piece, quipu_error *reterr)
{
    /* NULL at the beginning: nothing can be continued yet. */
    qp_answer_piece *piece = answer->count > 0 ? &answer->pieces[answer->count - 1] : NULL;

    if (piece != NULL && !begins && piece->kind == kind && !piece->redacted) {
        *ret_piece = piece;
        return QUIPU_OK;
    }
    /* A server that begins a new part with every byte is stopped here, long before the limit of
     * bytes. */
    if (answer->count == ANSWER_PIECES_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the model's answer has more than %d parts",
                            ANSWER_PIECES_MAX);
    }
    /* Doubles, so that n pieces cost O(n). */
    if (answer->count == answer->cap) {
        size_t cap = answer->cap != 0 ? answer->cap * 2 : ANSWER_PIECES_FIRST;
        qp_answer_piece *pieces = qp_realloc(answer->pieces, cap * sizeof(*pieces));

        if (pieces == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
        }
        answer->pieces = pieces;
        answer->cap = cap;
    }
    assert(answer->pieces != NULL && answer->count < answer->cap);
    piece = &answer->pieces[answer->count++];
    *piece = (qp_answer_piece){.kind = kind};
    qp_buf_init(&piece->text, QUIPU_RESPONSE_BYTES_MAX);
    qp_buf_init(&piece->signature, QUIPU_RESPONSE_BYTES_MAX);
    *ret_piece = piece;
    return QUIPU_OK;
}

/* A text or thought. A signature without text still makes a piece: it must be sent back to the
 * provider. Events repeat the delta and not the piece so far: the caller joins, or waits for
 * DONE. */
static quipu_status answer_text(qp_answer *answer, const quipu_delta *delta, quipu_error *reterr)
{
    bool thought = delta->kind == QUIPU_DELTA_THOUGHT;
    quipu_part_kind kind = thought ? QUIPU_PART_THOUGHT : QUIPU_PART_TEXT;
    qp_answer_piece *piece = NULL;
    quipu_status status;

    /* Providers send empty deltas to keep a connection alive. */
    if (delta->text.n == 0 && delta->signature.n == 0) {
        return QUIPU_OK;
    }
    status = answer_piece(answer, kind, delta->block || delta->redacted, &piece, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    assert(piece != NULL);
    /* A redacted thought has no text, only encrypted data in its signature. */
    piece->redacted = delta->redacted;
    qp_buf_put(&piece->text, delta->text);
    if (delta->signature.n > 0) {
        qp_buf_put(&piece->signature, (quipu_str){delta->signature.p, delta->signature.n});
    }
    if (qp_buf_status(&piece->text) != QUIPU_OK || qp_buf_status(&piece->signature) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    if (answer->whole || delta->text.n == 0) {
        return QUIPU_OK;
    }
    answer->said.kind = thought ? QUIPU_MODEL_THOUGHT : QUIPU_MODEL_TEXT;
    answer->said.text = delta->text;
    return answer_send(answer, &answer->said, reterr);
}

/* A piece of a tool call. The partial event is sent once, when the name is known. Arguments are not
 * sent while they grow: they are not JSON before the end. */
static quipu_status answer_call(qp_answer *answer, const quipu_delta *delta, quipu_error *reterr)
{
    /* To see below whether this delta began a call. */
    size_t before = answer->acc.count;
    size_t slot = QP_ACC_NONE;
    qp_answer_piece *piece = NULL;
    qp_acc_slot *call;
    quipu_status status = qp_acc_put(&answer->acc, delta, &slot, reterr);

    if (status != QUIPU_OK || slot == QP_ACC_NONE) {
        return status;
    }
    /* The first piece of a call also marks its place among texts and thoughts. */
    if (answer->acc.count > before) {
        status = answer_piece(answer, QUIPU_PART_CALL, true, &piece, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    call = &answer->acc.slots[slot];
    if (call->announced || call->name.n == 0 || answer->whole) {
        return QUIPU_OK;
    }
    /* Once, even where the name comes in several deltas. */
    call->announced = true;
    const quipu_part part = {.kind = QUIPU_PART_CALL,
                             .id = qp_buf_str(&call->id),
                             .name = qp_buf_str(&call->name),
                             .thought = call->thought};
    const quipu_model_event event = {.kind = QUIPU_MODEL_TOOL, .partial = true, .call = &part};
    return answer_send(answer, &event, reterr);
}

/* A part that only its provider understands. It comes whole, and no event is sent: callers get it
 * with the response. Text that is not an object is refused, because it is stored and sent again as
 * it is. */
static quipu_status answer_other(qp_answer *answer, const quipu_delta *delta, quipu_error *reterr)
{
    qp_answer_piece *piece = NULL;
    quipu_status status;

    if (delta->text.n == 0 || delta->text.p[0] != '{' ||
        qp_json_check(delta->text, NULL, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the provider gave a part that is not a JSON object");
    }
    /* Always a piece of its own: its JSON cannot be joined with another's. */
    status = answer_piece(answer, QUIPU_PART_OTHER, true, &piece, reterr);
    if (status == QUIPU_OK) {
        assert(piece != NULL && piece->text.n == 0);
        qp_buf_put(&piece->text, delta->text);
        status = qp_buf_status(&piece->text);
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "out of memory");
}

/* -1 means "not reported" and leaves what is known, and so does a number that no request can have:
 * everything behind this adds the numbers up. Anthropic reports the input at the start and the
 * output at the end. */
static void answer_usage_one(int64_t *have, int64_t reported)
{
    *have = reported >= 0 && reported <= QUIPU_MODEL_USAGE_MAX ? reported : *have;
}

/* Providers report usage more than once; the last report of each counter wins. */
static quipu_status answer_usage(quipu_model_usage *have, const quipu_model_usage *given,
                                 quipu_error *reterr)
{
    /* A provider of another version may know fewer counters. */
    quipu_model_usage own = QUIPU_MODEL_USAGE_INIT;
    const quipu_model_usage *reported = &own;
    quipu_status status = qp_options_read(&own, sizeof(own), given, "quipu_model_usage", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    answer_usage_one(&have->input, reported->input);
    answer_usage_one(&have->output, reported->output);
    answer_usage_one(&have->total, reported->total);
    answer_usage_one(&have->cached, reported->cached);
    answer_usage_one(&have->cache_write, reported->cache_write);
    answer_usage_one(&have->thoughts, reported->thoughts);
    return QUIPU_OK;
}

/* Id and model of the answer; the first report wins. A name beyond ANSWER_NAME_MAX fails its
 * buffer, and the answer has none: it is for logs only. */
static void answer_start(qp_answer *answer, const quipu_delta *delta)
{
    /* Providers repeat both with every delta. */
    if (delta->id.n > 0 && answer->id.n == 0) {
        qp_buf_put(&answer->id, delta->id);
    }
    if (delta->text.n > 0 && answer->model.n == 0) {
        qp_buf_put(&answer->model, delta->text);
    }
}

/* The size limit counts all deltas, so that it holds whatever kind of data a server sends. The
 * cancel flag is looked at with every delta, which bounds how long a cancelled stream goes on. */
quipu_status qp_answer_put(void *ctx, const quipu_delta *delta, quipu_error *reterr)
{
    qp_answer *answer = ctx;
    quipu_delta own = QUIPU_DELTA_INIT;

    if (delta->struct_size != sizeof(*delta)) { /* a provider that knows another version */
        quipu_status status = qp_options_read(&own, sizeof(own), delta, "quipu_delta", reterr);

        if (status != QUIPU_OK) {
            return status;
        }
        delta = &own;
    }
    if (qp_cancel_is_set(answer->cancel)) {
        return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    /* Counted before anything is stored, so that the limit also holds for pieces that are dropped.
     * The sum cannot overflow: texts fit memory, and the limit ends the call long before. */
    answer->bytes += delta->text.n + delta->signature.n;
    if (answer->bytes > QUIPU_RESPONSE_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the model's answer passed %d bytes",
                            QUIPU_RESPONSE_BYTES_MAX);
    }
    switch (delta->kind) {
    case QUIPU_DELTA_TEXT:
    case QUIPU_DELTA_THOUGHT:
        return answer_text(answer, delta, reterr);
    case QUIPU_DELTA_CALL:
        return answer_call(answer, delta, reterr);
    case QUIPU_DELTA_USAGE:
        return answer_usage(&answer->usage, delta->usage, reterr);
    case QUIPU_DELTA_START:
        answer_start(answer, delta);
        return QUIPU_OK;
    case QUIPU_DELTA_PART:
        return answer_other(answer, delta, reterr);
    case QUIPU_DELTA_FINISH:
        answer->finish = delta->finish != QUIPU_FINISH_NONE ? delta->finish : answer->finish;
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_MISUSE, "the provider gave a delta of the unknown kind %d",
                        (int)delta->kind);
}

/* Copies a piece to a part of the response: the piece's buffers are freed with the answer, and the
 * part lives as long as the arena. */
static quipu_status answer_part(const qp_answer_piece *piece, quipu_arena *arena,
                                quipu_part *ret_part)
{
    quipu_part part = {.kind = piece->kind, .redacted = piece->redacted};
    quipu_str signature = QP_STR_ABSENT;
    const bool other = piece->kind == QUIPU_PART_OTHER;
    quipu_status status =
        quipu_arena_copy(arena, qp_buf_str(&piece->text), other ? &part.json.text : &part.text);

    if (status == QUIPU_OK && piece->signature.n > 0) {
        status = quipu_arena_copy(arena, qp_buf_str(&piece->signature), &signature);
        part.signature = (quipu_bytes){signature.p, signature.n};
    }
    if (status == QUIPU_OK) {
        *ret_part = part;
    }
    return status;
}

/* The text of all text parts; with a single one it is borrowed, not copied. */
static quipu_status answer_all_text(quipu_model_response *response, quipu_arena *arena)
{
    quipu_model_message message = {.role = QUIPU_ROLE_ASSISTANT, .parts = response->parts};
    quipu_status status = qp_message_content(arena, &message);

    response->text = message.content;
    return status;
}

/* Joins pieces and calls. Calls take the places where calls began, in their final order; a place
 * whose call had no name stays empty. A missing total is the sum: some servers leave it out. Every
 * part is copied, because the buffers are freed with the answer. */
static quipu_status answer_build(const qp_answer *answer, const quipu_part *calls,
                                 size_t call_count, quipu_arena *arena,
                                 quipu_model_response *ret_response)
{
    size_t size = (answer->count + 1) * sizeof(quipu_part);
    quipu_part *parts = qp_arena_take(arena, size);
    quipu_model_usage *usage = qp_arena_take(arena, sizeof(*usage));
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_status status;
    size_t count = 0;
    size_t call = 0;

    if (parts == NULL || usage == NULL) {
        return qp_arena_why(arena, size);
    }
    for (size_t i = 0; i < answer->count; i++) {
        if (answer->pieces[i].kind == QUIPU_PART_CALL) {
            /* Calls in their final order, at the places where calls began. */
            if (call < call_count) {
                parts[count++] = calls[call++];
            }
            continue;
        }
        status = answer_part(&answer->pieces[i], arena, &parts[count++]);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    assert(call == call_count);
    *usage = answer->usage;
    if (usage->total < 0 && usage->input >= 0 && usage->output >= 0) {
        usage->total = usage->input + usage->output;
    }
    response.finish = answer->finish;
    response.parts = quipu_parts_of(parts, count);
    response.usage = usage;
    if (call_count > 0 && response.finish == QUIPU_FINISH_STOP) {
        response.finish = QUIPU_FINISH_TOOLS; /* some servers call both "stop" */
    }
    status = answer_all_text(&response, arena);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&answer->id), &response.id);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&answer->model), &response.model);
    }
    *ret_response = response;
    return status;
}

/* A stream without a finish reason broke off: QUIPU_IO, and the caller may retry. The answer is
 * returned only after all events have been accepted. */
quipu_status qp_answer_done(qp_answer *answer, quipu_arena *arena,
                            quipu_model_response *ret_response, quipu_error *reterr)
{
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_model_event event = {.kind = QUIPU_MODEL_TOOL};
    quipu_part *calls = NULL;
    size_t call_count = 0;
    quipu_status status;

    /* Servers may close the connection in order in the middle of an answer. */
    if (answer->finish == QUIPU_FINISH_NONE) {
        return qp_error_set(reterr, QUIPU_IO, "the model's answer broke off before its end");
    }
    status = qp_acc_done(&answer->acc, answer->finish == QUIPU_FINISH_LENGTH, arena, &calls,
                         &call_count, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = answer_build(answer, calls, call_count, arena, &response);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the model's answer");
    }
    /* The events of a complete answer: calls, usage, DONE; each may end the call. */
    for (size_t i = 0; i < call_count && status == QUIPU_OK; i++) {
        event.call = &calls[i];
        status = answer_send(answer, &event, reterr);
    }
    if (status == QUIPU_OK && (response.usage->input >= 0 || response.usage->output >= 0)) {
        event = (quipu_model_event){.kind = QUIPU_MODEL_USAGE, .usage = response.usage};
        status = answer_send(answer, &event, reterr);
    }
    if (status == QUIPU_OK) {
        event = (quipu_model_event){.kind = QUIPU_MODEL_DONE, .response = &response};
        status = answer_send(answer, &event, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_response = response;
    }
    return status;
}
