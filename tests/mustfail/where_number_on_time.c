/* An instant compared with a number.
 * gcc: 'enum ent_wants_time' using type 'ent_where_int'
 * clang: incompatible type 'ent_where_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.created_at = ent_gt(instant)}},
                        &sessions, err);
#else
    return session_find(db, arena, &(session_query){.where = {.created_at = ent_gt(5)}}, &sessions,
                        err);
#endif
}
