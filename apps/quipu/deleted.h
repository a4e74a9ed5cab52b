/* What rm and sweep share: telling how much went. */
#ifndef APPS_QUIPU_DELETED_H
#define APPS_QUIPU_DELETED_H

#include "app.h"

/* Tell that so many sessions were deleted. */
void app_print_deleted(const app_call *call, int64_t sessions);

#endif
