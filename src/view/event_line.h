/*
 * event_line.h - reads an event as event_json writes it, with what `events --json` puts behind it.
 *
 * The inverse of event_json, to the millisecond that it writes. A line may come from anybody and from any build.
 */
#ifndef SOCKFUSE_VIEW_EVENT_LINE_H
#define SOCKFUSE_VIEW_EVENT_LINE_H

#include <stddef.h>

#include "segment/event.h"

/* An identity that is longer is cut. */
#define POLICY_TEXT_MAX 8192
#define OWNER_TEXT_MAX 64

struct event_line {
    struct event event;
    char policy[POLICY_TEXT_MAX], owner[OWNER_TEXT_MAX]; /* "": the line does not say, as a log's */
};

enum event_line_result {
    EVENT_LINE_GOOD,
    EVENT_LINE_UNKNOWN, /* an event, of a type that this build does not know */
    EVENT_LINE_BAD,     /* no event */
};

/* Behind the text stands a zero byte. */
enum event_line_result event_line_read(struct event_line *line, const char *text, size_t length);

#endif
