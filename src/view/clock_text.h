/*
 * clock_text.h - a moment as a short text in the time of its reader's zone, for tables.
 *
 * For commands alone: it reads the time zone. What machines read is in UTC (base/date.h).
 */
#ifndef SOCKFUSE_VIEW_CLOCK_TEXT_H
#define SOCKFUSE_VIEW_CLOCK_TEXT_H

#include <stdint.h>

#define CLOCK_TEXT_MAX 40

/* "14:03:21.482"; of another day than now with its date before it. Returns `text`. */
const char *clock_text(uint64_t wall_ns, uint64_t now_wall_ns, char text[CLOCK_TEXT_MAX]);

#endif
