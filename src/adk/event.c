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
#include "base/str.h"
#include "store/message.h"

#define EVENT_ROOM ((size_t)1024) /* bytes that most events fit */

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

/* The string that begins at a quote, with its quotes; absent where it has no end. */
static quipu_str event_string(const char *at, const char *end)
{
    const char *close = at;

    while ((close = memchr(close + 1, '"', (size_t)(end - close - 1))) != NULL) {
        const char *slash = close;

        /* An odd number of backslashes escapes the quote. */
        while (slash[-1] == '\\') {
            slash--;
        }
        if ((close - slash) % 2 == 0) {
            return (quipu_str){at, (size_t)(close + 1 - at)};
        }
    }
    return QP_STR_ABSENT;
}

/* The first byte that is not white space, or the end. */
static const char *event_behind(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r'))) {
        at++;
    }
    return at;
}

/* Keys under which bytes stand, in their quotes: those of QP_NAME_BYTES, and "data" of a blob. */
static const quipu_str event_bytes[] = {{"\"data\"", 6},
                                        {"\"sdkBlob\"", 9},
                                        {"\"sdk_blob\"", 10},
                                        {"\"thoughtSignature\"", 18},
                                        {"\"thought_signature\"", 19}};

/* Whether a key, in its quotes, is a name of ADK's in the spelling that is not wanted. Most are
 * not, by their letters alone. */
static bool event_key_is_other(quipu_key_case wanted, quipu_str key)
{
    bool is_other = wanted == QUIPU_KEYS_CAMEL && memchr(key.p, '_', key.n) != NULL;
    qp_name_kind kind;

    for (size_t i = 0; i < key.n && wanted == QUIPU_KEYS_SNAKE && !is_other; i++) {
        is_other = key.p[i] >= 'A' && key.p[i] <= 'Z';
    }
    return is_other && qp_name_find((quipu_str){key.p + 1, key.n - 2}, &kind) != NULL;
}

/* Whether the member of a key, in its quotes, may look different in a dialect; `value` is the first
 * byte of its value. Keys of the user's own data may look the same: then a conversion changes
 * nothing. */
static bool event_key_converts(const quipu_event_dialect *dialect, quipu_str key, char value)
{
    if (dialect->key_case != QUIPU_KEYS_AS_STORED && event_key_is_other(dialect->key_case, key)) {
        return true;
    }
    for (size_t i = 0; i < sizeof(event_bytes) / sizeof(event_bytes[0]); i++) {
        if (dialect->bytes != QUIPU_BYTES_AS_STORED && quipu_str_eq(key, event_bytes[i])) {
            return true;
        }
    }
    return dialect->time != QUIPU_TIMES_AS_STORED &&
           (value == '"') == (dialect->time == QUIPU_TIMES_SECONDS) &&
           quipu_str_eq(key, QUIPU_STR("\"timestamp\""));
}

/* Whether a decoded event must be rewritten for the dialect. Most events were written in it: a walk
 * from string to string finds that out for a tenth of what parsing and writing them again costs. */
static bool event_converts(const quipu_event_dialect *dialect, quipu_str stored)
{
    const char *const end = stored.p + stored.n;
    const char *at = stored.p;

    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        const quipu_str text = event_string(at, end);

        if (text.p == NULL) {
            return true; /* no JSON: the conversion says so */
        }
        at = event_behind(text.p + text.n, end);
        if (at < end && *at == ':') {
            at = event_behind(at + 1, end);
            if (at < end && event_key_converts(dialect, text, *at)) {
                return true;
            }
        }
    }
    return false;
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
    /* Room for a usual event at once, instead of by doubling. */
    (void)qp_buf_room(&stored, EVENT_ROOM);
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
