/* Internal types of a job, for the files of this folder. */
#ifndef QPY_NATIVE_JOB_H
#define QPY_NATIVE_JOB_H

#include <stdatomic.h>
#include <sys/types.h>

#include <pthread.h>

#include <quipu/agent.h>
#include <quipu/fields.h>
#include <quipu/import.h>
#include <quipu/memory.h>

#include "native.h"

/* A job with its private part; the job is first, so that the pointers convert. */
typedef struct qpy_task {
    qpy_job job;
    int op;
    struct qpy_task *next;  /* in a list of a port */
    bool watched;           /* its submitter waits; under the port's lock... */
    atomic_bool done;       /* ...but this is read without it */
    struct port_worker *by; /* the thread that runs it */
    qpy_store *on;          /* the store that it uses, or NULL... */
    qpy_store *target;      /* ...and the one that it copies to, or NULL */
    quipu_str
        *in; /* the texts that were given; at least QPY_GIVEN_MIN, absent ones at the end... */
    size_t in_count;
    size_t in_next; /* ...and the next one that qpy_take_*() reads */
    int64_t *given; /* the numbers, likewise with zeros */
    size_t given_count;
    size_t given_next;
    const quipu_call_options *call; /* of the library's call, or NULL */
    quipu_arena arena;              /* texts, in and out */
    quipu_error error;
    size_t text_room;
    size_t number_room;
    char *kept; /* a large text that is not copied to the arena, or NULL */
    size_t kept_room;
} qpy_task;

#define QPY_GIVEN_MIN 16 /* texts and numbers that every task has */

/* A member of a struct of C. */
typedef struct qpy_member {
    const char *name;    /* as Python knows it */
    const char *choices; /* see qpy_field */
    uint32_t type;       /* a quipu_field_type, or QPY_TYPE_* */
    uint32_t offset;
    uint32_t size;
    uint32_t has_offset; /* of the bool that says whether it is there, or QUIPU_FIELD_NO_HAS */
    uint32_t bit_offset; /* of the uint32_t in which... */
    uint32_t bit;        /* ...this bit says that it is given; 0: none */
    bool by_hand;
} qpy_member;

/* The members of a struct. */
typedef struct qpy_shape {
    const qpy_member *items;
    size_t count;
} qpy_shape;

typedef struct qpy_worker qpy_worker;

struct qpy_store {
    quipu_store *store;
    quipu_service *service; /* of ADK's sessions */
    quipu_service *states;  /* of state(): by any key, behind others' changes, without events */
    quipu_cancel *closing;  /* ends calls that wait when the store is closed */
    pthread_mutex_t tails_mutex; /* guards the list of open tails: native_tail.c */
    struct qpy_tail *tails;
    int64_t tails_made;
    pthread_mutex_t worker_mutex; /* guards the functions of the worker that was started last */
    qpy_worker *worker;           /* or NULL */
    pid_t process;                /* that opened it: after fork(2) calls in the child fail */
    _Atomic(char *) spare; /* a buffer for a large answer, or NULL: new memory is slow to touch */
    atomic_int users;      /* running calls */
    atomic_bool closed;
};

/* The library's allocator. */
static inline quipu_allocator qpy_memory(void)
{
    quipu_allocator memory;

    (void)quipu_set_allocator(NULL, &memory);
    return memory;
}

/* Results; a failed allocation fails the job. */
void qpy_put_text(qpy_task *task, quipu_str text);
void qpy_put_own(qpy_task *task, quipu_str text); /* one that is in the task's arena already */
void qpy_put_number(qpy_task *task, int64_t number);
void qpy_put_uid(qpy_task *task, const quipu_uuid *uid); /* as two numbers, its halves */
void qpy_put_time(qpy_task *task, quipu_time time);
quipu_status qpy_no_memory(qpy_task *task);

/* What was given, in order; absent and 0 behind the last. */
quipu_str qpy_take_text(qpy_task *task);
int64_t qpy_take_number(qpy_task *task);

/* A struct as a row of an answer, and out of the next row of what was given: native_fields.c. Rows of
 * a list follow a 1 each, and a 0 ends the list. */
qpy_shape qpy_shape_of(int which);
void qpy_put_struct(qpy_task *task, int which, const void *from);
void qpy_put_item(qpy_task *task, int which, const void *from);
void qpy_put_end(qpy_task *task);
void qpy_take_struct(qpy_task *task, int which, void *to);

/* The session, then its messages as one array. */
quipu_status qpy_put_messages(qpy_task *task, const quipu_session_info *session,
                              quipu_messages messages);

/* Text that grows; `failed` sticks. */
typedef struct qpy_buf {
    char *p;
    size_t n;
    size_t room;
    bool failed;
} qpy_buf;

void qpy_buf_take_spare(qpy_buf *buf, qpy_store *store);
void qpy_buf_reserve(qpy_buf *buf, size_t n); /* at least n more bytes will come */
void qpy_buf_add(qpy_buf *buf, const char *p, size_t n);
void qpy_buf_free(qpy_buf *buf);
/* Starts a thread that helps a job and is joined before the job ends; false: there is none to be
 * had. Signals are blocked: the interpreter handles them. */
bool qpy_thread_start(void *(*main)(void *), void *ctx, pthread_t *ret_thread);

void qpy_put_buf(qpy_task *task,
                 qpy_buf *buf); /* an answer; at most one a task, then it is empty */
void qpy_keep_buf(qpy_task *task, qpy_buf *buf); /* the same, of which the answers are parts */

/* An embedder out of two numbers that were given, the function's address and the embedder's own;
 * NULL when the address is 0. `embedder` lives as long as it is used: native_embed.c. */
typedef struct qpy_embedder {
    quipu_provider provider;
    qpy_embed_fn call;
    int64_t number;
} qpy_embedder;
const quipu_provider *qpy_take_embedder(qpy_task *task, qpy_embedder *embedder);

/* The same for a function that asks a model: native_ask.c. */
#define QPY_ASK_TEXTS 4 /* of a question: the model, the instructions, the text, the schema */
typedef struct qpy_asker {
    quipu_provider provider;
    qpy_ask_fn call;
    int64_t number;
} qpy_asker;
const quipu_provider *qpy_take_asker(qpy_task *task, qpy_asker *asker);

/* The functions of a worker of memory. */
struct qpy_worker {
    qpy_asker asker;
    qpy_embedder embedder;
};

/* The calls of the ADK service: native_adk.c. */
quipu_status qpy_adk_create(qpy_task *task);
quipu_status qpy_adk_get(qpy_task *task);
quipu_status qpy_adk_list(qpy_task *task);
quipu_status qpy_adk_delete(qpy_task *task);
quipu_status qpy_adk_append(qpy_task *task);
quipu_status qpy_adk_user_state(qpy_task *task);
quipu_status qpy_adk_event(qpy_task *task);

/* Items of the OpenAI Agents SDK: native_items.c. */
quipu_status qpy_items_get(qpy_task *task);

/* Records of adapters: native_rows.c. */
quipu_status qpy_rows_add(qpy_task *task);
quipu_status qpy_rows_get(qpy_task *task);

/* The calls of the store: native_store.c. */
quipu_status qpy_open(qpy_task *task);
quipu_status qpy_encrypt(qpy_task *task);
quipu_status qpy_rekey(qpy_task *task);
quipu_status qpy_create(qpy_task *task);
quipu_status qpy_get(qpy_task *task);
quipu_status qpy_update(qpy_task *task);
quipu_status qpy_delete(qpy_task *task);
quipu_status qpy_list(qpy_task *task);
quipu_status qpy_append(qpy_task *task);
quipu_status qpy_window(qpy_task *task);
quipu_status qpy_search(qpy_task *task);
quipu_status qpy_recall(qpy_task *task);
quipu_status qpy_fork(qpy_task *task);
quipu_status qpy_compact(qpy_task *task);
quipu_status qpy_sweep(qpy_task *task);
quipu_status qpy_backup(qpy_task *task);
quipu_status qpy_uncompact(qpy_task *task);
quipu_status qpy_prune(qpy_task *task);
quipu_status qpy_index(qpy_task *task);
quipu_status qpy_factor(qpy_task *task);
quipu_status qpy_factor_learn(qpy_task *task);
quipu_status qpy_state(qpy_task *task);
quipu_status qpy_state_set(qpy_task *task);

/* Work on the whole store: native_maintain.c. */
quipu_status qpy_export(qpy_task *task);
quipu_status qpy_import(qpy_task *task);
quipu_status qpy_source(qpy_task *task);
quipu_status qpy_copy(qpy_task *task);
quipu_status qpy_stats(qpy_task *task);
quipu_status qpy_upgrade(qpy_task *task);
quipu_status qpy_verify(qpy_task *task);
quipu_status qpy_verify_against(qpy_task *task);
quipu_status qpy_erase(qpy_task *task);

/* Memories and prompts: native_memory.c. */
/* Puts an item: a memory behind its kind. */
void qpy_put_memory(qpy_task *task, const quipu_memory *memory);
quipu_status qpy_memory_save(qpy_task *task);
quipu_status qpy_memory_find(qpy_task *task);
quipu_status qpy_memory_update(qpy_task *task);
quipu_status qpy_memory_delete(qpy_task *task);
quipu_status qpy_memory_run(qpy_task *task);
quipu_status qpy_memory_start(qpy_task *task);
quipu_status qpy_memory_stop(qpy_task *task);
quipu_status qpy_memory_status(qpy_task *task);
quipu_status qpy_change_wait(qpy_task *task);
quipu_status qpy_used(qpy_task *task);
quipu_status qpy_blame(qpy_task *task);
quipu_status qpy_artifact_save(qpy_task *task);
quipu_status qpy_artifact_get(qpy_task *task);
quipu_status qpy_artifact_find(qpy_task *task);
quipu_status qpy_artifact_delete(qpy_task *task);
quipu_status qpy_context(qpy_task *task);

/* Tails and the feed: native_tail.c. */
quipu_status qpy_tail_open(qpy_task *task);
quipu_status qpy_tail_next(qpy_task *task);
quipu_status qpy_tail_close(qpy_task *task);
quipu_status qpy_feed(qpy_task *task);
bool qpy_op_waits(int op);              /* for others, as long as Python asks it to */
void qpy_tails_close(qpy_store *store); /* no job uses the store any more */

#endif
