/* A label is an int in C: an enum has its own constructors.
 * gcc: 'enum ent_wants_enum' using type 'ent_where_int'
 * clang: incompatible type 'ent_where_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena,
                        &(message_query){.where = {.role = message_role_is(MESSAGE_ROLE_USER)}},
                        &messages, err);
#else
    return message_find(db, arena, &(message_query){.where = {.role = ent_eq(MESSAGE_ROLE_USER)}},
                        &messages, err);
#endif
}
