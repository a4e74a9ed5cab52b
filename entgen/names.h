/* Names that are made from other names, words that cannot be names, and a table of taken ones. */
#ifndef ENTGEN_NAMES_H
#define ENTGEN_NAMES_H

#include "entgen/model.h"

const char *eg_snake(eg_run *run, const char *entity); /* ToolCall -> tool_call */
const char *eg_plural(eg_run *run, const char *snake); /* history -> histories */
const char *eg_upper(eg_run *run, const char *snake);  /* tool_call -> TOOL_CALL */

/* A SQL name of at most EG_SQL_NAME_MAX bytes: a longer one is cut and gets a hash at its end. */
const char *eg_sql_name(eg_run *run, const char *name);

bool eg_is_keyword(const char *word);     /* of C or C++ */
bool eg_is_reserved(const char *word);    /* as a field or edge: generated structs use it */
bool eg_is_parameter(const char *word);   /* as an entity: generated functions use it */
bool eg_is_engine_name(const char *text); /* as a table or index: the engine or runtime has it */

/* Names that were taken, with where. */
typedef struct eg_names {
    struct eg_claim *slots;
    size_t n;
    size_t cap;
    bool fold; /* capitals count as small letters, as in SQL */
} eg_names;

/* Take a name; the place of the one that has it already, or NULL when it was free. */
const eg_name *eg_names_claim(eg_run *run, eg_names *names, const char *text, eg_name owner);

#endif
