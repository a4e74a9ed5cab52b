/* A live session: a copy of a session in memory, with its messages and its state, that follows the
 * store.
 *
 * Owns: struct quipu_live and everything that it points to. Messages of the first read stay in
 * their history object, which the session takes over; later ones are copied to the session's arena.
 * Called by: service.c (creates), live_append.c, child.c, isolate.c, and the public getters below.
 * Locks: public functions take session->mutex. qp_session_*() expect it to be held, except
 * qp_session_live(), whose session no other thread can see yet. Invariant: memory never shows what
 * the store has not committed. `behind` means that the store may have more; writers catch up before
 * they append.
 *
 *   messages   [ inherited | own ............ | overlay of the active child ]
 *                                             ^ newer ones are inserted here */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "store/tool_calls.h"

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Copies the tool calls of a message whose content is copied already. Outputs that make up the
 * content are not copied again: they point into it. The content of most tool messages is their
 * outputs in a row: sharing halves the memory. */
static quipu_status live_copy_calls(quipu_arena *arena, quipu_message *message)
{
    const bool shared = qp_tool_calls_are(message->content, message->calls);
    const char *at = message->content.p;
    quipu_tool_call *calls;
    quipu_status status = QUIPU_OK;

    if (message->calls.count == 0) {
        return QUIPU_OK;
    }
    calls = qp_arena_take(arena, message->calls.count * sizeof(*calls));
    if (calls == NULL) {
        return qp_arena_why(arena, message->calls.count * sizeof(*calls));
    }
    /* A shallow copy first: numbers and flags need nothing more. */
    memcpy(calls, message->calls.items, message->calls.count * sizeof(*calls));
    for (size_t i = 0; i < message->calls.count; i++) {
        quipu_str *const texts[] = {&calls[i].id, &calls[i].name, &calls[i].input,
                                    &calls[i].output};
        quipu_str signature = {calls[i].thought_signature.p, calls[i].thought_signature.n};

        /* The fourth text is the output: shared ones are set below. */
        for (size_t k = 0; k < (shared ? 3 : 4) && status == QUIPU_OK; k++) {
            status = quipu_arena_copy(arena, *texts[k], texts[k]);
        }
        if (shared && calls[i].output.p != NULL) {
            calls[i].output.p = at;
            at += calls[i].output.n;
        }
        if (status == QUIPU_OK) {
            status = quipu_arena_copy(arena, signature, &signature);
            calls[i].thought_signature = (quipu_bytes){signature.p, signature.n};
        }
    }
    message->calls.items = calls;
    return status;
}

/* Copies a message with all its texts. On failure the arena holds the part that was copied; callers
 * rewind it. The six are all texts of quipu_message; a new one must be added here. */
static quipu_status live_copy(quipu_arena *arena, const quipu_message *from, quipu_message *ret)
{
    quipu_message copy = *from;
    quipu_str *const texts[] = {&copy.content,       &copy.author, &copy.event_id,
                                &copy.invocation_id, &copy.branch, &copy.extra.text};
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < 6 && status == QUIPU_OK; i++) {
        status = quipu_arena_copy(arena, *texts[i], texts[i]);
    }
    if (status == QUIPU_OK) {
        status = live_copy_calls(arena, &copy);
    }
    *ret = copy;
    return status;
}

/* Makes space for `more` messages, doubling from 16. Messages may move: nothing outside keeps a
 * pointer to one across calls. */
static quipu_status live_room(quipu_live *session, size_t more)
{
    size_t room = session->room;
    quipu_message *messages;

    if (session->count + more <= room) {
        return QUIPU_OK;
    }
    /* Doubling keeps n appends at O(n) moves. */
    while (room < session->count + more) {
        room = room == 0 ? 16 : room * 2;
    }
    /* The structs move, their texts stay in the arena or in the first history. */
    messages = qp_realloc(session->messages, room * sizeof(*messages));
    if (messages == NULL) {
        return QUIPU_NOMEM;
    }
    session->messages = messages;
    session->room = room;
    return QUIPU_OK;
}

/* The message is written behind the last one but not counted: the caller adds one to session->count
 * when the store has committed. The lock is held from here to the commit, so that the place stays
 * free. */
quipu_status qp_session_prepare(quipu_live *session, const quipu_message *message,
                                quipu_error *reterr)
{
    quipu_status status = live_room(session, 1);

    if (status == QUIPU_OK) {
        status = live_copy(&session->arena, message, &session->messages[session->count]);
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "no room for the event in memory");
}

/* ---- from the store ---------------------------------------------------------------------------
 */

/* Replaces the state by what the store has. temp: names exist only in memory and are carried over.
 * Built beside the old state and exchanged at the end: a failure changes nothing. */
static quipu_status live_take_state(quipu_live *session, qp_state_items state)
{
    qp_state_map map = {NULL, 0, 0};
    quipu_status status = qp_state_map_fill(&map, state);

    for (size_t i = 0; i < session->state.count && status == QUIPU_OK; i++) {
        const qp_state_entry *entry = session->state.entries[i];

        /* temp: names were never in the store: nobody else could bring them back. */
        if (qp_state_is_temp(entry->name)) {
            status = qp_state_map_put(&map, entry->name, entry->value);
        }
    }
    if (status != QUIPU_OK) {
        qp_state_map_free(&map);
        return status;
    }
    qp_state_map_free(&session->state);
    session->state = map;
    return QUIPU_OK;
}

/* Takes over everything but the messages: identity, revision, next number, state. Afterwards the
 * session is not behind. Called last by those that take messages: after it the session counts as
 * current. */
static quipu_status live_take_head(quipu_live *session, const qp_live *live)
{
    const quipu_session_info *info = live->history->session;
    quipu_status status = live_take_state(session, live->state);

    if (status == QUIPU_OK) {
        session->uid = info->uid;
        /* Both: nothing was changed in memory since. */
        session->revision = session->stored_revision = info->revision;
        session->next_seq = info->next_seq;
        session->last_update = live->last_event_at;
        session->behind = false;
    }
    return status;
}

/* Reverses messages in place. They are plain structs whose texts lie elsewhere, so they can be
 * moved. */
static void live_reverse(quipu_message *messages, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        const quipu_message held = messages[i];

        messages[i] = messages[count - 1 - i];
        messages[count - 1 - i] = held;
    }
}

/* Exchanges the first `a` messages with the `b` behind them, in place, by three reversals. No
 * second array: an overlay may be as large as the session. */
static void live_swap(quipu_message *messages, size_t a, size_t b)
{
    if (a > 0 && b > 0) {
        live_reverse(messages, a);
        live_reverse(messages + a, b);
        live_reverse(messages, a + b);
    }
}

/* Adds messages that were read later. The overlay of an active child stays last, so the new ones
 * are swapped in before it. On failure the session is as before. */
static quipu_status live_take(quipu_live *session, const qp_live *live)
{
    const quipu_history *history = live->history;
    const qp_arena_mark mark = qp_arena_save(&session->arena);
    quipu_status status = live_room(session, history->messages.count);

    /* Behind the last counted message: readers do not see them yet. */
    for (size_t i = 0; i < history->messages.count && status == QUIPU_OK; i++) {
        status = live_copy(&session->arena, quipu_message_at(history->messages, i),
                           &session->messages[session->count + i]);
    }
    if (status == QUIPU_OK) {
        status = live_take_head(session, live);
    }
    if (status != QUIPU_OK) {
        /* The texts of a half copied batch are given back. */
        qp_arena_rewind(&session->arena, mark);
        return status;
    }
    /* From here on they are visible: the order is set in the same lock. */
    session->count += history->messages.count;
    if (history->messages.count > 0) {
        live_swap(session->messages + session->count - history->messages.count - session->overlay,
                  session->overlay, history->messages.count);
    }
    return QUIPU_OK;
}

/* Takes over the first read without copying texts: the messages keep pointing into the history
 * object. The history must stay as long as the session: session->first owns it. */
static quipu_status live_take_first(quipu_live *session, qp_live *live)
{
    quipu_history *history = live->history;
    quipu_status status = live_room(session, history->messages.count);

    if (status == QUIPU_OK) {
        status = live_take_head(session, live);
    }
    if (status == QUIPU_OK && history->messages.count > 0) {
        /* The structs are copied, their texts are not. */
        memcpy(session->messages, history->messages.items,
               history->messages.count * sizeof(*session->messages));
        session->count = history->messages.count;
    }
    if (status == QUIPU_OK) {
        status = qp_session_adopt(session, history->session);
    }
    return status;
}

/* Builds a live session over what was read. On success it owns live->history; on failure the caller
 * still does. */
quipu_status qp_session_live(quipu_service *service, quipu_str key, const quipu_session_ref *ref,
                             qp_live *live, quipu_live **ret_session, quipu_error *reterr)
{
    quipu_live *session = qp_calloc(1, sizeof(*session));
    quipu_status status;

    if (session == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session");
    }
    /* Before everything else: quipu_live_free() destroys the mutex of any session that it gets. */
    if (qp_mutex_init(&session->mutex) != QUIPU_OK) {
        qp_free(session);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session");
    }
    session->service = service;
    status = quipu_arena_copy(&session->arena, key, &session->key);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&session->arena, ref->app_name, &session->ref.app_name);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&session->arena, ref->user_id, &session->ref.user_id);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&session->arena, ref->session_id, &session->ref.session_id);
    }
    if (status == QUIPU_OK) {
        status = live_take_first(session, live);
    }
    if (status != QUIPU_OK) {
        quipu_live_free(session);
        return qp_error_set(reterr, status, "no room for a session in memory");
    }
    session->first = live->history;
    live->history = NULL;
    *ret_session = session;
    return QUIPU_OK;
}

/* Reads what was stored after the last message in memory, with the lock held. A different uid means
 * that the session was deleted and created again under the same key: then everything is read anew.
 * Costs one read where nothing is new. */
quipu_status qp_session_catch_up(quipu_live *session, const quipu_call_options *call,
                                 quipu_error *reterr)
{
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    qp_live live = {.history = NULL};
    quipu_status status;

    /* Only what memory lacks. */
    want.range.after_seq = session->next_seq - 1;
    status = qp_live_get(session->service->store, session->key, &want, call, &live, reterr);
    if (status == QUIPU_OK &&
        memcmp(live.history->session->uid.b, session->uid.b, sizeof(session->uid.b)) != 0) {
        /* The key now names another session: what memory holds belongs to the old one. */
        quipu_free(live.history);
        live.history = NULL;
        want.range.after_seq = 0;
        status = qp_live_get(session->service->store, session->key, &want, call, &live, reterr);
        if (status == QUIPU_OK) {
            session->count = session->overlay = session->inherited = 0;
        }
    }
    if (status == QUIPU_OK) {
        status = live_take(session, &live);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for newer events in memory");
        }
    }
    quipu_free(live.history);
    return status;
}

/* Frees what the session holds and its active child, for sessions on the stack too (snapshot.c).
 * Does not touch the mutex, which such a session never had. */
void qp_session_release(quipu_live *session)
{
    quipu_live_free(session->active);
    qp_state_map_free(&session->state);
    qp_free(session->messages);
    quipu_free(session->first);
    quipu_arena_free(&session->arena);
}

/* NULL is fine. No other thread may use the session any more; the store keeps everything. */
void quipu_live_free(quipu_live *session)
{
    if (session != NULL) {
        qp_session_release(session);
        qp_mutex_done(&session->mutex);
        qp_free(session);
    }
}

/* ---- looking at it ----------------------------------------------------------------------------
 */

/* The one message for NULL arguments of the getters. */
static quipu_status live_misuse(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_MISUSE,
                        "the session, the arena and the place for the answer must be given");
}

/* Public entry: reads newer messages and state. */
quipu_status quipu_live_refresh(quipu_live *session, const quipu_call_options *call,
                                quipu_error *reterr)
{
    /* The session's lock: the call replaces messages and state that other threads read. */
    quipu_status status;

    if (session == NULL) {
        return live_misuse(reterr);
    }
    qp_mutex_lock(&session->mutex);
    status = qp_session_catch_up(session, call, reterr);
    qp_mutex_unlock(&session->mutex);
    return status;
}

/* Copies identity and revision to the arena. The lock is held. */
quipu_status qp_live_identity_read(quipu_live *session, quipu_arena *arena,
                                   quipu_live_identity *ret_identity, quipu_error *reterr)
{
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
    /* Copies: the session's own texts go when it is freed. */
    quipu_status status = quipu_arena_copy(arena, session->ref.app_name, &identity.ref.app_name);

    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, session->ref.user_id, &identity.ref.user_id);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, session->ref.session_id, &identity.ref.session_id);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the names of a session");
    }
    identity.uid = session->uid;
    identity.revision = session->revision;
    identity.stored = session->stored_revision;
    identity.last_update_time = session->last_update;
    *ret_identity = identity;
    return QUIPU_OK;
}

/* With the session's lock held. While an isolated agent works, its own names hide the parent's. */
quipu_status qp_session_state(const quipu_live *session, quipu_arena *arena, quipu_json *ret_state,
                              quipu_error *reterr)
{
    quipu_status status;
    qp_jsonw writer;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_jsonw_begin(&writer, &buf);
    qp_state_map_write(&session->state, session->active != NULL ? &session->active->state : NULL,
                       &writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&buf), &ret_state->text);
    }
    qp_buf_free(&buf);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "no room for the state");
}

/* Looks a name up; while a child works, its session-scoped names come first. Names of users and
 * apps come from the parent: the child shares them. */
static const qp_state_entry *live_entry(const quipu_live *session, quipu_str name)
{
    const qp_state_entry *entry = NULL;

    if (session->active != NULL && qp_state_is_own(name)) {
        entry = qp_state_map_get(&session->active->state, name);
    }
    return entry != NULL ? entry : qp_state_map_get(&session->state, name);
}

/* The value of one name, with the session's lock held. The name takes the same way as in a delta,
 * so that an odd name is found under the form in which it is kept. */
quipu_status qp_session_value(const quipu_live *session, quipu_str name, quipu_arena *arena,
                              quipu_json *ret_value, quipu_error *reterr)
{
    const qp_state_entry *entry;
    /* The name goes through JSON, as a name of an event would. */
    quipu_arena scratch = QUIPU_ARENA_INIT;
    qp_delta delta = {.stored = NULL};
    quipu_status status = qp_delta_one(name, QP_STR_ABSENT, &scratch, &delta, reterr);

    if (status == QUIPU_OK) {
        entry = live_entry(session, delta.all[0].name);
        status = entry != NULL
                     ? quipu_arena_copy(arena, entry->value, &ret_value->text)
                     : qp_error_set(reterr, QUIPU_NOT_FOUND, "the state has no such name");
        if (status == QUIPU_NOMEM || status == QUIPU_LIMIT) {
            (void)qp_error_set(reterr, status, "no room for a value");
        }
    }
    quipu_arena_free(&scratch);
    return status;
}
