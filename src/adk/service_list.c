/* Lists of sessions in ADK's order: by last update, then user, then session id.
 *
 * Owns: the list and its arena, behind the public pointer; quipu_free() frees both.
 * Called by: users of the C API and the bindings.
 * Locks: none; one read of the store in one snapshot, then memory of the call.
 * On return every text of the list lies in the list's own arena. */
#include <stdlib.h>

#include "adk/event.h"
#include "adk/service.h" /* IWYU pragma: keep */
#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"

/* A result as base/result.h defines them: its head, then the struct that callers see. */
typedef struct service_list_all {
    qp_result head;
    quipu_service_list pub;
} service_list_all;

QP_RESULT(service_list_all);

/* A total order, since (user, session) is unique within an app. */
static int service_list_order(const void *a, const void *b)
{
    const quipu_service_entry *left = a;
    const quipu_service_entry *right = b;
    int order = quipu_time_cmp(left->last_update_time, right->last_update_time);

    if (order == 0) {
        order = qp_str_cmp(left->ref.user_id, right->ref.user_id);
    }
    return order != 0 ? order : qp_str_cmp(left->ref.session_id, right->ref.session_id);
}

/* The state of one session as a JSON object with its prefixes; `buf` is reused from entry to
 * entry. */
static quipu_status service_list_state(qp_state_items state, qp_buf *buf, quipu_arena *arena,
                                       quipu_json *ret)
{
    qp_state_map map = {NULL, 0, 0};
    quipu_status status = qp_state_map_fill(&map, state);
    qp_jsonw writer;

    if (status == QUIPU_OK) {
        qp_buf_reset(buf);
        qp_jsonw_begin(&writer, buf);
        qp_state_map_write(&map, NULL, &writer);
        status = qp_jsonw_end(&writer);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(buf), &ret->text);
    }
    qp_state_map_free(&map);
    return status;
}

/* Turns what the store found into entries and sorts them. Memory is the list's arena. One buffer
 * serves the state of all entries: lists have hundreds, and most states are small. */
static quipu_status service_list_fill(service_list_all *all, const qp_live_list *found,
                                      quipu_error *reterr)
{
    quipu_service_entry *items = NULL;
    quipu_status status = QUIPU_OK;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    if (found->count > 0) {
        /* The list's arena: it lives as long as the list. */
        items = qp_arena_take(&all->head.arena, found->count * sizeof(*items));
        status = items != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    for (size_t i = 0; i < found->count && status == QUIPU_OK; i++) {
        const quipu_session_info *info = found->items[i].history->session;

        items[i] = (quipu_service_entry){.ref = {info->app_name, info->user_id, info->session_id},
                                         .last_update_time = found->items[i].last_event_at,
                                         .created_at = info->created_at,
                                         .revision = info->revision,
                                         .event_count = info->message_count,
                                         .uid = info->uid};
        status = service_list_state(found->items[i].state, &buf, &all->head.arena, &items[i].state);
    }
    qp_buf_free(&buf);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for a list of %zu sessions", found->count);
    }
    if (items != NULL && found->count > 1) {
        qsort(items, found->count, sizeof(*items), service_list_order);
    }
    all->pub.sessions = quipu_service_entries_of(items, found->count);
    return QUIPU_OK;
}

/* See <quipu/adk.h>. All sessions at once: ADK's interface has no pages. An absent user id means
 * all users, an empty one the user without a name. */
quipu_status quipu_service_find(quipu_service *service, quipu_str app_name, quipu_str user_id,
                                const quipu_call_options *call, quipu_service_list **ret_list,
                                quipu_error *reterr)
{
    service_list_all *all;
    qp_live_list found = {NULL, 0};
    quipu_status status;
    bool texts;

    if (service == NULL || ret_list == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a list needs a service and a place for it");
    }
    if ((service->options.flags & QUIPU_SERVICE_NEEDS_IDS) != 0) {
        if (app_name.n == 0) {
            return qp_error_set(reterr, QUIPU_INVALID, "a list needs an app name");
        }
        /* An empty user name means all users where every session needs one. */
        user_id = user_id.n == 0 ? QP_STR_ABSENT : user_id;
    }
    /* No session has names that are not texts: an empty list. */
    texts = qp_service_are_texts(app_name, user_id, QP_STR_ABSENT);
    all = qp_result_new(sizeof(*all));
    if (all == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a list");
    }
    status = texts ? qp_live_find(service->store, app_name.p != NULL ? app_name : QUIPU_STR(""),
                                  user_id, call, &all->head.arena, &found, reterr)
                   : QUIPU_OK;
    if (status == QUIPU_OK) {
        status = service_list_fill(all, &found, reterr);
    }
    if (status != QUIPU_OK) {
        /* Frees its arena, and what was found in it. */
        quipu_free(&all->pub);
        return status;
    }
    *ret_list = &all->pub;
    return QUIPU_OK;
}
