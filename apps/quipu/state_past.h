/* The state of a session after one of its messages, by the events that its history has recorded:
 * for state --at and diff. */
#ifndef APPS_QUIPU_STATE_PAST_H
#define APPS_QUIPU_STATE_PAST_H

#include "app.h"

/* The names that the session itself had after message `at`, with the message that set each last.
 * State that was set without a recorded event (the state that a session begins with, events that
 * only changed state) is missing, and so are names of the app and the user: other sessions change
 * these. The entries lie in the arena. */
quipu_status app_state_past(quipu_store *store, quipu_str key, int64_t at, quipu_arena *arena,
                            quipu_state_entries *ret_entries, quipu_error *reterr);

#endif
