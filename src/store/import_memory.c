/* The observations and reflections of an import, known by their ids: the same one is a repeat,
 * another one of that id an error. And how far their sessions are observed.
 *
 * Owns: the rule what a repeat is.
 * Called by: import.c, for one line at a time.
 * Transactions: the group's open one. The line is parsed in `doc`.
 * On return: the memory is stored and counted, or it was there already. */
#include <assert.h>

#include "base/error.h"
#include "store/context_log.h"
#include "store/export_row.h"
#include "store/import_internal.h"
#include "store/memory_scope.h"

/* The fields that an observation and a reflection share; a repeat is recognized by them. */
typedef struct import_memory_row {
    quipu_str tenant;
    quipu_str session_key;
    quipu_str content;
} import_memory_row;

/* The memory of this id, if it is there. Texts lie in the scratch arena.
 *
 * What the store has under the id decides, in qp_import_line_memory():
 *
 *    line has no id             a new row, each time that the line is imported
 *    id is free                 a new row
 *    id is taken, same words    a repeat: nothing is stored, nothing is counted
 *    id is taken, other words   QUIPU_EXISTS, and so is a repeat where everything must be new */
static quipu_status import_memory_known(ent_db *db, quipu_arena *scratch, quipu_memory_kind kind,
                                        quipu_uuid id, import_memory_row *ret, bool *ret_known,
                                        quipu_error *reterr)
{
    /* One of the two is looked for; the other stays NULL. */
    const qp_observation *observation = NULL;
    const qp_reflection *reflection = NULL;
    quipu_error error = {0};
    quipu_status status = kind == QUIPU_OBSERVATION
                              ? qp_observation_get(db, scratch, id, &observation, &error)
                              : qp_reflection_get(db, scratch, id, &reflection, &error);

    assert(kind == QUIPU_OBSERVATION || kind == QUIPU_REFLECTION);
    *ret_known = status == QUIPU_OK;
    if (observation != NULL) {
        *ret = (import_memory_row){observation->tenant, observation->session_key,
                                   observation->content};
    } else if (reflection != NULL) {
        *ret =
            (import_memory_row){reflection->tenant, reflection->session_key, reflection->content};
    }
    assert(*ret_known == (observation != NULL || reflection != NULL));
    return qp_row_optional(status, &error, reterr);
}

/* The id is taken: an equal memory is a repeat and is left as it is. */
static quipu_status import_memory_repeat(const qp_lines_import *run, const import_memory_row *known,
                                         const import_memory_row *made, quipu_error *reterr)
{
    /* Only what a memory says and of whom: priorities, retirement and edits may have moved on
     * since. */
    const bool same = quipu_str_eq(known->tenant, made->tenant) &&
                      quipu_str_eq(known->session_key, made->session_key) &&
                      quipu_str_eq(known->content, made->content);

    assert(made->tenant.p == run->store->tenant.p);
    if (same && (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) == 0) {
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_EXISTS, "an observation or reflection of this id exists%s",
                        same ? " already" : ", and says something else");
}

/* Refuses what a save would refuse, and verify would report. `observation` is NULL for a
 * reflection. */
static quipu_status import_memory_check(const qp_observation_new *observation,
                                        const qp_reflection_new *reflection, quipu_str key,
                                        quipu_error *reterr)
{
    /* An observation has no generation; the reflection is empty then. */
    const int64_t generation = reflection->generation.has ? reflection->generation.v : 0;
    quipu_status status =
        observation != NULL
            ? qp_memory_numbers(observation->token_count, observation->source_start_index,
                                observation->source_end_index, 0, reterr)
            : qp_memory_numbers(reflection->token_count, reflection->source_start_index,
                                reflection->source_end_index, generation, reterr);

    if (status == QUIPU_OK &&
        (observation != NULL ? observation->number : reflection->number) < 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "a memory has a negative number");
    }
    return status == QUIPU_OK ? qp_key_check(key, reterr) : status;
}

/* Both kinds differ in their tables only; a line without an id is always new. */
quipu_status qp_import_line_memory(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                   quipu_memory_kind kind, quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    /* An observation, else a reflection: one function, because ids of both are looked up alike. */
    const bool seen = kind == QUIPU_OBSERVATION;
    qp_observation_new observation = {.tenant = run->store->tenant};
    qp_reflection_new reflection = {.tenant = run->store->tenant};
    import_memory_row known = {0};
    bool is_known = false;
    quipu_status status = qp_import_row(seen ? &qp_observation_entity : &qp_reflection_entity,
                                        qp_json_root(&run->doc), NULL, others, scratch,
                                        seen ? (void *)&observation : (void *)&reflection, reterr);
    const ent_opt_uuid id = seen ? observation.id : reflection.id;
    const import_memory_row made = {run->store->tenant,
                                    seen ? observation.session_key : reflection.session_key,
                                    seen ? observation.content : reflection.content};

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status =
            import_memory_check(seen ? &observation : NULL, &reflection, made.session_key, reterr);
    }
    /* A UUID that another row has makes this line a repeat or an error, and never an overwrite. */
    if (status == QUIPU_OK && id.has) {
        status = import_memory_known(db, scratch, kind, id.v, &known, &is_known, reterr);
    }
    /* A repeat is not counted: nothing was stored. */
    if (status == QUIPU_OK && is_known) {
        return import_memory_repeat(run, &known, &made, reterr);
    }
    if (status == QUIPU_OK) {
        status = seen ? qp_observation_create(db, NULL, &observation, NULL, reterr)
                      : qp_reflection_create(db, NULL, &reflection, NULL, reterr);
        run->group.memories++;
    }
    return status;
}

/* A damaged text would let a worker read messages that somebody has asked it to forget; one that
 * goes on behind the last message hides messages that nobody has said yet. */
static quipu_status import_memory_forgotten(quipu_str text, int64_t next_seq, quipu_error *reterr)
{
    qp_forgotten forgotten;
    int64_t last;

    if (!qp_forgotten_read(text, &forgotten)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the forgotten messages of a scope of memory are no ranges");
    }
    last = forgotten.count > 0 ? forgotten.ranges[forgotten.count - 1].to : 0;
    return last < next_seq
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_INVALID,
                              "message %lld, which is forgotten, is behind the session's last one",
                              (long long)last);
}

/* Refuses texts that no worker writes. */
static quipu_status import_memory_scope_check(const qp_lines_import *run,
                                              const qp_memory_scope_new *made, quipu_error *reterr)
{
    const bool session = made->kind == QP_MEMORY_SCOPE_KIND_SESSION;
    const qp_memory_charge spent = {made->model_calls, made->model_input, made->model_output,
                                    made->model_cost, made->model_unpriced};

    if (made->watermark < 0 || !qp_memory_scope_counts(made->watermark_tokens, made->generation,
                                                       made->observe_tokens, spent)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "a scope of memory has a number that it cannot have");
    }
    /* The key of a session's scope is the session's: behind another line it would move the
     * watermark of a session that this import has not stored. */
    if (session && (run->loose || run->row == NULL || !quipu_str_eq(run->row->key, made->scope))) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the memory scope of a session must follow the line of that session");
    }
    /* Messages that are appended later would count as observed. */
    if (session && made->watermark >= run->row->next_seq) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the watermark %lld is behind the session's last message",
                            (long long)made->watermark);
    }
    return import_memory_forgotten(made->forgotten, session ? run->row->next_seq : INT64_MAX,
                                   reterr);
}

/* When both stores have a ledger of one user, the longer one stays, whole. */
static void import_memory_ledger(const qp_memory_scope *row, qp_memory_scope_new *made)
{
    assert(row->model_calls >= 0 && made->model_calls >= 0);
    /* By the number of calls, and never added up: an export of this very store may come back. */
    if (row->model_calls > made->model_calls) {
        made->model_calls = row->model_calls;
        made->model_input = row->model_input;
        made->model_output = row->model_output;
        made->model_cost = row->model_cost;
        made->model_unpriced = row->model_unpriced;
    }
}

/* The row is that of the session as it is stored here: its uid may differ from the export's (a uid
 * that was taken), and the tokens of the watermark are those of its message, as a repair would
 * write them. A message that is not there yet has none that could be stated. */
static quipu_status import_memory_session(const qp_lines_import *run, ent_db *db,
                                          quipu_arena *scratch, qp_memory_scope_new *made,
                                          quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status =
        qp_memory_watermark_tokens(db, run->row, made->watermark, made->watermark_tokens, scratch,
                                   &made->watermark_tokens, &error);

    made->session_uid = ent_some(run->row->uid);
    if (status == QUIPU_NOT_FOUND || status == QUIPU_CORRUPT) {
        made->watermark_tokens = 0;
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* A session's row belongs to the life that this import has begun. Where a user's scope exists
 * already, the larger numbers stay, because both stores may have counted the same answers. */
quipu_status qp_import_line_scope(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                  quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_memory_scope_new made = {.tenant = run->store->tenant};
    const qp_memory_scope *row = NULL;
    quipu_error error = {0};
    quipu_status status = qp_import_row(&qp_memory_scope_entity, qp_json_root(&run->doc), NULL,
                                        others, scratch, &made, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = import_memory_scope_check(run, &made, reterr);
    }
    if (status == QUIPU_OK && made.kind == QP_MEMORY_SCOPE_KIND_SESSION) {
        status = import_memory_session(run, db, scratch, &made, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_memory_scope_get(db, scratch, made.tenant, made.scope, made.kind, &row, &error);
    if (status != QUIPU_OK && status != QUIPU_NOT_FOUND) {
        return qp_error_pass(reterr, &error);
    }
    /* A row of a session that is there already belongs to an earlier life of its key: it is
     * replaced. */
    if (row != NULL && made.kind == QP_MEMORY_SCOPE_KIND_USER) {
        made.generation = row->generation > made.generation ? row->generation : made.generation;
        made.watermark_tokens = row->watermark_tokens > made.watermark_tokens
                                    ? row->watermark_tokens
                                    : made.watermark_tokens;
        import_memory_ledger(row, &made);
    }
    return qp_memory_scope_upsert(db, NULL, &made, QP_MEMORY_SCOPE_ON_KEY, NULL, reterr);
}

/* The log line of a turn; the line of its session comes before it. */
quipu_status qp_import_line_context(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_context_log_new made = {.session_number = run->loose ? 0 : run->row->id};
    quipu_status status = qp_import_row(&qp_context_log_entity, qp_json_root(&run->doc), NULL,
                                        others, scratch, &made, reterr);

    assert(run->loose || (run->row != NULL && !run->skip));
    /* As a row, because verify asks the same function about rows that are stored. */
    const qp_context_log row = {.seq = made.seq,
                                .sent_seq = made.sent_seq,
                                .from_seq = made.from_seq,
                                .from_tokens = made.from_tokens,
                                .summary_seq = made.summary_seq,
                                .block_seq = made.block_seq,
                                .block = made.block,
                                .block_hash = made.block_hash,
                                .tail = made.tail,
                                .tail_hash = made.tail_hash,
                                .prompt_hash = made.prompt_hash,
                                .sent_hash = made.sent_hash,
                                .tokens = made.tokens,
                                .expected = made.expected,
                                .input = made.input,
                                .cached = made.cached};

    if (status == QUIPU_OK && (run->loose || !qp_context_log_sound(&row, run->row->next_seq))) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the context of a turn must follow the line of its session, with "
                              "numbers of its messages and hashes of %d bytes",
                              QP_SHA256_SIZE);
    }
    return status == QUIPU_OK ? qp_context_log_create(db, NULL, &made, NULL, reterr) : status;
}
