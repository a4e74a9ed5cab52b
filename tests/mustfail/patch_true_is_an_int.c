/* `true` is an int in C11, so ent_set(true) changes a number.
 * gcc: 'enum ent_wants_bool' using type 'ent_patch_int'
 * clang: incompatible type 'ent_patch_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.pinned = ent_bool_set(true)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.pinned = ent_set(true)}, &number, err);
#endif
}
