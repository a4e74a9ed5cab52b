/* Members of a session's metadata (tags.h). Pure functions over JSON text; called by cmd_ls.c,
 * cmd_set.c and cmd_chat.c. Members that are not changed keep their bytes. */
#include "tags.h"

#include <stdlib.h>

#include "tree.h"

static bool tags_is(const app_tree *value, quipu_str tag)
{
    return value != NULL && value->kind == APP_TREE_STRING && quipu_str_eq(value->text, tag);
}

bool app_tags_have(quipu_json metadata, quipu_str tag, quipu_arena *arena)
{
    const app_tree *root = NULL;
    const app_tree *list;

    quipu_arena_reset(arena);
    if (metadata.text.n == 0 || app_tree_read(metadata.text, arena, &root) != QUIPU_OK) {
        return false;
    }
    if (tags_is(app_tree_get(root, "tag"), tag)) {
        return true;
    }
    list = app_tree_get(root, "tags");
    for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL; one = one->next) {
        if (tags_is(one, tag)) {
            return true;
        }
    }
    return false;
}

/* The list with the change, as a member of the open object; nothing when it is empty. */
static void tags_write(app_json *json, const app_tree *list, quipu_str add, quipu_str remove)
{
    bool begun = false;
    bool there = false;

    for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL; one = one->next) {
        if (remove.p != NULL && tags_is(one, remove)) {
            continue;
        }
        if (!begun) {
            app_json_open(json, "tags", '[');
            begun = true;
        }
        there = there || (add.p != NULL && tags_is(one, add));
        app_json_raw(json, NULL, one->raw);
    }
    if (add.p != NULL && !there) {
        if (!begun) {
            app_json_open(json, "tags", '[');
            begun = true;
        }
        app_json_text(json, NULL, add);
    }
    if (begun) {
        app_json_close(json, ']');
    }
}

/* The object, with every other member as it was. */
static void tags_write_all(app_json *json, const app_tree *root, quipu_str add, quipu_str remove)
{
    app_json_open(json, NULL, '{');
    for (const app_tree *one = root != NULL ? root->first : NULL; one != NULL; one = one->next) {
        const bool single =
            quipu_str_eq(one->name, QUIPU_STR("tag")) && remove.p != NULL && tags_is(one, remove);

        if (!single && !quipu_str_eq(one->name, QUIPU_STR("tags"))) {
            app_json_member(json, one->name, one->raw);
        }
    }
    tags_write(json, app_tree_get(root, "tags"), add, remove);
    app_json_close(json, '}');
}

/* The metadata as a tree; *ret_root is NULL when there is none. */
static quipu_status tags_read(quipu_json metadata, quipu_arena *arena, const app_tree **ret_root)
{
    const quipu_status status =
        metadata.text.n > 0 ? app_tree_read(metadata.text, arena, ret_root) : QUIPU_OK;

    return status == QUIPU_OK && *ret_root != NULL && (*ret_root)->kind != APP_TREE_OBJECT
               ? QUIPU_INVALID
               : status;
}

/* The metadata as a tree, and a stream in memory for what it becomes: all JSON of this program is
 * written through a stream. tags_keep() ends it. */
static quipu_status tags_open(quipu_json metadata, quipu_arena *arena, const app_tree **ret_root,
                              char **ret_text, size_t *ret_n, FILE **ret_out)
{
    const quipu_status status = tags_read(metadata, arena, ret_root);

    if (status != QUIPU_OK) {
        return status;
    }
    *ret_out = open_memstream(ret_text, ret_n);
    return *ret_out != NULL ? QUIPU_OK : QUIPU_NOMEM;
}

/* Ends a stream in memory and copies what was written; nothing of an object without members. */
static quipu_status tags_keep(FILE *out, char **text, const size_t *n, quipu_arena *arena,
                              quipu_json *ret_metadata)
{
    quipu_status status = fclose(out) == 0 ? QUIPU_OK : QUIPU_NOMEM;

    if (status == QUIPU_OK && *n > sizeof("{}")) { /* and a line end: there is a member */
        status = quipu_arena_copy(arena, (quipu_str){*text, *n - 1}, &ret_metadata->text);
    } else if (status == QUIPU_OK) {
        *ret_metadata = (quipu_json){{NULL, 0}};
    }
    free(*text);
    return status;
}

quipu_status app_tags_change(quipu_json metadata, quipu_str add, quipu_str remove,
                             quipu_arena *arena, quipu_json *ret_metadata)
{
    const app_tree *root = NULL;
    app_json json = {.out = NULL};
    char *text = NULL;
    size_t n = 0;
    const quipu_status status = tags_open(metadata, arena, &root, &text, &n, &json.out);

    if (status != QUIPU_OK) {
        return status;
    }
    tags_write_all(&json, root, add, remove);
    return tags_keep(json.out, &text, &n, arena, ret_metadata);
}

quipu_status app_metadata_put(quipu_json metadata, const char *name, quipu_str value,
                              quipu_arena *arena, quipu_json *ret_metadata)
{
    const app_tree *root = NULL;
    app_json json = {.out = NULL};
    char *text = NULL;
    size_t n = 0;
    const quipu_status status = tags_open(metadata, arena, &root, &text, &n, &json.out);

    if (status != QUIPU_OK) {
        return status;
    }
    app_json_open(&json, NULL, '{');
    for (const app_tree *one = root != NULL ? root->first : NULL; one != NULL; one = one->next) {
        if (!quipu_str_eq(one->name, quipu_cstr(name))) {
            app_json_member(&json, one->name, one->raw);
        }
    }
    if (value.n > 0) {
        app_json_text(&json, name, value);
    }
    app_json_close(&json, '}');
    return tags_keep(json.out, &text, &n, arena, ret_metadata);
}
