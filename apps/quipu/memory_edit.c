/* quipu memory show, edit, retire, rm, source: one memory by its id. Ids of both kinds are drawn
 * from one space, so that an id alone says which memory is meant. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "render.h"

/* The memory of the id in the second argument; free the list. Reported when there is none. */
static int memory_edit_find(const app_call *call, quipu_store *store, quipu_memory_list **ret_list)
{
    static const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};
    const quipu_str text = app_argument(call, 1);
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_status status = QUIPU_OK;
    quipu_error error = {0};
    quipu_uuid id;

    if (text.p == NULL || quipu_uuid_parse(text, &id) != QUIPU_OK) {
        return app_usage(call, "the id is missing or no UUID; \"quipu memory list KEY\" shows ids");
    }
    query.ids = &id;
    query.id_count = 1;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && status == QUIPU_OK; i++) {
        quipu_memory_list *list = NULL;

        query.kind = kinds[i];
        status = quipu_memory_find(store, &query, NULL, &list, &error);
        if (status == QUIPU_OK && list->memories.count > 0) {
            *ret_list = list;
            return APP_OK;
        }
        quipu_free(list);
    }
    if (status != QUIPU_OK) {
        return app_fail(call, text.p, status, &error);
    }
    app_report(call, "there is no memory %s; \"quipu memory list KEY\" shows ids", text.p);
    return APP_NOT_FOUND;
}

int memory_show(const app_call *call, quipu_store *store)
{
    quipu_memory_list *list = NULL;
    int code = memory_edit_find(call, store, &list);

    assert(code != APP_OK || list != NULL);
    if (code == APP_OK && app_given(call, "json")) {
        memory_json(quipu_memory_at(list->memories, 0));
    } else if (code == APP_OK) {
        memory_print(call, quipu_memory_at(list->memories, 0));
    }
    quipu_free(list);
    return code;
}

/* Changes it and shows what it is now. */
static int memory_edit_change(const app_call *call, quipu_store *store, quipu_memory_patch *patch)
{
    quipu_memory_list *list = NULL;
    quipu_memory_list *changed = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code = memory_edit_find(call, store, &list);

    if (code != APP_OK) {
        return code;
    }
    assert(list != NULL);
    patch->kind = quipu_memory_at(list->memories, 0)->kind;
    patch->id = quipu_memory_at(list->memories, 0)->id;
    patch->who = app_text_value(call, "who");
    if (patch->who.n == 0) {
        patch->who = quipu_cstr(getenv("USER"));
    }
    quipu_free(list);
    status = quipu_memory_update(store, patch, NULL, &changed, &error);
    if (status != QUIPU_OK) {
        return app_fail(call, call->arguments[1], status, &error);
    }
    if (app_given(call, "json")) {
        memory_json(quipu_memory_at(changed->memories, 0));
    } else {
        memory_print(call, quipu_memory_at(changed->memories, 0));
    }
    quipu_free(changed);
    return APP_OK;
}

/* A text, --priority, --subject: at least one of them. */
int memory_edit(const app_call *call, quipu_store *store)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    const char *priority = app_value(call, "priority");

    patch.content = app_argument(call, 2);
    if (patch.content.p != NULL) {
        patch.set |= QUIPU_MEMORY_SET_CONTENT;
    }
    if (priority != NULL) {
        patch.set |= QUIPU_MEMORY_SET_PRIORITY;
        patch.priority = (quipu_memory_priority)(app_word_number(MEMORY_PRIORITIES, priority) + 1);
    }
    if (app_given(call, "subject")) {
        patch.set |= QUIPU_MEMORY_SET_SUBJECT;
        patch.subject = app_text_value(call, "subject");
    }
    patch.why = app_text_value(call, "why");
    if (patch.set == 0) {
        return app_usage(call, "there is nothing to change: give a text, --priority or --subject");
    }
    return memory_edit_change(call, store, &patch);
}

/* The third argument says why. */
int memory_retire(const app_call *call, quipu_store *store)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;

    patch.set = QUIPU_MEMORY_RETIRE;
    patch.why = app_argument(call, 2);
    return memory_edit_change(call, store, &patch);
}

/* Deletes one, after confirmation. */
int memory_rm(const app_call *call, quipu_store *store)
{
    app_json json = {.out = stdout};
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error error = {0};
    quipu_status status;
    quipu_uuid id;
    int code = memory_edit_find(call, store, &list);

    if (code == APP_OK) {
        code = app_confirm(call, "delete memory %s", call->arguments[1]);
    }
    if (code == APP_OK) {
        assert(list != NULL);
        id = quipu_memory_at(list->memories, 0)->id;
        query.kind = quipu_memory_at(list->memories, 0)->kind;
        query.ids = &id;
        query.id_count = 1;
        status = quipu_memory_delete(store, &query, NULL, NULL, &error);
        code = status == QUIPU_OK ? APP_OK : app_fail(call, call->arguments[1], status, &error);
    }
    quipu_free(list);
    if (code == APP_OK && app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_int(&json, "removed", 1);
        app_json_close(&json, '}');
    } else if (code == APP_OK) {
        printf("1 deleted\n");
    }
    return code;
}

/* The messages of a history, as `quipu show` prints them. */
static int memory_edit_messages(const app_call *call, const quipu_history *history)
{
    app_json json = {.out = stdout};
    app_render render = {
        .out = stdout, .colours = app_colours(call), .columns = app_render_columns()};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;

    if (!app_given(call, "json")) {
        app_render_set(&render, history->session);
        (void)app_render_messages(&render, history->messages, false);
    }
    for (size_t i = 0; app_given(call, "json") && i < history->messages.count && status == QUIPU_OK;
         i++) {
        status = app_json_message(&json, history->messages, i, &arena, &error);
    }
    quipu_arena_free(&arena);
    return status == QUIPU_OK ? APP_OK : app_fail(call, history->session->key.p, status, &error);
}

/* The messages that an observation was made of. */
int memory_source(const app_call *call, quipu_store *store)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_memory_list *list = NULL;
    quipu_error error = {0};
    quipu_status status;
    int code = memory_edit_find(call, store, &list);

    if (code != APP_OK) {
        return code;
    }
    assert(list != NULL);
    const quipu_memory *memory = quipu_memory_at(list->memories, 0);

    if (memory->source_end <= 0) {
        app_report(call, "memory %s names no messages", call->arguments[1]);
        quipu_free(list);
        return APP_NOT_FOUND;
    }
    range.after_seq = memory->source_start > 0 ? memory->source_start - 1 : 0;
    range.before_seq = memory->source_end + 1;
    status = quipu_session_get(store, memory->session_key, &range, NULL, &history, &error);
    if (status != QUIPU_OK) {
        code = app_fail_session(call, memory->session_key, status, &error);
    } else if (history->messages.count == 0) {
        app_report(call, "the messages of memory %s are gone", call->arguments[1]);
        code = APP_NOT_FOUND;
    } else {
        code = memory_edit_messages(call, history);
    }
    quipu_free(history);
    quipu_free(list);
    return code;
}
