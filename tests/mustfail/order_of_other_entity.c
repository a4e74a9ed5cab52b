/* Sessions ordered by a field of messages.
 * gcc: using type 'message_order'
 * clang: incompatible type 'message_order' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_CREATED_AT(ASC)}},
                        &sessions, err);
#else
    return session_find(db, arena, &(session_query){.order = {MESSAGE_BY_SENT_AT(ASC)}}, &sessions,
                        err);
#endif
}
