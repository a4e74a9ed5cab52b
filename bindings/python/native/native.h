/* The library as Python sees it: calls as jobs. A job is filled with texts and numbers, run on this
 * thread or on one that never needs the interpreter, and read. generate.py passes this file to cffi
 * without its preprocessor lines. */
#ifndef QPY_NATIVE_H
#define QPY_NATIVE_H

#include <stddef.h>
#include <stdint.h>

enum {
    QPY_OPEN,
    QPY_ENCRYPT,
    QPY_REKEY,
    QPY_CREATE,
    QPY_GET,
    QPY_UPDATE,
    QPY_DELETE,
    QPY_LIST,
    QPY_APPEND,
    QPY_WINDOW,
    QPY_SEARCH,
    QPY_RECALL,
    QPY_FORK,
    QPY_COMPACT,
    QPY_SWEEP,
    QPY_BACKUP,
    QPY_UNCOMPACT,
    QPY_PRUNE,
    QPY_EXPORT,
    QPY_IMPORT,
    QPY_SOURCE,
    QPY_COPY,
    QPY_STATS,
    QPY_UPGRADE,
    QPY_VERIFY,
    QPY_VERIFY_AGAINST,
    QPY_ERASE,
    QPY_INDEX,
    QPY_FACTOR,
    QPY_FACTOR_LEARN,
    QPY_MEMORY_SAVE,
    QPY_MEMORY_FIND,
    QPY_MEMORY_UPDATE,
    QPY_MEMORY_DELETE,
    QPY_MEMORY_RUN,
    QPY_MEMORY_START,
    QPY_MEMORY_STOP,
    QPY_MEMORY_STATUS,
    QPY_CHANGE_WAIT,
    QPY_USED,
    QPY_BLAME,
    QPY_ARTIFACT_SAVE,
    QPY_ARTIFACT_GET,
    QPY_ARTIFACT_FIND,
    QPY_ARTIFACT_DELETE,
    QPY_CONTEXT,
    QPY_STATE,
    QPY_STATE_SET,
    QPY_TAIL_OPEN,
    QPY_TAIL_NEXT,
    QPY_TAIL_CLOSE,
    QPY_FEED,
    QPY_ITEMS_GET,
    QPY_ROWS_ADD,
    QPY_ROWS_GET,
    QPY_ADK_CREATE,
    QPY_ADK_GET,
    QPY_ADK_LIST,
    QPY_ADK_DELETE,
    QPY_ADK_APPEND,
    QPY_ADK_USER_STATE,
    QPY_ADK_EVENT,
    QPY_OP_COUNT
};

/* Structs that go by a table of their members: native_shapes.c. The first six tables are the library's
 * own (quipu/fields.h). A message goes as its JSON; its table says what the message of a language has. */
enum {
    QPY_SESSION_INFO,
    QPY_SESSION_NEW,
    QPY_SESSION_PATCH,
    QPY_MEMORY,
    QPY_ARTIFACT,
    QPY_MESSAGE,
    QPY_SESSION_NEW_MORE,
    QPY_SESSION_PATCH_MORE,
    QPY_OPEN_OPTIONS,
    QPY_SERVICE_OPTIONS,
    QPY_RANGE,
    QPY_LIST_OPTIONS,
    QPY_APPEND_OPTIONS,
    QPY_APPENDED,
    QPY_HISTORY,
    QPY_WINDOW_OPTIONS,
    QPY_WINDOW_RESULT,
    QPY_SEARCH_OPTIONS,
    QPY_SEARCH_HIT,
    QPY_RECALL_OPTIONS,
    QPY_RECALL_HIT,
    QPY_EXPORT_OPTIONS,
    QPY_IMPORT_OPTIONS,
    QPY_TRANSFER,
    QPY_SOURCE_OPTIONS,
    QPY_SOURCE_REPORT,
    QPY_COPIED,
    QPY_STATS_RESULT,
    QPY_PROBLEM,
    QPY_VERIFIED,
    QPY_COMPARED,
    QPY_ERASE_OPTIONS,
    QPY_ERASURE,
    QPY_FACTOR_RESULT,
    QPY_MEMORY_KIND,
    QPY_MEMORY_PATCH,
    QPY_MEMORY_QUERY,
    QPY_MEMORY_OPTIONS,
    QPY_MEMORY_RAN,
    QPY_MEMORY_PROGRESS,
    QPY_CONTEXT_OPTIONS,
    QPY_USAGE,
    QPY_TOOL,
    QPY_CONTEXT_RESULT,
    QPY_CONTENT,
    QPY_PART,
    QPY_FEED_OPTIONS,
    QPY_CHANGE,
    QPY_USAGE_QUERY,
    QPY_USAGE_ROW,
    QPY_STATE_ENTRY,
    QPY_ARTIFACT_NEW,
    QPY_ARTIFACT_QUERY,
    QPY_SHAPES
};

/* Types of members beside those of quipu_field_type: a bit that a truth sets, and milliseconds that
 * Python gives as seconds. */
enum { QPY_TYPE_FLAG = 32, QPY_TYPE_SECONDS };

/* One member of such a struct. A row has, for each member in order: when `has` is set, a number that
 * says whether a value follows; then the value: a text, a number or, for a time, two. */
typedef struct qpy_field {
    const char *name;
    const char *choices; /* the names of an enum's numbers from 0 on, separated by '|'; or NULL */
    int type;            /* a quipu_field_type, or QPY_TYPE_* */
    int has;
    int by_hand; /* it is no part of the row that Python gives */
} qpy_field;

/* The member number `number` of a struct; 0: there is none. */
int qpy_field_at(int which, size_t number, qpy_field *ret);

/* A store with the ADK service over it, and how many jobs use it. */
typedef struct qpy_store qpy_store;

/* Threads that run jobs, and the jobs that are done. */
typedef struct qpy_port qpy_port;

/* A text; p is NULL for none. */
typedef struct qpy_text {
    const char *p;
    size_t n;
} qpy_text;

typedef struct qpy_job {
    int64_t id;      /* the caller's */
    int32_t status;  /* a quipu_status */
    const char *why; /* the error message when it failed */
    qpy_text *texts; /* the results... */
    size_t text_count;
    int64_t *numbers;
    size_t number_count;
    qpy_store *store; /* ...or the store that was opened */
} qpy_job;

/* Creates a job from texts, concatenated in `blob` (length -1: none), and numbers. NULL: no memory.
 * The store must outlive the job's run. */
qpy_job *qpy_job_new(int op, qpy_store *store, const char *blob, const int64_t *lengths,
                     size_t text_count, const int64_t *numbers, size_t number_count);
/* A second store of the job, the target of a copy. */
void qpy_job_set_target(qpy_job *job, qpy_store *target);
void qpy_job_run(qpy_job *job);
/* Runs a job on this thread. On the main thread SIGINT ends the call; 1: it did, the job's status is
 * QUIPU_CANCELLED, and Python has yet to run its handler. */
int qpy_job_run_here(qpy_job *job);
void qpy_job_free(qpy_job *job);
/* Frees a job whose store still exists: its memory may be reused by another job. */
void qpy_job_end(qpy_job *job);

/* Closes a store: later jobs fail, running ones are waited for. Free closes too; no job may use the
 * store then. */
void qpy_store_close(qpy_store *store);
int qpy_store_is_closed(qpy_store *store);
void qpy_store_free(qpy_store *store);

qpy_port *qpy_port_new(void);
int qpy_port_fd(qpy_port *port); /* readable when jobs are done */
/* 0: queued; 1: done already; -1: there is no thread, run it yourself. */
int qpy_port_submit(qpy_port *port, qpy_job *job);
qpy_job *qpy_port_take(qpy_port *port); /* the jobs that are done, a list; or NULL */
qpy_job *qpy_job_next(qpy_job *job);    /* the next one of such a list, or NULL */
void qpy_port_free(qpy_port *port);     /* does not wait: running jobs complete */

/* A function of Python that embeds texts, which lie end to end. It puts as many vectors as there are
 * texts, or says why not and returns another number than 0. Called on any thread. */
typedef struct qpy_vectors qpy_vectors;
typedef int (*qpy_embed_fn)(int64_t embedder, const char *texts, const int64_t *lengths,
                            size_t text_count, qpy_vectors *ret_vectors);
int qpy_vectors_put(qpy_vectors *vectors, const float *values, size_t count, size_t dimensions);
void qpy_vectors_fail(qpy_vectors *vectors, const char *why);

/* A function of Python that asks a model: its name, instructions, a text and a JSON Schema of the
 * answer lie end to end, `timeout_ms` says how long it may take. It puts the answer, or says why not
 * and returns another number than 0. Called on any thread. */
typedef struct qpy_answer qpy_answer;
typedef int (*qpy_ask_fn)(int64_t asker, const char *texts, const int64_t *lengths,
                          int64_t timeout_ms, qpy_answer *ret_answer);
int qpy_answer_put(qpy_answer *answer, const char *text, size_t size);
void qpy_answer_fail(qpy_answer *answer, const char *why);

const char *qpy_version(void);
const char *qpy_sqlite_version(void);
/* Whether Python's module _sqlite3, of this file (NULL: it is part of the interpreter), uses the same
 * copy of SQLite as the library. */
int qpy_sqlite_is_shared(const char *module);

#endif
