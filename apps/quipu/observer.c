/* The thread of observer.h.
 *
 *   verb:    ask ──▶ asked ──▶ ... ──▶ end ──▶ join
 *   thread:  wait ──▶ quipu_memory_run() for the session ──▶ wait ... ──▶ nothing asked, ends
 *
 * Locks: the mutex is not held while it observes. A run that fails is no concern of the verb's: the
 * store keeps the reason (`quipu memory status`), and any worker tries again. */
#include "observer.h"

#include <quipu/memory.h>

#define OBSERVER_RUN_MS 5000 /* the longest that an ending verb waits for */

static void observer_look(const app_observer *observer)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;

    options.session_key = observer->key;
    call.deadline_ms = OBSERVER_RUN_MS;
    status = quipu_memory_run(observer->store, &options, &call, NULL, NULL);
    (void)status;
}

static void *observer_thread(void *ctx)
{
    app_observer *observer = ctx;

    pthread_mutex_lock(&observer->mutex);
    for (;;) {
        while (!observer->asked && !observer->ends) {
            pthread_cond_wait(&observer->changed, &observer->mutex);
        }
        if (!observer->asked) {
            break;
        }
        observer->asked = false;
        pthread_mutex_unlock(&observer->mutex);
        observer_look(observer);
        pthread_mutex_lock(&observer->mutex);
    }
    pthread_mutex_unlock(&observer->mutex);
    return NULL;
}

bool app_observer_begin(app_observer *observer, quipu_store *store, quipu_str key)
{
    *observer = (app_observer){.store = store, .key = key};
    observer->begun = pthread_mutex_init(&observer->mutex, NULL) == 0 &&
                      pthread_cond_init(&observer->changed, NULL) == 0 &&
                      pthread_create(&observer->thread, NULL, observer_thread, observer) == 0;
    return observer->begun;
}

void app_observer_ask(app_observer *observer)
{
    if (observer->begun) {
        pthread_mutex_lock(&observer->mutex);
        observer->asked = true;
        pthread_cond_signal(&observer->changed);
        pthread_mutex_unlock(&observer->mutex);
    }
}

void app_observer_end(app_observer *observer)
{
    if (observer->begun) {
        pthread_mutex_lock(&observer->mutex);
        observer->ends = true;
        pthread_cond_signal(&observer->changed);
        pthread_mutex_unlock(&observer->mutex);
        (void)pthread_join(observer->thread, NULL);
        pthread_cond_destroy(&observer->changed);
        pthread_mutex_destroy(&observer->mutex);
        observer->begun = false;
    }
}
