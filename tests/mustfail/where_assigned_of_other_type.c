/* A condition of another type assigned to a slot.
 * gcc: incompatible types when assigning to type 'ent_where_text' from type 'ent_where_time'
 * clang: assigning to 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_query query = {0};
    query.where.created_at = ent_lt(instant);
    return session_find(db, arena, &query, &sessions, err);
#else
    session_query query = {0};
    query.where.key = ent_lt(instant);
    return session_find(db, arena, &query, &sessions, err);
#endif
}
