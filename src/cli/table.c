/*
 * table.c - text in columns, for people.
 *
 * See table.h.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/table.h"

#define COLUMN_GAP 2

struct cell {
    char *text;
    size_t width; /* in characters: good enough for host names and sections; no wide ones are expected */
    enum colour colour;
};

/* A page in memory that will go to the standard output. */
static FILE *present_page;

void colour_page(FILE *page)
{
    present_page = page;
}

bool colour_wanted(FILE *out)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0')
        return false;
    if (terminal == NULL || strcmp(terminal, "dumb") == 0)
        return false;
    return isatty(fileno(out == present_page ? stdout : out)) == 1;
}

const char *colour_start(enum colour colour, bool wanted)
{
    static const char *const sequences[] = {
        [PLAIN] = "\033[0m", [BOLD] = "\033[1m",   [DIM] = "\033[2m",
        [RED] = "\033[31m",  [GREEN] = "\033[32m", [YELLOW] = "\033[33m",
    };
    return wanted ? sequences[colour] : "";
}

void table_start(struct table *table, const struct column *columns, size_t column_count)
{
    *table = (struct table){.columns = columns, .column_count = column_count};
}

void table_add(struct table *table, enum colour colour, const char *text)
{
    table->cells = grow(table->cells, table->cell_count, sizeof *table->cells);
    struct cell *cell = &table->cells[table->cell_count++];
    cell->text = printable(text != NULL ? text : "");
    cell->width = utf8_count(cell->text);
    cell->colour = colour;
}

void table_addf(struct table *table, enum colour colour, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text_list(format, arguments);
    va_end(arguments);
    table_add(table, colour, text);
    free(text);
}

/* The width of a column, 0 for one that is empty in every row. */
static size_t column_width(const struct table *table, size_t column)
{
    size_t width = 0;
    for (size_t i = column; i < table->cell_count; i += table->column_count) {
        if (table->cells[i].width > width)
            width = table->cells[i].width;
    }
    size_t title = utf8_count(table->columns[column].title);
    return width == 0 || width > title ? width : title;
}

/* Prints one cell. Blanks that would end the line are kept back in `*owed`. */
static void print_cell(FILE *out, const char *text, size_t cell_width, const struct column *column, size_t width,
                       enum colour colour, bool coloured, size_t *owed)
{
    size_t padding = width - cell_width;
    size_t before = *owed + (column->right ? padding : 0);
    if (cell_width == 0) {
        *owed += width;
    } else {
        const char *end = colour == PLAIN ? "" : colour_start(PLAIN, coloured);
        fprintf(out, "%*s%s%s%s", (int)before, "", colour == PLAIN ? "" : colour_start(colour, coloured), text, end);
        *owed = column->right ? 0 : padding;
    }
    *owed += COLUMN_GAP;
}

void table_print(struct table *table, FILE *out, unsigned int indent)
{
    bool coloured = colour_wanted(out);
    size_t *widths = allocate(table->column_count, sizeof *widths);
    size_t owed = indent;
    for (size_t column = 0; column < table->column_count; column++) {
        widths[column] = column_width(table, column);
        if (widths[column] > 0) {
            const char *title = table->columns[column].title;
            print_cell(out, title, utf8_count(title), &table->columns[column], widths[column], BOLD, coloured, &owed);
        }
    }
    fputc('\n', out);
    owed = indent;
    for (size_t i = 0, column = 0; i < table->cell_count; i++) {
        struct cell *cell = &table->cells[i];
        if (widths[column] > 0) {
            print_cell(out, cell->text, cell->width, &table->columns[column], widths[column], cell->colour, coloured,
                       &owed);
        }
        free(cell->text);
        if (++column == table->column_count) {
            fputc('\n', out);
            owed = indent;
            column = 0;
        }
    }
    free(widths);
    free(table->cells);
    *table = (struct table){.columns = table->columns, .column_count = table->column_count};
}

void print_safely(const char *text, FILE *out)
{
    char *copy = printable(text);
    fputs(copy, out);
    free(copy);
}
