/* Damage to files of our own, and every verb of the library on what is left. A base is made once: a
 * store file, the same with writes that are in its log only, and an export. Each run takes one of
 * them, changes bytes, and calls everything.
 *
 *    opens?  ── no ──▶ fine: a clear error
 *      │ yes
 *    verify clean?  ── no ──▶ every verb ends, repair too
 *      │ yes
 *    the oracle holds (t_oracle.h), and the export is that of the base: anything else is a change
 *    that only checksums find, which is counted; with page checksums the count must be 0.
 *    Commits that a damaged log lost are found by the heads that were kept: all of them
 */
#ifndef T_LIB_CORRUPT_H
#define T_LIB_CORRUPT_H

#include "lib/short.h"
#include "lib/t_oracle.h"

#define T_CORRUPT_RESERVED 20 /* offset of the bytes that SQLite reserves in each page */

typedef enum t_corrupt_target {
    T_CORRUPT_FILE,
    T_CORRUPT_LOG, /* the write-ahead log */
    T_CORRUPT_EXPORT,
    T_CORRUPT_TARGETS
} t_corrupt_target;

/* The undamaged bytes, and the folder where runs happen. */
typedef struct t_corrupt_base {
    char path[1024]; /* of the file that runs damage */
    t_bytes file;    /* with everything checkpointed */
    t_bytes stale;   /* without what is in `log` */
    t_bytes log;
    t_bytes exported;
    t_bytes heads; /* of all sessions, kept elsewhere */
    bool has_checksums;
} t_corrupt_base;

/* What the runs so far have seen. */
typedef struct t_corrupt_seen {
    int64_t runs;
    int64_t refused;   /* the file did not open, or the import failed */
    int64_t found;     /* verify reported it */
    int64_t sums;      /* of both: by a page's checksum, or a log frame's */
    int64_t harmless;  /* the same export */
    int64_t changed;   /* a change of the file that only page checksums find */
    int64_t lost_tail; /* of the log: commits that only a head which was kept finds... */
    int64_t unnoticed; /* ...and those that it does not find */
} t_corrupt_seen;

/* ---- files ------------------------------------------------------------------------------------
 */

static inline bool t_corrupt_put(const char *path, const t_bytes *bytes)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && (bytes->n == 0 || fwrite(bytes->p, bytes->n, 1, file) == 1);

    return file != NULL && fclose(file) == 0 && good;
}

static inline bool t_corrupt_get(const char *path, t_bytes *ret)
{
    FILE *file = fopen(path, "rb");
    char chunk[65536];
    size_t n = 0;

    ret->n = ret->at = 0;
    while (file != NULL && (n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        if (t_bytes_write(ret, chunk, n) != QUIPU_OK) {
            break;
        }
    }
    return file != NULL && fclose(file) == 0 && ret->n > 0;
}

/* The file and its log as a run begins; an empty log is no file. */
static inline bool t_corrupt_place(const char *path, const t_bytes *file, const t_bytes *log)
{
    char name[1100];

    (void)snprintf(name, sizeof(name), "%s-shm", path);
    (void)remove(name);
    (void)snprintf(name, sizeof(name), "%s-wal", path);
    (void)remove(name);
    return t_corrupt_put(path, file) && (log->n == 0 || t_corrupt_put(name, log));
}

/* ---- the base ---------------------------------------------------------------------------------
 */

static inline quipu_status t_corrupt_say(quipu_store *store, const char *key, int from, int to)
{
    quipu_status status = QUIPU_OK;

    for (int i = from; i <= to && status == QUIPU_OK; i++) {
        char text[600];
        int n = snprintf(text, sizeof(text), "message %d of %s, with a needle %d", i, key, i * 7);
        for (int fill = 0; fill < i * 20 && n < 550; fill++) {
            text[n++] = (char)('a' + (fill + i) % 26);
        }
        const quipu_message message = {
            .role = i % 2 == 1 ? QUIPU_ROLE_USER : QUIPU_ROLE_MODEL,
            .content = {text, (size_t)n},
            .author = QUIPU_STR("somebody"),
            .extra = {i % 3 == 0 ? QUIPU_STR("{\"n\":[1,2.50,\"x\"]}") : (quipu_str){NULL, 0}}};
        status = quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                                      NULL, NULL, NULL);
    }
    return status;
}

static inline quipu_status t_corrupt_create(quipu_store *store, const char *key)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = quipu_cstr(key);
    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("user");
    values.metadata = (quipu_json){QUIPU_STR("{\"level\":\"high\"}")};
    values.title = QUIPU_STR("a title");
    return quipu_session_create(store, &values, NULL, NULL, NULL);
}

static inline quipu_status t_corrupt_fork(quipu_store *store, const char *key, int64_t seq,
                                          const char *fork)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = quipu_cstr(fork);
    return quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, NULL);
}

static inline quipu_status t_corrupt_remember(quipu_store *store, quipu_memory_kind kind)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = QUIPU_STR("one"),
                                 .content = QUIPU_STR("what was distilled"),
                                 .token_count = 3,
                                 .priority = QUIPU_PRIORITY_STANDING,
                                 .subject = QUIPU_STR("a subject"),
                                 .origin = QUIPU_STR("by hand"),
                                 .source_end = kind == QUIPU_OBSERVATION ? 2 : 0};

    return quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, NULL);
}

/* State of an app, a user and a session. */
static inline quipu_status t_corrupt_state(quipu_store *store)
{
    const quipu_session_ref ref = {QUIPU_STR("app"), QUIPU_STR("user"), QUIPU_STR("of adk")};
    const quipu_json state = {
        QUIPU_STR("{\"app:theme\":\"dark\",\"user:lang\":[\"en\",1.50],\"cart\":{\"n\":1},"
                  "\"step\":3}")};
    quipu_service *service = NULL;
    quipu_live *live = NULL;
    quipu_status status = quipu_service_new(store, NULL, &service, NULL);

    if (status == QUIPU_OK) {
        status = quipu_service_create(service, &ref, state, NULL, &live, NULL);
    }
    quipu_live_free(live);
    quipu_service_free(service);
    return status;
}

/* The `generate` of a model whose answers are refused: what it costs is counted. */
static inline quipu_status t_corrupt_generate(void *ctx, const quipu_model_params *params,
                                              const quipu_call_options *call,
                                              const quipu_sink *sink, quipu_error *reterr)
{
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_delta delta = QUIPU_DELTA_INIT;
    quipu_status status;

    (void)ctx;
    (void)params;
    (void)call;
    usage.input = 100;
    usage.output = 7;
    delta.kind = QUIPU_DELTA_USAGE;
    delta.usage = &usage;
    status = sink->put(sink->ctx, &delta, reterr);
    delta = (quipu_delta)QUIPU_DELTA_INIT;
    delta.kind = QUIPU_DELTA_FINISH;
    delta.finish = QUIPU_FINISH_STOP;
    return status == QUIPU_OK ? sink->put(sink->ctx, &delta, reterr) : status;
}

/* Jobs, scopes and the ledger: a model that failed on one session, and rules on all others. */
static inline quipu_status t_corrupt_observe(quipu_store *store)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_provider provider = QUIPU_PROVIDER_INIT;
    quipu_status status;

    provider.id = "none";
    provider.generate = t_corrupt_generate;
    options.observe_tokens = 1;
    options.session_key = QUIPU_STR("one");
    options.provider = &provider;
    options.model = QUIPU_STR("model");
    status = quipu_memory_run(store, &options, NULL, NULL, NULL);
    options = (quipu_memory_options)QUIPU_MEMORY_OPTIONS_INIT;
    options.observe_tokens = 1;
    return status == QUIPU_OK ? quipu_memory_run(store, &options, NULL, NULL, NULL) : status;
}

/* A prompt of session "one" that is sent: the log has its block of memory; a later one has a line
 * that is newer than the block. */
static inline quipu_status t_corrupt_send(quipu_store *store)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_status status;

    options.key = QUIPU_STR("one");
    options.model = QUIPU_STR("model");
    options.provider = QUIPU_STR("none");
    options.flags = QUIPU_CONTEXT_LOG;
    status = quipu_context_make(store, &options, NULL, &context, NULL);
    quipu_free(context);
    return status;
}

/* What belongs to no message: state, memories, what was sent, jobs, a factor. */
static inline quipu_status t_corrupt_fill_rest(quipu_store *store)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_status status = t_corrupt_state(store);

    status = status == QUIPU_OK ? t_corrupt_remember(store, QUIPU_OBSERVATION) : status;
    status = status == QUIPU_OK ? t_corrupt_send(store) : status;
    status = status == QUIPU_OK ? t_corrupt_remember(store, QUIPU_REFLECTION) : status;
    status = status == QUIPU_OK ? t_corrupt_say(store, "one", 13, 13) : status;
    status = status == QUIPU_OK ? t_corrupt_send(store) : status;
    status = status == QUIPU_OK ? t_corrupt_observe(store) : status;
    return status == QUIPU_OK ? quipu_model_factor_learn(
                                    store, QUIPU_STR("model"),
                                    &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                          .estimated = 1000,
                                                          .reported = 1200},
                                    NULL, &factor, NULL)
                              : status;
}

/* A row in every table: forks, a hidden session, a compaction, state, memories, jobs, what was
 * sent, factors, removals, the feed; an index, and messages that it lacks. */
static inline quipu_status t_corrupt_fill(quipu_store *store)
{
    quipu_status status = t_corrupt_create(store, "one");

    status = status == QUIPU_OK ? t_corrupt_say(store, "one", 1, 12) : status;
    status = status == QUIPU_OK ? t_corrupt_fork(store, "one", 8, "fork") : status;
    status = status == QUIPU_OK ? t_corrupt_say(store, "fork", 20, 24) : status;
    status = status == QUIPU_OK ? t_corrupt_create(store, "hidden") : status;
    status = status == QUIPU_OK ? t_corrupt_say(store, "hidden", 1, 6) : status;
    status = status == QUIPU_OK ? t_corrupt_fork(store, "hidden", 4, "orphan") : status;
    status = status == QUIPU_OK
                 ? quipu_session_delete(store, QUIPU_STR("hidden"), NULL, NULL, NULL, NULL)
                 : status;
    status = status == QUIPU_OK ? t_corrupt_create(store, "compact") : status;
    status = status == QUIPU_OK ? t_corrupt_say(store, "compact", 1, 10) : status;
    status = status == QUIPU_OK
                 ? quipu_session_compact(store, QUIPU_STR("compact"),
                                         T_COMPACT(6, QUIPU_STR("in short")), NULL, NULL, NULL)
                 : status;
    status = status == QUIPU_OK ? t_corrupt_fill_rest(store) : status;
    status = status == QUIPU_OK ? quipu_search_index(store, NULL, NULL, NULL) : status;
    status = status == QUIPU_OK ? t_corrupt_create(store, "pending") : status;
    return status == QUIPU_OK ? t_corrupt_say(store, "pending", 1, 3) : status;
}

/* The heads of all sessions. */
static inline quipu_status t_corrupt_heads(quipu_store *store, t_bytes *ret)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;

    options.flags = QUIPU_EXPORT_HEADS;
    return quipu_store_export(store, &options, t_bytes_write, ret, NULL, NULL, NULL);
}

/* False: the base could not be made. */
static inline bool t_corrupt_begin(const char *folder, t_corrupt_base *ret)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    char log[1100];
    bool good;

    *ret = (t_corrupt_base){0};
    (void)snprintf(ret->path, sizeof(ret->path), "%s/corrupt.db", folder);
    (void)snprintf(log, sizeof(log), "%s-wal", ret->path);
    options.flags = QUIPU_OPEN_FEED;
    options.durability = QUIPU_RELAXED;
    good = quipu_open(ret->path, &options, &store, NULL) == QUIPU_OK &&
           t_corrupt_fill(store) == QUIPU_OK;
    quipu_close(store); /* which moves the log into the file */
    store = NULL;
    good = good && t_corrupt_get(ret->path, &ret->stale) &&
           quipu_open(ret->path, &options, &store, NULL) == QUIPU_OK &&
           t_corrupt_create(store, "late") == QUIPU_OK &&
           t_corrupt_say(store, "late", 1, 8) == QUIPU_OK && t_corrupt_get(log, &ret->log) &&
           t_oracle_export(store, &ret->exported, &(quipu_error){0}) == QUIPU_OK &&
           t_corrupt_heads(store, &ret->heads) == QUIPU_OK;
    quipu_close(store);
    good = good && t_corrupt_get(ret->path, &ret->file);
    ret->has_checksums = good && ret->file.p[T_CORRUPT_RESERVED] != 0;
    return good;
}

static inline void t_corrupt_end(t_corrupt_base *base)
{
    t_bytes_free(&base->file);
    t_bytes_free(&base->stale);
    t_bytes_free(&base->log);
    t_bytes_free(&base->exported);
    t_bytes_free(&base->heads);
}

/* ---- one run ----------------------------------------------------------------------------------
 */

static inline t_bytes *t_corrupt_bytes(t_corrupt_base *base, t_corrupt_target target)
{
    return target == T_CORRUPT_FILE  ? &base->file
           : target == T_CORRUPT_LOG ? &base->log
                                     : &base->exported;
}

/* Only a call that does not end fails here: damage may fail every other one. */
static inline const char *t_corrupt_ended(const char *what, quipu_status status,
                                          const quipu_error *err)
{
    return status == QUIPU_BUSY || (status != QUIPU_OK && err->message[0] == '\0')
               ? t_oracle_fail(what, status, err)
               : NULL;
}

/* Every verb on a store that is damaged, or that was. */
static inline const char *t_corrupt_verbs(quipu_store *store, t_bytes *scratch)
{
    const quipu_call_options call = t_oracle_call();
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    const quipu_message message = {.role = QUIPU_ROLE_USER, .content = QUIPU_STR("after")};
    bool clean = false;
    const char *wrong = NULL;
    quipu_window *window = NULL;

#define T_CORRUPT_CALL(what, expression)                                                           \
    if (wrong == NULL) {                                                                           \
        quipu_error err = {0};                                                                     \
        wrong = t_corrupt_ended(what, expression, &err);                                           \
    }
    values.key = QUIPU_STR("fork after");
    T_CORRUPT_CALL("stats", quipu_store_stats(store, NULL, &call, &stats, &err));
    T_CORRUPT_CALL("export", t_oracle_export(store, scratch, &err));
    T_CORRUPT_CALL("show", t_oracle_sessions(store, t_oracle_show, &err));
    T_CORRUPT_CALL("search", t_oracle_search(store, &err));
    T_CORRUPT_CALL("window", quipu_window_get(store, "one", 100, &window, &err));
    quipu_free(window);
    T_CORRUPT_CALL("what is known", t_oracle_sessions(store, t_oracle_known, &err));
    T_CORRUPT_CALL("observe", t_oracle_observe(store, &err));
    T_CORRUPT_CALL("append",
                   quipu_message_append(store, QUIPU_STR("one"), quipu_messages_of(&message, 1),
                                        NULL, &call, NULL, &err));
    T_CORRUPT_CALL("fork",
                   quipu_session_fork(store, QUIPU_STR("fork"), 9, &values, &call, NULL, &err));
    T_CORRUPT_CALL("prune", quipu_session_prune(store, QUIPU_STR("compact"), &call, NULL, &err));
    T_CORRUPT_CALL("rm", quipu_session_delete(store, QUIPU_STR("orphan"), NULL, &call, NULL, &err));
    T_CORRUPT_CALL("repair", t_oracle_verify(store, QUIPU_VERIFY_REPAIR, &clean, &err));
    T_CORRUPT_CALL("verify", t_oracle_verify(store, 0, &clean, &err));
    T_CORRUPT_CALL("tree", quipu_session_delete(
                               store, QUIPU_STR("one"),
                               &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                       .flags = QUIPU_DELETE_TREE},
                               &call, NULL, &err));
    T_CORRUPT_CALL("rm of all", t_oracle_sessions(store, t_oracle_remove, &err));
#undef T_CORRUPT_CALL
    return wrong;
}

/* A quipu_problem_fn that notes whether a checksum found something. */
static inline void t_corrupt_hear(void *ctx, const quipu_problem *problem)
{
    bool *by_sum = ctx;
    char text[512];

    (void)snprintf(text, sizeof(text), "%.*s", (int)problem->text.n, problem->text.p);
    *by_sum = *by_sum || strstr(text, "does not fit its checksum") != NULL;
}

/* As t_oracle_verify(); *ret_by_sum: a checksum found something. */
static inline quipu_status t_corrupt_verify(quipu_store *store, bool *ret_clean, bool *ret_by_sum,
                                            quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status =
        quipu_store_verify(store, T_VERIFY(0, t_corrupt_hear, ret_by_sum), &call, &verified, err);

    *ret_clean = status == QUIPU_OK && verified.problems == 0;
    *ret_by_sum = *ret_by_sum || strstr(err->message, "does not fit its checksum") != NULL;
    return status;
}

/* A store file and its log, damaged. */
static inline const char *t_corrupt_store(t_corrupt_base *base, t_corrupt_target target,
                                          t_corrupt_seen *seen)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    t_bytes scratch = {0};
    quipu_error err = {0};
    bool clean = false;
    bool index_changed = false;
    bool by_sum = false;
    quipu_compared compared = QUIPU_COMPARED_INIT;
    const char *wrong = NULL;
    quipu_status status;

    options.durability = QUIPU_RELAXED;
    status = quipu_open(base->path, &options, &store, &err);
    if (status != QUIPU_OK) {
        seen->refused++;
        seen->sums += strstr(err.message, "does not fit its checksum") != NULL;
        return t_corrupt_ended("open", status, &err);
    }
    status = t_corrupt_verify(store, &clean, &by_sum, &err);
    seen->sums += by_sum;
    wrong = t_corrupt_ended("verify", status, &err);
    if (wrong == NULL) {
        base->heads.at = 0;
        status = quipu_store_verify_against(store, NULL, t_bytes_read, &base->heads, NULL,
                                            &compared, &err);
        wrong = t_corrupt_ended("verify against heads", status, &err);
    }
    if (wrong == NULL && clean) {
        wrong = t_oracle(store, &scratch, &index_changed);
        if (t_bytes_equal(&scratch, &base->exported) && !index_changed) {
            seen->harmless++;
        } else if (target == T_CORRUPT_LOG) {
            seen->lost_tail++;
            seen->unnoticed += compared.problems == 0;
        } else {
            seen->changed++;
        }
    } else if (wrong == NULL) {
        seen->found++;
        wrong = t_corrupt_verbs(store, &scratch);
    }
    t_bytes_free(&scratch);
    quipu_close(store);
    return wrong;
}

/* An export, damaged: what an import accepts is a sound store. */
static inline const char *t_corrupt_import(t_bytes *damaged, const t_bytes *sound,
                                           t_corrupt_seen *seen)
{
    const quipu_call_options call = t_oracle_call();
    quipu_store *store = NULL;
    t_bytes scratch = {0};
    quipu_error err = {0};
    bool clean = false;
    bool index_changed = false;
    const char *wrong = NULL;
    quipu_status status = quipu_open(":memory:", NULL, &store, &err);

    damaged->at = 0;
    if (status == QUIPU_OK) {
        status = quipu_store_import(store, NULL, t_bytes_read, damaged, &call, NULL, &err);
        wrong = t_corrupt_ended("import", status, &err);
    }
    seen->refused += status != QUIPU_OK;
    if (wrong == NULL && status == QUIPU_OK) {
        status = t_oracle_verify(store, 0, &clean, &err);
        wrong = clean ? t_oracle(store, &scratch, &index_changed)
                      : t_oracle_fail("verify of an import", status, &err);
        wrong = wrong == NULL && index_changed ? "an import made a wrong index" : wrong;
        seen->harmless += t_bytes_equal(&scratch, sound);
        seen->found += !t_bytes_equal(&scratch, sound); /* another export, and a sound one */
    }
    t_bytes_free(&scratch);
    quipu_close(store);
    return wrong;
}

/* Runs everything on the base with `damaged` in the place of the target's bytes. NULL, or what does
 * not hold. */
static inline const char *t_corrupt_run(t_corrupt_base *base, t_corrupt_target target,
                                        t_bytes *damaged, t_corrupt_seen *seen)
{
    const t_bytes none = {0};

    seen->runs++;
    if (target == T_CORRUPT_EXPORT) {
        return t_corrupt_import(damaged, &base->exported, seen);
    }
    if (!t_corrupt_place(base->path, target == T_CORRUPT_FILE ? damaged : &base->stale,
                         target == T_CORRUPT_LOG ? damaged : &none)) {
        return "the files cannot be written";
    }
    return t_corrupt_store(base, target, seen);
}

#endif
