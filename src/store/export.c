/* Export: one snapshot, walked in the order of the session numbers, a line a row.
 *
 *    header
 *    state of apps and users, factors of models          belong to no session
 *    session, its messages, state, state events, memories, how far it is observed
 *    ...                                                 parents before their forks
 *    memories without a session, scopes of users
 *    footer                                              counts; a cut export has none
 *
 * A flat export writes each living session with all that it shows and without parents; the default
 * form writes what each session holds itself, hidden ones included, so that forks stay forks.
 *
 * Owns: the order of the lines and the buffer before the caller's write function. The lines of all
 * tables but sessions and messages are written by export_tables.c.
 * Called by: quipu_store_export(); copy.c through it.
 * Transactions: one read transaction for all of it, so that the lines agree with each other while
 * others write. SQLite cannot truncate its log meanwhile.
 * On return: the caller has every byte, or an error after some of them, which cannot be taken
 * back. */
#include <assert.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "store/export_crypt.h"
#include "store/export_lines.h"
#include "store/export_row.h"
#include "store/export_run.h"
#include "store/fork_chain.h"
#include "store/fork_release.h"
#include "store/last_change.h"
#include "store/maintain.h"
#include "store/message.h"
#include "store/purge.h"

#define EXPORT_CHUNK ((size_t)64 * 1024) /* handed to the caller at a time, or a line */
#define EXPORT_FLAGS (QUIPU_EXPORT_FLAT | QUIPU_EXPORT_HEADS | QUIPU_EXPORT_PASSPHRASE)
/* A chunk that is almost full, and behind it the longest line. */
#define EXPORT_BUFFER_MAX ((size_t)QUIPU_LINE_BYTES_MAX + EXPORT_CHUNK)

/* A fork is written with the messages that it shares, as if it had no parent. */
static bool export_is_flat(const qp_export_run *run)
{
    assert((run->options.flags & ~(uint32_t)EXPORT_FLAGS) == 0);
    return (run->options.flags & QUIPU_EXPORT_FLAT) != 0;
}

/* Only keys, uids and heads of chains: what verify compares with later. */
static bool export_is_heads(const qp_export_run *run)
{
    assert((run->options.flags & ~(uint32_t)EXPORT_FLAGS) == 0);
    return (run->options.flags & QUIPU_EXPORT_HEADS) != 0;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

void qp_export_begin(qp_export_run *run, const char *type)
{
    assert(run->buf.n < EXPORT_CHUNK);
    qp_jsonw_begin(&run->writer, &run->buf);
    qp_jsonw_object(&run->writer);
    qp_jsonw_key(&run->writer, QUIPU_STR(QP_EXPORT_TYPE));
    qp_jsonw_str(&run->writer, quipu_cstr(type));
}

/* Hand the buffer to the caller. From then on a retry would write lines twice: the call is
 * consumed. */
static quipu_status export_flush(qp_export_run *run, quipu_error *reterr)
{
    quipu_str bytes = qp_buf_str(&run->buf);
    quipu_status status = QUIPU_OK;

    if (bytes.n > 0) {
        /* Set before the write: a function that fails may have passed on a part of the bytes. */
        run->consumed = true;
        status = run->write(run->write_ctx, bytes.p, bytes.n);
    }

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the export could not be written on (%s)",
                            quipu_status_name(status));
    }
    qp_buf_reset(&run->buf);
    return QUIPU_OK;
}

quipu_status qp_export_end(qp_export_run *run, int64_t *count, quipu_error *reterr)
{
    quipu_status status;

    qp_jsonw_object_end(&run->writer);
    status = qp_jsonw_end(&run->writer);
    /* Not part of the JSON: the writer has ended its object. */
    qp_buf_putc(&run->buf, '\n');
    status = status == QUIPU_OK ? qp_buf_status(&run->buf) : status;
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "line %lld cannot be written",
                            (long long)run->done.lines + 1);
    }
    run->done.lines++;
    if (count != NULL) {
        (*count)++;
    }
    assert(run->buf.n > 0);
    return run->buf.n >= EXPORT_CHUNK ? export_flush(run, reterr) : QUIPU_OK;
}

/* The first line. It has no type: a reader looks for the member "quipu" before anything else. */
static quipu_status export_header(qp_export_run *run, quipu_error *reterr)
{
    assert(run->done.lines == 0 && run->buf.n == 0);
    qp_jsonw_begin(&run->writer, &run->buf);
    qp_jsonw_object(&run->writer);
    qp_jsonw_key(&run->writer, QUIPU_STR("quipu"));
    qp_jsonw_str(&run->writer, QUIPU_STR("export"));
    /* Another major version is refused by importers; a minor one adds members that they know or
     * refuse. */
    qp_jsonw_key(&run->writer, QUIPU_STR("major"));
    qp_jsonw_i64(&run->writer, QUIPU_EXPORT_MAJOR);
    qp_jsonw_key(&run->writer, QUIPU_STR("minor"));
    qp_jsonw_i64(&run->writer, QUIPU_EXPORT_MINOR);
    return qp_export_end(run, NULL, reterr);
}

/* The last line. By it a reader knows a whole export from a cut one; importers compare its number
 * of sessions. */
static quipu_status export_footer(qp_export_run *run, quipu_error *reterr)
{
    const quipu_transfer done = run->done;
    const struct {
        const char *name;
        int64_t count;
    } counts[] = {{"sessions", done.sessions},
                  {"messages", done.messages},
                  {"states", done.states},
                  {"memories", done.memories}};

    qp_export_begin(run, "end");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        qp_jsonw_key(&run->writer, quipu_cstr(counts[i].name));
        qp_jsonw_i64(&run->writer, counts[i].count);
    }
    return qp_export_end(run, NULL, reterr);
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* The event id is written as the text that callers know, not as the column's tagged bytes. */
static quipu_status export_message(qp_export_run *run, const qp_message *row, quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_EVENT_ID, NULL};
    quipu_str event_id = QP_STR_ABSENT;
    quipu_status status;

    assert(run->status == QUIPU_OK);
    /* One id at a time: a session of millions of messages needs no more memory than its longest
     * line. */
    quipu_arena_reset(run->scratch);
    status = qp_event_id_text(row->event_id, run->scratch, &event_id);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the event id of message %lld cannot be read",
                            (long long)row->seq);
    }
    qp_export_begin(run, "message");
    qp_jsonw_key(&run->writer, QUIPU_STR(QP_EXPORT_EVENT_ID));
    qp_jsonw_str(&run->writer, event_id);
    qp_export_row(&run->writer, &qp_message_entity, row, left_out);
    return qp_export_end(run, &run->done.messages, reterr);
}

/* A qp_chain_fn; its own failure is kept in the run, because the walk only learns "enough". */
static bool export_show(void *ctx, const qp_message *row)
{
    qp_export_run *run = ctx;

    run->status = export_message(run, row, run->reterr);
    assert(run->status == QUIPU_OK || run->reterr == NULL || run->reterr->status != QUIPU_OK);
    return run->status == QUIPU_OK;
}

/* All that a session shows, wherever it lies: for a flat export. */
static quipu_status export_shown(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const int64_t from = row->first_seq;
    const int64_t to = qp_difference(row->next_seq, 1);
    quipu_error error = {0};
    qp_chain chain;
    quipu_status status = QUIPU_OK;

    assert(export_is_flat(run));
    /* An empty session. */
    if (from > to) {
        return QUIPU_OK;
    }
    run->status = QUIPU_OK;
    run->reterr = reterr;
    status = qp_chain_resolve(run->db, row, from, to, &chain, &error);
    if (status == QUIPU_OK) {
        const qp_scan scan = {from, to, false};
        /* The walk is cut short by a callback that fails, and returns QUIPU_OK then. */
        status = qp_chain_each(run->db, &chain, &scan, export_show, run, &error);
    }
    /* The callback's failure has its error in `reterr` already; that of the walk is kept aside. */
    if (run->status != QUIPU_OK) {
        return run->status;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* All that a session holds itself, also what only its forks still show. */
static quipu_status export_range(qp_export_run *run, const qp_session *row, int64_t from,
                                 int64_t to, quipu_error *reterr)
{
    const qp_message_query query = {
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(row->id), .seq = ent_between(from, to)}};
    qp_message_iter iter;
    qp_message message;
    quipu_status status = qp_message_iter_begin(run->db, &query, &iter, reterr);

    assert(!export_is_flat(run));
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_message_iter_next(&iter, &message)) {
        status = export_message(run, &message, reterr);
    }
    /* The first failure is reported: ending an iteration must not replace the error of a row. */
    quipu_status ended = qp_message_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* All that it holds, or, while messages are purged, what sessions reach of it. */
static quipu_status export_held(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const int64_t base = qp_session_base(row);
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_fork_span *spans = NULL;
    size_t count = 0;
    quipu_status status;

    assert(!export_is_flat(run));
    /* Without a purge every stored message is reached: the family needs no look. */
    if (!run->purging || qp_difference(row->next_seq, 1) <= base) {
        return export_range(run, row, 1, ENT_CLUSTER_SEQ_MAX, reterr);
    }
    status = qp_fork_reach(run->db, &arena, row,
                           (qp_fork_span){base + 1, qp_difference(row->next_seq, 1)}, &spans,
                           &count, reterr);
    /* Gaps between spans are messages that wait for their purge; an import would keep them for
     * ever, since no job comes with them. */
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = export_range(run, row, spans[i].a, spans[i].b, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* A session's place among forks, by uid: numbers mean nothing in another database. With "forks" an
 * importer remembers the session until its forks follow. */
static quipu_status export_relations(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const qp_session *parent = NULL;
    bool has_forks = false;
    char uid[QUIPU_UUID_TEXT_SIZE];
    quipu_status status = QUIPU_OK;

    assert(!export_is_flat(run));
    if (row->parent_id.has) {
        status = qp_session_get(run->db, run->scratch, row->parent_id.v, &parent, reterr);
        if (status == QUIPU_OK) {
            quipu_uuid_format(parent->uid, uid);
            qp_jsonw_key(&run->writer, QUIPU_STR(QP_EXPORT_PARENT));
            qp_jsonw_str(&run->writer, quipu_cstr(uid));
        }
    }
    if (status == QUIPU_OK) {
        status = qp_session_exists(run->db, &(qp_session_where){.parent_id = ent_eq(row->id)},
                                   &has_forks, reterr);
    }
    /* Only when it is true: most sessions have no forks, and their lines stay short. */
    if (status == QUIPU_OK && has_forks) {
        qp_jsonw_key(&run->writer, QUIPU_STR(QP_EXPORT_FORKS));
        qp_jsonw_bool(&run->writer, true);
    }
    return status;
}

/* The head of a session, in a line that means something alone: members of its line in an export,
 * under another type, so that no import takes it for a session. */
static quipu_status export_head(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    char uid[QUIPU_UUID_TEXT_SIZE];

    assert(row->key.p != NULL);
    quipu_uuid_format(row->uid, uid);
    qp_export_begin(run, QP_EXPORT_HEAD);
    qp_jsonw_key(&run->writer, QUIPU_STR("key"));
    qp_jsonw_str(&run->writer, row->key);
    qp_jsonw_key(&run->writer, QUIPU_STR("uid"));
    qp_jsonw_str(&run->writer, quipu_cstr(uid));
    qp_jsonw_key(&run->writer, QUIPU_STR("revision"));
    qp_jsonw_i64(&run->writer, row->revision);
    qp_jsonw_key(&run->writer, QUIPU_STR("next_seq"));
    qp_jsonw_i64(&run->writer, row->next_seq);
    /* Without a chain there is no head: no message was appended yet, or only by older programs. */
    if (row->hashed_from > 0) {
        qp_jsonw_key(&run->writer, QUIPU_STR("hashed_from"));
        qp_jsonw_i64(&run->writer, row->hashed_from);
        qp_jsonw_key(&run->writer, QUIPU_STR("head_hash"));
        qp_base64_json(&run->writer, row->head_hash);
    }
    return qp_export_end(run, &run->done.sessions, reterr);
}

/* Writes the rows that refer to a session by its key: artifacts and memories. */
static quipu_status export_known(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    const quipu_str key = row->key;
    quipu_status status =
        qp_export_artifacts(run,
                            &(qp_artifact_where){.tenant = ent_eq(row->tenant),
                                                 .app_name = ent_eq(row->app_name),
                                                 .user_id = ent_eq(row->user_id),
                                                 .session_key = ent_eq(key)},
                            reterr);

    assert(key.p != NULL);
    return status == QUIPU_OK ? qp_export_memories(run, key, reterr) : status;
}

/* A session's line and all that belongs to it. A hidden session has no key, and so no memories.
 *
 * One group of lines, as an importer takes it into one transaction:
 *
 *     session        uid, parent, forks, settings, counts
 *     message ...    by number
 *     state ...      of the session
 *     state_event ... context ... usage ...
 *     artifact ... observation ... reflection ... memory_scope       by the session's key */
static quipu_status export_session(qp_export_run *run, const qp_session *row, quipu_error *reterr)
{
    static const char *const left_out[] = {"fork_seq", NULL};
    const bool flat = export_is_flat(run);
    quipu_status status = QUIPU_OK;
    qp_session shown = *row;

    assert(run->db != NULL);
    /* No engine assigns such a number: whatever the queries below find by it belongs to damage. */
    if (row->id < 1) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "a session has the number %lld; verify the store", (long long)row->id);
    }
    quipu_arena_reset(run->scratch);
    qp_export_begin(run, "session");
    if (!flat) {
        status = export_relations(run, row, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* A flat export names no parents, so that a fork number would mean nothing. */
    shown.updated_at = qp_last_change(row);
    qp_export_row(&run->writer, &qp_session_entity, &shown, flat ? left_out : NULL);
    status = qp_export_end(run, &run->done.sessions, reterr);
    if (status == QUIPU_OK) {
        status = flat ? export_shown(run, row, reterr) : export_held(run, row, reterr);
    }
    if (status == QUIPU_OK) {
        /* By the whole key of the state: its app and user are the session's. */
        status =
            qp_export_states(run,
                             &(qp_state_where){.tenant = ent_eq(run->store->tenant),
                                               .scope = qp_state_scope_is(QP_STATE_SCOPE_SESSION),
                                               .app_name = ent_eq(row->app_name),
                                               .user_id = ent_eq(row->user_id),
                                               .session_number = ent_eq(row->id)},
                             true, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_state_events(run, row, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_contexts(run, row, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_usage(run, row, reterr);
    }
    return status == QUIPU_OK && row->key.p != NULL ? export_known(run, row, reterr) : status;
}

/* Every session by its number: a fork has a larger number than its parent and comes behind it.
 * Other tenants' rows are passed over. A flat export passes over hidden sessions as well: each fork
 * writes what it shares itself; and nobody asks for the head of a hidden one. */
static quipu_status export_sessions(qp_export_run *run, quipu_error *reterr)
{
    const qp_session_query query = {.order = {QP_SESSION_BY_ID(ASC)}};
    qp_session_iter iter;
    qp_session row;
    quipu_status status = qp_session_iter_begin(run->db, &query, &iter, reterr);

    assert(run->options.key.p == NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_session_iter_next(&iter, &row)) {
        bool hidden = row.key.p == NULL && (export_is_flat(run) || export_is_heads(run));

        /* No index has the sessions of one tenant by number: the walk goes over all tenants. */
        if (!quipu_str_eq(row.tenant, run->store->tenant) || hidden) {
            continue;
        }
        /* Without a purge nothing is dead, and no tree is read. */
        if (run->purging) {
            quipu_arena arena = QUIPU_ARENA_INIT;

            status = qp_fork_is_dead(run->db, &arena, &row, &hidden, reterr);
            quipu_arena_free(&arena);
        }
        if (status == QUIPU_OK && !hidden) {
            status = export_is_heads(run) ? export_head(run, &row, reterr)
                                          : export_session(run, &row, reterr);
        }
    }
    quipu_status ended = qp_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* The whole store of the tenant, in the order of the picture above. State of apps and users comes
 * first, so that an import that is cut has stored it already. */
static quipu_status export_all(qp_export_run *run, quipu_error *reterr)
{
    const qp_state_scope scopes[] = {QP_STATE_SCOPE_APP, QP_STATE_SCOPE_USER};
    quipu_status status = QUIPU_OK;

    /* In the order of docs/export.md: apps, then users. */
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]) && status == QUIPU_OK; i++) {
        status = qp_export_states(run,
                                  &(qp_state_where){.tenant = ent_eq(run->store->tenant),
                                                    .scope = qp_state_scope_is(scopes[i])},
                                  false, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_factors(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = export_sessions(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_export_loose_artifacts(run, reterr);
    }
    return status == QUIPU_OK ? qp_export_memories(run, QP_STR_ABSENT, reterr) : status;
}

/* A fork's ancestors before the fork, oldest first, so that one session can be imported alone. Each
 * stands with all that it holds. */
static quipu_status export_lineage(qp_export_run *run, quipu_arena *arena, const qp_session *row,
                                   quipu_error *reterr)
{
    /* From the session up to its root; the rows lie in `arena`. */
    const qp_session *chain[QP_CHAIN_MAX] = {row};
    size_t count = 1;
    quipu_status status = QUIPU_OK;

    assert(row->key.p != NULL);
    while (status == QUIPU_OK && !export_is_flat(run) && chain[count - 1]->parent_id.has) {
        /* Forks are at most that deep: a longer chain is a circle. */
        if (count == QP_CHAIN_MAX) {
            return qp_error_set(reterr, QUIPU_CORRUPT, "its forks are too deep");
        }
        status =
            qp_session_get(run->db, arena, chain[count - 1]->parent_id.v, &chain[count], reterr);
        count += status == QUIPU_OK;
    }
    /* From the root down: an importer knows a parent by its line before the fork's. */
    while (status == QUIPU_OK && count > 0) {
        count--;
        assert(chain[count] != NULL);
        status = export_session(run, chain[count], reterr);
    }
    return status;
}

/* One session by its key. */
static quipu_status export_one(qp_export_run *run, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_lookup(run->store, run->db, &arena, run->options.key, &row, reterr);

    assert(run->options.key.p != NULL);
    if (status == QUIPU_OK) {
        /* An expired session is exported as well: its row is still there. */
        status = row == NULL ? qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no such session")
                 : export_is_heads(run) ? export_head(run, row, reterr)
                                        : export_lineage(run, &arena, row, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* The whole export in one snapshot. It can run again only while nothing was flushed, so that all
 * counters begin anew. */
static quipu_status export_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    qp_export_run *run = ctx;
    quipu_status status = ent_begin(db, ENT_READ, reterr);

    assert(!run->consumed);
    run->db = db;
    run->scratch = scratch;
    run->status = QUIPU_OK;
    /* qp_store_repeat() may run the work again after a transient failure, as long as it is not
     * consumed. */
    run->done = (quipu_transfer)QUIPU_TRANSFER_INIT; /* of a try that gave nothing away */
    qp_buf_reset(&run->buf);
    /* A file of heads has no header and no footer: each line is complete by itself. */
    if (status == QUIPU_OK && export_is_heads(run)) {
        status =
            run->options.key.p != NULL ? export_one(run, reterr) : export_sessions(run, reterr);
        return status == QUIPU_OK ? export_flush(run, reterr) : status;
    }
    if (status == QUIPU_OK) {
        /* Asked once, in the snapshot of all rows: a later purge changes nothing here. */
        status = qp_purge_exists(db, run->store->tenant, 0, &run->purging, reterr);
    }
    if (status == QUIPU_OK) {
        status = export_header(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = run->options.key.p != NULL ? export_one(run, reterr) : export_all(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = export_footer(run, reterr);
    }
    return status == QUIPU_OK ? export_flush(run, reterr) : status;
}

/* The caller's options, checked. */
static quipu_status export_options(qp_export_run *run, const quipu_export_options *options,
                                   quipu_error *reterr)
{
    quipu_export_options *given = &run->options;
    quipu_status status =
        qp_options_read(given, sizeof(*given), options, "quipu_export_options", reterr);
    const bool passphrase = (given->flags & QUIPU_EXPORT_PASSPHRASE) != 0;

    if (status == QUIPU_OK &&
        (run->write == NULL || (given->flags & ~(uint32_t)EXPORT_FLAGS) != 0 ||
         (passphrase && given->encryption_key == NULL))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "export needs somewhere to write, flags of QUIPU_EXPORT_*, and for a "
                              "passphrase encryption_key");
    }
    return status == QUIPU_OK && given->key.p != NULL ? qp_key_check(given->key, reterr) : status;
}

/* On a reading connection, where the store has any: an export that takes minutes holds up no
 * writer. A store in memory has one connection, which the export keeps to itself. */
static quipu_status export_lines(qp_export_run *run, quipu_store *store, qp_call *within,
                                 quipu_error *reterr)
{
    quipu_status status;

    if (qp_store_is_remote(store)) {
        return store->remote.dump(store->remote.ctx, within, &run->options, run->write,
                                  run->write_ctx, &run->done, reterr);
    }
    /* A line is at most as long as an import accepts; a longer one fails the export. */
    qp_buf_init(&run->buf, EXPORT_BUFFER_MAX);
    /* The retry loop reads it: after the first flush no failure is repeated. */
    within->consumed = &run->consumed;
    status = qp_store_read_apart(store, within, export_work, run, reterr);
    qp_buf_free(&run->buf);
    return status;
}

/* The same, encrypted on the way to the caller: the store, or its server, knows nothing of it. */
static quipu_status export_encrypted(qp_export_run *run, quipu_store *store, qp_call *within,
                                     quipu_error *reterr)
{
    const quipu_export_options *options = &run->options;
    qp_export_writer *writer = NULL;
    quipu_status status = qp_export_writer_new(options->encryption_key, options->encryption_key_ctx,
                                               (options->flags & QUIPU_EXPORT_PASSPHRASE) != 0,
                                               NULL, run->write, run->write_ctx, &writer, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    run->write = qp_export_writer_write;
    run->write_ctx = writer;
    status = export_lines(run, store, within, reterr);
    if (status == QUIPU_OK) {
        status = qp_export_writer_end(writer, reterr);
    }
    qp_export_writer_free(writer);
    return status;
}

quipu_status quipu_store_export(quipu_store *store, const quipu_export_options *options,
                                quipu_write_fn write, void *ctx, const quipu_call_options *call,
                                quipu_transfer *ret_done, quipu_error *reterr)
{
    qp_export_run run = {
        .store = store, .options = QUIPU_EXPORT_OPTIONS_INIT, .write = write, .write_ctx = ctx};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = export_options(&run, options, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_done, "quipu_transfer", reterr);
    }
    if (status == QUIPU_OK) {
        status = run.options.encryption_key != NULL ? export_encrypted(&run, store, &within, reterr)
                                                    : export_lines(&run, store, &within, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_done, &run.done, sizeof(run.done));
    }
    qp_store_leave(&within);
    return status;
}
