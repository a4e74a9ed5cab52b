/* What the tests of entgen share: schemas from text, running the program and the compilers. */
#ifndef T_ENTGEN_H
#define T_ENTGEN_H

#include "lib/t.h"

#include "entgen/model.h"

/* Parse and check a text as the file "t.ent". The errors are in run->errors; end with
 * eg_run_free(). */
bool t_load(eg_run *run, eg_schema *schema, quipu_str text);

/* Assert that a text is a good schema, or that its errors are exactly these lines. */
void t_good(const char *text);
void t_bad(const char *text, const char *errors);

/* Run a program (argv ends with NULL) and give its exit status; what it wrote is returned in
 * malloc'ed text where asked for. */
int t_spawn(const char *const *argv, char **ret_out, char **ret_err);

/* The program under test. */
const char *t_entgen(void);

/* Whether a program can be started at all; prints "SKIP: ..." when not. */
bool t_has_program(const char *name);

#endif
