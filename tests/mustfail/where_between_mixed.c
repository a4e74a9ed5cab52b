/* An upper bound of another type.
 * gcc: incompatible type for argument 2 of
 * clang: passing 'int' to parameter of incompatible type 'quipu_time' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena,
                        &(session_query){.where = {.created_at = ent_between(instant, instant)}},
                        &sessions, err);
#else
    return session_find(db, arena,
                        &(session_query){.where = {.created_at = ent_between(instant, 5)}},
                        &sessions, err);
#endif
}
