/* A condition where a change belongs.
 * gcc: 'enum ent_wants_int' using type 'ent_where_int'
 * clang: incompatible type 'ent_where_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.revision = ent_set(2)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.revision = ent_eq(2)}, &number, err);
#endif
}
