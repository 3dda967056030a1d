/*
 * log.h - SOCKFUSE_LOG: one line at the end of a file.
 *
 * Inside somebody else's process: never waits for a reader, never raises a signal in the host, is no cancellation
 * point, lets no handler jump out of it, keeps no descriptor. A line that can't be written is lost. Async-signal-safe;
 * a handful of system calls.
 */
#ifndef SOCKFUSE_SEGMENT_LOG_H
#define SOCKFUSE_SEGMENT_LOG_H

#include <stddef.h>

/* Appends the line with one write(2) to the file, made if it is missing (0600); "stderr": descriptor 2; "": nowhere. */
void log_append(const char *file, const char *line, size_t length);

/* An event as a line. The line is made in a page of its own, for the stack may be a signal handler's; without memory it
 * is lost. */
struct event;
void log_event(const char *file, const struct event *event);

#endif
