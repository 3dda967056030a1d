/*
 * table.h - text in columns, for people.
 *
 * Cells are added row by row and printed once, each column as wide as its widest cell. A column in which no row says
 * anything is left out. Colour only on a terminal and never with NO_COLOR. Bytes that could drive a terminal are
 * shown as \xNN: names come from shared memory.
 */
#ifndef SOCKFUSE_VIEW_TABLE_H
#define SOCKFUSE_VIEW_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW };

/* Whether `out` takes colour: it is a terminal that is not dumb, and NO_COLOR is unset or empty (no-color.org). */
bool colour_wanted(FILE *out);
/* What is written to this stream, one in memory, will go to stdout, and takes colour as that does. NULL: none. */
void colour_page(FILE *page);
/* The sequence that starts a colour, or ends it (PLAIN); "" where `wanted` is false. */
const char *colour_start(enum colour colour, bool wanted);

struct column {
    const char *title;
    bool right; /* numbers stand at the right edge */
};

struct cell;
struct table {
    const struct column *columns;
    size_t column_count;
    struct cell *cells; /* row by row */
    size_t cell_count;
};

void table_start(struct table *table, const struct column *columns, size_t column_count);
/* The next cell; the text is copied. NULL or "": empty. A row has a cell for each column. */
void table_add(struct table *table, enum colour colour, const char *text);
/* The same in the manner of printf. */
void table_addf(struct table *table, enum colour colour, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints titles and rows, `indent` blanks before each line, and frees the cells. */
void table_print(struct table *table, FILE *out, unsigned int indent);
/*
 * The same; on a terminal that is too narrow for it in parts, one below the other, each with the first `keys` columns
 * again, by which its rows are known.
 */
void table_print_fitting(struct table *table, FILE *out, unsigned int indent, size_t keys);

/* How many columns a line may have: those of the terminal; SIZE_MAX: what is none takes lines of any length. */
size_t line_room(FILE *out);

/* Prints text with what could harm a terminal replaced. */
void print_safely(const char *text, FILE *out);

#endif
