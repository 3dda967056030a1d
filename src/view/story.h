/*
 * story.h - what many events tell, by circuit: how its states followed each other, its calls, its incidents.
 *
 * Events come from segments and from files, in any order; story_end puts them in order. What was told must stand until
 * story_free; texts are copied. Reads nothing by itself.
 */
#ifndef SOCKFUSE_VIEW_STORY_H
#define SOCKFUSE_VIEW_STORY_H

#include <stdbool.h>
#include <stdint.h>

#include "view/story_model.h"

void story_start(struct story *story);
/* False: there is no room for more. */
bool story_tell(struct story *story, const struct event *event, const char *policy, const char *owner,
                unsigned int source);
/*
 * After the last event, puts all in order. The story begins at `since_ns`, or 0: with its events; it ends with them,
 * but not before `to_ns`.
 */
void story_end(struct story *story, uint64_t since_ns, uint64_t to_ns);
/* After that: a circuit as it is now, with events or without. The texts must stand. */
void story_add_now(struct story *story, const struct story_circuit *now);
/* At last: what the incidents were. */
void story_find_incidents(struct story *story);
void story_free(struct story *story);

/* What a call came to: a failure's kind, why it is neutral, or its verdict; `label` is room for it. */
const char *story_outcome(const struct event *event, char label[FAILURE_LABEL_MAX]);

#endif
