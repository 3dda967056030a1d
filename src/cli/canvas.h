/*
 * canvas.h - a page of cells for a terminal of any kind: what is put on it is cut to its room, and can't drive the
 * terminal, wherever it comes from.
 *
 * Pure: no terminal is asked here. Where the terminal takes no UTF-8, all that is not ASCII becomes '?'.
 */
#ifndef SOCKFUSE_CLI_CANVAS_H
#define SOCKFUSE_CLI_CANVAS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* A colour, and what stands out without one. */
enum style {
    STYLE_PLAIN,
    STYLE_RED,
    STYLE_GREEN,
    STYLE_YELLOW,
    STYLE_COLOURS = 7, /* the bits of a colour */
    STYLE_BOLD = 8,
    STYLE_DIM = 16,
    STYLE_REVERSE = 32
};

struct canvas_cell {
    uint32_t character; /* Unicode; 0: covered by the wide one before it */
    unsigned int style;
};

struct canvas {
    struct canvas_cell *cells; /* row by row */
    int width, height;
    bool takes_utf8, takes_colour; /* what the terminal can show */
};

/* A page of blanks; free it with canvas_free. */
void canvas_start(struct canvas *canvas, int width, int height);
void canvas_free(struct canvas *canvas);
/* Blanks again, of this size. */
void canvas_clear(struct canvas *canvas, int width, int height);

/* One row of blanks. */
void canvas_blank(struct canvas *canvas, int row);

/* NULL: it lies outside. */
struct canvas_cell *canvas_at(const struct canvas *canvas, int row, int column);

/*
 * Puts a text into `room` columns from there on, and says how many it takes. One that is too long ends with an ellipsis.
 * Control characters and bytes that are no UTF-8 are shown as \xNN.
 */
int canvas_put(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *text);
/* The same at the right end of the room. */
void canvas_put_right(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *text);
/* The same in the manner of printf. */
int canvas_putf(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* How many columns it would take. */
int canvas_columns(const struct canvas *canvas, const char *text);
/* One character; the second one is for terminals without UTF-8. */
void canvas_put_sign(struct canvas *canvas, int row, int column, unsigned int style, uint32_t sign, char plain);
/* A line from there to there. */
void canvas_rule(struct canvas *canvas, int row, int column, int room, unsigned int style);
/* Adds to the style of what stands there. */
void canvas_mark(struct canvas *canvas, int row, int column, int room, unsigned int style);

/*
 * Puts a text on several rows, parted at blanks; all of it must be safe to print already, or becomes so. Returns how
 * many rows it took, at most `rows`.
 */
int canvas_put_lines(struct canvas *canvas, int row, int column, int room, int rows, unsigned int style,
                     const char *text);

#endif
