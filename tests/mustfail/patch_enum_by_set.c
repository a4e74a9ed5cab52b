/* An enum has a set of its own.
 * gcc: 'enum ent_wants_enum' using type 'ent_patch_int'
 * clang: incompatible type 'ent_patch_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_update(db, &(message_where){.id = ent_eq(1)},
                          &(message_patch){.role = message_role_set(MESSAGE_ROLE_TOOL)}, &number,
                          err);
#else
    return message_update(db, &(message_where){.id = ent_eq(1)},
                          &(message_patch){.role = ent_set(MESSAGE_ROLE_TOOL)}, &number, err);
#endif
}
