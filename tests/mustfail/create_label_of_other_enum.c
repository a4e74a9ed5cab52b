/* A label of another enum.
 * gcc: implicit conversion from 'enum message_state' to 'enum message_role'
 * clang: to different enumeration type 'message_role' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .role = MESSAGE_ROLE_TOOL},
                          NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .role = MESSAGE_STATE_SENT},
                          NULL, err);
#endif
}
