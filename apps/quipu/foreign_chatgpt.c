/* ChatGPT's export, conversations.json (foreign.h): a list of conversations, each a tree of
 * messages
 *
 *   {"title", "conversation_id", "current_node": "c", "mapping": {"c": {"parent": "b"}}}
 *
 * of which the branch that ends at "current_node" is what the person sees; it is imported, and
 * other branches are counted. Called by: foreign.c. Owns nothing: nodes lie in the file's tree. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"

/* The nodes of a conversation, by number and by name. */
typedef struct chatgpt_map {
    const app_tree **nodes;  /* in the order of the file */
    const app_tree **branch; /* filled by chatgpt_walk(), oldest first */
    size_t count;            /* of the branch */
    app_names names;
} chatgpt_map;

/* False: no memory. The last of equal names counts, as everywhere. */
static bool chatgpt_map_fill(chatgpt_map *map, const app_tree *mapping)
{
    size_t n = 0;

    map->nodes = malloc((mapping->count + 1) * sizeof(const app_tree *));
    map->branch = malloc((mapping->count + 1) * sizeof(const app_tree *));
    if (map->nodes == NULL || map->branch == NULL) {
        return false;
    }
    for (const app_tree *one = mapping->first; one != NULL; one = one->next) {
        map->nodes[n] = one;
        if (!app_names_put(&map->names, one->name, n++)) {
            return false;
        }
    }
    return true;
}

static void chatgpt_map_free(chatgpt_map *map)
{
    free(map->nodes);
    free(map->branch);
    app_names_free(&map->names);
}

/* From the node that was shown last to the first one. False: reported. */
static bool chatgpt_walk(app_foreign *foreign, const app_tree *talk, chatgpt_map *map)
{
    const app_tree *mapping = app_tree_get(talk, "mapping");
    const quipu_str title = app_tree_text(talk, "title");
    quipu_str at = app_tree_text(talk, "current_node");

    if (at.n == 0 && mapping->count > 0) { /* older files: the last node */
        at = map->nodes[mapping->count - 1]->name;
    }
    while (at.n > 0) {
        const size_t found = app_names_get(&map->names, at);

        if (found == APP_NAMES_NONE || map->count == mapping->count) {
            app_foreign_fail(foreign, "the conversation \"%.*s\" %s",
                             (int)(title.n < 80 ? title.n : 80), title.n > 0 ? title.p : "",
                             found == APP_NAMES_NONE ? "names a message that it does not have"
                                                     : "has a cycle in its \"mapping\"");
            return false;
        }
        map->branch[map->count++] = map->nodes[found];
        at = app_tree_text(map->nodes[found], "parent");
    }
    for (size_t i = 0; i < map->count / 2; i++) {
        const app_tree *node = map->branch[i];

        map->branch[i] = map->branch[map->count - 1 - i];
        map->branch[map->count - 1 - i] = node;
    }
    return true;
}

/* A list of texts and of pointers to files that the export has beside it. */
static void chatgpt_parts(app_foreign_writer *writer, const app_tree *parts)
{
    for (const app_tree *one = parts != NULL ? parts->first : NULL; one != NULL; one = one->next) {
        const quipu_str file = app_tree_text(one, "asset_pointer");

        if (one->kind == APP_TREE_STRING) {
            app_foreign_text(writer, one->text, false);
        } else if (file.n > 0) {
            app_foreign_media(writer, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, file);
        } else {
            app_foreign_text(writer, one->raw, false);
        }
    }
}

/* Code that ran, and what it printed, as ADK writes them. */
static void chatgpt_code(app_foreign_writer *writer, const app_tree *content, bool result)
{
    app_json *json = &writer->json;

    app_json_open(json, NULL, '{');
    app_json_open(json, result ? "codeExecutionResult" : "executableCode", '{');
    if (result) {
        app_json_cstr(json, "outcome", "OUTCOME_OK");
        app_json_text(json, "output", app_tree_text(content, "text"));
    } else {
        app_json_text(json, "language",
                      quipu_str_eq(app_tree_text(content, "language"), QUIPU_STR("python"))
                          ? QUIPU_STR("PYTHON")
                          : QUIPU_STR("LANGUAGE_UNSPECIFIED"));
        app_json_text(json, "code", app_tree_text(content, "text"));
    }
    app_json_close(json, '}');
    app_json_close(json, '}');
    writer->parts++;
}

static void chatgpt_content(app_foreign_writer *writer, const app_tree *content)
{
    const quipu_str type = app_tree_text(content, "content_type");
    const app_tree *thoughts = app_tree_get(content, "thoughts");

    if (quipu_str_eq(type, QUIPU_STR("code"))) {
        chatgpt_code(writer, content, false);
    } else if (quipu_str_eq(type, QUIPU_STR("execution_output"))) {
        chatgpt_code(writer, content, true);
    } else if (thoughts != NULL) {
        for (const app_tree *one = thoughts->first; one != NULL; one = one->next) {
            app_foreign_text(writer, app_tree_text(one, "content"), true);
        }
    } else if (app_tree_get(content, "parts") != NULL) {
        chatgpt_parts(writer, app_tree_get(content, "parts"));
    } else if (app_tree_text(content, "text").n > 0) {
        app_foreign_text(writer, app_tree_text(content, "text"), false);
    } else {
        app_foreign_text(writer, app_tree_text(content, "content"), true);
    }
}

/* One node; the root has no message. */
static void chatgpt_node(app_foreign *foreign, app_foreign_session *session, const app_tree *node)
{
    const app_tree *message = app_tree_get(node, "message");
    const quipu_str role = app_tree_text(app_tree_get(message, "author"), "role");
    const app_tree *metadata = app_tree_get(message, "metadata");
    const quipu_str model = app_tree_text(metadata, "model_slug");
    app_foreign_writer writer;

    if (message == NULL || message->kind != APP_TREE_OBJECT ||
        app_tree_true(metadata, "is_visually_hidden_from_conversation")) {
        foreign->left_out++;
        return;
    }
    const bool user = quipu_str_eq(role, QUIPU_STR("user"));
    const bool system = quipu_str_eq(role, QUIPU_STR("system"));
    const app_foreign_said said = {.id = app_tree_text(message, "id"),
                                   .role = user     ? "user"
                                           : system ? "system"
                                                    : "model",
                                   .author = app_tree_text(app_tree_get(message, "author"), "name"),
                                   .time = app_tree_get(message, "create_time"),
                                   .model = model};

    if (model.n > 0) {
        session->model = model; /* it lies in the file's tree */
    }
    if (app_foreign_begin(foreign, session, &said, &writer)) {
        chatgpt_content(&writer, app_tree_get(message, "content"));
        app_foreign_end(&writer);
    }
}

static void chatgpt_talk(app_foreign *foreign, const app_tree *talk)
{
    const app_tree *mapping = app_tree_get(talk, "mapping");
    quipu_str id = app_tree_text(talk, "conversation_id");
    app_foreign_session *session;
    chatgpt_map map = {.count = 0};

    id = id.n > 0 ? id : app_tree_text(talk, "id");
    if (mapping == NULL || mapping->kind != APP_TREE_OBJECT || id.n == 0) {
        app_foreign_fail(foreign, "a conversation has no \"mapping\" or no id: this is not "
                                  "ChatGPT's conversations.json");
        return;
    }
    session = app_foreign_session_of(foreign, id);
    if (session == NULL) {
        return;
    }
    if (!chatgpt_map_fill(&map, mapping)) {
        app_foreign_fail(foreign, "out of memory");
    } else if (chatgpt_walk(foreign, talk, &map)) {
        assert(map.count <= mapping->count);
        session->title = app_tree_text(talk, "title");
        for (size_t i = 0; i < map.count && !foreign->failed; i++) {
            chatgpt_node(foreign, session, map.branch[i]);
        }
        foreign->left_out += (int64_t)(mapping->count - map.count);
    }
    chatgpt_map_free(&map);
}

void app_foreign_chatgpt(app_foreign *foreign, const app_tree *root)
{
    if (root->kind == APP_TREE_OBJECT) {
        chatgpt_talk(foreign, root);
        return;
    }
    for (const app_tree *one = root->first; one != NULL && !foreign->failed; one = one->next) {
        chatgpt_talk(foreign, one);
    }
}
