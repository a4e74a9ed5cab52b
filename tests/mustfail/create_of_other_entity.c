/* A new message given to the function that creates sessions.
 * gcc: passing argument 3 of 'session_create' from incompatible pointer type
 * clang: incompatible pointer types passing 'message_new *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text}, NULL, err);
#else
    return session_create(db, NULL, &(message_new){.content = text}, NULL, err);
#endif
}
