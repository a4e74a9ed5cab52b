/* A page that begins after an id instead of a row.
 * gcc: makes pointer from integer without a cast
 * clang: incompatible integer to pointer conversion */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.after = session_row, .limit = 10}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.after = session_row->id, .limit = 10},
                        &sessions, err);
#endif
}
