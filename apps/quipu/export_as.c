/* A session, page by page, in a format of other programs (export_as.h). A format gets each message
 * with what is in it; it has no state but its stream, so that a session of any length needs the
 * memory of a page.
 *
 * Called by: cmd_export.c. Locks: none. Returns the first failure of a read; failures of writing
 * stay in the stream. */
#include "export_as.h"

#include <string.h>

#include <quipu/adk.h>

#define EXPORT_PAGE 500 /* messages read at a time */

/* ---- what is in a message --------------------------------------------------------------------
 */

static void items_columns(const quipu_message *message, app_item_fn fn, void *ctx)
{
    const bool tool = message->role == QUIPU_ROLE_TOOL || message->role == QUIPU_ROLE_FUNCTION;

    if (message->content.n > 0 && (!tool || message->calls.count == 0)) {
        fn(ctx,
           &(app_item){.kind = tool ? APP_ITEM_RESPONSE : APP_ITEM_TEXT, .text = message->content});
    }
    for (size_t i = 0; i < message->calls.count; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);
        const bool answers = call->output.p != NULL;

        if (!answers || call->input.n > 0) {
            fn(ctx,
               &(app_item){
                   .kind = APP_ITEM_CALL, .id = call->id, .name = call->name, .text = call->input});
        }
        if (answers) {
            fn(ctx, &(app_item){.kind = APP_ITEM_RESPONSE,
                                .id = call->id,
                                .name = call->name,
                                .text = call->output});
        }
    }
}

/* A call or response of an event. Its id is that of the message's column, which is never empty. */
static bool items_call(const app_tree *part, const quipu_message *message, size_t *number,
                       app_item *item)
{
    const app_tree *call = app_tree_get(part, "functionCall");
    const app_tree *response = app_tree_get(part, "functionResponse");
    const app_tree *body =
        call != NULL ? app_tree_get(call, "args") : app_tree_get(response, "response");

    if (call == NULL && response == NULL) {
        return false;
    }
    item->kind = call != NULL ? APP_ITEM_CALL : APP_ITEM_RESPONSE;
    item->name = app_tree_text(call != NULL ? call : response, "name");
    item->id = *number < message->calls.count ? quipu_tool_call_at(message->calls, *number)->id
                                              : app_tree_text(call, "id");
    item->text = body != NULL ? body->raw : QUIPU_STR("{}");
    (*number)++;
    return true;
}

/* Any other part. */
static void items_other(const app_tree *part, app_item *item)
{
    const app_tree *code = app_tree_get(part, "executableCode");
    const app_tree *result = app_tree_get(part, "codeExecutionResult");
    const app_tree *data = app_tree_get(part, "inlineData");
    const app_tree *file = app_tree_get(part, "fileData");

    *item = (app_item){.kind = APP_ITEM_OTHER, .text = part->raw};
    if (code != NULL) {
        *item = (app_item){.kind = APP_ITEM_CODE,
                           .name = app_tree_text(code, "language"),
                           .text = app_tree_text(code, "code")};
    } else if (result != NULL) {
        *item = (app_item){.kind = APP_ITEM_RESULT,
                           .name = app_tree_text(result, "outcome"),
                           .text = app_tree_text(result, "output")};
    } else if (data != NULL) {
        *item = (app_item){.kind = APP_ITEM_MEDIA,
                           .name = app_tree_text(data, "mimeType"),
                           .text = app_tree_text(data, "data")};
    } else if (file != NULL) {
        *item = (app_item){.kind = APP_ITEM_FILE,
                           .name = app_tree_text(file, "mimeType"),
                           .text = app_tree_text(file, "fileUri")};
    } else if (app_tree_get(part, "text") != NULL) {
        *item =
            (app_item){.kind = app_tree_true(part, "thought") ? APP_ITEM_THOUGHT : APP_ITEM_TEXT,
                       .text = app_tree_text(part, "text")};
    }
}

void app_items(const quipu_message *message, const app_tree *event, app_item_fn fn, void *ctx)
{
    const app_tree *parts = app_tree_get(app_tree_get(event, "content"), "parts");
    const quipu_str code = app_tree_text(event, "errorCode");
    const quipu_str why = app_tree_text(event, "errorMessage");
    size_t number = 0;

    if (event == NULL) {
        items_columns(message, fn, ctx);
    }
    for (const app_tree *part = parts != NULL ? parts->first : NULL; part != NULL;
         part = part->next) {
        app_item item = {.kind = APP_ITEM_OTHER};

        if (!items_call(part, message, &number, &item)) {
            items_other(part, &item);
        }
        fn(ctx, &item);
    }
    if (code.n > 0 || why.n > 0) {
        fn(ctx, &(app_item){.kind = APP_ITEM_ERROR, .name = code, .text = why});
    }
}

/* ---- the session -----------------------------------------------------------------------------
 */

/* A page; summaries of a compaction are left out, because all that they cover is written. */
static quipu_status export_page(const app_export_format *format, void *ctx,
                                const quipu_history *page, quipu_error *error)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    dialect.key_case = QUIPU_KEYS_CAMEL;
    dialect.bytes = QUIPU_BYTES_STD;
    for (size_t i = 0; i < page->messages.count && status == QUIPU_OK; i++) {
        const quipu_message *message = quipu_message_at(page->messages, i);
        const app_tree *event = NULL;
        quipu_json json = {{NULL, 0}};

        quipu_arena_reset(&arena);
        if (message->mark == QUIPU_MARK_COMPACTION) {
            continue;
        }
        if (message->extra.text.n > 0) {
            status = quipu_message_to_event(page->messages, i, &dialect, &arena, &json, error);
        }
        if (status == QUIPU_OK && json.text.n > 0) {
            status = app_tree_read(json.text, &arena, &event);
        }
        if (status == QUIPU_OK) {
            format->message(ctx, quipu_messages_from(page->messages, i), event);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

static quipu_status export_pages(quipu_store *store, quipu_str key, const app_export_format *format,
                                 void *ctx, const quipu_call_options *within, quipu_error *error)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_status status = QUIPU_OK;
    bool begun = false;
    bool more = true;

    range.limit = EXPORT_PAGE;
    while (more && status == QUIPU_OK) {
        quipu_history *page = NULL;

        status = quipu_session_get(store, key, &range, within, &page, error);
        if (status != QUIPU_OK) {
            break;
        }
        if (!begun) {
            format->begin(ctx, page->session);
            begun = true;
        }
        status = export_page(format, ctx, page, error);
        more = page->more_after && page->messages.count > 0;
        if (more) {
            range.after_seq = quipu_message_at(page->messages, page->messages.count - 1)->seq;
        }
        quipu_free(page);
    }
    if (status == QUIPU_OK) {
        format->end(ctx);
    }
    return status;
}

quipu_status app_export_as(quipu_store *store, quipu_str key, const char *format, FILE *out,
                           const quipu_call_options *within, quipu_error *error)
{
    app_export_json json = {.json = {.out = out}};

    if (strcmp(format, "markdown") == 0) {
        return export_pages(store, key, &app_export_markdown, out, within, error);
    }
    if (strcmp(format, "html") == 0) {
        return export_pages(store, key, &app_export_html, out, within, error);
    }
    return export_pages(store, key,
                        strcmp(format, "openai") == 0 ? &app_export_openai : &app_export_otlp,
                        &json, within, error);
}
