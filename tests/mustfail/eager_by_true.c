/* An edge switched on with `true` instead of a query.
 * gcc: makes pointer from integer without a cast
 * clang: incompatible integer to pointer conversion */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.with_messages = &(message_query){0}},
                        &sessions, err);
#else
    return session_find(db, arena, &(session_query){.with_messages = true}, &sessions, err);
#endif
}
