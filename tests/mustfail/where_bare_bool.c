/* A bare bool where a condition belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.pinned = ent_eq(flag)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.pinned = flag}}, &sessions, err);
#endif
}
