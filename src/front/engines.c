/* The table of engines. Nothing else is in this file, so that a program can link another table in
 * its place (tests/engine_strict does). The first scheme that fits decides.
 * Owns: the table, which is constant. Called by: engine_open.c. Locks: none. */
#include "front/engines.h"

const qp_engine_entry *const qp_engines[] = {&qp_engine_postgres, &qp_engine_sqlite, NULL};
