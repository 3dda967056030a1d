/*
 * counters.c - what a circuit counts, in shards.
 *
 * Relaxed throughout: a counter orders nothing and decides nothing; the sum may be a moment old.
 */
#include "breaker/counters.h"

#include <stdatomic.h>

_Static_assert((unsigned int)COUNT_FAILURE_KIND + FAILURE_KINDS <= COUNT_NEUTRAL_REASON, "kinds fit below the reasons");
_Static_assert((unsigned int)COUNT_NEUTRAL_REASON + NEUTRAL_REASONS <= COUNTERS, "reasons fit");
_Static_assert(COUNTERS * sizeof(uint64_t) % 64 == 0, "a shard is whole cache lines");

void counters_add(struct counters *counters, unsigned int shard, unsigned int counter)
{
    if (counter < COUNTERS)
        atomic_fetch_add_explicit(&counters->shard[shard % COUNTER_SHARDS][counter], 1, memory_order_relaxed);
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
