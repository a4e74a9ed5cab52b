/* Half of a composite key.
 * gcc: too few arguments to function 'setting_get'
 * clang: too few arguments to function call */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    const setting *row = NULL;
    return setting_get(db, arena, text, QUIPU_STR("theme"), &row, err);
#else
    const setting *row = NULL;
    return setting_get(db, arena, text, &row, err);
#endif
}
