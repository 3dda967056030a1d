/*
 * story_trace.h - a story in the Trace Event Format, which Perfetto and Chrome open.
 *
 * A track for each circuit with its incidents and states; the calls under their processes, side by side in as many
 * lanes as were in flight at once; calls that wait, as a counter.
 */
#ifndef SOCKFUSE_VIEW_STORY_TRACE_H
#define SOCKFUSE_VIEW_STORY_TRACE_H

#include <stdio.h>

#include "view/story_model.h"

void story_trace(const struct story *story, FILE *out);

#endif
