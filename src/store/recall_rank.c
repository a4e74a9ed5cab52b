/* Scores of messages and sessions, and the best of them: recall_rank.h has the formula.
 *
 *   add        messages of a group, by number ──▶ docs (those with a term) and their counts
 *   choose     which terms decide, and what each is worth
 *   words      of each doc          sessions   of each group          meanings   of each vector
 *   each       every message at most RECALL_RANK_REACH away from a doc, once, with all four parts
 *   keep       the best of them, in a heap
 *
 * A message without a word of the question is not a doc and takes no memory; it is a candidate
 * where a neighbour is one, because the answer often stands beside the words of the question.
 *
 * Owns the ranker's tables, in an arena of its own. Called by recall.c with the candidates that an
 * engine found. Pure arithmetic: no statement, no lock, and the same order for the same input on
 * every engine. */
#include "store/recall_rank.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/blake2b.h"
#include "ent/bm25.h"

#define RECALL_RANK_BYTES_MAX ((size_t)1 << 40) /* of records: memory ends before */
#define RECALL_RANK_REACH 2                     /* how far a neighbour counts */
#define RECALL_RANK_DIGEST_MAX 256              /* bytes of a text that gets a digest: 2 blocks */

const qp_recall_weights qp_recall_weights_default = {.k1 = QP_BM25_K1,
                                                     .b = QP_BM25_B,
                                                     .near = 0.5,
                                                     .far = 0.2,
                                                     .session = 0.5,
                                                     .date = 2,
                                                     .pair = 1.2,
                                                     .author = 1.2,
                                                     .vector = 0.4};

/* A text that has a term. Docs of messages are sorted by group and number, which the neighbours,
 * the sessions and the walk over candidates rely on. */
typedef struct recall_rank_doc {
    int64_t seq;
    uint32_t group;  /* its session, by its place in the scope */
    uint32_t length; /* words of content and author */
    size_t first;    /* of its counts */
    uint64_t digest; /* of a message's content; 0: none */
    int64_t tokens;  /* of a message */
    uint16_t count;
    bool pair;   /* two words stand side by side as in the question */
    bool author; /* the question names its author */
    bool date;   /* its day is one that the question names */
} recall_rank_doc;

/* A message that has a vector. */
typedef struct recall_rank_vector {
    int64_t seq;
    size_t group;
    double similarity;
} recall_rank_vector;

/* How often a doc has a term. The counts of a doc lie side by side, in the order of the
 * question. */
typedef struct recall_rank_count {
    uint16_t term;
    uint16_t count;
} recall_rank_count;

/* The tables of the scoring, once all messages are added. The ranker is not changed, so that it can
 * be asked again. */
typedef struct recall_rank {
    const qp_recall_ranker *ranker;
    const recall_rank_doc *docs; /* by group and number */
    size_t doc_count;
    const recall_rank_count *counts;
    const recall_rank_doc *memories; /* in the order they were added */
    size_t memory_count;
    double weight[QUIPU_RECALL_WORDS_MAX]; /* idf among all texts; 0: the term does not count */
    double *words;                         /* of each doc */
    double *sessions;                      /* of each group */
    double words_max;                      /* of words and neighbours together */
    double sessions_max;
    const qp_recall_part *parts; /* what the scope shows, by group and number */
    size_t part_count;
    const recall_rank_vector *vectors; /* in the same order */
    size_t vector_count;
    double *meanings; /* of each message with a vector... */
    double mean;      /* ...and of those that have none yet */
} recall_rank;

/* ---- adding -----------------------------------------------------------------------------------
 */

/* Buffers grow with what matches; messages without a word of the question only count for the mean
 * length. */
quipu_status qp_recall_ranker_init(qp_recall_ranker *ranker, quipu_arena *arena,
                                   const qp_recall_question *question,
                                   const qp_recall_weights *weights, size_t groups)
{
    memset(ranker, 0, sizeof(*ranker));
    ranker->question = question;
    ranker->weights = *weights;
    ranker->arena = arena;
    ranker->group_count = groups;
    qp_buf_init(&ranker->docs, RECALL_RANK_BYTES_MAX);
    qp_buf_init(&ranker->counts, RECALL_RANK_BYTES_MAX);
    qp_buf_init(&ranker->text, RECALL_RANK_BYTES_MAX);
    qp_buf_init(&ranker->nears, RECALL_RANK_BYTES_MAX);
    qp_buf_init(&ranker->memories, RECALL_RANK_BYTES_MAX);
    ranker->lengths = qp_arena_take(arena, (groups + 1) * sizeof(*ranker->lengths));
    if (ranker->lengths == NULL) {
        return QUIPU_NOMEM;
    }
    memset(ranker->lengths, 0, (groups + 1) * sizeof(*ranker->lengths));
    return QUIPU_OK;
}

/* The arena, with the best items in it, is the caller's; buffers are the ranker's. */
void qp_recall_ranker_free(qp_recall_ranker *ranker)
{
    qp_buf_free(&ranker->docs);
    qp_buf_free(&ranker->counts);
    qp_buf_free(&ranker->text);
    qp_buf_free(&ranker->nears);
    qp_buf_free(&ranker->memories);
}

uint64_t qp_recall_digest(quipu_str text)
{
    static const uint8_t none[QP_BLAKE2B_SALT] = {0};
    uint8_t bytes[QP_BLAKE2B_SIZE];
    qp_blake2b blake;
    uint64_t digest;

    static_assert(QP_BLAKE2B_PERSON == QP_BLAKE2B_SALT, "`none` is both");
    if (text.n > RECALL_RANK_DIGEST_MAX) {
        return 0;
    }
    qp_blake2b_begin(&blake, none, none);
    qp_blake2b_add(&blake, text.p, text.n);
    qp_blake2b_end(&blake, bytes);
    memcpy(&digest, bytes, sizeof(digest));
    return digest != 0 ? digest : 1;
}

/* Records the terms of a text in `docs`: those of its content, and of its author's name. */
static void recall_rank_record(qp_recall_ranker *ranker, const qp_recall_input *input, bool dated,
                               uint64_t digest, qp_buf *docs)
{
    const qp_recall_counts *content = &ranker->content;
    const qp_recall_counts *author = &ranker->author;
    recall_rank_doc doc;

    memset(&doc, 0, sizeof(doc)); /* its padding is copied, too */
    doc.seq = input->seq;
    doc.group = (uint32_t)input->group;
    doc.length = content->length + author->length;
    doc.first = ranker->counts.n / sizeof(recall_rank_count);
    doc.digest = digest;
    doc.tokens = input->tokens;
    doc.pair = content->pair;
    doc.author = author->met_count > 0;
    doc.date = dated;
    /* In the order of the question, so that equal messages get equal sums. */
    for (size_t term = 0; term < ranker->question->count; term++) {
        const uint32_t n = content->counts[term] + author->counts[term];

        if (n > 0) {
            const recall_rank_count count = {(uint16_t)term,
                                             (uint16_t)(n < UINT16_MAX ? n : UINT16_MAX)};
            qp_buf_put(&ranker->counts, (quipu_str){(const char *)&count, sizeof(count)});
            ranker->with[term]++;
            doc.count++;
        }
    }
    assert(doc.count > 0);
    qp_buf_put(docs, (quipu_str){(const char *)&doc, sizeof(doc)});
}

/* Counts the words of one text: *ret_length of them. The terms that it has are left in the ranker's
 * `content` and `author`. */
static quipu_status recall_rank_count_text(qp_recall_ranker *ranker, const qp_recall_input *input,
                                           int64_t *ret_length)
{
    quipu_status status;

    assert(input->group < ranker->group_count);
    qp_recall_counts_clear(&ranker->content);
    qp_recall_counts_clear(&ranker->author);
    status = qp_recall_count(ranker->question, input->content, &ranker->text, &ranker->content);
    if (status == QUIPU_OK) {
        status = qp_recall_count(ranker->question, input->author, &ranker->text, &ranker->author);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    *ret_length = (int64_t)ranker->content.length + ranker->author.length;
    ranker->texts++;
    ranker->length += *ret_length;
    return QUIPU_OK;
}

/* Whether the text that was counted last has a term. */
static bool recall_rank_met(const qp_recall_ranker *ranker)
{
    return ranker->content.met_count + ranker->author.met_count > 0;
}

/* Messages come in the order of their numbers within a group, which the neighbours rely on. */
quipu_status qp_recall_ranker_add(qp_recall_ranker *ranker, const qp_recall_input *input)
{
    int64_t length = 0;
    quipu_status status = recall_rank_count_text(ranker, input, &length);

    if (status != QUIPU_OK) {
        return status;
    }
    ranker->said += length;
    ranker->lengths[input->group] += length;
    if (recall_rank_met(ranker)) {
        recall_rank_record(ranker, input,
                           qp_recall_dates_match(&ranker->question->dates, input->timestamp),
                           qp_recall_digest(input->content), &ranker->docs);
    }
    status = qp_buf_status(&ranker->docs);
    return status == QUIPU_OK ? qp_buf_status(&ranker->counts) : status;
}

/* Its words are those of no session: the session as one text stays as it was said. */
quipu_status qp_recall_ranker_add_memory(qp_recall_ranker *ranker, const qp_recall_input *input,
                                         bool dated)
{
    int64_t length = 0;
    quipu_status status = recall_rank_count_text(ranker, input, &length);

    if (status != QUIPU_OK) {
        return status;
    }
    if (recall_rank_met(ranker)) {
        recall_rank_record(ranker, input, dated, 0, &ranker->memories);
    }
    status = qp_buf_status(&ranker->memories);
    return status == QUIPU_OK ? qp_buf_status(&ranker->counts) : status;
}

/* By group and number, as messages are added: recall_rank_vectors() walks along with them. */
quipu_status qp_recall_ranker_add_vector(qp_recall_ranker *ranker, size_t group, int64_t seq,
                                         double similarity)
{
    const recall_rank_vector vector = {seq, group, similarity};

    assert(group < ranker->group_count);
    qp_buf_put(&ranker->nears, (quipu_str){(const char *)&vector, sizeof(vector)});
    return qp_buf_status(&ranker->nears);
}

/* The buffer holds nothing else. */
size_t qp_recall_ranker_vectors(const qp_recall_ranker *ranker)
{
    return ranker->nears.n / sizeof(recall_rank_vector);
}

/* ---- scores -----------------------------------------------------------------------------------
 */

/* BM25's part of a term that a text has `count` times. `relative` is the text's length by the
 * average. */
static double recall_rank_part(const qp_recall_weights *weights, double idf, double count,
                               double relative)
{
    return qp_bm25_part(weights->k1, weights->b, idf, count, relative);
}

/* Weights of the rarest terms that occur, at most QUIPU_RECALL_TERMS_MAX; 0 for the others. Among
 * equally rare terms, the question's first ones count. */
static void recall_rank_choose(recall_rank *rank)
{
    const qp_recall_ranker *ranker = rank->ranker;

    for (size_t i = 0; i < ranker->question->count; i++) {
        size_t rarer = 0;

        for (size_t j = 0; j < ranker->question->count; j++) {
            rarer += ranker->with[j] > 0 && (ranker->with[j] < ranker->with[i] ||
                                             (j < i && ranker->with[j] == ranker->with[i]));
        }
        rank->weight[i] = ranker->with[i] > 0 && rarer < QUIPU_RECALL_TERMS_MAX
                              ? qp_bm25_idf(ranker->with[i], ranker->texts)
                              : 0;
    }
}

/* The words of one text. The factors are for the text as a whole and not for a term: a date
 * that fits, or an author who is named, says as much about a text of one common word as about
 * one of three rare ones. Lengths are those of content and author together, as the counts are. */
static double recall_rank_words(const recall_rank *rank, const recall_rank_doc *doc)
{
    const qp_recall_ranker *ranker = rank->ranker;
    const qp_recall_weights *weights = &ranker->weights;
    const double average = (double)ranker->length / (double)ranker->texts;
    double sum = 0;

    for (size_t i = 0; i < doc->count; i++) {
        const recall_rank_count *count = &rank->counts[doc->first + i];
        sum += recall_rank_part(weights, rank->weight[count->term], count->count,
                                doc->length / average);
    }
    return sum * (doc->pair ? weights->pair : 1) * (doc->author ? weights->author : 1) *
           (doc->date ? weights->date : 1);
}

/* One past the last doc of the group that begins with doc `at`. */
static size_t recall_rank_group_end(const recall_rank *rank, size_t at)
{
    const uint32_t group = rank->docs[at].group;

    assert(at < rank->doc_count);
    while (at < rank->doc_count && rank->docs[at].group == group) {
        at++;
    }
    return at;
}

/* Adds up the terms of docs `from` to `to`, one past the last: what a session as one text has. */
static void recall_rank_sum(const recall_rank *rank, size_t from, size_t to,
                            int64_t ret_sums[QUIPU_RECALL_WORDS_MAX])
{
    assert(from <= to);
    memset(ret_sums, 0, QUIPU_RECALL_WORDS_MAX * sizeof(*ret_sums));
    for (size_t i = from; i < to; i++) {
        for (size_t j = 0; j < rank->docs[i].count; j++) {
            const recall_rank_count *count = &rank->counts[rank->docs[i].first + j];
            ret_sums[count->term] += count->count;
        }
    }
}

/* BM25 with each session as one text. How rare a term is, is counted among sessions here: a word
 * that one conversation is about may be in a tenth of all messages and in one session of twenty.
 * Terms that were not chosen among the texts do not count here either. */
static void recall_rank_sessions(recall_rank *rank)
{
    const qp_recall_ranker *ranker = rank->ranker;
    const size_t terms = ranker->question->count;
    const double average = (double)ranker->said / (double)ranker->group_count;
    int64_t with[QUIPU_RECALL_WORDS_MAX] = {0};
    int64_t sums[QUIPU_RECALL_WORDS_MAX];
    size_t end;

    for (size_t at = 0; at < rank->doc_count; at = end) {
        end = recall_rank_group_end(rank, at);
        recall_rank_sum(rank, at, end, sums);
        for (size_t term = 0; term < terms; term++) {
            with[term] += sums[term] > 0;
        }
    }
    for (size_t at = 0; at < rank->doc_count; at = end) {
        const uint32_t group = rank->docs[at].group;
        double sum = 0;

        end = recall_rank_group_end(rank, at);
        recall_rank_sum(rank, at, end, sums);
        for (size_t term = 0; term < terms; term++) {
            if (sums[term] > 0 && rank->weight[term] > 0) {
                sum += recall_rank_part(
                    &ranker->weights, qp_bm25_idf(with[term], (int64_t)ranker->group_count),
                    (double)sums[term], (double)ranker->lengths[group] / average);
            }
        }
        rank->sessions[group] = sum;
        rank->sessions_max = sum > rank->sessions_max ? sum : rank->sessions_max;
    }
}

/* ---- the best ---------------------------------------------------------------------------------
 */

/* How many messages apart two are: by numbers, which have gaps only where messages were pruned. */
static int64_t recall_rank_way(int64_t left, int64_t right)
{
    return left > right ? left - right : right - left;
}

/* Called with one candidate, by group and number, each once. */
typedef void (*recall_rank_fn)(void *ctx, const recall_rank *rank, const qp_recall_best *found);

/* How similar the message of vector `at` and its neighbours are to the question. An answer stands
 * beside its question, in meaning as in words. */
static double recall_rank_similar(const recall_rank *rank, size_t at)
{
    const qp_recall_weights *weights = &rank->ranker->weights;
    const recall_rank_vector *own = &rank->vectors[at];
    const size_t from = at > RECALL_RANK_REACH ? at - RECALL_RANK_REACH : 0;
    double sum = 0;

    for (size_t i = from; i < rank->vector_count && i <= at + RECALL_RANK_REACH; i++) {
        const recall_rank_vector *vector = &rank->vectors[i];
        const int64_t way = recall_rank_way(vector->seq, own->seq);

        if (vector->group == own->group && way <= RECALL_RANK_REACH && vector->similarity > 0) {
            sum += vector->similarity * (way == 0 ? 1 : way == 1 ? weights->near : weights->far);
        }
    }
    return sum;
}

/* The meaning of each message with a vector, from 0 to 1, and the mean of all. Equally similar
 * messages, or one alone, are all the nearest: a scope of one message is found in other words,
 * too. */
static void recall_rank_meanings(recall_rank *rank)
{
    double least = 0;
    double most = 0;
    double sum = 0;

    for (size_t i = 0; i < rank->vector_count; i++) {
        const double similar = recall_rank_similar(rank, i);

        rank->meanings[i] = similar;
        least = i == 0 || similar < least ? similar : least;
        most = i == 0 || similar > most ? similar : most;
    }
    for (size_t i = 0; i < rank->vector_count; i++) {
        rank->meanings[i] = most > least ? (rank->meanings[i] - least) / (most - least)
                            : most > 0   ? 1
                                         : 0;
        sum += rank->meanings[i];
    }
    rank->mean = rank->vector_count > 0 ? sum / (double)rank->vector_count : 0;
}

/* Calls `fn` with the messages that have a vector and no word nearby, from *at up to `found`, and
 * gives `found` its own, or the mean: a worker has not come to it yet, and it must not yield to the
 * message beside it for that. found NULL: up to the end. */
static void recall_rank_vectors(const recall_rank *rank, size_t *at, qp_recall_best *found,
                                recall_rank_fn fn, void *ctx)
{
    if (found != NULL) {
        found->vector = rank->mean;
    }
    for (; *at < rank->vector_count; (*at)++) {
        const recall_rank_vector *vector = &rank->vectors[*at];
        const qp_recall_best alone = {
            .group = vector->group, .seq = vector->seq, .vector = rank->meanings[*at]};

        if (found != NULL && (vector->group > found->group ||
                              (vector->group == found->group && vector->seq > found->seq))) {
            break;
        }
        if (found != NULL && vector->group == found->group && vector->seq == found->seq) {
            found->vector = alone.vector;
        } else {
            fn(ctx, rank, &alone);
        }
    }
}

/* A candidate near doc `at`: the words of the docs within reach, which lie close by in the array.
 */
static qp_recall_best recall_rank_near(const recall_rank *rank, size_t at, int64_t seq)
{
    const qp_recall_weights *weights = &rank->ranker->weights;
    const uint32_t group = rank->docs[at].group;
    qp_recall_best found = {.group = group, .seq = seq};
    /* A doc within reach of the candidate is no further from doc `at` than twice the reach, in
     * numbers and so in places. */
    const size_t span = (size_t)2 * RECALL_RANK_REACH;
    const size_t from = at > span ? at - span : 0;

    assert(seq > 0);
    for (size_t i = from; i < rank->doc_count && i <= at + span; i++) {
        const int64_t way = recall_rank_way(rank->docs[i].seq, seq);

        if (rank->docs[i].group != group || way > RECALL_RANK_REACH) {
            continue;
        }
        if (way == 0) {
            found.words = rank->words[i];
            found.digest = rank->docs[i].digest;
            found.tokens = rank->docs[i].tokens;
        } else {
            found.neighbours += rank->words[i] * (way == 1 ? weights->near : weights->far);
        }
    }
    return found;
}

/* Whether the group has this message. *part is the place of the last answer: numbers ascend. */
static bool recall_rank_exists(const recall_rank *rank, size_t group, int64_t seq, size_t *part)
{
    size_t at = *part;

    assert(part != NULL);
    while (at < rank->part_count &&
           (rank->parts[at].group < group ||
            (rank->parts[at].group == group && rank->parts[at].to < seq))) {
        at++;
    }
    *part = at;
    return at < rank->part_count && rank->parts[at].group == group && rank->parts[at].from <= seq;
}

/* Calls `fn` with every message that has a term, a neighbour with one, or a vector, by group and
 * number. */
static void recall_rank_each(const recall_rank *rank, recall_rank_fn fn, void *ctx)
{
    int64_t last = 0;
    size_t part = 0;
    size_t vector = 0;

    for (size_t at = 0; at < rank->doc_count; at++) {
        const recall_rank_doc *doc = &rank->docs[at];

        if (at == 0 || rank->docs[at - 1].group != doc->group) {
            last = INT64_MIN;
        }
        for (int64_t way = -RECALL_RANK_REACH; way <= RECALL_RANK_REACH; way++) {
            const int64_t seq = doc->seq + way;

            /* Near several docs a candidate is met several times: numbers ascend, and it passes
             * once. */
            if (seq > last && recall_rank_exists(rank, doc->group, seq, &part)) {
                qp_recall_best found = recall_rank_near(rank, at, seq);

                recall_rank_vectors(rank, &vector, &found, fn, ctx);
                fn(ctx, rank, &found);
                last = seq;
            }
        }
    }
    recall_rank_vectors(rank, &vector, NULL, fn, ctx);
}

/* Calls `fn` with every memory that has a term. Memories have no vectors: each gets the mean, like
 * a message that no worker has filled yet. */
static void recall_rank_each_memory(const recall_rank *rank, recall_rank_fn fn, void *ctx)
{
    for (size_t i = 0; i < rank->memory_count; i++) {
        const recall_rank_doc *doc = &rank->memories[i];
        const qp_recall_best found = {.group = doc->group,
                                      .memory = (size_t)doc->seq,
                                      .words = recall_rank_words(rank, doc),
                                      .vector = rank->mean};

        fn(ctx, rank, &found);
    }
}

/* A recall_rank_fn: finds the maximum, which is ctx. Neighbours are part of it: a message of no
 * word at all may be the best, between two that have them. */
static void recall_rank_max(void *ctx, const recall_rank *rank, const qp_recall_best *found)
{
    double *max = ctx;

    (void)rank;
    if (found->words + found->neighbours > *max) {
        *max = found->words + found->neighbours;
    }
}

/* Whether a comes before b: by score, group, memories before messages (which have the number 0 and
 * a number above it), and then from the newest on. */
static bool recall_rank_before(const qp_recall_best *a, const qp_recall_best *b)
{
    if (a->score != b->score) {
        return a->score > b->score;
    }
    if (a->group != b->group) {
        return a->group < b->group;
    }
    if (a->seq == 0 || b->seq == 0) {
        return a->seq == b->seq ? a->memory < b->memory : a->seq == 0;
    }
    return a->seq > b->seq;
}

/* The best so far: a heap whose root is the worst of them, so that a candidate is compared with one
 * item, and most are dropped by that. */
typedef struct recall_rank_heap {
    qp_recall_best *items;
    size_t count;
    size_t room;
} recall_rank_heap;

/* Puts `item` into the place `at`, or below it, where everything above is worse. */
static void recall_rank_sink(recall_rank_heap *heap, size_t at, qp_recall_best item)
{
    assert(at < heap->count);
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < heap->count &&
            recall_rank_before(&heap->items[child], &heap->items[child + 1])) {
            child++;
        }
        if (child >= heap->count || !recall_rank_before(&item, &heap->items[child])) {
            break;
        }
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = item;
}

/* The final score. Words and neighbours are divided by the best of them, sessions by the best
 * session: what is left is between 0 and 1 + `session`, whatever the question's words are worth,
 * so that the weight of the meaning is a share and not a factor to be tuned for each corpus. */
static void recall_rank_score(const recall_rank *rank, qp_recall_best *item)
{
    const qp_recall_weights *weights = &rank->ranker->weights;
    const double share =
        rank->vector_count > 0 ? (1 - weights->vector) / (1 + weights->session) : 1;

    if (rank->words_max > 0) {
        item->words = share * item->words / rank->words_max;
        item->neighbours = share * item->neighbours / rank->words_max;
    }
    item->session = rank->sessions_max > 0 ? share * weights->session *
                                                 rank->sessions[item->group] / rank->sessions_max
                                           : 0;
    item->vector *= weights->vector;
    item->score = item->words + item->neighbours + item->session + item->vector;
}

/* A recall_rank_fn: ctx is the heap. While there is room an item rises from the end; then it takes
 * the place of the worst and sinks. */
static void recall_rank_keep(void *ctx, const recall_rank *rank, const qp_recall_best *found)
{
    recall_rank_heap *heap = ctx;
    qp_recall_best item = *found;

    if (item.words + item.neighbours + item.vector <= 0) {
        return; /* all of its terms were too common to count */
    }
    recall_rank_score(rank, &item);
    if (heap->count < heap->room) {
        size_t at = heap->count++;

        while (at > 0 && recall_rank_before(&heap->items[(at - 1) / 2], &item)) {
            heap->items[at] = heap->items[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        heap->items[at] = item;
    } else if (recall_rank_before(&item, &heap->items[0])) {
        recall_rank_sink(heap, 0, item);
    }
}

/* For qsort(). */
static int recall_rank_compare(const void *left, const void *right)
{
    return recall_rank_before(left, right) ? -1 : 1;
}

/* Two walks over the same scores: the largest is needed first, because it scales the others; then
 * the best are kept in a heap of the wanted size. */
quipu_status qp_recall_ranker_best(qp_recall_ranker *ranker, const qp_recall_part *parts,
                                   size_t part_count, size_t wanted, qp_recall_best **ret_best,
                                   size_t *ret_count)
{
    recall_rank rank = {.ranker = ranker,
                        .docs = (const void *)qp_buf_str(&ranker->docs).p,
                        .doc_count = ranker->docs.n / sizeof(recall_rank_doc),
                        .counts = (const void *)qp_buf_str(&ranker->counts).p,
                        .parts = parts,
                        .part_count = part_count,
                        .vectors = (const void *)qp_buf_str(&ranker->nears).p,
                        .vector_count = qp_recall_ranker_vectors(ranker),
                        .memories = (const void *)qp_buf_str(&ranker->memories).p,
                        .memory_count = ranker->memories.n / sizeof(recall_rank_doc)};
    recall_rank_heap heap = {.room = wanted};

    assert(wanted > 0);
    rank.words = qp_arena_take(ranker->arena, (rank.doc_count + 1) * sizeof(*rank.words));
    rank.sessions =
        qp_arena_take(ranker->arena, (ranker->group_count + 1) * sizeof(*rank.sessions));
    rank.meanings = qp_arena_take(ranker->arena, (rank.vector_count + 1) * sizeof(*rank.meanings));
    heap.items = qp_arena_take(ranker->arena, wanted * sizeof(*heap.items));
    if (rank.words == NULL || rank.sessions == NULL || rank.meanings == NULL ||
        heap.items == NULL) {
        return QUIPU_NOMEM;
    }
    recall_rank_choose(&rank);
    for (size_t i = 0; i < rank.doc_count; i++) {
        rank.words[i] = recall_rank_words(&rank, &rank.docs[i]);
    }
    memset(rank.sessions, 0, (ranker->group_count + 1) * sizeof(*rank.sessions));
    recall_rank_sessions(&rank);
    recall_rank_meanings(&rank);
    recall_rank_each(&rank, recall_rank_max, &rank.words_max);
    recall_rank_each_memory(&rank, recall_rank_max, &rank.words_max);
    if (rank.words_max > 0 || rank.vector_count > 0) {
        recall_rank_each(&rank, recall_rank_keep, &heap);
        recall_rank_each_memory(&rank, recall_rank_keep, &heap);
    }
    qsort(heap.items, heap.count, sizeof(*heap.items), recall_rank_compare);
    *ret_best = heap.items;
    *ret_count = heap.count;
    return QUIPU_OK;
}
