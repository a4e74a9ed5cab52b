/* A char pointer where text with a length belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = quipu_cstr(name)}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = name}, NULL, err);
#endif
}
