/*
 * top_page.h - the whole page of `sockfuse top`, of any size, put on a canvas. Pure, but for the time zone.
 */
#ifndef SOCKFUSE_CLI_TOP_PAGE_H
#define SOCKFUSE_CLI_TOP_PAGE_H

#include "cli/canvas.h"
#include "cli/top_list.h"
#include "cli/top_model.h"

/* Below this size nothing is shown but that it is too small. */
#define TOP_LEAST_WIDTH 40
#define TOP_LEAST_HEIGHT 8

/* How many circuits a page of this height shows at a time, of so many. */
int top_page_room(const struct top_view *view, int height, size_t row_count);

/* Scrolls the view, and fills the canvas, whose size is that of the terminal. */
void top_page_put(struct canvas *canvas, const struct top_sight *sight, const struct top_list *list,
                  struct top_view *view, const struct top_detail *detail);

#endif
