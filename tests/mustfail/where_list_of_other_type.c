/* A list of ints where 64-bit numbers belong.
 * gcc: '_Generic' selector of type 'int *' is not compatible with any association
 * clang: controlling expression type 'int *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    int64_t ids[2] = {1, 2};
    return session_find(db, arena, &(session_query){.where = {.id = ent_in(ids, 2)}}, &sessions,
                        err);
#else
    int ids[2] = {1, 2};
    return session_find(db, arena, &(session_query){.where = {.id = ent_in(ids, 2)}}, &sessions,
                        err);
#endif
}
