/* Text as an id.
 * gcc: makes integer from pointer without a cast
 * clang: incompatible pointer to integer conversion */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const session *row = NULL;
    return session_get(db, arena, 1, &row, err);
#else
    const session *row = NULL;
    return session_get(db, arena, "1", &row, err);
#endif
}
