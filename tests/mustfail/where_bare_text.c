/* Bare text where a condition belongs.
 * gcc: 'enum ent_wants_text' using type 'quipu_str'
 * clang: incompatible type 'quipu_str' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.key = ent_eq(text)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.key = text}}, &sessions, err);
#endif
}
