/* The outputs: generated C, the JSON dump, the diagram. All are pure functions of the checked
 * model: the same schema gives the same bytes. Errors stick in the buffer. */
#ifndef ENTGEN_EMIT_H
#define ENTGEN_EMIT_H

#include "entgen/model.h"

#define EG_COLUMNS 100 /* the width of generated lines */

void eg_emit_header(eg_run *run, const eg_schema *schema, qp_buf *out);
void eg_emit_source(eg_run *run, const eg_schema *schema, qp_buf *out);
void eg_emit_json(eg_run *run, const eg_schema *schema, qp_buf *out);
void eg_emit_mermaid(eg_run *run, const eg_schema *schema, qp_buf *out);
void eg_emit_python(eg_run *run, const eg_schema *schema, qp_buf *out); /* emit_bindings.c */
void eg_emit_go(eg_run *run, const eg_schema *schema, qp_buf *out);
void eg_emit_sql(eg_run *run, const eg_schema *schema, qp_buf *out);

/* ---- shared by the emitters (emit.c) -----------------------------------------------------------
 */

/* The first lines of a generated file. */
void eg_put_banner(const eg_run *run, const eg_schema *schema, const char *what, qp_buf *out);

/* One logical line, broken at spaces outside of string literals to fit EG_COLUMNS. Text behind a
 * break is indented by `indent`. */
void eg_put_wrapped(qp_buf *out, const char *line, size_t indent);

/* A template, wrapped, in which each '$' stands for `name`. */
void eg_put_template(qp_buf *out, const char *text, const char *name);

/* Text as a C string literal, and as what may stand inside a comment. */
void eg_put_c_string(qp_buf *out, const char *text);
void eg_put_comment(qp_buf *out, const char *text);

/* "int64_t", "ent_opt_int", "message_role"...: a field's C type in a row, and in X_new. */
const char *eg_row_type(eg_run *run, const eg_entity *entity, const eg_field *field);
const char *eg_new_type(eg_run *run, const eg_entity *entity, const eg_field *field);

/* The same for a member that is always there. */
const char *eg_plain_type(eg_run *run, const eg_entity *entity, const eg_field *field);

/* "int", "text", "time"...: the type's name inside ent_where_*, ent_patch_* and ent_opt_*. */
const char *eg_kind_name(const eg_field *field);

/* The .ent type: "string", "enum"... */
const char *eg_type_name(const eg_field *field);

/* Whether X_patch has a member at all. */
bool eg_has_patch(const eg_entity *entity);

#endif
