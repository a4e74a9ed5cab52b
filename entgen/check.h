/* Everything that must hold before code is written. */
#ifndef ENTGEN_CHECK_H
#define ENTGEN_CHECK_H

#include "entgen/model.h"

/* Resolve names, add what is implied, check every rule. Call it once, after all files were parsed
 * without an error; afterwards the model is complete, or the run has errors. */
void eg_check(eg_run *run, eg_schema *schema);

/* The steps, in their files. */
void eg_check_field(eg_run *run, const eg_entity *entity, eg_field *field); /* check_field.c */
void eg_check_edges(eg_run *run, eg_schema *schema);                        /* check_edge.c */
void eg_check_indexes(eg_run *run, eg_entity *entity);                      /* check_index.c */
void eg_check_shards(eg_run *run, const eg_schema *schema);                 /* check_shard.c */
void eg_check_views(eg_run *run, const eg_schema *schema);                  /* check_view.c */
void eg_check_claims(eg_run *run, const eg_schema *schema);                 /* check_names.c */

/* Whether the key is one field called `id`. */
bool eg_key_is_id(const eg_entity *entity);

/* The field of this name, or the foreign key of the edge of this name; NULL. */
eg_field *eg_find_field(const eg_entity *entity, const char *name);

/* The same, reporting a name that is not there with a suggestion. */
eg_field *eg_need_field(eg_run *run, const eg_entity *entity, const eg_name *name);

#endif
