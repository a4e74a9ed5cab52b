/* What becomes of a field when its session goes: by its class, which schema/quipu.ent states.
 *
 *                 delete, forks live on     delete          erase
 *   content       the row is cleared        row removed     row removed, file cleaned
 *   personal      the row is cleared        row removed     row removed, file cleaned
 *   settings      the row is cleared        row removed     row removed, file cleaned
 *   bookkeeping   stays, for the forks      row removed     row removed, file cleaned
 *
 * Verify reports a row without a key that holds a value of the first three; repair clears it. */
#ifndef QP_STORE_CLASSES_H
#define QP_STORE_CLASSES_H

#include <ent/view.h>

#include "gen/quipu.h"

/* What is a session's own, and is cleared with it. A fork begins with its parent's values, but for
 * the first words of a message that it does not share. */
#define QP_CLASSES_OWN                                                                             \
    (ENT_CLASS(QP_QUIPU_CLASS_CONTENT) | ENT_CLASS(QP_QUIPU_CLASS_PERSONAL) |                      \
     ENT_CLASS(QP_QUIPU_CLASS_SETTINGS))
#define QP_CLASSES_ALL (QP_CLASSES_OWN | ENT_CLASS(QP_QUIPU_CLASS_BOOKKEEPING))

#endif
