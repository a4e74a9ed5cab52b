/* A char pointer as the key of a look-up by text.
 * gcc: incompatible type for argument 3 of 'session_by_key'
 * clang: passing 'const char *' to parameter of incompatible type 'quipu_str' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const session *row = NULL;
    return session_by_key(db, arena, quipu_cstr(name), &row, err);
#else
    const session *row = NULL;
    return session_by_key(db, arena, name, &row, err);
#endif
}
