/* A message on its way to its row and back. Texts that a column cannot hold, those with U+0000, go
 * into the member "quipu" of `extra`, which only the store writes. */
#ifndef QP_STORE_MESSAGE_H
#define QP_STORE_MESSAGE_H

#include <quipu/store.h>

#include "base/json.h"
#include "gen/quipu.h"
#include "store/hash_chain.h"

#define QP_EVENT_ID_UUID 1 /* tags of the event_id column */
#define QP_EVENT_ID_TEXT 0
#define QP_EVENT_ID_UUID_SIZE 17

/* The column's bytes of an event id of at most QUIPU_EVENT_ID_MAX bytes, in the arena; an empty
 * text makes a new id. A UUID goes to `near_id` instead, unless that is NULL: it has room for
 * QP_EVENT_ID_UUID_SIZE bytes. QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_IO (no randomness). */
QUIPU_MUST_USE quipu_status qp_event_id_bytes(quipu_str text, uint8_t *near_id, quipu_arena *arena,
                                              quipu_bytes *ret);

/* The text of an event id, in the arena. QUIPU_CORRUPT for bytes of another form, QUIPU_NOMEM,
 * QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_event_id_text(quipu_bytes id, quipu_arena *arena, quipu_str *ret);

/* Where messages come from, which decides what has to be checked. */
typedef enum qp_message_source {
    QP_MESSAGES_GIVEN,  /* a caller: everything */
    QP_MESSAGES_STORED, /* a store: the same, but summaries are among them */
    QP_MESSAGES_PARSED  /* parsed JSON: texts are UTF-8 without NUL, `extra` is an object without a
                           reserved member, inputs and outputs that begin with a brace are objects.
                           That much is not checked again; the rules of the schema still are */
} qp_message_source;

/* Messages made ready for their rows before the write lock is taken. One plain message needs no
 * memory of its own. */
typedef struct qp_encoded {
    qp_message_new *rows; /* session, seq and totals are set under the lock */
    bool *named;          /* the caller gave the event id */
    bool any_named;       /* of any of them */
    bool *timed;          /* the caller gave the timestamp */
    size_t count;
    qp_header header; /* of the session, once they are placed */
    bool summary;     /* the default view shall begin with the first one */
    bool later_turn;  /* a turn began before them that the row does not know of */
    qp_message_source source;
    quipu_arena arena;
    uint8_t *hashes;  /* QP_SALTED_HASH_SIZE for each message: a salt, and room for its hash */
    uint8_t *id_room; /* near_id when there is one message, else NULL */
    qp_message_new near_row;
    bool near_named;
    bool near_timed;
    uint8_t near_id[QP_EVENT_ID_UUID_SIZE];
    uint8_t near_hash[QP_SALTED_HASH_SIZE];
} qp_encoded;

/* Message `index` of a slice that a caller passed, with this library's sizes: itself, or a copy in
 * *room with its calls in the arena. QUIPU_UNSUPPORTED, QUIPU_MISUSE (also no such message),
 * QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_message_take(quipu_messages messages, size_t index,
                                            quipu_arena *arena, quipu_message *room,
                                            const quipu_message **ret_message, quipu_error *reterr);

/* Checks and encodes; free with qp_encoded_free() also after a failure. QUIPU_INVALID, QUIPU_LIMIT,
 * QUIPU_NOMEM, QUIPU_IO (no randomness), QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_encoded_make(qp_encoded *encoded, qp_message_source source,
                                            quipu_messages messages, int64_t bytes_max,
                                            quipu_error *reterr);
void qp_encoded_free(qp_encoded *encoded);

/* Under the lock: give the rows their session, numbers, totals, missing times and hashes, behind
 * what `row` has; the header follows. `row` is NULL for a session that is new; qp_encoded_own()
 * says its number when it is known. */
void qp_encoded_place(qp_encoded *encoded, const qp_session *row, quipu_time now);
void qp_encoded_own(qp_encoded *encoded, int64_t session);

/* Insert the placed rows, and rows of Usage where spans begin. */
QUIPU_MUST_USE quipu_status qp_encoded_insert(const qp_encoded *encoded, ent_db *db,
                                              quipu_str tenant, quipu_error *reterr);

/* Whether a stored row is the same message as row `at` of the batch, without what the store filled
 * in. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_encoded_equals(const qp_encoded *encoded, size_t at,
                                              const qp_message *row, bool *ret_equal);

#define QP_MESSAGE_TOKENS_MAX (INT64_C(1) << 40) /* of one message: its text is far shorter */
#define QP_TOKENS_TOTAL_MAX (INT64_C(1) << 62) /* of all up to it: what is added never overflows */

/* Whether its token counts are possible. A row of the file is input, and callers add them up. */
static inline bool qp_message_counts_sound(const qp_message *row)
{
    return row->tokens >= 0 && row->tokens <= QP_MESSAGE_TOKENS_MAX && row->tokens_total >= 0 &&
           row->tokens_total <= QP_TOKENS_TOTAL_MAX;
}

/* A row, whose texts are borrowed, as a message in the arena. QUIPU_CORRUPT, QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_message_decode(const qp_message *row, qp_json_doc *doc,
                                              quipu_arena *arena, quipu_message *ret_message,
                                              quipu_error *reterr);

#endif
