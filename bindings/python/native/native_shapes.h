/* How native_shapes.c describes structs that the library does not list. */
#ifndef QPY_NATIVE_SHAPES_H
#define QPY_NATIVE_SHAPES_H

#include "native_job.h"

/* Members of C that Python sees as text and bytes: an array of char that ends with NUL, and one of
 * uint8_t. */
enum { SHAPE_CHARS = 64, SHAPE_HASH };

/* Enums that several tables have. */
#define QPY_MEMORY_KINDS "|observation|reflection"
#define QPY_ARTIFACT_KINDS "|data|text|uri"

/* By the number of a shape; those that the library lists are empty. */
extern const qpy_shape qpy_shapes[QPY_SHAPES];

#endif
