/*
 * suggestion.h - a policy whose limits, thresholds and pauses come from what was seen.
 *
 * Each line has its reason as a comment. Where too little was seen the line is a comment itself, with the built-in value
 * and what is missing. What is written is a policy that `check` takes.
 */
#ifndef SOCKFUSE_CLI_SUGGESTION_H
#define SOCKFUSE_CLI_SUGGESTION_H

#include <stdbool.h>

#include "view/rows.h"

/* Whether it may go there: a policy that is there is replaced by force alone. False: it was said. */
bool suggestion_may_write(const char *path, bool force);

/*
 * Writes it whole, or not at all: one section for each destination of the rows, in their order. `source`: what was
 * observed. False: it was said.
 */
bool suggestion_write(const char *path, bool force, const struct rows *rows, const char *source);

#endif
