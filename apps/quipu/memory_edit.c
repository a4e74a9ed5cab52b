/* quipu memory show, edit, retire, rm, source: one memory by its id. Ids of both kinds are drawn
 * from one space, so that an id alone says which memory is meant. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "render.h"

#define MEMORY_NEAR_SESSIONS 50 /* changed last, whose memories a mistyped id may mean */
#define MEMORY_NEAR_PREFIX 4    /* digits of an id that say enough */

/* How far two ids are apart: the digits that differ; 0 when one is the beginning of the other. */
static size_t memory_edit_distance(quipu_str text, const char id[QUIPU_UUID_TEXT_SIZE])
{
    size_t differ = text.n < QUIPU_UUID_TEXT_SIZE - 1 ? 0 : text.n - (QUIPU_UUID_TEXT_SIZE - 1);

    assert(text.p != NULL || text.n == 0);
    for (size_t i = 0; i < text.n && i < QUIPU_UUID_TEXT_SIZE - 1; i++) {
        const char byte = text.p[i];

        differ += (byte >= 'A' && byte <= 'F' ? byte - 'A' + 'a' : byte) != id[i];
    }
    return differ;
}

/* The nearest id among the memories of one session, when it is nearer than `*best`. */
static void memory_edit_look(quipu_store *store, quipu_str key, quipu_str text, size_t *best,
                             char ret_id[QUIPU_UUID_TEXT_SIZE])
{
    static const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;

        query.kind = kinds[k];
        query.session_key = key;
        query.flags = QUIPU_MEMORY_FIND_RETIRED;
        if (quipu_memory_find(store, &query, NULL, &list, NULL) != QUIPU_OK) {
            continue;
        }
        for (size_t i = 0; i < list->memories.count; i++) {
            char id[QUIPU_UUID_TEXT_SIZE];

            quipu_uuid_format(quipu_memory_at(list->memories, i)->id, id);
            const size_t differ = memory_edit_distance(text, id);

            if (differ < *best) {
                *best = differ;
                memcpy(ret_id, id, sizeof(id));
            }
        }
        quipu_free(list);
    }
}

/* The id that was meant, as ", did you mean ...?"; empty when none is near: more than a tenth of
 * its digits would differ. */
static void memory_edit_near(quipu_store *store, quipu_str text, char *ret_advice, size_t size)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    char id[QUIPU_UUID_TEXT_SIZE] = "";
    size_t best = text.n / 10 + 1;

    ret_advice[0] = '\0';
    options.limit = MEMORY_NEAR_SESSIONS;
    if (text.n < MEMORY_NEAR_PREFIX ||
        quipu_session_list(store, &options, NULL, &page, NULL) != QUIPU_OK) {
        return;
    }
    for (size_t i = 0; i < page->sessions.count; i++) {
        memory_edit_look(store, quipu_session_info_at(page->sessions, i)->key, text, &best, id);
    }
    quipu_free(page);
    if (id[0] != '\0') {
        (void)snprintf(ret_advice, size, "; did you mean %s?", id);
    }
}

/* The memory of the id in the second argument; free the list. Reported when there is none. */
static int memory_edit_find(const app_call *call, quipu_store *store, quipu_memory_list **ret_list)
{
    static const quipu_memory_kind kinds[] = {QUIPU_OBSERVATION, QUIPU_REFLECTION};
    const quipu_str text = app_argument(call, 1);
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_status status = QUIPU_OK;
    quipu_error error = {0};
    char advice[80] = "";
    quipu_uuid id;

    if (text.p == NULL || quipu_uuid_parse(text, &id) != QUIPU_OK) {
        memory_edit_near(store, text, advice, sizeof(advice));
        return app_usage(
            call, "the id is missing or no UUID%s; \"quipu memory list KEY\" shows ids", advice);
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
    memory_edit_near(store, text, advice, sizeof(advice));
    app_report(call, "there is no memory %s%s; \"quipu memory list KEY\" shows ids", text.p,
               advice);
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
static int memory_edit_patch(const app_call *call, char *buffer, quipu_memory_patch *patch)
{
    const char *priority = app_value(call, "priority");
    int code = APP_OK;

    if (app_argument(call, 2).p != NULL) {
        code = memory_text(call, buffer, &patch->content);
        patch->set |= QUIPU_MEMORY_SET_CONTENT;
    }
    if (priority != NULL) {
        patch->set |= QUIPU_MEMORY_SET_PRIORITY;
        patch->priority = (quipu_memory_priority)(app_word_number(MEMORY_PRIORITIES, priority) + 1);
    }
    if (app_given(call, "subject")) {
        patch->set |= QUIPU_MEMORY_SET_SUBJECT;
        patch->subject = app_text_value(call, "subject");
    }
    patch->why = app_text_value(call, "why");
    if (code == APP_OK && patch->set == 0) {
        code = app_usage(call, "there is nothing to change: give a text, --priority or --subject");
    }
    return code;
}

/* The text may come from stdin, as that of add. */
int memory_edit(const app_call *call, quipu_store *store)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    char *buffer = malloc(MEMORY_TEXT_MAX + 1);
    int code;

    if (buffer == NULL) {
        return app_fail(call, call->arguments[0], QUIPU_NOMEM, NULL);
    }
    code = memory_edit_patch(call, buffer, &patch);
    if (code == APP_OK) {
        code = memory_edit_change(call, store, &patch);
    }
    free(buffer);
    return code;
}

/* The third argument says why. */
int memory_retire(const app_call *call, quipu_store *store)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;

    patch.set = QUIPU_MEMORY_SET_RETIRED;
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
