/* A fraction compared with a whole number.
 * gcc: 'enum ent_wants_float' using type 'ent_where_int'
 * clang: incompatible type 'ent_where_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.score = ent_lt(1.0)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.score = ent_lt(1)}}, &sessions, err);
#endif
}
