/* Condition and change in the wrong order.
 * gcc: passing argument 2 of 'session_update' from incompatible pointer type
 * clang: incompatible pointer types passing 'session_patch *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.revision = ent_set(2)}, &number, err);
#else
    return session_update(db, &(session_patch){.revision = ent_set(2)},
                          &(session_where){.id = ent_eq(1)}, &number, err);
#endif
}
