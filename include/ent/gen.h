/* What generated files are written with, beside ent.h: the prefix of a call, the types and
 * functions of an enum, and the initializers of descriptors. Nothing here is for use by hand. */
#ifndef ENT_GEN_H
#define ENT_GEN_H

#include <ent/ent.h>

#ifdef __cplusplus
#define ENT_BEGIN extern "C" {
#define ENT_END }
#else
#define ENT_BEGIN
#define ENT_END
#endif

/* A generated call: its status must be looked at. */
#define ENT_CALL QUIPU_MUST_USE static inline quipu_status

/* clang-format off */

/* Conditions, changes and texts of an enum T whose labels are in T_labels. Parameters end in _, so
 * that they never have the name of an entity. */
#define ENT_ENUM(T)                                                                                \
    extern const char *const T##_labels[];                                                         \
    typedef struct T##_where { ent_wants_enum op; uint32_t n; T v; const T *list; } T##_where;     \
    typedef struct T##_patch { ent_wants_enum op; T v; } T##_patch;                                \
    static inline const char *T##_text(T v_) { return ent_enum_text(T##_labels, (int)v_); }        \
    static inline T T##_parse(quipu_str text_) { return (T)ent_enum_parse(T##_labels, text_); }    \
    ENT_ENUM_CONDITIONS(T)
#ifdef __cplusplus
#define ENT_ENUM_CONDITIONS(T)
#else
#define ENT_ENUM_CONDITION(T, OP, N, V, LIST)                                                      \
    return (T##_where){.op = (ent_wants_enum)ENT_OP_##OP, .n = (uint32_t)(N), .v = V, .list = LIST}
#define ENT_ENUM_CONDITIONS(T)                                                                     \
    static inline T##_where T##_is(T v_) { ENT_ENUM_CONDITION(T, EQ, 0, v_, NULL); }               \
    static inline T##_where T##_is_not(T v_) { ENT_ENUM_CONDITION(T, NE, 0, v_, NULL); }           \
    static inline T##_where T##_in(const T *list_, size_t n_)                                      \
    {                                                                                              \
        ENT_ENUM_CONDITION(T, IN, n_, (T)0, list_);                                                \
    }                                                                                              \
    static inline T##_where T##_not_in(const T *list_, size_t n_)                                  \
    {                                                                                              \
        ENT_ENUM_CONDITION(T, NOT_IN, n_, (T)0, list_);                                            \
    }                                                                                              \
    static inline T##_patch T##_set(T v_)                                                          \
    {                                                                                              \
        return (T##_patch){.op = (ent_wants_enum)ENT_OP_SET, .v = v_};                             \
    }
#endif

/* The start of a field's descriptor: member M of the structs of entity X. ENT_FIXED is for a field
 * that X_patch does not have. */
#define ENT_FIXED(X, M, COLUMN, TYPE)                                                              \
    .name = #M, .column = COLUMN, .type = ENT_##TYPE, .row = offsetof(X, M),                       \
    .create = offsetof(X##_new, M), .where = offsetof(X##_where, M), .patch = ENT_ABSENT
#define ENT_FIELD(X, M, COLUMN, TYPE)                                                              \
    .name = #M, .column = COLUMN, .type = ENT_##TYPE, .row = offsetof(X, M),                       \
    .create = offsetof(X##_new, M), .where = offsetof(X##_where, M),                               \
    .patch = offsetof(X##_patch, M)

/* The start of an edge's descriptor: member M of X leads to TO. */
#define ENT_EDGE(X, M, TO, FIELD, KIND, ON_DELETE)                                                 \
    .name = #M, .to = &TO##_entity, .field = FIELD, .kind = ENT_##KIND,                            \
    .on_delete = ENT_##ON_DELETE, .row = offsetof(X, M), .query = offsetof(X##_query, with_##M)

/* The rest of an entity's descriptor. */
#define ENT_SIZES(X)                                                                               \
    .row_size = sizeof(X), .create_size = sizeof(X##_new), .where_size = sizeof(X##_where),        \
    .where_groups = offsetof(X##_where, any_of), .query_where = offsetof(X##_query, where)

/* Proof that the structs of X have the shapes that the runtime reads. */
#define ENT_SHAPE(X)                                                                               \
    _Static_assert(offsetof(X##_query, limit) == offsetof(ent_query, limit) &&                     \
                       offsetof(X##_query, offset) == offsetof(ent_query, offset) &&               \
                       offsetof(X##_query, after) == offsetof(ent_query, after) &&                 \
                       offsetof(X##_query, order) == offsetof(ent_query, order) &&                 \
                       offsetof(X##_query, where) >= sizeof(ent_query) &&                          \
                       sizeof(X##_order) == sizeof(ent_order) &&                                   \
                       sizeof(X##_where) - offsetof(X##_where, any_of) ==                          \
                           sizeof(ent_where_groups) &&                                             \
                       offsetof(X##_where, none_n) - offsetof(X##_where, any_of) ==                \
                           offsetof(ent_where_groups, none_n) &&                                   \
                       offsetof(X##_list, loaded) == offsetof(ent_list, loaded) &&                 \
                       sizeof(X##_list) == sizeof(ent_list),                                       \
                   "the runtime could not read the structs of " #X)

/* clang-format on */

#endif
