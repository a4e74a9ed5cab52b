/* One observation or reflection into the open transaction, for what saves them: the public call and
 * the commit of a worker (memory_scope.c). */
#ifndef QP_STORE_MEMORY_H
#define QP_STORE_MEMORY_H

#include "base/sha256.h"
#include "store/store.h"

#define QP_MEMORY_SUPERSEDED "superseded" /* why a line is retired that a newer one replaces */

/* The hash by which a repeat is recognized: SHA-256 of the content in lower case (ASCII), with
 * single blanks, without blanks and full stops at its end, and without characters that nobody sees
 * (base/visible.h). */
void qp_memory_hash(quipu_str content, uint8_t ret_hash[QP_SHA256_SIZE]);

typedef struct qp_memory_saved {
    quipu_uuid id; /* of the row that holds it... */
    bool repeat;   /* ...which was there before */
} qp_memory_saved;

/* Save a memory that was checked and has an id; its scope is `scope`. One with an origin whose
 * content the scope has already raises `times` of that row instead. What it supersedes is retired.
 * Expects an exclusive transaction. QUIPU_NOT_FOUND: what it supersedes is not there,
 * or counts in another scope. */
QUIPU_MUST_USE quipu_status qp_memory_put(const quipu_store *store, ent_db *db,
                                          quipu_arena *scratch, const quipu_memory *memory,
                                          quipu_str scope, qp_memory_saved *ret_saved,
                                          quipu_error *reterr);

#endif
