/* What happens to a field when its session is deleted. The field's class decides; schema/quipu.ent
 * states it.
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

/* The classes that are cleared when the session is deleted. A fork begins with its parent's values,
 * but for the first words of a message that it does not share. */
#define QP_CLASSES_OWN                                                                             \
    (ENT_CLASS(QP_QUIPU_CLASS_CONTENT) | ENT_CLASS(QP_QUIPU_CLASS_PERSONAL) |                      \
     ENT_CLASS(QP_QUIPU_CLASS_SETTINGS))
#define QP_CLASSES_ALL (QP_CLASSES_OWN | ENT_CLASS(QP_QUIPU_CLASS_BOOKKEEPING))

#endif
