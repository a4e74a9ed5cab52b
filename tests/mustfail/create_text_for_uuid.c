/* The text of a UUID where the UUID belongs: its characters must not become its bytes.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .event = uuid}, NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .event = "018f3c5e"}, NULL,
                          err);
#endif
}
