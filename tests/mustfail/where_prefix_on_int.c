/* A prefix asked of a number.
 * gcc: 'enum ent_wants_int' using type 'ent_where_text'
 * clang: incompatible type 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.key = ent_prefix("1")}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.revision = ent_prefix("1")}},
                        &sessions, err);
#endif
}
