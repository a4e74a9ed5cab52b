/* A fraction where a whole number belongs: C cuts it off, Clang warns.
 * hole: -Wfloat-conversion shows it; the header does not force it on the arithmetic of others */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .message_count = 2}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = text, .message_count = 1.5}, NULL, err);
#endif
}
