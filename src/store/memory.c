/* Observations and reflections: what was distilled from a session, listed in the order of creation.
 *
 * Owns both entities. Called by the public memory calls only. Saving and deleting run in exclusive
 * transactions, so that two savers never draw the same number; reading takes no lock. The two
 * entities differ in two columns only, so that each call picks the entity and shares the rest.
 * Memories name their session by its key. No session row is read here, so that they can be saved
 * before the session exists; deleting the session deletes them (session_delete.c). */
#include <assert.h>

#include <ent/view.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/uuid.h"
#include "store/maintain.h"
#include "store/size.h"

/* The result that callers get; its arena owns items and texts. */
typedef struct memory_list {
    qp_result head;
    quipu_memory_list pub;
} memory_list;

QP_RESULT(memory_list);

/* One call of this file: what it saves or looks for, and its result. */
typedef struct memory_call {
    const quipu_store *store;
    quipu_memory memory; /* to save; its kind and session also name what others are about */
    quipu_memory_query query;
    bool by_id; /* by the ids of the query */
    memory_list *list;
    int64_t removed;
} memory_call;

/* Room for what comes back, taken before the transaction, so that no commit fails for lack of
 * it. */
static quipu_status memory_list_begin(memory_call *call, quipu_error *reterr)
{
    assert(call->list == NULL);
    call->list = qp_result_new(sizeof(*call->list));
    return call->list != NULL ? QUIPU_OK
                              : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list");
}

/* Hands the list to the caller, or frees it after a failure. */
static void memory_list_end(memory_call *call, quipu_status status, quipu_memory_list **ret_list)
{
    assert(status != QUIPU_OK || ret_list == NULL || call->list != NULL);
    if (status == QUIPU_OK && ret_list != NULL) {
        *ret_list = &call->list->pub;
    } else if (call->list != NULL) {
        quipu_free(&call->list->pub);
    }
}

/* A zero id asks for a new one. */
static bool memory_is_zero(quipu_uuid id)
{
    uint8_t any = 0;

    for (size_t i = 0; i < sizeof(id.b); i++) {
        any |= id.b[i];
    }
    return any == 0;
}

/* A kind selects the table, so that an unknown one cannot be passed on. */
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

/* A row of either entity as the API shows it; texts stay where they are. */
static quipu_memory memory_of(quipu_memory_kind kind, const ent_view *view, const void *row)
{
    quipu_memory memory = {.kind = kind};

    assert(kind == QUIPU_OBSERVATION || kind == QUIPU_REFLECTION);
    ent_view_read(view, row, &memory);
    return memory;
}

/* The same question to either entity; only the query of the call's kind is run. The columns that
 * differ:
 *
 *   Observation   source_start_index, source_end_index: the messages it was made of
 *   Reflection    generation: how many times it was condensed */
typedef struct memory_query {
    qp_observation_query observations;
    qp_reflection_query reflections;
} memory_query;

/* Runs the query of the call's kind. Rows and items lie in the same arena, so that items borrow
 * texts. */
static quipu_status memory_find(const memory_call *call, ent_db *db, quipu_arena *arena,
                                const memory_query *query, quipu_memory **ret_items,
                                size_t *ret_count, quipu_error *reterr)
{
    qp_observation_list seen = {0};
    qp_reflection_list thought = {0};
    quipu_memory *items = NULL;
    /* One of the two lists stays empty. */
    bool observes = call->memory.kind == QUIPU_OBSERVATION;
    quipu_status status =
        observes ? qp_observation_find(db, arena, &query->observations, &seen, reterr)
                 : qp_reflection_find(db, arena, &query->reflections, &thought, reterr);
    size_t n = observes ? seen.n : thought.n;

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK && n > 0) {
        items = qp_arena_take(arena, n * sizeof(*items));
        if (items == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu items", n);
        }
    }
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        assert(items != NULL);
        items[i] = observes
                       ? memory_of(QUIPU_OBSERVATION, &qp_observation_memory_view, &seen.items[i])
                       : memory_of(QUIPU_REFLECTION, &qp_reflection_memory_view, &thought.items[i]);
    }
    if (status == QUIPU_OK) {
        *ret_items = items;
        *ret_count = n;
    }
    return status;
}

/* ---- rows to save -----------------------------------------------------------------------------
 */

/* One more than the newest number of the session: the order of saving, whatever the clock says. The
 * exclusive transaction keeps two savers from getting the same number. */
static quipu_status memory_number(const memory_call *call, ent_db *db, quipu_arena *scratch,
                                  int64_t *ret_number, quipu_error *reterr)
{
    const ent_where_text key = ent_eq(call->memory.session_key);
    const ent_where_text tenant = ent_eq(call->store->tenant);
    quipu_status status;

    assert(ent_depth(db) > 0);
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

/* The row gets its creation time from the store's clock, whatever the caller's struct holds. A
 * generation of 0 means the schema's default. */
static quipu_status memory_save_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const memory_call *call = ctx;
    const quipu_memory *memory = &call->memory;
    int64_t number = 0;
    quipu_status status = memory_number(call, db, scratch, &number, reterr);

    assert(!memory_is_zero(memory->id));
    if (status != QUIPU_OK) {
        return status;
    }
    /* The views (schema/quipu.ent) map the public struct to the columns; only what they do not show
     * is set here. */
    if (memory->kind == QUIPU_OBSERVATION) {
        qp_observation_new row = {.tenant = call->store->tenant, .number = number};

        ent_view_create(&qp_observation_memory_view, memory, &row);
        row.created_at = (ent_opt_time){.has = false};
        return qp_observation_create(db, NULL, &row, NULL, reterr);
    }
    qp_reflection_new row = {.tenant = call->store->tenant, .number = number};

    ent_view_create(&qp_reflection_memory_view, memory, &row);
    row.created_at = (ent_opt_time){.has = false};
    row.generation.has = memory->generation != 0;
    return qp_reflection_create(db, NULL, &row, NULL, reterr);
}

/* ---- list and get -----------------------------------------------------------------------------
 */

/* The newest come in descending order; callers get them in the order of creation. */
static void memory_reverse(quipu_memory *items, size_t n)
{
    assert(items != NULL || n == 0);
    for (size_t i = 0; items != NULL && i < n / 2; i++) {
        quipu_memory swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
}

/* Reads the list into the result's arena, from the open transaction. Both queries are filled in,
 * and memory_find() runs the one of the kind. A retried work starts over with an empty arena. */
static quipu_status memory_list_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    memory_call *call = ctx;
    memory_list *list = call->list;
    const bool newest = call->query.recent > 0;
    memory_query query = {.observations = {.limit = call->query.recent,
                                           .where = {.tenant = ent_eq(call->store->tenant)}},
                          .reflections = {.limit = call->query.recent,
                                          .where = {.tenant = ent_eq(call->store->tenant)}}};
    quipu_memory *items = NULL;
    size_t n = 0;
    quipu_status status;

    assert(list != NULL && call->query.recent >= 0);
    (void)scratch;
    /* By ids the session does not matter, and a limit was refused: all of them come back. */
    if (call->by_id) {
        query.observations.where.id = query.reflections.where.id =
            ent_in(call->query.ids, call->query.id_count);
    } else {
        query.observations.where.session_key = query.reflections.where.session_key =
            ent_eq(call->memory.session_key);
    }
    /* With `recent` the order is reversed, so that the limit keeps the newest; memory_reverse()
     * restores it. Rows of an adopted file have the number 0: they come first, by their time. */
    query.observations.order[0] =
        newest ? QP_OBSERVATION_BY_NUMBER(DESC) : QP_OBSERVATION_BY_NUMBER(ASC);
    query.observations.order[1] =
        newest ? QP_OBSERVATION_BY_CREATED_AT(DESC) : QP_OBSERVATION_BY_CREATED_AT(ASC);
    query.reflections.order[0] =
        newest ? QP_REFLECTION_BY_NUMBER(DESC) : QP_REFLECTION_BY_NUMBER(ASC);
    query.reflections.order[1] =
        newest ? QP_REFLECTION_BY_CREATED_AT(DESC) : QP_REFLECTION_BY_CREATED_AT(ASC);
    quipu_arena_free(&list->head.arena);
    status = memory_find(call, db, &list->head.arena, &query, &items, &n, reterr);
    if (status == QUIPU_OK && newest) {
        memory_reverse(items, n);
    }
    list->pub.memories = quipu_memories_of(items, n);
    return status;
}

/* Reads the caller's query. It names a session or ids; that decides `by_id` for all that
 * follows. */
static quipu_status memory_query_read(memory_call *call, const quipu_memory_query *query,
                                      quipu_error *reterr)
{
    quipu_memory_query *own = &call->query;
    quipu_status status = qp_options_read(own, sizeof(*own), query, "quipu_memory_query", reterr);

    if (status == QUIPU_OK && (query == NULL || (own->id_count > 0 && own->ids == NULL) ||
                               (own->ids != NULL && own->session_key.p != NULL))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a query of memories names a session or ids, not both, and counts "
                              "only the ids that it has");
    }
    if (status == QUIPU_OK) {
        status = memory_kind_check(own->kind, reterr);
    }
    call->by_id = own->ids != NULL;
    call->memory.kind = own->kind;
    call->memory.session_key = own->session_key;
    return status == QUIPU_OK && !call->by_id ? qp_key_check(own->session_key, reterr) : status;
}

/* An empty list of ids is answered without a read. */
quipu_status quipu_memory_find(quipu_store *store, const quipu_memory_query *query,
                               const quipu_call_options *call, quipu_memory_list **ret_list,
                               quipu_error *reterr)
{
    memory_call read = {.store = store, .query = QUIPU_MEMORY_QUERY_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = memory_query_read(&read, query, reterr);
    }
    if (status == QUIPU_OK &&
        (ret_list == NULL || read.query.recent < 0 || (read.by_id && read.query.recent != 0))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a list needs a place, and `recent` 0 or more, 0 with ids");
    }
    if (status == QUIPU_OK) {
        status = memory_list_begin(&read, reterr);
    }
    if (status == QUIPU_OK && (!read.by_id || read.query.id_count > 0)) {
        status = qp_store_read(store, &within, memory_list_work, &read, reterr);
    }
    memory_list_end(&read, status, ret_list);
    qp_store_leave(&within);
    return qp_store_fail(status, "list the memories of", read.query.session_key, reterr);
}

/* ---- save -------------------------------------------------------------------------------------
 */

/* Saves it, and reads it back in the same transaction for a caller who wants to see what was filled
 * in. */
static quipu_status memory_save_all(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    const memory_call *call = ctx;
    quipu_status status = memory_save_work(ctx, db, scratch, reterr);

    assert(call->by_id && call->query.id_count == 1);
    return status == QUIPU_OK && call->list != NULL ? memory_list_work(ctx, db, scratch, reterr)
                                                    : status;
}

/* Checks what is saved, gives it an id and makes room for what comes back. The id is drawn here,
 * before the transaction, so that a retried batch saves the same one. */
static quipu_status memory_save_check(memory_call *save, bool wants_list, quipu_error *reterr)
{
    quipu_memory *memory = &save->memory;
    quipu_status status = memory_kind_check(memory->kind, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(memory->session_key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_memory_numbers(memory->token_count, memory->source_start, memory->source_end,
                                   memory->generation, reterr);
    }
    if (status == QUIPU_OK && memory_is_zero(memory->id) && qp_uuid_v4(&memory->id) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an id");
    }
    assert(status != QUIPU_OK || !memory_is_zero(memory->id));
    save->by_id = true;
    save->query.ids = &memory->id;
    save->query.id_count = 1;
    return status == QUIPU_OK && wants_list ? memory_list_begin(save, reterr) : status;
}

/* The slice holds one memory: a slice, because its item may be of another version's size. */
quipu_status quipu_memory_save(quipu_store *store, quipu_memories memory,
                               const quipu_call_options *call, quipu_memory_list **ret_saved,
                               quipu_error *reterr)
{
    memory_call save = {.store = store};
    quipu_arena arena = QUIPU_ARENA_INIT; /* of a memory with another size */
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && memory.count != 1) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "save takes one observation or reflection");
    }
    if (status == QUIPU_OK) {
        status = QP_SLICE_READ(&memory, quipu_memory, &arena, reterr);
    }
    if (status == QUIPU_OK) {
        save.memory = *quipu_memory_at(memory, 0);
        status = memory_save_check(&save, ret_saved != NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, memory_save_all, &save, reterr);
    }
    memory_list_end(&save, status, ret_saved);
    qp_store_leave(&within);
    status = qp_store_fail(status, "save a memory of", save.memory.session_key, reterr);
    quipu_arena_free(&arena);
    return status;
}

/* ---- delete -----------------------------------------------------------------------------------
 */

/* One DELETE, by ids or by the key of a session. */
static quipu_status memory_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    memory_call *call = ctx;
    qp_observation_where observations = {.tenant = ent_eq(call->store->tenant)};
    qp_reflection_where reflections = {.tenant = ent_eq(call->store->tenant)};

    assert(ent_depth(db) > 0);
    assert(!call->by_id || call->query.id_count > 0);
    (void)scratch;
    if (call->by_id) {
        observations.id = reflections.id = ent_in(call->query.ids, call->query.id_count);
    } else {
        observations.session_key = reflections.session_key = ent_eq(call->memory.session_key);
    }
    return call->memory.kind == QUIPU_OBSERVATION
               ? qp_observation_delete(db, &observations, &call->removed, reterr)
               : qp_reflection_delete(db, &reflections, &call->removed, reterr);
}

/* Deleting makes room, so that the size cap does not hold for it. An empty list of ids deletes
 * nothing, and never everything. */
quipu_status quipu_memory_delete(quipu_store *store, const quipu_memory_query *query,
                                 const quipu_call_options *call, int64_t *ret_removed,
                                 quipu_error *reterr)
{
    memory_call remove = {.store = store, .query = QUIPU_MEMORY_QUERY_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = memory_query_read(&remove, query, reterr);
    }
    if (status == QUIPU_OK && remove.query.recent != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "a deletion takes no `recent`");
    }
    if (status == QUIPU_OK && (!remove.by_id || remove.query.id_count > 0)) {
        status = qp_size_exempt(store, &within, memory_delete_work, &remove, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = remove.removed;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "delete the memories of", remove.query.session_key, reterr);
}
