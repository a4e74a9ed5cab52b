/* QUIPU_STR takes literals: the size of a pointer is not the length of its text.
 * gcc: expected '}' before 'name'
 * clang: expected '}' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_create(db, NULL, &(session_new){.key = quipu_cstr(name)}, NULL, err);
#else
    return session_create(db, NULL, &(session_new){.key = QUIPU_STR(name)}, NULL, err);
#endif
}
