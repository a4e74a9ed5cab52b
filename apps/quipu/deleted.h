/* Shared by rm and sweep: reporting how many sessions were deleted. */
#ifndef APPS_QUIPU_DELETED_H
#define APPS_QUIPU_DELETED_H

#include "app.h"

/* Prints the number of deleted sessions, as text or JSON. */
void app_print_deleted(const app_call *call, int64_t sessions);

#endif
