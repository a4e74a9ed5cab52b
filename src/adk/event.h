/* An ADK event, JSON text, on its way to a message of the store and back, without loss.
 *
 * Columns hold what they can express; the rest stands in the member "adk" of the message's `extra`:
 * a string of marks, or an object
 *
 *   {"f": marks, "e": members of the event, "c": members of its content, "p": its parts, "o": odd}
 *
 * where what is absent has its usual form. A mark is a letter of QP_MARK_*. "p" has one entry a
 * part: a number, a text part of so many bytes of the content; a string, the next tool call (see
 * QP_CALL_*); an object, the part itself; an array, a mixture: the part's other members first, then
 * numbers and strings, each string followed by the call's other members when there are any; an
 * array in an array, a value that is not an object. "o" says what the texts of columns hold that a
 * column cannot: see event_odd.c. */
#ifndef QP_ADK_EVENT_H
#define QP_ADK_EVENT_H

#include <quipu/adk.h>

#include "base/json.h"
#include "base/jsonw.h"

#define QP_EVENT_JSON_MAX ((size_t)1 << 30) /* above what an event within its limits can need */
#define QP_EVENT_MEMBER "adk"

#define QP_MARK_SNAKE 's' /* names are snake_case */
#define QP_MARK_NO_ID 'i' /* the member is not made from its column, and so on */
#define QP_MARK_NO_TIME 't'
#define QP_MARK_RFC3339 'T' /* the time is text, as Go writes it */
#define QP_MARK_WHOLE 'I'   /* the time is a number without a fraction */
#define QP_MARK_NO_AUTHOR 'a'
#define QP_MARK_NO_ROLE 'r'
#define QP_MARK_NO_CONTENT 'C'
#define QP_MARK_NO_PARTS 'p'
#define QP_MARK_ACTIONS 'A'   /* the four empty objects that ADK for Python always writes */
#define QP_MARK_NO_ACTION 'E' /* an empty object */
#define QP_MARK_NODE 'n'      /* node info with an empty path */

#define QP_CALL_CALL 'c'     /* first letter: a function call... */
#define QP_CALL_RESPONSE 'r' /* ...or a response */
#define QP_CALL_OTHER 'x'    /* its name is in the other spelling */
#define QP_CALL_NO_ID 'i'    /* the member is not made from the call, and so on */
#define QP_CALL_NO_NAME 'n'
#define QP_CALL_NO_BODY 'a'
#define QP_CALL_THOUGHT 't'
#define QP_CALL_STD 's'  /* the signature is in base64's standard alphabet... */
#define QP_CALL_URL 'u'  /* ...or in the one for URLs */
#define QP_CALL_BARE 'b' /* without padding */
#define QP_CALL_MARKS_MAX 10

/* Facts about an event that its message does not show; nodes point into the parsed text. */
typedef struct qp_event_facts {
    bool partial;
    bool has_content;
    qp_json_node actions; /* or none */
    qp_json_node delta;   /* actions.stateDelta, or none */
    bool only_state;      /* nothing but a state delta */
} qp_event_facts;

/* Encode the event that `doc` holds. Texts of the message lie in the event's text or in the arena.
 * With an `id` the event gets it if it has none, and a time if it has none; absent leaves both as
 * they are. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_event_encode(const qp_json_doc *doc, quipu_str id,
                                            quipu_arena *arena, quipu_message *ret_message,
                                            qp_event_facts *ret_facts, quipu_error *reterr);

/* Parse an event within its limits. */
QUIPU_MUST_USE quipu_status qp_event_parse(qp_json_doc *doc, quipu_str json, quipu_error *reterr);

/* Write the event of a message as it was appended. `root` is the author of an agent's message that
 * has none. QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_event_decode(const quipu_message *message, quipu_str root,
                                            qp_buf *buf, quipu_error *reterr);

/* Rewrite an event in a dialect. */
QUIPU_MUST_USE quipu_status qp_event_convert(quipu_str json, const quipu_event_dialect *dialect,
                                             qp_buf *buf, quipu_error *reterr);

/* The event of a message in a dialect, copied to the arena. */
QUIPU_MUST_USE quipu_status qp_event_write(const quipu_message *message, quipu_str root,
                                           const quipu_event_dialect *dialect, quipu_arena *arena,
                                           quipu_json *ret_event, quipu_error *reterr);

/* Read and check a caller's dialect; NULL is the stored one. QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_dialect_read(const quipu_event_dialect *given,
                                            quipu_event_dialect *ret, quipu_error *reterr);

/* ---- texts that a column cannot hold: event_odd.c ---------------------------------------------
 */

/* Where a string has U+0000 and lone surrogates, packed into letters behind what `odd` holds. The
 * string begins at byte `offset` of the column's text, `*last` is where the odd one before ended.
 * */
void qp_odd_pack(quipu_str raw, size_t offset, size_t *last, qp_buf *odd);

/* A reader of packed places. */
typedef struct qp_odd {
    quipu_str packed;
    size_t at;    /* in `packed` */
    size_t place; /* of the next odd character in the text; SIZE_MAX: none */
    uint32_t unit;
} qp_odd;

qp_odd qp_odd_begin(quipu_str packed);

/* Write bytes `from` to `from + text.n` of a column's text as a JSON string. Pieces of one text
 * come in order. */
void qp_odd_write(qp_odd *odd, quipu_str text, size_t from, qp_buf *buf);

/* ---- names: event_name.c -----------------------------------------------------------------------
 */

/* How the inside of a member is spelled. */
typedef enum qp_name_kind {
    QP_NAME_FREE = 0, /* the user's own names, or a scalar */
    QP_NAME_MODEL,    /* names of ADK, or a list of such objects */
    QP_NAME_MAP,      /* the user's names over objects with names of ADK */
    QP_NAME_BLOB,     /* names of ADK, and "data" is base64 */
    QP_NAME_BYTES     /* base64 */
} qp_name_kind;

#define QP_NAME_SIZE 40 /* no name of ADK is longer, in either spelling */

/* A name of ADK, given in either spelling, in snake_case, and what lies behind it; or NULL. */
const char *qp_name_find(quipu_str text, qp_name_kind *ret_kind);

/* The same name in camelCase, written into `ret`. */
quipu_str qp_name_camel(const char *snake, char ret[QP_NAME_SIZE]);

/* Whether a member's name means this text; quick for names without escapes. */
bool qp_key_is(qp_json_node key, quipu_str text);

#endif
