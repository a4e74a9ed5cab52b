/* `true` is an int in C11, so ent_eq(true) is a condition on a number.
 * gcc: 'enum ent_wants_bool' using type 'ent_where_int'
 * clang: incompatible type 'ent_where_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.pinned = ent_is(true)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.pinned = ent_eq(true)}}, &sessions,
                        err);
#endif
}
