/*
 * counters.c - what a circuit counts, in shards.
 *
 * Relaxed throughout: a counter orders nothing and decides nothing; the sum may be a moment old.
 */
#include "breaker/counters.h"

#include <stdatomic.h>

_Static_assert(COUNT_FAILURE_KIND + FAILURE_KINDS <= COUNT_RETRIES_DENIED, "kinds fit");
_Static_assert(COUNT_CLOSED < COUNT_NEUTRAL_REASON, "transitions fit below the reasons");
_Static_assert(COUNT_NEUTRAL_REASON + NEUTRAL_REASONS <= COUNT_REFUSED_BY, "reasons fit");
_Static_assert(COUNTERS * sizeof(uint64_t) % 64 == 0, "a shard is whole cache lines");

/* The places are part of the layout: append only. 0 stands for all others. */
#define GRPC_UNAVAILABLE (GRPC_STATUS_BASE + 14)
static const uint16_t statuses[] = {0,   500, 501, 502, 503, 504, 505, 506,
                                    507, 508, 509, 510, 511, 429, 408, GRPC_UNAVAILABLE};
#define STATUSES (sizeof statuses / sizeof *statuses)
_Static_assert(COUNT_HTTP_STATUS + STATUSES <= COUNTERS, "statuses fit");

unsigned int counter_of_status(unsigned int http_status)
{
    unsigned int place = STATUSES - 1;

    while (place > 0 && statuses[place] != http_status)
        place--;
    return COUNT_HTTP_STATUS + place;
}

bool counter_status(unsigned int place, unsigned int *http_status)
{
    if (place >= STATUSES)
        return false;
    *http_status = statuses[place];
    return true;
}

void counters_add(struct counters *counters, unsigned int shard, unsigned int counter)
{
    if (counter < COUNTERS)
        atomic_fetch_add_explicit(&counters->shard[shard % COUNTER_SHARDS][counter], 1, memory_order_relaxed);
}

void counters_take_back(struct counters *counters, unsigned int shard, unsigned int counter)
{
    if (counter < COUNTERS)
        atomic_fetch_sub_explicit(&counters->shard[shard % COUNTER_SHARDS][counter], 1, memory_order_relaxed);
}

uint64_t counters_sum(const struct counters *counters, unsigned int counter)
{
    uint64_t sum = 0;

    if (counter >= COUNTERS)
        return 0;
    for (unsigned int shard = 0; shard < COUNTER_SHARDS; shard++)
        sum += atomic_load_explicit(&counters->shard[shard][counter], memory_order_relaxed);
    return sum;
}

uint32_t counters_in_flight(const struct counters *counters)
{
    /* These six are one line of a shard. Outcomes first: what begins and ends meanwhile is not counted twice. */
    static const enum counter outcomes[] = {COUNT_SUCCEEDED, COUNT_FAILED, COUNT_NEUTRAL, COUNT_BUSINESS, COUNT_LATE};
    uint64_t ended = 0;

    for (unsigned int i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        ended += counters_sum(counters, outcomes[i]);
    uint64_t admitted = counters_sum(counters, COUNT_ADMITTED);
    if (admitted <= ended)
        return 0;
    return admitted - ended < UINT32_MAX ? (uint32_t)(admitted - ended) : UINT32_MAX;
}
