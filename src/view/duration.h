/*
 * duration.h - points in time and spans as people write and read them on the command line.
 *
 * Pure; no locale, no clock of its own.
 */
#ifndef SOCKFUSE_VIEW_DURATION_H
#define SOCKFUSE_VIEW_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAN_TEXT_MAX 24

/* A span for a table: "850ms", "7.3s", "2m05s", "1h05m", "3d04h"; two units at the most. Returns `text`. */
const char *span_format(uint64_t span_ns, char text[SPAN_TEXT_MAX]);

/* The same for a wait, which may be short: "85us", "1.2ms". */
const char *wait_format(uint64_t wait_ns, char text[SPAN_TEXT_MAX]);

/* From then until now; 0 if that lies ahead. */
static inline uint64_t span_since(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* "90s", "1.5h", "1h30m": numbers with the units ns us ms s m h d w, one behind the other. */
bool span_parse(const char *text, uint64_t *span_ns);

/*
 * A point in time, in wall-clock nanoseconds: RFC 3339 ("2026-02-03T04:05:06.789Z", with Z or an offset; a blank may
 * stand for the T, and without a zone it is UTC; a date alone is its midnight).
 */
bool moment_parse(const char *text, uint64_t *wall_ns);

/* The same, or a span ago ("5m"). `wall_ns` is now. */
bool since_parse(const char *text, uint64_t wall_ns, uint64_t *since_ns);

#endif
