/* A file of another program, opened read-only: which sessions it has, where their messages are, and
 * what both become in the store. Each kind of file implements qp_source_layout. */
#ifndef QP_IMPORT_SOURCE_H
#define QP_IMPORT_SOURCE_H

#include <quipu/adk.h>
#include <quipu/import.h>

#include "base/buf.h"
#include "base/json.h"
#include "gen/quipu.h"
#include "store/message.h"
#include "store/state.h"

#define QP_SOURCE_TEXT_MAX ((size_t)512 << 20) /* of what one row is made into */

/* A session of the file; texts lie in the source's arena. */
typedef struct qp_source_session {
    quipu_session_ref ref; /* empty app and user: a plain session, whose id is its key */
    int64_t row;
    int table;    /* which table `row` is of, where a file has sessions in two */
    size_t first; /* index of its first place */
    size_t count;
} qp_source_session;

/* A message of a chat program: one row may make several, and one of LangGraph lies in a list. */
typedef struct qp_source_item {
    int64_t row;       /* of the table that the layout reads it from */
    int64_t about_row; /* of another table that says more of it; 0: none */
    int part;          /* which message of the row, by the layout */
    ent_opt_time time;
} qp_source_item;

/* Where a message belongs; places sort by session, then time, then row. */
typedef struct qp_source_place {
    size_t session;
    quipu_time time;
    int64_t row;
} qp_source_place;

typedef struct qp_source qp_source;

/* The values of a session in the store; texts lie in the arena and in the source's buffers. */
typedef struct qp_source_values {
    qp_session_new row; /* write.c adds key, uid and counts */
    qp_state_items state;
} qp_source_values;

/* State that belongs to an app or a user. */
typedef struct qp_source_shared {
    quipu_str app_name;
    quipu_str user_id; /* absent: the app's */
    bool has_time;
    quipu_time updated_at;
    qp_state_items state;
} qp_source_shared;

typedef quipu_status (*qp_source_shared_fn)(void *ctx, const qp_source_shared *shared,
                                            quipu_error *reterr);

/* How a kind of file is read. `message` returns a row without session, number and running total of
 * tokens; it is valid until the next call. */
typedef struct qp_source_layout {
    quipu_status (*open)(qp_source *source, quipu_error *reterr);
    quipu_status (*session)(qp_source *source, const qp_source_session *session,
                            qp_source_values *ret, quipu_error *reterr);
    quipu_status (*message)(qp_source *source, const qp_source_session *session, int64_t row,
                            qp_message_new *ret, quipu_error *reterr);
    quipu_status (*shared)(qp_source *source, qp_source_shared_fn fn, void *ctx,
                           quipu_error *reterr);
    /* Sessions have keys of kind and id, "llm:01h...", and grow with the file: a later import adds
     * what is new. */
    bool is_chat;
} qp_source_layout;

/* An open file of another program. The caller sets the members up to orphan_ctx, except for
 * `layout`; that and the rest belong to source.c and the layout. */
struct qp_source {
    ent_db *db;
    const char *path; /* for error texts */
    quipu_source_kind kind;
    const qp_source_layout *layout;
    int64_t bytes_max; /* of a message */
    quipu_orphan_fn orphan;
    void *orphan_ctx;
    quipu_arena arena; /* names, descriptors */
    ent_entity event;  /* the message's entity, reduced to the columns that this file has... */
    ent_entity place;  /* ...and to those that say where it belongs */
    qp_source_session *sessions;
    size_t session_count;
    size_t session_room;
    qp_source_place *places;
    size_t place_count;
    size_t place_room;
    qp_source_item *items; /* of a chat program: `row` of a place is an index of these */
    size_t item_count;
    size_t item_room;
    uint32_t tables;          /* which optional tables the file has, by the layout's own bits */
    quipu_str *texts;         /* LangGraph: the messages of the current session as JSON... */
    size_t text_count;        /* ...in `extra`; the array lies in `scratch` */
    size_t text_item;         /* the item of the first one */
    quipu_status text_status; /* of the texts of JSON that were read: qp_chat_string() */
    qp_json_doc item_doc;     /* JSON of a row that becomes an event */
    int64_t orphans;
    quipu_arena scratch; /* reset after each session */
    quipu_arena row;     /* reset before each message */
    qp_buf buf;
    qp_buf extra;
    qp_json_doc doc;
    qp_encoded encoded;
    char event_id[32];
};

extern const qp_source_layout qp_source_adk;
extern const qp_source_layout qp_source_lango;
extern const qp_source_layout qp_source_llm;
extern const qp_source_layout qp_source_openai_agents;
extern const qp_source_layout qp_source_langgraph;

/* Finds out the kind of a file, or checks that it is the one that the caller names.
 * QUIPU_UNSUPPORTED. */
QUIPU_MUST_USE quipu_status qp_source_detect(ent_db *db, const char *path, quipu_source_kind wanted,
                                             quipu_source_kind *ret_kind, quipu_error *reterr);

/* Reads all sessions and the places of all messages, and reports orphans. The caller has set
 * its members of `source`, and closes it after a failure, too. */
QUIPU_MUST_USE quipu_status qp_source_open(qp_source *source, quipu_error *reterr);
void qp_source_close(qp_source *source);

/* ---- for the layouts --------------------------------------------------------------------------
 */

QUIPU_MUST_USE quipu_status qp_source_add_session(qp_source *source, const quipu_session_ref *ref,
                                                  int64_t row, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_source_add_place(qp_source *source, qp_source_place place,
                                                quipu_error *reterr);

QUIPU_MUST_USE quipu_status qp_source_add_item(qp_source *source, const qp_source_item *item,
                                               quipu_error *reterr);

/* The event in source->buf as a row, valid until the next one. */
QUIPU_MUST_USE quipu_status qp_source_event(qp_source *source, qp_message_new *ret,
                                            quipu_error *reterr);

/* Sorts the sessions, which qp_source_find() needs. */
void qp_source_sort_sessions(qp_source *source);

/* The index of a session, or session_count. */
size_t qp_source_find(const qp_source *source, const quipu_session_ref *ref);

/* Counts and reports a message whose session does not exist. */
void qp_source_report_orphan(qp_source *source, const quipu_session_ref *ref, int64_t row);

/* An entity without the nullable fields whose columns this file lacks. QUIPU_UNSUPPORTED when the
 * file lacks any other column. */
QUIPU_MUST_USE quipu_status qp_source_fit(qp_source *source, const ent_entity *entity,
                                          ent_entity *ret, quipu_error *reterr);

/* Prefixes the error text with the file, the object and its row; returns `status`. */
quipu_status qp_source_fail(const qp_source *source, const char *what, int64_t row,
                            quipu_status status, quipu_error *reterr);

/* adk_event.c: the event of a row as JSON text in source->buf. */
QUIPU_MUST_USE quipu_status qp_adk_event_json(qp_source *source, int64_t row, quipu_error *reterr);

/* adk_event.c: a time as these files write it: a date, or seconds since 1970. */
QUIPU_MUST_USE quipu_status qp_adk_time(quipu_str text, quipu_time *ret_time);
QUIPU_MUST_USE quipu_status qp_adk_seconds(double seconds, quipu_time *ret_time);

#endif
