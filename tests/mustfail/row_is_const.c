/* A row written to: what came from the store is not changed in place.
 * gcc: assignment of member 'revision' in read-only object
 * clang: cannot assign to variable 'session_row' with const-qualified type */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session copy = *session_row;
    copy.revision = 2;
    number = copy.revision;
    return QUIPU_OK;
#else
    session_row->revision = 2;
    return QUIPU_OK;
#endif
}
