/* A number added to text.
 * gcc: 'enum ent_wants_text' using type 'ent_patch_int'
 * clang: incompatible type 'ent_patch_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.message_count = ent_add(1)}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.agent_id = ent_add(1)}, &number, err);
#endif
}
