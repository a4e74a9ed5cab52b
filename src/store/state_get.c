/* The state that a session sees, with who set each name last: quipu_state_get().
 *
 * Owns the public list. Reads the rows of state.c from one snapshot; takes no lock. A store behind
 * a server asks that (state_get_ask()). Called by programs, and by the reads of live sessions for
 * the entries alone (qp_state_entries()).
 *
 *   rows of State            scope       whose
 *   (tenant, app)            app         every session of the app
 *   (tenant, app, user)      user        every session of the user
 *   (session)                session     this one
 *       └──── in this order, sorted by name within a scope ────▶ quipu_state_list
 *
 * A name may stand in several scopes: the list shows each, and who set it. */
#include <quipu/state.h>

#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"
#include "store/state_internal.h"

static_assert((int)QUIPU_SCOPE_APP == (int)QP_SCOPE_APP &&
                  (int)QUIPU_SCOPE_SESSION == (int)QP_SCOPE_SESSION &&
                  QUIPU_STATE_SET_BY_MAX == QP_STATE_SET_BY_MAX,
              "scopes have the same numbers in the API and in the rooms above");

typedef struct state_get_list {
    qp_result head;       /* its arena has rows, entries and texts */
    quipu_state_list pub; /* what the caller has, and frees with quipu_free() */
} state_get_list;

QP_RESULT(state_get_list);

typedef struct state_get_call {
    const quipu_store *store;
    quipu_str key;
    state_get_list *list; /* made before the read, which fills it anew when it is retried */
} state_get_call;

/* An empty text of a row is an absent one of the API. */
static quipu_str state_get_text(quipu_str text)
{
    return text.n > 0 ? text : QP_STR_ABSENT;
}

/* Three ranges of rows of the open snapshot, in the order of the scopes, as one list. */
quipu_status qp_state_entries(const quipu_store *store, ent_db *db, const qp_session *row,
                              quipu_arena *arena, quipu_state_entries *ret_entries,
                              quipu_error *reterr)
{
    qp_state_list scopes[QP_SCOPE_SESSION + 1] = {0};
    quipu_state_entry *entries = NULL;
    size_t count = 0;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    for (int scope = QP_SCOPE_APP; scope <= QP_SCOPE_SESSION && status == QUIPU_OK; scope++) {
        status = qp_state_rows(store, db, row, (qp_scope)scope, arena, &scopes[scope], reterr);
        count += scopes[scope].n;
    }
    if (status == QUIPU_OK && count > 0) {
        entries = qp_arena_take(arena, count * sizeof(*entries));
        status = entries != NULL ? QUIPU_OK
                                 : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for state");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Counted once for the array, and once more while it is filled. */
    count = 0;
    for (int scope = QP_SCOPE_APP; scope <= QP_SCOPE_SESSION; scope++) {
        for (size_t i = 0; entries != NULL && i < scopes[scope].n; i++) {
            const qp_state *state = &scopes[scope].items[i];

            /* Texts stay in the rows, which lie in the same arena. */
            entries[count++] = (quipu_state_entry){.scope = (quipu_scope)scope,
                                                   .name = state->name,
                                                   .value = state->value,
                                                   .set_at = state->updated_at,
                                                   .set_by = state_get_text(state->set_by),
                                                   .set_seq = state->set_seq,
                                                   .set_in = state_get_text(state->set_in)};
        }
    }
    *ret_entries = quipu_state_entries_of(entries, count);
    return QUIPU_OK;
}

/* One snapshot: session state and shared state belong together. */
static quipu_status state_get_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    state_get_call *call = ctx;
    quipu_arena *arena = &call->list->head.arena;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_load(call->store, db, scratch, call->key, quipu_time_now(), &row, reterr);

    assert(ent_depth(db) > 0 && call->list != NULL);
    quipu_arena_free(arena); /* of a try before */
    return status == QUIPU_OK
               ? qp_state_entries(call->store, db, row, arena, &call->list->pub.entries, reterr)
               : status;
}

/* The state at a server, by a read of the session. */
static quipu_status state_get_ask(state_get_call *get, quipu_store *store, const qp_call *call,
                                  quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_session_info session;
    quipu_history history = {.session = &session};
    const qp_remote_read read = {get->key, &range, &get->list->head.arena, &session, &history};
    quipu_status status;

    /* No message comes along: only the header and the state. */
    range.flags = QUIPU_RANGE_HEADER | QUIPU_RANGE_STATE;
    status = store->remote.get(store->remote.ctx, call, &read, reterr);
    if (status == QUIPU_OK) {
        get->list->pub = *history.state;
    }
    return status;
}

/* See <quipu/state.h>. The list is complete or not there. */
quipu_status quipu_state_get(quipu_store *store, quipu_str key, const quipu_call_options *call,
                             quipu_state_list **ret_list, quipu_error *reterr)
{
    state_get_call get = {.store = store, .key = key};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_list == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "state needs a place for the list");
    }
    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        get.list = qp_result_new(sizeof(*get.list));
        status = get.list == NULL ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory for state")
                 : qp_store_is_remote(store)
                     ? state_get_ask(&get, store, &within, reterr)
                     : qp_store_read(store, &within, state_get_work, &get, reterr);
    }
    if (status == QUIPU_OK && ret_list != NULL) {
        *ret_list = &get.list->pub;
    } else if (get.list != NULL) {
        quipu_free(&get.list->pub);
    }
    qp_store_leave(&within);
    return status == QUIPU_OK ? QUIPU_OK : qp_store_fail(status, "read the state of", key, reterr);
}
