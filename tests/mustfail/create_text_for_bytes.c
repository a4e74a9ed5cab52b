/* Text where raw bytes belong.
 * gcc: incompatible types when initializing type 'const void *' using type 'quipu_str'
 * clang: with an expression of incompatible type 'quipu_str' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    quipu_bytes bytes = {text.p, text.n};
    return message_create(db, NULL, &(message_new){.content = text, .digest = bytes}, NULL, err);
#else
    return message_create(db, NULL, &(message_new){.content = text, .digest = text}, NULL, err);
#endif
}
