/*
 * top_dialog.h - what `sockfuse top` shows in place of a part of its page: help, what could not be read, the two
 * questions before a word, and what came of it. Pure.
 */
#ifndef SOCKFUSE_CLI_TOP_DIALOG_H
#define SOCKFUSE_CLI_TOP_DIALOG_H

#include "cli/canvas.h"
#include "cli/top_model.h"

/* What view->mode asks for, on so many rows. `chosen` may be NULL where it is about none. */
void top_dialog_put(struct canvas *canvas, int top, int rows, const struct top_row *chosen,
                    const struct top_detail *detail, const struct top_sight *sight, const struct top_view *view);

#endif
