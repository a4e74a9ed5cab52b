/* What generated files are written with, beside ent.h: the prefix of a call, the types and
 * functions of an enum, and the initializers of descriptors. Nothing here is for use by hand. */
#ifndef ENT_GEN_H
#define ENT_GEN_H

#include <ent/ent.h>
#include <ent/search.h>

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

/* The names of entity X: its row, condition and query, a list of rows, and its descriptor. */
#define ENT_TYPES(X)                                                                               \
    typedef struct X X;                                                                            \
    typedef struct X##_where X##_where;                                                            \
    typedef struct X##_query X##_query;                                                            \
    typedef struct X##_order { uint8_t field, direction; } X##_order;                              \
    typedef struct X##_on { int index; } X##_on;                                                   \
    typedef struct X##_iter { ent_iter it; } X##_iter;                                             \
    typedef struct X##_list { const X *items; size_t n; bool loaded; } X##_list;                   \
    extern const ent_entity X##_entity;

/* The calls of entity X. Rows and texts go to `mem`; outputs are written on success only; what each
 * call does and answers stands at the ent_ function of its name in ent.h.
 *   X_create(db, mem, &(X_new){...}, &row, &err)             insert; mem and row may be NULL
 *   X_create_many(db, array of X_new, n, &err)               insert all or none
 *   X_upsert(db, mem, &(X_new){...}, X_ON_..., &row, &err)   insert, or set what is given
 *   X_find(db, mem, &(X_query){...}, &list, &err)            all that a query asks for
 *   X_lock(db, mem, &(X_query){...}, &list, &err)            the same, and keep others off them
 *   X_one(db, mem, &(X_query){...}, &row, &err)              its first row; needs a condition
 *   X_count, X_exists(db, &(X_where){...}, &out, &err)       NULL: all
 *   X_delete(db, &(X_where){...}, &n, &err)                  needs a condition; n may be NULL
 *   X_delete_all(db, &n, &err)
 *   X_iter_begin(db, &(X_query){...}, &iter, &err)           one by one, copying nothing
 *   X_iter_next(&iter, &row), X_iter_end(&iter, &err)
 */
#define ENT_CALLS(X)                                                                               \
    ENT_CALL X##_create(ent_db *db, quipu_arena *mem, const X##_new *val, const X **ret,           \
                        quipu_error *err)                                                          \
    {                                                                                              \
        return ent_create(db, mem, &X##_entity, val, ret, err);                                    \
    }                                                                                              \
    ENT_CALL X##_create_many(ent_db *db, const X##_new *val, size_t num, quipu_error *err)         \
    {                                                                                              \
        return ent_create_many(db, &X##_entity, val, num, err);                                    \
    }                                                                                              \
    ENT_CALL X##_upsert(ent_db *db, quipu_arena *mem, const X##_new *val, X##_on on,               \
                        const X **ret, quipu_error *err)                                           \
    {                                                                                              \
        return ent_upsert(db, mem, &X##_entity, val, on.index, ret, err);                          \
    }                                                                                              \
    ENT_CALL X##_find(ent_db *db, quipu_arena *mem, const X##_query *qry, X##_list *ret,           \
                      quipu_error *err)                                                            \
    {                                                                                              \
        return ent_find(db, mem, &X##_entity, qry, ret, err);                                      \
    }                                                                                              \
    ENT_CALL X##_lock(ent_db *db, quipu_arena *mem, const X##_query *qry, X##_list *ret,           \
                      quipu_error *err)                                                            \
    {                                                                                              \
        return ent_lock(db, mem, &X##_entity, qry, ret, err);                                      \
    }                                                                                              \
    ENT_CALL X##_one(ent_db *db, quipu_arena *mem, const X##_query *qry, const X **ret,            \
                     quipu_error *err)                                                             \
    {                                                                                              \
        return ent_one(db, mem, &X##_entity, qry, ret, err);                                       \
    }                                                                                              \
    ENT_CALL X##_count(ent_db *db, const X##_where *cond, int64_t *ret, quipu_error *err)          \
    {                                                                                              \
        return ent_count(db, &X##_entity, cond, ret, err);                                         \
    }                                                                                              \
    ENT_CALL X##_exists(ent_db *db, const X##_where *cond, bool *ret, quipu_error *err)            \
    {                                                                                              \
        return ent_exists(db, &X##_entity, cond, ret, err);                                        \
    }                                                                                              \
    ENT_CALL X##_delete(ent_db *db, const X##_where *cond, int64_t *ret, quipu_error *err)         \
    {                                                                                              \
        return ent_delete(db, &X##_entity, cond, ret, err);                                        \
    }                                                                                              \
    ENT_CALL X##_delete_all(ent_db *db, int64_t *ret, quipu_error *err)                            \
    {                                                                                              \
        return ent_delete_all(db, &X##_entity, ret, err);                                          \
    }                                                                                              \
    ENT_CALL X##_iter_begin(ent_db *db, const X##_query *qry, X##_iter *ret, quipu_error *err)     \
    {                                                                                              \
        return ent_iter_begin(db, &X##_entity, qry, &ret->it, err);                                \
    }                                                                                              \
    static inline bool X##_iter_next(X##_iter *itr, X *ret)                                        \
    {                                                                                              \
        return ent_iter_next(&itr->it, ret);                                                       \
    }                                                                                              \
    static inline quipu_status X##_iter_end(X##_iter *itr, quipu_error *err)                       \
    {                                                                                              \
        return ent_iter_end(&itr->it, err);                                                        \
    }

/* The calls of an entity that has something to change.
 *   X_update(db, &(X_where){...}, &(X_patch){...}, &n, &err)             n may be NULL
 *   X_update_one(db, mem, &(X_where){...}, &(X_patch){...}, &row, &err)  the row as it is now
 */
#define ENT_UPDATES(X)                                                                             \
    ENT_CALL X##_update(ent_db *db, const X##_where *cond, const X##_patch *chg, int64_t *ret,     \
                        quipu_error *err)                                                          \
    {                                                                                              \
        return ent_update(db, &X##_entity, cond, chg, ret, err);                                   \
    }                                                                                              \
    ENT_CALL X##_update_one(ent_db *db, quipu_arena *mem, const X##_where *cond,                   \
                            const X##_patch *chg, const X **ret, quipu_error *err)                 \
    {                                                                                              \
        return ent_update_one(db, mem, &X##_entity, cond, chg, ret, err);                          \
    }

/* The calls of an entity with a full-text index; see ent/search.h.
 *   X_hits_begin(db, words, &(X_where){...}, limit, &iter, &err), then ent_hits_next() and
 *   ent_iter_end(); the condition may be NULL
 *   X_snippet(db, mem, &hit, &marks, &text, &err)
 */
#define ENT_SEARCHES(X)                                                                            \
    ENT_CALL X##_hits_begin(ent_db *db, quipu_str words_, const X##_where *cond, int64_t limit_,   \
                            ent_iter *ret, quipu_error *err)                                       \
    {                                                                                              \
        return ent_hits_begin(db, &X##_entity, words_, cond, limit_, ret, err);                    \
    }                                                                                              \
    ENT_CALL X##_snippet(ent_db *db, quipu_arena *mem, const ent_hit *hit_,                        \
                         const ent_marks *marks_, quipu_str *ret, quipu_error *err)                \
    {                                                                                              \
        return ent_snippet(db, mem, &X##_entity, hit_, marks_, ret, err);                          \
    }

/* The calls of an entity whose full-text index the program keeps.
 *   X_index, X_unindex(db, &(X_where){...}, &n, &err)   n may be NULL
 *   X_index_clear, X_index_check(db, &err)
 */
#define ENT_INDEXES(X)                                                                             \
    ENT_CALL X##_index(ent_db *db, const X##_where *cond, int64_t *ret, quipu_error *err)          \
    {                                                                                              \
        return ent_index_rows(db, &X##_entity, cond, ret, err);                                    \
    }                                                                                              \
    ENT_CALL X##_unindex(ent_db *db, const X##_where *cond, int64_t *ret, quipu_error *err)        \
    {                                                                                              \
        return ent_unindex_rows(db, &X##_entity, cond, ret, err);                                  \
    }                                                                                              \
    ENT_CALL X##_index_clear(ent_db *db, quipu_error *err)                                         \
    {                                                                                              \
        return ent_index_clear(db, &X##_entity, err);                                              \
    }                                                                                              \
    ENT_CALL X##_index_check(ent_db *db, quipu_error *err)                                         \
    {                                                                                              \
        return ent_index_check(db, &X##_entity, err);                                              \
    }

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

/* A member of a view: M of struct S shows field N. ENT_SHOW_HAS: H says whether it is there.
 * ENT_SHOW_SET: BIT says that a change gives it. ENT_SHOW_IS: M says whether the field has a value.
 * Each is followed by ENT_SHOW_TYPE, which proves the member's type. */
#define ENT_SHOW(S, M, N, TYPE)                                                                    \
    .name = #M, .member = offsetof(S, M), .has = ENT_ABSENT, .field = N, .type = ENT_##TYPE
#define ENT_SHOW_HAS(S, M, H, N, TYPE)                                                             \
    .name = #M, .member = offsetof(S, M), .has = offsetof(S, H), .field = N, .type = ENT_##TYPE
#define ENT_SHOW_SET(S, M, BIT, N, TYPE)                                                           \
    .name = #M, .bit = BIT, .member = offsetof(S, M), .has = ENT_ABSENT, .field = N,               \
    .type = ENT_##TYPE
#define ENT_SHOW_IS(S, M, N)                                                                       \
    .name = #M, .member = offsetof(S, M), .has = ENT_ABSENT, .field = N, .type = ENT_BOOL,         \
    .presence = true
#define ENT_SHOW_TYPE(S, M, T)                                                                     \
    _Static_assert(_Generic(((const S *)0)->M, T: 1, default: 0), #S "." #M " should be a " #T)
#define ENT_SHOW_ENUM(S, M)                                                                        \
    _Static_assert(sizeof(((const S *)0)->M) == sizeof(int), #S "." #M " should be an enum")

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
