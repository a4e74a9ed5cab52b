/* The built-in table of models, sorted by prefix, and its lookup.
 *
 *   asked for      "claude-opus-4-5-20251101"
 *   rows           "claude-"   "claude-opus-4-2025"   "claude-opus-4-5" ◀ the longest that fits
 *
 * Owns: the constant rows; no state. A prefix without prices stands for models of which only the
 * context is known, or keeps a row of a shorter prefix from lending its prices to siblings that
 * cost something else. Callers replace rows that grew old (quipu_model_find()).
 * Called by: src/agent for windows, budgets and caches, src/memory/ask.c and src/store/usage.c for
 * costs, src/memory/run.c to check rows; programs through include/quipu/models.h.
 * On return a row is found for every name: the last resort is models_unknown.
 * Locks: none; the rows are constant, and a caller's own rows are only read. */
#include "base/models.h"

#include <string.h>

#include "base/error.h"

#define MODELS_PER_MILLION 1e6 /* prices are for a million tokens */

/* prefix, window, output, budget, cache with ttl, min and step, prices for input, cached, write and
 * output, year and month. Windows, outputs and budgets are tokens, the ttl seconds, prices
 * millionths of a US dollar for a million tokens, the last number the month in which somebody
 * looked: 202508 is August 2025. A row that stands for many models, or whose prices nobody has
 * read, has the month in which it was written. 0 is "not known" everywhere else: a price of
 * 0 prices nothing. */
#define MODEL(name, ...) {{name, sizeof(name) - 1}, __VA_ARGS__}

/* clang-format off */
static const quipu_model_row models_rows[] = {
    MODEL("chatgpt-4o", 128000, 16384, 64000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("claude-", 200000, 0, 100000, QUIPU_CACHE_EXPLICIT, 300, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("claude-3-5-haiku", 200000, 8192, 100000, QUIPU_CACHE_EXPLICIT, 300, 2048, 0,
          800000, 80000, 1000000, 4000000, 202508),
    MODEL("claude-3-5-sonnet", 200000, 8192, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          3000000, 300000, 3750000, 15000000, 202508),
    MODEL("claude-3-7-sonnet", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          3000000, 300000, 3750000, 15000000, 202508),
    MODEL("claude-3-haiku", 200000, 4096, 100000, QUIPU_CACHE_EXPLICIT, 300, 2048, 0,
          250000, 30000, 300000, 1250000, 202508),
    MODEL("claude-3-opus", 200000, 4096, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          15000000, 1500000, 18750000, 75000000, 202508),
    MODEL("claude-haiku-4-5", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 4096, 0,
          1000000, 100000, 1250000, 5000000, 202511),
    MODEL("claude-opus-4-0", 200000, 32000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          15000000, 1500000, 18750000, 75000000, 202508),
    MODEL("claude-opus-4-1", 200000, 32000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          15000000, 1500000, 18750000, 75000000, 202611),
    MODEL("claude-opus-4-2025", 200000, 32000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          15000000, 1500000, 18750000, 75000000, 202508),
    MODEL("claude-opus-4-5", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 4096, 0,
          5000000, 500000, 6250000, 25000000, 202611),
    MODEL("claude-opus-4-6", 200000, 0, 100000, QUIPU_CACHE_EXPLICIT, 300, 0, 0,
          5000000, 500000, 6250000, 25000000, 202611),
    MODEL("claude-opus-4-7", 200000, 0, 100000, QUIPU_CACHE_EXPLICIT, 300, 0, 0,
          5000000, 500000, 6250000, 25000000, 202611),
    MODEL("claude-opus-4-8", 200000, 0, 100000, QUIPU_CACHE_EXPLICIT, 300, 0, 0,
          5000000, 500000, 6250000, 25000000, 202611),
    MODEL("claude-opus-5", 200000, 0, 100000, QUIPU_CACHE_EXPLICIT, 300, 0, 0,
          5000000, 500000, 6250000, 25000000, 202611),
    MODEL("claude-sonnet-4-0", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          3000000, 300000, 3750000, 15000000, 202508),
    MODEL("claude-sonnet-4-2025", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          3000000, 300000, 3750000, 15000000, 202508),
    MODEL("claude-sonnet-4-5", 200000, 64000, 100000, QUIPU_CACHE_EXPLICIT, 300, 1024, 0,
          3000000, 300000, 3750000, 15000000, 202511),
    MODEL("gemini-", 1048576, 0, 200000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gemini-1.5", 2097152, 8192, 200000, QUIPU_CACHE_EXPLICIT, 3600, 32768, 0,
          0, 0, 0, 0, 202502),
    MODEL("gemini-1.5-flash", 1048576, 8192, 200000, QUIPU_CACHE_EXPLICIT, 3600, 32768, 0,
          0, 0, 0, 0, 202502),
    MODEL("gemini-2.0-flash", 1048576, 8192, 200000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          100000, 0, 0, 400000, 202508),
    MODEL("gemini-2.0-flash-lite", 1048576, 8192, 200000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          75000, 0, 0, 300000, 202508),
    MODEL("gemini-2.5-flash", 1048576, 65536, 200000, QUIPU_CACHE_AUTOMATIC, 0, 0, 0,
          300000, 0, 0, 2500000, 202508),
    MODEL("gemini-2.5-flash-lite", 1048576, 65536, 200000, QUIPU_CACHE_AUTOMATIC, 0, 0, 0,
          100000, 0, 0, 400000, 202508),
    MODEL("gemini-2.5-pro", 1048576, 65536, 200000, QUIPU_CACHE_AUTOMATIC, 0, 0, 0,
          1250000, 0, 0, 10000000, 202508),
    MODEL("gpt-3.5", 16385, 4096, 8000, QUIPU_CACHE_NONE, 0, 0, 0,
          500000, 0, 0, 1500000, 202508),
    MODEL("gpt-4", 8192, 8192, 4096, QUIPU_CACHE_NONE, 0, 0, 0,
          30000000, 0, 0, 60000000, 202508),
    MODEL("gpt-4-0125", 128000, 4096, 32000, QUIPU_CACHE_NONE, 0, 0, 0,
          10000000, 0, 0, 30000000, 202508),
    MODEL("gpt-4-1106", 128000, 4096, 32000, QUIPU_CACHE_NONE, 0, 0, 0,
          10000000, 0, 0, 30000000, 202508),
    MODEL("gpt-4-32k", 32768, 0, 16384, QUIPU_CACHE_NONE, 0, 0, 0,
          60000000, 0, 0, 120000000, 202502),
    MODEL("gpt-4-turbo", 128000, 4096, 64000, QUIPU_CACHE_NONE, 0, 0, 0,
          10000000, 0, 0, 30000000, 202508),
    MODEL("gpt-4-vision", 128000, 4096, 32000, QUIPU_CACHE_NONE, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-4.1", 1047576, 32768, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          2000000, 500000, 0, 8000000, 202508),
    MODEL("gpt-4.1-mini", 1047576, 32768, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          400000, 100000, 0, 1600000, 202508),
    MODEL("gpt-4.1-nano", 1047576, 32768, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          100000, 25000, 0, 400000, 202508),
    MODEL("gpt-4.5", 128000, 16384, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          0, 0, 0, 0, 202611),
    MODEL("gpt-4o", 128000, 16384, 64000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          2500000, 1250000, 0, 10000000, 202508),
    MODEL("gpt-4o-2024-05-13", 128000, 4096, 64000, QUIPU_CACHE_NONE, 0, 0, 0,
          5000000, 0, 0, 15000000, 202508),
    MODEL("gpt-4o-audio", 128000, 16384, 64000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-4o-mini", 128000, 16384, 64000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          150000, 75000, 0, 600000, 202508),
    MODEL("gpt-4o-mini-audio", 128000, 16384, 64000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-4o-mini-realtime", 128000, 4096, 64000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-4o-realtime", 128000, 4096, 64000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-5", 400000, 128000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          1250000, 125000, 0, 10000000, 202508),
    MODEL("gpt-5-chat", 128000, 16384, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          0, 0, 0, 0, 202611),
    MODEL("gpt-5-mini", 400000, 128000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          250000, 25000, 0, 2000000, 202508),
    MODEL("gpt-5-nano", 400000, 128000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          50000, 5000, 0, 400000, 202508),
    MODEL("gpt-5-pro", 400000, 0, 32000, QUIPU_CACHE_UNKNOWN, 0, 0, 0,
          0, 0, 0, 0, 202611),
    MODEL("gpt-5.", 400000, 128000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          0, 0, 0, 0, 202611),
    MODEL("o1", 200000, 100000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          15000000, 7500000, 0, 60000000, 202508),
    MODEL("o1-mini", 128000, 65536, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          1100000, 550000, 0, 4400000, 202508),
    MODEL("o1-preview", 128000, 32768, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          15000000, 7500000, 0, 60000000, 202508),
    MODEL("o1-pro", 200000, 100000, 32000, QUIPU_CACHE_NONE, 0, 0, 0,
          150000000, 0, 0, 600000000, 202508),
    MODEL("o3", 200000, 100000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          2000000, 500000, 0, 8000000, 202508),
    MODEL("o3-mini", 200000, 100000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          1100000, 550000, 0, 4400000, 202508),
    MODEL("o3-pro", 200000, 100000, 32000, QUIPU_CACHE_NONE, 0, 0, 0,
          20000000, 0, 0, 80000000, 202508),
    MODEL("o4-mini", 200000, 100000, 32000, QUIPU_CACHE_AUTOMATIC, 300, 1024, 128,
          1100000, 275000, 0, 4400000, 202508),
};
/* clang-format on */

/* For a name that no row matches: a cautious context and no prices. Its prefix is empty, so that
 * any match replaces it. */
static const quipu_model_row models_unknown = {
    .prefix = {"", 0}, .window = QUIPU_MODEL_WINDOW, .budget = QUIPU_MODEL_BUDGET};

/* ASCII only, and not tolower(): the locale must not decide which model it is. */
static char models_small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether a prefix may begin at byte `at` of a name. "openai/gpt-4o", "us.anthropic.claude-..." and
 * "models:gemini-..." are names of gateways for the same models. */
static bool models_is_start(quipu_str name, size_t at)
{
    return at == 0 || name.p[at - 1] == '/' || name.p[at - 1] == '.' || name.p[at - 1] == ':';
}

/* Whether the name has the prefix at its beginning or behind a separator, in any case. Names are
 * short, so that trying every place costs nothing. */
static bool models_match(quipu_str name, quipu_str prefix)
{
    for (size_t at = 0; at + prefix.n <= name.n; at++) {
        size_t same = 0;

        while (models_is_start(name, at) && same < prefix.n &&
               models_small(name.p[at + same]) == models_small(prefix.p[same])) {
            same++;
        }
        if (same == prefix.n) {
            return true;
        }
    }
    return false;
}

/* The row with the longest prefix. *ret_size is what there is of it in memory. The caller's rows
 * come first and win a tie: a built-in row must be longer to replace one. */
static const quipu_model_row *models_find(quipu_str model, const quipu_model_rows *rows,
                                          size_t *ret_size)
{
    const quipu_model_row *found = &models_unknown;
    const bool usable = rows != NULL && qp_model_rows_check(rows, NULL) == QUIPU_OK;

    *ret_size = sizeof(*found);
    for (size_t i = 0; usable && i < rows->count; i++) {
        const quipu_model_row *row = quipu_model_row_at(*rows, i);

        if (row->prefix.n > found->prefix.n && models_match(model, row->prefix)) {
            found = row;
            *ret_size = rows->item_size < sizeof(*found) ? rows->item_size : sizeof(*found);
        }
    }
    for (size_t i = 0; i < sizeof(models_rows) / sizeof(models_rows[0]); i++) {
        const quipu_model_row *row = &models_rows[i];

        if (row->prefix.n > found->prefix.n && models_match(model, row->prefix)) {
            found = row;
            *ret_size = sizeof(*found);
        }
    }
    return found;
}

/* The row itself, which is the caller's or static: never NULL. Rows that do not pass
 * qp_model_rows_check() are ignored here; functions that can fail report them. */
const quipu_model_row *quipu_model_find(quipu_str model, const quipu_model_rows *rows)
{
    size_t size = 0;

    return models_find(model, rows, &size);
}

/* Whether a row says nothing behind the members that this version knows. A newer caller may have
 * longer rows; a price that this version cannot read must not count as 0. */
static bool models_is_known(const quipu_model_rows *rows, size_t index)
{
    const char *row = (const char *)quipu_model_row_at(*rows, index);

    for (size_t i = sizeof(quipu_model_row); i < rows->item_size; i++) {
        if (row[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Called by every function that takes rows, before any work. */
quipu_status qp_model_rows_check(const quipu_model_rows *rows, quipu_error *reterr)
{
    const size_t count = rows != NULL ? rows->count : 0;

    if (count > 0 && (rows->items == NULL || rows->item_size < sizeof(quipu_str))) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "rows of models need items and their size; make them with "
                            "quipu_model_rows_of()");
    }
    for (size_t i = 0; i < count; i++) {
        if (!models_is_known(rows, i)) {
            return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                "a row of models sets a member that this version does not know; "
                                "upgrade the library");
        }
    }
    return QUIPU_OK;
}

/* A copy with this version's size and with defaults filled in; members that a shorter row lacks are
 * 0. */
quipu_model_row qp_model_row(quipu_str model, const quipu_model_rows *rows)
{
    quipu_model_row row = {.window = 0};
    size_t size = 0;
    const quipu_model_row *found = models_find(model, rows, &size);

    memcpy(&row, found, size);
    row.window = row.window > 0 ? row.window : QUIPU_MODEL_WINDOW;
    row.budget = row.budget > 0 ? row.budget : row.window / 2;
    return row;
}

/* Unpriced as a whole when any part has no price: a sum that leaves a part out would look like a
 * price. Tokens times millionths of a dollar a million tokens are added up as doubles, which
 * int64_t could not hold for every count, and divided once; *ret_cost are millionths of a dollar,
 * rounded. */
bool qp_model_cost(const quipu_model_row *row, int64_t input, int64_t cached, int64_t written,
                   int64_t output, int64_t *ret_cost)
{
    const bool priced =
        (input == 0 || row->price_input > 0) && (output == 0 || row->price_output > 0) &&
        (cached == 0 || row->price_cached > 0) && (written == 0 || row->price_write > 0);

    if (priced) {
        const double sum = (double)(input - cached - written) * (double)row->price_input +
                           (double)cached * (double)row->price_cached +
                           (double)written * (double)row->price_write +
                           (double)output * (double)row->price_output;

        *ret_cost = (int64_t)(sum / MODELS_PER_MILLION + 0.5);
    }
    return priced;
}

/* For the tests, which check the order and the prefixes. */
const quipu_model_row *qp_model_builtin(size_t *ret_count)
{
    *ret_count = sizeof(models_rows) / sizeof(models_rows[0]);
    return models_rows;
}
