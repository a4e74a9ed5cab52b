/* Cancel flags: one thread sets the flag, the call that was given it checks it. Owns the flag's
 * memory until quipu_free(), which the program calls when no call uses the flag any more.
 * Needs no lock: the flag is atomic, and there is no other state.
 *
 *   new ─▶ given to calls ─▶ set, by any thread ─▶ each of these calls ends at its next look
 *
 * A flag is never cleared: one that is set ends every later call that gets it, too. Called by:
 * programs; src/store looks at it where it waits, engines look while a statement runs. */
#include "base/cancel.h"

#include <stdatomic.h>

#include "base/result.h"

struct quipu_cancel {
    atomic_bool set;
};

typedef struct cancel_result {
    qp_result head;
    quipu_cancel pub;
} cancel_result;

QP_RESULT(cancel_result);

/* NULL: no memory. The caller frees it after the last call that uses it has returned. */
quipu_cancel *quipu_cancel_new(void)
{
    cancel_result *made = qp_result_new(sizeof(*made));

    if (made == NULL) {
        return NULL;
    }
    atomic_init(&made->pub.set, false);
    return &made->pub;
}

/* From any thread, any number of times; it cannot be taken back. */
void quipu_cancel_set(quipu_cancel *cancel)
{
    if (cancel != NULL) {
        atomic_store(&cancel->set, true);
    }
}

/* NULL is a call that cannot be cancelled. */
bool qp_cancel_is_set(quipu_cancel *cancel)
{
    return cancel != NULL && atomic_load(&cancel->set);
}
