/* A bare value where a condition belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.id = ent_eq(5)}}, &sessions, err);
#else
    return session_find(db, arena, &(session_query){.where = {.id = 5}}, &sessions, err);
#endif
}
