/* Tables that fit the terminal: columns that may give way are cut, the widest first. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "app.h"

int app_table_width(void)
{
    return isatty(STDOUT_FILENO) == 1 || getenv("COLUMNS") != NULL ? app_columns() : 0;
}

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

/* Take columns from those that give way until the line fits. */
static void table_fit(app_table *table)
{
    int over = -APP_TABLE_GAP - table->columns;

    for (size_t c = 0; c < table->count; c++) {
        over += table->widths[c] + APP_TABLE_GAP;
    }
    while (table->columns > 0 && over > 0) {
        size_t widest = table->count;

        for (size_t c = 0; c < table->count; c++) {
            if (table->kinds[c].fits && table->widths[c] > APP_TABLE_LEAST &&
                (widest == table->count || table->widths[c] > table->widths[widest])) {
                widest = c;
            }
        }
        if (widest == table->count) {
            return; /* nothing gives way any more: the terminal wraps the line */
        }
        table->widths[widest]--;
        over--;
    }
}

static void table_row(const app_table *table, const quipu_str *cells)
{
    for (size_t c = 0; c < table->count; c++) {
        const bool last = c + 1 == table->count;
        const int width = table->widths[c];
        const int used = app_width(cells[c]);

        if (table->kinds[c].right) {
            fprintf(table->out, "%*s", used < width ? width - used : 0, "");
            app_put(table->out, cells[c]);
        } else if (last) {
            app_put_cut(table->out, cells[c], width);
        } else {
            app_put_cell(table->out, cells[c], width);
        }
        fprintf(table->out, "%*s", last ? 0 : APP_TABLE_GAP, "");
    }
    fputc('\n', table->out);
}

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
        table_fit(table);
        fputs(app_style(table->colours, APP_BOLD), table->out);
        table_row(table, titles);
        fputs(app_style(table->colours, APP_PLAIN), table->out);
        table->headed = true;
    }
    for (size_t r = 0; r < rows; r++) {
        table_row(table, cells + r * table->count);
    }
}
