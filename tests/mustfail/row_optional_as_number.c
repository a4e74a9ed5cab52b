/* An optional number read without asking whether it is there.
 * gcc: incompatible types when assigning to type 'int64_t'
 * clang: from incompatible type 'const ent_opt_int' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    number = message_row->tokens.has ? message_row->tokens.v : 0;
    return QUIPU_OK;
#else
    number = message_row->tokens;
    return QUIPU_OK;
#endif
}
