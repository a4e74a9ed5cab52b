/* A bare zero beside another condition; alone it is the documented hole.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_delete(db, &(session_where){.id = ent_eq(0), .pinned = ent_is(false)}, &number,
                          err);
#else
    return session_delete(db, &(session_where){.id = 0, .pinned = ent_is(false)}, &number, err);
#endif
}
