/* The public entry points of the event codec: event to message (event_encode.c) and message to
 * event (event_decode.c), in the dialect that a runtime wants (event_convert.c).
 *
 * Owns: no state; each call parses, converts and copies its result to the caller's arena.
 * Called by: users of the C API, live.c, snapshot.c and agent/.
 * Locks: none taken or expected; the functions are pure.
 * On return of a failed call what it put into the arena stays there; the outputs are untouched. */
#include "adk/event.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/option.h"
#include "store/message.h"

/* Without a made-up id or time: the message says only what the event says. The document is freed at
 * the end: the message's texts lie in the arena or in the event itself. */
quipu_status quipu_event_to_message(quipu_json event, quipu_arena *arena,
                                    quipu_messages *ret_messages, quipu_error *reterr)
{
    quipu_message *message;
    quipu_status status;
    qp_json_doc doc;

    if (arena == NULL || ret_messages == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an event needs an arena and a place for the message");
    }
    /* In the caller's arena, like its texts: the slice points to both. */
    message = quipu_arena_alloc(arena, sizeof(*message));
    if (message == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for a message");
    }
    qp_json_init(&doc);
    status = qp_event_parse(&doc, event.text, reterr);
    if (status == QUIPU_OK) {
        status = qp_event_encode(&doc, (quipu_str){NULL, 0}, arena, message, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_messages = quipu_messages_of(message, 1);
    }
    qp_json_free(&doc);
    return status;
}

/* Looks for a member and the beginning of its value, such as "a":", in a compact JSON text, without
 * parsing it. It may match inside a string value: callers treat a match as "perhaps". A wrong
 * "perhaps" costs a conversion that changes nothing. */
static bool event_has(quipu_str text, quipu_str wanted)
{
    const char *const end = text.p + text.n;
    const char *at = text.p;

    /* From quote to quote, since `wanted` begins with one. */
    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at) < wanted.n) {
            return false;
        }
        if (memcmp(at, wanted.p, wanted.n) == 0) {
            return true;
        }
        at++;
    }
    return false;
}

/* Whether a decoded event must be rewritten for the dialect. Times in seconds are the usual case,
 * and a search for a textual timestamp saves parsing every event. */
static bool event_converts(const quipu_event_dialect *dialect, quipu_str stored)
{
    /* Names and bytes stand anywhere in an event: searching the text for one spelling is not
     * enough. */
    if (dialect->key_case != QUIPU_KEYS_AS_STORED || dialect->bytes != QUIPU_BYTES_AS_STORED ||
        dialect->time == QUIPU_TIMES_RFC3339) {
        return true;
    }
    return dialect->time == QUIPU_TIMES_SECONDS && event_has(stored, QUIPU_STR("\"timestamp\":\""));
}

/* Decodes, converts when the dialect asks for it, and copies the text to the arena. Two buffers,
 * because conversion reads the one while it writes the other. */
quipu_status qp_event_write(const quipu_message *message, quipu_str root,
                            const quipu_event_dialect *dialect, quipu_arena *arena,
                            quipu_json *ret_event, quipu_error *reterr)
{
    quipu_status status;
    bool converts;
    qp_buf stored; /* in the spelling that the event was appended in */
    qp_buf wanted; /* in the dialect's; stays empty where nothing is converted */

    qp_buf_init(&stored, QP_EVENT_JSON_MAX);
    qp_buf_init(&wanted, QP_EVENT_JSON_MAX);
    status = qp_event_decode(message, root, &stored, reterr);
    converts = status == QUIPU_OK && event_converts(dialect, qp_buf_str(&stored));
    if (converts) {
        status = qp_event_convert(qp_buf_str(&stored), dialect, &wanted, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_arena_copy(arena, qp_buf_str(converts ? &wanted : &stored), &ret_event->text);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for an event");
        }
    }
    qp_buf_free(&stored);
    qp_buf_free(&wanted);
    return status;
}

/* Reads options of any known size and rejects values outside their enums. */
quipu_status qp_dialect_read(const quipu_event_dialect *given, quipu_event_dialect *ret,
                             quipu_error *reterr)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_status status =
        qp_options_read(&dialect, sizeof(dialect), given, "quipu_event_dialect", reterr);

    /* Unsigned, so that a negative value is outside as well. */
    if (status == QUIPU_OK && ((unsigned)dialect.key_case > QUIPU_KEYS_SNAKE ||
                               (unsigned)dialect.bytes > QUIPU_BYTES_URL ||
                               (unsigned)dialect.time > QUIPU_TIMES_RFC3339)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the dialect has a value outside QUIPU_KEYS_*, QUIPU_BYTES_* or "
                            "QUIPU_TIMES_*");
    }
    if (status == QUIPU_OK) {
        *ret = dialect;
    }
    return status;
}

/* The message may be the caller's own; only its tool calls are checked here. A slice of another
 * version's messages is read through qp_message_take(). */
quipu_status quipu_message_to_event(quipu_messages messages, size_t index,
                                    const quipu_event_dialect *dialect, quipu_arena *arena,
                                    quipu_json *ret_event, quipu_error *reterr)
{
    quipu_event_dialect read = QUIPU_EVENT_DIALECT_INIT;
    const quipu_message *message = NULL;
    quipu_message room; /* for a message of another version's size */
    quipu_status status;

    if (arena == NULL || ret_event == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an event needs an arena and a place for the text");
    }
    status = qp_message_take(messages, index, arena, &room, &message, reterr);
    if (status == QUIPU_OK) {
        status = qp_dialect_read(dialect, &read, reterr);
    }
    return status == QUIPU_OK
               ? qp_event_write(message, (quipu_str){NULL, 0}, &read, arena, ret_event, reterr)
               : status;
}
