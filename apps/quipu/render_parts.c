/* The parts and facts of an event on a screen (render_parts.h). Each is a line with a label:
 *
 *      thought   The user wants a train, so I look for one.
 *      code      python
 *        print(6 * 7)
 *      media     image/png, 1.2 KiB
 *      stopped   SAFETY
 *      used      812 tokens in (30 cached), 120 out, m-2
 *
 * What has no label of its own is shown under the name that it has in the event, so that nothing is
 * left out: `facts` below lists the members that other lines of a message show already.
 *
 * Owns: the arena of an app_parts. Called by: render.c. Locks: none. Prints through text.c only. */
#include "render_parts.h"

#include <inttypes.h>
#include <string.h>

#include <quipu/adk.h>

#include "media.h"

#define PARTS_LABEL 10     /* columns of a label */
#define PARTS_NARROW 40    /* narrower screens do not align the labels */
#define PARTS_TEXT_MAX 512 /* of a line that is put together here */

/* ---- reading ---------------------------------------------------------------------------------
 */

/* Whether a part is shown by the message's text and calls alone. */
static bool parts_is_plain(const app_tree *part)
{
    for (const app_tree *member = part->first; member != NULL; member = member->next) {
        if (quipu_str_eq(member->name, QUIPU_STR("functionResponse"))
                ? app_tree_get(member, "parts") != NULL
                : !quipu_str_eq(member->name, QUIPU_STR("text")) &&
                      !quipu_str_eq(member->name, QUIPU_STR("functionCall")) &&
                      !quipu_str_eq(member->name, QUIPU_STR("thoughtSignature"))) {
            return false;
        }
    }
    return part->kind == APP_TREE_OBJECT;
}

static const app_tree *parts_list(const app_parts *parts)
{
    const app_tree *list = app_tree_get(app_tree_get(parts->event, "content"), "parts");

    return list != NULL ? list->first : NULL;
}

/* Members that stand elsewhere: in the first line, among the parts, or in the used line. */
static bool parts_is_elsewhere(quipu_str name)
{
    static const char *const names[] = {
        "id",           "timestamp", "author",       "invocationId",  "branch", "content",
        "modelVersion", "partial",   "turnComplete", "usageMetadata", NULL};

    for (size_t i = 0; names[i] != NULL; i++) {
        if (quipu_str_eq(name, quipu_cstr(names[i]))) {
            return true;
        }
    }
    return false;
}

/* Whether an event has a fact worth a line. Objects without values, such as the actions that ADK
 * always writes, have none. */
static bool parts_has_facts(const app_tree *event)
{
    for (const app_tree *member = event->first; member != NULL; member = member->next) {
        bool empty = app_tree_is_empty(member) || parts_is_elsewhere(member->name);

        if (!empty && (quipu_str_eq(member->name, QUIPU_STR("actions")) ||
                       quipu_str_eq(member->name, QUIPU_STR("nodeInfo")))) {
            empty = true;
            for (const app_tree *one = member->first; one != NULL; one = one->next) {
                empty = empty && app_tree_is_empty(one);
            }
        }
        if (!empty) {
            return true;
        }
    }
    return false;
}

/* A message without `extra` has nothing that its columns do not show. */
void app_parts_read(quipu_messages list, app_parts *ret_parts)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_json json = {{NULL, 0}};
    quipu_error error = {0};

    *ret_parts = (app_parts){.arena = QUIPU_ARENA_INIT};
    if (quipu_message_at(list, 0)->extra.text.n == 0) {
        return;
    }
    dialect.key_case = QUIPU_KEYS_CAMEL;
    if (quipu_message_to_event(list, 0, &dialect, &ret_parts->arena, &json, &error) != QUIPU_OK ||
        app_tree_read(json.text, &ret_parts->arena, &ret_parts->event) != QUIPU_OK) {
        ret_parts->event = NULL;
        ret_parts->more = true; /* app_parts_facts() shows `extra` as it is */
        return;
    }
    for (const app_tree *part = parts_list(ret_parts); part != NULL; part = part->next) {
        ret_parts->odd = ret_parts->odd || !parts_is_plain(part);
    }
    ret_parts->more = ret_parts->odd || parts_has_facts(ret_parts->event);
}

void app_parts_free(app_parts *parts)
{
    quipu_arena_free(&parts->arena);
}

/* ---- lines -----------------------------------------------------------------------------------
 */

/* A label; returns the columns that are left. */
static int parts_label(const app_render *render, const char *margin, quipu_str label, app_look look)
{
    const int room = render->columns - (int)strlen(margin);
    int used;

    fprintf(render->out, "%s%s", margin, app_style(render->colours, look));
    used = app_put_cut(render->out, label, room / 2);
    fputs(app_style(render->colours, APP_PLAIN), render->out);
    if (used < PARTS_LABEL && render->columns >= PARTS_NARROW) {
        fprintf(render->out, "%*s", PARTS_LABEL - used, "");
        used = PARTS_LABEL;
    }
    fputc(' ', render->out);
    return room - used - 1;
}

/* A label and a value, cut to the line; with `unfold` in full. */
static void parts_line(const app_render *render, const char *margin, quipu_str label,
                       quipu_str value)
{
    const int room = parts_label(render, margin, label, APP_BLUE);

    if (render->unfold && app_width(value) > room) {
        fputc('\n', render->out);
        app_put_wrapped(render->out, value, margin, render->columns - (int)strlen(margin));
        return;
    }
    fputs(app_style(render->colours, APP_DIM), render->out);
    app_put_cut(render->out, value, room);
    fprintf(render->out, "%s\n", app_style(render->colours, APP_PLAIN));
}

/* A label and, below it, a text in full, a little further in. */
static void parts_block(const app_render *render, const char *margin, const char *label,
                        quipu_str kind, quipu_str text, app_look look)
{
    char deeper[PARTS_TEXT_MAX];
    const int room = parts_label(render, margin, quipu_cstr(label), look);

    app_put_cut(render->out, kind, room);
    fputc('\n', render->out);
    (void)snprintf(deeper, sizeof(deeper), "%s  ", margin);
    app_put_wrapped(render->out, text, deeper, render->columns - (int)strlen(deeper));
}

/* A value as a person reads it: a string without its quotes, anything else as JSON. */
static quipu_str parts_value(const app_tree *tree)
{
    return tree->kind == APP_TREE_STRING ? tree->text : tree->raw;
}

/* ---- parts -----------------------------------------------------------------------------------
 */

/* Bytes in the event, or a file elsewhere. */
static void parts_media(const app_render *render, const char *margin, const app_tree *data,
                        bool inside)
{
    const quipu_str mime = app_tree_text(data, "mimeType");
    const quipu_str name = app_tree_text(data, "displayName");
    const quipu_str uri = app_tree_text(data, "fileUri");
    char size[APP_NUMBER_SIZE] = "";
    char text[PARTS_TEXT_MAX];

    if (inside) {
        app_size_text(app_media_bytes(app_tree_text(data, "data")), size);
    }
    (void)snprintf(text, sizeof(text), "%.*s%s%s%s%.*s%s%.*s", (int)(mime.n < 100 ? mime.n : 100),
                   mime.n > 0 ? mime.p : "", mime.n > 0 && inside ? ", " : "", size,
                   name.n > 0 ? ", " : "", (int)(name.n < 100 ? name.n : 100),
                   name.n > 0 ? name.p : "", uri.n > 0 && mime.n + name.n > 0 ? ", " : "",
                   (int)(uri.n < 200 ? uri.n : 200), uri.n > 0 ? uri.p : "");
    parts_line(render, margin, inside ? QUIPU_STR("media") : QUIPU_STR("file"), quipu_cstr(text));
}

/* The members of a tool's response beside its result. */
static void parts_response_media(const app_render *render, const char *margin,
                                 const app_tree *response)
{
    const app_tree *list = app_tree_get(response, "parts");

    for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL; one = one->next) {
        const app_tree *data = app_tree_get(one, "inlineData");
        const app_tree *file = app_tree_get(one, "fileData");

        if (data != NULL || file != NULL) {
            parts_media(render, margin, data != NULL ? data : file, data != NULL);
        } else {
            parts_line(render, margin, QUIPU_STR("part"), one->raw);
        }
    }
}

/* "OUTCOME_OK" as "ok". */
static quipu_str parts_outcome(quipu_str outcome)
{
    static const char head[] = "OUTCOME_";

    if (quipu_str_eq(outcome, QUIPU_STR("OUTCOME_OK"))) {
        return QUIPU_STR("ok");
    }
    return outcome.n > sizeof(head) - 1 && memcmp(outcome.p, head, sizeof(head) - 1) == 0
               ? (quipu_str){outcome.p + sizeof(head) - 1, outcome.n - (sizeof(head) - 1)}
               : outcome;
}

/* A thought: cut to its line unless it is unfolded. A thought without text is recognized by its
 * signature. */
static void parts_thought(const app_render *render, const char *margin, quipu_str text)
{
    parts_line(render, margin, QUIPU_STR("thought"),
               text.n > 0 ? text : QUIPU_STR("(hidden by the provider)"));
}

/* The member of a part that says what it is. False: none that has a form of its own. */
static bool parts_one(const app_render *render, const char *margin, const app_tree *part)
{
    const app_tree *code = app_tree_get(part, "executableCode");
    const app_tree *result = app_tree_get(part, "codeExecutionResult");
    const app_tree *data = app_tree_get(part, "inlineData");
    const app_tree *file = app_tree_get(part, "fileData");
    const app_tree *text = app_tree_get(part, "text");

    if (code != NULL) {
        parts_block(render, margin, "code", app_tree_text(code, "language"),
                    app_tree_text(code, "code"), APP_YELLOW);
    } else if (result != NULL) {
        parts_block(render, margin, "result", parts_outcome(app_tree_text(result, "outcome")),
                    app_tree_text(result, "output"), APP_YELLOW);
    } else if (data != NULL || file != NULL) {
        parts_media(render, margin, data != NULL ? data : file, data != NULL);
    } else if (app_tree_true(part, "thought")) {
        parts_thought(render, margin, app_tree_text(part, "text"));
    } else if (text != NULL && text->kind == APP_TREE_STRING) {
        app_put_wrapped(render->out, text->text, margin, render->columns - (int)strlen(margin));
    } else {
        return false;
    }
    return true;
}

/* Calls and responses of the event stand in the message in the same order. */
void app_parts_print(app_render *render, quipu_messages list, const app_parts *parts,
                     const app_parts_how *how)
{
    size_t number = 0;

    for (const app_tree *part = parts_list(parts); part != NULL; part = part->next) {
        const app_tree *response = app_tree_get(part, "functionResponse");

        if (app_tree_get(part, "functionCall") != NULL) {
            how->call(render, list, number++);
        } else if (response != NULL) {
            if (how->answer != NULL) {
                how->answer(render, list, number);
            }
            number++;
            parts_response_media(render, how->margin, response);
        } else if (!parts_one(render, how->margin, part) &&
                   app_tree_get(part, "thoughtSignature") == NULL) {
            parts_line(render, how->margin, QUIPU_STR("part"), part->raw);
        }
    }
}

/* ---- facts -----------------------------------------------------------------------------------
 */

/* The names of an object's members, with a number behind those that have one: "plan.md 2, a 1". */
static void parts_names(const app_tree *object, char ret_text[PARTS_TEXT_MAX])
{
    size_t n = 0;

    ret_text[0] = '\0';
    for (const app_tree *one = object->first; one != NULL && n < PARTS_TEXT_MAX - 1;
         one = one->next) {
        const bool numbered = one->kind == APP_TREE_NUMBER;
        const int wrote =
            snprintf(ret_text + n, PARTS_TEXT_MAX - n, "%s%.*s%s%.*s", n > 0 ? ", " : "",
                     (int)(one->name.n < 100 ? one->name.n : 100), one->name.p, numbered ? " " : "",
                     numbered ? (int)one->raw.n : 0, one->raw.p);

        n += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* An action, under the word that people use for it. */
static void parts_action(const app_render *render, const char *margin, const app_tree *action)
{
    static const struct {
        const char *name;
        const char *label;
        bool names; /* the names of its members say it all */
    } known[] = {{"transferToAgent", "hands to", false},
                 {"transferReason", "because", false},
                 {"stateDelta", "state", false},
                 {"artifactDelta", "artifacts", true},
                 {"requestedAuthConfigs", "asks login", true},
                 {"requestedToolConfirmations", "asks leave", true},
                 {"escalate", "escalates", false},
                 {"endOfAgent", "agent ends", false},
                 {"skipSummarization", "no summary", false},
                 {"rewindBeforeInvocationId", "rewinds", false},
                 {"agentState", "agent", false}};
    quipu_str label = action->name;
    char text[PARTS_TEXT_MAX];
    bool names = false;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (quipu_str_eq(action->name, quipu_cstr(known[i].name))) {
            label = quipu_cstr(known[i].label);
            names = known[i].names;
        }
    }
    if (names) {
        parts_names(action, text); /* what these hold may be secret: credentials */
    }
    parts_line(render, margin, label,
               names                           ? quipu_cstr(text)
               : action->kind == APP_TREE_TRUE ? QUIPU_STR("yes")
                                               : parts_value(action));
}

/* A line where there is a value. */
static void parts_line_if(const app_render *render, const char *margin, quipu_str label,
                          quipu_str value)
{
    if (value.n > 0) {
        parts_line(render, margin, label, value);
    }
}

/* The numbers of the session's columns, or of the event; and the model that answered. */
static void parts_used(const app_render *render, const quipu_message *message,
                       const app_parts *parts, const char *margin)
{
    const app_tree *usage = app_tree_get(parts->event, "usageMetadata");
    const int64_t in = app_tree_int(usage, "promptTokenCount", message->prompt_tokens);
    const int64_t cached = app_tree_int(usage, "cachedContentTokenCount", message->cached_tokens);
    const int64_t out = app_tree_int(usage, "candidatesTokenCount", message->answer_tokens);
    const int64_t thoughts = app_tree_int(usage, "thoughtsTokenCount", 0);
    char text[PARTS_TEXT_MAX];
    int n;

    if (in <= 0 && out <= 0) {
        parts_line_if(render, margin, QUIPU_STR("model"),
                      message->model.n > 0 ? message->model
                                           : app_tree_text(parts->event, "modelVersion"));
        return;
    }
    n = snprintf(text, sizeof(text), "%" PRId64 " tokens in", in);
    if (cached > 0) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, " (%" PRId64 " cached)", cached);
    }
    n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRId64 " out", out);
    if (thoughts > 0) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRId64 " of thoughts", thoughts);
    }
    if (message->model.n > 0) {
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ", %.*s", (int)message->model.n,
                       message->model.p);
    }
    parts_line(render, margin, QUIPU_STR("used"), quipu_cstr(text));
}

/* An error in full: it is why the answer is missing. */
static void parts_error(const app_render *render, const char *margin, const app_tree *event)
{
    const quipu_str code = app_tree_text(event, "errorCode");
    const quipu_str message = app_tree_text(event, "errorMessage");

    if (code.n > 0 || message.n > 0) {
        parts_block(render, margin, "error", code, message, APP_RED);
    }
}

/* quipu's own members of customMetadata are not shown, except the messages that were recalled. */
static void parts_metadata(const app_render *render, const char *margin, const app_tree *metadata)
{
    for (const app_tree *one = metadata->first; one != NULL; one = one->next) {
        const app_tree *seqs = app_tree_get(one, "seqs");

        if (quipu_str_eq(one->name, QUIPU_STR("quipuRecall")) && seqs != NULL) {
            parts_line(render, margin, QUIPU_STR("recalled"), seqs->raw);
        } else if (!quipu_str_eq(one->name, QUIPU_STR("quipuRedacted"))) {
            parts_line(render, margin, one->name, parts_value(one));
        }
    }
}

/* The labels of facts that are shown as they are. */
static quipu_str parts_fact_label(quipu_str name)
{
    static const char *const labels[][2] = {
        {"inputTranscription", "heard"},     {"outputTranscription", "spoken"},
        {"longRunningToolIds", "waits for"}, {"groundingMetadata", "grounding"},
        {"citationMetadata", "citations"},   {"avgLogprobs", "logprobs"},
        {"isolationScope", "scope"},         {"finishReason", "stopped"},
        {"interrupted", "stopped"},          {"nodeInfo", "node"},
    };

    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        if (quipu_str_eq(name, quipu_cstr(labels[i][0]))) {
            return quipu_cstr(labels[i][1]);
        }
    }
    return name;
}

/* Any other member of the event. The usual reason to stop, and a node without a path, are left
 * out. */
static void parts_fact(const app_render *render, const char *margin, const app_tree *fact)
{
    const quipu_str said = app_tree_text(fact, "text");
    const quipu_str path = app_tree_text(fact, "path");
    const bool node = quipu_str_eq(fact->name, QUIPU_STR("nodeInfo"));
    quipu_str value = parts_value(fact);

    if (quipu_str_eq(fact->name, QUIPU_STR("customMetadata"))) {
        parts_metadata(render, margin, fact);
        return;
    }
    if (quipu_str_eq(fact->name, QUIPU_STR("errorCode")) ||
        quipu_str_eq(fact->name, QUIPU_STR("errorMessage")) ||
        (quipu_str_eq(fact->name, QUIPU_STR("finishReason")) &&
         quipu_str_eq(fact->text, QUIPU_STR("STOP"))) ||
        (node && fact->count == 1 && path.n == 0)) {
        return;
    }
    if (node && fact->count == 1) {
        value = path;
    } else if (quipu_str_eq(fact->name, QUIPU_STR("interrupted"))) {
        value = QUIPU_STR("interrupted");
    } else if (said.p != NULL) {
        value = said; /* of a transcription */
    }
    parts_line(render, margin, parts_fact_label(fact->name), value);
}

void app_parts_facts(app_render *render, const quipu_message *message, const app_parts *parts,
                     const char *margin)
{
    const app_tree *event = parts->event;
    const app_tree *actions = app_tree_get(event, "actions");

    if (event == NULL && parts->more) {
        parts_line(render, margin, QUIPU_STR("extra"), message->extra.text);
    }
    parts_error(render, margin, event);
    for (const app_tree *one = actions != NULL ? actions->first : NULL; one != NULL;
         one = one->next) {
        if (!app_tree_is_empty(one)) {
            parts_action(render, margin, one);
        }
    }
    for (const app_tree *one = event != NULL ? event->first : NULL; one != NULL; one = one->next) {
        if (one != actions && !app_tree_is_empty(one) && !parts_is_elsewhere(one->name)) {
            parts_fact(render, margin, one);
        }
    }
    parts_line_if(render, margin, QUIPU_STR("branch"), message->branch);
    parts_used(render, message, parts, margin);
}
