/* Numbers by name (names.h): a hash table with open addressing, at most half full, so that a search
 * ends.
 *
 * Owns: the slots; names are the caller's. Called by: foreign.c, foreign_chatgpt.c. One thread. */
#include "names.h"

#include <assert.h>
#include <stdlib.h>

#include "text.h"

#define NAMES_FIRST 64

struct app_names_slot {
    quipu_str name;
    size_t number;
    bool taken;
};

/* The slot of a name, or the free one where it belongs. */
static struct app_names_slot *names_slot(struct app_names_slot *slots, size_t size, quipu_str name)
{
    size_t at = app_hash(name) & (size - 1);

    while (slots[at].taken && !quipu_str_eq(slots[at].name, name)) {
        at = (at + 1) & (size - 1);
    }
    return &slots[at];
}

static bool names_grow(app_names *names)
{
    const size_t size = names->size > 0 ? names->size * 2 : NAMES_FIRST;
    struct app_names_slot *slots = calloc(size, sizeof(*slots));

    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < names->size; i++) {
        if (names->slots[i].taken) {
            *names_slot(slots, size, names->slots[i].name) = names->slots[i];
        }
    }
    free(names->slots);
    names->slots = slots;
    names->size = size;
    return true;
}

bool app_names_put(app_names *names, quipu_str name, size_t number)
{
    struct app_names_slot *slot;

    assert(number != APP_NAMES_NONE);
    if (names->count * 2 >= names->size && !names_grow(names)) {
        return false;
    }
    slot = names_slot(names->slots, names->size, name);
    names->count += !slot->taken;
    *slot = (struct app_names_slot){.name = name, .number = number, .taken = true};
    return true;
}

size_t app_names_get(const app_names *names, quipu_str name)
{
    const struct app_names_slot *slot =
        names->size > 0 ? names_slot(names->slots, names->size, name) : NULL;

    return slot != NULL && slot->taken ? slot->number : APP_NAMES_NONE;
}

void app_names_free(app_names *names)
{
    free(names->slots);
    *names = (app_names){.slots = NULL};
}
