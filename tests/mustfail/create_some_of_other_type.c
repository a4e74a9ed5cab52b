/* A fraction for an optional whole number.
 * gcc: incompatible types when initializing type '_Bool' using type 'ent_opt_float'
 * clang: with an expression of incompatible type 'ent_opt_float' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return message_create(db, NULL, &(message_new){.content = text, .tokens = ent_some(15)}, NULL,
                          err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .tokens = ent_some(1.5)}, NULL,
                          err);
#endif
}
