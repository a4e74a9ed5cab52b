/* A condition on messages given to the function that counts sessions.
 * gcc: passing argument 2 of 'session_count' from incompatible pointer type
 * clang: incompatible pointer types passing 'message_where *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_count(db, &(session_where){.key = ent_eq("a")}, &number, err);
#else
    return session_count(db, &(message_where){.author = ent_eq("a")}, &number, err);
#endif
}
