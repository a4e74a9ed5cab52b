/* The result received as a list of another entity.
 * gcc: passing argument 4 of 'session_find' from incompatible pointer type
 * clang: incompatible pointer types passing 'message_list *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.limit = 1}, &sessions, err);
#else
    return session_find(db, arena, &(session_query){.limit = 1}, &messages, err);
#endif
}
