/* The public table of what structs show, out of the views that entgen wrote.
 *
 * Owns quipu_field_get(), which bindings and tests call to marshal structs by the names of their
 * members. Pure: no store, no lock; the table is constant, and its order is that of the schema.
 * Called by: bindings, the server, src/remote and tests. */
#include <quipu/fields.h>

#include <assert.h>
#include <string.h>

#include "gen/quipu.h"

static_assert((int)QUIPU_FIELD_INT == (int)ENT_INT && (int)QUIPU_FIELD_TEXT == (int)ENT_TEXT &&
                  (int)QUIPU_FIELD_TIME == (int)ENT_TIME &&
                  (int)QUIPU_FIELD_ENUM == (int)ENT_ENUM && (int)QUIPU_FIELD_JSON == (int)ENT_JSON,
              "the types are those of ent");

/* Whether a view before number `views` shows this member of the struct already: two entities may
 * share one struct (quipu_memory). */
static bool fields_seen(size_t views, const char *type, const char *name)
{
    assert(views < qp_quipu_schema.view_count && type != NULL && name != NULL);
    for (size_t i = 0; i < views; i++) {
        const ent_view *view = qp_quipu_schema.views[i];
        for (size_t j = 0; j < view->count && strcmp(view->type, type) == 0; j++) {
            if (strcmp(view->items[j].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Counts through the views of the struct. Linear, and quadratic over all fields: a binding asks
 * once, and no struct has more than a few dozen. */
bool quipu_field_get(const char *struct_name, size_t number, quipu_field *ret_field)
{
    for (size_t i = 0; i < qp_quipu_schema.view_count && struct_name != NULL; i++) {
        const ent_view *view = qp_quipu_schema.views[i];

        for (size_t j = 0; j < view->count && strcmp(view->type, struct_name) == 0; j++) {
            const ent_shown *shown = &view->items[j];
            const quipu_field field = {ret_field->struct_size,
                                       shown->type,
                                       shown->name,
                                       shown->member,
                                       shown->has == ENT_ABSENT ? QUIPU_FIELD_NO_HAS
                                                                : (uint32_t)shown->has,
                                       shown->bit,
                                       shown->by_hand,
                                       view->size};

            if (!fields_seen(i, struct_name, shown->name) && number-- == 0) {
                /* An older caller has a shorter struct: it gets as much as it knows. */
                memcpy(ret_field, &field,
                       ret_field->struct_size < sizeof(field) ? ret_field->struct_size
                                                              : sizeof(field));
                return true;
            }
        }
    }
    return false;
}
