/* An upsert on the number of an index.
 * gcc: incompatible type for argument 4 of 'session_upsert'
 * clang: passing 'int' to parameter of incompatible type 'session_on' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_upsert(db, arena, &(session_new){.key = text}, SESSION_ON_UID, &session_row,
                          err);
#else
    return session_upsert(db, arena, &(session_new){.key = text}, 0, &session_row, err);
#endif
}
