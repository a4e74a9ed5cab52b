/* A number where text belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = QUIPU_STR("42")}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = 42}, NULL, err);
#endif
}
