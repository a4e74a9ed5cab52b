/* An optional instant compared as if it were there.
 * gcc: incompatible type for argument 1 of 'quipu_time_cmp'
 * clang: to parameter of incompatible type 'quipu_time' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_row->expires_at.has && quipu_time_cmp(session_row->expires_at.v, instant) < 0
               ? QUIPU_EXPIRED
               : QUIPU_OK;
#else
    return quipu_time_cmp(session_row->expires_at, instant) < 0 ? QUIPU_EXPIRED : QUIPU_OK;
#endif
}
