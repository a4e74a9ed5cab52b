/* A label of an enum where a whole number belongs: to C both are ints.
 * hole: the number is stored; -Wextra does not show it either */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .revision = ent_some(3)}, NULL,
                          err);
#else
    return session_create(
        db, NULL, &(session_new){.key = text, .revision = ent_some(MESSAGE_ROLE_TOOL)}, NULL, err);
#endif
}
