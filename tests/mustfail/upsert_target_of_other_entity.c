/* An upsert on a unique index of another entity.
 * gcc: incompatible type for argument 4 of 'session_upsert'
 * clang: to parameter of incompatible type 'session_on' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_upsert(db, arena, &(session_new){.key = text}, SESSION_ON_KEY, &session_row,
                          err);
#else
    return session_upsert(db, arena, &(session_new){.key = text}, MESSAGE_ON_ID, &session_row, err);
#endif
}
