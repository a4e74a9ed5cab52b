/* JSON and bytes have no order.
 * gcc: implicit declaration of function 'SESSION_BY_METADATA'
 * clang: call to undeclared function 'SESSION_BY_METADATA' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_ID(ASC)}}, &sessions, err);
#else
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_METADATA(0)}}, &sessions,
                        err);
#endif
}
