/* Memory and error reports of one run of the generator. */
#include "entgen/run.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ERRORS_SIZE ((size_t)1 << 20)
#define RUN_LINE_SIZE 1024
#define RUN_LIST_START 8
#define RUN_WORD_MAX 64 /* longer words get no suggestion */

void eg_run_init(eg_run *run)
{
    memset(run, 0, sizeof(*run));
    qp_buf_init(&run->errors, RUN_ERRORS_SIZE);
}

void eg_run_free(eg_run *run)
{
    if (run == NULL) {
        return;
    }
    quipu_arena_free(&run->arena);
    qp_buf_free(&run->errors);
}

void *eg_alloc(eg_run *run, size_t size)
{
    void *p = quipu_arena_alloc(&run->arena, size);

    if (p == NULL) {
        (void)fputs("entgen: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    memset(p, 0, size);
    return p;
}

void eg_list_add(eg_run *run, eg_list *list, void *item)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? RUN_LIST_START : list->cap * 2;
        void **items = eg_alloc(run, cap * sizeof(*items));
        if (list->n > 0) {
            memcpy(items, list->items, list->n * sizeof(*items));
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = item;
}

const char *eg_copy(eg_run *run, quipu_str text)
{
    char *copy = eg_alloc(run, text.n + 1);

    if (text.n > 0) {
        memcpy(copy, text.p, text.n);
    }
    return copy;
}

static const char *run_vformat(eg_run *run, const char *format, va_list args) QUIPU_PRINTF(2, 0);

static const char *run_vformat(eg_run *run, const char *format, va_list args)
{
    char line[RUN_LINE_SIZE];
    int n = vsnprintf(line, sizeof(line), format, args);

    assert(n >= 0);
    (void)n; /* without assertions */
    return eg_copy(run, quipu_cstr(line));
}

const char *eg_format(eg_run *run, const char *format, ...)
{
    const char *text;
    va_list args;

    va_start(args, format);
    text = run_vformat(run, format, args);
    va_end(args);
    return text;
}

static bool run_count_error(eg_run *run)
{
    run->error_count++;
    if (run->error_count == EG_ERRORS_MAX + 1) {
        qp_buf_puts(&run->errors, "entgen: too many errors; the rest is not shown\n");
    }
    return run->error_count <= EG_ERRORS_MAX;
}

void eg_error(eg_run *run, eg_pos pos, const char *format, ...)
{
    va_list args;

    assert(pos.file < run->file_count);
    if (!run_count_error(run)) {
        return;
    }
    va_start(args, format);
    qp_buf_printf(&run->errors, "%s:%u:%u: error: %s\n", run->files[pos.file], (unsigned)pos.line,
                  (unsigned)pos.col, run_vformat(run, format, args));
    va_end(args);
}

void eg_error_file(eg_run *run, const char *file, const char *format, ...)
{
    va_list args;

    if (!run_count_error(run)) {
        return;
    }
    va_start(args, format);
    qp_buf_printf(&run->errors, "%s: error: %s\n", file, run_vformat(run, format, args));
    va_end(args);
}

/* Edit distance where a swap of neighbours counts once; words are short. */
static size_t run_distance(const char *a, const char *b)
{
    size_t rows[3][RUN_WORD_MAX + 1];
    size_t a_n = strlen(a);
    size_t b_n = strlen(b);

    for (size_t j = 0; j <= b_n; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_n; i++) {
        size_t *row = rows[i % 3];
        const size_t *up = rows[(i + 2) % 3];
        const size_t *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_n; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best) {
                best = up2[j - 2] + 1;
            }
            row[j] = best;
        }
    }
    return rows[a_n % 3][b_n];
}

const char *eg_suggest(eg_run *run, const char *word, const char *const *words, size_t n)
{
    const char *nearest = NULL;
    size_t length = strlen(word);
    size_t best = length < 3 ? 1 : length / 3 + 1; /* more than this is too far */

    if (length < 2 || length > RUN_WORD_MAX) {
        return "";
    }
    best = best > 3 ? 3 : best;
    for (size_t i = 0; i < n; i++) {
        if (strlen(words[i]) <= RUN_WORD_MAX) {
            size_t distance = run_distance(word, words[i]);
            if (distance < best + (nearest == NULL ? 1 : 0)) {
                best = distance;
                nearest = words[i];
            }
        }
    }
    return nearest == NULL ? "" : eg_format(run, "; did you mean '%s'?", nearest);
}

const char *eg_where(eg_run *run, eg_pos pos)
{
    return eg_format(run, "%s:%u", run->files[pos.file], (unsigned)pos.line);
}
