/* An OR of another entity's conditions.
 * gcc: from incompatible pointer type
 * clang: incompatible pointer types initializing */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    session_where any[1] = {{.key = ent_eq("a")}};
    return session_delete(db, &(session_where){.any_of = any, .any_n = 1}, &number, err);
#else
    message_where any[1] = {{.author = ent_eq("a")}};
    return session_delete(db, &(session_where){.any_of = any, .any_n = 1}, &number, err);
#endif
}
