/* A plain number where a default other than zero makes the member optional.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = text, .revision = ent_some(3)}, NULL,
                          err);
#else
    return session_create(db, NULL, &(session_new){.key = text, .revision = 3}, NULL, err);
#endif
}
