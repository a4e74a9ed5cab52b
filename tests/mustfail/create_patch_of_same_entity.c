/* A patch where a new row belongs.
 * gcc: passing argument 3 of 'session_create' from incompatible pointer type
 * clang: incompatible pointer types passing 'session_patch *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .agent_id = text}, NULL, err);
#else
    return session_create(db, NULL, &(session_patch){.agent_id = ent_set(text)}, NULL, err);
#endif
}
