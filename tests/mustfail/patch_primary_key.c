/* The primary key in a patch.
 * gcc: 'session_patch' has no member named 'id'
 * clang: field designator 'id' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.revision = ent_set(2)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)}, &(session_patch){.id = ent_set(2)},
                          &number, err);
#endif
}
