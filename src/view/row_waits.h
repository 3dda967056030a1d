/*
 * row_waits.h - for how long the calls of a circuit have waited, as `status` tells it.
 */
#ifndef SOCKFUSE_VIEW_ROW_WAITS_H
#define SOCKFUSE_VIEW_ROW_WAITS_H

#include <stdint.h>

#include "breaker/latency.h"
#include "view/json.h"
#include "segment/segment.h"

/* Of some waits; all 0 where there were none. */
struct span_summary {
    uint64_t count, p50_ns, p95_ns, p99_ns, max_ns;
};

struct row_waits {
    struct span_summary connects, answers; /* since the circuit was made */
    struct span_summary recent;            /* the last minute: what calls have waited for */
    uint64_t recent_longest_ns, recent_calls, recent_span_ns;
    uint64_t longest_ns, waited_us;
    uint32_t most_in_flight;
};

/* `now_ns` is the circuits' clock. `view` is left with all that was read. */
void row_waits_read(struct row_waits *waits, const struct segment *segment, uint32_t circuit, uint64_t now_ns,
                    struct latency_view *view);
/* Calls that ended in the last minute, in tenths a second; some are better than none. */
uint64_t row_waits_rate(const struct row_waits *waits);

/* An object of that key. */
void row_waits_json(struct json *json, const struct row_waits *waits);

#endif
