/* A row received through a pointer that could change it.
 * gcc: passing argument 4 of 'session_get' from incompatible pointer type
 * clang: to parameter of type 'const session **' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const session *row = NULL;
    return session_get(db, arena, 1, &row, err);
#else
    session *row = NULL;
    return session_get(db, arena, 1, &row, err);
#endif
}
