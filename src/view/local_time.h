/*
 * local_time.h - a moment as people are told it: in the time of their zone, with how far that is from UTC.
 *
 * For commands alone: it reads the time zone. What machines read, and what host processes write, is in UTC
 * (base/date.h).
 */
#ifndef SOCKFUSE_VIEW_LOCAL_TIME_H
#define SOCKFUSE_VIEW_LOCAL_TIME_H

#include <stdint.h>

#define LOCAL_TIME_MAX 40

/*
 * RFC 3339 with milliseconds: "2026-02-03T05:05:06.789+01:00", or Z at the end where the zone is UTC. So each moment has
 * one text, also in the hour that comes twice, and --since takes it. Returns `text`.
 */
const char *local_time(uint64_t wall_ns, char text[LOCAL_TIME_MAX]);

#endif
