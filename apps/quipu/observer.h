/* A worker of memory beside a verb: a thread that observes a session whenever it is asked to. The
 * verb never waits for it until it ends. */
#ifndef APPS_QUIPU_OBSERVER_H
#define APPS_QUIPU_OBSERVER_H

#include <pthread.h>

#include <quipu/store.h>

typedef struct app_observer {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the last two */
    pthread_cond_t changed;
    quipu_store *store;
    quipu_str key;
    bool begun; /* the thread runs; set and read by the verb alone */
    bool asked; /* something was said since the last look */
    bool ends;
} app_observer;

/* Start the thread; false: there is none. Store and key must outlive it. */
bool app_observer_begin(app_observer *observer, quipu_store *store, quipu_str key);

/* Something was said: returns at once. Without a thread it does nothing. */
void app_observer_ask(app_observer *observer);

/* Let it finish what was asked for, a few seconds at most, and end the thread. */
void app_observer_end(app_observer *observer);

#endif
