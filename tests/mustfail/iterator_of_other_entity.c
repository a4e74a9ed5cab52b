/* An iterator over messages started over sessions.
 * gcc: passing argument 3 of 'session_iter_begin' from incompatible pointer type
 * clang: incompatible pointer types passing 'message_iter *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_iter iter;
    return session_iter_begin(db, &(session_query){0}, &iter, err);
#else
    message_iter iter;
    return session_iter_begin(db, &(session_query){0}, &iter, err);
#endif
}
