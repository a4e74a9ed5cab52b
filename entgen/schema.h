/* From files to a checked schema, and from a schema to files. */
#ifndef ENTGEN_SCHEMA_H
#define ENTGEN_SCHEMA_H

#include "entgen/model.h"

/* An empty schema with its default settings. */
void eg_schema_init(eg_schema *schema);

/* A file's name without folder and ending, with _ for what no C name can hold. */
const char *eg_stem(eg_run *run, const char *path);

/* After parsing: check, and name the schema after `file` when no block names it. False when the run
 * has errors. */
bool eg_schema_finish(eg_run *run, eg_schema *schema, const char *file);

/* Parse and check all files. False when the run has errors. */
bool eg_schema_load(eg_run *run, eg_schema *schema, const char *const *files, size_t n);

/* Read a whole file; false, with an error in the run. */
bool eg_file_read(eg_run *run, const char *path, qp_buf *ret);

/* Whether a file has exactly this content; a missing one has not. */
bool eg_file_same(eg_run *run, const char *path, quipu_str text);

/* Replace a file: written beside it, synced, renamed over it; untouched when it is the same. */
bool eg_file_write(eg_run *run, const char *path, quipu_str text);

#endif
