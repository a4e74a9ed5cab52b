/* An enum compared with the text of a label.
 * gcc: 'enum ent_wants_enum' using type 'ent_where_text'
 * clang: incompatible type 'ent_where_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena,
                        &(message_query){.where = {.role = message_role_is(MESSAGE_ROLE_USER)}},
                        &messages, err);
#else
    return message_find(db, arena, &(message_query){.where = {.role = ent_eq("user")}}, &messages,
                        err);
#endif
}
