/* JSON is present or absent; it is not compared.
 * gcc: 'enum ent_wants_json' using type 'ent_where_text'
 * clang: incompatible type 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_find(db, arena, &(session_query){.where = {.metadata = ENT_NOT_NULL}}, &sessions,
                        err);
#else
    return session_find(db, arena, &(session_query){.where = {.metadata = ent_eq("{}")}}, &sessions,
                        err);
#endif
}
