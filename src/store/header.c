/* What messages mean for the row of their session. Pure; called under the write lock by appends,
 * creations with a history, imports of other programs' files and the adoption of Lango's. */
#include "store/header.h"

#include <assert.h>

#include "base/str.h"

/* White space, and what else has no place in a line. */
static bool header_is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

/* The beginning of a text in one line: white space collapsed, cut behind a word, or behind a
 * character where the last word alone is longer than half of it. */
static void header_words(qp_header *header, quipu_str text)
{
    char *words = header->words;
    size_t n = 0;
    size_t word = 0; /* where the last word before the end begins, with the space in front of it */

    for (size_t i = 0; i < text.n && n < sizeof(header->words); i++) {
        if (!header_is_space(text.p[i])) {
            words[n++] = text.p[i];
        } else if (n > 0 && words[n - 1] != ' ') {
            word = n;
            words[n++] = ' ';
        }
    }
    if (n > QUIPU_FIRST_WORDS_MAX) {
        n = word > QUIPU_FIRST_WORDS_MAX / 2
                ? word
                : qp_utf8_cut((quipu_str){words, n}, QUIPU_FIRST_WORDS_MAX);
    }
    header->words_n = n > 0 && words[n - 1] == ' ' ? n - 1 : n;
}

void qp_header_begin(qp_header *header, const qp_session *row)
{
    header->next_seq = row != NULL ? row->next_seq : 1;
    header->message_count = row != NULL ? row->message_count : 0;
    header->token_count = row != NULL ? row->token_count : 0;
    header->turn_seq = row != NULL ? row->turn_seq : 0;
    header->last_event_at = (quipu_time){0, 0};
    header->wants_words = row == NULL || (row->first_words.p == NULL && row->turn_seq == 0);
    header->words_n = 0;
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
        if (header->wants_words) {
            header_words(header, message->content);
            header->wants_words = false;
        }
    }
}

void qp_header_counts(const qp_header *header, qp_session_patch *patch)
{
    patch->next_seq = ent_set(header->next_seq);
    patch->message_count = ent_set(header->message_count);
    patch->token_count = ent_set(header->token_count);
    if (header->words_n > 0) {
        patch->first_words = ent_set(((quipu_str){header->words, header->words_n}));
    }
}

void qp_header_patch(const qp_header *header, qp_session_patch *patch)
{
    qp_header_counts(header, patch);
    patch->turn_seq = ent_set(header->turn_seq);
    patch->last_event_at = ent_set(header->last_event_at);
}
