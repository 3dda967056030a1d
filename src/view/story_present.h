/*
 * story_present.h - a story of the policies in use: their journals, and how all stands now.
 */
#ifndef SOCKFUSE_VIEW_STORY_PRESENT_H
#define SOCKFUSE_VIEW_STORY_PRESENT_H

#include <stdbool.h>
#include <stdint.h>

#include "view/story.h"
#include "view/user_options.h"

/*
 * JSON: what `status --json`, `calls --json` and `calls --tree --json` write, how long the calls of each circuit have
 * waited, and the chains of the outages (story_chain.h). NULL: the story is not of segments.
 */
struct present {
    char *status, *calls, *cascade, *latencies, *chains;
};

/*
 * Tells the journals of the chosen policies since then, ends the story, adds their circuits and calls in flight as they
 * are now, and finds the incidents. False: something could not be looked into, as it was said; without a `status` there
 * is nothing at all to tell. Free `present` with present_free.
 */
bool story_tell_present(struct story *story, const struct whose *choice, uint64_t since_ns, struct present *present);
void present_free(struct present *present);

#endif
