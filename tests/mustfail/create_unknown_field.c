/* A new row names a field that the entity does not have.
 * gcc: 'session_new' has no member named 'agnt_id'
 * clang: field designator 'agnt_id' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .agent_id = text}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = text, .agnt_id = text}, NULL, err);
#endif
}
