/*
 * top_terminal.c - the terminal of `sockfuse top`, by ncurses. See top_terminal.h.
 *
 * SOCKFUSE_CURSES is set by the Makefile where ncurses (with wide characters) is there to build with.
 */
#define _GNU_SOURCE
#include "cli/top_terminal.h"

#include <stddef.h>

#ifdef SOCKFUSE_CURSES

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/top_model.h"

/* So long a sequence that a key sends may take, after its first byte: over a slow line, too. */
#define ESCAPE_MS 100
#define WIDTH 80
#define HEIGHT 24
#define CONTROL_L ('L' & 0x1f)

static struct {
    bool runs;
    FILE *output;
    SCREEN *screen;
    int descriptor;
    bool takes_utf8;
} terminal;

const char *terminal_missing(void)
{
    return NULL;
}

static const char *term_name(void)
{
    const char *name = environment("TERM");
    return name != NULL && name[0] != '\0' ? name : "unknown";
}

/* As no-color.org has it. */
static bool start_colours(void)
{
    const char *none = environment("NO_COLOR");
    if ((none != NULL && none[0] != '\0') || !has_colors() || start_color() == ERR)
        return false;
    const short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(STYLE_RED, COLOR_RED, background);
    init_pair(STYLE_GREEN, COLOR_GREEN, background);
    init_pair(STYLE_YELLOW, COLOR_YELLOW, background);
    return true;
}

static bool can_be_addressed(void)
{
    const char *address = tigetstr("cup"), *clear = tigetstr("clear");
    return address != NULL && address != (char *)-1 && clear != NULL && clear != (char *)-1;
}

bool terminal_start(int output, struct canvas *canvas, char why[TERMINAL_WHY_MAX])
{
    setlocale(LC_CTYPE, "");
    terminal.takes_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    terminal.descriptor = output;
    terminal.output = fdopen(output, "w");
    if (terminal.output == NULL)
        no_memory();
    set_escdelay(ESCAPE_MS);
    terminal.screen = newterm(NULL, terminal.output, stdin);
    if (terminal.screen == NULL) {
        snprintf(why, TERMINAL_WHY_MAX, "TERM=%s: this kind of terminal is not known here; TERM=vt100 may do",
                 term_name());
        return false;
    }
    atexit(terminal_end);
    terminal.runs = true;
    if (!can_be_addressed()) {
        terminal_end();
        snprintf(why, TERMINAL_WHY_MAX, "TERM=%s: on this kind of terminal no page can be shown", term_name());
        return false;
    }
    canvas->takes_colour = start_colours();
    canvas->takes_utf8 = terminal.takes_utf8;
    cbreak();
    noecho();
    nonl(); /* Enter is a carriage return then, and not what Ctrl-J sends */
    keypad(stdscr, true);
    nodelay(stdscr, true);
    curs_set(0);
    leaveok(stdscr, true);
    return true;
}

void terminal_end(void)
{
    if (!terminal.runs)
        return;
    terminal.runs = false;
    curs_set(1);
    endwin();
    delscreen(terminal.screen);
    fclose(terminal.output);
}

void terminal_leave(void)
{
    endwin();
    fflush(terminal.output);
}

void terminal_return(void)
{
    if (!isendwin()) /* stopped by SIGSTOP, unasked: whoever had the terminal since may have set it otherwise */
        endwin();
    terminal_redraw();
    refresh();
    curs_set(0);
}

void terminal_size(int *width, int *height)
{
    struct winsize size = {0};
    const bool is_known = ioctl(terminal.descriptor, TIOCGWINSZ, &size) == 0;
    *width = is_known && size.ws_col > 0 ? size.ws_col : WIDTH;
    *height = is_known && size.ws_row > 0 ? size.ws_row : HEIGHT;
    if (is_term_resized(*height, *width))
        resizeterm(*height, *width);
}

/* What is red or yellow stands out without colours, too. */
static attr_t attributes_of(unsigned int style, bool takes_colour)
{
    const unsigned int colour = style & STYLE_COLOURS;
    attr_t attributes = A_NORMAL;
    if ((style & STYLE_BOLD) != 0 || (!takes_colour && (colour == STYLE_RED || colour == STYLE_YELLOW)))
        attributes |= A_BOLD;
    if ((style & STYLE_DIM) != 0)
        attributes |= A_DIM;
    if ((style & STYLE_REVERSE) != 0)
        attributes |= A_REVERSE;
    return attributes;
}

void terminal_show(const struct canvas *canvas)
{
    for (int row = 0; row < canvas->height; row++) {
        for (int column = 0; column < canvas->width; column++) {
            const struct canvas_cell *cell = canvas_at(canvas, row, column);
            const wchar_t text[] = {(wchar_t)cell->character, L'\0'};
            const short pair = canvas->takes_colour ? (short)(cell->style & STYLE_COLOURS) : 0;
            cchar_t sign;
            if (cell->character == 0) /* the wide one before it covers it */
                continue;
            if (setcchar(&sign, text, attributes_of(cell->style, canvas->takes_colour), pair, NULL) == OK)
                mvadd_wchnstr(row, column, &sign, 1);
        }
    }
    refresh();
}

void terminal_redraw(void)
{
    clearok(curscr, true);
}

uint32_t terminal_key(void)
{
    wint_t key;
    switch (get_wch(&key)) {
    case OK:
        switch (key) {
        case '\r':
        case '\n':
            return TOP_KEY_ENTER;
        case '\b':
        case 0x7f:
            return TOP_KEY_BACKSPACE;
        case 0x1b:
            return TOP_KEY_ESCAPE;
        case CONTROL_L:
            return TOP_KEY_REDRAW;
        default:
            return (uint32_t)key;
        }
    case KEY_CODE_YES:
        switch (key) {
        case KEY_UP:
            return TOP_KEY_UP;
        case KEY_DOWN:
            return TOP_KEY_DOWN;
        case KEY_PPAGE:
            return TOP_KEY_PAGE_UP;
        case KEY_NPAGE:
            return TOP_KEY_PAGE_DOWN;
        case KEY_HOME:
            return TOP_KEY_HOME;
        case KEY_END:
            return TOP_KEY_END;
        case KEY_ENTER:
            return TOP_KEY_ENTER;
        case KEY_BACKSPACE:
            return TOP_KEY_BACKSPACE;
        default:
            return TOP_KEY_OTHER;
        }
    default:
        return TOP_KEY_NONE;
    }
}

#else

const char *terminal_missing(void)
{
    return "this sockfuse was built without ncurses; with it (Debian: apt-get install libncurses-dev, Fedora: dnf "
           "install ncurses-devel) 'make' builds top as well. 'sockfuse status' and 'sockfuse calls -f' show the same";
}

bool terminal_start(int output, struct canvas *canvas, char why[TERMINAL_WHY_MAX])
{
    (void)output;
    (void)canvas;
    why[0] = '\0';
    return false;
}

void terminal_end(void)
{
}

void terminal_leave(void)
{
}

void terminal_return(void)
{
}

void terminal_size(int *width, int *height)
{
    *width = *height = 0;
}

void terminal_show(const struct canvas *canvas)
{
    (void)canvas;
}

void terminal_redraw(void)
{
}

uint32_t terminal_key(void)
{
    return 0;
}

#endif
