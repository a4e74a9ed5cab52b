/* A whole query where a condition belongs.
 * gcc: passing argument 2 of 'session_delete' from incompatible pointer type
 * clang: incompatible pointer types passing 'session_query *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_delete(db, &(session_where){.id = ent_eq(1)}, &number, err);
#else
    return session_delete(db, &(session_query){.where = {.id = ent_eq(1)}}, &number, err);
#endif
}
