/* An edge that the entity does not have.
 * gcc: 'session_query' has no member named 'with_setting'
 * clang: field designator 'with_setting' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.with_profile = &(profile_query){0}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.with_setting = &(setting_query){0}}, &sessions,
                        err);
#endif
}
