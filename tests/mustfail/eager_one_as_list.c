/* The one row of a to-one edge read as a list.
 * gcc: 'session_row->profile' is a pointer; did you mean to use '->'?
 * clang: is a pointer; did you mean to use '->'? */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    number = session_row->profile->id;
    return QUIPU_OK;
#else
    number = session_row->profile.items[0].id;
    return QUIPU_OK;
#endif
}
