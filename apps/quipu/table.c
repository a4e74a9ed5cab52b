/* Tables that fit the terminal: shrinkable columns are cut, the widest first; then optional ones
 * are left out. In a pipe nothing is cut. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "render.h"

#define TABLE_TIME_SIZE 17 /* "YYYY-MM-DD HH:MM" and its NUL */

/* A pipe has no width; COLUMNS forces one, for tests and scripts. */
int app_table_width(void)
{
    return app_out_is_terminal() || getenv("COLUMNS") != NULL ? app_columns() : 0;
}

void app_key_line(bool colours, quipu_str key, quipu_str rest)
{
    const int columns = app_table_width();
    const bool fits = columns == 0 || app_width(key) + APP_TABLE_GAP + app_width(rest) <= columns;
    const char *margin = "    ";

    fputs(app_style(colours, APP_GREEN), stdout);
    if (fits) {
        app_put(stdout, key);
    } else {
        (void)app_put_cut(stdout, key, columns);
    }
    fputs(app_style(colours, APP_PLAIN), stdout);
    if (fits) {
        printf("  %s", app_style(colours, APP_DIM));
        app_put(stdout, rest);
        printf("%s\n", app_style(colours, APP_PLAIN));
    } else {
        fputc('\n', stdout);
        (void)app_put_wrapped(stdout, rest, margin, columns - (int)strlen(margin));
    }
}

/* Powers of 1024, one decimal from KiB on. */
void app_size_text(int64_t bytes, char ret_text[APP_NUMBER_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(ret_text, APP_NUMBER_SIZE, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

quipu_status app_cell_number(quipu_arena *arena, int64_t value, quipu_str *ret_cell)
{
    char text[APP_NUMBER_SIZE];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return quipu_arena_copy(arena, quipu_cstr(text), ret_cell);
}

quipu_status app_cell_time(quipu_arena *arena, quipu_time time, quipu_str *ret_cell)
{
    char text[TABLE_TIME_SIZE];

    app_time_text(time, text, sizeof(text));
    return quipu_arena_copy(arena, quipu_cstr(text), ret_cell);
}

/* The width of a line when shrinkable columns are at most `least` wide. */
static int table_line(const app_table *table, int least)
{
    int columns = -APP_TABLE_GAP;

    for (size_t c = 0; c < table->count; c++) {
        const bool narrow = table->kinds[c].fits && table->widths[c] > least;

        if (table->widths[c] > 0) {
            columns += (narrow ? least : table->widths[c]) + APP_TABLE_GAP;
        }
    }
    return columns;
}

/* The last optional column that is still shown, or `count`. */
static size_t table_spare(const app_table *table)
{
    for (size_t c = table->count; c > 0; c--) {
        if (table->kinds[c - 1].spare && table->widths[c - 1] > 0) {
            return c - 1;
        }
    }
    return table->count;
}

/* The widest shrinkable column with more than `least` columns, or `count`. */
static size_t table_widest(const app_table *table, bool spare, int least)
{
    size_t widest = table->count;

    for (size_t c = 0; c < table->count; c++) {
        if (table->kinds[c].fits && (table->kinds[c].spare || !spare) && table->widths[c] > least &&
            (widest == table->count || table->widths[c] > table->widths[widest])) {
            widest = c;
        }
    }
    return widest;
}

/* Leaves out optional columns, then shrinks the widest shrinkable ones, until the line fits: what
 * is optional first, since a key is what a row is found by. When that is not enough the terminal
 * wraps it. */
static void table_fit(app_table *table)
{
    while (table_line(table, APP_TABLE_LEAST) > table->columns &&
           table_spare(table) < table->count) {
        table->widths[table_spare(table)] = 0;
    }
    for (int over = table_line(table, INT_MAX) - table->columns; over > 0; over--) {
        size_t widest = table_widest(table, true, APP_TABLE_SPARE_LEAST);

        if (widest == table->count) {
            widest = table_widest(table, false, APP_TABLE_LEAST);
        }
        if (widest == table->count) {
            return;
        }
        table->widths[widest]--;
    }
}

/* Leaves out optional columns without a value: their place is worth more to the others. */
static void table_leave_empty(app_table *table, const quipu_str *cells, size_t rows)
{
    for (size_t c = 0; c < table->count; c++) {
        bool empty = table->kinds[c].spare;

        for (size_t r = 0; r < rows && empty; r++) {
            empty = cells[r * table->count + c].n == 0;
        }
        table->widths[c] = empty ? 0 : table->widths[c];
    }
}

/* Without a limit: one long key must not pad every row to its length. */
static void table_limit(app_table *table)
{
    for (size_t c = 0; c < table->count; c++) {
        if (table->kinds[c].fits && table->widths[c] > APP_TABLE_PIPE_MAX) {
            table->widths[c] = APP_TABLE_PIPE_MAX;
        }
    }
}

/* One row. Padding is written only before the next cell, so that no line ends with spaces. */
static void table_row(const app_table *table, const quipu_str *cells)
{
    int gap = 0; /* spaces before the next cell: padding of the last one, and the usual gap */

    for (size_t c = 0; c < table->count; c++) {
        const int used = app_width(cells[c]);
        /* Without a limit a cell that is wider than its column is not cut. */
        const bool grows = table->columns == 0 && used > table->widths[c];
        const int width = grows ? used : table->widths[c];

        if (table->widths[c] == 0) {
            continue;
        }
        if (used == 0) {
            gap += width + APP_TABLE_GAP; /* written when a cell follows */
            continue;
        }
        if (table->kinds[c].right) {
            fprintf(table->out, "%*s", gap + (used < width ? width - used : 0), "");
            app_put(table->out, cells[c]);
            gap = APP_TABLE_GAP;
        } else {
            fprintf(table->out, "%*s", gap, "");
            gap = APP_TABLE_GAP + width - app_put_cut(table->out, cells[c], width);
        }
    }
    fputc('\n', table->out);
}

/* Widths come from the first page; later pages keep them. */
void app_table_print(app_table *table, const quipu_str *cells, size_t rows)
{
    quipu_str titles[APP_TABLE_COLUMNS_MAX];

    if (!table->headed) {
        for (size_t c = 0; c < table->count; c++) {
            titles[c] = quipu_cstr(table->kinds[c].title);
            table->widths[c] = app_width(titles[c]);
            for (size_t r = 0; r < rows; r++) {
                const int width = app_width(cells[r * table->count + c]);
                table->widths[c] = width > table->widths[c] ? width : table->widths[c];
            }
        }
        if (table->columns > 0) {
            table_leave_empty(table, cells, rows);
            table_fit(table);
        } else {
            table_limit(table);
        }
        fputs(app_style(table->colours, APP_BOLD), table->out);
        table_row(table, titles);
        fputs(app_style(table->colours, APP_PLAIN), table->out);
        table->headed = true;
    }
    for (size_t r = 0; r < rows; r++) {
        table_row(table, cells + r * table->count);
    }
}
