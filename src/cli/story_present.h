/*
 * story_present.h - a story of the policies in use: their journals, and how all stands now.
 */
#ifndef SOCKFUSE_CLI_STORY_PRESENT_H
#define SOCKFUSE_CLI_STORY_PRESENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/story.h"
#include "cli/user_options.h"

/* Arrays of JSON: what `status --json` and `calls --json` write. NULL: the story is not of segments. */
struct present {
    char *status, *calls;
};

/*
 * Tells the journals of the chosen policies since then, ends the story, and adds their circuits and calls in flight as
 * they are now. False: something could not be looked into, as it was said. Free `present` with present_free.
 */
bool story_tell_present(struct story *story, const struct whose *choice, uint64_t since_ns, struct present *present);
void present_free(struct present *present);

#endif
