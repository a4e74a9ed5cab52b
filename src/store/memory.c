/* Observations and reflections: what was distilled from a session, listed in the order of creation.
 *
 * Owns both entities. Called by the public memory calls only. Saving and deleting run in exclusive
 * transactions, so that two savers never draw the same number; reading takes no lock. The two
 * entities differ in two columns only, so that each call picks the entity and shares the rest.
 * Memories name their session by its key, which need not exist yet: then they count in the key's
 * own scope. Deleting the session deletes them (session_delete.c). memory_put.c writes the rows. */
#include <assert.h>

#include <ent/view.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"
#include "base/uuid.h"
#include "base/visible.h"
#include "store/maintain.h"
#include "store/memory.h"
#include "store/memory_scope.h"
#include "store/size.h"

/* The result that callers get; its arena owns items and texts. */
typedef struct memory_list {
    qp_result head;        /* its arena has rows, items and texts */
    quipu_memory_list pub; /* what the caller has, and frees with quipu_free() */
} memory_list;

QP_RESULT(memory_list);

/* One call of this file: what it saves or looks for, and its result. */
typedef struct memory_call {
    const quipu_store *store;
    quipu_memory memory;      /* to save; its kind and session also name what others are about */
    quipu_memory_query query; /* of a list or a deletion; saves and updates name one id in it */
    quipu_memory_patch patch; /* of an update */
    bool by_id;               /* by the ids of the query */
    quipu_uuid saved_id;      /* of the row that holds what was saved */
    memory_list *list;        /* what comes back; NULL: the caller wants nothing */
    int64_t removed;          /* by a deletion */
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
    qp_observation_query observations; /* run for QUIPU_OBSERVATION */
    qp_reflection_query reflections;   /* run for QUIPU_REFLECTION */
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
    /* An empty list has no array: callers look at the count. */
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

/* Which rows a list has. By ids the session does not matter, and retired ones count: the caller has
 * seen them. `either` has room for two conditions of each kind and outlives the query. */
typedef struct memory_either {
    qp_observation_where observations[2]; /* one of the two is true: ORed */
    qp_reflection_where reflections[2];   /* the same */
} memory_either;

/* Sources that meet a range; 0: any. A memory without sources has the number 0. */
static void memory_range_where(int64_t from, int64_t to, memory_query *query)
{
    assert(to >= from);
    if (from > 0) {
        query->observations.where.source_start_index = ent_le(to);
        query->observations.where.source_end_index = ent_ge(from);
        query->reflections.where.source_start_index = ent_le(to);
        query->reflections.where.source_end_index = ent_ge(from);
    }
}

/* Observations and reflections are asked for by the same conditions: the two queries have the same
 * names with different types. By id nothing else counts; retired lines are left out unless they are
 * asked for. */
static void memory_list_where(const memory_call *call, quipu_str scope, memory_either *either,
                              memory_query *query)
{
    qp_observation_where *observations = &query->observations.where;
    qp_reflection_where *reflections = &query->reflections.where;

    observations->tenant = reflections->tenant = ent_eq(call->store->tenant);
    if (call->by_id) {
        observations->id = reflections->id = ent_in(call->query.ids, call->query.id_count);
        return;
    }
    if ((call->query.flags & QUIPU_MEMORY_FIND_RETIRED) == 0) {
        observations->retired_at = reflections->retired_at = (ent_where_time)ENT_IS_NULL;
    }
    if (scope.p == NULL) {
        observations->session_key = reflections->session_key = ent_eq(call->memory.session_key);
        memory_range_where(call->query.from_seq, call->query.to_seq, query);
        return;
    }
    /* The session's own rows may have no scope, or one from before it had a user. */
    either->observations[0].scope = either->reflections[0].scope = ent_eq(scope);
    either->observations[1].session_key = either->reflections[1].session_key =
        ent_eq(call->memory.session_key);
    observations->any_of = either->observations;
    reflections->any_of = either->reflections;
    observations->any_n = reflections->any_n = 2;
}

/* In the order of creation. With `recent` it is reversed, so that the limit keeps the newest;
 * memory_reverse() restores it. Numbers count in one session: over several of them the clock
 * decides. Rows of an adopted file have the number 0: they come first, by their time. */
static void memory_list_order(bool newest, bool by_time, memory_query *query)
{
    const size_t number = by_time ? 1 : 0;
    const size_t time = 1 - number;

    query->observations.order[number] =
        newest ? QP_OBSERVATION_BY_NUMBER(DESC) : QP_OBSERVATION_BY_NUMBER(ASC);
    query->observations.order[time] =
        newest ? QP_OBSERVATION_BY_CREATED_AT(DESC) : QP_OBSERVATION_BY_CREATED_AT(ASC);
    query->reflections.order[number] =
        newest ? QP_REFLECTION_BY_NUMBER(DESC) : QP_REFLECTION_BY_NUMBER(ASC);
    query->reflections.order[time] =
        newest ? QP_REFLECTION_BY_CREATED_AT(DESC) : QP_REFLECTION_BY_CREATED_AT(ASC);
}

/* Reads the list into the result's arena, from the open transaction. Both queries are filled in,
 * and memory_find() runs the one of the kind. A retried work starts over with an empty arena. */
static quipu_status memory_list_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    memory_call *call = ctx;
    memory_list *list = call->list;
    const bool newest = call->query.recent > 0;
    const bool scoped = !call->by_id && (call->query.flags & QUIPU_MEMORY_FIND_SCOPE) != 0;
    memory_query query = {.observations = {.limit = call->query.recent},
                          .reflections = {.limit = call->query.recent}};
    memory_either either = {.observations = {{.tenant = {.n = 0}}}};
    quipu_str scope = QP_STR_ABSENT;
    quipu_memory *items = NULL;
    size_t n = 0;
    quipu_status status = QUIPU_OK;

    assert(list != NULL && call->query.recent >= 0);
    /* In the snapshot of the list: the session's user cannot change in between. */
    if (scoped) {
        status =
            qp_memory_scope_of(call->store, db, scratch, call->memory.session_key, &scope, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    memory_list_where(call, scope, &either, &query);
    memory_list_order(newest, scoped, &query);
    quipu_arena_free(&list->head.arena);
    status = memory_find(call, db, &list->head.arena, &query, &items, &n, reterr);
    /* The query read them backwards, for the sake of its limit. */
    if (status == QUIPU_OK && newest) {
        memory_reverse(items, n);
    }
    list->pub.memories = quipu_memories_of(items, n);
    return status;
}

/* The range of messages of a query: one of a session, or none. */
static quipu_status memory_range_read(quipu_memory_query *own, quipu_error *reterr)
{
    const bool alone = own->ids == NULL && (own->flags & QUIPU_MEMORY_FIND_SCOPE) == 0;

    /* The first number alone is a range of one message. */
    own->to_seq = own->to_seq == 0 ? own->from_seq : own->to_seq;
    /* No range: rows of the whole session. */
    if (own->from_seq == 0 && own->to_seq == 0) {
        return QUIPU_OK;
    }
    return own->from_seq > 0 && own->to_seq >= own->from_seq && alone
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_MISUSE,
                              "the messages %lld to %lld are no range; give the first and the last "
                              "of one session, without ids and without its scope",
                              (long long)own->from_seq, (long long)own->to_seq);
}

/* Reads the caller's query. It names a session or ids; that decides `by_id` for all that
 * follows. */
static quipu_status memory_query_read(memory_call *call, const quipu_memory_query *query,
                                      quipu_error *reterr)
{
    quipu_memory_query *own = &call->query;
    quipu_status status = qp_options_read(own, sizeof(*own), query, "quipu_memory_query", reterr);

    /* `ids` with a count of 0 names no memory at all; NULL means those of the session. */
    if (status == QUIPU_OK && (query == NULL || (own->id_count > 0 && own->ids == NULL) ||
                               (own->ids != NULL && own->session_key.p != NULL))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a query of memories names a session or ids, not both, and counts "
                              "only the ids that it has");
    }
    if (status == QUIPU_OK &&
        (own->flags & ~(QUIPU_MEMORY_FIND_RETIRED | QUIPU_MEMORY_FIND_SCOPE)) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_MEMORY_FIND_*",
                              (unsigned)own->flags);
    }
    if (status == QUIPU_OK) {
        status = memory_kind_check(own->kind, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_range_read(own, reterr);
    }
    call->by_id = own->ids != NULL;
    call->memory.kind = own->kind;
    call->memory.session_key = own->session_key;
    return status == QUIPU_OK && !call->by_id ? qp_key_check(own->session_key, reterr) : status;
}

/* Reads in a local store, or asks the server of a remote one. */
static quipu_status memory_find_run(quipu_store *store, const qp_call *within, memory_call *read,
                                    quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;

    assert(read->list != NULL);
    return qp_store_is_remote(store)
               ? remote->memory_find(remote->ctx, within, &read->query, &read->list->head.arena,
                                     &read->list->pub.memories, reterr)
               : qp_store_read(store, within, memory_list_work, read, reterr);
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
        status = memory_find_run(store, &within, &read, reterr);
    }
    memory_list_end(&read, status, ret_list);
    qp_store_leave(&within);
    return qp_store_fail(status, "list the memories of", read.query.session_key, reterr);
}

/* ---- save -------------------------------------------------------------------------------------
 */

/* Saves the memory. For a caller that asked for the row, reads it back in the same transaction. */
static quipu_status memory_save_all(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    memory_call *call = ctx;
    quipu_str scope = QP_STR_ABSENT;
    qp_memory_saved saved;
    quipu_status status =
        qp_memory_scope_of(call->store, db, scratch, call->memory.session_key, &scope, reterr);

    assert(call->by_id && call->query.id_count == 1);
    if (status == QUIPU_OK) {
        status = qp_memory_put(call->store, db, scratch, &call->memory, scope, &saved, reterr);
    }
    if (status == QUIPU_OK) {
        /* A repeat returns the row that was there before. */
        call->saved_id = saved.id;
    }
    return status == QUIPU_OK && call->list != NULL ? memory_list_work(ctx, db, scratch, reterr)
                                                    : status;
}

/* Values outside of the enums, which no column can hold. */
static quipu_status memory_enum_check(const quipu_memory *memory, quipu_error *reterr)
{
    const bool sound = (unsigned)memory->priority <= QUIPU_PRIORITY_DONE && /* negative is large */
                       (unsigned)memory->topic <= QUIPU_TOPIC_FAILURE &&
                       (unsigned)memory->state <= QUIPU_MEMORY_STATE_BUFFERED;

    return sound ? QUIPU_OK
                 : qp_error_set(reterr, QUIPU_MISUSE,
                                "the priority is %d, the topic %d and the state %d; give "
                                "QUIPU_PRIORITY_*, QUIPU_TOPIC_* and QUIPU_MEMORY_STATE_*",
                                (int)memory->priority, (int)memory->topic, (int)memory->state);
}

/* A text of blanks, hidden characters and marks alone would be an empty line in every prompt. One
 * without a byte is refused by the schema's rule. */
static quipu_status memory_text_check(quipu_str content, quipu_error *reterr)
{
    return content.n == 0 || qp_visible_shows(content)
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_INVALID,
                              "the content has nothing that a reader sees; give a text");
}

/* At the server of a remote store: what comes back lies in the caller's list, or is dropped. */
static quipu_status memory_save_ask(quipu_store *store, const qp_call *within, memory_call *save,
                                    quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;
    quipu_arena dropped = QUIPU_ARENA_INIT;
    quipu_memories saved = quipu_memories_of(NULL, 0);
    quipu_status status = remote->memory_save(
        remote->ctx, within, &save->memory, save->list != NULL ? &save->list->head.arena : &dropped,
        &saved, reterr);

    assert(status != QUIPU_OK || saved.count == 1);
    if (status == QUIPU_OK && save->list != NULL) {
        save->list->pub.memories = saved;
    }
    quipu_arena_free(&dropped);
    return status;
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
    if (status == QUIPU_OK) {
        status = memory_enum_check(memory, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_text_check(memory->content, reterr);
    }
    if (status == QUIPU_OK && memory_is_zero(memory->id) && qp_uuid_v4(&memory->id) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an id");
    }
    assert(status != QUIPU_OK || !memory_is_zero(memory->id));
    /* For the list that comes back: it has the one row that was saved. */
    save->by_id = true;
    save->saved_id = memory->id;
    save->query.ids = &save->saved_id;
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
        /* Its texts stay the caller's, who waits until the row is written. */
        save.memory = *quipu_memory_at(memory, 0);
        status = memory_save_check(&save, ret_saved != NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_is_remote(store)
                     ? memory_save_ask(store, &within, &save, reterr)
                     : qp_store_write(store, &within, memory_save_all, &save, reterr);
    }
    memory_list_end(&save, status, ret_saved);
    qp_store_leave(&within);
    status = qp_store_fail(status, "save a memory of", save.memory.session_key, reterr);
    quipu_arena_free(&arena);
    return status;
}

/* ---- update -----------------------------------------------------------------------------------
 */

#define MEMORY_SET_ALL                                                                             \
    (QUIPU_MEMORY_SET_CONTENT | QUIPU_MEMORY_SET_PRIORITY | QUIPU_MEMORY_SET_SUBJECT |             \
     QUIPU_MEMORY_SET_RETIRED)

/* What a change of either entity needs from one reading of the row: whether the row has a content
 * hash, and whether it is retired already. */
typedef struct memory_change {
    ent_patch_text content; /* the first three follow from each other */
    ent_patch_int token_count;
    ent_patch_bytes content_hash; /* points to `digest` */
    ent_patch_text subject;
    ent_patch_time retired_at; /* with the next two: set or cleared by retiring */
    ent_patch_text retired_why;
    ent_patch_uuid condensed_into;
    ent_patch_time edited_at; /* with the next two: who changed it last, and why */
    ent_patch_text edited_by;
    ent_patch_text edited_why;
    uint8_t digest[QP_SHA256_SIZE]; /* lives as long as the patch */
} memory_change;

/* Retiring forgets the hash: when the same is said again later, it is a new memory, and this one
 * stays in the history with its reason. A line that was condensed into a reflection may still be in
 * a prompt: it does not count as `retired` here, so that a person can retire it. */
static void memory_change_of(const quipu_memory_patch *patch, bool hashed, bool retired,
                             memory_change *ret)
{
    const quipu_time now = quipu_time_now();

    *ret = (memory_change){.content = {.v = {NULL, 0}}};
    if ((patch->set & QUIPU_MEMORY_SET_CONTENT) != 0) {
        ret->content = ent_set(patch->content);
        ret->token_count = ent_set(quipu_token_estimate(patch->content));
        if (hashed) {
            qp_memory_hash(patch->content, ret->digest);
            ret->content_hash = ent_set(((quipu_bytes){ret->digest, sizeof(ret->digest)}));
        }
    }
    if ((patch->set & QUIPU_MEMORY_SET_SUBJECT) != 0) {
        ret->subject = patch->subject.n > 0 ? ent_set(patch->subject) : (ent_patch_text)ENT_CLEAR;
    }
    /* Author and reason belong to this change: those of an earlier change are cleared. */
    ret->edited_at = ent_set(now);
    ret->edited_by = patch->who.n > 0 ? ent_set(patch->who) : (ent_patch_text)ENT_CLEAR;
    ret->edited_why = patch->why.n > 0 && patch->set != QUIPU_MEMORY_SET_RETIRED
                          ? ent_set(patch->why)
                          : (ent_patch_text)ENT_CLEAR;
    if ((patch->set & QUIPU_MEMORY_SET_RETIRED) != 0 && !retired) {
        ret->retired_at = ent_set(now);
        ret->content_hash = (ent_patch_bytes)ENT_CLEAR;
        ret->condensed_into = (ent_patch_uuid)ENT_CLEAR;
        ret->retired_why = patch->why.n > 0 ? ent_set(patch->why) : (ent_patch_text)ENT_CLEAR;
    }
}

/* A retired memory that is retired once more: nothing is written. */
static bool memory_is_moot(const quipu_memory_patch *patch, bool retired)
{
    return patch->set == QUIPU_MEMORY_SET_RETIRED && retired;
}

/* The change of an observation. Read, then written by its id: the transaction is exclusive, so that
 * the row stays as it was read. */
static quipu_status memory_change_observation(const memory_call *call, ent_db *db,
                                              quipu_arena *scratch, quipu_error *reterr)
{
    const quipu_memory_patch *patch = &call->patch;
    const qp_observation_where where = {.tenant = ent_eq(call->store->tenant),
                                        .id = ent_eq(patch->id)};
    qp_observation_list list = {0};
    memory_change change;
    quipu_status status =
        qp_observation_find(db, scratch, &(qp_observation_query){.where = where}, &list, reterr);

    assert(patch->kind == QUIPU_OBSERVATION && ent_depth(db) > 0);
    if (status == QUIPU_OK && list.n == 0) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no observation of this id");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* A condensed line can still be retired: see memory_change_of(). */
    const bool retired = list.items[0].retired_at.has && !list.items[0].condensed_into.has;

    if (memory_is_moot(patch, retired)) {
        return QUIPU_OK;
    }
    memory_change_of(patch, list.items[0].content_hash.p != NULL, retired, &change);
    qp_observation_patch to = {.content = change.content,
                               .token_count = change.token_count,
                               .content_hash = change.content_hash,
                               .subject = change.subject,
                               .retired_at = change.retired_at,
                               .retired_why = change.retired_why,
                               .condensed_into = change.condensed_into,
                               .edited_at = change.edited_at,
                               .edited_by = change.edited_by,
                               .edited_why = change.edited_why};
    /* An enum has a type for each entity, so that memory_change cannot hold it. */
    if ((patch->set & QUIPU_MEMORY_SET_PRIORITY) != 0) {
        to.priority = qp_observation_priority_set((qp_observation_priority)patch->priority);
    }
    return qp_observation_update(db, &where, &to, NULL, reterr);
}

/* The same of a reflection. It is written out because rows and patches of the two entities have
 * types of their own. */
static quipu_status memory_change_reflection(const memory_call *call, ent_db *db,
                                             quipu_arena *scratch, quipu_error *reterr)
{
    const quipu_memory_patch *patch = &call->patch;
    const qp_reflection_where where = {.tenant = ent_eq(call->store->tenant),
                                       .id = ent_eq(patch->id)};
    qp_reflection_list list = {0};
    memory_change change;
    quipu_status status =
        qp_reflection_find(db, scratch, &(qp_reflection_query){.where = where}, &list, reterr);

    assert(patch->kind == QUIPU_REFLECTION && ent_depth(db) > 0);
    if (status == QUIPU_OK && list.n == 0) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no reflection of this id");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    const bool retired = list.items[0].retired_at.has && !list.items[0].condensed_into.has;

    if (memory_is_moot(patch, retired)) {
        return QUIPU_OK;
    }
    memory_change_of(patch, list.items[0].content_hash.p != NULL, retired, &change);
    qp_reflection_patch to = {.content = change.content,
                              .token_count = change.token_count,
                              .content_hash = change.content_hash,
                              .subject = change.subject,
                              .retired_at = change.retired_at,
                              .retired_why = change.retired_why,
                              .condensed_into = change.condensed_into,
                              .edited_at = change.edited_at,
                              .edited_by = change.edited_by,
                              .edited_why = change.edited_why};
    if ((patch->set & QUIPU_MEMORY_SET_PRIORITY) != 0) {
        to.priority = qp_reflection_priority_set((qp_reflection_priority)patch->priority);
    }
    return qp_reflection_update(db, &where, &to, NULL, reterr);
}

/* A qp_work_fn: changes it, and reads it back for a caller who wants to see it. */
static quipu_status memory_update_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    memory_call *call = ctx;
    quipu_error error = {0};
    quipu_status status = call->patch.kind == QUIPU_OBSERVATION
                              ? memory_change_observation(call, db, scratch, &error)
                              : memory_change_reflection(call, db, scratch, &error);

    /* The new content has the hash of another memory of the session, which the index refuses. */
    if (status == QUIPU_EXISTS) {
        return qp_error_set(reterr, status,
                            "the session has a memory that says the same; retire "
                            "one of the two");
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    return call->list != NULL ? memory_list_work(ctx, db, scratch, reterr) : QUIPU_OK;
}

/* Reads and checks the patch; the rules of lengths are the schema's. */
static quipu_status memory_patch_read(memory_call *call, const quipu_memory_patch *patch,
                                      bool wants_list, quipu_error *reterr)
{
    quipu_memory_patch *own = &call->patch;
    quipu_status status = qp_options_read(own, sizeof(*own), patch, "quipu_memory_patch", reterr);

    if (status == QUIPU_OK) {
        status = memory_kind_check(own->kind, reterr);
    }
    if (status == QUIPU_OK &&
        (own->set == 0 || (own->set & ~MEMORY_SET_ALL) != 0 ||
         ((own->set & QUIPU_MEMORY_SET_PRIORITY) != 0 &&
          (own->priority < QUIPU_PRIORITY_STANDING || own->priority > QUIPU_PRIORITY_DONE)))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the bits are 0x%x and the priority %d; give QUIPU_MEMORY_SET_* or "
                              "QUIPU_MEMORY_SET_RETIRED, and QUIPU_PRIORITY_*",
                              (unsigned)own->set, (int)own->priority);
    }
    if (status == QUIPU_OK && (own->set & QUIPU_MEMORY_SET_CONTENT) != 0) {
        status = memory_text_check(own->content, reterr);
    }
    /* For memory_list_work(), which reads the row back by this id after the change. */
    call->memory.kind = own->kind;
    call->by_id = true;
    call->query.ids = &own->id;
    call->query.id_count = 1;
    return status == QUIPU_OK && wants_list ? memory_list_begin(call, reterr) : status;
}

/* At the server of a remote store. */
static quipu_status memory_update_ask(quipu_store *store, const qp_call *within,
                                      memory_call *change, quipu_error *reterr)
{
    const qp_remote *remote = &store->remote;
    quipu_arena dropped = QUIPU_ARENA_INIT;
    quipu_memories changed = quipu_memories_of(NULL, 0);
    quipu_status status = remote->memory_update(
        remote->ctx, within, &change->patch,
        change->list != NULL ? &change->list->head.arena : &dropped, &changed, reterr);

    assert(status != QUIPU_OK || changed.count == 1);
    if (status == QUIPU_OK && change->list != NULL) {
        change->list->pub.memories = changed;
    }
    quipu_arena_free(&dropped);
    return status;
}

/* See <quipu/memory.h>. `ret_changed` is read in the transaction that makes the change. */
quipu_status quipu_memory_update(quipu_store *store, const quipu_memory_patch *patch,
                                 const quipu_call_options *call, quipu_memory_list **ret_changed,
                                 quipu_error *reterr)
{
    memory_call change = {.store = store, .patch = QUIPU_MEMORY_PATCH_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = memory_patch_read(&change, patch, ret_changed != NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_is_remote(store)
                     ? memory_update_ask(store, &within, &change, reterr)
                     : qp_store_write(store, &within, memory_update_work, &change, reterr);
    }
    memory_list_end(&change, status, ret_changed);
    qp_store_leave(&within);
    return status;
}

/* ---- delete -----------------------------------------------------------------------------------
 */

/* Deletes what was made of messages from..to of one session: both kinds, retired ones, too. */
static quipu_status memory_forget_lines(memory_call *call, ent_db *db, quipu_arena *scratch,
                                        quipu_str session, int64_t to, quipu_error *reterr)
{
    memory_query query = {.observations = {.limit = 0}};
    qp_reflection_list gone = {0};
    int64_t observations = 0;
    int64_t reflections = 0;
    quipu_status status;

    query.observations.where.tenant = query.reflections.where.tenant = ent_eq(call->store->tenant);
    query.observations.where.session_key = query.reflections.where.session_key = ent_eq(session);
    memory_range_where(call->query.from_seq, to, &query);
    /* Read before they are deleted: their ids lead to what was condensed into them. */
    status = qp_reflection_find(db, scratch, &query.reflections, &gone, reterr);
    if (status == QUIPU_OK) {
        status = qp_observation_delete(db, &query.observations.where, &observations, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_reflection_delete(db, &query.reflections.where, &reflections, reterr);
    }
    for (size_t i = 0; i < gone.n && status == QUIPU_OK; i++) {
        status = qp_memory_uncondense(call->store, db, &gone.items[i], reterr);
    }
    call->removed += observations + reflections;
    return status;
}

/* Forgets what was made of a range of messages, and what a worker is about to make of it: in the
 * session, and in the forks that share them. */
static quipu_status memory_forget(memory_call *call, ent_db *db, quipu_arena *scratch,
                                  quipu_error *reterr)
{
    const quipu_str key = call->memory.session_key;
    const int64_t from = call->query.from_seq;
    qp_memory_shares shares = {NULL, 0};
    quipu_status status;

    call->removed = 0; /* a retry counts anew */
    status = qp_memory_shares_read(call->store, db, scratch, key, from, call->query.to_seq, &shares,
                                   reterr);
    /* A key may have memories before it has a session. */
    if (status == QUIPU_OK && shares.count == 0) {
        status = memory_forget_lines(call, db, scratch, key, call->query.to_seq, reterr);
    }
    for (size_t i = 0; i < shares.count && status == QUIPU_OK; i++) {
        const qp_memory_share *share = &shares.items[i];

        status = memory_forget_lines(call, db, scratch, share->row->key, share->to, reterr);
        if (status == QUIPU_OK) {
            status = qp_memory_scope_forget(call->store, db, scratch, share->row, from, share->to,
                                            reterr);
        }
    }
    return status;
}

/* One DELETE, by ids or by the key of a session; or what was made of a range of messages. */
static quipu_status memory_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    memory_call *call = ctx;
    qp_observation_where observations = {.tenant = ent_eq(call->store->tenant)};
    qp_reflection_where reflections = {.tenant = ent_eq(call->store->tenant)};

    assert(ent_depth(db) > 0);
    assert(!call->by_id || call->query.id_count > 0);
    /* A range concerns both kinds, whatever kind the query names: the user asked to forget what was
     * said. */
    if (call->query.from_seq > 0) {
        return memory_forget(call, db, scratch, reterr);
    }
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
    /* Without any id there is nothing to do, and no transaction. */
    if (status == QUIPU_OK && (!remove.by_id || remove.query.id_count > 0)) {
        status = qp_store_is_remote(store)
                     ? store->remote.memory_remove(store->remote.ctx, &within, &remove.query,
                                                   &remove.removed, reterr)
                     : qp_size_exempt(store, &within, memory_delete_work, &remove, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = remove.removed;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "delete the memories of", remove.query.session_key, reterr);
}
