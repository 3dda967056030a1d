/*
 * found.h - which segments there are, for the agent: selected once, and anew when a folder has changed.
 *
 * Each second the folders are asked for the time of their last change (one system call each); for root also those in
 * which other users' folders come and go. A selection that stands costs nothing else.
 */
#ifndef SOCKFUSE_AGENT_FOUND_H
#define SOCKFUSE_AGENT_FOUND_H

#include <stdbool.h>
#include <stddef.h>

#include "view/select.h"

struct found {
    struct selection *at; /* one for each choice */
    const struct whose *choices;
    size_t count;
    struct folder_time *folders;
    size_t folder_count;
};

/* Finds them; the messages of a first selection are not quiet. */
void found_open(struct found *found, const struct whose *choices, size_t count);
void found_close(struct found *found);

/* Whether a folder has changed since they were found. */
bool found_is_old(struct found *found);

#endif
