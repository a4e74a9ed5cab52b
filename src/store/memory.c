/* Observations and reflections: what was distilled from a session, listed in the order of creation.
 * The two entities differ in two columns only, so each call picks the entity and shares the rest.
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "store/size.h"
#include "store/store.h"

typedef struct memory_list {
    quipu_memory_list pub;
    quipu_arena arena;
} memory_list;

typedef struct memory_call {
    const quipu_store *store;
    quipu_memory memory; /* to save; its kind, id and session also name what others are about */
    int64_t recent;
    bool by_id;
    const quipu_uuid *ids;
    size_t id_count;
    memory_list *list;
    int64_t removed;
} memory_call;

void quipu_memory_list_free(quipu_memory_list *list)
{
    memory_list *self = (memory_list *)list;

    if (self != NULL) {
        quipu_arena_free(&self->arena);
        qp_free(self);
    }
}

static bool memory_is_zero(quipu_uuid id)
{
    uint8_t any = 0;

    for (size_t i = 0; i < sizeof(id.b); i++) {
        any |= id.b[i];
    }
    return any == 0;
}

static quipu_status memory_kind_check(quipu_memory_kind kind, quipu_error *reterr)
{
    return kind == QUIPU_OBSERVATION || kind == QUIPU_REFLECTION
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_MISUSE,
                              "the kind is %d; give QUIPU_OBSERVATION or QUIPU_REFLECTION",
                              (int)kind);
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static quipu_memory memory_of_observation(const qp_observation *row)
{
    return (quipu_memory){.kind = QUIPU_OBSERVATION,
                          .id = row->id,
                          .session_key = row->session_key,
                          .content = row->content,
                          .token_count = row->token_count,
                          .source_start = row->source_start_index,
                          .source_end = row->source_end_index,
                          .created_at = row->created_at};
}

static quipu_memory memory_of_reflection(const qp_reflection *row)
{
    return (quipu_memory){.kind = QUIPU_REFLECTION,
                          .id = row->id,
                          .session_key = row->session_key,
                          .content = row->content,
                          .token_count = row->token_count,
                          .generation = row->generation,
                          .created_at = row->created_at};
}

/* The same question to either entity. */
typedef struct memory_query {
    qp_observation_query observations;
    qp_reflection_query reflections;
} memory_query;

/* Rows of either kind, in the order that the query asks for, as memories in the arena. */
static quipu_status memory_find(const memory_call *call, ent_db *db, quipu_arena *arena,
                                const memory_query *query, quipu_memory **ret_items,
                                size_t *ret_count, quipu_error *reterr)
{
    qp_observation_list seen = {0};
    qp_reflection_list thought = {0};
    quipu_memory *items = NULL;
    bool observes = call->memory.kind == QUIPU_OBSERVATION;
    quipu_status status =
        observes ? qp_observation_find(db, arena, &query->observations, &seen, reterr)
                 : qp_reflection_find(db, arena, &query->reflections, &thought, reterr);
    size_t n = observes ? seen.n : thought.n;

    if (status == QUIPU_OK && n > 0) {
        items = qp_arena_take(arena, n * sizeof(*items));
        if (items == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu items", n);
        }
    }
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        assert(items != NULL);
        items[i] = observes ? memory_of_observation(&seen.items[i])
                            : memory_of_reflection(&thought.items[i]);
    }
    if (status == QUIPU_OK) {
        *ret_items = items;
        *ret_count = n;
    }
    return status;
}

/* ---- save -------------------------------------------------------------------------------------
 */

/* One more than the newest number of the session: the order of saving, whatever the clock says. */
static quipu_status memory_number(const memory_call *call, ent_db *db, quipu_arena *scratch,
                                  int64_t *ret_number, quipu_error *reterr)
{
    const ent_where_text key = ent_eq(call->memory.session_key);
    const ent_where_text tenant = ent_eq(call->store->tenant);
    quipu_status status;

    *ret_number = 1;
    if (call->memory.kind == QUIPU_OBSERVATION) {
        const qp_observation_query query = {.limit = 1,
                                            .order = {QP_OBSERVATION_BY_NUMBER(DESC)},
                                            .where = {.session_key = key, .tenant = tenant}};
        qp_observation_list list = {0};
        status = qp_observation_find(db, scratch, &query, &list, reterr);
        *ret_number += list.n > 0 ? list.items[0].number : 0;
    } else {
        const qp_reflection_query query = {.limit = 1,
                                           .order = {QP_REFLECTION_BY_NUMBER(DESC)},
                                           .where = {.session_key = key, .tenant = tenant}};
        qp_reflection_list list = {0};
        status = qp_reflection_find(db, scratch, &query, &list, reterr);
        *ret_number += list.n > 0 ? list.items[0].number : 0;
    }
    return status;
}

static quipu_status memory_save_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const memory_call *call = ctx;
    const quipu_memory *memory = &call->memory;
    int64_t number = 0;
    quipu_status status = memory_number(call, db, scratch, &number, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (memory->kind == QUIPU_OBSERVATION) {
        const qp_observation_new row = {.id = ent_some(memory->id),
                                        .session_key = memory->session_key,
                                        .content = memory->content,
                                        .token_count = memory->token_count,
                                        .source_start_index = memory->source_start,
                                        .source_end_index = memory->source_end,
                                        .tenant = call->store->tenant,
                                        .number = number};
        return qp_observation_create(db, NULL, &row, NULL, reterr);
    }
    const qp_reflection_new row = {
        .id = ent_some(memory->id),
        .session_key = memory->session_key,
        .content = memory->content,
        .token_count = memory->token_count,
        .generation = ent_some(memory->generation == 0 ? (int64_t)1 : memory->generation),
        .tenant = call->store->tenant,
        .number = number};
    return qp_reflection_create(db, NULL, &row, NULL, reterr);
}

quipu_status quipu_memory_save(quipu_store *store, const quipu_memory *memory,
                               const quipu_call_options *call, quipu_uuid *ret_id,
                               quipu_error *reterr)
{
    memory_call save = {.store = store};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && memory == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "save needs something to save");
    }
    if (status != QUIPU_OK) {
        qp_store_leave(&within);
        return status;
    }
    assert(memory != NULL);
    save.memory = *memory;
    status = memory_kind_check(memory->kind, reterr);
    if (status == QUIPU_OK) {
        status = qp_key_check(memory->session_key, reterr);
    }
    if (status == QUIPU_OK && memory_is_zero(memory->id) &&
        quipu_uuid_v4(&save.memory.id) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an id");
    }
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, memory_save_work, &save, reterr);
    }
    if (status == QUIPU_OK && ret_id != NULL) {
        *ret_id = save.memory.id;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "save a memory of", memory->session_key, reterr);
}

/* ---- list and get -----------------------------------------------------------------------------
 */

static void memory_reverse(quipu_memory *items, size_t n)
{
    assert(items != NULL || n == 0);
    for (size_t i = 0; items != NULL && i < n / 2; i++) {
        quipu_memory swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
}

static quipu_status memory_list_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    memory_call *call = ctx;
    memory_list *list = call->list;
    const bool newest = call->recent > 0;
    memory_query query = {
        .observations = {.limit = call->recent, .where = {.tenant = ent_eq(call->store->tenant)}},
        .reflections = {.limit = call->recent, .where = {.tenant = ent_eq(call->store->tenant)}}};
    quipu_memory *items = NULL;
    size_t n = 0;
    quipu_status status;

    (void)scratch;
    if (call->by_id) {
        query.observations.where.id = query.reflections.where.id = ent_eq(call->memory.id);
    } else {
        query.observations.where.session_key = query.reflections.where.session_key =
            ent_eq(call->memory.session_key);
    }
    /* The newest come by the reversed order, and are turned round below. Those of an adopted file
     * have no number: they come first, by their time. */
    query.observations.order[0] =
        newest ? QP_OBSERVATION_BY_NUMBER(DESC) : QP_OBSERVATION_BY_NUMBER(ASC);
    query.observations.order[1] =
        newest ? QP_OBSERVATION_BY_CREATED_AT(DESC) : QP_OBSERVATION_BY_CREATED_AT(ASC);
    query.reflections.order[0] =
        newest ? QP_REFLECTION_BY_NUMBER(DESC) : QP_REFLECTION_BY_NUMBER(ASC);
    query.reflections.order[1] =
        newest ? QP_REFLECTION_BY_CREATED_AT(DESC) : QP_REFLECTION_BY_CREATED_AT(ASC);
    quipu_arena_free(&list->arena);
    status = memory_find(call, db, &list->arena, &query, &items, &n, reterr);
    if (status == QUIPU_OK && newest) {
        memory_reverse(items, n);
    }
    if (status == QUIPU_OK && call->by_id && n == 0) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is none with this id");
    }
    list->pub = (quipu_memory_list){.items = items, .count = n};
    return status;
}

static quipu_status memory_read(quipu_store *store, memory_call *read,
                                const quipu_call_options *call, quipu_memory_list **ret_list,
                                quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = memory_kind_check(read->memory.kind, reterr);
    }
    if (status == QUIPU_OK && (ret_list == NULL || read->recent < 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a place for the list is needed, and a number of 0 or more");
    }
    if (status == QUIPU_OK && !read->by_id) {
        status = qp_key_check(read->memory.session_key, reterr);
    }
    if (status == QUIPU_OK) {
        read->list = qp_calloc(1, sizeof(*read->list));
        status = read->list != NULL ? qp_store_read(store, &within, memory_list_work, read, reterr)
                                    : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list");
    }
    if (status == QUIPU_OK) {
        assert(ret_list != NULL);
        *ret_list = &read->list->pub;
    } else if (read->list != NULL) {
        quipu_memory_list_free(&read->list->pub);
    }
    qp_store_leave(&within);
    return status;
}

quipu_status quipu_memory_list_get(quipu_store *store, quipu_memory_kind kind,
                                   quipu_str session_key, int64_t recent,
                                   const quipu_call_options *call, quipu_memory_list **ret_list,
                                   quipu_error *reterr)
{
    memory_call read = {
        .store = store, .memory = {.kind = kind, .session_key = session_key}, .recent = recent};

    return qp_store_fail(memory_read(store, &read, call, ret_list, reterr), "list the memories of",
                         session_key, reterr);
}

quipu_status quipu_memory_get(quipu_store *store, quipu_memory_kind kind, quipu_uuid id,
                              const quipu_call_options *call, quipu_memory_list **ret_list,
                              quipu_error *reterr)
{
    memory_call read = {.store = store, .memory = {.kind = kind, .id = id}, .by_id = true};

    return memory_read(store, &read, call, ret_list, reterr);
}

/* ---- delete -----------------------------------------------------------------------------------
 */

static quipu_status memory_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    memory_call *call = ctx;
    qp_observation_where observations = {.tenant = ent_eq(call->store->tenant)};
    qp_reflection_where reflections = {.tenant = ent_eq(call->store->tenant)};

    (void)scratch;
    if (call->by_id) {
        observations.id = reflections.id = ent_in(call->ids, call->id_count);
    } else {
        observations.session_key = reflections.session_key = ent_eq(call->memory.session_key);
    }
    return call->memory.kind == QUIPU_OBSERVATION
               ? qp_observation_delete(db, &observations, &call->removed, reterr)
               : qp_reflection_delete(db, &reflections, &call->removed, reterr);
}

static quipu_status memory_remove(quipu_store *store, memory_call *remove,
                                  const quipu_call_options *call, int64_t *ret_removed,
                                  quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = memory_kind_check(remove->memory.kind, reterr);
    }
    if (status == QUIPU_OK && !remove->by_id) {
        status = qp_key_check(remove->memory.session_key, reterr);
    }
    if (status == QUIPU_OK && remove->id_count > 0 && remove->ids == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "%zu ids are announced but none is given",
                              remove->id_count);
    }
    if (status == QUIPU_OK && (!remove->by_id || remove->id_count > 0)) {
        status = qp_size_exempt(store, &within, memory_delete_work, remove, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = remove->removed;
    }
    qp_store_leave(&within);
    return status;
}

quipu_status quipu_memory_delete(quipu_store *store, quipu_memory_kind kind, const quipu_uuid *ids,
                                 size_t count, const quipu_call_options *call, int64_t *ret_removed,
                                 quipu_error *reterr)
{
    memory_call remove = {
        .store = store, .memory = {.kind = kind}, .by_id = true, .ids = ids, .id_count = count};

    return memory_remove(store, &remove, call, ret_removed, reterr);
}

quipu_status quipu_memory_delete_session(quipu_store *store, quipu_memory_kind kind,
                                         quipu_str session_key, const quipu_call_options *call,
                                         int64_t *ret_removed, quipu_error *reterr)
{
    memory_call remove = {.store = store, .memory = {.kind = kind, .session_key = session_key}};

    return qp_store_fail(memory_remove(store, &remove, call, ret_removed, reterr),
                         "delete the memories of", session_key, reterr);
}
