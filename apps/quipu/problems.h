/* Shared by verify, repair and doctor: a progress bar, and printing problems as they are found. */
#ifndef APPS_QUIPU_PROBLEMS_H
#define APPS_QUIPU_PROBLEMS_H

#include "app.h"

/* A bar for quipu_store_verify(): first over the bytes of the file, then
 * over the sessions. */
typedef struct app_checking {
    const app_call *call;
    int64_t total; /* estimated number of sessions */
    app_watch file;
    app_progress sessions;
} app_checking;

/* Begins, and sets progress and cancel of `within`; Ctrl-C stops the call. */
void app_checking_begin(app_checking *checking, const app_call *call, quipu_store *store,
                        quipu_call_options *within);
/* Clears the bar, before something is printed and at the end; it may reappear. */
void app_checking_pause(app_checking *checking);

/* The source that a store is compared with: heads of sessions or an export. */
typedef struct app_known {
    FILE *file;
    quipu_key_fn key; /* it is encrypted; NULL: it is not */
    void *key_ctx;
} app_known;

/* Checks everything, with `repair` also fixes it; then compares it with `known`, or NULL. Returns
 * an exit code: APP_FAILURE when a problem remains. */
int app_problems(const app_call *call, quipu_store *store, bool repair, const app_known *known);

#endif
