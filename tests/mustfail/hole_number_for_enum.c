/* A number where an enum belongs: to C they are the same.
 * hole: a number without a label is refused at run time with QUIPU_INVALID */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .role = MESSAGE_ROLE_TOOL},
                          NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .role = 7}, NULL, err);
#endif
}
