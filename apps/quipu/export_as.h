/* A session in a format of other programs: Markdown, HTML, OpenAI's chat JSON, OTLP. For export. */
#ifndef APPS_QUIPU_EXPORT_AS_H
#define APPS_QUIPU_EXPORT_AS_H

#include "app.h"
#include "tree.h"

#define APP_EXPORT_FORMATS "quipu markdown html openai otlp"

/* Writes a session in a format of APP_EXPORT_FORMATS but the first. A stream that cannot be written
 * keeps its error for the caller. */
QUIPU_MUST_USE quipu_status app_export_as(quipu_store *store, quipu_str key, const char *format,
                                          FILE *out, const quipu_call_options *within,
                                          quipu_error *error);

/* ---- for the formats --------------------------------------------------------------------------
 */

typedef enum app_item_kind {
    APP_ITEM_TEXT = 1,
    APP_ITEM_THOUGHT,
    APP_ITEM_CALL,     /* id, name; text: the arguments */
    APP_ITEM_RESPONSE, /* id, name; text: the result */
    APP_ITEM_CODE,     /* name: the language */
    APP_ITEM_RESULT,   /* of code; name: how it ended */
    APP_ITEM_MEDIA,    /* name: the type; text: base64 */
    APP_ITEM_FILE,     /* name: the type; text: the URI */
    APP_ITEM_OTHER,    /* text: a part that has no kind here, as JSON */
    APP_ITEM_ERROR     /* name: the code */
} app_item_kind;

/* One thing in a message. */
typedef struct app_item {
    app_item_kind kind;
    quipu_str id;
    quipu_str name;
    quipu_str text;
} app_item;

typedef void (*app_item_fn)(void *ctx, const app_item *item);

/* A format: what it writes before, for, and behind the messages. */
typedef struct app_export_format {
    void (*begin)(void *ctx, const quipu_session_info *session);
    void (*message)(void *ctx, quipu_messages list, const app_tree *event); /* list[0] */
    void (*end)(void *ctx);
} app_export_format;

/* Everything that is in a message, in its order. `event` is NULL when it has no extra. */
void app_items(const quipu_message *message, const app_tree *event, app_item_fn fn, void *ctx);

/* export_text.c and export_json.c; `ctx` is a FILE for the first two, an app_export_json for the
 * others. */
extern const app_export_format app_export_markdown;
extern const app_export_format app_export_html;
extern const app_export_format app_export_openai;
extern const app_export_format app_export_otlp;

#define APP_EXPORT_NAME_MAX (QUIPU_MODEL_NAME_MAX + 1)

/* The state that the two formats of JSON keep from message to message. */
typedef struct app_export_json {
    app_json json;
    quipu_uuid uid; /* of the session */
    char key[QUIPU_KEY_MAX + 1];
    char model[APP_EXPORT_NAME_MAX];
    uint64_t turn; /* the number of the message that began the turn */
    quipu_time before;
} app_export_json;

#endif
