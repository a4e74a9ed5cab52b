/* Lango's observations and reflections: ordered by time, with message positions turned into message
 * numbers (from 1).
 *
 * Called by: run.c, once to count and once to write. The write is one transaction of the store for
 * all of them. Repeats: a memory with the same id and content is skipped; the same id with another
 * content fails with QUIPU_EXISTS.
 * On return a failed write has rolled back: no memory of this import is stored, the sessions
 * are.
 * Owns: the order of memories, and how positions become numbers. */
#include "import/import.h"

#include <stdlib.h>
#include <string.h>

#include <ent/migrate.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/lango.h"

/* All memories of the file, sorted; they lie in the source's scratch arena. */
typedef struct memories_call {
    qp_import *import;                  /* the run: its source is read, its store is written */
    qp_lango_observation *observations; /* by time and id; NULL before memories_read() */
    size_t observation_count;
    qp_lango_reflection *reflections; /* likewise */
    size_t reflection_count;
    int64_t written; /* of this attempt: a transaction may be retried */
} memories_call;

/* By time, then by id: a total order, so that numbers are the same in each import. */
static int memories_compare_observations(const void *a, const void *b)
{
    const qp_lango_observation *x = a;
    const qp_lango_observation *y = b;
    int order = quipu_time_cmp(x->created_at, y->created_at);

    return order != 0 ? order : memcmp(x->id.b, y->id.b, sizeof(x->id.b));
}

/* By time, then by id, as above. Two functions, because the rows are different types. */
static int memories_compare_reflections(const void *a, const void *b)
{
    const qp_lango_reflection *x = a;
    const qp_lango_reflection *y = b;
    int order = quipu_time_cmp(x->created_at, y->created_at);

    return order != 0 ? order : memcmp(x->id.b, y->id.b, sizeof(x->id.b));
}

/* A copy that can be sorted: lists of a query are const. Copied and not cast: the lists lie in the
 * arena that the query filled, and are const for a reason. */
static quipu_status memories_copy(qp_source *source, const void *items, size_t count, size_t size,
                                  void **ret, quipu_error *reterr)
{
    /* One byte more, so that the size is never 0. */
    void *copy = qp_arena_take(&source->scratch, count * size + 1);

    if (copy == NULL) {
        (void)qp_error_set(reterr, QUIPU_NOMEM, "no memory for %zu memories", count);
        return QUIPU_NOMEM;
    }
    if (count > 0) {
        memcpy(copy, items, count * size);
    }
    *ret = copy;
    return QUIPU_OK;
}

/* Reads and sorts both tables. Older files may lack them. All of it is in memory at once: a memory
 * is a few sentences. */
static quipu_status memories_read(memories_call *call, quipu_error *reterr)
{
    qp_source *source = &call->import->source;
    qp_lango_observation_list observations = {0};
    qp_lango_reflection_list reflections = {0};
    void *copy = NULL;
    bool has = false;
    quipu_status status = ent_step_has_table(source->db, "observations", &has, reterr);

    if (status == QUIPU_OK && has) {
        status = qp_lango_observation_find(source->db, &source->scratch,
                                           &(qp_lango_observation_query){0}, &observations, reterr);
    }
    if (status == QUIPU_OK) {
        status = ent_step_has_table(source->db, "reflections", &has, reterr);
    }
    if (status == QUIPU_OK && has) {
        status = qp_lango_reflection_find(source->db, &source->scratch,
                                          &(qp_lango_reflection_query){0}, &reflections, reterr);
    }
    if (status == QUIPU_OK) {
        status = memories_copy(source, observations.items, observations.n,
                               sizeof(*observations.items), &copy, reterr);
        call->observations = copy;
        call->observation_count = observations.n;
    }
    if (status == QUIPU_OK) {
        status = memories_copy(source, reflections.items, reflections.n, sizeof(*reflections.items),
                               &copy, reterr);
        call->reflections = copy;
        call->reflection_count = reflections.n;
    }
    /* The order decides the numbers of new rows: a repeated import must find the same one. */
    if (status == QUIPU_OK && call->observation_count > 0) {
        qsort(call->observations, call->observation_count, sizeof(*call->observations),
              memories_compare_observations);
    }
    if (status == QUIPU_OK && call->reflection_count > 0) {
        qsort(call->reflections, call->reflection_count, sizeof(*call->reflections),
              memories_compare_reflections);
    }
    return status;
}

/* The rules of a save, for all of them: the first pass finds what would stop the second, before
 * anything is written. */
static quipu_status memories_check(const memories_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < call->observation_count && status == QUIPU_OK; i++) {
        status = qp_lango_observation_check(&call->observations[i], reterr);
        if (status == QUIPU_OK) {
            status = qp_key_check(call->observations[i].session_key, reterr);
        }
    }
    for (size_t i = 0; i < call->reflection_count && status == QUIPU_OK; i++) {
        status = qp_lango_reflection_check(&call->reflections[i], reterr);
        if (status == QUIPU_OK) {
            status = qp_key_check(call->reflections[i].session_key, reterr);
        }
    }
    return status;
}

/* Creates one observation, or checks that the store has the same. Lango counts messages from 0, the
 * store from 1; memories_check() has seen that there is a number behind the last. `number` is the
 * position in the sorted list: the same in each import. */
static quipu_status memories_observation(memories_call *call, ent_db *db, quipu_arena *scratch,
                                         size_t i, quipu_error *reterr)
{
    const qp_lango_observation *old = &call->observations[i];
    const qp_observation *row = NULL;
    const qp_observation_new made = {.id = ent_some(old->id),
                                     .session_key = old->session_key,
                                     .content = old->content,
                                     .token_count = old->token_count,
                                     .source_start_index = old->source_start_index + 1,
                                     .source_end_index = old->source_end_index + 1,
                                     .created_at = ent_some(old->created_at),
                                     .tenant = call->import->store->tenant,
                                     .number = (int64_t)i + 1};
    quipu_status status = qp_observation_get(db, scratch, old->id, &row, reterr);

    if (status == QUIPU_NOT_FOUND) {
        call->written++;
        return qp_observation_create(db, NULL, &made, NULL, reterr);
    }
    /* Two texts under one id: an import replaces nothing that the store has. */
    if (status == QUIPU_OK && !quipu_str_eq(row->content, old->content)) {
        status =
            qp_error_set(reterr, QUIPU_EXISTS, "the store has another observation of the same id");
    }
    return status;
}

/* Creates one reflection, or checks that the store has the same. The content decides; other columns
 * of a memory may have been changed since. */
static quipu_status memories_reflection(memories_call *call, ent_db *db, quipu_arena *scratch,
                                        size_t i, quipu_error *reterr)
{
    const qp_lango_reflection *old = &call->reflections[i];
    const qp_reflection *row = NULL;
    const qp_reflection_new made = {.id = ent_some(old->id),
                                    .session_key = old->session_key,
                                    .content = old->content,
                                    .token_count = old->token_count,
                                    .generation = ent_some(old->generation),
                                    .created_at = ent_some(old->created_at),
                                    .tenant = call->import->store->tenant,
                                    .number = (int64_t)i + 1};
    quipu_status status = qp_reflection_get(db, scratch, old->id, &row, reterr);

    if (status == QUIPU_NOT_FOUND) {
        call->written++;
        return qp_reflection_create(db, NULL, &made, NULL, reterr);
    }
    if (status == QUIPU_OK && !quipu_str_eq(row->content, old->content)) {
        status =
            qp_error_set(reterr, QUIPU_EXISTS, "the store has another reflection of the same id");
    }
    return status;
}

/* The work of the transaction; counts start anew in case it is retried. Runs under the store's
 * write lock. A memory that is stored already is read and compared, which is what makes a repeated
 * import cheap. */
static quipu_status memories_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    memories_call *call = ctx;
    quipu_status status = QUIPU_OK;

    call->written = 0;
    for (size_t i = 0; i < call->observation_count && status == QUIPU_OK; i++) {
        status = memories_observation(call, db, scratch, i, reterr);
    }
    for (size_t i = 0; i < call->reflection_count && status == QUIPU_OK; i++) {
        status = memories_reflection(call, db, scratch, i, reterr);
    }
    return status;
}

/* Without `write` only the numbers are reported. Called in both passes; the first one finds rows
 * that cannot be read before anything is written. */
quipu_status qp_import_memories(qp_import *import, bool write, quipu_error *reterr)
{
    memories_call call = {.import = import};
    quipu_status status;

    /* ADK's files have no memories. */
    if (import->source.kind != QUIPU_SOURCE_LANGO) {
        return QUIPU_OK;
    }
    status = memories_read(&call, reterr);
    if (status == QUIPU_OK) {
        status = memories_check(&call, reterr);
    }
    /* The first pass reports what the file has; the write counts anew what it creates. */
    call.written = (int64_t)(call.observation_count + call.reflection_count);
    if (status == QUIPU_OK && write && call.written > 0) {
        status = qp_import_write(import, memories_work, &call, reterr);
    }
    if (status == QUIPU_OK) {
        import->report.memories += call.written;
    }
    /* Both lists lie in it: `call` is not used any more. */
    quipu_arena_reset(&import->source.scratch);
    return status;
}
