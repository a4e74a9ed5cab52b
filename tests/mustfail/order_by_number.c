/* A field's number instead of its name.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_KEY(DESC)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.order = {2, 1}}, &sessions, err);
#endif
}
