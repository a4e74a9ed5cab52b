/* State of the past (state_past.h). The recorded events with a state delta are appended once more,
 * in their order, to a session of a store in memory. So the rules of deltas (spellings, removals,
 * scopes) are the library's own, and this file reads no JSON.
 *
 * Owns: the store in memory, for one call. Called by: cmd_state.c, cmd_diff.c. */
#include "state_past.h"

#include <stdlib.h>
#include <string.h>

#include <quipu/adk.h>

#define PAST_PAGE 1000 /* messages read at a time */
#define PAST_KEY "adk:past/past/past"

/* A message of the past that changed state. */
typedef struct past_change {
    int64_t seq;
    quipu_time timestamp;
} past_change;

typedef struct past_job {
    quipu_store *memory;
    quipu_service *service;
    quipu_live *live;
    past_change *changes; /* message number i + 1 of the session in memory */
    size_t count;
    size_t size;
    quipu_arena arena; /* of one event */
} past_job;

static quipu_status past_begin(past_job *job, quipu_error *reterr)
{
    const quipu_session_ref ref = {QUIPU_STR("past"), QUIPU_STR("past"), QUIPU_STR("past")};
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_status status = quipu_open(":memory:", NULL, &job->memory, reterr);

    options.flags = QUIPU_SERVICE_RECORD_STATE;
    if (status == QUIPU_OK) {
        status = quipu_service_new(job->memory, &options, &job->service, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_service_create(job->service, &ref, (quipu_json){{NULL, 0}}, NULL, &job->live,
                                      reterr);
    }
    return status;
}

static void past_end(past_job *job)
{
    quipu_live_free(job->live);
    quipu_service_free(job->service);
    quipu_close(job->memory);
    quipu_arena_free(&job->arena);
    free(job->changes);
}

/* Whether a message may have a state delta. Most have none: no event is built for them. */
static bool past_may_change(const quipu_message *message)
{
    const char *extra = message->extra.text.p;

    return extra != NULL &&
           (strstr(extra, "tateDelta") != NULL || strstr(extra, "tate_delta") != NULL);
}

/* Remembers which message the session in memory has as number `count` + 1. */
static quipu_status past_keep(past_job *job, const quipu_message *message)
{
    if (job->count == job->size) {
        const size_t size = job->size * 2 + 16;
        past_change *more = realloc(job->changes, size * sizeof(*more));

        if (more == NULL) {
            return QUIPU_NOMEM;
        }
        job->changes = more;
        job->size = size;
    }
    job->changes[job->count++] = (past_change){message->seq, message->timestamp};
    return QUIPU_OK;
}

/* Applies one message. A message that only looks like an event, because a writer of messages made
 * it up, changed no state when it was stored, and is passed over. */
static quipu_status past_apply(past_job *job, quipu_messages messages, size_t index,
                               quipu_error *reterr)
{
    const quipu_message *message = quipu_message_at(messages, index);
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_json event;
    quipu_status status;

    if (!past_may_change(message)) {
        return QUIPU_OK;
    }
    quipu_arena_reset(&job->arena);
    status = quipu_message_to_event(messages, index, &dialect, &job->arena, &event, reterr);
    if (status == QUIPU_CORRUPT) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = quipu_live_append(job->live, event, NULL, &result, reterr);
    }
    return status == QUIPU_OK && result.seq > 0 ? past_keep(job, message) : status;
}

/* Applies the messages up to `at`, page by page. */
static quipu_status past_read(past_job *job, quipu_store *store, quipu_str key, int64_t at,
                              quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_status status = QUIPU_OK;
    bool more = true;

    range.before_seq = at + 1;
    range.limit = PAST_PAGE;
    while (status == QUIPU_OK && more) {
        quipu_history *history = NULL;

        status = quipu_session_get(store, key, &range, NULL, &history, reterr);
        more = status == QUIPU_OK && history->messages.count == PAST_PAGE;
        for (size_t i = 0; status == QUIPU_OK && i < history->messages.count; i++) {
            status = past_apply(job, history->messages, i, reterr);
            range.after_seq = quipu_message_at(history->messages, i)->seq;
        }
        quipu_free(history);
    }
    return status;
}

/* Copies an entry, with the message of the past in place of the one in memory. */
static quipu_status past_copy(const past_job *job, const quipu_state_entry *from,
                              quipu_arena *arena, quipu_state_entry *ret_entry)
{
    quipu_state_entry entry = *from;
    quipu_status status = quipu_arena_copy(arena, from->name, &entry.name);

    if (entry.set_seq > 0 && (size_t)entry.set_seq <= job->count) {
        const past_change *change = &job->changes[entry.set_seq - 1];

        entry.set_seq = change->seq;
        entry.set_at = change->timestamp;
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, from->value.text, &entry.value.text);
    }
    if (status == QUIPU_OK && from->set_by.p != NULL) {
        status = quipu_arena_copy(arena, from->set_by, &entry.set_by);
    }
    entry.set_in = (quipu_str){NULL, 0};
    *ret_entry = entry;
    return status;
}

/* The names of the session in memory, as a slice in the arena. */
static quipu_status past_collect(const past_job *job, quipu_arena *arena,
                                 quipu_state_entries *ret_entries, quipu_error *reterr)
{
    quipu_state_list *list = NULL;
    quipu_state_entry *entries = NULL;
    size_t count = 0;
    quipu_status status = quipu_state_get(job->memory, QUIPU_STR(PAST_KEY), NULL, &list, reterr);

    if (status == QUIPU_OK) {
        entries = quipu_arena_alloc(arena, (list->entries.count + 1) * sizeof(*entries));
        status = entries != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    for (size_t i = 0; status == QUIPU_OK && i < list->entries.count; i++) {
        const quipu_state_entry *from = quipu_state_entry_at(list->entries, i);

        if (from->scope == QUIPU_SCOPE_SESSION) {
            status = past_copy(job, from, arena, &entries[count++]);
        }
    }
    quipu_free(list);
    if (status == QUIPU_OK) {
        *ret_entries = quipu_state_entries_of(entries, count);
    }
    return status;
}

quipu_status app_state_past(quipu_store *store, quipu_str key, int64_t at, quipu_arena *arena,
                            quipu_state_entries *ret_entries, quipu_error *reterr)
{
    past_job job = {.arena = QUIPU_ARENA_INIT};
    quipu_status status = past_begin(&job, reterr);

    if (status == QUIPU_OK) {
        status = past_read(&job, store, key, at, reterr);
    }
    if (status == QUIPU_OK) {
        status = past_collect(&job, arena, ret_entries, reterr);
    }
    past_end(&job);
    return status;
}
