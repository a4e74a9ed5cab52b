/* Ending a child session: the merge into its parent, or its removal.
 *
 * Owns the one transaction in which both sessions change, so that a merge that failed can be tried
 * again, and one that succeeded cannot happen twice. Called by the ADK room (adk/child.c), which
 * holds the lock of the parent's live session. Two sessions change, so that the transaction is
 * exclusive. On QUIPU_OK the parent has the messages, and the child is marked as merged or is
 * gone. */
#include "store/state_child.h"

#include <assert.h>

#include "base/error.h"
#include "base/json.h"
#include "store/append.h"
#include "store/last_change.h"

/* One end of a child; `encoded` holds the messages for the parent, encoded before the lock. */
typedef struct state_child_call {
    quipu_store *store;
    qp_child_end *end; /* of the caller; a conflict writes the revision of the parent into it */
    qp_encoded encoded;
} state_child_call;

/* Whether the metadata say that the child was merged: the mark that an earlier merge left. */
static quipu_status state_child_merged(quipu_json metadata, bool *ret_merged)
{
    qp_json_doc doc;
    quipu_status status = QUIPU_OK;

    *ret_merged = false;
    if (metadata.text.p == NULL) {
        return QUIPU_OK;
    }
    /* Metadata that cannot be parsed fail the merge: whether it happened is not known. */
    qp_json_init(&doc);
    status = qp_json_parse(&doc, metadata.text, NULL, NULL);
    if (status == QUIPU_OK) {
        qp_json_node child = qp_json_get(qp_json_root(&doc), QUIPU_STR(QP_CHILD_MEMBER));
        *ret_merged = qp_json_get(child, QUIPU_STR(QP_CHILD_MERGED)).doc != NULL;
    }
    qp_json_free(&doc);
    return status;
}

/* Loads both rows and decides, before the first write, whether the child may end. The child comes
 * first, so that a second merge fails with QUIPU_EXISTS also after the parent has moved on. */
static quipu_status state_child_check(state_child_call *call, ent_db *db, quipu_arena *scratch,
                                      quipu_time now, const qp_session **ret_parent,
                                      const qp_session **ret_child, quipu_error *reterr)
{
    qp_child_end *end = call->end;
    bool merged = false;
    quipu_status status =
        qp_session_load(call->store, db, scratch, end->child, now, ret_child, reterr);

    if (status != QUIPU_OK) {
        return qp_store_fail(status, "find the child", end->child, reterr);
    }
    status = state_child_merged((*ret_child)->metadata, &merged);
    assert(status == QUIPU_OK || !merged);
    if (status == QUIPU_OK && merged) {
        return qp_error_set(reterr, QUIPU_EXISTS, "child session is already merged");
    }
    /* The caller made the messages out of what it read of the child: they must still be all of
     * it. */
    if (status == QUIPU_OK && end->child_revision >= 0 &&
        end->child_revision != (*ret_child)->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "somebody wrote to the child while it was read; try again");
    }
    if (status == QUIPU_OK) {
        status = qp_session_load(call->store, db, scratch, end->parent, now, ret_parent, reterr);
    }
    if (status == QUIPU_OK && end->expected_revision >= 0 &&
        end->expected_revision != (*ret_parent)->revision) {
        end->revision = (*ret_parent)->revision;
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "its revision is %lld, not %lld: somebody else changed it first; "
                            "reload and try again",
                            (long long)(*ret_parent)->revision, (long long)end->expected_revision);
    }
    /* Decided before the first write, as append.c does: the numbers of a session end at a limit. */
    if (status == QUIPU_OK &&
        (*ret_parent)->next_seq > ENT_CLUSTER_SEQ_MAX - (int64_t)call->encoded.count + 1) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a session holds at most %lld messages",
                            (long long)ENT_CLUSTER_SEQ_MAX);
    }
    return status;
}

/* The parent gets its messages through the ordinary append, with its cap and its search index. Then
 * the child is removed, or keeps its messages and gets metadata that say so. */
static quipu_status state_child_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    state_child_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *parent = NULL;
    const qp_session *child = NULL;
    quipu_status status = state_child_check(call, db, scratch, now, &parent, &child, reterr);

    assert(ent_depth(db) > 0);
    assert(status != QUIPU_OK || (parent != NULL && child != NULL && parent->id != child->id));
    if (status == QUIPU_OK && call->encoded.count > 0) {
        status = qp_append_write(call->store, db, scratch, parent, &call->encoded, now, reterr);
    }
    /* A discarded child leaves nothing, unless it has forks itself: then its messages stay for
     * them. */
    if (status == QUIPU_OK && call->end->metadata.text.p == NULL) {
        return qp_session_remove(call->store, db, child, reterr);
    }
    if (status == QUIPU_OK) {
        qp_session_patch patch = {.metadata = ent_set(call->end->metadata),
                                  .revision = ent_set(child->revision + 1)};

        /* The parent has its answers now, and counts them. */
        if (call->encoded.count > 0 && child->answer_count > 0) {
            patch.prompt_total = patch.cached_total = ent_set((int64_t)0);
            patch.answer_total = patch.answer_count = ent_set((int64_t)0);
            patch.usage_span = ent_set((int64_t)0);
            status = qp_usage_remove(db, child->id, reterr);
        }
        qp_last_change_set(child, now, &patch);
        if (status == QUIPU_OK) {
            status = qp_session_update(db, &(qp_session_where){.id = ent_eq(child->id)}, &patch,
                                       NULL, reterr);
        }
    }
    return status;
}

/* `end->revision` is written when the parent has another revision than expected: the caller knows
 * then how far behind it is. */
quipu_status qp_child_finish(quipu_store *store, qp_child_end *end, const quipu_call_options *call,
                             quipu_error *reterr)
{
    state_child_call finish = {.store = store, .end = end};
    qp_call within;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, call, &within, reterr);

    assert(!quipu_str_eq(end->parent, end->child));
    assert(end->messages != NULL || end->count == 0);
    if (status == QUIPU_OK) {
        status = qp_key_check(end->parent, reterr);
    }
    if (status == QUIPU_OK) {
        /* Before the transaction, as for every append: what is refused costs no lock. */
        status = qp_encoded_make(&finish.encoded, QP_MESSAGES_GIVEN,
                                 quipu_messages_of(end->messages, end->count),
                                 store->message_bytes_max, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, state_child_work, &finish, reterr);
    }
    qp_encoded_free(&finish.encoded);
    qp_store_leave(&within);
    return qp_store_fail(status, "end a child of", end->parent, reterr);
}
