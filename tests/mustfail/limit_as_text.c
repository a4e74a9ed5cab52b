/* A limit given as text.
 * gcc: makes integer from pointer without a cast
 * clang: incompatible pointer to integer conversion */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.limit = 10}, &sessions, err);
#else
    return session_find(db, arena, &(session_query){.limit = "10"}, &sessions, err);
#endif
}
