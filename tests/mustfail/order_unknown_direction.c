/* A direction that is neither ASC nor DESC.
 * gcc: 'ENT_DOWN' undeclared
 * clang: use of undeclared identifier 'ENT_DOWN' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_KEY(DESC)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.order = {SESSION_BY_KEY(DOWN)}}, &sessions,
                        err);
#endif
}
