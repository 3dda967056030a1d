/*
 * story_chain.h - which programs called whom in vain during an outage, and where that chain ends.
 *
 * The calls that failed are the story's; which program serves a destination is asked of this host now, for no event
 * tells it. So a chain is of what the policies in use tell, and of programs that run: of others no link is known.
 */
#ifndef SOCKFUSE_VIEW_STORY_CHAIN_H
#define SOCKFUSE_VIEW_STORY_CHAIN_H

#include "view/select.h"
#include "view/story.h"

/*
 * After the incidents were found: an array of JSON, to be freed, with the latest outages, that is, incidents less than a
 * minute apart, and of each its cascade (cascade_output.h), in which those that failed stand for those that wait, and
 * the longest wait for the oldest; of one that is not over those that wait are in it too, and counted. `selection` NULL: the events are of files, and nothing is asked of this host.
 */
char *story_chains(const struct story *story, const struct selection *selection);

#endif
