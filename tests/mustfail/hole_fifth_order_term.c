/* One order term more than ENT_ORDER_MAX: both compilers warn unasked and drop it.
 * hole: a warning without a name in GCC, so that no pragma can make it an error */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena,
                        &(session_query){.order = {SESSION_BY_KEY(ASC), SESSION_BY_ID(ASC)}},
                        &sessions, err);
#else
    return session_find(
        db, arena,
        &(session_query){.order = {SESSION_BY_KEY(ASC), SESSION_BY_KEY(ASC), SESSION_BY_KEY(ASC),
                                   SESSION_BY_KEY(ASC), SESSION_BY_ID(ASC)}},
        &sessions, err);
#endif
}
