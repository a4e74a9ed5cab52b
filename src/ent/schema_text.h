/* A schema as canonical .ent text: the same descriptors always give the same bytes, and entgen
 * reads them back as the same schema. Its hash names the schema; the migration journal keeps the
 * text. */
#ifndef QP_ENT_SCHEMA_TEXT_H
#define QP_ENT_SCHEMA_TEXT_H

#include <ent/ent.h>

#include "base/buf.h"

#define QP_SCHEMA_HASH_SIZE 17 /* 16 hex digits and the NUL */

/* Append the text of a schema. Errors: those of the buffer. */
quipu_status qp_schema_text(const ent_schema *schema, bool shards, qp_buf *out);

/* The first 16 hex digits of SHA-256 over a text. */
void qp_schema_hash(quipu_str text, char ret_hash[QP_SCHEMA_HASH_SIZE]);

/* A text as a string literal of .ent files and of C; characters in `also` get a backslash too. */
void qp_schema_quoted(qp_buf *out, const char *text, const char *also);

#endif
