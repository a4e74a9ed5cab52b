/* Full-text search takes words, not a comparison.
 * gcc: 'enum ent_wants_match' using type 'ent_where_text'
 * clang: incompatible type 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena, &(message_query){.where = {.search = ent_match(text)}},
                        &messages, err);
#else
    return message_find(db, arena, &(message_query){.where = {.search = ent_eq(text)}}, &messages,
                        err);
#endif
}
