/* An iterator ended by another entity's function.
 * gcc: passing argument 1 of 'message_iter_end' from incompatible pointer type
 * clang: incompatible pointer types passing 'session_iter *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_iter iter = {0};
    return session_iter_end(&iter, err);
#else
    session_iter iter = {0};
    return message_iter_end(&iter, err);
#endif
}
