/* Text as the key of a look-up by UUID.
 * gcc: incompatible type for argument 3 of 'session_by_uid'
 * clang: to parameter of incompatible type 'quipu_uuid' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const session *row = NULL;
    return session_by_uid(db, arena, uuid, &row, err);
#else
    const session *row = NULL;
    return session_by_uid(db, arena, text, &row, err);
#endif
}
