/* What verify and repair share: telling what is wrong, as it is found. */
#ifndef APPS_QUIPU_PROBLEMS_H
#define APPS_QUIPU_PROBLEMS_H

#include "app.h"

/* Look at everything, and mend it when `repair` says so. An exit code: APP_FAILURE when something
 * is wrong and stays so. */
int app_problems(const app_call *call, quipu_store *store, bool repair);

#endif
