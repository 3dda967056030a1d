/*
 * canvas.c - a page of cells for a terminal of any kind. See canvas.h.
 */
#define _GNU_SOURCE
#include "cli/canvas.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"
#include "cli/cli.h"

#define ELLIPSIS 0x2026u
#define LINE 0x2500u

void canvas_start(struct canvas *canvas, int width, int height)
{
    *canvas = (struct canvas){.cells = NULL};
    canvas_clear(canvas, width, height);
}

void canvas_free(struct canvas *canvas)
{
    free(canvas->cells);
    canvas->cells = NULL;
}

void canvas_clear(struct canvas *canvas, int width, int height)
{
    const size_t count = (size_t)width * (size_t)height;
    if (canvas->cells == NULL || canvas->width != width || canvas->height != height) {
        free(canvas->cells);
        canvas->cells = allocate(count, sizeof *canvas->cells);
        canvas->width = width;
        canvas->height = height;
    }
    for (size_t i = 0; i < count; i++)
        canvas->cells[i] = (struct canvas_cell){' ', STYLE_PLAIN};
}

struct canvas_cell *canvas_at(const struct canvas *canvas, int row, int column)
{
    if (row < 0 || row >= canvas->height || column < 0 || column >= canvas->width)
        return NULL;
    return &canvas->cells[(size_t)row * (size_t)canvas->width + (size_t)column];
}

static void set(struct canvas *canvas, int row, int column, unsigned int style, uint32_t character)
{
    struct canvas_cell *cell = canvas_at(canvas, row, column);
    if (cell != NULL)
        *cell = (struct canvas_cell){character, style};
}

void canvas_blank(struct canvas *canvas, int row)
{
    for (int column = 0; column < canvas->width; column++)
        set(canvas, row, column, STYLE_PLAIN, ' ');
}

void canvas_put_sign(struct canvas *canvas, int row, int column, unsigned int style, uint32_t sign, char plain)
{
    set(canvas, row, column, style, canvas->takes_utf8 ? sign : (unsigned char)plain);
}

/* The next character of a text that `printable` made, which is UTF-8, and how many columns it takes. */
static uint32_t next_character(const struct canvas *canvas, const char **text, int *width)
{
    const size_t length = utf8_character(*text);
    const unsigned char first = (unsigned char)**text;
    uint32_t character = length < 2 ? first : first & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        character = character << 6 | ((unsigned char)(*text)[i] & 0x3fu);
    *text += length > 0 ? length : 1;
    *width = 1;
    if (character < 0x80)
        return character;
    if (!canvas->takes_utf8)
        return '?';
    *width = wcwidth((wchar_t)character);
    if (*width < 0) { /* one that the locale does not know */
        *width = 1;
        return '?';
    }
    return character;
}

/* How many columns the text takes, which `printable` made. */
static int columns_of(const struct canvas *canvas, const char *text)
{
    int columns = 0, width;
    while (*text != '\0') {
        next_character(canvas, &text, &width);
        columns += width;
    }
    return columns;
}

static int put_printable(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *text)
{
    const bool is_cut = columns_of(canvas, text) > room;
    int used = 0, width;
    if (room <= 0)
        return 0;
    while (*text != '\0') {
        const uint32_t character = next_character(canvas, &text, &width);
        if (used + width > room - is_cut)
            break;
        if (width == 0) /* joined to the one before, or invisible: nothing of it is shown */
            continue;
        set(canvas, row, column + used, style, character);
        for (int i = 1; i < width; i++)
            set(canvas, row, column + used + i, style, 0);
        used += width;
    }
    if (is_cut)
        canvas_put_sign(canvas, row, column + used++, style, ELLIPSIS, '~');
    return used;
}

int canvas_put(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *text)
{
    char *safe = printable(text);
    if (room > canvas->width - column)
        room = canvas->width - column;
    const int used = put_printable(canvas, row, column, room, style, safe);
    free(safe);
    return used;
}

void canvas_put_right(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *text)
{
    char *safe = printable(text);
    const int columns = columns_of(canvas, safe), before = columns < room ? room - columns : 0;
    put_printable(canvas, row, column + before, room - before, style, safe);
    free(safe);
}

int canvas_columns(const struct canvas *canvas, const char *text)
{
    char *safe = printable(text);
    const int columns = columns_of(canvas, safe);
    free(safe);
    return columns;
}

int canvas_putf(struct canvas *canvas, int row, int column, int room, unsigned int style, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text_list(format, arguments);
    va_end(arguments);
    const int used = canvas_put(canvas, row, column, room, style, text);
    free(text);
    return used;
}

void canvas_rule(struct canvas *canvas, int row, int column, int room, unsigned int style)
{
    for (int i = 0; i < room; i++)
        canvas_put_sign(canvas, row, column + i, style, LINE, '-');
}

void canvas_mark(struct canvas *canvas, int row, int column, int room, unsigned int style)
{
    for (int i = 0; i < room; i++) {
        struct canvas_cell *cell = canvas_at(canvas, row, column + i);
        if (cell != NULL)
            cell->style |= style;
    }
}

/* The bytes of the text that stand on one row: to the last blank that leaves the rest behind, or as many as fit. */
static size_t row_of(const struct canvas *canvas, const char *text, int room)
{
    const char *at = text, *blank = NULL;
    int used = 0, width;
    while (*at != '\0' && *at != '\n') {
        const char *before = at;
        const uint32_t character = next_character(canvas, &at, &width);
        if (used + width > room)
            return (size_t)((blank != NULL ? blank : before > text ? before : at) - text);
        used += width;
        if (character == ' ')
            blank = before;
    }
    return (size_t)(at - text);
}

int canvas_put_lines(struct canvas *canvas, int row, int column, int room, int rows, unsigned int style,
                     const char *text)
{
    int used = 0;
    while (*text != '\0' && used < rows) {
        const size_t line_length = strcspn(text, "\n");
        char *line = strndup(text, line_length);
        if (line == NULL)
            no_memory();
        char *safe = printable(line), *rest = safe;
        do {
            const size_t length = row_of(canvas, rest, room);
            const char after = rest[length];
            rest[length] = '\0';
            put_printable(canvas, row + used++, column, room, style, rest);
            rest[length] = after;
            rest += length;
            rest += strspn(rest, " ");
        } while (*rest != '\0' && used < rows);
        free(safe);
        free(line);
        text += line_length + (text[line_length] == '\n');
    }
    return used;
}
