/* Child sessions: a sub-agent works on a fork of its parent, apart from it, until the child is
 * merged or discarded.
 *
 *   parent ──1──2──3──────────────4 summary, or the child's own messages
 *                 └─ child ──5──6──┘ merged (kept, with mergedAt) or discarded (deleted)
 *
 * Owns: the member "child" of a session's metadata ({"parent", "agent", "mergedAt"}), which is all
 * that makes a session a child, and the id "<parent>:child:<agent>:<uuid>" of a new one.
 * Called by: the public quipu_live_spawn/children, and isolate.c, which ends children.
 * Locks: qp_child_*() expect the parent's mutex to be held. They take the child's mutex themselves,
 * always after the parent's, so that two threads that end children cannot deadlock.
 * On return the store has changed completely or not at all (one transaction, store/state_child.c).
 * The parent's live copy follows the store; where it could not, parent->behind is set and the next
 * use reads again. */
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"
#include "base/str.h"
#include "base/time.h"
#include "base/uuid.h"
#include "store/state_child.h"

/* Members of the metadata's "child" object. */
#define CHILD_PARENT "parent"
#define CHILD_AGENT "agent"

/* Called after each append with the session's lock held. Only memory is trimmed: the store keeps
 * every message, and inherited messages do not count against the child's limit. Memory of the cut
 * messages is freed with the session, not now: their texts lie in its arena. */
void qp_session_trim(quipu_live *session)
{
    const size_t own = session->count - session->inherited;

    if (session->max_messages > 0 && own > (size_t)session->max_messages) {
        const size_t cut = own - (size_t)session->max_messages;
        quipu_message *first = session->messages + session->inherited;

        memmove(first, first + cut, (own - cut) * sizeof(*first));
        session->count -= cut;
    }
}

/* ---- what a child is --------------------------------------------------------------------------
 */

/* Reads the child member of a session's metadata. *ret_is says whether the session is a child; *ret
 * and *ret_parent (the parent's session id) are filled only then, with texts copied to the arena.
 * Metadata that are not JSON return the parser's status. */
static quipu_status child_read(const quipu_session_info *info, quipu_arena *arena, quipu_child *ret,
                               quipu_str *ret_parent, bool *ret_is)
{
    qp_json_doc doc;
    quipu_status status;

    *ret_is = false;
    if (info->metadata.text.p == NULL) {
        return QUIPU_OK;
    }
    /* A document of the call: its texts are copied where they are kept. */
    qp_json_init(&doc);
    status = qp_json_parse(&doc, info->metadata.text, NULL, NULL);
    if (status == QUIPU_OK) {
        qp_json_node child = qp_json_get(qp_json_root(&doc), QUIPU_STR(QP_CHILD_MEMBER));
        qp_json_node agent = qp_json_get(child, QUIPU_STR(CHILD_AGENT));
        qp_json_node parent = qp_json_get(child, QUIPU_STR(CHILD_PARENT));

        /* Both names, as texts: metadata of users may have a member of this name. */
        *ret_is =
            qp_json_kind_of(agent) == QP_JSON_STRING && qp_json_kind_of(parent) == QP_JSON_STRING;
        *ret = (quipu_child){.ref = {info->app_name, info->user_id, info->session_id},
                             .merged = qp_json_get(child, QUIPU_STR(QP_CHILD_MERGED)).doc != NULL};
        if (*ret_is) {
            status = qp_json_text_copy(agent, arena, &ret->agent);
        }
        if (*ret_is && status == QUIPU_OK) {
            status = qp_json_text_copy(parent, arena, ret_parent);
        }
    }
    qp_json_free(&doc);
    return status;
}

/* Called once, when a session is first read into memory. Messages up to the fork point are the
 * parent's: `inherited` counts them, so that trimming, merging and repairing touch only the child's
 * own. */
quipu_status qp_session_adopt(quipu_live *session, const quipu_session_info *info)
{
    quipu_child child;
    quipu_str parent = {NULL, 0};
    bool is = false;
    quipu_status status = child_read(info, &session->arena, &child, &parent, &is);

    if (status == QUIPU_OK && is) {
        session->agent = child.agent;
        session->parent = parent;
        session->fork_seq = info->fork_seq;
        /* Messages ascend: the first one behind the fork ends the count. */
        while (session->inherited < session->count &&
               session->messages[session->inherited].seq <= info->fork_seq) {
            session->inherited++;
        }
    }
    return status;
}

/* Writes {"child":{"parent":...,"agent":...,"mergedAt":...}}, which replaces the child's metadata
 * as a whole. `merged` adds the time of the merge, which is what marks a child as ended; a child
 * without it is still at work or was abandoned. */
static quipu_status child_metadata(quipu_str parent, quipu_str agent, bool merged,
                                   quipu_arena *arena, quipu_json *ret, quipu_error *reterr)
{
    char now[QP_TIME_RFC3339_SIZE];
    quipu_status status;
    qp_jsonw writer;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR(QP_CHILD_MEMBER));
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR(CHILD_PARENT));
    qp_jsonw_str(&writer, parent);
    qp_jsonw_key(&writer, QUIPU_STR(CHILD_AGENT));
    qp_jsonw_str(&writer, agent);
    /* Where the clock's time has no text (after the year 9999) the child only shows as open. */
    if (merged && qp_time_rfc3339(quipu_time_now(), now, NULL) == QUIPU_OK) {
        qp_jsonw_key(&writer, QUIPU_STR(QP_CHILD_MERGED));
        qp_jsonw_str(&writer, quipu_cstr(now));
    }
    qp_jsonw_object_end(&writer);
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&buf), &ret->text);
    }
    qp_buf_free(&buf);
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status,
                                             "the name of an agent is not text, or "
                                             "there is no room for it");
}

/* Writes "<parent>:child:<agent>:<uuid>". A version 7 UUID sorts by time, so children list in the
 * order in which they began. */
static quipu_status child_id(quipu_str parent, quipu_str agent, quipu_arena *arena, quipu_str *ret,
                             quipu_error *reterr)
{
    char text[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;
    quipu_status status;
    qp_buf buf;

    /* Version 7: see above. */
    if (qp_uuid_v7(&uuid) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a session id");
    }
    quipu_uuid_format(uuid, text);
    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_buf_put(&buf, parent);
    qp_buf_puts(&buf, ":child:");
    qp_buf_put(&buf, agent);
    qp_buf_putc(&buf, ':');
    qp_buf_puts(&buf, text);
    status = qp_buf_status(&buf);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&buf), ret);
    }
    qp_buf_free(&buf);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_set(reterr, status, "no room for a session id");
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* Forks the parent in the store, reads what the child inherits, and makes it a live session. The
 * fork is at the last message that the parent's memory holds, not at the last stored one: the child
 * sees what the agent saw. On failure after the fork the child stays in the store: it is listed,
 * and can be discarded. */
static quipu_status child_begin(quipu_live *parent, quipu_str agent,
                                const quipu_child_options *options, const quipu_call_options *call,
                                quipu_arena *arena, quipu_live **ret, quipu_error *reterr)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_session_ref ref = parent->ref;
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    qp_live live = {.history = NULL};
    quipu_live *child = NULL;
    /* A store behind a server has no merge, so a child must not begin there. */
    quipu_status status = qp_store_check_here(parent->service->store, "quipu_live_spawn", reterr);

    if (status == QUIPU_OK) {
        status = child_id(parent->ref.session_id, agent, arena, &ref.session_id, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_ref_key(parent->service, &ref, false, arena, &ref, &values.key, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            child_metadata(parent->ref.session_id, agent, false, arena, &values.metadata, reterr);
    }
    if (status == QUIPU_OK) {
        /* Identity of the child: same app and user, an id of its own, marked as a child in its
         * metadata. */
        values.agent_id = agent;
        values.app_name = ref.app_name;
        values.user_id = ref.user_id;
        values.session_id = ref.session_id;
        status = quipu_session_fork(parent->service->store, parent->key,
                                    /* Without inheritance the fork is before the first message. */
                                    options->inherit == 0 ? 0 : parent->next_seq - 1, &values, call,
                                    NULL, reterr);
    }
    if (status == QUIPU_OK) {
        want.range.flags = options->inherit == 0 ? QUIPU_RANGE_HEADER : QUIPU_RANGE_LAST;
        want.range.limit = options->inherit > 0 ? options->inherit : 0;
        status = qp_live_get(parent->service->store, values.key, &want, call, &live, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_live(parent->service, values.key, &ref, &live, &child, reterr);
    }
    if (status == QUIPU_OK) {
        child->max_messages = options->max_messages;
    }
    quipu_free(live.history);
    /* NULL where the child has not begun. */
    if (status != QUIPU_OK) {
        quipu_live_free(child);
        return status;
    }
    *ret = child;
    return QUIPU_OK;
}

/* A parent that is behind the store catches up first, else the fork would miss messages that are
 * already stored. */
quipu_status qp_child_spawn(quipu_live *parent, quipu_str agent, const quipu_child_options *options,
                            const quipu_call_options *call, quipu_live **ret_child,
                            quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    /* The fork's place is the last message in memory. */
    if (parent->behind) {
        status = qp_session_catch_up(parent, call, reterr);
    }
    if (status == QUIPU_OK) {
        status = child_begin(parent, agent, options, call, &arena, ret_child, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Public entry: checks the options, then forks under the parent's lock. */
quipu_status quipu_live_spawn(quipu_live *parent, quipu_str agent,
                              const quipu_child_options *options, const quipu_call_options *call,
                              quipu_live **ret_child, quipu_error *reterr)
{
    quipu_child_options opt = QUIPU_CHILD_OPTIONS_INIT;
    quipu_status status =
        qp_options_read(&opt, sizeof(opt), options, "quipu_child_options", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (parent == NULL || ret_child == NULL || agent.n == 0 || opt.flags != 0 || opt.inherit < -1 ||
        opt.max_messages < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a child needs a parent, the name of an agent, a place for it, flags "
                            "0, inherit of -1 or more and max_messages of 0 or more");
    }
    qp_mutex_lock(&parent->mutex);
    status = qp_child_spawn(parent, agent, &opt, call, ret_child, reterr);
    qp_mutex_unlock(&parent->mutex);
    return status;
}

/* ---- ending -----------------------------------------------------------------------------------
 */

/* White space as Python defines it (service.c). */
bool qp_text_is_blank(quipu_str text)
{
    return qp_text_strip(text).n == 0;
}

/* Ends a child in the store. `end` carries the messages for the parent and the child's new
 * metadata; this function adds keys and the expected revision. With the parent's lock held. A
 * conflict records the revision that the store reported; an unknown outcome leaves the parent
 * behind. The read that follows a success is best effort: its failure only sets `behind`. */
static quipu_status child_end(quipu_live *parent, const quipu_live *child, qp_child_end *end,
                              const quipu_call_options *call, quipu_error *reterr)
{
    const bool rebase = (parent->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    quipu_status status;

    end->parent = parent->key;
    end->child = child->key;
    end->expected_revision = rebase ? -1 : parent->revision;
    end->revision = parent->revision;
    status = qp_child_finish(parent->service->store, end, call, reterr);
    if (status == QUIPU_CONFLICT) {
        parent->stored_revision = end->revision;
    }
    if (status == QUIPU_UNKNOWN || (status == QUIPU_OK && end->count > 0)) {
        parent->behind = true;
    }
    if (status == QUIPU_OK && end->count > 0 &&
        qp_session_catch_up(parent, call, NULL) == QUIPU_OK) {
        parent->behind = false;
    }
    return status;
}

/* Ends a child and copies its own messages to the parent. They are read from the store, because the
 * live session may hold fewer (its limit) and other processes may have appended. child_revision
 * makes the end fail with a conflict when the child grew between this read and the transaction. */
static quipu_status child_end_whole(quipu_live *parent, const quipu_live *child, qp_child_end *end,
                                    const quipu_call_options *call, quipu_error *reterr)
{
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    qp_live live = {.history = NULL};
    quipu_status status;

    want.range.after_seq = child->fork_seq;
    status = qp_live_get(parent->service->store, child->key, &want, call, &live, reterr);
    if (status == QUIPU_OK) {
        const size_t own = live.history->messages.count;
        const size_t most = child->max_messages > 0 ? (size_t)child->max_messages : own;

        end->count = own < most ? own : most;
        end->messages =
            end->count > 0 ? quipu_message_at(live.history->messages, own - end->count) : NULL;
        end->child_revision = live.history->session->revision;
        status = child_end(parent, child, end, call, reterr);
    }
    quipu_free(live.history);
    return status;
}

/* A child belongs to a parent when store, app, user and the recorded parent id agree; anything else
 * is a caller's mistake. Reads only members that never change, so that no lock is needed yet. */
quipu_status qp_child_check(const quipu_live *parent, const quipu_live *child, quipu_error *reterr)
{
    return parent != NULL && child != NULL && parent != child && child->agent.p != NULL &&
                   parent->service->store == child->service->store &&
                   qp_str_cmp(child->parent, parent->ref.session_id) == 0 &&
                   qp_str_cmp(child->ref.app_name, parent->ref.app_name) == 0 &&
                   qp_str_cmp(child->ref.user_id, parent->ref.user_id) == 0
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_MISUSE,
                              "a child needs its own parent: the session that it was spawned from");
}

/* With a summary, one message takes the place of the child's work; without one, all its messages
 * are copied. The parent's lock is held. On failure both sessions are as before, and the merge can
 * be repeated. */
quipu_status qp_child_merge(quipu_live *parent, quipu_live *child, quipu_str summary,
                            quipu_str author, const quipu_call_options *call, quipu_error *reterr)
{
    const quipu_message message = {.role = QUIPU_ROLE_ASSISTANT,
                                   .content = summary,
                                   .author = author.n > 0 ? author : child->agent};
    qp_child_end end = {.messages = &message, .count = 1, .child_revision = -1};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    qp_mutex_lock(&child->mutex); /* lock order: parent, then child */
    if (parent->behind) {
        status = qp_session_catch_up(parent, call, reterr);
    }
    if (status == QUIPU_OK) {
        status = child_metadata(parent->ref.session_id, child->agent, true, &arena, &end.metadata,
                                reterr);
    }
    if (status == QUIPU_OK) {
        status = summary.n > 0 ? child_end(parent, child, &end, call, reterr)
                               : child_end_whole(parent, child, &end, call, reterr);
    }
    qp_mutex_unlock(&child->mutex);
    quipu_arena_free(&arena);
    return status;
}

/* The child's messages go; a note with the reason stays in the parent, unless the reason is blank.
 * The parent's lock is held. On failure both sessions are as before. */
quipu_status qp_child_discard(quipu_live *parent, quipu_live *child, quipu_str reason,
                              const quipu_call_options *call, quipu_error *reterr)
{
    quipu_message note = {.role = QUIPU_ROLE_ASSISTANT, .author = qp_service_root(parent->service)};
    quipu_status status;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_buf_puts(&buf, "[Isolated sub-agent ");
    qp_buf_put(&buf, child->agent);
    qp_buf_puts(&buf, " discarded: ");
    qp_buf_put(&buf, reason);
    qp_buf_puts(&buf, ". Raw child history discarded.]");
    status = qp_buf_status(&buf);
    if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "no room for a note");
    }
    note.content = qp_buf_str(&buf);
    if (status == QUIPU_OK && parent->behind) {
        status = qp_session_catch_up(parent, call, reterr);
    }
    if (status == QUIPU_OK) {
        qp_child_end end = {
            .messages = &note, .count = qp_text_is_blank(reason) ? 0 : 1, .child_revision = -1};

        qp_mutex_lock(&child->mutex);
        status = child_end(parent, child, &end, call, reterr);
        qp_mutex_unlock(&child->mutex);
    }
    qp_buf_free(&buf);
    return status;
}

/* ---- listing ----------------------------------------------------------------------------------
 */

/* Lists the children of one parent: reads the headers of all sessions of its app and user, and
 * keeps those whose metadata name this parent. Needs no lock: ref and service of a live session
 * never change. */
quipu_status quipu_live_find_children(quipu_live *parent, const quipu_call_options *call,
                                      quipu_arena *arena, quipu_children *ret_children,
                                      quipu_error *reterr)
{
    qp_live_list found = {NULL, 0};
    quipu_child *items = NULL;
    size_t count = 0;
    quipu_status status;

    if (parent == NULL || arena == NULL || ret_children == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a list needs a parent, an arena and a place");
    }
    status = qp_live_find(parent->service->store, parent->ref.app_name, parent->ref.user_id, call,
                          arena, &found, reterr);
    if (status == QUIPU_OK && found.count > 0) {
        items = qp_arena_take(arena, found.count * sizeof(*items));
        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list of children");
        }
    }
    for (size_t i = 0; i < found.count && status == QUIPU_OK; i++) {
        quipu_str of = {NULL, 0};
        bool is = false;

        status = child_read(found.items[i].history->session, arena, &items[count], &of, &is);
        /* An entry that does not belong to this parent is overwritten by the next. */
        count += is && quipu_str_eq(of, parent->ref.session_id);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status,
                               "no room for a list of children, or metadata that "
                               "are not JSON");
        }
    }
    if (status == QUIPU_OK) {
        *ret_children = quipu_children_of(items, count);
    }
    return status;
}
