/* Files that Lango (Go, ent) wrote: reading them in place, and adopting them for good. */
#ifndef QP_STORE_LANGO_H
#define QP_STORE_LANGO_H

#include <ent/migrate.h>

#include "gen/lango.h"

/* A session's messages in their true order: by instant, then by id. The file's own order, that of
 * its time texts, is wrong as soon as two of them have different zones. */
QUIPU_MUST_USE quipu_status qp_lango_messages(ent_db *db, quipu_arena *arena, int64_t session_id,
                                              qp_lango_message_list *ret_list, quipu_error *reterr);

/* The step "lango-adopt": sessions and messages are rebuilt as quipu's own (messages numbered in
 * their true order, times in UTC), observations and reflections get their times and source numbers
 * mended; every other table is left alone. Messages without a session go to one of their own. */
extern const ent_step qp_lango_adopt;

#endif
