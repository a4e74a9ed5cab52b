/* What messages mean for the row of their session. Pure; called under the write lock by appends,
 * creations with a history, imports of other programs' files and the adoption of Lango's. */
#include "store/header.h"

#include <assert.h>

void qp_header_begin(qp_header *header, const qp_session *row)
{
    header->next_seq = row != NULL ? row->next_seq : 1;
    header->message_count = row != NULL ? row->message_count : 0;
    header->token_count = row != NULL ? row->token_count : 0;
    header->turn_seq = row != NULL ? row->turn_seq : 0;
    header->last_event_at = (quipu_time){0, 0};
}

void qp_header_see(qp_header *header, const qp_message_new *message)
{
    assert(message->seq == header->next_seq);
    header->next_seq++;
    header->message_count++;
    header->token_count += message->tokens;
    header->last_event_at = message->timestamp.v;
    if (message->role == QP_MESSAGE_ROLE_USER && message->tool_calls.text.p == NULL) {
        header->turn_seq = message->seq;
    }
}

void qp_header_counts(const qp_header *header, qp_session_patch *patch)
{
    patch->next_seq = ent_set(header->next_seq);
    patch->message_count = ent_set(header->message_count);
    patch->token_count = ent_set(header->token_count);
}

void qp_header_patch(const qp_header *header, qp_session_patch *patch)
{
    qp_header_counts(header, patch);
    patch->turn_seq = ent_set(header->turn_seq);
    patch->last_event_at = ent_set(header->last_event_at);
}
