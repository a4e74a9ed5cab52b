/* JSON that the program reads: a text as a tree of values in an arena. The public headers write
 * JSON and have no reader. For show, diff, feed and the exports. */
#ifndef APPS_QUIPU_TREE_H
#define APPS_QUIPU_TREE_H

#include <quipu/store.h>

#define APP_TREE_DEPTH_MAX 1024 /* arrays and objects inside each other */
#define APP_TREE_NUMBER_SIZE 32 /* a whole number as text, with its NUL */

typedef enum app_tree_kind {
    APP_TREE_NULL = 1,
    APP_TREE_FALSE,
    APP_TREE_TRUE,
    APP_TREE_NUMBER,
    APP_TREE_STRING,
    APP_TREE_ARRAY,
    APP_TREE_OBJECT
} app_tree_kind;

/* A value. Numbers keep their spelling in `raw`. */
typedef struct app_tree {
    app_tree_kind kind;
    quipu_str name; /* of a member, without escapes */
    quipu_str raw;  /* as it stands in the source, with quotes and brackets */
    quipu_str text; /* STRING: without escapes; may contain U+0000 */
    struct app_tree *up;
    const struct app_tree *first; /* ARRAY, OBJECT: in the order of the source... */
    const struct app_tree *next;
    size_t count; /* ...and how many */
} app_tree;

/* Reads one JSON value. The tree lies in the arena and points into the source. QUIPU_INVALID (it is
 * not JSON), QUIPU_LIMIT (nested too deeply), QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status app_tree_read(quipu_str json, quipu_arena *arena,
                                          const app_tree **ret_tree);

/* A member; NULL when it is missing, or the value is not an object. */
const app_tree *app_tree_get(const app_tree *object, const char *name);

/* A member's text; absent when it is not a string. */
quipu_str app_tree_text(const app_tree *object, const char *name);

/* A member's whole number; `otherwise` when it is not one. */
int64_t app_tree_int(const app_tree *object, const char *name, int64_t otherwise);

/* Whether a member is true. */
bool app_tree_true(const app_tree *object, const char *name);

/* Whether a value is empty: missing, or null, false, "", [] or {}. */
bool app_tree_is_empty(const app_tree *tree);

#endif
