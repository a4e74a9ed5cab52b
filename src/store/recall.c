/* Recall: reads the messages of a scope, ranks them, loads the best.
 *
 * Owns: all of quipu_recall() but its question to an embedder. Called by src/memory/recall.c.
 * Transactions: one reading transaction for everything, so that all is of one snapshot; no lock.
 * Takes no part in the search index: it works on the messages themselves, in Form C and by stems,
 * and costs nothing until it is called.
 *
 *   scope (recall_scope.c) ─▶ each message (recall_rank.c) ─▶ the best ─▶ rows, without duplicates
 *                         ├─▶ each vector (vector.c)  ──┤ when the question has one
 *                         └─▶ memories (recall_memory.c)┘ when they are asked for
 */
#include "store/recall.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"
#include "base/result.h"
#include "base/str.h"
#include "store/fork_chain.h"
#include "store/memory.h"
#include "store/message.h"
#include "store/recall_memory.h"
#include "store/recall_scope.h"

/* How many of the best are read for a limit: for 10 hits 104. Texts that the ranker knows to be
 * repeated, empty or beyond the budget are passed over without being read or counted. Where rows
 * turn out to be repeated or empty, more are read. */
#define RECALL_SPARE 64  /* more than are wanted... */
#define RECALL_GROWTH 4  /* ...and this many times as many as are wanted */
#define RECALL_REPEATS 4 /* rows that are read at most, times those that are looked at */

/* The result that callers get; its arena owns hits and texts. */
typedef struct recall_results {
    qp_result head;           /* its arena has hits and texts */
    quipu_recall_results pub; /* what the caller has, and frees with quipu_free() */
} recall_results;

QP_RESULT(recall_results);

/* One call. Everything but `results` is the caller's and outlives it. */
typedef struct recall_call {
    const quipu_store *store;
    quipu_recall_options options; /* checked; the limit is not 0 */
    const qp_recall_weights *weights;
    const qp_vector_question *meaning; /* without a model: by words alone */
    recall_results *results;           /* filled anew by every run */
} recall_call;

/* QUIPU_NOMEM, or QUIPU_LIMIT where a buffer is full. */
static quipu_status recall_nomem(quipu_status status, quipu_error *reterr)
{
    return qp_error_set(reterr, status, "out of memory for a recall");
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* One part on its way into the ranker. */
typedef struct recall_reading {
    qp_recall_ranker *ranker;
    size_t group;        /* of the part that is read */
    quipu_status status; /* of the ranker; a failure ends the iteration */
} recall_reading;

/* A qp_chain_fn. Texts of the row are valid until the next one: the ranker keeps numbers only. */
static bool recall_read_row(void *ctx, const qp_message *row)
{
    recall_reading *reading = ctx;
    const qp_recall_input input = {reading->group, row->seq,       row->author,
                                   row->content,   row->timestamp, row->tokens};

    reading->status = qp_recall_ranker_add(reading->ranker, &input);
    return reading->status == QUIPU_OK;
}

/* Every message of a part goes to the ranker once, in the order of its numbers. The iteration
 * stops early only when the ranker has no memory. */
static quipu_status recall_read_part(ent_db *db, const qp_recall_part *part,
                                     qp_recall_ranker *ranker, quipu_error *reterr)
{
    const qp_segment segment = {part->holder, part->from, part->to};
    recall_reading reading = {.ranker = ranker, .group = part->group, .status = QUIPU_OK};
    bool more = true;
    quipu_status status =
        qp_segment_each(db, &segment, false, recall_read_row, &reading, &more, reterr);

    assert(more || reading.status != QUIPU_OK);
    return status == QUIPU_OK && !more ? recall_nomem(reading.status, reterr) : status;
}

/* A qp_vector_fn. Vectors come by number, as messages do; those of another length or model were
 * left out by the reader. */
static quipu_status recall_read_vector(void *ctx, int64_t seq, double similarity)
{
    const recall_reading *reading = ctx;

    return qp_recall_ranker_add_vector(reading->ranker, reading->group, seq, similarity);
}

/* Ranks one part by the question's words, and by its meaning. A question without a term (nothing
 * but punctuation) reads no message, and one without a vector no table of vectors. */
static quipu_status recall_read(const recall_call *call, ent_db *db, const qp_recall_part *part,
                                qp_recall_ranker *ranker, quipu_error *reterr)
{
    recall_reading reading = {.ranker = ranker, .group = part->group};
    quipu_status status = QUIPU_OK;

    if (ranker->question->count > 0) {
        status = recall_read_part(db, part, ranker, reterr);
    }
    return status == QUIPU_OK && call->meaning->model.n > 0
               ? qp_vector_each(db, call->meaning, part->holder, part->from, part->to,
                                recall_read_vector, &reading, reterr)
               : status;
}

/* ---- the hits ---------------------------------------------------------------------------------
 */

/* Where a message lies: binary search among the parts, which are sorted by group and number. It
 * is in one of them, because the ranker was given nothing else. */
static const qp_recall_part *recall_part_of(const qp_recall_scope *scope,
                                            const qp_recall_best *best)
{
    size_t low = 0;
    size_t high = scope->part_count;

    while (low < high) {
        const size_t at = (low + high) / 2;
        const qp_recall_part *part = &scope->parts[at];

        if (part->group < best->group || (part->group == best->group && part->to < best->seq)) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    assert(low < scope->part_count && scope->parts[low].group == best->group &&
           scope->parts[low].from <= best->seq);
    return &scope->parts[low];
}

/* Hits on their way to the caller. */
typedef struct recall_loading {
    const recall_call *call;
    ent_db *db;
    const qp_recall_scope *scope;
    const qp_recall_memories *memories;
    quipu_recall_hit *hits;
    uint8_t (*hashes)[QP_SHA256_SIZE]; /* of the hits, to compare memories; NULL: without them */
    uint64_t *digests;                 /* of the texts that became hits... */
    uint64_t empty;                    /* ...and of the empty text, which never does */
    size_t taken;
    size_t repeats; /* rows that were read for nothing: repeated or empty */
    int64_t left;   /* of the budget */
} recall_loading;

/* The ranker's results: as many as were wanted so far. */
typedef struct recall_ranked {
    qp_recall_ranker *ranker;
    size_t looks; /* how many are wanted first */
    size_t wanted;
    qp_recall_best *best;
    size_t count;
    size_t at; /* the next one; those before were looked at */
} recall_ranked;

/* Whether the ranker knows that one of the best becomes no hit. Equal digests are equal texts. */
static bool recall_is_out(const recall_loading *loading, const qp_recall_best *best)
{
    size_t at = 0;

    if (best->tokens > loading->left || best->digest == loading->empty) {
        return true;
    }
    while (at < loading->taken && loading->digests[at] != best->digest) {
        at++;
    }
    return best->digest != 0 && at < loading->taken;
}

/* Whether a text is among the hits already. Messages are compared byte by byte: a quotation is a
 * text of its own. Memories are compared as the store compares them, by what a reader sees. Hits
 * are at most QUIPU_RECALL_LIMIT_MAX, and few are alike, so that a list will do. */
static bool recall_is_repeated(const recall_loading *loading, quipu_str content,
                               const uint8_t *hash, bool is_memory)
{
    size_t at = 0;

    while (at < loading->taken && !quipu_str_eq(loading->hits[at].content, content) &&
           (hash == NULL || (!is_memory && loading->hits[at].memory == NULL) ||
            memcmp(loading->hashes[at], hash, QP_SHA256_SIZE) != 0)) {
        at++;
    }
    return at < loading->taken;
}

/* The newest memory that says what a message says; NULL: none does. */
static const qp_recall_memory *recall_memory_like(const qp_recall_memories *memories,
                                                  const uint8_t *hash)
{
    for (size_t i = 0; i < memories->count; i++) {
        const qp_recall_memory *item = qp_recall_memory_at(memories, i);

        if (memcmp(item->hash, hash, QP_SHA256_SIZE) == 0) {
            return item;
        }
    }
    return NULL;
}

/* Why a row became no hit. Damage is named with its message, since the caller can only repair that;
 * anything else was a lack of memory. */
static quipu_status recall_failed(int64_t seq, quipu_status status, quipu_error *reterr)
{
    return status == QUIPU_CORRUPT
               ? qp_error_set(reterr, status, "message %lld is damaged; restore a backup",
                              (long long)seq)
               : recall_nomem(status, reterr);
}

/* The score of a hit, and its parts. */
static void recall_fill_score(const qp_recall_best *best, quipu_recall_hit *hit)
{
    hit->score = best->score;
    hit->from_words = best->words;
    hit->from_neighbours = best->neighbours;
    hit->from_session = best->session;
    hit->from_vector = best->vector;
}

/* Copies a message to a hit: after the transaction its texts belong to nobody. The caller's struct
 * is set when all copies were made. */
static quipu_status recall_fill(quipu_arena *arena, const qp_message *row, quipu_str key,
                                quipu_recall_hit *ret)
{
    quipu_recall_hit hit = {.seq = row->seq,
                            .role = (quipu_role)row->role,
                            .timestamp = row->timestamp,
                            .tokens = row->tokens};
    quipu_status status = quipu_arena_copy(arena, key, &hit.session_key);

    assert(ret != NULL);
    if (status == QUIPU_OK) {
        status = qp_event_id_text(row->event_id, arena, &hit.event_id);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, row->author, &hit.author);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, row->content, &hit.content);
    }
    *ret = hit;
    return status;
}

/* Tokens of a memory, estimated when it was saved without a number. */
static int64_t recall_memory_tokens(const quipu_memory *memory)
{
    return memory->token_count > 0 ? memory->token_count : quipu_token_estimate(memory->content);
}

/* The same of a memory, which the hit has as a whole. */
static quipu_status recall_fill_memory(quipu_arena *arena, const quipu_memory *from,
                                       quipu_recall_hit *ret)
{
    quipu_memory *memory = qp_arena_take(arena, sizeof(*memory));
    quipu_status status = memory != NULL ? qp_recall_memory_copy(from, arena, memory) : QUIPU_NOMEM;

    if (status == QUIPU_OK) {
        *ret = (quipu_recall_hit){.session_key = memory->session_key,
                                  .timestamp =
                                      memory->has_said_at ? memory->said_at : memory->created_at,
                                  .content = memory->content,
                                  .tokens = recall_memory_tokens(memory),
                                  .memory = memory};
    }
    return status;
}

/* Takes one of the best, unless it has no text, is repeated, or does not fit. A message that a
 * memory says again gives its place to the memory, which has the time that it is about, and says
 * which message it is of. `row` is NULL for a memory. */
static quipu_status recall_take(recall_loading *loading, const qp_recall_best *best,
                                const qp_message *row, quipu_error *reterr)
{
    quipu_arena *arena = &loading->call->results->head.arena;
    quipu_recall_hit *hit = &loading->hits[loading->taken];
    const qp_recall_memory *item =
        row == NULL ? qp_recall_memory_at(loading->memories, best->memory) : NULL;
    const quipu_str content = row != NULL ? row->content : item->memory.content;
    uint8_t own[QP_SHA256_SIZE];
    const uint8_t *hash = item != NULL ? item->hash : NULL;
    quipu_status status;

    if (row != NULL && loading->hashes != NULL) {
        qp_memory_hash(content, own);
        hash = own;
        item = recall_memory_like(loading->memories, own);
    }
    const int64_t tokens = item != NULL ? recall_memory_tokens(&item->memory) : row->tokens;

    if (content.n == 0 || recall_is_repeated(loading, content, hash, item != NULL)) {
        loading->repeats++;
        return QUIPU_OK;
    }
    if (tokens > loading->left) {
        return QUIPU_OK;
    }
    status = item != NULL ? recall_fill_memory(arena, &item->memory, hit)
                          : recall_fill(arena, row, loading->scope->keys[best->group], hit);
    if (status != QUIPU_OK) {
        return recall_failed(row != NULL ? row->seq : 0, status, reterr);
    }
    recall_fill_score(best, hit);
    if (hash != NULL) {
        memcpy(loading->hashes[loading->taken], hash, QP_SHA256_SIZE);
    }
    loading->digests[loading->taken] = qp_recall_digest(content);
    loading->left -= tokens;
    loading->taken++;
    return QUIPU_OK;
}

/* Room for the hits and what they are compared by. */
static quipu_status recall_loading_begin(recall_loading *loading, quipu_error *reterr)
{
    quipu_arena *arena = &loading->call->results->head.arena;
    const size_t limit = (size_t)loading->call->options.limit;
    const bool remembers = loading->memories->count > 0;

    loading->hits = qp_arena_take(arena, limit * sizeof(*loading->hits));
    loading->digests = qp_arena_take(arena, limit * sizeof(*loading->digests));
    loading->empty = qp_recall_digest(QUIPU_STR(""));
    if (remembers) {
        loading->hashes = qp_arena_take(arena, limit * sizeof(*loading->hashes));
    }
    return loading->hits != NULL && loading->digests != NULL &&
                   (!remembers || loading->hashes != NULL)
               ? QUIPU_OK
               : recall_nomem(QUIPU_NOMEM, reterr);
}

/* Loads one of the best: a message by its key, with one read. */
static quipu_status recall_load_one(recall_loading *loading, const qp_recall_best *best,
                                    quipu_arena *scratch, quipu_error *reterr)
{
    const qp_message *row = NULL;
    quipu_status status = QUIPU_OK;

    if (best->seq > 0) {
        status = qp_message_get(loading->db, scratch, recall_part_of(loading->scope, best)->holder,
                                best->seq, &row, reterr);
    }
    if (status == QUIPU_OK) {
        status = recall_take(loading, best, row, reterr);
    }
    quipu_arena_reset(scratch);
    return status;
}

/* The best, one after the other; at the end of those that are ranked, several times as many are
 * ranked, which begin with the same ones. *ret_best is NULL when there are no more. */
static quipu_status recall_next(recall_ranked *ranked, const qp_recall_scope *scope,
                                const qp_recall_best **ret_best, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(ranked->at <= ranked->count && ranked->count <= ranked->wanted);
    if (ranked->at == ranked->wanted) {
        ranked->wanted = ranked->at == 0 ? ranked->looks : RECALL_GROWTH * ranked->wanted;
        status = qp_recall_ranker_best(ranked->ranker, scope->parts, scope->part_count,
                                       ranked->wanted, &ranked->best, &ranked->count);
    }
    if (status != QUIPU_OK) {
        return recall_nomem(status, reterr);
    }
    *ret_best = ranked->at < ranked->count ? &ranked->best[ranked->at++] : NULL;
    return QUIPU_OK;
}

/* Takes hits from the first of the best on, until there are enough: without messages that have no
 * text or a text that a better hit has, and without what does not fit into the budget. */
static quipu_status recall_load(recall_loading *loading, qp_recall_ranker *ranker,
                                quipu_error *reterr)
{
    const size_t limit = (size_t)loading->call->options.limit;
    recall_ranked ranked = {.ranker = ranker, .looks = RECALL_SPARE + RECALL_GROWTH * limit};
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_status status = recall_loading_begin(loading, reterr);
    size_t reads = 0;
    bool more = true;

    while (status == QUIPU_OK && more && loading->taken < limit &&
           reads - loading->repeats < ranked.looks && reads < RECALL_REPEATS * ranked.looks) {
        const qp_recall_best *best = NULL;

        status = recall_next(&ranked, loading->scope, &best, reterr);
        more = best != NULL;
        if (status == QUIPU_OK && more && !recall_is_out(loading, best)) {
            reads++;
            status = recall_load_one(loading, best, &scratch, reterr);
        }
    }
    quipu_arena_free(&scratch);
    loading->call->results->pub.hits = quipu_recall_hits_of(loading->hits, loading->taken);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------
 */

/* Reads all parts, ranks and loads. */
static quipu_status recall_rank_scope(const recall_call *call, ent_db *db, quipu_arena *scratch,
                                      const qp_recall_scope *scope,
                                      const qp_recall_memories *memories,
                                      const qp_recall_question *question, quipu_error *reterr)
{
    quipu_recall_results *pub = &call->results->pub;
    recall_loading loading = {.call = call,
                              .db = db,
                              .scope = scope,
                              .memories = memories,
                              .left = call->options.budget > 0 ? call->options.budget : INT64_MAX};
    qp_recall_ranker *ranker = qp_arena_take(scratch, sizeof(*ranker));
    quipu_status status;

    if (ranker == NULL) {
        return recall_nomem(QUIPU_NOMEM, reterr);
    }
    status = qp_recall_ranker_init(ranker, scratch, question, call->weights, scope->count);
    if (status != QUIPU_OK) {
        (void)recall_nomem(status, reterr);
    }
    for (size_t i = 0; i < scope->part_count && status == QUIPU_OK; i++) {
        pub->messages += scope->parts[i].to - scope->parts[i].from + 1;
        status = recall_read(call, db, &scope->parts[i], ranker, reterr);
    }
    if (status == QUIPU_OK && qp_recall_memories_rank(memories, ranker) != QUIPU_OK) {
        status = recall_nomem(QUIPU_NOMEM, reterr);
    }
    pub->vectors = (int64_t)qp_recall_ranker_vectors(ranker);
    if (status == QUIPU_OK && (ranker->texts > 0 || pub->vectors > 0)) {
        status = recall_load(&loading, ranker, reterr);
    }
    qp_recall_ranker_free(ranker);
    return status;
}

/* A qp_store_read() work. May run again, in another snapshot: results of a run before are dropped,
 * and nothing but `results` is kept from one run to the next. */
static quipu_status recall_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    const recall_call *call = ctx;
    const qp_recall_question *question = NULL;
    qp_recall_scope scope = {.count = 0};
    qp_recall_memories memories;
    quipu_status status;

    qp_recall_memories_init(&memories);
    quipu_arena_free(&call->results->head.arena);
    call->results->pub = (quipu_recall_results){.hits = quipu_recall_hits_of(NULL, 0)};
    status = qp_recall_question_make(scratch, call->options.question, &question, reterr);
    if (status == QUIPU_OK) {
        status = qp_recall_scope_read(call->store, db, &call->options, QP_RECALL_SESSIONS_ANY,
                                      scratch, &scope, reterr);
    }
    if (status == QUIPU_OK) {
        call->results->pub.sessions = (int64_t)scope.count;
        call->results->pub.terms = (int64_t)question->count;
    }
    /* Without a term none of them could be found: they have no vectors. */
    if (status == QUIPU_OK && (call->options.flags & QUIPU_RECALL_MEMORIES) != 0 &&
        question->count > 0) {
        status =
            qp_recall_memories_read(call->store, db, &call->options, &scope, &memories, reterr);
        call->results->pub.memories = (int64_t)memories.count;
    }
    if (status == QUIPU_OK) {
        status = recall_rank_scope(call, db, scratch, &scope, &memories, question, reterr);
    }
    qp_recall_memories_free(&memories);
    return status;
}

/* Exactly one scope; everything only by its flag. A scope that was forgotten must not become the
 * widest one: the best hit of everybody's messages is mostly somebody else's. */
static quipu_status recall_check_scope(const quipu_recall_options *options, quipu_error *reterr)
{
    const bool everything = (options->flags & QUIPU_RECALL_EVERYTHING) != 0;
    const int scopes =
        (options->session_key.p != NULL) + (options->app_name.p != NULL) + (everything ? 1 : 0);

    if (options->user_id.p != NULL && options->app_name.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a recall for a user needs the app of the user");
    }
    if (scopes != 1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a recall needs one scope: a session, an app, a user within an app, or "
                            "QUIPU_RECALL_EVERYTHING; %d were given",
                            scopes);
    }
    if ((options->before_seq != 0 || options->from_seq != 0) && options->session_key.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "before_seq and from_seq need the session that they are of");
    }
    if (qp_text_check(options->app_name, NULL) != QP_TEXT_OK ||
        qp_text_check(options->user_id, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "the app or the user is no UTF-8 without NUL");
    }
    return options->session_key.p != NULL ? qp_key_check(options->session_key, reterr) : QUIPU_OK;
}

/* The caller's options, with the default of the limit. Any text is a question: bytes that are no
 * UTF-8 stand between its words. */
static quipu_status recall_check(quipu_recall_options *options, quipu_error *reterr)
{
    if (options->question.p == NULL ||
        (options->flags & ~(QUIPU_RECALL_EVERYTHING | QUIPU_RECALL_MEMORIES)) != 0 ||
        options->limit < 0 || options->budget < 0 || options->before_seq < 0 ||
        options->from_seq < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a recall needs a question, known flags, and no negative limit, budget "
                            "or number");
    }
    if (options->question.n > QUIPU_RECALL_QUESTION_MAX ||
        options->limit > QUIPU_RECALL_LIMIT_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a question of %zu bytes with %lld hits; at most %d bytes and %d hits "
                            "are allowed: ask with fewer words",
                            options->question.n, (long long)options->limit,
                            QUIPU_RECALL_QUESTION_MAX, QUIPU_RECALL_LIMIT_MAX);
    }
    options->limit = options->limit == 0 ? QUIPU_RECALL_LIMIT_DEFAULT : options->limit;
    assert(options->limit > 0);
    return recall_check_scope(options, reterr);
}

/* Copies as much of the caller's struct as it has: an older program's is shorter, and the rest gets
 * its defaults. All options are checked before the store is read. */
quipu_status qp_recall_options_read(const quipu_recall_options *given, quipu_recall_options *ret,
                                    quipu_error *reterr)
{
    quipu_status status;

    if (given == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a recall needs options");
    }
    *ret = (quipu_recall_options)QUIPU_RECALL_OPTIONS_INIT;
    status = qp_options_read(ret, sizeof(*ret), given, "quipu_recall_options", reterr);
    return status == QUIPU_OK ? recall_check(ret, reterr) : status;
}

/* The options are checked, and the question's vector is made. On a server the whole recall is one
 * request: scopes and limits hold there as here, and its answer has the same parts. On failure the
 * results are freed and *ret_results is untouched. */
quipu_status qp_recall_run(quipu_store *store, const quipu_recall_options *options,
                           const qp_recall_weights *weights, const qp_vector_question *meaning,
                           const qp_call *within, quipu_recall_results **ret_results,
                           quipu_error *reterr)
{
    recall_call recall = {
        .store = store, .options = *options, .weights = weights, .meaning = meaning};
    quipu_status status;

    assert(options->limit > 0);
    recall.results = qp_result_new(sizeof(*recall.results));
    if (recall.results == NULL) {
        return recall_nomem(QUIPU_NOMEM, reterr);
    }
    if (!qp_store_is_remote(store)) {
        status = qp_store_read(store, within, recall_work, &recall, reterr);
    } else if (meaning->count > 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "a server does not take an embedder's vector: leave out embedder");
    } else {
        status = store->remote.recall(store->remote.ctx, within, &recall.options,
                                      &recall.results->head.arena, &recall.results->pub, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_results = &recall.results->pub;
    } else {
        quipu_free(&recall.results->pub);
    }
    return status;
}
