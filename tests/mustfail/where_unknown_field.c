/* A condition on a field that the entity does not have.
 * gcc: 'session_where' has no member named 'kee'
 * clang: field designator 'kee' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.key = ent_eq("a")}}, &sessions, err);
#else
    return session_find(db, arena, &(session_query){.where = {.kee = ent_eq("a")}}, &sessions, err);
#endif
}
