/* Whether the search index finds what it must hold, asked when a search found nothing.
 *
 * A damaged FTS5 index may look like an empty one: where its structure record or the table that
 * leads to its pages is wrong, each word seems to be in no message. So the newest message behind a
 * watermark is looked up by its first word. Damage to single pages is noticed by their checksums,
 * and the rest by verify.
 *
 * Owns: nothing. Called by: search_find.c.
 * Transactions: the caller's snapshot, in which watermarks and index agree.
 * On return: QUIPU_OK also where nothing is indexed. */
#include <assert.h>

#include "base/error.h"
#include "ent/forms.h"
#include "ent/nfc.h"
#include "ent/words.h"
#include "store/search.h"

#define SEARCH_PROBE_MESSAGES 8 /* of a session that are looked at for a word */

/* The newest indexed message of a session that has a word, and the word. */
typedef struct search_probe {
    int64_t session;
    int64_t seq; /* 0: none of the newest has one */
    char word[QP_TOKEN_BYTES_MAX + 2];
    size_t n; /* bytes of the word, with its quotes */
} search_probe;

/* A word that is found whatever form the text has: one of ASCII, or any where the text is in Form C
 * (ent/forms.h). In quotes it is not an operator. Folded letters are folded again to themselves. */
static bool search_probe_word(quipu_str text, search_probe *ret)
{
    const bool composed = qp_nfc_is(text);
    qp_word_reader reader;
    qp_word word;

    qp_words_begin(&reader, text, true);
    do {
        if (!qp_words_next(&reader, &word)) {
            return false;
        }
    } while (!composed && !qp_forms_is_ascii(word.text));
    assert(word.text.n > 0 && word.text.n <= QP_TOKEN_BYTES_MAX);
    ret->n = 0;
    ret->word[ret->n++] = '"';
    for (size_t i = 0; i < word.text.n; i++) {
        ret->word[ret->n++] = word.text.p[i];
    }
    ret->word[ret->n++] = '"';
    return true;
}

/* The newest messages of one session, until one has a word that can be asked for. */
static quipu_status search_probe_choose(ent_db *db, const qp_session *row, search_probe *ret,
                                        quipu_error *reterr)
{
    const qp_message_query query = {
        .limit = SEARCH_PROBE_MESSAGES,
        .order = {QP_MESSAGE_BY_SEQ(DESC)},
        .where = {.session_id = ent_eq(row->id), .seq = ent_le(row->indexed_seq)}};
    qp_message_iter iter;
    qp_message message;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    assert(row->indexed_seq > 0 && ret->seq == 0);
    if (status != QUIPU_OK) {
        return status;
    }
    ret->session = row->id;
    while (ret->seq == 0 && qp_message_iter_next(&iter, &message)) {
        ret->seq = search_probe_word(message.content, ret) ? message.seq : 0;
    }
    return qp_message_iter_end(&iter, reterr);
}

/* Looks the message up in the index. */
static quipu_status search_probe_ask(ent_db *db, const search_probe *probe, quipu_error *reterr)
{
    const qp_message_where where = {.session_id = ent_eq(probe->session),
                                    .seq = ent_eq(probe->seq)};
    ent_iter iter;
    ent_hit hit;
    bool found = false;
    quipu_status status =
        qp_message_hits_begin(db, (quipu_str){probe->word, probe->n}, &where, 1, &iter, reterr);

    assert(probe->seq > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    found = ent_hits_next(&iter, &hit);
    status = ent_iter_end(&iter, reterr);
    return status != QUIPU_OK || found
               ? status
               : qp_error_set(reterr, QUIPU_CORRUPT,
                              "the search index does not find a message that it must hold; repair "
                              "the store");
}

/* After a search that found nothing: asks the index for a word that it must have. An index that was
 * emptied by damage looks like one that simply has no hit. */
quipu_status qp_search_probe(ent_db *db, quipu_str tenant, quipu_error *reterr)
{
    const qp_session_query newest = {.limit = 1,
                                     .order = {QP_SESSION_BY_ID(DESC)},
                                     .where = {.tenant = ent_eq(tenant), .indexed_seq = ent_gt(0)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list list = {0};
    search_probe probe = {.seq = 0};
    quipu_status status = qp_session_find(db, &arena, &newest, &list, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK && list.n > 0) {
        status = search_probe_choose(db, &list.items[0], &probe, reterr);
    }
    if (status == QUIPU_OK && probe.seq > 0) {
        status = search_probe_ask(db, &probe, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}
