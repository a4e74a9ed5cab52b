/* Members of a session's metadata. Tags are the member "tags", a list of texts; or "tag", one
 * text. */
#ifndef APPS_QUIPU_TAGS_H
#define APPS_QUIPU_TAGS_H

#include "app.h"

#define APP_TAG_MAX 256 /* bytes of a tag that this program writes */

/* Whether a session's metadata has a tag. `arena` is scratch memory and is reset. */
bool app_tags_have(quipu_json metadata, quipu_str tag, quipu_arena *arena);

/* The metadata with a tag added and another one removed; either may be absent. *ret_metadata is
 * absent when it would be empty. QUIPU_INVALID: the metadata is not an object. */
QUIPU_MUST_USE quipu_status app_tags_change(quipu_json metadata, quipu_str add, quipu_str remove,
                                            quipu_arena *arena, quipu_json *ret_metadata);

/* The metadata with a member of this text; an empty text removes it. *ret_metadata is absent when
 * it would be empty. QUIPU_INVALID: the metadata is not an object. */
QUIPU_MUST_USE quipu_status app_metadata_put(quipu_json metadata, const char *name, quipu_str text,
                                             quipu_arena *arena, quipu_json *ret_metadata);

#endif
