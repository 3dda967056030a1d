/*
 * top_pane.h - the part of `sockfuse top` that tells of the chosen circuit: state, counts, waits, calls in flight,
 * events. Pure, but for the time zone and the names of users.
 */
#ifndef SOCKFUSE_CLI_TOP_PANE_H
#define SOCKFUSE_CLI_TOP_PANE_H

#include "cli/canvas.h"
#include "cli/top_model.h"

/* On so many rows from there on. `detail` may be of another circuit: then it is left out. */
void top_pane_put(struct canvas *canvas, int top, int rows, const struct top_row *row, const struct top_detail *detail,
                  const struct top_sight *sight);
/* The line above it, with a title. */
void top_pane_put_title(struct canvas *canvas, int line, const char *title, const char *more, const char *right);

/* "18:42:07" in local time; of another day than `today_ns` "11-29 18h"; at most 8 columns. */
#define CLOCK_TEXT_MAX 16
const char *top_clock(uint64_t wall_ns, uint64_t today_ns, char text[CLOCK_TEXT_MAX]);

#endif
