/* Tools that write, for servers that may: remember, append_note, fork_session. No tool deletes or
 * overwrites anything or chooses an identity: author, origin and the names of a fork are the
 * server's.
 *
 * Owns: nothing after a call. Called by: tools.c, when the server offers the tool. Transactions:
 * one for each write, after a read that checks the scope.
 * A client that leaves while a tool writes loses the response, and what was written stays. Only
 * remember, and append_note with an event id, can be repeated without a second row. Locks: none. */
#include "mcp/tool.h"

#include <assert.h>
#include <stdio.h>

#include "base/uuid.h"

#define WRITE_ORIGIN QUIPU_STR("mcp") /* of memories, and the author of notes */
/* Enough for forks of one session; a name that is taken fails and is tried again by the model. */
#define WRITE_NAME_BYTES 4 /* of randomness in the name of a fork */

/* ---- remember -------------------------------------------------------------------------------- */

/* The schema has only these words, and "medium" is its default. */
static quipu_memory_priority write_priority(quipu_str name)
{
    return quipu_str_eq(name, QUIPU_STR("high"))  ? QUIPU_PRIORITY_HIGH
           : quipu_str_eq(name, QUIPU_STR("low")) ? QUIPU_PRIORITY_LOW
                                                  : QUIPU_PRIORITY_MEDIUM;
}

/* Never a standing line: those reach every later prompt, and belong to the user. */
bool qp_mcp_remember(qp_mcp_call *call)
{
    quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                           .content = qp_mcp_argument(call, "text")->text,
                           .subject = qp_mcp_argument(call, "subject")->text,
                           .priority = write_priority(qp_mcp_argument(call, "priority")->text),
                           .origin = WRITE_ORIGIN};
    quipu_memory_list *saved = NULL;
    quipu_error error = {0};
    quipu_status status;
    char id[QUIPU_UUID_TEXT_SIZE];

    if (!qp_mcp_call_key(call, &memory.session_key)) {
        return false;
    }
    /* The cost of the line in a prompt. */
    memory.token_count = quipu_token_estimate(memory.content);
    status =
        quipu_memory_save(call->server->store, quipu_memories_of(&memory, 1), NULL, &saved, &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    quipu_uuid_format(quipu_memory_at(saved->memories, 0)->id, id);
    qp_jsonw_put(call->out, "id", id);
    qp_jsonw_put_text(call->out, "session", memory.session_key);
    qp_jsonw_put_i64(call->out, "times", quipu_memory_at(saved->memories, 0)->times);
    quipu_free(saved);
    return true;
}

/* ---- append_note ----------------------------------------------------------------------------- */

/* The author is this server: a note never looks as if the user had written it. With an event id a
 * model can repeat the call after a failure. */
bool qp_mcp_append_note(qp_mcp_call *call)
{
    const quipu_message note = {.role = QUIPU_ROLE_ASSISTANT,
                                .content = qp_mcp_argument(call, "text")->text,
                                .author = WRITE_ORIGIN,
                                .event_id = qp_mcp_argument(call, "event_id")->text};
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error error = {0};
    quipu_str key;
    quipu_status status;

    if (!qp_mcp_call_key(call, &key)) {
        return false;
    }
    /* One message, one transaction; no settings and no expected revision. */
    status = quipu_message_append(call->server->store, key, quipu_messages_of(&note, 1), NULL, NULL,
                                  &appended, &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    qp_jsonw_put_text(call->out, "session", key);
    qp_jsonw_put_i64(call->out, "seq", appended.first_seq);
    qp_jsonw_put_bool(call->out, "repeated", appended.repeated);
    return true;
}

/* ---- fork_session ---------------------------------------------------------------------------- */

/* Whether a name cannot change the meaning of the key that it ends.
 * A slash or an escape in it could make the key that of another user's session. */
static bool write_is_name(quipu_str name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '\0' || strchr(allowed, name.p[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* "PARENT-NAME" in the arena. An ADK key ends with the session id, so that the same ending makes a
 * key and an id that belong together.
 * Its length is checked by the library, as that of every key. */
static bool write_join(qp_mcp_call *call, quipu_str parent, quipu_str name, quipu_str *ret_text)
{
    const size_t n = parent.n + 1 + name.n;
    char *text = quipu_arena_alloc(call->arena, n + 1);

    if (text == NULL) {
        return qp_mcp_call_fail(call, "%s", quipu_status_text(QUIPU_NOMEM));
    }
    memcpy(text, parent.p, parent.n);
    text[parent.n] = '-';
    memcpy(text + parent.n + 1, name.p, name.n);
    text[n] = '\0';
    *ret_text = (quipu_str){text, n};
    return true;
}

/* The name of the argument, or a random one.
 * `ret_random` is the caller's room, because the name may point into it. */
static bool write_fork_name(qp_mcp_call *call, char ret_random[2 * WRITE_NAME_BYTES + 1],
                            quipu_str *ret_name)
{
    uint8_t bytes[WRITE_NAME_BYTES];

    *ret_name = qp_mcp_argument(call, "name")->text;
    if (ret_name->p != NULL) {
        return write_is_name(*ret_name) ||
               qp_mcp_call_fail(call, "name must consist of letters, digits, - and _");
    }
    if (qp_random(bytes, sizeof(bytes)) != QUIPU_OK) {
        return qp_mcp_call_fail(call, "the system has no random bytes: give the fork a name");
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        (void)snprintf(ret_random + 2 * i, 3, "%02x", bytes[i]);
    }
    *ret_name = quipu_cstr(ret_random);
    return true;
}

/* App, user and settings of the fork are its parent's.
 * Without `seq` the fork shares all messages that the header showed. */
static bool write_fork(qp_mcp_call *call, const quipu_session_info *parent)
{
    const qp_mcp_value *seq = qp_mcp_argument(call, "seq");
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_history *fork = NULL;
    quipu_error error = {0};
    quipu_status status;
    char random[2 * WRITE_NAME_BYTES + 1];
    quipu_str name;

    if (!write_fork_name(call, random, &name) ||
        !write_join(call, parent->key, name, &values.key) ||
        (parent->session_id.n > 0 &&
         !write_join(call, parent->session_id, name, &values.session_id))) {
        return false;
    }
    status = quipu_session_fork(call->server->store, parent->key,
                                seq->given ? seq->number : parent->next_seq - 1, &values, NULL,
                                &fork, &error);
    if (status != QUIPU_OK) {
        return qp_mcp_call_fail_status(call, status, &error);
    }
    qp_jsonw_key(call->out, QUIPU_STR("session"));
    qp_jsonw_object(call->out);
    qp_mcp_put_session(call->out, fork->session);
    qp_jsonw_object_end(call->out);
    quipu_free(fork);
    return true;
}

/* Names and settings of the fork come from the parent, which is in the scope: so is the fork. */
bool qp_mcp_fork_session(qp_mcp_call *call)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    bool done;

    assert(call->server->session_key.p == NULL);
    header.flags = QUIPU_RANGE_HEADER;
    if (!qp_mcp_call_get(call, &header, &history)) {
        return false;
    }
    done = write_fork(call, history->session);
    quipu_free(history);
    return done;
}
