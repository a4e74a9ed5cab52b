/* A condition on another enum of the same entity.
 * gcc: 'enum ent_wants_enum' using type 'message_state_where'
 * clang: incompatible type 'message_state_where' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena,
                        &(message_query){.where = {.state = message_state_is(MESSAGE_STATE_SENT)}},
                        &messages, err);
#else
    return message_find(db, arena,
                        &(message_query){.where = {.role = message_state_is(MESSAGE_STATE_SENT)}},
                        &messages, err);
#endif
}
