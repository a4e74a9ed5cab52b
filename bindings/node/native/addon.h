/* What the files of the addon share: one state for each environment of Node (the main thread's and
 * each worker's), its open stores and its calls. Everything here belongs to the environment's thread;
 * only a job, its cancel flag and the port are used by others. */
#ifndef QUIPU_NODE_ADDON_H
#define QUIPU_NODE_ADDON_H

#define NAPI_VERSION 8
#include <node_api.h>

#include <pthread.h>
#include <semaphore.h>

#include "native_job.h"

typedef struct node_state node_state;

#define NODE_FUNCTIONS_MAX 2 /* of a call, and of a worker: it asks, and it embeds */

/* A cancel flag that JavaScript holds and calls use. */
typedef struct node_flag {
    quipu_cancel *cancel;
    int users; /* JavaScript's handle, and calls */
} node_flag;

/* A function of JavaScript that the library calls back: function.c. */
typedef struct node_function node_function;

/* An open store: JavaScript's handle and each call hold it. */
typedef struct node_store {
    qpy_store *store;
    node_state *state;
    int users;
    node_function *functions[NODE_FUNCTIONS_MAX]; /* of its worker of memory, or NULL */
    struct node_store *next;                      /* in the state's list */
} node_store;

/* A call from its beginning until its promise is settled. */
typedef struct node_call {
    qpy_job *job;
    napi_deferred promise;
    node_store *on;                               /* or NULL: it opens a store */
    node_store *target;                           /* of a copy, or NULL */
    node_flag *flag;                              /* or NULL */
    node_function *functions[NODE_FUNCTIONS_MAX]; /* or NULL */
    bool starts;                                  /* a worker, which keeps the functions */
    bool waits;                                   /* for others; closing the store ends it */
    quipu_call_options options;
    struct node_call *next; /* in the state's list of calls whose jobs are not done */
    struct node_call *before;
} node_call;

struct node_state {
    napi_env env;
    int users; /* the environment, and each store */
    bool ended;
    qpy_port *port;
    node_call *calls;
    node_store *stores;
    napi_threadsafe_function wake; /* asks the environment's thread to take what is done */
    pthread_t watcher;             /* waits for the port, and calls `wake` */
    bool watching;
    int stop[2];                     /* a pipe: a byte ends the watcher */
    pthread_t thread;                /* the environment's */
    napi_threadsafe_function asks;   /* asks the environment's thread to call functions */
    pthread_mutex_t questions_mutex; /* guards the list, and `ended` for other threads */
    struct node_question *questions; /* that no answer has come for */
    sem_t taken; /* the thread has taken what was done: the watcher may look again */
};

/* A value out of a status of Node's; a failed one leaves an exception. */
bool node_ok(napi_env env, napi_status status);
napi_value node_fail(napi_env env, const char *why);

void node_flag_release(node_flag *flag);
void node_store_release(node_store *store);
void node_state_release(node_state *state);

/* The calls: call.c. */
napi_value node_run(napi_env env, napi_callback_info info);
napi_value node_close(napi_env env, napi_callback_info info);
napi_value node_is_closed(napi_env env, napi_callback_info info);
napi_value node_flag_new(napi_env env, napi_callback_info info);
napi_value node_flag_set(napi_env env, napi_callback_info info);
void node_take(node_state *state); /* settles the promises of what is done */

/* Functions of JavaScript: function.c. */
napi_value node_function_new(napi_env env, napi_callback_info info);
napi_value node_function_numbers(napi_env env, napi_callback_info info);
napi_value node_answer(napi_env env, napi_callback_info info);
node_function *node_function_hold(node_function *function); /* NULL stays NULL */
void node_function_release(node_function *function);
/* Ends what waits for a function (NULL: for any), and what will wait for it. */
void node_function_refuse(node_state *state, node_function *function, const char *why);
void node_asked(napi_env env, napi_value callback, void *context, void *data);

/* The thread beside the port: watch.c. */
bool node_watch(node_state *state);
void node_watch_end(node_state *state);
void node_wake(napi_env env, napi_value callback, void *context, void *data);

#endif
