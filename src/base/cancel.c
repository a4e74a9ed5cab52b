/* Cancel flags: one thread sets it, the call that holds it looks at it. */
#include "base/cancel.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct quipu_cancel {
    atomic_bool set;
};

quipu_cancel *quipu_cancel_new(void)
{
    quipu_cancel *cancel = qp_malloc(sizeof(*cancel));

    if (cancel != NULL) {
        atomic_init(&cancel->set, false);
    }
    return cancel;
}

void quipu_cancel_set(quipu_cancel *cancel)
{
    if (cancel != NULL) {
        atomic_store(&cancel->set, true);
    }
}

void quipu_cancel_free(quipu_cancel *cancel)
{
    qp_free(cancel);
}

bool qp_cancel_is_set(quipu_cancel *cancel)
{
    return cancel != NULL && atomic_load(&cancel->set);
}
