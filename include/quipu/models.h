/* The table of language models: context, limits, caches and prices by a model's name. Callers
 * extend and replace the built-in rows with rows of their own.
 *
 * Each built-in row states the month in which its public figures were read; of a row without
 * prices, in which it was read or written. Providers change them: a program that bills by them
 * should bring its own rows. */
#ifndef QUIPU_MODELS_H
#define QUIPU_MODELS_H

#include <quipu/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_MODEL_WINDOW 128000 /* tokens of the context of an unknown model */
#define QUIPU_MODEL_BUDGET 32000  /* tokens of a prompt for an unknown model */

/* How a provider caches the beginning of a prompt. */
typedef enum quipu_cache_kind {
    QUIPU_CACHE_UNKNOWN = 0,
    QUIPU_CACHE_NONE,
    QUIPU_CACHE_AUTOMATIC, /* by itself */
    QUIPU_CACHE_EXPLICIT   /* where the request marks it */
} quipu_cache_kind;

/* Models whose names begin with `prefix`. 0: not known. */
typedef struct quipu_model_row {
    quipu_str prefix;       /* in small letters */
    int64_t window;         /* tokens of the context: prompt and answer together */
    int64_t output;         /* tokens of one answer, at most */
    int64_t budget;         /* tokens of a prompt when a caller names no number: the part of the
                             * window that a conversation is worth paying for; 0: half the window */
    quipu_cache_kind cache; /* of prompts */
    int32_t cache_ttl;      /* seconds that a cached beginning lives without being used */
    int64_t cache_min;      /* tokens: a shorter beginning is not cached */
    int64_t cache_step;     /* tokens: cached beginnings grow by so many */
    int64_t price_input;    /* millionths of a US dollar for a million tokens of a prompt... */
    int64_t price_cached;   /* ...read from the cache */
    int64_t price_write;    /* ...written to the cache */
    int64_t price_output;   /* ...of an answer */
    int32_t as_of;          /* year * 100 + month of the figures; 0: a caller does not state it */
} quipu_model_row;

/* Rows of a caller. */
QUIPU_SLICE(quipu_model_rows, quipu_model_row)

/**
 * Find the row of a model: the one with the longest prefix of its name, of the caller's `rows`
 * (NULL is fine) before the built-in ones of the same prefix. The name may have a path or a
 * provider before it, as in "models/gemini-2.5-pro", "anthropic/claude-sonnet-4-5" or
 * "us.anthropic.claude-3-opus": a prefix may match behind any '/', '.' or ':'. Capitals count as
 * small letters.
 *
 * An unknown name gives a row with an empty prefix, QUIPU_MODEL_WINDOW and QUIPU_MODEL_BUDGET.
 *
 * Rows without a size, or that set a member that the library does not know, are passed over here;
 * options with such rows fail.
 *
 * Ownership: the row is the caller's own or static; never NULL. Inputs are borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API const quipu_model_row *quipu_model_find(quipu_str model, const quipu_model_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
