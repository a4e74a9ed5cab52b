/* The text of an enum's value asked of another enum.
 * gcc: implicit conversion from 'message_state'
 * clang: to different enumeration type 'message_role' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    name = message_state_text(message_row->state);
    return QUIPU_OK;
#else
    name = message_role_text(message_row->state);
    return QUIPU_OK;
#endif
}
