/* The rows of an edge read as rows of another entity.
 * gcc: initialization of 'const session *'
 * clang: incompatible pointer types initializing 'const session *' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const message *first = session_row->messages.items;
    number = first->id;
    return QUIPU_OK;
#else
    const session *first = session_row->messages.items;
    number = first->id;
    return QUIPU_OK;
#endif
}
