/* A bare value where a change belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.revision = ent_set(2)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)}, &(session_patch){.revision = 2},
                          &number, err);
#endif
}
