/* The end of a child session, in one transaction: its messages and state go to the parent, and it
 * is marked or removed. This header shows nothing of the rooms below the store. */
#ifndef QP_STORE_STATE_CHILD_H
#define QP_STORE_STATE_CHILD_H

#include <quipu/store.h>

/* How a child ends. */
typedef struct qp_child_end {
    quipu_str parent;
    quipu_str child;
    const quipu_message *messages; /* for the parent */
    size_t count;
    int64_t expected_revision; /* of the parent; -1: do not check */
    int64_t child_revision;    /* the same of the child */
    quipu_json metadata;       /* the child's from now on; absent: the child is removed */
    int64_t revision;          /* set when the answer is QUIPU_CONFLICT: the parent's */
} qp_child_end;

/* End it. QUIPU_NOT_FOUND names the one that is missing; QUIPU_EXISTS when the child's metadata say
 * that it is merged already. Other errors as quipu_message_append(). */
QUIPU_MUST_USE quipu_status qp_child_finish(quipu_store *store, qp_child_end *end,
                                            const quipu_call_options *call, quipu_error *reterr);

/* The metadata of a child; a merged one has a member "mergedAt" in it. */
#define QP_CHILD_MEMBER "child"
#define QP_CHILD_MERGED "mergedAt"

#endif
