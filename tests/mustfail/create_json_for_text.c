/* JSON where plain text belongs.
 * gcc: incompatible types when initializing type 'const char *' using type 'quipu_json'
 * clang: with an expression of incompatible type 'quipu_json' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    quipu_json json = ent_json(text);
    return message_create(db, NULL, &(message_new){.content = json.text}, NULL, err);
#else
    quipu_json json = ent_json(text);
    return message_create(db, NULL, &(message_new){.content = json}, NULL, err);
#endif
}
