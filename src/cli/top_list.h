/*
 * top_list.h - which circuits `sockfuse top` shows, in which order, and which one is chosen. Pure.
 */
#ifndef SOCKFUSE_CLI_TOP_LIST_H
#define SOCKFUSE_CLI_TOP_LIST_H

#include "cli/top_model.h"

/* "worst first", "by name", …; and the word for --sort. */
const char *top_sort_title(enum top_sort sort);
const char *top_sort_name(enum top_sort sort);
/* False: there is no such order. */
bool top_sort_named(const char *name, enum top_sort *sort);

/* What STATE says: "open", "closed, forced", "probe due", ... */
const char *top_state(const struct top_row *row);

/*
 * Those that pass the filter, sorted; in place of the former list. The chosen one stays chosen wherever it comes to
 * stand; if it is gone, the one at its place is chosen. Free it with top_list_free.
 */
void top_list_make(struct top_list *list, const struct top_sight *sight, struct top_view *view);
void top_list_free(struct top_list *list);
/* NULL: the list is empty. */
const struct top_row *top_chosen(const struct top_list *list, const struct top_view *view);
/* Chooses the one so many further down (up: negative), as far as there are any. */
void top_choose(const struct top_list *list, struct top_view *view, long step);
/* Moves what is shown, so that the chosen one stands among `room` rows. */
void top_scroll(const struct top_list *list, struct top_view *view, size_t room);

#endif
