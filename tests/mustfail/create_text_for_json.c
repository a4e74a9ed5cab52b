/* Plain text where JSON belongs.
 * gcc: missing braces around initializer
 * clang: suggest braces around initialization of subobject */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(
        db, NULL, &(message_new){.content = text, .extra = ent_json(QUIPU_STR("{}"))}, NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .extra = QUIPU_STR("{}")}, NULL,
                          err);
#endif
}
