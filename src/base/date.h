/*
 * date.h - a moment as people and machines write it. Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_DATE_H
#define SOCKFUSE_BASE_DATE_H

#include <stddef.h>
#include <stdint.h>

/* RFC 3339 in UTC with milliseconds ("2026-02-03T04:05:06.789Z"); 24 bytes, or 0 if `size` is less than 25. */
size_t time_rfc3339(uint64_t wall_ns, char *text, size_t size);

#endif
