/*
 * table.c - text in columns, for people.
 *
 * See table.h.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "view/output.h"
#include "view/table.h"

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

/* Where to, and what is printed of it: key columns, and those from `first` to before `end`. */
struct part {
    FILE *out;
    const size_t *widths;
    unsigned int indent;
    bool coloured;
    size_t keys, first, end;
};

static bool is_in(const struct part *part, size_t column)
{
    return (column < part->keys || (column >= part->first && column < part->end)) && part->widths[column] > 0;
}

static void print_part(const struct table *table, const struct part *part)
{
    size_t owed = part->indent;
    for (size_t column = 0; column < table->column_count; column++) {
        const char *title = table->columns[column].title;
        if (is_in(part, column))
            print_cell(part->out, title, utf8_count(title), &table->columns[column], part->widths[column], BOLD,
                       part->coloured, &owed);
    }
    fputc('\n', part->out);
    owed = part->indent;
    for (size_t i = 0, column = 0; i < table->cell_count; i++) {
        const struct cell *cell = &table->cells[i];
        if (is_in(part, column))
            print_cell(part->out, cell->text, cell->width, &table->columns[column], part->widths[column], cell->colour,
                       part->coloured, &owed);
        if (++column == table->column_count) {
            fputc('\n', part->out);
            owed = part->indent;
            column = 0;
        }
    }
}

/* The end of the part that begins at a column: as many as fit, at least one. */
static size_t end_of_part(const struct table *table, const struct part *part, size_t room)
{
    size_t width = part->indent, end = part->first;
    for (size_t column = 0; column < part->keys; column++)
        width += part->widths[column] > 0 ? part->widths[column] + COLUMN_GAP : 0;
    for (bool any = false; end < table->column_count; end++) {
        const size_t own = part->widths[end];
        if (own > 0 && any && width + own > room)
            break;
        any = any || own > 0;
        width += own > 0 ? own + COLUMN_GAP : 0;
    }
    return end;
}

size_t line_room(FILE *out)
{
    struct winsize size;
    return isatty(fileno(out)) == 1 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                                                     : SIZE_MAX;
}

static void print_in_parts(struct table *table, FILE *out, unsigned int indent, size_t keys, size_t room)
{
    size_t *widths = allocate(table->column_count, sizeof *widths);
    struct part part = {
        .out = out, .widths = widths, .indent = indent, .coloured = colour_wanted(out), .keys = keys, .first = keys};
    for (size_t column = 0; column < table->column_count; column++)
        widths[column] = column_width(table, column);
    do {
        if (part.first > keys)
            fputc('\n', out);
        part.end = end_of_part(table, &part, room);
        print_part(table, &part);
        part.first = part.end;
    } while (part.first < table->column_count);
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(widths);
    free(table->cells);
    *table = (struct table){.columns = table->columns, .column_count = table->column_count};
}

void table_print(struct table *table, FILE *out, unsigned int indent)
{
    print_in_parts(table, out, indent, 0, SIZE_MAX);
}

void table_print_fitting(struct table *table, FILE *out, unsigned int indent, size_t keys)
{
    print_in_parts(table, out, indent, keys, line_room(out));
}

void print_safely(const char *text, FILE *out)
{
    char *copy = printable(text);
    fputs(copy, out);
    free(copy);
}
