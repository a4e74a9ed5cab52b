/* The stored row received as a row of another entity.
 * gcc: passing argument 4 of 'session_create' from incompatible pointer type
 * clang: incompatible pointer types passing 'const message **' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const session *row = NULL;
    return session_create(db, arena, &(session_new){.key = text}, &row, err);
#else
    const message *row = NULL;
    return session_create(db, arena, &(session_new){.key = text}, &row, err);
#endif
}
