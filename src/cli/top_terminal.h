/*
 * top_terminal.h - the terminal of `sockfuse top`: shows a canvas, reads keys, and is left as it was.
 *
 * The one place that speaks ncurses; a build without it has a file here that says so. No signal is handled here.
 */
#ifndef SOCKFUSE_CLI_TOP_TERMINAL_H
#define SOCKFUSE_CLI_TOP_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/canvas.h"

#define TERMINAL_WHY_MAX 300

/* NULL: this build can show it; else what is missing, and how to get it. */
const char *terminal_missing(void);

/*
 * Takes the terminal over: `output` is a descriptor of it, standard input gives the keys. Sets what it can show in the
 * canvas. False: it can't be used, as `why` says. At the end of the process it is given back, also by exit(3).
 */
bool terminal_start(int output, struct canvas *canvas, char why[TERMINAL_WHY_MAX]);
/* Gives it back. */
void terminal_end(void);
/* Gives it back for a while, and takes it again. */
void terminal_leave(void);
void terminal_return(void);

/* Its size now. */
void terminal_size(int *width, int *height);
void terminal_show(const struct canvas *canvas);
/* From scratch, at the next terminal_show. */
void terminal_redraw(void);
/* A key that was pressed, as top_key takes it; TOP_KEY_NONE: there is none now. Does not wait. */
uint32_t terminal_key(void);

#endif
