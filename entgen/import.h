/* A schema from an existing SQLite file. */
#ifndef ENTGEN_IMPORT_H
#define ENTGEN_IMPORT_H

#include "entgen/model.h"

/* Append the .ent text of a file's tables; the file is opened for reading only and not changed.
 * Comments say what .ent cannot express. The text has been parsed and checked. False, with an error
 * in the run. */
bool eg_import(eg_run *run, const char *path, qp_buf *out);

#endif
