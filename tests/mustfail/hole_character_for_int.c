/* A character where a whole number belongs: to C it is an int.
 * hole: the character's code is stored; -Wextra does not show it either */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .revision = ent_some(3)}, NULL,
                          err);
#else
    return session_create(db, NULL, &(session_new){.key = text, .revision = ent_some('x')}, NULL,
                          err);
#endif
}
