/* An import under way: what its files share. Each file owns one thing:
 *   import_read.c     bytes to lines
 *   import_lines.c    lines to groups: a session with all that follows it, or what is about none
 *   import_session.c  sessions, their messages, and whether a session is whole
 *   import_state.c    state, its events, usage, artifacts, factors of models
 *   import_memory.c   observations, reflections, scopes of memory, what was sent
 *   import.c          groups into transactions, and the call
 * A line is parsed into `doc` before qp_import_line_*() stores it; those run inside of the group's
 * transaction. */
#ifndef QP_STORE_IMPORT_INTERNAL_H
#define QP_STORE_IMPORT_INTERNAL_H

#include "base/json.h"
#include "store/export_lines.h"
#include "store/import_read.h"
#include "store/maintain.h"
#include "store/store.h"

typedef enum qp_import_type {
    QP_LINE_NONE = 0, /* there is no further line */
    QP_LINE_SESSION,
    QP_LINE_MESSAGE,
    QP_LINE_STATE,
    QP_LINE_STATE_EVENT,
    QP_LINE_FACTOR,
    QP_LINE_OBSERVATION,
    QP_LINE_REFLECTION,
    QP_LINE_SCOPE,
    QP_LINE_CONTEXT,
    QP_LINE_USAGE,
    QP_LINE_ARTIFACT,
    QP_LINE_END
} qp_import_type;

/* One line of the group that is gathered; its text lies in `gathered`. */
typedef struct qp_import_line {
    quipu_str text;
    int64_t number;
    qp_import_type type;
    struct qp_import_line *next;
} qp_import_line;

/* A session that forks of a later line may name. */
typedef struct qp_import_parent {
    quipu_uuid uid;
    int64_t id;
} qp_import_parent;

/* One import. A group is a session with all that follows it, or lines that belong to no session; it
 * is stored in one transaction. */
typedef struct qp_lines_import {
    quipu_store *store;
    quipu_import_options options;
    qp_line_reader reader;
    qp_json_doc doc;
    qp_import_line ahead; /* read, but not gathered yet */

    quipu_arena gathered; /* lines of the group under way... */
    qp_import_line *first;
    qp_import_line *last;
    size_t gathered_bytes;
    bool open;        /* it has lines, stored or gathered */
    bool loose;       /* it is about no session */
    bool whole;       /* no line of it is left to be read */
    quipu_str key;    /* of its session, or absent */
    int64_t begun;    /* number of its first line */
    bool skip;        /* the session is there already */
    quipu_arena kept; /* the session's row */
    const qp_session *row;

    qp_import_parent *parents;
    size_t parent_count;
    size_t parent_cap;
    quipu_transfer done;  /* of groups that are stored */
    quipu_transfer group; /* of the one under way */
    bool consumed;        /* lines of the group under way are gone */
    const qp_call *within;
} qp_lines_import;

/* Lines to groups (import_lines.c).
 * fail:   puts the line's number before the message of a failure; returns `status`.
 * parse:  reads a text into `doc`, which it overwrites.
 * read:   the next line into `ahead` and `doc`. A missing line is an error: the footer ends a file.
 * gather: takes lines until the group is whole or the buffer full. `ahead` holds a line when it
 *         begins, and when the group is whole also when it ends. */
QUIPU_MUST_USE quipu_status qp_import_line_fail(const qp_lines_import *run, int64_t number,
                                                quipu_status status, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_parse(qp_lines_import *run, quipu_str text,
                                                 int64_t number, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_read(qp_lines_import *run, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_gather(qp_lines_import *run, quipu_error *reterr);

/* Store the line that is parsed (import_session.c). `check` and `record` end a group: a problem
 * that verify finds in its session is an error, and the feed records the session. */
QUIPU_MUST_USE quipu_status qp_import_line_session(qp_lines_import *run, ent_db *db,
                                                   quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_message(qp_lines_import *run, ent_db *db,
                                                   quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_check(qp_lines_import *run, ent_db *db,
                                                 quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_record(const qp_lines_import *run, ent_db *db,
                                                  quipu_error *reterr);

/* Store the line that is parsed (import_state.c, import_memory.c). A value that is there already
 * stays when it is as new, unless the options demand that everything is new. */
QUIPU_MUST_USE quipu_status qp_import_line_state(qp_lines_import *run, ent_db *db,
                                                 quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_state_event(qp_lines_import *run, ent_db *db,
                                                       quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_usage(qp_lines_import *run, ent_db *db,
                                                 quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_artifact(qp_lines_import *run, ent_db *db,
                                                    quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_factor(qp_lines_import *run, ent_db *db,
                                                  quipu_arena *scratch, quipu_error *reterr);

QUIPU_MUST_USE quipu_status qp_import_line_memory(qp_lines_import *run, ent_db *db,
                                                  quipu_arena *scratch, quipu_memory_kind kind,
                                                  quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_scope(qp_lines_import *run, ent_db *db,
                                                 quipu_arena *scratch, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_line_context(qp_lines_import *run, ent_db *db,
                                                   quipu_arena *scratch, quipu_error *reterr);

#endif
