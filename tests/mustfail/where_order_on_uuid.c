/* UUIDs are equal or not; they have no greater and smaller.
 * gcc: '_Generic' selector of type 'struct quipu_uuid' is not compatible with any association
 * clang: controlling expression type 'quipu_uuid' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.uid = ent_ne(uuid)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.uid = ent_gt(uuid)}}, &sessions,
                        err);
#endif
}
