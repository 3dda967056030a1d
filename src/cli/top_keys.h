/*
 * top_keys.h - what each key of `sockfuse top` does. Pure.
 */
#ifndef SOCKFUSE_CLI_TOP_KEYS_H
#define SOCKFUSE_CLI_TOP_KEYS_H

#include "cli/top_model.h"

/*
 * Changes the view by one key: a character, or an enum top_key. `room` is how many rows the page has for the list.
 * The list is to be made anew afterwards.
 */
enum top_action top_key(struct top_view *view, uint32_t key, const struct top_list *list, size_t room);

/* Ends whatever was asked for, with what came of it; the text becomes the view's. */
void top_answer(struct top_view *view, char *text);
/* Takes questions back whose circuit is gone. To be called when the list was made anew. */
void top_check_questions(struct top_view *view, const struct top_list *list);

#endif
