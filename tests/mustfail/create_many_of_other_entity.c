/* An array of another entity's new rows.
 * gcc: passing argument 2 of 'session_create_many' from incompatible pointer type
 * clang: incompatible pointer types passing 'message_new[2]' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_new rows[2] = {{.key = text}, {.key = text}};
    return session_create_many(db, rows, 2, err);
#else
    message_new rows[2] = {{.content = text}, {.content = text}};
    return session_create_many(db, rows, 2, err);
#endif
}
