/* The right constructor with another enum's label.
 * gcc: implicit conversion from 'enum message_state' to 'message_role'
 * clang: to different enumeration type 'message_role' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_find(db, arena,
                        &(message_query){.where = {.role = message_role_is(MESSAGE_ROLE_TOOL)}},
                        &messages, err);
#else
    return message_find(db, arena,
                        &(message_query){.where = {.role = message_role_is(MESSAGE_STATE_SENT)}},
                        &messages, err);
#endif
}
