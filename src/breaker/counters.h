/*
 * counters.h - what a circuit counts, in shards so that two cores do not fight for a line.
 *
 * Counting is one relaxed add on the caller's shard; reading sums the shards and may be a moment old. Lives in memory
 * that processes share. Async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_COUNTERS_H
#define SOCKFUSE_BREAKER_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/outcome.h"

#define COUNTER_SHARDS 8u

/*
 * Values are stored in shared memory: their order is part of the layout. Each admitted call ends up in exactly one of
 * five:
 *
 *     admitted = succeeded + failed + neutral + business + late + in flight
 *
 * (in flight: records of calls, and calls of processes that were killed and not found out yet).
 */
enum counter {
    COUNT_ADMITTED,
    COUNT_SUCCEEDED,
    COUNT_FAILED,
    COUNT_NEUTRAL,
    COUNT_BUSINESS,
    COUNT_LATE,
    COUNT_REFUSED,
    COUNT_PROBES_SUCCEEDED,
    COUNT_PROBES_FAILED,
    COUNT_OPENED,
    COUNT_SLOW,
    COUNT_OVERDUE,       /* calls charged at their limit, which went on; each is counted above too, mostly as failed */
    COUNT_OVERDUE_ENDED, /* of these, the ones whose real end was seen later; late results, but not in COUNT_LATE */
    COUNT_INJECTED,      /* attempts that were given a fault in rehearsal; each has its outcome above as well */
    COUNT_FALLBACK,      /* refused attempts that were connected to the fallback instead; also COUNT_REFUSED */
    COUNT_PROBES, /* leases that were taken; what became of them is in two of the above, or they came to nothing */
    COUNT_RETRIES_DENIED = 28, /* failed attempts that were not tried again for want of budget */
    COUNT_RETRIES = 29,     /* attempts that tried a failed one again; each is admitted, and has its outcome, above */
    COUNT_HALF_OPENED = 30, /* transitions to half-open, and to closed, as COUNT_OPENED has those to open */
    COUNT_CLOSED = 31,
    COUNTERS = 64
};

/* Where the counters for each value of something begin: numbers and no enumerators, because these are added to. */
#define COUNT_FAILURE_KIND 16u   /* + enum failure_kind */
#define COUNT_NEUTRAL_REASON 32u /* + enum neutral_reason */
#define COUNT_REFUSED_BY 40u     /* + who refused (counter_of_refusal); their sum is COUNT_REFUSED */
#define COUNT_HTTP_STATUS 48u    /* + a place for each status of FAILURE_HTTP that is usual, and one for the others */

struct counters {
    _Alignas(64) _Atomic uint64_t shard[COUNTER_SHARDS][COUNTERS];
};

/* The counter of a status of FAILURE_HTTP; statuses that have none of their own share one. */
unsigned int counter_of_status(unsigned int http_status);
/* The status of the counter COUNT_HTTP_STATUS + place, 0 of the one for all others; false: there is no such place. */
bool counter_status(unsigned int place, unsigned int *http_status);

/* Adds one. `shard` is any number (the CPU's, say). */
void counters_add(struct counters *counters, unsigned int shard, unsigned int counter);
/* Takes back one that this caller has just added, because it came to nothing. */
void counters_take_back(struct counters *counters, unsigned int shard, unsigned int counter);
/* The sum over all shards. */
uint64_t counters_sum(const struct counters *counters, unsigned int counter);
/* Calls that have no outcome yet, as far as can be said by the sums. */
uint32_t counters_in_flight(const struct counters *counters);

#endif
