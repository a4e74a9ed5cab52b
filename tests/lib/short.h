/* Short forms of public calls whose full form takes a struct or a slice: one message, one memory,
 * one session. Each does nothing but make that call. */
#ifndef TESTS_LIB_SHORT_H
#define TESTS_LIB_SHORT_H

#include <quipu/adk.h>

/* Options as arguments: of quipu_store_verify(), quipu_store_verify_against(), quipu_store_stats()
 * and quipu_session_compact(). */
#define T_VERIFY(wanted, fn, fn_ctx)                                                               \
    (&(const quipu_verify_options){.struct_size = (uint32_t)sizeof(quipu_verify_options),          \
                                   .flags = (wanted),                                              \
                                   .on_problem = (fn),                                             \
                                   .problem_ctx = (fn_ctx)})
#define T_REPAIR T_VERIFY(QUIPU_VERIFY_REPAIR, NULL, NULL)
#define T_AGAINST(fn, fn_ctx)                                                                      \
    (&(const quipu_verify_against_options){.struct_size =                                          \
                                               (uint32_t)sizeof(quipu_verify_against_options),     \
                                           .on_problem = (fn),                                     \
                                           .problem_ctx = (fn_ctx)})
#define T_QUICK                                                                                    \
    (&(const quipu_stats_options){.struct_size = (uint32_t)sizeof(quipu_stats_options),            \
                                  .flags = QUIPU_STATS_QUICK})
#define T_COMPACT(to, ...)                                                                         \
    (&(const quipu_compact_options){.struct_size = (uint32_t)sizeof(quipu_compact_options),        \
                                    .covers_to = (to),                                             \
                                    .summary = __VA_ARGS__})
#define T_COMPACT_UNDO                                                                             \
    (&(const quipu_compact_options){.struct_size = (uint32_t)sizeof(quipu_compact_options),        \
                                    .flags = QUIPU_COMPACT_UNDO})

/* Gets the session, or creates it; says which, when it is asked for. */
static inline quipu_status t_session_reuse(quipu_store *store, const quipu_session_new *given,
                                           const quipu_call_options *call,
                                           quipu_history **ret_history, bool *ret_created,
                                           quipu_error *reterr)
{
    const bool wants = ret_history != NULL || ret_created != NULL;
    quipu_session_new values = *given;
    quipu_history *history = NULL;
    quipu_status status;

    values.flags = QUIPU_CREATE_OR_GET;
    status = quipu_session_create(store, &values, call, wants ? &history : NULL, reterr);
    if (status == QUIPU_OK && ret_created != NULL) {
        *ret_created = history->created;
    }
    if (status == QUIPU_OK && ret_history != NULL) {
        *ret_history = history;
    } else {
        quipu_free(history);
    }
    return status;
}

static inline quipu_status t_message_json(const quipu_message *message, quipu_arena *arena,
                                          quipu_str *ret_json, quipu_error *reterr)
{
    return quipu_message_json(quipu_messages_of(message, 1), 0, arena, ret_json, reterr);
}

static inline quipu_status t_message_parse(quipu_str json, quipu_arena *arena,
                                           quipu_message *ret_message, quipu_error *reterr)
{
    quipu_messages messages = quipu_messages_of(NULL, 0);
    quipu_status status =
        quipu_message_parse(json, arena, ret_message != NULL ? &messages : NULL, reterr);

    if (status == QUIPU_OK) {
        *ret_message = *quipu_message_at(messages, 0);
    }
    return status;
}

static inline quipu_status t_event_to_message(quipu_json event, quipu_arena *arena,
                                              quipu_message *ret_message, quipu_error *reterr)
{
    quipu_messages messages = quipu_messages_of(NULL, 0);
    quipu_status status =
        quipu_event_to_message(event, arena, ret_message != NULL ? &messages : NULL, reterr);

    if (status == QUIPU_OK) {
        *ret_message = *quipu_message_at(messages, 0);
    }
    return status;
}

static inline quipu_status t_message_to_event(const quipu_message *message,
                                              const quipu_event_dialect *dialect,
                                              quipu_arena *arena, quipu_json *ret_event,
                                              quipu_error *reterr)
{
    return quipu_message_to_event(quipu_messages_of(message, 1), 0, dialect, arena, ret_event,
                                  reterr);
}

static inline quipu_status t_memory_save(quipu_store *store, const quipu_memory *memory,
                                         const quipu_call_options *call, quipu_uuid *ret_id,
                                         quipu_error *reterr)
{
    quipu_memory_list *saved = NULL;
    quipu_status status = quipu_memory_save(store, quipu_memories_of(memory, memory != NULL), call,
                                            ret_id != NULL ? &saved : NULL, reterr);

    if (status == QUIPU_OK && ret_id != NULL) {
        *ret_id = quipu_memory_at(saved->memories, 0)->id;
    }
    quipu_free(saved);
    return status;
}

static inline quipu_status t_memory_list(quipu_store *store, quipu_memory_kind kind, quipu_str key,
                                         int64_t recent, const quipu_call_options *call,
                                         quipu_memory_list **ret_list, quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    query.kind = kind;
    query.session_key = key;
    query.recent = recent;
    return quipu_memory_find(store, &query, call, ret_list, reterr);
}

static inline quipu_status t_memory_delete(quipu_store *store, quipu_memory_kind kind,
                                           const quipu_uuid *ids, size_t count,
                                           const quipu_call_options *call, int64_t *ret_removed,
                                           quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    query.kind = kind;
    query.ids = ids;
    query.id_count = count;
    return quipu_memory_delete(store, &query, call, ret_removed, reterr);
}

static inline quipu_status t_memory_delete_session(quipu_store *store, quipu_memory_kind kind,
                                                   quipu_str key, const quipu_call_options *call,
                                                   int64_t *ret_removed, quipu_error *reterr)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    query.kind = kind;
    query.session_key = key;
    return quipu_memory_delete(store, &query, call, ret_removed, reterr);
}

static inline quipu_status t_session_erase(quipu_store *store, quipu_str key, uint32_t flags,
                                           const quipu_call_options *call,
                                           quipu_erasure **ret_erasure, quipu_error *reterr)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;

    options.key = key;
    options.flags = flags;
    return quipu_erase(store, &options, call, ret_erasure, reterr);
}

static inline quipu_status t_user_erase(quipu_store *store, quipu_str app_name, quipu_str user_id,
                                        uint32_t flags, const quipu_call_options *call,
                                        quipu_erasure **ret_erasure, quipu_error *reterr)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;

    options.app_name = app_name;
    options.user_id = user_id;
    options.flags = flags;
    return quipu_erase(store, &options, call, ret_erasure, reterr);
}

static inline quipu_status t_session_rewind(quipu_store *store, quipu_str key, int64_t seq,
                                            quipu_str new_key, const quipu_call_options *call,
                                            quipu_error *reterr)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = new_key;
    return quipu_session_fork(store, key, seq, &values, call, NULL, reterr);
}

static inline quipu_status t_live_get_identity(quipu_live *session, quipu_arena *arena,
                                               quipu_live_identity *ret_identity,
                                               quipu_error *reterr)
{
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_status status = quipu_live_get(session, NULL, arena, &got, reterr);

    if (status == QUIPU_OK) {
        *ret_identity = *got.identity;
    }
    return status;
}

static inline size_t t_live_event_count(quipu_live *session)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_status status = quipu_live_get(session, NULL, &arena, &got, NULL);

    quipu_arena_free(&arena);
    return status == QUIPU_OK ? got.count : 0;
}

/* One event; QUIPU_NOT_FOUND: there is none at this place. */
static inline quipu_status t_live_event(quipu_live *session, size_t index, quipu_arena *arena,
                                        quipu_json *ret_event, quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_status status;

    query.flags = QUIPU_LIVE_EVENTS;
    query.first = index;
    query.limit = 1;
    status = quipu_live_get(session, &query, arena, &got, reterr);
    if (status == QUIPU_OK && got.events.count == 0) {
        return QUIPU_NOT_FOUND;
    }
    if (status == QUIPU_OK) {
        *ret_event = *quipu_json_at(got.events, 0);
    }
    return status;
}

/* The state, or with a name that is not absent the value of this name. */
static inline quipu_status t_live_state(quipu_live *session, quipu_str name, quipu_arena *arena,
                                        quipu_json *ret_state, quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_status status;

    query.flags = QUIPU_LIVE_STATE;
    query.name = name;
    status = quipu_live_get(session, &query, arena, &got, reterr);
    if (status == QUIPU_OK) {
        *ret_state = got.state;
    }
    return status;
}

/* Head, state and all events. */
static inline quipu_status t_live_snapshot(quipu_live *session, quipu_arena *arena,
                                           quipu_snapshot *ret_snapshot, quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;

    query.flags = QUIPU_LIVE_EVENTS | QUIPU_LIVE_STATE;
    return quipu_live_get(session, &query, arena, ret_snapshot, reterr);
}

/* A child is merged by a summary, or event by event; or discarded for a reason. */
static inline quipu_status t_live_merge(quipu_live *parent, quipu_live *child, quipu_str summary,
                                        quipu_str by, const quipu_call_options *call,
                                        quipu_error *reterr)
{
    quipu_child_end end = QUIPU_CHILD_END_INIT;

    end.summary = summary;
    end.author = by;
    return quipu_live_end_child(parent, child, &end, call, reterr);
}

static inline quipu_status t_live_discard(quipu_live *parent, quipu_live *child, quipu_str reason,
                                          const quipu_call_options *call, quipu_error *reterr)
{
    quipu_child_end end = QUIPU_CHILD_END_INIT;

    end.flags = QUIPU_CHILD_END_DISCARD;
    end.reason = reason;
    return quipu_live_end_child(parent, child, &end, call, reterr);
}

/* The names of a live session, in the arena, and its time; either may be NULL. */
static inline quipu_status t_live_identity(quipu_live *session, quipu_arena *arena,
                                           quipu_session_ref *ret_ref, quipu_time *ret_time,
                                           quipu_error *reterr)
{
    quipu_arena own = QUIPU_ARENA_INIT;
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
    quipu_status status =
        t_live_get_identity(session, arena != NULL ? arena : &own, &identity, reterr);

    if (status == QUIPU_OK && ret_ref != NULL) {
        *ret_ref = identity.ref;
    }
    if (status == QUIPU_OK && ret_time != NULL) {
        *ret_time = identity.last_update_time;
    }
    quipu_arena_free(&own);
    return status;
}

/* The revision of a live session, or -1; and the store's at the last conflict (NULL is fine). */
static inline int64_t t_live_revision(quipu_live *session, int64_t *ret_stored)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;

    if (t_live_get_identity(session, &arena, &identity, NULL) != QUIPU_OK) {
        identity.revision = -1;
    } else if (ret_stored != NULL) {
        *ret_stored = identity.stored;
    }
    quipu_arena_free(&arena);
    return identity.revision;
}

#endif
