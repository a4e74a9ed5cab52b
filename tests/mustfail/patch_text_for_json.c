/* Plain text set where JSON belongs.
 * gcc: 'enum ent_wants_json' using type 'ent_patch_text'
 * clang: incompatible type 'ent_patch_text' */
#include "case.h"

quipu_status planted(void)
{
#ifdef FIXED
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.metadata = ent_set(ent_json(text))}, &number, err);
#else
    return session_update(db, &(session_where){.id = ent_eq(1)},
                          &(session_patch){.metadata = ent_set(text)}, &number, err);
#endif
}
