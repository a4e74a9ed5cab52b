/* What verify and repair share: telling what is wrong, as it is found. */
#ifndef APPS_QUIPU_PROBLEMS_H
#define APPS_QUIPU_PROBLEMS_H

#include "app.h"

/* A bar for quipu_store_verify(): first over the bytes of the file, then
 * over the sessions. */
typedef struct app_checking {
    const app_call *call;
    int64_t total; /* sessions, about */
    app_watch file;
    app_progress sessions;
} app_checking;

/* Begin, and let `within` tell; Ctrl-C stops the call. */
void app_checking_begin(app_checking *checking, const app_call *call, quipu_store *store,
                        quipu_call_options *within);
/* Take the bar away, before something is printed and at the end; it may come back. */
void app_checking_pause(app_checking *checking);

/* Look at everything, and mend it when `repair` says so. An exit code: APP_FAILURE when something
 * is wrong and stays so. */
int app_problems(const app_call *call, quipu_store *store, bool repair);

#endif
