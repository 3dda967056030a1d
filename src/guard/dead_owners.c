/*
 * dead_owners.c - see dead_owners.h.
 *
 * The header has the number of deaths, and in one word how many there were when the present round began and how far it
 * has come. Whoever does a part does its records first and moves the word on then: who is killed in between leaves the
 * part to be done again, and doing it again finds nothing. A death during a round makes the next one.
 */
#include "guard/dead_owners.h"

#include <stdatomic.h>

#include "base/frame.h"
#include "guard/settle.h"
#include "segment/bulkhead.h"
#include "segment/circuits.h"
#include "segment/layout.h"
#include "segment/processes.h"

/* Records that one wrapper looks at, and gives back at the most. */
#define LOOKED_AT 512u
#define BURIED_AT_ONCE 32u
/* How far a round has come, when it is over. */
#define ROUND_OVER UINT32_MAX

void bury_record(const struct guard *guard, uint32_t call, const struct call_view *view, unsigned int shard,
                 uint64_t now_ns)
{
    struct segment *segment = guard->segment;

    if (view->in_flight) {
        /* Of many who find it one settles it, and that one has the rest to do. */
        if (!calls_settle(segment, call, view, CALL_SETTLED))
            return;
        settle_unknown(guard, shard, view, view->started_ns, now_ns);
    }
    bulkhead_give(segment, call, view->owner, 0);
    calls_release(segment, call, view->owner);
}

/* Looks through some records; returns where to go on. */
static uint32_t bury_among(const struct guard *guard, uint32_t first, uint32_t end, unsigned int shard, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    uint32_t living = 0, buried = 0;

    for (uint32_t call = first; call < end; call++) {
        uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_acquire);
        struct call_view view;

        if (owner == 0) {
            claim_hint(segment, call);
            continue;
        }
        if (owner == living || owner == guard->holder)
            continue;
        if (process_asked(segment, owner) != NULL) {
            living = owner;
            continue;
        }
        if (buried++ == BURIED_AT_ONCE)
            return call;
        if (calls_read_own(segment, call, owner, &view))
            bury_record(guard, call, &view, shard, now_ns);
    }
    return end;
}

bool bury_is_due(const struct segment *segment)
{
    uint64_t round = atomic_load_explicit(&segment->map->burial, memory_order_relaxed);

    return (uint32_t)round != ROUND_OVER ||
           (uint32_t)(round >> 32) != atomic_load_explicit(&segment->map->deaths, memory_order_relaxed);
}

OWN_FRAME void bury_some(const struct guard *guard, unsigned int shard, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    uint64_t round = atomic_load_explicit(&segment->map->burial, memory_order_relaxed);
    /* Acquire: the dead one's slot is free by then. */
    uint32_t deaths = atomic_load_explicit(&segment->map->deaths, memory_order_acquire);
    uint32_t at = (uint32_t)round, limit;

    if (at == ROUND_OVER) {
        if ((uint32_t)(round >> 32) == deaths)
            return;
        at = 0;
    } else {
        deaths = (uint32_t)(round >> 32); /* as it was when the round began */
    }
    limit = calls_limit(segment);
    if (at < limit) {
        uint32_t end = limit - at > LOOKED_AT ? at + LOOKED_AT : limit;
        at = bury_among(guard, at, end, shard, now_ns);
    }
    if (at >= limit)
        at = ROUND_OVER;
    /* Release: the next part is done behind this one. Who loses has done it too. */
    atomic_compare_exchange_strong_explicit(&segment->map->burial, &round, (uint64_t)deaths << 32 | at,
                                            memory_order_release, memory_order_relaxed);
}

bool bury_sharers(struct guard *guard, uint32_t circuit, unsigned int shard, uint64_t now_ns, struct asking *asking)
{
    struct segment *segment = guard->segment;
    const uint32_t limit = calls_limit(segment);
    uint32_t first = atomic_load_explicit(&guard->sharers_cursor, memory_order_relaxed), looked = 0;
    bool came_back = false;

    for (; looked < limit && asking->left > 0; looked++) {
        uint32_t call = (first + looked) % limit;
        struct call_view view;

        if (atomic_load_explicit(&segment->call_circuit[call], memory_order_relaxed) != circuit ||
            !calls_read(segment, call, &view) || view.owner == guard->holder)
            continue;
        if (owner_ask(segment, view.owner, asking) == OWNER_IS_DEAD) {
            bury_record(guard, call, &view, shard, now_ns);
            came_back = true;
        }
    }
    atomic_store_explicit(&guard->sharers_cursor, first + looked, memory_order_relaxed);
    return came_back;
}
