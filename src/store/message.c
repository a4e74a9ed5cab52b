/* Messages to rows: checks, sizes, tokens, event ids, and the texts that a column cannot hold.
 *
 * Owns what a row of entity Message holds; message_read.c is the way back. Encoding
 * (qp_encoded_make()) needs no transaction and no lock, and is where input is refused; placing and
 * inserting run in the transaction of append.c, fork.c or an import, which holds the session's row:
 * numbers and running totals come from it.
 * Called by: append.c, session.c, state_child.c, compact.c, lango_adopt.c and the imports.
 *
 *   quipu_message              row of Message
 *   role, mark              ─▶ role, mark
 *   content, author,        ─▶ columns of these names; a text with U+0000 becomes a view that has
 *   invocation_id, branch      U+FFFD there, and its true form a member of extra."quipu"
 *   extra                   ─▶ extra, byte for byte unless "quipu" is added in front
 *   calls                   ─▶ tool_calls, as JSON; an output that is the content is stored once
 *   event_id                ─▶ event_id: a tag, then 16 bytes of a UUID or the text
 *   model, prompt_tokens... ─▶ the same; 0 is absent
 *   made when it is placed  ─▶ seq, tokens_total, timestamp (if none was given), salted_hash
 */
#include "store/message.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/jsonw.h"
#include "base/str.h"
#include "base/token.h"
#include "base/uuid.h"
#include "store/store.h"
#include "store/tool_calls.h"

#define MESSAGE_JSON_MAX ((size_t)1 << 30) /* above what a message within its limit can need */
#define MESSAGE_OURS "quipu"               /* the store's own member of `extra` */
#define MESSAGE_CALLS_ROOM 1000            /* bytes for calls to begin with */

static_assert((int)QUIPU_ROLE_USER == (int)QP_MESSAGE_ROLE_USER &&
                  (int)QUIPU_ROLE_SYSTEM == (int)QP_MESSAGE_ROLE_SYSTEM,
              "roles have the same numbers in the API and in the schema");
static_assert((int)QUIPU_MARK_COMPACTION == (int)QP_MESSAGE_MARK_COMPACTION &&
                  (int)QUIPU_MARK_TIMEOUT == (int)QP_MESSAGE_MARK_TIMEOUT,
              "so have marks");

/* The texts of a message that may hold U+0000, by their name in our member of `extra`. */
typedef struct message_text {
    const char *name;
    size_t message; /* offset of the quipu_str in quipu_message */
    size_t create;  /* and in qp_message_new */
} message_text;

static const message_text message_texts[] = {
    {"content", offsetof(quipu_message, content), offsetof(qp_message_new, content)},
    {"author", offsetof(quipu_message, author), offsetof(qp_message_new, author)},
    {"invocation_id", offsetof(quipu_message, invocation_id),
     offsetof(qp_message_new, invocation_id)},
    {"branch", offsetof(quipu_message, branch), offsetof(qp_message_new, branch)},
};

#define MESSAGE_TEXTS (sizeof(message_texts) / sizeof(message_texts[0]))

/* ---- checks -----------------------------------------------------------------------------------
 */

/* Names the byte: the caller's text is its own, and is not quoted. */
static quipu_status message_not_utf8(const char *field, quipu_str text, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, "Message", field, "text",
                          "%s is not UTF-8 at byte %zu", field, qp_utf8_prefix(text));
}

/* An output that is the content itself is stored once, and counts once. */
static size_t message_calls_bytes(const quipu_message *message, bool shared)
{
    size_t n = 0;

    assert(message->calls.count <= QUIPU_CALLS_MAX);
    for (size_t i = 0; i < message->calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);
        n += call->id.n + call->name.n + call->input.n + (shared ? 0 : call->output.n) +
             call->thought_signature.n;
    }
    return n;
}

/* Copies the model and the tokens of an answer. 0 is stored as absent, so that a message without
 * usage has the hash that it always had. */
static quipu_status message_usage(const quipu_message *message, qp_message_new *row,
                                  quipu_error *reterr)
{
    assert(!row->prompt_tokens.has && row->model.p == NULL);
    row->model = message->model.n > 0 ? message->model : QP_STR_ABSENT;
    row->prompt_tokens = (ent_opt_int){message->prompt_tokens > 0, message->prompt_tokens};
    row->cached_tokens = (ent_opt_int){message->cached_tokens > 0, message->cached_tokens};
    row->answer_tokens = (ent_opt_int){message->answer_tokens > 0, message->answer_tokens};
    if (message->prompt_tokens < 0 || message->cached_tokens < 0 || message->answer_tokens < 0) {
        return qp_error_field(reterr, QUIPU_INVALID, "Message", "prompt_tokens", "range",
                              "a reported number of tokens is negative; give 0 for none");
    }
    return message->model.n <= QUIPU_MODEL_NAME_MAX
               ? QUIPU_OK
               : qp_error_field(reterr, QUIPU_LIMIT, "Message", "model", "len",
                                "the model's name has %zu bytes; at most %d are allowed",
                                message->model.n, QUIPU_MODEL_NAME_MAX);
}

/* Refuses a message that is wrong by itself, without its session, before a column is made.
 * message_encode() checks `extra` and the texts that columns hold. */
static quipu_status message_check(const qp_encoded *encoded, const quipu_message *message,
                                  int64_t bytes_max, bool shared, quipu_error *reterr)
{
    /* Bytes as the caller gave them: the limit does not depend on how they are encoded. */
    size_t bytes = message->content.n + message->author.n + message->invocation_id.n +
                   message->branch.n + message->extra.text.n + message->event_id.n;

    assert(bytes_max > 0);
    if (message->role < QUIPU_ROLE_USER || message->role > QUIPU_ROLE_SYSTEM) {
        return qp_error_field(reterr, QUIPU_INVALID, "Message", "role", "enum",
                              "the role is %d; give one of QUIPU_ROLE_*", (int)message->role);
    }
    if (message->mark < QUIPU_MARK_NONE || message->mark > QUIPU_MARK_TIMEOUT) {
        return qp_error_field(reterr, QUIPU_INVALID, "Message", "mark", "enum",
                              "the mark is %d; give one of QUIPU_MARK_*", (int)message->mark);
    }
    /* A store that is copied brings its summaries along; callers do not append any. */
    if (message->mark == QUIPU_MARK_COMPACTION && encoded->source == QP_MESSAGES_GIVEN) {
        return qp_error_field(reterr, QUIPU_INVALID, "Message", "mark", "reserved",
                              "it is marked as a summary; quipu_session_compact makes those");
    }
    if (message->calls.count > 0) {
        bytes += message_calls_bytes(message, shared);
    }
    if ((int64_t)bytes > bytes_max) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Message", "content", "len",
                              "the message has %lld bytes; at most %lld are allowed "
                              "(message_bytes_max)",
                              (long long)bytes, (long long)bytes_max);
    }
    if (message->event_id.n > QUIPU_EVENT_ID_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Message", "event_id", "len",
                              "the event id has %zu bytes; at most %d are allowed",
                              message->event_id.n, QUIPU_EVENT_ID_MAX);
    }
    if (message->event_id.n > 0 && qp_text_check(message->event_id, NULL) != QP_TEXT_OK) {
        return qp_error_field(reterr, QUIPU_INVALID, "Message", "event_id", "text",
                              "the event id is no UTF-8 without NUL");
    }
    return QUIPU_OK;
}

/* ---- event ids --------------------------------------------------------------------------------
 */

/* Canonical means that writing it again gives the same text: lower case. */
static bool message_is_uuid(quipu_str text, quipu_uuid *ret)
{
    char again[QUIPU_UUID_TEXT_SIZE];

    if (text.n != QUIPU_UUID_TEXT_SIZE - 1 || quipu_uuid_parse(text, ret) != QUIPU_OK) {
        return false;
    }
    quipu_uuid_format(*ret, again);
    return memcmp(again, text.p, text.n) == 0;
}

/* A UUID is stored in 16 bytes, other texts as they are, each behind a tag; without an id one is
 * made, which rises with time, so that the index grows at its end. */
quipu_status qp_event_id_bytes(quipu_str text, uint8_t *near_id, quipu_arena *arena,
                               quipu_bytes *ret)
{
    quipu_uuid uuid = {{0}};
    const bool is_uuid = text.n == 0 || message_is_uuid(text, &uuid);
    const size_t n = is_uuid ? sizeof(uuid.b) : text.n;
    uint8_t *id = near_id != NULL && is_uuid ? near_id : qp_arena_take(arena, n + 1);

    static_assert(QP_EVENT_ID_UUID_SIZE == sizeof(uuid.b) + 1, "a tag and a UUID");
    if (id == NULL) {
        return qp_arena_why(arena, n + 1);
    }
    if (text.n == 0 && qp_uuid_v7(&uuid) != QUIPU_OK) {
        return QUIPU_IO;
    }
    /* The column's bytes, shorter for the form that most ids have:
     *
     *   01 <16 bytes>   a UUID in its canonical text, or a new one
     *   00 <text>       any other id */
    id[0] = is_uuid ? QP_EVENT_ID_UUID : QP_EVENT_ID_TEXT;
    memcpy(id + 1, is_uuid ? (const void *)uuid.b : text.p, n);
    *ret = (quipu_bytes){id, n + 1};
    return QUIPU_OK;
}

/* ---- texts that a column cannot hold ----------------------------------------------------------
 */

/* Copy what a buffer holds into the arena. Frees the buffer in any case. QUIPU_INVALID can only
 * come from the texts of tool calls. */
static quipu_status message_keep(quipu_arena *arena, qp_buf *buf, quipu_status status,
                                 quipu_str *ret, quipu_error *reterr)
{
    assert(status != QUIPU_OK || buf->n > 0);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(buf), ret);
    }
    qp_buf_free(buf);
    if (status == QUIPU_INVALID) {
        return qp_error_field(reterr, status, "Message", "tool_calls", "text",
                              "a text of a tool call is not UTF-8");
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status,
                                             status == QUIPU_LIMIT
                                                 ? "the message is too large when written as JSON"
                                                 : "out of memory for a message");
}

/* The text with U+FFFD for every NUL. */
static quipu_status message_view(quipu_arena *arena, quipu_str text, quipu_str *ret,
                                 quipu_error *reterr)
{
    size_t nuls = 0;
    char *view;
    size_t n = 0;

    assert(text.n > 0 && memchr(text.p, '\0', text.n) != NULL);
    for (size_t i = 0; i < text.n; i++) {
        nuls += text.p[i] == '\0';
    }
    /* U+FFFD has 3 bytes where the NUL has 1; and a NUL for the end. */
    view = qp_arena_take(arena, text.n + 2 * nuls + 1);
    if (view == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a message");
    }
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\0') {
            n += qp_utf8_put(0xFFFD, view + n);
        } else {
            view[n++] = text.p[i];
        }
    }
    view[n] = '\0';
    *ret = (quipu_str){view, n};
    return QUIPU_OK;
}

/* The numbers of the messages that a summary covers. */
static void message_covers(qp_jsonw *writer, const quipu_message *message)
{
    assert(message->mark == QUIPU_MARK_COMPACTION);
    qp_jsonw_key(writer, QUIPU_STR("covers"));
    qp_jsonw_array(writer);
    qp_jsonw_i64(writer, message->covers_from);
    qp_jsonw_i64(writer, message->covers_to);
    qp_jsonw_i64(writer, message->replaces);
    qp_jsonw_array_end(writer);
}

/* `extra` with our member first: {"quipu":{...},<the caller's members>}. An object of the caller's
 * that has no member stands in ours, so that it differs from none. */
static quipu_status message_extra(qp_encoded *encoded, const quipu_message *message, uint32_t odd,
                                  quipu_str *ret, quipu_error *reterr)
{
    quipu_str extra = message->extra.text;
    qp_jsonw writer;
    qp_buf buf;

    assert(ret != NULL);
    /* An object, as was checked: what stands around its braces is white space. */
    while (extra.n > 0 && extra.p[0] != '{') {
        extra = (quipu_str){extra.p + 1, extra.n - 1};
    }
    while (extra.n > 0 && extra.p[extra.n - 1] != '}') {
        extra.n--;
    }
    /* The text between the braces; empty when the object has no members. */
    quipu_str inner = extra.n < 2 ? QP_STR_ABSENT : (quipu_str){extra.p + 1, extra.n - 2};
    while (inner.n > 0 && inner.p[0] <= ' ') {
        inner = (quipu_str){inner.p + 1, inner.n - 1};
    }
    qp_buf_init(&buf, MESSAGE_JSON_MAX);
    qp_buf_puts(&buf, "{\"" MESSAGE_OURS "\":");
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_object(&writer);
    /* The true texts, where a column holds a view of them. */
    for (size_t i = 0; i < MESSAGE_TEXTS; i++) {
        if ((odd & 1u << i) != 0) {
            quipu_str text;

            memcpy(&text, (const char *)message + message_texts[i].message, sizeof(text));
            qp_jsonw_key(&writer, quipu_cstr(message_texts[i].name));
            qp_jsonw_str(&writer, text);
        }
    }
    if (message->mark == QUIPU_MARK_COMPACTION) {
        message_covers(&writer, message);
    }
    if (extra.n > 0 && inner.n == 0) {
        qp_jsonw_key(&writer, QUIPU_STR("extra"));
        qp_jsonw_str(&writer, extra);
    }
    qp_jsonw_object_end(&writer);
    if (inner.n > 0) {
        qp_buf_putc(&buf, ',');
        qp_buf_put(&buf, inner);
    }
    qp_buf_putc(&buf, '}');
    return message_keep(&encoded->arena, &buf, qp_buf_status(&buf), ret, reterr);
}

/* The caller's `extra` is an object without a member of our name. */
static quipu_status message_extra_check(quipu_json extra, quipu_error *reterr)
{
    quipu_status status = qp_object_check(extra, "extra", reterr);
    qp_json_doc doc;

    if (status != QUIPU_OK || extra.text.p == NULL) {
        return status;
    }
    qp_json_init(&doc);
    status = qp_json_parse(&doc, extra.text, &QP_COLUMN_LIMITS, reterr);
    if (status == QUIPU_OK &&
        qp_json_kind_of(qp_json_get(qp_json_root(&doc), QUIPU_STR(MESSAGE_OURS))) != QP_JSON_NONE) {
        status = qp_error_field(reterr, QUIPU_INVALID, "Message", "extra", "reserved",
                                "the member \"" MESSAGE_OURS "\" of extra is the store's own; "
                                "use another name");
    }
    qp_json_free(&doc);
    return status;
}

/* Texts into their columns. A text with U+0000 is stored as a view; the true one goes into extra.
 */
static quipu_status message_columns(qp_encoded *encoded, const quipu_message *message,
                                    qp_message_new *row, quipu_error *reterr)
{
    const int64_t reported =
        message->prompt_tokens | message->cached_tokens | message->answer_tokens;
    uint32_t odd = 0; /* bit i: text i is a view */

    assert(row->content.p == NULL);
    if (message->model.n > 0 || reported != 0) { /* most messages are not answers of models */
        quipu_status status = message_usage(message, row, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < MESSAGE_TEXTS; i++) {
        qp_text_fault fault = QP_TEXT_OK;
        quipu_str text;

        memcpy(&text, (const char *)message + message_texts[i].message, sizeof(text));
        if (encoded->source != QP_MESSAGES_PARSED && text.n > 0) {
            fault = qp_text_check(text, NULL);
        }
        /* A NUL is a fault that can be kept; bytes that are not UTF-8 are refused. */
        if (fault != QP_TEXT_OK && !qp_utf8_valid(text)) {
            return message_not_utf8(message_texts[i].name, text, reterr);
        }
        if (fault == QP_TEXT_NUL) {
            quipu_status status = message_view(&encoded->arena, text, &text, reterr);
            if (status != QUIPU_OK) {
                return status;
            }
            odd |= 1u << i;
        }
        memcpy((char *)row + message_texts[i].create, &text, sizeof(text));
    }
    /* The column takes no NULL: an absent content and an empty one are the same. */
    if (row->content.p == NULL) {
        row->content = QUIPU_STR("");
    }
    return odd != 0 || message->mark == QUIPU_MARK_COMPACTION
               ? message_extra(encoded, message, odd, &row->extra.text, reterr)
               : QUIPU_OK;
}

/* ---- encoding ---------------------------------------------------------------------------------
 */

/* The calls as one JSON column. */
static quipu_status message_calls(qp_encoded *encoded, const quipu_message *message, bool shared,
                                  quipu_str *ret, quipu_error *reterr)
{
    const qp_tool_calls_form form = {.shared = shared,
                                     .made = encoded->source == QP_MESSAGES_PARSED};
    qp_jsonw writer;
    qp_buf buf;

    assert(message->calls.count > 0);
    qp_buf_init(&buf, MESSAGE_JSON_MAX);
    (void)qp_buf_room(&buf, MESSAGE_CALLS_ROOM); /* most are no larger: no growing in steps */
    qp_jsonw_begin(&writer, &buf);
    qp_tool_calls_write_column(&writer, message->calls, form);
    return message_keep(&encoded->arena, &buf, qp_jsonw_end(&writer), ret, reterr);
}

/* One message into its row, but for what depends on the session: number, totals, time, hash. */
static quipu_status message_encode(qp_encoded *encoded, size_t at, const quipu_message *message,
                                   int64_t bytes_max, quipu_error *reterr)
{
    qp_message_new *row = &encoded->rows[at];
    /* Whether the content is what tools put out; such texts count once wherever they are counted.
     */
    const bool shared =
        message->calls.count > 0 && qp_tool_calls_are(message->content, message->calls);
    quipu_status status = message_check(encoded, message, bytes_max, shared, reterr);

    assert(at < encoded->count);
    /* Texts are borrowed from the caller, who waits until the row is written. */
    *row = (qp_message_new){.role = (qp_message_role)message->role,
                            .extra = message->extra,
                            .mark = (qp_message_mark)message->mark};
    encoded->named[at] = message->event_id.n > 0;
    encoded->any_named |= encoded->named[at];
    encoded->timed[at] = message->has_timestamp;
    if (message->has_timestamp) {
        row->timestamp = (ent_opt_time){true, message->timestamp};
    }
    if (status == QUIPU_OK && encoded->source != QP_MESSAGES_PARSED &&
        message->extra.text.p != NULL) {
        status = message_extra_check(message->extra, reterr);
    }
    if (status == QUIPU_OK) {
        status = message_columns(encoded, message, row, reterr);
    }
    if (status == QUIPU_OK && message->calls.count > 0) {
        status = message_calls(encoded, message, shared, &row->tool_calls.text, reterr);
    }
    /* Before the transaction: randomness may fail, and must not fail between two rows. */
    if (status == QUIPU_OK) {
        status =
            qp_event_id_bytes(message->event_id, encoded->id_room, &encoded->arena, &row->event_id);
        if (status == QUIPU_OK) {
            /* The salt goes with its message: afterwards nobody can test a guess of the text. */
            status = qp_random(encoded->hashes + at * QP_SALTED_HASH_SIZE, QP_SALT_SIZE);
        }
        if (status != QUIPU_OK) {
            return qp_error_set(reterr, status,
                                "no memory or no randomness for an event id or a salt");
        }
    }
    /* A summary counts nothing, so that a view has the tokens that lie between two totals. */
    if (status == QUIPU_OK && message->mark != QUIPU_MARK_COMPACTION) {
        row->tokens = message->calls.count > 0
                          ? qp_tool_calls_estimate(message->content, message->calls)
                          : qp_token_message(message->content, NULL, 0);
    }
    return status;
}

/* Memory for several messages. */
static quipu_status message_room(qp_encoded *encoded, quipu_error *reterr)
{
    size_t count = encoded->count;

    assert(encoded->count != 1 && encoded->count <= QUIPU_BATCH_MAX);
    encoded->rows = qp_arena_take(&encoded->arena, count * sizeof(*encoded->rows));
    encoded->named = qp_arena_take(&encoded->arena, count * sizeof(*encoded->named));
    encoded->timed = qp_arena_take(&encoded->arena, count * sizeof(*encoded->timed));
    encoded->hashes = qp_arena_take(&encoded->arena, count * QP_SALTED_HASH_SIZE);
    if (encoded->rows == NULL || encoded->named == NULL || encoded->timed == NULL ||
        encoded->hashes == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu messages", count);
    }
    return QUIPU_OK;
}

/* Reads one message of the caller's array by the size that the caller's header says: an older
 * program has a smaller struct, and its missing members are 0. */
quipu_status qp_message_take(quipu_messages messages, size_t index, quipu_arena *arena,
                             quipu_message *room, const quipu_message **ret_message,
                             quipu_error *reterr)
{
    quipu_messages one = messages;
    const quipu_message *message;
    quipu_status status;

    if (index >= messages.count || messages.items == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "there is no message %zu (counted from 0)",
                            index);
    }
    one.items = (const char *)messages.items + index * messages.item_size;
    one.count = 1;
    status = QP_SLICE_READ(&one, quipu_message, arena, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    message = one.items;
    /* Before anything walks over them. */
    if (message->calls.count > QUIPU_CALLS_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Message", "tool_calls", "count",
                              "the message has %zu tool calls; at most %d are allowed",
                              message->calls.count, QUIPU_CALLS_MAX);
    }
    if (message->calls.count > 0 &&
        (message->calls.item_size != sizeof(quipu_tool_call) || message->calls.items == NULL)) {
        *room = *message;
        message = room;
        status = QP_SLICE_READ(&room->calls, quipu_tool_call, arena, reterr);
    }
    *ret_message = message;
    return status;
}

/* Outside of any lock. The row of one message, the common case, lies in the struct: without calls
 * and odd texts it needs no allocation. */
quipu_status qp_encoded_make(qp_encoded *encoded, qp_message_source source, quipu_messages messages,
                             int64_t bytes_max, quipu_error *reterr)
{
    const size_t count = messages.count;
    quipu_status status = QUIPU_OK;

    *encoded = (qp_encoded){.source = source, .count = count};
    if (count > QUIPU_BATCH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "%zu messages in one call; at most %d are allowed: split them", count,
                            QUIPU_BATCH_MAX);
    }
    if (count == 1) {
        encoded->rows = &encoded->near_row;
        encoded->named = &encoded->near_named;
        encoded->timed = &encoded->near_timed;
        encoded->hashes = encoded->near_hash;
        encoded->id_room = encoded->near_id;
    } else {
        status = message_room(encoded, reterr);
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        const quipu_message *message = NULL;
        quipu_message room;

        status = qp_message_take(messages, i, &encoded->arena, &room, &message, reterr);
        if (status == QUIPU_OK) {
            assert(message != NULL);
            status = message_encode(encoded, i, message, bytes_max, reterr);
        }
        /* Says which message; entity, field and rule stay those of the cause. */
        if (status != QUIPU_OK && count > 1 && reterr != NULL) {
            quipu_error cause = *reterr;
            (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                                 "message %zu (counted from 0): %s", i, cause.message);
        }
    }
    return status;
}

/* Also after a failure in qp_encoded_make(). */
void qp_encoded_free(qp_encoded *encoded)
{
    if (encoded->arena.head != NULL) { /* one plain message needs none */
        quipu_arena_free(&encoded->arena);
    }
}

/* A session that was created in the same transaction has its number only now. */
void qp_encoded_own(qp_encoded *encoded, int64_t session)
{
    assert(session != 0);
    for (size_t i = 0; i < encoded->count; i++) {
        encoded->rows[i].session_id = session;
    }
}

/* ---- what messages mean for the row of their session -------------------------------------------
 * See header.h. Pure; called under the write lock by appends, creations with a history, imports of
 * other programs' files and the adoption of Lango's.
 */

/* White space, and what else has no place in a line. */
static bool message_is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

/* The beginning of a text in one line: white space collapsed, cut behind a word, or behind a
 * character where the last word alone is longer than half of it.
 *
 *   "  Book a\n\n flight " ─▶ "Book a flight" */
static void message_words(qp_header *header, quipu_str text)
{
    char *words = header->words;
    size_t n = 0;
    size_t word = 0; /* where the last word before the end begins, with the space in front of it */

    assert(header->wants_words && header->words_n == 0);
    for (size_t i = 0; i < text.n && n < sizeof(header->words); i++) {
        if (!message_is_space(text.p[i])) {
            words[n++] = text.p[i];
        } else if (n > 0 && words[n - 1] != ' ') {
            word = n;
            words[n++] = ' ';
        }
    }
    /* The buffer has room for one byte more than the limit, which shows that something is cut. */
    if (n > QUIPU_FIRST_WORDS_MAX) {
        n = word > QUIPU_FIRST_WORDS_MAX / 2
                ? word
                : qp_utf8_cut((quipu_str){words, n}, QUIPU_FIRST_WORDS_MAX);
    }
    header->words_n = n > 0 && words[n - 1] == ' ' ? n - 1 : n;
}

/* The counters that an append moves, from the row; without a row those of an empty session. */
void qp_header_begin(qp_header *header, const qp_session *row)
{
    static const qp_session empty = {.next_seq = 1};
    const qp_session *from = row != NULL ? row : &empty;

    header->next_seq = from->next_seq;
    header->message_count = from->message_count;
    header->token_count = from->token_count;
    header->turn_seq = from->turn_seq;
    header->last_event_at = (quipu_time){0, 0};
    header->hashed_from = from->hashed_from;
    header->begins_chain = header->hashed_from == 0;
    memset(header->hash, 0, sizeof(header->hash));
    /* A head of another length is damage, which verify finds; the chain then goes on from zeros. */
    if (header->hashed_from > 0 && from->head_hash.n == sizeof(header->hash)) {
        memcpy(header->hash, from->head_hash.p, sizeof(header->hash));
    }
    header->usage_before = QP_USAGE_OF(from);
    header->usage = header->usage_before;
    header->begins_span = false;
    header->wants_words = from->first_words.p == NULL && from->turn_seq == 0;
    header->words_n = 0;
}

/* Moves the counters by one message. A message of the user's without results of tools begins a
 * turn; the first one gives the session its first words. */
void qp_header_see(qp_header *header, const qp_message_new *message)
{
    assert(message->seq == header->next_seq);
    header->next_seq++;
    header->message_count++;
    header->token_count += message->tokens;
    header->last_event_at = message->timestamp.v;
    if (QP_USAGE_IN(message)) {
        header->begins_span |= qp_usage_add(&header->usage, message);
    }
    const bool calls =
        message->tool_calls.text.p != NULL && !qp_tool_calls_none(message->tool_calls.text);

    if (message->role == QP_MESSAGE_ROLE_USER && !calls) {
        header->turn_seq = message->seq;
        if (header->wants_words) {
            message_words(header, message->content);
            header->wants_words = false;
        }
    }
}

/* Fills the patch of the row. First words, usage and the beginning of the hash chain stay out of
 * the UPDATE where they do not change. */
void qp_header_patch(const qp_header *header, qp_session_patch *patch)
{
    assert(patch != NULL);
    patch->next_seq = ent_set(header->next_seq);
    patch->message_count = ent_set(header->message_count);
    patch->token_count = ent_set(header->token_count);
    if (header->words_n > 0) {
        patch->first_words = ent_set(((quipu_str){header->words, header->words_n}));
    }
    patch->turn_seq = ent_set(header->turn_seq);
    patch->last_event_at = ent_set(header->last_event_at);
    if (header->usage.count != header->usage_before.count) {
        patch->prompt_total = ent_set(header->usage.prompt);
        patch->cached_total = ent_set(header->usage.cached);
        patch->answer_total = ent_set(header->usage.answer);
        patch->answer_count = ent_set(header->usage.count);
    }
    if (header->begins_span) {
        patch->usage_span = ent_set(header->usage.span);
    }
    if (header->hashed_from > 0) {
        patch->head_hash = ent_set(((quipu_bytes){header->hash, sizeof(header->hash)}));
    }
    if (header->hashed_from > 0 && header->begins_chain) {
        patch->hashed_from = ent_set(header->hashed_from);
    }
}

/* ---- placing and inserting --------------------------------------------------------------------
 */

/* Under the row's lock, or on the cached row: from here on numbers and hashes are fixed. A repeated
 * batch places its messages again. */
void qp_encoded_place(qp_encoded *encoded, const qp_session *row, quipu_time now)
{
    qp_header *header = &encoded->header;

    qp_header_begin(header, row);
    header->wants_words = header->wants_words && !encoded->later_turn;
    for (size_t i = 0; i < encoded->count; i++) {
        qp_message_new *message = &encoded->rows[i];

        message->seq = header->next_seq;
        message->tokens_total = header->token_count + message->tokens;
        message->session_id = row != NULL ? row->id : 0; /* 0: qp_encoded_own() follows */
        if (!encoded->timed[i]) {
            message->timestamp = (ent_opt_time){true, now};
        }
        qp_header_hash(header, message, encoded->hashes + i * QP_SALTED_HASH_SIZE);
        qp_header_see(header, message);
    }
}

/* A taken event id is the caller's repeat (EXISTS); a taken number means that the row and the
 * messages do not fit each other. */
quipu_status qp_encoded_insert(const qp_encoded *encoded, ent_db *db, quipu_str tenant,
                               quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status =
        encoded->count == 1
            ? ent_create(db, NULL, &qp_message_entity, &encoded->rows[0], NULL, &error)
            : ent_create_many(db, &qp_message_entity, encoded->rows, encoded->count, &error);

    assert(ent_depth(db) > 0);
    /* Which of the two unique indexes refused the row shows in the name of the field. */
    if (status == QUIPU_EXISTS && strstr(error.field, "seq") != NULL) {
        /* It was read from the locked session: a repeat would meet it again. */
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "number %lld of a new message is taken; verify and repair the store",
                            (long long)encoded->rows[0].seq);
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    return encoded->header.begins_span ? qp_usage_write(db, tenant, encoded->header.usage_before,
                                                        encoded->rows, encoded->count, reterr)
                                       : QUIPU_OK;
}
