/* Memory and error reports of one run of the generator. */
#ifndef ENTGEN_RUN_H
#define ENTGEN_RUN_H

#include "entgen/model.h"

void eg_run_init(eg_run *run);
void eg_run_free(eg_run *run); /* NULL is fine */

/* Zeroed memory of the run's arena. entgen is a short-lived program: without memory it says so and
 * exits with status 1. */
void *eg_alloc(eg_run *run, size_t size);
void eg_list_add(eg_run *run, eg_list *list, void *item);
const char *eg_copy(eg_run *run, quipu_str text);
const char *eg_format(eg_run *run, const char *format, ...) QUIPU_PRINTF(2, 3);

/* Report an error at a place: "file:line:col: error: ...". Past EG_ERRORS_MAX they only count. */
void eg_error(eg_run *run, eg_pos pos, const char *format, ...) QUIPU_PRINTF(3, 4);

/* Report an error about a file or the whole run, without a place. */
void eg_error_file(eg_run *run, const char *file, const char *format, ...) QUIPU_PRINTF(3, 4);

/* "; did you mean 'x'?" for the nearest of `n` words, or "" when none is near. */
const char *eg_suggest(eg_run *run, const char *word, const char *const *words, size_t n);

/* Where a place is, for a second place inside a message: "a.ent:3". */
const char *eg_where(eg_run *run, eg_pos pos);

#endif
