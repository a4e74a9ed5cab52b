/* Numbers by name: which conversation has an id, which node a name. For readers of files whose
 * names could be many. */
#ifndef APPS_QUIPU_NAMES_H
#define APPS_QUIPU_NAMES_H

#include <stdbool.h>

#include <quipu/store.h>

#define APP_NAMES_NONE SIZE_MAX

/* Zero: no name yet. */
typedef struct app_names {
    struct app_names_slot *slots; /* malloc() */
    size_t size;                  /* a power of two, or 0 */
    size_t count;
} app_names;

/* Gives a name a number, in place of the one that it had. The text must stay where it is. False: no
 * memory. */
bool app_names_put(app_names *names, quipu_str name, size_t number);

/* The number of a name, or APP_NAMES_NONE. */
size_t app_names_get(const app_names *names, quipu_str name);

void app_names_free(app_names *names);

#endif
