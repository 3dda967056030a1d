/*
 * screen.c - a page that is shown again and again on a terminal. See screen.h.
 */
#include "view/screen.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH 80
#define HEIGHT 24
#define ESCAPE '\033'

static void measure(size_t *width, size_t *height)
{
    struct winsize size = {0};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *width = known && size.ws_col > 0 ? size.ws_col : WIDTH;
    *height = known && size.ws_row > 0 ? size.ws_row : HEIGHT;
}

/* One line without its end. Colours take no room, and are all shown, so that each one ends. */
static void print_cut(const char *line, size_t length, size_t width)
{
    size_t column = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == ESCAPE) {
            while (i < length && line[i] != 'm')
                putchar(line[i++]);
            putchar('m');
            continue;
        }
        const bool begins = ((unsigned char)line[i] & 0xc0) != 0x80;
        column += begins;
        if (column <= width)
            putchar(line[i]);
    }
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

void screen_show(const char *text)
{
    size_t width, height, lines = count_lines(text);
    measure(&width, &height);
    /* The last line of the screen stays empty: there the cursor is. */
    const size_t room = height > 2 ? height - 1 : 1, show = lines > room ? room - 1 : lines;
    fputs("\033[H", stdout);
    for (size_t i = 0; i < show; i++) {
        const size_t length = strcspn(text, "\n");
        print_cut(text, length, width);
        fputs("\033[K\n", stdout);
        text += length + 1;
    }
    if (lines > show)
        printf("... and %zu lines more\033[K\n", lines - show);
    fputs("\033[J", stdout);
    fflush(stdout);
}
