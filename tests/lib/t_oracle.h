/* The oracle between tools: what must work on a store when verify reports nothing, and what a
 * damaged one must survive. Header only and without cmocka, so that tests and fuzz targets share
 * it: a function gives NULL, or a sentence about the claim that does not hold. */
#ifndef T_LIB_ORACLE_H
#define T_LIB_ORACLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/quipu.h>

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

static inline quipu_status t_oracle_remove(quipu_store *store, quipu_str key, quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();

    return quipu_session_delete(store, key, &call, err);
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

/* A quipu_problem_fn that counts what is not about the search index. */
static inline void t_oracle_hear(void *ctx, const quipu_problem *problem)
{
    *(int *)ctx += problem->kind != QUIPU_PROBLEM_SEARCH;
}

/* Whether verify reports nothing. */
static inline quipu_status t_oracle_verify(quipu_store *store, uint32_t flags, bool *ret_clean,
                                           quipu_error *err)
{
    const quipu_call_options call = t_oracle_call();
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status = quipu_store_verify(store, flags, NULL, NULL, &call, &verified, err);

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
    int others = 0;
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
    status = t_oracle_sessions(store, t_oracle_remove, &err);
    if (status != QUIPU_OK) {
        return t_oracle_fail("rm", status, &err);
    }
    status = quipu_store_verify(store, 0, t_oracle_hear, &others, &call, &verified, &err);
    *ret_index_changed = verified.problems > 0;
    return status == QUIPU_OK && others == 0 ? NULL
                                             : t_oracle_fail("verify after rm", status, &err);
}

#endif
