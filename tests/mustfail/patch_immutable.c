/* An immutable field in a patch.
 * gcc: 'session_patch' has no member named 'created_at'
 * clang: field designator 'created_at' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.expires_at = ent_set(instant)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.created_at = ent_set(instant)}, &number, err);
#endif
}
