/*
 * story_sources.h - where a story's events come from: files of `events --json`, or the journals of segments.
 *
 * What can't be read, or is no event, is said and left out.
 */
#ifndef SOCKFUSE_VIEW_STORY_SOURCES_H
#define SOCKFUSE_VIEW_STORY_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "view/select.h"
#include "view/story.h"

/* The events of a file ("-": standard input) since then, wall clock. False: it can't be read, or holds none at all. */
bool story_read_file(struct story *story, const char *path, unsigned int source, uint64_t since_ns);

/* Those of all selected segments. False: not all could be read as they are. */
bool story_read_journals(struct story *story, const struct selection *selection, uint64_t since_ns);

#endif
