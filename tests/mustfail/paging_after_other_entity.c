/* A page that begins after a row of another entity.
 * gcc: from incompatible pointer type
 * clang: incompatible pointer types initializing 'const session *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.after = session_row, .limit = 10}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.after = message_row, .limit = 10}, &sessions,
                        err);
#endif
}
