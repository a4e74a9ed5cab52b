/* Full-text search asked of an entity without `search`.
 * gcc: 'session_where' has no member named 'search'
 * clang: field designator 'search' does not refer to any field */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena, &(message_query){.where = {.search = ent_match(text)}},
                        &messages, err);
#else
    return session_find(db, arena, &(session_query){.where = {.search = ent_match(text)}},
                        &sessions, err);
#endif
}
