/* Zero is a value, not "absent": an optional number wants ent_some(0).
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .tokens = ent_some(0)}, NULL,
                          err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .tokens = 0}, NULL, err);
#endif
}
