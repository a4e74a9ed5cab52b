/* Optional text is absent when its pointer is NULL and takes no ent_some.
 * gcc: '_Generic' selector of type 'struct quipu_str' is not compatible with any association
 * clang: controlling expression type 'quipu_str' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .agent_id = text}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = text, .agent_id = ent_some(text)}, NULL,
                          err);
#endif
}
