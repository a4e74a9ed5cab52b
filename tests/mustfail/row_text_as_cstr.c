/* Text with a length used as a char pointer.
 * gcc: incompatible types when assigning to type 'const char *'
 * clang: from incompatible type 'const quipu_str' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    name = session_row->key.p;
    return QUIPU_OK;
#else
    name = session_row->key;
    return QUIPU_OK;
#endif
}
