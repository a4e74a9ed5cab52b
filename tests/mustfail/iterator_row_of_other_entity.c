/* A step of an iterator received as a row of another entity.
 * gcc: passing argument 2 of 'session_iter_next' from incompatible pointer type
 * clang: incompatible pointer types passing 'message *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_iter iter = {0};
    session row;
    while (session_iter_next(&iter, &row)) {
        number++;
    }
    return session_iter_end(&iter, err);
#else
    session_iter iter = {0};
    message row;
    while (session_iter_next(&iter, &row)) {
        number++;
    }
    return session_iter_end(&iter, err);
#endif
}
