/* A UUID compared with its text.
 * gcc: 'enum ent_wants_uuid' using type 'ent_where_text'
 * clang: incompatible type 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.uid = ent_eq(uuid)}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.uid = ent_eq("018f3c5e")}},
                        &sessions, err);
#endif
}
