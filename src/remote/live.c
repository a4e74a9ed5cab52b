/* Sessions with their state at a server (remote.h): what live sessions read and list. Called
 * through the store's table, from any thread; owns nothing.
 * Locks: none. All requests here are reads and may be sent again; writes of live sessions go
 * through qp_remote_append(). Rows and texts lie in the caller's arena. */
#include <stdlib.h>
#include <string.h>

#include "remote/remote.h"

#define LIVE_PAGE 1000 /* sessions of one request; the server reads the state of each */
#define LIVE_LIST_MAX ((size_t)1 << 34) /* bytes: a bound against pages without an end */
#define LIVE_ODD '\x01' /* before the JSON text of a name that a column cannot hold */

/* ---- rows of state --------------------------------------------------------------------------- */

/* The place is the enum's value. */
static const char *const live_scopes[] = {"", "app", "user", "session"}; /* by quipu_scope */

/* By name, as the server spells it; 0 refuses the row. */
static quipu_scope live_scope(qp_json_node row)
{
    const qp_json_node scope = qp_json_get(row, QUIPU_STR("scope"));

    for (int i = QUIPU_SCOPE_APP; i <= QUIPU_SCOPE_SESSION; i++) {
        if (qp_json_kind_of(scope) == QP_JSON_STRING &&
            qp_json_text_is(scope, quipu_cstr(live_scopes[i]))) {
            return (quipu_scope)i;
        }
    }
    return (quipu_scope)0;
}

/* A name, its value as the server wrote it, and who set it where the token may know.
 * A null is a value; a row without a value is refused. */
static bool live_take_entry(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    quipu_state_entry *entry = item;
    bool good = true;

    (void)ctx;
    *entry = (quipu_state_entry){.scope = live_scope(row),
                                 .name = qp_answer_text(row, "name", arena, &good),
                                 .value = qp_answer_json(row, "value", arena, &good),
                                 .set_by = qp_answer_text(row, "setBy", arena, &good),
                                 .set_seq = qp_answer_number(row, "setSeq"),
                                 .set_in = qp_answer_text(row, "setIn", arena, &good)};
    /* A token that may not know who set it gets no time, either. */
    (void)qp_answer_has_time(row, "setAt", arena, &entry->set_at, &good);
    return good && entry->scope != 0 && entry->name.p != NULL && entry->value.text.p != NULL;
}

/* The list lies in the arena of the history: what a live session keeps of it, it copies.
 * `answer` has the members "state" and "lastEventAt", beside "session" or inside of a list's row.
 * */
quipu_status qp_remote_state(qp_json_node answer, quipu_arena *arena, quipu_history *history,
                             quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(quipu_state_entry), live_take_entry};
    quipu_state_list *list = quipu_arena_alloc(arena, sizeof(*list));
    quipu_status status = QUIPU_OK;
    quipu_state_entry *entries;
    bool good = true;
    size_t count = 0;

    if (list == NULL) {
        return qp_answer_nomem(reterr);
    }
    entries = qp_answer_rows(qp_json_get(answer, QUIPU_STR("state")), &kind, NULL, arena, &count,
                             &status, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    list->entries = quipu_state_entries_of(entries, count);
    history->state = list;
    history->last_event_at = qp_answer_time(answer, "lastEventAt", arena, &good);
    return good ? QUIPU_OK : qp_remote_malformed(reterr);
}

/* In the order of the changes, which counts when a name comes twice. The values go out byte for
 * byte: the server compares repeated events by them.
 * A change without a value goes out without the member "value", and the server removes the name;
 * null is a value. */
void qp_remote_put_changes(qp_jsonw *writer, const char *name, qp_state_items changes)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < changes.count; i++) {
        const qp_state_item *change = &changes.items[i];

        qp_jsonw_object(writer);
        qp_jsonw_put(writer, "scope", live_scopes[change->scope]);
        qp_jsonw_put_text(writer, "name", change->name);
        if (change->value.p != NULL) {
            qp_jsonw_key(writer, QUIPU_STR("value"));
            qp_jsonw_raw(writer, change->value);
        }
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
}

/* ---- list ------------------------------------------------------------------------------------ */

/* One session of a page.
 * One allocation for each part, all in the arena: a failure leaves them to it. */
static bool live_take_session(qp_json_node row, const void *ctx, quipu_arena *arena, void *item)
{
    const qp_remote_server *server = ctx;
    quipu_history *history = quipu_arena_alloc(arena, sizeof(*history));
    quipu_session_info *info = quipu_arena_alloc(arena, sizeof(*info));
    qp_live *live = item;
    const quipu_state_entry *entries;
    qp_state_item *items;
    size_t count;

    if (history == NULL || info == NULL) {
        return false;
    }
    *info = (quipu_session_info){.next_seq = 0};
    *history = (quipu_history){.session = info};
    if (!qp_fields_take(&server->info, row, arena, info) ||
        qp_remote_state(row, arena, history, NULL) != QUIPU_OK || history->state == NULL) {
        return false;
    }
    entries = history->state->entries.items;
    count = history->state->entries.count;
    items = quipu_arena_alloc(arena, count * sizeof(*items) + 1);
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i] =
            (qp_state_item){(qp_scope)entries[i].scope, entries[i].name, entries[i].value.text};
    }
    *live = (qp_live){
        .history = history, .state = {items, count}, .last_event_at = history->last_event_at};
    return items != NULL;
}

/* By uid, so that two readings of one session stand side by side, the newer one last. */
static int live_compare(const void *a, const void *b)
{
    const quipu_session_info *one = ((const qp_live *)a)->history->session;
    const quipu_session_info *two = ((const qp_live *)b)->history->session;
    const int order = memcmp(one->uid.b, two->uid.b, sizeof(one->uid.b));

    return order != 0 ? order : (one->revision > two->revision) - (one->revision < two->revision);
}

/* Leaves one reading of each session. The oldest change comes first, so that a session that changes
 * while pages are read moves to one that is still to come: it may be there twice, and never lacks.
 * The last of equal ones is kept: it has the highest revision. */
static size_t live_unique(qp_live *items, size_t count)
{
    size_t kept = 0;

    if (count > 0) {
        qsort(items, count, sizeof(*items), live_compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count ||
            memcmp(items[i].history->session->uid.b, items[i + 1].history->session->uid.b,
                   sizeof(quipu_uuid)) != 0) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

/* Sessions that are read page by page. `app_name` and `user_id` are the caller's; the buffer is
 * freed by qp_remote_find(), also after a failure. */
typedef struct live_list {
    quipu_str app_name;
    quipu_str user_id;
    quipu_arena *arena;
    quipu_str after; /* the cursor; absent: at the beginning, or the page was the last one */
    qp_buf items;    /* of qp_live */
} live_list;

/* One page behind the cursor, which moves on.
 * An absent cursor in the answer ends the list. */
static quipu_status live_page(void *ctx, const qp_call *call, live_list *list, quipu_error *reterr)
{
    static const qp_answer_kind kind = {sizeof(qp_live), live_take_session};
    const quipu_str segments[] = {QUIPU_STR("sessions")};
    qp_live *items;
    bool good = true;
    size_t count = 0;
    qp_remote_ask ask;
    quipu_status status;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_text(&ask, "app", list->app_name);
    qp_remote_text(&ask, "user", list->user_id);
    qp_remote_text(&ask, "after", list->after);
    qp_remote_number(&ask, "limit", LIVE_PAGE);
    qp_remote_flag(&ask, "oldestFirst", true);
    qp_remote_flag(&ask, "state", true);
    status = qp_remote_run(&ask, reterr);
    items = qp_answer_rows(qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("sessions")), &kind, ctx,
                           list->arena, &count, &status, reterr);
    if (status == QUIPU_OK) {
        qp_buf_put(&list->items, (quipu_str){(const char *)items, count * sizeof(*items)});
        list->after = qp_answer_text(qp_json_root(&ask.doc), "next", list->arena, &good);
        status =
            good && qp_buf_status(&list->items) == QUIPU_OK ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    qp_remote_end(&ask);
    return status;
}

/* Pages until the server names no cursor. Each page is of another moment; each session with its
 * state is of one.
 * Sessions that were deleted between two pages may be in the list. */
quipu_status qp_remote_find(void *ctx, const qp_call *call, quipu_str app_name, quipu_str user_id,
                            quipu_arena *arena, qp_live_list *ret_list, quipu_error *reterr)
{
    live_list list = {.app_name = app_name, .user_id = user_id, .arena = arena};
    qp_live *items = NULL;
    quipu_status status;

    qp_buf_init(&list.items, LIVE_LIST_MAX);
    do {
        status = live_page(ctx, call, &list, reterr);
    } while (status == QUIPU_OK && list.after.p != NULL);
    if (status == QUIPU_OK) {
        items = quipu_arena_alloc(arena, list.items.n + 1);
        status = items != NULL ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    if (items != NULL) {
        if (list.items.n > 0) {
            memcpy(items, list.items.p, list.items.n);
        }
        *ret_list = (qp_live_list){items, live_unique(items, list.items.n / sizeof(*items))};
    }
    qp_buf_free(&list.items);
    return status;
}

/* ---- the state of a user --------------------------------------------------------------------- */

/* A name as the store has it: one that no column can hold is its JSON text (src/adk/delta.c).
 * A name that begins with the mark itself is spelled so, too: the two forms cannot be confused. */
static bool live_name(qp_json_node key, quipu_arena *arena, quipu_str *ret_name)
{
    const quipu_str raw = qp_json_raw(key);
    char *odd;

    if (qp_json_text_copy(key, arena, ret_name) == QUIPU_OK &&
        (ret_name->n == 0 || ret_name->p[0] != LIVE_ODD)) {
        return true;
    }
    odd = quipu_arena_alloc(arena, raw.n + 1);
    if (odd == NULL) {
        return false;
    }
    odd[0] = LIVE_ODD;
    memcpy(odd + 1, raw.p, raw.n);
    *ret_name = (quipu_str){odd, raw.n + 1};
    return true;
}

/* Names without "user:": the route answers with an object of a user's names alone. Two spellings of
 * one name cannot meet there, because a name is its own text or its JSON text.
 * An answer without a state is an empty one. */
quipu_status qp_remote_user_state(void *ctx, const qp_call *call, quipu_str app_name,
                                  quipu_str user_id, quipu_arena *arena, qp_state_items *ret_state,
                                  quipu_error *reterr)
{
    const quipu_str segments[] = {QUIPU_STR("state")};
    qp_state_item *items = NULL;
    qp_remote_ask ask;
    qp_json_node state;
    qp_json_iter each;
    quipu_status status;
    size_t count = 0;

    qp_remote_begin(&ask, ctx, call, "GET", segments, 1);
    qp_remote_text(&ask, "app", app_name);
    qp_remote_text(&ask, "user", user_id);
    status = qp_remote_run(&ask, reterr);
    state = qp_json_get(qp_json_root(&ask.doc), QUIPU_STR("state"));
    if (status == QUIPU_OK) {
        items = quipu_arena_alloc(arena, qp_json_count(state) * sizeof(*items) + 1);
        status = items != NULL ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    each = qp_json_each(state);
    while (items != NULL && status == QUIPU_OK && qp_json_next(&each)) {
        items[count] = (qp_state_item){.scope = QP_SCOPE_USER};
        if (!live_name(each.key, arena, &items[count].name) ||
            quipu_arena_copy(arena, qp_json_raw(each.value), &items[count].value) != QUIPU_OK) {
            status = qp_answer_nomem(reterr);
        }
        count++;
    }
    if (status == QUIPU_OK) {
        *ret_state = (qp_state_items){items, count};
    }
    qp_remote_end(&ask);
    return status;
}
