/* The text of a label where the enum belongs.
 * gcc: when initializing type 'enum message_role' using type 'char *'
 * clang: incompatible pointer to integer conversion initializing 'message_role' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .role = MESSAGE_ROLE_USER},
                          NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .role = "user"}, NULL, err);
#endif
}
