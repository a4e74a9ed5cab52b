/* The engine under test: SQLite, the PostgreSQL server that QUIPU_TEST_PG names (a file with its
 * URI; tests/lib/pg.sh creates both), or with QUIPU_TEST_ENGINE=strict that of tests/engine_strict.
 */
#ifndef T_LIB_T_PG_H
#define T_LIB_T_PG_H

#include "lib/t_server.h"

#include <stdatomic.h>

/* Whether this run is on PostgreSQL. Ends the program as skipped when there is no server. */
bool t_pg(void);

/* Whether its stores are distributed: that of `make test-citus` (QUIPU_TEST_CITUS). */
bool t_pg_is_distributed(void);

/* Whether this run is on the engine of tests/engine_strict. */
bool t_strict(void);

/* The URI of the server itself. */
void t_pg_uri(char ret_uri[T_PATH_MAX]);

/* The URI of a fresh, empty schema at the server. */
void t_pg_schema(char ret_uri[T_PATH_MAX]);

/* While set, pg_faults.c injects nothing: around a call that cannot be repeated inside, an export
 * whose caller has a part of it already. */
extern atomic_bool t_pg_calm;

/* Run SQL in the schema that a URI names; a failure fails the test. */
void t_pg_execute(const char *uri, const char *sql);

/* A place for a new store of the engine under test: a file in a fresh folder, or a schema. */
void t_new_store(const char *name, char ret_uri[T_PATH_MAX]);

/* The file of such a store that is no schema. */
const char *t_store_file(const char *uri);

/* Ends a test that does not apply to the engine under test, with the reason. Not a skip, because
 * nothing is missing, and not passed: tools/test.py names and counts it separately. */
#define T_SQLITE_ONLY(why)                                                                         \
    T_NOT_ON(t_pg() ? "PostgreSQL" : t_strict() ? "strict" : t_server() ? "a server" : NULL, why)

/* The same for a store behind a server of quipu (t_server.h). */
#define T_NOT_SERVED(why) T_NOT_ON(t_server() ? "a server" : NULL, why)

/* The same for what takes a server minutes: it runs in the long form only. */
#define T_LONG_ON_PG(why) T_NOT_ON(t_pg() && !t_long() ? "PostgreSQL" : NULL, why)

#define T_NOT_ON(engine, why)                                                                      \
    do {                                                                                           \
        const char *t_not_on = (engine);                                                           \
        if (t_not_on != NULL) {                                                                    \
            print_message("not on %s: %s\n", t_not_on, why);                                       \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
