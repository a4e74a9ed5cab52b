/* Views and classes: what a schema says about who sees a field and what becomes of it. A view is
 * a struct of the program that shows fields of an entity (`view`, `show` in .ent); a class says
 * what a field is about (`classes`, `class`). Every function here walks the generated tables;
 * none knows a field by its name. What is shown `by hand` is left alone. */
#ifndef ENT_VIEW_H
#define ENT_VIEW_H

#include <ent/ent.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Fill the members that a view shows from a row X. An absent value becomes zero, and `has` false;
 * other members stay as they are. What is shown `of` an edge is absent unless the edge was loaded.
 * Texts are borrowed from the row.
 *
 * Ownership: nothing is copied but the values.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void ent_view_read(const ent_view *view, const void *row, void *ret_struct);

/**
 * Give the members that a view shows to an X_new. A member without `has` counts as given; an absent
 * text, and an enum of 0, stay not given. Members that only say `is` are skipped.
 *
 * Ownership: texts are borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void ent_view_create(const ent_view *view, const void *from, void *ret_new);

/**
 * Give the members whose bit is in `set` to an X_patch. An absent text, and an enum of 0, clear the
 * field.
 *
 * Ownership: texts are borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void ent_view_patch(const ent_view *view, uint32_t set, const void *from,
                              void *ret_patch);

/**
 * All bits that a view knows.
 *
 * Ownership: none.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API uint32_t ent_view_bits(const ent_view *view);

/* A set of classes: bit 1u << number of each. */
#define ENT_CLASS(number) (1u << (number))

/**
 * Let an X_patch clear every field of the given classes: an optional one becomes absent, one with a
 * constant default gets it. Returns the first field that cannot be cleared (it is immutable, or
 * required without a default), or NULL.
 *
 * Ownership: the field is the descriptor's.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API const ent_field *ent_class_clear(const ent_entity *entity, uint32_t classes,
                                           void *ret_patch);

/**
 * The first field of the given classes that a row X has a value in, other than what
 * ent_class_clear() leaves; NULL when there is none.
 *
 * Ownership: the field is the descriptor's.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API const ent_field *ent_class_held(const ent_entity *entity, uint32_t classes,
                                          const void *row);

/**
 * Give the values that a row X has in the fields of the given classes to an X_new.
 *
 * Ownership: texts are borrowed from the row.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void ent_class_copy(const ent_entity *entity, uint32_t classes, const void *row,
                              void *ret_new);

#ifdef __cplusplus
}
#endif

#endif
