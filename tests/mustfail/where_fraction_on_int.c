/* A whole number compared with a fraction.
 * gcc: 'enum ent_wants_int' using type 'ent_where_float'
 * clang: incompatible type 'ent_where_float' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.message_count = ent_ge(2)}},
                        &sessions, err);
#else
    return session_find(db, arena, &(session_query){.where = {.message_count = ent_ge(1.5)}},
                        &sessions, err);
#endif
}
