/* An edge asked for with a query of another entity.
 * gcc: from incompatible pointer type
 * clang: incompatible pointer types initializing 'const message_query *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.with_messages = &(message_query){.limit = 1}},
                        &sessions, err);
#else
    return session_find(db, arena, &(session_query){.with_messages = &(session_query){.limit = 1}},
                        &sessions, err);
#endif
}
