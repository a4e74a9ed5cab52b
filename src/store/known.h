/* Rows of sessions as this process left them. Where a look at a session's row costs a round trip,
 * whoever appends to it again and again goes on from there without one; the row's UPDATE then says
 * what it must be like, and fails where somebody else has changed it since. A session that others
 * write to as well is not worth the attempt: a row is believed only after it was found, once, as it
 * had been left. Belongs to whoever leads the commit group. */
#ifndef QP_STORE_KNOWN_H
#define QP_STORE_KNOWN_H

#include "gen/quipu.h"

#define QP_KNOWN_MAX 512                       /* sessions */
#define QP_KNOWN_TEXTS_MAX ((size_t)16 * 1024) /* a row with more is not kept */

struct qp_known_row;

typedef struct qp_known {
    struct qp_known_row *rows;     /* QP_KNOWN_MAX, made when the first is kept */
    uint64_t hashes[QP_KNOWN_MAX]; /* of their keys; 0: the place is empty */
    struct qp_known_row *taken;    /* those that the transaction under way goes on from */
    size_t next;                   /* whose place the next one gets */
} qp_known;

void qp_known_free(qp_known *known);

/* Take up the rows of these sessions for the transaction that begins; false: not all of them are
 * believed. The rows live until qp_known_end(). */
bool qp_known_take(qp_known *known, const quipu_str *keys, size_t n, const qp_session **ret_rows);

/* A row as the transaction has read it under its lock. */
void qp_known_saw(qp_known *known, const qp_session *row);

/* What the row of a session must be like that was taken up and not changed since; false: it is
 * locked. */
bool qp_known_where(const qp_known *known, quipu_str key, qp_session_where *ret_where);

/* The transaction has changed the row so. */
void qp_known_left(qp_known *known, quipu_str key, const qp_session_patch *patch);

/* The transaction is over. What it took up and did not leave in a known way is forgotten. */
void qp_known_end(qp_known *known, bool stored);

#endif
