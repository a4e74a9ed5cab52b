/* Reading .ent text into the model. */
#ifndef ENTGEN_PARSE_H
#define ENTGEN_PARSE_H

#include "entgen/model.h"

/* Add the entities of one file to the schema. `file` is the name that errors show; it is copied.
 * Errors go to the run; parsing goes on behind them. The text is borrowed for the call. */
void eg_parse(eg_run *run, eg_schema *schema, const char *file, quipu_str text);

#endif
