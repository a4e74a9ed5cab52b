/* A bare zero as the only condition: C lets zero stand for any aggregate.
 * hole: an empty condition, which update, delete and one refuse at run time with QUIPU_MISUSE */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_delete(db, &(session_where){.id = ent_eq(0)}, &number, err);
#else
    return session_delete(db, &(session_where){.id = 0}, &number, err);
#endif
}
