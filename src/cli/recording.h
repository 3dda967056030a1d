/*
 * recording.h - recorded outcomes, as `replay` needs them: calls with their beginning and end, by destination.
 *
 * Read from lines of `events --json`, by one pass; what is kept of an event is 40 bytes. Outcomes (`record = all`) are
 * the calls; where there are none, failures are, and what the transitions tell of successes: the probes that closed a
 * circuit, and that something succeeded before a run of failures that opened one. What was done is kept beside it:
 * transitions, probes, refusals as far as they were counted.
 */
#ifndef SOCKFUSE_CLI_RECORDING_H
#define SOCKFUSE_CLI_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/recording_model.h"

/* "-": standard input. False: it could not be read, or has no event at all; that was said, as each bad line is. */
bool recording_read(struct recording *recording, const char *path);
void recording_free(struct recording *recording);

/* The moment of a time of the lane's clock. */
uint64_t recording_wall(const struct lane *lane, uint64_t at_ns);

#endif
