/* From the checked model to the descriptors of ent.h, as the generated .c file will hold them. */
#ifndef ENTGEN_DESCRIBE_H
#define ENTGEN_DESCRIBE_H

#include "entgen/model.h"

/* Descriptors in the run's arena, without the offsets, which only the C compiler knows. Sets
 * schema->hash and schema->described. */
void eg_describe(eg_run *run, eg_schema *schema);

#endif
