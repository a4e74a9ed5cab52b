/* A message moved to another session though its edge is immutable.
 * gcc: 'message_patch' has no member named 'session_id'
 * clang: field designator 'session_id' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return profile_update(db, &(profile_where){.id = ent_eq(1)},
                          &(profile_patch){.session_id = ent_set(2)}, &number, err);
#else
    return message_update(db, &(message_where){.id = ent_eq(1)},
                          &(message_patch){.session_id = ent_set(2)}, &number, err);
#endif
}
