/* The oracle between tools: what must work on a store when verify reports nothing, and what a
 * damaged one must survive. Header only and without cmocka, so that tests and fuzz targets share
 * it: a function gives NULL, or a sentence about the claim that does not hold. */
#ifndef T_LIB_ORACLE_H
#define T_LIB_ORACLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/quipu.h>

#include "lib/short.h"

#define T_ORACLE_DEADLINE_MS 120000 /* a call that reaches it does not end: no sound one is near */

/* Bytes that an export wrote, or that an import reads. */
typedef struct t_bytes {
    char *p;
    size_t n;
    size_t room;
    size_t at;
} t_bytes;

static inline void t_bytes_free(t_bytes *bytes)
{
    free(bytes->p);
    *bytes = (t_bytes){0};
}

static inline quipu_status t_bytes_write(void *ctx, const void *p, size_t n)
{
    t_bytes *bytes = ctx;

    if (bytes->n + n > bytes->room) {
        size_t room = 2 * (bytes->n + n);
        char *grown = realloc(bytes->p, room);
        if (grown == NULL) {
            return QUIPU_NOMEM;
        }
        bytes->p = grown;
        bytes->room = room;
    }
    memcpy(bytes->p + bytes->n, p, n);
    bytes->n += n;
    return QUIPU_OK;
}

static inline quipu_status t_bytes_read(void *ctx, void *ret_p, size_t size, size_t *ret_n)
{
    t_bytes *bytes = ctx;
    size_t n = bytes->n - bytes->at < size ? bytes->n - bytes->at : size;

    if (n > 0) {
        memcpy(ret_p, bytes->p + bytes->at, n);
    }
    bytes->at += n;
    *ret_n = n;
    return QUIPU_OK;
}

static inline bool t_bytes_equal(const t_bytes *a, const t_bytes *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
}

/* A call that ends by itself, or with QUIPU_BUSY, which no test here expects. */
static inline quipu_call_options t_oracle_call(void)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = T_ORACLE_DEADLINE_MS;
    return call;
}

static char t_oracle_text[1024]; /* the last claim that did not hold */

static inline const char *t_oracle_fail(const char *what, quipu_status status,
                                        const quipu_error *err)
{
    (void)snprintf(t_oracle_text, sizeof(t_oracle_text), "%s: %s (%s)", what,
                   quipu_status_name(status), err->message);
    return t_oracle_text;
}

static inline quipu_status t_oracle_export(quipu_store *store, t_bytes *ret, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();

    ret->n = ret->at = 0;
    return quipu_store_export(store, NULL, t_bytes_write, ret, &call, NULL, err);
}

/* Calls `each` with every session's key, until it fails. */
static inline quipu_status t_oracle_sessions(quipu_store *store,
                                             quipu_status (*each)(quipu_store *store, quipu_str key,
                                                                  quipu_error *err),
                                             quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *list = NULL;
    quipu_status status;

    options.flags = QUIPU_LIST_EXPIRED;
    options.limit = QUIPU_PAGE_MAX;
    status = quipu_session_list(store, &options, &call, &list, err);
    for (size_t i = 0; status == QUIPU_OK && i < list->sessions.count; i++) {
        status = each(store, quipu_session_info_at(list->sessions, i)->key, err);
    }
    quipu_free(list);
    return status;
}

static inline quipu_status t_oracle_show(quipu_store *store, quipu_str key, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, key, NULL, &call, &history, err);

    quipu_free(history);
    return status == QUIPU_EXPIRED ? QUIPU_OK : status;
}

/* What is known of a session, its next prompt, and that of its newest message again. */
static inline quipu_status t_oracle_known(quipu_store *store, quipu_str key, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_context *context = NULL;
    quipu_memory_list *list = NULL;
    quipu_status status = QUIPU_OK;

    query.session_key = key;
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION && status == QUIPU_OK; kind++) {
        query.kind = (quipu_memory_kind)kind;
        status = quipu_memory_find(store, &query, &call, &list, err);
        quipu_free(list);
        list = NULL;
    }
    options.key = key;
    options.flags = QUIPU_CONTEXT_AS_BEFORE;
    options.model = QUIPU_STR("model");
    if (status == QUIPU_OK) {
        status = quipu_context_make(store, &options, &call, &context, err);
        options.at_seq = status == QUIPU_OK ? context->last_seq : 0;
        quipu_free(context);
        context = NULL;
    }
    options.flags = 0;
    if (status == QUIPU_OK && options.at_seq > 0) {
        status = quipu_context_make(store, &options, &call, &context, err);
        quipu_free(context);
    }
    /* A turn need not be logged, and its messages may be pruned. */
    return status == QUIPU_EXPIRED || status == QUIPU_NOT_FOUND ? QUIPU_OK : status;
}

/* A pass of the worker that observes, and what is known about it. */
static inline quipu_status t_oracle_observe(quipu_store *store, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_status status = quipu_memory_status(store, NULL, &call, &list, err);

    quipu_free(list);
    list = NULL;
    options.observe_tokens = 1;
    if (status == QUIPU_OK) {
        status = quipu_memory_run(store, &options, &call, &ran, err);
    }
    if (status == QUIPU_OK && ran.failed > 0) {
        status = quipu_memory_status(store, NULL, &call, &list, err);
        for (size_t i = 0; status == QUIPU_OK && i < list->sessions.count; i++) {
            const quipu_str why = quipu_memory_progress_at(list->sessions, i)->last_error;

            if (why.n > 0) {
                (void)snprintf(err->message, sizeof(err->message), "%.*s", (int)why.n, why.p);
            }
        }
        quipu_free(list);
        return QUIPU_CORRUPT;
    }
    return status;
}

static inline quipu_status t_oracle_remove(quipu_store *store, quipu_str key, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();

    return quipu_session_delete(store, key, NULL, &call, NULL, err);
}

static inline quipu_status t_oracle_search(quipu_store *store, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_status status;

    options.query = QUIPU_STR("needle");
    status = quipu_search(store, &options, &call, &results, err);
    quipu_free(results);
    return status;
}

/* A quipu_problem_fn that keeps the last one that is not about the search index. */
static inline void t_oracle_hear(void *ctx, const quipu_problem *problem)
{
    quipu_error *other = ctx;

    if (problem->kind != QUIPU_PROBLEM_SEARCH) {
        other->status = QUIPU_CORRUPT;
        (void)snprintf(other->message, sizeof(other->message), "%.*s", (int)problem->text.n,
                       problem->text.p);
    }
}

/* Whether verify reports nothing. */
static inline quipu_status t_oracle_verify(quipu_store *store, uint32_t flags, bool *ret_clean,
                                           quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status =
        quipu_store_verify(store, T_VERIFY(flags, NULL, NULL), &call, &verified, err);

    *ret_clean = status == QUIPU_OK && verified.problems == 0;
    return status;
}

/* The export imports into a fresh store whose own export is the same. */
static inline const char *t_oracle_import(t_bytes *exported)
{
    const quipu_call_options call = t_oracle_call();
    quipu_store *other = NULL;
    t_bytes back = {0};
    quipu_error err = {0};
    const char *wrong = NULL;
    quipu_status status = quipu_open(":memory:", NULL, &other, &err);

    exported->at = 0;
    if (status == QUIPU_OK) {
        status = quipu_store_import(other, NULL, t_bytes_read, exported, &call, NULL, &err);
    }
    if (status != QUIPU_OK) {
        wrong = t_oracle_fail("the export cannot be imported", status, &err);
    } else if (t_oracle_export(other, &back, &err) != QUIPU_OK) {
        wrong = t_oracle_fail("the imported store cannot be exported", err.status, &err);
    } else if (!t_bytes_equal(exported, &back)) {
        wrong = "the imported store is not equal";
    }
    t_bytes_free(&back);
    quipu_close(other);
    return wrong;
}

/* What must work when verify has reported nothing. Deletes all sessions at the end. `exported` gets
 * what the store held. *ret_index_changed: words stayed in the search index, although it had passed
 * its check. FTS5 compares sums of words, in which a word that damage made twice cancels itself
 * out: only page checksums find that. */
static inline const char *t_oracle(quipu_store *store, t_bytes *exported, bool *ret_index_changed)
{
    const quipu_call_options call = t_oracle_call();
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error other = {0};
    quipu_error err = {0};
    const char *wrong = NULL;
    quipu_status status = t_oracle_export(store, exported, &err);

    *ret_index_changed = false;
    if (status != QUIPU_OK) {
        return t_oracle_fail("export", status, &err);
    }
    status = t_oracle_sessions(store, t_oracle_show, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("show", status, &err);
    }
    status = t_oracle_search(store, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("search", status, &err);
    }
    wrong = t_oracle_import(exported);
    if (wrong != NULL) {
        return wrong;
    }
    status = t_oracle_sessions(store, t_oracle_known, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("what is known and sent", status, &err);
    }
    status = t_oracle_observe(store, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("observe", status, &err);
    }
    status = t_oracle_sessions(store, t_oracle_remove, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("rm", status, &err);
    }
    status = quipu_store_verify(store, T_VERIFY(0, t_oracle_hear, &other), &call, &verified, &err);
    *ret_index_changed = verified.problems > 0;
    if (status != QUIPU_OK) {
        return t_oracle_fail("verify after rm", status, &err);
    }
    return other.status == QUIPU_OK ? NULL : t_oracle_fail("after rm", other.status, &other);
}

#endif
