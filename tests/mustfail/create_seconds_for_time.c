/* A number of seconds where an instant belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .sent_at = instant}, NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .sent_at = 1700000000}, NULL,
                          err);
#endif
}
