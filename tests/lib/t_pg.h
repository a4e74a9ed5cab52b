/* The engine under test: SQLite, or the PostgreSQL server that QUIPU_TEST_PG names (a file with its
 * URI; tests/lib/pg.sh creates both). */
#ifndef T_LIB_T_PG_H
#define T_LIB_T_PG_H

#include "lib/t.h"

#include <stdatomic.h>

/* Whether this run is on PostgreSQL. Ends the program as skipped when there is no server. */
bool t_pg(void);

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

/* Ends a test that does not apply to PostgreSQL, with the reason. Not a skip, because nothing is
 * missing, and not passed: tools/test.py names and counts it separately. */
#define T_SQLITE_ONLY(why) T_NOT_ON_PG(t_pg(), why)

/* The same for what takes a server minutes: it runs in the long form only. */
#define T_LONG_ON_PG(why) T_NOT_ON_PG(t_pg() && !t_long(), why)

#define T_NOT_ON_PG(condition, why)                                                                \
    do {                                                                                           \
        if (condition) {                                                                           \
            print_message("not on PostgreSQL: %s\n", why);                                         \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
